from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mcp_client.http_client.pool_policy import PoolPolicy, Ticket, Use
from mcp_core.errors import LimitExceeded

A = "http://a"
B = "http://b"


def _policy(*, connections: int = 10, per_origin: int = 8, idle_kept: int = 8) -> PoolPolicy[str]:
    return PoolPolicy(connections=connections, per_origin=per_origin, idle_kept=idle_kept)


def _asked(policy: PoolPolicy[str], origin: str = A, use: Use = Use.CALL, now: float = 0.0) -> Ticket[str]:
    return policy.request(origin, use, now)[0]


def test_a_request_is_granted_at_once_and_has_to_open_a_connection() -> None:
    policy = _policy()
    ticket, doomed = policy.request(A, Use.CALL, 0.0)
    assert ticket.granted
    assert ticket.connection is None
    assert not doomed
    assert policy.busy == 1


def test_the_next_request_gets_the_connection_that_was_used_last() -> None:
    policy = _policy()
    first, second = _asked(policy), _asked(policy)
    policy.give_back(first, "one", until=9.0, now=1.0)
    policy.give_back(second, "two", until=9.0, now=1.0)
    assert _asked(policy).connection == "two"
    assert _asked(policy).connection == "one"
    assert _asked(policy).connection is None


def test_a_connection_serves_only_its_own_origin() -> None:
    policy = _policy()
    policy.give_back(_asked(policy), "one", until=9.0, now=1.0)
    assert _asked(policy, B).connection is None
    assert policy.idle == 1


def test_a_dead_idle_connection_is_replaced_by_the_next_one_and_then_by_none() -> None:
    policy = _policy()
    first, second = _asked(policy), _asked(policy)
    policy.give_back(first, "one", until=9.0, now=1.0)
    policy.give_back(second, "two", until=9.0, now=1.0)
    ticket = _asked(policy)
    assert policy.another(ticket) == "one"
    assert policy.another(ticket) is None
    assert ticket.connection is None
    assert policy.idle == 0


def test_an_idle_connection_that_grew_old_is_closed_and_not_used() -> None:
    policy = _policy()
    policy.give_back(_asked(policy), "old", until=5.0, now=1.0)
    ticket, doomed = policy.request(A, Use.CALL, 5.0)
    assert list(doomed) == ["old"]
    assert ticket.connection is None


def test_giving_back_closes_what_grew_old_elsewhere() -> None:
    policy = _policy()
    other = _asked(policy, B)
    policy.give_back(_asked(policy), "old", until=5.0, now=1.0)
    _, doomed = policy.give_back(other, "new", until=15.0, now=6.0)
    assert list(doomed) == ["old"]
    assert policy.idle == 1
    assert _asked(policy, B, now=6.0).connection == "new"


def test_of_too_many_idle_connections_the_one_that_would_go_first_is_closed() -> None:
    policy = _policy(idle_kept=1)
    first, second = _asked(policy), _asked(policy, B)
    policy.give_back(first, "one", until=5.0, now=1.0)
    _, doomed = policy.give_back(second, "two", until=6.0, now=2.0)
    assert list(doomed) == ["one"]
    assert policy.idle == 1


def test_an_idle_connection_makes_room_for_one_to_another_origin() -> None:
    policy = _policy(connections=2)
    policy.give_back(_asked(policy), "a", until=9.0, now=1.0)
    side = _asked(policy, B, Use.SIDE)
    assert side.granted
    assert policy.idle == 1
    ticket, doomed = policy.request(B, Use.SIDE, 1.0)
    assert ticket.granted
    assert list(doomed) == ["a"]


def test_calls_beyond_the_bound_of_their_origin_wait_in_order_and_others_do_not() -> None:
    policy = _policy(per_origin=1)
    running = _asked(policy)
    second, third = _asked(policy), _asked(policy)
    assert [second.granted, third.granted] == [False, False]
    assert policy.waiting == 2
    assert _asked(policy, B).granted
    woken, _ = policy.give_back(running, "one", until=9.0, now=1.0)
    assert list(woken) == [second]
    assert second.granted
    assert second.connection == "one"
    woken, _ = policy.give_back(second, None, until=0.0, now=1.0)
    assert list(woken) == [third]
    assert third.connection is None


def test_calls_leave_one_connection_to_what_others_wait_for() -> None:
    policy = _policy(connections=3)
    calls = [_asked(policy) for _ in range(3)]
    assert [call.granted for call in calls] == [True, True, False]
    side = _asked(policy, use=Use.SIDE)
    assert side.granted
    assert not _asked(policy, use=Use.SIDE).granted


def test_what_others_wait_for_goes_before_calls_that_waited_longer() -> None:
    policy = _policy(connections=2)
    call, side = _asked(policy), _asked(policy, use=Use.SIDE)
    waiting_call, waiting_side = _asked(policy, B), _asked(policy, B, Use.SIDE)
    woken, _ = policy.give_back(call, None, until=0.0, now=1.0)
    assert list(woken) == [waiting_side]
    assert not policy.give_back(side, None, until=0.0, now=1.0)[0]
    woken, _ = policy.give_back(waiting_side, None, until=0.0, now=1.0)
    assert list(woken) == [waiting_call]


def test_with_a_single_connection_too_what_others_wait_for_goes_first() -> None:
    policy = _policy(connections=1)
    running, waiting_call, waiting_side = _asked(policy), _asked(policy), _asked(policy, use=Use.SIDE)
    assert list(policy.give_back(running, None, until=0.0, now=1.0)[0]) == [waiting_side]
    assert list(policy.give_back(waiting_side, None, until=0.0, now=1.0)[0]) == [waiting_call]


def test_of_calls_to_several_origins_the_one_that_waits_longest_is_next() -> None:
    policy = _policy(connections=3)
    first, second = _asked(policy), _asked(policy)
    third, other, fourth = _asked(policy), _asked(policy, B), _asked(policy)
    assert list(policy.give_back(first, None, until=0.0, now=1.0)[0]) == [third]
    assert list(policy.give_back(second, None, until=0.0, now=1.0)[0]) == [other]
    assert list(policy.give_back(third, None, until=0.0, now=1.0)[0]) == [fourth]


def test_streams_are_no_calls_and_leave_two_connections() -> None:
    policy = _policy(connections=4, per_origin=1)
    assert _asked(policy, use=Use.STREAM).granted
    assert _asked(policy, use=Use.STREAM).granted
    with pytest.raises(LimitExceeded) as refused:
        _asked(policy, use=Use.STREAM)
    assert refused.value.setting == "Limits.connections"
    assert (refused.value.observed, refused.value.allowed) == (3, 2)
    assert _asked(policy).granted
    assert _asked(policy, use=Use.SIDE).granted


def test_a_stream_waits_for_calls_to_end_and_can_be_given_up_while_it_does() -> None:
    policy = _policy(connections=3)
    calls = [_asked(policy), _asked(policy)]
    stream = _asked(policy, use=Use.STREAM)
    assert not stream.granted
    with pytest.raises(LimitExceeded):
        _asked(policy, use=Use.STREAM)
    policy.withdraw(stream)
    again = _asked(policy, use=Use.STREAM)
    woken, _ = policy.give_back(calls[0], None, until=0.0, now=1.0)
    assert list(woken) == [again]
    policy.give_back(again, None, until=0.0, now=1.0)
    assert policy.busy == 1


def test_whoever_gives_up_waiting_does_not_hold_up_the_others() -> None:
    policy = _policy(per_origin=1)
    running, second, third = _asked(policy), _asked(policy), _asked(policy)
    policy.withdraw(second)
    woken, _ = policy.give_back(running, "one", until=9.0, now=1.0)
    assert list(woken) == [third]


def test_a_single_connection_is_enough_for_calls() -> None:
    policy = _policy(connections=1)
    call, second = _asked(policy), _asked(policy)
    assert call.granted
    woken, _ = policy.give_back(call, "one", until=9.0, now=1.0)
    assert list(woken) == [second]


def test_the_end_gives_everything_that_waits_or_is_idle() -> None:
    policy = _policy(per_origin=1)
    policy.give_back(_asked(policy, B), "idle", until=9.0, now=1.0)
    _asked(policy)
    waiting = _asked(policy)
    assert policy.clear() == ([waiting], ["idle"])
    assert (policy.idle, policy.waiting) == (0, 0)


@pytest.mark.property
class PoolPolicyMachine(RuleBasedStateMachine):
    """Whatever is asked and given back: bounds hold, nothing is lost, nobody waits who could run."""

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
            assert not any(self._same_line(each, other) for other in self.queue[: self.queue.index(each)])
            self.queue.remove(each)
            self._hold(each)

    @staticmethod
    def _same_line(one: Ticket[str], other: Ticket[str]) -> bool:
        return one.use is other.use and (one.use is not Use.CALL or one.origin == other.origin)

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        if self.queue:
            ticket = data.draw(st.sampled_from(self.queue))
            self.queue.remove(ticket)
            self.policy.withdraw(ticket)

    @rule(data=st.data())
    def find_it_dead(self, data: st.DataObject) -> None:
        if self.held:
            ticket = data.draw(st.sampled_from(self.held))
            assert ticket.connection is not None
            self.alive.remove(ticket.connection)
            self.held.remove(ticket)
            self.policy.another(ticket)
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
    def nobody_waits_who_could_run(self) -> None:
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
