"""The pages of the reference about the tests of each requirement: a page for each area, and one with the counts."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from checks.requirements import citations, reasons, requirements
from documentation.reference_tables import markdown_page, markdown_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from checks.requirements import Citation, Reasons, Requirement

__all__ = ["FOLDER", "requirement_pages"]

FOLDER: Final = "requirements"
"""The folder of the pages in the reference."""

_UP: Final = "../../../"
_KINDS: Final = ("tested", "no test possible", "not yet", "open")


def requirement_pages() -> dict[str, str]:
    """Return the pages, by file name with the folder; an empty dict without the catalogues of requirements."""
    rows = requirements()
    if not rows:
        return {}
    tests, why = citations(), reasons()
    areas: dict[str, list[Requirement]] = {}
    for row in rows:
        areas.setdefault(row.area, []).append(row)
    found = {f"{FOLDER}/README.md": _index(areas, tests, why)}
    for area in sorted(areas):
        found[f"{FOLDER}/{area}.md"] = _area(area, areas[area], tests, why)
    return found


def _kind(row: Requirement, tests: Mapping[str, object], why: Reasons) -> str:
    if row.id in tests:
        return "tested"
    if why.of(row.id) is not None:
        return "no test possible"
    return "open" if why.delayed(row.id) is None else "not yet"


def _index(areas: Mapping[str, Sequence[Requirement]], tests: Mapping[str, Sequence[Citation]], why: Reasons) -> str:
    total: Counter[str] = Counter()
    rows = []
    for area in sorted(areas):
        counts = Counter(_kind(row, tests, why) for row in areas[area])
        total += counts
        rows.append([f"[{area}]({area}.md)", str(len(areas[area])), *(str(counts[kind]) for kind in _KINDS)])
    rows.append(["**all**", str(total.total()), *(str(total[kind]) for kind in _KINDS)])
    return markdown_page(
        "Requirements and their tests",
        "The requirements of the specification and the tests that prove them. A test cites a requirement by `@pytest.mark.spec`. A\n"
        "requirement without a test has a reason in `scripts/checks/requirements_untested.toml`. *Not yet*: the part of the project\n"
        "is not implemented. *Open*: neither test nor reason. A requirement of older revisions and of 2026-07-28 counts twice.",
        markdown_table(["area", "requirements", *_KINDS], rows),
    )


def _area(area: str, rows: Sequence[Requirement], tests: Mapping[str, Sequence[Citation]], why: Reasons) -> str:
    table = [
        [
            f"`{row.id.partition('.')[2]}`",
            row.level,
            row.actor,
            ", ".join(row.revisions),
            row.place,
            _proof(row, tests.get(row.id, ()), why),
        ]
        for row in rows
    ]
    return markdown_page(
        f"Requirements: {area}",
        f"An id is `{area}.` and the first column. The columns are explained in [all areas](README.md).",
        markdown_table(["id", "level", "role", "revisions", "place", "tests"], table),
    )


def _proof(row: Requirement, tests: Sequence[Citation], why: Reasons) -> str:
    if tests:
        return "<br>".join(_link(each) for each in tests)
    reason = why.of(row.id)
    if reason is not None:
        return f"No test possible: {reason}"
    later = why.delayed(row.id)
    return "Open." if later is None else f"Not yet: {later}"


def _link(citation: Citation) -> str:
    name = PurePosixPath(citation.path).stem
    return f"[{name}]({_UP}{citation.path}) {citation.test.removeprefix('test_').replace('_', ' ')}".rstrip()
