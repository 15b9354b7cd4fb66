"""The deadline of a request body, for clients that send slowly, early or in bursts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server.host.body_deadline import BodyDeadline

TIMEOUT = 10.0
RATE = 512.0
SEGMENT = 1460

CHUNKS = st.lists(st.tuples(st.floats(0, 30), st.integers(1, 100_000)), max_size=40)
"""Chunks: the seconds since the previous chunk, and the bytes."""


def make_deadline(
    length: int = 4 << 20, *, now: float = 0, timeout: float = TIMEOUT, rate: float = RATE
) -> BodyDeadline:
    return BodyDeadline(now=now, length=length, grace=timeout, rate=rate)


def arrivals(deadline: BodyDeadline, chunks: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """Record chunks until the deadline, and return their times and sizes."""
    now, arrived = 0.0, list[tuple[float, int]]()
    for pause, count in chunks:
        now += pause
        if now >= deadline.give_up_at:
            break
        deadline.received(count, now)
        arrived.append((now, count))
    return arrived


def test_silent_client_has_timeout() -> None:
    assert make_deadline(now=5).give_up_at == 5 + TIMEOUT


@given(count=st.integers(0, 4 << 20))
def test_bytes_at_start_do_not_extend_deadline(count: int) -> None:
    deadline = make_deadline()
    deadline.received(count, 0)
    assert deadline.give_up_at == TIMEOUT


@given(chunks=CHUNKS, length=st.integers(0, 1 << 20))
def test_total_time_depends_on_length_only(chunks: list[tuple[float, int]], length: int) -> None:
    deadline = make_deadline(length)
    arrivals(deadline, chunks)
    assert deadline.give_up_at <= TIMEOUT + length / RATE


@given(chunks=CHUNKS)
def test_next_byte_within_timeout(chunks: list[tuple[float, int]]) -> None:
    deadline = make_deadline()
    for at, _ in arrivals(deadline, chunks)[-1:]:
        assert deadline.give_up_at <= at + TIMEOUT


@given(chunks=CHUNKS)
def test_interval_has_minimum_rate(chunks: list[tuple[float, int]]) -> None:
    deadline = make_deadline()
    arrived = arrivals(deadline, chunks)
    end = deadline.give_up_at
    for start in (0.0, *(at for at, _ in arrived)):
        received = sum(count for at, count in arrived if at > start)
        assert received >= RATE * (end - start - TIMEOUT) - 1e-6 * RATE


@given(
    length=st.integers(1, 1 << 20),
    size=st.integers(1, int(TIMEOUT * RATE) - 1),
    factor=st.floats(1.001, 1.1),
)
def test_rate_above_minimum_never_times_out(length: int, size: int, factor: float) -> None:
    deadline = make_deadline(length)
    now, remaining = 0.0, length
    while remaining > 0:
        count = min(size, remaining, max(remaining // 200, SEGMENT))
        now += count / (RATE * factor)
        assert now < deadline.give_up_at
        deadline.received(count, now)
        remaining -= count


def test_delayed_segment_does_not_time_out() -> None:
    deadline = make_deadline()
    now = 0.0
    for count in (SEGMENT, SEGMENT, SEGMENT, 3 * SEGMENT, SEGMENT, 3 * SEGMENT):
        now += count / RATE
        assert now < deadline.give_up_at
        deadline.received(count, now)


@pytest.mark.parametrize("fraction", [0.9, 0.5, 0.01])
def test_rate_below_minimum_times_out(fraction: float) -> None:
    deadline = make_deadline()
    now = 0.0
    while (now := now + 1) < deadline.give_up_at:
        deadline.received(int(RATE * fraction), now)
    assert now <= TIMEOUT / (1 - fraction) + 2


@given(chunks=CHUNKS, paused=st.floats(0, 1e4))
def test_pause_of_server_extends_deadline(chunks: list[tuple[float, int]], paused: float) -> None:
    deadline, other = make_deadline(), make_deadline()
    arrivals(deadline, chunks)
    arrivals(other, chunks)
    other.paused(paused)
    assert other.give_up_at == pytest.approx(deadline.give_up_at + paused)


def test_infinite_timeout_has_no_deadline() -> None:
    deadline = make_deadline(timeout=math.inf)
    deadline.received(1, 1)
    assert deadline.give_up_at == math.inf


def test_infinite_rate_keeps_timeout() -> None:
    deadline = make_deadline(rate=math.inf)
    deadline.received(1 << 20, 3)
    assert deadline.give_up_at == TIMEOUT
