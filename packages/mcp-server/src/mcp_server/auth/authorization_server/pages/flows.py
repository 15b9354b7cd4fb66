"""People on their way to another authorization server, and back.

Before somebody is sent away, what was decided here is written down: which request, in which browser, for which scopes. It is
found again by `state` alone, once, and only in the browser that left.

Spec: basic/security_best_practices#confused-deputy-problem
"""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.oauth.pkce import new_pkce

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from mcp_core.oauth.pkce import Pkce
    from mcp_server.auth.authorization_server.model.store import SqliteStore
    from mcp_server.auth.authorization_server.pages.browser_sessions import BrowserSession

__all__ = ["Departure", "Journey", "Journeys"]

_LONGEST: Final = 10 * 60.0
"""Seconds that somebody may take to log in elsewhere."""


@attrs.frozen(kw_only=True)
class Departure:
    """What is sent along."""

    state: str = attrs.field(repr=False)
    """Comes back, and shows which journey it is."""
    nonce: str = attrs.field(repr=False)
    """Comes back in the ID token."""
    pkce: Pkce
    """The challenge goes along, the verifier to the token endpoint."""


@attrs.frozen(kw_only=True)
class Journey:
    """What was written down before."""

    pending: str
    """The id of the request for authorization."""
    scopes: tuple[str, ...]
    """What the person allowed."""
    remember: bool
    """Whether that is to be remembered."""
    nonce: str = attrs.field(repr=False)
    """See `Departure`."""
    verifier: str = attrs.field(repr=False)
    """Likewise."""


class Journeys:
    """All that are under way.

    Args:
        store: Where they are kept.
        clock: Seconds since the epoch.
    """

    def __init__(self, store: SqliteStore, *, clock: Callable[[], float]) -> None:
        self._store: Final = store
        self._clock: Final = clock

    async def leave(self, pending: str, session: BrowserSession, *, scopes: Sequence[str], remember: bool) -> Departure:
        """Somebody leaves.

        Args:
            pending: The id of the request for authorization.
            session: Of the browser.
            scopes: What the person allowed.
            remember: Whether that is to be remembered.
        """
        departure = Departure(
            state=secrets.token_urlsafe(32), nonce=secrets.token_urlsafe(32), pkce=new_pkce(secrets.token_bytes)
        )
        now = self._clock()
        row = (
            _key(departure.state),
            pending,
            session.browser,
            json.dumps(list(scopes)),
            departure.pkce.verifier,
            departure.nonce,
            remember,
            now + _LONGEST,
        )

        def put(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM page_journeys WHERE expires_at <= ?", (now,))
            # Who goes back and leaves again has one journey, not two.
            connection.execute("DELETE FROM page_journeys WHERE pending = ?", (pending,))
            connection.execute("INSERT INTO page_journeys VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

        await self._store.run(put)
        return departure

    async def come_back(self, state: str, session: BrowserSession) -> Journey | None:
        """Somebody comes back.

        Args:
            state: What the browser brought.
            session: Of the browser.

        Returns:
            `None`: there is no such journey, it took too long, or it began in another browser, whose it still is.
        """
        now = self._clock()

        def take(connection: sqlite3.Connection) -> tuple[str, str, bool, str, str] | None:
            rows: list[tuple[str, str, bool, str, str]] = connection.execute(
                "DELETE FROM page_journeys WHERE state = ? AND browser = ? AND expires_at > ?"
                " RETURNING pending, scopes, remember, nonce, verifier",
                (_key(state), session.browser, now),
            ).fetchall()
            return rows[0] if rows else None

        row = await self._store.run(take)
        if row is None:
            return None
        return Journey(
            pending=row[0], scopes=tuple(json.loads(row[1])), remember=bool(row[2]), nonce=row[3], verifier=row[4]
        )


def _key(state: str) -> str:
    return hashlib.sha256(state.encode()).hexdigest()
