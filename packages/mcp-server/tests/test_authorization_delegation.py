"""Login at another authorization server: consent first, binding to the browser, and checks of the ID token."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from joserfc import jwk
from openid_provider import Provider, provider
from page_testbed import START, Browser, BrowserPage, Clock, PageTestbed, form_token

from mcp_core.errors import UnsafeUrl
from mcp_core.jsonrpc.messages import JsonValue
from mcp_server.auth.authorization_server.pages.delegation import Delegation


@pytest.fixture
async def upstream() -> AsyncIterator[Provider]:
    async with provider(Clock()) as made:
        yield made


@pytest.fixture
def testbed(upstream: Provider) -> PageTestbed:
    return PageTestbed(users=Delegation(upstream.issuer, client_id="ours", client_secret="s3cret"))


async def redirect_to_provider(testbed: PageTestbed, browser: Browser, id: str, *, remember: str = "no") -> str:
    """Consent, and return the URL that the browser is redirected to."""
    page = await browser.get(testbed.path(id))
    page = await browser.submit(page, decision="allow", remember=remember)
    assert page.status == 303, page.words
    return page.location


async def finish_login(upstream: Provider, browser: Browser, url: str) -> BrowserPage:
    """Log in at the OpenID provider, and follow its redirect back."""
    back = urlsplit(upstream.authorize(url))
    return await browser.get(f"{back.path}?{back.query}")


def query(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


@pytest.mark.spec("auth.proxy-consent")
@pytest.mark.spec("security.proxy-per-client-consent")
async def test_consent_precedes_redirect_to_provider(testbed: PageTestbed, upstream: Provider) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    page = await browser.get(testbed.path(id))
    assert "Allow “Notebook reader” to use mcp.example?" in page.words
    assert f"Next, you log in at {urlsplit(upstream.issuer).netloc}." in page.words
    assert not upstream.requests
    page = await browser.submit(page, decision="allow", drop=["notes:write"])
    assert (page.status, urlsplit(page.location).path) == (303, "/authorize")
    page = await finish_login(upstream, browser, page.location)
    assert (page.status, page.location) == (303, f"https://app.example/callback?code=c-{id}&state=s")
    assert testbed.interactions.granted == [(id, f"{upstream.issuer}#grace-7", ("notes:read",), START - 5)]


@pytest.mark.spec("security.proxy-state-after-consent")
async def test_state_nonce_and_challenge_are_fresh_per_flow(testbed: PageTestbed, upstream: Provider) -> None:
    browser, one, two = testbed.browser(), testbed.interactions.add(), testbed.interactions.add()
    first = query(await redirect_to_provider(testbed, browser, one))
    second = query(await redirect_to_provider(testbed, browser, two))
    assert first["redirect_uri"] == "https://as.example/delegation/callback"
    assert (first["response_type"], first["client_id"], first["scope"]) == ("code", "ours", "openid profile")
    assert first["code_challenge_method"] == "S256"
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name]) == 43
        assert first[name] != second[name]
    assert not {first["state"], first["nonce"]} & {*browser.cookies.values(), *browser.set}
    assert "resource" not in first
    assert "s3cret" not in str(first)


async def test_denied_consent_sends_no_request_to_provider(testbed: PageTestbed, upstream: Provider) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    page = await browser.submit(await browser.get(testbed.path(id)), decision="refuse")
    assert page.location == "https://app.example/callback?error=access_denied&state=s"
    assert not upstream.requests


async def test_logged_in_user_is_not_redirected_again(testbed: PageTestbed, upstream: Provider) -> None:
    browser = testbed.browser()
    await finish_login(upstream, browser, await redirect_to_provider(testbed, browser, testbed.interactions.add()))
    requests = len(upstream.requests)
    page = await browser.get(testbed.path(testbed.interactions.add()))
    assert "Logged in as grace" in page.words
    # Another login at the provider would return the same user.
    assert "Use another account" not in page.words
    assert (await browser.submit(page, decision="allow")).location.startswith("https://app.example/")
    assert len(upstream.requests) == requests


async def test_consent_before_delegated_login_can_be_remembered(testbed: PageTestbed, upstream: Provider) -> None:
    browser = testbed.browser()
    url = await redirect_to_provider(testbed, browser, testbed.interactions.add(), remember="yes")
    await finish_login(upstream, browser, url)
    assert (await browser.get(testbed.path(testbed.interactions.add()))).status == 303
    # Consent holds only for a logged-in user.
    assert (await testbed.browser().get(testbed.path(testbed.interactions.add()))).status == 200


async def test_prompt_login_requires_new_login_at_provider(testbed: PageTestbed, upstream: Provider) -> None:
    browser = testbed.browser()
    await finish_login(upstream, browser, await redirect_to_provider(testbed, browser, testbed.interactions.add()))
    assert "prompt" not in query(await redirect_to_provider(testbed, testbed.browser(), testbed.interactions.add()))
    testbed.time.now += 100
    url = await redirect_to_provider(testbed, browser, testbed.interactions.add(prompts=["login"]))
    assert (query(url)["prompt"], query(url)["max_age"]) == ("login", "0")
    # The provider accepts its earlier login; the authorization server does not.
    page = await finish_login(upstream, browser, url)
    assert page.location == "https://app.example/callback?error=server_error&state=s"


async def test_password_form_unavailable_with_delegation(testbed: PageTestbed) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    await browser.get(testbed.path(id))
    token = await form_token(testbed, browser, f"login {id}")
    fields = [("form_token", token), ("username", "ada"), ("password", "lovelace")]
    assert (await browser.post(f"{testbed.path(id)}/login", fields)).status == 403


# --- the confused deputy -------------------------------------------------------------------------------------------


@pytest.mark.spec("security.proxy-state")
async def test_callback_in_other_browser_returns_403(testbed: PageTestbed, upstream: Provider) -> None:
    attacker, victim = testbed.browser(), testbed.browser()
    url = await redirect_to_provider(testbed, attacker, testbed.interactions.add())
    # The victim has a login at the provider and follows the attacker's link.
    await victim.get(testbed.path(testbed.interactions.add()))
    requests = len(upstream.requests)
    for browser in (victim, testbed.browser()):
        page = await finish_login(upstream, browser, url)
        assert page.status == 403
        assert "location" not in page.headers
    assert len(upstream.requests) == requests
    assert not testbed.interactions.granted
    # The flow still works in the attacker's browser, with the attacker's login.
    assert (await finish_login(upstream, attacker, url)).status == 303


@pytest.mark.spec("auth.third-party-redirects")
@pytest.mark.parametrize("change", [{"state": None}, {"state": "x"}, {"state": ""}])
@pytest.mark.spec("security.proxy-state")
async def test_callback_with_wrong_state_returns_403(
    testbed: PageTestbed, upstream: Provider, change: dict[str, str | None]
) -> None:
    browser = testbed.browser()
    url = await redirect_to_provider(testbed, browser, testbed.interactions.add())
    upstream.redirect = change
    assert (await finish_login(upstream, browser, url)).status == 403
    assert not testbed.interactions.granted
    assert not testbed.interactions.denied


async def test_callback_repeated_returns_403(testbed: PageTestbed, upstream: Provider) -> None:
    browser = testbed.browser()
    url = await redirect_to_provider(testbed, browser, testbed.interactions.add())
    assert (await finish_login(upstream, browser, url)).status == 303
    assert (await finish_login(upstream, browser, url)).status == 403
    assert len(testbed.interactions.granted) == 1


async def test_second_redirect_replaces_first_flow(testbed: PageTestbed, upstream: Provider) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    first, second = await redirect_to_provider(testbed, browser, id), await redirect_to_provider(testbed, browser, id)
    assert (await finish_login(upstream, browser, first)).status == 403
    assert (await finish_login(upstream, browser, second)).status == 303


async def test_expired_flow_is_rejected(testbed: PageTestbed, upstream: Provider) -> None:
    browser = testbed.browser()
    one, two = testbed.interactions.add(seconds=10_000), testbed.interactions.add(seconds=300)
    first, second = await redirect_to_provider(testbed, browser, one), await redirect_to_provider(testbed, browser, two)
    testbed.time.now += 301
    assert (await finish_login(upstream, browser, second)).status == 404
    testbed.time.now += 300
    assert (await finish_login(upstream, browser, first)).status == 403


async def test_session_id_changes_at_delegated_login(testbed: PageTestbed, upstream: Provider) -> None:
    browser = testbed.browser()
    url = await redirect_to_provider(testbed, browser, testbed.interactions.add())
    planted = dict(browser.cookies)
    await finish_login(upstream, browser, url)
    other = testbed.browser()
    other.cookies = planted
    assert browser.cookies != planted
    assert "You are not logged in" in (await other.get("/logout")).words


# --- errors of the provider -------------------------------------------------------------------------------------------

ERRORS: dict[str, tuple[dict[str, str | None], str]] = {
    "refused": ({"code": None, "error": "access_denied"}, "access_denied"),
    "broken": ({"code": None, "error": "server_error"}, "server_error"),
    "unknown": ({"code": None, "error": "<script>"}, "server_error"),
    "neither": ({"code": None}, "server_error"),
    "another issuer": ({"iss": "https://evil.example"}, "server_error"),
    "no issuer": ({"iss": None}, "server_error"),
    "an error of another issuer": ({"iss": "https://evil.example", "error": "access_denied"}, "server_error"),
}


@pytest.mark.parametrize("case", ERRORS)
@pytest.mark.spec("auth.third-party-failures")
async def test_provider_error_redirects_client_with_error(testbed: PageTestbed, upstream: Provider, case: str) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    url = await redirect_to_provider(testbed, browser, id)
    upstream.redirect, error = ERRORS[case]
    page = await finish_login(upstream, browser, url)
    assert (page.status, page.location) == (303, f"https://app.example/callback?error={error}&state=s")
    assert testbed.interactions.denied == [(id, error)]
    assert not testbed.interactions.granted


CLAIMS: dict[str, dict[str, JsonValue]] = {
    "another issuer": {"iss": "https://evil.example"},
    "no issuer": {"iss": None},
    "for another client": {"aud": "theirs"},
    "for other clients too": {"aud": ["ours", "theirs"]},
    "for this client, with another azp": {"azp": "theirs"},
    "without an audience": {"aud": None},
    "with another nonce": {"nonce": "x"},
    "without a nonce": {"nonce": None},
    "expired": {"exp": START - 61},
    "without an expiry": {"exp": None},
    "with a string as expiry": {"exp": "tomorrow"},
    "with a boolean as expiry": {"exp": True},
    "issued in the future": {"iat": START + 61},
    "without an issue time": {"iat": None},
    "without a subject": {"sub": None},
    "with an empty subject": {"sub": ""},
    "with a number as subject": {"sub": 7},
}


@pytest.mark.parametrize("case", CLAIMS)
async def test_id_token_with_invalid_claim_fails_login(
    testbed: PageTestbed, upstream: Provider, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.claims = CLAIMS[case]
    await _check_login_fails(testbed, upstream, caplog)


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
async def test_id_token_with_valid_claim_variants_accepted(
    testbed: PageTestbed, upstream: Provider, claims: dict[str, JsonValue]
) -> None:
    upstream.claims = claims
    browser = testbed.browser()
    page = await finish_login(
        upstream, browser, await redirect_to_provider(testbed, browser, testbed.interactions.add())
    )
    assert page.status == 303
    assert testbed.interactions.granted[0][3] in (START, START - 5)


@pytest.mark.parametrize(
    ("claims", "shown"),
    [
        ({"preferred_username": None}, "grace-7"),
        ({"preferred_username": None, "email": "grace@navy.example", "name": "Grace"}, "grace@navy.example"),
        ({"preferred_username": ["x"], "name": "<b>Grace"}, "<b>Grace"),
    ],
)
async def test_user_name_is_taken_from_id_token(
    testbed: PageTestbed, upstream: Provider, claims: dict[str, JsonValue], shown: str
) -> None:
    upstream.claims = claims
    browser = testbed.browser()
    await finish_login(upstream, browser, await redirect_to_provider(testbed, browser, testbed.interactions.add()))
    page = await browser.get("/logout")
    assert f"You are logged in as {shown}." in page.words
    assert "b" not in page.tags


async def _check_login_fails(testbed: PageTestbed, upstream: Provider, caplog: pytest.LogCaptureFixture) -> None:
    browser = testbed.browser()
    with caplog.at_level(logging.WARNING, "mcp_server"):
        page = await browser.get(testbed.path(testbed.interactions.add()))
        page = await browser.submit(page, decision="allow")
        if not page.location.startswith("https://app.example/"):
            page = await finish_login(upstream, browser, page.location)
    assert page.location == "https://app.example/callback?error=server_error&state=s"
    assert not testbed.interactions.granted
    assert "delegated login failed" in caplog.text
    assert "s3cret" not in caplog.text
    assert "You are not logged in" in (await browser.get("/logout")).words


async def test_id_token_with_foreign_signature_fails_login(
    testbed: PageTestbed, upstream: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.key = jwk.ECKey.generate_key("P-256", {"kid": "k1"})
    await _check_login_fails(testbed, upstream, caplog)


async def test_unsigned_id_token_fails_login(
    testbed: PageTestbed, upstream: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    def part(value: JsonValue) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    browser, id = testbed.browser(), testbed.interactions.add()
    url = await redirect_to_provider(testbed, browser, id)
    claims: JsonValue = {
        "iss": upstream.issuer,
        "sub": "grace-7",
        "aud": "ours",
        "exp": START + 300,
        "iat": START,
        "nonce": query(url)["nonce"],
    }
    upstream.answer = {"id_token": f"{part({'alg': 'none'})}.{part(claims)}."}
    page = await finish_login(upstream, browser, url)
    assert "error=server_error" in page.location
    assert not testbed.interactions.granted


async def test_id_token_signed_with_symmetric_key_fails_login(
    testbed: PageTestbed, upstream: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    # The public key as the secret of a symmetric algorithm.
    secret = jwk.OctKey.import_key("x" * 64, {"kid": "k1"})
    upstream.key, upstream.header = secret, {"alg": "HS256", "kid": "k1"}  # type: ignore[assignment]  # the wrong kind
    upstream.published = [json.loads(json.dumps(secret.as_dict(private=True)))]
    await _check_login_fails(testbed, upstream, caplog)


async def test_unsupported_keys_are_skipped(testbed: PageTestbed, upstream: Provider) -> None:
    odd: list[dict[str, JsonValue]] = [
        {"kty": "AKP", "kid": "k1"},
        {"kty": "EC", "crv": "P-999", "x": "x", "y": "y", "kid": "k1"},
        {"kty": "RSA", "kid": "k1"},
        {},
    ]
    upstream.published = [*odd, {**upstream.published[0], "use": "enc", "kid": "k2"}, *upstream.published]
    browser = testbed.browser()
    assert (
        "code="
        in (
            await finish_login(
                upstream, browser, await redirect_to_provider(testbed, browser, testbed.interactions.add())
            )
        ).location
    )


DOCUMENTS: dict[str, bytes] = {"no JSON": b"<html>", "no object": b"[]", "nothing": b"", "deep": b"[" * 100_000}


@pytest.mark.parametrize("case", DOCUMENTS)
@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/jwks"])
async def test_invalid_document_fails_login(
    testbed: PageTestbed, upstream: Provider, path: str, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.bodies[path] = DOCUMENTS[case]
    await _check_login_fails(testbed, upstream, caplog)


@pytest.mark.parametrize("status", [302, 400, 404, 500])
@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token"])
async def test_error_status_fails_login(
    testbed: PageTestbed, upstream: Provider, path: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.statuses[path] = status
    await _check_login_fails(testbed, upstream, caplog)


METADATA: dict[str, dict[str, JsonValue]] = {
    "of another issuer": {"issuer": "https://evil.example"},
    "of the issuer with a slash": {},
    "without an issuer": {"issuer": None},
    "without an authorization endpoint": {"authorization_endpoint": None},
    "with an authorization endpoint of another kind": {"authorization_endpoint": "javascript:alert(1)"},
    "with an authorization endpoint that has a client_id": {
        "authorization_endpoint": "http://127.0.0.1:1/?client_id=x"
    },
    "without a token endpoint": {"token_endpoint": None},
    "with a token endpoint at a metadata service": {"token_endpoint": "https://169.254.169.254/token"},
    "without keys": {"jwks_uri": None},
    "with keys at a private address": {"jwks_uri": "http://10.0.0.1/keys"},
    "for other clients": {"token_endpoint_auth_methods_supported": ["private_key_jwt"]},
}


@pytest.mark.parametrize("case", METADATA)
async def test_unusable_metadata_fails_login(
    testbed: PageTestbed, upstream: Provider, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.metadata = METADATA[case] or {"issuer": f"{upstream.issuer}/"}
    await _check_login_fails(testbed, upstream, caplog)


@pytest.mark.parametrize("token", [None, 7, "x", "a.b.c"])
async def test_token_response_without_id_token_fails_login(
    testbed: PageTestbed, upstream: Provider, token: JsonValue, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.answer = {"id_token": token}
    await _check_login_fails(testbed, upstream, caplog)


async def test_unreachable_provider_fails_login(caplog: pytest.LogCaptureFixture) -> None:
    testbed = PageTestbed(users=Delegation("http://127.0.0.1:9", client_id="ours"))
    browser = testbed.browser()
    page = await browser.submit(await browser.get(testbed.path(testbed.interactions.add())), decision="allow")
    assert page.location == "https://app.example/callback?error=server_error&state=s"
    assert "delegated login failed" in caplog.text


# --- secrets ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.third-party-chaining", "auth.third-party-mapping", "auth.third-party-lifecycle")
@pytest.mark.spec("auth.third-party-credentials")
async def test_provider_tokens_are_neither_passed_on_nor_stored(testbed: PageTestbed, upstream: Provider) -> None:
    browser = testbed.browser()
    url = await redirect_to_provider(testbed, browser, testbed.interactions.add())
    page = await finish_login(upstream, browser, url)
    assert "upstream" not in f"{page.headers}{browser.set}{testbed.interactions.granted}"
    kept = await testbed.store.run(lambda connection: "\n".join(connection.iterdump()))
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
async def test_client_authentication_method_follows_metadata(
    upstream: Provider, secret: str | None, methods: list[JsonValue] | None, header: bool, field: bool
) -> None:
    upstream.metadata = {"token_endpoint_auth_methods_supported": methods}
    testbed = PageTestbed(users=Delegation(upstream.issuer, client_id="ours", client_secret=secret))
    browser = testbed.browser()
    page = await finish_login(
        upstream, browser, await redirect_to_provider(testbed, browser, testbed.interactions.add())
    )
    assert "code=" in page.location
    ((headers, fields),) = [(headers, fields) for method, _, headers, fields in upstream.requests if method == "POST"]
    assert ("authorization" in headers, "client_secret" in fields) == (header, field)


async def test_scope_openid_always_requested(upstream: Provider) -> None:
    testbed = PageTestbed(users=Delegation(upstream.issuer, client_id="ours", scopes=["email", "openid"]))
    url = await redirect_to_provider(testbed, testbed.browser(), testbed.interactions.add())
    assert parse_qs(urlsplit(url).query)["scope"] == ["openid email"]


@pytest.mark.parametrize(
    "issuer", ["http://login.example", "https://login.example/?a=b", "https://login.example#x", "login.example"]
)
def test_invalid_issuer_raises(issuer: str) -> None:
    with pytest.raises(UnsafeUrl):
        Delegation(issuer, client_id="ours")


def test_delegation_repr_hides_secret() -> None:
    shown = repr(Delegation("https://login.example", client_id="ours", client_secret="s3cret"))
    assert shown == "<Delegation https://login.example>"
