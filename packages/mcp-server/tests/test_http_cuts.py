"""Connections that break at every point: each request has one outcome, no state remains, and the next client is served."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing
from asgi_host import Client, Reply, hosted
from controlled_server import ControlledServer, text_of
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_core.framing.sse import Event
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.revisions import R2025_03_26, R2025_11_25, R2026_07_28, Revision
from mcp_server import Context, Server
from mcp_server.asgi import Message
from mcp_server.transports.http.endpoint import HttpEndpoint

HOOKED = pytest.mark.parametrize("hooked", [True, False], ids=["hooked", "plain"])


class BrokenReply(Reply):
    """A connection that breaks at the n-th call by the application."""

    def __init__(self, body: bytes, at: int, *, raises: bool) -> None:
        super().__init__([body])
        self.uses = 0
        self.at = at
        self.raises = raises

    def _use(self) -> None:
        self.uses += 1
        if self.uses == self.at:
            self.leave()

    async def receive(self) -> Message:
        self._use()
        return {"type": "http.disconnect"} if self.left.is_set() else await super().receive()

    async def send(self, message: Message) -> None:
        self._use()
        if self.left.is_set() and not self.raises:
            return
        await super().send(message)


def start(client: Client, message: object, at: int, *, raises: bool) -> BrokenReply:
    reply = BrokenReply(json.dumps(message).encode(), at, raises=raises)
    client.nursery.start_soon(client._run, reply, client._scope("POST", message, {}))  # type: ignore[arg-type]  # JSON
    return reply


def make_server() -> Server:
    """Return a server whose tool reports progress, waits, and returns."""
    server = Server("x", version="0")

    @server.tool
    async def steps(context: Context) -> str:
        """Report three steps."""
        await context.progress(1)
        await trio.sleep(1)
        await context.progress(2)
        await context.progress(3)
        return "done"

    return server


def check_no_state(app: HttpEndpoint) -> None:
    assert (app.running, len(app._modern_requests)) == (0, 0)
    for session in app._sessions:
        assert (len(session._calls), session._queue.unused) == (0, True)
        assert session.connection.inbound_requests == ()
        assert session._log is not None
        assert session._log.live == {}


@HOOKED
@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("revision", [R2025_03_26, R2025_11_25, R2026_07_28], ids=str)
async def test_connection_broken_at_every_point_leaves_no_state(
    revision: Revision, raises: bool, hooked: bool, autojump_clock: trio.testing.MockClock
) -> None:
    app = make_server().asgi(policy=EndpointPolicy(keep_alive=0.3, stream_after=0.2))
    async with hosted(app, revision, hooked=hooked) as client:
        if revision is not R2026_07_28:
            await client.open()
        uses = 0
        for at in range(1, 100):
            reply = start(client, client.call("steps", token=1), at, raises=raises)
            await reply.returned.wait()
            check_no_state(app)
            if at > reply.uses:
                break
            uses += 1
        assert uses > 5
        assert text_of(await client.post(client.call("steps", token=1)).answer()) == "done"


class ResumingClient:
    """A client that loses its connections and resumes."""

    def __init__(self, client: Client, tools: ControlledServer, count: int) -> None:
        self.client = client
        self.tools = tools
        self.count = count
        self.released = 0
        self.reply: Reply = client.post(client.call("steps", name="a", token=1, count=count))
        self.messages: list[bytes] = []
        self.last: str | None = None

    def read(self) -> bool:
        """Read the next event, if there is one."""
        reply = self.reply
        while not reply._events and reply._fed < len(reply.chunks):
            reply._events += [
                each for each in reply._parser.receive_data(reply.chunks[reply._fed]) if isinstance(each, Event)
            ]
            reply._fed += 1
        if not reply._events:
            return False
        event = reply._events.pop(0)
        self.last = event.id or self.last
        if event.data:
            self.messages.append(event.data)
        return True

    async def do(self, action: str) -> None:
        if action == "let" and self.released < self.count:
            self.released += 1
            self.tools.let(f"a{self.released}")
        elif action == "read":
            self.read()
        elif action in ("break", "again") and self.last is not None:
            if action == "break":
                self.reply.leave()
                await trio.testing.wait_all_tasks_blocked()
            self.reply = self.client.get(self.last)
        await trio.testing.wait_all_tasks_blocked()

    async def finish(self) -> None:
        """Read the remaining events."""
        while self.released < self.count:
            await self.do("let")
        while self.read():
            pass
        if self.reply.status == 200 and self.reply.media == "application/json":
            self.messages.append(await self.reply.body())
        while self.reply.status != 405 and "result" not in (json.loads(self.messages[-1]) if self.messages else {}):
            await self.do("break")
            while self.read():
                pass


@given(st.integers(1, 4), st.lists(st.sampled_from(["read", "let", "break", "again"]), max_size=25))
@settings(max_examples=100, deadline=None)
def test_resuming_client_receives_each_event_once(count: int, actions: list[str]) -> None:
    async def scenario() -> None:
        tools = ControlledServer()
        async with hosted(tools.server.asgi(), R2025_11_25) as client:
            await client.open()
            resuming = ResumingClient(client, tools, count)
            await trio.testing.wait_all_tasks_blocked()
            for action in actions:
                await resuming.do(action)
            await resuming.finish()
            messages = [json.loads(data) for data in resuming.messages]
            assert [message["params"]["progress"] for message in messages[:-1]] == list(range(1, count + 1))
            assert text_of(messages[-1]) == "a"

    trio.run(scenario)
