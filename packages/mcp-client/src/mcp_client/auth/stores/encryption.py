"""The format of an encrypted file: a header line that describes the encryption, followed by the ciphertext.

    {"format":"mcp-credentials","version":1,"kdf":{"name":"scrypt","n":131072,"r":8,"p":1,"salt":"..."}}
    nonce (12 octets), ciphertext and tag of AES-256-GCM; the header line is the associated data

`kdf` is null if the caller passed a key. The file contains the parameters of scrypt, so that files stay readable when
the parameters for new files are raised. Parameters from a file are bounded, because they determine time and memory and
the file may come from an untrusted source.

Spec: RFC 5116 (AES-GCM), RFC 7914 (scrypt)
"""

from __future__ import annotations

import base64
import binascii
import os
from typing import TYPE_CHECKING, Final

import attrs
import orjson

from mcp_client.auth.stores.protocol import UnreadableStore
from mcp_core.field_methods import FieldValue
from mcp_core.trio.extras import require

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["KEY_BYTES", "Seal"]

KEY_BYTES: Final = 32
"""Length of an AES-256 key, in bytes."""

_FORMAT: Final = "mcp-credentials"
_VERSION: Final = 1
_HEADER_BYTES: Final = 1_000
_NONCE_BYTES: Final = 12
_SALT_BYTES: Final = 16
_MEMORY_BYTES: Final = 512 * 2**20
"""Maximum memory for scrypt, in bytes: four times the memory of the default parameters."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Scrypt(FieldValue):
    """The derivation of a key from a passphrase. The defaults are OWASP's: 128 MiB and less than a second."""

    salt: bytes
    n: int = 2**17
    r: int = 8
    p: int = 1

    def is_bounded(self) -> bool:
        power = self.n >= 2 and self.n & (self.n - 1) == 0
        return power and self.r >= 1 and 1 <= self.p <= 16 and 128 * self.n * self.r <= _MEMORY_BYTES

    def to_json(self) -> JsonObject:
        salt = base64.b64encode(self.salt).decode("ascii")
        return {"name": "scrypt", "n": self.n, "r": self.r, "p": self.p, "salt": salt}


class Seal:
    """Encryption and decryption with one key or passphrase. The first use of a passphrase is slow: use a thread.

    Args:
        key: `KEY_BYTES` octets.
        passphrase: The passphrase, instead of a key.

    Raises:
        ValueError: Both or neither are given, the key has the wrong length, or the passphrase is empty.
        MissingExtra: The package `cryptography` is not installed.
    """

    def __init__(self, *, key: bytes | None, passphrase: str | None) -> None:
        if (key is None) == (passphrase is None):
            raise ValueError("an encrypted file needs either a key or a passphrase, not both")
        if key is not None and len(key) != KEY_BYTES:
            raise ValueError(
                f"the key has {len(key)} octets, not {KEY_BYTES}; create one with secrets.token_bytes({KEY_BYTES})"
            )
        if passphrase == "":
            raise ValueError("the passphrase is empty: it would not protect the file")
        require("trio-mcp-client", "auth", "cryptography")
        self._key: Final = key
        self._passphrase: Final = passphrase
        self._derived: tuple[_Scrypt, bytes] | None = None

    def sealed(self, plain: bytes) -> bytes:
        """Return the file for this content."""
        if self._key is None and self._derived is None:
            self._derive(_Scrypt(salt=os.urandom(_SALT_BYTES)))
        kdf = None if self._derived is None else self._derived[0].to_json()
        header = orjson.dumps({"format": _FORMAT, "version": _VERSION, "kdf": kdf}) + b"\n"
        nonce = os.urandom(_NONCE_BYTES)
        return header + nonce + self._cipher().encrypt(nonce, plain, header)

    def opened(self, data: bytes, what: str) -> bytes:
        """Return the content of a file.

        Args:
            data: The file.
            what: Its name, for errors.

        Raises:
            UnreadableStore: The file has another format, was encrypted with another key or method, or was changed.
        """
        from cryptography.exceptions import InvalidTag  # lazy: an optional dependency, and large

        end = data.find(b"\n", 0, _HEADER_BYTES) + 1
        header, rest = data[:end], data[end:]
        kdf = _kdf(header, what)
        if (kdf is None) != (self._passphrase is None):
            given, wanted = ("a passphrase", "key") if kdf is None else ("a key", "passphrase")
            raise UnreadableStore(f"cannot decrypt {what} with {given}: pass the {wanted} that it was encrypted with")
        if kdf is not None and (self._derived is None or self._derived[0] != kdf):
            self._derive(kdf)
        try:
            return self._cipher().decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], header)
        except (InvalidTag, ValueError):
            raise UnreadableStore(
                f"cannot decrypt {what}: it was encrypted with another key or passphrase, or changed since. It is "
                "unchanged: pass the right key or passphrase, or delete the file and log in again"
            ) from None

    def _cipher(self) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # lazy: an optional dependency, and large

        secret = self._key if self._derived is None else self._derived[1]
        assert secret is not None  # noqa: S101  # there is a key, or it was derived
        return AESGCM(secret)

    def _derive(self, kdf: _Scrypt) -> None:
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt  # lazy: an optional dependency, and large

        assert self._passphrase is not None  # noqa: S101  # without a key there is one
        scrypt = Scrypt(salt=kdf.salt, length=KEY_BYTES, n=kdf.n, r=kdf.r, p=kdf.p)
        self._derived = (kdf, scrypt.derive(self._passphrase.encode("utf-8", "surrogatepass")))


def _kdf(header: bytes, what: str) -> _Scrypt | None:
    """Return how the key of a file is derived; `None` for a key of the caller. Raises `UnreadableStore`."""
    try:
        document: JsonValue = orjson.loads(header)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise UnreadableStore(f"{what} is not a credentials file, and is left unchanged: use another path")
    if document.get("version") != _VERSION:
        raise UnreadableStore(
            f"{what} has format {document.get('version')!a:.20}, but only format {_VERSION} is supported: use the "
            "version that created it, or another file"
        )
    kdf = document.get("kdf")
    if kdf is None:
        return None
    found = _scrypt(kdf) if isinstance(kdf, dict) and kdf.get("name") == "scrypt" else None
    if found is None or not found.is_bounded():
        raise UnreadableStore(f"{what} has an unknown or unreasonable key derivation (kdf): use another file")
    return found


def _scrypt(kdf: JsonObject) -> _Scrypt | None:
    salt, numbers = kdf.get("salt"), [kdf.get(name) for name in ("n", "r", "p")]
    whole = [number for number in numbers if isinstance(number, int) and not isinstance(number, bool)]
    if not isinstance(salt, str) or len(whole) < len(numbers):
        return None
    try:
        return _Scrypt(salt=base64.b64decode(salt, validate=True), n=whole[0], r=whole[1], p=whole[2])
    except (binascii.Error, ValueError):
        return None
