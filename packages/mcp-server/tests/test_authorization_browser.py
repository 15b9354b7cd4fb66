"""The authorization server in a real browser: its pages, and attacks by pages of other sites."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from browser_testbed import BrowserTestbed, open_browser_testbed

from documentation.chromium import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def testbed(browser: Browser) -> Iterator[BrowserTestbed]:
    with open_browser_testbed(browser) as opened:
        yield opened
        for context in browser.contexts:
            context.close()


def console_messages(page: Page) -> list[str]:
    """Collect the messages of the console, such as violations of the content security policy."""
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    return messages


def heading(page: Page) -> str:
    return page.get_by_role("heading", level=1).inner_text()


def log_in(page: Page, password: str = "lovelace") -> None:
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill(password)
    # A click returns when the next page begins to load.
    with page.expect_navigation():
        page.get_by_role("button", name="Log in").click()


def consent(testbed: BrowserTestbed, **changes: str | None) -> Page:
    """Log in and return the consent page."""
    page = testbed.page()
    page.goto(testbed.authorization_url(**changes))
    log_in(page)
    assert heading(page).startswith("Allow")
    return page


# --- login and consent ------------------------------------------------------------------------------------------------


def test_login_and_consent_redirect_to_client_with_code(testbed: BrowserTestbed) -> None:
    page = testbed.page()
    messages = console_messages(page)
    page.goto(testbed.authorization_url())
    assert heading(page) == "Log in"
    log_in(page)
    assert heading(page) == "Allow “Notebook reader” to use mcp.example?"
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{testbed.client.url}/callback?*")
    assert heading(page) == "Back at the client"
    answer = testbed.callback_parameters()
    assert (set(answer), answer["state"], answer["iss"]) == ({"code", "state", "iss"}, "s1", testbed.server.issuer)
    assert messages == []


def test_pages_have_their_stylesheet(testbed: BrowserTestbed) -> None:
    page = testbed.page()
    page.goto(testbed.authorization_url())
    # The content security policy admits the stylesheet.
    assert page.evaluate("getComputedStyle(document.querySelector('main')).borderTopStyle") == "solid"


def test_denied_consent_redirects_to_client_with_error(testbed: BrowserTestbed) -> None:
    page = consent(testbed)
    page.get_by_role("button", name="Deny").click()
    page.wait_for_url(f"{testbed.client.url}/callback?*")
    answer = testbed.callback_parameters()
    assert (answer["error"], answer["state"]) == ("access_denied", "s1")
    assert "code" not in answer


def test_wrong_password_can_be_corrected(testbed: BrowserTestbed) -> None:
    page = testbed.page()
    page.goto(testbed.authorization_url())
    log_in(page, "byron")
    assert page.title().startswith("Error: Log in")
    # The error summary gets the focus, with the first frame after the load, and links to the field.
    page.locator("[role=alert]:focus").wait_for()
    page.get_by_role("link", name="The user name or the password is incorrect").click()
    page.locator("#password:focus").wait_for()
    assert page.get_by_label("User name").input_value() == "ada"
    assert page.get_by_label("Password").input_value() == ""
    log_in(page)
    assert heading(page).startswith("Allow")


def test_deselected_scope_not_granted(testbed: BrowserTestbed) -> None:
    page = consent(testbed)
    page.get_by_label("Change and delete your notes").uncheck()
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{testbed.client.url}/callback?*")

    async def kept() -> list[tuple[object, ...]]:
        return await testbed.server.store.run(
            lambda connection: connection.execute("SELECT scope FROM grants").fetchall()
        )

    assert testbed.call(kept) == [("notes:read",)]


def test_login_and_consent_usable_with_keyboard(testbed: BrowserTestbed) -> None:
    page = testbed.page()
    page.goto(testbed.authorization_url())

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
    with page.expect_navigation():
        page.keyboard.press("Enter")
    to("checkbox", "Change and delete your notes")
    page.keyboard.press("Space")
    to("button", "Allow")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{testbed.client.url}/callback?*")
    assert "code" in testbed.callback_parameters()


def test_login_and_consent_usable_without_javascript(testbed: BrowserTestbed) -> None:
    page = testbed.browser.new_context(java_script_enabled=False).new_page()
    page.goto(testbed.authorization_url())
    log_in(page)
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{testbed.client.url}/callback?*")
    assert "code" in testbed.callback_parameters()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_readable_on_small_screen_in_both_color_schemes(testbed: BrowserTestbed, scheme: str) -> None:
    page = testbed.browser.new_context(
        viewport={"width": 320, "height": 640},
        color_scheme="dark" if scheme == "dark" else "light",
    ).new_page()
    page.goto(testbed.authorization_url())
    log_in(page, "byron")
    _check_readable(page)
    log_in(page)
    _check_readable(page)
    page.goto(f"{testbed.server.issuer}/authorize")
    _check_readable(page)


def _check_readable(page: Page) -> None:
    """Check that the page fits the screen and that its text has enough contrast. Spec: WCAG 2.2, 1.4.3 and 1.4.10"""
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    weak = page.evaluate(_CONTRAST)
    assert weak == []


_CONTRAST = """() => {
  const part = value => { value /= 255; return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; };
  const light = color => {
    const [r, g, b] = color.match(/[0-9.]+/g).map(Number);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ground = element => {
    for (; element; element = element.parentElement) {
      const color = getComputedStyle(element).backgroundColor;
      if (!/, 0\\)$/.test(color)) return color;
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


# --- history, tabs and sessions ---------------------------------------------------------------------------------------


def test_back_after_consent_shows_decision(testbed: BrowserTestbed) -> None:
    page = consent(testbed)
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{testbed.client.url}/callback?*")
    page.go_back()
    assert heading(page) == "You have already decided"
    page.reload()
    assert heading(page) == "You have already decided"
    assert len(testbed.client.requests) == 1


def test_requests_in_two_tabs_answered_independently(testbed: BrowserTestbed) -> None:
    one = testbed.page()
    two = one.context.new_page()
    one.goto(testbed.authorization_url(state="one"))
    two.goto(testbed.authorization_url(state="two"))
    log_in(one)
    log_in(two)
    assert heading(two) == "This page is out of date"
    two.get_by_role("link", name="Continue with your current login").click()
    two.get_by_role("button", name="Deny").click()
    two.wait_for_url(f"{testbed.client.url}/callback?*")
    one.get_by_role("button", name="Allow").click()
    one.wait_for_url(f"{testbed.client.url}/callback?*")
    assert "error=access_denied" in two.url
    assert "state=two" in two.url
    assert "code=" in one.url
    assert "state=one" in one.url


def test_consent_in_expired_session_rejected(testbed: BrowserTestbed) -> None:
    page = consent(testbed)
    testbed.clock_offset[0] += 31 * 60
    page.get_by_role("button", name="Allow").click()
    assert heading(page) == "This request has ended"
    page.goto(testbed.authorization_url())
    assert heading(page) == "Log in"
    assert testbed.client.requests == []


def test_consent_without_session_cookie_rejected(testbed: BrowserTestbed) -> None:
    page = consent(testbed)
    page.context.clear_cookies()
    page.get_by_role("button", name="Allow").click()
    assert heading(page) == "This page has expired"
    assert testbed.client.requests == []


def test_logout_requires_new_login(testbed: BrowserTestbed) -> None:
    page = consent(testbed)
    page.goto(f"{testbed.server.issuer}/logout")
    page.get_by_role("button", name="Log out").click()
    assert heading(page) == "You are logged out"
    page.goto(testbed.authorization_url())
    assert heading(page) == "Log in"


def test_switch_user_allows_new_login(testbed: BrowserTestbed) -> None:
    page = consent(testbed)
    page.get_by_role("button", name="Use another account").click()
    assert heading(page) == "Log in"
    log_in(page)
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{testbed.client.url}/callback?*")


def test_request_opened_in_other_browser_shows_error(testbed: BrowserTestbed) -> None:
    mine, theirs = consent(testbed), testbed.page()
    theirs.goto(mine.url)
    assert heading(theirs) == "This page has expired"
    assert "Notebook" not in theirs.content()
    mine.get_by_role("button", name="Allow").click()
    mine.wait_for_url(f"{testbed.client.url}/callback?*")


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
def test_unknown_client_or_redirect_uri_shows_error_without_redirect(
    testbed: BrowserTestbed, changes: dict[str, str | None]
) -> None:
    page = testbed.page()
    hosts: list[str] = []
    page.on("request", lambda request: hosts.append(urlsplit(request.url).netloc))
    answer = page.goto(testbed.authorization_url(**changes))
    assert answer is not None
    assert answer.status == 400
    assert heading(page) == "Authorization request rejected"
    assert set(hosts) == {urlsplit(testbed.server.issuer).netloc}
    assert "evil" not in page.content()
    assert "alert" not in page.content()


def test_redirect_uri_may_redirect_to_other_site(testbed: BrowserTestbed) -> None:
    testbed.client.redirects["/callback"] = f"{testbed.attacker.url}/welcome"
    page = consent(testbed)
    messages = console_messages(page)
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{testbed.attacker.url}/welcome")
    assert "code" in testbed.callback_parameters()
    assert messages == []


def test_redirect_uri_with_ipv6_address_followed(testbed: BrowserTestbed) -> None:
    uri = next(uri for uri in testbed.server._settings.clients["reader"].redirect_uris if "[::1]" in uri)
    page = consent(testbed, redirect_uri=uri)
    messages = console_messages(page)
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{uri}?*")
    assert messages == []


def test_login_in_popup_reports_to_opener(testbed: BrowserTestbed) -> None:
    testbed.client.pages["/app"] = "<!doctype html><title>App</title><h1>App</h1>"
    testbed.client.pages["/callback"] = (
        "<!doctype html><script>opener.postMessage(location.search, location.origin)</script>"
    )
    page = testbed.page()
    page.goto(f"{testbed.client.url}/app")
    page.evaluate("addEventListener('message', event => { document.title = event.data; })")
    with page.expect_popup() as opened:
        page.evaluate("url => { window.open(url); }", testbed.authorization_url())
    log_in(opened.value)
    opened.value.get_by_role("button", name="Allow").click()
    page.wait_for_function("document.title !== 'App'")
    assert "code=" in page.title()


def test_redirect_to_client_has_no_referrer(testbed: BrowserTestbed) -> None:
    page = consent(testbed)
    referrers: list[str | None] = []
    page.on("request", lambda request: referrers.append(request.headers.get("referer")))
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{testbed.client.url}/callback?*")
    assert page.evaluate("document.referrer") == ""
    assert all(each is None or each.startswith(testbed.server.issuer) for each in referrers)


# --- pages of an attacker ---------------------------------------------------------------------------------------------


def _form_page(action: str, fields: dict[str, str]) -> str:
    """Return a page with a form that submits itself."""
    inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items())
    return f'<!doctype html><form method="post" action="{action}">{inputs}</form><script>document.forms[0].submit()</script>'


def test_consent_form_of_other_site_rejected(testbed: BrowserTestbed) -> None:
    page = consent(testbed)
    # The form has all fields of the real one, even its token.
    form = page.locator("form").last
    token = form.locator("[name=form_token]").get_attribute("value")
    action = form.get_attribute("action")
    fields = {"form_token": token or "", "scope": "notes:read", "decision": "allow"}
    testbed.attacker.pages["/attack"] = _form_page(f"{testbed.server.issuer}{action}", fields)
    other = page.context.new_page()
    other.goto(f"{testbed.attacker.url}/attack")
    other.wait_for_url(f"{testbed.server.issuer}/**")
    assert heading(other) == "This form is not from this site"
    assert testbed.client.requests == []
    page.get_by_role("button", name="Deny").click()
    page.wait_for_url(f"{testbed.client.url}/callback?*")


def test_login_and_logout_forms_of_other_site_rejected(testbed: BrowserTestbed) -> None:
    page = testbed.page()
    page.goto(testbed.authorization_url())
    form = page.locator("form").last
    token = form.locator("[name=form_token]").get_attribute("value") or ""
    action = form.get_attribute("action")
    fields = {"form_token": token, "username": "ada", "password": "lovelace"}
    testbed.attacker.pages["/login"] = _form_page(f"{testbed.server.issuer}{action}", fields)
    testbed.attacker.pages["/logout"] = _form_page(f"{testbed.server.issuer}/logout", {})
    other = page.context.new_page()
    other.goto(f"{testbed.attacker.url}/login")
    other.wait_for_url(f"{testbed.server.issuer}/**")
    assert heading(other) == "This form is not from this site"
    page.reload()
    assert heading(page) == "Log in"
    log_in(page)
    other.goto(f"{testbed.attacker.url}/logout")
    other.wait_for_url(f"{testbed.server.issuer}/**")
    assert heading(other) == "This form is not from this site"
    page.reload()
    assert heading(page).startswith("Allow")


@pytest.mark.parametrize("path", ["/authorize", "/logout"])
def test_pages_cannot_be_framed(testbed: BrowserTestbed, path: str) -> None:
    page = consent(testbed)
    target = testbed.authorization_url() if path == "/authorize" else f"{testbed.server.issuer}{path}"
    testbed.attacker.pages["/frame"] = f'<!doctype html><iframe src="{target}"></iframe>'
    other = page.context.new_page()
    messages = console_messages(other)
    other.goto(f"{testbed.attacker.url}/frame")
    other.wait_for_load_state("networkidle")
    assert any("frame-ancestors" in each or "X-Frame-Options" in each for each in messages)
    (inner,) = other.main_frame.child_frames
    assert inner.url == "chrome-error://chromewebdata/"


# --- delegated login --------------------------------------------------------------------------------------------------


def test_delegated_login_redirects_to_client_with_code(browser: Browser) -> None:
    with open_browser_testbed(browser, delegated=True) as testbed:
        page = testbed.page()
        messages = console_messages(page)
        page.goto(testbed.authorization_url())
        assert heading(page).startswith("Allow “Notebook reader”")
        page.get_by_role("button", name="Allow and log in").click()
        page.wait_for_url(f"{testbed.client.url}/callback?*")
        assert "code" in testbed.callback_parameters()
        assert messages == []
        page.context.close()
