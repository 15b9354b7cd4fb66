"""The tables of faults: each check of a MUST is shown to see something, or it is written down why it is not."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import mutants
from mcp_conformance.catalogue.requirements import Level
from mcp_conformance.model.check import Role, Transport
from mcp_conformance.suite.checks import CHECKS
from mcp_core.revisions import REVISIONS
from mutants.auth.authorization_server import ISSUER_FAULTS
from mutants.auth.client_faults import CLIENT_FAULTS_AUTH
from mutants.auth.protected_server_faults import PROTECTED_FAULTS
from mutants.client_faults.table import CLIENT_FAULTS
from mutants.server_faults.table import FAULTS

if TYPE_CHECKING:
    from mcp_conformance.model.check import Facts
    from mutants.auth.authorization_server import IssuerFault
    from mutants.auth.protected_server_faults import ProtectedFault
    from mutants.client_faults.table import ClientFault

SURVIVORS = tomllib.loads((Path(mutants.__file__).parent / "survivors.toml").read_text("utf-8"))
ROLES = {"server": Role.SERVER, "client": Role.CLIENT}
MEANT = {
    "server": [
        *(row.caught_by for row in FAULTS.values()),
        *(row.caught_by for row in ISSUER_FAULTS),
        *(row.caught_by for row in PROTECTED_FAULTS),
    ],
    "client": [row.caught_by for row in (*CLIENT_FAULTS, *CLIENT_FAULTS_AUTH)],
}
CAUGHT = {role: {id for ids in rows for id in ids} for role, rows in MEANT.items()}


def checks(role: str) -> dict[str, Facts]:
    return {check.id: check for check in CHECKS[ROLES[role]]}


def obliges(check: Facts) -> bool:
    return any(check.level(revision) is Level.MUST for revision in check.revisions)


@pytest.mark.parametrize("table", [CLIENT_FAULTS, CLIENT_FAULTS_AUTH, ISSUER_FAULTS, PROTECTED_FAULTS])
def test_no_fault_is_entered_twice(table: tuple[ClientFault | IssuerFault | ProtectedFault, ...]) -> None:
    # One switch may be tried in several places, and there by several rows for several checks.
    twice = [row for row, count in Counter(table).items() if count > 1]
    assert twice == []


@pytest.mark.parametrize("role", ROLES)
def test_every_fault_is_meant_for_checks_that_there_are(role: str) -> None:
    assert sorted(CAUGHT[role] - set(checks(role))) == []


def test_a_fault_of_a_server_is_meant_for_checks_that_run_where_it_is_tried() -> None:
    known = checks("server")
    idle: list[str] = []
    for name, row in FAULTS.items():
        revision = (row.revisions or tuple(REVISIONS))[-1]
        mine = [known[id] for id in row.caught_by if revision in known[id].revisions]
        over = frozenset(Transport(each) for each in row.transports)
        idle += [f"{name}: {id}" for id in row.caught_by if known[id] not in mine or not known[id].transports & over]
        idle += [f"{name} over {each.value}" for each in over if not any(each in check.transports for check in mine)]
    assert idle == []


@pytest.mark.parametrize("role", ROLES)
def test_every_check_of_a_must_has_a_fault_that_it_sees_or_is_written_down(role: str) -> None:
    written = set(SURVIVORS["explained"][role])
    lacking = {id for id, check in checks(role).items() if obliges(check)} - CAUGHT[role]
    assert sorted(lacking - written) == [], "without a fault"
    assert sorted(written - lacking) == [], "written down without need"


@pytest.mark.parametrize("role", ROLES)
def test_every_reason_says_something(role: str) -> None:
    assert all(len(reason) > 20 for reason in SURVIVORS["explained"][role].values())


def test_every_switch_of_the_raw_peers_is_in_a_table() -> None:
    sources = [path.read_text("utf-8") for path in Path(mutants.__file__).parent.rglob("*.py")]
    switches = {word for source in sources for word in re.findall(r'\bwrong\("([a-z0-9/-]+)"', source)}
    assert len(switches) > 200
    rows = (*CLIENT_FAULTS, *CLIENT_FAULTS_AUTH, *PROTECTED_FAULTS)
    assert sorted(switches - {row.name for row in rows}) == []
