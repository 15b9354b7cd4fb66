"""Strict parsing of signed JWTs before verification."""

from __future__ import annotations

from contextlib import suppress

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oauth_keys import EcKey

from mcp_core.errors import InvalidValue
from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.oauth.jws import base64url, sign
from mcp_core.oauth.signatures import VERIFIED_ALGORITHMS, read_signed_jwt

KEY = EcKey()


def make_jwt(header: JsonValue, claims: JsonValue = None, signature: bytes = b"x") -> str:
    parts = (orjson.dumps(header), orjson.dumps({} if claims is None else claims), signature)
    return ".".join(base64url(part) for part in parts)


def test_signed_jwt_parsed() -> None:
    text = sign({"a": [1]}, KEY, header={"typ": "at+jwt", "kid": "k1"})
    signed = read_signed_jwt(text, algorithms=VERIFIED_ALGORITHMS)
    assert (signed.algorithm, signed.key_id, signed.kind, signed.claims) == ("ES256", "k1", "at+jwt", {"a": [1]})
    assert signed.data.decode() == text.rpartition(".")[0]
    assert len(signed.signature) == 64
    assert "[1]" not in repr(signed)


@pytest.mark.parametrize(
    ("typ", "kind"),
    [
        ("JWT", "jwt"),
        ("application/at+JWT", "at+jwt"),
        ("AT+jwt", "at+jwt"),
        ("text/plain", "text/plain"),
        (7, ""),
        (None, ""),
    ],
)
def test_jwt_type_normalized(typ: JsonValue, kind: str) -> None:
    assert read_signed_jwt(make_jwt({"alg": "ES256", "typ": typ}), algorithms=["ES256"]).kind == kind


def test_jwt_without_type_or_key_id() -> None:
    signed = read_signed_jwt(make_jwt({"alg": "ES256"}), algorithms=["ES256"])
    assert (signed.kind, signed.key_id) == ("jwt", None)


@pytest.mark.spec("dpop.asymmetric-only")
@pytest.mark.parametrize(
    "algorithm", ["none", "None", "nOnE", "HS256", "HS512", "ES256K", "es256", "", None, 7, ["ES256"], {}]
)
def test_unsupported_algorithm_rejected(algorithm: JsonValue) -> None:
    with pytest.raises(InvalidValue, match="algorithm"):
        read_signed_jwt(make_jwt({"alg": algorithm}), algorithms=VERIFIED_ALGORITHMS)
    assert not {"none", "HS256", "HS384", "HS512"} & set(VERIFIED_ALGORITHMS)


def test_algorithm_not_allowed_rejected() -> None:
    with pytest.raises(InvalidValue, match="'RS256' is not allowed; allowed: ES256"):
        read_signed_jwt(make_jwt({"alg": "RS256"}), algorithms=["ES256"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "compact"),
        ("a.b", "compact"),
        ("a.b.c.d", "compact"),
        ("a.b.", "compact"),
        ("a.b c.d", "compact"),
        ("e30=.e30.eA", "compact"),
        ("\u00e9.e30.eA", "compact"),
        ("a" * 17_000, "17000 characters"),
        ("aaaaa.e30.eA", "header is not base64url"),
        ("eA.e30.eA", "header is not JSON"),
        ("W10.e30.eA", "header is not a JSON object"),
        (make_jwt({"alg": "ES256", "crit": ["b64"], "b64": False}), "crit"),
        (make_jwt({"alg": "ES256", "crit": []}), "crit"),
        (make_jwt({"alg": "ES256", "kid": 7}), "kid"),
        (make_jwt({"alg": "ES256", "kid": None}), "kid"),
        (make_jwt({"alg": "ES256"}, [1]), "payload is not a JSON object"),
        (make_jwt({"alg": "ES256"})[:-2] + "aaaaa", "signature is not base64url"),
    ],
)
def test_malformed_jwt_rejected(text: str, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason):
        read_signed_jwt(text, algorithms=VERIFIED_ALGORITHMS)


@pytest.mark.property
@given(st.text(alphabet="abcAB01-_.=+/ ", max_size=60) | st.text(max_size=20))
def test_arbitrary_text_parsed_or_rejected(text: str) -> None:
    with suppress(InvalidValue):
        assert text.encode().startswith(read_signed_jwt(text, algorithms=VERIFIED_ALGORITHMS).data)
