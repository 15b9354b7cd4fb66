"""One modern request over HTTP, and all messages in response to it.

The handler runs in the task of the HTTP request. The disconnect of the client cancels the request. Nothing continues
after the connection.

Spec: basic/transports/streamable-http (2026-07-28)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, cast

import trio

from mcp_core.codec import encode
from mcp_core.engine.events import MessageIgnored, NotificationReceived, RequestReceived
from mcp_core.errors import LocalProtocolError
from mcp_core.methods import SUBSCRIPTIONS_LISTEN
from mcp_core.revisions import Era
from mcp_server.connection.channel import Channel, RequestContext
from mcp_server.transports.http.event_stream import DisconnectWatcher, EventStream, run_beside
from mcp_server.transports.http.subscription import Subscription

if TYPE_CHECKING:
    from mcp_core.engine.events import Outgoing
    from mcp_core.engine.server import ServerConnection
    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.jsonrpc.messages import Notification, Request
    from mcp_core.jsonrpc.messages import Response as Answer
    from mcp_core.methods import RequestMethod
    from mcp_core.types import SubscriptionFilter
    from mcp_server.connection.channel import Service
    from mcp_server.connection.request_queue import RequestQueue
    from mcp_server.transports.http.request import HttpContext
    from mcp_server.transports.http.subscription import SubscriptionNotifier

__all__ = ["ModernRequest"]


class ModernRequest(Channel):
    """The channel of one modern request.

    Args:
        service: Responds to requests.
        connection: A new engine.
        exchanged: The HTTP request.
        policy: The settings of the endpoint.
        notifier: Notifies subscriptions of changes.
        places: The request queue of the principal; `None` for an anonymous client.
    """

    __slots__ = ("_context", "_notifier", "_policy", "_queue", "_scope", "_stream", "_subscription")

    def __init__(
        self,
        service: Service,
        connection: ServerConnection,
        context: HttpContext,
        *,
        policy: EndpointPolicy,
        notifier: SubscriptionNotifier,
        queue: RequestQueue | None = None,
    ) -> None:
        super().__init__(service, connection, context.identity.key)
        self._queue: Final = queue
        self._context: Final = context
        self._policy: Final = policy
        self._notifier: Final = notifier
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
        context = self._context
        self._stream = EventStream(context.exchange, context.response, Era.MODERN)
        if not isinstance(event, RequestReceived):
            # The engine responds to messages that it does not forward.
            answer = cast("Answer", cast("Outgoing", reaction.reply).message)
            await self._stream.give((answer,), refused=isinstance(event, MessageIgnored))
            return None
        # A subscription is not queued: it only waits, and there can be many of them.
        if self._queue is not None and event.definition is not SUBSCRIPTIONS_LISTEN:
            full = self._queue.claim(size)
            if full is not None:
                await context.response.reject(context.exchange.busy(full, id=message.id, own=True))
                return None
        self._stream.expect(message.id)
        call = RequestContext(event, self, self._scope, http=context.http, size=size, identity=context.identity)
        try:
            if event.definition is SUBSCRIPTIONS_LISTEN:
                # It is acknowledged immediately, and then manages its response itself.
                await self._answer(call)
                return self._subscription
            await run_beside(context.scope, self._attend, partial(self._answer, call))
            return None
        finally:
            # Break the reference cycle: with many requests, waiting for garbage collection would cost memory.
            call.client_requests = None

    async def _attend(self) -> None:
        context = self._context
        await DisconnectWatcher(self._stream, context.response, context.receive, self._policy, gone=self._gone).run()

    def notify(self, message: Notification) -> None:
        """Handle a notification that was posted alone."""
        event = self.connection.receive(message).event
        if isinstance(event, NotificationReceived):
            self._service.notified(self, event)

    async def _answer(self, call: RequestContext) -> None:
        outgoing = await self._run(call)
        if outgoing is not None:
            response = cast("Answer", outgoing.message)  # the engine returns a response
            await self._stream.answer(response, unavailable=call.unavailable)
        elif self._subscription is None:
            stopping = self._context.exchange.reject(503, "the server is stopping", id=call.request.id)
            await self._stream.drop(call.request.id, stopping)

    async def _outcome(self, call: RequestContext) -> object:
        if self._queue is None or call.request.definition is SUBSCRIPTIONS_LISTEN:
            return await super()._outcome(call)
        await self._queue.enter(call.size)
        try:
            return await super()._outcome(call)
        finally:
            self._queue.leave()

    def _gone(self) -> None:
        """Cancel the request, because the client has disconnected."""
        self._scope.cancel()

    def finish(self) -> None:
        """End a subscription because the server stops. A call continues."""
        if self.connection.subscriptions:
            self._scope.cancel()

    def stop(self) -> None:
        """Cancel the request because the server stops."""
        self._context.response.abort()
        self._scope.cancel()

    # --- for handlers ----------------------------------------------------------------------------------------------

    async def send(self, outgoing: Outgoing | None) -> None:
        """Send a notification on the response stream."""
        if outgoing is not None:
            await self._stream.send(encode(outgoing.message, null_id=False))

    async def request_client(
        self,
        definition: RequestMethod[object, object],
        params: object,  # noqa: ARG002
        call: RequestContext,
    ) -> object:
        """Raise `LocalProtocolError`: in this era a server sends no requests."""
        raise LocalProtocolError(f"a server must not send {definition.name} in revision {call.request.peer.revision}")

    async def listen(self, call: RequestContext, wanted: SubscriptionFilter) -> None:
        """Acknowledge a subscription and create it. It continues after this method returns."""
        subscription = Subscription(
            self._service,
            self.connection,
            call.request.id,
            self._context,
            keep_alive=self._policy.keep_alive,
            notifier=self._notifier,
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
