"""One request for a token, as a machine: who the client is, the proof, the nonce that a proof may lack, the answer."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003  # attrs reads the annotation
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import TokenRefused
from mcp_core.oauth.documents import one_line
from mcp_core.oauth.steps import PostForm, Unreachable, requested
from mcp_core.oauth.tokens import authenticate, read_token_answer, secrets_of

if TYPE_CHECKING:
    from mcp_core.oauth.discovery import Discovery
    from mcp_core.oauth.dpop import Proof
    from mcp_core.oauth.jws import Signer
    from mcp_core.oauth.records import AuthMethod, ClientRecord
    from mcp_core.oauth.steps import Pairs, Running
    from mcp_core.oauth.tokens import TokenAnswer

__all__ = ["TokenEndpoint"]

_HEADERS: Final = (("Accept", "application/json"), ("Content-Type", "application/x-www-form-urlencoded"))
_NONCE_WANTED: Final = "use_dpop_nonce"


@attrs.define(kw_only=True)
class TokenEndpoint:
    """A token endpoint, and who asks it."""

    url: str
    """Its URL, which was checked."""
    issuer: str
    """Whose it is."""
    discovery: Discovery
    """Where what is tried is written down."""
    client: ClientRecord | None
    """Who asks; `None` where the grant says it."""
    method: AuthMethod | None
    """How the client authenticates; `None` where there is none."""
    signer: Signer | None
    """The client's key."""
    proof: Proof | None
    """The key that the token is to be bound to."""
    random_bytes: Callable[[int], bytes]
    """Gives so many unpredictable bytes."""
    clock: Callable[[], float]
    """The time that came in last, in seconds since the epoch."""
    configured: bool = False
    """Whether its URL is the user's own word."""
    _learned: bool = attrs.field(default=False, init=False)

    def run(self, form: Pairs, why: str) -> Running[TokenAnswer]:
        """Asks; once more where the proof lacks a nonce, and the answer has one.

        Args:
            form: The fields of the grant.
            why: What it is for, for people.

        Raises:
            TokenRefused: There is no answer, or it has no token.
        """
        try:
            return (yield from self._once(form, why))
        except TokenRefused as refused:
            if refused.error != _NONCE_WANTED or not self._learned:
                raise
        return (yield from self._once(form, why))

    def _once(self, form: Pairs, why: str) -> Running[TokenAnswer]:
        headers, sent = self._authenticated(form)
        if self.proof is not None:
            headers = (*headers, *self.proof.headers("POST", self.url, now=self.clock()))
        step = PostForm(url=self.url, why=why, headers=(*_HEADERS, *headers), form=sent, configured=self.configured)
        answer = yield from requested(step)
        try:
            if isinstance(answer, Unreachable):
                raise TokenRefused(f"the token endpoint {self.url} did not answer: {one_line(answer.reason)}")
            self._learned = self.proof is not None and self.proof.learn(self.url, answer.headers)
            token = read_token_answer(answer, issuer=self.issuer, secrets=secrets_of(sent, self.client))
        except TokenRefused as refused:
            self.discovery.note(self.url, why, refused.message)
            raise
        self.discovery.note(self.url, why, "gave a token")
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
