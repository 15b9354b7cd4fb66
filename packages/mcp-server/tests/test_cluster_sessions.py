"""A legacy session over several workers: any worker serves any request, nothing is lost and nothing is repeated."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from asgi_host import Client, Reply, as_object
from cluster_deployment import ClusterServer, Deployment, deployed
from controlled_server import text_of
from task_server import EXTENSION, WITH_TASKS

from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.http.messages import HttpRequest
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import (
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    Revision,
)
from mcp_server import Context
from mcp_server.cluster.memory import MemoryCluster
from mcp_server.stores.sessions import SessionRecord

REVISIONS = (R2025_03_26, R2025_06_18, R2025_11_25)
each_revision = pytest.mark.parametrize("revision", REVISIONS, ids=str)


async def identify(request: HttpRequest) -> str | None:
    return request.headers.get("authorization")


@asynccontextmanager
async def opened(there: Deployment, revision: Revision = R2025_11_25) -> AsyncIterator[Client]:
    """Open a session at worker 0. The next requests go to the following workers."""
    async with trio.open_nursery() as nursery:
        client = Client(there, nursery, revision)
        there.pinned = 0
        await client.open()
        there.pinned, there.next = None, 1
        yield client
        nursery.cancel_scope.cancel()


async def respond(client: Client, request: JsonObject, result: JsonObject) -> None:
    """Send the response to a client request, to the next worker."""
    reply = client.post({"jsonrpc": "2.0", "id": request["id"], "result": result})
    await reply.body()
    assert reply.status == 202


async def rest_of(reply: Reply) -> list[JsonObject]:
    """Return the messages of a stream until its end."""
    return [json.loads(event.data) for event in await reply.rest() if event.data]


def error_of(message: JsonObject) -> str:
    return str(as_object(message["error"])["message"])


# --- requests --------------------------------------------------------------------------------------------------------


@each_revision
async def test_requests_of_session_answered_at_each_worker(revision: Revision) -> None:
    async with deployed() as there, opened(there, revision) as client:
        for number in range(9):
            assert text_of(await client.post(client.call("echo", text=str(number))).answer()) == str(number)
        assert set(there.served[2:]) == {0, 1, 2}
        await client.notify("notifications/initialized")


@each_revision
@pytest.mark.parametrize("kind", ["elicit", "sample"])
async def test_client_request_is_answered_at_another_worker(revision: Revision, kind: str) -> None:
    if kind == "elicit" and revision is R2025_03_26:
        kind = "look"
    results: dict[str, tuple[JsonObject, str]] = {
        "elicit": ({"action": "accept", "content": {"name": "Bob"}}, "Bob"),
        "sample": ({"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "large"}, "large"),
        "look": ({"roots": []}, "0"),
    }
    async with deployed() as there, opened(there, revision) as client:
        for _ in range(4):
            # Two calls wait at different workers, and their responses arrive at others.
            arguments: JsonObject = {} if kind == "look" else {"name": "a"}
            replies = [client.post(client.call(kind, **arguments)) for _ in range(2)]
            requests = [await reply.message() for reply in replies]
            assert len({str(request["id"]) for request in requests}) == 2
            for request in reversed(requests):
                await respond(client, request, results[kind][0])
            for reply in replies:
                assert text_of(await reply.answer()) == results[kind][1]
        assert len(set(there.served)) == 3


async def test_error_response_received_by_worker_of_client_request() -> None:
    async with deployed() as there, opened(there) as client:
        reply = client.post(client.call("sample", name="a"))
        request = await reply.message()
        error: JsonObject = {"code": -1, "message": "not now"}
        await client.post({"jsonrpc": "2.0", "id": request["id"], "error": error}).body()
        assert "not now" in json.dumps(await reply.answer())


async def test_repeated_and_foreign_responses_have_no_effect() -> None:
    async with deployed() as there, opened(there) as client, opened(there) as other:
        reply = client.post(client.call("elicit", name="a"))
        request = await reply.message()
        # Another session of the same principal cannot answer.
        await respond(other, request, {"action": "accept", "content": {"name": "Eve"}})
        await there.settle()
        assert not reply.complete
        for name in ("Bob", "Carl", "Dan"):
            await respond(client, request, {"action": "accept", "content": {"name": name}})
        assert text_of(await reply.answer()) == "Bob"


@each_revision
async def test_cancellation_reaches_the_worker_that_runs_the_request(revision: Revision) -> None:
    async with deployed() as there, opened(there, revision) as client:
        reply = client.post(client.call("hold", id=77, name="a"))
        await there.settle()
        at = there.running("a")
        there.next = at + 1
        await client.notify("notifications/cancelled", {"requestId": 77})
        await there.settle()
        assert there.workers[at].controlled.cancelled == ["a"]
        assert there.served[-1] != at
        # A stream without events.
        assert await rest_of(reply) == []


async def test_progress_received_by_worker_of_client_request() -> None:
    async with deployed() as there, opened(there) as client:
        reply = client.post(client.call("sample", name="a"))
        request = await reply.message()
        await client.notify("notifications/progress", {"progressToken": request["id"], "progress": 1})
        await client.notify("notifications/progress", {"progressToken": "unknown", "progress": 1})
        await respond(client, request, {"role": "assistant", "content": {"type": "text", "text": ""}, "model": "m"})
        assert text_of(await reply.answer()) == "m"


@each_revision
async def test_log_level_applies_to_running_call_at_another_worker(revision: Revision) -> None:
    async with deployed() as there, opened(there, revision) as client:
        reply = client.post(client.call("log", name="a"))
        await there.settle()
        at = there.running("a")
        tools = there.workers[at].controlled
        tools.let("a1")
        await there.settle()
        for step, level in ((2, "debug"), (3, "error")):
            there.next = at + 1
            assert "result" in await client.ask("logging/setLevel", {"level": level})
            tools.let(f"a{step}")
            await there.settle()
        messages = [as_object(each["params"])["data"] for each in await rest_of(reply) if "method" in each]
        assert messages == [2]


# --- changes ---------------------------------------------------------------------------------------------------------


def updated(uri: str) -> JsonObject:
    return {"method": "notifications/resources/updated", "params": {"uri": uri}, "jsonrpc": "2.0"}


def uri_of(message: JsonObject) -> JsonValue:
    return as_object(message["params"])["uri"]


@each_revision
async def test_change_at_one_worker_reaches_stream_at_another(revision: Revision) -> None:
    async with deployed() as there, opened(there, revision) as client:
        there.next = 2
        stream = client.get()
        await there.settle()
        for at in range(3):
            # The subscription is made at one worker, the change at the next one, and the stream is at the last one.
            there.next = at
            assert "result" in await client.ask("resources/subscribe", {"uri": f"memo://{at}"})
            there.workers[(at + 1) % 3].server.resource_updated(f"memo://{at}")
            there.workers[(at + 1) % 3].server.resource_updated("memo://other")
            assert await stream.message() == updated(f"memo://{at}")
        there.next = 0
        assert "result" in await client.ask("resources/unsubscribe", {"uri": "memo://1"})
        await there.settle()
        there.workers[1].server.resource_updated("memo://1")
        there.workers[1].server.resource_updated("memo://2")
        assert await stream.message() == updated("memo://2")
        await there.settle()
        assert len(stream._events) == 0


async def test_changes_without_stream_are_sent_once_by_the_next_one() -> None:
    async with deployed() as there, opened(there) as client:
        for uri in ("memo://a", "memo://b"):
            await client.ask("resources/subscribe", {"uri": uri})
        for at in range(3):
            there.workers[at].server.resource_updated("memo://a")
        for at in (2, 0, 1):
            there.workers[0].server.resource_updated("memo://b")
            there.pinned = at
            stream = client.get()
            uris = {"memo://a", "memo://b"} if at == 2 else {"memo://b"}
            assert {uri_of(await stream.message()) for _ in uris} == uris
            await there.settle()
            stream.leave()
            await there.settle()
            assert b"".join(stream.chunks).count(b"data: {") == len(uris)


async def test_new_standalone_stream_ends_the_one_at_another_worker() -> None:
    async with deployed() as there, opened(there) as client:
        await client.ask("resources/subscribe", {"uri": "memo://a"})
        streams = []
        for at in (0, 1, 2, 1):
            there.pinned = at
            streams.append(client.get())
            await there.settle()
            there.workers[0].server.resource_updated("memo://a")
            assert await streams[-1].message() == updated("memo://a")
        for stream in streams[:-1]:
            assert await rest_of(stream) == []
        assert not streams[-1].complete


async def test_replaced_stream_sends_nothing_before_its_worker_knows() -> None:
    async with deployed() as there, opened(there) as client:
        await client.ask("resources/subscribe", {"uri": "memo://a"})
        there.pinned = 0
        before = client.get()
        await there.settle()
        first = there.workers[0].cluster
        first.is_paused = True
        there.pinned = 1
        stream = client.get()
        await there.settle()
        there.workers[0].server.resource_updated("memo://a")
        assert await stream.message() == updated("memo://a")
        assert await rest_of(before) == []


async def test_standalone_streams_opened_at_once_leave_one() -> None:
    async with deployed() as there, opened(there) as client:
        await client.ask("resources/subscribe", {"uri": "memo://a"})
        streams = [client.get() for _ in range(3)]
        await there.settle()
        assert sum(stream.complete for stream in streams) == 2
        (left,) = [stream for stream in streams if not stream.complete]
        there.workers[0].server.resource_updated("memo://a")
        assert await left.message() == updated("memo://a")


async def test_standalone_stream_resumes_at_another_worker_without_loss() -> None:
    async with deployed() as there, opened(there) as client:
        await client.ask("resources/subscribe", {"uri": "memo://a"})
        await client.ask("resources/subscribe", {"uri": "memo://b"})
        there.pinned = 1
        stream = client.get()
        first = await stream.event()
        there.workers[0].server.resource_updated("memo://a")
        assert await stream.message() == updated("memo://a")
        # The connection breaks unnoticed: the worker continues to write.
        there.workers[0].server.resource_updated("memo://b")
        await there.settle()
        there.pinned = 2
        again = client.get(first.id)
        assert [await again.message() for _ in range(2)] == [updated("memo://a"), updated("memo://b")]
        there.workers[0].server.resource_updated("memo://a")
        assert await again.message() == updated("memo://a")
        await there.settle()
        assert again._events == []


@pytest.mark.parametrize("revision", [R2026_07_28], ids=str)
async def test_change_reaches_subscriptions_at_all_workers(revision: Revision) -> None:
    async with deployed() as there, trio.open_nursery() as nursery:
        client = Client(there, nursery, revision)
        streams = []
        for _ in range(6):
            params: JsonObject = {"notifications": {"resourceSubscriptions": ["memo://a"], "toolsListChanged": True}}
            streams.append(client.post(client.request("subscriptions/listen", params)))
            await streams[-1].message()
        await there.settle()
        there.workers[1].server.resource_updated("memo://a")
        for stream in streams:
            assert (await stream.message())["method"] == "notifications/resources/updated"
        there.workers[2].cluster.discard_messages()
        await there.settle()
        for at, stream in enumerate(streams):
            # Both may have changed.
            methods = {str(json.loads(each.data)["method"]) for each in stream._events} | {
                str((await stream.message())["method"]) for _ in range(2 if at % 3 == 2 else 0)
            }
            changed = {"notifications/resources/updated", "notifications/tools/list_changed"}
            assert methods == (changed if at % 3 == 2 else set())
        nursery.cancel_scope.cancel()


async def test_missed_messages_cause_another_reading(autojump_clock: trio.testing.MockClock) -> None:
    async with deployed() as there, opened(there) as client:
        there.pinned = 2
        stream = client.get()
        await there.settle()
        third = there.workers[2].cluster
        third.is_paused = True
        there.pinned = 0
        await client.ask("resources/subscribe", {"uri": "memo://a"})
        there.workers[1].server.resource_updated("memo://a")
        await there.settle()
        third.discard_messages()
        third.is_paused = False
        third.wake()
        assert await stream.message() == updated("memo://a")
        await there.settle()
        assert stream._events == []


async def test_message_older_than_the_reading_is_not_notified_again() -> None:
    async with deployed() as there, opened(there) as client:
        await client.ask("resources/subscribe", {"uri": "memo://a"})
        third = there.workers[2].cluster
        third.is_paused = True
        there.workers[0].server.resource_updated("memo://a")
        there.pinned = 2
        stream = client.get()
        assert await stream.message() == updated("memo://a")
        third.is_paused = False
        third.wake()
        await there.settle()
        assert b"".join(stream.chunks).count(b"data: {") == 1
        there.workers[1].server.resource_updated("memo://a")
        assert await stream.message() == updated("memo://a")


async def test_change_of_subscription_not_known_yet_is_notified_later(autojump_clock: trio.testing.MockClock) -> None:
    async with deployed() as there, opened(there) as client:
        there.pinned = 2
        stream = client.get()
        await there.settle()
        third = there.workers[2].cluster
        third.is_paused = True
        there.pinned = 0
        await client.ask("resources/subscribe", {"uri": "memo://a"})
        there.workers[0].server.resource_updated("memo://a")
        # The stream has just been opened, so the worker reads the changes from the store for any change.
        there.workers[2].server.resource_updated("memo://other")
        await there.settle()
        third.is_paused = False
        third.wake()
        assert await stream.message() == updated("memo://a")


# --- resumption ------------------------------------------------------------------------------------------------------


def steps_of(messages: list[JsonObject]) -> list[JsonValue]:
    return [as_object(each["params"])["progress"] for each in messages if "method" in each]


@each_revision
async def test_running_stream_resumes_at_another_worker(revision: Revision) -> None:
    async with deployed() as there, opened(there, revision) as client:
        there.next = 0
        reply = client.post(client.call("steps", name="a", count=3, token=1))
        primed = await reply.event()
        tools = there.workers[0].controlled
        await there.settle()
        reply.leave()
        await there.settle()
        tools.let("a1")
        await there.settle()
        at_one = client.get(primed.id if revision.priming_event else "1-0")
        assert [as_object((await at_one.message())["params"])["progress"] for _ in range(2)] == [1, 2]
        last = f"1-{2}"
        # The client moves on while the first connection is not known to be broken.
        at_two = client.get(last)
        await there.settle()
        tools.let("a2", "a3")
        messages = await rest_of(at_two)
        assert steps_of(messages) == [3]
        assert text_of(messages[-1]) == "a"
        assert set(there.served[-2:]) == {1, 2}
        # All was delivered.
        assert client.get("1-4").complete is False
        await there.settle()


async def test_resumption_back_at_the_first_worker_repeats_nothing() -> None:
    async with deployed() as there, opened(there) as client:
        there.next = 0
        reply = client.post(client.call("steps", name="a", count=3, token=1))
        await reply.message()
        reply.leave()
        tools = there.workers[0].controlled
        for at in (1, 0, 1):
            there.pinned = at
            client.get("1-1")
            await there.settle()
        there.pinned = 0
        stream = client.get("1-1")
        await there.settle()
        tools.let("a1", "a2", "a3")
        messages = await rest_of(stream)
        assert steps_of(messages) == [2, 3]
        assert text_of(messages[-1]) == "a"


async def test_stream_resumed_elsewhere_ends_its_first_connection() -> None:
    async with deployed() as there, opened(there) as client:
        there.next = 0
        reply = client.post(client.call("steps", name="a", token=1))
        await reply.message()
        again = client.get("1-1")
        await there.settle()
        assert await rest_of(reply) == []
        there.workers[0].controlled.let("a1", "a2")
        assert text_of((await rest_of(again))[-1]) == "a"


async def test_client_request_on_resumed_stream_is_answered_at_a_third_worker() -> None:
    async with deployed() as there, opened(there) as client:
        there.next = 0
        reply = client.post(client.call("elicit", name="a"))
        primed = await reply.event()
        await there.settle()
        reply.leave()
        await there.settle()
        again = client.get(primed.id)
        request = await again.message()
        await respond(client, request, {"action": "accept", "content": {"name": "Bob"}})
        assert text_of((await rest_of(again))[-1]) == "Bob"
        assert there.served[-3:] == [0, 1, 2]


async def test_cancelled_call_ends_its_resumed_stream() -> None:
    async with deployed() as there, opened(there) as client:
        there.next = 0
        reply = client.post(client.call("steps", id=9, name="a", token=1))
        await reply.message()
        reply.leave()
        again = client.get("1-1")
        await there.settle()
        await client.notify("notifications/cancelled", {"requestId": 9})
        assert await rest_of(again) == []
        refused = client.get("1-1")
        await refused.body()
        assert refused.status == 405


async def test_unknown_event_ids_are_rejected_at_each_worker() -> None:
    async with deployed() as there, opened(there) as client:
        there.next = 0
        reply = client.post(client.call("steps", name="a", token=1))
        await reply.message()
        for id in ("nonsense", "9-0", "1-99", "0-0"):
            for _ in range(3):
                refused = client.get(id)
                assert b"Last-Event-ID" in await refused.body()
                assert refused.status == 400


async def test_event_stored_before_the_worker_knows_of_the_resumption_is_sent() -> None:
    async with deployed(policy=EndpointPolicy(keep_alive=10_000)) as there, opened(there) as client:
        there.next = 0
        reply = client.post(client.call("steps", name="a", token=1))
        await reply.message()
        reply.leave()
        first = there.workers[0].cluster
        first.is_paused = True
        again = client.get("1-1")
        await there.settle()
        there.workers[0].controlled.let("a1")
        await there.settle()
        assert again._events == []
        first.is_paused = False
        first.wake()
        assert as_object((await again.message())["params"])["progress"] == 2


# --- loss of a worker ------------------------------------------------------------------------------------------------


async def test_followed_stream_of_lost_worker_gets_one_outcome() -> None:
    async with deployed() as there, opened(there) as client:
        there.next = 0
        reply = client.post(client.call("steps", name="a", token=1))
        await reply.message()
        reply.leave()
        again = client.get("1-1")
        await there.settle()
        await there.workers[0].kill()
        messages = await rest_of(again)
        assert [error_of(each) for each in messages] == ["the server restarted before this request was complete"]
        # Wherever the client asks again, it receives the same outcome.
        for _ in range(2):
            (outcome,) = await rest_of(client.get("1-1"))
            assert outcome == messages[0]


async def test_stream_of_lost_worker_resumes_with_its_events_and_an_error() -> None:
    async with deployed() as there, opened(there) as client:
        there.next = 0
        reply = client.post(client.call("steps", name="a", token=1))
        await reply.message()
        there.workers[0].controlled.let("a1")
        await there.settle()
        await there.workers[0].kill()
        # Two workers respond at the same time.
        streams = [client.get("1-0"), client.get("1-0")]
        outcomes = [await rest_of(stream) for stream in streams]
        assert outcomes[0] == outcomes[1]
        assert steps_of(outcomes[0]) == [1, 2]
        assert "restarted" in error_of(outcomes[0][-1])


async def test_response_stored_before_the_loss_is_delivered() -> None:
    async with deployed() as there, opened(there) as client:
        there.next = 0
        reply = client.post(client.call("steps", name="a", token=1))
        await reply.message()
        reply.leave()
        await there.settle()
        there.workers[0].controlled.let("a1", "a2")
        await there.settle()
        await there.workers[0].kill()
        messages = await rest_of(client.get("1-1"))
        assert steps_of(messages) == [2]
        assert text_of(messages[-1]) == "a"


async def test_session_survives_the_loss_of_its_first_worker() -> None:
    async with deployed() as there, opened(there) as client:
        await there.workers[0].kill()
        for _ in range(4):
            assert text_of(await client.post(client.call("echo", text="x")).answer()) == "x"
        stream = client.get()
        await there.settle()
        for worker in there.workers[1:]:
            worker.server.resource_updated("memo://a")
        assert not stream.complete


async def test_request_to_stream_of_lost_worker_fails_at_once() -> None:
    async with deployed() as there, opened(there) as client:
        there.pinned = 1
        client.get()
        await there.settle()
        await there.workers[1].kill()
        there.pinned = 0
        # The call has no stream of its own.
        reply = client.post(client.call("elicit", name="a"), accept="application/json")
        assert "error" in await reply.answer() or "isError" in json.dumps(await reply.answer())


async def test_client_request_is_sent_on_standalone_stream_of_another_worker() -> None:
    async with deployed() as there, opened(there) as client:
        there.pinned = 1
        stream = client.get()
        await there.settle()
        there.pinned = 0
        reply = client.post(client.call("elicit", name="a"), accept="application/json")
        request = await stream.message()
        there.pinned = 2
        await respond(client, request, {"action": "accept", "content": {"name": "Bob"}})
        assert text_of(await reply.answer()) == "Bob"


async def test_client_request_returns_if_standalone_stream_has_closed() -> None:
    async with deployed() as there, opened(there) as client:
        there.pinned = 1
        stream = client.get()
        await there.settle()
        stream.leave()
        await there.settle()
        there.pinned = 0
        reply = client.post(client.call("elicit", name="a"), accept="application/json")
        assert as_object((await reply.json())["result"])["isError"] is True


# --- requests that change a session --------------------------------------------------------------------------------

CHANGES: dict[str, JsonObject] = {
    "logging/setLevel": {"level": "error"},
    "resources/subscribe": {"uri": "memo://a"},
    "resources/unsubscribe": {"uri": "memo://b"},
}


@pytest.mark.parametrize("method", [*CHANGES, "DELETE"])
async def test_response_to_change_follows_when_all_workers_know_of_it(method: str) -> None:
    async with deployed() as there, opened(there) as client:
        await client.ask("resources/subscribe", {"uri": "memo://b"})
        there.pinned = 2
        await client.ask("ping")
        there.workers[2].cluster.is_paused = True
        there.pinned = 0
        reply = (
            client.start("DELETE")
            if method == "DELETE"
            else client.post({"jsonrpc": "2.0", "id": 5, "method": method, "params": CHANGES[method]})
        )
        await there.settle()
        assert not reply.complete
        there.workers[2].cluster.is_paused = False
        there.workers[2].cluster.wake()
        await reply.body()
        session = client.session
        there.pinned = 2
        if method == "DELETE":
            reply = client.post({"jsonrpc": "2.0", "id": 6, "method": "ping"}, mcp_session_id=session)
            await reply.body()
            assert reply.status == 404
            return
        (at_third,) = there.workers[2].endpoint._sessions
        assert at_third.is_stale  # the next request reads it
        await client.ask("ping")
        assert at_third.peer.log_level == ("error" if method == "logging/setLevel" else None)
        assert (
            set(at_third.connection.watched)
            == {
                "logging/setLevel": {"memo://b"},
                "resources/subscribe": {"memo://a", "memo://b"},
                "resources/unsubscribe": set(),
            }[method]
        )


async def test_response_to_change_follows_when_running_call_knows_of_it() -> None:
    async with deployed() as there, opened(there) as client:
        there.pinned = 2
        call = client.post(client.call("log", name="a"))
        await there.settle()
        store = there.workers[2].cluster.sessions
        is_reading, go_on = trio.Event(), trio.Event()
        load = store.load

        async def slow(id: str) -> SessionRecord | None:
            is_reading.set()
            await go_on.wait()
            return await load(id)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "load", slow)
            there.pinned = 0
            reply = client.post({"jsonrpc": "2.0", "id": 5, "method": "logging/setLevel", "params": {"level": "error"}})
            await is_reading.wait()
            await there.settle()
            assert not reply.complete
            go_on.set()
            await reply.body()
        for step in range(1, 4):
            there.workers[2].controlled.let(f"a{step}")
        assert [each for each in await rest_of(call) if "method" in each] == []


@pytest.mark.parametrize("method", CHANGES)
async def test_change_that_cannot_be_stored_is_rejected(method: str) -> None:
    shared = MemoryCluster()
    async with deployed(shared=shared) as there, opened(there) as client:
        there.pinned = 0
        await client.ask("resources/subscribe", {"uri": "memo://b"})
        shared.is_reachable = False
        for accept in ("application/json", "application/json, text/event-stream"):
            reply = client.post(client.request(method, CHANGES[method]), accept=accept)
            await reply.body()
            assert (reply.status, reply.headers.get("retry-after")) == (503, "1")
            assert as_object((await reply.json())["error"])["code"] == -32603
        await client_echo(client)
        shared.is_reachable = True
        assert "result" in await client.ask(method, CHANGES[method])
        there.pinned = 1
        await client_echo(client)
        (at_second,) = there.workers[1].endpoint._sessions
        assert at_second.peer.log_level == ("error" if method == "logging/setLevel" else None)
        assert ("memo://a" in at_second.connection.watched) == (method == "resources/subscribe")
        assert ("memo://b" in at_second.connection.watched) == (method != "resources/unsubscribe")


async def test_rejected_change_has_no_effect(autojump_clock: trio.testing.MockClock) -> None:
    shared = MemoryCluster()
    async with deployed(shared=shared) as there, opened(there) as client:
        there.pinned = 0
        await client.ask("logging/setLevel", {"level": "info"})
        await client.ask("resources/subscribe", {"uri": "memo://a"})
        stream = client.get()
        await there.settle()
        shared.is_reachable = False
        rejected: dict[str, JsonObject] = {
            "logging/setLevel": {"level": "error"},
            "resources/unsubscribe": {"uri": "memo://a"},
        }
        for method, params in rejected.items():
            reply = client.post(client.request(method, params))
            await reply.body()
            assert reply.status == 503
        await trio.sleep(3)
        shared.is_reachable = True
        # No further request reaches the worker with the stream.
        await trio.sleep(3)
        there.workers[1].server.resource_updated("memo://a")
        assert await stream.message() == updated("memo://a")
        (session,) = there.workers[0].endpoint._sessions
        assert session.peer.log_level == "info"


@pytest.mark.parametrize("failure", ["killed", "silent"])
async def test_lost_worker_does_not_prevent_a_change(failure: str, autojump_clock: trio.testing.MockClock) -> None:
    async with deployed() as there, opened(there) as client:
        there.workers[2].cluster.is_paused = True
        there.pinned = 0
        reply = client.post({"jsonrpc": "2.0", "id": 5, "method": "logging/setLevel", "params": {"level": "error"}})
        if failure == "killed":
            await there.workers[2].kill()
        assert "result" in await reply.answer()


@pytest.mark.parametrize("method", ["logging/setLevel", "DELETE"])
async def test_session_changed_while_another_worker_restores_it(method: str) -> None:
    async with deployed() as there, opened(there) as client:
        store, sessions = there.workers[2].cluster.sessions, there.workers[2].endpoint._sessions
        was_read, go_on = trio.Event(), trio.Event()
        subscriptions = store.subscriptions

        async def slow(session: str) -> frozenset[str]:
            was_read.set()
            await go_on.wait()
            return await subscriptions(session)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "subscriptions", slow)
            there.pinned = 2
            reply = client.post({"jsonrpc": "2.0", "id": 5, "method": "ping"})
            await was_read.wait()
            there.pinned = 0
            if method == "DELETE":
                await client.start("DELETE").body()
            else:
                await client.ask(method, {"level": "error"})
            go_on.set()
            await reply.body()
        if method == "DELETE":
            assert reply.status == 404
            return
        (restored,) = sessions
        assert restored.peer.log_level == "error"


class TaskServer(ClusterServer):
    """A server with a tool that reports progress as a task."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)

        @self.server.tool(task="required")
        async def work(name: str, context: Context) -> str:
            """Report progress three times after the release."""
            self.running.append(name)
            await self.release_event(name).wait()
            for step in range(1, 4):
                await context.progress(step)
            return name


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_progress_of_task_is_sent_by_other_worker_before_the_task_ends(
    is_cancelled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with deployed(make=TaskServer) as there, opened(there) as client:
        there.pinned = 1
        stream = client.get()
        await there.settle()
        there.pinned = 0
        call = client.call("work", name="a", token="t")
        as_object(call["params"])["task"] = {}
        task = as_object(as_object((await client.post(call).answer())["result"])["task"])["taskId"]
        await there.settle()
        second = there.workers[1].cluster
        second.is_paused = True
        there.workers[0].controlled.let("a")
        while not second._inbox:
            await trio.testing.wait_all_tasks_blocked()
        if is_cancelled:
            client.post({"jsonrpc": "2.0", "id": 9, "method": "tasks/cancel", "params": {"taskId": task}})
            await there.settle()
        there.pinned = 2
        assert as_object((await client.ask("tasks/get", {"taskId": task}))["result"])["status"] == "working"
        second.is_paused = False
        second.wake()
        received = [await stream.message() for _ in range(3)]
        assert [as_object(each["params"])["progress"] for each in received] == [1, 2, 3]
        await there.settle()
        assert [each for each in caplog.records if each.levelname == "ERROR"] == []
        wanted = "cancelled" if is_cancelled else "completed"
        assert as_object((await client.ask("tasks/get", {"taskId": task}))["result"])["status"] == wanted


# --- the end of a session --------------------------------------------------------------------------------------------


@each_revision
async def test_delete_at_one_worker_ends_the_session_at_all(revision: Revision) -> None:
    async with deployed() as there, opened(there, revision) as client:
        there.next = 0
        call = client.post(client.call("steps", name="a", token=1))
        await call.message()
        stream = client.get()
        await there.settle()
        again = client.get("1-1")
        await there.settle()
        there.next = 1
        closed = client.start("DELETE")
        await closed.body()
        assert closed.status == 200
        await there.settle()
        assert there.workers[0].controlled.cancelled == ["a"]
        assert stream.complete
        assert again.complete
        for _ in range(3):
            refused = client.post(client.call("echo", text="x"))
            await refused.body()
            assert refused.status == 404
        assert [worker.endpoint.sessions for worker in there.workers] == [0, 0, 0]


async def test_session_of_another_principal_is_unknown_at_each_worker() -> None:
    async with deployed(authenticate=identify) as there, trio.open_nursery() as nursery:
        client = Client(there, nursery, R2025_11_25)
        client.headers["authorization"] = "ann"
        await client.open()
        call = client.post(client.call("elicit", name="a"))
        request = await call.message()
        client.headers["authorization"] = "eve"
        for _ in range(3):
            for reply in (
                client.post({"jsonrpc": "2.0", "id": request["id"], "result": {"action": "decline"}}),
                client.post(client.call("echo", text="x")),
                client.get(),
                client.start("DELETE"),
            ):
                await reply.body()
                assert reply.status == 404
        client.headers["authorization"] = "ann"
        await respond(client, request, {"action": "accept", "content": {"name": "Bob"}})
        assert text_of(await call.answer()) == "Bob"
        nursery.cancel_scope.cancel()


async def test_session_that_the_store_lost_is_unknown() -> None:
    shared = MemoryCluster()
    async with deployed(shared=shared) as there, opened(there) as client:
        assert text_of(await client.post(client.call("echo", text="x")).answer()) == "x"
        assert client.session is not None
        await shared.store.delete(client.session)
        for _ in range(3):
            refused = client.get()
            await refused.body()
            assert refused.status == 404
        refused = client.post(client.call("echo", text="x"))
        await refused.body()
        assert refused.status == 404


async def test_session_used_at_one_worker_survives_at_the_others(autojump_clock: trio.testing.MockClock) -> None:
    async with deployed(policy=EndpointPolicy(session_idle=100)) as there, opened(there) as client:
        for at in range(3):
            there.pinned = at
            assert text_of(await client.post(client.call("echo", text="x")).answer()) == "x"
        there.pinned = 1
        for _ in range(10):
            await trio.sleep(50)
            assert text_of(await client.post(client.call("echo", text="x")).answer()) == "x"
        for at in range(3):
            there.pinned = at
            assert text_of(await client.post(client.call("echo", text="x")).answer()) == "x"


async def test_session_dropped_for_others_is_restored() -> None:
    async with (
        deployed(make=lambda: ClusterServer(Limits(sessions=2)), shared=MemoryCluster()) as there,
        opened(there) as one,
        opened(there) as two,
        opened(there) as three,
    ):
        for client in (one, two, three) * 2:
            for at in range(3):
                there.pinned = at
                await client_echo(client)
        assert all(worker.endpoint.sessions <= 2 for worker in there.workers)


async def test_session_evicted_from_the_store_ends_at_all_workers() -> None:
    limits = Limits(sessions=2)
    async with deployed(shared=MemoryCluster(limits=limits)) as there, opened(there) as one:
        for at in range(3):
            there.pinned = at
            await client_echo(one)
        async with opened(there), opened(there):
            await there.settle()
            for at in range(3):
                there.pinned = at
                refused = one.post(one.call("echo", text="x"))
                await refused.body()
                assert refused.status == 404


async def client_echo(client: Client) -> None:
    assert text_of(await client.post(client.call("echo", text="x")).answer()) == "x"


# --- an unreachable store --------------------------------------------------------------------------------------------


NEED_TASK_STORE = [
    *((R2025_11_25, method) for method in ("tools/call", "tasks/get", "tasks/result", "tasks/cancel")),
    *((R2026_07_28, method) for method in ("tools/call", "tasks/get", "tasks/update", "tasks/cancel")),
]


@pytest.mark.parametrize(("revision", "method"), NEED_TASK_STORE, ids=str)
@pytest.mark.parametrize("accept", ["application/json", "application/json, text/event-stream"])
async def test_unreachable_store_rejects_method_that_needs_it(revision: Revision, method: str, accept: str) -> None:
    shared = MemoryCluster()
    async with deployed(shared=shared, make=TaskServer) as there, trio.open_nursery() as nursery:
        client = Client(there, nursery, revision)
        client.capabilities = WITH_TASKS if revision is R2025_11_25 else {"extensions": {EXTENSION: {}}}
        call = client.call("work", name="a")
        there.pinned = 0
        if revision is R2025_11_25:
            as_object(call["params"])["task"] = {}
            await client.open()
        result = as_object((await client.post(call).answer())["result"])
        task = as_object(result["task"])["taskId"] if "task" in result else result["taskId"]
        # Another worker, which knows the session.
        there.pinned = 1
        await client_echo(client)
        shared.is_reachable = False
        others: dict[str, JsonObject] = {"tasks/update": {"taskId": task, "inputResponses": {}}}
        request = client.request(method, others.get(method, {"taskId": task}))
        reply = client.post(call if method == "tools/call" else request, accept=accept)
        await reply.body()
        assert (reply.status, reply.headers.get("retry-after")) == (503, "1")
        error = as_object((await reply.json())["error"])
        assert (error["code"], error["message"]) == (-32603, "a store of the server cannot be reached: try again later")
        nursery.cancel_scope.cancel()


async def test_unreachable_store_rejects_only_what_needs_it() -> None:
    shared = MemoryCluster()
    async with deployed(shared=shared) as there, opened(there) as client:
        there.pinned = 1
        await client_echo(client)
        call = client.post(client.call("steps", name="a", token=1))
        await call.message()
        shared.is_reachable = False
        # The session is in use at this worker: calls continue.
        await client_echo(client)
        there.workers[1].controlled.let("a1", "a2")
        assert text_of(await call.answer()) == "a"
        # The session is not known at this worker.
        there.pinned = 2
        replies = [client.post(client.call("echo", text="x"))]
        await replies[0].body()
        there.pinned = 1
        replies += [client.get(), client.get("1-1"), client.start("DELETE")]
        replies.append(Client(there, client.nursery, R2025_11_25).post(initialize()))
        for reply in replies:
            await reply.body()
            assert (reply.status, reply.headers.get("retry-after")) == (503, "1")
        modern = Client(there, client.nursery, R2026_07_28)
        await client_echo(modern)
        shared.is_reachable = True
        for at in range(3):
            there.pinned = at
            await client_echo(client)
        stream = client.get()
        await there.settle()
        assert stream.status == 200


def initialize() -> JsonObject:
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "0"},
        },
    }


async def test_plain_call_of_known_session_needs_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    async with deployed() as there, opened(there) as client:
        for at in range(3):
            there.pinned = at
            await client_echo(client)
        commands: list[str] = []

        async def count() -> None:
            commands.append("command")

        for worker in there.workers:
            monkeypatch.setattr(worker.cluster, "reach", count)
        for at in range(3):
            there.pinned = at
            await client_echo(client)
        assert commands == []


async def test_session_of_2024_11_05_over_streamable_http_is_served_by_each_worker() -> None:
    async with deployed() as there, opened(there, R2024_11_05) as client:
        await client.ask("resources/subscribe", {"uri": "memo://a"})
        there.pinned = 2
        stream = client.get()
        await there.settle()
        there.workers[0].server.resource_updated("memo://a")
        assert await stream.message() == updated("memo://a")
        there.pinned = 1
        again = client.get()
        await there.settle()
        assert stream.complete
        there.workers[0].server.resource_updated("memo://a")
        assert await again.message() == updated("memo://a")


async def test_endpoint_with_store_and_cluster_is_rejected() -> None:
    from mcp_server.stores import MemoryStore

    with pytest.raises(ValueError, match="`store` and `cluster` are both set"):
        ClusterServer().server.asgi(store=MemoryStore(), cluster=MemoryCluster().worker())


# --- HTTP+SSE (2024-11-05) -------------------------------------------------------------------------------------------


@asynccontextmanager
async def opened_sse(there: Deployment, **headers: str) -> AsyncIterator[tuple[Client, Reply]]:
    """Open a stream at worker 0, and return a client that posts to its session."""
    async with trio.open_nursery() as nursery:
        client = Client(there, nursery, R2024_11_05)
        client.headers.update(headers)
        client.path = "/sse"
        there.pinned = 0
        stream = client.get()
        event = await stream.event()
        assert event.event == "endpoint"
        client.path, _, client.query = event.data.decode().partition("?")
        there.pinned, there.next = None, 1
        yield client, stream
        nursery.cancel_scope.cancel()


async def posted(client: Client, message: JsonObject) -> int:
    reply = client.post(message)
    await reply.body()
    return reply.status


async def test_post_of_http_sse_reaches_stream_at_another_worker() -> None:
    async with deployed(legacy_sse=True) as there, opened_sse(there) as (client, stream):
        for _ in range(3):
            assert await posted(client, initialize()) == 202
            assert as_object((await stream.message())["result"])["protocolVersion"] == "2025-11-25"
            assert await posted(client, {"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202
        for number in range(6):
            assert await posted(client, client.call("echo", text=str(number))) == 202
            assert text_of(await stream.message()) == str(number)
        assert await posted(client, client.call("look")) == 202
        request = await stream.message()
        assert "error" in request or request["method"] == "roots/list"
        assert set(there.served[1:]) == {0, 1, 2}


async def test_message_of_http_sse_is_accepted_although_its_worker_is_slow(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with deployed(legacy_sse=True) as there, opened_sse(there) as (client, stream):
        first = there.workers[0].cluster
        first.is_paused = True
        reply = client.post(initialize())
        await trio.sleep(3)
        assert not reply.complete
        first.is_paused = False
        first.wake()
        await reply.body()
        assert reply.status == 202
        assert "result" in await stream.message()


async def test_lost_message_before_confirmed_barrier_is_not_accepted(autojump_clock: trio.testing.MockClock) -> None:
    async with deployed(legacy_sse=True) as there, opened_sse(there) as (client, _):
        first = there.workers[0].cluster
        first.is_paused = True
        reply = client.post(initialize())
        await trio.testing.wait_all_tasks_blocked()
        first.discard_messages()
        # A later barrier of the same sender arrives.
        for other in there.workers[1:]:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(other.server._service.barrier.wait_for_inboxes)
                await trio.testing.wait_all_tasks_blocked()
                first.is_paused = False
                first.wake()
        await reply.body()
        assert reply.status == 503


@pytest.mark.parametrize("failure", ["discarded", "killed"])
async def test_lost_message_of_http_sse_is_not_accepted(failure: str, autojump_clock: trio.testing.MockClock) -> None:
    async with deployed(legacy_sse=True) as there, opened_sse(there) as (client, stream):
        first = there.workers[0].cluster
        first.is_paused = True
        reply = client.post(initialize())
        await trio.testing.wait_all_tasks_blocked()
        assert not reply.complete
        if failure == "killed":
            await there.workers[0].kill()
        else:
            first.discard_messages()
            first.is_paused = False
            first.wake()
        await reply.body()
        assert (reply.status, reply.headers.get("retry-after")) == (503, "1")
        if failure == "discarded":
            assert await posted(client, initialize()) == 202
            assert "result" in await stream.message()


async def test_http_sse_session_ends_with_its_worker() -> None:
    async with deployed(legacy_sse=True) as there, opened_sse(there) as (client, stream):
        await there.workers[0].kill()
        assert await posted(client, client.call("echo", text="x")) == 404
        assert not stream.complete


async def test_http_sse_session_ends_with_its_stream() -> None:
    async with deployed(legacy_sse=True) as there, opened_sse(there) as (client, stream):
        assert await posted(client, initialize()) == 202
        stream.leave()
        await there.settle()
        for _ in range(3):
            assert await posted(client, client.call("echo", text="x")) == 404
        assert there.shared.changes == {}


async def test_http_sse_session_of_another_principal_is_unknown() -> None:
    async with (
        deployed(legacy_sse=True, authenticate=identify) as there,
        opened_sse(there, authorization="ann") as (client, stream),
    ):
        client.headers["authorization"] = "eve"
        for _ in range(3):
            assert await posted(client, initialize()) == 404
        # Its id is no id of Streamable HTTP.
        client.headers["authorization"] = "ann"
        other = Client(there, client.nursery, R2025_11_25)
        other.headers["authorization"] = "ann"
        other.session = client.query.partition("=")[2]
        assert await posted(other, other.call("echo", text="x")) == 404
        assert await posted(client, initialize()) == 202
        assert "result" in await stream.message()


async def test_http_sse_with_unreachable_store_is_rejected_at_other_workers() -> None:
    shared = MemoryCluster()
    async with deployed(legacy_sse=True, shared=shared) as there, opened_sse(there) as (client, stream):
        shared.is_reachable = False
        there.pinned = 1
        assert await posted(client, initialize()) == 503
        there.pinned = 0
        assert await posted(client, initialize()) == 202
        assert "result" in await stream.message()
