"""One connection alive: the engine, a transport, and the calls that wait.

A call runs in the task of its caller: it sends its request, waits, shows the progress that comes, and returns the
answer. One task reads and hands over what came (`_deliver`), which never waits. Requests of the server run in tasks of
their own, so that a slow user cannot keep the reader from its work.

Each call ends exactly once: with its result, with an error, with its caller's cancellation, with a deadline, or because
the server is gone.
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast

import attrs
import trio

from mcp_client._answering import Answering
from mcp_client._call import Call, Watch
from mcp_client._serving import Serving
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
    ConnectionEnded,
    LimitExceeded,
    LocalProtocolError,
    MalformedMessage,
    McpError,
    Phase,
    RequestTimeout,
)
from mcp_core.jsonrpc.messages import Batch, ErrorObject, ErrorResponse
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_client._call import ProgressHandler
    from mcp_client._deadlines import Deadlines
    from mcp_client._handlers import Handlers
    from mcp_client._transport import Transport
    from mcp_core.engine.client import ClientConnection
    from mcp_core.engine.events import Reaction, ServerPeer
    from mcp_core.jsonrpc.messages import Message, Request, RequestId
    from mcp_core.methods import Method, NotificationRow

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
        self._calls: dict[RequestId, Call] = {}
        self._watch: Final = Watch(self._calls)
        self._serving: Final = Serving(connection, transport, self.answering, nursery, self._hold)
        self._listeners: dict[Callable[[NotificationReceived], None], Callable[[ConnectionEnded], None] | None] = {}
        self._agreed: Final = trio.Event()
        self._refusal: McpError | None = None
        self._ended: ConnectionEnded | None = None
        self._over: Final = trio.Event()

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
        self._nursery.start_soon(self._watch.run)
        try:
            with trio.move_on_after(self.deadlines.connect):
                await self._negotiate()
        except McpError as error:
            self.explain(error, phase=Phase.NEGOTIATE)
            raise
        if self._refusal is not None:
            self.explain(self._refusal, phase=Phase.NEGOTIATE)
            raise self._refusal
        if self.connection.server is not None:
            return self.connection.server
        # What was asked last; an unanswered probe is of no interest beside an unanswered handshake.
        id, method = list(self.connection.asked.items())[-1]
        silence = RequestTimeout("the server did not answer", deadline="connect", seconds=self.deadlines.connect)
        self.explain(silence, method=method, id=id, phase=Phase.CONNECT)
        raise silence

    async def _negotiate(self) -> None:
        await self.transport.send(self.connection.open().message)
        # Without a legacy revision to try next, silence says nothing: the server may only be slow to start.
        otherwise = any(revision.era is Era.LEGACY for revision in self.connection.revisions)
        with trio.move_on_after(self.deadlines.probe if otherwise else math.inf):
            await self._agreed.wait()
        if not self._agreed.is_set():
            reaction = self.connection.probe_unanswered()
            if reaction is not None:
                self._react(reaction)
            await self._agreed.wait()

    async def _run(self) -> None:
        """Reads until the server is gone, then ends everything that waits."""
        try:
            await self.transport.run(self._deliver)
        finally:
            with trio.CancelScope(shield=True):
                self._end(await self.transport.why_ended())

    def _end(self, why: ConnectionEnded) -> None:
        if self._ended is not None:
            return
        self._ended = why
        self.connection.end()
        self._serving.end()
        for call in self._calls.values():
            call.end()
        if not self._agreed.is_set():
            self._refusal = why
            self._agreed.set()
        for on_end in self._listeners.values():
            if on_end is not None:
                on_end(self.ended or why)
        self._listeners.clear()
        self._over.set()

    async def aclose(self) -> None:
        """Closes the connection; whatever waits ends with `ConnectionEnded`. Any task may, and more than once."""
        self._end(ConnectionEnded("the client was closed"))
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
            LimitExceeded: Its answer is larger than is allowed here.
            RequestTimeout: A deadline passed.
            ConnectionEnded: The server is gone, or the client was closed.
        """
        # Progress is asked for where requests may take long, since it keeps the idle deadline from passing.
        wanted = on_progress is not None or bool(row.may_need_input)
        id: RequestId | None = None
        try:
            self._check_alive()
            outgoing = self.connection.call(row, params, progress=wanted)
            id = cast("Request", outgoing.message).id  # a call is always a request
            if on_id is not None:
                on_id(id)
            call = Call(deadlines or self.deadlines, on_progress, held=self._serving.busy)
            answer = await self._answer_of(id, call, outgoing.message)
        except McpError as error:
            self.explain(error, method=row.name, id=id, phase=Phase.REQUEST)
            raise
        # The engine has read the result as one of the row's result classes.
        return cast("R", answer.result), answer

    async def _answer_of(self, id: RequestId, call: Call, message: Message) -> AnswerReceived:
        self._calls[id] = call
        self._watch.expect(call.deadline)
        try:
            if not self.transport.offer(message, more=len(self._calls) > 1):
                await call.send(partial(self.transport.send, message))
            await call.wait()
        except LocalProtocolError:
            # It cannot be written, so the server has never heard of it.
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
        outgoing = None if self._ended is not None else self.connection.cancel(id, "no longer wanted by the caller")
        if outgoing is not None:
            self.transport.send_nowait(outgoing.message)

    async def notify(self, row: NotificationRow[P], params: P) -> None:
        """Sends a notification. Raises `LocalProtocolError` or `ConnectionEnded`."""
        try:
            self._check_alive()
            await self.transport.send(self.connection.notify(row, params).message)
        except McpError as error:
            self.explain(error, method=row.name, phase=Phase.REQUEST)
            raise
        await trio.lowlevel.checkpoint()

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

    def _hold(self, busy: bool) -> None:  # noqa: FBT001  what it is told is whether we are
        """The server waits for the user, a model: meanwhile its silence means nothing."""
        for call in self._calls.values():
            (call.hold if busy else call.alive)()
            self._watch.expect(call.deadline)

    # --- what comes ------------------------------------------------------------------------------------------------

    def _deliver(self, message: Message | Batch | MalformedMessage) -> None:
        if self._ended is not None:
            return
        if isinstance(message, Batch):
            self._deliver_batch(message)
        elif isinstance(message, MalformedMessage):
            self._deliver_malformed(message)
        else:
            self._react(self.connection.receive(message))

    def _deliver_batch(self, batch: Batch) -> None:
        if self.connection.refuse_batch() is None:
            for member in self._serving.begin(batch):
                self._react(self.connection.receive(member))
            return
        # A server that batches where it may not: its members are read all the same, and nothing is answered in one.
        _log.warning("%s sent a batch, which may not be sent now", self.transport.describe())
        for each in batch.members:
            self._deliver(each)

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
            self._react(reaction)

    def _react(self, reaction: Reaction) -> None:
        event = reaction.event
        if reaction.reply is not None:
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
        elif isinstance(event, Opened):
            self._agreed.set()
        elif isinstance(event, NegotiationEnded):
            self._refusal = event.error
            self._agreed.set()
        for note in event.notes:
            _log.debug("survived, from %s: %s", self.transport.describe(), note)

    def _settle(self, event: AnswerReceived | FailureReceived) -> None:
        call = self._calls.get(event.id)
        if call is not None:
            call.settle(event)

    def _progressed(self, event: ProgressReceived) -> None:
        call = self._calls.get(event.id)
        if call is not None:
            if not self._serving.busy:
                call.alive()
                self._watch.expect(call.deadline)
            call.progressed(event.params)

    def _notified(self, event: NotificationReceived) -> None:
        self.answering.log(event)
        for listener in tuple(self._listeners):
            listener(event)

    # --- errors ----------------------------------------------------------------------------------------------------

    def explain(
        self,
        error: McpError,
        *,
        method: str | None = None,
        id: RequestId | None = None,
        phase: Phase | None = None,
    ) -> None:
        """Writes down in the error what it happened to."""
        known = error.circumstances
        error.circumstances = attrs.evolve(
            known,
            method=known.method or method,
            request_id=known.request_id if known.request_id is not None else id,
            peer=known.peer or self.transport.describe(),
            phase=known.phase or phase,
            stderr_tail=known.stderr_tail or self.transport.stderr_tail,
        )
