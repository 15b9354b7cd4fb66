"""Encryption of the state of multi round-trip requests.

The client stores the state between round trips. It cannot read it, change it, or use it for another request.

The algorithm is AES-256-GCM with a random nonce and a list of keys: the first key seals, all keys unseal. To rotate the
key of a deployment, put the new key first. Remove the old key when all states that it sealed have expired.

The text is the base64 encoding of: key id (8 bytes), nonce (12 bytes), ciphertext with its tag.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import ErrorCode, LimitExceeded, RequestFailed
from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["InputPolicy", "KeyRing"]

_KEY_BYTES: Final = 32
"""Minimum length of a key in bytes: the key length of AES-256."""

_ID_BYTES: Final = 8
_NONCE_BYTES: Final = 12
"""Random nonces of 96 bits are safe for 2**32 states per key, NIST SP 800-38D section 8.3."""

MAX_STATE_CHARS: Final = 1024 * 1024
"""Maximum length of a `requestState`: about a hundred long input responses. The client sends it in each round trip."""


def _as_tuple(keys: Sequence[bytes]) -> tuple[bytes, ...]:
    return tuple(keys)


def _checked_keys(_: InputPolicy, __: attrs.Attribute[Sequence[bytes]], keys: Sequence[bytes]) -> None:
    for place, key in enumerate(keys):
        if len(key) < _KEY_BYTES:
            raise ValueError(
                f"InputPolicy.keys[{place}] has {len(key)} bytes: it needs at least {_KEY_BYTES} random bytes, "
                f"for example from secrets.token_bytes({_KEY_BYTES})"
            )


def _positive(_: InputPolicy, attribute: attrs.Attribute[int], value: int) -> None:
    if value <= 0:
        raise ValueError(f"InputPolicy.{attribute.name} must be greater than 0, not {value}")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class InputPolicy(FieldValue):
    """The settings of multi round-trip requests, in revision 2026-07-28.

    Raises:
        ValueError: A key is too short, or a limit is not positive.
    """

    keys: Sequence[bytes] = attrs.field(default=(), converter=_as_tuple, validator=_checked_keys, repr=False)
    """The keys of the state, each at least 32 random bytes. The first key seals, all keys unseal. By default, the
    process generates a key. Another process, or this server after a restart, then cannot continue a request."""
    seconds: int = attrs.field(default=600, validator=_positive)
    """Time that the client has to respond, in seconds per round trip."""
    round_trips: int = attrs.field(default=16, validator=_positive)
    """Maximum number of round trips of one request."""


class KeyRing:
    """A `mcp_core.engine.mrtr.RequestStateSealer` with several keys: the first key seals, all keys unseal.

    Args:
        keys: The keys, as in `InputPolicy.keys`. Without keys, a random key is generated.
    """

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self.shared: bool = False
        """Whether the keys were given, so that other processes can have them."""
        self._ciphers: dict[bytes, AESGCM] = {}
        self.use(keys)

    def use(self, keys: Sequence[bytes]) -> None:
        """Replace the keys. States that only a replaced key sealed cannot be unsealed from now on.

        Args:
            keys: The keys, as in `InputPolicy.keys`. Without keys, a random key is generated.
        """
        self.shared = bool(keys)
        self._keys = tuple(keys) or (secrets.token_bytes(_KEY_BYTES),)
        self._ids = tuple(_derive(key, b"mcp requestState: id")[:_ID_BYTES] for key in self._keys)
        self._ciphers = {id: cipher for id, cipher in self._ciphers.items() if id in self._ids}

    def seal(self, plain: bytes, bound_to: bytes) -> str:
        """Return the sealed text. It unseals only with the same `bound_to`. Raises `LimitExceeded` if too long."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        key_id = self._ids[0]
        sealed = key_id + nonce + self._cipher(key_id, self._keys[0]).encrypt(nonce, plain, bound_to)
        text = base64.urlsafe_b64encode(sealed).decode("ascii")
        if len(text) > MAX_STATE_CHARS:
            raise LimitExceeded(
                "characters of a requestState",
                observed=len(text),
                allowed=MAX_STATE_CHARS,
                setting="the size of the input responses, of the results of Context.once and of InputRequired.state",
            )
        return text

    def unseal(self, sealed: str, bound_to: bytes) -> bytes | None:
        """Return the bytes that were sealed; `None` if another key sealed them or `bound_to` differs.

        Raises:
            RequestFailed: The text is longer than the maximum length of a `requestState`.
        """
        if len(sealed) > MAX_STATE_CHARS:
            raise RequestFailed(
                f"requestState has {len(sealed)} characters: at most {MAX_STATE_CHARS} are accepted",
                code=ErrorCode.INVALID_PARAMS,
            )
        try:
            data = base64.b64decode(sealed.encode("ascii"), altchars=b"-_", validate=True)
        except (UnicodeEncodeError, binascii.Error):
            return None
        key_id = data[:_ID_BYTES]
        for known, key in zip(self._ids, self._keys, strict=True):
            if known == key_id:
                return self._open(self._cipher(key_id, key), data[_ID_BYTES:], bound_to)
        return None

    def _open(self, cipher: AESGCM, data: bytes, bound_to: bytes) -> bytes | None:
        from cryptography.exceptions import InvalidTag  # lazy: see _cipher

        try:
            return cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], bound_to)
        except (InvalidTag, ValueError):
            # `ValueError`: the data is shorter than a nonce.
            return None

    def _cipher(self, key_id: bytes, key: bytes) -> AESGCM:
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # lazy: most servers do not use round trips

            cipher = self._ciphers[key_id] = AESGCM(_derive(key, b"mcp requestState: key"))
        return cipher


def _derive(key: bytes, label: bytes) -> bytes:
    """Derive 32 bytes for one purpose, so that a key that is also used elsewhere is not exposed."""
    return hmac.digest(key, label, "sha256")
