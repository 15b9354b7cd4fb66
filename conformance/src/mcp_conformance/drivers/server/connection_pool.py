"""A pool of the connections that checks use one after another.

A process for each check would take most of the time of a run over stdio. A connection is reused for the next check only
if it is unharmed: a neutral request gets its response, and no unexpected message arrives with it.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.model.verdict import Deviation, ExpiredWait, NotApplicable, NotTestable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from typing import TypeAlias

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.model.check import CheckScope
    from mcp_core.jsonrpc.messages import JsonObject

    OpenConnection: TypeAlias = Callable[[], AbstractAsyncContextManager[SuiteConnection]]

__all__ = ["ConnectionPool", "kind_of"]

_NO_METHOD: Final = -32601


def kind_of(subject: CheckScope, capabilities: JsonObject | None, **others: str) -> str:
    """Return the key of interchangeable connections: the subject of the checks, the declared capabilities, and others."""
    return json.dumps([subject.value, capabilities, others], sort_keys=True)


class _PooledConnection:
    """An open connection. It has its own task, so that it can be closed independently of later ones."""

    def __init__(self, peer: SuiteConnection) -> None:
        self.peer: Final = peer
        self.release: Final = trio.Event()
        self.closed: Final = trio.Event()
        self.fault: Exception | None = None
        """A fault of the suite while the connection was open."""


class ConnectionPool:
    """The connections of one leg.

    Args:
        nursery: Runs a task for each connection.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery: Final = nursery
        self._free: Final[dict[str, _PooledConnection]] = {}
        self.hangs: bool = False
        """Whether a neutral request got no response in time."""

    @asynccontextmanager
    async def borrow(
        self, kind: str, open_connection: OpenConnection, *, instead: str = ""
    ) -> AsyncIterator[SuiteConnection]:
        """Borrow a connection of a kind while the block runs.

        Args:
            kind: The kind, from `kind_of`.
            open_connection: Opens a connection if none is free.
            instead: The kind of a connection that becomes one of this kind if none is free; empty: none does.

        Raises:
            Deviation: The connection cannot be opened, or the server ended in the block, whatever the result of the
                block.
        """
        pooled = self._free.pop(kind, None) or self._free.pop(instead, None)
        if pooled is None:
            pooled = await self._nursery.start(self._keep_open, open_connection)
        sound = False
        try:
            pooled.peer.forget()
            try:
                yield pooled.peer
            except (NotApplicable, NotTestable):
                sound = await self._is_sound(pooled.peer)
                if not pooled.peer.ending:
                    raise
            else:
                sound = await self._is_sound(pooled.peer)
            if pooled.peer.ending:
                raise Deviation("the server to go on", pooled.peer.ending)
        finally:
            if sound and kind not in self._free:
                self._free[kind] = pooled
            else:
                await _close(pooled)
                if pooled.fault is not None:
                    raise pooled.fault

    async def close(self) -> None:
        """Close all free connections."""
        while self._free:
            await _close(self._free.popitem()[1])

    async def _is_sound(self, peer: SuiteConnection) -> bool:
        """Return whether a neutral request gets a result, and no unmatched response arrives."""
        known = len(peer.strays)
        try:
            answer = await peer.fence()
        except Deviation as failed:
            self.hangs = self.hangs or isinstance(failed, ExpiredWait)
            return False
        error = answer.message.get("error")
        # A legacy server may lack `ping`; the error proves that the connection works.
        lacking = isinstance(error, dict) and error.get("code") == _NO_METHOD
        return (lacking or not answer.is_error) and len(peer.strays) == known

    async def _keep_open(
        self, open_connection: OpenConnection, *, task_status: trio.TaskStatus[_PooledConnection]
    ) -> None:
        pooled: _PooledConnection | None = None
        try:
            async with open_connection() as peer:
                pooled = _PooledConnection(peer)
                task_status.started(pooled)
                await pooled.release.wait()
        except Exception as fault:
            if pooled is None:
                raise
            # The fault concerns only this connection: its borrower gets the exception, and other connections continue.
            pooled.fault = fault
        finally:
            if pooled is not None:
                pooled.closed.set()


async def _close(pooled: _PooledConnection) -> None:
    pooled.release.set()
    with trio.CancelScope(shield=True):
        await pooled.closed.wait()
