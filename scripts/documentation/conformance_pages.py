"""Makes the pages of the reference about the conformance suite: what it checks, and what it does not, with the reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from documentation.reference_tables import markdown_page, markdown_table
from mcp_conformance.model.check import Role
from mcp_conformance.suite.checks import CHECKS
from mcp_conformance.suite.coverage import coverage
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_conformance.model.check import Facts
    from mcp_conformance.suite.coverage import Covered

__all__ = ["conformance_pages"]


def conformance_pages() -> dict[str, str]:
    """The pages, by file name."""
    return {
        "conformance-coverage.md": _coverage(),
        "conformance-checks-server.md": _checks(Role.SERVER),
        "conformance-checks-client.md": _checks(Role.CLIENT),
    }


def _coverage() -> str:
    rows = list(coverage())
    counts = markdown_table(
        ["revision", "role", "level", "all", "observable", "checked", "no check possible", "open"],
        [[row.revision, row.role.value, row.level.value, *(str(len(each)) for each in _parts(row))] for row in rows],
    )
    reasons = [[f"## No check possible of {role.value}s", "", *_reasons(rows, role)] for role in Role]
    return markdown_page(
        "What the conformance suite covers",
        "How many requirements of the catalogue can be seen from outside, how many of these a check proves, and for which there is\n"
        "none, with the reason. A requirement counts in each revision that has it. A liberty (MAY) of one side counts as checked\n"
        "where a check sees that the other side bears it. `mcp-conformance coverage` prints the same.",
        counts,
        *reasons,
    )


def _parts(row: Covered) -> tuple[tuple[object, ...], ...]:
    return (row.all, row.observable, row.checked, row.excused, row.open)


def _reasons(rows: Sequence[Covered], role: Role) -> list[str]:
    found: dict[str, list[str]] = {}
    for row in rows:
        for requirement, reason in row.excused if row.role is role else ():
            ids = found.setdefault(reason, [])
            if requirement.id not in ids:
                ids.append(requirement.id)
    table = [[reason, ", ".join(f"`{id}`" for id in sorted(ids))] for reason, ids in sorted(found.items())]
    return markdown_table(["reason", "requirements"], table)


def _checks(role: Role) -> str:
    rows = [
        [f"`{check.id}`", check.title, _level(check), _revisions(check), ", ".join(f"`{id}`" for id in check.proves)]
        for check in sorted(CHECKS[role], key=lambda check: check.id)
    ]
    return markdown_page(
        f"Checks of {role.value}s",
        f"What `mcp-conformance {role.value}` looks at. The level is that of the gravest requirement. `mcp-conformance explain ID` says\n"
        "more of one.",
        markdown_table(["check", "what it looks at", "level", "revisions", "proves"], rows),
    )


def _level(check: Facts) -> str:
    levels = dict.fromkeys(check.level(name).value for name in REVISIONS if name in check.revisions)
    return ", ".join(levels)


def _revisions(check: Facts) -> str:
    names = [name for name in REVISIONS if name in check.revisions]
    return "all" if len(names) == len(REVISIONS) else ", ".join(names)
