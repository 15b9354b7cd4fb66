"""Limits for clients of a server in addition to those of `mcp_core.limits`, as middleware.

    server = Server("shop", version="1", middleware=[RateLimit(Rate(60)), TimeLimit(30), SizeLimit(output_bytes=100_000)])

A rejected request receives an error that names the limit and the setting. The connection stays open. The limits apply
to each principal. If clients are anonymous, as on stdio or in a server without authentication, all of them share one
limit. In a cluster, the rates hold for all workers together; the other limits hold for each worker.

For a call that becomes a task, the limits apply until the task has started. Tasks have their own limits:
`Limits.running_tasks`, the time to live of `TaskPolicy`, and the limits of the task store.

Spec: server/tools#security-considerations
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar, cast

import trio

from mcp_core.conversion.converter import converter
from mcp_core.errors import ErrorCode, RequestFailed
from mcp_core.json_text import write
from mcp_core.limits.rates import Rate
from mcp_core.middleware import Middleware
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.types import (
    CallToolRequestParams,
    CallToolResult,
    CreateExtensionTaskResult,
    CreateTaskResult,
    TextContent,
    WireObject,
)
from mcp_server.cluster.rates import SharedRates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.middleware import MiddlewareMessage, Proceed
    from mcp_core.trio.async_library import AsyncLibrary
    from mcp_server.cluster import RateStore

__all__ = ["ConcurrencyLimit", "Rate", "RateLimit", "SizeLimit", "TimeLimit"]

K = TypeVar("K")


class RateLimit(Middleware):
    """A limit of the rate of requests and of calls per tool, for each principal.

    A request above the limit receives an internal error. Its `data` contains `retryAfter`, the time until the next
    allowed attempt in seconds.

    Args:
        requests: Rate of all requests of one principal; `None` for no limit.
        tools: Rate of the calls of one tool by one principal, by tool name; `"*"` applies to each tool that is not
            named.
    """

    async_library: ClassVar[AsyncLibrary | None] = "trio"

    def __init__(self, requests: Rate | None = None, tools: Mapping[str, Rate] | None = None) -> None:
        self._requests: Final = None if requests is None else SharedRates(requests, "requests")
        self._tools: Final = {name: SharedRates(rate, f"tool {name}") for name, rate in (tools or {}).items()}
        self.store: RateStore | None = None
        """The rates of all workers. The server sets it if it has a cluster; `None`: each process has its own."""

    @allow_asyncio
    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        """Reject the request if it exceeds a rate."""
        if message.incoming:
            now = trio.current_time()
            tool = _tool(message)
            rates = None if tool is None else self._tools.get(tool if tool in self._tools else "*")
            if rates is not None:
                await self._take(rates, (message.principal, tool), now, f"calls of {tool}", "RateLimit.tools")
            if self._requests is not None:
                await self._take(self._requests, message.principal, now, "requests", "RateLimit.requests")
        return await proceed(message)

    async def _take(self, rates: SharedRates, key: object, now: float, what: str, setting: str) -> None:
        # A key is a principal, or one with a tool.
        wait = await rates.take(repr(key), now, self.store)
        if not wait:
            return
        raise RequestFailed(
            f"too many {what}: {rates.rate} are allowed; the setting is {setting}",
            code=ErrorCode.INTERNAL_ERROR,
            data={"retryAfter": math.ceil(wait)},
        )


class ConcurrencyLimit(Middleware):
    """A limit of the number of concurrent tool calls of one principal.

    A call above the limit receives an internal error.

    Args:
        calls: Maximum calls of all tools together; `None` for no limit except `Limits.running_requests`.
        tools: Maximum calls of one tool, by tool name.
    """

    async_library: ClassVar[AsyncLibrary | None] = "trio"

    def __init__(self, calls: int | None = None, tools: Mapping[str, int] | None = None) -> None:
        self._calls: Final = calls
        self._tools: Final = dict(tools or {})
        self._running: dict[tuple[str | None, str | None], int] = {}

    @allow_asyncio
    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        """Reject the call if too many calls are running."""
        tool = _tool(message) if message.incoming else None
        if tool is None:
            return await proceed(message)
        bounds = (
            ((message.principal, None), self._calls, "calls", "ConcurrencyLimit.calls"),
            ((message.principal, tool), self._tools.get(tool), f"calls of {tool}", "ConcurrencyLimit.tools"),
        )
        for key, allowed, what, setting in bounds:
            if allowed is not None and self._running.get(key, 0) >= allowed:
                raise RequestFailed(
                    f"too many {what} at the same time: {allowed} are allowed; the setting is {setting}",
                    code=ErrorCode.INTERNAL_ERROR,
                )
        held = [key for key, allowed, _, _ in bounds if allowed is not None]
        for key in held:
            self._running[key] = self._running.get(key, 0) + 1
        try:
            return await proceed(message)
        finally:
            for key in held:
                self._running[key] -= 1
                if not self._running[key]:
                    del self._running[key]


class TimeLimit(Middleware):
    """A limit of the duration of requests.

    A tool call that exceeds the limit ends with a result that has `isError`, which a model can read. Any other request
    ends with an internal error. A plain function in a worker thread cannot be interrupted: the server waits for it,
    unless the function calls `trio.from_thread.check_cancelled()` from time to time.

    Args:
        seconds: Maximum duration of each request except subscriptions, in seconds; `None` for no limit.
        tools: Maximum duration of the calls of one tool, in seconds, by tool name.

    Raises:
        ValueError: A time is not greater than 0.
    """

    async_library: ClassVar[AsyncLibrary | None] = "trio"

    def __init__(self, seconds: float | None = None, tools: Mapping[str, float] | None = None) -> None:
        self._seconds: Final = math.inf if seconds is None else seconds
        self._tools: Final = dict(tools or {})
        for limit in (self._seconds, *self._tools.values()):
            if not limit > 0:
                raise ValueError(f"a time limit must be a number of seconds greater than 0, not {limit!r}")

    @allow_asyncio
    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        """Cancel the request when it exceeds its time."""
        if not message.incoming or message.method == "subscriptions/listen":
            return await proceed(message)
        tool = _tool(message)
        seconds = self._seconds if tool is None else self._tools.get(tool, self._seconds)
        setting = "TimeLimit.tools" if tool in self._tools else "TimeLimit.seconds"
        with trio.move_on_after(seconds):
            return await proceed(message)
        message_text = f"the request took longer than {seconds:g} seconds; the setting is {setting}"
        if tool is not None:
            return _failed(f"The tool {tool} was stopped: {message_text}")
        raise RequestFailed(message_text, code=ErrorCode.INTERNAL_ERROR)


class SizeLimit(Middleware):
    """A limit of the size of the arguments and the results of tools, in bytes of JSON.

    A call with larger arguments receives an invalid params error. A larger result is replaced by a result that has
    `isError`, so that it does not fill the context of a model.

    Args:
        argument_bytes: Maximum size of the arguments of a call, in bytes; `None` for no limit except
            `Limits.message_bytes`.
        output_bytes: Maximum size of the result, in bytes; `None` for no limit.
    """

    async_library: ClassVar[AsyncLibrary | None] = "trio"

    def __init__(self, *, argument_bytes: int | None = None, output_bytes: int | None = None) -> None:
        self._arguments: Final = argument_bytes
        self._output: Final = output_bytes

    @allow_asyncio
    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        """Check the sizes of the arguments and of the result."""
        tool = _tool(message) if message.incoming else None
        if tool is None:
            return await proceed(message)
        if self._arguments is not None:
            size = _bytes(message.raw.get("arguments"))
            if size > self._arguments:
                raise RequestFailed(
                    f"the arguments of {tool} have {size} bytes; {self._arguments} are allowed;"
                    " the setting is SizeLimit.argument_bytes",
                    code=ErrorCode.INVALID_PARAMS,
                )
        result = await proceed(message)
        # The announcement of a task is not output.
        is_task = isinstance(result, CreateTaskResult | CreateExtensionTaskResult)
        if self._output is not None and message.revision is not None and not is_task:
            wire = converter(message.revision).unstructure(result) if isinstance(result, WireObject) else result
            size = _bytes(wire)
            if size > self._output:
                return _failed(
                    f"The result of {tool} has {size} bytes; {self._output} are allowed. Ask for less."
                    " The setting is SizeLimit.output_bytes."
                )
        return result


def _tool(message: MiddlewareMessage) -> str | None:
    """Return the name of the called tool; `None` for other methods."""
    return message.params.name if isinstance(message.params, CallToolRequestParams) else None


def _bytes(value: object) -> int:
    return len(write(cast("JsonValue", value)))  # a value that is not JSON could not be sent either


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=(TextContent(text=text),), is_error=True)
