"""A client without an event loop: the engine of `mcp_core` over a plain socket.

What MCP decides (the handshake, ids, what is legal in which revision) is decided by `ClientConnection`. What remains is
this file: send the bytes that the engine gives, give it the bytes that come.

    python blocking_client.py COMMAND [ARGUMENT...]
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import TypeVar

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
from mcp_core.jsonrpc.codec import decode, encode
from mcp_core.jsonrpc.messages import Batch, JsonObject
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
    """A client whose methods block until the answer is there. One call at a time, from one thread."""

    def __init__(self, stream: socket.socket, *, patience: float = 3.0) -> None:
        self._stream = stream
        self._framer = LineFramer(CLIENT_LIMITS)
        self._frames: list[bytes] = []
        self._engine = ClientConnection(
            Implementation(name="blocking-client", version="1.0"), ClientCapabilities(), limits=CLIENT_LIMITS
        )
        self._send(self._engine.open())
        stream.settimeout(patience)
        self.server: ServerPeer = self._opened()
        """Who the server is, in which revision, and what it offers."""
        stream.settimeout(None)

    def list_tools(self) -> tuple[Tool, ...]:
        """The first page of the server's tools."""
        return self.call(TOOLS_LIST, ListToolsRequestParams()).tools

    def call_tool(self, name: str, arguments: JsonObject) -> CallToolResult:
        """Calls a tool."""
        return self.call(TOOLS_CALL, CallToolRequestParams(name=name, arguments=arguments))

    def call(self, row: RequestMethod[P, R], params: P) -> R:
        """Sends a request and waits for its answer. Raises `RequestFailed` and the other errors of `mcp_core`."""
        request = self._engine.request(row, params)
        self._send(request)
        while True:
            match self._next_event():
                case ResultReceived(result=result):
                    assert isinstance(result, row.result)
                    return result
                case ErrorReceived(error=error):
                    raise error

    def _opened(self) -> ServerPeer:
        while True:
            try:
                event = self._next_event()
            except TimeoutError:
                # An old server may be silent to the first question of a new client; the engine knows a second one.
                reaction = self._engine.probe_unanswered()
                if reaction is None:
                    raise
                self._send(reaction.reply)
                event = reaction.event
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
                continue  # a stray print of the server; a client with a log would say so there
            if isinstance(message, Batch):
                continue  # no server sends one to a client that sends none
            reaction = self._engine.receive(message)
            self._send(reaction.reply)
            if isinstance(reaction.event, RequestReceived):
                refusal = RequestFailed("this client offers nothing", code=ErrorCode.METHOD_NOT_FOUND)
                self._send(self._engine.fail(reaction.event.id, refusal))
            return reaction.event

    def _next_frame(self) -> bytes:
        while not self._frames:
            data = self._stream.recv(65536)
            if not data:
                raise ConnectionEnded("the server is gone")
            self._frames = [each for each in self._framer.receive_data(data) if isinstance(each, bytes)]
        return self._frames.pop(0)


def start(command: Sequence[str]) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Starts a server as a child process that talks over one end of a pair of sockets, and gives the other end."""
    ours, theirs = socket.socketpair()
    with theirs:
        # No shell is involved, and whoever calls this chose the command.
        return ours, subprocess.Popen(command, stdin=theirs.fileno(), stdout=theirs.fileno())  # noqa: S603


if __name__ == "__main__":
    ours, process = start(sys.argv[1:])
    with process, ours:  # closing our end tells the server to leave
        client = BlockingClient(ours)
        print(client.server.revision, *(tool.name for tool in client.list_tools()))
