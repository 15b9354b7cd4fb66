"""A client that sends each request on a connection of its own, and reads the response while it arrives."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import h11
import trio
from asgi_host import BOTH, as_object

from mcp_core.framing.sse import Event, SseParser
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits

__all__ = ["OPEN", "RawExchange", "legacy"]

OPEN: list[trio.SocketStream] = []
"""The connections of the test, to be closed at its end."""


class RawExchange:
    """A request on a connection of its own."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._h11 = h11.Connection(h11.CLIENT)
        self._parser = SseParser(Limits())
        self._events: list[Event] = []
        self.status = 0
        self.headers: dict[str, str] = {}

    @classmethod
    async def start(cls, url: str, method: str, headers: dict[str, str], body: bytes = b"") -> RawExchange:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        made = cls(await trio.open_tcp_stream(parts.hostname, parts.port))
        OPEN.append(made._stream)
        given = {"Host": parts.netloc, "Content-Length": str(len(body)), **headers}
        request = h11.Request(method=method, target=parts.path, headers=list(given.items()))
        data = b"".join(made._h11.send(each) or b"" for each in (request, h11.Data(data=body), h11.EndOfMessage()))
        await made._stream.send_all(data)
        return made

    async def _next(self) -> type[h11.NEED_DATA | h11.PAUSED] | h11.Event:
        while (event := self._h11.next_event()) is h11.NEED_DATA:
            self._h11.receive_data(await self._stream.receive_some())
        if isinstance(event, h11.Response):
            self.status = event.status_code
            self.headers = {name.decode(): value.decode() for name, value in event.headers}
        return event

    async def body(self) -> bytes:
        found = b""
        while not isinstance(event := await self._next(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                found += event.data
        await self._stream.aclose()
        return found

    async def json(self) -> JsonObject:
        return as_object(json.loads(await self.body()))

    async def event(self) -> Event | None:
        """Return the next event; `None` at the end of the stream."""
        while not self._events:
            event = await self._next()
            if isinstance(event, h11.EndOfMessage):
                return None
            if isinstance(event, h11.Data):
                for each in self._parser.receive_data(bytes(event.data)):
                    assert isinstance(each, Event)
                    self._events.append(each)
        return self._events.pop(0)

    async def message(self) -> JsonObject:
        while (event := await self.event()) is not None:
            if event.data:
                return as_object(json.loads(event.data))
        raise AssertionError("the stream has ended")

    async def leave(self) -> None:
        await self._stream.aclose()


def legacy(
    url: str, session: str | None, method: str, params: JsonObject, id: JsonValue = 1
) -> tuple[str, str, dict[str, str], bytes]:
    body = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()
    headers = {"Content-Type": "application/json", "Accept": BOTH}
    return url + "/mcp", "POST", {**headers, **({"Mcp-Session-Id": session} if session else {})}, body
