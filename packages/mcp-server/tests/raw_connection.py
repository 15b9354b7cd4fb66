"""An HTTP client that counts its bytes and can cut its connection after any of them, in either direction."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

import attrs
import trio
import trio.testing
from asgi_host import BOTH, as_object

from mcp_core.framing.sse import Event, SseParser
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import R2026_07_28, Era, Revision
from mcp_server.host.embedded import HttpHost

META: JsonObject = {
    "io.modelcontextprotocol/protocolVersion": R2026_07_28.name,
    "io.modelcontextprotocol/clientCapabilities": {},
}


Body: TypeAlias = "JsonValue | Sequence[JsonValue] | bytes"

_READ_TIMEOUT = 5.0
"""Seconds for which a half-closed client continues to read."""


class ConnectionCut(Exception):
    """The client has closed its connection at its cut point."""


@attrs.frozen(kw_only=True)
class CutPoint:
    """The byte after which a client cuts its connection."""

    sends: int | None = None
    """Number of sent bytes."""
    reads: int | None = None
    """Number of read bytes."""
    half: bool = False
    """Whether the client only closes its sending side and continues to read."""


UNCUT = CutPoint()


class Reader:
    """A parser of the responses in a byte stream, which may be cut."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.events: list[Event] = []
        self.complete = False
        self._rest = b""
        self._left: int | None = 0

    def feed(self, data: bytes) -> None:
        self._rest += data
        if not self.status and b"\r\n\r\n" in self._rest:
            self._take_head()
        if self.status and not self.complete:
            self._take_body()

    def _take_head(self) -> None:
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        version, status, *_ = first.split(" ")
        assert version == "HTTP/1.1", first
        self.status = int(status)
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = self.headers.get("content-length")
        # Without a length the body is chunked or ends with the connection. Some statuses have no body.
        self._left = 0 if self.status in (100, 204, 304) else None if length is None else int(length)

    def _take_body(self) -> None:
        if self._left is not None:
            self._give(self._rest[: self._left])
            self._left, self._rest = max(0, self._left - len(self._rest)), self._rest[self._left :]
            self.complete = not self._left
        elif "transfer-encoding" in self.headers:
            self._take_chunks()
        else:
            self._give(self._rest)
            self._rest = b""

    def _take_chunks(self) -> None:
        while not self.complete:
            size, found, rest = self._rest.partition(b"\r\n")
            if not found:
                return
            length = int(size, 16)
            if len(rest) < length + 2:
                # The received part of an incomplete chunk may contain whole events.
                self._feed_partial(rest[:length])
                return
            self._give(rest[:length])
            self._rest = rest[length + 2 :]
            self.complete = not length

    def _give(self, data: bytes) -> None:
        self.body += data
        self._feed_events(self.body)

    def _feed_partial(self, part: bytes) -> None:
        self._feed_events(self.body + part)

    def _feed_events(self, body: bytes) -> None:
        if self.headers.get("content-type") == "text/event-stream":
            self.events = [each for each in SseParser(Limits()).receive_data(body) if isinstance(each, Event)]

    def ended(self) -> None:
        """Handle the end of the connection, which may also be the end of the body."""
        if self.status and self._left is None and "transfer-encoding" not in self.headers:
            self.complete = True

    def following(self) -> Reader:
        """Return a reader for the bytes after the response."""
        assert self.complete
        made = Reader()
        made.feed(self._rest)
        return made

    # --- content

    def json(self) -> JsonObject:
        assert self.headers["content-type"] == "application/json", (self.status, self.headers, self.body)
        return as_object(json.loads(self.body))

    def messages(self) -> list[JsonObject]:
        return [as_object(json.loads(event.data)) for event in self.events if event.data]

    @property
    def last_event_id(self) -> str | None:
        ids = [event.id for event in self.events if event.id]
        return ids[-1] if ids else None


class RawConnection:
    """An HTTP connection."""

    def __init__(self, stream: trio.abc.HalfCloseableStream, cut_point: CutPoint = UNCUT) -> None:
        self.stream = stream
        self.reader = Reader()
        self.sent = 0
        self.read = 0
        self.sent_completely: list[str] = []
        self._cut_point = cut_point

    async def send(self, data: bytes, what: str = "") -> None:
        """Send a request up to the cut point. `sent_completely` records `what` if all of it was sent."""
        if self.reader.complete:
            self.reader = self.reader.following()
        limit = self._cut_point.sends
        part = data if limit is None else data[: limit - self.sent]
        if part:
            await self.stream.send_all(part)
        self.sent += len(part)
        if what and len(part) == len(data):
            self.sent_completely.append(what)
        if self.sent == limit:
            if self._cut_point.half:
                await self.stream.send_eof()
                # The server may take a half-closed connection for a disconnect and not close it.
                with trio.move_on_after(_READ_TIMEOUT):
                    await self.until(lambda: False, eof=True)
            await self.cut()

    async def cut(self) -> None:
        await self.aclose()
        raise ConnectionCut

    async def until(self, ready: Callable[[], bool], *, eof: bool = False) -> None:
        """Read until the predicate is true."""
        while not ready():
            limit = self._cut_point.reads
            if self.read == limit:
                await self.cut()
            try:
                data = bytes(await self.stream.receive_some(65_536 if limit is None else limit - self.read))
            except trio.BrokenResourceError:
                data = b""
            if not data:
                self.reader.ended()
                assert eof or ready(), f"the connection ended: {self.reader.status} {self.reader.body!r}"
                return
            self.read += len(data)
            self.reader.feed(data)
        if self.read == self._cut_point.reads:
            await self.cut()

    async def answer(self) -> Reader:
        """Read a complete response."""
        await self.until(lambda: self.reader.complete)
        return self.reader

    async def message(self, number: int) -> JsonObject:
        """Read until the stream has this number of messages, and return the last of them."""
        await self.until(lambda: len(self.reader.messages()) >= number)
        return self.reader.messages()[number - 1]

    async def exchange(self, data: bytes, what: str = "") -> Reader:
        """Send a request and read the complete response. The connection remains usable."""
        await self.send(data, what)
        return await self.answer()

    async def aclose(self) -> None:
        await self.stream.aclose()


# --- requests --------------------------------------------------------------------------------------------------------


def http(method: str = "POST", path: str = "/mcp", body: Body = b"", **headers: str | None) -> bytes:
    """Return the bytes of a request. `_` in the names of headers is sent as `-`; `None` omits a header."""
    data = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
    given: dict[str, str | None] = {"host": "localhost", "accept": BOTH}
    if method == "POST":
        given |= {"content-type": "application/json", "content-length": str(len(data))}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}\r\n" for name, value in given.items() if value is not None]
    return f"{method} {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode("latin-1") + data


def request(method: str, params: Mapping[str, JsonValue] | None = None, id: JsonValue = 1) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": dict(params or {})}


def notification(method: str, params: JsonObject | None = None) -> JsonObject:
    return {"jsonrpc": "2.0", "method": method, "params": params or {}}


def call(tool: str, /, *, id: JsonValue = 1, token: JsonValue = None, **arguments: JsonValue) -> JsonObject:
    params: JsonObject = {"name": tool, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return request("tools/call", params, id)


def modern(message: JsonObject, **headers: str | None) -> bytes:
    """Return the bytes of a modern request with its metadata and headers."""
    params = as_object(message["params"])
    meta = as_object(params.get("_meta", {}))
    name = params.get("name") or params.get("uri")
    given: dict[str, str | None] = {
        "mcp_protocol_version": R2026_07_28.name,
        "mcp_method": str(message["method"]),
        "mcp_name": name if isinstance(name, str) else None,
    }
    body: JsonObject = {**message, "params": {**params, "_meta": {**META, **meta}}}
    return http("POST", "/mcp", body, **(given | headers))


def initialize(revision: Revision) -> JsonObject:
    params: JsonObject = {
        "protocolVersion": revision.name,
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "raw", "version": "0"},
    }
    assert revision.era is Era.LEGACY
    return request("initialize", params, "open")


def legacy(session: str | None, revision: Revision, body: Body = b"", method: str = "POST", **more: str) -> bytes:
    """Return the bytes of a request of a session."""
    version = revision.name if revision.version_header else None
    return http(method, body=body, mcp_session_id=session, mcp_protocol_version=version, **more)


# --- connections -----------------------------------------------------------------------------------------------------

Connect = Callable[[], Awaitable[trio.abc.HalfCloseableStream]]


def connector(host: HttpHost, nursery: trio.Nursery) -> Connect:
    """Return a function that connects in memory. A write to a client blocks until the client reads."""

    async def connect() -> trio.abc.HalfCloseableStream:
        to_server, from_client = trio.testing.memory_stream_one_way_pair()
        to_client, from_server = trio.testing.lockstep_stream_one_way_pair()
        nursery.start_soon(host.serve_stream, trio.StapledStream(to_client, from_client))
        return trio.StapledStream(to_server, from_server)

    return connect
