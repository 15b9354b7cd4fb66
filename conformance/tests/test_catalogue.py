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


async def do_nothing(_: ServerUnderTest) -> None:
    """Do nothing."""


def test_row_ids_are_unique_per_revision() -> None:
    pairs = Counter((row.id, revision) for row in catalogue().rows for revision in row.revisions)
    doubles = [pair for pair, count in pairs.items() if count > 1]
    # Rows of one id differ in revision or actor.
    assert doubles == []


def test_rows_name_known_revisions() -> None:
    assert {revision for row in catalogue().rows for revision in row.revisions} == set(REVISIONS)


def test_internal_rows_have_reason() -> None:
    silent = [row.id for row in catalogue().rows if row.observable is Observable.INTERNAL and not row.reason]
    assert silent == []


@pytest.mark.parametrize("role", list(Role))
def test_reasons_match_only_unchecked_requirements(role: Role) -> None:
    from fnmatch import fnmatchcase

    proven = {(id, revision) for check in CHECKS[role] for id in check.proves for revision in check.revisions}
    for pattern in reasons(role):
        matching = [id for id in catalogue().ids if fnmatchcase(id, pattern)]
        assert matching, pattern
        # A requirement checked in some revisions may have a reason for the others.
        assert any((id, revision) not in proven for id in matching for revision in catalogue().revisions(id)), pattern


def test_coverage_adds_up() -> None:
    for row in coverage():
        assert len(row.checked) + len(row.excused) + len(row.open) == len(row.observable) <= len(row.all)


def test_coverage_table_with_every_lists_unchecked_requirements() -> None:
    short, long = list(coverage_lines()), list(coverage_lines(every=True))
    assert len(short) == 1 + len(REVISIONS) * len(Role) * len(Level)
    assert len(long) - len(short) == sum(len(row.open) + len(row.excused) for row in coverage())


@pytest.mark.parametrize(
    ("proves", "message"),
    [
        ((), "proves nothing"),
        (("jsonrpc.no-such",), "unknown requirements"),
        (("version.client-latest",), "does not oblige"),
    ],
)
def test_check_without_valid_requirement_raises(proves: tuple[str, ...], message: str) -> None:
    registry: Registry[ServerUnderTest] = Registry(Role.SERVER)
    with pytest.raises(ValueError, match=message):
        registry.add("area.check", do_nothing, title="A check", proves=proves)


def test_duplicate_check_id_raises() -> None:
    registry: Registry[ServerUnderTest] = Registry(Role.SERVER)
    registry.add("area.check", do_nothing, title="A check", proves=("version.server-echo",))
    with pytest.raises(ValueError, match="duplicate check"):
        registry.add("area.check", do_nothing, title="A check", proves=("version.server-echo",))


def test_check_revisions_and_transports_follow_requirements() -> None:
    registry: Registry[ServerUnderTest] = Registry(Role.SERVER)
    registry.add("area.check", do_nothing, title="A check", proves=("discover.implemented",))
    check = registry["area.check"]
    assert check.revisions == {"2026-07-28"}
    assert check.transports == set(Transport)
    assert check.level("2026-07-28") is Level.MUST


def test_packaged_catalogue_equals_source() -> None:
    """Compare the packaged copy with the source of the catalogue, if the source is available."""
    root = Path(__file__).resolve().parents[2]
    source = Path(os.environ.get("MCP_SCHEMA_DIR") or root.parent / "shared" / "spec" / "schema").parent
    sources = {name: (source / f"requirements-{name}.jsonl") for name in ("legacy", "modern")}
    package = root / "conformance" / "src" / "mcp_conformance" / "catalogue"
    for name, path in sources.items():
        if path.exists():
            packaged = [json.loads(line) for line in (package / f"{name}.jsonl").read_text().splitlines()]
            source_rows = [json.loads(line) for line in path.read_text().splitlines()]
            assert [row["text"] for row in packaged] == [row["text"] for row in source_rows]
            assert [row["id"] for row in packaged] == [row["id"] for row in source_rows]
