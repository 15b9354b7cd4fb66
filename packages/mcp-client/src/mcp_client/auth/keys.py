"""Private keys of a client: for `private_key_jwt`, for assertions of a workload, and for DPoP.

    key = PrivateKey.from_pem(pem, key_id="2026-1")
    auth = OAuth("Nightly report", grant=ClientCredentials(), signer=key, credentials=[...])

The module needs `trio-mcp-client[auth]`: `cryptography` and `joserfc` provide the cryptographic functions.

Spec: RFC 7515, RFC 7517, RFC 7518, RFC 8037
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from mcp_core.errors import McpError
from mcp_core.field_methods import FieldValue
from mcp_core.oauth.jws import thumbprint
from mcp_core.trio.extras import require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from joserfc.jwk import ECKey, OKPKey, RSAKey

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

    _Key: TypeAlias = ECKey | OKPKey | RSAKey

__all__ = ["PrivateKey", "UnusableKey"]


class UnusableKey(McpError):
    """A private key cannot be parsed or used. The message does not contain any part of the key."""


@attrs.frozen(eq=False, repr=False)
class _Kind(FieldValue):
    """The keys that an algorithm supports."""

    kty: Literal["EC", "OKP", "RSA"]
    curves: tuple[str, ...] = ()


_KINDS: Final[dict[str, _Kind]] = {
    "ES256": _Kind("EC", ("P-256",)),
    "ES384": _Kind("EC", ("P-384",)),
    "ES512": _Kind("EC", ("P-521",)),
    "EdDSA": _Kind("OKP", ("Ed25519", "Ed448")),
    "Ed25519": _Kind("OKP", ("Ed25519",)),
    "Ed448": _Kind("OKP", ("Ed448",)),
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), _Kind("RSA")),
}
"""Keys by algorithm. The first algorithm that supports a key is the default of this key."""

_RSA_BITS: Final = 3072
"""Length of new RSA keys, in bits: as strong as ES256."""
_LEAST_RSA_BITS: Final = 2048
"""Minimum length of an RSA key, in bits (RFC 7518 section 3.3)."""


class PrivateKey:
    """A private key and its algorithm: a `Signer`. Created by `generate`, `from_pem` or `from_jwk`.

    Only `to_pem` reveals the private key. `repr` shows the thumbprint of the public key.
    """

    def __init__(self, key: _Key, algorithm: str | None, key_id: str | None) -> None:
        self.algorithm: Final = _algorithm_for(key, algorithm)
        """The algorithm name of RFC 7518 or RFC 8037, for example `ES256`."""
        shown = key.as_dict(private=False)
        public: JsonObject = {name: value for name in _PUBLIC if isinstance(value := shown.get(name), str)}
        self.jwk: Final[Mapping[str, JsonValue]] = public if key_id is None else {**public, "kid": key_id}
        """The public key (RFC 7517), with the `kid` if there is one."""
        self._key: Final = key

    @classmethod
    def generate(cls, algorithm: str = "ES256", *, key_id: str | None = None) -> PrivateKey:
        """Generate a key.

        Args:
            algorithm: One of `mcp_core.oauth.jws.ASYMMETRIC_ALGORITHMS`.
            key_id: The `kid`, by which peers distinguish keys.

        Raises:
            UnusableKey: The algorithm is unknown.
            MissingExtra: A package is not installed.
        """
        require("trio-mcp-client", "auth", "cryptography", "joserfc")
        return cls(_generated(_kind_of(algorithm)), algorithm, key_id)

    @classmethod
    def from_pem(
        cls, data: bytes | str, *, password: str | None = None, algorithm: str | None = None, key_id: str | None = None
    ) -> PrivateKey:
        """Parse a key in PEM: PKCS #8, PKCS #1 or SEC 1.

        Args:
            data: The text, with its BEGIN and END lines.
            password: The password of an encrypted key.
            algorithm: The algorithm; by default it depends on the key: ES256, ES384 or ES512 by the curve, EdDSA, or
                RS256.
            key_id: The `kid` under which peers know the key.

        Raises:
            UnusableKey: The text is not a private key, the password is wrong, or the algorithm does not support the key.
            MissingExtra: A package is not installed.
        """
        require("trio-mcp-client", "auth", "cryptography", "joserfc")
        from cryptography.exceptions import UnsupportedAlgorithm  # lazy: an optional dependency, and large
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # lazy: likewise

        octets = data.encode() if isinstance(data, str) else data
        try:
            loaded = load_pem_private_key(octets, None if password is None else password.encode())
        except TypeError:
            lacking = "encrypted: set the password" if password is None else "not encrypted: remove the password"
            raise UnusableKey(f"the private key is {lacking}") from None
        except (ValueError, UnsupportedAlgorithm):
            sentence = "cannot read the private key: it is not a private key in PEM, or the password is wrong"
            raise UnusableKey(sentence) from None
        return cls(_wrapped(loaded), algorithm, key_id)

    @classmethod
    def from_jwk(cls, jwk: Mapping[str, JsonValue], *, algorithm: str | None = None) -> PrivateKey:
        """Parse a private key in JSON (JWK). Its `kid` is kept, and its `alg` applies unless `algorithm` is passed.

        Raises:
            UnusableKey: The JWK is not a private key, the algorithm does not support the key, or a package is not
                installed.
        """
        require("trio-mcp-client", "auth", "cryptography", "joserfc")
        from joserfc.errors import JoseError  # lazy: an optional dependency, and large
        from joserfc.jwk import ECKey, OKPKey, RSAKey  # lazy: likewise

        kinds: dict[str, type[_Key]] = {"EC": ECKey, "OKP": OKPKey, "RSA": RSAKey}
        kind, key_id, named = kinds.get(str(jwk.get("kty"))), jwk.get("kid"), jwk.get("alg")
        if kind is None or "d" not in jwk:
            raise UnusableKey("the JWK is not a private key of kty EC, OKP or RSA")
        members: dict[str, str | list[str]] = {
            name: value for name, value in jwk.items() if name in _MEMBERS and isinstance(value, str)
        }
        try:
            loaded = kind.import_key(members).private_key
        except (JoseError, ValueError, KeyError, TypeError):
            raise UnusableKey("invalid JWK: a member is missing or has an invalid value") from None
        chosen = named if algorithm is None and isinstance(named, str) else algorithm
        # The public key is derived from the private key, so that both always match.
        return cls(_wrapped(loaded), chosen, key_id if isinstance(key_id, str) else None)

    def to_pem(self, *, password: str | None = None) -> bytes:
        """Return the private key in PEM (PKCS #8).

        Args:
            password: The password to encrypt the key with; `None` for an unencrypted key. Keep this secret.
        """
        return self._key.as_pem(private=True, password=password)

    def sign(self, data: bytes) -> bytes:
        """Sign octets with the algorithm of the key."""
        from joserfc.jws import JWSRegistry  # lazy: an optional dependency, and large

        signature: bytes = JWSRegistry.algorithms[self.algorithm].sign(data, self._key)
        return signature

    def __repr__(self) -> str:
        return f"<PrivateKey {self.algorithm}, thumbprint {thumbprint(self.jwk)}>"


_PUBLIC: Final = ("kty", "crv", "x", "y", "n", "e")
_MEMBERS: Final = (*_PUBLIC, "d", "p", "q", "dp", "dq", "qi")


def _generated(kind: _Kind) -> _Key:
    """Generate a key, on the first curve of its kind."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa  # lazy: large

    match kind.curves[:1]:
        case ["P-256"]:
            return _wrapped(ec.generate_private_key(ec.SECP256R1()))
        case ["P-384"]:
            return _wrapped(ec.generate_private_key(ec.SECP384R1()))
        case ["P-521"]:
            return _wrapped(ec.generate_private_key(ec.SECP521R1()))
        case ["Ed25519"]:
            return _wrapped(ed25519.Ed25519PrivateKey.generate())
        case ["Ed448"]:
            return _wrapped(ed448.Ed448PrivateKey.generate())
        case _:
            return _wrapped(rsa.generate_private_key(65537, _RSA_BITS))


def _wrapped(loaded: object) -> _Key:
    """Return the key for `joserfc`. Raises `UnusableKey` for a kind of key that cannot sign JWTs."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa  # lazy: large
    from joserfc.jwk import ECKey, OKPKey, RSAKey  # lazy: likewise

    if isinstance(loaded, ec.EllipticCurvePrivateKey) and loaded.curve.name in _CURVES:
        return ECKey.import_key(loaded)
    if isinstance(loaded, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey):
        return OKPKey.import_key(loaded)
    if isinstance(loaded, rsa.RSAPrivateKey):
        if loaded.key_size < _LEAST_RSA_BITS:
            raise UnusableKey(f"the RSA key has {loaded.key_size} bits; the minimum is {_LEAST_RSA_BITS}")
        return RSAKey.import_key(loaded)
    raise UnusableKey("this kind of private key cannot sign JWTs; use EC (P-256, P-384, P-521), Ed25519, Ed448 or RSA")


_CURVES: Final = frozenset({"secp256r1", "secp384r1", "secp521r1"})
"""The names of the curves of ES256, ES384 and ES512 in `cryptography`."""


def _kind_of(algorithm: str) -> _Kind:
    try:
        return _KINDS[algorithm]
    except KeyError:
        known = ", ".join(_KINDS)
        raise UnusableKey(f"{algorithm!a} is not a known asymmetric algorithm; use one of {known}") from None


def _algorithm_for(key: _Key, algorithm: str | None) -> str:
    """Return the given algorithm if it supports the key, or the default algorithm of the key."""
    curve = key.as_dict(private=False).get("crv")
    fitting = [
        name for name, kind in _KINDS.items() if kind.kty == key.key_type and (curve in kind.curves or not kind.curves)
    ]
    if algorithm is None:
        return fitting[0]
    _kind_of(algorithm)
    if algorithm not in fitting:
        shown = f"{key.key_type} key" if curve is None else f"{key.key_type} key on {curve}"
        raise UnusableKey(f"{algorithm} does not support the {shown}; use {', '.join(fitting)}")
    return algorithm
