"""The life of a server: from the first that serves it to the last.

Its author's context manager runs around it, and what works in the background has a nursery in it.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import trio

from mcp_core.errors import LocalProtocolError
from mcp_server.connection.nursery import open_private_nursery
from mcp_server.errors import NotRunning

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from mcp_server.server import Server

__all__ = ["Life", "Lifespan"]

S = TypeVar("S")

Lifespan: TypeAlias = "Callable[[Server], AbstractAsyncContextManager[object]]"
"""Makes what lives as long as the server, such as a pool of connections to a database, and gives it to its handlers."""


class Life:
    """The life of one server.

    Args:
        server: The server.
        lifespan: The context manager of its author.
    """

    def __init__(self, server: Server, lifespan: Lifespan | None) -> None:
        self._server: Final = server
        self._lifespan: Final = lifespan
        self._state: object = None
        self._nursery: trio.Nursery | None = None
        self._users = 0
        self._unused = trio.Event()
        self._occupied = False
        self._turned = trio.Event()
        self._needed = lifespan is not None
        self.parts: Final[list[Life]] = []
        """The lives of servers that are a part of this one: they go on within it."""
        self.jobs: Final[list[Callable[[], Awaitable[None]]]] = []
        """What is begun in the background when it begins."""

    @property
    def needed(self) -> bool:
        """Whether it has to run before a request can be answered."""
        return self._needed or any(part.needed for part in self.parts)

    @needed.setter
    def needed(self, needed: bool) -> None:
        self._needed = needed

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self._nursery is not None

    @property
    def nursery(self) -> trio.Nursery:
        """Where work in the background runs. Raises `NotRunning`."""
        if self._nursery is None:
            raise NotRunning(self._server.info.name)
        return self._nursery

    def state(self, kind: type[S]) -> S:
        """What the author's context manager gave. Raises `NotRunning`, or `LocalProtocolError` when it is of another class."""
        if self._nursery is None:
            raise NotRunning(self._server.info.name)
        if not isinstance(self._state, kind):
            given = "nothing: it has no lifespan" if self._lifespan is None else f"a {type(self._state).__name__}"
            raise LocalProtocolError(f"the state of {self._server!r} is not a {kind.__name__}, but {given}")
        return self._state

    def work(self, work: Callable[[], Awaitable[None]]) -> None:
        """Has something done in the background, as long as it goes on, and each time anew."""
        self.jobs.append(work)
        if self._nursery is not None:
            self._nursery.start_soon(work)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Runs it, or joins it where it runs already: it ends when the block of the first, and all others, have ended.

        Where the block of the first is cancelled or fails, it ends for all.
        """
        while self._occupied and self._nursery is None:
            # It begins, or ends. The author's context manager need not stand to be entered twice.
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
                state = None
                if self._lifespan is not None:
                    state = await stack.enter_async_context(self._lifespan(self._server))
                await stack.enter_async_context(self._begun(state))
                self._turn()
                yield
        finally:
            self._occupied = False
            self._turn()

    def _turn(self) -> None:
        """Wakes those who wait for its beginning, or its end."""
        self._turned.set()
        self._turned = trio.Event()

    @asynccontextmanager
    async def _begun(self, state: object) -> AsyncIterator[None]:
        # Within the author's state, so that what works in the background has it to its end.
        async with open_private_nursery() as nursery:
            self._nursery, self._state = nursery, state
            for job in self.jobs:
                nursery.start_soon(job)
            try:
                yield
                while self._users:
                    self._unused = trio.Event()
                    await self._unused.wait()
            finally:
                self._nursery, self._state = None, None
