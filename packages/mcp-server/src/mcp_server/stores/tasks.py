"""What a server remembers of its tasks, and who remembers it.

A task is one record, which is replaced whenever something about it changes that must not be lost: when it begins, when
the client has answered a question, when a side effect has happened, and at its end. How far it got in between is not
kept.

Every store keeps the rules that `TaskStore` states; `mcp_server.stores.contract` checks them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol, cast

import attrs

from mcp_core.features.tasks import TaskState

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.types import TaskStatus

__all__ = ["TaskPlace", "TaskRecord", "TaskStore", "read_record", "write_record"]


@attrs.frozen(kw_only=True)
class TaskRecord:
    """What is known of a task."""

    state: TaskState
    """Its id, how it stands, and what came of it."""
    owner: str | None
    """Whose it is; `None` where nobody is told apart: then whoever knows its id may use it."""
    tool: str
    """The tool that it runs."""
    params: JsonObject
    """The parameters of the call, as they came."""
    revision: str
    """The revision of the call."""
    capabilities: JsonObject
    """What the client declared, in its wire form."""
    client_info: JsonObject | None = None
    """Who the client said it is, in its wire form."""
    answers: dict[str, JsonObject] = attrs.field(factory=dict)
    """The answers to its questions, by the key of the question."""
    once: JsonObject = attrs.field(factory=dict)
    """Results of side effects that must not happen again, by the key that the function gave them."""


@attrs.frozen(order=True)
class TaskPlace:
    """Where a task stands in the order of all: by its age, then by its id."""

    created_at: float
    """When it was made, in seconds since the epoch."""
    id: str
    """Its id."""

    @classmethod
    def of(cls, record: TaskRecord) -> TaskPlace:
        """The place of a task."""
        return cls(record.state.created_at, record.state.id)


class TaskStore(Protocol):
    """Keeps tasks. All of it may be called from several tasks of trio at once.

    When a method returns, what it did is done: another call, and, in a store that outlives the process, a process
    that is started after this one was killed, finds it. When it is cancelled, it was done entirely or not at all; calls
    that were begun one after the other take effect in that order.

    A store is bounded for each owner, by `Limits.tasks` and `Limits.task_bytes`. It forgets nothing before its time:
    what would be too much is refused.

    Raises:
        StoreError: The store cannot do it.
        trio.ClosedResourceError: It was closed.
    """

    async def create(self, record: TaskRecord) -> None:
        """Keeps a new task, whose id was never used.

        Raises:
            LimitExceeded: Its owner has too many, or they are too large. Nothing was kept.
        """

    async def save(self, record: TaskRecord) -> None:
        """Keeps what has changed about a task. Does nothing when there is none: it may have been deleted meanwhile.

        Raises:
            LimitExceeded: The tasks of its owner would become too large. What was kept stays as it is.
        """

    async def load(self, id: str) -> TaskRecord | None:
        """A task; `None` when there is none."""

    async def delete(self, id: str) -> None:
        """Forgets a task. Does nothing when there is none."""

    async def listed(self, owner: str, after: TaskPlace | None, count: int) -> tuple[TaskRecord, ...]:
        """The tasks of an owner, the oldest first.

        Args:
            owner: The owner.
            after: Behind what to begin; `None`: with the first. That task need not be there any more.
            count: How many at most.
        """

    async def unfinished(self) -> tuple[TaskRecord, ...]:
        """All tasks whose status may still change, the oldest first."""

    async def purge(self, expired_by: float, now: float) -> float | None:
        """Forget the tasks whose time has passed.

        A task that was made after `now` is forgotten when its time to live has passed from `now` on: the clock was put
        back, and the task would be kept for as long as it takes to come there again.

        Args:
            expired_by: Those whose time has passed by then are forgotten; seconds since the epoch.
            now: The time of day; seconds since the epoch.

        Returns:
            When the next one's time will have passed, in the same seconds; `None` when there is no such task.
        """

    async def aclose(self) -> None:
        """Closes the store. What was kept stays where it is kept. Closing twice is no error."""


def write_record(record: TaskRecord) -> str:
    """A record as JSON."""
    state = record.state
    return json.dumps(
        {
            "state": {each.name: getattr(state, each.name) for each in attrs.fields(TaskState)},
            "owner": record.owner,
            "tool": record.tool,
            "params": record.params,
            "revision": record.revision,
            "capabilities": record.capabilities,
            "client_info": record.client_info,
            "answers": record.answers,
            "once": record.once,
        },
        separators=(",", ":"),
    )


def read_record(text: str) -> TaskRecord:
    """The record that `write_record` wrote."""
    fields = json.loads(text)
    state = fields.pop("state")
    status = cast("TaskStatus", state.pop("status"))  # as it was written
    return TaskRecord(state=TaskState(status=status, **state), **fields)
