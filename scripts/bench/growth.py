"""The growth of cost: CPU time of a call by the number of tools, resources, templates, sessions and subscriptions, and by size.

For each size there is one server. All servers of a row exist at the same time, and the calls go to them in turns, so that
load of the machine affects all sizes.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench import http_calls, stdio_calls
from bench.measurements import report
from bench.results import Growth
from bench.sides import OURS, Side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.measurements import Effort

__all__ = ["growths", "in_turns_by_size"]

LEGACY: Final = stdio_calls.LEGACY
MODERN: Final = stdio_calls.MODERN
SIZES: Final = (10, 1_000, 100_000)
SESSION_SIZES: Final = (10, 1_000, 10_000)
"""100,000 sessions take minutes to open."""
STREAM_SIZES: Final = (10, 100, 1_000)
MESSAGE_SIZES: Final = (100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 10 << 20)
GROWING: Final = Side("ours", "growth")
WATCHED: Final = 1_000
"""Subscriptions of one stream, by the default of `Limits.watched_resources`."""

REGISTERED: Final[dict[str, tuple[str, Callable[[int], dict[str, object]]]]] = {
    "tools": ("tools/call", lambda number: {"name": f"tool_{number}", "arguments": {"text": "hello"}}),
    "resources": ("resources/read", lambda number: {"uri": f"note://{number}"}),
    "templates": ("resources/read", lambda number: {"uri": f"note://{number}/hello"}),
}
"""What a server offers, by its plural: the method that uses one of them, and its parameters."""


def in_turns_by_size(
    title: str, measures: Sequence[Callable[[], float]], repetitions: int
) -> tuple[tuple[float, ...], ...]:
    """Measure all sizes in turns, each second time in reverse order, and return the values of each size."""
    values: list[list[float]] = [[] for _ in measures]
    for number in range(repetitions):
        for place in range(len(measures)) if number % 2 == 0 else reversed(range(len(measures))):
            report(f"{title}: {number + 1} of {repetitions}")
            values[place].append(measures[place]())
    report("")
    return tuple(tuple(each) for each in values)


def growths(effort: Effort) -> Iterator[Growth]:
    """Measure how the cost of a call grows."""
    repetitions, calls = (3, 100) if effort.quick else (7, 300)
    for kind in REGISTERED:
        yield registered(kind, repetitions, calls)
    yield sessions(repetitions, calls)
    yield subscriptions("subscriptions", SIZES, WATCHED, repetitions, calls)
    yield subscriptions("listen streams", STREAM_SIZES, 1, repetitions, calls)
    yield messages(repetitions)


def registered(kind: str, repetitions: int, calls: int) -> Growth:
    """Measure a request for one of many tools, resources or templates."""
    method, params = REGISTERED[kind]
    with ExitStack() as stack:

        def prepared(size: int) -> Callable[[], float]:
            report(f"registering {size:,} {kind}")
            process = stdio_calls.Process(GROWING, kind, str(size))
            stack.callback(process.close)
            process.open(LEGACY)
            # Different ones, from the first to the last.
            every = [params(number * (size - 1) // (calls - 1)) for number in range(calls)]

            def measure() -> float:
                lines = [process.line(method, each, LEGACY) for each in every]
                cpu = process.cpu()
                answers = process.exchange(lines, 1)
                cpu = process.cpu() - cpu
                if any(b"hello" not in answer for answer in answers):
                    raise RuntimeError(f"a server with {size} {kind} answered: {answers[0][:200]!r}")
                return cpu / calls * 1e6

            measure()
            return measure

        values = in_turns_by_size(kind, [prepared(size) for size in SIZES], repetitions)
    return Growth(title=method, unit="us", variable=kind, sizes=SIZES, values={"ours": values}, expected="flat")


def sessions(repetitions: int, calls: int) -> Growth:
    """Measure a call in one of many sessions."""
    with ExitStack() as stack:

        def prepared(size: int) -> Callable[[], float]:
            report(f"opening {size:,} sessions")
            program = http_calls.server_of(OURS, "json")
            stack.callback(program.close)
            connection = http_calls.Connection(program.port)
            stack.callback(connection.close)
            opened = [http_calls.open_session(connection) for _ in range(size)]
            body = http_calls.request("tools/call", {"name": "echo", "arguments": {"text": "hello"}}, LEGACY)
            used = [opened[number * (size - 1) // (calls - 1)] for number in range(calls)]

            def measure() -> float:
                cpu = program.cpu()
                for session in used:
                    connection.exchange(body, http_calls.headers_of(LEGACY, "tools/call", "echo", session))
                return (program.cpu() - cpu) / calls * 1e6

            measure()
            return measure

        values = in_turns_by_size("sessions", [prepared(size) for size in SESSION_SIZES], repetitions)
    return Growth(
        title="tools/call over HTTP",
        unit="us",
        variable="sessions",
        sizes=SESSION_SIZES,
        values={"ours": values},
        expected="flat",
    )


def subscriptions(variable: str, sizes: tuple[int, ...], watched: int, repetitions: int, calls: int) -> Growth:
    """Measure a call that changes a resource of one stream, with many subscriptions to other resources.

    Args:
        variable: What is counted.
        sizes: The numbers of subscriptions.
        watched: The subscriptions of one stream.
        repetitions: The number of repetitions.
        calls: The number of calls in each of them.
    """
    with ExitStack() as stack:

        def prepared(size: int) -> Callable[[], float]:
            report(f"opening {size:,} {variable}")
            program = http_calls.server_of(OURS, "json")
            stack.callback(program.close)
            streams: list[http_calls.Connection] = []
            uris = ["note://one", *(f"note://{number}" for number in range(size - 1))]
            headers = http_calls.headers_of(MODERN, "subscriptions/listen")
            for start in range(0, size, watched):
                stream = http_calls.Connection(program.port)
                stack.callback(stream.close)
                wanted: dict[str, object] = {"notifications": {"resourceSubscriptions": uris[start : start + watched]}}
                stream.send(http_calls.request("subscriptions/listen", wanted, MODERN, start + 1), headers)
                http_calls.wait_for([stream], b"acknowledged")
                streams.append(stream)
            caller = http_calls.Connection(program.port)
            stack.callback(caller.close)
            body = http_calls.request("tools/call", {"name": "change", "arguments": {}}, MODERN)
            named = http_calls.headers_of(MODERN, "tools/call", "change")

            def measure() -> float:
                cpu = program.cpu()
                for _ in range(calls):
                    caller.exchange(body, named)
                    http_calls.wait_for(streams[:1], b"resources/updated")
                return (program.cpu() - cpu) / calls * 1e6

            measure()
            return measure

        values = in_turns_by_size(variable, [prepared(size) for size in sizes], repetitions)
    return Growth(
        title="change notified to one stream",
        unit="us",
        variable=variable,
        sizes=sizes,
        values={"ours": values},
        expected="flat",
    )


def messages(repetitions: int) -> Growth:
    """Measure an echo of a text. The floor is orjson, which parses and writes it, and one copy of the bytes."""
    with ExitStack() as stack:
        process = stdio_calls.Process(OURS)
        stack.callback(process.close)
        process.open(LEGACY)

        def count(size: int) -> int:
            return max(2, min(200, (2 << 20) // size))

        def prepared(size: int) -> Callable[[], float]:
            def measure() -> float:
                params: dict[str, object] = {"name": "echo", "arguments": {"text": "x" * size}}
                lines = [process.line("tools/call", params, LEGACY) for _ in range(count(size))]
                cpu = process.cpu()
                process.exchange(lines, 1)
                return (process.cpu() - cpu) / len(lines) * 1e6

            measure()
            return measure

        def floor(size: int) -> Callable[[], float]:
            line = orjson.dumps({"id": 1, "params": {"name": "echo", "arguments": {"text": "x" * size}}})

            def measure() -> float:
                number = count(size)
                cpu = time.process_time_ns()
                for _ in range(number):
                    bytearray(orjson.dumps(orjson.loads(line)))
                return (time.process_time_ns() - cpu) / number / 1e3

            return measure

        every = [prepared(size) for size in MESSAGE_SIZES] + [floor(size) for size in MESSAGE_SIZES]
        values = in_turns_by_size("messages", every, repetitions)
    number = len(MESSAGE_SIZES)
    return Growth(
        title="echo over stdio",
        unit="us",
        variable="bytes",
        sizes=MESSAGE_SIZES,
        values={"ours": values[:number], "floor": values[number:]},
        expected="linear",
    )
