"""The latency under load: how long a call of a 1 ms handler takes when calls arrive at random times.

Arrivals do not wait for responses (an open loop), and the latency counts from the time at which a call was due. Otherwise a
server that stops for a moment would also stop the driver, and the calls that would have arrived meanwhile would be missing
from the figures (coordinated omission). The rates are 10, 50 and 90 percent of what the server can do with 64 calls in
flight, measured just before.
"""

from __future__ import annotations

import os
import random
import selectors
import statistics
import sys
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import orjson

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench import http_calls, stdio_calls
from bench.measurements import PEERS, report
from bench.results import LatencyPoint, percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from bench.measurements import Effort
    from bench.sides import Side

__all__ = ["PERCENTS", "Target", "arrivals", "latencies", "open_loop"]

PERCENTS: Final = (10, 50, 90)
IN_FLIGHT: Final = 64
"""Calls in flight at saturation, and connections over HTTP."""
CALLS: Final = 2_000
"""Calls that are all due at the start, `IN_FLIGHT` at a time, to measure the saturation."""
REVISION: Final = stdio_calls.MODERN
PARAMS: Final[dict[str, object]] = {"name": "wait", "arguments": {"text": "hello"}}
LIMIT: Final = 60.0
"""Seconds after which calls without a response end the measurement."""


class Target(Protocol):
    """A server with its connections."""

    def begin(self) -> None:
        """Start to number calls from 0. No call is in flight."""

    def send(self, number: int) -> bool:
        """Send a call; return `False` if `IN_FLIGHT` calls have no response yet. The numbers increase by 1."""

    def receive(self, timeout: float) -> Sequence[int]:
        """Wait for responses, at most `timeout` seconds, and return the numbers of the calls that have one."""


def arrivals(rate: float, number: int, seed: int) -> list[float]:
    """Return the times at which calls are due: a Poisson process.

    Args:
        rate: The mean number of calls per second.
        number: The number of calls.
        seed: Equal seeds have equal results.
    """
    chance = random.Random(seed)
    times: list[float] = []
    now = 0.0
    for _ in range(number):
        now += chance.expovariate(rate)
        times.append(now)
    return times


def open_loop(target: Target, due: Sequence[float], clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """Send calls when they are due, and return the seconds from then to each response, in the order of the calls.

    Args:
        target: The server.
        due: The times of the calls in seconds, increasing.
        clock: The clock, in seconds.

    Raises:
        TimeoutError: The server did not respond to some of the calls.
    """
    target.begin()
    began = clock()
    ready: deque[int] = deque()
    coming, done = 0, 0
    found = [0.0] * len(due)
    while done < len(due):
        now = clock() - began
        if now > due[-1] + LIMIT:
            raise TimeoutError(f"{len(due) - done} of {len(due)} calls have no response")
        while coming < len(due) and due[coming] <= now:
            ready.append(coming)
            coming += 1
        while ready and target.send(ready[0]):
            ready.popleft()
        timeout = max(0.0, due[coming] - (clock() - began)) if coming < len(due) else 1.0
        for number in target.receive(timeout):
            found[number] = clock() - began - due[number]
            done += 1
    return found


class StdioTarget:
    """A server over stdio."""

    def __init__(self, process: stdio_calls.Process) -> None:
        self._process = process
        http_calls.separate(process.child.pid)
        self._rest = b""
        self._next, self._first, self._in_flight = 1, 1, 0
        # A driver that is slower than the server would measure itself.
        line = process.line("tools/call", PARAMS, REVISION)
        self._before, _, self._after = line.partition(b'"id": %d' % process.ids)
        # Unlike epoll, select waits for less than a millisecond.
        self._selector = selectors.SelectSelector()
        self._selector.register(process.back, selectors.EVENT_READ)

    def begin(self) -> None:
        """Start to number calls from 0."""
        self._first = self._next

    def send(self, number: int) -> bool:  # noqa: ARG002  # the numbers increase by 1
        """Write the line of a call."""
        if self._in_flight >= IN_FLIGHT:
            return False
        self._process.write(b'%b"id": %d%b' % (self._before, self._next, self._after))
        self._next += 1
        self._in_flight += 1
        return True

    def receive(self, timeout: float) -> Sequence[int]:
        """Read the available lines."""
        if not self._selector.select(timeout):
            return ()
        *whole, self._rest = (self._rest + self._process.read()).split(b"\n")
        self._in_flight -= len(whole)
        return [int(orjson.loads(line)["id"]) - self._first for line in whole]

    def close(self) -> None:
        """End the server."""
        self._selector.close()
        os.sched_setaffinity(0, http_calls.CORES)
        self._process.close()


class HttpTarget:
    """A server over HTTP, with `IN_FLIGHT` connections."""

    def __init__(self, program: http_calls.Program) -> None:
        self._program = program
        # They are used in turns, because a server closes a connection that is idle for seconds.
        self._free: deque[http_calls.Connection] = deque()
        self._all: list[http_calls.Connection] = []
        self._numbers: dict[http_calls.Connection, int] = {}
        self._body = http_calls.request("tools/call", PARAMS, REVISION)
        self._headers = http_calls.headers_of(REVISION, "tools/call", "wait")
        self._selector = selectors.SelectSelector()
        for _ in range(IN_FLIGHT):
            self._open()

    def begin(self) -> None:
        """Start to number calls from 0."""
        assert not self._numbers

    def send(self, number: int) -> bool:
        """Send a call on a free connection."""
        if not self._free:
            return False
        connection = self._free.popleft()
        self._numbers[connection] = number
        connection.send(self._body, self._headers)
        return True

    def receive(self, timeout: float) -> Sequence[int]:
        """Read the available responses."""
        found: list[int] = []
        for key, _ in self._selector.select(timeout):
            connection = key.data
            if connection not in self._numbers:
                self._replace(connection)
            elif connection.feed() is not None:
                found.append(self._numbers.pop(connection))
                self._free.append(connection)
        return found

    def _replace(self, connection: http_calls.Connection) -> None:
        """Replace a free connection, which the server has closed because it was idle for seconds."""
        self._selector.unregister(connection.socket)
        connection.close()
        self._free.remove(connection)
        self._all.remove(connection)
        self._open()

    def _open(self) -> None:
        connection = http_calls.Connection(self._program.port)
        self._free.append(connection)
        self._all.append(connection)
        self._selector.register(connection.socket, selectors.EVENT_READ, connection)

    def close(self) -> None:
        """End the server."""
        self._selector.close()
        for connection in self._all:
            connection.close()
        self._program.close()


@contextmanager
def opened(transport: str, side: Side) -> Iterator[Target]:
    """Yield a server of a side over `stdio` or `HTTP`."""
    target: StdioTarget | HttpTarget
    if transport == "stdio":
        target = StdioTarget(stdio_calls.Process(side))
    else:
        target = HttpTarget(http_calls.server_of(side, "json"))
    try:
        yield target
    finally:
        target.close()


@attrs.define
class _Found:
    rates: list[float] = attrs.field(factory=list)
    seconds: list[float] = attrs.field(factory=list)


def latencies(effort: Effort, missing: Collection[str] = ()) -> Iterator[LatencyPoint]:
    """Measure the latency of the sides over both transports, in turns, without the missing ones."""
    sides = tuple(side for side in PEERS if side.name not in missing)
    repetitions, seconds = (1, 2.0) if effort.quick else (2, 2.5)
    for transport in ("stdio", "HTTP"):
        found: dict[tuple[Side, int], _Found] = {}
        for repetition in range(repetitions):
            for side in sides if repetition % 2 == 0 else reversed(sides):
                with opened(transport, side) as target:
                    for percent, rate, times in _measured(f"{transport}, {side.name}", target, seconds, repetition):
                        place = found.setdefault((side, percent), _Found())
                        place.rates.append(rate)
                        place.seconds += times
        report("")
        for side in sides:
            for percent in PERCENTS:
                yield point(transport, side.name, percent, found[side, percent].rates, found[side, percent].seconds)


def _measured(title: str, target: Target, seconds: float, seed: int) -> Iterator[tuple[int, float, list[float]]]:
    """Yield the percentages with the rates and the latencies in seconds."""
    report(f"{title}: saturation")
    open_loop(target, [0.0] * 300)
    saturation = CALLS / max(open_loop(target, [0.0] * CALLS))
    for percent in PERCENTS:
        rate = saturation * percent / 100
        report(f"{title}: {rate:,.0f} calls/s, {percent} %")
        open_loop(target, [0.0] * IN_FLIGHT)
        yield percent, rate, open_loop(target, arrivals(rate, max(200, int(rate * seconds)), seed))


def point(transport: str, side: str, percent: int, rates: Sequence[float], seconds: Sequence[float]) -> LatencyPoint:
    """Return the percentiles of latencies.

    Args:
        transport: `stdio` or `HTTP`.
        side: The name of the side.
        percent: The rate in percent of the saturation.
        rates: The rate of each repetition, in calls per second.
        seconds: The latencies of all repetitions.
    """
    milliseconds = [each * 1e3 for each in seconds]
    return LatencyPoint(
        transport=transport,
        side=side,
        percent=percent,
        rate=statistics.mean(rates),
        calls=len(milliseconds),
        p50=percentile(milliseconds, 50),
        p99=percentile(milliseconds, 99),
        p999=percentile(milliseconds, 99.9),
        most=max(milliseconds),
    )
