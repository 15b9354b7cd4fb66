"""Every route of an endpoint, with everything switched on, against everybody who must not come in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing
from asgi_host import as_object
from http_wires import Body, Reader, Wire, call, connector, http, initialize, legacy, modern, note
from http_wires import request as asking

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
"""The routes that serve clients, and the methods that each has. Nothing else may have an effect."""

OPEN_ROUTES = {"/healthz"}
"""Those that anybody may ask, by whatever name: they tell nothing and do nothing."""

METHODS = ("POST", "GET", "DELETE", "OPTIONS", "HEAD", "PUT", "PATCH", "TRACE")

LISTED = "https://app.example"
LIMITS = Limits(message_bytes=100_000)


async def by_header(request: HttpRequest) -> str | None:
    """Whoever says so is that user; nobody may come in without saying."""
    user = request.headers.get("x-user")
    if user is None:
        raise AccessDenied("who are you?", status=401, challenges=("Bearer",))
    return user


class Place:
    """An endpoint with everything switched on, and a client of it who has a session of each kind."""

    def __init__(self, *, origins: tuple[str, ...] = (), identified: bool = False) -> None:
        self.server = server = Server("routes", version="0", limits=LIMITS)
        self.touched = 0
        self.endpoint = server.asgi(
            policy=EndpointPolicy(allowed_origins=origins),
            healthz="/healthz",
            legacy_sse=True,
            authenticate=by_header if identified else None,
        )
        self.host = HttpHost(self.endpoint, limits=LIMITS)
        self.user: dict[str, str | None] = {"x_user": "somebody"} if identified else {}
        self.session = ""
        self.target = ""

        @server.tool
        async def touch() -> str:
            """Has an effect."""
            self.touched += 1
            return "touched"

    async def begin(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        await nursery.start(self.host.run)
        self._connect = connector(self.host, nursery)
        opened = await self.ask(http("POST", "/mcp", initialize(R2025_11_25), **self.user))
        self.session = opened.headers["mcp-session-id"]
        assert (await self.ask(self.of_session(note("notifications/initialized")))).status == 202
        self.stream = await self.wire()
        await self.stream.send(http("GET", "/sse", **self.user))
        await self.stream.until(lambda: bool(self.stream.reader.events))
        self.target = self.stream.reader.events[0].data.decode()
        assert (await self.ask(http("POST", self.target, initialize(R2024_11_05), **self.user))).status == 202

    async def wire(self) -> Wire:
        return Wire(await self._connect())

    async def ask(self, data: bytes) -> Reader:
        """One request on a connection of its own. Of a stream only the beginning is read."""
        wire = await self.wire()
        await wire.send(data)
        await wire.until(lambda: bool(wire.reader.status))
        if not data.startswith(b"HEAD") and wire.reader.headers.get("content-type") != "text/event-stream":
            await wire.answer()
        await wire.aclose()
        await trio.testing.wait_all_tasks_blocked()
        return wire.reader

    def of_session(self, message: Body = b"", method: str = "POST", **more: str | None) -> bytes:
        given: dict[str, str | None] = {"mcp_session_id": self.session, "mcp_protocol_version": R2025_11_25.name}
        return http(method, "/mcp", message, **(given | self.user | more))

    @property
    def state(self) -> tuple[int, int]:
        """What a request may have changed."""
        return self.touched, self.endpoint.sessions

    def effective(self, **headers: str | None) -> dict[str, bytes]:
        """Requests that have an effect, by their path and method: they need but to be let in."""
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
async def place_of(*, origins: tuple[str, ...] = (), identified: bool = False) -> AsyncIterator[Place]:
    with trio.fail_after(100_000):
        async with trio.open_nursery() as nursery:
            place = Place(origins=origins, identified=identified)
            await place.begin(nursery)
            yield place
            nursery.cancel_scope.cancel()


def check_refused(answer: Reader, *, origin: str | None = None) -> None:
    """Whatever is refused: nobody is sent elsewhere, and no web page may read it."""
    assert 400 <= answer.status < 500, (answer.status, answer.headers, answer.body)
    check_headers(answer, origin=origin)


def check_headers(answer: Reader, *, origin: str | None = None) -> None:
    assert not 300 <= answer.status < 400
    assert "location" not in answer.headers
    assert answer.headers.get("access-control-allow-origin") == origin
    assert "access-control-allow-credentials" not in answer.headers


# --- who is kept out -------------------------------------------------------------------------------------------------

FOREIGN: dict[str, dict[str, str]] = {
    "another name": {"host": "evil.example"},
    "another name with a port": {"host": "evil.example:8000"},
    "a subdomain of another name": {"host": "127.0.0.1.evil.example"},
    "our name within another": {"host": "localhost.evil.example"},
    "our name behind a user": {"host": "localhost@evil.example"},
    "no name": {"host": ""},
    "only a port": {"host": ":8000"},
    "an address to listen on": {"host": "0.0.0.0:8000"},
    "a number": {"host": "2130706433"},
    "another address": {"host": "192.168.0.1"},
    "two names in one": {"host": "localhost, evil.example"},
    "another origin": {"origin": "https://evil.example"},
    "no origin in particular": {"origin": "null"},
    "another port of this machine": {"origin": "http://localhost:3000"},
    "an origin that begins like ours": {"origin": "http://localhost.evil.example"},
    "no origin at all": {"origin": ""},
    "any origin": {"origin": "*"},
    "two origins in one": {"origin": "http://localhost, https://evil.example"},
    "another site": {"sec_fetch_site": "cross-site"},
    "a site beside": {"sec_fetch_site": "same-site"},
}


async def test_the_table_knows_every_route(autojump_clock: Clock) -> None:
    async with place_of() as place:
        assert set(place.endpoint._routes) == set(ROUTES) | OPEN_ROUTES
        # Those that have an effect are all asked below.
        asked = {tuple(name.partition(",")[0].split(" ")) for name in place.effective()}
        assert asked == {(method, path) for path, methods in ROUTES.items() for method in methods}


async def test_what_is_refused_below_would_have_had_an_effect(autojump_clock: Clock) -> None:
    async with place_of() as place:
        for name, data in place.effective().items():
            before = place.state
            answer = await place.ask(data)
            assert answer.status in (200, 202), name
            check_headers(answer)
            if name != "GET /mcp":
                assert place.state != before or name == "GET /sse", name
        assert place.touched == 3


@pytest.mark.spec("http.origin-validate", "http.origin-403", "http.origin-invalid-403", "http-sse.origin-validate")
@pytest.mark.parametrize("who", FOREIGN)
@pytest.mark.parametrize("slash", ["", "/"])
async def test_a_foreign_request_is_refused_on_every_route(who: str, slash: str, autojump_clock: Clock) -> None:
    async with place_of() as place:
        before = place.state
        for name, data in place.effective(**FOREIGN[who]).items():
            head, _, rest = data.partition(b" HTTP/1.1")
            target, mark, query = head.partition(b"?")
            answer = await place.ask(b"%b%b%b%b HTTP/1.1%b" % (target, slash.encode(), mark, query, rest))
            assert answer.status == 403, name
            check_refused(answer)
            error = as_object(answer.json()["error"])
            assert error["code"] == -32600
            assert "id" not in answer.json()
            # Whoever set it up finds what to change.
            assert "EndpointPolicy.allowed_" in str(error["message"])
        for path in ROUTES:
            for method in METHODS:
                answer = await place.ask(http(method, path + slash, **FOREIGN[who]))
                assert answer.status == 403, (method, path)
                check_refused(answer)
        assert place.state == before


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
async def test_what_is_said_twice_or_not_at_all_is_refused(first: bytes, status: int, autojump_clock: Clock) -> None:
    async with place_of() as place:
        before = place.state
        for data in place.effective(host=None).values():
            answer = await place.ask(data.replace(b"HTTP/1.1", first, 1))
            assert answer.status == status
            check_refused(answer)
        assert place.state == before


async def test_a_target_that_names_another_host_is_refused(autojump_clock: Clock) -> None:
    async with place_of() as place:
        before = place.state
        for name, data in place.effective().items():
            method, _, rest = data.partition(b" ")
            for target in (b"http://evil.example", b"http://localhost@evil.example", b"http://localhost:9"):
                answer = await place.ask(b"%b %b%b" % (method, target, rest))
                assert answer.status == 403, name
                check_refused(answer)
        assert place.state == before


# --- what they bring -------------------------------------------------------------------------------------------------

BROUGHT: dict[str, tuple[int, dict[str, str | None]]] = {
    "plain text": (415, {"content_type": "text/plain"}),
    "plain text that is json": (415, {"content_type": "text/plain; charset=application/json"}),
    "a form": (415, {"content_type": "application/x-www-form-urlencoded"}),
    "a form of parts": (415, {"content_type": "multipart/form-data; boundary=x"}),
    "something": (415, {"content_type": None}),
    "another type": (415, {"content_type": "application/json-patch+json"}),
    "two types": (415, {"content_type": "text/plain, application/json"}),
    "compressed": (415, {"content_encoding": "gzip"}),
    "compressed twice": (415, {"content_encoding": "identity, br"}),
    "too much": (413, {"content_length": "100001"}),
    "far too much": (413, {"content_length": "99999999999999"}),
    "for a reader of pages": (406, {"accept": "text/html"}),
}


@pytest.mark.parametrize("what", BROUGHT)
async def test_a_post_that_brings_something_else_is_refused_on_every_route(what: str, autojump_clock: Clock) -> None:
    status, headers = BROUGHT[what]
    async with place_of() as place:
        before = place.state
        for name, data in place.effective(**headers).items():
            if not name.startswith("POST"):
                continue
            if what == "too much":
                data += b" " * (100_001 - len(data.partition(b"\r\n\r\n")[2]))
            answer = await place.ask(data)
            assert answer.status == status, name
            check_refused(answer)
        for path in ROUTES:
            check_refused(await place.ask(http("POST", path, b"{}", **headers)))
        assert place.state == before


@pytest.mark.parametrize("encoding", ["identity", "Identity"])
@pytest.mark.parametrize("media", ["application/json; charset=utf-8", "Application/JSON", "application/json;"])
async def test_other_ways_to_say_the_same_are_taken(media: str, encoding: str, autojump_clock: Clock) -> None:
    async with place_of() as place:
        for name, data in place.effective(content_type=media, content_encoding=encoding).items():
            if name.startswith("POST"):
                assert (await place.ask(data)).status in (200, 202), name


async def test_a_body_that_turns_out_too_large_is_refused_on_every_route(autojump_clock: Clock) -> None:
    async with place_of() as place:
        before = place.state
        chunked: dict[str, str | None] = {"transfer_encoding": "chunked", "content_length": None}
        for name, data in place.effective(**chunked).items():
            if name.startswith("POST"):
                head, _, body = data.partition(b"\r\n\r\n")
                body += b" " * 100_000
                answer = await place.ask(b"%b\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (head, len(body), body))
                assert answer.status == 413, name
                check_refused(answer)
        assert place.state == before


# --- methods and paths that there are not ----------------------------------------------------------------------------


@pytest.mark.spec("http.head-options-not-required", "http.single-endpoint")
async def test_other_methods_have_no_effect(autojump_clock: Clock) -> None:
    async with place_of() as place:
        before = place.state
        for path, methods in ROUTES.items():
            for method in set(METHODS) - methods:
                for slash in ("", "/"):
                    for body in (b"", json.dumps(call("touch")).encode()):
                        target = place.target.replace("?", slash + "?") if path == "/messages" else path + slash
                        length = str(len(body))
                        answer = await place.ask(
                            http(
                                method,
                                target,
                                body,
                                content_type="application/json",
                                content_length=length,
                                mcp_session_id=place.session,
                            )
                        )
                        assert answer.status == 405, (method, target)
                        allowed = set(answer.headers["allow"].split(", "))
                        assert method not in allowed
                        assert methods <= allowed
                        check_refused(answer)
        assert place.state == before


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
async def test_other_paths_are_not_found_and_lead_nowhere(path: str, autojump_clock: Clock) -> None:
    async with place_of() as place:
        before = place.state
        for name, data in place.effective().items():
            method, _, rest = data.partition(b" ")
            answer = await place.ask(b"%b %b %b" % (method, path.encode(), rest.partition(b" ")[2]))
            assert answer.status == 404, name
            check_refused(answer)
        assert place.state == before


async def test_health_is_told_to_anybody_and_does_nothing(autojump_clock: Clock) -> None:
    async with place_of(identified=True) as place:
        before = place.state
        for headers in ({}, *FOREIGN.values()):
            for method in METHODS:
                answer = await place.ask(http(method, "/healthz", b"", **headers))
                assert answer.status == 200
                check_headers(answer)
        assert place.state == before


# --- web pages that are let in ---------------------------------------------------------------------------------------


async def test_only_a_listed_page_is_told_that_it_may_read(autojump_clock: Clock) -> None:
    async with place_of(origins=(LISTED,)) as place:
        for origin in (
            "https://evil.example",
            "null",
            f"{LISTED}.evil.example",
            "http://app.example",
            LISTED + ":8443",
        ):
            for data in place.effective(origin=origin).values():
                answer = await place.ask(data)
                assert answer.status == 403
                check_refused(answer)
            for path in ROUTES:
                preflight = http("OPTIONS", path, origin=origin, access_control_request_method="POST")
                answer = await place.ask(preflight)
                assert answer.status == 403
                check_refused(answer)
        for name, data in place.effective(origin=LISTED, sec_fetch_site="cross-site").items():
            answer = await place.ask(data)
            assert answer.status in (200, 202), name
            check_headers(answer, origin=LISTED)
            assert "origin" in answer.headers["vary"].lower()
        for path in ROUTES:
            answer = await place.ask(http("OPTIONS", path, origin=LISTED, access_control_request_method="POST"))
            assert answer.status == 204
            check_headers(answer, origin=LISTED)
        # Also a refusal can be read, so that the page can tell its visitor.
        check_refused(await place.ask(http("POST", "/mcp", b"{", origin=LISTED)), origin=LISTED)


# --- other users -----------------------------------------------------------------------------------------------------


@attrs.define
class Seen:
    """What somebody gets to see: nothing may tell an id of somebody else from one that does not exist."""

    status: int
    body: bytes
    headers: dict[str, str]

    @classmethod
    def of(cls, answer: Reader) -> Seen:
        return cls(answer.status, answer.body, {**answer.headers, "date": ""})


@pytest.mark.spec(
    "security.session-bound-to-user", "security.verify-all-requests", "security.no-session-authentication"
)
async def test_a_session_of_somebody_else_is_like_one_that_does_not_exist(autojump_clock: Clock) -> None:
    async with place_of(identified=True) as place:
        before = place.state
        theirs = {name: data for name, data in place.effective(x_user="else").items() if needs_session(name)}
        session, target = place.session, place.target
        place.session = "A" * len(session)
        place.target = target.partition("=")[0] + "=" + "A" * len(target.partition("=")[2])
        unknown = {name: data for name, data in place.effective(x_user="else").items() if needs_session(name)}
        place.session, place.target = session, target
        assert len(theirs) == 4
        used = await place.wire()
        for using in (False, True):
            if using:
                await used.send(place.of_session(b"", "GET"))
                await used.until(lambda: bool(used.reader.events))
            for name, data in theirs.items():
                seen = Seen.of(await place.ask(data))
                assert seen.status == 404, name
                assert seen == Seen.of(await place.ask(unknown[name])), name
        await used.aclose()
        resuming = place.of_session(b"", "GET", x_user="else", last_event_id="1-0")
        assert (await place.ask(resuming)).status == 404
        assert place.state == before
        # Whose it is may use it still.
        assert (await place.ask(place.of_session(asking("ping")))).status == 200


def needs_session(name: str) -> bool:
    return name in ("POST /mcp, in a session", "POST /messages", "GET /mcp", "DELETE /mcp")


@pytest.mark.spec("http.authentication", "http-sse.authentication")
async def test_nobody_comes_in_who_is_not_known(autojump_clock: Clock) -> None:
    async with place_of(identified=True) as place:
        before = place.state
        for name, data in place.effective(x_user=None).items():
            answer = await place.ask(data)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer"), name
            check_refused(answer)
        assert place.state == before


async def test_a_session_id_in_another_place_is_none(autojump_clock: Clock) -> None:
    async with place_of() as place:
        for data in (
            http("POST", f"/mcp?session={place.session}", asking("ping"), mcp_session_id=None),
            http("POST", "/mcp", asking("ping"), cookie=f"Mcp-Session-Id={place.session}"),
            http("POST", "/mcp", asking("ping"), authorization=f"Bearer {place.session}"),
        ):
            assert (await place.ask(data)).status == 400
        other = place.target.partition("=")[2]
        for target in ("/messages", f"/messages?session={other}&session={place.session}", f"/messages?Session={other}"):
            assert (await place.ask(http("POST", target, asking("ping"), mcp_session_id=other))).status == 404
        # A session of one kind is none of the other.
        assert (await place.ask(legacy(other, R2025_11_25, asking("ping")))).status == 404
        assert (await place.ask(http("POST", f"/messages?session={place.session}", asking("ping")))).status == 404


@pytest.mark.parametrize(("method", "path"), [("POST", "/mcp"), ("GET", "/sse"), ("POST", "/messages")])
async def test_nobody_is_identified_who_is_refused_in_any_case(method: str, path: str) -> None:
    asked: list[str] = []
    statuses: list[object] = []

    async def identify(request: HttpRequest) -> str | None:
        asked.append(request.path)
        raise AccessDenied("who are you?", status=401)

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
    assert asked == [path]
