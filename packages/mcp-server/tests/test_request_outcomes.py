"""The outcome of each request, whatever clients and handlers do: at most one response, and no leftover state."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from contextvars import ContextVar
from typing import Final, TypeAlias

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_client import RawClient, as_object, connected, text_of

from mcp_core.engine.server import ServerConnection
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import R2025_03_26, R2025_06_18, R2026_07_28, REVISIONS, Revision
from mcp_server import Context, Server
from mcp_server.connection.stream_channel import StreamChannel
from mcp_server.runners.stdio import serve_connection

SMALL: Final = Limits(running_requests=2, waiting_requests=2, outgoing_bytes=2_000)
Memory: TypeAlias = trio.StapledStream[trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream]
TOOLS: Final = ("echo", "wait", "large", "fail", "stubborn", "careless", "look", "look_twice", "insist")


@attrs.define
class ClientRequestCounts:
    """The number of client requests that handlers sent, and that ended."""

    sent_requests: int = 0
    ended: int = 0


def make_server(limits: Limits, counts: ClientRequestCounts | None = None) -> Server:
    """Return a server with tools that end in every possible way."""
    counts = ClientRequestCounts() if counts is None else counts
    server = Server("any", version="0", limits=limits)

    @server.tool
    async def echo() -> str:
        return "echo"

    @server.tool
    async def wait() -> str:
        await trio.sleep(3)
        return "waited"

    @server.tool
    async def large() -> str:
        return "x" * 3_000

    @server.tool
    async def fail() -> str:
        raise ZeroDivisionError

    @server.tool
    async def stubborn() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(2)
        return "all the same"

    @server.tool
    async def careless() -> str:
        async def work() -> None:
            try:
                await trio.sleep(3)
            finally:
                raise ZeroDivisionError

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            await trio.sleep(5)
        return "not reached"

    async def ask(context: Context) -> int:
        counts.sent_requests += 1
        try:
            return len(await context.list_roots())
        finally:
            counts.ended += 1

    @server.tool
    async def look(context: Context) -> str:
        return str(await ask(context))

    @server.tool
    async def look_twice(context: Context) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, context)
            nursery.start_soon(ask, context)
        return "looked"

    @server.tool
    async def insist(context: Context) -> str:
        """Send a client request, shielded from cancellation."""
        with trio.CancelScope(shield=True):
            answer = await ask(context)
        return str(answer)

    return server


def assert_empty(channel: StreamChannel, connection: ServerConnection) -> None:
    """Check that the tables of a channel, its workers and its engine are empty."""
    workers = channel._workers
    tables = (
        channel._calls,
        channel._batches,
        channel._client_requests,
        channel._pending_notifications,
        workers._waiting,
        connection._inbound.open,
    )
    assert [len(table) for table in tables] == [0] * len(tables)
    assert len(connection._outbound.open) == 0
    assert (workers._running, workers._waiting_bytes) == (0, 0)


@attrs.define
class Step:
    """An action of the client."""

    kind: str
    tools: list[str]
    chosen: int
    pause: float


STEPS: Final = st.lists(
    st.builds(
        Step,
        kind=st.sampled_from(["call", "call", "call", "batch", "cancel", "reuse", "initialize"]),
        tools=st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3),
        chosen=st.integers(0, 20),
        pause=st.sampled_from([0.0, 0.0, 0.0, 0.5, 4.0]),
    ),
    max_size=12,
)


def _is_initialize(id: JsonValue) -> bool:
    """Return whether an id belongs to an `initialize` request."""
    return isinstance(id, str) and id.startswith("session ")


class ScriptedClient:
    """A client that runs steps, and waits `slowness` seconds before it parses each line."""

    def __init__(self, raw: RawClient, slowness: float) -> None:
        self.raw = raw
        self.slowness = slowness
        self.initialized = trio.Event()
        self._send_lock = trio.Lock()
        self.sent: Counter[JsonValue] = Counter()
        self.responses: Counter[JsonValue] = Counter()
        self.excused: set[JsonValue] = set()
        """Ids of requests that may have no response: cancelled ones, ids reused while possibly pending, and those of a
        replaced session."""
        self.session = 0
        self.sent_in: dict[JsonValue, int] = {}
        """The session in which an id was last sent."""
        self.allowed_responses: Counter[tuple[JsonValue, int]] = Counter()
        """The number of responses that an id may still get in a session."""
        self.responded_session = 0
        """The last session whose `initialize` got a response."""

    def request(self, tool: str, id: JsonValue = None) -> JsonObject:
        message = self.raw.request("tools/call", {"name": tool, "arguments": {}}, id=id)
        self.sent[message["id"]] += 1
        self.sent_in[message["id"]] = self.session
        self.allowed_responses[message["id"], self.session] += 1
        return message

    async def initialize(self) -> None:
        """Open a session, which ends the previous one."""
        self.excused |= {id for id, count in self.sent.items() if self.responses[id] < count}
        self.session += 1
        id = f"session {self.session}"
        self.sent[id] += 1
        self.sent_in[id] = self.session
        self.allowed_responses[id, self.session] += 1
        params: JsonObject = {"protocolVersion": self.raw.revision.name, "capabilities": {"roots": {}}}
        params["clientInfo"] = {"name": "player", "version": "0"}
        await self.send(self.raw.request("initialize", params, id=id))
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def send(self, message: JsonValue) -> None:
        # After a disconnect the stream is closed.
        with suppress(trio.ClosedResourceError, trio.BrokenResourceError):
            async with self._send_lock:
                await self.raw.send(message)

    async def run_steps(self, steps: list[Step]) -> None:
        for step in steps:
            ids = sorted((id for id in self.sent if not _is_initialize(id)), key=str)
            chosen = ids[step.chosen % len(ids)] if ids else None
            if step.kind == "batch" and self.raw.revision is R2025_03_26:
                await self.send([self.request(tool) for tool in step.tools])
            elif step.kind == "cancel" and chosen is not None:
                self.excused.add(chosen)
                await self.send(
                    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": chosen}}
                )
            elif step.kind == "initialize" and not self.raw.modern:
                # A new client behind a bridge starts with the same ids again.
                await self.initialize()
                if chosen is not None:
                    self.excused.add(chosen)
                    await self.send(self.request(step.tools[0], chosen))
            elif step.kind == "reuse" and chosen is not None:
                self.excused.add(chosen)
                await self.send(self.request(step.tools[0], chosen))
            else:
                await self.send(self.request(step.tools[0]))
            await trio.sleep(step.pause)

    async def read(self) -> None:
        with suppress(trio.ClosedResourceError):
            await self.read_lines()

    async def read_lines(self) -> None:
        rest = b""
        while data := await self.raw.stream.receive_some():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                await trio.sleep(self.slowness)
                value: JsonValue = json.loads(line)
                for message in value if isinstance(value, list) else [value]:
                    await self.handle(as_object(message))
        assert rest == b""

    async def handle(self, message: JsonObject) -> None:
        if "method" not in message:
            id = message["id"]
            if _is_initialize(id):
                self.responded_session = self.sent_in[id]
            self.allowed_responses[id, self.responded_session] -= 1
            assert self.allowed_responses[id, self.responded_session] >= 0, f"{id!r} got a response in another session"
            self.responses[id] += 1
            self.initialized.set()
        elif message["method"] == "roots/list":
            await self.send({"jsonrpc": "2.0", "id": message["id"], "result": {"roots": []}})


async def run_steps(
    revision: Revision, steps: list[Step], slowness: float, disconnect_after: int | None, disconnect: str
) -> None:
    counts = ClientRequestCounts()
    server = make_server(SMALL, counts)
    connection = server.connection()
    channels: list[StreamChannel] = []
    client_end, server_end = trio.testing.memory_stream_pair()
    # The stream accepts no data until it is read.
    server_end.send_stream, client_end.receive_stream = trio.testing.lockstep_stream_one_way_pair()  # type: ignore[assignment]
    client = ScriptedClient(RawClient(client_end, revision), slowness)
    with trio.fail_after(10_000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_until_end, server, connection, server_end, channels)
            nursery.start_soon(client.read)
            if not client.raw.modern:
                await client.initialize()
                await client.initialized.wait()
            if disconnect_after is None:
                await client.run_steps(steps)
                # Every request can get a response now, and must.
                await trio.sleep(1_000)
                missing = {id for id in client.sent if id not in client.excused and client.responses[id] != 1}
                assert not missing
                assert_empty(channels[0], connection)
                await client_end.send_stream.aclose()
            else:
                with trio.move_on_after(disconnect_after):
                    await client.run_steps(steps)
                if disconnect != "output":
                    await client_end.send_stream.aclose()
                if disconnect != "input":
                    await client_end.receive_stream.aclose()
                if disconnect == "output":
                    # The server notices the closed output at the latest when it writes this response.
                    await client.send(client.raw.request("ping", id="last"))
    assert all(client.responses[id] <= client.sent[id] for id in client.responses)
    # In every case, each client request has one outcome, and the engine has forgotten it.
    assert counts.sent_requests == counts.ended
    assert connection.outbound_requests == {}
    assert len(channels[0]._client_requests) == 0


async def serve_until_end(
    server: Server,
    connection: ServerConnection,
    stream: Memory,
    channels: list[StreamChannel],
) -> None:
    with trio.fail_after(9_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server._service, "connected", channels.append)
            await serve_connection(server._service, connection, stream)
    await stream.aclose()


@settings(max_examples=150, deadline=None)
@given(
    revision=st.sampled_from([R2025_03_26, R2025_06_18, R2026_07_28]),
    steps=STEPS,
    slowness=st.sampled_from([0.0, 0.3]),
    disconnect_after=st.none() | st.integers(0, 8),
    disconnect=st.sampled_from(["input", "output", "both"]),
)
def test_request_has_one_outcome_and_leaves_no_state(
    revision: Revision, steps: list[Step], slowness: float, disconnect_after: int | None, disconnect: str
) -> None:
    trio.run(
        run_steps,
        revision,
        steps,
        slowness,
        disconnect_after,
        disconnect,
        clock=trio.testing.MockClock(autojump_threshold=0),
    )


# --- single cases ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)
async def test_handler_error_during_cancellation_leaves_connection_open(
    revision: Revision, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(make_server(Limits()), revision) as client:
        id = await client.start("tools/call", {"name": "careless", "arguments": {}})
        await trio.sleep(1)
        await client.notify("notifications/cancelled", {"requestId": id})
        assert await client.text("echo") == "echo"
    assert [id for line in client.lines if as_object(line).get("id") == id] == []
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "ZeroDivisionError" in caplog.text
    assert record.name == "mcp_server"


async def test_handler_error_during_shutdown_does_not_fail_server(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = make_server(Limits())
    async with connected(server, R2025_06_18) as client:
        await client.start("tools/call", {"name": "careless", "arguments": {}})
        await trio.sleep(0.5)


async def test_id_reused_before_response_written_gets_two_responses() -> None:
    server = make_server(Limits(outgoing_bytes=10))
    channels: list[StreamChannel] = []
    connection = server.connection()
    client_end, server_end = trio.testing.memory_stream_pair()
    server_end.send_stream, client_end.receive_stream = trio.testing.lockstep_stream_one_way_pair()  # type: ignore[assignment]
    client = RawClient(client_end, R2026_07_28)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_until_end, server, connection, server_end, channels)
            call: JsonObject = {"name": "large", "arguments": {}}
            for id in (1, 2, 1):
                await client.send(client.request("tools/call", call, id=id))
                await trio.testing.wait_all_tasks_blocked()
            ids: list[JsonValue] = []
            rest = b""
            while len(ids) < 3:
                *lines, rest = (rest + await client_end.receive_some()).split(b"\n")
                ids += [json.loads(line)["id"] for line in lines]
            assert sorted(str(id) for id in ids) == ["1", "1", "2"]
            await trio.testing.wait_all_tasks_blocked()
            assert_empty(channels[0], connection)
            nursery.cancel_scope.cancel()


async def test_handler_with_two_client_requests_frees_one_slot() -> None:
    server = make_server(Limits(running_requests=1))
    async with connected(server, R2025_06_18) as client:
        caller = await client.start("tools/call", {"name": "look_twice", "arguments": {}})
        await client.wait_for(lambda: len(client.client_requests) == 2)
        # One of these takes the slot of the waiting caller; the others take over in turn.
        others = [await client.start("tools/call", {"name": "look", "arguments": {}}) for _ in range(3)]
        await client.wait_for(lambda: len(client.client_requests) == 5)
        for client_request in tuple(client.client_requests):
            await client.send({"jsonrpc": "2.0", "id": client_request["id"], "result": {"roots": []}})
        for id in (caller, *others):
            assert "result" in await client.response(id)


async def test_running_requests_stay_within_limit_after_client_requests() -> None:
    server = make_server(Limits(running_requests=1))
    running = 0
    maximum = 0

    @server.tool
    async def count() -> str:
        nonlocal running, maximum
        running += 1
        maximum = max(maximum, running)
        await trio.testing.wait_all_tasks_blocked()
        running -= 1
        return "counted"

    async with connected(server, R2025_06_18) as client:
        caller = await client.start("tools/call", {"name": "look_twice", "arguments": {}})
        await client.wait_for(lambda: len(client.client_requests) == 2)
        calls = [await client.start("tools/call", {"name": "count", "arguments": {}}) for _ in range(5)]
        for id in calls:
            await client.response(id)
        assert maximum == 1
        for client_request in client.client_requests:
            await client.send({"jsonrpc": "2.0", "id": client_request["id"], "result": {"roots": []}})
        assert text_of(as_object((await client.response(caller))["result"])) == "looked"


class Incomparable:
    """A value whose comparison raises, like that of arrays in some libraries."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("equal in what sense?")

    __hash__ = object.__hash__


async def test_context_variable_not_comparable_counts_as_changed() -> None:
    server = make_server(Limits())
    variable: ContextVar[Incomparable] = ContextVar("undecided")
    first = Incomparable()
    variable.set(first)
    ids: list[bool] = []

    @server.tool
    async def change() -> str:
        ids.append(variable.get() is first)
        variable.set(Incomparable())
        return "changed"

    async with connected(server, R2025_06_18) as client:
        for _ in range(3):
            await client.text("change")
    assert ids == [True] * 3


async def test_calls_10000_leave_no_state() -> None:
    server = make_server(Limits(running_requests=4))
    connection = server.connection()
    channels: list[StreamChannel] = []
    client_end, server_end = trio.testing.memory_stream_pair()
    client = RawClient(client_end, R2025_06_18)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_until_end, server, connection, server_end, channels)
        nursery.start_soon(client.read)
        await client.open()
        for _ in range(100):
            ids = [await client.start("tools/call", {"name": "echo", "arguments": {}}) for _ in range(100)]
            for id in ids:
                await client.response(id)
        await trio.testing.wait_all_tasks_blocked()
        assert_empty(channels[0], connection)
        assert len(channels[0]._workers._idle) <= 16
        await client_end.send_stream.aclose()


async def test_cancelled_call_in_thread_has_no_response_and_stops_thread() -> None:
    server = make_server(Limits())
    thread_cancelled = trio.Event()

    @server.tool
    def work() -> str:
        trio.from_thread.run_sync(started.set)
        try:
            while True:
                trio.from_thread.check_cancelled()
                trio.from_thread.run(trio.lowlevel.checkpoint)
        finally:
            with suppress(trio.Cancelled):
                trio.from_thread.run_sync(thread_cancelled.set)

    started = trio.Event()
    async with connected(server, R2025_06_18) as client:
        id = await client.start("tools/call", {"name": "work", "arguments": {}})
        await started.wait()
        await client.notify("notifications/cancelled", {"requestId": id})
        await thread_cancelled.wait()
        assert await client.text("echo") == "echo"
    assert [line for line in client.lines if as_object(line).get("id") == id] == []
