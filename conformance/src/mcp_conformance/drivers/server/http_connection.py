"""A server under test over Streamable HTTP, in both eras.

Spec: basic/transports#streamable-http (legacy), basic/transports/streamable-http (2026-07-28)
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.server.suite_connection import SuiteConnection, encoded
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation
from mcp_conformance.protocol.param_headers import modern_headers
from mcp_conformance.protocol.response import JsonRpcResponse
from mcp_conformance.wire.http_client import HttpResponse, IncompleteResponse
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.timeouts import WaitKind
from mcp_conformance.wire.transcript import Transcript, strict_json
from mcp_conformance.wire.unframed import unframed
from mcp_core.framing.sse import Event, SseParser
from mcp_core.limits import CLIENT_LIMITS
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.wire.http_client import ClientExchange, Endpoint
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["HttpConnection", "messages_of", "open_http"]

_ACCEPT: Final = ("Accept", "application/json, text/event-stream")
_JSON: Final = ("Content-Type", "application/json")
_ACCEPTED: Final = 202
_RESUMPTIONS: Final = 20
"""How often a stream is resumed until its response arrives."""
_STRAY: Final = 0.5
"""Seconds until a response on a wrong stream has arrived."""


class HttpConnection(SuiteConnection):
    """A connection over HTTP. Created by `open_http`.

    Args:
        endpoint: The endpoint of the server.
        revision: The revision.
        settings: The settings.
        capabilities: The capabilities that the client declares.
        nursery: Runs the standalone stream.
        by_tool: The header parameters of tools, see `param_headers.annotated`.
        transcript: The transcript that records everything.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        revision: Revision,
        settings: Settings,
        capabilities: JsonObject | None,
        *,
        nursery: trio.Nursery,
        by_tool: Mapping[str, Mapping[str, str]],
        transcript: Transcript,
    ) -> None:
        super().__init__(revision, Transport.HTTP, transcript, settings, capabilities)
        self.endpoint: Final = endpoint
        self.by_tool = by_tool
        self.session_id: str | None = None
        """The session id; `None` if the server gave none."""
        self.standalone_stream: ClientExchange | None = None
        """The standalone stream, if the server offers one."""
        self._nursery: Final = nursery

    def headers(self, message: JsonValue) -> list[tuple[str, str]]:
        """Return the headers of a message."""
        headers = [*self.settings.headers, _ACCEPT, _JSON]
        if self.revision.era is Era.MODERN:
            return [
                *headers,
                *modern_headers(message if isinstance(message, dict) else {}, self.revision.name, self.by_tool),
            ]
        return [*headers, *self.session_headers()]

    def session_headers(self) -> list[tuple[str, str]]:
        """Return the headers of each request of a legacy session."""
        headers: list[tuple[str, str]] = []
        if self.handshake is not None and self.revision.version_header:
            headers.append(("MCP-Protocol-Version", self.revision.name))
        if self.session_id is not None:
            headers.append(("Mcp-Session-Id", self.session_id))
        return headers

    async def exchange(
        self, message: JsonObject, *, deviant: str = "", headers: Sequence[tuple[str, str]] | None = None
    ) -> JsonRpcResponse:
        """Post a request and wait for its response, as JSON or in a stream."""
        method = str(message.get("method"))
        lines = self.headers(message) if headers is None else headers
        try:
            async with (
                self.within(f"a response to {method}", kind=WaitKind.RESPONSE),
                self.endpoint.exchange(self.transcript, "POST", lines, self.form(message), deviant=deviant) as exchange,
            ):
                if method == "initialize":
                    self.session_id = exchange.header("mcp-session-id")
                found, before = await self._read(exchange, message)
                return JsonRpcResponse(
                    method=method,
                    message=found,
                    before=tuple(before),
                    status=exchange.status,
                    headers=exchange.headers,
                )
        except IncompleteResponse as ended:
            raise Deviation(f"a response to {method}", str(ended)) from ended
        raise AssertionError("the block returns or raises")

    async def _read(self, exchange: ClientExchange, message: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
        """Return the response and the messages before it."""
        if exchange.media_type != "text/event-stream":
            body = await exchange.read()
            value = self.transcript.message(body, sent=False) if body else None
            if value is None and (stray := await self._on_standalone_stream(message)) is not None:
                return stray, []
            if not isinstance(value, dict) or "method" in value:
                raise Deviation(
                    f"a JSON-RPC response to {message.get('method')} in the body",
                    f"HTTP {exchange.status}, {exchange.media_type or 'no content type'}, {unframed(body)}",
                )
            return value, []
        return await self._follow(exchange, message)

    async def _follow(self, exchange: ClientExchange, message: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
        """Return the response from a stream. A stream that ends too early is resumed if possible."""
        before: list[JsonObject] = []
        mark = len(self.transcript.entries)
        last_id: str | None = None
        pause = 0.0
        while (event := await exchange.next_event()) is not None:
            last_id = event.id or last_id
            pause = pause if event.retry is None else event.retry / 1000
            if event.data:
                found = await self._event(event.data, message, before)
                if found is not None:
                    await self._take_arrived(exchange)
                    return found, before
        for _ in range(_RESUMPTIONS):
            if last_id is None or not self.revision.resumable:
                break
            await trio.sleep(pause)
            headers = [*self.settings.headers, ("Accept", "text/event-stream"), *self.session_headers()]
            headers.append(("Last-Event-ID", last_id))
            async with self.endpoint.exchange(self.transcript, "GET", headers) as again:
                while (event := await again.next_event()) is not None:
                    last_id = event.id or last_id
                    found = await self._event(event.data, message, before) if event.data else None
                    if found is not None:
                        return found, before
        if (stray := await self._on_standalone_stream(message)) is not None:
            return stray, before
        seen = self.transcript.unframed_since(mark)
        raise Deviation(
            f"a response to {message.get('method')} in the stream",
            self.transcript.excess or f"the end of the stream without it{f', after {seen}' if seen else ''}",
        )

    async def _on_standalone_stream(self, message: JsonObject) -> JsonObject | None:
        """Return the response on the standalone stream, where a check reports it: it does not belong there."""

        def found() -> JsonObject | None:
            return next((each for each in self.strays if encoded(each.get("id")) == encoded(message["id"])), None)

        if self.standalone_stream is None:
            return None
        with trio.move_on_after(_STRAY):
            await self.until(lambda: found() is not None, f"a response to {message.get('method')} on any stream")
        if (stray := found()) is not None:
            self.strays.remove(stray)
        return stray

    async def _take_arrived(self, exchange: ClientExchange) -> None:
        """Record what has already arrived after a response, with which a stream ends."""
        with suppress(IncompleteResponse), trio.move_on_after(0):
            while (event := await exchange.next_event()) is not None:
                if event.data:
                    await self.take(self.transcript.message(event.data, sent=False))

    async def _event(self, data: bytes, message: JsonObject, before: list[JsonObject]) -> JsonObject | None:
        value = self.transcript.message(data, sent=False)
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, dict):
                continue
            if "method" not in each and encoded(each.get("id")) == encoded(message["id"]):
                return each
            if "method" in each:
                before.append(each)
            await self.take(each)
        return None

    async def post(self, message: JsonValue, *, deviant: str = "") -> None:
        """Post a message that has no response. Checks of the HTTP status use the transcript."""
        answer = await self.send(self.form(message), headers=self.headers(message), deviant=deviant)
        if answer.body:
            self.strays.extend(each for each in _messages(answer.body) if "method" not in each)
        if not 200 <= answer.status < 300 and not deviant:
            raise Deviation("HTTP 202 for a notification or response", f"HTTP {answer.status}: {answer.body[:200]!r}")

    async def send(
        self,
        body: bytes | None,
        *,
        headers: Sequence[tuple[str, str]],
        method: str = "POST",
        deviant: str = "",
        host: str | None = None,
    ) -> HttpResponse:
        """Send a body with exactly these headers, and return the whole response, also of a stream.

        Raises:
            Deviation: There is no response.
        """
        try:
            async with (
                self.within(f"a response to {_called(method, body)}", kind=WaitKind.RESPONSE),
                self.endpoint.exchange(self.transcript, method, headers, body, deviant=deviant, host=host) as exchange,
            ):
                answer = await exchange.answer()
                self._enter(answer)
                return answer
        except IncompleteResponse as ended:
            raise Deviation("an HTTP response", str(ended)) from ended
        raise AssertionError("the block returns or raises")

    def _enter(self, answer: HttpResponse) -> None:
        """Enter a body. One that is not declared as JSON is no message, unless it looks like one, unlike the page of a proxy."""
        if answer.status == _ACCEPTED:
            # There is no response that it could contain. A check of the status judges it, and no check of messages.
            self.transcript.data(answer.body)
        elif answer.media_type == "application/json" and answer.body:
            self.transcript.message(answer.body, sent=False)
        elif answer.media_type == "text/event-stream":
            for event in SseParser(CLIENT_LIMITS).receive_data(answer.body):
                if isinstance(event, Event) and event.data:
                    self.transcript.message(event.data, sent=False)
        elif any(each.get("jsonrpc") == "2.0" for each in _messages(answer.body)):
            self.transcript.message(answer.body, sent=False)
        elif answer.body:
            self.transcript.note(f"a body of {answer.media_type or 'no content type'}: {unframed(answer.body)}")

    @asynccontextmanager
    async def open_exchange(
        self,
        method: str,
        headers: Sequence[tuple[str, str]],
        body: bytes | None = None,
        *,
        deviant: str = "",
    ) -> AsyncIterator[ClientExchange]:
        """Send a request, and leave its response to the block. Only the time until its head is limited.

        Raises:
            Deviation: There is no response.
            IncompleteResponse: The response is invalid, or breaks off.
        """
        async with AsyncExitStack() as stack:
            async with self.within(f"a response to {_called(method, body)}", kind=WaitKind.RESPONSE):
                exchange = await stack.enter_async_context(
                    self.endpoint.exchange(self.transcript, method, headers, body, deviant=deviant)
                )
            yield exchange

    async def look(
        self,
        method: str = "POST",
        *,
        headers: Sequence[tuple[str, str]],
        body: bytes | None = None,
        deviant: str = "",
        host: str | None = None,
    ) -> HttpResponse:
        """Send like `send`, but return only the head of a stream, which may never end.

        Raises:
            Deviation: There is no response.
        """
        try:
            async with (
                self.within(f"a response to {_called(method, body)}", kind=WaitKind.RESPONSE),
                self.endpoint.exchange(self.transcript, method, headers, body, deviant=deviant, host=host) as exchange,
            ):
                if exchange.media_type == "text/event-stream" or (method == "GET" and exchange.status == 200):
                    return HttpResponse(status=exchange.status, headers=exchange.headers, body=b"")
                answer = await exchange.answer()
                self._enter(answer)
                return answer
        except IncompleteResponse as ended:
            raise Deviation("an HTTP response", str(ended)) from ended
        raise AssertionError("the block returns or raises")

    async def malformed(self, data: bytes, *, deviant: str) -> JsonRpcResponse | None:
        """Post an invalid message. Return the JSON-RPC response in the HTTP response; `None` if absent.

        A rejection without a message in its body is also returned, with an empty message.
        """
        answer = await self.send(data, headers=self.headers({"method": "ping"}), deviant=deviant)
        found = next((each for each in messages_of(answer) if "method" not in each), {})
        bare = JsonRpcResponse(method="", message=found, status=answer.status, headers=answer.headers)
        return bare if found or bare.is_bare_refusal else None

    async def open_standalone_stream(self) -> None:
        """Open the standalone stream if the server offers one."""
        if self.revision.era is Era.MODERN:
            return
        await self._nursery.start(self._read_standalone_stream)

    async def _read_standalone_stream(self, task_status: trio.TaskStatus[None]) -> None:
        headers = [*self.settings.headers, ("Accept", "text/event-stream"), *self.session_headers()]
        started = False
        try:
            async with AsyncExitStack() as stack:
                with self.limited("a response to GET", kind=WaitKind.RESPONSE) as wait:
                    exchange = await stack.enter_async_context(self.endpoint.exchange(self.transcript, "GET", headers))
                if not wait.in_vain:
                    if exchange.media_type == "text/event-stream" and exchange.status == 200:
                        self.standalone_stream = exchange
                    started = True
                    task_status.started()
                    while self.standalone_stream is not None and (event := await exchange.next_event()) is not None:
                        if event.data:
                            await self.take(self.transcript.message(event.data, sent=False))
        except IncompleteResponse as ended:
            self.transcript.note(f"the standalone stream ended: {ended}")
        self.standalone_stream = None
        if not started:
            task_status.started()

    async def end(self) -> None:
        """End the session, if there is one."""
        if self.session_id is None:
            return
        with self.limited("a response to DELETE", kind=WaitKind.RESPONSE):
            try:
                headers = [*self.settings.headers, *self.session_headers()]
                async with self.endpoint.exchange(self.transcript, "DELETE", headers):
                    pass
            except IncompleteResponse:
                self.transcript.note("the session could not be ended")


def _called(method: str, body: bytes | None) -> str:
    """Return what a request calls, for a wait: the method of its message, or that of HTTP if it has none."""
    message = next(iter(_messages(body or b"")), {})
    called = message.get("method")
    return called if isinstance(called, str) else method


def _messages(body: bytes) -> list[JsonObject]:
    """Return the messages in a body, if it has any."""
    try:
        value = strict_json(body)
    except ValueError:
        return []
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)]


def messages_of(answer: HttpResponse) -> list[JsonObject]:
    """Return the messages in an HTTP response, which is JSON or a stream."""
    if answer.media_type != "text/event-stream":
        return _messages(answer.body)
    events = SseParser(CLIENT_LIMITS).receive_data(answer.body)
    return [found for event in events if isinstance(event, Event) for found in _messages(event.data)]


@asynccontextmanager
async def open_http(
    endpoint: Endpoint,
    revision: Revision,
    settings: Settings,
    *,
    capabilities: JsonObject | None = None,
    handshake: bool = True,
    by_tool: Mapping[str, Mapping[str, str]] | None = None,
    transcript: Transcript | None = None,
) -> AsyncIterator[HttpConnection]:
    """Connect to a server at a URL while the block runs.

    Args:
        endpoint: The endpoint of the server.
        revision: The revision.
        settings: The settings.
        capabilities: The capabilities that the client declares; `None`: those that the revision has.
        handshake: Whether to perform the handshake of the revision and open the standalone stream.
        by_tool: The header parameters of tools.
        transcript: The transcript that records everything; `None`: a new one.

    Raises:
        Deviation: The connection cannot be opened.
    """
    async with open_nursery() as nursery:
        peer = HttpConnection(
            endpoint,
            revision,
            settings,
            capabilities,
            nursery=nursery,
            by_tool=by_tool or {},
            transcript=Transcript() if transcript is None else transcript,
        )
        if handshake:
            await peer.shake_hands()
            await peer.open_standalone_stream()
        try:
            yield peer
        finally:
            with trio.CancelScope(shield=True):
                await peer.end()
            nursery.cancel_scope.cancel()
