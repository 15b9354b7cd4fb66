"""The guarded fetch: where it goes, and where it never goes."""

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

HERE = frozenset({AddressClass.PUBLIC, AddressClass.LOOPBACK})
PUBLIC = frozenset({AddressClass.PUBLIC})

Answer = tuple[int, dict[str, str], bytes]
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


class Site:
    """A server that answers by path, and remembers what came."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = {f"/{path.replace('__', '/')}": answer for path, answer in answers.items()}
        self.came: list[tuple[str, str, dict[str, str], bytes]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        body = message.get("body", b"")
        assert isinstance(body, bytes)
        raw = scope["headers"]
        assert isinstance(raw, list)
        headers = {name.decode(): value.decode() for name, value in raw}
        path = str(scope["path"])
        self.came.append((str(scope["method"]), path, headers, body))
        status, more, data = self.answers.get(path, (404, {}, b"nothing"))
        pairs = [(name.encode(), value.encode()) for name, value in more.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": data})


async def test_an_answer_is_fetched_whatever_its_status() -> None:
    site = Site(a=(200, {"x-a": "1"}, b"[1]"))
    async with served(site, "embedded") as url:
        answer = await fetch(f"{url}/a", headers=(("accept", "x/y"),), networks=HERE)
        assert (answer.status, answer.header("X-A"), answer.body) == (200, "1", b"[1]")
        assert (await fetch(f"{url}/b", networks=HERE)).status == 404
        posted = await fetch(f"{url}/a", method="POST", body=b"x=1", networks=HERE)
        assert posted.status == 200
    assert [(method, path, body) for method, path, _, body in site.came] == [
        ("GET", "/a", b""),
        ("GET", "/b", b""),
        ("POST", "/a", b"x=1"),
    ]
    assert site.came[0][2]["accept"] == "x/y"
    assert site.came[0][2]["host"] == url.removeprefix("http://")


async def test_a_document_is_a_json_object_with_status_200() -> None:
    site = Site(good=(200, {}, b'{"a": 1}'), list=(200, {}, b"[]"), text=(200, {}, b"<html>"), odd=(201, {}, b"{}"))
    async with served(site, "embedded") as url:
        assert await fetch_json(f"{url}/good", networks=HERE) == {"a": 1}
        for path, why in (
            ("list", "not an object"),
            ("text", "not JSON"),
            ("odd", "status 201"),
            ("none", "status 404"),
        ):
            with pytest.raises(FetchRefused, match=why):
                await fetch_json(f"{url}/{path}", networks=HERE)
    assert site.came[0][2]["accept"] == "application/json"


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
async def test_nothing_is_sent_to_a_url_that_must_not_be_followed(url: str) -> None:
    with pytest.raises(FetchRefused, match="cannot fetch") as caught:
        await fetch(url, networks=PUBLIC)
    assert caught.value.url == url


class Names(trio.abc.HostnameResolver):
    """Resolves every name to the same addresses."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.asked: list[str] = []

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
        self.asked.append(host.decode())
        if not self.addresses:
            raise socket.gaierror(-2, "nobody knows it")
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
    ("addresses", "why"),
    [
        (("10.0.0.1",), "10.0.0.1, a private address"),
        (("127.0.0.1",), "a loopback address"),
        (("169.254.169.254",), "a cloud metadata address"),
        (("fe80::1%1",), "a link-local address"),
        (("93.184.216.34", "10.0.0.1"), "10.0.0.1, a private address"),
        (("::ffff:127.0.0.1",), "a loopback address"),
        ((), "cannot be resolved: nobody knows it"),
    ],
)
async def test_every_address_of_a_name_is_looked_at(addresses: tuple[str, ...], why: str) -> None:
    names = Names(*addresses)
    trio.socket.set_custom_hostname_resolver(names)
    with pytest.raises(FetchRefused, match=why):
        await fetch("https://as.example/", networks=PUBLIC)
    assert names.asked == ["as.example"]


async def test_the_connection_goes_to_an_address_that_was_looked_at() -> None:
    site = Site(a=(200, {}, b"here"))
    async with served(site, "embedded") as url:
        port = url.rpartition(":")[2]
        # The first look finds an address where nobody listens; the next one would find another name.
        names = Names("127.0.0.9", "127.0.0.1")
        trio.socket.set_custom_hostname_resolver(names)
        answer = await fetch(f"http://as.localhost:{port}/a", networks=HERE)
    assert answer.body == b"here"
    assert names.asked == ["as.localhost"]
    assert site.came[0][2]["host"] == f"as.localhost:{port}"


@asynccontextmanager
async def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> AsyncIterator[int]:
    """A server with a certificate for these names, by an authority that is trusted; gives its port."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    fetch_module._tls.cache_clear()

    async def answer(stream: trio.SSLStream[trio.SocketStream]) -> None:
        try:
            await stream.receive_some()
            await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client does not trust it

    async with trio.open_nursery() as nursery:
        (plain,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, answer, [trio.SSLListener(plain, context, https_compatible=True)])
        yield plain.socket.getsockname()[1]
        nursery.cancel_scope.cancel()
    fetch_module._tls.cache_clear()


async def test_the_certificate_has_to_be_for_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trio.socket.set_custom_hostname_resolver(Names("127.0.0.1"))
    networks = PUBLIC | {AddressClass.LOOPBACK}
    async with secure(tmp_path, monkeypatch, "as.example") as port:
        assert (await fetch(f"https://as.example:{port}/", networks=networks)).body == b"secret"
        with pytest.raises(FetchRefused, match="certificate"):
            await fetch(f"https://other.example:{port}/", networks=networks)


@pytest.mark.spec("security.redirect-targets-validated")
async def test_one_redirect_is_followed_within_the_origin() -> None:
    site = Site(
        a=(302, {"location": "/b"}, b""),
        b=(200, {}, b"there"),
        c=(301, {"location": "/a"}, b""),
        away=(302, {"location": "https://evil.example/"}, b""),
        down=(302, {"location": "http://169.254.169.254/"}, b""),
        odd=(302, {"location": "https://[::1"}, b""),
        none=(302, {}, b"nowhere"),
    )
    async with served(site, "embedded") as url:
        assert (await fetch(f"{url}/a", networks=HERE)).body == b"there"
        assert (await fetch(f"{url}/none", networks=HERE)).status == 302
        # A POST carries secrets: it goes where it was sent, and nowhere else.
        assert (await fetch(f"{url}/a", method="POST", body=b"x", networks=HERE)).status == 302
        came = len(site.came)
        for path, why in (
            ("c", "more than one redirect"),
            ("away", "another origin"),
            ("down", "not https"),
            ("odd", "URL"),
        ):
            with pytest.raises(FetchRefused, match=why):
                await fetch(f"{url}/{path}", networks=HERE)
    assert [path for _, path, _, _ in site.came[came:]] == ["/c", "/a", "/away", "/down", "/odd"]


async def test_an_answer_that_is_too_large_is_given_up() -> None:
    async with served(Site(a=(200, {}, b"x" * 1_001)), "embedded") as url:
        assert len((await fetch(f"{url}/a", networks=HERE, limit=1_001)).body) == 1_001
        with pytest.raises(FetchRefused, match="exceeds 1000 bytes"):
            await fetch(f"{url}/a", networks=HERE, limit=1_000)


@asynccontextmanager
async def raw(answer: Callable[[trio.SocketStream], Awaitable[None]]) -> AsyncIterator[str]:
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, answer, [listener])
        yield f"http://127.0.0.1:{listener.socket.getsockname()[1]}/"
        nursery.cancel_scope.cancel()


async def test_an_answer_that_never_ends_is_given_up() -> None:
    async def drip(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx")
        await trio.sleep_forever()

    async with raw(drip) as url:
        with pytest.raises(FetchRefused, match=r"no complete response within 0\.1 seconds"):
            await fetch(url, networks=HERE, seconds=0.1)


async def test_what_is_no_http_is_refused() -> None:
    async def babble(stream: trio.SocketStream) -> None:
        await stream.send_all(b"SSH-2.0-server\r\n\r\n")

    async def leave(stream: trio.SocketStream) -> None:
        await stream.aclose()

    for answer in (babble, leave):
        async with raw(answer) as url:
            with pytest.raises(FetchRefused, match="cannot fetch"):
                await fetch(url, networks=HERE)


async def test_where_nobody_listens_nothing_is_fetched() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(FetchRefused, match="cannot fetch"):
            await fetch(f"http://127.0.0.1:{port}/", networks=HERE)


async def test_a_name_without_addresses_is_refused() -> None:
    class Empty(Names):
        async def getaddrinfo(self, *_: object, **__: object) -> list[Entry]:
            return []

    trio.socket.set_custom_hostname_resolver(Empty())
    with pytest.raises(FetchRefused, match="no address"):
        await fetch("https://as.example/", networks=PUBLIC)
