"""One server of a group: its connection is made, and made again when it is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, Literal, TypeAlias

import attrs
import trio

from mcp_client.client import Client
from mcp_core.errors import ConnectionEnded, McpError

__all__ = ["DEFAULT_RESTART", "MakeOpening", "Member", "Restart"]

_log: Final = logging.getLogger("mcp_client")

MakeOpening: TypeAlias = Callable[[], AbstractAsyncContextManager[Client]]
"""Makes a connection to one server, each time anew: `lambda: open_stdio(["weather-server"])`, or any other."""


@attrs.frozen(kw_only=True)
class Restart:
    """When a connection that was lost is made again.

    One that could not be made in the first place is not tried again by itself: see `Member.reconnect`.
    """

    times: int = 3
    """How often it is tried, within `within` seconds; 0: never."""
    within: float = 60.0
    """Seconds after which earlier attempts are forgotten."""
    delay: float = 0.5
    """Seconds before the first attempt; twice as long before each further one."""


DEFAULT_RESTART: Final = Restart()
"""What holds unless something else is asked for."""


class Member:
    """One server of a group.

    Args:
        name: What it is called in the group.
        make: Makes a connection to it.
        restart: When a lost one is made again.
    """

    def __init__(self, name: str, make: MakeOpening, restart: Restart) -> None:
        self.name: Final = name
        """What it is called in the group."""
        self._make: Final = make
        self._restart: Final = restart
        self._client: Client | None = None
        self._error: McpError | None = None
        self._trying = trio.CancelScope()
        # Somebody asked for a connection; what it became of is known; nothing goes on.
        self._wanted = trio.Event()
        self._settled = trio.Event()
        self._idle = trio.Event()
        self._dismissed = False

    def __repr__(self) -> str:
        return f"<Member {self.name!r}, {self.state}>"

    @property
    def state(self) -> Literal["connecting", "connected", "failed"]:
        """How it stands. `connecting` also while a lost connection is made again."""
        if self._client is not None:
            return "connected"
        return "failed" if self._settled.is_set() else "connecting"

    @property
    def error(self) -> McpError | None:
        """Why it is not connected, or why it was not before; `None` when it always was."""
        return self._error

    @property
    def client(self) -> Client:
        """Its client. Raises `ConnectionEnded` while there is none, with the reason as its cause."""
        if self._client is None:
            raise ConnectionEnded(f"there is no connection to {self.name!r} ({self.state})") from self._error
        return self._client

    async def connected(self) -> Client:
        """Its client, once an attempt that goes on has ended. Raises as `client` does."""
        await self._settled.wait()
        return self.client

    def reconnect(self) -> None:
        """Tries again, if there is no connection: at once, or when an attempt that goes on has failed."""
        if self._client is None:
            self._dismissed = False
            if self._settled.is_set():
                self._begin()
            self._wanted.set()

    async def aclose(self) -> None:
        """Ends its connection, or what is done to make one. It is not made again but by `reconnect`."""
        self._dismissed = True
        if self._client is not None:
            await self._client.aclose()
        else:
            self._trying.cancel()
        await self._idle.wait()

    async def run(self) -> None:
        """Keeps the connection, until this is cancelled."""
        try:
            while True:
                if not self._dismissed:
                    with trio.CancelScope() as self._trying:
                        await self._keep()
                    if self._trying.cancelled_caught:
                        self._error = self._closed()
                if self._dismissed:
                    self._wanted = trio.Event()
                self._settled.set()
                self._idle.set()
                await self._wanted.wait()
                if self._settled.is_set():
                    # It was wanted again before that was known.
                    self._begin()
        finally:
            # Whoever closes it later has nothing to wait for.
            self._idle.set()

    def _begin(self) -> None:
        self._settled = trio.Event()
        self._idle = trio.Event()

    async def _keep(self) -> None:
        """Makes the connection, and makes it again when it is lost, as often as that may be."""
        lost: list[float] = []
        was_connected = False
        while True:
            self._wanted = trio.Event()
            was_connected = await self._connection() or was_connected
            if self._wanted.is_set():
                lost.clear()
                continue
            if self._dismissed or not was_connected or not self._may_again(lost):
                return
            pause = self._restart.delay * 2 ** (len(lost) - 1)
            _log.warning(
                "there is no connection to %s any more; it is made again in %g s: %s", self.name, pause, self._error
            )
            with trio.move_on_after(pause):
                await self._wanted.wait()

    def _may_again(self, lost: list[float]) -> bool:
        """Whether it has not been tried too often lately. Notes when it was."""
        now = trio.current_time()
        lost[:] = [moment for moment in lost if moment > now - self._restart.within]
        if len(lost) >= self._restart.times:
            return False
        lost.append(now)
        return True

    async def _connection(self) -> bool:
        """One connection, from its beginning to its end. Returns whether there was one."""
        try:
            async with self._make() as client:
                self._client = client
                self._wanted = trio.Event()
                self._settled.set()
                try:
                    await client.wait_ended()
                finally:
                    self._client = None
                    # What follows is not known before the connection has been taken down.
                    self._settled = trio.Event()
                self._error = self._closed()
                return True
        except McpError as error:
            self._error = error
        except OSError as error:
            self._error = ConnectionEnded(f"{self.name!r} cannot be reached: {error}")
            self._error.__cause__ = error
        return False

    def _closed(self) -> ConnectionEnded:
        return ConnectionEnded(f"the connection to {self.name!r} was closed, or lost")
