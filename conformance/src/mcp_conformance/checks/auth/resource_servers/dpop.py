"""Servers that accept DPoP-bound tokens: valid proofs, and the rejection of invalid ones."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.resource_servers.requests import bearer, challenge, http_peer, issuer_of, probe
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

    def headers(self, *proofs: str) -> Headers:
        """Return the headers with the token and proofs."""
        return (("Authorization", f"DPoP {self.token}"), *(("DPoP", proof) for proof in proofs))

    async def send(self, *proofs: str, deviant: str = "") -> HttpResponse:
        """Send a request with proofs."""
        return await probe(self.peer, self.headers(*proofs), deviant=deviant)

    def good(self) -> str:
        """Return a valid proof."""
        return self.key.proof(self.url, self.token)


async def bound_token(server: ServerUnderTest, peer: HttpConnection) -> BoundToken:
    """Return a bound token that the server accepts.

    Raises:
        NotApplicable: The server accepts no bound tokens.
    """
    bound = BoundToken(server, peer)
    answer = await bound.send(bound.good())
    if answer.status != 200:
        raise NotApplicable(f"the server accepts no DPoP-bound token: HTTP {answer.status}")
    return bound


def _proof(**changes: str | int | None) -> Callable[[BoundToken], tuple[str, ...]]:
    return lambda bound: (bound.key.proof(bound.url, bound.token, changes={**changes}),)


def _off(seconds: int) -> Callable[[BoundToken], tuple[str, ...]]:
    return lambda bound: (bound.key.proof(bound.url, bound.token, changes={"iat": int(time.time()) + seconds}),)


def _other_key(bound: BoundToken) -> tuple[str, ...]:
    return (ProofKey().proof(bound.url, bound.token),)


def _broken(bound: BoundToken) -> tuple[str, ...]:
    head, claims, _ = bound.good().split(".")
    return (f"{head}.{claims}.{bound.good().split('.')[2]}",)


_FLAWS: Final[Mapping[str, tuple[str, Callable[[BoundToken], tuple[str, ...]], tuple[str, ...]]]] = {
    "missing": ("A bound token without a proof is rejected.", lambda _: (), _REFUSES),
    "twice": ("Two proofs in one request are rejected.", lambda bound: (bound.good(), bound.good()), _REFUSES),
    "malformed": ("A proof that is not a JWT is rejected.", lambda _: ("x.y.z",), _REFUSES),
    "signature": ("A proof with an invalid signature is rejected.", _broken, _REFUSES),
    "type": (
        "A proof of another type is rejected.",
        lambda bound: (bound.key.proof(bound.url, bound.token, header={"typ": "jwt"}),),
        _REFUSES,
    ),
    "method": ("A proof for another method is rejected.", _proof(htm="GET"), _REFUSES),
    "url": ("A proof for another URL is rejected.", _proof(htu="https://elsewhere.example/mcp"), _REFUSES),
    "token": ("A proof for another token is rejected.", _proof(ath="x" * 43), _REFUSES),
    "no-token": ("A proof without a token hash is rejected.", _proof(ath=None), _REFUSES),
    "key": ("A proof with another key is rejected.", _other_key, _REFUSES),
    "no-id": ("A proof without a jti is rejected.", _proof(jti=None), _REFUSES),
    "old": (
        "A proof that was issued ten minutes ago is rejected.",
        _off(-600),
        (*_REFUSES, "dpop.server-iat-window", "dpop.server-replay-protection"),
    ),
    "future": (
        "A proof that is issued ten minutes in the future is rejected.",
        _off(600),
        (*_REFUSES, "dpop.server-iat-window"),
    ),
    "long-ago": (
        "A proof that was issued ten years ago is rejected.",
        _off(-_TEN_YEARS),
        (*_REFUSES, "dpop.server-iat-window", "dpop.server-replay-protection"),
    ),
    "milliseconds": (
        "A proof whose time of issue is in milliseconds is rejected.",
        lambda bound: (bound.key.proof(bound.url, bound.token, changes={"iat": int(time.time() * 1000)}),),
        (*_REFUSES, "dpop.server-iat-window"),
    ),
    "no-time": (
        "A proof without a time of issue is rejected.",
        _proof(iat=None),
        (*_REFUSES, "dpop.server-iat-window"),
    ),
    "time-text": (
        "A proof whose time of issue is a text is rejected.",
        lambda bound: (bound.key.proof(bound.url, bound.token, changes={"iat": str(int(time.time()))}),),
        _REFUSES,
    ),
    "symmetric": (
        "A proof that is signed with a shared secret is rejected.",
        lambda bound: (bound.key.proof(bound.url, bound.token, symmetric=True),),
        (*_REFUSES, "dpop.asymmetric-only"),
    ),
}
"""The title, the proofs and the requirements, by the error in the proof."""


def _add_flaw(name: str) -> None:
    title, proofs, proves = _FLAWS[name]

    async def run(server: ServerUnderTest) -> None:
        async with http_peer(server) as peer:
            bound = await bound_token(server, peer)
            answer = await bound.send(*proofs(bound), deviant=title)
            if answer.status != 401:
                raise Deviation("HTTP 401", f"HTTP {answer.status}")
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
        for proofs in ((), (bound.good(),)):
            headers = (*bearer(bound.token), *(("DPoP", proof) for proof in proofs))
            answer = await probe(peer, headers, deviant="a bound token with the scheme Bearer")
            if answer.status != 401:
                raise Deviation("HTTP 401 for a bound token with the scheme Bearer", f"HTTP {answer.status}")


@check("dpop.server-audience", proves=("dpop.server-audience",), transports=_HTTP, subject=CheckScope.PROCESS)
async def audience(server: ServerUnderTest) -> None:
    """A token for another resource is rejected, also when it is bound to a key."""
    async with http_peer(server) as peer:
        await bound_token(server, peer)
        foreign = BoundToken(server, peer, {"aud": "https://elsewhere.example/mcp"})
        answer = await foreign.send(foreign.good(), deviant="a token for another resource")
        if answer.status != 401:
            raise Deviation("HTTP 401 for a bound token for another resource", f"HTTP {answer.status}")


@check("dpop.server-algorithm", proves=("dpop.modern-algorithms",), transports=_HTTP, subject=CheckScope.PROCESS)
async def algorithm(server: ServerUnderTest) -> None:
    """A server that accepts proofs accepts one that is signed with ES256."""
    async with http_peer(server) as peer:
        bound = BoundToken(server, peer)
        if challenge(await bound.send(), "dpop") is None:
            raise NotApplicable("the server accepts no DPoP-bound token")
        answer = await bound.send(bound.good())
        if answer.status != 200:
            raise Deviation("HTTP 200 for a proof with ES256", f"HTTP {answer.status}")
