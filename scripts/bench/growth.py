"""The growth of cost: CPU time of a call by the size of a message, and by the number of objects of a server or a client.

The objects are tools, resources, templates, sessions, subscriptions, open streams, open tasks and connected clients. For each size there is one process. All processes of a row exist at the same time, and the calls go to them in turns, so that
load of the machine affects all sizes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench import http_calls, stdio_calls
from bench.measurements import report
from bench.results import Growth
from bench.sides import OURS, PROGRAMS, Side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.measurements import Effort

__all__ = ["fitting", "growths", "in_turns_by_size"]

LEGACY: Final = stdio_calls.LEGACY
MODERN: Final = stdio_calls.MODERN
SIZES: Final = (10, 1_000, 100_000)
SESSION_SIZES: Final = (10, 1_000, 10_000, 100_000)
SESSION_BYTES: Final = 8 << 10
"""Memory of a session, as an upper estimate."""
STREAM_SIZES: Final = (10, 100, 1_000, 10_000)
TASK_SIZES: Final = (10, 100, 1_000, 10_000)
TASK_BYTES: Final = 32 << 10
"""Memory of an open task, as an upper estimate."""
MEMBER_SIZES: Final = (10, 100, 1_000)
MESSAGE_SIZES: Final = (100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 10 << 20)
GROWING: Final = Side("ours", "growth")
CHANGED: Final = "note://one"
"""The resource that the tool `change` notifies of."""
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
    """Measure how the cost of a call grows. A quick estimate has no more than three sizes."""
    repetitions, calls, number = (3, 100, 3) if effort.quick else (5, 300, None)
    yield from registered(repetitions, calls)
    yield from sessions(fitting("sessions", SESSION_SIZES[:number], SESSION_BYTES), repetitions, calls)
    yield subscriptions("subscriptions", SIZES, WATCHED, repetitions, calls)
    yield subscriptions("listen streams", STREAM_SIZES[:number], 1, repetitions, calls)
    yield tasks(fitting("open tasks", TASK_SIZES[:number], TASK_BYTES), repetitions, calls)
    yield group_members(MEMBER_SIZES, repetitions, calls)
    yield messages(repetitions)


def fitting(variable: str, sizes: Sequence[int], each: int, available: int | None = None) -> Sequence[int]:
    """Return the sizes that need at most half of the available memory, and at least the first three. Print the others.

    Args:
        variable: What is counted.
        sizes: The sizes, in ascending order.
        each: The bytes for one.
        available: The available bytes; by default those of this machine.
    """
    if available is None:
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024
    fit = [size for place, size in enumerate(sizes) if place < 3 or size * each <= available // 2]
    for size in sizes[len(fit) :]:
        print(f"{size:,} {variable} are left out: they need more than half of the available memory", flush=True)
    return fit


def registered(repetitions: int, calls: int) -> Iterator[Growth]:
    """Measure requests for one of many tools, resources or templates."""
    with ExitStack() as stack:
        processes: dict[tuple[str, int], stdio_calls.Process] = {}
        # The largest servers begin first, and register all that they offer at the same time: that takes half a minute of each.
        for size in reversed(SIZES):
            for kind in REGISTERED:
                processes[kind, size] = stdio_calls.Process(GROWING, kind, str(size))
                stack.callback(processes[kind, size].close)
        for kind, (method, _) in REGISTERED.items():
            measures: list[Callable[[], float]] = []
            for size in SIZES:
                report(f"waiting for a server with {size:,} {kind}")
                processes[kind, size].open(LEGACY)
                measures.append(partial(_requests, processes[kind, size], kind, size, calls))
                measures[-1]()
            values = in_turns_by_size(kind, measures, repetitions)
            yield Growth(title=method, unit="us", variable=kind, sizes=SIZES, values={"ours": values}, expected="flat")


def _requests(process: stdio_calls.Process, kind: str, size: int, calls: int) -> float:
    """Return CPU microseconds of a request for one tool, resource or template, for different ones from the first to the last."""
    method, params = REGISTERED[kind]
    lines = [process.line(method, params(number * (size - 1) // (calls - 1)), LEGACY) for number in range(calls)]
    cpu = process.cpu()
    answers = process.exchange(lines, 1)
    cpu = process.cpu() - cpu
    if any(b"hello" not in answer for answer in answers):
        raise RuntimeError(f"a server with {size} {kind} answered: {answers[0][:200]!r}")
    return cpu / calls * 1e6


def sessions(sizes: Sequence[int], repetitions: int, calls: int) -> Iterator[Growth]:
    """Measure a call in one of many sessions, and a change that one of them is notified of."""
    with ExitStack() as stack:
        counted: list[Callable[[], float]] = []
        changed: list[Callable[[], float]] = []
        for size in sizes:
            report(f"opening {size:,} sessions")
            program = http_calls.server_of(GROWING, "json")
            stack.callback(program.close)
            connections = [http_calls.Connection(program.port) for _ in range(8)]
            for each in connections:
                stack.callback(each.close)
            opened = http_calls.open_sessions(connections, size)
            stream = _watching(connections[0], opened[0])
            used = [opened[number * (size - 1) // (calls - 1)] for number in range(calls)]
            counted.append(partial(_calls_in, program, used))
            changed.append(partial(_changes, program, stream, calls))
        for measure in (*counted, *changed):
            measure()
        values = in_turns_by_size("sessions", [*counted, *changed], repetitions)
    for title, found in (
        ("tools/call over HTTP", values[: len(sizes)]),
        ("change notified to one session", values[len(sizes) :]),
    ):
        yield Growth(
            title=title, unit="us", variable="sessions", sizes=tuple(sizes), values={"ours": found}, expected="flat"
        )


def _watching(connection: http_calls.Connection, session: str) -> http_calls.Connection:
    """Subscribe a session to a resource, and return the connection, which is then its standalone stream."""
    subscribe = http_calls.request("resources/subscribe", {"uri": CHANGED}, LEGACY)
    connection.exchange(subscribe, http_calls.headers_of(LEGACY, "resources/subscribe", session=session))
    headers = http_calls.headers_of(LEGACY, "", session=session) | {"accept": "text/event-stream"}
    connection.send(b"", headers, method="GET")
    http_calls.wait_for([connection], b"text/event-stream")
    return connection


def _calls_in(program: http_calls.Program, used: Sequence[str]) -> float:
    """Return CPU microseconds of a call in each of these sessions."""
    body = http_calls.request("tools/call", {"name": "echo", "arguments": {"text": "hello"}}, LEGACY)
    # The server closes a connection that is idle while others are measured.
    connection = http_calls.Connection(program.port)
    cpu = program.cpu()
    for session in used:
        connection.exchange(body, http_calls.headers_of(LEGACY, "tools/call", "echo", session))
    cpu = program.cpu() - cpu
    connection.close()
    return cpu / len(used) * 1e6


def _changes(program: http_calls.Program, stream: http_calls.Connection, calls: int) -> float:
    """Return CPU microseconds of a call that changes a resource, and of its notification on a stream."""
    body = http_calls.request("tools/call", {"name": "change", "arguments": {}}, MODERN)
    named = http_calls.headers_of(MODERN, "tools/call", "change")
    caller = http_calls.Connection(program.port)
    cpu = program.cpu()
    for _ in range(calls):
        caller.exchange(body, named)
        http_calls.wait_for([stream], b"resources/updated")
    cpu = program.cpu() - cpu
    caller.close()
    return cpu / calls * 1e6


def subscriptions(variable: str, sizes: Sequence[int], watched: int, repetitions: int, calls: int) -> Growth:
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
            program = http_calls.server_of(GROWING, "json")
            stack.callback(program.close)
            streams: list[http_calls.Connection] = []
            uris = [CHANGED, *(f"note://{number}" for number in range(size - 1))]
            headers = http_calls.headers_of(MODERN, "subscriptions/listen")
            for start in range(0, size, watched):
                stream = http_calls.Connection(program.port)
                stack.callback(stream.close)
                wanted: dict[str, object] = {"notifications": {"resourceSubscriptions": uris[start : start + watched]}}
                stream.send(http_calls.request("subscriptions/listen", wanted, MODERN, start + 1), headers)
                http_calls.wait_for([stream], b"acknowledged")
                streams.append(stream)
            measure = partial(_changes, program, streams[0], calls)
            measure()
            return measure

        values = in_turns_by_size(variable, [prepared(size) for size in sizes], repetitions)
    return Growth(
        title="change notified to one stream",
        unit="us",
        variable=variable,
        sizes=tuple(sizes),
        values={"ours": values},
        expected="flat",
    )


def tasks(sizes: Sequence[int], repetitions: int, calls: int) -> Growth:
    """Measure `tasks/get` of one of many open tasks."""
    with ExitStack() as stack:

        def prepared(size: int) -> Callable[[], float]:
            report(f"starting {size:,} tasks")
            process = stdio_calls.Process(GROWING, "tasks", "1")
            stack.callback(process.close)
            process.open(LEGACY)
            params: dict[str, object] = {"name": "hold", "arguments": {}, "task": {}}
            answers = process.exchange([process.line("tools/call", params, LEGACY) for _ in range(size)], 64)
            ids = [orjson.loads(answer)["result"]["task"]["taskId"] for answer in answers]
            used = [ids[number * (size - 1) // (calls - 1)] for number in range(calls)]

            def measure() -> float:
                lines = [process.line("tasks/get", {"taskId": id}, LEGACY) for id in used]
                cpu = process.cpu()
                answers = process.exchange(lines, 1)
                cpu = process.cpu() - cpu
                if any(b'"working"' not in answer for answer in answers):
                    raise RuntimeError(f"a server with {size} tasks answered: {answers[0][:200]!r}")
                return cpu / calls * 1e6

            measure()
            return measure

        values = in_turns_by_size("tasks", [prepared(size) for size in sizes], repetitions)
    return Growth(
        title="tasks/get over stdio",
        unit="us",
        variable="open tasks",
        sizes=tuple(sizes),
        values={"ours": values},
        expected="flat",
    )


def group_members(sizes: Sequence[int], repetitions: int, calls: int) -> Growth:
    """Measure a call of a client that is one of a connected group, in the process of the group."""
    with ExitStack() as stack:
        peer = http_calls.Program([sys.executable, str(PROGRAMS / "http_peer.py")])
        stack.callback(peer.close)

        def prepared(size: int) -> Callable[[], float]:
            report(f"connecting {size:,} clients")
            command = GROWING.command("group", MODERN, str(size), f"http://127.0.0.1:{peer.port}/mcp")
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(child.wait)
            assert child.stdin is not None
            assert child.stdout is not None
            stack.callback(child.stdout.close)
            stack.callback(child.stdin.close)
            to, back = child.stdin, child.stdout
            if back.readline() != "ready\n":
                raise RuntimeError(f"a group of {size} clients did not connect")

            def measure() -> float:
                to.write(f"{calls}\n")
                to.flush()
                return float(back.readline())

            return measure

        values = in_turns_by_size("members", [prepared(size) for size in sizes], repetitions)
    return Growth(
        title="tools/call of a member over HTTP",
        unit="us",
        variable="members of a group",
        sizes=tuple(sizes),
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
