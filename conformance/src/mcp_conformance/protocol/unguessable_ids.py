"""Detection of guessable ids: of sessions and tasks, and codes and tokens of authorization servers."""

from __future__ import annotations

from itertools import pairwise, zip_longest
from typing import Final

__all__ = ["flaw_of_ids"]

_LONG: Final = 16
"""Minimum number of characters: fewer have less than 64 bits as hexadecimal digits, and can be guessed."""
_VARYING: Final = 9
"""Minimum number of positions in which ids differ.

A UUID of version 1 varies in the 8 hexadecimal digits of `time_low`: the rest of the time, the clock sequence and the
node stay the same (RFC 9562, section 5.1). Two random ids of 16 hexadecimal digits vary in fewer than 9 positions once in
300,000 times, four of them practically never.
"""


def flaw_of_ids(ids: list[str]) -> str | None:
    """Return what is wrong with ids that must not be guessable. Only gross faults can be detected."""
    if len(set(ids)) < len(ids):
        return "the same id twice"
    if any(len(id) < _LONG for id in ids):
        return f"an id shorter than {_LONG} characters"
    for one, other in pairwise(ids):
        if sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other)) <= 2:
            return "ids that differ in two characters or fewer"
    varying = sum(len(set(column)) > 1 for column in zip_longest(*ids))
    if len(ids) > 1 and varying < _VARYING:
        return f"ids that differ in only {varying} of their characters"
    return None
