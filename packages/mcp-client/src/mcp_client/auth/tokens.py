"""The tokens for one server, and the one login that may be in progress for it.

A caller that needs a new token waits for the login in progress, or starts one. The login runs in the nursery of the
connection that started it. A cancelled caller therefore does not end a login that other callers wait for; the login is
cancelled when the last of them has gone. If the login ends without a result, because its connection was closed, the
next waiting caller starts another one. All other callers receive its result, including an error.

The lock of the store does the same between processes. After acquiring it, the tokens are loaded again. If another
process has obtained newer tokens, these are used.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_client.auth.login import Login, LoginRequest
from mcp_core.errors import AuthorizationError, ConnectionEnded, ErrorContext, McpError, TokenRefused
from mcp_core.field_methods import FieldValue
from mcp_core.oauth.token_presentation import authorization_headers

if TYPE_CHECKING:
    from mcp_client.auth.login import LoginOptions
    from mcp_client.transports.http.authorizer import ConnectionTarget
    from mcp_core.oauth.challenge import Challenge
    from mcp_core.oauth.records import TokenRecord
    from mcp_core.oauth.steps import Pairs

__all__ = ["ServerTokens", "TokenRequirement"]

_log: Final = logging.getLogger("mcp_client")

_LEEWAY: Final = 30.0
"""Time before its expiration at which a token is renewed, in seconds: requests take time, and clocks differ. For a
short-lived token, a quarter of its lifetime."""

_TOO_SOON: Final = 60.0
"""Time in which a token that was never accepted is not replaced, in seconds: the server and its authorization server
disagree, and further logins do not help."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TokenRequirement(FieldValue):
    """The reason for a new token."""

    challenge: Challenge | None = None
    """The challenge of the server."""
    operation: str
    """The operation that the server rejected."""
    attended: bool = True
    """Whether the user may be prompted."""
    refused: bool = False
    """Whether the server rejected the present token. Otherwise the token is about to expire."""


class _Attempt:
    """A login in progress, and the callers that wait for it."""

    def __init__(self) -> None:
        self.scope: Final = trio.CancelScope()
        self.done: Final = trio.Event()
        self.waiting = 0
        self.attended = False
        self.finished = False
        self.error: McpError | None = None
        self.lacked_user = False


class ServerTokens:
    """The tokens for one server.

    Args:
        options: The settings.
        url: The URL of the server.
    """

    def __init__(self, options: LoginOptions, url: str) -> None:
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
        """Load the stored tokens, once."""
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
        """A text that changes with each login and not with a refresh."""
        return None if self._tokens is None else f"{self._tokens.issuer} {self._logins}"

    def headers(self, method: str, url: str) -> Pairs:
        """Return the headers that present the token with a request; empty without a token."""
        if self._tokens is None:
            return ()
        options = self._options
        return authorization_headers(self._tokens, method=method, url=url, now=options.clock(), proof=options.proof)

    def shown_in(self, sent: Pairs) -> bool:
        """Return whether a request presented the present token; without tokens, whether it presented none."""
        shown = next((value for name, value in sent if name == "Authorization"), None)
        tokens = self._tokens
        return shown == (None if tokens is None else f"{tokens.token_type} {tokens.access_token}")

    def accepted(self) -> None:
        """Record that the server accepted the present token."""
        self._accepted = True

    async def forget(self) -> TokenRecord | None:
        """Delete the stored tokens and the client id of their issuer. Return the tokens; `None` if not found."""
        store = self._options.store
        async with store.lock(self._url):
            kept = await self._kept() or self._tokens
            await store.save_tokens(self._url, None)
            if kept is not None:
                # Tokens of other servers contain a copy of the client in their own records.
                await store.save_client(kept.issuer, None)
            self._tokens = self._renew_at = None
            self._loaded, self._unsaved = True, False
        return kept

    # --- keeping them fresh ----------------------------------------------------------------------------------------

    async def refresh_if_due(self, target: ConnectionTarget) -> None:
        """Renew a token that is about to expire, if that does not require the user.

        Raises:
            McpError: The token has expired and cannot be renewed.
        """
        tokens = self._tokens
        if tokens is None or not self._is_due():
            return
        if tokens.refresh_token is None and self._options.needs_user:
            # The server's challenge is more reliable than the local clock, and names the required scopes.
            return
        try:
            await self.obtain(target, TokenRequirement(operation="refresh"))
        except McpError as error:
            now = self._options.clock()
            if self._tokens is not tokens or tokens.expires_at is None or now >= tokens.expires_at:
                raise
            _log.warning("token not renewed, still used: server=%s error=%s", self._url, error)
            self._renew_at = now + (tokens.expires_at - now) / 2

    def _is_due(self) -> bool:
        return self._renew_at is not None and self._options.clock() >= self._renew_at

    def check_worth_another(self, challenge: Challenge | None) -> None:
        """Check that another token may help after the server rejected the present one.

        Raises:
            TokenRefused: The token is new, and the server never accepted it.
        """
        tokens, got_at = self._tokens, self._got_at
        if tokens is None or got_at is None or self._accepted or self._refreshed:
            return
        if self._options.clock() - got_at < _TOO_SOON:
            error = None if challenge is None else challenge.error
            raise TokenRefused(
                f"{self._url} rejects the token that {tokens.issuer} has just issued for it"
                f"{'' if error is None else f' ({error!a:.100})'}: check that both use the same audience and scopes",
                error=error,
                status=401,
            )

    async def obtain(self, target: ConnectionTarget, need: TokenRequirement) -> None:
        """Wait for a login: the one in progress, or a new one.

        Args:
            target: The connection that needs the token.
            need: The reason.

        Raises:
            McpError: The login failed.
        """
        while True:
            attempt = self._attempt
            if attempt is None:
                if target.nursery.cancel_scope.cancel_called:
                    raise ConnectionEnded("the connection was closed while it waited for a login")
                attempt = self._attempt = _Attempt()
                target.nursery.start_soon(self._run, attempt, target, need)
            await _wait_for(attempt, target, attended=need.attended)
            if attempt.error is not None and not (attempt.lacked_user and need.attended):
                raise _again(attempt.error)
            if attempt.finished:
                return

    async def _run(self, attempt: _Attempt, target: ConnectionTarget, need: TokenRequirement) -> None:
        login = Login(self._options, target, attended=lambda: attempt.attended, keep=self._got)
        try:
            with attempt.scope:
                await self._get(login, need)
                attempt.finished = True
        except McpError as error:
            attempt.error = error
        except Exception as error:  # noqa: BLE001  the application's store, user agent or grant: raised for all callers
            attempt.error = AuthorizationError(f"getting a token for {self._url} failed: {error!r}")
            attempt.error.__cause__ = error
        finally:
            attempt.lacked_user = login.lacked_user
            self._attempt = None
            attempt.done.set()

    async def _get(self, login: Login, need: TokenRequirement) -> None:
        before = self._tokens
        async with self._options.store.lock(self._url):
            # If the tokens could not be stored, no other process can have newer ones.
            kept = before if self._unsaved else await self._kept()
            if kept is not None and (before is None or kept.access_token != before.access_token):
                # Another process was faster, or a cancelled login completed nevertheless.
                self._adopt(kept)
                if self._suffices(kept, need.challenge):
                    return
            elif kept is not None and need.refused and self._refreshed and not self._accepted:
                # After a refresh whose token was rejected, another refresh does not help.
                kept = attrs.evolve(kept, refresh_token=None)
            present = self._tokens
            try:
                await login.run(LoginRequest(challenge=need.challenge, operation=need.operation, tokens=kept))
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
        """Use stored tokens. It is unknown which user they belong to, so this counts as a login."""
        self._use(tokens)
        self._got_at, self._refreshed = None, False
        self._logins += 1

    def _got(self, tokens: TokenRecord, refreshed: bool) -> None:  # noqa: FBT001  the only information about the tokens
        """Use tokens from the authorization server."""
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


async def _wait_for(attempt: _Attempt, target: ConnectionTarget, *, attended: bool) -> None:
    attempt.waiting += 1
    attempt.attended = attempt.attended or attended
    try:
        with target.waiting():
            await attempt.done.wait()
    finally:
        attempt.waiting -= 1
        if not attempt.waiting:
            # This has no effect after the end of the login.
            attempt.scope.cancel()


def _again(error: McpError) -> McpError:
    """Return a copy of the error for one more waiting caller, because each raise adds to the context of an error."""
    again = type(error).__new__(type(error), *error.args)
    again.args = error.args
    again.__dict__.update(error.__dict__)
    again.context = ErrorContext()
    again.__cause__ = error.__cause__
    return again
