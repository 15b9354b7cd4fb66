"""What a child process writes to stderr: the end of it is kept, and each line is offered to a function."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MAX_LINE_BYTES", "StderrRecord"]

MAX_LINE_BYTES = 16 * 1024
"""A longer line is handed on in pieces of this size, so that a child which never ends a line costs no more memory."""

_QUOTED_LINES = 20
"""How many lines of the end an error quotes: the last error with its traceback, and no page of log."""

_log = logging.getLogger("mcp_client")


class StderrRecord:
    """Takes the bytes of stderr as they come, in any cuts.

    Args:
        tail_bytes: How many bytes of the end are kept.
        on_line: Called with each line, decoded, without its end. What it raises is logged and harmless.
    """

    def __init__(self, *, tail_bytes: int, on_line: Callable[[str], object] | None = None) -> None:
        self._tail_bytes = tail_bytes
        self._on_line = on_line
        self._tail = bytearray()
        self._unfinished = b""

    @property
    def tail(self) -> str:
        """The last lines, 20 at most, decoded as UTF-8; what is no UTF-8 is replaced."""
        lines = self._tail.decode("utf-8", "replace").split("\n")
        # Behind the end of the last line there is nothing, and that is no line.
        unfinished = 1 if lines[-1] else 0
        return "\n".join(lines[-_QUOTED_LINES - 1 + unfinished :])

    def feed(self, data: bytes | bytearray) -> None:
        """Take the next bytes."""
        self._tail += data
        del self._tail[: max(0, len(self._tail) - self._tail_bytes)]
        if self._on_line is None:
            return
        on_line = self._on_line
        *lines, rest = (self._unfinished + data).split(b"\n")
        for line in lines:
            _offer(_last_piece(line, on_line), on_line)
        self._unfinished = _last_piece(rest, on_line)

    def end(self) -> None:
        """Nothing more comes: a last line without an end is a line, too."""
        if self._unfinished and self._on_line is not None:
            _offer(self._unfinished, self._on_line)
            self._unfinished = b""


def _last_piece(line: bytes, on_line: Callable[[str], object]) -> bytes:
    """The end of `line` that is short enough; what precedes it has been handed on."""
    start = 0
    while len(line) - start > MAX_LINE_BYTES:
        _offer(line[start : start + MAX_LINE_BYTES], on_line)
        start += MAX_LINE_BYTES
    return line[start:]


def _offer(line: bytes, on_line: Callable[[str], object]) -> None:
    try:
        on_line(line.removesuffix(b"\r").decode("utf-8", "replace"))
    except Exception:  # noqa: BLE001  the user's function: its failure must not end a connection that works
        _log.exception("the function for the lines of a child's stderr failed")
