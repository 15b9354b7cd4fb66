"""Flows of delegated logins at another authorization server.

Before the redirect to the other server, the decisions of the user are stored: the request, the browser and the scopes.
A flow is found again only by its `state`, once, and only in the browser that started it.

Spec: basic/security_best_practices#confused-deputy-problem
"""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.oauth.pkce import new_pkce

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from mcp_core.oauth.pkce import Pkce
    from mcp_server.auth.authorization_server.model.store import SqliteStore
    from mcp_server.auth.authorization_server.pages.browser_sessions import BrowserSession

__all__ = ["AuthorizationFlow", "AuthorizationFlows", "FlowStart"]

_LONGEST: Final = 10 * 60.0
"""Time limit of a login at the other server, in seconds."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FlowStart(FieldValue):
    """The secrets of a redirect to the other authorization server."""

    state: str = attrs.field(repr=False)
    """The state, which identifies the flow in the authorization response."""
    nonce: str = attrs.field(repr=False)
    """The nonce, which the ID token must repeat."""
    pkce: Pkce
    """The challenge for the authorization request, and the verifier for the token request."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AuthorizationFlow(FieldValue):
    """The stored data of a flow."""

    pending: str
    """The id of the authorization request."""
    scopes: tuple[str, ...]
    """The scopes that the user allowed."""
    remember: bool
    """Whether the consent is remembered."""
    nonce: str = attrs.field(repr=False)
    """The nonce of the flow."""
    verifier: str = attrs.field(repr=False)
    """The PKCE verifier of the flow."""


class AuthorizationFlows:
    """The flows that wait for the browser to return.

    Args:
        store: The store of the flows.
        clock: A function that returns the time in seconds since the epoch.
    """

    def __init__(self, store: SqliteStore, *, clock: Callable[[], float]) -> None:
        self._store: Final = store
        self._clock: Final = clock

    async def begin(self, pending: str, session: BrowserSession, *, scopes: Sequence[str], remember: bool) -> FlowStart:
        """Start a flow, and return its secrets.

        Args:
            pending: The id of the authorization request.
            session: The session of the browser.
            scopes: The scopes that the user allowed.
            remember: Whether the consent is remembered.
        """
        start = FlowStart(
            state=secrets.token_urlsafe(32), nonce=secrets.token_urlsafe(32), pkce=new_pkce(secrets.token_bytes)
        )
        now = self._clock()
        row = (
            _key(start.state),
            pending,
            session.browser,
            json.dumps(list(scopes)),
            start.pkce.verifier,
            start.nonce,
            remember,
            now + _LONGEST,
        )

        def put(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM page_journeys WHERE expires_at <= ?", (now,))
            # A request has one flow: starting again replaces it.
            connection.execute("DELETE FROM page_journeys WHERE pending = ?", (pending,))
            connection.execute("INSERT INTO page_journeys VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

        await self._store.run(put)
        return start

    async def take(self, state: str, session: BrowserSession) -> AuthorizationFlow | None:
        """End a flow when the browser returns, and return its data.

        Args:
            state: The state in the authorization response.
            session: The session of the browser.

        Returns:
            The flow. `None` if it does not exist, has expired, or belongs to another browser, which can still use it.
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
        return AuthorizationFlow(
            pending=row[0],
            scopes=tuple(json.loads(row[1])),
            remember=bool(row[2]),
            nonce=row[3],
            verifier=row[4],
        )


def _key(state: str) -> str:
    return hashlib.sha256(state.encode()).hexdigest()
