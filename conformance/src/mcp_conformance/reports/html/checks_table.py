"""The table with all checks of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_conformance.reports.html.elements import add, prose, requirement, slug
from mcp_conformance.reports.html.filters import filterable
from mcp_conformance.reports.html.matrix import columns, head_row, opens_group
from mcp_conformance.suite.checks import find

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from xml.etree.ElementTree import Element

    from mcp_conformance.model.check import CheckInfo
    from mcp_conformance.model.verdict import Leg, Verdict
    from mcp_conformance.scoring.score import ScoredRun

__all__ = ["checks_section"]


def checks_section(main: Element, scored: ScoredRun, anchors: Mapping[int, str]) -> None:
    """Add the table.

    Args:
        main: The parent element.
        scored: The run.
        anchors: The anchors of the failures, by the identity of their verdicts.
    """
    legs = columns(scored)
    section = add(main, "section", id="checks")
    rows: dict[str, dict[tuple[str, str], Verdict]] = {}
    for verdict in scored.run.verdicts:
        rows.setdefault(verdict.check, {})[verdict.revision, verdict.transport] = verdict
    add(section, "h2", f"Checks: {len(rows)}")
    table = add(add(section, "div", cls="wide", tabindex="0"), "table")
    add(table, "caption", "Score of each check", cls="said")
    head_row(add(table, "thead"), "check", legs)
    area, body = "", table
    for id in sorted(rows):
        check = find(id, scored.run.role)
        if check.area != area:
            area, body = check.area, add(table, "tbody")
            heading = add(body, "tr", cls="area", id=f"area-{slug(area)}")
            add(heading, "th", area, scope="rowgroup", colspan=str(len(legs) + 1))
        _row(body, scored, check, rows[id], legs=legs, anchors=anchors)


def _row(
    body: Element,
    scored: ScoredRun,
    check: CheckInfo,
    verdicts: Mapping[tuple[str, str], Verdict],
    *,
    legs: Sequence[Leg],
    anchors: Mapping[int, str],
) -> None:
    row = add(body, "tr", cls="check")
    filterable(row, scored, verdicts.values())
    _name(add(row, "th", scope="row"), check, [revision for revision, _ in verdicts])
    for number, leg in enumerate(legs):
        verdict = verdicts.get((leg.revision, leg.transport))
        way = "way" if opens_group(legs, number) else ""
        if verdict is None:
            add(row, "td", cls=way)
            continue
        verdict_score = scored.score_of(verdict).value
        cell = add(row, "td", cls=f"{slug(verdict_score)} {way}".strip(), title=verdict.reason or verdict_score)
        anchor = anchors.get(id(verdict))
        add(cell if anchor is None else add(cell, "a", href=f"#{anchor}"), "span", verdict_score, cls="said")


def _name(cell: Element, check: CheckInfo, revisions: Sequence[str]) -> None:
    """Fill the first cell of a row: the check, and its requirements when unfolded."""
    details = add(cell, "details")
    summary = add(details, "summary")
    add(summary, "code", check.id).tail = " "
    prose(add(summary, "span", cls="title"), check.title)
    entries = add(details, "ul", cls="requirements")
    # A requirement may have the same words in several revisions: the link is that of the last one.
    rows = {row: name for name in sorted(revisions) for row in check.requirements(name)}
    for row, name in rows.items():
        requirement(entries, row, name)
