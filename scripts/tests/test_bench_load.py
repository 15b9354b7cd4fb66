from __future__ import annotations

import socket
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import latency
from bench.growth import fitting, in_turns_by_size
from bench.http_calls import Program
from bench.latency import LIMIT, HttpTarget, arrivals, open_loop, point


class FakeServer:
    """A server with its own clock that needs some seconds for a call, and does one at a time on each connection."""

    def __init__(self, seconds: float, connections: int = 1_000, stalls: Sequence[tuple[float, float]] = ()) -> None:
        self.now = 0.0
        self.seconds = seconds
        self.free = connections
        self.stalls = stalls
        self.running: dict[int, float] = {}
        self.sent: dict[int, float] = {}

    def clock(self) -> float:
        return self.now

    def begin(self) -> None:
        assert not self.running

    def send(self, number: int) -> bool:
        if not self.free:
            return False
        self.free -= 1
        self.sent[number] = self.now
        end = self.now + self.seconds
        for start, stop in self.stalls:
            if end > start and self.now < stop:
                end = max(end, stop)
        self.running[number] = end
        return True

    def receive(self, timeout: float) -> Sequence[int]:
        following = min(self.running.values(), default=self.now + timeout)
        self.now = max(self.now, min(self.now + timeout, following))
        done = [number for number, end in self.running.items() if end <= self.now]
        for number in done:
            del self.running[number]
            self.free += 1
        return done


@pytest.mark.property
@given(st.floats(1, 1e4), st.integers(0, 10))
def test_arrivals_increase_at_given_rate(rate: float, seed: int) -> None:
    times = arrivals(rate, 2_000, seed)
    assert times == sorted(times)
    assert times == arrivals(rate, 2_000, seed)
    assert times[-1] == pytest.approx(2_000 / rate, rel=0.15)


def test_open_loop_sends_each_call_when_due() -> None:
    server = FakeServer(0.001)
    due = arrivals(100.0, 500, 1)
    found = open_loop(server, due, server.clock)
    assert [server.sent[number] for number in range(500)] == pytest.approx(due)
    assert found == pytest.approx([0.001] * 500)


def test_open_loop_counts_from_due_time_while_connections_are_in_use() -> None:
    server = FakeServer(1.0, connections=1)
    assert open_loop(server, [0.0, 0.1, 0.2], server.clock) == pytest.approx([1.0, 1.9, 2.8])


def test_open_loop_counts_calls_that_are_due_during_a_pause() -> None:
    server = FakeServer(0.001, stalls=[(1.0, 2.0)])
    due = [number / 100 for number in range(300)]
    found = open_loop(server, due, server.clock)
    assert sum(each > 0.5 for each in found) == pytest.approx(50, abs=1)
    assert max(found) == pytest.approx(1.0, abs=0.01)


def test_open_loop_without_response_ends() -> None:
    server = FakeServer(10 * LIMIT)
    with pytest.raises(TimeoutError, match="2 of 2 calls have no response"):
        open_loop(server, [0.0, 0.1], server.clock)


def test_point_has_percentiles_in_milliseconds() -> None:
    found = point("stdio", "ours", 50, [90.0, 110.0], [number / 1000 for number in range(1, 1001)])
    assert (found.rate, found.calls) == (100.0, 1000)
    assert (found.p50, found.p99, found.p999, found.most) == pytest.approx((500, 990, 999, 1000))


def test_sizes_measured_in_turns_with_alternating_order() -> None:
    order: list[int] = []

    def measure(size: int) -> float:
        order.append(size)
        return float(size)

    values = in_turns_by_size("title", [lambda: measure(1), lambda: measure(2)], 3)
    assert order == [1, 2, 2, 1, 1, 2]
    assert values == ((1.0, 1.0, 1.0), (2.0, 2.0, 2.0))


@pytest.mark.parametrize(
    ("available", "sizes", "left_out"),
    [(2_000, [1, 2, 3, 100, 1_000], []), (1_999, [1, 2, 3, 100], ["1,000"]), (0, [1, 2, 3], ["100", "1,000"])],
)
def test_sizes_beyond_half_of_memory_left_out_except_first_three(
    available: int, sizes: list[int], left_out: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert fitting("sessions", (1, 2, 3, 100, 1_000), 1, available) == sizes
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(" sessions are left out")[0] for line in printed] == left_out


def test_sizes_fit_by_memory_of_machine() -> None:
    assert fitting("sessions", (1, 2, 3, 4, 1 << 60), 1) == [1, 2, 3, 4]


def test_http_connection_closed_while_free_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        program = object.__new__(Program)
        program.port = listening.getsockname()[1]
        monkeypatch.setattr(Program, "close", lambda _: None)
        monkeypatch.setattr(latency, "IN_FLIGHT", 1)
        target = HttpTarget(program)
        listening.accept()[0].close()
        assert target.receive(30) == []
        accepted, _ = listening.accept()
        assert target.send(7)
        assert accepted.recv(1 << 16).startswith(b"POST /mcp")
        accepted.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        assert target.receive(30) == [7]
        target.close()
        accepted.close()
