"""A server that a client talks to, mounted on one of ours: a proxy.

It takes any client whose methods look like those of `mcp_client.Client`; this package needs none itself. What the other
server says is passed on as it came, with the members that nobody here knows; what the client's revision cannot say is
left out.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol, cast

import trio

from mcp_core.errors import ErrorCode, McpError, RequestFailed, ResourceNotFound
from mcp_core.methods import PROMPTS_GET, RESOURCES_READ, TOOLS_CALL
from mcp_core.types import (
    CallToolRequestParams,
    CompleteRequestParams,
    CompleteResult,
    GetPromptRequestParams,
    ReadResourceRequestParams,
)
from mcp_server._listing import Item

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_core.http.param_headers import ParamHeader
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.types import (
        CallToolResult,
        Completion,
        GetPromptResult,
        ProgressNotificationParams,
        Prompt,
        PromptReference,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
        ResourceTemplateReference,
        ServerCapabilities,
        Tool,
    )
    from mcp_server._answering import Call
    from mcp_server._context import Context
    from mcp_server._listing import Source
    from mcp_server._service import ServerService

__all__ = ["ProxiedServer", "RemoteServer"]

_log: Final = logging.getLogger("mcp_server")


class _Kind(Protocol):
    @property
    def value(self) -> object:
        """`tools`, `prompts`, `resources`, or `resource`."""


class _Change(Protocol):
    @property
    def kind(self) -> _Kind:
        """What changed."""


class _Changes(Protocol):
    def __aiter__(self) -> _Changes: ...

    async def __anext__(self) -> _Change: ...


class RemoteServer(Protocol):
    """A connection to another server: `mcp_client.Client` is one."""

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server offers."""

    async def list_tools(self) -> tuple[Tool, ...]:
        """All tools."""

    async def list_resources(self) -> tuple[Resource, ...]:
        """All resources."""

    async def list_resource_templates(self) -> tuple[ResourceTemplate, ...]:
        """All templates."""

    async def list_prompts(self) -> tuple[Prompt, ...]:
        """All prompts."""

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        on_progress: Callable[[ProgressNotificationParams], Awaitable[None] | None] | None = None,
    ) -> CallToolResult:
        """Calls a tool."""

    async def read_resource(
        self, uri: str, *, on_progress: Callable[[ProgressNotificationParams], Awaitable[None] | None] | None = None
    ) -> ReadResourceResult:
        """Reads a resource."""

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        on_progress: Callable[[ProgressNotificationParams], Awaitable[None] | None] | None = None,
    ) -> GetPromptResult:
        """Gets a prompt."""

    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,
        argument: str,
        value: str,
        *,
        known: Mapping[str, str] | None = None,
    ) -> Completion:
        """Completes an argument."""

    def listen(
        self, *, tools: bool = False, prompts: bool = False, resources: bool = False
    ) -> AbstractAsyncContextManager[_Changes]:
        """Is told of changes."""


class _Remote:
    """What another server lists of one kind: asked anew for each page, since it may have changed."""

    def __init__(self, fetch: Callable[[], Awaitable[Sequence[Tool | Prompt | Resource | ResourceTemplate]]]) -> None:
        self._fetch: Final = fetch

    async def after(self, place: JsonValue, count: int) -> Sequence[Item]:
        """See `Source.after`."""
        try:
            listed = await self._fetch()
        except McpError as error:
            # That it is gone is no reason to list nothing at all.
            _log.warning("a mounted server cannot be asked what it offers: %s", error)
            return []
        items = [Item(name, value, name) for value in listed for name in [_name(value)]]
        if place is None:
            return items[:count]
        names = [item.place for item in items]
        if place not in names:
            raise RequestFailed("invalid params: the list has changed; begin again", code=ErrorCode.INVALID_PARAMS)
        start = names.index(place) + 1
        return items[start : start + count]


def _name(value: Tool | Prompt | Resource | ResourceTemplate) -> str:
    for attribute in ("uri", "uri_template", "name"):
        found = getattr(value, attribute, None)
        if isinstance(found, str):
            return found
    raise AssertionError("all of them have a name")


class ProxiedServer:
    """A server that a client talks to, mounted.

    Args:
        remote: The client.
        service: The server that it is mounted on.
    """

    def __init__(self, remote: RemoteServer, service: ServerService) -> None:
        self._remote: Final = remote
        self._service: Final = service

    def source(self, kind: str) -> Source | None:
        """See `Mounted.source`."""
        offered = self._remote.capabilities
        if kind == "tool":
            return None if offered.tools is None else _Remote(self._remote.list_tools)
        if kind == "prompt":
            return None if offered.prompts is None else _Remote(self._remote.list_prompts)
        if offered.resources is None:
            return None
        return _Remote(self._remote.list_resources if kind == "resource" else self._remote.list_resource_templates)

    def has(self, kind: str, name: str) -> bool:  # noqa: ARG002  # the other server says so, when it is asked
        """See `Mounted.has`."""
        return kind != "template" or self.completions is not None

    @property
    def completions(self) -> JsonObject | None:
        """See `Mounted.completions`."""
        return self._remote.capabilities.completions

    def headers(self, tool: str) -> tuple[ParamHeader, ...]:  # noqa: ARG002  # what headers say is not relied on
        """See `Mounted.headers`."""
        return ()

    async def exists(self, call: Call, uri: str) -> bool:  # noqa: ARG002  # for each client alike
        """See `Mounted.exists`: the changes of single resources are not passed on."""
        await trio.lowlevel.checkpoint()
        return False

    async def answer(self, call: Call) -> object:
        """See `Mounted.answer`."""
        context = self._service.context(call)
        try:
            return await self._asked(call, context)
        except RequestFailed:
            raise
        except McpError as error:
            _log.warning("a mounted server did not answer %s: %s", call.request.method, error)
            raise RequestFailed("the server behind this one did not answer", code=ErrorCode.INTERNAL_ERROR) from error
        finally:
            context._end()  # noqa: SLF001  # one package

    async def _asked(self, call: Call, context: Context) -> object:
        async def on_progress(told: ProgressNotificationParams) -> None:
            await context.progress(told.progress, told.total, told.message)

        params, remote = call.request.params, self._remote
        if call.request.row is TOOLS_CALL:
            tool = cast("CallToolRequestParams", params)  # the engine reads them by the row of the method
            return await remote.call_tool(tool.name, tool.arguments, on_progress=on_progress)
        if call.request.row is PROMPTS_GET:
            prompt = cast("GetPromptRequestParams", params)  # likewise
            return await remote.get_prompt(prompt.name, prompt.arguments, on_progress=on_progress)
        if call.request.row is RESOURCES_READ:
            if remote.capabilities.resources is None:
                raise ResourceNotFound.of(cast("ReadResourceRequestParams", params).uri)
            return await remote.read_resource(cast("ReadResourceRequestParams", params).uri, on_progress=on_progress)
        asked = cast("CompleteRequestParams", params)  # nothing else is passed on
        known = None if asked.context is None else asked.context.arguments
        found = await remote.complete(asked.ref, asked.argument.name, asked.argument.value, known=known)
        return CompleteResult(completion=found)

    async def follow(self) -> None:
        """Passes on that its lists have changed, until it is gone. Never raises."""
        tell = {
            "tools": self._service.tools_changed,
            "prompts": self._service.prompts_changed,
            "resources": self._service.resources_changed,
        }
        try:
            async with self._remote.listen(tools=True, prompts=True, resources=True) as changes:
                async for change in changes:
                    told = tell.get(str(change.kind.value))
                    if told is not None:
                        told()
        except McpError as error:
            _log.warning("the changes of a mounted server are no longer heard of: %s", error)
