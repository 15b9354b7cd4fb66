"""The requirements of the specification, as data: one row for each sentence that obliges somebody.

A row is valid in the revisions that it names. An id may stand in both files, `legacy.jsonl` and `modern.jsonl`: then the
two revisions ask for something of the same name in other words, and the revision tells which row is meant.
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

__all__ = ["Actor", "Catalogue", "Level", "Observable", "Requirement", "catalogue"]

_FILES: Final = ("legacy.jsonl", "modern.jsonl")


class Level(enum.Enum):
    """How much a requirement obliges. RFC 2119."""

    MUST = "MUST"
    """It does not conform otherwise. `MUST NOT` too."""
    SHOULD = "SHOULD"
    """There may be reasons. `SHOULD NOT` too."""
    MAY = "MAY"
    """A liberty; what others have to bear."""


class Actor(enum.Enum):
    """Whom a requirement obliges."""

    SERVER = "server"
    CLIENT = "client"
    BOTH = "both"
    HOST = "host"
    """The application around the client."""
    AUTHORIZATION_SERVER = "authorization-server"


class Observable(enum.Enum):
    """Whether anybody outside can see that a requirement is kept."""

    WIRE = "wire"
    """From what goes over the wire of any implementation."""
    COOPERATION = "wire-needs-cooperation"
    """From the wire, if the implementation does something on demand: that is what fixtures are for."""
    INTERNAL = "internal"
    """No."""


@attrs.frozen(kw_only=True)
class Requirement:
    """One row."""

    id: str
    """Its name: an area, a full stop, and a few words."""
    revisions: frozenset[str]
    """The revisions in which it holds, by their names."""
    level: Level
    """How much it obliges."""
    actor: Actor
    """Whom."""
    transport: str
    """`any`, `stdio`, `http` or `http-sse`."""
    place: str
    """The page of the specification and the section on it."""
    text: str
    """What is required, in a sentence."""
    observable: Observable
    """Whether it can be seen."""
    extension: str | None
    """The extension that requires it; `None`: the protocol itself."""
    reason: str | None
    """Why it cannot be seen, or what cooperation it takes."""

    @property
    def area(self) -> str:
        """What it is about: the first part of its name."""
        return self.id.partition(".")[0]


class Catalogue:
    """All requirements.

    Args:
        rows: The requirements; no two of the same id for one revision.
    """

    def __init__(self, rows: Iterable[Requirement]) -> None:
        self.rows: Final = tuple(rows)
        """Every row, in the order of the specification."""
        self._found: Final[Mapping[tuple[str, str], Requirement]] = {
            (row.id, revision): row for row in self.rows for revision in row.revisions
        }
        self.ids: Final = frozenset(row.id for row in self.rows)
        """All names."""

    def find(self, id: str, revision: str) -> Requirement | None:
        """The requirement of that name in a revision; `None` where the revision has none."""
        return self._found.get((id, revision))

    def revisions(self, id: str) -> frozenset[str]:
        """The revisions that have a requirement of that name.

        Raises:
            KeyError: There is none in any.
        """
        if id not in self.ids:
            raise KeyError(id)
        return frozenset(revision for name, revision in self._found if name == id)

    def of(self, revision: str) -> tuple[Requirement, ...]:
        """All requirements of a revision."""
        return tuple(row for row in self.rows if revision in row.revisions)


@cache
def catalogue() -> Catalogue:
    """The catalogue of this package."""
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
        actor=Actor(row["actor"]),
        transport=str(row["transport"]),
        place=f"{row['page']}, {row['section']}",
        text=str(row["text"]),
        observable=Observable(row["observable"]),
        extension=text("extension"),
        reason=text("why") or text("needs"),
    )
