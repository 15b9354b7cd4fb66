"""Request ids and progress tokens that the protocol permits, and that a lax implementation changes."""

from __future__ import annotations

from typing import Final

__all__ = ["ODD_IDS"]

ODD_IDS: Final[tuple[str | int, ...]] = (
    4711,
    "4712",
    "an id with spaces",
    " An-ID-in-Both-CASES ",
    0,
    2**53 - 1,  # before -1, to which 32 bits reduce it
    -1,
    "",
    "0",
    "null",
    'a "quoted" id, a \\backslash\\ and a line\nfeed',
    "Gr\u00fc\u00dfe",  # which Latin-1 has too, in other bytes
    "\u00fc\u2028\U0001f9ea",
    "e\u0301",  # a letter and an accent, which a normalization would join
    "long" * 64,
)
"""Numbers up to those that every JSON parser reads exactly, and strings of all kinds."""
