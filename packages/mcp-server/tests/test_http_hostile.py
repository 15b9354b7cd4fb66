"""Clients that mean harm, or are broken: what they can make the server keep is bounded, and others are served."""

from __future__ import annotations

import gc
import itertools
import json
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from http_gate import text_of
from http_wires import Wire, call, connector, http, initialize, legacy, modern, note
from http_wires import request as asking

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import R2025_03_26, R2025_11_25
from mcp_server import Context, MemoryStore, Server
from mcp_server.host.embedded import HttpHost
from mcp_server.transports.http.endpoint import HttpEndpoint
from mcp_server.transports.http.subscription import Subscription

Clock = trio.testing.MockClock

PATIENCE = 10_000_000
"""Seconds of the mock clock."""

MOMENT = 0.1


class Tools:
    """What the clients can call."""

    def __init__(self, limits: Limits) -> None:
        self.server = server = Server("hostile", version="0", limits=limits)
        self.told = 0
        self.running = 0
        self.most = 0
        self.gate = trio.Event()

        @server.tool
        async def echo(text: str) -> str:
            return text

        @server.tool
        async def chatter(context: Context) -> str:
            """Has more to say than anybody reads."""
            self.running += 1
            try:
                for step in range(5_000):
                    await context.progress(step)
                    self.told += 1
                return "done"
            finally:
                self.running -= 1

        @server.tool
        async def flood() -> str:
            """Answers with 4 MB."""
            return "x" * 4_000_000

        @server.tool
        async def hold() -> str:
            """Waits."""
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                await self.gate.wait()
                return "held"
            finally:
                self.running -= 1

        @server.resource("memo://{name}")
        async def memo(name: str) -> str:
            return name


class Place:
    """A server, hostile clients and one that is not."""

    def __init__(self, tools: Tools, endpoint: HttpEndpoint, host: HttpHost, nursery: trio.Nursery) -> None:
        self.tools = tools
        self.endpoint = endpoint
        self.host = host
        self.nursery = nursery
        self._connect = connector(host, nursery)
        self._friend: Wire | None = None

    async def wire(self) -> Wire:
        return Wire(await self._connect())

    async def others_are_served(self) -> None:
        # It would be dropped if it said nothing for too long.
        if self._friend is None or self._friend.reader.headers.get("connection") == "close":
            self._friend = await self.wire()
        answer = await self._friend.ask(modern(call("echo", text="here")))
        assert text_of(answer.json()) == "here"

    async def friend_leaves(self) -> None:
        if self._friend is not None:
            await self._friend.aclose()
            self._friend = None

    async def open(self, wire: Wire) -> str:
        session = (await wire.ask(http(body=initialize(R2025_11_25)))).headers["mcp-session-id"]
        assert (await wire.ask(legacy(session, R2025_11_25, note("notifications/initialized")))).status == 202
        return session

    async def nothing_runs(self, *, within: float) -> None:
        """Within some seconds all connections have ended and nothing is left of them; others are served meanwhile."""
        with trio.fail_after(within):
            while self.endpoint.running or self.tools.running or self.host.connections:
                await self.others_are_served()
                await self.friend_leaves()
                await trio.sleep(MOMENT)
        assert not self.endpoint._modern_requests


@asynccontextmanager
async def place_of(limits: Limits | None = None, store: MemoryStore | None = None) -> AsyncIterator[Place]:
    tools = Tools(limits or Limits())
    endpoint = tools.server.asgi(legacy_sse=True, store=store)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            host = HttpHost(endpoint, limits=tools.server.limits)
            await nursery.start(host.run)
            yield Place(tools, endpoint, host, nursery)
            nursery.cancel_scope.cancel()


# --- clients that do not read ----------------------------------------------------------------------------------------


async def test_a_subscriber_that_reads_nothing_is_dropped_and_its_notices_are_few(autojump_clock: Clock) -> None:
    async with place_of() as place:
        wire = await place.wire()
        uris: list[JsonValue] = [f"memo://{number}" for number in range(100)]
        await wire.send(modern(asking("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})))
        await wire.message(1)
        for _ in range(50):
            for uri in uris:
                place.tools.server.resource_updated(str(uri))
            await place.others_are_served()
            subscriptions = [each for each in place.endpoint._modern_requests if isinstance(each, Subscription)]
            assert max(len(subscription._pending) for subscription in subscriptions) <= 100
        await place.nothing_runs(within=40)
        await wire.aclose()


async def test_a_call_waits_for_its_reader_and_ends_without_one(autojump_clock: Clock) -> None:
    async with place_of() as place:
        wire = await place.wire()
        await wire.send(modern(call("chatter", token=1)))
        await wire.message(1)
        for _ in range(10):
            await place.others_are_served()
        # What was told was written: nothing piles up.
        assert place.tools.told < 10
        await place.nothing_runs(within=40)
        assert place.tools.told < 10
        await wire.aclose()


async def test_what_a_session_never_reads_is_bounded(autojump_clock: Clock) -> None:
    limits = Limits(replay_events=50, progress_per_second=1_000_000)
    store = MemoryStore(limits=limits)
    async with place_of(limits, store) as place:
        wire = await place.wire()
        session = await place.open(wire)
        await wire.send(legacy(session, R2025_11_25, call("chatter", token=1)))
        await wire.message(1)
        await place.nothing_runs(within=40)
        # It was no cancellation, so that the handler went on; the oldest of what it said is forgotten.
        assert place.tools.told == 5_000
        (stream,) = await store.streams(session)
        assert (stream.last, stream.pending) == (5_001, ())
        kept = await store.events(session, stream.stream, 0)
        assert [event.number for event in kept] == list(range(5_001 - 49, 5_002))
        await wire.aclose()


async def test_a_large_answer_that_nobody_takes_is_dropped(autojump_clock: Clock) -> None:
    async with place_of() as place:
        wires = [await place.wire() for _ in range(5)]
        session = await place.open(wires[0])
        for wire in wires:
            await wire.send(legacy(session, R2025_11_25, call("flood", id=wires.index(wire) + 1)))
        await place.nothing_runs(within=40)
        gc.collect()
        assert not [each for each in gc.get_objects() if isinstance(each, bytes | bytearray) and len(each) > 1_000_000]
        for wire in wires:
            await wire.aclose()


async def test_old_clients_that_do_not_read_are_dropped(autojump_clock: Clock) -> None:
    async with place_of(Limits(outgoing_bytes=10_000, progress_per_second=1_000_000)) as place:
        stream = await place.wire()
        await stream.send(http("GET", "/sse"))
        await stream.until(lambda: bool(stream.reader.events))
        target = stream.reader.events[0].data.decode()
        posting = await place.wire()
        assert (await posting.ask(http("POST", target, initialize(R2025_03_26)))).status == 202
        assert (await posting.ask(http("POST", target, call("chatter", token=1)))).status == 202
        await posting.aclose()
        await place.nothing_runs(within=40)
        # What waits to be written is bounded, and then whoever wants to say more waits.
        assert 0 < place.tools.told < 200
        assert place.endpoint.sessions == 0
        await stream.aclose()


# --- clients that send slowly, or something else than they say -------------------------------------------------------


@pytest.mark.parametrize("part", ["head", "body", "chunks"])
async def test_a_hundred_clients_that_send_a_byte_a_second_are_dropped(part: str, autojump_clock: Clock) -> None:
    whole = modern(call("echo", text="a"))
    split = 0 if part == "head" else whole.index(b"\r\n\r\n") + 4
    begun, slow = whole[:split], [bytes([each]) for each in whole[split:]]
    if part == "chunks":
        begun = begun.replace(b"content-length: ", b"transfer-encoding: chunked\r\nx-not-length: ")
        slow = [b"1\r\n%c\r\n" % each for each in whole[split:]]
    statuses: list[int] = []

    async def drip(wire: Wire) -> None:
        if begun:
            await wire.send(begun)
        for each in slow:
            await trio.sleep(1)
            await wire.send(each)

    async def client(wire: Wire) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drip, wire)
            statuses.append((await wire.answer()).status)
            nursery.cancel_scope.cancel()
        await wire.aclose()

    async with place_of() as place:
        began = trio.current_time()
        async with trio.open_nursery() as clients:
            for _ in range(100):
                clients.start_soon(client, await place.wire())
            for _ in range(15):
                await trio.sleep(1)
                await place.others_are_served()
        assert statuses == [408] * 100
        assert trio.current_time() - began < 20
        await place.friend_leaves()
        await place.nothing_runs(within=5)


async def test_a_body_that_is_longer_than_was_said_is_another_request(autojump_clock: Clock) -> None:
    async with place_of() as place:
        wire = await place.wire()
        await wire.send(modern(call("echo", text="a"), content_length="20") + b"\r\n\r\n")
        first = await wire.answer()
        assert (first.status, first.json()["error"]["code"]) == (400, -32700)  # type: ignore[index, call-overload]  # it is an error
        wire.reader = first.following()
        second = await wire.answer()
        assert (second.status, second.headers["connection"]) == (400, "close")
        await wire.aclose()
        await place.others_are_served()


async def test_a_body_that_is_shorter_than_was_said_is_waited_for_not_for_ever(autojump_clock: Clock) -> None:
    async with place_of() as place:
        waiting, leaving = await place.wire(), await place.wire()
        whole = modern(call("echo", text="a"), content_length="100000")
        await leaving.send(whole)
        await leaving.aclose()
        answer = await waiting.ask(whole)
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert b"HostTimeouts.body" in answer.body
        await waiting.aclose()
        await place.nothing_runs(within=5)


async def send_for_ever(wire: Wire, pieces: Iterator[bytes]) -> int:
    """Sends until it may not; gives how much that was."""
    sent = 0
    try:
        while sent < 20_000_000:
            piece = next(pieces)
            await wire.send(piece)
            sent += len(piece)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return sent
    raise AssertionError("it takes all that comes")


@pytest.mark.parametrize(
    ("path", "status"),
    [("/mcp", 413), ("/messages", 413), ("/messages?session=x", 404), ("/sse", 405), ("/nowhere", 404)],
)
async def test_a_body_without_end_is_refused_when_it_is_too_large(
    path: str, status: int, autojump_clock: Clock
) -> None:
    limits = Limits(message_bytes=64 * 1024)
    async with place_of(limits) as place:
        wire, stream = await place.wire(), await place.wire()
        if path == "/messages":
            await stream.send(http("GET", "/sse"))
            await stream.until(lambda: bool(stream.reader.events))
            path = stream.reader.events[0].data.decode()
        head = http("POST", path, content_length=None, transfer_encoding="chunked")
        sent = 0

        async def send() -> None:
            nonlocal sent
            await wire.send(head)
            sent = await send_for_ever(wire, itertools.repeat(b"1000\r\n" + b" " * 4096 + b"\r\n"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            answer = await wire.answer()
            await wire.until(lambda: False, eof=True)
            await wire.aclose()
        assert answer.status == status
        if status == 413:
            assert b"Limits.message_bytes" in answer.body
        # Twice: what was read before it was refused, and what was dropped so that the client can see that.
        assert sent < 3 * limits.message_bytes
        await stream.aclose()
        await place.nothing_runs(within=5)


@pytest.mark.parametrize("piece", [b"x", b"x: y\r\n", b"x: " + b"y" * 1000 + b"\r\n"])
async def test_a_head_without_end_is_refused(piece: bytes, autojump_clock: Clock) -> None:
    async with place_of() as place:
        wire = await place.wire()
        sent = 0

        async def send() -> None:
            nonlocal sent
            await wire.send(b"POST /mcp HTTP/1.1\r\n")
            sent = await send_for_ever(wire, itertools.repeat(piece * (2048 // len(piece))))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            answer = await wire.answer()
            await wire.until(lambda: False, eof=True)
            await wire.aclose()
        assert answer.status == 431
        assert b"Limits.header_bytes" in answer.body
        assert sent < place.host.limits.message_bytes + 4 * place.host.limits.header_bytes
        await place.others_are_served()


# --- clients that come by the thousand -------------------------------------------------------------------------------


def ours() -> int:
    """How many objects there are that are ours, and not those of trio, of Python or of the tests."""
    gc.collect()
    # A class may have a property where others have the name of their module.
    return sum(str(type(each).__module__).startswith("mcp_") for each in gc.get_objects())


async def repeated(action: Callable[[], Awaitable[None]], times: int) -> int:
    """How many of our objects there are more, after so many times than after one."""
    await action()
    before = ours()
    for _ in range(times - 1):
        await action()
    return ours() - before


async def test_ten_thousand_sessions_that_nobody_uses_are_as_many_as_allowed(autojump_clock: Clock) -> None:
    limits = Limits(sessions=500)
    store = MemoryStore(limits=limits)
    async with place_of(limits, store) as place:
        wire = await place.wire()

        async def open_some() -> None:
            for _ in range(1_000):
                answer = await wire.ask(http(body=initialize(R2025_11_25)))
                assert answer.headers["mcp-session-id"]

        assert await repeated(open_some, 10) < 20
        assert place.endpoint.sessions == 500
        assert repr(store) == "<MemoryStore of 500 sessions>"
        await place.others_are_served()
        # They go when their time is over and somebody else comes.
        await trio.sleep(2 * 3_600)
        (session,) = [await place.open(await place.wire())]
        assert place.endpoint.sessions == 1
        assert await store.load(session) is not None
        assert repr(store) == "<MemoryStore of 1 sessions>"
        await wire.aclose()


async def test_sessions_in_which_requests_run_make_no_room(autojump_clock: Clock) -> None:
    async with place_of(Limits(sessions=20)) as place:
        wires = [await place.wire() for _ in range(20)]
        sessions = [await place.open(wire) for wire in wires]
        for wire, session in zip(wires, sessions, strict=True):
            await wire.send(legacy(session, R2025_11_25, call("hold")))
        await trio.testing.wait_all_tasks_blocked()
        late = await place.wire()
        for _ in range(50):
            refused = await late.ask(http(body=initialize(R2025_11_25)))
            assert (refused.status, refused.headers["retry-after"]) == (503, "5")
            assert b"Limits.sessions" in refused.body
        assert place.endpoint.sessions == 20
        await place.others_are_served()
        place.tools.gate.set()
        for wire in wires:
            assert text_of((await wire.answer()).json()) == "held"
        assert (await late.ask(http(body=initialize(R2025_11_25)))).status == 200
        for wire in (late, *wires):
            await wire.aclose()


async def test_ten_thousand_subscriptions_that_are_abandoned_leave_nothing(autojump_clock: Clock) -> None:
    async with place_of() as place:
        listen = modern(asking("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))

        async def wave() -> None:
            streams = [(await place.wire()).stream for _ in range(500)]
            for stream in streams:
                await stream.send_all(listen)
            for stream in streams:
                assert b"notifications/subscriptions/acknowledged" in await stream.receive_some()
            assert len(place.endpoint._modern_requests) == 500
            for stream in streams:
                await stream.aclose()
            await place.nothing_runs(within=5)

        tasks = trio.lowlevel.current_statistics().tasks_living
        assert await repeated(wave, 20) < 20
        assert trio.lowlevel.current_statistics().tasks_living == tasks


async def test_old_streams_that_are_abandoned_leave_nothing(autojump_clock: Clock) -> None:
    async with place_of(Limits(sessions=50)) as place:

        async def wave() -> None:
            wires = [await place.wire() for _ in range(60)]
            statuses = []
            for wire in wires:
                await wire.send(http("GET", "/sse"))
                await wire.until(lambda: bool(wire.reader.events) or wire.reader.complete)  # noqa: B023  # called at once
                statuses.append(wire.reader.status)
            assert statuses == [200] * 50 + [503] * 10
            assert place.endpoint.sessions == 50
            await place.others_are_served()
            for wire in wires:
                await wire.aclose()
            await place.nothing_runs(within=5)
            assert place.endpoint.sessions == 0

        assert await repeated(wave, 10) < 20


def refusals(number: int) -> Iterator[tuple[int, bytes]]:
    """Requests that are refused, different each time."""
    odd = f"x{number}"
    message = modern(call("echo", text="a"))
    yield 403, modern(call("echo", text="a"), host=f"{odd}.example")
    yield 403, modern(call("echo", text="a"), origin=f"https://{odd}.example")
    yield 415, modern(call("echo", text="a"), content_type=f"text/{odd}")
    yield 406, modern(call("echo", text="a"), accept=f"text/{odd}")
    yield 400, modern(call("echo", text="a"), mcp_name=odd)
    yield 400, modern(call("echo", text="a"), mcp_protocol_version=odd)
    yield 404, modern(asking(f"{odd}/method"))
    yield 404, legacy(odd, R2025_11_25, call("echo", text="a"))
    yield 404, http("GET", mcp_session_id=odd, last_event_id=odd)
    yield 404, http("DELETE", mcp_session_id=odd)
    yield 400, http(body=f"{{{odd}".encode())
    yield 404, http("POST", f"/messages?session={odd}", asking("ping"))
    yield 404, http("GET", f"/{odd}")
    yield 400, http(body=asking("initialize", {"protocolVersion": odd}), mcp_session_id=None, mcp_protocol_version=odd)
    yield 405, http("PUT", x=odd, content_length="0")
    assert message


@pytest.mark.spec("security.no-session-authentication")
async def test_refusals_by_the_thousand_cost_nothing(autojump_clock: Clock) -> None:
    async with place_of() as place:
        wire = await place.wire()

        async def refused(numbers: range) -> int:
            """Gives the memory that is in use then."""
            for number in numbers:
                for status, data in refusals(number):
                    answer = await wire.ask(data)
                    assert answer.status == status, (data, answer.body)
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        # What is remembered of headers is bounded, and full then.
        await refused(range(300))
        tracemalloc.start()
        try:
            before = await refused(range(300, 301))
            # Some takes the place of what was not counted, a few dozen bytes for each request.
            assert await refused(range(301, 401)) - before < 1_500 * 100
        finally:
            tracemalloc.stop()
        assert place.endpoint.sessions == 0
        assert place.tools.told == place.tools.running == 0
        await place.others_are_served()
        await wire.aclose()


async def test_no_more_of_a_batch_runs_than_of_single_requests(autojump_clock: Clock) -> None:
    limits = Limits(running_requests=4, batch_members=20)
    async with place_of(limits) as place:
        wire = await place.wire()
        session = (await wire.ask(http(body=initialize(R2025_03_26)))).headers["mcp-session-id"]
        members: list[JsonObject] = [call("hold", id=number) for number in range(1, 22)]
        too_many = await wire.ask(legacy(session, R2025_03_26, list(members)))
        assert too_many.status == 400
        assert b"Limits.batch_members" in too_many.body
        await wire.send(legacy(session, R2025_03_26, list(members[:20])))
        await place.others_are_served()
        assert place.tools.running == 4
        place.tools.gate.set()
        answers = json.loads((await wire.answer()).body)
        assert [text_of(each) for each in answers] == ["held"] * 20
        assert place.tools.most == 4
        await wire.aclose()
