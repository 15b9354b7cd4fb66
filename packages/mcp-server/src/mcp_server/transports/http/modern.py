"""One modern request over HTTP, and all messages in response to it.

The handler runs in the task of the HTTP request. The disconnect of the client cancels the request. Nothing continues
after the connection.

Spec: basic/transports/streamable-http (2026-07-28)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import trio

from mcp_core.engine.events import Ignored, NotificationReceived, RequestReceived
from mcp_core.errors import LocalProtocolError
from mcp_core.jsonrpc.codec import encode
from mcp_core.methods import SUBSCRIPTIONS_LISTEN
from mcp_core.revisions import Era
from mcp_server.connection.channel import Call, Line
from mcp_server.transports.http.disconnect import Attendance, accompanied
from mcp_server.transports.http.event_stream import EventStream
from mcp_server.transports.http.subscription import Subscription

if TYPE_CHECKING:
    from mcp_core.engine.events import Outgoing
    from mcp_core.engine.server import ServerConnection
    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.jsonrpc.messages import Notification, Request
    from mcp_core.jsonrpc.messages import Response as Answer
    from mcp_core.methods import Method
    from mcp_core.types import SubscriptionFilter
    from mcp_server.connection.channel import Service
    from mcp_server.connection.request_queue import Places
    from mcp_server.transports.http.response import Exchanged
    from mcp_server.transports.http.subscription import Herald

__all__ = ["Exchange"]


class Exchange(Line):
    """The channel of one modern request.

    Args:
        service: Responds to requests.
        connection: A new engine.
        exchanged: The HTTP request.
        policy: The settings of the endpoint.
        herald: Notifies subscriptions of changes.
        places: The request queue of the principal; `None` for an anonymous client.
    """

    __slots__ = ("_exchanged", "_herald", "_places", "_policy", "_scope", "_stream", "_subscription")

    def __init__(
        self,
        service: Service,
        connection: ServerConnection,
        exchanged: Exchanged,
        *,
        policy: EndpointPolicy,
        herald: Herald,
        places: Places | None = None,
    ) -> None:
        super().__init__(service, connection, exchanged.identity.key)
        self._places: Final = places
        self._exchanged: Final = exchanged
        self._policy: Final = policy
        self._herald: Final = herald
        self._stream: EventStream
        self._scope: Final = trio.CancelScope()
        self._subscription: Subscription | None = None

    async def serve(self, message: Request, size: int = 0) -> Subscription | None:
        """Respond to the request.

        Args:
            message: The request.
            size: Its size, in bytes.

        Returns:
            The subscription that the request opened; `None` if the response is complete.
        """
        reaction = self.connection.receive(message)
        event = reaction.event
        exchanged = self._exchanged
        self._stream = EventStream(exchanged.exchange, exchanged.response, Era.MODERN)
        if not isinstance(event, RequestReceived):
            # The engine responds to messages that it does not forward.
            answer = cast("Answer", cast("Outgoing", reaction.reply).message)
            await self._stream.give((answer,), refused=isinstance(event, Ignored))
            return None
        # A subscription is not queued: it only waits, and there can be many of them.
        if self._places is not None and event.row is not SUBSCRIPTIONS_LISTEN:
            full = self._places.claim(size)
            if full is not None:
                await exchanged.response.refuse(exchanged.exchange.busy(full, id=message.id, own=True))
                return None
        self._stream.owe(message.id)
        call = Call(event, self, self._scope, http=exchanged.http, size=size, identity=exchanged.identity)
        try:
            if event.row is SUBSCRIPTIONS_LISTEN:
                # It is acknowledged immediately, and then manages its response itself.
                await self._answer(call)
                return self._subscription
            await accompanied(exchanged.scope, self._attend, lambda: self._answer(call))
            return None
        finally:
            # Break the reference cycle: with many requests, waiting for garbage collection would cost memory.
            call.asking = None

    async def _attend(self) -> None:
        exchanged = self._exchanged
        await Attendance(self._stream, exchanged.response, exchanged.receive, self._policy, gone=self._gone).run()

    def notify(self, message: Notification) -> None:
        """Handle a notification that was posted alone."""
        event = self.connection.receive(message).event
        if isinstance(event, NotificationReceived):
            self._service.notified(self, event)

    async def _answer(self, call: Call) -> None:
        outgoing = await self._run(call)
        if outgoing is not None:
            await self._stream.answer(cast("Answer", outgoing.message))  # the engine returns a response
        elif self._subscription is None:
            stopping = self._exchanged.exchange.refuse(503, "the server is stopping", id=call.request.id)
            await self._stream.drop(call.request.id, stopping)

    async def _outcome(self, call: Call) -> object:
        if self._places is None or call.request.row is SUBSCRIPTIONS_LISTEN:
            return await super()._outcome(call)
        await self._places.enter(call.size)
        try:
            return await super()._outcome(call)
        finally:
            self._places.leave()

    def _gone(self) -> None:
        """Cancel the request, because the client has disconnected."""
        self._scope.cancel()

    def finish(self) -> None:
        """End a subscription because the server stops. A call continues."""
        if self.connection.subscriptions:
            self._scope.cancel()

    def stop(self) -> None:
        """Cancel the request because the server stops."""
        self._exchanged.response.abort()
        self._scope.cancel()

    # --- for handlers ----------------------------------------------------------------------------------------------

    async def send(self, outgoing: Outgoing | None) -> None:
        """Send a notification on the response stream."""
        if outgoing is not None:
            await self._stream.send(encode(outgoing.message, null_id=False))

    async def ask(self, row: Method[object, object], params: object, call: Call) -> object:  # noqa: ARG002
        """Raise `LocalProtocolError`: in this era a server sends no requests."""
        raise LocalProtocolError(f"a server must not send {row.name} in revision {call.request.peer.revision}")

    async def listen(self, call: Call, wanted: SubscriptionFilter) -> None:
        """Acknowledge a subscription and create it. It continues after this method returns."""
        subscription = Subscription(
            self._service,
            self.connection,
            call.request.id,
            self._exchanged,
            keep_alive=self._policy.keep_alive,
            herald=self._herald,
        )
        try:
            await self.send(self.connection.acknowledge(call.request.id, wanted))
        except BaseException:
            subscription.close()
            raise
        self._subscription = subscription
        if self._scope.cancel_called:
            # The server stopped while the acknowledgment was sent.
            subscription.finish()
