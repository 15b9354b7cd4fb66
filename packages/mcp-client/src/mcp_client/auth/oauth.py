"""`OAuth`: access tokens for the servers of a client."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, ClassVar, Final

from mcp_client.auth.application import ApplicationStore, ApplicationUserAgent
from mcp_client.auth.login import LoginOptions
from mcp_client.auth.revocation import revoke
from mcp_client.auth.stores.memory import MemoryStore
from mcp_client.auth.tokens import ServerTokens, TokenRequirement
from mcp_client.auth.user_agents import SystemBrowser
from mcp_client.worker_threads import check_plain
from mcp_core.errors import LocalProtocolError
from mcp_core.oauth.challenge import choose_challenge, read_challenges
from mcp_core.oauth.client_metadata import ClientSettings
from mcp_core.oauth.dpop import DPOP
from mcp_core.oauth.scopes import StepUps
from mcp_core.oauth.token_presentation import BEARER
from mcp_core.oauth.urls import check_browser_url
from mcp_core.trio.async_library import allow_asyncio

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import Literal

    from mcp_client.auth.stores.protocol import CredentialStore
    from mcp_client.auth.user_agents import UserAgent
    from mcp_client.transports.http.authorizer import ConnectionTarget, ObservedResponse
    from mcp_core.oauth.addresses import AddressClass
    from mcp_core.oauth.challenge import Challenge
    from mcp_core.oauth.dpop import Proof
    from mcp_core.oauth.grants import Grant
    from mcp_core.oauth.jws import Signer
    from mcp_core.oauth.records import ClientRecord
    from mcp_core.oauth.steps import Pairs
    from mcp_core.trio.async_library import AsyncLibrary
    from mcp_core.trio.http_client.tls import Tls

__all__ = ["OAuth"]

_NONCES: Final = 3
"""Maximum number of repetitions of a request only because the server requires another DPoP nonce."""

_REDIRECT_URIS: Final = ("http://127.0.0.1/callback",)
"""The redirect URI of `SystemBrowser`, which listens on any port."""


class OAuth:
    """The OAuth client: it obtains and stores tokens for servers. Use `open_http(url, auth=OAuth("Notebook reader"))`.

    The login starts when a server rejects a request. `OAuth` discovers the authorization server, registers the client
    if necessary, and opens the authorization page in a browser. Other grants do not require the user. Tokens are
    refreshed before they expire. One instance may serve many connections, also to different servers. A token is never
    sent to another server.

    Spec: basic/authorization

    Args:
        client_name: The name of the client that the consent page shows to the user.
        settings: All settings of the client, instead of `client_name`.
        grant: The grant, or an asynchronous function that returns a new grant each time, for example with a short-lived
            assertion. `None`: the user consents in a browser.
        store: The store for tokens and clients; `None` for a `MemoryStore` with the lifetime of this object.
        user_agent: The interaction with the user; `None` for the browser of the system.
        credentials: Clients that were registered manually, each with its issuer.
        scopes: The scopes to request if the server does not name any; `None` for all that the server lists.
        authorization_server: The issuer to use instead of the one that the server names.
        signer: The client's key, for `private_key_jwt`.
        proof: The key to bind tokens to, if the authorization server supports DPoP.
        networks: The networks that URLs from peers may refer to; `None` for public addresses and the address classes of
            the server itself.

    Raises:
        LocalProtocolError: Both or neither of `client_name` and `settings` are given; or `signer` or `proof` has a coroutine
            method.
    """

    def __init__(
        self,
        client_name: str | None = None,
        *,
        settings: ClientSettings | None = None,
        grant: Grant | Callable[[], Awaitable[Grant]] | None = None,
        store: CredentialStore | None = None,
        user_agent: UserAgent | None = None,
        credentials: Sequence[ClientRecord] = (),
        scopes: Sequence[str] | None = None,
        authorization_server: str | None = None,
        signer: Signer | None = None,
        proof: Proof | None = None,
        networks: frozenset[AddressClass] | None = None,
    ) -> None:
        if settings is None and client_name:
            settings = ClientSettings(client_name=client_name, redirect_uris=_REDIRECT_URIS)
        elif settings is None or client_name is not None:
            raise LocalProtocolError("OAuth needs either client_name or settings, not both; settings contain the name")
        if signer is not None:
            check_plain(signer.sign, "OAuth.signer.sign")
        if proof is not None:
            check_plain(proof.headers, "OAuth.proof.headers")
            check_plain(proof.learn, "OAuth.proof.learn")
        self._store: Final = ApplicationStore(MemoryStore() if store is None else store)
        self._user_agent: Final = ApplicationUserAgent(SystemBrowser() if user_agent is None else user_agent)
        self._clock: Callable[[], float] = time.time
        self._options: Final = LoginOptions(
            client=settings,
            grant=grant,
            store=self._store,
            user_agent=self._user_agent,
            credentials=tuple(credentials),
            scopes=None if scopes is None else tuple(scopes),
            authorization_server=authorization_server,
            signer=signer,
            proof=proof,
            networks=networks,
            step_ups=StepUps(),
            clock=self._now,
            random_bytes=secrets.token_bytes,
        )
        self._servers: Final[dict[str, ServerTokens]] = {}

    def _now(self) -> float:
        return self._clock()

    @property
    def extensions(self) -> tuple[str, ...]:
        """The extension of the grant, if any. If a function returns the grant, its extension is not known in time."""
        extension = getattr(self._options.grant, "extension", None)
        return (extension,) if isinstance(extension, str) else ()

    def authorizer(self, target: ConnectionTarget) -> Bound:
        """Return the source of credentials for one connection. Called by `open_http`.

        Args:
            target: The connection.

        Raises:
            UnsafeUrl: Tokens must not be sent to this server.
            WrongAsyncLibrary: The store or the user agent is written for asyncio, but trio runs without it.
        """
        check_browser_url(target.url, what="server URL")
        self._store.check()
        self._user_agent.check()
        return Bound(self._options, self._tokens(target.url), target)

    @allow_asyncio
    async def log_out(
        self,
        url: str,
        *,
        tls: ssl.SSLContext | Tls | None = None,
        proxies: Mapping[str, str] | Literal[False] | None = None,
    ) -> bool:
        """Delete the tokens for a server, and revoke them at their authorization server.

        The stored tokens and the client id of the authorization server are deleted first, even if the revocation fails.

        Args:
            url: The URL of the server.
            tls: As in `open_http`.
            proxies: As in `open_http`.

        Returns:
            Whether there were tokens.

        Raises:
            AuthorizationError: The revocation failed; the tokens are valid until they expire.
            CredentialStoreError: The store failed.
        """
        options = self._options
        tokens = await self._tokens(url).forget()
        if tokens is None:
            return False
        await revoke(tokens, networks=options.networks, signer=options.signer, tls=tls, proxies=proxies)
        return True

    def _tokens(self, url: str) -> ServerTokens:
        tokens = self._servers.get(url)
        if tokens is None:
            tokens = self._servers[url] = ServerTokens(self._options, url)
        return tokens


class Bound:
    """The credentials of one connection. Created by `OAuth`."""

    async_library: ClassVar[AsyncLibrary] = "trio"
    """It calls the store and the user agent of the application on their libraries."""

    def __init__(self, options: LoginOptions, tokens: ServerTokens, target: ConnectionTarget) -> None:
        self._options: Final = options
        self._tokens: Final = tokens
        self._target: Final = target
        # Without a key, DPoP challenges are parsed too, so that the error can state what is missing.
        self._schemes: Final = (BEARER, DPOP) if options.proof is None else (DPOP, BEARER)
        self._stepped_up: Final[set[str]] = set()

    async def headers(self, method: str, url: str) -> Pairs:
        """Return the headers for one request, after a refresh of the token if it is due."""
        await self._tokens.load()
        await self._tokens.refresh_if_due(self._target)
        return self._tokens.headers(method, url)

    async def identity(self) -> str | None:
        """Return a text that changes with each login and not with a refresh; `None` without tokens."""
        await self._tokens.load()
        return self._tokens.identity

    def answered(self, answer: ObservedResponse) -> bool:
        """Receive the head of a response, and return whether `renew` can handle its rejection."""
        if self._options.proof is not None:
            self._options.proof.learn(answer.url, answer.headers)
        if answer.status not in (401, 403):
            if answer.status < 300 and self._tokens.shown_in(answer.sent):
                self._tokens.accepted()
                if answer.operation in self._stepped_up:
                    self._stepped_up.discard(answer.operation)
                    self._options.step_ups.succeeded(self._target.url, answer.operation)
            return False
        challenge = self._challenge(answer)
        if self._lacks_nonce(answer, challenge):
            return True
        if answer.method == "DELETE":
            # Sent when the connection is closed, which is not a reason for a login.
            return False
        lacks_scope = challenge is not None and challenge.wants_more_scope
        if lacks_scope and self._tokens.shown_in(answer.sent):
            # The token is valid, but lacks scopes.
            self._tokens.accepted()
        return answer.status == 401 or lacks_scope

    async def renew(self, answer: ObservedResponse) -> None:
        """Obtain a token, unless the credentials have changed since the rejected request."""
        challenge = self._challenge(answer)
        if self._lacks_nonce(answer, challenge) or not self._tokens.shown_in(answer.sent):
            # The next attempt presents the new credentials.
            return
        if challenge is not None and challenge.wants_more_scope:
            self._stepped_up.add(answer.operation)
        else:
            self._tokens.check_worth_another(challenge)
        need = TokenRequirement(challenge=challenge, operation=answer.operation, attended=answer.awaited, refused=True)
        await self._tokens.obtain(self._target, need)

    def _challenge(self, answer: ObservedResponse) -> Challenge | None:
        values = [value for name, value in answer.headers if name == "www-authenticate"]
        return choose_challenge(read_challenges(values), schemes=self._schemes)

    def _lacks_nonce(self, answer: ObservedResponse, challenge: Challenge | None) -> bool:
        wanted = challenge is not None and challenge.wants_nonce and self._options.proof is not None
        return wanted and answer.repeats < _NONCES
