"""Workers on one Redis: messages, lost workers, lost data, and the keys that seal states."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing
from redis_proxy import Faults, open_proxy
from redis_server import RedisServer, open_redis, until
from redis_testbed import Recorder, Workers, open_workers

from mcp_core.features.tasks import TaskState
from mcp_core.limits import Limits
from mcp_core.methods import NOTIFICATIONS_RESOURCES_UPDATED, NOTIFICATIONS_TOOLS_LIST_CHANGED
from mcp_server.cluster import Cluster
from mcp_server.cluster.contract import CLUSTER_CHECKS, ClusterCheck
from mcp_server.cluster.messages import ChangeMade, ClientMessageReceived, SessionUpdated, TaskCancelRequested
from mcp_server.cluster.redis import RedisCluster
from mcp_server.cluster.redis.address import RedisAddress
from mcp_server.cluster.redis.connection import RedisConnection
from mcp_server.cluster.redis.key_table import KeyNames, find_row
from mcp_server.cluster.redis.keys import SealingKeys
from mcp_server.stores import PendingNotification, SessionRecord, StoredEvent, StoreError, TaskRecord

_RECORD = SessionRecord(id="a", principal="Ann", revision="2025-11-25", client={}, used_at=1.0)
_TOOLS = PendingNotification(NOTIFICATIONS_TOOLS_LIST_CHANGED.name)


def _updated(uri: str) -> PendingNotification:
    return PendingNotification(NOTIFICATIONS_RESOURCES_UPDATED.name, uri)


def _task(id: str, worker: str) -> TaskRecord:
    state = TaskState(id=id, created_at=1.0, updated_at=1.0, ttl=60_000, poll_interval=None)
    return TaskRecord(
        state=state, owner="Ann", tool="work", params={}, revision="2026-07-28", capabilities={}, worker=worker
    )


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with open_redis(tmp_path / "redis") as server:
        yield server


@pytest.fixture
async def workers(redis: RedisServer) -> AsyncIterator[Workers]:
    async with open_workers(redis.url) as found:
        yield found


# --- messages --------------------------------------------------------------------------------------------------------


async def test_broadcast_reaches_all_other_workers_in_order(workers: Workers) -> None:
    recorders = [Recorder() for _ in range(3)]
    clusters = [await workers.open(receiver=recorder) for recorder in recorders]
    messages = [SessionUpdated(f"session {number}") for number in range(500)]
    for message in messages:
        clusters[0].broadcast(message)
    for recorder in recorders[1:]:
        assert await recorder.until_received(500) == messages
        assert {sender for sender, _ in recorder.received} == {clusters[0].worker}
        assert recorder.misses == 0
    clusters[1].broadcast(ChangeMade("notifications/tools/list_changed"))
    assert await recorders[0].until_received(1) == [ChangeMade("notifications/tools/list_changed")]


async def test_sent_message_reaches_only_its_worker(workers: Workers) -> None:
    recorders = [Recorder() for _ in range(3)]
    clusters = [await workers.open(receiver=recorder) for recorder in recorders]
    await until(lambda: clusters[0].is_alive(clusters[1].worker))
    message = ClientMessageReceived("a", {"jsonrpc": "2.0", "method": "notifications/cancelled"})
    clusters[0].send(clusters[1].worker, message)
    clusters[0].broadcast(SessionUpdated("last"))
    assert await recorders[1].until_received(2)
    assert (clusters[0].worker, message) in recorders[1].received
    assert await recorders[2].until_received(1) == [SessionUpdated("last")]


async def test_message_whose_reply_is_lost_arrives_once(redis: RedisServer, workers: Workers) -> None:
    recorder = Recorder()
    await workers.open(receiver=recorder)
    async with open_proxy(redis.port) as proxy, open_workers(proxy.url) as others:
        sender = await others.open()
        proxy.faults.lost_replies = 9
        for number in range(100):
            sender.broadcast(TaskCancelRequested(str(number)))
            if number % 10 == 0:
                await sender.sessions.load("x")
        assert await recorder.until_received(100) == [TaskCancelRequested(str(number)) for number in range(100)]
        assert proxy.resets > 1


async def test_command_is_sent_again_while_connections_break_quickly(redis: RedisServer) -> None:
    async with open_proxy(redis.port) as proxy, open_workers(proxy.url) as workers:
        cluster = await workers.open()
        await cluster.replays.take(b"1", 60)
        proxy.faults.lost_calls = 4
        assert await cluster.replays.take(b"2", 60)
        assert proxy.resets == 4


async def test_worker_that_missed_trimmed_messages_is_informed(redis: RedisServer, workers: Workers) -> None:
    recorder, there = Recorder(), Recorder()
    async with open_proxy(redis.port) as proxy, open_workers(proxy.url) as others:
        await others.open(receiver=recorder)
        await workers.open(receiver=there)
        sender = await workers.open()
        proxy.faults.refuses = True
        proxy.cut()
        for number in range(20):
            sender.broadcast(ClientMessageReceived(str(number), {"text": "x" * 1024 * 1024}))
            await there.until_received(number + 1)
        assert there.misses == 0
        assert int(redis.command("xlen", "{mcp}:messages")) < 16
        proxy.faults.refuses = False
        while not recorder.misses:
            await recorder.next()
        received = await recorder.until_received(1)
        assert 0 < len(received) < 20


async def test_full_queue_of_messages_informs_receivers(redis: RedisServer, workers: Workers) -> None:
    recorder = Recorder()
    await workers.open(receiver=recorder)
    async with open_proxy(redis.port) as proxy, open_workers(proxy.url) as others:
        sender = await others.open()
        proxy.faults.refuses = True
        proxy.cut()
        for number in range(15_000):
            sender.broadcast(SessionUpdated(str(number)))
        proxy.faults.refuses = False
        while not recorder.misses:
            await recorder.next()
        while recorder.received[-1:] != [(sender.worker, SessionUpdated("14999"))]:
            await recorder.next()
        assert len(recorder.received) < 15_000


# --- workers ---------------------------------------------------------------------------------------------------------


async def test_worker_that_ends_is_lost(workers: Workers) -> None:
    recorder = Recorder()
    first = await workers.open(receiver=recorder)
    second = await workers.open()
    await until(lambda: first.is_alive(second.worker))
    await second.aclose()
    while not recorder.lost_workers:
        await recorder.next()
    assert recorder.lost_workers == [second.worker]
    assert not first.is_alive(second.worker)
    assert first.is_alive(first.worker)
    assert not first.is_alive("unknown")


async def test_silent_worker_is_lost_and_returns(redis: RedisServer, workers: Workers) -> None:
    recorder = Recorder()
    first = await workers.open(receiver=recorder)
    async with open_proxy(redis.port) as proxy, open_workers(proxy.url) as others:
        second = await others.open()
        await until(lambda: first.is_alive(second.worker))
        proxy.faults.hangs = True
        while not recorder.lost_workers:
            await recorder.next()
        assert recorder.lost_workers == [second.worker]
        proxy.faults.hangs = False
        proxy.cut()
        await until(lambda: first.is_alive(second.worker))


async def test_store_finds_out_whether_worker_of_record_is_alive(workers: Workers) -> None:
    first = await workers.open()
    for number in range(20):
        second = await workers.open()
        await second.tasks.create(_task(f"task {number}", second.worker))
        await second.sessions.save(attrs.evolve(_RECORD, id=str(number)))
        await second.sessions.begin(str(number), (1,), worker=second.worker)
        if number % 2:
            await first.tasks.unfinished()
        else:
            await first.sessions.streams(str(number))
        assert first.is_alive(second.worker)


async def test_outage_of_redis_loses_no_worker(tmp_path: Path) -> None:
    recorders = [Recorder(), Recorder()]
    async with open_redis(tmp_path / "redis", "--appendonly", "yes") as redis, open_workers(redis.url) as workers:
        first, second = [await workers.open(receiver=recorder) for recorder in recorders]
        await until(lambda: first.is_alive(second.worker) and second.is_alive(first.worker))
        redis.kill()
        await trio.sleep(3.5)  # longer than a worker may be silent
        redis.start()
        await redis.started()
        for cluster in (first, second):
            await until_works(cluster)
        for _ in range(25):
            await trio.sleep(0.1)
            assert first.is_alive(second.worker)
            assert second.is_alive(first.worker)
    assert [recorder.lost_workers for recorder in recorders] == [[], []]


async def test_command_without_reply_fails_in_time(redis: RedisServer, workers: Workers) -> None:
    cluster = await workers.open()
    redis.pause()
    # Twice the time of a command with its margin, and the time to connect in between.
    with trio.fail_after(10), pytest.raises(StoreError):
        await cluster.sessions.load("a")
    redis.resume()
    await until_works(cluster)


async def until_works(cluster: RedisCluster) -> None:
    with trio.fail_after(20):
        while True:
            try:
                await cluster.check()
            except StoreError:
                await trio.sleep(0.02)
            else:
                return


# --- lost data -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["flush", "restart"])
async def test_lost_data_end_sessions_and_inform_workers(redis: RedisServer, workers: Workers, how: str) -> None:
    recorders = [Recorder(), Recorder()]
    first, second = [await workers.open(receiver=recorder) for recorder in recorders]
    await first.sessions.save(_RECORD)
    keys = recorders[0].keys[-1]
    if how == "flush":
        redis.command("flushall")
    else:
        redis.kill()
        redis.start()
        await redis.started()
        await until_works(first)
    for recorder in recorders:
        while not recorder.misses:
            await recorder.next()
    assert await second.sessions.load("a") is None
    assert not await first.sessions.touch("a", 2.0)
    assert await first.sessions.begin("a", (1,), worker=first.worker) == 0
    await until_works(second)
    first.broadcast(SessionUpdated("after"))
    assert (await recorders[1].until_received(1))[-1] == SessionUpdated("after")
    # States that were sealed before remain valid.
    async with open_workers(redis.url) as later:
        recorder = Recorder()
        await later.open(receiver=recorder)
        assert keys[0] in recorder.keys[-1]


async def test_changes_after_lost_log_are_all_pending(redis: RedisServer, workers: Workers) -> None:
    # A server of a Redis Cluster can lose the log while others keep the sessions.
    cluster = await workers.open()
    await cluster.sessions.save(_RECORD)
    await cluster.sessions.subscribe("a", "test://x")
    for _ in range(3):
        cluster.sessions.record_notification(_updated("test://x"))
    pending = await cluster.sessions.pending_notifications("a")
    assert pending == (_updated("test://x"),)
    await cluster.sessions.remove_notifications("a", pending)
    assert await cluster.sessions.pending_notifications("a") == ()
    redis.command("del", "{mcp}:changes", "{mcp}:epoch")
    for _ in range(5):
        cluster.sessions.record_notification(_updated("test://y"))
        pending = await cluster.sessions.pending_notifications("a")
        assert _updated("test://x") in pending
        assert _TOOLS in pending


async def test_changes_beyond_log_are_all_pending(redis: RedisServer, workers: Workers) -> None:
    cluster = await workers.open()
    await cluster.sessions.save(_RECORD)
    await cluster.sessions.subscribe("a", "test://x")
    assert await cluster.sessions.pending_notifications("a") == ()
    for number in range(11_000):
        cluster.sessions.record_notification(_updated(f"test://other/{number}"))
        if number % 5_000 == 0:
            await cluster.sessions.pending_notifications("unknown")
    assert set(await cluster.sessions.pending_notifications("a")) >= {_updated("test://x"), _TOOLS}
    assert int(redis.command("xlen", "{mcp}:changes")) < 11_000


async def test_notified_changes_compacted_above_bound(redis: RedisServer, workers: Workers) -> None:
    cluster = await workers.open(Limits(watched_resources=10))
    await cluster.sessions.save(_RECORD)
    await cluster.sessions.subscribe("a", "test://x/")
    stream = await cluster.sessions.begin("a", (), worker=cluster.worker)
    cluster.sessions.record_notification(_TOOLS)
    for number in range(1, 400):
        change = _updated(f"test://x/{number}")
        cluster.sessions.record_notification(change)
        await cluster.sessions.append("a", [StoredEvent(stream, number, b"{}", notification=change)])
    assert int(redis.command("hlen", "mcp:{session:a}:notified")) < 300
    assert await cluster.sessions.pending_notifications("a") == (_TOOLS,)
    cluster.sessions.record_notification(_updated("test://x/1"))
    assert await cluster.sessions.pending_notifications("a") == (_TOOLS, _updated("test://x/1"))


async def test_compacted_change_of_earlier_subscription_is_not_pending(workers: Workers) -> None:
    cluster = await workers.open(Limits(watched_resources=1))
    await cluster.sessions.save(_RECORD)
    await cluster.sessions.subscribe("a", "test://x")
    for name in ("y", "z"):
        cluster.sessions.record_notification(_updated(f"test://x/{name}"))
    # The second change exceeds the limit, so that the session remembers what is pending.
    remembered = {_updated("test://x/y"), _updated("test://x")}
    assert set(await cluster.sessions.pending_notifications("a")) == remembered
    assert set(await cluster.sessions.pending_notifications("a")) == remembered
    await cluster.sessions.unsubscribe("a", "test://x")
    assert await cluster.sessions.pending_notifications("a") == ()
    cluster.sessions.record_notification(_TOOLS)
    await cluster.sessions.subscribe("a", "test://x")
    assert await cluster.sessions.pending_notifications("a") == (_TOOLS,)


async def test_ended_streams_without_events_are_removed(redis: RedisServer, workers: Workers) -> None:
    cluster = await workers.open()
    await cluster.sessions.save(_RECORD)
    streams = [await cluster.sessions.begin("a", (id,), worker=cluster.worker) for id in range(50)]
    assert int(redis.command("hlen", "mcp:{session:a}")) > 100
    for stream in streams:
        await cluster.sessions.delivered("a", stream)
    assert [each.stream for each in await cluster.sessions.streams("a")] == streams[-1:]
    assert int(redis.command("hlen", "mcp:{session:a}")) < 20


async def test_change_of_another_worker_is_pending_until_notified(workers: Workers) -> None:
    recorder = Recorder()
    first = await workers.open()
    second = await workers.open(receiver=recorder)
    await first.sessions.save(_RECORD)
    stream = await second.sessions.begin("a", (), worker=second.worker)
    first.sessions.record_notification(_TOOLS)
    first.broadcast(ChangeMade(_TOOLS.method))
    assert await recorder.until_received(1)
    assert await second.sessions.pending_notifications("a") == (_TOOLS,)
    await second.sessions.append("a", [StoredEvent(stream, 1, b"{}", notification=_TOOLS)])
    assert await first.sessions.pending_notifications("a") == ()


# --- outages ---------------------------------------------------------------------------------------------------------


async def test_unreachable_redis_raises_at_once_and_recovers(redis: RedisServer, workers: Workers) -> None:
    cluster = await workers.open()
    await cluster.sessions.save(_RECORD)
    redis.kill()
    with pytest.raises(StoreError, match=f"the Redis server 127.0.0.1:{redis.port} cannot be reached: .*: check that"):
        await cluster.sessions.load("a")
    for _ in range(100):
        with pytest.raises(StoreError), trio.fail_after(0.5):
            await cluster.sessions.load("a")
    redis.start()
    await until_works(cluster)
    assert await cluster.sessions.load("a") is None


async def test_worker_started_before_redis_waits_for_it(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis")
    cluster = RedisCluster(server.url)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.run, Recorder())
            await trio.testing.wait_all_tasks_blocked(0.05)
            with pytest.raises(StoreError, match="cannot be reached"):
                await cluster.check()
            server.start()
            await until_works(cluster)
            nursery.cancel_scope.cancel()
    finally:
        server.kill()


async def test_waiting_commands_survive_broken_connection(redis: RedisServer) -> None:
    async with open_proxy(redis.port) as proxy, open_workers(proxy.url) as workers:
        cluster = await workers.open()
        await cluster.sessions.save(_RECORD)
        for _ in range(5):
            async with trio.open_nursery() as nursery:
                for _ in range(50):
                    nursery.start_soon(cluster.sessions.touch, "a", 5.0)
                proxy.cut()
        loaded = await cluster.sessions.load("a")
        assert loaded is not None
        assert loaded.used_at == 5.0


async def test_reconnections_have_growing_pauses(redis: RedisServer) -> None:
    async with open_proxy(redis.port) as proxy, open_workers(proxy.url) as workers:
        cluster = await workers.open()
        opened = proxy.opened
        proxy.faults.refuses = True
        proxy.cut()
        await trio.sleep(3)
        # Two connections, each with pauses of 50, 100, 200, 400, 800, 1000 milliseconds, less a random part.
        assert 2 <= proxy.opened - opened <= 24
        proxy.faults.refuses = False
        await until_works(cluster)


async def test_cluster_that_does_not_run_raises() -> None:
    cluster = RedisCluster("redis://127.0.0.1:1")
    with pytest.raises(StoreError, match="the cluster is not running"):
        await cluster.check()
    await cluster.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await cluster.sessions.load("a")


async def test_cluster_that_runs_twice_raises(workers: Workers) -> None:
    cluster = await workers.open()
    with pytest.raises(trio.BusyResourceError):
        await cluster.run(Recorder())
    await cluster.check()


# --- keys, ids and rates ---------------------------------------------------------------------------------------------


async def test_workers_share_one_sealing_key(workers: Workers) -> None:
    recorders = [Recorder() for _ in range(4)]
    async with trio.open_nursery() as nursery:
        for recorder in recorders:
            nursery.start_soon(workers.open, None, recorder)
    (keys,) = {recorder.keys[-1] for recorder in recorders}
    assert [len(key) for key in keys] == [32]
    assert keys[0].hex() not in repr(workers.clusters)


async def test_sealing_keys_rotate_with_overlap(redis: RedisServer) -> None:
    connection = RedisConnection(RedisAddress.parse(redis.url), timeout=1.0)
    recorder = Recorder()
    async with connection.open():
        keys = SealingKeys(connection, KeyNames("mcp"), rotation=100, overlap=500)
        await keys.look(recorder)
        for age, expected in ((99, 1), (100, 2), (200, 3), (400, 4)):
            text = redis.command("get", "{mcp}:keys")
            now = int(redis.command("time").split()[0])
            newest, *rest = text.split(",")
            # The clock of Redis cannot be set: make the newest key older.
            made = now - (min(100, age))
            redis.command("set", "{mcp}:keys", ",".join([f"{newest.split()[0]} {made}", *rest]))
            before = recorder.keys[-1]
            await keys.look(recorder)
            assert len(redis.command("get", "{mcp}:keys").split(",")) == expected
            # A new key does not seal before all workers know it.
            assert recorder.keys[-1][0] == before[0] or len(before) > 1
        later = Recorder()
        await SealingKeys(connection, KeyNames("mcp"), rotation=100, overlap=500).look(later)
        assert later.keys[-1] == recorder.keys[-1]
        now = int(redis.command("time").split()[0])
        names = [item.split()[0] for item in redis.command("get", "{mcp}:keys").split(",")]
        aged = [f"{name} {now - 40 - 300 * place}" for place, name in enumerate(names)]
        redis.command("set", "{mcp}:keys", ",".join(aged))
        await keys.look(recorder)
        # Newest first: 40, 340, 640 and 940 seconds old; the last was replaced 640 seconds ago.
        assert len(recorder.keys[-1]) == 3


async def test_id_is_taken_once_by_all_workers(redis: RedisServer, workers: Workers) -> None:
    clusters = [await workers.open() for _ in range(3)]
    taken: list[bool] = []

    async def take(cluster: RedisCluster) -> None:
        taken.append(await cluster.replays.take(b"proof", 60))

    async with trio.open_nursery() as nursery:
        for cluster in clusters * 5:
            nursery.start_soon(take, cluster)
    assert taken.count(True) == 1
    assert await clusters[0].replays.take(b"other", 0.05)
    await until(lambda: len(redis.command("keys", "mcp:{replay:*").splitlines()) == 1)
    assert await clusters[1].replays.take(b"other", 60)


async def test_id_whose_reply_is_lost_is_taken(redis: RedisServer) -> None:
    async with open_proxy(redis.port) as proxy, open_workers(proxy.url) as workers:
        cluster = await workers.open()
        proxy.faults.lost_replies = 9
        for number in range(30):
            assert await cluster.replays.take(b"%d" % number, 60)
            assert not await cluster.replays.take(b"%d" % number, 60)
        assert proxy.resets > 5


async def test_rate_holds_for_all_workers_together(workers: Workers) -> None:
    clusters = [await workers.open() for _ in range(3)]
    taken = 0
    for cluster in clusters * 4:
        taken += await cluster.rates.take("Ann", count=3, per_second=0.001, burst=20)
    assert taken == 20
    assert await clusters[0].rates.take("Bob", count=50, per_second=0.001, burst=20) == 20
    assert await clusters[0].rates.take("Eve", count=1, per_second=1000.0, burst=1) == 1
    with trio.fail_after(10):
        while await clusters[1].rates.take("Eve", count=1, per_second=1000.0, burst=1) == 0:
            pass


# --- names -----------------------------------------------------------------------------------------------------------


async def test_keys_of_workload_listed_in_table_and_expire(redis: RedisServer, workers: Workers) -> None:
    recorder = Recorder()
    first, second = await workers.open(), await workers.open(receiver=recorder)
    await until(lambda: first.is_alive(second.worker))
    for id in ("a", "odd {id} " + "x" * 300):
        await first.sessions.save(attrs.evolve(_RECORD, id=id))
        await first.sessions.subscribe(id, "test://x")
        first.sessions.record_notification(_updated("test://x"))
        stream = await first.sessions.begin(id, (1,), worker=first.worker)
        await first.sessions.append(id, [StoredEvent(stream, 1, b"{}", 1, _updated("test://x"))])
    await first.tasks.create(_task("task", first.worker))
    endless = _task("endless", first.worker)
    await first.tasks.create(attrs.evolve(endless, state=attrs.evolve(endless.state, ttl=None)))
    await first.replays.take(b"proof", 60)
    # Slow enough for the key to outlive the test on a busy machine.
    await first.rates.take("Ann", count=1, per_second=0.01, burst=5)
    first.send(second.worker, SessionUpdated("a"))
    first.broadcast(SessionUpdated("a"))
    await recorder.until_received(2)
    rows = set()
    for name in redis.command("keys", "*").splitlines():
        row = find_row("mcp", name)
        assert row is not None, f"{name} is not in the table"
        assert redis.command("type", name) == row.type, name
        assert int(redis.command("pttl", name)) > 0, f"{name} does not expire"
        rows.add(row.name)
    from mcp_server.cluster.redis.key_table import KEY_TABLE

    assert rows == {row.name for row in KEY_TABLE}


async def test_prefixes_separate_servers(redis: RedisServer, workers: Workers) -> None:
    cluster = await workers.open()
    await cluster.sessions.save(_RECORD)
    async with open_workers(redis.url, prefix="other") as others:
        other = await others.open()
        assert await other.sessions.load("a") is None
    with pytest.raises(StoreError, match=re.escape("the prefix 'a {b}' of the keys in Redis is not valid")):
        RedisCluster(redis.url, prefix="a {b}")


async def test_layout_of_other_version_rejected(redis: RedisServer) -> None:
    redis.command("set", "{mcp}:layout", "999")
    with pytest.raises(
        StoreError, match=re.escape("their layout is 999, and this version uses 1: stop them, or choose")
    ):
        await RedisCluster(redis.url).run(Recorder())


# --- the contract ----------------------------------------------------------------------------------------------------

_FAULTS = {
    "none": Faults(),
    "lost replies": Faults(lost_replies=15),
    "slow replies in pieces": Faults(delay=0.005, piece=997),
}


@pytest.mark.parametrize("faults", _FAULTS.values(), ids=_FAULTS)
@pytest.mark.parametrize("check", CLUSTER_CHECKS, ids=lambda check: getattr(check, "__name__", "?"))
async def test_redis_cluster_fulfills_contract(check: ClusterCheck, faults: Faults, redis: RedisServer) -> None:
    async with open_proxy(redis.port) as proxy:
        proxy.faults = faults

        async def open_worker() -> Cluster:
            return RedisCluster(proxy.url)

        await check(open_worker)
