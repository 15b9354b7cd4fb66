"""Calls the functions that a server's author registers: coroutines in their task, others in a worker thread."""

from __future__ import annotations

import functools
import inspect
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

import trio

from mcp_core.errors import ErrorCode, McpError, RequestFailed
from mcp_core.types import CacheableResult
from mcp_server.errors import RegistrationError
from mcp_server.features.listing import Shelf
from mcp_server.handlers.dependencies import Wanted
from mcp_server.handlers.input_required import InputRequired
from mcp_server.schema.signature import label

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from mcp_server.connection.channel import Call
    from mcp_server.features.tasks.methods import Tasks
    from mcp_server.handlers.context import Context
    from mcp_server.handlers.dependencies import Provider
    from mcp_server.options import Options
    from mcp_server.schema.annotations import Function
    from mcp_server.schema.depends import Depends

__all__ = ["Host", "Runner", "described", "is_async", "named", "new_limiter"]

_ROUNDS: Final = 16
"""How often a function may return questions in one session. On 2026-07-28 `InputPolicy.rounds` bounds it."""

_THREADS: Final = 40
"""How many worker threads one server uses at once: trio's own default."""


C = TypeVar("C", bound=CacheableResult)


class Host(Shelf, Protocol):
    """What a registered function needs of the server."""

    limiter: trio.CapacityLimiter
    """Bounds the worker threads."""
    overrides: dict[Function, Provider]
    """What stands in for providers of parameters."""
    tasks: Tasks | None
    """The tasks, once there is a tool that may run as one."""

    def offer_tasks(self) -> None:
        """There is a tool that may run as a task."""

    def hinted(self, result: C) -> C:
        """A list, with how long it may be used again."""

    def context(self, call: Call) -> Context:
        """The context of a call. Raises `RequestFailed` when it comes with a state that is not valid."""


def new_limiter() -> trio.CapacityLimiter:
    """The bound on worker threads of one server."""
    return trio.CapacityLimiter(_THREADS)


def is_async(function: Function) -> bool:
    """Whether calling `function` gives something to be awaited."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def named(function: Function, options: Options) -> str:
    """The name of what is registered: as given, or that of the function."""
    given = options.get("name")
    return given if given is not None else str(getattr(function, "__name__", ""))


def described(docstring: str | None, options: Options) -> str | None:
    """The description of what is registered: as given, or that of the docstring."""
    given = options.get("description")
    return given if given is not None else docstring


class Runner:
    """A registered function, ready to be called from a task.

    Args:
        function: A coroutine function, or a plain one.
        injected: The parameters that are no arguments, with what they get.
        thread: Whether to call a plain one in a worker thread; `None`: yes.
        host: The server.

    Raises:
        RegistrationError: A coroutine function shall run in a thread, or it is a generator.
    """

    def __init__(
        self, function: Function, injected: Mapping[str, type | Depends], *, thread: bool | None, host: Host
    ) -> None:
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise RegistrationError(f"{label(function)} is a generator; return a list instead")
        if is_async(function):
            if thread:
                raise RegistrationError(f"{label(function)} is a coroutine function; only plain ones run in a thread")
            self._run: Function = function
        else:
            self._run = self._inline if thread is False else self._in_thread
        self._function: Final = function
        self._wanted: Final = Wanted(injected)
        self._host: Final = host

    async def __call__(self, call: Call, arguments: dict[str, object]) -> object:
        """Calls the function.

        Args:
            call: On whose behalf.
            arguments: The keyword arguments; the context is added to them.

        Returns:
            What it returns. An exception group with nothing but one `McpError` in it is raised as that error.
        """
        context = None
        wanted = self._wanted
        if wanted or "requestState" in call.request.raw:
            context = self._host.context(call)
            arguments.update(dict.fromkeys(wanted.contexts, context))
        try:
            value = await self._once(context, arguments)
            for _ in range(_ROUNDS):
                if not isinstance(value, InputRequired):
                    return value
                if context is None:
                    context = self._host.context(call)
                await context._require(value)  # noqa: SLF001  # not for the users of a context
                value = await self._once(context, arguments)
            raise RequestFailed("the handler asked too often", code=ErrorCode.INTERNAL_ERROR)
        except BaseExceptionGroup as group:
            error = _lone_error(group)
            if error is None:
                raise
            raise error from group
        finally:
            if context is not None:
                context._end()  # noqa: SLF001  # not for the users of a context

    async def _once(self, context: Context | None, arguments: dict[str, object]) -> object:
        if context is not None and self._wanted.providers:
            return await self._provided(context, dict(arguments))
        # What `is_async` took for a coroutine function gives something to be awaited, and so do the methods.
        return await cast("Awaitable[object]", self._run(**arguments))

    async def _provided(self, context: Context, arguments: dict[str, object]) -> object:
        """Calls the function with what others provide, which is cleaned up afterwards."""
        made: dict[Function, object] = {}
        async with AsyncExitStack() as stack:
            for name, provider in self._wanted.providers.items():
                arguments[name] = await provider.value(context, stack, made, self._host.overrides)
            return await cast("Awaitable[object]", self._run(**arguments))

    async def _inline(self, **arguments: object) -> object:
        return self._function(**arguments)

    async def _in_thread(self, **arguments: object) -> object:
        # Not abandoned on cancellation: the thread would go on unbounded, and `trio.from_thread.check_cancelled` tells
        # the function that nobody waits any more.
        return await trio.to_thread.run_sync(
            functools.partial(_unless_cancelled, self._function, arguments),
            abandon_on_cancel=False,
            limiter=self._host.limiter,
        )


def _unless_cancelled(function: Function, arguments: dict[str, object]) -> object:
    """Call a function in its worker thread, unless the request was cancelled while the thread was being started."""
    trio.from_thread.check_cancelled()
    return function(**arguments)


def _lone_error(group: BaseExceptionGroup[BaseException]) -> McpError | None:
    """The error in a group that holds nothing else, and was meant for the client."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    return found if isinstance(found, McpError) else None
