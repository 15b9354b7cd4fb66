from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio
import trio.testing

from mcp_client import Client, ClientOptions, Deadlines, Handlers, ToolResult
from mcp_client.testing import Faults, ScriptedPeer, Transcript, open_in_memory, scripted
from mcp_core.errors import (
    ConnectionEnded,
    LimitExceeded,
    LocalProtocolError,
    MalformedMessage,
    McpError,
    Phase,
    RemoteProtocolError,
    RequestFailed,
    RequestTimeout,
)
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import CLIENT_LIMITS
from mcp_core.methods import NOTIFICATIONS_ROOTS_LIST_CHANGED
from mcp_core.revisions import LEGACY, R2025_03_26, R2026_07_28
from mcp_core.types import (
    ElicitRequestFormParams,
    ElicitResult,
    RootsListChangedNotificationParams,
    TextContent,
)

OK: JsonObject = {"content": [{"type": "text", "text": "ok"}], "resultType": "complete"}


def progress(request: JsonObject, value: float, total: float | None = None) -> JsonObject:
    meta = request["params"]["_meta"]  # type: ignore[index,call-overload]  # a tools/call of the client
    params: JsonObject = {"progressToken": meta["progressToken"], "progress": value}  # type: ignore[index,call-overload]  # a tools/call of the client
    if total is not None:
        params["total"] = total
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def text_of(result: ToolResult[object]) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def messages(transcript: Transcript, method: str) -> list[bytes]:
    return [line for direction, line in transcript.lines if direction == ">" and method.encode() in line]


HANDSHAKES = [
    pytest.param(lambda peer: peer.initialize(tools={}), id="legacy"),
    pytest.param(lambda peer: peer.discover(tools={}), id="modern"),
]
Handshake = Callable[[ScriptedPeer], Awaitable[JsonObject]]


# --- progress --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handshake", HANDSHAKES)
async def test_progress_before_response_handled_before_call_returns(
    handshake: Handshake, autojump_clock: trio.testing.MockClock
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await handshake(peer)
        request = await peer.receive("tools/call")
        await peer.send(progress(request, 1), progress(request, 2, total=3))
        await trio.testing.wait_all_tasks_blocked()
        answer: JsonObject = {"jsonrpc": "2.0", "id": request["id"], "result": OK}
        await peer.send(progress(request, 2.5), progress(request, 3), answer)

    shown: list[float] = []
    async with open_in_memory(scripted(script)) as client:
        result = await client.call_tool("slow", on_progress=lambda progress, _total, _message: shown.append(progress))
    assert shown == [1, 2, 2.5, 3]
    assert text_of(result) == "ok"


async def test_progress_handler_async_runs_in_task_of_caller(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tasks: list[trio.lowlevel.Task] = []

    async def show(_progress: float, _total: float | None, message: str | None) -> None:
        await trio.sleep(1000)
        tasks.append(trio.lowlevel.current_task())

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        request = await peer.receive("tools/call")
        await peer.send(progress(request, 1))
        await trio.testing.wait_all_tasks_blocked()
        # The second value and the response arrive while the handler runs.
        await peer.send(progress(request, 2))
        await peer.answer(request, OK)

    async with open_in_memory(scripted(script)) as client:
        # The handler takes longer than the idle deadline; the received response is not lost.
        await client.call_tool("slow", on_progress=show)
    assert tasks == [trio.lowlevel.current_task()] * 2


async def test_progress_handler_error_raised_and_request_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.send(progress(await peer.receive("tools/call"), 1))
        await peer.receive("notifications/cancelled")

    def show(*_: object) -> None:
        raise ZeroDivisionError

    async with open_in_memory(scripted(script)) as client:
        with pytest.raises(ZeroDivisionError):
            await client.call_tool("slow", on_progress=show)


# --- deadlines -------------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "cancellation.timeout-reset-on-progress",
    "cancellation.timeout-cancels",
    "lifecycle.timeout-cancel",
    "lifecycle.handle-request-timeout",
    "lifecycle.request-timeouts",
)
async def test_idle_deadline_reset_by_progress(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        request = await peer.receive("tools/call")
        for value in range(5):
            await trio.sleep(8)
            await peer.send(progress(request, value + 1))
        await peer.receive("notifications/cancelled")

    async with open_in_memory(scripted(script), deadlines=Deadlines(idle=10)) as client:
        start = trio.current_time()
        with pytest.raises(RequestTimeout, match="idle deadline of 10 s") as caught:
            await client.call_tool("slow")
        assert trio.current_time() - start == 50
    assert (caught.value.deadline, caught.value.seconds) == ("idle", 10)
    assert caught.value.context.method == "tools/call"
    assert caught.value.context.request_id == 3
    assert caught.value.context.peer == "the server in memory"
    assert caught.value.context.phase is Phase.REQUEST


@pytest.mark.spec(
    "cancellation.timeout-maximum",
    "cancellation.timeouts",
    "cancellation.timeout-configurable",
    "lifecycle.timeout-configurable",
    "lifecycle.max-timeout",
    "lifecycle.request-timeouts",
    "tools.client-timeouts",
)
async def test_total_deadline_not_reset_by_progress(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        request = await peer.receive("tools/call")
        for value in range(100):
            await trio.sleep(8)
            await peer.send(progress(request, value + 1))

    async with open_in_memory(scripted(script)) as client:
        with pytest.raises(RequestTimeout, match="total deadline of 20 s"):
            await client.call_tool("slow", deadlines=Deadlines(idle=10, total=20))


async def test_idle_deadline_paused_during_client_request(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        first = await peer.receive("tools/call")
        schema: JsonObject = {"type": "object", "properties": {}}
        params: JsonObject = {"message": "?", "requestedSchema": schema}
        await peer.send({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params})
        second = await peer.receive("tools/call")
        # Progress of the first request does not start its idle deadline during the elicitation.
        await peer.send(progress(first, 1))
        assert (await peer.receive())["result"] == {"action": "decline"}
        await peer.answer(first, OK)
        await trio.sleep(9)
        await peer.answer(second, OK)

    started = trio.Event()

    async def elicit_slowly(_: ElicitRequestFormParams) -> ElicitResult:
        started.set()
        await trio.sleep(500)
        return ElicitResult(action="decline")

    deadlines = Deadlines(idle=10)
    async with open_in_memory(scripted(script), handlers=Handlers(elicit=elicit_slowly), deadlines=deadlines) as client:  # noqa: SIM117  the outer one must end last
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "first")
            await started.wait()
            nursery.start_soon(client.call_tool, "second")


@pytest.mark.parametrize("name", ["connect", "probe", "idle", "total"])
@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_deadline_not_positive_rejected(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"Deadlines.{name}"):
        Deadlines(**{name: value})


# --- cancellation ----------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "cancellation.client-should-notify", "cancellation.late-response-ignored", "stdio.cancel-notification"
)
@pytest.mark.parametrize("handshake", HANDSHAKES)
async def test_cancelled_call_sends_cancelled_once(
    handshake: Handshake, autojump_clock: trio.testing.MockClock
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await handshake(peer)
        request = await peer.receive("tools/call")
        cancelled = await peer.receive("notifications/cancelled")
        assert cancelled["params"]["requestId"] == request["id"]  # type: ignore[index,call-overload]  # a notification of the client
        # The response crosses the cancellation and is ignored.
        await peer.answer(request, OK)
        await peer.answer(await peer.receive("tools/call"), OK)

    transcript = Transcript()
    async with open_in_memory(scripted(script), transcript=transcript) as client:
        with trio.move_on_after(5) as scope:
            await client.call_tool("slow")
        assert scope.cancelled_caught
        await client.call_tool("quick")
    assert len(messages(transcript, "notifications/cancelled")) == 1


@pytest.mark.spec("cancellation.not-initialize")
async def test_cancelled_opening_does_not_cancel_initialize(autojump_clock: trio.testing.MockClock) -> None:
    transcript = Transcript()

    async def script(peer: ScriptedPeer) -> None:
        await peer.receive("initialize")

    with trio.move_on_after(5) as scope:
        async with open_in_memory(scripted(script), transcript=transcript, revisions=[*LEGACY]):
            raise AssertionError("the connection was opened")
    assert scope.cancelled_caught
    assert messages(transcript, "initialize")
    assert not messages(transcript, "cancelled")


async def test_unserializable_request_not_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.answer(await peer.receive("tools/call"), OK)

    transcript = Transcript()
    async with open_in_memory(scripted(script), transcript=transcript) as client:
        with pytest.raises(LocalProtocolError) as caught:
            await client.call_tool("a", {"number": math.nan})
        assert caught.value.context.method == "tools/call"
        await client.call_tool("b")
    assert not messages(transcript, "cancelled")


# --- errors of the server --------------------------------------------------------------------------------------------


async def test_error_response_names_method_id_and_peer(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.refuse(await peer.receive("tools/call"), -32602, "unknown tool", {"a": 1})

    async with open_in_memory(scripted(script)) as client:
        with pytest.raises(RequestFailed, match=r"unknown tool \(method tools/call, id 3, peer the server in mem") as e:
            await client.call_tool("a")
    assert (e.value.code, e.value.data) == (-32602, {"a": 1})


async def test_undeclared_capability_request_rejected(autojump_clock: trio.testing.MockClock) -> None:
    async with open_in_memory(scripted(lambda peer: peer.initialize())) as client:
        with pytest.raises(LocalProtocolError, match="does not offer tools") as caught:
            await client.call_tool("a")
        assert caught.value.context.method == "tools/call"
        with pytest.raises(LocalProtocolError):
            await client.notify(NOTIFICATIONS_ROOTS_LIST_CHANGED, RootsListChangedNotificationParams())


async def test_error_without_id_ends_only_pending_request(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.receive("tools/call")
        await peer.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "what?"}})

    async with open_in_memory(scripted(script)) as client:
        with pytest.raises(RequestFailed, match=r"what\?"):
            await client.call_tool("a")


@pytest.mark.parametrize("form", [str, lambda id: f"{id}", lambda id: id])
async def test_response_id_string_or_number_matched(
    form: Callable[[JsonValue], JsonValue], autojump_clock: trio.testing.MockClock
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        request = await peer.receive("tools/call")
        await peer.send({"jsonrpc": "2.0", "id": 99, "result": OK}, {"jsonrpc": "2.0", "id": "x", "result": OK})
        await peer.send({"jsonrpc": "2.0", "id": form(request["id"]), "result": OK})

    async with open_in_memory(scripted(script)) as client:
        assert text_of(await client.call_tool("a")) == "ok"


@pytest.mark.parametrize("result", [None, [], 1, "text", True])
async def test_response_invalid_result_raises(result: JsonValue, autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.answer(await peer.receive("tools/call"), result)

    async with open_in_memory(scripted(script)) as client:
        start = trio.current_time()
        with pytest.raises(RemoteProtocolError, match="a result must be an object"):
            await client.call_tool("a")
        assert trio.current_time() == start


@pytest.mark.parametrize("rest", ['"result":{"a":NaN}', r'"result":{"a":"\ud800"}', '"result":' + "[" * 10_000])
async def test_response_unreadable_raises_at_once(rest: str, autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        invalid, fine = await peer.receive("tools/call"), await peer.receive("tools/call")
        await peer.send_bytes(f'{{"jsonrpc":"2.0","id":{invalid["id"]},{rest}}}\n'.encode())
        await peer.answer(fine, OK)

    async with open_in_memory(scripted(script)) as client, trio.open_nursery() as nursery:
        start = trio.current_time()

        async def fails() -> None:
            with pytest.raises((MalformedMessage, LimitExceeded)) as caught:
                await client.call_tool("a")
            assert caught.value.context.method == "tools/call"

        nursery.start_soon(fails)
        await trio.testing.wait_all_tasks_blocked()
        assert text_of(await client.call_tool("b")) == "ok"
    assert trio.current_time() == start


async def test_response_without_result_raises(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.send({"jsonrpc": "2.0", "id": (await peer.receive("tools/call"))["id"]})
        await peer.answer(await peer.receive("tools/call"), OK)

    async with open_in_memory(scripted(script)) as client:
        with pytest.raises(MalformedMessage, match="a method, a result or an error"):
            await client.call_tool("a")
        assert text_of(await client.call_tool("b")) == "ok"


async def test_response_over_limit_raises(
    autojump_clock: trio.testing.MockClock,
) -> None:
    large: JsonObject = {"content": [{"type": "text", "text": "x" * 2000}]}

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.answer(await peer.receive("tools/call"), large)
        # With two pending requests the client cannot know to which one the response belongs.
        requests = [await peer.receive("tools/call"), await peer.receive("tools/call")]
        await peer.answer(requests[0], large)
        await peer.answer(requests[1], OK)

    limits = attrs.evolve(CLIENT_LIMITS, message_bytes=1000, event_bytes=1000)
    async with open_in_memory(scripted(script), options=ClientOptions(limits=limits)) as client:
        with pytest.raises(LimitExceeded, match=r"Limits\.message_bytes"):
            await client.call_tool("a")
        async with trio.open_nursery() as nursery:

            async def timed_out() -> None:
                with pytest.raises(RequestTimeout):
                    await client.call_tool("b")

            nursery.start_soon(timed_out)
            await trio.testing.wait_all_tasks_blocked()
            await client.call_tool("c")


async def test_unknown_messages_tolerated(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.send(
            {"jsonrpc": "2.0", "method": "window/logMessage", "params": {}},
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 77, "progress": 1}},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}},
            {"jsonrpc": "2.0", "id": "5", "method": "no/such", "params": {}},
            {"jsonrpc": "2.0", "id": "6", "method": "ping", "params": 1},
            {"jsonrpc": "2.0", "id": "7", "method": "ping", "params": None},
            {"jsonrpc": "2.0", "methid": "banner"},
        )
        replies = [await peer.receive() for _ in range(3)]
        assert [(reply["id"], "error" in reply) for reply in replies] == [("5", True), ("6", True), ("7", False)]
        await peer.answer(await peer.receive("tools/call"), {**OK, "surprise": True})

    with caplog.at_level(logging.DEBUG, "mcp_client"):
        async with open_in_memory(scripted(script)) as client:
            await trio.testing.wait_all_tasks_blocked()
            await client.call_tool("a")
    assert any("params is null" in record.getMessage() for record in caplog.records)


@pytest.mark.spec("stdio.correlate-by-id")
@pytest.mark.parametrize("handshake", HANDSHAKES)
async def test_concurrent_calls_get_own_responses(handshake: Handshake, autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await handshake(peer)
        requests = [await peer.receive("tools/call") for _ in range(100)]
        for request in reversed(requests):
            name = request["params"]["name"]  # type: ignore[index,call-overload]  # a tools/call of the client
            await peer.answer(request, {**OK, "content": [{"type": "text", "text": name}]})

    answers: dict[str, str] = {}
    async with open_in_memory(scripted(script)) as client:

        async def call(name: str) -> None:
            answers[name] = text_of(await client.call_tool(name))

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(call, f"tool-{number}")
    assert answers == {f"tool-{number}": f"tool-{number}" for number in range(100)}


# --- closing ---------------------------------------------------------------------------------------------------------


async def test_connection_closed_by_server_pending_requests_raise(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={}, prompts={})
        await peer.receive()
        await peer.receive()
        await peer.aclose()

    errors: list[McpError] = []

    async def fail(call: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises(ConnectionEnded, match="closed by the server") as caught:
            await call()
        errors.append(caught.value)

    async with open_in_memory(scripted(script)) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail, client.list_tools)
            nursery.start_soon(fail, client.list_prompts)
        await fail(client.list_tools)
        await client.wait_ended()
        with pytest.raises(ConnectionEnded):
            await client.notify(NOTIFICATIONS_ROOTS_LIST_CHANGED, RootsListChangedNotificationParams())
    assert {error.context.method for error in errors} == {"tools/list", "prompts/list"}
    assert len(set(map(id, errors))) == 3


async def test_split_and_delayed_bytes_read(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.answer(await peer.receive("tools/call"), OK)

    slow = Faults(split=7, delay=0.01)
    async with open_in_memory(scripted(script), to_client=slow, to_server=slow) as client:
        assert text_of(await client.call_tool("a")) == "ok"


@pytest.mark.spec("batch.receive", "batch.responses-match-requests")
async def test_batch_answered_in_one_batch(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-03-26", tools={})
        request = await peer.receive("tools/call")
        await peer.send(
            [
                {"jsonrpc": "2.0", "id": "a", "method": "roots/list"},
                progress(request, 1),
                {"jsonrpc": "2.0", "id": "b", "method": "ping"},
                {"jsonrpc": "2.0", "id": "c", "method": "no/such"},
                {"jsonrpc": "2.0", "id": request["id"], "result": OK},
                1,
            ]
        )
        reply = await peer.receive_line()
        assert reply is not None
        for expected in (b'"id":"a","result":{"roots":[]}', b'"id":"b","result":{}', b"-32601", b'"id":null'):
            assert expected in reply
        await peer.send([1])
        assert (await peer.receive_line() or b"").startswith(b'[{"jsonrpc":"2.0","id":null,"error"')

    shown: list[float] = []
    handlers = Handlers(roots=[])
    async with open_in_memory(scripted(script), revisions=[R2025_03_26], handlers=handlers) as client:
        await client.call_tool("a", on_progress=lambda progress, _total, _message: shown.append(progress))
        await trio.testing.wait_all_tasks_blocked()
    assert shown == [1]


@pytest.mark.parametrize("handshake", HANDSHAKES)
async def test_batch_of_other_revision_read(handshake: Handshake, autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await handshake(peer)
        request = await peer.receive("tools/call")
        await peer.send([1, {"jsonrpc": "2.0", "id": request["id"], "result": OK}])

    async with open_in_memory(scripted(script)) as client:
        assert text_of(await client.call_tool("a")) == "ok"


@pytest.mark.spec("stdio.client-no-responses")
async def test_modern_client_sends_no_responses(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={})
        await peer.send(
            {"jsonrpc": "2.0", "id": 1, "method": "roots/list"},
            {"jsonrpc": "2.0", "id": 2, "method": "ping"},
            {"jsonrpc": "2.0", "id": 3, "method": "ping", "params": 3},
        )
        await peer.answer(await peer.receive("tools/call"), OK)

    transcript = Transcript()
    async with open_in_memory(scripted(script), transcript=transcript, revisions=[R2026_07_28]) as client:
        await trio.testing.wait_all_tasks_blocked()
        await client.call_tool("a")
    assert all(b'"method"' in line for direction, line in transcript.lines if direction == ">")


async def close_twice(client: Client) -> None:
    await client.aclose()
    await client.aclose()


async def test_client_closed_by_other_task_pending_call_raises(autojump_clock: trio.testing.MockClock) -> None:
    async with open_in_memory(scripted(lambda peer: peer.initialize(tools={}))) as client:  # noqa: SIM117  the outer one must end last
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                with pytest.raises(ConnectionEnded, match="the client was closed"):
                    await client.call_tool("a")

            nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(close_twice, client)
            nursery.start_soon(close_twice, client)
