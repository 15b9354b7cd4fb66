"""The tables of the reference about the conformance suite: its checks, and the requirements without a check."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from documentation.markdown import markdown_table
from mcp_conformance.model.check import Role
from mcp_conformance.suite.checks import CHECKS
from mcp_conformance.suite.coverage import coverage
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_conformance.model.check import CheckInfo
    from mcp_conformance.suite.coverage import CoverageRow

__all__ = ["CONFORMANCE_TABLES"]


def _coverage() -> list[str]:
    return markdown_table(
        ["revision", "role", "level", "all", "observable", "checked", "no check possible", "open"],
        [
            [row.revision, row.role.value, row.level.value, *(str(len(each)) for each in _parts(row))]
            for row in coverage()
        ],
    )


def _parts(row: CoverageRow) -> tuple[tuple[object, ...], ...]:
    return (row.all, row.observable, row.checked, row.excused, row.open)


def _reasons(role: Role) -> list[str]:
    found: dict[str, list[str]] = {}
    for row in coverage():
        for requirement, reason in row.excused if row.role is role else ():
            ids = found.setdefault(reason, [])
            if requirement.id not in ids:
                ids.append(requirement.id)
    table = [[reason, ", ".join(f"`{id}`" for id in sorted(ids))] for reason, ids in sorted(found.items())]
    return markdown_table(["reason", "requirements"], table)


def _checks(role: Role) -> list[str]:
    rows = [
        [f"`{check.id}`", check.title, _level(check), _revisions(check), ", ".join(f"`{id}`" for id in check.proves)]
        for check in sorted(CHECKS[role], key=lambda check: check.id)
    ]
    return markdown_table(["check", "title", "level", "revisions", "proves"], rows)


def _level(check: CheckInfo) -> str:
    levels = dict.fromkeys(check.level(name).value for name in REVISIONS if name in check.revisions)
    return ", ".join(levels)


def _revisions(check: CheckInfo) -> str:
    names = [name for name in REVISIONS if name in check.revisions]
    return "all" if len(names) == len(REVISIONS) else ", ".join(names)


CONFORMANCE_TABLES: Final[Mapping[str, Callable[[], list[str]]]] = {
    "coverage": _coverage,
    "unchecked-of-servers": partial(_reasons, Role.SERVER),
    "unchecked-of-clients": partial(_reasons, Role.CLIENT),
    "checks-of-servers": partial(_checks, Role.SERVER),
    "checks-of-clients": partial(_checks, Role.CLIENT),
}
"""By name: the function that returns the lines of the table."""
