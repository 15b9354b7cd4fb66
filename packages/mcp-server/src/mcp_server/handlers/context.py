"""What one handler may do besides returning: tell how far it got, log, ask the client."""

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
from mcp_server.connection.throttle import Pace
from mcp_server.handlers.access import principal_of
from mcp_server.handlers.context_requests import Asks

if TYPE_CHECKING:
    from mcp_core.engine.events import ClientPeer
    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue, RequestId
    from mcp_core.methods import NotificationRow
    from mcp_core.oauth.principal import Principal
    from mcp_core.types import (
        LoggingLevel,
        WireObject,
    )
    from mcp_server.connection.channel import Call
    from mcp_server.connection.client_requests import Asking
    from mcp_server.server import Server

__all__ = ["Context"]

_log: Final = logging.getLogger("mcp_server")

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")


class Context(Asks):
    """One request, as its handler sees it. A function gets it by a parameter that is annotated with `Context`.

    It cannot be used after the handler has returned. Functions that run in a worker thread may read the properties,
    and call the methods through trio: `trio.from_thread.run(context.progress, 0.5)`.

    The methods that ask the client raise `RequestFailed` when it answers with an error, `ConnectionEnded` when it goes
    away, and `MissingRequiredClientCapability` when it did not declare that it can be asked. On 2026-07-28 a question
    ends the handler: it runs **again from its top** when the answer is there. See `once`.
    """

    __slots__ = ("_call", "_ended")

    def __init__(self, call: Call, server: Server, asking: Asking) -> None:
        super().__init__(server, asking)
        self._call: Final = call
        self._ended = False

    def __repr__(self) -> str:
        return f"<Context of {self._call.request.method} {self._call.request.id!r}>"

    # --- what is known ---------------------------------------------------------------------------------------------

    @property
    def peer(self) -> ClientPeer:
        """The client: revision, capabilities, name, log level."""
        return cast("ClientPeer", self._alive().request.peer)  # of a server

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
        """The `_meta` of the request, as it came; empty when it has none."""
        meta = self._alive().request.raw.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def principal(self) -> Principal | None:
        """Who the client was established to be; `None` where nobody is told apart, as on stdio."""
        return principal_of(self._alive())

    @property
    def scopes(self) -> frozenset[str]:
        """What the access token of the request is good for; empty without one, as in a task that outlived its process."""
        identity = self._alive().identity
        return frozenset() if identity is None else identity.scopes

    @property
    def http(self) -> HttpRequest | None:
        """The HTTP request that it came in: its headers, and who sent it; `None` on stdio and other pipes.

        The headers that let the client in are not there: `Authorization`, `DPoP`, `Proxy-Authorization`, `Cookie`. A token
        for this server must not be sent to another one.
        """
        return self._alive().http

    @property
    def task(self) -> str | None:
        """The id of the task that this is the work of; `None` in an ordinary request."""
        run = self._alive().task
        return None if run is None else run.id

    @property
    def server(self) -> Server:
        """The server."""
        return self._server

    def state(self, kind: type[T]) -> T:
        """What the server's `lifespan` gave, which lives as long as the server.

        Args:
            kind: Its class, or a base of it.

        Raises:
            NotRunning: The life of the server has not begun.
            LocalProtocolError: It gave something else, or there is no `lifespan`.
        """
        self._alive()
        return self._server._service.life.state(kind)  # noqa: SLF001  # one package

    # --- telling ---------------------------------------------------------------------------------------------------

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tells the client how far the request got. Does nothing when it did not ask for it, except in a task.

        What comes faster than `Limits.progress_per_second` is held back: the latest value is sent with the next one that may
        be, before a question to the client, or before the answer.

        Args:
            progress: How far it is, in any unit. A value that is not greater than the last one is not sent.
            total: How far it will be in the end, if that is known.
            message: What is going on, for a person. In a task it becomes the message of its status.
        """
        call = self._alive()
        token = self.meta.get(PROGRESS_TOKEN)
        if call.task is not None and not isinstance(token, str | int):
            token = call.task.id
        if isinstance(token, str | int):
            params = ProgressNotificationParams(progress_token=token, progress=progress, total=total, message=message)
            said = self._told(NOTIFICATIONS_PROGRESS, params)
            if said is not None:
                await self._pace(call).progress(said)
        await trio.lowlevel.checkpoint()

    def _pace(self, call: Call) -> Pace:
        if call.pace is None:
            call.pace = Pace(call, self._server.redact)
        return call.pace

    def _told(self, row: NotificationRow[object], params: P) -> P | None:
        """What the middleware lets through of a notification."""
        told = self._server._service.told(row, params, self._call.request.peer.revision)  # noqa: SLF001  # one package
        return cast("P | None", told)  # the middleware keeps the class

    async def log(self, level: LoggingLevel, data: JsonValue, logger: str | None = None) -> None:
        """Sends the client a log message, if it wants messages of this level.

        What comes faster than `Limits.log_messages_per_second` is dropped, and the client is told how many there were. The
        `redact` of the server sees the data before it is sent.

        Args:
            level: How grave it is.
            data: What to say: a text, or anything that JSON can say. No secrets.
            logger: Which part of the server says it.

        Raises:
            ValueError: There is no such level.
        """
        call = self._alive()
        if level not in LOGGING_LEVELS:
            raise ValueError(f"there is no log level {level!r}; there are {', '.join(LOGGING_LEVELS)}")
        said = self._told(
            NOTIFICATIONS_MESSAGE, LoggingMessageNotificationParams(level=level, data=data, logger=logger)
        )
        if said is not None:
            await self._pace(call).log(said)
        await trio.lowlevel.checkpoint()

    async def debug(self, data: JsonValue, logger: str | None = None) -> None:
        """Logs at the level `debug`, see `log`."""
        await self.log("debug", data, logger)

    async def info(self, data: JsonValue, logger: str | None = None) -> None:
        """Logs at the level `info`, see `log`."""
        await self.log("info", data, logger)

    async def warning(self, data: JsonValue, logger: str | None = None) -> None:
        """Logs at the level `warning`, see `log`."""
        await self.log("warning", data, logger)

    async def error(self, data: JsonValue, logger: str | None = None) -> None:
        """Logs at the level `error`, see `log`."""
        await self.log("error", data, logger)

    async def notify(self, row: NotificationRow[object], params: WireObject) -> None:
        """Sends a notification about this request: one of an extension, or one that has no method here.

        Args:
            row: The notification.
            params: Its parameters.

        Raises:
            LocalProtocolError: The client's revision has no such notification, or the server did not declare what it
                belongs to.
        """
        call = self._alive()
        told = self._told(row, params)
        if told is not None:
            await call.link.send(call.link.connection.notify(row, told, for_request=call.request.id))
        await trio.lowlevel.checkpoint()

    async def begin_task(self) -> None:
        """From here on the call is a task, where it can be one and is not yet: for tools with `task_at_once=False`.

        The client has its answer, and the function runs **again from its top**, in the background, as it does after a
        question: what was asked before is not asked again, see also `once`. There this method does nothing, nor does it
        where the client takes no tasks, or where the call is no tool's.

        Raises:
            RequestFailed: There are too many tasks.
        """
        call = self._alive()
        if call.deferred is not None:
            await call.deferred.begin(call)
        await trio.lowlevel.checkpoint()

    async def release_stream(self) -> None:
        """Lets the connection go by which the client waits for the answer, for a handler that runs long.

        Over HTTP, on 2025-11-25, the client is told to come back after `EndpointPolicy.retry` seconds, and has then what
        was sent meanwhile; so no connection has to be held. With other clients it does nothing.
        """
        call = self._alive()
        await call.link.release_stream(call)

    # --- for the server --------------------------------------------------------------------------------------------

    def _alive(self) -> Call:
        if self._ended:
            raise RuntimeError(
                f"the context of request {self._call.request.id!r} is used after its handler has returned; "
                "a task that outlives its request has nobody to talk to"
            )
        return self._call

    def _end(self) -> None:
        """The handler has returned."""
        self._ended = True
