from __future__ import annotations

import re
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.fits import fit
from bench.page import html, main, slope_text
from bench.plots import Curve, interval_plot, line_plot, number, ticks
from bench.ratios import Interval
from bench.results import Goal, Growth, LatencyPoint, ReportLine, Revision, save
from tests.bench_runs import EMPTY

GROWTH = Growth(
    title="tools/call",
    unit="us",
    variable="tools",
    sizes=(10, 1_000, 100_000),
    values={"ours": ((100.0, 101.0), (100.0, 99.0), (105.0, 104.0))},
    expected="flat",
)
RUN = attrs.evolve(
    EMPTY,
    lines=(
        ReportLine(
            part="server",
            title="server CPU, tools/call",
            unit="us",
            values={
                "ours": (100.0, 110.0),
                "official": (500.0, 550.0),
                "typescript": (200.0, 220.0),
                "floor": (20.0, 20.0),
            },
            goals=(Goal(over="official", under="ours", least=4.0), Goal(over="official", under="ours", least=9.0)),
        ),
        ReportLine(
            part="memory", title="memory of a session", unit="KiB", values={"ours": (3.0,), "official": (30.0,)}
        ),
    ),
    growths=(GROWTH,),
    latencies=(
        LatencyPoint(
            transport="HTTP", side="ours", percent=10, rate=300.0, calls=900, p50=1.5, p99=2.5, p999=9.5, most=12.0
        ),
        LatencyPoint(
            transport="HTTP", side="ours", percent=90, rate=2700.0, calls=8100, p50=2.5, p99=22.5, p999=29.5, most=32.0
        ),
    ),
)
LATER = attrs.evolve(
    RUN, revision=Revision(commit="b" * 40, title="Later", changed=True), time="2026-11-28T00:00:00+00:00", growths=()
)
COMPARED = attrs.evolve(
    LATER,
    time="2026-11-29T00:00:00+00:00",
    base=RUN.revision,
    growths=(),
    latencies=(),
    lines=(
        ReportLine(
            part="server", title="faster", unit="us", values={"base": (100.0, 101.0) * 4, "tree": (90.0, 91.0) * 4}
        ),
        ReportLine(
            part="server", title="slower", unit="us", values={"base": (100.0, 101.0) * 4, "tree": (110.0, 111.0) * 4}
        ),
    ),
)


def texts(page: str, tag: str) -> list[str]:
    return [re.sub(r"<[^>]+>", "", each) for each in re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", page, re.DOTALL)]


def test_page_names_versions_of_measured_sdks() -> None:
    both = html([attrs.evolve(RUN, typescript="2.4.0")])
    assert "Python SDK 2.3.0. TypeScript SDK 2.4.0." in both
    assert "TypeScript SDK 2" not in html([RUN])


def test_page_without_side_has_no_column_of_it() -> None:
    values = {side: each for side, each in RUN.lines[0].values.items() if side != "typescript"}
    page = html([attrs.evolve(RUN, lines=(attrs.evolve(RUN.lines[0], values=values),))])
    assert "TypeScript" not in page
    columns = texts(page.partition("<thead>")[2].partition("</thead>")[0], "th")
    assert columns == ["", "this project", "Python SDK", "floor", "Python / ours", "above the floor", "goals"]


def test_page_shows_medians_ratio_and_step_above_floor() -> None:
    page = html([RUN])
    row = page.partition("server CPU, tools/call</th>")[2].partition("</tr>")[0]
    assert texts(row, "td")[:7] == ["105 us", "525 us", "210 us", "20.0 us", "5.00", "2.00", "85.0 us"]
    assert texts(row, "div") == ["Python/ours at least 4: reached", "Python/ours at least 9: missed"]


def test_page_escapes_title_of_commit() -> None:
    page = html([RUN])
    assert "Do &lt;it&gt; &amp; that" in page
    assert "<it>" not in page


def test_page_without_script_and_foreign_source() -> None:
    page = html([RUN, LATER, COMPARED])
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=\"(?!#|data:)", page)


def test_page_part_is_from_newest_run_that_measured_it() -> None:
    other = attrs.evolve(LATER, lines=RUN.lines[1:], latencies=())
    page = html([RUN, other])
    server = page.partition(">Server over stdio</h2>")[2].partition("</p>")[0]
    memory = page.partition(">Memory</h2>")[2].partition("</p>")[0]
    assert ("aaaaaaaaaa" in server, "bbbbbbbbbb" in memory) == (True, True)


def test_page_history_needs_two_runs() -> None:
    assert "History by commit" not in html([RUN])
    assert "History by commit" not in html([RUN, COMPARED])
    assert "History by commit" not in html([RUN, attrs.evolve(LATER, lines=())])
    page = html([RUN, LATER])
    rows = page.partition('id="history-by-commit"')[2]
    assert texts(rows, "th")[1:3] == ["aaaaaaa", "bbbbbbb*"]
    assert texts(rows, "td")[:4] == ["5.00", "5.00", "2.00", "2.00"]
    names = [text for text in texts(rows, "th") if text.startswith("server CPU")]
    assert names == ["server CPU, tools/call (Python SDK)", "server CPU, tools/call (TypeScript SDK)"]


def test_page_comparison_names_significant_changes() -> None:
    page = html([RUN, COMPARED])
    rows = page.partition('id="comparison-of-two-revisions"')[2].partition("</table>")[0]
    assert texts(rows, "td")[4::5] == ["less than before", "more than before"]


def test_page_links_lead_to_headings() -> None:
    page = html([RUN, LATER, COMPARED])
    links = re.findall(r'href="#([^"]+)"', page)
    assert links
    assert sorted(links) == sorted(re.findall(r'<h2 id="([^"]+)"', page))


def test_page_plots_have_names_and_descriptions() -> None:
    page = html([RUN, LATER, COMPARED])
    plots = re.findall(
        r'<svg viewBox="0 0 400 [^>]*role="img"[^>]*aria-label="[^"]+"[^>]*><title>[^<]+</title><desc>[^<]+</desc>',
        page,
    )
    assert len(plots) == page.count("<figure>")


def test_page_command_writes_page(tmp_path: Path) -> None:
    save(RUN, tmp_path / "run.json")
    main([str(tmp_path / "run.json"), "--output", str(tmp_path / "page.html")])
    assert (tmp_path / "page.html").read_text() == html([RUN])


def test_page_command_rejects_other_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(SystemExit):
        main([str(tmp_path / "run.json"), "--output", str(tmp_path / "page.html")])
    assert "is no document of version" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("costs", "variable", "text"),
    [
        ((100.0, 100.0, 100.0), "tools", "flat: 100 us"),
        ((200.0, 400.0, 600.0), "tools", "logarithmic: 100 us more for ten times as many"),
        ((110.0, 1_100.0, 100_100.0), "tools", "linear: 100 us and 1,000 us for each 1,000"),
        ((110.0, 1_100.0, 100_100.0), "bytes", "linear: 100 us and 1,048,576 us for each MiB"),
        ((1.0, 1.0, 1e9), "tools", "no simple model (relative error 10000000%)"),
    ],
)
def test_slope_text_states_growth(costs: tuple[float, ...], variable: str, text: str) -> None:
    growth = attrs.evolve(GROWTH, variable=variable)
    assert re.sub(r"\d+%", "10000000%", slope_text(growth, fit(growth.sizes, costs))) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.01234, "0.0123"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1,234"), (float("inf"), "-")],
)
def test_number_has_three_digits(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.property
@given(st.floats(1e-3, 1e6), st.floats(1.01, 1e6), st.booleans())
def test_ticks_between_bounds_and_few(low: float, factor: float, logarithmic: bool) -> None:
    found = ticks(low, low * factor, logarithmic=logarithmic)
    assert all(low * (1 - 1e-6) <= each <= low * factor * (1 + 1e-6) for each in found)
    assert len(found) <= 14


def test_ticks_of_narrow_logarithmic_axis_are_even() -> None:
    assert ticks(0.75, 1.25, logarithmic=True) == pytest.approx([0.8, 0.9, 1.0, 1.1, 1.2])


POINTS = st.lists(st.tuples(st.floats(1, 1e6), st.floats(1e-2, 1e6)), min_size=1, max_size=8)


@pytest.mark.property
@given(POINTS, st.booleans(), st.booleans())
def test_line_plot_within_its_box(points: list[tuple[float, float]], log_x: bool, log_y: bool) -> None:
    figure = Element("figure")
    curve = Curve(name="a", points=points)
    line_plot(figure, "title", [curve], x_title="x", y_title="y", log_x=log_x, log_y=log_y)
    dots = figure.findall("./svg/circle")
    assert len(dots) == len(points)
    assert all(0 <= float(dot.attrib["cx"]) <= 400 and 0 <= float(dot.attrib["cy"]) <= 250 for dot in dots)


@pytest.mark.property
@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(1, 2), st.floats(1, 2)), min_size=1, max_size=8))
def test_interval_plot_within_its_box(found: list[tuple[float, float, float]]) -> None:
    figure = Element("figure")
    rows = [("a", Interval(low=low, ratio=low * up, high=low * up * more)) for low, up, more in found]
    interval_plot(figure, "title", rows, x_title="x")
    dots = figure.findall("./svg/circle")
    assert len(dots) == len(rows)
    assert all(0 <= float(dot.attrib["cx"]) <= 400 for dot in dots)


def test_plot_text_of_author_stays_text() -> None:
    page = html([attrs.evolve(RUN, lines=(attrs.evolve(RUN.lines[0], title="<b>&</b>"),))])
    svg = re.search(r'<svg viewBox="0 0 400.*?</svg>', page, re.DOTALL)
    assert svg is not None
    assert "<b>&</b>" in [each.text for each in fromstring(svg[0]).iter("text")]
