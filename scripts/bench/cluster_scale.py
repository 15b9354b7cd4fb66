"""The benchmark of a server with several workers that share a Redis: throughput, sessions and listen streams.

    nox -s bench_cluster                        all parts, about three minutes
    nox -s bench_cluster -- --only streams      one part: calls, sessions, streams

*calls*: calls per second with 1, 2 and 4 workers. Each worker has a core, if there are enough, and a driver that uses the
same core: the driver costs about a fifth of a call, and would otherwise take the core of another worker. So one worker
with its driver uses one core, and two use two.

*sessions*: 10,000 sessions of 2025-11-25, opened at all workers in turn: time, and memory of the workers and of Redis.

*streams*: 10,000 listen streams of 2026-07-28 over four workers. One worker changes a resource, and the time is measured
until each stream has the notification.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.deployment import Deployment
from bench.http_calls import CORES, LEGACY, MODERN, Connection, headers_of, open_session, request, run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PROGRAM: Final = Path(__file__).parent / "programs" / "scale_server.py"
SECONDS: Final = 5.0
"""Time for which each number of workers is measured, in seconds."""
CONNECTIONS: Final = 8
"""Connections of each driver."""
CLIENTS: Final = 10_000
STREAM_WORKERS: Final = 4
REPETITIONS: Final = 3
"""Repetitions, of which the median counts."""
ECHO: Final[Mapping[str, object]] = {"name": "echo", "arguments": {"text": "x"}}


def deployment(folder: Path, workers: int) -> Deployment:
    """Return workers without a load balancer: the drivers choose the workers in turn."""
    found = Deployment(folder, PROGRAM)
    return Deployment(folder, PROGRAM, ports=found.ports[:workers])


class Workers:
    """Running workers and their Redis, while the block runs."""

    def __init__(self, count: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.deployment: Final = deployment(Path(self._folder.name), count)

    def __enter__(self) -> Deployment:
        """Start the workers, each on its core."""
        self.deployment.start_redis()
        for port in self.deployment.ports:
            self.deployment.start_worker(port)
        self.deployment.wait_ready()
        for at, worker in enumerate(self.deployment.workers.values()):
            os.sched_setaffinity(worker.pid, {CORES[at % len(CORES)]})
        return self.deployment

    def __exit__(self, *_: object) -> None:
        """Stop all programs."""
        self.deployment.stop()
        self._folder.cleanup()


# --- calls -----------------------------------------------------------------------------------------------------------


def drive(ports: Sequence[int], revision: str, core: int) -> None:
    """Call the workers in turn for `SECONDS`, and print the number of calls. Run in a process for each worker."""
    os.sched_setaffinity(0, {core})
    connections = [Connection(ports[at % len(ports)]) for at in range(CONNECTIONS)]
    session = open_session(connections[0]) if revision == LEGACY else None
    body = request("tools/call", dict(ECHO), revision)
    bodies = [(body, headers_of(revision, "tools/call", "echo", session))] * len(connections)
    run(connections, bodies, 200)
    print("ready", flush=True)
    sys.stdin.readline()
    calls, end = 0, time.monotonic() + SECONDS
    while time.monotonic() < end:
        run(connections, bodies, 200)
        calls += 200
    print(calls, flush=True)


def rate(workers: int, revision: str) -> float:
    """Return the calls per second of a number of workers."""
    with Workers(workers) as there:
        drivers = [
            subprocess.Popen(
                [sys.executable, __file__, "--drive", json.dumps([there.ports, revision, CORES[at % len(CORES)]])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for at in range(workers)
        ]
        try:
            for driver in drivers:
                _line_of(driver)
            for driver in drivers:
                print(file=driver.stdin, flush=True)
            return sum(int(_line_of(driver)) for driver in drivers) / SECONDS
        finally:
            for driver in drivers:
                driver.kill()
                driver.wait()


def _line_of(driver: subprocess.Popen[str]) -> str:
    line = "" if driver.stdout is None else driver.stdout.readline()
    if not line:
        raise RuntimeError("a driver ended early; its error is above")
    return line


def calls() -> None:
    """Print the calls per second with 1, 2 and 4 workers."""
    for revision in (MODERN, LEGACY):
        rates = {
            count: sorted(rate(count, revision) for _ in range(REPETITIONS))[REPETITIONS // 2] for count in (1, 2, 4)
        }
        print(
            f"calls, {revision}: "
            + ", ".join(f"{count} workers {each:,.0f}/s ({each / rates[1]:.2f})" for count, each in rates.items())
        )


# --- sessions --------------------------------------------------------------------------------------------------------


def sessions() -> None:
    """Print the time and the memory of open sessions."""
    with Workers(STREAM_WORKERS) as there:
        connections = [Connection(port) for port in there.ports]
        for connection in connections:
            open_session(connection)
        before, in_redis = _memory(there), _redis_bytes(there)
        started = time.monotonic()
        opened = [open_session(connections[at % len(connections)]) for at in range(CLIENTS)]
        seconds = time.monotonic() - started
        kib = (_memory(there) - before) / CLIENTS
        stored = (_redis_bytes(there) - in_redis) / CLIENTS
        body = request("tools/call", dict(ECHO), LEGACY)
        started = time.monotonic()
        for at, session in enumerate(opened):
            # At another worker than the one that opened the session, which restores it.
            answer = connections[(at + 1) % len(connections)].exchange(
                body, headers_of(LEGACY, "tools/call", "echo", session)
            )
            if b'"text":"x"' not in answer:
                raise RuntimeError(f"a session was lost: {answer[:300]!r}")
        restored = time.monotonic() - started
        print(
            f"{CLIENTS:,} sessions over {STREAM_WORKERS} workers: opened in {seconds:.1f} s, used at another worker in "
            f"{restored:.1f} s, {kib:.1f} KiB in a worker and {stored:,.0f} bytes in Redis for each"
        )


def _memory(there: Deployment) -> float:
    """Return the resident memory of the workers, in KiB."""
    status = (Path(f"/proc/{worker.pid}/status").read_text() for worker in there.workers.values())
    return sum(
        float(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS:"))) for text in status
    )


def _kernel_memory() -> float:
    """Return the memory of the kernel for its objects, such as sockets, in KiB."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("Slab:")))


def _cpu(there: Deployment) -> float:
    """Return the CPU time of the workers, in seconds."""
    ticks = 0
    for worker in there.workers.values():
        fields = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _redis_bytes(there: Deployment) -> int:
    with socket.create_connection(("127.0.0.1", there.redis_port), timeout=10) as redis:
        redis.sendall(b"INFO memory\r\n")
        text = b""
        while b"used_memory_dataset:" not in text:
            text += redis.recv(65_536)
    return int(text.split(b"used_memory:")[1].split(b"\r\n")[0])


# --- streams ---------------------------------------------------------------------------------------------------------


def streams() -> None:
    """Print the time until a change has reached all listen streams, and their memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(CLIENTS, hard - 1_000)
    try:
        with Workers(STREAM_WORKERS) as there, selectors.DefaultSelector() as selector:
            before, kernel = _memory(there), _kernel_memory()
            headers = headers_of(MODERN, "subscriptions/listen")
            opened: list[Connection] = []
            for at in range(count):
                stream = Connection(there.ports[at % STREAM_WORKERS])
                wanted: dict[str, object] = {"notifications": {"resourceSubscriptions": ["note://one"]}}
                stream.send(request("subscriptions/listen", wanted, MODERN, at + 1), headers)
                selector.register(stream.socket, selectors.EVENT_READ, stream)
                opened.append(stream)
                if at % 200 == 199:
                    _read_all(selector, opened[at - 199 : at + 1], b"acknowledged")
            _read_all(selector, opened[count - count % 200 :], b"acknowledged")
            kib = (_memory(there) - before) / count
            # A connection on one machine has both ends in this kernel.
            kernel = (_kernel_memory() - kernel) / count / 2
            changer = Connection(there.ports[0])
            change = request("tools/call", {"name": "change", "arguments": {}}, MODERN)
            times, cpu = [], _cpu(there)
            for _ in range(REPETITIONS * 2 + 1):
                for stream in opened:
                    stream.received.clear()
                started = time.monotonic()
                changer.send(change, headers_of(MODERN, "tools/call", "change"))
                _read_all(selector, opened, b"resources/updated")
                times.append(time.monotonic() - started)
                while changer.feed() is None:
                    pass
            cpu = (_cpu(there) - cpu) / len(times) / count * 1e6
            times.sort()
            print(
                f"{count:,} listen streams over {STREAM_WORKERS} workers: a change reaches all in "
                f"{times[len(times) // 2] * 1e3:.0f} ms (the slowest of {len(times)}: {times[-1] * 1e3:.0f} ms), "
                f"and costs {cpu:.0f} us of CPU for each; {kib:.1f} KiB in a worker and {kernel:.1f} KiB in the kernel for each"
            )
            for stream in (*opened, changer):
                stream.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _read_all(selector: selectors.BaseSelector, waiting: Sequence[Connection], text: bytes) -> None:
    """Read until each stream has received a text."""
    missing = set(waiting)
    deadline = time.monotonic() + 120
    while missing:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{text!r} did not arrive on {len(missing)} streams")
        for key, _ in selector.select(1):
            stream: Connection = key.data
            data = stream.socket.recv(65_536)
            if not data:
                raise RuntimeError("a worker closed a stream")
            stream.received += data
            if text in stream.received:
                missing.discard(stream)


PARTS: Final[Mapping[str, Callable[[], None]]] = {"calls": calls, "sessions": sessions, "streams": streams}


def main() -> None:
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--drive", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        drive(*json.loads(options.drive))
        return
    for name, part in PARTS.items():
        if options.only in (None, name):
            part()


if __name__ == "__main__":
    main()
