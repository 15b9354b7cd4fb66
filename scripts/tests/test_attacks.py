"""The threat model: it lists every known attack, and each of its rows names existing tests."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "topics" / "threat-model.md"
FOLDERS = {
    "core": "packages/mcp-core/tests",
    "client": "packages/mcp-client/tests",
    "server": "packages/mcp-server/tests",
    "conformance": "conformance/tests",
    "docs": "docs/tests",
}
COLUMNS = ["attack", "what is tried", "what happens", "test"]

_NAMES = """
    CVE-2025-53366 CVE-2025-53365 CVE-2025-66416 CVE-2025-66414 CVE-2026-34742 CVE-2026-42559 CVE-2026-33252 CVE-2026-34237
    CVE-2026-59950 CVE-2026-52869 CVE-2026-52870 CVE-2026-25536 CVE-2026-0621 CVE-2026-27896 CVE-2026-32871 CVE-2026-27124
    CVE-2025-62800 CVE-2025-62801 CVE-2025-64340 CVE-2025-6514 CVE-2025-49596 CVE-2025-58444 CVE-2025-53109 CVE-2025-53110
    CVE-2025-68143 CVE-2025-68144 CVE-2025-68145
    GHSA-3qhf-m339-9g5v GHSA-j975-95f5-7wqh GHSA-9h52-p55h-vw2f GHSA-w48q-cv73-mx4w GHSA-xw59-hvm2-8pj6 GHSA-89vp-x53w-74fx
    GHSA-8jxr-pr72-r468 GHSA-89xv-2j6f-qhc8 GHSA-hv2w-8mjj-jw22 GHSA-vj7q-gjh5-988w GHSA-jpw9-pfvf-9f58 GHSA-345p-7cg4-v4c7
    GHSA-8r9q-7v3j-jr4g GHSA-wvj2-96wp-fq3f GHSA-q382-vc8q-7jhj GHSA-rww4-4w9c-7733 GHSA-c2jp-c369-7pvx GHSA-5h2m-4q8j-pqpj
    GHSA-7f8r-222p-6f5g GHSA-g9hg-qhmf-q45m GHSA-q66q-fx2p-7w4m GHSA-hc55-p739-j48w GHSA-j22h-9j4x-23w5
"""
NAMED_ATTACKS = _NAMES.split()
"""Attacks with a CVE or GHSA identifier."""


@attrs.frozen
class Row:
    """A row of the threat model."""

    attack: str
    tried: str
    happens: str
    tests: tuple[str, ...]


@cache
def rows() -> tuple[Row, ...]:
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells and cells != COLUMNS and not cells[0].startswith("---"):
            assert len(cells) == len(COLUMNS), line
            attack, tried, happens, tests = cells
            found.append(Row(attack, tried, happens, tuple(re.findall(r"`([^`]+)`", tests))))
    return tuple(found)


@cache
def names_in(module: Path) -> frozenset[str]:
    body = ast.parse(module.read_text(encoding="utf-8")).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def find_problem(test: str) -> str | None:
    """Return why a test was not found, or `None` if it exists."""
    place, _, name = test.partition("::")
    package, _, file = place.partition("/")
    module = ROOT / FOLDERS.get(package, "nowhere") / file
    if not module.is_file():
        return f"{place} does not exist"
    return None if name in names_in(module) else f"{place} has no {name}"


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.attack)
def test_attack_names_existing_tests(row: Row) -> None:
    assert row.tests, "no test is named"
    assert [problem for problem in map(find_problem, row.tests) if problem is not None] == []
    assert row.tried
    assert row.happens


def test_identified_attacks_listed() -> None:
    listed = " ".join(row.attack for row in rows())
    assert [name for name in NAMED_ATTACKS if not re.search(rf"{name}\b", listed)] == []


def test_attacks_listed_once() -> None:
    names = [row.attack for row in rows()]
    assert len(names) == len(set(names))
    assert len(names) > 60


def test_unknown_test_reported() -> None:
    assert find_problem("core/test_nowhere.py::test_x") == "core/test_nowhere.py does not exist"
    assert find_problem("unknown/test_codec.py::test_x") == "unknown/test_codec.py does not exist"
    assert find_problem("core/test_codec.py::test_x") == "core/test_codec.py has no test_x"
