"""A group of clients of the official SDK, each of the same server over HTTP. It prints KiB of memory for each client."""

from __future__ import annotations

import logging
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
from mcp import Client


def memory() -> int:
    """Return the resident memory in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


async def opened(number: int, revision: str, url: str) -> int:
    """Return the resident memory after a call of each of several clients."""
    mode = revision if revision == "2026-07-28" else "legacy"
    async with AsyncExitStack() as stack:
        for _ in range(number):
            client = await stack.enter_async_context(Client(url, mode=mode))
            await client.call_tool("echo", {"text": "hello"})
        return memory()


async def main(revision: str, number: int, url: str) -> None:
    """Open one client, then all of them, and print the difference for each client."""
    logging.disable(logging.CRITICAL)
    before = await opened(1, revision, url)
    print(max(0, await opened(number, revision, url) - before) / (number - 1))


anyio.run(main, sys.argv[1], int(sys.argv[2]), sys.argv[3])
