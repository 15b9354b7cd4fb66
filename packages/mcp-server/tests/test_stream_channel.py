"""A connection over a stream: batches, limits, concurrency, cancellation, shutdown."""

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


class GatedServer:
    """A server whose tool `hold` waits for `open`."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.server = Server("gated", version="0", limits=limits or Limits())
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
    """Wait for the only batch of responses and return its members."""
    await client.wait_for(lambda: any(isinstance(line, list) for line in client.lines))
    (batch,) = [line for line in client.lines if isinstance(line, list)]
    return [as_object(member) for member in batch]


@pytest.mark.spec("batch.receive", "batch.stdio", "batch.responses-match-requests", "batch.no-initialize")
async def test_batch_returns_one_batch_in_order() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_03_26) as client:
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
        gated.open.set()
        answers = await only_batch(client)
    assert [answer["id"] for answer in answers] == [10, 11, 12, 13, 14, 15]
    assert text_of(as_object(answers[2]["result"])) == "fast"
    codes = [as_object(answer["error"])["code"] for answer in answers[3:]]
    assert codes == [ErrorCode.METHOD_NOT_FOUND, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]


async def test_batch_of_notifications_has_no_response() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_03_26) as client:
        before = len(client.lines)
        await client.send([{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}])
        await client.call("ping")
        assert len(client.lines) == before + 1


async def test_empty_and_nested_batch_rejected() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_03_26) as client:
        await client.send([])
        await client.wait_for(lambda: len(client.lines) == 2)
        assert as_object(as_object(client.lines[1])["error"])["code"] == ErrorCode.INVALID_REQUEST
        client._responses.clear()
        await client.send([[client.request("ping", id=20)], client.request("ping", id=21)])
        answers = await only_batch(client)
        assert [answer["id"] for answer in answers] == [None, 21]


async def test_batch_member_cancelled_omitted_from_response() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_03_26) as client:
        await client.send([client.request("tools/call", hold("a"), id=1001), client.request("ping", id=1002)])
        await trio.testing.wait_all_tasks_blocked()
        await client.notify("notifications/cancelled", {"requestId": 1001})
        answers = await only_batch(client)
        assert [answer["id"] for answer in answers] == [1002]


@pytest.mark.parametrize("revision", [each for each in REVISIONS.values() if each is not R2025_03_26], ids=str)
@pytest.mark.spec("stdio.no-batch", "stdio.individual-messages")
async def test_batch_in_other_revisions_rejected(revision: Revision) -> None:
    gated = GatedServer()
    async with connected(gated.server, revision) as client:
        count = len(client.lines)
        await client.send([client.request("tools/list", id=5), client.request("tools/list", id=6)])
        await client.wait_for(lambda: len(client.lines) > count)
        assert as_object(as_object(client.lines[-1])["error"])["code"] == ErrorCode.INVALID_REQUEST
        assert 5 not in client._responses


async def test_batch_before_handshake_rejected() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_03_26, opened=False) as client:
        await client.send([client.request("ping", id=5)])
        await client.wait_for(lambda: len(client.lines) == 1)
        assert as_object(as_object(client.lines[0])["error"])["code"] == ErrorCode.INVALID_REQUEST


# --- concurrency and limits ------------------------------------------------------------------------------------------


@ALL
async def test_running_requests_over_limit_are_queued(revision: Revision) -> None:
    gated = GatedServer(Limits(running_requests=2))
    async with connected(gated.server, revision) as client:
        ids = [await client.start("tools/call", hold(f"{number}")) for number in range(5)]
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(gated.running) == ["0", "1"]
        gated.open.set()
        for number, id in enumerate(ids):
            assert text_of(as_object((await client.response(id))["result"])) == f"{number}"


@ALL
async def test_queued_request_cancelled_never_runs(revision: Revision) -> None:
    gated = GatedServer(Limits(running_requests=1))
    async with connected(gated.server, revision) as client:
        first = await client.start("tools/call", hold("first"))
        second = await client.start("tools/call", hold("second"))
        third = await client.start("tools/call", hold("third"))
        await client.notify("notifications/cancelled", {"requestId": second, "reason": "changed my mind"})
        await trio.testing.wait_all_tasks_blocked()
        gated.open.set()
        await client.response(first)
        await client.response(third)
        assert gated.running == ["first", "third"]
        assert second not in client._responses


@ALL
@pytest.mark.spec(
    "cancellation.no-response",
    "cancellation.stop-processing",
    "stdio.cancel-server-stops",
    "stdio.cancel-no-more-messages",
)
async def test_running_request_cancelled_has_no_response(revision: Revision) -> None:
    gated = GatedServer()
    async with connected(gated.server, revision) as client:
        id = await client.start("tools/call", hold("a"))
        await trio.testing.wait_all_tasks_blocked()
        await client.notify("notifications/cancelled", {"requestId": id})
        await client.call("tools/list")
        assert gated.cancelled == ["a"]
        assert id not in client._responses


async def test_request_queue_full_pauses_reader() -> None:
    gated = GatedServer(Limits(running_requests=1, waiting_requests=2))
    async with connected(gated.server, R2025_06_18) as client:
        ids = [await client.start("tools/call", hold(f"{number}")) for number in range(6)]
        await trio.testing.wait_all_tasks_blocked()
        ping = await client.start("ping")
        await trio.testing.wait_all_tasks_blocked()
        assert ping not in client._responses
        gated.open.set()
        await client.response(ping)
        for id in ids:
            await client.response(id)


async def test_cancelled_request_resumes_paused_reader() -> None:
    gated = GatedServer(Limits(running_requests=1, waiting_requests=1))
    async with connected(gated.server, R2025_06_18) as client:
        first = await client.start("tools/call", hold("0"))
        await client.start("tools/call", hold("1"))
        await trio.testing.wait_all_tasks_blocked()
        await client.notify("notifications/cancelled", {"requestId": first})
        await client.call("ping")
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(gated.running) == ["0", "1"]
        gated.open.set()


async def test_request_queue_over_byte_limit_pauses_reader() -> None:
    gated = GatedServer(Limits(running_requests=1, waiting_bytes=1_000))
    async with connected(gated.server, R2025_06_18) as client:
        for number in range(3):
            await client.start("tools/call", hold(f"{number}" * 600))
        ping = await client.start("ping")
        await trio.testing.wait_all_tasks_blocked()
        assert ping not in client._responses
        gated.open.set()
        await client.response(ping)


@pytest.mark.parametrize("revision", LEGACY, ids=str)
async def test_handler_waiting_for_client_frees_its_slot(revision: Revision) -> None:
    gated = GatedServer(Limits(running_requests=1))
    async with connected(gated.server, revision) as client:
        pending = await client.start("tools/call", {"name": "look"})
        await client.wait_for(lambda: len(client.client_requests) == 1)
        assert text_of(await client.call("tools/call", echo("meanwhile"))) == "meanwhile"
        await client.send({"jsonrpc": "2.0", "id": client.client_requests[0]["id"], "result": {"roots": []}})
        assert text_of(as_object((await client.response(pending))["result"])) == "0"


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
async def test_unreadable_client_response_fails_handler(rest: bytes) -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_06_18) as client:
        id = await client.start("tools/call", {"name": "look"})
        await client.wait_for(lambda: len(client.client_requests) == 1)
        request_id = orjson.dumps(client.client_requests[0]["id"])
        await client.stream.send_all(b'{"jsonrpc":"2.0","id":%b,%b}\n' % (request_id, rest))
        error = as_object((await client.response(id))["error"])
        assert "the peer's response cannot be read" in str(error["message"])
        assert text_of(await client.call("tools/call", echo("alive"))) == "alive"


@pytest.mark.parametrize("revision", LEGACY, ids=str)
async def test_request_cancelled_cancels_its_client_request(revision: Revision) -> None:
    gated = GatedServer(Limits(running_requests=1))
    async with connected(gated.server, revision) as client:
        id = await client.start("tools/call", {"name": "look"})
        await client.wait_for(lambda: len(client.client_requests) == 1)
        await client.notify("notifications/cancelled", {"requestId": id})
        (cancellation,) = await client.wait_for_notifications("notifications/cancelled")
        assert cancellation["requestId"] == client.client_requests[0]["id"]
        await client.send({"jsonrpc": "2.0", "id": client.client_requests[0]["id"], "result": {"roots": []}})
        for number in range(3):
            assert text_of(await client.call("tools/call", echo(f"{number}"))) == f"{number}"


async def test_subscriptions_use_no_request_slots() -> None:
    gated = GatedServer(Limits(running_requests=1))
    async with connected(gated.server, R2026_07_28) as client:
        for _ in range(5):
            await client.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await client.wait_for_notifications("notifications/subscriptions/acknowledged", 5)
        assert text_of(await client.call("tools/call", echo("still"))) == "still"


async def test_message_over_limit_rejected_and_next_served() -> None:
    gated = GatedServer(Limits(message_bytes=2_000))
    async with connected(gated.server, R2025_06_18) as client:
        await client.send(client.request("tools/call", echo("x" * 5_000)))
        await client.wait_for(lambda: len(client.lines) == 2)
        error = as_object(as_object(client.lines[1])["error"])
        assert "Limits.message_bytes" in str(error["message"])
        assert text_of(await client.call("tools/call", echo("short"))) == "short"


async def test_invalid_json_rejected_and_next_served() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_06_18) as client:
        await client.stream.send_all(b"not json\n\n\r\n")
        await client.wait_for(lambda: len(client.lines) == 2)
        assert as_object(as_object(client.lines[1])["error"])["code"] == ErrorCode.PARSE_ERROR
        await client.stream.send_all(b'{"jsonrpc":"2.0","id":77,"result":{}}\n')
        assert text_of(await client.call("tools/call", echo("alive"))) == "alive"


# --- shutdown --------------------------------------------------------------------------------------------------------


async def test_end_of_input_running_request_finishes_within_grace(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("s", version="0")

    @server.tool
    async def nap() -> str:
        await trio.sleep(0.5)
        return "rested"

    async with connected(server, R2025_06_18) as client:
        id = await client.start("tools/call", {"name": "nap"})
    assert text_of(as_object((await client.response(id))["result"])) == "rested"


@pytest.mark.spec("lifecycle.handle-shutdown-timeout")
async def test_end_of_input_running_request_cancelled_after_grace(autojump_clock: trio.testing.MockClock) -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_06_18) as client:
        await client.start("tools/call", hold("a"))
        await trio.testing.wait_all_tasks_blocked()
    assert gated.cancelled == ["a"]


async def test_end_of_input_fails_pending_client_request() -> None:
    server = Server("s", version="0")
    errors: list[str] = []

    @server.tool
    async def look(context: Context) -> str:
        try:
            await context.list_roots()
        except ConnectionEnded as error:
            errors.append(error.message)
            raise
        return ""

    async with connected(server, R2025_06_18) as client:
        await client.start("tools/call", {"name": "look"})
        await client.wait_for(lambda: len(client.client_requests) == 1)
    assert errors == ["the client disconnected before the response to roots/list arrived"]


async def test_server_serves_two_clients_at_once() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_06_18) as one, connected(gated.server, R2026_07_28) as other:
        assert text_of(await one.call("tools/call", echo("one"))) == "one"
        assert text_of(await other.call("tools/call", echo("other"))) == "other"
        gated.server.remove_tool("hold")
        await one.wait_for_notifications("notifications/tools/list_changed")
        names = [as_object(tool)["name"] for tool in as_list((await other.call("tools/list"))["tools"])]
        assert names == ["echo", "half", "look"]


# --- unserializable output -------------------------------------------------------------------------------------------


@ALL
async def test_unserializable_result_is_internal_error_and_connection_continues(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    gated = GatedServer()
    async with connected(gated.server, revision) as client:
        error = await client.fail("tools/call", {"name": "half"})
        assert error == {"code": ErrorCode.INTERNAL_ERROR, "message": "Internal error"}
        assert "surrogates" in caplog.text
        assert text_of(await client.call("tools/call", echo("alive"))) == "alive"


async def test_unserializable_result_keeps_other_batch_members() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_03_26) as client:
        await client.send([client.request("tools/call", {"name": "half"}, id=30), client.request("ping", id=31)])
        answers = await only_batch(client)
        assert as_object(answers[0]["error"])["code"] == ErrorCode.INTERNAL_ERROR
        assert answers[1] == {"jsonrpc": "2.0", "id": 31, "result": {}}


async def test_result_of_wrong_type_is_internal_error() -> None:
    gated = GatedServer()

    @gated.server.tool
    async def invalid_result() -> t.CallToolResult:
        return t.CallToolResult(content=(t.TextContent(text=5),))  # type: ignore[arg-type]  # the tested mistake

    async with connected(gated.server, R2025_06_18) as client:
        assert (await client.fail("tools/call", {"name": "invalid_result"}))["code"] == ErrorCode.INTERNAL_ERROR


async def test_list_changed_without_declared_capability_not_sent() -> None:
    gated = GatedServer()

    async def read() -> str:
        return ""

    async with connected(gated.server, R2025_06_18) as client:
        await client.call("ping")  # the server has read that the session is open
        # The server offered no resources at initialization, so the client does not expect their notifications.
        gated.server.add_resource(read, "x://y")
        gated.server.remove_tool("hold")
        await client.wait_for_notifications("notifications/tools/list_changed")
        assert client.notifications_of("notifications/resources/list_changed") == []


async def test_batch_of_invalid_members_answered_at_once() -> None:
    gated = GatedServer()
    async with connected(gated.server, R2025_03_26) as client:
        await client.send([{"jsonrpc": "2.0", "method": 5, "id": 40}, 7])
        answers = await only_batch(client)
        assert [answer["id"] for answer in answers] == [40, None]


class Flood:
    """A stream that delivers many messages in one read and stores the responses."""

    def __init__(self, *reads: bytes) -> None:
        self.reads = list(reads)
        self.answers = b""
        self.switches_at_read: list[int] = []
        self.switches = 0

    async def receive_some(self) -> bytes:
        await trio.lowlevel.checkpoint()
        self.switches_at_read.append(self.switches)
        return self.reads.pop(0) if self.reads else b""

    async def send_all(self, data: bytes | memoryview) -> None:
        self.answers += bytes(data)
        await trio.lowlevel.checkpoint()

    async def count_switches(self) -> None:
        """Count how often another task runs."""
        while True:
            self.switches += 1
            await trio.lowlevel.checkpoint()


async def test_messages_of_one_read_yield_to_other_tasks() -> None:
    flood = Flood(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 1_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flood.count_switches)
        await serve_stream(GatedServer().server, flood)
        nursery.cancel_scope.cancel()
    before, after = flood.switches_at_read[:2]
    assert after - before >= 10
    assert flood.answers.count(b'"result":{}') == 1_000


class UnreadStream:
    """A stream of a client that sends the same line again and again, and reads no response."""

    READS = 1_000

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.reads = 0

    async def receive_some(self) -> bytes:
        await trio.lowlevel.checkpoint()
        self.reads += 1
        if self.reads > self.READS:
            await trio.sleep_forever()
        return self.line

    async def send_all(self, data: bytes | memoryview) -> None:
        await trio.sleep_forever()


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"not JSON\n", id="no-json"),
        pytest.param(b'{"jsonrpc":"2.0","id":1}\n', id="no-method"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 2_000 + b'"}\n', id="too-long"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', id="ping"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n', id="not-initialized"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"unknown"}\n', id="unknown-method"),
        pytest.param(b"[]\n", id="empty-batch"),
    ],
)
async def test_client_that_reads_no_responses_is_not_read(line: bytes) -> None:
    server = GatedServer(Limits(outgoing_bytes=2_000, message_bytes=1_000)).server
    for lines in (line, line * 2):
        stream = UnreadStream(lines)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_stream, server, stream)
            await trio.testing.wait_all_tasks_blocked()
            assert stream.reads < UnreadStream.READS
            nursery.cancel_scope.cancel()


class BreakingStream:
    """A stream on which the next request has arrived when the write of a response fails."""

    def __init__(self, requests: list[bytes]) -> None:
        self.requests = requests
        self.arrived = trio.Event()
        self.arrived.set()

    async def receive_some(self) -> bytes:
        await self.arrived.wait()
        self.arrived = trio.Event()
        return self.requests.pop(0)

    async def send_all(self, data: bytes | memoryview) -> None:
        self.arrived.set()
        raise trio.BrokenResourceError


async def test_request_that_arrived_before_failed_write_is_not_started() -> None:
    server = Server("breaking", version="0")
    started: list[int] = []

    @server.tool
    async def note() -> str:
        started.append(len(started))
        return "noted"

    meta: JsonObject = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "any", "version": "1"},
    }
    params: JsonObject = {"name": "note", "arguments": {}, "_meta": meta}
    requests: list[JsonObject] = [
        {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params} for id in (1, 2)
    ]
    await serve_stream(server, BreakingStream([orjson.dumps(request) + b"\n" for request in requests]))
    assert started == [0]
