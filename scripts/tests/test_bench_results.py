from __future__ import annotations

import math
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.results import (
    Goal,
    Growth,
    InvalidResults,
    LatencyPoint,
    ReportLine,
    Revision,
    history,
    load,
    percentile,
    save,
)
from tests.bench_runs import EMPTY

LINE = ReportLine(
    part="server",
    title="server CPU",
    unit="us",
    values={"ours": (1.0, 3.0, 2.0), "official": (8.0, 9.0, 7.0), "floor": (0.0, 0.0, 1.0)},
    goals=(Goal(over="official", under="ours", least=4.0),),
)
RUN = attrs.evolve(
    EMPTY,
    lines=(LINE,),
    growths=(
        Growth(
            title="a call",
            unit="us",
            variable="tools",
            sizes=(10, 1000),
            values={"ours": ((1.0,), (2.0,))},
            expected="flat",
        ),
    ),
    latencies=(
        LatencyPoint(
            transport="stdio", side="ours", percent=50, rate=9.5, calls=7, p50=1.0, p99=2.0, p999=3.0, most=4.0
        ),
    ),
    seconds={"server": 1.5},
    base=Revision(commit="b" * 40, title="Before", changed=False),
)


def test_run_saved_and_loaded_is_equal(tmp_path: Path) -> None:
    save(RUN, tmp_path / "new" / "run.json")
    assert load(tmp_path / "new" / "run.json") == RUN


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1}', '{"version": 1, "lines": 5}'])
def test_document_of_another_format_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(InvalidResults, match=r"run\.json"):
        load(path)


def test_document_with_unknown_member_rejected(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    save(RUN, path)
    path.write_text(path.read_text().replace('"quick"', '"unknown": 1,\n "quick"'))
    with pytest.raises(InvalidResults):
        load(path)


def test_history_ordered_by_time_not_by_name(tmp_path: Path) -> None:
    old = attrs.evolve(RUN, time="2026-01-01T00:00:00+00:00")
    save(RUN, tmp_path / "a.json")
    save(old, tmp_path / "b.json")
    assert history(sorted(tmp_path.glob("*.json"))) == [old, RUN]


def test_line_ratio_is_of_medians() -> None:
    assert (LINE.median("ours"), LINE.median("official"), LINE.ratio("official", "ours")) == (2.0, 8.0, 4.0)


def test_line_ratio_to_nothing_is_infinite() -> None:
    assert LINE.ratio("ours", "floor") == math.inf


@pytest.mark.parametrize(
    ("goal", "reached", "text"),
    [
        (Goal(over="official", under="ours", least=4.0), True, "official/ours at least 4"),
        (Goal(over="official", under="ours", least=4.1), False, "official/ours at least 4.1"),
        (Goal(over="ours", under="official", most=0.25), True, "ours/official at most 0.25"),
        (Goal(over="ours", under="official", most=0.2), False, "ours/official at most 0.2"),
        (Goal(over="official", under="ours", least=1.0, most=3.0), False, "official/ours at least 1 and at most 3"),
    ],
)
def test_goal_reached_within_bounds(goal: Goal, reached: bool, text: str) -> None:
    assert (goal.reached(LINE), goal.text()) == (reached, text)


def test_goal_text_with_other_names_of_sides() -> None:
    goal = Goal(over="ours", under="typescript", most=0.95)
    assert goal.text({"typescript": "TypeScript"}) == "ours/TypeScript at most 0.95"


def test_growth_has_median_of_each_size() -> None:
    values = ((3.0, 1.0, 2.0), (5.0, 5.0, 6.0))
    growth = attrs.evolve(RUN.growths[0], values={"ours": values})
    assert growth.medians("ours") == (2.0, 5.0)


@pytest.mark.parametrize(("percent", "value"), [(50, 500), (99, 990), (99.9, 999), (100, 1000), (0.01, 1)])
def test_percentile_is_nearest_rank(percent: float, value: int) -> None:
    assert percentile(range(1000, 0, -1), percent) == value


def test_percentile_of_nothing_raises() -> None:
    with pytest.raises(ValueError, match="no value"):
        percentile([], 50)


@pytest.mark.property
@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0.1, 100))
def test_percentile_not_exceeded_by_that_many_values(values: list[float], percent: float) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) >= percent / 100 * len(values) - 1e-3
