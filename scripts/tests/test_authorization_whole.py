"""All three parts of authorization together, with a person at a real browser: our client, our server, our authorization server."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Final

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

SCOPES: Final = {"notes:read": "Read your notes", "notes:write": "Change your notes"}


class Person:
    """Ada, who does in a browser what a program asks her to, in a thread of her own."""

    def __init__(self) -> None:
        self.saw: list[str] = []
        """The headings of the pages, in order."""
        self._urls: Final[queue.SimpleQueue[str | None]] = queue.SimpleQueue()

    def told(self, text: str) -> None:
        """What the program writes when it cannot open a browser by itself: the URL is in the last line."""
        self._urls.put(text.splitlines()[-1])

    def leave(self) -> None:
        """She goes home."""
        self._urls.put(None)

    def sit_there(self) -> None:
        """Does what is asked, until she leaves."""
        with chromium() as browser:
            page = browser.new_context().new_page()
            page.set_default_timeout(60_000)
            while (url := self._urls.get()) is not None:
                page.goto(url)
                self._answer(page)

    def _answer(self, page: Page) -> None:
        heading = page.get_by_role("heading", level=1)
        self.saw.append(heading.inner_text())
        if self.saw[-1] == "Log in":
            page.get_by_label("User name").fill("ada")
            page.get_by_label("Password").fill("lovelace")
            page.get_by_role("button", name="Log in").click()
            self.saw.append(heading.inner_text())
        page.get_by_role("button", name="Allow").click()
        page.wait_for_url("**/callback?*")


def notebook() -> Server:
    """A server with one tool for each scope."""
    server = Server("notebook", version="1.0")

    @server.tool
    async def read(context: Context) -> str:
        """Reads."""
        assert context.principal is not None
        return f"{context.principal.subject} may {', '.join(sorted(context.scopes))}"

    @server.tool
    async def write(context: Context) -> str:
        """Writes."""
        return f"now {', '.join(sorted(context.scopes))}"

    return server


async def said(client: Client, tool: str) -> str:
    """What a tool answers."""
    (content,) = (await client.call_tool(tool, {})).content
    assert isinstance(content, TextContent)
    return content.text


async def test_a_person_logs_in_and_allows_more_when_more_is_needed() -> None:
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
    person = Person()
    oauth = OAuth(
        "Notebook reader",
        user_agent=SystemBrowser(show_message=person.told, environment={"BROWSER": "no-such-program"}),
    )
    with trio.fail_after(150):
        async with trio.open_nursery() as nursery:
            host = HttpHost(authorization.combine(endpoint), limits=SERVER_LIMITS, timeouts=None)
            await nursery.start(host.run, [listener])
            nursery.start_soon(trio.to_thread.run_sync, person.sit_there)
            try:
                async with open_http(resource, auth=oauth) as client:
                    assert await said(client, "read") == "ada may notes:read"
                    assert person.saw == ["Log in", f"Allow “Notebook reader” to use {issuer.removeprefix('http://')}?"]
                    assert await said(client, "write") == "now notes:read, notes:write"
                    assert len(person.saw) == 3
                    assert await said(client, "read") == "ada may notes:read, notes:write"
                    assert len(person.saw) == 3
            finally:
                person.leave()
            nursery.cancel_scope.cancel()
    await authorization.store.aclose()
