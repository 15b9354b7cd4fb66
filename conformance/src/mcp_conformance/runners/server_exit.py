"""Exits of the server during a run.

The check during which the server exited fails, and the run continues with another process if the suite started the
server. Legs run concurrently with the same process, so that several checks may have been running: each is repeated
alone to find the cause. If the server does not start again, or was not started by the suite, the remaining checks are
not testable until the server can be reached again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_conformance.drivers.server.targets import NotStarted, UrlTarget
from mcp_conformance.model.verdict import Deviation, ExpiredWait, NotApplicable, NotTestable
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

__all__ = ["LegMonitor", "ServerMonitor"]

_LOOKS: Final = 2
"""Maximum number of server exits while its inventory is taken, caused by another leg."""

_TO_END: Final = 0.2
"""Seconds from the end of a process's connections to the end of its listeners, and of its standard error."""


@attrs.define(kw_only=True, eq=False)
class _End:
    """An exit of a server process."""

    status: int | None
    """Exit status of the process."""
    suspects: tuple[str, ...]
    """Checks that were running at the exit."""
    cleared: int = 0
    """Number of these checks that passed alone since then."""

    def __str__(self) -> str:
        return f"the server exited with status {self.status} during {' and '.join(self.suspects)}"

    def deviation(self) -> Deviation:
        """Return the deviation of the check that caused the exit."""
        return Deviation("the server to keep running", str(self))

    def clear_suspect(self) -> bool:
        """Clear one suspect, and return whether another one is left."""
        self.cleared += 1
        return self.cleared < len(self.suspects)


async def _unreachable(target: UrlTarget) -> str:
    """Return why a server cannot be reached; empty when it can."""
    try:
        await trio.aclose_forcefully(await target.endpoint.connect())
    except IncompleteResponse as ended:
        return str(ended)
    return ""


class ServerMonitor:
    """The monitor of the server process of a run.

    Args:
        target: The server under test. A server over stdio is not monitored, since each connection has its own process.
    """

    def __init__(self, target: ServerTarget) -> None:
        remote = target if isinstance(target, UrlTarget) else None
        self._started: Final = remote if remote is not None and remote.start is not None else None
        self._foreign: Final = remote if self._started is None else None
        self._alone: Final = trio.Lock()
        self._running: Final[dict[str, LineProcess]] = {}
        self._ends: Final[dict[LineProcess, _End]] = {}
        self._lost = ""

    def watch(self, place: str, forget: Callable[[], Awaitable[None]]) -> LegMonitor:
        """Return the monitor of a leg.

        Args:
            place: Name of the leg.
            forget: Closes the connections of the leg before another process is used.
        """
        return LegMonitor(self, place, forget)

    async def ready(self) -> LineProcess | None:
        """Return the process to use; `None` when none is monitored.

        Raises:
            NotTestable: The server exited, and does not start again.
        """
        async with self._alone:
            return await self._living()

    async def reached(self, look: Callable[[], Awaitable[ServerInventory]]) -> ServerInventory:
        """Take the inventory of the server, again if it exited because of another leg.

        Args:
            look: Takes the inventory.

        Raises:
            Deviation: The server does not answer.
            NotTestable: The server exited before, and does not start again.
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
        """Return whether a process has exited, or is about to: its connections close first."""
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
        """Return whether a server that was not started by the suite cannot be reached.

        Args:
            check: The check that noticed it.

        Returns:
            The reason; empty when the server can be reached.

        Raises:
            NotTestable: Another check noticed it before.
        """
        async with self._alone:
            reason = ""
            for pause in (0.0, _TO_END):
                if self._foreign is not None and not reason:
                    await trio.sleep(pause)
                    reason = await _unreachable(self._foreign)
            if reason and self._lost:
                raise NotTestable(self._lost)
            self._lost = reason and f"{reason}, since {check}"
            return reason

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
        """Return the exit of a process, with the running checks as suspects if it is new."""
        if process not in self._ends:
            suspects = tuple(name for name, used in self._running.items() if used is process)
            self._ends[process] = _End(status=process.status, suspects=suspects or ("no check",))
        return self._ends[process]


class LegMonitor:
    """The monitor of one leg, created by `ServerMonitor.watch`.

    Args:
        monitor: The monitor of the run.
        place: Name of the leg.
        forget: Closes the connections of the leg.
    """

    def __init__(self, monitor: ServerMonitor, place: str, forget: Callable[[], Awaitable[None]]) -> None:
        self._monitor: Final = monitor
        self._place: Final = place
        self._forget: Final = forget
        self._used: LineProcess | None = None

    async def run(self, check: Check[ServerUnderTest], subject: ServerUnderTest, attempt: Attempt) -> None:
        """Run a check.

        Args:
            check: The check.
            subject: The server under test.
            attempt: Runs the check.

        Raises:
            Deviation: The server exited during the check; or the exception of the check.
            NotTestable: The server exited before, and does not start again; or the exception of the check.
        """
        process = await self._monitor.ready()
        if process is None:
            await self._unwatched(check, subject, attempt)
            return
        end = await self._once(process, check, subject, attempt)
        if end is not None:
            async with self._monitor._alone:  # noqa: SLF001  a class of this module
                await self._again(end, check, subject, attempt)

    async def _unwatched(self, check: Check[ServerUnderTest], subject: ServerUnderTest, attempt: Attempt) -> None:
        """Run a check with a server whose process is not monitored."""
        try:
            await attempt(check, subject)
        except (NotApplicable, NotTestable):
            raise
        except Exception as other:
            if reason := await self._monitor.gone(f"{check.id} in {self._place}"):
                raise Deviation("the server to keep running", reason) from other
            raise

    async def _again(
        self, end: _End, check: Check[ServerUnderTest], subject: ServerUnderTest, attempt: Attempt
    ) -> None:
        """Repeat a suspect alone, while no other check starts."""
        try:
            process = await self._monitor._living()  # noqa: SLF001  a class of this module
        except NotTestable as lost:
            raise end.deviation() from lost
        if process is None or len(end.suspects) == 1:
            raise end.deviation()
        try:
            second = await self._once(process, check, subject, attempt)
        except Exception as other:
            if not end.clear_suspect():
                raise end.deviation() from other
            raise
        if second is not None:
            raise second.deviation()
        if not end.clear_suspect():
            raise end.deviation()

    async def _once(
        self, process: LineProcess, check: Check[ServerUnderTest], subject: ServerUnderTest, attempt: Attempt
    ) -> _End | None:
        """Run a check with a process, and return its exit, if any."""
        if self._used is not None and self._used is not process:
            await self._forget()
        self._used = process
        name = f"{check.id} in {self._place}"
        running = self._monitor._running  # noqa: SLF001  a class of this module
        running[name] = process
        try:
            try:
                await attempt(check, subject)
            except (NotApplicable, NotTestable):
                if process.status is None:
                    raise
            except Exception as error:
                # Any exception is meaningless for the check if the server exited. A wait gave it the time to exit.
                if (isinstance(error, ExpiredWait) and process.status is None) or not await self._monitor.ended(
                    process
                ):
                    raise
            if process.status is None:
                return None
            with trio.move_on_after(_TO_END):
                # The last lines of its standard error are part of the verdict.
                await process.wait_for_log()
            return self._monitor._end(process)  # noqa: SLF001  a class of this module
        finally:
            del running[name]
