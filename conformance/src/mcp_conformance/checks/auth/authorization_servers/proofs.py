"""The DPoP proofs of token requests: valid, and wrong in one respect (RFC 9449 section 4.3)."""

from __future__ import annotations

import json
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from joserfc import jws
from joserfc.jwk import ECKey

from mcp_conformance.oauth_testbed.changed_members import OMITTED
from mcp_conformance.oauth_testbed.token_issuer import ProofKey, unsigned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from mcp_conformance.oauth_testbed.changed_members import Changes, OmittedMember
    from mcp_core.jsonrpc.messages import JsonObject

    Proofs: TypeAlias = Callable[[str, JsonObject], tuple[str, ...]]
    """Makes the proofs of a request from its URL and the claims that the server demands."""

__all__ = [
    "BAD_BY_CHOICE",
    "BAD_PROOFS",
    "BAD_REFRESHES",
    "KEY",
    "REFRESHES_BY_CHOICE",
    "good_proof",
    "no_proof",
    "proof_headers",
]

KEY: Final = ProofKey()
"""The key of bound tokens."""
_OTHER_KEY: Final = ProofKey()
_HOUR: Final = 3600


def proof_headers(proofs: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the headers with proofs."""
    return tuple(("DPoP", proof) for proof in proofs)


def no_proof(_url: str, _demanded: JsonObject) -> tuple[str, ...]:
    """Make no proof."""
    return ()


def _made(
    url: str,
    demanded: JsonObject,
    *,
    key: ProofKey = KEY,
    header: Changes | None = None,
    changes: Changes | None = None,
    symmetric: bool = False,
) -> str:
    # A token request has no token yet, and its proof no token hash.
    claims: Changes = {**demanded, **(changes or {}), "ath": OMITTED}
    return key.proof(url, "", header=header, changes=claims, symmetric=symmetric)


def good_proof(url: str, demanded: JsonObject) -> tuple[str, ...]:
    """Make a valid proof."""
    return (_made(url, demanded),)


def _changed(url: str, demanded: JsonObject, **changes: str | OmittedMember | None) -> tuple[str, ...]:
    return (_made(url, demanded, changes={**changes}),)


def _two(url: str, demanded: JsonObject) -> tuple[str, ...]:
    return (_made(url, demanded), _made(url, demanded))


def _headed(url: str, demanded: JsonObject, **header: str | OmittedMember) -> tuple[str, ...]:
    return (_made(url, demanded, header={**header}),)


def _joined(url: str, demanded: JsonObject) -> tuple[str, ...]:
    return (", ".join(_two(url, demanded)),)


def _longer_url(url: str, demanded: JsonObject) -> tuple[str, ...]:
    return _changed(url, demanded, htu=f"{url}/more")


def _foreign_signature(url: str, demanded: JsonObject) -> tuple[str, ...]:
    return (f"{_made(url, demanded).rpartition('.')[0]}.{_made(url, demanded).rpartition('.')[2]}",)


def _unsigned(url: str, demanded: JsonObject) -> tuple[str, ...]:
    return (unsigned(_made(url, demanded)),)


def _with_private_key(url: str, demanded: JsonObject) -> tuple[str, ...]:
    key = ECKey.generate_key("P-256")
    claims = {"jti": secrets.token_urlsafe(16), "htm": "POST", "htu": url, "iat": int(time.time()), **demanded}
    header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": dict(key.as_dict(private=True))}
    return (jws.serialize_compact(header, json.dumps(claims), key),)


def _late(url: str, _demanded: JsonObject, *, seconds: int) -> tuple[str, ...]:
    # Without the nonce: a server that demands one may take the time from it, and rejects this proof.
    return (_made(url, {}, changes={"iat": int(time.time()) + seconds}),)


BAD_PROOFS: Final[Mapping[str, Proofs]] = {
    "with a proof for another URL": partial(_changed, htu="https://elsewhere.example/token"),
    "with a proof whose URL only begins as the token endpoint": _longer_url,
    "with a proof without a URL": partial(_changed, htu=OMITTED),
    "with a proof whose URL is null": partial(_changed, htu=None),
    "with a proof for another method": partial(_changed, htm="GET"),
    "with a proof without a method": partial(_changed, htm=OMITTED),
    "with a proof whose method is null": partial(_changed, htm=None),
    "with a proof of another type": partial(_headed, typ="jwt"),
    "with a proof without a type": partial(_headed, typ=OMITTED),
    "with a proof without a key": partial(_headed, jwk=OMITTED),
    "with the signature of another proof": _foreign_signature,
    "with an unsigned proof": _unsigned,
    "with a symmetric proof": lambda url, demanded: (_made(url, demanded, symmetric=True),),
    "with a proof that contains its private key": _with_private_key,
    "with a proof that is an hour old": partial(_late, seconds=-_HOUR),
    "with a proof that is issued in an hour": partial(_late, seconds=_HOUR),
    "with a proof without a time of issue": partial(_changed, iat=OMITTED),
    "with a proof without a jti": partial(_changed, jti=OMITTED),
    "with a proof whose jti is null": partial(_changed, jti=None),
    "with two proofs": _two,
    "with two proofs in one line": _joined,
    "without a proof": no_proof,
}
"""Wrong proofs of a token request of a client whose tokens must be bound."""

BAD_BY_CHOICE: Final = ("with a proof for another URL", "with the signature of another proof")
"""Wrong proofs of a token request of a client that does not demand bound tokens."""

REFRESHES_BY_CHOICE: Final = ("without a proof", "with a proof of another key")
"""Wrong proofs of a refresh by such a client."""

BAD_REFRESHES: Final[Mapping[str, Proofs]] = {
    "with a proof of another key": lambda url, demanded: (_made(url, demanded, key=_OTHER_KEY),),
    **BAD_PROOFS,
}
"""Wrong proofs of a refresh. The refresh token of a public client is bound to its key (RFC 9449 section 5)."""
