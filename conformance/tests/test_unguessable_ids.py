"""Tests of the detection of guessable ids."""

from __future__ import annotations

import random
import uuid
from typing import Final

import pytest

from mcp_conformance.protocol.unguessable_ids import flaw_of_ids

_NODE: Final = 0x5E0000000001


@pytest.mark.parametrize("count", [1, 2, 4])
def test_flaw_of_random_ids_is_absent(count: int) -> None:
    source = random.Random(count)

    for size in (16, 32):
        ids = [f"task-{source.getrandbits(size * 4):0{size}x}" for _ in range(count)]
        assert flaw_of_ids(ids) is None
    assert flaw_of_ids([str(uuid.UUID(int=source.getrandbits(128), version=4)) for _ in range(count)]) is None


def test_flaw_of_random_ids_with_common_time_is_absent() -> None:
    source = random.Random(0)

    # Those of UUIDs of version 7.
    assert flaw_of_ids([f"019a5c3e-7f21-7{source.getrandbits(72):018x}" for _ in range(4)]) is None


def test_flaw_of_uuids_of_version_1_is_found() -> None:
    ids = [str(uuid.uuid1(node=_NODE, clock_seq=77)) for _ in range(4)]

    assert flaw_of_ids(ids) is not None


def test_flaw_of_times_is_found() -> None:
    source = random.Random(0)

    assert flaw_of_ids([f"task-17644512{source.randrange(100_000_000):08}" for _ in range(4)]) is not None


@pytest.mark.parametrize(
    "ids",
    [
        ["0123456789abcdef0123456789abcdef"] * 2,
        ["0123456789abcde", "fedcba987654321"],
        ["task-00000000000000000001", "task-00000000000000000002"],
    ],
)
def test_flaw_of_repeated_short_or_counted_ids_is_found(ids: list[str]) -> None:
    assert flaw_of_ids(ids) is not None
