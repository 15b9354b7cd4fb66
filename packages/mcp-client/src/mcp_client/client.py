"""The client: a connection to one server, with all features of the server."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, overload

import attrs

from mcp_client.connection.request_headers import checked
from mcp_client.connection.request_options import NOTHING
from mcp_client.features.pagination import all_pages
from mcp_client.features.subscriptions import Subscriptions
from mcp_client.features.tasks import TaskHandle, check_task_offered, waited
from mcp_client.features.tool_result import ToolResultReader
from mcp_core.engine.capabilities import declared
from mcp_core.engine.mrtr import InputRequiredRetries
from mcp_core.errors import (
    ErrorCode,
    HeaderMismatch,
    LimitExceeded,
    LocalProtocolError,
    McpError,
    Phase,
    RemoteProtocolError,
    RequestFailed,
)
from mcp_core.features.meta import check_members
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
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.trio.owner_task import enterable_from_asyncio
from mcp_core.types import (
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompletionArgument,
    CompletionContext,
    CreateExtensionTaskResult,
    CreateTaskResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
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
    TaskMetadata,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_client.connection.channel import ClientChannel
    from mcp_client.connection.request_options import RequestOptions
    from mcp_client.deadlines import Deadlines
    from mcp_client.features.changes import Changes
    from mcp_client.features.output_schema import OutputSchemas
    from mcp_client.features.pagination import ListParams, PageT, ParamsOf
    from mcp_client.features.tool_result import ToolResult
    from mcp_client.handlers import ProgressHandler
    from mcp_core.engine.events import NotificationReceived, ServerPeer
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.methods import NotificationMethod, RequestMethod
    from mcp_core.revisions import Revision
    from mcp_core.types import (
        Completion,
        Implementation,
        InputResponse,
        LoggingLevel,
        Prompt,
        Resource,
        ResourceTemplate,
        ServerCapabilities,
        Tool,
        WireObject,
    )

__all__ = ["Client"]

_log: Final = logging.getLogger("mcp_client")

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")
V = TypeVar("V")
Q = TypeVar("Q", CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams)


class Client:
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
        self._channel: Final = channel
        self._outputs: Final = outputs
        self._results: Final = ToolResultReader(channel, outputs)
        self._options: RequestOptions = NOTHING
        self._task_tools: Final[set[str]] = set()
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

    def _with(self, options: RequestOptions) -> Client:
        view = copy(self)
        view._options = options  # noqa: SLF001  the view is an instance of this class
        return view

    # --- tools -----------------------------------------------------------------------------------------------------

    @allow_asyncio
    async def list_tools(self) -> tuple[Tool, ...]:
        """Return all tools, from all pages.

        Over HTTP, tools of 2026-07-28 with an invalid `x-mcp-header` are omitted, with a warning in the log.
        """
        pages = await self._pages(TOOLS_LIST, ListToolsRequestParams)
        tools = self._channel.transport.usable(tuple(tool for page in pages for tool in page.tools))
        self._outputs.learn(tools)
        self._task_tools.clear()
        self._task_tools.update(
            tool.name for tool in tools if tool.execution is not None and tool.execution.task_support == "required"
        )
        return tools

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        returns: type[T],
        raise_on_error: bool = True,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> ToolResult[T]: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        returns: None = None,
        raise_on_error: bool = True,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> ToolResult[JsonValue]: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        returns: object,
        raise_on_error: bool = True,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> ToolResult[object]: ...
    @allow_asyncio
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        returns: object = None,
        raise_on_error: bool = True,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> ToolResult[object]:
        """Call a tool.

            hits = (await client.call_tool("search", {"query": "tea"}, returns=list[Hit])).data

        If the server responds with a task, this method waits for the task, the handlers respond to its input requests,
        and `on_progress` is called with its status messages. Cancellation or a deadline of the call cancels the task.
        To call a tool without waiting, use `start_task`.

        Args:
            name: The name of the tool.
            arguments: The arguments, according to the input schema of the tool.
            returns: The type of `ToolResult.data`: a dataclass, an attrs class, a `TypedDict`, a pydantic model, a
                msgspec Struct, a list of these, or any other type that a tool of `mcp_server` can return. `None` for
                plain JSON.
            raise_on_error: Whether a failed tool raises `ToolFailed`. If not, `ToolResult.is_error` states it.
            on_progress: Called with each progress notification of the tool, in order and before this method returns; a
                plain or asynchronous function. See `ProgressHandler` for a function that is slower than the server.
            deadlines: The deadlines of the call; `None` for those of the connection.

        Returns:
            The result of the tool.

        Raises:
            ToolFailed: The tool failed; the message has the text of the result.
            TaskCancelled: The call ran as a task, which was cancelled.
            InvalidToolOutput: The data does not match `returns`; or the structured result violates the output schema
                that `list_tools` returned, and `validate_output` is `raise`.
            UnsupportedType: `returns` has no JSON representation.
            McpError: The exceptions of `Client.request`.
        """
        result = await self._call(name, arguments, None, on_progress=on_progress, deadlines=deadlines)
        if isinstance(result, TaskHandle):
            result = await waited(result, self._channel, on_progress=on_progress, deadlines=deadlines)
        return self._results.read(name, result, returns, raise_on_error=raise_on_error)

    # --- tools as tasks --------------------------------------------------------------------------------------------

    @allow_asyncio
    async def start_task(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        ttl: float | None = None,
        deadlines: Deadlines | None = None,
    ) -> TaskHandle:
        """Call a tool without waiting for its result.

        In 2025-11-25 the call is task-augmented, which the tool has to support. In 2026-07-28 the server decides
        whether to create a task. If the server responds with the result, the handle already has it.

        Args:
            name: The name of the tool.
            arguments: The arguments, according to the input schema of the tool.
            ttl: The requested time to live of the task, in seconds; the server can choose another one. Not used in
                2026-07-28.
            deadlines: The deadlines of the request that creates the task; `None` for those of the connection.

        Returns:
            A handle to wait for the result.

        Raises:
            LocalProtocolError: The server or the revision does not support tasks.
            McpError: The exceptions of `Client.request`.
        """
        check_task_offered(self._channel)
        task = TaskMetadata(ttl=None if ttl is None else int(ttl * 1000))
        result = await self._call(name, arguments, task, on_progress=None, deadlines=deadlines)
        if isinstance(result, TaskHandle):
            return result
        return TaskHandle(self._channel, self._options, self._results, name, None, result=result)

    def task(self, id: str) -> TaskHandle:
        """Return a handle of an existing task, of this or another connection.

        No request is sent, so the task may have expired.

        Args:
            id: The id of the task.

        Raises:
            LocalProtocolError: The revision does not support tasks.
        """
        check_task_offered(self._channel)
        return TaskHandle(self._channel, self._options, self._results, None, id)

    async def _call(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None,
        task: TaskMetadata | None,
        *,
        on_progress: ProgressHandler | None,
        deadlines: Deadlines | None,
    ) -> CallToolResult | TaskHandle:
        """Call a tool; as a task if requested, or if the tool is known to require a task (2025-11-25)."""
        server = self._channel.server
        if not server.revision.core_tasks:
            task = None
        elif task is None and name in self._task_tools:
            task = TaskMetadata()
        params = CallToolRequestParams(
            name=name, arguments=_by_name(arguments, f"the arguments of the tool {name!r}"), task=task
        )
        result: WireObject | None = None
        while result is None:
            try:
                result = await self._request_with_input(
                    TOOLS_CALL,
                    params,
                    on_progress=on_progress,
                    deadlines=deadlines,
                    # The tool was changed since it was listed, or was never listed: other parameters belong into headers.
                    learn=self._list_tools_again if self._channel.transport.takes_headers else None,
                )
            except RequestFailed as failure:
                offered = server.revision.core_tasks and declared(server.capabilities, TOOLS_CALL.task_capability or ())
                if params.task is not None or failure.code != ErrorCode.METHOD_NOT_FOUND or not offered:
                    raise
                # Servers respond so if a tool requires a task. The list of tools shows whether this one does.
                await self._list_tools_again()
                if name not in self._task_tools:
                    raise
                params = attrs.evolve(params, task=TaskMetadata())
        if isinstance(result, CreateTaskResult):
            return TaskHandle(self._channel, self._options, self._results, name, result.task.task_id, task=result.task)
        if isinstance(result, CreateExtensionTaskResult):
            return TaskHandle(self._channel, self._options, self._results, name, result.task_id, task=result)
        return result  # type: ignore[return-value]  # the only other result class

    async def _request_with_input(
        self,
        definition: RequestMethod[Q, R],
        params: Q,
        *,
        on_progress: ProgressHandler | None,
        deadlines: Deadlines | None,
        learn: Callable[[], Awaitable[object]] | None = None,
    ) -> R:
        """Send a request, and retry it with input responses until it is complete (2026-07-28).

        Args:
            definition: The method.
            params: The parameters.
            on_progress: Called with each progress notification.
            deadlines: The deadlines of each request.
            learn: Reads which parameters have to be repeated in headers. If the server misses a header, in any round trip,
                `learn` is called and the request is sent once more.

        Returns:
            The complete result.

        Raises:
            RemoteProtocolError: The server repeats an input request.
            LimitExceeded: The request takes more round trips than `Limits.input_round_trips`.
            McpError: The exceptions of `Client.request`.
        """
        channel = self._channel
        retries: InputRequiredRetries | None = None
        while True:
            try:
                result = await channel.request(
                    definition, params, self._options, on_progress=on_progress, deadlines=deadlines
                )
            except HeaderMismatch:
                if learn is None:
                    raise
                await learn()
                result = await channel.request(
                    definition, params, self._options, on_progress=on_progress, deadlines=deadlines
                )
            if not isinstance(result, InputRequiredResult):
                return result
            retries = retries or InputRequiredRetries(channel.connection.limits.input_round_trips)
            try:
                params = retries.retry_params(params, result, await self._answer_input_requests(result))
            except (RemoteProtocolError, LimitExceeded) as error:
                channel.explain(error, method=definition.name, phase=Phase.REQUEST)
                raise

    async def _answer_input_requests(self, result: InputRequiredResult) -> dict[str, InputResponse]:
        """Return the input responses of the application to the input requests of a result."""
        # Sequential: a user should not see two dialogs at once.
        return {
            key: await self._channel.client_requests.answer_input_request(input_request)
            for key, input_request in (result.input_requests or {}).items()
        }

    async def _list_tools_again(self) -> None:
        await self.fresh().list_tools()

    # --- resources -------------------------------------------------------------------------------------------------

    @allow_asyncio
    async def list_resources(self) -> tuple[Resource, ...]:
        """Return all resources, from all pages."""
        pages = await self._pages(RESOURCES_LIST, ListResourcesRequestParams)
        return tuple(resource for page in pages for resource in page.resources)

    @allow_asyncio
    async def list_resource_templates(self) -> tuple[ResourceTemplate, ...]:
        """Return all resource templates, from all pages."""
        pages = await self._pages(RESOURCES_TEMPLATES_LIST, ListResourceTemplatesRequestParams)
        return tuple(template for page in pages for template in page.resource_templates)

    @allow_asyncio
    async def read_resource(
        self, uri: str, *, on_progress: ProgressHandler | None = None, deadlines: Deadlines | None = None
    ) -> ReadResourceResult:
        """Read a resource.

        Args:
            uri: The URI of the resource.
            on_progress: Called with each progress notification, as in `call_tool`.
            deadlines: The deadlines of the request; `None` for those of the connection.

        Returns:
            The contents: one, or several for a URI of several resources, for example of a folder.

        Raises:
            ResourceNotFound: The server does not have this resource.
            McpError: The exceptions of `Client.request`.
        """
        params = ReadResourceRequestParams(uri=uri)
        return await self._request_with_input(RESOURCES_READ, params, on_progress=on_progress, deadlines=deadlines)

    # --- prompts ---------------------------------------------------------------------------------------------------

    @allow_asyncio
    async def list_prompts(self) -> tuple[Prompt, ...]:
        """Return all prompts, from all pages."""
        pages = await self._pages(PROMPTS_LIST, ListPromptsRequestParams)
        return tuple(prompt for page in pages for prompt in page.prompts)

    @allow_asyncio
    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> GetPromptResult:
        """Get a prompt with its arguments filled in.

        Args:
            name: The name of the prompt.
            arguments: The arguments; all values are strings.
            on_progress: Called with each progress notification, as in `call_tool`.
            deadlines: The deadlines of the request; `None` for those of the connection.

        Returns:
            The messages to begin a conversation with, and the description of the prompt.

        Raises:
            McpError: The exceptions of `Client.request`.
        """
        params = GetPromptRequestParams(
            name=name, arguments=_by_name(arguments, f"the arguments of the prompt {name!r}")
        )
        return await self._request_with_input(PROMPTS_GET, params, on_progress=on_progress, deadlines=deadlines)

    @allow_asyncio
    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,
        argument: str,
        value: str,
        *,
        known: Mapping[str, str] | None = None,
    ) -> Completion:
        """Return suggested values for an argument of a prompt or a resource template.

        Args:
            ref: The prompt or the template.
            argument: The name of the argument.
            value: The beginning of the value that the user has typed.
            known: The values of other arguments (since 2025-06-18).

        Returns:
            At most 100 values, and whether there are more.

        Raises:
            McpError: The exceptions of `Client.request`.
        """
        params = CompleteRequestParams(
            ref=ref,
            argument=CompletionArgument(name=argument, value=value),
            context=None if known is None else CompletionContext(arguments=_by_name(known, "the known arguments")),
        )
        return (await self.request(COMPLETION_COMPLETE, params)).completion

    # --- any request -----------------------------------------------------------------------------------------------

    @allow_asyncio
    async def request(
        self,
        definition: RequestMethod[P, R],
        params: P,
        *,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> R:
        """Send a request of any method: the low-level interface, for extensions.

        Args:
            definition: The method.
            params: The parameters.
            on_progress: Called with each progress notification, as in `call_tool`.
            deadlines: The deadlines of the request; `None` for those of the connection.

        Returns:
            The result.

        Raises:
            LocalProtocolError: The request must not be sent, for example because the server did not declare the
                capability.
            RequestFailed: The server responded with an error.
            RemoteProtocolError: The response violates the protocol.
            LimitExceeded: The response exceeds a limit of the client.
            RequestTimeout: A deadline passed.
            TransportError: The connection ended, the client was closed, or the response was lost.
        """
        return await self._channel.request(
            definition, params, self._options, on_progress=on_progress, deadlines=deadlines
        )

    async def _pages(self, definition: RequestMethod[ListParams, PageT], params: ParamsOf[ListParams]) -> list[PageT]:
        return await all_pages(self._channel, self._options, definition, params)

    # --- the connection --------------------------------------------------------------------------------------------

    @allow_asyncio
    async def ping(self) -> None:
        """Send a ping and wait for the response.

        Raises:
            LocalProtocolError: The revision is 2026-07-28, which does not have ping.
            McpError: The other exceptions of a request.
        """
        await self.request(PING, PingRequestParams())

    @allow_asyncio
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

    @allow_asyncio
    async def roots_changed(self) -> None:
        """Notify a legacy server that the roots have changed.

        A modern server is not notified, because it requests the roots each time.

        Raises:
            McpError: The exceptions of `notify`.
        """
        if self.revision.server_requests:
            await self.notify(NOTIFICATIONS_ROOTS_LIST_CHANGED, RootsListChangedNotificationParams())

    @allow_asyncio
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

    @allow_asyncio
    async def wait_ended(self) -> None:
        """Wait until the connection is closed by this client, or lost."""
        await self._channel.wait_ended()

    @allow_asyncio
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
        return enterable_from_asyncio(
            partial(self._subscriptions.open, wanted, self._options), "mcp_client subscription"
        )

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


def _by_name(values: Mapping[str, V] | None, what: str) -> dict[str, V] | None:
    """Return values by name as a new `dict`, or `None`.

    Args:
        values: The values.
        what: What the values are, for the error message.

    Raises:
        LocalProtocolError: The values are not a mapping.
    """
    if values is None:
        return None
    # Callers without a type checker, and models that write arguments, also pass lists and strings.
    if not isinstance(values, Mapping):
        raise LocalProtocolError(f"{what} must be a mapping of names to values, not {type(values).__name__}")
    return dict(values)
