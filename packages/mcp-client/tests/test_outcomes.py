"""Each call has one outcome and leaves nothing behind, whatever servers, callers and handlers do."""

from __future__ import annotations

import json
from typing import Final

import pytest
import trio
import trio.testing
from fake_http_server import OK, Step, client_request, steps_of
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_client import Client, ClientOptions, Deadlines, Handlers
from mcp_client.connection.pending_request import PendingRequest
from mcp_client.deadlines import DEFAULT_DEADLINES
from mcp_client.testing import Faults, ScriptedPeer, open_in_memory, scripted
from mcp_core.errors import McpError
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.limits import Limits
from mcp_core.types import ElicitRequestFormParams, ElicitResult


def assert_nothing_left(client: Client) -> None:
    """Check that the tables of a channel and its engine are empty."""
    link = client._channel
    tables = (
        link._calls,
        link._inbound_requests._running,
        link._inbound_requests._batches,
        link.connection.outbound_requests,
    )
    assert [len(table) for table in tables] == [0] * len(tables)
    assert len(link.connection._inbound.open) == 0


STEPS: Final = steps_of("answer", "refuse", "progress", "client request", "silence", "twice", "junk")


async def apply_step(peer: ScriptedPeer, lock: trio.Lock, request: JsonObject, step: Step) -> None:
    await trio.sleep(step.delay)
    id = request["id"]
    answer: JsonObject = {"jsonrpc": "2.0", "id": id, "result": OK}
    messages: dict[str, list[JsonObject]] = {
        "answer": [answer],
        "refuse": [{"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "no"}}],
        "progress": [
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": id, "progress": 1}},
            answer,
        ],
        "client request": [client_request(1000 + int(str(id))), answer],
        "silence": [],
        "twice": [answer, answer],
        "junk": [{"jsonrpc": "2.0", "id": id, "result": 5}],
    }
    async with lock:
        await peer.send(*messages[step.treatment])


async def run_steps(steps: list[Step], end_at: float, end: str) -> None:
    outcomes: list[str] = []

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-06-18", tools={})
        lock = trio.Lock()
        async with trio.open_nursery() as nursery:
            if end == "cut":
                nursery.cancel_scope.deadline = trio.current_time() + end_at
            while (line := await peer.receive_line()) is not None:
                message = json.loads(line)
                if message.get("method") == "tools/call":
                    params = message["params"]
                    assert isinstance(params, dict)
                    nursery.start_soon(apply_step, peer, lock, message, steps[int(str(params["name"]))])

    async def script_until_closed(peer: ScriptedPeer) -> None:
        # The client has closed its output, or the stream.
        try:
            await script(peer)
        except BaseExceptionGroup as group:
            rest = group.split((trio.BrokenResourceError, trio.ClosedResourceError))[1]
            if rest is not None:
                raise rest from None

    async def elicit(_: ElicitRequestFormParams) -> ElicitResult:
        await trio.sleep(1)
        return ElicitResult(action="decline")

    async def handle_progress(*_: object) -> None:
        await trio.sleep(1)

    async def call(client: Client, number: int, step: Step) -> None:
        await trio.sleep(step.begin)
        outcome = "cancelled"
        with trio.move_on_after(step.cancel_after):
            try:
                await client.call_tool(str(number), on_progress=handle_progress if number % 2 else lambda *_: None)
                outcome = "result"
            except McpError as error:
                outcome = type(error).__name__
        outcomes.append(outcome)

    deadlines = Deadlines(idle=5, total=8)
    with trio.fail_after(1_000):
        async with open_in_memory(
            scripted(script_until_closed), handlers=Handlers(elicit=elicit), deadlines=deadlines
        ) as client:
            async with trio.open_nursery() as nursery:
                for number, step in enumerate(steps):
                    nursery.start_soon(call, client, number, step)
                if end == "close":
                    await trio.sleep(end_at)
                    await client.aclose()
            await trio.sleep(20)
            assert_nothing_left(client)
    assert len(outcomes) == len(steps)
    assert set(outcomes) <= {
        "cancelled",
        "result",
        "RequestFailed",
        "RemoteProtocolError",
        "MalformedMessage",
        "RequestTimeout",
        "ConnectionEnded",
    }


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, end_at=st.sampled_from([0.5, 1.0, 2.0, 5.0, 6.5]), end=st.sampled_from(["late", "cut", "close"]))
def test_concurrent_calls_each_have_outcome_and_leave_nothing(steps: list[Step], end_at: float, end: str) -> None:
    trio.run(run_steps, steps, end_at, end, clock=trio.testing.MockClock(autojump_threshold=0))


# --- single cases ----------------------------------------------------------------------------------------------------


async def test_ended_call_does_not_wait_for_write(
    autojump_clock: trio.testing.MockClock,
) -> None:
    call = PendingRequest(DEFAULT_DEADLINES, None, held=False)
    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call.send, trio.sleep_forever)
            await trio.testing.wait_all_tasks_blocked()
            call.end()


async def test_handler_task_failing_on_cancellation_logged(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-06-18", tools={})
        await peer.send(client_request(7))
        await trio.sleep(1)
        await peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
        await peer.answer(await peer.receive("tools/call"), OK)

    async def fail() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ZeroDivisionError

    async def elicit(_: ElicitRequestFormParams) -> ElicitResult:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            await trio.sleep_forever()

    async with open_in_memory(scripted(script), handlers=Handlers(elicit=elicit)) as client:
        await trio.sleep(2)
        await client.call_tool("echo")
    assert "ZeroDivisionError" in caplog.text


async def test_10000_calls_leave_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-06-18", tools={})
        for _ in range(10_000):
            await peer.answer(await peer.receive("tools/call"), OK)

    async with open_in_memory(scripted(script)) as client:
        for _ in range(100):
            async with trio.open_nursery() as nursery:
                for _ in range(100):
                    nursery.start_soon(client.call_tool, "echo")
        assert_nothing_left(client)


async def test_server_request_id_reused_before_response_answered_twice(
    autojump_clock: trio.testing.MockClock,
) -> None:
    response_ids: list[object] = []

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-06-18", tools={})
        await peer.send(client_request(7), client_request(8), client_request(9))
        await trio.sleep(0.5)
        await peer.send(client_request(8), client_request(9))
        for _ in range(5):
            message = await peer.receive()
            response_ids.append(message["id"])
        await peer.answer(await peer.receive("tools/call"), OK)

    async def elicit(_: ElicitRequestFormParams) -> ElicitResult:
        return ElicitResult(action="decline")

    # Each write takes a second, and the limit allows one message at a time.
    async with open_in_memory(
        scripted(script),
        to_server=Faults(delay=1),
        options=ClientOptions(limits=Limits(outgoing_bytes=1)),
        handlers=Handlers(elicit=elicit),
    ) as client:
        await trio.sleep(20)
        await client.call_tool("echo")
    assert sorted(str(id) for id in response_ids) == ["7", "8", "8", "9", "9"]
