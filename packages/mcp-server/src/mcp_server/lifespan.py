"""The lifespan of a server, from the first task that serves it to the last.

The context manager of the server's author runs around it. Background tasks have a nursery in it.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from mcp_core.errors import LocalProtocolError
from mcp_core.trio.async_library import enter_in
from mcp_core.trio.nursery import open_private_nursery
from mcp_server.errors import NotRunning

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from mcp_core.trio.async_library import AsyncLibrary
    from mcp_core.types import Implementation

__all__ = ["LifespanRunner"]

S = TypeVar("S")


class LifespanRunner:
    """The lifespan of one server.

    Args:
        info: Name and version of the server, for error messages.
        lifespan: Function that returns the context manager of the author; `None` if the author passed no function.
        library: The async library of the author's coroutine functions; `None` for that of the host.
    """

    def __init__(
        self,
        info: Implementation,
        lifespan: Callable[[], AbstractAsyncContextManager[object]] | None,
        library: AsyncLibrary | None,
    ) -> None:
        self._library: Final = library
        self._info: Final = info
        self._lifespan: Final = lifespan
        self.running: bool = False
        """Whether the lifespan is running."""
        self._state: object = None
        self._nursery: trio.Nursery | None = None
        self._users = 0
        self._unused = trio.Event()
        self._occupied = False
        self._turned = trio.Event()
        self._needed = lifespan is not None
        self.parts: Final[list[LifespanRunner]] = []
        """The lifespans of mounted servers, which run within this one."""
        self.jobs: Final[list[Callable[[], Awaitable[None]]]] = []
        """Background tasks that start with the lifespan."""
        self.starts: Final[list[Callable[[], Awaitable[None]]]] = []
        """Functions that the start waits for when the background tasks have started. Each ends soon."""

    @property
    def needed(self) -> bool:
        """Whether the lifespan must run before a request can be handled."""
        return self._needed or any(part.needed for part in self.parts)

    @needed.setter
    def needed(self, needed: bool) -> None:
        self._needed = needed

    @property
    def nursery(self) -> trio.Nursery:
        """The nursery of background tasks. Raises `NotRunning`."""
        if self._nursery is None:
            raise NotRunning(self._info.name)
        return self._nursery

    def state(self, kind: type[S]) -> S:
        """Return the state of the author. Raises `NotRunning`, or `LocalProtocolError` if it has another class."""
        if self._nursery is None:
            raise NotRunning(self._info.name)
        if not isinstance(self._state, kind):
            given = "nothing: it has no lifespan" if self._lifespan is None else f"a {type(self._state).__name__}"
            server = f"<Server {self._info.name} {self._info.version}>"
            raise LocalProtocolError(f"the state of {server} is not a {kind.__name__}, but {given}")
        return self._state

    def work(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a background task in each run of the lifespan, from now on."""
        self.jobs.append(work)
        if self._nursery is not None:
            self._nursery.start_soon(work)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Run the lifespan, or join it if it is running. It ends when all blocks have ended.

        If the first block is cancelled or fails, the lifespan ends for all of them.

        Raises:
            WrongAsyncLibrary: The functions of the server are written for asyncio, but trio runs without it.
        """
        while self._occupied and self._nursery is None:
            # It is starting or ending. The author's context manager may not support two concurrent runs.
            await self._turned.wait()
        if self._nursery is not None:
            self._users += 1
            try:
                yield
            finally:
                self._users -= 1
                if not self._users:
                    self._unused.set()
            return
        self._occupied = True
        try:
            async with AsyncExitStack() as stack:
                for part in self.parts:
                    await stack.enter_async_context(part.run())
                state = await stack.enter_async_context(enter_in(self._library, self._lifespan))
                await stack.enter_async_context(self._begun(state))
                self._turn()
                yield
        finally:
            self._occupied = False
            self._turn()

    def _turn(self) -> None:
        """Wake the tasks that wait for the start or the end of the lifespan."""
        self._turned.set()
        self._turned = trio.Event()

    @asynccontextmanager
    async def _begun(self, state: object) -> AsyncIterator[None]:
        # Within the author's context manager, so that background tasks can use the state until they end.
        async with open_private_nursery() as nursery:
            self._nursery, self._state = nursery, state
            self.running = True
            for job in self.jobs:
                nursery.start_soon(job)
            try:
                for start in self.starts:
                    await start()
                yield
                while self._users:
                    self._unused = trio.Event()
                    await self._unused.wait()
            finally:
                self._nursery, self._state = None, None
                self.running = False
