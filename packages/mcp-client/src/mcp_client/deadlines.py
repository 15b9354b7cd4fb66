"""How long to wait for what: three named deadlines, and the silence that means "not a modern server"."""

from __future__ import annotations

import math
from typing import Final

import attrs

__all__ = ["DEFAULT_DEADLINES", "Deadlines"]


@attrs.frozen(kw_only=True)
class Deadlines:
    """How long to wait, in seconds. `math.inf` waits for ever.

    Raises:
        ValueError: One of them is not more than 0.
    """

    connect: float = 30.0
    """From the start until era and revision are agreed. Package runners that download first need most of it."""
    probe: float = 3.0
    """How long a server may be silent to `server/discover` before it is taken for a legacy one. A modern server that
    starts more slowly is still recognised when it answers. Of no effect where only modern revisions are spoken."""
    idle: float = 120.0
    """From a request to its answer. Every sign of progress starts the time anew, and it stands still while a handler
    of ours answers a question of the server."""
    total: float = 3600.0
    """From a request to its answer, whatever progress there is. Spec: a maximum SHOULD hold in spite of progress."""

    def __attrs_post_init__(self) -> None:
        for name in ("connect", "probe", "idle", "total"):
            value: float = getattr(self, name)
            if math.isnan(value) or value <= 0:
                raise ValueError(f"Deadlines.{name} must be more than 0 seconds, not {value}")


DEFAULT_DEADLINES: Final = Deadlines()
"""What holds unless something else is asked for."""
