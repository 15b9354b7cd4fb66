"""Seals the state of input rounds, which travels through the client: nobody can read, change or move it.

AES-256-GCM with a random nonce, under a ring of keys: the first one seals, all of them open. To change the key of a
deployment, put the new one first, and take the old one away when no state that it sealed is valid any more.

The text is base64 of: key id (8 bytes), nonce (12), ciphertext with its tag.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import ErrorCode, LimitExceeded, RequestFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["InputPolicy", "KeyRing"]

_KEY_BYTES: Final = 32
"""The least length of a key: as much as AES-256 uses."""

_ID_BYTES: Final = 8
_NONCE_BYTES: Final = 12
"""Random nonces of 96 bits are safe for four thousand million states of one key, NIST SP 800-38D section 8.3."""

MAX_STATE_CHARS: Final = 1024 * 1024
"""The longest `requestState`: some hundred long answers. The client sends it with each round."""


def _as_tuple(keys: Sequence[bytes]) -> tuple[bytes, ...]:
    return tuple(keys)


def _checked_keys(_: InputPolicy, __: attrs.Attribute[Sequence[bytes]], keys: Sequence[bytes]) -> None:
    for place, key in enumerate(keys):
        if len(key) < _KEY_BYTES:
            raise ValueError(
                f"InputPolicy.keys[{place}] has {len(key)} bytes; {_KEY_BYTES} random ones are needed, "
                f"as from secrets.token_bytes({_KEY_BYTES})"
            )


def _positive(_: InputPolicy, attribute: attrs.Attribute[int], value: int) -> None:
    if value <= 0:
        raise ValueError(f"InputPolicy.{attribute.name} must be more than 0, not {value}")


@attrs.frozen(kw_only=True)
class InputPolicy:
    """How questions to the client are asked in rounds, on 2026-07-28.

    Raises:
        ValueError: A key is too short, or a bound is not positive.
    """

    keys: Sequence[bytes] = attrs.field(default=(), converter=_as_tuple, validator=_checked_keys, repr=False)
    """The keys that seal the state, 32 random bytes or more each; the first one seals, all of them open. Without any, the
    process invents one: then a second process, or the same after a restart, cannot go on with a request."""
    seconds: int = attrs.field(default=600, validator=_positive)
    """How long the client has to answer, in seconds for each round."""
    rounds: int = attrs.field(default=16, validator=_positive)
    """How many rounds one request may take."""


class KeyRing:
    """Seals with the first key, opens with any. A `mcp_core.engine.mrtr.Sealer`.

    Args:
        keys: See `InputPolicy.keys`.
    """

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._keys: Final = tuple(keys) or (secrets.token_bytes(_KEY_BYTES),)
        self._ids: Final = tuple(_derive(key, b"mcp requestState: id")[:_ID_BYTES] for key in self._keys)
        self._ciphers: dict[bytes, AESGCM] = {}

    def seal(self, plain: bytes, bound_to: bytes) -> str:
        """The sealed text; it opens only together with `bound_to`. Raises `LimitExceeded` when it gets too long."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        key_id = self._ids[0]
        sealed = key_id + nonce + self._cipher(key_id, self._keys[0]).encrypt(nonce, plain, bound_to)
        text = base64.urlsafe_b64encode(sealed).decode("ascii")
        if len(text) > MAX_STATE_CHARS:
            raise LimitExceeded(
                "characters of a requestState",
                observed=len(text),
                allowed=MAX_STATE_CHARS,
                setting="the size of the answers, of the results of Context.once and of InputRequired.state",
            )
        return text

    def unseal(self, sealed: str, bound_to: bytes) -> bytes | None:
        """The bytes that were sealed; `None` when the text is not of this ring, or not for this use.

        Raises:
            RequestFailed: The text is longer than any that is sealed here.
        """
        if len(sealed) > MAX_STATE_CHARS:
            raise RequestFailed(
                f"requestState has {len(sealed)} characters; no more than {MAX_STATE_CHARS} are accepted",
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
            # `ValueError`: there is not even a whole nonce.
            return None

    def _cipher(self, key_id: bytes, key: bytes) -> AESGCM:
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # lazy: most servers never ask in rounds

            cipher = self._ciphers[key_id] = AESGCM(_derive(key, b"mcp requestState: key"))
        return cipher


def _derive(key: bytes, label: bytes) -> bytes:
    """32 bytes for one use, so that a key which has another use as well betrays nothing there."""
    return hmac.digest(key, label, "sha256")
