"""The comparison of the working tree with another revision: which lines of the benchmark changed significantly.

Both sides are checkouts with an environment of the same kind, created for the comparison: an environment with more packages
would start more slowly. The programs that are measured are those of the working tree for both sides, so the work is the same;
a line that the other revision cannot do is reported and left out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.measurements import Effort, measured, report
from bench.ratios import CONFIDENCE, change, interval
from bench.sides import Side
from environment import CONSTRAINTS, DISTRIBUTIONS, requirements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench.measurements import Measurement
    from bench.results import ReportLine

__all__ = ["COMPARED_PARTS", "EFFORT", "checkout", "compared", "environment_of", "sides", "text_of_change"]

EFFORT: Final = Effort(calls=1_000, repetitions=9, quick=False)
COMPARED_PARTS: Final = ("server", "client", "start", "import", "http", "http-client", "memory")
"""The parts that are compared unless others are chosen."""

HOSTS: Final = ("uvicorn", "uvloop")
"""What the programs need in addition to the distributions and the group `bench`."""

CHANGES: Final = {
    "less": "LESS",
    "more": "MORE",
    "none": "no significant change",
    "unknown": "too few repetitions",
}


@contextmanager
def checkout(root: Path, revision: str) -> Iterator[Path]:
    """Yield a worktree of a revision, and remove it at the end.

    Raises:
        subprocess.CalledProcessError: git does not know the revision.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder) / "checkout"
        _git(root, "worktree", "add", "--quiet", "--detach", str(path), revision)
        try:
            yield path
        finally:
            _git(root, "worktree", "remove", "--force", str(path))


def environment_of(root: Path, place: Path) -> str:
    """Create an environment with the distributions of a checkout, and return its interpreter.

    Args:
        root: The checkout.
        place: The folder of the new environment.

    Raises:
        subprocess.CalledProcessError: pip could not install something.
    """
    report(f"creating the environment of {root}")
    venv.create(place, with_pip=True, symlinks=True)
    python = str(place / "bin" / "python")
    needed = requirements(root, DISTRIBUTIONS, ("build", "bench"))
    editable = [argument for path in DISTRIBUTIONS for argument in ("--editable", str(root / path))]
    for arguments in (
        ["--constraint", str(root / CONSTRAINTS), *needed, *HOSTS],
        ["--no-deps", "--no-build-isolation", *editable],
    ):
        command = [python, "-m", "pip", "--disable-pip-version-check", "install", "-qq", *arguments]
        subprocess.run(command, check=True)
    return python


@contextmanager
def sides(root: Path, revision: str) -> Iterator[tuple[Side, Side]]:
    """Yield the side of a revision and the side of the working tree, with their environments.

    Raises:
        subprocess.CalledProcessError: git does not know the revision, or pip could not install something.
    """
    with checkout(root, revision) as path, tempfile.TemporaryDirectory(prefix="bench-") as folder:
        base = environment_of(path, Path(folder) / "base")
        tree = environment_of(root, Path(folder) / "tree")
        report("")
        yield Side("base", "ours", base), Side("tree", "ours", tree)


def compared(
    part: str, measurements: Iterable[Measurement], both: Sequence[Side], repetitions: int
) -> Iterator[ReportLine]:
    """Measure the lines of a part on both sides in turns. Print what cannot be measured."""
    for measurement in measurements:
        program = measurement.sides[0].program
        chosen = tuple(attrs.evolve(side, program=program) for side in both)
        try:
            yield measured(part, attrs.evolve(measurement, sides=chosen, goals=()), repetitions)
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
            print(f"{measurement.title}: not measured: {error}", flush=True)


def text_of_change(line: ReportLine) -> str:
    """Return a line of the report: both medians, their ratio with its confidence interval, and what it says."""
    found = interval(line.values["tree"], line.values["base"])
    said = CHANGES[change(line.values["tree"], line.values["base"])]
    return (
        f"{line.title:<50} {line.median('base'):>9.1f} {line.median('tree'):>9.1f} {line.unit:<4}"
        f" {found.ratio:.3f} ({CONFIDENCE:.0%}: {found.low:.3f} to {found.high:.3f})  {said}"
    )


def _git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), *arguments], check=True)
