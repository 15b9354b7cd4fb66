"""A client that `test_stopped` stops and continues; it writes events to stdout, one JSON value a line.

Usage: stopped_client.py URL REVISION
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable

import trio

from mcp_client import Client, Handlers, ToolResult, open_http
from mcp_core.errors import ConnectionEnded, McpError
from mcp_core.revisions import REVISIONS
from mcp_core.types import LoggingMessageNotificationParams

WATCHED = "test://watched"
LAST = WATCHED + "/last"


def emit(event: str, detail: str = "") -> None:
    """Write one line for the test."""
    sys.stdout.write(json.dumps([event, detail]) + "\n")
    sys.stdout.flush()


async def watch(client: Client) -> None:
    """Listen until the last change, and again after each loss of the stream."""
    while True:
        try:
            async with client.listen(uris=[WATCHED]) as changes:
                emit("listening")
                async for change in changes:
                    if change.uri == LAST:
                        emit("last change")
                        return
                    if change.uri == WATCHED:
                        # More changes were unread than the client counts, or some were lost: this one stands for all of them.
                        emit("listening", "again")
        except ConnectionEnded as error:
            emit("stream lost", type(error).__name__)


async def outcome_of(name: str, call: Awaitable[ToolResult[object]]) -> None:
    """Wait for a call, and write its outcome."""
    try:
        result = await call
    except McpError as error:
        emit(f"outcome of {name}", type(error).__name__)
    else:
        emit(f"outcome of {name}", "error" if result.is_error else "result")


async def main(url: str, revision: str) -> None:
    """Start a call that streams, two calls that wait, and a subscription."""
    flooding = trio.Event()

    def log(_: LoggingMessageNotificationParams) -> None:
        flooding.set()

    handlers = Handlers(log=log)
    opening = open_http(url, revisions=[REVISIONS[revision]], handlers=handlers, log_level="info")
    async with opening as client, trio.open_nursery() as nursery:
        nursery.start_soon(watch, client)
        nursery.start_soon(outcome_of, "flood", client.call_tool("flood"))
        for number in range(2):
            nursery.start_soon(outcome_of, f"hold {number}", client.call_tool("hold"))
        await flooding.wait()
        emit("flooding")
    emit("closed")


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])
