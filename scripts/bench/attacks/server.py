"""The server under attack, with default limits. The first line that it prints is its port.

`python -m bench.attacks.server`, run by `scripts/bench/attack_server.py` and `scripts/bench/soak.py`. It ends with its standard input. On
SIGUSR1 it frees memory and prints a line.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import resource
import signal
import sys
from functools import partial

import attrs
import trio

from bench.attacks.processes import end_with_parent
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.jsonrpc.messages import JsonObject  # noqa: TC001  # a server reads the annotations of its handlers
from mcp_server import Context, Server, TaskPolicy, serve_http, serve_hypercorn, stopped_by_signals
from mcp_server.runners.http import ServeHttpOptions


@attrs.frozen
class Name:
    """The name of a user."""

    name: str


def make_server(seconds_kept: float | None) -> Server:
    """Return the server. `seconds_kept`: how long tasks are kept; `None` for the default."""
    tasks = None if seconds_kept is None else TaskPolicy(ttl=seconds_kept, longest_ttl=seconds_kept)
    server = Server("attacked", version="1", tasks=tasks)

    @server.tool
    async def echo(text: str) -> str:
        """Return the text."""
        return text

    @server.tool
    async def wait(seconds: float, text: str = "", data: JsonObject | None = None) -> str:
        """Wait, and keep the arguments meanwhile."""
        await trio.sleep(min(seconds, 60.0))
        return f"{len(text)} characters, {len(data or {})} members"

    @server.tool
    async def large(size: int) -> str:
        """Return a text of so many characters, not shared by calls."""
        return "x" * min(size, 4_000_000)

    @server.tool
    async def chatter(context: Context, messages: int, size: int) -> str:
        """Send log messages of so many characters."""
        for number in range(messages):
            await context.info(f"{number} {'x' * min(size, 1_000_000)}")
            await context.progress(number, message="x" * min(size, 1_000_000))
        return "done"

    @server.tool
    async def change(first: int, count: int) -> str:
        """Report changes of so many notes."""
        for number in range(first, first + count):
            server.resource_updated(f"note://{number}")
        return "changed"

    @server.tool
    async def ask(context: Context, text: str = "") -> str:
        """Request a form from the user, and keep the text meanwhile."""
        answer = await context.elicit(Name, "What is your name?")
        return f"{answer} {len(text)}"

    @server.tool
    async def release(context: Context, text: str) -> str:
        """Close the stream of the response before it is complete."""
        await context.release_stream()
        return text

    @server.tool(task="optional")
    async def job(seconds: float, text: str = "") -> str:
        """Run as a task."""
        await trio.sleep(min(seconds, 60.0))
        return text

    @server.resource("note://{+name}")
    def note(name: str) -> str:
        """Return the name of a note."""
        return name

    return server


async def free_on_signal() -> None:
    """Collect garbage, and return free memory to the system, on SIGUSR1: what remains is in use."""
    libc = ctypes.CDLL(None)
    with trio.open_signal_receiver(signal.SIGUSR1) as signals:
        async for _ in signals:
            gc.collect()
            if hasattr(libc, "malloc_trim"):  # glibc
                libc.malloc_trim(0)
            print("freed", flush=True)


async def main(given: argparse.Namespace) -> None:
    """Serve until standard input ends, or until a signal arrives."""
    seconds_kept: float | None = given.seconds_kept
    policy = EndpointPolicy() if seconds_kept is None else EndpointPolicy(session_idle=seconds_kept, retry=0.01)
    options = ServeHttpOptions(legacy_sse=True, policy=policy, grace=0.5)
    if given.tls_cert is not None:
        options["tls_cert"], options["tls_key"] = given.tls_cert, given.tls_key
    serve = serve_hypercorn if given.host == "hypercorn" else serve_http
    with stopped_by_signals():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_with_parent, nursery.cancel_scope)
            nursery.start_soon(free_on_signal)
            urls = await nursery.start(partial(serve, make_server(seconds_kept), "127.0.0.1:0", **options))
            print(urls[0].rpartition(":")[2].partition("/")[0], flush=True)


def parse() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description="The server that scripts/bench/attack_server.py attacks.")
    parser.add_argument("--host", choices=("embedded", "hypercorn"), default="embedded")
    parser.add_argument("--nofile", metavar="SOFT:HARD", help="limits of file descriptors")
    parser.add_argument("--tls-cert")
    parser.add_argument("--tls-key")
    parser.add_argument("--seconds-kept", type=float, help="how long idle sessions and tasks are kept")
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parse()
    if arguments.nofile is not None:
        soft, _, hard = arguments.nofile.partition(":")
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(soft), int(hard)))
    trio.run(main, arguments)
    sys.exit(0)
