"""One connection alive: the engine, a transport, and the calls that wait.

A call runs in the task of its caller: it sends its request, waits, shows the progress that comes, and returns the
answer. What comes is handed over (`deliver`) by the one task that reads a pipe, or over HTTP by the call that it came
for; that never waits. Requests of the server run in tasks of their own, so that a slow user cannot keep a reader from
its work.

Each call ends exactly once: with its result, an error, its caller's cancellation, a deadline, or the connection's end.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast

import attrs
import trio

from mcp_client.connection.client_requests import Answering
from mcp_client.connection.inbound_requests import Serving
from mcp_client.connection.middleware import Passage
from mcp_client.connection.notification_listeners import Listeners
from mcp_client.connection.pausable_deadlines import Patience
from mcp_client.connection.pending_request import Call, ProgressFailed, Watch
from mcp_core.engine.events import (
    AnswerReceived,
    CancelReceived,
    FailureReceived,
    Negotiating,
    NegotiationEnded,
    NotificationReceived,
    Opened,
    ProgressReceived,
    RequestReceived,
)
from mcp_core.errors import (
    Circumstances,
    ConnectionEnded,
    LimitExceeded,
    MalformedMessage,
    McpError,
    Phase,
    RequestTimeout,
)
from mcp_core.jsonrpc.messages import Batch, ErrorObject, ErrorResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_client.connection.pending_request import ProgressHandler
    from mcp_client.connection.transport import Opener, Transport
    from mcp_client.deadlines import Deadlines
    from mcp_client.handlers import Handlers
    from mcp_core.engine.client import ClientConnection
    from mcp_core.engine.events import Reaction, ServerPeer
    from mcp_core.jsonrpc.messages import Message, Request, RequestId
    from mcp_core.methods import Method, NotificationRow
    from mcp_core.middleware import Middleware

__all__ = ["Link"]

_log: Final = logging.getLogger("mcp_client")

P = TypeVar("P")
R = TypeVar("R")


class Link:
    """One connection alive.

    Args:
        connection: The engine.
        transport: Carries messages.
        handlers: What the application offers to the server.
        deadlines: How long to wait.
        nursery: Where the reader and the requests of the server run.
        middleware: What stands around its messages.
    """

    def __init__(
        self,
        connection: ClientConnection,
        transport: Transport,
        handlers: Handlers,
        deadlines: Deadlines,
        nursery: trio.Nursery,
        *,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        self.connection: Final = connection
        self.transport: Final = transport
        self.deadlines: Final = deadlines
        self.patience: Final = Patience(self._hold)
        self.passage: Final = Passage(self, middleware)
        self.answering: Final = Answering(handlers, self.passage)
        self.nursery: Final = nursery
        self._calls: dict[RequestId, Call] = {}
        self._watch: Final = Watch(self._calls, nursery)
        self._opener: Final[Opener] = transport.opener(self)
        tasks = None
        if connection.capabilities.tasks is not None:
            from mcp_client.connection.client_tasks import OwnTasks  # lazy: hardly any application answers by tasks

            tasks = OwnTasks(connection, self.answering.answer, self.notify, nursery)
        self._serving: Final = Serving(connection, transport, self.answering, nursery, self._hold, tasks=tasks)
        self.listeners: Final = Listeners()
        self._ended: ConnectionEnded | None = None
        self._over: Final = trio.Event()

    # --- the life of the connection --------------------------------------------------------------------------------

    async def open(self, *, began: float | None = None) -> ServerPeer:
        """Finds a common era and revision.

        Args:
            began: When the connect deadline began, where an earlier attempt used up some of it.

        Returns:
            Who the server is.

        Raises:
            NegotiationFailed: Nothing in common.
            RequestFailed, RemoteProtocolError: The server refused, or answered nonsense.
            TransportError: It cannot be reached, went away, or is no server of the protocol.
            RequestTimeout: The connect deadline passed.
        """
        used = 0.0 if began is None else trio.current_time() - began
        try:
            with self.patience.move_on_after(max(0.0, self.deadlines.connect - used)):
                await self._opener.open()
        except McpError as error:
            self.explain(error, phase=Phase.NEGOTIATE)
            raise
        if self._opener.is_open:
            return self.server
        # What was asked last; an unanswered probe is of no interest beside an unanswered handshake.
        id, method = [(None, None), *self.connection.asked.items()][-1]
        silence = RequestTimeout("the server did not answer", deadline="connect", seconds=self.deadlines.connect)
        # A process that never answers has not started in the end, and often says on stderr what it waits for.
        silence.circumstances = Circumstances(stderr_tail=self.transport.stderr_tail)
        self.explain(silence, method=method, id=id, phase=Phase.CONNECT)
        raise silence

    def end(self, why: ConnectionEnded) -> None:
        """The connection is over; everything that waits ends."""
        if self._ended is not None:
            return
        self._ended = why
        self.connection.end()
        self._serving.end()
        for call in self._calls.values():
            call.end()
        self._opener.end(why)
        self.listeners.end(lambda: self.ended or why)
        self._over.set()

    @property
    def server(self) -> ServerPeer:
        """Who the server is, once the connection is open."""
        server = self.connection.server
        if server is None:
            raise AssertionError("the connection is not open")
        return server

    def forgotten(self) -> None:
        """The server lost the session: it no longer wants the answers to what it asked."""
        self._serving.abandon()

    async def aclose(self) -> None:
        """Closes the connection; whatever waits ends with `ConnectionEnded`. Any task may, and more than once."""
        self.end(ConnectionEnded("the client was closed"))
        await self.transport.aclose()

    async def wait_ended(self) -> None:
        """Waits until the connection is over: closed, or lost."""
        await self._over.wait()

    @property
    def ended(self) -> ConnectionEnded | None:
        """Why the connection is over, to be raised; `None` while it is not."""
        if self._ended is None:
            return None
        # A new exception for each that waited: errors are told where they happened.
        again = ConnectionEnded(self._ended.message)
        again.circumstances = attrs.evolve(self._ended.circumstances, method=None, request_id=None, phase=None)
        again.__cause__ = self._ended.__cause__
        return again

    def _check_alive(self) -> None:
        if self._ended is not None:
            raise self.ended or self._ended

    # --- calling ---------------------------------------------------------------------------------------------------

    async def request(
        self,
        row: Method[P, R],
        params: P,
        *,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
        headers: Sequence[tuple[str, str]] = (),
        on_id: Callable[[RequestId], None] | None = None,
    ) -> tuple[R, AnswerReceived]:
        """Sends a request and waits for its answer.

        Cancelling the caller cancels the request: the server is told, and a late answer is dropped.

        Args:
            row: The method.
            params: Its parameters.
            on_progress: Is called in this task with each progress, see `ProgressHandler`.
            deadlines: How long to wait; the link's own when `None`.
            headers: HTTP headers for this request alone.
            on_id: Is told the request's id before it is sent.

        Returns:
            The result, and the event that brought it, with the result as it came.

        Raises:
            LocalProtocolError: It may not be sent.
            RequestFailed: The server answered with an error.
            RemoteProtocolError: Its answer breaks the rules.
            LimitExceeded: Its answer is larger than is allowed here.
            RequestTimeout: A deadline passed.
            TransportError: The server is gone, or the client was closed, or the answer cannot be had.
        """
        # Progress is asked for where requests may take long, since it keeps the idle deadline from passing.
        wanted = on_progress is not None or bool(row.may_need_input)
        id: RequestId | None = None
        try:
            restore = self.transport.interrupted
            if restore is not None:
                await restore()
            self._check_alive()
            outgoing = self.connection.call(row, params, progress=wanted)
            request = cast("Request", outgoing.message)  # a call is always a request
            id = request.id
            if on_id is not None:
                on_id(id)
            held = self._serving.busy or self.patience.stands_still
            call = Call(deadlines or self.deadlines, on_progress, held=held, headers=headers)
            answer = await self._answer_of(request, call)
        except McpError as error:
            self.explain(error, method=row.name, id=id, phase=Phase.REQUEST)
            raise
        # The engine has read the result as one of the row's result classes.
        return cast("R", answer.result), answer

    async def _answer_of(self, request: Request, call: Call) -> AnswerReceived:
        id = request.id
        self._calls[id] = call
        try:
            perform = self.transport.perform
            if perform is not None:
                await call.perform(partial(perform, request, call))
            else:
                self._watch.expect(call.deadline)
                if not self.transport.offer(request, more=len(self._calls) > 1):
                    await call.send(partial(self.transport.send, request, call.headers))
                await call.wait()
        except ProgressFailed as failed:
            raise failed.error from failed.error.__cause__
        except RequestTimeout:
            raise
        except McpError:
            # It cannot be written, so the server has never heard of it; or its answer cannot be had any more.
            self.connection.forget(id)
            raise
        finally:
            del self._calls[id]
            if call.outcome is None:
                self._give_up(id)
        if isinstance(call.outcome, AnswerReceived):
            return call.outcome
        if call.outcome is not None:
            raise call.outcome.error
        self._check_alive()
        raise AssertionError("a call ends with an outcome, a deadline or the connection")

    def _give_up(self, id: RequestId) -> None:
        """The caller no longer waits. The server is told at once; nothing is waited for."""
        if self._ended is not None:
            return
        server = self.connection.server
        if self.transport.perform is not None and server is not None and server.revision.disconnect_cancels:
            # Its stream is closed, and that says it.
            self.connection.forget(id)
            return
        if (outgoing := self.connection.cancel(id, "no longer wanted by the caller")) is not None:
            self.transport.send_nowait(outgoing.message)

    async def notify(self, row: NotificationRow[P], params: P, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Sends a notification. Raises `LocalProtocolError`, `TransportError`, `RequestTimeout`."""
        try:
            self._check_alive()
            through = self.passage.outgoing(row, params)
            if through is not None:
                await self.transport.send(self.connection.notify(row, through).message, headers)
        except McpError as error:
            self.explain(error, method=row.name, phase=Phase.REQUEST)
            raise
        await trio.lowlevel.checkpoint()

    def _hold(self, _: bool) -> None:  # noqa: FBT001  one of two reasons, and there may be the other
        """The server waits for the user, a model, a login: meanwhile its silence means nothing."""
        held = self._serving.busy or self.patience.stands_still
        for call in self._calls.values():
            (call.hold if held else call.alive)()
            self._expect(call)

    def _expect(self, call: Call) -> None:
        """The deadline of a call has changed. Over HTTP its own scope looks after it."""
        if self.transport.perform is None:
            self._watch.expect(call.deadline)

    # --- what comes ------------------------------------------------------------------------------------------------

    def deliver(self, message: Message | Batch | MalformedMessage) -> None:
        """Something came. What it leads to happens at once, or is begun; nothing is waited for."""
        if self._ended is not None:
            return
        if isinstance(message, Batch):
            self._deliver_batch(message)
        elif isinstance(message, MalformedMessage):
            self._deliver_malformed(message)
        else:
            self.react(self.connection.receive(message))

    def _deliver_batch(self, batch: Batch) -> None:
        if self.connection.refuse_batch() is None:
            for member in self._serving.begin(batch):
                self.react(self.connection.receive(member))
            return
        # A server that batches where it may not: its members are read all the same, and nothing is answered in one.
        _log.warning("%s sent a batch, which may not be sent now", self.transport.describe())
        for each in batch.members:
            self.deliver(each)

    def _deliver_malformed(self, bad: MalformedMessage) -> None:
        """No message, but perhaps meant as one: then somebody waits for it, or for our answer to it."""
        reply = bad.reply
        if reply is not None and bad.answers not in self.connection.asked:
            # A line without an id may be a log line; and a modern client writes no responses at all.
            if reply.id is not None and self.connection.session is not None:
                self._serving.reply(reply)
            return
        id = bad.answers
        excess = bad.__cause__ if isinstance(bad.__cause__, LimitExceeded) else None
        if id is None and excess is not None and len(self.connection.asked) == 1:
            # Too large to be read, so its id is not known; but there is only one request that it can answer.
            id = next(iter(self.connection.asked))
        if id is None:
            return
        # For the engine the request has failed; its caller is told how.
        reaction = self.connection.receive(ErrorResponse(id, ErrorObject(int(bad.code), bad.message)))
        if isinstance(reaction.event, FailureReceived):
            self._settle(attrs.evolve(reaction.event, error=excess or bad))
        else:
            self.react(reaction)

    def react(self, reaction: Reaction) -> None:
        """Does what the engine makes of something that came."""
        event = reaction.event
        if isinstance(event, Negotiating | Opened | NegotiationEnded):
            self._opener.advance(reaction)
        elif reaction.reply is not None:
            self._serving.reply(reaction.reply.message)
        if isinstance(event, AnswerReceived | FailureReceived):
            self._settle(event)
        elif isinstance(event, ProgressReceived):
            self._progressed(event)
        elif isinstance(event, NotificationReceived):
            self._notified(event)
        elif isinstance(event, RequestReceived):
            self._serving.start(event)
        elif isinstance(event, CancelReceived):
            self._serving.cancel(event.id)
        for note in event.notes:
            _log.debug("survived, from %s: %s", self.transport.describe(), note)

    def _settle(self, event: AnswerReceived | FailureReceived) -> None:
        if (call := self._calls.get(event.id)) is not None:
            call.settle(event)

    def _progressed(self, event: ProgressReceived) -> None:
        if (call := self._calls.get(event.id)) is not None:
            if not self._serving.busy:
                call.alive()
                self._expect(call)
            progress = self.passage.progress(event)
            if progress is not None:
                call.progressed(progress)

    def _notified(self, event: NotificationReceived) -> None:
        through = self.passage.incoming(event)
        if through is not None:
            self.answering.notified(through)
            self.listeners.notified(through)

    def explain(
        self, error: McpError, *, method: str | None = None, id: RequestId | None = None, phase: Phase | None = None
    ) -> None:
        """Writes down in the error what it happened to."""
        known = error.circumstances
        error.circumstances = attrs.evolve(
            known,
            method=known.method or method,
            request_id=known.request_id if known.request_id is not None else id,
            peer=known.peer or self.transport.describe(),
            phase=known.phase or phase,
        )
