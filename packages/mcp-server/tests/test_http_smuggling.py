"""Request smuggling: each host rejects requests of ambiguous length, and no second request runs.

Each row has the bytes that a client writes at once. All rows except those of `HARMLESS` end with a complete request for
`/second`, which a proxy could take for a part of the first.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Unpack

import pytest
import trio

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_server import Server
from mcp_server.asgi import Application, Receive, Scope, Send
from mcp_server.host.timeouts import HostTimeouts
from mcp_server.runners.http import ServeHttpOptions, serve_http
from mcp_server.runners.hypercorn import serve_hypercorn

Address = tuple[str, int]

SHORT_LINGER: Final = HostTimeouts(linger=0.01)
"""A short timeout, because the client reads to the end of the connection."""

SECOND: Final = b"GET /second HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n"
POST: Final = b"POST /first HTTP/1.1\r\nHost: h\r\n"
CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"
END: Final = b"0\r\n\r\n"
LAST: Final = b"GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"


def sized(count: int) -> bytes:
    return b"Content-Length: %d\r\n" % count


REFUSED: Final = {
    "length-and-chunks": POST + sized(len(END + SECOND)) + CHUNKED + b"\r\n" + END + SECOND,
    "chunks-and-length": POST + CHUNKED + sized(len(END + SECOND)) + b"\r\n" + END + SECOND,
    "zero-length-and-chunks": POST + sized(0) + CHUNKED + b"\r\n" + END + SECOND,
    "capital-chunks-and-length": POST + sized(5) + b"TRANSFER-ENCODING: CHUNKED\r\n\r\n" + END + SECOND,
    "two-lengths": POST + sized(0) + sized(len(SECOND)) + b"\r\n" + SECOND,
    "list-of-lengths": POST + b"Content-Length: 0, %d\r\n\r\n" % len(SECOND) + SECOND,
    "length-with-sign": POST + b"Content-Length: +0\r\n\r\n" + SECOND,
    "length-below-zero": POST + b"Content-Length: -1\r\n\r\n" + SECOND,
    "length-in-hexadecimal": POST + b"Content-Length: 0x0\r\n\r\n" + SECOND,
    "length-with-underscore": POST + b"Content-Length: 0_0\r\n\r\n" + SECOND,
    "length-of-nothing": POST + b"Content-Length: \r\n\r\n" + SECOND,
    "unknown-coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n" + END + SECOND,
    "identity": POST + b"Transfer-Encoding: identity\r\n\r\n" + END + SECOND,
    "coding-before-chunks": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + END + SECOND,
    "chunks-twice": POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + END + SECOND,
    "chunks-twice-in-two-headers": POST + CHUNKED + CHUNKED + b"\r\n" + END + SECOND,
    "chunks-and-identity": POST + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n" + END + SECOND,
    "chunks-with-parameter": POST + b"Transfer-Encoding: chunked;q=1\r\n\r\n" + END + SECOND,
    "chunks-with-vertical-tab": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + END + SECOND,
    "chunks-in-quotes": POST + b'Transfer-Encoding: "chunked"\r\n\r\n' + END + SECOND,
    "blank-before-colon": POST + b"Transfer-Encoding : chunked\r\n\r\n" + END + SECOND,
    "blank-before-name": POST + b" Transfer-Encoding: chunked\r\n\r\n" + END + SECOND,
    "tab-in-name": POST + b"Transfer-Encoding\t: chunked\r\n\r\n" + END + SECOND,
    "line-without-colon": POST + b"Transfer-Encoding\r\n\r\n" + END + SECOND,
    "chunks-in-http-1.0": b"POST /first HTTP/1.0\r\nHost: h\r\n" + CHUNKED + b"\r\n" + END + SECOND,
    "chunk-size-with-sign": POST + CHUNKED + b"\r\n+0\r\n\r\n" + SECOND,
    "chunk-size-in-hexadecimal": POST + CHUNKED + b"\r\n0x0\r\n\r\n" + SECOND,
    "chunk-size-with-blank-before": POST + CHUNKED + b"\r\n 0\r\n\r\n" + SECOND,
    "chunk-size-with-bare-line-feed": POST + CHUNKED + b"\r\n0\n\n" + SECOND,
    "chunk-size-too-long": POST + CHUNKED + b"\r\n" + b"0" * 30 + b"\r\n\r\n" + SECOND,
    "chunk-longer-than-its-size": POST + CHUNKED + b"\r\n1\r\nabc\r\n" + END + SECOND,
    "bare-line-feed": b"POST /first HTTP/1.1\nHost: h\nContent-Length: 0\n\n" + SECOND,
    "bare-line-feed-in-value": POST + b"X: y\nContent-Length: 0\r\n\r\n" + SECOND,
    "bare-carriage-return-in-value": POST + b"X: y\rContent-Length: 0\r\n\r\n" + SECOND,
    "null-in-value": POST + b"X: a\0b\r\nContent-Length: 0\r\n\r\n" + SECOND,
    "null-in-name": POST + b"X\0Y: b\r\nContent-Length: 0\r\n\r\n" + SECOND,
    "null-in-target": b"GET /fi\0rst HTTP/1.1\r\nHost: h\r\n\r\n" + SECOND,
    "blank-in-target": b"GET /first x HTTP/1.1\r\nHost: h\r\n\r\n" + SECOND,
    "http-0.9": b"GET /first\r\n\r\n" + SECOND,
    "http-2.0": b"GET /first HTTP/2.0\r\nHost: h\r\n\r\n" + SECOND,
    "http-9.9": b"GET /first HTTP/9.9\r\nHost: h\r\n\r\n" + SECOND,
    "http-in-small-letters": b"GET /first http/1.1\r\nHost: h\r\n\r\n" + SECOND,
    "http-with-leading-zero": b"GET /first HTTP/01.1\r\nHost: h\r\n\r\n" + SECOND,
    "two-hosts": b"GET /first HTTP/1.1\r\nHost: h\r\nHost: g\r\n\r\n" + SECOND,
    "no-host": b"GET /first HTTP/1.1\r\n\r\n" + SECOND,
}

LENIENT: Final = {
    ("hypercorn", "bare-line-feed"): ["/first", "/second"],
    ("hypercorn", "bare-line-feed-in-value"): ["/first", "/second"],
    ("hypercorn", "blank-before-name"): ["/first"],
}
"""Rows that Hypercorn serves, as RFC 9112 sections 2.2 and 5.2 permit: Hypercorn does not pass on line ends. The page
`docs/howto/serve-over-http.md` documents this.
"""

HARMLESS: Final = {
    "http-1.0": (b"GET /first HTTP/1.0\r\n\r\n", ["/first"]),
    "http-1.2": (b"GET /first HTTP/1.2\r\nHost: h\r\nConnection: close\r\n\r\n", ["/first"]),
    "one-length-twice": (POST + sized(2) + sized(2) + b"\r\nab" + LAST, ["/first", "/last"]),
    "length": (POST + sized(2) + b"\r\nab" + LAST, ["/first", "/last"]),
    "chunks": (POST + CHUNKED + b"\r\n2\r\nab\r\n" + END + LAST, ["/first", "/last"]),
    "capital-chunks": (POST + b"TRANSFER-ENCODING: CHUNKED\r\n\r\n" + END + LAST, ["/first", "/last"]),
}

FOREIGN_TARGETS: Final = ("http://other/mcp", "h:80", "*", "mcp", "//mcp", "http:///mcp")


class Recorder:
    """An application that responds with 200 and records the paths of complete requests."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def combine(self, other: Application) -> Application:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await other(scope, receive, send)
                return
            while (message := await receive()).get("more_body"):
                pass
            if message["type"] == "http.disconnect":
                return
            self.paths.append(str(scope["path"]))
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})

        return app


HOSTS: Final = {"embedded": serve_http, "hypercorn": serve_hypercorn}


@asynccontextmanager
async def serving(
    kind: str, server: Server | None = None, **options: Unpack[ServeHttpOptions]
) -> AsyncIterator[Address]:
    server = server or Server("sample", version="1")
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            run = partial(HOSTS[kind], server, "127.0.0.1:0", timeouts=SHORT_LINGER, **options)
            (url,) = await nursery.start(run)
            host, _, port = url.removeprefix("http://").removesuffix("/mcp").rpartition(":")
            yield host, int(port)
            nursery.cancel_scope.cancel()


async def replies(address: Address, raw: bytes) -> list[int]:
    """Return the statuses of all responses until the server closes the connection."""
    found = b""
    async with await trio.open_tcp_stream(*address) as stream:
        await stream.send_all(raw)
        try:
            async for data in stream:
                found += data
        except trio.BrokenResourceError:
            pass  # the server closed the connection before it read the whole request
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n", found)]


each_host = pytest.mark.parametrize("kind", HOSTS)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in HOSTS for name in REFUSED if (kind, name) not in LENIENT]
)
async def test_request_of_ambiguous_length_rejected_and_connection_closed(kind: str, name: str) -> None:
    recorder = Recorder()
    async with serving(kind, companion=recorder) as address:
        statuses = await replies(address, REFUSED[name])
    assert recorder.paths == []
    assert statuses in ([400], [501], [505])


@pytest.mark.parametrize(("kind", "name"), LENIENT)
async def test_request_head_with_bare_line_feeds_accepted_by_hypercorn(kind: str, name: str) -> None:
    recorder = Recorder()
    async with serving(kind, companion=recorder) as address:
        await replies(address, REFUSED[name].replace(SECOND, SECOND.replace(b"X: y", b"Connection: close")))
    assert recorder.paths == LENIENT[kind, name]


@each_host
@pytest.mark.parametrize("name", HARMLESS)
async def test_request_of_unambiguous_length_served_once(kind: str, name: str) -> None:
    raw, paths = HARMLESS[name]
    recorder = Recorder()
    async with serving(kind, companion=recorder) as address:
        statuses = await replies(address, raw)
    assert (recorder.paths, statuses) == (paths, [200] * len(paths))


@each_host
@pytest.mark.parametrize("target", FOREIGN_TARGETS)
async def test_foreign_target_calls_no_tool(kind: str, target: str) -> None:
    server, called = Server("sample", version="1"), list[str]()

    @server.tool
    async def note(word: str) -> str:
        called.append(word)
        return word

    async with serving(kind, server) as address:
        own_host = f"{address[0]}:{address[1]}"
        for path, status in ((target, None), ("/mcp", 200)):
            statuses = await replies(address, call_of(path, own_host, word=path))
            assert statuses == [status] if status else statuses[0] >= 400
    assert called == ["/mcp"]


def call_of(target: str, host: str, **arguments: JsonValue) -> bytes:
    """Return a call of the tool `note`."""
    meta: JsonObject = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params: JsonObject = {"name": "note", "arguments": arguments, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    lines = (
        f"POST {target} HTTP/1.1",
        f"Host: {host}",
        "Connection: close",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/call",
        "Mcp-Name: note",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join([*lines, "", ""]).encode() + body
