"""One connection alive: the engine, an outlet and a nursery; answering.

    reader -> Link.deliver -> engine.receive -> Workers -> Service.answer -> engine.respond -> Outlet

`deliver` never waits: it hands requests to workers and does everything else at once. So cancellations, answers and
notifications are never behind a busy handler. Requests beyond `Limits.running_requests` wait, read but not started, in
a bounded room; when that is full, the reader stops and the pipe pushes back.

Whatever a handler does, its request gets one outcome: a result, an error, or nothing after a cancellation.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import trio

from mcp_core.engine.events import (
    AnswerReceived,
    CancelReceived,
    FailureReceived,
    NotificationReceived,
    Opened,
    Outgoing,
    RequestReceived,
)
from mcp_core.errors import ConnectionEnded, ErrorCode, LocalProtocolError, McpError, RequestFailed
from mcp_core.jsonrpc.batch import BatchReply
from mcp_core.jsonrpc.codec import encode
from mcp_core.jsonrpc.messages import Batch, ErrorObject, ErrorResponse, Request, ResultResponse
from mcp_core.methods import SUBSCRIPTIONS_LISTEN
from mcp_server._workers import Workers

if TYPE_CHECKING:
    from mcp_core.engine.events import Reaction
    from mcp_core.engine.server import ServerConnection
    from mcp_core.errors import MalformedMessage
    from mcp_core.jsonrpc.messages import Message, RequestId
    from mcp_core.methods import Method, NotificationRow
    from mcp_server._rounds import Asking

__all__ = ["Call", "Link", "Outlet", "Service"]

_log: Final = logging.getLogger("mcp_server")


class Outlet(Protocol):
    """Where messages go: a pipe for all, or a stream for each request. A peer that is gone is no error here."""

    async def send(self, message: Message | Batch, for_request: RequestId | None, *, more: bool) -> None:
        """Sends; waits while the peer is slow. `more`: others are about to send, so that it pays to wait for them."""

    def send_nowait(self, message: Message | Batch, for_request: RequestId | None) -> None:
        """Sends what must not wait: refusals, answers to pings and handshakes."""


class Service(Protocol):
    """What stands behind a link."""

    async def answer(self, call: Call) -> object:
        """The result of a request. Raises `RequestFailed` for an error that the peer shall see."""

    def input_required(self, call: Call) -> object | None:
        """The handler's scope was cancelled: the result with its questions, an error, or `None` if it had none."""

    def notified(self, link: Link, event: NotificationReceived, /) -> None:
        """The peer told something."""

    def opened(self, link: Link, /) -> None:
        """A legacy session is open."""


@attrs.define(eq=False)
class Call:
    """One request that is being answered."""

    request: RequestReceived
    """What is asked."""
    link: Link
    """Where it came from."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    """What its handler runs in. Cancelled when the client cancels the request."""
    asking: Asking | None = None
    """How its handler asks the client, once it may want to."""
    questions: int = 0
    """How many answers of the client its handler waits for (legacy)."""


@attrs.define(eq=False)
class _Waiter:
    """A task that waits for the answer to a request of ours."""

    done: trio.Event = attrs.field(factory=trio.Event)
    outcome: object = None


class Link:
    """One connection alive.

    Args:
        service: Answers requests.
        connection: The engine.
        outlet: Where messages go.
        nursery: Where handlers run; who owns it ends them.
        principal: Who the peer was established to be; `None` where nobody is told apart.
    """

    def __init__(
        self,
        service: Service,
        connection: ServerConnection,
        outlet: Outlet,
        nursery: trio.Nursery,
        principal: str | None = None,
    ) -> None:
        self.connection: Final = connection
        self.principal: Final = principal
        self._service: Final = service
        self._outlet: Final = outlet
        self._nursery: Final = nursery
        self._calls: dict[RequestId, Call] = {}
        self._workers: Final = Workers(nursery, connection.limits, self._serve)
        self._batches: dict[RequestId, BatchReply] = {}
        self._asked: dict[RequestId, _Waiter] = {}
        self._notices: dict[tuple[str, str], tuple[NotificationRow[object], object]] = {}
        self._publishing = False
        self._ended = False
        self._idle = trio.Event()

    # --- in --------------------------------------------------------------------------------------------------------

    def deliver(self, message: Message | Batch, size: int = 0) -> None:
        """Takes a message of the peer.

        Args:
            message: As the codec gives it.
            size: Its bytes, counted while it waits to be started.
        """
        if isinstance(message, Batch):
            self._deliver_batch(message, size)
        else:
            self._react(self.connection.receive(message), size)

    def refuse(self, malformed: MalformedMessage) -> None:
        """Bytes came that are no message: answers, where an answer is right."""
        _log.debug("malformed message: %s", malformed.message)
        if malformed.reply is not None:
            self._outlet.send_nowait(malformed.reply, None)
        elif malformed.answers is not None:
            # The handler that asked waits for nothing else.
            error = ErrorObject(int(malformed.code), f"the client's answer cannot be read: {malformed.message}")
            self._react(self.connection.receive(ErrorResponse(malformed.answers, error)), 0)

    @property
    def crowded(self) -> bool:
        """Whether the room for waiting requests is full."""
        return self._workers.crowded

    async def wait_for_room(self) -> None:
        """Returns when another message may be read. The reader calls it when it is crowded."""
        await self._workers.wait_for_room()

    def _deliver_batch(self, batch: Batch, size: int) -> None:
        refusal = self.connection.refuse_batch()
        if refusal is not None:
            self._outlet.send_nowait(refusal, None)
            return
        reply = BatchReply(batch)
        if reply.immediate is not None:
            self._outlet.send_nowait(reply.immediate, None)
        for id in reply.owed:
            self._batches[id] = reply
        for member in reply.messages:
            self._react(self.connection.receive(member), size // len(batch.members))

    def _react(self, reaction: Reaction, size: int) -> None:
        event, reply = reaction.event, reaction.reply
        if reply is not None:
            self._send_nowait(reply)
        if isinstance(event, RequestReceived):
            self._start(Call(event, self), size)
        elif isinstance(event, (AnswerReceived, FailureReceived)):
            waiter = self._asked.pop(event.id, None)
            if waiter is not None:
                waiter.outcome = event
                waiter.done.set()
        elif isinstance(event, CancelReceived):
            self._cancel(event)
        elif isinstance(event, NotificationReceived):
            self._service.notified(self, event)
        elif isinstance(event, Opened):
            self._service.opened(self)
        for note in event.notes:
            _log.debug("survived: %s", note)

    # --- handlers --------------------------------------------------------------------------------------------------

    def _start(self, call: Call, size: int) -> None:
        self._calls[call.request.id] = call
        # A subscription holds no place: it does nothing but wait, and there may be many.
        if call.request.row is SUBSCRIPTIONS_LISTEN:
            self._nursery.start_soon(self._serve, call)
        else:
            self._workers.submit(call, size)

    async def _serve(self, call: Call) -> None:
        """Runs the handler and sends its outcome."""
        id = call.request.id
        outcome: object = None
        try:
            with call.scope:
                outcome = await self._outcome(call)
            if call.scope.cancelled_caught:
                # By the client, or by the handler itself: it has a question that only the next round can answer.
                outcome = self._service.input_required(call)
            outgoing = None if outcome is None else self._finish(id, outcome)
            if outgoing is not None:
                await self._send_answer(id, outgoing)
        finally:
            # Once the answer was put down, a client may have used the id again before it could be written.
            if self._calls.get(id) is call:
                self._withdraw(id)
                del self._calls[id]
            if not self._calls:
                self._idle.set()

    async def _outcome(self, call: Call) -> object:
        """The result of the handler, or the error to be sent."""
        try:
            return await self._service.answer(call)
        except RequestFailed as failure:
            return failure
        except Exception as error:  # noqa: BLE001 -- the one place where a handler is called: logged, and told in general
            return self._internal(call, error)
        except BaseExceptionGroup as group:
            # Cancelled, and meanwhile one of its tasks failed. Only the cancellation is anybody else's affair.
            failed, rest = group.split(Exception)
            if failed is not None:
                self._internal(call, failed)
            raise rest or group from None

    def _internal(self, call: Call, error: Exception) -> RequestFailed:
        request = call.request
        _log.error("the handler of %s (id %r) failed", request.method, request.id, exc_info=error)
        return RequestFailed("Internal error", code=ErrorCode.INTERNAL_ERROR)

    def _finish(self, id: RequestId, outcome: object) -> Outgoing | None:
        if isinstance(outcome, RequestFailed):
            return self.connection.fail(id, outcome)
        try:
            return self.connection.respond(id, outcome)
        except RequestFailed as failure:
            # A question in the result that the client did not declare to answer.
            return self.connection.fail(id, failure)
        except McpError:
            # The handler's result cannot be said in the peer's revision, or at all.
            _log.exception("the result of request %r cannot be sent", id)
            return self.connection.fail(id, RequestFailed("Internal error", code=ErrorCode.INTERNAL_ERROR))

    async def _send_answer(self, id: RequestId, outgoing: Outgoing) -> None:
        try:
            await self._send(outgoing)
        except LocalProtocolError:
            # JSON cannot say it, as half of a surrogate pair. Nothing was sent, so that the error can be.
            _log.exception("the result of request %r cannot be sent", id)
            error = ErrorObject(int(ErrorCode.INTERNAL_ERROR), "Internal error")
            await self._send(Outgoing(ErrorResponse(id, error), id))

    def _cancel(self, event: CancelReceived) -> None:
        call = self._calls.get(event.id)
        if call is None:
            return
        _log.debug("request %r was cancelled: %s", event.id, event.reason)
        call.scope.cancel()
        if self._workers.drop(call):
            del self._calls[event.id]
            self._withdraw(event.id)

    def _withdraw(self, id: RequestId) -> None:
        """Nothing more is sent for a request. It may have been answered, then there is nothing left to do."""
        self.connection.withdraw(id)
        reply = self._batches.pop(id, None)
        joined = None if reply is None else reply.drop(id)
        if joined is not None:
            self._outlet.send_nowait(joined, None)

    # --- out -------------------------------------------------------------------------------------------------------

    async def _send(self, outgoing: Outgoing) -> None:
        joined = self._join(outgoing.message)
        if joined is not None:
            await self._outlet.send(joined, outgoing.for_request, more=self._workers.several)

    def _send_nowait(self, outgoing: Outgoing) -> None:
        joined = self._join(outgoing.message)
        if joined is not None:
            self._outlet.send_nowait(joined, outgoing.for_request)

    def _join(self, message: Message) -> Message | Batch | None:
        """The message itself, or, if it answers a member of a batch, the batch of answers once it is complete."""
        if self._batches and isinstance(message, (ResultResponse, ErrorResponse)) and message.id is not None:
            reply = self._batches.get(message.id)
            if reply is not None:
                # What JSON cannot say is refused here, before it spoils the answers of the others.
                encode(message, null_id=False)
                del self._batches[message.id]
                return reply.add(message)
        return message

    async def send(self, outgoing: Outgoing | None) -> None:
        """Sends what a command of the engine returned."""
        if outgoing is not None:
            await self._send(outgoing)

    async def ask(self, row: Method[object, object], params: object, call: Call) -> object:
        """Sends the client a request and waits for its answer (legacy).

        The place of the call is free meanwhile, so that handlers which wait for the client cannot keep others out.

        Args:
            row: The method.
            params: Its parameters.
            call: The client's request that it is about.

        Returns:
            The result.

        Raises:
            RequestFailed: The client answered with an error, or did not declare the capability.
            RemoteProtocolError: Its answer breaks the rules.
            LocalProtocolError: The revision or the state forbids it.
            ConnectionEnded: The client is gone.
        """
        outgoing = self.connection.ask(row, params, for_request=call.request.id)
        id = outgoing.message.id if isinstance(outgoing.message, Request) else 0
        waiter = self._asked[id] = _Waiter()
        # Several tasks of a handler may ask at once; it has one place all the same.
        call.questions += 1
        if call.questions == 1:
            self._workers.release()
        try:
            await self._send(outgoing)
            await waiter.done.wait()
        except trio.Cancelled:
            self._give_up(id)
            raise
        finally:
            call.questions -= 1
            if not call.questions:
                self._workers.resume()
            self._asked.pop(id, None)
        if isinstance(waiter.outcome, AnswerReceived):
            return waiter.outcome.result
        if isinstance(waiter.outcome, FailureReceived):
            raise waiter.outcome.error
        raise ConnectionEnded(f"the client went away before it answered {row.name}")

    def _give_up(self, id: RequestId) -> None:
        """The task that waited was cancelled: the client is told, without waiting."""
        outgoing = self.connection.cancel(id, "no longer needed")
        if outgoing is not None:
            self._send_nowait(outgoing)

    # --- change notices --------------------------------------------------------------------------------------------

    def publish(self, row: NotificationRow[object], params: object, key: str = "") -> None:
        """Tells the client of a change, if it wants to know.

        A notice says that something changed, not how often: as long as one is waiting to be sent, the same notice is
        not put down again. `key` tells notices of the same kind apart: the URI of a resource.
        """
        if self._ended:
            return
        self._notices[row.name, key] = (row, params)
        if not self._publishing:
            self._publishing = True
            self._nursery.start_soon(self._publish)

    async def _publish(self) -> None:
        try:
            while self._notices:
                row, params = self._notices.pop(next(iter(self._notices)))
                try:
                    for outgoing in self.connection.publish(row, params):
                        await self._send(outgoing)
                except LocalProtocolError as error:
                    _log.debug("not published: %s", error)
        finally:
            self._publishing = False

    def finish(self, id: RequestId) -> None:
        """Ends a subscription from this side, if it is still open."""
        if not self._ended:
            for outgoing in self.connection.finish(id):
                self._send_nowait(outgoing)

    # --- the end ---------------------------------------------------------------------------------------------------

    async def drain(self, seconds: float) -> None:
        """No more messages come: subscriptions end, waiting questions fail, handlers may finish within `seconds`."""
        for id in self.connection.subscriptions:
            self._calls[id].scope.cancel()
        for waiter in self._asked.values():
            waiter.done.set()
        with trio.move_on_after(seconds):
            while self._calls:
                self._idle = trio.Event()
                await self._idle.wait()
        for call in self._calls.values():
            call.scope.cancel()

    def end(self) -> None:
        """The connection is over. Nothing is sent any more."""
        self._ended = True
        self.connection.end()
        self._batches.clear()
        self._workers.stop()
