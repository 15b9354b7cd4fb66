"""The options of `mcp-server dev`, and what it runs until a signal: the server, its reloader and the inspector."""

from __future__ import annotations

import signal
import socket
import sys
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.errors import MissingExtra
from mcp_core.http.origin import is_loopback
from mcp_core.trio.nursery import open_private_nursery
from mcp_server.cli.http import LEVELS, OptionError
from mcp_server.cli.options import CommandOption
from mcp_server.host.listeners import listen, split_bind

if TYPE_CHECKING:
    import argparse

    from mcp_server.cli.dev.reloader import ServerState

__all__ = ["EPILOG", "OPTIONS", "serve"]

_LOOPBACK: Final = "127.0.0.1"
_PATH: Final = "/mcp"

OPTIONS: Final = (
    CommandOption(name="log-level", choices=LEVELS, help="the lowest level to log to stderr (default: warning)"),
    CommandOption(
        name="http",
        metavar="HOST:PORT",
        help="the address of the endpoint, for other clients too: a loopback address (default: any free port of"
        f" {_LOOPBACK})",
    ),
)
"""The options of `mcp-server dev`."""

EPILOG: Final = """\
TARGET is the location of the server, as in `mcp-server run`: path/to/file.py:name, or package.module:name.

When a Python file in the folder of the file changes, or below it, the server is loaded again; for a module: in the
current directory. A file that cannot be loaded is reported here and on the inspector page, until it is corrected.

Open the printed URL of the inspector in a browser to call tools, read resources, get prompts, answer requests of the
server, and see all messages, in each revision. The URL contains a secret of this run.

example:
  mcp-server dev weather.py --http 127.0.0.1:8000

exit status: 2 the options cannot be used; 130 interrupted; 143 terminated.
"""


def serve(given: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM, and return the exit status.

    Args:
        given: The parsed options.

    Raises:
        OptionError: An option cannot be used, or the extra `dev` is not installed.
    """
    try:
        return trio.run(_serve, given)
    except MissingExtra as missing:
        raise OptionError(str(missing)) from missing
    except (OSError, ValueError) as error:
        raise OptionError((isinstance(error, OSError) and error.strerror) or str(error)) from error


async def _serve(given: argparse.Namespace) -> int:
    from mcp_server.cli.dev.inspector import Inspector  # lazy: an extra
    from mcp_server.cli.dev.reloader import Reloader  # lazy: an extra

    bind = _endpoint_address(given.http)
    listeners = await listen(f"{_LOOPBACK}:0")
    host, port = listeners[0].socket.getsockname()[:2]
    inspector_origin = f"http://{host}:{port}"
    url = f"http://{bind}{_PATH}"
    reloader = Reloader(
        given.target, bind, origin=inspector_origin, log_level=given.log_level, announce=_Announcement(url)
    )
    inspector = Inspector(reloader, origin=inspector_origin, endpoint=f"http://{bind}")
    status = 0

    async def stop_on_signal(scope: trio.CancelScope) -> None:
        nonlocal status
        async for number in signals:
            # Further signals change nothing: stopping takes a few seconds at most.
            status = 128 + number
            scope.cancel()

    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with open_private_nursery() as nursery:
            nursery.start_soon(stop_on_signal, nursery.cancel_scope)
            await nursery.start(inspector.run, listeners)
            sys.stderr.write(f"inspector: {inspector.url}\n")
            await reloader.run()
    return status


def _endpoint_address(bind: str | None) -> str:
    """Return the address of the endpoint with a port. Raises `OptionError` or `ValueError`."""
    host, port = (_LOOPBACK, 0) if bind is None else split_bind(bind)
    if not is_loopback(host):
        raise OptionError(
            f"--http {bind}: dev serves only this machine; give a loopback address such as {_LOOPBACK}:8000, or serve"
            " other machines with mcp-server run"
        )
    shown = f"[{host}]" if ":" in host else host
    if port:
        return f"{shown}:{port}"
    # The port stays the same over all reloads, so this process chooses it.
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as found:
        found.bind((host, 0))
        return f"{shown}:{found.getsockname()[1]}"


class _Announcement:
    """The states of the server, as the terminal shows them."""

    def __init__(self, url: str) -> None:
        self._url: Final = url

    def __call__(self, state: ServerState) -> None:
        if state.status == "serving":
            sys.stderr.write(f"{state.name} {state.version} is served at {self._url}\n")
        elif state.failure is not None:
            if state.failure.traceback:
                sys.stderr.write(f"{state.failure.traceback}\n")
            sys.stderr.write(f"{state.failure}\nwaiting for a change\n")
