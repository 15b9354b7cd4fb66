"""Which requirements the checks prove, computed from the tables and from nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.catalogue import Actor, Level, Observable, catalogue
from mcp_conformance.checks import Role
from mcp_conformance.server import SERVER_CHECKS
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.catalogue import Requirement

__all__ = ["Covered", "coverage", "coverage_lines"]

_OBLIGED: Final = {
    Role.SERVER: frozenset({Actor.SERVER, Actor.BOTH}),
    Role.CLIENT: frozenset({Actor.CLIENT, Actor.BOTH}),
}


@attrs.frozen(kw_only=True)
class Covered:
    """The requirements of one revision that oblige one role."""

    revision: str
    """The revision."""
    role: Role
    """Whom they oblige."""
    level: Level
    """How much."""
    all: tuple[Requirement, ...]
    """All of them."""
    observable: tuple[Requirement, ...]
    """Those that can be seen."""
    checked: tuple[Requirement, ...]
    """Those that a check proves."""


def coverage() -> Iterator[Covered]:
    """What is covered: by revision, role and level."""
    proven = {
        Role.SERVER: {(id, revision) for check in SERVER_CHECKS for id in check.proves for revision in check.revisions},
        Role.CLIENT: set[tuple[str, str]](),
    }
    for revision in REVISIONS:
        for role in Role:
            for level in Level:
                rows = tuple(
                    row for row in catalogue().of(revision) if row.actor in _OBLIGED[role] and row.level is level
                )
                observable = tuple(row for row in rows if row.observable is not Observable.INTERNAL)
                yield Covered(
                    revision=revision,
                    role=role,
                    level=level,
                    all=rows,
                    observable=observable,
                    checked=tuple(row for row in observable if (row.id, revision) in proven[role]),
                )


def coverage_lines() -> Iterator[str]:
    """The table, for people."""
    yield f"{'revision':12}{'role':8}{'level':8}{'all':>6}{'observable':>12}{'checked':>9}"
    for row in coverage():
        counts = f"{len(row.all):>6}{len(row.observable):>12}{len(row.checked):>9}"
        yield f"{row.revision:12}{row.role.value:8}{row.level.value:8}{counts}"
