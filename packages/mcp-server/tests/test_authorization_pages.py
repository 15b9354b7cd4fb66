"""The pages of the authorization server: what a person can do there, and what nobody can do in a person's name."""

from __future__ import annotations

import attrs
import pytest
import trio.testing
from page_world import CLIENT, START, Browser, Shown, World, form_token

from mcp_server.auth.authorization_server.model.interaction import RegistrationKind, RequestingClient
from mcp_server.auth.authorization_server.pages import browser_sessions
from mcp_server.auth.authorization_server.pages.browser_sessions import BrowserSessions
from mcp_server.auth.authorization_server.pages.display_names import one_line, shown_client

LOCAL = attrs.evolve(CLIENT, redirect_uri="http://127.0.0.1:49152/callback", local_only=True)


@pytest.fixture
def world() -> World:
    return World()


def _cookies(browser: Browser) -> str:
    return "; ".join(f"{name}={value}" for name, value in browser.cookies.items())


async def consented(browser: Browser, id: str, *, remember: str = "no") -> Shown:
    """From the login to the end."""
    return await browser.submit(await browser.log_in(id), decision="allow", remember=remember)


# --- what a person does --------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.proxy-consent")
async def test_after_login_and_consent_the_browser_goes_back_with_a_code(world: World) -> None:
    id = world.interactions.add()
    browser = world.browser()
    page = await browser.get(world.path(id))
    assert (page.status, page.forms[0].action) == (200, f"{world.path(id)}/login")
    page = await browser.submit(page, username=" ada ", password="lovelace")
    assert (page.status, page.location) == (303, world.path(id))
    page = await browser.follow(page)
    assert page.status == 200
    page = await browser.submit(page, decision="allow")
    assert (page.status, page.location) == (303, f"https://app.example/callback?code=c-{id}&state=s")
    assert world.interactions.granted == [(id, "ada", ("notes:read", "notes:write"), START)]


@pytest.mark.spec("auth.cimd-as-show-redirect-host", "auth.cimd-show-redirect-host")
@pytest.mark.spec("security.proxy-consent-page", "security.proxy-consent-details")
async def test_the_consent_page_says_who_asks_for_what_and_where_the_answer_goes(world: World) -> None:
    page = await world.browser().log_in(world.interactions.add())
    for said in (
        "Allow “Notebook reader” to use mcp.example?",
        "Registered itself. The name is not verified.",
        "Redirects you to app.example",
        "Server https://mcp.example/mcp",
        "Read your notes notes:read",
        "Change your notes notes:write",
        "Logged in as ada",
    ):
        assert said in page.words


async def test_a_scope_can_be_left_out(world: World) -> None:
    browser, id = world.browser(), world.interactions.add()
    await browser.submit(await browser.log_in(id), decision="allow", drop=["notes:write"])
    assert world.interactions.granted[0][2] == ("notes:read",)


async def test_a_scope_that_was_not_asked_for_cannot_be_added(world: World) -> None:
    browser, id = world.browser(), world.interactions.add(scopes=["notes:read"])
    page = await browser.log_in(id)
    await browser.post(page.forms[-1].action, [*page.forms[-1].fields, ("scope", "notes:write"), ("decision", "allow")])
    assert world.interactions.granted[0][2] == ("notes:read",)


async def test_to_allow_nothing_of_what_is_asked_is_no_answer(world: World) -> None:
    browser, id = world.browser(), world.interactions.add()
    page = await browser.submit(await browser.log_in(id), decision="allow", drop=["notes:read", "notes:write"])
    assert page.status == 422
    assert "Select what you want to allow, or deny access" in page.words
    assert "scope" not in dict(page.forms[-1].fields)
    assert not world.interactions.granted
    assert (await browser.submit(page, decision="allow", scope="notes:read")).status == 303


async def test_a_request_without_scopes_can_be_allowed(world: World) -> None:
    browser, id = world.browser(), world.interactions.add(scopes=[])
    page = await browser.log_in(id)
    assert "without specific permissions" in page.words
    assert (await browser.submit(page, decision="allow")).status == 303
    assert world.interactions.granted[0][2] == ()


async def test_who_refuses_goes_back_with_an_error(world: World) -> None:
    browser, id = world.browser(), world.interactions.add()
    page = await browser.submit(await browser.log_in(id), decision="refuse")
    assert (page.status, page.location) == (303, "https://app.example/callback?error=access_denied&state=s")
    assert world.interactions.denied == [(id, "access_denied")]
    assert not world.interactions.granted


async def test_the_button_that_the_enter_key_presses_refuses(world: World) -> None:
    page = await world.browser().log_in(world.interactions.add())
    assert page.html.index('value="refuse"') < page.html.index('value="allow"')


async def test_a_decision_that_is_none_decides_nothing(world: World) -> None:
    browser, id = world.browser(), world.interactions.add()
    page = await browser.submit(await browser.log_in(id), decision="perhaps")
    assert page.status == 403
    assert not world.interactions.granted
    assert not world.interactions.denied


@pytest.mark.parametrize(("decision", "said"), [("allow", "You allowed access."), ("refuse", "was not granted")])
async def test_who_comes_back_to_an_answered_request_learns_how_it_was_answered(
    world: World, decision: str, said: str
) -> None:
    browser, id = world.browser(), world.interactions.add()
    form = await browser.log_in(id)
    await browser.submit(form, decision=decision)
    page = await browser.get(world.path(id))
    assert page.status == 410
    assert said in page.words
    again = await browser.submit(form, decision="allow")
    assert again.status == 410
    assert len(world.interactions.granted) + len(world.interactions.denied) == 1
    stranger = await world.browser().get(world.path(id))
    assert stranger.status == 404
    assert said not in stranger.words


async def test_two_requests_in_two_tabs_are_two_answers(world: World) -> None:
    browser = world.browser()
    one, two = world.interactions.add(), world.interactions.add(attrs.evolve(CLIENT, name="Another"))
    first, second = await browser.get(world.path(one)), await browser.get(world.path(two))
    first = await browser.follow(await browser.submit(first, username="ada", password="lovelace"))
    # The form of the other tab was made before the login.
    stale = await browser.submit(second, username="ada", password="lovelace")
    assert stale.status == 403
    assert stale.links == [world.path(two)]
    second = await browser.get(stale.links[0])
    assert "Allow “Another”" in second.words
    assert (await browser.submit(second, decision="refuse")).status == 303
    assert (await browser.submit(first, decision="allow")).status == 303
    assert [each[0] for each in world.interactions.granted] == [one]
    assert [each[0] for each in world.interactions.denied] == [two]


async def test_one_can_go_on_as_somebody_else(world: World) -> None:
    browser, id = world.browser(), world.interactions.add()
    page = await browser.log_in(id)
    old = dict(browser.cookies)
    page = await browser.follow(await browser.submit(page, form=0))
    assert browser.cookies != old
    assert page.forms[0].action.endswith("/login")
    assert (await consented(browser, id)).status == 303


async def test_logging_out_ends_the_session(world: World) -> None:
    browser = world.browser()
    assert "You are not logged in" in (await browser.get("/logout")).words
    await browser.log_in(world.interactions.add())
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
    ("name", "password", "status", "said"),
    [
        ("ada", "wrong", 403, "The user name or the password is incorrect"),
        ("nobody", "lovelace", 403, "The user name or the password is incorrect"),
        ("", "lovelace", 422, "Enter your user name"),
        ("ada", "", 422, "Enter your password"),
        ("  ", "", 422, "Enter your user name Enter your password"),
    ],
)
async def test_a_login_that_is_not_right_says_so_at_the_field(
    world: World, name: str, password: str, status: int, said: str
) -> None:
    browser, id = world.browser(), world.interactions.add()
    page = await browser.submit(await browser.get(world.path(id)), username=name, password=password)
    assert page.status == status
    assert said in page.words
    assert all(f'id="{link.removeprefix("#")}"' in page.html for link in page.links)
    assert dict(page.forms[0].fields)["username"] == name.strip()
    assert dict(page.forms[0].fields)["password"] == ""
    assert (await consented(browser, id)).status == 303


async def test_the_same_is_said_of_a_wrong_password_and_of_nobody(world: World) -> None:
    browser, id = world.browser(), world.interactions.add()
    one = await browser.submit(await browser.get(world.path(id)), username="ada", password="x")
    two = await browser.submit(await browser.get(world.path(id)), username="eve", password="x")
    assert one.html.replace("ada", "eve") == two.html


@pytest.mark.parametrize("name", ["ada", "nobody"])
async def test_passwords_cannot_be_tried_without_end(
    world: World, name: str, mock_clock: trio.testing.MockClock
) -> None:
    browser, id = world.browser(), world.interactions.add()
    for _ in range(10):
        page = await browser.submit(await browser.get(world.path(id)), username=name, password="x")
        assert page.status == 403
    asked = len(world.users.asked)  # type: ignore[union-attr]  # it is the one of this world
    for password in ("x", "lovelace"):
        page = await browser.submit(await browser.get(world.path(id)), username=name, password=password)
        assert page.status == 429
        assert page.headers["retry-after"] == "60"
        assert "Try again in 1 minute." in page.words
    assert len(world.users.asked) == asked  # type: ignore[union-attr]  # likewise
    # Another person is not kept out, and the time goes by, whatever is done to the clock of the system.
    page = await browser.submit(await browser.get(world.path(id)), username="ada2", password="x")
    assert page.status == 403
    world.time.now += 61
    page = await browser.submit(await browser.get(world.path(id)), username=name, password="lovelace")
    assert page.status == 429
    world.time.now -= 361
    mock_clock.jump(61)
    page = await browser.submit(await browser.get(world.path(id)), username="ada", password="lovelace")
    assert page.status == 303


async def test_what_was_right_does_not_count_as_an_attempt(world: World) -> None:
    for _ in range(30):
        browser = world.browser()
        page = await browser.get(world.path(world.interactions.add()))
        assert (await browser.submit(page, username="ada", password="lovelace")).status == 303


async def test_one_password_cannot_be_tried_on_many_names(world: World) -> None:
    browser, id = world.browser(), world.interactions.add()
    page = await browser.get(world.path(id))
    statuses = [
        (await browser.submit(page, username=f"user{number}", password="123456")).status for number in range(101)
    ]
    assert statuses == [*[403] * 100, 429]


# --- sessions ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("security.proxy-consent-cookie")
async def test_the_cookie_is_out_of_reach_of_scripts_other_sites_and_other_hosts(world: World) -> None:
    browser = world.browser()
    await browser.log_in(world.interactions.add())
    assert len(browser.set) == 2
    for text in browser.set:
        name, _, attributes = text.partition("=")
        assert name.startswith("__Host-")
        assert attributes.split("; ")[1:] == ["Path=/", "HttpOnly", "SameSite=Lax", "Secure"]


async def test_without_tls_the_cookie_has_a_name_of_its_own() -> None:
    one, two = World("http://127.0.0.1:4711"), World("http://127.0.0.1:4712")
    names = set()
    for world in (one, two):
        browser = world.browser()
        await browser.get(world.path(world.interactions.add()))
        names |= set(browser.cookies)
        assert browser.set[0].partition("; ")[2] == "Path=/; HttpOnly; SameSite=Lax"
    # Browsers do not tell ports apart.
    assert len(names) == 2
    assert not any(name.startswith("__") for name in names)


async def test_an_id_that_somebody_planted_is_worth_nothing_after_the_login(world: World) -> None:
    attacker, victim, id = world.browser(), world.browser(), world.interactions.add()
    await attacker.get(world.path(id))
    planted = dict(attacker.cookies)
    victim.cookies = dict(planted)
    page = await victim.log_in(id)
    assert victim.cookies != planted
    assert "You are not logged in" in (await attacker.get("/logout")).words
    assert (await attacker.get(world.path(id))).status == 403
    assert (await attacker.post(page.forms[-1].action, [("decision", "allow")])).status == 403
    assert (await victim.submit(page, decision="allow")).status == 303


async def test_an_id_that_was_made_up_is_replaced(world: World) -> None:
    browser, id = world.browser(), world.interactions.add()
    await browser.get(world.path(id))
    (name,) = browser.cookies
    other = world.browser()
    other.cookies = {name: "made-up"}
    await other.get(world.path(world.interactions.add()))
    assert other.cookies[name] != "made-up"


async def test_of_two_cookies_neither_is_taken(world: World) -> None:
    browser, id = world.browser(), world.interactions.add()
    await browser.log_in(id)
    (name,) = browser.cookies
    browser.cookies = {name: browser.cookies[name], f" {name}": "planted"}
    assert "You are not logged in" in (await browser.get("/logout")).words


@pytest.mark.spec("security.proxy-state")
async def test_a_request_belongs_to_the_browser_that_opened_it(world: World) -> None:
    mine, theirs, id = world.browser(), world.browser(), world.interactions.add()
    page = await mine.get(world.path(id))
    assert (await theirs.get(world.path(id))).status == 403
    await theirs.log_in(world.interactions.add())
    foreign = await theirs.get(world.path(id))
    assert foreign.status == 403
    assert "Notebook" not in foreign.words
    assert (await theirs.submit(page, username="ada", password="lovelace")).status == 403
    assert (await consented(mine, id)).status == 303


async def test_a_request_that_has_expired_is_over(world: World) -> None:
    browser, id = world.browser(), world.interactions.add(seconds=600)
    page = await browser.log_in(id)
    world.time.now += 600
    for over in (await browser.get(world.path(id)), await browser.submit(page, decision="allow")):
        assert over.status == 404
        assert "log in again" in over.words
    assert not world.interactions.granted


async def test_a_request_that_never_was_makes_no_session(world: World) -> None:
    browser = world.browser()
    assert (await browser.get("/interaction/unknown")).status == 404
    assert browser.cookies == {}


@pytest.mark.parametrize(("step", "steps"), [(1801, 1), (1700, 18)])
@pytest.mark.spec("auth.third-party-session-timeout")
async def test_a_session_ends_when_it_is_not_used_and_in_any_case_after_a_day(
    world: World, step: float, steps: int
) -> None:
    browser, id = world.browser(), world.interactions.add(seconds=1_000_000)
    page = await browser.log_in(id)
    for _ in range(steps):
        world.time.now += step
        await browser.get("/logout")
    assert "You are not logged in" in (await browser.get("/logout")).words
    over = await browser.submit(page, decision="allow")
    assert over.status == 403
    assert "Your session has ended" in over.words
    assert not world.interactions.granted


async def test_a_session_that_is_used_goes_on(world: World) -> None:
    browser = world.browser()
    await browser.log_in(world.interactions.add())
    for _ in range(16):
        world.time.now += 1700
        assert "You are logged in as ada" in (await browser.get("/logout")).words


async def test_sessions_of_strangers_make_room_for_others_and_not_those_of_people(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_sessions, "_MOST", 3)
    ada = world.browser()
    await ada.log_in(world.interactions.add())
    strangers = [world.browser() for _ in range(5)]
    for stranger in strangers:
        world.time.now += 1
        await stranger.get(world.path(world.interactions.add()))
    assert "You are logged in as ada" in (await ada.get("/logout")).words
    sessions = BrowserSessions(world.store, issuer=world.issuer, secure=True, clock=world.clock)
    kept = [await sessions.find(_cookies(stranger)) is not None for stranger in strangers]
    assert kept == [False, False, True, True, True]


async def test_sessions_that_are_over_are_not_kept(world: World) -> None:
    for _ in range(3):
        await world.browser().get(world.path(world.interactions.add()))
        world.time.now += 1801
    count = await world.store.run(
        lambda connection: connection.execute("SELECT count(*) FROM page_sessions").fetchone()
    )
    assert count == (1,)


async def test_the_store_has_nothing_that_could_be_used_as_a_cookie(world: World) -> None:
    browser = world.browser()
    await browser.log_in(world.interactions.add())
    kept = await world.store.run(lambda connection: "\n".join(connection.iterdump()))
    assert "ada" in kept
    assert not any(value in kept for value in browser.cookies.values())


@pytest.mark.parametrize("prompt", ["login", "select_account"])
async def test_a_client_can_ask_for_a_new_login(world: World, prompt: str) -> None:
    browser = world.browser()
    await browser.log_in(world.interactions.add())
    world.time.now += 5
    id = world.interactions.add(prompts=[prompt])
    page = await browser.get(world.path(id))
    assert page.forms[0].action.endswith("/login")
    forged = await browser.post(f"{world.path(id)}/consent", [*page.forms[0].fields, ("decision", "allow")])
    assert forged.status == 403
    assert (await consented(browser, id)).status == 303


async def test_the_consent_of_who_is_not_logged_in_is_none(world: World) -> None:
    browser, id = world.browser(), world.interactions.add()
    await browser.get(world.path(id))
    token = await form_token(world, browser, f"consent {id}")
    fields = [("form_token", token), ("decision", "allow"), ("scope", "notes:read")]
    assert (await browser.post(f"{world.path(id)}/consent", fields)).status == 403
    assert not world.interactions.granted


@pytest.mark.parametrize("decision", ["allow", "refuse"])
async def test_a_request_that_is_answered_elsewhere_meanwhile_is_over(
    world: World, decision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, id = world.browser(), world.interactions.add()
    page = await browser.log_in(id)

    async def too_late(id: str, **_: object) -> None:
        del world.interactions.waiting[id]

    monkeypatch.setattr(world.interactions, "grant", too_late)
    monkeypatch.setattr(world.interactions, "deny", too_late)
    assert (await browser.submit(page, decision=decision)).status == 404
    assert (await browser.get(world.path(id))).status == 404


# --- remembered consent --------------------------------------------------------------------------------------------


@pytest.mark.spec("security.proxy-per-client-consent")
@pytest.mark.spec("security.proxy-consent-registry")
async def test_a_consent_that_is_remembered_is_not_asked_for_again(world: World) -> None:
    browser = world.browser()
    await consented(browser, world.interactions.add(), remember="yes")
    id = world.interactions.add(scopes=["notes:read"])
    page = await browser.get(world.path(id))
    assert (page.status, page.location) == (303, f"https://app.example/callback?code=c-{id}&state=s")
    assert world.interactions.granted[-1][2] == ("notes:read",)


DIFFERENT = {
    "another client": attrs.evolve(CLIENT, client_id="c2"),
    "another redirect URI": attrs.evolve(CLIENT, redirect_uri="https://app.example/callback2"),
}


@pytest.mark.parametrize("change", DIFFERENT)
async def test_a_consent_holds_for_one_client_and_redirect_uri(world: World, change: str) -> None:
    browser = world.browser()
    await consented(browser, world.interactions.add(), remember="yes")
    page = await browser.get(world.path(world.interactions.add(DIFFERENT[change])))
    assert page.status == 200
    assert "Allow “Notebook reader”" in page.words


async def test_a_consent_holds_for_one_server_and_for_what_was_allowed(world: World) -> None:
    browser = world.browser()
    page = await browser.log_in(world.interactions.add())
    await browser.submit(page, decision="allow", remember="yes", drop=["notes:write"])
    for id in (
        world.interactions.add(),
        world.interactions.add(scopes=["notes:read"], resources=["https://mcp.example/other"]),
        world.interactions.add(scopes=["notes:read"], prompts=["consent"]),
    ):
        assert (await browser.get(world.path(id))).status == 200
    assert (await browser.get(world.path(world.interactions.add(scopes=["notes:read"])))).status == 303


async def test_a_consent_is_forgotten_in_time_and_when_it_is_refused(world: World) -> None:
    browser = world.browser()
    await consented(browser, world.interactions.add(), remember="yes")
    page = await browser.get(world.path(world.interactions.add(prompts=["consent"])))
    await browser.submit(page, decision="refuse")
    assert (await browser.get(world.path(world.interactions.add()))).status == 200
    await consented(world.browser(), world.interactions.add(), remember="yes")
    assert (await browser.get(world.path(world.interactions.add()))).status == 303
    world.time.now += 30 * 24 * 3600
    assert (await browser.log_in(world.interactions.add())).status == 200
    assert (await browser.get(world.path(world.interactions.add()))).status == 200


async def test_a_consent_is_not_used_on_the_way_from_the_login(world: World) -> None:
    await consented(world.browser(), world.interactions.add(), remember="yes")
    # A browser would not follow a redirect from the form for the password to another host.
    assert (await world.browser().log_in(world.interactions.add())).status == 200


@pytest.mark.parametrize(
    "uri", ["http://127.0.0.1:49152/callback", "https://localhost/callback", "com.example.app:/cb"]
)
async def test_consent_for_a_program_on_the_device_is_asked_for_each_time(world: World, uri: str) -> None:
    client = attrs.evolve(CLIENT, redirect_uri=uri, local_only=True)
    browser = world.browser()
    page = await browser.log_in(world.interactions.add(client))
    assert "Do not ask me again" not in page.words
    assert "Any program on the device can pretend to be this application" in page.words
    assert (await browser.submit(page, decision="allow", remember="yes")).status == 303
    assert (await browser.get(world.path(world.interactions.add(client)))).status == 200


# --- forms that are not ours ---------------------------------------------------------------------------------------

OUR_FORMS = ("login", "consent", "switch", "logout")

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


async def _form(world: World, browser: Browser, name: str) -> tuple[str, list[tuple[str, str]]]:
    """One of our forms, filled in so that it would work."""
    id = world.interactions.add()
    page = await browser.get(world.path(id))
    if name != "login":
        page = await browser.follow(await browser.submit(page, username="ada", password="lovelace"))
    if name == "logout":
        page = await browser.get("/logout")
    form = page.forms[0 if name == "switch" else -1]
    filled = {"login": [("username", "ada"), ("password", "lovelace")], "consent": [("decision", "allow")]}
    known = [pair for pair in form.fields if pair[0] not in ("username", "password")]
    return form.action, [*known, *filled.get(name, [])]


@pytest.mark.parametrize("name", OUR_FORMS)
@pytest.mark.parametrize("case", FOREIGN)
async def test_a_form_that_another_page_sends_does_nothing(world: World, name: str, case: str) -> None:
    browser = world.browser()
    action, fields = await _form(world, browser, name)
    before = dict(browser.cookies)
    page = await browser.post(action, fields, **FOREIGN[case])  # type: ignore[arg-type]  # headers by name
    assert page.status == 403
    assert "not from this site" in page.words
    assert browser.cookies == before
    assert not world.interactions.granted
    assert (await browser.post(action, fields)).status in (200, 303)


@pytest.mark.parametrize("name", OUR_FORMS)
async def test_a_form_works_for_what_says_nothing_of_its_origin(world: World, name: str) -> None:
    browser = world.browser()
    action, fields = await _form(world, browser, name)
    assert (await browser.post(action, fields, origin=None, fetch_site=None)).status in (200, 303)


@pytest.mark.parametrize("name", OUR_FORMS)
@pytest.mark.parametrize("token", [None, "", "0" * 64, "another session", "another form", "ünicode"])
async def test_a_form_without_the_token_of_its_session_does_nothing(world: World, name: str, token: str | None) -> None:
    browser = world.browser()
    action, fields = await _form(world, browser, name)
    wrong = [pair for pair in fields if pair[0] != "form_token"]
    if token == "another session":
        other = await _form(world, world.browser(), name)
        wrong.append(("form_token", dict(other[1])["form_token"]))
    elif token == "another form":
        second = world.interactions.add()
        page = await browser.get(world.path(second))
        wrong.append(("form_token", dict(page.forms[0].fields)["form_token"]))
    elif token is not None:
        wrong.append(("form_token", token))
    before = dict(browser.cookies)
    assert (await browser.post(action, wrong)).status == 403
    assert browser.cookies == before
    assert not world.interactions.granted
    assert (await browser.post(action, fields)).status in (200, 303)


@pytest.mark.parametrize("name", OUR_FORMS)
@pytest.mark.parametrize("case", ["a field twice", "another type", "too long", "too many"])
async def test_a_form_that_cannot_be_read_in_one_way_does_nothing(world: World, name: str, case: str) -> None:
    browser = world.browser()
    action, fields = await _form(world, browser, name)
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
    assert not world.interactions.granted
    assert (await browser.post(action, fields)).status in (200, 303)


# --- strangers' words ----------------------------------------------------------------------------------------------

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
async def test_what_a_client_says_of_itself_stays_text(world: World, name: str) -> None:
    plain = await world.browser().log_in(world.interactions.add())
    client = attrs.evolve(CLIENT, name=name, client_uri="https://app.example/" + "".join(name.split()))
    browser, id = world.browser(), world.interactions.add(client)
    for page in (await browser.get(world.path(id)), await browser.log_in(id)):
        assert page.status == 200
        assert "49" not in page.words.replace("notes", "")
        assert set(page.tags) <= set(plain.tags)
        assert one_line(name) in page.words or not one_line(name)
        assert not {"\u202e", "\u2066", "\x00", "\x07", "\r"} & set(page.html)
        assert "x" not in browser.cookies


@pytest.mark.parametrize("name", HOSTILE)
async def test_what_a_person_enters_stays_text(world: World, name: str) -> None:
    browser, id = world.browser(), world.interactions.add()
    given = name.encode("utf-8", "replace").decode()
    page = await browser.submit(await browser.get(world.path(id)), username=given, password="x")
    assert page.status == 403
    assert set(page.tags) <= {*(await browser.get(world.path(id))).tags, "h2", "ul", "li", "a", "div"}


KINDS = {
    RegistrationKind.CONFIGURED: "Configured by the operator of this server.",
    RegistrationKind.METADATA_DOCUMENT: "Described by app.example. Trust the name as far as you trust app.example.",
    RegistrationKind.DYNAMIC: "Registered itself. The name is not verified.",
}


@pytest.mark.parametrize("kind", RegistrationKind)
def test_it_is_said_what_the_name_of_a_client_is_worth(kind: RegistrationKind) -> None:
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
def test_it_is_said_where_the_browser_goes(uri: str, shown: str, note: str) -> None:
    client = shown_client(attrs.evolve(CLIENT, redirect_uri=uri))
    assert client.goes_to == shown
    assert client.goes_to_note.startswith(note)


def test_a_client_without_a_name_is_called_so() -> None:
    nameless = RequestingClient(
        client_id="c", name="\u202e", kind=RegistrationKind.DYNAMIC, redirect_uri="https://a.example/", local_only=False
    )
    assert shown_client(nameless).name == "An application without a name"
