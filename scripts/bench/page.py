"""The results of benchmark runs as one self-contained HTML page: `python scripts/bench/page.py RESULTS... --output PAGE`.

Each part of the benchmark shows the newest run that measured it; several runs also give a history by commit. The page needs
no script. Its content security policy allows only its own style.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element, SubElement, tostring

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.fits import fit
from bench.plots import Curve, interval_plot, line_plot, number
from bench.ratios import change, interval
from bench.results import SDKS, InvalidResults, history
from mcp_conformance.reports.html.elements import add, slug

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.fits import Fit
    from bench.ratios import Interval
    from bench.results import Growth, LatencyPoint, ReportLine, Run

__all__ = ["html", "slope_text"]

TITLES: Final = {
    "server": "Server over stdio",
    "client": "Client over stdio",
    "start": "Start of a server",
    "import": "Import",
    "http": "Server over HTTP",
    "http-client": "Client over HTTP",
    "asgi": "Server under uvicorn",
    "client-forms": "Forms of the client",
    "memory": "Memory",
}
NAMES: Final = {"ours": "this project", **SDKS}
COLORS: Final = {"ours": 0, "official": 1, "floor": 2, "typescript": 4}
CHANGES: Final = {
    "less": "less than before",
    "more": "more than before",
    "none": "no significant change",
    "unknown": "too few repetitions",
}
GOALS: Final = "goals"
"""The column of goals, and the style class of its cells."""
MIB: Final = 1 << 20
SHOWN_COMMITS: Final = 6


def html(runs: Sequence[Run]) -> str:
    """Return runs as a page.

    Args:
        runs: The runs, from the oldest to the newest, at least one.
    """
    root = Element("html", lang="en")
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    head = SubElement(root, "head")
    SubElement(head, "meta", charset="utf-8")
    SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:"
    SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": policy})
    add(head, "title", "Benchmark results")
    add(head, "link", rel="icon", href="data:,")
    add(head, "style", style)
    body = SubElement(root, "body")
    header = add(body, "header")
    add(header, "h1", "Benchmark results")
    add(
        header,
        "p",
        "CPU time, latency and memory of this project beside the official SDKs and beside the floor: bare trio, or trio and h11, "
        "that do the same input and output. All sides are measured in turns. Ratios are portable, absolute figures depend on the machine.",
    )
    main = add(body, "main")
    sections: list[tuple[str, str]] = []

    def section(title: str, run: Run) -> Element:
        sections.append((slug(title), title))
        place = add(main, "section")
        heading = add(place, "h2", title, id=slug(title))
        place.set("aria-labelledby", heading.attrib["id"])
        add(place, "p", facts(run), cls="facts")
        return place

    plain = [run for run in runs if run.base is None]
    if compared := [run for run in runs if run.base is not None]:
        _comparison(section, compared[-1])
    for part, title in TITLES.items():
        if found := [run for run in plain if any(line.part == part for line in run.lines)]:
            lines = [line for line in found[-1].lines if line.part == part]
            _part(section(title, found[-1]), title, lines)
    if found := [run for run in plain if run.growths]:
        _growths(section("How cost grows", found[-1]), found[-1].growths)
    if found := [run for run in plain if run.latencies]:
        _latencies(section("Latency under load", found[-1]), found[-1].latencies)
    beside = [run for run in plain if any(side in line.values for line in run.lines for side in SDKS)]
    if len(beside) > 1:
        _history(section("History by commit", beside[-1]), beside)
    links = add(add(header, "nav"), "ul")
    for anchor, title in sections:
        add(add(links, "li"), "a", title, href=f"#{anchor}")
    return f"<!doctype html>\n{tostring(root, encoding='unicode', method='html')}\n"


def facts(run: Run) -> str:
    """Return the commit, the machine and its load in a sentence."""
    changed = " with changes" if run.revision.changed else ""
    versions = {"official": run.official, "typescript": run.typescript}
    against = "".join(f" {SDKS[side]} {version}." for side, version in versions.items() if version)
    quick = " A quick estimate." if run.quick else ""
    load = f"load {run.machine.load_at_start:.1f} at the start, {run.load_at_end:.1f} at the end"
    return (
        f"{run.time[:16].replace('T', ' ')} UTC, commit {run.revision.commit[:10]}{changed} ({run.revision.title}), "
        f"Python {run.python}, {run.machine.cores} cores, {load}.{against}{quick}"
    )


def slope_text(growth: Growth, found: Fit) -> str:
    """Return in words how a cost grows."""
    unit = growth.unit
    match found.kind:
        case "flat":
            return f"flat: {number(found.base)} {unit}"
        case "logarithmic":
            return f"logarithmic: {number(found.slope)} {unit} more for ten times as many"
        case "linear" if growth.variable == "bytes":
            return f"linear: {number(found.base)} {unit} and {number(found.slope * MIB)} {unit} for each MiB"
        case "linear":
            return f"linear: {number(found.base)} {unit} and {number(found.slope * 1000)} {unit} for each 1,000"
        case _:
            return f"no simple model (relative error {found.error:.0%})"


def _table(parent: Element, caption: str, columns: Sequence[str]) -> Element:
    """Add a table that scrolls sideways on a narrow screen, and return its body."""
    wide = add(parent, "div", cls="wide", tabindex="0", role="region")
    wide.set("aria-label", caption)
    table = add(wide, "table")
    row = add(add(table, "thead"), "tr")
    for column in columns:
        add(row, "th", column, scope="col", cls=column if column == GOALS else "")
    return add(table, "tbody")


def _row(rows: Element, name: str, cells: Sequence[str]) -> Element:
    row = add(rows, "tr")
    add(row, "th", name, scope="row")
    for cell in cells:
        add(row, "td", cell)
    return row


def _figure(parent: Element, caption: str) -> Element:
    figure = add(parent, "figure")
    add(figure, "figcaption", caption)
    return figure


def _ratio_rows(lines: Sequence[ReportLine], over: str, under: str | None = None) -> list[tuple[str, Interval]]:
    rows: list[tuple[str, Interval]] = []
    for line in lines:
        below = under or next(iter(line.values))
        if over in line.values and all(each > 0 for each in (*line.values[over], *line.values[below])):
            rows.append((line.title, interval(line.values[over], line.values[below])))
    return rows


def _part(place: Element, title: str, lines: Sequence[ReportLine]) -> None:
    """Add the table and the plot of a part."""
    sides = list(dict.fromkeys(side for line in lines for side in line.values))
    sdks = {side: name for side, name in SDKS.items() if side in sides}
    languages = {side: name.removesuffix(" SDK") for side, name in sdks.items()}
    ratios = [f"{language} / ours" for language in languages.values()]
    columns = ["", *(NAMES.get(side, side) for side in sides), *ratios, "above the floor", GOALS]
    rows = _table(place, title, columns)
    for line in lines:
        first = next(iter(line.values))
        cells = [f"{number(line.median(side))} {line.unit}" if side in line.values else "" for side in sides]
        cells += [f"{line.ratio(side, first):.2f}" if side in line.values else "" for side in sdks]
        above = line.median(first) - line.median("floor") if "floor" in line.values else None
        cells.append("" if above is None else f"{number(above)} {line.unit}")
        row = _row(rows, line.title, cells)
        goals = add(row, "td", cls=GOALS)
        for goal in line.goals:
            reached = goal.reached(line)
            text = f"{goal.text(languages)}: {'reached' if reached else 'missed'}"
            add(goals, "div", text, cls="reached" if reached else "missed")
    plots = add(place, "div", cls="plots")
    for side, name in sdks.items():
        if found := _ratio_rows(lines, side):
            x_title = f"{name} / this project, with the interval of the repetitions"
            caption = f"{title}: {name}, times as much as this project"
            interval_plot(_figure(plots, caption), caption, found, x_title=x_title)


def _comparison(section: Callable[[str, Run], Element], run: Run) -> None:
    """Add the comparison of two revisions."""
    assert run.base is not None
    place = section("Comparison of two revisions", run)
    add(place, "p", f"Compared with commit {run.base.commit[:10]} ({run.base.title}).")
    rows = _table(place, "Comparison", ["", "before", "now", "now / before", "99 % interval", "change"])
    for line in run.lines:
        found = interval(line.values["tree"], line.values["base"])
        verdict = change(line.values["tree"], line.values["base"])
        cells = [f"{number(line.median(side))} {line.unit}" for side in ("base", "tree")]
        row = _row(rows, line.title, [*cells, f"{found.ratio:.3f}", f"{found.low:.3f} to {found.high:.3f}"])
        add(row, "td", CHANGES[verdict], cls=verdict)
    figure = _figure(add(place, "div", cls="plots"), "Now / before, less is better")
    interval_plot(figure, "Now / before", _ratio_rows(run.lines, "tree", "base"), x_title="now / before")


def _growths(place: Element, growths: Sequence[Growth]) -> None:
    """Add the tables and plots of growth."""
    for variable in dict.fromkeys(growth.variable for growth in growths):
        group = [growth for growth in growths if growth.variable == variable]
        sizes = sorted({size for growth in group for size in growth.sizes})
        rows = _table(place, variable, [f"by number of {variable}", *(f"{size:,}" for size in sizes), "growth"])
        for growth in group:
            for side in growth.values:
                costs = dict(zip(growth.sizes, growth.medians(side), strict=True))
                cells = [f"{number(costs[size])} {growth.unit}" if size in costs else "" for size in sizes]
                found = fit(growth.sizes, growth.medians(side))
                cells.append(slope_text(growth, found))
                kind = "" if side == "floor" else "reached" if found.kind in {"flat", growth.expected} else "missed"
                _row(rows, f"{growth.title} ({NAMES.get(side, side)})", cells)[-1].set("class", kind)
    plots = add(place, "div", cls="plots")
    for growth in growths:
        curves = [
            Curve(
                name=NAMES.get(side, side),
                points=list(zip(growth.sizes, growth.medians(side), strict=True)),
                color=COLORS.get(side, 3),
                dashed=side == "floor",
            )
            for side in growth.values
        ]
        title = f"{growth.title}, by {growth.variable}"
        line_plot(
            _figure(plots, title),
            title,
            curves,
            x_title=growth.variable,
            y_title=growth.unit,
            log_x=True,
            log_y=growth.expected == "linear",
        )


def _latencies(place: Element, latencies: Sequence[LatencyPoint]) -> None:
    """Add the tables and plots of latency."""
    add(
        place,
        "p",
        "A handler that waits 1 ms. Calls arrive at random times, whether earlier calls have ended or not, at a rate in percent of what "
        "the side can do. The latency counts from the intended time of sending.",
    )
    columns = ["", "calls/s", "calls", "p50", "p99", "p99.9", "longest"]
    rows = _table(place, "Latency", columns)
    for point in latencies:
        name = f"{point.transport}, {NAMES.get(point.side, point.side)}, {point.percent} %"
        figures = [f"{number(each)} ms" for each in (point.p50, point.p99, point.p999, point.most)]
        _row(rows, name, [f"{point.rate:,.0f}", f"{point.calls:,}", *figures])
    plots = add(place, "div", cls="plots")
    for transport in dict.fromkeys(point.transport for point in latencies):
        curves: list[Curve] = []
        for side in dict.fromkeys(point.side for point in latencies):
            points = [point for point in latencies if (point.transport, point.side) == (transport, side)]
            for name, dashed in (("p50", False), ("p99.9", True)):
                values = [(float(point.percent), point.p50 if name == "p50" else point.p999) for point in points]
                title = f"{NAMES.get(side, side)}, {name}"
                curves.append(Curve(name=title, points=values, color=COLORS.get(side, 3), dashed=dashed))
        line_plot(
            _figure(plots, f"Latency over {transport}"),
            f"Latency over {transport}",
            [curve for curve in curves if curve.points],
            x_title="percent of saturation",
            y_title="ms",
            log_y=True,
        )


def _history(place: Element, runs: Sequence[Run]) -> None:
    """Add the ratios to the official SDKs by commit."""
    add(place, "p", "How many times as much the official SDKs need, by commit; * marks a commit with changes.")
    names = [f"{run.revision.commit[:7]}{'*' if run.revision.changed else ''}" for run in runs]
    found: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for position, run in enumerate(runs):
        for line in run.lines:
            for side in SDKS:
                if side in line.values:
                    ratio = line.ratio(side, next(iter(line.values)))
                    found.setdefault((line.part, line.title), {}).setdefault(side, {})[position] = ratio
    shown = range(len(runs))[-SHOWN_COMMITS:]
    rows = _table(place, "History", ["", *(names[position] for position in shown)])
    for (_, title), by_side in found.items():
        for side, ratios in by_side.items():
            cells = [f"{ratios[position]:.2f}" if position in ratios else "" for position in shown]
            _row(rows, f"{title} ({SDKS[side]})", cells)
    plots = add(place, "div", cls="plots")
    for (_, title), by_side in found.items():
        # A plot of several lines with both SDKs would not be legible.
        curves = [
            Curve(
                name=f"{SDKS[side]} / this project",
                points=[(float(at), each) for at, each in ratios.items()],
                color=COLORS[side],
            )
            for side, ratios in by_side.items()
            if len(ratios) > 1
        ]
        if curves:
            line_plot(_figure(plots, title), title, curves, x_title="commit", y_title="ratio", x_names=names)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+", help="JSON documents that `nox -s bench` has written")
    parser.add_argument("--output", type=Path, required=True, metavar="PAGE", help="the page to write")
    options = parser.parse_args(arguments)
    try:
        runs = history(options.results)
    except InvalidResults as error:
        parser.error(str(error))
    options.output.write_text(html(runs), encoding="utf-8")


if __name__ == "__main__":
    main()
