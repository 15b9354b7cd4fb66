"""Exchanges over HTTP that are cut anywhere: each call has one outcome, nothing hangs, and nothing stays open."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import pytest
import trio
import trio.testing
from fake_http_server import (
    OK,
    HttpSseServer,
    ReceivedRequest,
    Reply,
    Responder,
    Step,
    legacy,
    modern,
    progress,
    serving,
    steps_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_client import Client, Deadlines, open_http
from mcp_client.transports.http.transport import HttpTransport
from mcp_core.errors import McpError, RemoteProtocolError, RequestTimeout, TransportError
from mcp_core.jsonrpc.messages import JsonObject

DEADLINES: Final = Deadlines(connect=30, probe=3, idle=40, total=100)


class CuttingReply(Reply):
    """A reply whose connection ends after a number of bytes, counted over all replies."""

    def __init__(self, reply: Reply, budget: Budget) -> None:
        super().__init__(reply._stream, reply._request)
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
    """A number of bytes before the only cut; later bytes pass."""

    remaining: int
    used: int = 0
    spent: bool = False

    def take(self, data: bytes) -> bytes:
        self.used += len(data)
        if self.spent or len(data) <= self.remaining:
            self.remaining -= len(data)
            return data
        self.spent = True
        return data[: self.remaining]


def result_of(request: ReceivedRequest) -> JsonObject:
    return {"jsonrpc": "2.0", "id": request.message["id"], "result": OK}


async def as_json(request: ReceivedRequest, reply: Reply) -> None:
    await reply.result(OK)


async def as_stream(request: ReceivedRequest, reply: Reply) -> None:
    await reply.stream()
    await reply.event(progress(request))
    await reply.event_result(OK)
    await reply.end()


class ResumableServer:
    """A legacy server whose streams can be resumed after a cut anywhere."""

    def __init__(self) -> None:
        self.calls: list[ReceivedRequest] = []

    async def call(self, request: ReceivedRequest, reply: Reply) -> None:
        self.calls.append(request)
        await reply.stream()
        await reply.event(id="0", retry=10)
        await self._rest(request, reply, 0)

    async def get(self, request: ReceivedRequest, reply: Reply) -> None:
        after = request.headers.get("last-event-id")
        if after is None:
            await reply.body(405)
            return
        await reply.stream()
        await self._rest(self.calls[-1], reply, int(after))

    async def _rest(self, call: ReceivedRequest, reply: Reply, after: int) -> None:
        if after < 1:
            await reply.event(progress(call), id="1")
        await reply.event(result_of(call), id="2")
        await reply.end()


async def changing_stream(request: ReceivedRequest, reply: Reply) -> None:
    await reply.stream()
    await reply.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, id="a")
    await reply.hang()


def resumable() -> Responder:
    server = ResumableServer()
    return legacy(server.call, get=server.get)


KINDS: dict[str, Callable[[], Responder]] = {
    "modern, JSON": lambda: modern(as_json),
    "modern, stream": lambda: modern(as_stream),
    "legacy, JSON": lambda: legacy(as_json, get=changing_stream),
    "legacy, stream": lambda: legacy(as_stream),
    "legacy, resumable": resumable,
    "2024": lambda: HttpSseServer().answer,
}


async def call(client: Client, outcomes: list[str]) -> None:
    try:
        await client.call_tool("echo", on_progress=lambda *_: None)
        outcomes.append("result")
    except (TransportError, RemoteProtocolError, RequestTimeout) as error:
        outcomes.append(type(error).__name__)


async def converse(kind: str, cut: int, outcomes: list[str]) -> Budget:
    """Open a connection, call twice, and close; the bytes of the server are cut once, after `cut`."""
    answer = KINDS[kind]()
    budget = Budget(cut)

    async def cutting(request: ReceivedRequest, reply: Reply) -> None:
        await answer(request, CuttingReply(reply, budget))

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


def run_conversation(kind: str, cut: int) -> tuple[list[str], Budget]:
    outcomes: list[str] = []
    clock = trio.testing.MockClock(autojump_threshold=0)
    budget = trio.run(converse, kind, cut, outcomes, clock=clock)
    return outcomes, budget


@pytest.mark.parametrize("kind", KINDS)
def test_exchange_uncut_returns_results(kind: str) -> None:
    outcomes, budget = run_conversation(kind, 1_000_000)
    assert outcomes == ["result", "result"]
    assert not budget.spent


@pytest.mark.parametrize("kind", KINDS)
def test_exchange_cut_anywhere_each_call_has_outcome(kind: str) -> None:
    _, whole = run_conversation(kind, 1_000_000)
    results = 0
    for cut in range(whole.used):
        outcomes, budget = run_conversation(kind, cut)
        assert budget.spent
        # Either the opening failed, or both calls ended.
        assert len(outcomes) in (1, 2), (cut, outcomes)
        results += outcomes.count("result")
    assert results > 0


# --- concurrent calls ------------------------------------------------------------------------------------------------


STEPS: Final = steps_of("json", "stream", "error", "cut", "half", "hang", "500", "lost", "progress", "junk")


async def apply_step(step: Step, request: ReceivedRequest, reply: Reply) -> None:
    await trio.sleep(step.delay)
    treatments: dict[str, Callable[[], Awaitable[None]]] = {
        "json": lambda: reply.result(OK),
        "stream": lambda: as_stream(request, reply),
        "error": lambda: reply.error(-32000, "no", 400),
        "cut": reply.cut,
        "half": lambda: reply.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"),
        "hang": reply.hang,
        "500": lambda: reply.body(500),
        "lost": lambda: reply.body(404),
        "progress": lambda: progress_then_cut(request, reply),
        "junk": lambda: reply.body(200, json.dumps({"jsonrpc": "2.0", "id": 5}).encode(), "application/json"),
    }
    await treatments[step.treatment]()


async def progress_then_cut(request: ReceivedRequest, reply: Reply) -> None:
    await reply.stream()
    await reply.event(progress(request))
    await trio.sleep(3)
    await reply.cut()


async def run_steps(era: str, steps: list[Step], close_at: float | None) -> None:
    outcomes: list[str] = []

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        await apply_step(steps[int(str(request.params["name"]))], request, reply)

    async def run_step(client: Client, number: int, step: Step) -> None:
        await trio.sleep(step.begin)
        outcome = "cancelled"
        with trio.move_on_after(step.cancel_after):
            try:
                await client.call_tool(str(number), on_progress=lambda *_: None)
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
                        nursery.start_soon(run_step, client, number, step)
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
def test_concurrent_calls_each_have_outcome(era: str, steps: list[Step], close_at: float | None) -> None:
    trio.run(run_steps, era, steps, close_at, clock=trio.testing.MockClock(autojump_threshold=0))
