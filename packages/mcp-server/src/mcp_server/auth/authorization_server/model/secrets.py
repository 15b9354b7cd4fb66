"""What authorizes its bearer: how it is made, kept and compared."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from mcp_core.oauth.jws import base64url

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["digest", "is_it", "new_secret"]

_BYTES: Final = 32


def new_secret(random_bytes: Callable[[int], bytes]) -> str:
    """A secret of 256 bits, in characters that need no escape anywhere."""
    return base64url(random_bytes(_BYTES))


def digest(secret: str) -> str:
    """What is kept of a secret. It has so many bits that it needs neither salt nor a slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def is_it(secret: str, kept: str) -> bool:
    """Whether it is the secret of which `kept` is the digest, in a time that does not tell how near it is."""
    return hmac.compare_digest(digest(secret), kept)
