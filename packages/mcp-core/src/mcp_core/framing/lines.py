"""Newline-delimited framing: from byte chunks to lines, and from a message to a line.

The stdio transport uses this framing, and any transport on a byte stream can. Only LF ends a line: not CR, and not
U+2028, which JSON allows in strings. Blanks around a message, including the CR of CRLF, are removed. Blank lines are
skipped.

A line that is too long is discarded while it is received, and reported at its end. Only there its size is known, and
with it the setting that would have accepted it.

Spec: basic/transports#stdio
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import LimitExceeded, LocalProtocolError
from mcp_core.field_methods import FieldRepr

if TYPE_CHECKING:
    from mcp_core.limits import Limits

__all__ = ["LineFramer", "frame"]

_BLANKS: Final = b" \t\r"
_BLANK_LINES: Final = re.compile(rb"\n{3,}")


@attrs.define(init=False, eq=False, repr=False)
class LineFramer(FieldRepr):
    """A parser from a byte stream to lines. The result does not depend on how the bytes are divided into chunks."""

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
        """The number of discarded bytes of a current line that is too long; 0 if there is no such line."""
        return self._skipped

    def receive_data(self, data: bytes) -> list[bytes | LimitExceeded]:
        """Receive the next bytes of the stream.

        Args:
            data: A chunk of any size.

        Returns:
            The frames that are now complete, without line ends. `LimitExceeded` replaces a line that was too long.

        Raises:
            LocalProtocolError: The stream has ended.
        """
        if self._ended:
            raise LocalProtocolError("data received after the end of the stream")
        if b"\n\n\n" in data:
            # Blank lines are skipped; a chunk of blank lines only would become a list of 65,536 items.
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
        """Receive the end of the stream.

        Returns:
            The frame of a last line without a line end, if there is one. It may be an incomplete message.

        Raises:
            LocalProtocolError: The stream has already ended.
        """
        frames = self.receive_data(b"\n")
        self._ended = True
        return frames

    def _hold(self, piece: bytes) -> None:
        """Store a part of an unfinished line, or only count its bytes if the line is too long."""
        # One byte more than the limit is allowed, because it may be the CR of CRLF.
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
    """Return one message as one line.

    Raises:
        LocalProtocolError: The message contains a line break.
    """
    if b"\n" in payload or b"\r" in payload:
        raise LocalProtocolError(
            "message contains a line break: on a byte stream each message is one line; "
            "write it with mcp_core.codec.encode"
        )
    return payload + b"\n"
