from __future__ import annotations

import tracemalloc
from typing import TypeAlias

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.http.sessions import EvictedSession, EvictionReason, SessionTable
from mcp_core.limits import Limits

IDLE = 100.0


def table(sessions: int = 3) -> SessionTable[str]:
    return SessionTable(Limits(sessions=sessions), idle=IDLE)


def test_session_found_by_id_and_principal() -> None:
    sessions = table()
    assert sessions.add("a", "anna", "session a", 0) is None
    assert sessions.find("a", "anna", 1) == "session a"


@pytest.mark.parametrize("other", ["bert", None, "", "ANNA"])
def test_session_of_other_principal_not_found(other: str | None) -> None:
    sessions = table()
    sessions.add("a", "anna", "session a", 0)
    assert sessions.find("a", other, 1) is None
    assert sessions.find("b", other, 1) is None
    sessions.busy("a")
    assert sessions.find("a", other, 1) is None
    assert sessions.find("a", "anna", 1) == "session a"


def test_session_without_principal_not_found_by_principal() -> None:
    sessions = table()
    sessions.add("a", None, "shared", 0)
    assert sessions.find("a", "anna", 1) is None
    assert sessions.find("a", None, 1) == "shared"


@pytest.mark.spec("session.terminate-any-time")
def test_session_got_without_use_still_expires() -> None:
    sessions = table()
    sessions.add("a", "anna", "session a", 0)
    sessions.add("b", None, "session b", 0)
    sessions.busy("b")
    assert (sessions.get("a"), sessions.get("b"), sessions.get("c")) == ("session a", "session b", None)
    assert list(sessions.in_progress()) == ["session b"]
    assert [each.id for each in sessions.expire(IDLE)] == ["a"]
    assert (sessions.get("a"), sessions.get("b")) == (None, "session b")


def test_session_unused_expires() -> None:
    sessions = table()
    sessions.add("a", None, "one", 0)
    assert sessions.expire(99.9) == []
    assert sessions.expire(100) == [EvictedSession("a", "one", EvictionReason.IDLE)]
    assert len(sessions) == 0
    assert sessions.expired == 1


@pytest.mark.spec("session.terminated-404")
def test_session_past_expiry_not_found_before_removal() -> None:
    sessions = table()
    sessions.add("a", None, "one", 0)
    assert sessions.find("a", None, 100) is None
    assert [departed.value for departed in sessions.expire(100)] == ["one"]


def test_find_renews_session() -> None:
    sessions = table()
    sessions.add("a", None, "one", 0)
    assert sessions.find("a", None, 60) == "one"
    assert sessions.expire(159) == []
    assert len(sessions.expire(160)) == 1


def test_find_by_other_principal_does_not_renew_session() -> None:
    sessions = table()
    sessions.add("a", "anna", "session a", 0)
    sessions.find("a", "bert", 60)
    assert len(sessions.expire(100)) == 1


def test_session_with_running_request_does_not_expire() -> None:
    sessions = table()
    sessions.add("a", None, "one", 0)
    sessions.busy("a")
    sessions.busy("a")
    assert sessions.running == 1
    assert sessions.expire(10_000) == []
    sessions.idle("a", 10_000)
    assert sessions.expire(20_000) == []
    assert sessions.find("a", None, 20_000) == "one"
    sessions.idle("a", 20_000)
    assert sessions.running == 0
    assert sessions.expire(20_099) == []
    assert len(sessions.expire(20_100)) == 1


def test_add_over_limit_evicts_least_recently_used() -> None:
    sessions = table(2)
    sessions.add("a", None, "one", 0)
    sessions.add("b", None, "two", 1)
    sessions.find("a", None, 2)
    assert sessions.add("c", None, "three", 3) == EvictedSession("b", "two", EvictionReason.LEAST_RECENTLY_USED)
    assert sorted(sessions) == ["one", "three"]
    assert (sessions.opened, sessions.evicted, sessions.expired) == (3, 1, 0)


def test_session_with_running_request_not_evicted() -> None:
    sessions = table(2)
    sessions.add("a", None, "one", 0)
    sessions.add("b", None, "two", 1)
    sessions.busy("a")
    departed = sessions.add("c", None, "three", 2)
    assert departed is not None
    assert departed.id == "b"


def test_add_over_limit_with_all_sessions_running_raises() -> None:
    sessions = table(1)
    sessions.add("a", None, "one", 0)
    sessions.busy("a")
    with pytest.raises(LimitExceeded, match=r"2 is over the limit of 1; the setting is Limits.sessions"):
        sessions.add("b", None, "two", 1)
    assert sessions.find("b", None, 1) is None
    assert list(sessions) == ["one"]
    assert sessions.opened == 1


@pytest.mark.parametrize("running", [True, False])
def test_session_id_reused_raises(running: bool) -> None:
    sessions = table()
    sessions.add("a", "anna", "session a", 0)
    if running:
        sessions.busy("a")
    with pytest.raises(LocalProtocolError):
        sessions.add("a", "bert", "session b", 0)
    assert sessions.find("a", "anna", 0) == "session a"


@pytest.mark.parametrize("running", [True, False])
def test_removed_session_not_found(running: bool) -> None:
    sessions = table()
    sessions.add("a", None, "one", 0)
    if running:
        sessions.busy("a")
    assert sessions.remove("a") == "one"
    assert sessions.remove("a") is None
    assert sessions.find("a", None, 0) is None
    sessions.busy("a")
    sessions.idle("a", 0)
    assert len(sessions) == 0


def test_ten_thousand_sessions_use_little_memory() -> None:
    ids = [f"session-{n:040}" for n in range(10_000)]
    sessions = table(10_000)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for id in ids:
        sessions.add(id, None, "", 0.0)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert used / len(ids) < 400


@attrs.define
class ModelSession:
    principal: str | None
    value: int
    used: float
    running: int = 0


Principal: TypeAlias = str | None
ids = st.sampled_from("abcdef")
principals = st.sampled_from([None, "anna", "bert"])


class SessionTableMachine(RuleBasedStateMachine):
    """The table compared with a dictionary by recency."""

    def __init__(self) -> None:
        super().__init__()
        self.table: SessionTable[int] = SessionTable(Limits(sessions=3), idle=IDLE)
        self.model: dict[str, ModelSession] = {}
        self.now = 0.0
        self.count = 0

    @rule(seconds=st.sampled_from([0.0, 1.0, 40.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    def least_recently_used(self) -> str | None:
        return next((id for id, session in self.model.items() if not session.running), None)

    def use(self, id: str) -> None:
        self.model[id].used = self.now
        self.model[id] = self.model.pop(id)

    @rule(id=ids, principal=principals)
    def add(self, id: str, principal: Principal) -> None:
        self.count += 1
        if id in self.model:
            with pytest.raises(LocalProtocolError):
                self.table.add(id, principal, self.count, self.now)
            return
        victim = self.least_recently_used()
        if len(self.model) == 3 and victim is None:
            with pytest.raises(LimitExceeded):
                self.table.add(id, principal, self.count, self.now)
            return
        departed = self.table.add(id, principal, self.count, self.now)
        if len(self.model) == 3:
            assert victim is not None
            assert departed == EvictedSession(victim, self.model.pop(victim).value, EvictionReason.LEAST_RECENTLY_USED)
        else:
            assert departed is None
        self.model[id] = ModelSession(principal, self.count, self.now)

    @rule(id=ids, principal=principals)
    def find(self, id: str, principal: Principal) -> None:
        session = self.model.get(id)
        found = self.table.find(id, principal, self.now)
        if (
            session is None
            or session.principal != principal
            or (not session.running and self.now - session.used >= IDLE)
        ):
            assert found is None
        else:
            assert found == session.value
            self.use(id)

    @rule(id=ids)
    def busy(self, id: str) -> None:
        self.table.busy(id)
        if id in self.model:
            self.model[id].running += 1

    @rule(id=ids)
    def idle(self, id: str) -> None:
        self.table.idle(id, self.now)
        if id in self.model and self.model[id].running:
            self.model[id].running -= 1
            if not self.model[id].running:
                self.use(id)

    @rule(id=ids)
    def remove(self, id: str) -> None:
        session = self.model.pop(id, None)
        assert self.table.remove(id) == (None if session is None else session.value)

    @rule()
    def expire(self) -> None:
        idle = [id for id, session in self.model.items() if not session.running and self.now - session.used >= IDLE]
        expired = [EvictedSession(id, self.model.pop(id).value, EvictionReason.IDLE) for id in idle]
        assert self.table.expire(self.now) == expired

    @invariant()
    def has_sessions_of_model(self) -> None:
        assert sorted(self.table) == sorted(session.value for session in self.model.values())
        assert len(self.table) == len(self.model) <= 3
        assert self.table.running == sum(1 for session in self.model.values() if session.running)
        assert self.table.opened - self.table.expired - self.table.evicted >= len(self.model)


TestSessions = SessionTableMachine.TestCase
TestSessions.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
