"""The same client, made with the official SDK."""

from __future__ import annotations

import json
import sys
import time

import anyio
from mcp import Client, StdioServerParameters


async def main(revision: str, calls: int, at_once: int, command: list[str]) -> None:
    """Make the calls, and print CPU microseconds and wall microseconds per call."""
    mode = revision if revision == "2026-07-28" else "legacy"
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with Client(parameters, mode=mode) as client:

        async def some(number: int) -> None:
            for _ in range(number):
                await client.call_tool("echo", {"text": "hello"})

        await some(50)
        cpu, wall = time.process_time(), time.perf_counter()
        async with anyio.create_task_group() as group:
            for _ in range(at_once):
                group.start_soon(some, calls // at_once)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": cpu / calls * 1e6, "wall": wall / calls * 1e6}))


anyio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
