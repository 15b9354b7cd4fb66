"""Opening of a connection over a byte stream. One reader task receives all responses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.engine.events import ConnectionOpened, NegotiationEnded
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from mcp_client.connection.channel import ClientChannel
    from mcp_client.connection.transport import Pipe
    from mcp_core.engine.events import ReceiveResult
    from mcp_core.errors import ConnectionEnded, McpError

__all__ = ["PipeHandshake"]


class PipeHandshake:
    """The opener of a connection over a byte stream.

    Args:
        link: The connection.
        pipe: The transport of the connection.
        era: The known era of the server, as a hint. `LEGACY` skips the probe.
    """

    def __init__(self, channel: ClientChannel, pipe: Pipe, era: Era | None = None) -> None:
        self._channel: Final = channel
        self._pipe: Final = pipe
        self._era: Final = era
        self._settled: Final = trio.Event()
        self._refusal: McpError | None = None

    async def open(self) -> None:
        """Start the reader, and exchange messages until the engine has negotiated. Raises `McpError` on failure."""
        connection = self._channel.connection
        self._channel.nursery.start_soon(self._read)
        await self._pipe.send(connection.open(era=self._era).message)
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
            await self._pipe.run(self._channel.deliver)
        finally:
            with trio.CancelScope(shield=True):
                self._channel.end(await self._pipe.why_ended())

    def advance(self, reaction: ReceiveResult) -> None:
        """Send the next message, or record the end of the negotiation."""
        if reaction.reply is not None:
            self._pipe.send_nowait(reaction.reply.message)
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
