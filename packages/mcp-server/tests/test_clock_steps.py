"""The clock of the system is set while the server runs: nothing that is in use ends by it, and nothing lives for ever."""

from __future__ import annotations

import json
import time

import attrs
import pytest
import trio
import trio.testing
from asgi_host import Client, as_object, hosted, session
from http_gate import Gate, text_of
from hypothesis import given
from hypothesis import strategies as st
from resource_world import Table, access, guard
from task_server import Gates, begin, client_of, get, make_server, until

from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.limits import Limits
from mcp_core.revisions import R2025_11_25, R2026_07_28
from mcp_server import Context, InputPolicy, MemoryStore, MemoryTaskStore, Server, TaskPolicy
from mcp_server.asgi import Application
from mcp_server.stores.clock import StampClock

HOUR = 3_600.0
YEARS = 10 * 365 * 86_400.0
IDLE = 1_800.0

STEPS = pytest.mark.parametrize("seconds", [HOUR, -HOUR, YEARS, -YEARS], ids=["+hour", "-hour", "+years", "-years"])


class SystemClock:
    """The clocks of the system: that of the day, which can be set, and the one that cannot be set."""

    def __init__(self) -> None:
        self.day = 1_800_000_000.0
        self.steady = 5_000.0

    def time(self) -> float:
        return self.day

    def monotonic(self) -> float:
        return self.steady

    def step(self, seconds: float) -> None:
        """Set the clock."""
        self.day += seconds

    def pass_(self, seconds: float) -> None:
        """Let time go by."""
        self.day += seconds
        self.steady += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SystemClock:
    made = SystemClock()
    monkeypatch.setattr(time, "time", made.time)
    monkeypatch.setattr(time, "monotonic", made.monotonic)
    return made


# --- stamps ----------------------------------------------------------------------------------------------------------


def test_stamp_of_before_a_step_forward_does_not_grow_older_by_it(clock: SystemClock) -> None:
    stamps = StampClock()
    before = clock.day
    clock.pass_(100)
    clock.step(HOUR)
    assert stamps.age(before) == 100
    after = clock.day
    clock.pass_(50)
    assert (stamps.age(before), stamps.age(after)) == (150, 50)
    clock.step(YEARS)
    clock.pass_(10)
    assert (stamps.age(before), stamps.age(after)) == (160, 60)
    # After a day the stamps are what they are.
    clock.pass_(86_400)
    assert stamps.age(after) > YEARS


def test_stamp_of_the_future_is_as_old_as_one_of_now(clock: SystemClock) -> None:
    stamps = StampClock()
    before = clock.day
    clock.pass_(100)
    clock.step(-HOUR)
    assert stamps.age(before) == 0
    assert stamps.earliest() == clock.day
    clock.step(HOUR)
    # How much of it had passed is unknown.
    assert 0 <= stamps.age(before) <= 100


def test_step_that_is_taken_back_changes_nothing(clock: SystemClock) -> None:
    stamps = StampClock()
    before = clock.day
    for seconds in (HOUR, HOUR, -2 * HOUR, YEARS, -YEARS):
        clock.step(seconds)
        assert stamps.age(before) < 10
        clock.pass_(1)
    assert stamps.age(before) == 5
    assert stamps.earliest() == clock.day


@pytest.mark.property
@given(
    st.lists(st.tuples(st.floats(0, 2 * HOUR), st.sampled_from((0.0, 60.0, HOUR, YEARS, -60.0, -HOUR))), max_size=12)
)
def test_age_is_never_more_than_what_passed_nor_the_whole_step_less(changes: list[tuple[float, float]]) -> None:
    clock = SystemClock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", clock.time)
        patch.setattr(time, "monotonic", clock.monotonic)
        stamps = StampClock()
        made: list[tuple[float, float]] = []
        back = 0.0
        for seconds, step in changes:
            made.append((clock.day, clock.steady))
            clock.pass_(seconds)
            stamps.earliest()
            clock.step(step)
            back += max(0.0, -step)
            assert stamps.earliest() <= clock.day
            for stamp, at in made:
                assert 0 <= stamps.age(stamp) <= clock.steady - at + back + 1e-3
        if not any(step < 0 for _, step in changes) and clock.steady < 5_000 + 86_400:
            for stamp, at in made:
                assert stamps.age(stamp) == pytest.approx(clock.steady - at, abs=1e-3)


# --- sessions --------------------------------------------------------------------------------------------------------


@STEPS
async def test_session_in_use_outlives_a_step_of_the_clock(
    seconds: float, clock: SystemClock, autojump_clock: trio.testing.MockClock
) -> None:
    store, gate = MemoryStore(), Gate()
    app = gate.server.asgi(store=store, policy=EndpointPolicy(session_idle=IDLE))
    async with session(app) as client:
        lost = client.post(client.call("steps", name="a", token=1))
        primed = await lost.event()
        lost.leave()
        gate.let("a1", "a2")
        await lost.returned.wait()
        for number in range(16):
            await trio.sleep(300)
            clock.pass_(300)
            if number == 2:
                clock.step(seconds)
            assert "result" in await client.ask("ping")
            assert await store.load(client.session or "") is not None
        # Another process finds it as it is, and fresh.
        record = await store.load(client.session or "")
        assert record is not None
        assert clock.day - 300 <= record.used_at <= clock.day
        other = twin(client, Gate().server.asgi(store=store))
        assert "result" in await other.ask("ping")
        assert text_of(json.loads((await other.get(primed.id).rest())[-1].data)) == "a"


@STEPS
async def test_session_that_only_the_store_knows_outlives_a_step_of_the_clock(
    seconds: float, clock: SystemClock, autojump_clock: trio.testing.MockClock
) -> None:
    store = MemoryStore()
    async with session(Gate().server.asgi(store=store)) as client:
        await client.ask("ping")
    app = Gate().server.asgi(store=store, policy=EndpointPolicy(session_idle=IDLE))
    clock.pass_(60)
    clock.step(seconds)
    async with session(app) as client_before:
        for _ in range(2):
            # Old sessions are forgotten in between.
            await trio.sleep(IDLE + 1)
            await client_before.open()
        assert "result" in await twin(client, app, client_before).ask("ping")


@STEPS
async def test_session_that_is_not_used_ends_in_the_store_after_a_step_of_the_clock(
    seconds: float, clock: SystemClock, autojump_clock: trio.testing.MockClock
) -> None:
    store = MemoryStore()
    async with session(Gate().server.asgi(store=store)) as client:
        unused = client.session or ""
    app = Gate().server.asgi(store=store, policy=EndpointPolicy(session_idle=IDLE))
    clock.step(seconds)
    async with session(app) as client_before:
        for _ in range(6):
            await trio.sleep(IDLE + 1)
            clock.pass_(IDLE + 1)
            await client_before.open()
    assert await store.load(unused) is None


def twin(client: Client, app: Application, running: Client | None = None) -> Client:
    """The same client, talking to another process."""
    made = Client(app, (running or client).nursery, client.revision)
    made.session = client.session
    made._last_id = 1_000
    return made


# --- tasks -----------------------------------------------------------------------------------------------------------


@STEPS
async def test_task_outlives_a_step_of_the_clock_and_goes_when_its_time_has_passed(
    seconds: float, clock: SystemClock, autojump_clock: trio.testing.MockClock
) -> None:
    store = MemoryTaskStore()

    async def wait(seconds: float) -> None:
        for _ in range(int(seconds)):
            await trio.sleep(1)
            clock.pass_(1)

    async with client_of(make_server(Gates(), tasks=TaskPolicy(store=store, ttl=4)), R2026_07_28) as client:
        running, done = await begin(client, "work"), await begin(client, "must")
        await until(client, done, "completed")
        clock.step(seconds)
        await wait(2)
        assert (await get(client, done))["status"] == "completed"
        assert (await get(client, running))["status"] == "working"
        # What is of the future counts as made when the store was looked through first after the step.
        await wait(12)
        for task in (running, done):
            assert (await client.fail("tasks/get", {"taskId": task["taskId"]}))["code"] == -32602
        assert repr(store) == "<MemoryTaskStore of 0 tasks>"


@STEPS
async def test_task_of_an_earlier_process_is_not_worked_at_for_longer_than_its_time(
    seconds: float, clock: SystemClock, autojump_clock: trio.testing.MockClock
) -> None:
    store = MemoryTaskStore()

    def server() -> Server:
        made = Server("resumes", version="0", tasks=TaskPolicy(store=store, ttl=4))

        @made.tool(task="required", resumable=True)
        async def work() -> str:
            await trio.sleep_forever()
            raise AssertionError

        return made

    async with client_of(server(), R2026_07_28) as client:
        task = await begin(client, "work")
    clock.step(seconds)
    async with client_of(server(), R2026_07_28):
        await trio.sleep(5)
        record = await store.load(str(task["taskId"]))
        assert record is None or record.state.status == "failed"


# --- what is signed or sealed ----------------------------------------------------------------------------------------


async def test_token_is_judged_by_the_clock_of_the_system_and_what_runs_goes_on(
    clock: SystemClock, autojump_clock: trio.testing.MockClock
) -> None:
    table = Table(t=attrs.evolve(access(expires_at=clock.day + 600), issued_at=clock.day))
    app = Gate().server.asgi(auth=guard(table, clock=clock.time))
    async with hosted(app, R2025_11_25) as client:
        client.headers["authorization"] = "Bearer t"
        await client.open()
        standing = client.get()
        await standing.event()
        # The token has ended by what the clock says, and 30 seconds is what clocks may differ.
        for seconds, status in ((HOUR, 401), (-HOUR, 200), (-20, 200), (-HOUR, 401), (HOUR, 200), (20, 200)):
            clock.step(seconds)
            reply = client.post(client.request("ping"))
            await reply.body()
            assert reply.status == status
            assert not standing.complete
        clock.step(HOUR)
        await trio.sleep(600 + 31)
        # A stream that only listens ends with the token all the same.
        assert standing.complete


async def test_state_of_a_request_ends_with_a_step_forward_and_does_not_live_for_ever_after_one_backward(
    clock: SystemClock,
) -> None:
    server = Server("asks", version="0", input_policy=InputPolicy(seconds=600))

    @server.tool
    async def look(context: Context) -> str:
        return str(len(await context.list_roots()))

    async with hosted(server.asgi(), R2026_07_28) as client:
        again: JsonObject = {}
        for seconds, accepted in ((HOUR, False), (-HOUR, True), (-HOUR - 601, True)):
            asked = as_object((await client.post(client.call("look")).answer())["result"])
            (key,) = as_object(asked["inputRequests"])
            again = client.call("look")
            as_object(again["params"]).update(inputResponses={key: {"roots": []}}, requestState=asked["requestState"])
            clock.step(seconds)
            assert ("result" in await client.post(again).answer()) == accepted
        # The last one was made before the step backward, and ends when the clock comes there again.
        clock.pass_(HOUR + 601 + 601)
        assert "error" in await client.post(again).answer()


async def test_cursor_ends_with_a_step_forward_and_is_good_after_one_backward(clock: SystemClock) -> None:
    server = Gate(Limits(page_items=2)).server
    async with hosted(server.asgi(), R2026_07_28) as client:
        for seconds, accepted in ((2 * HOUR, False), (-2 * HOUR, True)):
            listed = as_object((await client.ask("tools/list"))["result"])
            clock.step(seconds)
            answer = await client.ask("tools/list", {"cursor": listed["nextCursor"]})
            assert ("result" in answer) == accepted
