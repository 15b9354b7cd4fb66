"""Serving a server over a transport, until its client goes away."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcp_server.errors import OutputBroken
from mcp_server.transports import stdio as stdio_transport
from mcp_server.transports import stream as stream_transport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_server.connection.stream_channel import Link
    from mcp_server.server import Server
    from mcp_server.service import ServerService
    from mcp_server.transports.stream import ByteStream

__all__ = ["serve_stdio", "serve_stream"]


@contextmanager
def _told(service: ServerService) -> Iterator[Callable[[Link], None]]:
    """Gives what takes the link once it is alive, so that it is told of changes until the block ends."""
    links: list[Link] = []

    def begin(link: Link) -> None:
        links.append(link)
        service.connected(link)

    try:
        yield begin
    finally:
        for link in links:
            service.disconnected(link)


async def serve_stdio(server: Server) -> None:
    """Serves the process that started this one, over stdin and stdout.

    Whatever else is written to stdout meanwhile, by `print` or a child process, goes to stderr.

    Args:
        server: What to serve.

    Raises:
        OutputBroken: stdout cannot be written: the client closed its end of it, or the disk is full. Handlers are
            cancelled at the first write that fails, and no further request is begun.

    *Closing.* Returns at the end of input, after the handlers that run had a second to finish; cancel it to stop. A
    plain function in a worker thread cannot be interrupted, so one that never returns is waited for: let it look at
    `trio.from_thread.check_cancelled()` now and then.
    """
    service = server._service  # noqa: SLF001  # one package
    async with server.running():
        with _told(service) as on_link:
            failure = await stdio_transport.serve_over_stdio(service, server.connection(), on_link)
    if failure is not None:
        raise OutputBroken(_reason(failure)) from failure


def _reason(failure: Exception) -> str:
    """Why stdout cannot be written, with what the system says."""
    said = failure if isinstance(failure, OSError) else failure.__cause__
    if isinstance(said, BrokenPipeError) or not isinstance(said, OSError):
        return "stdout was closed by the client before the end of its requests; the running ones were cancelled"
    return f"stdout cannot be written ({said.strerror}); the running requests were cancelled"


async def serve_stream(server: Server, stream: ByteStream) -> None:
    """Serves one client over any stream of bytes: a socket, a pipe, a pair in memory.

    Args:
        server: What to serve.
        stream: Newline-delimited messages, in both directions. It is not closed here.

    *Closing.* Returns when the client ends its output, or a write fails, which cancels the handlers at once; cancel it
    to stop.
    """
    service = server._service  # noqa: SLF001  # one package
    async with server.running():
        with _told(service) as on_link:
            await stream_transport.serve_stream(service, server.connection(), stream, on_link=on_link)
