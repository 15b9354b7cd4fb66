"""Changes announced while a session is only in the store, or has no stream: its client is notified once, later."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing
from asgi_host import Client, Reply, as_object
from controlled_server import ControlledServer
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_core.revisions import R2024_11_05, R2025_06_18, R2025_11_25, Revision
from mcp_server import Server
from mcp_server.stores import PendingNotification, SqliteStore, StoreError


class Process:
    """A process of the server: a server, its endpoint, and its open store."""

    def __init__(self, folder: Path) -> None:
        self.tools = ControlledServer()
        self.store = SqliteStore(folder / "sessions.sqlite")
        self.app = self.tools.server.asgi(store=self.store)

    def announce(self, *uris: str) -> None:
        for uri in uris:
            self.tools.server.resource_updated(uri)


@asynccontextmanager
async def process(folder: Path, client: Client) -> AsyncIterator[Process]:
    """Run a process that a client is connected to. The block ends as if the process were killed: nothing more is
    stored.
    """
    try:
        async with trio.open_nursery() as nursery:
            started = Process(folder)
            client.app, client.nursery = started.app, nursery
            yield started
            await started.store.aclose()
            for reply in client.replies:
                reply.leave()
                reply.reading.set()
            client.replies.clear()
            nursery.cancel_scope.cancel()
    except* trio.ClosedResourceError:
        pass  # writes that were pending


def new_client(revision: Revision = R2025_11_25) -> Client:
    """Return a client that can be connected to each process."""
    nursery = trio.lowlevel.current_task().parent_nursery
    assert nursery is not None
    return Client(ControlledServer().server.asgi(), nursery, revision)


async def wait_until_settled(store: SqliteStore) -> None:
    """Wait until the calls of the store and the tasks that follow from them have ended."""
    while True:
        await trio.testing.wait_all_tasks_blocked()
        calls = store.thread.requested
        # The store runs calls in order, so this one ends after all pending calls.
        await store.load("")
        await trio.testing.wait_all_tasks_blocked()
        if store.thread.requested == calls + 1:
            break


async def notifications_of(reply: Reply, process: Process) -> list[str]:
    """Return the notifications on a standalone stream so far: the URI of each update, the method of others."""
    await wait_until_settled(process.store)
    found = []
    while reply._events or reply._fed < len(reply.chunks):
        if reply._events:
            event = reply._events.pop(0)
            if event.data:
                message = json.loads(event.data)
                found.append(str(as_object(message.get("params", {})).get("uri", message["method"])))
        else:
            for each in reply._parser.receive_data(reply.chunks[reply._fed]):
                assert not isinstance(each, Exception)
                reply._events.append(each)
            reply._fed += 1
    return found


@pytest.mark.parametrize("revision", [R2024_11_05, R2025_06_18, R2025_11_25], ids=str)
async def test_change_before_first_request_of_session_delivered(tmp_path: Path, revision: Revision) -> None:
    client = new_client(revision)
    async with process(tmp_path, client) as first:
        await client.open()
        for number in range(4):
            await client.ask("resources/subscribe", {"uri": f"memo://{number}"})
        stream = client.get()
        first.announce("memo://0")
        assert await notifications_of(stream, first) == ["memo://0"]
    async with process(tmp_path, client) as second:
        second.announce("memo://1", "memo://2", "memo://1", "memo://unknown")
        await client.ask("ping")
        second.announce("memo://3")
        stream = client.get()
        assert await notifications_of(stream, second) == ["memo://1", "memo://2", "memo://3"]
    async with process(tmp_path, client) as third:
        assert await notifications_of(client.get(), third) == []


LISTS = [
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
]


def change_lists(tools: ControlledServer) -> None:
    """Remove a tool, and add a prompt and a resource."""
    server = tools.server
    server.remove_tool("fail")

    @server.prompt
    async def kept() -> str:
        return "kept"

    @server.resource("memo://listed", name="listed")
    async def listed() -> str:
        return "listed"


async def test_list_changes_delivered_to_stored_session(tmp_path: Path) -> None:
    client = new_client()
    async with process(tmp_path, client):
        await client.open()
    async with process(tmp_path, client) as second:
        change_lists(second.tools)
        assert sorted(await notifications_of(client.get(), second)) == sorted(LISTS)


async def test_change_for_session_without_stream_delivered_after_restart(tmp_path: Path) -> None:
    client = new_client()
    async with process(tmp_path, client) as first:
        await client.open()
        await client.ask("resources/subscribe", {"uri": "memo://x"})
        first.announce("memo://x")
        first.tools.server.remove_tool("fail")
    # A process without events changes nothing.
    async with process(tmp_path, client):
        pass
    async with process(tmp_path, client) as second:
        second.announce("memo://x")
        stream = client.get()
        assert await notifications_of(stream, second) == ["memo://x", LISTS[0]]
        second.announce("memo://x")
        assert await notifications_of(stream, second) == ["memo://x"]


async def test_change_delivered_once_when_process_is_killed_during_blocked_stream(
    tmp_path: Path,
) -> None:
    client = new_client()
    async with process(tmp_path, client) as first:
        await client.open()
        for uri in ("memo://x", "memo://y"):
            await client.ask("resources/subscribe", {"uri": uri})
        stream = client.get()
        primed = await stream.event()
        stream.reading = trio.Event()
        first.announce("memo://x")
        await wait_until_settled(first.store)
        # The first change is in the log and waits for the client. The second one waits for the first.
        first.announce("memo://y")
        await wait_until_settled(first.store)
    async with process(tmp_path, client) as second:
        assert await notifications_of(client.get(primed.id), second) == ["memo://x", "memo://y"]


async def test_resumed_stream_delivers_missed_changes(tmp_path: Path) -> None:
    client = new_client()
    async with process(tmp_path, client) as first:
        await client.open()
        await client.ask("resources/subscribe", {"uri": "memo://x"})
        stream = client.get()
        primed = await stream.event()
        first.announce("memo://x")
        await notifications_of(stream, first)
    async with process(tmp_path, client) as second:
        second.tools.server.remove_tool("fail")
        second.announce("memo://x")
        # The unacknowledged event is replayed with its id; the new events follow.
        assert await notifications_of(client.get(primed.id), second) == ["memo://x", LISTS[0], "memo://x"]


async def test_change_of_unsubscribed_resource_not_delivered(tmp_path: Path) -> None:
    client = new_client()
    async with process(tmp_path, client) as first:
        await client.open()
        for uri in ("memo://x", "memo://y", "memo://z"):
            assert "result" in await client.ask("resources/subscribe", {"uri": uri})
        first.announce("memo://x", "memo://x/1", "memo://y/1", "memo://z")
        await client.ask("resources/unsubscribe", {"uri": "memo://x"})
        assert await notifications_of(client.get(), first) == ["memo://y/1", "memo://z"]
    async with process(tmp_path, client) as second:
        second.announce("memo://x", "memo://y/1", "memo://z")
        await client.ask("resources/unsubscribe", {"uri": "memo://y"})
        assert await notifications_of(client.get(), second) == ["memo://z"]


async def test_change_of_undeclared_capability_dropped(tmp_path: Path) -> None:
    client = new_client()
    async with process(tmp_path, client) as first:
        await client.open()
        await client.ask("resources/subscribe", {"uri": "memo://x"})
        first.announce("memo://x")
        first.store.record_notification(PendingNotification("notifications/of/another/version"))
    async with process(tmp_path, client) as second:
        client.app = Server("bare", version="0").asgi(store=second.store)
        assert "result" in await client.ask("ping")
        assert await second.store.pending_notifications(client.session or "") == ()


async def test_ended_session_not_notified(tmp_path: Path) -> None:
    client = new_client()
    async with process(tmp_path, client) as first:
        await client.open()
        deleted = client.session or ""
        await client.start("DELETE").body()
        await client.open()
        expired = client.session or ""
        record = await first.store.load(expired)
        assert record is not None
        await first.store.save(attrs.evolve(record, used_at=record.used_at - 1.2 * 1800))
    async with process(tmp_path, client) as second:
        second.tools.server.remove_tool("fail")
        for session in (deleted, expired):
            client.session = session
            refused = client.get()
            assert (await refused.body(), refused.status)[1] == 404
        assert await second.store.pending_notifications(deleted) == ()


async def test_change_announced_in_worker_thread_is_stored(tmp_path: Path) -> None:
    client = new_client()
    async with process(tmp_path, client):
        await client.open()
        await client.ask("resources/subscribe", {"uri": "memo://x"})
    async with process(tmp_path, client) as second:
        second.tools.server.tool(name="touch", description="Announces a change.")(lambda: second.announce("memo://x"))
        modern = Client(second.app, client.nursery)
        assert "result" in await modern.post(modern.call("touch")).answer()
        assert await notifications_of(client.get(), second) == [LISTS[0], "memo://x"]


def test_registration_before_server_runs_is_not_stored(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.sqlite")
    tools = ControlledServer()
    app = tools.server.asgi(store=store)
    tools.server.remove_tool("fail")
    tools.server.resource_updated("memo://x")
    assert store.thread.requested == 0
    assert app.sessions == 0
    store.thread.connection.close()


# --- random sequences -------------------------------------------------------------------------------------------------

_URIS = st.sampled_from(("memo://a", "memo://b"))
_STEPS = st.one_of(
    st.tuples(st.just("subscribe"), _URIS),
    st.tuples(st.just("unsubscribe"), _URIS),
    st.tuples(st.just("announce"), st.sampled_from(("memo://a", "memo://a/1", "memo://b", "memo://c", LISTS[0]))),
    st.tuples(st.sampled_from(("restart", "ping", "open", "resume", "leave")), st.just("")),
)


class DeliveryModel:
    """A model of the notifications that the client must receive."""

    def __init__(self) -> None:
        self.subscribed: set[str] = set()
        self.pending: dict[str, None] = {}
        self.on_stream: list[str] = []

    def concerns(self, what: str) -> bool:
        return what in LISTS or any(uri in self.subscribed for uri in (what, what.rpartition("/")[0]))

    def announce(self, what: str) -> None:
        if self.concerns(what):
            self.pending[what] = None

    def unsubscribe(self, uri: str) -> None:
        self.subscribed.discard(uri)
        self.pending = {what: None for what in self.pending if self.concerns(what)}

    def deliver(self) -> list[str]:
        delivered = list(self.pending)
        self.pending.clear()
        self.on_stream += delivered
        return delivered


def priming_id(stream: Reply) -> str:
    """Return the id of the priming event of a stream, after the replayed events."""
    events = b"".join(stream.chunks).decode().split("\n\n")
    return next(event.split()[1] for event in events if event.startswith("id: "))


async def check_steps(folder: Path, steps: Sequence[tuple[str, str]]) -> None:
    """Run the steps, and compare the notifications after each."""
    client, expected = new_client(), DeliveryModel()
    left = list(steps)
    opened = False
    primed: str | None = None
    while left or not opened:
        async with process(folder, client) as running:
            if not opened:
                await client.open()
                opened = True
            stream: Reply | None = None
            live = False
            while left:
                step, what = left.pop(0)
                replayed: list[str] = []
                match step:
                    case "restart":
                        break
                    case "subscribe" | "unsubscribe":
                        assert "result" in await client.ask(f"resources/{step}", {"uri": what})
                        expected.subscribed.add(what) if step == "subscribe" else expected.unsubscribe(what)
                    case "announce":
                        expected.announce(what)
                        if what in LISTS:
                            running.tools.server.tool(name="another", description="Return an empty string.")(lambda: "")
                            running.tools.server.remove_tool("another")
                        else:
                            running.announce(what)
                    case "ping":
                        assert "result" in await client.ask("ping")
                    case "leave" if stream is not None:
                        stream.leave()
                        await stream.returned.wait()
                        stream = None
                    case "open" | "resume":
                        last_event_id = primed if step == "resume" else None
                        stream = client.get(last_event_id)
                        if last_event_id is not None:
                            replayed = list(expected.on_stream)
                        if last_event_id is None or not live:
                            # A new stream begins after the replayed events.
                            expected.on_stream, primed, live = [], None, True
                if stream is not None:
                    delivered = replayed + expected.deliver()
                    assert await notifications_of(stream, running) == delivered
                    primed = primed or priming_id(stream)


@pytest.mark.property
@settings(deadline=None, max_examples=60)
@given(st.lists(_STEPS, max_size=25))
def test_changes_delivered_once_in_random_sequences(steps: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trio.run(check_steps, Path(folder), steps)


async def test_unreadable_session_leaves_no_state(tmp_path: Path) -> None:
    client = new_client()
    async with process(tmp_path, client):
        await client.open()
    async with process(tmp_path, client) as second:

        async def fail(session: str) -> tuple[PendingNotification, ...]:
            raise StoreError("the store x failed")

        original, second.store.pending_notifications = second.store.pending_notifications, fail  # type: ignore[method-assign]
        refused = client.post(client.request("ping"))
        assert (await refused.body(), refused.status)[1] == 503
        assert second.app.budget.owners == 0
        assert second.app.sessions == 0
        second.store.pending_notifications = original  # type: ignore[method-assign]
        assert "result" in await client.ask("ping")
