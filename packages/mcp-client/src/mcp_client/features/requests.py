"""What a client asks of a server, as typed methods: tools, resources, prompts, completions, and requests of any kind."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast

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

    from mcp_client.connection.channel import Link
    from mcp_client.connection.pending_request import ProgressHandler
    from mcp_client.connection.request_options import Extras
    from mcp_client.connection.response_cache import Caching
    from mcp_client.deadlines import Deadlines
    from mcp_client.features.output_schema import OutputSchemas
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.methods import Method
    from mcp_core.types import Completion, Prompt, Resource, ResourceTemplate, Tool, WireObject

__all__ = ["Features"]

P = TypeVar("P")
R = TypeVar("R")


class Features:
    """The part of `Client` that asks.

    Args:
        link: The connection.
        outputs: Checks structured results.
        caching: Keeps results; `None` for nothing.
    """

    def __init__(self, link: Link, outputs: OutputSchemas, caching: Caching | None) -> None:
        self._link: Final = link
        self._outputs: Final = outputs
        self._caching: Final = caching
        self._extras: Extras = NOTHING
        self._task_tools: Final[set[str]] = set()

    def _with(self, extras: Extras) -> Self:
        """The same connection, with something else added to each request."""
        view = copy(self)
        view._extras = extras  # noqa: SLF001  it is of this class, too
        return view

    # --- tools -----------------------------------------------------------------------------------------------------

    async def list_tools(self) -> tuple[Tool, ...]:
        """All tools, from all pages.

        Over HTTP, tools of 2026-07-28 whose `x-mcp-header` breaks the rules are left out; the log says why.
        """
        pages = await self._pages(TOOLS_LIST, ListToolsRequestParams)
        tools = self._link.transport.usable(tuple(tool for page in pages for tool in page.tools))
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
        """Calls a tool.

        Args:
            name: The tool.
            arguments: Its arguments, as its input schema wants them.
            on_progress: Is called with each progress notification of the tool, in order and before this returns; a plain
                or an asynchronous function. See `ProgressHandler` for one that is slower than the server.
            deadlines: How long to wait, if not as long as usual.

        Returns:
            What the tool gave. `is_error` says whether it failed; a failed tool raises nothing.

        It may take as long as the server needs: where it answers with a task, that is waited for, its questions are answered,
        and `on_progress` is called with the messages of its status. Who gives up, by a cancellation or a deadline, cancels
        the task. See `start_task` for those who do not want to wait.

        Raises:
            TaskCancelled: It ran as a task, which was cancelled.
            InvalidToolOutput: The structured result breaks the output schema that `list_tools` brought, and
                `validate_output` is `raise`.
        """
        outcome = await self._call(name, arguments, as_task=None, on_progress=on_progress, deadlines=deadlines)
        if isinstance(outcome, TaskHandle):
            result = await waited(outcome, self._link, on_progress=on_progress, deadlines=deadlines)
        else:
            result = outcome
        self._checked(name, result)
        return result

    def _checked(self, name: str, result: CallToolResult) -> None:
        try:
            self._outputs.check(name, result)
        except InvalidToolOutput as invalid:
            self._link.explain(invalid, method=TOOLS_CALL.name, phase=Phase.REQUEST)
            raise

    # --- tools as tasks --------------------------------------------------------------------------------------------

    async def start_task(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        ttl: float | None = None,
        deadlines: Deadlines | None = None,
    ) -> TaskHandle:
        """Calls a tool, and does not wait for its result.

        In 2025-11-25 the call is made as a task, which the tool has to allow. On 2026-07-28 the server decides; where it
        answers at once, the handle has the result already.

        Args:
            name: The tool.
            arguments: Its arguments, as its input schema wants them.
            ttl: How many seconds the server shall keep the task; it may decide otherwise. Of no effect on 2026-07-28.
            deadlines: How long to wait for the task to begin, if not as long as usual.

        Returns:
            What to wait for.

        Raises:
            LocalProtocolError: The server or the revision has no tasks.
        """
        check_task_offered(self._link)
        wish = TaskMetadata(ttl=None if ttl is None else int(ttl * 1000))
        outcome = await self._call(name, arguments, as_task=wish, on_progress=None, deadlines=deadlines)
        if isinstance(outcome, TaskHandle):
            return outcome
        return TaskHandle(self._link, self.request, None).settled(outcome)

    def task(self, id: str) -> TaskHandle:
        """A task that was begun before, here or elsewhere. Nothing is asked yet, so it may not exist any more.

        Args:
            id: Its id.

        Raises:
            LocalProtocolError: The revision has no tasks.
        """
        check_task_offered(self._link)
        return TaskHandle(self._link, self.request, id)

    async def _call(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None,
        *,
        as_task: TaskMetadata | None,
        on_progress: ProgressHandler | None,
        deadlines: Deadlines | None,
    ) -> CallToolResult | TaskHandle:
        """Calls a tool: as a task where that is wished, or where the tool is known to want it (2025-11-25)."""
        server = self._link.server
        given = by_name(arguments, f"the arguments of the tool {name!r}")
        fresh = self._with(attrs.evolve(self._extras, fresh=True))

        async def call(task: TaskMetadata | None) -> CallToolResult | TaskHandle:
            result: WireObject = await with_input(
                self._link,
                self.request,
                TOOLS_CALL,
                CallToolRequestParams(name=name, arguments=given, task=task),
                on_progress=on_progress,
                deadlines=deadlines,
                # The tool may not be what it was when it was listed, or was never listed: other parameters stand in headers.
                learn=fresh.list_tools if self._link.transport.takes_headers else None,
            )
            if isinstance(result, CreateTaskResult):
                return TaskHandle(self._link, self.request, result.task.task_id).begun(result)
            if isinstance(result, CreateExtensionTaskResult):
                return TaskHandle(self._link, self.request, result.task_id).begun(result)
            return cast("CallToolResult", result)  # there are no others

        if not server.revision.core_tasks:
            return await call(None)
        if as_task is None and name in self._task_tools:
            as_task = TaskMetadata()
        try:
            return await call(as_task)
        except RequestFailed as failure:
            offered = declared(server.capabilities, TOOLS_CALL.task_capability or ())
            if as_task is not None or failure.code != ErrorCode.METHOD_NOT_FOUND or not offered:
                raise
            # So it is answered where a tool runs as a task only. Whether this one does, its listing says.
            await fresh.list_tools()
            if name not in self._task_tools:
                raise
        return await call(TaskMetadata())

    # --- resources -------------------------------------------------------------------------------------------------

    async def list_resources(self) -> tuple[Resource, ...]:
        """All resources, from all pages."""
        pages = await self._pages(RESOURCES_LIST, ListResourcesRequestParams)
        return tuple(resource for page in pages for resource in page.resources)

    async def list_resource_templates(self) -> tuple[ResourceTemplate, ...]:
        """All resource templates, from all pages."""
        pages = await self._pages(RESOURCES_TEMPLATES_LIST, ListResourceTemplatesRequestParams)
        return tuple(template for page in pages for template in page.resource_templates)

    async def read_resource(
        self, uri: str, *, on_progress: ProgressHandler | None = None, deadlines: Deadlines | None = None
    ) -> ReadResourceResult:
        """Reads a resource. Raises `ResourceNotFound` when there is none.

        Args:
            uri: Which.
            on_progress: Is called with each progress notification, as in `call_tool`.
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
        """Gets a prompt, filled in.

        Args:
            name: The prompt.
            arguments: Its arguments; all are strings.
            on_progress: Is called with each progress notification, as in `call_tool`.
            deadlines: How long to wait, if not as long as usual.

        Returns:
            The messages to begin a conversation with, and what the prompt is for.
        """
        params = GetPromptRequestParams(
            name=name, arguments=by_name(arguments, f"the arguments of the prompt {name!r}")
        )
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
            context=None if known is None else CompletionContext(arguments=by_name(known, "the known arguments")),
        )
        return (await self.request(COMPLETION_COMPLETE, params)).completion

    # --- any request -----------------------------------------------------------------------------------------------

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
            on_progress: Is called with each progress notification, as in `call_tool`.
            deadlines: How long to wait, if not as long as usual.

        Returns:
            The result.
        """
        link = self._link
        # A connection that is over gives nothing, not even what was kept.
        kept = link.server.revision in row.cacheable and link.ended is None
        return await link.passage.ask(
            row,
            params,
            self._extras,
            on_progress=on_progress,
            deadlines=deadlines,
            caching=self._caching if kept else None,
        )

    async def _pages(self, row: Method[ListParams, PageT], params: ParamsOf[ListParams]) -> list[PageT]:
        forget = None if self._caching is None else partial(self._caching.forget, row)
        return await all_pages(self._link, self.request, row, params, forget)
