"""The stores on Redis: their contract, on a real server."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest
import test_stores as scenarios
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from redis_proxy import Faults, open_proxy
from redis_server import RedisServer, open_redis
from redis_testbed import open_workers

from mcp_core.limits import Limits
from mcp_core.methods import NOTIFICATIONS_RESOURCES_UPDATED, NOTIFICATIONS_TOOLS_LIST_CHANGED
from mcp_server.cluster.redis.sessions import RedisSessions
from mcp_server.stores import MemoryStore, PendingNotification, SessionStore, SqliteStore, StoredEvent, TaskStore
from mcp_server.stores.contract import (
    DURABLE_STORE_CHECKS,
    DURABLE_TASK_STORE_CHECKS,
    STORE_CHECKS,
    TASK_STORE_CHECKS,
    StoreCheck,
    TaskStoreCheck,
)


def _name(check: object) -> str:
    return getattr(check, "__name__", "?")


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with open_redis(tmp_path / "redis") as server:
        yield server


@pytest.mark.spec("resume.no-cross-stream", "resume.event-id-unique")
@pytest.mark.parametrize("check", STORE_CHECKS + DURABLE_STORE_CHECKS, ids=_name)
async def test_redis_session_store_fulfills_contract(check: StoreCheck, redis: RedisServer) -> None:
    async with open_workers(redis.url) as workers:

        async def open_store(limits: Limits) -> SessionStore:
            return (await workers.open(limits)).sessions

        await check(open_store)


@pytest.mark.parametrize("check", TASK_STORE_CHECKS + DURABLE_TASK_STORE_CHECKS, ids=_name)
async def test_redis_task_store_fulfills_contract(check: TaskStoreCheck, redis: RedisServer) -> None:
    async with open_workers(redis.url) as workers:

        async def open_store(limits: Limits) -> TaskStore:
            return (await workers.open(limits)).tasks

        await check(open_store)


_FAULTS = {
    "lost replies": Faults(lost_replies=9),
    "slow replies in pieces": Faults(delay=0.005, piece=997),
}


@pytest.mark.parametrize("faults", _FAULTS.values(), ids=_FAULTS)
@pytest.mark.parametrize("check", STORE_CHECKS + DURABLE_STORE_CHECKS, ids=_name)
async def test_redis_session_store_fulfills_contract_with_faults(
    check: StoreCheck, faults: Faults, redis: RedisServer
) -> None:
    async with open_proxy(redis.port) as proxy, open_workers(proxy.url) as workers:
        proxy.faults = faults

        async def open_store(limits: Limits) -> SessionStore:
            return (await workers.open(limits)).sessions

        await check(open_store)


@pytest.mark.parametrize("faults", _FAULTS.values(), ids=_FAULTS)
@pytest.mark.parametrize("check", TASK_STORE_CHECKS + DURABLE_TASK_STORE_CHECKS, ids=_name)
async def test_redis_task_store_fulfills_contract_with_faults(
    check: TaskStoreCheck, faults: Faults, redis: RedisServer
) -> None:
    async with open_proxy(redis.port) as proxy, open_workers(proxy.url) as workers:
        proxy.faults = faults

        async def open_store(limits: Limits) -> TaskStore:
            return (await workers.open(limits)).tasks

        await check(open_store)


# --- equivalence of the stores ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server for many examples."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    try:
        trio.run(server.started)
        yield server
    finally:
        server.kill()


_PREFIXES = itertools.count()
_CHANGES = st.one_of(
    st.just(PendingNotification(NOTIFICATIONS_TOOLS_LIST_CHANGED.name)),
    st.sampled_from(("t://a", "t://a/", "t://a/b", "t://a/b/c", "t://ab", "t://d")).map(
        lambda uri: PendingNotification(NOTIFICATIONS_RESOURCES_UPDATED.name, uri)
    ),
)
_URIS = st.sampled_from(("t://a", "t://a/b", "t://a/b/c", "t://d"))
_CHANGE_OPERATIONS = st.one_of(
    st.tuples(st.just("record"), _CHANGES),
    st.tuples(st.just("record"), _CHANGES),
    st.tuples(st.just("subscribe"), _URIS),
    st.tuples(st.just("unsubscribe"), _URIS),
    st.tuples(st.just("append"), _CHANGES),
    st.tuples(st.just("remove"), _CHANGES),
    st.tuples(st.just("compact")),
)


async def _pending_after_each(store: SessionStore, operations: Sequence[tuple[object, ...]]) -> list[object]:
    outcomes: list[object] = []
    await store.save(scenarios._RECORD)
    stream = await store.begin("a", (), worker="w")
    number = 0
    for operation in operations:
        match operation:
            case "record", PendingNotification() as change:
                store.record_notification(change)
            case "subscribe", str(uri):
                await store.subscribe("a", uri)
            case "unsubscribe", str(uri):
                await store.unsubscribe("a", uri)
            case "append", PendingNotification() as change:
                number += 1
                await store.append("a", [StoredEvent(stream, number, b"{}", notification=change)])
            case "remove", PendingNotification() as change:
                await store.remove_notifications("a", [change])
            case ("compact",):
                if isinstance(store, RedisSessions):
                    await store._pending("a", compact=True)
        outcomes.append(frozenset(await store.pending_notifications("a")))
    await store.aclose()
    return outcomes


async def _on_redis(
    server: RedisServer,
    run: Callable[[SessionStore, Sequence[tuple[object, ...]]], Awaitable[list[object]]],
    operations: Sequence[tuple[object, ...]],
) -> list[object]:
    async with open_workers(server.url, prefix=f"p{next(_PREFIXES)}") as workers:
        return await run((await workers.open()).sessions, operations)


@pytest.mark.property
@settings(max_examples=60)
@given(st.lists(scenarios._OPERATIONS, max_size=30))
def test_redis_store_behaves_as_memory_store(lasting: RedisServer, operations: list[tuple[object, ...]]) -> None:
    in_memory = trio.run(scenarios._run_operations, MemoryStore(), operations)
    assert trio.run(_on_redis, lasting, scenarios._run_operations, operations) == in_memory


@pytest.mark.property
@settings(max_examples=100)
@given(st.lists(_CHANGE_OPERATIONS, max_size=25))
def test_redis_store_has_pending_changes_of_sqlite_store(
    lasting: RedisServer, operations: list[tuple[object, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        in_file = trio.run(_pending_after_each, SqliteStore(Path(folder) / "sessions.sqlite"), operations)
    assert trio.run(_on_redis, lasting, _pending_after_each, operations) == in_file
