"""A client over HTTP that is cancelled or closed at any step leaves nothing behind, and other calls work.

A step is one run of a task from one checkpoint to the next. Each scenario is repeated with the interruption one step later,
until it ends undisturbed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import pytest
import trio
import trio.testing
from fake_http_server import OK, HttpSseServer, ReceivedRequest, Reply, Responder, Server, legacy, modern, serving
from trio.abc import Instrument

from mcp_client import Client, Deadlines, open_http
from mcp_client.transports.http.transport import HttpTransport
from mcp_core.errors import ConnectionEnded
from mcp_core.jsonrpc.messages import JsonObject

DEADLINES: Final = Deadlines(connect=30, probe=3, idle=40, total=100)
SUBSCRIBE: Final[JsonObject] = {"resources": {"subscribe": True}, "tools": {"listChanged": True}}


class Interruption(Instrument):
    """An instrument that acts before a task takes its nth step."""

    def __init__(self, step: int) -> None:
        self._remaining = step
        self._task: trio.lowlevel.Task | None = None
        self._act: Callable[[], None] = lambda: None
        self.done = False

    def watch(self, act: Callable[[], None]) -> None:
        """Count the steps of this task from now on."""
        self._task, self._act = trio.lowlevel.current_task(), act

    def stop(self) -> None:
        """Stop counting."""
        self._task = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._remaining -= 1
            if self._remaining == 0:
                self._task, self.done = None, True
                self._act()


async def as_stream(request: ReceivedRequest, reply: Reply) -> None:
    await reply.stream()
    if request.rpc == "subscriptions/listen":
        listen: JsonObject = {"io.modelcontextprotocol/subscriptionId": request.message["id"]}
        granted: JsonObject = {"notifications": {"toolsListChanged": True}, "_meta": listen}
        await reply.event({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": granted})
        await reply.hang()
        return
    await reply.event_result(OK if request.rpc == "tools/call" else {})
    await reply.end()


async def as_json(request: ReceivedRequest, reply: Reply) -> None:
    await (reply.result(OK) if request.rpc == "tools/call" else as_stream(request, reply))


async def silent_or_resumed(request: ReceivedRequest, reply: Reply) -> None:
    if "last-event-id" in request.headers:
        await reply.stream()
        await reply.event({"jsonrpc": "2.0", "id": int(request.headers["last-event-id"]), "result": OK})
        await reply.end()
        return
    await reply.stream()
    await reply.hang()


async def respond_on_resumption(request: ReceivedRequest, reply: Reply) -> None:
    await reply.stream()
    await reply.event(id=str(request.message["id"]), retry=100)
    await reply.end()


def session_losing() -> Responder:
    """Return a responder that loses its session at the second call."""
    number = 1
    calls = 0

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        nonlocal number, calls
        if request.rpc == "initialize":
            await legacy(session=f"s{number}", capabilities=SUBSCRIBE)(request, reply)
            return
        if request.rpc == "tools/call":
            calls += 1
            if calls == 2:
                number = 2
        if request.headers.get("mcp-session-id") not in (None, f"s{number}"):
            await reply.body(404)
        else:
            await legacy(get=silent_or_resumed)(request, reply)

    return answer


KINDS: Final[dict[str, Callable[[], Responder]]] = {
    "modern, JSON": lambda: modern(as_json),
    "modern, stream": lambda: modern(as_stream),
    "legacy, JSON": lambda: legacy(get=silent_or_resumed, capabilities=SUBSCRIBE),
    "legacy, resumed": lambda: legacy(respond_on_resumption, get=silent_or_resumed),
    "legacy, losing": session_losing,
    "2024": lambda: HttpSseServer().answer,
}

Scenario: TypeAlias = Callable[[Server, Interruption], Awaitable[None]]


def assert_nothing_left(client: Client) -> None:
    """Check that a closed client holds no resources."""
    link = client._channel
    assert not link._calls
    assert not link.connection.outbound_requests
    assert not link._inbound_requests._running
    assert not link.nursery.child_tasks
    transport = link.transport
    assert isinstance(transport, HttpTransport)
    assert transport._posting == 0
    assert not transport._pool._open
    assert transport._pool._policy.busy == 0
    assert transport._pool._policy.waiting == 0


async def cancelled_opening(server: Server, interruption: Interruption) -> None:
    opening = open_http(server.url, deadlines=DEADLINES)
    with trio.CancelScope() as scope:
        interruption.watch(scope.cancel)
        async with opening as client:
            interruption.stop()
            await client.call_tool("a")
    if opening._channel is not None:
        assert_nothing_left(Client(opening._channel, opening._outputs))


async def cancelled_call(server: Server, interruption: Interruption) -> None:
    async with open_http(server.url, deadlines=DEADLINES) as client:
        await client.call_tool("a")
        with trio.CancelScope() as scope:
            interruption.watch(scope.cancel)
            await client.call_tool("b")
        interruption.stop()
        await client.call_tool("c")
        await client.call_tool("d")
        assert not client._channel._calls
        assert not client._channel.connection.outbound_requests
    assert_nothing_left(client)


async def cancelled_listening(server: Server, interruption: Interruption) -> None:
    async with open_http(server.url, deadlines=DEADLINES) as client:
        with trio.CancelScope() as scope:
            interruption.watch(scope.cancel)
            async with client.listen(tools=True, uris=["a:b"]):
                await trio.sleep(0.1)
        interruption.stop()
        await client.call_tool("c")
    assert_nothing_left(client)


async def cancelled_closing(server: Server, interruption: Interruption) -> None:
    async with open_http(server.url, deadlines=DEADLINES) as client:
        await client.call_tool("a")
        with trio.CancelScope() as scope:
            interruption.watch(scope.cancel)
            await client.aclose()
        interruption.stop()
        with pytest.raises(ConnectionEnded):
            await client.call_tool("b")
    assert_nothing_left(client)
    if any("mcp-session-id" in request.headers for request in server.requests):
        assert server.rpcs()[-1] == "DELETE"


async def closed_by_another(server: Server, interruption: Interruption) -> None:
    outcomes: list[str] = []
    calls = 4

    async def call_repeatedly(client: Client, watched: trio.Event | None) -> None:
        if watched is not None:
            interruption.watch(watched.set)
        for _ in range(3):
            try:
                await client.call_tool("a")
                outcomes.append("result")
            except ConnectionEnded:
                outcomes.append("ended")
                return

    async def close(client: Client, now: trio.Event) -> None:
        await now.wait()
        await client.aclose()
        outcomes.append("closed")

    async with open_http(server.url, deadlines=DEADLINES) as client:
        now = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(close, client, now)
            async with trio.open_nursery() as callers:
                for number in range(calls):
                    callers.start_soon(call_repeatedly, client, now if number == 0 else None)
            now.set()
    interruption.stop()
    assert outcomes.count("closed") == 1
    assert outcomes.count("ended") <= calls
    assert_nothing_left(client)


SCENARIOS: Final[dict[str, Scenario]] = {
    "opening is cancelled": cancelled_opening,
    "a call is cancelled": cancelled_call,
    "listening is cancelled": cancelled_listening,
    "closing is cancelled": cancelled_closing,
    "another task closes": closed_by_another,
}


async def run_scenario(kind: str, scenario: Scenario, interruption: Interruption) -> None:
    with trio.fail_after(1_000):
        async with serving(KINDS[kind]()) as server:
            await scenario(server, interruption)
            await trio.testing.wait_all_tasks_blocked()
            assert server.open == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_interruption_at_any_step_leaves_nothing_behind(scenario: str, kind: str) -> None:
    for step in range(1, 200):
        interruption = Interruption(step)
        clock = trio.testing.MockClock(autojump_threshold=0)
        try:
            trio.run(run_scenario, kind, SCENARIOS[scenario], interruption, clock=clock, instruments=[interruption])
        except BaseException as failure:
            failure.add_note(f"interrupted at step {step}")
            raise
        if not interruption.done:
            assert step > 1
            return
    raise AssertionError("the scenario took more than 199 steps")
