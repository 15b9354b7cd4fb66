"""Client, server and authorization server together, with a user at a real browser."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Final

import pytest
import trio

from documentation.chromium import chromium
from mcp_client import Client, open_http
from mcp_client.auth import OAuth, SystemBrowser
from mcp_core.limits import SERVER_LIMITS
from mcp_core.types.content import TextContent
from mcp_server import Context, Server
from mcp_server.auth import ResourceServer, Scopes
from mcp_server.auth.authorization_server import AuthorizationServer, PasswordUsers, hash_password
from mcp_server.host.embedded import HttpHost

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.xdist_group("browser")

SCOPES: Final = {"notes:read": "Read your notes", "notes:write": "Change your notes"}


class BrowserUser:
    """A user who opens URLs in a browser, in a separate thread."""

    def __init__(self) -> None:
        self.headings: list[str] = []
        """The headings of the pages, in order."""
        self._urls: Final[queue.SimpleQueue[str | None]] = queue.SimpleQueue()

    def open_url(self, text: str) -> None:
        """Open the URL in the last line of a text that the program writes because it cannot open a browser."""
        self._urls.put(text.splitlines()[-1])

    def stop(self) -> None:
        """Stop the thread."""
        self._urls.put(None)

    def run(self) -> None:
        """Open URLs until stopped."""
        with chromium() as browser:
            page = browser.new_context().new_page()
            page.set_default_timeout(60_000)
            while (url := self._urls.get()) is not None:
                page.goto(url)
                self._answer(page)

    def _answer(self, page: Page) -> None:
        heading = page.get_by_role("heading", level=1)
        self.headings.append(heading.inner_text())
        if self.headings[-1] == "Log in":
            page.get_by_label("User name").fill("ada")
            page.get_by_label("Password").fill("lovelace")
            page.get_by_role("button", name="Log in").click()
            self.headings.append(heading.inner_text())
        page.get_by_role("button", name="Allow").click()
        page.wait_for_url("**/callback?*")


def notebook() -> Server:
    """Return a server with one tool for each scope."""
    server = Server("notebook", version="1.0")

    @server.tool
    async def read(context: Context) -> str:
        """Read notes."""
        assert context.principal is not None
        return f"{context.principal.subject} may {', '.join(sorted(context.scopes))}"

    @server.tool
    async def write(context: Context) -> str:
        """Write notes."""
        return f"now {', '.join(sorted(context.scopes))}"

    return server


async def call_tool(client: Client, tool: str) -> str:
    """Call a tool, and return its text."""
    (content,) = (await client.call_tool(tool, {})).content
    assert isinstance(content, TextContent)
    return content.text


async def test_user_logs_in_and_grants_more_scopes_on_request() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    issuer = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    resource = f"{issuer}/mcp"
    authorization = AuthorizationServer(
        issuer, users=PasswordUsers({"ada": hash_password("lovelace")}), resources=[resource], scopes=SCOPES
    )
    endpoint = notebook().asgi(
        auth=ResourceServer(
            resource,
            authorization_servers=[issuer],
            tokens=authorization.tokens,
            scopes=Scopes(base="notes:read", tools={"write": "notes:write"}),
        )
    )
    user = BrowserUser()
    oauth = OAuth(
        "Notebook reader",
        user_agent=SystemBrowser(show_message=user.open_url, environment={"BROWSER": "no-such-program"}),
    )
    with trio.fail_after(150):
        async with trio.open_nursery() as nursery:
            host = HttpHost(authorization.combine(endpoint), limits=SERVER_LIMITS, timeouts=None)
            await nursery.start(host.run, [listener])
            nursery.start_soon(trio.to_thread.run_sync, user.run)
            try:
                async with open_http(resource, auth=oauth) as client:
                    assert await call_tool(client, "read") == "ada may notes:read"
                    assert user.headings == [
                        "Log in",
                        f"Allow “Notebook reader” to use {issuer.removeprefix('http://')}?",
                    ]
                    assert await call_tool(client, "write") == "now notes:read, notes:write"
                    assert len(user.headings) == 3
                    assert await call_tool(client, "read") == "ada may notes:read, notes:write"
                    assert len(user.headings) == 3
            finally:
                user.stop()
            nursery.cancel_scope.cancel()
    await authorization.store.aclose()
