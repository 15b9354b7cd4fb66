"""The channel of a task: its client requests, its progress, and a connection end without a client."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, cast

import trio

from mcp_core.conversion.converter import converter
from mcp_core.engine.mrtr import AnsweredInputs, RequestState
from mcp_core.errors import LocalProtocolError
from mcp_server.connection.channel import Channel
from mcp_server.connection.client_requests import (
    CLIENT_REQUESTS,
    DirectClientRequests,
    check_client_request,
    read_answer,
    run_once,
)
from mcp_server.connection.throttle import ProgressThrottle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_core.engine.events import NotificationReceived, Outgoing
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.methods import RequestMethod
    from mcp_core.types import (
        InputRequest,
        LoggingMessageNotificationParams,
        ProgressNotificationParams,
        SubscriptionFilter,
        WireObject,
    )
    from mcp_server.connection.channel import NotificationTarget, RequestContext
    from mcp_server.features.tasks.execution import TaskRun

__all__ = ["TaskChannel", "TaskClientRequests", "TaskProgressThrottle", "Worker"]

_log: Final = logging.getLogger("mcp_server")


class TaskClientRequests(DirectClientRequests):
    """Client requests of a task. A `mcp_server.connection.channel.ClientRequests`."""

    def __init__(self, run: TaskRun, call: RequestContext) -> None:
        self._run: Final = run
        self._call: Final = call
        self._ledger: Final = AnsweredInputs(RequestState(answers=dict(run.record.answers), once=dict(run.record.once)))

    async def request(self, definition: RequestMethod[object, object], params: WireObject, key: str | None) -> object:
        """Send an input request of the task and wait for the input response.

        Raises:
            LocalProtocolError: A task cannot send this request.
        """
        check_client_request(self._call, definition, params)
        request_type = CLIENT_REQUESTS.get(definition.name)
        revision = self._run.peer.revision
        if request_type is None or getattr(params, "task", None) is not None:
            as_task = "" if request_type is None else " as a task"
            raise LocalProtocolError(f"a task cannot send {definition.name}{as_task}")
        # The table assigns to each method the class that fits its params.
        made = cast("InputRequest", request_type(params=params))
        wire: JsonObject = {"method": definition.name, "params": converter(revision).unstructure(params)}
        answer = self._ledger.request(made, wire, key)
        if answer is None:
            known, _ = self._ledger.pending.popitem()
            await self._run.request_input(known, definition, params, made)
            answer = self._ledger.state.answers[known] = self._run.record.answers[known]
        return read_answer(revision, definition, answer)

    async def once(self, key: str, function: Callable[[], object]) -> JsonValue:
        """Run a function once for this task, and store its result."""
        known, value = self._ledger.recall(key)
        if known:
            await trio.lowlevel.checkpoint()
            return value
        value = await run_once(key, function)
        self._ledger.remember(key, value)
        with trio.CancelScope(shield=True):
            # The side effect has happened. Without the record it would happen again.
            await self._run.remember(key, value)
        return value

    def result(self) -> None:
        """Return `None`: the client requests of a task do not end its handler."""
        return


class TaskProgressThrottle(ProgressThrottle):
    """The progress of a task, reported as its status message. Tasks do not emit log messages."""

    __slots__ = ("_run", "_token")

    def __init__(self, run: TaskRun, call: RequestContext) -> None:
        super().__init__(call, None)
        self._run: Final = run
        meta = call.request.raw.get("_meta")
        self._token: Final = isinstance(meta, dict) and "progressToken" in meta

    async def log(self, said: LoggingMessageNotificationParams) -> None:
        """Drop the message. The extension has no log messages of tasks; 2025-11-25 does not specify a receiver."""
        _log.debug("log message of a task dropped: task=%s… level=%s", self._run.id[:8], said.level)

    async def _send_progress(self, said: ProgressNotificationParams) -> None:
        self._run.progressed(said, token=self._token)


class Worker:
    """The service of a task's channel. A `mcp_server.connection.channel.Service` of one call."""

    def __init__(self, work: Callable[[RequestContext], Awaitable[object]]) -> None:
        self._work: Final = work

    async def answer(self, call: RequestContext) -> object:
        """Run the function of the task."""
        return await self._work(call)

    def input_required(self, call: RequestContext) -> object | None:
        """Return `None`: a task has no multi round-trip requests."""

    def notified(self, channel: Channel, event: NotificationReceived) -> None:
        """Ignore the notification."""

    def opened(self, channel: Channel) -> None:
        """Do nothing: there is no connection to open."""

    def connected(self, target: NotificationTarget) -> None:
        """Do nothing: there are no subscribers."""

    def disconnected(self, target: NotificationTarget) -> None:
        """Do nothing: there are no subscribers."""


class TaskChannel(Channel):
    """The channel of a task's call. It has no client: the result is stored."""

    async def outcome(self, call: RequestContext) -> object:
        """Return the result of the function, or its error."""
        return await self._outcome(call)

    async def send(self, outgoing: Outgoing | None) -> None:  # noqa: ARG002
        """Drop the message: the channel has no client."""
        await trio.lowlevel.checkpoint()

    async def request_client(
        self,
        definition: RequestMethod[object, object],
        params: object,  # noqa: ARG002
        call: RequestContext,  # noqa: ARG002
    ) -> object:
        """Raise `LocalProtocolError`: a task sends client requests with `TaskClientRequests`."""
        raise LocalProtocolError(f"a task cannot send {definition.name}")

    async def listen(self, call: RequestContext, wanted: SubscriptionFilter) -> None:  # noqa: ARG002
        """Raise `LocalProtocolError`: a task has no subscriptions."""
        raise LocalProtocolError("a task has no subscriptions")
