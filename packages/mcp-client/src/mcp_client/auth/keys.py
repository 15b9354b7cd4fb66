"""Private keys of a client: for `private_key_jwt`, for assertions of a workload, for DPoP.

    key = PrivateKey.from_pem(pem, key_id="2026-1")
    auth = OAuth("Nightly report", grant=ClientCredentials(), signer=key, credentials=[...])

It needs the packages `cryptography` and `joserfc`, which do the arithmetic.

Spec: RFC 7515, RFC 7517, RFC 7518, RFC 8037
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from mcp_core.errors import McpError
from mcp_core.oauth.jws import thumbprint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from joserfc.jwk import ECKey, OKPKey, RSAKey

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

    _Key: TypeAlias = ECKey | OKPKey | RSAKey

__all__ = ["PrivateKey", "UnusableKey"]


class UnusableKey(McpError):
    """A key that cannot be read, or not be used for what was asked. The sentence has nothing of the key in it."""


@attrs.frozen
class _Kind:
    """The keys that an algorithm works with."""

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
"""By algorithm; of those that fit a key, the first is what it is used with unless another is named."""

_RSA_BITS: Final = 3072
"""Of new keys: as strong as ES256."""
_LEAST_RSA_BITS: Final = 2048
"""RFC 7518 section 3.3."""


class PrivateKey:
    """A private key with the algorithm that it is used with: a `Signer`. Made by `generate`, `from_pem` or `from_jwk`.

    Nothing but `to_pem` gives the private half away; `repr` shows the thumbprint of the public one.
    """

    def __init__(self, key: _Key, algorithm: str | None, key_id: str | None) -> None:
        self.algorithm: Final = _algorithm_for(key, algorithm)
        """As RFC 7518 and RFC 8037 call it, as `ES256`."""
        shown = key.as_dict(private=False)
        public: JsonObject = {name: value for name in _PUBLIC if isinstance(value := shown.get(name), str)}
        self.jwk: Final[Mapping[str, JsonValue]] = public if key_id is None else {**public, "kid": key_id}
        """The public key (RFC 7517), with its `kid` if it was given one."""
        self._key: Final = key

    @classmethod
    def generate(cls, algorithm: str = "ES256", *, key_id: str | None = None) -> PrivateKey:
        """Makes a new key.

        Args:
            algorithm: One of `mcp_core.oauth.jws.ASYMMETRIC_ALGORITHMS`.
            key_id: Its `kid`, by which others tell its keys apart.

        Raises:
            UnusableKey: There is no such algorithm, or a package is missing.
        """
        _require()
        return cls(_generated(_kind_of(algorithm)), algorithm, key_id)

    @classmethod
    def from_pem(
        cls, data: bytes | str, *, password: str | None = None, algorithm: str | None = None, key_id: str | None = None
    ) -> PrivateKey:
        """Reads a key in PEM: PKCS #8, PKCS #1 or SEC 1.

        Args:
            data: The text, with its BEGIN and END lines.
            password: What it is encrypted with.
            algorithm: What it is to be used with; by default ES256 and so on by its curve, EdDSA, RS256.
            key_id: Its `kid`, as the other side knows it.

        Raises:
            UnusableKey: It is no private key, or needs another password, or does not fit the algorithm.
        """
        _require()
        from cryptography.exceptions import UnsupportedAlgorithm  # lazy: an optional dependency, and large
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # lazy: likewise

        octets = data.encode() if isinstance(data, str) else data
        try:
            loaded = load_pem_private_key(octets, None if password is None else password.encode())
        except TypeError:
            lacking = (
                "encrypted, and no password was given" if password is None else "not encrypted: leave out the password"
            )
            raise UnusableKey(f"the private key is {lacking}") from None
        except (ValueError, UnsupportedAlgorithm):
            sentence = "the private key cannot be read: it is none in PEM, or was encrypted with another password"
            raise UnusableKey(sentence) from None
        return cls(_wrapped(loaded), algorithm, key_id)

    @classmethod
    def from_jwk(cls, jwk: Mapping[str, JsonValue], *, algorithm: str | None = None) -> PrivateKey:
        """Reads a private key in JSON; its `kid` stays, and its `alg` counts unless another is named.

        Raises:
            UnusableKey: It is no private key, or does not fit the algorithm.
        """
        _require()
        from joserfc.errors import JoseError  # lazy: an optional dependency, and large
        from joserfc.jwk import ECKey, OKPKey, RSAKey  # lazy: likewise

        kinds: dict[str, type[_Key]] = {"EC": ECKey, "OKP": OKPKey, "RSA": RSAKey}
        kind, key_id, named = kinds.get(str(jwk.get("kty"))), jwk.get("kid"), jwk.get("alg")
        if kind is None or "d" not in jwk:
            raise UnusableKey("the JWK is no private key of kty EC, OKP or RSA")
        members: dict[str, str | list[str]] = {
            name: value for name, value in jwk.items() if name in _MEMBERS and isinstance(value, str)
        }
        try:
            loaded = kind.import_key(members).private_key
        except (JoseError, ValueError, KeyError, TypeError):
            raise UnusableKey("the JWK is broken: a member is missing, or is not what it should be") from None
        chosen = named if algorithm is None and isinstance(named, str) else algorithm
        # The public half is made from the private one, so that both belong together.
        return cls(_wrapped(loaded), chosen, key_id if isinstance(key_id, str) else None)

    def to_pem(self, *, password: str | None = None) -> bytes:
        """The private key in PEM (PKCS #8).

        Args:
            password: What to encrypt it with. Without one whoever sees the text has the key.
        """
        return self._key.as_pem(private=True, password=password)

    def sign(self, data: bytes) -> bytes:
        """See `mcp_core.oauth.jws.Signer`."""
        from joserfc.jws import JWSRegistry  # lazy: an optional dependency, and large

        signature: bytes = JWSRegistry.algorithms[self.algorithm].sign(data, self._key)
        return signature

    def __repr__(self) -> str:
        return f"<PrivateKey {self.algorithm}, thumbprint {thumbprint(self.jwk)}>"


_PUBLIC: Final = ("kty", "crv", "x", "y", "n", "e")
_MEMBERS: Final = (*_PUBLIC, "d", "p", "q", "dp", "dq", "qi")


def _require() -> None:
    missing = [name for name in ("cryptography", "joserfc") if importlib.util.find_spec(name) is None]
    if missing:
        raise UnusableKey(f"keys need the packages cryptography and joserfc; not installed: {', '.join(missing)}")


def _generated(kind: _Kind) -> _Key:
    """A new key, on the first curve of its kind."""
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
    """The key for `joserfc`. Raises `UnusableKey` for a kind that signs no JWT."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa  # lazy: large
    from joserfc.jwk import ECKey, OKPKey, RSAKey  # lazy: likewise

    if isinstance(loaded, ec.EllipticCurvePrivateKey) and loaded.curve.name in _CURVES:
        return ECKey.import_key(loaded)
    if isinstance(loaded, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey):
        return OKPKey.import_key(loaded)
    if isinstance(loaded, rsa.RSAPrivateKey):
        if loaded.key_size < _LEAST_RSA_BITS:
            raise UnusableKey(f"the RSA key has {loaded.key_size} bits; {_LEAST_RSA_BITS} is the least that is safe")
        return RSAKey.import_key(loaded)
    raise UnusableKey(
        "the private key is of a kind that signs no JWT; EC (P-256, P-384, P-521), Ed25519, Ed448, RSA do"
    )


_CURVES: Final = frozenset({"secp256r1", "secp384r1", "secp521r1"})
"""What `cryptography` calls the curves of ES256, ES384 and ES512."""


def _kind_of(algorithm: str) -> _Kind:
    try:
        return _KINDS[algorithm]
    except KeyError:
        known = ", ".join(_KINDS)
        raise UnusableKey(
            f"there is no algorithm {algorithm!a} for keys with a public half; there are {known}"
        ) from None


def _algorithm_for(key: _Key, algorithm: str | None) -> str:
    """What a key is used with: what was named, if it fits, else the first that does."""
    curve = key.as_dict(private=False).get("crv")
    fitting = [
        name for name, kind in _KINDS.items() if kind.kty == key.key_type and (curve in kind.curves or not kind.curves)
    ]
    if algorithm is None:
        return fitting[0]
    _kind_of(algorithm)
    if algorithm not in fitting:
        shown = f"{key.key_type} key" if curve is None else f"{key.key_type} key on {curve}"
        raise UnusableKey(f"{algorithm} does not go with the {shown}; {', '.join(fitting)} would")
    return algorithm
