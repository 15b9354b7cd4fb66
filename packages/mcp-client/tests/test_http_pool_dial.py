from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
import trio
import trustme
from trio.testing import wait_all_tasks_blocked

from mcp_client.http_client.errors import HttpConnectionEnded
from mcp_client.http_client.pool import HttpPool
from mcp_client.http_client.tls import Tls
from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.limits import Limits

SECRET = "http://me:se%20cret@proxy.example:3128"
BASIC = b"Proxy-Authorization: Basic bWU6c2UgY3JldA=="
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Proxy:
    """A proxy, and the only machine that can be reached.

    It answers what is forwarded itself, and makes tunnels to one server with TLS behind it.
    """

    def __init__(self, own: ssl.SSLContext | None, behind: ssl.SSLContext) -> None:
        self._own = own
        self._behind = behind
        self.answer = ESTABLISHED
        self.dialled: list[tuple[str, int]] = []
        self.heads: list[bytes] = []
        self.streams: list[trio.SocketStream] = []

    async def connect(self, host: str, port: int) -> trio.SocketStream:
        self.dialled.append((host, port))
        ours, theirs = trio.socket.socketpair()
        self.nursery.start_soon(self._serve, trio.SocketStream(theirs))
        stream = trio.SocketStream(ours)
        self.streams.append(stream)
        return stream

    async def _serve(self, tcp: trio.SocketStream) -> None:
        stream: trio.abc.Stream = tcp
        try:
            if self._own is not None:
                stream = trio.SSLStream(stream, self._own, server_side=True, https_compatible=True)
            while head := await stream.receive_some():
                self.heads.append(bytes(head))
                if head.startswith(b"CONNECT"):
                    await stream.send_all(self.answer)
                    stream = trio.SSLStream(stream, self._behind, server_side=True, https_compatible=True)
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
    own = _context(authority, "proxy.example") if secured else None
    proxy = Proxy(own, _context(authority, "mcp.example"))
    async with trio.open_nursery() as proxy.nursery:
        yield proxy
        proxy.nursery.cancel_scope.cancel()


async def ask(
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


async def test_plain_requests_are_made_by_the_proxy(authority: trustme.CA) -> None:
    async with proxying(authority) as proxy:
        assert await ask(proxy, "http://mcp.example:81/a?b", None, {"http": SECRET}, times=2) == b"ok"
    assert proxy.dialled == [("proxy.example", 3128)]
    for head in proxy.heads:
        assert head.startswith(b"POST http://mcp.example:81/a?b HTTP/1.1\r\nHost: mcp.example:81\r\n")
        assert BASIC in head


async def test_secured_requests_go_through_a_tunnel_that_sees_nothing(authority: trustme.CA, tls: Tls) -> None:
    async with proxying(authority) as proxy:
        assert await ask(proxy, "https://mcp.example/a", tls, {"https": SECRET}, times=2) == b"ok"
    assert proxy.dialled == [("proxy.example", 3128)]
    tunnel, first, second = proxy.heads
    assert tunnel.startswith(b"CONNECT mcp.example:443 HTTP/1.1\r\nHost: mcp.example:443\r\n")
    assert BASIC in tunnel
    assert b"Bearer" not in tunnel
    assert first == second
    assert first.startswith(b"POST /a HTTP/1.1\r\nHost: mcp.example\r\n")
    assert b"Proxy-Authorization" not in first


async def test_the_way_to_the_proxy_can_be_secured_too(authority: trustme.CA, tls: Tls) -> None:
    async with proxying(authority, secured=True) as proxy:
        assert await ask(proxy, "https://mcp.example/", tls, {"all": "https://proxy.example"}, times=2) == b"ok"
        assert await ask(proxy, "http://mcp.example/", tls, {"all": "https://proxy.example"}) == b"ok"
    assert proxy.dialled == [("proxy.example", 443)] * 2


async def test_a_proxy_with_the_certificate_of_another_is_refused(authority: trustme.CA, tls: Tls) -> None:
    async with proxying(authority, secured=True) as proxy:
        with pytest.raises(
            HttpConnectionEnded, match=r"the proxy https://evil\.example: its certificate is for another"
        ):
            await ask(proxy, "https://mcp.example/", tls, {"all": "https://evil.example"})
    assert not proxy.heads


async def test_the_environment_tells_the_proxy(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "proxy.example:8080")
    async with proxying(authority) as proxy:
        await ask(proxy, "http://mcp.example/", None, None)
        await ask(proxy, "http://localhost/", None, None)
    assert proxy.dialled == [("proxy.example", 8080), ("localhost", 80)]


async def test_an_address_is_bracketed_for_the_tunnel(authority: trustme.CA, tls: Tls) -> None:
    async with proxying(authority) as proxy:
        with pytest.raises(HttpConnectionEnded, match="another IP address"):
            await ask(proxy, "https://[2001:db8::1]/", tls, {"all": "http://proxy.example"})
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
async def test_a_tunnel_that_is_not_made_is_told_without_the_password(
    authority: trustme.CA, tls: Tls, answer: bytes, reason: str
) -> None:
    async with proxying(authority) as proxy:
        proxy.answer = answer
        with pytest.raises(HttpConnectionEnded) as told:
            await ask(proxy, "https://mcp.example/", tls, {"all": SECRET})
        assert str(told.value).startswith(reason)
        assert "cret" not in str(told.value)
        assert not told.value.sent
        assert proxy.streams[0].socket.fileno() == -1


async def test_the_answer_of_a_proxy_is_bounded(authority: trustme.CA, tls: Tls) -> None:
    async with proxying(authority) as proxy:
        proxy.answer = b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2_000 + b"\r\n\r\n"
        with pytest.raises(LimitExceeded, match=r"Limits\.header_bytes"):
            await ask(proxy, "https://mcp.example/", tls, {"all": SECRET}, limits=1_024)


async def test_a_proxy_that_cannot_be_used_is_told_when_it_is_needed(authority: trustme.CA) -> None:
    async with proxying(authority) as proxy:
        assert await ask(proxy, "http://mcp.example/", None, {"https": "socks5://p"}) == b"ok"
        with pytest.raises(LocalProtocolError, match="socks5"):
            await ask(proxy, "https://mcp.example/", None, {"https": "socks5://p"})
    with pytest.raises(LocalProtocolError, match="unknown key"):
        HttpPool(proxies={"ftp": "http://p"})


async def test_errors_behind_a_proxy_name_both_and_no_password() -> None:
    ours, theirs = trio.socket.socketpair()

    async def connect(host: str, port: int) -> trio.SocketStream:
        theirs.shutdown(trio.socket.SHUT_WR)
        return trio.SocketStream(ours)

    pool = HttpPool(proxies={"all": SECRET}, connect=connect)
    with pytest.raises(HttpConnectionEnded) as told:
        async with pool.request("POST", "http://mcp.example/", (), b""):
            pass
    name = "http://mcp.example through the proxy http://proxy.example:3128"
    hint = "if the server uses TLS on this port, use https:// instead of http://"
    assert str(told.value) == f"the connection to {name} ended without a response; {hint}"
    theirs.close()


async def test_cancelling_while_a_tunnel_is_made_leaves_no_socket(authority: trustme.CA, tls: Tls) -> None:
    async with proxying(authority) as proxy:
        proxy.answer = b"HTTP/1.1 200"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_ask_in_vain, proxy, tls)
            await wait_all_tasks_blocked()
            assert len(proxy.heads) == 1
            nursery.cancel_scope.cancel()
        assert proxy.streams[0].socket.fileno() == -1


async def _ask_in_vain(proxy: Proxy, tls: Tls) -> None:
    await ask(proxy, "https://mcp.example/", tls, {"all": SECRET})
