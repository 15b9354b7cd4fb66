"""No answer and no log record repeats more than an excerpt of what a client sent, wherever it sent it."""

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

from mcp_client import Handlers, open_stream
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
    shape,
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
    AnyMethod,
    AnyNotification,
    NotificationRow,
    Role,
)
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_server.host.embedded import Host
from mcp_server.host.timeouts import HostTimeouts

MARK: Final = "m" * 2**20
"""What is sent in place of each member. Its letters occur together nowhere else."""

EXCERPT: Final = "m" * 2_100
"""What must not come back: more than a long URI."""

MOST: Final = 8_192
"""Bytes of an answer, and characters of a log record."""

REVISIONS: Final = (R2025_11_25, R2026_07_28)

RETURNED: Final = frozenset({"tools/call arguments.text", "prompts/get arguments.of", "_meta.progressToken"})
"""Members that the function of the author returns, or that are returned by contract."""


def samples(form: Form, revision: Revision, depth: int = 0) -> Iterator[JsonValue]:
    """JSON of a form with all its members, one for each alternative."""
    match form:
        case Ref(cls):
            described = shape(cls, revision)
            members: JsonObject = {}
            for member in described.members:
                if depth < 3 and member.wire != "_meta":
                    members[member.wire] = next(samples(member.form, revision, depth + 1), None)
            if described.tag is not None:
                members[described.tag[0]] = described.tag[1]
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


def marked(value: JsonValue, path: str = "") -> Iterator[tuple[str, JsonValue]]:
    """The same value with the mark in place of one of its parts, or as the name of one more member."""
    if isinstance(value, dict):
        yield f"{path}+", {**value, MARK: 0}
        for name, inner in value.items():
            for where, changed in marked(inner, f"{path}.{name}" if path else name):
                yield where, {**value, name: changed}
    elif isinstance(value, list):
        yield f"{path}[]", [MARK]
        for where, changed in marked(value[0], f"{path}[0]") if value else ():
            yield where, [changed]
    if path:
        yield path, MARK


def all_marked(row: AnyMethod | AnyNotification, revision: Revision) -> Iterator[tuple[str, JsonObject]]:
    """Parameters of a row with the mark somewhere."""
    working = wire_sample(row)
    seen: set[str] = set()
    for params in (working, *samples(form_of(row.params), revision)):
        assert isinstance(params, dict)
        for where, changed in marked({**params, **{k: v for k, v in working.items() if k in params}}):
            assert isinstance(changed, dict)
            if where not in seen:
                seen.add(where)
                yield where, changed
    for where, meta in marked({"progressToken": 1, "key": "text"}, "_meta"):
        yield where, {**working, "_meta": meta}


def check_records(caplog: pytest.LogCaptureFixture, where: str) -> None:
    """The log has no more than an excerpt either."""
    formatter = logging.Formatter()
    for record in caplog.records:
        text = formatter.format(record)
        assert EXCERPT not in text, (where, record.getMessage()[:200])
        assert len(record.getMessage()) <= MOST, (where, record.getMessage()[:200])
    caplog.clear()


def check_lines(client: RawClient, where: str) -> None:
    for line in client.lines:
        text = json.dumps(line)
        assert EXCERPT not in text, (where, text[:300])
        assert len(text) <= 2 * MOST, (where, text[:300])
    client.lines.clear()


ROWS: Final = [
    pytest.param(row, revision, id=f"{row.name}-{revision}")
    for row in METHODS
    for revision in REVISIONS
    if Role.CLIENT in row.sender and revision in row.revisions
]


@pytest.mark.parametrize(("row", "revision"), ROWS)
async def test_an_answer_to_any_request_has_no_more_than_an_excerpt_of_it(
    row: AnyMethod, revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    cases = list(all_marked(row, revision))
    if row is INITIALIZE:
        for where, params in cases:
            async with connected(make_server(declares=True), revision, opened=False) as client:
                await check(client, row, where, params, caplog)
        return
    async with connected(make_server(declares=True), revision) as client:
        client.lines.clear()
        caplog.clear()
        for where, params in cases:
            await check(client, row, where, params, caplog)


async def check(
    client: RawClient, row: AnyMethod, where: str, params: JsonObject, caplog: pytest.LogCaptureFixture
) -> None:
    id = await client.start(row.name, params)
    # A subscription is acknowledged, and answered only when it ends.
    await client.wait_for(lambda: bool(client.lines))
    if not {f"{row.name} {where}", where} & RETURNED:
        check_lines(client, where)
        check_records(caplog, where)
    if row is SUBSCRIPTIONS_LISTEN:
        await client.notify("notifications/cancelled", {"requestId": id})
    client.lines.clear()
    caplog.clear()


NOTICES: Final = [
    pytest.param(row, revision, id=f"{row.name}-{revision}")
    for row in NOTIFICATIONS
    for revision in REVISIONS
    if Role.CLIENT in row.sender and revision in row.revisions
]


@pytest.mark.parametrize(("row", "revision"), NOTICES)
async def test_the_log_has_no_more_than_an_excerpt_of_any_notification(
    row: AnyNotification, revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with connected(make_server(declares=True), revision) as client:
        client.lines.clear()
        caplog.clear()
        for where, params in all_marked(row, revision):
            await client.notify(row.name, params)
            await client.response(await client.start("prompts/list"))
            client.lines.clear()
            check_records(caplog, where)


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
async def test_an_answer_to_any_envelope_has_no_more_than_an_excerpt_of_it(
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


async def exchange(host: Host, head: str, body: bytes = b"") -> bytes:
    """All that the embedded host sends in answer to one request, until it waits for the next."""
    ours, theirs = trio.testing.memory_stream_pair()
    answer = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(host.serve_stream, theirs, client=("192.0.2.1", 5)))
        await ours.send_all(f"{head}\r\n\r\n".encode("latin-1") + body)
        with trio.move_on_after(1):
            while data := await ours.receive_some():
                answer += data
        nursery.cancel_scope.cancel()
    return answer


@asynccontextmanager
async def hosted() -> AsyncIterator[Host]:
    """The walk server over HTTP, for those who are let in by any token."""

    async def identify(request: HttpRequest) -> str:
        if request.headers.get("authorization") is None:
            raise AccessDenied("show a token", status=401)
        return "ada"

    server = make_server(declares=True)
    async with trio.open_nursery() as nursery, server.running():
        host = Host(server.asgi(identify=identify), limits=Limits(), timeouts=HostTimeouts())
        await nursery.start(host.run)
        yield host
        nursery.cancel_scope.cancel()


def posted(revision: Revision) -> tuple[str, bytes]:
    """The head of a good request without its last line, and its body."""
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
async def test_an_answer_to_any_header_has_no_more_than_an_excerpt_of_it(
    name: str, revision: Revision, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG)
    head, body = posted(revision)
    kept = "\r\n".join(line for line in head.split("\r\n") if not line.startswith(f"{name}:"))
    async with hosted() as host:
        for value in VALUES:
            for lines in (f"{kept}\r\n{name}: {value}", f"{head}\r\n{name}: {value}", f"{kept}\r\n{value}: {name}"):
                for method in ("POST", "GET", "DELETE"):
                    answer = await exchange(host, f"{method} /mcp HTTP/1.1\r\n{lines}", body)
                    assert answer.startswith(b"HTTP/1.1 ")
                    assert len(answer) <= MOST
                    assert EXCERPT.encode() not in answer
                    check_records(caplog, name)


@pytest.mark.parametrize("name", CREDENTIALS)
@pytest.mark.parametrize("revision", REVISIONS, ids=str)
async def test_no_answer_and_no_log_record_has_any_part_of_credentials(
    name: str, revision: Revision, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG)
    head, body = posted(revision)
    kept = "\r\n".join(line for line in head.split("\r\n") if not line.startswith(f"{name}:"))
    values = [
        f"{before}{SECRET}{behind}" for before in ("", "Bearer ", "\0", "a\x7f") for behind in ("", "\0", "\xff", " x")
    ]
    async with hosted() as host:
        for value in values:
            for lines in (
                f"{kept}\r\n{name}: {value}",
                f"{kept}\r\n{name}: {value}\r\n{name}: {value}",
                f"{kept}\r\n{name} : {value}",
                f"{kept}\r\n {name}: {value}",
            ):
                for method in ("POST", "GET", "DELETE", "BREW"):
                    answer = await exchange(host, f"{method} /mcp HTTP/1.1\r\n{lines}", body)
                    assert SECRET.encode() not in answer, answer[-300:]
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
async def test_an_answer_to_any_start_line_has_no_more_than_an_excerpt_of_it(
    start: str, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG)
    head, body = posted(R2026_07_28)
    async with hosted() as host:
        answer = await exchange(host, f"{start}\r\n{head}", body)
        assert answer.startswith(b"HTTP/1.1 ")
        assert len(answer) <= MOST
        assert EXCERPT.encode() not in answer
        check_records(caplog, start[:80])


# --- what a server sends ---------------------------------------------------------------------------------------------

HELLO: Final[JsonObject] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "logging": {}},
    "serverInfo": {"name": "x", "version": "1"},
}


class Talker:
    """A server that sends what a test gives it, and keeps what it receives."""

    def __init__(self, says: list[JsonValue]) -> None:
        self.says = [json.dumps(message).encode() + b"\n" for message in says]
        self.heard: list[bytes] = []
        self.closed = trio.Event()

    async def receive_some(self) -> bytes:
        await trio.lowlevel.checkpoint()
        if self.says:
            return self.says.pop(0)
        await self.closed.wait()
        return b""

    async def send_all(self, data: bytes | memoryview) -> None:
        self.heard.append(bytes(data))
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self.closed.set()
        await trio.lowlevel.checkpoint()


FROM_SERVER: Final = [
    *[row for row in METHODS if Role.SERVER in row.sender and R2025_11_25 in row.revisions],
    *[row for row in NOTIFICATIONS if Role.SERVER in row.sender and R2025_11_25 in row.revisions],
]


@pytest.mark.parametrize("able", [True, False], ids=["able", "unable"])
@pytest.mark.parametrize("row", FROM_SERVER, ids=lambda row: row.name)
async def test_a_client_answers_and_logs_no_more_than_an_excerpt_of_what_a_server_sends(
    row: AnyMethod | AnyNotification,
    able: bool,
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
    wheres = [where for where, _ in all_marked(row, R2025_11_25)]
    messages: list[JsonValue] = []
    for number, (_, params) in enumerate(all_marked(row, R2025_11_25)):
        message: JsonObject = {"jsonrpc": "2.0", "method": row.name, "params": params}
        messages.append(message if isinstance(row, NotificationRow) else {**message, "id": number})
    talker = Talker([{"jsonrpc": "2.0", "id": 1, "result": HELLO}, *messages])
    limits = attrs.evolve(CLIENT_LIMITS, outgoing_bytes=2**26)
    handlers = handlers if able else Handlers()
    async with open_stream(talker, revisions=[R2025_11_25], limits=limits, handlers=handlers):
        await trio.testing.wait_all_tasks_blocked(0.1)
    for data in talker.heard:
        for line in data.splitlines():
            assert EXCERPT.encode() not in line, (wheres, line[:300])
            assert len(line) <= MOST, line[:300]
    check_records(caplog, row.name)


ANSWERS: Final[list[JsonObject]] = [
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


@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
async def test_a_client_logs_no_more_than_an_excerpt_of_an_answer(
    answer: JsonObject, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG)
    talker = Talker([{"jsonrpc": "2.0", "id": 1, "result": HELLO}])
    async with open_stream(talker, revisions=[R2025_11_25]) as client:
        talker.says.append(json.dumps({"jsonrpc": "2.0", "id": 2, **answer}).encode() + b"\n")
        with trio.move_on_after(1), contextlib.suppress(McpError):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.list_tools)
    check_records(caplog, repr(answer)[:80])
    for data in talker.heard:
        assert EXCERPT.encode() not in data
