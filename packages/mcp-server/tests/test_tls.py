"""HTTPS by both hosts: stalled handshakes, changed certificates, wrong schemes, and invalid certificates."""

from __future__ import annotations

import datetime
import logging
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing
import trustme

from mcp_client import HttpOptions, Tls, open_http
from mcp_core.errors import ConnectionEnded, McpError
from mcp_core.limits import Limits
from mcp_server import Server
from mcp_server.asgi import Receive, Scope, Send
from mcp_server.host.embedded import HttpHost
from mcp_server.host.listeners import listen
from mcp_server.host.timeouts import HostTimeouts
from mcp_server.runners.http import ServeHttpOptions, serve_http
from mcp_server.runners.hypercorn import serve_hypercorn

HOSTS: Final = {"embedded": serve_http, "hypercorn": serve_hypercorn}
each_host = pytest.mark.parametrize("kind", HOSTS)

REQUEST: Final = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


class CertificateFiles:
    """A certificate and its key, in two files."""

    def __init__(self, folder: Path, authority: trustme.CA) -> None:
        self.cert: Final = folder / "cert.pem"
        self.key: Final = folder / "key.pem"
        self._authority: Final = authority

    def issue(
        self, *names: str, since: datetime.datetime | None = None, until: datetime.datetime | None = None
    ) -> trustme.LeafCert:
        """Issue a certificate and write both files."""
        issued = self._authority.issue_cert(*(names or ("127.0.0.1", "localhost")), not_before=since, not_after=until)
        self.write_cert(issued)
        self.write_key(issued)
        return issued

    def write_cert(self, issued: trustme.LeafCert) -> None:
        self.cert.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))

    def write_key(self, issued: trustme.LeafCert) -> None:
        self.key.write_bytes(issued.private_key_pem.bytes())


@pytest.fixture
def files(tmp_path: Path, authority: trustme.CA) -> CertificateFiles:
    made = CertificateFiles(tmp_path, authority)
    made.issue()
    return made


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@asynccontextmanager
async def serving(
    kind: str, files: CertificateFiles | None, timeouts: HostTimeouts | None = None
) -> AsyncIterator[int]:
    """Serve with a health check and yield the port."""
    given = ServeHttpOptions(healthz="/healthz")
    if files is not None:
        given |= ServeHttpOptions(tls_cert=files.cert, tls_key=files.key)
    run = partial(HOSTS[kind], Server("tls", version="1"), "127.0.0.1:0", timeouts=timeouts, **given)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            (url,) = await nursery.start(run)
            yield int(url.removesuffix("/mcp").rpartition(":")[2])
            nursery.cancel_scope.cancel()


async def open_tls(port: int, context: ssl.SSLContext, name: str = "127.0.0.1") -> trio.SSLStream[trio.SocketStream]:
    stream = trio.SSLStream(
        await trio.open_tcp_stream("127.0.0.1", port), context, server_hostname=name, https_compatible=True
    )
    await stream.do_handshake()
    return stream


async def get(port: int, context: ssl.SSLContext, name: str = "127.0.0.1") -> tuple[bytes, bytes | None]:
    """Return the response to a request and the certificate of the server."""
    stream = await open_tls(port, context, name)
    certificate = stream.getpeercert(binary_form=True)
    await stream.send_all(REQUEST)
    found = b"".join([bytes(part) async for part in stream])
    await trio.aclose_forcefully(stream)
    return found, certificate


def der(issued: trustme.LeafCert) -> bytes:
    return ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())


async def read_all(stream: trio.SocketStream) -> bytes:
    try:
        return b"".join([bytes(part) async for part in stream])
    except trio.BrokenResourceError:
        return b""


# --- stalled handshakes -----------------------------------------------------------------------------------------------


def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    handshake = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        handshake.do_handshake()
    return outgoing.read()


STALLS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "nothing": lambda hello: b"",
    "a byte": lambda hello: hello[:1],
    "half of a client hello": lambda hello: hello[: len(hello) // 2],
    "all but the last byte": lambda hello: hello[:-1],
    "only a client hello": lambda hello: hello,
    "only a record header": lambda hello: b"\x16\x03\x01\x40\x00",
}


async def page(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"served"})


@asynccontextmanager
async def embedded(authority: trustme.CA, limits: Limits) -> AsyncIterator[tuple[HttpHost, int]]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    host = HttpHost(page, limits=limits, tls=context)
    listeners = await listen("127.0.0.1:0")
    async with trio.open_nursery() as nursery:
        await nursery.start(host.run, listeners)
        yield host, listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def test_stalled_handshakes_end_at_deadline_without_blocking_others(
    authority: trustme.CA, autojump_clock: trio.testing.MockClock
) -> None:
    hello = client_hello()
    async with embedded(authority, Limits()) as (host, port):
        stalled = []
        for shorten in (*STALLS.values(), *STALLS.values()):
            stalled.append(await trio.open_tcp_stream("127.0.0.1", port))
            await stalled[-1].send_all(shorten(hello))
        assert (await get(port, trusting(authority)))[0].endswith(b"served")
        assert host.connections == len(stalled)
        began = trio.current_time()
        for each in stalled:
            await read_all(each)
            await each.aclose()
        assert trio.current_time() - began <= HostTimeouts().head + HostTimeouts().linger + 1
        await trio.testing.wait_all_tasks_blocked()
        assert host.connections == 0


async def test_host_at_capacity_drops_stalled_handshakes(
    authority: trustme.CA, autojump_clock: trio.testing.MockClock
) -> None:
    async with embedded(authority, Limits(connections=4)) as (_, port):
        stalled = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(8)]
        began = trio.current_time()
        assert (await get(port, trusting(authority)))[0].endswith(b"served")
        assert trio.current_time() - began < HostTimeouts().head
        for each in stalled:
            await each.aclose()


@pytest.mark.parametrize("shorten", STALLS.values(), ids=STALLS)
async def test_hypercorn_ends_stalled_handshake(shorten: Callable[[bytes], bytes], files: CertificateFiles) -> None:
    async with serving("hypercorn", files, HostTimeouts(head=0.05)) as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(shorten(client_hello()))
        await read_all(stream)
        await stream.aclose()


# --- changed certificates ---------------------------------------------------------------------------------------------


@each_host
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_renewed_certificate_used_for_next_connection(
    kind: str, name: str, files: CertificateFiles, authority: trustme.CA
) -> None:
    first = files.issue()
    async with serving(kind, files) as port:
        assert (await get(port, trusting(authority), name))[1] == der(first)
        open_stream = await open_tls(port, trusting(authority), name)
        second = files.issue()
        assert (await get(port, trusting(authority), name))[1] == der(second)
        await open_stream.send_all(REQUEST)
        assert (await open_stream.receive_some()).startswith(b"HTTP/1.1 200")
        await trio.aclose_forcefully(open_stream)


@each_host
async def test_certificate_without_matching_key_used_after_key_arrives(
    kind: str, files: CertificateFiles, authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    first = files.issue()
    async with serving(kind, files) as port:
        second = authority.issue_cert("127.0.0.1")
        files.write_cert(second)
        with caplog.at_level(logging.ERROR, "mcp_server"):
            for _ in range(3):
                assert (await get(port, trusting(authority)))[1] == der(first)
        messages = [each.message for each in caplog.records if "the previous one stays in use" in each.message]
        assert len(messages) == 1
        assert "key.pem" in messages[0]
        files.write_key(second)
        assert (await get(port, trusting(authority)))[1] == der(second)


@pytest.mark.parametrize("fault", ["gone", "empty", "no certificate", "encrypted"])
async def test_unreadable_certificate_file_keeps_previous_certificate(
    fault: str, files: CertificateFiles, authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    first = files.issue()
    async with serving("embedded", files) as port:
        if fault == "gone":
            files.key.unlink()
        elif fault == "encrypted":
            files.key.write_bytes(encrypted(first))
        else:
            files.cert.write_bytes(b"" if fault == "empty" else b"not a certificate")
        for _ in range(2):
            assert (await get(port, trusting(authority)))[1] == der(first)
        assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == 1
        second = files.issue()
        assert (await get(port, trusting(authority)))[1] == der(second)


def encrypted(issued: trustme.LeafCert) -> bytes:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    plain = load_pem_private_key(issued.private_key_pem.bytes(), None)
    return plain.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


# --- the wrong scheme ------------------------------------------------------------------------------------------------


async def test_plain_http_on_https_port_returns_400_with_advice(files: CertificateFiles) -> None:
    async with serving("embedded", files) as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(REQUEST)
        found = await read_all(stream)
        assert found.startswith(b"HTTP/1.1 400 ")
        assert b"this port expects HTTPS: use https:// in the URL" in found
        await stream.aclose()


async def test_tls_on_http_port_returns_400_with_advice() -> None:
    async with serving("embedded", None) as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(client_hello())
        found = await read_all(stream)
        assert found.startswith(b"HTTP/1.1 400 ")
        assert b"this is TLS, and this port expects plain HTTP: use http:// in the URL" in found
        await stream.aclose()


async def connect_error(url: str, tls: Tls | ssl.SSLContext | None) -> McpError:
    """Return the error of a client that cannot connect."""
    with pytest.raises(McpError) as caught:
        async with open_http(url, http=HttpOptions(tls=tls, proxies=False)):
            pass
    return caught.value


@each_host
async def test_client_with_wrong_scheme_error_names_right_scheme(
    kind: str, files: CertificateFiles, authority: trustme.CA
) -> None:
    async with serving(kind, None) as port:
        error = await connect_error(f"https://127.0.0.1:{port}/mcp", trusting(authority))
        assert isinstance(error, ConnectionEnded)
        assert (
            f"https://127.0.0.1:{port}: the server does not use TLS on this port; try http:// instead" in error.message
        )
    async with serving(kind, files) as port:
        error = await connect_error(f"http://127.0.0.1:{port}/mcp", None)
        assert re.search("use https:// (in the URL|instead of http://)", error.message)


# --- certificates that a client rejects -------------------------------------------------------------------------------

PAST: Final = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


@each_host
@pytest.mark.parametrize(
    ("names", "times", "why"),
    [
        ([], (PAST, PAST.replace(year=2021)), "its certificate has expired"),
        ([], (PAST.replace(year=2090), PAST.replace(year=2091)), "its certificate is not valid yet"),
        (["other.example"], None, "its certificate is for another IP address"),
    ],
)
async def test_invalid_certificate_rejected_with_host_and_reason(
    kind: str,
    names: list[str],
    times: tuple[datetime.datetime, datetime.datetime] | None,
    why: str,
    files: CertificateFiles,
    authority: trustme.CA,
) -> None:
    files.issue(*names, since=times and times[0], until=times and times[1])
    async with serving(kind, files) as port:
        error = await connect_error(f"https://127.0.0.1:{port}/mcp", trusting(authority))
    assert isinstance(error, ConnectionEnded)
    assert f"no secure connection to https://127.0.0.1:{port}: {why}" in error.message


async def test_unknown_authority_rejected_with_setting(files: CertificateFiles) -> None:
    async with serving("embedded", files) as port:
        error = await connect_error(f"https://127.0.0.1:{port}/mcp", trusting(trustme.CA()))
    assert "from an authority that is not trusted; to trust the authority, set Tls.ca_file" in error.message


async def test_self_signed_certificate_rejected_with_setting(tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path, trustme.CA())
    write_self_signed(files)
    async with serving("embedded", files) as port:
        error = await connect_error(f"https://127.0.0.1:{port}/mcp", None)
    assert "its certificate is self-signed and not trusted; to trust it, set Tls.ca_file" in error.message


def write_self_signed(files: CertificateFiles) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "localhost")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(PAST)
        .not_valid_after(PAST.replace(year=2090))
        .sign(key, hashes.SHA256())
    )
    files.cert.write_bytes(made.public_bytes(Encoding.PEM))
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
