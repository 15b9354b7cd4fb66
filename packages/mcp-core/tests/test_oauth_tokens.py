"""The token endpoint: request forms, client authentication, and responses."""

from __future__ import annotations

import base64
from urllib.parse import unquote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oauth_network import ISSUER, MCP, NOW, REDIRECT, Key, json_response, random_bytes, tokens_document

from mcp_core.errors import TokenRefused
from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.oauth.metadata import AuthorizationServerMetadata
from mcp_core.oauth.records import AuthMethod, ClientRecord
from mcp_core.oauth.steps import FetchedResponse, Pairs
from mcp_core.oauth.tokens import (
    ID_JAG,
    ID_TOKEN,
    JWT_BEARER,
    TOKEN_EXCHANGE,
    authenticate,
    choose_auth_method,
    client_credentials_form,
    code_form,
    jwt_bearer_form,
    read_token_response,
    refresh_form,
    secrets_of,
    token_exchange_form,
)

PUBLIC = ClientRecord(client_id="me", issuer=ISSUER)
SECRET = ClientRecord(client_id="me:you +", issuer=ISSUER, client_secret="s3:c%t ü")


@pytest.mark.spec(
    "auth.resource-in-token", "auth.resource-in-both-requests", "auth.pkce", "client-credentials.grant-type",
    "client-credentials.resource", "wif.client-grant-type", "wif.client-assertion", "wif.client-resource",
    "ema.access-token-grant", "ema.token-exchange", "ema.requested-token-type", "ema.audience", "ema.resource",
    "ema.subject-token", "ema.scope-optional",
)  # fmt: skip
def test_token_request_forms_have_grant_and_resource() -> None:
    scopes = ("a", "b")
    forms = [
        dict(code_form("c0de", verifier="v", redirect_uri=REDIRECT, resource=MCP)),
        dict(refresh_form("r", resource=MCP)),
        dict(client_credentials_form(scopes=scopes, resource=MCP)),
        dict(client_credentials_form(scopes=(), resource=MCP)),
        dict(jwt_bearer_form("j", scopes=scopes, resource=MCP)),
        dict(token_exchange_form("s", subject_token_type=ID_TOKEN, audience=ISSUER, resource=MCP, scopes=scopes)),
    ]
    assert all(form.pop("resource") == MCP for form in forms)
    assert forms == [
        {"grant_type": "authorization_code", "code": "c0de", "redirect_uri": REDIRECT, "code_verifier": "v"},
        {"grant_type": "refresh_token", "refresh_token": "r"},
        {"grant_type": "client_credentials", "scope": "a b"},
        {"grant_type": "client_credentials"},
        {"grant_type": JWT_BEARER, "assertion": "j", "scope": "a b"},
        {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "audience": ISSUER,
            "subject_token": "s",
            "subject_token_type": ID_TOKEN,
            "scope": "a b",
        },
    ]


@pytest.mark.spec("client-credentials.jwt-recommended", "client-credentials.secret")
@pytest.mark.parametrize(
    ("client", "listed", "has_key", "expected"),
    [
        (PUBLIC, None, False, AuthMethod.NONE),
        (PUBLIC, ("none",), False, AuthMethod.NONE),
        (PUBLIC, None, True, AuthMethod.PRIVATE_KEY_JWT),
        (PUBLIC, ("none",), True, AuthMethod.NONE),
        (SECRET, None, False, AuthMethod.SECRET_BASIC),
        (SECRET, ("client_secret_post",), False, AuthMethod.SECRET_POST),
        (SECRET, ("client_secret_post", "client_secret_basic"), False, AuthMethod.SECRET_BASIC),
        (SECRET, ("client_secret_post", "private_key_jwt"), True, AuthMethod.PRIVATE_KEY_JWT),
        (ClientRecord(client_id="me", issuer=ISSUER, auth_method=AuthMethod.NONE), ("x",), True, AuthMethod.NONE),
    ],
)
def test_auth_method_preferred_and_supported_chosen(
    client: ClientRecord, listed: tuple[str, ...] | None, *, has_key: bool, expected: AuthMethod
) -> None:
    server = AuthorizationServerMetadata(issuer=ISSUER, token_endpoint_auth_methods_supported=listed)
    assert choose_auth_method(client, server, has_key=has_key) is expected
    if listed is None:
        assert choose_auth_method(client, None, has_key=has_key) is expected


def test_auth_method_without_common_one_raises() -> None:
    server = AuthorizationServerMetadata(issuer=ISSUER, token_endpoint_auth_methods_supported=("tls_client_auth",))
    with pytest.raises(
        TokenRefused,
        match=r"supports the client authentication methods 'tls_client_auth'; .* configured for client_secret_basic, client_secret_post",
    ):
        choose_auth_method(SECRET, server, has_key=False)


def _authenticate(client: ClientRecord, method: AuthMethod, key: Key | None = None) -> tuple[Pairs, dict[str, str]]:
    headers, form = authenticate(
        (("grant_type", "x"),), client, method, audience=ISSUER, signer=key, now=NOW, random_bytes=random_bytes()
    )
    return headers, dict(form)


@pytest.mark.spec(
    "client-credentials.auth-method", "client-credentials.secret", "client-credentials.jwt-assertion-type"
)
def test_client_authentication_placed_by_method() -> None:
    assert _authenticate(PUBLIC, AuthMethod.NONE) == ((), {"grant_type": "x", "client_id": "me"})
    headers, form = _authenticate(SECRET, AuthMethod.SECRET_POST)
    assert (headers, form["client_secret"], form["client_id"]) == ((), "s3:c%t ü", "me:you +")
    ((name, value),), form = _authenticate(SECRET, AuthMethod.SECRET_BASIC)
    scheme, _, credentials = value.partition(" ")
    user, _, password = base64.b64decode(credentials).decode("ascii").partition(":")
    assert (name, scheme, unquote_plus(user), unquote_plus(password)) == (
        "Authorization", "Basic", "me:you +", "s3:c%t ü",
    )  # fmt: skip
    assert form == {"grant_type": "x"}
    headers, form = _authenticate(PUBLIC, AuthMethod.PRIVATE_KEY_JWT, Key())
    assert headers == ()
    assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    assert form["client_assertion"].count(".") == 2


def test_auth_method_without_credentials_raises() -> None:
    for method in (AuthMethod.SECRET_BASIC, AuthMethod.SECRET_POST):
        with pytest.raises(TokenRefused, match="must send its secret, but has none"):
            _authenticate(PUBLIC, method)
    with pytest.raises(TokenRefused, match="must sign, but has no key"):
        _authenticate(SECRET, AuthMethod.PRIVATE_KEY_JWT)


def test_token_response_read() -> None:
    answer = json_response(tokens_document(refresh_token="r", scope="a b", issued_token_type=ID_JAG))
    token = read_token_response(answer, issuer=ISSUER)
    assert (token.access_token, token.token_type, token.expires_in) == ("access-1", "Bearer", 3600)
    assert (token.refresh_token, token.scopes, token.issued_token_type) == ("r", ("a", "b"), ID_JAG)
    assert token.notes == ()
    assert "access-1" not in repr(token)


@pytest.mark.spec("auth.refresh-not-assumed", "ema.client-accepts-n-a")
@pytest.mark.parametrize(
    ("more", "name", "expected", "notes"),
    [
        ({"token_type": "bEARER"}, "token_type", "Bearer", 0),
        ({"token_type": "dpop"}, "token_type", "DPoP", 0),
        ({"token_type": "N_A"}, "token_type", "N_A", 0),
        ({"token_type": None}, "token_type", "Bearer", 1),
        ({"expires_in": "60"}, "expires_in", 60, 1),
        ({"expires_in": None}, "expires_in", None, 0),
        ({"expires_in": "soon"}, "expires_in", None, 2),
        ({"scope": ["a", "b"]}, "scopes", ("a", "b"), 0),
        ({"scope": ""}, "scopes", None, 0),
        ({"scope": 7}, "scopes", None, 1),
        ({"refresh_token": ""}, "refresh_token", None, 0),
        ({"refresh_token": 7}, "refresh_token", None, 1),
    ],
)
def test_token_response_deviation_tolerated(
    more: dict[str, JsonValue], name: str, expected: object, notes: int
) -> None:
    token = read_token_response(json_response({**tokens_document(), **more}), issuer=ISSUER)
    assert getattr(token, name) == expected
    assert len(token.notes) == notes


def test_token_response_as_form_read() -> None:
    body = b"access_token=a%2Bb&token_type=bearer&expires_in=60&scope=x+y"
    answer = FetchedResponse(
        status=200, headers=(("Content-Type", "Application/x-www-form-urlencoded; charset=utf-8"),), body=body
    )
    token = read_token_response(answer, issuer=ISSUER)
    assert (token.access_token, token.expires_in, token.scopes) == ("a+b", 60, ("x", "y"))


@pytest.mark.spec("wif.client-surfaces-errors")
@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (json_response({"error": "invalid_grant"}, 400), "invalid_grant", "issued no token: invalid_grant, status 400"),
        (
            json_response({"error": "invalid_grant", "error_description": "it\r\nended"}, 400),
            "invalid_grant",
            "issued no token: invalid_grant (it ended), status 400",
        ),
        (
            json_response({"error": "bad_verification_code"}, 200),
            "bad_verification_code",
            "bad_verification_code, status 200",
        ),
        (json_response({}, 500), None, "issued no token: no error was named, status 500"),
        (json_response(tokens_document(), 302), None, "no error was named, status 302"),
        (json_response({}), None, "returned no access_token"),
        (json_response({"access_token": ""}), None, "returned no access_token"),
        (json_response({"access_token": "a\r\nX: y"}), None, "an access_token that a header cannot carry"),
        (json_response({"access_token": "\xe4"}), None, "an access_token that a header cannot carry"),
        (json_response([]), None, "status 200 without a valid document: the document is JSON, but not an object"),
        (
            FetchedResponse(status=502, body=b"<html>"),
            None,
            "status 502 without a valid document: the document is not JSON, but a web page",
        ),
    ],
)
def test_token_response_without_token_raises(answer: FetchedResponse, error: str | None, message: str) -> None:
    with pytest.raises(TokenRefused) as caught:
        read_token_response(answer, issuer=ISSUER)
    assert message in caught.value.message
    assert (caught.value.error, caught.value.status) == (error, answer.status)


@pytest.mark.parametrize(
    ("body", "problem"),
    [(b"a=1&" * 101, "more than 100 fields"), (b"a" * 300_000, "has 300000 bytes")],
)
def test_token_response_form_bounded(body: bytes, problem: str) -> None:
    answer = FetchedResponse(status=200, headers=(("content-type", "application/x-www-form-urlencoded"),), body=body)
    with pytest.raises(TokenRefused, match=problem):
        read_token_response(answer, issuer=ISSUER)


def test_token_error_redacts_sent_secrets() -> None:
    sent = (("code", "c0de-1"), ("assertion", "s3cret"), ("scope", "read"), ("code_verifier", "of"))
    assert secrets_of(sent, None) == secrets_of(sent, PUBLIC) == ("c0de-1", "s3cret")
    description = "code c0de-1 of s3cret for read by s3:c%t ü"
    answer = json_response({"error": "bad s3cret", "error_description": description}, 400)
    with pytest.raises(TokenRefused) as caught:
        read_token_response(answer, issuer=ISSUER, secrets=secrets_of(sent, SECRET))
    assert caught.value.description == "code <secret> of <secret> for read by <secret>"
    assert caught.value.error == "bad <secret>"
    assert "s3cret" not in str(caught.value)


@pytest.mark.property
@given(
    st.integers(100, 599),
    st.dictionaries(
        st.sampled_from(["access_token", "token_type", "expires_in", "scope", "refresh_token", "error"]),
        st.none() | st.integers() | st.text(max_size=5) | st.lists(st.text(max_size=2), max_size=2),
    ),
)
def test_arbitrary_token_response_read_or_rejected(status: int, document: dict[str, JsonValue]) -> None:
    if any(isinstance(value, int) and abs(value) >= 2**63 for value in document.values()):
        return
    try:
        token = read_token_response(json_response(document, status), issuer=ISSUER)
    except TokenRefused:
        return
    assert 200 <= status < 300
    assert token.access_token.isascii()
    assert token.access_token.isprintable()
    assert token.expires_in is None or token.expires_in >= 0


@pytest.mark.property
@given(st.binary(max_size=60), st.booleans())
def test_arbitrary_bytes_rejected(body: bytes, form: bool) -> None:
    headers = (("content-type", "application/x-www-form-urlencoded"),) if form else ()
    with pytest.raises(TokenRefused):
        read_token_response(FetchedResponse(status=200, headers=headers, body=b"x" + body), issuer=ISSUER)
