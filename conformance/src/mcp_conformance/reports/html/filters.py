"""The filters of the page: by status, level, area and text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_conformance.catalogue.requirements import Level
from mcp_conformance.reports.html.elements import add, slug
from mcp_conformance.scoring.score import Score
from mcp_conformance.suite.checks import find

if TYPE_CHECKING:
    from collections.abc import Iterable
    from xml.etree.ElementTree import Element

    from mcp_conformance.model.verdict import Verdict
    from mcp_conformance.scoring.score import ScoredRun

__all__ = ["filter_section", "filterable"]


def filter_section(main: Element, scored: ScoredRun) -> None:
    """Add the filters, which the script of the page shows."""
    counts = scored.counts()
    form = add(main, "form", id="filters", hidden="hidden", role="search")
    statuses = [(slug(each.value), f"{each.value} ({counts[each]})") for each in Score if counts[each]]
    levels = {find(verdict.check, scored.run.role).level(verdict.revision) for verdict in scored.run.verdicts}
    areas = sorted({find(verdict.check, scored.run.role).area for verdict in scored.run.verdicts})
    _choice(form, "status", statuses)
    _choice(form, "level", [(each.value.lower(), each.value) for each in Level if each in levels])
    _choice(form, "area", [(slug(each), each) for each in areas])
    label = add(form, "label", "Text ", cls="text")
    add(label, "input", type="search", name="text", autocomplete="off", placeholder="words of a check or message")
    add(form, "button", "Reset", type="reset")
    add(form, "output", id="shown", role="status")


def _choice(form: Element, name: str, values: Iterable[tuple[str, str]]) -> None:
    select = add(add(form, "label", f"{name.capitalize()} "), "select", name=name, autocomplete="off")
    add(select, "option", "all", value="")
    for value, text in values:
        add(select, "option", text, value=value)


def filterable(element: Element, scored: ScoredRun, verdicts: Iterable[Verdict]) -> None:
    """Set the attributes by which the filters find an element.

    Args:
        element: The element.
        scored: The run.
        verdicts: The verdicts that the element shows.
    """
    own = list(verdicts)
    checks = [find(verdict.check, scored.run.role) for verdict in own]
    values = {
        "data-status": [slug(scored.score_of(verdict).value) for verdict in own],
        "data-level": [check.level(verdict.revision).value.lower() for check, verdict in zip(checks, own, strict=True)],
        "data-area": [slug(check.area) for check in checks],
    }
    for name, words in values.items():
        element.set(name, " ".join(dict.fromkeys(words)))
