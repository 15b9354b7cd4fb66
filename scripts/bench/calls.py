"""The benchmark of calls: this project and the official SDK on the same machine, in turns.

    nox -s bench                      all parts, some minutes
    nox -s bench -- --quick           a quick estimate
    nox -s bench -- --only server     server, client, start, import, http, asgi, http-client, client-forms

Both sides do the same work: a raw peer, the same for both, sends or responds, and the CPU time of the measured process
is read from the system. Repetitions are interleaved, so that load of the machine affects both; the median of each is
printed, and the factor by which the official SDK is slower. Ratios are portable, absolute figures are not.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import math
import os
import selectors
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench import http_calls as bench_http

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PROGRAMS = Path(__file__).parent / "programs"
LEGACY = "2025-11-25"
MODERN = "2026-07-28"
SIDES = ("official", "ours")
HTTP_REPETITIONS = 3
"""Fewer than for stdio: HTTP has many cases, and a call of the official SDK takes a millisecond and more."""


ASGI_GOALS = {1: (math.inf, 1.0), 16: (1.6, 1.7)}
"""The highest CPU time on uvicorn as a multiple of that on the embedded host, and the least by which that of the official SDK
on uvicorn is a multiple of it, by the number of connections."""


class Figure(NamedTuple):
    """A line of the report."""

    title: str
    unit: str
    ours: float
    official: float
    goal: float | None


class Process:
    """A server under test, driven with bare reads and writes."""

    def __init__(self, side: str, *arguments: str) -> None:
        command = [sys.executable, str(PROGRAMS / f"server_{side}.py"), *arguments]
        self.began = time.perf_counter()
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, bufsize=0
        )
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.to, self.back = self.child.stdin.fileno(), self.child.stdout.fileno()
        os.set_blocking(self.to, False)
        os.set_blocking(self.back, False)
        self.ids = 0

    def exchange(self, lines: list[bytes], in_flight: int) -> list[bytes]:
        """Send requests with a fixed number in flight, until all have responses."""
        answers: list[bytes] = []
        waiting, pending, received = list(reversed(lines)), b"", []
        sent = 0
        with selectors.DefaultSelector() as selector:
            selector.register(self.back, selectors.EVENT_READ)
            while len(answers) < len(lines):
                capacity = in_flight - (sent - len(answers))
                for _ in range(min(capacity, len(waiting))):
                    pending += waiting.pop()
                    sent += 1
                if pending:
                    with contextlib.suppress(BlockingIOError):
                        pending = pending[os.write(self.to, pending) :]
                selector.select(0 if pending else 30)
                try:
                    data = os.read(self.back, 1 << 20)
                except BlockingIOError:
                    continue
                if not data:
                    raise RuntimeError(f"the server under test ended; its output:\n{bench_http.said(self.errors)}")
                received.append(data)
                if b"\n" in data:
                    *whole, rest = b"".join(received).split(b"\n")
                    answers += whole
                    received = [rest]
        return answers

    def line(self, method: str, params: dict[str, object], revision: str) -> bytes:
        """Return a request as a line."""
        self.ids += 1
        if revision == MODERN:
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            }
            params = {**params, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}
        return json.dumps(message).encode() + b"\n"

    def open(self, revision: str) -> None:
        """Run the handshake, if the revision has one."""
        if revision == MODERN:
            return
        params: dict[str, object] = {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        self.exchange([self.line("initialize", params, revision)], 1)
        os.write(self.to, b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def cpu(self) -> float:
        """Return the CPU seconds of all threads of the process, to the nanosecond."""
        return (
            sum(int(file.read_text().split()[0]) for file in Path(f"/proc/{self.child.pid}/task").glob("*/schedstat"))
            / 1e9
        )

    def memory(self) -> float:
        """Return the resident memory in MiB."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024

    def close(self) -> None:
        """Terminate the process."""
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.close()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.child.stdout.close()
        self.errors.close()


def calls(side: str, revision: str, in_flight: int, number: int) -> tuple[float, float]:
    """Return CPU and wall microseconds per call of an echo."""
    process = Process(side)
    try:
        process.open(revision)

        def lines(count: int) -> list[bytes]:
            params: dict[str, object] = {"name": "echo", "arguments": {"text": "hello"}}
            return [process.line("tools/call", params, revision) for _ in range(count)]

        process.exchange(lines(200), in_flight)
        wanted = lines(number)
        cpu, wall = process.cpu(), time.perf_counter()
        answers = process.exchange(wanted, in_flight)
        cpu, wall = process.cpu() - cpu, time.perf_counter() - wall
        if any(b'"hello"' not in answer for answer in answers):
            raise RuntimeError(f"{side} answered: {answers[0][:200]!r}")
        return cpu / number * 1e6, wall / number * 1e6
    finally:
        process.close()


def listing(side: str, revision: str, number: int) -> float:
    """Return CPU microseconds of a `tools/list` of 100 tools."""
    process = Process(side, "99")
    try:
        process.open(revision)
        process.exchange([process.line("tools/list", {}, revision) for _ in range(20)], 1)
        wanted = [process.line("tools/list", {}, revision) for _ in range(number)]
        cpu = process.cpu()
        process.exchange(wanted, 8)
        return (process.cpu() - cpu) / number * 1e6
    finally:
        process.close()


def large(side: str, size: int, number: int) -> float:
    """Return CPU milliseconds of an echo of `size` bytes."""
    process = Process(side)
    try:
        process.open(LEGACY)
        params: dict[str, object] = {"name": "echo", "arguments": {"text": "x" * size}}
        process.exchange([process.line("tools/call", params, LEGACY)], 1)
        wanted = [process.line("tools/call", params, LEGACY) for _ in range(number)]
        cpu = process.cpu()
        process.exchange(wanted, 1)
        return (process.cpu() - cpu) / number * 1e3
    finally:
        process.close()


def start(side: str) -> tuple[float, float]:
    """Return milliseconds from the start of the process to its first response to a call, and its memory then in MiB."""
    process = Process(side)
    try:
        process.open(LEGACY)
        process.exchange([process.line("tools/call", {"name": "echo", "arguments": {"text": "hello"}}, LEGACY)], 1)
        return (time.perf_counter() - process.began) * 1e3, process.memory()
    finally:
        process.close()


def client(side: str, revision: str, at_once: int, number: int, program: tuple[str, ...] = ()) -> float:
    """Return CPU microseconds of the client per call. The arguments are those of `http_calls.client`."""
    name, *first = program or (f"client_{side}.py",)
    command = [sys.executable, str(PROGRAMS / name), *first, revision, str(number), str(at_once)]
    peer = [sys.executable, str(PROGRAMS / "peer.py")]
    done = subprocess.run([*command, *peer], check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures["cpu"]


def importing(side: str) -> float:
    """Return milliseconds to import the client, without the start of Python."""
    module = "mcp_client" if side == "ours" else "mcp"
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout) * 1e3


def in_turns(
    title: str, sides: tuple[str, ...], repetitions: int, measure: Callable[[str], float]
) -> Mapping[str, list[float]]:
    """Measure the sides in turns. Return the values of each, in the order of the sides."""
    values: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(repetitions):
        for side in sides if number % 2 == 0 else reversed(sides):
            print(f"\r  {title}: round {number + 1} of {repetitions}, {side}   ", end="", file=sys.stderr, flush=True)
            values[side].append(measure(side))
    print("\r" + " " * 100 + "\r", end="", file=sys.stderr, flush=True)
    return values


def compare(title: str, unit: str, goal: float | None, repetitions: int, measure: Callable[[str], float]) -> Figure:
    """Return the medians of both sides, measured in turns."""
    values = in_turns(title, SIDES, repetitions, measure)
    figure = Figure(title, unit, statistics.median(values["ours"]), statistics.median(values["official"]), goal)
    show(figure)
    return figure


def show(figure: Figure) -> None:
    """Print a line."""
    ratio = figure.official / figure.ours
    if figure.goal is None:
        verdict = ""
    else:
        verdict = f"  goal {figure.goal:g}: {'reached' if ratio >= figure.goal else 'MISSED'}"
    print(
        f"{figure.title:<44} {figure.ours:>9.1f} {figure.official:>9.1f} {figure.unit:<4} {ratio:>6.2f} x{verdict}",
        flush=True,
    )


def main() -> None:
    """Measure the chosen parts and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer calls and repetitions")
    parser.add_argument("--only", choices=tuple(PARTS), help="measure only this")
    options = parser.parse_args()
    if importlib.util.find_spec("mcp") is None:
        parser.error("the official SDK (mcp) is not installed: run `nox -s bench`")
    repetitions = 3 if options.quick else 5
    number = 1_000 if options.quick else 4_000
    wanted = (options.only,) if options.only else tuple(PARTS)
    print(f"{'':<44} {'ours':>9} {'official':>9}")
    for part in wanted:
        PARTS[part](repetitions, number)


def over_stdio(repetitions: int, number: int) -> None:
    """Measure the server over stdio."""
    for revision in (LEGACY, MODERN):
        for in_flight, goal in ((1, 5.0), (64, 12.0)):
            title = f"server CPU, tools/call, {in_flight} in flight, {revision}"
            compare(title, "us", goal, repetitions, lambda s, r=revision, n=in_flight: calls(s, r, n, number)[0])  # type: ignore[misc]  # bound now
        title = f"server latency, tools/call, {revision}"
        compare(title, "us", None, repetitions, lambda s, r=revision: calls(s, r, 1, number)[1])  # type: ignore[misc]  # bound now
    compare(
        "server CPU, tools/list of 100", "us", 15.0, repetitions, lambda s: listing(s, LEGACY, max(200, number // 20))
    )
    for size in (1, 10):
        compare(f"server CPU, echo of {size} MiB", "ms", 1.0, repetitions, lambda s, n=size: large(s, n << 20, 8))  # type: ignore[misc]  # bound now


def client_over_stdio(repetitions: int, number: int) -> None:
    """Measure the client over stdio."""
    for revision in (LEGACY, MODERN):
        for at_once, wished in ((1, None), (16, 4.0)):
            title = f"client CPU, tools/call, {at_once} in flight, {revision}"
            compare(title, "us", wished, repetitions, lambda s, r=revision, n=at_once: client(s, r, n, number))  # type: ignore[misc]  # bound now


def starting(repetitions: int, number: int) -> None:  # noqa: ARG001
    """Measure the time from the start to the first response."""
    compare("server, start to first response", "ms", 2.5, repetitions + 2, lambda s: start(s)[0])
    compare("server, memory after the first response", "MiB", 2.0, repetitions, lambda s: start(s)[1])


def imports(repetitions: int, number: int) -> None:  # noqa: ARG001
    """Measure the import of the client."""
    compare("client, import", "ms", 3.5, repetitions + 2, importing)


def http(repetitions: int, number: int) -> None:
    """Measure the server over HTTP."""
    repetitions = min(repetitions, HTTP_REPETITIONS)
    for host in ("h11", "hypercorn"):
        values = [bench_http.floor(host, 16, number) for _ in range(repetitions)]
        print(
            f"{f'HTTP floor, bare {host}, 16 connections':<44} {statistics.median(values):>9.1f} {'':>9} us", flush=True
        )
    # The official SDK has no streams for plain calls of 2026-07-28.
    for form, revision, goal in (("json", LEGACY, 2.0), ("json", MODERN, 2.0), ("stream", LEGACY, 3.5)):
        for at_once in (1, 16, 64):
            title = f"HTTP {form}, {at_once} connections, {revision}"
            some = partial(bench_http.calls, form=form, revision=revision, at_once=at_once, number=number)
            compare(title, "us", goal if at_once == 16 else None, repetitions, some)
    for size, wished in ((1, None), (10, 1.0)):
        title = f"HTTP json, echo of {size} MiB, {LEGACY}"
        echo = partial(bench_http.calls, form="json", revision=LEGACY, at_once=1, number=8, size=size << 20)
        compare(title, "us", wished, repetitions, echo)
    bench_http.allow_connections(500)
    compare("HTTP, memory of a session (of 1,000)", "KiB", None, repetitions, lambda s: bench_http.sessions(s, 1_000))
    compare(
        "HTTP, memory of a listen stream (of 500)", "KiB", None, repetitions, lambda s: bench_http.listening(s, 500)[0]
    )
    compare("HTTP, one notification to 500 streams", "ms", 1.5, repetitions, lambda s: bench_http.listening(s, 500)[1])


def asgi(repetitions: int, number: int) -> None:
    """Measure the application of a server on uvicorn beside the embedded host, and beside the official SDK on uvicorn."""
    repetitions = min(repetitions, HTTP_REPETITIONS)
    # `uvicorn` installs h11, `uvicorn[standard]` uvloop and httptools.
    hosts = [(loop, parser) for parser in ("h11", "httptools") for loop in ("asyncio", "uvloop")]
    for loop, parser in hosts:
        values = [bench_http.floor(f"uvicorn-{loop}-{parser}", 16, number) for _ in range(repetitions)]
        title = f"HTTP floor, uvicorn, {loop}, {parser}, 16"
        print(f"{title:<44} {statistics.median(values):>9.1f} {'':>9} us", flush=True)
    print(f"{'':<44} {'embedded':>9} {'uvicorn':>9} {'official':>9}")
    for loop, parser in hosts:
        for form, revision in (("json", MODERN), ("json", LEGACY), ("stream", LEGACY)):
            for at_once in (1, 16):
                some = partial(
                    bench_http.calls,
                    form=form,
                    revision=revision,
                    at_once=at_once,
                    number=number,
                    loop=loop,
                    parser=parser,
                )
                title = f"{loop}, {parser}, {form}, {at_once}, {revision}"
                values_of = in_turns(title, ("ours", "asgi", "official"), repetitions, some)
                embedded, ours, official = (statistics.median(each) for each in values_of.values())
                highest, least = ASGI_GOALS[at_once]
                reached = ours / embedded <= highest and official / ours >= least
                print(
                    f"{title:<44} {embedded:>9.1f} {ours:>9.1f} {official:>9.1f} us"
                    f" {ours / embedded:>6.2f} of embedded, official {official / ours:.2f} x"
                    f"  goals {highest:g} and {least:g}: {'reached' if reached else 'MISSED'}",
                    flush=True,
                )


def http_client(repetitions: int, number: int) -> None:
    """Measure the client over HTTP."""
    repetitions = min(repetitions, HTTP_REPETITIONS)
    for revision in (LEGACY, MODERN):
        for at_once, goal in ((1, None), (16, 5.0)):
            title = f"HTTP client CPU, tools/call, {at_once} in flight, {revision}"
            compare(title, "us", goal, repetitions, lambda s, r=revision, n=at_once: bench_http.client(s, r, n, number))  # type: ignore[misc]  # bound now


FORMS: Mapping[str, tuple[str, ...]] = {
    "ours": (),
    "asyncio": ("client_asyncio.py", "asyncio"),
    "uvloop": ("client_asyncio.py", "uvloop"),
    "blocking": ("client_blocking.py",),
    "official": (),
}
"""The forms of the client, and the official SDK, each with its program and the first arguments; empty for that of the side."""

FORM_GOALS = (1.6, 0.5)
"""The highest CPU time on asyncio with 16 in flight, as a multiple of that on trio and of that of the official SDK."""


def client_forms(repetitions: int, number: int) -> None:
    """Measure the client on trio, on asyncio and without a loop, beside the official SDK."""
    print(f"{'':<44} {'trio':>9} {'asyncio':>9} {'uvloop':>9} {'blocking':>9} {'official':>9}")
    for transport, measured in (("stdio", client), ("HTTP", bench_http.client)):
        for at_once in (1, 16):
            title = f"{transport} client CPU, {at_once} in flight, {MODERN}"
            some = partial(_form, measured, at_once, number)
            values = in_turns(title, tuple(FORMS), min(repetitions, HTTP_REPETITIONS), some)
            found = {form: statistics.median(each) for form, each in values.items()}
            row = " ".join(f"{each:>9.1f}" for each in found.values())
            of_trio, of_official = found["asyncio"] / found["ours"], found["asyncio"] / found["official"]
            verdict = ""
            if at_once == 16:
                reached = of_trio <= FORM_GOALS[0] and of_official < FORM_GOALS[1]
                verdict = f"  goals {FORM_GOALS[0]:g} and {FORM_GOALS[1]:g}: {'reached' if reached else 'MISSED'}"
            print(
                f"{title:<44} {row} us, asyncio {of_trio:.2f} of trio, {of_official:.2f} of official{verdict}",
                flush=True,
            )


def _form(
    measured: Callable[[str, str, int, int, tuple[str, ...]], float], at_once: int, number: int, form: str
) -> float:
    return measured(form, MODERN, at_once, number, FORMS[form])


PARTS: Mapping[str, Callable[[int, int], None]] = {
    "server": over_stdio,
    "client": client_over_stdio,
    "start": starting,
    "import": imports,
    "http": http,
    "asgi": asgi,
    "http-client": http_client,
    "client-forms": client_forms,
}
"""The parts of the benchmark: each takes the numbers of repetitions and of calls."""

if __name__ == "__main__":
    main()
