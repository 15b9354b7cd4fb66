"""Requirements of the specification: each has a test that cites it, or one reason why it has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.requirements import citations, cited, reason, reasons
from documentation.requirement_tables import requirement_area, requirement_areas, requirement_counts
from mcp_conformance.catalogue.requirements import catalogue


def test_citations_found_with_their_tests() -> None:
    source = '@pytest.mark.spec("a.b", "c.d")\ndef test_x() -> None: ...\nCASE = pytest.mark.spec("a.b")'
    assert cited(source) == {"a.b": ["test_x", ""], "c.d": ["test_x"]}


def test_cited_requirements_exist() -> None:
    found = citations()
    assert len(found) > 800
    assert {name: tests for name, tests in found.items() if name not in catalogue().ids} == {}


def test_reasons_concern_existing_requirements_without_test() -> None:
    ids, tests, table = catalogue().ids, citations(), reasons()
    for pattern in table:
        assert any(reason({pattern: "x"}, id) for id in ids), f"{pattern} matches no requirement"
    assert [id for id in sorted(ids) if id in tests and reason(table, id) is not None] == []


def test_requirement_has_test_or_reason() -> None:
    tests, table = citations(), reasons()
    assert [id for id in sorted(catalogue().ids) if id not in tests and reason(table, id) is None] == []


def test_requirement_with_two_reasons_raises(tmp_path: Path) -> None:
    path = tmp_path / "reasons.toml"
    path.write_text('[[untestable]]\nreason = "x"\nids = ["a.b"]\n[[untestable]]\nreason = "y"\nids = ["a.b"]\n')
    with pytest.raises(ValueError, match=r"a\.b has two reasons"):
        reasons(path)


def test_requirement_tables_show_tests_and_reasons() -> None:
    tests, table = citations(), reasons()
    lines = {area: requirement_area(area) for area in requirement_areas()}
    for row in catalogue().rows:
        line = next(line for line in lines[row.area] if line.startswith(f"| `{row.id.partition('.')[2]}` "))
        assert row.level.value in line
        if row.id in tests:
            assert all(each.path in line for each in tests[row.id])
        else:
            assert (reason(table, row.id) or "Open.") in line
    assert f"| **all** | {len(catalogue().rows)} |" in requirement_counts()[-1]
