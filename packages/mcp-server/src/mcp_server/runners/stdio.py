"""Serving a server over stdio or a byte stream until its client disconnects."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcp_server.errors import OutputBroken
from mcp_server.transports import stdio as stdio_transport
from mcp_server.transports import stream as stream_transport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_server.connection.stream_channel import StreamChannel
    from mcp_server.server import Server
    from mcp_server.service import ServerService
    from mcp_server.transports.stream import ByteStream

__all__ = ["serve_stdio", "serve_stream"]


@contextmanager
def _subscribed(service: ServerService) -> Iterator[Callable[[StreamChannel], None]]:
    """Yield a callback that subscribes a link to change notifications until the block ends."""
    channels: list[StreamChannel] = []

    def begin(channel: StreamChannel) -> None:
        channels.append(channel)
        service.connected(channel)

    try:
        yield begin
    finally:
        for channel in channels:
            service.disconnected(channel)


async def serve_stdio(server: Server) -> None:
    """Serve the parent process, over stdin and stdout.

    Other output to stdout, for example by `print` or a child process, goes to stderr.

    Args:
        server: The server.

    Raises:
        OutputBroken: stdout cannot be written: the client closed it, or the disk is full. The first write that fails
            cancels the handlers, and no further request starts.

    *Closing.* Returns at the end of input. Running handlers then have one second to finish. Cancel it to stop earlier.
    A plain function in a worker thread cannot be interrupted, so the server waits for it: call
    `trio.from_thread.check_cancelled()` in the function from time to time.
    """
    service = server._service  # noqa: SLF001  # one package
    async with server.running():
        with _subscribed(service) as on_channel:
            failure = await stdio_transport.serve_over_stdio(service, server.connection(), on_channel)
    if failure is not None:
        raise OutputBroken(_reason(failure)) from failure


def _reason(failure: Exception) -> str:
    """Return the reason why stdout cannot be written, with the error of the system."""
    said = failure if isinstance(failure, OSError) else failure.__cause__
    if isinstance(said, BrokenPipeError) or not isinstance(said, OSError):
        return "stdout was closed by the client before all responses were sent; running requests were cancelled"
    return f"stdout cannot be written ({said.strerror}); running requests were cancelled"


async def serve_stream(server: Server, stream: ByteStream) -> None:
    """Serve one client over a byte stream: a socket, a pipe, or a pair in memory.

    Args:
        server: The server.
        stream: The stream, with newline-delimited messages in both directions. The caller closes it.

    *Closing.* Returns when the client closes its output, or when a write fails, which cancels the handlers immediately.
    Cancel it to stop earlier.
    """
    service = server._service  # noqa: SLF001  # one package
    async with server.running():
        with _subscribed(service) as on_channel:
            await stream_transport.serve_stream(service, server.connection(), stream, on_channel=on_channel)
