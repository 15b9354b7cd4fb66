"""A demonstration of a server and a client of this project, in every revision of the protocol.

For each transport and each revision that has it, the program starts the server `server.py` as a process, with a copy of
a small folder of notes, and uses all its features through `mcp_client`. The result is a table: a row for each feature, a
column for each revision over each transport.

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
from session import Feature, Session, Transport

NOTES = {
    "house.md": "# The house\n\nThe roof leaks over the *kitchen*. Ask the roofer in May.\n",
    "garden.md": "# The garden\n\nTulips, quinces and a pear tree that needs cutting.\n",
    "trips/ghent.md": "# Ghent\n\nTrain at eight. The belfry, the altarpiece, waffles.\n",
}
ROOTS = {"attic.md": "# The attic\n\nBoxes, and a window that does not shut.\n"}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SECONDS = 10
"""The timeout of a feature."""

OK, ABSENT, FAILED = "ok", "—", "FAILED"

TRANSPORTS = {"stdio": Transport.STDIO, "http": Transport.HTTP, "http-sse": Transport.HTTP_SSE}
"""The transports by their names on the command line."""

WIDTHS = 34, 11
"""The widths of the first column of the table, and of the others."""


def make_folder(path: Path, notes: Mapping[str, str]) -> Path:
    """Create a small folder of notes, which the demonstration can change, and return its path."""
    for name, text in notes.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    (path / "pixel.png").write_bytes(base64.b64decode(PIXEL))
    return path


@dataclass(frozen=True)
class Column:
    """One revision over one transport."""

    transport: Transport
    revision: Revision

    def __str__(self) -> str:
        return f"{self.transport.value}, {self.revision}"


class Report:
    """The report: progress during the run, and a table at the end."""

    def __init__(self, columns: Sequence[Column], *, verbose: bool) -> None:
        self._columns = columns
        self._verbose = verbose
        self._cells: dict[tuple[str, Column], str] = {}
        self._reasons: list[str] = []
        self._seconds: dict[Column, float] = {}

    @property
    def failed(self) -> bool:
        """Whether a feature failed."""
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
        """Return the results as a table."""
        lines = ["", self._transports(), self._row("feature", [column.revision.name for column in self._columns])]
        lines.append("-" * len(lines[-1]))
        for feature in (*FEATURES, CLOSE):
            cells = [self._cells.get((feature.name, column), "not run") for column in self._columns]
            lines.append(self._row(feature.name, cells))
        lines.append(self._row("seconds", [f"{self._seconds.get(column, 0):.2f}" for column in self._columns]))
        lines += ["", f"{OK}: works    {ABSENT}: not in this revision"]
        if self._reasons:
            lines += ["", f"{FAILED}:", *(f"  {reason}" for reason in self._reasons)]
        return "\n".join(lines)

    def _transports(self) -> str:
        """Return the first line of the heading: each transport above its first column."""
        line = ""
        for number, column in enumerate(self._columns):
            if number == 0 or self._columns[number - 1].transport is not column.transport:
                line = f"{line:<{WIDTHS[0] + number * WIDTHS[1]}} {column.transport.value}"
        return line

    @staticmethod
    def _row(first: str, cells: Sequence[str]) -> str:
        return f"{first:<{WIDTHS[0]}}" + "".join(f"{cell:>{WIDTHS[1]}}" for cell in cells)


async def run_column(column: Column, report: Report) -> None:
    """Start the server, pinned to a revision, and use every feature."""
    report.begin(column)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder, roots = make_folder(Path(temporary, "notes"), NOTES), make_folder(Path(temporary, "roots"), ROOTS)
        session = Session(column.transport, column.revision, folder, roots)
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
    """Use one feature. Return the verdict and a description."""
    if not feature.supported_in(session.revision):
        return ABSENT, ""
    try:
        with trio.fail_after(SECONDS):
            return OK, await feature.run(session)
    except trio.TooSlowError:
        return FAILED, f"timed out after {SECONDS} seconds"
    except (AssertionError, McpError, OSError, ExceptionGroup) as error:
        return FAILED, f"{type(error).__name__}: {error}"


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--transport", choices=list(TRANSPORTS), help="use this transport only")
    parser.add_argument("--revision", choices=list(REVISIONS), help="use this revision only")
    parser.add_argument("--verbose", action="store_true", help="print the result of each feature")
    return parser.parse_args(argv)


async def main(argv: Sequence[str]) -> int:
    """Run the demonstration and return the exit status: 1 if a feature failed."""
    options = arguments(argv)
    transports = [TRANSPORTS[options.transport]] if options.transport else list(Transport)
    revisions = [REVISIONS[options.revision]] if options.revision else list(REVISIONS.values())
    columns = [
        Column(transport, revision) for transport in transports for revision in revisions if transport.is_in(revision)
    ]
    report = Report(columns, verbose=options.verbose)
    print(
        f"A server and a client: {len(FEATURES) + 1} features, {len(columns)} combinations of transport and revision.\n",
        flush=True,
    )
    for column in columns:
        await run_column(column, report)
    print(report.table(), flush=True)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(trio.run(main, sys.argv[1:]))
