"""Sessions of browsers: who is logged in, and what a browser opened.

The cookie has an unguessable id, of which the store has a hash only. The id is new after every login and logout, so one that
somebody planted in a browser is worth nothing. What a browser opened before is bound to another value, which stays the same
and never leaves the server.

Spec: basic/security_best_practices#session-hijacking, #confused-deputy-problem
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from mcp_server.auth.authorization_server.model.store import SqliteStore

__all__ = ["BrowserSession", "BrowserSessions", "Openings"]

_IDLE: Final = 30 * 60.0
"""Seconds without a request after which a session is over."""
_LONGEST: Final = 8 * 3600.0
"""Seconds after which it is over in any case: a working day."""
_MOST: Final = 10_000
"""Sessions in which nobody is logged in; with more, those that were not used for longest go. Anybody can begin one."""
_NOT_NOTED: Final = 60.0
"""Seconds in which further use of a session is not written down, to spare the file."""


@attrs.frozen(kw_only=True)
class BrowserSession:
    """What is known of a browser."""

    id: str = attrs.field(repr=False)
    """What its cookie says."""
    browser: str = attrs.field(repr=False)
    """To this is bound what it opened. Never shown to anybody."""
    form_key: bytes = attrs.field(repr=False)
    """What its forms are known by."""
    subject: str | None = None
    """Who is logged in."""
    shown: str | None = None
    """That person's name, for the person."""
    auth_time: float | None = None
    """When that was, in seconds since the epoch."""
    created_at: float
    """When it began, likewise."""
    used_at: float
    """When it was used last, as far as it was written down."""

    def form_token(self, purpose: str) -> str:
        """Proves that a form was made for this session and this purpose."""
        return hmac.new(self.form_key, purpose.encode(), hashlib.sha256).hexdigest()

    def made(self, token: str, purpose: str) -> bool:
        """Whether a token is of this session and purpose."""
        return hmac.compare_digest(token.encode(), self.form_token(purpose).encode())


class BrowserSessions:
    """The sessions of all browsers.

    Args:
        store: Where they are kept.
        issuer: Of the authorization server; another one on the same host, by another port, has another cookie.
        secure: Whether it is https, and so has cookies that no other host can plant.
        clock: Seconds since the epoch.
    """

    def __init__(self, store: SqliteStore, *, issuer: str, secure: bool, clock: Callable[[], float]) -> None:
        self._store: Final = store
        self._clock: Final = clock
        name = f"mcp-login-{hashlib.sha256(issuer.encode()).hexdigest()[:8]}"
        self.cookie: Final = f"__Host-{name}" if secure else name
        """The name of the cookie."""
        self._attributes: Final = "; Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if secure else "")

    def set_cookie(self, session: BrowserSession) -> tuple[str, str]:
        """The header that makes a browser remember a session, for as long as the browser runs."""
        return "Set-Cookie", f"{self.cookie}={session.id}{self._attributes}"

    def drop_cookie(self) -> tuple[str, str]:
        """The header that makes a browser forget it."""
        return "Set-Cookie", f"{self.cookie}={self._attributes}; Max-Age=0"

    async def find(self, cookies: str) -> BrowserSession | None:
        """The session of a request.

        Args:
            cookies: The Cookie header, or nothing.

        Returns:
            `None`: there is none, it is over, or there are two, of which one was planted.
        """
        pairs = [pair.strip().partition("=") for pair in cookies.split(";")]
        ids = {value for name, _, value in pairs if name == self.cookie}
        if len(ids) != 1:
            return None
        id, now = ids.pop(), self._clock()
        return await self._store.run(lambda connection: _find(connection, id, now))

    async def begin(self) -> BrowserSession:
        """A session for a browser of which nothing is known."""
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
        """Somebody logged in: the session goes on under another id.

        Args:
            session: The session until now.
            subject: Who.
            shown: That person's name, for the person.
            auth_time: When, in seconds since the epoch.
        """
        return await self._renew(session, subject=subject, shown=shown, auth_time=auth_time)

    async def log_out(self, session: BrowserSession) -> BrowserSession:
        """Nobody is logged in any more; what the browser opened is still its own."""
        return await self._renew(session, subject=None, shown=None, auth_time=None)

    async def end(self, session: BrowserSession) -> None:
        """The session is over."""
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


class Openings:
    """Which browser opened a request for authorization first, and what became of it there.

    Args:
        store: Where that is kept.
        clock: Seconds since the epoch.
    """

    def __init__(self, store: SqliteStore, *, clock: Callable[[], float]) -> None:
        self._store: Final = store
        self._clock: Final = clock

    async def open(self, pending: str, session: BrowserSession, *, expires_at: float) -> bool | None:
        """A browser opens a request for authorization.

        Args:
            pending: Its id.
            session: Of the browser.
            expires_at: When it stops waiting, in seconds since the epoch.

        Returns:
            Whether that was just now for the first time. `None`: another browser was first.
        """
        now = self._clock()

        def claim(connection: sqlite3.Connection) -> bool | None:
            connection.execute("DELETE FROM page_openings WHERE expires_at <= ?", (now,))
            # What became of it is of interest for some time after it was answered.
            done = connection.execute(
                "INSERT INTO page_openings VALUES (?, ?, NULL, ?) ON CONFLICT DO NOTHING",
                (pending, session.browser, max(expires_at, now + _IDLE)),
            )
            if done.rowcount:
                return True
            return False if _opener(connection, pending) == session.browser else None

        return await self._store.run(claim)

    async def answered(self, pending: str, outcome: str) -> None:
        """A request was answered.

        Args:
            pending: Its id.
            outcome: How, for the person who comes back to the page.
        """
        await self._store.run(
            lambda connection: connection.execute(
                "UPDATE page_openings SET outcome = ? WHERE pending = ?", (outcome, pending)
            )
        )

    async def outcome(self, pending: str, session: BrowserSession) -> str | None:
        """How a request was answered in this very browser; `None` when it was not."""

        def find(connection: sqlite3.Connection) -> str | None:
            found: tuple[str | None] | None = connection.execute(
                "SELECT outcome FROM page_openings WHERE pending = ? AND browser = ?", (pending, session.browser)
            ).fetchone()
            return None if found is None else found[0]

        return await self._store.run(find)


def _opener(connection: sqlite3.Connection, pending: str) -> str:
    found: tuple[str] = connection.execute("SELECT browser FROM page_openings WHERE pending = ?", (pending,)).fetchone()
    return found[0]
