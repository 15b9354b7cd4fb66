"""Near misses of a name or id: texts that a lax comparison takes for it, although they name something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["near_misses"]


def near_misses(text: str, known: Collection[object] = ()) -> list[str]:
    """Return texts that differ from another one in case, in spaces around it, or in a slash.

    Args:
        text: The text.
        known: The texts that exist, which are not returned.
    """
    found = (text.swapcase(), f"{text} ", f" {text}", f"{text}/")
    return [each for each in found if each != text and each not in known]
