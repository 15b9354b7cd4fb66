"""A supervisor with worker processes for tests, and clients that notice each failed request."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Self

TIMEOUT: Final = 60
"""Seconds until a test fails that waits for another process."""

SOURCE: Final = """
import os
import sys
import trio
from mcp_core.revisions import MODERN
from mcp_server import Server

server = Server("sample", version="1", revisions=MODERN)

@server.tool
async def pid() -> str:
    return f"{VERSION} {os.getpid()}"

@server.tool
async def hold(seconds: float) -> str:
    print("holding", file=sys.stderr, flush=True)
    await trio.sleep(seconds)
    return "done"

@server.tool(thread=False)
def block() -> str:
    import time
    print("blocking", file=sys.stderr, flush=True)
    time.sleep(1_000)
    return "never"
"""

META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
}


def write_server(folder: Path, version: int = 1, *, name: str = "sample_server.py", source: str = SOURCE) -> None:
    """Write the program of the workers."""
    (folder / name).write_text(source.replace("VERSION", str(version)))


class RawConnection:
    """An HTTP connection that is kept open. It sends each request once, and never again."""

    def __init__(self, address: str) -> None:
        self.http: Final = http.client.HTTPConnection(address, timeout=TIMEOUT)

    def start(self, method: str, params: Mapping[str, object], *, name: str | None = None) -> http.client.HTTPResponse:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
        }
        if name is not None:
            headers["Mcp-Name"] = name
        self.http.request("POST", "/mcp", json.dumps(body), headers)
        return self.http.getresponse()

    def call(self, name: str, **arguments: object) -> str:
        """Call a tool and return the text of its result."""
        response = self.start("tools/call", {"name": name, "arguments": arguments}, name=name)
        body = response.read()
        assert response.status == 200, body
        return str(json.loads(body)["result"]["content"][0]["text"])

    def status_of(self, path: str) -> int:
        """Return the status of a GET request."""
        self.http.request("GET", path)
        response = self.http.getresponse()
        response.read()
        return response.status

    def close(self) -> None:
        self.http.close()


def call_pid(address: str) -> tuple[int, int]:
    """Return the version and the process id of a worker that accepts a new connection."""
    connection = RawConnection(address)
    try:
        version, pid = connection.call("pid").split()
    finally:
        connection.close()
    return int(version), int(pid)


class Load:
    """Clients in threads. Each keeps its connection open for a number of calls, so that all workers get some."""

    def __init__(self, address: str, clients: int = 4) -> None:
        self._address: Final = address
        self._stop: Final = threading.Event()
        self._changed: Final = threading.Condition()
        self.calls: Final[Counter[int]] = Counter()
        """The number of calls, by the process id of the worker."""
        self.failures: Final[list[Exception]] = []
        self._threads: Final = [threading.Thread(target=self._run) for _ in range(clients)]

    def _run(self) -> None:
        with closing(RawConnection(self._address)) as connection:
            while not self._stop.is_set():
                if sum(self.calls.values()) % 50 == 0:
                    connection.close()  # it is opened again by the next call
                try:
                    pid = int(connection.call("pid").split()[1])
                except (AssertionError, OSError, ValueError, http.client.HTTPException) as failure:
                    self.failures.append(failure)
                    # `http.client` leaves the socket open if the request cannot be written.
                    connection.close()
                    pid = 0
                with self._changed:
                    self.calls[pid] += 1
                    self._changed.notify_all()

    def wait_for(self, workers: int, *, without: set[int] | frozenset[int] = frozenset()) -> set[int]:
        """Wait until this number of workers, other than those in `without`, answered calls. Return their ids."""
        with self._changed:
            fine = self._changed.wait_for(lambda: len(set(self.calls) - without) >= workers or self.failures, TIMEOUT)
            assert fine, f"calls: {self.calls}"
            return set(self.calls) - without

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


_RESET_SIGINT = None if sys.platform == "win32" else partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
"""A function that restores the default handler of SIGINT, which a shell ignores for background programs."""


class Supervisor:
    """The supervisor in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process: Final = process
        self.address = ""

    def line(self) -> str:
        """Return the next line of its output and that of its workers."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def until(self, text: str) -> str:
        """Return the next line with this text."""
        while text not in (line := self.line()):
            assert line, f"the output ended before {text!r}"
        return line

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT)


COMMAND: Final = (sys.executable, "-m", "mcp_server", "run")


@contextmanager
def supervised(
    folder: Path, *words: str, workers: int = 2, command: tuple[str, ...] | None = None
) -> Iterator[Supervisor]:
    """Run workers until the block ends."""
    (folder / "key").write_text("0123456789abcdef0123456789abcdef\n")
    options = f"--http 127.0.0.1:0 --workers {workers} --state-key key".split()
    whole = command or (*COMMAND, "sample_server.py", *options, *words)
    with subprocess.Popen(whole, cwd=folder, stderr=subprocess.PIPE, text=True, preexec_fn=_RESET_SIGINT) as process:
        supervisor = Supervisor(process)
        try:
            line = supervisor.until("is served at")
            found = re.search(r"sample is served at http://(127\.0\.0\.1:\d+)/", line)
            assert found, line
            supervisor.address = found[1]
            yield supervisor
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(TIMEOUT)
                finally:
                    process.kill()
