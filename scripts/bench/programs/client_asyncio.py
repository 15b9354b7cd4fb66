"""The same client in an asyncio loop, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING

import uvloop

from mcp_client.asyncio import open_http, open_stdio
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from mcp_client.asyncio import Connector

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def connector(revision: str, target: list[str]) -> Connector:
    """Return the connector of a URL, or of the command of a server."""
    revisions = [REVISIONS[revision]]
    if target[0].startswith("http"):
        return open_http(target[0], revisions=revisions)
    return open_stdio(target, revisions=revisions)


async def main(revision: str, calls: int, at_once: int, target: list[str]) -> None:
    """Make the calls, and print CPU microseconds and wall microseconds per call."""
    async with connector(revision, target) as client:

        async def some(number: int) -> None:
            for _ in range(number):
                await client.call_tool("echo", {"text": "hello"})

        async def all_of(number: int) -> None:
            async with asyncio.TaskGroup() as group:
                for _ in range(at_once):
                    group.create_task(some(number))

        await all_of(20)
        cpu, wall = time.process_time(), time.perf_counter()
        await all_of(calls // at_once)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": cpu / calls * 1e6, "wall": wall / calls * 1e6}))


with asyncio.Runner(loop_factory=LOOPS[sys.argv[1]]) as runner:
    runner.run(main(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]))
