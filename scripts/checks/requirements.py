"""What proves each requirement of the specification: the tests that cite it, or the reason why there is none.

The catalogues of requirements are no part of this project. They are looked for beside the official schemas. What is taken
from them: names, levels and places, and no sentence.
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
    """One row of one catalogue."""

    id: str
    """Its name: an area, a full stop, and a few words."""

    revisions: tuple[str, ...]
    """The revisions that ask for it."""

    level: str
    """`MUST`, `SHOULD NOT` and so on."""

    actor: str
    """Who has to keep it."""

    place: str
    """The page of the specification, and the section."""

    @property
    def area(self) -> str:
        """What it is about: the first part of its name."""
        return self.id.partition(".")[0]


@attrs.frozen
class Citation:
    """One test that cites a requirement."""

    path: str
    """Its file, from the root of the checkout."""

    test: str
    """Its function; empty where the mark stands on single cases."""


@attrs.frozen(kw_only=True)
class Reasons:
    """Why there is no test, by patterns of ids."""

    untestable: Mapping[str, str]
    """What no test of this project can prove."""

    later: Mapping[str, str]
    """What is not there yet."""

    def of(self, name: str) -> str | None:
        """Why no test can prove a requirement, or `None`."""
        return _match(self.untestable, name)

    def delayed(self, name: str) -> str | None:
        """What a requirement waits for, or `None`."""
        return _match(self.later, name)


def _match(table: Mapping[str, str], name: str) -> str | None:
    return next((reason for pattern, reason in table.items() if fnmatchcase(name, pattern)), None)


def requirements() -> list[Requirement]:
    """All rows of all catalogues, in their order; none when the catalogues are not there."""
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
    """The ids in `@pytest.mark.spec("...")` of a module, and the tests that they stand on."""
    found: dict[str, list[str]] = {}
    for test, place in _places(ast.parse(source).body):
        for node in ast.walk(place):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "spec":
                for each in node.args:
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        found.setdefault(each.value, []).append(test)
    return found


def _places(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """Where a mark may stand: on a test, or anywhere outside of functions."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from ((node.name, decorator) for decorator in node.decorator_list)
        elif isinstance(node, ast.ClassDef):
            yield from _places(node.body)
        else:
            yield "", node


@cache
def citations() -> Mapping[str, Sequence[Citation]]:
    """Which tests cite which requirements, by id, in the order of files and lines. The tests are read once."""
    found: dict[str, list[Citation]] = {}
    for path in sorted(path for place in _PLACES for path in (ROOT / place).rglob("test_*.py")):
        for name, tests in cited(path.read_text(encoding="utf-8")).items():
            found.setdefault(name, []).extend(Citation(path.relative_to(ROOT).as_posix(), test) for test in tests)
    return found


def reasons(path: Path = UNTESTED) -> Reasons:
    """The reasons that were written down.

    Raises:
        ValueError: An id is given two reasons.
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
