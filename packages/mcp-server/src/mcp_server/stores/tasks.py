"""Stored data of tasks, and the protocol of the stores that contain it.

A task is one record. The server replaces the record at each change that must survive: when the task starts, when the
client has responded to an input request, when a side effect has happened, and when the task ends. Progress in between
is not stored.

The record names the worker that runs the task, and has a fencing token. If the worker is lost, another one claims the
task, which increases the token. Only one of several workers succeeds, because the claim states the token that it
replaces. Records with an earlier token are rejected from then on, should the previous worker still run.

Every store must follow the rules that `TaskStore` states. `mcp_server.stores.contract` checks them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol, cast

import attrs

from mcp_core.errors import McpError
from mcp_core.features.tasks import TaskState
from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.types import TaskStatus

__all__ = ["TaskClaimed", "TaskOrder", "TaskRecord", "TaskStore", "read_record", "write_record"]


class TaskClaimed(McpError):
    """Another worker has claimed the task since this worker read or wrote its record. The record was not stored."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskRecord(FieldValue):
    """The stored data of a task."""

    state: TaskState
    """The id, the status, and the result or error of the task."""
    owner: str | None
    """The principal that owns the task. `None` if clients are not authenticated: every client that has the task id can
    then use the task."""
    tool: str
    """The name of the tool that the task runs."""
    params: JsonObject
    """The parameters of the call, as received."""
    revision: str
    """The revision of the call."""
    capabilities: JsonObject
    """The capabilities that the client declared, in their wire form."""
    client_info: JsonObject | None = None
    """The implementation that the client declared in `clientInfo`, in its wire form."""
    answers: dict[str, JsonObject] = attrs.field(factory=dict)
    """The input responses, by the key of the input request."""
    once: JsonObject = attrs.field(factory=dict)
    """Results of side effects that must not be repeated, by the key that the function gave them."""
    input_requests: dict[str, JsonObject] = attrs.field(factory=dict)
    """The pending input requests in their wire form, by key. Only stored if other workers can read the record."""
    session: str | None = None
    """The id of the legacy session in which the task was started. Its client is notified of the status."""
    worker: str = ""
    """The id of the worker that runs the task (`Cluster.worker`)."""
    token: int = 0
    """The fencing token: the number of claims of the task so far."""


@attrs.frozen(order=True)
class TaskOrder:
    """The position of a task in the order of all tasks: by age, then by id."""

    created_at: float
    """The time of creation, in seconds since the epoch."""
    id: str
    """The task id."""

    @classmethod
    def of(cls, record: TaskRecord) -> TaskOrder:
        """Return the position of a task."""
        return cls(record.state.created_at, record.state.id)


class TaskStore(Protocol):
    """A store of tasks. Several trio tasks may call its methods concurrently.

    When a method returns, its effect is visible to every later call. In a store that outlives the process, the effect
    is also visible to a process that is started after this process was killed. A cancelled call has its entire effect
    or none. Calls take effect in the order in which they were started.

    A store is bounded for each owner by `Limits.tasks`, `Limits.running_tasks` and `Limits.task_bytes`. It does not delete a task before its
    time to live has passed. It rejects a task that exceeds a bound.

    Raises:
        StoreError: The store failed.
        trio.ClosedResourceError: The store was closed.
    """

    async def create(self, record: TaskRecord) -> None:
        """Store a new task, whose id was never used.

        Raises:
            LimitExceeded: The owner has too many tasks, too many that have not ended (`Limits.running_tasks`), or they
                are too large. The task was not stored.
        """

    async def save(self, record: TaskRecord) -> None:
        """Replace the record of a task. Do nothing if the task does not exist: it may have been deleted meanwhile.

        Raises:
            TaskClaimed: The stored record has another token. It is not changed.
            LimitExceeded: The tasks of the owner would be too large. The stored record is not changed.
        """

    async def claim(self, record: TaskRecord, worker: str) -> TaskRecord | None:
        """Claim a task whose worker was lost.

        Args:
            record: The task, as it was read. Only its id and its token matter.
            worker: The id of the worker that will run the task.

        Returns:
            The stored record, with the worker and the next token; `None` if the task does not exist, has ended, or has
            another token because it was claimed meanwhile.
        """

    async def load(self, id: str) -> TaskRecord | None:
        """Return the record of a task, or `None` if the task does not exist."""

    async def delete(self, id: str) -> None:
        """Delete a task. Do nothing if the task does not exist."""

    async def listed(self, owner: str, after: TaskOrder | None, count: int) -> tuple[TaskRecord, ...]:
        """Return the tasks of an owner, the oldest first.

        Args:
            owner: The owner.
            after: The position after which to start, or `None` to start with the first task. The task at this position
                may have been deleted.
            count: The maximum number of tasks.
        """

    async def unfinished(self) -> tuple[TaskRecord, ...]:
        """Return all tasks whose status can still change, the oldest first."""

    async def purge(self, expired_by: float, now: float) -> float | None:
        """Delete the tasks whose time to live has passed.

        A task that was created after `now` is deleted when its time to live has passed, counted from `now`: the system
        clock was set back. Otherwise the task would be stored until the clock reaches that time again.

        Args:
            expired_by: Tasks that expire at this time or earlier are deleted. In seconds since the epoch.
            now: The time of day, in seconds since the epoch.

        Returns:
            The time at which the next task expires, in seconds since the epoch; `None` if no task expires.
        """

    async def aclose(self) -> None:
        """Close the store. Durable data stays where it is stored. Closing a closed store is not an error."""


def write_record(record: TaskRecord) -> str:
    """Return a record as JSON."""
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
            "input_requests": record.input_requests,
            "session": record.session,
            "worker": record.worker,
            "token": record.token,
        },
        separators=(",", ":"),
    )


def read_record(text: str) -> TaskRecord:
    """Return the record in JSON text that `write_record` returned."""
    fields = json.loads(text)
    state = fields.pop("state")
    status = cast("TaskStatus", state.pop("status"))  # written from a TaskStatus
    return TaskRecord(state=TaskState(status=status, **state), **fields)
