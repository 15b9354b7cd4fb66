"""Rate limits of login attempts: for a name from one address, for a name, and for an address.

The first limit is the strictest. The second stops an attacker with many addresses. It is high, so that an attacker
cannot easily lock out a user. The third stops an attacker who tries one password with many names.

The tokens that are left are in the store, so the limits hold for all processes that share a file, and over a restart.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_core.limits.rates import Rate

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from mcp_server.auth.authorization_server.model.store import SqliteStore

__all__ = ["LoginLimits"]

_SECONDS: Final = 600.0

_RATES: Final = (Rate(10, _SECONDS), Rate(50, _SECONDS), Rate(100, _SECONDS))
"""The limits for a name from one address, for a name, and for an address."""

_KEYS: Final = 30_000
"""The largest number of keys in the store. Above it, the least recently used one starts again."""


class LoginLimits:
    """A counter of failed login attempts.

    Args:
        store: The store.
        clock: Returns the time, in seconds since the epoch. If it is set back, the tokens stay as they are until the next
            attempt, and are refilled from then on: setting the clock locks out no user.
    """

    def __init__(self, store: SqliteStore, *, clock: Callable[[], float]) -> None:
        self._store: Final = store
        self._clock: Final = clock

    async def begin(self, name: str, address: str) -> float:
        """Count an attempt before the password is checked.

        Returns:
            0 if the password may be checked, otherwise the time to wait, in seconds.

        Raises:
            StoreError: The store failed.
        """
        return await self._store.run(partial(_take, tuple(_keys(name, address)), self._clock()))

    async def succeeded(self, name: str, address: str) -> None:
        """Take back the count of an attempt with the correct password. Raises `StoreError`."""
        await self._store.run(partial(_give_back, tuple(_keys(name, address))))


def _keys(name: str, address: str) -> Iterator[tuple[Rate, bytes]]:
    """Yield each limit with its key, which is a hash: the store does not reveal which names were tried."""
    for rate, parts in zip(_RATES, ((name, address), ("name", name, ""), ("address", "", address)), strict=True):
        yield rate, hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).digest()


def _take(keys: tuple[tuple[Rate, bytes], ...], now: float, connection: sqlite3.Connection) -> float:
    connection.execute("DELETE FROM page_login_attempts WHERE used_at < ?", (now - _SECONDS,))
    connection.execute(
        "DELETE FROM page_login_attempts WHERE key IN"
        " (SELECT key FROM page_login_attempts ORDER BY used_at DESC LIMIT -1 OFFSET ?)",
        (_KEYS,),
    )
    for rate, key in keys:
        row = connection.execute("SELECT left, used_at FROM page_login_attempts WHERE key = ?", (key,)).fetchone()
        left, used_at = row or (rate.amount, now)
        left = rate.refilled(left, now - used_at)
        wait = rate.wait(left)
        connection.execute(
            "INSERT OR REPLACE INTO page_login_attempts VALUES (?, ?, ?)", (key, left if wait else left - 1, now)
        )
        if wait:
            # Attempts beyond the limit of one address must not count against the name.
            return wait
    return 0.0


def _give_back(keys: tuple[tuple[Rate, bytes], ...], connection: sqlite3.Connection) -> None:
    for rate, key in keys:
        connection.execute("UPDATE page_login_attempts SET left = min(?, left + 1) WHERE key = ?", (rate.amount, key))
