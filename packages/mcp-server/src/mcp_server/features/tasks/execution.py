"""One task while it runs: its function, its questions, and what it tells.

The function runs in the background of the server, in a scope of its own, which `tasks/cancel` and the end of its time to
live cancel. What it does with its context has another meaning here than in a request: progress becomes the message of the
status; a question puts the task into `input_required` until the client has answered it, by `tasks/update` in the
extension, and in 2025-11-25 by a request of ours that travels with a `tasks/result`.

What must not be lost is in the store before anybody is told of it.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, cast

import attrs
import trio

from mcp_core.conversion.converter import converter
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
from mcp_core.methods import NOTIFICATIONS_PROGRESS, NOTIFICATIONS_TASKS, NOTIFICATIONS_TASKS_STATUS
from mcp_core.types import ExtensionTaskNotificationParams, TaskStatusNotificationParams, WireObject
from mcp_server.connection.channel import Call
from mcp_server.connection.client_requests import read_answer
from mcp_server.connection.nursery import open_private_nursery
from mcp_server.features.tasks.channel import TaskAsking, TaskLine, TaskPace, Worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp_core.engine.events import ClientPeer, RequestReceived
    from mcp_core.engine.server import ServerConnection
    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_core.methods import Method, NotificationRow
    from mcp_core.types import (
        InputRequest,
        ProgressNotificationParams,
        TaskStatus,
    )
    from mcp_server.connection.authenticator import Identity
    from mcp_server.connection.channel import Audience
    from mcp_server.stores.tasks import TaskRecord, TaskStore

__all__ = ["TaskRun"]

_log: Final = logging.getLogger("mcp_server")


@attrs.define(eq=False)
class _Question:
    """Something that the client shall answer."""

    row: Method[object, object]
    params: WireObject
    request: InputRequest
    answered: trio.Event = attrs.field(factory=trio.Event)
    failure: McpError | None = None
    """The client answered with an error (2025-11-25)."""
    asked: bool = False
    """A request of ours is on its way (2025-11-25)."""


class TaskRun:
    """One task that runs in this process.

    Args:
        record: The task, which is in the store.
        store: The store.
        request: The call that it stands for.
        tell: Tells all that listen of a change.
        audience: The legacy session that it was begun in; `None` where there is none, or not any more.
        http: The HTTP request of the call.
        identity: Who sent that.
    """

    def __init__(
        self,
        record: TaskRecord,
        store: TaskStore,
        request: RequestReceived,
        tell: Callable[[Audience | None, NotificationRow[object], WireObject, str], None],
        *,
        audience: Audience | None = None,
        http: HttpRequest | None = None,
        identity: Identity | None = None,
    ) -> None:
        self.record = record
        self.scope: Final = trio.CancelScope()
        """What its function runs in."""
        self.kept = False
        """Its end is in the store."""
        self.charge: MemoryCharge | None = None
        """Its memory while it runs; `None` for a task that an earlier process began."""
        self._store: Final = store
        self._request: Final = request
        self._tell: Final = tell
        self._audience: Final = audience
        self._http: Final = http
        self._identity: Final = identity
        self._questions: Final[dict[str, _Question]] = {}
        self._changed = trio.Event()

    # --- what is known ---------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Its id."""
        return self.record.state.id

    @property
    def peer(self) -> ClientPeer:
        """The client that it was begun by."""
        return cast("ClientPeer", self._request.peer)  # of a server

    @property
    def questions(self) -> Mapping[str, InputRequest]:
        """What the client shall answer, by key."""
        return {key: question.request for key, question in self._questions.items()}

    def release_memory(self) -> None:
        """Give back the memory that is charged while the task runs."""
        if self.charge is not None:
            self.charge.release()

    # --- its life --------------------------------------------------------------------------------------------------

    async def run(self, work: Callable[[Call], Awaitable[object]], connection: ServerConnection) -> None:
        """Runs the function to its end, and keeps what came of it.

        Args:
            work: Runs the function.
            connection: An engine that is on no connection: it knows the bounds.
        """
        line = TaskLine(Worker(work), connection, self.record.owner)
        call = Call(self._request, line, self.scope, http=self._http, identity=self._identity, task=self)
        call.asking = TaskAsking(self, call)
        call.pace = TaskPace(self, call)
        state = self.record.state
        if state.expires_at is not None and state.ttl is not None:
            # No more than the whole time, also where an earlier process had a clock that was ahead.
            left = min(state.expires_at - time.time(), state.ttl / 1000)
            self.scope.deadline = trio.current_time() + left
        outcome: object = None
        with self.scope:
            outcome = await line.outcome(call)
            await call.pace.flush()
        if self.scope.cancelled_caught:
            outcome = RequestFailed("the task did not end within its time to live", code=ErrorCode.INTERNAL_ERROR)
        if not self.record.state.terminal:
            with trio.CancelScope(shield=True):
                await self._finish(outcome)

    async def _finish(self, outcome: object) -> None:
        """Keeps the outcome: a result, or the error."""
        try:
            if not isinstance(outcome, RequestFailed):
                wire = outcome if isinstance(outcome, dict) else self._wire(outcome)
                try:
                    await self._end("completed", result=wire)
                except LimitExceeded as limit:
                    outcome = RequestFailed(f"the result cannot be kept: {limit.message}")
                else:
                    return
            error: JsonObject = {"code": code_for(outcome, self.peer.revision), "message": outcome.message}
            if outcome.data is not None:
                error["data"] = outcome.data
            try:
                await self._end("failed", message=outcome.message, error=error)
            except LimitExceeded:
                # It says more than there is room for.
                await self._end("failed", error={"code": int(ErrorCode.INTERNAL_ERROR), "message": "Internal error"})
        except Exception:  # noqa: BLE001  # whatever the store does: the task is over, and is told so as long as we live
            _log.exception("the end of task %s… cannot be kept", self.id[:8])
            if not self.record.state.terminal:
                self.move("failed", error={"code": int(ErrorCode.INTERNAL_ERROR), "message": "Internal error"})

    def _wire(self, result: object) -> JsonObject:
        if not isinstance(result, WireObject):
            raise TypeError(f"a tool gave {type(result).__name__}")
        return converter(self.peer.revision).unstructure(result)

    async def _end(
        self,
        status: TaskStatus,
        *,
        message: str | None = None,
        result: JsonObject | None = None,
        error: JsonObject | None = None,
    ) -> None:
        """Keeps the end of the task, and then tells it. Raises `LimitExceeded`, and what the store raises."""
        state = self.record.state.moved(status, time.time(), message=message, result=result, error=error)
        record = attrs.evolve(self.record, state=state)
        await self._store.save(record)
        self.kept = True
        if not self.record.state.terminal:
            self._become(record)
            _log.info("task %s… of %s is %s", self.id[:8], record.owner or "nobody in particular", status)

    def move(self, status: TaskStatus, *, message: str | None = None, error: JsonObject | None = None) -> None:
        """Puts it into another status, which is not kept yet. Raises `LocalProtocolError` when that cannot be."""
        state = self.record.state.moved(status, time.time(), message=message, error=error)
        self._become(attrs.evolve(self.record, state=state))

    async def keep(self) -> None:
        """Keeps what has changed. Raises what the store raises."""
        await self._store.save(self.record)
        self.kept = self.record.state.terminal

    async def cancel(self) -> None:
        """The client no longer wants it: it is cancelled, and its function is stopped. Raises `LocalProtocolError`."""
        self.move("cancelled", message="cancelled by the client")
        self._questions.clear()
        self.scope.cancel()
        _log.info("task %s… of %s is cancelled", self.id[:8], self.record.owner or "nobody in particular")
        await self.keep()

    def _become(self, record: TaskRecord) -> None:
        self.record = record
        changed, self._changed = self._changed, trio.Event()
        changed.set()
        params = as_extension_task(record.state, ExtensionTaskNotificationParams, self.questions)
        self._tell(None, NOTIFICATIONS_TASKS, params, self.id)
        if self._audience is not None:
            # A key for each status: what is told of the end must not take the place of something older, before progress.
            key = f"{self.id} {record.state.status}"
            status = as_task(record.state, TaskStatusNotificationParams)
            self._tell(self._audience, NOTIFICATIONS_TASKS_STATUS, status, key)

    # --- telling ---------------------------------------------------------------------------------------------------

    def progressed(self, said: ProgressNotificationParams, *, token: bool) -> None:
        """Its function told how far it got.

        Args:
            said: What it told.
            token: The client asked for progress.
        """
        state = self.record.state
        if state.terminal:
            return
        of = "" if said.total is None else f" of {said.total:g}"
        record = attrs.evolve(self.record, state=state.noted(said.message or f"{said.progress:g}{of}", time.time()))
        if token and self._audience is not None:
            self._tell(self._audience, NOTIFICATIONS_PROGRESS, with_related_task(said, self.id), self.id)
            self.record = record
        else:
            self._become(record)

    # --- asking ----------------------------------------------------------------------------------------------------

    async def ask(self, key: str, row: Method[object, object], params: WireObject, request: InputRequest) -> None:
        """Asks the client, and waits until its answer is in the record. Raises what it answered instead."""
        question = self._questions[key] = _Question(row, params, request)
        if self.record.state.status == "working":
            self.move("input_required", message="waiting for an answer of the client")
        else:
            self._become(self.record)
        try:
            await question.answered.wait()
        finally:
            # Where the function gave up waiting.
            self._settled(key)
        if question.failure is not None:
            raise question.failure

    async def answer(self, answers: Mapping[str, JsonObject]) -> None:
        """The client answered. What is not asked for is ignored.

        Raises:
            RequestFailed: Something is no answer to its question; nothing has happened then.
        """
        wanted = {key: answer for key, answer in answers.items() if key in self._questions}
        for key, answer in wanted.items():
            read_answer(self.peer.revision, self._questions[key].row, answer)
        if not wanted:
            return
        self.record = attrs.evolve(self.record, answers={**self.record.answers, **wanted})
        await self.keep()
        for key in wanted:
            self._settled(key)

    def _settled(self, key: str) -> None:
        question = self._questions.pop(key, None)
        if question is None:
            return
        question.answered.set()
        if not self._questions and self.record.state.status == "input_required":
            self.move("working")

    async def remember(self, key: str, value: JsonValue) -> None:
        """A side effect has happened. Raises what the store raises."""
        self.record = attrs.evolve(self.record, once={**self.record.once, key: value})
        await self.keep()

    # --- tasks/result (2025-11-25) ---------------------------------------------------------------------------------

    async def attend(self, call: Call) -> None:
        """Waits until it is over. Meanwhile its questions travel with `call`, which asks for its result."""
        async with open_private_nursery() as nursery:
            while not self.record.state.terminal:
                changed = self._changed
                for key, question in self._questions.items():
                    if not question.asked:
                        question.asked = True
                        nursery.start_soon(self._put, call, key, question)
                await changed.wait()

    async def _put(self, call: Call, key: str, question: _Question) -> None:
        """Asks the client by a request. Whatever goes wrong on the way, another `tasks/result` may ask again."""
        params = with_related_task(question.params, self.id)
        try:
            answer = await call.link.ask(question.row, params, call)
            if isinstance(answer, WireObject):
                await self.answer({key: converter(self.peer.revision).unstructure(answer)})
        except (RequestFailed, RemoteProtocolError) as failure:
            question.failure = failure
            self._settled(key)
        except (ConnectionEnded, LocalProtocolError) as error:
            _log.debug("task %s… could not ask: %s", self.id[:8], error)
        except Exception:  # noqa: BLE001  # of the store: the answer is lost
            _log.exception("task %s… could not keep an answer", self.id[:8])
            question.failure = RequestFailed("Internal error", code=ErrorCode.INTERNAL_ERROR)
            self._settled(key)
        finally:
            question.asked = False
