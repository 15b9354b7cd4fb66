"""Logging in at another authorization server: the consent before, the binding to the browser, and what is believed after."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from joserfc import jwk
from openid_provider import Provider, provider
from page_testbed import START, Browser, Clock, Shown, World, form_token

from mcp_core.errors import UnsafeUrl
from mcp_core.jsonrpc.messages import JsonValue
from mcp_server.auth.authorization_server.pages.delegation import Delegation


@pytest.fixture
async def upstream() -> AsyncIterator[Provider]:
    async with provider(Clock()) as made:
        yield made


@pytest.fixture
def world(upstream: Provider) -> World:
    return World(users=Delegation(upstream.issuer, client_id="ours", client_secret="s3cret"))


async def sent_away(world: World, browser: Browser, id: str, *, remember: str = "no") -> str:
    """Consents; where the browser is sent."""
    page = await browser.get(world.path(id))
    page = await browser.submit(page, decision="allow", remember=remember)
    assert page.status == 303, page.words
    return page.location


async def come_back(upstream: Provider, browser: Browser, url: str) -> Shown:
    """The way through the other server, and back to us."""
    back = urlsplit(upstream.authorize(url))
    return await browser.get(f"{back.path}?{back.query}")


def query(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


@pytest.mark.spec("auth.proxy-consent")
@pytest.mark.spec("security.proxy-per-client-consent")
async def test_consent_is_given_here_before_anybody_is_sent_elsewhere(world: World, upstream: Provider) -> None:
    browser, id = world.browser(), world.interactions.add()
    page = await browser.get(world.path(id))
    assert "Allow “Notebook reader” to use mcp.example?" in page.words
    assert f"Next, you log in at {urlsplit(upstream.issuer).netloc}." in page.words
    assert not upstream.asked
    page = await browser.submit(page, decision="allow", drop=["notes:write"])
    assert (page.status, urlsplit(page.location).path) == (303, "/authorize")
    page = await come_back(upstream, browser, page.location)
    assert (page.status, page.location) == (303, f"https://app.example/callback?code=c-{id}&state=s")
    assert world.interactions.granted == [(id, f"{upstream.issuer}#grace-7", ("notes:read",), START - 5)]


@pytest.mark.spec("security.proxy-state-after-consent")
async def test_the_state_is_made_after_the_consent_and_is_of_this_journey_alone(
    world: World, upstream: Provider
) -> None:
    browser, one, two = world.browser(), world.interactions.add(), world.interactions.add()
    first = query(await sent_away(world, browser, one))
    second = query(await sent_away(world, browser, two))
    assert first["redirect_uri"] == "https://as.example/delegation/callback"
    assert (first["response_type"], first["client_id"], first["scope"]) == ("code", "ours", "openid profile")
    assert first["code_challenge_method"] == "S256"
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name]) == 43
        assert first[name] != second[name]
    assert not {first["state"], first["nonce"]} & {*browser.cookies.values(), *browser.set}
    assert "resource" not in first
    assert "s3cret" not in str(first)


async def test_who_refuses_is_sent_nowhere(world: World, upstream: Provider) -> None:
    browser, id = world.browser(), world.interactions.add()
    page = await browser.submit(await browser.get(world.path(id)), decision="refuse")
    assert page.location == "https://app.example/callback?error=access_denied&state=s"
    assert not upstream.asked


async def test_who_is_logged_in_is_not_sent_again(world: World, upstream: Provider) -> None:
    browser = world.browser()
    await come_back(upstream, browser, await sent_away(world, browser, world.interactions.add()))
    asked = len(upstream.asked)
    page = await browser.get(world.path(world.interactions.add()))
    assert "Logged in as grace" in page.words
    # She would come back as the same person.
    assert "Use another account" not in page.words
    assert (await browser.submit(page, decision="allow")).location.startswith("https://app.example/")
    assert len(upstream.asked) == asked


async def test_a_consent_that_was_given_before_the_login_can_be_remembered(world: World, upstream: Provider) -> None:
    browser = world.browser()
    url = await sent_away(world, browser, world.interactions.add(), remember="yes")
    await come_back(upstream, browser, url)
    assert (await browser.get(world.path(world.interactions.add()))).status == 303
    # In a browser where nobody is logged in, nobody has consented.
    assert (await world.browser().get(world.path(world.interactions.add()))).status == 200


async def test_a_new_login_can_be_asked_for(world: World, upstream: Provider) -> None:
    browser = world.browser()
    await come_back(upstream, browser, await sent_away(world, browser, world.interactions.add()))
    assert "prompt" not in query(await sent_away(world, world.browser(), world.interactions.add()))
    world.time.now += 100
    url = await sent_away(world, browser, world.interactions.add(prompts=["login"]))
    assert (query(url)["prompt"], query(url)["max_age"]) == ("login", "0")
    # The other server takes the old login for good enough; we do not.
    page = await come_back(upstream, browser, url)
    assert page.location == "https://app.example/callback?error=server_error&state=s"


async def test_the_login_form_for_passwords_is_not_there(world: World) -> None:
    browser, id = world.browser(), world.interactions.add()
    await browser.get(world.path(id))
    token = await form_token(world, browser, f"login {id}")
    fields = [("form_token", token), ("username", "ada"), ("password", "lovelace")]
    assert (await browser.post(f"{world.path(id)}/login", fields)).status == 403


# --- the confused deputy -------------------------------------------------------------------------------------------


@pytest.mark.spec("security.proxy-state")
async def test_nobody_can_finish_what_began_in_another_browser(world: World, upstream: Provider) -> None:
    attacker, victim = world.browser(), world.browser()
    url = await sent_away(world, attacker, world.interactions.add())
    # The victim is logged in at the other server, and is made to follow the attacker's link.
    await victim.get(world.path(world.interactions.add()))
    asked = len(upstream.asked)
    for browser in (victim, world.browser()):
        page = await come_back(upstream, browser, url)
        assert page.status == 403
        assert "location" not in page.headers
    assert len(upstream.asked) == asked
    assert not world.interactions.granted
    # The journey is still the attacker's own, with the attacker's own login.
    assert (await come_back(upstream, attacker, url)).status == 303


@pytest.mark.spec("auth.third-party-redirects")
@pytest.mark.parametrize("change", [{"state": None}, {"state": "x"}, {"state": ""}])
@pytest.mark.spec("security.proxy-state")
async def test_an_answer_without_the_right_state_is_for_nobody(
    world: World, upstream: Provider, change: dict[str, str | None]
) -> None:
    browser = world.browser()
    url = await sent_away(world, browser, world.interactions.add())
    upstream.redirect = change
    assert (await come_back(upstream, browser, url)).status == 403
    assert not world.interactions.granted
    assert not world.interactions.denied


async def test_an_answer_counts_once(world: World, upstream: Provider) -> None:
    browser = world.browser()
    url = await sent_away(world, browser, world.interactions.add())
    assert (await come_back(upstream, browser, url)).status == 303
    assert (await come_back(upstream, browser, url)).status == 403
    assert len(world.interactions.granted) == 1


async def test_who_leaves_twice_comes_back_once(world: World, upstream: Provider) -> None:
    browser, id = world.browser(), world.interactions.add()
    first, second = await sent_away(world, browser, id), await sent_away(world, browser, id)
    assert (await come_back(upstream, browser, first)).status == 403
    assert (await come_back(upstream, browser, second)).status == 303


async def test_a_journey_that_takes_too_long_is_over(world: World, upstream: Provider) -> None:
    browser = world.browser()
    one, two = world.interactions.add(seconds=10_000), world.interactions.add(seconds=300)
    first, second = await sent_away(world, browser, one), await sent_away(world, browser, two)
    world.time.now += 301
    assert (await come_back(upstream, browser, second)).status == 404
    world.time.now += 300
    assert (await come_back(upstream, browser, first)).status == 403


async def test_the_session_has_another_id_after_the_login(world: World, upstream: Provider) -> None:
    browser = world.browser()
    url = await sent_away(world, browser, world.interactions.add())
    planted = dict(browser.cookies)
    await come_back(upstream, browser, url)
    other = world.browser()
    other.cookies = planted
    assert browser.cookies != planted
    assert "You are not logged in" in (await other.get("/logout")).words


# --- what the other server may do wrong ----------------------------------------------------------------------------

ERRORS: dict[str, tuple[dict[str, str | None], str]] = {
    "refused": ({"code": None, "error": "access_denied"}, "access_denied"),
    "broken": ({"code": None, "error": "server_error"}, "server_error"),
    "unheard of": ({"code": None, "error": "<script>"}, "server_error"),
    "neither": ({"code": None}, "server_error"),
    "another issuer": ({"iss": "https://evil.example"}, "server_error"),
    "no issuer": ({"iss": None}, "server_error"),
    "an error of another issuer": ({"iss": "https://evil.example", "error": "access_denied"}, "server_error"),
}


@pytest.mark.parametrize("case", ERRORS)
@pytest.mark.spec("auth.third-party-failures")
async def test_an_error_elsewhere_becomes_one_of_ours(world: World, upstream: Provider, case: str) -> None:
    browser, id = world.browser(), world.interactions.add()
    url = await sent_away(world, browser, id)
    upstream.redirect, error = ERRORS[case]
    page = await come_back(upstream, browser, url)
    assert (page.status, page.location) == (303, f"https://app.example/callback?error={error}&state=s")
    assert world.interactions.denied == [(id, error)]
    assert not world.interactions.granted


CLAIMS: dict[str, dict[str, JsonValue]] = {
    "another issuer": {"iss": "https://evil.example"},
    "no issuer": {"iss": None},
    "for another client": {"aud": "theirs"},
    "for others too": {"aud": ["ours", "theirs"]},
    "for us, meant for another": {"azp": "theirs"},
    "for nobody": {"aud": None},
    "of another login": {"nonce": "x"},
    "of no login": {"nonce": None},
    "expired": {"exp": START - 61},
    "never ending": {"exp": None},
    "ending in words": {"exp": "tomorrow"},
    "ending in truth": {"exp": True},
    "of the future": {"iat": START + 61},
    "of no time": {"iat": None},
    "of nobody": {"sub": None},
    "of an empty name": {"sub": ""},
    "of a number": {"sub": 7},
}


@pytest.mark.parametrize("case", CLAIMS)
async def test_an_id_token_has_to_be_for_us_and_for_this_login(
    world: World, upstream: Provider, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.claims = CLAIMS[case]
    await _fails(world, upstream, caplog)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["ours"]},
        {"aud": ["ours", "theirs"], "azp": "ours"},
        {"exp": START - 30},
        {"iat": START + 30},
        {"auth_time": None},
        {"auth_time": START + 1000},
    ],
)
async def test_an_id_token_may_be_written_in_other_ways(
    world: World, upstream: Provider, claims: dict[str, JsonValue]
) -> None:
    upstream.claims = claims
    browser = world.browser()
    page = await come_back(upstream, browser, await sent_away(world, browser, world.interactions.add()))
    assert page.status == 303
    assert world.interactions.granted[0][3] in (START, START - 5)


@pytest.mark.parametrize(
    ("claims", "shown"),
    [
        ({"preferred_username": None}, "grace-7"),
        ({"preferred_username": None, "email": "grace@navy.example", "name": "Grace"}, "grace@navy.example"),
        ({"preferred_username": ["x"], "name": "<b>Grace"}, "<b>Grace"),
    ],
)
async def test_a_person_is_called_what_the_other_server_calls_them(
    world: World, upstream: Provider, claims: dict[str, JsonValue], shown: str
) -> None:
    upstream.claims = claims
    browser = world.browser()
    await come_back(upstream, browser, await sent_away(world, browser, world.interactions.add()))
    page = await browser.get("/logout")
    assert f"You are logged in as {shown}." in page.words
    assert "b" not in page.tags


async def _fails(world: World, upstream: Provider, caplog: pytest.LogCaptureFixture) -> None:
    browser = world.browser()
    with caplog.at_level(logging.WARNING, "mcp_server"):
        page = await browser.get(world.path(world.interactions.add()))
        page = await browser.submit(page, decision="allow")
        if not page.location.startswith("https://app.example/"):
            page = await come_back(upstream, browser, page.location)
    assert page.location == "https://app.example/callback?error=server_error&state=s"
    assert not world.interactions.granted
    assert "delegated login failed" in caplog.text
    assert "s3cret" not in caplog.text
    assert "You are not logged in" in (await browser.get("/logout")).words


async def test_a_token_that_somebody_else_signed_counts_for_nothing(
    world: World, upstream: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.key = jwk.ECKey.generate_key("P-256", {"kid": "k1"})
    await _fails(world, upstream, caplog)


async def test_a_token_that_nobody_signed_counts_for_nothing(
    world: World, upstream: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    def part(value: JsonValue) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    browser, id = world.browser(), world.interactions.add()
    url = await sent_away(world, browser, id)
    claims: JsonValue = {
        "iss": upstream.issuer,
        "sub": "grace-7",
        "aud": "ours",
        "exp": START + 300,
        "iat": START,
        "nonce": query(url)["nonce"],
    }
    upstream.answer = {"id_token": f"{part({'alg': 'none'})}.{part(claims)}."}
    page = await come_back(upstream, browser, url)
    assert "error=server_error" in page.location
    assert not world.interactions.granted


async def test_a_token_that_is_signed_by_what_everybody_knows_counts_for_nothing(
    world: World, upstream: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    # The public key as the secret of a symmetric algorithm.
    secret = jwk.OctKey.import_key("x" * 64, {"kid": "k1"})
    upstream.key, upstream.header = secret, {"alg": "HS256", "kid": "k1"}  # type: ignore[assignment]  # the wrong kind
    upstream.published = [json.loads(json.dumps(secret.as_dict(private=True)))]
    await _fails(world, upstream, caplog)


async def test_keys_that_are_not_understood_do_not_hide_the_one_that_is(world: World, upstream: Provider) -> None:
    odd: list[dict[str, JsonValue]] = [
        {"kty": "AKP", "kid": "k1"},
        {"kty": "EC", "crv": "P-999", "x": "x", "y": "y", "kid": "k1"},
        {"kty": "RSA", "kid": "k1"},
        {},
    ]
    upstream.published = [*odd, {**upstream.published[0], "use": "enc", "kid": "k2"}, *upstream.published]
    browser = world.browser()
    assert (
        "code="
        in (await come_back(upstream, browser, await sent_away(world, browser, world.interactions.add()))).location
    )


DOCUMENTS: dict[str, bytes] = {"no JSON": b"<html>", "no object": b"[]", "nothing": b"", "deep": b"[" * 100_000}


@pytest.mark.parametrize("case", DOCUMENTS)
@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/jwks"])
async def test_a_document_that_is_none_logs_nobody_in(
    world: World, upstream: Provider, path: str, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.bodies[path] = DOCUMENTS[case]
    await _fails(world, upstream, caplog)


@pytest.mark.parametrize("status", [302, 400, 404, 500])
@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token"])
async def test_another_status_logs_nobody_in(
    world: World, upstream: Provider, path: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.statuses[path] = status
    await _fails(world, upstream, caplog)


METADATA: dict[str, dict[str, JsonValue]] = {
    "of another issuer": {"issuer": "https://evil.example"},
    "of the issuer with a slash": {},
    "without an issuer": {"issuer": None},
    "without an authorization endpoint": {"authorization_endpoint": None},
    "with an authorization endpoint of another kind": {"authorization_endpoint": "javascript:alert(1)"},
    "with an authorization endpoint that knows us": {"authorization_endpoint": "http://127.0.0.1:1/?client_id=x"},
    "without a token endpoint": {"token_endpoint": None},
    "with a token endpoint that gives away credentials": {"token_endpoint": "https://169.254.169.254/token"},
    "without keys": {"jwks_uri": None},
    "with keys where there must be none": {"jwks_uri": "http://10.0.0.1/keys"},
    "for other clients": {"token_endpoint_auth_methods_supported": ["private_key_jwt"]},
}


@pytest.mark.parametrize("case", METADATA)
async def test_metadata_that_cannot_be_used_log_nobody_in(
    world: World, upstream: Provider, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.metadata = METADATA[case] or {"issuer": f"{upstream.issuer}/"}
    await _fails(world, upstream, caplog)


@pytest.mark.parametrize("token", [None, 7, "x", "a.b.c"])
async def test_an_answer_without_an_id_token_logs_nobody_in(
    world: World, upstream: Provider, token: JsonValue, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.answer = {"id_token": token}
    await _fails(world, upstream, caplog)


async def test_a_server_that_is_not_there_logs_nobody_in(caplog: pytest.LogCaptureFixture) -> None:
    world = World(users=Delegation("http://127.0.0.1:9", client_id="ours"))
    browser = world.browser()
    page = await browser.submit(await browser.get(world.path(world.interactions.add())), decision="allow")
    assert page.location == "https://app.example/callback?error=server_error&state=s"
    assert "delegated login failed" in caplog.text


# --- our secrets, and theirs ---------------------------------------------------------------------------------------


@pytest.mark.spec("auth.third-party-chaining", "auth.third-party-mapping", "auth.third-party-lifecycle")
@pytest.mark.spec("auth.third-party-credentials")
async def test_what_the_other_server_gave_goes_nowhere_and_is_not_kept(world: World, upstream: Provider) -> None:
    browser = world.browser()
    url = await sent_away(world, browser, world.interactions.add())
    page = await come_back(upstream, browser, url)
    assert "upstream" not in f"{page.headers}{browser.set}{world.interactions.granted}"
    kept = await world.store.run(lambda connection: "\n".join(connection.iterdump()))
    for secret in ("upstream", "s3cret", query(url)["state"], query(url)["nonce"], *browser.cookies.values()):
        assert secret not in kept


@pytest.mark.parametrize(
    ("secret", "methods", "header", "field"),
    [
        ("s3cret", None, True, False),
        ("s3cret", ["client_secret_post"], False, True),
        (None, ["none"], False, False),
    ],
)
async def test_we_authenticate_as_the_other_server_can(
    upstream: Provider, secret: str | None, methods: list[JsonValue] | None, header: bool, field: bool
) -> None:
    upstream.metadata = {"token_endpoint_auth_methods_supported": methods}
    world = World(users=Delegation(upstream.issuer, client_id="ours", client_secret=secret))
    browser = world.browser()
    page = await come_back(upstream, browser, await sent_away(world, browser, world.interactions.add()))
    assert "code=" in page.location
    ((headers, fields),) = [(headers, fields) for method, _, headers, fields in upstream.asked if method == "POST"]
    assert ("authorization" in headers, "client_secret" in fields) == (header, field)


async def test_openid_is_asked_for_in_any_case(upstream: Provider) -> None:
    world = World(users=Delegation(upstream.issuer, client_id="ours", scopes=["email", "openid"]))
    url = await sent_away(world, world.browser(), world.interactions.add())
    assert parse_qs(urlsplit(url).query)["scope"] == ["openid email"]


@pytest.mark.parametrize(
    "issuer", ["http://login.example", "https://login.example/?a=b", "https://login.example#x", "login.example"]
)
def test_an_issuer_that_is_none_is_refused(issuer: str) -> None:
    with pytest.raises(UnsafeUrl):
        Delegation(issuer, client_id="ours")


def test_a_delegation_does_not_show_its_secret() -> None:
    shown = repr(Delegation("https://login.example", client_id="ours", client_secret="s3cret"))
    assert shown == "<Delegation https://login.example>"
