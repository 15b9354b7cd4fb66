"""The tables of the reference about the tests of each requirement: one for each area, and one with the counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from checks.requirements import citations, reason, reasons
from documentation.markdown import markdown_table
from mcp_conformance.catalogue.requirements import catalogue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from checks.requirements import Citation
    from mcp_conformance.catalogue.requirements import Requirement

__all__ = ["requirement_area", "requirement_areas", "requirement_counts"]

_KINDS: Final = ("tested", "no test possible", "open")


def requirement_areas() -> list[str]:
    """Return the areas, sorted: the first parts of the ids."""
    return sorted({row.area for row in catalogue().rows})


def requirement_counts() -> list[str]:
    """Return the lines of the table that counts the requirements of each area."""
    tests, why = citations(), reasons()
    total: Counter[str] = Counter()
    rows = []
    for area in requirement_areas():
        counts = Counter(_kind(row, tests, why) for row in catalogue().rows if row.area == area)
        total += counts
        rows.append([f"[{area}](requirements/{area}.md)", str(counts.total()), *(str(counts[kind]) for kind in _KINDS)])
    rows.append(["**all**", str(total.total()), *(str(total[kind]) for kind in _KINDS)])
    return markdown_table(["area", "requirements", *_KINDS], rows)


def requirement_area(area: str) -> list[str]:
    """Return the lines of the table of the requirements of an area, with their tests."""
    tests, why = citations(), reasons()
    rows = [
        [
            f"`{row.id.partition('.')[2]}`",
            row.level.value,
            row.actor.value,
            ", ".join(sorted(row.revisions)),
            row.place,
            _proof(row, tests.get(row.id, ()), why),
        ]
        for row in catalogue().rows
        if row.area == area
    ]
    return markdown_table(["id", "level", "role", "revisions", "place", "tests"], rows)


def _kind(row: Requirement, tests: Mapping[str, object], why: Mapping[str, str]) -> str:
    if row.id in tests:
        return "tested"
    return "open" if reason(why, row.id) is None else "no test possible"


def _proof(row: Requirement, tests: Sequence[Citation], why: Mapping[str, str]) -> str:
    if not tests:
        text = reason(why, row.id)
        return "Open." if text is None else f"No test possible: {text}"
    files: dict[str, list[str]] = {}
    for each in tests:
        files.setdefault(each.path, []).append(each.test.removeprefix("test_").replace("_", " "))
    return "<br>".join(
        f"`{path}`: {'; '.join(filter(None, names))}".removesuffix(": ") for path, names in files.items()
    )
