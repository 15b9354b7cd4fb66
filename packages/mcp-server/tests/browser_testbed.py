"""A real browser, and on loopback an authorization server, a client's site and an attacker's site.

The servers run on trio in a thread of their own; the test drives the browser. All of them are at 127.0.0.1 and so share
cookies, which ignore ports; the tests cover that too.
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

__all__ = ["BrowserTestbed", "WebSite", "open_browser_testbed"]

T = TypeVar("T")

_TIMEOUT: Final = 60.0
"""The time limit of a test, in seconds."""
_VERIFIER: Final = "v" * 43
_CHALLENGE: Final = base64.urlsafe_b64encode(hashlib.sha256(_VERIFIER.encode()).digest()).rstrip(b"=").decode()
SCOPES: Final = {"notes:read": "Read your notes", "notes:write": "Change and delete your notes"}
RESOURCE: Final = "https://mcp.example/mcp"


class WebSite:
    """A few pages by path: those of a client after its redirect, or those of an attacker."""

    def __init__(self) -> None:
        self.url: str = ""
        self.pages: dict[str, str] = {}
        """HTML by path."""
        self.redirects: dict[str, str] = {}
        """Redirect targets by path."""
        self.requests: list[str] = []
        """Paths with queries in the order of the requests, without icons."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, query = str(scope["path"]), cast("bytes", scope["query_string"]).decode()  # the types of ASGI are broad
        if path != "/favicon.ico":
            self.requests.append(f"{path}?{query}" if query else path)
        target = self.redirects.get(path)
        headers = [(b"content-type", b"text/html; charset=utf-8")]
        if target is not None:
            headers.append((b"location", target.encode()))
        body = self.pages.get(path, "<!doctype html><title>Client</title><h1>Back at the client</h1>").encode()
        await send({"type": "http.response.start", "status": 200 if target is None else 302, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@attrs.define
class BrowserTestbed:
    """The servers and the browser of a test."""

    server: AuthorizationServer
    """The authorization server."""
    client: WebSite
    """The client's pages; its redirect URI is `/callback`."""
    attacker: WebSite
    """The pages of an attacker."""
    provider: Provider
    """The OpenID provider, if logins are delegated."""
    browser: Browser
    """The browser."""
    clock_offset: list[float]
    """The lead of the server's clock over the system clock, in seconds."""
    token: trio.lowlevel.TrioToken
    """The token of the thread in which the servers run."""

    def authorization_url(self, **changes: str | None) -> str:
        """Return the URL of an authorization request."""
        parameters: dict[str, str | None] = {
            "response_type": "code",
            "client_id": "reader",
            "redirect_uri": f"{self.client.url}/callback",
            "scope": " ".join(SCOPES),
            "state": "s1",
            "resource": RESOURCE,
            "code_challenge": _CHALLENGE,
            "code_challenge_method": "S256",
        }
        fields = {name: value for name, value in {**parameters, **changes}.items() if value is not None}
        return f"{self.server.issuer}/authorize?{urlencode(fields)}"

    def page(self) -> Page:
        """Open a page in a new browser context."""
        page = self.browser.new_context().new_page()
        page.set_default_timeout(_TIMEOUT * 1_000)
        return page

    def callback_parameters(self, path: str = "/callback") -> Mapping[str, str]:
        """Return the parameters of the only request to the redirect URI."""
        (callback,) = [each for each in self.client.requests if each.startswith(path)]
        return {name: values[0] for name, values in parse_qs(callback.partition("?")[2]).items()}

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run a function in the thread of the servers."""
        return trio.from_thread.run(function, trio_token=self.token)


_Start = Callable[[Application], Awaitable[str]]


@contextmanager
def open_browser_testbed(
    browser: Browser, *, users: Users | None = None, delegated: bool = False
) -> Iterator[BrowserTestbed]:
    """Run the servers while the block runs."""
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
        except BaseException as error:  # noqa: BLE001  # raised in the thread of the test
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=work, name="servers")
    thread.start()
    try:
        assert ready.wait(_TIMEOUT)
        if made:
            yield made[0]
    finally:
        if made:
            made[0].token.run_sync_soon(scope.cancel)
        thread.join(_TIMEOUT)
    if failed:
        raise failed[0]


async def _open(nursery: trio.Nursery, browser: Browser, users: Users | None, *, delegated: bool) -> BrowserTestbed:
    listeners = [(await trio.open_tcp_listeners(0, host="127.0.0.1"))[0] for _ in range(4)]
    listeners.append((await trio.open_tcp_listeners(0, host="::1"))[0])
    server_port, client_port, attacker_port, provider_port, ipv6_port = [
        each.socket.getsockname()[1] for each in listeners
    ]
    client, attacker = WebSite(), WebSite()
    client.url, attacker.url = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{attacker_port}"
    clock_offset = [0.0]

    def clock() -> float:
        return time.time() + clock_offset[0]

    provider = Provider(clock)
    provider.issuer = f"http://127.0.0.1:{provider_port}"
    uris = [f"{client.url}/callback", f"http://[::1]:{ipv6_port}/callback"]
    server = AuthorizationServer(
        f"http://127.0.0.1:{server_port}",
        users=Delegation(provider.issuer, client_id="ours") if delegated else users or _ADA,
        resources=[RESOURCE],
        scopes=SCOPES,
        clients=[Client.configured("reader", name="Notebook reader", redirect_uris=uris)],
        store=MemoryStore(),
        clock=clock,
    )
    server_app = cast("Application", server.app)  # `QuartTrio` has narrower types of events
    apps: list[Application] = [server_app, client, attacker, provider, client]
    for app, listener in zip(apps, listeners, strict=True):
        await nursery.start(partial(HttpHost(app, limits=SERVER_LIMITS, timeouts=None).run, [listener]))
    return BrowserTestbed(
        server=server,
        client=client,
        attacker=attacker,
        provider=provider,
        browser=browser,
        clock_offset=clock_offset,
        token=trio.lowlevel.current_trio_token(),
    )


_ADA: Final = PasswordUsers({"ada": hash_password("lovelace")})
