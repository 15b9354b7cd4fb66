"""Whatever clients and handlers do: each request gets one outcome at most, and nothing of it is left behind."""

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
from mcp_server.connection.stream_channel import Link
from mcp_server.transports.stream import serve_stream

SMALL: Final = Limits(running_requests=2, waiting_requests=2, outgoing_bytes=2_000)
Memory: TypeAlias = trio.StapledStream[trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream]
TOOLS: Final = ("echo", "wait", "large", "fail", "stubborn", "careless", "look", "look_twice", "insist")


@attrs.define
class Pending:
    """How often handlers asked the client, and how often they learned what came of it."""

    asked: int = 0
    ended: int = 0


def make_server(limits: Limits, pending: Pending | None = None) -> Server:
    """Tools that end in every way there is."""
    counted = Pending() if pending is None else pending
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
        counted.asked += 1
        try:
            return len(await context.list_roots())
        finally:
            counted.ended += 1

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
        """Takes no cancellation while it waits for the client."""
        with trio.CancelScope(shield=True):
            answer = await ask(context)
        return str(answer)

    return server


def assert_nothing_left(link: Link, connection: ServerConnection) -> None:
    """The tables of a link, its workers and its engine are empty."""
    workers = link._workers
    tables = (link._calls, link._batches, link._questions, link._notices, workers._waiting, connection._inbound.open)
    assert [len(table) for table in tables] == [0] * len(tables)
    assert len(connection._outbound.open) == 0
    assert (workers._running, workers._waiting_bytes) == (0, 0)


@attrs.define
class Step:
    """What the client does next."""

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


def _opens(id: JsonValue) -> bool:
    """Whether it is the id of an `initialize`."""
    return isinstance(id, str) and id.startswith("session ")


class Player:
    """A client that plays steps, and reads as slowly as it likes."""

    def __init__(self, raw: RawClient, slowness: float) -> None:
        self.raw = raw
        self.slowness = slowness
        self.opened = trio.Event()
        self._turn = trio.Lock()
        self.sent: Counter[JsonValue] = Counter()
        self.answered: Counter[JsonValue] = Counter()
        self.excused: set[JsonValue] = set()
        """Ids of requests that need not be answered: cancelled, used again while they might have been in use, or of a
        session that another one replaced."""
        self.session = 0
        self.sent_in: dict[JsonValue, int] = {}
        """The session in which an id was sent last."""
        self.open: Counter[tuple[JsonValue, int]] = Counter()
        """How many answers may come to an id in a session."""
        self.answered_session = 0
        """The last session whose `initialize` was answered."""

    def request(self, tool: str, id: JsonValue = None) -> JsonObject:
        message = self.raw.request("tools/call", {"name": tool, "arguments": {}}, id=id)
        self.sent[message["id"]] += 1
        self.sent_in[message["id"]] = self.session
        self.open[message["id"], self.session] += 1
        return message

    async def initialize(self) -> None:
        """Opens a session, which ends the one before."""
        self.excused |= {id for id, count in self.sent.items() if self.answered[id] < count}
        self.session += 1
        id = f"session {self.session}"
        self.sent[id] += 1
        self.sent_in[id] = self.session
        self.open[id, self.session] += 1
        params: JsonObject = {"protocolVersion": self.raw.revision.name, "capabilities": {"roots": {}}}
        params["clientInfo"] = {"name": "player", "version": "0"}
        await self.send(self.raw.request("initialize", params, id=id))
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def send(self, message: JsonValue) -> None:
        # After a cut nobody listens any more.
        with suppress(trio.ClosedResourceError, trio.BrokenResourceError):
            async with self._turn:
                await self.raw.send(message)

    async def play(self, steps: list[Step]) -> None:
        for step in steps:
            ids = sorted((id for id in self.sent if not _opens(id)), key=str)
            chosen = ids[step.chosen % len(ids)] if ids else None
            if step.kind == "batch" and self.raw.revision is R2025_03_26:
                await self.send([self.request(tool) for tool in step.tools])
            elif step.kind == "cancel" and chosen is not None:
                self.excused.add(chosen)
                await self.send(
                    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": chosen}}
                )
            elif step.kind == "initialize" and not self.raw.modern:
                # The next client of a bridge counts from the beginning as well.
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
            await self.read_on()

    async def read_on(self) -> None:
        rest = b""
        while data := await self.raw.stream.receive_some():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                await trio.sleep(self.slowness)
                value: JsonValue = json.loads(line)
                for message in value if isinstance(value, list) else [value]:
                    await self.take(as_object(message))
        assert rest == b""

    async def take(self, message: JsonObject) -> None:
        if "method" not in message:
            id = message["id"]
            if _opens(id):
                self.answered_session = self.sent_in[id]
            self.open[id, self.answered_session] -= 1
            assert self.open[id, self.answered_session] >= 0, f"{id!r} was answered in another session"
            self.answered[id] += 1
            self.opened.set()
        elif message["method"] == "roots/list":
            await self.send({"jsonrpc": "2.0", "id": message["id"], "result": {"roots": []}})


async def play(revision: Revision, steps: list[Step], slowness: float, cut_after: int | None, cut: str) -> None:
    pending = Pending()
    server = make_server(SMALL, pending)
    connection = server.connection()
    links: list[Link] = []
    ours, theirs = trio.testing.memory_stream_pair()
    # A pipe that takes nothing until it is read.
    theirs.send_stream, ours.receive_stream = trio.testing.lockstep_stream_one_way_pair()  # type: ignore[assignment]
    player = Player(RawClient(ours, revision), slowness)
    with trio.fail_after(10_000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_stream_to_its_end, server, connection, theirs, links)
            nursery.start_soon(player.read)
            if not player.raw.modern:
                await player.initialize()
                await player.opened.wait()
            if cut_after is None:
                await player.play(steps)
                # Everything can be answered, and has to be.
                await trio.sleep(1_000)
                missing = {id for id in player.sent if id not in player.excused and player.answered[id] != 1}
                assert not missing
                assert_nothing_left(links[0], connection)
                await ours.send_stream.aclose()
            else:
                with trio.move_on_after(cut_after):
                    await player.play(steps)
                if cut != "output":
                    await ours.send_stream.aclose()
                if cut != "input":
                    await ours.receive_stream.aclose()
                if cut == "output":
                    # The answer is the write that fails at the latest.
                    await player.send(player.raw.request("ping", id="last"))
    assert all(player.answered[id] <= player.sent[id] for id in player.answered)
    # Whatever ended it: what was asked of the client has one outcome, and the engine holds nothing of it.
    assert pending.asked == pending.ended
    assert connection.asked == {}
    assert len(links[0]._questions) == 0


async def serve_stream_to_its_end(
    server: Server,
    connection: ServerConnection,
    stream: Memory,
    links: list[Link],
) -> None:
    with trio.fail_after(9_000):
        await serve_stream(server._service, connection, stream, on_link=links.append)
    await stream.aclose()


@settings(max_examples=150, deadline=None)
@given(
    revision=st.sampled_from([R2025_03_26, R2025_06_18, R2026_07_28]),
    steps=STEPS,
    slowness=st.sampled_from([0.0, 0.3]),
    cut_after=st.none() | st.integers(0, 8),
    cut=st.sampled_from(["input", "output", "both"]),
)
def test_each_request_has_one_outcome_and_leaves_nothing(
    revision: Revision, steps: list[Step], slowness: float, cut_after: int | None, cut: str
) -> None:
    trio.run(play, revision, steps, slowness, cut_after, cut, clock=trio.testing.MockClock(autojump_threshold=0))


# --- one by one ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)
async def test_a_task_that_fails_while_its_call_is_cancelled_harms_nobody_else(
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


async def test_a_task_that_fails_while_the_connection_ends_does_not_fail_the_server(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = make_server(Limits())
    async with connected(server, R2025_06_18) as client:
        await client.start("tools/call", {"name": "careless", "arguments": {}})
        await trio.sleep(0.5)


async def test_an_id_that_is_used_again_before_its_answer_was_written_is_answered_twice() -> None:
    server = make_server(Limits(outgoing_bytes=10))
    links: list[Link] = []
    connection = server.connection()
    ours, theirs = trio.testing.memory_stream_pair()
    theirs.send_stream, ours.receive_stream = trio.testing.lockstep_stream_one_way_pair()  # type: ignore[assignment]
    client = RawClient(ours, R2026_07_28)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_stream_to_its_end, server, connection, theirs, links)
            call: JsonObject = {"name": "large", "arguments": {}}
            for id in (1, 2, 1):
                await client.send(client.request("tools/call", call, id=id))
                await trio.testing.wait_all_tasks_blocked()
            seen: list[JsonValue] = []
            rest = b""
            while len(seen) < 3:
                *lines, rest = (rest + await ours.receive_some()).split(b"\n")
                seen += [json.loads(line)["id"] for line in lines]
            assert sorted(str(id) for id in seen) == ["1", "1", "2"]
            await trio.testing.wait_all_tasks_blocked()
            assert_nothing_left(links[0], connection)
            nursery.cancel_scope.cancel()


async def test_a_handler_that_asks_twice_at_once_has_one_place_all_the_same() -> None:
    server = make_server(Limits(running_requests=1))
    async with connected(server, R2025_06_18) as client:
        asking = await client.start("tools/call", {"name": "look_twice", "arguments": {}})
        await client.wait_for(lambda: len(client.asked) == 2)
        # One of these takes the place of the one that asks; the other waits.
        others = [await client.start("tools/call", {"name": "look", "arguments": {}}) for _ in range(3)]
        await client.wait_for(lambda: len(client.asked) == 5)
        for question in tuple(client.asked):
            await client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
        for id in (asking, *others):
            assert "result" in await client.response(id)


async def test_places_are_counted_right_when_several_questions_were_open() -> None:
    server = make_server(Limits(running_requests=1))
    running = 0
    most = 0

    @server.tool
    async def count() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.testing.wait_all_tasks_blocked()
        running -= 1
        return "counted"

    async with connected(server, R2025_06_18) as client:
        asking = await client.start("tools/call", {"name": "look_twice", "arguments": {}})
        await client.wait_for(lambda: len(client.asked) == 2)
        counting = [await client.start("tools/call", {"name": "count", "arguments": {}}) for _ in range(5)]
        for id in counting:
            await client.response(id)
        assert most == 1
        for question in client.asked:
            await client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
        assert text_of(as_object((await client.response(asking))["result"])) == "looked"


class Undecided:
    """A value that does not say whether it is equal to another, like an array of several numbers."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("equal in what sense?")

    __hash__ = object.__hash__


async def test_a_context_that_cannot_be_compared_counts_as_changed() -> None:
    server = make_server(Limits())
    undecided: ContextVar[Undecided] = ContextVar("undecided")
    first = Undecided()
    undecided.set(first)
    seen: list[bool] = []

    @server.tool
    async def change() -> str:
        seen.append(undecided.get() is first)
        undecided.set(Undecided())
        return "changed"

    async with connected(server, R2025_06_18) as client:
        for _ in range(3):
            await client.text("change")
    assert seen == [True] * 3


async def test_ten_thousand_calls_leave_nothing() -> None:
    server = make_server(Limits(running_requests=4))
    connection = server.connection()
    links: list[Link] = []
    ours, theirs = trio.testing.memory_stream_pair()
    client = RawClient(ours, R2025_06_18)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream_to_its_end, server, connection, theirs, links)
        nursery.start_soon(client.read)
        await client.open()
        for _ in range(100):
            ids = [await client.start("tools/call", {"name": "echo", "arguments": {}}) for _ in range(100)]
            for id in ids:
                await client.response(id)
        await trio.testing.wait_all_tasks_blocked()
        assert_nothing_left(links[0], connection)
        assert len(links[0]._workers._idle) <= 16
        await ours.send_stream.aclose()


async def test_a_cancelled_call_whose_function_runs_in_a_thread_is_not_answered_and_its_thread_is_told() -> None:
    server = make_server(Limits())
    told = trio.Event()

    @server.tool
    def work() -> str:
        trio.from_thread.run_sync(begun.set)
        try:
            while True:
                trio.from_thread.check_cancelled()
                trio.from_thread.run(trio.lowlevel.checkpoint)
        finally:
            with suppress(trio.Cancelled):
                trio.from_thread.run_sync(told.set)

    begun = trio.Event()
    async with connected(server, R2025_06_18) as client:
        id = await client.start("tools/call", {"name": "work", "arguments": {}})
        await begun.wait()
        await client.notify("notifications/cancelled", {"requestId": id})
        await told.wait()
        assert await client.text("echo") == "echo"
    assert [line for line in client.lines if as_object(line).get("id") == id] == []
