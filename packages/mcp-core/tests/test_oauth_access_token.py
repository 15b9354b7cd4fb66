"""Access tokens: claims of various servers, and the checks of audience, issuer and times."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.oauth.access_token import (
    LEEWAY,
    AccessToken,
    InvalidToken,
    check_access_token,
    names_resource,
    read_access_token,
)
from mcp_core.oauth.principal import Principal

NOW = 1_800_000_000.0
AS = "https://as.example"
MCP = "https://mcp.example/mcp"
CLAIMS: JsonObject = {
    "iss": AS,
    "sub": "anna",
    "client_id": "c1",
    "aud": MCP,
    "scope": "notes:read notes:write",
    "exp": NOW + 300,
    "nbf": NOW - 5,
    "iat": NOW - 5,
    "jti": "t1",
}
TOKEN = read_access_token(CLAIMS)


def check_token(token: AccessToken, now: float = NOW) -> None:
    check_access_token(token, resource=MCP, issuers=[AS, "https://other.example"], now=now)


def test_access_token_claims_read() -> None:
    assert (
        AccessToken(
            issuer=AS,
            subject="anna",
            client_id="c1",
            audience=(MCP,),
            scopes=frozenset({"notes:read", "notes:write"}),
            expires_at=NOW + 300,
            not_before=NOW - 5,
            issued_at=NOW - 5,
            token_id="t1",
        )
        == TOKEN
    )
    assert TOKEN.principal == Principal(issuer=AS, subject="anna", client_id="c1")
    check_token(TOKEN)


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": ""}, set()),
        ({"scope": ["a", "b c"]}, {"a", "b", "c"}),
        ({"scp": "a b"}, {"a", "b"}),
        ({"scp": ["a"], "scope": "b"}, {"a", "b"}),
        ({"scope": None}, set()),
    ],
)
def test_scopes_read_from_all_claim_variants(claims: JsonObject, scopes: set[str]) -> None:
    assert read_access_token({"sub": "anna", **claims}).scopes == scopes


@pytest.mark.parametrize("name", ["client_id", "azp", "cid", "appid"])
def test_client_id_read_from_all_claim_variants(name: str) -> None:
    token = read_access_token({"sub": "anna", name: "c1"})
    assert (token.subject, token.client_id) == ("anna", "c1")
    alone = read_access_token({name: "c1"})
    assert (alone.subject, alone.client_id) == ("c1", "c1")


def test_issuer_argument_used_without_iss_claim() -> None:
    assert read_access_token({"sub": "anna"}, issuer=AS).issuer == AS
    assert read_access_token({"sub": "anna", "iss": "https://x.example"}, issuer=AS).issuer == "https://x.example"
    assert read_access_token({"sub": "anna"}).issuer is None


def test_confirmation_key_read() -> None:
    assert read_access_token({**CLAIMS, "cnf": {"jkt": "abc"}}).confirmation == "abc"
    assert read_access_token({**CLAIMS, "cnf": None}).confirmation is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sub", 7),
        ("sub", ["anna"]),
        ("iss", {}),
        ("client_id", False),
        ("aud", 7),
        ("aud", [MCP, 7]),
        ("aud", {}),
        ("aud", [[MCP]]),
        ("scope", 7),
        ("scp", [7]),
        ("exp", "tomorrow"),
        ("exp", True),
        ("exp", -1),
        ("exp", 1e300),
        ("nbf", "0"),
        ("iat", [1]),
        ("jti", 7),
        ("cnf", "abc"),
        ("cnf", {}),
        ("cnf", {"jkt": ""}),
        ("cnf", {"jkt": 7}),
        ("cnf", {"x5t#S256": "abc"}),
        ("cnf", {"jkt": "abc", "x5t#S256": "abc"}),
    ],
)
def test_claim_of_wrong_type_rejected(name: str, value: JsonValue) -> None:
    with pytest.raises(InvalidToken) as caught:
        read_access_token({**CLAIMS, name: value})
    assert "anna" not in caught.value.message


@pytest.mark.parametrize("subject", [None, ""])
def test_token_without_subject_rejected(subject: JsonValue) -> None:
    with pytest.raises(InvalidToken, match="has no subject"):
        read_access_token({"sub": subject, "aud": MCP})


@pytest.mark.spec(
    "auth.audience",
    "auth.server-validates-audience",
    "auth.server-no-other-tokens",
    "auth.no-other-tokens",
    "dpop.server-audience",
    "auth.server-own-resources",
)
@pytest.mark.parametrize(
    ("audience", "accepted"),
    [
        (MCP, True),
        ([MCP], True),
        (["https://other.example", MCP], True),
        ("HTTPS://MCP.Example/mcp", True),
        ("https://mcp.example:443/mcp", True),
        ("https://mcp.example/mcp/", False),
        ("https://mcp.example/MCP", False),
        ("https://mcp.example/mcp/x", False),
        ("https://mcp.example/mcp2", False),
        ("https://mcp.example/mc", False),
        ("https://mcp.example/other", False),
        ("https://mcp.example", False),
        ("https://mcp.example/", False),
        ("https://mcp.example:8443/mcp", False),
        ("http://mcp.example/mcp", False),
        ("https://mcp.example.evil.example/mcp", False),
        ("https://evil.example/https://mcp.example/mcp", False),
        ("https://user@mcp.example/mcp", False),
        ("https://mcp.example/mcp?x", False),
        ("https://mcp.example/mcp#x", False),
        ("https://mcp.example/a/../mcp", False),
        ("https://mcp.example/%6Dcp", False),
        ("https://mcp.example/mcp https://other.example", False),
        ("mcp", False),
        ("*", False),
        ("", False),
        ([], False),
        (None, False),
    ],
)
def test_audience_must_equal_resource(audience: JsonValue, accepted: bool) -> None:
    token = read_access_token({**CLAIMS, "aud": audience})
    if accepted:
        check_token(token)
    else:
        with pytest.raises(InvalidToken, match=r"^the access token is not for this resource$"):
            check_token(token)


def test_audience_without_path_equals_root() -> None:
    assert names_resource("https://mcp.example", "https://mcp.example/")
    assert names_resource("https://mcp.example/", "https://mcp.example")
    assert names_resource("anything", "anything")
    assert not names_resource("anything", "other")


@pytest.mark.parametrize(
    "issuer",
    [None, "", f"{AS}/", "HTTPS://as.example", "https://as.example:443", "https://evil.example", f"{AS}.evil.example"],
)
def test_issuer_compared_octet_by_octet(issuer: str | None) -> None:
    with pytest.raises(InvalidToken, match="not from an authorization server of this resource"):
        check_token(attrs.evolve(TOKEN, issuer=issuer))


@pytest.mark.spec("auth.invalid-token-401", "auth.server-401-invalid", "auth.token-expiration")
def test_expiry_checked_with_leeway() -> None:
    check_token(TOKEN, NOW + 300 + LEEWAY - 0.001)
    with pytest.raises(InvalidToken, match="has expired"):
        check_token(TOKEN, NOW + 300 + LEEWAY)
    check_token(attrs.evolve(TOKEN, expires_at=None), NOW + 1e9)


@pytest.mark.parametrize("claim", ["nbf", "iat"])
def test_time_in_future_rejected(claim: str) -> None:
    check_token(read_access_token({**CLAIMS, claim: NOW + LEEWAY}))
    with pytest.raises(InvalidToken, match=f"its {claim}"):
        check_token(read_access_token({**CLAIMS, claim: NOW + LEEWAY + 1}))
    check_token(read_access_token({**CLAIMS, claim: None}))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=4), children, max_size=3),
    max_leaves=5,
)


@pytest.mark.property
@given(st.fixed_dictionaries({}, optional=dict.fromkeys((*CLAIMS, "cnf", "scp", "azp"), values)))
def test_arbitrary_claims_read_or_rejected(claims: JsonObject) -> None:
    try:
        token = read_access_token(claims)
    except InvalidToken:
        return
    assert token.subject
    assert all(scope and " " not in scope for scope in token.scopes)
    with pytest.raises(InvalidToken):
        check_access_token(token, resource=MCP, issuers=[], now=NOW)
