"""Proof Key for Code Exchange (PKCE, RFC 7636), with S256, the only secure method."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.oauth.jws import base64url

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["METHOD", "Pkce", "challenge_of", "new_pkce", "verifies"]

METHOD: Final = "S256"
"""The value of `code_challenge_method`."""

_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_VERIFIER_BYTES: Final = 32
"""RFC 7636 section 4.1 recommends 32 random octets, which are 43 characters."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Pkce(FieldValue):
    """The verifier and the challenge for one authorization request."""

    verifier: str = attrs.field(repr=False)
    """The verifier, sent to the token endpoint. It is a secret until then."""
    challenge: str
    """The challenge, sent through the browser."""


def new_pkce(random_bytes: Callable[[int], bytes]) -> Pkce:
    """Create a pair for one authorization request.

    Args:
        random_bytes: Returns the given number of unpredictable bytes, like `secrets.token_bytes`.
    """
    verifier = base64url(random_bytes(_VERIFIER_BYTES))
    return Pkce(verifier=verifier, challenge=challenge_of(verifier))


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge for a verifier."""
    return base64url(hashlib.sha256(verifier.encode("ascii")).digest())


def verifies(verifier: str, challenge: str) -> bool:
    """Return whether a verifier belongs to a challenge, as checked by an authorization server. Spec: RFC 7636 4.6"""
    if not _VERIFIER.fullmatch(verifier) or not challenge.isascii():
        return False
    return hmac.compare_digest(challenge_of(verifier), challenge)
