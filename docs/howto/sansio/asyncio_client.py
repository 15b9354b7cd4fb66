"""A client on asyncio: the engine has no event loop. One task reads and passes messages to it; each call is a future.

python asyncio_client.py COMMAND [ARGUMENT...]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from mcp_core import types
from mcp_core.codec import Batch, decode, encode
from mcp_core.engine import events
from mcp_core.engine.client import ClientConnection
from mcp_core.errors import ConnectionEnded, ErrorCode, MalformedMessage, McpError, RequestFailed
from mcp_core.framing.lines import LineFramer, frame
from mcp_core.jsonrpc.messages import JsonObject, Request, RequestId
from mcp_core.limits import CLIENT_LIMITS
from mcp_core.methods import TOOLS_CALL, TOOLS_LIST, RequestMethod

P = TypeVar("P")
R = TypeVar("R")


class AsyncioClient:
    """A client with concurrent calls, created by `open_process`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._pending: dict[RequestId, asyncio.Future[object]] = {}
        self._opened: asyncio.Future[events.ServerPeer] = asyncio.get_running_loop().create_future()
        self._engine = ClientConnection(
            types.Implementation(name="asyncio-client", version="1.0"), types.ClientCapabilities(), limits=CLIENT_LIMITS
        )

    async def open(self, probe_timeout: float) -> events.ServerPeer:
        """Negotiate a revision with the server. `run` must be running."""
        self._send(self._engine.open())
        done, _ = await asyncio.wait([self._opened], timeout=probe_timeout)
        if not done and (received := self._engine.probe_unanswered()) is not None:
            # A legacy server may not respond to the probe of a modern client; the engine then sends `initialize`.
            self._send(received.reply)
        return await self._opened

    async def call(self, row: RequestMethod[P, R], params: P) -> R:
        """Send a request and wait for its response. Cancelling the caller cancels the request."""
        request = self._engine.request(row, params)
        assert isinstance(request.message, Request)
        id = request.message.id
        response = self._pending[id] = asyncio.get_running_loop().create_future()
        self._send(request)
        try:
            await self._writer.drain()
            result = await response
        except asyncio.CancelledError:
            self._send(self._engine.cancel(id, "the caller was cancelled"))
            raise
        finally:
            del self._pending[id]
        assert isinstance(result, row.result)
        return result

    async def call_tool(self, name: str, arguments: JsonObject) -> types.CallToolResult:
        """Call a tool."""
        return await self.call(TOOLS_CALL, types.CallToolRequestParams(name=name, arguments=arguments))

    async def run(self) -> None:
        """Read until the server disconnects; pending calls then end with `ConnectionEnded`."""
        framer = LineFramer(CLIENT_LIMITS)
        while data := await self._reader.read(65536):
            for line in framer.receive_data(data):
                if isinstance(line, bytes):
                    self._receive(line)
        self._engine.end()
        if not self._opened.done():
            self._opened.set_exception(ConnectionEnded("the server has disconnected"))
        for id in self._pending:
            self._finish(id, ConnectionEnded("the server has disconnected"))

    def _receive(self, line: bytes) -> None:
        try:
            message = decode(line, CLIENT_LIMITS)
        except MalformedMessage:
            return  # a stray print of the server; a client with a log would log it
        if isinstance(message, Batch):
            return  # a server does not send batches to a client that sends none
        received = self._engine.receive(message)
        self._send(received.reply)
        self._handle_event(received.event)

    def _handle_event(self, event: events.Event) -> None:
        match event:
            case events.ConnectionOpened(peer=events.ServerPeer() as peer):
                self._opened.set_result(peer)
            case events.NegotiationEnded(error=error):
                self._opened.set_exception(error)
            case events.ResultReceived(id=id, result=result):
                self._finish(id, result)
            case events.ErrorReceived(id=id, error=error):
                self._finish(id, error)
            case events.RequestReceived(id=id):
                error = RequestFailed("this client supports no requests", code=ErrorCode.METHOD_NOT_FOUND)
                self._send(self._engine.fail(id, error))

    def _finish(self, id: RequestId, outcome: object) -> None:
        future = self._pending.get(id)
        if future is None or future.done():
            return  # the caller was cancelled in the meantime
        if isinstance(outcome, McpError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    def _send(self, outgoing: events.Outgoing | None) -> None:
        if outgoing is not None:
            self._writer.write(frame(encode(outgoing.message, null_id=False)))


@asynccontextmanager
async def open_process(
    command: Sequence[str], *, probe_timeout: float = 3.0
) -> AsyncIterator[tuple[AsyncioClient, events.ServerPeer]]:
    """Start a server and connect to it over its stdin and stdout for the duration of the block."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdout and process.stdin  # noqa: PT018  # two pipes, one reason
    client = AsyncioClient(process.stdout, process.stdin)
    reading = asyncio.create_task(client.run())
    try:
        yield client, await client.open(probe_timeout)
    finally:
        process.stdin.close()
        await reading
        await process.wait()


async def main() -> None:
    async with open_process(sys.argv[1:]) as (client, server):
        tools_page = await client.call(TOOLS_LIST, types.ListToolsRequestParams())
        print(server.revision, *(tool.name for tool in tools_page.tools))


if __name__ == "__main__":
    asyncio.run(main())
