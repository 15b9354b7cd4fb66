"""One connection alive: the engine, a transport, and the calls that wait.

A call runs in the task of its caller: it sends its request, waits, shows the progress that comes, and returns the
answer. One task reads and hands over what came (`_deliver`), which never waits. Requests of the server run in tasks of
their own, so that a slow user cannot keep the reader from its work.

Each call ends exactly once: with its result, with an error, with its caller's cancellation, with a deadline, or because
the server is gone.
"""

from __future__ import annotations

import inspect
import logging
import math
from typing import TYPE_CHECKING, Final, TypeVar, cast

import attrs
import trio

from mcp_client._answering import Answering
from mcp_core.engine.events import (
    AnswerReceived,
    CancelReceived,
    FailureReceived,
    NegotiationEnded,
    NotificationReceived,
    Opened,
    ProgressReceived,
    RequestReceived,
)
from mcp_core.errors import (
    Circumstances,
    ConnectionEnded,
    ErrorCode,
    LocalProtocolError,
    McpError,
    Phase,
    RequestFailed,
    RequestTimeout,
)
from mcp_core.jsonrpc.batch import BatchReply
from mcp_core.jsonrpc.messages import Batch, ErrorResponse, Request, ResultResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from mcp_client._deadlines import Deadlines
    from mcp_client._handlers import Handlers
    from mcp_client._transport import Transport
    from mcp_core.engine.client import ClientConnection
    from mcp_core.engine.events import Outgoing, Reaction, ServerPeer
    from mcp_core.jsonrpc.messages import Message, RequestId
    from mcp_core.methods import Method, NotificationRow
    from mcp_core.types import ProgressNotificationParams

    ProgressHandler: TypeAlias = Callable[[ProgressNotificationParams], Awaitable[None] | None]

__all__ = ["Link"]

_log: Final = logging.getLogger("mcp_client")

P = TypeVar("P")
R = TypeVar("R")


@attrs.define(eq=False)
class _Call:
    """A request that waits for its answer."""

    method: str
    changed: trio.Event = attrs.field(factory=trio.Event)
    """Set when there is an outcome, or progress to be shown."""
    outcome: AnswerReceived | FailureReceived | None = None
    progress: ProgressNotificationParams | None = None
    """The latest progress that was not shown yet. Older values are of no use to anybody."""
    sign_of_life: float = 0.0
    """When the server last showed that it is at work."""
    scope: trio.CancelScope | None = None
    idle: float = math.inf
    latest: float = math.inf

    def alive(self) -> None:
        """The server shows that it is at work: the idle deadline starts anew."""
        if self.scope is not None:
            self.scope.deadline = min(self.latest, trio.current_time() + self.idle)


class Link:
    """One connection alive.

    Args:
        connection: The engine.
        transport: Carries messages.
        handlers: What the application offers to the server.
        deadlines: How long to wait.
        nursery: Where the reader and the requests of the server run.
    """

    def __init__(
        self,
        connection: ClientConnection,
        transport: Transport,
        handlers: Handlers,
        deadlines: Deadlines,
        nursery: trio.Nursery,
    ) -> None:
        self.connection: Final = connection
        self.transport: Final = transport
        self.deadlines: Final = deadlines
        self.answering: Final = Answering(handlers)
        self._nursery: Final = nursery
        self._calls: dict[RequestId, _Call] = {}
        self._serving: dict[RequestId, trio.CancelScope] = {}
        self._batches: dict[RequestId, BatchReply] = {}
        self._listeners: dict[Callable[[NotificationReceived], None], Callable[[ConnectionEnded], None] | None] = {}
        self._agreed = trio.Event()
        self._refusal: McpError | None = None
        self._ended: ConnectionEnded | None = None

    # --- the life of the connection --------------------------------------------------------------------------------

    async def open(self) -> ServerPeer:
        """Starts reading and finds a common era and revision.

        Returns:
            Who the server is.

        Raises:
            NegotiationFailed: Nothing in common.
            RequestFailed, RemoteProtocolError: The server refused, or answered nonsense.
            ConnectionEnded: It went away.
            RequestTimeout: The connect deadline passed.
        """
        self._nursery.start_soon(self._run)
        deadlines = self.deadlines
        try:
            with trio.move_on_after(deadlines.connect):
                await self.transport.send(self.connection.open().message)
                with trio.move_on_after(deadlines.probe):
                    await self._agreed.wait()
                if not self._agreed.is_set():
                    await self._probe_unanswered()
                    await self._agreed.wait()
        except McpError as error:
            raise self.explain(error, phase=Phase.NEGOTIATE) from error.__cause__
        if self._refusal is not None:
            raise self.explain(self._refusal, phase=Phase.NEGOTIATE) from self._refusal.__cause__
        server = self.connection.server
        if server is not None:
            return server
        raise self.explain(
            RequestTimeout("the server did not answer", deadline="connect", seconds=deadlines.connect),
            phase=Phase.CONNECT,
        )

    async def _probe_unanswered(self) -> None:
        reaction = self.connection.probe_unanswered()
        if reaction is not None:
            await self._react_in_turn(reaction)

    async def _react_in_turn(self, reaction: Reaction) -> None:
        if isinstance(reaction.event, NegotiationEnded):
            self._refusal = reaction.event.error
            self._agreed.set()
        if reaction.reply is not None:
            await self.transport.send(reaction.reply.message)

    async def _run(self) -> None:
        """Reads until the server is gone, then ends everything that waits."""
        try:
            await self.transport.run(self._deliver)
        finally:
            with trio.CancelScope(shield=True):
                self._end(await self.transport.why_ended())

    def _end(self, why: ConnectionEnded) -> None:
        if self._ended is None:
            self._ended = why
        self.connection.end()
        for scope in self._serving.values():
            scope.cancel()
        for call in self._calls.values():
            call.changed.set()
        if not self._agreed.is_set():
            self._refusal = why
            self._agreed.set()
        for on_end in self._listeners.values():
            if on_end is not None:
                on_end(why)
        self._listeners.clear()

    async def aclose(self) -> None:
        """Closes the connection; whatever waits ends with `ConnectionEnded`. Any task may, and more than once."""
        if self._ended is None:
            self._end(ConnectionEnded("the client was closed"))
        await self.transport.aclose()

    @property
    def ended(self) -> ConnectionEnded | None:
        """Why the connection is over; `None` while it is not."""
        return self._ended

    # --- calling ---------------------------------------------------------------------------------------------------

    async def request(
        self,
        row: Method[P, R],
        params: P,
        *,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
        on_id: Callable[[RequestId], None] | None = None,
    ) -> tuple[R, AnswerReceived]:
        """Sends a request and waits for its answer.

        Cancelling the caller cancels the request: the server is told, and a late answer is dropped.

        Args:
            row: The method.
            params: Its parameters.
            on_progress: Is called in this task with the latest progress.
            deadlines: How long to wait; the link's own when `None`.
            on_id: Is told the request's id before it is sent.

        Returns:
            The result, and the event that brought it, with the result as it came.

        Raises:
            LocalProtocolError: It may not be sent.
            RequestFailed: The server answered with an error.
            RemoteProtocolError: Its answer breaks the rules.
            RequestTimeout: A deadline passed.
            ConnectionEnded: The server is gone, or the client was closed.
        """
        if self._ended is not None:
            raise self.explain(self._ended.__class__(self._ended.message), method=row.name, phase=Phase.REQUEST)
        # Progress is asked for where requests may take long, since it keeps the idle deadline from passing.
        wanted = on_progress is not None or bool(row.may_need_input)
        outgoing = self.connection.call(row, params, progress=wanted)
        id = _id_of(outgoing)
        call = self._calls[id] = _Call(row.name)
        if on_id is not None:
            on_id(id)
        try:
            answer = await self._wait(id, call, outgoing, on_progress, deadlines or self.deadlines)
        except McpError as error:
            raise self.explain(error, method=row.name, id=id, phase=Phase.REQUEST) from error.__cause__
        finally:
            del self._calls[id]
        # The engine has read the result as one of the row's result classes.
        return cast("R", answer.result), answer

    async def _wait(
        self, id: RequestId, call: _Call, outgoing: Outgoing, on_progress: ProgressHandler | None, deadlines: Deadlines
    ) -> AnswerReceived:
        start = trio.current_time()
        call.idle, call.latest = deadlines.idle, start + deadlines.total
        with trio.CancelScope(deadline=min(call.latest, start + deadlines.idle)) as scope:
            call.scope = scope
            try:
                await self.transport.send(outgoing.message)
                while call.outcome is None and self._ended is None:
                    await call.changed.wait()
                    if call.progress is not None:
                        await self._show(call, on_progress)
            finally:
                if call.outcome is None:
                    self._give_up(id)
        if isinstance(call.outcome, AnswerReceived):
            return call.outcome
        if call.outcome is not None:
            raise call.outcome.error
        if self._ended is not None:
            raise ConnectionEnded(self._ended.message) from self._ended.__cause__
        which, seconds = ("idle", deadlines.idle) if scope.deadline < call.latest else ("total", deadlines.total)
        raise RequestTimeout("the server did not answer", deadline=which, seconds=seconds)

    async def _show(self, call: _Call, on_progress: ProgressHandler | None) -> None:
        progress, call.progress = call.progress, None
        if call.outcome is None:
            call.changed = trio.Event()
        if on_progress is not None and progress is not None:
            shown = on_progress(progress)
            if inspect.isawaitable(shown):
                await shown

    def _give_up(self, id: RequestId) -> None:
        """The caller no longer waits. The server is told at once; nothing is waited for."""
        if self._ended is not None:
            return
        outgoing = self.connection.cancel(id, "no longer wanted by the caller")
        if outgoing is not None:
            self.transport.send_nowait(outgoing.message)

    async def notify(self, row: NotificationRow[P], params: P) -> None:
        """Sends a notification. Raises `LocalProtocolError` or `ConnectionEnded`."""
        if self._ended is not None:
            raise self.explain(ConnectionEnded(self._ended.message), method=row.name)
        await self.transport.send(self.connection.notify(row, params).message)

    def subscribe(
        self,
        listener: Callable[[NotificationReceived], None],
        on_end: Callable[[ConnectionEnded], None] | None = None,
    ) -> Callable[[], None]:
        """Calls `listener` with each notification, in the reader's task, and `on_end` when the connection is lost.

        Returns:
            What ends that.
        """
        self._listeners[listener] = on_end

        def stop() -> None:
            self._listeners.pop(listener, None)

        return stop

    # --- what comes ------------------------------------------------------------------------------------------------

    def _deliver(self, message: Message | Batch) -> None:
        if isinstance(message, Batch):
            self._deliver_batch(message)
        else:
            self._react(self.connection.receive(message))

    def _deliver_batch(self, batch: Batch) -> None:
        refusal = self.connection.refuse_batch()
        if refusal is not None:
            # A server that batches where it may not: its members are read all the same, and nothing is answered in one.
            _log.warning("%s sent a batch, which its revision does not have", self.transport.describe())
        reply = BatchReply(batch)
        for id in reply.owed:
            self._batches[id] = reply
        for member in reply.messages:
            self._react(self.connection.receive(member))
        self._send_batch(reply.begin())

    def _react(self, reaction: Reaction) -> None:
        event = reaction.event
        if reaction.reply is not None:
            self._send_nowait(reaction.reply)
        if isinstance(event, (AnswerReceived, FailureReceived)):
            call = self._calls.get(event.id)
            if call is not None:
                call.outcome = event
                call.changed.set()
        elif isinstance(event, ProgressReceived):
            call = self._calls.get(event.id)
            if call is not None:
                call.progress = event.params
                call.alive()
                call.changed.set()
        elif isinstance(event, NotificationReceived):
            self._notified(event)
        elif isinstance(event, RequestReceived):
            self._serve_soon(event)
        elif isinstance(event, CancelReceived):
            scope = self._serving.get(event.id)
            if scope is not None:
                scope.cancel()
        elif isinstance(event, Opened):
            self._agreed.set()
        elif isinstance(event, NegotiationEnded):
            self._refusal = event.error
            self._agreed.set()
        for note in event.notes:
            _log.debug("survived, from %s: %s", self.transport.describe(), note)

    def _notified(self, event: NotificationReceived) -> None:
        self.answering.log(event)
        for listener in tuple(self._listeners):
            listener(event)

    # --- requests of the server (legacy) ---------------------------------------------------------------------------

    def _serve_soon(self, event: RequestReceived) -> None:
        if len(self._serving) >= self.connection.limits.running_requests:
            failure = RequestFailed(
                f"too many requests at once; the limit is {self.connection.limits.running_requests}",
                code=ErrorCode.INTERNAL_ERROR,
            )
            self._send_answer(self.connection.fail(event.id, failure))
            return
        scope = self._serving[event.id] = trio.CancelScope()
        self._nursery.start_soon(self._serve, event, scope)

    async def _serve(self, event: RequestReceived, scope: trio.CancelScope) -> None:
        try:
            with scope:
                outcome = await self.answering.answer(event.row, event.params)
                if isinstance(outcome, RequestFailed):
                    self._send_answer(self.connection.fail(event.id, outcome))
                else:
                    self._send_answer(self.connection.respond(event.id, outcome))
        except LocalProtocolError:
            _log.exception("the answer of the handler of %s cannot be sent", event.method)
            failure = RequestFailed("Internal error", code=ErrorCode.INTERNAL_ERROR)
            self._send_answer(self.connection.fail(event.id, failure))
        finally:
            del self._serving[event.id]
            self.connection.withdraw(event.id)
            reply = self._batches.pop(event.id, None)
            if reply is not None:
                self._send_batch(reply.drop(event.id))

    def _send_answer(self, outgoing: Outgoing | None) -> None:
        if outgoing is not None:
            self._send_nowait(outgoing)

    def _send_nowait(self, outgoing: Outgoing) -> None:
        message = outgoing.message
        if self._batches and isinstance(message, (ResultResponse, ErrorResponse)) and message.id is not None:
            reply = self._batches.pop(message.id, None)
            if reply is not None:
                self._send_batch(reply.add(message))
                return
        self.transport.send_nowait(message)

    def _send_batch(self, joined: Batch | None) -> None:
        if joined is not None:
            self.transport.send_nowait(joined)

    # --- errors ----------------------------------------------------------------------------------------------------

    def explain(
        self,
        error: McpError,
        *,
        method: str | None = None,
        id: RequestId | None = None,
        phase: Phase | None = None,
    ) -> McpError:
        """The same error, saying what it happened to."""
        known = error.circumstances
        error.circumstances = attrs.evolve(
            known,
            method=known.method or method,
            request_id=known.request_id if known.request_id is not None else id,
            peer=known.peer or self.transport.describe(),
            phase=known.phase or phase,
            stderr_tail=known.stderr_tail or self.transport.stderr_tail,
        )
        return error


def _id_of(outgoing: Outgoing) -> RequestId:
    if not isinstance(outgoing.message, Request):
        raise TypeError("a call is always a request")
    return outgoing.message.id
