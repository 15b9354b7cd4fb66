"""Real Redis servers for tests, each with a free port and a folder of its own."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio

REDIS: Final = os.environ.get("REDIS_SERVER") or shutil.which("redis-server") or "redis-server"
"""The program; `nox -s valkey` names that of Valkey."""

NODE: Final = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no")
"""The options of a node of a Redis Cluster."""

_READY: Final = ("Ready to accept connections", "Sentinel ID is")
"""Lines of the log of a server, or of a sentinel, that has started."""


def free_port() -> int:
    """Return a port that no program listens on. A Redis Cluster needs one below 55536 for its bus, 10000 above."""
    for _ in range(1_000):
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no free port")


class RedisServer:
    """A server that a test can stop, kill and start again."""

    def __init__(self, folder: Path, *options: str, port: int | None = None, sentinel: bool = False) -> None:
        self.folder = folder
        self.port = port or free_port()
        self._options = options
        self._sentinel = sentinel
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        plain = () if "--tls-port" in self._options else ("--port", str(self.port))
        if self._sentinel:
            command = [REDIS, str(self.folder / "sentinel.conf"), "--sentinel", *plain]
        else:
            command = [REDIS, "--bind", "127.0.0.1", "--save", "", "--dir", str(self.folder), *plain, *self._options]
        with open(self.folder / "log", "wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    async def started(self) -> None:
        """Wait until the server accepts connections."""
        log = self.folder / "log"
        with trio.fail_after(20):
            while not any(each in log.read_text() for each in _READY):  # another program
                assert self._process is not None
                if self._process.poll() is not None:
                    # Another program took the port in the meantime. Everything else is an error.
                    assert "Address already in use" in log.read_text(), log.read_text()[-2000:]
                    raise OSError(f"port {self.port} is in use")
                await trio.sleep(0.02)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def command(self, *args: str, tls: Path | None = None) -> str:
        """Run a command with redis-cli, which is another client than the one under test."""
        more: list[str] = []
        if tls is not None:
            files = {"cacert": "ca.pem", "cert": "cert.pem", "key": "key.pem"}
            more = ["--tls", *[part for name, file in files.items() for part in (f"--{name}", str(tls / file))]]
        found = subprocess.run(
            ["redis-cli", "-p", str(self.port), *more, *args],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
        return found.stdout.strip()


async def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition of another program holds."""
    with trio.fail_after(30):
        while not holds():  # noqa: ASYNC110  # the program does not notify this one
            await trio.sleep(0.05)


def _is_ready(node: RedisServer) -> bool:
    return "cluster_state:ok" in node.command("cluster", "info")


@asynccontextmanager
async def open_redis(folder: Path, *options: str, port: int | None = None) -> AsyncIterator[RedisServer]:
    """Start a server, and kill it at the end of the block."""
    server = RedisServer(folder, *options, port=port)
    try:
        for attempt in range(5):
            server.start()
            try:
                await server.started()
                break
            except OSError:
                if port is not None or attempt == 4:
                    raise
                server = RedisServer(folder, *options)
        yield server
    finally:
        server.kill()


@asynccontextmanager
async def open_redis_cluster(folder: Path) -> AsyncIterator[list[RedisServer]]:
    """Start a Redis Cluster of three nodes."""
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(open_redis(folder / str(number), *NODE)) for number in range(3)]
        places = [f"127.0.0.1:{node.port}" for node in nodes]
        subprocess.run(
            ["redis-cli", "--cluster", "create", *places, "--cluster-yes"], check=True, capture_output=True, timeout=60
        )
        for node in nodes:
            await until(partial(_is_ready, node))
        yield nodes


async def add_replica(replica: RedisServer, primary: RedisServer) -> None:
    """Let an empty node of a Redis Cluster replicate another."""
    replica.command("cluster", "meet", "127.0.0.1", str(primary.port))
    id = primary.command("cluster", "myid")
    await until(lambda: id in replica.command("cluster", "nodes"))
    replica.command("cluster", "replicate", id)
    await until(lambda: "master_link_status:up" in replica.command("info", "replication"))
    await until(lambda: "slave" in primary.command("cluster", "nodes"))


@asynccontextmanager
async def open_sentinel(folder: Path) -> AsyncIterator[tuple[RedisServer, RedisServer, RedisServer]]:
    """Start a primary server, a replica, and a sentinel that knows them as `main`."""
    async with open_redis(folder / "primary") as primary:
        follow = ("--replicaof", f"127.0.0.1 {primary.port}", "--repl-diskless-sync-delay", "0")
        async with open_redis(folder / "replica", *follow) as replica:
            await until(lambda: "master_link_status:up" in replica.command("info", "replication"))
            sentinel = RedisServer(folder / "sentinel", sentinel=True)
            sentinel.folder.mkdir()
            (sentinel.folder / "sentinel.conf").write_text(
                f"bind 127.0.0.1\ndir {sentinel.folder}\n"
                f"sentinel monitor main 127.0.0.1 {primary.port} 1\n"
                "sentinel down-after-milliseconds main 500\n"
                "sentinel failover-timeout main 2000\n"
            )
            sentinel.start()
            try:
                await sentinel.started()
                # A sentinel learns of the replicas from the primary server.
                await until(lambda: str(replica.port) in sentinel.command("sentinel", "replicas", "main"))
                yield primary, replica, sentinel
            finally:
                sentinel.kill()
