"""Login and logout of the command line, and the storage of its credentials."""

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
from mcp_core.errors import AuthorizationError, AuthorizationRefused, MissingExtra, UnsafeUrl
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
"""The name of the client that the consent page shows to the user."""

_UNATTENDED: Final = (
    "the server requires a login, but there is no terminal: log in once at a terminal (`mcp-client probe URL`), pass "
    "--login auto or --login paste, or send your own credentials with --header"
)


class Keeping:
    """A credential store in the keyring of the system. Without one, it is in memory and informs the user."""

    def __init__(self, screen: Screen) -> None:
        self._screen: Final = screen
        self._store: CredentialStore | None = None
        self._lacking: str | None = None
        self.has_tokens: bool = False
        """Whether the last load found tokens."""

    async def _chosen(self) -> CredentialStore:
        if self._store is None:
            try:
                ring = KeyringStore()
                await ring.load_client("")
            except (CredentialStoreError, MissingExtra) as error:
                self._lacking = error.message
                self._store = MemoryStore()
            else:
                self._store = ring
        return self._store

    async def load_tokens(self, server_url: str) -> TokenRecord | None:
        """Return the stored tokens for the MCP server; `None` if not found."""
        tokens = await (await self._chosen()).load_tokens(server_url)
        self.has_tokens = tokens is not None
        return tokens

    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        """Store tokens, or delete them with `None`. Without a keyring, inform the user that they are not persistent."""
        await (await self._chosen()).save_tokens(server_url, tokens)
        if self._lacking is not None and tokens is not None:
            self._screen.note(f"The next command must log in again: {self._lacking}.")

    async def load_client(self, issuer: str) -> ClientRecord | None:
        """Return the stored client for the authorization server; `None` if not found."""
        return await (await self._chosen()).load_client(issuer)

    async def save_client(self, issuer: str, client: ClientRecord | None) -> None:
        """Store a client, or delete it with `None`."""
        await (await self._chosen()).save_client(issuer, client)

    @asynccontextmanager
    async def lock(self, server_url: str) -> AsyncIterator[None]:
        """Hold the lock of the server."""
        async with (await self._chosen()).lock(server_url):
            yield


class _Browser(SystemBrowser):
    """The browser of the system, with the terminal for prompts."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(show_message=screen.note)
        self._terminal: Final = _terminal(screen) if screen.interactive else None

    async def ask_client(self, issuer: str, reason: str) -> ClientRecord | None:
        return None if self._terminal is None else await self._terminal.ask_client(issuer, reason)


def _terminal(screen: Screen) -> Paste:
    def ask(prompt: str) -> str:
        try:
            return screen.ask(prompt)
        except EOFError:
            return ""

    return Paste(show_message=screen.note, ask=ask)


class _NoUser:
    """A user agent that does not prompt. Stored tokens are used and refreshed."""

    def __init__(self, keeping: Keeping) -> None:
        self._keeping: Final = keeping
        self.redirect_uri = "http://127.0.0.1/callback"

    @asynccontextmanager
    async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
        await trio.lowlevel.checkpoint()
        # Avoids a registration without a login: a later login on another port would have to register again.
        if not self._keeping.has_tokens:
            raise AuthorizationRefused(_UNATTENDED)
        if port is not None:
            self.redirect_uri = f"http://127.0.0.1:{port}/callback"
        yield self

    async def open(self, url: str) -> None:  # noqa: ARG002  # the URL is not shown
        await trio.lowlevel.checkpoint()
        raise AuthorizationRefused(_UNATTENDED)

    async def redirected(self) -> str:
        await trio.lowlevel.checkpoint()
        raise AuthorizationRefused(_UNATTENDED)

    async def ask_client(self, issuer: str, reason: str) -> ClientRecord | None:  # noqa: ARG002  # there is no prompt
        await trio.lowlevel.checkpoint()
        return None


def authorization(
    url: str, how: str | None, headers: Iterable[str], screen: Screen, *, known: AuthConfig | None = None
) -> Authorization | None:
    """Return the source of credentials for a server.

    Args:
        url: The URL of the server.
        how: `auto`, `paste` or `never`; `None` for `auto` on a terminal, else `never`.
        headers: The names of the headers from the command line.
        screen: The terminal of the user.
        known: The authorization settings of the server in a configuration file.

    Returns:
        The source; `None` if the headers contain credentials, or tokens must not be sent to the URL.
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
        "never": _NoUser(keeping),
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
    """Delete the stored credentials for a server, and revoke its tokens if possible.

    Args:
        url: The URL of the server.
        screen: The output.

    Returns:
        Whether no credentials are stored now.
    """
    shown, found, failure = without_query(url), False, None
    try:
        found = await OAuth(NAME, store=KeyringStore()).log_out(url)
    except (MissingExtra, NoSecureKeyring):
        pass  # nothing was stored
    except CredentialStoreError as error:
        screen.note(f"error: {error}")
        return False
    except AuthorizationError as error:
        found, failure = True, error
    if not found:
        screen.note(f"No credentials were stored for {shown}.")
    elif failure is None:
        screen.note(f"Logged out of {shown}: the stored credentials are deleted, and the tokens are revoked.")
    else:
        screen.note(f"Logged out of {shown}: the stored credentials are deleted, but not revoked: {failure.message}.")
    if screen.json:
        screen.data({"deleted": found, "revoked": found and failure is None})
    return True
