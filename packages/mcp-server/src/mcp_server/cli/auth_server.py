"""The command `mcp-server auth-server`: an authorization server for development and small deployments."""

from __future__ import annotations

import getpass
import re
import sys
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.errors import McpError
from mcp_core.oauth.urls import parse_url
from mcp_server.host.listeners import listen
from mcp_server.host.tls import tls_context
from mcp_server.runners.signals import stopped_by_signals

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from mcp_server.auth.authorization_server import AuthorizationServer, SqliteStore, StoredUsers

__all__ = ["AuthServerError", "add_options", "serve"]

_ANY_PORT: Final = re.compile(r"(?<=[^/]):0(?=/|$)")
"""The port of a URL that leaves it to the system."""

_EXTRA: Final = 'the authorization server is an extra: install "mcp-server[authorization-server]"'


class AuthServerError(Exception):
    """An option cannot be used: what is wrong, and what to do."""


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds the options to `mcp-server auth-server`."""
    command.add_argument(
        "--issuer",
        required=True,
        metavar="URL",
        help="its own URL, as clients will know it; with port 0 the system chooses one",
    )
    command.add_argument(
        "--resource",
        required=True,
        metavar="URL",
        action="append",
        help="the URL of an MCP endpoint that tokens are issued for; may be given several times",
    )
    command.add_argument(
        "--scope",
        metavar="NAME=WORDS",
        action="append",
        default=[],
        help="what may be granted, and what that means in a few words; may be given several times",
    )
    command.add_argument("--store", metavar="FILE", help="keep everything in this SQLite file (default: in memory)")
    command.add_argument(
        "--user",
        metavar="NAME",
        action="append",
        default=[],
        help="a person who can log in; the password is asked for, or read from stdin, a line for each; with --store"
        " people are kept, so that each is needed once; may be given several times",
    )
    command.add_argument(
        "--bind", metavar="HOST:PORT", help="where it listens (default: at host and port of the issuer)"
    )
    command.add_argument("--tls-cert", metavar="FILE", help="serve HTTPS with this certificate")
    command.add_argument("--tls-key", metavar="FILE", help="its key, if that is in another file")
    command.add_argument("--no-registration", action="store_true", help="do not let clients register themselves")


def serve(given: argparse.Namespace) -> None:
    """Serves until SIGINT or SIGTERM.

    Raises:
        AuthServerError: An option cannot be used.
    """
    try:
        from mcp_server.auth.authorization_server import MemoryStore, SqliteStore  # lazy: an extra
    except ModuleNotFoundError as error:
        raise AuthServerError(f"{error}: {_EXTRA}") from error

    passwords = [(name, _password(name)) for name in given.user]
    try:
        store = MemoryStore() if given.store is None else SqliteStore(given.store)
        trio.run(_serve, given, store, passwords)
    except (McpError, OSError, ValueError) as error:
        raise AuthServerError((isinstance(error, OSError) and error.strerror) or str(error)) from error


def _password(name: str) -> str:
    if sys.stdin.isatty():
        return getpass.getpass(f"password of {name}: ")
    line = sys.stdin.readline()
    if not line:
        raise AuthServerError(f"stdin has no line with the password of {name}")
    return line.rstrip("\r\n")


async def _serve(given: argparse.Namespace, store: SqliteStore, passwords: Sequence[tuple[str, str]]) -> None:
    from mcp_server.auth.authorization_server import StoredUsers  # lazy: an extra

    users = StoredUsers(store)
    try:
        if not passwords and given.store is None:
            raise ValueError("nobody can log in: give --user NAME")
        tls = tls_context(given.tls_cert, given.tls_key)
        # Everything but the port is known, and found to be right, before anything is kept or listened at.
        server = _made(given, _ANY_PORT.sub("", given.issuer), store, users)
        for name, password in passwords:
            await users.put(name, password)
        listeners = await listen(given.bind or _bind(given.issuer))
        if _ANY_PORT.search(given.issuer):
            port = listeners[0].socket.getsockname()[1]
            server = _made(given, _ANY_PORT.sub(f":{port}", given.issuer), store, users)
        sys.stderr.write(f"the authorization server is at {server.issuer}\n")
        with stopped_by_signals():
            await server.serve(listeners, tls=tls)
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
    # Any port will do to read the rest.
    url = parse_url(_ANY_PORT.sub("", issuer), what="issuer")
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{host}:{0 if _ANY_PORT.search(issuer) else url.port}"
