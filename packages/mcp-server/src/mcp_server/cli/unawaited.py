"""Coroutines that were never awaited: one line of the log for each, with the place in the file of the author.

Python warns when it destroys such a coroutine, often in the code of a library that called the author's function. The
place of the call is known only if Python recorded it when it created the coroutine, which takes 0.1 microseconds for each
coroutine. So it is recorded from the first warning without a place, or from the start.
"""

from __future__ import annotations

import logging
import re
import sys
import warnings
from typing import TYPE_CHECKING, Final

from mcp_server.tracebacks import is_library_file

if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["log_unawaited_coroutines"]

_log: Final = logging.getLogger("mcp_server")

_DEPTH: Final = 4
"""How many callers are recorded of a coroutine. Wrappers of this project are between the author and some coroutines."""

_MOST_PLACES: Final = 100
"""Most places that are logged."""

_WARNING: Final = re.compile(r"coroutine '([^']+)' was never awaited")
_CALLER: Final = re.compile(r'^  File "(.+)", line (\d+), in ', re.MULTILINE)


def log_unawaited_coroutines(*, trace: bool) -> None:
    """Log Python's warnings of coroutines that were never awaited. Other warnings stay as they are.

    Args:
        trace: Whether to record the place of the call from the start.
    """
    if trace:
        sys.set_coroutine_origin_tracking_depth(_DEPTH)
    show = warnings.showwarning
    logged: set[tuple[str, str, int]] = set()

    def show_or_log(  # noqa: PLR0917  # the parameters of `warnings.showwarning`
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        found = _WARNING.match(str(message)) if category is RuntimeWarning else None
        if found is None:
            show(message, category, filename, lineno, file, line)
            return
        callers = [(path, int(number)) for path, number in _CALLER.findall(str(message))]
        places = [place for place in [(filename, lineno), *callers] if not is_library_file(place[0])]
        if places:
            # The call that created the coroutine, or the place where it was destroyed: often the same line.
            entry = (found[1], *places[-1])
            if entry not in logged and len(logged) < _MOST_PLACES:
                logged.add(entry)
                _log.warning("coroutine %r was never awaited: %s:%d; write 'await' before the call", *entry)
        elif sys.get_coroutine_origin_tracking_depth() == 0:
            sys.set_coroutine_origin_tracking_depth(_DEPTH)
            _log.warning(
                "coroutine %r was never awaited; write 'await' before the call; the log shows its place from now on, and"
                " with --log-level debug from the start",
                found[1],
            )

    warnings.showwarning = show_or_log
