"""Access tokens that only the authorization server can read: it is asked what they are.

The answer is kept for some seconds, which is how long a token that was revoked is still taken. Of many requests with one
token that is not known yet, one asks and all have its answer.

Spec: RFC 7662, RFC 6749 section 2.3.1
"""

from __future__ import annotations

import logging
from base64 import b64encode
from typing import Final
from urllib.parse import quote_plus, urlencode

import attrs
import trio

from mcp_core.oauth.access_token import AccessToken, InvalidToken, read_access_token
from mcp_core.oauth.urls import check_browser_url
from mcp_server.auth.fetch import OWN_NETWORKS, FetchRefused, fetch_json
from mcp_server.auth.tokens import KnownTokens, TokensUnavailable, digest_of

__all__ = ["Introspection"]

_log: Final = logging.getLogger("mcp_server")

_REFUSED: Final = 5.0
"""Seconds that a token which is none is remembered as such, so that nobody has us ask for it again and again."""

_AT_ONCE: Final = 16
"""Questions at a time. Whoever makes tokens up must not use up the authorization server."""

_PATIENCE: Final = 10.0
"""Seconds that a request waits for its turn and the answer."""


@attrs.define(eq=False)
class _Asking:
    """A question that is under way."""

    done: trio.Event = attrs.field(factory=trio.Event)
    failed: bool = False


class Introspection:
    """Asks the authorization server what an access token is. It is a `TokenVerifier`.

    Args:
        endpoint: Its introspection endpoint.
        issuer: The authorization server; what `iss` is where its answer has none.
        client_id: Who this server is there.
        client_secret: Its secret there.
        remember: Seconds that an answer is kept: as long as a token that was revoked is still taken.

    Raises:
        UnsafeUrl: The endpoint is no URL that secrets can be sent to.
    """

    def __init__(
        self, endpoint: str, *, issuer: str, client_id: str, client_secret: str, remember: float = 30.0
    ) -> None:
        self._endpoint: Final = check_browser_url(endpoint, what="introspection endpoint").text
        self.issuer: Final = issuer
        """The authorization server."""
        pair = f"{quote_plus(client_id)}:{quote_plus(client_secret)}".encode()
        self._headers: Final = (
            ("authorization", f"Basic {b64encode(pair).decode('ascii')}"),
            ("content-type", "application/x-www-form-urlencoded"),
        )
        self._good: Final = KnownTokens(remember)
        self._bad: Final = KnownTokens(_REFUSED)
        self._asking: Final[dict[bytes, _Asking]] = {}
        self._limiter: Final = trio.CapacityLimiter(_AT_ONCE)

    def __repr__(self) -> str:
        return f"<Introspection at {self._endpoint}>"

    async def verify(self, token: str) -> AccessToken:
        """See `TokenVerifier.verify`."""
        digest = digest_of(token)
        while True:
            known = self._good.find(digest) or self._bad.find(digest)
            if known is not None:
                if known[0] is None:
                    raise InvalidToken("the access token is not active")
                return known[0]
            asking = self._asking.get(digest)
            if asking is None:
                return await self._ask(digest, token)
            await asking.done.wait()
            if asking.failed:
                raise TokensUnavailable("the authorization server does not say what access tokens are")
            # It may have been broken off: then somebody else has to ask.

    async def _ask(self, digest: bytes, token: str) -> AccessToken:
        asking = self._asking[digest] = _Asking()
        try:
            found = await self._answer(token)
            (self._bad if found is None else self._good).learn(digest, found)
        except InvalidToken:
            self._bad.learn(digest, None)
            raise
        except TokensUnavailable:
            asking.failed = True
            raise
        finally:
            del self._asking[digest]
            asking.done.set()
        if found is None:
            raise InvalidToken("the access token is not active")
        return found

    async def _answer(self, token: str) -> AccessToken | None:
        form = urlencode({"token": token, "token_type_hint": "access_token"}).encode("ascii")
        try:
            with trio.fail_after(_PATIENCE):
                async with self._limiter:
                    document = await fetch_json(
                        self._endpoint, method="POST", headers=self._headers, body=form, networks=OWN_NETWORKS
                    )
        except (FetchRefused, trio.TooSlowError) as error:
            _log.error("it cannot be asked what an access token is: %s", error)
            raise TokensUnavailable("the authorization server does not say what access tokens are") from error
        return read_access_token(document, issuer=self.issuer) if document.get("active") is True else None
