"""The tasks of a server that other workers of the cluster run: how requests act on them and wait for them.

The worker that runs a task is the only one that changes its record. Another worker that receives `tasks/cancel` or an
input response sends it to that worker, and waits until the record shows the effect. So a response states what is
stored. If that worker is lost, the task is claimed (`mcp_server.features.tasks.methods`), and the request starts again.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

import attrs
import trio

from mcp_core.conversion.converter import converter
from mcp_core.errors import (
    ConnectionEnded,
    ErrorCode,
    LocalProtocolError,
    RemoteProtocolError,
    RequestFailed,
)
from mcp_core.features.tasks import with_related_task
from mcp_core.field_methods import FieldRepr
from mcp_core.methods import ELICITATION_CREATE, ROOTS_LIST, SAMPLING_CREATE_MESSAGE
from mcp_core.revisions import REVISIONS
from mcp_core.trio.nursery import open_private_nursery
from mcp_server.cluster.messages import TaskInputFailed, TaskInputReceived
from mcp_server.connection.client_requests import CLIENT_REQUESTS, read_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.methods import RequestMethod
    from mcp_core.revisions import Revision
    from mcp_core.types import InputRequest, WireObject
    from mcp_server.cluster import Cluster
    from mcp_server.cluster.messages import ClusterMessage
    from mcp_server.connection.channel import RequestContext
    from mcp_server.stores.tasks import TaskRecord, TaskStore

__all__ = ["RemoteTasks", "check_input_responses", "input_requests_of"]

_log: Final = logging.getLogger("mcp_server")

_ACTION_SECONDS: Final = 5.0
"""Time for another worker to act, in seconds. It is longer than the time until a lost worker is noticed."""

_LOOK_SECONDS: Final = 1.0
"""Time after which a waiting request reads the record again, in seconds: the worker that runs the task may have been
lost meanwhile, or a message of it."""

_DEFINITIONS: Final[Mapping[str, RequestMethod[object, object]]] = {
    definition.name: definition for definition in (ELICITATION_CREATE, SAMPLING_CREATE_MESSAGE, ROOTS_LIST)
}
"""The client requests that a task can send, by method."""

_QUEUED: Final = 10_000
"""Largest number of tasks whose update waits to be reported to the clients of this worker."""


@attrs.define(eq=False, repr=False)
class _UpdateWaiters(FieldRepr):
    """The requests that wait for an update of one task."""

    changed: trio.Event = attrs.field(factory=trio.Event)
    users: int = 0


class RemoteTasks:
    """The tasks that other workers run.

    Args:
        cluster: Connects this worker to the others.
        store: The tasks of all workers.
    """

    def __init__(self, cluster: Cluster, store: TaskStore) -> None:
        self.cluster: Final = cluster
        """Connects this worker to the others."""
        self.store: Final = store
        """The tasks of all workers."""
        self._waiters: Final[dict[str, _UpdateWaiters]] = {}
        self._updated: Final[dict[str, None]] = {}
        self._new_update = trio.Event()

    def has(self, record: TaskRecord) -> bool:
        """Return whether another worker runs a task, as far as is known."""
        return record.worker != self.cluster.worker and self.cluster.is_alive(record.worker)

    # --- updates ---------------------------------------------------------------------------------------------------

    def update(self, task: str) -> None:
        """Learn that the record of a task changed. Does not block."""
        waiters = self._waiters.get(task)
        if waiters is not None:
            waiters.changed.set()
            waiters.changed = trio.Event()
        self._updated[task] = None
        if len(self._updated) > _QUEUED:
            # Its client polls.
            del self._updated[next(iter(self._updated))]
        self._new_update.set()

    async def next_update(self) -> str:
        """Wait for an update. Return the task id. One task at a time may call this method."""
        while not self._updated:
            self._new_update = trio.Event()
            await self._new_update.wait()
        task = next(iter(self._updated))
        del self._updated[task]
        return task

    @contextmanager
    def _waiting(self, task: str) -> Iterator[_UpdateWaiters]:
        waiters = self._waiters.setdefault(task, _UpdateWaiters())
        waiters.users += 1
        try:
            yield waiters
        finally:
            waiters.users -= 1
            if not waiters.users:
                del self._waiters[task]

    # --- requests --------------------------------------------------------------------------------------------------

    async def request(
        self, record: TaskRecord, message: ClusterMessage, is_done: Callable[[TaskRecord], bool]
    ) -> TaskRecord | None:
        """Send a message to the worker that runs a task, and wait for the effect.

        Args:
            record: The record of the task.
            message: The message.
            is_done: Returns whether a record shows the effect.

        Returns:
            The record as it is stored: with the effect, or with another token because another worker has claimed the
            task; `None` if the task was deleted.

        Raises:
            RequestFailed: The worker did not act in time.
            StoreError: The record cannot be read.
        """
        id = record.state.id
        with trio.move_on_after(_ACTION_SECONDS), self._waiting(id) as waiters:
            self.cluster.send(record.worker, message)
            while True:
                changed = waiters.changed
                found = await self.store.load(id)
                if found is None or found.token != record.token or is_done(found):
                    return found
                with trio.move_on_after(_LOOK_SECONDS):
                    await changed.wait()
                if not self.has(found):
                    break
        raise RequestFailed(
            "the worker that runs the task did not respond: send the request again", code=ErrorCode.INTERNAL_ERROR
        )

    async def attend(self, record: TaskRecord, call: RequestContext) -> TaskRecord | None:
        """Wait until a task has ended, or its worker was lost. Meanwhile send its client requests.

        Args:
            record: The record of the task.
            call: The `tasks/result`. The client requests are sent as part of it (2025-11-25).

        Returns:
            The record as it is stored; `None` if the task was deleted.

        Raises:
            StoreError: The record cannot be read.
        """
        id = record.state.id
        sent = set[str]()
        async with open_private_nursery() as nursery:
            with self._waiting(id) as waiters:
                while True:
                    changed = waiters.changed
                    found = await self.store.load(id)
                    if found is None or found.state.terminal or not self.has(found):
                        return found
                    for key in found.input_requests.keys() - sent:
                        sent.add(key)
                        nursery.start_soon(self._send_input_request, call, found, key, sent)
                    with trio.move_on_after(_LOOK_SECONDS):
                        await changed.wait()

    async def _send_input_request(self, call: RequestContext, record: TaskRecord, key: str, sent: set[str]) -> None:
        """Send an input request to the client, and its response to the worker that runs the task."""
        id, revision = record.state.id, REVISIONS[record.revision]
        definition = _definition(record, key)
        try:
            made = input_requests_of(record, revision)[key]
            params = with_related_task(cast("WireObject", made.params), id)
            answer = await call.channel.request_client(definition, params, call)
        except RequestFailed as failure:
            error: JsonObject = {"code": failure.code, "message": failure.message}
            if failure.data is not None:
                error["data"] = failure.data
            self.cluster.send(record.worker, TaskInputFailed(id, key, error))
        except RemoteProtocolError as failure:
            error = {"code": int(ErrorCode.INTERNAL_ERROR), "message": failure.message}
            self.cluster.send(record.worker, TaskInputFailed(id, key, error))
        except (ConnectionEnded, LocalProtocolError) as failure:
            # Another `tasks/result` can send it again.
            sent.discard(key)
            _log.debug("client request of a task failed: task=%s… error=%s", id[:8], failure)
        else:
            response = converter(revision).unstructure(cast("WireObject", answer))
            self.cluster.send(record.worker, TaskInputReceived(id, {key: response}))


def input_requests_of(record: TaskRecord, revision: Revision) -> Mapping[str, InputRequest]:
    """Return the pending input requests in a record, by key."""
    return {key: _input_request(revision, each) for key, each in record.input_requests.items()}


def _input_request(revision: Revision, wire: JsonObject) -> InputRequest:
    method = str(wire["method"])
    params = converter(revision).structure(wire["params"], _DEFINITIONS[method].params)
    # The class in the table fits the method, and so its params.
    return cast("InputRequest", CLIENT_REQUESTS[method](params=params))


def check_input_responses(record: TaskRecord, responses: Mapping[str, JsonObject]) -> dict[str, JsonObject]:
    """Return those input responses that the task of a record waits for. Raises `RequestFailed` if one is invalid."""
    wanted = {key: response for key, response in responses.items() if key in record.input_requests}
    for key, response in wanted.items():
        read_answer(REVISIONS[record.revision], _definition(record, key), response)
    return wanted


def _definition(record: TaskRecord, key: str) -> RequestMethod[object, object]:
    return _DEFINITIONS[str(record.input_requests[key]["method"])]
