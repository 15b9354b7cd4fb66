"""The fake server as a process that the client under test starts. The relay passes everything on to this module.

Spec: basic/transports#stdio
"""

from __future__ import annotations

import secrets
import signal
import struct
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.client import relay
from mcp_conformance.drivers.client.scripted_request import ErrorReply, encoded
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.transcript import strict_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from mcp_conformance.drivers.client.fake_server import FakeServer
    from mcp_conformance.drivers.client.scripted_request import Session
    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonValue

__all__ = ["STARTED", "Launch", "StdioHost", "open_stdio_host"]

STARTED: Final = "the client started the server"
"""The beginning of the transcript note after which another connection follows."""

_HEAD: Final = struct.Struct(">cI")
_MOST: Final = 64 * 1024 * 1024


class Launch:
    """One start of the server by the client.

    Args:
        stream: The connection to the relay.
        number: The number of starts before it.
        session: The session.
        transcript: The transcript that records everything.
    """

    def __init__(self, stream: trio.SocketStream, number: int, session: Session, transcript: Transcript) -> None:
        self.number: Final = number
        """The number of starts before it."""
        self.session: Final = session
        """The session, which ends with the process."""
        self.received: Final = bytearray()
        """All bytes that the client wrote."""
        self.values: Final[list[JsonValue]] = []
        """The JSON value of each line; `None` for a line that is not JSON."""
        self.input_ended: Final = trio.Event()
        """Set when the client closes its end."""
        self.events: Final[list[str]] = []
        """Events of the process, in order: `input-ended`, `SIGTERM`, `SIGINT`, `exited`, `killed`,
        `left-running`.
        """
        self.over: Final = trio.Event()
        """Set when the process has exited."""
        self.line_end = b"\n"
        """The bytes written after each message."""
        self._stream: Final = stream
        self._transcript: Final = transcript
        self._writing: Final = trio.Lock()
        self._exited = False

    async def send(self, data: bytes, *, final: bool = False, deviant: str = "", status: int = 200) -> None:  # noqa: ARG002  responses and other messages are sent alike
        """Send a message."""
        self._transcript.message(data, sent=True, deviant=deviant)
        await self.command(b"O", data + self.line_end)

    async def send_together(self, *messages: tuple[bytes, str]) -> None:
        """Send messages at once, each with the rule that it breaks on purpose."""
        for data, deviant in messages:
            self._transcript.message(data, sent=True, deviant=deviant)
        await self.command(b"O", b"".join(data + self.line_end for data, _ in messages))

    async def write(self, data: bytes, *, deviant: str) -> None:
        """Write bytes to standard output."""
        self._transcript.message(data, sent=True, deviant=deviant)
        await self.command(b"O", data)

    async def complain(self, data: bytes) -> None:
        """Write bytes to standard error."""
        self._transcript.note(f"the suite writes {len(data)} bytes to standard error")
        await self.command(b"R", data)

    async def end_complaints(self) -> None:
        """Close standard error."""
        self._transcript.note("the suite closes standard error")
        await self.command(b"D")

    async def exit(self, status: int = 0) -> None:
        """Exit the process."""
        if not self._exited:
            self._exited = True
            self.enter("exited")
            await self.command(b"X", str(status).encode())

    async def command(self, kind: bytes, content: bytes = b"") -> None:
        """Send a command to the relay."""
        async with self._writing:
            try:
                await self._stream.send_all(_HEAD.pack(kind, len(content)) + content)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._transcript.note("the server process has exited")

    def enter(self, event: str) -> None:
        """Record an event of the process."""
        self.events.append(event)
        self._transcript.note(f"the server process: {event}")

    @property
    def ended_by_itself(self) -> bool:
        """Whether the suite ended the process."""
        return self._exited


class StdioHost:
    """The host to which relays connect. Created by `open_stdio_host`.

    Args:
        server: The server behind the host.
        transcript: The transcript that records everything.
    """

    def __init__(self, server: FakeServer, transcript: Transcript) -> None:
        self.server: Final = server
        self.launches: Final[list[Launch]] = []
        """Each start by the client, in order."""
        self.token: Final = secrets.token_hex(16)
        """The token that relays send, so that no other program on this machine is taken for the client."""
        self.on_launch: Callable[[Launch], Awaitable[None]] | None = None
        """Runs at each start, before anything is read."""
        self.on_line: Callable[[Launch, bytes], Awaitable[bool]] | None = None
        """Receives each line first, and returns whether it handled the line."""
        self.on_input_end: Callable[[Launch], Awaitable[None]] = _exit
        """Runs when the client closes its end."""
        self.on_signal: Callable[[Launch, signal.Signals], Awaitable[None]] = _exit_by
        """Runs at a signal."""
        self._transcript: Final = transcript

    async def settled(self, seconds: float) -> None:
        """Wait until all processes have exited. After the timeout, end those that still run.

        Args:
            seconds: The timeout.
        """
        with trio.move_on_after(seconds):
            for launch in self.launches:
                await launch.over.wait()
        for launch in self.launches:
            if not launch.over.is_set():
                launch.events.append("left-running")
                await launch.exit()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one relay."""
        frames = _Frames(stream)
        first = await frames.next()
        if first != (b"H", self.token.encode()):
            return
        launch = Launch(stream, len(self.launches), self.server.open(), self._transcript)
        launch.session.standalone_sink = launch
        launch.session.standalone_opened.set()
        self.launches.append(launch)
        self._transcript.note(f"{STARTED}, start {launch.number + 1}")
        async with open_nursery() as nursery:
            if self.on_launch is not None:
                await self.on_launch(launch)
            partial = bytearray()
            while (frame := await frames.next()) is not None:
                kind, content = frame
                if kind == b"I":
                    launch.received.extend(content)
                    partial += content
                    *lines, rest = bytes(partial).split(b"\n")
                    partial = bytearray(rest)
                    for line in lines:
                        await self._line(launch, line, nursery)
                elif kind == b"E":
                    if partial:
                        self._transcript.message(bytes(partial), sent=False)
                        partial.clear()
                    launch.enter("input-ended")
                    launch.input_ended.set()
                    nursery.start_soon(self.on_input_end, launch)
                elif kind == b"S":
                    number = signal.Signals(int(content))
                    launch.enter(number.name)
                    nursery.start_soon(self.on_signal, launch, number)
            self._transcript.unframed(bytes(partial))
            if not launch.ended_by_itself:
                launch.enter("killed")
            launch.over.set()
            nursery.cancel_scope.cancel()

    async def _line(self, launch: Launch, line: bytes, nursery: trio.Nursery) -> None:
        value = self._transcript.message(line, sent=False)
        launch.values.append(value)
        if self.on_line is not None and await self.on_line(launch, line):
            return
        try:
            strict_json(line)
            modern = self.server.stateless(value) if isinstance(value, dict) else None
        except ValueError:
            await launch.send(encoded(ErrorReply(-32700, "this is no JSON").error(None)))
            return
        except ErrorReply as reply:
            id = value.get("id") if isinstance(value, dict) else None
            await launch.send(encoded(reply.error(id)))
            return
        if modern is not None:
            # A request is cancelled by the connection, although everything else is stated in the request.
            modern.running = launch.session.running
        if modern is None and isinstance(value, dict) and "method" in value and "id" not in value:
            # Cancellations take effect in the order of arrival.
            await self.server.take(value, launch.session, launch)
            return
        nursery.start_soon(self.server.take, value, modern or launch.session, launch)
        # New tasks begin in any order; the request must have begun before a cancellation that was read with it.
        for _ in range(2):
            await trio.lowlevel.checkpoint()


class _Frames:
    """The frames that a relay sends."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream: Final = stream
        self._buffer = bytearray()

    async def next(self) -> tuple[bytes, bytes] | None:
        """Return the next frame; `None` at the end."""
        head = await self._exactly(_HEAD.size)
        if head is None:
            return None
        kind, length = _HEAD.unpack(head)
        content = await self._exactly(length) if length <= _MOST else None
        return None if content is None else (kind, content)

    async def _exactly(self, count: int) -> bytes | None:
        while len(self._buffer) < count:
            try:
                data = await self._stream.receive_some(64 * 1024)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return None
            if not data:
                return None
            self._buffer += data
        found = bytes(self._buffer[:count])
        del self._buffer[:count]
        return found


async def _exit(launch: Launch) -> None:
    await launch.exit()


async def _exit_by(launch: Launch, number: signal.Signals) -> None:
    await launch.exit(128 + number)


@asynccontextmanager
async def open_stdio_host(
    server: FakeServer, transcript: Transcript, *, prepare: Callable[[StdioHost], None] = lambda _: None
) -> AsyncIterator[tuple[StdioHost, list[str]]]:
    """Accept relays while the block runs. Yields the host and the command line that the client must start.

    Args:
        server: The server behind the host.
        transcript: The transcript that records everything.
        prepare: Receives the host before a process can be started.
    """
    host = StdioHost(server, transcript)
    prepare(host)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listeners[0].socket.getsockname()[1]
    async with open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, host.serve, listeners)
        # A file and no `site`: the process starts in a fraction of the time, in any environment that the client passes.
        yield host, [sys.executable, "-S", "-E", str(Path(relay.__file__)), str(port), host.token]
        nursery.cancel_scope.cancel()
