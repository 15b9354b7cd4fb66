"""A raw server over stdio in this process, behind the proxy."""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, cast

import trio

from mcp_conformance.drivers.server.stdio_connection import StdioConnection
from mcp_conformance.model.check import Transport
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.transcript import Transcript
from mutants.server.server import RawServer
from mutants.server.stdio import serve

if TYPE_CHECKING:
    import signal
    from collections.abc import AsyncIterator, Callable, Mapping

    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.wire.process import LineProcess
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision
    from mutants.generated.proxy import Conversation

__all__ = ["StdioTarget"]

_TO_END: Final = 2.0
"""Seconds that the thread of a server has to end after the end of its input."""


class _Output:
    """The standard output of the server: passes each line to the proxy, in the thread of the suite."""

    def __init__(self, peer: _PipePeer) -> None:
        self._peer: Final = peer
        self._token: Final = trio.lowlevel.current_trio_token()

    def write(self, line: bytes) -> int:
        """Write a line."""
        # The suite has left when the loop has ended; a server over a broken pipe ends too.
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._peer.written, line)
        return len(line)

    def flush(self) -> None:
        """Do nothing: each line is passed on at once."""


class _PipePeer:
    """A server in a thread, with the methods of `LineProcess`.

    Args:
        server: The server.
        conversation: The proxy.
    """

    def __init__(self, server: RawServer, conversation: Conversation) -> None:
        self._conversation: Final = conversation
        self._lines: Final[deque[bytes]] = deque()
        self._partial = b""
        self._arrived = trio.Event()
        self._over: Final = trio.Event()
        self._unread = b""
        self._sending: Final = trio.Lock()
        readable, writable = os.pipe()
        self._input: Final = trio.lowlevel.FdStream(writable)
        self.status: int | None = None
        """The exit status; `None` while the server runs."""
        self.stderr_bytes: Final = 0
        """The number of bytes written to standard error."""
        self.output_ended: bool = False
        """Whether standard output is closed."""
        self.pid: Final = 0
        """The process id, of no process."""
        token = trio.lowlevel.current_trio_token()
        output = _Output(self)

        def run() -> None:
            with os.fdopen(readable, "rb") as source:
                serve(server, source, output)
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(self._end)

        threading.Thread(target=run, daemon=True).start()

    @property
    def unfinished(self) -> bytes:
        """The output after the last line feed."""
        return self._partial

    def written(self, line: bytes) -> None:
        """Pass on a line of the server."""
        changed = self._conversation.sends(line)
        lines = [line] if changed is None else [each + b"\n" for each in changed]
        for each in lines:
            framed = self._conversation.mutation.line(each)
            if framed is not None:
                self._conversation.observer.hit()
            *whole, self._partial = (self._partial + (each if framed is None else framed)).split(b"\n")
            self._lines.extend(whole)
        self._arrived.set()

    def _end(self) -> None:
        self.status = 0
        self.output_ended = True
        self._over.set()
        self._arrived.set()

    async def send(self, data: bytes) -> bool:
        """Write to standard input. Return whether it was written."""
        *lines, rest = (self._unread + data).split(b"\n")
        # A line is passed on as soon as it is complete. The rest is passed on too, if the mutation reads no messages.
        passed = b""
        for line in lines:
            changed = self._conversation.receives(line)
            passed += line + b"\n" if changed is None else b"".join(each + b"\n" for each in changed)
        self._unread = rest
        try:
            async with self._sending:
                await self._input.send_all(passed)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True

    async def receive(self) -> bytes | None:
        """Return the next line of output without its line feed; `None` at the end."""
        while not self._lines:
            if self.output_ended:
                await trio.lowlevel.checkpoint()
                return None
            self._arrived = trio.Event()
            await self._arrived.wait()
        return self._lines.popleft()

    async def close_input(self) -> None:
        """Close standard input."""
        if self._unread:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._input.send_all(self._unread)
            self._unread = b""
        await self._input.aclose()

    async def wait(self) -> int:
        """Wait until the server has ended."""
        await self._over.wait()
        return 0

    async def wait_for_log(self) -> None:
        """Return at once: there is no standard error."""
        await trio.lowlevel.checkpoint()

    def kill(self) -> None:
        """End the server for the suite. Its thread ends with its input."""
        self._end()

    def signal(self, number: signal.Signals) -> None:
        """Ignore a signal, which a thread cannot receive."""


class StdioTarget:
    """A raw server over stdio behind a proxy. Each connection has its own server.

    Args:
        conversation: Returns the proxy of a new connection.
        settings: The settings.
    """

    transports: Final = frozenset({Transport.STDIO})
    """The transports of the server: stdio."""

    def __init__(self, conversation: Callable[[], Conversation], settings: Settings) -> None:
        self._conversation: Final = conversation
        self._settings: Final = settings

    def __str__(self) -> str:
        return "a raw server over stdio"

    @asynccontextmanager
    async def open(
        self,
        revision: Revision,
        transport: Transport,  # noqa: ARG002  there is only stdio
        *,
        capabilities: JsonObject | None = None,
        handshake: bool = True,
        by_tool: Mapping[str, Mapping[str, str]] | None = None,  # noqa: ARG002  stdio has no headers
        transcript: Transcript | None = None,
    ) -> AsyncIterator[StdioConnection]:
        """Start a server and connect to it while the block runs."""
        process = _PipePeer(RawServer(), self._conversation())
        record = Transcript() if transcript is None else transcript
        try:
            async with open_nursery() as nursery:
                # The connection uses the methods that this class has in common with a process.
                peer = StdioConnection(cast("LineProcess", process), revision, self._settings, capabilities, record)
                nursery.start_soon(peer.pump)
                try:
                    if handshake:
                        await peer.shake_hands()
                    yield peer
                finally:
                    nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(_TO_END):
                await process.close_input()
                await process.wait()
