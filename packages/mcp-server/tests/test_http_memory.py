"""The memory budget over HTTP: charges of each route, rejections, and the release of all charges."""

from __future__ import annotations

import gc
import itertools
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing
from controlled_server import ControlledServer, text_of
from raw_connection import RawConnection, call, http, initialize, legacy, modern, notification
from raw_connection import request as rpc_request

from mcp_core.http.messages import HttpRequest
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.limits.memory_budget import MemoryBudget
from mcp_core.revisions import R2025_03_26, R2025_11_25
from mcp_core.types import CallToolRequestParams
from mcp_server.host.embedded import HttpHost
from mcp_server.host.timeouts import HostTimeouts
from mcp_server.stores import MemoryStore, SessionRecord, StoredEvent
from mcp_server.transports.http.endpoint import HttpEndpoint
from mcp_server.transports.http.subscription import Subscription

Clock = trio.testing.MockClock

MIB = 1024 * 1024
TOTAL = 64 * MIB
TIMEOUT = 100_000
"""Seconds of the mock clock for one test."""


@attrs.frozen
class MemoryTestbed:
    """A server over HTTP whose clients have an address each."""

    tools: ControlledServer
    endpoint: HttpEndpoint
    host: HttpHost
    nursery: trio.Nursery
    _ports: Callable[[], int]

    @property
    def budget(self) -> MemoryBudget:
        return self.endpoint.budget

    def connect(self) -> RawConnection:
        ours, theirs = trio.testing.memory_stream_pair()
        client = ("192.0.2.1", self._ports())
        self.nursery.start_soon(lambda: self.host.serve_stream(theirs, client=client))
        return RawConnection(ours)

    async def session(self, connection: RawConnection) -> str:
        session = (await connection.exchange(http(body=initialize(R2025_11_25)))).headers["mcp-session-id"]
        assert (
            await connection.exchange(legacy(session, R2025_11_25, notification("notifications/initialized")))
        ).status == 202
        return session

    async def check_regular_client(self) -> None:
        connection = self.connect()
        assert text_of((await connection.exchange(modern(call("echo", text="here")))).json()) == "here"
        await connection.aclose()

    async def check_no_charges(self) -> None:
        await trio.testing.wait_all_tasks_blocked()
        assert (self.budget.used, self.budget.owners) == (0, 0)


async def authenticate_by_header(request: HttpRequest) -> str | None:
    return request.headers.get("x-user")


@asynccontextmanager
async def open_testbed(
    limits: Limits | None = None,
    timeouts: HostTimeouts | None = None,
    identify: Callable[[HttpRequest], Awaitable[str | None]] | None = None,
) -> AsyncIterator[MemoryTestbed]:
    tools = ControlledServer(limits or Limits(total_bytes=TOTAL))
    endpoint = tools.server.asgi(legacy_sse=True, authenticate=identify)
    with trio.fail_after(TIMEOUT):
        async with trio.open_nursery() as nursery:
            host = HttpHost(endpoint, limits=tools.server.limits, timeouts=timeouts, budget=endpoint.budget)
            await nursery.start(host.run)
            yield MemoryTestbed(tools, endpoint, host, nursery, itertools.count(1_000).__next__)
            nursery.cancel_scope.cancel()


def unfinished_request(size: int, **headers: str) -> bytes:
    """Return a request whose body lacks one byte."""
    return http(body=b"x" * size, content_length=str(size + 1), **headers)


# --- request bodies --------------------------------------------------------------------------------------------------


async def test_unfinished_bodies_bounded_by_budget(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        connections = [testbed.connect() for _ in range(30)]
        for connection in connections:
            await connection.send(unfinished_request(4 * MIB - 100))
        await trio.testing.wait_all_tasks_blocked()
        assert 56 * MIB < testbed.budget.used <= TOTAL
        await testbed.check_regular_client()
        refused = [connection for connection in connections if await current_status(connection) == 503]
        assert len(refused) == 18
        assert refused[0].reader.headers["retry-after"]
        assert b"Limits.total_bytes" in refused[0].reader.body
        for connection in connections:
            await connection.aclose()
        await testbed.check_no_charges()


async def current_status(connection: RawConnection) -> int:
    """Return the status of the response, or 0 before it arrives."""
    with trio.move_on_after(0.01):
        await connection.answer()
    return connection.reader.status


async def test_small_client_evicts_newest_body_of_largest_client(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        connections = [testbed.connect() for _ in range(13)]
        for connection in connections:
            await connection.send(unfinished_request(4 * MIB - 100))
        await trio.testing.wait_all_tasks_blocked()
        honest = testbed.connect()
        reply = await honest.exchange(modern(call("echo", text="x" * MIB)))
        assert len(text_of(reply.json())) == MIB
        statuses = [await current_status(connection) for connection in connections]
        assert statuses.count(503) == 1
        for connection in (*connections, honest):
            await connection.aclose()
        await testbed.check_no_charges()


async def test_principal_over_budget_gets_429_and_others_are_served(autojump_clock: Clock) -> None:
    async with open_testbed(identify=authenticate_by_header) as testbed:
        connections = [testbed.connect() for _ in range(20)]
        for connection in connections:
            await connection.send(unfinished_request(4 * MIB - 100, x_user="greedy"))
        await trio.testing.wait_all_tasks_blocked()
        statuses = [await current_status(connection) for connection in connections]
        assert set(statuses) == {0, 429}
        assert (testbed.budget.owners, testbed.budget.used) == (1, statuses.count(0) * (4 * MIB - 100) * 5 // 4)
        await testbed.check_regular_client()
        for connection in connections:
            await connection.aclose()
        await testbed.check_no_charges()


BODIES: dict[str, Callable[[str], bytes]] = {
    "modern": lambda _: modern(call("echo", text="a" * 10_000)),
    "initialize": lambda _: http(body=initialize(R2025_11_25)),
    "session": lambda session: legacy(session, R2025_11_25, call("echo", text="a" * 10_000)),
    "batch": lambda session: legacy(session, R2025_03_26, b"[%b]" % b",".join([b"{}"] * 1_000)),
    "HTTP+SSE": lambda target: http("POST", target, call("echo", text="a" * 10_000)),
}


@pytest.mark.parametrize("route", BODIES)
async def test_budget_exhausted_rejects_body_on_every_route(route: str, autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        connection, stream = testbed.connect(), testbed.connect()
        session = await testbed.session(connection)
        await stream.send(http("GET", "/sse"))
        await stream.until(lambda: bool(stream.reader.events))
        names = session if route != "HTTP+SSE" else stream.reader.events[0].data.decode()
        data = BODIES[route](names)
        large_charge = testbed.budget.charge("hoard", TOTAL * 5 // 8 - testbed.budget.used)
        small_charges = [testbed.budget.charge(number, TOTAL // 4 // 4096) for number in range(6_144)]
        answer = await connection.exchange(data)
        assert answer.status == 503, answer.body
        assert answer.headers["retry-after"]
        assert b"Limits.total_bytes" in answer.body
        for charge in (large_charge, *small_charges):
            charge.release()
        again = await connection.exchange(data)
        assert again.status in {200, 202, 400}, again.body
        for each in (connection, stream):
            await each.aclose()


async def test_small_client_served_when_established_work_fills_its_share(
    autojump_clock: Clock,
) -> None:
    async with open_testbed(Limits(total_bytes=4 * TOTAL)) as testbed:
        testbed.budget.charge("hoard", 5 * TOTAL // 2)
        await testbed.check_regular_client()
        connection = testbed.connect()
        session = await testbed.session(connection)
        assert text_of((await connection.exchange(legacy(session, R2025_11_25, call("echo", text="a")))).json()) == "a"
        large = await connection.exchange(legacy(session, R2025_11_25, call("echo", text="a" * 100_000)))
        assert large.status == 503
        await connection.aclose()


# --- retained state ---------------------------------------------------------------------------------------------------


async def test_call_of_disconnected_client_charged_until_it_ends(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        connection = testbed.connect()
        session = await testbed.session(connection)
        idle = testbed.budget.held_by(("session", session))
        await connection.send(legacy(session, R2025_11_25, call("hold", name="a" * 1_000_000)))
        await trio.testing.wait_all_tasks_blocked()
        await connection.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert testbed.tools.running
        assert testbed.budget.held_by(("session", session)) > idle + 2_000_000
        testbed.tools.release_event("a" * 1_000_000).set()
        await trio.testing.wait_all_tasks_blocked()
        # Only the response in the replay log remains.
        assert testbed.budget.held_by(("session", session)) < idle + 1_100_000
        closing = testbed.connect()
        assert (await closing.exchange(legacy(session, R2025_11_25, method="DELETE"))).status == 200
        await closing.aclose()
        await testbed.check_no_charges()


async def test_call_of_disconnected_client_evicted_with_error(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        connection = testbed.connect()
        session = await testbed.session(connection)
        name = "a" * 3_000_000
        headers = {"accept": "text/event-stream"}
        await connection.send(legacy(session, R2025_11_25, call("hold", id=7, name=name), **headers))
        await connection.until(lambda: bool(connection.reader.events))
        event = connection.reader.events[0].id
        await connection.aclose()
        await trio.sleep(1)
        assert testbed.tools.running == [name]
        large_charge = [testbed.budget.charge(number, 3 * MIB) for number in range(9)]
        bodies = [testbed.budget.droppable(f"body {number}") for number in range(10)]
        for body in bodies[:9]:
            body.resize(3 * MIB)
        assert testbed.tools.running == [name]
        bodies[9].resize(2 * MIB)
        await trio.testing.wait_all_tasks_blocked()
        assert testbed.tools.cancelled == [name]
        for charge in (*large_charge, *bodies):
            charge.release()
        resumed = testbed.connect()
        await resumed.send(legacy(session, R2025_11_25, method="GET", last_event_id=event or ""))
        await resumed.until(lambda: any(each.data for each in resumed.reader.events))
        answer = json.loads(next(each.data for each in resumed.reader.events if each.data))
        assert (answer["id"], answer["error"]["code"]) == (7, -32603)
        assert "Limits.total_bytes" in answer["error"]["message"]
        await resumed.aclose()


def dense(size: int) -> JsonValue:
    return [[{} for _ in range(50_000)] for _ in range(size // 150_000)]


async def test_initialize_with_large_capabilities_rejected_without_state(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        connection = testbed.connect()
        message = initialize(R2025_11_25)
        params = message["params"]
        assert isinstance(params, dict)
        params["capabilities"] = {"experimental": {"x": {"y": dense(600_000)}}}
        answer = await connection.exchange(http(body=message))
        assert answer.json()["error"]["code"] == -32602  # type: ignore[index, call-overload]  # an error
        assert b"Limits.handshake_bytes" in answer.body
        assert testbed.endpoint.sessions == 0
        await connection.aclose()
        await testbed.check_no_charges()


async def test_session_keeps_only_known_members_of_initialize(autojump_clock: Clock) -> None:
    async with open_testbed(Limits(total_bytes=2 * TOTAL)) as testbed:
        connection = testbed.connect()
        message = initialize(R2025_11_25)
        params = message["params"]
        assert isinstance(params, dict)
        params["capabilities"] = {"roots": {}, "telepathy": {"a": dense(600_000)}}
        params["clientInfo"] = {"name": "a", "version": "1", "icons": [{"src": "data:," + "x" * 100_000}]}
        params["weather"] = dense(600_000)
        assert (await connection.exchange(http(body=message))).status == 200
        await trio.testing.wait_all_tasks_blocked()
        assert testbed.budget.used < 16_000
        (session,) = testbed.endpoint._sessions
        assert session.connection.handshake == {
            "protocolVersion": R2025_11_25.name,
            "capabilities": {"roots": {}},
            "clientInfo": {"name": "a", "version": "1"},
        }
        await connection.aclose()


async def test_subscriptions_charged_and_bounded(autojump_clock: Clock) -> None:
    async with open_testbed(Limits(total_bytes=TOTAL, watched_resources=3)) as testbed:
        connection = testbed.connect()
        session = await testbed.session(connection)
        owner = "session", session
        idle = testbed.budget.held_by(owner)

        async def subscribe(uri: str, method: str = "resources/subscribe") -> JsonObject:
            answer = (await connection.exchange(legacy(session, R2025_11_25, rpc_request(method, {"uri": uri})))).json()
            assert isinstance(answer, dict)
            return answer

        assert (await subscribe("memo://" + "a" * 8_185)) == {"jsonrpc": "2.0", "id": 1, "result": {}}
        one = testbed.budget.held_by(owner) - idle
        assert one >= 4 * 8_192
        long = (await subscribe("memo://" + "a" * 8_186))["error"]
        assert isinstance(long, dict)
        assert (long["code"], "Limits.uri_chars" in str(long["message"])) == (-32602, True)
        for name in ("b", "c", "b"):
            assert "result" in await subscribe(f"memo://{name}")
        assert "Limits.watched_resources" in str(await subscribe("memo://d"))
        assert idle + one < testbed.budget.held_by(owner) < idle + one + 4_000
        for name in ("a" * 8_185, "b", "c", "unknown"):
            await subscribe(f"memo://{name}", "resources/unsubscribe")
        assert testbed.budget.held_by(owner) == idle
        large_charge = testbed.budget.charge("hoard", TOTAL * 5 // 8 - testbed.budget.used)
        for number in range(2_048):
            testbed.budget.charge(number, TOTAL // 4 // 4096)
        refused = await connection.exchange(
            legacy(session, R2025_11_25, rpc_request("resources/subscribe", {"uri": "memo://" + "e" * 5_000}))
        )
        assert (refused.status, b"Limits.total_bytes" in refused.body) == (503, True)
        large_charge.release()
        await connection.aclose()


async def test_replay_events_charged_to_session(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        connection = testbed.connect()
        session = await testbed.session(connection)
        idle = testbed.budget.held_by(("session", session))
        await connection.send(legacy(session, R2025_11_25, call("steps", name="a", token=1)))
        await connection.message(1)
        await connection.aclose()
        testbed.tools.release_event("a1").set()
        testbed.tools.release_event("a2").set()
        await trio.testing.wait_all_tasks_blocked()
        kept = testbed.budget.held_by(("session", session)) - idle
        assert 0 < kept < 4_000


async def test_replay_events_evicted_before_memory_is_refused() -> None:
    budget = MemoryBudget(1_000_000)
    store = MemoryStore(limits=Limits(), budget=budget)
    for name in ("old", "new"):
        await store.save(SessionRecord(id=name, principal=None, revision="2025-11-25", client={}, used_at=1.0))
        await store.begin(name, (), worker="w")
    await store.append("old", [StoredEvent(2, 1, b"x" * 300_000), StoredEvent(2, 2, b"x")])
    await store.append("new", [StoredEvent(2, 1, b"x" * 600_000)])
    assert [each.number for each in await store.events("old", 2, 0)] == [2]
    assert len(await store.events("new", 2, 0)) == 1
    await store.aclose()
    assert budget.used == 0


async def test_task_charged_while_running_and_retained(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        release = trio.Event()

        @testbed.tools.server.tool(task="required")
        async def work(text: str) -> str:
            await release.wait()
            return "done"

        async with testbed.tools.server.running():
            connection = testbed.connect()
            session = await testbed.session(connection)
            message = call("work", text="a" * 1_000_000)
            params = message["params"]
            assert isinstance(params, dict)
            params["task"] = {"ttl": 60_000}
            assert (await connection.exchange(legacy(session, R2025_11_25, message))).status == 200
            await trio.testing.wait_all_tasks_blocked()
            assert testbed.budget.held_by("tasks") > 4_000_000
            release.set()
            await trio.testing.wait_all_tasks_blocked()
            assert 2_000_000 < testbed.budget.held_by("tasks") < 4_000_000
            large_charge = testbed.budget.charge("hoard", TOTAL * 5 // 8 - testbed.budget.used)
            refused = (await connection.exchange(legacy(session, R2025_11_25, message))).body
            assert b"Limits.total_bytes" in refused
            large_charge.release()
            await connection.aclose()


async def test_listen_stream_charged_while_open(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        connection = testbed.connect()
        filter_: JsonObject = {"resourceSubscriptions": [f"memo://{number}" + "x" * 5_000 for number in range(100)]}
        await connection.send(modern(rpc_request("subscriptions/listen", {"notifications": filter_})))
        await connection.until(lambda: bool(connection.reader.events))
        assert testbed.budget.used > 500_000
        await connection.aclose()
        await testbed.check_no_charges()


async def test_changes_below_subscribed_resource_bounded_for_session(
    autojump_clock: Clock,
) -> None:
    async with open_testbed(Limits(watched_resources=3)) as testbed:
        connection = testbed.connect()
        session = await testbed.session(connection)
        await connection.exchange(legacy(session, R2025_11_25, rpc_request("resources/subscribe", {"uri": "memo://a"})))
        for number in range(100):
            testbed.tools.server.resource_updated(f"memo://a/{number}")
        stream = testbed.connect()
        await stream.send(legacy(session, R2025_11_25, method="GET"))
        await stream.until(lambda: any(b"memo://a/2" in each.data for each in stream.reader.events))
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await stream.until(lambda: len(stream.reader.events) > 10)
        changed = [json.loads(each.data)["params"]["uri"] for each in stream.reader.events if each.data]
        assert changed == ["memo://a/0", "memo://a/1", "memo://a/2", "memo://a"]
        for each in (connection, stream):
            await each.aclose()


async def test_changes_below_subscribed_resource_bounded_for_listen_stream(autojump_clock: Clock) -> None:
    async with open_testbed(Limits(watched_resources=3)) as testbed:
        connection = testbed.connect()
        filter_: JsonObject = {"resourceSubscriptions": ["memo://a", "memo://b"]}
        await connection.send(modern(rpc_request("subscriptions/listen", {"notifications": filter_})))
        await connection.until(lambda: bool(connection.reader.events))
        (subscription,) = testbed.endpoint._modern_requests
        assert isinstance(subscription, Subscription)
        for number in range(100):
            testbed.tools.server.resource_updated(f"memo://{'ab'[number % 2]}/{number}")
        assert len(subscription._pending) == 5
        await connection.until(lambda: len(connection.reader.events) == 6)
        changed = [json.loads(each.data)["params"]["uri"] for each in connection.reader.events[1:]]
        assert changed == ["memo://a/0", "memo://b/1", "memo://a/2", "memo://b", "memo://a"]
        await connection.aclose()


async def test_streams_limited_to_three_quarters_of_connections(autojump_clock: Clock) -> None:
    async with open_testbed(Limits(connections=4)) as testbed:
        filter_: JsonObject = {"toolsListChanged": True}
        listening = modern(rpc_request("subscriptions/listen", {"notifications": filter_}))
        connections = [testbed.connect() for _ in range(2)]
        for connection in connections:
            await connection.send(listening)
            await connection.until(lambda connection=connection: bool(connection.reader.events))  # type: ignore[misc]  # mypy takes the default for an argument
        old = testbed.connect()
        await old.send(http("GET", "/sse"))
        await old.until(lambda: bool(old.reader.events))
        last = testbed.connect()
        session = await testbed.session(last)
        for refused in (listening, http("GET", "/sse"), legacy(session, R2025_11_25, method="GET")):
            answer = await last.exchange(refused)
            assert answer.status == 503, answer.body
            assert b"Limits.connections" in answer.body
        await testbed.check_regular_client()
        await connections[0].aclose()
        await trio.testing.wait_all_tasks_blocked()
        await last.send(listening)
        await last.until(lambda: bool(last.reader.events))


# --- the host --------------------------------------------------------------------------------------------------------


async def test_unfinished_request_heads_charged(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        connection = testbed.connect()
        await connection.send(b"GET /mcp HTTP/1.1\r\nx: " + b"y" * 30_000)
        await trio.testing.wait_all_tasks_blocked()
        assert testbed.budget.used > 30_000
        await connection.aclose()
        await testbed.check_no_charges()


async def test_unread_output_of_largest_client_dropped(autojump_clock: Clock) -> None:
    async def large(scope: object, receive: object, send: Callable[[dict[str, object]], object]) -> None:
        await send({"type": "http.response.start", "status": 200})  # type: ignore[misc]  # awaitable in ASGI
        await send({"type": "http.response.body", "body": b"x" * 700_000})  # type: ignore[misc]

    async def connect(
        host: HttpHost, nursery: trio.Nursery, port: int
    ) -> trio.testing.MemoryReceiveStream | trio.abc.Stream:
        ours, theirs = trio.testing.lockstep_stream_pair()
        nursery.start_soon(lambda: host.serve_stream(theirs, client=("192.0.2.1", port)))
        await ours.send_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.sleep(1)
        return ours

    with trio.fail_after(TIMEOUT):
        async with trio.open_nursery() as nursery:
            host = HttpHost(large, limits=Limits(total_bytes=3_000_000))
            await nursery.start(host.run)
            first = await connect(host, nursery, 1)
            assert host.budget.used > 3 * 690_000
            # The second client would not be smaller than the first, so it is dropped.
            second = await connect(host, nursery, 2)
            assert await read_all(second) < 700_000
            assert await read_all(first) > 700_000
            await trio.testing.wait_all_tasks_blocked()
            assert host.budget.used == 0
            nursery.cancel_scope.cancel()


async def test_large_body_not_copied_while_unread(autojump_clock: Clock) -> None:
    body = b"x" * 4 * MIB

    async def large(scope: object, receive: object, send: Callable[[dict[str, object]], object]) -> None:
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})  # type: ignore[misc]  # awaitable in ASGI
        await send({"type": "http.response.body", "body": body})  # type: ignore[misc]

    with trio.fail_after(TIMEOUT):
        async with trio.open_nursery() as nursery:
            host = HttpHost(large)
            await nursery.start(host.run)
            ours, theirs = trio.testing.lockstep_stream_pair()
            nursery.start_soon(host.serve_stream, theirs)
            tracemalloc.start()
            try:
                await ours.send_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
                await trio.testing.wait_all_tasks_blocked()
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert peak < MIB
            assert await read_all(ours) > len(body)
            nursery.cancel_scope.cancel()


async def read_all(stream: trio.abc.ReceiveStream) -> int:
    """Return the number of bytes before the end of the stream, or before a pause."""
    size = 0
    try:
        with trio.move_on_after(1):
            while data := await stream.receive_some():
                size += len(data)
    except trio.BrokenResourceError:
        pass
    return size


async def unread_call(testbed: MemoryTestbed, size: int) -> trio.abc.Stream:
    """Call `large`, and read nothing. Return the client's end of the stream."""
    ours, theirs = trio.testing.lockstep_stream_pair()
    client = ("192.0.2.2", testbed._ports())
    testbed.nursery.start_soon(lambda: testbed.host.serve_stream(theirs, client=client))
    await ours.send_all(modern(call("large", size=size)))
    await trio.testing.wait_all_tasks_blocked()
    return ours


def add_large(testbed: MemoryTestbed) -> None:
    """Add a tool whose result is much larger than its request."""

    @testbed.tools.server.tool
    async def large(size: int) -> str:
        return "x" * size


async def test_large_response_charged_until_read(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        add_large(testbed)
        stream = await unread_call(testbed, MIB)
        assert testbed.budget.used >= 3 * MIB
        assert await read_all(stream) > MIB
        await testbed.check_no_charges()
        await stream.aclose()


async def test_large_response_of_largest_client_rejected_with_503(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        add_large(testbed)
        unread = [await unread_call(testbed, 3 * MIB) for _ in range(7)]
        assert TOTAL * 7 // 8 < testbed.budget.used <= TOTAL
        connection = testbed.connect()
        answer = await connection.exchange(modern(call("large", id=5, size=3 * MIB)))
        assert (answer.status, bool(answer.headers["retry-after"])) == (503, True)
        error = answer.json()
        assert isinstance(error, dict)
        assert (error["id"], b"Limits.total_bytes" in answer.body) == (5, True)
        await testbed.check_regular_client()
        # A smaller client is served in place of a larger one.
        smaller = await connection.exchange(modern(call("large", size=MIB)))
        assert len(text_of(smaller.json())) == MIB
        assert testbed.budget.used < TOTAL * 7 // 8
        for stream in unread:
            await stream.aclose()
        await connection.aclose()
        await testbed.check_no_charges()


async def test_large_response_kept_if_host_cannot_drop_it(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        add_large(testbed)
        testbed.budget.drops_output = False
        for _ in range(4):
            await unread_call(testbed, 3 * MIB)
        connection = testbed.connect()
        answer = await connection.exchange(modern(call("large", size=2 * MIB)))
        assert (answer.status, bool(answer.headers["retry-after"])) == (503, True)
        await testbed.check_regular_client()
        await connection.aclose()


async def test_subscription_of_disconnected_client_writes_no_more(autojump_clock: Clock) -> None:
    async with open_testbed() as testbed:
        ours, theirs = trio.testing.lockstep_stream_pair()
        testbed.nursery.start_soon(lambda: testbed.host.serve_stream(theirs, client=("192.0.2.2", 1)))
        filter_: JsonObject = {"resourceSubscriptions": [f"memo://{number}" for number in range(1_000)]}
        await ours.send_all(modern(rpc_request("subscriptions/listen", {"notifications": filter_})))
        assert await read_all(ours) > 1_000
        (subscription,) = testbed.endpoint._modern_requests
        assert isinstance(subscription, Subscription)
        for number in range(1_000):
            testbed.tools.server.resource_updated(f"memo://{number}")
        await trio.testing.wait_all_tasks_blocked()
        waiting = len(subscription._pending)
        assert waiting > 800
        await ours.aclose()
        await testbed.check_no_charges()
        assert len(subscription._pending) >= waiting - 128


async def test_early_bytes_do_not_extend_body_timeout(autojump_clock: Clock) -> None:
    async with open_testbed(timeouts=HostTimeouts(body=10, body_rate=512)) as testbed:
        connection = testbed.connect()
        began = trio.current_time()
        await connection.send(unfinished_request(4 * MIB - 100))
        assert (await connection.answer()).status == 408
        assert trio.current_time() - began < 15
        await connection.aclose()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on open files")
def test_open_file_limit_raised_and_bounds_connections() -> None:
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


# --- garbage collection -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["answered", "left", "left-session", "session-ended"])
async def test_call_arguments_freed_without_garbage_collector(how: str) -> None:
    mark = f"to be freed: {how}"
    async with open_testbed() as testbed:

        async def one() -> None:
            connection = testbed.connect()
            session = await testbed.session(connection)
            if how == "answered":
                await connection.exchange(modern(call("echo", text=mark)))
            else:
                message = call("hold", name=mark)
                await connection.send(modern(message) if how == "left" else legacy(session, R2025_11_25, message))
                while not testbed.tools.running:
                    await trio.lowlevel.checkpoint()
                # A companion, which detects disconnects, starts meanwhile.
                await trio.sleep(0.2)
            await connection.aclose()
            testbed.tools.contexts.clear()
            if how == "session-ended":
                other = testbed.connect()
                assert (await other.exchange(legacy(session, R2025_11_25, method="DELETE"))).status == 200
                await other.aclose()
            elif how == "left-session":
                testbed.tools.release_event(mark).set()
            testbed.tools.running.clear()
            # The task of the connection ends later.
            while testbed.host.connections or testbed.endpoint.running:
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
