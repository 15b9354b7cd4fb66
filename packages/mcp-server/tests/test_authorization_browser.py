"""The authorization server in a real browser: what people see, and what pages that mean harm cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from browser_testbed import Place, place

from documentation.chromium import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def here(browser: Browser) -> Iterator[Place]:
    with place(browser) as opened:
        yield opened
        for context in browser.contexts:
            context.close()


def watched(page: Page) -> list[str]:
    """What the browser complains about: what a policy forbids, above all."""
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    return complaints


def heading(page: Page) -> str:
    return page.get_by_role("heading", level=1).inner_text()


def log_in(page: Page, password: str = "lovelace") -> None:
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def consent(here: Place, **changes: str | None) -> Page:
    """A page where somebody logged in, and may allow."""
    page = here.page()
    page.goto(here.ask(**changes))
    log_in(page)
    assert heading(page).startswith("Allow")
    return page


# --- what people do ------------------------------------------------------------------------------------------------


def test_one_logs_in_allows_and_is_back_at_the_client_with_a_code(here: Place) -> None:
    page = here.page()
    complaints = watched(page)
    page.goto(here.ask())
    assert heading(page) == "Log in"
    log_in(page)
    assert heading(page) == "Allow “Notebook reader” to use mcp.example?"
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{here.client.url}/callback?*")
    assert heading(page) == "Back at the client"
    answer = here.answer()
    assert (set(answer), answer["state"], answer["iss"]) == ({"code", "state", "iss"}, "s1", here.server.issuer)
    assert complaints == []


def test_the_pages_have_their_colours(here: Place) -> None:
    page = here.page()
    page.goto(here.ask())
    # The policy lets the stylesheet in.
    assert page.evaluate("getComputedStyle(document.querySelector('main')).borderTopStyle") == "solid"


def test_who_refuses_is_back_at_the_client_with_an_error(here: Place) -> None:
    page = consent(here)
    page.get_by_role("button", name="Deny").click()
    page.wait_for_url(f"{here.client.url}/callback?*")
    answer = here.answer()
    assert (answer["error"], answer["state"]) == ("access_denied", "s1")
    assert "code" not in answer


def test_a_wrong_password_can_be_put_right(here: Place) -> None:
    page = here.page()
    page.goto(here.ask())
    log_in(page, "byron")
    assert page.title().startswith("Error: Log in")
    # The summary has the focus, and leads to the field.
    assert page.evaluate("document.activeElement.getAttribute('role')") == "alert"
    page.get_by_role("link", name="The user name or the password is incorrect").click()
    assert page.evaluate("document.activeElement.id") == "password"
    assert page.get_by_label("User name").input_value() == "ada"
    assert page.get_by_label("Password").input_value() == ""
    log_in(page)
    assert heading(page).startswith("Allow")


def test_only_what_stays_ticked_is_allowed(here: Place) -> None:
    page = consent(here)
    page.get_by_label("Change and delete your notes").uncheck()
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{here.client.url}/callback?*")

    async def kept() -> list[tuple[object, ...]]:
        return await here.server.store.run(lambda connection: connection.execute("SELECT scope FROM grants").fetchall())

    assert here.call(kept) == [("notes:read",)]


def test_everything_can_be_done_by_keyboard_alone(here: Place) -> None:
    page = here.page()
    page.goto(here.ask())

    def to(role: str, name: str) -> None:
        for _ in range(12):
            page.keyboard.press("Tab")
            if page.get_by_role(role, name=name).evaluate("element => element === document.activeElement"):  # type: ignore[arg-type]  # a role is a word
                shown = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert shown == "solid"
                return
        raise AssertionError(f"{name} cannot be reached")

    to("textbox", "User name")
    page.keyboard.type("ada")
    to("textbox", "Password")
    page.keyboard.type("lovelace")
    page.keyboard.press("Enter")
    page.wait_for_selector("fieldset")
    to("checkbox", "Change and delete your notes")
    page.keyboard.press("Space")
    to("button", "Allow")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{here.client.url}/callback?*")
    assert "code" in here.answer()


def test_no_script_is_needed(here: Place) -> None:
    page = here.browser.new_context(java_script_enabled=False).new_page()
    page.goto(here.ask())
    log_in(page)
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{here.client.url}/callback?*")
    assert "code" in here.answer()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read_on_a_small_screen_by_day_and_by_night(here: Place, scheme: str) -> None:
    page = here.browser.new_context(
        viewport={"width": 320, "height": 640},
        color_scheme="dark" if scheme == "dark" else "light",
    ).new_page()
    page.goto(here.ask())
    log_in(page, "byron")
    _readable(page)
    log_in(page)
    _readable(page)
    page.goto(f"{here.server.issuer}/authorize")
    _readable(page)


def _readable(page: Page) -> None:
    """Nothing is wider than the screen, and all text stands out. Spec: WCAG 2.2, 1.4.3 and 1.4.10"""
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    weak = page.evaluate(_CONTRAST)
    assert weak == []


_CONTRAST = """() => {
  const part = value => { value /= 255; return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; };
  const light = colour => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map(Number);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ground = element => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const weak = [];
  for (const element of document.body.querySelectorAll('*')) {
    const text = [...element.childNodes].filter(node => node.nodeType === 3).map(node => node.data.trim()).join('');
    if (!text) continue;
    const pair = [light(getComputedStyle(element).color), light(ground(element))].sort((a, b) => b - a);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (contrast < 4.5) weak.push(`${text}: ${contrast.toFixed(2)}`);
  }
  return weak;
}"""


# --- ways back and aside -------------------------------------------------------------------------------------------


def test_who_goes_back_after_allowing_learns_that_it_is_done(here: Place) -> None:
    page = consent(here)
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{here.client.url}/callback?*")
    page.go_back()
    assert heading(page) == "You have already decided"
    page.reload()
    assert heading(page) == "You have already decided"
    assert len(here.client.asked) == 1


def test_two_tabs_do_not_get_in_each_others_way(here: Place) -> None:
    one = here.page()
    two = one.context.new_page()
    one.goto(here.ask(state="one"))
    two.goto(here.ask(state="two"))
    log_in(one)
    log_in(two)
    assert heading(two) == "This page is out of date"
    two.get_by_role("link", name="Continue with your current login").click()
    two.get_by_role("button", name="Deny").click()
    two.wait_for_url(f"{here.client.url}/callback?*")
    one.get_by_role("button", name="Allow").click()
    one.wait_for_url(f"{here.client.url}/callback?*")
    assert "error=access_denied" in two.url
    assert "state=two" in two.url
    assert "code=" in one.url
    assert "state=one" in one.url


def test_a_session_that_is_over_allows_nothing(here: Place) -> None:
    page = consent(here)
    here.ahead[0] += 31 * 60
    page.get_by_role("button", name="Allow").click()
    assert heading(page) == "This request has ended"
    page.goto(here.ask())
    assert heading(page) == "Log in"
    assert here.client.asked == []


def test_a_cookie_that_is_gone_allows_nothing(here: Place) -> None:
    page = consent(here)
    page.context.clear_cookies()
    page.get_by_role("button", name="Allow").click()
    assert heading(page) == "This page has expired"
    assert here.client.asked == []


def test_who_has_logged_out_logs_in_again(here: Place) -> None:
    page = consent(here)
    page.goto(f"{here.server.issuer}/logout")
    page.get_by_role("button", name="Log out").click()
    assert heading(page) == "You are logged out"
    page.goto(here.ask())
    assert heading(page) == "Log in"


def test_who_is_logged_in_may_be_somebody_else(here: Place) -> None:
    page = consent(here)
    page.get_by_role("button", name="Use another account").click()
    assert heading(page) == "Log in"
    log_in(page)
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{here.client.url}/callback?*")


def test_a_link_to_a_request_that_somebody_else_opened_leads_nowhere(here: Place) -> None:
    mine, theirs = consent(here), here.page()
    theirs.goto(mine.url)
    assert heading(theirs) == "This page has expired"
    assert "Notebook" not in theirs.content()
    mine.get_by_role("button", name="Allow").click()
    mine.wait_for_url(f"{here.client.url}/callback?*")


# --- redirects -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("security.proxy-redirect-exact")
@pytest.mark.parametrize(
    "changes",
    [
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": "javascript:alert(1)"},
        {"client_id": "<script>alert(1)</script>"},
        {"client_id": None},
    ],
)
def test_an_unknown_client_or_redirect_uri_is_an_error_here_and_not_a_redirect(
    here: Place, changes: dict[str, str | None]
) -> None:
    page = here.page()
    went: list[str] = []
    page.on("request", lambda request: went.append(urlsplit(request.url).netloc))
    answer = page.goto(here.ask(**changes))
    assert answer is not None
    assert answer.status == 400
    assert heading(page) == "Authorization request rejected"
    assert set(went) == {urlsplit(here.server.issuer).netloc}
    assert "evil" not in page.content()
    assert "alert" not in page.content()


def test_the_client_may_send_the_browser_on_from_its_redirect_uri(here: Place) -> None:
    here.client.redirects["/callback"] = f"{here.harm.url}/welcome"
    page = consent(here)
    complaints = watched(page)
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{here.harm.url}/welcome")
    assert "code" in here.answer()
    assert complaints == []


def test_the_redirect_uri_may_be_an_ipv6_address(here: Place) -> None:
    uri = next(uri for uri in here.server._settings.clients["reader"].redirect_uris if "[::1]" in uri)
    page = consent(here, redirect_uri=uri)
    complaints = watched(page)
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{uri}?*")
    assert complaints == []


def test_a_client_that_opened_a_window_hears_from_it(here: Place) -> None:
    here.client.pages["/app"] = "<!doctype html><title>App</title><h1>App</h1>"
    here.client.pages["/callback"] = (
        "<!doctype html><script>opener.postMessage(location.search, location.origin)</script>"
    )
    page = here.page()
    page.goto(f"{here.client.url}/app")
    page.evaluate("addEventListener('message', event => { document.title = event.data; })")
    with page.expect_popup() as opened:
        page.evaluate("url => { window.open(url); }", here.ask())
    log_in(opened.value)
    opened.value.get_by_role("button", name="Allow").click()
    page.wait_for_function("document.title !== 'App'")
    assert "code=" in page.title()


def test_nobody_learns_where_the_browser_came_from(here: Place) -> None:
    page = consent(here)
    seen: list[str | None] = []
    page.on("request", lambda request: seen.append(request.headers.get("referer")))
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{here.client.url}/callback?*")
    assert page.evaluate("document.referrer") == ""
    assert all(each is None or each.startswith(here.server.issuer) for each in seen)


# --- pages that mean harm ------------------------------------------------------------------------------------------


def _sends(action: str, fields: dict[str, str]) -> str:
    """A page with a form that sends itself."""
    inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items())
    return f'<!doctype html><form method="post" action="{action}">{inputs}</form><script>document.forms[0].submit()</script>'


def test_a_form_of_another_page_cannot_consent(here: Place) -> None:
    page = consent(here)
    # Even with all that our form has: its token is no secret here.
    form = page.locator("form").last
    token = form.locator("[name=form_token]").get_attribute("value")
    action = form.get_attribute("action")
    fields = {"form_token": token or "", "scope": "notes:read", "decision": "allow"}
    here.harm.pages["/attack"] = _sends(f"{here.server.issuer}{action}", fields)
    other = page.context.new_page()
    other.goto(f"{here.harm.url}/attack")
    other.wait_for_url(f"{here.server.issuer}/**")
    assert heading(other) == "This form is not from this site"
    assert here.client.asked == []
    page.get_by_role("button", name="Deny").click()
    page.wait_for_url(f"{here.client.url}/callback?*")


def test_a_form_of_another_page_cannot_log_anybody_in_or_out(here: Place) -> None:
    page = here.page()
    page.goto(here.ask())
    form = page.locator("form").last
    token = form.locator("[name=form_token]").get_attribute("value") or ""
    action = form.get_attribute("action")
    fields = {"form_token": token, "username": "ada", "password": "lovelace"}
    here.harm.pages["/login"] = _sends(f"{here.server.issuer}{action}", fields)
    here.harm.pages["/logout"] = _sends(f"{here.server.issuer}/logout", {})
    other = page.context.new_page()
    other.goto(f"{here.harm.url}/login")
    other.wait_for_url(f"{here.server.issuer}/**")
    assert heading(other) == "This form is not from this site"
    page.reload()
    assert heading(page) == "Log in"
    log_in(page)
    other.goto(f"{here.harm.url}/logout")
    other.wait_for_url(f"{here.server.issuer}/**")
    assert heading(other) == "This form is not from this site"
    page.reload()
    assert heading(page).startswith("Allow")


@pytest.mark.parametrize("path", ["/authorize", "/logout"])
def test_no_page_can_be_framed(here: Place, path: str) -> None:
    page = consent(here)
    target = here.ask() if path == "/authorize" else f"{here.server.issuer}{path}"
    here.harm.pages["/frame"] = f'<!doctype html><iframe src="{target}"></iframe>'
    other = page.context.new_page()
    complaints = watched(other)
    other.goto(f"{here.harm.url}/frame")
    other.wait_for_load_state("networkidle")
    assert any("frame-ancestors" in each or "X-Frame-Options" in each for each in complaints)
    (inner,) = other.main_frame.child_frames
    assert inner.url == "chrome-error://chromewebdata/"


# --- log in elsewhere ----------------------------------------------------------------------------------------------


def test_one_can_log_in_at_another_server(browser: Browser) -> None:
    with place(browser, delegated=True) as here:
        page = here.page()
        complaints = watched(page)
        page.goto(here.ask())
        assert heading(page).startswith("Allow “Notebook reader”")
        page.get_by_role("button", name="Allow and log in").click()
        page.wait_for_url(f"{here.client.url}/callback?*")
        assert "code" in here.answer()
        assert complaints == []
        page.context.close()
