"""Calls of a tool that are in progress while a check does something else, and their outcomes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.wire.nursery import open_nursery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    import trio

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["calls_in_progress", "outcome_of", "waiting_call"]

_WAITS: Final = "conformance_wait"


async def outcome_of(server: ServerUnderTest, key: str) -> str:
    """Return the outcome of the call of `conformance_wait` with a key: `running`, `finished`, `cancelled` or `unknown`."""
    answer = await server.call("conformance_outcome", {"key": key})
    content = answer.member("content", list)
    first = content[0] if isinstance(content, list) and content else None
    return str(first.get("text")) if isinstance(first, dict) else ""


@asynccontextmanager
async def calls_in_progress(
    peer: SuiteConnection, calls: Mapping[str, Callable[[], Awaitable[object]]], name: str
) -> AsyncIterator[trio.Nursery]:
    """Run calls of a tool, and run the block when all of them have reported progress.

    Args:
        peer: The connection.
        calls: The functions that call the tool, by progress token.
        name: The name of the tool.

    Raises:
        NotTestable: A call fails or reports no progress, so that it is unknown when it runs.
    """
    have_begun = False

    def begin() -> bool:
        tokens = [member(each, "params", "progressToken") for each in peer.inbox]
        return all(token in tokens for token in calls)

    try:
        async with open_nursery() as nursery:
            for call in calls.values():
                nursery.start_soon(call)
            await peer.until(begin, f"progress of {name}")
            have_begun = True
            yield nursery
    except Deviation as deviation:
        # Without progress the call itself may fail first: its time limit is the same.
        if have_begun:
            raise
        raise NotTestable(f"the control condition failed: {name} reports no progress") from deviation


@asynccontextmanager
async def waiting_call(server: ServerUnderTest, meta: JsonObject | None = None) -> AsyncIterator[str]:
    """Keep a call of `conformance_wait` in progress while the block runs, whose key is given to it, and let it end then.

    Args:
        server: The server.
        meta: Members of the request metadata of the call.

    Raises:
        NotTestable: The server lacks the tools, or the call reports no progress, so that it is unknown when it runs.
    """
    peer = server.peer
    # The legs of a server over HTTP use the same process.
    key = f"waiting-{server.revision}-{server.transport.value}-{peer.next_id()}"
    name, arguments = server.tool(_WAITS, {"key": key})
    release, of_key = server.tool("conformance_release", {"key": key})
    given: JsonObject = {"name": name, "arguments": arguments, "_meta": {**(meta or {}), "progressToken": key}}
    async with calls_in_progress(peer, {key: partial(peer.request, "tools/call", given)}, _WAITS):
        yield key
        (await peer.request("tools/call", {"name": release, "arguments": of_key})).result()
