"""A server under test over stdio. Spec: basic/transports#stdio"""

from __future__ import annotations

import codecs
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.server.suite_connection import SuiteConnection, encoded
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation
from mcp_conformance.protocol.response import JsonRpcResponse
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.process import HANGING_GRACE, run_process
from mcp_conformance.wire.timeouts import WaitKind
from mcp_conformance.wire.transcript import Transcript, strict_json
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.wire.process import LineProcess
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["StdioConnection", "open_stdio"]

_AFTER: Final = 1.0
"""Seconds that an error may be later than the response to a later request, or 20 times the duration of that request."""

_TO_END: Final = 1.0
"""Seconds from the end of output of a process to its exit, so that its status can be reported."""


class StdioConnection(SuiteConnection):
    """A connection over the pipes of a process. Created by `open_stdio`.

    Args:
        process: The process.
        revision: The revision.
        settings: The settings.
        capabilities: The capabilities that the client declares.
        transcript: The transcript that records everything.
    """

    def __init__(
        self,
        process: LineProcess,
        revision: Revision,
        settings: Settings,
        capabilities: JsonObject | None,
        transcript: Transcript,
    ) -> None:
        super().__init__(revision, Transport.STDIO, transcript, settings, capabilities)
        self.process: Final = process
        self._waiting: Final[dict[str, tuple[trio.Event, list[JsonObject]]]] = {}
        self.ended: bool = False
        """Whether the output has ended."""
        self._spoke = False
        self._settled = revision.era is Era.LEGACY

    @property
    def has_spoken(self) -> bool:
        """Whether the server has written a line."""
        return self._spoke

    @property
    def ending(self) -> str:
        """How the server ended; empty while it runs."""
        return self._end() if self.ended else ""

    async def send_line(self, data: bytes, *, deviant: str = "") -> None:
        """Write bytes and a line feed."""
        self.transcript.message(data, sent=True, deviant=deviant)
        if not await self.process.send(data + b"\n"):
            self.transcript.note("the process has closed its input")

    async def exchange(
        self,
        message: JsonObject,
        *,
        deviant: str = "",
        headers: Sequence[tuple[str, str]] | None = None,  # noqa: ARG002  stdio has no headers
    ) -> JsonRpcResponse:
        """Send a request and wait for its response."""
        self._settled = self._settled or message.get("method") != "server/discover"
        key = _key(message["id"])
        arrived, answers = self._waiting[key] = (trio.Event(), [])
        since, mark = len(self.inbox), len(self.transcript.entries)
        try:
            await self.send_line(self.form(message), deviant=deviant)
            if self.ended:
                arrived.set()
            expected = f"a response to {message.get('method')}"
            async with self.within(expected, kind=WaitKind.RESPONSE):
                await arrived.wait()
        finally:
            del self._waiting[key]
        if not answers:
            seen = self.transcript.unframed_since(mark)
            raise Deviation(expected, f"{self._end()}{f', after bytes that form no message: {seen}' if seen else ''}")
        return JsonRpcResponse(method=str(message.get("method")), message=answers[0], before=tuple(self.inbox[since:]))

    async def post(self, message: JsonValue, *, deviant: str = "") -> None:
        """Send a message that has no response."""
        await self._settle()
        await self.send_line(self.form(message), deviant=deviant)

    async def _settle(self) -> None:
        """Send a request on a new modern connection before a message that does not show its era.

        A server of both eras may take such a message for the legacy era and keep to it. `server/discover` does not
        decide the era, because a client that looks for a legacy server may send it first, too.
        """
        if not self._settled:
            await self.request("tools/list")  # any response will do

    async def malformed(self, data: bytes, *, deviant: str) -> JsonRpcResponse | None:
        """Send an invalid message and wait for an error without a known id.

        Raises:
            Deviation: A valid request that follows the invalid message gets no response.
        """
        await self._settle()
        known = len(self.strays)
        await self.send_line(data, deviant=deviant)
        async with open_nursery() as nursery:
            with trio.move_on_after(self.limit("an error for an invalid message")) as scope:
                # Outside of the scope: the request after the invalid message needs its response, however late the error is.
                nursery.start_soon(self._hurry, scope)
                while len(self.strays) == known and not self.ended:
                    self._arrived = trio.Event()
                    await self._arrived.wait()
        return JsonRpcResponse(method="", message=self.strays[known]) if len(self.strays) > known else None

    async def _hurry(self, scope: trio.CancelScope) -> None:
        """Shorten the wait for an error after a later request has its response: the server may remain silent."""
        sent_at = trio.current_time()
        await self.fence()
        scope.deadline = min(scope.deadline, trio.current_time() + max(_AFTER, 20 * (trio.current_time() - sent_at)))

    async def pump(self) -> None:
        """Read until the end of output, or until it is too much."""
        while not self.transcript.full.is_set() and (line := await self.process.receive()) is not None:
            self._spoke = True
            value = self.transcript.message(line, sent=False)
            if value is None and line.startswith(codecs.BOM_UTF8):
                # A check reports it. Without its message, all others could only report that a response is missing.
                value = _read(line.removeprefix(codecs.BOM_UTF8))
            for each in value if isinstance(value, list) else [value]:
                await self._one(each)
        self.transcript.unframed(self.unread)
        if self.transcript.full.is_set():
            self.process.kill()
        with trio.move_on_after(_TO_END):
            await self.process.wait()
            await self.process.wait_for_log()
        self.ended = True
        self.transcript.note(self._end())
        for arrived, _ in self._waiting.values():
            arrived.set()
        self._arrived.set()

    @property
    def unread(self) -> bytes:
        """The output after the last line feed."""
        return self.process.unfinished

    async def _one(self, value: JsonValue) -> None:
        if isinstance(value, dict) and "method" not in value:
            waiting = self._waiting.get(_key(value.get("id")))
            if waiting is not None:
                waiting[1].append(value)
                waiting[0].set()
                return
        await self.take(value)

    def _end(self) -> str:
        if self.transcript.full.is_set():
            return self.transcript.excess
        status = self.process.status
        return "the end of its output" if status is None else f"the end of the process, with status {status}"


def _read(line: bytes) -> JsonValue:
    """Return the JSON value of a line; `None` if it is not JSON."""
    try:
        return strict_json(line)
    except ValueError:
        return None


def _key(id: JsonValue) -> str:
    """Return an id as a key that distinguishes 1, "1" and 1.0."""
    return encoded(id).decode()


@asynccontextmanager
async def open_stdio(
    command: Sequence[str],
    revision: Revision,
    settings: Settings,
    *,
    capabilities: JsonObject | None = None,
    handshake: bool = True,
    transcript: Transcript | None = None,
) -> AsyncIterator[StdioConnection]:
    """Start a server and connect to it while the block runs.

    Args:
        command: The program and its arguments.
        revision: The revision.
        settings: The settings.
        capabilities: The capabilities that the client declares; `None`: those that the revision has.
        handshake: Whether to perform the handshake of the revision.
        transcript: The transcript that records everything; `None`: a new one.

    Raises:
        Deviation: The connection cannot be opened.
    """
    async with run_process(command, timeouts=settings.timeouts) as process, open_nursery() as nursery:
        record = Transcript() if transcript is None else transcript
        record.log = process.last_lines
        peer = StdioConnection(process, revision, settings, capabilities, record)
        nursery.start_soon(peer.pump)
        try:
            if handshake:
                await peer.shake_hands()
            yield peer
        finally:
            if peer.hangs:
                process.grace = HANGING_GRACE
            nursery.cancel_scope.cancel()
