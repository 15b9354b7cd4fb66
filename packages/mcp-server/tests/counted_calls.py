"""Work counted in calls of functions, which is the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

__all__ = ["calls_of"]


def calls_of(work: Callable[[], object], *, raises: type[BaseException] | tuple[type[BaseException], ...] = ()) -> int:
    """Return how many functions are called, in Python and in C, while something is done.

    Args:
        work: What is done.
        raises: What it has to raise.
    """
    counted = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    raised = False
    sys.setprofile(count)
    try:
        work()
    except raises:
        raised = True
    finally:
        sys.setprofile(None)
    assert raised is bool(raises)
    return counted
