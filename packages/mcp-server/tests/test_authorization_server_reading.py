"""Parsing of foreign input: forms, credentials, client metadata, and names."""

from __future__ import annotations

import unicodedata
from typing import cast
from urllib.parse import urlencode

import pytest
from authorization_testbed import LOOPBACK, WEB
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.oauth.records import AuthMethod
from mcp_core.oauth.urls import parse_url
from mcp_server.auth.authorization_server.clients.authentication import read_credentials
from mcp_server.auth.authorization_server.clients.metadata import (
    Unacceptable,
    check_document_id,
    read_description,
    read_document,
    shown,
)
from mcp_server.auth.authorization_server.model.client import Client
from mcp_server.auth.authorization_server.model.interaction import RegistrationKind
from mcp_server.auth.authorization_server.model.messages import OAuthRequestRejected, answer_url, read_form

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def mostly_valid(
    strategy: st.SearchStrategy[list[str]] | st.SearchStrategy[dict[str, list[JsonValue]]],
) -> st.SearchStrategy[JsonValue]:
    """Add arbitrary JSON to a strategy."""
    return cast("st.SearchStrategy[JsonValue]", strategy) | VALUES  # lists and objects are JSON


URIS = st.sampled_from([WEB, LOOPBACK, "myapp://cb", "https://app.example/a?x=1"]) | st.text(max_size=40)
DESCRIPTIONS: st.SearchStrategy[JsonObject] = st.fixed_dictionaries(
    {},
    optional={
        "client_id": st.just("https://client.example/c") | VALUES,
        "client_name": st.text() | VALUES,
        "redirect_uris": mostly_valid(st.lists(URIS, max_size=3)),
        "grant_types": mostly_valid(st.lists(st.sampled_from(["authorization_code", "refresh_token", "implicit"]))),
        "token_endpoint_auth_method": st.sampled_from([each.value for each in AuthMethod]) | VALUES,
        "jwks": mostly_valid(st.fixed_dictionaries({"keys": st.lists(VALUES, max_size=3)})),
        "jwks_uri": URIS | VALUES,
        "client_uri": URIS | VALUES,
        "application_type": st.sampled_from(["web", "native"]) | VALUES,
        "dpop_bound_access_tokens": VALUES,
        "client_secret": VALUES,
    },
)


@pytest.mark.property
@given(st.text(max_size=200) | st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5))).map(urlencode))
def test_form_parsed_or_rejected(text: str) -> None:
    try:
        parameters, repeated = read_form(text)
    except OAuthRequestRejected as refused:
        code = refused.code
    else:
        code = "invalid_request"
        assert all(parameters.values())
        assert len(repeated) <= text.count("&")
    assert code == "invalid_request"


@pytest.mark.property
@given(
    st.lists(st.text(max_size=40) | st.text(max_size=20).map("Basic ".__add__), max_size=2),
    st.dictionaries(
        st.sampled_from(["client_id", "client_secret", "client_assertion", "client_assertion_type"]),
        st.text(min_size=1),
    ),
)
def test_credentials_parsed_or_rejected(authorization: list[str], form: dict[str, str]) -> None:
    try:
        found = read_credentials(authorization, form)
    except OAuthRequestRejected as refused:
        code = refused.code
    else:
        code = "invalid_client"
        assert form.get("client_id", found.client_id) == found.client_id
        assert len(authorization) + sum(name in form for name in ("client_secret", "client_assertion")) <= 1
    assert code in {"invalid_client", "invalid_request"}


def registered(document: JsonObject) -> Client | None:
    kind, default = RegistrationKind.DYNAMIC, AuthMethod.SECRET_BASIC
    try:
        return read_description(document, client_id="c", kind=kind, default=default, issued_at=1.0)
    except Unacceptable as unacceptable:
        rejection = unacceptable
    assert rejection.error in {"invalid_client_metadata", "invalid_redirect_uri"}
    assert rejection.message.isascii()
    return None


def published(document: JsonObject) -> Client | None:
    try:
        return read_document(document, client_id="https://client.example/c", issued_at=1.0)
    except Unacceptable:
        return None


@pytest.mark.property
@given(DESCRIPTIONS)
def test_client_metadata_yields_valid_client_or_none(document: JsonObject) -> None:
    for client in (registered(document), published(document)):
        if client is None:
            continue
        for uri in client.redirect_uris:
            url = parse_url(uri, what="redirect URI")
            assert url.scheme == "https" or url.is_loopback
            assert answer_url(uri, {"code": "x", "state": "y"}, issuer="https://as.example").startswith(uri)
        assert "authorization_code" in client.grant_types
        assert "client_credentials" not in client.grant_types
        assert (client.method is AuthMethod.PRIVATE_KEY_JWT) == (client.jwks is not None or client.jwks_uri is not None)
        assert client.name
        assert Client.from_json(client.to_json()) == client


@pytest.mark.property
@given(st.text())
def test_shown_name_is_one_short_printable_line(text: str) -> None:
    name = shown(text)
    assert len(name) <= 80
    assert name == name.strip()
    assert not any(unicodedata.category(each)[0] == "C" or each in "\n\r\t" for each in name)
    assert shown(name) == name


@pytest.mark.property
@given(st.text(max_size=60) | st.text(max_size=40).map("https://client.example/".__add__))
def test_client_id_url_accepted_or_rejected(text: str) -> None:
    try:
        check_document_id(text)
    except Unacceptable:
        return
    assert parse_url(text, what="client_id").scheme == "https"
