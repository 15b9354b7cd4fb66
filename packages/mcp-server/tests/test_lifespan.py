"""The life of a server: `lifespan`, `running`, and what handlers get of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from mcp_client import Client, open_http
from mcp_client.testing import open_in_memory
from mcp_core.errors import LocalProtocolError, McpError
from mcp_core.types import TextContent
from mcp_server import Context, NotRunning, RegistrationError, Server, serve_http, serve_stream
from mcp_server.asgi import Message


@attrs.frozen
class State:
    """What lives as long as the server."""

    events: list[str]


def counting(events: list[str]) -> Server:
    """A server whose life is written down."""

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[State]:
        events.append(f"begin {server.info.name}")
        try:
            yield State(events)
        finally:
            events.append("end")

    server = Server("living", version="1", lifespan=lifespan)

    @server.tool
    async def note(text: str, context: Context) -> str:
        context.state(State).events.append(text)
        return "noted"

    return server


async def test_it_begins_before_the_first_request_and_ends_after_the_last() -> None:
    events: list[str] = []
    server = counting(events)
    async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
        await client.call_tool("note", {"text": "used"})
    assert events == ["begin living", "used", "end"]


async def test_each_serving_has_a_life_unless_one_is_around_them() -> None:
    events: list[str] = []
    server = counting(events)
    for _ in range(2):
        async with open_in_memory(lambda stream: serve_stream(server, stream)):
            pass
    assert events == ["begin living", "end"] * 2
    events.clear()
    async with server.running():
        for _ in range(2):
            async with open_in_memory(lambda stream: serve_stream(server, stream)):
                pass
    assert events == ["begin living", "end"]


async def test_the_first_waits_for_those_that_joined() -> None:
    events: list[str] = []
    server = counting(events)
    joined, left = trio.Event(), trio.Event()

    async def first(task_status: trio.TaskStatus[None]) -> None:
        async with server.running():
            task_status.started()
            await joined.wait()
        left.set()

    async with trio.open_nursery() as nursery:
        await nursery.start(first)
        async with server.running():
            joined.set()
            await trio.testing.wait_all_tasks_blocked()
            assert events == ["begin living"]
        await left.wait()
    assert events == ["begin living", "end"]


async def test_http_has_one_life_for_all_its_clients() -> None:
    events: list[str] = []
    server = counting(events)
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(lambda task_status: serve_http(server, "127.0.0.1:0", task_status=task_status))
        for text in ("one", "two"):
            async with open_http(url) as client:
                await client.call_tool("note", {"text": text})
        nursery.cancel_scope.cancel()
    assert events == ["begin living", "one", "two", "end"]


async def test_what_it_raises_comes_out_as_it_is() -> None:
    reachable = False

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[None]:
        if not reachable:
            raise OSError("no database")
        yield

    server = Server("dead", version="1", lifespan=lifespan)
    with pytest.raises(OSError, match="no database"):
        await serve_http(server, "127.0.0.1:0")


async def test_a_mounted_endpoint_refuses_until_the_server_runs() -> None:
    server = counting([])
    endpoint = server.asgi()
    sent: list[Message] = []

    async def send(message: Message) -> None:
        await trio.lowlevel.checkpoint()
        sent.append(message)

    async def receive() -> Message:
        await trio.lowlevel.checkpoint()
        return {"type": "http.request", "body": b"{}", "more_body": False}

    scope: dict[str, object] = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }
    await endpoint(scope, receive, send)
    async with server.running():
        await endpoint(scope, receive, send)
    assert [message["status"] for message in sent if "status" in message] == [503, 400]


async def _live(server: Server, sent: list[Message]) -> None:
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def send(message: Message) -> None:
        await trio.lowlevel.checkpoint()
        sent.append(message)

    async def receive() -> Message:
        await trio.lowlevel.checkpoint()
        return dict(next(messages))

    await server.asgi()({"type": "lifespan"}, receive, send)


async def test_the_life_of_the_host_is_the_life_of_the_server() -> None:
    events: list[str] = []
    sent: list[Message] = []
    await _live(counting(events), sent)
    assert [message["type"] for message in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert events == ["begin living", "end"]


@pytest.mark.parametrize("phase", ["startup", "shutdown"])
async def test_a_host_is_told_that_it_failed_and_not_why(phase: str, caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[None]:
        if phase == "startup":
            raise OSError("password is hunter2")
        yield
        raise OSError("password is hunter2")

    sent: list[Message] = []
    await _live(Server("dead", version="1", lifespan=lifespan), sent)
    assert sent[-1] == {"type": f"lifespan.{phase}.failed", "message": "see the log of the server for the cause"}
    assert "hunter2" in caplog.text


async def test_the_state_has_the_class_that_is_asked_for() -> None:
    outcomes: list[McpError] = []
    server = Server("stateless", version="1")

    @server.tool
    async def look(context: Context) -> str:
        with pytest.raises(LocalProtocolError) as caught:
            context.state(State)
        outcomes.append(caught.value)
        return "looked"

    async def call(client: Client) -> None:
        result = await client.call_tool("look")
        assert result.content == (TextContent(text="looked"),)

    async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
        await call(client)
    assert "is not a State, but nothing: it has no lifespan" in outcomes[0].message


def test_nothing_works_in_the_background_of_a_server_that_is_not_running() -> None:
    with pytest.raises(NotRunning, match=r"'living' is not running: serve it with .* `async with server.running\(\):`"):
        counting([])._service.life.nursery  # noqa: B018


async def test_those_who_come_while_it_begins_or_ends_wait_for_that(autojump_clock: trio.testing.MockClock) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[None]:
        events.append("begins")
        await trio.sleep(1)
        yield
        await trio.sleep(1)
        events.append("ended")

    server = Server("slow", version="1", lifespan=lifespan)

    async def use(after: float) -> None:
        await trio.sleep(after)
        async with server.running():
            assert server._service.life.running
            events.append("used")
            await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        # The second comes while it begins, the third when it ends.
        for after in (0, 0.5, 2.5):
            nursery.start_soon(use, after)
    assert events == ["begins", "used", "used", "ended", "begins", "used", "ended"]


async def test_whoever_waited_for_a_beginning_that_failed_begins_it_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    begun: list[float] = []

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[None]:
        begun.append(trio.current_time())
        await trio.sleep(1)
        if len(begun) == 1:
            raise OSError("no database")
        yield

    server = Server("slow", version="1", lifespan=lifespan)

    async def first() -> None:
        with pytest.raises(OSError, match="no database"):
            async with server.running():
                pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        await trio.sleep(0.5)
        async with server.running():
            assert server._service.life.running
    assert len(begun) == 2


async def test_a_part_whose_life_would_not_begin_is_refused() -> None:
    events: list[str] = []
    whole, part = Server("whole", version="1"), counting(events)
    async with whole.running():
        with pytest.raises(RegistrationError, match="'living' has a `lifespan` that starts with that of 'whole'"):
            whole.mount(part)
        assert whole.capabilities.tools is None
        whole.mount(Server("plain", version="1"), prefix="plain")
        async with part.running():
            whole.mount(part, prefix="part")
            async with open_in_memory(lambda stream: serve_stream(whole, stream)) as client:
                await client.call_tool("part_note", {"text": "used"})
    assert events == ["begin living", "used", "end"]
