"""Wherever an exchange over HTTP is cut, each call has one outcome, nothing hangs, and nothing is left behind."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from zoo import OK, Answer, Asked, OldServer, Reply, Step, legacy, modern, progress, serving, steps_of

from mcp_client import Client, Deadlines, open_http
from mcp_client.transports.http.transport import HttpTransport
from mcp_core.errors import McpError, RemoteProtocolError, RequestTimeout, TransportError
from mcp_core.jsonrpc.messages import JsonObject

DEADLINES: Final = Deadlines(connect=30, probe=3, idle=40, total=100)


class Cut(Reply):
    """A reply whose connection ends after so many bytes of all replies."""

    def __init__(self, reply: Reply, budget: Budget) -> None:
        super().__init__(reply._stream, reply._asked)
        self._inner: Final = reply
        self._budget: Final = budget

    async def raw(self, data: bytes) -> None:
        piece = self._budget.take(data)
        if self._inner.closed:
            raise trio.ClosedResourceError
        await self._stream.send_all(piece)
        if len(piece) < len(data):
            await self._inner.cut()
            raise trio.ClosedResourceError


@attrs.define
class Budget:
    """Bytes that are let through, once; what comes after the cut is not cut any more."""

    left: int
    used: int = 0
    spent: bool = False

    def take(self, data: bytes) -> bytes:
        self.used += len(data)
        if self.spent or len(data) <= self.left:
            self.left -= len(data)
            return data
        self.spent = True
        return data[: self.left]


def json_call(asked: Asked) -> JsonObject:
    return {"jsonrpc": "2.0", "id": asked.message["id"], "result": OK}


async def as_json(asked: Asked, reply: Reply) -> None:
    await reply.result(OK)


async def as_stream(asked: Asked, reply: Reply) -> None:
    await reply.stream()
    await reply.event(progress(asked))
    await reply.event_result(OK)
    await reply.end()


class Resumable:
    """A legacy server whose streams can be resumed wherever they were cut."""

    def __init__(self) -> None:
        self.calls: list[Asked] = []

    async def call(self, asked: Asked, reply: Reply) -> None:
        self.calls.append(asked)
        await reply.stream()
        await reply.event(id="0", retry=10)
        await self._rest(asked, reply, 0)

    async def get(self, asked: Asked, reply: Reply) -> None:
        after = asked.headers.get("last-event-id")
        if after is None:
            await reply.body(405)
            return
        await reply.stream()
        await self._rest(self.calls[-1], reply, int(after))

    async def _rest(self, call: Asked, reply: Reply, after: int) -> None:
        if after < 1:
            await reply.event(progress(call), id="1")
        await reply.event(json_call(call), id="2")
        await reply.end()


async def standing(asked: Asked, reply: Reply) -> None:
    await reply.stream()
    await reply.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, id="a")
    await reply.hang()


def resumable() -> Answer:
    server = Resumable()
    return legacy(server.call, get=server.get)


KINDS: dict[str, Callable[[], Answer]] = {
    "modern, JSON": lambda: modern(as_json),
    "modern, stream": lambda: modern(as_stream),
    "legacy, JSON": lambda: legacy(as_json, get=standing),
    "legacy, stream": lambda: legacy(as_stream),
    "legacy, resumable": resumable,
    "2024": lambda: OldServer().answer,
}


async def call(client: Client, outcomes: list[str]) -> None:
    try:
        await client.call_tool("echo", on_progress=lambda _: None)
        outcomes.append("result")
    except (TransportError, RemoteProtocolError, RequestTimeout) as error:
        outcomes.append(type(error).__name__)


async def converse(kind: str, cut: int, outcomes: list[str]) -> Budget:
    """Opens, calls twice, and closes; the bytes of the server end after `cut`, once."""
    answer = KINDS[kind]()
    budget = Budget(cut)

    async def cutting(asked: Asked, reply: Reply) -> None:
        await answer(asked, Cut(reply, budget))

    async with serving(cutting) as server:
        with trio.fail_after(1_000):
            try:
                async with open_http(server.url, deadlines=DEADLINES) as client:
                    link = client._channel
                    await call(client, outcomes)
                    await call(client, outcomes)
                    assert not link._calls
                    assert not link.connection.outbound_requests
                    assert not link._inbound_requests._running
                assert isinstance(link.transport, HttpTransport)
                assert link.transport._posting == 0
                assert len(link.nursery.child_tasks) == 0
            except McpError as error:
                outcomes.append(type(error).__name__)
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0
    return budget


def play(kind: str, cut: int) -> tuple[list[str], Budget]:
    outcomes: list[str] = []
    clock = trio.testing.MockClock(autojump_threshold=0)
    budget = trio.run(converse, kind, cut, outcomes, clock=clock)
    return outcomes, budget


@pytest.mark.parametrize("kind", KINDS)
def test_an_exchange_that_is_not_cut_brings_its_answers(kind: str) -> None:
    outcomes, budget = play(kind, 1_000_000)
    assert outcomes == ["result", "result"]
    assert not budget.spent


@pytest.mark.parametrize("kind", KINDS)
def test_wherever_the_connection_is_cut_each_call_has_one_outcome(kind: str) -> None:
    _, whole = play(kind, 1_000_000)
    results = 0
    for cut in range(whole.used):
        outcomes, budget = play(kind, cut)
        assert budget.spent
        # Either it could not be opened, or both calls ended.
        assert len(outcomes) in (1, 2), (cut, outcomes)
        results += outcomes.count("result")
    assert results > 0


# --- everything at once ----------------------------------------------------------------------------------------------


STEPS: Final = steps_of("json", "stream", "error", "cut", "half", "hang", "500", "lost", "progress", "junk")


async def treat(step: Step, asked: Asked, reply: Reply) -> None:
    await trio.sleep(step.delay)
    treatments: dict[str, Callable[[], Awaitable[None]]] = {
        "json": lambda: reply.result(OK),
        "stream": lambda: as_stream(asked, reply),
        "error": lambda: reply.error(-32000, "no", 400),
        "cut": reply.cut,
        "half": lambda: reply.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"),
        "hang": reply.hang,
        "500": lambda: reply.body(500),
        "lost": lambda: reply.body(404),
        "progress": lambda: slowly(asked, reply),
        "junk": lambda: reply.body(200, json.dumps({"jsonrpc": "2.0", "id": 5}).encode(), "application/json"),
    }
    await treatments[step.treatment]()


async def slowly(asked: Asked, reply: Reply) -> None:
    await reply.stream()
    await reply.event(progress(asked))
    await trio.sleep(3)
    await reply.cut()


async def crowd(era: str, steps: list[Step], close_at: float | None) -> None:
    outcomes: list[str] = []

    async def calls(asked: Asked, reply: Reply) -> None:
        await treat(steps[int(str(asked.params["name"]))], asked, reply)

    async def one(client: Client, number: int, step: Step) -> None:
        await trio.sleep(step.begin)
        outcome = "cancelled"
        with trio.move_on_after(step.cancel_after):
            try:
                await client.call_tool(str(number), on_progress=lambda _: None)
                outcome = "result"
            except McpError as error:
                outcome = type(error).__name__
        outcomes.append(outcome)

    deadlines = Deadlines(idle=5, total=8)
    answer = modern(calls) if era == "modern" else legacy(calls)
    with trio.fail_after(1_000):
        async with serving(answer) as server:
            async with open_http(server.url, deadlines=deadlines) as client:
                link = client._channel
                async with trio.open_nursery() as nursery:
                    for number, step in enumerate(steps):
                        nursery.start_soon(one, client, number, step)
                    if close_at is not None:
                        await trio.sleep(close_at)
                        await client.aclose()
                await trio.sleep(20)
                assert not link._calls
                assert not link.connection.outbound_requests
            await trio.testing.wait_all_tasks_blocked()
            assert server.open == 0
    assert len(outcomes) == len(steps)


@settings(max_examples=60, deadline=None)
@given(era=st.sampled_from(["modern", "legacy"]), steps=STEPS, close_at=st.sampled_from([None, None, 0.5, 2.0, 6.5]))
def test_each_of_many_calls_has_one_outcome(era: str, steps: list[Step], close_at: float | None) -> None:
    trio.run(crowd, era, steps, close_at, clock=trio.testing.MockClock(autojump_threshold=0))
