"""Tests of the OAuth testbed: a conforming client has no violation, and each violation is reported for its requirement."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from joserfc.jwk import ECKey
from raw_oauth_client import KEY, NOW, PUBLIC, REDIRECT, VERIFIER, RawOAuthClient, basic, document, jwt

import mcp_conformance.oauth_testbed
from mcp_conformance.oauth_testbed.client_jwts import s256
from mcp_conformance.oauth_testbed.quirks import ABSENT, Absent, Part, Quirks, Reply, Well
from mcp_conformance.oauth_testbed.registered_clients import ANY_SECRET_METHOD, Client
from mcp_conformance.oauth_testbed.testbed import OAuthTestbed
from mcp_conformance.oauth_testbed.violations import Violation
from mcp_core.jsonrpc.messages import JsonObject, JsonValue

Action = Callable[[RawOAuthClient], object]


def violated_requirements(testbed: OAuthTestbed) -> list[str]:
    return list(dict.fromkeys(violation.requirement for violation in testbed.violations))


def with_client_id(client: RawOAuthClient) -> RawOAuthClient:
    """Register, so that the client has a client id."""
    client.discover()
    client.register()
    return client


def with_code(client: RawOAuthClient) -> RawOAuthClient:
    """Run the flow up to the authorization code."""
    with_client_id(client).authorize()
    return client


def with_token(client: RawOAuthClient) -> RawOAuthClient:
    """Run the flow, so that the client has a token and used it."""
    client.run_flow()
    return client


def test_conforming_client_gets_tool_result_without_violations() -> None:
    testbed = OAuthTestbed()
    client = with_token(RawOAuthClient(testbed))
    assert b"the note" in client.call("tools/call", client.bearer()).body
    client.now += 3_000
    assert client.refresh_tokens().status == 200
    assert client.call("tools/list", client.bearer()).status == 200
    assert testbed.violations == []
    assert [request.path for request in testbed.requests[:5]] == [
        "/mcp",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/register",
        "/authorize",
    ]


VIOLATIONS: list[tuple[str, Action]] = [
    ("auth.prm-client-uses", lambda h: h.send("GET", h.testbed.places.server + "/.well-known/oauth-authorization-server")),
    ("auth.client-prm-fallback-order", lambda h: h.send("GET", "https://mcp.example/.well-known/oauth-protected-resource")),
    ("auth.client-both-as-metadata", lambda h: h.register()),
    ("auth.client-only-own-as-tokens", lambda h: h.send("GET", h.testbed.places.prm, ("Authorization", "Bearer x"))),
    ("auth.dcr-client", lambda h: with_client_id(h).register(media_type="text/plain")),
    ("auth.dcr-application-type", lambda h: with_client_id(h).register(application_type=None, redirect_uris=["https://a.example"])),
    ("auth.dcr-native", lambda h: with_client_id(h).register(application_type="web")),
    ("auth.redirect-https-or-localhost", lambda h: with_client_id(h).register(redirect_uris=["http://a.example/back"])),
    ("auth.redirect-registered", lambda h: with_client_id(h).register(redirect_uris=[])),
    ("auth.refresh-grant-type", lambda h: with_client_id(h).register(grant_types=["authorization_code"])),
    ("auth.registration-obtained", lambda h: with_client_id(h).authorize(client_id="another")),
    ("auth.redirect-registered", lambda h: with_client_id(h).authorize(redirect_uri="https://evil.example/back")),
    ("auth.oauth21-security", lambda h: with_client_id(h).authorize(response_type="token")),
    ("auth.oauth21-security", lambda h: with_client_id(h).authorize(more="&client_id=another")),
    ("auth.pkce", lambda h: with_client_id(h).authorize(code_challenge=None)),
    ("auth.pkce", lambda h: [with_code(h), h.authorize(state="state-of-another-one", code_challenge=s256(VERIFIER))]),
    ("auth.pkce-s256", lambda h: with_client_id(h).authorize(code_challenge_method="plain")),
    ("auth.oauth21-security", lambda h: with_client_id(h).authorize(client_secret="x")),
    ("auth.oauth21-security", lambda h: with_code(h).token(code="another")),
    ("auth.client-only-own-as-tokens", lambda h: h.call("ping", ("Authorization", "Bearer undefined"))),
    ("auth.bearer-header", lambda h: with_token(h).call("ping", h.bearer(), h.bearer())),
    ("auth.token-not-in-query", lambda h: with_token(h).call("ping", h.bearer(), query=f"?key={h.access}")),
    ("auth.state", lambda h: with_client_id(h).authorize(state="short")),
    ("auth.state", lambda h: [with_code(h), h.authorize()]),
    ("auth.resource-in-authorization", lambda h: with_client_id(h).authorize(resource=None)),
    ("auth.resource-identifies-server", lambda h: with_client_id(h).authorize(resource="https://mcp.example/other")),
    ("auth.challenge-authoritative", lambda h: with_client_id(h).authorize(scope="other")),
    ("auth.refresh-offline-access-not-otherwise", lambda h: with_client_id(h).authorize(scope="notes:read offline_access")),
    ("auth.step-up-retry-limit", lambda h: [with_client_id(h), *(h.authorize(state=f"a-state-that-is-new-{n}") for n in range(7))]),
    ("security.authorization-url-schemes", lambda h: h.testbed.browse("javascript:alert(1)", NOW)),
    ("auth.oauth21-security", lambda h: with_code(h).token(method="PUT")),
    ("auth.oauth21-security", lambda h: with_code(h).token(("Content-Type", "application/json"))),
    ("auth.oauth21-security", lambda h: with_code(h).token(more="&code=x")),
    ("auth.oauth21-security", lambda h: with_code(h).token(query="?code=x")),
    ("auth.oauth21-security", lambda h: with_code(h).token(basic(h.client_id, "x"), client_secret="x")),
    ("auth.oauth21-security", lambda h: [with_code(h).token(), h.token(code=h.code)]),
    ("auth.oauth21-security", lambda h: with_code(h).token(redirect_uri="http://127.0.0.1:1/callback")),
    ("auth.pkce", lambda h: with_code(h).token(code_verifier="w" * 43)),
    ("auth.pkce", lambda h: with_code(h).token(code_verifier=None)),
    ("auth.resource-in-token", lambda h: with_code(h).token(resource=None)),
    ("auth.resource-identifies-server", lambda h: with_code(h).token(resource="https://mcp.example/other")),
    ("auth.registration-obtained", lambda h: with_code(h).token(client_id=None)),
    ("auth.no-cross-as-credentials", lambda h: with_code(h).send("GET", f"{h.testbed.places.other}/?code={h.code}")),
    ("auth.no-cross-as-credentials", lambda h: with_token(h).send("GET", h.testbed.places.other, h.bearer())),
    ("auth.oauth21-security", lambda h: [with_token(h), old := h.refresh, h.refresh_tokens(), h.refresh_tokens(refresh_token=old)]),
    ("auth.oauth21-security", lambda h: with_token(h).refresh_tokens(scope="notes:read notes:write")),
    ("auth.oauth21-security", lambda h: with_token(h).refresh_tokens(grant_type=None)),
    ("auth.oauth21-security", lambda h: with_token(h).refresh_tokens(grant_type="refresh")),
    ("auth.oauth21-security", lambda h: with_token(h).refresh_tokens(refresh_token=None)),
    ("auth.oauth21-security", lambda h: with_token(h).refresh_tokens(refresh_token=h.refresh[:-1])),
    ("auth.oauth21-security", lambda h: with_token(h).refresh_tokens(client_id="another")),
    ("auth.resource-in-token", lambda h: with_token(h).refresh_tokens(resource=None)),
    ("auth.resource-identifies-server", lambda h: with_token(h).refresh_tokens(resource=f"{h.testbed.places.resource}/")),
    ("auth.refresh-confidential", lambda h: with_token(h).send("GET", f"{h.testbed.places.server}/?x={h.refresh}")),
    ("auth.refresh-confidential", lambda h: with_token(h).refresh_tokens(("X-Debug", h.refresh))),
    ("auth.token-not-in-query", lambda h: with_token(h).call("ping", h.bearer(), query=f"?access_token={h.access}")),
    ("auth.bearer-every-request", lambda h: with_token(h).call("ping")),
    ("auth.bearer-header", lambda h: with_token(h).call("ping", ("Authorization", f"Token {h.access}"))),
    ("auth.bearer-header", lambda h: with_token(h).call("ping", ("Authorization", h.access))),
    ("security.block-private-ranges", lambda h: h.send("GET", "http://169.254.169.254/latest")),
    ("security.sanitize-urls", lambda h: h.send("GET", "https://nowhere.example/")),
    ("security.sanitize-urls", lambda h: h.send("POST", h.testbed.places.evil)),
    ("security.sanitize-urls", lambda h: h.testbed.browse(f"{h.testbed.places.evil}/authorize?code_challenge=x", NOW)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("requirement", "action"), VIOLATIONS, ids=[f"{n}-{each[0]}" for n, each in enumerate(VIOLATIONS)]
)
def test_violation_is_reported_for_its_requirement_only(requirement: str, action: Action) -> None:
    testbed = OAuthTestbed()
    action(RawOAuthClient(testbed))
    assert violated_requirements(testbed) == [requirement]


@pytest.mark.parametrize("place", ["{resource}", "{other}", "{evil}"])
def test_refresh_token_for_other_party_is_neither_confidential_nor_kept_apart(place: str) -> None:
    testbed = OAuthTestbed()
    client = with_token(RawOAuthClient(testbed))

    client.send(
        "GET",
        testbed.places.fill(place),
        client.bearer() if "resource" in place else ("X", ""),
        ("X-Debug", client.refresh),
    )

    assert violated_requirements(testbed) == ["auth.refresh-confidential", "auth.no-cross-as-credentials"]


def test_refresh_token_in_basic_credentials_is_not_confidential() -> None:
    testbed = OAuthTestbed()
    client = with_token(RawOAuthClient(testbed))

    client.refresh_tokens(basic(client.client_id, client.refresh))

    assert violated_requirements(testbed) == ["auth.refresh-confidential", "auth.oauth21-security"]


@pytest.mark.parametrize(("authenticates", "status"), [(True, 200), (False, 401)])
def test_refresh_of_confidential_client_requires_its_secret(authenticates: bool, status: int) -> None:
    testbed = OAuthTestbed()
    testbed.register(
        {"client_id": "given", "client_secret": "of-given", "token_endpoint_auth_method": "client_secret_basic"}
    )
    client = RawOAuthClient(testbed, client_id="given")
    client.discover()
    client.authorize()
    assert client.token(basic("given", "of-given")).status == 200

    response = client.refresh_tokens(*([basic("given", "of-given")] if authenticates else []))

    assert response.status == status
    assert violated_requirements(testbed) == ([] if authenticates else ["auth.oauth21-security"])


def test_refresh_for_another_resource_is_rejected() -> None:
    testbed = OAuthTestbed()
    client = with_token(RawOAuthClient(testbed))

    assert document(client.refresh_tokens(resource=f"{testbed.places.resource}/"))["error"] == "invalid_target"
    assert client.refresh_tokens().status == 200


def test_refresh_by_forgotten_client_is_no_violation() -> None:
    testbed = OAuthTestbed()
    client = with_token(RawOAuthClient(testbed))
    testbed.restart()

    assert document(client.refresh_tokens())["error"] == "invalid_client"
    assert testbed.violations == []


def test_violation_names_requirement_reason_and_request() -> None:
    testbed = OAuthTestbed()
    RawOAuthClient(testbed).send("GET", "http://10.0.0.1/")
    (violation,) = testbed.violations
    assert isinstance(violation, Violation)
    assert str(violation) == "security.block-private-ranges: a request to an unknown server: 'http://10.0.0.1/'"
    assert violation.request is testbed.requests[0]


@pytest.mark.parametrize(
    ("supported", "scope", "violated"),
    [
        (["a", "b"], "a b", []),
        (["a", "b"], "a", ["auth.scope-priority-supported"]),
        (ABSENT, None, []),
        (ABSENT, "a", ["auth.scope-omitted"]),
    ],
)
def test_challenge_without_scope_requires_supported_scopes(
    supported: list[str] | Absent, scope: str | None, violated: list[str]
) -> None:
    listed: JsonValue | Absent = supported if isinstance(supported, Absent) else [*supported]
    testbed = OAuthTestbed(Quirks(challenge=("Bearer",), resource_metadata={"scopes_supported": listed}))
    with_client_id(RawOAuthClient(testbed)).authorize(scope=scope)
    assert violated_requirements(testbed) == violated


@pytest.mark.parametrize(
    ("scope", "violated"), [("notes:read notes:write", []), ("notes:write", ["auth.step-up-union"])]
)
def test_step_up_requires_union_of_scopes(scope: str, violated: list[str]) -> None:
    challenge = 'Bearer error="insufficient_scope", scope="notes:write"'
    testbed = OAuthTestbed(Quirks(scopes_of={"tools/call": ("notes:write",)}, challenge_scope=(challenge,)))
    with_token(RawOAuthClient(testbed)).authorize(state="state-of-another-one", scope=scope)
    assert violated_requirements(testbed) == violated


@pytest.mark.parametrize("refreshes", [True, False])
def test_login_after_rejected_refresh_may_ignore_challenge(refreshes: bool) -> None:
    challenge = 'Bearer error="insufficient_scope", scope="extra"'
    testbed = OAuthTestbed(Quirks(scopes_of={"tools/call": ("notes:write",)}, challenge_scope=(challenge,)))
    client = with_token(RawOAuthClient(testbed))
    testbed.restart()
    if refreshes:
        assert client.refresh_tokens().status == 401
    client.register()
    client.authorize(state="state-of-another-one", scope="notes:read notes:write")
    assert violated_requirements(testbed) == ([] if refreshes else ["auth.challenge-authoritative"])


def test_client_id_lost_by_restart_is_no_violation() -> None:
    testbed = OAuthTestbed()
    client = with_client_id(RawOAuthClient(testbed))
    testbed.restart()
    assert client.authorize() == []
    assert violated_requirements(testbed) == []


def test_code_redeemed_by_other_client_is_violation() -> None:
    testbed = OAuthTestbed()
    client = with_code(RawOAuthClient(testbed))
    code = client.code
    client.register()
    assert document(client.token(code=code))["error"] == "invalid_grant"
    assert violated_requirements(testbed) == ["auth.oauth21-security"]


FLAWED: list[tuple[str, Quirks]] = [
    ("auth.prm-resource-mismatch-rejected", Quirks(resource_metadata={"resource": "https://mcp.example/other"})),
    ("auth.prm-resource-mismatch-rejected", Quirks(resource_metadata={"resource": "https://evil.example/mcp"})),
    ("auth.prm-resource-mismatch-rejected", Quirks(resource_metadata={"resource": 7})),
    ("auth.as-metadata-mismatch-not-used", Quirks(server_metadata={"issuer": "https://as.example/"})),
    ("auth.pkce-refuse-rfc8414", Quirks(server_metadata={"code_challenge_methods_supported": ABSENT})),
]


@pytest.mark.parametrize(("requirement", "quirks"), FLAWED)
def test_flow_continued_with_invalid_metadata_is_violation(requirement: str, quirks: Quirks) -> None:
    testbed = OAuthTestbed(quirks)
    with_code(RawOAuthClient(testbed))
    assert violated_requirements(testbed) == [requirement]


def test_openid_metadata_without_pkce_continued_is_violation() -> None:
    testbed = OAuthTestbed(
        Quirks(server_metadata_at=(Well.OPENID_APPENDED,), server_metadata={"code_challenge_methods_supported": ABSENT})
    )
    client = RawOAuthClient(testbed)
    client.call()
    client.send("GET", testbed.places.prm)
    for well in Well.OAUTH, Well.OPENID_APPENDED:
        client.send("GET", well.url(testbed.places.issuer))
    client.register()
    client.authorize()
    assert violated_requirements(testbed) == ["auth.pkce-refuse-oidc"]


@pytest.mark.parametrize(
    ("changes", "requirement"),
    [
        ({"state": "guessed"}, "auth.state"),
        ({"iss": "https://evil.example"}, "auth.iss-advertised-present"),
        ({"iss": ABSENT}, "auth.iss-advertised-absent"),
    ],
)
def test_invalid_authorization_response_accepted_is_violation(changes: dict[str, str], requirement: str) -> None:
    testbed = OAuthTestbed(Quirks(authorization=changes))
    with_code(RawOAuthClient(testbed)).token()
    assert violated_requirements(testbed) == [requirement]


def test_unadvertised_issuer_mismatch_accepted_is_violation() -> None:
    advertised = "authorization_response_iss_parameter_supported"
    testbed = OAuthTestbed(Quirks(server_metadata={advertised: False}, authorization={"iss": "https://evil.example"}))
    with_code(RawOAuthClient(testbed)).token()
    assert violated_requirements(testbed) == ["auth.iss-unadvertised-present"]


def test_code_with_error_redeemed_is_violation() -> None:
    testbed = OAuthTestbed(Quirks(authorization={"error": "access_denied"}))
    with_code(RawOAuthClient(testbed)).token()
    assert violated_requirements(testbed) == ["auth.oauth21-security"]


def test_code_with_unknown_state_redeemed_is_violation() -> None:
    testbed = OAuthTestbed(Quirks(strays=({"code": "{code}", "state": "guessed"}, {"error": "no"})))
    client = with_client_id(RawOAuthClient(testbed))
    back = client.authorize()
    assert len(back) == 3
    stray = back[0].partition("code=")[2].partition("&")[0]
    client.token(code=stray)
    assert violated_requirements(testbed) == ["auth.state"]


@pytest.mark.parametrize("one_host", [False, True])
def test_credentials_reused_after_migration_are_violations(one_host: bool) -> None:
    testbed = OAuthTestbed(Quirks(one_host=one_host))
    client = with_token(RawOAuthClient(testbed))
    old = client.access
    testbed.migrate()
    assert client.call("ping", client.bearer()).status == 401
    prm = document(client.send("GET", testbed.places.prm))
    assert prm["authorization_servers"] == [testbed.places.other]
    assert violated_requirements(testbed) == []
    client.register()
    assert violated_requirements(testbed) == ["auth.as-change-reregister"]
    client.send("GET", f"{testbed.places.other}/.well-known/oauth-authorization-server")
    client.send("GET", f"{testbed.places.other}/authorize?client_id={client.client_id}")
    client.send("POST", f"{testbed.places.other}/token", body=f"refresh_token={client.refresh}".encode())
    reused = {"auth.as-change-no-reuse", "auth.no-cross-as-credentials", "auth.refresh-confidential"}
    assert reused <= set(violated_requirements(testbed))
    assert old in testbed.secrets


@pytest.mark.parametrize("one_host", [False, True])
def test_new_registration_after_migration_is_no_violation(one_host: bool) -> None:
    testbed = OAuthTestbed(Quirks(one_host=one_host))
    client = with_token(RawOAuthClient(testbed))
    testbed.migrate()
    other = testbed.places.other
    client.send("GET", testbed.places.prm)
    client.send("GET", Well.OAUTH.url(other))
    posted = b'{"redirect_uris": ["%s"], "grant_types": ["authorization_code", "refresh_token"], "application_type": "native", "token_endpoint_auth_method": "none"}' % REDIRECT.encode()  # fmt: skip
    registered = document(client.send("POST", f"{other}/register", ("Content-Type", "application/json"), body=posted))
    assert registered["client_id"] != client.client_id
    form = {
        "grant_type": "refresh_token",
        "client_id": str(registered["client_id"]),
        "resource": testbed.places.resource,
    }
    assert client.post(form, url=f"{other}/token").status == 400
    assert testbed.requests[-1].place == f"{other}/token"
    assert violated_requirements(testbed) == ["auth.oauth21-security"]


@pytest.mark.parametrize(
    ("requirement", "away"),
    [
        ("auth.prm-resource-mismatch-rejected", Quirks(resource_metadata={"resource": "{evil}/mcp"})),
        ("auth.as-metadata-mismatch-not-used", Quirks(server_metadata={"issuer": "{evil}"})),
        ("auth.pkce-refuse-rfc8414", Quirks(server_metadata={"code_challenge_methods_supported": []})),
    ],
)
def test_invalid_metadata_after_migration_used_is_violation(requirement: str, away: Quirks) -> None:
    testbed = OAuthTestbed(Quirks(other=away))
    client = with_token(RawOAuthClient(testbed))
    testbed.migrate()
    client.send("GET", testbed.places.prm)
    client.send("GET", Well.OAUTH.url(testbed.places.other))
    assert violated_requirements(testbed) == []
    client.send("GET", f"{testbed.places.other}/authorize?client_id=x")
    assert requirement in violated_requirements(testbed)


def test_token_of_other_authorization_server_is_rejected() -> None:
    testbed = OAuthTestbed()
    client = RawOAuthClient(testbed)
    token = testbed.other.tokens
    client.access = token._fresh(None, testbed.places.resource, frozenset({"notes:read"})).text
    token.issued[client.access] = token._fresh(None, testbed.places.resource, frozenset({"notes:read"}))
    assert client.call("ping", client.bearer()).status == 401
    assert violated_requirements(testbed) == ["auth.client-only-own-as-tokens"]


# Client authentication


def secret_client(testbed: OAuthTestbed, method: str) -> RawOAuthClient:
    client = RawOAuthClient(testbed)
    client.discover()
    client.register(token_endpoint_auth_method=method)
    client.authorize()
    return client


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_client_secret_authenticates_by_registered_method(method: str) -> None:
    testbed = OAuthTestbed()
    client = secret_client(testbed, method)
    assert client.secret is not None
    assert client.token(client_secret="wrong").status == 401
    assert client.token(("Authorization", "Basic %%")).status == 401
    header = basic(client.client_id, client.secret)
    assert violated_requirements(testbed) == ["auth.oauth21-security"]
    response = client.token(header) if method.endswith("basic") else client.token(client_secret=client.secret)
    assert response.status == 200
    assert violated_requirements(testbed) == ["auth.oauth21-security"]


def test_client_secret_without_registered_method_authenticates_in_header_and_body() -> None:
    for header, fields in ((basic("given", "a/secret"), {}), (None, {"client_secret": "a/secret"})):
        testbed = OAuthTestbed()
        testbed.register(
            {"client_id": "given", "client_secret": "a/secret", "token_endpoint_auth_method": ANY_SECRET_METHOD}
        )
        client = RawOAuthClient(testbed, client_id="given")
        client.discover()
        client.authorize()
        assert client.token(*(() if header is None else (header,)), **fields).status == 200
        assert violated_requirements(testbed) == []


def test_endpoints_in_metadata_replace_default_ones() -> None:
    moved = "{server}/oauth2/authorize?tenant=1"
    testbed = OAuthTestbed(Quirks(server_metadata={"authorization_endpoint": moved}))
    client = with_client_id(RawOAuthClient(testbed))
    assert client.authorize() == []
    query = f"response_type=code&client_id={client.client_id}&redirect_uri={REDIRECT}&code_challenge={s256(VERIFIER)}"
    resource = (
        f"code_challenge_method=S256&state=state-of-another-one&resource={testbed.places.resource}&scope=notes:read"
    )
    url = f"{testbed.places.server}/oauth2/authorize?{query}&{resource}"
    assert testbed.browse(f"{url}&tenant=1", NOW)
    assert violated_requirements(testbed) == []
    again = url.replace("another-one", "the-third").replace(s256(VERIFIER), s256("w" * 43))
    assert testbed.browse(again, NOW)
    assert violated_requirements(testbed) == ["auth.oauth21-security"]


def test_encoded_secret_sent_elsewhere_is_violation() -> None:
    testbed = OAuthTestbed()
    client = secret_client(testbed, "client_secret_basic")
    assert client.secret is not None
    client.send("GET", testbed.places.other, basic("x", client.secret))
    client.send("GET", testbed.places.other, ("Authorization", "Basic a"))
    assert violated_requirements(testbed) == ["auth.no-cross-as-credentials"]


def assertion(**changes: object) -> str:
    claims: dict[str, object] = {
        "iss": "signs",
        "sub": "signs",
        "aud": "https://as.example",
        "exp": NOW + 60,
        "jti": "a",
    }
    members: JsonObject = {name: value for name, value in {**claims, **changes}.items() if value is not None}  # type: ignore[misc]  # a dict of JSON claims; mypy loses their type in the merge
    return jwt(members)


@pytest.mark.parametrize(
    ("text", "violated"),
    [
        (assertion(), []),
        (assertion(aud=["https://as.example"], jti=None), []),
        (assertion(aud="https://as.example/token"), ["client-credentials.jwt-claims"]),
        (assertion(sub="another"), ["client-credentials.jwt-claims"]),
        (assertion(exp=NOW - 1), ["client-credentials.jwt-claims"]),
        (assertion(exp=None), ["client-credentials.jwt-claims"]),
        (assertion()[:-4] + "AAAA", ["client-credentials.jwt-claims"]),
        ("no.jwt", ["client-credentials.jwt-claims"]),
        (jwt({}, key=ECKey.generate_key("P-256")), ["client-credentials.jwt-claims"]),
    ],
)
def test_client_assertion_claims_are_checked(text: str, violated: list[str]) -> None:
    registered: JsonObject = {
        "client_id": "signs",
        "token_endpoint_auth_method": "private_key_jwt",
        "jwks": {"keys": [{**PUBLIC}]},
    }
    testbed = OAuthTestbed(clients=[registered])
    form = {"grant_type": "client_credentials", "client_id": "signs", "resource": testbed.places.resource}
    kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    response = RawOAuthClient(testbed).post({**form, "client_assertion_type": kind, "client_assertion": text})
    assert response.status == (401 if violated else 200)
    assert violated_requirements(testbed) == violated


def test_client_assertion_without_type_or_repeated_is_rejected() -> None:
    registered: JsonObject = {
        "client_id": "signs",
        "token_endpoint_auth_method": "private_key_jwt",
        "jwks": {"keys": [{**PUBLIC}]},
    }
    testbed = OAuthTestbed(clients=[registered])
    form = {"grant_type": "client_credentials", "client_id": "signs", "resource": testbed.places.resource}
    kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    client = RawOAuthClient(testbed)
    assert client.post({**form, "client_assertion": assertion()}).status == 401
    assert violated_requirements(testbed) == ["client-credentials.jwt-assertion-type"]
    for status in 200, 401:
        assert client.post({**form, "client_assertion_type": kind, "client_assertion": assertion()}).status == status


def test_unknown_client_authentication_method_is_rejected() -> None:
    testbed = OAuthTestbed(clients=[{"client_id": "odd", "token_endpoint_auth_method": "tls_client_auth"}])
    response = RawOAuthClient(testbed).post({"grant_type": "client_credentials", "client_id": "odd"})
    assert document(response) == {"error": "invalid_client"}


DOCUMENT = "https://app.example/client.json"


@pytest.mark.parametrize(
    ("client_id", "published", "violated"),
    [
        (DOCUMENT, None, []),
        (DOCUMENT, {"client_id": DOCUMENT, "client_name": "App", "redirect_uris": ["http://127.0.0.1/callback"]}, []),
        (DOCUMENT, {"client_id": DOCUMENT, "client_name": "App", "redirect_uris": ["https://app.example/back"]}, ["auth.redirect-registered"]),
        (DOCUMENT, {"client_id": DOCUMENT, "redirect_uris": [REDIRECT]}, ["auth.cimd-document-fields"]),
        (DOCUMENT, {"client_id": "x", "client_name": "App", "redirect_uris": [REDIRECT]}, ["auth.cimd-document-client-id"]),
        ("http://app.example/client.json", None, ["auth.cimd-client-id-form"]),
        ("https://app.example", None, ["auth.cimd-client-id-form"]),
    ],
)  # fmt: skip
def test_client_id_metadata_document_is_checked(
    client_id: str, published: JsonObject | None, violated: list[str]
) -> None:
    testbed = OAuthTestbed(Quirks(documents=True), documents={} if published is None else {client_id: published})
    client = RawOAuthClient(testbed, client_id=client_id)
    client.discover()
    client.authorize()
    assert violated_requirements(testbed) == violated


def test_client_id_metadata_document_unsupported_is_violation() -> None:
    testbed = OAuthTestbed()
    client = RawOAuthClient(testbed, client_id=DOCUMENT)
    client.discover()
    client.authorize()
    assert violated_requirements(testbed) == ["auth.cimd-client-checks"]


def test_client_id_of_other_authorization_server_is_violation() -> None:
    testbed = OAuthTestbed()
    testbed.other.clients.registered["theirs"] = Client(client_id="theirs")
    client = RawOAuthClient(testbed, client_id="theirs")
    client.discover()
    client.authorize()
    assert violated_requirements(testbed) == ["auth.as-change-no-reuse"]


@pytest.mark.parametrize(("end", "violated"), [("", []), ("/", []), ("#part", ["auth.resource-canonical-uri"])])
def test_resource_trailing_slash_accepted_fragment_is_violation(end: str, violated: list[str]) -> None:
    testbed = OAuthTestbed()
    resource = f"{testbed.places.resource}{end}"
    client = RawOAuthClient(testbed)
    with_client_id(client).authorize(resource=resource)
    client.token(resource=resource)
    assert violated_requirements(testbed) == violated


@pytest.mark.parametrize(
    ("query", "violated"), [("?tenant=notes", []), ("", []), ("?tenant=other", ["auth.resource-identifies-server"])]
)
def test_resource_without_query_of_server_is_accepted(query: str, violated: list[str]) -> None:
    testbed = OAuthTestbed(resource="https://mcp.example/mcp?tenant=notes")
    client = RawOAuthClient(testbed)
    resource = f"https://mcp.example/mcp{query}"
    with_client_id(client).authorize(resource=resource)
    client.token(resource=resource)
    assert violated_requirements(testbed) == violated
    assert client.call("ping", client.bearer()).status == 200


@pytest.mark.parametrize(("moved", "violated"), [(True, []), (False, ["auth.client-prm-header-preferred"])])
def test_metadata_requested_at_earlier_url_is_violation(moved: bool, violated: list[str]) -> None:
    testbed = OAuthTestbed(Quirks(resource_metadata_moves=True))
    client = with_token(RawOAuthClient(testbed))
    testbed.server.tokens.revoke()
    challenge = client.call("ping", client.bearer()).header("www-authenticate") or ""
    named = re.search(r'resource_metadata="([^"]+)"', challenge)
    assert named is not None
    assert named[1] != testbed.places.prm
    url = named[1] if moved else testbed.places.prm
    assert document(client.send("GET", url))["resource"] == testbed.places.resource
    assert violated_requirements(testbed) == violated


# Sender-constrained tokens


def bound_client(quirks: Quirks | None = None) -> RawOAuthClient:
    testbed = OAuthTestbed(quirks or Quirks(dpop="required"))
    client = with_code(RawOAuthClient(testbed))
    client.token(client.proof())
    return client


def dpop(client: RawOAuthClient, **changes: object) -> tuple[tuple[str, str], ...]:
    claims: dict[str, object] = {"ath": s256(client.access), **changes}
    proof = client.proof("POST", client.testbed.places.resource, **claims)  # type: ignore[arg-type]  # the table gives JSON claims, by the names of the parameters
    return ("Authorization", f"DPoP {client.access}"), proof


def test_bound_token_with_proof_is_accepted() -> None:
    client = bound_client()
    assert client.call("tools/call", *dpop(client)).status == 200
    assert violated_requirements(client.testbed) == []


@pytest.mark.parametrize(("query", "violated"), [("", []), ("?tenant=notes", ["dpop.client-proof-claims"])])
def test_proof_for_url_with_query_is_rejected(query: str, violated: list[str]) -> None:
    testbed = OAuthTestbed(Quirks(dpop="required"), resource="https://mcp.example/mcp?tenant=notes")
    client = with_code(RawOAuthClient(testbed))
    client.token(client.proof())
    proof = client.proof("POST", f"https://mcp.example/mcp{query}", ath=s256(client.access))
    answer = client.call("ping", ("Authorization", f"DPoP {client.access}"), proof)
    assert answer.status == (401 if violated else 200)
    assert violated_requirements(testbed) == violated


@pytest.mark.parametrize(
    ("requirement", "action"),
    [
        ("dpop.client-token-request-proof", lambda h: h.refresh_tokens()),
        ("dpop.client-proof-header", lambda h: h.refresh_tokens(h.proof(), h.proof())),
        ("dpop.client-proof-header", lambda h: h.refresh_tokens(h.proof(header={"typ": "JWT"}))),
        (
            "dpop.client-proof-header",
            lambda h: h.refresh_tokens(h.proof(header={"jwk": {**KEY.as_dict(private=True)}})),
        ),
        ("dpop.asymmetric-only", lambda h: h.refresh_tokens(("DPoP", "no.jwt"))),
        ("dpop.asymmetric-only", lambda h: h.refresh_tokens(h.proof(header={"jwk": None}))),
        ("dpop.asymmetric-only", lambda h: h.refresh_tokens(h.proof(header={"jwk": {"kty": "oct", "k": "AAAA"}}))),
        ("dpop.asymmetric-only", lambda h: h.refresh_tokens(h.proof(key=ECKey.generate_key("P-256")))),
        ("dpop.client-proof-claims", lambda h: h.refresh_tokens(h.proof("GET"))),
        ("dpop.client-proof-claims", lambda h: h.refresh_tokens(h.proof(url="https://as.example/other"))),
        ("dpop.client-proof-claims", lambda h: h.refresh_tokens(h.proof(iat=int(NOW) - 3_600))),
        ("dpop.client-proof-claims", lambda h: h.refresh_tokens(h.proof(iat=None))),
        ("dpop.client-proof-claims", lambda h: h.call("ping", *dpop(h, ath=None))),
        ("dpop.client-proof-claims", lambda h: h.call("ping", *dpop(h, ath="x"))),
        ("dpop.client-fresh-proof", lambda h: h.refresh_tokens(h.proof(jti="proof-number-1"))),
        ("dpop.client-fresh-proof", lambda h: h.refresh_tokens(h.proof(jti=None))),
        ("dpop.client-fresh-proof", lambda h: h.call("ping", dpop(h)[0])),
        ("dpop.client-scheme", lambda h: h.call("ping", h.bearer(), dpop(h)[1])),
    ],
)
def test_invalid_proof_is_rejected_and_reported(requirement: str, action: Action) -> None:
    client = bound_client()
    response = action(client)
    assert getattr(response, "status", None) in (400, 401)
    assert violated_requirements(client.testbed) == [requirement]


def test_proof_with_other_key_is_rejected() -> None:
    client = bound_client()
    other = ECKey.generate_key("P-256")
    public: JsonObject = {name: str(value) for name, value in other.as_dict(private=False).items()}
    url = client.testbed.places.resource
    proof = client.proof("POST", url, {"jwk": public}, other, ath=s256(client.access))
    assert client.call("ping", ("Authorization", f"DPoP {client.access}"), proof).status == 401
    assert violated_requirements(client.testbed) == ["dpop.client-fresh-proof"]


def test_dpop_optional_token_request_without_proof_succeeds() -> None:
    testbed = OAuthTestbed(Quirks(dpop="accepted"))
    with_token(RawOAuthClient(testbed))
    assert violated_requirements(testbed) == []


def test_dpop_unsupported_proof_is_ignored() -> None:
    testbed = OAuthTestbed()
    client = with_code(RawOAuthClient(testbed))
    assert document(client.token(client.proof()))["token_type"] == "Bearer"


@pytest.mark.parametrize("nonces", ["kept", "renewed"])
def test_dpop_nonce_not_used_is_rejected(nonces: str) -> None:
    quirks = Quirks(
        dpop="required", nonce_at=frozenset({Part.TOKEN, Part.MCP}), nonces="kept" if nonces == "kept" else "renewed"
    )
    client = bound_client(quirks)
    assert client.access == ""
    client.token(client.proof())
    assert client.access
    first = client.call("ping", *dpop(client, nonce="stale"))
    assert first.status == 401
    assert violated_requirements(client.testbed) == ["dpop.client-rs-nonce"]
    assert first.header("www-authenticate") == 'DPoP error="use_dpop_nonce", algs="ES256"'
    assert client.call("ping", *dpop(client)).status == 200
    client.refresh_tokens(client.proof(nonce="stale"))
    assert violated_requirements(client.testbed) == ["dpop.client-rs-nonce", "dpop.client-as-nonce"]


def test_dpop_nonce_never_accepted_is_no_violation() -> None:
    client = bound_client(Quirks(dpop="required", nonce_at=frozenset({Part.TOKEN}), nonces="never right"))
    for _ in range(3):
        assert document(client.token(client.proof()))["error"] == "use_dpop_nonce"
    assert violated_requirements(client.testbed) == []


# Grants without a user


def test_workload_jwt_grants_token() -> None:
    testbed = OAuthTestbed()
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "resource": testbed.places.resource}
    client = RawOAuthClient(testbed)
    assert document(client.post({**form, "assertion": "x"}))["error"] == "invalid_grant"
    assert client.post({**form, "assertion": testbed.workload}).status == 200
    assert violated_requirements(testbed) == []


def test_unsupported_grant_type_is_rejected() -> None:
    testbed = OAuthTestbed(clients=[{"client_id": "public"}])
    for grant in "password", "client_credentials":
        response = RawOAuthClient(testbed).post(
            {"grant_type": grant, "client_id": "public", "resource": testbed.places.resource}
        )
        assert document(response)["error"] == "unsupported_grant_type"


def test_id_jag_exchange_grants_token() -> None:
    testbed = OAuthTestbed(clients=[{"client_id": "given"}])
    testbed.register(
        {
            "client_id": "at-idp",
            "client_secret": "the-secret-of-at-idp",
            "token_endpoint_auth_method": "client_secret_post",
        },
        at_idp=True,
    )
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "audience": "https://as.example",
        "resource": testbed.places.resource,
        "subject_token": testbed.id_token,
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "client_id": "at-idp",
        "client_secret": "the-secret-of-at-idp",
    }
    client, url = RawOAuthClient(testbed), "https://idp.example/token"
    response = document(client.post(form, url=url))
    assert (response["token_type"], response["issued_token_type"]) == ("N_A", "urn:ietf:params:oauth:token-type:id-jag")
    grant = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": str(response["access_token"])}
    assert client.post({**grant, "client_id": "given", "resource": testbed.places.resource}).status == 200
    assert violated_requirements(testbed) == []
    assert document(client.post({**form, "audience": "x"}, url=url))["error"] == "invalid_request"
    assert violated_requirements(testbed) == ["ema.audience"]
    assert client.post({**form, "client_secret": "x"}, url=url).status == 401
    assert violated_requirements(testbed) == ["ema.audience", "ema.client-auth-at-idp"]
    assert client.post(form, url="https://idp.example/elsewhere").status == 404


def test_cross_origin_redirect_followed_is_violation() -> None:
    away = Reply(status=307, headers=(("Location", "{evil}/token"),))
    testbed = OAuthTestbed(Quirks(replies={Part.TOKEN: away, Part.SERVER_METADATA: away}))
    client = RawOAuthClient(testbed)
    client.call()
    client.send("GET", testbed.places.prm)
    client.send("GET", f"{testbed.places.server}/.well-known/oauth-authorization-server")
    client.send("GET", f"{testbed.places.evil}/token")
    assert violated_requirements(testbed) == ["security.redirect-targets-validated"]


def test_token_sent_to_redirect_target_is_violation() -> None:
    testbed = OAuthTestbed(
        Quirks(replies_later={Part.MCP: Reply(status=307, headers=(("Location", "{evil}/collect"),))})
    )
    client = with_token(RawOAuthClient(testbed))
    response = client.call("ping", client.bearer())
    assert response.status == 307
    assert violated_requirements(testbed) == []
    client.send("POST", response.header("location") or "", client.bearer())
    assert "auth.client-only-own-as-tokens" in violated_requirements(testbed)


def test_later_authorization_response_accepted_is_violation() -> None:
    testbed = OAuthTestbed(Quirks(authorization_later={"iss": "{evil}"}))
    client = with_token(RawOAuthClient(testbed))
    assert violated_requirements(testbed) == []
    client.authorize(state="state-of-the-second-login")
    assert client.token().status == 400
    assert violated_requirements(testbed) == ["auth.iss-advertised-present"]


def test_token_of_unknown_type_used_is_violation() -> None:
    testbed = OAuthTestbed(Quirks(token_later={"token_type": "mac"}))
    client = with_token(RawOAuthClient(testbed))
    assert client.call("ping", client.bearer()).status == 200
    assert violated_requirements(testbed) == []
    client.authorize(state="state-of-the-second-login")
    client.token()
    client.call("ping", client.bearer())
    assert violated_requirements(testbed) == ["auth.oauth21-security"]


def test_testbed_imports_no_client_server_or_oauth_code() -> None:
    folder = Path(mcp_conformance.oauth_testbed.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    assert "mcp_core" in text
    assert not re.search(r"(from|import) mcp_(core\.oauth|client|server)", text)


def test_code_verifier_is_recorded_as_secret() -> None:
    testbed = OAuthTestbed()
    with_code(RawOAuthClient(testbed)).token()
    assert VERIFIER in testbed.secrets


def test_refresh_of_bound_token_requires_same_key() -> None:
    testbed = OAuthTestbed(Quirks(dpop="required"))
    client = with_code(RawOAuthClient(testbed))
    assert client.token(client.proof()).status == 200
    other = ECKey.generate_key("P-256")
    public: JsonObject = {name: str(value) for name, value in other.as_dict(private=False).items()}
    proof = client.proof(key=other, header={"jwk": public})
    assert document(client.refresh_tokens(proof))["error"] == "invalid_grant"
    assert violated_requirements(testbed) == ["dpop.client-token-request-proof"]
    assert client.refresh_tokens(client.proof()).status == 200


def test_token_request_without_redirect_uri_is_accepted() -> None:
    testbed = OAuthTestbed()
    client = with_code(RawOAuthClient(testbed))

    # OAuth 2.1 does not have the field any more.
    assert client.token(redirect_uri=None).status == 200
    assert violated_requirements(testbed) == []


def test_spaces_between_scheme_and_token_are_accepted() -> None:
    testbed = OAuthTestbed()
    client = with_token(RawOAuthClient(testbed))

    assert client.call("tools/call", ("Authorization", f"Bearer   {client.access}")).status == 200
    assert violated_requirements(testbed) == []


def test_empty_resource_is_violation() -> None:
    testbed = OAuthTestbed()
    with_client_id(RawOAuthClient(testbed)).authorize(resource="")
    assert violated_requirements(testbed) == ["auth.resource-identifies-server"]


def test_registration_that_is_not_json_is_refused() -> None:
    testbed = OAuthTestbed()
    body = b'{"redirect_uris": ["%s"], "grant_types": ["refresh_token"]}' % REDIRECT.encode()

    response = RawOAuthClient(testbed).send(
        "POST", f"{testbed.places.server}/register", ("Content-Type", "text/plain"), body=body
    )

    assert response is not None
    assert response.status == 400
    assert "auth.dcr-client" in violated_requirements(testbed)
