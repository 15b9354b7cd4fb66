"""Verification of opaque access tokens by token introspection at the authorization server.

Results are cached for some seconds. During that time a revoked token is still accepted. If several requests with the
same unknown token arrive, one of them sends the introspection request, and all use its result.

Spec: RFC 7662, RFC 6749 section 2.3.1
"""

from __future__ import annotations

import logging
from base64 import b64encode
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import quote_plus, urlencode

import attrs
import trio

from mcp_core.field_methods import FieldRepr
from mcp_core.oauth.access_token import AccessToken, InvalidToken, read_access_token
from mcp_core.oauth.urls import check_browser_url
from mcp_core.trio.async_library import allow_asyncio
from mcp_server.auth.fetch import OWN_NETWORKS, FetchRefused, fetch_json
from mcp_server.auth.tokens import KnownTokens, TokensUnavailable, digest_of

if TYPE_CHECKING:
    from mcp_core.trio.async_library import AsyncLibrary

__all__ = ["Introspection"]

_log: Final = logging.getLogger("mcp_server")

_REFUSED: Final = 5.0
"""Time for which an invalid token is remembered, in seconds, so that repeating it does not repeat the introspection."""

_AT_ONCE: Final = 16
"""The maximum number of concurrent introspection requests, so that invented tokens cannot overload the server."""

_SECONDS: Final = 10.0
"""Time limit of a request for its introspection, including the wait for other introspections, in seconds."""


@attrs.define(eq=False, repr=False)
class _PendingIntrospection(FieldRepr):
    """An introspection request that is running."""

    done: trio.Event = attrs.field(factory=trio.Event)
    failed: bool = False


class Introspection:
    """A `TokenVerifier` that asks the authorization server about each access token (token introspection).

    Args:
        endpoint: The introspection endpoint.
        issuer: The authorization server. The default for `iss` if the introspection response does not contain it.
        client_id: The client id of this server at the authorization server.
        client_secret: The client secret of this server at the authorization server.
        remember: Time for which a result is cached, in seconds. During that time a revoked token is still accepted.

    Raises:
        UnsafeUrl: Secrets must not be sent to this URL.
    """

    async_library: ClassVar[AsyncLibrary] = "trio"

    def __init__(
        self, endpoint: str, *, issuer: str, client_id: str, client_secret: str, remember: float = 30.0
    ) -> None:
        self._endpoint: Final = check_browser_url(endpoint, what="introspection endpoint").text
        self.issuer: Final = issuer
        """The issuer identifier of the authorization server."""
        pair = f"{quote_plus(client_id)}:{quote_plus(client_secret)}".encode()
        self._headers: Final = (
            ("authorization", f"Basic {b64encode(pair).decode('ascii')}"),
            ("content-type", "application/x-www-form-urlencoded"),
        )
        self._good: Final = KnownTokens(remember)
        self._bad: Final = KnownTokens(_REFUSED)
        self._pending: Final[dict[bytes, _PendingIntrospection]] = {}
        self._limiter: Final = trio.CapacityLimiter(_AT_ONCE)

    def __repr__(self) -> str:
        return f"<Introspection at {self._endpoint}>"

    @allow_asyncio
    async def verify(self, token: str) -> AccessToken:
        """Verify an access token, with a cached result if there is one.

        Raises:
            InvalidToken: The token is not active.
            TokensUnavailable: The introspection failed.
        """
        digest = digest_of(token)
        while True:
            known = self._good.find(digest) or self._bad.find(digest)
            if known is not None:
                if known[0] is None:
                    raise InvalidToken("the access token is not active")
                return known[0]
            pending = self._pending.get(digest)
            if pending is None:
                return await self._ask(digest, token)
            await pending.done.wait()
            if pending.failed:
                raise TokensUnavailable("token introspection at the authorization server failed")
            # The other task may have been cancelled. Then this task or another waiting one repeats the introspection.

    async def _ask(self, digest: bytes, token: str) -> AccessToken:
        pending = self._pending[digest] = _PendingIntrospection()
        try:
            found = await self._answer(token)
            (self._bad if found is None else self._good).learn(digest, found)
        except InvalidToken:
            self._bad.learn(digest, None)
            raise
        except TokensUnavailable:
            pending.failed = True
            raise
        finally:
            del self._pending[digest]
            pending.done.set()
        if found is None:
            raise InvalidToken("the access token is not active")
        return found

    async def _answer(self, token: str) -> AccessToken | None:
        form = urlencode({"token": token, "token_type_hint": "access_token"}).encode("ascii")
        try:
            with trio.fail_after(_SECONDS):
                async with self._limiter:
                    document = await fetch_json(
                        self._endpoint, method="POST", headers=self._headers, body=form, networks=OWN_NETWORKS
                    )
        except (FetchRefused, trio.TooSlowError) as error:
            _log.error("token introspection failed: error=%s", error)
            raise TokensUnavailable("token introspection at the authorization server failed") from error
        return read_access_token(document, issuer=self.issuer) if document.get("active") is True else None
