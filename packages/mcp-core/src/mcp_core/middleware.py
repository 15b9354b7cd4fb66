"""What stands around the messages of a client or a server: one interface for both sides.

    class Timed(Middleware):
        async def request(self, message, proceed):
            began = time.perf_counter()
            try:
                return await proceed(message)
            finally:
                print(message.method, time.perf_counter() - began)

A middleware sees each request and each notification in both directions, with params that are read already. The first
one is the outermost. Answers are what `request` returns or raises. What belongs to the connection itself passes
without: the handshake, pings, cancellations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, RequestId
    from mcp_core.revisions import Revision

__all__ = ["Middleware", "Passing", "Proceed", "around", "passed"]


@attrs.frozen(kw_only=True)
class Passing:
    """A request or a notification on its way."""

    method: str
    """The method, as it stands on the wire."""
    params: object
    """Its parameters, an instance of the class of its row in `mcp_core.methods`; `attrs.evolve` the message to change
    them, and `mcp_core.types.evolve` the parameters."""
    raw: JsonObject
    """The parameters as they came, `_meta` included; empty for what this side sends."""
    incoming: bool
    """The peer sent it. Otherwise this side does."""
    revision: Revision | None
    """The revision it is said in; `None` for a notice that goes to clients of several."""
    id: RequestId | None = None
    """The id of an incoming request; `None` for a notification, for a question that came in a result, and for a request
    that is about to be sent."""
    principal: str | None = None
    """On a server: who the client was established to be, by its `mcp_core.oauth.principal.Principal.key`."""


Proceed: TypeAlias = Callable[[Passing], Awaitable[object]]
"""Takes a request further: to the next middleware, and in the end to its handler, or to the peer. Returns the result."""


class Middleware:
    """Lets everything pass; override what is of interest."""

    def request(self, message: Passing, proceed: Proceed) -> Awaitable[object]:
        """Stands around one request, and its answer. Override it with a coroutine method.

        Args:
            message: The request.
            proceed: Takes it further. It may be called with another message, more than once, or not at all.

        Returns:
            The result: that of `proceed`, or another one of the same class, or in its wire form.

        Raises:
            RequestFailed: The peer is answered with that error; or, for a request of this side, its caller gets it.
        """
        return proceed(message)

    def notification(self, message: Passing) -> Passing | None:
        """Sees one notification, where it comes or goes. It must not wait.

        Args:
            message: The notification.

        Returns:
            What is passed on: the same, or another one with other parameters; `None` to drop it.
        """
        return message


def around(middleware: Sequence[Middleware], message: Passing, last: Proceed) -> Awaitable[object]:
    """Takes a request through all middleware.

    Args:
        middleware: The outermost first.
        message: The request.
        last: What is behind them all.

    Returns:
        The result, to be awaited.
    """
    if not middleware:
        return last(message)
    first, rest = middleware[0], middleware[1:]
    return first.request(message, lambda passing: around(rest, passing, last))


def passed(middleware: Sequence[Middleware], message: Passing) -> Passing | None:
    """Takes a notification through all middleware. Returns what came through; `None` when one of them dropped it."""
    for each in middleware:
        through = each.notification(message)
        if through is None:
            return None
        message = through
    return message
