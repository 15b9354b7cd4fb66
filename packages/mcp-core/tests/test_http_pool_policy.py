from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mcp_core.errors import LimitExceeded
from mcp_core.trio.http_client.pool_policy import PoolPolicy, Ticket, Use

A = "http://a"
B = "http://b"


def _policy(*, connections: int = 10, per_origin: int = 8, idle_kept: int = 8) -> PoolPolicy[str]:
    return PoolPolicy(connections=connections, per_origin=per_origin, idle_kept=idle_kept)


def _ask(policy: PoolPolicy[str], origin: str = A, use: Use = Use.CALL, now: float = 0.0) -> Ticket[str]:
    return policy.request(origin, use, now)[0]


def test_request_below_limits_granted_without_connection() -> None:
    policy = _policy()
    ticket, doomed = policy.request(A, Use.CALL, 0.0)
    assert ticket.granted
    assert ticket.connection is None
    assert not doomed
    assert policy.busy == 1


def test_request_gets_most_recently_used_connection() -> None:
    policy = _policy()
    first, second = _ask(policy), _ask(policy)
    policy.give_back(first, "one", until=9.0, now=1.0)
    policy.give_back(second, "two", until=9.0, now=1.0)
    assert _ask(policy).connection == "two"
    assert _ask(policy).connection == "one"
    assert _ask(policy).connection is None


def test_connection_used_for_own_origin_only() -> None:
    policy = _policy()
    policy.give_back(_ask(policy), "one", until=9.0, now=1.0)
    assert _ask(policy, B).connection is None
    assert policy.idle == 1


def test_dead_idle_connection_replaced() -> None:
    policy = _policy()
    first, second = _ask(policy), _ask(policy)
    policy.give_back(first, "one", until=9.0, now=1.0)
    policy.give_back(second, "two", until=9.0, now=1.0)
    ticket = _ask(policy)
    assert policy.next_idle(ticket) == "one"
    assert policy.next_idle(ticket) is None
    assert ticket.connection is None
    assert policy.idle == 0


def test_expired_idle_connection_closed() -> None:
    policy = _policy()
    policy.give_back(_ask(policy), "old", until=5.0, now=1.0)
    ticket, doomed = policy.request(A, Use.CALL, 5.0)
    assert list(doomed) == ["old"]
    assert ticket.connection is None


def test_give_back_closes_expired_connections_of_other_origins() -> None:
    policy = _policy()
    other = _ask(policy, B)
    policy.give_back(_ask(policy), "old", until=5.0, now=1.0)
    _, doomed = policy.give_back(other, "new", until=15.0, now=6.0)
    assert list(doomed) == ["old"]
    assert policy.idle == 1
    assert _ask(policy, B, now=6.0).connection == "new"


def test_idle_connections_over_limit_close_earliest_expiring() -> None:
    policy = _policy(idle_kept=1)
    first, second = _ask(policy), _ask(policy, B)
    policy.give_back(first, "one", until=5.0, now=1.0)
    _, doomed = policy.give_back(second, "two", until=6.0, now=2.0)
    assert list(doomed) == ["one"]
    assert policy.idle == 1


def test_idle_connection_closed_for_other_origin() -> None:
    policy = _policy(connections=2)
    policy.give_back(_ask(policy), "a", until=9.0, now=1.0)
    side = _ask(policy, B, Use.SIDE)
    assert side.granted
    assert policy.idle == 1
    ticket, doomed = policy.request(B, Use.SIDE, 1.0)
    assert ticket.granted
    assert list(doomed) == ["a"]


def test_calls_over_origin_limit_wait_in_order() -> None:
    policy = _policy(per_origin=1)
    running = _ask(policy)
    second, third = _ask(policy), _ask(policy)
    assert [second.granted, third.granted] == [False, False]
    assert policy.waiting == 2
    assert _ask(policy, B).granted
    woken, _ = policy.give_back(running, "one", until=9.0, now=1.0)
    assert list(woken) == [second]
    assert second.granted
    assert second.connection == "one"
    woken, _ = policy.give_back(second, None, until=0.0, now=1.0)
    assert list(woken) == [third]
    assert third.connection is None


def test_calls_leave_one_connection_for_side_requests() -> None:
    policy = _policy(connections=3)
    calls = [_ask(policy) for _ in range(3)]
    assert [call.granted for call in calls] == [True, True, False]
    side = _ask(policy, use=Use.SIDE)
    assert side.granted
    assert not _ask(policy, use=Use.SIDE).granted


def test_side_request_served_before_waiting_calls() -> None:
    policy = _policy(connections=2)
    call, side = _ask(policy), _ask(policy, use=Use.SIDE)
    waiting_call, waiting_side = _ask(policy, B), _ask(policy, B, Use.SIDE)
    woken, _ = policy.give_back(call, None, until=0.0, now=1.0)
    assert list(woken) == [waiting_side]
    assert not policy.give_back(side, None, until=0.0, now=1.0)[0]
    woken, _ = policy.give_back(waiting_side, None, until=0.0, now=1.0)
    assert list(woken) == [waiting_call]


def test_single_connection_serves_side_request_first() -> None:
    policy = _policy(connections=1)
    running, waiting_call, waiting_side = _ask(policy), _ask(policy), _ask(policy, use=Use.SIDE)
    assert list(policy.give_back(running, None, until=0.0, now=1.0)[0]) == [waiting_side]
    assert list(policy.give_back(waiting_side, None, until=0.0, now=1.0)[0]) == [waiting_call]


def test_waiting_calls_of_origins_served_by_waiting_time() -> None:
    policy = _policy(connections=3)
    first, second = _ask(policy), _ask(policy)
    third, other, fourth = _ask(policy), _ask(policy, B), _ask(policy)
    assert list(policy.give_back(first, None, until=0.0, now=1.0)[0]) == [third]
    assert list(policy.give_back(second, None, until=0.0, now=1.0)[0]) == [other]
    assert list(policy.give_back(third, None, until=0.0, now=1.0)[0]) == [fourth]


def test_streams_leave_two_connections() -> None:
    policy = _policy(connections=4, per_origin=1)
    assert _ask(policy, use=Use.STREAM).granted
    assert _ask(policy, use=Use.STREAM).granted
    with pytest.raises(LimitExceeded) as refused:
        _ask(policy, use=Use.STREAM)
    assert refused.value.setting == "Limits.connections"
    assert (refused.value.observed, refused.value.allowed) == (3, 2)
    assert _ask(policy).granted
    assert _ask(policy, use=Use.SIDE).granted


def test_stream_waiting_for_call_can_be_withdrawn() -> None:
    policy = _policy(connections=3)
    calls = [_ask(policy), _ask(policy)]
    stream = _ask(policy, use=Use.STREAM)
    assert not stream.granted
    with pytest.raises(LimitExceeded):
        _ask(policy, use=Use.STREAM)
    policy.withdraw(stream)
    second_stream = _ask(policy, use=Use.STREAM)
    woken, _ = policy.give_back(calls[0], None, until=0.0, now=1.0)
    assert list(woken) == [second_stream]
    policy.give_back(second_stream, None, until=0.0, now=1.0)
    assert policy.busy == 1


def test_withdrawn_call_does_not_block_others() -> None:
    policy = _policy(per_origin=1)
    running, second, third = _ask(policy), _ask(policy), _ask(policy)
    policy.withdraw(second)
    woken, _ = policy.give_back(running, "one", until=9.0, now=1.0)
    assert list(woken) == [third]


def test_single_connection_serves_calls() -> None:
    policy = _policy(connections=1)
    call, second = _ask(policy), _ask(policy)
    assert call.granted
    woken, _ = policy.give_back(call, "one", until=9.0, now=1.0)
    assert list(woken) == [second]


def test_clear_returns_waiting_and_idle() -> None:
    policy = _policy(per_origin=1)
    policy.give_back(_ask(policy, B), "idle", until=9.0, now=1.0)
    _ask(policy)
    waiting = _ask(policy)
    assert policy.clear() == ([waiting], ["idle"])
    assert (policy.idle, policy.waiting) == (0, 0)


@pytest.mark.property
class PoolPolicyMachine(RuleBasedStateMachine):
    """Any sequence of operations keeps the bounds, loses nothing, and lets no request wait that could run."""

    @initialize(connections=st.integers(1, 6), per_origin=st.integers(1, 4), idle_kept=st.integers(0, 4))
    def start(self, connections: int, per_origin: int, idle_kept: int) -> None:
        self.bounds = (connections, per_origin, idle_kept)
        self.policy: PoolPolicy[str] = PoolPolicy(connections=connections, per_origin=per_origin, idle_kept=idle_kept)
        self.now = 0.0
        self.made = 0
        self.alive: set[str] = set()
        self.held: list[Ticket[str]] = []
        self.queue: list[Ticket[str]] = []

    def _close(self, doomed: object) -> None:
        assert isinstance(doomed, (list, tuple))
        for connection in doomed:
            self.alive.remove(connection)

    def _hold(self, ticket: Ticket[str]) -> None:
        assert ticket.granted
        assert ticket not in self.held
        assert ticket.connection is None or ticket.connection in self.alive
        assert all(other.connection != ticket.connection for other in self.held if ticket.connection)
        if ticket.connection is None:
            self.made += 1
            ticket.connection = f"{ticket.origin} {self.made}"
            self.alive.add(ticket.connection)
        assert ticket.connection.startswith(ticket.origin)
        self.held.append(ticket)

    @rule(origin=st.sampled_from([A, B]), use=st.sampled_from(Use), later=st.sampled_from([0.0, 0.5, 3.0]))
    def ask(self, origin: str, use: Use, later: float) -> None:
        self.now += later
        streams = sum(ticket.use is Use.STREAM for ticket in self.held + self.queue)
        try:
            ticket, doomed = self.policy.request(origin, use, self.now)
        except LimitExceeded:
            assert use is Use.STREAM
            assert streams >= self.bounds[0] - 2
            return
        self._close(doomed)
        if ticket.granted:
            self._hold(ticket)
        else:
            self.queue.append(ticket)

    @rule(data=st.data(), reuse=st.booleans(), later=st.sampled_from([0.0, 0.5, 3.0]), kept=st.sampled_from([1.0, 4.0]))
    def give_back(self, data: st.DataObject, reuse: bool, later: float, kept: float) -> None:
        if not self.held:
            return
        self.now += later
        ticket = data.draw(st.sampled_from(self.held))
        self.held.remove(ticket)
        connection = ticket.connection
        assert connection is not None
        ticket.connection = None
        if not reuse:
            self.alive.remove(connection)
        woken, doomed = self.policy.give_back(
            ticket, connection if reuse else None, until=self.now + kept, now=self.now
        )
        self._close(doomed)
        for each in woken:
            assert not any(self._same_queue(each, other) for other in self.queue[: self.queue.index(each)])
            self.queue.remove(each)
            self._hold(each)

    @staticmethod
    def _same_queue(one: Ticket[str], other: Ticket[str]) -> bool:
        return one.use is other.use and (one.use is not Use.CALL or one.origin == other.origin)

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        if self.queue:
            ticket = data.draw(st.sampled_from(self.queue))
            self.queue.remove(ticket)
            self.policy.withdraw(ticket)

    @rule(data=st.data())
    def replace_dead_connection(self, data: st.DataObject) -> None:
        if self.held:
            ticket = data.draw(st.sampled_from(self.held))
            assert ticket.connection is not None
            self.alive.remove(ticket.connection)
            self.held.remove(ticket)
            self.policy.next_idle(ticket)
            self._hold(ticket)

    @invariant()
    def bounds_hold(self) -> None:
        connections, per_origin, idle_kept = self.bounds
        assert self.policy.busy == len(self.held)
        assert self.policy.waiting == len(self.queue)
        assert len(self.alive) == self.policy.busy + self.policy.idle <= connections
        assert self.policy.idle <= idle_kept
        for origin in (A, B):
            assert sum(ticket.origin == origin and ticket.use is Use.CALL for ticket in self.held) <= per_origin

    @invariant()
    def no_runnable_request_waits(self) -> None:
        connections, per_origin, _ = self.bounds
        for ticket in self.queue:
            calls = sum(other.origin == ticket.origin and other.use is Use.CALL for other in self.held)
            full = len(self.held) >= (connections if ticket.use is Use.SIDE else max(connections - 1, 1))
            assert full or (ticket.use is Use.CALL and calls >= per_origin)

    def teardown(self) -> None:
        waiting, idle = self.policy.clear()
        assert sorted(map(id, waiting)) == sorted(map(id, self.queue))
        self._close(idle)
        assert self.alive == {ticket.connection for ticket in self.held}


TestPoolPolicy = PoolPolicyMachine.TestCase
