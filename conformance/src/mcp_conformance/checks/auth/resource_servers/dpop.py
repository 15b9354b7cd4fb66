"""Servers that accept DPoP-bound tokens: valid proofs, and the rejection of invalid ones."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.resource_servers.requests import (
    challenge,
    http_peer,
    issuer_of,
    probe,
    send_each,
)
from mcp_conformance.checks.registry.server import SERVER_CHECKS, check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_conformance.oauth_testbed.token_issuer import ProofKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_conformance.checks.auth.resource_servers.requests import Headers
    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["BoundToken", "bound_token"]

_HTTP: Final = (Transport.HTTP,)
_REFUSES: Final = ("dpop.server-validates-proof", "dpop.server-reject-401")


_TEN_YEARS: Final = 10 * 365 * 24 * 3600
"""Ten years, in seconds."""


class BoundToken:
    """A token that is bound to a key, with requests."""

    def __init__(self, server: ServerUnderTest, peer: HttpConnection, changes: JsonObject | None = None) -> None:
        self.key: Final = ProofKey()
        self.peer: Final = peer
        self.url: Final = issuer_of(server).resource
        claims: JsonObject = {"cnf": {"jkt": self.key.thumbprint}, **(changes or {})}
        self.token: Final = issuer_of(server).token(changes=claims)
        self.nonce: str | None = None
        """The last nonce that the server has supplied; `None` if it has supplied none."""

    def headers(self, *proofs: str) -> Headers:
        """Return the headers with the token and proofs."""
        return (("Authorization", f"DPoP {self.token}"), *(("DPoP", proof) for proof in proofs))

    def proof(
        self,
        *,
        key: ProofKey | None = None,
        header: JsonObject | None = None,
        changes: JsonObject | None = None,
        symmetric: bool = False,
    ) -> str:
        """Make a proof, valid except for what is given: another key, header members, claims, or a shared secret."""
        nonce: JsonObject = {} if self.nonce is None else {"nonce": self.nonce}
        claims: JsonObject = {**nonce, **(changes or {})}
        return (key or self.key).proof(self.url, self.token, header=header, changes=claims, symmetric=symmetric)

    async def send(self, *proofs: str, deviant: str = "") -> HttpResponse:
        """Send a request with proofs."""
        answer = await probe(self.peer, self.headers(*proofs), deviant=deviant)
        self.nonce = answer.header("dpop-nonce") or self.nonce
        return answer

    async def send_valid(self) -> HttpResponse:
        """Send a request with a valid proof, a second time if the server requires a nonce in it."""
        answer = await self.send(self.proof())
        if answer.status == 401 and (challenge(answer, "dpop") or {}).get("error") == "use_dpop_nonce":
            answer = await self.send(self.proof())
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

        def headers() -> Headers:
            return (("Authorization", f"{scheme} {self.token}"), *(("DPoP", proof) for proof in proofs(self)))

        answers = await send_each(self.peer, headers, deviant=what)
        for message, answer in answers:
            if answer.status != 401:
                raise Deviation(f"HTTP 401 for {message} with {what}", f"HTTP {answer.status}")
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


def _proof(**changes: str | int | None) -> Callable[[BoundToken], tuple[str, ...]]:
    return lambda bound: (bound.proof(changes={**changes}),)


def _off(seconds: int) -> Callable[[BoundToken], tuple[str, ...]]:
    return lambda bound: (bound.proof(changes={"iat": int(time.time()) + seconds}),)


def _none(_: BoundToken) -> tuple[str, ...]:
    return ()


def _valid(bound: BoundToken) -> tuple[str, ...]:
    return (bound.proof(),)


def _other_key(bound: BoundToken) -> tuple[str, ...]:
    return (bound.proof(key=ProofKey()),)


def _broken(bound: BoundToken) -> tuple[str, ...]:
    head, claims, _ = bound.proof().split(".")
    return (f"{head}.{claims}.{bound.proof().split('.')[2]}",)


_FLAWS: Final[Mapping[str, tuple[str, Callable[[BoundToken], tuple[str, ...]], tuple[str, ...]]]] = {
    "missing": ("A bound token without a proof is rejected.", _none, _REFUSES),
    "twice": ("Two proofs in one request are rejected.", lambda bound: (bound.proof(), bound.proof()), _REFUSES),
    "malformed": ("A proof that is not a JWT is rejected.", lambda _: ("x.y.z",), _REFUSES),
    "signature": ("A proof with an invalid signature is rejected.", _broken, _REFUSES),
    "type": (
        "A proof of another type is rejected.",
        lambda bound: (bound.proof(header={"typ": "jwt"}),),
        _REFUSES,
    ),
    "method": ("A proof for another method is rejected.", _proof(htm="GET"), _REFUSES),
    "url": ("A proof for another URL is rejected.", _proof(htu="https://elsewhere.example/mcp"), _REFUSES),
    "token": ("A proof for another token is rejected.", _proof(ath="x" * 43), _REFUSES),
    "no-token": ("A proof without a token hash is rejected.", _proof(ath=None), _REFUSES),
    "key": ("A proof with another key is rejected.", _other_key, _REFUSES),
    "no-id": ("A proof without a jti is rejected.", _proof(jti=None), _REFUSES),
    # One minute outside of the window.
    "old": (
        "A proof that was issued six minutes ago is rejected.",
        _off(-360),
        (*_REFUSES, "dpop.server-iat-window", "dpop.server-replay-protection"),
    ),
    "future": (
        "A proof that is issued six minutes in the future is rejected.",
        _off(360),
        (*_REFUSES, "dpop.server-iat-window"),
    ),
    "long-ago": (
        "A proof that was issued ten years ago is rejected.",
        _off(-_TEN_YEARS),
        (*_REFUSES, "dpop.server-iat-window", "dpop.server-replay-protection"),
    ),
    "milliseconds": (
        "A proof whose time of issue is in milliseconds is rejected.",
        lambda bound: (bound.proof(changes={"iat": int(time.time() * 1000)}),),
        (*_REFUSES, "dpop.server-iat-window"),
    ),
    "no-time": (
        "A proof without a time of issue is rejected.",
        _proof(iat=None),
        (*_REFUSES, "dpop.server-iat-window"),
    ),
    "time-text": (
        "A proof whose time of issue is a text is rejected.",
        lambda bound: (bound.proof(changes={"iat": str(int(time.time()))}),),
        _REFUSES,
    ),
    "private-key": (
        "A proof that has the private key in its header is rejected.",
        lambda bound: (bound.proof(header={"jwk": bound.key.private_jwk}),),
        _REFUSES,
    ),
    "symmetric": (
        "A proof that is signed with a shared secret is rejected.",
        lambda bound: (bound.proof(symmetric=True),),
        (*_REFUSES, "dpop.asymmetric-only"),
    ),
}
"""The title, the proofs and the requirements, by the error in the proof."""


def _add_flaw(name: str) -> None:
    title, proofs, proves = _FLAWS[name]

    async def run(server: ServerUnderTest) -> None:
        async with http_peer(server) as peer:
            bound = await bound_token(server, peer)
            for answer in await bound.require_refusal(proofs, "an invalid proof"):
                error_challenge = challenge(answer, "dpop")
                if error_challenge is None or not error_challenge.get("error"):
                    raise Deviation("a DPoP challenge with an error in the 401 response", str(error_challenge))

    SERVER_CHECKS.add(
        f"dpop.server-proof-{name}", run, title=title, proves=proves, transports=_HTTP, subject=CheckScope.PROCESS
    )


for _name in _FLAWS:
    _add_flaw(_name)


@check(
    "dpop.server-no-downgrade",
    proves=("dpop.server-no-bearer-downgrade",),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def no_downgrade(server: ServerUnderTest) -> None:
    """A bound token with the scheme Bearer is rejected."""
    async with http_peer(server) as peer:
        bound = await bound_token(server, peer)
        for proofs in (_none, _valid):
            await bound.require_refusal(proofs, "a bound token with the scheme Bearer", scheme="Bearer")


@check(
    "dpop.server-unbound",
    proves=("dpop.server-validates-proof",),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def unbound(server: ServerUnderTest) -> None:
    """A token that is bound to no key is rejected with the scheme DPoP."""
    async with http_peer(server) as peer:
        nonce = (await bound_token(server, peer)).nonce
        # The key of a proof can match none of them, so access must not be granted (RFC 9449, section 7.1).
        confirmations: tuple[JsonObject | None, ...] = (None, {}, {"jkt": ""})
        for confirmation in confirmations:
            free = BoundToken(server, peer, {"cnf": confirmation})
            free.nonce = nonce
            for proofs in (_none, _valid):
                await free.require_refusal(proofs, "a token without a key and the scheme DPoP")


@check("dpop.server-audience", proves=("dpop.server-audience",), transports=_HTTP, subject=CheckScope.PROCESS)
async def audience(server: ServerUnderTest) -> None:
    """A token for another resource is rejected, also when it is bound to a key."""
    async with http_peer(server) as peer:
        nonce = (await bound_token(server, peer)).nonce
        foreign = BoundToken(server, peer, {"aud": "https://elsewhere.example/mcp"})
        foreign.nonce = nonce
        await foreign.require_refusal(_valid, "a bound token for another resource")


@check("dpop.server-algorithm", proves=("dpop.modern-algorithms",), transports=_HTTP, subject=CheckScope.PROCESS)
async def algorithm(server: ServerUnderTest) -> None:
    """A server that accepts proofs accepts one that is signed with ES256."""
    async with http_peer(server) as peer:
        bound = BoundToken(server, peer)
        if challenge(await bound.send(), "dpop") is None:
            raise NotApplicable("the server accepts no DPoP-bound token")
        answer = await bound.send_valid()
        if answer.status != 200:
            raise Deviation("HTTP 200 for a proof with ES256", f"HTTP {answer.status}")
