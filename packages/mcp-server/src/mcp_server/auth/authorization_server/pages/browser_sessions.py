"""Browser sessions: the logged-in user, and the authorization requests that a browser opened.

The cookie contains an unguessable id, of which the store has only a hash. Each login and logout creates a new id, so an
id that an attacker planted in a browser is useless. The requests that a browser opened are bound to another value,
which stays the same and never leaves the server.

Spec: basic/security_best_practices#session-hijacking, #confused-deputy-problem
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from mcp_server.auth.authorization_server.model.store import SqliteStore

__all__ = ["BrowserBindings", "BrowserSession", "BrowserSessions"]

_IDLE: Final = 30 * 60.0
"""Time without a request after which a session expires, in seconds."""
_LONGEST: Final = 8 * 3600.0
"""Maximum lifetime of a session, in seconds: a working day."""
_MOST: Final = 10_000
"""The maximum number of sessions without a logged-in user. Above it, the least recently used ones are deleted, because
every client can begin one."""
_NOT_NOTED: Final = 60.0
"""Time in which further use of a session is not stored, in seconds. It reduces writes to the file."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BrowserSession(FieldValue):
    """The session of a browser."""

    id: str = attrs.field(repr=False)
    """The session id, which is the value of the cookie."""
    browser: str = attrs.field(repr=False)
    """The value that the opened requests are bound to. It is never sent to a peer."""
    form_key: bytes = attrs.field(repr=False)
    """The key of the tokens in forms."""
    subject: str | None = None
    """The subject of the logged-in user."""
    shown: str | None = None
    """The name of the logged-in user, for display to the user."""
    auth_time: float | None = None
    """The time of the login, in seconds since the epoch."""
    created_at: float
    """The time when the session began, in seconds since the epoch."""
    used_at: float
    """The time of the last use that was stored, in seconds since the epoch."""

    def form_token(self, purpose: str) -> str:
        """Return a token that proves that a form was created for this session and purpose."""
        return hmac.new(self.form_key, purpose.encode(), hashlib.sha256).hexdigest()

    def made(self, token: str, purpose: str) -> bool:
        """Return whether a token was created for this session and purpose."""
        return hmac.compare_digest(token.encode(), self.form_token(purpose).encode())


class BrowserSessions:
    """The sessions of all browsers.

    Args:
        store: The store of the sessions.
        issuer: The issuer of the authorization server. Servers on the same host with different ports need different
            cookies.
        secure: Whether the issuer is an https URL. Then the cookie has a prefix that stops other hosts from setting it.
        clock: A function that returns the time in seconds since the epoch.
    """

    def __init__(self, store: SqliteStore, *, issuer: str, secure: bool, clock: Callable[[], float]) -> None:
        self._store: Final = store
        self._clock: Final = clock
        name = f"mcp-login-{hashlib.sha256(issuer.encode()).hexdigest()[:8]}"
        self.cookie: Final = f"__Host-{name}" if secure else name
        """The name of the cookie."""
        self._attributes: Final = "; Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if secure else "")

    def set_cookie(self, session: BrowserSession) -> tuple[str, str]:
        """Return the header field that sets the cookie until the browser is closed."""
        return "Set-Cookie", f"{self.cookie}={session.id}{self._attributes}"

    def drop_cookie(self) -> tuple[str, str]:
        """Return the header field that removes the cookie."""
        return "Set-Cookie", f"{self.cookie}={self._attributes}; Max-Age=0"

    async def find(self, cookies: str) -> BrowserSession | None:
        """Return the session of a request.

        Args:
            cookies: The value of the Cookie header, or an empty string.

        Returns:
            The session. `None` if there is no session, it has expired, or there are two cookies, one of them planted.
        """
        pairs = [pair.strip().partition("=") for pair in cookies.split(";")]
        ids = {value for name, _, value in pairs if name == self.cookie}
        if len(ids) != 1:
            return None
        id, now = ids.pop(), self._clock()
        return await self._store.run(lambda connection: _find(connection, id, now))

    async def begin(self) -> BrowserSession:
        """Begin a session for an unknown browser."""
        now = self._clock()
        session = BrowserSession(
            id=secrets.token_urlsafe(32),
            browser=secrets.token_urlsafe(32),
            form_key=secrets.token_bytes(32),
            created_at=now,
            used_at=now,
        )
        await self._store.run(lambda connection: _begin(connection, session))
        return session

    async def log_in(self, session: BrowserSession, subject: str, *, shown: str, auth_time: float) -> BrowserSession:
        """Log a user in, and return the session with a new id.

        Args:
            session: The previous session.
            subject: The subject of the user.
            shown: The name of the user, for display to the user.
            auth_time: The time of the login, in seconds since the epoch.
        """
        return await self._renew(session, subject=subject, shown=shown, auth_time=auth_time)

    async def log_out(self, session: BrowserSession) -> BrowserSession:
        """Log the user out, and return the session with a new id. The browser keeps the requests that it opened."""
        return await self._renew(session, subject=None, shown=None, auth_time=None)

    async def end(self, session: BrowserSession) -> None:
        """Delete the session."""
        await self._store.run(lambda connection: _delete(connection, session.id))

    async def _renew(
        self, old: BrowserSession, *, subject: str | None, shown: str | None, auth_time: float | None
    ) -> BrowserSession:
        now = self._clock()
        session = BrowserSession(
            id=secrets.token_urlsafe(32),
            browser=old.browser,
            form_key=secrets.token_bytes(32),
            subject=subject,
            shown=shown,
            auth_time=auth_time,
            created_at=now,
            used_at=now,
        )

        def replace(connection: sqlite3.Connection) -> None:
            _delete(connection, old.id)
            _begin(connection, session)

        await self._store.run(replace)
        return session


def _key(id: str) -> str:
    return hashlib.sha256(id.encode()).hexdigest()


def _find(connection: sqlite3.Connection, id: str, now: float) -> BrowserSession | None:
    row: tuple[str, bytes, str | None, str | None, float | None, float, float] | None = connection.execute(
        "SELECT browser, form_key, subject, shown, auth_time, created_at, used_at FROM page_sessions WHERE id = ?",
        (_key(id),),
    ).fetchone()
    if row is None:
        return None
    found = BrowserSession(
        id=id,
        browser=row[0],
        form_key=row[1],
        subject=row[2],
        shown=row[3],
        auth_time=row[4],
        created_at=row[5],
        used_at=row[6],
    )
    if now >= min(found.created_at + _LONGEST, found.used_at + _IDLE):
        _delete(connection, id)
        return None
    if now - found.used_at > _NOT_NOTED:
        connection.execute("UPDATE page_sessions SET used_at = ? WHERE id = ?", (now, _key(id)))
    return found


def _begin(connection: sqlite3.Connection, session: BrowserSession) -> None:
    now = session.created_at
    connection.execute("DELETE FROM page_sessions WHERE used_at <= ?", (now - _IDLE,))
    connection.execute(
        "INSERT INTO page_sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            _key(session.id),
            session.browser,
            session.form_key,
            session.subject,
            session.shown,
            session.auth_time,
            now,
            now,
        ),
    )
    connection.execute(
        "DELETE FROM page_sessions WHERE id IN (SELECT id FROM page_sessions WHERE subject IS NULL"
        " ORDER BY used_at DESC LIMIT -1 OFFSET ?)",
        (_MOST,),
    )


def _delete(connection: sqlite3.Connection, id: str) -> None:
    connection.execute("DELETE FROM page_sessions WHERE id = ?", (_key(id),))


class BrowserBindings:
    """The browser that opened each authorization request first, and the outcome of the request.

    Args:
        store: The store of this data.
        clock: A function that returns the time in seconds since the epoch.
    """

    def __init__(self, store: SqliteStore, *, clock: Callable[[], float]) -> None:
        self._store: Final = store
        self._clock: Final = clock

    async def open(self, pending: str, session: BrowserSession, *, expires_at: float) -> bool | None:
        """Bind an authorization request to the browser that opens it first.

        Args:
            pending: The id of the request.
            session: The session of the browser.
            expires_at: The time at which the request expires, in seconds since the epoch.

        Returns:
            Whether this call bound the request. `None` if another browser opened it first.
        """
        now = self._clock()

        def claim(connection: sqlite3.Connection) -> bool | None:
            connection.execute("DELETE FROM page_openings WHERE expires_at <= ?", (now,))
            # The outcome stays available for some time after the decision.
            done = connection.execute(
                "INSERT INTO page_openings VALUES (?, ?, NULL, ?) ON CONFLICT DO NOTHING",
                (pending, session.browser, max(expires_at, now + _IDLE)),
            )
            if done.rowcount:
                return True
            return False if _opener(connection, pending) == session.browser else None

        return await self._store.run(claim)

    async def answered(self, pending: str, outcome: str) -> None:
        """Store the outcome of a request.

        Args:
            pending: The id of the request.
            outcome: The outcome, as a sentence for the user who opens the page again.
        """
        await self._store.run(
            lambda connection: connection.execute(
                "UPDATE page_openings SET outcome = ? WHERE pending = ?", (outcome, pending)
            )
        )

    async def outcome(self, pending: str, session: BrowserSession) -> str | None:
        """Return the outcome of a request that this browser opened, or `None` without a decision."""

        def find(connection: sqlite3.Connection) -> str | None:
            found: tuple[str | None] | None = connection.execute(
                "SELECT outcome FROM page_openings WHERE pending = ? AND browser = ?", (pending, session.browser)
            ).fetchone()
            return None if found is None else found[0]

        return await self._store.run(find)


def _opener(connection: sqlite3.Connection, pending: str) -> str:
    found: tuple[str] = connection.execute("SELECT browser FROM page_openings WHERE pending = ?", (pending,)).fetchone()
    return found[0]
