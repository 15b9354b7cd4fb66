"""The guarded fetch: allowed targets, redirects, and limits."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest
import trio
import trustme
from http_hosts import served

from mcp_core.oauth.addresses import AddressClass
from mcp_server.asgi import Receive, Scope, Send
from mcp_server.auth import fetch as fetch_module
from mcp_server.auth.fetch import FetchRefused, fetch, fetch_json

LOOPBACK_ALLOWED = frozenset({AddressClass.PUBLIC, AddressClass.LOOPBACK})
PUBLIC = frozenset({AddressClass.PUBLIC})

SiteResponse = tuple[int, dict[str, str], bytes]
Entry = (
    tuple[Literal[socket.AddressFamily.AF_INET], socket.SocketKind, int, str, tuple[str, int]]
    | tuple[
        Literal[socket.AddressFamily.AF_INET6],
        socket.SocketKind,
        int,
        str,
        tuple[str, int, int, int] | tuple[int, bytes],
    ]
)


class DocumentSite:
    """A server with one response per path, which records its requests."""

    def __init__(self, **answers: SiteResponse) -> None:
        self.answers = {f"/{path.replace('__', '/')}": answer for path, answer in answers.items()}
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        body = message.get("body", b"")
        assert isinstance(body, bytes)
        serve_raw = scope["headers"]
        assert isinstance(serve_raw, list)
        headers = {name.decode(): value.decode() for name, value in serve_raw}
        path = str(scope["path"])
        self.requests.append((str(scope["method"]), path, headers, body))
        status, more, data = self.answers.get(path, (404, {}, b"nothing"))
        pairs = [(name.encode(), value.encode()) for name, value in more.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": data})


async def test_fetch_returns_response_with_any_status() -> None:
    site = DocumentSite(a=(200, {"x-a": "1"}, b"[1]"))
    async with served(site, "embedded") as url:
        answer = await fetch(f"{url}/a", headers=(("accept", "x/y"),), networks=LOOPBACK_ALLOWED)
        assert (answer.status, answer.header("X-A"), answer.body) == (200, "1", b"[1]")
        assert (await fetch(f"{url}/b", networks=LOOPBACK_ALLOWED)).status == 404
        posted = await fetch(f"{url}/a", method="POST", body=b"x=1", networks=LOOPBACK_ALLOWED)
        assert posted.status == 200
    assert [(method, path, body) for method, path, _, body in site.requests] == [
        ("GET", "/a", b""),
        ("GET", "/b", b""),
        ("POST", "/a", b"x=1"),
    ]
    assert site.requests[0][2]["accept"] == "x/y"
    assert site.requests[0][2]["host"] == url.removeprefix("http://")


async def test_fetch_json_requires_object_with_status_200() -> None:
    site = DocumentSite(
        good=(200, {}, b'{"a": 1}'), list=(200, {}, b"[]"), text=(200, {}, b"<html>"), odd=(201, {}, b"{}")
    )
    async with served(site, "embedded") as url:
        assert await fetch_json(f"{url}/good", networks=LOOPBACK_ALLOWED) == {"a": 1}
        for path, reason in (
            ("list", "not an object"),
            ("text", "not JSON"),
            ("odd", "status 201"),
            ("none", "status 404"),
        ):
            with pytest.raises(FetchRefused, match=reason):
                await fetch_json(f"{url}/{path}", networks=LOOPBACK_ALLOWED)
    assert site.requests[0][2]["accept"] == "application/json"


@pytest.mark.spec("auth.cimd-as-ssrf", "security.block-private-ranges", "security.oauth-https")
@pytest.mark.parametrize(
    "url",
    [
        "http://as.example/",
        "https://127.0.0.1/",
        "https://localhost/",
        "https://[::1]/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest",
        "https://[::ffff:10.0.0.1]/",
        "https://0x7f.1/",
        "https://2130706433/",
        "https://user@as.example/",
        "https://as.example/#x",
        "file:///etc/passwd",
        "gopher://as.example/",
        "//as.example/",
        "",
    ],
)
async def test_unsafe_url_not_requested(url: str) -> None:
    with pytest.raises(FetchRefused, match="cannot fetch") as caught:
        await fetch(url, networks=PUBLIC)
    assert caught.value.url == url


class FakeResolver(trio.abc.HostnameResolver):
    """A resolver with the same addresses for each name."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.names: list[str] = []

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[Entry]:
        assert host is not None
        self.names.append(host.decode())
        if not self.addresses:
            raise socket.gaierror(-2, "unknown name")
        return [self.entry(address, int(port or 0)) for address in self.addresses]

    @staticmethod
    def entry(address: str, port: int) -> Entry:
        if ":" in address:
            return socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0)
        return socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)

    async def getnameinfo(self, sockaddr: object, flags: int) -> tuple[str, str]:
        raise AssertionError


@pytest.mark.spec("auth.cimd-as-ssrf", "security.block-private-ranges")
@pytest.mark.parametrize(
    ("addresses", "reason"),
    [
        (("10.0.0.1",), "10.0.0.1, a private address"),
        (("127.0.0.1",), "a loopback address"),
        (("169.254.169.254",), "a cloud metadata address"),
        (("fe80::1%1",), "a link-local address"),
        (("93.184.216.34", "10.0.0.1"), "10.0.0.1, a private address"),
        (("::ffff:127.0.0.1",), "a loopback address"),
        ((), "cannot connect to https://as.example: unknown name"),
    ],
)
async def test_name_with_private_address_not_requested(addresses: tuple[str, ...], reason: str) -> None:
    resolver = FakeResolver(*addresses)
    trio.socket.set_custom_hostname_resolver(resolver)
    with pytest.raises(FetchRefused, match=reason):
        await fetch("https://as.example/", networks=PUBLIC)
    assert resolver.names == ["as.example"]


async def test_connection_goes_to_checked_address() -> None:
    site = DocumentSite(a=(200, {}, b"here"))
    async with served(site, "embedded") as url:
        port = url.rpartition(":")[2]
        # No server listens at the first address. A second resolution would be recorded.
        resolver = FakeResolver("127.0.0.9", "127.0.0.1")
        trio.socket.set_custom_hostname_resolver(resolver)
        answer = await fetch(f"http://as.localhost:{port}/a", networks=LOOPBACK_ALLOWED)
    assert answer.body == b"here"
    assert resolver.names == ["as.localhost"]
    assert site.requests[0][2]["host"] == f"as.localhost:{port}"


@asynccontextmanager
async def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *resolver: str) -> AsyncIterator[int]:
    """Run a server with a certificate by a trusted authority for these names; yield its port."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*resolver).configure_cert(context)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    fetch_module._tls.cache_clear()

    async def answer(stream: trio.SSLStream[trio.SocketStream]) -> None:
        try:
            await stream.receive_some()
            await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client rejects the certificate

    async with trio.open_nursery() as nursery:
        (plain,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, answer, [trio.SSLListener(plain, context, https_compatible=True)])
        yield plain.socket.getsockname()[1]
        nursery.cancel_scope.cancel()
    fetch_module._tls.cache_clear()


async def test_certificate_of_other_name_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trio.socket.set_custom_hostname_resolver(FakeResolver("127.0.0.1"))
    networks = PUBLIC | {AddressClass.LOOPBACK}
    async with secure(tmp_path, monkeypatch, "as.example") as port:
        assert (await fetch(f"https://as.example:{port}/", networks=networks)).body == b"secret"
        with pytest.raises(FetchRefused, match="certificate"):
            await fetch(f"https://other.example:{port}/", networks=networks)


@pytest.mark.spec("security.redirect-targets-validated")
async def test_redirect_within_origin_followed_once() -> None:
    site = DocumentSite(
        a=(302, {"location": "/b"}, b""),
        b=(200, {}, b"there"),
        c=(301, {"location": "/a"}, b""),
        away=(302, {"location": "https://evil.example/"}, b""),
        down=(302, {"location": "http://169.254.169.254/"}, b""),
        odd=(302, {"location": "https://[::1"}, b""),
        none=(302, {}, b"nowhere"),
    )
    async with served(site, "embedded") as url:
        assert (await fetch(f"{url}/a", networks=LOOPBACK_ALLOWED)).body == b"there"
        assert (await fetch(f"{url}/none", networks=LOOPBACK_ALLOWED)).status == 302
        # A POST may carry secrets, so its redirects are not followed.
        assert (await fetch(f"{url}/a", method="POST", body=b"x", networks=LOOPBACK_ALLOWED)).status == 302
        count = len(site.requests)
        for path, reason in (
            ("c", "second redirect"),
            ("away", "another origin"),
            ("down", "not https"),
            ("odd", "URL"),
        ):
            with pytest.raises(FetchRefused, match=reason):
                await fetch(f"{url}/{path}", networks=LOOPBACK_ALLOWED)
    assert [path for _, path, _, _ in site.requests[count:]] == ["/c", "/a", "/away", "/down", "/odd"]


async def test_response_over_size_limit_rejected() -> None:
    async with served(DocumentSite(a=(200, {}, b"x" * 1_001)), "embedded") as url:
        assert len((await fetch(f"{url}/a", networks=LOOPBACK_ALLOWED, limit=1_001)).body) == 1_001
        with pytest.raises(FetchRefused, match="exceeds 1000 bytes"):
            await fetch(f"{url}/a", networks=LOOPBACK_ALLOWED, limit=1_000)


@asynccontextmanager
async def serve_raw(answer: Callable[[trio.SocketStream], Awaitable[None]]) -> AsyncIterator[str]:
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, answer, [listener])
        yield f"http://127.0.0.1:{listener.socket.getsockname()[1]}/"
        nursery.cancel_scope.cancel()


async def test_response_without_end_rejected_at_timeout() -> None:
    async def drip(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx")
        await trio.sleep_forever()

    async with serve_raw(drip) as url:
        with pytest.raises(FetchRefused, match=r"no complete response within 0\.1 seconds"):
            await fetch(url, networks=LOOPBACK_ALLOWED, seconds=0.1)


async def test_response_not_http_rejected() -> None:
    async def babble(stream: trio.SocketStream) -> None:
        await stream.send_all(b"SSH-2.0-server\r\n\r\n")

    async def leave(stream: trio.SocketStream) -> None:
        await stream.aclose()

    for answer in (babble, leave):
        async with serve_raw(answer) as url:
            with pytest.raises(FetchRefused, match="cannot fetch"):
                await fetch(url, networks=LOOPBACK_ALLOWED)


async def test_refused_connection_raises() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(FetchRefused, match="cannot fetch"):
            await fetch(f"http://127.0.0.1:{port}/", networks=LOOPBACK_ALLOWED)


async def test_name_without_addresses_raises() -> None:
    class EmptyResolver(FakeResolver):
        async def getaddrinfo(self, *_: object, **__: object) -> list[Entry]:
            return []

    trio.socket.set_custom_hostname_resolver(EmptyResolver())
    with pytest.raises(FetchRefused, match="no address"):
        await fetch("https://as.example/", networks=PUBLIC)
