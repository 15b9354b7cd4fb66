"""Opening a connection over a pipe: the answers come by the one reader, whenever they come."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.engine.events import NegotiationEnded, Opened
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from mcp_client.connection.channel import Link
    from mcp_client.connection.transport import Pipe
    from mcp_core.engine.events import Reaction
    from mcp_core.errors import ConnectionEnded, McpError

__all__ = ["PipeOpening"]


class PipeOpening:
    """Opens a connection over a pipe.

    Args:
        link: The connection.
        pipe: Its transport.
        era: What the server is known to speak from earlier; a hint. `LEGACY` saves the probe.
    """

    def __init__(self, link: Link, pipe: Pipe, era: Era | None = None) -> None:
        self._link: Final = link
        self._pipe: Final = pipe
        self._era: Final = era
        self._settled: Final = trio.Event()
        self._refusal: McpError | None = None

    async def open(self) -> None:
        """Starts reading, and sends what the engine wants until it has agreed."""
        connection = self._link.connection
        self._link.nursery.start_soon(self._read)
        await self._pipe.send(connection.open(era=self._era).message)
        # Without a legacy revision to try next, silence says nothing: the server may only be slow to start.
        otherwise = any(revision.era is Era.LEGACY for revision in connection.revisions)
        with trio.move_on_after(self._link.deadlines.probe if otherwise else math.inf):
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
        """Whether the engine has agreed. A server may have said so without reading what it was asked."""
        return self._link.connection.server is not None

    async def _read(self) -> None:
        """Reads until the server is gone, then ends everything that waits."""
        try:
            await self._pipe.run(self._link.deliver)
        finally:
            with trio.CancelScope(shield=True):
                self._link.end(await self._pipe.why_ended())

    def advance(self, reaction: Reaction) -> None:
        """Sends what comes next, or takes note of the end."""
        if reaction.reply is not None:
            self._pipe.send_nowait(reaction.reply.message)
        if isinstance(reaction.event, NegotiationEnded):
            self._refusal = reaction.event.error
            self._settled.set()
        elif isinstance(reaction.event, Opened):
            self._settled.set()

    def end(self, why: ConnectionEnded) -> None:
        """The server is gone."""
        if not self._settled.is_set():
            # A server that refused `initialize` and ended on the probe has said what is wrong.
            self._refusal = self._link.connection.initialize_refusal or why
            self._settled.set()
