"""Bearer secrets: creation, storage and comparison."""

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
    """Return a secret of 256 bits, in characters that need no escape in any context."""
    return base64url(random_bytes(_BYTES))


def digest(secret: str) -> str:
    """Return the digest of a secret, for storage. A secret of this length needs no salt and no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def is_it(secret: str, kept: str) -> bool:
    """Return whether `kept` is the digest of a secret. The time of the comparison does not depend on the secret."""
    return hmac.compare_digest(digest(secret), kept)
