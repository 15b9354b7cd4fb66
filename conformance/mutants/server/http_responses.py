"""How a raw server answers over HTTP, and what its connections share."""

from __future__ import annotations

import json
import select
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import Fault
    from mutants.server.server import RawServer
    from mutants.server.streams import HttpSession, Standing

__all__ = ["Answering", "RawHttpServer"]

_STREAM: Final = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class RawHttpServer(ThreadingHTTPServer):
    """What all connections share.

    Args:
        address: Where it listens.
        handler: Answers.
        raw: What is behind it.
        key: A token without which nothing is to be had.
        modern_only: Whether it speaks no older revision.
    """

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], handler: type[Answering], raw: RawServer, key: str | None, *, modern_only: bool
    ) -> None:
        super().__init__(address, handler)
        self.raw: Final = raw
        self.key: Final = key
        self.modern_only: Final = modern_only
        self.sessions: Final[dict[str, HttpSession]] = {}
        self.ended: Final[dict[str, HttpSession]] = {}
        self.sse: Final[dict[str, HttpSession]] = {}
        self.listeners: Final[list[Standing]] = []
        self.reading: Final = threading.Lock()

    def every(self) -> list[HttpSession]:
        """All sessions that live."""
        return list(self.sessions.values())

    def announce(self, session: HttpSession, message: JsonValue) -> None:
        """Tells a session what belongs to none of its requests."""
        for standing in self.raw.fault.streams(list(session.standing)):
            standing.put(message)

    def elsewhere(self, value: JsonValue) -> None:
        """Puts on the streams of listeners what does not belong there."""
        for listener in list(self.listeners):
            listener.put(value)


class Answering(BaseHTTPRequestHandler):
    """Answers on one connection."""

    protocol_version = "HTTP/1.1"
    server: RawHttpServer

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""

    def handle_one_request(self) -> None:
        """A client that goes is no matter."""
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    @property
    def fault(self) -> Fault:
        """What is wrong."""
        return self.server.raw.fault

    # --- answers -------------------------------------------------------------------------------------------------------

    def respond(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        """Answers."""
        status, headers = self.fault.head(self.command, status, headers)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def json(self, status: int, value: JsonValue, headers: dict[str, str] | None = None) -> None:
        """Answers by JSON."""
        body = json.dumps(value, separators=(",", ":")).encode()
        self.respond(status, {"Content-Type": "application/json", **(headers or {})}, body)

    def refuse(self, why: str, status: int, code: int, message: str, id: JsonValue = None) -> None:
        """Answers by an error."""
        error: JsonObject = {"jsonrpc": "2.0", "error": {"code": code, "message": message}}
        if id is not None:
            error["id"] = id
        self.json(self.fault.refusal(why, status), self.fault.refusal_body(why, error))

    def start_stream(self) -> None:
        """Begins to answer by a stream."""
        status, headers = self.fault.head(self.command, 200, dict(_STREAM))
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def write_frame(self, frame: bytes) -> None:
        """Writes an event."""
        if not frame:
            return
        self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))
        self.wfile.flush()

    def end_stream(self) -> None:
        """Ends the answer."""
        if self.fault.keeps("end-of-stream"):
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        else:
            self.gone(wait=None)

    def gone(self, wait: float | None = 0.0) -> bool:
        """Whether the client has closed the connection; `None` waits until it has."""
        readable, _, _ = select.select([self.connection], [], [], wait)
        try:
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True
