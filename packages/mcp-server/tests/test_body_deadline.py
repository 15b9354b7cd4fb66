"""The deadline of a request body: what a client gains by sending slowly, early and in bursts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server.host.body_deadline import BodyDeadline

PATIENCE = 10.0
RATE = 512.0
SEGMENT = 1460

pieces = st.lists(st.tuples(st.floats(0, 30), st.integers(1, 100_000)), max_size=40)
"""Seconds since the piece before, and bytes."""


def deadline(length: int = 4 << 20, *, now: float = 0, patience: float = PATIENCE, rate: float = RATE) -> BodyDeadline:
    return BodyDeadline(now=now, length=length, patience=patience, rate=rate)


def arrivals(made: BodyDeadline, sent: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """The pieces of `sent` that arrive before the host gives up, as times and bytes."""
    now, arrived = 0.0, list[tuple[float, int]]()
    for pause, count in sent:
        now += pause
        if now >= made.give_up_at:
            break
        made.received(count, now)
        arrived.append((now, count))
    return arrived


def test_a_silent_client_is_given_up_after_the_patience() -> None:
    assert deadline(now=5).give_up_at == 5 + PATIENCE


@given(early=st.integers(0, 4 << 20))
def test_bytes_sent_at_once_buy_no_time(early: int) -> None:
    made = deadline()
    made.received(early, 0)
    assert made.give_up_at == PATIENCE


@given(sent=pieces, length=st.integers(0, 1 << 20))
def test_the_total_depends_on_the_length_only(sent: list[tuple[float, int]], length: int) -> None:
    made = deadline(length)
    arrivals(made, sent)
    assert made.give_up_at <= PATIENCE + length / RATE


@given(sent=pieces)
def test_the_next_byte_has_the_patience_at_most(sent: list[tuple[float, int]]) -> None:
    made = deadline()
    for at, _ in arrivals(made, sent)[-1:]:
        assert made.give_up_at <= at + PATIENCE


@given(sent=pieces)
def test_any_stretch_of_the_wait_brings_its_bytes(sent: list[tuple[float, int]]) -> None:
    made = deadline()
    arrived = arrivals(made, sent)
    end = made.give_up_at
    for start in (0.0, *(at for at, _ in arrived)):
        brought = sum(count for at, count in arrived if at > start)
        assert brought >= RATE * (end - start - PATIENCE) - 1e-6 * RATE


@given(
    length=st.integers(1, 1 << 20),
    size=st.integers(1, int(PATIENCE * RATE) - 1),
    faster=st.floats(1.001, 1.1),
)
def test_a_line_just_above_the_rate_is_never_cut(length: int, size: int, faster: float) -> None:
    made = deadline(length)
    now, left = 0.0, length
    while left > 0:
        count = min(size, left, max(left // 200, SEGMENT))
        now += count / (RATE * faster)
        assert now < made.give_up_at
        made.received(count, now)
        left -= count


def test_a_lost_segment_delays_those_behind_it_without_a_cut() -> None:
    made = deadline()
    now = 0.0
    for count in (SEGMENT, SEGMENT, SEGMENT, 3 * SEGMENT, SEGMENT, 3 * SEGMENT):
        now += count / RATE
        assert now < made.give_up_at
        made.received(count, now)


@pytest.mark.parametrize("slower", [0.9, 0.5, 0.01])
def test_a_line_below_the_rate_is_cut(slower: float) -> None:
    made = deadline()
    now = 0.0
    while (now := now + 1) < made.give_up_at:
        made.received(int(RATE * slower), now)
    assert now <= PATIENCE / (1 - slower) + 2


@given(sent=pieces, paused=st.floats(0, 1e4))
def test_a_pause_of_the_server_is_not_charged(sent: list[tuple[float, int]], paused: float) -> None:
    made, other = deadline(), deadline()
    arrivals(made, sent)
    arrivals(other, sent)
    other.paused(paused)
    assert other.give_up_at == pytest.approx(made.give_up_at + paused)


def test_an_infinite_patience_never_gives_up() -> None:
    made = deadline(patience=math.inf)
    made.received(1, 1)
    assert made.give_up_at == math.inf


def test_an_infinite_rate_leaves_the_patience_alone() -> None:
    made = deadline(rate=math.inf)
    made.received(1 << 20, 3)
    assert made.give_up_at == PATIENCE
