"""The same client without a loop: each call in flight has a thread of its own. Over stdio or HTTP."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from mcp_client.blocking import open_http, open_stdio
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from mcp_client.blocking import Connector


def connector(revision: str, target: list[str]) -> Connector:
    """Return the connector of a URL, or of the command of a server."""
    revisions = [REVISIONS[revision]]
    if target[0].startswith("http"):
        return open_http(target[0], revisions=revisions)
    return open_stdio(target, revisions=revisions)


def main(revision: str, calls: int, at_once: int, target: list[str]) -> None:
    """Make the calls, and print CPU microseconds and wall microseconds per call."""
    with connector(revision, target) as client, ThreadPoolExecutor(at_once) as pool:

        def some(number: int) -> None:
            for _ in range(number):
                client.call_tool("echo", {"text": "hello"})

        def all_of(number: int) -> None:
            list(pool.map(some, [number] * at_once))

        all_of(20)
        cpu, wall = time.process_time(), time.perf_counter()
        all_of(calls // at_once)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": cpu / calls * 1e6, "wall": wall / calls * 1e6}))


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
