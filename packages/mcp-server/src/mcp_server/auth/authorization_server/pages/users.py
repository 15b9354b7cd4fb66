"""Users who log in with a name and a password.

A password is stored as an scrypt hash. Its computation takes a tenth of a second and 32 MiB, so only a few run at the
same time. For an unknown name a hash is computed too, so that the response time does not reveal which names exist.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import unicodedata
from base64 import b64decode, b64encode
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import trio

from mcp_core.trio.async_library import allow_asyncio

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from mcp_server.auth.authorization_server.model.store import SqliteStore

__all__ = ["PasswordUsers", "StoredUsers", "Users", "hash_password"]

_COST: Final = 15
"""Binary logarithm of scrypt's N: 32 MiB with blocks of 8. With `_PARALLEL`, one of the settings that OWASP
recommends."""
_BLOCK: Final = 8
_PARALLEL: Final = 3
_BYTES: Final = 32
_SALT: Final = 16
_LONGEST: Final = 1_000
"""The maximum length of a password, in characters. Longer ones would only cost computing time."""
_HASH: Final = re.compile(
    r"scrypt\$(1[0-9]|20)\$([1-9]|1[0-9])\$([1-9]|1[0-9])\$([A-Za-z0-9+/=]{8,})\$([A-Za-z0-9+/=]{8,})"
)
_AT_ONCE: Final = 2


class Users(Protocol):
    """The users who can log in. Any object with this method can be used, for example one for a company directory."""

    async def verify(self, name: str, password: str) -> str | None:
        """Check a name and a password.

        Args:
            name: The entered name, without surrounding white space.
            password: The entered password.

        Returns:
            The subject of the tokens, which must never change for a user; it may be the name. `None` if the name or the
            password is incorrect.
        """
        ...


def hash_password(password: str) -> str:
    """Return the hash of a password for storage: an scrypt hash with its salt and parameters.

    Raises:
        ValueError: The password is empty or too long.
    """
    if not 0 < len(password) <= _LONGEST:
        raise ValueError(f"a password must have 1 to {_LONGEST} characters, not {len(password)}")
    salt = secrets.token_bytes(_SALT)
    return _written(salt, _scrypt(password, salt, (_COST, _BLOCK, _PARALLEL), _BYTES))


def _written(salt: bytes, value: bytes) -> str:
    shown = [b64encode(each).decode("ascii") for each in (salt, value)]
    return "$".join(["scrypt", str(_COST), str(_BLOCK), str(_PARALLEL), *shown])


def _scrypt(password: str, salt: bytes, settings: tuple[int, int, int], size: int) -> bytes:
    cost, block, parallel = settings
    # Keyboards may produce the same letter as different code points.
    data = unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
    memory = 128 * block * ((1 << cost) + parallel + 2)
    return hashlib.scrypt(data, salt=salt, n=1 << cost, r=block, p=parallel, maxmem=memory, dklen=size)


def _matches(password: str, kept: str) -> bool:
    found = _HASH.fullmatch(kept)
    if found is None:
        raise ValueError("a stored password is not a hash from hash_password")
    settings = int(found[1]), int(found[2]), int(found[3])
    salt, value = b64decode(found[4]), b64decode(found[5])
    return hmac.compare_digest(_scrypt(password, salt, settings, len(value)), value)


class _Passwords:
    """A check of passwords that limits the number of concurrent computations."""

    def __init__(self) -> None:
        self._limiter: Final = trio.CapacityLimiter(_AT_ONCE)
        # A hash that no password has.
        self._dummy_hash: Final = _written(secrets.token_bytes(_SALT), secrets.token_bytes(_BYTES))

    async def fit(self, password: str, kept: str | None) -> bool:
        """Return whether a password has this hash. Takes the same time without a hash."""
        if len(password) > _LONGEST:
            return False
        work = partial(_matches, password, self._dummy_hash if kept is None else kept)
        return await trio.to_thread.run_sync(work, limiter=self._limiter)


class PasswordUsers:
    """Users from a mapping of names to password hashes. The name is the subject.

    Args:
        hashes: Password hashes by name, see `hash_password`.

    Raises:
        ValueError: A value is not such a hash.
    """

    def __init__(self, hashes: Mapping[str, str]) -> None:
        wrong = sorted(name for name, kept in hashes.items() if not _HASH.fullmatch(kept))
        if wrong:
            raise ValueError(f"the password of {', '.join(wrong)} is not a hash: create one with hash_password")
        self._hashes: Final = dict(hashes)
        self._passwords: Final = _Passwords()

    @allow_asyncio
    async def verify(self, name: str, password: str) -> str | None:
        """Check a name and a password, and return the subject or `None`."""
        return name if await self._passwords.fit(password, self._hashes.get(name)) else None


class StoredUsers:
    """Users in the store of the authorization server. The name is the subject.

    Args:
        store: The store.
    """

    def __init__(self, store: SqliteStore) -> None:
        self._store: Final = store
        self._passwords: Final = _Passwords()

    @allow_asyncio
    async def put(self, name: str, password: str) -> None:
        """Add a user, or change the password of a user.

        Raises:
            ValueError: The password is empty or too long.
        """
        kept = await trio.to_thread.run_sync(hash_password, password)
        await self._store.run(
            lambda connection: connection.execute("INSERT OR REPLACE INTO page_users VALUES (?, ?)", (name, kept))
        )

    @allow_asyncio
    async def remove(self, name: str) -> bool:
        """Remove a user, and end the user's browser sessions. Issued tokens stay valid until they expire.

        Returns:
            Whether the user existed.
        """

        def delete(connection: sqlite3.Connection) -> bool:
            found = connection.execute("DELETE FROM page_users WHERE name = ?", (name,)).rowcount > 0
            connection.execute("DELETE FROM page_sessions WHERE subject = ?", (name,))
            return found

        return await self._store.run(delete)

    @allow_asyncio
    async def verify(self, name: str, password: str) -> str | None:
        """Check a name and a password, and return the subject or `None`."""

        def find(connection: sqlite3.Connection) -> str | None:
            row: tuple[str] | None = connection.execute(
                "SELECT password FROM page_users WHERE name = ?", (name,)
            ).fetchone()
            return None if row is None else row[0]

        return name if await self._passwords.fit(password, await self._store.run(find)) else None
