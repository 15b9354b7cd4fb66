"""The memory budget over HTTP: what each route charges, who is refused, and that all of it is given back."""

from __future__ import annotations

import gc
import itertools
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing
from http_gate import Gate, text_of
from http_wires import Wire, call, http, initialize, legacy, modern, note
from http_wires import request as asking

from mcp_core.http.messages import HttpRequest
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.limits.memory_budget import MemoryBudget
from mcp_core.revisions import R2025_03_26, R2025_11_25
from mcp_core.types import CallToolRequestParams
from mcp_server import MemoryStore, SessionRecord, StoredEvent
from mcp_server.host.embedded import HttpHost
from mcp_server.host.timeouts import HostTimeouts
from mcp_server.transports.http.endpoint import HttpEndpoint
from mcp_server.transports.http.subscription import Subscription

Clock = trio.testing.MockClock

MIB = 1024 * 1024
TOTAL = 64 * MIB
PATIENCE = 100_000
"""Seconds of the mock clock."""


@attrs.frozen
class Place:
    """A server over HTTP, whose clients each have an address."""

    gate: Gate
    endpoint: HttpEndpoint
    host: HttpHost
    nursery: trio.Nursery
    _ports: Callable[[], int]

    @property
    def budget(self) -> MemoryBudget:
        return self.endpoint.budget

    def wire(self) -> Wire:
        ours, theirs = trio.testing.memory_stream_pair()
        client = ("192.0.2.1", self._ports())
        self.nursery.start_soon(lambda: self.host.serve_stream(theirs, client=client))
        return Wire(ours)

    async def session(self, wire: Wire) -> str:
        session = (await wire.ask(http(body=initialize(R2025_11_25)))).headers["mcp-session-id"]
        assert (await wire.ask(legacy(session, R2025_11_25, note("notifications/initialized")))).status == 202
        return session

    async def friend_is_served(self) -> None:
        wire = self.wire()
        assert text_of((await wire.ask(modern(call("echo", text="here")))).json()) == "here"
        await wire.aclose()

    async def nothing_is_charged(self) -> None:
        await trio.testing.wait_all_tasks_blocked()
        assert (self.budget.used, self.budget.owners) == (0, 0)


async def by_header(request: HttpRequest) -> str | None:
    return request.headers.get("x-user")


@asynccontextmanager
async def place_of(
    limits: Limits | None = None,
    timeouts: HostTimeouts | None = None,
    identify: Callable[[HttpRequest], Awaitable[str | None]] | None = None,
) -> AsyncIterator[Place]:
    gate = Gate(limits or Limits(total_bytes=TOTAL))
    endpoint = gate.server.asgi(legacy_sse=True, authenticate=identify)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            host = HttpHost(endpoint, limits=gate.server.limits, timeouts=timeouts, budget=endpoint.budget)
            await nursery.start(host.run)
            yield Place(gate, endpoint, host, nursery, itertools.count(1_000).__next__)
            nursery.cancel_scope.cancel()


def unfinished(size: int, **headers: str) -> bytes:
    """A request whose body stops one byte short."""
    return http(body=b"x" * size, content_length=str(size + 1), **headers)


# --- request bodies --------------------------------------------------------------------------------------------------


async def test_bodies_that_stop_short_occupy_no_more_than_the_budget(autojump_clock: Clock) -> None:
    async with place_of() as place:
        wires = [place.wire() for _ in range(30)]
        for wire in wires:
            await wire.send(unfinished(4 * MIB - 100))
        await trio.testing.wait_all_tasks_blocked()
        assert 56 * MIB < place.budget.used <= TOTAL
        await place.friend_is_served()
        refused = [wire for wire in wires if await answer_so_far(wire) == 503]
        assert len(refused) == 18
        assert refused[0].reader.headers["retry-after"]
        assert b"Limits.total_bytes" in refused[0].reader.body
        for wire in wires:
            await wire.aclose()
        await place.nothing_is_charged()


async def answer_so_far(wire: Wire) -> int:
    """The status of the answer, 0 when there is none yet."""
    with trio.move_on_after(0.01):
        await wire.answer()
    return wire.reader.status


async def test_smaller_client_is_served_at_the_cost_of_the_newest_body_of_the_largest(autojump_clock: Clock) -> None:
    async with place_of() as place:
        wires = [place.wire() for _ in range(13)]
        for wire in wires:
            await wire.send(unfinished(4 * MIB - 100))
        await trio.testing.wait_all_tasks_blocked()
        honest = place.wire()
        reply = await honest.ask(modern(call("echo", text="x" * MIB)))
        assert len(text_of(reply.json())) == MIB
        statuses = [await answer_so_far(wire) for wire in wires]
        assert statuses.count(503) == 1
        for wire in (*wires, honest):
            await wire.aclose()
        await place.nothing_is_charged()


async def test_principal_over_the_budget_gets_429_and_others_are_served(autojump_clock: Clock) -> None:
    async with place_of(identify=by_header) as place:
        wires = [place.wire() for _ in range(20)]
        for wire in wires:
            await wire.send(unfinished(4 * MIB - 100, x_user="greedy"))
        await trio.testing.wait_all_tasks_blocked()
        statuses = [await answer_so_far(wire) for wire in wires]
        assert set(statuses) == {0, 429}
        assert (place.budget.owners, place.budget.used) == (1, statuses.count(0) * (4 * MIB - 100) * 5 // 4)
        await place.friend_is_served()
        for wire in wires:
            await wire.aclose()
        await place.nothing_is_charged()


BODIES: dict[str, Callable[[str], bytes]] = {
    "modern": lambda _: modern(call("echo", text="a" * 10_000)),
    "initialize": lambda _: http(body=initialize(R2025_11_25)),
    "session": lambda session: legacy(session, R2025_11_25, call("echo", text="a" * 10_000)),
    "batch": lambda session: legacy(session, R2025_03_26, b"[%b]" % b",".join([b"{}"] * 1_000)),
    "HTTP+SSE": lambda target: http("POST", target, call("echo", text="a" * 10_000)),
}


@pytest.mark.parametrize("route", BODIES)
async def test_every_route_with_a_body_is_refused_when_the_budget_is_exhausted(
    route: str, autojump_clock: Clock
) -> None:
    async with place_of() as place:
        wire, stream = place.wire(), place.wire()
        session = await place.session(wire)
        await stream.send(http("GET", "/sse"))
        await stream.until(lambda: bool(stream.reader.events))
        names = session if route != "HTTP+SSE" else stream.reader.events[0].data.decode()
        data = BODIES[route](names)
        hoard = place.budget.charge("hoard", TOTAL * 5 // 8 - place.budget.used)
        rest = [place.budget.charge(number, TOTAL // 4 // 4096) for number in range(6_144)]
        answer = await wire.ask(data)
        assert answer.status == 503, answer.body
        assert answer.headers["retry-after"]
        assert b"Limits.total_bytes" in answer.body
        for charge in (hoard, *rest):
            charge.release()
        again = await wire.ask(data)
        assert again.status in {200, 202, 400}, again.body
        for each in (wire, stream):
            await each.aclose()


async def test_client_that_holds_little_is_served_while_established_work_fills_its_share(
    autojump_clock: Clock,
) -> None:
    async with place_of(Limits(total_bytes=4 * TOTAL)) as place:
        place.budget.charge("hoard", 5 * TOTAL // 2)
        await place.friend_is_served()
        wire = place.wire()
        session = await place.session(wire)
        assert text_of((await wire.ask(legacy(session, R2025_11_25, call("echo", text="a")))).json()) == "a"
        large = await wire.ask(legacy(session, R2025_11_25, call("echo", text="a" * 100_000)))
        assert large.status == 503
        await wire.aclose()


# --- what is kept ----------------------------------------------------------------------------------------------------


async def test_call_whose_client_left_is_charged_until_it_ends(autojump_clock: Clock) -> None:
    async with place_of() as place:
        wire = place.wire()
        session = await place.session(wire)
        idle = place.budget.held_by(("session", session))
        await wire.send(legacy(session, R2025_11_25, call("hold", name="a" * 1_000_000)))
        await trio.testing.wait_all_tasks_blocked()
        await wire.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert place.gate.running
        assert place.budget.held_by(("session", session)) > idle + 2_000_000
        place.gate.gate("a" * 1_000_000).set()
        await trio.testing.wait_all_tasks_blocked()
        # What is left is the answer, in the log.
        assert place.budget.held_by(("session", session)) < idle + 1_100_000
        closing = place.wire()
        assert (await closing.ask(legacy(session, R2025_11_25, method="DELETE"))).status == 200
        await closing.aclose()
        await place.nothing_is_charged()


async def test_call_whose_client_left_is_ended_by_an_error_when_others_need_its_memory(autojump_clock: Clock) -> None:
    async with place_of() as place:
        wire = place.wire()
        session = await place.session(wire)
        name = "a" * 3_000_000
        headers = {"accept": "text/event-stream"}
        await wire.send(legacy(session, R2025_11_25, call("hold", id=7, name=name), **headers))
        await wire.until(lambda: bool(wire.reader.events))
        event = wire.reader.events[0].id
        await wire.aclose()
        await trio.sleep(1)
        assert place.gate.running == [name]
        hoard = [place.budget.charge(number, 3 * MIB) for number in range(9)]
        bodies = [place.budget.droppable(f"body {number}") for number in range(10)]
        for body in bodies[:9]:
            body.resize(3 * MIB)
        assert place.gate.running == [name]
        bodies[9].resize(2 * MIB)
        await trio.testing.wait_all_tasks_blocked()
        assert place.gate.cancelled == [name]
        for charge in (*hoard, *bodies):
            charge.release()
        back = place.wire()
        await back.send(legacy(session, R2025_11_25, method="GET", last_event_id=event or ""))
        await back.until(lambda: any(each.data for each in back.reader.events))
        answer = json.loads(next(each.data for each in back.reader.events if each.data))
        assert (answer["id"], answer["error"]["code"]) == (7, -32603)
        assert "Limits.total_bytes" in answer["error"]["message"]
        await back.aclose()


def dense(size: int) -> JsonValue:
    return [[{} for _ in range(50_000)] for _ in range(size // 150_000)]


async def test_initialize_with_large_capabilities_is_refused_and_nothing_is_kept(autojump_clock: Clock) -> None:
    async with place_of() as place:
        wire = place.wire()
        message = initialize(R2025_11_25)
        params = message["params"]
        assert isinstance(params, dict)
        params["capabilities"] = {"experimental": {"x": {"y": dense(600_000)}}}
        answer = await wire.ask(http(body=message))
        assert answer.json()["error"]["code"] == -32602  # type: ignore[index, call-overload]  # it is an error
        assert b"Limits.handshake_bytes" in answer.body
        assert place.endpoint.sessions == 0
        await wire.aclose()
        await place.nothing_is_charged()


async def test_session_keeps_the_known_part_of_initialize_only(autojump_clock: Clock) -> None:
    async with place_of(Limits(total_bytes=2 * TOTAL)) as place:
        wire = place.wire()
        message = initialize(R2025_11_25)
        params = message["params"]
        assert isinstance(params, dict)
        params["capabilities"] = {"roots": {}, "telepathy": {"a": dense(600_000)}}
        params["clientInfo"] = {"name": "a", "version": "1", "icons": [{"src": "data:," + "x" * 100_000}]}
        params["weather"] = dense(600_000)
        assert (await wire.ask(http(body=message))).status == 200
        await trio.testing.wait_all_tasks_blocked()
        assert place.budget.used < 16_000
        (session,) = place.endpoint._sessions
        assert session.connection.handshake == {
            "protocolVersion": R2025_11_25.name,
            "capabilities": {"roots": {}},
            "clientInfo": {"name": "a", "version": "1"},
        }
        await wire.aclose()


async def test_subscriptions_are_charged_and_bounded_by_length_and_number(autojump_clock: Clock) -> None:
    async with place_of(Limits(total_bytes=TOTAL, watched_resources=3)) as place:
        wire = place.wire()
        session = await place.session(wire)
        owner = "session", session
        idle = place.budget.held_by(owner)

        async def subscribe(uri: str, method: str = "resources/subscribe") -> JsonObject:
            answer = (await wire.ask(legacy(session, R2025_11_25, asking(method, {"uri": uri})))).json()
            assert isinstance(answer, dict)
            return answer

        assert (await subscribe("memo://" + "a" * 8_185)) == {"jsonrpc": "2.0", "id": 1, "result": {}}
        one = place.budget.held_by(owner) - idle
        assert one >= 4 * 8_192
        long = (await subscribe("memo://" + "a" * 8_186))["error"]
        assert isinstance(long, dict)
        assert (long["code"], "Limits.uri_chars" in str(long["message"])) == (-32602, True)
        for name in ("b", "c", "b"):
            assert "result" in await subscribe(f"memo://{name}")
        assert "Limits.watched_resources" in str(await subscribe("memo://d"))
        assert idle + one < place.budget.held_by(owner) < idle + one + 4_000
        for name in ("a" * 8_185, "b", "c", "never"):
            await subscribe(f"memo://{name}", "resources/unsubscribe")
        assert place.budget.held_by(owner) == idle
        hoard = place.budget.charge("hoard", TOTAL * 5 // 8 - place.budget.used)
        for number in range(2_048):
            place.budget.charge(number, TOTAL // 4 // 4096)
        refused = await wire.ask(
            legacy(session, R2025_11_25, asking("resources/subscribe", {"uri": "memo://" + "e" * 5_000}))
        )
        assert (refused.status, b"Limits.total_bytes" in refused.body) == (503, True)
        hoard.release()
        await wire.aclose()


async def test_events_for_replay_are_charged_to_their_session(autojump_clock: Clock) -> None:
    async with place_of() as place:
        wire = place.wire()
        session = await place.session(wire)
        idle = place.budget.held_by(("session", session))
        await wire.send(legacy(session, R2025_11_25, call("steps", name="a", token=1)))
        await wire.message(1)
        await wire.aclose()
        place.gate.gate("a1").set()
        place.gate.gate("a2").set()
        await trio.testing.wait_all_tasks_blocked()
        kept = place.budget.held_by(("session", session)) - idle
        assert 0 < kept < 4_000


async def test_replay_is_dropped_before_a_session_is_refused_memory() -> None:
    budget = MemoryBudget(1_000_000)
    store = MemoryStore(limits=Limits(), budget=budget)
    for name in ("old", "new"):
        await store.save(SessionRecord(id=name, principal=None, revision="2025-11-25", client={}, used_at=1.0))
        await store.begin(name, 1, ())
    await store.append("old", [StoredEvent(1, 1, b"x" * 300_000), StoredEvent(1, 2, b"x")])
    await store.append("new", [StoredEvent(1, 1, b"x" * 600_000)])
    assert [each.number for each in await store.events("old", 1, 0)] == [2]
    assert len(await store.events("new", 1, 0)) == 1
    await store.aclose()
    assert budget.used == 0


async def test_task_is_charged_while_it_runs_and_while_it_is_kept(autojump_clock: Clock) -> None:
    async with place_of() as place:
        release = trio.Event()

        @place.gate.server.tool(task="required")
        async def work(text: str) -> str:
            await release.wait()
            return "done"

        async with place.gate.server.running():
            wire = place.wire()
            session = await place.session(wire)
            message = call("work", text="a" * 1_000_000)
            params = message["params"]
            assert isinstance(params, dict)
            params["task"] = {"ttl": 60_000}
            assert (await wire.ask(legacy(session, R2025_11_25, message))).status == 200
            await trio.testing.wait_all_tasks_blocked()
            assert place.budget.held_by("tasks") > 4_000_000
            release.set()
            await trio.testing.wait_all_tasks_blocked()
            assert 2_000_000 < place.budget.held_by("tasks") < 4_000_000
            hoard = place.budget.charge("hoard", TOTAL * 5 // 8 - place.budget.used)
            refused = (await wire.ask(legacy(session, R2025_11_25, message))).body
            assert b"Limits.total_bytes" in refused
            hoard.release()
            await wire.aclose()


async def test_listen_stream_is_charged_as_long_as_it_is_open(autojump_clock: Clock) -> None:
    async with place_of() as place:
        wire = place.wire()
        wanted: JsonObject = {"resourceSubscriptions": [f"memo://{number}" + "x" * 5_000 for number in range(100)]}
        await wire.send(modern(asking("subscriptions/listen", {"notifications": wanted})))
        await wire.until(lambda: bool(wire.reader.events))
        assert place.budget.used > 500_000
        await wire.aclose()
        await place.nothing_is_charged()


async def test_changes_below_a_watched_resource_are_bounded_for_a_session_without_a_stream(
    autojump_clock: Clock,
) -> None:
    async with place_of(Limits(watched_resources=3)) as place:
        wire = place.wire()
        session = await place.session(wire)
        await wire.ask(legacy(session, R2025_11_25, asking("resources/subscribe", {"uri": "memo://a"})))
        for number in range(100):
            place.gate.server.resource_updated(f"memo://a/{number}")
        stream = place.wire()
        await stream.send(legacy(session, R2025_11_25, method="GET"))
        await stream.until(lambda: any(b"memo://a/2" in each.data for each in stream.reader.events))
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await stream.until(lambda: len(stream.reader.events) > 10)
        changed = [json.loads(each.data)["params"]["uri"] for each in stream.reader.events if each.data]
        assert changed == ["memo://a/0", "memo://a/1", "memo://a/2", "memo://a"]
        for each in (wire, stream):
            await each.aclose()


async def test_changes_below_a_watched_resource_are_bounded_for_a_listen_stream(autojump_clock: Clock) -> None:
    async with place_of(Limits(watched_resources=3)) as place:
        wire = place.wire()
        wanted: JsonObject = {"resourceSubscriptions": ["memo://a", "memo://b"]}
        await wire.send(modern(asking("subscriptions/listen", {"notifications": wanted})))
        await wire.until(lambda: bool(wire.reader.events))
        (subscription,) = place.endpoint._modern_requests
        assert isinstance(subscription, Subscription)
        for number in range(100):
            place.gate.server.resource_updated(f"memo://{'ab'[number % 2]}/{number}")
        assert len(subscription._pending) == 5
        await wire.until(lambda: len(wire.reader.events) == 6)
        changed = [json.loads(each.data)["params"]["uri"] for each in wire.reader.events[1:]]
        assert changed == ["memo://a/0", "memo://b/1", "memo://a/2", "memo://b", "memo://a"]
        await wire.aclose()


async def test_streams_leave_a_quarter_of_the_connections_to_requests(autojump_clock: Clock) -> None:
    async with place_of(Limits(connections=4)) as place:
        wanted: JsonObject = {"toolsListChanged": True}
        listening = modern(asking("subscriptions/listen", {"notifications": wanted}))
        wires = [place.wire() for _ in range(2)]
        for wire in wires:
            await wire.send(listening)
            await wire.until(lambda wire=wire: bool(wire.reader.events))  # type: ignore[misc]  # mypy takes the default for an argument
        old = place.wire()
        await old.send(http("GET", "/sse"))
        await old.until(lambda: bool(old.reader.events))
        last = place.wire()
        session = await place.session(last)
        for refused in (listening, http("GET", "/sse"), legacy(session, R2025_11_25, method="GET")):
            answer = await last.ask(refused)
            assert answer.status == 503, answer.body
            assert b"Limits.connections" in answer.body
        await place.friend_is_served()
        await wires[0].aclose()
        await trio.testing.wait_all_tasks_blocked()
        await last.send(listening)
        await last.until(lambda: bool(last.reader.events))


# --- the host --------------------------------------------------------------------------------------------------------


async def test_unfinished_heads_are_charged(autojump_clock: Clock) -> None:
    async with place_of() as place:
        wire = place.wire()
        await wire.send(b"GET /mcp HTTP/1.1\r\nx: " + b"y" * 30_000)
        await trio.testing.wait_all_tasks_blocked()
        assert place.budget.used > 30_000
        await wire.aclose()
        await place.nothing_is_charged()


async def test_output_that_the_largest_client_does_not_read_is_dropped(autojump_clock: Clock) -> None:
    async def large(scope: object, receive: object, send: Callable[[dict[str, object]], object]) -> None:
        await send({"type": "http.response.start", "status": 200})  # type: ignore[misc]  # ASGI says that it can be awaited
        await send({"type": "http.response.body", "body": b"x" * 700_000})  # type: ignore[misc]

    async def connect(
        host: HttpHost, nursery: trio.Nursery, port: int
    ) -> trio.testing.MemoryReceiveStream | trio.abc.Stream:
        ours, theirs = trio.testing.lockstep_stream_pair()
        nursery.start_soon(lambda: host.serve_stream(theirs, client=("192.0.2.1", port)))
        await ours.send_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.sleep(1)
        return ours

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            host = HttpHost(large, limits=Limits(total_bytes=3_000_000))
            await nursery.start(host.run)
            first = await connect(host, nursery, 1)
            assert host.budget.used > 3 * 690_000
            # The second would be no smaller than the first, so it is the one that is dropped.
            second = await connect(host, nursery, 2)
            assert await drained(second) < 700_000
            assert await drained(first) > 700_000
            await trio.testing.wait_all_tasks_blocked()
            assert host.budget.used == 0
            nursery.cancel_scope.cancel()


async def drained(stream: trio.abc.ReceiveStream) -> int:
    """How many bytes come before the end, or before nothing more comes."""
    size = 0
    try:
        with trio.move_on_after(1):
            while data := await stream.receive_some():
                size += len(data)
    except trio.BrokenResourceError:
        pass
    return size


async def test_body_that_was_sent_early_buys_no_time_for_its_last_byte(autojump_clock: Clock) -> None:
    async with place_of(timeouts=HostTimeouts(body=10, body_rate=512)) as place:
        wire = place.wire()
        began = trio.current_time()
        await wire.send(unfinished(4 * MIB - 100))
        assert (await wire.answer()).status == 408
        assert trio.current_time() - began < 15
        await wire.aclose()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on open files")
def test_limit_on_open_files_is_raised_and_bounds_the_connections() -> None:
    program = (
        "import resource\n"
        "from mcp_server.host.open_files import connections_allowed\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))\n"
        "few, many = connections_allowed(10), connections_allowed(4096)\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE), few, 100 < many < 136)\n"
    )
    done = subprocess.run(  # this interpreter
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert done.stdout.strip() == "(200, 200) 10 True"


# --- garbage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["answered", "left", "left-session", "session-ended"])
async def test_arguments_of_a_call_are_freed_without_the_garbage_collector(how: str) -> None:
    mark = f"to be freed: {how}"
    async with place_of() as place:

        async def one() -> None:
            wire = place.wire()
            session = await place.session(wire)
            if how == "answered":
                await wire.ask(modern(call("echo", text=mark)))
            else:
                message = call("hold", name=mark)
                await wire.send(modern(message) if how == "left" else legacy(session, R2025_11_25, message))
                while not place.gate.running:
                    await trio.lowlevel.checkpoint()
                # Long enough for a companion, which watches for the client to leave.
                await trio.sleep(0.2)
            await wire.aclose()
            place.gate.contexts.clear()
            if how == "session-ended":
                other = place.wire()
                assert (await other.ask(legacy(session, R2025_11_25, method="DELETE"))).status == 200
                await other.aclose()
            elif how == "left-session":
                place.gate.gate(mark).set()
            place.gate.running.clear()
            # The connection has a task, which ends in its own time.
            while place.host.connections or place.endpoint.running:
                await trio.lowlevel.checkpoint()

        await one()
        gc.collect()
        gc.disable()
        try:
            await one()
            await trio.testing.wait_all_tasks_blocked()
            calls = [each for each in gc.get_objects() if isinstance(each, CallToolRequestParams)]
            alive = [each for each in calls if mark in str(each.arguments)]
        finally:
            gc.enable()
        assert alive == []
