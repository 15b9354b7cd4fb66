"""How the command line logs in where a server over HTTP wants it, where it keeps what it got, and how it logs out."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from mcp_client.auth.configured import client_records
from mcp_client.auth.oauth import OAuth
from mcp_client.auth.stores.keyring import KeyringStore
from mcp_client.auth.stores.memory import MemoryStore
from mcp_client.auth.stores.protocol import CredentialStoreError, NoSecureKeyring
from mcp_client.auth.stores.records import without_query
from mcp_client.auth.user_agents import Paste, SystemBrowser
from mcp_core.errors import AuthorizationError, AuthorizationRefused, UnsafeUrl
from mcp_core.oauth.urls import check_browser_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from mcp_client.auth.stores.protocol import CredentialStore
    from mcp_client.auth.user_agents import Receiver, UserAgent
    from mcp_client.cli.output import Screen
    from mcp_client.config import AuthConfig
    from mcp_client.transports.http.authorizer import Authorization
    from mcp_core.oauth.records import ClientRecord, TokenRecord

__all__ = ["NAME", "Keeping", "authorization", "log_out"]

NAME: Final = "mcp-client"
"""What the person reads who is asked for consent."""

_UNATTENDED: Final = (
    "the server wants a login, and nobody can be asked: log in once at a terminal (`mcp-client probe URL`), or say "
    "--login auto or --login paste, or send credentials of your own by --header"
)


class Keeping:
    """The keyring of the system; where there is none that is safe, what is kept is gone with the process, and said so."""

    def __init__(self, screen: Screen) -> None:
        self._screen: Final = screen
        self._store: CredentialStore | None = None
        self._lacking: str | None = None
        self.has_tokens = False
        """Whether there were tokens when they were last looked for."""

    async def _chosen(self) -> CredentialStore:
        if self._store is None:
            ring = KeyringStore()
            try:
                await ring.load_client("")
            except CredentialStoreError as error:
                self._lacking = error.message
                self._store = MemoryStore()
            else:
                self._store = ring
        return self._store

    async def load_tokens(self, server_url: str) -> TokenRecord | None:
        """See `CredentialStore`."""
        tokens = await (await self._chosen()).load_tokens(server_url)
        self.has_tokens = tokens is not None
        return tokens

    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        """See `CredentialStore`."""
        await (await self._chosen()).save_tokens(server_url, tokens)
        if self._lacking is not None and tokens is not None:
            self._screen.note(f"The next command has to log in anew: {self._lacking}.")

    async def load_client(self, issuer: str) -> ClientRecord | None:
        """See `CredentialStore`."""
        return await (await self._chosen()).load_client(issuer)

    async def save_client(self, issuer: str, client: ClientRecord | None) -> None:
        """See `CredentialStore`."""
        await (await self._chosen()).save_client(issuer, client)

    @asynccontextmanager
    async def lock(self, server_url: str) -> AsyncIterator[None]:
        """See `CredentialStore`."""
        async with (await self._chosen()).lock(server_url):
            yield


class _Browser(SystemBrowser):
    """The browser of the system; what it cannot answer is asked on the terminal."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(tell=screen.note)
        self._terminal: Final = _terminal(screen) if screen.interactive else None

    async def ask_client(self, issuer: str, reason: str) -> ClientRecord | None:
        return None if self._terminal is None else await self._terminal.ask_client(issuer, reason)


def _terminal(screen: Screen) -> Paste:
    def ask(question: str) -> str:
        try:
            return screen.ask(question)
        except EOFError:
            return ""

    return Paste(tell=screen.note, ask=ask)


class _Nobody:
    """Nobody is asked. What is kept is used and renewed all the same."""

    def __init__(self, keeping: Keeping) -> None:
        self._keeping: Final = keeping
        self.redirect_uri = "http://127.0.0.1/callback"

    @asynccontextmanager
    async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
        await trio.lowlevel.checkpoint()
        # So that the client is not registered for nothing: here as nobody, there anew for another port.
        if not self._keeping.has_tokens:
            raise AuthorizationRefused(_UNATTENDED)
        if port is not None:
            self.redirect_uri = f"http://127.0.0.1:{port}/callback"
        yield self

    async def open(self, url: str) -> None:  # noqa: ARG002  # it is shown to nobody
        await trio.lowlevel.checkpoint()
        raise AuthorizationRefused(_UNATTENDED)

    async def redirected(self) -> str:
        await trio.lowlevel.checkpoint()
        raise AuthorizationRefused(_UNATTENDED)

    async def ask_client(self, issuer: str, reason: str) -> ClientRecord | None:  # noqa: ARG002  # nobody is asked
        await trio.lowlevel.checkpoint()
        return None


def authorization(
    url: str, how: str | None, headers: Iterable[str], screen: Screen, *, known: AuthConfig | None = None
) -> Authorization | None:
    """How the command line gets credentials for a server.

    Args:
        url: The server.
        how: `auto`, `paste` or `never`; `None`: `auto` where somebody is at a terminal, else `never`.
        headers: The names of the headers that were given.
        screen: Where the person is.
        known: What a file says of the authorization there.

    Returns:
        `None`: it does not, because there are credentials among the headers, or because the URL is none that a token may
        be sent to.
    """
    if any(name.lower() == "authorization" for name in headers):
        return None
    try:
        check_browser_url(url, what="server URL")
    except UnsafeUrl:
        return None
    keeping = Keeping(screen)
    agents: dict[str, UserAgent] = {
        "auto": _Browser(screen),
        "paste": _terminal(screen),
        "never": _Nobody(keeping),
    }
    chosen = how or ("auto" if sys.stderr.isatty() else "never")
    return OAuth(
        NAME,
        store=keeping,
        user_agent=agents[chosen],
        credentials=client_records(known),
        scopes=None if known is None else known.scopes,
    )


# --- logging out -----------------------------------------------------------------------------------------------------


async def log_out(url: str, screen: Screen) -> bool:
    """Deletes what is kept for a server, and has the authorization server forget it where it can.

    Args:
        url: The server.
        screen: Where it is told.

    Returns:
        Whether it is done: nothing is kept any more.
    """
    shown, found, failure = without_query(url), False, None
    try:
        found = await OAuth(NAME, store=KeyringStore()).log_out(url)
    except NoSecureKeyring:
        pass  # nothing was ever kept
    except CredentialStoreError as error:
        screen.note(f"error: {error}")
        return False
    except AuthorizationError as error:
        found, failure = True, error
    if not found:
        screen.note(f"Nothing was kept for {shown}.")
    elif failure is None:
        screen.note(f"Logged out of {shown}: what was kept is deleted, and has been revoked.")
    else:
        screen.note(f"Logged out of {shown}: what was kept is deleted. It was not revoked: {failure.message}.")
    if screen.json:
        screen.data({"deleted": found, "revoked": found and failure is None})
    return True
