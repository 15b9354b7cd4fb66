"""Reading what others signed: strictly, before a key is looked at."""

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


def compact(header: JsonValue, claims: JsonValue = None, signature: bytes = b"x") -> str:
    parts = (orjson.dumps(header), orjson.dumps({} if claims is None else claims), signature)
    return ".".join(base64url(part) for part in parts)


def test_what_is_signed_is_taken_apart() -> None:
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
def test_a_kind_is_compared_in_one_spelling(typ: JsonValue, kind: str) -> None:
    assert read_signed_jwt(compact({"alg": "ES256", "typ": typ}), algorithms=["ES256"]).kind == kind


def test_what_does_not_say_its_kind_is_any_jwt() -> None:
    signed = read_signed_jwt(compact({"alg": "ES256"}), algorithms=["ES256"])
    assert (signed.kind, signed.key_id) == ("jwt", None)


@pytest.mark.spec("dpop.asymmetric-only")
@pytest.mark.parametrize(
    "algorithm", ["none", "None", "nOnE", "HS256", "HS512", "ES256K", "es256", "", None, 7, ["ES256"], {}]
)
def test_an_algorithm_that_is_not_listed_is_refused(algorithm: JsonValue) -> None:
    with pytest.raises(InvalidValue, match="algorithm"):
        read_signed_jwt(compact({"alg": algorithm}), algorithms=VERIFIED_ALGORITHMS)
    assert not {"none", "HS256", "HS384", "HS512"} & set(VERIFIED_ALGORITHMS)


def test_an_algorithm_has_to_be_one_that_is_wanted_here() -> None:
    with pytest.raises(InvalidValue, match="'RS256' is not allowed; allowed: ES256"):
        read_signed_jwt(compact({"alg": "RS256"}), algorithms=["ES256"])


@pytest.mark.parametrize(
    ("text", "why"),
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
        (compact({"alg": "ES256", "crit": ["b64"], "b64": False}), "crit"),
        (compact({"alg": "ES256", "crit": []}), "crit"),
        (compact({"alg": "ES256", "kid": 7}), "kid"),
        (compact({"alg": "ES256", "kid": None}), "kid"),
        (compact({"alg": "ES256"}, [1]), "payload is not a JSON object"),
        (compact({"alg": "ES256"})[:-2] + "aaaaa", "signature is not base64url"),
    ],
)
def test_what_is_no_jwt_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=why):
        read_signed_jwt(text, algorithms=VERIFIED_ALGORITHMS)


@pytest.mark.property
@given(st.text(alphabet="abcAB01-_.=+/ ", max_size=60) | st.text(max_size=20))
def test_anything_is_read_or_refused(text: str) -> None:
    with suppress(InvalidValue):
        assert text.encode().startswith(read_signed_jwt(text, algorithms=VERIFIED_ALGORITHMS).data)
