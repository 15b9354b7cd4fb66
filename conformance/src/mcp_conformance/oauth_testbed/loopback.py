"""The OAuth testbed on the loopback interface, with a port for each server.

The host of the MCP server is `localhost`, that of the others `127.0.0.1`, so that data that a client keeps by host are
separate.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import h11
import trio

from mcp_conformance.oauth_testbed.http_messages import Request, Response
from mcp_conformance.oauth_testbed.testbed import OAuthTestbed
from mcp_conformance.wire.nursery import open_nursery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from mcp_conformance.oauth_testbed.quirks import Quirks
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["open_testbed", "serve_stream"]

_READ: Final = 65_536
_LARGEST: Final = 1_048_576
"""The limit of a body, in bytes. Clients send some hundred bytes here."""
_SIDES: Final = ("resource", "server", "other", "evil", "idp")


@asynccontextmanager
async def open_testbed(
    quirks: Quirks | None = None,
    *,
    path: str = "/mcp",
    clients: Sequence[JsonObject] = (),
    documents: Mapping[str, JsonObject] | None = None,
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[OAuthTestbed]:
    """Serve a testbed while the block runs.

    Args:
        quirks: The deviations from the default behavior.
        path: The path of the MCP server, with a query if it has one.
        clients: Clients that are registered beforehand.
        documents: Client ID metadata documents, by URL.
        clock: Returns seconds since the epoch.

    Yields:
        The testbed; `places.resource` is the URL of the MCP server.

    Raises:
        OSError: No port is available.
    """
    async with _open_listeners() as listeners:
        origins = [f"http://127.0.0.1:{listener.socket.getsockname()[1]}" for listener in listeners]
        origins[0] = origins[0].replace("127.0.0.1", "localhost")
        testbed = OAuthTestbed(
            quirks,
            resource=origins[0] + path,
            server=origins[1],
            other=origins[2],
            evil=origins[3],
            idp=origins[4],
            clients=clients,
            documents=documents,
        )

        async with open_nursery() as nursery:
            for listener, origin in zip(listeners, origins, strict=True):

                async def handle(stream: trio.SocketStream, origin: str = origin) -> None:
                    await serve_stream(stream, origin, testbed, clock)

                await nursery.start(trio.serve_listeners, handle, [listener])
            try:
                yield testbed
            finally:
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def _open_listeners() -> AsyncIterator[list[trio.SocketListener]]:
    """Listen on a free port for each side while the block runs."""
    listeners: list[trio.SocketListener] = []
    try:
        for _ in _SIDES:
            listeners += await trio.open_tcp_listeners(0, host="127.0.0.1")
        yield listeners
    finally:
        # Also those that were not served yet when the caller was cancelled.
        for listener in listeners:
            listener.socket.close()


async def serve_stream(stream: trio.abc.Stream, origin: str, testbed: OAuthTestbed, clock: Callable[[], float]) -> None:
    """Serve one connection, and close it.

    Args:
        stream: The connection.
        origin: The origin that the client addresses.
        testbed: The testbed.
        clock: Returns seconds since the epoch.
    """
    async with stream:
        await _Connection(stream, origin, testbed, clock).run()


class _Connection:
    """A connection, with requests one after another."""

    def __init__(self, stream: trio.abc.Stream, origin: str, testbed: OAuthTestbed, clock: Callable[[], float]) -> None:
        self._stream: Final = stream
        self._origin: Final = origin
        self._testbed: Final = testbed
        self._clock: Final = clock
        self._h11: Final = h11.Connection(h11.SERVER)

    async def run(self) -> None:
        """Respond to requests until the client disconnects or sends invalid HTTP."""
        try:
            while (request := await self._request()) is not None:
                answer = self._testbed.answer(request, self._clock()) or Response(status=502)
                # Infinite: there is no response. The client must give up, or the block ends.
                await trio.sleep(answer.delay)
                await self._send(answer)
                if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
                    return
                self._h11.start_next_cycle()
        except (h11.ProtocolError, trio.BrokenResourceError):
            return

    async def _request(self) -> Request | None:
        head: h11.Request | None = None
        body = b""
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                self._h11.receive_data(bytes(await self._stream.receive_some(_READ)))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > _LARGEST:
                    return None
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return self._whole(head, body)
            else:
                return None

    def _whole(self, head: h11.Request, body: bytes) -> Request:
        return Request(
            method=head.method.decode("ascii"),
            url=self._origin + head.target.decode("latin-1"),
            headers=tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in head.headers),
            body=body,
        )

    async def _send(self, answer: Response) -> None:
        # Bytes, because a header may contain other characters than ASCII.
        headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in answer.headers]
        headers.append((b"content-length", b"%d" % len(answer.body)))
        if answer.status == 204:
            headers.pop()
        for event in (
            h11.Response(status_code=answer.status, headers=headers),
            h11.Data(data=answer.body),
            h11.EndOfMessage(),
        ):
            await self._stream.send_all(self._h11.send(event) or b"")
