"""Requirements of the specification: each has a test that cites it, or one reason why it has none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from checks import official_schemas
from checks.requirements import Reasons, Requirement, citations, cited, reasons, requirements
from documentation.build import pages, stale
from documentation.requirement_pages import FOLDER, requirement_pages

OPEN = 0
"""Number of ids with neither a test nor a reason. It must not increase."""


def catalog() -> list[Requirement]:
    """Return the requirements. Without the catalogs, skip the test, or fail on CI."""
    rows = requirements()
    if not rows:
        assert os.environ.get("CI") != "true", "the catalogs of requirements are missing"
        pytest.skip("not run: the catalogs of requirements are missing")
    return rows


def test_citations_found_with_their_tests() -> None:
    source = '@pytest.mark.spec("a.b", "c.d")\ndef test_x() -> None: ...\nCASE = pytest.mark.spec("a.b")'
    assert cited(source) == {"a.b": ["test_x", ""], "c.d": ["test_x"]}


def test_cited_requirements_exist() -> None:
    known = {row.id for row in catalog()}
    found = citations()
    assert len(found) > 800
    assert {name: tests for name, tests in found.items() if name not in known} == {}


def test_reasons_concern_existing_requirements_without_test() -> None:
    rows, tests, reasons_table = catalog(), citations(), reasons()
    names = {row.id for row in rows}
    for pattern in (*reasons_table.untestable, *reasons_table.later):
        alone = Reasons(untestable={pattern: "x"}, later={})
        assert any(alone.of(name) for name in names), f"{pattern} matches no requirement"
    assert [name for name in sorted(names) if name in tests and reasons_table.of(name) is not None] == []
    assert [
        name for name in sorted(names) if reasons_table.delayed(name) is not None and reasons_table.of(name) is not None
    ] == []


def test_requirement_has_test_or_reason() -> None:
    tests, reasons_table = citations(), reasons()
    names = sorted({row.id for row in catalog()})
    open_names = [
        name
        for name in names
        if name not in tests and reasons_table.of(name) is None and reasons_table.delayed(name) is None
    ]
    assert len(open_names) == OPEN, "\n".join(open_names)


def test_requirement_with_two_reasons_raises(tmp_path: Path) -> None:
    path = tmp_path / "reasons.toml"
    path.write_text('[[later]]\nreason = "x"\nids = ["a.b"]\n[[untestable]]\nreason = "y"\nids = ["a.b"]\n')
    with pytest.raises(ValueError, match=r"a\.b has two reasons"):
        reasons(path)


def test_requirement_pages_show_tests_and_reasons() -> None:
    rows, tests, reasons_table = catalog(), citations(), reasons()
    pages_by_name = requirement_pages()
    for row in rows:
        lines = pages_by_name[f"{FOLDER}/{row.area}.md"].splitlines()
        line = next(line for line in lines if line.startswith(f"| `{row.id.partition('.')[2]}` "))
        assert row.level in line
        if row.id in tests:
            assert all(each.path in line for each in tests[row.id])
        else:
            assert (reasons_table.of(row.id) or reasons_table.delayed(row.id) or "Open.") in line
    assert f"| **all** | {len(rows)} |" in pages_by_name[f"{FOLDER}/README.md"]


def test_requirement_pages_unchanged_without_catalogs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_SCHEMA_DIR", str(tmp_path / "nowhere"))
    assert official_schemas.folder() is None
    assert requirement_pages() == {}
    for name, text in pages().items():
        (tmp_path / name).write_text(text)
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "tools.md").write_text("unchanged")
    assert stale(tmp_path) == []
