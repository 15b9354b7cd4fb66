"""The pages of the authorization server: login, consent, sessions, and forged forms."""

from __future__ import annotations

import attrs
import pytest
from page_testbed import CLIENT, START, Browser, BrowserPage, PageTestbed, form_token

from mcp_server.auth.authorization_server.model.interaction import RegistrationKind, RequestingClient
from mcp_server.auth.authorization_server.pages import browser_sessions
from mcp_server.auth.authorization_server.pages.browser_sessions import BrowserSessions
from mcp_server.auth.authorization_server.pages.display_names import one_line, shown_client

LOCAL = attrs.evolve(CLIENT, redirect_uri="http://127.0.0.1:49152/callback", local_only=True)


@pytest.fixture
def testbed() -> PageTestbed:
    return PageTestbed()


def _cookies(browser: Browser) -> str:
    return "; ".join(f"{name}={value}" for name, value in browser.cookies.items())


async def consented(browser: Browser, id: str, *, remember: str = "no") -> BrowserPage:
    """Log in and allow the access."""
    return await browser.submit(await browser.log_in(id), decision="allow", remember=remember)


# --- login and consent ------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.proxy-consent")
async def test_login_and_consent_redirect_with_code(testbed: PageTestbed) -> None:
    id = testbed.interactions.add()
    browser = testbed.browser()
    page = await browser.get(testbed.path(id))
    assert (page.status, page.forms[0].action) == (200, f"{testbed.path(id)}/login")
    page = await browser.submit(page, username=" ada ", password="lovelace")
    assert (page.status, page.location) == (303, testbed.path(id))
    page = await browser.follow(page)
    assert page.status == 200
    page = await browser.submit(page, decision="allow")
    assert (page.status, page.location) == (303, f"https://app.example/callback?code=c-{id}&state=s")
    assert testbed.interactions.granted == [(id, "ada", ("notes:read", "notes:write"), START)]


@pytest.mark.spec("auth.cimd-as-show-redirect-host", "auth.cimd-show-redirect-host")
@pytest.mark.spec("security.proxy-consent-page", "security.proxy-consent-details")
async def test_consent_page_shows_client_scopes_and_redirect_host(testbed: PageTestbed) -> None:
    page = await testbed.browser().log_in(testbed.interactions.add())
    for expected in (
        "Allow “Notebook reader” to use mcp.example?",
        "Registered itself. The name is not verified.",
        "Redirects you to app.example",
        "Server https://mcp.example/mcp",
        "Read your notes notes:read",
        "Change your notes notes:write",
        "Logged in as ada",
    ):
        assert expected in page.words


async def test_deselected_scope_not_granted(testbed: PageTestbed) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    await browser.submit(await browser.log_in(id), decision="allow", drop=["notes:write"])
    assert testbed.interactions.granted[0][2] == ("notes:read",)


async def test_scope_not_requested_is_not_granted(testbed: PageTestbed) -> None:
    browser, id = testbed.browser(), testbed.interactions.add(scopes=["notes:read"])
    page = await browser.log_in(id)
    await browser.post(page.forms[-1].action, [*page.forms[-1].fields, ("scope", "notes:write"), ("decision", "allow")])
    assert testbed.interactions.granted[0][2] == ("notes:read",)


async def test_allow_without_scopes_returns_422(testbed: PageTestbed) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    page = await browser.submit(await browser.log_in(id), decision="allow", drop=["notes:read", "notes:write"])
    assert page.status == 422
    assert "Select what you want to allow, or deny access" in page.words
    assert "scope" not in dict(page.forms[-1].fields)
    assert not testbed.interactions.granted
    assert (await browser.submit(page, decision="allow", scope="notes:read")).status == 303


async def test_request_without_scopes_can_be_allowed(testbed: PageTestbed) -> None:
    browser, id = testbed.browser(), testbed.interactions.add(scopes=[])
    page = await browser.log_in(id)
    assert "without specific permissions" in page.words
    assert (await browser.submit(page, decision="allow")).status == 303
    assert testbed.interactions.granted[0][2] == ()


async def test_denied_consent_redirects_with_access_denied(testbed: PageTestbed) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    page = await browser.submit(await browser.log_in(id), decision="refuse")
    assert (page.status, page.location) == (303, "https://app.example/callback?error=access_denied&state=s")
    assert testbed.interactions.denied == [(id, "access_denied")]
    assert not testbed.interactions.granted


async def test_default_button_of_consent_form_denies(testbed: PageTestbed) -> None:
    page = await testbed.browser().log_in(testbed.interactions.add())
    assert page.html.index('value="refuse"') < page.html.index('value="allow"')


async def test_unknown_decision_returns_403(testbed: PageTestbed) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    page = await browser.submit(await browser.log_in(id), decision="perhaps")
    assert page.status == 403
    assert not testbed.interactions.granted
    assert not testbed.interactions.denied


@pytest.mark.parametrize(("decision", "expected"), [("allow", "You allowed access."), ("refuse", "was not granted")])
async def test_answered_request_revisited_shows_decision(testbed: PageTestbed, decision: str, expected: str) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    form = await browser.log_in(id)
    await browser.submit(form, decision=decision)
    page = await browser.get(testbed.path(id))
    assert page.status == 410
    assert expected in page.words
    again = await browser.submit(form, decision="allow")
    assert again.status == 410
    assert len(testbed.interactions.granted) + len(testbed.interactions.denied) == 1
    other_browser = await testbed.browser().get(testbed.path(id))
    assert other_browser.status == 404
    assert expected not in other_browser.words


async def test_requests_in_two_tabs_answered_independently(testbed: PageTestbed) -> None:
    browser = testbed.browser()
    one, two = testbed.interactions.add(), testbed.interactions.add(attrs.evolve(CLIENT, name="Another"))
    first, second = await browser.get(testbed.path(one)), await browser.get(testbed.path(two))
    first = await browser.follow(await browser.submit(first, username="ada", password="lovelace"))
    # The form of the other tab precedes the login.
    stale = await browser.submit(second, username="ada", password="lovelace")
    assert stale.status == 403
    assert stale.links == [testbed.path(two)]
    second = await browser.get(stale.links[0])
    assert "Allow “Another”" in second.words
    assert (await browser.submit(second, decision="refuse")).status == 303
    assert (await browser.submit(first, decision="allow")).status == 303
    assert [each[0] for each in testbed.interactions.granted] == [one]
    assert [each[0] for each in testbed.interactions.denied] == [two]


async def test_switch_user_shows_login_form(testbed: PageTestbed) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    page = await browser.log_in(id)
    old = dict(browser.cookies)
    page = await browser.follow(await browser.submit(page, form=0))
    assert browser.cookies != old
    assert page.forms[0].action.endswith("/login")
    assert (await consented(browser, id)).status == 303


async def test_logout_ends_browser_session(testbed: PageTestbed) -> None:
    browser = testbed.browser()
    assert "You are not logged in" in (await browser.get("/logout")).words
    await browser.log_in(testbed.interactions.add())
    kept = dict(browser.cookies)
    page = await browser.get("/logout")
    assert "You are logged in as ada." in page.words
    page = await browser.submit(page)
    assert "You are logged out" in page.words
    assert browser.cookies == {}
    browser.cookies = kept
    assert "You are not logged in" in (await browser.get("/logout")).words
    assert (await browser.post("/logout", [])).status == 200


# --- passwords -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "password", "status", "expected"),
    [
        ("ada", "wrong", 403, "The user name or the password is incorrect"),
        ("nobody", "lovelace", 403, "The user name or the password is incorrect"),
        ("", "lovelace", 422, "Enter your user name"),
        ("ada", "", 422, "Enter your password"),
        ("  ", "", 422, "Enter your user name Enter your password"),
    ],
)
async def test_invalid_login_shows_error_at_field(
    testbed: PageTestbed, name: str, password: str, status: int, expected: str
) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    page = await browser.submit(await browser.get(testbed.path(id)), username=name, password=password)
    assert page.status == status
    assert expected in page.words
    assert all(f'id="{link.removeprefix("#")}"' in page.html for link in page.links)
    assert dict(page.forms[0].fields)["username"] == name.strip()
    assert dict(page.forms[0].fields)["password"] == ""
    assert (await consented(browser, id)).status == 303


async def test_wrong_password_and_unknown_user_look_alike(testbed: PageTestbed) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    one = await browser.submit(await browser.get(testbed.path(id)), username="ada", password="x")
    two = await browser.submit(await browser.get(testbed.path(id)), username="eve", password="x")
    # Only the whole value: a random token of the page may contain the same letters.
    assert one.html.replace('"ada"', '"eve"') == two.html


@pytest.mark.parametrize("name", ["ada", "nobody"])
async def test_password_attempts_for_one_user_limited(testbed: PageTestbed, name: str) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    for _ in range(10):
        page = await browser.submit(await browser.get(testbed.path(id)), username=name, password="x")
        assert page.status == 403
    verified = len(testbed.users.verified_names)  # type: ignore[union-attr]  # the testbed uses OneUser
    for password in ("x", "lovelace"):
        page = await browser.submit(await browser.get(testbed.path(id)), username=name, password=password)
        assert page.status == 429
        assert page.headers["retry-after"] == "60"
        assert "Try again in 1 minute." in page.words
    assert len(testbed.users.verified_names) == verified  # type: ignore[union-attr]  # the testbed uses OneUser
    # Another user is not affected, and setting the clock back does not prolong the delay.
    page = await browser.submit(await browser.get(testbed.path(id)), username="ada2", password="x")
    assert page.status == 403
    testbed.time.now -= 300
    page = await browser.submit(await browser.get(testbed.path(id)), username=name, password="lovelace")
    assert page.status == 429
    testbed.time.now += 61
    page = await browser.submit(await browser.get(testbed.path(id)), username="ada", password="lovelace")
    assert page.status == 303


async def test_successful_logins_are_not_limited(testbed: PageTestbed) -> None:
    for _ in range(30):
        browser = testbed.browser()
        page = await browser.get(testbed.path(testbed.interactions.add()))
        assert (await browser.submit(page, username="ada", password="lovelace")).status == 303


async def test_attempts_of_one_password_for_many_users_limited(testbed: PageTestbed) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    page = await browser.get(testbed.path(id))
    statuses = [
        (await browser.submit(page, username=f"user{number}", password="123456")).status for number in range(101)
    ]
    assert statuses == [*[403] * 100, 429]


# --- sessions ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("security.proxy-consent-cookie")
async def test_session_cookie_has_host_prefix_httponly_samesite_secure(testbed: PageTestbed) -> None:
    browser = testbed.browser()
    await browser.log_in(testbed.interactions.add())
    assert len(browser.set) == 2
    for text in browser.set:
        name, _, attributes = text.partition("=")
        assert name.startswith("__Host-")
        assert attributes.split("; ")[1:] == ["Path=/", "HttpOnly", "SameSite=Lax", "Secure"]


async def test_session_cookie_without_tls_named_by_port() -> None:
    one, two = PageTestbed("http://127.0.0.1:4711"), PageTestbed("http://127.0.0.1:4712")
    names = set()
    for testbed in (one, two):
        browser = testbed.browser()
        await browser.get(testbed.path(testbed.interactions.add()))
        names |= set(browser.cookies)
        assert browser.set[0].partition("; ")[2] == "Path=/; HttpOnly; SameSite=Lax"
    # Browsers ignore the port of a cookie's host.
    assert len(names) == 2
    assert not any(name.startswith("__") for name in names)


async def test_session_id_set_by_attacker_replaced_at_login(testbed: PageTestbed) -> None:
    attacker, victim, id = testbed.browser(), testbed.browser(), testbed.interactions.add()
    await attacker.get(testbed.path(id))
    planted = dict(attacker.cookies)
    victim.cookies = dict(planted)
    page = await victim.log_in(id)
    assert victim.cookies != planted
    assert "You are not logged in" in (await attacker.get("/logout")).words
    assert (await attacker.get(testbed.path(id))).status == 403
    assert (await attacker.post(page.forms[-1].action, [("decision", "allow")])).status == 403
    assert (await victim.submit(page, decision="allow")).status == 303


async def test_unknown_session_id_replaced(testbed: PageTestbed) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    await browser.get(testbed.path(id))
    (name,) = browser.cookies
    other = testbed.browser()
    other.cookies = {name: "made-up"}
    await other.get(testbed.path(testbed.interactions.add()))
    assert other.cookies[name] != "made-up"


async def test_duplicate_session_cookie_ignored(testbed: PageTestbed) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    await browser.log_in(id)
    (name,) = browser.cookies
    browser.cookies = {name: browser.cookies[name], f" {name}": "planted"}
    assert "You are not logged in" in (await browser.get("/logout")).words


@pytest.mark.spec("security.proxy-state")
async def test_request_opened_in_other_browser_returns_403(testbed: PageTestbed) -> None:
    mine, theirs, id = testbed.browser(), testbed.browser(), testbed.interactions.add()
    page = await mine.get(testbed.path(id))
    assert (await theirs.get(testbed.path(id))).status == 403
    await theirs.log_in(testbed.interactions.add())
    foreign = await theirs.get(testbed.path(id))
    assert foreign.status == 403
    assert "Notebook" not in foreign.words
    assert (await theirs.submit(page, username="ada", password="lovelace")).status == 403
    assert (await consented(mine, id)).status == 303


async def test_expired_request_returns_404(testbed: PageTestbed) -> None:
    browser, id = testbed.browser(), testbed.interactions.add(seconds=600)
    page = await browser.log_in(id)
    testbed.time.now += 600
    for over in (await browser.get(testbed.path(id)), await browser.submit(page, decision="allow")):
        assert over.status == 404
        assert "log in again" in over.words
    assert not testbed.interactions.granted


async def test_unknown_request_sets_no_cookie(testbed: PageTestbed) -> None:
    browser = testbed.browser()
    assert (await browser.get("/interaction/unknown")).status == 404
    assert browser.cookies == {}


@pytest.mark.parametrize(("step", "steps"), [(1801, 1), (1700, 18)])
@pytest.mark.spec("auth.third-party-session-timeout")
async def test_browser_session_ends_when_idle_or_after_one_day(testbed: PageTestbed, step: float, steps: int) -> None:
    browser, id = testbed.browser(), testbed.interactions.add(seconds=1_000_000)
    page = await browser.log_in(id)
    for _ in range(steps):
        testbed.time.now += step
        await browser.get("/logout")
    assert "You are not logged in" in (await browser.get("/logout")).words
    over = await browser.submit(page, decision="allow")
    assert over.status == 403
    assert "Your session has ended" in over.words
    assert not testbed.interactions.granted


async def test_used_browser_session_continues(testbed: PageTestbed) -> None:
    browser = testbed.browser()
    await browser.log_in(testbed.interactions.add())
    for _ in range(16):
        testbed.time.now += 1700
        assert "You are logged in as ada" in (await browser.get("/logout")).words


async def test_session_table_full_evicts_anonymous_sessions_first(
    testbed: PageTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_sessions, "_MOST", 3)
    ada = testbed.browser()
    await ada.log_in(testbed.interactions.add())
    anonymous = [testbed.browser() for _ in range(5)]
    for other_browser in anonymous:
        testbed.time.now += 1
        await other_browser.get(testbed.path(testbed.interactions.add()))
    assert "You are logged in as ada" in (await ada.get("/logout")).words
    sessions = BrowserSessions(testbed.store, issuer=testbed.issuer, secure=True, clock=testbed.clock)
    kept = [await sessions.find(_cookies(other_browser)) is not None for other_browser in anonymous]
    assert kept == [False, False, True, True, True]


async def test_expired_browser_sessions_are_deleted(testbed: PageTestbed) -> None:
    for _ in range(3):
        await testbed.browser().get(testbed.path(testbed.interactions.add()))
        testbed.time.now += 1801
    count = await testbed.store.run(
        lambda connection: connection.execute("SELECT count(*) FROM page_sessions").fetchone()
    )
    assert count == (1,)


async def test_store_has_no_cookie_values(testbed: PageTestbed) -> None:
    browser = testbed.browser()
    await browser.log_in(testbed.interactions.add())
    kept = await testbed.store.run(lambda connection: "\n".join(connection.iterdump()))
    assert "ada" in kept
    assert not any(value in kept for value in browser.cookies.values())


@pytest.mark.parametrize("prompt", ["login", "select_account"])
async def test_prompt_requires_new_login(testbed: PageTestbed, prompt: str) -> None:
    browser = testbed.browser()
    await browser.log_in(testbed.interactions.add())
    testbed.time.now += 5
    id = testbed.interactions.add(prompts=[prompt])
    page = await browser.get(testbed.path(id))
    assert page.forms[0].action.endswith("/login")
    forged = await browser.post(f"{testbed.path(id)}/consent", [*page.forms[0].fields, ("decision", "allow")])
    assert forged.status == 403
    assert (await consented(browser, id)).status == 303


async def test_consent_without_login_returns_403(testbed: PageTestbed) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    await browser.get(testbed.path(id))
    token = await form_token(testbed, browser, f"consent {id}")
    fields = [("form_token", token), ("decision", "allow"), ("scope", "notes:read")]
    assert (await browser.post(f"{testbed.path(id)}/consent", fields)).status == 403
    assert not testbed.interactions.granted


@pytest.mark.parametrize("decision", ["allow", "refuse"])
async def test_request_answered_elsewhere_returns_404(
    testbed: PageTestbed, decision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    page = await browser.log_in(id)

    async def too_late(id: str, **_: object) -> None:
        del testbed.interactions.pending[id]

    monkeypatch.setattr(testbed.interactions, "grant", too_late)
    monkeypatch.setattr(testbed.interactions, "deny", too_late)
    assert (await browser.submit(page, decision=decision)).status == 404
    assert (await browser.get(testbed.path(id))).status == 404


# --- remembered consent --------------------------------------------------------------------------------------------


@pytest.mark.spec("security.proxy-per-client-consent")
@pytest.mark.spec("security.proxy-consent-registry")
async def test_remembered_consent_skips_consent_page(testbed: PageTestbed) -> None:
    browser = testbed.browser()
    await consented(browser, testbed.interactions.add(), remember="yes")
    id = testbed.interactions.add(scopes=["notes:read"])
    page = await browser.get(testbed.path(id))
    assert (page.status, page.location) == (303, f"https://app.example/callback?code=c-{id}&state=s")
    assert testbed.interactions.granted[-1][2] == ("notes:read",)


DIFFERENT = {
    "another client": attrs.evolve(CLIENT, client_id="c2"),
    "another redirect URI": attrs.evolve(CLIENT, redirect_uri="https://app.example/callback2"),
}


@pytest.mark.parametrize("change", DIFFERENT)
async def test_consent_for_other_client_or_redirect_uri_is_requested(testbed: PageTestbed, change: str) -> None:
    browser = testbed.browser()
    await consented(browser, testbed.interactions.add(), remember="yes")
    page = await browser.get(testbed.path(testbed.interactions.add(DIFFERENT[change])))
    assert page.status == 200
    assert "Allow “Notebook reader”" in page.words


async def test_consent_for_other_resource_scope_or_prompt_is_requested(testbed: PageTestbed) -> None:
    browser = testbed.browser()
    page = await browser.log_in(testbed.interactions.add())
    await browser.submit(page, decision="allow", remember="yes", drop=["notes:write"])
    for id in (
        testbed.interactions.add(),
        testbed.interactions.add(scopes=["notes:read"], resources=["https://mcp.example/other"]),
        testbed.interactions.add(scopes=["notes:read"], prompts=["consent"]),
    ):
        assert (await browser.get(testbed.path(id))).status == 200
    assert (await browser.get(testbed.path(testbed.interactions.add(scopes=["notes:read"])))).status == 303


async def test_remembered_consent_expires_and_is_revoked_by_denial(testbed: PageTestbed) -> None:
    browser = testbed.browser()
    await consented(browser, testbed.interactions.add(), remember="yes")
    page = await browser.get(testbed.path(testbed.interactions.add(prompts=["consent"])))
    await browser.submit(page, decision="refuse")
    assert (await browser.get(testbed.path(testbed.interactions.add()))).status == 200
    await consented(testbed.browser(), testbed.interactions.add(), remember="yes")
    assert (await browser.get(testbed.path(testbed.interactions.add()))).status == 303
    testbed.time.now += 30 * 24 * 3600
    assert (await browser.log_in(testbed.interactions.add())).status == 200
    assert (await browser.get(testbed.path(testbed.interactions.add()))).status == 200


async def test_remembered_consent_not_used_directly_after_login(testbed: PageTestbed) -> None:
    await consented(testbed.browser(), testbed.interactions.add(), remember="yes")
    # A browser does not follow a redirect from the password form to another host.
    assert (await testbed.browser().log_in(testbed.interactions.add())).status == 200


@pytest.mark.parametrize(
    "uri", ["http://127.0.0.1:49152/callback", "https://localhost/callback", "com.example.app:/cb"]
)
async def test_consent_for_local_client_is_not_remembered(testbed: PageTestbed, uri: str) -> None:
    client = attrs.evolve(CLIENT, redirect_uri=uri, local_only=True)
    browser = testbed.browser()
    page = await browser.log_in(testbed.interactions.add(client))
    assert "Do not ask me again" not in page.words
    assert "Any program on the device can pretend to be this application" in page.words
    assert (await browser.submit(page, decision="allow", remember="yes")).status == 303
    assert (await browser.get(testbed.path(testbed.interactions.add(client)))).status == 200


# --- forged and invalid forms -----------------------------------------------------------------------------------------

FORMS = ("login", "consent", "switch", "logout")

FOREIGN: dict[str, dict[str, str | None]] = {
    "another origin": {"origin": "https://evil.example"},
    "another origin, and an old browser": {"origin": "https://evil.example", "fetch_site": None},
    "another port": {"origin": "https://as.example:8443"},
    "another scheme": {"origin": "http://as.example"},
    "a sandbox": {"origin": "null", "fetch_site": "cross-site"},
    "a sandbox, and an old browser": {"origin": "null", "fetch_site": None},
    "another site": {"origin": None, "fetch_site": "cross-site"},
    "another host of the site": {"origin": None, "fetch_site": "same-site"},
    "no page at all": {"fetch_site": "none"},
}


async def _form(testbed: PageTestbed, browser: Browser, name: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the action and the fields of one form, completed so that it would succeed."""
    id = testbed.interactions.add()
    page = await browser.get(testbed.path(id))
    if name != "login":
        page = await browser.follow(await browser.submit(page, username="ada", password="lovelace"))
    if name == "logout":
        page = await browser.get("/logout")
    form = page.forms[0 if name == "switch" else -1]
    filled = {"login": [("username", "ada"), ("password", "lovelace")], "consent": [("decision", "allow")]}
    known = [pair for pair in form.fields if pair[0] not in ("username", "password")]
    return form.action, [*known, *filled.get(name, [])]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("case", FOREIGN)
async def test_form_from_other_origin_returns_403(testbed: PageTestbed, name: str, case: str) -> None:
    browser = testbed.browser()
    action, fields = await _form(testbed, browser, name)
    before = dict(browser.cookies)
    page = await browser.post(action, fields, **FOREIGN[case])  # type: ignore[arg-type]  # headers by name
    assert page.status == 403
    assert "not from this site" in page.words
    assert browser.cookies == before
    assert not testbed.interactions.granted
    assert (await browser.post(action, fields)).status in (200, 303)


@pytest.mark.parametrize("name", FORMS)
async def test_form_without_origin_headers_accepted(testbed: PageTestbed, name: str) -> None:
    browser = testbed.browser()
    action, fields = await _form(testbed, browser, name)
    assert (await browser.post(action, fields, origin=None, fetch_site=None)).status in (200, 303)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("token", [None, "", "0" * 64, "another session", "another form", "ünicode"])
async def test_form_without_token_of_session_returns_403(testbed: PageTestbed, name: str, token: str | None) -> None:
    browser = testbed.browser()
    action, fields = await _form(testbed, browser, name)
    wrong = [pair for pair in fields if pair[0] != "form_token"]
    if token == "another session":
        other = await _form(testbed, testbed.browser(), name)
        wrong.append(("form_token", dict(other[1])["form_token"]))
    elif token == "another form":
        second = testbed.interactions.add()
        page = await browser.get(testbed.path(second))
        wrong.append(("form_token", dict(page.forms[0].fields)["form_token"]))
    elif token is not None:
        wrong.append(("form_token", token))
    before = dict(browser.cookies)
    assert (await browser.post(action, wrong)).status == 403
    assert browser.cookies == before
    assert not testbed.interactions.granted
    assert (await browser.post(action, fields)).status in (200, 303)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("case", ["a field twice", "another type", "too long", "too many"])
async def test_form_ambiguous_or_too_large_is_rejected(testbed: PageTestbed, name: str, case: str) -> None:
    browser = testbed.browser()
    action, fields = await _form(testbed, browser, name)
    content_type = "application/x-www-form-urlencoded"
    wrong = list(fields)
    match case:
        case "a field twice":
            wrong.append(("form_token", "x"))
        case "another type":
            content_type = "text/plain"
        case "too long":
            wrong.append(("more", "x" * 20_000))
        case _:
            wrong += [(f"more{number}", "") for number in range(200)]
    assert (await browser.post(action, wrong, content_type=content_type)).status in (400, 403)
    assert not testbed.interactions.granted
    assert (await browser.post(action, fields)).status in (200, 303)


# --- hostile names ----------------------------------------------------------------------------------------------------

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title><h1>Log in again</h1>",
    "'; DROP TABLE page_sessions; --",
    "{{ 7 * 7 }}{% include 'x' %}",
    "&lt;b&gt;",
    "javascript:alert(1)",
    "a" * 500,
    "line\r\nSet-Cookie: x=y",
    "right\u202eto left",
    "\u2066isolate",
    "nul\x00 bell\x07",
    "\ud800",
    "مفكرة",
    "\uff26\uff35\uff2c\uff2c",
)


@pytest.mark.parametrize("name", HOSTILE)
async def test_client_name_and_uri_are_escaped(testbed: PageTestbed, name: str) -> None:
    plain = await testbed.browser().log_in(testbed.interactions.add())
    client = attrs.evolve(CLIENT, name=name, client_uri="https://app.example/" + "".join(name.split()))
    browser, id = testbed.browser(), testbed.interactions.add(client)
    for page in (await browser.get(testbed.path(id)), await browser.log_in(id)):
        assert page.status == 200
        assert "49" not in page.words.replace("notes", "")
        assert set(page.tags) <= set(plain.tags)
        assert one_line(name) in page.words or not one_line(name)
        assert not {"\u202e", "\u2066", "\x00", "\x07", "\r"} & set(page.html)
        assert "x" not in browser.cookies


@pytest.mark.parametrize("name", HOSTILE)
async def test_user_name_is_escaped(testbed: PageTestbed, name: str) -> None:
    browser, id = testbed.browser(), testbed.interactions.add()
    given = name.encode("utf-8", "replace").decode()
    page = await browser.submit(await browser.get(testbed.path(id)), username=given, password="x")
    assert page.status == 403
    assert set(page.tags) <= {*(await browser.get(testbed.path(id))).tags, "h2", "ul", "li", "a", "div"}


KINDS = {
    RegistrationKind.CONFIGURED: "Configured by the operator of this server.",
    RegistrationKind.METADATA_DOCUMENT: "Described by app.example. Trust the name as far as you trust app.example.",
    RegistrationKind.DYNAMIC: "Registered itself. The name is not verified.",
}


@pytest.mark.parametrize("kind", RegistrationKind)
def test_registration_kind_shows_how_name_was_verified(kind: RegistrationKind) -> None:
    client = attrs.evolve(CLIENT, kind=kind, client_id="https://app.example/client.json")
    assert shown_client(client).vouching == KINDS[kind]


@pytest.mark.spec("auth.cimd-localhost-warning")
@pytest.mark.parametrize(
    ("uri", "shown", "note"),
    [
        ("https://app.example/cb", "app.example", ""),
        ("https://app.example:8443/cb", "app.example:8443", ""),
        ("http://127.0.0.1:4711/cb", "127.0.0.1:4711", "A program on your own device."),
        ("http://[::1]:4711/cb", "[::1]:4711", "A program on your own device."),
        ("com.example.app:/cb", "com.example.app:", "An application on your device"),
        ("https://good.example@evil.example/", "https:", "An application on your device"),
    ],
)
def test_redirect_target_is_shown(uri: str, shown: str, note: str) -> None:
    client = shown_client(attrs.evolve(CLIENT, redirect_uri=uri))
    assert client.goes_to == shown
    assert client.goes_to_note.startswith(note)


def test_client_without_name_has_default_name() -> None:
    nameless = RequestingClient(
        client_id="c", name="\u202e", kind=RegistrationKind.DYNAMIC, redirect_uri="https://a.example/", local_only=False
    )
    assert shown_client(nameless).name == "An application without a name"
