"""Requests for the URLs of peers: allowed addresses, and bounds."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Literal, TypeAlias

import attrs
import pytest
import trio
import trio.testing
import trustme
from fake_http_server import ReceivedRequest, Reply, page, serving

from mcp_client import Tls
from mcp_client.auth.fetch import FetchContext, open_fetch, surroundings
from mcp_client.transports.http.authorizer import ConnectionTarget
from mcp_core.limits import CLIENT_LIMITS
from mcp_core.oauth.addresses import AddressClass
from mcp_core.oauth.steps import FetchedResponse, FetchJson, PostForm, Register, Request, Unreachable
from mcp_core.revisions import REVISIONS
from mcp_core.trio.guarded_fetch import GuardedFetch
from mcp_core.trio.http_client.addresses import AddressRecorder
from mcp_core.trio.nursery import open_private_nursery

PUBLIC = frozenset({AddressClass.PUBLIC})
LOCAL = PUBLIC | {AddressClass.LOOPBACK}

CLASSES = {
    "127.0.0.1": "loopback",
    "127.9.9.9": "loopback",
    "::1": "loopback",
    "10.0.0.1": "private",
    "172.16.0.1": "private",
    "192.168.1.1": "private",
    "fd12::1": "private",
    "100.64.0.1": "shared",
    "169.254.1.1": "link-local",
    "fe80::1": "link-local",
    "169.254.169.254": "cloud metadata",
    "fd00:ec2::254": "cloud metadata",
    "100.100.100.200": "cloud metadata",
    "168.63.129.16": "cloud metadata",
    "224.0.0.1": "multicast",
    "0.0.0.0": "unspecified",
    "::": "unspecified",
    "240.0.0.1": "reserved",
    "192.0.2.1": "reserved",
    "::ffff:127.0.0.1": "loopback",
    "64:ff9b::a00:1": "private",
}


AddressInfo: TypeAlias = (
    tuple[Literal[socket.AddressFamily.AF_INET], socket.SocketKind, int, str, tuple[str, int]]
    | tuple[
        Literal[socket.AddressFamily.AF_INET6],
        socket.SocketKind,
        int,
        str,
        tuple[str, int, int, int] | tuple[int, bytes],
    ]
)


@attrs.define
class Names(trio.abc.HostnameResolver):
    """A resolver with fixed answers; a name with several answers returns them in turn."""

    answers_by_name: dict[str, list[list[str]]]
    queries: list[str] = attrs.field(factory=list)

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[AddressInfo]:
        await trio.lowlevel.checkpoint()
        assert host is not None
        name = host.decode()
        self.queries.append(name)
        answers = self.answers_by_name.get(name)
        if answers is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        assert isinstance(port, int)
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0))
            if ":" in address
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in addresses
        ]

    async def getnameinfo(self, sockaddr: tuple[str, int] | tuple[str, int, int, int], flags: int) -> tuple[str, str]:
        raise AssertionError("unexpected reverse lookup")


@attrs.define
class DialRecorder:
    """Records the addresses of connection attempts."""

    addresses: list[str] = attrs.field(factory=list)


@pytest.fixture
def dial_recorder(monkeypatch: pytest.MonkeyPatch) -> DialRecorder:
    """Record each address that a connection is made to. Only 127.0.0.1 accepts."""
    dial_recorder = DialRecorder()
    real = trio.open_tcp_stream

    async def connect(host: str, port: int) -> trio.SocketStream:
        dial_recorder.addresses.append(host)
        if host == "203.0.114.1":
            await trio.sleep_forever()
        if host != "127.0.0.1":
            raise OSError(113, "No route to host")
        return await real(host, port)

    monkeypatch.setattr("mcp_core.trio.guarded_fetch.trio.open_tcp_stream", connect)
    return dial_recorder


@contextmanager
def resolving(answers_by_name: Mapping[str, Sequence[Sequence[str]]]) -> Iterator[Names]:
    names = Names({name: [list(answer) for answer in answers] for name, answers in answers_by_name.items()})
    before = trio.socket.set_custom_hostname_resolver(names)
    try:
        yield names
    finally:
        trio.socket.set_custom_hostname_resolver(before)


@asynccontextmanager
async def fetching(
    networks: frozenset[AddressClass] = LOCAL,
    url: str = "http://127.0.0.1/mcp",
    *,
    tls: ssl.SSLContext | Tls | None = None,
    proxies: Mapping[str, str] | Literal[False] | None = False,
) -> AsyncIterator[GuardedFetch]:
    async with open_private_nursery() as nursery:
        fetch = open_fetch(target_at(nursery, url, tls=tls, proxies=proxies), FetchContext(networks=networks))
        try:
            yield fetch
        finally:
            await fetch.aclose()


def target_at(
    nursery: trio.Nursery,
    url: str,
    *,
    tls: ssl.SSLContext | Tls | None = None,
    proxies: Mapping[str, str] | Literal[False] | None = False,
) -> ConnectionTarget:
    return ConnectionTarget(
        url=url,
        nursery=nursery,
        waiting=lambda: contextmanager(lambda: iter([None]))(),
        revisions=tuple(REVISIONS.values()),
        tls=tls,
        proxies=proxies,
        limits=CLIENT_LIMITS,
    )


STEPS: dict[str, type[Request]] = {"document": FetchJson, "registration": Register, "token": PostForm}


def step(kind: str, url: str, *, configured: bool = False) -> Request:
    if kind == "document":
        return FetchJson(url=url, why="test", headers=(("Accept", "application/json"),))
    if kind == "registration":
        return Register(url=url, document={"client_name": "Tester"})
    return PostForm(url=url, why="test", headers=(), form=(("a", "b c&d"),), configured=configured)


@pytest.mark.spec("security.ssrf-considered", "security.block-private-ranges")
@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize(("address", "address_class"), CLASSES.items())
@pytest.mark.parametrize("other_addresses", [[], ["93.184.216.34"]], ids=["alone", "beside a public one"])
async def test_fetch_name_resolves_to_non_public_address_refused(
    kind: str, address: str, address_class: str, other_addresses: list[str], dial_recorder: DialRecorder
) -> None:
    with resolving({"as.example": [[*other_addresses, address]]}):
        async with fetching(PUBLIC, "https://mcp.example/mcp") as fetch:
            answer = await fetch.perform(step(kind, "https://as.example/x"))
    assert isinstance(answer, Unreachable)
    assert (
        f"resolves to {ipaddress.ip_address(address)}, a {address_class} address, which is not allowed" in answer.reason
    )
    assert dial_recorder.addresses == []


async def test_fetch_connects_to_checked_address(dial_recorder: DialRecorder) -> None:
    async with serving(page(200, b"{}")) as server:
        port = server.url.split(":")[2].split("/")[0]
        rebinding = {"rebind.localhost": [["127.0.0.1"], ["10.0.0.1"]]}
        with resolving(rebinding) as names:
            async with fetching() as fetch:
                answer = await fetch.perform(step("document", f"http://rebind.localhost:{port}/x"))
        assert isinstance(answer, FetchedResponse)
        assert names.queries == ["rebind.localhost"]
        assert dial_recorder.addresses == ["127.0.0.1"]
        assert server.requests[0].headers["host"] == f"rebind.localhost:{port}"


async def test_fetch_new_connection_checks_address_again(dial_recorder: DialRecorder) -> None:
    async def respond_and_close(request: ReceivedRequest, reply: Reply) -> None:
        await reply.body(200, b"{}", "application/json", {"Connection": "close"})
        reply.closed = True

    async with serving(respond_and_close) as server:
        port = server.url.split(":")[2].split("/")[0]
        with resolving({"rebind.localhost": [["127.0.0.1"], ["10.0.0.1"]]}):
            async with fetching() as fetch:
                url = f"http://rebind.localhost:{port}/x"
                assert isinstance(await fetch.perform(step("document", url)), FetchedResponse)
                assert isinstance(await fetch.perform(step("document", url)), Unreachable)
    assert dial_recorder.addresses == ["127.0.0.1"]


@pytest.mark.parametrize("address", CLASSES)
async def test_fetch_configured_url_any_address_allowed(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[str] = []

    async def connect(host: str, port: int) -> trio.SocketStream:
        connected.append(host)
        raise OSError(113, "No route to host")

    monkeypatch.setattr("mcp_core.trio.http_client.dialer.trio.open_tcp_stream", connect)
    async with fetching(PUBLIC, "https://mcp.example/mcp") as fetch:
        answer = await fetch.perform(step("token", "https://idp.internal/token", configured=True))
    assert answer == Unreachable(reason="cannot connect to https://idp.internal: No route to host")
    assert connected == ["idp.internal"]


async def test_fetch_addresses_tried_in_order(
    dial_recorder: DialRecorder, autojump_clock: trio.testing.MockClock
) -> None:
    async with serving(page(200, b"{}")) as server:
        port = server.url.split(":")[2].split("/")[0]
        with resolving({"many.localhost": [["203.0.114.1", "203.0.114.2", "127.0.0.1"]]}):
            async with fetching() as fetch:
                assert isinstance(
                    await fetch.perform(step("document", f"http://many.localhost:{port}/x")), FetchedResponse
                )
    assert dial_recorder.addresses == ["203.0.114.1", "203.0.114.2", "127.0.0.1"]


async def test_fetch_unknown_name_returns_unreachable(dial_recorder: DialRecorder) -> None:
    with resolving({"empty.example": [[]]}):
        async with fetching() as fetch:
            unknown = await fetch.perform(step("document", "https://nobody.example/x"))
            empty = await fetch.perform(step("document", "https://empty.example/x"))
    assert isinstance(unknown, Unreachable)
    assert "Name or service not known" in unknown.reason
    assert isinstance(empty, Unreachable)
    assert "has no address" in empty.reason


# --- the networks of a server ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "addresses", "more"),
    [
        ("https://mcp.example/mcp", ["93.184.216.34"], set()),
        ("https://mcp.example/mcp", ["10.1.2.3"], {AddressClass.PRIVATE}),
        ("https://mcp.example/mcp", ["10.1.2.3", "93.184.216.34"], set()),
        ("https://mcp.example/mcp", ["169.254.169.254"], set()),
        ("http://localhost:1/mcp", ["127.0.0.1", "::1"], {AddressClass.LOOPBACK}),
        ("http://127.0.0.1:1/mcp", None, {AddressClass.LOOPBACK}),
        ("https://192.168.0.1/mcp", None, {AddressClass.PRIVATE}),
        ("https://unknown.example/mcp", None, set()),
        ("http://unknown.localhost/mcp", None, {AddressClass.LOOPBACK}),
    ],
)
async def test_fetch_allowed_networks_follow_server_address(
    url: str, addresses: list[str] | None, more: set[AddressClass]
) -> None:
    host = url.split("/")[2].split(":", maxsplit=1)[0]
    with resolving({} if addresses is None else {host: [addresses]}):
        async with open_private_nursery() as nursery:
            assert (await surroundings(target_at(nursery, url))).networks == PUBLIC | more


@pytest.mark.spec("security.ssrf-considered", "security.block-private-ranges")
@pytest.mark.parametrize("inner", ["127.0.0.1", "10.0.0.1", "::ffff:127.0.0.1", "100.64.0.1"])
async def test_fetch_server_name_rebound_to_inner_address_allows_public_only(inner: str) -> None:
    reached = [ipaddress.ip_address("93.184.216.34")]
    with resolving({"mcp.example": [[inner]]}):
        async with open_private_nursery() as nursery:
            moved = attrs.evolve(target_at(nursery, "https://mcp.example/mcp"), addresses=lambda: reached)
            assert (await surroundings(moved)).networks == PUBLIC


@pytest.mark.parametrize("kind", STEPS)
async def test_fetch_server_name_rebound_uses_first_address(kind: str, dial_recorder: DialRecorder) -> None:
    with resolving({"mcp.example": [["127.0.0.1"], ["93.184.216.34"]], "as.example": [["10.0.0.1"]]}) as names:
        async with open_private_nursery() as nursery:
            target = target_at(nursery, "https://mcp.example/mcp")
            around = await surroundings(target)
            fetch = open_fetch(target, around)
            assert isinstance(await fetch.perform(step(kind, "https://mcp.example/x")), Unreachable)
            assert isinstance(await fetch.perform(step(kind, "https://as.example/x")), Unreachable)
            await fetch.aclose()
    assert (names.queries, dial_recorder.addresses) == (["mcp.example", "as.example"], ["127.0.0.1"])


async def test_address_recorder_keeps_connected_addresses() -> None:
    recorder = AddressRecorder()
    async with serving(page(200, b"{}")) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with resolving({"mcp.example": [["127.0.0.1"]]}):
            for host in ("mcp.example", "127.0.0.1"):
                await (await recorder.connect(host, port)).aclose()
    assert recorder.addresses() == (ipaddress.ip_address("127.0.0.1"),)


async def test_fetch_silent_name_server_times_out(autojump_clock: trio.testing.MockClock) -> None:
    class Silent(Names):
        async def getaddrinfo(
            self,
            host: bytes | None,
            port: bytes | str | int | None,
            family: int = 0,
            type: int = 0,
            proto: int = 0,
            flags: int = 0,
        ) -> list[AddressInfo]:
            await trio.sleep_forever()

    before = trio.socket.set_custom_hostname_resolver(Silent({}))
    try:
        async with open_private_nursery() as nursery:
            assert (await surroundings(target_at(nursery, "https://mcp.example/mcp"))).networks == PUBLIC
        async with fetching() as fetch:
            answer = await fetch.perform(step("document", "https://as.example/x"))
    finally:
        trio.socket.set_custom_hostname_resolver(before)
    assert isinstance(answer, Unreachable)
    assert "5 s" in answer.reason


async def test_fetch_behind_proxy_does_not_resolve_names(dial_recorder: DialRecorder) -> None:
    async with serving(page(200, b"{}")) as proxy:
        proxies = {"http": proxy.url.removesuffix("/mcp")}
        with resolving({}) as names:
            async with open_private_nursery() as nursery:
                behind = target_at(nursery, "http://mcp.localhost/mcp", proxies=proxies)
                assert (await surroundings(behind)).networks == LOCAL
            async with fetching(proxies=proxies) as fetch:
                answer = await fetch.perform(step("document", "http://as.localhost/x"))
    assert isinstance(answer, FetchedResponse)
    assert proxy.requests[0].target == "http://as.localhost/x"
    assert names.queries == []


# --- requests and responses ------------------------------------------------------------------------------------------


async def test_fetch_sends_only_headers_of_step() -> None:
    async with serving(page(200, b'{"a": 1}', "application/json")) as server, fetching() as fetch:
        for kind in STEPS:
            answer = await fetch.perform(step(kind, server.url))
            assert isinstance(answer, FetchedResponse)
            assert (answer.status, answer.body) == (200, b'{"a": 1}')
            assert answer.header("content-type") == "application/json"
    document, registration, token = server.requests
    assert (document.method, document.body) == ("GET", b"")
    assert (registration.method, registration.body) == ("POST", b'{"client_name":"Tester"}')
    assert (token.method, token.body) == ("POST", b"a=b+c%26d")
    assert document.headers["accept"] == "application/json"
    for request in server.requests:
        assert request.headers["user-agent"] == "mcp-client"
        assert not {"cookie", "authorization"} & set(request.headers)


async def test_fetch_cookies_not_stored() -> None:
    async def set_cookie(request: ReceivedRequest, reply: Reply) -> None:
        await reply.body(200, b"{}", None, {"Set-Cookie": "a=b"})

    async with serving(set_cookie) as server, fetching() as fetch:
        await fetch.perform(step("document", server.url))
        await fetch.perform(step("document", server.url))
    assert all("cookie" not in request.headers for request in server.requests)


async def test_fetch_user_agent_of_step_replaces_default() -> None:
    async with serving(page(200, b"{}")) as server, fetching() as fetch:
        await fetch.perform(FetchJson(url=server.url, why="test", headers=(("user-agent", "own"),)))
    assert server.requests[0].headers["user-agent"] == "own"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_fetch_document_same_origin_redirect_followed(status: int) -> None:
    async def redirect(request: ReceivedRequest, reply: Reply) -> None:
        if request.target == "/mcp":
            await reply.body(status, b"", None, {"Location": "/there?x=1"})
        else:
            await reply.body(200, b"{}")

    async with serving(redirect) as server, fetching() as fetch:
        answer = await fetch.perform(step("document", server.url))
    assert isinstance(answer, FetchedResponse)
    assert answer.status == 200
    assert [request.target for request in server.requests] == ["/mcp", "/there?x=1"]


@pytest.mark.parametrize("kind", ["registration", "token"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_fetch_post_redirect_not_followed(kind: str, status: int) -> None:
    async def redirect(request: ReceivedRequest, reply: Reply) -> None:
        await reply.body(status, b"", None, {"Location": "/there"})

    async with serving(redirect) as server, fetching() as fetch:
        answer = await fetch.perform(step(kind, server.url))
    assert isinstance(answer, FetchedResponse)
    assert answer.status == status
    assert len(server.requests) == 1


@pytest.mark.spec("security.redirect-targets-validated")
@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("/again", "second redirect"),
        ("http://127.0.0.1:1/x", "another origin"),
        ("http://169.254.169.254/latest/meta-data", "not https"),
        ("https://169.254.169.254/latest/meta-data", "cloud metadata"),
        ("https://10.0.0.1/x", "private"),
        ("file:///etc/passwd", "not an absolute http or https"),
        ("gopher://127.0.0.1/x", "not an absolute http or https"),
        ("//evil.example/x", "not https"),
        ("http://user@127.0.0.1/x", "user name or a password"),
        ("\\\\evil.example", "characters"),
        ("https://[::1", "not a valid URL"),
    ],
)
async def test_fetch_redirect_to_other_origin_refused(location: str, reason: str) -> None:
    async def redirect(request: ReceivedRequest, reply: Reply) -> None:
        await reply.body(302, b"", None, {"Location": location})

    async with serving(redirect) as server, fetching() as fetch:
        answer = await fetch.perform(step("document", server.url))
    assert isinstance(answer, Unreachable)
    assert reason in answer.reason
    assert len(server.requests) <= 2


async def test_fetch_redirect_without_location_returned() -> None:
    async with serving(page(302)) as server, fetching() as fetch:
        answer = await fetch.perform(step("document", server.url))
    assert isinstance(answer, FetchedResponse)
    assert answer.status == 302


async def test_fetch_body_over_limit_stops_reading() -> None:
    sent = 0

    async def endless(request: ReceivedRequest, reply: Reply) -> None:
        nonlocal sent
        await reply.stream()
        while True:
            await reply.chunk(b"x" * 65_536)
            sent += 65_536

    async with serving(endless) as server, fetching() as fetch:
        answer = await fetch.perform(step("document", server.url))
    assert isinstance(answer, FetchedResponse)
    assert 256 * 1024 < len(answer.body) < 2 * 256 * 1024


@pytest.mark.parametrize("where", ["before the head", "in the body"])
async def test_fetch_slow_response_times_out(where: str, autojump_clock: trio.testing.MockClock) -> None:
    async def slow(request: ReceivedRequest, reply: Reply) -> None:
        if where == "in the body":
            await reply.stream()
        await reply.hang()

    async with serving(slow) as server, fetching() as fetch:
        before = trio.current_time()
        answer = await fetch.perform(step("document", server.url))
        assert trio.current_time() - before == pytest.approx(5)
    assert answer == Unreachable(reason="no complete response within 5 seconds")


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", "both Content-Length"),
        (b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\n", "the response is HTTP/2.0"),
    ],
)
async def test_fetch_ambiguous_framing_or_http_version_refused(head: bytes, reason: str) -> None:
    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        await reply.raw(head + b"{}")

    async with serving(answer) as server, fetching() as fetch:
        refused = await fetch.perform(step("document", server.url))
    assert isinstance(refused, Unreachable)
    assert reason in refused.reason


async def test_fetch_compressed_response_refused() -> None:
    async def respond_compressed(request: ReceivedRequest, reply: Reply) -> None:
        await reply.body(200, b"x", "application/json", {"Content-Encoding": "gzip"})

    async with serving(respond_compressed) as server, fetching() as fetch:
        answer = await fetch.perform(step("document", server.url))
    assert isinstance(answer, Unreachable)
    assert "gzip" in answer.reason


# --- TLS -------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def tls_server(authority: trustme.CA, name: str) -> AsyncIterator[tuple[int, list[object]]]:
    """Serve one response per connection over TLS; yield the port and the client certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    certificates: list[object] = []

    async def handle(stream: trio.SSLStream[trio.SocketStream]) -> None:
        try:
            while b"\r\n\r\n" not in await stream.receive_some():
                pass
            certificates.append(stream.getpeercert())
            await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            await stream.aclose()
        except trio.BrokenResourceError:
            await trio.aclose_forcefully(stream)

    (listener,) = await trio.open_ssl_over_tcp_listeners(0, context, host="127.0.0.1")
    async with open_private_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, handle, [listener])
        transport = listener.transport_listener
        assert isinstance(transport, trio.SocketListener)
        yield transport.socket.getsockname()[1], certificates


async def test_fetch_pinned_address_still_checks_certificate_name(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    authority = trustme.CA()
    ca_file = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    async with tls_server(authority, "right.localhost") as (port, _):
        names = {"right.localhost": [["127.0.0.1"]], "wrong.localhost": [["127.0.0.1"]]}
        with resolving(names):
            async with fetching(tls=Tls(ca_file=ca_file)) as fetch:
                right = await fetch.perform(step("document", f"https://right.localhost:{port}/x"))
                wrong = await fetch.perform(step("document", f"https://wrong.localhost:{port}/x"))
    assert isinstance(right, FetchedResponse)
    assert isinstance(wrong, Unreachable)
    assert "another host name" in wrong.reason


async def test_fetch_client_certificate_sent_to_server_only(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    authority = trustme.CA()
    files = tmp_path_factory.mktemp("tls")
    authority.cert_pem.write_to_path(str(files / "ca.pem"))
    authority.issue_cert("client.example").private_key_and_cert_chain_pem.write_to_path(str(files / "own.pem"))
    tls = Tls(ca_file=files / "ca.pem", certificate=files / "own.pem")
    async with (
        tls_server(authority, "mcp.localhost") as (own, shown_to_server),
        tls_server(authority, "as.localhost") as other,
    ):
        port, shown_to_other = other
        with resolving({"mcp.localhost": [["127.0.0.1"]], "as.localhost": [["127.0.0.1"]]}):
            async with fetching(url=f"https://mcp.localhost:{own}/mcp", tls=tls) as fetch:
                assert isinstance(
                    await fetch.perform(step("document", f"https://mcp.localhost:{own}/x")), FetchedResponse
                )
                assert isinstance(
                    await fetch.perform(step("document", f"https://as.localhost:{port}/x")), FetchedResponse
                )
    assert [bool(each) for each in shown_to_server] == [True]
    assert [bool(each) for each in shown_to_other] == [False]


async def test_fetch_tls_context_of_user_used() -> None:
    authority = trustme.CA()
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with tls_server(authority, "as.localhost") as (port, _):
        with resolving({"as.localhost": [["127.0.0.1"]]}):
            async with fetching(tls=context) as fetch:
                assert isinstance(
                    await fetch.perform(step("document", f"https://as.localhost:{port}/x")), FetchedResponse
                )
