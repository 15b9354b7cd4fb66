"""The matrix of the page: areas by revision and transport."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from mcp_conformance.reports.html.elements import add, slug
from mcp_conformance.scoring.score import Score

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from xml.etree.ElementTree import Element

    from mcp_conformance.model.verdict import Leg, Verdict
    from mcp_conformance.scoring.score import ScoredRun

__all__ = ["columns", "head_row", "matrix_section", "opens_group"]

_WORST: Final = (Score.BROKEN, Score.FAILED, Score.WARNING, Score.NOT_TESTABLE, Score.KNOWN, Score.PASSED)
"""The order of the scores that determine the color of a cell: the first that occurs."""
_KEYS: Final = (
    (Score.PASSED, "all"),
    (Score.NOT_TESTABLE, "some with a warning, not testable, or expected to fail"),
    (Score.FAILED, "some failed"),
)
"""The legend of the colors."""


def matrix_section(main: Element, scored: ScoredRun, anchors: Mapping[int, str]) -> None:
    """Add the matrix.

    Args:
        main: The parent element.
        scored: The run.
        anchors: The anchors of the failures, by the identity of their verdicts.
    """
    legs = columns(scored)
    section = add(main, "section", id="matrix")
    add(section, "h2", "By area, revision and transport")
    legend = add(section, "p", "Number of checks that passed, of those that apply:")
    for verdict_score, meaning in _KEYS:
        add(legend, "span", meaning, cls=f"key {slug(verdict_score.value)}")
    table = add(add(section, "div", cls="wide", tabindex="0"), "table")
    add(table, "caption", "Number of checks that passed, of those that apply", cls="said")
    head_row(add(table, "thead"), "area", legs)
    areas = dict.fromkeys(verdict.check.partition(".")[0] for verdict in scored.run.verdicts)
    body = add(table, "tbody")
    for area in sorted(areas):
        row = add(body, "tr")
        add(add(row, "th", scope="row"), "a", area, href=f"#area-{slug(area)}")
        for number, leg in enumerate(legs):
            matching = [verdict for verdict in scored.run.of(leg) if verdict.check.partition(".")[0] == area]
            _cell(add(row, "td", cls="way" if opens_group(legs, number) else ""), scored, matching, anchors)


def _cell(cell: Element, scored: ScoredRun, matching: Sequence[Verdict], anchors: Mapping[int, str]) -> None:
    scores = [scored.score_of(verdict) for verdict in matching]
    worst = next((each for each in _WORST if each in scores), None)
    if worst is None:
        add(cell, "span", "\N{EN DASH}" if matching else "", cls="none")
        return
    passed = scores.count(Score.PASSED)
    applying = sum(each in _WORST for each in scores)
    text = str(passed) if passed == applying else f"{passed} of {applying}"
    anchor = next((anchors[id(verdict)] for verdict in matching if id(verdict) in anchors), None)
    if anchor is None:
        add(cell, "span", text, cls=slug(worst.value))
    else:
        add(cell, "a", text, cls=slug(worst.value), href=f"#{anchor}")


def columns(scored: ScoredRun) -> list[Leg]:
    """Return the legs that ran, by transport."""
    return sorted((leg for leg in scored.run.legs if leg.refusal is None), key=lambda leg: leg.transport)


def head_row(head: Element, first: str, legs: Sequence[Leg]) -> None:
    """Add the two head rows of a table with a column for each leg: transports above revisions.

    Args:
        head: The `thead`.
        first: The heading of the first column.
        legs: The legs.
    """
    over, under = add(head, "tr"), add(head, "tr")
    add(over, "th", first, rowspan="2", scope="col")
    widths = Counter(leg.transport for leg in legs)
    for number, leg in enumerate(legs):
        if opens_group(legs, number):
            add(over, "th", leg.transport, colspan=str(widths[leg.transport]), scope="colgroup", cls="way")
        add(under, "th", leg.revision, scope="col", cls="way" if opens_group(legs, number) else "")


def opens_group(legs: Sequence[Leg], number: int) -> bool:
    """Return whether a column is the first of its transport."""
    return number == 0 or legs[number - 1].transport != legs[number].transport
