"""A server that ends in the middle of the run.

The check in which it ended is red, and the rest goes on with another process, if the suite started it. Lanes run side by side
with the same process, so several checks may have been under way: each of them is tried again by itself, to find out which it
was. Where the server does not start again, or was started by somebody else, what is left cannot be put to the test until it
can be reached again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_conformance.drivers.server.targets import NotStarted, UrlTarget
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.wire.http_client import IncompleteResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from mcp_conformance.drivers.server.inventory import ServerInventory
    from mcp_conformance.drivers.server.targets import ServerTarget
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.model.check import Check
    from mcp_conformance.wire.process import LineProcess

    Attempt: TypeAlias = Callable[[Check[ServerUnderTest], ServerUnderTest], Awaitable[None]]

__all__ = ["Vigil", "Watch"]

_LOOKS: Final = 2
"""How often a server may end while it is looked at, because of what another lane does."""

_TO_END: Final = 0.2
"""Seconds from the end of the connections of a process to that of its ears."""


@attrs.define(kw_only=True, eq=False)
class _End:
    """One process that ended."""

    status: int | None
    """Its exit status."""
    suspects: tuple[str, ...]
    """What was under way then."""
    cleared: int = 0
    """How many of these it has borne since, one by one."""

    def __str__(self) -> str:
        return f"the server ended with status {self.status} during {' and '.join(self.suspects)}"

    def red(self) -> Deviation:
        """What is said of a check that it ended in."""
        return Deviation("the server to go on", str(self))

    def bears(self) -> bool:
        """Enters that a suspect is cleared. Whether another one is left."""
        self.cleared += 1
        return self.cleared < len(self.suspects)


async def _unreachable(target: UrlTarget) -> str:
    """Why a server cannot be reached; empty where it can."""
    try:
        await trio.aclose_forcefully(await target.endpoint.connect())
    except IncompleteResponse as ended:
        return str(ended)
    return ""


class Vigil:
    """Watches over the process of a run.

    Args:
        target: The server under test. One that is spoken to over its pipes is not watched: it is another process anyway.
    """

    def __init__(self, target: ServerTarget) -> None:
        remote = target if isinstance(target, UrlTarget) else None
        self._started: Final = remote if remote is not None and remote.start is not None else None
        self._foreign: Final = remote if self._started is None else None
        self._alone: Final = trio.Lock()
        self._running: Final[dict[str, LineProcess]] = {}
        self._ends: Final[dict[LineProcess, _End]] = {}
        self._lost = ""

    def watch(self, place: str, forget: Callable[[], Awaitable[None]]) -> Watch:
        """Watches over a lane.

        Args:
            place: Which.
            forget: Gives up what connections it has, before another process is used.
        """
        return Watch(self, place, forget)

    async def ready(self) -> LineProcess | None:
        """The process that is to be used now; `None` when none is watched.

        Raises:
            NotTestable: The server ended, and does not start again.
        """
        async with self._alone:
            return await self._living()

    async def reached(self, look: Callable[[], Awaitable[ServerInventory]]) -> ServerInventory:
        """Looks at the server, anew where it ended meanwhile because of something else.

        Args:
            look: Looks at it.

        Raises:
            Deviation: It cannot be looked at.
            NotTestable: It ended before, and does not start again.
        """
        for _ in range(_LOOKS):
            process = await self.ready()
            try:
                return await look()
            except Deviation:
                if process is None or not await self.ended(process):
                    raise
        return await look()

    async def ended(self, process: LineProcess) -> bool:
        """Whether a process has ended, or is about to: its connections go first."""
        if self._started is None:
            return False
        with trio.move_on_after(_TO_END):
            await process.wait()
        try:
            await trio.aclose_forcefully(await self._started.endpoint.connect())
        except IncompleteResponse:
            with trio.move_on_after(self._started.timeout):
                await process.wait()
        return process.status is not None

    async def gone(self, check: str) -> str:
        """Whether a server that somebody else started cannot be reached any more.

        Args:
            check: In which check that was noticed.

        Returns:
            How it is said; empty where it can be reached.

        Raises:
            NotTestable: That was noticed before.
        """
        async with self._alone:
            told = ""
            for pause in (0.0, _TO_END):
                if self._foreign is not None and not told:
                    await trio.sleep(pause)
                    told = await _unreachable(self._foreign)
            if told and self._lost:
                raise NotTestable(self._lost)
            self._lost = told and f"{told}, since {check}"
            return told

    async def _living(self) -> LineProcess | None:
        if self._foreign is not None and self._lost and not await _unreachable(self._foreign):
            self._lost = ""
        if self._lost:
            raise NotTestable(self._lost)
        target = self._started
        if target is None or target.start is None or target.process is None:
            return None
        if target.process.status is not None:
            end = self._end(target.process)
            try:
                await target.start()
            except NotStarted as failed:
                self._lost = str(end)
                raise NotTestable(self._lost) from failed
        return target.process

    def _end(self, process: LineProcess) -> _End:
        """How a process ended; what is under way now is suspected, if this was not seen before."""
        if process not in self._ends:
            suspects = tuple(name for name, used in self._running.items() if used is process)
            self._ends[process] = _End(status=process.status, suspects=suspects or ("no check",))
        return self._ends[process]


class Watch:
    """Watches over one lane. Made by `Vigil.watch`.

    Args:
        vigil: What watches over the run.
        place: The lane.
        forget: Gives up what connections it has.
    """

    def __init__(self, vigil: Vigil, place: str, forget: Callable[[], Awaitable[None]]) -> None:
        self._vigil: Final = vigil
        self._place: Final = place
        self._forget: Final = forget
        self._used: LineProcess | None = None

    async def run(self, check: Check[ServerUnderTest], subject: ServerUnderTest, attempt: Attempt) -> None:
        """Runs a check.

        Args:
            check: It.
            subject: What it is put to.
            attempt: Runs it.

        Raises:
            Deviation: The server ended in it; or what the check raises.
            NotTestable: The server ended before, and does not start again; or what the check raises.
        """
        process = await self._vigil.ready()
        if process is None:
            await self._unwatched(check, subject, attempt)
            return
        end = await self._once(process, check, subject, attempt)
        if end is not None:
            async with self._vigil._alone:  # noqa: SLF001  its other half
                await self._again(end, check, subject, attempt)

    async def _unwatched(self, check: Check[ServerUnderTest], subject: ServerUnderTest, attempt: Attempt) -> None:
        """Runs a check with a server whose process is not seen."""
        try:
            await attempt(check, subject)
        except (NotApplicable, NotTestable):
            raise
        except Exception as other:
            if told := await self._vigil.gone(f"{check.id} in {self._place}"):
                raise Deviation("the server to go on", told) from other
            raise

    async def _again(
        self, end: _End, check: Check[ServerUnderTest], subject: ServerUnderTest, attempt: Attempt
    ) -> None:
        """Tries a suspect by itself, while no other check begins."""
        try:
            process = await self._vigil._living()  # noqa: SLF001  its other half
        except NotTestable as lost:
            raise end.red() from lost
        if process is None or len(end.suspects) == 1:
            raise end.red()
        try:
            second = await self._once(process, check, subject, attempt)
        except Exception as other:
            if not end.bears():
                raise end.red() from other
            raise
        if second is not None:
            raise second.red()
        if not end.bears():
            raise end.red()

    async def _once(
        self, process: LineProcess, check: Check[ServerUnderTest], subject: ServerUnderTest, attempt: Attempt
    ) -> _End | None:
        """Runs a check with a process. How that ended, if it did."""
        if self._used is not None and self._used is not process:
            await self._forget()
        self._used = process
        name = f"{check.id} in {self._place}"
        running = self._vigil._running  # noqa: SLF001  its other half
        running[name] = process
        try:
            try:
                await attempt(check, subject)
            except (NotApplicable, NotTestable):
                if process.status is None:
                    raise
            except Exception:
                # Whatever it is, it says nothing of the check if the server is gone.
                if not await self._vigil.ended(process):
                    raise
            if process.status is None:
                return None
            return self._vigil._end(process)  # noqa: SLF001  its other half
        finally:
            del running[name]
