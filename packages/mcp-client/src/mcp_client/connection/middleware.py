"""The middleware chain of one connection."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeVar, cast

import attrs

from mcp_core.conversion.converter import converter
from mcp_core.errors import InvalidValue, LocalProtocolError
from mcp_core.methods import NOTIFICATIONS_PROGRESS, NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED
from mcp_core.middleware import MiddlewareMessage, around, passed
from mcp_core.trio.async_library import caller_library
from mcp_core.trio.middleware import LibraryMiddleware

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcp_core.engine.client import ClientConnection
    from mcp_core.engine.events import NotificationReceived, ProgressReceived, ServerPeer
    from mcp_core.jsonrpc.messages import JsonObject, RequestId
    from mcp_core.methods import NotificationMethod, RequestMethod
    from mcp_core.middleware import Middleware
    from mcp_core.revisions import Revision
    from mcp_core.types import ProgressNotificationParams, WireObject

__all__ = ["MiddlewareChain"]

_log: Final = logging.getLogger("mcp_client")

P = TypeVar("P")
R = TypeVar("R")
W = TypeVar("W", bound="WireObject")


class MiddlewareChain:
    """The middleware chain of one connection.

    Args:
        connection: The engine.
        middleware: The middleware, outermost first.
    """

    def __init__(self, connection: ClientConnection, middleware: Sequence[Middleware]) -> None:
        self._connection: Final = connection
        self._middleware: Final = tuple(LibraryMiddleware(each, caller_library) for each in middleware)
        self.is_empty: Final = not self._middleware
        """Whether there is no middleware."""

    @property
    def _revision(self) -> Revision | None:
        server = self._connection.server
        return None if server is None else server.revision

    @property
    def _negotiated(self) -> Revision:
        return cast("ServerPeer", self._connection.server).revision  # results follow the negotiation

    # --- requests --------------------------------------------------------------------------------------------------

    async def request(self, definition: RequestMethod[P, R], params: P, send: Callable[[P], Awaitable[R]]) -> R:
        """Pass a request to the server through the middleware.

        Args:
            definition: The method.
            params: The parameters.
            send: Returns the result.

        Returns:
            The result.

        Raises:
            LocalProtocolError: A middleware returned an object that is not a result of the method.
            McpError: The exceptions of `send`.
        """
        answers: list[object] = []

        async def last(passing: MiddlewareMessage) -> object:
            # A middleware may have replaced the parameters; the engine checks their class.
            answers.append(await send(cast("P", passing.params)))
            return answers[-1]

        message = MiddlewareMessage(
            method=definition.name, params=params, raw={}, incoming=False, revision=self._revision
        )
        result = await around(self._middleware, message, last)
        if not any(result is answer for answer in answers):
            result = self._read(definition, result)
        return cast("R", result)  # parsed by the engine, or by `_read`

    def _read(self, definition: RequestMethod[object, object], result: object) -> object:
        """Return a result of a middleware as an instance of its class. Raises `LocalProtocolError`."""
        allowed = definition.results(self._negotiated)
        if isinstance(result, dict):
            expected = allowed.get(str(result.get("resultType", "complete")))
            if expected is not None:
                return self.read(result, expected)
        if isinstance(result, tuple(allowed.values())):
            return result
        raise LocalProtocolError(
            f"a middleware returned {type(result).__name__}, which is not a result of {definition.name}"
        )

    def read(self, wire: JsonObject, expected: type[W]) -> W:
        """Parse a result that a middleware returned in its wire form.

        Raises:
            LocalProtocolError: The result is not of the expected class.
        """
        revision = self._negotiated
        try:
            return converter(revision).structure(wire, expected)
        except InvalidValue as invalid:
            raise LocalProtocolError(f"a middleware returned an invalid {expected.__name__}: {invalid}") from invalid

    async def answer(
        self,
        method: str,
        params: object,
        handle: Callable[[object], Awaitable[object]],
        *,
        raw: JsonObject | None = None,
        id: RequestId | None = None,
    ) -> object:
        """Pass a request of the server, or an input request, through the middleware to its handler.

        Args:
            method: The method.
            params: The parameters.
            handle: The handler; called with the parameters that the middleware passes on.
            raw: The parameters as received; `None` for an input request.
            id: The id of the request; `None` for an input request.

        Returns:
            The result, as an instance of its class or in its wire form.
        """
        if not self._middleware:
            return await handle(params)
        if raw is None:
            raw = converter(self._negotiated).unstructure(cast("WireObject", params))  # a client request
        message = MiddlewareMessage(
            method=method, params=params, raw=raw, incoming=True, revision=self._revision, id=id
        )
        return await around(self._middleware, message, lambda passing: handle(passing.params))

    # --- notifications ---------------------------------------------------------------------------------------------

    def outgoing(self, definition: NotificationMethod[P], params: P) -> P | None:
        """Pass an outbound notification through. Return its parameters; `None` if a middleware dropped it."""
        if not self._middleware:
            return params
        message = MiddlewareMessage(
            method=definition.name, params=params, raw={}, incoming=False, revision=self._revision
        )
        through = passed(self._middleware, message)
        # The engine checks the class.
        return None if through is None else cast("P", through.params)

    def incoming(self, event: NotificationReceived) -> NotificationReceived | None:
        """Pass an inbound notification through. Return the event; `None` if a middleware dropped it."""
        # The acknowledgment of a subscription is part of the response to its request.
        if not self._middleware or event.definition is NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED:
            return event
        params = self._in(event.method, event.params, event.raw)
        return None if params is None else attrs.evolve(event, params=params)

    def progress(self, event: ProgressReceived) -> ProgressNotificationParams | None:
        """Pass the progress of an outbound request through. Return it; `None` if a middleware dropped it."""
        revision = self._revision
        if not self._middleware or revision is None:
            return event.params
        raw = converter(revision).unstructure(event.params)
        return cast("ProgressNotificationParams | None", self._in(NOTIFICATIONS_PROGRESS.name, event.params, raw))

    def _in(self, method: str, params: object, raw: JsonObject) -> object | None:
        message = MiddlewareMessage(method=method, params=params, raw=raw, incoming=True, revision=self._revision)
        try:
            through = passed(self._middleware, message)
            if through is not None and type(through.params) is not type(params):
                raise TypeError(f"{type(through.params).__name__} instead of {type(params).__name__}")
        except Exception:  # noqa: BLE001  the user's code: there is no caller to raise to, and the connection works
            _log.exception("middleware failed, notification dropped: method=%s", method)
            return None
        return None if through is None else through.params
