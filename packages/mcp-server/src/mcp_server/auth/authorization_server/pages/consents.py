"""What people allowed for good: their consent for a client at a redirect URI, for some time.

It is kept for each person, client, redirect URI and server apart: consent for one client says nothing about another, however
alike they look. It is only kept where the redirect URI shows who gets the code, which https does. Any program of a device can
receive what is sent to a port of it, or to a scheme of its own, and say that it is the client; there, people are asked each
time.

Spec: basic/security_best_practices#confused-deputy-problem; RFC 8252 section 8.6
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from mcp_core.errors import UnsafeUrl
from mcp_core.oauth.urls import parse_url

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from mcp_server.auth.authorization_server.model.interaction import PendingAuthorization
    from mcp_server.auth.authorization_server.model.store import SqliteStore

__all__ = ["REMEMBERED_DAYS", "Consents", "rememberable"]

REMEMBERED_DAYS: Final = 30
"""How long a consent is remembered."""

_ASK: Final = frozenset({"consent", "select_account", "login"})


def rememberable(pending: PendingAuthorization) -> bool:
    """Whether the answer to a request may stand for the next one of its kind."""
    try:
        url = parse_url(pending.client.redirect_uri, what="redirect_uri")
    except UnsafeUrl:
        return False
    return url.scheme == "https" and not url.is_loopback


class Consents:
    """The consents of all people.

    Args:
        store: Where they are kept.
        clock: Seconds since the epoch.
    """

    def __init__(self, store: SqliteStore, *, clock: Callable[[], float]) -> None:
        self._store: Final = store
        self._clock: Final = clock

    async def cover(self, pending: PendingAuthorization, subject: str) -> bool:
        """Whether a person allowed all that a request asks for, and need not be asked."""
        if not rememberable(pending) or pending.prompts & _ASK:
            return False
        now = self._clock()

        def find(connection: sqlite3.Connection) -> str | None:
            row: tuple[str] | None = connection.execute(
                "SELECT scopes FROM page_consents WHERE subject = ? AND client = ? AND redirect_uri = ? AND resources = ?"
                " AND expires_at > ?",
                (subject, *_of(pending), now),
            ).fetchone()
            return None if row is None else row[0]

        kept = await self._store.run(find)
        return kept is not None and set(pending.scopes) <= set(json.loads(kept))

    async def remember(self, pending: PendingAuthorization, subject: str, scopes: Iterable[str]) -> None:
        """A person allowed these scopes of a request, and does not want to be asked again."""
        if not rememberable(pending):
            return
        now, kept = self._clock(), json.dumps(sorted(scopes))

        def put(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM page_consents WHERE expires_at <= ?", (now,))
            connection.execute(
                "INSERT OR REPLACE INTO page_consents VALUES (?, ?, ?, ?, ?, ?)",
                (subject, *_of(pending), kept, now + REMEMBERED_DAYS * 24 * 3600),
            )

        await self._store.run(put)

    async def forget(self, pending: PendingAuthorization, subject: str) -> None:
        """A person refused: what was allowed before is to be asked again."""
        await self._store.run(
            lambda connection: connection.execute(
                "DELETE FROM page_consents WHERE subject = ? AND client = ? AND redirect_uri = ? AND resources = ?",
                (subject, *_of(pending)),
            )
        )


def _of(pending: PendingAuthorization) -> tuple[str, str, str]:
    client = pending.client
    return client.client_id, client.redirect_uri, json.dumps(sorted(pending.resources))
