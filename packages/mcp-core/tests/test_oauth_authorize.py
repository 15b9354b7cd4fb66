"""The authorization request and its redirect: the checks before the response is used."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oauth_network import ISSUER, MCP, REDIRECT, random_bytes, server_document

from mcp_core.errors import AuthorizationRefused, DiscoveryFailed, IssuerMismatch, UnsafeUrl
from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.oauth.addresses import AddressClass
from mcp_core.oauth.authorization_endpoint import AuthorizationRequest, new_authorization, read_redirect
from mcp_core.oauth.metadata import read_authorization_server
from mcp_core.oauth.pkce import verifies


def _request(
    scopes: tuple[str, ...] = ("a", "b"), key_id: str | None = None, issuer: str = ISSUER, **more: JsonValue
) -> AuthorizationRequest:
    return new_authorization(
        read_authorization_server(server_document(issuer, **more)),
        client_id="me & you",
        redirect_uri=REDIRECT,
        resource=MCP,
        scopes=scopes,
        key_id=key_id,
        networks=frozenset({AddressClass.PUBLIC}),
        random_bytes=random_bytes(),
    )


def _request_with_iss() -> AuthorizationRequest:
    return _request(authorization_response_iss_parameter_supported=True)


@pytest.mark.spec(
    "auth.resource-in-authorization", "auth.resource-in-both-requests", "auth.state", "auth.pkce", "auth.pkce-s256",
    "auth.resource-implemented", "auth.resource-indicators", "auth.resource-always-sent",
)  # fmt: skip
def test_authorization_url_has_all_parameters() -> None:
    request = _request(key_id="thumb")
    sent = parse_qs(urlsplit(request.url).query)
    assert verifies(request.pkce.verifier, sent.pop("code_challenge")[0])
    assert sent == {
        "response_type": ["code"],
        "client_id": ["me & you"],
        "redirect_uri": [REDIRECT],
        "code_challenge_method": ["S256"],
        "state": [request.state],
        "resource": [MCP],
        "scope": ["a b"],
        "dpop_jkt": ["thumb"],
    }
    assert request.url.startswith(f"{ISSUER}/authorize?")
    assert len(request.state) == 43
    assert request.pkce.verifier not in request.url
    for secret in (request.state, request.pkce.verifier):
        assert secret not in repr(request)


@pytest.mark.spec("auth.scope-omitted")
def test_authorization_url_without_scopes_omits_scope() -> None:
    assert "scope" not in parse_qs(urlsplit(_request(scopes=()).url).query)


@pytest.mark.spec("security.authorization-url-schemes", "security.sanitize-urls")
@pytest.mark.parametrize(
    "endpoint",
    [
        "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "http://as.example/authorize", "-option", "calc.exe",
        "https://as.example/authorize?state=x", "https://as.example/authorize?client_id=other&x=1",
        "https://10.0.0.1/authorize", "http://localhost/authorize", 'https://x" & calc', "https://u@as.example/",
    ],
)  # fmt: skip
def test_authorization_endpoint_unsafe_raises(endpoint: str) -> None:
    with pytest.raises(UnsafeUrl, match="authorization_endpoint"):
        _request(authorization_endpoint=endpoint)


def test_authorization_endpoint_missing_raises() -> None:
    with pytest.raises(DiscoveryFailed, match="has no authorization_endpoint"):
        _request(authorization_endpoint=None)


@pytest.mark.spec("auth.state")
@pytest.mark.parametrize("state", [[], ["other"], ["\xe4"], [""]])
def test_redirect_without_matching_state_ignored(state: list[str]) -> None:
    request = _request()
    assert request.code({"code": ["c"], "state": state}) is None
    # Not even an error ends the flow, because any web page can send one.
    assert request.code({"error": ["access_denied"], "state": state, "iss": ["https://evil.example"]}) is None
    assert request.code({"code": ["c"], "state": [request.state, request.state]}) is None
    assert request.code({"code": ["c"], "state": [request.state]}) == "c"


@pytest.mark.spec(
    "auth.iss-advertised-present", "auth.iss-unadvertised-present", "auth.iss-unadvertised-absent", "auth.record-issuer"
)
def test_redirect_with_matching_issuer_accepted() -> None:
    for request, iss in ((_request_with_iss(), [ISSUER]), (_request(), [ISSUER]), (_request(), [])):
        assert request.code({"code": ["c"], "state": [request.state], "iss": iss}) == "c"


@pytest.mark.spec(
    "auth.iss-advertised-absent", "auth.iss-unadvertised-present", "auth.iss-no-normalization",
    "auth.iss-validate-before-token",
)  # fmt: skip
@pytest.mark.parametrize(
    ("advertised", "iss"),
    [
        (True, []),
        (True, [f"{ISSUER}/"]),
        (True, ["https://AS.example"]),
        (True, ["https://as.example:443"]),
        (True, [""]),
        (True, [ISSUER, ISSUER]),
        (True, [ISSUER, "https://evil.example"]),
        (False, ["https://evil.example"]),
        (False, [f"{ISSUER}/"]),
        (False, [""]),
    ],
)
def test_redirect_with_other_issuer_raises(*, advertised: bool, iss: list[str]) -> None:
    request = _request_with_iss() if advertised else _request()
    with pytest.raises(IssuerMismatch, match=f"expected: {ISSUER}") as caught:
        request.code({"code": ["c"], "state": [request.state], "iss": iss})
    assert caught.value.expected == ISSUER


@pytest.mark.spec("auth.iss-error-response")
def test_redirect_error_of_other_issuer_not_shown() -> None:
    request = _request()
    fields = {
        "error": ["access_denied"],
        "error_description": ["call 555-0100"],
        "error_uri": ["https://evil.example/help"],
        "state": [request.state],
        "iss": ["https://evil.example"],
    }
    with pytest.raises(IssuerMismatch) as caught:
        request.code(fields)
    assert "555" not in str(caught.value)
    assert "access_denied" not in str(caught.value)


def test_redirect_error_sanitized_and_bounded() -> None:
    request = _request()
    with pytest.raises(AuthorizationRefused) as caught:
        request.code(
            {"error": ["access_denied"], "error_description": ["no\r\n<script>\x1b[2J"], "state": [request.state]}
        )
    assert caught.value.message == f"{ISSUER} denied the authorization: access_denied (no <script> [2J)"
    assert (caught.value.error, caught.value.description) == ("access_denied", "no <script> [2J")
    with pytest.raises(AuthorizationRefused, match=r"denied the authorization: server_error$"):
        request.code({"error": ["server_error"], "code": ["c"], "state": [request.state]})
    with pytest.raises(AuthorizationRefused, match="neither a code nor an error"):
        request.code({"state": [request.state]})


@pytest.mark.parametrize("name", ["code", "error"])
def test_redirect_repeated_parameter_raises(name: str) -> None:
    request = _request()
    with pytest.raises(AuthorizationRefused, match=f"repeats {name}"):
        request.code({name: ["a", "b"], "state": [request.state]})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://127.0.0.1:1/callback?code=a%20b&state=c#x", {"code": ["a b"], "state": ["c"]}),
        (" code=a&state=c&code=b\n", {"code": ["a", "b"], "state": ["c"]}),
        ("?code=a&state=", {"code": ["a"], "state": [""]}),
        ("code=a?b&state=c", {"code": ["a?b"], "state": ["c"]}),
        ("http://[/?code=a", {"code": ["a"]}),
        ("", {}),
        ("no such thing", {}),
        ("&".join(["a=1"] * 101), {}),
        ("a=" + "x" * 70_000, {}),
    ],
)
def test_redirect_url_parsed(text: str, expected: dict[str, list[str]]) -> None:
    found = read_redirect(text)
    assert {name: found[name] for name in expected} == expected
    assert all(name in expected or found[name] == [""] for name in found)


@pytest.mark.property
@given(st.text(max_size=80) | st.text(st.sampled_from("codestai=&?#%/:"), max_size=60))
def test_arbitrary_redirect_without_state_ignored(text: str) -> None:
    assert _request().code(read_redirect(text)) is None
