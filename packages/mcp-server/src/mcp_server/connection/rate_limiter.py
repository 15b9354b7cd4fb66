"""A rate limit without a timer: each event decides by the elapsed time whether it is allowed."""

from __future__ import annotations

import math
from typing import Final

import attrs

from mcp_core.field_methods import FieldRepr

__all__ = ["RateLimiter"]

_SLACK: Final = 1e-6
"""Tolerance for rounding errors of floating point arithmetic."""


@attrs.define(eq=False, repr=False)
class RateLimiter(FieldRepr):
    """A rate limit per second. It saves the unused capacity of one second, so that short bursts are allowed."""

    per_second: int
    """Maximum number per second."""
    _saved: float = attrs.field(init=False)
    _at: float = -math.inf

    def __attrs_post_init__(self) -> None:
        self._saved = self.per_second

    def take(self, now: float, *, left: int = 0) -> bool:
        """Count one more and return `True`, if it is allowed at `now` (seconds) with capacity for `left` others."""
        saved = min(self.per_second, self._saved + (now - self._at) * self.per_second)
        self._at = now
        is_allowed = saved + _SLACK >= 1 + left
        self._saved = saved - 1 if is_allowed else saved
        return is_allowed
