"""One connection: batches, limits, slots, cancellation, the end."""

from __future__ import annotations

import orjson
import pytest
import trio
import trio.testing
from raw_client import RawClient, as_list, as_object, connected, text_of

from mcp_core import types as t
from mcp_core.errors import ConnectionEnded, ErrorCode
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import LEGACY, R2025_03_26, R2025_06_18, R2026_07_28, REVISIONS, Revision
from mcp_server import Context, Server, serve_stream

ALL = pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)


class Gate:
    """A server whose tool `hold` waits until it is let through."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.server = Server("gate", version="0", limits=limits or Limits())
        self.open = trio.Event()
        self.running: list[str] = []
        self.cancelled: list[str] = []

        @self.server.tool
        async def hold(name: str) -> str:
            self.running.append(name)
            try:
                await self.open.wait()
            except trio.Cancelled:
                self.cancelled.append(name)
                raise
            return name

        @self.server.tool
        async def echo(text: str) -> str:
            return text

        @self.server.tool
        async def half() -> str:
            return "half of a pair: \ud800"

        @self.server.tool
        async def look(context: Context) -> str:
            self.running.append("look")
            return str(len(await context.list_roots()))


def hold(name: str) -> JsonObject:
    return {"name": "hold", "arguments": {"name": name}}


def echo(text: str) -> JsonObject:
    return {"name": "echo", "arguments": {"text": text}}


# --- batches ---------------------------------------------------------------------------------------------------------


async def only_batch(client: RawClient) -> list[JsonObject]:
    """The members of the one batch that came."""
    await client.wait_for(lambda: any(isinstance(line, list) for line in client.lines))
    (batch,) = [line for line in client.lines if isinstance(line, list)]
    return [as_object(member) for member in batch]


@pytest.mark.spec("batch.receive", "batch.stdio", "batch.responses-match-requests", "batch.no-initialize")
async def test_a_batch_is_answered_by_a_batch_in_its_order() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_03_26) as client:
        members: list[JsonValue] = [
            client.request("tools/call", hold("slow"), id=10),
            {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
            client.request("ping", id=11),
            client.request("tools/call", echo("fast"), id=12),
            client.request("nonsense", id=13),
            {"jsonrpc": "2.0", "method": 5, "id": 14},
            client.request("initialize", id=15),
        ]
        await client.send(members)
        await client.call("ping")
        assert not any(isinstance(line, list) for line in client.lines)
        gate.open.set()
        answers = await only_batch(client)
    assert [answer["id"] for answer in answers] == [10, 11, 12, 13, 14, 15]
    assert text_of(as_object(answers[2]["result"])) == "fast"
    codes = [as_object(answer["error"])["code"] for answer in answers[3:]]
    assert codes == [ErrorCode.METHOD_NOT_FOUND, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]


async def test_a_batch_of_notifications_is_not_answered() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_03_26) as client:
        before = len(client.lines)
        await client.send([{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}])
        await client.call("ping")
        assert len(client.lines) == before + 1


async def test_an_empty_batch_and_a_nested_one_are_refused() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_03_26) as client:
        await client.send([])
        await client.wait_for(lambda: len(client.lines) == 2)
        assert as_object(as_object(client.lines[1])["error"])["code"] == ErrorCode.INVALID_REQUEST
        client._responses.clear()
        await client.send([[client.request("ping", id=20)], client.request("ping", id=21)])
        answers = await only_batch(client)
        assert [answer["id"] for answer in answers] == [None, 21]


async def test_a_member_of_a_batch_that_is_cancelled_is_left_out() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_03_26) as client:
        await client.send([client.request("tools/call", hold("a"), id=1001), client.request("ping", id=1002)])
        await trio.testing.wait_all_tasks_blocked()
        await client.notify("notifications/cancelled", {"requestId": 1001})
        answers = await only_batch(client)
        assert [answer["id"] for answer in answers] == [1002]


@pytest.mark.parametrize("revision", [each for each in REVISIONS.values() if each is not R2025_03_26], ids=str)
@pytest.mark.spec("stdio.no-batch", "stdio.individual-messages")
async def test_other_revisions_have_no_batches(revision: Revision) -> None:
    gate = Gate()
    async with connected(gate.server, revision) as client:
        count = len(client.lines)
        await client.send([client.request("tools/list", id=5), client.request("tools/list", id=6)])
        await client.wait_for(lambda: len(client.lines) > count)
        assert as_object(as_object(client.lines[-1])["error"])["code"] == ErrorCode.INVALID_REQUEST
        assert 5 not in client._responses


async def test_a_batch_before_the_handshake_is_refused() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_03_26, opened=False) as client:
        await client.send([client.request("ping", id=5)])
        await client.wait_for(lambda: len(client.lines) == 1)
        assert as_object(as_object(client.lines[0])["error"])["code"] == ErrorCode.INVALID_REQUEST


# --- slots and limits ------------------------------------------------------------------------------------------------


@ALL
async def test_no_more_run_than_the_limit_and_the_rest_waits(revision: Revision) -> None:
    gate = Gate(Limits(running_requests=2))
    async with connected(gate.server, revision) as client:
        ids = [await client.start("tools/call", hold(f"{number}")) for number in range(5)]
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(gate.running) == ["0", "1"]
        gate.open.set()
        for number, id in enumerate(ids):
            assert text_of(as_object((await client.response(id))["result"])) == f"{number}"


@ALL
async def test_a_request_that_waits_can_be_cancelled(revision: Revision) -> None:
    gate = Gate(Limits(running_requests=1))
    async with connected(gate.server, revision) as client:
        first = await client.start("tools/call", hold("first"))
        second = await client.start("tools/call", hold("second"))
        third = await client.start("tools/call", hold("third"))
        await client.notify("notifications/cancelled", {"requestId": second, "reason": "changed my mind"})
        await trio.testing.wait_all_tasks_blocked()
        gate.open.set()
        await client.response(first)
        await client.response(third)
        assert gate.running == ["first", "third"]
        assert second not in client._responses


@ALL
@pytest.mark.spec(
    "cancellation.no-response",
    "cancellation.stop-processing",
    "stdio.cancel-server-stops",
    "stdio.cancel-no-more-messages",
)
async def test_a_running_request_is_cancelled_and_not_answered(revision: Revision) -> None:
    gate = Gate()
    async with connected(gate.server, revision) as client:
        id = await client.start("tools/call", hold("a"))
        await trio.testing.wait_all_tasks_blocked()
        await client.notify("notifications/cancelled", {"requestId": id})
        await client.call("tools/list")
        assert gate.cancelled == ["a"]
        assert id not in client._responses


async def test_the_reader_stops_when_the_waiting_room_is_full_and_goes_on_later() -> None:
    gate = Gate(Limits(running_requests=1, waiting_requests=2))
    async with connected(gate.server, R2025_06_18) as client:
        ids = [await client.start("tools/call", hold(f"{number}")) for number in range(6)]
        await trio.testing.wait_all_tasks_blocked()
        ping = await client.start("ping")
        await trio.testing.wait_all_tasks_blocked()
        assert ping not in client._responses
        gate.open.set()
        await client.response(ping)
        for id in ids:
            await client.response(id)


async def test_the_reader_goes_on_when_a_waiting_request_is_cancelled_behind_it() -> None:
    gate = Gate(Limits(running_requests=1, waiting_requests=1))
    async with connected(gate.server, R2025_06_18) as client:
        first = await client.start("tools/call", hold("0"))
        await client.start("tools/call", hold("1"))
        await trio.testing.wait_all_tasks_blocked()
        await client.notify("notifications/cancelled", {"requestId": first})
        await client.call("ping")
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(gate.running) == ["0", "1"]
        gate.open.set()


async def test_waiting_requests_are_bounded_by_their_bytes_too() -> None:
    gate = Gate(Limits(running_requests=1, waiting_bytes=1_000))
    async with connected(gate.server, R2025_06_18) as client:
        for number in range(3):
            await client.start("tools/call", hold(f"{number}" * 600))
        ping = await client.start("ping")
        await trio.testing.wait_all_tasks_blocked()
        assert ping not in client._responses
        gate.open.set()
        await client.response(ping)


@pytest.mark.parametrize("revision", LEGACY, ids=str)
async def test_a_handler_that_waits_for_the_client_gives_its_slot_back(revision: Revision) -> None:
    gate = Gate(Limits(running_requests=1))
    async with connected(gate.server, revision) as client:
        asking = await client.start("tools/call", {"name": "look"})
        await client.wait_for(lambda: len(client.asked) == 1)
        assert text_of(await client.call("tools/call", echo("meanwhile"))) == "meanwhile"
        await client.send({"jsonrpc": "2.0", "id": client.asked[0]["id"], "result": {"roots": []}})
        assert text_of(as_object((await client.response(asking))["result"])) == "0"


@pytest.mark.parametrize(
    "rest",
    [
        b'"result":{"roots":NaN}',
        rb'"result":{"a":"\ud800"}',
        b'"result":5',
        b'"result":null',
        b'"error":"no"',
        b'"what":1',
    ],
)
async def test_a_handler_does_not_wait_for_an_answer_that_came_and_cannot_be_read(rest: bytes) -> None:
    gate = Gate()
    async with connected(gate.server, R2025_06_18) as client:
        id = await client.start("tools/call", {"name": "look"})
        await client.wait_for(lambda: len(client.asked) == 1)
        asked = orjson.dumps(client.asked[0]["id"])
        await client.stream.send_all(b'{"jsonrpc":"2.0","id":%b,%b}\n' % (asked, rest))
        error = as_object((await client.response(id))["error"])
        assert "the peer's response cannot be read" in str(error["message"])
        assert text_of(await client.call("tools/call", echo("alive"))) == "alive"


@pytest.mark.parametrize("revision", LEGACY, ids=str)
async def test_a_question_is_withdrawn_when_its_request_is_cancelled(revision: Revision) -> None:
    gate = Gate(Limits(running_requests=1))
    async with connected(gate.server, revision) as client:
        id = await client.start("tools/call", {"name": "look"})
        await client.wait_for(lambda: len(client.asked) == 1)
        await client.notify("notifications/cancelled", {"requestId": id})
        (withdrawn,) = await client.told("notifications/cancelled")
        assert withdrawn["requestId"] == client.asked[0]["id"]
        await client.send({"jsonrpc": "2.0", "id": client.asked[0]["id"], "result": {"roots": []}})
        for number in range(3):
            assert text_of(await client.call("tools/call", echo(f"{number}"))) == f"{number}"


async def test_many_subscriptions_take_no_slots() -> None:
    gate = Gate(Limits(running_requests=1))
    async with connected(gate.server, R2026_07_28) as client:
        for _ in range(5):
            await client.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await client.told("notifications/subscriptions/acknowledged", 5)
        assert text_of(await client.call("tools/call", echo("still"))) == "still"


async def test_a_line_that_is_too_long_is_refused_and_the_next_one_served() -> None:
    gate = Gate(Limits(message_bytes=2_000))
    async with connected(gate.server, R2025_06_18) as client:
        await client.send(client.request("tools/call", echo("x" * 5_000)))
        await client.wait_for(lambda: len(client.lines) == 2)
        error = as_object(as_object(client.lines[1])["error"])
        assert "Limits.message_bytes" in str(error["message"])
        assert text_of(await client.call("tools/call", echo("short"))) == "short"


async def test_bytes_that_are_no_message_are_refused_and_survived() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_06_18) as client:
        await client.stream.send_all(b"not json\n\n\r\n")
        await client.wait_for(lambda: len(client.lines) == 2)
        assert as_object(as_object(client.lines[1])["error"])["code"] == ErrorCode.PARSE_ERROR
        await client.stream.send_all(b'{"jsonrpc":"2.0","id":77,"result":{}}\n')
        assert text_of(await client.call("tools/call", echo("alive"))) == "alive"


# --- the end ---------------------------------------------------------------------------------------------------------


async def test_what_runs_at_the_end_of_input_may_finish(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("s", version="0")

    @server.tool
    async def nap() -> str:
        await trio.sleep(0.5)
        return "rested"

    async with connected(server, R2025_06_18) as client:
        id = await client.start("tools/call", {"name": "nap"})
    assert text_of(as_object((await client.response(id))["result"])) == "rested"


@pytest.mark.spec("lifecycle.handle-shutdown-timeout")
async def test_what_runs_too_long_after_the_end_of_input_is_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    async with connected(gate.server, R2025_06_18) as client:
        await client.start("tools/call", hold("a"))
        await trio.testing.wait_all_tasks_blocked()
    assert gate.cancelled == ["a"]


async def test_a_question_that_is_open_at_the_end_of_input_fails() -> None:
    server = Server("s", version="0")
    seen: list[str] = []

    @server.tool
    async def look(context: Context) -> str:
        try:
            await context.list_roots()
        except ConnectionEnded as error:
            seen.append(error.message)
            raise
        return ""

    async with connected(server, R2025_06_18) as client:
        await client.start("tools/call", {"name": "look"})
        await client.wait_for(lambda: len(client.asked) == 1)
    assert seen == ["the client disconnected before the response to roots/list arrived"]


async def test_the_same_server_serves_many_clients() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_06_18) as one, connected(gate.server, R2026_07_28) as other:
        assert text_of(await one.call("tools/call", echo("one"))) == "one"
        assert text_of(await other.call("tools/call", echo("other"))) == "other"
        gate.server.remove_tool("hold")
        await one.told("notifications/tools/list_changed")
        names = [as_object(tool)["name"] for tool in as_list((await other.call("tools/list"))["tools"])]
        assert names == ["echo", "half", "look"]


# --- what cannot be sent ---------------------------------------------------------------------------------------------


@ALL
async def test_a_result_that_json_cannot_say_harms_nobody_else(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    async with connected(gate.server, revision) as client:
        error = await client.fail("tools/call", {"name": "half"})
        assert error == {"code": ErrorCode.INTERNAL_ERROR, "message": "Internal error"}
        assert "surrogates" in caplog.text
        assert text_of(await client.call("tools/call", echo("alive"))) == "alive"


async def test_a_result_that_json_cannot_say_does_not_spoil_its_batch() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_03_26) as client:
        await client.send([client.request("tools/call", {"name": "half"}, id=30), client.request("ping", id=31)])
        answers = await only_batch(client)
        assert as_object(answers[0]["error"])["code"] == ErrorCode.INTERNAL_ERROR
        assert answers[1] == {"jsonrpc": "2.0", "id": 31, "result": {}}


async def test_a_result_that_its_types_do_not_allow_is_an_internal_error() -> None:
    gate = Gate()

    @gate.server.tool
    async def wrong() -> t.CallToolResult:
        return t.CallToolResult(content=(t.TextContent(text=5),))  # type: ignore[arg-type]  # what is tested

    async with connected(gate.server, R2025_06_18) as client:
        assert (await client.fail("tools/call", {"name": "wrong"}))["code"] == ErrorCode.INTERNAL_ERROR


async def test_a_change_that_cannot_be_told_is_left_out() -> None:
    gate = Gate()

    async def read() -> str:
        return ""

    async with connected(gate.server, R2025_06_18) as client:
        await client.call("ping")  # the server has read that the session is open
        # Resources were not offered when the session began, so that the client does not expect to hear of them.
        gate.server.add_resource(read, "x://y")
        gate.server.remove_tool("hold")
        await client.told("notifications/tools/list_changed")
        assert client.of("notifications/resources/list_changed") == []


async def test_a_batch_of_which_nothing_can_be_processed_is_answered_at_once() -> None:
    gate = Gate()
    async with connected(gate.server, R2025_03_26) as client:
        await client.send([{"jsonrpc": "2.0", "method": 5, "id": 40}, 7])
        answers = await only_batch(client)
        assert [answer["id"] for answer in answers] == [40, None]


class Flood:
    """A client that sends many messages at once, and takes what comes."""

    def __init__(self, *says: bytes) -> None:
        self.says = list(says)
        self.answers = b""
        self.taken: list[int] = []
        self.turns = 0

    async def receive_some(self) -> bytes:
        await trio.lowlevel.checkpoint()
        self.taken.append(self.turns)
        return self.says.pop(0) if self.says else b""

    async def send_all(self, data: bytes | memoryview) -> None:
        self.answers += bytes(data)
        await trio.lowlevel.checkpoint()

    async def take_turns(self) -> None:
        """Another task: counts how often it gets to run."""
        while True:
            self.turns += 1
            await trio.lowlevel.checkpoint()


async def test_many_messages_of_one_read_let_other_tasks_run_between_them() -> None:
    flood = Flood(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 1_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flood.take_turns)
        await serve_stream(Gate().server, flood)
        nursery.cancel_scope.cancel()
    before, after = flood.taken[:2]
    assert after - before >= 10
    assert flood.answers.count(b'"result":{}') == 1_000
