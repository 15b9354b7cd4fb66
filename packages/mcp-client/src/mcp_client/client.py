"""`Client`: a connection to one server, and all that it offers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from mcp_client.connection.request_headers import checked
from mcp_client.features.requests import Features
from mcp_client.features.subscriptions import Listening
from mcp_core.errors import LocalProtocolError, McpError
from mcp_core.features.meta import check_members
from mcp_core.methods import (
    LOGGING_SET_LEVEL,
    NOTIFICATIONS_ROOTS_LIST_CHANGED,
    NOTIFICATIONS_TOOLS_LIST_CHANGED,
    PING,
)
from mcp_core.types import (
    PingRequestParams,
    RootsListChangedNotificationParams,
    SetLevelRequestParams,
    SubscriptionFilter,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_client.connection.channel import Link
    from mcp_client.connection.response_cache import Caching
    from mcp_client.features.changes import Changes
    from mcp_client.features.output_schema import OutputSchemas
    from mcp_core.engine.events import NotificationReceived, ServerPeer
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.methods import NotificationRow
    from mcp_core.revisions import Revision
    from mcp_core.types import (
        Implementation,
        LoggingLevel,
        ServerCapabilities,
    )

__all__ = ["Client"]

_log: Final = logging.getLogger("mcp_client")

P = TypeVar("P")


class Client(Features):
    """A connection to one server. Made by `open_stdio` and its like, never directly.

    Every method may be called from any task, by several at once. Cancelling the caller cancels the request. All raise:

    - `LocalProtocolError`: the server's revision or capabilities do not have that; nothing was sent;
    - `RequestFailed`: the server answered with an error;
    - `RemoteProtocolError`: its answer breaks the rules;
    - `LimitExceeded`: the answer is larger than `Limits` allow here;
    - `RequestTimeout`: a deadline passed; the request was cancelled;
    - `ConnectionEnded`: the server is gone, or the client was closed; over HTTP also when the answer alone is lost;
    - `HttpFailure`: what answered over HTTP is no answer of the protocol; `AccessDenied` when credentials are wanted.
    """

    def __init__(self, link: Link, outputs: OutputSchemas, caching: Caching | None) -> None:
        super().__init__(link, outputs, caching)
        self._listening: Final = Listening(link)
        if caching is not None:
            link.listeners.subscribe(caching.heard)
        link.listeners.subscribe(self._forget_tools)
        link.listeners.on_renewal(self._renewed)
        link.listeners.on_loss(self._outputs.forget)

    # --- who is there ----------------------------------------------------------------------------------------------

    @property
    def revision(self) -> Revision:
        """The revision that is spoken."""
        return self._link.server.revision

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server offers."""
        return self._link.server.capabilities

    @property
    def server_info(self) -> Implementation | None:
        """Who the server says it is. Not to be relied on."""
        return self._link.server.implementation

    @property
    def instructions(self) -> str | None:
        """How to use the server, for a model. Written by the server: untrusted text."""
        return self._link.server.instructions

    @property
    def server(self) -> ServerPeer:
        """All of that in one: what `open_http` can be told of a server that is known."""
        return self._link.server

    def with_headers(self, headers: Mapping[str, str]) -> Client:
        """The same connection, with HTTP headers of its own: for the credentials of one user, the id of a trace.

            result = await client.with_headers({"Authorization": f"Bearer {token}"}).call_tool("inbox")

        All that is asked through it has the headers; closing it closes the connection. It is cheap. A legacy session is
        opened with the headers of `open_http`, and may be bound to whoever opened it.

        Args:
            headers: The headers. They replace those of `open_http`, and of this client, of the same name.

        Raises:
            LocalProtocolError: This is no connection over HTTP; or one of the headers is the protocol's own.
        """
        if not self._link.transport.takes_headers:
            raise LocalProtocolError("only requests over HTTP have headers")
        every = {**dict(self._extras.headers), **dict(checked(headers))}
        return self._with(attrs.evolve(self._extras, headers=tuple(every.items())))

    def with_meta(self, members: JsonObject) -> Client:
        """The same connection, with members of its own in the `_meta` of each request: for an extension, or a trace.

            traced = client.with_meta({"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})

        Spec: basic#meta

        Args:
            members: Keys and values. They replace those of this client of the same key. What the parameters of a
                request have in `_meta` themselves stays.

        Raises:
            LocalProtocolError: A key is none, or the protocol's own; or `traceparent`, `tracestate` or `baggage` is not
                in its W3C format.
        """
        check_members(members)
        return self._with(attrs.evolve(self._extras, meta={**self._extras.meta, **members}))

    def fresh(self) -> Client:
        """The same connection, which answers nothing from its cache: `await client.fresh().list_tools()`.

        What comes replaces what was kept. Spec: server/utilities/caching (2026-07-28)
        """
        return self._with(attrs.evolve(self._extras, fresh=True))

    # --- what is not true any more ---------------------------------------------------------------------------------

    def _forget_tools(self, event: NotificationReceived) -> None:
        if event.row is NOTIFICATIONS_TOOLS_LIST_CHANGED:
            self._outputs.forget()

    def _renewed(self) -> None:
        self._outputs.forget()
        if self._link.connection.log_level is not None and self.capabilities.logging is not None:
            self._link.nursery.start_soon(self._set_log_level_again, self._link.connection.log_level)

    async def _set_log_level_again(self, level: LoggingLevel) -> None:
        try:
            await self.set_log_level(level)
        except McpError as error:
            _log.warning("the log level could not be set again: %s", error)

    # --- the connection --------------------------------------------------------------------------------------------

    async def ping(self) -> None:
        """Asks for a sign of life. Raises `LocalProtocolError` on 2026-07-28, which has no such request."""
        await self.request(PING, PingRequestParams())

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Sets the least level of log messages that the server shall send: one of `mcp_core.types.LOGGING_LEVELS`.

        A legacy server is told now, for the session; a modern one with each request from here on.
        """
        if self.revision.session_log_level:
            await self.request(LOGGING_SET_LEVEL, SetLevelRequestParams(level=level))
        self._link.connection.log_level = level

    async def roots_changed(self) -> None:
        """Tells a legacy server that the roots are different now. A modern one asks each time, so it is not told."""
        if self.revision.server_requests:
            await self.notify(NOTIFICATIONS_ROOTS_LIST_CHANGED, RootsListChangedNotificationParams())

    async def notify(self, row: NotificationRow[P], params: P) -> None:
        """Sends any notification: the low-level door, for extensions."""
        await self._link.notify(row, params, self._extras.headers)

    async def wait_ended(self) -> None:
        """Waits until the connection is over: closed by this side, or lost."""
        await self._link.wait_ended()

    async def aclose(self) -> None:
        """Closes the connection; requests that wait end with `ConnectionEnded`.

        *Closing*: bounded, and not interrupted by a cancellation. Any task may close a client, more than once.
        """
        await self._link.aclose()

    # --- changes ---------------------------------------------------------------------------------------------------

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Sequence[str] = (),
    ) -> AbstractAsyncContextManager[Changes]:
        """Is told of changes as long as the block runs.

            async with client.listen(tools=True, uris=["file:///notes"]) as changes:
                async for change in changes:
                    print(change.kind, change.uri)

        Args:
            tools: Of the list of tools.
            prompts: Of the list of prompts.
            resources: Of the list of resources.
            uris: Of the contents of these resources.

        Returns:
            A context manager that gives an asynchronous iterator over what changed. Its `granted` says what the server
            promised to tell, which may be less than what was asked for.
        """
        wanted = SubscriptionFilter(
            tools_list_changed=tools,
            prompts_list_changed=prompts,
            resources_list_changed=resources,
            resource_subscriptions=tuple(dict.fromkeys(uris)) or None,
        )
        return self._listening.open(wanted, self._extras)
