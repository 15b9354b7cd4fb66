from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
import trio
import trustme
from trio.testing import wait_all_tasks_blocked

from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.limits import Limits
from mcp_core.trio.http_client.errors import HttpConnectionEnded
from mcp_core.trio.http_client.pool import HttpPool
from mcp_core.trio.http_client.tls import Tls

SECRET = "http://me:se%20cret@proxy.example:3128"
BASIC = b"Proxy-Authorization: Basic bWU6c2UgY3JldA=="
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Proxy:
    """A proxy, and the only reachable host.

    It responds to forwarded requests itself, and makes tunnels to one TLS server.
    """

    def __init__(self, proxy_context: ssl.SSLContext | None, server_context: ssl.SSLContext) -> None:
        self._proxy_context = proxy_context
        self._server_context = server_context
        self.answer = ESTABLISHED
        self.connect_requests: list[tuple[str, int]] = []
        self.heads: list[bytes] = []
        self.streams: list[trio.SocketStream] = []

    async def connect(self, host: str, port: int) -> trio.SocketStream:
        self.connect_requests.append((host, port))
        ours, theirs = trio.socket.socketpair()
        self.nursery.start_soon(self._serve, trio.SocketStream(theirs))
        stream = trio.SocketStream(ours)
        self.streams.append(stream)
        return stream

    async def _serve(self, tcp: trio.SocketStream) -> None:
        stream: trio.abc.Stream = tcp
        try:
            if self._proxy_context is not None:
                stream = trio.SSLStream(stream, self._proxy_context, server_side=True, https_compatible=True)
            while head := await stream.receive_some():
                self.heads.append(bytes(head))
                if head.startswith(b"CONNECT"):
                    await stream.send_all(self.answer)
                    stream = trio.SSLStream(stream, self._server_context, server_side=True, https_compatible=True)
                else:
                    await stream.send_all(ANSWER)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            tcp.socket.close()

    nursery: trio.Nursery


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Tls:
    path = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return Tls(ca_file=path)


def _context(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


@asynccontextmanager
async def proxying(authority: trustme.CA, *, secured: bool = False) -> AsyncIterator[Proxy]:
    proxy_context = _context(authority, "proxy.example") if secured else None
    proxy = Proxy(proxy_context, _context(authority, "mcp.example"))
    async with trio.open_nursery() as proxy.nursery:
        yield proxy
        proxy.nursery.cancel_scope.cancel()


async def request(
    proxy: Proxy, url: str, tls: Tls | None, proxies: Mapping[str, str] | None, *, times: int = 1, limits: int = 32_768
) -> bytes:
    pool = HttpPool(proxies=proxies, tls=tls, connect=proxy.connect, limits=Limits(header_bytes=limits))
    answer = b""
    try:
        for _ in range(times):
            async with pool.request("POST", url, [("Authorization", "Bearer t")], b"{}") as response:
                answer = await response.read(99)
    finally:
        await pool.aclose()
    return answer


async def test_http_request_forwarded_by_proxy(authority: trustme.CA) -> None:
    async with proxying(authority) as proxy:
        assert await request(proxy, "http://mcp.example:81/a?b", None, {"http": SECRET}, times=2) == b"ok"
    assert proxy.connect_requests == [("proxy.example", 3128)]
    for head in proxy.heads:
        assert head.startswith(b"POST http://mcp.example:81/a?b HTTP/1.1\r\nHost: mcp.example:81\r\n")
        assert BASIC in head


async def test_https_request_tunneled_without_credentials(authority: trustme.CA, tls: Tls) -> None:
    async with proxying(authority) as proxy:
        assert await request(proxy, "https://mcp.example/a", tls, {"https": SECRET}, times=2) == b"ok"
    assert proxy.connect_requests == [("proxy.example", 3128)]
    tunnel, first, second = proxy.heads
    assert tunnel.startswith(b"CONNECT mcp.example:443 HTTP/1.1\r\nHost: mcp.example:443\r\n")
    assert BASIC in tunnel
    assert b"Bearer" not in tunnel
    assert first == second
    assert first.startswith(b"POST /a HTTP/1.1\r\nHost: mcp.example\r\n")
    assert b"Proxy-Authorization" not in first


async def test_proxy_over_tls_used(authority: trustme.CA, tls: Tls) -> None:
    async with proxying(authority, secured=True) as proxy:
        assert await request(proxy, "https://mcp.example/", tls, {"all": "https://proxy.example"}, times=2) == b"ok"
        assert await request(proxy, "http://mcp.example/", tls, {"all": "https://proxy.example"}) == b"ok"
    assert proxy.connect_requests == [("proxy.example", 443)] * 2


async def test_proxy_certificate_of_other_name_rejected(authority: trustme.CA, tls: Tls) -> None:
    async with proxying(authority, secured=True) as proxy:
        with pytest.raises(
            HttpConnectionEnded, match=r"the proxy https://evil\.example: its certificate is for another"
        ):
            await request(proxy, "https://mcp.example/", tls, {"all": "https://evil.example"})
    assert not proxy.heads


async def test_proxy_from_environment_used(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "proxy.example:8080")
    async with proxying(authority) as proxy:
        await request(proxy, "http://mcp.example/", None, None)
        await request(proxy, "http://localhost/", None, None)
    assert proxy.connect_requests == [("proxy.example", 8080), ("localhost", 80)]


async def test_tunnel_ipv6_address_bracketed(authority: trustme.CA, tls: Tls) -> None:
    async with proxying(authority) as proxy:
        with pytest.raises(HttpConnectionEnded, match="another IP address"):
            await request(proxy, "https://[2001:db8::1]/", tls, {"all": "http://proxy.example"})
    assert proxy.heads[0].startswith(b"CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
            "the proxy http://proxy.example:3128 rejected a tunnel to mcp.example:443 with status 407",
        ),
        (ESTABLISHED + b"hello", "the proxy http://proxy.example:3128 sent more than a response to CONNECT"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n",
            "the connection to the proxy http://proxy.example:3128 sent a response with both Content-Length and",
        ),
        (
            b"HTTP/2.0 200 OK\r\n\r\n",
            "the connection to the proxy http://proxy.example:3128 does not carry HTTP/1.1: the response is HTTP/2.0",
        ),
        (b"220 smtp ready\r\n\r\n", "the connection to the proxy http://proxy.example:3128 does not carry HTTP/1.1"),
    ],
)
async def test_tunnel_failure_raises_without_password(
    authority: trustme.CA, tls: Tls, answer: bytes, reason: str
) -> None:
    async with proxying(authority) as proxy:
        proxy.answer = answer
        with pytest.raises(HttpConnectionEnded) as caught:
            await request(proxy, "https://mcp.example/", tls, {"all": SECRET})
        assert str(caught.value).startswith(reason)
        assert "cret" not in str(caught.value)
        assert not caught.value.sent
        assert proxy.streams[0].socket.fileno() == -1


async def test_tunnel_response_over_limit_raises(authority: trustme.CA, tls: Tls) -> None:
    async with proxying(authority) as proxy:
        proxy.answer = b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2_000 + b"\r\n\r\n"
        with pytest.raises(LimitExceeded, match=r"Limits\.header_bytes"):
            await request(proxy, "https://mcp.example/", tls, {"all": SECRET}, limits=1_024)


async def test_unsupported_proxy_raises_on_use(authority: trustme.CA) -> None:
    async with proxying(authority) as proxy:
        assert await request(proxy, "http://mcp.example/", None, {"https": "socks5://p"}) == b"ok"
        with pytest.raises(LocalProtocolError, match="socks5"):
            await request(proxy, "https://mcp.example/", None, {"https": "socks5://p"})
    with pytest.raises(LocalProtocolError, match="unknown key"):
        HttpPool(proxies={"ftp": "http://p"})


async def test_error_behind_proxy_names_both_without_password() -> None:
    ours, theirs = trio.socket.socketpair()

    async def connect(host: str, port: int) -> trio.SocketStream:
        theirs.shutdown(trio.socket.SHUT_WR)
        return trio.SocketStream(ours)

    pool = HttpPool(proxies={"all": SECRET}, connect=connect)
    with pytest.raises(HttpConnectionEnded) as caught:
        async with pool.request("POST", "http://mcp.example/", (), b""):
            pass
    name = "http://mcp.example through the proxy http://proxy.example:3128"
    hint = "if the server uses TLS on this port, use https:// instead of http://"
    assert str(caught.value) == f"the connection to {name} ended without a response; {hint}"
    theirs.close()


async def test_tunnel_cancelled_closes_socket(authority: trustme.CA, tls: Tls) -> None:
    async with proxying(authority) as proxy:
        proxy.answer = b"HTTP/1.1 200"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_request_through_tunnel, proxy, tls)
            await wait_all_tasks_blocked()
            assert len(proxy.heads) == 1
            nursery.cancel_scope.cancel()
        assert proxy.streams[0].socket.fileno() == -1


async def _request_through_tunnel(proxy: Proxy, tls: Tls) -> None:
    await request(proxy, "https://mcp.example/", tls, {"all": SECRET})
