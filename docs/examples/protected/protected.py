"""The notebook as a protected server: an MCP server and its authorization server at one address.

    python docs/examples/protected/protected.py --port 8000 [FOLDER]

Reading needs the scope `notes:read`, adding a note `notes:write`. Ann can log in, with the password `quince`, as listed in
`USERS`; a real deployment would load its users from elsewhere.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from functools import partial
from pathlib import Path

import trio

from mcp_server import Server, serve_http
from mcp_server.auth import ResourceServer, Scopes
from mcp_server.auth.authorization_server import AuthorizationServer, PasswordUsers, hash_password

sys.path.append(str(Path(__file__).resolve().parents[1] / "notebook"))

SCOPES = {"notes:read": "Read your notes", "notes:write": "Add notes"}
USERS = {"ann": hash_password("quince")}


def protection(port: int) -> tuple[AuthorizationServer, ResourceServer]:
    """Return the authorization server, and the resource server that accepts its tokens."""
    origin = f"http://127.0.0.1:{port}"
    authorization = AuthorizationServer(origin, users=PasswordUsers(USERS), resources=[f"{origin}/mcp"], scopes=SCOPES)
    resource = ResourceServer(
        f"{origin}/mcp",
        authorization_servers=[origin],
        tokens=authorization.tokens,
        scopes=Scopes(base="notes:read", tools={"add_note": "notes:write"}),
    )
    return authorization, resource


async def main(server: Server, port: int) -> None:
    """Serve until a signal arrives."""
    authorization, resource = protection(port)
    async with trio.open_nursery() as nursery:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            serve = partial(serve_http, server, f"127.0.0.1:{port}", auth=resource, companion=authorization)
            urls = await nursery.start(serve)
            print(urls[0], flush=True)
            await anext(signals)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve a folder of Markdown notes to users who have logged in.")
    parser.add_argument("folder", nargs="?", type=Path, help="default: this documentation")
    parser.add_argument("--port", type=int, default=8000, help="default: %(default)s")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    if arguments.folder is not None:
        os.environ["NOTEBOOK"] = str(arguments.folder)
    from server import server as notebook  # loads the folder when imported

    trio.run(main, notebook, arguments.port)
