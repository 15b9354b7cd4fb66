"""The command `mcp-server auth-server`: an authorization server for development and small deployments."""

from __future__ import annotations

import getpass
import re
import sys
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.errors import McpError, MissingExtra
from mcp_core.oauth.urls import parse_url
from mcp_core.trio.signals import end_interrupted, stop_signal
from mcp_server.host.listeners import listen
from mcp_server.host.tls import tls_context

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from mcp_server.auth.authorization_server import AuthorizationServer, SqliteStore, StoredUsers

__all__ = ["AuthServerError", "add_options", "serve"]

_ANY_PORT: Final = re.compile(r"(?<=[^/]):0(?=/|$)")
"""Port 0 in a URL, which means that the system chooses the port."""


class AuthServerError(Exception):
    """An option cannot be used. The message names the problem and the remedy."""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `mcp-server auth-server`."""
    command.add_argument(
        "--issuer",
        required=True,
        metavar="URL",
        help="the issuer: the URL of this server for clients; with port 0 the system chooses a port",
    )
    command.add_argument(
        "--resource",
        required=True,
        metavar="URL",
        action="append",
        help="the URL of an MCP endpoint for which tokens are issued; may be given several times",
    )
    command.add_argument(
        "--scope",
        metavar="NAME=DESCRIPTION",
        action="append",
        default=[],
        help="a scope that can be granted, and its description for users; may be given several times",
    )
    command.add_argument("--store", metavar="FILE", help="store all data in this SQLite file (default: in memory)")
    command.add_argument(
        "--user",
        metavar="NAME",
        action="append",
        default=[],
        help="a user who can log in; the command prompts for the password, or reads it from stdin, one line per user;"
        " with --store users are stored, so that each is given only once; may be given several times",
    )
    command.add_argument(
        "--bind", metavar="HOST:PORT", help="the address to listen on (default: the host and port of the issuer)"
    )
    command.add_argument("--tls-cert", metavar="FILE", help="serve HTTPS with this certificate")
    command.add_argument("--tls-key", metavar="FILE", help="the private key, if it is in another file")
    command.add_argument("--no-registration", action="store_true", help="disable dynamic client registration")


def serve(given: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM.

    Args:
        given: The parsed options.

    Returns:
        The exit status.

    Raises:
        AuthServerError: An option cannot be used.
    """
    try:
        from mcp_server.auth.authorization_server import MemoryStore, SqliteStore  # lazy: an extra
    except MissingExtra as missing:
        whole = MissingExtra(missing.name or "", distribution="trio-mcp-server", extra="authorization-server")
        raise AuthServerError(str(whole)) from missing

    passwords = [(name, _password(name)) for name in given.user]
    try:
        store = MemoryStore() if given.store is None else SqliteStore(given.store)
        return trio.run(_serve, given, store, passwords)
    except (McpError, OSError, ValueError) as error:
        raise AuthServerError((isinstance(error, OSError) and error.strerror) or str(error)) from error


def _password(name: str) -> str:
    if sys.stdin.isatty():
        return getpass.getpass(f"password of {name}: ")
    line = sys.stdin.readline()
    if not line:
        raise AuthServerError(f"no password for user {name}: write it to stdin, one line per user")
    return line.rstrip("\r\n")


async def _serve(given: argparse.Namespace, store: SqliteStore, passwords: Sequence[tuple[str, str]]) -> int:
    from mcp_server.auth.authorization_server import StoredUsers  # lazy: an extra

    users = StoredUsers(store)
    try:
        if not passwords and given.store is None:
            raise ValueError("no user can log in: give --user NAME, or --store FILE with stored users")
        tls = tls_context(given.tls_cert, given.tls_key)
        # Check all options before anything is stored and before listening. Only the port is unknown.
        server = _made(given, _ANY_PORT.sub("", given.issuer), store, users)
        for name, password in passwords:
            await users.put(name, password)
        listeners = await listen(given.bind or _bind(given.issuer))
        if _ANY_PORT.search(given.issuer):
            port = listeners[0].socket.getsockname()[1]
            server = _made(given, _ANY_PORT.sub(f":{port}", given.issuer), store, users)
        sys.stderr.write(f"the authorization server is at {server.issuer}\n")
        with stop_signal(interrupted_again=end_interrupted) as stopped:
            await server.serve(listeners, tls=tls)
        return stopped.exit_status
    finally:
        with trio.CancelScope(shield=True):
            await store.aclose()


def _made(given: argparse.Namespace, issuer: str, store: SqliteStore, users: StoredUsers) -> AuthorizationServer:
    from mcp_server.auth.authorization_server import (  # lazy: an extra
        AuthorizationServer,
        DynamicRegistration,
        RegistrationPolicy,
    )

    pairs = [text.partition("=") for text in given.scope]
    registration = DynamicRegistration.OFF if given.no_registration else DynamicRegistration.OPEN
    return AuthorizationServer(
        issuer,
        users=users,
        resources=given.resource,
        scopes={name: words or name for name, _, words in pairs},
        policy=RegistrationPolicy(dynamic=registration),
        store=store,
    )


def _bind(issuer: str) -> str:
    # The port does not matter for parsing the rest.
    url = parse_url(_ANY_PORT.sub("", issuer), what="issuer")
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{host}:{0 if _ANY_PORT.search(issuer) else url.port}"
