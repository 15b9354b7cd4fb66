"""The user of an authorization server: a client that registers, and a scripted browser that logs in and consents.

The browser keeps cookies and sends forms as a browser does. It handles two kinds of forms: a login form with a password,
which it fills in, and a form with a button `decision` whose value is `allow`, which it presses.

    python scripts/interop/framework/browser.py USERNAME PASSWORD URL
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

STEPS = 5
SECONDS = 60.0
# Characters of a page that an error quotes.
SHOWN = 1000


@dataclass
class Form:
    """A form of a page."""

    action: str
    """The URL that it is sent to."""
    fields: list[tuple[str, str]] = field(default_factory=list)
    """Its values: hidden inputs, and checked boxes."""
    text: str | None = None
    """The name of its text field."""
    password: str | None = None
    """The name of its password field."""
    buttons: set[tuple[str, str]] = field(default_factory=set)
    """Names and values of its buttons."""


class _Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form" and given.get("method", "get").lower() == "post":
            self.forms.append(Form(given.get("action", "")))
        elif not self.forms:
            return
        elif tag == "button" and "name" in given:
            self.forms[-1].buttons.add((given["name"], given.get("value", "")))
        elif tag == "input":
            _take(self.forms[-1], given)


def _take(form: Form, given: dict[str, str]) -> None:
    match given.get("type", "text"):
        case "password":
            form.password = given["name"]
        case "text":
            form.text = given["name"]
        case "checkbox" if "checked" not in given:
            pass
        case _:
            form.fields.append((given["name"], given.get("value", "")))


class Stuck(Exception):
    """A page without a form to continue; the message quotes its beginning."""


def consent(url: str, *, username: str, password: str, back_to: str) -> None:
    """Open the URL and submit forms until the browser is redirected to the client.

    Args:
        url: An authorization URL.
        username: The user name.
        password: The password of the user.
        back_to: The prefix of the redirect URI.

    Raises:
        Stuck: A page does not lead to the redirect.
        OSError: A page is not available.
    """
    opener = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(CookieJar()), urllib.request.ProxyHandler({})
    )
    request, here = urllib.request.Request(url), url
    for _ in range(STEPS):
        try:
            with opener.open(request, timeout=SECONDS) as answer:
                here, html = answer.geturl(), answer.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                page = " ".join(refusal.read().decode().split())
            raise Stuck(f"{refusal.url} has the status {refusal.code}: {page[:SHOWN]}") from None
        if here.startswith(back_to):
            return
        sent = _sent(_Page(html).forms, here, username, password)
        if sent is None:
            raise Stuck(f"{here} has no form to continue: {' '.join(html.split())[:SHOWN]}")
        request = sent
    raise Stuck(f"after {STEPS} pages the browser is still at {here}")


def _sent(forms: list[Form], here: str, username: str, password: str) -> urllib.request.Request | None:
    for form in forms:
        fields = list(form.fields)
        if ("decision", "allow") in form.buttons:
            fields.append(("decision", "allow"))
        elif form.password is not None and form.text is not None:
            fields += [(form.text, username), (form.password, password)]
        else:
            continue
        parts = urlsplit(here)
        headers = {"Origin": f"{parts.scheme}://{parts.netloc}", "Sec-Fetch-Site": "same-origin"}
        return urllib.request.Request(urljoin(here, form.action), urlencode(fields).encode(), headers)
    return None


def register(issuer: str, redirect_uri: str) -> str:
    """Register a public client and return its id. Raise `OSError` when that fails."""
    with urllib.request.urlopen(f"{issuer}/.well-known/oauth-authorization-server") as answer:
        endpoint: str = json.load(answer)["registration_endpoint"]
    wanted = {"client_name": "official", "redirect_uris": [redirect_uri], "token_endpoint_auth_method": "none"}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(endpoint, json.dumps(wanted).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        client_id: str = json.load(answer)["client_id"]
    return client_id


def main() -> int:
    """Log in at the URL of the command line; return the exit status: 0 when the browser was redirected to the client."""
    parser = argparse.ArgumentParser(prog="official_browser", description="A browser for authorization servers.")
    parser.add_argument("username", help="the user name")
    parser.add_argument("password", help="the password")
    parser.add_argument("url", help="an authorization URL")
    given = parser.parse_args()
    back_to = dict(parse_qsl(urlsplit(given.url).query))["redirect_uri"]
    try:
        consent(given.url, username=given.username, password=given.password, back_to=back_to)
    except (OSError, Stuck) as why:
        print(why, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
