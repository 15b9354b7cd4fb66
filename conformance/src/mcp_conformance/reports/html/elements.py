"""Functions that build the elements of a page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element, SubElement

from mcp_conformance.catalogue.links import link

if TYPE_CHECKING:
    from mcp_conformance.catalogue.requirements import Requirement

__all__ = ["add", "prose", "requirement", "slug"]

_OTHER: Final = re.compile(r"[^a-z0-9-]+")


def add(parent: Element, tag: str, text: str = "", *, cls: str = "", **attributes: str) -> Element:
    """Add an element.

    Args:
        parent: The parent element.
        tag: The tag.
        text: The text.
        cls: The class.
        attributes: The other attributes.
    """
    element = SubElement(parent, tag, {**attributes, "class": cls} if cls else attributes)
    element.text = text or None
    return element


def requirement(rows: Element, row: Requirement, revision: str) -> None:
    """Add a requirement of a revision to a list, with a link to its place in the specification."""
    entry = add(rows, "li")
    add(entry, "strong", row.level.value).tail = " "
    add(entry, "span", row.id, cls="id").tail = ": "
    prose(entry, f"{row.text} ")
    add(entry, "a", row.place, href=link(row, revision), rel="noreferrer", cls="place")


def prose(parent: Element, text: str) -> None:
    """Append a sentence to an element. Text in backticks becomes code."""
    last: Element | None = parent[-1] if len(parent) else None
    for number, part in enumerate(text.split("`")):
        if number % 2:
            last = add(parent, "code", part)
        elif last is None:
            parent.text = f"{parent.text or ''}{part}"
        else:
            last.tail = f"{last.tail or ''}{part}"


def slug(text: str) -> str:
    """Return a text as a class or an anchor."""
    return _OTHER.sub("-", text.lower())
