"""A member of a group: the connection to one server, which is reopened when it is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final, Literal, TypeAlias

import attrs
import trio

from mcp_client.client import Client
from mcp_core.errors import ConnectionEnded, McpError
from mcp_core.field_methods import FieldValue
from mcp_core.trio.async_library import allow_asyncio

__all__ = ["DEFAULT_RESTART", "MakeConnector", "Member", "Restart"]

_log: Final = logging.getLogger("mcp_client")

MakeConnector: TypeAlias = Callable[[], AbstractAsyncContextManager[Client]]
"""A function that returns a new connector of one server: `lambda: open_stdio(["weather-server"])`, or any other."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Restart(FieldValue):
    """The policy for reopening a lost connection.

    A connection whose first attempt failed is not retried automatically: see `Member.reconnect`.
    """

    times: int = 3
    """Maximum number of attempts within `within` seconds; 0 to never reopen."""
    within: float = 60.0
    """Time after which earlier attempts no longer count, in seconds."""
    delay: float = 0.5
    """Delay before the first attempt, in seconds. It doubles before each further attempt."""


DEFAULT_RESTART: Final = Restart()
"""The default policy."""


class Member:
    """One server of a group, with its connection.

    Args:
        name: The name of the server in the group.
        make: Returns a new connector of the server.
        restart: The policy for reopening a lost connection.
    """

    def __init__(self, name: str, make: MakeConnector, restart: Restart) -> None:
        self.name: Final = name
        """The name of the server in the group."""
        self._make: Final = make
        self._restart: Final = restart
        self._client: Client | None = None
        self._error: McpError | None = None
        self._trying = trio.CancelScope()
        # In this order: a connection was requested; its outcome is known; no attempt or connection is running.
        self._wanted = trio.Event()
        self._settled = trio.Event()
        self._idle = trio.Event()
        self._dismissed = False
        self._token: trio.lowlevel.TrioToken | None = None

    def __repr__(self) -> str:
        return f"<Member {self.name!r}, {self.state}>"

    @property
    def state(self) -> Literal["connecting", "connected", "failed"]:
        """The state of the connection. `connecting` also while a lost connection is reopened."""
        if self._client is not None:
            return "connected"
        return "failed" if self._settled.is_set() else "connecting"

    @property
    def error(self) -> McpError | None:
        """The last error of the connection; `None` if there was no error."""
        return self._error

    @property
    def client(self) -> Client:
        """The client. Raises `ConnectionEnded` while there is no connection, with the reason as its cause."""
        if self._client is None:
            raise ConnectionEnded(f"there is no connection to {self.name!r} ({self.state})") from self._error
        return self._client

    @allow_asyncio
    async def connected(self) -> Client:
        """Wait for a running attempt and return the client.

        Raises:
            ConnectionEnded: There is no connection; the reason is the cause.
        """
        await self._settled.wait()
        return self.client

    def reconnect(self) -> None:
        """Request a new attempt if there is no connection: at once, or after a running attempt has failed.

        Any task or thread can call this.
        """
        if self._token is None or self._token is _own_token():
            self._request()
        else:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._request)

    @allow_asyncio
    async def aclose(self) -> None:
        """Close the connection, or stop opening it. Only `reconnect` opens it again."""
        self._dismissed = True
        if self._client is not None:
            await self._client.aclose()
        else:
            self._trying.cancel()
        await self._idle.wait()

    @allow_asyncio
    async def run(self) -> None:
        """Keep the connection open until this task is cancelled."""
        self._token = trio.lowlevel.current_trio_token()
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
                    # `reconnect` was called before the outcome was known.
                    self._begin()
        finally:
            # A later `aclose` must not wait.
            self._idle.set()

    def _request(self) -> None:
        """Request an attempt, in the trio run of the connection."""
        if self._client is None:
            self._dismissed = False
            if self._settled.is_set():
                self._begin()
            self._wanted.set()

    def _begin(self) -> None:
        self._settled = trio.Event()
        self._idle = trio.Event()

    async def _keep(self) -> None:
        """Open the connection, and reopen it when it is lost, as the policy allows."""
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
            _log.warning("connection lost: server=%s reconnecting_in=%gs error=%s", self.name, pause, self._error)
            with trio.move_on_after(pause):
                await self._wanted.wait()

    def _may_again(self, lost: list[float]) -> bool:
        """Return whether the policy allows another attempt, and record the attempt."""
        now = trio.current_time()
        lost[:] = [moment for moment in lost if moment > now - self._restart.within]
        if len(lost) >= self._restart.times:
            return False
        lost.append(now)
        return True

    async def _connection(self) -> bool:
        """Open one connection and wait for its end. Return whether the connection was opened."""
        try:
            async with self._make() as client:
                self._client = client
                self._wanted = trio.Event()
                self._settled.set()
                try:
                    await client.wait_ended()
                finally:
                    self._client = None
                    # The next state is unknown until the connection is closed.
                    self._settled = trio.Event()
                self._error = self._closed()
                return True
        except McpError as error:
            self._error = error
        except OSError as error:
            self._error = ConnectionEnded(f"connecting to {self.name!r} failed: {error}")
            self._error.__cause__ = error
        return False

    def _closed(self) -> ConnectionEnded:
        return ConnectionEnded(f"the connection to {self.name!r} was closed or lost")


def _own_token() -> trio.lowlevel.TrioToken | None:
    """Return the token of the trio run in this thread, also from asyncio code that hosts it; `None` without a run."""
    with suppress(RuntimeError):
        return trio.lowlevel.current_trio_token()
    return None
