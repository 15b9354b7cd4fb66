"""Delivery of progress notifications to the callback of a request: in order, bounded, and before the result."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from fake_http_server import OK, ReceivedRequest, Reply, legacy, modern, serving
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import Deadlines, open_http
from mcp_client.connection.progress import PROGRESS_CHARACTERS, PROGRESS_NOTIFICATIONS, ProgressQueue
from mcp_client.testing import ScriptedPeer, open_in_memory, scripted
from mcp_core.errors import ConnectionEnded, RequestTimeout
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.types import ProgressNotificationParams

HANDSHAKES = [
    pytest.param(lambda peer: peer.initialize(tools={}), id="legacy"),
    pytest.param(lambda peer: peer.discover(tools={}), id="modern"),
]
Handshake = Callable[[ScriptedPeer], Awaitable[JsonObject]]


def progress(token: JsonValue, value: float, message: str = "") -> JsonObject:
    params: JsonObject = {"progressToken": token, "progress": value, "message": message}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def token_of(request: JsonObject) -> JsonValue:
    params = request["params"]
    assert isinstance(params, dict)
    meta = params["_meta"]
    assert isinstance(meta, dict)
    return meta["progressToken"]


def steps(request: JsonObject, count: int, *, answered: bool) -> list[JsonObject]:
    """Return progress notifications with a message each, and optionally the response after them."""
    token = token_of(request)
    found = [progress(token, number, f"step {number}") for number in range(1, count + 1)]
    return [*found, {"jsonrpc": "2.0", "id": request["id"], "result": OK}] if answered else found


def expected(count: int, first: int = 1) -> list[tuple[float, str]]:
    return [(number, f"step {number}") for number in range(first, count + 1)]


class RecordingCallback:
    """A callback that records its calls."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, str | None]] = []

    def __call__(self, progress: float, _total: float | None, message: str | None) -> None:
        self.steps.append((progress, message))


# --- over a pipe -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handshake", HANDSHAKES)
@pytest.mark.parametrize("count", [2, 650])
async def test_progress_with_response_delivered_in_order(
    handshake: Handshake, count: int, autojump_clock: trio.testing.MockClock
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await handshake(peer)
        await peer.send(*steps(await peer.receive("tools/call"), count, answered=True))

    shown = RecordingCallback()
    async with open_in_memory(scripted(script)) as client:
        await client.call_tool("slow", on_progress=shown)
    assert shown.steps == expected(count)


async def test_progress_during_callback_delivered_before_call_returns(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shown = RecordingCallback()

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.send(*steps(await peer.receive("tools/call"), 20, answered=True))

    async def slow_callback(progress: float, _total: float | None, message: str | None) -> None:
        await trio.sleep(10)
        shown(progress, None, message)

    async with open_in_memory(scripted(script)) as client:
        await client.call_tool("slow", on_progress=slow_callback)
        assert shown.steps == expected(20)


async def test_progress_over_limit_drops_oldest(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shown = RecordingCallback()
    sent = PROGRESS_NOTIFICATIONS + 50

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        request = await peer.receive("tools/call")
        first, *rest = steps(request, sent, answered=True)
        await peer.send(first)
        await trio.testing.wait_all_tasks_blocked()
        await peer.send(*rest)

    async def slow_callback(progress: float, _total: float | None, message: str | None) -> None:
        shown(progress, None, message)
        if progress == 1:
            await trio.sleep(1)

    async with open_in_memory(scripted(script)) as client:
        await client.call_tool("slow", on_progress=slow_callback)
    assert shown.steps == [*expected(1), *expected(sent, first=51)]


async def test_progress_before_connection_end_delivered_before_error(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.send(*steps(await peer.receive("tools/call"), 3, answered=False))
        await peer.aclose()

    shown = RecordingCallback()
    async with open_in_memory(scripted(script)) as client:
        with pytest.raises(ConnectionEnded):
            await client.call_tool("slow", on_progress=shown)
    assert shown.steps == expected(3)


# --- hanging callbacks -----------------------------------------------------------------------------------------------

HANGING = Deadlines(idle=10, total=60)


async def hang(*_: object) -> None:
    await trio.sleep_forever()


async def test_callback_hanging_before_response_idle_deadline_passes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.send(*steps(await peer.receive("tools/call"), 5, answered=False))
        await peer.receive("notifications/cancelled")

    async with open_in_memory(scripted(script)) as client:
        with pytest.raises(RequestTimeout, match="idle deadline"):
            await client.call_tool("slow", on_progress=hang, deadlines=HANGING)


async def test_callback_hanging_after_response_ends_at_total_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    begun: list[float] = []

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.send(*steps(await peer.receive("tools/call"), 5, answered=True))

    async def hanging_callback(progress: float, *_: object) -> None:
        begun.append(progress)
        await trio.sleep_forever()

    async with open_in_memory(scripted(script)) as client:
        result = await client.call_tool("slow", on_progress=hanging_callback, deadlines=HANGING)
    assert not result.is_error
    assert begun == [1]


@pytest.mark.parametrize("answered", [False, True])
async def test_caller_cancelled_during_hanging_callback_released(
    answered: bool, autojump_clock: trio.testing.MockClock
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.send(*steps(await peer.receive("tools/call"), 5, answered=answered))

    async with open_in_memory(scripted(script)) as client:
        with trio.move_on_after(1) as scope:
            await client.call_tool("slow", on_progress=hang)
        assert scope.cancelled_caught
        assert not client._channel._calls
        assert not client._channel.connection.outbound_requests


# --- over HTTP -------------------------------------------------------------------------------------------------------


async def in_one_chunk(reply: Reply, messages: list[JsonObject]) -> None:
    await reply.stream()
    await reply.chunk(b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in messages))
    await reply.end()


@pytest.mark.parametrize("era", [modern, legacy])
@pytest.mark.parametrize("count", [2, 400])
async def test_progress_in_one_http_chunk_delivered_in_order(
    era: Callable[
        [Callable[[ReceivedRequest, Reply], Awaitable[None]]], Callable[[ReceivedRequest, Reply], Awaitable[None]]
    ],
    count: int,
) -> None:
    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await in_one_chunk(reply, steps(request.message, count, answered=True))

    shown = RecordingCallback()
    async with serving(era(calls)) as server, open_http(server.url) as client:
        await client.call_tool("slow", on_progress=shown)
    assert shown.steps == expected(count)


async def test_callback_hanging_over_http_ends_at_total_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    begun: list[float] = []

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await in_one_chunk(reply, steps(request.message, 5, answered=True))

    async def hanging_callback(progress: float, *_: object) -> None:
        begun.append(progress)
        await trio.sleep_forever()

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        result = await client.call_tool("slow", on_progress=hanging_callback, deadlines=HANGING)
    assert not result.is_error
    assert begun == [1]


async def test_callback_hanging_over_http_idle_deadline_passes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    begun: list[float] = []

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        for each in steps(request.message, 5, answered=False):
            await reply.event(each)
        await reply.hang()

    async def hanging_callback(progress: float, *_: object) -> None:
        begun.append(progress)
        await trio.sleep_forever()

    async with serving(modern(calls)) as server, open_http(server.url) as client:
        with pytest.raises(RequestTimeout, match="idle deadline"):
            await client.call_tool("slow", on_progress=hanging_callback, deadlines=HANGING)
    assert begun == [1]


# --- the queue -------------------------------------------------------------------------------------------------------


def params(value: float, message: str | None = None, **extra: JsonValue) -> ProgressNotificationParams:
    return ProgressNotificationParams(progress_token=1, progress=value, message=message, extra=extra)


def test_queue_long_messages_drop_oldest() -> None:
    queue = ProgressQueue()
    for value in range(4):
        queue.put(params(value, "x" * (PROGRESS_CHARACTERS // 2)))
    assert [queue.take().progress for _ in range(len(queue))] == [2, 3]


def test_queue_long_unknown_members_drop_oldest() -> None:
    queue = ProgressQueue()
    for value in range(3):
        queue.put(params(value, note="x" * PROGRESS_CHARACTERS))
    assert [queue.take().progress for _ in range(len(queue))] == [2]


@pytest.mark.property
@given(st.lists(st.none() | st.integers(0, PROGRESS_CHARACTERS), max_size=40))
def test_queue_any_operations_keep_newest_within_limits(steps: list[int | None]) -> None:
    queue = ProgressQueue()
    put: list[int] = []
    taken: list[float] = []
    for number, step in enumerate(steps):
        if step is None:
            if len(queue):
                taken.append(queue.take().progress)
            continue
        queue.put(params(number, "x" * step))
        put.append(number)
        assert 1 <= len(queue) <= PROGRESS_NOTIFICATIONS
    remaining = [queue.take().progress for _ in range(len(queue))]
    assert remaining == put[len(put) - len(remaining) :]
    assert taken + remaining == sorted({*taken, *remaining})
    assert queue._characters == 0
