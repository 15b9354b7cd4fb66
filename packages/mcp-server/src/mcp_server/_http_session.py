"""One session of legacy HTTP: what its requests share, whatever connections they come by.

There is no task of the session. A handler runs in the task of the HTTP request that brought its call, also when the
client has left it meanwhile, which is no cancellation: what it sends is put down, and a client that comes back has it.
The answers to its questions come by other requests.

Spec: basic/transports#streamable-http (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, cast

import trio

from mcp_core.engine.events import (
    AnswerReceived,
    CancelReceived,
    ClientPeer,
    FailureReceived,
    Ignored,
    LogLevelSet,
    NotificationReceived,
    Opened,
    RequestReceived,
)
from mcp_core.errors import ConnectionEnded, LocalProtocolError
from mcp_core.jsonrpc.batch import BatchReply
from mcp_core.jsonrpc.codec import encode
from mcp_core.jsonrpc.messages import Batch
from mcp_core.methods import RESOURCES_SUBSCRIBE, RESOURCES_UNSUBSCRIBE
from mcp_core.revisions import Era
from mcp_server._answering import Call, Line, Questions
from mcp_server._http_companion import Attendance, accompanied
from mcp_server._http_standing import Standing
from mcp_server._http_stream import EventStream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcp_core.engine.events import Outgoing
    from mcp_core.engine.server import ServerConnection
    from mcp_core.http.policy import EndpointPolicy
    from mcp_core.http.responses import Post
    from mcp_core.jsonrpc.messages import JsonObject, Message, RequestId
    from mcp_core.jsonrpc.messages import Response as Answer
    from mcp_core.methods import Method, NotificationRow
    from mcp_core.revisions import Revision
    from mcp_core.types import SubscriptionFilter
    from mcp_server._answering import Service
    from mcp_server._http_log import Log
    from mcp_server._http_response import Exchanged

__all__ = ["Session"]

_log: Final = logging.getLogger("mcp_server")

_REMEMBERED: Final = frozenset({RESOURCES_SUBSCRIBE, RESOURCES_UNSUBSCRIBE})
"""What changes the record of a session, when it succeeds."""


class Session(Line):
    """The trio side of one session.

    Args:
        service: Answers requests.
        connection: Its engine, on which the session is open.
        principal: Whom it belongs to; `None` where nobody is told apart.
        id: The session id.
        client: What the client said in `initialize`.
        log: Where its streams keep their events; `None` where the revision has no resumption.
        policy: The settings of the endpoint.
        save: Keeps what is to be known of it by another process.
    """

    __slots__ = (
        "_calls",
        "_log",
        "_parked",
        "_policy",
        "_questions",
        "_running",
        "_save",
        "changed",
        "client",
        "ended",
        "id",
        "saved_at",
        "standing",
    )

    changed: bool
    """Something that its record says is not so any more."""
    ended: bool
    """It is over."""
    saved_at: float
    """When its record was kept, in seconds since the epoch."""

    def __init__(
        self,
        service: Service,
        connection: ServerConnection,
        *,
        principal: str | None,
        id: str,
        client: JsonObject,
        log: Log | None,
        policy: EndpointPolicy,
        save: Callable[[Session], Awaitable[None]],
    ) -> None:
        super().__init__(service, connection, principal)
        self.id: Final = id
        """The session id."""
        self.client: Final = client
        """What the client said in `initialize`."""
        self.changed = False
        self.ended = False
        self._log: Final = log
        self.standing: Final = Standing(log, policy)
        """Its standalone stream."""
        self._policy: Final = policy
        self._save: Final = save
        self.saved_at = 0.0
        self._calls: dict[RequestId, tuple[Call, EventStream]] = {}
        self._running = 0
        # Most sessions never need these.
        self._parked: trio.lowlevel.ParkingLot | None = None
        self._questions: Questions | None = None

    @property
    def peer(self) -> ClientPeer:
        """The client, with what was agreed."""
        return cast("ClientPeer", self.connection.session)  # it is open

    @property
    def revision(self) -> Revision:
        """What was agreed."""
        return self.peer.revision

    async def recover(self) -> None:
        """Takes up what an earlier process left. Raises `StoreError`."""
        if self._log is not None:
            await self._log.recover()

    # --- POST ------------------------------------------------------------------------------------------------------

    async def post(self, post: Post, exchanged: Exchanged) -> None:
        """Takes what was posted, and answers it."""
        answers, refused, calls, stream = self._begin(post.message, exchanged)
        if self.changed:
            await self._remember()
        if not (answers or calls):
            await exchanged.response.complete(exchanged.exchange.empty_head())
            return
        if answers:
            await stream.give(answers, refused=refused)
        if calls:
            await accompanied(
                exchanged.scope,
                lambda: self._attend(stream, exchanged),
                lambda: self._serve_all(calls, stream, exchanged),
            )

    def _begin(
        self, message: Message | Batch, exchanged: Exchanged
    ) -> tuple[list[Answer], bool, list[Call], EventStream]:
        """Reads what came: what is answered at once, whether with a refusal, and what handlers have to answer."""
        batch = isinstance(message, Batch)
        stream = EventStream(exchanged.exchange, exchanged.response, Era.LEGACY, batch=batch, log=self._log)
        answers: list[Answer] = []
        members: Sequence[Message]
        if isinstance(message, Batch):
            reply = BatchReply(message)
            members = reply.messages
            answers += reply.refused
        else:
            members = (message,)
        calls: list[Call] = []
        refused = False
        for member in members:
            event, answer = self._take(member)
            if isinstance(event, RequestReceived):
                call = Call(event, self, http=exchanged.http)
                calls.append(call)
                stream.owe(event.id)
                self._calls[event.id] = (call, stream)
            elif answer is not None:
                answers.append(answer)
                refused = isinstance(event, Ignored)
        return answers, refused, calls, stream

    def _take(self, message: Message) -> tuple[object, Answer | None]:
        """Takes one message. Gives the event, and what answers it at once."""
        reaction = self.connection.receive(message)
        event = reaction.event
        if isinstance(event, (AnswerReceived, FailureReceived)):
            cast("Questions", self._questions).settle(event)  # one was asked
        elif isinstance(event, CancelReceived):
            self._cancel(event)
        elif isinstance(event, NotificationReceived):
            self._service.notified(self, event)
        elif isinstance(event, Opened):
            self._service.opened(self)
        elif isinstance(event, LogLevelSet):
            self.changed = True
        for note in event.notes:
            _log.debug("survived: %s", note)
        reply = reaction.reply
        return event, None if reply is None else cast("Answer", reply.message)  # nothing else replies to a message

    def _cancel(self, event: CancelReceived) -> None:
        entry = self._calls.get(event.id)
        if entry is not None:
            _log.debug("request %r was cancelled: %s", event.id, event.reason)
            entry[0].scope.cancel()

    async def _attend(self, stream: EventStream, exchanged: Exchanged) -> None:
        await Attendance(stream, exchanged.response, exchanged.receive, self._policy).run()

    async def _serve_all(self, calls: list[Call], stream: EventStream, exchanged: Exchanged) -> None:
        if len(calls) == 1:
            await self._serve(calls[0], stream, exchanged)
            return
        async with trio.open_nursery() as nursery:
            for call in calls:
                nursery.start_soon(self._serve, call, stream, exchanged)

    async def _serve(self, call: Call, stream: EventStream, exchanged: Exchanged) -> None:
        id = call.request.id
        try:
            outgoing = await self._run(call)
        finally:
            # Before it is answered: a client may use the id again once it has the answer.
            del self._calls[id]
            self.connection.withdraw(id)
        # See `Exchange.serve`.
        call.asking = None
        if outgoing is not None:
            if call.request.row in _REMEMBERED:
                await self._remember()
            await stream.answer(cast("Answer", outgoing.message))  # the engine gives an answer
        else:
            gone = exchanged.exchange.unknown_session() if self.ended else None
            await stream.drop(id, gone)

    async def _remember(self) -> None:
        """Has the record kept anew, before the client is told that it has changed."""
        self.changed = False
        await self._save(self)

    async def _outcome(self, call: Call) -> object:
        await self._enter()
        try:
            return await super()._outcome(call)
        finally:
            self._leave()

    # --- places ----------------------------------------------------------------------------------------------------

    async def _enter(self) -> None:
        """Waits for a place among the calls that run."""
        while self._running >= self.connection.limits.running_requests:
            if self._parked is None:
                self._parked = trio.lowlevel.ParkingLot()
            await self._parked.park()
        self._running += 1

    def _leave(self) -> None:
        self._running -= 1
        if self._parked is not None:
            self._parked.unpark()

    # --- for handlers ----------------------------------------------------------------------------------------------

    async def send(self, outgoing: Outgoing | None) -> None:
        """See `Line.send`."""
        if outgoing is not None and outgoing.for_request is not None and outgoing.for_request in self._calls:
            await self._calls[outgoing.for_request][1].send(encode(outgoing.message, null_id=False))

    async def release_stream(self, call: Call) -> None:
        """See `Line.release_stream`."""
        await self._calls[call.request.id][1].release(self._policy.retry)
        await trio.lowlevel.checkpoint()

    async def ask(self, row: Method[object, object], params: object, call: Call) -> object:
        """See `Line.ask`.

        The question goes out on the stream of the call, or, where that cannot be, on the standalone one. The place of the
        call is free meanwhile.
        """
        if self._questions is None:
            self._questions = Questions(self.connection, self._give_up)
        call.questions += 1
        if call.questions == 1:
            self._leave()
        try:
            return await self._questions.ask(row, params, call, self._send_question, self._patience)
        finally:
            call.questions -= 1
            if not call.questions:
                self._running += 1

    async def _send_question(self, outgoing: Outgoing) -> None:
        stream = self._way_to(outgoing.for_request)
        if stream is None:
            raise ConnectionEnded("the client has no stream open on which it could be asked")
        await stream.send(encode(outgoing.message, null_id=False))

    def _way_to(self, request: RequestId | None) -> EventStream | None:
        """The stream by which the client is reached."""
        entry = None if request is None else self._calls.get(request)
        if entry is not None and entry[1].reaches:
            return entry[1]
        return self.standing.stream

    async def _patience(self, answered: trio.Event, call: Call) -> None:
        """Waits for an answer as long as there is somebody to give it, or may be again."""
        while True:
            with trio.move_on_after(self._policy.session_idle):
                await answered.wait()
                return
            entry = self._calls.get(call.request.id)
            if self.standing.stream is None and not (entry is not None and entry[1].connected):
                return

    def _give_up(self, cancellation: Outgoing, call: Call) -> None:
        stream = self._way_to(call.request.id)
        if stream is not None:
            stream.leave(encode(cancellation.message, null_id=False))

    async def listen(self, call: Call, wanted: SubscriptionFilter) -> None:  # noqa: ARG002
        """There are no subscriptions by request in this era: raises `LocalProtocolError`."""
        raise LocalProtocolError(f"{call.request.method} does not exist in revision {self.revision}")

    def publish(self, row: NotificationRow[object], params: object, key: str = "") -> None:
        """See `Line.publish`. Notices wait until there is a standalone stream."""
        try:
            outgoing = self.connection.publish(row, params)
        except LocalProtocolError as error:
            _log.debug("not published: %s", error)
        else:
            for each in outgoing:
                self.standing.tell((row.name, key), each.message)

    # --- the end ---------------------------------------------------------------------------------------------------

    async def release(self) -> None:
        """The server stops: the client is told to come back later for what belongs to no request."""
        await self.standing.end(self._policy.retry)

    def stop(self) -> None:
        """The server stops: no handler goes on."""
        for call, stream in self._calls.values():
            call.scope.cancel()
            if stream.response is not None:
                stream.response.abort()

    async def end(self) -> None:
        """It is over: handlers are cancelled, with what they wait for, and streams end."""
        self.ended = True
        self._service.disconnected(self)
        self.connection.end()
        self.stop()
        await self.standing.end()
