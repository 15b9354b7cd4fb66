"""`OAuth`: tokens for the servers that a client talks to."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

from mcp_client.auth.login import Options
from mcp_client.auth.revocation import revoke
from mcp_client.auth.stores.memory import MemoryStore
from mcp_client.auth.tokens import Need, ServerTokens
from mcp_client.auth.user_agents import SystemBrowser
from mcp_core.errors import LocalProtocolError
from mcp_core.oauth.challenge import choose_challenge, read_challenges
from mcp_core.oauth.client_metadata import ClientSettings
from mcp_core.oauth.dpop import DPOP
from mcp_core.oauth.scopes import StepUps
from mcp_core.oauth.token_presentation import BEARER
from mcp_core.oauth.urls import check_browser_url

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import Literal

    from mcp_client.auth.stores.protocol import CredentialStore
    from mcp_client.auth.user_agents import UserAgent
    from mcp_client.http_client.tls import Tls
    from mcp_client.transports.http.authorizer import Answered, Site
    from mcp_core.oauth.addresses import AddressClass
    from mcp_core.oauth.challenge import Challenge
    from mcp_core.oauth.dpop import Proof
    from mcp_core.oauth.grants import Grant
    from mcp_core.oauth.jws import Signer
    from mcp_core.oauth.records import ClientRecord
    from mcp_core.oauth.steps import Pairs

__all__ = ["OAuth"]

_NONCES: Final = 3
"""How often a request is made again only because the server wants another nonce in its proof."""

_REDIRECT_URIS: Final = ("http://127.0.0.1/callback",)
"""Where `SystemBrowser` listens, on some port."""


class OAuth:
    """Gets tokens where servers want them, and keeps them: `open_http(url, auth=OAuth("Notebook reader"))`.

    Nothing is asked before a server refuses a request. Then its authorization server is found, the client registered if
    need be, and the person sent to a browser; with another grant, nobody is asked. Tokens are renewed before they end.
    One instance may serve many connections, also to different servers: tokens of one are never shown to another.

    Spec: basic/authorization

    Args:
        client_name: How the client is called, for the person who is asked for consent.
        settings: All there is to say of the client, in place of its name.
        grant: How a token is got, or an asynchronous function that gives it anew each time, as an assertion that is
            short-lived needs it. `None`: a person consents in a browser.
        store: What is kept. `None`: as long as this object lives.
        user_agent: The way to the person. `None`: the browser of the system.
        credentials: Clients that were registered by hand, each with its issuer.
        scopes: What to ask for where the server does not say; `None`: all that it lists.
        authorization_server: The issuer to use in place of what the server names.
        signer: The client's key, for `private_key_jwt`.
        proof: The key that tokens are bound to, where the authorization server can do that.
        networks: Where URLs from peers may lead; `None`: to public addresses, and to those of the kind that the server
            has itself.

    Raises:
        LocalProtocolError: There is neither a name nor settings, or there are both.
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
            raise LocalProtocolError("a client has a client_name or settings, in which its name is")
        self._clock: Callable[[], float] = time.time
        self._options: Final = Options(
            client=settings,
            grant=grant,
            store=MemoryStore() if store is None else store,
            user_agent=SystemBrowser() if user_agent is None else user_agent,
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
        """The extension of the grant, where it has one. Of a grant that a function gives it is not known in time."""
        extension = getattr(self._options.grant, "extension", None)
        return (extension,) if isinstance(extension, str) else ()

    def authorizer(self, site: Site) -> Bound:
        """What gives the requests of one connection their credentials. Called by `open_http`.

        Args:
            site: The connection.

        Raises:
            UnsafeUrl: The server is none that tokens can be sent to.
        """
        check_browser_url(site.url, what="server URL")
        return Bound(self._options, self._tokens(site.url), site)

    async def log_out(
        self,
        url: str,
        *,
        tls: ssl.SSLContext | Tls | None = None,
        proxies: Mapping[str, str] | Literal[False] | None = None,
    ) -> bool:
        """Deletes the tokens for a server, and has their authorization server revoke them.

        What is kept is deleted first, whatever becomes of the rest; the client's id at the authorization server too.

        Args:
            url: The server.
            tls: As in `open_http`.
            proxies: As in `open_http`.

        Returns:
            Whether there was something.

        Raises:
            AuthorizationError: It was not revoked; the tokens are good until they end.
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
    """The credentials of one connection. Made by `OAuth`."""

    def __init__(self, options: Options, tokens: ServerTokens, site: Site) -> None:
        self._options: Final = options
        self._tokens: Final = tokens
        self._site: Final = site
        # Without a key a challenge by DPoP is read all the same, so that the error can say what is lacking.
        self._schemes: Final = (BEARER, DPOP) if options.proof is None else (DPOP, BEARER)
        self._stepped_up: Final[set[str]] = set()

    async def headers(self, method: str, url: str) -> Pairs:
        """See `Authorizer`."""
        await self._tokens.load()
        await self._tokens.refresh_if_due(self._site)
        return self._tokens.headers(method, url)

    async def identity(self) -> str | None:
        """See `Authorizer`."""
        await self._tokens.load()
        return self._tokens.identity

    def answered(self, answer: Answered) -> bool:
        """See `Authorizer`."""
        if self._options.proof is not None:
            self._options.proof.learn(answer.url, answer.headers)
        if answer.status not in (401, 403):
            if answer.status < 300 and self._tokens.shown_in(answer.sent):
                self._tokens.accepted()
                if answer.operation in self._stepped_up:
                    self._stepped_up.discard(answer.operation)
                    self._options.step_ups.succeeded(self._site.url, answer.operation)
            return False
        challenge = self._challenge(answer)
        if self._lacks_nonce(answer, challenge):
            return True
        if answer.method == "DELETE":
            # Said when the connection is closed; nobody logs in for that.
            return False
        lacks_scope = challenge is not None and challenge.wants_more_scope
        if lacks_scope and self._tokens.shown_in(answer.sent):
            # It is good, as far as it goes.
            self._tokens.accepted()
        return answer.status == 401 or lacks_scope

    async def renew(self, answer: Answered) -> None:
        """See `Authorizer`."""
        challenge = self._challenge(answer)
        if self._lacks_nonce(answer, challenge) or not self._tokens.shown_in(answer.sent):
            # What is to be shown has changed since.
            return
        if challenge is not None and challenge.wants_more_scope:
            self._stepped_up.add(answer.operation)
        else:
            self._tokens.check_worth_another(challenge)
        need = Need(challenge=challenge, operation=answer.operation, attended=answer.awaited, refused=True)
        await self._tokens.obtain(self._site, need)

    def _challenge(self, answer: Answered) -> Challenge | None:
        values = [value for name, value in answer.headers if name == "www-authenticate"]
        return choose_challenge(read_challenges(values), schemes=self._schemes)

    def _lacks_nonce(self, answer: Answered, challenge: Challenge | None) -> bool:
        wanted = challenge is not None and challenge.wants_nonce and self._options.proof is not None
        return wanted and answer.repeats < _NONCES
