"""The benchmark of calls: this project, the official SDKs and the floor on the same machine, in turns.

    nox -s bench                        all parts, less than 15 minutes
    nox -s bench -- --quick             a quick estimate, for CI
    nox -s bench -- --only server       one part; several with commas
    nox -s bench -- --compare REV       the working tree and a revision, and which lines changed significantly
    nox -s bench -- --json FILE         where to write the results, in place of a new file in .bench

All sides do the same work: a raw peer, the same for all, sends or responds, and the CPU time of the measured process is
read from the system. Repetitions are interleaved, so that load of the machine affects all; the median of each is printed,
and the factors by which the official SDKs are slower. Ratios are portable, absolute figures are not. The floor is bare trio,
or trio and h11, doing the same input and output. npm installs the official TypeScript SDK; without npm, this side is left
out.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.compare import COMPARED_PARTS, EFFORT, compared, sides, text_of_change
from bench.fits import fit
from bench.growth import growths
from bench.http_calls import allow_connections
from bench.latency import latencies
from bench.measurements import PARTS, Effort, measured, without
from bench.page import html, slope_text
from bench.results import SDKS, Growth, LatencyPoint, ReportLine, Run, history, machine, revision, save
from bench.sides import TYPESCRIPT
from bench.typescript import install

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".bench"
"""The folder of results, which git ignores."""

FULL: Final = Effort(calls=1_000, repetitions=3, quick=False)
QUICK: Final = Effort(calls=500, repetitions=2, quick=True)
ALL_PARTS: Final = (*PARTS, "growth", "latency")
QUICK_PARTS: Final = ("server", "client", "start", "import", "http", "http-client")


def text_of(line: ReportLine) -> str:
    """Return a line of the report: the medians, the ratios of the official SDKs, and whether goals were reached."""
    sides = "  ".join(f"{name} {line.median(name):.1f}" for name in line.values)
    first = next(iter(line.values))
    ratio = "".join(f"  {name} {line.ratio(name, first):.2f} x" for name in SDKS if name in line.values)
    goals = "".join(f"  {goal.text()}: {'reached' if goal.reached(line) else 'MISSED'}" for goal in line.goals)
    return f"{line.title:<58} {sides} {line.unit}{ratio}{goals}"


def text_of_growth(growth: Growth) -> str:
    """Return the costs by size, a line for each side, and how they grow."""
    lines: list[str] = []
    for side in growth.values:
        medians = growth.medians(side)
        sizes = "  ".join(f"{size:,}: {cost:.1f}" for size, cost in zip(growth.sizes, medians, strict=True))
        model = slope_text(growth, fit(growth.sizes, medians))
        lines.append(f"{growth.title} by {growth.variable}, {side}:  {sizes} {growth.unit}  {model}")
    return "\n".join(lines)


def text_of_latency(point: LatencyPoint) -> str:
    """Return a line of the report about latency."""
    title = f"latency, {point.transport}, {point.side}, {point.percent} % of saturation ({point.rate:,.0f}/s)"
    return f"{title:<58} p50 {point.p50:.2f}  p99 {point.p99:.2f}  p99.9 {point.p999:.2f}  most {point.most:.2f} ms"


def new_run(*, quick: bool) -> Run:
    """Return a run without results."""
    return Run(
        revision=revision(ROOT),
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        python=platform.python_version(),
        official="",
        machine=machine(),
        load_at_end=0.0,
        quick=quick,
    )


def file_of(run: Run) -> Path:
    """Return the file in the folder of results for a run."""
    moment = run.time.replace(":", "").replace("+0000", "Z")
    return FOLDER / f"{moment}-{run.revision.commit[:10]}.json"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the chosen parts, print a table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer calls, repetitions and parts")
    parser.add_argument("--only", metavar="PART,...", help=f"measure only these parts: {', '.join(ALL_PARTS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to this file")
    parser.add_argument("--compare", metavar="REV", help="compare the working tree with this revision")
    options = parser.parse_args(arguments)
    if options.compare is None and importlib.util.find_spec("mcp") is None:
        parser.error("the official SDK (mcp) is not installed: run `nox -s bench`")
    wanted = options.only.split(",") if options.only else _parts(quick=options.quick, comparing=bool(options.compare))
    possible = ALL_PARTS if options.compare is None else tuple(PARTS)
    if unknown := sorted(set(wanted).difference(possible)):
        parser.error(f"no such part: {', '.join(unknown)}; the parts are {', '.join(possible)}")
    allow_connections(15_000)
    if options.compare is None:
        runs = measure(wanted, QUICK if options.quick else FULL)
    else:
        runs = compare_with(options.compare, wanted)
    try:
        # After each part, so that an interrupted run leaves its results.
        for run in runs:
            path = options.json or file_of(run)
            save(run, path)
            print(f"{sum(run.seconds.values()):.0f} s; results: {path}", flush=True)
    except subprocess.CalledProcessError as error:
        parser.error(str(error))
    if options.json is None:
        page = FOLDER / "index.html"
        page.write_text(html(history(FOLDER.glob("*.json"))), encoding="utf-8")
        print(f"page: {page}")


def _parts(*, quick: bool, comparing: bool) -> tuple[str, ...]:
    """Return the parts that are measured unless others are chosen."""
    if comparing:
        return COMPARED_PARTS
    return QUICK_PARTS if quick else ALL_PARTS


def measure(wanted: Sequence[str], effort: Effort) -> Iterator[Run]:
    """Measure parts beside the official SDKs, and print a line for each measurement. Yield the results after each part."""
    typescript = install()
    missing = () if typescript else (TYPESCRIPT.name,)
    run = attrs.evolve(new_run(quick=effort.quick), official=importlib.metadata.version("mcp"), typescript=typescript)
    lines: list[ReportLine] = []
    grown: list[Growth] = []
    points: list[LatencyPoint] = []
    seconds: dict[str, float] = {}
    for part in wanted:
        began = time.monotonic()
        if part == "growth":
            for growth in growths(effort):
                grown.append(growth)
                print(text_of_growth(growth), flush=True)
        elif part == "latency":
            for point in latencies(effort, missing):
                points.append(point)
                print(text_of_latency(point), flush=True)
        else:
            for measurement in PARTS[part](effort):
                lines.append(measured(part, without(measurement, missing), effort.repetitions))
                print(text_of(lines[-1]), flush=True)
        seconds[part] = round(time.monotonic() - began, 1)
        yield attrs.evolve(
            run,
            lines=tuple(lines),
            growths=tuple(grown),
            latencies=tuple(points),
            seconds=seconds,
            load_at_end=os.getloadavg()[0],
        )


def compare_with(name: str, wanted: Sequence[str]) -> Iterator[Run]:
    """Compare the working tree with a revision, and print a line for each measurement. Yield the results after each part.

    Raises:
        subprocess.CalledProcessError: git does not know the revision, or pip could not install something.
    """
    base = revision(ROOT, name)
    lines: list[ReportLine] = []
    seconds: dict[str, float] = {}
    with sides(ROOT, base.commit) as both:
        run = attrs.evolve(new_run(quick=False), base=base)
        print(f"{'':<50} {base.commit[:9]:>9} {'tree':>9}")
        for part in wanted:
            began = time.monotonic()
            for line in compared(part, PARTS[part](EFFORT), both, EFFORT.repetitions):
                lines.append(line)
                print(text_of_change(line), flush=True)
            seconds[part] = round(time.monotonic() - began, 1)
            yield attrs.evolve(run, lines=tuple(lines), seconds=seconds, load_at_end=os.getloadavg()[0])


if __name__ == "__main__":
    main()
