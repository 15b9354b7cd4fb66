"""The results of a run of `nox -s bench`, and their JSON document.

The document contains each repetition, so that a later reader can judge the noise. Its format has a version; a document of
another version is rejected.
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import subprocess
from typing import TYPE_CHECKING, Final

import attrs
from cattrs.errors import BaseValidationError
from cattrs.preconf.json import make_converter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = [
    "SDKS",
    "Goal",
    "Growth",
    "InvalidResults",
    "LatencyPoint",
    "Machine",
    "ReportLine",
    "Revision",
    "Run",
    "history",
    "load",
    "machine",
    "percentile",
    "revision",
    "save",
]

VERSION: Final = 1

SDKS: Final = {"official": "Python SDK", "typescript": "TypeScript SDK"}
"""The official SDKs, by the name of the side."""

_CONVERTER: Final = make_converter(forbid_extra_keys=True)


class InvalidResults(ValueError):
    """A file that is not a document of this version."""


@attrs.frozen(kw_only=True)
class Goal:
    """Bounds for the ratio of the medians of two sides."""

    over: str
    """The side above the fraction line."""
    under: str
    least: float | None = None
    most: float | None = None

    def reached(self, line: ReportLine) -> bool:
        """Return whether a line is within the bounds."""
        ratio = line.ratio(self.over, self.under)
        return (self.least is None or ratio >= self.least) and (self.most is None or ratio <= self.most)

    def text(self, names: Mapping[str, str] | None = None) -> str:
        """Return the bounds in words. `names`: other names of sides."""
        over, under = (name if names is None else names.get(name, name) for name in (self.over, self.under))
        bounds = (("at least", self.least), ("at most", self.most))
        wanted = " and ".join(f"{name} {bound:g}" for name, bound in bounds if bound is not None)
        return f"{over}/{under} {wanted}"


@attrs.frozen(kw_only=True)
class ReportLine:
    """A measurement of several sides, in turns."""

    part: str
    """The part of the benchmark, as `--only` names it."""
    title: str
    unit: str
    values: dict[str, tuple[float, ...]]
    """The repetitions of each side, by its name. Those with the same index were measured together."""
    goals: tuple[Goal, ...] = ()

    def median(self, side: str) -> float:
        """Return the median of a side."""
        return statistics.median(self.values[side])

    def ratio(self, over: str, under: str) -> float:
        """Return the ratio of the medians of two sides."""
        below = self.median(under)
        return self.median(over) / below if below else math.inf


@attrs.frozen(kw_only=True)
class Growth:
    """The cost of one operation at several sizes."""

    title: str
    unit: str
    variable: str
    """What is counted by the sizes, such as `tools`."""
    sizes: tuple[int, ...]
    values: dict[str, tuple[tuple[float, ...], ...]]
    """The repetitions of each size, by the name of the side."""
    expected: str
    """The permitted growth: `flat`, `logarithmic` or `linear`."""

    def medians(self, side: str) -> tuple[float, ...]:
        """Return the median of each size."""
        return tuple(statistics.median(each) for each in self.values[side])


@attrs.frozen(kw_only=True)
class LatencyPoint:
    """The latency of a side at one rate of arrivals, measured from the intended time of sending. Milliseconds."""

    transport: str
    side: str
    percent: int
    """The rate of arrivals in percent of the saturation of this side."""
    rate: float
    """Arrivals per second."""
    calls: int
    p50: float
    p99: float
    p999: float
    most: float


@attrs.frozen(kw_only=True)
class Revision:
    """The source that was measured."""

    commit: str
    title: str
    changed: bool
    """Whether the working tree has changes that are not committed."""


@attrs.frozen(kw_only=True)
class Machine:
    """The machine and its load, by which a reader judges absolute figures."""

    system: str
    processor: str
    cores: int
    load_at_start: float
    """The average number of runnable processes in the last minute."""


@attrs.frozen(kw_only=True)
class Run:
    """The results of one run."""

    version: int = VERSION
    revision: Revision
    time: str
    """The start, in ISO 8601 and UTC."""
    python: str
    official: str
    """The version of the official Python SDK; empty if it was not measured."""
    machine: Machine
    load_at_end: float
    quick: bool
    lines: tuple[ReportLine, ...] = ()
    growths: tuple[Growth, ...] = ()
    latencies: tuple[LatencyPoint, ...] = ()
    seconds: dict[str, float] = attrs.field(factory=dict)
    """The duration of each part."""
    base: Revision | None = None
    """The revision with which the working tree was compared: the sides are `base` and `tree`."""
    typescript: str = ""
    """The version of the official TypeScript SDK; empty if it was not measured."""


def save(run: Run, path: Path) -> None:
    """Write a run to a file, whose folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_CONVERTER.unstructure(run), indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> Run:
    """Read a run from a file.

    Raises:
        InvalidResults: The file contains no document of this version.
    """
    try:
        document: object = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict) or document.get("version") != VERSION:
            raise InvalidResults(f"{path} is no document of version {VERSION}")
        return _CONVERTER.structure(document, Run)
    except (json.JSONDecodeError, BaseValidationError) as error:
        raise InvalidResults(f"{path} is no document of version {VERSION}: {error}") from error


def history(paths: Iterable[Path]) -> list[Run]:
    """Return the runs of several files, from the oldest to the newest.

    Raises:
        InvalidResults: A file contains no document of this version.
    """
    return sorted((load(path) for path in paths), key=lambda run: run.time)


def percentile(values: Iterable[float], percent: float) -> float:
    """Return the value that `percent` percent of the values do not exceed (nearest rank).

    Args:
        values: At least one value.
        percent: More than 0, at most 100.

    Raises:
        ValueError: There is no value.
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no value")
    # The rank is a whole number for 99.9 % of 1,000 values, although 0.999 * 1,000 is not exactly 999.
    return ordered[max(0, math.ceil(round(percent / 100 * len(ordered), 6)) - 1)]


def machine() -> Machine:
    """Return the facts of this machine."""
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        processor=platform.processor() or platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        load_at_start=os.getloadavg()[0],
    )


def revision(root: Path, name: str = "HEAD") -> Revision:
    """Return a revision of a checkout.

    Args:
        root: The checkout.
        name: The revision; for `HEAD`, changes of the working tree count.

    Raises:
        subprocess.CalledProcessError: git does not know the revision.
    """
    commit, _, title = _git(root, "log", "-1", "--format=%H %s", name).partition(" ")
    changed = name == "HEAD" and bool(_git(root, "status", "--porcelain", "--untracked-files=no"))
    return Revision(commit=commit, title=title, changed=changed)


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
