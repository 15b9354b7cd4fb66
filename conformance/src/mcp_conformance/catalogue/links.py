"""The addresses of requirements on the site of the specification."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.catalogue.requirements import Requirement

__all__ = ["link"]

_SITE: Final = "https://modelcontextprotocol.io"
_REPOSITORIES: Final = "https://github.com/modelcontextprotocol"
_SCHEMA_WITHOUT_PAGE: Final = frozenset({"2024-11-05", "2025-03-26"})
"""Revisions whose schema is only a file."""
_MOVED: Final[Mapping[tuple[str, str], str]] = {("2024-11-05", "basic/index"): "basic/messages"}
"""Pages that have another name in a revision."""
_REMARK: Final = re.compile(r"\s*\([^()]*\)\s*$")
"""What follows the heading in a section: `(note)`, `(warning)`."""
_NOT_IN_ANCHOR: Final = re.compile(r"[^a-z0-9 -]")


def link(requirement: Requirement, revision: str) -> str:
    """Return the URL of the page that has a requirement in a revision, with the anchor of its section.

    Args:
        requirement: The requirement.
        revision: The name of the revision.
    """
    page, _, section = requirement.place.partition(", ")
    repository, colon, path = page.partition(":")
    if colon:
        base = f"{_REPOSITORIES}/{repository}/blob/main/{path}"
    elif page.startswith("seps/"):
        # The page of a proposal has its title in its path; the number is that of its discussion.
        return f"{_REPOSITORIES}/modelcontextprotocol/issues/{page.removeprefix('seps/')}"
    elif page.startswith("docs/extensions/"):
        base = f"{_SITE}/{page.removeprefix('docs/')}"
    elif page.startswith("docs/"):
        base = f"{_SITE}/{page}"
    elif page == "schema" and revision in _SCHEMA_WITHOUT_PAGE:
        return f"{_REPOSITORIES}/modelcontextprotocol/blob/main/schema/{revision}/schema.ts"
    else:
        base = f"{_SITE}/specification/{revision}/{_MOVED.get((revision, page), page).removesuffix('/index')}"
    anchor = _anchor(section, first=page == "schema")
    return f"{base}#{anchor}" if anchor else base


def _anchor(section: str, *, first: bool) -> str:
    """Return the anchor of a section.

    Args:
        section: The heading, after those above it, with a remark.
        first: Whether alternatives are given instead of headings, of which the first one counts.
    """
    # A part of a section that has no heading follows a colon.
    names = _REMARK.sub("", section).partition(": ")[0].split(" / ")
    plain = _NOT_IN_ANCHOR.sub("", names[0 if first else -1].lower())
    return re.sub(r"[ -]+", "-", plain).strip("-")
