"""Tests of the coverage of the suite."""

from __future__ import annotations

from typing import Final

import pytest

from mcp_conformance.catalogue.requirements import Level, Observable
from mcp_conformance.model.check import Role
from mcp_conformance.suite.coverage import coverage
from mcp_core.revisions import REVISIONS

_COVERED: Final = {(row.role, row.level, row.revision): row for row in coverage()}
# The numbers of checked requirements, in the order of the revisions. They must not decrease.
_FLOOR: Final[dict[tuple[Role, Level], tuple[int, ...]]] = {
    (Role.SERVER, Level.MUST): (95, 124, 145, 238, 361),
    (Role.SERVER, Level.SHOULD): (39, 58, 64, 97, 127),
    (Role.SERVER, Level.MAY): (8, 13, 15, 29, 12),
    (Role.CLIENT, Level.MUST): (73, 95, 109, 193, 277),
    (Role.CLIENT, Level.SHOULD): (27, 36, 41, 70, 97),
    (Role.CLIENT, Level.MAY): (7, 12, 14, 26, 7),
}
_PERCENT: Final = 95


@pytest.mark.parametrize(("role", "level"), _FLOOR)
def test_checked_requirements_reach_floor(role: Role, level: Level) -> None:
    checked = tuple(len(_COVERED[role, level, name].checked) for name in REVISIONS)
    assert all(now >= floor for now, floor in zip(checked, _FLOOR[role, level], strict=True)), checked


@pytest.mark.parametrize("key", _COVERED, ids=lambda key: "-".join(map(str, (key[0].value, key[1].value, key[2]))))
def test_requirement_has_check_or_reason(key: tuple[Role, Level, str]) -> None:
    assert [row.id for row in _COVERED[key].open] == []


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("revision", list(REVISIONS))
def test_wire_observable_musts_reach_percentage(role: Role, revision: str) -> None:
    row = _COVERED[role, Level.MUST, revision]
    shown = [each for each in row.observable if each.observable is Observable.WIRE]
    checked = [each for each in row.checked if each.observable is Observable.WIRE]
    assert len(checked) * 100 >= len(shown) * _PERCENT, (len(checked), len(shown))
