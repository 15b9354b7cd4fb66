"""The HTTP part of the benchmark of calls: this project and the official SDK. Run by `scripts/bench/calls.py`.

The driver is the same for all sides: bare sockets; each connection sends its next request after the last response.
"""

from __future__ import annotations

import contextlib
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
from typing import IO, TYPE_CHECKING

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.sides import FLOOR, PROGRAMS, Side

if TYPE_CHECKING:
    from collections.abc import Sequence

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
INFO = {"name": "bench", "version": "1"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": INFO,
}


CORES = sorted(os.sched_getaffinity(0))


def separate(pid: int) -> None:
    """Give a process a core of its own, if there are two; the driver has the others until `os.sched_setaffinity(0, CORES)`."""
    if len(CORES) > 1:
        os.sched_setaffinity(pid, CORES[:1])
        os.sched_setaffinity(0, CORES[1:])


class Program:
    """A process whose first line is its port.

    It has a core of its own, if there are two. Otherwise each response wakes the driver, which then often takes the core of
    the server: the caches are lost, and the server seems slower the more evenly it sends its responses.
    """

    def __init__(self, command: Sequence[str]) -> None:
        with tempfile.TemporaryFile() as errors:
            self.child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
            separate(self.child.pid)
            assert self.child.stdout is not None
            line = self.child.stdout.readline()
            if not line:
                self.close()
                raise RuntimeError(f"{command[1]} did not start; its output:\n{said(errors)}")
        self.port = int(line)

    def cpu(self) -> float:
        """Return the CPU seconds of all threads."""
        tasks = Path(f"/proc/{self.child.pid}/task").glob("*/schedstat")
        return sum(int(file.read_text().split()[0]) for file in tasks) / 1e9

    def memory(self) -> float:
        """Return the resident memory in KiB."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        return float(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))

    def close(self) -> None:
        """Terminate the process."""
        os.sched_setaffinity(0, CORES)
        self.child.kill()
        self.child.wait()
        if self.child.stdout is not None:
            self.child.stdout.close()


def said(errors: IO[bytes]) -> str:
    """Return the end of a program's stderr, which is in the file `errors`."""
    errors.seek(0)
    return errors.read()[-2000:].decode(errors="replace")


class Connection:
    """A connection to the server under test."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()

    def send(self, body: bytes, headers: dict[str, str], method: str = "POST") -> None:
        """Write a request."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{method} /mcp HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\n{lines}content-length: {len(body)}\r\n\r\n"
        self.socket.sendall(head.encode() + body)

    def feed(self) -> bytes | None:
        """Read the available bytes, and return the response once it is complete: its head and its body, still chunked."""
        data = self.socket.recv(1 << 20)
        # A server that writes head and body separately would otherwise wait for this kernel to acknowledge the head.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        if not data:
            raise RuntimeError("the server under test closed the connection")
        self.received += data
        at = self.received.find(b"\r\n\r\n")
        if at < 0:
            return None
        head = bytes(self.received[:at]).lower()
        if b"transfer-encoding: chunked" in head:
            whole = self.received.endswith(b"\r\n0\r\n\r\n")
        else:
            _, _, length = head.partition(b"content-length:")
            whole = len(self.received) - at - 4 >= int(length.split(b"\r\n")[0] or 0)
        if not whole:
            return None
        response = bytes(self.received)
        self.received.clear()
        return response

    def exchange(self, body: bytes, headers: dict[str, str]) -> bytes:
        """Send a request and wait for its response."""
        self.send(body, headers)
        return self.receive()

    def receive(self) -> bytes:
        """Wait for a response."""
        while (response := self.feed()) is None:
            pass
        return response

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


def request(method: str, params: dict[str, object], revision: str, id: int = 1) -> bytes:
    """Return the body of a request."""
    whole = {**params, "_meta": ENVELOPE} if revision == MODERN else params
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": whole}).encode()


def headers_of(revision: str, method: str, name: str | None = None, session: str | None = None) -> dict[str, str]:
    """Return the headers of a request."""
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": revision,
    }
    if revision == MODERN:
        headers["mcp-method"] = method
        if name is not None:
            headers["mcp-name"] = name
    if session is not None:
        headers["mcp-session-id"] = session
    return headers


def open_session(connection: Connection) -> str:
    """Run the handshake and return the session id."""
    return open_sessions([connection], 1)[0]


def open_sessions(connections: Sequence[Connection], number: int) -> list[str]:
    """Run a number of handshakes, one at a time on each connection, and return the session ids."""
    params: dict[str, object] = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": INFO}
    begin, headers = request("initialize", params, LEGACY), headers_of(LEGACY, "initialize")
    found: list[str] = []
    while len(found) < number:
        used = connections[: number - len(found)]
        for connection in used:
            connection.send(begin, headers)
        opened = [_session_of(connection.receive()) for connection in used]
        for connection, session in zip(used, opened, strict=True):
            initialized = headers_of(LEGACY, "notifications/initialized", session=session)
            connection.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}', initialized)
        for connection in used:
            connection.receive()
        found += opened
    return found


def _exchange_twice(connection: Connection) -> None:
    for _ in range(2):
        connection.exchange(request("initialize", {}, LEGACY), headers_of(LEGACY, "initialize"))


def _session_of(response: bytes) -> str:
    head = response.partition(b"\r\n\r\n")[0].decode()
    for line in head.split("\r\n"):
        if line.lower().startswith("mcp-session-id:"):
            return line.partition(":")[2].strip()
    raise RuntimeError(f"no session: {response[:300]!r}")


def run(connections: list[Connection], bodies: list[tuple[bytes, dict[str, str]]], number: int) -> bytes:
    """Send each connection's request repeatedly, `number` in total, and return one of the responses."""
    last = b""
    with selectors.DefaultSelector() as selector:
        for connection, (body, headers) in zip(connections, bodies, strict=True):
            selector.register(connection.socket, selectors.EVENT_READ, (connection, body, headers))
            connection.send(body, headers)
        sent, done = len(connections), 0
        while done < sent:
            for key, _ in selector.select(30):
                connection, body, headers = key.data
                response = connection.feed()
                if response is None:
                    continue
                last = response
                done += 1
                if sent < number:
                    sent += 1
                    connection.send(body, headers)
    return last


def server_of(side: Side, form: str, loop: str = "asyncio", parser: str = "h11") -> Program:
    """Start the server under test.

    Args:
        side: The side.
        form: The form of responses.
        loop: The event loop of uvicorn.
        parser: The HTTP parser of uvicorn, `h11` or `httptools`.
    """
    arguments = {"floor": ("h11",), "uvicorn-floor": (f"uvicorn-{loop}-{parser}",), "hypercorn-floor": ("hypercorn",)}
    if side.program in arguments:
        return Program(FLOOR.command("http_server", *arguments[side.program]))
    return Program(side.command("http_server", form, loop, parser))


def calls(
    side: Side,
    form: str,
    revision: str,
    *,
    at_once: int,
    number: int,
    size: int = 5,
    loop: str = "asyncio",
    parser: str = "h11",
) -> float:
    """Return CPU microseconds of the server per call of an echo of `size` bytes."""
    program = server_of(side, form, loop, parser)
    connections = [Connection(program.port) for _ in range(at_once)]
    is_floor = side.program.endswith("floor")
    try:
        params: dict[str, object] = {"name": "echo", "arguments": {"text": "x" * size}}
        body = request("tools/call", params, revision)
        bodies: list[tuple[bytes, dict[str, str]]] = []
        for connection in connections:
            session = None if revision == MODERN or is_floor else open_session(connection)
            bodies.append((body, headers_of(revision, "tools/call", "echo", session)))
        # A few calls with large messages are each as much work as many small ones.
        run(connections, bodies, max(at_once, side.warm_up if number >= 200 else number))
        cpu = program.cpu()
        response = run(connections, bodies, number)
        cpu = program.cpu() - cpu
        head, _, answer = response.partition(b"\r\n\r\n")
        wanted = b"text/event-stream" if form == "stream" else b"application/json"
        if not is_floor and (b"x" * min(size, 1000) not in answer or wanted not in head):
            raise RuntimeError(f"{side.name} answered: {response[:500]!r}")
        return cpu / number * 1e6
    finally:
        for connection in connections:
            connection.close()
        program.close()


def idle_memory(side: Side) -> float:
    """Return MiB of memory of a server that has answered one request."""
    program = server_of(side, "json")
    connection = Connection(program.port)
    try:
        params: dict[str, object] = {"name": "echo", "arguments": {"text": "hello"}}
        connection.exchange(request("tools/call", params, MODERN), headers_of(MODERN, "tools/call", "echo"))
        return program.memory() / 1024
    finally:
        connection.close()
        program.close()


def group(side: Side, revision: str, number: int) -> float:
    """Return KiB of memory for each of several clients in one process, after a call."""
    peer = Program([sys.executable, str(PROGRAMS / "http_peer.py")])
    try:
        url = f"http://127.0.0.1:{peer.port}/mcp"
        command = side.command("group", revision, str(number), url)
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    finally:
        peer.close()


def sessions(side: Side, number: int) -> float:
    """Return KiB of memory per open session."""
    program = server_of(side, "json")
    connection = Connection(program.port)
    try:
        for _ in range(20):
            open_session(connection)
        before = program.memory()
        for _ in range(number):
            open_session(connection)
        return max(1.0, program.memory() - before) / number
    finally:
        connection.close()
        program.close()


def opening(side: Side, number: int) -> float:
    """Return CPU microseconds to open a session: its two requests."""
    program = server_of(side, "stream")
    connection = Connection(program.port)
    # The floor has no sessions.
    opened = _exchange_twice if side == FLOOR else open_session
    try:
        for _ in range(number):
            opened(connection)
        cpu = program.cpu()
        for _ in range(number):
            opened(connection)
        return (program.cpu() - cpu) / number * 1e6
    finally:
        connection.close()
        program.close()


def listening(side: Side, number: int) -> tuple[float, float]:
    """Return KiB of memory per listen stream, and CPU milliseconds to notify all streams of one change."""
    program = server_of(side, "stream")
    streams: list[Connection] = []
    caller = Connection(program.port)
    try:
        params: dict[str, object] = {"name": "change", "arguments": {}}
        change, named = request("tools/call", params, MODERN), headers_of(MODERN, "tools/call", "change")
        caller.exchange(change, named)
        wanted: dict[str, object] = {"notifications": {"resourceSubscriptions": ["note://one"]}}
        headers = headers_of(MODERN, "subscriptions/listen")
        before = program.memory()
        for id in range(number):
            stream = Connection(program.port)
            stream.send(request("subscriptions/listen", wanted, MODERN, id + 1), headers)
            streams.append(stream)
        wait_for(streams, b"acknowledged")
        memory = (program.memory() - before) / number
        cpu = program.cpu()
        repetitions = 5
        for _ in range(repetitions):
            caller.exchange(change, named)
            wait_for(streams, b"resources/updated")
        return memory, (program.cpu() - cpu) / repetitions * 1e3
    finally:
        for each in (*streams, caller):
            each.close()
        program.close()


def wait_for(streams: list[Connection], text: bytes) -> None:
    """Read all streams until `text` has arrived on each. Later bytes belong to the cost of the next repetition."""
    with selectors.DefaultSelector() as selector:
        waiting = set(streams)
        for stream in streams:
            selector.register(stream.socket, selectors.EVENT_READ, stream)
        deadline = time.monotonic() + 60
        while waiting:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{text!r} did not arrive on {len(waiting)} streams")
            for key, _ in selector.select(1):
                stream = key.data
                with contextlib.suppress(BlockingIOError):
                    stream.received += stream.socket.recv(1 << 16)
                if text in stream.received:
                    waiting.discard(stream)
                    stream.received.clear()


def client_command(side: Side, task: str, program: tuple[str, ...], *arguments: str) -> list[str]:
    """Return the command of a client: that of the side for a task, or another program of the same interpreter.

    Args:
        side: The side.
        task: `client` or `http_client`.
        program: The name of the other program with its first arguments; empty for that of the side.
        arguments: The arguments.
    """
    if not program:
        return side.command(task, *arguments)
    name, *first = program
    return [side.interpreter, str(PROGRAMS / name), *first, *arguments]


def client(
    side: Side, revision: str, at_once: int, number: int, program: tuple[str, ...] = (), *, form: str = "json"
) -> float:
    """Return CPU microseconds of the client per call.

    Args:
        side: The side.
        revision: The revision.
        at_once: The number of calls in flight.
        number: The number of calls.
        program: The program of the client with its first arguments; empty for that of the side.
        form: The form of responses: `json`, or `stream` for an event stream.
    """
    peer = Program([sys.executable, str(PROGRAMS / "http_peer.py"), form])
    try:
        url = f"http://127.0.0.1:{peer.port}/mcp"
        command = client_command(side, "http_client", program, revision, str(number), str(at_once), url)
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        figures: dict[str, float] = json.loads(done.stdout)
        return figures["cpu"]
    finally:
        peer.close()


def allow_connections(streams: int) -> None:
    """Raise the limit of file descriptors for this many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < streams + 100:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, streams + 100), hard))
