"""Whether ids of sessions and tasks can be guessed."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

__all__ = ["flaw_of_ids"]

_LONG: Final = 16
"""Characters: fewer than 64 bits in hexadecimal digits are guessed."""


def flaw_of_ids(ids: list[str]) -> str | None:
    """What is wrong with ids that should be beyond guessing; only gross faults can be seen."""
    if len(set(ids)) < len(ids):
        return "one came twice"
    if any(len(id) < _LONG for id in ids):
        return f"shorter than {_LONG} characters"
    for one, other in pairwise(ids):
        if sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other)) <= 2:
            return "two differ in two characters or less"
    return None
