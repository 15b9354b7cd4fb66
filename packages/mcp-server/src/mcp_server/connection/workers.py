"""The tasks that run requests: a limited number, reused for later requests.

Each request could have its own task. But to start and end a task costs as much as all other work of this project for a
short request. Therefore a worker that has finished a request takes the next one of the queue. One worker runs handlers
that do not block, which most do not, one after the other. While a request runs and others are queued, the next worker
is already scheduled, so that a handler that blocks does not delay the others.

If the requests come from a stream, a worker reads it, too. It runs a request that arrives alone itself: to wake another
task for it would cost as much as to read it. When the handler of such a request waits, another worker continues to read.

A handler must not notice that its task was used before. Only context variables could remain. Therefore a worker whose
context was changed ends after the request, and a worker with a clean context replaces it.
"""

from __future__ import annotations

from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import trio

from mcp_server.connection.first_wait import FirstWait
from mcp_server.connection.request_queue import excess

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine

    from mcp_core.errors import LimitExceeded
    from mcp_core.limits import Limits

__all__ = ["Workers"]

C = TypeVar("C")

_SPARE: Final = 16
"""Maximum number of idle workers. More than one worker is busy only if handlers block."""


class Workers(Generic[C]):
    """Workers that run requests in the order of their arrival, a limited number at a time.

    Args:
        nursery: The nursery of the workers.
        limits: Supplies `running_requests`, `waiting_requests` and `waiting_bytes`.
        run: Runs one request. It must not raise.
    """

    def __init__(
        self, nursery: trio.Nursery, limits: Limits, run: Callable[[C], Coroutine[object, object, None]]
    ) -> None:
        self._nursery: Final = nursery
        self._limits: Final = limits
        self._run: Final = run
        self._read: Callable[[], Awaitable[None]] | None = None
        self._clean: Final = copy_context()
        self._waiting: deque[tuple[C, int]] = deque()
        self._waiting_bytes = 0
        self._running = 0
        self._idle: list[trio.lowlevel.Task] = []
        self._coming = False
        self._reader: Callable[[], Awaitable[None]] | None = None
        self._times_handed_over = 0
        self._stopped = False
        self._capacity = trio.Event()

    def submit(self, call: C, size: int) -> None:
        """Add a request to the queue. `size` is its size while it is queued, in bytes."""
        self._waiting.append((call, size))
        self._waiting_bytes += size
        self._summon()

    def start_reader(self, read: Callable[[], Awaitable[None]]) -> None:
        """Start to read in a worker.

        Args:
            read: Reads and submits requests until the end of the stream, or until `run_as_reader` returns false. Later
                calls continue where the one before stopped.
        """
        self._read = read
        self._hand_over()

    async def run_as_reader(self, call: C) -> bool:
        """Run a request in the worker that reads.

        Returns:
            Whether the worker still reads. Otherwise another one does, because the handler waited.
        """
        before = self._times_handed_over
        self._running += 1
        try:
            await FirstWait(self._run(call), self._hand_over)
        finally:
            self._running -= 1
        if self._times_handed_over == before and not self._unchanged():
            self._hand_over()
        return self._times_handed_over == before

    def drop(self, call: C) -> bool:
        """Remove a request from the queue. Return `False` if it has started."""
        for index, (waiting, size) in enumerate(self._waiting):
            if waiting is call:
                del self._waiting[index]
                self._waiting_bytes -= size
                self._capacity.set()
                return True
        return False

    def drop_all(self, calls: Collection[C]) -> list[C]:
        """Remove those of the requests that are queued. Return the removed requests."""
        dropped = [waiting for waiting, _ in self._waiting if waiting in calls]
        self._waiting = deque((waiting, size) for waiting, size in self._waiting if waiting not in calls)
        self._waiting_bytes = sum(size for _, size in self._waiting)
        self._capacity.set()
        return dropped

    def stop(self) -> None:
        """Discard the queued requests and end the idle workers."""
        self._stopped = True
        self._waiting.clear()
        self._waiting_bytes = 0
        while self._idle:
            trio.lowlevel.reschedule(self._idle.pop())

    @property
    def is_idle(self) -> bool:
        """Whether no request runs or is queued."""
        return not self._running and not self._waiting

    @property
    def several(self) -> bool:
        """Whether another request runs or is queued, so that another message is about to be sent."""
        return self._running > 1 or bool(self._waiting)

    @property
    def at_capacity(self) -> bool:
        """Whether the queue exceeds its limits."""
        return len(self._waiting) > self._limits.waiting_requests or self._waiting_bytes > self._limits.waiting_bytes

    def excess(self, size: int) -> LimitExceeded | None:
        """Return the limit that a request of this size exceeds; `None` if it can be queued or run at once."""
        if self._running + len(self._waiting) < self._limits.running_requests:
            return None
        return excess(self._limits, len(self._waiting) + 1, self._waiting_bytes + size)

    async def wait_for_capacity(self) -> None:
        """Wait until the queue has capacity for another request."""
        while self.at_capacity:
            if self._capacity.is_set():
                self._capacity = trio.Event()
            await self._capacity.wait()

    def release(self) -> None:
        """Stop counting the running request until `resume`: it waits for the client."""
        self._running -= 1
        self._summon()

    def resume(self) -> None:
        """Count a request as running again. The limit of running requests may be exceeded meanwhile."""
        self._running += 1

    def _hand_over(self) -> None:
        """Let another worker read."""
        self._times_handed_over += 1
        self._reader = self._read
        self._summon()

    def _summon(self) -> None:
        """Schedule a worker, if none reads, or a request is queued and may run."""
        if self._stopped or self._coming or not (self._reader is not None or self._may_start):
            return
        self._coming = True
        if self._idle:
            trio.lowlevel.reschedule(self._idle.pop())
        else:
            # A handler may call this method. The worker must not inherit the context of the handler.
            self._clean.run(self._nursery.start_soon, self._work)

    @property
    def _may_start(self) -> bool:
        """Whether a request is queued and may run."""
        return bool(self._waiting) and self._running < self._limits.running_requests

    async def _work(self) -> None:
        while True:
            self._coming = False
            if self._reader is not None and not self._stopped:
                read, self._reader = self._reader, None
                self._summon()
                await read()
                if not self._unchanged():
                    self._summon()
                    return
            while self._may_start:
                call, size = self._waiting.popleft()
                self._waiting_bytes -= size
                self._capacity.set()
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
        """Return whether the context of this task is still the initial one."""
        try:
            return copy_context() == self._clean
        except Exception:  # noqa: BLE001  comparing values runs their code: for example, arrays do not return a bool
            return False

    async def _wait_for_work(self) -> None:
        me = trio.lowlevel.current_task()
        self._idle.append(me)

        def leave(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._idle.remove(me)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)
