"""The people who can log in, by name and password.

A password is kept as an scrypt hash, which takes a tenth of a second and 32 MiB to compute; so only a few are computed at a
time. For a name that nobody has, one is computed all the same: the time tells nothing.
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

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from mcp_server.auth.authorization_server.model.store import SqliteStore

__all__ = ["PasswordUsers", "StoredUsers", "Users", "hash_password"]

_COST: Final = 15
"""Binary logarithm of scrypt's N: 32 MiB with blocks of 8. With `_PARALLEL`, one of the settings that OWASP recommends."""
_BLOCK: Final = 8
_PARALLEL: Final = 3
_BYTES: Final = 32
_SALT: Final = 16
_LONGEST: Final = 1_000
"""Characters of a password. More would only cost us time."""
_HASH: Final = re.compile(
    r"scrypt\$(1[0-9]|20)\$([1-9]|1[0-9])\$([1-9]|1[0-9])\$([A-Za-z0-9+/=]{8,})\$([A-Za-z0-9+/=]{8,})"
)
_AT_ONCE: Final = 2


class Users(Protocol):
    """Who can log in. Anything with this method will do: a directory of a company, for instance."""

    async def verify(self, name: str, password: str) -> str | None:
        """Whether a name and a password belong together.

        Args:
            name: What was entered, without white space around it.
            password: What was entered.

        Returns:
            The subject of the tokens: what the person is called for ever, perhaps the name. `None`: they do not.
        """
        ...


def hash_password(password: str) -> str:
    """What is kept of a password: an scrypt hash, with its salt and its parameters.

    Raises:
        ValueError: It is empty, or too long.
    """
    if not 0 < len(password) <= _LONGEST:
        raise ValueError(f"a password has 1 to {_LONGEST} characters, not {len(password)}")
    salt = secrets.token_bytes(_SALT)
    return _written(salt, _scrypt(password, salt, (_COST, _BLOCK, _PARALLEL), _BYTES))


def _written(salt: bytes, value: bytes) -> str:
    shown = [b64encode(each).decode("ascii") for each in (salt, value)]
    return "$".join(["scrypt", str(_COST), str(_BLOCK), str(_PARALLEL), *shown])


def _scrypt(password: str, salt: bytes, settings: tuple[int, int, int], size: int) -> bytes:
    cost, block, parallel = settings
    # Two keyboards may write the same letter in two ways.
    data = unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
    memory = 128 * block * ((1 << cost) + parallel + 2)
    return hashlib.scrypt(data, salt=salt, n=1 << cost, r=block, p=parallel, maxmem=memory, dklen=size)


def _matches(password: str, kept: str) -> bool:
    found = _HASH.fullmatch(kept)
    if found is None:
        raise ValueError("a stored password is no hash by hash_password")
    settings = int(found[1]), int(found[2]), int(found[3])
    salt, value = b64decode(found[4]), b64decode(found[5])
    return hmac.compare_digest(_scrypt(password, salt, settings, len(value)), value)


class _Passwords:
    """Compares passwords, a few at a time."""

    def __init__(self) -> None:
        self._limiter: Final = trio.CapacityLimiter(_AT_ONCE)
        # Of no password at all.
        self._nobody: Final = _written(secrets.token_bytes(_SALT), secrets.token_bytes(_BYTES))

    async def fit(self, password: str, kept: str | None) -> bool:
        """Whether a password has this hash; takes as long if there is none."""
        if len(password) > _LONGEST:
            return False
        work = partial(_matches, password, self._nobody if kept is None else kept)
        return await trio.to_thread.run_sync(work, limiter=self._limiter)


class PasswordUsers:
    """People who are given: names with hashes of their passwords. The name is the subject.

    Args:
        hashes: Hashes by name, see `hash_password`.

    Raises:
        ValueError: Something is no such hash.
    """

    def __init__(self, hashes: Mapping[str, str]) -> None:
        wrong = sorted(name for name, kept in hashes.items() if not _HASH.fullmatch(kept))
        if wrong:
            raise ValueError(f"the password of {', '.join(wrong)} is no hash: make one with hash_password")
        self._hashes: Final = dict(hashes)
        self._passwords: Final = _Passwords()

    async def verify(self, name: str, password: str) -> str | None:
        """See `Users.verify`."""
        return name if await self._passwords.fit(password, self._hashes.get(name)) else None


class StoredUsers:
    """People in the store of the authorization server. The name is the subject.

    Args:
        store: The store.
    """

    def __init__(self, store: SqliteStore) -> None:
        self._store: Final = store
        self._passwords: Final = _Passwords()

    async def put(self, name: str, password: str) -> None:
        """Adds a person, or gives one another password.

        Raises:
            ValueError: The password is empty or too long.
        """
        kept = await trio.to_thread.run_sync(hash_password, password)
        await self._store.run(
            lambda connection: connection.execute("INSERT OR REPLACE INTO page_users VALUES (?, ?)", (name, kept))
        )

    async def remove(self, name: str) -> bool:
        """Takes a person out: no new login. Tokens that are out go on until they end.

        Returns:
            Whether there was one.
        """

        def delete(connection: sqlite3.Connection) -> bool:
            found = connection.execute("DELETE FROM page_users WHERE name = ?", (name,)).rowcount > 0
            connection.execute("DELETE FROM page_sessions WHERE subject = ?", (name,))
            return found

        return await self._store.run(delete)

    async def verify(self, name: str, password: str) -> str | None:
        """See `Users.verify`."""

        def find(connection: sqlite3.Connection) -> str | None:
            row: tuple[str] | None = connection.execute(
                "SELECT password FROM page_users WHERE name = ?", (name,)
            ).fetchone()
            return None if row is None else row[0]

        return name if await self._passwords.fit(password, await self._store.run(find)) else None
