"""The HTTP responses of a raw server, and the state that its connections share."""

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
    from mutants.server.streams import HttpSession, ListenStream

__all__ = ["Answering", "RawHttpServer"]

_STREAM: Final = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class RawHttpServer(ThreadingHTTPServer):
    """The state that all connections share.

    Args:
        address: The address to listen at.
        handler: The handler of a connection.
        raw: The server.
        key: The bearer token that requests must carry, or `None`.
        modern_only: Whether it supports only the modern revision.
    """

    daemon_threads = True
    # The default is 5: a connection beyond that waits a second until its client tries again.
    request_queue_size = 128

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
        self.listeners: Final[list[ListenStream]] = []
        self.reading: Final = threading.Lock()

    def every(self) -> list[HttpSession]:
        """Return all open sessions."""
        return list(self.sessions.values())

    def restore_ended(self) -> None:
        """Make the ended sessions valid again."""
        self.sessions.update(self.ended)
        self.ended.clear()

    def announce(self, session: HttpSession, message: JsonValue) -> None:
        """Send a message that belongs to no request to a session."""
        for listen_streams in self.raw.fault.streams(list(session.listen_streams), message):
            listen_streams.put(message)

    def elsewhere(self, value: JsonValue) -> None:
        """Put a message that does not belong there on the subscription streams."""
        for subscription in list(self.listeners):
            subscription.put(value)


class Answering(BaseHTTPRequestHandler):
    """A handler of one connection."""

    protocol_version = "HTTP/1.1"
    server: RawHttpServer

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def handle_one_request(self) -> None:
        """Ignore a client that disconnects."""
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def setup(self) -> None:
        """Begin a connection."""
        super().setup()
        self.kept: JsonObject = {}
        self.posted: JsonValue = None

    @property
    def fault(self) -> Fault:
        """The fault of the server."""
        return self.server.raw.fault

    # --- responses ----------------------------------------------------------------------------------------------------

    def respond(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        """Send a response."""
        status, headers = self.fault.head(self.command, status, headers)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if body:
            # A pair of sockets, unlike a network connection, refuses even an empty write when the client has left.
            self.wfile.write(body)

    def json(self, status: int, value: JsonValue, headers: dict[str, str] | None = None) -> None:
        """Send a JSON response."""
        body = self.fault.body(json.dumps(value, separators=(",", ":")).encode())
        self.respond(status, {"Content-Type": "application/json", **(headers or {})}, body)

    def refuse(self, why: str, status: int, code: int, message: str, id: JsonValue = None) -> None:
        """Send an error response."""
        error: JsonObject = {"jsonrpc": "2.0", "error": {"code": code, "message": message}}
        if id is not None:
            error["id"] = id
        self.json(self.fault.refusal(why, status), self.fault.refusal_body(why, error))

    def start_stream(self, *, listens: bool = False) -> None:
        """Send the head of an event stream; `listens`: whether a subscription opens the stream."""
        unbuffered = not listens or self.fault.keeps("listen-unbuffered")
        lines = {name: value for name, value in _STREAM.items() if unbuffered or name != "X-Accel-Buffering"}
        status, headers = self.fault.head(self.command, 200, lines)
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def write_frame(self, frame: bytes) -> None:
        """Write an event."""
        frame = self.fault.written(frame)
        if not frame:
            return
        self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))
        self.wfile.flush()

    def end_stream(self) -> None:
        """End the response."""
        if self.fault.keeps("end-of-stream"):
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        else:
            self.gone(wait=None)

    def gone(self, wait: float | None = 0.0) -> bool:
        """Return whether the client has closed the connection; with `None`, wait until it has."""
        readable, _, _ = select.select([self.connection], [], [], wait)
        try:
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True
