"""Stored records of clients and tokens."""

from __future__ import annotations

import attrs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oauth_network import ISSUER, MCP, NOW, REDIRECT

from mcp_core.errors import InvalidValue
from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.oauth.records import AuthMethod, ClientRecord, Registration, TokenRecord, read_client, read_tokens

CLIENT = ClientRecord(
    client_id="me",
    issuer=ISSUER,
    client_secret="s3cret",
    auth_method=AuthMethod.SECRET_BASIC,
    registration=Registration.DYNAMIC,
    redirect_uris=(REDIRECT,),
    secret_expires_at=NOW + 5,
)
TOKENS = TokenRecord(
    access_token="acc3ss",
    token_type="Bearer",
    expires_at=NOW + 3600,
    refresh_token="r3fresh",
    scopes=("a",),
    requested_scopes=("a", "b"),
    resource=MCP,
    server_url=MCP,
    token_endpoint=f"{ISSUER}/token",
    issuer=ISSUER,
    client=CLIENT,
)


@pytest.mark.spec("auth.client-token-storage", "auth.token-storage", "auth.refresh-confidential")
def test_record_repr_omits_secrets() -> None:
    for text in (repr(CLIENT), repr(TOKENS), str(TOKENS)):
        assert all(secret not in text for secret in ("s3cret", "acc3ss", "r3fresh"))
    assert "client_secret=None" in repr(attrs.evolve(CLIENT, client_secret=None))


def test_record_round_trip() -> None:
    def store(value: JsonValue) -> JsonValue:
        stored: JsonValue = orjson.loads(orjson.dumps(value))
        return stored

    assert read_client(store(CLIENT.to_json())) == CLIENT
    assert read_tokens(store(TOKENS.to_json())) == TOKENS
    bare = attrs.evolve(TOKENS, client=None, refresh_token=None, expires_at=None)
    assert read_tokens(store(bare.to_json())) == bare
    unbound = ClientRecord(client_id="me", issuer=None)
    assert read_client(store(unbound.to_json())) == unbound


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("version", 2, "tokens: is not a stored record of version 1"),
        ("access_token", None, "tokens.access_token: missing"),
        ("access_token", 7, "tokens.access_token: is not a string"),
        ("expires_at", "s3cret", "tokens.expires_at: is not a time"),
        ("expires_at", True, "tokens.expires_at: is not a time"),
        ("scopes", "a", "tokens.scopes: is not a list of strings"),
        ("scopes", ["a", 7], "tokens.scopes: is not a list of strings"),
        ("issuer", "https://other.example", "tokens.client: has another issuer than the tokens"),
        ("client", [], "client: is not a stored record of version 1"),
        ("client", {**CLIENT.to_json(), "auth_method": "s3cret"}, "client: has an unknown"),
        ("client", {**CLIENT.to_json(), "registration": "s3cret"}, "client: has an unknown"),
        ("client", {**CLIENT.to_json(), "issuer": None}, "tokens.client: has another issuer than the tokens"),
    ],
)
def test_record_invalid_member_raises_without_values(name: str, value: JsonValue, problem: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_tokens({**TOKENS.to_json(), name: value})
    assert caught.value.message.startswith(problem)
    assert "s3cret" not in str(caught.value)


def test_token_expires_before_expiry_time_by_leeway() -> None:
    assert not TOKENS.is_expired(NOW + 3600 - 31)
    assert TOKENS.is_expired(NOW + 3600 - 30)
    assert not TOKENS.is_expired(NOW + 3600 - 1, leeway=0)
    assert TOKENS.is_expired(NOW + 3600, leeway=0)
    assert not attrs.evolve(TOKENS, expires_at=None).is_expired(NOW * 2)


def test_client_usable_until_secret_expires_and_with_redirect_uri() -> None:
    assert CLIENT.is_usable(NOW, redirect_uri=REDIRECT)
    assert CLIENT.is_usable(NOW, redirect_uri=None)
    assert not CLIENT.is_usable(NOW + 5, redirect_uri=None)
    assert not CLIENT.is_usable(NOW, redirect_uri="http://127.0.0.1:5/callback")
    assert ClientRecord(client_id="me", issuer=ISSUER).is_usable(NOW, redirect_uri="https://any.example/cb")


@pytest.mark.property
@given(
    st.dictionaries(
        st.sampled_from([*TOKENS.to_json(), *CLIENT.to_json()]),
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.text(max_size=3), max_size=2),
        max_size=3,
    )
)
def test_damaged_record_read_or_rejected(changes: dict[str, JsonValue]) -> None:
    for read, document in ((read_tokens, TOKENS.to_json()), (read_client, CLIENT.to_json())):
        try:
            record = read({**document, **changes})
        except InvalidValue:
            continue
        assert read(record.to_json()) == record
