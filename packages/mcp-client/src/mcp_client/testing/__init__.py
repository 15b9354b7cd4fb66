"""Tools for tests: a client and a server joined in memory, streams that fail on purpose, servers that follow a script.

    async def test_the_forecast_is_dry() -> None:
        async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
            result = await client.call_tool("forecast", {"city": "Ghent"})

Framing and JSON are the real ones; only processes and sockets are missing. With trio's `autojump_clock` deadlines and
delays pass at once.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeAlias, TypedDict

import attrs
import orjson
import trio
import trio.testing

from mcp_client.connectors.stdio import open_stream
from mcp_client.nursery import open_private_nursery
from mcp_core.errors import ConnectionEnded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from typing import Unpack

    from mcp_client.client import Client
    from mcp_client.connection.transport import ByteStream
    from mcp_client.deadlines import Deadlines
    from mcp_client.features.output_schema import OutputPolicy
    from mcp_client.handlers import Handlers
    from mcp_core.engine.connection import Extensions
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.limits import Limits
    from mcp_core.middleware import Middleware
    from mcp_core.revisions import Revision
    from mcp_core.types import Implementation, LoggingLevel

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
"""Serves one client over a stream of bytes, until its end."""

_SERVER_GRACE: Final = 1.0
"""Seconds that a server has to end by itself when the client is gone."""


class Options(TypedDict, total=False):
    """What `mcp_client.open_stream` takes besides the stream."""

    name: str
    on_junk: Callable[[str], None] | None
    handlers: Handlers
    info: Implementation
    revisions: Sequence[Revision]
    deadlines: Deadlines
    limits: Limits
    log_level: LoggingLevel | None
    validate_output: OutputPolicy
    extensions: Extensions | None
    middleware: Sequence[Middleware]
    cache: bool


@attrs.frozen(kw_only=True)
class Faults:
    """What goes wrong with the bytes of one direction."""

    cut_after: int | None = None
    """The stream ends after so many bytes."""
    delay: float | Callable[[], float] = 0
    """Seconds before each piece, by trio's clock."""
    split: int | random.Random | None = None
    """Pieces of at most so many bytes, or of random sizes."""
    corrupt: int | Callable[[bytes], bytes] | None = None
    """The byte at this place is inverted; or what a function makes of each piece."""


_NO_FAULTS: Final = Faults()


@attrs.define(eq=False)
class Transcript:
    """What was said: lines in both directions, in the order in which they came by."""

    lines: list[tuple[str, bytes]] = attrs.field(factory=list)
    """Who said it, `>` for the client and `<` for the server, and the line without its end."""
    _unfinished: dict[str, bytes] = attrs.field(factory=lambda: {">": b"", "<": b""})

    def record(self, direction: str, data: bytes) -> None:
        """Bytes came by."""
        *lines, self._unfinished[direction] = (self._unfinished[direction] + data).split(b"\n")
        self.lines.extend((direction, line) for line in lines)

    def text(self) -> str:
        """One line for each message, behind `> ` or `< `."""
        return "".join(f"{direction} {line.decode('utf-8', 'backslashreplace')}\n" for direction, line in self.lines)

    @classmethod
    def of(cls, text: str) -> Transcript:
        """The transcript that `text` stands for. Raises `ValueError` for a line without a direction."""
        lines = []
        for line in text.split("\n"):
            if line[:2] in {"> ", "< "}:
                lines.append((line[0], line[2:].encode()))
            elif line:
                raise ValueError(f"a line of a transcript begins with '> ' or '< ', not {line[:20]!r}")
        return cls(lines)


class _FaultyStream:
    """The client's end of a stream, with faults in both directions and a transcript."""

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
    """Applies the faults of one direction."""

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
        """The pieces that get through, as they get through."""
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


@asynccontextmanager
async def open_in_memory(
    serve: Serve,
    *,
    to_server: Faults = _NO_FAULTS,
    to_client: Faults = _NO_FAULTS,
    transcript: Transcript | None = None,
    **options: Unpack[Options],
) -> AsyncIterator[Client]:
    """A client of a server in the same program, joined in memory.

    Args:
        serve: Serves the stream that it is given: `lambda stream: serve_stream(server, stream)`.
        to_server: What goes wrong with what the client says.
        to_client: What goes wrong with what the server says.
        transcript: Takes down what the client said and heard.
        **options: As for `mcp_client.open_stream`.

    Yields:
        The client. When the block ends, the server gets the end of its input, and a second to end by itself.

    Raises:
        Exception: What entering `open_stream` raises, and what `serve` raises.
    """
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
                # That is only how the failure of the server looks from here.
                raise failures[0] from error
            for failure in failures:
                error.add_note(f"The server failed too: {failure!r}")
            raise
        finally:
            with trio.move_on_after(_SERVER_GRACE):
                await gone.wait()
    if failures:
        raise failures[0]


# --- servers that follow a script ------------------------------------------------------------------------------------


class ScriptedPeer:
    """A server that says what a test wants it to say, right or wrong. Made by `scripted`."""

    def __init__(self, stream: _Stream) -> None:
        self.stream: Final = stream
        """The bytes, for those who want them."""
        self._buffer = bytearray()

    async def receive_line(self) -> bytes | None:
        """The next line of the client; `None` when it said its last."""
        while b"\n" not in self._buffer:
            data = await self.stream.receive_some()
            if not data:
                return None
            self._buffer += data
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return line

    async def receive(self, method: str | None = None) -> JsonObject:
        """The next message of the client.

        Args:
            method: What it has to be; `None` for anything.

        Raises:
            AssertionError: It is something else, or there is none.
        """
        line = await self.receive_line()
        message = None if line is None else orjson.loads(line)
        if not isinstance(message, dict) or (method is not None and message.get("method") != method):
            raise AssertionError(f"expected {method or 'a message'}, not {message!r}")
        return message

    async def send(self, *messages: JsonValue) -> None:
        """Says something, each on a line of its own and all at once."""
        await self.send_bytes(b"".join(orjson.dumps(message) + b"\n" for message in messages))

    async def send_bytes(self, data: bytes) -> None:
        """Says anything."""
        await self.stream.send_all(data)

    async def answer(self, request: JsonObject, result: JsonValue) -> None:
        """Answers a request."""
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def refuse(self, request: JsonObject, code: int, message: str = "no", data: JsonValue = None) -> None:
        """Answers a request with an error."""
        error: JsonObject = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        await self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    async def initialize(self, version: str = "2025-11-25", /, **capabilities: JsonValue) -> JsonObject:
        """Plays a legacy server until the session is open. Returns the client's `initialize`.

        Args:
            version: The revision that it chooses.
            **capabilities: What it declares.
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

    async def discover(self, version: str = "2026-07-28", /, **capabilities: JsonValue) -> JsonObject:
        """Plays a modern server until it is found. Returns the client's `server/discover`.

        Args:
            version: The only revision that it speaks.
            **capabilities: What it declares.
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

    async def aclose(self) -> None:
        """Goes away."""
        await self.stream.aclose()


def scripted(script: Callable[[ScriptedPeer], Awaitable[object]]) -> Serve:
    """A server that follows `script`, and then is silent until the client has gone."""

    async def serve(stream: _Stream) -> None:
        peer = ScriptedPeer(stream)
        try:
            await script(peer)
            while await peer.receive_line() is not None:
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            # The client has gone first, or the script has ended the connection.
            return

    return serve


def replayed(transcript: Transcript) -> Serve:
    """A server that says what the server of a transcript said, each time the client has said as many lines as there."""

    async def follow(peer: ScriptedPeer) -> None:
        for direction, line in transcript.lines:
            if direction == "<":
                await peer.send_bytes(line + b"\n")
            elif await peer.receive_line() is None:
                return

    return scripted(follow)
