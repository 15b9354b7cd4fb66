"""An HTTP client that counts its bytes: it can break off after any of them, in either direction."""

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

_PATIENCE = 5.0
"""Seconds that a client which has said all goes on reading."""


class Cut(Exception):
    """The client has closed its connection, as it was told to."""


@attrs.frozen(kw_only=True)
class Scissors:
    """Where a client breaks off."""

    sends: int | None = None
    """After so many bytes that it sent."""
    reads: int | None = None
    """After so many bytes that it read."""
    half: bool = False
    """It only says that it sends no more, and reads what still comes."""


UNCUT = Scissors()


class Reader:
    """The responses in a stream of bytes, also in one that breaks off."""

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
        # Without a length: in chunks, or to the end of the connection; and some statuses have no body at all.
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
                # What came of a chunk is for the reader, though not all of it came.
                self._seen(rest[:length])
                return
            self._give(rest[:length])
            self._rest = rest[length + 2 :]
            self.complete = not length

    def _give(self, data: bytes) -> None:
        self.body += data
        self._feed_events(self.body)

    def _seen(self, part: bytes) -> None:
        self._feed_events(self.body + part)

    def _feed_events(self, body: bytes) -> None:
        if self.headers.get("content-type") == "text/event-stream":
            self.events = [each for each in SseParser(Limits()).receive_data(body) if isinstance(each, Event)]

    def ended(self) -> None:
        """The connection has ended, and with it a body that says so in no other way."""
        if self.status and self._left is None and "transfer-encoding" not in self.headers:
            self.complete = True

    def following(self) -> Reader:
        """What came behind the response."""
        assert self.complete
        made = Reader()
        made.feed(self._rest)
        return made

    # --- what it says

    def json(self) -> JsonObject:
        assert self.headers["content-type"] == "application/json", (self.status, self.headers, self.body)
        return as_object(json.loads(self.body))

    def messages(self) -> list[JsonObject]:
        return [as_object(json.loads(event.data)) for event in self.events if event.data]

    @property
    def last_event_id(self) -> str | None:
        ids = [event.id for event in self.events if event.id]
        return ids[-1] if ids else None


class Wire:
    """One connection."""

    def __init__(self, stream: trio.abc.HalfCloseableStream, scissors: Scissors = UNCUT) -> None:
        self.stream = stream
        self.reader = Reader()
        self.sent = 0
        self.read = 0
        self.whole: list[str] = []
        self._scissors = scissors

    async def send(self, data: bytes, what: str = "") -> None:
        """Sends a request, or as much of it as may be. `whole` has `what` when all of it was sent."""
        if self.reader.complete:
            self.reader = self.reader.following()
        most = self._scissors.sends
        part = data if most is None else data[: most - self.sent]
        if part:
            await self.stream.send_all(part)
        self.sent += len(part)
        if what and len(part) == len(data):
            self.whole.append(what)
        if self.sent == most:
            if self._scissors.half:
                await self.stream.send_eof()
                # Whoever says no more may be taken for gone, and gets no end to read then.
                with trio.move_on_after(_PATIENCE):
                    await self.until(lambda: False, eof=True)
            await self.cut()

    async def cut(self) -> None:
        await self.aclose()
        raise Cut

    async def until(self, ready: Callable[[], bool], *, eof: bool = False) -> None:
        """Reads until it has what it waits for."""
        while not ready():
            most = self._scissors.reads
            if self.read == most:
                await self.cut()
            try:
                data = bytes(await self.stream.receive_some(65_536 if most is None else most - self.read))
            except trio.BrokenResourceError:
                data = b""
            if not data:
                self.reader.ended()
                assert eof or ready(), f"the connection ended: {self.reader.status} {self.reader.body!r}"
                return
            self.read += len(data)
            self.reader.feed(data)
        if self.read == self._scissors.reads:
            await self.cut()

    async def answer(self) -> Reader:
        """Reads a whole response."""
        await self.until(lambda: self.reader.complete)
        return self.reader

    async def message(self, number: int) -> JsonObject:
        """Reads until the stream has so many messages, and gives the last of them."""
        await self.until(lambda: len(self.reader.messages()) >= number)
        return self.reader.messages()[number - 1]

    async def ask(self, data: bytes, what: str = "") -> Reader:
        """A whole exchange; the connection can have another one."""
        await self.send(data, what)
        return await self.answer()

    async def aclose(self) -> None:
        await self.stream.aclose()


# --- requests --------------------------------------------------------------------------------------------------------


def http(method: str = "POST", path: str = "/mcp", body: Body = b"", **headers: str | None) -> bytes:
    """A request, as bytes. `_` in the names of headers stands for `-`; `None` leaves a header out."""
    data = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
    given: dict[str, str | None] = {"host": "localhost", "accept": BOTH}
    if method == "POST":
        given |= {"content-type": "application/json", "content-length": str(len(data))}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}\r\n" for name, value in given.items() if value is not None]
    return f"{method} {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode("latin-1") + data


def request(method: str, params: Mapping[str, JsonValue] | None = None, id: JsonValue = 1) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": dict(params or {})}


def note(method: str, params: JsonObject | None = None) -> JsonObject:
    return {"jsonrpc": "2.0", "method": method, "params": params or {}}


def call(tool: str, /, *, id: JsonValue = 1, token: JsonValue = None, **arguments: JsonValue) -> JsonObject:
    params: JsonObject = {"name": tool, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return request("tools/call", params, id)


def modern(message: JsonObject, **headers: str | None) -> bytes:
    """A modern request, with its envelope and its headers."""
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
    """A request of a session."""
    version = revision.name if revision.version_header else None
    return http(method, body=body, mcp_session_id=session, mcp_protocol_version=version, **more)


# --- connections -----------------------------------------------------------------------------------------------------

Connect = Callable[[], Awaitable[trio.abc.HalfCloseableStream]]


def connector(host: HttpHost, nursery: trio.Nursery) -> Connect:
    """Connections in memory. A client has no room for what it did not read yet, so that writing to it waits."""

    async def connect() -> trio.abc.HalfCloseableStream:
        to_server, from_client = trio.testing.memory_stream_one_way_pair()
        to_client, from_server = trio.testing.lockstep_stream_one_way_pair()
        nursery.start_soon(host.serve_stream, trio.StapledStream(to_client, from_client))
        return trio.StapledStream(to_server, from_server)

    return connect
