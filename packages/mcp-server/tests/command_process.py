"""The command `mcp-server run --http` in a process of its own, with a client that calls its tool `wait`."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

TIMEOUT = 30
"""The time in seconds after which a process that does not end fails the test."""

COMMAND = (sys.executable, "-m", "mcp_server")


class ServerProcess:
    """The command in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def line(self) -> str:
        """Return the next line of its output."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def post(self) -> subprocess.Popen[str]:
        """Call a tool in another process, which prints the body of the response."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
        }
        params = {"name": "wait", "arguments": {}, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "wait",
        }
        program = (
            "import sys, urllib.request as u\n"
            f"print(u.urlopen(u.Request({self.url!r}, {body.encode()!r}, {headers!r})).read().decode())"
        )
        return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


RESET_SIGINT = None if sys.platform == "win32" else partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
"""A function that restores the default handler of SIGINT, which a shell ignores for background programs."""


@contextmanager
def running(target: str, *words: str, command: Sequence[str] = COMMAND) -> Iterator[ServerProcess]:
    whole = [*command, "run", target, "--http", "127.0.0.1:0", *words]
    with subprocess.Popen(whole, stderr=subprocess.PIPE, text=True, preexec_fn=RESET_SIGINT) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.fullmatch(r"sample is served at (https?://127\.0\.0\.1:\d+/\S+)\n", line)
            assert found, line
            yield ServerProcess(process, found[1])
        finally:
            process.kill()


def wait_until_refused(url: str) -> None:
    """Wait until a server refuses connections: it has handled the first signal."""
    host, _, port = url.removeprefix("http://").partition("/")[0].partition(":")
    while True:
        try:
            socket.create_connection((host, int(port))).close()
        except ConnectionError:
            break
