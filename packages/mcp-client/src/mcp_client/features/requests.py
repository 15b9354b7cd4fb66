"""The requests of a client as typed methods: tools, resources, prompts, completion, and requests of any method."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from mcp_client.connection.request_options import NOTHING
from mcp_client.features.multi_request import ListParams, PageT, ParamsOf, all_pages, by_name, with_input
from mcp_client.features.output_schema import InvalidToolOutput
from mcp_client.features.tasks import TaskHandle, check_task_offered, waited
from mcp_core.engine.capabilities import declared
from mcp_core.errors import ErrorCode, Phase, RequestFailed
from mcp_core.methods import (
    COMPLETION_COMPLETE,
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
    CreateExtensionTaskResult,
    CreateTaskResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsRequestParams,
    ListResourcesRequestParams,
    ListResourceTemplatesRequestParams,
    ListToolsRequestParams,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    ResourceTemplateReference,
    TaskMetadata,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from mcp_client.connection.channel import ClientChannel
    from mcp_client.connection.pending_request import ProgressHandler
    from mcp_client.connection.request_options import RequestOptions
    from mcp_client.deadlines import Deadlines
    from mcp_client.features.output_schema import OutputSchemas
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.methods import RequestMethod
    from mcp_core.types import Completion, Prompt, Resource, ResourceTemplate, Tool, WireObject

__all__ = ["FeatureRequests"]

P = TypeVar("P")
R = TypeVar("R")


class FeatureRequests:
    """The part of `Client` that sends requests.

    Args:
        channel: The channel of the connection.
        outputs: The output schemas for the validation of structured results.
    """

    def __init__(self, channel: ClientChannel, outputs: OutputSchemas) -> None:
        self._channel: Final = channel
        self._outputs: Final = outputs
        self._options: RequestOptions = NOTHING
        self._task_tools: Final[set[str]] = set()

    def _with(self, options: RequestOptions) -> Self:
        """Return a view of the same connection with other request options."""
        view = copy(self)
        view._options = options  # noqa: SLF001  the view is an instance of this class
        return view

    # --- tools -----------------------------------------------------------------------------------------------------

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

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> CallToolResult:
        """Call a tool.

        If the server responds with a task, this method waits for the task, the handlers respond to its input requests,
        and `on_progress` is called with its status messages. Cancellation or a deadline of the call cancels the task.
        To call a tool without waiting, use `start_task`.

        Args:
            name: The name of the tool.
            arguments: The arguments, according to the input schema of the tool.
            on_progress: Called with each progress notification of the tool, in order and before this method returns; a
                plain or asynchronous function. See `ProgressHandler` for a function that is slower than the server.
            deadlines: The deadlines of the call; `None` for those of the connection.

        Returns:
            The result of the tool. `is_error` states whether the tool failed; a failed tool does not raise.

        Raises:
            TaskCancelled: The call ran as a task, which was cancelled.
            InvalidToolOutput: The structured result violates the output schema that `list_tools` returned, and
                `validate_output` is `raise`.
            McpError: The exceptions of `Client.request`.
        """
        outcome = await self._call(name, arguments, as_task=None, on_progress=on_progress, deadlines=deadlines)
        if isinstance(outcome, TaskHandle):
            result = await waited(outcome, self._channel, on_progress=on_progress, deadlines=deadlines)
        else:
            result = outcome
        try:
            self._outputs.check(name, result)
        except InvalidToolOutput as invalid:
            self._channel.explain(invalid, method=TOOLS_CALL.name, phase=Phase.REQUEST)
            raise
        return result

    # --- tools as tasks --------------------------------------------------------------------------------------------

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
        wish = TaskMetadata(ttl=None if ttl is None else int(ttl * 1000))
        outcome = await self._call(name, arguments, as_task=wish, on_progress=None, deadlines=deadlines)
        if isinstance(outcome, TaskHandle):
            return outcome
        return TaskHandle(self._channel, self.request, None).settled(outcome)

    def task(self, id: str) -> TaskHandle:
        """Return a handle of an existing task, of this or another connection.

        No request is sent, so the task may have expired.

        Args:
            id: The id of the task.

        Raises:
            LocalProtocolError: The revision does not support tasks.
        """
        check_task_offered(self._channel)
        return TaskHandle(self._channel, self.request, id)

    async def _call(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None,
        *,
        as_task: TaskMetadata | None,
        on_progress: ProgressHandler | None,
        deadlines: Deadlines | None,
    ) -> CallToolResult | TaskHandle:
        """Call a tool; as a task if requested, or if the tool is known to require a task (2025-11-25)."""
        channel = self._channel
        server = channel.server
        given = by_name(arguments, f"the arguments of the tool {name!r}")
        if not server.revision.core_tasks:
            as_task = None
        elif as_task is None and name in self._task_tools:
            as_task = TaskMetadata()
        while True:
            try:
                result: WireObject = await with_input(
                    channel,
                    self.request,
                    TOOLS_CALL,
                    CallToolRequestParams(name=name, arguments=given, task=as_task),
                    on_progress=on_progress,
                    deadlines=deadlines,
                    # The tool was changed since it was listed, or was never listed: other parameters belong into
                    # headers.
                    learn=self._list_tools_again if channel.transport.takes_headers else None,
                )
            except RequestFailed as failure:
                offered = server.revision.core_tasks and declared(server.capabilities, TOOLS_CALL.task_capability or ())
                if as_task is not None or failure.code != ErrorCode.METHOD_NOT_FOUND or not offered:
                    raise
                # Servers respond so if a tool requires a task. The list of tools shows whether this one does.
                await self._list_tools_again()
                if name not in self._task_tools:
                    raise
                as_task = TaskMetadata()
                continue
            if isinstance(result, CreateTaskResult):
                return TaskHandle(channel, self.request, result.task.task_id).begun(result)
            if isinstance(result, CreateExtensionTaskResult):
                return TaskHandle(channel, self.request, result.task_id).begun(result)
            return result  # type: ignore[return-value]  # the only other result class

    async def _list_tools_again(self) -> None:
        """List the tools without the response cache."""
        await self._with(attrs.evolve(self._options, fresh=True)).list_tools()

    # --- resources -------------------------------------------------------------------------------------------------

    async def list_resources(self) -> tuple[Resource, ...]:
        """Return all resources, from all pages."""
        pages = await self._pages(RESOURCES_LIST, ListResourcesRequestParams)
        return tuple(resource for page in pages for resource in page.resources)

    async def list_resource_templates(self) -> tuple[ResourceTemplate, ...]:
        """Return all resource templates, from all pages."""
        pages = await self._pages(RESOURCES_TEMPLATES_LIST, ListResourceTemplatesRequestParams)
        return tuple(template for page in pages for template in page.resource_templates)

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
        return await with_input(
            self._channel, self.request, RESOURCES_READ, params, on_progress=on_progress, deadlines=deadlines
        )

    # --- prompts ---------------------------------------------------------------------------------------------------

    async def list_prompts(self) -> tuple[Prompt, ...]:
        """Return all prompts, from all pages."""
        pages = await self._pages(PROMPTS_LIST, ListPromptsRequestParams)
        return tuple(prompt for page in pages for prompt in page.prompts)

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
            name=name, arguments=by_name(arguments, f"the arguments of the prompt {name!r}")
        )
        return await with_input(
            self._channel, self.request, PROMPTS_GET, params, on_progress=on_progress, deadlines=deadlines
        )

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
            context=None if known is None else CompletionContext(arguments=by_name(known, "the known arguments")),
        )
        return (await self.request(COMPLETION_COMPLETE, params)).completion

    # --- any request -----------------------------------------------------------------------------------------------

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
        caching = self._channel.caching
        forget = None if caching is None else partial(caching.forget, definition)
        return await all_pages(self._channel, self.request, definition, params, forget)
