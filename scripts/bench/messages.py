"""The benchmark of the worst messages that the limits allow: milliseconds of CPU on the event loop for each MiB.

    nox -s bench_messages                     all rows, about three minutes
    nox -s bench_messages -- --only codec     the rows whose name contains the word
    nox -s bench_messages -- --mib 4          messages of 4 MiB instead of 1

Each row is a generator of messages and a receiver. A receiver takes the bytes as a peer sends them (whole, in pieces of
1 KiB, or byte by byte) and does everything that the library does with them on the event loop, up to the function of the
author. Two figures are printed: `ms/MiB`, of which `ALLOWED` are allowed, and `growth`, the cost of a message twice as
large divided by the cost of the message: 2.0 is linear, 4.0 is quadratic.

A row over the allowance is marked, and the exit status is 1, unless `EXCUSED` has a reason for it.
"""

# ruff: noqa: ARG001 -- the functions of the server ignore their arguments

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import logging
import math
import sys
import time
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import attrs
import trio

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.codec import decode, encode
from mcp_core.engine.client import ClientConnection
from mcp_core.errors import McpError
from mcp_core.framing.lines import LineFramer
from mcp_core.framing.sse import SseParser
from mcp_core.http.client import Deviations, EventReader
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.http.header_parameters import param_headers
from mcp_core.http.media_types import accepts
from mcp_core.http.messages import Headers, HttpRequest
from mcp_core.http.origin import rejection
from mcp_core.http.routing_headers import decode_value
from mcp_core.jsonrpc.messages import JsonObject, JsonValue, ResultResponse
from mcp_core.limits import Limits
from mcp_core.oauth import scopes
from mcp_core.oauth.challenge import read_challenges
from mcp_core.revisions import R2025_03_26, R2025_11_25, R2026_07_28, Revision
from mcp_core.types.meta import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from mcp_server import Context, Server, serve_stream
from mcp_server.host.http1 import HeadReader, RequestHeadRejected, read_common

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ALLOWED: Final = 50.0
"""Milliseconds of the event loop for each MiB of a message."""

_PORTIONS: Final = "read in portions of 64 KiB; other tasks run between them"
_INSTANCES: Final = "each of at most Limits.array_items items becomes an instance of a class"
_SMALL: Final = "1,000 responses at most, by Limits.batch_members"

EXCUSED: Final = {
    "byte by byte": "each call costs one more read of the operating system; only linear growth is required",
    "events: ": _PORTIONS,
    "lines: ": _PORTIONS,
    "server: pings": "many messages: other tasks run after each 64",
    "server: cancellations": "many messages: other tasks run after each 64",
    "server: roots that changed": "many messages: other tasks run after each 64",
    "a batch of": _SMALL,
    "codec: deep": "the cost of orjson and of freeing, without garbage collection",
    "repeated member, then": "searched in texts of 1 MiB at most",
    "that repeat a member": "searched in texts of 1 MiB at most",
    "icons of a client": _INSTANCES,
    "answers of the client": "20,000 of them are checked, see mcp_core.conversion.converter",
    "client: wrong content": "20,000 of them are checked, see mcp_core.conversion.converter",
    "client: ": _INSTANCES,
    "server: right": _INSTANCES,
    "server: echoed": "the function of the author returns it",
    "server: URI of": "64 KiB at most, by MAX_URI_BYTES",
    "server: 1,000 watched": "each is matched against each template; Limits.watched_resources at most",
    "tree of unions": "each value is read once for each union that it may belong to",
}
"""The reasons why rows may be over the allowance, by a part of their names."""

MIB: Final = 1024 * 1024
HEAD: Final = 30_000
"""The size that remains for a header in addition to the required headers."""
INFO: Final = t.Implementation(name="bench", version="1")
META: Final[JsonObject] = {
    PROTOCOL_VERSION: R2026_07_28.name,
    CLIENT_CAPABILITIES: {"elicitation": {"form": {}, "url": {}}, "roots": {}, "sampling": {}},
    CLIENT_INFO: {"name": "bench", "version": "1"},
}
LIMITS: Final = Limits(message_bytes=64 * MIB)


class Row(NamedTuple):
    """A message with its receiver."""

    name: str
    make: Callable[[int], bytes]
    """Returns a message of about this many bytes."""
    receive: Callable[[bytes], None]
    most: int = 10**9
    """The greatest size that the limits allow, in bytes."""


# --- messages --------------------------------------------------------------------------------------------------------


def filled(prefix: str, item: str, suffix: str, *, most: int = 99_000) -> Callable[[int], bytes]:
    """Return a function that repeats an item up to a size, at most `most` times, and pads with a string; `%d` is a number."""

    def make(size: int) -> bytes:
        numbered = "%d" in item
        length = len(item) + (4 if numbered else 0)
        count = max(1, min(most, size // length))
        body = "".join([item % number for number in range(count)]) if numbered else item * count
        return (prefix + body.removesuffix(",") + suffix).encode()

    return make


def nested(open_: str, close: str, depth: int, inner: str = "") -> str:
    """Return an item with this many levels."""
    return open_ * depth + inner + close * depth + ","


def request(method: str, params: str, *, modern: bool = True) -> tuple[str, str]:
    """Return the text before and after the members of params."""
    meta = f'"_meta":{json.dumps(META)},' if modern else ""
    return f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{meta}{params}', "}}"


def call(tool: str, open_: str, item: str, close: str, *, most: int = 99_000) -> Callable[[int], bytes]:
    """Return a call of a tool whose arguments contain many items."""
    before, behind = request("tools/call", f'"name":"{tool}","arguments":{open_}')
    return filled(before, item, close + behind, most=most)


# --- receivers -------------------------------------------------------------------------------------------------------


def decoding(data: bytes) -> None:
    """Run the codec only."""
    try:
        message = decode(data, LIMITS)
    except McpError:
        return
    del message


def framing(piece: int) -> Callable[[bytes], None]:
    """Parse lines, in pieces."""

    def receive(data: bytes) -> None:
        framer = LineFramer(LIMITS)
        for at in range(0, len(data), piece):
            framer.receive_data(data[at : at + piece])

    return receive


def events(piece: int) -> Callable[[bytes], None]:
    """Parse server-sent events, in pieces."""

    def receive(data: bytes) -> None:
        parser = SseParser(LIMITS)
        for at in range(0, len(data), piece):
            parser.receive_data(data[at : at + piece])

    return receive


def stream_of_events(data: bytes) -> None:
    """Parse server-sent events with messages."""
    reader = EventReader(LIMITS, Deviations())
    for at in range(0, len(data), 65_536):
        for _ in reader.receive_data(data[at : at + 65_536]):
            pass


class MemoryStream:
    """A peer that sends given chunks and drops what it receives."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self.chunks = list(chunks)
        self.taken = 0

    async def receive_some(self) -> bytes:
        """Return the next portion."""
        await trio.lowlevel.checkpoint()
        return self.chunks.pop(0) if self.chunks else b""

    async def send_all(self, data: bytes | memoryview) -> None:
        """Drop a response."""
        await trio.lowlevel.checkpoint()
        self.taken += len(data)


@attrs.define
class Leaf:
    """A record."""

    kind: Literal["leaf"]
    value: int = 0


@attrs.define
class Plus:
    """A record that contains others."""

    kind: Literal["plus"]
    left: Plus | Times | Leaf
    right: Plus | Times | Leaf | None = None


@attrs.define
class Times:
    """Another record that contains others."""

    kind: Literal["times"]
    left: Plus | Times | Leaf
    right: Plus | Times | Leaf | None = None


SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"anyOf": [{"type": "string", "pattern": "^(a+)+$"}, {"type": "integer"}]}},
        "unique": {"type": "array", "uniqueItems": True},
    },
    "additionalProperties": {"type": "integer"},
    "patternProperties": {"^(x+)+y$": {"type": "string"}},
}


def make_server() -> Server:
    """Return a server with a function of each kind."""
    server = Server("bench", version="1", limits=LIMITS)

    @server.tool
    async def few(alpha: int = 0, beta: int = 0, gamma: int = 0) -> str:
        return "ok"

    @server.tool
    async def numbers(items: list[int] | None = None) -> str:
        return "ok"

    @server.tool
    async def grids(items: list[list[list[int]]] | None = None) -> str:
        return "ok"

    @server.tool
    async def either(items: list[int | float | bool | list[int]] | None = None) -> str:
        return "ok"

    @server.tool
    async def table(items: dict[str, int] | None = None) -> str:
        return "ok"

    @server.tool
    async def leaves(items: list[Leaf] | None = None) -> str:
        return "ok"

    @server.tool
    async def tree(items: Plus | Times | Leaf | None = None) -> str:
        return "ok"

    @server.tool
    async def distinct(items: frozenset[str] | None = None) -> str:
        return "ok"

    @server.tool
    async def echo(items: object = None) -> object:
        return items

    @server.tool(input_schema=SCHEMA)
    async def given(arguments: dict[str, JsonValue]) -> str:
        return "ok"

    @server.tool
    async def with_input_requests(context: Context) -> str:
        await context.elicit_url("https://example.com/", "?", key="q")
        return "ok"

    for number in range(300):
        server.add_tool(few, name=f"{'near' * 20}{number}")
    for number in range(20):

        async def read(path: list[str], number: int = number) -> str:
            return "ok"

        server.add_resource(read, f"t{number}://host/{{/path*}}".replace("host/{", "host{"))

    @server.resource("q://host{?items*}")
    async def queried(items: list[str] | dict[str, str]) -> str:
        return "ok"

    @server.resource("p://host/{+path}")
    async def below(path: str) -> str:
        return "ok"

    @server.prompt
    async def prompt(first: str = "", second: str = "") -> str:
        return "ok"

    @server.completion(prompt="prompt", argument="first")
    async def complete(value: str, arguments: dict[str, str]) -> list[str]:
        return []

    return server


SERVER: Final = make_server()


def opening(revision: Revision) -> list[bytes]:
    """Return the first messages of a client."""
    if revision is R2026_07_28:
        return []
    params = {"protocolVersion": revision.name, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    return [json.dumps(hello).encode() + b"\n", json.dumps(ready).encode() + b"\n"]


def serving(revision: Revision = R2026_07_28, piece: int = 65_536) -> Callable[[bytes], None]:
    """Run a server on a byte stream, from the bytes of a request to those of its response."""

    def receive(data: bytes) -> None:
        chunks = opening(revision)
        line = data + b"\n"
        chunks += [line[at : at + piece] for at in range(0, len(line), piece)]
        trio.run(serve_stream, SERVER, MemoryStream(chunks))

    return receive


def http(data: bytes) -> None:
    """Run a server on ASGI, from the bytes of a request to those of its response."""
    headers = [
        (b"host", b"127.0.0.1"),
        (b"content-type", b"application/json"),
        (b"accept", b"application/json, text/event-stream"),
        (b"mcp-protocol-version", R2026_07_28.name.encode()),
        (b"mcp-method", b"tools/call"),
        (b"mcp-name", b"few"),
    ]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "headers": headers,
        "query_string": b"",
        "scheme": "http",
    }
    parts = [data[at : at + 65_536] for at in range(0, len(data), 65_536)]

    async def run() -> None:
        async def receive() -> dict[str, object]:
            if not parts:
                await trio.sleep_forever()
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        async def send(message: object) -> None:
            pass

        async with SERVER.running():
            await SERVER.asgi()(scope, receive, send)  # type: ignore[arg-type]

    trio.run(run)


def answered(
    row: m.AnyRequestMethod, params: t.WireObject, revision: Revision = R2025_11_25
) -> Callable[[bytes], None]:
    """Run a client with a pending request, from the bytes of the response to its value."""

    def receive(data: bytes) -> None:
        connection = ClientConnection(INFO, t.ClientCapabilities(), revisions=(revision,), limits=LIMITS)
        connection.open()
        offered: JsonObject = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
        hello: JsonObject = {
            "protocolVersion": revision.name,
            "capabilities": offered,
            "serverInfo": {"name": "s", "version": "1"},
        }
        connection.receive(ResultResponse(1, hello))
        connection.request(row, params)
        try:
            message = decode(data, LIMITS)
        except McpError:
            return
        connection.receive(message)  # type: ignore[arg-type]

    return receive


def result(open_: str, item: str, close: str, *, most: int = 99_000) -> Callable[[int], bytes]:
    """Return a response with many items."""
    return filled(f'{{"jsonrpc":"2.0","id":2,"result":{open_}', item, f"{close}}}", most=most)


def many_headers(data: bytes) -> None:
    """Parse the head of a request, from its bytes to the decision whether it is admitted."""
    head = b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n" + data + b"\r\n\r\n"
    if read_common(head, LIMITS.header_bytes) is None:
        with contextlib.suppress(RequestHeadRejected):
            HeadReader(LIMITS.header_bytes).receive_data(head)


def headers_bytewise(data: bytes) -> None:
    """Parse the head of a request, byte by byte."""
    head = b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n" + data + b"\r\n\r\n"
    reader = HeadReader(LIMITS.header_bytes)
    with contextlib.suppress(RequestHeadRejected):
        for place in range(len(head)):
            reader.receive_data(head[place : place + 1])


def header(name: str, use: Callable[[Headers], object]) -> Callable[[bytes], None]:
    """Parse the value of a header."""

    def receive(data: bytes) -> None:
        use(Headers([("host", "127.0.0.1"), (name, data.decode("latin-1"))]))

    return receive


def origins(headers: Headers) -> None:
    """Check Host and Origin."""
    policy = EndpointPolicy()
    rejection(HttpRequest(method="POST", target="/mcp", headers=headers), policy.allowed_hosts, policy.allowed_origins)


def decoded(headers: Headers) -> None:
    """Decode a Base64 value."""
    try:
        decode_value(headers.get("mcp-name") or "")
    except ValueError:
        return


def ranges(headers: Headers) -> None:
    """Parse the media types that a client accepts."""
    accepts(headers, "application/json")


def challenged(headers: Headers) -> None:
    """Parse the challenges of a server."""
    for challenge in read_challenges(headers.all("www-authenticate")):
        scopes.union(challenge.scopes, challenge.scopes)


def headers_of_schema(data: bytes) -> None:
    """Find the header parameters of a tool."""
    try:
        param_headers(json.loads(data))
    except ValueError:
        return


# --- the rows --------------------------------------------------------------------------------------------------------


def rows() -> Iterator[Row]:
    """Yield all rows."""
    yield from _codec_rows()
    yield from _framing_rows()
    yield from _server_rows()
    yield from _other_server_rows()
    yield from _client_rows()
    yield from _http_rows()


def _codec_rows() -> Iterator[Row]:
    before, behind = request("x", '"a":[')
    items = {
        "one string": f'"{"x" * 1000}",',
        "short strings": '"",',
        "small integers": "1,",
        "nulls": "null,",
        "floats": "1e9,",
        "numbers of 19 digits": "1000000000000000000,",
        "numbers of 20 digits": "18446744073709551616,",
        "numbers of 4,000 digits": "1" * 4000 + ",",
        "fractions of 4,000 digits": "0." + "1" * 4000 + ",",
        "long exponents": "1e-" + "0" * 300 + "1,",
        "empty objects": "{},",
        "objects of one member": '{"a":1},',
        "objects that repeat a member": '{"a":1,"a":1},',
        "nested objects that repeat a member": nested('{"a":0,"a":', "}", 100, "0"),
        "deep arrays": nested("[", "]", 120),
        "deep objects": nested('{"a":', "}", 120, "0"),
        "escapes": '"\\u0041\\n\\"",',
        "surrogate pairs": '"\\ud83d\\ude00",',
        "lone surrogates": '"\\ud83d",',
        "escaped colons": '"\\u003a",',
        "colons": '"::::::::::::::::",',
        "blanks": "0" + " " * 200 + ",",
    }
    for name, item in items.items():
        yield Row(f"codec: {name}", filled(before, item, "]" + behind), decoding)
    for name in ("small integers", "objects of one member", "deep objects", "empty objects"):
        repeated = filled('{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"a":2,"b":[', items[name], "]}}")
        yield Row(f"codec: one repeated member, then {name}", repeated, decoding)
        answer = filled('{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2,"b":[', items[name], "]}}")
        yield Row(f"codec: an answer with one repeated member, then {name}", answer, decoding)
    yield Row("codec: members of one object", filled(*_object(before, '"%d":0,', behind)), decoding)
    yield Row("codec: members with one name", filled(*_object(before, '"a":0,', behind), most=10**9), decoding)
    yield Row("codec: no JSON at its end", filled(before, '{"a":1},', "]" + behind + "!"), decoding)
    yield Row("codec: an answer that is no JSON", filled('{"id":1,"result":{"a":[', '{"a":1},', "]!}}"), decoding)
    yield Row(
        "codec: a batch of notifications", filled("[", '{"jsonrpc":"2.0","method":"x"},', "]", most=1000), decoding
    )
    yield Row("codec: a batch of numbers", filled("[", "1,", "]", most=1000), decoding)
    yield Row("codec: a batch of batches", filled("[", "[" + "1," * 500 + "1],", "]", most=1000), decoding)
    yield Row("codec: a batch that is too large", filled("[", "{},", "]"), decoding)
    yield Row("codec: writing of large integers", filled("[", "18446744073709551616,", "]"), _writing)
    yield Row("codec: writing of nulls", filled("[", '{"a":null},', "]"), _writing)


def _object(before: str, item: str, behind: str) -> tuple[str, str, str]:
    return before + "{", item, "}]" + behind


def _writing(data: bytes) -> None:
    encode(ResultResponse(1, {"a": json.loads(data)}), null_id=False)


def _framing_rows() -> Iterator[Row]:
    lines = {
        "blank lines": b"\n",
        "lines of blanks": b" \r\n",
        "short lines": b"{}\n",
        "one line": b"x" * 1023 + b"\n",
    }
    for name, line in lines.items():
        yield Row(f"lines: {name}", _bytes_of(line), framing(65_536))
    yield Row("lines: one line, in pieces of 1 KiB", _bytes_of(b"x"), framing(1024))
    yield Row("lines: one line, byte by byte", _bytes_of(b"x"), framing(1))
    fields = {
        "blank lines": b"\n",
        "blank lines of CR LF": b"\r\n",
        "comments": b":\n",
        "comments with text": b": keep-alive\n\n",
        "empty data": b"data\n",
        "data": b"data:x\n",
        "ids": b"id:1\n",
        "ids that end events": b"id\n\n",
        "names": b"event:x\n",
        "retry times": b"retry:1\n",
        "unknown fields": b"x\n",
        "events": b"data:1\n\n",
        "events of CR": b"data:1\r\r",
        "one line of data": b"data:" + b"x" * 100_000 + b"\n\n",
        "one comment": b":" + b"x" * 100_000,
    }
    for name, line in fields.items():
        yield Row(f"events: {name}", _bytes_of(line), events(65_536))
        yield Row(f"events: {name}, in pieces of 1 KiB", _bytes_of(line), events(1024))
    yield Row("events: data, byte by byte", _bytes_of(b"data:x\n\n"), events(1))
    yield Row("events: one line, byte by byte", _bytes_of(b"data:" + b"x" * 100_000), events(1))
    yield Row("events: messages", _bytes_of(b'data:{"jsonrpc":"2.0","method":"x"}\n\n'), stream_of_events)
    yield Row("events: no messages", _bytes_of(b"data:1\n\n"), stream_of_events)


def _bytes_of(piece: bytes) -> Callable[[int], bytes]:
    return lambda size: (piece * (size // len(piece) + 1))[:size]


def _server_rows() -> Iterator[Row]:
    serve = serving()
    unknown = call("few", "{", '"betb%d":0,', "}")
    yield Row("server: unknown arguments", unknown, serve)
    yield Row("server: unknown arguments over HTTP", unknown, http)
    yield Row("server: unknown arguments, in pieces of 1 KiB", unknown, serving(piece=1024))
    yield Row("server: unknown arguments with long names", call("few", "{", '"%d' + "b" * 90 + '":0,', "}"), serve)
    yield Row("server: wrong items", call("numbers", '{"items":[', '"",', "]}"), serve)
    yield Row("server: right items", call("numbers", '{"items":[', "1,", "]}"), serve)
    yield Row("server: wrong items of nested lists", call("grids", '{"items":[[[', '"",', "]]]}"), serve)
    yield Row("server: wrong lists of nested lists", call("grids", '{"items":[', '[[""]],', "]}"), serve)
    yield Row("server: wrong items of a union", call("either", '{"items":[', '"",', "]}"), serve)
    yield Row("server: wrong lists of a union", call("either", '{"items":[', '[""],', "]}"), serve)
    yield Row("server: wrong members", call("table", '{"items":{', '"%d":"",', "}}"), serve)
    yield Row("server: wrong records", call("leaves", '{"items":[', "{},", "]}"), serve)
    yield Row("server: unknown members of records", call("leaves", '{"items":[', '{"kinb":0},', "]}"), serve)
    yield Row("server: right records", call("leaves", '{"items":[', '{"kind":"leaf"},', "]}"), serve)
    yield Row("server: equal items of a set", call("distinct", '{"items":[', '"",', "]}"), serve)
    deep = '{"kind":"times","left":' * 16 + "0" + "}" * 16
    yield Row("server: a tree of unions", call("tree", '{"items":', deep, "}", most=1), serve)
    yield Row("server: a wide tree of unions", call("tree", '{"items":', _tree(14), "}", most=1), serve)
    yield Row("server: echoed large integers", call("echo", '{"items":[', "18446744073709551616,", "]}"), serve)
    yield Row("server: echoed nulls", call("echo", '{"items":[', "null,", "]}"), serve)
    yield Row("server: echoed objects", call("echo", '{"items":[', '{"a":1},', "]}"), serve)
    yield Row("server: given schema, wrong items", call("given", '{"items":[', "null,", "]}"), serve)
    yield Row("server: given schema, unknown members", call("given", "{", '"%d":"",', "}"), serve)
    yield Row("server: given schema, patterns", call("given", '{"items":[', '"' + "a" * 200 + 'b",', "]}"), serve)
    yield Row("server: given schema, equal items", call("given", '{"unique":[', "[%d],", "]}"), serve)
    for method, member in (("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri")):
        yield Row(f"server: long {member} of {method}", filled(*_long(method, member), most=10**9), serve)
    yield Row("server: a name of 900 characters", _name_row(900), serve, most=2048)
    yield Row("server: long method", filled('{"jsonrpc":"2.0","id":1,"method":"', "x", '"}', most=10**9), serve)


def _other_server_rows() -> Iterator[Row]:
    serve = serving()
    before, behind = request("prompts/get", '"name":"prompt","arguments":{')
    yield Row("server: unknown arguments of a prompt", filled(before, '"firsu%d":"",', "}" + behind), serve)
    yield Row("server: wrong arguments of a prompt", filled(before, '"%d":0,', "}" + behind), serve)
    ref = '"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"first","value":""}'
    before, behind = request("completion/complete", ref + ',"context":{"arguments":{')
    yield Row("server: arguments of a completion", filled(before, '"%d":"",', "}}" + behind), serve)
    for name, uri in _uris().items():
        before, behind = request("resources/read", '"uri":"' + uri[0])
        yield Row(f"server: URI of {name}", filled(before, uri[1], '"' + behind, most=60_000 // len(uri[1])), serve)
    before, behind = request("subscriptions/listen", '"notifications":{"resourceSubscriptions":[')
    yield Row("server: watched resources", filled(before, '"p://host/a%d",', "]}" + behind), serve)
    long = '"p://host/' + "a/" * 400 + '%d",'
    yield Row("server: 1,000 watched resources", filled(before, long, "]}" + behind, most=1000), serve)
    before, behind = request("tools/call", '"name":"asks","arguments":{},"inputResponses":{')
    yield Row("server: answers of the client", filled(before, '"%d":{},', "}" + behind), serve)
    before, behind = request("tools/call", '"name":"asks","arguments":{},"requestState":"')
    yield Row("server: state of the client", filled(before, "AAAA", '"' + behind, most=250_000), serve)
    before, behind = request("tools/list", '"cursor":"')
    yield Row("server: cursor", filled(before, "AAAA", '"' + behind, most=10**9), serve)
    before, behind = request("x", '"a":[')
    yield Row("server: metadata", _meta_row, serve)
    legacy = serving(R2025_11_25)
    yield Row("server: roots that changed", _notifications("notifications/roots/list_changed"), legacy)
    yield Row("server: cancellations", _notifications("notifications/cancelled", '"requestId":%d'), legacy)
    yield Row("server: pings", _pings, legacy)
    batch = serving(R2025_03_26)
    yield Row(
        "server: a batch of pings", filled("[", '{"jsonrpc":"2.0","id":%d,"method":"ping"},', "]", most=1000), batch
    )
    one = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"few"}},'
    yield Row("server: a batch of calls", filled("[", one, "]", most=1000), batch)
    yield Row("server: a batch of wrong messages", filled("[", '{"id":%d},', "]", most=1000), batch)
    icons = '"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1","icons":['
    before, behind = request("initialize", icons, modern=False)
    yield Row("server: icons of a client", filled(before, '{"src":""},', "]}" + behind), serving())
    yield Row("server: wrong icons of a client", filled(before, "{},", "]}" + behind), serving())
    before, behind = request("initialize", '"protocolVersion":"2025-11-25","capabilities":{', modern=False)
    capabilities = filled(before, '"%d":true,', '},"clientInfo":{"name":"a","version":"1"}' + behind)
    yield Row("server: capabilities of a client", capabilities, serving())


def _tree(depth: int) -> str:
    return "0" if not depth else f'{{"kind":"times","left":{_tree(depth - 1)},"right":{_tree(depth - 1)}}}'


def _long(method: str, member: str) -> tuple[str, str, str]:
    before, behind = request(method, f'"{member}":"')
    return before, "n", '"' + behind


def _name_row(length: int) -> Callable[[int], bytes]:
    before, behind = request("tools/call", '"name":"')
    return lambda _: (before + "near" * (length // 4) + '"' + behind).encode()


def _uris() -> dict[str, tuple[str, str]]:
    return {
        "segments": ("t19://host/", "a/"),
        "encoded segments": ("t19://host/", "%%61/"),
        "dots": ("t19://host/", "../"),
        "nothing": ("zzz://host/", "a"),
        "a query": ("q://host?", "items=a&"),
        "a mapping": ("q://host?", "a%d=a&"),
        "slashes": ("p://host/", "/a"),
        "percent signs": ("p://host/", "%%2e%%2e/a"),
        "dots and blanks": ("p://host/", "a. ."),
    }


def _meta_row(size: int) -> bytes:
    meta = {**META, **{f"a/{number}": 0 for number in range(min(90_000, size // 10))}}
    params = {"name": "few", "_meta": meta}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


def _notifications(method: str, params: str = "") -> Callable[[int], bytes]:
    def make(size: int) -> bytes:
        count = size // 64
        lines = (
            f'{{"jsonrpc":"2.0","method":"{method}","params":{{{params % n if params else ""}}}}}' for n in range(count)
        )
        return "\n".join(lines).encode()

    return make


def _pings(size: int) -> bytes:
    return "\n".join(f'{{"jsonrpc":"2.0","id":{n},"method":"ping"}}' for n in range(1, size // 42)).encode()


def _client_rows() -> Iterator[Row]:
    tools = answered(m.TOOLS_LIST, t.ListToolsRequestParams())
    yield Row("client: tools", result('{"tools":[', '{"name":"%d","inputSchema":{"type":"object"}},', "]}"), tools)
    yield Row("client: wrong tools", result('{"tools":[', "{},", "]}"), tools)
    yield Row("client: tools to be repaired", result('{"tools":[', '{"name":""},', "]}"), tools)
    icons = '{"name":"a","inputSchema":{"type":"object"},"icons":[{},{},{},{}]},'
    yield Row("client: tools with wrong icons", result('{"tools":[', icons, "]}"), tools)
    resources = answered(m.RESOURCES_LIST, t.ListResourcesRequestParams())
    yield Row("client: resources", result('{"resources":[', '{"uri":"","name":""},', "]}"), resources)
    called = answered(m.TOOLS_CALL, t.CallToolRequestParams(name="x"))
    yield Row("client: content", result('{"content":[', '{"type":"text","text":""},', "]}"), called)
    yield Row("client: unknown content", result('{"content":[', '{"type":""},', "]}"), called)
    yield Row("client: wrong content", result('{"content":[', "{},", "]}"), called)
    yield Row(
        "client: content to be repaired",
        result('{"content":[', '{"type":"text","text":"","annotations":{"priority":2}},', "]}"),
        called,
    )
    yield Row("client: structured content", result('{"content":[],"structuredContent":{', '"%d":0,', "}}"), called)
    prompts = answered(m.PROMPTS_GET, t.GetPromptRequestParams(name="x"))
    prompt_message = '{"role":"","content":""},'
    yield Row("client: messages with repairs", result('{"messages":[', prompt_message, "]}"), prompts)
    complete = answered(
        m.COMPLETION_COMPLETE,
        t.CompleteRequestParams(ref=t.PromptReference(name="x"), argument=t.CompletionArgument(name="a", value="")),
    )
    yield Row("client: values of a completion", result('{"completion":{"values":[', '"",', "]}}"), complete)
    read = answered(m.RESOURCES_READ, t.ReadResourceRequestParams(uri="x:"))
    yield Row("client: contents", result('{"contents":[', '{"uri":"","text":""},', "]}"), read)


def _http_rows() -> Iterator[Row]:
    for name, line in {"headers": b"a:\r\n", "cookies": b"cookie: a=b\r\n", "hosts": b"host: a\r\n"}.items():
        yield Row(f"http: many {name}", _bytes_of(line), many_headers, HEAD)
    yield Row("http: one header", _bytes_of(b"a"), many_headers, HEAD)
    yield Row("http: many headers, byte by byte", _bytes_of(b"a:\r\n"), headers_bytewise, HEAD)
    yield Row("http: hosts", _bytes_of(b"a."), header("host", origins), HEAD)
    yield Row("http: origins", _bytes_of(b"http://a."), header("origin", origins), HEAD)
    yield Row("http: ranges", _bytes_of(b"a/b;q=0.1,"), header("accept", ranges), HEAD)
    yield Row("http: quotes in ranges", _bytes_of(b'"\\",'), header("accept", ranges), HEAD)
    yield Row("http: base64", _bytes_of(b"AAAA"), header("mcp-name", decoded), HEAD)
    for name, text in {
        "schemes": b"a ",
        "commas": b",",
        "parameters": b"a=b,",
        "quotes": b'a="\\"',
        "tokens": b"aaaa",
        "scopes": b'Bearer scope="' + b"a " * 15_000 + b'"',
        "blanks behind names": b"a" + b" " * 50,
        "equals signs": b"=",
    }.items():
        yield Row(f"http: challenges, {name}", _bytes_of(text), header("www-authenticate", challenged), HEAD)
    yield Row(
        "http: annotated parameters",
        filled('{"properties":{', '"%d":{"x-mcp-header":"h%d"},'.replace("h%d", "h"), "}}"),
        headers_of_schema,
    )
    annotated = '"%d":{"type":"string"},'
    yield Row("http: parameters", filled('{"properties":{', annotated, "}}"), headers_of_schema)


# --- measurement -----------------------------------------------------------------------------------------------------


def cost(row: Row, size: int, repetitions: int) -> tuple[float, int]:
    """Return the least CPU milliseconds of some repetitions, and the size of the message in bytes."""
    data = row.make(min(size, row.most))
    best = math.inf
    for _ in range(repetitions):
        gc.collect()
        began = time.process_time_ns()
        row.receive(data)
        best = min(best, (time.process_time_ns() - began) / 1e6)
        if best > 2_000:
            break
    return best, len(data)


def base(row: Row) -> float:
    """Return the cost of the receiver without a message."""
    return cost(row._replace(make=lambda _: b"{}"), 0, 3)[0]


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--mib", type=float, default=1.0, help="the size of a message")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions; the fastest counts")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    over = 0
    print(f"{'ms/MiB':>9} {'ms':>9} {'KiB':>7} {'growth':>7}  message")
    for row in rows():
        if options.only not in row.name:
            continue
        idle = base(row)
        size = int(options.mib * MIB)
        milliseconds, observed = cost(row, size, options.rounds)
        half, _ = cost(row, size // 2, options.rounds)
        milliseconds, half = max(milliseconds - idle, 0.0), max(half - idle, 0.01)
        rate = milliseconds / max(observed, 65_536) * MIB
        excuse = next((why for part, why in EXCUSED.items() if part in row.name), None)
        mark = "" if rate <= ALLOWED else f"  (excused: {excuse})" if excuse else "  <-- over"
        over += mark == "  <-- over"
        print(
            f"{rate:9.1f} {milliseconds:9.1f} {observed // 1024:7} {milliseconds / half:7.1f}  {row.name}{mark}",
            flush=True,
        )
    print(f"{over} rows are over {ALLOWED:g} ms for each MiB")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
