"""Suggestions in error messages: the known name that is most similar to an unknown one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["similar_name"]


def similar_name(name: str, known: Collection[str]) -> str | None:
    """Return the most similar known name, or `None` if none is similar. The time grows with the number of names and their lengths."""
    import difflib  # lazy: only errors need it

    return next(iter(difflib.get_close_matches(name, known, n=1)), None)
