"""The login of a user in a browser at the authorization server under test.

The suite is an OAuth client on this machine (RFC 8252): it listens on a loopback address, opens a URL in the browser,
and waits for the redirect. A program or a user may operate the browser.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

import attrs
import trio

from mcp_conformance.wire.http_server import open_http_server
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.process import run_process

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from typing import TypeAlias

    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_conformance.wire.http_server import ServerExchange
    from mcp_core.jsonrpc.messages import JsonObject

    Browser: TypeAlias = Callable[[str], Awaitable[None]]

__all__ = ["Login", "LoginAttempt", "RedirectMissing", "command_browser", "open_login"]

_CALLBACK: Final = "/callback"
_TIMEOUT: Final = 120.0
_SHOWN: Final = 300
"""Characters of the browser's output that are shown."""
_THANKS: Final = (
    b"<!doctype html><title>mcp-conformance</title><p>The suite has received the response. You can close this window."
)


class RedirectMissing(Exception):
    """The browser was not redirected back. The only argument is the cause."""


class RedirectOverdue(RedirectMissing):
    """The browser was not redirected back in time. It may show a page to a user."""


@attrs.frozen(kw_only=True)
class LoginAttempt:
    """An authorization request, with its outcome."""

    client_id: str
    """The client id."""
    state: str
    """The `state`."""
    verifier: str
    """The verifier of the code challenge."""
    fields: Mapping[str, str]
    """The fields of the authorization response; empty without a response."""
    answers: tuple[HttpResponse, ...] = ()
    """The later responses of the token endpoint, in order."""


class _PendingRedirect:
    """A pending redirect of the browser."""

    def __init__(self, state: str | None = None) -> None:
        self.state: Final = state
        self.fields: dict[str, str] | None = None
        self.over: Final = trio.Event()


class Login:
    """The login of a user at a browser. Created by `open_login`.

    Args:
        browser: Opens a URL, and raises `RedirectMissing` if it knows that there will be no redirect.
        timeout: Seconds that a login may take. A user may do it by hand.
        client_id: A registered client; `None`: the suite registers one.
        resource: The MCP server for which tokens are requested; `None`: the one in the metadata.
    """

    def __init__(
        self,
        browser: Browser,
        *,
        timeout: float = _TIMEOUT,
        client_id: str | None = None,
        resource: str | None = None,
    ) -> None:
        self.client_id: Final = client_id
        """A registered client; `None`: the suite registers one."""
        self.resource: Final = resource
        """The MCP server for which tokens are requested; `None`: the one in the metadata."""
        self.redirect_uri = ""
        """The redirect URI of the suite."""
        self.registered: Final[dict[str, JsonObject]] = {}
        """The clients that the suite registered, by purpose. They are few, because servers limit registrations."""
        self.metadata: JsonObject | None = None
        """The authorization server metadata; `None` before they are requested."""
        self.attempts: Final[dict[str, LoginAttempt | str]] = {}
        """The login attempts, or the reasons against them, by name.

        The revisions of a run share them, because a user may have to log in by hand.
        """
        self.lost: str | None = None
        """Why the browser was not redirected back; `None` if it always was. The suite does not wait for it twice."""
        self.codes: Final[dict[str, bool]] = {}
        """Whether a client with a metadata document got a code, by the document."""
        self.arrived: str = ""
        """The path of the last redirect to the suite; empty before one."""
        self._browser: Final = browser
        self._timeout: Final = timeout
        self._past: Final[set[str]] = set()
        self._overdue = False
        self._awaited = _PendingRedirect()

    async def visit(self, url: str, state: str) -> dict[str, str]:
        """Open a URL in the browser.

        Args:
            url: An authorization URL.
            state: The `state` in it.

        Returns:
            The fields of the authorization response.

        Raises:
            RedirectMissing: The browser is not redirected back.
        """
        awaited = self._awaited = _PendingRedirect(state)
        try:
            with trio.move_on_after(self._timeout):
                async with open_nursery() as nursery:
                    nursery.start_soon(self._open, url)
                    await awaited.over.wait()
                    nursery.cancel_scope.cancel()
        finally:
            self._past.add(state)
        if awaited.fields is None:
            raise RedirectOverdue(f"no request to {self.redirect_uri} within {self._timeout:g} seconds")
        return awaited.fields

    async def visit_rejected(self, url: str, state: str) -> dict[str, str]:
        """Open a URL that should lead to an error page in the browser.

        After a page that the suite waited for until the timeout, it opens no further ones: a user would have to wait for
        each of them.

        Args:
            url: An authorization URL.
            state: The `state` in it.

        Returns:
            The fields of the authorization response; empty if the browser is not redirected back.
        """
        if self._overdue:
            return {}
        try:
            return await self.visit(url, state)
        except RedirectOverdue:
            self._overdue = True
            return {}
        except RedirectMissing:
            return {}

    async def _open(self, url: str) -> None:
        try:
            await self._browser(url)
        except RedirectMissing:
            # After the redirect, a failure of the browser does not matter.
            if self._awaited.fields is None:
                raise

    async def handle(self, incoming: ServerExchange) -> None:
        """Respond to the browser."""
        fields = dict(parse_qsl(urlsplit(incoming.target).query, keep_blank_values=True))
        awaited = self._awaited
        # A response that the server sends to another redirect URI arrives too.
        if incoming.path != _CALLBACK and (awaited.state is None or fields.get("state") != awaited.state):
            await incoming.respond(404)
            return
        # The response to an abandoned request may still arrive.
        first = awaited.fields is None and fields.get("state") not in self._past
        if first:
            awaited.fields, self.arrived = fields, incoming.path
        await incoming.respond(200, (("Content-Type", "text/html; charset=utf-8"),), _THANKS)
        if first:
            # Only now, because the next step may end the browser, which should show the page first.
            awaited.over.set()


@asynccontextmanager
async def open_login(login: Login) -> AsyncIterator[Login]:
    """Listen for the browser while the block runs."""
    async with open_http_server(login.handle) as port:
        login.redirect_uri = f"http://127.0.0.1:{port}{_CALLBACK}"
        yield login


def command_browser(words: Sequence[str]) -> Browser:
    """Return a browser that runs a command for each login.

    Args:
        words: The program and its arguments, with the placeholder `{url}`. An exit status other than 0 means failure. A
            program that exits with 0 may have opened a window, so the suite waits for it.
    """

    async def open_url(url: str) -> None:
        try:
            async with run_process([word.replace("{url}", url) for word in words]) as process:
                status = await process.wait()
        except OSError as error:
            raise RedirectMissing(f"the browser command cannot be started: {error}") from error
        if status:
            # Read the log here: while the process was left, its last lines could arrive.
            log = " ".join(process.log.split())[-_SHOWN:]
            raise RedirectMissing(f"the browser command ended with the status {status}: {log}")

    return open_url
