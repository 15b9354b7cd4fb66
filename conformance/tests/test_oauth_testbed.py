"""The oracle of the world of OAuth: a client that keeps the rules is not blamed, and each that breaks one is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from joserfc.jwk import ECKey
from raw_oauth_client import KEY, NOW, PUBLIC, REDIRECT, VERIFIER, Hand, basic, document, jwt

import mcp_conformance.oauth_testbed
from mcp_conformance.oauth_testbed.client_jwts import s256
from mcp_conformance.oauth_testbed.quirks import ABSENT, Absent, Part, Quirks, Reply, Well
from mcp_conformance.oauth_testbed.registered_clients import Client
from mcp_conformance.oauth_testbed.testbed import OAuthTestbed
from mcp_conformance.oauth_testbed.violations import Violation
from mcp_core.jsonrpc.messages import JsonObject, JsonValue

Doing = Callable[[Hand], object]


def blamed(world: OAuthTestbed) -> list[str]:
    return list(dict.fromkeys(violation.requirement for violation in world.violations))


def ready(hand: Hand) -> Hand:
    """With a client id."""
    hand.discover()
    hand.register()
    return hand


def sent_back(hand: Hand) -> Hand:
    """With a code."""
    ready(hand).authorize()
    return hand


def equipped(hand: Hand) -> Hand:
    """With a token that was used."""
    hand.all()
    return hand


def test_a_client_that_keeps_the_rules_is_not_blamed_and_gets_the_note() -> None:
    world = OAuthTestbed()
    hand = equipped(Hand(world))
    assert b"the note" in hand.call("tools/call", hand.bearer()).body
    hand.now += 3_000
    assert hand.refreshed().status == 200
    assert hand.call("tools/list", hand.bearer()).status == 200
    assert world.violations == []
    assert [request.path for request in world.requests[:5]] == [
        "/mcp",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/register",
        "/authorize",
    ]


WRONG: list[tuple[str, Doing]] = [
    ("auth.prm-client-uses", lambda h: h.send("GET", h.world.places.server + "/.well-known/oauth-authorization-server")),
    ("auth.client-prm-fallback-order", lambda h: h.send("GET", "https://mcp.example/.well-known/oauth-protected-resource")),
    ("auth.client-both-as-metadata", lambda h: h.register()),
    ("auth.client-only-own-as-tokens", lambda h: h.send("GET", h.world.places.prm, ("Authorization", "Bearer x"))),
    ("auth.dcr-client", lambda h: ready(h).register(media_type="text/plain")),
    ("auth.dcr-application-type", lambda h: ready(h).register(application_type=None, redirect_uris=["https://a.example"])),
    ("auth.dcr-native", lambda h: ready(h).register(application_type="web")),
    ("auth.redirect-https-or-localhost", lambda h: ready(h).register(redirect_uris=["http://a.example/back"])),
    ("auth.redirect-registered", lambda h: ready(h).register(redirect_uris=[])),
    ("auth.refresh-grant-type", lambda h: ready(h).register(grant_types=["authorization_code"])),
    ("auth.registration-obtained", lambda h: ready(h).authorize(client_id="another")),
    ("auth.redirect-registered", lambda h: ready(h).authorize(redirect_uri="https://evil.example/back")),
    ("auth.oauth21-security", lambda h: ready(h).authorize(response_type="token")),
    ("auth.oauth21-security", lambda h: ready(h).authorize(more="&client_id=another")),
    ("auth.pkce", lambda h: ready(h).authorize(code_challenge=None)),
    ("auth.pkce-s256", lambda h: ready(h).authorize(code_challenge_method="plain")),
    ("auth.state", lambda h: ready(h).authorize(state="short")),
    ("auth.state", lambda h: [sent_back(h), h.authorize()]),
    ("auth.resource-in-authorization", lambda h: ready(h).authorize(resource=None)),
    ("auth.resource-identifies-server", lambda h: ready(h).authorize(resource="https://mcp.example/other")),
    ("auth.challenge-authoritative", lambda h: ready(h).authorize(scope="other")),
    ("auth.refresh-offline-access-not-otherwise", lambda h: ready(h).authorize(scope="notes:read offline_access")),
    ("auth.step-up-retry-limit", lambda h: [ready(h), *(h.authorize(state=f"a-state-that-is-new-{n}") for n in range(7))]),
    ("security.authorization-url-schemes", lambda h: h.world.browse("javascript:alert(1)", NOW)),
    ("auth.oauth21-security", lambda h: sent_back(h).token(method="PUT")),
    ("auth.oauth21-security", lambda h: sent_back(h).token(("Content-Type", "application/json"))),
    ("auth.oauth21-security", lambda h: sent_back(h).token(more="&code=x")),
    ("auth.oauth21-security", lambda h: sent_back(h).token(query="?code=x")),
    ("auth.oauth21-security", lambda h: sent_back(h).token(basic(h.client_id, "x"), client_secret="x")),
    ("auth.oauth21-security", lambda h: [sent_back(h).token(), h.token(code=h.code)]),
    ("auth.oauth21-security", lambda h: sent_back(h).token(redirect_uri="http://127.0.0.1:1/callback")),
    ("auth.pkce", lambda h: sent_back(h).token(code_verifier="w" * 43)),
    ("auth.pkce", lambda h: sent_back(h).token(code_verifier=None)),
    ("auth.resource-in-token", lambda h: sent_back(h).token(resource=None)),
    ("auth.resource-identifies-server", lambda h: sent_back(h).token(resource="https://mcp.example/other")),
    ("auth.registration-obtained", lambda h: sent_back(h).token(client_id=None)),
    ("auth.no-cross-as-credentials", lambda h: sent_back(h).send("GET", f"{h.world.places.other}/?code={h.code}")),
    ("auth.no-cross-as-credentials", lambda h: equipped(h).send("GET", h.world.places.other, h.bearer())),
    ("auth.oauth21-security", lambda h: [equipped(h), old := h.refresh, h.refreshed(), h.refreshed(refresh_token=old)]),
    ("auth.step-up-union", lambda h: equipped(h).refreshed(scope="notes:read notes:write")),
    ("auth.token-not-in-query", lambda h: equipped(h).call("ping", h.bearer(), query=f"?access_token={h.access}")),
    ("auth.bearer-every-request", lambda h: equipped(h).call("ping")),
    ("auth.bearer-header", lambda h: equipped(h).call("ping", ("Authorization", f"Token {h.access}"))),
    ("security.block-private-ranges", lambda h: h.send("GET", "http://169.254.169.254/latest")),
    ("security.sanitize-urls", lambda h: h.send("GET", "https://nowhere.example/")),
    ("security.sanitize-urls", lambda h: h.send("POST", h.world.places.evil)),
    ("security.sanitize-urls", lambda h: h.world.browse(f"{h.world.places.evil}/authorize?code_challenge=x", NOW)),
]  # fmt: skip


@pytest.mark.parametrize(("requirement", "doing"), WRONG, ids=[f"{n}-{each[0]}" for n, each in enumerate(WRONG)])
def test_a_client_that_breaks_a_rule_is_blamed_for_that_rule_alone(requirement: str, doing: Doing) -> None:
    world = OAuthTestbed()
    doing(Hand(world))
    assert blamed(world) == [requirement]


def test_a_violation_says_what_was_done_and_by_which_request() -> None:
    world = OAuthTestbed()
    Hand(world).send("GET", "http://10.0.0.1/")
    (violation,) = world.violations
    assert isinstance(violation, Violation)
    assert str(violation) == "security.block-private-ranges: a request leads astray: 'http://10.0.0.1/'"
    assert violation.request is world.requests[0]


@pytest.mark.parametrize(
    ("supported", "asked", "blame"),
    [
        (["a", "b"], "a b", []),
        (["a", "b"], "a", ["auth.scope-priority-supported"]),
        (ABSENT, None, []),
        (ABSENT, "a", ["auth.scope-omitted"]),
    ],
)
def test_where_the_challenge_names_no_scopes_those_that_are_supported_are_asked_for(
    supported: list[str] | Absent, asked: str | None, blame: list[str]
) -> None:
    listed: JsonValue | Absent = supported if isinstance(supported, Absent) else [*supported]
    world = OAuthTestbed(Quirks(challenge=("Bearer",), resource_metadata={"scopes_supported": listed}))
    ready(Hand(world)).authorize(scope=asked)
    assert blamed(world) == blame


@pytest.mark.parametrize(("asked", "blame"), [("notes:read notes:write", []), ("notes:write", ["auth.step-up-union"])])
def test_more_scopes_are_asked_for_with_those_of_before(asked: str, blame: list[str]) -> None:
    challenge = 'Bearer error="insufficient_scope", scope="notes:write"'
    world = OAuthTestbed(Quirks(scopes_of={"tools/call": ("notes:write",)}, challenge_scope=(challenge,)))
    equipped(Hand(world)).authorize(state="state-of-another-one", scope=asked)
    assert blamed(world) == blame


@pytest.mark.parametrize("refreshes", [True, False])
def test_a_refresh_that_is_refused_may_lead_to_a_login_without_the_last_challenge(refreshes: bool) -> None:
    challenge = 'Bearer error="insufficient_scope", scope="extra"'
    world = OAuthTestbed(Quirks(scopes_of={"tools/call": ("notes:write",)}, challenge_scope=(challenge,)))
    hand = equipped(Hand(world))
    world.restart()
    if refreshes:
        assert hand.refreshed().status == 401
    hand.register()
    hand.authorize(state="state-of-another-one", scope="notes:read notes:write")
    assert blamed(world) == ([] if refreshes else ["auth.challenge-authoritative"])


def test_a_client_id_that_was_forgotten_is_no_fault_of_the_client() -> None:
    world = OAuthTestbed()
    hand = ready(Hand(world))
    world.restart()
    assert hand.authorize() == []
    assert blamed(world) == []


def test_two_codes_for_two_clients_are_not_mixed() -> None:
    world = OAuthTestbed()
    hand = sent_back(Hand(world))
    code = hand.code
    hand.register()
    assert document(hand.token(code=code))["error"] == "invalid_grant"
    assert blamed(world) == ["auth.oauth21-security"]


FLAWED: list[tuple[str, Quirks]] = [
    ("auth.prm-resource-mismatch-rejected", Quirks(resource_metadata={"resource": "https://mcp.example/other"})),
    ("auth.prm-resource-mismatch-rejected", Quirks(resource_metadata={"resource": "https://evil.example/mcp"})),
    ("auth.prm-resource-mismatch-rejected", Quirks(resource_metadata={"resource": 7})),
    ("auth.as-metadata-mismatch-not-used", Quirks(server_metadata={"issuer": "https://as.example/"})),
    ("auth.pkce-refuse-rfc8414", Quirks(server_metadata={"code_challenge_methods_supported": ABSENT})),
]


@pytest.mark.parametrize(("requirement", "quirks"), FLAWED)
def test_a_client_that_goes_on_in_spite_of_the_metadata_is_blamed(requirement: str, quirks: Quirks) -> None:
    world = OAuthTestbed(quirks)
    sent_back(Hand(world))
    assert blamed(world) == [requirement]


def test_openid_metadata_without_pkce_are_as_bad() -> None:
    world = OAuthTestbed(
        Quirks(server_metadata_at=(Well.OPENID_APPENDED,), server_metadata={"code_challenge_methods_supported": ABSENT})
    )
    hand = Hand(world)
    hand.call()
    hand.send("GET", world.places.prm)
    for well in Well.OAUTH, Well.OPENID_APPENDED:
        hand.send("GET", well.url(world.places.issuer))
    hand.register()
    hand.authorize()
    assert blamed(world) == ["auth.pkce-refuse-oidc"]


@pytest.mark.parametrize(
    ("changes", "requirement"),
    [
        ({"state": "guessed"}, "auth.state"),
        ({"iss": "https://evil.example"}, "auth.iss-advertised-present"),
        ({"iss": ABSENT}, "auth.iss-advertised-absent"),
    ],
)
def test_a_client_that_takes_a_bad_answer_for_good_is_blamed(changes: dict[str, str], requirement: str) -> None:
    world = OAuthTestbed(Quirks(authorization=changes))
    sent_back(Hand(world)).token()
    assert blamed(world) == [requirement]


def test_an_issuer_that_is_not_advertised_is_compared_all_the_same() -> None:
    advertised = "authorization_response_iss_parameter_supported"
    world = OAuthTestbed(Quirks(server_metadata={advertised: False}, authorization={"iss": "https://evil.example"}))
    sent_back(Hand(world)).token()
    assert blamed(world) == ["auth.iss-unadvertised-present"]


def test_a_code_beside_an_error_is_not_redeemed() -> None:
    world = OAuthTestbed(Quirks(authorization={"error": "access_denied"}))
    sent_back(Hand(world)).token()
    assert blamed(world) == ["auth.oauth21-security"]


def test_a_code_of_a_stray_answer_is_not_redeemed() -> None:
    world = OAuthTestbed(Quirks(strays=({"code": "{code}", "state": "guessed"}, {"error": "no"})))
    hand = ready(Hand(world))
    back = hand.authorize()
    assert len(back) == 3
    stray = back[0].partition("code=")[2].partition("&")[0]
    hand.token(code=stray)
    assert blamed(world) == ["auth.state"]


def test_tokens_and_clients_of_the_authorization_server_before_are_not_shown_to_the_next() -> None:
    world = OAuthTestbed()
    hand = equipped(Hand(world))
    old = hand.access
    world.migrate()
    assert hand.call("ping", hand.bearer()).status == 401
    prm = document(hand.send("GET", world.places.prm))
    assert prm["authorization_servers"] == [world.places.other]
    assert blamed(world) == []
    hand.register()
    assert blamed(world) == ["auth.as-change-reregister"]
    hand.send("GET", f"{world.places.other}/.well-known/oauth-authorization-server")
    hand.send("GET", f"{world.places.other}/authorize?client_id={hand.client_id}")
    hand.send("POST", f"{world.places.other}/token", body=f"refresh_token={hand.refresh}".encode())
    assert {"auth.as-change-no-reuse", "auth.no-cross-as-credentials"} <= set(blamed(world))
    assert old in world.secrets


def test_a_token_of_an_authorization_server_that_is_not_the_own_one_is_not_taken() -> None:
    world = OAuthTestbed()
    hand = Hand(world)
    token = world.other.tokens
    hand.access = token._fresh(None, world.places.resource, frozenset({"notes:read"})).text
    token.issued[hand.access] = token._fresh(None, world.places.resource, frozenset({"notes:read"}))
    assert hand.call("ping", hand.bearer()).status == 401
    assert blamed(world) == ["auth.client-only-own-as-tokens"]


# Client authentication


def secret_client(world: OAuthTestbed, method: str) -> Hand:
    hand = Hand(world)
    hand.discover()
    hand.register(token_endpoint_auth_method=method)
    hand.authorize()
    return hand


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_client_with_a_secret_shows_it_in_its_own_way(method: str) -> None:
    world = OAuthTestbed()
    hand = secret_client(world, method)
    assert hand.secret is not None
    assert hand.token(client_secret="wrong").status == 401
    assert hand.token(("Authorization", "Basic %%")).status == 401
    header = basic(hand.client_id, hand.secret)
    answer = hand.token(header) if method.endswith("basic") else hand.token(client_secret=hand.secret)
    assert answer.status == 200
    assert blamed(world) == []


def test_a_secret_goes_nowhere_else_also_where_it_is_encoded() -> None:
    world = OAuthTestbed()
    hand = secret_client(world, "client_secret_basic")
    assert hand.secret is not None
    hand.send("GET", world.places.other, basic("x", hand.secret))
    hand.send("GET", world.places.other, ("Authorization", "Basic a"))
    assert blamed(world) == ["auth.no-cross-as-credentials"]


def assertion(**changes: object) -> str:
    claims: dict[str, object] = {
        "iss": "signs",
        "sub": "signs",
        "aud": "https://as.example",
        "exp": NOW + 60,
        "jti": "a",
    }
    told: JsonObject = {name: value for name, value in {**claims, **changes}.items() if value is not None}  # type: ignore[misc]  # a dict of JSON claims; mypy loses their type in the merge
    return jwt(told)


@pytest.mark.parametrize(
    ("text", "blame"),
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
def test_a_client_that_signs_names_itself_and_the_authorization_server(text: str, blame: list[str]) -> None:
    registered: JsonObject = {
        "client_id": "signs",
        "token_endpoint_auth_method": "private_key_jwt",
        "jwks": {"keys": [{**PUBLIC}]},
    }
    world = OAuthTestbed(clients=[registered])
    form = {"grant_type": "client_credentials", "client_id": "signs", "resource": world.places.resource}
    kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    answer = Hand(world).post({**form, "client_assertion_type": kind, "client_assertion": text})
    assert answer.status == (401 if blame else 200)
    assert blamed(world) == blame


def test_an_assertion_is_sent_once_and_says_what_it_is() -> None:
    registered: JsonObject = {
        "client_id": "signs",
        "token_endpoint_auth_method": "private_key_jwt",
        "jwks": {"keys": [{**PUBLIC}]},
    }
    world = OAuthTestbed(clients=[registered])
    form = {"grant_type": "client_credentials", "client_id": "signs", "resource": world.places.resource}
    kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    hand = Hand(world)
    assert hand.post({**form, "client_assertion": assertion()}).status == 401
    assert blamed(world) == ["client-credentials.jwt-assertion-type"]
    for status in 200, 401:
        assert hand.post({**form, "client_assertion_type": kind, "client_assertion": assertion()}).status == status


def test_a_way_that_nobody_knows_proves_nothing() -> None:
    world = OAuthTestbed(clients=[{"client_id": "odd", "token_endpoint_auth_method": "tls_client_auth"}])
    answer = Hand(world).post({"grant_type": "client_credentials", "client_id": "odd"})
    assert document(answer) == {"error": "invalid_client"}


DOCUMENT = "https://app.example/client.json"


@pytest.mark.parametrize(
    ("client_id", "published", "blame"),
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
def test_the_url_of_a_document_is_a_client_id(client_id: str, published: JsonObject | None, blame: list[str]) -> None:
    world = OAuthTestbed(Quirks(documents=True), documents={} if published is None else {client_id: published})
    hand = Hand(world, client_id=client_id)
    hand.discover()
    hand.authorize()
    assert blamed(world) == blame


def test_the_url_of_a_document_is_no_client_id_where_none_is_taken() -> None:
    world = OAuthTestbed()
    hand = Hand(world, client_id=DOCUMENT)
    hand.discover()
    hand.authorize()
    assert blamed(world) == ["auth.cimd-client-checks"]


def test_a_client_id_of_another_server_was_obtained_though_not_here() -> None:
    world = OAuthTestbed()
    world.other.clients.registered["theirs"] = Client(client_id="theirs")
    hand = Hand(world, client_id="theirs")
    hand.discover()
    hand.authorize()
    assert blamed(world) == ["auth.as-change-no-reuse"]


@pytest.mark.parametrize(("end", "blame"), [("", []), ("/", []), ("#part", ["auth.resource-canonical-uri"])])
def test_a_slash_or_a_fragment_makes_no_other_resource(end: str, blame: list[str]) -> None:
    world = OAuthTestbed()
    resource = f"{world.places.resource}{end}"
    hand = Hand(world)
    ready(hand).authorize(resource=resource)
    hand.token(resource=resource)
    assert blamed(world) == blame


# Keys that tokens are bound to


def bound(quirks: Quirks | None = None) -> Hand:
    world = OAuthTestbed(quirks or Quirks(dpop="required"))
    hand = sent_back(Hand(world))
    hand.token(hand.proof())
    return hand


def dpop(hand: Hand, **changes: object) -> tuple[tuple[str, str], ...]:
    claims: dict[str, object] = {"ath": s256(hand.access), **changes}
    proof = hand.proof("POST", hand.world.places.resource, **claims)  # type: ignore[arg-type]  # the table gives JSON claims, by the names of the parameters
    return ("Authorization", f"DPoP {hand.access}"), proof


def test_a_bound_token_is_used_with_its_key() -> None:
    hand = bound()
    assert hand.call("tools/call", *dpop(hand)).status == 200
    assert blamed(hand.world) == []


@pytest.mark.parametrize(
    ("requirement", "doing"),
    [
        ("dpop.client-token-request-proof", lambda h: h.refreshed()),
        ("dpop.client-proof-header", lambda h: h.refreshed(h.proof(), h.proof())),
        ("dpop.client-proof-header", lambda h: h.refreshed(h.proof(header={"typ": "JWT"}))),
        ("dpop.client-proof-header", lambda h: h.refreshed(h.proof(header={"jwk": {**KEY.as_dict(private=True)}}))),
        ("dpop.asymmetric-only", lambda h: h.refreshed(("DPoP", "no.jwt"))),
        ("dpop.asymmetric-only", lambda h: h.refreshed(h.proof(header={"jwk": None}))),
        ("dpop.asymmetric-only", lambda h: h.refreshed(h.proof(header={"jwk": {"kty": "oct", "k": "AAAA"}}))),
        ("dpop.asymmetric-only", lambda h: h.refreshed(h.proof(key=ECKey.generate_key("P-256")))),
        ("dpop.client-proof-claims", lambda h: h.refreshed(h.proof("GET"))),
        ("dpop.client-proof-claims", lambda h: h.refreshed(h.proof(url="https://as.example/other"))),
        ("dpop.client-proof-claims", lambda h: h.refreshed(h.proof(iat=int(NOW) - 3_600))),
        ("dpop.client-proof-claims", lambda h: h.refreshed(h.proof(iat=None))),
        ("dpop.client-proof-claims", lambda h: h.call("ping", *dpop(h, ath=None))),
        ("dpop.client-proof-claims", lambda h: h.call("ping", *dpop(h, ath="x"))),
        ("dpop.client-fresh-proof", lambda h: h.refreshed(h.proof(jti="proof-number-1"))),
        ("dpop.client-fresh-proof", lambda h: h.refreshed(h.proof(jti=None))),
        ("dpop.client-fresh-proof", lambda h: h.call("ping", dpop(h)[0])),
        ("dpop.client-scheme", lambda h: h.call("ping", h.bearer(), dpop(h)[1])),
    ],
)
def test_a_proof_that_proves_nothing_is_refused_and_blamed(requirement: str, doing: Doing) -> None:
    hand = bound()
    answer = doing(hand)
    assert getattr(answer, "status", None) in (400, 401)
    assert blamed(hand.world) == [requirement]


def test_a_proof_with_another_key_is_no_proof() -> None:
    hand = bound()
    other = ECKey.generate_key("P-256")
    public: JsonObject = {name: str(value) for name, value in other.as_dict(private=False).items()}
    url = hand.world.places.resource
    proof = hand.proof("POST", url, {"jwk": public}, other, ath=s256(hand.access))
    assert hand.call("ping", ("Authorization", f"DPoP {hand.access}"), proof).status == 401
    assert blamed(hand.world) == ["dpop.client-fresh-proof"]


def test_where_keys_are_only_accepted_a_token_without_one_is_given() -> None:
    world = OAuthTestbed(Quirks(dpop="accepted"))
    equipped(Hand(world))
    assert blamed(world) == []


def test_where_nobody_knows_of_keys_a_proof_is_passed_over() -> None:
    world = OAuthTestbed()
    hand = sent_back(Hand(world))
    assert document(hand.token(hand.proof()))["token_type"] == "Bearer"


@pytest.mark.parametrize("nonces", ["kept", "renewed"])
def test_a_nonce_that_was_told_has_to_be_used(nonces: str) -> None:
    quirks = Quirks(
        dpop="required", nonce_at=frozenset({Part.TOKEN, Part.MCP}), nonces="kept" if nonces == "kept" else "renewed"
    )
    hand = bound(quirks)
    assert hand.access == ""
    hand.token(hand.proof())
    assert hand.access
    first = hand.call("ping", *dpop(hand, nonce="stale"))
    assert first.status == 401
    assert blamed(hand.world) == ["dpop.client-rs-nonce"]
    assert first.header("www-authenticate") == 'DPoP error="use_dpop_nonce", algs="ES256"'
    assert hand.call("ping", *dpop(hand)).status == 200
    hand.refreshed(hand.proof(nonce="stale"))
    assert blamed(hand.world) == ["dpop.client-rs-nonce", "dpop.client-as-nonce"]


def test_a_server_may_never_be_content_with_a_nonce() -> None:
    hand = bound(Quirks(dpop="required", nonce_at=frozenset({Part.TOKEN}), nonces="never right"))
    for _ in range(3):
        assert document(hand.token(hand.proof()))["error"] == "use_dpop_nonce"
    assert blamed(hand.world) == []


# Without a person


def test_a_workload_shows_its_jwt() -> None:
    world = OAuthTestbed()
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "resource": world.places.resource}
    hand = Hand(world)
    assert document(hand.post({**form, "assertion": "x"}))["error"] == "invalid_grant"
    assert hand.post({**form, "assertion": world.workload}).status == 200
    assert blamed(world) == []


def test_a_grant_that_there_is_not_is_refused() -> None:
    world = OAuthTestbed(clients=[{"client_id": "public"}])
    for grant in "password", "client_credentials":
        answer = Hand(world).post({"grant_type": grant, "client_id": "public", "resource": world.places.resource})
        assert document(answer)["error"] == "unsupported_grant_type"


def test_an_employee_gets_an_id_jag_and_for_it_a_token() -> None:
    world = OAuthTestbed(clients=[{"client_id": "given"}])
    world.register(
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
        "resource": world.places.resource,
        "subject_token": world.id_token,
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "client_id": "at-idp",
        "client_secret": "the-secret-of-at-idp",
    }
    hand, url = Hand(world), "https://idp.example/token"
    answer = document(hand.post(form, url=url))
    assert (answer["token_type"], answer["issued_token_type"]) == ("N_A", "urn:ietf:params:oauth:token-type:id-jag")
    grant = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": str(answer["access_token"])}
    assert hand.post({**grant, "client_id": "given", "resource": world.places.resource}).status == 200
    assert blamed(world) == []
    assert document(hand.post({**form, "audience": "x"}, url=url))["error"] == "invalid_request"
    assert blamed(world) == ["ema.audience"]
    assert hand.post({**form, "client_secret": "x"}, url=url).status == 401
    assert blamed(world) == ["ema.audience", "ema.client-auth-at-idp"]
    assert hand.post(form, url="https://idp.example/elsewhere").status == 404


def test_a_redirect_that_leaves_the_origin_is_not_followed() -> None:
    away = Reply(status=307, headers=(("Location", "{evil}/token"),))
    world = OAuthTestbed(Quirks(replies={Part.TOKEN: away, Part.SERVER_METADATA: away}))
    hand = Hand(world)
    hand.call()
    hand.send("GET", world.places.prm)
    hand.send("GET", f"{world.places.server}/.well-known/oauth-authorization-server")
    hand.send("GET", f"{world.places.evil}/token")
    assert blamed(world) == ["security.redirect-targets-validated"]


def test_the_oracle_uses_nothing_of_what_it_judges() -> None:
    folder = Path(mcp_conformance.oauth_testbed.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    assert "mcp_core" in text
    assert not re.search(r"(from|import) mcp_(core\.oauth|client|server)", text)


def test_verifiers_are_secrets_too() -> None:
    world = OAuthTestbed()
    sent_back(Hand(world)).token()
    assert VERIFIER in world.secrets
