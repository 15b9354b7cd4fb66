"""Steps of the system clock while the server runs: they neither end what is in use nor keep anything forever."""

from __future__ import annotations

import json
import time

import attrs
import pytest
import trio
import trio.testing
from asgi_host import Client, as_object, hosted, session
from controlled_server import ControlledServer, text_of
from hypothesis import given
from hypothesis import strategies as st
from resource_world import Table, access, guard
from task_server import ToolControl, get_task, make_server, open_client, start_task, wait_for_status

from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.limits import Limits
from mcp_core.revisions import R2025_11_25, R2026_07_28
from mcp_server import Context, InputPolicy, Server, TaskPolicy
from mcp_server.asgi import Application
from mcp_server.stores import MemoryStore, MemoryTaskStore
from mcp_server.stores.clock import StampClock

HOUR = 3_600.0
YEARS = 10 * 365 * 86_400.0
IDLE = 1_800.0

STEPS = pytest.mark.parametrize("seconds", [HOUR, -HOUR, YEARS, -YEARS], ids=["+hour", "-hour", "+years", "-years"])


class SystemClock:
    """The wall clock, which can be set, and the monotonic clock."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000.0
        self.steady = 5_000.0

    def time(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    def step(self, seconds: float) -> None:
        """Set the wall clock."""
        self.wall += seconds

    def advance(self, seconds: float) -> None:
        """Advance both clocks."""
        self.wall += seconds
        self.steady += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SystemClock:
    clock = SystemClock()
    monkeypatch.setattr(time, "time", clock.time)
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    return clock


# --- stamps ----------------------------------------------------------------------------------------------------------


def test_stamp_before_forward_step_does_not_age_by_it(clock: SystemClock) -> None:
    stamps = StampClock()
    stamp_before = clock.wall
    clock.advance(100)
    clock.step(HOUR)
    assert stamps.age(stamp_before) == 100
    after = clock.wall
    clock.advance(50)
    assert (stamps.age(stamp_before), stamps.age(after)) == (150, 50)
    clock.step(YEARS)
    clock.advance(10)
    assert (stamps.age(stamp_before), stamps.age(after)) == (160, 60)
    # After a day the wall clock alone counts.
    clock.advance(86_400)
    assert stamps.age(after) > YEARS


def test_stamp_in_future_has_age_of_now(clock: SystemClock) -> None:
    stamps = StampClock()
    stamp_before = clock.wall
    clock.advance(100)
    clock.step(-HOUR)
    assert stamps.age(stamp_before) == 0
    assert stamps.earliest() == clock.wall
    clock.step(HOUR)
    # How much of the time had passed is unknown.
    assert 0 <= stamps.age(stamp_before) <= 100


def test_reverted_step_changes_nothing(clock: SystemClock) -> None:
    stamps = StampClock()
    stamp_before = clock.wall
    for seconds in (HOUR, HOUR, -2 * HOUR, YEARS, -YEARS):
        clock.step(seconds)
        assert stamps.age(stamp_before) < 10
        clock.advance(1)
    assert stamps.age(stamp_before) == 5
    assert stamps.earliest() == clock.wall


@pytest.mark.property
@given(
    st.lists(st.tuples(st.floats(0, 2 * HOUR), st.sampled_from((0.0, 60.0, HOUR, YEARS, -60.0, -HOUR))), max_size=12)
)
def test_age_is_bounded_by_elapsed_time_and_backward_steps(changes: list[tuple[float, float]]) -> None:
    clock = SystemClock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", clock.time)
        patch.setattr(time, "monotonic", clock.monotonic)
        stamps = StampClock()
        stamped: list[tuple[float, float]] = []
        stepped_back = 0.0
        for seconds, step in changes:
            stamped.append((clock.wall, clock.steady))
            clock.advance(seconds)
            stamps.earliest()
            clock.step(step)
            stepped_back += max(0.0, -step)
            assert stamps.earliest() <= clock.wall
            for stamp, at in stamped:
                assert 0 <= stamps.age(stamp) <= clock.steady - at + stepped_back + 1e-3
        if not any(step < 0 for _, step in changes) and clock.steady < 5_000 + 86_400:
            for stamp, at in stamped:
                assert stamps.age(stamp) == pytest.approx(clock.steady - at, abs=1e-3)


# --- sessions --------------------------------------------------------------------------------------------------------


@STEPS
async def test_session_in_use_survives_clock_step(
    seconds: float, clock: SystemClock, autojump_clock: trio.testing.MockClock
) -> None:
    store, held = MemoryStore(), ControlledServer()
    app = held.server.asgi(store=store, policy=EndpointPolicy(session_idle=IDLE))
    async with session(app) as client:
        interrupted = client.post(client.call("steps", name="a", token=1))
        first_event = await interrupted.event()
        interrupted.leave()
        held.let("a1", "a2")
        await interrupted.returned.wait()
        for number in range(16):
            await trio.sleep(300)
            clock.advance(300)
            if number == 2:
                clock.step(seconds)
            assert "result" in await client.ask("ping")
            assert await store.load(client.session or "") is not None
        # Another process finds the session with a recent time stamp.
        record = await store.load(client.session or "")
        assert record is not None
        assert clock.wall - 300 <= record.used_at <= clock.wall
        other = copy_client(client, ControlledServer().server.asgi(store=store))
        assert "result" in await other.ask("ping")
        assert text_of(json.loads((await other.get(first_event.id).rest())[-1].data)) == "a"


@STEPS
async def test_stored_session_survives_clock_step(
    seconds: float, clock: SystemClock, autojump_clock: trio.testing.MockClock
) -> None:
    store = MemoryStore()
    async with session(ControlledServer().server.asgi(store=store)) as client:
        await client.ask("ping")
    app = ControlledServer().server.asgi(store=store, policy=EndpointPolicy(session_idle=IDLE))
    clock.advance(60)
    clock.step(seconds)
    async with session(app) as client_before:
        for _ in range(2):
            # Old sessions are purged meanwhile.
            await trio.sleep(IDLE + 1)
            await client_before.open()
        assert "result" in await copy_client(client, app, client_before).ask("ping")


@STEPS
async def test_idle_stored_session_expires_after_clock_step(
    seconds: float, clock: SystemClock, autojump_clock: trio.testing.MockClock
) -> None:
    store = MemoryStore()
    async with session(ControlledServer().server.asgi(store=store)) as client:
        idle_session = client.session or ""
    app = ControlledServer().server.asgi(store=store, policy=EndpointPolicy(session_idle=IDLE))
    clock.step(seconds)
    async with session(app) as client_before:
        for _ in range(6):
            await trio.sleep(IDLE + 1)
            clock.advance(IDLE + 1)
            await client_before.open()
    assert await store.load(idle_session) is None


def copy_client(client: Client, app: Application, running: Client | None = None) -> Client:
    """Return a copy of a client, connected to another process."""
    copy = Client(app, (running or client).nursery, client.revision)
    copy.session = client.session
    copy._last_id = 1_000
    return copy


# --- tasks -----------------------------------------------------------------------------------------------------------


@STEPS
async def test_task_survives_clock_step_and_expires_after_ttl(
    seconds: float, clock: SystemClock, autojump_clock: trio.testing.MockClock
) -> None:
    store = MemoryTaskStore()

    async def wait(seconds: float) -> None:
        for _ in range(int(seconds)):
            await trio.sleep(1)
            clock.advance(1)

    async with open_client(make_server(ToolControl(), tasks=TaskPolicy(store=store, ttl=4)), R2026_07_28) as client:
        running, done = await start_task(client, "work"), await start_task(client, "must")
        await wait_for_status(client, done, "completed")
        clock.step(seconds)
        await wait(2)
        assert (await get_task(client, done))["status"] == "completed"
        assert (await get_task(client, running))["status"] == "working"
        # A stamp in the future counts from the first purge after the step.
        await wait(12)
        for task in (running, done):
            assert (await client.fail("tasks/get", {"taskId": task["taskId"]}))["code"] == -32602
        assert repr(store) == "<MemoryTaskStore of 0 tasks>"


@STEPS
async def test_resumed_task_ends_after_ttl_in_spite_of_clock_step(
    seconds: float, clock: SystemClock, autojump_clock: trio.testing.MockClock
) -> None:
    store = MemoryTaskStore()

    def server() -> Server:
        resumable = Server("resumes", version="0", tasks=TaskPolicy(store=store, ttl=4))

        @resumable.tool(task="required", resumable=True)
        async def work() -> str:
            await trio.sleep_forever()
            raise AssertionError

        return resumable

    async with open_client(server(), R2026_07_28) as client:
        task = await start_task(client, "work")
    clock.step(seconds)
    async with open_client(server(), R2026_07_28):
        await trio.sleep(5)
        record = await store.load(str(task["taskId"]))
        assert record is None or record.state.status == "failed"


# --- tokens, sealed state and cursors --------------------------------------------------------------------------------


async def test_token_expires_by_wall_clock_and_open_stream_continues(
    clock: SystemClock, autojump_clock: trio.testing.MockClock
) -> None:
    table = Table(t=attrs.evolve(access(expires_at=clock.wall + 600), issued_at=clock.wall))
    app = ControlledServer().server.asgi(auth=guard(table, clock=clock.time))
    async with hosted(app, R2025_11_25) as client:
        client.headers["authorization"] = "Bearer t"
        await client.open()
        stream = client.get()
        await stream.event()
        # The wall clock decides about the token, with a tolerance of 30 seconds.
        for seconds, status in ((HOUR, 401), (-HOUR, 200), (-20, 200), (-HOUR, 401), (HOUR, 200), (20, 200)):
            clock.step(seconds)
            reply = client.post(client.request("ping"))
            await reply.body()
            assert reply.status == status
            assert not stream.complete
        clock.step(HOUR)
        await trio.sleep(600 + 31)
        # A stream without a request ends with the token in any case.
        assert stream.complete


async def test_request_state_expires_after_forward_step_and_eventually_after_backward(
    clock: SystemClock,
) -> None:
    server = Server("asks", version="0", input_policy=InputPolicy(seconds=600))

    @server.tool
    async def look(context: Context) -> str:
        return str(len(await context.list_roots()))

    async with hosted(server.asgi(), R2026_07_28) as client:
        retry: JsonObject = {}
        for seconds, accepted in ((HOUR, False), (-HOUR, True), (-HOUR - 601, True)):
            result = as_object((await client.post(client.call("look")).answer())["result"])
            (key,) = as_object(result["inputRequests"])
            retry = client.call("look")
            as_object(retry["params"]).update(inputResponses={key: {"roots": []}}, requestState=result["requestState"])
            clock.step(seconds)
            assert ("result" in await client.post(retry).answer()) == accepted
        # The last state is from before the backward step, and expires when the clock reaches that time again.
        clock.advance(HOUR + 601 + 601)
        assert "error" in await client.post(retry).answer()


async def test_cursor_expires_after_forward_step_and_not_after_backward(clock: SystemClock) -> None:
    server = ControlledServer(Limits(page_items=2)).server
    async with hosted(server.asgi(), R2026_07_28) as client:
        for seconds, accepted in ((2 * HOUR, False), (-2 * HOUR, True)):
            page = as_object((await client.ask("tools/list"))["result"])
            clock.step(seconds)
            answer = await client.ask("tools/list", {"cursor": page["nextCursor"]})
            assert ("result" in answer) == accepted
