"""Access tokens that are bound to a key (RFC 9449), for the checks of protected servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.resource_servers.requests import (
    bearer,
    called,
    challenge,
    issuer_of,
    probe,
    send_each,
)
from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_conformance.oauth_testbed.token_issuer import ProofKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcp_conformance.checks.auth.resource_servers.requests import Headers
    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.oauth_testbed.changed_members import Changes
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["BoundToken", "bound_token", "known_bound_token", "send_invalid"]


class BoundToken:
    """A token that is bound to a key, with requests.

    Args:
        server: The server.
        peer: The connection.
        changes: Changes of its claims.
        foreign_key: Whether an unknown key signs it.
        nonce: A nonce of the server.
    """

    def __init__(
        self,
        server: ServerUnderTest,
        peer: HttpConnection,
        changes: Changes | None = None,
        *,
        foreign_key: bool = False,
        nonce: str | None = None,
    ) -> None:
        self.key: Final = ProofKey()
        self.peer: Final = peer
        self.url: Final = issuer_of(server).resource
        claims: Changes = {"cnf": {"jkt": self.key.thumbprint}, **(changes or {})}
        self.token: Final = issuer_of(server).token(foreign_key=foreign_key, changes=claims)
        self.nonce: str | None = nonce
        """The last nonce that the server has supplied; `None` if it has supplied none."""

    def headers(self, *proofs: str, scheme: str = "DPoP") -> Headers:
        """Return the headers with the token and proofs."""
        return (("Authorization", f"{scheme} {self.token}"), *(("DPoP", proof) for proof in proofs))

    def proof(
        self,
        *,
        key: ProofKey | None = None,
        header: Changes | None = None,
        changes: Changes | None = None,
        symmetric: bool = False,
    ) -> str:
        """Make a proof, valid except for what is given: another key, header members, claims, or a shared secret."""
        nonce: JsonObject = {} if self.nonce is None else {"nonce": self.nonce}
        claims: Changes = {**nonce, **(changes or {})}
        return (key or self.key).proof(self.url, self.token, header=header, changes=claims, symmetric=symmetric)

    async def send(self, *proofs: str, deviant: str = "") -> HttpResponse:
        """Send a request with proofs."""
        answer = await probe(self.peer, self.headers(*proofs), deviant=deviant)
        self.nonce = answer.header("dpop-nonce") or self.nonce
        return answer

    async def send_valid(self, changes: Changes | None = None) -> HttpResponse:
        """Send a request with a valid proof, a second time if the server requires a nonce in it.

        Args:
            changes: Claims of the proof in another valid form.
        """
        return await self._repeated(self.send, changes)

    async def call(self, tool: str) -> HttpResponse:
        """Call a tool with a valid proof, a second time if the server requires a nonce in it."""

        async def send(proof: str) -> HttpResponse:
            answer = await called(self.peer, tool, self.headers(proof))
            self.nonce = answer.header("dpop-nonce") or self.nonce
            return answer

        return await self._repeated(send)

    async def _repeated(
        self, send: Callable[[str], Awaitable[HttpResponse]], changes: Changes | None = None
    ) -> HttpResponse:
        answer = await send(self.proof(changes=changes))
        if answer.status == 401 and (challenge(answer, "dpop") or {}).get("error") == "use_dpop_nonce":
            answer = await send(self.proof(changes=changes))
        return answer

    async def require_refusal(
        self, proofs: Callable[[BoundToken], tuple[str, ...]], what: str, *, scheme: str = "DPoP"
    ) -> list[HttpResponse]:
        """Send messages of several kinds with proofs, and require that each is rejected with 401.

        Args:
            proofs: Makes the proofs of a message: a server may reject a proof that it has seen before.
            what: What is wrong.
            scheme: The scheme of the Authorization header.

        Returns:
            The rejections.

        Raises:
            Deviation: A message is not rejected.
        """
        answers = await send_each(self.peer, lambda: self.headers(*proofs(self), scheme=scheme), deviant=what)
        for message, answer in answers:
            if answer.status != 401:
                raise Deviation(f"HTTP 401 for {message} with {what} (scheme {scheme})", f"HTTP {answer.status}")
        return [answer for _, answer in answers]


async def bound_token(server: ServerUnderTest, peer: HttpConnection) -> BoundToken:
    """Return a bound token that the server accepts.

    Raises:
        NotApplicable: The server accepts no bound tokens.
    """
    bound = BoundToken(server, peer)
    answer = await bound.send_valid()
    if answer.status != 200:
        raise NotApplicable(f"the server accepts no DPoP-bound token: HTTP {answer.status}")
    return bound


async def known_bound_token(server: ServerUnderTest, peer: HttpConnection) -> BoundToken | None:
    """Return a bound token that the server accepts; `None` if it accepts none."""
    try:
        return await bound_token(server, peer)
    except NotApplicable:
        return None


async def send_invalid(
    server: ServerUnderTest,
    peer: HttpConnection,
    accepted: BoundToken | None,
    variants: Sequence[Changes],
    *,
    foreign_key: bool = False,
    deviant: str,
) -> list[tuple[str, HttpResponse]]:
    """Send messages of several kinds with invalid tokens: unbound ones, and bound ones with a valid proof.

    A server may validate bound tokens in another place than unbound ones.

    Args:
        server: The server.
        peer: The connection.
        accepted: A bound token that the server accepts; `None`: bound tokens are not sent.
        variants: The changes of the claims of each token.
        foreign_key: Whether an unknown key signs the tokens.
        deviant: The rule that the tokens break on purpose.

    Returns:
        What was sent, and the response.
    """
    found: list[tuple[str, HttpResponse]] = []
    for changes in variants:
        token = issuer_of(server).token(foreign_key=foreign_key, changes=changes)
        found += [
            (f"{message} with {deviant}", answer)
            for message, answer in await send_each(peer, lambda: bearer(token), deviant=deviant)  # noqa: B023  called in the loop
        ]
        # The scheme is case-insensitive (RFC 9110, section 11.1).
        lower = await probe(peer, (("Authorization", f"bearer {token}"),), deviant=deviant)
        found.append((f"a request with {deviant} (scheme bearer)", lower))
        if accepted is None:
            continue
        bound = BoundToken(server, peer, changes, foreign_key=foreign_key, nonce=accepted.nonce)
        found += [
            (f"{message} with {deviant} that is bound to a key", answer)
            for message, answer in await send_each(peer, lambda: bound.headers(bound.proof()), deviant=deviant)  # noqa: B023  called in the loop
        ]
    return found
