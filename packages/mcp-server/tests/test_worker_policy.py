"""The policy of the supervisor of worker processes, without processes."""

from __future__ import annotations

import math
import signal

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mcp_server.runners.workers.policy import (
    FIRST_DELAY,
    LONGEST_DELAY,
    STABLE,
    Action,
    EndRun,
    ReportState,
    SendSignal,
    StartWorker,
    WorkerPolicy,
    WriteLog,
)

GRACE = 20.0


def started(count: int = 2) -> WorkerPolicy:
    """Return a policy whose workers 1 to `count` are ready."""
    policy = WorkerPolicy(count, GRACE)
    policy.start()
    for id in range(1, count + 1):
        policy.ready(id, 0.0)
    return policy


def without_log(actions: list[Action]) -> list[Action]:
    return [each for each in actions if not isinstance(each, WriteLog)]


def test_first_worker_starts_alone() -> None:
    policy = WorkerPolicy(3, GRACE)
    assert policy.start() == [StartWorker(1)]
    assert policy.ready(1, 0.0) == [StartWorker(2), StartWorker(3)]
    assert policy.ready(2, 0.0) == []
    assert policy.ready(3, 0.0) == [ReportState("READY")]


@pytest.mark.parametrize(("status", "expected"), [(2, 2), (1, 1), (0, 1), (-9, 137)])
def test_worker_that_ends_at_start_ends_run(status: int, expected: int) -> None:
    policy = WorkerPolicy(3, GRACE)
    policy.start()
    assert without_log(policy.ended(1, status, 0.0)) == [EndRun(expected)]


def test_second_worker_that_ends_at_start_stops_first() -> None:
    policy = WorkerPolicy(2, GRACE)
    policy.start()
    policy.ready(1, 0.0)
    assert policy.ended(2, 2, 1.0) == [SendSignal(1, signal.SIGTERM)]
    assert policy.ended(1, 0, 1.0) == [EndRun(2)]


def test_ended_worker_restarts_with_growing_delay() -> None:
    policy = started()
    delays = []
    id, now = 1, 0.0
    for attempt in range(12):
        policy.ended(id, -9, now)
        delays.append(policy.next_time - now)
        now = policy.next_time
        assert policy.elapsed(now - 0.01) == []
        (action,) = policy.elapsed(now)
        assert action == StartWorker(3 + attempt)
        id = 3 + attempt
    assert delays[:4] == pytest.approx([FIRST_DELAY, 2 * FIRST_DELAY, 4 * FIRST_DELAY, 8 * FIRST_DELAY])
    assert delays[-1] == LONGEST_DELAY
    # The worker in the other slot is not concerned.
    policy.ended(2, -9, now)
    assert policy.next_time - now == pytest.approx(FIRST_DELAY)


def test_stable_worker_resets_delay() -> None:
    policy = started()
    policy.ended(1, -9, 0.0)
    policy.elapsed(policy.next_time)
    policy.ready(3, 1.0)
    policy.ended(3, -9, 1.0 + STABLE)
    assert policy.next_time == pytest.approx(1.0 + STABLE + FIRST_DELAY)


def test_reload_replaces_one_worker_at_a_time() -> None:
    policy = started()
    assert policy.reload() == [ReportState("RELOADING"), StartWorker(3)]
    assert policy.ready(3, 1.0) == [SendSignal(1, signal.SIGTERM)]
    assert policy.ended(1, 0, 2.0) == [StartWorker(4)]
    assert policy.ready(4, 3.0) == [SendSignal(2, signal.SIGTERM)]
    assert policy.ended(2, 0, 4.0) == [ReportState("READY")]
    assert policy.next_time == math.inf


def test_reload_during_reload_replaces_new_workers_again() -> None:
    policy = started()
    policy.reload()
    assert policy.reload() == []
    policy.ready(3, 0.0)
    # Worker 2 is older than both reloads, worker 3 than the second.
    assert policy.ended(1, 0, 0.0) == [StartWorker(4)]
    policy.ready(4, 0.0)
    assert policy.ended(2, 0, 0.0) == [StartWorker(5)]
    assert policy.ready(5, 0.0) == [SendSignal(3, signal.SIGTERM)]
    assert policy.ended(3, 0, 0.0) == [ReportState("READY")]


def test_failed_reload_keeps_workers() -> None:
    policy = started()
    policy.reload()
    assert without_log(policy.ended(3, 2, 1.0)) == [ReportState("READY")]
    assert policy.next_time == math.inf
    # A later reload tries again.
    assert policy.reload() == [ReportState("RELOADING"), StartWorker(4)]


def test_reload_while_worker_restarts_waits_for_it() -> None:
    policy = started()
    policy.ended(1, -9, 0.0)
    policy.elapsed(policy.next_time)
    assert policy.reload() == [ReportState("RELOADING")]
    assert policy.ready(3, 1.0) == [StartWorker(4)]


def test_reload_before_all_workers_are_ready_is_ignored() -> None:
    policy = WorkerPolicy(2, GRACE)
    policy.start()
    assert policy.reload() == []


def test_leaving_worker_gets_successor_before_its_end() -> None:
    policy = started()
    assert policy.leaving(1, 100.0) == []
    assert policy.elapsed(policy.next_time) == [StartWorker(3)]
    assert policy.ended(1, 0, 101.0) == []
    assert policy.next_time == math.inf


def test_leaving_worker_is_killed_after_grace() -> None:
    policy = started()
    policy.leaving(1, 100.0)
    policy.elapsed(policy.next_time)
    policy.ready(3, 101.0)
    assert policy.next_time == 100.0 + GRACE
    assert without_log(policy.elapsed(100.0 + GRACE)) == [SendSignal(1, signal.SIGKILL)]


def test_stop_ends_run_with_last_worker() -> None:
    policy = started()
    expected = [ReportState("STOPPING"), SendSignal(1, signal.SIGTERM), SendSignal(2, signal.SIGTERM)]
    assert policy.stop(1.0) == expected
    assert policy.stop(1.0) == []
    assert policy.reload() == []
    assert policy.ended(1, 0, 2.0) == []
    assert policy.ended(2, 0, 2.0) == [EndRun(0)]


def test_stop_cancels_planned_restart() -> None:
    policy = started(1)
    policy.ended(1, -9, 0.0)
    assert policy.stop(0.0) == [ReportState("STOPPING"), EndRun(0)]


def test_stop_kills_worker_after_grace_with_status_1() -> None:
    policy = started()
    policy.stop(1.0)
    policy.ended(2, 0, 2.0)
    assert policy.next_time == 1.0 + GRACE
    assert without_log(policy.elapsed(1.0 + GRACE)) == [SendSignal(1, signal.SIGKILL)]
    assert policy.ended(1, -9, 30.0) == [EndRun(1)]


def test_second_signal_kills_all_workers() -> None:
    policy = started()
    policy.stop(1.0)
    assert policy.kill(143) == [SendSignal(1, signal.SIGKILL), SendSignal(2, signal.SIGKILL)]
    policy.ended(1, -9, 1.0)
    assert policy.ended(2, -9, 1.0) == [EndRun(143)]


class WorkersModel(RuleBasedStateMachine):
    """Any order of events, with a model of the processes."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 3
        self.policy = WorkerPolicy(self.count, GRACE)
        self.now = 0.0
        self.running: dict[int, str] = {}
        self.ever: set[int] = set()
        self.end: int | None = None
        self.was_complete = False
        self.apply(self.policy.start())

    def apply(self, actions: list[Action]) -> None:
        for action in actions:
            assert self.end is None, "an action after the end of the run"
            match action:
                case StartWorker(id):
                    assert id not in self.ever
                    self.ever.add(id)
                    self.running[id] = "starting"
                case SendSignal(id, number):
                    assert id in self.running, "a signal to a process that has ended"
                    if number == signal.SIGKILL:
                        self.running[id] = "killed"
                    elif self.running[id] == "ready":
                        self.running[id] = "leaving"
                    elif self.running[id] == "starting":
                        self.running[id] = "killed"
                case EndRun(status):
                    assert not self.running, "the run ended before its workers"
                    self.end = status
                case ReportState("READY"):
                    self.was_complete = True
                case _:
                    pass

    def some(self, *states: str) -> list[int]:
        return sorted(id for id, state in self.running.items() if state in states)

    @precondition(lambda self: self.some("starting"))
    @rule(data=st.data())
    def become_ready(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(self.some("starting")))
        self.running[id] = "ready"
        self.apply(self.policy.ready(id, self.now))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), status=st.sampled_from([0, 1, 2, -9, -15]))
    def end_worker(self, data: st.DataObject, status: int) -> None:
        id = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[id]
        self.apply(self.policy.ended(id, status, self.now))

    @precondition(lambda self: self.some("ready") and self.end is None)
    @rule(data=st.data())
    def announce_end(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(self.some("ready")))
        self.running[id] = "leaving"
        self.apply(self.policy.leaving(id, self.now))

    @precondition(lambda self: self.end is None)
    @rule()
    def reload(self) -> None:
        self.apply(self.policy.reload())

    @rule(seconds=st.floats(0.01, 60.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        if self.end is None:
            self.apply(self.policy.elapsed(self.now))

    @precondition(lambda self: self.end is None and self.was_complete)
    @rule(often=st.integers(0, 30))
    def stop(self, often: int) -> None:
        if often == 0:
            self.apply(self.policy.stop(self.now))

    @invariant()
    def workers_are_bounded(self) -> None:
        # Each slot has at most one worker that starts or serves, except for one slot that is reloaded.
        assert len(self.some("starting", "ready")) <= self.count + 1

    def teardown(self) -> None:
        """Check that the run ends after a stop, and that all slots are served again otherwise."""
        must_end = self.policy.is_stopping or not self.was_complete
        for _ in range(100):
            if self.end is not None:
                assert must_end
                return
            for id in self.some("starting"):
                self.running[id] = "ready"
                self.apply(self.policy.ready(id, self.now))
            for id in self.some("leaving", "killed"):
                del self.running[id]
                self.apply(self.policy.ended(id, 0, self.now))
            if math.isfinite(self.policy.next_time):
                self.now = max(self.now, self.policy.next_time)
                self.apply(self.policy.elapsed(self.now))
        assert not self.policy.is_stopping
        assert len(self.some("ready")) == self.count
        assert not self.some("starting", "leaving", "killed")
        assert self.policy.next_time == math.inf


TestAnyOrderOfEvents = pytest.mark.property(WorkersModel.TestCase)
