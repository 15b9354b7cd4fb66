"""The middleware of a server, around its handlers and around the messages that the server sends."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.middleware import MiddlewareMessage, around, passed
from mcp_core.trio.middleware import LibraryMiddleware

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_core.engine.events import NotificationReceived
    from mcp_core.methods import NotificationMethod, RequestMethod
    from mcp_core.middleware import Middleware
    from mcp_core.revisions import Revision
    from mcp_core.trio.async_library import AsyncLibrary
    from mcp_server.connection.channel import Channel, Handler, RequestContext

__all__ = ["MiddlewareChain"]

_log: Final = logging.getLogger("mcp_server")


class MiddlewareChain:
    """The middleware of one server.

    Args:
        layers: The middleware, the outermost first.
        library: The async library of the middleware; `None` for that of the host.
    """

    __slots__ = ("_library", "given", "layers")

    def __init__(self, layers: tuple[Middleware, ...], library: AsyncLibrary | None = None) -> None:
        self._library: Final = library
        self.given: Final = layers
        """The middleware as the author created it."""
        self.layers: tuple[Middleware, ...] = ()
        """The middleware, the outermost first."""
        for layer in reversed(layers):
            self.add_outermost(layer)

    def add_outermost(self, layer: Middleware) -> None:
        """Add a middleware around the others."""
        self.layers = (LibraryMiddleware(layer, lambda: self._library), *self.layers)

    def inbound_request(self, handler: Handler, call: RequestContext) -> Awaitable[object]:
        """Pass a request to its handler. Return its result."""
        request = call.request

        def last(message: MiddlewareMessage) -> Awaitable[object]:
            if message.params is not request.params:
                call.request = attrs.evolve(request, params=message.params)
            return handler(call)

        message = MiddlewareMessage(
            method=request.method,
            params=request.params,
            raw=request.raw,
            incoming=True,
            revision=request.peer.revision,
            id=request.id,
            principal=call.channel.principal,
        )
        return around(self.layers, message, last)

    def inbound_notification(self, channel: Channel, event: NotificationReceived) -> MiddlewareMessage | None:
        """Pass on a notification of a client. Return it, or `None` if a middleware dropped it."""
        message = MiddlewareMessage(
            method=event.method,
            params=event.params,
            raw=event.raw,
            incoming=True,
            revision=None,
            principal=channel.principal,
        )
        return passed(self.layers, message)

    async def outbound_request(
        self,
        definition: RequestMethod[object, object],
        params: object,
        revision: Revision,
        send: Callable[[object], Awaitable[object]],
    ) -> object:
        """Pass on a client request. Return its result."""
        message = _outbound(definition, params, revision)
        return await around(self.layers, message, lambda passing: send(passing.params))

    def outbound_notification(
        self, definition: NotificationMethod[object], params: object, revision: Revision | None
    ) -> object | None:
        """Pass on a notification. Return its parameters, or `None` if a middleware dropped it."""
        if not self.layers:
            return params
        try:
            through = passed(self.layers, _outbound(definition, params, revision))
        except Exception:  # noqa: BLE001 -- the author's function may raise anything; the notification is not sent
            _log.exception("notification dropped, the middleware failed: method=%s", definition.name)
            return None
        return None if through is None else through.params


def _outbound(
    definition: NotificationMethod[object] | RequestMethod[object, object], params: object, revision: Revision | None
) -> MiddlewareMessage:
    return MiddlewareMessage(method=definition.name, params=params, raw={}, incoming=False, revision=revision)
