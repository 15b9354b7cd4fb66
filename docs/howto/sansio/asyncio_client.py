"""A client on asyncio: the engine knows no loop. One task reads and feeds it; each call is a future that is completed.

python asyncio_client.py COMMAND [ARGUMENT...]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from mcp_core import types
from mcp_core.engine import events
from mcp_core.engine.client import ClientConnection
from mcp_core.errors import ConnectionEnded, ErrorCode, MalformedMessage, McpError, RequestFailed
from mcp_core.framing.lines import LineFramer, frame
from mcp_core.jsonrpc.codec import decode, encode
from mcp_core.jsonrpc.messages import Batch, JsonObject, Request, RequestId
from mcp_core.limits import CLIENT_LIMITS
from mcp_core.methods import TOOLS_CALL, TOOLS_LIST, RequestMethod

P = TypeVar("P")
R = TypeVar("R")


class AsyncioClient:
    """A client whose calls may run at the same time. Made by `open_process`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: dict[RequestId, asyncio.Future[object]] = {}
        self._opened: asyncio.Future[events.ServerPeer] = asyncio.get_running_loop().create_future()
        self._engine = ClientConnection(
            types.Implementation(name="asyncio-client", version="1.0"), types.ClientCapabilities(), limits=CLIENT_LIMITS
        )

    async def open(self, patience: float) -> events.ServerPeer:
        """Agrees on a revision with the server. `run` has to be running."""
        self._send(self._engine.open())
        done, _ = await asyncio.wait([self._opened], timeout=patience)
        if not done and (reaction := self._engine.probe_unanswered()) is not None:
            # An old server may be silent to the first question of a new client; the engine knows a second one.
            self._send(reaction.reply)
        return await self._opened

    async def call(self, row: RequestMethod[P, R], params: P) -> R:
        """Sends a request and waits for its answer. Cancelling the caller cancels the request."""
        request = self._engine.request(row, params)
        assert isinstance(request.message, Request)
        id = request.message.id
        answer = self._waiting[id] = asyncio.get_running_loop().create_future()
        self._send(request)
        try:
            await self._writer.drain()
            result = await answer
        except asyncio.CancelledError:
            self._send(self._engine.cancel(id, "the caller was cancelled"))
            raise
        finally:
            del self._waiting[id]
        assert isinstance(result, row.result)
        return result

    async def call_tool(self, name: str, arguments: JsonObject) -> types.CallToolResult:
        """Calls a tool."""
        return await self.call(TOOLS_CALL, types.CallToolRequestParams(name=name, arguments=arguments))

    async def run(self) -> None:
        """Reads until the server is gone; whatever waits then ends with `ConnectionEnded`."""
        framer = LineFramer(CLIENT_LIMITS)
        while data := await self._reader.read(65536):
            for line in framer.receive_data(data):
                if isinstance(line, bytes):
                    self._receive(line)
        self._engine.end()
        if not self._opened.done():
            self._opened.set_exception(ConnectionEnded("the server is gone"))
        for id in self._waiting:
            self._finish(id, ConnectionEnded("the server is gone"))

    def _receive(self, line: bytes) -> None:
        try:
            message = decode(line, CLIENT_LIMITS)
        except MalformedMessage:
            return  # a stray print of the server; a client with a log would say so there
        if isinstance(message, Batch):
            return  # no server sends one to a client that sends none
        reaction = self._engine.receive(message)
        self._send(reaction.reply)
        self._take(reaction.event)

    def _take(self, event: events.Event) -> None:
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
                refusal = RequestFailed("this client offers nothing", code=ErrorCode.METHOD_NOT_FOUND)
                self._send(self._engine.fail(id, refusal))

    def _finish(self, id: RequestId, outcome: object) -> None:
        waiting = self._waiting.get(id)
        if waiting is None or waiting.done():
            return  # the caller was cancelled meanwhile
        if isinstance(outcome, McpError):
            waiting.set_exception(outcome)
        else:
            waiting.set_result(outcome)

    def _send(self, outgoing: events.Outgoing | None) -> None:
        if outgoing is not None:
            self._writer.write(frame(encode(outgoing.message, null_id=False)))


@asynccontextmanager
async def open_process(
    command: Sequence[str], *, patience: float = 3.0
) -> AsyncIterator[tuple[AsyncioClient, events.ServerPeer]]:
    """Starts a server and talks to it over its stdin and stdout as long as the block runs."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdout and process.stdin  # noqa: PT018  # two pipes, one reason
    client = AsyncioClient(process.stdout, process.stdin)
    reading = asyncio.create_task(client.run())
    try:
        yield client, await client.open(patience)
    finally:
        process.stdin.close()
        await reading
        await process.wait()


async def main() -> None:
    async with open_process(sys.argv[1:]) as (client, server):
        listed = await client.request(TOOLS_LIST, types.ListToolsRequestParams())
        print(server.revision, *(tool.name for tool in listed.tools))


if __name__ == "__main__":
    asyncio.run(main())
