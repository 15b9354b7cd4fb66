"""A simulated user with a browser: opens a URL, logs in, allows the request, and follows the redirects.

    python docs/examples/protected/browser.py --user ann --password quince URL

It stores cookies and submits forms like a browser. It supports two forms: one with a password, which it fills in, and one
with a button `decision`, whose value is `allow` or `refuse`, which it presses.
"""

from __future__ import annotations

import argparse
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urljoin, urlsplit

PAGES = 6
"""The maximum number of pages."""
SECONDS = 30.0


@dataclass
class Form:
    """A form of a page."""

    action: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    """The preset fields: hidden inputs, and checked boxes."""
    text: str | None = None
    password: str | None = None
    buttons: set[tuple[str, str]] = field(default_factory=set)


class Page(HTMLParser):
    """The forms of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form" and attributes.get("method", "get").lower() == "post":
            self.forms.append(Form(attributes.get("action", "")))
        elif self.forms and tag == "button" and "name" in attributes:
            self.forms[-1].buttons.add((attributes["name"], attributes.get("value", "")))
        elif self.forms and tag == "input":
            self.add_input(self.forms[-1], attributes)

    def add_input(self, form: Form, attributes: dict[str, str]) -> None:
        """Add an input to a form."""
        match attributes.get("type", "text"):
            case "password":
                form.password = attributes["name"]
            case "text":
                form.text = attributes["name"]
            case "checkbox" if "checked" not in attributes:
                pass
            case _:
                form.fields.append((attributes["name"], attributes.get("value", "")))


def visit(url: str, user: str, password: str, decision: str = "allow") -> str:
    """Open a URL and submit the forms; return the last page, which has no form.

    Raises:
        OSError: A page is unavailable, or there are too many pages.
    """
    opener = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(CookieJar()), urllib.request.ProxyHandler({})
    )
    request = urllib.request.Request(url)
    for _ in range(PAGES):
        with opener.open(request, timeout=SECONDS) as response:
            page_url, html = response.geturl(), str(response.read(), "utf-8")
        submission = submit(Page(html).forms, page_url, user, password, decision)
        if submission is None:
            return html
        request = submission
    raise OSError(f"there is still a form after {PAGES} pages")


def submit(forms: list[Form], page_url: str, user: str, password: str, decision: str) -> urllib.request.Request | None:
    """Return the request that submits the first supported form; `None` if there is no such form."""
    for form in forms:
        fields = list(form.fields)
        if ("decision", decision) in form.buttons:
            fields.append(("decision", decision))
        elif form.password is not None and form.text is not None:
            fields += [(form.text, user), (form.password, password)]
        else:
            continue
        parts = urlsplit(page_url)
        headers = {"Origin": f"{parts.scheme}://{parts.netloc}", "Sec-Fetch-Site": "same-origin"}
        return urllib.request.Request(urljoin(page_url, form.action), urlencode(fields).encode(), headers)
    return None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A simulated user with a browser, for a login.")
    parser.add_argument("--user", required=True)
    parser.add_argument("--password", required=True)
    parser.add_argument("--decision", choices=["allow", "refuse"], default="allow")
    parser.add_argument("url")
    arguments = parser.parse_args()
    try:
        visit(arguments.url, arguments.user, arguments.password, arguments.decision)
    except OSError as error:
        sys.exit(f"browser: {error}")
