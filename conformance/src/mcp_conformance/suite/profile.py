"""Profiles: what is asked of an implementation, by its purpose and by a set of checks.

The purpose is `library`, of which every check is asked, or `author`, of which nothing is asked that cannot be tested
without fixtures. The set is that of all present checks, or a frozen one: an implementation that passes it passes it
permanently. The name of a profile has both: `author` and `library` have all present checks, `author@2026-11` and
`library@2026-11` a frozen set, and `2026-11` is short for the latter.

A frozen set is a file `profiles/NAME.json`: for each role the checks, and for each check the revisions in which it
counts and the requirements that it proves. A digest identifies the contents; it is verified when the file is read.
Later checks run too, and are reported as not scored.
"""

from __future__ import annotations

import enum
import hashlib
import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, cast

import attrs

from mcp_conformance.catalogue.requirements import catalogue
from mcp_conformance.model.check import Role
from mcp_conformance.suite.checks import CHECKS
from mcp_core.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Profile", "ProfileCheck", "Purpose", "freeze", "load", "names", "read"]


class Purpose(enum.Enum):
    """The purpose of an implementation."""

    AUTHOR = "author"
    """An implementation with a purpose of its own: a check that cannot test is not asked for."""
    LIBRARY = "library"
    """A library, which has a program with all fixtures: every check is asked for."""


@attrs.frozen(kw_only=True)
class ProfileCheck:
    """A check in the state when the profile was frozen."""

    revisions: frozenset[str]
    """Revisions in which the check counts."""
    proves: tuple[str, ...]
    """Ids of the requirements."""


@attrs.frozen(kw_only=True)
class Profile:
    """The checks that count for an implementation."""

    name: str
    """Name of the profile."""
    digest: str
    """Digest of the contents: `sha256:` and 64 hexadecimal digits."""
    checks: Mapping[Role, Mapping[str, ProfileCheck]]
    """Checks of each role, by id."""
    purpose: Purpose = Purpose.LIBRARY
    """Purpose of the implementation."""

    def has(self, check: str, revision: str, role: Role) -> bool:
        """Return whether a check counts in a revision."""
        frozen = self.checks[role].get(check)
        return frozen is not None and revision in frozen.revisions

    def requirements(self, revision: str, role: Role) -> frozenset[str]:
        """Return the ids of the requirements of a revision that the profile tests."""
        return frozenset(
            id
            for frozen in self.checks[role].values()
            if revision in frozen.revisions
            for id in frozen.proves
            if catalogue().find(id, revision) is not None
        )


@cache
def names() -> tuple[str, ...]:
    """Return the names of the frozen sets, the oldest first."""
    folder = resources.files(__package__ or "").joinpath("profiles")
    return tuple(sorted(each.name.removesuffix(".json") for each in folder.iterdir() if each.name.endswith(".json")))


@cache
def load(name: str) -> Profile:
    """Return the profile with a name.

    Raises:
        InvalidValue: There is no such profile, or its file was changed.
    """
    purposes = [each.value for each in Purpose]
    purpose, at, frozen = name.partition("@")
    if purpose not in purposes and not at:
        purpose, at, frozen = Purpose.LIBRARY.value, "@", name
    if purpose not in purposes or (at and frozen not in names()):
        available = [*purposes, *(f"{each}@{frozen}" for frozen in names() for each in purposes), *names()]
        raise InvalidValue(f"there is no profile {name!r}; available: {', '.join(available)}", path="--profile")
    if at:
        text = resources.files(__package__ or "").joinpath("profiles", f"{frozen}.json").read_text(encoding="utf-8")
    else:
        text = freeze(name)
    return attrs.evolve(read(text), name=name, purpose=Purpose(purpose))


def read(text: str) -> Profile:
    """Read a frozen set, as the profile of a library.

    Raises:
        InvalidValue: The digest does not match the contents.
    """
    document = cast("dict[str, object]", json.loads(text))
    name, digest = str(document["name"]), str(document["digest"])
    tables = {role: cast("dict[str, dict[str, list[str]]]", document[role.value]) for role in Role}
    checks = {
        role: {
            id: ProfileCheck(revisions=frozenset(row["revisions"]), proves=tuple(row["proves"]))
            for id, row in table.items()
        }
        for role, table in tables.items()
    }
    if digest != _digest(checks):
        raise InvalidValue("the digest does not match the contents: the file was changed", path=f"profiles/{name}.json")
    return Profile(name=name, digest=digest, checks=checks)


def freeze(name: str) -> str:
    """Return the file of a set with all present checks."""
    checks = {
        role: {check.id: ProfileCheck(revisions=check.revisions, proves=check.proves) for check in CHECKS[role]}
        for role in Role
    }
    return "\n".join(_lines(name, checks)) + "\n"


def _lines(name: str, checks: Mapping[Role, Mapping[str, ProfileCheck]]) -> Iterator[str]:
    """Yield the lines of the file, one per check, so that two profiles can be compared."""
    yield "{"
    yield f'"name": {json.dumps(name)},'
    yield f'"digest": {json.dumps(_digest(checks))},'
    for number, (role, table) in enumerate(_plain(checks).items()):
        rows = [f"  {json.dumps(id)}: {json.dumps(row)}" for id, row in table.items()]
        yield f"{json.dumps(role)}: {{"
        yield ",\n".join(rows)
        yield "}," if number + 1 < len(checks) else "}"
    yield "}"


def _plain(checks: Mapping[Role, Mapping[str, ProfileCheck]]) -> dict[str, dict[str, dict[str, list[str]]]]:
    """Return the contents as JSON, in a fixed order."""
    return {
        role.value: {
            id: {"revisions": sorted(frozen.revisions), "proves": sorted(frozen.proves)}
            for id, frozen in sorted(checks[role].items())
        }
        for role in Role
    }


def _digest(checks: Mapping[Role, Mapping[str, ProfileCheck]]) -> str:
    canonical = json.dumps(_plain(checks), sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"
