"""Verification of JWT access tokens with the public keys of the authorization server.

The keys are fetched when the first token arrives. They are fetched again when they are old, or when a token names an
unknown key, because authorization servers replace keys without notice. A client can invent key ids, so fetches are some
seconds apart, and all waiting requests share one fetch. If a fetch fails, the previous keys stay in use.

Spec: RFC 9068, RFC 7517, RFC 8725; OpenID Connect Core 1.0 section 10.1.1
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar, Final

import trio

from mcp_core.errors import InvalidValue, McpError
from mcp_core.oauth.access_token import InvalidToken, read_access_token
from mcp_core.oauth.discovery import authorization_server_urls
from mcp_core.oauth.metadata import check_issuer, read_authorization_server
from mcp_core.oauth.signatures import VERIFIED_ALGORITHMS, read_signed_jwt
from mcp_core.oauth.urls import check_browser_url
from mcp_core.trio.async_library import allow_asyncio
from mcp_server.auth.fetch import OWN_NETWORKS, FetchRefused, fetch_json, networks_named_by
from mcp_server.auth.keys import JoseVerifier, PublicKey, choose, public_keys
from mcp_server.auth.tokens import KnownTokens, TokensUnavailable, digest_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from mcp_core.oauth.access_token import AccessToken
    from mcp_core.oauth.signatures import SignedJwt
    from mcp_core.trio.async_library import AsyncLibrary

__all__ = ["JwtTokens"]

_log: Final = logging.getLogger("mcp_server")

_FRESH: Final = 900.0
"""Time after which the keys are fetched again, in seconds."""

_AGAIN: Final = 10.0
"""Minimum time between two fetches, whatever key ids the tokens contain, in seconds."""

_KNOWN: Final = 300.0
"""Time for which a verified token is cached, in seconds. During that time a token is accepted after its key was
withdrawn."""


class JwtTokens:
    """A `TokenVerifier` for access tokens that are JWTs.

    Args:
        issuer: The issuer identifier of the authorization server. `iss` must be identical to it.
        jwks_uri: The URL of its keys. By default, the `jwks_uri` in its metadata.
        keys: Its keys, as a JWK set. With it, nothing is fetched.
        algorithms: The allowed signature algorithms. Only asymmetric ones are possible.
        kinds: The allowed values of `typ`. RFC 9068 requires `at+jwt`. Many products write `JWT`, but also use it for
            tokens of other kinds; add it only for these products.

    Raises:
        ValueError: An algorithm is not supported, or the set of keys has no usable key.
        UnsafeUrl: A URL is neither https nor on this machine.
    """

    async_library: ClassVar[AsyncLibrary] = "trio"

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
        """The issuer identifier of the authorization server."""
        self._issuer_url: Final = check_browser_url(issuer, what="issuer")
        self._discovered_uri: str | None = None
        self._jwks_uri: Final = None if jwks_uri is None else check_browser_url(jwks_uri, what="jwks_uri").text
        self._algorithms: Final = tuple(algorithms)
        foreign = sorted(set(self._algorithms) - set(VERIFIED_ALGORITHMS))
        if foreign or not self._algorithms:
            raise ValueError(f"algorithms: {foreign} not supported; use some of {', '.join(VERIFIED_ALGORITHMS)}")
        self._kinds: Final = frozenset(kind.lower() for kind in kinds)
        given = None if keys is None else public_keys(keys)
        if given == ():
            raise ValueError("keys: the JWK set has no public key of type EC, OKP or RSA that can verify signatures")
        self._keys: Final = _Keys(self._fetch, given)
        self._verifier: Final = JoseVerifier()
        self._known: Final = KnownTokens(_KNOWN)

    @allow_asyncio
    async def verify(self, token: str) -> AccessToken:
        """Verify an access token.

        Raises:
            InvalidToken: The token is not a JWT access token of the issuer, or its signature is invalid.
            TokensUnavailable: The keys cannot be fetched.
        """
        digest = digest_of(token)
        known = self._known.find(digest)
        if known is not None and known[0] is not None and not self._keys.are_old:
            return known[0]
        try:
            signed = read_signed_jwt(token, algorithms=self._algorithms)
        except InvalidValue as bad:
            raise InvalidToken(f"invalid access token: {bad.message}") from None
        if signed.kind not in self._kinds:
            raise InvalidToken(f"not an access token: its typ is not {' or '.join(sorted(self._kinds))}")
        # Check this before the signature: a token of another issuer must not cause a fetch of the keys.
        if signed.claims.get("iss") != self.issuer:
            raise InvalidToken("the access token is not from an authorization server of this resource")
        changes = self._keys.changes
        key = await self._key(signed)
        if self._keys.changes != changes:
            self._known.clear()
        if not self._verifier.verify(key.jwk, signed.algorithm, signed.data, signed.signature):
            raise InvalidToken("the signature of the access token is invalid")
        read = read_access_token(signed.claims)
        if read.expires_at is None:
            raise InvalidToken("the access token has no expiration time (exp)")
        self._known.learn(digest, read)
        return read

    async def _key(self, signed: SignedJwt) -> PublicKey:
        key = choose(await self._keys.fresh(), signed)
        if key is None:
            key = choose(await self._keys.newer(), signed)
        if key is None:
            raise InvalidToken("the access token is signed with a key that its authorization server does not publish")
        return key

    async def _fetch(self) -> tuple[PublicKey, ...]:
        """Fetch the keys from the configured or discovered URL. Raises `McpError`."""
        uri, networks = self._jwks_uri, OWN_NETWORKS
        if uri is None:
            uri = self._discovered_uri = self._discovered_uri or await self._discovered()
            networks = await networks_named_by(self._issuer_url, uri)
        keys = public_keys(await fetch_json(uri, networks=networks))
        if not keys:
            raise FetchRefused(uri, "the JWK set has no usable key")
        return keys

    async def _discovered(self) -> str:
        """Return the `jwks_uri` in the metadata of the issuer. Raises `McpError`."""
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
        raise failure or FetchRefused(self.issuer, "its metadata has no jwks_uri")


class _Keys:
    """The keys of one authorization server, and the time when they were fetched."""

    def __init__(
        self, get: Callable[[], Awaitable[tuple[PublicKey, ...]]], given: tuple[PublicKey, ...] | None
    ) -> None:
        self.changes = 0
        """The number of times the keys changed."""
        self._get: Final = get
        self._given: Final = given is not None
        self._keys: tuple[PublicKey, ...] = given or ()
        self._lock: Final = trio.Lock()
        self._got_at = self._tried_at = float("-inf")
        self._tries = 0

    @property
    def are_old(self) -> bool:
        """Whether the keys are due for another fetch, and a fetch is allowed now."""
        now = trio.current_time()
        return not self._given and now >= self._got_at + _FRESH and now >= self._tried_at + _AGAIN

    async def fresh(self) -> tuple[PublicKey, ...]:
        """Return the keys, fetched again if they are old. Raises `TokensUnavailable` if there are no keys."""
        if self.are_old and not (self._keys and self._lock.locked()):
            await self._refetch()
        if not self._keys:
            raise TokensUnavailable(
                "no keys to verify access tokens with: the fetch from the authorization server failed"
            )
        return self._keys

    async def newer(self) -> tuple[PublicKey, ...]:
        """Return the keys, fetched again unless the last fetch was very recent."""
        if not self._given:
            await self._refetch()
        return self._keys

    async def _refetch(self) -> None:
        tries = self._tries
        async with self._lock:
            # A task that waited for the lock uses the result of the previous fetch, and so does a task right after it.
            if self._tries != tries or trio.current_time() < self._tried_at + _AGAIN:
                return
            try:
                keys = await self._get()
            except McpError as error:
                _log.warning("fetch of the keys for access tokens failed: error=%s", error)
            else:
                self._got_at = trio.current_time()
                if keys != self._keys:
                    self._keys = keys
                    self.changes += 1
            # A cancelled fetch does not count: the next waiting task fetches the keys.
            self._tried_at = trio.current_time()
            self._tries += 1
