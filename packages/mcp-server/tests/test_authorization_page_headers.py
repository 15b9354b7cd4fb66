"""The headers and the markup of each page of the authorization server, for each status."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from html.parser import HTMLParser

import attrs
import pytest
from page_testbed import CLIENT, Browser, BrowserPage, PageTestbed

from mcp_server.auth.authorization_server.pages.rendering import Templates, form_targets

Page = Callable[[PageTestbed, Browser], Awaitable[BrowserPage]]


async def _login(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    return await browser.get(testbed.path(testbed.interactions.add()))


async def _empty(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    return await browser.submit(await _login(testbed, browser), username="", password="")


async def _wrong(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    return await browser.submit(await _login(testbed, browser), username="ada", password="x")


async def _limited(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    for _ in range(10):
        await _wrong(testbed, browser)
    return await _wrong(testbed, browser)


async def _logged_in(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    return await browser.submit(await _login(testbed, browser), username="ada", password="lovelace")


async def _consent(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    return await browser.log_in(testbed.interactions.add())


async def _consent_of_a_local_client(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    client = attrs.evolve(
        CLIENT, redirect_uri="http://127.0.0.1:4711/", local_only=True, client_uri="https://a.example/"
    )
    return await browser.log_in(testbed.interactions.add(client))


async def _nothing_allowed(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    return await browser.submit(await _consent(testbed, browser), decision="allow", drop=["notes:read", "notes:write"])


async def _allowed(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    return await browser.submit(await _consent(testbed, browser), decision="allow")


async def _refused(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    return await browser.submit(await _consent(testbed, browser), decision="refuse")


async def _answered(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    id = testbed.interactions.add()
    await browser.submit(await browser.log_in(id), decision="allow")
    return await browser.get(testbed.path(id))


async def _stale(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    id = testbed.interactions.add()
    page = await browser.get(testbed.path(id))
    await browser.submit(page, username="ada", password="lovelace")
    return await browser.submit(page, username="ada", password="lovelace")


async def _unknown(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    return await browser.get(testbed.path("unknown"))


async def _elsewhere(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    id = testbed.interactions.add()
    await testbed.browser().get(testbed.path(id))
    return await browser.get(testbed.path(id))


async def _foreign(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    page = await _consent(testbed, browser)
    return await browser.post(page.forms[-1].action, page.forms[-1].fields, origin="https://evil.example")


async def _unreadable(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    page = await _consent(testbed, browser)
    return await browser.post(page.forms[-1].action, page.forms[-1].fields, content_type="text/plain")


async def _callback(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    return await browser.get(f"{testbed.prefix}/delegation/callback?state=x&code=y")


async def _error(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    return await browser.get("/error/400")


async def _not_logged_in(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    return await browser.get(f"{testbed.prefix}/logout")


async def _logout(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    await _consent(testbed, browser)
    return await browser.get(f"{testbed.prefix}/logout")


async def _logged_out(testbed: PageTestbed, browser: Browser) -> BrowserPage:
    return await browser.submit(await _logout(testbed, browser))


PAGES: dict[str, tuple[Page, int]] = {
    "log in": (_login, 200),
    "log in, nothing entered": (_empty, 422),
    "log in, wrong password": (_wrong, 403),
    "log in, too many attempts": (_limited, 429),
    "logged in": (_logged_in, 303),
    "consent": (_consent, 200),
    "consent, local client": (_consent_of_a_local_client, 200),
    "consent, nothing allowed": (_nothing_allowed, 422),
    "allowed": (_allowed, 303),
    "refused": (_refused, 303),
    "answered": (_answered, 410),
    "out of date": (_stale, 403),
    "unknown": (_unknown, 404),
    "another browser": (_elsewhere, 403),
    "foreign form": (_foreign, 403),
    "unreadable form": (_unreadable, 400),
    "callback without a flow": (_callback, 403),
    "error": (_error, 400),
    "not logged in": (_not_logged_in, 200),
    "log out": (_logout, 200),
    "logged out": (_logged_out, 200),
}
FORM_ACTIONS = {
    "consent": "form-action 'self' https:",
    "consent, nothing allowed": "form-action 'self' https:",
    "consent, local client": "form-action 'self' https: http:",
}
REDIRECTING = {
    "log in",
    "log in, nothing entered",
    "log in, wrong password",
    "log in, too many attempts",
    "out of date",
}


@pytest.fixture(params=["https://as.example", "http://127.0.0.1:4711/auth"])
def testbed(request: pytest.FixtureRequest) -> PageTestbed:
    return PageTestbed(str(request.param))


@pytest.mark.spec("security.proxy-consent-page")
@pytest.mark.parametrize("name", PAGES)
async def test_page_headers_forbid_framing_scripts_and_caching(testbed: PageTestbed, name: str) -> None:
    make, status = PAGES[name]
    page = await make(testbed, testbed.browser())
    assert page.status == status
    headers = page.headers
    policy = headers["content-security-policy"].split("; ")
    assert policy[:3] == ["default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "camera=()" in headers["permissions-policy"]
    assert "access-control-allow-origin" not in headers
    if status == 303:
        assert page.html == ""
        return
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert policy[3:] == ["img-src 'none'", "style-src 'self'", FORM_ACTIONS.get(name, "form-action 'self'")]
    redirects = name in REDIRECTING or name in FORM_ACTIONS
    assert headers.get("cross-origin-opener-policy") == (None if redirects else "same-origin")


class _Markup(HTMLParser):
    """The elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for found, attributes in self.elements if found == tag]


@pytest.mark.parametrize("name", [name for name, (_, status) in PAGES.items() if status != 303])
async def test_page_markup_is_accessible_and_has_no_scripts(testbed: PageTestbed, name: str) -> None:
    page = await PAGES[name][0](testbed, testbed.browser())
    markup = _Markup()
    markup.feed(page.html)
    assert page.html.startswith("<!doctype html>")
    assert markup.all("html") == [{"lang": "en"}]
    assert len(markup.all("h1")) == 1
    assert len(markup.all("main")) == 1
    assert re.search(r"<title>(Error: )?\w.* \u2013 \S+</title>", page.html)
    assert ("<title>Error: " in page.html) == bool(page.status in (422, 429) or name == "log in, wrong password")
    identifiers = [attributes["id"] for _, attributes in markup.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    labeled = {attributes["for"] for attributes in markup.all("label")}
    for field in markup.all("input"):
        assert field["type"] == "hidden" or field["id"] in labeled
        assert set(field.get("aria-describedby", "").split()) <= set(identifiers)
    assert all(link["href"].removeprefix("#") in identifiers or link["href"][0] == "/" for link in markup.all("a"))
    # The page must not contain scripts or external content.
    assert not {"script", "style", "img", "iframe", "object", "base"} & {tag for tag, _ in markup.elements}
    assert not any(key.startswith("on") or key == "style" for _, attributes in markup.elements for key in attributes)
    assert [link["href"] for link in markup.all("link")] == [Templates("x", testbed.prefix).style_path]
    assert all(form["action"].startswith(f"{testbed.prefix}/") for form in markup.all("form"))
    assert all(form["method"] == "post" for form in markup.all("form"))


async def test_login_fields_have_autocomplete_for_password_managers(testbed: PageTestbed) -> None:
    markup = _Markup()
    markup.feed((await _login(testbed, testbed.browser())).html)
    fields = {field.get("id"): field for field in markup.all("input")}
    assert fields["username"]["autocomplete"] == "username"
    assert fields["password"]["autocomplete"] == "current-password"
    assert fields["password"]["type"] == "password"


async def test_stylesheet_is_cacheable(testbed: PageTestbed) -> None:
    path = Templates("x", testbed.prefix).style_path
    page = await testbed.browser().get(path)
    assert (page.status, page.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert page.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "url(" not in page.html
    assert "@import" not in page.html
    assert re.fullmatch(r".*/assets/style-[0-9a-f]{16}\.css", path)


@pytest.mark.parametrize(
    ("uri", "sources"),
    [
        ("https://app.example/cb", ("'self'", "https:")),
        ("http://127.0.0.1:4711/cb", ("'self'", "https:", "http:")),
        ("http://[::1]:4711/cb", ("'self'", "https:", "http:")),
        ("com.example.app:/cb", ("'self'", "https:", "com.example.app:")),
        ("COM.Example.App:/cb", ("'self'", "https:", "com.example.app:")),
    ],
)
def test_form_action_allows_redirect_uri(uri: str, sources: tuple[str, ...]) -> None:
    assert form_targets(uri) == sources
