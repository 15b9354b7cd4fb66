"""A raw server over stdio."""

from __future__ import annotations

import json
import sys
import threading
from typing import TYPE_CHECKING, Final, Protocol

from mutants.server.protocol import strict
from mutants.server.server import RawServer
from mutants.server.session import Session

if TYPE_CHECKING:
    from typing import BinaryIO

    from mcp_core.jsonrpc.messages import JsonValue

__all__ = ["serve"]

_WITH_CLIENT_REQUESTS: Final = ("tools/call", "resources/read", "prompts/get", "tasks/result", None)
"""The methods that may send client requests, whose responses the loop reads; `None` stands for a response."""


class _LineWriter(Protocol):
    def write(self, line: bytes, /) -> object:
        """Write a line."""

    def flush(self) -> object:
        """Write what is buffered."""


def serve(server: RawServer, source: BinaryIO | None = None, output: _LineWriter | None = None) -> None:
    """Serve until the input ends.

    Args:
        server: The server.
        source: The input; `None`: standard input.
        output: The output; `None`: standard output.
    """
    writing = threading.Lock()
    source = sys.stdin.buffer if source is None else source
    output = sys.stdout.buffer if output is None else output

    def send(message: JsonValue) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with writing:
            output.write(server.fault.line(line))
            output.flush()

    def answer(message: JsonValue) -> None:
        response, _ = server.receive(message, session, send)
        if response is not None:
            send(response)
            for late in server.fault.following(message) if isinstance(message, dict) else ():
                send(late)

    session = Session(send)
    running: list[threading.Thread] = []
    for line in server.fault.lines(source):
        if not line.strip():
            continue
        try:
            message: JsonValue = strict(line)
        except (ValueError, RecursionError):
            error: JsonValue = {"code": -32700, "message": "invalid JSON"}
            null: dict[str, JsonValue] = (
                {"id": None} if session.revision in ("2024-11-05", "2025-03-26", "2025-06-18") else {}
            )
            send(server.fault.unreadable({"jsonrpc": "2.0", **null, "error": error}))
            continue
        if isinstance(message, dict) and "method" in message and "id" in message:
            session.forget_cancellation(message["id"])
        if isinstance(message, dict) and message.get("method") in _WITH_CLIENT_REQUESTS:
            thread = threading.Thread(target=answer, args=(message,), daemon=True)
            thread.start()
            running = [each for each in running if each.is_alive()] + [thread]
        else:
            answer(message)
    for arrived, _ in session.answers.values():
        # No response follows.
        arrived.set()
    for thread in running:
        thread.join(1)
    server.listeners.end()
