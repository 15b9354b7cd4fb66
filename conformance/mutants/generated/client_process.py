"""The raw client with the proxy in its process: `python -m mutants.generated.client_process`.

The proxy is between the client and the wire: over stdio around the pipes to the server that the client starts, over
HTTP as a server of its own that forwards to the URL, and for a client that logs in around its HTTP connections. The file in `$MUTANTS_OBSERVED` gets a line of JSON for everything
that the client sends, and the word `hit` for each change.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mutants import raw_client, raw_client_auth
from mutants.generated.fault import GeneratedFault, Leg, Target
from mutants.generated.http_rewriter import RequestRewriter, ResponseRewriter
from mutants.generated.login_proxy import install
from mutants.generated.logins.operator import LOGIN
from mutants.generated.operators import OPERATORS
from mutants.generated.proxy import Conversation, Mutation, Observer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import JsonValue

__all__ = ["OBSERVED", "main"]

OBSERVED: Final = "MUTANTS_OBSERVED"
"""The environment variable with the folder for what the proxy observes, one file for each scenario."""
_PORTION: Final = 64 * 1024
_ACCEPTED: Final = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
"""The response to a message that the proxy does not pass on."""


class _File(Observer):
    """The observer that writes a file."""

    def __init__(self, path: Path | None) -> None:
        self._file: Final = None if path is None else path.open("a", encoding="utf-8")
        self._lock: Final = threading.Lock()

    def _write(self, line: str) -> None:
        if self._file is not None:
            with self._lock:
                self._file.write(f"{line}\n")
                self._file.flush()

    def noted(self, name: str, value: JsonValue) -> None:
        """Write what the client sends."""
        self._write(json.dumps([name, value]))

    def hit(self) -> None:
        """Write a change."""
        self._write("hit")


class _Stdin:
    """The input of the server that the client starts."""

    def __init__(self, inner: IO[bytes], conversation: Conversation) -> None:
        self._inner: Final = inner
        self._conversation: Final = conversation
        self._partial = b""

    def write(self, data: bytes) -> int:
        """Write bytes of the client."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            changed = self._conversation.sends(line)
            for each in [line] if changed is None else changed:
                framed = self._conversation.mutation.line(each + b"\n")
                if framed is not None:
                    self._conversation.observer.hit()
                self._inner.write(each + b"\n" if framed is None else framed)
        return len(data)

    def flush(self) -> None:
        """Write what is buffered."""
        if self._partial:
            self._inner.write(self._partial)
            self._partial = b""
        self._inner.flush()

    def close(self) -> None:
        """Close the pipe."""
        self._inner.close()


class _Stdout:
    """The output of the server that the client starts."""

    def __init__(self, inner: IO[bytes], conversation: Conversation) -> None:
        self._inner: Final = inner
        self._conversation: Final = conversation

    def fileno(self) -> int:
        """Return the descriptor, for `select`."""
        return self._inner.fileno()

    def readline(self) -> bytes:
        """Read a line."""
        line = self._inner.readline()
        self._conversation.receives(line)
        return line


def _over_pipes(conversation: Conversation) -> None:
    """Put the proxy around the pipes of each process that the client starts."""
    popen = subprocess.Popen

    def started(*arguments: object, **options: object) -> object:
        process = popen(*arguments, **options)  # type: ignore[call-overload]  # the arguments of any caller of Popen
        process.stdin = _Stdin(process.stdin, conversation)
        process.stdout = _Stdout(process.stdout, conversation)
        return process

    subprocess.Popen = started  # type: ignore[assignment,misc]  # a function in place of the class, in this process only


def _over_http(url: str, conversation: Conversation) -> str:
    """Start the proxy server, and return its URL."""
    parts = urlsplit(url)
    listener = socket.create_server(("127.0.0.1", 0))
    where = (parts.hostname or "", parts.port or 80)

    def accept() -> None:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_forward, args=(client, where, conversation), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return parts._replace(netloc=f"127.0.0.1:{listener.getsockname()[1]}").geturl()


def _forward(client: socket.socket, where: tuple[str, int], conversation: Conversation) -> None:
    """Forward one connection."""
    server = socket.create_connection(where)
    requests = RequestRewriter(conversation, sends=True, authority=f"{where[0]}:{where[1]}")
    responses = ResponseRewriter(conversation, requests, sends=False)

    def back() -> None:
        try:
            while data := server.recv(_PORTION):
                while requests.further:
                    _post(where, requests.further.pop(0))
                client.sendall(responses.feed(data))
        except OSError:
            pass
        _end(client)

    threading.Thread(target=back, daemon=True).start()
    try:
        while data := client.recv(_PORTION):
            server.sendall(requests.feed(data))
            while requests.dropped:
                requests.dropped -= 1
                client.sendall(_ACCEPTED)
    except OSError:
        pass
    _end(server)


def _post(where: tuple[str, int], request: bytes) -> None:
    """Send a request on a connection of its own, and wait for the response."""
    with socket.create_connection(where) as connection:
        connection.sendall(request)
        connection.recv(_PORTION)


def _end(connection: socket.socket) -> None:
    """Close a connection at once, also while another thread reads from it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It is closed already.
        return


def _fault(name: str, leg: Sequence[str]) -> Mutation:
    if not name:
        return Mutation()
    operator, key, detail = json.loads(name)
    role, revision, transport = leg
    fault = GeneratedFault(
        operator=OPERATORS[operator],
        target=Target(key=key, detail=detail),
        leg=Leg(role=role, revision=revision, transport=transport),
    )
    return fault.mutation()


def main() -> int:
    """Run the client with a generated fault and return the exit status."""
    parser = argparse.ArgumentParser(prog="client_process", description="Run the raw client behind a proxy.")
    parser.add_argument("--generated", default="", help="the operator, the key and the detail, in JSON")
    parser.add_argument("--leg", nargs=3, required=True, help="the role, the revision and the transport")
    parser.add_argument("--url", help="the URL of the server")
    parser.add_argument("--start", nargs=argparse.REMAINDER, help="the command of the server")
    given = parser.parse_args()
    folder = os.environ.get(OBSERVED)
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "none")
    observer = _File(None if folder is None else Path(folder) / f"{scenario.replace('/', '+')}.jsonl")
    mutation = _fault(given.generated, given.leg)
    if given.leg[2] == LOGIN:
        install(mutation, observer)
        sys.argv = ["raw_client_auth", "--url", given.url]
        return raw_client_auth.main()
    conversation = Conversation(mutation, observer)
    if given.url:
        sys.argv = ["raw_client", "--url", _over_http(given.url, conversation)]
    else:
        _over_pipes(conversation)
        sys.argv = ["raw_client", "--start", *given.start]
    return raw_client.main()


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of the proxy may block in a read.
    os._exit(status)
