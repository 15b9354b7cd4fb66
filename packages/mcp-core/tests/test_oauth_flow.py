"""Authorization flows up to the token, with authorization servers of every kind."""

from __future__ import annotations

import base64

import attrs
import orjson
import pytest
from oauth_network import (
    ISSUER,
    MCP,
    METADATA,
    NOW,
    PRM,
    REDIRECT,
    FakeNetwork,
    Key,
    json_response,
    random_bytes,
    resource_document,
    server_document,
    tokens_document,
)

from mcp_core.errors import (
    AuthorizationError,
    AuthorizationRefused,
    DiscoveryFailed,
    InsufficientScope,
    IssuerMismatch,
    LocalProtocolError,
    RegistrationFailed,
    TokenRefused,
    UnsafeUrl,
)
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.oauth.challenge import Challenge
from mcp_core.oauth.client_metadata import ClientSettings
from mcp_core.oauth.dpop import Dpop
from mcp_core.oauth.flow import Flow
from mcp_core.oauth.grants import AuthorizationCode, ClientCredentials, EnterpriseManaged, Grant, WorkloadIdentity
from mcp_core.oauth.pkce import verifies
from mcp_core.oauth.records import AuthMethod, ClientRecord, Registration, TokenRecord, read_tokens
from mcp_core.oauth.scopes import StepUps
from mcp_core.oauth.settings import FlowSettings
from mcp_core.oauth.steps import (
    AwaitRedirect,
    BrowserOpened,
    ClientFound,
    FetchedResponse,
    FetchJson,
    FlowDone,
    FlowFailed,
    OpenBrowser,
    PostForm,
    RedirectReceived,
    Register,
    Unreachable,
)
from mcp_core.oauth.token_presentation import authorization_headers
from mcp_core.oauth.tokens import ID_JAG, JWT_BEARER, TOKEN_EXCHANGE

TOKEN = f"{ISSUER}/token"
CLIENT = ClientSettings(client_name="App", redirect_uris=("http://127.0.0.1/callback",))
REGISTERED = ClientRecord(
    client_id="old",
    issuer=ISSUER,
    auth_method=AuthMethod.NONE,
    registration=Registration.DYNAMIC,
    redirect_uris=(REDIRECT,),
)
TOKENS = TokenRecord(
    access_token="access-0",
    token_type="Bearer",
    expires_at=NOW - 1,
    refresh_token="refresh-0",
    scopes=("a",),
    requested_scopes=("a",),
    resource=MCP,
    server_url=MCP,
    token_endpoint=TOKEN,
    issuer=ISSUER,
    client=REGISTERED,
)
INVALID = Challenge(scheme="Bearer", parameters={"error": "invalid_token"})


def _challenge(**parameters: str) -> Challenge:
    return Challenge(scheme="Bearer", parameters=parameters)


def _settings(
    grant: Grant | None = None,
    *,
    credentials: tuple[ClientRecord, ...] = (),
    signer: Key | None = None,
    proof: Dpop | None = None,
    scopes: tuple[str, ...] | None = None,
    protocol_version: str | None = None,
) -> FlowSettings:
    return FlowSettings(
        server_url=MCP,
        grant=grant or AuthorizationCode(redirect_uri=REDIRECT),
        client=CLIENT,
        credentials=credentials,
        signer=signer,
        proof=proof,
        scopes=scopes,
        protocol_version=protocol_version,
    )


def _flow(settings: FlowSettings | None = None, step_ups: StepUps | None = None) -> Flow:
    return Flow(settings or _settings(), random_bytes=random_bytes(), step_ups=step_ups, operation="tools/call x")


def _get_tokens(
    network: FakeNetwork, flow: Flow, challenge: Challenge | None = None, tokens: TokenRecord | None = None
) -> TokenRecord:
    outcome = network.walk(flow, flow.start(NOW, challenge=challenge, tokens=tokens))
    if isinstance(outcome, FlowFailed):
        raise outcome.error
    return outcome.tokens


def _get_error(
    network: FakeNetwork, flow: Flow, challenge: Challenge | None = None, tokens: TokenRecord | None = None
) -> AuthorizationError:
    outcome = network.walk(flow, flow.start(NOW, challenge=challenge, tokens=tokens))
    assert isinstance(outcome, FlowFailed)
    return outcome.error


def _error_response(error: str, status: int = 400, **headers: str) -> FetchedResponse:
    return json_response({"error": error}, status, **headers)


def _claims(step: PostForm, name: str = "DPoP") -> JsonObject:
    (jwt,) = [value for given, value in step.headers if given == name]
    part = jwt.split(".")[1]
    claims: JsonObject = orjson.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims


# --- Consent of the user ------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "auth.resource-in-token", "auth.resource-in-authorization", "auth.resource-identifies-server", "auth.pkce", "auth.state",
    "auth.iss-unadvertised-absent", "auth.registration-obtained", "auth.client-parse-www-authenticate",
)  # fmt: skip
def test_flow_from_challenge_to_token() -> None:
    network, flow = FakeNetwork(), _flow()
    tokens = _get_tokens(network, flow, _challenge(resource_metadata=PRM, scope="a b"))
    assert [type(step).__name__ for step in network.steps] == [
        "FetchJson", "FetchJson", "FindClient", "Register", "OpenBrowser", "AwaitRedirect", "PostForm",
    ]  # fmt: skip
    sent, (form,) = network.authorization, network.forms
    assert verifies(form.pop("code_verifier"), sent["code_challenge"])
    assert form == {
        "grant_type": "authorization_code",
        "code": "code-1",
        "redirect_uri": REDIRECT,
        "resource": MCP,
        "client_id": "registered-1",
    }
    assert (sent["resource"], sent["scope"], sent["client_id"]) == (MCP, "a b", "registered-1")
    assert flow.client is not None
    assert flow.found is not None
    assert (flow.found.resource, flow.found.server.issuer) == (MCP, ISSUER)
    assert tokens == TokenRecord(
        access_token="access-1",
        token_type="Bearer",
        expires_at=NOW + 3600,
        refresh_token=None,
        scopes=("a", "b"),
        requested_scopes=("a", "b"),
        resource=MCP,
        server_url=MCP,
        token_endpoint=TOKEN,
        issuer=ISSUER,
        client=flow.client,
    )
    assert read_tokens(tokens.to_json()) == tokens
    assert [attempt.verdict for attempt in flow.discovery.attempts] == [
        f"metadata of {MCP}", f"metadata of {ISSUER}", "received a client id", "received a code", "received a token",
    ]  # fmt: skip


def test_flow_steps_repr_omits_secrets() -> None:
    network, flow = FakeNetwork(), _flow()
    network.routes[f"{ISSUER}/register"] = json_response({"client_id": "id", "client_secret": "s3cret"})
    network.routes[TOKEN] = json_response(tokens_document(access_token="acc3ss", refresh_token="r3fresh"))
    outcome = network.walk(flow, flow.start(NOW))
    text = " ".join(repr(step) for step in [*network.steps, outcome, flow.client, flow.discovery.attempts])
    assert isinstance(outcome, FlowDone)
    state = [step.state for step in network.steps if isinstance(step, AwaitRedirect)]
    verifier = [form["code_verifier"] for form in network.forms]
    for secret in ("s3cret", "acc3ss", "r3fresh", "code-1", *verifier):
        assert secret not in text
    assert all(f"state={secret!r}" not in text for secret in state)
    assert "code-1" not in repr(RedirectReceived(url="?code=code-1"))
    assert "acc3ss" not in repr(network.routes[TOKEN])


@pytest.mark.spec("auth.state")
def test_redirect_with_other_state_ignored() -> None:
    network, flow = FakeNetwork(), _flow()
    answers = iter([{"code": "evil", "state": "x"}, {"error": "access_denied"}])
    network.redirect = lambda sent: next(answers, {"code": "good", "state": sent["state"]})
    _get_tokens(network, flow)
    assert network.forms[0]["code"] == "good"
    assert len([step for step in network.steps if isinstance(step, AwaitRedirect)]) == 3


@pytest.mark.spec("auth.iss-validate-before-token", "auth.iss-advertised-absent", "auth.iss-error-response")
@pytest.mark.parametrize(
    ("advertised", "iss"),
    [(True, None), (True, f"{ISSUER}/"), (False, "https://evil.example"), (True, "https://evil.example")],
)
def test_redirect_of_other_issuer_not_sent_to_token_endpoint(*, advertised: bool, iss: str | None) -> None:
    network, flow = FakeNetwork(), _flow()
    network.routes[METADATA] = json_response(server_document(authorization_response_iss_parameter_supported=advertised))
    network.redirect = lambda sent: {**FakeNetwork.consent(sent), **({} if iss is None else {"iss": iss})}
    assert isinstance(_get_error(network, flow), IssuerMismatch)
    assert network.posted == []


def test_user_denial_ends_flow() -> None:
    network, flow = FakeNetwork(), _flow()
    network.redirect = lambda sent: {"error": "access_denied", "state": sent["state"]}
    error = _get_error(network, flow)
    assert isinstance(error, AuthorizationRefused)
    assert error.error == "access_denied"
    assert "metadata of https://mcp.example/mcp" in str(error)


@pytest.mark.spec("auth.pkce-refuse-rfc8414", "auth.pkce-refuse", "auth.pkce-verify-support")
def test_server_without_pkce_not_used() -> None:
    network, flow = FakeNetwork(), _flow()
    network.routes[METADATA] = json_response(server_document(code_challenge_methods_supported=None))
    assert isinstance(_get_error(network, flow), DiscoveryFailed)
    assert [type(step).__name__ for step in network.steps] == ["FetchJson", "FetchJson"]


@pytest.mark.spec("security.sanitize-urls", "security.authorization-url-schemes")
@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint"])
@pytest.mark.parametrize(
    "url", ["javascript:x", "file:///x", "http://as.example/x", "https://10.0.0.1/x", "https://u@a.example/"]
)
def test_unsafe_endpoint_not_used(name: str, url: str) -> None:
    network, flow = FakeNetwork(), _flow()
    network.routes[METADATA] = json_response(server_document(**{name: url}))
    error = _get_error(network, flow)
    assert isinstance(error, UnsafeUrl)
    assert error.what == name
    assert not network.browsed
    assert not network.posted


def test_metadata_without_token_endpoint_reported() -> None:
    network, flow = FakeNetwork(), _flow()
    network.routes[METADATA] = json_response(server_document(token_endpoint=None))
    assert "has no token_endpoint" in str(_get_error(network, flow))


def test_configured_credentials_used() -> None:
    network = FakeNetwork()
    given = ClientRecord(client_id="given", issuer=ISSUER, client_secret="s3cret")
    tokens = _get_tokens(network, _flow(_settings(credentials=(given,))))
    assert ("Authorization", "Basic " + base64.b64encode(b"given:s3cret").decode()) in network.posted[0].headers
    assert base64.b64encode(b"given:s3cret").decode() not in repr(network.posted[0])
    assert "headers=<Accept, Content-Type, Authorization>" in repr(network.posted[0])
    assert tokens.client == attrs.evolve(given, auth_method=AuthMethod.SECRET_BASIC)
    assert network.registrations == []


def test_rejected_registration_repeated_once() -> None:
    network, flow = FakeNetwork(), _flow()
    network.registered[ISSUER] = REGISTERED
    network.routes[TOKEN] = lambda step: (
        _error_response("invalid_client", 401)
        if isinstance(step, PostForm) and dict(step.form)["client_id"] == "old"
        else json_response(tokens_document())
    )
    tokens = _get_tokens(network, flow)
    assert tokens.client is not None
    assert tokens.client.client_id == "registered-1"
    assert [sent["client_id"] for sent in network.browsed] == ["old", "registered-1"]

    network, flow = FakeNetwork(), _flow()
    network.registered[ISSUER] = REGISTERED
    network.routes[TOKEN] = _error_response("invalid_client", 401)
    assert isinstance(_get_error(network, flow), TokenRefused)
    assert len(network.browsed) == 2


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (REGISTERED, "invalid_grant"),
        (attrs.evolve(REGISTERED, registration=Registration.USER_PROVIDED), "invalid_client"),
    ],
)
def test_token_error_of_other_kind_ends_flow(record: ClientRecord, error: str) -> None:
    network, flow = FakeNetwork(), _flow()
    network.registered[ISSUER] = record
    network.routes[TOKEN] = _error_response(error)
    failure = _get_error(network, flow)
    assert isinstance(failure, TokenRefused)
    assert (failure.error, len(network.posted)) == (error, 1)
    assert failure.attempts[-1].url == TOKEN


def test_token_endpoint_unreachable_ends_flow() -> None:
    network, flow = FakeNetwork(), _flow()
    network.routes[TOKEN] = Unreachable(reason="no route")
    error = _get_error(network, flow)
    assert "no response from the token endpoint https://as.example/token: no route" in error.message
    assert isinstance(error, TokenRefused)
    assert error.status is None


def test_token_of_unknown_type_rejected() -> None:
    network, flow = FakeNetwork(), _flow()
    network.routes[TOKEN] = json_response(tokens_document(token_type="mac"))
    assert "has the type 'mac'; expected: Bearer" in _get_error(network, flow).message


# --- Refresh ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.resource-in-token", "auth.refresh-not-assumed")
def test_expiring_token_refreshed_at_original_token_endpoint() -> None:
    network, flow = FakeNetwork(), _flow()
    network.routes[TOKEN] = json_response(tokens_document(refresh_token="refresh-1"))
    tokens = _get_tokens(network, flow, tokens=TOKENS)
    assert network.forms == [
        {"grant_type": "refresh_token", "refresh_token": "refresh-0", "resource": MCP, "client_id": "old"}
    ]
    assert len(network.steps) == 1
    expected = attrs.evolve(TOKENS, access_token="access-1", refresh_token="refresh-1", expires_at=NOW + 3600)
    assert tokens == expected


def test_refresh_without_new_refresh_token_keeps_old_one() -> None:
    network, flow = FakeNetwork(), _flow()
    network.routes[TOKEN] = json_response(tokens_document(scope="a c", expires_in=None))
    tokens = _get_tokens(network, flow, tokens=TOKENS)
    assert (tokens.refresh_token, tokens.scopes, tokens.expires_at) == ("refresh-0", ("a", "c"), None)


def test_challenge_refreshes_token_after_discovery() -> None:
    network, flow = FakeNetwork(), _flow()
    assert _get_tokens(network, flow, INVALID, TOKENS).access_token == "access-1"
    assert [type(step).__name__ for step in network.steps] == ["FetchJson", "FetchJson", "PostForm"]


@pytest.mark.parametrize("challenge", [None, INVALID])
@pytest.mark.parametrize("error", ["invalid_grant", "invalid_client"])
def test_rejected_refresh_leads_to_authorization(challenge: Challenge | None, error: str) -> None:
    network, flow = FakeNetwork(), _flow()
    network.registered[ISSUER] = REGISTERED
    network.routes[TOKEN] = lambda step: (
        _error_response(error)
        if isinstance(step, PostForm) and dict(step.form)["grant_type"] == "refresh_token"
        else json_response(tokens_document())
    )
    tokens = _get_tokens(network, flow, challenge, TOKENS)
    assert [form["grant_type"] for form in network.forms] == ["refresh_token", "authorization_code"]
    assert tokens.client is not None
    # A client id that the server rejected is not used again.
    assert tokens.client.client_id == ("old" if error == "invalid_grant" else "registered-1")
    assert network.authorization["scope"] == "a"


def test_rejected_tokens_forgotten() -> None:
    network, flow = FakeNetwork(), _flow()
    network.routes[TOKEN] = _error_response("invalid_grant")
    outcome = network.walk(flow, flow.start(NOW, tokens=TOKENS))
    assert isinstance(outcome, FlowFailed)
    assert outcome.forget == TOKENS


@pytest.mark.parametrize("answer", [Unreachable(reason="x"), FetchedResponse(status=503), FetchedResponse(status=429)])
def test_refresh_network_error_does_not_start_authorization(answer: FetchedResponse | Unreachable) -> None:
    network, flow = FakeNetwork(), _flow()
    network.routes[TOKEN] = answer
    outcome = network.walk(flow, flow.start(NOW, tokens=TOKENS))
    assert isinstance(outcome, FlowFailed)
    assert outcome.forget is None
    assert len(network.steps) == 1


@pytest.mark.parametrize(
    ("tokens", "challenge"),
    [
        (attrs.evolve(TOKENS, refresh_token=None), None),
        (attrs.evolve(TOKENS, refresh_token=None), INVALID),
        (attrs.evolve(TOKENS, token_type="DPoP"), None),
        (attrs.evolve(TOKENS, client=attrs.evolve(REGISTERED, auth_method=AuthMethod.PRIVATE_KEY_JWT)), None),
        (attrs.evolve(TOKENS, client=attrs.evolve(REGISTERED, auth_method=AuthMethod.SECRET_POST)), INVALID),
        (TOKENS, _challenge(error="invalid_token", scope="a b")),
        (attrs.evolve(TOKENS, resource="https://mcp.example"), INVALID),
    ],
)
def test_unusable_refresh_token_not_sent(tokens: TokenRecord, challenge: Challenge | None) -> None:
    network, flow = FakeNetwork(), _flow()
    _get_tokens(network, flow, challenge, tokens)
    assert [form["grant_type"] for form in network.forms] == ["authorization_code"]


@pytest.mark.spec(
    "auth.as-change-no-reuse", "auth.as-change-reregister", "auth.no-cross-as-credentials", "auth.separate-state-per-as",
    "auth.client-only-own-as-tokens",
)  # fmt: skip
def test_changed_authorization_server_receives_no_credentials() -> None:
    network, flow = FakeNetwork(), _flow()
    other = "https://other.example"
    network.registered[ISSUER] = REGISTERED
    network.routes |= {
        PRM: json_response(resource_document(authorization_servers=[other])),
        f"{other}/.well-known/oauth-authorization-server": json_response(server_document(other)),
        f"{other}/register": json_response({"client_id": "registered-2"}),
        f"{other}/token": json_response(tokens_document()),
    }
    tokens = _get_tokens(network, flow, INVALID, TOKENS)
    assert (tokens.issuer, tokens.token_endpoint) == (other, f"{other}/token")
    assert len(network.registrations) == 1
    assert "old" not in {form.get("client_id") for form in network.forms}
    assert all(form["grant_type"] != "refresh_token" for form in network.forms)
    assert "scope" not in network.authorization

    given = ClientRecord(client_id="given", issuer=None)
    error = _get_error(network, _flow(_settings(credentials=(given,))), INVALID, TOKENS)
    assert isinstance(error, RegistrationFailed)
    assert "are for https://as.example, but the server requires tokens of https://other.example" in error.message


def test_changed_client_secret_used_for_refresh() -> None:
    client = ClientRecord(client_id="given", issuer=ISSUER, client_secret="old", auth_method=AuthMethod.SECRET_POST)
    for issuer, expected in ((ISSUER, "new"), (None, "new"), ("https://other.example", "old")):
        network = FakeNetwork()
        given = ClientRecord(client_id="given", issuer=issuer, client_secret="new")
        _get_tokens(network, _flow(_settings(credentials=(given,))), tokens=attrs.evolve(TOKENS, client=client))
        assert network.forms[0]["client_secret"] == expected
    network = FakeNetwork()
    _get_tokens(network, _flow(_settings(credentials=(client,))), tokens=attrs.evolve(TOKENS, client=None))
    assert "client_id" not in network.forms[0]


# --- Step-up ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "auth.step-up", "auth.step-up-union", "auth.step-up-respond", "auth.step-up-user", "auth.reauth-keeps-scopes"
)
def test_step_up_requests_old_and_new_scopes() -> None:
    network, flow = FakeNetwork(), _flow()
    network.routes[PRM] = json_response(resource_document(scopes_supported=["profile"]))
    tokens = _get_tokens(network, flow, _challenge(error="insufficient_scope", scope="b"), TOKENS)
    assert [form["grant_type"] for form in network.forms] == ["authorization_code"]
    assert network.authorization["scope"] == "a b"
    assert tokens.scopes == ("a", "b")


@pytest.mark.spec("auth.step-up-retry-limit", "auth.step-up-track")
def test_repeated_step_up_ends_with_insufficient_scope() -> None:
    step_ups = StepUps()
    tokens = _get_tokens(FakeNetwork(), _flow(step_ups=step_ups))
    authorizations = 1
    while True:
        network, flow = FakeNetwork(), _flow(step_ups=step_ups)
        network.routes[TOKEN] = json_response(tokens_document(scope="little"))
        outcome = network.walk(
            flow, flow.start(NOW, challenge=_challenge(error="insufficient_scope", scope="all"), tokens=tokens)
        )
        if isinstance(outcome, FlowFailed):
            break
        authorizations += len(network.browsed)
        tokens = outcome.tokens
    assert authorizations == 3
    assert isinstance(outcome.error, InsufficientScope)
    assert (outcome.error.required, outcome.error.granted) == (("all",), ("little",))
    assert outcome.error.authorization_url == f"{ISSUER}/authorize"
    assert network.browsed == []


def test_step_up_without_browser_raises_insufficient_scope() -> None:
    network, flow = FakeNetwork(), _flow()
    step = flow.start(NOW, challenge=_challenge(error="insufficient_scope", scope="b"), tokens=TOKENS)
    while not isinstance(step, OpenBrowser):
        step = flow.receive(network.answer(step), NOW)
    outcome = flow.abandon("no browser available")
    assert isinstance(outcome.error, InsufficientScope)
    assert (outcome.error.message, outcome.error.required) == ("no browser available", ("b",))
    assert outcome.error.authorization_url == f"{ISSUER}/authorize"
    assert len(outcome.error.attempts) == 3


# --- Grants without a user ----------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "client-credentials.grant-type", "client-credentials.no-user-interaction", "client-credentials.no-dcr",
    "client-credentials.jwt-claims", "client-credentials.resource", "auth.step-up-client-credentials",
)  # fmt: skip
def test_client_credentials_with_key_or_secret() -> None:
    network = FakeNetwork()
    given = ClientRecord(client_id="given", issuer=None)
    settings = _settings(ClientCredentials(), credentials=(given,), signer=Key(), scopes=("a",))
    tokens = _get_tokens(network, _flow(settings))
    (form,) = network.forms
    claims = orjson.loads(base64.urlsafe_b64decode(form["client_assertion"].split(".")[1] + "=="))
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("given", "given", ISSUER)
    assert (form["grant_type"], form["scope"], form["resource"]) == ("client_credentials", "a", MCP)
    assert not network.browsed
    assert not network.registrations
    assert tokens.client is not None
    assert tokens.client.issuer == ISSUER
    error = _get_error(FakeNetwork(), _flow(_settings(ClientCredentials())))
    assert isinstance(error, RegistrationFailed)


@pytest.mark.spec(
    "wif.client-grant-type", "wif.client-assertion", "wif.client-resource", "wif.client-no-registration",
    "wif.client-no-retry", "wif.client-no-grant-fallback", "wif.client-surfaces-errors", "wif.client-secure-channel",
)  # fmt: skip
def test_workload_identity_sends_jwt_once() -> None:
    grant = WorkloadIdentity(assertion="j.w.t")
    assert "j.w.t" not in repr(grant)
    network = FakeNetwork()
    tokens = _get_tokens(network, _flow(_settings(grant)))
    assert network.forms == [{"grant_type": JWT_BEARER, "assertion": "j.w.t", "resource": MCP}]
    assert tokens.client is None
    for code in ("invalid_grant", "unauthorized_client"):
        network = FakeNetwork()
        network.routes[TOKEN] = _error_response(code)
        error = _get_error(network, _flow(_settings(grant)))
        assert isinstance(error, TokenRefused)
        assert error.error == code
        assert len(network.posted) == 1
        assert not network.browsed
        assert not network.registrations


IDP = "https://idp.example/token"


def _enterprise_grant(**more: str | None) -> EnterpriseManaged:
    provider = ClientRecord(client_id="at-idp", issuer="https://idp.example", client_secret=more.get("secret"))
    return EnterpriseManaged(identity_provider=provider, token_endpoint=IDP, subject_token="id-t0ken")


def _id_jag_response(**more: JsonValue) -> FetchedResponse:
    return json_response({"access_token": "j4g", "token_type": "N_A", "issued_token_type": ID_JAG, **more})


@pytest.mark.spec(
    "ema.token-exchange", "ema.requested-token-type", "ema.audience", "ema.resource", "ema.subject-token",
    "ema.client-auth-at-idp", "ema.client-accepts-n-a", "ema.access-token-grant", "ema.client-auth-at-as",
    "ema.no-interactive-redirect",
)  # fmt: skip
def test_enterprise_managed_grant_without_user() -> None:
    network = FakeNetwork()
    network.routes[IDP] = _id_jag_response()
    given = ClientRecord(client_id="at-as", issuer=ISSUER, client_secret="s3cret")
    settings = _settings(_enterprise_grant(secret="s"), credentials=(given,), scopes=("a",))
    assert _get_tokens(network, _flow(settings)).access_token == "access-1"
    exchange, grant = network.posted
    assert exchange.configured
    assert not grant.configured
    assert dict(exchange.form) == {
        "grant_type": TOKEN_EXCHANGE,
        "requested_token_type": ID_JAG,
        "audience": ISSUER,
        "resource": MCP,
        "subject_token": "id-t0ken",
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "scope": "a",
    }
    assert ("Authorization", "Basic " + base64.b64encode(b"at-idp:s").decode()) in exchange.headers
    assert dict(grant.form) == {"grant_type": JWT_BEARER, "assertion": "j4g", "resource": MCP, "scope": "a"}
    assert ("Authorization", "Basic " + base64.b64encode(b"at-as:s3cret").decode()) in grant.headers
    assert not network.browsed
    assert not network.registrations
    assert "id-t0ken" not in repr(settings.grant)


def test_public_client_identified_at_identity_provider() -> None:
    given = ClientRecord(client_id="at-as", issuer=ISSUER, client_secret="s3cret")
    for key, expected in ((None, False), (Key(), True)):
        network = FakeNetwork()
        network.routes[IDP] = _id_jag_response()
        _get_tokens(network, _flow(_settings(_enterprise_grant(), credentials=(given,), signer=key)))
        assert network.forms[0]["client_id"] == "at-idp"
        assert ("client_assertion" in network.forms[0]) is expected
    unnamed = attrs.evolve(_enterprise_grant(), identity_provider=ClientRecord(client_id="at-idp", issuer=None))
    network = FakeNetwork()
    network.routes[IDP] = _error_response("invalid_client")
    assert (
        f"{IDP} issued no token: invalid_client"
        in _get_error(network, _flow(_settings(unnamed, credentials=(given,)))).message
    )


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (_error_response("invalid_grant"), "https://idp.example issued no token: invalid_grant"),
        (Unreachable(reason="x"), f"no response from the token endpoint {IDP}"),
        (_id_jag_response(issued_token_type="urn:ietf:params:oauth:token-type:access_token"), "instead of an ID-JAG"),
        (_id_jag_response(issued_token_type=None), "of type None instead of an ID-JAG"),
    ],
)
def test_failed_token_exchange_not_followed_by_grant(answer: FetchedResponse | Unreachable, problem: str) -> None:
    network = FakeNetwork()
    network.routes[IDP] = answer
    given = ClientRecord(client_id="at-as", issuer=ISSUER)
    error = _get_error(network, _flow(_settings(_enterprise_grant(), credentials=(given,))))
    assert isinstance(error, TokenRefused)
    assert problem in error.message
    assert [step.url for step in network.posted] == [IDP]


def test_grant_with_invalid_urls_raises() -> None:
    with pytest.raises(LocalProtocolError, match="redirect URI"):
        AuthorizationCode(redirect_uri="http://app.example/cb")
    with pytest.raises(UnsafeUrl, match="token_endpoint"):
        EnterpriseManaged(identity_provider=REGISTERED, token_endpoint="http://idp.example/token", subject_token="x")


# --- Proofs -----------------------------------------------------------------------------------------------------------


def _dpop_network(**more: JsonValue) -> FakeNetwork:
    network = FakeNetwork()
    network.routes[METADATA] = json_response(server_document(dpop_signing_alg_values_supported=["ES256"]))
    network.routes[TOKEN] = json_response(tokens_document(token_type="DPoP", refresh_token="refresh-1", **more))
    return network


@pytest.mark.spec("dpop.client-token-request-proof", "dpop.client-scheme")
def test_dpop_proof_sent_if_supported() -> None:
    network, proof = _dpop_network(), Dpop(Key(), random_bytes())
    tokens = _get_tokens(network, _flow(_settings(proof=proof)))
    assert tokens.token_type == "DPoP"
    assert network.authorization["dpop_jkt"] == proof.key_id
    claims = _claims(network.posted[0])
    assert (claims["htm"], claims["htu"]) == ("POST", TOKEN)
    assert "ath" not in claims
    network = _dpop_network()
    again = _get_tokens(network, _flow(_settings(proof=proof)), tokens=tokens)
    assert again.token_type == "DPoP"
    assert [form["grant_type"] for form in network.forms] == ["refresh_token"]
    assert _claims(network.posted[0])["jti"] != claims["jti"]


@pytest.mark.spec("dpop.client-as-nonce")
def test_dpop_nonce_of_response_used() -> None:
    network, proof = _dpop_network(), Dpop(Key(), random_bytes())
    good = network.routes[TOKEN]
    assert isinstance(good, FetchedResponse)
    network.routes[TOKEN] = lambda step: (
        good
        if isinstance(step, PostForm) and _claims(step).get("nonce") == "n1"
        else _error_response("use_dpop_nonce", DPoP_Nonce="n1")
    )
    assert _get_tokens(network, _flow(_settings(proof=proof))).token_type == "DPoP"
    first, second = (_claims(step) for step in network.posted)
    assert (first.get("nonce"), second["nonce"]) == (None, "n1")
    assert first["jti"] != second["jti"]


@pytest.mark.parametrize("has_nonce", [0, 1])
def test_dpop_nonce_used_once(has_nonce: int) -> None:
    network = _dpop_network()
    network.routes[TOKEN] = (
        _error_response("use_dpop_nonce", DPoP_Nonce="n1") if has_nonce else _error_response("use_dpop_nonce")
    )
    error = _get_error(network, _flow(_settings(proof=Dpop(Key(), random_bytes()))))
    assert isinstance(error, TokenRefused)
    assert len(network.posted) == 1 + has_nonce


def test_dpop_proof_not_sent_if_not_supported() -> None:
    network = FakeNetwork()
    tokens = _get_tokens(network, _flow(_settings(proof=Dpop(Key(), random_bytes()))))
    assert tokens.token_type == "Bearer"
    assert "DPoP" not in dict(network.posted[0].headers)
    network = _dpop_network()
    network.routes[TOKEN] = json_response(tokens_document())
    assert _get_tokens(network, _flow(_settings(proof=Dpop(Key(), random_bytes())))).token_type == "Bearer"


@pytest.mark.parametrize("by_challenge", [True, False])
def test_bearer_token_rejected_if_dpop_required(*, by_challenge: bool) -> None:
    def start(network: FakeNetwork, settings: FlowSettings) -> FlowDone | FlowFailed:
        if not by_challenge:
            network.routes[PRM] = json_response(resource_document(dpop_bound_access_tokens_required=True))
        flow = _flow(settings)
        return network.walk(flow, flow.start(NOW, challenge=Challenge(scheme="dpop") if by_challenge else None))

    def message(outcome: FlowDone | FlowFailed) -> str:
        assert isinstance(outcome, FlowFailed)
        return outcome.error.message

    assert "bound to a key with DPoP, and there is no key" in message(start(FakeNetwork(), _settings()))
    with_key = _settings(proof=Dpop(Key("RS256"), random_bytes()))
    assert "https://as.example does not support RS256" in message(start(_dpop_network(), with_key))
    # Without a list of algorithms, the client tries.
    assert "has the type 'Bearer'; expected: DPoP" in message(start(FakeNetwork(), with_key))


# --- Use of a token -----------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "auth.bearer-header",
    "auth.token-not-in-query",
    "auth.no-query-token",
    "dpop.client-scheme",
    "dpop.client-fresh-proof",
)
def test_token_sent_in_header_to_origin_of_server_only() -> None:
    def headers(tokens: TokenRecord, url: str = MCP, proof: Dpop | None = None) -> dict[str, str]:
        return dict(authorization_headers(tokens, method="POST", url=url, now=NOW, proof=proof))

    assert headers(TOKENS) == {"Authorization": "Bearer access-0"}
    assert headers(TOKENS, "https://MCP.example:443/mcp?x") == {"Authorization": "Bearer access-0"}
    for url in ("https://evil.example/mcp", "http://mcp.example/mcp", "https://mcp.example:444/mcp"):
        with pytest.raises(LocalProtocolError, match=r"a token for https://mcp.example must not be sent to"):
            headers(TOKENS, url)
    bound = attrs.evolve(TOKENS, token_type="DPoP")
    headers_with_proof = headers(bound, proof=Dpop(Key(), random_bytes()))
    assert headers_with_proof["Authorization"] == "DPoP access-0"
    assert _claims(PostForm(url=MCP, why="", headers=tuple(headers_with_proof.items()), form=()))["ath"]
    with pytest.raises(LocalProtocolError, match="requires a proof, but there is no key for it"):
        headers(bound)
    with pytest.raises(LocalProtocolError, match="requires a proof"):
        headers(attrs.evolve(TOKENS, token_type="mac"), proof=Dpop(Key(), random_bytes()))


# --- Misuse -----------------------------------------------------------------------------------------------------------


def test_flow_accepts_only_result_of_current_step() -> None:
    network, flow = FakeNetwork(), _flow()
    with pytest.raises(LocalProtocolError, match="Opened is not a result of no step"):
        flow.receive(BrowserOpened(), NOW)
    with pytest.raises(LocalProtocolError, match="cannot be abandoned"):
        flow.abandon("x")
    step = flow.start(NOW)
    assert isinstance(step, FetchJson)
    with pytest.raises(LocalProtocolError, match="has started already"):
        flow.start(NOW)
    for answer in (BrowserOpened(), ClientFound(client=None), RedirectReceived(url="")):
        with pytest.raises(LocalProtocolError, match=f"{type(answer).__name__} is not a result of FetchJson"):
            flow.receive(answer, NOW)
    # The flow continues nevertheless.
    outcome = network.walk(flow, step)
    assert isinstance(outcome, FlowDone)
    with pytest.raises(LocalProtocolError, match="BrowserOpened is not a result of FlowDone"):
        flow.receive(BrowserOpened(), NOW)
    with pytest.raises(LocalProtocolError, match="cannot be abandoned"):
        flow.abandon("x")


def test_abandoned_flow_has_ended() -> None:
    flow = _flow()
    flow.start(NOW)
    outcome = flow.abandon("the deadline passed")
    assert isinstance(outcome.error, AuthorizationRefused)
    assert outcome.error.message == "the deadline passed"
    with pytest.raises(LocalProtocolError, match="is not a result of FlowFailed"):
        flow.receive(FetchedResponse(status=200), NOW)


def test_tokens_of_other_server_raise() -> None:
    with pytest.raises(
        LocalProtocolError, match=r"the tokens are for https://other.example, not for https://mcp.example/mcp"
    ):
        _flow().start(NOW, tokens=attrs.evolve(TOKENS, server_url="https://other.example"))


def test_token_lifetime_begins_at_response() -> None:
    network, flow = FakeNetwork(), _flow()
    step = flow.start(NOW)
    later = NOW
    while not isinstance(step, FlowDone | FlowFailed):
        later += 10
        step = flow.receive(network.answer(step), later)
    assert isinstance(step, FlowDone)
    assert step.tokens.expires_at == later + 3600


def test_protocol_version_header_only_on_metadata_requests() -> None:
    network, flow = FakeNetwork(), _flow(_settings(protocol_version="2025-03-26"))
    _get_tokens(network, flow)
    assert [type(step) for step in network.steps if isinstance(step, FetchJson | Register | PostForm)] == [
        FetchJson, FetchJson, Register, PostForm,
    ]  # fmt: skip
    assert ("MCP-Protocol-Version", "2025-03-26") in next(s for s in network.steps if isinstance(s, FetchJson)).headers
    assert all(("MCP-Protocol-Version", "2025-03-26") not in step.headers for step in network.posted)
