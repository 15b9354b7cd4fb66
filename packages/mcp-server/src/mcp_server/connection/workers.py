"""The tasks that run calls: so many at a time, and kept for the next call.

A call could have a task of its own. To start and end one costs as much as all the rest that this project does for a
short call, so a worker that has finished a call takes the next one that waits. Handlers that do not wait for anything,
which are most, are run one after the other by one worker; while a call is being run and others wait, the next worker is
already on its way, so that a handler that does wait holds up nobody.

A handler must not notice that its task was used before. What it could leave behind are context variables: a worker
whose context was changed ends after the call, and another one with a clean context takes its place.
"""

from __future__ import annotations

from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import trio

from mcp_server.connection.request_queue import excess

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from mcp_core.errors import LimitExceeded
    from mcp_core.limits import Limits

__all__ = ["Workers"]

C = TypeVar("C")

_SPARE: Final = 16
"""How many idle workers are kept. More than one is busy only where handlers wait."""


class Workers(Generic[C]):
    """Runs calls in the order in which they come, a bounded number at a time.

    Args:
        nursery: Where the workers run.
        limits: `running_requests`, `waiting_requests` and `waiting_bytes` are applied.
        run: Runs one call. It must not raise.
    """

    def __init__(self, nursery: trio.Nursery, limits: Limits, run: Callable[[C], Awaitable[None]]) -> None:
        self._nursery: Final = nursery
        self._limits: Final = limits
        self._run: Final = run
        self._clean: Final = copy_context()
        self._waiting: deque[tuple[C, int]] = deque()
        self._waiting_bytes = 0
        self._running = 0
        self._idle: list[trio.lowlevel.Task] = []
        self._coming = False
        self._stopped = False
        self._room = trio.Event()

    def submit(self, call: C, size: int) -> None:
        """A call waits to be run. `size` is what it counts for while it waits, in bytes."""
        self._waiting.append((call, size))
        self._waiting_bytes += size
        self._summon()

    def drop(self, call: C) -> bool:
        """Takes back a call that still waits. False when it was begun."""
        for index, (waiting, size) in enumerate(self._waiting):
            if waiting is call:
                del self._waiting[index]
                self._waiting_bytes -= size
                self._room.set()
                return True
        return False

    def drop_all(self, calls: Collection[C]) -> list[C]:
        """Take back those of the calls that still wait. Returns them."""
        dropped = [waiting for waiting, _ in self._waiting if waiting in calls]
        self._waiting = deque((waiting, size) for waiting, size in self._waiting if waiting not in calls)
        self._waiting_bytes = sum(size for _, size in self._waiting)
        self._room.set()
        return dropped

    def stop(self) -> None:
        """Nothing that waits is begun any more; the workers end."""
        self._stopped = True
        self._waiting.clear()
        self._waiting_bytes = 0
        while self._idle:
            trio.lowlevel.reschedule(self._idle.pop())

    @property
    def several(self) -> bool:
        """Whether another call is running or waits, so that more is about to be sent."""
        return self._running > 1 or bool(self._waiting)

    @property
    def crowded(self) -> bool:
        """Whether the room for waiting calls is full."""
        return len(self._waiting) > self._limits.waiting_requests or self._waiting_bytes > self._limits.waiting_bytes

    def excess(self, size: int) -> LimitExceeded | None:
        """Why a call of so many bytes may not wait; `None` when it may, or can be run at once."""
        if self._running + len(self._waiting) < self._limits.running_requests:
            return None
        return excess(self._limits, len(self._waiting) + 1, self._waiting_bytes + size)

    async def wait_for_room(self) -> None:
        """Returns when another call may come."""
        while self.crowded:
            if self._room.is_set():
                self._room = trio.Event()
            await self._room.wait()

    def release(self) -> None:
        """The running call waits for the client: its place is free until `resume`."""
        self._running -= 1
        self._summon()

    def resume(self) -> None:
        """It goes on, although another call may have taken its place."""
        self._running += 1

    def _summon(self) -> None:
        """Sees to it that a worker comes, if there is something to do for one."""
        if self._stopped or self._coming or not self._waiting or self._running >= self._limits.running_requests:
            return
        self._coming = True
        if self._idle:
            trio.lowlevel.reschedule(self._idle.pop())
        else:
            # Handlers summon too, and what they did to their context is not for others.
            self._clean.run(self._nursery.start_soon, self._work)

    async def _work(self) -> None:
        while True:
            self._coming = False
            while self._waiting and self._running < self._limits.running_requests:
                call, size = self._waiting.popleft()
                self._waiting_bytes -= size
                self._room.set()
                self._running += 1
                self._summon()
                try:
                    await self._run(call)
                finally:
                    self._running -= 1
                if not self._unchanged():
                    self._summon()
                    return
            if self._stopped or len(self._idle) >= _SPARE:
                return
            await self._wait_for_work()

    def _unchanged(self) -> bool:
        """Whether the context of this task is as it was at first."""
        try:
            return copy_context() == self._clean
        except Exception:  # noqa: BLE001  values compare themselves, and arrays, for one, refuse to say yes or no
            return False

    async def _wait_for_work(self) -> None:
        me = trio.lowlevel.current_task()
        self._idle.append(me)

        def leave(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._idle.remove(me)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)
