"""The whole way to a token, step by step, against authorization servers of every kind."""

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
    Key,
    World,
    json_answer,
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


def _done(
    world: World, flow: Flow, challenge: Challenge | None = None, tokens: TokenRecord | None = None
) -> TokenRecord:
    end = world.walk(flow, flow.start(NOW, challenge=challenge, tokens=tokens))
    if isinstance(end, FlowFailed):
        raise end.error
    return end.tokens


def _failed(
    world: World, flow: Flow, challenge: Challenge | None = None, tokens: TokenRecord | None = None
) -> AuthorizationError:
    end = world.walk(flow, flow.start(NOW, challenge=challenge, tokens=tokens))
    assert isinstance(end, FlowFailed)
    return end.error


def _refusal(error: str, status: int = 400, **headers: str) -> FetchedResponse:
    return json_answer({"error": error}, status, **headers)


def _claims(step: PostForm, name: str = "DPoP") -> JsonObject:
    (jwt,) = [value for given, value in step.headers if given == name]
    part = jwt.split(".")[1]
    claims: JsonObject = orjson.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims


# --- A person consents ------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "auth.resource-in-token", "auth.resource-in-authorization", "auth.resource-identifies-server", "auth.pkce", "auth.state",
    "auth.iss-unadvertised-absent", "auth.registration-obtained", "auth.client-parse-www-authenticate",
)  # fmt: skip
def test_from_a_challenge_to_a_token() -> None:
    world, flow = World(), _flow()
    tokens = _done(world, flow, _challenge(resource_metadata=PRM, scope="a b"))
    assert [type(step).__name__ for step in world.steps] == [
        "FetchJson", "FetchJson", "FindClient", "Register", "OpenBrowser", "AwaitRedirect", "PostForm",
    ]  # fmt: skip
    sent, (form,) = world.authorization, world.forms
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


def test_no_step_shows_a_secret() -> None:
    world, flow = World(), _flow()
    world.routes[f"{ISSUER}/register"] = json_answer({"client_id": "id", "client_secret": "s3cret"})
    world.routes[TOKEN] = json_answer(tokens_document(access_token="acc3ss", refresh_token="r3fresh"))
    end = world.walk(flow, flow.start(NOW))
    shown = " ".join(repr(step) for step in [*world.steps, end, flow.client, flow.discovery.attempts])
    assert isinstance(end, FlowDone)
    state = [step.state for step in world.steps if isinstance(step, AwaitRedirect)]
    verifier = [form["code_verifier"] for form in world.forms]
    for secret in ("s3cret", "acc3ss", "r3fresh", "code-1", *verifier):
        assert secret not in shown
    assert all(f"state={secret!r}" not in shown for secret in state)
    assert "code-1" not in repr(RedirectReceived(url="?code=code-1"))
    assert "acc3ss" not in repr(world.routes[TOKEN])


@pytest.mark.spec("auth.state")
def test_what_is_not_for_us_is_waited_out() -> None:
    world, flow = World(), _flow()
    answers = iter([{"code": "evil", "state": "x"}, {"error": "access_denied"}])
    world.redirect = lambda sent: next(answers, {"code": "good", "state": sent["state"]})
    _done(world, flow)
    assert world.forms[0]["code"] == "good"
    assert len([step for step in world.steps if isinstance(step, AwaitRedirect)]) == 3


@pytest.mark.spec("auth.iss-validate-before-token", "auth.iss-advertised-absent", "auth.iss-error-response")
@pytest.mark.parametrize(
    ("advertised", "iss"),
    [(True, None), (True, f"{ISSUER}/"), (False, "https://evil.example"), (True, "https://evil.example")],
)
def test_an_answer_of_another_issuer_never_reaches_a_token_endpoint(*, advertised: bool, iss: str | None) -> None:
    world, flow = World(), _flow()
    world.routes[METADATA] = json_answer(server_document(authorization_response_iss_parameter_supported=advertised))
    world.redirect = lambda sent: {**World.consent(sent), **({} if iss is None else {"iss": iss})}
    assert isinstance(_failed(world, flow), IssuerMismatch)
    assert world.posted == []


def test_a_person_who_says_no_ends_the_flow() -> None:
    world, flow = World(), _flow()
    world.redirect = lambda sent: {"error": "access_denied", "state": sent["state"]}
    error = _failed(world, flow)
    assert isinstance(error, AuthorizationRefused)
    assert error.error == "access_denied"
    assert "metadata of https://mcp.example/mcp" in str(error)


@pytest.mark.spec("auth.pkce-refuse-rfc8414", "auth.pkce-refuse", "auth.pkce-verify-support")
def test_without_pkce_nothing_is_registered_and_nobody_is_sent() -> None:
    world, flow = World(), _flow()
    world.routes[METADATA] = json_answer(server_document(code_challenge_methods_supported=None))
    assert isinstance(_failed(world, flow), DiscoveryFailed)
    assert [type(step).__name__ for step in world.steps] == ["FetchJson", "FetchJson"]


@pytest.mark.spec("security.sanitize-urls", "security.authorization-url-schemes")
@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint"])
@pytest.mark.parametrize(
    "url", ["javascript:x", "file:///x", "http://as.example/x", "https://10.0.0.1/x", "https://u@a.example/"]
)
def test_an_endpoint_that_leads_astray_gets_nothing(name: str, url: str) -> None:
    world, flow = World(), _flow()
    world.routes[METADATA] = json_answer(server_document(**{name: url}))
    error = _failed(world, flow)
    assert isinstance(error, UnsafeUrl)
    assert error.what == name
    assert not world.browsed
    assert not world.posted


def test_metadata_without_endpoints_are_told() -> None:
    world, flow = World(), _flow()
    world.routes[METADATA] = json_answer(server_document(token_endpoint=None))
    assert "has no token_endpoint" in str(_failed(world, flow))


def test_the_credentials_that_are_configured_are_used() -> None:
    world = World()
    given = ClientRecord(client_id="given", issuer=ISSUER, client_secret="s3cret")
    tokens = _done(world, _flow(_settings(credentials=(given,))))
    assert ("Authorization", "Basic " + base64.b64encode(b"given:s3cret").decode()) in world.posted[0].headers
    assert base64.b64encode(b"given:s3cret").decode() not in repr(world.posted[0])
    assert "headers=<Accept, Content-Type, Authorization>" in repr(world.posted[0])
    assert tokens.client == attrs.evolve(given, auth_method=AuthMethod.SECRET_BASIC)
    assert world.registrations == []


def test_a_registration_that_was_lost_is_made_anew_once() -> None:
    world, flow = World(), _flow()
    world.kept[ISSUER] = REGISTERED
    world.routes[TOKEN] = lambda step: (
        _refusal("invalid_client", 401)
        if isinstance(step, PostForm) and dict(step.form)["client_id"] == "old"
        else json_answer(tokens_document())
    )
    tokens = _done(world, flow)
    assert tokens.client is not None
    assert tokens.client.client_id == "registered-1"
    assert [sent["client_id"] for sent in world.browsed] == ["old", "registered-1"]

    world, flow = World(), _flow()
    world.kept[ISSUER] = REGISTERED
    world.routes[TOKEN] = _refusal("invalid_client", 401)
    assert isinstance(_failed(world, flow), TokenRefused)
    assert len(world.browsed) == 2


@pytest.mark.parametrize(
    ("kept", "error"),
    [
        (REGISTERED, "invalid_grant"),
        (attrs.evolve(REGISTERED, registration=Registration.USER_PROVIDED), "invalid_client"),
    ],
)
def test_other_refusals_end_the_flow(kept: ClientRecord, error: str) -> None:
    world, flow = World(), _flow()
    world.kept[ISSUER] = kept
    world.routes[TOKEN] = _refusal(error)
    refused = _failed(world, flow)
    assert isinstance(refused, TokenRefused)
    assert (refused.error, len(world.posted)) == (error, 1)
    assert refused.attempts[-1].url == TOKEN


def test_a_token_endpoint_that_does_not_answer_ends_the_flow() -> None:
    world, flow = World(), _flow()
    world.routes[TOKEN] = Unreachable(reason="no route")
    error = _failed(world, flow)
    assert "no response from the token endpoint https://as.example/token: no route" in error.message
    assert isinstance(error, TokenRefused)
    assert error.status is None


def test_a_token_of_a_type_that_is_not_known_is_refused() -> None:
    world, flow = World(), _flow()
    world.routes[TOKEN] = json_answer(tokens_document(token_type="mac"))
    assert "has the type 'mac'; expected: Bearer" in _failed(world, flow).message


# --- Refresh ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.resource-in-token", "auth.refresh-not-assumed")
def test_a_token_that_is_about_to_end_is_refreshed_where_it_came_from() -> None:
    world, flow = World(), _flow()
    world.routes[TOKEN] = json_answer(tokens_document(refresh_token="refresh-1"))
    tokens = _done(world, flow, tokens=TOKENS)
    assert world.forms == [
        {"grant_type": "refresh_token", "refresh_token": "refresh-0", "resource": MCP, "client_id": "old"}
    ]
    assert len(world.steps) == 1
    expected = attrs.evolve(TOKENS, access_token="access-1", refresh_token="refresh-1", expires_at=NOW + 3600)
    assert tokens == expected


def test_without_a_new_refresh_token_the_old_one_stays() -> None:
    world, flow = World(), _flow()
    world.routes[TOKEN] = json_answer(tokens_document(scope="a c", expires_in=None))
    tokens = _done(world, flow, tokens=TOKENS)
    assert (tokens.refresh_token, tokens.scopes, tokens.expires_at) == ("refresh-0", ("a", "c"), None)


def test_a_challenge_leads_to_the_same_after_discovery() -> None:
    world, flow = World(), _flow()
    assert _done(world, flow, INVALID, TOKENS).access_token == "access-1"
    assert [type(step).__name__ for step in world.steps] == ["FetchJson", "FetchJson", "PostForm"]


@pytest.mark.parametrize("challenge", [None, INVALID])
@pytest.mark.parametrize("error", ["invalid_grant", "invalid_client"])
def test_a_refresh_that_is_refused_leads_to_the_person(challenge: Challenge | None, error: str) -> None:
    world, flow = World(), _flow()
    world.kept[ISSUER] = REGISTERED
    world.routes[TOKEN] = lambda step: (
        _refusal(error)
        if isinstance(step, PostForm) and dict(step.form)["grant_type"] == "refresh_token"
        else json_answer(tokens_document())
    )
    tokens = _done(world, flow, challenge, TOKENS)
    assert [form["grant_type"] for form in world.forms] == ["refresh_token", "authorization_code"]
    assert tokens.client is not None
    # A client that is not known any more is not used again.
    assert tokens.client.client_id == ("old" if error == "invalid_grant" else "registered-1")
    assert world.authorization["scope"] == "a"


def test_tokens_that_are_void_are_told_when_there_are_no_others() -> None:
    world, flow = World(), _flow()
    world.routes[TOKEN] = _refusal("invalid_grant")
    end = world.walk(flow, flow.start(NOW, tokens=TOKENS))
    assert isinstance(end, FlowFailed)
    assert end.forget == TOKENS


@pytest.mark.parametrize("answer", [Unreachable(reason="x"), FetchedResponse(status=503), FetchedResponse(status=429)])
def test_nobody_is_bothered_for_a_network_that_fails(answer: FetchedResponse | Unreachable) -> None:
    world, flow = World(), _flow()
    world.routes[TOKEN] = answer
    end = world.walk(flow, flow.start(NOW, tokens=TOKENS))
    assert isinstance(end, FlowFailed)
    assert end.forget is None
    assert len(world.steps) == 1


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
def test_where_a_refresh_is_of_no_use_there_is_none(tokens: TokenRecord, challenge: Challenge | None) -> None:
    world, flow = World(), _flow()
    _done(world, flow, challenge, tokens)
    assert [form["grant_type"] for form in world.forms] == ["authorization_code"]


@pytest.mark.spec(
    "auth.as-change-no-reuse", "auth.as-change-reregister", "auth.no-cross-as-credentials", "auth.separate-state-per-as",
    "auth.client-only-own-as-tokens",
)  # fmt: skip
def test_a_server_that_moved_to_another_authorization_server_leaves_nothing_behind() -> None:
    world, flow = World(), _flow()
    other = "https://other.example"
    world.kept[ISSUER] = REGISTERED
    world.routes |= {
        PRM: json_answer(resource_document(authorization_servers=[other])),
        f"{other}/.well-known/oauth-authorization-server": json_answer(server_document(other)),
        f"{other}/register": json_answer({"client_id": "registered-2"}),
        f"{other}/token": json_answer(tokens_document()),
    }
    tokens = _done(world, flow, INVALID, TOKENS)
    assert (tokens.issuer, tokens.token_endpoint) == (other, f"{other}/token")
    assert len(world.registrations) == 1
    assert "old" not in {form.get("client_id") for form in world.forms}
    assert all(form["grant_type"] != "refresh_token" for form in world.forms)
    assert "scope" not in world.authorization

    given = ClientRecord(client_id="given", issuer=None)
    error = _failed(world, _flow(_settings(credentials=(given,))), INVALID, TOKENS)
    assert isinstance(error, RegistrationFailed)
    assert "are for https://as.example, but the server requires tokens of https://other.example" in error.message


def test_a_secret_that_was_configured_anew_is_used_for_a_refresh() -> None:
    client = ClientRecord(client_id="given", issuer=ISSUER, client_secret="old", auth_method=AuthMethod.SECRET_POST)
    for issuer, expected in ((ISSUER, "new"), (None, "new"), ("https://other.example", "old")):
        world = World()
        given = ClientRecord(client_id="given", issuer=issuer, client_secret="new")
        _done(world, _flow(_settings(credentials=(given,))), tokens=attrs.evolve(TOKENS, client=client))
        assert world.forms[0]["client_secret"] == expected
    world = World()
    _done(world, _flow(_settings(credentials=(client,))), tokens=attrs.evolve(TOKENS, client=None))
    assert "client_id" not in world.forms[0]


# --- Step-up ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "auth.step-up", "auth.step-up-union", "auth.step-up-respond", "auth.step-up-user", "auth.reauth-keeps-scopes"
)
def test_more_scopes_come_from_the_person_together_with_those_of_before() -> None:
    world, flow = World(), _flow()
    world.routes[PRM] = json_answer(resource_document(scopes_supported=["profile"]))
    tokens = _done(world, flow, _challenge(error="insufficient_scope", scope="b"), TOKENS)
    assert [form["grant_type"] for form in world.forms] == ["authorization_code"]
    assert world.authorization["scope"] == "a b"
    assert tokens.scopes == ("a", "b")


@pytest.mark.spec("auth.step-up-retry-limit", "auth.step-up-track")
def test_a_server_that_is_never_content_does_not_bother_the_person_for_ever() -> None:
    step_ups = StepUps()
    tokens = _done(World(), _flow(step_ups=step_ups))
    asked = 1
    while True:
        world, flow = World(), _flow(step_ups=step_ups)
        world.routes[TOKEN] = json_answer(tokens_document(scope="little"))
        end = world.walk(
            flow, flow.start(NOW, challenge=_challenge(error="insufficient_scope", scope="all"), tokens=tokens)
        )
        if isinstance(end, FlowFailed):
            break
        asked += len(world.browsed)
        tokens = end.tokens
    assert asked == 3
    assert isinstance(end.error, InsufficientScope)
    assert (end.error.required, end.error.granted) == (("all",), ("little",))
    assert end.error.authorization_url == f"{ISSUER}/authorize"
    assert world.browsed == []


def test_a_step_up_where_nobody_is_there_tells_what_is_lacking() -> None:
    world, flow = World(), _flow()
    step = flow.start(NOW, challenge=_challenge(error="insufficient_scope", scope="b"), tokens=TOKENS)
    while not isinstance(step, OpenBrowser):
        step = flow.receive(world.answer(step), NOW)
    end = flow.abandon("there is no browser here")
    assert isinstance(end.error, InsufficientScope)
    assert (end.error.message, end.error.required) == ("there is no browser here", ("b",))
    assert end.error.authorization_url == f"{ISSUER}/authorize"
    assert len(end.error.attempts) == 3


# --- Without a person -------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "client-credentials.grant-type", "client-credentials.no-user-interaction", "client-credentials.no-dcr",
    "client-credentials.jwt-claims", "client-credentials.resource", "auth.step-up-client-credentials",
)  # fmt: skip
def test_a_client_of_its_own_has_a_key_or_a_secret() -> None:
    world = World()
    given = ClientRecord(client_id="given", issuer=None)
    settings = _settings(ClientCredentials(), credentials=(given,), signer=Key(), scopes=("a",))
    tokens = _done(world, _flow(settings))
    (form,) = world.forms
    claims = orjson.loads(base64.urlsafe_b64decode(form["client_assertion"].split(".")[1] + "=="))
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("given", "given", ISSUER)
    assert (form["grant_type"], form["scope"], form["resource"]) == ("client_credentials", "a", MCP)
    assert not world.browsed
    assert not world.registrations
    assert tokens.client is not None
    assert tokens.client.issuer == ISSUER
    error = _failed(World(), _flow(_settings(ClientCredentials())))
    assert isinstance(error, RegistrationFailed)


@pytest.mark.spec(
    "wif.client-grant-type", "wif.client-assertion", "wif.client-resource", "wif.client-no-registration",
    "wif.client-no-retry", "wif.client-no-grant-fallback", "wif.client-surfaces-errors", "wif.client-secure-channel",
)  # fmt: skip
def test_a_workload_shows_its_jwt_once() -> None:
    grant = WorkloadIdentity(assertion="j.w.t")
    assert "j.w.t" not in repr(grant)
    world = World()
    tokens = _done(world, _flow(_settings(grant)))
    assert world.forms == [{"grant_type": JWT_BEARER, "assertion": "j.w.t", "resource": MCP}]
    assert tokens.client is None
    for code in ("invalid_grant", "unauthorized_client"):
        world = World()
        world.routes[TOKEN] = _refusal(code)
        error = _failed(world, _flow(_settings(grant)))
        assert isinstance(error, TokenRefused)
        assert error.error == code
        assert len(world.posted) == 1
        assert not world.browsed
        assert not world.registrations


IDP = "https://idp.example/token"


def _managed(**more: str | None) -> EnterpriseManaged:
    provider = ClientRecord(client_id="at-idp", issuer="https://idp.example", client_secret=more.get("secret"))
    return EnterpriseManaged(identity_provider=provider, token_endpoint=IDP, subject_token="id-t0ken")


def _jag(**more: JsonValue) -> FetchedResponse:
    return json_answer({"access_token": "j4g", "token_type": "N_A", "issued_token_type": ID_JAG, **more})


@pytest.mark.spec(
    "ema.token-exchange", "ema.requested-token-type", "ema.audience", "ema.resource", "ema.subject-token",
    "ema.client-auth-at-idp", "ema.client-accepts-n-a", "ema.access-token-grant", "ema.client-auth-at-as",
    "ema.no-interactive-redirect",
)  # fmt: skip
def test_an_employee_is_not_asked() -> None:
    world = World()
    world.routes[IDP] = _jag()
    given = ClientRecord(client_id="at-as", issuer=ISSUER, client_secret="s3cret")
    settings = _settings(_managed(secret="s"), credentials=(given,), scopes=("a",))
    assert _done(world, _flow(settings)).access_token == "access-1"
    exchange, grant = world.posted
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
    assert not world.browsed
    assert not world.registrations
    assert "id-t0ken" not in repr(settings.grant)


def test_a_public_client_names_itself_at_the_identity_provider_and_one_with_a_key_signs() -> None:
    given = ClientRecord(client_id="at-as", issuer=ISSUER, client_secret="s3cret")
    for key, expected in ((None, False), (Key(), True)):
        world = World()
        world.routes[IDP] = _jag()
        _done(world, _flow(_settings(_managed(), credentials=(given,), signer=key)))
        assert world.forms[0]["client_id"] == "at-idp"
        assert ("client_assertion" in world.forms[0]) is expected
    unnamed = attrs.evolve(_managed(), identity_provider=ClientRecord(client_id="at-idp", issuer=None))
    world = World()
    world.routes[IDP] = _refusal("invalid_client")
    assert (
        f"{IDP} issued no token: invalid_client"
        in _failed(world, _flow(_settings(unnamed, credentials=(given,)))).message
    )


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (_refusal("invalid_grant"), "https://idp.example issued no token: invalid_grant"),
        (Unreachable(reason="x"), f"no response from the token endpoint {IDP}"),
        (_jag(issued_token_type="urn:ietf:params:oauth:token-type:access_token"), "instead of an ID-JAG"),
        (_jag(issued_token_type=None), "of type None instead of an ID-JAG"),
    ],
)
def test_without_an_id_jag_nothing_goes_to_the_authorization_server(
    answer: FetchedResponse | Unreachable, problem: str
) -> None:
    world = World()
    world.routes[IDP] = answer
    given = ClientRecord(client_id="at-as", issuer=ISSUER)
    error = _failed(world, _flow(_settings(_managed(), credentials=(given,))))
    assert isinstance(error, TokenRefused)
    assert problem in error.message
    assert [step.url for step in world.posted] == [IDP]


def test_grants_are_checked_when_they_are_made() -> None:
    with pytest.raises(LocalProtocolError, match="redirect URI"):
        AuthorizationCode(redirect_uri="http://app.example/cb")
    with pytest.raises(UnsafeUrl, match="token_endpoint"):
        EnterpriseManaged(identity_provider=REGISTERED, token_endpoint="http://idp.example/token", subject_token="x")


# --- Proofs -----------------------------------------------------------------------------------------------------------


def _bound(**more: JsonValue) -> World:
    world = World()
    world.routes[METADATA] = json_answer(server_document(dpop_signing_alg_values_supported=["ES256"]))
    world.routes[TOKEN] = json_answer(tokens_document(token_type="DPoP", refresh_token="refresh-1", **more))
    return world


@pytest.mark.spec("dpop.client-token-request-proof", "dpop.client-scheme")
def test_a_key_is_proved_where_the_authorization_server_can_check_it() -> None:
    world, proof = _bound(), Dpop(Key(), random_bytes())
    tokens = _done(world, _flow(_settings(proof=proof)))
    assert tokens.token_type == "DPoP"
    assert world.authorization["dpop_jkt"] == proof.key_id
    claims = _claims(world.posted[0])
    assert (claims["htm"], claims["htu"]) == ("POST", TOKEN)
    assert "ath" not in claims
    world = _bound()
    again = _done(world, _flow(_settings(proof=proof)), tokens=tokens)
    assert again.token_type == "DPoP"
    assert [form["grant_type"] for form in world.forms] == ["refresh_token"]
    assert _claims(world.posted[0])["jti"] != claims["jti"]


@pytest.mark.spec("dpop.client-as-nonce")
def test_a_nonce_that_is_wanted_is_taken_from_the_answer() -> None:
    world, proof = _bound(), Dpop(Key(), random_bytes())
    good = world.routes[TOKEN]
    assert isinstance(good, FetchedResponse)
    world.routes[TOKEN] = lambda step: (
        good
        if isinstance(step, PostForm) and _claims(step).get("nonce") == "n1"
        else _refusal("use_dpop_nonce", DPoP_Nonce="n1")
    )
    assert _done(world, _flow(_settings(proof=proof))).token_type == "DPoP"
    first, second = (_claims(step) for step in world.posted)
    assert (first.get("nonce"), second["nonce"]) == (None, "n1")
    assert first["jti"] != second["jti"]


@pytest.mark.parametrize("nonces", [0, 1])
def test_a_nonce_is_taken_once(nonces: int) -> None:
    world = _bound()
    world.routes[TOKEN] = _refusal("use_dpop_nonce", DPoP_Nonce="n1") if nonces else _refusal("use_dpop_nonce")
    error = _failed(world, _flow(_settings(proof=Dpop(Key(), random_bytes()))))
    assert isinstance(error, TokenRefused)
    assert len(world.posted) == 1 + nonces


def test_a_key_that_is_not_wanted_is_not_proved() -> None:
    world = World()
    tokens = _done(world, _flow(_settings(proof=Dpop(Key(), random_bytes()))))
    assert tokens.token_type == "Bearer"
    assert "DPoP" not in dict(world.posted[0].headers)
    world = _bound()
    world.routes[TOKEN] = json_answer(tokens_document())
    assert _done(world, _flow(_settings(proof=Dpop(Key(), random_bytes())))).token_type == "Bearer"


@pytest.mark.parametrize("by_challenge", [True, False])
def test_where_only_bound_tokens_are_taken_no_other_is_asked_for(*, by_challenge: bool) -> None:
    def start(world: World, settings: FlowSettings) -> FlowDone | FlowFailed:
        if not by_challenge:
            world.routes[PRM] = json_answer(resource_document(dpop_bound_access_tokens_required=True))
        flow = _flow(settings)
        return world.walk(flow, flow.start(NOW, challenge=Challenge(scheme="dpop") if by_challenge else None))

    def message(end: FlowDone | FlowFailed) -> str:
        assert isinstance(end, FlowFailed)
        return end.error.message

    assert "bound to a key with DPoP, and there is no key" in message(start(World(), _settings()))
    with_key = _settings(proof=Dpop(Key("RS256"), random_bytes()))
    assert "https://as.example does not support RS256" in message(start(_bound(), with_key))
    # Nothing is listed: it is tried.
    assert "has the type 'Bearer'; expected: DPoP" in message(start(World(), with_key))


# --- A token is shown -------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "auth.bearer-header",
    "auth.token-not-in-query",
    "auth.no-query-token",
    "dpop.client-scheme",
    "dpop.client-fresh-proof",
)
def test_a_token_goes_in_the_header_and_to_its_server_alone() -> None:
    def headers(tokens: TokenRecord, url: str = MCP, proof: Dpop | None = None) -> dict[str, str]:
        return dict(authorization_headers(tokens, method="POST", url=url, now=NOW, proof=proof))

    assert headers(TOKENS) == {"Authorization": "Bearer access-0"}
    assert headers(TOKENS, "https://MCP.example:443/mcp?x") == {"Authorization": "Bearer access-0"}
    for url in ("https://evil.example/mcp", "http://mcp.example/mcp", "https://mcp.example:444/mcp"):
        with pytest.raises(LocalProtocolError, match=r"a token for https://mcp.example must not be sent to"):
            headers(TOKENS, url)
    bound = attrs.evolve(TOKENS, token_type="DPoP")
    shown = headers(bound, proof=Dpop(Key(), random_bytes()))
    assert shown["Authorization"] == "DPoP access-0"
    assert _claims(PostForm(url=MCP, why="", headers=tuple(shown.items()), form=()))["ath"]
    with pytest.raises(LocalProtocolError, match="requires a proof, but there is no key for it"):
        headers(bound)
    with pytest.raises(LocalProtocolError, match="requires a proof"):
        headers(attrs.evolve(TOKENS, token_type="mac"), proof=Dpop(Key(), random_bytes()))


# --- Misuse -----------------------------------------------------------------------------------------------------------


def test_a_flow_is_for_one_attempt_and_takes_only_answers_to_its_step() -> None:
    world, flow = World(), _flow()
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
    # The flow goes on all the same.
    end = world.walk(flow, step)
    assert isinstance(end, FlowDone)
    with pytest.raises(LocalProtocolError, match="Opened is not a result of Done"):
        flow.receive(BrowserOpened(), NOW)
    with pytest.raises(LocalProtocolError, match="cannot be abandoned"):
        flow.abandon("x")


def test_a_flow_that_is_abandoned_is_over() -> None:
    flow = _flow()
    flow.start(NOW)
    end = flow.abandon("the deadline passed")
    assert isinstance(end.error, AuthorizationRefused)
    assert end.error.message == "the deadline passed"
    with pytest.raises(LocalProtocolError, match="is not a result of Failed"):
        flow.receive(FetchedResponse(status=200), NOW)


def test_tokens_of_another_server_are_no_use() -> None:
    with pytest.raises(
        LocalProtocolError, match=r"the tokens are for https://other.example, not for https://mcp.example/mcp"
    ):
        _flow().start(NOW, tokens=attrs.evolve(TOKENS, server_url="https://other.example"))


def test_a_lifetime_begins_when_the_token_came() -> None:
    world, flow = World(), _flow()
    step = flow.start(NOW)
    later = NOW
    while not isinstance(step, FlowDone | FlowFailed):
        later += 10
        step = flow.receive(world.answer(step), later)
    assert isinstance(step, FlowDone)
    assert step.tokens.expires_at == later + 3600


def test_requests_name_their_kinds() -> None:
    world, flow = World(), _flow(_settings(protocol_version="2025-03-26"))
    _done(world, flow)
    assert [type(step) for step in world.steps if isinstance(step, FetchJson | Register | PostForm)] == [
        FetchJson, FetchJson, Register, PostForm,
    ]  # fmt: skip
    assert ("MCP-Protocol-Version", "2025-03-26") in next(s for s in world.steps if isinstance(s, FetchJson)).headers
    assert all(("MCP-Protocol-Version", "2025-03-26") not in step.headers for step in world.posted)
