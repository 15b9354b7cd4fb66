"""Access tokens that are JWTs: verified with the public keys of the authorization server.

The keys are fetched when the first token comes, and again when they are old, or when a token names one that is not
among them: authorization servers change them without notice. A stranger can make up names of keys, so that happens no
more often than every few seconds, and one fetch serves all who wait. When it fails, the keys that are there stay in use.

Spec: RFC 9068, RFC 7517, RFC 8725; OpenID Connect Core 1.0 section 10.1.1
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.errors import InvalidValue, McpError
from mcp_core.oauth.access_token import InvalidToken, read_access_token
from mcp_core.oauth.discovery import authorization_server_urls
from mcp_core.oauth.metadata import check_issuer, read_authorization_server
from mcp_core.oauth.signatures import VERIFIED_ALGORITHMS, read_signed
from mcp_core.oauth.urls import check_browser_url
from mcp_server.auth.fetch import OWN_NETWORKS, FetchRefused, fetch_json, networks_named_by
from mcp_server.auth.keys import JoseVerifier, PublicKey, choose, public_keys
from mcp_server.auth.tokens import KnownTokens, TokensUnavailable, digest_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from mcp_core.oauth.access_token import AccessToken
    from mcp_core.oauth.signatures import Signed

__all__ = ["JwtTokens"]

_log: Final = logging.getLogger("mcp_server")

_FRESH: Final = 900.0
"""Seconds after which the keys are fetched again."""

_AGAIN: Final = 10.0
"""Seconds between two fetches, whatever tokens name."""

_KNOWN: Final = 300.0
"""Seconds that a token counts as verified: as long as a key that was taken back may still be used."""


class JwtTokens:
    """Verifies access tokens that are JWTs. It is a `TokenVerifier`.

    Args:
        issuer: The authorization server: what `iss` has to be, octet by octet.
        jwks_uri: Where its keys are. By default that is looked up in its metadata.
        keys: Its keys, as a JWK set; nothing is fetched then.
        algorithms: Those that it signs with. Asymmetric ones only.
        kinds: What `typ` may be: `at+jwt` by the standard. Many products write `JWT` there, which they also do in tokens of
            other kinds; list it only for them.

    Raises:
        ValueError: An algorithm or the keys cannot be used.
        UnsafeUrl: A URL is none that an answer could be trusted from.
    """

    def __init__(
        self,
        issuer: str,
        *,
        jwks_uri: str | None = None,
        keys: Mapping[str, object] | None = None,
        algorithms: Iterable[str] = VERIFIED_ALGORITHMS,
        kinds: Iterable[str] = ("at+jwt",),
    ) -> None:
        self.issuer: Final = issuer
        """The authorization server."""
        self._issuer_url: Final = check_browser_url(issuer, what="issuer")
        self._discovered_uri: str | None = None
        self._jwks_uri: Final = None if jwks_uri is None else check_browser_url(jwks_uri, what="jwks_uri").text
        self._algorithms: Final = tuple(algorithms)
        foreign = sorted(set(self._algorithms) - set(VERIFIED_ALGORITHMS))
        if foreign or not self._algorithms:
            raise ValueError(f"algorithms: {foreign} cannot be used; there are {', '.join(VERIFIED_ALGORITHMS)}")
        self._kinds: Final = frozenset(kind.lower() for kind in kinds)
        given = None if keys is None else public_keys(keys)
        if given == ():
            raise ValueError("keys: there is no public key of EC, OKP or RSA in the set that could verify a signature")
        self._keys: Final = _Keys(self._fetch, given)
        self._verifier: Final = JoseVerifier()
        self._known: Final = KnownTokens(_KNOWN)

    async def verify(self, token: str) -> AccessToken:
        """See `TokenVerifier.verify`."""
        digest = digest_of(token)
        known = self._known.find(digest)
        if known is not None and known[0] is not None and not self._keys.are_old:
            return known[0]
        try:
            signed = read_signed(token, algorithms=self._algorithms)
        except InvalidValue as bad:
            raise InvalidToken(f"the access token cannot be used: {bad.message}") from None
        if signed.kind not in self._kinds:
            raise InvalidToken(f"the access token is none: its typ is not {' or '.join(sorted(self._kinds))}")
        # What cannot be good anyway must not make anybody fetch keys.
        if signed.claims.get("iss") != self.issuer:
            raise InvalidToken("the access token is not from an authorization server of this resource")
        changes = self._keys.changes
        key = await self._key(signed)
        if self._keys.changes != changes:
            self._known.clear()
        if not self._verifier.verify(key.jwk, signed.algorithm, signed.data, signed.signature):
            raise InvalidToken("the signature of the access token is wrong")
        read = read_access_token(signed.claims)
        if read.expires_at is None:
            raise InvalidToken("the access token does not say when it ends")
        self._known.learn(digest, read)
        return read

    async def _key(self, signed: Signed) -> PublicKey:
        key = choose(await self._keys.fresh(), signed)
        if key is None:
            key = choose(await self._keys.newer(), signed)
        if key is None:
            raise InvalidToken("the access token was signed with a key that its authorization server does not have")
        return key

    async def _fetch(self) -> tuple[PublicKey, ...]:
        """The keys, from where they are. Raises `McpError`."""
        uri, networks = self._jwks_uri, OWN_NETWORKS
        if uri is None:
            uri = self._discovered_uri = self._discovered_uri or await self._discovered()
            networks = await networks_named_by(self._issuer_url, uri)
        keys = public_keys(await fetch_json(uri, networks=networks))
        if not keys:
            raise FetchRefused(uri, "there is no key in it that could be used")
        return keys

    async def _discovered(self) -> str:
        """The URL of the keys, from the metadata of the issuer. Raises `McpError`."""
        failure: McpError | None = None
        for url in authorization_server_urls(self._issuer_url):
            try:
                metadata = read_authorization_server(await fetch_json(url, networks=OWN_NETWORKS))
                check_issuer(metadata, self.issuer)
            except McpError as error:
                failure = failure or error
                continue
            if metadata.jwks_uri is not None:
                return metadata.jwks_uri
        raise failure or FetchRefused(self.issuer, "its metadata have no jwks_uri")


class _Keys:
    """The keys of one authorization server, and their age."""

    def __init__(
        self, get: Callable[[], Awaitable[tuple[PublicKey, ...]]], given: tuple[PublicKey, ...] | None
    ) -> None:
        self.changes = 0
        """How often they became others."""
        self._get: Final = get
        self._given: Final = given is not None
        self._keys: tuple[PublicKey, ...] = given or ()
        self._lock: Final = trio.Lock()
        self._got_at = self._tried_at = float("-inf")
        self._tries = 0

    @property
    def are_old(self) -> bool:
        """Whether they should be fetched again, and may be."""
        now = trio.current_time()
        return not self._given and now >= self._got_at + _FRESH and now >= self._tried_at + _AGAIN

    async def fresh(self) -> tuple[PublicKey, ...]:
        """The keys. Raises `TokensUnavailable` when there are none."""
        if self.are_old and not (self._keys and self._lock.locked()):
            await self._refetch()
        if not self._keys:
            raise TokensUnavailable("there are no keys to verify access tokens with")
        return self._keys

    async def newer(self) -> tuple[PublicKey, ...]:
        """The keys, fetched again if that was not done just now."""
        if not self._given:
            await self._refetch()
        return self._keys

    async def _refetch(self) -> None:
        tries = self._tries
        async with self._lock:
            # Who waited has what the one before got; so has who comes right after it.
            if self._tries != tries or trio.current_time() < self._tried_at + _AGAIN:
                return
            try:
                keys = await self._get()
            except McpError as error:
                _log.warning("the keys of access tokens cannot be fetched: %s", error)
            else:
                self._got_at = trio.current_time()
                if keys != self._keys:
                    self._keys = keys
                    self.changes += 1
            # A fetch that was broken off does not count: the next one in the row makes it.
            self._tried_at = trio.current_time()
            self._tries += 1
