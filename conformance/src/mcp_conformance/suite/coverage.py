"""Coverage: the requirements that the checks prove, and the reasons for the others, computed from the tables."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.catalogue.requirements import Level, Observable, Party, catalogue
from mcp_conformance.model.check import Role
from mcp_conformance.suite.checks import CHECKS
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_conformance.catalogue.requirements import Requirement

__all__ = ["CoverageRow", "coverage", "coverage_lines", "reasons"]

_OBLIGED: Final = {
    Role.SERVER: frozenset({Party.SERVER, Party.BOTH, Party.AUTHORIZATION_SERVER}),
    Role.CLIENT: frozenset({Party.CLIENT, Party.BOTH, Party.HOST}),
}


@attrs.frozen(kw_only=True)
class CoverageRow:
    """The requirements of one revision, role and level."""

    revision: str
    """The revision."""
    role: Role
    """The role that they oblige."""
    level: Level
    """Their level."""
    all: tuple[Requirement, ...]
    """All of them."""
    observable: tuple[Requirement, ...]
    """Those that are observable."""
    checked: tuple[Requirement, ...]
    """Those that a check proves."""
    excused: tuple[tuple[Requirement, str], ...]
    """Those that are observable and that no check can prove, with the reason."""
    open: tuple[Requirement, ...]
    """Those that no check covers, without a reason."""


@cache
def reasons(role: Role) -> Mapping[str, str]:
    """Return the reasons why no check can prove a requirement, by patterns of ids."""
    text = resources.files("mcp_conformance.catalogue").joinpath("unchecked.toml").read_text(encoding="utf-8")
    return {str(pattern): str(reason) for pattern, reason in tomllib.loads(text)[role.value].items()}


def _reason(id: str, role: Role) -> str | None:
    return next((reason for pattern, reason in reasons(role).items() if fnmatchcase(id, pattern)), None)


def coverage() -> Iterator[CoverageRow]:
    """Yield the coverage by revision, role and level."""
    proven = {
        role: {(id, revision) for check in CHECKS[role] for id in check.proves for revision in check.revisions}
        for role in Role
    }
    either = set().union(*proven.values())
    for role in Role:
        for revision in REVISIONS:
            obliging = [row for row in catalogue().of(revision) if row.actor in _OBLIGED[role]]
            for level in Level:
                rows = tuple(row for row in obliging if row.level is level)
                # What one side MAY do is tested at the peer, which has to accept it.
                yield _covered(revision, role, level, rows, either if level is Level.MAY else proven[role])


def _covered(
    revision: str, role: Role, level: Level, rows: tuple[Requirement, ...], proven: set[tuple[str, str]]
) -> CoverageRow:
    observable = tuple(row for row in rows if row.observable is not Observable.INTERNAL)
    left = [row for row in observable if (row.id, revision) not in proven]
    excused = tuple((row, reason) for row in left if (reason := _reason(row.id, role)) is not None)
    return CoverageRow(
        revision=revision,
        role=role,
        level=level,
        all=rows,
        observable=observable,
        checked=tuple(row for row in observable if (row.id, revision) in proven),
        excused=excused,
        open=tuple(row for row in left if _reason(row.id, role) is None),
    )


def coverage_lines(*, every: bool = False) -> Iterator[str]:
    """Yield the lines of the table as text.

    Args:
        every: Whether to list each requirement without a check.
    """
    yield f"{'revision':12}{'role':8}{'level':8}{'all':>6}{'observable':>12}{'checked':>9}{'excused':>9}{'open':>6}"
    for row in coverage():
        counts = (row.all, row.observable, row.checked, row.excused, row.open)
        widths = (6, 12, 9, 9, 6)
        columns = "".join(f"{len(each):>{width}}" for each, width in zip(counts, widths, strict=True))
        yield f"{row.revision:12}{row.role.value:8}{row.level.value:8}{columns}"
        if every:
            yield from (f"    open     {each.id}: {each.text}" for each in row.open)
            yield from (f"    excused  {each.id}: {reason}" for each, reason in row.excused)
