"""One running task: its function, its client requests and its notifications.

The function runs in the background of the server, in its own cancel scope. `tasks/cancel` and the end of the time to
live cancel the scope. The context works differently than in a request. Progress becomes the status message. A client
request sets the status to `input_required` until the client has responded: by `tasks/update` in the extension, and in
2025-11-25 as a response to an ordinary request that the server sends while a `tasks/result` is pending.

State that must not be lost is saved in the store before any client is notified of it.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, cast

import attrs
import trio

from mcp_core.conversion.converter import converter
from mcp_core.engine.mrtr import AnsweredInputs, RequestState
from mcp_core.engine.results import code_for
from mcp_core.errors import (
    ConnectionEnded,
    ErrorCode,
    LimitExceeded,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestFailed,
)
from mcp_core.features.tasks import as_extension_task, as_task, with_related_task
from mcp_core.field_methods import FieldRepr
from mcp_core.methods import NOTIFICATIONS_PROGRESS, NOTIFICATIONS_TASKS, NOTIFICATIONS_TASKS_STATUS
from mcp_core.trio.nursery import open_private_nursery
from mcp_core.types import ExtensionTaskNotificationParams, TaskStatusNotificationParams, WireObject
from mcp_server.connection.channel import Channel, RequestContext
from mcp_server.connection.client_requests import (
    CLIENT_REQUESTS,
    DirectClientRequests,
    check_client_request,
    read_answer,
    run_once,
)
from mcp_server.connection.throttle import ProgressThrottle
from mcp_server.stores.failures import StoreFailures
from mcp_server.stores.sessions import StoreError
from mcp_server.stores.tasks import TaskClaimed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp_core.engine.events import ClientPeer, NotificationReceived, Outgoing, RequestReceived
    from mcp_core.engine.server import ServerConnection
    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_core.methods import NotificationMethod, RequestMethod
    from mcp_core.types import (
        InputRequest,
        LoggingMessageNotificationParams,
        ProgressNotificationParams,
        SubscriptionFilter,
        TaskStatus,
    )
    from mcp_server.connection.authenticator import Identity
    from mcp_server.connection.channel import NotificationTarget, SubscribedTarget
    from mcp_server.stores.tasks import TaskRecord, TaskStore

__all__ = ["TaskRun"]

_log: Final = logging.getLogger("mcp_server")

_STORE_SECONDS: Final = 0.5
"""Time after which a worker tries again to store the outcome of a task, in seconds."""


@attrs.define(eq=False, repr=False)
class _InputRequest(FieldRepr):
    """A client request that is waiting for its response."""

    definition: RequestMethod[object, object]
    params: WireObject
    request: InputRequest
    answered: trio.Event = attrs.field(factory=trio.Event)
    failure: McpError | None = None
    """The error that the client responded with (2025-11-25)."""
    sent: bool = False
    """Whether the request has been sent to the client (2025-11-25)."""


class TaskRun:
    """One task that runs in this process.

    Args:
        record: The task, which is already in the store.
        store: The store.
        request: The tool call that became the task.
        notify: Notifies the subscribers of a change.
        audience: The legacy session that the task was started in; `None` if it has none, or the session has ended.
        http: The HTTP request of the call.
        identity: The sender of the HTTP request.
        announce: Informs the other workers that the record in the store has changed; `None`: no other worker can read
            the store.
        settle: Waits until the other workers have received the notifications of the task that they deliver.
        flush: Waits until the changes that the function published are not lost if this worker ends.
    """

    def __init__(
        self,
        record: TaskRecord,
        store: TaskStore,
        request: RequestReceived,
        notify: Callable[[NotificationTarget | None, NotificationMethod[object], WireObject, str], None],
        *,
        announce: Callable[[], None] | None = None,
        settle: Callable[[], Awaitable[None]] | None = None,
        flush: Callable[[], Awaitable[None]],
        target: NotificationTarget | None = None,
        http: HttpRequest | None = None,
        identity: Identity | None = None,
    ) -> None:
        self.record: TaskRecord = record
        self.scope: Final = trio.CancelScope()
        """The cancel scope of its function."""
        self.kept: bool = False
        """Whether its final status is in the store."""
        self.charge: MemoryCharge | None = None
        """The memory charge while the task runs; `None` for a task that an earlier process started."""
        self._store: Final = store
        self._request: Final = request
        self._notify: Final = notify
        self._flush: Final = flush
        self._target: Final = target
        self._http: Final = http
        self._identity: Final = identity
        self._input_requests: Final[dict[str, _InputRequest]] = {}
        self._changed = trio.Event()
        self._announce: Final = announce
        self._settle: Final = settle
        # Set when the record has changes that the other workers cannot read yet.
        self._unsaved = trio.Event()
        self.is_claimed: bool = False
        """Whether another worker has claimed the task. This run is then without effect."""

    # --- state -----------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The id of the task."""
        return self.record.state.id

    @property
    def peer(self) -> ClientPeer:
        """The client that started the task."""
        return cast("ClientPeer", self._request.peer)  # the peer of a server is a client

    @property
    def input_requests(self) -> Mapping[str, InputRequest]:
        """The pending input requests, by key."""
        return {key: input_request.request for key, input_request in self._input_requests.items()}

    def _wire_input_requests(self) -> dict[str, JsonObject]:
        """Return the pending input requests in their wire form, by key."""
        convert = converter(self.peer.revision)
        return {
            key: {"method": each.definition.name, "params": convert.unstructure(each.params)}
            for key, each in self._input_requests.items()
        }

    def release_memory(self) -> None:
        """Release the memory that is charged while the task runs."""
        if self.charge is not None:
            self.charge.release()

    # --- execution -------------------------------------------------------------------------------------------------

    async def run(self, work: Callable[[RequestContext], Awaitable[object]], connection: ServerConnection) -> None:
        """Run the function until it ends, and store its outcome.

        Args:
            work: Runs the function.
            connection: An engine without a connection. It supplies the limits.
        """
        line = _TaskChannel(_Worker(work), connection, self.record.owner)
        call = RequestContext(self._request, line, self.scope, http=self._http, identity=self._identity, task=self.id)
        call.client_requests = _TaskClientRequests(self, call)
        throttle = call.throttle = _TaskThrottle(self, call)
        state = self.record.state
        if state.expires_at is not None and state.ttl is not None:
            # At most the whole time to live, even if the clock of an earlier process was ahead.
            left = min(state.expires_at - time.time(), state.ttl / 1000)
            self.scope.deadline = trio.current_time() + left
        outcome: object = None
        async with open_private_nursery() as nursery:
            if self._announce is not None:
                nursery.start_soon(self._save_changes, self._announce)
            with self.scope:
                outcome = await line.outcome(call)
                await throttle.flush()
        if self.is_claimed:
            return
        if self.scope.cancelled_caught:
            outcome = RequestFailed("the task exceeded its time to live", code=ErrorCode.INTERNAL_ERROR)
        while not self.record.state.terminal:
            with trio.CancelScope(shield=True):
                has_ended = await self._finish(outcome)
            if has_ended:
                return
            await trio.sleep(_STORE_SECONDS)

    async def _finish(self, outcome: object) -> bool:
        """Store the outcome: a result or an error.

        Returns:
            Whether the run has ended. If the store of several workers fails, it has not, and nothing changes.
        """
        await self._flush()
        await self._settled_notifications()
        if self.record.state.terminal:
            return True  # the client has cancelled the task meanwhile
        try:
            if not isinstance(outcome, RequestFailed):
                wire = outcome if isinstance(outcome, dict) else self._wire(outcome)
                try:
                    await self._end("completed", result=wire)
                except LimitExceeded as limit:
                    outcome = RequestFailed(f"the result cannot be stored: {limit.message}")
                else:
                    return True
            error: JsonObject = {"code": code_for(outcome, self.peer.revision), "message": outcome.message}
            if outcome.data is not None:
                error["data"] = outcome.data
            try:
                await self._end("failed", message=outcome.message, error=error)
            except LimitExceeded:
                # The error itself exceeds the limit.
                await self._end("failed", error={"code": int(ErrorCode.INTERNAL_ERROR), "message": "Internal error"})
        except TaskClaimed:
            self._lose()
        except Exception as error:  # noqa: BLE001  # of the store: the task has ended, and this process reports that
            if self._announce is not None and isinstance(error, StoreError):
                # The other workers read the store. A failure that only this worker knows would never reach the client.
                _log.warning("the outcome of a task is not stored yet: task=%s… error=%s", self.id[:8], error)
                return False
            _log.exception("the outcome of a task cannot be stored: task=%s…", self.id[:8])
            if not self.record.state.terminal:
                self.move("failed", error={"code": int(ErrorCode.INTERNAL_ERROR), "message": "Internal error"})
        return True

    def _wire(self, result: object) -> JsonObject:
        if not isinstance(result, WireObject):
            raise TypeError(f"a tool returned {type(result).__name__}, not a result")
        return converter(self.peer.revision).unstructure(result)

    async def _end(
        self,
        status: TaskStatus,
        *,
        message: str | None = None,
        result: JsonObject | None = None,
        error: JsonObject | None = None,
    ) -> None:
        """Store the final status, then notify the client. Raises `LimitExceeded`, and the errors of the store."""
        state = self.record.state.moved(status, time.time(), message=message, result=result, error=error)
        record = attrs.evolve(self.record, state=state, input_requests={})
        await self._store.save(record)
        self.kept = True
        if not self.record.state.terminal:
            self._become(record)
            if self._announce is not None:
                self._announce()
            _log.info("task ended: task=%s… owner=%s status=%s", self.id[:8], record.owner or "anonymous", status)

    def move(self, status: TaskStatus, *, message: str | None = None, error: JsonObject | None = None) -> None:
        """Change the status without storing it. Raises `LocalProtocolError` if the transition is not allowed."""
        state = self.record.state.moved(status, time.time(), message=message, error=error)
        self._become(attrs.evolve(self.record, state=state))

    async def keep(self, record: TaskRecord | None = None) -> None:
        """Store the record. Raises the errors of the store.

        Args:
            record: The record if it differs from the present one.

        Raises:
            TaskClaimed: Another worker has claimed the task. The function of this run is cancelled.
        """
        if self.record.state.terminal:
            await self._settled_notifications()
        try:
            await self._store.save(record or self.record)
        except TaskClaimed:
            self._lose()
            raise
        self.kept = self.record.state.terminal
        if self._announce is not None:
            self._announce()

    async def _settled_notifications(self) -> None:
        """Wait for the progress that another worker sends to the client: none may follow the final status."""
        if self._settle is not None and self._target is not None:
            await self._settle()

    async def _save_changes(self, announce: Callable[[], None]) -> None:
        """Store changes of the status, the progress and the input requests, which other workers report to the client."""
        while True:
            await self._unsaved.wait()
            self._unsaved = trio.Event()
            try:
                await self._store.save(self.record)
            except TaskClaimed:
                self._lose()
                return
            except (StoreError, LimitExceeded) as error:
                # The next change is stored again. Until then, the other workers report an earlier status.
                _log.warning("the status of a task is not stored: task=%s… error=%s", self.id[:8], error)
            else:
                announce()

    def _lose(self) -> None:
        """Stop the function, because another worker has claimed the task and runs it."""
        _log.warning("task claimed by another worker: task=%s…", self.id[:8])
        self.is_claimed = True
        self._input_requests.clear()
        self.scope.cancel()
        self._wake()

    async def cancel(self) -> None:
        """Cancel the task and stop its function. Raises `LocalProtocolError` if the task has ended."""
        self.move("cancelled", message="cancelled by the client")
        self._input_requests.clear()
        self.scope.cancel()
        _log.info("task cancelled: task=%s… owner=%s", self.id[:8], self.record.owner or "anonymous")
        await self.keep()

    def _wake(self) -> None:
        """Wake the requests that wait for a change."""
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def _become(self, record: TaskRecord) -> None:
        if self._announce is not None and not record.state.terminal:
            record = attrs.evolve(record, input_requests=self._wire_input_requests())
            self._unsaved.set()
        self.record = record
        self._wake()
        params = as_extension_task(record.state, ExtensionTaskNotificationParams, self.input_requests)
        self._notify(None, NOTIFICATIONS_TASKS, params, self.id)
        if self._target is not None:
            # One key for each status: the final notification must not replace a queued earlier one.
            key = f"{self.id} {record.state.status}"
            status = as_task(record.state, TaskStatusNotificationParams)
            self._notify(self._target, NOTIFICATIONS_TASKS_STATUS, status, key)

    # --- progress --------------------------------------------------------------------------------------------------

    def progressed(self, said: ProgressNotificationParams, *, token: bool) -> None:
        """Report the progress of the function.

        Args:
            said: The progress.
            token: Whether the client sent a progress token.
        """
        state = self.record.state
        if state.terminal:
            return
        of = "" if said.total is None else f" of {said.total:g}"
        record = attrs.evolve(self.record, state=state.noted(said.message or f"{said.progress:g}{of}", time.time()))
        if token and self._target is not None:
            self._notify(self._target, NOTIFICATIONS_PROGRESS, with_related_task(said, self.id), self.id)
            self.record = record
            self._unsaved.set()
        else:
            self._become(record)

    # --- client requests -------------------------------------------------------------------------------------------

    async def request_input(
        self, key: str, definition: RequestMethod[object, object], params: WireObject, request: InputRequest
    ) -> None:
        """Request input from the client, and wait until the response is in the record. Raises the client's error."""
        input_request = self._input_requests[key] = _InputRequest(definition, params, request)
        if self.record.state.status == "working":
            self.move("input_required", message="waiting for input from the client")
        else:
            self._become(self.record)
        try:
            await input_request.answered.wait()
        finally:
            # Also if the function stopped waiting.
            self._settled(key)
        if input_request.failure is not None:
            raise input_request.failure

    async def answer(self, answers: Mapping[str, JsonObject]) -> None:
        """Store the input responses of the client. Responses without a pending input request are ignored.

        Raises:
            RequestFailed: An input response is invalid. In this case nothing is stored.
        """
        wanted = {key: answer for key, answer in answers.items() if key in self._input_requests}
        for key, answer in wanted.items():
            read_answer(self.peer.revision, self._input_requests[key].definition, answer)
        if not wanted:
            return
        self.record = attrs.evolve(self.record, answers={**self.record.answers, **wanted})
        # In one step: other workers read the record as soon as the client knows that its responses are stored.
        state, rest = self.record.state, self._input_requests.keys() - wanted.keys()
        if state.status == "input_required" and not rest:
            state = state.moved("working", time.time())
        pending = {key: each for key, each in self.record.input_requests.items() if key in rest}
        await self.keep(attrs.evolve(self.record, state=state, input_requests=pending))
        for key in wanted:
            self._settled(key)

    def fail_input(self, key: str, failure: McpError) -> None:
        """End an input request with the error that the client responded with. Do nothing if it is not pending."""
        if key in self._input_requests:
            self._input_requests[key].failure = failure
            self._settled(key)

    def _settled(self, key: str) -> None:
        input_request = self._input_requests.pop(key, None)
        if input_request is None:
            return
        input_request.answered.set()
        if not self._input_requests and self.record.state.status == "input_required":
            self.move("working")

    async def remember(self, key: str, value: JsonValue) -> None:
        """Store the result of a side effect. Raises the errors of the store."""
        self.record = attrs.evolve(self.record, once={**self.record.once, key: value})
        await self.keep()

    # --- tasks/result (2025-11-25) ---------------------------------------------------------------------------------

    async def attend(self, call: RequestContext) -> None:
        """Wait until the task has ended. Meanwhile send its client requests as part of `call`, a `tasks/result`."""
        async with open_private_nursery() as nursery:
            while not (self.record.state.terminal or self.is_claimed):
                changed = self._changed
                for key, input_request in self._input_requests.items():
                    if not input_request.sent:
                        input_request.sent = True
                        nursery.start_soon(self._put, call, key, input_request)
                await changed.wait()

    async def _put(self, call: RequestContext, key: str, input_request: _InputRequest) -> None:
        """Send a client request. After a connection error, another `tasks/result` can send it again."""
        params = with_related_task(input_request.params, self.id)
        try:
            answer = await call.channel.request_client(input_request.definition, params, call)
            if isinstance(answer, WireObject):
                await self.answer({key: converter(self.peer.revision).unstructure(answer)})
        except (RequestFailed, RemoteProtocolError) as failure:
            self.fail_input(key, failure)
        except (ConnectionEnded, LocalProtocolError) as error:
            _log.debug("client request of a task failed: task=%s… error=%s", self.id[:8], error)
        except Exception:  # noqa: BLE001  # of the store: the response is lost
            _log.exception("the input response of a task cannot be stored: task=%s…", self.id[:8])
            self.fail_input(key, RequestFailed("Internal error", code=ErrorCode.INTERNAL_ERROR))
        finally:
            input_request.sent = False


class _TaskClientRequests(DirectClientRequests):
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


class _TaskThrottle(ProgressThrottle):
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


class _Worker:
    """The service of a task's channel. A `mcp_server.connection.channel.Service` of one call."""

    def __init__(self, work: Callable[[RequestContext], Awaitable[object]]) -> None:
        self._work: Final = work
        self.store_failures: Final = StoreFailures()
        """Logs failures of stores."""

    async def answer(self, call: RequestContext) -> object:
        """Run the function of the task."""
        return await self._work(call)

    def input_required(self, call: RequestContext) -> object | None:
        """Return `None`: a task has no multi round-trip requests."""

    def notified(self, channel: Channel, event: NotificationReceived) -> None:
        """Ignore the notification."""

    def opened(self, channel: Channel) -> None:
        """Do nothing: there is no connection to open."""

    def connected(self, target: SubscribedTarget) -> None:
        """Do nothing: there are no subscribers."""

    def disconnected(self, target: SubscribedTarget) -> None:
        """Do nothing: there are no subscribers."""


class _TaskChannel(Channel):
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
        """Raise `LocalProtocolError`: a task sends client requests with `_TaskClientRequests`."""
        raise LocalProtocolError(f"a task cannot send {definition.name}")

    async def listen(self, call: RequestContext, wanted: SubscriptionFilter) -> None:  # noqa: ARG002
        """Raise `LocalProtocolError`: a task has no subscriptions."""
        raise LocalProtocolError("a task has no subscriptions")
