"""The notebook for people who have logged in: an MCP server with its authorization server beside it, at one address.

    python docs/examples/protected/protected.py --port 8000 [FOLDER]

Reading needs the scope `notes:read`, adding a note `notes:write`. Ann can log in, with the password `quince`; who says so is
`USERS`, which a real deployment would have from somewhere else.
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
    """Who issues tokens, and who takes them."""
    here = f"http://127.0.0.1:{port}"
    authorization = AuthorizationServer(here, users=PasswordUsers(USERS), resources=[f"{here}/mcp"], scopes=SCOPES)
    resource = ResourceServer(
        f"{here}/mcp",
        authorization_servers=[here],
        tokens=authorization.tokens,
        scopes=Scopes(base="notes:read", tools={"add_note": "notes:write"}),
    )
    return authorization, resource


async def main(server: Server, port: int) -> None:
    """Serves until it is told to stop."""
    authorization, resource = protection(port)
    async with trio.open_nursery() as nursery:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            serve = partial(serve_http, server, f"127.0.0.1:{port}", auth=resource, companion=authorization)
            urls = await nursery.start(serve)
            print(urls[0], flush=True)
            await anext(signals)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serves a folder of Markdown notes to people who have logged in.")
    parser.add_argument("folder", nargs="?", type=Path, help="default: this documentation")
    parser.add_argument("--port", type=int, default=8000, help="default: %(default)s")
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    if given.folder is not None:
        os.environ["NOTEBOOK"] = str(given.folder)
    from server import server as notebook  # reads its folder

    trio.run(main, notebook, given.port)
