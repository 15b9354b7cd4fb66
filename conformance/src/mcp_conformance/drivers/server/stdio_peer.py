"""A server under test as a process: messages in lines. Spec: basic/transports#stdio"""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.server.peer import ServerPeer, encoded, within
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation
from mcp_conformance.protocol.response import Answer
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.process import run_process
from mcp_conformance.wire.transcript import Transcript
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.wire.process import LineProcess
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["StdioPeer", "open_stdio"]

_AFTER: Final = 1.0
"""Seconds that an error may come behind the answer to what was asked later; or twenty times what that answer took."""

_TO_END: Final = 1.0
"""Seconds from the end of the output of a process to its own, so that its status can be told."""


class StdioPeer(ServerPeer):
    """A connection over the pipes of a process. Made by `open_stdio`.

    Args:
        process: The process.
        revision: What is spoken.
        settings: The bounds.
        capabilities: What the client declares.
    """

    def __init__(
        self, process: LineProcess, revision: Revision, settings: Settings, capabilities: JsonObject | None
    ) -> None:
        super().__init__(revision, Transport.STDIO, Transcript(), settings, capabilities)
        self.process: Final = process
        self._waiting: Final[dict[str, tuple[trio.Event, list[JsonObject]]]] = {}
        self.ended = False
        """Whether its output is at its end."""
        self._spoke = False
        self._settled = revision.era is Era.LEGACY

    @property
    def ending(self) -> str:
        """How the server ended; empty while it goes on."""
        return self._end() if self.ended else ""

    async def send_line(self, data: bytes, *, deviant: str = "") -> None:
        """Write bytes and a line feed."""
        self.transcript.message(data, sent=True, deviant=deviant)
        if not await self.process.send(data + b"\n"):
            self.transcript.note("the process does not read any more")

    async def exchange(
        self,
        message: JsonObject,
        *,
        deviant: str = "",
        headers: Sequence[tuple[str, str]] | None = None,  # noqa: ARG002  there are none
    ) -> Answer:
        """Send a request, and waits for its answer."""
        self._settled = self._settled or message.get("method") != "server/discover"
        key = _key(message["id"])
        arrived, answers = self._waiting[key] = (trio.Event(), [])
        since = len(self.inbox)
        try:
            await self.send_line(encoded(message), deviant=deviant)
            if self.ended:
                arrived.set()
            async with within(self._bound, f"an answer to {message.get('method')}"):
                await arrived.wait()
        finally:
            del self._waiting[key]
        if not answers:
            raise Deviation(f"an answer to {message.get('method')}", self._end())
        return Answer(method=str(message.get("method")), message=answers[0], before=tuple(self.inbox[since:]))

    @property
    def _bound(self) -> float:
        """How long an answer may take: longer, while the process may still be starting."""
        return self.settings.patience if self._spoke else max(self.settings.patience, self.settings.starting)

    async def post(self, message: JsonValue, *, deviant: str = "") -> None:
        """Send what is not answered."""
        await self._settle()
        await self.send_line(encoded(message), deviant=deviant)

    async def _settle(self) -> None:
        """Ask something on a new connection of the modern era, before what does not say of which era it is.

        A server of both may take that for the legacy one, and stay there. `server/discover` does not settle it: who looks for
        a legacy server may ask that first, too.
        """
        if not self._settled:
            await self.request("tools/list")  # any answer will do

    async def malformed(self, data: bytes, *, deviant: str) -> Answer | None:
        """Send what is no message, and waits for an error without a known id."""
        await self._settle()
        known = len(self.strays)
        await self.send_line(data, deviant=deviant)
        with trio.move_on_after(self.settings.patience) as scope:
            async with open_nursery() as nursery:
                nursery.start_soon(self._hurry, scope)  # to its end: its answer must not become a stray
                while len(self.strays) == known and not self.ended:
                    self._arrived = trio.Event()
                    await self._arrived.wait()
        return Answer(method="", message=self.strays[known]) if len(self.strays) > known else None

    async def _hurry(self, scope: trio.CancelScope) -> None:
        """Shorten the wait for an error when what came behind is answered: the server reads on, so it may say nothing."""
        asked = trio.current_time()
        with suppress(Deviation):
            await self.fence()
            scope.deadline = min(scope.deadline, trio.current_time() + max(_AFTER, 20 * (trio.current_time() - asked)))

    async def pump(self) -> None:
        """Read until the end of output."""
        while (line := await self.process.receive()) is not None:
            self._spoke = True
            value = self.transcript.message(line, sent=False)
            for each in value if isinstance(value, list) else [value]:
                await self._one(each)
        with trio.move_on_after(_TO_END):
            await self.process.wait()
        self.ended = True
        self.transcript.note(self._end())
        for arrived, _ in self._waiting.values():
            arrived.set()
        self._arrived.set()

    async def _one(self, value: JsonValue) -> None:
        if isinstance(value, dict) and "method" not in value:
            waiting = self._waiting.get(_key(value.get("id")))
            if waiting is not None:
                waiting[1].append(value)
                waiting[0].set()
                return
        await self.take(value)

    def _end(self) -> str:
        status = self.process.status
        return "the end of its output" if status is None else f"the end of the process, with status {status}"


def _key(id: JsonValue) -> str:
    """An id, such that 1, "1" and 1.0 differ."""
    return encoded(id).decode()


@asynccontextmanager
async def open_stdio(
    command: Sequence[str],
    revision: Revision,
    settings: Settings,
    *,
    capabilities: JsonObject | None = None,
    handshake: bool = True,
) -> AsyncIterator[StdioPeer]:
    """Start a server for the block, and speaks with it.

    Args:
        command: The program and its arguments.
        revision: What is spoken.
        settings: The bounds.
        capabilities: What the client declares; `None`: what every revision understands.
        handshake: Whether the connection is opened as the revision wants it.

    Raises:
        Deviation: It cannot be opened.
    """
    async with run_process(command) as process, open_nursery() as nursery:
        peer = StdioPeer(process, revision, settings, capabilities)
        nursery.start_soon(peer.pump)
        try:
            if handshake:
                await peer.shake_hands()
            yield peer
        finally:
            nursery.cancel_scope.cancel()
