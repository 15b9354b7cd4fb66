"""A client without an event loop: the engine of `mcp_core` over a plain socket.

`ClientConnection` implements MCP: the handshake, the ids, the rules of each revision. This file does the rest: it sends
the bytes that the engine returns, and passes received bytes to it.

    python blocking_client.py COMMAND [ARGUMENT...]
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import TypeVar

from mcp_core.codec import Batch, decode, encode
from mcp_core.engine.client import ClientConnection
from mcp_core.engine.events import (
    ConnectionOpened,
    ErrorReceived,
    Event,
    NegotiationEnded,
    Outgoing,
    RequestReceived,
    ResultReceived,
    ServerPeer,
)
from mcp_core.errors import ConnectionEnded, ErrorCode, MalformedMessage, RequestFailed
from mcp_core.framing.lines import LineFramer, frame
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.limits import CLIENT_LIMITS
from mcp_core.methods import TOOLS_CALL, TOOLS_LIST, RequestMethod
from mcp_core.types import (
    CallToolRequestParams,
    CallToolResult,
    ClientCapabilities,
    Implementation,
    ListToolsRequestParams,
    Tool,
)

P = TypeVar("P")
R = TypeVar("R")


class BlockingClient:
    """A client whose methods block until the response arrives. One call at a time, from one thread."""

    def __init__(self, stream: socket.socket, *, probe_timeout: float = 3.0) -> None:
        self._stream = stream
        self._framer = LineFramer(CLIENT_LIMITS)
        self._frames: list[bytes] = []
        self._engine = ClientConnection(
            Implementation(name="blocking-client", version="1.0"), ClientCapabilities(), limits=CLIENT_LIMITS
        )
        self._send(self._engine.open())
        stream.settimeout(probe_timeout)
        self.server: ServerPeer = self._wait_for_open()
        """The server: its name, revision and capabilities."""
        stream.settimeout(None)

    def list_tools(self) -> tuple[Tool, ...]:
        """Return the first page of the server's tools."""
        return self.call(TOOLS_LIST, ListToolsRequestParams()).tools

    def call_tool(self, name: str, arguments: JsonObject) -> CallToolResult:
        """Call a tool."""
        return self.call(TOOLS_CALL, CallToolRequestParams(name=name, arguments=arguments))

    def call(self, row: RequestMethod[P, R], params: P) -> R:
        """Send a request and wait for its response. Raises `RequestFailed` and the other errors of `mcp_core`."""
        request = self._engine.request(row, params)
        self._send(request)
        while True:
            match self._next_event():
                case ResultReceived(result=result):
                    assert isinstance(result, row.result)
                    return result
                case ErrorReceived(error=error):
                    raise error

    def _wait_for_open(self) -> ServerPeer:
        while True:
            try:
                event = self._next_event()
            except TimeoutError:
                # A legacy server may not respond to the probe of a modern client; the engine then sends `initialize`.
                received = self._engine.probe_unanswered()
                if received is None:
                    raise
                self._send(received.reply)
                event = received.event
            match event:
                case ConnectionOpened(peer=ServerPeer() as peer):
                    return peer
                case NegotiationEnded(error=error):
                    raise error

    def _send(self, outgoing: Outgoing | None) -> None:
        if outgoing is not None:
            self._stream.sendall(frame(encode(outgoing.message, null_id=False)))

    def _next_event(self) -> Event:
        while True:
            try:
                message = decode(self._next_frame(), CLIENT_LIMITS)
            except MalformedMessage:
                continue  # a stray print of the server; a client with a log would log it
            if isinstance(message, Batch):
                continue  # a server does not send batches to a client that sends none
            received = self._engine.receive(message)
            self._send(received.reply)
            if isinstance(received.event, RequestReceived):
                error = RequestFailed("this client supports no requests", code=ErrorCode.METHOD_NOT_FOUND)
                self._send(self._engine.fail(received.event.id, error))
            return received.event

    def _next_frame(self) -> bytes:
        while not self._frames:
            data = self._stream.recv(65536)
            if not data:
                raise ConnectionEnded("the server has disconnected")
            self._frames = [each for each in self._framer.receive_data(data) if isinstance(each, bytes)]
        return self._frames.pop(0)


def start(command: Sequence[str]) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start a server as a child process on one end of a socket pair, and return the other socket."""
    local, remote = socket.socketpair()
    with remote:
        # No shell is involved, and the caller has chosen the command.
        return local, subprocess.Popen(command, stdin=remote.fileno(), stdout=remote.fileno())  # noqa: S603


if __name__ == "__main__":
    local, process = start(sys.argv[1:])
    with process, local:  # closing the socket ends the server
        client = BlockingClient(local)
        print(client.server.revision, *(tool.name for tool in client.list_tools()))
