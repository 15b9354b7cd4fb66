"""Metadata of resources and authorization servers: lenient parsing, and strict checks where security depends on them."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import DiscoveryFailed, InvalidValue, IssuerMismatch, UnsafeUrl
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.oauth.addresses import AddressClass
from mcp_core.oauth.documents import DOCUMENT_BYTES, Members, one_line, read_json
from mcp_core.oauth.metadata import (
    AuthorizationServerMetadata,
    ProtectedResourceMetadata,
    ResourceMatch,
    check_issuer,
    check_issuer_url,
    check_pkce,
    match_resource,
    read_authorization_server,
    read_protected_resource,
)
from mcp_core.oauth.urls import parse_url

SERVER = parse_url("https://mcp.example/a/mcp", what="server URL")


def test_protected_resource_metadata_round_trip() -> None:
    document: JsonObject = {
        "resource": "https://mcp.example/a/mcp",
        "authorization_servers": ["https://as.example"],
        "scopes_supported": ["a", "b"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Notes",
        "dpop_bound_access_tokens_required": True,
    }
    found = read_protected_resource({**document, "unknown": 1, "jwks_uri": None, "resource_policy_uri": ""})
    assert found.authorization_servers == ("https://as.example",)
    assert found.dpop_bound_access_tokens_required
    assert found.jwks_uri is None
    assert found.notes == ()
    assert found.to_json() == document


def test_authorization_server_metadata_round_trip() -> None:
    document: JsonObject = {
        "issuer": "https://as.example",
        "token_endpoint": "https://as.example/token",
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
        "authorization_grant_profiles_supported": ["urn:ietf:params:oauth:grant-profile:id-jag"],
    }
    found = read_authorization_server({**document, "registration_endpoint": None})
    assert found.client_id_metadata_document_supported
    assert found.registration_endpoint is None
    assert found.to_json() == document


def test_metadata_member_of_wrong_type_noted_and_ignored() -> None:
    found = read_authorization_server(
        {
            "issuer": "https://as.example",
            "token_endpoint": 7,
            "scopes_supported": "a b a",
            "grant_types_supported": {},
            "response_types_supported": ["code", 7, "", "code"],
            "authorization_response_iss_parameter_supported": "True",
            "client_id_metadata_document_supported": "perhaps",
            "registration_endpoint": "",
        }
    )
    assert found.token_endpoint is None
    assert found.registration_endpoint is None
    assert found.scopes_supported == ("a", "b")
    assert found.grant_types_supported is None
    assert found.response_types_supported == ("code",)
    assert found.authorization_response_iss_parameter_supported
    assert not found.client_id_metadata_document_supported
    assert found.notes == (
        "token_endpoint is not a string",
        "scopes_supported is a string instead of a list",
        "response_types_supported has items that are not strings or are empty, or has too many items",
        "grant_types_supported is not a list",
        "authorization_response_iss_parameter_supported is not a boolean",
        "client_id_metadata_document_supported is not a boolean",
    )
    other = read_authorization_server({"issuer": "x", "client_id_metadata_document_supported": 1})
    assert not other.client_id_metadata_document_supported


@pytest.mark.parametrize("value", [None, "", 7, ["x"]])
def test_metadata_without_identifier_rejected(value: JsonValue) -> None:
    with pytest.raises(InvalidValue, match="resource: missing, or not a string"):
        read_protected_resource({"resource": value})
    with pytest.raises(InvalidValue, match="issuer: missing, or not a string"):
        read_authorization_server({"issuer": value})


@pytest.mark.spec("auth.prm-resource-mismatch-rejected")
@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("https://mcp.example/a/mcp", ResourceMatch.SAME),
        ("https://mcp.example/a/mcp/", ResourceMatch.SAME),
        ("HTTPS://MCP.example:443/a/./mcp", ResourceMatch.SAME),
        ("https://mcp.example/%61/mcp", ResourceMatch.SAME),
        ("https://mcp.example", ResourceMatch.PARENT),
        ("https://mcp.example/", ResourceMatch.PARENT),
        ("https://mcp.example/a", ResourceMatch.PARENT),
        ("https://mcp.example/a/mc", ResourceMatch.OTHER),
        ("https://mcp.example/a/mcp/x", ResourceMatch.OTHER),
        ("https://mcp.example/A/mcp", ResourceMatch.OTHER),
        ("https://mcp.example/a//mcp", ResourceMatch.OTHER),
        ("https://mcp.example/a/mcp/../../b", ResourceMatch.OTHER),
        ("https://mcp.example/a/mcp/%2e%2e/x", ResourceMatch.OTHER),
        ("https://mcp.example/a/mcp?x", ResourceMatch.OTHER),
        ("https://mcp.example/a/mcp#x", ResourceMatch.OTHER),
        ("http://mcp.example/a/mcp", ResourceMatch.OTHER),
        ("https://mcp.example:8443/a/mcp", ResourceMatch.OTHER),
        ("https://evil.example/a/mcp", ResourceMatch.OTHER),
        ("https://mcp.example.evil.example/a/mcp", ResourceMatch.OTHER),
        ("https://user@mcp.example/a/mcp", ResourceMatch.OTHER),
        ("mcp.example/a/mcp", ResourceMatch.OTHER),
        ("urn:x", ResourceMatch.OTHER),
    ],
)
def test_resource_matched_to_server(resource: str, expected: ResourceMatch) -> None:
    assert match_resource(resource, SERVER) is expected


def test_resource_query_omitted_but_not_changed() -> None:
    server = parse_url("https://mcp.example/mcp?tenant=1", what="server URL")
    assert match_resource("https://mcp.example/mcp?tenant=1", server) is ResourceMatch.SAME
    assert match_resource("https://mcp.example/mcp", server) is ResourceMatch.SAME
    assert match_resource("https://mcp.example/mcp?tenant=2", server) is ResourceMatch.OTHER


@pytest.mark.spec("auth.as-metadata-issuer-validated", "auth.iss-no-normalization")
@pytest.mark.parametrize(
    "issuer",
    [
        "https://as.example/", "https://AS.example", "https://as.example:443", "http://as.example",
        "https://as.example/t", "https://%61s.example", "https://as.example?", "",
    ],
)  # fmt: skip
def test_issuer_compared_octet_by_octet(issuer: str) -> None:
    check_issuer(AuthorizationServerMetadata(issuer="https://as.example"), "https://as.example")
    with pytest.raises(IssuerMismatch) as caught:
        check_issuer(AuthorizationServerMetadata(issuer=issuer), "https://as.example")
    assert (caught.value.expected, caught.value.received) == ("https://as.example", issuer)


def test_issuer_url_with_query_rejected() -> None:
    public = frozenset({AddressClass.PUBLIC})
    assert check_issuer_url("https://as.example/t", networks=public).path == "/t"
    with pytest.raises(UnsafeUrl, match="it has a query"):
        check_issuer_url("https://as.example/?", networks=public)


@pytest.mark.spec(
    "auth.pkce-verify-support", "auth.pkce-refuse", "auth.pkce-refuse-rfc8414", "auth.pkce-refuse-oidc",
    "auth.pkce-s256",
)  # fmt: skip
def test_server_without_pkce_s256_rejected() -> None:
    issuer = "https://as.example"
    check_pkce(AuthorizationServerMetadata(issuer=issuer, code_challenge_methods_supported=("plain", "S256")))
    with pytest.raises(DiscoveryFailed, match=r"have|has no code_challenge_methods_supported"):
        check_pkce(AuthorizationServerMetadata(issuer=issuer))
    with pytest.raises(DiscoveryFailed, match="lists only 'plain' as code_challenge_methods_supported"):
        check_pkce(AuthorizationServerMetadata(issuer=issuer, code_challenge_methods_supported=("plain",)))


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "the document is not JSON: it is empty"),
        (b"{", "the document is not JSON"),
        (b"\xff", "the document is not JSON"),
        (b" <!DOCTYPE html><p>", "the document is not JSON, but a web page"),
        (b"<html>", "the document is not JSON, but a web page"),
        (b"[]", "the document is JSON, but not an object"),
        (b"[" * 5_000, "the document is not JSON"),
        (
            b" " * (DOCUMENT_BYTES + 1),
            f"the document has {DOCUMENT_BYTES + 1} bytes, more than the limit of {DOCUMENT_BYTES}",
        ),
    ],
)
def test_document_invalid_raises(body: bytes, problem: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_json(body)
    assert caught.value.message == problem


def test_document_byte_order_mark_tolerated() -> None:
    assert read_json(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


def test_text_of_peer_shortened_to_one_line() -> None:
    assert one_line("a\r\n\x1b[31m b\u2028c") == "a [31m b c"
    assert len(one_line("x" * 10_000)) == 300


@pytest.mark.parametrize(
    ("value", "expected", "notes"),
    [
        (3600, 3600, 0),
        (1.5, 1.5, 0),
        ("3600", 3600, 1),
        (None, None, 0),
        ("soon", None, 2),
        ("-1", None, 2),
        ("9" * 400, None, 2),
        (-1, None, 1),
        (True, None, 1),
        (1e300, None, 1),
        ([], None, 1),
    ],
)
def test_seconds_read_from_number_or_string(value: JsonValue, expected: float | None, notes: int) -> None:
    members = Members({"expires_in": value})
    assert members.seconds("expires_in") == expected
    assert len(members.notes) == notes


_JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=5,
)


@pytest.mark.property
@given(st.data())
def test_arbitrary_metadata_read_or_rejected(data: st.DataObject) -> None:
    names = [*AuthorizationServerMetadata.__annotations__, *ProtectedResourceMetadata.__annotations__]
    document = data.draw(st.dictionaries(st.sampled_from(names), _JSON, max_size=8))
    parsed = orjson.loads(orjson.dumps(document))
    try:
        server = read_authorization_server(parsed)
    except InvalidValue:
        assert not isinstance(document.get("issuer"), str) or not document["issuer"]
    else:
        assert read_authorization_server(server.to_json()) == server
    try:
        resource = read_protected_resource(parsed)
    except InvalidValue:
        assert not isinstance(document.get("resource"), str) or not document["resource"]
    else:
        assert read_protected_resource(resource.to_json()) == resource


@pytest.mark.property
@given(st.binary(max_size=60))
def test_arbitrary_bytes_read_or_rejected(body: bytes) -> None:
    try:
        assert isinstance(read_json(body), dict)
    except InvalidValue:
        with pytest.raises(InvalidValue, match="JSON"):
            read_json(body)
