"""The requirements of the specification as data: one row per sentence that obliges a party.

A row is valid in the revisions that it names. An id may be in both files, `legacy.jsonl` and `modern.jsonl`, when
revisions have the same requirement in different words; the revision selects the row.
"""

from __future__ import annotations

import enum
import json
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final, cast

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["Catalogue", "Level", "Observable", "Party", "Requirement", "catalogue"]

_FILES: Final = ("legacy.jsonl", "modern.jsonl")

_SITE: Final = "https://modelcontextprotocol.io"
_REPOSITORIES: Final = "https://github.com/modelcontextprotocol"

_PUBLISHED: Final = (
    ("ext-tasks:", f"{_REPOSITORIES}/ext-tasks/blob/main/{{rest}}"),
    ("ext-auth:", f"{_REPOSITORIES}/ext-auth/blob/main/{{rest}}"),
    ("seps/", f"{_REPOSITORIES}/modelcontextprotocol/issues/{{rest}}"),
    ("docs/extensions/", f"{_SITE}/extensions/{{rest}}"),
    ("docs/", f"{_SITE}/docs/{{rest}}"),
    ("schema", f"{_REPOSITORIES}/modelcontextprotocol/blob/main/schema/{{revision}}/schema.ts"),
)
"""The pages outside of the specification proper: the beginning of their path, and their URL."""

_WITHOUT_SCHEMA_PAGE: Final = frozenset({"2024-11-05", "2025-03-26"})
"""The revisions whose schema is published as a file only."""

_NOT_IN_ANCHORS: Final = re.compile(r"[^\w\s-]")
"""The characters of a heading that its anchor does not have."""


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
    page: str
    """Page of the specification, as a path."""
    section: str
    """Section on the page."""
    text: str
    """The requirement, in a sentence."""
    observable: Observable
    """Whether the requirement is observable."""
    extension: str | None
    """Extension that has the requirement; `None`: the core protocol."""
    reason: str | None
    """Why the requirement is not observable, or what cooperation it needs."""

    @property
    def place(self) -> str:
        """Page of the specification and section on it."""
        return f"{self.page}, {self.section}"

    def url(self, revision: str) -> str:
        """Return the URL of the place in the published specification.

        Args:
            revision: The name of a revision that has the requirement.
        """
        for prefix, published in _PUBLISHED:
            if self.page.startswith(prefix) and (prefix != "schema" or revision in _WITHOUT_SCHEMA_PAGE):
                rest = self.page.removeprefix(prefix).removesuffix("/index")
                return published.format(rest=rest, revision=revision)
        page = "" if self.page == "index" else f"/{self.page.removesuffix('/index')}"
        # Sections without a heading of their own have words after it: "Tool Names (note)".
        heading = self.section.partition(" (")[0].partition(" / ")[0].lower()
        anchor = _NOT_IN_ANCHORS.sub("", heading).strip().replace(" ", "-")
        return f"{_SITE}/specification/{revision}{page}#{anchor}"

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
        page=str(row["page"]),
        section=str(row["section"]),
        text=str(row["text"]),
        observable=Observable(row["observable"]),
        extension=text("extension"),
        reason=text("why") or text("needs"),
    )
