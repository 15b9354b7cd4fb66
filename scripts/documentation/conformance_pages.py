"""The pages of the reference about the conformance suite: its checks, and the requirements without a check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from documentation.reference_tables import markdown_page, markdown_table
from mcp_conformance.model.check import Role
from mcp_conformance.suite.checks import CHECKS
from mcp_conformance.suite.coverage import coverage
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_conformance.model.check import CheckInfo
    from mcp_conformance.suite.coverage import CoverageRow

__all__ = ["conformance_pages"]


def conformance_pages() -> dict[str, str]:
    """Return the pages, by file name."""
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
        "Coverage of the conformance suite",
        "The numbers of requirements of the catalogue, of those that are observable from outside, and of those that a check proves;\n"
        "and the reasons where no check is possible. A requirement counts in each revision that has it. An option (MAY) of one\n"
        "side counts as checked if a check proves that its peer tolerates it. `mcp-conformance coverage` prints the same.",
        counts,
        *reasons,
    )


def _parts(row: CoverageRow) -> tuple[tuple[object, ...], ...]:
    return (row.all, row.observable, row.checked, row.excused, row.open)


def _reasons(rows: Sequence[CoverageRow], role: Role) -> list[str]:
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
        f"The checks of `mcp-conformance {role.value}`. The level is that of the strictest requirement. `mcp-conformance explain ID`\n"
        "describes one of them.",
        markdown_table(["check", "title", "level", "revisions", "proves"], rows),
    )


def _level(check: CheckInfo) -> str:
    levels = dict.fromkeys(check.level(name).value for name in REVISIONS if name in check.revisions)
    return ", ".join(levels)


def _revisions(check: CheckInfo) -> str:
    names = [name for name in REVISIONS if name in check.revisions]
    return "all" if len(names) == len(REVISIONS) else ", ".join(names)
