"""The tests that cite the requirements of the specification, and the reasons for missing tests.

The requirements are in `mcp_conformance.catalogue`.
"""

from __future__ import annotations

import ast
import tomllib
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["Citation", "citations", "cited", "reason", "reasons"]

ROOT: Final = Path(__file__).resolve().parents[2]
UNTESTED: Final = Path(__file__).with_name("requirements_untested.toml")
_PLACES: Final = ("packages", "conformance", "docs/tests", "scripts/tests")


@attrs.frozen
class Citation:
    """A test that cites a requirement."""

    path: str
    """The file, relative to the checkout."""

    test: str
    """The function, or the empty string if the mark is on single parameters."""


def cited(source: str) -> dict[str, list[str]]:
    """Return the ids in `@pytest.mark.spec("...")` of a module, with their tests."""
    found: dict[str, list[str]] = {}
    for test, place in _places(ast.parse(source).body):
        for node in ast.walk(place):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "spec":
                for each in node.args:
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        found.setdefault(each.value, []).append(test)
    return found


def _places(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """Yield the places of marks: tests, and anywhere outside of functions."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from ((node.name, decorator) for decorator in node.decorator_list)
        elif isinstance(node, ast.ClassDef):
            yield from _places(node.body)
        else:
            yield "", node


@cache
def citations() -> Mapping[str, Sequence[Citation]]:
    """Return the tests that cite requirements, by id, in the order of files and lines. The tests are parsed once."""
    found: dict[str, list[Citation]] = {}
    for path in sorted(path for place in _PLACES for path in (ROOT / place).rglob("test_*.py")):
        for name, tests in cited(path.read_text(encoding="utf-8")).items():
            found.setdefault(name, []).extend(Citation(path.relative_to(ROOT).as_posix(), test) for test in tests)
    return found


def reasons(path: Path = UNTESTED) -> dict[str, str]:
    """Return the reasons why no test of this project can prove a requirement, by patterns of ids.

    Raises:
        ValueError: A pattern has two reasons.
    """
    found: dict[str, str] = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["untestable"]:
        for name in entry["ids"]:
            if name in found:
                raise ValueError(f"{path.name}: {name} has two reasons")
            found[name] = entry["reason"]
    return found


def reason(table: Mapping[str, str], id: str) -> str | None:
    """Return the reason for a requirement, or `None`."""
    return next((text for pattern, text in table.items() if fnmatchcase(id, pattern)), None)
