"""The pages of an authorization server without its protocol part, and a browser that consists of cookies and forms."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urlencode, urlsplit

import attrs
from quart import Response
from quart_trio import QuartTrio

from mcp_server.auth.authorization_server.model.interaction import (
    PendingAuthorization,
    RegistrationKind,
    RequestingClient,
)
from mcp_server.auth.authorization_server.model.store import MemoryStore, SqliteStore
from mcp_server.auth.authorization_server.pages import routes as pages
from mcp_server.auth.authorization_server.pages.browser_sessions import BrowserSessions
from mcp_server.auth.authorization_server.pages.delegation import Delegation
from mcp_server.auth.authorization_server.pages.users import Users

START: Final = 1_800_000_000.0
SCOPES: Final = {"notes:read": "Read your notes", "notes:write": "Change your notes"}
CLIENT: Final = RequestingClient(
    client_id="c1",
    name="Notebook reader",
    kind=RegistrationKind.DYNAMIC,
    redirect_uri="https://app.example/callback",
    local_only=False,
)


class OneUser:
    """A user directory with the user Ada. The password is not hashed, to keep tests fast."""

    def __init__(self) -> None:
        self.verified_names: list[str] = []

    async def verify(self, name: str, password: str) -> str | None:
        self.verified_names.append(name)
        return name if (name, password) == ("ada", "lovelace") else None


class PendingRequests:
    """An implementation of `Interactions` with a dictionary in place of the protocol part."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.pending: dict[str, PendingAuthorization] = {}
        self.granted: list[tuple[str, str, tuple[str, ...], float]] = []
        self.denied: list[tuple[str, str]] = []

    def add(
        self,
        client: RequestingClient = CLIENT,
        *,
        scopes: Sequence[str] = tuple(SCOPES),
        resources: Sequence[str] = ("https://mcp.example/mcp",),
        prompts: Iterable[str] = (),
        seconds: float = 600,
    ) -> str:
        """Add a pending authorization request and return its id."""
        now = self._clock()
        pending = PendingAuthorization(
            id=secrets.token_urlsafe(16),
            client=client,
            scopes=tuple(scopes),
            resources=tuple(resources),
            prompts=frozenset(prompts),
            created_at=now,
            expires_at=now + seconds,
        )
        self.pending[pending.id] = pending
        return pending.id

    async def get(self, id: str) -> PendingAuthorization | None:
        found = self.pending.get(id)
        return None if found is None or found.expires_at <= self._clock() else found

    async def grant(self, id: str, *, subject: str, scopes: Iterable[str], auth_time: float) -> str | None:
        pending = await self.get(id)
        if pending is None:
            return None
        del self.pending[id]
        self.granted.append((id, subject, tuple(scopes), auth_time))
        return f"{pending.client.redirect_uri}?code=c-{id}&state=s"

    async def deny(self, id: str, *, error: str = "access_denied") -> str | None:
        pending = await self.get(id)
        if pending is None:
            return None
        del self.pending[id]
        self.denied.append((id, error))
        return f"{pending.client.redirect_uri}?error={error}&state=s"


@attrs.define
class Clock:
    """A clock that only tests advance."""

    now: float = START

    def __call__(self) -> float:
        return self.now


class PageTestbed:
    """An authorization server that consists of its pages."""

    def __init__(
        self,
        issuer: str = "https://as.example",
        *,
        users: Users | Delegation | None = None,
        store: SqliteStore | None = None,
    ) -> None:
        url = urlsplit(issuer)
        self.time: Final = Clock()
        self.issuer: Final = issuer
        self.origin: Final = f"{url.scheme}://{url.netloc}"
        self.prefix: Final = url.path.rstrip("/")
        self.secure: Final = url.scheme == "https"
        self.scopes: Final[Mapping[str, str]] = SCOPES
        self.users: Final = users or OneUser()
        self.store: Final = store or MemoryStore()
        self.clock: Final[Callable[[], float]] = self.time
        self.interactions: Final = PendingRequests(self.time)
        self.app: Final = QuartTrio("pages")
        pages.register(self.app, self)

        async def error(status: int) -> Response:
            return pages.error(self, status, "This client is not known", "Nothing has changed.")

        self.app.add_url_rule("/error/<int:status>", "error", error)

    def browser(self) -> Browser:
        """Return a new browser without cookies."""
        return Browser(self)

    def path(self, id: str) -> str:
        return f"{self.prefix}/interaction/{id}"


@attrs.define
class _Form:
    action: str
    fields: list[tuple[str, str]] = attrs.Factory(list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[_Form] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        if tag == "form":
            self.forms.append(_Form(given["action"]))
        elif tag == "a":
            self.links.append(given["href"])
        elif (
            tag == "input"
            and given["type"] in ("hidden", "text", "password", "checkbox")
            and (given["type"] != "checkbox" or "checked" in given)
        ):
            self.forms[-1].fields.append((given["name"], given.get("value", "")))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@attrs.frozen
class BrowserPage:
    """A response, as a browser shows it."""

    status: int
    headers: Mapping[str, str]
    html: str
    forms: Sequence[_Form]
    links: Sequence[str]
    tags: Sequence[str]
    words: str
    """The text, on one line."""

    @property
    def location(self) -> str:
        return self.headers["location"]


class Browser:
    """A browser with cookies that sends the same headers with forms as real ones."""

    def __init__(self, testbed: PageTestbed) -> None:
        self._testbed = testbed
        self._client = testbed.app.test_client(use_cookies=False)
        self.cookies: dict[str, str] = {}
        self.set: list[str] = []
        """The Set-Cookie headers of all responses."""

    async def get(self, path: str) -> BrowserPage:
        return await self._request(path, {}, None)

    async def post(
        self,
        path: str,
        fields: Sequence[tuple[str, str]],
        *,
        origin: str | None = "",
        fetch_site: str | None = "same-origin",
        content_type: str = "application/x-www-form-urlencoded",
    ) -> BrowserPage:
        """Send a form. An empty origin is replaced by the origin of the server."""
        origin = self._testbed.origin if origin == "" else origin
        named = (("Origin", origin), ("Sec-Fetch-Site", fetch_site), ("Content-Type", content_type))
        headers = {name: value for name, value in named if value is not None}
        return await self._request(path, headers, urlencode(fields).encode())

    async def submit(
        self, page: BrowserPage, *, form: int = -1, drop: Sequence[str] = (), **fields: str
    ) -> BrowserPage:
        """Complete a form of a page and send it.

        Args:
            page: The page.
            form: The index of the form.
            drop: Values of checkboxes to clear.
            fields: Values to enter, including the name and value of a button.
        """
        given = [pair for pair in page.forms[form].fields if pair[0] not in fields and pair[1] not in drop]
        return await self.post(page.forms[form].action, [*given, *fields.items()])

    async def follow(self, page: BrowserPage) -> BrowserPage:
        return await self.get(page.location)

    async def log_in(self, id: str) -> BrowserPage:
        """Open a request and log in. Return the next page."""
        page = await self.get(self._testbed.path(id))
        return await self.follow(await self.submit(page, username="ada", password="lovelace"))

    async def _request(self, path: str, headers: Mapping[str, str], body: bytes | None) -> BrowserPage:
        cookies = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        sent = {**headers, **(cookies if self.cookies else {})}
        answer = await (
            self._client.get(path, headers=sent) if body is None else self._client.post(path, headers=sent, data=body)
        )
        for text in answer.headers.getlist("Set-Cookie"):
            self.set.append(text)
            name, _, value = text.partition(";")[0].partition("=")
            if "Max-Age=0" in text:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value
        html = await answer.get_data(as_text=True)
        reader = _Reader()
        reader.feed(html)
        return BrowserPage(
            status=answer.status_code,
            headers={name.lower(): value for name, value in answer.headers.items()},
            html=html,
            forms=reader.forms,
            links=reader.links,
            tags=reader.tags,
            words=" ".join("".join(reader.text).split()),
        )


async def form_token(testbed: PageTestbed, browser: Browser, purpose: str) -> str:
    """Return the valid form token for a form that the browser has not shown."""
    sessions = BrowserSessions(testbed.store, issuer=testbed.issuer, secure=testbed.secure, clock=testbed.clock)
    found = await sessions.find("; ".join(f"{name}={value}" for name, value in browser.cookies.items()))
    assert found is not None
    return found.form_token(purpose)
