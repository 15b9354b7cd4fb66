"""The requirement ids that tests cite exist."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path

import pytest

from official_schemas import folder

ROOT = Path(__file__).resolve().parents[2]


def cited(source: str) -> set[str]:
    """The ids in `@pytest.mark.spec("...")` of a module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "spec":
            found |= {
                each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
            }
    return found


def test_citations_are_found() -> None:
    assert cited('@pytest.mark.spec("a.b", "c.d")\ndef test_x() -> None: ...') == {"a.b", "c.d"}


def test_every_requirement_that_a_test_cites_exists() -> None:
    schemas = folder()
    catalogues = [] if schemas is None else sorted(schemas.parent.glob("requirements-*.jsonl"))
    if not catalogues:
        assert not os.environ.get("CI"), "the catalogues of requirements are not there"
        pytest.skip("not run: the catalogues of requirements are not there")
    known = {json.loads(line)["id"] for file in catalogues for line in file.read_text().splitlines() if line.strip()}
    places = [ROOT / "packages", ROOT / "conformance", ROOT / "docs" / "tests"]
    tests = [path for place in places for path in place.rglob("test_*.py")]
    ids = {path.relative_to(ROOT).as_posix(): cited(path.read_text()) for path in tests}
    assert sum(len(each) for each in ids.values()) > 300
    assert {path: each - known for path, each in ids.items() if each - known} == {}
