"""The storage and time limits of a server's tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from mcp_server.stores.tasks import TaskStore

__all__ = ["TaskPolicy"]


def _positive(_: TaskPolicy, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0 < value < float("inf"):
        raise ValueError(f"TaskPolicy.{attribute.name} must be a finite number of seconds above 0, not {value}")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskPolicy(FieldValue):
    """The storage and time limits of tasks.

    Raises:
        ValueError: A time is not positive and finite, or `ttl` is more than `longest_ttl`.
    """

    store: TaskStore | None = None
    """The store; in memory by default. The server does not close it."""
    ttl: float = attrs.field(default=3_600.0, validator=_positive)
    """Time to live of a task from its creation, in seconds, unless the client requests another one. A task that runs
    longer fails."""
    longest_ttl: float = attrs.field(default=86_400.0, validator=_positive)
    """The longest time to live that a client can request, in seconds."""
    poll_interval: float = attrs.field(default=1.0, validator=_positive)
    """The poll interval that the server suggests to clients, in seconds."""

    def __attrs_post_init__(self) -> None:
        if self.ttl > self.longest_ttl:
            raise ValueError(f"TaskPolicy.ttl of {self.ttl} is more than TaskPolicy.longest_ttl, {self.longest_ttl}")

    def ttl_for(self, wished: int | None) -> int:
        """Return the time to live of a task, in milliseconds. `wished`: the client's request, also in milliseconds."""
        longest = int(self.longest_ttl * 1000)
        return min(longest, int(self.ttl * 1000) if wished is None else max(wished, 1))
