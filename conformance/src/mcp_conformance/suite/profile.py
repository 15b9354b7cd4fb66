"""Profiles: which checks count, frozen. Whoever passes a profile passes it for ever, whatever is added to the suite.

A profile lies in `profiles/NAME.json`: for each role its checks, for each of these the revisions in which it counts and the
requirements that it proves. A digest of all that tells two sets of the same name apart; it is verified when the file is
read. Checks that came later run, and are reported as not scored.
"""

from __future__ import annotations

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

__all__ = ["Frozen", "Profile", "freeze", "load", "names", "read"]


@attrs.frozen(kw_only=True)
class Frozen:
    """A check, as it was when the profile was made."""

    revisions: frozenset[str]
    """The revisions in which it counts."""
    proves: tuple[str, ...]
    """The requirements, by their ids."""


@attrs.frozen(kw_only=True)
class Profile:
    """A frozen set of checks."""

    name: str
    """Its name."""
    digest: str
    """Of its contents: `sha256:` and 64 hexadecimal digits."""
    checks: Mapping[Role, Mapping[str, Frozen]]
    """The checks of each role, by their ids."""

    def has(self, check: str, revision: str, role: Role) -> bool:
        """Whether a check counts in a revision."""
        frozen = self.checks[role].get(check)
        return frozen is not None and revision in frozen.revisions

    def requirements(self, revision: str, role: Role) -> frozenset[str]:
        """The requirements of a revision that the profile puts to the test, by their ids."""
        return frozenset(
            id
            for frozen in self.checks[role].values()
            if revision in frozen.revisions
            for id in frozen.proves
            if catalogue().find(id, revision) is not None
        )


@cache
def names() -> tuple[str, ...]:
    """The profiles there are, the oldest first."""
    folder = resources.files(__package__ or "").joinpath("profiles")
    return tuple(sorted(each.name.removesuffix(".json") for each in folder.iterdir() if each.name.endswith(".json")))


@cache
def load(name: str) -> Profile:
    """The profile of a name.

    Raises:
        InvalidValue: There is none, or its file was changed.
    """
    if name not in names():
        raise InvalidValue(f"there is no profile {name!r}; there are {', '.join(names())}", path="--profile")
    text = resources.files(__package__ or "").joinpath("profiles", f"{name}.json").read_text(encoding="utf-8")
    return read(text)


def read(text: str) -> Profile:
    """Reads a profile.

    Raises:
        InvalidValue: Its contents are not what its digest says.
    """
    document = cast("dict[str, object]", json.loads(text))
    name, digest = str(document["name"]), str(document["digest"])
    tables = {role: cast("dict[str, dict[str, list[str]]]", document[role.value]) for role in Role}
    checks = {
        role: {
            id: Frozen(revisions=frozenset(row["revisions"]), proves=tuple(row["proves"])) for id, row in table.items()
        }
        for role, table in tables.items()
    }
    if digest != _digest(checks):
        raise InvalidValue("its contents are not what its digest says: it was changed", path=f"profiles/{name}.json")
    return Profile(name=name, digest=digest, checks=checks)


def freeze(name: str) -> str:
    """The file of a profile of all checks that there are now."""
    checks = {
        role: {check.id: Frozen(revisions=check.revisions, proves=check.proves) for check in CHECKS[role]}
        for role in Role
    }
    return "\n".join(_lines(name, checks)) + "\n"


def _lines(name: str, checks: Mapping[Role, Mapping[str, Frozen]]) -> Iterator[str]:
    """The file, with a line for each check, so that two profiles can be compared by eye."""
    yield "{"
    yield f'"name": {json.dumps(name)},'
    yield f'"digest": {json.dumps(_digest(checks))},'
    for number, (role, table) in enumerate(_plain(checks).items()):
        rows = [f"  {json.dumps(id)}: {json.dumps(row)}" for id, row in table.items()]
        yield f"{json.dumps(role)}: {{"
        yield ",\n".join(rows)
        yield "}," if number + 1 < len(checks) else "}"
    yield "}"


def _plain(checks: Mapping[Role, Mapping[str, Frozen]]) -> dict[str, dict[str, dict[str, list[str]]]]:
    """The contents as JSON, in one order."""
    return {
        role.value: {
            id: {"revisions": sorted(frozen.revisions), "proves": sorted(frozen.proves)}
            for id, frozen in sorted(checks[role].items())
        }
        for role in Role
    }


def _digest(checks: Mapping[Role, Mapping[str, Frozen]]) -> str:
    canonical = json.dumps(_plain(checks), sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"
