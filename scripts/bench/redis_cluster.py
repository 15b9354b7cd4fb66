"""The benchmark of what workers share in Redis: CPU time for each operation on both sides, and memory in Redis.

    .venv/bin/python scripts/bench/redis_cluster.py               all rows, about a minute
    .venv/bin/python scripts/bench/redis_cluster.py --repeat 5    each row five times, of which the best counts

The script starts a Redis server on a free port of this machine. For each operation it prints microseconds of CPU time
(user and system) of this process and of the server. `alone` is one operation after the other; `together` is 32 tasks, whose
commands are sent in the same system calls. The last column compares with the store in memory of a single process.

A replayable event may cost 60 microseconds more in this process than without Redis.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import trio
import trio.lowlevel

from mcp_core.limits import Limits
from mcp_server.cluster.messages import ClusterMessage, SessionUpdated
from mcp_server.cluster.redis import RedisCluster
from mcp_server.stores import MemoryStore, PendingNotification, SessionRecord, SessionStore, StoredEvent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

OPERATIONS: Final = 2_000
TASKS: Final = 32
LIMITS: Final = Limits(replay_events=1_000, sessions=100_000)
EVENT: Final = (
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"0123456789","progress":0.25}}'
)
RECORD: Final = SessionRecord(
    id="",
    principal="https://id.example#0123456789",
    revision="2025-11-25",
    client={
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}, "sampling": {}, "roots": {"listChanged": True}},
        "clientInfo": {"name": "a client", "version": "1.2.3", "title": "A client with a title"},
    },
    used_at=1_700_000_000.0,
)

Operation: TypeAlias = "Callable[[int, int], Awaitable[object]]"
"""An operation, of a task and a number."""


class Receiver:
    """A receiver that counts messages."""

    def __init__(self) -> None:
        self.count = 0

    async def until(self, count: int) -> None:
        """Wait until this number of messages was received."""
        while self.count < count:  # noqa: ASYNC110  # an event for each message would be measured, too
            await trio.sleep(0.001)

    def receive(self, sender: str, message: ClusterMessage) -> None:  # noqa: ARG002  # counted only
        """Count a message."""
        self.count += 1

    def missed(self) -> None:
        """Ignore it."""

    def lost(self, worker: str) -> None:
        """Ignore it."""

    def keys_changed(self, keys: Sequence[bytes]) -> None:
        """Ignore it."""


@attrs.frozen
class Cost:
    """Microseconds of CPU time for one operation."""

    ours: float
    redis: float

    def __str__(self) -> str:
        return f"{self.ours:7.1f} {self.redis:7.1f}"


def cpu_of(pid: int) -> float:
    """Return the CPU time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def our_cpu() -> float:
    """Return the CPU time of this process, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def measure(operation: Operation, tasks: int, pid: int) -> Cost:
    """Return the cost of an operation that several tasks run."""

    async def run(task: int) -> None:
        for number in range(OPERATIONS // tasks):
            await operation(task, number)

    ours, redis = our_cpu(), cpu_of(pid)
    async with trio.open_nursery() as nursery:
        for task in range(tasks):
            nursery.start_soon(run, task)
    count = OPERATIONS // tasks * tasks
    return Cost((our_cpu() - ours) / count * 1e6, (cpu_of(pid) - redis) / count * 1e6)


class Appender:
    """The operation that appends an event to one stream for each task."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._streams: dict[int, tuple[str, int]] = {}
        self._last: dict[int, int] = {}

    async def prepare(self, name: str) -> None:
        """Begin the streams."""
        for task in range(TASKS):
            id = f"{name}-{task}"
            await self._store.save(attrs.evolve(RECORD, id=id))
            self._streams[task] = (id, await self._store.begin(id, (1,), worker="w"))
            self._last[task] = 0

    async def __call__(self, task: int, number: int) -> None:  # noqa: ARG002  # an operation
        """Append an event."""
        session, stream = self._streams[task]
        self._last[task] += 1
        await self._store.append(session, (StoredEvent(stream, self._last[task], EVENT),))


async def rows(cluster: RedisCluster, pid: int, repeat: int) -> None:
    """Print the costs."""
    store, memory = cluster.sessions, MemoryStore(limits=LIMITS)
    ours, baseline = Appender(store), Appender(memory)
    await ours.prepare("append")
    await baseline.prepare("append")

    async def touch(task: int, number: int) -> None:
        await store.touch(f"append-{task}", 1_700_000_000.0 + number)

    async def load(task: int, number: int) -> None:  # noqa: ARG001  # an operation
        await store.load(f"append-{task}")

    async def stream(task: int, number: int) -> None:
        begun = await store.begin(f"append-{task}", (number,), worker="w")
        await store.append(f"append-{task}", (StoredEvent(begun, 1, EVENT, number),))
        await store.delivered(f"append-{task}", begun)

    async def save(task: int, number: int) -> None:
        await store.save(attrs.evolve(RECORD, id=f"new-{task}-{number}"))

    async def replay(task: int, number: int) -> None:
        await cluster.replays.take(b"%d %d %f" % (task, number, time.perf_counter()), 5.0)

    async def rate(task: int, number: int) -> None:  # noqa: ARG001  # an operation
        await cluster.rates.take(str(task), count=10, per_second=1e6, burst=1_000)

    operations: dict[str, tuple[Operation, Operation | None]] = {
        "append a replayable event": (ours, baseline),
        "begin, append, delivered": (stream, None),
        "load a session": (load, None),
        "touch a session": (touch, None),
        "save a new session": (save, None),
        "use an id once": (replay, None),
        "take from a rate limit": (rate, None),
    }
    print(f"{'us of CPU time':28} {'alone':>7} {'redis':>7}   {'together':>8} {'redis':>6}   {'in memory':>9}")
    for name, (operation, without) in operations.items():
        alone, together, plain = [], [], []
        for _ in range(repeat):
            alone.append(await measure(operation, 1, pid))
            together.append(await measure(operation, TASKS, pid))
            if without is not None:
                plain.append(await measure(without, 1, pid))
        best = [min(each, key=lambda cost: cost.ours) for each in (alone, together)]
        last = f"{min(cost.ours for cost in plain):9.1f}" if plain else ""
        print(f"{name:28} {best[0]}  {best[1]}   {last}")


async def messages(sender: RedisCluster, receiver: Receiver, pid: int) -> None:
    """Print the cost of messages. Both workers are in this process."""
    count = 20_000
    ours, redis, before = our_cpu(), cpu_of(pid), receiver.count
    for number in range(count):
        sender.broadcast(SessionUpdated(f"session {number}"))
        if number % 100 == 99:
            await trio.lowlevel.checkpoint()
            await receiver.until(before + number - 5_000)
    await receiver.until(before + count)
    print(
        f"a message to all: {(our_cpu() - ours) / count * 1e6:.1f} us to send and receive it twice, "
        f"{(cpu_of(pid) - redis) / count * 1e6:.1f} us in Redis"
    )


async def idle(pid: int) -> None:
    """Print the cost of two workers without requests."""
    ours, redis = our_cpu(), cpu_of(pid)
    await trio.sleep(5)
    print(
        f"an idle worker: {(our_cpu() - ours) / 10 * 1e3:.2f} ms/s of CPU time, "
        f"{(cpu_of(pid) - redis) / 10 * 1e3:.2f} ms/s in Redis"
    )


async def sizes(cluster: RedisCluster, cli: Callable[[Sequence[str]], str]) -> None:
    """Print the memory of sessions in Redis."""

    def total() -> int:
        return next(
            int(line.split(":")[1]) for line in cli(["info", "memory"]).splitlines() if line.startswith("used_memory:")
        )

    store, count = cluster.sessions, 2_000
    before = total()
    for number in range(count):
        await store.save(attrs.evolve(RECORD, id=f"size-{number:030}-{'x' * 12}"))
    plain = total()
    for number in range(count):
        await store.begin(f"size-{number:030}-{'x' * 12}", (), worker="0123456789ab")
    standalone = total()
    for number in range(count):
        await store.subscribe(f"size-{number:030}-{'x' * 12}", f"file:///a/typical/path/{number}")
    subscribed = total()
    for number in range(count):
        id = f"size-{number:030}-{'x' * 12}"
        await store.append(id, [StoredEvent(2, each, EVENT) for each in range(1, 11)])
    events = total()
    for number in range(1_000):
        store.record_notification(
            PendingNotification("notifications/resources/updated", f"file:///changed/path/{number}")
        )
    await store.pending_notifications("none")
    print(f"memory in Redis: {(plain - before) / count:.0f} bytes for a session", end="")
    print(f", +{(standalone - plain) / count:.0f} with a standalone stream", end="")
    print(f", +{(subscribed - standalone) / count:.0f} with a subscription", end="")
    print(f", +{(events - subscribed) / count / 10:.0f} for each of 10 events of {len(EVENT)} bytes", end="")
    print(f"; {(total() - events) / 1_000:.0f} for a change")


async def run(port: int, pid: int, repeat: int) -> None:
    """Run the benchmark."""

    def cli(args: Sequence[str]) -> str:
        return subprocess.run(["redis-cli", "-p", str(port), *args], capture_output=True, text=True, check=True).stdout

    url = f"redis://127.0.0.1:{port}"
    first, second = RedisCluster(url, limits=LIMITS), RedisCluster(url, limits=LIMITS)
    receiver = Receiver()
    async with trio.open_nursery() as nursery:
        await nursery.start(first.run, Receiver())
        await nursery.start(second.run, receiver)
        await rows(first, pid, repeat)
        await messages(first, receiver, pid)
        await idle(pid)
        cli(["flushall"])
        await trio.sleep(2)
        await sizes(first, cli)
        nursery.cancel_scope.cancel()


def main() -> int:
    """Start a server and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    program = shutil.which("redis-server")
    if program is None:
        print("redis-server is not installed: run scripts/install_redis", file=sys.stderr)
        return 1
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
            try:
                trio.run(run, port, server.pid, options.repeat)
            finally:
                server.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
