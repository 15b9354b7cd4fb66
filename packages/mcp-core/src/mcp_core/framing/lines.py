"""Newline-delimited frames: bytes in any portions to lines, and one message to one line.

Used on stdio, and by any transport on a stream of bytes. Only LF ends a line: not CR, and not U+2028, which JSON
allows in strings. Blanks around a message, the CR of CRLF among them, are taken off, and blank lines skipped.

A line that is too long is skipped to its end without being kept. It is reported there, since only there its size, and
so the setting that would have let it pass, is known.

Spec: basic/transports#stdio
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import LimitExceeded, LocalProtocolError

if TYPE_CHECKING:
    from mcp_core.limits import Limits

__all__ = ["LineFramer", "frame"]

_BLANKS: Final = b" \t\r"
_BLANK_LINES: Final = re.compile(rb"\n{3,}")


@attrs.define(init=False, eq=False)
class LineFramer:
    """Cuts a stream of bytes into frames. What comes out does not depend on the portions in which bytes come in."""

    _allowed: int
    _partial: bytearray
    _skipped: int
    _ended: bool

    def __init__(self, limits: Limits) -> None:
        self._allowed = limits.message_bytes
        self._partial = bytearray()
        self._skipped = 0
        self._ended = False

    @property
    def skipping(self) -> int:
        """How many bytes of a line that is too long were skipped so far; 0 when there is none."""
        return self._skipped

    def receive_data(self, data: bytes) -> list[bytes | LimitExceeded]:
        """Takes the next bytes of the stream.

        Args:
            data: Any portion.

        Returns:
            The frames that are complete now, without line ends; `LimitExceeded` stands for a line that was skipped.

        Raises:
            LocalProtocolError: The stream has ended.
        """
        if self._ended:
            raise LocalProtocolError("data came after the end of the stream")
        if b"\n\n\n" in data:
            # Blank lines are skipped; a chunk of nothing else would be a list of 65,536 of them.
            data = _BLANK_LINES.sub(b"\n\n", data)
        lines = data.split(b"\n")
        rest = lines.pop()
        frames: list[bytes | LimitExceeded] = []
        if lines and (self._partial or self._skipped):
            self._hold(lines[0])
            lines[0] = bytes(self._partial)
        for line in lines:
            made = self._frame(line)
            if made:
                frames.append(made)
        if lines:
            self._partial.clear()
        if rest:
            self._hold(rest)
        return frames

    def receive_eof(self) -> list[bytes | LimitExceeded]:
        """Takes note of the end of the stream.

        Returns:
            The frame of a last line without a line end, if there is one. It may be the beginning of a message only.

        Raises:
            LocalProtocolError: The stream has ended before.
        """
        frames = self.receive_data(b"\n")
        self._ended = True
        return frames

    def _hold(self, piece: bytes) -> None:
        """Keeps a piece of an unfinished line, unless the line is too long: then only counts it."""
        # One byte more than is allowed may be the CR of CRLF.
        if not self._skipped and len(self._partial) + len(piece) <= self._allowed + 1:
            self._partial += piece
        else:
            self._skipped += len(self._partial) + len(piece)
            self._partial.clear()

    def _frame(self, line: bytes) -> bytes | LimitExceeded | None:
        size = self._skipped or len(line)
        if size <= self._allowed + 1:
            line = line.strip(_BLANKS)
            if len(line) <= self._allowed:
                return line
        self._skipped = 0
        return LimitExceeded(
            "line length in bytes", observed=size, allowed=self._allowed, setting="Limits.message_bytes"
        )


def frame(payload: bytes) -> bytes:
    """One message as one line.

    Raises:
        LocalProtocolError: There is a line end in it.
    """
    if b"\n" in payload or b"\r" in payload:
        raise LocalProtocolError("a line end stands within a message that is to be sent as one line")
    return payload + b"\n"
