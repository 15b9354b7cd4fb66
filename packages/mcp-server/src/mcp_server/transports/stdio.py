"""Serving the process that started us, over stdin and stdout.

The wire is moved to private descriptors first. What stays at stdin is empty, and what stays at stdout leads to stderr:
a stray `print`, a chatty library or a child process can no longer write into the middle of a message.

Spec: basic/transports#stdio (legacy), basic/transports/stdio (2026-07-28).
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

from mcp_server.transports.descriptors import DescriptorStream
from mcp_server.transports.stream import serve_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.engine.server import ServerConnection
    from mcp_server.connection.stream_channel import Link, Service

__all__ = ["serve_over_stdio"]


async def serve_over_stdio(
    service: Service, connection: ServerConnection, on_link: Callable[[Link], None] | None = None
) -> Exception | None:
    """Serves until the end of input, or until stdout breaks. See `serve_stream`."""
    with _private_descriptors() as stream:
        return await serve_stream(service, connection, stream, write_now=stream.write_now, on_link=on_link)


def _private_descriptors() -> DescriptorStream:
    # Python has no object for a descriptor that was closed when it started. Its number may be anybody's by now.
    for name, file in (("stdin", sys.__stdin__), ("stdout", sys.__stdout__)):
        if file is None:
            raise OSError(errno.EBADF, f"{name} is closed, but the messages of a stdio server go over stdin and stdout")
    # Whatever Python has buffered for stdout was meant for it before the wire began; it goes where prints go from now.
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
        # Prints appear at once, in their order with what is written to stderr.
        _line_buffered()
    return DescriptorStream(source, sink)


def _line_buffered() -> None:
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(line_buffering=True)
