"""The stdio transport: serves the parent process over stdin and stdout.

First, stdin and stdout are moved to private descriptors. After that, stdin is empty and stdout is redirected to stderr.
A stray `print`, a library that writes to stdout, or a child process can therefore not corrupt a message.

Spec: basic/transports#stdio (legacy), basic/transports/stdio (2026-07-28).
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

from mcp_server.runners.descriptors import DescriptorStream
from mcp_server.transports.stream import serve_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.engine.server import ServerConnection
    from mcp_server.connection.stream_channel import Service, StreamChannel

__all__ = ["serve_over_stdio"]


async def serve_over_stdio(
    service: Service, connection: ServerConnection, on_channel: Callable[[StreamChannel], None] | None = None
) -> Exception | None:
    """Serve until the end of input, or until stdout fails.

    Args:
        service: Responds to requests.
        connection: A new engine.
        on_channel: Receives the channel when it is open.

    Returns:
        The error of the write that failed, or `None`.

    Raises:
        OSError: stdin or stdout is closed.
    """
    with _private_descriptors() as stream:
        return await serve_stream(service, connection, stream, write_now=stream.write_now, on_channel=on_channel)


def _private_descriptors() -> DescriptorStream:
    # Python has no object for a descriptor that was closed at startup. Another file may have its number by now.
    for name, file in (("stdin", sys.__stdin__), ("stdout", sys.__stdout__)):
        if file is None:
            raise OSError(errno.EBADF, f"{name} is closed: a stdio server requires open stdin and stdout")
    # Output that Python has buffered for stdout is redirected to stderr, too, as are all later prints.
    source = os.dup(0)
    sink = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if sys.__stderr__ is not None:
        os.dup2(2, 1)
    else:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    if sys.stdout is not None:
        # Prints appear immediately, and in order with other output to stderr.
        _line_buffered()
    return DescriptorStream(source, sink)


def _line_buffered() -> None:
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(line_buffering=True)
