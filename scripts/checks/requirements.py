"""The requirements of the specification with the tests that cite them, or the reasons for missing tests.

The catalogues of requirements are not part of this project. Their folder is beside that of the official schemas. Only
names, levels and places are taken from them, no sentences.
"""

from __future__ import annotations

import ast
import json
import tomllib
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from checks.official_schemas import folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["Citation", "Reasons", "Requirement", "citations", "cited", "reasons", "requirements"]

ROOT: Final = Path(__file__).resolve().parents[2]
UNTESTED: Final = Path(__file__).with_name("requirements_untested.toml")
_PLACES: Final = ("packages", "conformance", "docs/tests", "scripts/tests")


@attrs.frozen(kw_only=True)
class Requirement:
    """A row of a catalogue."""

    id: str
    """The id: an area, a full stop, and a few words."""

    revisions: tuple[str, ...]
    """The revisions that have the requirement."""

    level: str
    """`MUST`, `SHOULD NOT` and so on."""

    actor: str
    """The party that must meet it."""

    place: str
    """The page and section of the specification."""

    @property
    def area(self) -> str:
        """The first part of the id."""
        return self.id.partition(".")[0]


@attrs.frozen
class Citation:
    """A test that cites a requirement."""

    path: str
    """The file, relative to the checkout."""

    test: str
    """The function, or the empty string if the mark is on single parameters."""


@attrs.frozen(kw_only=True)
class Reasons:
    """The reasons for missing tests, by patterns of ids."""

    untestable: Mapping[str, str]
    """Requirements that no test of this project can prove."""

    later: Mapping[str, str]
    """Requirements of parts that are not implemented yet."""

    def of(self, name: str) -> str | None:
        """Return why no test can prove a requirement, or `None`."""
        return _match(self.untestable, name)

    def delayed(self, name: str) -> str | None:
        """Return the part that a requirement waits for, or `None`."""
        return _match(self.later, name)


def _match(table: Mapping[str, str], name: str) -> str | None:
    return next((reason for pattern, reason in table.items() if fnmatchcase(name, pattern)), None)


def requirements() -> list[Requirement]:
    """Return all rows of all catalogues, in order; an empty list without the catalogues."""
    schemas = folder()
    files = [] if schemas is None else sorted(schemas.parent.glob("requirements-*.jsonl"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [_requirement(json.loads(line)) for line in lines]


def _requirement(row: Mapping[str, object]) -> Requirement:
    revisions = row["revisions"]
    assert isinstance(revisions, list)
    section = str(row["section"] or "")
    return Requirement(
        id=str(row["id"]),
        revisions=tuple(str(each) for each in revisions),
        level=str(row["level"]),
        actor=str(row["actor"]),
        place=f"{row['page']}: {section}" if section else str(row["page"]),
    )


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


def reasons(path: Path = UNTESTED) -> Reasons:
    """Return the reasons.

    Raises:
        ValueError: An id has two reasons.
    """
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    tables: dict[str, dict[str, str]] = {"untestable": {}, "later": {}}
    for kind, table in tables.items():
        for entry in document.get(kind, []):
            for name in entry["ids"]:
                if any(name in each for each in tables.values()):
                    raise ValueError(f"{path.name}: {name} has two reasons")
                table[name] = entry["reason"]
    return Reasons(untestable=tables["untestable"], later=tables["later"])
