"""`Client`: everything that a server offers, as typed methods."""

from __future__ import annotations

import logging
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from mcp_client._asking import all_pages, with_input
from mcp_client._http_headers import checked
from mcp_client._listening import Listening
from mcp_client._output_schema import InvalidToolOutput
from mcp_core.errors import HeaderMismatch, LocalProtocolError, McpError, Phase
from mcp_core.methods import (
    COMPLETION_COMPLETE,
    LOGGING_SET_LEVEL,
    NOTIFICATIONS_ROOTS_LIST_CHANGED,
    NOTIFICATIONS_TOOLS_LIST_CHANGED,
    PING,
    PROMPTS_GET,
    PROMPTS_LIST,
    RESOURCES_LIST,
    RESOURCES_READ,
    RESOURCES_TEMPLATES_LIST,
    TOOLS_CALL,
    TOOLS_LIST,
)
from mcp_core.types import (
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompletionArgument,
    CompletionContext,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsRequestParams,
    ListResourcesRequestParams,
    ListResourceTemplatesRequestParams,
    ListToolsRequestParams,
    PingRequestParams,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    ResourceTemplateReference,
    RootsListChangedNotificationParams,
    SetLevelRequestParams,
    SubscriptionFilter,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_client._call import ProgressHandler
    from mcp_client._deadlines import Deadlines
    from mcp_client._link import Link
    from mcp_client._output_schema import OutputSchemas
    from mcp_client._subscriptions import Changes
    from mcp_core.engine.events import NotificationReceived, ServerPeer
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.methods import Method, NotificationRow
    from mcp_core.revisions import Revision
    from mcp_core.types import (
        Completion,
        Implementation,
        LoggingLevel,
        Prompt,
        Resource,
        ResourceTemplate,
        ServerCapabilities,
        Tool,
    )

__all__ = ["Client"]

_log: Final = logging.getLogger("mcp_client")

P = TypeVar("P")
R = TypeVar("R")


class Client:
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

    def __init__(self, link: Link, outputs: OutputSchemas) -> None:
        self._link: Final = link
        self._outputs: Final = outputs
        self._listening: Final = Listening(link)
        self._headers: Sequence[tuple[str, str]] = ()
        link.listeners.subscribe(self._forget_tools)
        link.listeners.on_renewal(self._renewed)

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
        own = checked(headers)
        view = copy(self)
        view._headers = tuple({**dict(self._headers), **dict(own)}.items())  # noqa: SLF001  it is a Client, too
        return view

    # --- tools -----------------------------------------------------------------------------------------------------

    async def list_tools(self) -> tuple[Tool, ...]:
        """All tools, from all pages.

        Over HTTP, tools of 2026-07-28 whose `x-mcp-header` breaks the rules are left out; the log says why.
        """
        pages = await all_pages(self._link, self.request, TOOLS_LIST, ListToolsRequestParams)
        tools = self._link.transport.usable(tuple(tool for page in pages for tool in page.tools))
        self._outputs.learn(tools)
        return tools

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> CallToolResult:
        """Calls a tool.

        Args:
            name: The tool.
            arguments: Its arguments, as its input schema wants them.
            on_progress: Is called with the progress that the tool reports; a plain or an asynchronous function.
            deadlines: How long to wait, if not as long as usual.

        Returns:
            What the tool gave. `is_error` says whether it failed; a failed tool raises nothing.

        Raises:
            InvalidToolOutput: The structured result breaks the output schema that `list_tools` brought, and
                `validate_output` is `raise`.
        """
        params = CallToolRequestParams(name=name, arguments=None if arguments is None else dict(arguments))
        call = partial(
            with_input, self._link, self.request, TOOLS_CALL, params, on_progress=on_progress, deadlines=deadlines
        )
        try:
            result = await call()
        except HeaderMismatch:
            # The tool is not what it was when it was listed, or was never listed: other parameters stand in headers.
            if not self._link.transport.takes_headers:
                raise
            await self.list_tools()
            result = await call()
        try:
            self._outputs.check(name, result)
        except InvalidToolOutput as invalid:
            self._link.explain(invalid, method=TOOLS_CALL.name, phase=Phase.REQUEST)
            raise
        return result

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

    # --- resources -------------------------------------------------------------------------------------------------

    async def list_resources(self) -> tuple[Resource, ...]:
        """All resources, from all pages."""
        pages = await all_pages(self._link, self.request, RESOURCES_LIST, ListResourcesRequestParams)
        return tuple(resource for page in pages for resource in page.resources)

    async def list_resource_templates(self) -> tuple[ResourceTemplate, ...]:
        """All resource templates, from all pages."""
        pages = await all_pages(self._link, self.request, RESOURCES_TEMPLATES_LIST, ListResourceTemplatesRequestParams)
        return tuple(template for page in pages for template in page.resource_templates)

    async def read_resource(
        self, uri: str, *, on_progress: ProgressHandler | None = None, deadlines: Deadlines | None = None
    ) -> ReadResourceResult:
        """Reads a resource. Raises `ResourceNotFound` when there is none.

        Args:
            uri: Which.
            on_progress: Is called with the progress that is reported.
            deadlines: How long to wait, if not as long as usual.

        Returns:
            The contents: one, or several where the URI stands for more, as a folder does.
        """
        params = ReadResourceRequestParams(uri=uri)
        return await with_input(
            self._link, self.request, RESOURCES_READ, params, on_progress=on_progress, deadlines=deadlines
        )

    # --- prompts ---------------------------------------------------------------------------------------------------

    async def list_prompts(self) -> tuple[Prompt, ...]:
        """All prompts, from all pages."""
        pages = await all_pages(self._link, self.request, PROMPTS_LIST, ListPromptsRequestParams)
        return tuple(prompt for page in pages for prompt in page.prompts)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> GetPromptResult:
        """Gets a prompt, filled in.

        Args:
            name: The prompt.
            arguments: Its arguments; all are strings.
            on_progress: Is called with the progress that is reported.
            deadlines: How long to wait, if not as long as usual.

        Returns:
            The messages to begin a conversation with, and what the prompt is for.
        """
        params = GetPromptRequestParams(name=name, arguments=None if arguments is None else dict(arguments))
        return await with_input(
            self._link, self.request, PROMPTS_GET, params, on_progress=on_progress, deadlines=deadlines
        )

    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,
        argument: str,
        value: str,
        *,
        known: Mapping[str, str] | None = None,
    ) -> Completion:
        """What an argument of a prompt or a resource template could be.

        Args:
            ref: The prompt or the template.
            argument: The name of the argument.
            value: What was typed so far.
            known: The arguments that are already decided (since 2025-06-18).

        Returns:
            At most 100 values, and whether there are more.
        """
        params = CompleteRequestParams(
            ref=ref,
            argument=CompletionArgument(name=argument, value=value),
            context=None if known is None else CompletionContext(arguments=dict(known)),
        )
        return (await self.request(COMPLETION_COMPLETE, params)).completion

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

    async def request(
        self,
        row: Method[P, R],
        params: P,
        *,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> R:
        """Sends any request: the low-level door, for extensions.

        Args:
            row: The method.
            params: Its parameters.
            on_progress: Is called with the progress that is reported.
            deadlines: How long to wait, if not as long as usual.

        Returns:
            The result.
        """
        result, _ = await self._link.request(
            row, params, on_progress=on_progress, deadlines=deadlines, headers=self._headers
        )
        return result

    async def notify(self, row: NotificationRow[P], params: P) -> None:
        """Sends any notification: the low-level door, for extensions."""
        await self._link.notify(row, params, self._headers)

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
        return self._listening.open(wanted, self._headers)
