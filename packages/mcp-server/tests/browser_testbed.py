"""A real browser, and around it, on loopback: an authorization server, a client's page, a page that means harm.

The servers run on trio in a thread of their own, the browser is driven from the test. All of them are at 127.0.0.1 and so
share cookies, which do not know ports; that is part of what is tested.
"""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast
from urllib.parse import parse_qs, urlencode

import attrs
import trio
from openid_provider import Provider

from mcp_core.limits import SERVER_LIMITS
from mcp_server.asgi import Application, Receive, Scope, Send
from mcp_server.auth.authorization_server import (
    AuthorizationServer,
    Client,
    Delegation,
    MemoryStore,
    PasswordUsers,
    Users,
    hash_password,
)
from mcp_server.host.embedded import HttpHost

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["Place", "Site", "place"]

T = TypeVar("T")

_PATIENCE: Final = 60.0
"""Seconds that a test may take."""
_VERIFIER: Final = "v" * 43
_CHALLENGE: Final = base64.urlsafe_b64encode(hashlib.sha256(_VERIFIER.encode()).digest()).rstrip(b"=").decode()
SCOPES: Final = {"notes:read": "Read your notes", "notes:write": "Change and delete your notes"}
RESOURCE: Final = "https://mcp.example/mcp"


class Site:
    """A few pages by path: what a client shows after the redirect, or what means harm."""

    def __init__(self) -> None:
        self.url: str = ""
        self.pages: dict[str, str] = {}
        """HTML by path."""
        self.redirects: dict[str, str] = {}
        """Where a path leads on to."""
        self.asked: list[str] = []
        """Paths with queries, as they came, but for icons."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, query = str(scope["path"]), cast("bytes", scope["query_string"]).decode()  # as ASGI says
        if path != "/favicon.ico":
            self.asked.append(f"{path}?{query}" if query else path)
        target = self.redirects.get(path)
        headers = [(b"content-type", b"text/html; charset=utf-8")]
        if target is not None:
            headers.append((b"location", target.encode()))
        body = self.pages.get(path, "<!doctype html><title>Client</title><h1>Back at the client</h1>").encode()
        await send({"type": "http.response.start", "status": 200 if target is None else 302, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@attrs.define
class Place:
    """Where the browser is."""

    server: AuthorizationServer
    """The authorization server."""
    client: Site
    """The client's pages; its redirect URI is `/callback`."""
    harm: Site
    """Pages of somebody else."""
    provider: Provider
    """The OpenID provider, in case of a delegation."""
    browser: Browser
    """The browser."""
    ahead: list[float]
    """By how much the clock of the server goes ahead, in seconds."""
    token: trio.lowlevel.TrioToken
    """Of the thread where the servers run."""

    def ask(self, **changes: str | None) -> str:
        """The URL of a request for authorization, as a client makes it."""
        right: dict[str, str | None] = {
            "response_type": "code",
            "client_id": "reader",
            "redirect_uri": f"{self.client.url}/callback",
            "scope": " ".join(SCOPES),
            "state": "s1",
            "resource": RESOURCE,
            "code_challenge": _CHALLENGE,
            "code_challenge_method": "S256",
        }
        fields = {name: value for name, value in {**right, **changes}.items() if value is not None}
        return f"{self.server.issuer}/authorize?{urlencode(fields)}"

    def page(self) -> Page:
        """A window of a browser that has been nowhere yet."""
        page = self.browser.new_context().new_page()
        page.set_default_timeout(_PATIENCE * 1_000)
        return page

    def answer(self, path: str = "/callback") -> Mapping[str, str]:
        """What came back to the client; it must be one answer."""
        (came,) = [each for each in self.client.asked if each.startswith(path)]
        return {name: values[0] for name, values in parse_qs(came.partition("?")[2]).items()}

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Runs something where the servers are."""
        return trio.from_thread.run(function, trio_token=self.token)


_Start = Callable[[Application], Awaitable[str]]


@contextmanager
def place(browser: Browser, *, users: Users | None = None, delegated: bool = False) -> Iterator[Place]:
    """Servers that run while the block does."""
    ready, failed, made = threading.Event(), [], []
    scope = trio.CancelScope()

    async def run() -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                made.append(await _open(nursery, browser, users, delegated=delegated))
                ready.set()
        for each in made:
            await each.server.store.aclose()

    def work() -> None:
        try:
            trio.run(run)
        except BaseException as error:  # noqa: BLE001  # raised where the test is
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=work, name="servers")
    thread.start()
    try:
        assert ready.wait(_PATIENCE)
        if made:
            yield made[0]
    finally:
        if made:
            made[0].token.run_sync_soon(scope.cancel)
        thread.join(_PATIENCE)
    if failed:
        raise failed[0]


async def _open(nursery: trio.Nursery, browser: Browser, users: Users | None, *, delegated: bool) -> Place:
    listeners = [(await trio.open_tcp_listeners(0, host="127.0.0.1"))[0] for _ in range(4)]
    listeners.append((await trio.open_tcp_listeners(0, host="::1"))[0])
    ours, theirs, others, upstream, sixth = [each.socket.getsockname()[1] for each in listeners]
    client, harm = Site(), Site()
    client.url, harm.url = f"http://127.0.0.1:{theirs}", f"http://127.0.0.1:{others}"
    ahead = [0.0]

    def clock() -> float:
        return time.time() + ahead[0]

    provider = Provider(clock)
    provider.issuer = f"http://127.0.0.1:{upstream}"
    uris = [f"{client.url}/callback", f"http://[::1]:{sixth}/callback"]
    server = AuthorizationServer(
        f"http://127.0.0.1:{ours}",
        users=Delegation(provider.issuer, client_id="ours") if delegated else users or _ADA,
        resources=[RESOURCE],
        scopes=SCOPES,
        clients=[Client.configured("reader", name="Notebook reader", redirect_uris=uris)],
        store=MemoryStore(),
        clock=clock,
    )
    ours_app = cast("Application", server.app)  # it says more of its events than we do
    apps: list[Application] = [ours_app, client, harm, provider, client]
    for app, listener in zip(apps, listeners, strict=True):
        await nursery.start(partial(HttpHost(app, limits=SERVER_LIMITS, timeouts=None).run, [listener]))
    return Place(
        server=server,
        client=client,
        harm=harm,
        provider=provider,
        browser=browser,
        ahead=ahead,
        token=trio.lowlevel.current_trio_token(),
    )


_ADA: Final = PasswordUsers({"ada": hash_password("lovelace")})
