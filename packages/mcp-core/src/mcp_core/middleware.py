"""Middleware around the messages of a client or a server: one interface for both sides.

    class Timed(Middleware):
        async def request(self, message, proceed):
            began = time.perf_counter()
            try:
                return await proceed(message)
            finally:
                print(message.method, time.perf_counter() - began)

A middleware receives each request and each notification, in both directions, with parsed params. The first middleware
of a sequence is the outermost one. The response to a request is the value that `request` returns or the error that it
raises. Messages of the connection itself bypass middleware: the handshake, pings and cancellations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, RequestId
    from mcp_core.revisions import Revision

__all__ = ["Middleware", "MiddlewareMessage", "Proceed", "around", "passed"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class MiddlewareMessage(FieldValue):
    """A request or a notification that passes through middleware."""

    method: str
    """The method name on the wire."""
    params: object
    """The parameters, an instance of the params class of the definition in `mcp_core.methods`. To change them, use
    `mcp_core.types.evolve` for the parameters and `attrs.evolve` for this object."""
    raw: JsonObject
    """The parameters as received, with `_meta`; empty for outbound messages."""
    incoming: bool
    """Whether the message is inbound."""
    revision: Revision | None
    """The revision of the message; `None` for a notification that is sent to clients of several revisions."""
    id: RequestId | None = None
    """The id of an inbound request; `None` for a notification, for an input request in a result, and for an outbound
    request that is not sent yet."""
    principal: str | None = None
    """On a server: the principal of the client, as `mcp_core.oauth.principal.Principal.key`."""


Proceed: TypeAlias = Callable[[MiddlewareMessage], Awaitable[object]]
"""A function that passes a request to the next middleware, or to the handler or the peer, and returns the result."""


class Middleware:
    """The base class of middleware. It passes all messages unchanged; override the methods of interest."""

    async_library: ClassVar[Literal["asyncio", "trio"] | None] = None
    """The async library that `request` is written for; `None` for that of the client or server."""

    def request(self, message: MiddlewareMessage, proceed: Proceed) -> Awaitable[object]:
        """Process one request and its response. Override this method with a coroutine method.

        Args:
            message: The request.
            proceed: The function that passes the request on. It may be called with another message, several times, or
                not at all.

        Returns:
            The result of `proceed`, or another result of the same class, or a result in its wire form.

        Raises:
            RequestFailed: The error to send to the peer. For an outbound request, its caller receives the error.
        """
        return proceed(message)

    def notification(self, message: MiddlewareMessage) -> MiddlewareMessage | None:
        """Process one inbound or outbound notification. This method must not block.

        Args:
            message: The notification.

        Returns:
            The notification to pass on: the same, or one with other parameters; `None` to drop it.
        """
        return message


def around(middleware: Sequence[Middleware], message: MiddlewareMessage, last: Proceed) -> Awaitable[object]:
    """Run a request through all middleware.

    Args:
        middleware: The middleware, the outermost first.
        message: The request.
        last: The function to call after the last middleware.

    Returns:
        An awaitable of the result.
    """
    if not middleware:
        return last(message)
    first, rest = middleware[0], middleware[1:]
    return first.request(message, lambda passing: around(rest, passing, last))


def passed(middleware: Sequence[Middleware], message: MiddlewareMessage) -> MiddlewareMessage | None:
    """Run a notification through all middleware. Return the final notification, or `None` if one dropped it."""
    for each in middleware:
        through = each.notification(message)
        if through is None:
            return None
        message = through
    return message
