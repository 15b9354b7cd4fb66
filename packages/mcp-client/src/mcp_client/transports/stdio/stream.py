"""Messages over a byte stream, one per line: the stdio transport, and streams in memory.

Spec: basic/transports#stdio (legacy), basic/transports/stdio (2026-07-28).
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final, Protocol

import trio

from mcp_client.transports.stdio.process import ChildProcess
from mcp_core.codec import decode, encode
from mcp_core.engine.events import ConnectionOpened, NegotiationEnded
from mcp_core.errors import ConnectionEnded, LimitExceeded, MalformedMessage
from mcp_core.framing.lines import LineFramer
from mcp_core.revisions import Era
from mcp_core.trio.nursery import open_private_nursery
from mcp_core.trio.writer import CoalescingWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_client.connection.channel import ClientChannel, Deliver
    from mcp_client.connection.message_observer import MessageObserver
    from mcp_core.codec import Batch
    from mcp_core.engine.events import ReceiveResult
    from mcp_core.errors import McpError
    from mcp_core.jsonrpc.messages import Message
    from mcp_core.limits import Limits
    from mcp_core.types import Tool

__all__ = ["ByteStream", "StreamTransport"]

_log: Final = logging.getLogger("mcp_client")

_AT_ONCE: Final = 64
"""Messages of one read that are processed before other tasks run. A read of 64 KiB may hold 20,000 messages."""

_QUOTED: Final = 200
"""Maximum number of bytes of an invalid line to show."""

_FLUSH: Final = 0.5
"""Time that closing waits for queued messages to be written, in seconds. A notification sent just before is not
lost."""

_LAST_WORDS: Final = 1.0
"""Time to continue reading from a server that no longer reads, in seconds. Its responses may still arrive."""


class ByteStream(Protocol):
    """A bidirectional byte stream, with the methods of trio's streams: for example the pipes of a child process.

    Its methods run on the library of the application: asyncio if an asyncio task opened the connection. A stream that is
    always written for the same library has an attribute `async_library` with its name, `"trio"` or `"asyncio"`.

    `mcp_client.testing.transport_contract` tests implementations.
    """

    async def receive_some(self) -> bytes | bytearray:
        """Return the next bytes; empty at the end of the stream.

        Raises:
            trio.BrokenResourceError: The stream broke.
            trio.ClosedResourceError: `aclose` was called.
        """

    async def send_all(self, data: bytes) -> None:
        """Write all of `data`, and block while the peer does not read.

        Raises:
            trio.BrokenResourceError: The stream broke.
            trio.ClosedResourceError: `aclose` was called.
        """

    async def aclose(self) -> None:
        """Close the stream. Any task can call this, more than once."""


class StreamTransport:
    """Messages over one byte stream.

    Args:
        stream: The byte stream. Closed with the transport.
        limits: The limits.
        name: The name of the server; `None` to derive it from the stream.
        on_junk: Called with each line that is not a message, shortened.
        era: The known era of the server, as a hint.
        observer: Observes the messages; `None` for no observation.
    """

    perform: Final = None
    """`None`: all requests share one stream."""
    interrupted: Final = None
    """`None`: a byte stream does not have sessions that the server could lose."""
    takes_headers: Final = False
    """Whether a request can have headers of its own: never on a byte stream."""

    def __init__(
        self,
        stream: ByteStream,
        limits: Limits,
        *,
        name: str | None = None,
        on_junk: Callable[[str], None] | None = None,
        era: Era | None = None,
        observer: MessageObserver | None = None,
    ) -> None:
        self._stream: Final = stream
        self._era: Final = era
        self._limits: Final = limits
        self._name: Final = name
        self._on_junk: Final = on_junk
        self._observer: Final = observer
        self._writer: Final = CoalescingWriter(
            self._write, limits.outgoing_bytes, stream.write_now if isinstance(stream, ChildProcess) else None
        )
        self._framer: Final = LineFramer(limits)
        self._reading: Final = trio.CancelScope()
        self._running = False
        self._junk = 0
        self._ended: ConnectionEnded | None = None
        self._closing = False

    def handshake(self, channel: ClientChannel) -> _StreamHandshake:
        """Return the object that opens a connection over a byte stream."""
        return _StreamHandshake(channel, self, self._era)

    def usable(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """Return all tools: a byte stream does not repeat parameters in headers."""
        return tools

    async def run(self, deliver: Deliver) -> None:
        """Read and write until the server ends or the transport is closed."""
        self._running = True
        async with open_private_nursery() as nursery:
            nursery.start_soon(self._write_on)
            with self._reading:
                await self._read(deliver)

    async def send(self, message: Message | Batch, headers: Sequence[tuple[str, str]] = ()) -> None:  # noqa: ARG002  a stream has no headers
        """Queue a message to be written, and wait while the queue is full. Raises `ConnectionEnded`."""
        line = encode(message, null_id=True, line=True)
        if self._ended is not None or self._writer.broken or self._closing:
            raise await self.why_ended()
        self._observe_sent(line)
        await self._writer.put(line)

    def offer(self, message: Message | Batch, *, more: bool) -> bool:
        """Queue a message and return true; return false if the queue is full or the connection has ended."""
        if self._ended is not None or self._closing:
            return False
        line = encode(message, null_id=True, line=True)
        if not self._writer.offer(line, more=more):
            return False
        self._observe_sent(line)
        return True

    def send_nowait(self, message: Message | Batch) -> None:
        """Queue a message to be written. Does not block."""
        line = encode(message, null_id=True, line=True)
        self._observe_sent(line)
        self._writer.put_nowait(line)

    def _observe_sent(self, line: bytes) -> None:
        if self._observer is not None:
            self._observer.observe("sent", line)

    async def why_ended(self) -> ConnectionEnded:
        """Return the error for all pending requests. Each call creates a new error, with its own traceback."""
        if self._ended is None:
            self._ended = await self._ended_by_stream()
        again = ConnectionEnded(self._ended.message)
        again.context = self._ended.context
        again.__cause__ = self._ended.__cause__
        return again

    async def _ended_by_stream(self) -> ConnectionEnded:
        if isinstance(self._stream, ChildProcess):
            return await self._stream.why_ended()
        who = "this side" if self._closing else "the server"
        return ConnectionEnded(f"the connection was closed by {who}")

    def describe(self) -> str:
        """Return the name of the server."""
        if self._name is not None:
            return self._name
        return self._stream.describe() if isinstance(self._stream, ChildProcess) else "a stream"

    @property
    def stderr_tail(self) -> str | None:
        """The last lines that the child wrote to stderr, at most 20."""
        return self._stream.stderr_tail or None if isinstance(self._stream, ChildProcess) else None

    async def aclose(self) -> None:
        """Close the stream. A child process is stopped in the order that the specification defines."""
        first, self._closing = not self._closing, True
        self._writer.close()
        try:
            if first and self._running:
                with trio.move_on_after(_FLUSH):
                    await self._writer.wait_over()
        finally:
            await self._stream.aclose()

    async def _write_on(self) -> None:
        await self._writer.run()
        if self._writer.broken:
            self._reading.deadline = trio.current_time() + _LAST_WORDS

    async def _write(self, data: bytes | memoryview) -> None:
        try:
            await self._stream.send_all(data if isinstance(data, bytes) else bytes(data))
        except ConnectionEnded as ended:
            self._ended = ended
            raise trio.BrokenResourceError from ended

    async def _read(self, deliver: Deliver) -> None:
        while True:
            try:
                data = await self._stream.receive_some()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                data = b""
            lines = self._framer.receive_data(bytes(data)) if data else self._framer.receive_eof()
            for number, line in enumerate(lines, 1):
                if number % _AT_ONCE == 0:
                    await trio.lowlevel.checkpoint()
                if self._observer is not None and not isinstance(line, LimitExceeded):
                    self._observer.observe("received", line)
                message = self._decode(line)
                if not data and isinstance(message, MalformedMessage):
                    # An incomplete response is not an error response: its caller receives the error of the ended
                    # connection.
                    message.answers = None
                deliver(message)
                if self._junk > self._limits.junk_lines:
                    return
            if not data:
                return
            if self._writer.overdue:
                await self._writer.wait_while_overdue()

    def _decode(self, line: bytes | LimitExceeded) -> Message | Batch | MalformedMessage:
        """Decode a line. An invalid line becomes a `MalformedMessage`, and the connection continues."""
        if isinstance(line, LimitExceeded):
            bad = MalformedMessage(line.message)
            bad.__cause__ = line
            return self._note_junk("", bad)
        notes: list[str] = []
        try:
            message = decode(line, self._limits, notes=notes)
        except MalformedMessage as malformed:
            return self._note_junk(line[:_QUOTED].decode("utf-8", "replace"), malformed)
        self._junk = 0
        for note in notes:
            _log.debug("tolerated deviation: server=%s deviation=%s", self.describe(), note)
        return message

    def _note_junk(self, text: str, bad: MalformedMessage) -> MalformedMessage:
        self._junk += 1
        _log.warning("invalid line received: server=%s error=%s line=%r", self.describe(), bad.message, text)
        if self._on_junk is not None:
            try:
                self._on_junk(text)
            except Exception:  # noqa: BLE001  the user's function: its failure must not end a connection that works
                _log.exception("callback for invalid lines failed")
        if self._junk > self._limits.junk_lines:
            observed = LimitExceeded(
                "consecutive lines that are not messages",
                observed=self._junk,
                allowed=self._limits.junk_lines,
                setting="Limits.junk_lines",
            )
            self._ended = ConnectionEnded(f"{self.describe()} does not speak the protocol: {observed.message}")
            self._ended.__cause__ = observed
        return bad


class _StreamHandshake:
    """The opener of a connection over a byte stream.

    Args:
        channel: The channel of the connection.
        transport: The transport of the connection.
        era: The known era of the server, as a hint. `LEGACY` skips the probe.
    """

    def __init__(self, channel: ClientChannel, transport: StreamTransport, era: Era | None) -> None:
        self._channel: Final = channel
        self._transport: Final = transport
        self._era: Final = era
        self._settled: Final = trio.Event()
        self._refusal: McpError | None = None

    async def open(self) -> None:
        """Start the reader, and exchange messages until the engine has negotiated. Raises `McpError` on failure."""
        connection = self._channel.connection
        self._channel.nursery.start_soon(self._read)
        await self._transport.send(connection.open(era=self._era).message)
        # Without a legacy revision to try next, silence has no meaning: the server may only be slow to start.
        otherwise = any(revision.era is Era.LEGACY for revision in connection.revisions)
        with trio.move_on_after(self._channel.deadlines.probe if otherwise else math.inf):
            await self._settled.wait()
        if not self._settled.is_set():
            reaction = connection.probe_unanswered()
            if reaction is not None:
                self.advance(reaction)
            await self._settled.wait()
        if self._refusal is not None:
            raise self._refusal

    @property
    def is_open(self) -> bool:
        """Whether the engine has negotiated. A server may respond without having read the request."""
        return self._channel.connection.server is not None

    async def _read(self) -> None:
        """Read until the server ends, then end all pending requests."""
        try:
            await self._transport.run(self._channel.deliver)
        finally:
            with trio.CancelScope(shield=True):
                self._channel.end(await self._transport.why_ended())

    def advance(self, reaction: ReceiveResult) -> None:
        """Send the next message, or record the end of the negotiation."""
        if reaction.reply is not None:
            self._transport.send_nowait(reaction.reply.message)
        if isinstance(reaction.event, NegotiationEnded):
            self._refusal = reaction.event.error
            self._settled.set()
        elif isinstance(reaction.event, ConnectionOpened):
            self._settled.set()

    def end(self, why: ConnectionEnded) -> None:
        """Record that the server ended."""
        if not self._settled.is_set():
            # If the server rejected `initialize` and exited on the probe, its error explains the failure.
            self._refusal = self._channel.connection.initialize_refusal or why
            self._settled.set()
