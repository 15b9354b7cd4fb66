"""A server under test over HTTP+SSE of 2024-11-05: a stream of its messages, and an endpoint for POST.

Spec: basic/transports#http-with-sse (2024-11-05)
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

import trio

from mcp_conformance.drivers.server.suite_connection import SuiteConnection, encoded
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation
from mcp_conformance.protocol.response import JsonRpcResponse
from mcp_conformance.wire.http_client import IncompleteResponse
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.timeouts import WaitKind
from mcp_conformance.wire.transcript import Transcript
from mcp_conformance.wire.unframed import unframed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.wire.http_client import Endpoint, HttpResponse
    from mcp_core.framing.sse import Event
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["EVENT", "SseConnection", "open_sse"]

EVENT: Final = "event "
"""How the note of an event begins whose type is not `message`: its type follows."""


class SseConnection(SuiteConnection):
    """A connection over HTTP+SSE. Created by `open_sse`.

    Args:
        endpoint: The URL of the stream.
        revision: The revision.
        settings: The settings.
        capabilities: The capabilities that the client declares.
        transcript: The transcript that records everything.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        revision: Revision,
        settings: Settings,
        capabilities: JsonObject | None,
        transcript: Transcript,
    ) -> None:
        super().__init__(revision, Transport.HTTP_SSE, transcript, settings, capabilities)
        self.endpoint: Final = endpoint
        self.events: Final[list[Event]] = []
        """All events of the stream, in order."""
        self.target: str | None = None
        """The path and the query of the endpoint for POST; `None` before the event `endpoint`."""
        self.status: int = 0
        """The HTTP status of the stream; 0 before the response."""
        self.media_type: str = ""
        """The content type of the stream."""
        self.ended: str = ""
        """How the stream ended; empty while it is open."""
        self._waiting: Final[dict[str, tuple[trio.Event, list[JsonObject]]]] = {}
        self._opened: Final = trio.Event()

    async def read(self) -> None:
        """Read the stream until its end."""
        headers = [*self.settings.headers, ("Accept", "text/event-stream")]
        try:
            async with self.endpoint.exchange(self.transcript, "GET", headers) as exchange:
                self.status, self.media_type = exchange.status, exchange.media_type
                if self.status == 200 and self.media_type == "text/event-stream":
                    while (event := await exchange.next_event()) is not None:
                        await self._event(event)
                self.ended = (
                    self.transcript.excess
                    or f"HTTP {self.status}, {self.media_type or 'no content type'}, and the end of the stream"
                )
        except IncompleteResponse as ended:
            self.ended = str(ended)
        self.transcript.note(self.ended)
        self._opened.set()
        for arrived, _ in self._waiting.values():
            arrived.set()
        self._arrived.set()

    async def _event(self, event: Event) -> None:
        self.events.append(event)
        if event.event != "message" and event.data:
            shown = f": {event.data.decode('utf-8', 'backslashreplace')}" if event.event == "endpoint" else ""
            self.transcript.note(f"{EVENT}{event.event}{shown}")
        if event.event == "endpoint":
            if self.target is None:
                # Some servers write the URI as JSON. A check covers its form.
                uri = event.data.decode("utf-8", "replace").strip('"')
                place = urlsplit(urljoin(self.endpoint.url, uri))
                self.target = place.path + (f"?{place.query}" if place.query else "")
                self._opened.set()
        elif event.data:
            value = self.transcript.message(event.data, sent=False)
            waiting = self._waiting.get(_key(value.get("id"))) if isinstance(value, dict) else None
            if isinstance(value, dict) and "method" not in value and waiting is not None:
                waiting[1].append(value)
                waiting[0].set()
            else:
                await self.take(value)

    async def opened(self) -> str:
        """Wait for the event `endpoint`. Raises `Deviation` if it does not arrive."""
        async with self.within("an event `endpoint`"):
            await self._opened.wait()
        if self.target is None:
            raise Deviation("an event `endpoint`", self.ended)
        return self.target

    async def send(
        self,
        body: bytes,
        *,
        headers: Sequence[tuple[str, str]] = (),
        host: str | None = None,
        deviant: str = "",
    ) -> HttpResponse:
        """Post a body with these headers and a content type. Raises `Deviation` without an HTTP response."""
        target = await self.opened()
        lines = [*self.settings.headers, ("Content-Type", "application/json"), *headers]
        try:
            async with (
                self.within("a response to POST", kind=WaitKind.RESPONSE),
                self.endpoint.exchange(
                    self.transcript, "POST", lines, body, target=target, host=host, deviant=deviant
                ) as exchange,
            ):
                return await exchange.answer()
        except IncompleteResponse as ended:
            raise Deviation("an HTTP response", str(ended)) from ended
        raise AssertionError("the block returns or raises")

    async def exchange(
        self,
        message: JsonObject,
        *,
        deviant: str = "",
        headers: Sequence[tuple[str, str]] | None = None,
    ) -> JsonRpcResponse:
        """Post a request and wait for its response in the stream."""
        method = message.get("method")
        arrived, answers = self._waiting[_key(message["id"])] = (trio.Event(), [])
        since = len(self.inbox)
        try:
            posted = await self.send(self.form(message), headers=headers or (), deviant=deviant)
            if not 200 <= posted.status < 300:
                raise Deviation(f"HTTP 2xx for {method}", f"HTTP {posted.status}: {unframed(posted.body)}")
            async with self.within(f"a response to {method} in the stream", kind=WaitKind.RESPONSE):
                await arrived.wait()
        finally:
            del self._waiting[_key(message["id"])]
        if not answers:
            raise Deviation(f"a response to {method} in the stream", self.ended)
        return JsonRpcResponse(method=str(method), message=answers[0], before=tuple(self.inbox[since:]))

    async def post(self, message: JsonValue, *, deviant: str = "") -> None:
        """Post a message that has no response."""
        answer = await self.send(self.form(message), deviant=deviant)
        if not 200 <= answer.status < 300 and not deviant:
            raise Deviation("HTTP 2xx for a notification or response", f"HTTP {answer.status}: {unframed(answer.body)}")

    async def malformed(self, data: bytes, *, deviant: str) -> JsonRpcResponse | None:
        """Post an invalid message, and wait for an error in the HTTP response or in the stream.

        A rejection without a message in its body is also returned, with an empty message.
        """
        known = len(self.strays)
        answer = await self.send(data, deviant=deviant)
        value = self.transcript.message(answer.body, sent=False) if answer.media_type == "application/json" else None
        if isinstance(value, dict) and "error" in value:
            return JsonRpcResponse(method="", message=value, status=answer.status, headers=answer.headers)
        if not 200 <= answer.status < 300:
            bare = JsonRpcResponse(method="", message={}, status=answer.status, headers=answer.headers)
            return bare if bare.is_bare_refusal else None
        with trio.move_on_after(self.limit("an error for an invalid message")):
            while len(self.strays) == known and not self.ended:
                self._arrived = trio.Event()
                await self._arrived.wait()
        return JsonRpcResponse(method="", message=self.strays[known]) if len(self.strays) > known else None


def _key(id: JsonValue) -> str:
    """Return an id as a key that distinguishes 1, "1" and 1.0."""
    return encoded(id).decode()


@asynccontextmanager
async def open_sse(
    endpoint: Endpoint,
    revision: Revision,
    settings: Settings,
    *,
    capabilities: JsonObject | None = None,
    handshake: bool = True,
    transcript: Transcript | None = None,
) -> AsyncIterator[SseConnection]:
    """Connect to a server over HTTP+SSE while the block runs.

    Args:
        endpoint: The URL of the stream.
        revision: The revision.
        settings: The settings.
        capabilities: The capabilities that the client declares; `None`: those that the revision has.
        handshake: Whether to perform the handshake of the revision.
        transcript: The transcript that records everything; `None`: a new one.

    Raises:
        Deviation: The connection cannot be opened.
    """
    async with open_nursery() as nursery:
        peer = SseConnection(
            endpoint, revision, settings, capabilities, Transcript() if transcript is None else transcript
        )
        nursery.start_soon(peer.read)
        try:
            if handshake:
                await peer.shake_hands()
            yield peer
        finally:
            nursery.cancel_scope.cancel()
