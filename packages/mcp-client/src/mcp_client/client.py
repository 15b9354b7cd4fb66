"""The client: a connection to one server, with all features of the server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from mcp_client.connection.request_headers import checked
from mcp_client.features.requests import FeatureRequests
from mcp_client.features.subscriptions import Subscriptions
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

    from mcp_client.connection.channel import ClientChannel
    from mcp_client.features.changes import Changes
    from mcp_client.features.output_schema import OutputSchemas
    from mcp_core.engine.events import NotificationReceived, ServerPeer
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.methods import NotificationMethod
    from mcp_core.revisions import Revision
    from mcp_core.types import (
        Implementation,
        LoggingLevel,
        ServerCapabilities,
    )

__all__ = ["Client"]

_log: Final = logging.getLogger("mcp_client")

P = TypeVar("P")


class Client(FeatureRequests):
    """A connection to one server. Created by `open_stdio`, `open_stream` and `open_http`.

    Any task can call any method, also concurrently. Cancelling the caller cancels the request. All requests raise:

    - `LocalProtocolError`: the revision or the capabilities of the server do not support the request; nothing was sent;
    - `RequestFailed`: the server responded with an error;
    - `RemoteProtocolError`: the response violates the protocol;
    - `LimitExceeded`: the response exceeds `Limits` of the client;
    - `RequestTimeout`: a deadline passed; the request was cancelled;
    - `ConnectionEnded`: the connection was lost, or the client was closed; over HTTP also if only the response was
      lost;
    - `HttpFailure`: the HTTP response is not a response of the protocol; `AccessDenied` if credentials are required.
    """

    def __init__(self, channel: ClientChannel, outputs: OutputSchemas) -> None:
        super().__init__(channel, outputs)
        self._subscriptions: Final = Subscriptions(channel)
        channel.listeners.subscribe(self._forget_tools)
        channel.listeners.on_renewal(self._renewed)
        channel.listeners.on_loss(self._outputs.forget)

    # --- the server ------------------------------------------------------------------------------------------------

    @property
    def revision(self) -> Revision:
        """The negotiated revision."""
        return self._channel.server.revision

    @property
    def capabilities(self) -> ServerCapabilities:
        """The capabilities that the server declared."""
        return self._channel.server.capabilities

    @property
    def server_info(self) -> Implementation | None:
        """The name and the version that the server reports. Unverified."""
        return self._channel.server.implementation

    @property
    def instructions(self) -> str | None:
        """Instructions for a model on how to use the server. Untrusted text of the server."""
        return self._channel.server.instructions

    @property
    def server(self) -> ServerPeer:
        """All of these properties as one object: the argument `server` of `open_http` for a known server."""
        return self._channel.server

    def with_headers(self, headers: Mapping[str, str]) -> Client:
        """Return a view of this connection with additional HTTP headers, for example the credentials of one user.

            result = await client.with_headers({"Authorization": f"Bearer {token}"}).call_tool("inbox")

        All requests through the view have the headers. Closing the view closes the connection. A view is cheap to
        create. A legacy session is opened with the headers of `open_http`, and the server may bind the session to the
        user of these headers.

        Args:
            headers: The headers. They replace headers of the same name of `open_http` and of this client.

        Raises:
            LocalProtocolError: The connection does not use HTTP, or the protocol sets one of the headers.
        """
        if not self._channel.transport.takes_headers:
            raise LocalProtocolError("only requests over HTTP have headers")
        every = {**dict(self._options.headers), **dict(checked(headers))}
        return self._with(attrs.evolve(self._options, headers=tuple(every.items())))

    def with_meta(self, members: JsonObject) -> Client:
        """Return a view of this connection with additional members in `_meta` of each request.

            traced = client.with_meta({"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})

        Spec: basic#meta

        Args:
            members: Keys and values, for example of an extension or a trace. They replace members of this client with
                the same key. Members in the parameters of a request take precedence.

        Raises:
            LocalProtocolError: A key is invalid or is set by the protocol; or `traceparent`, `tracestate` or `baggage`
                is not in its W3C format.
        """
        check_members(members)
        return self._with(attrs.evolve(self._options, meta={**self._options.meta, **members}))

    def fresh(self) -> Client:
        """Return a view of this connection that bypasses the response cache: `await client.fresh().list_tools()`.

        New results replace the cached ones. Spec: server/utilities/caching (2026-07-28)
        """
        return self._with(attrs.evolve(self._options, fresh=True))

    # --- outdated state --------------------------------------------------------------------------------------------

    def _forget_tools(self, event: NotificationReceived) -> None:
        if event.definition is NOTIFICATIONS_TOOLS_LIST_CHANGED:
            self._outputs.forget()

    def _renewed(self) -> None:
        self._outputs.forget()
        if self._channel.connection.log_level is not None and self.capabilities.logging is not None:
            self._channel.nursery.start_soon(self._set_log_level_again, self._channel.connection.log_level)

    async def _set_log_level_again(self, level: LoggingLevel) -> None:
        try:
            await self.set_log_level(level)
        except McpError as error:
            _log.warning("setting the log level in the new session failed: %s", error)

    # --- the connection --------------------------------------------------------------------------------------------

    async def ping(self) -> None:
        """Send a ping and wait for the response.

        Raises:
            LocalProtocolError: The revision is 2026-07-28, which does not have ping.
            McpError: The other exceptions of a request.
        """
        await self.request(PING, PingRequestParams())

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Set the minimum level of log messages that the server sends: one of `mcp_core.types.LOGGING_LEVELS`.

        A legacy server receives the level now, for the session. A modern server receives it with each following
        request.

        Args:
            level: The minimum level.

        Raises:
            McpError: The exceptions of a request.
        """
        if self.revision.session_log_level:
            await self.request(LOGGING_SET_LEVEL, SetLevelRequestParams(level=level))
        self._channel.connection.log_level = level

    async def roots_changed(self) -> None:
        """Notify a legacy server that the roots have changed.

        A modern server is not notified, because it requests the roots each time.

        Raises:
            McpError: The exceptions of `notify`.
        """
        if self.revision.server_requests:
            await self.notify(NOTIFICATIONS_ROOTS_LIST_CHANGED, RootsListChangedNotificationParams())

    async def notify(self, definition: NotificationMethod[P], params: P) -> None:
        """Send a notification of any method: the low-level interface, for extensions.

        Args:
            definition: The method.
            params: The parameters.

        Raises:
            LocalProtocolError: The notification must not be sent.
            TransportError: The connection ended, or the message was not delivered.
            RequestTimeout: A deadline of the transport passed.
        """
        await self._channel.notify(definition, params, self._options.headers)

    async def wait_ended(self) -> None:
        """Wait until the connection is closed by this client, or lost."""
        await self._channel.wait_ended()

    async def aclose(self) -> None:
        """Close the connection. Pending requests raise `ConnectionEnded`.

        *Closing*: takes bounded time, shielded from cancellation. Any task can close a client, more than once.
        """
        await self._channel.aclose()

    # --- changes ---------------------------------------------------------------------------------------------------

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Sequence[str] = (),
    ) -> AbstractAsyncContextManager[Changes]:
        """Subscribe to change notifications for the duration of the block.

            async with client.listen(tools=True, uris=["file:///notes"]) as changes:
                async for change in changes:
                    print(change.kind, change.uri)

        Args:
            tools: Whether to subscribe to changes of the list of tools.
            prompts: Whether to subscribe to changes of the list of prompts.
            resources: Whether to subscribe to changes of the list of resources.
            uris: The resources whose content to subscribe to.

        Returns:
            A context manager for an asynchronous iterator over the changes. Its `granted` has the notifications that
            the server agreed to send, which may be fewer than requested. Entering raises the exceptions of a request.
        """
        wanted = SubscriptionFilter(
            tools_list_changed=tools,
            prompts_list_changed=prompts,
            resources_list_changed=resources,
            resource_subscriptions=tuple(dict.fromkeys(uris)) or None,
        )
        return self._subscriptions.open(wanted, self._options)
