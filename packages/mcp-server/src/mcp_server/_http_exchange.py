"""One exchange of modern HTTP: one request of the client, and all that is said in response.

Its handler runs in the task of the HTTP request. The end of the connection is the cancellation of the request; nothing
outlives it.

Spec: basic/transports/streamable-http (2026-07-28)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, cast

import trio

from mcp_core.engine.events import Ignored, NotificationReceived, RequestReceived
from mcp_core.errors import LocalProtocolError
from mcp_core.jsonrpc.codec import encode
from mcp_core.methods import SUBSCRIPTIONS_LISTEN
from mcp_core.revisions import Era
from mcp_server._answering import Call, Line
from mcp_server._http_companion import Attendance, accompanied
from mcp_server._http_stream import EventStream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_core.engine.events import Outgoing
    from mcp_core.engine.server import ServerConnection
    from mcp_core.http.policy import EndpointPolicy
    from mcp_core.jsonrpc.messages import Notification, Request
    from mcp_core.jsonrpc.messages import Response as Answer
    from mcp_core.methods import Method, NotificationRow
    from mcp_core.types import SubscriptionFilter
    from mcp_server._answering import Service
    from mcp_server._http_response import Exchanged

__all__ = ["Exchange"]

_log: Final = logging.getLogger("mcp_server")


class Exchange(Line):
    """The trio side of one modern request.

    Args:
        service: Answers requests.
        connection: A new engine.
        principal: Who the client was established to be; `None` where nobody is told apart.
        exchanged: The HTTP request.
        policy: The settings of the endpoint.
    """

    __slots__ = ("_attendance", "_exchanged", "_notices", "_policy", "_scope", "_stream")

    def __init__(
        self,
        service: Service,
        connection: ServerConnection,
        principal: str | None,
        exchanged: Exchanged,
        policy: EndpointPolicy,
    ) -> None:
        super().__init__(service, connection, principal)
        self._exchanged: Final = exchanged
        self._policy: Final = policy
        self._stream: EventStream
        self._attendance: Attendance | None = None
        self._scope: Final = trio.CancelScope()
        self._notices: dict[tuple[str, str], tuple[NotificationRow[object], object]] = {}

    async def serve(self, message: Request) -> None:
        """Answers the request."""
        reaction = self.connection.receive(message)
        event = reaction.event
        exchanged = self._exchanged
        self._stream = EventStream(exchanged.exchange, exchanged.response, Era.MODERN)
        if not isinstance(event, RequestReceived):
            # The engine answers what it does not hand on.
            answer = cast("Answer", cast("Outgoing", reaction.reply).message)
            await self._stream.give((answer,), refused=isinstance(event, Ignored))
            return
        self._stream.owe(message.id)
        call = Call(event, self, self._scope, http=exchanged.http)
        try:
            if event.row is SUBSCRIPTIONS_LISTEN:
                # It does nothing but wait, so that it can look after its response by itself.
                await self._answer(call)
            else:
                await accompanied(exchanged.scope, self._attend, lambda: self._answer(call))
        finally:
            # What refers to itself would have to be found and collected, and there are many of these.
            call.asking = None

    async def _attend(self, flush: Callable[[], Awaitable[None]] | None = None) -> None:
        exchanged = self._exchanged
        self._attendance = Attendance(
            self._stream, exchanged.response, exchanged.receive, self._policy, gone=self._gone, flush=flush
        )
        await self._attendance.run()

    def notify(self, message: Notification) -> None:
        """Takes a notification, which came by itself."""
        event = self.connection.receive(message).event
        if isinstance(event, NotificationReceived):
            self._service.notified(self, event)

    async def _answer(self, call: Call) -> None:
        outgoing = await self._run(call)
        if outgoing is not None:
            await self._stream.answer(cast("Answer", outgoing.message))  # the engine gives an answer
        else:
            stopping = self._exchanged.exchange.refuse(503, "the server is being stopped", id=call.request.id)
            await self._stream.drop(call.request.id, stopping)

    def _gone(self) -> None:
        """The client has left, which cancels the request."""
        self._scope.cancel()

    def finish(self) -> None:
        """The server stops: a subscription ends properly, a call goes on."""
        if self.connection.subscriptions:
            self._scope.cancel()

    def stop(self) -> None:
        """The server stops: nothing goes on."""
        self._exchanged.response.abort()
        self._scope.cancel()

    # --- for handlers ----------------------------------------------------------------------------------------------

    async def send(self, outgoing: Outgoing | None) -> None:
        """See `Line.send`."""
        if outgoing is not None:
            await self._stream.send(encode(outgoing.message, null_id=False))

    async def ask(self, row: Method[object, object], params: object, call: Call) -> object:  # noqa: ARG002
        """There are no requests of the server in this era: raises `LocalProtocolError`."""
        raise LocalProtocolError(f"a server may not send {row.name} in revision {call.request.peer.revision}")

    async def listen(self, call: Call, wanted: SubscriptionFilter) -> None:
        """See `Line.listen`."""
        self._service.connected(self)
        try:
            await self.send(self.connection.acknowledge(call.request.id, wanted))
            await self._attend(self._publish)
            await trio.sleep_forever()
        finally:
            self._service.disconnected(self)

    def publish(self, row: NotificationRow[object], params: object, key: str = "") -> None:
        """See `Line.publish`."""
        self._notices[row.name, key] = (row, params)
        if self._attendance is not None:
            self._attendance.wake()

    async def _publish(self) -> None:
        while self._notices:
            notices, self._notices = self._notices, {}
            messages: list[bytes] = []
            for row, params in notices.values():
                try:
                    outgoing = self.connection.publish(row, params)
                except LocalProtocolError as error:
                    _log.debug("not published: %s", error)
                else:
                    messages += [encode(each.message, null_id=False) for each in outgoing]
            if messages:
                await self._stream.send(*messages)
