"""The context of a request: progress, log messages, client requests."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeVar, cast

import trio

from mcp_core.methods import (
    NOTIFICATIONS_MESSAGE,
    NOTIFICATIONS_PROGRESS,
)
from mcp_core.types import (
    LOGGING_LEVELS,
    LoggingMessageNotificationParams,
    ProgressNotificationParams,
)
from mcp_core.types.meta import PROGRESS_TOKEN
from mcp_server.connection.throttle import ProgressThrottle
from mcp_server.handlers.access import principal_of
from mcp_server.handlers.context_requests import ClientRequestMethods

if TYPE_CHECKING:
    from mcp_core.engine.events import ClientPeer
    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue, RequestId
    from mcp_core.methods import NotificationMethod
    from mcp_core.oauth.principal import Principal
    from mcp_core.types import (
        LoggingLevel,
        WireObject,
    )
    from mcp_server.connection.channel import ClientRequests, RequestContext, Throttle
    from mcp_server.server import Server

__all__ = ["Context"]

_log: Final = logging.getLogger("mcp_server")

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")


class Context(ClientRequestMethods):
    """One request, from the view of its handler. A function receives it in a parameter annotated with `Context`.

    It cannot be used after the handler has returned. Functions that run in a worker thread can read the properties,
    and can call the methods through trio: `trio.from_thread.run(context.progress, 0.5)`.

    The methods that send a client request raise `RequestFailed` if the client responds with an error, `ConnectionEnded`
    if the client disconnects, and `MissingRequiredClientCapability` if the client did not declare the capability. On
    2026-07-28 a client request ends the handler. It runs **again from its top** when the client has responded. See
    `once`.
    """

    __slots__ = ("_call", "_ended")

    def __init__(self, call: RequestContext, server: Server, client_requests: ClientRequests) -> None:
        super().__init__(server, client_requests)
        self._call: Final = call
        self._ended = False

    def __repr__(self) -> str:
        return f"<Context of {self._call.request.method} {self._call.request.id!r}>"

    # --- properties of the request ---------------------------------------------------------------------------------

    @property
    def peer(self) -> ClientPeer:
        """The client: revision, capabilities, name, log level."""
        return cast("ClientPeer", self._alive().request.peer)  # the peer of a server is a client

    @property
    def request_id(self) -> RequestId:
        """The id of the request."""
        return self._alive().request.id

    @property
    def method(self) -> str:
        """The method of the request."""
        return self._alive().request.method

    @property
    def meta(self) -> JsonObject:
        """The `_meta` of the request as received; empty if the request does not have it."""
        meta = self._alive().request.raw.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def principal(self) -> Principal | None:
        """The authenticated principal of the client; `None` without authentication, for example on stdio."""
        return principal_of(self._alive())

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of the request's access token.

        Empty without a token, and in a task that was started in an earlier process.
        """
        identity = self._alive().identity
        return frozenset() if identity is None else identity.scopes

    @property
    def http(self) -> HttpRequest | None:
        """The HTTP request: its headers and the address of the sender; `None` on stdio and other streams.

        The headers with credentials are removed: `Authorization`, `DPoP`, `Proxy-Authorization`, `Cookie`. A token for
        this server must not be sent to another server.
        """
        return self._alive().http

    @property
    def task(self) -> str | None:
        """The id of the task that the handler runs for; `None` in an ordinary request."""
        return self._alive().task

    @property
    def server(self) -> Server:
        """The server."""
        return self._server

    def state(self, kind: type[T]) -> T:
        """Return the value that the server's `lifespan` yielded.

        Args:
            kind: The class of the value, or a base class of it.

        Raises:
            NotRunning: The lifespan of the server has not started.
            LocalProtocolError: The value has another class, or the server has no `lifespan`.
        """
        self._alive()
        return self._server._service.life.state(kind)  # noqa: SLF001  # one package

    # --- progress, log messages, notifications ---------------------------------------------------------------------

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report the progress of the request. Without effect if the client did not request progress, except in a task.

        Progress above `Limits.progress_per_second` is delayed. The latest value is sent with the next report that the
        limit allows, before a client request, or before the response.

        Args:
            progress: The progress so far, in any unit. A value that is not greater than the last one is not sent.
            total: The progress at the end, in the same unit, if it is known.
            message: The current step, for the user. In a task it becomes the status message.
        """
        call = self._alive()
        token = self.meta.get(PROGRESS_TOKEN)
        if call.task is not None and not isinstance(token, str | int):
            token = call.task
        if isinstance(token, str | int):
            params = ProgressNotificationParams(progress_token=token, progress=progress, total=total, message=message)
            said = self._notification_params(NOTIFICATIONS_PROGRESS, params)
            if said is not None:
                await self._throttle(call).progress(said)
        await trio.lowlevel.checkpoint()

    def _throttle(self, call: RequestContext) -> Throttle:
        if call.throttle is None:
            call.throttle = ProgressThrottle(call, self._server.redact)
        return call.throttle

    def _notification_params(self, definition: NotificationMethod[object], params: P) -> P | None:
        """Return the parameters of a notification after the middleware, or `None` if the middleware dropped it."""
        through = self._server._service.notification_params(definition, params, self._call.request.peer.revision)  # noqa: SLF001  # one package
        return cast("P | None", through)  # the middleware keeps the class

    async def log(self, level: LoggingLevel, data: JsonValue, logger: str | None = None) -> None:
        """Send the client a log message, if the client has requested messages of this level.

        Messages above `Limits.log_messages_per_second` are dropped. The next message reports how many. The server's
        `redact` function processes the data before it is sent.

        Args:
            level: The severity.
            data: The message: text, or any JSON value. It must not contain secrets.
            logger: The name of the part of the server that logs.

        Raises:
            ValueError: `level` is not a level of the protocol.
        """
        call = self._alive()
        if level not in LOGGING_LEVELS:
            raise ValueError(f"unknown log level {level!r}; the levels are {', '.join(LOGGING_LEVELS)}")
        said = self._notification_params(
            NOTIFICATIONS_MESSAGE, LoggingMessageNotificationParams(level=level, data=data, logger=logger)
        )
        if said is not None:
            await self._throttle(call).log(said)
        await trio.lowlevel.checkpoint()

    async def debug(self, data: JsonValue, logger: str | None = None) -> None:
        """Log at level `debug`. See `log`."""
        await self.log("debug", data, logger)

    async def info(self, data: JsonValue, logger: str | None = None) -> None:
        """Log at level `info`. See `log`."""
        await self.log("info", data, logger)

    async def warning(self, data: JsonValue, logger: str | None = None) -> None:
        """Log at level `warning`. See `log`."""
        await self.log("warning", data, logger)

    async def error(self, data: JsonValue, logger: str | None = None) -> None:
        """Log at level `error`. See `log`."""
        await self.log("error", data, logger)

    async def notify(self, definition: NotificationMethod[object], params: WireObject) -> None:
        """Send a notification that belongs to this request, for example one of an extension.

        Args:
            definition: The definition of the notification.
            params: Its parameters.

        Raises:
            LocalProtocolError: The client's revision does not define the notification, or the server did not declare
                its capability.
        """
        call = self._alive()
        through = self._notification_params(definition, params)
        if through is not None:
            await call.channel.send(call.channel.connection.notify(definition, through, for_request=call.request.id))
        await trio.lowlevel.checkpoint()

    async def begin_task(self) -> None:
        """Continue this tool call as a task. For tools with `task_at_once=False`.

        The client receives the task as the result, and the function runs **again from its top** in the background, as
        after a client request. Client requests that have a response are not sent again; see also `once`. In the task,
        this method has no effect. It also has no effect if the client does not support tasks, or the request is not a
        tool call.

        Raises:
            RequestFailed: The limit of tasks is reached.
            RuntimeError: The caller is shielded from cancellation.
        """
        call = self._alive()
        if call.begin_task is not None:
            await call.begin_task(call)
        await trio.lowlevel.checkpoint()

    async def release_stream(self) -> None:
        """Release the connection on which the client waits for the response, for a handler that runs long.

        Over HTTP on 2025-11-25, the server closes the stream. The client reconnects after `EndpointPolicy.retry`
        seconds and then receives the messages sent meanwhile. With other clients this method has no effect.
        """
        call = self._alive()
        await call.channel.release_stream(call)

    # --- for the server --------------------------------------------------------------------------------------------

    def _alive(self) -> RequestContext:
        if self._ended:
            raise RuntimeError(
                f"the context of request {self._call.request.id!r} is used after its handler has returned; "
                "a background task must not use the context of a finished request"
            )
        return self._call

    def _end(self) -> None:
        """Make the context unusable: the handler has returned."""
        self._ended = True
