"""How a server keeps and offers its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from mcp_server.stores.tasks import TaskStore

__all__ = ["TaskPolicy"]


def _positive(_: TaskPolicy, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0 < value < float("inf"):
        raise ValueError(f"TaskPolicy.{attribute.name} must be more than 0 seconds, and not infinite, not {value}")


@attrs.frozen(kw_only=True)
class TaskPolicy:
    """How long tasks are kept, and where.

    Raises:
        ValueError: A time is not positive, or `ttl` is more than `longest_ttl`.
    """

    store: TaskStore | None = None
    """Where they are kept; in memory by default. It is not closed by the server."""
    ttl: float = attrs.field(default=3_600.0, validator=_positive)
    """How long a task is kept from its beginning, in seconds, if the client wishes nothing else. One that runs longer is
    ended."""
    longest_ttl: float = attrs.field(default=86_400.0, validator=_positive)
    """The most that a client may wish, in seconds."""
    poll_interval: float = attrs.field(default=1.0, validator=_positive)
    """How long clients are told to wait before they ask again, in seconds."""

    def __attrs_post_init__(self) -> None:
        if self.ttl > self.longest_ttl:
            raise ValueError(f"TaskPolicy.ttl of {self.ttl} is more than TaskPolicy.longest_ttl, {self.longest_ttl}")

    def ttl_for(self, wished: int | None) -> int:
        """The time to live that a task gets, in milliseconds. `wished`: what the client asked for, in the same."""
        longest = int(self.longest_ttl * 1000)
        return min(longest, int(self.ttl * 1000) if wished is None else max(wished, 1))
