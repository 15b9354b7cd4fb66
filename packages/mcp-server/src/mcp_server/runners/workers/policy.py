"""The policy of the supervisor: when worker processes are started, stopped and replaced.

`WorkerPolicy` does no I/O. Its methods are the events of the supervisor. Each returns the actions that the supervisor
carries out, in order. Times are seconds of any clock that does not step.

A worker is, in this order:

    STARTING   its process runs
    READY      it notified the supervisor that it accepts connections
    LEAVING    it must end, because another worker replaces it, or it announced its end; it completes its requests
    (ended)

*Start.* The first worker starts alone. If it ends before it is ready, the run ends with its exit status: the program
cannot be imported, or an option is wrong, and to start it again would only repeat the error. When it is ready, the
others start. Until all are ready, the end of each of them ends the run.

*Restart.* A slot whose worker ended gets a new one after a delay that doubles from `FIRST_DELAY` to `LONGEST_DELAY`. It
is reset by a worker that was ready for `STABLE` seconds.

*Reload.* All workers become outdated at once. One at a time is replaced: its successor starts; when this is ready, the
outdated worker is asked to leave; when it has ended, the next is replaced. If a successor ends before it is ready,
the reload is abandoned, and the workers that are ready stay.

*Stop.* All workers are asked to leave. Those that have not ended after the grace period are killed.
"""

from __future__ import annotations

import enum
import math
import signal
from typing import Final, TypeAlias

import attrs

from mcp_core.field_methods import FieldRepr, FieldValue

__all__ = [
    "FIRST_DELAY",
    "LONGEST_DELAY",
    "STABLE",
    "Action",
    "EndRun",
    "ReportState",
    "SendSignal",
    "StartWorker",
    "WorkerPolicy",
    "WriteLog",
]

FIRST_DELAY: Final = 0.1
"""Time until a worker that ended is started again, in seconds."""

LONGEST_DELAY: Final = 30.0
"""Longest time until a worker is started again, in seconds."""

STABLE: Final = 30.0
"""Time after which a ready worker resets the delay of its slot, in seconds."""


class _State(enum.Enum):
    STARTING = enum.auto()
    READY = enum.auto()
    LEAVING = enum.auto()


@attrs.frozen(eq=False, repr=False)
class StartWorker(FieldValue):
    """Start the process of a worker."""

    id: int
    """The id of the worker, never used before."""


@attrs.frozen(eq=False, repr=False)
class SendSignal(FieldValue):
    """Send a signal to a worker."""

    id: int
    """The id of the worker."""
    number: signal.Signals
    """The signal."""


@attrs.frozen(eq=False, repr=False)
class ReportState(FieldValue):
    """Notify the service manager."""

    state: str
    """The variable to set to 1: `READY`, `RELOADING` or `STOPPING`."""


@attrs.frozen(eq=False, repr=False)
class WriteLog(FieldValue):
    """Write a warning to the log."""

    text: str
    """The event, then its values."""


@attrs.frozen(eq=False, repr=False)
class EndRun(FieldValue):
    """End the supervisor. No worker is left."""

    status: int
    """The exit status."""


Action: TypeAlias = StartWorker | SendSignal | ReportState | WriteLog | EndRun


@attrs.define(eq=False, repr=False)
class _Worker(FieldRepr):
    id: int
    slot: int
    generation: int
    state: _State = _State.STARTING
    ready_at: float | None = None
    kill_at: float = math.inf


@attrs.define(eq=False, repr=False)
class _Slot(FieldRepr):
    """A place of one worker. During a replacement it has two."""

    failures: int = 0
    start_at: float = math.inf
    """The time of the next start, after the worker ended."""


class WorkerPolicy:
    """The state of all workers.

    Args:
        count: Number of workers.
        grace: Time for a worker to end after it was asked to, in seconds. Then it is killed.
    """

    def __init__(self, count: int, grace: float) -> None:
        self._grace: Final = grace
        self._slots: Final = [_Slot() for _ in range(count)]
        self._workers: Final[dict[int, _Worker]] = {}
        self._last_id = 0
        self._generation = 0
        self._complete = False
        self._reloading = False
        self._stopping = False
        self._status = 0

    # --- events ----------------------------------------------------------------------------------------------------

    def start(self) -> list[Action]:
        """Return the actions at the start of the supervisor."""
        return [self._start(0)]

    def ready(self, id: int, now: float) -> list[Action]:
        """Return the actions after a worker notified the supervisor that it accepts connections."""
        worker = self._workers.get(id)
        if worker is None or worker.state is not _State.STARTING:
            return []
        worker.state, worker.ready_at = _State.READY, now
        actions: list[Action] = []
        if not self._complete:
            actions += [self._start(slot) for slot in range(len(self._slots)) if not self._in_slot(slot)]
            if all(each.state is _State.READY for each in self._workers.values()):
                self._complete = True
                actions.append(ReportState("READY"))
        for other in self._in_slot(worker.slot):
            if other is not worker and other.state is _State.READY:
                actions.append(self._ask_to_leave(other, now))
        return actions + self._replace_next()

    def leaving(self, id: int, now: float) -> list[Action]:
        """Return the actions after a worker announced that it ends, for example because an operator signaled it."""
        worker = self._workers.get(id)
        if worker is None or worker.state is not _State.READY:
            return []
        worker.state, worker.kill_at = _State.LEAVING, now + self._grace
        return self._fill_slot(worker, now)

    def ended(self, id: int, status: int, now: float) -> list[Action]:
        """Return the actions after the process of a worker ended.

        Args:
            id: The worker.
            status: The exit status, or the negative number of the signal that ended it.
            now: The time.
        """
        worker = self._workers.pop(id)
        if self._stopping:
            return [] if self._workers else [EndRun(self._status)]
        if not self._complete:
            self._status = _as_exit_status(status)
            reason = WriteLog(f"worker ended before it was ready: {_described(id, status)}")
            return [*([reason] if status < 0 else []), *self._stop(now)]
        actions: list[Action] = []
        if worker.state is not _State.LEAVING:
            actions.append(WriteLog(f"worker ended: {_described(id, status)}"))
        if worker.state is _State.STARTING and any(each.state is _State.READY for each in self._in_slot(worker.slot)):
            # The successor in a reload. The outdated worker of the slot is still ready.
            for each in self._workers.values():
                each.generation = self._generation
            actions.append(WriteLog("reload abandoned: the new worker was never ready; the others continue"))
        elif worker.state is not _State.LEAVING:
            actions += self._fill_slot(worker, now)
        return actions + self._replace_next()

    def reload(self) -> list[Action]:
        """Return the actions after SIGHUP."""
        if self._stopping or not self._complete:
            return []
        self._generation += 1
        actions: list[Action] = [] if self._reloading else [ReportState("RELOADING")]
        self._reloading = True
        return actions + self._replace_next()

    def stop(self, now: float, status: int = 0) -> list[Action]:
        """Return the actions after SIGTERM or SIGINT.

        Args:
            now: The present time.
            status: The exit status of the run.
        """
        if self._stopping:
            return []
        self._status = status
        return [ReportState("STOPPING"), *self._stop(now)]

    def kill(self, status: int) -> list[Action]:
        """Return the actions after a second signal.

        Args:
            status: The exit status of the run.
        """
        self._status = status
        return [SendSignal(each.id, signal.SIGKILL) for each in self._workers.values()]

    def elapsed(self, now: float) -> list[Action]:
        """Return the actions whose time has come."""
        actions: list[Action] = []
        for number, slot in enumerate(self._slots):
            if slot.start_at <= now:
                slot.start_at = math.inf
                actions.append(self._start(number))
        for worker in self._workers.values():
            if worker.kill_at <= now:
                worker.kill_at = math.inf
                if self._stopping:
                    self._status = self._status or 1
                actions.append(WriteLog(f"worker killed, it did not end in time: worker={worker.id}"))
                actions.append(SendSignal(worker.id, signal.SIGKILL))
        return actions

    @property
    def next_time(self) -> float:
        """The time at which `elapsed` must be called, or infinity."""
        starts = [slot.start_at for slot in self._slots]
        return min(*starts, *(each.kill_at for each in self._workers.values()), math.inf)

    @property
    def is_stopping(self) -> bool:
        """Whether the run ends as soon as the last worker has ended."""
        return self._stopping

    # --- internal --------------------------------------------------------------------------------------------------

    def _in_slot(self, slot: int) -> list[_Worker]:
        return [each for each in self._workers.values() if each.slot == slot]

    def _start(self, slot: int) -> StartWorker:
        self._last_id += 1
        self._workers[self._last_id] = _Worker(self._last_id, slot, self._generation)
        return StartWorker(self._last_id)

    def _ask_to_leave(self, worker: _Worker, now: float) -> SendSignal:
        worker.state, worker.kill_at = _State.LEAVING, now + self._grace
        return SendSignal(worker.id, signal.SIGTERM)

    def _fill_slot(self, worker: _Worker, now: float) -> list[Action]:
        """Schedule a successor of a worker that ended, or start it at once if the worker was stable."""
        slot = self._slots[worker.slot]
        if self._stopping or any(each.state is not _State.LEAVING for each in self._in_slot(worker.slot)):
            return []
        if worker.ready_at is not None and now - worker.ready_at >= STABLE:
            slot.failures = 0
        slot.start_at = now + min(LONGEST_DELAY, FIRST_DELAY * 2**slot.failures)
        # A larger exponent would not change the delay.
        slot.failures = min(slot.failures + 1, 16)
        return []

    def _replace_next(self) -> list[Action]:
        """Start the successor of an outdated worker, unless a replacement is in progress."""
        if not self._reloading or self._stopping:
            return []
        if any(each.state is not _State.READY for each in self._workers.values()):
            return []
        outdated = [each for each in self._workers.values() if each.generation < self._generation]
        if outdated:
            return [self._start(outdated[0].slot)]
        self._reloading = False
        return [ReportState("READY")]

    def _stop(self, now: float) -> list[Action]:
        self._stopping = True
        for slot in self._slots:
            slot.start_at = math.inf
        actions: list[Action] = []
        for worker in self._workers.values():
            worker.kill_at = min(worker.kill_at, now + self._grace)
            if worker.state is not _State.LEAVING:
                actions.append(self._ask_to_leave(worker, now))
        return actions if self._workers else [EndRun(self._status)]


def _described(id: int, status: int) -> str:
    try:
        how = f"signal={signal.Signals(-status).name}" if status < 0 else f"status={status}"
    except ValueError:
        how = f"signal={-status}"
    return f"worker={id} {how}"


def _as_exit_status(status: int) -> int:
    """Return the exit status of a run that a worker ended. It is never 0: the run did not stop on request."""
    return 128 - status if status < 0 else status or 1
