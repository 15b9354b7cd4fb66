"""Token request as a state machine: authentication of the client, the proof, a missing nonce, and the response."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003  # attrs reads the annotation
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import TokenRefused
from mcp_core.oauth.documents import one_line
from mcp_core.oauth.steps import PostForm, Unreachable, requested
from mcp_core.oauth.tokens import authenticate, read_token_response, secrets_of

if TYPE_CHECKING:
    from mcp_core.oauth.discovery import Discovery
    from mcp_core.oauth.dpop import Proof
    from mcp_core.oauth.jws import Signer
    from mcp_core.oauth.records import AuthMethod, ClientRecord
    from mcp_core.oauth.steps import Pairs, Running
    from mcp_core.oauth.tokens import TokenResponse

__all__ = ["TokenEndpoint"]

_HEADERS: Final = (("Accept", "application/json"), ("Content-Type", "application/x-www-form-urlencoded"))
_NONCE_WANTED: Final = "use_dpop_nonce"


@attrs.define(kw_only=True)
class TokenEndpoint:
    """A token endpoint, and the client that sends requests to it."""

    url: str
    """The checked URL."""
    issuer: str
    """The authorization server of the endpoint."""
    discovery: Discovery
    """The discovery, which records the attempts."""
    client: ClientRecord | None
    """The client; `None` if the grant identifies it."""
    method: AuthMethod | None
    """The authentication method of the client; `None` without a client."""
    signer: Signer | None
    """The client's key."""
    proof: Proof | None
    """The key to which the token will be bound."""
    random_bytes: Callable[[int], bytes]
    """Returns the given number of unpredictable bytes."""
    clock: Callable[[], float]
    """Returns the last `now` passed to the flow, in seconds since the epoch."""
    configured: bool = False
    """Whether the user configured the URL."""
    _learned: bool = attrs.field(default=False, init=False)

    def run(self, form: Pairs, why: str) -> Running[TokenResponse]:
        """Request a token. Repeat the request once if the proof lacks a nonce that the response contains.

        Args:
            form: The fields of the grant.
            why: The purpose of the request, for users.

        Raises:
            TokenRefused: There is no response, or it has no token.
        """
        try:
            return (yield from self._once(form, why))
        except TokenRefused as refused:
            if refused.error != _NONCE_WANTED or not self._learned:
                raise
        return (yield from self._once(form, why))

    def _once(self, form: Pairs, why: str) -> Running[TokenResponse]:
        headers, sent = self._authenticated(form)
        if self.proof is not None:
            headers = (*headers, *self.proof.headers("POST", self.url, now=self.clock()))
        step = PostForm(url=self.url, why=why, headers=(*_HEADERS, *headers), form=sent, configured=self.configured)
        answer = yield from requested(step)
        try:
            if isinstance(answer, Unreachable):
                raise TokenRefused(f"no response from the token endpoint {self.url}: {one_line(answer.reason)}")
            self._learned = self.proof is not None and self.proof.learn(self.url, answer.headers)
            token = read_token_response(answer, issuer=self.issuer, secrets=secrets_of(sent, self.client))
        except TokenRefused as refused:
            self.discovery.note(self.url, why, refused.message)
            raise
        self.discovery.note(self.url, why, "received a token")
        return token

    def _authenticated(self, form: Pairs) -> tuple[Pairs, Pairs]:
        if self.client is None or self.method is None:
            return (), form
        return authenticate(
            form,
            self.client,
            self.method,
            audience=self.issuer,
            signer=self.signer,
            now=self.clock(),
            random_bytes=self.random_bytes,
        )
