"""The stdio part of the benchmark of calls: a server or a client in a process, and a raw peer. Run by `scripts/bench/calls.py`."""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.http_calls import client_command, said
from bench.sides import PROGRAMS

if TYPE_CHECKING:
    from bench.sides import Side

LEGACY: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
SILENCE: Final = 900.0
"""Seconds without a response after which a server under test is not waited for."""
IMPORTED: Final = {
    "client": {
        "ours": "mcp_client",
        "official": "mcp",
        "typescript": "@modelcontextprotocol/client",
        "floor": "trio",
    },
    "server": {
        "ours": "mcp_server",
        "official": "mcp.server.mcpserver",
        "typescript": "@modelcontextprotocol/server",
        "floor": "trio",
    },
}
"""The module that `importing` imports, by role and by the program of the side."""


class Process:
    """A server under test, driven with bare reads and writes."""

    def __init__(self, side: Side, *arguments: str) -> None:
        command = side.command("server", *arguments)
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
        """Send requests with a fixed number in flight, until all have responses.

        Raises:
            RuntimeError: The server has ended, or has sent nothing for `SILENCE` seconds.
        """
        answers: list[bytes] = []
        waiting, pending, received = list(reversed(lines)), b"", []
        sent = 0
        deadline = time.monotonic() + SILENCE
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
                selector.select(0 if pending else SILENCE / 2)
                try:
                    data = self.read()
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        missing = len(lines) - len(answers)
                        raise RuntimeError(f"{missing} requests have no response:\n{said(self.errors)}") from None
                    continue
                deadline = time.monotonic() + SILENCE
                received.append(data)
                if b"\n" in data:
                    *whole, rest = b"".join(received).split(b"\n")
                    answers += whole
                    received = [rest]
        return answers

    def write(self, line: bytes) -> None:
        """Write a line, and wait until the pipe has space for it."""
        while line:
            try:
                line = line[os.write(self.to, line) :]
            except BlockingIOError:
                select.select([], [self.to], [])

    def read(self) -> bytes:
        """Read the available bytes.

        Raises:
            RuntimeError: The server has ended.
        """
        data = os.read(self.back, 1 << 20)
        if not data:
            raise RuntimeError(f"the server under test ended; its output:\n{said(self.errors)}")
        return data

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


def calls(side: Side, revision: str, in_flight: int, number: int) -> tuple[float, float]:
    """Return CPU and wall microseconds per call of an echo."""
    process = Process(side)
    try:
        process.open(revision)

        def lines(count: int) -> list[bytes]:
            params: dict[str, object] = {"name": "echo", "arguments": {"text": "hello"}}
            return [process.line("tools/call", params, revision) for _ in range(count)]

        process.exchange(lines(side.warm_up), in_flight)
        wanted = lines(number)
        cpu, wall = process.cpu(), time.perf_counter()
        answers = process.exchange(wanted, in_flight)
        cpu, wall = process.cpu() - cpu, time.perf_counter() - wall
        if any(b'"hello"' not in answer for answer in answers):
            raise RuntimeError(f"{side.name} answered: {answers[0][:200]!r}")
        return cpu / number * 1e6, wall / number * 1e6
    finally:
        process.close()


def listing(side: Side, revision: str, number: int) -> float:
    """Return CPU microseconds of a `tools/list` of 100 tools."""
    process = Process(side, "98")
    try:
        process.open(revision)
        process.exchange([process.line("tools/list", {}, revision) for _ in range(20)], 1)
        wanted = [process.line("tools/list", {}, revision) for _ in range(number)]
        cpu = process.cpu()
        process.exchange(wanted, 8)
        return (process.cpu() - cpu) / number * 1e6
    finally:
        process.close()


def large(side: Side, size: int, number: int) -> float:
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


def start(side: Side) -> tuple[float, float]:
    """Return milliseconds from the start of the process to its first response to a call, and its memory then in MiB."""
    process = Process(side)
    try:
        process.open(LEGACY)
        process.exchange([process.line("tools/call", {"name": "echo", "arguments": {"text": "hello"}}, LEGACY)], 1)
        return (time.perf_counter() - process.began) * 1e3, process.memory()
    finally:
        process.close()


def client(side: Side, revision: str, at_once: int, number: int, program: tuple[str, ...] = ()) -> float:
    """Return CPU microseconds of the client per call. The arguments are those of `http_calls.client`."""
    peer = [sys.executable, str(PROGRAMS / "peer.py")]
    command = client_command(side, "client", program, revision, str(number), str(at_once), *peer)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures["cpu"]


def importing(side: Side, role: str) -> float:
    """Return milliseconds to import the client or the server, without the start of the interpreter; for the floor, trio.

    Args:
        side: The side.
        role: `client` or `server`.
    """
    command = side.import_command(IMPORTED[role][side.program])
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout) * 1e3
