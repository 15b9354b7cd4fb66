"""A client and a server connected in memory, streams with injected faults, transcripts, and scripted servers.

Framing and JSON are the real ones; only processes and sockets are missing. With trio's `autojump_clock`, deadlines and
delays take no real time.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypedDict

import attrs
import orjson
import trio
import trio.testing

from mcp_client.connectors.stdio import open_stream
from mcp_core.errors import ConnectionEnded
from mcp_core.field_methods import FieldRepr, FieldValue
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.trio.nursery import open_private_nursery
from mcp_core.trio.owner_task import enterable_from_asyncio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import Unpack

    from mcp_client.client import Client
    from mcp_client.connectors.options import ClientOptions
    from mcp_client.deadlines import Deadlines
    from mcp_client.handlers import Handlers
    from mcp_client.transports.stdio.stream import ByteStream
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.middleware import Middleware
    from mcp_core.revisions import Revision
    from mcp_core.types import LoggingLevel

__all__ = [
    "Faults",
    "Options",
    "ScriptedPeer",
    "Serve",
    "Transcript",
    "open_in_memory",
    "replayed",
    "scripted",
]

_Stream: TypeAlias = "trio.StapledStream[trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream]"

Serve: TypeAlias = Callable[[_Stream], Awaitable[None]]
"""Serves one client over a byte stream, until its end."""

_SERVER_GRACE: Final = 1.0
"""Time for the server to end after the client has closed, in seconds."""


class Options(TypedDict, total=False):
    """The keyword arguments of `mcp_client.open_stream`."""

    name: str
    on_junk: Callable[[str], None] | None
    handlers: Handlers
    revisions: Sequence[Revision]
    deadlines: Deadlines
    log_level: LoggingLevel | None
    middleware: Sequence[Middleware]
    options: ClientOptions


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Faults(FieldValue):
    """Faults to inject into the bytes of one direction."""

    cut_after: int | None = None
    """Number of bytes after which the stream ends."""
    delay: float | Callable[[], float] = 0
    """Delay before each piece, in seconds of trio's clock."""
    split: int | random.Random | None = None
    """Maximum size of a piece, in bytes; or a source of random sizes."""
    corrupt: int | Callable[[bytes], bytes] | None = None
    """Index of a byte to invert; or a function that changes each piece."""


_NO_FAULTS: Final = Faults()


@attrs.define(eq=False, repr=False)
class Transcript(FieldRepr):
    """A recording of lines in both directions, in order."""

    lines: list[tuple[str, bytes]] = attrs.field(factory=list)
    """The direction, `>` from the client and `<` from the server, and the line without its line end."""
    _unfinished: dict[str, bytes] = attrs.field(factory=lambda: {">": b"", "<": b""})

    def record(self, direction: str, data: bytes) -> None:
        """Record bytes of one direction."""
        *lines, self._unfinished[direction] = (self._unfinished[direction] + data).split(b"\n")
        self.lines.extend((direction, line) for line in lines)

    def text(self) -> str:
        """Return one line for each message, after `> ` or `< `."""
        return "".join(f"{direction} {line.decode('utf-8', 'backslashreplace')}\n" for direction, line in self.lines)

    @classmethod
    def of(cls, text: str) -> Transcript:
        """Parse a transcript. Raises `ValueError` for a line without a direction."""
        lines = []
        for line in text.split("\n"):
            if line[:2] in {"> ", "< "}:
                lines.append((line[0], line[2:].encode()))
            elif line:
                raise ValueError(f"a line of a transcript must start with '> ' or '< ', not {line[:20]!r}")
        return cls(lines)


class _FaultyStream:
    """The client's end of a stream, with faults in both directions and a transcript."""

    async_library: Final = "trio"

    def __init__(self, stream: _Stream, to_server: Faults, to_client: Faults, transcript: Transcript | None) -> None:
        self._stream: Final = stream
        self._out: Final = _Bender(to_server)
        self._in: Final = _Bender(to_client)
        self._transcript: Final = transcript
        self._waiting: list[bytes] = []

    async def send_all(self, data: bytes) -> None:
        for piece in self._out.bend(data):
            await self._out.wait()
            self._note(">", piece)
            await self._stream.send_all(piece)
        if self._out.cut:
            await self._stream.send_stream.aclose()
            raise trio.BrokenResourceError("the stream was cut on purpose")

    async def receive_some(self) -> bytes:
        while not self._waiting:
            if self._in.cut:
                await trio.lowlevel.checkpoint()
                return b""
            data = bytes(await self._stream.receive_some())
            if not data:
                return b""
            self._waiting = self._in.bend(data)
        await self._in.wait()
        piece = self._waiting.pop(0)
        self._note("<", piece)
        return piece

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _note(self, direction: str, data: bytes) -> None:
        if self._transcript is not None:
            self._transcript.record(direction, data)


class _Bender:
    """The faults of one direction."""

    def __init__(self, faults: Faults) -> None:
        self._faults: Final = faults
        self._passed = 0

    @property
    def cut(self) -> bool:
        return self._faults.cut_after is not None and self._passed >= self._faults.cut_after

    async def wait(self) -> None:
        delay = self._faults.delay
        seconds = delay() if callable(delay) else delay
        if seconds > 0:
            await trio.sleep(seconds)

    def bend(self, data: bytes) -> list[bytes]:
        """Return the pieces that arrive, with their faults."""
        faults = self._faults
        if faults.cut_after is not None:
            data = data[: max(0, faults.cut_after - self._passed)]
        if isinstance(faults.corrupt, int) and self._passed <= faults.corrupt < self._passed + len(data):
            place = faults.corrupt - self._passed
            data = b"%b%c%b" % (data[:place], data[place] ^ 0xFF, data[place + 1 :])
        self._passed += len(data)
        pieces = _pieces(data, faults.split)
        return [faults.corrupt(piece) for piece in pieces] if callable(faults.corrupt) else pieces


def _pieces(data: bytes, split: int | random.Random | None) -> list[bytes]:
    pieces = []
    while data:
        size = split.randint(1, len(data)) if isinstance(split, random.Random) else split or len(data)
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def open_in_memory(
    serve: Serve,
    *,
    to_server: Faults = _NO_FAULTS,
    to_client: Faults = _NO_FAULTS,
    transcript: Transcript | None = None,
    **options: Unpack[Options],
) -> AbstractAsyncContextManager[Client]:
    """Connect a client to a server in the same program, in memory. On trio or on asyncio.

    Args:
        serve: Serves the given stream: `lambda stream: serve_stream(server, stream)`.
        to_server: The faults from the client to the server.
        to_client: The faults from the server to the client.
        transcript: Records the lines of both directions.
        **options: As for `mcp_client.open_stream`.

    Returns:
        An asynchronous context manager for the client. When the block ends, the server receives the end of its input, and has a second to end.

    Raises:
        Exception: On entering or leaving: the exceptions of `open_stream` and of `serve`.
    """
    make = partial(_opened_in_memory, serve, to_server, to_client, transcript, options)
    return enterable_from_asyncio(make, "mcp_client in memory")


@asynccontextmanager
async def _opened_in_memory(
    serve: Serve, to_server: Faults, to_client: Faults, transcript: Transcript | None, options: Options
) -> AsyncIterator[Client]:
    ours, theirs = trio.testing.memory_stream_pair()
    stream: ByteStream = _FaultyStream(ours, to_server, to_client, transcript)
    failures: list[Exception] = []
    gone = trio.Event()

    async def run_server() -> None:
        try:
            await serve(theirs)
        except Exception as failure:  # noqa: BLE001  raised where the block ends
            failures.append(failure)
        finally:
            await theirs.aclose()
            gone.set()

    options.setdefault("name", "the server in memory")
    async with open_private_nursery() as nursery:
        nursery.start_soon(run_server)
        try:
            async with open_stream(stream, **options) as client:
                yield client
        except Exception as error:
            if failures and isinstance(error, ConnectionEnded):
                # The ended connection is only the effect of the server's failure.
                raise failures[0] from error
            for failure in failures:
                error.add_note(f"The server failed too: {failure!r}")
            raise
        finally:
            with trio.move_on_after(_SERVER_GRACE):
                await gone.wait()
    if failures:
        raise failures[0]


# --- scripted servers ------------------------------------------------------------------------------------------------


class ScriptedPeer:
    """A server that sends what a test specifies, valid or not. Created by `scripted`."""

    def __init__(self, stream: _Stream) -> None:
        self.stream: Final = stream
        """The byte stream, for direct access."""
        self._buffer = bytearray()

    @allow_asyncio
    async def receive_line(self) -> bytes | None:
        """Return the next line of the client; `None` at the end of its stream."""
        while b"\n" not in self._buffer:
            data = await self.stream.receive_some()
            if not data:
                return None
            self._buffer += data
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return line

    @allow_asyncio
    async def receive(self, method: str | None = None) -> JsonObject:
        """Return the next message of the client.

        Args:
            method: The expected method; `None` for any message.

        Raises:
            AssertionError: The message has another method, or the stream has ended.
        """
        line = await self.receive_line()
        message = None if line is None else orjson.loads(line)
        if not isinstance(message, dict) or (method is not None and message.get("method") != method):
            raise AssertionError(f"expected {method or 'a message'}, not {message!r}")
        return message

    @allow_asyncio
    async def send(self, *messages: JsonValue) -> None:
        """Send messages, each on a line of its own, in one write."""
        await self.send_bytes(b"".join(orjson.dumps(message) + b"\n" for message in messages))

    @allow_asyncio
    async def send_bytes(self, data: bytes) -> None:
        """Send any bytes."""
        await self.stream.send_all(data)

    @allow_asyncio
    async def answer(self, request: JsonObject, result: JsonValue) -> None:
        """Respond to a request with a result."""
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    @allow_asyncio
    async def refuse(self, request: JsonObject, code: int, message: str = "no", data: JsonValue = None) -> None:
        """Respond to a request with an error."""
        error: JsonObject = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        await self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    @allow_asyncio
    async def initialize(self, version: str = "2025-11-25", /, **capabilities: JsonValue) -> JsonObject:
        """Play a legacy server until the session is open. Return the client's `initialize` request.

        Args:
            version: The revision that the server selects.
            **capabilities: The capabilities that the server declares.
        """
        request = await self.receive()
        if request["method"] == "server/discover":
            await self.refuse(request, -32601, "Method not found")
            request = await self.receive("initialize")
        result: JsonObject = {
            "protocolVersion": version,
            "capabilities": capabilities,
            "serverInfo": {"name": "scripted", "version": "1"},
        }
        await self.answer(request, result)
        await self.receive("notifications/initialized")
        return request

    @allow_asyncio
    async def discover(self, version: str = "2026-07-28", /, **capabilities: JsonValue) -> JsonObject:
        """Play a modern server for `server/discover`. Return the client's request.

        Args:
            version: The only revision that the server supports.
            **capabilities: The capabilities that the server declares.
        """
        request = await self.receive("server/discover")
        result: JsonObject = {
            "resultType": "complete",
            "supportedVersions": [version],
            "capabilities": capabilities,
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}},
        }
        await self.answer(request, result)
        return request

    @allow_asyncio
    async def aclose(self) -> None:
        """Close the connection."""
        await self.stream.aclose()


def scripted(script: Callable[[ScriptedPeer], Awaitable[object]]) -> Serve:
    """Return a server that runs `script`, and then reads without responding until the client has closed."""

    @allow_asyncio
    async def serve(stream: _Stream) -> None:
        peer = ScriptedPeer(stream)
        try:
            await script(peer)
            while await peer.receive_line() is not None:
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            # The client has closed first, or the script has ended the connection.
            return

    return serve


def replayed(transcript: Transcript) -> Serve:
    """Return a server that repeats the server's lines of a transcript, each after as many client lines as recorded."""

    @allow_asyncio
    async def follow(peer: ScriptedPeer) -> None:
        for direction, line in transcript.lines:
            if direction == "<":
                await peer.send_bytes(line + b"\n")
            elif await peer.receive_line() is None:
                return

    return scripted(follow)
