"""The environment of handlers: the settings, the access control and the middleware of their server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar, Unpack

import attrs
import trio

from mcp_core.field_methods import FieldRepr
from mcp_core.types import CacheableResult
from mcp_server.cache_hint import hinted

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.limits import Limits
    from mcp_core.limits.memory_budget import MemoryBudget
    from mcp_core.revisions import Revision
    from mcp_core.schema.annotations import Function
    from mcp_core.schema.hooks import HookConverter
    from mcp_core.trio.async_library import AsyncLibrary
    from mcp_core.types import Implementation, ServerCapabilities
    from mcp_server.cache_hint import CacheHint
    from mcp_server.connection.sealer import InputPolicy, KeyRing
    from mcp_server.handlers.access import Guard
    from mcp_server.handlers.middleware import MiddlewareChain
    from mcp_server.lifespan import LifespanRunner
    from mcp_server.options import PromptOptions, ResourceOptions, ToolOptions

__all__ = ["HandlerEnvironment", "HandlerServer"]

C = TypeVar("C", bound=CacheableResult)

_THREADS: Final = 40
"""Worker threads that one server uses at the same time: trio's own default."""


class HandlerServer(Protocol):
    """A server as its handlers see it. `mcp_server.Server` documents the members."""

    @property
    def info(self) -> Implementation:
        """Name, version and other metadata that the server sends."""

    @property
    def instructions(self) -> str | None:
        """Instructions for a model."""

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """Supported revisions."""

    @property
    def limits(self) -> Limits:
        """Limits of what one client can make the server do."""

    @property
    def capabilities(self) -> ServerCapabilities:
        """The capabilities of the server."""

    def add_tool(self, function: Function, **options: Unpack[ToolOptions]) -> None:
        """Register a function as a tool."""

    def remove_tool(self, name: str) -> None:
        """Remove a tool."""

    def add_resource(self, function: Function, uri: str, **options: Unpack[ResourceOptions]) -> None:
        """Register a function that reads a resource."""

    def remove_resource(self, uri: str) -> None:
        """Remove a resource, template or directory."""

    def resource_updated(self, uri: str) -> None:
        """Notify the subscribers of a resource that it has changed."""

    def add_prompt(self, function: Function, **options: Unpack[PromptOptions]) -> None:
        """Register a function as a prompt."""

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt."""


def _limiter() -> trio.CapacityLimiter:
    return trio.CapacityLimiter(_THREADS)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class HandlerEnvironment(FieldRepr):
    """The settings and shared objects of one server, for its handlers."""

    server: HandlerServer
    """The server."""
    limits: Limits
    """Limits of what one client can make the server do."""
    guard: Guard
    """Access control of tools, resources and prompts."""
    input_policy: InputPolicy
    """Settings of multi round-trip requests."""
    keys: KeyRing
    """Seals request states and cursors."""
    budget: MemoryBudget
    """Memory of the HTTP clients of the server."""
    middleware: MiddlewareChain
    """Middleware for all messages."""
    life: LifespanRunner
    """The lifespan of the server."""
    redact: Callable[[JsonValue], JsonValue] | None
    """Removes from the data of a log message what the client must not see."""
    cache: CacheHint | None
    """Cache hint for the lists."""
    async_library: AsyncLibrary | None = None
    """The async library of the author's coroutine functions; `None` for that of the host."""
    converter: HookConverter | None = None
    """The hooks of the author for classes."""
    limiter: trio.CapacityLimiter = attrs.field(factory=_limiter, init=False)
    """Limit of worker threads."""
    overrides: dict[Function, Function] = attrs.field(factory=dict, init=False)
    """Replacements of the providers of parameters."""

    def hinted(self, result: C) -> C:
        """Return a list result with the cache hint of the server."""
        return hinted(result, self.cache, restricted=self.guard.restricts)
