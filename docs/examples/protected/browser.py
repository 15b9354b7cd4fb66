"""A person at a browser, as far as a login needs one: opens a URL, logs in, allows what is asked for, and follows.

    python docs/examples/protected/browser.py --user ann --password quince URL

It keeps cookies and sends forms as a browser does. It knows two: one with a password, which it fills in, and one with a
button `decision` whose value is `allow`, which it presses, or `refuse`.
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
"""How many pages it bears with."""
SECONDS = 30.0


@dataclass
class Form:
    """A form of a page."""

    action: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    """What it holds by itself: hidden inputs, and boxes that are ticked."""
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
        given = {name: value or "" for name, value in attrs}
        if tag == "form" and given.get("method", "get").lower() == "post":
            self.forms.append(Form(given.get("action", "")))
        elif self.forms and tag == "button" and "name" in given:
            self.forms[-1].buttons.add((given["name"], given.get("value", "")))
        elif self.forms and tag == "input":
            self.take(self.forms[-1], given)

    def take(self, form: Form, given: dict[str, str]) -> None:
        """Takes an input of a form."""
        match given.get("type", "text"):
            case "password":
                form.password = given["name"]
            case "text":
                form.text = given["name"]
            case "checkbox" if "checked" not in given:
                pass
            case _:
                form.fields.append((given["name"], given.get("value", "")))


def visit(url: str, user: str, password: str, decision: str = "allow") -> str:
    """Opens a URL and does what is asked there; the last page, in which nothing is asked.

    Raises:
        OSError: A page cannot be had, or they do not end.
    """
    opener = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(CookieJar()), urllib.request.ProxyHandler({})
    )
    request = urllib.request.Request(url)
    for _ in range(PAGES):
        with opener.open(request, timeout=SECONDS) as answer:
            here, html = answer.geturl(), str(answer.read(), "utf-8")
        sent = filled_in(Page(html).forms, here, user, password, decision)
        if sent is None:
            return html
        request = sent
    raise OSError(f"after {PAGES} pages there is still something to fill in")


def filled_in(forms: list[Form], here: str, user: str, password: str, decision: str) -> urllib.request.Request | None:
    """The first form that can be filled in, on its way; `None` when there is none."""
    for form in forms:
        fields = list(form.fields)
        if ("decision", decision) in form.buttons:
            fields.append(("decision", decision))
        elif form.password is not None and form.text is not None:
            fields += [(form.text, user), (form.password, password)]
        else:
            continue
        parts = urlsplit(here)
        headers = {"Origin": f"{parts.scheme}://{parts.netloc}", "Sec-Fetch-Site": "same-origin"}
        return urllib.request.Request(urljoin(here, form.action), urlencode(fields).encode(), headers)
    return None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A person at a browser, as far as a login needs one.")
    parser.add_argument("--user", required=True)
    parser.add_argument("--password", required=True)
    parser.add_argument("--decision", choices=["allow", "refuse"], default="allow")
    parser.add_argument("url")
    given = parser.parse_args()
    try:
        visit(given.url, given.user, given.password, given.decision)
    except OSError as error:
        sys.exit(f"browser: {error}")
