"""Checks of transports with whole conversations between this client and a scripted server."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import trio

from mcp_client.connectors.stdio import open_stream
from mcp_client.handlers import Handlers
from mcp_client.testing import ScriptedPeer
from mcp_client.testing.transport_checks import Connect, hear_end, met, true, within
from mcp_core.revisions import REVISIONS, Era
from mcp_core.types import Root

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_client.client import Client
    from mcp_client.features.tool_result import ToolResult
    from mcp_client.testing.memory import _Stream
    from mcp_client.testing.transport_checks import OpenTransport, ServedStream
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = [
    "call_can_be_cancelled",
    "calls_work_in_each_revision",
    "server_can_send_request_during_call",
]

_TEXT = "aä€😀" * 5_000
_ROOTS = (Root(uri="file:///", name="ä€😀"),)


async def calls_work_in_each_revision(open_transport: OpenTransport) -> None:
    """Check a whole conversation in each revision: opening, a list, a call with progress, an error, and closing."""

    async def script(peer: ScriptedPeer, revision: Revision) -> None:
        tool: JsonObject = {"name": "echo", "inputSchema": {"type": "object"}}
        listed: JsonObject = {"tools": [tool], **_completely(revision)}
        if revision.era is Era.MODERN:
            listed |= {"ttlMs": 0, "cacheScope": "private"}
        await peer.answer(await peer.receive("tools/list"), listed)
        request = await peer.receive("tools/call")
        progress_params: JsonObject = {"progressToken": _at(request, "params", "_meta", "progressToken"), "progress": 1}
        await peer.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress_params})
        await peer.answer(request, _text(revision, _at(request, "params", "arguments", "text")))
        await peer.answer(await peer.receive("tools/call"), {**_text(revision, "no"), "isError": True})

    async def talk(client: Client) -> None:
        seen: list[float] = []

        def progress(value: float, _total: float | None, _message: str | None) -> None:
            seen.append(value)

        tools = await client.list_tools()
        true([tool.name for tool in tools] == ["echo"], f"the listed tools arrived as {tools!r}")
        result = await client.call_tool("echo", {"text": _TEXT}, on_progress=progress)
        _same_text(result, _TEXT)
        true(seen == [1], f"one progress notification arrived as {seen!r}")
        result = await client.call_tool("echo", {"text": ""}, raise_on_error=False)
        true(result.is_error, "the tool error did not arrive")

    await _in_each_revision(open_transport, script, talk)


async def call_can_be_cancelled(open_transport: OpenTransport) -> None:
    """Check that the server receives the cancellation, and that the connection continues to work."""
    running = trio.Event()

    async def script(peer: ScriptedPeer, revision: Revision) -> None:
        request = await peer.receive("tools/call")
        running.set()
        cancelled = await peer.receive("notifications/cancelled")
        true(_at(cancelled, "params", "requestId") == request["id"], f"another request was cancelled: {cancelled!r}")
        await peer.answer(await peer.receive("tools/call"), _text(revision, "after it"))

    async def talk(client: Client) -> None:
        nonlocal running
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "slow")
                await running.wait()
                scope.cancel()
        running = trio.Event()
        _same_text(await client.call_tool("quick"), "after it")

    await _in_each_revision(open_transport, script, talk)


async def server_can_send_request_during_call(open_transport: OpenTransport) -> None:
    """Check a client request during a call: a request of the server, or an `input_required` result, by revision."""

    async def script(peer: ScriptedPeer, revision: Revision) -> None:
        request = await peer.receive("tools/call")
        if revision.era is Era.MODERN:
            input_requests: JsonObject = {"roots": {"method": "roots/list", "params": {}}}
            await peer.answer(request, {"resultType": "input_required", "inputRequests": input_requests})
            request = await peer.receive("tools/call")
            answer = _at(request, "params", "inputResponses", "roots")
        else:
            await peer.send({"jsonrpc": "2.0", "id": "roots", "method": "roots/list"})
            answer = _at(await peer.receive(), "result")
        progress_params: JsonValue = [{"uri": root.uri, "name": root.name} for root in _ROOTS]
        true(_at(answer, "roots") == progress_params, f"the roots arrived as {answer!r}")
        await peer.answer(request, _text(revision, "there"))

    async def talk(client: Client) -> None:
        _same_text(await client.call_tool("where"), "there")

    await _in_each_revision(open_transport, script, talk)


async def _in_each_revision(
    open_transport: OpenTransport,
    script: Callable[[ScriptedPeer, Revision], Awaitable[None]],
    talk: Callable[[Client], Awaitable[None]],
) -> None:
    """Run the script and the client in each revision."""
    for version, revision in REVISIONS.items():

        async def serve(stream: ServedStream, revision: Revision = revision, version: str = version) -> None:
            peer = ScriptedPeer(cast("_Stream", stream))  # it uses only `send_all` and `receive_some`
            if revision.era is Era.MODERN:
                await peer.discover(version, tools={})
            else:
                await peer.initialize(version, tools={})
            await script(peer, revision)
            await hear_end(stream, f"the server receives the end from the client (revision {version})")

        async def connected(connect: Connect, revision: Revision = revision, version: str = version) -> None:
            with within(f"the conversation completes (revision {version})"):
                handlers = Handlers(roots=_ROOTS)
                async with open_stream(await connect(), revisions=[revision], handlers=handlers) as client:
                    await talk(client)

        await met(open_transport, serve, connected)


def _completely(revision: Revision) -> JsonObject:
    return {"resultType": "complete"} if revision.era is Era.MODERN else {}


def _text(revision: Revision, text: JsonValue) -> JsonObject:
    return {"content": [{"type": "text", "text": text}], **_completely(revision)}


def _same_text(result: ToolResult[object], wanted: str) -> None:
    found = [getattr(content, "text", None) for content in result.content]
    true(found == [wanted], f"the result of a call arrived as {str(found)[:120]}, but was sent as {wanted[:120]!r}")


def _at(message: JsonValue, *path: str) -> JsonValue:
    """Return a member of a message by its path. Raises `AssertionError` if it does not exist."""
    found = message
    for key in path:
        if not isinstance(found, dict) or key not in found:
            raise AssertionError(f"no member {'.'.join(path)} in {str(message)[:200]}")
        found = found[key]
    return found
