"""Providers of parameters. Their own parameters are read at registration; they are called when the function runs."""

from __future__ import annotations

import inspect
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, cast

from mcp_server.errors import RegistrationError
from mcp_server.handlers.context import Context
from mcp_server.handlers.sync_context import SyncContext
from mcp_server.schema.depends import Depends
from mcp_server.schema.signature import label, read_signature

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping
    from contextlib import AsyncExitStack

    from mcp_core.schema.annotations import Function

__all__ = ["INJECTED", "Dependencies", "Provider"]

INJECTED: Final = (Context, SyncContext)
"""The classes of parameters that the server provides."""


class Dependencies:
    """The injected parameters of a function.

    Args:
        injected: The injected parameters and their sources, as `read_signature` returns them.
        above: The chain of providers that leads to this function, to detect a circular dependency.
    """

    __slots__ = ("contexts", "providers", "sync_contexts")

    def __init__(self, injected: Mapping[str, type | Depends], above: tuple[Function, ...] = ()) -> None:
        self.contexts: Final = tuple(name for name, what in injected.items() if what is Context)
        """Names of the parameters that receive the context."""
        self.sync_contexts: Final = tuple(name for name, what in injected.items() if what is SyncContext)
        """Names of the parameters that receive the context of a plain function."""
        self.providers: Final = {
            name: Provider(what.provider, above) for name, what in injected.items() if isinstance(what, Depends)
        }
        """Providers of the other parameters, by parameter name."""


class Provider:
    """A function that provides a value.

    Args:
        function: The function.
        above: The chain of providers that depend on it.

    Raises:
        RegistrationError: The function has a required argument that is not injected, or depends on itself.
    """

    __slots__ = ("_dependencies", "_enter", "function")

    def __init__(self, function: Function, above: tuple[Function, ...] = ()) -> None:
        if function in above:
            names = " needs ".join(label(each) for each in (*above[above.index(function) :], function))
            raise RegistrationError(f"circular dependency: {names}")
        signature = read_signature(function, INJECTED)
        if SyncContext in signature.injected.values():
            raise RegistrationError(
                f"{label(function)} is a provider, which runs in the event loop; it takes a Context"
            )
        needed = [member.name for member in signature.members if member.required]
        if needed:
            raise RegistrationError(
                f"{label(function)} provides a value, but takes {', '.join(needed)}; it may take a Context,"
                " parameters annotated with Depends, and parameters with a default"
            )
        self.function: Final = function
        """The function as registered."""
        self._dependencies: Final = Dependencies(signature.injected, (*above, function))
        self._enter: Final = _entering(function)

    async def value(
        self,
        context: Context,
        stack: AsyncExitStack,
        made: dict[Function, object],
        overrides: Mapping[Function, Function],
    ) -> object:
        """Return the provided value. Call the provider once for each call of the handler.

        Args:
            context: The context of the call.
            stack: Runs the cleanup after the call.
            made: The values that this call already has, by provider.
            overrides: Replacements of providers.
        """
        if self.function in made:
            return made[self.function]
        replacement = overrides.get(self.function)
        chosen = self if replacement is None else Provider(replacement)
        arguments: dict[str, object] = dict.fromkeys(chosen._dependencies.contexts, context)  # noqa: SLF001  # the same class
        for name, provider in chosen._dependencies.providers.items():  # noqa: SLF001  # likewise
            arguments[name] = await provider.value(context, stack, made, overrides)
        given = chosen._enter(**arguments)  # noqa: SLF001  # likewise
        if isinstance(given, _EnteredContext):
            value = await given.enter(stack)
        elif inspect.isawaitable(given):
            value = await cast("Awaitable[object]", given)
        else:
            value = given
        made[self.function] = value
        return value


class _EnteredContext:
    """The context manager of a generator function. A context manager that a plain provider returns is not entered."""

    def __init__(self, manager: object) -> None:
        self._manager: Final = manager

    async def enter(self, stack: AsyncExitStack) -> object:
        if isinstance(self._manager, AbstractAsyncContextManager):
            return await stack.enter_async_context(self._manager)
        return stack.enter_context(cast("AbstractContextManager[object]", self._manager))


def _entering(function: Function) -> Function:
    """Return the function, or a wrapper of a generator function that enters its value. It can be decorated already."""
    inner = inspect.unwrap(function)
    if inspect.isasyncgenfunction(inner):
        manager: Function = asynccontextmanager(function) if function is inner else function
    elif inspect.isgeneratorfunction(inner):
        manager = contextmanager(function) if function is inner else function
    else:
        return function
    return lambda **arguments: _EnteredContext(manager(**arguments))
