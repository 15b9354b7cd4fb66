"""Streams of a session that break, are let go, and are had again."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing
from asgi_host import Client, Reply, as_object, hosted, session
from http_gate import Gate, text_of

from mcp_core.framing.sse import Event
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.limits import Limits
from mcp_core.revisions import R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, Revision
from mcp_server import Context, MemoryStore, SqliteStore
from mcp_server.asgi import Application

RESUMABLE = pytest.mark.parametrize("revision", [R2025_03_26, R2025_06_18, R2025_11_25], ids=str)


def progress_of(event: Event) -> object:
    return as_object(json.loads(event.data)["params"])["progress"]


async def events_of(reply: Reply, count: int) -> list[Event]:
    """The next events that have a message."""
    found: list[Event] = []
    while len(found) < count:
        event = await reply.event()
        if event.data:
            found.append(event)
    return found


# --- how streams begin -----------------------------------------------------------------------------------------------


@pytest.mark.spec("sse.priming-event", "resume.optional-event-id")
async def test_a_stream_begins_with_an_id_so_that_it_can_be_had_again() -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        first = client.post(client.call("steps", name="a", token=1))
        event = await first.event()
        assert (event.data, bool(event.id)) == (b"", True)
        standing = client.get()
        event = await standing.event()
        assert (event.data, bool(event.id)) == (b"", True)


@pytest.mark.parametrize("revision", [R2025_03_26, R2025_06_18], ids=str)
async def test_older_clients_get_no_event_without_data(revision: Revision) -> None:
    gate = Gate()
    gate.let("a1", "a2")
    async with session(gate.server.asgi(), revision) as client:
        events = await client.post(client.call("steps", name="a", token=1)).rest()
        assert all(event.data and event.id for event in events)


@pytest.mark.spec("resume.event-id-unique", "resume.event-id-encodes-stream", "resume.event-id-per-stream")
async def test_ids_are_unique_in_a_session() -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        replies = [client.post(client.call("steps", name=name, token=name)) for name in "ab"]
        standing = client.get()
        gate.server.remove_tool("fail")
        gate.let("a1", "a2", "b1", "b2")
        ids = [event.id for reply in replies for event in await reply.rest()]
        ids += [event.id for event in await events_of(standing, 1)]
        assert None not in ids
        assert len(set(ids)) == len(ids) == 9


# --- what is had again -----------------------------------------------------------------------------------------------


@RESUMABLE
@pytest.mark.spec(
    "resume.replay", "resume.no-cross-stream", "resume.always-get", "sse.response-eventually", "sse.no-broadcast"
)
async def test_what_was_lost_is_sent_again_and_the_stream_goes_on(revision: Revision) -> None:
    gate = Gate()
    async with session(gate.server.asgi(), revision) as client:
        reply = client.post(client.call("steps", name="a", token="a", count=4))
        other = client.post(client.call("steps", name="b", token="b", count=4))
        (seen,) = await events_of(reply, 1)
        gate.let("a1", "b1")
        await events_of(reply, 1)
        reply.leave()
        gate.let("a2")
        await trio.testing.wait_all_tasks_blocked()
        again = client.get(seen.id)
        lost = await events_of(again, 2)
        assert [progress_of(event) for event in lost] == [2, 3]
        gate.let("a3", "a4")
        rest = await again.rest()
        assert progress_of(rest[0]) == 4
        assert text_of(json.loads(rest[1].data)) == "a"
        assert len(rest) == 2
        gate.let("b2", "b3", "b4")
        messages = [json.loads(event.data) for event in await other.rest() if event.data]
        assert [message["params"]["progressToken"] for message in messages[:-1]] == ["b"] * 4


async def test_an_answer_is_fetched_after_the_handler_has_ended() -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        reply = client.post(client.call("steps", name="a", token=1))
        primed = await reply.event()
        await events_of(reply, 1)
        reply.leave()
        gate.let("a1", "a2")
        await reply.returned.wait()
        events: list[Event] = []
        # Not in vain if that connection breaks too.
        for _ in range(2):
            events = await client.get(primed.id).rest()
            assert [progress_of(event) for event in events[:-1]] == [1, 2]
            assert text_of(json.loads(events[-1].data)) == "a"
        over = client.get(events[-1].id)
        assert (await over.body(), over.status)[1] == 405
        assert over.headers["allow"] == "POST, DELETE"


async def test_each_event_can_be_the_last_one_that_came_through() -> None:
    gate = Gate()
    gate.let("a1", "a2", "a3")
    async with session(gate.server.asgi()) as client:
        events = await client.post(client.call("steps", name="a", token=1, count=3)).rest()
        for place, event in enumerate(events[:-1]):
            again = await client.get(event.id).rest()
            assert [(each.id, each.data) for each in again] == [(each.id, each.data) for each in events[place + 1 :]]


async def test_a_client_that_comes_back_takes_the_place_of_the_connection_that_it_lost() -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        reply = client.post(client.call("steps", name="a", token=1))
        primed = await reply.event()
        again = client.get(primed.id)
        assert progress_of((await events_of(again, 1))[0]) == 1
        assert [progress_of(event) for event in await reply.rest()] == [1]
        gate.let("a1", "a2")
        assert text_of(json.loads((await again.rest())[-1].data)) == "a"


async def test_a_connection_that_takes_nothing_does_not_keep_its_client_from_coming_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        reply = client.start("POST", client.call("steps", name="a", token=1), blocked=True)
        await gate.until_running("a")
        await trio.sleep(5)
        again = client.get("1-0")
        assert progress_of((await events_of(again, 1))[0]) == 1
        assert trio.current_time() < 30
        gate.let("a1", "a2")
        assert text_of(json.loads((await again.rest())[-1].data)) == "a"
        assert not reply.complete


@pytest.mark.parametrize("id", ["nonsense", "9-0", "1-99", "1-", "0-0", "-1-0", "99999999999999999999-1"])
async def test_an_id_that_was_never_given_is_refused(id: str) -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        reply = client.post(client.call("steps", name="a", token=1))
        await reply.event()
        refused = client.get(id)
        assert b"Last-Event-ID" in await refused.body()
        assert refused.status == 400


async def test_a_question_reaches_a_client_that_comes_back_for_it() -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        reply = client.post(client.call("look"))
        primed = await reply.event()
        reply.leave()
        await trio.testing.wait_all_tasks_blocked()
        again = client.get(primed.id)
        question = json.loads((await events_of(again, 1))[0].data)
        await client.post({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}).body()
        assert text_of(json.loads((await again.rest())[0].data)) == "0"


async def test_the_silence_of_a_stream_that_was_resumed_is_filled_too(autojump_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    async with session(gate.server.asgi(policy=EndpointPolicy(keep_alive=10))) as client:
        reply = client.post(client.call("steps", name="a", token=1))
        primed = await reply.event()
        reply.leave()
        again = client.get(primed.id)
        await trio.sleep(25)
        assert again.chunks[1:] == [b": still here\n\n"] * 2


async def test_a_client_that_never_fetches_its_answers_is_bounded() -> None:
    gate = Gate(Limits(replay_events=3))
    gate.let("a1", "a2")
    async with session(gate.server.asgi()) as client:
        for _ in range(5):
            reply = client.post(client.call("steps", name="a", token=1))
            await reply.event()
            reply.leave()
            await reply.returned.wait()
        # Still served, but what it loses from here on is lost.
        reply = client.post(client.call("steps", name="a", token=1))
        events = await reply.rest()
        assert [event.id for event in events] == [None] * 3


async def test_a_client_comes_back_while_its_answer_waits_for_the_connection_that_it_lost(
    autojump_clock: trio.testing.MockClock,
) -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        reply = client.post(client.call("steps", name="a", token=1))
        primed = await reply.event()
        await events_of(reply, 1)
        reply.reading = trio.Event()
        gate.let("a1", "a2")
        # The second step waits for a client that reads nothing, and the answer behind it.
        await trio.sleep(5)
        again = client.get(primed.id)
        events = await again.rest()
        assert [progress_of(event) for event in events[:-1]] == [1, 2]
        assert text_of(json.loads(events[-1].data)) == "a"


async def test_a_client_comes_back_while_the_answer_itself_waits_for_the_connection_that_it_lost(
    autojump_clock: trio.testing.MockClock,
) -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        reply = client.post(client.call("steps", name="a", token=1, count=1))
        primed = await reply.event()
        await events_of(reply, 1)
        reply.reading = trio.Event()
        gate.let("a1")
        await trio.sleep(5)
        events = await client.get(primed.id).rest()
        assert text_of(json.loads(events[-1].data)) == "a"
        assert trio.current_time() < 10


async def test_a_stream_that_is_being_replaced_may_still_be_fetched(autojump_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        first = client.get()
        primed = await first.event()
        first.reading = trio.Event()
        gate.server.remove_tool("fail")
        await trio.testing.wait_all_tasks_blocked()
        second = client.get()
        await trio.testing.wait_all_tasks_blocked()
        third = client.get(primed.id)
        assert [json.loads(event.data)["method"] for event in await third.rest()] == [
            "notifications/tools/list_changed"
        ]
        await second.event()
        gate.server.remove_tool("half")
        assert len(await events_of(second, 1)) == 1
        assert trio.current_time() < 10


async def test_what_was_delivered_does_not_fill_the_log() -> None:
    gate = Gate(Limits(replay_events=3))
    gate.let("a1", "a2")
    async with session(gate.server.asgi()) as client:
        for fetched in (False, True) * 5:
            reply = client.post(client.call("steps", name="a", token=1))
            primed = await reply.event()
            assert primed.id is not None
            if fetched:
                reply.leave()
                await reply.returned.wait()
                reply = client.get(primed.id)
            assert text_of(json.loads((await reply.rest())[-1].data)) == "a"


async def test_a_client_that_leaves_what_it_comes_back_for_may_come_again() -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        reply = client.post(client.call("steps", name="a", token=1))
        primed = await reply.event()
        reply.leave()
        gate.let("a1", "a2")
        await reply.returned.wait()
        broken = client.get(primed.id)
        broken.leave()
        await broken.returned.wait()
        assert broken.status == 0
        assert len(await client.get(primed.id).rest()) == 3


# --- streams that are let go -----------------------------------------------------------------------------------------


@pytest.mark.spec("sse.server-close-connection", "sse.retry-before-close")
async def test_a_handler_lets_its_connection_go_and_the_client_fetches_the_rest() -> None:
    gate = Gate()
    async with session(gate.server.asgi(policy=EndpointPolicy(retry=2.5))) as client:
        reply = client.post(client.call("release", name="a", token=1))
        events = await reply.rest()
        assert [event.retry for event in events] == [None, None, 2500]
        assert not reply.returned.is_set()
        await gate.until_running("a")
        again = client.get(events[-1].id)
        gate.let("a")
        rest = await again.rest()
        assert progress_of(rest[0]) == 2
        assert text_of(json.loads(rest[1].data)) == "a"


async def test_a_connection_is_let_go_before_anything_was_sent_on_it() -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        reply = client.post(client.call("release", name="a"))
        events = await reply.rest()
        assert [(event.data, event.retry) for event in events] == [(b"", None), (b"", 1000)]
        gate.let("a")
        await reply.returned.wait()
        assert text_of(json.loads((await client.get(events[0].id).rest())[0].data)) == "a"


async def test_a_connection_that_broke_cannot_be_let_go() -> None:
    gate = Gate()
    server = gate.server

    @server.tool
    async def late(context: Context) -> str:
        """Late."""
        await context.progress(1)
        await gate.gate("late").wait()
        await context.release_stream()
        await context.release_stream()
        return "late"

    async with session(server.asgi()) as client:
        reply = client.post(client.call("late", token=1))
        primed = await reply.event()
        await reply.message()
        reply.leave()
        await trio.testing.wait_all_tasks_blocked()
        gate.let("late")
        await reply.returned.wait()
        events = await client.get(primed.id).rest()
        assert [event.retry for event in events] == [None, None]


@pytest.mark.parametrize("revision", [R2025_03_26, R2025_06_18], ids=str)
@pytest.mark.spec("sse.not-close-before-response")
async def test_older_clients_keep_their_connection(revision: Revision) -> None:
    gate = Gate()
    gate.let("a")
    async with session(gate.server.asgi(), revision) as client:
        reply = client.post(client.call("release", name="a", token=1))
        assert text_of(json.loads((await reply.rest())[-1].data)) == "a"


async def test_a_client_that_takes_no_stream_keeps_its_connection() -> None:
    gate = Gate()
    gate.let("a")
    async with session(gate.server.asgi()) as client:
        reply = client.post(client.call("release", name="a", token=1), accept="application/json")
        assert text_of(await reply.json()) == "a"


# --- the standalone stream -------------------------------------------------------------------------------------------


@RESUMABLE
@pytest.mark.spec("http.get-response", "sse.get-server-messages", "sse.get-unrelated", "sse.get-no-response")
async def test_notices_wait_for_the_standalone_stream_and_are_told_once(revision: Revision) -> None:
    gate = Gate()
    async with session(gate.server.asgi(), revision) as client:
        await client.ask("resources/subscribe", {"uri": "memo://x"})
        for _ in range(3):
            gate.server.resource_updated("memo://x")
            gate.server.resource_updated("memo://y")
        gate.server.remove_tool("fail")
        standing = client.get()
        told = [json.loads(event.data) for event in await events_of(standing, 2)]
        assert [each["method"] for each in told] == [
            "notifications/resources/updated",
            "notifications/tools/list_changed",
        ]
        gate.server.resource_updated("memo://x")
        assert json.loads((await events_of(standing, 1))[0].data)["params"]["uri"] == "memo://x"
        assert not standing.complete


async def test_a_second_standalone_stream_takes_the_place_of_the_first() -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        first = client.get()
        await first.event()
        second = client.get()
        await second.event()
        assert await first.rest() == []
        gate.server.remove_tool("fail")
        assert len(await events_of(second, 1)) == 1
        await first.returned.wait()


async def test_what_a_standalone_stream_lost_is_sent_again() -> None:
    gate = Gate()
    async with session(gate.server.asgi()) as client:
        first = client.get()
        primed = await first.event()
        gate.server.remove_tool("fail")
        (told,) = await events_of(first, 1)
        first.leave()
        await first.returned.wait()
        gate.server.remove_tool("half")
        again = client.get(primed.id)
        events = await events_of(again, 2)
        assert events[0] == told
        assert len({event.id for event in events}) == 2
        # And once another one took its place.
        newer = client.get()
        await newer.event()
        older = client.get(primed.id)
        assert (await events_of(older, 1))[0] == told
        gate.server.remove_tool("look")
        assert len(await events_of(older, 2)) == 2
        assert newer.complete


async def test_a_silent_standalone_stream_is_kept_alive(autojump_clock: trio.testing.MockClock) -> None:
    async with session(Gate().server.asgi(), R2025_06_18) as client:
        standing = client.get()
        await trio.sleep(46)
        assert standing.chunks == [b": still here\n\n"] * 4


@pytest.mark.spec("sse.get-close-any-time")
async def test_a_standalone_stream_that_its_client_left_is_gone() -> None:
    app = Gate().server.asgi()
    async with session(app) as client:
        standing = client.get()
        await standing.event()
        standing.leave()
        await standing.returned.wait()
        assert app.running == 0


# --- another process -------------------------------------------------------------------------------------------------


def twin(client: Client, app: Application) -> Client:
    """The same client, talking to another process."""
    made = Client(app, client.nursery, client.revision)
    made.session = client.session
    made._last_id = 1000
    return made


async def test_a_session_goes_on_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    gate = Gate()
    store = await open_store(path)
    async with hosted(gate.server.asgi(store=store), R2025_11_25) as client:
        client.capabilities = {"roots": {}}
        await client.open()
        await client.ask("resources/subscribe", {"uri": "memo://x"})
        await client.ask("logging/setLevel", {"level": "error"})
        answered = client.post(client.call("steps", name="a", token=1))
        gate.let("a1", "a2")
        ids = [event.id for event in await answered.rest()]
        owed = client.post(client.call("steps", name="b", token=2, id="owed"))
        (seen,) = await events_of(owed, 1)
        await store.aclose()
        old = client
        client.nursery.cancel_scope.cancel()
    second = Gate()
    store = await open_store(path)
    app = second.server.asgi(store=store)
    async with hosted(app, R2025_11_25) as fresh:
        client = twin(old, app)
        client.nursery = fresh.nursery
        # Both come at once, and find one session.
        replies = [client.post(client.request("ping")), client.post(client.request("tools/list"))]
        assert ["result" in await reply.answer() for reply in replies] == [True, True]
        assert app.sessions == 1
        (failed,) = await client.get(seen.id).rest()
        error = json.loads(failed.data)
        assert error["id"] == "owed"
        assert "restarted" in error["error"]["message"]
        standing = client.get()
        await standing.event()
        second.server.resource_updated("memo://x")
        assert json.loads((await events_of(standing, 1))[0].data)["params"]["uri"] == "memo://x"
        look = client.post(client.call("look"))
        question = await look.message()
        assert isinstance(question["id"], int)
        assert question["id"] > 1000
        again = client.post(client.call("steps", name="c", token=3))
        assert (await again.event()).id not in ids
    await store.aclose()


async def test_a_session_of_another_process_is_not_found_when_its_time_is_over(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    store = await open_store(path)
    async with session(Gate().server.asgi(store=store)) as client:
        old = client
    record = await store.load(str(old.session))
    assert record is not None
    for changed in (
        attrs.evolve(record, used_at=record.used_at - 1.5 * 1800),
        attrs.evolve(record, revision="1999-01-01"),
        attrs.evolve(record, client={"capabilities": 7}),
        attrs.evolve(record, principal="somebody else"),
    ):
        await store.save(changed)
        app = Gate().server.asgi(store=store)
        async with hosted(app, R2025_11_25) as fresh:
            fresh.session = old.session
            reply = fresh.post(fresh.request("ping"))
            assert (await reply.body(), reply.status)[1] == 404
            assert app.sessions == 0
    await store.aclose()


async def test_a_session_without_resumption_goes_on_too() -> None:
    store = MemoryStore()
    first = Gate().server.asgi(store=store)
    second = Gate().server.asgi(store=store)
    async with session(first, R2024_11_05) as client:
        other = twin(client, second)
        assert "result" in await other.ask("ping")


async def open_store(path: Path) -> SqliteStore:
    return SqliteStore(path)
