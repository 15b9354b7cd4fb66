"""The server of scripts/bench/kill_workers.py, run by `mcp-server run cluster_server.py`.

The environment variable KILL_TEST_FOLDER names the folder for effects and versions, which all workers share.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import trio

from mcp_server import Context, ElicitationAccepted, Server

FOLDER = Path(os.environ["KILL_TEST_FOLDER"])
PROGRESS_SECONDS = 0.05

server = Server("kill-test", version="1")


def record(name: str, line: str) -> bool:
    """Append a line to a file, with the process and the time. A line of this length is written at once."""
    with (FOLDER / name).open("a") as file:
        file.write(f"{line} {os.getpid()} {time.monotonic()}\n")
    return True


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool
async def pay(id: str, context: Context) -> str:
    """Record a payment once, then ask the user."""
    await context.once("paid", lambda: record("payments", id))
    answer = await context.elicit(bool, "Really?")
    return str(isinstance(answer, ElicitationAccepted) and answer.value)


@server.tool
async def count(to: int, context: Context) -> str:
    """Report progress from 1 to a number."""
    for number in range(1, to + 1):
        await context.progress(number, to)
        await trio.sleep(PROGRESS_SECONDS)
    return "counted"


@server.tool(thread=False)
def change(version: int) -> str:
    """Change the watched resource."""
    replacement = FOLDER / f"version-{version}"
    replacement.write_text(str(version))
    replacement.replace(FOLDER / "version")
    server.resource_updated("test://version")
    return "changed"


@server.resource("test://version")
def version() -> str:
    """Return the present version."""
    return (FOLDER / "version").read_text()


@server.tool(task="required", resumable=True)
async def work(id: str, seconds: float, context: Context) -> str:
    """Record the id once, work, and return it."""
    await context.once("worked", lambda: record("works", id))
    await trio.sleep(seconds)
    return id
