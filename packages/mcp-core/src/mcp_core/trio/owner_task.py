"""An asynchronous context manager that runs in a task of its own, so that any task can enter and leave it, in any order.

trio requires that nurseries of one task are closed in the reverse order in which they were opened, by the task that opened
them. Applications break this rule without seeing a nursery: two connections in two `AsyncExitStack`s closed first in,
first out; a connection in an asynchronous generator that is not exhausted; a fixture of a test that is torn down by
another task. trio then reports an internal error. With an owner task, these applications work.

The task that enters or leaves can be an asyncio task, if an asyncio loop hosts trio.

The owner task is a system task of trio: it is not a child of the task that enters, which may end first. It ends when the
block is left, or when the trio run ends. Exceptions that end it are raised to the task that enters or leaves.
"""

from __future__ import annotations

import contextvars
import signal
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

import trio

from mcp_core.errors import WrongAsyncLibrary
from mcp_core.trio.async_library import allow_asyncio

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import NoReturn

__all__ = ["AsyncOnly", "OwnerTask", "enterable_from_asyncio"]

T = TypeVar("T")


def enterable_from_asyncio(
    block: Callable[[], AbstractAsyncContextManager[T]], name: str
) -> AbstractAsyncContextManager[T]:
    """Return a context manager for trio that also an asyncio task can enter. Outside of trio, an owner task runs it.

    Args:
        block: Returns the context manager.
        name: The name of the owner task.
    """
    return block() if trio.lowlevel.in_trio_task() else OwnerTask(block, name)


class AsyncOnly:
    """An asynchronous context manager that explains how to enter it to those who write `with` without `async`."""

    if not TYPE_CHECKING:  # type checkers report `with` without `async`

        def __enter__(self) -> NoReturn:
            raise TypeError(
                "this context manager is asynchronous: write 'async with' in a coroutine function, or use"
                " mcp_client.blocking for clients in code without an event loop"
            )

        def __exit__(self, *_: object) -> None:
            # Python looks it up before it calls `__enter__`.
            raise AssertionError("the block was not entered")


class OwnerTask(AsyncOnly, AbstractAsyncContextManager[T], Generic[T]):
    """A context manager that runs another one in an owner task.

    It can be entered once. Leaving it again has no effect.

    Args:
        block: Returns the context manager to run. Exceptions of the block of the caller are not passed to it.
        name: The name of the task, for tracebacks and debuggers.

    Raises:
        RuntimeError: On entering: it was entered before.
        WrongAsyncLibrary: On leaving: another event loop runs it.
        Exception: On entering: the exceptions of entering the other context manager.
    """

    def __init__(self, block: Callable[[], AbstractAsyncContextManager[T]], name: str) -> None:
        self._block: Final = block
        self._name: Final = name
        self._scope: Final = trio.CancelScope()
        self._entered: Final = trio.Event()
        self._leave: Final = trio.Event()
        self._ended: Final = trio.Event()
        self._values: list[T] = []
        self._is_used = False
        self._token: trio.lowlevel.TrioToken | None = None
        self._error: BaseException | None = None

    @allow_asyncio
    async def __aenter__(self) -> T:
        if self._is_used:
            raise RuntimeError(f"{self._name}: this context manager was entered before; make a new one")
        self._is_used = True
        self._token = trio.lowlevel.current_trio_token()
        # The tasks of the block inherit the context variables of the caller, as those of a nursery do.
        trio.lowlevel.spawn_system_task(self._run, name=self._name, context=contextvars.copy_context())
        try:
            await self._entered.wait()
        except BaseException:
            self._scope.cancel()
            with trio.CancelScope(shield=True):
                await self._ended.wait()
            raise
        if not self._values:
            # Without a value, entering has failed.
            raise self._take_error()
        return self._values[0]

    @allow_asyncio
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not trio.lowlevel.current_trio_token() and not self._ended.is_set():
            raise WrongAsyncLibrary(f"{self._name}: the block was entered in another event loop; leave it there")
        self._leave.set()
        with trio.CancelScope(shield=True):
            await self._ended.wait()
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._error is None:
            return
        if error is None:
            raise self._take_error()
        error.add_note(f"{self._name} failed too: {self._take_error()!r}")

    def _take_error(self) -> BaseException:
        # Not kept: an exception that is stored where its traceback leads is a reference cycle.
        error, self._error = cast("BaseException", self._error), None
        return error

    async def _run(self) -> None:
        try:
            with self._scope:
                async with self._block() as value:
                    self._values.append(value)
                    self._entered.set()
                    await self._leave.wait()
        except trio.Cancelled:
            # The run has ended, and the block with it.
            raise
        except KeyboardInterrupt:
            # It belongs to the main task. trio passes it on, because this task is protected from it.
            signal.raise_signal(signal.SIGINT)
        except BaseException as error:  # noqa: BLE001  raised to the task that enters or leaves
            self._error = error
        finally:
            self._entered.set()
            self._ended.set()
