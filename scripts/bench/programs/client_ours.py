"""A client of this project that calls an echo with a number of calls in flight, and prints the cost."""

from __future__ import annotations

import json
import sys
import time

import trio

from mcp_client import open_stdio
from mcp_core.revisions import REVISIONS


async def main(revision: str, calls: int, at_once: int, command: list[str]) -> None:
    """Make the calls, and print CPU microseconds and wall microseconds per call."""
    async with open_stdio(command, revisions=[REVISIONS[revision]]) as client:

        async def some(number: int) -> None:
            for _ in range(number):
                await client.call_tool("echo", {"text": "hello"})

        await some(50)
        cpu, wall = time.process_time(), time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(at_once):
                nursery.start_soon(some, calls // at_once)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": cpu / calls * 1e6, "wall": wall / calls * 1e6}))


trio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
