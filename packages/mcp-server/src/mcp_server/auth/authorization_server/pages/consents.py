"""Remembered consent: users who allow a client at a redirect URI are not asked again for some time.

Consent is stored for each combination of user, client, redirect URI and server. Consent for one client has no effect on
another client, however similar they look. Consent is stored only if the redirect URI identifies the recipient of the
code, which https does. Any program on a device can receive a redirect to a loopback port or a private-use scheme, and
claim to be the client. For these redirect URIs users are asked each time.

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
"""Time for which consent is remembered, in days."""

_ASK: Final = frozenset({"consent", "select_account", "login"})


def rememberable(pending: PendingAuthorization) -> bool:
    """Return whether consent to a request may be remembered for later requests of the same kind."""
    try:
        url = parse_url(pending.client.redirect_uri, what="redirect_uri")
    except UnsafeUrl:
        return False
    return url.scheme == "https" and not url.is_loopback


class Consents:
    """The remembered consent of all users.

    Args:
        store: The store of the consent.
        clock: A function that returns the time in seconds since the epoch.
    """

    def __init__(self, store: SqliteStore, *, clock: Callable[[], float]) -> None:
        self._store: Final = store
        self._clock: Final = clock

    async def cover(self, pending: PendingAuthorization, subject: str) -> bool:
        """Return whether remembered consent covers all that a request asks for."""
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
        """Remember that a user allowed these scopes of a request."""
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
        """Forget the consent of a user who now denied access."""
        await self._store.run(
            lambda connection: connection.execute(
                "DELETE FROM page_consents WHERE subject = ? AND client = ? AND redirect_uri = ? AND resources = ?",
                (subject, *_of(pending)),
            )
        )


def _of(pending: PendingAuthorization) -> tuple[str, str, str]:
    client = pending.client
    return client.client_id, client.redirect_uri, json.dumps(sorted(pending.resources))
