"""Serving of one client over a byte stream of newline-delimited messages.

Spec: basic/transports#stdio (legacy), basic/transports/stdio (2026-07-28).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

import trio

from mcp_core.errors import ErrorCode, LimitExceeded, MalformedMessage
from mcp_core.framing.lines import LineFramer
from mcp_core.jsonrpc.codec import decode, encode
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse
from mcp_server.connection.stream_channel import StreamChannel
from mcp_server.connection.writer import CoalescingWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.engine.server import ServerConnection
    from mcp_core.jsonrpc.messages import Batch, Message, RequestId
    from mcp_server.connection.stream_channel import Service

__all__ = ["ByteStream", "serve_stream"]

_log: Final = logging.getLogger("mcp_server")

_AT_ONCE: Final = 64
"""Messages of one read that are handled without letting other tasks run. A read of 64 KiB can contain 20,000."""

_END_GRACE: Final = 1.0
"""Time for running handlers after the end of input, in seconds. `printf ... | server` receives its responses, and a
client that closes stdin does not wait long (clients usually send SIGTERM after two seconds)."""


class ByteStream(Protocol):
    """A bidirectional byte stream, with methods as of trio streams."""

    async def receive_some(self) -> bytes | bytearray:
        """Wait for bytes and return them; empty at the end of input."""

    async def send_all(self, data: bytes | memoryview) -> None:
        """Write all of `data`."""


class _StreamSink:
    """A sink that writes all messages of a connection to one stream."""

    def __init__(self, connection: ServerConnection, writer: CoalescingWriter) -> None:
        self._connection: Final = connection
        self._writer: Final = writer

    # There is only one stream: the request of a message does not matter.
    async def send(self, message: Message | Batch, for_request: RequestId | None, *, more: bool) -> None:  # noqa: ARG002
        await self._writer.put(self._line(message), more=more)

    def send_nowait(self, message: Message | Batch, for_request: RequestId | None) -> None:  # noqa: ARG002
        self._writer.put_nowait(self._line(message))

    def _line(self, message: Message | Batch) -> bytes:
        return encode(message, null_id=self._connection.error_ids_are_null, line=True)


async def serve_stream(
    service: Service,
    connection: ServerConnection,
    stream: ByteStream,
    *,
    write_now: Callable[[bytes], int] | None = None,
    on_channel: Callable[[StreamChannel], None] | None = None,
) -> Exception | None:
    """Serve one client until it ends its output, or a write fails.

    The first write that fails ends everything immediately, because work whose response cannot be delivered must not be
    done. Running handlers are cancelled, and no further one starts.

    Args:
        service: Responds to requests.
        connection: A new engine.
        stream: The byte stream. It is not closed here.
        write_now: Writes without waiting, as in `CoalescingWriter`.
        on_channel: Receives the channel when it is open.

    Returns:
        The error of the write that failed, or `None`.
    """
    async with trio.open_nursery() as nursery:

        def stop() -> None:
            _log.info("connection ended: a write failed")
            channel.end()
            nursery.cancel_scope.cancel()

        writer = CoalescingWriter(stream.send_all, connection.limits.outgoing_bytes, write_now, stop)
        channel = StreamChannel(service, connection, _StreamSink(connection, writer), nursery)
        nursery.start_soon(writer.run)
        if on_channel is not None:
            on_channel(channel)
        try:
            await _read(channel, stream, writer)
            await channel.drain(_END_GRACE)
        finally:
            channel.end()
        writer.close()
        # A client that does not read must not delay the exit.
        nursery.cancel_scope.deadline = trio.current_time() + _END_GRACE
    return writer.failure


async def _read(channel: StreamChannel, stream: ByteStream, writer: CoalescingWriter) -> None:
    limits = channel.connection.limits
    framer = LineFramer(limits)
    while True:
        try:
            data = await stream.receive_some()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return
        lines = framer.receive_data(bytes(data)) if data else framer.receive_eof()
        for number, line in enumerate(lines, 1):
            if number % _AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
            if isinstance(line, LimitExceeded):
                _log.warning("message skipped: %s", line)
                channel.refuse(_too_long(line))
                continue
            try:
                message = decode(line, limits)
            except MalformedMessage as malformed:
                channel.refuse(malformed)
                continue
            channel.deliver(message, len(line))
            if channel.at_capacity:
                await channel.wait_for_capacity()
            if writer.overdue:
                await writer.wait_while_overdue()
        if not data:
            return


def _too_long(limit: LimitExceeded) -> MalformedMessage:
    # The code that the codec uses for the same limit. The message was not parsed, so its id is unknown.
    error = ErrorObject(int(ErrorCode.PARSE_ERROR), limit.message)
    return MalformedMessage(limit.message, reply=ErrorResponse(None, error))
