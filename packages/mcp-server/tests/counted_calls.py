"""Work measured in function calls, which does not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

__all__ = ["count_calls"]


def count_calls(
    function: Callable[[], object], *, raises: type[BaseException] | tuple[type[BaseException], ...] = ()
) -> int:
    """Return the number of calls of Python and C functions that a function makes.

    Args:
        work: The function.
        raises: The exception that it must raise.
    """
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    raised = False
    sys.setprofile(count)
    try:
        function()
    except raises:
        raised = True
    finally:
        sys.setprofile(None)
    assert raised is bool(raises)
    return calls
