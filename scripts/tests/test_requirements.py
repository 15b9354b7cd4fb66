"""Each requirement of the specification has a test that cites it, or a reason why it has none; and no more than one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from checks import official_schemas
from checks.requirements import Reasons, Requirement, citations, cited, reasons, requirements
from documentation.build import pages, stale
from documentation.requirement_pages import FOLDER, requirement_pages

OPEN = 0
"""How many ids have neither a test nor a reason. Let this number only become smaller."""


def catalogue() -> list[Requirement]:
    """The requirements, where they are; where they have to be and are not, a failure."""
    rows = requirements()
    if not rows:
        assert os.environ.get("CI") != "true", "the catalogues of requirements are not there"
        pytest.skip("not run: the catalogues of requirements are not there")
    return rows


def test_citations_are_found_with_their_tests() -> None:
    source = '@pytest.mark.spec("a.b", "c.d")\ndef test_x() -> None: ...\nCASE = pytest.mark.spec("a.b")'
    assert cited(source) == {"a.b": ["test_x", ""], "c.d": ["test_x"]}


def test_every_requirement_that_a_test_cites_exists() -> None:
    known = {row.id for row in catalogue()}
    found = citations()
    assert len(found) > 800
    assert {name: tests for name, tests in found.items() if name not in known} == {}


def test_every_reason_is_of_requirements_that_exist_and_have_no_test() -> None:
    rows, tests, why = catalogue(), citations(), reasons()
    names = {row.id for row in rows}
    for pattern in (*why.untestable, *why.later):
        alone = Reasons(untestable={pattern: "x"}, later={})
        assert any(alone.of(name) for name in names), f"{pattern} is no requirement"
    assert [name for name in sorted(names) if name in tests and why.of(name) is not None] == []
    assert [name for name in sorted(names) if why.delayed(name) is not None and why.of(name) is not None] == []


def test_every_requirement_has_a_test_or_a_reason() -> None:
    tests, why = citations(), reasons()
    names = sorted({row.id for row in catalogue()})
    left = [name for name in names if name not in tests and why.of(name) is None and why.delayed(name) is None]
    assert len(left) == OPEN, "\n".join(left)


def test_a_requirement_cannot_have_two_reasons(tmp_path: Path) -> None:
    path = tmp_path / "reasons.toml"
    path.write_text('[[later]]\nreason = "x"\nids = ["a.b"]\n[[untestable]]\nreason = "y"\nids = ["a.b"]\n')
    with pytest.raises(ValueError, match=r"a\.b has two reasons"):
        reasons(path)


def test_the_pages_say_what_proves_each_requirement() -> None:
    rows, tests, why = catalogue(), citations(), reasons()
    made = requirement_pages()
    for row in rows:
        lines = made[f"{FOLDER}/{row.area}.md"].splitlines()
        line = next(line for line in lines if line.startswith(f"| `{row.id.partition('.')[2]}` "))
        assert row.level in line
        if row.id in tests:
            assert all(each.path in line for each in tests[row.id])
        else:
            assert (why.of(row.id) or why.delayed(row.id) or "Open.") in line
    assert f"| **all** | {len(rows)} |" in made[f"{FOLDER}/README.md"]


def test_without_the_catalogues_their_pages_are_left_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_SCHEMA_DIR", str(tmp_path / "nowhere"))
    assert official_schemas.folder() is None
    assert requirement_pages() == {}
    for name, text in pages().items():
        (tmp_path / name).write_text(text)
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "tools.md").write_text("as it was")
    assert stale(tmp_path) == []
