"""The async library that a coroutine function is written for: trio or asyncio.

The library runs on trio. If an asyncio loop hosts that trio, functions of the application run on asyncio, and the
application awaits the library's coroutine methods from asyncio.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import cache, partial, wraps
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar, cast, overload

import sniffio
import trio

from mcp_core.errors import WrongAsyncLibrary
from mcp_core.trio.host_loop import host_of_trio

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from types import CoroutineType

    from mcp_core.trio.guest import TrioGuest
    from mcp_core.trio.host_loop import HostLoop

__all__ = [
    "AsyncLibrary",
    "allow_asyncio",
    "asyncio_host",
    "call_in",
    "caller_library",
    "check_asyncio",
    "enter_in",
    "is_coroutine_function",
    "library_of",
]

AsyncLibrary: TypeAlias = Literal["asyncio", "trio"]
"""The async library of a coroutine function."""

CoroutineFunction: TypeAlias = Callable[..., Awaitable[object]]  # type: ignore[explicit-any]  # any parameters
"""A coroutine function."""

_caller: Final[ContextVar[AsyncLibrary]] = ContextVar("async library of the caller", default="trio")
"""Set in the trio tasks that asyncio started, and so in the tasks that they start."""

_NO_ASYNCIO: Final = (
    "no running event loop",
    "Timeout should be used inside a task",
    "trio.run received unrecognized yield message",
)
"""How the texts of exceptions begin that use of asyncio on trio causes."""

_NO_TRIO: Final = (
    "must be called from async context",
    "Task got bad yield",
    "'RunContext' object has no attribute",
)
"""How the texts of exceptions begin that use of trio on asyncio causes."""

_NOTES: Final[Mapping[AsyncLibrary, str]] = {
    "trio": (
        "This function ran on trio, but it uses asyncio. Run the application on asyncio (asyncio.run, uvicorn,"
        " mcp_client.asyncio), or call the library for asyncio in a worker thread: see 'Use asyncio' (howto/asyncio) in the"
        " documentation."
    ),
    "asyncio": (
        "This function ran on asyncio, but it uses trio. Declare it with async_library='trio', or use asyncio in it: see"
        " 'Use asyncio' (howto/asyncio) in the documentation."
    ),
}
"""The notes for such exceptions, by the library on which the function ran."""

_OPERATORS: Final[Mapping[str, str]] = {"__aenter__": "async with", "__aexit__": "async with", "__anext__": "async for"}
"""The syntax that calls a method."""

_CAUSES: Final = 10
"""How many exceptions of a chain of causes are examined."""

F = TypeVar("F", bound=CoroutineFunction)
T = TypeVar("T")


def is_coroutine_function(function: object) -> bool:
    """Return whether a call of a function, or of an object that is called as one, returns a coroutine."""
    while isinstance(function, partial):
        function = function.func
    method = getattr(type(function), "__call__", None)  # noqa: B004  it does not ask whether the object is callable
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(method)


def caller_library() -> AsyncLibrary:
    """Return the async library of the application that called a function of the library, such as `open_http`.

    Functions of the application that the call leads to, for example handlers, are written for the same library.
    """
    return _caller.get()


def library_of(written: object) -> AsyncLibrary:
    """Return the async library that an object of the application is written for.

    Args:
        written: The object. Its attribute `async_library` names the library; without it, the library is that of the caller.
    """
    library: AsyncLibrary | None = getattr(written, "async_library", None)
    return library or caller_library()


def asyncio_host(library: AsyncLibrary | None) -> HostLoop | None:
    """Return the asyncio loop on which functions of the application run; `None` if they run on trio.

    Args:
        library: The library of the functions; `None` for that of the host.

    Raises:
        WrongAsyncLibrary: The library is asyncio, but trio runs without it.
    """
    host = None if library == "trio" else host_of_trio()
    if host is None and library == "asyncio":
        raise WrongAsyncLibrary(
            "async_library is 'asyncio', but trio runs without asyncio: run the application with asyncio.run, or serve it by"
            " an ASGI host that runs on asyncio; or write its coroutine functions for trio"
        )
    return host


def call_in(library: AsyncLibrary | None, function: Callable[[], Awaitable[T]]) -> Awaitable[T]:
    """Call a coroutine function of the application from a trio task, on the loop that it is written for.

    Args:
        library: The library of the function; `None` for that of the host.
        function: The function.

    Returns:
        An awaitable of its result, for trio.

    Raises:
        WrongAsyncLibrary: The library is asyncio, but trio runs without it.
    """
    host = asyncio_host(library)
    return _on_trio(function) if host is None else _on_asyncio(host, function)


@overload
def enter_in(
    library: AsyncLibrary | None, make: Callable[[], AbstractAsyncContextManager[T]]
) -> AbstractAsyncContextManager[T]: ...
@overload
def enter_in(
    library: AsyncLibrary | None, make: Callable[[], AbstractAsyncContextManager[T]] | None
) -> AbstractAsyncContextManager[T | None]: ...
def enter_in(
    library: AsyncLibrary | None, make: Callable[[], AbstractAsyncContextManager[T]] | None
) -> AbstractAsyncContextManager[T | None]:
    """Return a context manager for trio that enters a context manager of the application.

    Args:
        library: The library of the context manager; `None` for that of the host.
        make: Returns the context manager; `None` to enter nothing.

    Raises:
        WrongAsyncLibrary: The library is asyncio, but trio runs without it.
    """
    host = asyncio_host(library)
    if make is None:
        return nullcontext()
    return _enter_on_trio(make) if host is None else host.enter_asyncio(make)


def allow_asyncio(function: F) -> F:
    """Decorate a coroutine function for trio, so that an asyncio task can await it too.

    Called from asyncio, it runs in a trio task with the context variables of the caller. Cancellation and exceptions
    pass through.
    """

    @wraps(function)
    def call(*arguments: object, **options: object) -> Awaitable[object]:
        # A faster check than `in_trio_task`, which `_run` makes too.
        if sniffio.thread_local.name == "trio":
            return function(*arguments, **options)
        # An `async def` returns a `CoroutineType`, which has names.
        coroutine = cast(
            "CoroutineType[object, object, object]",
            _run(partial(function, *arguments, **options), function.__qualname__),
        )
        # Python names it in its warning if it is not awaited, trio in its error if it is passed to `trio.run`.
        coroutine.__name__, coroutine.__qualname__ = function.__name__, function.__qualname__
        return coroutine

    if sys.version_info >= (3, 12):
        inspect.markcoroutinefunction(call)
    return cast("F", call)  # it has the same parameters, and returns a coroutine with the same result


def check_asyncio(name: str) -> None:
    """Check that an asyncio loop runs in this thread.

    Args:
        name: The qualified name of the function that needs it.

    Raises:
        WrongAsyncLibrary: No loop runs.
    """
    import asyncio  # lazy: it is slow to import

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise WrongAsyncLibrary(_without_loop(name)) from None


def _without_loop(qualname: str) -> str:
    """Return the message for a function that was called without an event loop."""
    owner, _, name = qualname.rpartition(".")
    what = f"'{_OPERATORS[name]}'" if name in _OPERATORS else qualname
    if name.startswith("serve_"):
        remedy = f"write asyncio.run({name}(server)) or trio.run({name}, server)"
    elif name == "__call__":
        what, remedy = owner, "a host of ASGI applications, such as uvicorn or hypercorn, calls it"
    else:
        remedy = (
            "use it in a coroutine function that asyncio.run or trio.run runs; code without an event loop uses"
            " mcp_client.blocking"
        )
    return f"{what} needs an event loop, but neither asyncio nor trio runs in this thread: {remedy}"


async def _on_trio(function: Callable[[], Awaitable[T]]) -> T:
    """Call a function for trio, also within a call from asyncio."""
    token = None if _caller.get() == "trio" else _caller.set("trio")
    try:
        return await function()
    except Exception as error:
        _explain(error, _NO_ASYNCIO, "trio")
        raise
    finally:
        if token is not None:
            _caller.reset(token)


@asynccontextmanager
async def _enter_on_trio(make: Callable[[], AbstractAsyncContextManager[T]]) -> AsyncIterator[T]:
    try:
        async with make() as value:
            yield value
    except Exception as error:
        _explain(error, _NO_ASYNCIO, "trio")
        raise


async def _on_asyncio(host: HostLoop, function: Callable[[], Awaitable[T]]) -> T:
    try:
        return await host.run_asyncio(function)
    except Exception as error:
        _explain(error, _NO_TRIO, "asyncio")
        raise


def _explain(error: BaseException, beginnings: tuple[str, ...], library: AsyncLibrary) -> None:
    """Add a note to an exception that a function caused by the use of the other library.

    Args:
        error: The exception, perhaps raised from that one.
        beginnings: How the texts of such exceptions begin.
        library: The library on which the function ran.
    """
    each: BaseException | None = error
    for _ in range(_CAUSES):
        if each is None:
            return
        if isinstance(each, RuntimeError | TypeError | AttributeError) and str(each).startswith(beginnings):
            note = _NOTES[library]
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)
            return
        each = each.__cause__ or each.__context__


async def _run(call: Callable[[], Awaitable[T]], name: str) -> T:
    # The loop is looked up here: `asyncio.run(serve_stdio(server))` calls the function before the loop runs.
    if trio.lowlevel.in_trio_task():
        return await call()
    try:
        guest = _current_guest()()
    except RuntimeError:
        check_asyncio(name)
        raise
    context = copy_context()
    context.run(_caller.set, "asyncio")
    return await guest.run(call, context)


@cache
def _current_guest() -> Callable[[], TrioGuest]:
    """Return the function `current_guest`. An import for each call would be a tenth of its cost."""
    from mcp_core.trio.guest import current_guest  # lazy: asyncio is slow to import

    return current_guest
