from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from mcp_conformance.catalogue.requirements import Level, Observable, catalogue
from mcp_conformance.drivers.server.under_test import ServerUnderTest
from mcp_conformance.model.check import Registry, Role, Transport
from mcp_conformance.suite.checks import CHECKS
from mcp_conformance.suite.coverage import coverage, coverage_lines, reasons
from mcp_core.revisions import REVISIONS


async def nothing(_: ServerUnderTest) -> None:
    """Nothing."""


def test_no_two_rows_have_one_id_in_one_revision() -> None:
    pairs = Counter((row.id, revision) for row in catalogue().rows for revision in row.revisions)
    doubles = [pair for pair, count in pairs.items() if count > 1]
    # Rows that differ in level by revision or actor stand apart, and are told apart by these.
    assert doubles == []


def test_every_row_is_of_a_known_revision() -> None:
    assert {revision for row in catalogue().rows for revision in row.revisions} == set(REVISIONS)


def test_what_cannot_be_seen_says_why() -> None:
    silent = [row.id for row in catalogue().rows if row.observable is Observable.INTERNAL and not row.reason]
    assert silent == []


@pytest.mark.parametrize("role", list(Role))
def test_no_reason_is_given_for_what_is_checked_or_does_not_exist(role: Role) -> None:
    from fnmatch import fnmatchcase

    proven = {(id, revision) for check in CHECKS[role] for id in check.proves for revision in check.revisions}
    for pattern in reasons(role):
        matching = [id for id in catalogue().ids if fnmatchcase(id, pattern)]
        assert matching, pattern
        # What is proved in some revisions may have a reason for the others.
        assert any((id, revision) not in proven for id in matching for revision in catalogue().revisions(id)), pattern


def test_coverage_adds_up() -> None:
    for row in coverage():
        assert len(row.checked) + len(row.excused) + len(row.open) == len(row.observable) <= len(row.all)


def test_the_table_names_every_requirement_without_a_check_when_asked() -> None:
    short, long = list(coverage_lines()), list(coverage_lines(every=True))
    assert len(short) == 1 + len(REVISIONS) * len(Role) * len(Level)
    assert len(long) - len(short) == sum(len(row.open) + len(row.excused) for row in coverage())


@pytest.mark.parametrize(
    ("proves", "told"),
    [
        ((), "proves nothing"),
        (("jsonrpc.no-such",), "unknown requirements"),
        (("version.client-latest",), "does not oblige"),
    ],
)
def test_a_check_that_cannot_be_is_refused(proves: tuple[str, ...], told: str) -> None:
    registry: Registry[ServerUnderTest] = Registry(Role.SERVER)
    with pytest.raises(ValueError, match=told):
        registry.add("area.check", nothing, title="A check", proves=proves)


def test_two_checks_of_one_name_are_refused() -> None:
    registry: Registry[ServerUnderTest] = Registry(Role.SERVER)
    registry.add("area.check", nothing, title="A check", proves=("version.server-echo",))
    with pytest.raises(ValueError, match="duplicate check"):
        registry.add("area.check", nothing, title="A check", proves=("version.server-echo",))


def test_revisions_and_transports_of_a_check_follow_from_its_requirements() -> None:
    registry: Registry[ServerUnderTest] = Registry(Role.SERVER)
    registry.add("area.check", nothing, title="A check", proves=("discover.implemented",))
    check = registry["area.check"]
    assert check.revisions == {"2026-07-28"}
    assert check.transports == set(Transport)
    assert check.level("2026-07-28") is Level.MUST


def test_the_catalogue_is_the_one_beside_the_project() -> None:
    """Where the source of the catalogue is at hand, the copy in the package has to say the same."""
    root = Path(__file__).resolve().parents[2]
    source = Path(os.environ.get("MCP_SCHEMA_DIR") or root.parent / "shared" / "spec" / "schema").parent
    kept = {name: (source / f"requirements-{name}.jsonl") for name in ("legacy", "modern")}
    package = root / "conformance" / "src" / "mcp_conformance" / "catalogue"
    for name, path in kept.items():
        if path.exists():
            ours = [json.loads(line) for line in (package / f"{name}.jsonl").read_text().splitlines()]
            theirs = [json.loads(line) for line in path.read_text().splitlines()]
            assert [row["text"] for row in ours] == [row["text"] for row in theirs]
            assert [row["id"] for row in ours] == [row["id"] for row in theirs]
