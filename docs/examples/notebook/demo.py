"""Shows a server and a client of this project talking to each other, in every revision of the protocol.

For each transport and each revision that has it, it starts the server `server.py` as a process of its own, over a copy of
a small folder of notes, and drives everything that it offers through `mcp_client`. The result is a table: a row for each
feature, a column for each revision over each transport.

    ./scripts/demo [--transport NAME] [--revision NAME] [--verbose]
"""

from __future__ import annotations

import argparse
import base64
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import trio

from features import CLOSE, FEATURES
from mcp_core.errors import McpError
from mcp_core.revisions import REVISIONS, Revision
from session import Feature, Session, Way

NOTES = {
    "house.md": "# The house\n\nThe roof leaks over the *kitchen*. Ask the roofer in May.\n",
    "garden.md": "# The garden\n\nTulips, quinces and a pear tree that needs cutting.\n",
    "trips/ghent.md": "# Ghent\n\nTrain at eight. The belfry, the altarpiece, waffles.\n",
}
ROOTS = {"attic.md": "# The attic\n\nBoxes, and a window that does not shut.\n"}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SECONDS = 10
"""How long one feature may take before it counts as failed."""

OK, ABSENT, FAILED = "ok", "—", "FAILED"

WAYS = {"stdio": Way.STDIO, "http": Way.HTTP, "http-sse": Way.HTTP_SSE}
"""The transports, as the command line calls them."""

WIDTHS = 34, 11
"""Of the first column of the table, and of the others."""


def make_folder(path: Path, notes: Mapping[str, str]) -> Path:
    """A small folder of notes, which the demonstration may change."""
    for name, text in notes.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    (path / "pixel.png").write_bytes(base64.b64decode(PIXEL))
    return path


@dataclass(frozen=True)
class Column:
    """One revision over one transport."""

    way: Way
    revision: Revision

    def __str__(self) -> str:
        return f"{self.way.value}, {self.revision}"


class Report:
    """Tells what happens while it happens, and gives the table in the end."""

    def __init__(self, columns: Sequence[Column], *, verbose: bool) -> None:
        self._columns = columns
        self._verbose = verbose
        self._cells: dict[tuple[str, Column], str] = {}
        self._reasons: list[str] = []
        self._seconds: dict[Column, float] = {}

    @property
    def failed(self) -> bool:
        """Whether anything went wrong."""
        return bool(self._reasons)

    def begin(self, column: Column) -> None:
        print(f"{column!s:<28}", end="\n" if self._verbose else "  ", flush=True)

    def add(self, feature: str, column: Column, verdict: str, detail: str) -> None:
        self._cells[feature, column] = verdict
        if verdict == FAILED:
            self._reasons.append(f"{column}, {feature}: {detail}")
        if self._verbose:
            print(f"    {feature:<34} {verdict:<7} {detail}".rstrip(), flush=True)
        else:
            print({OK: ".", ABSENT: "-", FAILED: "F"}[verdict], end="", flush=True)

    def end(self, column: Column, seconds: float) -> None:
        self._seconds[column] = seconds
        print(f"{'    ' if self._verbose else '  '}{seconds:.2f} s", flush=True)

    def table(self) -> str:
        """What happened, as a table."""
        lines = ["", self._ways(), self._row("feature", [column.revision.name for column in self._columns])]
        lines.append("-" * len(lines[-1]))
        for feature in (*FEATURES, CLOSE):
            cells = [self._cells.get((feature.name, column), "not run") for column in self._columns]
            lines.append(self._row(feature.name, cells))
        lines.append(self._row("seconds", [f"{self._seconds.get(column, 0):.2f}" for column in self._columns]))
        lines += ["", f"{OK}: works    {ABSENT}: the revision has no such thing"]
        if self._reasons:
            lines += ["", f"{FAILED}:", *(f"  {reason}" for reason in self._reasons)]
        return "\n".join(lines)

    def _ways(self) -> str:
        """The first line of the heading: each transport over its first column."""
        line = ""
        for number, column in enumerate(self._columns):
            if number == 0 or self._columns[number - 1].way is not column.way:
                line = f"{line:<{WIDTHS[0] + number * WIDTHS[1]}} {column.way.value}"
        return line

    @staticmethod
    def _row(first: str, cells: Sequence[str]) -> str:
        return f"{first:<{WIDTHS[0]}}" + "".join(f"{cell:>{WIDTHS[1]}}" for cell in cells)


async def show(column: Column, report: Report) -> None:
    """Starts the server, pinned to a revision, and tries every feature."""
    report.begin(column)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        folder, roots = make_folder(Path(place, "notes"), NOTES), make_folder(Path(place, "roots"), ROOTS)
        session = Session(column.way, column.revision, folder, roots)
        try:
            async with session.connect():
                for feature in FEATURES:
                    report.add(feature.name, column, *await attempt(feature, session))
        except* (McpError, OSError) as group:
            for error in group.exceptions:
                report.add("connect", column, FAILED, f"{type(error).__name__}: {error}")
        else:
            report.add(CLOSE.name, column, *await attempt(CLOSE, session))
    report.end(column, time.perf_counter() - started)


async def attempt(feature: Feature, session: Session) -> tuple[str, str]:
    """Tries one feature. Gives the verdict, and what there is to say about it."""
    if not feature.exists(session.revision):
        return ABSENT, ""
    try:
        with trio.fail_after(SECONDS):
            return OK, await feature.run(session)
    except trio.TooSlowError:
        return FAILED, f"nothing came of it in {SECONDS} seconds"
    except (AssertionError, McpError, OSError, ExceptionGroup) as error:
        return FAILED, f"{type(error).__name__}: {error}"


def arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--transport", choices=list(WAYS), help="show this transport only")
    parser.add_argument("--revision", choices=list(REVISIONS), help="show this revision only")
    parser.add_argument("--verbose", action="store_true", help="tell what each feature gave")
    return parser.parse_args(given)


async def main(given: Sequence[str]) -> int:
    """Returns the exit status: 1 if anything failed."""
    options = arguments(given)
    ways = [WAYS[options.transport]] if options.transport else list(Way)
    revisions = [REVISIONS[options.revision]] if options.revision else list(REVISIONS.values())
    columns = [Column(way, revision) for way in ways for revision in revisions if way.exists(revision)]
    report = Report(columns, verbose=options.verbose)
    print(f"A server and a client, {len(FEATURES) + 1} features, {len(columns)} ways to connect.\n", flush=True)
    for column in columns:
        await show(column, report)
    print(report.table(), flush=True)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(trio.run(main, sys.argv[1:]))
