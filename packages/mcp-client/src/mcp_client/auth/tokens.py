"""The tokens for one server, and the one login that may go on for it.

Whoever needs a token that is not there waits for the login that goes on, or begins one. It runs in the nursery of the
connection that began it, so that a caller who gives up takes it from nobody else: it ends when the last one has gone. When it
ends without an outcome, because that connection was closed, the next one who waits begins anew. Everybody else gets its
outcome, be it an error.

Over processes the lock of the store does the same. Behind it the tokens are loaded again: if another process has got newer
ones meanwhile, these are used.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_client.auth.login import Login, Wanted
from mcp_core.errors import AuthorizationError, Circumstances, ConnectionEnded, McpError, TokenRefused
from mcp_core.oauth.token_presentation import authorization_headers

if TYPE_CHECKING:
    from mcp_client.auth.login import Options
    from mcp_client.transports.http.authorizer import Site
    from mcp_core.oauth.challenge import Challenge
    from mcp_core.oauth.records import TokenRecord
    from mcp_core.oauth.steps import Pairs

__all__ = ["Need", "ServerTokens"]

_log: Final = logging.getLogger("mcp_client")

_LEEWAY: Final = 30.0
"""Seconds before its end from which on a token is renewed: a request takes its time, and clocks differ. Of a short-lived
one a quarter of its life."""

_TOO_SOON: Final = 60.0
"""Seconds in which a token that was never accepted is not replaced by another one: the server and its authorization server
disagree, and no number of logins helps."""


@attrs.frozen(kw_only=True)
class Need:
    """What another token is needed for."""

    challenge: Challenge | None = None
    """What the server said."""
    operation: str
    """What was tried."""
    attended: bool = True
    """Whether a person may be asked."""
    refused: bool = False
    """The server refused the present one; otherwise its time has passed."""


class _Attempt:
    """A login that goes on, and who waits for it."""

    def __init__(self) -> None:
        self.scope: Final = trio.CancelScope()
        self.done: Final = trio.Event()
        self.waiting = 0
        self.attended = False
        self.finished = False
        self.error: McpError | None = None
        self.lacked_person = False


class ServerTokens:
    """The tokens for one server.

    Args:
        options: How they are got.
        url: The server.
    """

    def __init__(self, options: Options, url: str) -> None:
        self._options: Final = options
        self._url: Final = url
        self._tokens: TokenRecord | None = None
        self._loaded = False
        self._unsaved = False
        self._renew_at: float | None = None
        self._got_at: float | None = None
        self._refreshed = False
        self._accepted = False
        self._logins = 0
        self._attempt: _Attempt | None = None

    async def load(self) -> None:
        """Reads what is kept, once."""
        if not self._loaded:
            kept = await self._kept()
            if not self._loaded:
                self._loaded = True
                if kept is not None:
                    self._adopt(kept)

    async def _kept(self) -> TokenRecord | None:
        kept = await self._options.store.load_tokens(self._url)
        return kept if kept is not None and kept.server_url == self._url else None

    @property
    def identity(self) -> str | None:
        """Whose they are: changes with each login, and not with a refresh."""
        return None if self._tokens is None else f"{self._tokens.issuer} {self._logins}"

    def headers(self, method: str, url: str) -> Pairs:
        """How the present token is shown with a request; nothing when there is none."""
        if self._tokens is None:
            return ()
        options = self._options
        return authorization_headers(self._tokens, method=method, url=url, now=options.clock(), proof=options.proof)

    def shown_in(self, sent: Pairs) -> bool:
        """Whether a request was made with the present token; or without one, while there is none."""
        shown = next((value for name, value in sent if name == "Authorization"), None)
        tokens = self._tokens
        return shown == (None if tokens is None else f"{tokens.token_type} {tokens.access_token}")

    def accepted(self) -> None:
        """The server took the present token."""
        self._accepted = True

    async def forget(self) -> TokenRecord | None:
        """Deletes what is kept for the server, and the client's id at its issuer. The tokens; `None`: there were none."""
        store = self._options.store
        async with store.lock(self._url):
            kept = await self._kept() or self._tokens
            await store.save_tokens(self._url, None)
            if kept is not None:
                # Others who are logged in there have it in their own records.
                await store.save_client(kept.issuer, None)
            self._tokens = self._renew_at = None
            self._loaded, self._unsaved = True, False
        return kept

    # --- keeping them fresh ----------------------------------------------------------------------------------------

    async def refresh_if_due(self, site: Site) -> None:
        """Renews a token that is about to end, where that takes no person.

        Raises:
            McpError: It has ended, and cannot be renewed.
        """
        tokens = self._tokens
        if tokens is None or not self._is_due():
            return
        if tokens.refresh_token is None and self._options.needs_person:
            # The server's own word is better than our clock, and says which scopes are needed.
            return
        try:
            await self.obtain(site, Need(operation="refresh"))
        except McpError as error:
            now = self._options.clock()
            if self._tokens is not tokens or tokens.expires_at is None or now >= tokens.expires_at:
                raise
            _log.warning("the token for %s is used on, since it could not be renewed: %s", self._url, error)
            self._renew_at = now + (tokens.expires_at - now) / 2

    def _is_due(self) -> bool:
        return self._renew_at is not None and self._options.clock() >= self._renew_at

    def check_worth_another(self, challenge: Challenge | None) -> None:
        """Makes sure that another token may help where the present one was refused.

        Raises:
            TokenRefused: It has just come from the authorization server, and was never accepted.
        """
        tokens, got_at = self._tokens, self._got_at
        if tokens is None or got_at is None or self._accepted or self._refreshed:
            return
        if self._options.clock() - got_at < _TOO_SOON:
            error = None if challenge is None else challenge.error
            raise TokenRefused(
                f"{self._url} refuses the token that {tokens.issuer} has just given for it"
                f"{'' if error is None else f' ({error!a:.100})'}: they disagree on what tokens are good for",
                error=error,
                status=401,
            )

    async def obtain(self, site: Site, need: Need) -> None:
        """Waits for a login: the one that goes on, or a new one.

        Args:
            site: The connection that wants it.
            need: What for.

        Raises:
            McpError: There are no tokens.
        """
        while True:
            attempt = self._attempt
            if attempt is None:
                if site.nursery.cancel_scope.cancel_called:
                    raise ConnectionEnded("the connection was closed while a login was waited for")
                attempt = self._attempt = _Attempt()
                site.nursery.start_soon(self._run, attempt, site, need)
            await _wait_for(attempt, site, attended=need.attended)
            if attempt.error is not None and not (attempt.lacked_person and need.attended):
                raise _again(attempt.error)
            if attempt.finished:
                return

    async def _run(self, attempt: _Attempt, site: Site, need: Need) -> None:
        login = Login(self._options, site, attended=lambda: attempt.attended, keep=self._got)
        try:
            with attempt.scope:
                await self._get(login, need)
                attempt.finished = True
        except McpError as error:
            attempt.error = error
        except Exception as error:  # noqa: BLE001  the application's store, user agent or grant: told to all who wait
            attempt.error = AuthorizationError(f"getting a token for {self._url} failed: {error!r}")
            attempt.error.__cause__ = error
        finally:
            attempt.lacked_person = login.lacked_person
            self._attempt = None
            attempt.done.set()

    async def _get(self, login: Login, need: Need) -> None:
        before = self._tokens
        async with self._options.store.lock(self._url):
            # Where they could not be kept, nobody else can have newer ones.
            kept = before if self._unsaved else await self._kept()
            if kept is not None and (before is None or kept.access_token != before.access_token):
                # Another process was faster; or a login that was given up came to its end all the same.
                self._adopt(kept)
                if self._suffices(kept, need.challenge):
                    return
            elif kept is not None and need.refused and self._refreshed and not self._accepted:
                # Who has just refreshed, and is refused, does not refresh again.
                kept = attrs.evolve(kept, refresh_token=None)
            present = self._tokens
            try:
                await login.run(Wanted(challenge=need.challenge, operation=need.operation, tokens=kept))
            finally:
                if self._tokens is not present:
                    self._unsaved = login.unsaved
                elif login.void:
                    self._tokens = None

    def _suffices(self, tokens: TokenRecord, challenge: Challenge | None) -> bool:
        if self._is_due():
            return False
        if challenge is None or not challenge.wants_more_scope:
            return True
        return bool(challenge.scopes) and set(challenge.scopes) <= set(tokens.scopes)

    def _adopt(self, tokens: TokenRecord) -> None:
        """Uses what was kept. Whose it is, nobody knows."""
        self._use(tokens)
        self._got_at, self._refreshed = None, False
        self._logins += 1

    def _got(self, tokens: TokenRecord, refreshed: bool) -> None:  # noqa: FBT001  there is nothing else to be told
        """Uses what the authorization server gave."""
        self._use(tokens)
        self._got_at, self._refreshed = self._options.clock(), refreshed
        if not refreshed:
            self._logins += 1

    def _use(self, tokens: TokenRecord) -> None:
        self._tokens = tokens
        self._accepted = False
        if tokens.expires_at is None:
            self._renew_at = None
        else:
            left = tokens.expires_at - self._options.clock()
            self._renew_at = tokens.expires_at - min(_LEEWAY, left / 4)


async def _wait_for(attempt: _Attempt, site: Site, *, attended: bool) -> None:
    attempt.waiting += 1
    attempt.attended = attempt.attended or attended
    try:
        with site.waiting():
            await attempt.done.wait()
    finally:
        attempt.waiting -= 1
        if not attempt.waiting:
            # Of no effect on what has ended.
            attempt.scope.cancel()


def _again(error: McpError) -> McpError:
    """The same error for one more who waited: errors are told where they happened."""
    again = type(error).__new__(type(error), *error.args)
    again.args = error.args
    again.__dict__.update(error.__dict__)
    again.circumstances = Circumstances()
    again.__cause__ = error.__cause__
    return again
