"""A client without an event loop: the engine of `mcp_core` over a plain socket, or the pipes of a child process.

Everything that MCP decides (the handshake, ids, envelopes, what is legal in which revision) is decided by
`ClientConnection`. What remains is this file: send the bytes that it gives, give it the bytes that come.

    python blocking_client.py COMMAND [ARGUMENT...]
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Protocol, TypeVar

from mcp_core.engine.client import ClientConnection
from mcp_core.engine.events import (
    AnswerReceived,
    Event,
    FailureReceived,
    NegotiationEnded,
    Opened,
    Outgoing,
    RequestReceived,
    ServerPeer,
)
from mcp_core.errors import ConnectionEnded, ErrorCode, MalformedMessage, McpError, RequestFailed
from mcp_core.framing.lines import LineFramer, frame
from mcp_core.jsonrpc.codec import decode, encode
from mcp_core.jsonrpc.messages import Batch, Request
from mcp_core.limits import CLIENT_LIMITS
from mcp_core.methods import TOOLS_CALL, TOOLS_LIST, Method
from mcp_core.types import (
    CallToolRequestParams,
    CallToolResult,
    ClientCapabilities,
    Implementation,
    ListToolsRequestParams,
)

P = TypeVar("P")
R = TypeVar("R")


class Bytes(Protocol):
    """Where bytes go to and come from. A socket is one already."""

    def sendall(self, data: bytes, /) -> None: ...
    def recv(self, size: int, /) -> bytes: ...


class Pipes:
    """A child process, with the two methods of a socket."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def sendall(self, data: bytes) -> None:
        assert self._process.stdin is not None
        rest = memoryview(data)
        while rest:
            rest = rest[self._process.stdin.write(rest) :]

    def recv(self, size: int) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.read(size)

    def close(self) -> int:
        """Closes its input, which asks a server to end, and waits for it."""
        with self._process as process:
            return process.wait(timeout=5) if process.stdin is None or process.stdin.close() is None else 1


class BlockingClient:
    """A client whose methods block until the answer is there. One call at a time, from one thread."""

    def __init__(self, stream: Bytes) -> None:
        self._stream = stream
        self._framer = LineFramer(CLIENT_LIMITS)
        self._frames: list[bytes] = []
        self._engine = ClientConnection(
            Implementation(name="blocking-client", version="1.0"), ClientCapabilities(), limits=CLIENT_LIMITS
        )
        self._send(self._engine.open())
        self.server: ServerPeer = self._opened()
        """Who the server is, and what it offers."""

    def call(self, row: Method[P, R], params: P) -> R:
        """Sends a request and waits for its answer. Raises `RequestFailed` and the other errors of `mcp_core`."""
        request = self._engine.call(row, params)
        self._send(request)
        assert isinstance(request.message, Request)
        while True:
            match self._next_event():
                case AnswerReceived(id=id, result=result) if id == request.message.id:
                    assert isinstance(result, row.result), "this client does not answer questions"
                    return result
                case FailureReceived(id=id, error=error) if id == request.message.id:
                    raise error

    def _opened(self) -> ServerPeer:
        while True:
            match self._next_event():
                case Opened(peer=ServerPeer() as peer):
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


def connect(host: str, port: int) -> BlockingClient:
    """A client of a server that listens on TCP, one message a line."""
    return BlockingClient(socket.create_connection((host, port), timeout=30))


if __name__ == "__main__":
    pipes = Pipes(sys.argv[1:])
    client = BlockingClient(pipes)
    print(client.server.revision, *(tool.name for tool in client.call(TOOLS_LIST, ListToolsRequestParams()).tools))
    pipes.close()
