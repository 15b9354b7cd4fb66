"""Whatever servers, callers and handlers do: each call has one outcome, and nothing of it is left behind."""

from __future__ import annotations

import json
from typing import Final

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from zoo import OK, Step, question, steps_of

from mcp_client import Client, Deadlines, Handlers
from mcp_client.connection.pending_request import PendingRequest
from mcp_client.deadlines import DEFAULT_DEADLINES
from mcp_client.testing import Faults, ScriptedPeer, open_in_memory, scripted
from mcp_core.errors import McpError
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.limits import Limits
from mcp_core.types import ElicitRequestFormParams, ElicitResult


def assert_nothing_left(client: Client) -> None:
    """The tables of a link and its engine are empty."""
    link = client._channel
    tables = (
        link._calls,
        link._inbound_requests._running,
        link._inbound_requests._batches,
        link.connection.outbound_requests,
    )
    assert [len(table) for table in tables] == [0] * len(tables)
    assert len(link.connection._inbound.open) == 0


STEPS: Final = steps_of("answer", "refuse", "progress", "ask", "silence", "twice", "junk")


async def treat(peer: ScriptedPeer, lock: trio.Lock, request: JsonObject, step: Step) -> None:
    await trio.sleep(step.delay)
    id = request["id"]
    answer: JsonObject = {"jsonrpc": "2.0", "id": id, "result": OK}
    said: dict[str, list[JsonObject]] = {
        "answer": [answer],
        "refuse": [{"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "no"}}],
        "progress": [
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": id, "progress": 1}},
            answer,
        ],
        "ask": [question(1000 + int(str(id))), answer],
        "silence": [],
        "twice": [answer, answer],
        "junk": [{"jsonrpc": "2.0", "id": id, "result": 5}],
    }
    async with lock:
        await peer.send(*said[step.treatment])


async def play(steps: list[Step], end_at: float, end: str) -> None:
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
                    nursery.start_soon(treat, peer, lock, message, steps[int(str(params["name"]))])

    async def quiet(peer: ScriptedPeer) -> None:
        # The end of the client's output, or of the stream.
        try:
            await script(peer)
        except BaseExceptionGroup as group:
            rest = group.split((trio.BrokenResourceError, trio.ClosedResourceError))[1]
            if rest is not None:
                raise rest from None

    async def elicit(_: ElicitRequestFormParams) -> ElicitResult:
        await trio.sleep(1)
        return ElicitResult(action="decline")

    async def show(_: object) -> None:
        await trio.sleep(1)

    async def call(client: Client, number: int, step: Step) -> None:
        await trio.sleep(step.begin)
        outcome = "cancelled"
        with trio.move_on_after(step.cancel_after):
            try:
                await client.call_tool(str(number), on_progress=show if number % 2 else lambda _: None)
                outcome = "result"
            except McpError as error:
                outcome = type(error).__name__
        outcomes.append(outcome)

    deadlines = Deadlines(idle=5, total=8)
    with trio.fail_after(1_000):
        async with open_in_memory(scripted(quiet), handlers=Handlers(elicit=elicit), deadlines=deadlines) as client:
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
def test_each_call_has_one_outcome_and_leaves_nothing(steps: list[Step], end_at: float, end: str) -> None:
    trio.run(play, steps, end_at, end, clock=trio.testing.MockClock(autojump_threshold=0))


# --- one by one ------------------------------------------------------------------------------------------------------


async def test_a_call_that_has_ended_does_not_wait_for_what_others_have_to_write(
    autojump_clock: trio.testing.MockClock,
) -> None:
    call = PendingRequest(DEFAULT_DEADLINES, None, held=False)
    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call.send, trio.sleep_forever)
            await trio.testing.wait_all_tasks_blocked()
            call.end()


async def test_a_task_of_a_handler_that_fails_while_its_request_is_cancelled_harms_nobody_else(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-06-18", tools={})
        await peer.send(question(7))
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


async def test_ten_thousand_calls_leave_nothing(autojump_clock: trio.testing.MockClock) -> None:
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


async def test_an_id_that_a_server_uses_again_before_its_answer_was_written_is_answered_twice(
    autojump_clock: trio.testing.MockClock,
) -> None:
    answered: list[object] = []

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-06-18", tools={})
        await peer.send(question(7), question(8), question(9))
        await trio.sleep(0.5)
        await peer.send(question(8), question(9))
        for _ in range(5):
            message = await peer.receive()
            answered.append(message["id"])
        await peer.answer(await peer.receive("tools/call"), OK)

    async def elicit(_: ElicitRequestFormParams) -> ElicitResult:
        return ElicitResult(action="decline")

    # Each write takes a second, and nothing fits beside it.
    async with open_in_memory(
        scripted(script), to_server=Faults(delay=1), limits=Limits(outgoing_bytes=1), handlers=Handlers(elicit=elicit)
    ) as client:
        await trio.sleep(20)
        await client.call_tool("echo")
    assert sorted(str(id) for id in answered) == ["7", "8", "8", "9", "9"]
