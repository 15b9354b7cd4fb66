"""Clients with DPoP: tokens that are bound to a key, and a proof with each request.

DPoP is optional: a client that sends no proofs is not judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.clients.violations import Rule, add_rules
from mcp_conformance.oauth_testbed.client_jwts import read_jwt

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_conformance.checks.auth.clients.violations import OAuthRun

_MODERN_ALGORITHMS: Final = ("ES256", "ES384", "ES512", "EdDSA", "Ed25519")
_BOUND: Final = ("auth/dpop", "auth/dpop-nonce")
_NO_PROOF: Final = "sends no DPoP proofs"


def _proofs(found: OAuthRun) -> bool:
    return any(each.header("dpop") is not None for each in found.testbed.requests)


def _bound_calls(found: OAuthRun) -> bool:
    return _proofs(found) and any(each.header("authorization") is not None for each in found.calls)


def _required_nonces(found: OAuthRun, *, at_server: bool) -> list[tuple[int, str]]:
    """Return the nonces of rejected proofs, with the index of the request."""
    nonces: list[tuple[int, str]] = []
    for index, (request, answer) in enumerate(zip(found.testbed.requests, found.testbed.answers, strict=True)):
        if answer is None or (request.place == found.testbed.places.endpoint) is not at_server:
            continue
        nonce = answer.header("dpop-nonce")
        if nonce is not None and "use_dpop_nonce" in (answer.header("www-authenticate") or answer.body.decode()):
            nonces.append((index, nonce))
    return nonces


def _nonce_was_required(found: OAuthRun, *, at_server: bool) -> bool:
    """Return whether a proof was rejected for its nonce, or had one from an earlier response."""
    if _required_nonces(found, at_server=at_server):
        return True
    place = found.testbed.places.endpoint
    proofs = [
        read_jwt(each.header("dpop") or "") for each in found.testbed.requests if (each.place == place) is at_server
    ]
    return any(proof is not None and "nonce" in proof.claims for proof in proofs)


def _nonce_ignored(found: OAuthRun, *, at_server: bool) -> str | None:
    for index, nonce in _required_nonces(found, at_server=at_server):
        place = found.testbed.requests[index].place
        again = next((each for each in found.testbed.requests[index + 1 :] if each.place == place), None)
        if again is None:
            return f"no further request to {place}"
        proof = read_jwt(again.header("dpop") or "")
        if proof is None or proof.claims.get("nonce") != nonce:
            return f"the next request to {place} does not have the nonce {nonce!a} of the response"
    return _nonce_of_another(found, at_server=at_server)


def _nonce_of_another(found: OAuthRun, *, at_server: bool) -> str | None:
    """Return a request with a nonce that only the other server has issued, after one that this server has issued."""
    issued: dict[bool, set[str]] = {True: set(), False: set()}
    for request, answer in zip(found.testbed.requests, found.testbed.answers, strict=True):
        side = request.place == found.testbed.places.endpoint
        proof = read_jwt(request.header("dpop") or "")
        nonce = None if proof is None else proof.claims.get("nonce")
        if side is at_server and issued[side] and isinstance(nonce, str) and nonce in issued[not side]:
            return f"a request to {request.place} has the nonce {nonce!a} of another server"
        given = None if answer is None else answer.header("dpop-nonce")
        if given is not None:
            issued[side].add(given)
    return None


def _nonce_rule(id: str, title: str, note: str, *, at_server: bool) -> Rule:
    return Rule(
        id=f"dpop.client-{id}",
        title=title,
        proves=(note,),
        within=("auth/dpop-nonce",),
        tested=lambda found: _nonce_was_required(found, at_server=at_server),
        attempted=_proofs,
        wrong=lambda found: _nonce_ignored(found, at_server=at_server),
        optional=_NO_PROOF,
    )


def _algorithm(found: OAuthRun) -> str | None:
    for each in found.testbed.requests:
        proof = read_jwt(each.header("dpop") or "")
        if proof is not None and proof.header.get("alg") not in _MODERN_ALGORITHMS:
            return f"alg {proof.header.get('alg')!a}"
    return None


def _proved_tokens(found: OAuthRun) -> bool:
    """Return whether a client that sends proofs requested tokens."""
    return _proofs(found) and bool(found.tokens)


def _dpop(id: str, title: str, note: str, tested: Callable[[OAuthRun], bool] = _bound_calls) -> Rule:
    return Rule(
        id=f"dpop.client-{id}",
        title=title,
        proves=(note,),
        notes=(note,),
        within=_BOUND,
        tested=tested,
        attempted=_proofs,
        optional=_NO_PROOF,
    )


add_rules(
    (
        _dpop("scheme", "A bound token is sent with the scheme DPoP.", "dpop.client-scheme"),
        _dpop(
            "fresh",
            "Each request with a bound token has its own proof, signed with the token's key.",
            "dpop.client-fresh-proof",
        ),
        _dpop(
            "header",
            "There is one DPoP header, with the type of a proof, and only the public key.",
            "dpop.client-proof-header",
        ),
        _dpop(
            "claims",
            "A proof has the method, the URL without query, the time of issue, and the token hash.",
            "dpop.client-proof-claims",
        ),
        # Without a proof there is no bound token.
        _dpop(
            "token-request",
            "The token request has a proof, and a refresh request one with the same key.",
            "dpop.client-token-request-proof",
            _proved_tokens,
        ),
        _nonce_rule(
            "token-nonce",
            "If the token endpoint requires a nonce, the client retries with it, and sends it no nonce of the MCP server.",
            "dpop.client-as-nonce",
            at_server=False,
        ),
        _nonce_rule(
            "nonce",
            "If the server requires a nonce, the client retries with it, and sends it no nonce of the token endpoint.",
            "dpop.client-rs-nonce",
            at_server=True,
        ),
        _dpop("asymmetric", "Proofs are signed with an asymmetric key.", "dpop.asymmetric-only"),
        Rule(
            id="dpop.client-algorithm",
            title="Proofs are signed with ES256 or a similar algorithm.",
            proves=("dpop.modern-algorithms",),
            within=_BOUND,
            tested=_proofs,
            wrong=_algorithm,
            optional=_NO_PROOF,
        ),
    )
)
