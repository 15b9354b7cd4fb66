"""The headers and the markup of every page of the authorization server, whatever its status."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from html.parser import HTMLParser

import attrs
import pytest
from page_testbed import CLIENT, Browser, Shown, World

from mcp_server.auth.authorization_server.pages.rendering import Templates, form_targets

Page = Callable[[World, Browser], Awaitable[Shown]]


async def _login(world: World, browser: Browser) -> Shown:
    return await browser.get(world.path(world.interactions.add()))


async def _empty(world: World, browser: Browser) -> Shown:
    return await browser.submit(await _login(world, browser), username="", password="")


async def _wrong(world: World, browser: Browser) -> Shown:
    return await browser.submit(await _login(world, browser), username="ada", password="x")


async def _limited(world: World, browser: Browser) -> Shown:
    for _ in range(10):
        await _wrong(world, browser)
    return await _wrong(world, browser)


async def _logged_in(world: World, browser: Browser) -> Shown:
    return await browser.submit(await _login(world, browser), username="ada", password="lovelace")


async def _consent(world: World, browser: Browser) -> Shown:
    return await browser.log_in(world.interactions.add())


async def _consent_of_a_local_client(world: World, browser: Browser) -> Shown:
    client = attrs.evolve(
        CLIENT, redirect_uri="http://127.0.0.1:4711/", local_only=True, client_uri="https://a.example/"
    )
    return await browser.log_in(world.interactions.add(client))


async def _nothing_allowed(world: World, browser: Browser) -> Shown:
    return await browser.submit(await _consent(world, browser), decision="allow", drop=["notes:read", "notes:write"])


async def _allowed(world: World, browser: Browser) -> Shown:
    return await browser.submit(await _consent(world, browser), decision="allow")


async def _refused(world: World, browser: Browser) -> Shown:
    return await browser.submit(await _consent(world, browser), decision="refuse")


async def _answered(world: World, browser: Browser) -> Shown:
    id = world.interactions.add()
    await browser.submit(await browser.log_in(id), decision="allow")
    return await browser.get(world.path(id))


async def _stale(world: World, browser: Browser) -> Shown:
    id = world.interactions.add()
    page = await browser.get(world.path(id))
    await browser.submit(page, username="ada", password="lovelace")
    return await browser.submit(page, username="ada", password="lovelace")


async def _unknown(world: World, browser: Browser) -> Shown:
    return await browser.get(world.path("unknown"))


async def _elsewhere(world: World, browser: Browser) -> Shown:
    id = world.interactions.add()
    await world.browser().get(world.path(id))
    return await browser.get(world.path(id))


async def _foreign(world: World, browser: Browser) -> Shown:
    page = await _consent(world, browser)
    return await browser.post(page.forms[-1].action, page.forms[-1].fields, origin="https://evil.example")


async def _unreadable(world: World, browser: Browser) -> Shown:
    page = await _consent(world, browser)
    return await browser.post(page.forms[-1].action, page.forms[-1].fields, content_type="text/plain")


async def _callback(world: World, browser: Browser) -> Shown:
    return await browser.get(f"{world.prefix}/delegation/callback?state=x&code=y")


async def _error(world: World, browser: Browser) -> Shown:
    return await browser.get("/error/400")


async def _nobody(world: World, browser: Browser) -> Shown:
    return await browser.get(f"{world.prefix}/logout")


async def _leaving(world: World, browser: Browser) -> Shown:
    await _consent(world, browser)
    return await browser.get(f"{world.prefix}/logout")


async def _logged_out(world: World, browser: Browser) -> Shown:
    return await browser.submit(await _leaving(world, browser))


PAGES: dict[str, tuple[Page, int]] = {
    "log in": (_login, 200),
    "log in, nothing entered": (_empty, 422),
    "log in, wrong password": (_wrong, 403),
    "log in, too often": (_limited, 429),
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
    "callback without a journey": (_callback, 403),
    "error": (_error, 400),
    "not logged in": (_nobody, 200),
    "log out": (_leaving, 200),
    "logged out": (_logged_out, 200),
}
LEADS_TO_A_CLIENT = {
    "consent": "form-action 'self' https:",
    "consent, nothing allowed": "form-action 'self' https:",
    "consent, local client": "form-action 'self' https: http:",
}
LEADS_ON = {"log in", "log in, nothing entered", "log in, wrong password", "log in, too often", "out of date"}


@pytest.fixture(params=["https://as.example", "http://127.0.0.1:4711/auth"])
def world(request: pytest.FixtureRequest) -> World:
    return World(str(request.param))


@pytest.mark.spec("security.proxy-consent-page")
@pytest.mark.parametrize("name", PAGES)
async def test_every_page_forbids_framing_scripts_and_keeping(world: World, name: str) -> None:
    make, status = PAGES[name]
    page = await make(world, world.browser())
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
    assert policy[3:] == ["img-src 'none'", "style-src 'self'", LEADS_TO_A_CLIENT.get(name, "form-action 'self'")]
    leads_on = name in LEADS_ON or name in LEADS_TO_A_CLIENT
    assert headers.get("cross-origin-opener-policy") == (None if leads_on else "same-origin")


class _Markup(HTMLParser):
    """Collects what the test below looks at."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for found, attributes in self.elements if found == tag]


@pytest.mark.parametrize("name", [name for name, (_, status) in PAGES.items() if status != 303])
async def test_every_page_can_be_used_by_everybody(world: World, name: str) -> None:
    page = await PAGES[name][0](world, world.browser())
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
    labelled = {attributes["for"] for attributes in markup.all("label")}
    for field in markup.all("input"):
        assert field["type"] == "hidden" or field["id"] in labelled
        assert set(field.get("aria-describedby", "").split()) <= set(identifiers)
    assert all(link["href"].removeprefix("#") in identifiers or link["href"][0] == "/" for link in markup.all("a"))
    # What runs, or comes from elsewhere.
    assert not {"script", "style", "img", "iframe", "object", "base"} & {tag for tag, _ in markup.elements}
    assert not any(key.startswith("on") or key == "style" for _, attributes in markup.elements for key in attributes)
    assert [link["href"] for link in markup.all("link")] == [Templates("x", world.prefix).style_path]
    assert all(form["action"].startswith(f"{world.prefix}/") for form in markup.all("form"))
    assert all(form["method"] == "post" for form in markup.all("form"))


async def test_password_managers_know_the_fields(world: World) -> None:
    markup = _Markup()
    markup.feed((await _login(world, world.browser())).html)
    fields = {field.get("id"): field for field in markup.all("input")}
    assert fields["username"]["autocomplete"] == "username"
    assert fields["password"]["autocomplete"] == "current-password"
    assert fields["password"]["type"] == "password"


async def test_the_stylesheet_may_be_kept(world: World) -> None:
    path = Templates("x", world.prefix).style_path
    page = await world.browser().get(path)
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
def test_a_form_may_lead_to_the_client_and_where_it_leads_on(uri: str, sources: tuple[str, ...]) -> None:
    assert form_targets(uri) == sources
