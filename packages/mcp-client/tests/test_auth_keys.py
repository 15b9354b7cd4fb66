from __future__ import annotations

import importlib.util
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

from mcp_client.auth.keys import PrivateKey, UnusableKey
from mcp_core.errors import MissingExtra
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.oauth.jws import ASYMMETRIC_ALGORITHMS, Signer, sign, thumbprint

SIGNATURES = {"ES256": 64, "ES384": 96, "ES512": 132, "EdDSA": 64, "Ed25519": 64, "Ed448": 114}
KEYS = {algorithm: PrivateKey.generate(algorithm) for algorithm in SIGNATURES}
RSA = PrivateKey.generate("RS256")


def key_for(algorithm: str) -> PrivateKey:
    """Return a key for an algorithm; the RSA algorithms share one, since it takes long to generate."""
    return KEYS.get(algorithm) or PrivateKey.from_pem(RSA.to_pem(), algorithm=algorithm)


def verified(token: str, key: PrivateKey) -> JsonObject:
    """Return the payload, verified by joserfc with the public part of the key."""
    kinds: dict[str, type[ECKey | OKPKey | RSAKey]] = {"EC": ECKey, "OKP": OKPKey, "RSA": RSAKey}
    members = {name: str(value) for name, value in key.jwk.items()}
    public = kinds[members["kty"]].import_key({**members})
    payload: JsonObject = json.loads(jws.deserialize_compact(token, public, algorithms=[key.algorithm]).payload)
    return payload


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize("algorithm", ASYMMETRIC_ALGORITHMS)
def test_signature_verifies_with_public_key(algorithm: str) -> None:
    key = key_for(algorithm)
    signer: Signer = key
    token = sign({"sub": "ada"}, signer, header={"typ": "JWT"})
    assert key.algorithm == algorithm
    assert verified(token, key) == {"sub": "ada"}
    # The form of RFC 7518: r and s, or the raw signature, not DER.
    assert len(key.sign(b"x")) == SIGNATURES.get(algorithm, 3072 // 8)
    assert not {"d", "p", "q", "dp", "dq", "qi", "oth"} & {*key.jwk}


@pytest.mark.property
@given(st.binary(max_size=200))
def test_signature_any_bytes_verifies(data: bytes) -> None:
    for key in (KEYS["ES256"], KEYS["Ed25519"]):
        signed = b".".join(
            urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg":"%s"}' % key.algorithm.encode(), data)
        )
        signature = urlsafe_b64encode(key.sign(signed)).rstrip(b"=")
        public = (ECKey if key.algorithm == "ES256" else OKPKey).import_key(
            {name: str(value) for name, value in key.jwk.items()}
        )
        assert jws.deserialize_compact(signed + b"." + signature, public, algorithms=[key.algorithm]).payload == data


def test_key_pem_round_trip() -> None:
    for algorithm, key in {**KEYS, "RS256": RSA}.items():
        for password in (None, "correct horse"):
            pem = key.to_pem(password=password)
            again = PrivateKey.from_pem(pem, password=password, algorithm=algorithm)
            assert again.jwk == key.jwk
            assert PrivateKey.from_pem(pem.decode(), password=password).jwk == key.jwk
        assert b"BEGIN PRIVATE KEY" in key.to_pem()
        assert b"BEGIN ENCRYPTED PRIVATE KEY" in key.to_pem(password="x")


@pytest.mark.parametrize(
    ("key", "form"),
    [
        (ec.generate_private_key(ec.SECP256R1()), PrivateFormat.TraditionalOpenSSL),
        (rsa.generate_private_key(65537, 2048), PrivateFormat.TraditionalOpenSSL),
    ],
)
def test_key_traditional_pem_read(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, form: PrivateFormat) -> None:
    for encryption, password in ((NoEncryption(), None), (BestAvailableEncryption(b"x"), "x")):
        pem = key.private_bytes(Encoding.PEM, form, encryption)
        assert PrivateKey.from_pem(pem, password=password).algorithm in ("ES256", "RS256")


@pytest.mark.parametrize(
    ("algorithm", "default"),
    [
        ("ES256", "ES256"),
        ("ES384", "ES384"),
        ("ES512", "ES512"),
        ("Ed25519", "EdDSA"),
        ("Ed448", "EdDSA"),
        ("RS256", "RS256"),
    ],
)
def test_key_default_algorithm(algorithm: str, default: str) -> None:
    assert PrivateKey.from_pem(key_for(algorithm).to_pem()).algorithm == default


def test_key_id_in_jwk() -> None:
    assert PrivateKey.generate(key_id="2026-1").jwk["kid"] == "2026-1"
    assert PrivateKey.from_pem(KEYS["ES256"].to_pem(), key_id="a").jwk == {**KEYS["ES256"].jwk, "kid": "a"}
    assert "kid" not in KEYS["ES256"].jwk


def private_jwk(key: PrivateKey) -> JsonObject:
    return {**key._key.as_dict(private=True)}  # type: ignore[dict-item]  # joserfc's type of the values is too wide


@pytest.mark.parametrize("algorithm", ["ES256", "ES512", "Ed25519", "Ed448", "PS256"])
def test_key_jwk_read(algorithm: str) -> None:
    key = key_for(algorithm)
    again = PrivateKey.from_jwk({**private_jwk(key), "alg": algorithm, "kid": "k", "use": "sig", "x5t": 5})
    assert again.algorithm == algorithm
    assert again.jwk == {**key.jwk, "kid": "k"}
    assert again.to_pem() == key.to_pem()
    assert PrivateKey.from_jwk({**private_jwk(RSA), "alg": "RS256"}, algorithm="PS512").algorithm == "PS512"
    assert PrivateKey.from_jwk({**private_jwk(key), "kid": 5}).jwk == key.jwk


def test_key_jwk_wrong_public_half_replaced() -> None:
    other = private_jwk(PrivateKey.generate("Ed25519"))
    key = PrivateKey.from_jwk({**private_jwk(KEYS["Ed25519"]), "x": other["x"]})
    assert key.jwk == KEYS["Ed25519"].jwk


@pytest.mark.parametrize(
    "jwk",
    [
        {},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": ["EC"], "d": "AA"},
        {**KEYS["ES256"].jwk},
        {"kty": "EC", "d": "AA"},
        {"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA", "d": "AA"},
        {"kty": "EC", "crv": "P-256", "x": "!", "y": "AA", "d": "AA"},
        {**private_jwk(KEYS["ES256"]), "d": "AA"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA", "d": "AA"},
        {"kty": "OKP", "crv": "X25519", "x": "AA", "d": "A" * 43},
        {"kty": "RSA", "n": "AA", "e": "AQAB", "d": "AA"},
    ],
)
def test_key_jwk_invalid_raises(jwk: JsonObject) -> None:
    with pytest.raises(UnusableKey, match=r"the JWK is|invalid JWK|cannot sign JWTs"):
        PrivateKey.from_jwk(jwk)


def pem_of(key: PrivateKeyTypes) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(
    ("pem", "password", "reason"),
    [
        (b"", None, "not a private key in PEM"),
        (b"my key", None, "not a private key in PEM"),
        ("clé", None, "not a private key in PEM"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", None, "not a private key in PEM"),
        (KEYS["ES256"].to_pem(password="swordfish"), None, "encrypted: set the password"),
        (KEYS["ES256"].to_pem(password="swordfish"), "mackerel", "the password is wrong"),
        (KEYS["ES256"].to_pem(), "mackerel", "not encrypted: remove the password"),
        (pem_of(rsa.generate_private_key(65537, 1024)), None, "has 1024 bits; the minimum is 2048"),
        (pem_of(ec.generate_private_key(ec.SECP256K1())), None, "kind of private key cannot sign JWTs"),
        (pem_of(dsa.generate_private_key(1024)), None, "kind of private key cannot sign JWTs"),
    ],
)
@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
def test_key_pem_unreadable_raises_without_secret(pem: bytes | str, password: str | None, reason: str) -> None:
    with pytest.raises(UnusableKey, match=reason) as caught:
        PrivateKey.from_pem(pem, password=password)
    assert not any(secret in str(caught.value) for secret in ("swordfish", "mackerel"))


@pytest.mark.parametrize(
    ("algorithm", "key", "reason"),
    [
        ("HS256", RSA, "'HS256' is not a known asymmetric algorithm"),
        ("none", RSA, "'none' is not a known asymmetric algorithm"),
        ("ES256", RSA, "ES256 does not support the RSA key; use RS256"),
        ("RS256", KEYS["ES256"], "RS256 does not support the EC key on P-256; use ES256"),
        ("ES384", KEYS["ES256"], "ES384 does not support the EC key on P-256"),
        ("Ed448", KEYS["Ed25519"], "Ed448 does not support the OKP key on Ed25519; use EdDSA, Ed25519"),
    ],
)
def test_key_algorithm_mismatch_raises(algorithm: str, key: PrivateKey, reason: str) -> None:
    with pytest.raises(UnusableKey, match=reason):
        PrivateKey.from_pem(key.to_pem(), algorithm=algorithm)
    if algorithm in ("HS256", "none"):
        with pytest.raises(UnusableKey, match=reason):
            PrivateKey.generate(algorithm)


def test_key_repr_hides_secret() -> None:
    for key in (*KEYS.values(), RSA):
        shown = f"{key!r} {key} {key.jwk!r}"
        assert shown.startswith(f"<PrivateKey {key.algorithm}, thumbprint {thumbprint(key.jwk)}>")
        assert str(private_jwk(key)["d"]) not in shown


def test_key_missing_package_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "joserfc" else name)
    makers: list[Callable[[], PrivateKey]] = [
        PrivateKey.generate,
        lambda: PrivateKey.from_pem(b""),
        lambda: PrivateKey.from_jwk({}),
    ]
    for make in makers:
        with pytest.raises(MissingExtra, match=r"pip install 'trio-mcp-client\[auth\]'"):
            make()
