"""Calls of registered functions: coroutine functions in the event loop, others in a worker thread."""

from __future__ import annotations

import inspect
from contextlib import AsyncExitStack
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Final, cast

import trio

from mcp_core.errors import ErrorCode, McpError, RequestFailed
from mcp_core.trio.async_library import allow_asyncio, call_in, is_coroutine_function
from mcp_server.errors import InvalidResult, RegistrationError
from mcp_server.handlers.context import Context, context_of
from mcp_server.handlers.dependencies import Dependencies
from mcp_server.handlers.input_required import InputRequired
from mcp_server.handlers.step_timer import StepTimer
from mcp_server.handlers.sync_context import SyncContext
from mcp_server.schema.signature import label

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp_core.schema.annotations import Function
    from mcp_core.trio.async_library import AsyncLibrary
    from mcp_server.connection.channel import RequestContext
    from mcp_server.handlers.environment import HandlerEnvironment
    from mcp_server.options import Options
    from mcp_server.schema.depends import Depends

__all__ = ["Runner", "described", "named"]

_MAX_ROUND_TRIPS: Final = 16
"""How many times a function can return `InputRequired` in one legacy request. On 2026-07-28: `InputPolicy.round_trips`."""


def named(function: Function, options: Options) -> str:
    """Return the name to register: the given name, or that of the function."""
    given = options.get("name")
    return given if given is not None else str(getattr(function, "__name__", ""))


def described(docstring: str | None, options: Options) -> str | None:
    """Return the description to register: the given text, or the docstring."""
    given = options.get("description")
    return given if given is not None else docstring


class Runner:
    """A registered function that can be called from a trio task.

    Args:
        function: A coroutine function, or a plain function.
        injected: The injected parameters and their sources.
        thread: Whether a plain function runs in a worker thread. `None` means yes.
        async_library: The library of the coroutine functions: this one and its providers. `None` for that of the
            server.
        environment: The environment of the handlers of the server.

    Raises:
        RegistrationError: `thread` is set for a coroutine function, the function is a generator, or it takes the context
            of another kind of function.
    """

    def __init__(
        self,
        function: Function,
        injected: Mapping[str, type | Depends],
        *,
        thread: bool | None,
        async_library: AsyncLibrary | None,
        environment: HandlerEnvironment,
    ) -> None:
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise RegistrationError(f"{label(function)} is a generator; return a list instead")
        _check_context(function, injected, in_thread=not is_coroutine_function(function) and thread is not False)
        if is_coroutine_function(function):
            if thread:
                raise RegistrationError(f"{label(function)} is a coroutine function; only plain ones run in a thread")
            self._direct: Function = function
            self._run: Function = self._on_library
            remedy = "register a plain `def`, which runs in a thread"
        else:
            self._direct = self._run = self._inline if thread is False else self._in_thread
            remedy = "register it without thread=False"
        self._timer: Final = StepTimer(function, remedy)
        self._function: Final = function
        self._library: Final = async_library or environment.async_library
        self._dependencies: Final = Dependencies(injected)
        self._environment: Final = environment

    async def __call__(self, call: RequestContext, arguments: dict[str, object]) -> object:
        """Call the function.

        Args:
            call: The request that the function runs for.
            arguments: The keyword arguments, to which the injected parameters are added.

        Returns:
            The return value.

        Raises:
            McpError: The error of the function. A group that contains only one `McpError` is raised as that error.
            RequestFailed: The `requestState` is invalid, or the function returned `InputRequired` too often.
            InvalidResult: The function returned a coroutine.
        """
        context = None
        wanted = self._dependencies
        if wanted.contexts or wanted.sync_contexts or wanted.providers or "requestState" in call.request.raw:
            context = context_of(call, self._environment)
            arguments.update(dict.fromkeys(wanted.contexts, context))
            for name in wanted.sync_contexts:
                arguments[name] = SyncContext(context)
        try:
            # Without a context there are no providers. `_run` is one of the three methods.
            value = await (self._run(**arguments) if context is None else self._once(context, arguments))  # type: ignore[misc]
            for _ in range(_MAX_ROUND_TRIPS):
                if not isinstance(value, InputRequired):
                    return _without_coroutine(self._function, value)
                if context is None:
                    context = context_of(call, self._environment)
                await context._require(value)  # noqa: SLF001  # not part of the public API
                value = await self._once(context, arguments)
            raise RequestFailed("the handler returned InputRequired too often", code=ErrorCode.INTERNAL_ERROR)
        except BaseExceptionGroup as group:
            error = _lone_error(group)
            if error is None:
                raise
            raise error from group
        finally:
            if context is not None:
                context._end()  # noqa: SLF001  # not part of the public API

    async def _once(self, context: Context, arguments: dict[str, object]) -> object:
        if self._dependencies.providers:
            # One task runs the providers before and after the function, and the function itself.
            provided = partial(self._provided, context, dict(arguments))
            return await call_in(self._library, lambda: self._timer.timed(provided()))
        return await self._run(**arguments)  # type: ignore[misc]

    async def _provided(self, context: Context, arguments: dict[str, object]) -> object:
        """Call the function with the values of its providers. Clean up the providers after the call."""
        made: dict[Function, object] = {}
        async with AsyncExitStack() as stack:
            for name, provider in self._dependencies.providers.items():
                arguments[name] = await provider.value(context, stack, made, self._environment.overrides)
            return await cast("Awaitable[object]", self._direct(**arguments))

    def _on_library(self, **arguments: object) -> Awaitable[object]:
        function = partial(cast("Callable[[], Awaitable[object]]", self._function), **arguments)
        return call_in(self._library, lambda: self._timer.timed(function()))

    def _inline(self, **arguments: object) -> Awaitable[object]:
        return self._timer.timed(self._called(arguments))

    async def _called(self, arguments: dict[str, object]) -> object:
        return self._function(**arguments)

    @allow_asyncio
    async def _in_thread(self, **arguments: object) -> object:
        # Not abandoned on cancellation, because abandoned threads are not bounded. The function can detect the
        # cancellation with `trio.from_thread.check_cancelled`.
        return await trio.to_thread.run_sync(
            partial(_unless_cancelled, self._function, arguments),
            abandon_on_cancel=False,
            limiter=self._environment.limiter,
        )


def _check_context(function: Function, injected: Mapping[str, type | Depends], *, in_thread: bool) -> None:
    """Raise `RegistrationError` if the function takes a context whose methods it cannot call."""
    for name, kind in injected.items():
        if kind is Context and in_thread:
            raise RegistrationError(
                f"{label(function)}, parameter {name!r}: it is a plain function, which cannot await the methods of a"
                f" Context; write '{name}: SyncContext', or 'async def'"
            )
        if kind is SyncContext and not in_thread:
            raise RegistrationError(
                f"{label(function)}, parameter {name!r}: its methods would block the event loop; write '{name}: Context',"
                " or a plain function without thread=False"
            )


def _unless_cancelled(function: Function, arguments: dict[str, object]) -> object:
    """Call a function in its worker thread, unless the request was cancelled while the thread was being started."""
    trio.from_thread.check_cancelled()
    # trio would raise a `TypeError` that does not name the function.
    return _without_coroutine(function, function(**arguments))


def _without_coroutine(function: Function, value: object) -> object:
    """Return the value that a function returned. Raise `InvalidResult` if it is a coroutine."""
    if not isinstance(value, CoroutineType):
        return value
    # Otherwise, Python warns later, at a place that has nothing to do with the function.
    value.close()
    remedy = f"'return await {value.__qualname__}(...)'"
    if not is_coroutine_function(function):
        remedy = f"'async def' instead of 'def', and {remedy}"
    raise InvalidResult(
        f"{label(function)} returned a coroutine of {value.__qualname__}, which was never awaited; write {remedy}"
    )


def _lone_error(group: BaseExceptionGroup[BaseException]) -> McpError | None:
    """Return the only error in a group, if it is an `McpError`; otherwise `None`."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    return found if isinstance(found, McpError) else None
