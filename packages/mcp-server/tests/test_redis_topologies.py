"""Connections to Redis: TLS, users, Sentinel, Redis Cluster, and configurations that are wrong."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
import trio
import trustme
from redis_proxy import open_proxy
from redis_server import NODE, RedisServer, add_replica, open_redis, open_redis_cluster, open_sentinel
from redis_testbed import Recorder, open_workers

from mcp_core.errors import MissingExtra
from mcp_core.limits import Limits
from mcp_server.cluster import Cluster
from mcp_server.cluster.contract import CLUSTER_CHECKS
from mcp_server.cluster.redis import RedisCluster
from mcp_server.cluster.redis.address import Endpoint, RedisAddress, Topology
from mcp_server.cluster.redis.connection import slot_of
from mcp_server.stores import SessionRecord, SessionStore, StoreError, TaskStore
from mcp_server.stores.contract import DURABLE_STORE_CHECKS, STORE_CHECKS, TASK_STORE_CHECKS

_RECORD = SessionRecord(id="a", principal="Ann", revision="2025-11-25", client={}, used_at=1.0)
_PASSWORD = "s3cret:/@pass"
_QUOTED = "s3cret%3A%2F%40pass"


async def check_contract(url: str) -> None:
    """Run all checks of the cluster and its stores, each with a prefix of its own."""
    for number, check in enumerate(CLUSTER_CHECKS):

        async def open_worker(prefix: str = f"cluster{number}") -> Cluster:
            return RedisCluster(url, prefix=prefix)

        await check(open_worker)
    for number, store_check in enumerate(STORE_CHECKS + DURABLE_STORE_CHECKS):
        async with open_workers(url, prefix=f"sessions{number}") as workers:

            async def open_store(limits: Limits) -> SessionStore:
                return (await workers.open(limits)).sessions

            await store_check(open_store)
    for number, task_check in enumerate(TASK_STORE_CHECKS):
        async with open_workers(url, prefix=f"tasks{number}") as workers:

            async def open_task_store(limits: Limits) -> TaskStore:
                return (await workers.open(limits)).tasks

            await task_check(open_task_store)


async def until_works(cluster: RedisCluster, record: SessionRecord = _RECORD) -> None:
    with trio.fail_after(30):
        while True:
            try:
                await cluster.sessions.save(record)
            except StoreError:
                await trio.sleep(0.05)
            else:
                return


# --- Redis Cluster and Sentinel --------------------------------------------------------------------------------------


async def test_redis_cluster_of_three_nodes_fulfills_contract(tmp_path: Path) -> None:
    async with open_redis_cluster(tmp_path) as nodes:
        url = f"redis+cluster://127.0.0.1:{nodes[0].port},127.0.0.1:{nodes[1].port}"
        await check_contract(url)
        for node in nodes:
            assert int(node.command("dbsize")) > 0


async def test_replica_of_lost_node_is_found(tmp_path: Path) -> None:
    async with open_redis_cluster(tmp_path) as nodes, open_redis(tmp_path / "replica", *NODE) as replica:
        url = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        # A node that has none of the keys of the whole cluster.
        ids = iter("abcdefghijkl")
        while _owner(nodes, f"mcp:{{session:{(id := next(ids))}}}") is _owner(nodes, "{mcp}:sessions"):
            pass
        owner = _owner(nodes, f"mcp:{{session:{id}}}")
        await add_replica(replica, owner)
        async with open_workers(f"redis+cluster://{url}") as workers:
            cluster = await workers.open()
            record = attrs.evolve(_RECORD, id=id)
            await cluster.sessions.save(record)
            owner.command("wait", "1", "5000")
            owner.kill()
            await until_works(cluster, record)
            assert await cluster.sessions.load(id) == record


def _owner(nodes: list[RedisServer], key: str) -> RedisServer:
    return next(node for node in nodes if _owns(node, slot_of(key.encode())))


async def test_moved_slots_are_followed(tmp_path: Path) -> None:
    async with open_redis_cluster(tmp_path) as nodes:
        recorder = Recorder()
        url = f"redis+cluster://127.0.0.1:{nodes[0].port}"
        async with open_workers(url) as workers:
            first, second = await workers.open(), await workers.open(receiver=recorder)
            await first.sessions.save(_RECORD)
            for key in (b"mcp:{session:a}", b"{mcp}:sessions"):
                slot = str(slot_of(key))
                ids = {node.command("cluster", "myid"): node for node in nodes}
                source = next(node for node in nodes if _owns(node, int(slot)))
                target = next(node for node in nodes if node is not source)
                target_id = next(id for id, node in ids.items() if node is target)
                source_id = next(id for id, node in ids.items() if node is source)
                target.command("cluster", "setslot", slot, "importing", source_id)
                source.command("cluster", "setslot", slot, "migrating", target_id)
                # While the slot moves, some keys are here and some are there.
                assert await second.sessions.load("a") is not None
                names = source.command("cluster", "getkeysinslot", slot, "100").splitlines()
                source.command("migrate", "127.0.0.1", str(target.port), "", "0", "5000", "keys", *names)
                assert await second.sessions.load("a") is not None
                for node in (target, source):
                    node.command("cluster", "setslot", slot, "node", target_id)
                assert await second.sessions.load("a") is not None
                await first.sessions.save(_RECORD)


def _slots(node: RedisServer) -> str:
    return next(line for line in node.command("cluster", "nodes").splitlines() if "myself" in line)


def _owns(node: RedisServer, slot: int) -> bool:
    for part in _slots(node).split()[8:]:
        if part.startswith("["):
            continue
        first, _, last = part.partition("-")
        if int(first) <= slot <= int(last or first):
            return True
    return False


async def test_server_behind_sentinel_fulfills_contract_and_fails_over(tmp_path: Path) -> None:
    async with open_sentinel(tmp_path) as (primary, replica, sentinel):
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/main"
        await check_contract(url)
        recorders = [Recorder(), Recorder()]
        async with open_workers(url) as workers:
            first, second = [await workers.open(receiver=recorder) for recorder in recorders]
            await first.sessions.save(_RECORD)
            primary.command("wait", "1", "5000")
            primary.kill()
            await until_works(second)
            assert replica.command("role").splitlines()[0] == "master"
            assert await second.sessions.load("a") == _RECORD
            for recorder in recorders:
                while not recorder.misses:
                    await recorder.next()
                assert recorder.lost_workers == []


async def test_unknown_sentinel_service_raises(tmp_path: Path) -> None:
    async with open_sentinel(tmp_path) as (_, _, sentinel):
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/other"
        with pytest.raises(StoreError, match=r"the sentinels at .* do not know the service 'other': correct the name"):
            await RedisCluster(url).run(Recorder())


# --- TLS and users ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("", "other-"):
        authority = trustme.CA()
        authority.cert_pem.write_to_path(folder / f"{name}ca.pem")
        certificate = authority.issue_cert("localhost")
        certificate.private_key_pem.write_to_path(folder / f"{name}key.pem")
        for number, part in enumerate(certificate.cert_chain_pems):
            part.write_to_path(folder / f"{name}cert.pem", append=number > 0)
    return folder


@pytest.fixture
async def encrypted(tmp_path: Path, certificates: Path) -> AsyncIterator[RedisServer]:
    server = RedisServer(tmp_path / "tls")
    options = {"cert-file": "cert.pem", "key-file": "key.pem", "ca-cert-file": "ca.pem"}
    async with open_redis(
        tmp_path / "redis",
        "--port",
        "0",
        "--tls-port",
        str(server.port),
        *[part for name, file in options.items() for part in (f"--tls-{name}", str(certificates / file))],
        port=server.port,
    ) as found:
        yield found


async def test_encrypted_connection_with_client_certificate_fulfills_contract(
    encrypted: RedisServer, certificates: Path
) -> None:
    files = "&".join(f"{name}={certificates / name}.pem" for name in ("ca", "cert", "key"))
    await check_contract(f"rediss://localhost:{encrypted.port}?{files}")


@pytest.mark.parametrize(
    ("scheme", "host", "files", "message"),
    [
        (
            "rediss",
            "localhost",
            {"ca": "other-ca", "cert": "cert", "key": "key"},
            "certificate of the Redis server .* is rejected",
        ),
        (
            "rediss",
            "127.0.0.1",
            {"ca": "ca", "cert": "cert", "key": "key"},
            "certificate of the Redis server .* is rejected",
        ),
        (
            "rediss",
            "localhost",
            {"ca": "ca"},
            "the parameters cert and key name the certificate that the server requires",
        ),
        ("rediss", "localhost", {"ca": "ca", "cert": "other-cert", "key": "other-key"}, "the parameters cert and key"),
    ],
    ids=["other authority", "other host", "no client certificate", "other client certificate"],
)
async def test_rejected_certificate_raises(
    encrypted: RedisServer, certificates: Path, scheme: str, host: str, files: dict[str, str], message: str
) -> None:
    query = "&".join(f"{name}={certificates / file}.pem" for name, file in files.items())
    with trio.fail_after(20), pytest.raises(StoreError, match=message):
        await RedisCluster(f"{scheme}://{host}:{encrypted.port}?{query}").run(Recorder())


async def test_plain_and_encrypted_ports_are_not_confused(tmp_path: Path, encrypted: RedisServer) -> None:
    async with open_redis(tmp_path / "plain") as plain:
        for url in (f"rediss://localhost:{plain.port}", encrypted.url):
            cluster = RedisCluster(url)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cluster.run, Recorder())
                with trio.fail_after(10), pytest.raises(StoreError, match="with rediss if it uses TLS"):
                    await cluster.check()
                nursery.cancel_scope.cancel()


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[RedisServer]:
    """A server whose user may use only the keys and commands that the documentation lists."""
    from mcp_server.cluster.redis.key_table import acl_rules

    users = tmp_path / "users.acl"
    users.write_text(f"user default off\nuser mcp on >{_PASSWORD} {acl_rules('app*')}\n")
    async with open_redis(tmp_path / "redis", "--aclfile", str(users)) as server:
        yield server


async def test_user_with_documented_rights_fulfills_contract(guarded: RedisServer) -> None:
    url = f"redis://mcp:{_QUOTED}@127.0.0.1:{guarded.port}"
    for number, check in enumerate(CLUSTER_CHECKS):

        async def open_worker(prefix: str = f"app:cluster{number}") -> Cluster:
            return RedisCluster(url, prefix=prefix)

        await check(open_worker)
    for number, task_check in enumerate(TASK_STORE_CHECKS):
        async with open_workers(url, prefix=f"app:{number}") as workers:

            async def open_store(limits: Limits) -> TaskStore:
                return (await workers.open(limits)).tasks

            await task_check(open_store)


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ("mcp:wrong@", "correct the user name and password in the URL"),
        ("", "put the user name and password into the URL"),
        (f"other:{_QUOTED}@", "correct the user name and password in the URL"),
    ],
)
async def test_rejected_credentials_raise(
    guarded: RedisServer, user: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    cluster = RedisCluster(f"redis://{user}127.0.0.1:{guarded.port}", prefix="app")
    with trio.fail_after(20), pytest.raises(StoreError, match=message) as caught:
        await cluster.run(Recorder())
    for text in (str(caught.value), repr(cluster), repr(caught.value), caplog.text):
        assert "wrong" not in text.replace("WRONGPASS", "")
        assert _PASSWORD not in text
        assert _QUOTED not in text


async def test_user_without_rights_raises(guarded: RedisServer) -> None:
    url = f"redis://mcp:{_QUOTED}@127.0.0.1:{guarded.port}"
    with trio.fail_after(20), pytest.raises(StoreError, match="give the ACL user the commands and keys that"):
        await RedisCluster(url, prefix="other").run(Recorder())


# --- the kind of server ----------------------------------------------------------------------------------------------


async def test_wrong_kind_of_server_raises(tmp_path: Path) -> None:
    async with open_redis(tmp_path / "single") as single:
        with pytest.raises(StoreError, match=r"runs in the mode 'standalone': begin the URL with redis://"):
            await RedisCluster(f"redis+cluster://127.0.0.1:{single.port}").run(Recorder())
        with pytest.raises(StoreError, match=r"is not a sentinel: begin the URL with redis:// or redis\+cluster://"):
            await RedisCluster(f"redis+sentinel://127.0.0.1:{single.port}/main").run(Recorder())
        async with open_redis(tmp_path / "replica", "--replicaof", f"127.0.0.1 {single.port}") as replica:
            with pytest.raises(
                StoreError, match="is a replica, which cannot be written: use the address of its primary"
            ):
                await RedisCluster(replica.url).run(Recorder())
    async with open_redis(tmp_path / "node", "--cluster-enabled", "yes") as node:
        with pytest.raises(StoreError, match=r"runs in the mode 'cluster': begin the URL with redis\+cluster://"):
            await RedisCluster(node.url).run(Recorder())


async def test_program_that_is_not_redis_is_unreachable(caplog: pytest.LogCaptureFixture) -> None:
    async def respond(stream: trio.SocketStream) -> None:
        await stream.receive_some(100)
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, respond, 0)
        cluster = RedisCluster(f"redis://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
        nursery.start_soon(cluster.run, Recorder())
        await trio.sleep(0.3)
        with pytest.raises(StoreError, match="does not speak the protocol of Redis"):
            await cluster.check()
        nursery.cancel_scope.cancel()


async def test_old_server_raises_without_password() -> None:
    async def respond(stream: trio.SocketStream) -> None:
        data = await stream.receive_some(1_000)
        await stream.send_all(b"-ERR unknown command `HELLO`, with args beginning with: `3`, %b\r\n" % data.split()[-1])

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, respond, 0)
        port = listeners[0].socket.getsockname()[1]
        with pytest.raises(StoreError, match=r"is too old: version 7\.0 or later is required") as caught:
            await RedisCluster(f"redis://:{_QUOTED}@127.0.0.1:{port}").run(Recorder())
        assert _PASSWORD not in str(caught.value)
        nursery.cancel_scope.cancel()


async def test_full_server_raises_and_recovers(tmp_path: Path) -> None:
    async with open_redis(tmp_path / "redis") as server, open_workers(server.url) as workers:
        cluster = await workers.open()
        server.command("config", "set", "maxmemory", "1mb")
        with pytest.raises(StoreError, match=re.escape("raise maxmemory of the server, or lower Limits.sessions")):
            await cluster.sessions.save(_RECORD)
        server.command("config", "set", "maxmemory", "0")
        await cluster.sessions.save(_RECORD)


# --- URLs ------------------------------------------------------------------------------------------------------------


def test_urls_name_servers_and_credentials() -> None:
    address = RedisAddress.parse("redis://Ann:p%40ss@[::1]:7000/3")
    assert (address.topology, address.endpoints, address.database) == (Topology.SERVER, (Endpoint("::1", 7000),), 3)
    assert address.credentials.arguments == (b"AUTH", b"Ann", b"p@ss")
    assert str(address) == "[::1]:7000"
    address = RedisAddress.parse("redis+sentinel://:p@a,b:1/main/2?sentinel_user=s&sentinel_password=t")
    assert address.endpoints == (Endpoint("a", 26379), Endpoint("b", 1))
    assert (address.service, address.database) == ("main", 2)
    assert address.credentials.arguments == (b"AUTH", b"default", b"p")
    assert address.sentinel_credentials.arguments == (b"AUTH", b"s", b"t")
    address = RedisAddress.parse("rediss+cluster://a:1,b:2")
    assert (address.topology, address.tls is not None) == (Topology.CLUSTER, True)
    assert RedisAddress.parse("redis://a").credentials.arguments == ()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://a", "must begin with redis://"),
        ("localhost:6379", "must begin with redis://"),
        ("redis://", "has no valid host and port"),
        ("redis://a:port", "has no valid host and port"),
        ("redis://a,b", "names several hosts"),
        ("redis://a/x", "must be the number of a database"),
        ("redis+cluster://a/1", "a Redis Cluster has only database 0"),
        ("redis+sentinel://a", "lacks the service name"),
        ("redis://a?ca=x", "names certificates but not TLS"),
        ("rediss://a?key=x", "names a key without a certificate"),
        ("rediss://a?ca=/nowhere/at/all", "the certificates for Redis cannot be read"),
        ("redis://a?x=1", "the unknown parameter 'x'"),
        ("redis://a?x", "cannot be parsed"),
        ("redis://:hidden@a:port", "has no valid host and port"),
        ("redis://:hidden@[a", "cannot be parsed"),
    ],
)
def test_invalid_url_raises_without_its_text(url: str, message: str) -> None:
    with pytest.raises(StoreError, match=re.escape(message)) as caught:
        RedisAddress.parse(url)
    assert "hidden" not in str(caught.value)


async def test_missing_database_raises(tmp_path: Path) -> None:
    async with open_redis(tmp_path / "redis") as server:
        with pytest.raises(StoreError, match="has no database 99"):
            await RedisCluster(f"{server.url}/99").run(Recorder())
        async with open_workers(f"{server.url}/3") as workers:
            await (await workers.open()).sessions.save(_RECORD)
        assert int(server.command("-n", "3", "dbsize")) > 0
        assert server.command("dbsize") == "0"


async def test_broken_sentinel_is_tried_before_others(tmp_path: Path) -> None:
    async with open_sentinel(tmp_path) as (_, _, sentinel), open_proxy(sentinel.port) as proxy:
        proxy.faults.refuses = True
        url = f"redis+sentinel://127.0.0.1:{proxy.port},127.0.0.1:{sentinel.port}/main"
        async with open_workers(url) as workers:
            await (await workers.open()).check()
        assert proxy.opened > 0


def test_missing_extra_raises_with_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "coredis.parser", None)
    with pytest.raises(MissingExtra, match=r"coredis is not installed; type: pip install 'trio-mcp-server\[redis\]'"):
        RedisCluster("redis://127.0.0.1")
