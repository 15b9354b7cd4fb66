"""Blocking classes, derived from those for trio: their methods call the methods for trio in the background thread."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Concatenate, Final, Generic, ParamSpec, TypeVar

from mcp_client.blocking.thread import current_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType
    from typing import NoReturn

    from mcp_client.blocking.thread import TrioThread

__all__ = ["BlockingContextManager", "Proxy", "blocking", "blocking_proxy", "describe", "described_as"]

_BLOCKING_TERMS: Final = (
    ("async with", "with"),
    ("async for", "for"),
    ("await ", ""),
    ("An asynchronous", "A"),
    ("an asynchronous", "a"),
    ("Any task or thread", "Any thread"),
    ("Any task", "Any thread"),
    ("Cancelling the caller", "Interrupting the caller"),
    ("The task of the caller", "The thread of the caller"),
    ("`aclose`", "`close`"),
)
"""How the docstring of a method for trio reads for the blocking method."""

Trio = TypeVar("Trio")
P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")
B = TypeVar("B")


class Proxy(Generic[Trio]):
    """A blocking object, which calls the methods of an object for trio.

    Args:
        target: The object for trio.
        thread: The thread that runs it.
    """

    def __init__(self, target: Trio, thread: TrioThread) -> None:
        self._target: Final = target
        self._thread: Final = thread


def blocking(method: Callable[Concatenate[Trio, P], Awaitable[T]]) -> Callable[Concatenate[Proxy[Trio], P], T]:
    """Return the blocking method of a coroutine method for trio."""

    def call(self: Proxy[Trio], /, *arguments: P.args, **options: P.kwargs) -> T:
        return self._thread.call(method, self._target, *arguments, **options)

    describe(call, method)
    return call


def blocking_proxy(
    make: Callable[[T, TrioThread], B], method: Callable[Concatenate[Trio, P], Awaitable[T]]
) -> Callable[Concatenate[Proxy[Trio], P], B]:
    """Return the blocking method of a coroutine method for trio, whose result is an object for trio.

    Args:
        make: Returns the blocking object of that result.
        method: The method for trio.
    """

    def call(self: Proxy[Trio], /, *arguments: P.args, **options: P.kwargs) -> B:
        thread = self._thread
        return make(thread.call(method, self._target, *arguments, **options), thread)

    describe(call, method)
    return call


def described_as(function: object) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a blocking function that is written out, with the docstring of the function or property for trio."""

    def decorate(blocking: Callable[P, T]) -> Callable[P, T]:
        blocking.__doc__ = _blocking_doc(function)
        return blocking

    return decorate


def describe(blocking: Callable[P, object], function: Callable[Q, object]) -> None:
    """Give a blocking function the name, the signature and the docstring of the function for trio."""
    # Not with `functools.wraps`: tools would take the function that it wraps for a coroutine function.
    blocking.__name__ = function.__name__
    blocking.__qualname__ = function.__qualname__
    blocking.__doc__ = _blocking_doc(function)
    blocking.__annotations__ = dict(function.__annotations__)
    blocking.__dict__["__signature__"] = inspect.signature(function)


def _blocking_doc(function: object) -> str | None:
    text = function.__doc__
    if text is None:
        return None
    for term, replacement in _BLOCKING_TERMS:
        text = text.replace(term, replacement)
    return text


class BlockingContextManager(AbstractContextManager[B], Generic[T, B]):
    """A context manager that enters and leaves one for trio.

    Args:
        block: The context manager for trio.
        make: Returns the blocking object of its value.
    """

    def __init__(self, block: AbstractAsyncContextManager[T], make: Callable[[T, TrioThread], B]) -> None:
        self._block: Final = block
        self._make: Final = make
        self._thread: TrioThread | None = None

    def __enter__(self) -> B:
        self._thread = thread = current_thread()
        return self._make(thread.enter(self._block), thread)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The end of the thread has closed the connection. A forked process leaves a block that is still open in its parent.
        if self._thread is not None and not self._thread.is_over:
            self._thread.call(self._block.__aexit__, kind, error, traceback)

    if not TYPE_CHECKING:  # type checkers report `async with`

        async def __aenter__(self) -> NoReturn:
            raise TypeError(
                "this context manager blocks: write 'with', or use mcp_client.asyncio or mcp_client, whose connections are"
                " entered with 'async with'"
            )

        async def __aexit__(self, *_: object) -> None:
            # Python looks it up before it calls `__aenter__`.
            raise AssertionError("the block was not entered")
