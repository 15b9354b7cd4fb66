"""Event streams of the revision without sessions: their content, their end, and cancellation by disconnect."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_conformance.checks.probes.http_requests import (
    ACCEPT_STREAM,
    http_peer,
    progress_call,
    read_stream,
    with_header,
)
from mcp_conformance.checks.probes.message_pairs import requests_by_exchange
from mcp_conformance.checks.probes.waiting_call import outcome_of
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.transcript import Kind
from mcp_core.types.meta import LOG_LEVEL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.framing.sse import Event
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_NEEDS: Final = ("capability:tools",)
_LOOKS: Final = 20
_PAUSE: Final = 0.01
"""Poll interval in seconds."""


@check("http.accel-buffering", proves=("http.sse-x-accel-buffering",), subject=CheckScope.EVIDENCE)
async def accel_buffering(server: ServerUnderTest) -> None:
    """Every stream, of a request or of a subscription, has the header X-Accel-Buffering: no."""
    streams = 0
    for transcript in server.evidence:
        requested = requests_by_exchange(transcript)
        for entry in transcript:
            method = requested.get(entry.exchange or 0, {}).get("method")
            if not entry.sent and entry.kind is Kind.HEAD and method is not None:
                found = [(name.lower(), value.strip().lower()) for name, value in _lines_of(entry.text)]
                if any(name == "content-type" and value.startswith("text/event-stream") for name, value in found):
                    streams += 1
                    values: list[JsonValue] = [value for name, value in found if name == "x-accel-buffering"]
                    if values != ["no"]:
                        raise Deviation(f"X-Accel-Buffering: no for {method}", brief(values))
    if not streams:
        raise NotApplicable("no response is a stream")


def _lines_of(head: str) -> list[tuple[str, str]]:
    """Return the header lines of a head."""
    found = [line.partition(":") for line in head.splitlines()[1:]]
    return [(name, value) for name, _, value in found]


@check("http.stream-no-requests", proves=("http.sse-no-requests",), needs=_NEEDS)
async def stream_no_requests(server: ServerUnderTest) -> None:
    """A stream contains no requests, even when the server requires input."""
    name, arguments = server.tool("test_streaming_elicitation")
    async with server.open(capabilities={"elicitation": {"form": {}}}) as opened:
        peer = http_peer(attrs.evolve(server, connected=opened))
        answer = await peer.request("tools/call", {"name": name, "arguments": arguments})
    requests = [each for each in answer.before if "id" in each and "method" in each]
    if requests:
        raise Deviation("no request in a stream", brief(requests[0]))


@check("http.no-resumption", proves=("http.sse-no-resumption",), needs=_NEEDS)
async def no_resumption(server: ServerUnderTest) -> None:
    """A stream cannot be resumed by GET with Last-Event-ID, also with an id that stands for the start of a stream."""
    peer = http_peer(server)
    request = progress_call(server, peer, "again")
    stream = await read_stream(peer, request)
    headers = with_header(_without_body(peer.headers(request)), *ACCEPT_STREAM)
    for last in (stream.ids[0] if stream.ids else "1", "0"):
        answer = await peer.look(
            "GET", headers=[*headers, ("Last-Event-ID", last)], deviant="an attempt to resume a stream"
        )
        if answer.status == 200 and answer.media_type == "text/event-stream":
            raise Deviation(
                f"no stream for a GET with Last-Event-ID {last}", f"HTTP {answer.status}, {answer.media_type}"
            )


def _without_body(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers that are valid for a GET."""
    return [(name, value) for name, value in headers if name.lower() not in ("content-type", "mcp-method", "mcp-name")]


@check(
    "http.listen-apart",
    proves=("http.listen-not-request-scoped", "subscription.http-sse"),
    needs=("capability:tools.listChanged",),
)
async def listen_apart(server: ServerUnderTest) -> None:
    """A stream of `subscriptions/listen` has no progress or log messages of other requests."""
    name, arguments = server.tool("test_trigger_tool_change")
    peer = http_peer(server)
    listened: JsonObject = {
        "notifications": {"toolsListChanged": True},
        "_meta": {"progressToken": "l", LOG_LEVEL: "debug"},
    }
    listen = peer.message("subscriptions/listen", listened)
    headers = peer.headers(listen)
    with peer.limited("notifications/tools/list_changed on the stream", times=2):
        async with peer.endpoint.exchange(peer.transcript, "POST", headers, encoded(listen)) as exchange:
            if exchange.media_type != "text/event-stream":
                raise Deviation("a stream for subscriptions/listen", f"HTTP {exchange.status}, {exchange.media_type}")
            await exchange.next_event()
            call = progress_call(server, peer, "elsewhere")
            params = call["params"]
            if isinstance(params, dict) and isinstance(params["_meta"], dict):
                params["_meta"] = {**params["_meta"], LOG_LEVEL: "debug"}
            (await peer.exchange(call)).result()
            for fixture in ("test_logging_tool", "conformance_logging"):
                with suppress(NotTestable):
                    logging, given = server.tool(fixture)
                    logged: JsonObject = {"name": logging, "arguments": given, "_meta": {LOG_LEVEL: "debug"}}
                    await peer.request("tools/call", logged)
            (await peer.request("tools/call", {"name": name, "arguments": arguments})).result()
            while (event := await exchange.next_event()) is not None:
                message = peer.transcript.message(event.data, sent=False) if event.data else None
                method = message.get("method") if isinstance(message, dict) else None
                if method in ("notifications/progress", "notifications/message"):
                    raise Deviation("no progress or log message on this stream", brief(message))
                if method == "notifications/tools/list_changed":
                    return
            raise Deviation("notifications/tools/list_changed on the stream", "the end of the stream")
    raise Deviation("notifications/tools/list_changed on the stream", "no such notification")


# --- disconnects
# --------------------------------------------------------------------------------------------------------


def _is_progress(peer: HttpConnection, event: Event | None) -> bool:
    """Return whether an event is a progress notification.

    Raises:
        Deviation: The stream has ended.
    """
    if event is None:
        raise Deviation("progress of the call on its stream", "the end of the stream")
    message = peer.transcript.message(event.data, sent=False) if event.data else None
    return isinstance(message, dict) and message.get("method") == "notifications/progress"


@asynccontextmanager
async def _waiting_call(server: ServerUnderTest, key: str, *, id: JsonValue = None) -> AsyncIterator[None]:
    """Start a call that waits, and close its connection at the end of the block.

    Args:
        server: The server.
        key: The key of the call, by which it is released.
        id: The id of the request; `None`: the next one.

    Raises:
        NotApplicable: The response is not a stream.
        NotTestable: The call reports no progress, so that it is unknown when it runs.
    """
    peer = http_peer(server)
    name, _ = server.tool("conformance_wait")
    server.tool("conformance_outcome")
    meta: JsonObject = {"progressToken": key}
    request = peer.message("tools/call", {"name": name, "arguments": {"key": key}, "_meta": meta}, id=id)
    async with AsyncExitStack() as stack:
        try:
            exchange = await stack.enter_async_context(
                peer.open_exchange("POST", peer.headers(request), encoded(request))
            )
            async with peer.within("progress of the call on its stream"):
                if exchange.media_type != "text/event-stream":
                    raise NotApplicable("the response is not a stream")
                while not _is_progress(peer, await exchange.next_event()):
                    pass
        except Deviation as deviation:
            # A server may send no progress; then it is unknown when the call runs.
            raise NotTestable(f"the control condition failed: {name} reports no progress") from deviation
        yield
    peer.transcript.note("the stream is closed before the response")


async def _disconnect(server: ServerUnderTest, key: str) -> None:
    """Start a call that waits, and close its connection. The exceptions are those of `_waiting_call`."""
    async with _waiting_call(server, key):
        pass


async def _final_outcome(server: ServerUnderTest, key: str) -> str:
    """Return the outcome of a call when it is known; `running` when it does not end in time."""
    with trio.move_on_after(server.settings.timeout):
        # The outcome can only be polled.
        while (outcome := await outcome_of(server, key)) == "running":  # noqa: ASYNC110
            await trio.sleep(_PAUSE)
        return outcome
    return "running"


@check("http.cancel-by-disconnect", proves=("http.cancel-on-disconnect", "http.cancel-server-stops"), needs=_NEEDS)
async def cancel_by_disconnect(server: ServerUnderTest) -> None:
    """A request is cancelled when its client closes the stream."""
    key = f"gone-{http_peer(server).next_id()}"
    await _disconnect(server, key)
    outcome = await _final_outcome(server, key)
    if outcome != "cancelled":
        raise Deviation("the request to be cancelled", f"it is {outcome}")


@check("http.cancel-only-own", proves=("http.cancel-on-disconnect", "http.multiple-clients"), needs=_NEEDS)
async def cancel_only_own(server: ServerUnderTest) -> None:
    """A disconnect cancels no request of another client, even if it has the same id."""
    id = http_peer(server).next_id()
    before, between, after = [f"same-{id}-{number}" for number in range(3)]
    async with AsyncExitStack() as others:
        await others.enter_async_context(_waiting_call(server, before, id=id))
        async with _waiting_call(server, between, id=id):
            await others.enter_async_context(_waiting_call(server, after, id=id))
        if await _final_outcome(server, between) != "cancelled":
            raise Deviation("the request to be cancelled, although others have its id", "it is not")
        # A server that cancels the others needs a moment for it. No verdict depends on its length.
        for _ in range(_LOOKS):
            for key in (before, after):
                if await outcome_of(server, key) == "cancelled":
                    raise Deviation("a request of another client to continue", "it is cancelled")
            await trio.sleep(_PAUSE)
        for key in (before, after):
            (await server.call("conformance_release", {"key": key})).result()
            outcome = await _final_outcome(server, key)
            if outcome != "finished":
                raise Deviation("a request of another client to continue to its end", f"it is {outcome}")


@check("sse.disconnect-no-cancel", proves=("sse.disconnect-not-cancel",), needs=_NEEDS)
async def disconnect_no_cancel(server: ServerUnderTest) -> None:
    """A request continues when its connection is lost."""
    key = f"lost-{http_peer(server).next_id()}"
    await _disconnect(server, key)
    # A server that cancels the call needs a moment to notice the disconnect. No verdict depends on its length.
    for _ in range(_LOOKS):
        if await outcome_of(server, key) == "cancelled":
            raise Deviation("the request to continue", "it is cancelled")
        await trio.sleep(_PAUSE)
    (await server.call("conformance_release", {"key": key})).result()
    outcome = await _final_outcome(server, key)
    if outcome != "finished":
        raise Deviation("the request to continue to its end", f"it is {outcome}")


@check("http.cancel-silent", proves=("http.cancel-no-more-messages",), needs=("capability:tools.listChanged",))
async def cancel_silent(server: ServerUnderTest) -> None:
    """After a disconnect no message is sent for the request, on other streams either."""
    peer = http_peer(server)
    key = f"silent-{peer.next_id()}"
    name, arguments = server.tool("test_trigger_tool_change")
    listen = peer.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    async with (
        peer.within("notifications/tools/list_changed on the stream", times=2),
        peer.endpoint.exchange(peer.transcript, "POST", peer.headers(listen), encoded(listen)) as exchange,
    ):
        await exchange.next_event()
        await _disconnect(server, key)
        await _final_outcome(server, key)
        (await peer.request("tools/call", {"name": name, "arguments": arguments})).result()
        while (event := await exchange.next_event()) is not None:
            message = peer.transcript.message(event.data, sent=False) if event.data else None
            if isinstance(message, dict) and key in brief(message):
                raise Deviation("no message for the request of a disconnected client", brief(message))
            if isinstance(message, dict) and message.get("method") == "notifications/tools/list_changed":
                return
