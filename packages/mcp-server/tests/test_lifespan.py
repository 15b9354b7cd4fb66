"""The lifespan of a server: `lifespan`, `running`, and the state that handlers get."""

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
class LifespanState:
    """The state of a lifespan."""

    events: list[str]


def make_recording_server(events: list[str]) -> Server:
    """Return a server whose lifespan is recorded."""

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[LifespanState]:
        events.append(f"begin {server.info.name}")
        try:
            yield LifespanState(events)
        finally:
            events.append("end")

    server = Server("living", version="1", lifespan=lifespan)

    @server.tool
    async def note(text: str, context: Context) -> str:
        context.state(LifespanState).events.append(text)
        return "noted"

    return server


async def test_lifespan_surrounds_requests() -> None:
    events: list[str] = []
    server = make_recording_server(events)
    async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
        await client.call_tool("note", {"text": "used"})
    assert events == ["begin living", "used", "end"]


async def test_lifespan_per_serve_call_unless_running() -> None:
    events: list[str] = []
    server = make_recording_server(events)
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


async def test_lifespan_ends_after_last_running_block() -> None:
    events: list[str] = []
    server = make_recording_server(events)
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


async def test_http_server_has_one_lifespan_for_all_clients() -> None:
    events: list[str] = []
    server = make_recording_server(events)
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(lambda task_status: serve_http(server, "127.0.0.1:0", task_status=task_status))
        for text in ("one", "two"):
            async with open_http(url) as client:
                await client.call_tool("note", {"text": text})
        nursery.cancel_scope.cancel()
    assert events == ["begin living", "one", "two", "end"]


async def test_lifespan_error_at_startup_is_raised() -> None:
    reachable = False

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[None]:
        if not reachable:
            raise OSError("no database")
        yield

    server = Server("dead", version="1", lifespan=lifespan)
    with pytest.raises(OSError, match="no database"):
        await serve_http(server, "127.0.0.1:0")


async def test_mounted_endpoint_returns_503_until_running() -> None:
    server = make_recording_server([])
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


async def _run_lifespan(server: Server, sent: list[Message]) -> None:
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def send(message: Message) -> None:
        await trio.lowlevel.checkpoint()
        sent.append(message)

    async def receive() -> Message:
        await trio.lowlevel.checkpoint()
        return dict(next(messages))

    await server.asgi()({"type": "lifespan"}, receive, send)


async def test_asgi_lifespan_runs_server_lifespan() -> None:
    events: list[str] = []
    sent: list[Message] = []
    await _run_lifespan(make_recording_server(events), sent)
    assert [message["type"] for message in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert events == ["begin living", "end"]


@pytest.mark.parametrize("phase", ["startup", "shutdown"])
async def test_asgi_lifespan_failure_hides_cause(phase: str, caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[None]:
        if phase == "startup":
            raise OSError("password is hunter2")
        yield
        raise OSError("password is hunter2")

    sent: list[Message] = []
    await _run_lifespan(Server("dead", version="1", lifespan=lifespan), sent)
    assert sent[-1] == {"type": f"lifespan.{phase}.failed", "message": "see the log of the server for the cause"}
    assert "hunter2" in caplog.text


async def test_context_state_of_wrong_class_raises() -> None:
    outcomes: list[McpError] = []
    server = Server("stateless", version="1")

    @server.tool
    async def look(context: Context) -> str:
        with pytest.raises(LocalProtocolError) as caught:
            context.state(LifespanState)
        outcomes.append(caught.value)
        return "looked"

    async def call(client: Client) -> None:
        result = await client.call_tool("look")
        assert result.content == (TextContent(text="looked"),)

    async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
        await call(client)
    assert "is not a LifespanState, but nothing: it has no lifespan" in outcomes[0].message


def test_nursery_of_server_not_running_raises() -> None:
    with pytest.raises(NotRunning, match=r"'living' is not running: serve it with .* `async with server.running\(\):`"):
        make_recording_server([])._service.life.nursery  # noqa: B018


async def test_running_waits_during_startup_and_shutdown(autojump_clock: trio.testing.MockClock) -> None:
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
        # The second starts during the startup, the third during the shutdown.
        for after in (0, 0.5, 2.5):
            nursery.start_soon(use, after)
    assert events == ["begins", "used", "used", "ended", "begins", "used", "ended"]


async def test_running_retries_startup_after_failure(
    autojump_clock: trio.testing.MockClock,
) -> None:
    starts: list[float] = []

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[None]:
        starts.append(trio.current_time())
        await trio.sleep(1)
        if len(starts) == 1:
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
    assert len(starts) == 2


async def test_mount_with_lifespan_on_running_server_raises() -> None:
    events: list[str] = []
    outer, inner = Server("whole", version="1"), make_recording_server(events)
    async with outer.running():
        with pytest.raises(RegistrationError, match="'living' has a `lifespan` that starts with that of 'whole'"):
            outer.mount(inner)
        assert outer.capabilities.tools is None
        outer.mount(Server("plain", version="1"), prefix="plain")
        async with inner.running():
            outer.mount(inner, prefix="part")
            async with open_in_memory(lambda stream: serve_stream(outer, stream)) as client:
                await client.call_tool("part_note", {"text": "used"})
    assert events == ["begin living", "used", "end"]
