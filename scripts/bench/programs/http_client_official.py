"""The same client over HTTP, made with the official SDK."""

from __future__ import annotations

import json
import logging
import sys
import time

import anyio
from mcp import Client


async def main(revision: str, calls: int, at_once: int, url: str) -> None:
    """Make the calls, and print CPU microseconds and wall microseconds per call."""
    logging.disable(logging.CRITICAL)
    async with Client(url, mode=revision if revision == "2026-07-28" else "legacy") as client:

        async def some(number: int) -> None:
            for _ in range(number):
                await client.call_tool("echo", {"text": "hello"})

        async def all_of(number: int) -> None:
            async with anyio.create_task_group() as group:
                for _ in range(at_once):
                    group.start_soon(some, number)

        await all_of(20)
        cpu, wall = time.process_time(), time.perf_counter()
        await all_of(calls // at_once)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": cpu / calls * 1e6, "wall": wall / calls * 1e6}))


anyio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
