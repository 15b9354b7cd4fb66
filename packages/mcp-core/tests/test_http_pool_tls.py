from __future__ import annotations

import datetime
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio
import trustme
import truststore
from trio.testing import MockClock

from mcp_core.errors import LocalProtocolError, RequestTimeout
from mcp_core.trio.http_client.errors import HttpConnectionEnded
from mcp_core.trio.http_client.pool import HttpPool
from mcp_core.trio.http_client.tls import Tls, explain, make_context

URL = "https://mcp.example/mcp"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


def context_with(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


class TlsServer:
    """A server that sends the same response after every read."""

    def __init__(self, context: ssl.SSLContext, listener: trio.SocketListener) -> None:
        self.context = context
        self.listener = listener
        self.accepted = 0
        self.alpn_protocols: list[str | None] = []

    async def connect(self, host: str, port: int) -> trio.SocketStream:
        return await trio.open_tcp_stream(*self.listener.socket.getsockname())

    async def serve(self, tcp: trio.SocketStream) -> None:
        self.accepted += 1
        stream = trio.SSLStream(tcp, self.context, server_side=True, https_compatible=True)
        try:
            await stream.do_handshake()
            self.alpn_protocols.append(stream.selected_alpn_protocol())
            while await stream.receive_some():
                await stream.send_all(ANSWER)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(tcp)


@asynccontextmanager
async def serving(context: ssl.SSLContext) -> AsyncIterator[TlsServer]:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = TlsServer(context, listener)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, server.serve, [listener])
        yield server
        nursery.cancel_scope.cancel()


async def request(server: TlsServer, tls: Tls | ssl.SSLContext | None, *, url: str = URL, times: int = 1) -> bytes:
    pool = HttpPool(proxies=False, tls=tls, connect=server.connect)
    answer = b""
    try:
        for _ in range(times):
            async with pool.request("POST", url, (), b"{}") as response:
                answer = await response.read(99)
    finally:
        await pool.aclose()
    return answer


async def test_tls_connection_reused_with_http_1_1(authority: trustme.CA, ca_file: Path) -> None:
    async with serving(context_with(authority.issue_cert("mcp.example"))) as server:
        assert await request(server, Tls(ca_file=ca_file), times=2) == b"ok"
        assert server.accepted == 1
        assert server.alpn_protocols == ["http/1.1"]


async def test_default_trust_is_of_system(
    authority: trustme.CA, ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(context_with(authority.issue_cert("mcp.example"))) as server:
        with pytest.raises(HttpConnectionEnded, match="from an authority that is not trusted"):
            await request(server, None)
        monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
        assert await request(server, None) == b"ok"


async def test_ca_file_replaces_system_trust(
    authority: trustme.CA, ca_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    async with serving(context_with(authority.issue_cert("mcp.example"))) as server:
        with pytest.raises(
            HttpConnectionEnded, match=r"no secure connection to https://mcp\.example: its cert"
        ) as caught:
            await request(server, Tls(ca_file=other))
        assert not caught.value.sent


async def test_system_trust_loaded_once(authority: trustme.CA, ca_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    loads: list[None] = []

    def count(self: ssl.SSLContext) -> None:
        loads.append(None)
        original(self)

    original = ssl.SSLContext.set_default_verify_paths
    monkeypatch.setattr(ssl.SSLContext, "set_default_verify_paths", count)
    async with serving(context_with(authority.issue_cert("mcp.example"))) as server:
        pool = HttpPool(proxies=False, connect=server.connect)
        async with pool.request("POST", URL, (), b"1"), pool.request("POST", URL, (), b"2"):
            pass
        await pool.aclose()
        assert server.accepted == 2
    assert len(loads) == 1


async def test_certificate_of_other_name_rejected(authority: trustme.CA, ca_file: Path) -> None:
    async with serving(context_with(authority.issue_cert("other.example"))) as server:
        with pytest.raises(HttpConnectionEnded, match="its certificate is for another host name"):
            await request(server, Tls(ca_file=ca_file))
        with pytest.raises(HttpConnectionEnded, match="its certificate is for another IP address"):
            await request(server, Tls(ca_file=ca_file), url="https://127.0.0.1/")


async def test_certificate_for_address_and_trailing_dot_accepted(authority: trustme.CA, ca_file: Path) -> None:
    async with serving(context_with(authority.issue_cert("127.0.0.1", "mcp.example"))) as server:
        assert await request(server, Tls(ca_file=ca_file), url="https://127.0.0.1/") == b"ok"
        assert await request(server, Tls(ca_file=ca_file), url="https://mcp.example./") == b"ok"


async def test_certificate_outside_validity_rejected(authority: trustme.CA, ca_file: Path) -> None:
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    expired = authority.issue_cert("mcp.example", not_before=past, not_after=past.replace(year=2021))
    async with serving(context_with(expired)) as server:
        with pytest.raises(HttpConnectionEnded, match="its certificate has expired"):
            await request(server, Tls(ca_file=ca_file))
    early = authority.issue_cert("mcp.example", not_before=past.replace(year=2090), not_after=past.replace(year=2091))
    async with serving(context_with(early)) as server:
        with pytest.raises(HttpConnectionEnded, match="its certificate is not valid yet"):
            await request(server, Tls(ca_file=ca_file))


async def test_client_certificate_sent(authority: trustme.CA, ca_file: Path, tmp_path: Path) -> None:
    client_certificate = authority.issue_cert("client@example.com")
    certificate, key, both = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "both.pem"
    client_certificate.cert_chain_pems[0].write_to_path(certificate)
    client_certificate.private_key_pem.write_to_path(key)
    client_certificate.private_key_and_cert_chain_pem.write_to_path(both)
    context = context_with(authority.issue_cert("mcp.example"))
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    async with serving(context) as server:
        assert await request(server, Tls(ca_file=ca_file, certificate=certificate, key=key)) == b"ok"
        assert await request(server, Tls(ca_file=ca_file, certificate=both)) == b"ok"


async def test_client_certificate_required_error_names_setting(authority: trustme.CA, ca_file: Path) -> None:
    context = context_with(authority.issue_cert("mcp.example"))
    context.verify_mode = ssl.CERT_REQUIRED
    ours, theirs = socket.socketpair()

    def serve() -> None:
        secured = context.wrap_socket(theirs, server_side=True, do_handshake_on_connect=False)
        with pytest.raises(ssl.SSLError):
            secured.do_handshake()
        with socket.socket(fileno=secured.detach()) as raw:
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(4096):
                pass

    async def connect(host: str, port: int) -> trio.SocketStream:
        return trio.SocketStream(trio.socket.from_stdlib_socket(ours))

    pool = HttpPool(proxies=False, tls=Tls(ca_file=ca_file), connect=connect)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, serve)
        with pytest.raises(
            HttpConnectionEnded, match=r"the server requires a client certificate; set Tls\.certificate"
        ):
            async with pool.request("POST", URL, (), b"{}"):
                pass


async def test_own_context_used_unchanged(authority: trustme.CA) -> None:
    own = ssl.create_default_context()
    authority.configure_trust(own)
    assert make_context(own) is own
    async with serving(context_with(authority.issue_cert("mcp.example"))) as server:
        assert await request(server, own) == b"ok"
        assert server.alpn_protocols == [None]
        own.set_alpn_protocols(["h2"])
        with pytest.raises(
            HttpConnectionEnded,
            match=r"selected h2, which the SSLContext offers, but this client supports only http/1\.1",
        ):
            await request(server, own)


async def test_server_without_tls_error_advises_http() -> None:
    async def plain(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = TlsServer(ssl.create_default_context(), listener)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, plain, [listener])
        with pytest.raises(HttpConnectionEnded, match="does not use TLS on this port; try http:// instead"):
            await request(server, None)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("answer", [b"", b"\x15\x03\x01\x00\x02\x02\x46"], ids=["nothing", "alert"])
async def test_server_with_tls_over_http_error_advises_https(answer: bytes) -> None:
    async def plain(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(answer)

    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = TlsServer(ssl.create_default_context(), listener)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, plain, [listener])
        with pytest.raises(
            HttpConnectionEnded, match="if the server uses TLS on this port, use https:// instead of http://"
        ):
            await request(server, None, url=URL.replace("https", "http"))
        nursery.cancel_scope.cancel()


async def test_handshake_connection_closed_raises() -> None:
    async def leave(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.aclose()

    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = TlsServer(ssl.create_default_context(), listener)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, leave, [listener])
        with pytest.raises(HttpConnectionEnded, match="the connection ended during the TLS handshake") as caught:
            await request(server, None)
        assert not caught.value.sent
        nursery.cancel_scope.cancel()


async def test_handshake_hanging_times_out_and_closes_socket(autojump_clock: MockClock) -> None:
    ours, theirs = trio.socket.socketpair()

    async def connect(host: str, port: int) -> trio.SocketStream:
        return trio.SocketStream(ours)

    pool = HttpPool(proxies=False, connect=connect, connect_seconds=3)
    with pytest.raises(RequestTimeout, match="the connect deadline of 3 s"):
        async with pool.request("GET", URL):
            pass
    assert ours.fileno() == -1
    theirs.close()


@pytest.mark.parametrize("missing", ["ca_file", "certificate"])
def test_missing_file_named(missing: str, tmp_path: Path) -> None:
    path = tmp_path / "nothing.pem"
    tls = Tls(ca_file=path) if missing == "ca_file" else Tls(certificate=path)
    with pytest.raises(LocalProtocolError, match=r"nothing\.pem\)?: No such file"):
        make_context(tls)


def test_invalid_file_named(tmp_path: Path) -> None:
    path = tmp_path / "letter.pem"
    path.write_text("Dear Sir or Madam")
    with pytest.raises(LocalProtocolError, match=r"letter\.pem: NO_CERTIFICATE_OR_CRL_FOUND"):
        make_context(Tls(ca_file=path))
    with pytest.raises(LocalProtocolError, match=r"letter\.pem\): \S"):
        make_context(Tls(certificate=path))


def test_encrypted_key_requires_password(authority: trustme.CA, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    client_certificate = authority.issue_cert("client@example.com")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    client_certificate.cert_chain_pems[0].write_to_path(certificate)
    plain = load_pem_private_key(client_certificate.private_key_pem.bytes(), None)
    key.write_bytes(plain.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    tls = Tls(certificate=certificate, key=key, key_password="secret")
    assert "secret" not in repr(tls)
    make_context(tls)
    with pytest.raises(LocalProtocolError, match=r"the key is encrypted; set Tls\.key_password"):
        make_context(Tls(certificate=certificate, key=key))
    with pytest.raises(LocalProtocolError, match=r"cert\.pem and .*key\.pem\):") as refused:
        make_context(Tls(certificate=certificate, key=key, key_password="wrong-one"))
    assert "wrong-one" not in str(refused.value)


def test_key_without_certificate_rejected(tmp_path: Path) -> None:
    with pytest.raises(LocalProtocolError, match=r"Tls\.key requires Tls\.certificate"):
        make_context(Tls(key=tmp_path / "key.pem"))


def test_default_context_verifies_certificates() -> None:
    context = make_context(None)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_context_without_openssl_paths_uses_truststore(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nowhere = SimpleNamespace(cafile=None, capath=None)
    with monkeypatch.context() as patched:
        patched.setattr(ssl, "get_default_verify_paths", lambda: nowhere)
        assert isinstance(make_context(None), truststore.SSLContext)
    monkeypatch.setattr("sys.platform", "darwin")
    assert isinstance(make_context(None), truststore.SSLContext)


def test_unknown_tls_error_explained_with_system_message() -> None:
    refused = ssl.SSLCertVerificationError(1, "x")
    refused.verify_code, refused.verify_message = 99_999, "the moon is full"
    assert explain(refused) == "its certificate was rejected: the moon is full"
    failed = ssl.SSLError(1, "odd things")
    assert explain(failed) == "TLS failed: odd things"
    wrapped = trio.BrokenResourceError()
    wrapped.__cause__ = refused
    assert explain(wrapped) == explain(refused)
    assert explain(trio.BrokenResourceError()) is None
    assert explain(ssl.SSLEOFError(8, "EOF")) is None
    assert explain(None) is None
