"""The requirements of the specification as data: one row per sentence that obliges a party.

A row is valid in the revisions that it names. An id may be in both files, `legacy.jsonl` and `modern.jsonl`, when
revisions have the same requirement in different words; the revision selects the row. `derived.jsonl` has requirements that
follow from a sentence without a keyword, and `skills.jsonl` those of the skills extension, which has a specification of
its own.
"""

from __future__ import annotations

import enum
import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final, cast

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["Catalogue", "Level", "Observable", "Party", "Requirement", "catalogue"]

_FILES: Final = ("legacy.jsonl", "modern.jsonl", "derived.jsonl", "skills.jsonl")


class Level(enum.Enum):
    """The level of a requirement, according to RFC 2119."""

    MUST = "MUST"
    """Required for conformance. Also `MUST NOT`."""
    SHOULD = "SHOULD"
    """Recommended; there may be reasons not to follow it. Also `SHOULD NOT`."""
    MAY = "MAY"
    """Optional for this party, and to be accepted by the peer."""


class Party(enum.Enum):
    """The party that a requirement obliges."""

    SERVER = "server"
    CLIENT = "client"
    BOTH = "both"
    HOST = "host"
    """The application that contains the client."""
    AUTHORIZATION_SERVER = "authorization-server"


class Observable(enum.Enum):
    """The visibility of a requirement from outside."""

    WIRE = "wire"
    """In the messages of any implementation."""
    COOPERATION = "wire-needs-cooperation"
    """In the messages, if the implementation does something on request, for which there are fixtures."""
    INTERNAL = "internal"
    """Not observable."""


@attrs.frozen(kw_only=True)
class Requirement:
    """A requirement."""

    id: str
    """Id: an area, a period, and a few words."""
    revisions: frozenset[str]
    """Names of the revisions in which the requirement is valid."""
    level: Level
    """Level of the requirement."""
    actor: Party
    """Party that the requirement obliges."""
    transport: str
    """`any`, `stdio`, `http` or `http-sse`."""
    place: str
    """Page of the specification and section on it."""
    text: str
    """The requirement, in a sentence."""
    observable: Observable
    """Whether the requirement is observable."""
    extension: str | None
    """Extension that has the requirement; `None`: the core protocol."""
    reason: str | None
    """Why the requirement is not observable, or what cooperation it needs."""

    @property
    def area(self) -> str:
        """The first part of the id."""
        return self.id.partition(".")[0]


class Catalogue:
    """All requirements.

    Args:
        rows: The requirements; at most one per id and revision.
    """

    def __init__(self, rows: Iterable[Requirement]) -> None:
        self.rows: Final = tuple(rows)
        """Every row, in the order of the specification."""
        self._found: Final[Mapping[tuple[str, str], Requirement]] = {
            (row.id, revision): row for row in self.rows for revision in row.revisions
        }
        self.ids: Final = frozenset(row.id for row in self.rows)
        """All ids."""

    def find(self, id: str, revision: str) -> Requirement | None:
        """Return the requirement with an id in a revision; `None` when the revision does not have it."""
        return self._found.get((id, revision))

    def revisions(self, id: str) -> frozenset[str]:
        """Return the revisions that have a requirement with an id.

        Raises:
            KeyError: No revision has it.
        """
        if id not in self.ids:
            raise KeyError(id)
        return frozenset(revision for name, revision in self._found if name == id)

    def of(self, revision: str) -> tuple[Requirement, ...]:
        """Return all requirements of a revision."""
        return tuple(row for row in self.rows if revision in row.revisions)


@cache
def catalogue() -> Catalogue:
    """Return the catalogue of this package."""
    folder = resources.files(__package__ or "")
    return Catalogue(
        _row(cast("JsonObject", json.loads(line)))
        for name in _FILES
        for line in folder.joinpath(name).read_text(encoding="utf-8").splitlines()
    )


def _row(row: JsonObject) -> Requirement:
    def text(name: str) -> str | None:
        value = row.get(name)
        return value if isinstance(value, str) else None

    revisions = row["revisions"]
    return Requirement(
        id=str(row["id"]),
        revisions=frozenset(str(each) for each in revisions) if isinstance(revisions, list) else frozenset(),
        level=Level(str(row["level"]).removesuffix(" NOT")),
        actor=Party(row["actor"]),
        transport=str(row["transport"]),
        place=f"{row['page']}, {row['section']}",
        text=str(row["text"]),
        observable=Observable(row["observable"]),
        extension=text("extension"),
        reason=text("why") or text("needs"),
    )
