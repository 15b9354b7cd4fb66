"""PKCE, signatures, assertions and DPoP proofs; private keys are not disclosed."""

from __future__ import annotations

import base64
import hashlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oauth_network import NOW, Key, random_bytes

from mcp_core.errors import LocalProtocolError, UnsafeUrl
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.oauth.assertions import client_assertion
from mcp_core.oauth.dpop import Dpop, token_hash
from mcp_core.oauth.jws import base64url, public_jwk, sign, thumbprint
from mcp_core.oauth.pkce import Pkce, challenge_of, new_pkce, verifies

TOKEN_URL = "https://as.example/token"


def _parts(jwt: str) -> tuple[JsonObject, JsonObject, bytes]:
    header, claims, signature = (base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in jwt.split("."))
    return orjson.loads(header), orjson.loads(claims), signature


@pytest.mark.spec("auth.pkce", "auth.pkce-s256")
def test_pkce_challenge_equals_rfc_example() -> None:
    # Example of RFC 7636, appendix B.
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert challenge_of(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert verifies(verifier, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")


@pytest.mark.parametrize("verifier", ["", "a" * 42, "a" * 129, "a" * 42 + "!", "ä" * 43])
def test_pkce_verifier_malformed_rejected(verifier: str) -> None:
    assert not verifies(verifier, base64url(hashlib.sha256(verifier.encode()).digest()))
    assert not verifies("a" * 43, "ä")


def test_pkce_repr_omits_verifier() -> None:
    pair = new_pkce(random_bytes())
    assert verifies(pair.verifier, pair.challenge)
    assert len(pair.verifier) == 43
    assert pair.verifier not in repr(pair)


@pytest.mark.property
@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_pkce_challenge_verified_by_own_verifier_only(one: bytes, other: bytes) -> None:
    pair = new_pkce(lambda _: one)
    assert verifies(pair.verifier, pair.challenge)
    assert verifies(Pkce(verifier=base64url(other), challenge="").verifier, pair.challenge) is (one == other)


def test_thumbprint_equals_rfc_example() -> None:
    # Example of RFC 7638, section 3.1.
    modulus = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W"
        "-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08q"
        "NLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
    )
    key = {"kty": "RSA", "n": modulus, "e": "AQAB", "alg": "RS256", "kid": "2011-04-29"}
    assert thumbprint(key) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


@pytest.mark.spec("dpop.client-proof-header", "dpop.client-key-protection")
def test_public_jwk_omits_private_members() -> None:
    assert public_jwk({"kty": "OKP", "crv": "Ed25519", "x": "eA", "d": "private", "kid": "k"}) == {
        "crv": "Ed25519", "kty": "OKP", "x": "eA",
    }  # fmt: skip


@pytest.mark.parametrize(
    "key", [{}, {"kty": "oct", "k": "eA"}, {"kty": 7}, {"kty": "EC", "crv": "P-256", "x": "eA", "y": 7}]
)
def test_public_jwk_incomplete_raises(key: dict[str, JsonValue]) -> None:
    with pytest.raises(LocalProtocolError, match="not a complete public key"):
        public_jwk(key)


@pytest.mark.spec("dpop.asymmetric-only")
@pytest.mark.parametrize("algorithm", ["none", "HS256", ""])
def test_symmetric_algorithm_raises(algorithm: str) -> None:
    with pytest.raises(LocalProtocolError, match="no public key to verify with"):
        sign({}, Key(algorithm), header={})
    with pytest.raises(LocalProtocolError, match="DPoP requires a public key"):
        Dpop(Key(algorithm), random_bytes())


@pytest.mark.spec("client-credentials.jwt-claims", "client-credentials.jwt-assertion-type")
def test_client_assertion_has_client_id_and_audience() -> None:
    random = random_bytes()

    def make_assertion(key: Key) -> str:
        return client_assertion("me", audience="https://as.example", signer=key, now=NOW + 0.7, random_bytes=random)

    jwt = make_assertion(Key(kid="k1"))
    header, claims, signature = _parts(jwt)
    assert header == {"alg": "ES256", "typ": "JWT", "kid": "k1"}
    jti = claims.pop("jti")
    assert isinstance(jti, str)
    assert len(jti) >= 20
    assert claims == {"iss": "me", "sub": "me", "aud": "https://as.example", "iat": int(NOW), "exp": int(NOW) + 120}
    assert signature == hashlib.sha512(jwt.rpartition(".")[0].encode()).digest()
    header, other, _ = _parts(make_assertion(Key()))
    assert "kid" not in header
    assert other["jti"] != jti


@pytest.mark.spec(
    "dpop.client-fresh-proof", "dpop.client-proof-header", "dpop.client-proof-claims", "dpop.modern-algorithms"
)
def test_dpop_proof_has_request_and_token_hash() -> None:
    dpop = Dpop(Key(kid="k1"), random_bytes())
    ((name, jwt),) = dpop.headers("POST", "https://MCP.example:443/mcp?x=1#y", now=NOW + 0.5, access_token="abc")
    header, claims, _ = _parts(jwt)
    assert name == "DPoP"
    assert header == {
        "alg": "ES256", "typ": "dpop+jwt", "jwk": {"kty": "EC", "crv": "P-256", "x": "eHg", "y": "eXk"},
    }  # fmt: skip
    first = claims.pop("jti")
    assert claims == {
        "htm": "POST",
        "htu": "https://mcp.example/mcp",
        "iat": int(NOW),
        "ath": base64url(hashlib.sha256(b"abc").digest()),
    }
    assert token_hash("abc") == claims["ath"]
    ((_, second_jwt),) = dpop.headers("POST", "https://mcp.example", now=NOW)
    _, claims, _ = _parts(second_jwt)
    assert claims["jti"] != first
    assert claims["htu"] == "https://mcp.example/"
    assert "ath" not in claims
    assert (dpop.token_type, dpop.algorithm) == ("DPoP", "ES256")
    assert dpop.key_id == thumbprint(Key().jwk)
    with pytest.raises(UnsafeUrl):
        dpop.headers("POST", "mcp", now=NOW)


@pytest.mark.spec("dpop.client-as-nonce", "dpop.client-rs-nonce")
def test_dpop_nonce_kept_per_origin() -> None:
    dpop = Dpop(Key(), random_bytes())

    def nonce(url: str) -> JsonValue:
        ((_, jwt),) = dpop.headers("POST", url, now=NOW)
        return _parts(jwt)[1].get("nonce")

    assert nonce(TOKEN_URL) is None
    assert dpop.learn(TOKEN_URL, (("DPoP-Nonce", "n1"),))
    assert dpop.learn("https://mcp.example/mcp", (("dpop-nonce", "n2"),))
    assert nonce("https://as.example/other") == "n1"
    assert nonce("https://mcp.example/mcp") == "n2"
    assert not dpop.learn(TOKEN_URL, (("DPoP-Nonce", "n1"),))
    assert dpop.learn(TOKEN_URL, (("DPoP-Nonce", "n3"),))
    assert nonce(TOKEN_URL) == "n3"


@pytest.mark.parametrize("values", [[], ["a", "b"], [""], ["a b"], ['a"'], ["\xe4"], ["a" * 1_001]])
def test_dpop_nonce_malformed_ignored(values: list[str]) -> None:
    dpop = Dpop(Key(), random_bytes())
    assert not dpop.learn(TOKEN_URL, tuple(("DPoP-Nonce", value) for value in values))


def test_dpop_nonces_kept_up_to_limit() -> None:
    dpop = Dpop(Key(), random_bytes())
    for number in range(17):
        assert dpop.learn(f"https://as{number}.example/", (("DPoP-Nonce", "n"),))
    # The oldest nonce was removed.
    assert dpop.learn("https://as0.example/", (("DPoP-Nonce", "n"),))
    assert not dpop.learn("https://as2.example/", (("DPoP-Nonce", "n"),))
