"""A connected group of clients, each of the same server over HTTP: `python group_growth.py REVISION NUMBER URL`.

It prints `ready`. For each line on standard input, a number of calls, it makes these calls, one after the other, of tools of
different members, and prints CPU microseconds per call.
"""

from __future__ import annotations

import sys
import time
from functools import partial

import trio

from mcp_client import open_http
from mcp_client.group import open_group
from mcp_core.revisions import REVISIONS


async def main(revision: str, number: int, url: str) -> None:
    """Open the group and make calls until the end of input."""
    make = partial(open_http, url, revisions=[REVISIONS[revision]])
    async with open_group({f"server-{id}": make for id in range(number)}) as group:
        names = [tool.name for tool in (await group.list_tools()).items]
        if len(names) != number:
            raise RuntimeError(f"{len(names)} tools of {number} members: {group.failed}")
        for name in names:
            await group.call_tool(name, {"text": "hello"})
        print("ready", flush=True)
        async for line in trio.wrap_file(sys.stdin):
            calls = int(line)
            # Different ones, from the first to the last.
            used = [names[each * (number - 1) // max(1, calls - 1)] for each in range(calls)]
            cpu = time.process_time()
            for name in used:
                await group.call_tool(name, {"text": "hello"})
            print((time.process_time() - cpu) / calls * 1e6, flush=True)


trio.run(main, sys.argv[1], int(sys.argv[2]), sys.argv[3])
