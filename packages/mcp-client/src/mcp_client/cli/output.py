"""The output of the command line: text and tables for users, JSON for programs.

All text from a server is escaped before it reaches a terminal. Otherwise the terminal would execute control characters:
move the cursor, change the title, or overwrite earlier lines.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TextIO

import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import JsonValue

__all__ = ["Screen", "harmless", "one_line"]

_BAR: Final = 24
_CLIPPED: Final = 72

# In addition to control characters: characters that reverse the direction of text, so that it reads differently.
_DECEPTIVE: Final = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2028\u2029\u2066\u2067\u2068\u2069\ufeff")


def harmless(text: str) -> str:
    """Return the text with its control characters escaped, except line ends and tabs."""
    return "".join(character if _is_harmless(character) else _spelt(character) for character in text)


def _is_harmless(character: str) -> bool:
    return character in "\n\t" or (character.isprintable() and character not in _DECEPTIVE) or character == "\u00a0"


def _spelt(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def one_line(text: str) -> str:
    """Return the first line of the text, escaped and clipped, for a table."""
    first, _, rest = text.strip().partition("\n")
    line = harmless(first)
    return f"{line[:_CLIPPED]}..." if rest or len(line) > _CLIPPED else line


class Screen:
    """The output of the command line.

    Args:
        json: Whether a program reads the results.
        out: The stream for results.
        err: The stream for all other output.
    """

    def __init__(self, *, json: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.json: Final = json
        """Whether results are JSON, one document per line."""
        self._out: Final = sys.stdout if out is None else out
        self._err: Final = sys.stderr if err is None else err
        self._bar = False

    @property
    def interactive(self) -> bool:
        """Whether the user can be prompted on a terminal."""
        return sys.stdin.isatty() and self._err.isatty()

    def data(self, value: JsonValue) -> None:
        """Write a result as JSON."""
        text = orjson.dumps(value).decode()
        if not text.isascii() or "\x7f" in text:
            # JSON allows any character to be escaped, so the parsed document stays the same.
            text = "".join([each if _is_harmless(each) else json.dumps(each)[1:-1] for each in text])
        self._write(text + "\n")

    def text(self, text: str) -> None:
        """Write a result as text."""
        self._write(harmless(text) + "\n")

    def raw(self, data: bytes) -> None:
        """Write the bytes of a file to stdout, which must not be a terminal."""
        self._out.flush()
        self._out.buffer.write(data)
        self._out.buffer.flush()

    @property
    def is_terminal(self) -> bool:
        """Whether results go to a terminal."""
        return self._out.isatty()

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table: all of it, one line per row, unless a terminal shows it. There, `rich` draws it if installed."""
        if not self.is_terminal:
            self._plain_table(title, columns, [[harmless(" ".join(cell.split())) for cell in row] for row in rows])
            return
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
        """Write a line to stderr: a remark, a log message or an error."""
        self.clear()
        self._show(harmless(text) + "\n")

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Show the progress of a request as a bar, on a terminal only."""
        if not self._err.isatty():
            return
        text = one_line(message or "")
        if total:
            share = max(0.0, min(1.0, progress / total))
            done = round(share * _BAR)
            line = f"[{'#' * done}{'.' * (_BAR - done)}] {share:4.0%} {text}"
        else:
            line = f"{progress:g} {text}"
        self._show(f"\r\x1b[K{line}")
        self._bar = True

    def clear(self) -> None:
        """Remove the progress bar."""
        if self._bar:
            self._show("\r\x1b[K")
            self._bar = False

    def ask(self, prompt: str) -> str:
        """Prompt the user at the terminal. Blocks, so run it in a thread. Raises `EOFError` at the end of the input."""
        self.clear()
        self._show(harmless(prompt))
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\r\n")

    def _show(self, text: str) -> None:
        # A remark without a reader is lost. The command goes on: stdout may have a reader.
        with suppress(BrokenPipeError):
            self._err.write(text)
            self._err.flush()

    def _write(self, text: str) -> None:
        self.clear()
        # Characters that the terminal cannot show are written as escapes.
        encoding = self._out.encoding or "utf-8"
        self._out.write(text.encode(encoding, "backslashreplace").decode(encoding))
        self._out.flush()
