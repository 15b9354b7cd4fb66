"""Tools: the registry, `tools/list` and `tools/call`. Spec: server/tools"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, Unpack, get_args

import attrs

from mcp_core.errors import ErrorCode, RequestFailed
from mcp_core.field_methods import FieldRepr
from mcp_core.http.routing_headers import param_mismatch
from mcp_core.methods import TOOLS_CALL, TOOLS_LIST
from mcp_core.schema.validation import compile_schema
from mcp_core.types import (
    ABSENT,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    TextContent,
    Tool,
    ToolExecution,
    ToolsCapability,
)
from mcp_server.connection.channel import FAILURES, log_failure
from mcp_server.errors import InvalidResult, RegistrationError, ToolError
from mcp_server.features.listing import PagedList, unknown
from mcp_server.features.results import Results, fit_result, results
from mcp_server.handlers.dependencies import INJECTED
from mcp_server.handlers.elicitation import InvalidAnswer
from mcp_server.handlers.runner import Runner, described, named
from mcp_server.options import TaskSupport, ToolOptions, check_listed, check_options
from mcp_server.schema.explicit import GivenParameters, given_parameters
from mcp_server.schema.signature import InvalidArguments, Parameters, label, parameters

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.schema.annotations import Function as AnyFunction
    from mcp_core.schema.validation import Validator
    from mcp_server.connection.channel import Handler, RequestContext
    from mcp_server.features.tasks.methods import Tasks
    from mcp_server.handlers.environment import HandlerEnvironment

__all__ = ["Tools"]

_SUPPORT: Final[tuple[TaskSupport, ...]] = get_args(TaskSupport)

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


@attrs.define(eq=False, repr=False)
class _Entry(FieldRepr):
    tool: Tool
    function: Runner
    parameters: Parameters | GivenParameters
    results: Results
    task: TaskSupport = "forbidden"
    start_as_task: bool = True
    resumable: bool = False
    _validator: Validator | None = None

    def binds(self, params: CallToolRequestParams) -> bool:
        """Return whether the arguments are valid. Invalid arguments are reported at once, without a task."""
        try:
            self.parameters.bind(params.arguments or {})
        except InvalidArguments:
            return False
        return True

    def check(self, result: CallToolResult) -> None:
        """Check a result that the function built itself against the output schema. Raises `InvalidResult`."""
        schema = self.tool.output_schema
        if schema is None or result.is_error:
            return
        if result.structured_content is ABSENT:
            raise InvalidResult(
                f"the tool {self.tool.name!r} has an output schema, but its result has no structured content"
            )
        if self._validator is None:
            self._validator = compile_schema(schema)
        problems = self._validator.validate(result.structured_content)
        if problems:
            raise InvalidResult(
                f"the structured content of the tool {self.tool.name!r} does not fit its output schema: "
                + "; ".join(str(problem) for problem in problems)
            )


class Tools:
    """The tools of a server.

    Args:
        environment: The environment of the handlers of the server.
        changed: Called when the list has changed.
        offer_tasks: Returns the tasks of the server. Called when a tool is registered that can run as a task.
    """

    def __init__(
        self, environment: HandlerEnvironment, changed: Callable[[], None], offer_tasks: Callable[[], Tasks]
    ) -> None:
        self._environment: Final = environment
        self._changed: Final = changed
        self._offer_tasks: Final = offer_tasks
        self._tasks: Tasks | None = None
        self._entries: Final[dict[str, _Entry]] = {}
        self.listing: Final = PagedList(environment, "tool", environment.hinted(ListToolsResult(tools=())))
        self.handlers: Final[Mapping[str, Handler]] = {
            TOOLS_LIST.name: self.listing.answer,
            TOOLS_CALL.name: self._call,
        }
        """Handlers of the methods of this feature, by method."""

    @property
    def listed(self) -> tuple[Tool, ...]:
        """All tools, in the order of their registration."""
        return tuple(entry.tool for entry in self._entries.values())

    @property
    def capability(self) -> ToolsCapability | None:
        """The capability to declare; `None` if there are no tools."""
        return ToolsCapability(list_changed=True) if self.listing.offers else None

    def header_params(self, name: str) -> tuple[ParamHeader, ...]:
        """Return the parameters of a tool that HTTP headers mirror; empty for an unknown tool.

        Also empty if access to tools depends on the client: then the call compares the headers, so that an error about
        a header does not reveal that the tool exists.
        """
        entry = self._entries.get(name)
        return () if entry is None or self._environment.guard.restricts else entry.parameters.headers

    def add(self, function: AnyFunction, **options: Unpack[ToolOptions]) -> None:
        """Register a tool. Raises `RegistrationError`. See `Server.add_tool`."""
        check_options(label(function), options, ToolOptions.__optional_keys__)
        schema = options.get("input_schema")
        read = (
            parameters(function, injected=INJECTED, converter=self._environment.converter)
            if schema is None
            else given_parameters(function, schema, injected=INJECTED)
        )
        given = results(function, self._environment.converter)
        name = named(function, options)
        if _NAME.fullmatch(name) is None:
            raise RegistrationError(
                f"{label(function)}: {name!r} cannot be the name of a tool; use 1 to 128 of A-Z, a-z, 0-9, '_', '-' and '.'"
            )
        if name in self._entries:
            raise RegistrationError(f"{label(function)}: there is already a tool named {name!r}; pass another `name`")
        tool = Tool(
            name=name,
            title=options.get("title"),
            description=described(read.description, options),
            input_schema=read.schema,
            output_schema=given.output_schema,
            annotations=options.get("annotations"),
            icons=tuple(options.get("icons", ())) or None,
            meta=options.get("meta"),
        )
        support = options.get("task", "forbidden")
        if support not in _SUPPORT:
            raise RegistrationError(f"{label(function)}: `task` must be one of {', '.join(_SUPPORT)}, not {support!r}")
        check_listed(label(function), tool)
        run = Runner(
            function,
            read.injected,
            thread=options.get("thread"),
            async_library=options.get("async_library"),
            environment=self._environment,
        )
        if support != "forbidden":
            self._tasks = self._offer_tasks()
            tool = attrs.evolve(tool, execution=ToolExecution(task_support=support))
        self._entries[name] = _Entry(
            tool,
            run,
            read,
            given,
            support,
            start_as_task=options.get("start_as_task", True),
            resumable=options.get("resumable", False),
        )
        self.listing.add(name, tool)
        self._changed()

    def remove(self, name: str) -> None:
        """Remove a tool. Raises `RegistrationError` if it is not registered."""
        if name not in self._entries:
            raise RegistrationError(f"there is no tool named {name!r} to remove")
        del self._entries[name]
        self.listing.remove(name)
        self._changed()

    def resumed(self, name: str) -> Callable[[RequestContext], Awaitable[object]] | None:
        """Return the function that runs an interrupted task of a tool again; `None` if the tool is not resumable."""
        entry = self._entries.get(name)
        return partial(self._work, entry) if entry is not None and entry.resumable else None

    async def _call(self, call: RequestContext) -> object:
        request = call.request
        params: CallToolRequestParams = request.params  # type: ignore[assignment]  # the engine converted it
        entry = self._entries.get(params.name)
        guard = self._environment.guard
        if entry is None or (guard.restricts and not await guard.allows(call, "tool", params.name)):
            raise unknown("tool", params.name, self._entries, guard)
        revision = request.peer.revision
        if guard.restricts and call.http is not None and revision.routing_headers:
            different = param_mismatch(call.http.headers, request.raw, entry.parameters.headers)
            if different is not None:
                raise different
        tasks = self._tasks
        if tasks is None or not tasks.wanted(call, entry.task):
            return await self._work(entry, call)
        work = partial(self._work, entry)
        if revision.core_tasks or (entry.start_as_task and entry.binds(params)):
            return await tasks.begin(call, work)
        call.begin_task = partial(tasks.promote, work)
        return await work(call)

    async def _work(self, entry: _Entry, call: RequestContext) -> CallToolResult:
        request = call.request
        params: CallToolRequestParams = request.params  # type: ignore[assignment]  # the engine converted it
        revision = request.peer.revision
        try:
            arguments = entry.parameters.bind(params.arguments or {})
        except InvalidArguments as bad:
            if revision.bad_arguments_in_result:
                return _error(bad.message)
            raise RequestFailed(f"tool {params.name!r}: {bad.sentence}", code=ErrorCode.INVALID_PARAMS) from bad
        try:
            value = await entry.function(call, arguments)
            result = entry.results.to_result(value)
            if result is value:
                entry.check(result)
        except ToolError as error:
            return _error(error.message)
        except InvalidAnswer as bad:
            return _error(bad.message)
        except RequestFailed:
            raise
        except FAILURES as error:  # from the author's function: logged here, reported without details
            # The specification reports tool failures in a result, where a model sees them. The model sees only that the
            # tool failed: the text of the exception was not written for clients.
            log_failure(f"tool {params.name!r}", call, error)
            return _error(f"The tool {params.name} failed. The log of the server contains the reason.")
        return fit_result(result, revision)


def _error(text: str) -> CallToolResult:
    return CallToolResult(content=(TextContent(text=text),), is_error=True)
