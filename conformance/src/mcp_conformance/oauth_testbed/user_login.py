"""Somebody at a browser, who logs in at the authorization server under test whenever the suite sends them there.

The suite is an OAuth client on this machine (RFC 8252): it listens at a loopback address, hands the browser a URL, and
waits until the browser comes back. Who is at the browser, a program or a person, it does not know.
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

    from mcp_conformance.wire.http_client import HttpAnswer
    from mcp_conformance.wire.http_server import Incoming
    from mcp_core.jsonrpc.messages import JsonObject

    Browser: TypeAlias = Callable[[str], Awaitable[None]]

__all__ = ["Login", "NotBack", "Trial", "command_browser", "open_login"]

_CALLBACK: Final = "/callback"
_PATIENCE: Final = 120.0
_SHOWN: Final = 300
"""Characters of what the browser wrote."""
_THANKS: Final = b"<!doctype html><title>mcp-conformance</title><p>The suite has its answer. You can close this window."


class NotBack(Exception):
    """The browser did not come back. Why is the only argument."""


@attrs.frozen(kw_only=True)
class Trial:
    """A request for authorization, and what came of it."""

    client_id: str
    """Who asked."""
    state: str
    """By which `state`."""
    verifier: str
    """The verifier of its challenge."""
    fields: Mapping[str, str]
    """What the browser brought back; empty where it did not come back."""
    answers: tuple[HttpAnswer, ...] = ()
    """What the token endpoint said after that, in order."""


class _Return:
    """The return of the browser that is waited for."""

    def __init__(self) -> None:
        self.fields: dict[str, str] | None = None
        self.over: Final = trio.Event()


class Login:
    """Somebody at a browser. Made by `open_login`.

    Args:
        browser: Opens a URL, and raises `NotBack` when it knows that it leads nowhere.
        patience: Seconds that a login may take. It may be a person who does it.
        client_id: A client that is known already; `None`: the suite registers one.
        resource: The MCP server that tokens are asked for; `None`: what the metadata say.
    """

    def __init__(
        self,
        browser: Browser,
        *,
        patience: float = _PATIENCE,
        client_id: str | None = None,
        resource: str | None = None,
    ) -> None:
        self.client_id: Final = client_id
        """A client that is known already; `None`: the suite registers one."""
        self.resource: Final = resource
        """The MCP server that tokens are asked for; `None`: what the metadata say."""
        self.redirect_uri = ""
        """Where the suite listens."""
        self.registered: Final[dict[str, JsonObject]] = {}
        """The clients that the suite registered, by what they are for. Few: who registers many is turned away."""
        self.metadata: JsonObject | None = None
        """What the authorization server tells of itself; `None`: it was not asked yet."""
        self.trials: Final[dict[str, Trial | str]] = {}
        """What was tried, by name, or why it could not be. The revisions of a run share it: each login may be work for a
        person."""
        self.lost: str | None = None
        """Why the browser did not come back; `None`: it always did. Nobody is kept waiting for it twice."""
        self._browser: Final = browser
        self._patience: Final = patience
        self._past: Final[set[str]] = set()
        self._awaited = _Return()

    async def visit(self, url: str, state: str) -> dict[str, str]:
        """Send the browser to a URL.

        Args:
            url: An authorization URL.
            state: The `state` in it.

        Returns:
            What it brings back.

        Raises:
            NotBack: It does not come back.
        """
        awaited = self._awaited = _Return()
        try:
            with trio.move_on_after(self._patience):
                async with open_nursery() as nursery:
                    nursery.start_soon(self._open, url)
                    await awaited.over.wait()
                    nursery.cancel_scope.cancel()
        finally:
            self._past.add(state)
        if awaited.fields is None:
            raise NotBack(f"nobody came to {self.redirect_uri} within {self._patience:g} seconds")
        return awaited.fields

    async def _open(self, url: str) -> None:
        try:
            await self._browser(url)
        except NotBack:
            # Once it was here, what becomes of it is all the same.
            if self._awaited.fields is None:
                raise

    async def handle(self, incoming: Incoming) -> None:
        """Answer the browser."""
        if incoming.path != _CALLBACK:
            await incoming.respond(404)
            return
        fields = dict(parse_qsl(urlsplit(incoming.target).query, keep_blank_values=True))
        # One who was given up before may still come.
        awaited = self._awaited
        first = awaited.fields is None and fields.get("state") not in self._past
        if first:
            awaited.fields = fields
        await incoming.respond(200, (("Content-Type", "text/html; charset=utf-8"),), _THANKS)
        if first:
            # Not before: what comes of it may end the browser, which should have its page.
            awaited.over.set()


@asynccontextmanager
async def open_login(login: Login) -> AsyncIterator[Login]:
    """Listen for the browser, for a block."""
    async with open_http_server(login.handle) as port:
        login.redirect_uri = f"http://127.0.0.1:{port}{_CALLBACK}"
        yield login


def command_browser(words: Sequence[str]) -> Browser:
    """A browser that is a command, run anew for each login.

    Args:
        words: The program and its arguments, with `{url}` where the URL goes. One that ends with another status than 0
            got nowhere; one that ends with 0 may have opened a window, and is waited for.
    """

    async def open_url(url: str) -> None:
        try:
            async with run_process([word.replace("{url}", url) for word in words]) as process:
                status = await process.wait()
                log = " ".join(process.log.split())[-_SHOWN:]
        except OSError as error:
            raise NotBack(f"its command cannot be started: {error}") from error
        if status:
            raise NotBack(f"its command ended with the status {status}: {log}")

    return open_url
