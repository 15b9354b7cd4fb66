"""A proxy: a server behind a client, mounted on a server of this process.

It accepts every client that has the methods of `mcp_client.Client`; this package does not depend on a client. Results
of the other server are forwarded unchanged, with their unknown members. Members that the requesting client's revision
does not have are omitted.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

import trio

from mcp_core.errors import ErrorCode, LocalProtocolError, McpError, RequestFailed, ResourceNotFound
from mcp_core.features.meta import check_members
from mcp_core.methods import PROMPTS_GET, RESOURCES_READ, TOOLS_CALL
from mcp_core.types import (
    CallToolRequestParams,
    CompleteRequestParams,
    CompleteResult,
    GetPromptRequestParams,
    ReadResourceRequestParams,
)
from mcp_server.features.listing import Item
from mcp_server.handlers.context import context_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.types import (
        CallToolResult,
        Completion,
        GetPromptResult,
        Prompt,
        PromptReference,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
        ResourceTemplateReference,
        ServerCapabilities,
        Tool,
    )
    from mcp_server.connection.channel import RequestContext
    from mcp_server.features.listing import Source
    from mcp_server.handlers.access import AccessKind
    from mcp_server.handlers.context import Context
    from mcp_server.handlers.environment import HandlerEnvironment

__all__ = ["ProxiedServer", "RemoteServer"]

_log: Final = logging.getLogger("mcp_server")

_LISTS: Final = frozenset({"tools", "prompts", "resources"})
"""The kinds of changes that are forwarded."""

_TRIPLET: Final = re.compile("%([0-9A-Fa-f]{2})")


_ProgressHandler: TypeAlias = "Callable[[float, float | None, str | None], Awaitable[None] | None]"


class _ToolResult(Protocol):
    @property
    def result(self) -> CallToolResult:
        """The result as the server sent it."""


class _Kind(Protocol):
    @property
    def value(self) -> object:
        """`tools`, `prompts`, `resources`, or `resource`."""


class _Change(Protocol):
    @property
    def kind(self) -> _Kind:
        """The lists that changed."""


class _Changes(Protocol):
    def __aiter__(self) -> _Changes: ...

    async def __anext__(self) -> _Change: ...


class RemoteServer(Protocol):
    """A connection to another server: `mcp_client.Client` is one."""

    @property
    def capabilities(self) -> ServerCapabilities:
        """The capabilities of the server."""

    def with_meta(self, members: JsonObject) -> RemoteServer:
        """Return the same connection with additional members in the `_meta` of each request."""

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return all tools."""

    async def list_resources(self) -> tuple[Resource, ...]:
        """Return all resources."""

    async def list_resource_templates(self) -> tuple[ResourceTemplate, ...]:
        """Return all resource templates."""

    async def list_prompts(self) -> tuple[Prompt, ...]:
        """Return all prompts."""

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        raise_on_error: bool,
        on_progress: _ProgressHandler | None = None,
    ) -> _ToolResult:
        """Call a tool."""

    async def read_resource(self, uri: str, *, on_progress: _ProgressHandler | None = None) -> ReadResourceResult:
        """Read a resource."""

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        on_progress: _ProgressHandler | None = None,
    ) -> GetPromptResult:
        """Return a prompt."""

    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,
        argument: str,
        value: str,
        *,
        known: Mapping[str, str] | None = None,
    ) -> Completion:
        """Return completions of an argument."""

    def listen(
        self, *, tools: bool = False, prompts: bool = False, resources: bool = False
    ) -> AbstractAsyncContextManager[_Changes]:
        """Subscribe to changes of lists."""


class _Remote:
    """A list of another server. It is requested again for each first page, because it can have changed."""

    def __init__(self, fetch: Callable[[], Awaitable[Sequence[Tool | Prompt | Resource | ResourceTemplate]]]) -> None:
        self._fetch: Final = fetch
        self._items: Sequence[Item] = ()
        self._behind: Mapping[JsonValue, int] = {}

    async def after(self, place: JsonValue, count: int) -> Sequence[Item]:
        """Return up to `count` items that follow `place`."""
        # All pages come from one response. Otherwise each page would request all pages of the other server.
        if place not in self._behind:
            try:
                listed = await self._fetch()
            except McpError as error:
                # A disconnected server must not break the lists of the others.
                _log.warning("list request to a mounted server failed: error=%s", error)
                return []
            self._items = [Item(name, value, name) for value in listed for name in [_name(value)]]
            self._behind = {item.name: number for number, item in enumerate(self._items, 1)}
        if place is None:
            return self._items[:count]
        start = self._behind.get(place)
        if start is None:
            raise RequestFailed(
                "invalid params: the list has changed; request the first page again", code=ErrorCode.INVALID_PARAMS
            )
        return self._items[start : start + count]


def _needless(triplet: re.Match[str]) -> str:
    """Return the unreserved character of a percent triplet, or the triplet in upper case (RFC 3986 section 6.2.2)."""
    character = chr(int(triplet[1], 16))
    return character if character.isascii() and (character.isalnum() or character in "-._~") else triplet[0].upper()


def _name(value: Tool | Prompt | Resource | ResourceTemplate) -> str:
    for attribute in ("uri", "uri_template", "name"):
        found = getattr(value, attribute, None)
        if isinstance(found, str):
            return found
    raise AssertionError("all of them have a name")


def _members(meta: JsonObject) -> JsonObject:
    """Return the members of `_meta` to forward: trace context and extension members, but none about a connection."""
    found: JsonObject = {}
    for key, value in meta.items():
        try:
            check_members({key: value})
        except LocalProtocolError:
            continue
        found[key] = value
    return found


class ProxiedServer:
    """A mounted server behind a client.

    Args:
        remote: The client.
        environment: The environment of the handlers of the server that it is mounted on.
        list_changed: Notifies the clients that a list has changed: `tools`, `prompts` or `resources`.
    """

    is_remote: Final = True
    """It is not in this process."""

    def __init__(
        self, remote: RemoteServer, environment: HandlerEnvironment, list_changed: Callable[[str], None]
    ) -> None:
        self._remote: Final = remote
        self._environment: Final = environment
        self._list_changed: Final = list_changed

    def source(self, kind: str) -> Source | None:
        """Return its list of a kind; `None` if the other server did not declare the capability."""
        offered = self._remote.capabilities
        if kind == "tool":
            return None if offered.tools is None else _Remote(self._remote.list_tools)
        if kind == "prompt":
            return None if offered.prompts is None else _Remote(self._remote.list_prompts)
        if offered.resources is None:
            return None
        return _Remote(self._remote.list_resources if kind == "resource" else self._remote.list_resource_templates)

    def has(self, kind: str, name: str) -> bool:  # noqa: ARG002  # the other server rejects unknown names itself
        """Return whether the other server can have the name. Templates matter only for completion."""
        return kind != "template" or self.completion_capability is not None

    @property
    def completion_capability(self) -> JsonObject | None:
        """The completion capability of the other server."""
        return self._remote.capabilities.completions

    def header_params(self, tool: str) -> tuple[ParamHeader, ...]:  # noqa: ARG002  # the body is forwarded, not the headers
        """Return no parameters: mirror headers are not compared for a proxied tool."""
        return ()

    def decided_by(self, uri: str) -> Sequence[tuple[AccessKind, str]]:
        """Return the normalized URI, so that all its encodings share one decision (RFC 3986 section 6.2.2.2)."""
        return [("resource", _TRIPLET.sub(_needless, uri))]

    async def exists(self, call: RequestContext, uri: str) -> bool:  # noqa: ARG002  # the same for each client
        """Return `False`: changes of single resources are not forwarded."""
        await trio.lowlevel.checkpoint()
        return False

    async def answer(self, call: RequestContext) -> object:
        """Return the result of a forwarded request. Raises `RequestFailed` if the other server does not respond."""
        context = context_of(call, self._environment)
        try:
            return await self._request(call, context)
        except RequestFailed:
            raise
        except McpError as error:
            _log.warning("request to a mounted server failed: method=%s error=%s", call.request.method, error)
            raise RequestFailed("the mounted server did not respond", code=ErrorCode.INTERNAL_ERROR) from error
        finally:
            context._end()  # noqa: SLF001  # one package

    async def _request(self, call: RequestContext, context: Context) -> object:
        params, members = call.request.params, _members(context.meta)
        remote = self._remote.with_meta(members) if members else self._remote
        if call.request.definition is TOOLS_CALL:
            tool = cast("CallToolRequestParams", params)  # converted by the engine to the method's class
            called = await remote.call_tool(
                tool.name, tool.arguments, raise_on_error=False, on_progress=context.progress
            )
            return called.result
        if call.request.definition is PROMPTS_GET:
            prompt = cast("GetPromptRequestParams", params)  # likewise
            return await remote.get_prompt(prompt.name, prompt.arguments, on_progress=context.progress)
        if call.request.definition is RESOURCES_READ:
            if remote.capabilities.resources is None:
                raise ResourceNotFound.of(cast("ReadResourceRequestParams", params).uri)
            return await remote.read_resource(
                cast("ReadResourceRequestParams", params).uri, on_progress=context.progress
            )
        completion = cast("CompleteRequestParams", params)  # no other methods are forwarded
        known = None if completion.context is None else completion.context.arguments
        found = await remote.complete(completion.ref, completion.argument.name, completion.argument.value, known=known)
        return CompleteResult(completion=found)

    async def follow(self) -> None:
        """Forward the list changes of the other server until it disconnects. Does not raise."""
        try:
            async with self._remote.listen(tools=True, prompts=True, resources=True) as changes:
                async for change in changes:
                    kind = str(change.kind.value)
                    if kind in _LISTS:
                        self._list_changed(kind)
        except McpError as error:
            _log.warning("change notifications of a mounted server are unavailable: error=%s", error)
        except Exception:  # noqa: BLE001 -- of a middleware of the client: it must not end this server
            _log.exception("change notifications of a mounted server are unavailable")
