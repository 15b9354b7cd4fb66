"""Cache hints of results: how long and for which clients they can be reused.

Spec: server/utilities/caching (2026-07-28)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.types import CacheableResult

if TYPE_CHECKING:
    from mcp_core.types import CacheScope

__all__ = ["CacheHint", "hinted"]

C = TypeVar("C", bound=CacheableResult)


@attrs.frozen(eq=False, repr=False)
class CacheHint(FieldValue):
    """A cache hint for clients of revision 2026-07-28. Clients of older revisions do not receive it.

    It does not guarantee that the result stays the same, and it is not access control.

    Raises:
        ValueError: The time is negative or not finite, or the scope is unknown.
    """

    seconds: float
    """Time for which the result can be reused after it was received, in seconds; 0 disables reuse."""
    scope: CacheScope = "private"
    """`private`: only the same client can reuse the result, with the same credentials. `public`: any client and shared
    caches can reuse it. A result that depends on the client is private. With an `access` function, all results are sent
    as private."""

    def __attrs_post_init__(self) -> None:
        if not math.isfinite(self.seconds) or self.seconds < 0:
            raise ValueError(f"CacheHint.seconds must be a finite number of at least 0, not {self.seconds}")
        if self.scope not in {"private", "public"}:
            raise ValueError(f"CacheHint.scope must be 'private' or 'public', not {self.scope!r}")


def hinted(result: C, hint: CacheHint | None, *, restricted: bool) -> C:
    """Return the result with a cache hint.

    Args:
        result: The result.
        hint: The cache hint; `None` leaves the result unchanged, and clients do not reuse it.
        restricted: Whether the result depends on the client.
    """
    if hint is None:
        return result
    return attrs.evolve(result, ttl_ms=int(hint.seconds * 1_000), cache_scope="private" if restricted else hint.scope)
