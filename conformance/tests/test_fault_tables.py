"""Tests of the fault tables: a check of a MUST requirement has a fault that it detects, or a written reason."""

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
from mutants.client_faults.variants import CLIENT_VARIANTS
from mutants.server_faults.table import FAULTS

if TYPE_CHECKING:
    from mcp_conformance.model.check import CheckInfo
    from mutants.auth.authorization_server import IssuerFault
    from mutants.auth.protected_server_faults import ProtectedFault
    from mutants.client_faults.table import ClientFault

SURVIVORS = tomllib.loads((Path(mutants.__file__).parent / "survivors.toml").read_text("utf-8"))
ROLES = {"server": Role.SERVER, "client": Role.CLIENT}
CAUGHT_BY = {
    "server": [
        *(row.caught_by for row in FAULTS.values()),
        *(row.caught_by for row in ISSUER_FAULTS),
        *(row.caught_by for row in PROTECTED_FAULTS),
    ],
    "client": [row.caught_by for row in (*CLIENT_FAULTS, *CLIENT_FAULTS_AUTH)],
}
DETECTED = {role: {id for ids in rows for id in ids} for role, rows in CAUGHT_BY.items()}


def checks(role: str) -> dict[str, CheckInfo]:
    return {check.id: check for check in CHECKS[ROLES[role]]}


def is_must(check: CheckInfo) -> bool:
    return any(check.level(revision) is Level.MUST for revision in check.revisions)


@pytest.mark.parametrize("table", [CLIENT_FAULTS, CLIENT_FAULTS_AUTH, ISSUER_FAULTS, PROTECTED_FAULTS])
def test_fault_rows_are_unique(table: tuple[ClientFault | IssuerFault | ProtectedFault, ...]) -> None:
    # A fault may have several rows, with other legs and other checks.
    duplicates = [row for row, count in Counter(table).items() if count > 1]
    assert duplicates == []


@pytest.mark.parametrize("role", ROLES)
def test_faults_name_existing_checks(role: str) -> None:
    assert sorted(DETECTED[role] - set(checks(role))) == []


def test_server_fault_checks_run_in_legs_of_fault() -> None:
    known = checks("server")
    idle: list[str] = []
    for name, row in FAULTS.items():
        revision = (row.revisions or tuple(REVISIONS))[-1]
        if not row.caught_by:
            continue
        running = [known[id] for id in row.caught_by if revision in known[id].revisions]
        transports = frozenset(Transport(each) for each in row.transports)
        idle += [
            f"{name}: {id}" for id in row.caught_by if known[id] not in running or not known[id].transports & transports
        ]
        idle += [
            f"{name} over {each.value}" for each in transports if not any(each in check.transports for check in running)
        ]
    assert idle == []


@pytest.mark.parametrize("role", ROLES)
def test_must_checks_have_fault_or_reason(role: str) -> None:
    explained = set(SURVIVORS["explained"][role])
    lacking = {id for id, check in checks(role).items() if is_must(check)} - DETECTED[role]
    assert sorted(lacking - explained) == [], "without a fault"
    assert sorted(explained - lacking) == [], "a reason without need"


@pytest.mark.parametrize("role", ROLES)
def test_reasons_are_longer_than_20_characters(role: str) -> None:
    assert all(len(reason) > 20 for reason in SURVIVORS["explained"][role].values())


def test_switches_of_raw_peers_are_in_tables() -> None:
    sources = [path.read_text("utf-8") for path in Path(mutants.__file__).parent.rglob("*.py")]
    switches = {word for source in sources for word in re.findall(r'\bwrong\("([a-z0-9/-]+)"', source)}
    assert len(switches) > 200
    rows = (*CLIENT_FAULTS, *CLIENT_VARIANTS, *CLIENT_FAULTS_AUTH, *PROTECTED_FAULTS)
    assert sorted(switches - {row.name for row in rows}) == []
