"""Responses and log records contain at most an excerpt of the client's input, in whichever member it was sent."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import attrs
import pytest
import trio
import trio.testing
from raw_client import RawClient, connected
from walk_server import make_server, wire_sample

from mcp_client import ClientOptions, Handlers, open_stream
from mcp_core import types as t
from mcp_core.conversion.wire_types import (
    Array,
    Choice,
    Dictionary,
    Enumeration,
    Form,
    ObjectJson,
    Ref,
    Scalar,
    ScalarKind,
    form_of,
    wire_class,
)
from mcp_core.errors import AccessDenied, McpError
from mcp_core.http.messages import HttpRequest
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import CLIENT_LIMITS, Limits
from mcp_core.methods import (
    INITIALIZE,
    METHODS,
    NOTIFICATIONS,
    SUBSCRIPTIONS_LISTEN,
    AnyNotificationMethod,
    AnyRequestMethod,
    NotificationMethod,
    Side,
)
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_server.host.embedded import HttpHost
from mcp_server.host.timeouts import HostTimeouts

MARK: Final = "m" * 2**20
"""The value sent in place of each member. Its letters occur together nowhere else."""

EXCERPT: Final = "m" * 2_100
"""Text that no response may contain: more than a long URI."""

MAX_LENGTH: Final = 8_192
"""The maximum bytes of a response, and characters of a log record."""

REVISIONS: Final = (R2025_11_25, R2026_07_28)

RETURNED: Final = frozenset({"tools/call arguments.text", "prompts/get arguments.of", "_meta.progressToken"})
"""Members that the author's function returns, or that the protocol returns."""


def samples(form: Form, revision: Revision, depth: int = 0) -> Iterator[JsonValue]:
    """Yield JSON values of a form with all members, one for each alternative."""
    match form:
        case Ref(cls):
            record = wire_class(cls, revision)
            members: JsonObject = {}
            for member in record.members:
                if depth < 3 and member.wire != "_meta":
                    members[member.wire] = next(samples(member.form, revision, depth + 1), None)
            if record.tag is not None:
                members[record.tag[0]] = record.tag[1]
            yield members
        case Choice(forms):
            for each in forms:
                if not isinstance(each, Ref) or revision in each.cls.__wire__.alive:
                    yield from samples(each, revision, depth)
        case Array(item):
            yield [next(samples(item, revision, depth + 1), None)]
        case Dictionary(value):
            yield {"key": next(samples(value, revision, depth + 1), None)}
        case Enumeration(values):
            yield values[0]
        case Scalar(ScalarKind.STRING):
            yield "text"
        case Scalar(ScalarKind.BOOLEAN):
            yield True
        case Scalar():
            yield 1
        case ObjectJson():
            yield {"key": "text"}
        case _:
            yield "any"


def mark_parts(value: JsonValue, path: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Yield the value with the mark in place of each of its parts, or as the name of an additional member."""
    if isinstance(value, dict):
        yield f"{path}+", {**value, MARK: 0}
        for name, inner in value.items():
            for position, changed in mark_parts(inner, f"{path}.{name}" if path else name):
                yield position, {**value, name: changed}
    elif isinstance(value, list):
        yield f"{path}[]", [MARK]
        for position, changed in mark_parts(value[0], f"{path}[0]") if value else ():
            yield position, [changed]
    if path:
        yield path, MARK


def mark_params(
    definition: AnyRequestMethod | AnyNotificationMethod, revision: Revision
) -> Iterator[tuple[str, JsonObject]]:
    """Yield params of a definition with the mark in each position."""
    sample_params = wire_sample(definition)
    positions_done: set[str] = set()
    for params in (sample_params, *samples(form_of(definition.params), revision)):
        assert isinstance(params, dict)
        for position, changed in mark_parts({**params, **{k: v for k, v in sample_params.items() if k in params}}):
            assert isinstance(changed, dict)
            if position not in positions_done:
                positions_done.add(position)
                yield position, changed
    for position, meta in mark_parts({"progressToken": 1, "key": "text"}, "_meta"):
        yield position, {**sample_params, "_meta": meta}


def check_records(caplog: pytest.LogCaptureFixture, position: str) -> None:
    """Check that no log record contains more than an excerpt."""
    formatter = logging.Formatter()
    for record in caplog.records:
        text = formatter.format(record)
        assert EXCERPT not in text, (position, record.getMessage()[:200])
        assert len(record.getMessage()) <= MAX_LENGTH, (position, record.getMessage()[:200])
    caplog.clear()


def check_lines(client: RawClient, position: str) -> None:
    for line in client.lines:
        text = json.dumps(line)
        assert EXCERPT not in text, (position, text[:300])
        assert len(text) <= 2 * MAX_LENGTH, (position, text[:300])
    client.lines.clear()


REQUESTS: Final = [
    pytest.param(definition, revision, id=f"{definition.name}-{revision}")
    for definition in METHODS
    for revision in REVISIONS
    if Side.CLIENT in definition.sender and revision in definition.revisions
]


@pytest.mark.parametrize(("definition", "revision"), REQUESTS)
async def test_response_contains_only_excerpt_of_request(
    definition: AnyRequestMethod, revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    cases = list(mark_params(definition, revision))
    if definition is INITIALIZE:
        for position, params in cases:
            async with connected(make_server(declares=True), revision, opened=False) as client:
                await check_response(client, definition, position, params, caplog)
        return
    async with connected(make_server(declares=True), revision) as client:
        client.lines.clear()
        caplog.clear()
        for position, params in cases:
            await check_response(client, definition, position, params, caplog)


async def check_response(
    client: RawClient, definition: AnyRequestMethod, position: str, params: JsonObject, caplog: pytest.LogCaptureFixture
) -> None:
    id = await client.start(definition.name, params)
    # A subscription is acknowledged. Its response is sent when it ends.
    await client.wait_for(lambda: bool(client.lines))
    if not {f"{definition.name} {position}", position} & RETURNED:
        check_lines(client, position)
        check_records(caplog, position)
    if definition is SUBSCRIPTIONS_LISTEN:
        await client.notify("notifications/cancelled", {"requestId": id})
    client.lines.clear()
    caplog.clear()


NOTIFICATION_CASES: Final = [
    pytest.param(definition, revision, id=f"{definition.name}-{revision}")
    for definition in NOTIFICATIONS
    for revision in REVISIONS
    if Side.CLIENT in definition.sender and revision in definition.revisions
]


@pytest.mark.parametrize(("definition", "revision"), NOTIFICATION_CASES)
async def test_log_contains_only_excerpt_of_notification(
    definition: AnyNotificationMethod, revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with connected(make_server(declares=True), revision) as client:
        client.lines.clear()
        caplog.clear()
        for position, params in mark_params(definition, revision):
            await client.notify(definition.name, params)
            await client.response(await client.start("prompts/list"))
            client.lines.clear()
            check_records(caplog, position)


ENVELOPES: Final[list[JsonValue]] = [
    MARK,
    [MARK],
    {MARK: 1},
    {"jsonrpc": MARK, "id": 1, "method": "ping"},
    {"jsonrpc": "2.0", "id": MARK, "method": "ping"},
    {"jsonrpc": "2.0", "id": 1, "method": MARK},
    {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": MARK},
    {"jsonrpc": "2.0", "id": 1, "method": "ping", "result": MARK},
    {"jsonrpc": "2.0", "id": 1, "result": MARK},
    {"jsonrpc": "2.0", "id": MARK, "result": {}},
    {"jsonrpc": "2.0", "id": 1, "error": MARK},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": MARK, "message": ""}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": MARK, "data": MARK}},
    {"jsonrpc": "2.0", "method": MARK},
    [{"jsonrpc": "2.0", "id": 1, "method": MARK}],
]


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
async def test_response_contains_only_excerpt_of_invalid_message(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with connected(make_server(declares=True), revision) as client:
        client.lines.clear()
        caplog.clear()
        raw = [json.dumps(envelope).encode() for envelope in ENVELOPES]
        raw += [MARK.encode(), b"{" + MARK.encode(), b'{"a":1,"a":"%b"}' % MARK.encode()]
        raw += [b'{"%b":1,"%b":1,"id":1,"method":"ping"}' % (EXCERPT.encode(), EXCERPT.encode())]
        for line in raw:
            await client.stream.send_all(line + b"\n")
            await trio.testing.wait_all_tasks_blocked()
            client._responses.clear()
            check_lines(client, line[:80].decode())
            check_records(caplog, line[:80].decode())


# --- headers ---------------------------------------------------------------------------------------------------------

SECRET: Final = "swordfish"

HEADERS: Final = (
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-param-region",
    "mcp-protocol-version",
    "origin",
    "sec-fetch-site",
    "te",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-for",
)

CREDENTIALS: Final = ("authorization", "cookie", "dpop", "proxy-authorization", "mcp-session-id")

VALUES: Final = (
    "m" * 30_000,
    "m\0",
    "m\x7f",
    "\xff" * 4_000,
    "=?base64?" + "m" * 30_000 + "?=",
    ",".join(["m"] * 15_000),
)


async def exchange(host: HttpHost, head: str, body: bytes = b"") -> bytes:
    """Send a request to the embedded host and return all bytes that it sends in response."""
    client_end, server_end = trio.testing.memory_stream_pair()
    response = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(host.serve_stream, server_end, client=("192.0.2.1", 5)))
        await client_end.send_all(f"{head}\r\n\r\n".encode("latin-1") + body)
        with trio.move_on_after(1):
            while data := await client_end.receive_some():
                response += data
        nursery.cancel_scope.cancel()
    return response


@asynccontextmanager
async def open_host() -> AsyncIterator[HttpHost]:
    """Serve the walk server over HTTP to clients with any token."""

    async def identify(request: HttpRequest) -> str:
        if request.headers.get("authorization") is None:
            raise AccessDenied("show a token", status=401)
        return "ada"

    server = make_server(declares=True)
    async with trio.open_nursery() as nursery, server.running():
        host = HttpHost(server.asgi(authenticate=identify), limits=Limits(), timeouts=HostTimeouts())
        await nursery.start(host.run)
        yield host
        nursery.cancel_scope.cancel()


def make_post(revision: Revision) -> tuple[str, bytes]:
    """Return the head of a valid request without its last line, and its body."""
    params = {"name": "echo", "arguments": {"text": "hello"}}
    meta = {
        "io.modelcontextprotocol/protocolVersion": revision.name,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**params, "_meta": meta}}
    body = json.dumps(message).encode()
    lines = {
        "host": "127.0.0.1",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": revision.name,
        "mcp-method": "tools/call",
        "mcp-name": "echo",
        "authorization": "Bearer known",
        "content-length": str(len(body)),
    }
    return "\r\n".join(f"{name}: {value}" for name, value in lines.items()), body


@pytest.mark.parametrize("name", [*HEADERS, *CREDENTIALS])
@pytest.mark.parametrize("revision", REVISIONS, ids=str)
async def test_response_contains_only_excerpt_of_header(
    name: str, revision: Revision, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG)
    head, body = make_post(revision)
    other_lines = "\r\n".join(line for line in head.split("\r\n") if not line.startswith(f"{name}:"))
    async with open_host() as host:
        for value in VALUES:
            for lines in (
                f"{other_lines}\r\n{name}: {value}",
                f"{head}\r\n{name}: {value}",
                f"{other_lines}\r\n{value}: {name}",
            ):
                for method in ("POST", "GET", "DELETE"):
                    response = await exchange(host, f"{method} /mcp HTTP/1.1\r\n{lines}", body)
                    assert response.startswith(b"HTTP/1.1 ")
                    assert len(response) <= MAX_LENGTH
                    assert EXCERPT.encode() not in response
                    check_records(caplog, name)


@pytest.mark.parametrize("name", CREDENTIALS)
@pytest.mark.parametrize("revision", REVISIONS, ids=str)
async def test_response_and_log_contain_no_credentials(
    name: str, revision: Revision, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG)
    head, body = make_post(revision)
    other_lines = "\r\n".join(line for line in head.split("\r\n") if not line.startswith(f"{name}:"))
    values = [
        f"{prefix}{SECRET}{suffix}" for prefix in ("", "Bearer ", "\0", "a\x7f") for suffix in ("", "\0", "\xff", " x")
    ]
    async with open_host() as host:
        for value in values:
            for lines in (
                f"{other_lines}\r\n{name}: {value}",
                f"{other_lines}\r\n{name}: {value}\r\n{name}: {value}",
                f"{other_lines}\r\n{name} : {value}",
                f"{other_lines}\r\n {name}: {value}",
            ):
                for method in ("POST", "GET", "DELETE", "BREW"):
                    response = await exchange(host, f"{method} /mcp HTTP/1.1\r\n{lines}", body)
                    assert SECRET.encode() not in response, response[-300:]
        formatter = logging.Formatter()
        assert not [record for record in caplog.records if SECRET in formatter.format(record)]


@pytest.mark.parametrize(
    "start",
    [
        "m" * 30_000 + " /mcp HTTP/1.1",
        "POST /" + "m" * 30_000 + " HTTP/1.1",
        "POST /mcp?" + "m" * 30_000 + " HTTP/1.1",
        "POST http://other/" + "m" * 20_000 + " HTTP/1.1",
        "POST /mcp HTTP/" + "m" * 30_000,
        "m" * 30_000,
    ],
)
async def test_response_contains_only_excerpt_of_start_line(
    start: str, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG)
    head, body = make_post(R2026_07_28)
    async with open_host() as host:
        response = await exchange(host, f"{start}\r\n{head}", body)
        assert response.startswith(b"HTTP/1.1 ")
        assert len(response) <= MAX_LENGTH
        assert EXCERPT.encode() not in response
        check_records(caplog, start[:80])


# --- messages of a server --------------------------------------------------------------------------------------------

HELLO: Final[JsonObject] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "logging": {}},
    "serverInfo": {"name": "x", "version": "1"},
}


class ScriptedServer:
    """A server that sends the given messages, and stores what it receives."""

    def __init__(self, messages: list[JsonValue]) -> None:
        self.messages = [json.dumps(message).encode() + b"\n" for message in messages]
        self.sent: list[bytes] = []
        self.closed = trio.Event()

    async def receive_some(self) -> bytes:
        await trio.lowlevel.checkpoint()
        if self.messages:
            return self.messages.pop(0)
        await self.closed.wait()
        return b""

    async def send_all(self, data: bytes | memoryview) -> None:
        self.sent.append(bytes(data))
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self.closed.set()
        await trio.lowlevel.checkpoint()


FROM_SERVER: Final = [
    *[definition for definition in METHODS if Side.SERVER in definition.sender and R2025_11_25 in definition.revisions],
    *[
        definition
        for definition in NOTIFICATIONS
        if Side.SERVER in definition.sender and R2025_11_25 in definition.revisions
    ],
]


@pytest.mark.parametrize("supported", [True, False], ids=["able", "unable"])
@pytest.mark.parametrize("definition", FROM_SERVER, ids=lambda definition: definition.name)
async def test_client_response_and_log_contain_only_excerpt(
    definition: AnyRequestMethod | AnyNotificationMethod,
    supported: bool,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: trio.testing.MockClock,
) -> None:
    caplog.set_level(logging.DEBUG)

    async def decline(_: object) -> t.ElicitResult:
        return t.ElicitResult(action="decline")

    async def sample(_: object) -> t.CreateMessageResult:
        return t.CreateMessageResult(role="assistant", content=t.TextContent(text="hi"), model="m")

    async def roots() -> list[t.Root]:
        return []

    handlers = Handlers(elicit=decline, elicit_url=decline, sample=sample, sample_tools=True, roots=roots)
    positions = [position for position, _ in mark_params(definition, R2025_11_25)]
    messages: list[JsonValue] = []
    for number, (_, params) in enumerate(mark_params(definition, R2025_11_25)):
        message: JsonObject = {"jsonrpc": "2.0", "method": definition.name, "params": params}
        messages.append(message if isinstance(definition, NotificationMethod) else {**message, "id": number})
    server = ScriptedServer([{"jsonrpc": "2.0", "id": 1, "result": HELLO}, *messages])
    limits = attrs.evolve(CLIENT_LIMITS, outgoing_bytes=2**26)
    handlers = handlers if supported else Handlers()
    async with open_stream(server, revisions=[R2025_11_25], options=ClientOptions(limits=limits), handlers=handlers):
        await trio.testing.wait_all_tasks_blocked(0.1)
    for data in server.sent:
        for line in data.splitlines():
            assert EXCERPT.encode() not in line, (positions, line[:300])
            assert len(line) <= MAX_LENGTH, line[:300]
    check_records(caplog, definition.name)


RESPONSES: Final[list[JsonObject]] = [
    {"result": MARK},
    {"result": {MARK: 1}},
    {"result": {"tools": MARK}},
    {"result": {"tools": [{"name": MARK}]}},
    {"result": {"tools": [], "nextCursor": [MARK]}},
    {"error": MARK},
    {"error": {"code": MARK, "message": MARK}},
    {"id": MARK, "result": {}},
    {"id": [MARK], "result": {}},
    {"jsonrpc": MARK, "result": {}},
    {"method": MARK},
    {"method": MARK, "id": None, "params": {}},
]


@pytest.mark.parametrize("response", RESPONSES, ids=range(len(RESPONSES)))
async def test_client_log_contains_only_excerpt_of_response(
    response: JsonObject, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG)
    server = ScriptedServer([{"jsonrpc": "2.0", "id": 1, "result": HELLO}])
    async with open_stream(server, revisions=[R2025_11_25]) as client:
        server.messages.append(json.dumps({"jsonrpc": "2.0", "id": 2, **response}).encode() + b"\n")
        with trio.move_on_after(1), contextlib.suppress(McpError):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.list_tools)
    check_records(caplog, repr(response)[:80])
    for data in server.sent:
        assert EXCERPT.encode() not in data
