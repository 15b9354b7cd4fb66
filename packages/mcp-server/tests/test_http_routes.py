"""Each route of an endpoint with all options on, against requests that must be rejected."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing
from asgi_host import as_object
from raw_connection import Body, RawConnection, Reader, call, connector, http, initialize, legacy, modern, notification
from raw_connection import request as rpc_request

from mcp_core.errors import AccessDenied
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.http.messages import HttpRequest
from mcp_core.limits import Limits
from mcp_core.revisions import R2024_11_05, R2025_11_25
from mcp_server import Server
from mcp_server.asgi import Message
from mcp_server.host.embedded import HttpHost

Clock = trio.testing.MockClock

ROUTES = {"/mcp": {"GET", "POST", "DELETE"}, "/sse": {"GET"}, "/messages": {"POST"}}
"""The routes that serve clients, with their methods. No other method has an effect."""

OPEN_ROUTES = {"/healthz"}
"""Routes without access control, for any host name. They disclose nothing and have no effect."""

METHODS = ("POST", "GET", "DELETE", "OPTIONS", "HEAD", "PUT", "PATCH", "TRACE")

LISTED = "https://app.example"
LIMITS = Limits(message_bytes=100_000)


async def authenticate_by_header(request: HttpRequest) -> str | None:
    """Authenticate the user that the header `x-user` names; deny requests without it."""
    user = request.headers.get("x-user")
    if user is None:
        raise AccessDenied("credentials are required", status=401, challenges=("Bearer",))
    return user


class RoutesTestbed:
    """An endpoint with all options on, and a client of it that has a session of each kind."""

    def __init__(self, *, origins: tuple[str, ...] = (), authenticated: bool = False) -> None:
        self.server = server = Server("routes", version="0", limits=LIMITS)
        self.changes = 0
        self.endpoint = server.asgi(
            policy=EndpointPolicy(allowed_origins=origins),
            healthz="/healthz",
            legacy_sse=True,
            authenticate=authenticate_by_header if authenticated else None,
        )
        self.host = HttpHost(self.endpoint, limits=LIMITS)
        self.user: dict[str, str | None] = {"x_user": "a-user"} if authenticated else {}
        self.session = ""
        self.target = ""

        @server.tool
        async def touch() -> str:
            """Change the state of the server."""
            self.changes += 1
            return "touched"

    async def begin(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        await nursery.start(self.host.run)
        self._connect = connector(self.host, nursery)
        opened = await self.exchange(http("POST", "/mcp", initialize(R2025_11_25), **self.user))
        self.session = opened.headers["mcp-session-id"]
        assert (await self.exchange(self.of_session(notification("notifications/initialized")))).status == 202
        self.stream = await self.connect()
        await self.stream.send(http("GET", "/sse", **self.user))
        await self.stream.until(lambda: bool(self.stream.reader.events))
        self.target = self.stream.reader.events[0].data.decode()
        assert (await self.exchange(http("POST", self.target, initialize(R2024_11_05), **self.user))).status == 202

    async def connect(self) -> RawConnection:
        return RawConnection(await self._connect())

    async def exchange(self, data: bytes) -> Reader:
        """Send a request on a new connection. The reader has only the beginning of an event stream."""
        connection = await self.connect()
        await connection.send(data)
        await connection.until(lambda: bool(connection.reader.status))
        if not data.startswith(b"HEAD") and connection.reader.headers.get("content-type") != "text/event-stream":
            await connection.answer()
        await connection.aclose()
        await trio.testing.wait_all_tasks_blocked()
        return connection.reader

    def of_session(self, message: Body = b"", method: str = "POST", **more: str | None) -> bytes:
        given: dict[str, str | None] = {"mcp_session_id": self.session, "mcp_protocol_version": R2025_11_25.name}
        return http(method, "/mcp", message, **(given | self.user | more))

    @property
    def state(self) -> tuple[int, int]:
        """The values that a request may change."""
        return self.changes, self.endpoint.sessions

    def effective(self, **headers: str | None) -> dict[str, bytes]:
        """Return requests that have an effect once they are accepted, by method and path."""
        given: dict[str, str | None] = {**self.user, **headers}
        touch = call("touch")
        return {
            "POST /mcp, modern": modern(touch, **given),
            "POST /mcp, opening": http("POST", "/mcp", initialize(R2025_11_25), **given),
            "POST /mcp, in a session": self.of_session(touch, "POST", **headers),
            "POST /messages": http("POST", self.target, touch, **given),
            "GET /mcp": self.of_session(b"", "GET", **headers),
            "GET /sse": http("GET", "/sse", **given),
            "DELETE /mcp": self.of_session(b"", "DELETE", **headers),
        }


@asynccontextmanager
async def open_testbed(*, origins: tuple[str, ...] = (), authenticated: bool = False) -> AsyncIterator[RoutesTestbed]:
    with trio.fail_after(100_000):
        async with trio.open_nursery() as nursery:
            testbed = RoutesTestbed(origins=origins, authenticated=authenticated)
            await testbed.begin(nursery)
            yield testbed
            nursery.cancel_scope.cancel()


def check_refused(answer: Reader, *, origin: str | None = None) -> None:
    """Check a rejection: it does not redirect, and no web page may read it."""
    assert 400 <= answer.status < 500, (answer.status, answer.headers, answer.body)
    check_headers(answer, origin=origin)


def check_headers(answer: Reader, *, origin: str | None = None) -> None:
    assert not 300 <= answer.status < 400
    assert "location" not in answer.headers
    assert answer.headers.get("access-control-allow-origin") == origin
    assert "access-control-allow-credentials" not in answer.headers


# --- foreign hosts and origins ----------------------------------------------------------------------------------------

FOREIGN: dict[str, dict[str, str]] = {
    "another host": {"host": "evil.example"},
    "another host with a port": {"host": "evil.example:8000"},
    "an address as a subdomain": {"host": "127.0.0.1.evil.example"},
    "localhost as a subdomain": {"host": "localhost.evil.example"},
    "localhost as a user": {"host": "localhost@evil.example"},
    "no host": {"host": ""},
    "only a port": {"host": ":8000"},
    "an address to listen on": {"host": "0.0.0.0:8000"},
    "a number": {"host": "2130706433"},
    "another address": {"host": "192.168.0.1"},
    "two hosts in one": {"host": "localhost, evil.example"},
    "another origin": {"origin": "https://evil.example"},
    "the null origin": {"origin": "null"},
    "another port of this machine": {"origin": "http://localhost:3000"},
    "an origin that begins with localhost": {"origin": "http://localhost.evil.example"},
    "an empty origin": {"origin": ""},
    "any origin": {"origin": "*"},
    "two origins in one": {"origin": "http://localhost, https://evil.example"},
    "another site": {"sec_fetch_site": "cross-site"},
    "the same site": {"sec_fetch_site": "same-site"},
}


async def test_routes_table_is_complete(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        assert set(testbed.endpoint._routes) == set(ROUTES) | OPEN_ROUTES
        # The requests with an effect cover all of them.
        covered = {tuple(name.partition(",")[0].split(" ")) for name in testbed.effective()}
        assert covered == {(method, path) for path, methods in ROUTES.items() for method in methods}


async def test_requests_have_effect_without_rejection(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        for name, data in testbed.effective().items():
            before = testbed.state
            answer = await testbed.exchange(data)
            assert answer.status in (200, 202), name
            check_headers(answer)
            if name != "GET /mcp":
                assert testbed.state != before or name == "GET /sse", name
        assert testbed.changes == 3


@pytest.mark.spec("http.origin-validate", "http.origin-403", "http.origin-invalid-403", "http-sse.origin-validate")
@pytest.mark.parametrize("case", FOREIGN)
@pytest.mark.parametrize("slash", ["", "/"])
async def test_foreign_host_or_origin_rejected_on_every_route(case: str, slash: str, autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        before = testbed.state
        for name, data in testbed.effective(**FOREIGN[case]).items():
            head, _, rest = data.partition(b" HTTP/1.1")
            target, mark, query = head.partition(b"?")
            answer = await testbed.exchange(b"%b%b%b%b HTTP/1.1%b" % (target, slash.encode(), mark, query, rest))
            assert answer.status == 403, name
            check_refused(answer)
            error = as_object(answer.json()["error"])
            assert error["code"] == -32600
            assert "id" not in answer.json()
            # The message names the setting for the operator.
            assert "EndpointPolicy.allowed_" in str(error["message"])
        for path in ROUTES:
            for method in METHODS:
                answer = await testbed.exchange(http(method, path + slash, **FOREIGN[case]))
                assert answer.status == 403, (method, path)
                check_refused(answer)
        assert testbed.state == before


@pytest.mark.parametrize(
    ("first", "status"),
    [
        (b"HTTP/1.1\r\nHost: localhost\r\nHost: evil.example", 400),
        (b"HTTP/1.1\r\nHost: evil.example\r\nHost: localhost", 400),
        (b"HTTP/1.1", 400),
        (b"HTTP/1.0", 403),
        (b"HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: https://evil.example", 403),
        (b"HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site", 403),
    ],
)
async def test_duplicate_or_missing_host_and_origin_rejected(first: bytes, status: int, autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        before = testbed.state
        for data in testbed.effective(host=None).values():
            answer = await testbed.exchange(data.replace(b"HTTP/1.1", first, 1))
            assert answer.status == status
            check_refused(answer)
        assert testbed.state == before


async def test_absolute_target_with_other_host_returns_403(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        before = testbed.state
        for name, data in testbed.effective().items():
            method, _, rest = data.partition(b" ")
            for target in (b"http://evil.example", b"http://localhost@evil.example", b"http://localhost:9"):
                answer = await testbed.exchange(b"%b %b%b" % (method, target, rest))
                assert answer.status == 403, name
                check_refused(answer)
        assert testbed.state == before


# --- content types and sizes ------------------------------------------------------------------------------------------

CONTENT: dict[str, tuple[int, dict[str, str | None]]] = {
    "plain text": (415, {"content_type": "text/plain"}),
    "plain text that is json": (415, {"content_type": "text/plain; charset=application/json"}),
    "a form": (415, {"content_type": "application/x-www-form-urlencoded"}),
    "a form of parts": (415, {"content_type": "multipart/form-data; boundary=x"}),
    "no type": (415, {"content_type": None}),
    "another type": (415, {"content_type": "application/json-patch+json"}),
    "two types": (415, {"content_type": "text/plain, application/json"}),
    "compressed": (415, {"content_encoding": "gzip"}),
    "compressed twice": (415, {"content_encoding": "identity, br"}),
    "too much": (413, {"content_length": "100001"}),
    "far too much": (413, {"content_length": "99999999999999"}),
    "only HTML accepted": (406, {"accept": "text/html"}),
}


@pytest.mark.parametrize("kind", CONTENT)
async def test_post_with_unsupported_content_rejected_on_every_route(kind: str, autojump_clock: Clock) -> None:
    status, headers = CONTENT[kind]
    async with open_testbed() as testbed:
        before = testbed.state
        for name, data in testbed.effective(**headers).items():
            if not name.startswith("POST"):
                continue
            if kind == "too much":
                data += b" " * (100_001 - len(data.partition(b"\r\n\r\n")[2]))
            answer = await testbed.exchange(data)
            assert answer.status == status, name
            check_refused(answer)
        for path in ROUTES:
            check_refused(await testbed.exchange(http("POST", path, b"{}", **headers)))
        assert testbed.state == before


@pytest.mark.parametrize("encoding", ["identity", "Identity"])
@pytest.mark.parametrize("media", ["application/json; charset=utf-8", "Application/JSON", "application/json;"])
async def test_content_type_spellings_accepted(media: str, encoding: str, autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        for name, data in testbed.effective(content_type=media, content_encoding=encoding).items():
            if name.startswith("POST"):
                assert (await testbed.exchange(data)).status in (200, 202), name


async def test_chunked_body_over_limit_returns_413_on_every_route(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        before = testbed.state
        chunked: dict[str, str | None] = {"transfer_encoding": "chunked", "content_length": None}
        for name, data in testbed.effective(**chunked).items():
            if name.startswith("POST"):
                head, _, body = data.partition(b"\r\n\r\n")
                body += b" " * 100_000
                answer = await testbed.exchange(b"%b\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (head, len(body), body))
                assert answer.status == 413, name
                check_refused(answer)
        assert testbed.state == before


# --- unknown methods and paths ----------------------------------------------------------------------------------------


@pytest.mark.spec("http.head-options-not-required", "http.single-endpoint")
async def test_unsupported_methods_return_405_without_effect(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        before = testbed.state
        for path, methods in ROUTES.items():
            for method in set(METHODS) - methods:
                for slash in ("", "/"):
                    for body in (b"", json.dumps(call("touch")).encode()):
                        target = testbed.target.replace("?", slash + "?") if path == "/messages" else path + slash
                        length = str(len(body))
                        answer = await testbed.exchange(
                            http(
                                method,
                                target,
                                body,
                                content_type="application/json",
                                content_length=length,
                                mcp_session_id=testbed.session,
                            )
                        )
                        assert answer.status == 405, (method, target)
                        allowed = set(answer.headers["allow"].split(", "))
                        assert method not in allowed
                        assert methods <= allowed
                        check_refused(answer)
        assert testbed.state == before


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/nowhere",
        "/mcp/x",
        "/mcpx",
        "/MCP",
        "//mcp",
        "/mcp/..",
        "/mcp/../mcp",
        "/./mcp",
        "/mcp;x",
        "/mcp%2f..",
        "/mcp%00",
        "/sse/messages",
        "/.well-known/oauth-protected-resource",
    ],
)
async def test_unknown_paths_return_404(path: str, autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        before = testbed.state
        for name, data in testbed.effective().items():
            method, _, rest = data.partition(b" ")
            answer = await testbed.exchange(b"%b %b %b" % (method, path.encode(), rest.partition(b" ")[2]))
            assert answer.status == 404, name
            check_refused(answer)
        assert testbed.state == before


async def test_healthz_returns_200_for_any_host_and_method(autojump_clock: Clock) -> None:
    async with open_testbed(authenticated=True) as testbed:
        before = testbed.state
        for headers in ({}, *FOREIGN.values()):
            for method in METHODS:
                answer = await testbed.exchange(http(method, "/healthz", b"", **headers))
                assert answer.status == 200
                check_headers(answer)
        assert testbed.state == before


# --- listed origins ---------------------------------------------------------------------------------------------------


async def test_cors_headers_only_for_listed_origins(autojump_clock: Clock) -> None:
    async with open_testbed(origins=(LISTED,)) as testbed:
        for origin in (
            "https://evil.example",
            "null",
            f"{LISTED}.evil.example",
            "http://app.example",
            LISTED + ":8443",
        ):
            for data in testbed.effective(origin=origin).values():
                answer = await testbed.exchange(data)
                assert answer.status == 403
                check_refused(answer)
            for path in ROUTES:
                preflight = http("OPTIONS", path, origin=origin, access_control_request_method="POST")
                answer = await testbed.exchange(preflight)
                assert answer.status == 403
                check_refused(answer)
        for name, data in testbed.effective(origin=LISTED, sec_fetch_site="cross-site").items():
            answer = await testbed.exchange(data)
            assert answer.status in (200, 202), name
            check_headers(answer, origin=LISTED)
            assert "origin" in answer.headers["vary"].lower()
        for path in ROUTES:
            answer = await testbed.exchange(http("OPTIONS", path, origin=LISTED, access_control_request_method="POST"))
            assert answer.status == 204
            check_headers(answer, origin=LISTED)
        # A web page of a listed origin may also read rejections.
        check_refused(await testbed.exchange(http("POST", "/mcp", b"{", origin=LISTED)), origin=LISTED)


# --- other users ------------------------------------------------------------------------------------------------------


@attrs.define
class VisibleResponse:
    """The parts of a response that a client can compare. A session of another user must look like an unknown one."""

    status: int
    body: bytes
    headers: dict[str, str]

    @classmethod
    def of(cls, answer: Reader) -> VisibleResponse:
        return cls(answer.status, answer.body, {**answer.headers, "date": ""})


@pytest.mark.spec(
    "security.session-bound-to-user", "security.verify-all-requests", "security.no-session-authentication"
)
async def test_session_of_other_user_looks_unknown(autojump_clock: Clock) -> None:
    async with open_testbed(authenticated=True) as testbed:
        before = testbed.state
        theirs = {name: data for name, data in testbed.effective(x_user="else").items() if needs_session(name)}
        session, target = testbed.session, testbed.target
        testbed.session = "A" * len(session)
        testbed.target = target.partition("=")[0] + "=" + "A" * len(target.partition("=")[2])
        unknown = {name: data for name, data in testbed.effective(x_user="else").items() if needs_session(name)}
        testbed.session, testbed.target = session, target
        assert len(theirs) == 4
        used = await testbed.connect()
        for using in (False, True):
            if using:
                await used.send(testbed.of_session(b"", "GET"))
                await used.until(lambda: bool(used.reader.events))
            for name, data in theirs.items():
                visible = VisibleResponse.of(await testbed.exchange(data))
                assert visible.status == 404, name
                assert visible == VisibleResponse.of(await testbed.exchange(unknown[name])), name
        await used.aclose()
        resuming = testbed.of_session(b"", "GET", x_user="else", last_event_id="1-0")
        assert (await testbed.exchange(resuming)).status == 404
        assert testbed.state == before
        # The owner can still use the session.
        assert (await testbed.exchange(testbed.of_session(rpc_request("ping")))).status == 200


def needs_session(name: str) -> bool:
    return name in ("POST /mcp, in a session", "POST /messages", "GET /mcp", "DELETE /mcp")


@pytest.mark.spec("http.authentication", "http-sse.authentication")
async def test_request_without_credentials_returns_401_on_every_route(autojump_clock: Clock) -> None:
    async with open_testbed(authenticated=True) as testbed:
        before = testbed.state
        for name, data in testbed.effective(x_user=None).items():
            answer = await testbed.exchange(data)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer"), name
            check_refused(answer)
        assert testbed.state == before


async def test_session_id_in_wrong_place_ignored(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        for data in (
            http("POST", f"/mcp?session={testbed.session}", rpc_request("ping"), mcp_session_id=None),
            http("POST", "/mcp", rpc_request("ping"), cookie=f"Mcp-Session-Id={testbed.session}"),
            http("POST", "/mcp", rpc_request("ping"), authorization=f"Bearer {testbed.session}"),
        ):
            assert (await testbed.exchange(data)).status == 400
        other = testbed.target.partition("=")[2]
        for target in (
            "/messages",
            f"/messages?session={other}&session={testbed.session}",
            f"/messages?Session={other}",
        ):
            assert (
                await testbed.exchange(http("POST", target, rpc_request("ping"), mcp_session_id=other))
            ).status == 404
        # A session of one transport does not exist in the other.
        assert (await testbed.exchange(legacy(other, R2025_11_25, rpc_request("ping")))).status == 404
        assert (
            await testbed.exchange(http("POST", f"/messages?session={testbed.session}", rpc_request("ping")))
        ).status == 404


@pytest.mark.parametrize(("method", "path"), [("POST", "/mcp"), ("GET", "/sse"), ("POST", "/messages")])
async def test_rejected_origin_skips_authentication(method: str, path: str) -> None:
    covered: list[str] = []
    statuses: list[object] = []

    async def identify(request: HttpRequest) -> str | None:
        covered.append(request.path)
        raise AccessDenied("credentials are required", status=401)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Message) -> None:
        if "status" in message:
            statuses.append(message["status"])

    endpoint = Server("guarded", version="1").asgi(legacy_sse=True, authenticate=identify)
    for host in (b"evil.example", b"localhost"):
        headers = [
            (b"host", host),
            (b"content-type", b"application/json"),
            (b"accept", b"application/json, text/event-stream"),
        ]
        scope: dict[str, object] = {"type": "http", "method": method, "path": path, "headers": headers}
        await endpoint(scope, receive, send)
    assert statuses == [403, 401]
    assert covered == [path]
