"""Messages over a byte stream, one a line: the stdio transport, and streams in memory.

Spec: basic/transports#stdio (legacy), basic/transports/stdio (2026-07-28).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from mcp_client._process import ChildProcess
from mcp_client._writer import JoiningWriter
from mcp_core.errors import ConnectionEnded, LimitExceeded, MalformedMessage
from mcp_core.framing.lines import LineFramer, frame
from mcp_core.jsonrpc.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_client._transport import ByteStream
    from mcp_core.jsonrpc.messages import Batch, Message
    from mcp_core.limits import Limits

__all__ = ["StreamTransport"]

_log: Final = logging.getLogger("mcp_client")

_QUOTED: Final = 200
"""How many bytes of a line that is no message are shown."""


class StreamTransport:
    """Messages over one byte stream.

    Args:
        stream: The bytes. Closed with the transport.
        limits: The bounds that hold here.
        name: Who is at the other end; asked of the stream when `None`.
        on_junk: Is told of each line that is no message, clipped.
    """

    def __init__(
        self,
        stream: ByteStream,
        limits: Limits,
        *,
        name: str | None = None,
        on_junk: Callable[[str], None] | None = None,
    ) -> None:
        self._stream: Final = stream
        self._limits: Final = limits
        self._name: Final = name
        self._on_junk: Final = on_junk
        self._writer: Final = JoiningWriter(self._write, limits.outgoing_bytes)
        self._framer: Final = LineFramer(limits)
        self._junk = 0
        self._ended: ConnectionEnded | None = None
        self._closing = False

    async def run(self, deliver: Callable[[Message | Batch], None]) -> None:
        """Reads and writes until the server is gone or the transport is closed."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._writer.run)
            await self._read(deliver)
            nursery.cancel_scope.cancel()

    async def send(self, message: Message) -> None:
        """Puts a message down to be written. Raises `ConnectionEnded`."""
        if self._ended is not None or self._writer.broken or self._closing:
            raise await self.why_ended()
        await self._writer.put(self._line(message), more=True)

    def send_nowait(self, message: Message | Batch) -> None:
        """Puts a message down to be written."""
        self._writer.put_nowait(self._line(message), more=True)

    async def why_ended(self) -> ConnectionEnded:
        """The error for everything that still waits."""
        if isinstance(self._stream, ChildProcess) and self._ended is None:
            self._ended = await self._stream.why_ended()
        if self._ended is None:
            who = "this side" if self._closing else "the server"
            self._ended = ConnectionEnded(f"the connection was closed by {who}")
        return self._ended

    def describe(self) -> str:
        """Who is at the other end."""
        if self._name is not None:
            return self._name
        return self._stream.describe() if isinstance(self._stream, ChildProcess) else "a stream"

    @property
    def stderr_tail(self) -> str | None:
        """The end of what the child wrote to stderr."""
        return self._stream.stderr_tail or None if isinstance(self._stream, ChildProcess) else None

    async def aclose(self) -> None:
        """Closes the stream; a child process is stopped in the specified order."""
        self._closing = True
        await self._stream.aclose()

    def _line(self, message: Message | Batch) -> bytes:
        return frame(encode(message, null_id=True))

    async def _write(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except ConnectionEnded as ended:
            self._ended = ended
            raise trio.BrokenResourceError from ended

    async def _read(self, deliver: Callable[[Message | Batch], None]) -> None:
        while True:
            try:
                data = await self._stream.receive_some()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return
            lines = self._framer.receive_data(bytes(data)) if data else self._framer.receive_eof()
            for line in lines:
                message = self._decode(line)
                if message is not None:
                    deliver(message)
                elif self._junk > self._limits.junk_lines:
                    return
            if not data:
                return

    def _decode(self, line: bytes | LimitExceeded) -> Message | Batch | None:
        """The message of a line; `None` for what is none, which is noted and survived."""
        notes: list[str] = []
        try:
            if isinstance(line, LimitExceeded):
                raise line
            message = decode(line, self._limits, notes=notes)
        except (MalformedMessage, LimitExceeded) as bad:
            self._note_junk(line, bad)
            return None
        self._junk = 0
        for note in notes:
            _log.debug("survived: %s", note)
        return message

    def _note_junk(self, line: bytes | LimitExceeded, bad: MalformedMessage | LimitExceeded) -> None:
        self._junk += 1
        text = "" if isinstance(line, LimitExceeded) else line[:_QUOTED].decode("utf-8", "replace")
        _log.warning("%s wrote a line that is no message (%s): %r", self.describe(), bad.message, text)
        if self._on_junk is not None:
            self._on_junk(text)
        if self._junk > self._limits.junk_lines:
            observed = LimitExceeded(
                "lines in a row that are no message",
                observed=self._junk,
                allowed=self._limits.junk_lines,
                setting="Limits.junk_lines",
            )
            self._ended = ConnectionEnded(f"{self.describe()} does not speak the protocol: {observed.message}")
            self._ended.__cause__ = observed
