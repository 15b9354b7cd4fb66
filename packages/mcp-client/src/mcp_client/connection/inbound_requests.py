"""Inbound requests: each runs in a task of its own, and the responses to a batch are sent as one batch."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_core.codec import encode
from mcp_core.engine.batch import BatchReply
from mcp_core.errors import ConnectionEnded, ErrorCode, LocalProtocolError, McpError, RequestFailed
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, ResultResponse
from mcp_core.types import CreateMessageResult, CreateTaskResult, ElicitResult
from mcp_core.types.meta import RELATED_TASK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_core.codec import Batch
    from mcp_core.engine.client import ClientConnection
    from mcp_core.engine.events import RequestReceived
    from mcp_core.jsonrpc.messages import Message, RequestId

__all__ = ["InboundRequestRunner"]

_log: Final = logging.getLogger("mcp_client")


class InboundRequestRunner:
    """The inbound requests of a legacy server.

    Args:
        connection: The engine.
        answer: Calls the handler of a request. Returns the result, or the error to send.
        send: Sends a response, and blocks while the server does not read.
        send_nowait: Sends a response without blocking.
        nursery: The nursery of the handlers.
        on_busy: Called when a first handler starts, and when the last one has ended.
    """

    def __init__(
        self,
        connection: ClientConnection,
        answer: Callable[[RequestReceived], Awaitable[object]],
        send: Callable[[Message | Batch], Awaitable[None]],
        send_nowait: Callable[[Message | Batch], None],
        nursery: trio.Nursery,
        *,
        on_busy: Callable[[], None],
    ) -> None:
        self._connection: Final = connection
        self._answer: Final = answer
        self._send: Final = send
        self._send_nowait: Final = send_nowait
        self._nursery: Final = nursery
        self._on_busy: Final = on_busy
        self._running: dict[RequestId, trio.CancelScope] = {}
        self._batches: dict[RequestId, BatchReply] = {}
        self._over = False

    @property
    def busy(self) -> bool:
        """Whether handlers are running, so that the server waits for a response."""
        return bool(self._running)

    def begin(self, batch: Batch) -> tuple[Message, ...]:
        """Register a received batch (2025-03-26). Return the messages to pass to the engine, one by one."""
        reply = BatchReply(batch)
        if reply.immediate is not None:
            self._send_nowait(reply.immediate)
        self._batches.update(dict.fromkeys(reply.pending, reply))
        return reply.messages

    def start(self, event: RequestReceived) -> None:
        """Start the handler of a request, or respond with an error when `Limits.running_requests` is reached."""
        allowed = self._connection.limits.running_requests
        if len(self._running) >= allowed:
            busy = f"too many requests at once; the limit is {allowed}"
            self.reply(self._outcome(event, RequestFailed(busy, code=ErrorCode.INTERNAL_ERROR)))
            return
        scope = trio.CancelScope()
        self._running[event.id] = scope
        if len(self._running) == 1:
            self._on_busy()
        self._nursery.start_soon(self._serve, event, scope)

    def cancel(self, id: RequestId) -> None:
        """Cancel the handler of a request that the server cancelled."""
        scope = self._running.get(id)
        if scope is not None:
            scope.cancel()

    def end(self) -> None:
        """Cancel all handlers: the connection has ended."""
        self._over = True
        self.abandon()

    def abandon(self) -> None:
        """Cancel all handlers: the server lost the session with its requests."""
        self._batches.clear()
        for scope in self._running.values():
            scope.cancel()

    def reply(self, message: Message | None) -> None:
        """Send a response without blocking, alone or with the other responses of its batch."""
        message_or_batch = self._joined(message)
        if message_or_batch is not None:
            self._send_nowait(message_or_batch)

    async def _serve(self, event: RequestReceived, scope: trio.CancelScope) -> None:
        try:
            with scope:
                outcome = await self._answer(event)
                if scope.cancel_called:
                    # The handler ignored the cancellation. The server may have reused the request id.
                    return
                await self._respond(event, outcome)
        finally:
            # The server may reuse the id as soon as the response is recorded, before it is written.
            if self._running.get(event.id) is scope:
                del self._running[event.id]
                self._connection.withdraw(event.id)
                self._drop(event.id)
            if not self._running:
                self._on_busy()

    async def _respond(self, event: RequestReceived, outcome: object) -> None:
        message = self._joined(self._outcome(event, outcome))
        if message is None:
            return
        try:
            await self._send(message)
        except ConnectionEnded:
            _log.debug("response dropped, connection ended: method=%s", event.method)
        except McpError as failure:
            _log.warning("response not delivered: method=%s error=%s", event.method, failure)

    def _outcome(self, event: RequestReceived, outcome: object) -> Message | None:
        connection = self._connection
        try:
            if isinstance(outcome, RequestFailed):
                outgoing = connection.fail(event.id, outcome)
            else:
                outgoing = connection.respond(event.id, _related(event, outcome))
            if outgoing is None:
                return None
            # Encoded here to detect errors before the response joins the others of its batch.
            encode(outgoing.message, null_id=True)
        except LocalProtocolError:
            _log.exception("handler returned an invalid result: method=%s", event.method)
            return ErrorResponse(event.id, ErrorObject(int(ErrorCode.INTERNAL_ERROR), "Internal error"))
        return outgoing.message

    def _joined(self, message: Message | None) -> Message | Batch | None:
        """Return the message to send now: the response, or the batch that the response completes."""
        if isinstance(message, ResultResponse | ErrorResponse) and message.id is not None:
            reply = self._batches.pop(message.id, None)
            if reply is not None:
                return reply.add(message)
        return message

    def _drop(self, id: RequestId) -> None:
        """Remove a cancelled request from its batch. Send the batch if the request was the last one pending."""
        reply = self._batches.pop(id, None)
        joined = None if reply is None or self._over else reply.drop(id)
        if joined is not None:
            self._send_nowait(joined)


def _related(event: RequestReceived, outcome: object) -> object:
    """Return the result with the related task of the request: a task of the server sent the request (2025-11-25)."""
    request_meta = getattr(event.params, "meta", None) or {}
    if (
        RELATED_TASK not in request_meta
        or not event.peer.revision.core_tasks
        or event.definition.task_capability is None
    ):
        return outcome
    related = {RELATED_TASK: request_meta[RELATED_TASK]}
    if isinstance(outcome, dict):
        meta = outcome.get("_meta")
        return {**outcome, "_meta": {**(meta if isinstance(meta, dict) else {}), **related}}
    if isinstance(outcome, ElicitResult | CreateMessageResult | CreateTaskResult):
        return attrs.evolve(outcome, meta={**(outcome.meta or {}), **related})
    return outcome
