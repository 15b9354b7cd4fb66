"""What the command line shows: text and tables for people, JSON for machines.

Whatever comes from a server is made harmless before it reaches a terminal, which would obey control characters: move
the cursor, change the title, rewrite what stands above.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final, TextIO

import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.types import ProgressNotificationParams

__all__ = ["Screen", "harmless", "one_line"]

_BAR: Final = 24
_CLIPPED: Final = 72

# Besides the control characters: what reverses the direction of writing, so that text reads otherwise than it is.
_DECEPTIVE: Final = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2028\u2029\u2066\u2067\u2068\u2069\ufeff")


def harmless(text: str) -> str:
    """The text with its control characters spelt out; line ends and tabs stay."""
    return "".join(character if _is_harmless(character) else _spelt(character) for character in text)


def _is_harmless(character: str) -> bool:
    return character in "\n\t" or (character.isprintable() and character not in _DECEPTIVE) or character == "\u00a0"


def _spelt(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def one_line(text: str) -> str:
    """The first line of the text, harmless and clipped, for a table."""
    first, _, rest = text.strip().partition("\n")
    line = harmless(first)
    return f"{line[:_CLIPPED]}..." if rest or len(line) > _CLIPPED else line


class Screen:
    """Where the command line writes.

    Args:
        json: Whether a machine reads.
        out: For results.
        err: For everything else.
    """

    def __init__(self, *, json: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.json: Final = json
        """Whether results are JSON, one document a line."""
        self._out: Final = sys.stdout if out is None else out
        self._err: Final = sys.stderr if err is None else err
        self._bar = False

    @property
    def interactive(self) -> bool:
        """Whether somebody can be asked."""
        return sys.stdin.isatty() and self._err.isatty()

    def data(self, value: JsonValue) -> None:
        """A result for machines."""
        text = orjson.dumps(value).decode()
        if not text.isascii() or "\x7f" in text:
            # JSON may spell any character out, so that for machines it stays the same.
            text = "".join([each if _is_harmless(each) else json.dumps(each)[1:-1] for each in text])
        self._write(text + "\n")

    def text(self, text: str) -> None:
        """A result for people."""
        self._write(harmless(text) + "\n")

    def raw(self, data: bytes) -> None:
        """A result that is a file, byte for byte; to a pipe, never to a terminal."""
        self._out.flush()
        self._out.buffer.write(data)
        self._out.buffer.flush()

    @property
    def is_terminal(self) -> bool:
        """Whether results go to a terminal."""
        return self._out.isatty()

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table, by `rich` where that is installed."""
        cells = [[one_line(cell) for cell in row] for row in rows]
        try:
            from rich.console import Console  # lazy: an optional dependency, and slow to import
            from rich.table import Table  # lazy: the same
            from rich.text import Text  # lazy: the same
        except ImportError:
            self._plain_table(title, columns, cells)
            return
        table = Table(title=title, title_justify="left")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in cells:
            table.add_row(*map(Text, row))
        Console(file=self._out, highlight=False, markup=False, emoji=False).print(table)

    def _plain_table(self, title: str, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
        self._write(f"{title}\n")
        for row in (columns, *cells):
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self._write(f"  {line.rstrip()}\n")

    def note(self, text: str) -> None:
        """Something beside the results: a remark, a log message, an error."""
        self.clear()
        self._err.write(harmless(text) + "\n")
        self._err.flush()

    def progress(self, progress: ProgressNotificationParams) -> None:
        """How far a request got: a bar that is drawn over, on a terminal only."""
        if not self._err.isatty():
            return
        message = one_line(progress.message or "")
        if progress.total:
            share = max(0.0, min(1.0, progress.progress / progress.total))
            done = round(share * _BAR)
            line = f"[{'#' * done}{'.' * (_BAR - done)}] {share:4.0%} {message}"
        else:
            line = f"{progress.progress:g} {message}"
        self._err.write(f"\r\x1b[K{line}")
        self._err.flush()
        self._bar = True

    def clear(self) -> None:
        """Takes the bar away."""
        if self._bar:
            self._err.write("\r\x1b[K")
            self._err.flush()
            self._bar = False

    def ask(self, question: str) -> str:
        """Asks whoever sits at the terminal. Blocks; run it in a thread. Raises `EOFError` when there is no answer."""
        self.clear()
        self._err.write(harmless(question))
        self._err.flush()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\r\n")

    def _write(self, text: str) -> None:
        self.clear()
        # A terminal that cannot show a character is shown its number.
        encoding = self._out.encoding or "utf-8"
        self._out.write(text.encode(encoding, "backslashreplace").decode(encoding))
        self._out.flush()
