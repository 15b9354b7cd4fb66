"""The sides of a measurement: this project, its peers, and the floor below them."""

from __future__ import annotations

import sys
from typing import Final

import attrs

__all__ = ["ASGI", "FLOOR", "OFFICIAL", "OURS", "Side"]


@attrs.frozen
class Side:
    """One of the programs that are measured in turns."""

    name: str
    """The name in the results, such as `ours`."""
    program: str
    """The part of the names of programs in `scripts/bench/programs` that identifies the side."""
    python: str = sys.executable
    """The interpreter whose environment the program uses."""


OURS: Final = Side("ours", "ours")
ASGI: Final = Side("uvicorn", "asgi")
"""This project under uvicorn."""
OFFICIAL: Final = Side("official", "official")
FLOOR: Final = Side("floor", "floor")
"""Bare trio, and h11 over HTTP, that do the same input and output: no implementation on top of them can be cheaper."""
