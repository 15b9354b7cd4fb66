"""The fenced blocks of the pages that are written by hand: tests run them, and their types are checked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FENCE", "INTEROP_PAGES", "LINK", "Block", "blocks", "pages"]

FENCE: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A fenced block: its language and its text."""

LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
"""A link: its target."""

INTEROP_PAGES: Final = ("docs/howto/django.md", "docs/howto/fastapi.md")
"""Pages whose commands need the packages of `nox -s interop`, which runs them."""

_MADE: Final = frozenset({"modules", "requirements"})
"""Folders whose pages are generated."""


@attrs.frozen
class Block:
    """A fenced block."""

    language: str
    """The word after the fence."""
    text: str
    """The text within the fences."""
    line: int
    """The number of lines before its text."""


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text()
    return [Block(found[1], found[2], text.count("\n", 0, found.start(2))) for found in FENCE.finditer(text)]


def pages(root: Path) -> list[Path]:
    """Return the pages that are written by hand: the README of the project, and those below `docs`."""
    below = sorted(path for path in (root / "docs").rglob("*.md") if not _MADE & set(path.parts))
    return [root / "README.md", *below]
