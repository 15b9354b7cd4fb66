"""Streams of a session that break or are released, and their resumption."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing
from asgi_host import Client, Reply, as_object, hosted, session
from controlled_server import ControlledServer, text_of

from mcp_core.framing.sse import Event
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.limits import Limits
from mcp_core.revisions import R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, Revision
from mcp_server import Context
from mcp_server.asgi import Application
from mcp_server.stores import MemoryStore, SqliteStore

RESUMABLE = pytest.mark.parametrize("revision", [R2025_03_26, R2025_06_18, R2025_11_25], ids=str)


def progress_of(event: Event) -> object:
    return as_object(json.loads(event.data)["params"])["progress"]


async def events_of(reply: Reply, count: int) -> list[Event]:
    """Return the next events that have a message."""
    found: list[Event] = []
    while len(found) < count:
        event = await reply.event()
        if event.data:
            found.append(event)
    return found


# --- the first event --------------------------------------------------------------------------------------------------


@pytest.mark.spec("sse.priming-event", "resume.optional-event-id")
async def test_stream_begins_with_event_id() -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        first = client.post(client.call("steps", name="a", token=1))
        event = await first.event()
        assert (event.data, bool(event.id)) == (b"", True)
        standalone = client.get()
        event = await standalone.event()
        assert (event.data, bool(event.id)) == (b"", True)


@pytest.mark.parametrize("revision", [R2025_03_26, R2025_06_18], ids=str)
async def test_older_revisions_receive_no_event_without_data(revision: Revision) -> None:
    tools = ControlledServer()
    tools.let("a1", "a2")
    async with session(tools.server.asgi(), revision) as client:
        events = await client.post(client.call("steps", name="a", token=1)).rest()
        assert all(event.data and event.id for event in events)


@pytest.mark.spec("resume.event-id-unique", "resume.event-id-encodes-stream", "resume.event-id-per-stream")
async def test_event_ids_unique_in_session() -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        replies = [client.post(client.call("steps", name=name, token=name)) for name in "ab"]
        standalone = client.get()
        tools.server.remove_tool("fail")
        tools.let("a1", "a2", "b1", "b2")
        ids = [event.id for reply in replies for event in await reply.rest()]
        ids += [event.id for event in await events_of(standalone, 1)]
        assert None not in ids
        assert len(set(ids)) == len(ids) == 9


# --- resumption -------------------------------------------------------------------------------------------------------


@RESUMABLE
@pytest.mark.spec(
    "resume.replay", "resume.no-cross-stream", "resume.always-get", "sse.response-eventually", "sse.no-broadcast"
)
async def test_resumed_stream_replays_lost_events_and_continues(revision: Revision) -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi(), revision) as client:
        reply = client.post(client.call("steps", name="a", token="a", count=4))
        other = client.post(client.call("steps", name="b", token="b", count=4))
        (received,) = await events_of(reply, 1)
        tools.let("a1", "b1")
        await events_of(reply, 1)
        reply.leave()
        tools.let("a2")
        await trio.testing.wait_all_tasks_blocked()
        again = client.get(received.id)
        lost = await events_of(again, 2)
        assert [progress_of(event) for event in lost] == [2, 3]
        tools.let("a3", "a4")
        rest = await again.rest()
        assert progress_of(rest[0]) == 4
        assert text_of(json.loads(rest[1].data)) == "a"
        assert len(rest) == 2
        tools.let("b2", "b3", "b4")
        messages = [json.loads(event.data) for event in await other.rest() if event.data]
        assert [message["params"]["progressToken"] for message in messages[:-1]] == ["b"] * 4


async def test_response_replayed_after_handler_has_ended() -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        reply = client.post(client.call("steps", name="a", token=1))
        primed = await reply.event()
        await events_of(reply, 1)
        reply.leave()
        tools.let("a1", "a2")
        await reply.returned.wait()
        events: list[Event] = []
        # The stream can be resumed again if that connection breaks, too.
        for _ in range(2):
            events = await client.get(primed.id).rest()
            assert [progress_of(event) for event in events[:-1]] == [1, 2]
            assert text_of(json.loads(events[-1].data)) == "a"
        over = client.get(events[-1].id)
        assert (await over.body(), over.status)[1] == 405
        assert over.headers["allow"] == "POST, DELETE"


async def test_stream_resumed_after_each_event() -> None:
    tools = ControlledServer()
    tools.let("a1", "a2", "a3")
    async with session(tools.server.asgi()) as client:
        events = await client.post(client.call("steps", name="a", token=1, count=3)).rest()
        for index, event in enumerate(events[:-1]):
            again = await client.get(event.id).rest()
            assert [(each.id, each.data) for each in again] == [(each.id, each.data) for each in events[index + 1 :]]


async def test_resumption_closes_previous_connection() -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        reply = client.post(client.call("steps", name="a", token=1))
        primed = await reply.event()
        again = client.get(primed.id)
        assert progress_of((await events_of(again, 1))[0]) == 1
        assert [progress_of(event) for event in await reply.rest()] == [1]
        tools.let("a1", "a2")
        assert text_of(json.loads((await again.rest())[-1].data)) == "a"


async def test_resumption_replaces_blocked_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        reply = client.start("POST", client.call("steps", name="a", token=1), blocked=True)
        await tools.until_running("a")
        await trio.sleep(5)
        again = client.get("1-0")
        assert progress_of((await events_of(again, 1))[0]) == 1
        assert trio.current_time() < 30
        tools.let("a1", "a2")
        assert text_of(json.loads((await again.rest())[-1].data)) == "a"
        assert not reply.complete


@pytest.mark.parametrize("id", ["nonsense", "9-0", "1-99", "1-", "0-0", "-1-0", "99999999999999999999-1"])
async def test_unknown_event_id_returns_400(id: str) -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        reply = client.post(client.call("steps", name="a", token=1))
        await reply.event()
        refused = client.get(id)
        assert b"Last-Event-ID" in await refused.body()
        assert refused.status == 400


async def test_client_request_sent_again_after_resumption() -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        reply = client.post(client.call("look"))
        primed = await reply.event()
        reply.leave()
        await trio.testing.wait_all_tasks_blocked()
        again = client.get(primed.id)
        client_request = json.loads((await events_of(again, 1))[0].data)
        await client.post({"jsonrpc": "2.0", "id": client_request["id"], "result": {"roots": []}}).body()
        assert text_of(json.loads((await again.rest())[0].data)) == "0"


async def test_resumed_stream_has_keep_alive_comments(autojump_clock: trio.testing.MockClock) -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi(policy=EndpointPolicy(keep_alive=10))) as client:
        reply = client.post(client.call("steps", name="a", token=1))
        primed = await reply.event()
        reply.leave()
        again = client.get(primed.id)
        await trio.sleep(25)
        assert again.chunks[1:] == [b": still here\n\n"] * 2


async def test_replay_log_over_limit_disables_event_ids() -> None:
    tools = ControlledServer(Limits(replay_events=3))
    tools.let("a1", "a2")
    async with session(tools.server.asgi()) as client:
        for _ in range(5):
            reply = client.post(client.call("steps", name="a", token=1))
            await reply.event()
            reply.leave()
            await reply.returned.wait()
        # The session is still served, but events of new streams cannot be replayed.
        reply = client.post(client.call("steps", name="a", token=1))
        events = await reply.rest()
        assert [event.id for event in events] == [None] * 3


async def test_resumption_during_blocked_notification_replays_events(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        reply = client.post(client.call("steps", name="a", token=1))
        primed = await reply.event()
        await events_of(reply, 1)
        reply.reading = trio.Event()
        tools.let("a1", "a2")
        # The second notification waits for the blocked client, and the response follows it.
        await trio.sleep(5)
        again = client.get(primed.id)
        events = await again.rest()
        assert [progress_of(event) for event in events[:-1]] == [1, 2]
        assert text_of(json.loads(events[-1].data)) == "a"


async def test_resumption_during_blocked_response_replays_response(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        reply = client.post(client.call("steps", name="a", token=1, count=1))
        primed = await reply.event()
        await events_of(reply, 1)
        reply.reading = trio.Event()
        tools.let("a1")
        await trio.sleep(5)
        events = await client.get(primed.id).rest()
        assert text_of(json.loads(events[-1].data)) == "a"
        assert trio.current_time() < 10


async def test_stream_being_replaced_can_be_resumed(autojump_clock: trio.testing.MockClock) -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        first = client.get()
        primed = await first.event()
        first.reading = trio.Event()
        tools.server.remove_tool("fail")
        await trio.testing.wait_all_tasks_blocked()
        second = client.get()
        await trio.testing.wait_all_tasks_blocked()
        third = client.get(primed.id)
        assert [json.loads(event.data)["method"] for event in await third.rest()] == [
            "notifications/tools/list_changed"
        ]
        await second.event()
        tools.server.remove_tool("half")
        assert len(await events_of(second, 1)) == 1
        assert trio.current_time() < 10


async def test_delivered_events_free_replay_log() -> None:
    tools = ControlledServer(Limits(replay_events=3))
    tools.let("a1", "a2")
    async with session(tools.server.asgi()) as client:
        for resumed in (False, True) * 5:
            reply = client.post(client.call("steps", name="a", token=1))
            primed = await reply.event()
            assert primed.id is not None
            if resumed:
                reply.leave()
                await reply.returned.wait()
                reply = client.get(primed.id)
            assert text_of(json.loads((await reply.rest())[-1].data)) == "a"


async def test_resumption_broken_by_client_can_be_repeated() -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        reply = client.post(client.call("steps", name="a", token=1))
        primed = await reply.event()
        reply.leave()
        tools.let("a1", "a2")
        await reply.returned.wait()
        broken = client.get(primed.id)
        broken.leave()
        await broken.returned.wait()
        assert broken.status == 0
        assert len(await client.get(primed.id).rest()) == 3


# --- released streams -------------------------------------------------------------------------------------------------


@pytest.mark.spec("sse.server-close-connection", "sse.retry-before-close")
async def test_released_stream_resumed_by_client() -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi(policy=EndpointPolicy(retry=2.5))) as client:
        reply = client.post(client.call("release", name="a", token=1))
        events = await reply.rest()
        assert [event.retry for event in events] == [None, None, 2500]
        assert not reply.returned.is_set()
        await tools.until_running("a")
        again = client.get(events[-1].id)
        tools.let("a")
        rest = await again.rest()
        assert progress_of(rest[0]) == 2
        assert text_of(json.loads(rest[1].data)) == "a"


async def test_stream_released_before_first_event_can_be_resumed() -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        reply = client.post(client.call("release", name="a"))
        events = await reply.rest()
        assert [(event.data, event.retry) for event in events] == [(b"", None), (b"", 1000)]
        tools.let("a")
        await reply.returned.wait()
        assert text_of(json.loads((await client.get(events[0].id).rest())[0].data)) == "a"


async def test_release_of_broken_connection_has_no_effect() -> None:
    tools = ControlledServer()
    server = tools.server

    @server.tool
    async def late(context: Context) -> str:
        """Release the stream twice."""
        await context.progress(1)
        await tools.release_event("late").wait()
        await context.release_stream()
        await context.release_stream()
        return "late"

    async with session(server.asgi()) as client:
        reply = client.post(client.call("late", token=1))
        primed = await reply.event()
        await reply.message()
        reply.leave()
        await trio.testing.wait_all_tasks_blocked()
        tools.let("late")
        await reply.returned.wait()
        events = await client.get(primed.id).rest()
        assert [event.retry for event in events] == [None, None]


@pytest.mark.parametrize("revision", [R2025_03_26, R2025_06_18], ids=str)
@pytest.mark.spec("sse.not-close-before-response")
async def test_release_has_no_effect_in_older_revisions(revision: Revision) -> None:
    tools = ControlledServer()
    tools.let("a")
    async with session(tools.server.asgi(), revision) as client:
        reply = client.post(client.call("release", name="a", token=1))
        assert text_of(json.loads((await reply.rest())[-1].data)) == "a"


async def test_release_has_no_effect_on_json_response() -> None:
    tools = ControlledServer()
    tools.let("a")
    async with session(tools.server.asgi()) as client:
        reply = client.post(client.call("release", name="a", token=1), accept="application/json")
        assert text_of(await reply.json()) == "a"


# --- the standalone stream -------------------------------------------------------------------------------------------


@RESUMABLE
@pytest.mark.spec("http.get-response", "sse.get-server-messages", "sse.get-unrelated", "sse.get-no-response")
async def test_notifications_queued_for_standalone_stream_sent_once(revision: Revision) -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi(), revision) as client:
        await client.ask("resources/subscribe", {"uri": "memo://x"})
        for _ in range(3):
            tools.server.resource_updated("memo://x")
            tools.server.resource_updated("memo://y")
        tools.server.remove_tool("fail")
        standalone = client.get()
        notifications = [json.loads(event.data) for event in await events_of(standalone, 2)]
        assert [each["method"] for each in notifications] == [
            "notifications/resources/updated",
            "notifications/tools/list_changed",
        ]
        tools.server.resource_updated("memo://x")
        assert json.loads((await events_of(standalone, 1))[0].data)["params"]["uri"] == "memo://x"
        assert not standalone.complete


async def test_second_standalone_stream_replaces_first() -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        first = client.get()
        await first.event()
        second = client.get()
        await second.event()
        assert await first.rest() == []
        tools.server.remove_tool("fail")
        assert len(await events_of(second, 1)) == 1
        await first.returned.wait()


async def test_standalone_stream_resumed_replays_events() -> None:
    tools = ControlledServer()
    async with session(tools.server.asgi()) as client:
        first = client.get()
        primed = await first.event()
        tools.server.remove_tool("fail")
        (notifications,) = await events_of(first, 1)
        first.leave()
        await first.returned.wait()
        tools.server.remove_tool("half")
        again = client.get(primed.id)
        events = await events_of(again, 2)
        assert events[0] == notifications
        assert len({event.id for event in events}) == 2
        # A stream that was replaced can be resumed as well.
        newer = client.get()
        await newer.event()
        older = client.get(primed.id)
        assert (await events_of(older, 1))[0] == notifications
        tools.server.remove_tool("look")
        assert len(await events_of(older, 2)) == 2
        assert newer.complete


async def test_silent_standalone_stream_has_keep_alive_comments(autojump_clock: trio.testing.MockClock) -> None:
    async with session(ControlledServer().server.asgi(), R2025_06_18) as client:
        standalone = client.get()
        await trio.sleep(46)
        assert standalone.chunks == [b": still here\n\n"] * 4


@pytest.mark.spec("sse.get-close-any-time")
async def test_standalone_stream_ends_at_disconnect() -> None:
    app = ControlledServer().server.asgi()
    async with session(app) as client:
        standalone = client.get()
        await standalone.event()
        standalone.leave()
        await standalone.returned.wait()
        assert app.running == 0


# --- another process -------------------------------------------------------------------------------------------------


def twin(client: Client, app: Application) -> Client:
    """Return the same client, connected to another process."""
    made = Client(app, client.nursery, client.revision)
    made.session = client.session
    made._last_id = 1000
    return made


async def test_session_continues_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    tools = ControlledServer()
    store = await open_store(path)
    async with hosted(tools.server.asgi(store=store), R2025_11_25) as client:
        client.capabilities = {"roots": {}}
        await client.open()
        await client.ask("resources/subscribe", {"uri": "memo://x"})
        await client.ask("logging/setLevel", {"level": "error"})
        answered = client.post(client.call("steps", name="a", token=1))
        tools.let("a1", "a2")
        ids = [event.id for event in await answered.rest()]
        unanswered = client.post(client.call("steps", name="b", token=2, id="unanswered"))
        (received,) = await events_of(unanswered, 1)
        await store.aclose()
        old = client
        client.nursery.cancel_scope.cancel()
    second = ControlledServer()
    store = await open_store(path)
    app = second.server.asgi(store=store)
    async with hosted(app, R2025_11_25) as fresh:
        client = twin(old, app)
        client.nursery = fresh.nursery
        # Both requests are concurrent and must find the same session.
        replies = [client.post(client.request("ping")), client.post(client.request("tools/list"))]
        assert ["result" in await reply.answer() for reply in replies] == [True, True]
        assert app.sessions == 1
        (failed,) = await client.get(received.id).rest()
        error = json.loads(failed.data)
        assert error["id"] == "unanswered"
        assert "restarted" in error["error"]["message"]
        standalone = client.get()
        await standalone.event()
        second.server.resource_updated("memo://x")
        assert json.loads((await events_of(standalone, 1))[0].data)["params"]["uri"] == "memo://x"
        look = client.post(client.call("look"))
        client_request = await look.message()
        assert isinstance(client_request["id"], int)
        assert client_request["id"] > 1000
        again = client.post(client.call("steps", name="c", token=3))
        assert (await again.event()).id not in ids
    await store.aclose()


async def test_expired_or_unusable_session_of_another_process_returns_404(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    store = await open_store(path)
    async with session(ControlledServer().server.asgi(store=store)) as client:
        old = client
    record = await store.load(str(old.session))
    assert record is not None
    for changed in (
        attrs.evolve(record, used_at=record.used_at - 1.5 * 1800),
        attrs.evolve(record, revision="1999-01-01"),
        attrs.evolve(record, client={"capabilities": 7}),
        attrs.evolve(record, principal="another-principal"),
    ):
        await store.save(changed)
        app = ControlledServer().server.asgi(store=store)
        async with hosted(app, R2025_11_25) as fresh:
            fresh.session = old.session
            reply = fresh.post(fresh.request("ping"))
            assert (await reply.body(), reply.status)[1] == 404
            assert app.sessions == 0
    await store.aclose()


async def test_http_sse_session_continues_in_another_process() -> None:
    store = MemoryStore()
    first = ControlledServer().server.asgi(store=store)
    second = ControlledServer().server.asgi(store=store)
    async with session(first, R2024_11_05) as client:
        other = twin(client, second)
        assert "result" in await other.ask("ping")


async def open_store(path: Path) -> SqliteStore:
    return SqliteStore(path)
