"""How long a result may be used again, and by whom. Spec: server/utilities/caching (2026-07-28)"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import attrs

from mcp_core.types import CacheableResult, evolve

if TYPE_CHECKING:
    from mcp_core.types import CacheScope

__all__ = ["CacheHint", "hinted"]

C = TypeVar("C", bound=CacheableResult)


@attrs.frozen
class CacheHint:
    """A hint to clients of 2026-07-28: what they get may be used again for a while. Older ones are not told.

    It is no promise that nothing changes meanwhile, and no access control.

    Raises:
        ValueError: The time is negative, or no number; or there is no such scope.
    """

    seconds: float
    """For how long, from when it was received; 0: not at all."""
    scope: CacheScope = "private"
    """`private`: by whoever asked, with the same credentials. `public`: by anybody, also from caches on the way. What
    depends on who asks is private, and is called so wherever there is an `access` function."""

    def __attrs_post_init__(self) -> None:
        if not math.isfinite(self.seconds) or self.seconds < 0:
            raise ValueError(f"CacheHint.seconds must be a number from 0 on, not {self.seconds}")
        if self.scope not in {"private", "public"}:
            raise ValueError(f"CacheHint.scope must be 'private' or 'public', not {self.scope!r}")


def hinted(result: C, hint: CacheHint | None, *, asks: bool) -> C:
    """The result with a hint.

    Args:
        result: The result.
        hint: What is said of it; `None`: nothing, so it is not used again.
        asks: Whether it depends on who asks.
    """
    if hint is None:
        return result
    return evolve(result, ttl_ms=int(hint.seconds * 1_000), cache_scope="private" if asks else hint.scope)
