"""Mounting: servers of this process, and servers behind a client, as parts of one server.

The items of mounted servers are listed after the registered items. Requests for these items are forwarded to the
mounted server. Tools and prompts have a prefix that identifies their server. Resources keep their URIs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol, cast

import attrs

from mcp_core.errors import RequestFailed, ResourceNotFound
from mcp_core.methods import (
    COMPLETION_COMPLETE,
    PROMPTS_GET,
    RESOURCES_READ,
    RESOURCES_SUBSCRIBE,
    TOOLS_CALL,
)
from mcp_core.types import (
    CallToolRequestParams,
    CompleteRequestParams,
    EmptyResult,
    GetPromptRequestParams,
    Prompt,
    PromptReference,
    ReadResourceRequestParams,
    SubscribeRequestParams,
    Tool,
)
from mcp_server.errors import RegistrationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.types import WireObject
    from mcp_server.connection.channel import Handler, RequestContext
    from mcp_server.features.listing import Item, PagedList, Source
    from mcp_server.features.resources import Resources
    from mcp_server.handlers.access import AccessKind
    from mcp_server.handlers.environment import HandlerEnvironment

__all__ = ["MountedServer", "Mounts"]

_PREFIX: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SEPARATOR: Final = "_"


class MountedServer(Protocol):
    """A server that is mounted on another one. All names are the mounted server's own names, without prefix."""

    @property
    def is_remote(self) -> bool:
        """Whether it is not in this process."""

    def source(self, kind: str) -> Source | None:
        """Return its items of a kind: `tool`, `prompt`, `resource` or `template`. `None` if it offers no such items."""

    def has(self, kind: str, name: str) -> bool:
        """Return whether it has a tool or prompt with this name, as far as this is known without a request."""

    def header_params(self, tool: str) -> tuple[ParamHeader, ...]:
        """Return the parameters of a tool that HTTP headers mirror."""

    @property
    def completion_capability(self) -> JsonObject | None:
        """The completion capability that it declares; `None` if it has no completion."""

    def decided_by(self, uri: str) -> Sequence[tuple[AccessKind, str]]:
        """Return the kinds and names that access to a resource is decided by, as in `AccessRequest`.

        Empty if the server does not have the resource.
        """

    async def exists(self, call: RequestContext, uri: str) -> bool:
        """Return whether it has a resource and sends notifications of its changes."""

    async def answer(self, call: RequestContext) -> object:
        """Return the result of a forwarded request.

        Raises:
            ResourceNotFound: The server does not have the resource.
            RequestFailed: The server responded with another error.
        """


class _RenamedSource:
    """The items of a mounted server, with the prefix added to their names."""

    def __init__(self, source: Source, prefix: str) -> None:
        self._source: Final = source
        self._prefix: Final = prefix

    async def after(self, place: JsonValue, count: int) -> Sequence[Item]:
        """Return up to `count` items that follow `place`."""
        items = await self._source.after(place, count)
        return [attrs.evolve(item, name=self._prefix + item.name, value=self._value(item.value)) for item in items]

    def _value(self, value: WireObject) -> WireObject:
        return attrs.evolve(value, name=self._prefix + value.name) if isinstance(value, Tool | Prompt) else value


class Mounts:
    """The servers that are mounted on one server. Their handlers run before the server's own handlers.

    Args:
        environment: The environment of the handlers of the server.
        handlers: The handlers of the server, by method.
        listings: The lists of the server, by the kind of their items.
        resources: The resources of the server.
    """

    def __init__(
        self,
        environment: HandlerEnvironment,
        handlers: dict[str, Handler],
        listings: Mapping[str, PagedList],
        resources: Resources,
    ) -> None:
        self._guard: Final = environment.guard
        self._handlers: Final = handlers
        self._listings: Final = listings
        self._resources: Final = resources
        self._mounted: Final[dict[str, MountedServer]] = {}
        self._own: Final[dict[str, Handler]] = {}

    def add(self, mounted: MountedServer, prefix: str | None) -> None:
        """Mount a server. Raises `RegistrationError` if the prefix is invalid or conflicts with another one."""
        key = "" if prefix is None else prefix + _SEPARATOR
        if prefix is not None and _PREFIX.fullmatch(prefix) is None:
            raise RegistrationError(f"{prefix!r} cannot be a prefix: use 1 to 64 of A-Z, a-z, 0-9, '_', '-' and '.'")
        for other in self._mounted:
            if key == other or (key and other and (key.startswith(other) or other.startswith(key))):
                taken = repr(other.removesuffix(_SEPARATOR)) if other else "no prefix"
                raise RegistrationError(f"a server is already mounted with {taken}; names would be ambiguous")
        if not self._mounted:
            self._stand_before()
        self._mounted[key] = mounted
        self.refresh()

    def refresh(self) -> None:
        """Add the lists that the mounted servers offer now."""
        for key, mounted in self._mounted.items():
            for kind, listing in self._listings.items():
                source = mounted.source(kind)
                name = f"mounted {key}"
                if source is not None and not listing.has_source(name):
                    listing.add_source(name, _RenamedSource(source, key))

    @property
    def completion_capability(self) -> JsonObject | None:
        """The completion capability of the first mounted server that declares it."""
        declared = (each.completion_capability for each in self._mounted.values())
        return next((capability for capability in declared if capability is not None), None)

    def header_params(self, tool: str) -> tuple[ParamHeader, ...]:
        """Return the parameters of a mounted tool that HTTP headers mirror."""
        if not self._mounted:
            return ()
        found = self._find("tool", tool)
        return () if found is None else found[0].header_params(found[1])

    def _stand_before(self) -> None:
        before: dict[str, Callable[[RequestContext], object]] = {
            TOOLS_CALL.name: self._call_tool,
            PROMPTS_GET.name: self._get_prompt,
            COMPLETION_COMPLETE.name: self._complete,
            RESOURCES_READ.name: self._read,
            RESOURCES_SUBSCRIBE.name: self._subscribe,
        }
        for name, handler in before.items():
            self._own[name] = self._handlers[name]
            self._handlers[name] = cast("Handler", handler)

    def _find(self, kind: str, name: str) -> tuple[MountedServer, str] | None:
        """Return the mounted server of a name, and the name there. `None` if it is registered here or unknown."""
        if name in self._listings[kind]:
            return None
        for key, mounted in self._mounted.items():
            own = name.removeprefix(key)
            if name.startswith(key) and mounted.has(kind, own):
                return mounted, own
        return None

    # --- forwarded requests ----------------------------------------------------------------------------------------

    async def _call_tool(self, call: RequestContext) -> object:
        params = cast("CallToolRequestParams", call.request.params)  # converted by the engine to the method's class
        return await self._forward(call, "tool", params.name, lambda own: attrs.evolve(params, name=own))

    async def _get_prompt(self, call: RequestContext) -> object:
        params = cast("GetPromptRequestParams", call.request.params)  # likewise
        return await self._forward(call, "prompt", params.name, lambda own: attrs.evolve(params, name=own))

    async def _complete(self, call: RequestContext) -> object:
        params = cast("CompleteRequestParams", call.request.params)  # likewise
        ref = params.ref
        if isinstance(ref, PromptReference):
            return await self._forward(
                call, "prompt", ref.name, lambda own: attrs.evolve(params, ref=attrs.evolve(ref, name=own))
            )
        if not self._resources.knows(ref.uri):
            for mounted in self._mounted.values():
                if mounted.has("template", ref.uri):
                    if await self._guard.allows(call, "template", ref.uri):
                        return await mounted.answer(call)
                    break
        return await self._own[COMPLETION_COMPLETE.name](call)

    async def _forward(
        self, call: RequestContext, kind: str, name: str, renamed: Callable[[str], WireObject]
    ) -> object:
        found = self._find(kind, name)
        if found is None or not await self._guard.allows(call, "tool" if kind == "tool" else "prompt", name):
            return await self._own[call.request.method](call)
        mounted, own = found
        call.request = attrs.evolve(call.request, params=renamed(own))
        return await mounted.answer(call)

    async def _read(self, call: RequestContext) -> object:
        try:
            return await self._own[RESOURCES_READ.name](call)
        except ResourceNotFound as nowhere:
            uri = cast("ReadResourceRequestParams", call.request.params).uri  # converted by the engine
            failure: RequestFailed = nowhere
            for mounted in self._mounted.values():
                if not await self._allowed(call, mounted, uri):
                    continue
                try:
                    return await mounted.answer(call)
                except ResourceNotFound:
                    continue
                except RequestFailed as failed:
                    if not mounted.is_remote:
                        raise
                    # Remote servers can report an unknown resource with another error, or can be disconnected.
                    failure = failed
            raise failure from None

    async def _allowed(self, call: RequestContext, mounted: MountedServer, uri: str) -> bool:
        """Return whether a mounted server may have a resource, and the client may use it."""
        decided_by = mounted.decided_by(uri)
        allows = self._guard.allows
        return bool(decided_by) and all([await allows(call, kind, name) for kind, name in decided_by])

    async def _subscribe(self, call: RequestContext) -> object:
        params = cast("SubscribeRequestParams", call.request.params)  # converted by the engine
        if await self.exists(call, params.uri):
            return EmptyResult()
        return await self._own[RESOURCES_SUBSCRIBE.name](call)

    def has(self, kind: str, name: str) -> bool:
        """Return whether a mounted server has a tool or prompt with this name, as far as this is known."""
        return self._find(kind, name) is not None

    def decided_by(self, uri: str) -> list[tuple[AccessKind, str]]:
        """Return the kinds and names that access to a resource of any mounted server is decided by."""
        return [each for mounted in self._mounted.values() for each in mounted.decided_by(uri)]

    async def exists(self, call: RequestContext, uri: str) -> bool:
        """Return whether a mounted server has a resource and sends notifications of its changes."""
        for mounted in self._mounted.values():
            if await self._allowed(call, mounted, uri) and await mounted.exists(call, uri):
                return True
        return False
