"""The stdio transport and other byte streams: a server serves one client with newline-delimited messages.

`serve_stdio` serves the parent process. First, it moves stdin and stdout to private descriptors. After that, stdin is
empty and stdout is redirected to stderr. A stray `print`, a library that writes to stdout, or a child process can
therefore not corrupt a message.

Spec: basic/transports#stdio (legacy), basic/transports/stdio (2026-07-28).
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from io import TextIOWrapper
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Protocol

import trio

from mcp_core.codec import decode, encode
from mcp_core.errors import ErrorCode, LimitExceeded, MalformedMessage
from mcp_core.framing.lines import LineFramer
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.trio.writer import CoalescingWriter
from mcp_server.connection.stream_channel import StreamChannel
from mcp_server.errors import OutputBroken
from mcp_server.runners.descriptors import DescriptorStream
from mcp_server.tracebacks import first_line_of_author

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_core.codec import Batch
    from mcp_core.engine.server import ServerConnection
    from mcp_core.jsonrpc.messages import Message, RequestId
    from mcp_server.connection.channel import Service
    from mcp_server.server import Server

__all__ = ["ByteStream", "serve_connection", "serve_stdio", "serve_stream"]

_log: Final = logging.getLogger("mcp_server")

_AT_ONCE: Final = 64
"""Messages of one read that are handled without letting other tasks run. A read of 64 KiB can contain 20,000."""

_MOST_PLACES: Final = 100
"""Most places of which is warned that they print. A program that is generated could have any number."""

_PROGRAM: Final = 2
"""Words of a command that can be the program `mcp-server`: the interpreter and a script of it."""

_END_GRACE: Final = 1.0
"""Time for running handlers after the end of input, in seconds. `printf ... | server` receives its responses, and a
client that closes stdin does not wait long (clients usually send SIGTERM after two seconds)."""


class ByteStream(Protocol):
    """A bidirectional byte stream, with methods as of trio streams."""

    async def receive_some(self) -> bytes | bytearray:
        """Wait for bytes and return them; empty at the end of input."""

    async def send_all(self, data: bytes | memoryview) -> None:
        """Write all of `data`."""


@allow_asyncio
async def serve_stdio(server: Server) -> None:
    """Serve the parent process, over stdin and stdout.

    Other output to stdout, for example by `print` or a child process, goes to stderr. A warning in the log names each
    place that prints. If stdin is a terminal, two lines on stderr say how to try the server.

    Args:
        server: The server.

    Raises:
        OutputBroken: stdout cannot be written: the client closed it, or the disk is full. The first write that fails
            cancels the handlers, and no further request starts.
        OSError: stdin or stdout is closed.

    *Closing.* Returns at the end of input. Running handlers then have one second to finish. Cancel it to stop earlier.
    A plain function in a worker thread cannot be interrupted, so the server waits for it: call
    `trio.from_thread.check_cancelled()` in the function from time to time.
    """
    _explain_terminal(f"{server.info.name} {server.info.version}")
    async with server.running():
        with _private_descriptors() as stream:
            failure = await serve_connection(
                server._service,  # noqa: SLF001  # one package
                server.connection(),
                stream,
                write_now=stream.write_now,
            )
    if failure is not None:
        raise OutputBroken(_reason(failure)) from failure


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
    # Prints appear immediately, and in order with other output to stderr.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
        if sys.stdout is sys.__stdout__:
            # For the rest of the process, as the redirection.
            sys.stdout = _PrintDetector(sys.stdout)
    return DescriptorStream(source, sink)


class _PrintDetector(TextIOWrapper):
    """The stdout of a server whose messages have another descriptor. Warns once of each place that writes to it.

    Args:
        stdout: The previous object.
    """

    def __init__(self, stdout: TextIOWrapper) -> None:
        # The previous buffer has recorded whether the previous stdout could seek.
        buffer = open(1, "wb", closefd=False)  # noqa: SIM115  # open until the process ends
        super().__init__(buffer, stdout.encoding, stdout.errors, line_buffering=True)
        self._places: Final[set[tuple[str, int]]] = set()

    def write(self, text: str, /) -> int:
        """Write text."""
        place = first_line_of_author(0)
        if place is not None and place not in self._places and len(self._places) < _MOST_PLACES:
            # Added first: a handler of the log can write here.
            self._places.add(place)
            _log.warning(
                "text printed to stdout goes to stderr, because stdout has the messages of the server: %s:%d; print with"
                " file=sys.stderr, or send the text to the client with `await context.info(...)`",
                *place,
            )
        return super().write(text)


def _explain_terminal(server: str) -> None:
    """Write how to try the server if a user started it in a terminal, where it waits for messages."""
    if sys.stdin is None or sys.stderr is None or not sys.stdin.isatty():
        return
    sys.stderr.write(f"{server} {_how_to_try(sys.orig_argv)}\n")


def _how_to_try(command: Sequence[str]) -> str:
    """Return what to do with the command of a server.

    Args:
        command: The program and its arguments.
    """
    import shlex  # lazy: only a terminal shows this text

    names = [PurePath(word).name for word in command[:_PROGRAM]]
    command = (
        ["mcp-server", *command[names.index("mcp-server") + 1 :]] if "mcp-server" in names else [names[0], *command[1:]]
    )
    file = next((word for word in command[1:] if ".py" in PurePath(word.partition(":")[0]).suffixes), "FILE")
    return (
        "is an MCP server: it waits for the messages of a client at this terminal, until Ctrl+C. To try it, run\n"
        f"`mcp-server dev {shlex.quote(file)}` for a page in the browser, or `mcp-client probe -- {shlex.join(command)}`"
    )


def _reason(failure: Exception) -> str:
    """Return the reason why stdout cannot be written, with the error of the system."""
    said = failure if isinstance(failure, OSError) else failure.__cause__
    if isinstance(said, BrokenPipeError) or not isinstance(said, OSError):
        return "stdout was closed by the client before all responses were sent; running requests were cancelled"
    return f"stdout cannot be written ({said.strerror}); running requests were cancelled"


@allow_asyncio
async def serve_stream(server: Server, stream: ByteStream) -> None:
    """Serve one client over a byte stream: a socket, a pipe, or a pair in memory.

    Args:
        server: The server.
        stream: The stream, with newline-delimited messages in both directions. The caller closes it.

    *Closing.* Returns when the client closes its output, or when a write fails, which cancels the handlers immediately.
    Cancel it to stop earlier.
    """
    async with server.running():
        await serve_connection(server._service, server.connection(), stream)  # noqa: SLF001  # one package


async def serve_connection(
    service: Service,
    connection: ServerConnection,
    stream: ByteStream,
    *,
    write_now: Callable[[bytes], int] | None = None,
) -> Exception | None:
    """Serve one client until it ends its output, or a write fails.

    The first write that fails ends everything immediately, because work whose response cannot be delivered must not be
    done. Running handlers are cancelled, and no further one starts.

    Args:
        service: Responds to requests.
        connection: A new engine.
        stream: The byte stream. It is not closed here.
        write_now: Writes without waiting, as in `CoalescingWriter`.

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
        service.connected(channel)
        try:
            reader = _Reader(channel, stream, writer)
            channel.start_reader(reader.read)
            await reader.ended.wait()
            await channel.drain(_END_GRACE)
        finally:
            channel.end()
            service.disconnected(channel)
        writer.close()
        # A client that does not read must not delay the exit.
        nursery.cancel_scope.deadline = trio.current_time() + _END_GRACE
    return writer.failure


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


class _Reader:
    """The reader of a connection. Its task runs the handler of a lone request itself: see `mcp_server.connection.workers`."""

    def __init__(self, channel: StreamChannel, stream: ByteStream, writer: CoalescingWriter) -> None:
        self.ended: Final = trio.Event()
        """The end of input."""
        self._channel: Final = channel
        self._stream: Final = stream
        self._writer: Final = writer
        self._limits: Final = channel.connection.limits
        self._framer: Final = LineFramer(self._limits)

    async def read(self) -> None:
        """Read until the end of input, or until another task reads."""
        while not self.ended.is_set():
            try:
                data = await self._stream.receive_some()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.ended.set()
                return
            lines = self._framer.receive_data(bytes(data)) if data else self._framer.receive_eof()
            is_alone = len(lines) == 1 and bool(data)
            for number, line in enumerate(lines, 1):
                if number % _AT_ONCE == 0:
                    await trio.lowlevel.checkpoint()
                message, size = self._decoded(line)
                if message is not None and is_alone:
                    if not await self._channel.deliver_alone(message, size):
                        return
                elif message is not None:
                    self._channel.deliver(message, size)
                if self._channel.at_capacity:
                    await self._channel.wait_for_capacity()
                if self._writer.overdue:
                    await self._writer.wait_while_overdue()
            if not data:
                self.ended.set()

    def _decoded(self, line: bytes | LimitExceeded) -> tuple[Message | Batch | None, int]:
        """Return the message of a line and its size in bytes; `None` for a line without a message, which the channel rejects."""
        if isinstance(line, LimitExceeded):
            _log.warning("message skipped: %s", line)
            self._channel.reject(_too_long(line))
            return None, 0
        try:
            return decode(line, self._limits), len(line)
        except MalformedMessage as malformed:
            self._channel.reject(malformed)
            return None, 0


def _too_long(limit: LimitExceeded) -> MalformedMessage:
    # The code that the codec uses for the same limit. The message was not parsed, so its id is unknown.
    error = ErrorObject(int(ErrorCode.PARSE_ERROR), limit.message)
    return MalformedMessage(limit.message, reply=ErrorResponse(None, error))
