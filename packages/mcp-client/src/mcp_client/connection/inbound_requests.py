"""Requests of the server: each runs in a task of its own, and those of one batch are answered in one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.errors import ConnectionEnded, ErrorCode, LocalProtocolError, McpError, RequestFailed
from mcp_core.jsonrpc.batch import BatchReply
from mcp_core.jsonrpc.codec import encode
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, ResultResponse
from mcp_core.types import CreateMessageResult, CreateTaskResult, ElicitResult, evolve
from mcp_core.types.meta import RELATED_TASK

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_client.connection.client_requests import Answering
    from mcp_client.connection.client_tasks import OwnTasks
    from mcp_client.connection.transport import Transport
    from mcp_core.engine.client import ClientConnection
    from mcp_core.engine.events import RequestReceived
    from mcp_core.jsonrpc.messages import Batch, Message, RequestId

__all__ = ["Serving"]

_log: Final = logging.getLogger("mcp_client")


class Serving:
    """Answers the requests of a legacy server.

    Args:
        connection: The engine.
        transport: Carries the answers.
        answering: Knows them.
        nursery: Where the handlers run.
        on_busy: Is told when the first of several handlers starts (true) and when the last one has ended (false).
        tasks: Answers what may be asked for as a task; `None`: nothing may.
    """

    def __init__(
        self,
        connection: ClientConnection,
        transport: Transport,
        answering: Answering,
        nursery: trio.Nursery,
        on_busy: Callable[[bool], None],
        *,
        tasks: OwnTasks | None = None,
    ) -> None:
        self._connection: Final = connection
        self._transport: Final = transport
        self._nursery: Final = nursery
        self._on_busy: Final = on_busy
        self._answer: Final = answering.answer if tasks is None else tasks.answer
        self._running: dict[RequestId, trio.CancelScope] = {}
        self._batches: dict[RequestId, BatchReply] = {}
        self._over = False

    @property
    def busy(self) -> bool:
        """Whether the server waits for an answer of a handler."""
        return bool(self._running)

    def begin(self, batch: Batch) -> tuple[Message, ...]:
        """A batch came (2025-03-26). Returns what the engine shall be given, one by one."""
        reply = BatchReply(batch)
        if reply.immediate is not None:
            self._transport.send_nowait(reply.immediate)
        self._batches.update(dict.fromkeys(reply.owed, reply))
        return reply.messages

    def start(self, event: RequestReceived) -> None:
        """Answers a request, soon."""
        allowed = self._connection.limits.running_requests
        if len(self._running) >= allowed:
            busy = f"too many requests at once; the limit is {allowed}"
            self.reply(self._outcome(event, RequestFailed(busy, code=ErrorCode.INTERNAL_ERROR)))
            return
        scope = trio.CancelScope()
        self._running[event.id] = scope
        if len(self._running) == 1:
            self._on_busy(True)  # noqa: FBT003  what it is told is whether we are
        self._nursery.start_soon(self._serve, event, scope)

    def cancel(self, id: RequestId) -> None:
        """The server no longer wants the answer."""
        scope = self._running.get(id)
        if scope is not None:
            scope.cancel()

    def end(self) -> None:
        """The server is gone."""
        self._over = True
        self.abandon()

    def abandon(self) -> None:
        """The server has forgotten what it asked."""
        self._batches.clear()
        for scope in self._running.values():
            scope.cancel()

    def reply(self, message: Message | None) -> None:
        """Sends an answer that cannot wait, alone or with the others of its batch."""
        message_or_batch = self._joined(message)
        if message_or_batch is not None:
            self._transport.send_nowait(message_or_batch)

    async def _serve(self, event: RequestReceived, scope: trio.CancelScope) -> None:
        try:
            with scope:
                outcome = await self._answer(event)
                if scope.cancel_called:
                    # The handler could not be interrupted. By now its id may stand for another question.
                    return
                await self._send(event, outcome)
        finally:
            # Once the answer was put down, a server may have used the id again before it could be written.
            if self._running.get(event.id) is scope:
                del self._running[event.id]
                self._connection.withdraw(event.id)
                self._drop(event.id)
            if not self._running:
                self._on_busy(False)  # noqa: FBT003  what it is told is whether we are

    async def _send(self, event: RequestReceived, outcome: object) -> None:
        message = self._joined(self._outcome(event, outcome))
        if message is None:
            return
        try:
            await self._transport.send(message)
        except ConnectionEnded:
            _log.debug("the server is gone, and nobody wants the answer to %s", event.method)
        except McpError as failure:
            _log.warning("the server did not take the answer to its request %s: %s", event.method, failure)

    def _outcome(self, event: RequestReceived, outcome: object) -> Message | None:
        connection = self._connection
        try:
            if isinstance(outcome, RequestFailed):
                outgoing = connection.fail(event.id, outcome)
            else:
                outgoing = connection.respond(event.id, _related(event, outcome))
            if outgoing is None:
                return None
            # Whether JSON can say it has to be known before it is joined with others.
            encode(outgoing.message, null_id=True)
        except LocalProtocolError:
            _log.exception("what the handler of %s gave cannot be sent", event.method)
            return ErrorResponse(event.id, ErrorObject(int(ErrorCode.INTERNAL_ERROR), "Internal error"))
        return outgoing.message

    def _joined(self, message: Message | None) -> Message | Batch | None:
        """What is to be sent now: the answer, or the batch that it completes."""
        if isinstance(message, ResultResponse | ErrorResponse) and message.id is not None:
            reply = self._batches.pop(message.id, None)
            if reply is not None:
                return reply.add(message)
        return message

    def _drop(self, id: RequestId) -> None:
        """A request of a batch that was cancelled is not answered; the others may have waited for it only."""
        reply = self._batches.pop(id, None)
        joined = None if reply is None or self._over else reply.drop(id)
        if joined is not None:
            self._transport.send_nowait(joined)


def _related(event: RequestReceived, outcome: object) -> object:
    """The answer to what a task of the server asks names the task, as the question does (2025-11-25)."""
    asked = getattr(event.params, "meta", None) or {}
    if RELATED_TASK not in asked or not event.peer.revision.core_tasks or event.row.task_capability is None:
        return outcome
    related = {RELATED_TASK: asked[RELATED_TASK]}
    if isinstance(outcome, dict):
        meta = outcome.get("_meta")
        return {**outcome, "_meta": {**(meta if isinstance(meta, dict) else {}), **related}}
    if isinstance(outcome, ElicitResult | CreateMessageResult | CreateTaskResult):
        return evolve(outcome, meta={**(outcome.meta or {}), **related})
    return outcome
