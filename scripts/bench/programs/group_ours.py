"""A group of clients of this project, each of the same server over HTTP. It prints KiB of memory for each client."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import trio

from mcp_client import open_http
from mcp_client.group import open_group
from mcp_core.revisions import REVISIONS


def memory() -> int:
    """Return the resident memory in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


async def opened(number: int, revision: str, url: str) -> int:
    """Return the resident memory after a call of each client of a group."""
    make = partial(open_http, url, revisions=[REVISIONS[revision]])
    async with open_group({f"server-{id}": make for id in range(number)}) as group:
        for name in group:
            await (await group[name].connected()).call_tool("echo", {"text": "hello"})
        return memory()


async def main(revision: str, number: int, url: str) -> None:
    """Open a group of one client, then the group, and print the difference for each client."""
    before = await opened(1, revision, url)
    print(max(0, await opened(number, revision, url) - before) / (number - 1))


trio.run(main, sys.argv[1], int(sys.argv[2]), sys.argv[3])
