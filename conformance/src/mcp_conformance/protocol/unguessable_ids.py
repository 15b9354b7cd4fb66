"""Detection of guessable ids of sessions and tasks."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

__all__ = ["flaw_of_ids"]

_LONG: Final = 16
"""Minimum number of characters: fewer have less than 64 bits as hexadecimal digits, and can be guessed."""


def flaw_of_ids(ids: list[str]) -> str | None:
    """Return what is wrong with ids that must not be guessable. Only gross faults can be detected."""
    if len(set(ids)) < len(ids):
        return "the same id twice"
    if any(len(id) < _LONG for id in ids):
        return f"an id shorter than {_LONG} characters"
    for one, other in pairwise(ids):
        if sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other)) <= 2:
            return "ids that differ in two characters or fewer"
    return None
