"""An index of URI templates by their literal beginnings.

A template can match a URI only if the URI begins with the literal text before the first expression of the template. The
index finds the templates with such a beginning by one lookup for each distinct length of a beginning, so the cost does not
depend on the number of templates with other beginnings.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from mcp_server.uris.matcher import check_length

if TYPE_CHECKING:
    from mcp_server.uris.template import UriTemplate

__all__ = ["TemplateIndex"]

T = TypeVar("T")


class TemplateIndex(Generic[T]):
    """Values by template, in the order in which they were added."""

    def __init__(self) -> None:
        self._groups: Final[dict[str, dict[str, tuple[int, T]]]] = {}
        self._lengths: Final[list[int]] = []
        """The distinct lengths of beginnings, sorted. A length remains when its last beginning is removed: there are no more than a
        template has characters."""
        self._next = 0

    def add(self, template: UriTemplate, value: T) -> None:
        """Add a template that the index does not contain."""
        group = self._groups.get(template.beginning)
        if group is None:
            group = self._groups[template.beginning] = {}
            length = len(template.beginning)
            if length not in self._lengths:
                insort(self._lengths, length)
        group[template.template] = (self._next, value)
        self._next += 1

    def remove(self, template: UriTemplate) -> None:
        """Remove a template that the index contains."""
        group = self._groups[template.beginning]
        del group[template.template]
        if not group:
            del self._groups[template.beginning]

    def candidates(self, uri: str) -> list[T]:
        """Return the values of the templates that may match a URI, in the order in which they were added.

        Raises:
            LimitExceeded: The URI is longer than 64 KiB, and the index is not empty.
        """
        if not self._groups:
            return []
        check_length(uri)
        found: list[tuple[int, T]] = []
        for length in self._lengths:
            if length > len(uri):
                break
            found += self._groups.get(uri[:length], {}).values()
        found.sort(key=lambda each: each[0])
        return [value for _, value in found]
