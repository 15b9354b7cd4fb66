"""Servers that accept DPoP-bound tokens: valid proofs, and the rejection of invalid ones."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.resource_servers.bound_tokens import BoundToken, bound_token
from mcp_conformance.checks.auth.resource_servers.requests import bearer, challenge, http_peer, issuer_of, sent
from mcp_conformance.checks.registry.server import SERVER_CHECKS, check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_conformance.oauth_testbed.changed_members import OMITTED
from mcp_conformance.oauth_testbed.token_issuer import ProofKey, unsigned
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.oauth_testbed.changed_members import Changes, OmittedMember

    Proofs: TypeAlias = Callable[[BoundToken], tuple[str, ...]]
    """Makes the proofs of a message."""

_HTTP: Final = (Transport.HTTP,)
_REFUSES: Final = ("dpop.server-validates-proof", "dpop.server-reject-401")

_TEN_YEARS: Final = 10 * 365 * 24 * 3600
"""Ten years, in seconds."""


def _proof(**changes: str | int | OmittedMember | None) -> Proofs:
    return lambda bound: (bound.proof(changes={**changes}),)


def _headed(**changes: str | OmittedMember) -> Proofs:
    return lambda bound: (bound.proof(header={**changes}),)


def _off(seconds: int) -> Proofs:
    return lambda bound: (bound.proof(changes={"iat": int(time.time()) + seconds}),)


def _none(_: BoundToken) -> tuple[str, ...]:
    return ()


def _valid(bound: BoundToken) -> tuple[str, ...]:
    return (bound.proof(),)


def _two(bound: BoundToken) -> tuple[str, ...]:
    return (bound.proof(), bound.proof())


def _joined(bound: BoundToken) -> tuple[str, ...]:
    return (", ".join(_two(bound)),)


def _other_key(bound: BoundToken) -> tuple[str, ...]:
    return (bound.proof(key=ProofKey()),)


def _unsigned(bound: BoundToken) -> tuple[str, ...]:
    return (unsigned(bound.proof()),)


def _broken(bound: BoundToken) -> tuple[str, ...]:
    head, claims, _ = bound.proof().split(".")
    return (f"{head}.{claims}.{bound.proof().split('.')[2]}",)


_FLAWS: Final[Mapping[str, tuple[str, tuple[Proofs, ...], tuple[str, ...]]]] = {
    "missing": ("A bound token without a proof is rejected.", (_none,), _REFUSES),
    "twice": ("Two proofs in one request are rejected, in two header lines or in one.", (_two, _joined), _REFUSES),
    "malformed": ("A proof that is not a JWT is rejected.", (lambda _: ("x.y.z",), lambda _: ("",)), _REFUSES),
    "signature": ("A proof with an invalid signature, or without one, is rejected.", (_broken, _unsigned), _REFUSES),
    "type": ("A proof of another type is rejected.", (_headed(typ="jwt"), _headed(typ=OMITTED)), _REFUSES),
    "method": (
        "A proof for another method is rejected.",
        (_proof(htm="GET"), _proof(htm=OMITTED), _proof(htm=None)),
        _REFUSES,
    ),
    "url": (
        "A proof for another URL is rejected.",
        (_proof(htu="https://elsewhere.example/mcp"), _proof(htu=OMITTED), _proof(htu=None)),
        _REFUSES,
    ),
    "token": ("A proof for another token is rejected.", (_proof(ath="x" * 43),), _REFUSES),
    "no-token": (
        "A proof without a token hash is rejected.",
        (_proof(ath=OMITTED), _proof(ath=None), _proof(ath="")),
        _REFUSES,
    ),
    "key": ("A proof with another key is rejected.", (_other_key, _headed(jwk=OMITTED)), _REFUSES),
    "no-id": ("A proof without a jti is rejected.", (_proof(jti=OMITTED), _proof(jti=None)), _REFUSES),
    # One minute outside of the window.
    "old": (
        "A proof that was issued six minutes ago is rejected.",
        (_off(-360),),
        (*_REFUSES, "dpop.server-iat-window", "dpop.server-replay-protection"),
    ),
    "future": (
        "A proof that is issued six minutes in the future is rejected.",
        (_off(360),),
        (*_REFUSES, "dpop.server-iat-window"),
    ),
    "long-ago": (
        "A proof that was issued ten years ago is rejected.",
        (_off(-_TEN_YEARS), _proof(iat=0)),
        (*_REFUSES, "dpop.server-iat-window", "dpop.server-replay-protection"),
    ),
    "milliseconds": (
        "A proof whose time of issue is in milliseconds is rejected.",
        (lambda bound: (bound.proof(changes={"iat": int(time.time() * 1000)}),),),
        (*_REFUSES, "dpop.server-iat-window"),
    ),
    "no-time": (
        "A proof without a time of issue is rejected.",
        (_proof(iat=OMITTED), _proof(iat=None)),
        (*_REFUSES, "dpop.server-iat-window"),
    ),
    "time-text": (
        "A proof whose time of issue is a text is rejected.",
        (lambda bound: (bound.proof(changes={"iat": str(int(time.time()))}),),),
        _REFUSES,
    ),
    "private-key": (
        "A proof that has the private key in its header is rejected.",
        (lambda bound: (bound.proof(header={"jwk": bound.key.private_jwk}),),),
        _REFUSES,
    ),
    "symmetric": (
        "A proof that is signed with a shared secret is rejected, and no challenge names an algorithm for one.",
        (lambda bound: (bound.proof(symmetric=True),),),
        (*_REFUSES, "dpop.asymmetric-only"),
    ),
}
"""The title, the proofs and the requirements, by the error in the proof."""


def _require_asymmetric(algorithms: str) -> None:
    """Require that a challenge names only algorithms that clients may use (RFC 9449, section 7.1)."""
    for each in algorithms.split():
        if each.lower() == "none" or each.upper().startswith("HS"):
            raise Deviation("asymmetric algorithms only in algs of the challenge", algorithms)


def _add_flaw(name: str) -> None:
    title, variants, proves = _FLAWS[name]
    # The scheme is case-insensitive (RFC 9110, section 11.1).
    schemes = ("DPoP", "dpop") if name == "missing" else ("DPoP",)

    async def run(server: ServerUnderTest) -> None:
        async with http_peer(server) as peer:
            bound = await bound_token(server, peer)
            for proofs in variants:
                for scheme in schemes:
                    for answer in await bound.require_refusal(proofs, "an invalid proof", scheme=scheme):
                        error_challenge = challenge(answer, "dpop")
                        if error_challenge is None or not error_challenge.get("error"):
                            raise Deviation("a DPoP challenge with an error in the 401 response", str(error_challenge))
                        if name == "symmetric":
                            _require_asymmetric(error_challenge.get("algs", ""))

    SERVER_CHECKS.add(
        f"dpop.server-proof-{name}", run, title=title, proves=proves, transports=_HTTP, subject=CheckScope.PROCESS
    )


for _name in _FLAWS:
    _add_flaw(_name)


@check(
    "dpop.server-proof-query",
    proves=("dpop.server-validates-proof",),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def query(server: ServerUnderTest) -> None:
    """A proof is accepted for a request whose URL has a query, which the URL in the proof never has."""
    async with http_peer(server) as peer:
        bound = await bound_token(server, peer)
        target = f"{peer.endpoint.target.partition('?')[0]}?x=1"
        method = "server/discover" if peer.revision.era is Era.MODERN else "ping"
        if (await sent(peer, method, {}, bearer(issuer_of(server).token()), target=target)).status != 200:
            raise NotApplicable("the server accepts no request whose URL has another query")
        answer = await sent(peer, method, {}, bound.headers(bound.proof()), target=target)
        if answer.status != 200:
            raise Deviation(f"HTTP 200 for a request to {target} with a proof", f"HTTP {answer.status}")


@check(
    "dpop.server-proof-nonce",
    proves=("dpop.server-validates-proof",),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def nonce(server: ServerUnderTest) -> None:
    """A proof with another nonce than that of the server is rejected, if the server requires one."""
    async with http_peer(server) as peer:
        bound, first = await bound_token(server, peer), BoundToken(server, peer)
        required = challenge(await first.send(first.proof()), "dpop") or {}
        if required.get("error") != "use_dpop_nonce":
            raise NotApplicable("the server requires no nonce in a proof")
        for other in ("no-such-nonce", f"{bound.nonce}x", "", None):
            await bound.require_refusal(_proof(nonce=other), f"a proof with the nonce {other}")


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
        for scheme in ("Bearer", "bearer", "BEARER"):
            for proofs in (_none, _valid):
                await bound.require_refusal(proofs, "a bound token", scheme=scheme)


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
        without: tuple[Changes, ...] = (
            {"cnf": OMITTED},
            {"cnf": None},
            {"cnf": {}},
            {"cnf": {"jkt": ""}},
            {"cnf": {"jkt": None}},
        )
        for changes in without:
            free = BoundToken(server, peer, changes, nonce=nonce)
            for proofs in (_none, _valid):
                await free.require_refusal(proofs, "a token without a key and the scheme DPoP")


@check("dpop.server-audience", proves=("dpop.server-audience",), transports=_HTTP, subject=CheckScope.PROCESS)
async def audience(server: ServerUnderTest) -> None:
    """A token for another resource is rejected, also when it is bound to a key."""
    async with http_peer(server) as peer:
        nonce = (await bound_token(server, peer)).nonce
        foreign = BoundToken(server, peer, {"aud": "https://elsewhere.example/mcp"}, nonce=nonce)
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
