"""Deadlines of a connection and its requests, and the probe timeout that detects legacy servers."""

from __future__ import annotations

import math
from typing import Final

import attrs

from mcp_core.field_methods import FieldValue

__all__ = ["DEFAULT_DEADLINES", "Deadlines"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Deadlines(FieldValue):
    """Deadlines, in seconds. `math.inf` disables a deadline.

    Raises:
        ValueError: A deadline is not greater than 0.
    """

    connect: float = 30.0
    """Maximum time from the start to the end of the negotiation, in seconds. Package runners that download the server
    need most of it."""
    probe: float = 3.0
    """Time without a response to `server/discover` after which the client treats the server as legacy, in seconds. A
    modern server that starts more slowly is still recognized when it responds. Not used if all revisions are modern."""
    idle: float = 120.0
    """Maximum time from a request to its response, in seconds. Each progress notification restarts it, and it pauses
    while a handler processes a client request of the server."""
    total: float = 3600.0
    """Maximum time from a request to its response regardless of progress, in seconds. Spec: a maximum SHOULD hold in
    spite of progress."""

    def __attrs_post_init__(self) -> None:
        for name in ("connect", "probe", "idle", "total"):
            value: float = getattr(self, name)
            if math.isnan(value) or value <= 0:
                raise ValueError(f"Deadlines.{name} must be more than 0 seconds, not {value}")


DEFAULT_DEADLINES: Final = Deadlines()
"""The default deadlines."""
