"""The stderr output of a child process: its tail, and a callback for each line."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MAX_LINE_BYTES", "StderrRecord"]

MAX_LINE_BYTES = 16 * 1024
"""Maximum length of a line, in bytes. A longer line is passed on in pieces of this size, which bounds memory."""

_QUOTED_LINES = 20
"""Maximum number of stderr lines in an error: enough for the last error with its traceback."""

_log = logging.getLogger("mcp_client")


class StderrRecord:
    """A receiver of stderr bytes in chunks of any size.

    Args:
        tail_bytes: Number of bytes at the end that are retained.
        on_line: Called with each decoded line, without its line end. Its exceptions are logged and ignored.
    """

    def __init__(self, *, tail_bytes: int, on_line: Callable[[str], object] | None = None) -> None:
        self._tail_bytes = tail_bytes
        self._on_line = on_line
        self._tail = bytearray()
        self._unfinished = b""

    @property
    def tail(self) -> str:
        """The last lines, at most 20, decoded as UTF-8. Invalid bytes are replaced."""
        lines = self._tail.decode("utf-8", "replace").split("\n")
        # The empty string after the last line end is not a line.
        unfinished = 1 if lines[-1] else 0
        return "\n".join(lines[-_QUOTED_LINES - 1 + unfinished :])

    def feed(self, data: bytes | bytearray) -> None:
        """Process the next bytes."""
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
        """Process the end of stderr. A last line without a line end counts as a line."""
        if self._unfinished and self._on_line is not None:
            _offer(self._unfinished, self._on_line)
            self._unfinished = b""


def _last_piece(line: bytes, on_line: Callable[[str], object]) -> bytes:
    """Pass on the start of a line that is too long, and return the rest."""
    start = 0
    while len(line) - start > MAX_LINE_BYTES:
        _offer(line[start : start + MAX_LINE_BYTES], on_line)
        start += MAX_LINE_BYTES
    return line[start:]


def _offer(line: bytes, on_line: Callable[[str], object]) -> None:
    try:
        on_line(line.removesuffix(b"\r").decode("utf-8", "replace"))
    except Exception:  # noqa: BLE001  the user's function: its failure must not end a connection that works
        _log.exception("on_stderr_line callback failed")
