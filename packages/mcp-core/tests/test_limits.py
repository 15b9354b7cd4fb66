"""The limits: defaults, ranges, and error messages."""

from __future__ import annotations

from typing import cast

import attrs
import pytest

from mcp_core.limits import CLIENT_LIMITS, SERVER_LIMITS, Limits


def test_client_message_limit_larger_than_server_limit() -> None:
    assert attrs.asdict(Limits()) == attrs.asdict(SERVER_LIMITS)
    assert SERVER_LIMITS.message_bytes == 4 * 1024 * 1024
    assert CLIENT_LIMITS.message_bytes == 16 * 1024 * 1024


def test_event_bytes_default_exceeds_message_bytes() -> None:
    assert Limits(message_bytes=1_000).event_bytes == 1_000 + 64 * 1024
    assert attrs.evolve(Limits(), event_bytes=7).event_bytes == 7


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(Limits)])
def test_limit_not_positive_integer_raises(name: str) -> None:
    with pytest.raises(ValueError, match=rf"Limits\.{name} must be .*, not -1"):
        attrs.evolve(Limits(), **{name: -1})
    for wrong in ("5", 5.0, None, True):
        changes = {name: cast("int", wrong)}  # the test needs a value of a wrong type
        with pytest.raises(TypeError, match=rf"Limits\.{name} must be an int"):
            attrs.evolve(Limits(), **changes)


@pytest.mark.parametrize("name", ["waiting_requests", "waiting_bytes", "junk_lines"])
def test_queue_and_junk_limits_may_be_zero(name: str) -> None:
    assert getattr(attrs.evolve(Limits(), **{name: 0}), name) == 0


@pytest.mark.parametrize(
    ("name", "minimum"),
    [
        ("message_bytes", 1),
        ("nesting_depth", 1),
        ("array_items", 1),
        ("object_members", 1),
        ("batch_members", 1),
        ("id_chars", 20),
        ("event_bytes", 1),
        ("running_requests", 1),
        ("outgoing_bytes", 1),
    ],
)
def test_limit_below_minimum_raises(name: str, minimum: int) -> None:
    assert getattr(attrs.evolve(Limits(), **{name: minimum}), name) == minimum
    with pytest.raises(ValueError, match=rf"Limits\.{name} must be"):
        attrs.evolve(Limits(), **{name: minimum - 1})


def test_nesting_depth_bounded_by_encoder() -> None:
    assert Limits(nesting_depth=250).nesting_depth == 250
    with pytest.raises(ValueError, match="from 1 to 250, not 251"):
        Limits(nesting_depth=251)
