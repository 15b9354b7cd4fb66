"""HTTP streams and sessions of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.scenarios.http import RETRY

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence

_EARLY: Final = 0.95
"""The tolerated part of a waiting time, as clocks are coarse. A shorter time means that the client did not wait."""


@check(
    "http.client-both-kinds",
    proves=("http.client-both-response-types", "http.client-supports-json", "http.client-supports-sse"),
    needs=("scenario:all-in-streams", "scenario:tools_call"),
)
async def both_kinds(client: ClientUnderTest) -> None:
    """The client accepts a response as JSON and in a stream."""
    client.control()
    evidence = client.run("all-in-streams")
    if evidence.status != 0 or not evidence.sent("tools/call"):
        raise Deviation("the client to behave as with JSON responses", evidence.ending)


@check("session.client-sends-id", proves=("session.client-sends-id",))
async def sends_session_id(client: ClientUnderTest) -> None:
    """A client that got a session id sends it with every later request."""
    for evidence in client.all():
        given: str | None = None
        for exchange in evidence.exchanges:
            if exchange.beside:
                continue
            sent = exchange.header("mcp-session-id")
            if exchange.message.get("method") != "initialize" and given is not None and sent != given:
                raise Deviation(f"Mcp-Session-Id {given}", f"{exchange} with {sent or 'no Mcp-Session-Id'}")
            given = exchange.answered or given


@check(
    "session.client-reinitializes",
    proves=("session.client-reinitialize",),
    needs=("scenario:session-lost", "scenario:tools_call"),
)
async def reinitializes(client: ClientUnderTest) -> None:
    """A client whose session ended opens a new one, without the old id."""
    client.control()
    evidence = client.run("session-lost")
    at = evidence.notes.get("at")
    if not isinstance(at, int):
        raise NotTestable("the client did not list the tools, and lost no session")
    after = [each for each in evidence.exchanges if each.number > at and each.method == "POST"]
    if not after or after[0].message.get("method") != "initialize":
        raise Deviation("initialize after status 404", str(after[0]) if after else evidence.ending)
    if after[0].header("mcp-session-id") is not None:
        raise Deviation("initialize without a session id", f"Mcp-Session-Id {after[0].header('mcp-session-id')}")


@check("session.client-deletes", proves=("session.client-delete",), needs=("scenario:initialize",))
async def deletes(client: ClientUnderTest) -> None:
    """A client that is finished ends its session with DELETE."""
    evidence = client.run("initialize")
    given = [each.answered for each in evidence.exchanges if each.answered]
    # Another check requires the session id of the DELETE.
    if given and not any(each.method == "DELETE" for each in evidence.exchanges):
        raise Deviation(f"DELETE for the session {given[0]}", evidence.ending)


# --- streams that end before their response
# -----------------------------------------------------------------------------


def _paused(client: ClientUnderTest) -> tuple[Evidence, list[HttpExchange]]:
    """Return the GET requests of the client after the end of its stream.

    Raises:
        NotTestable: The client did not send the call whose stream ends.
    """
    evidence = client.run("sse-retry")
    at = evidence.notes.get("paused_at")
    if not isinstance(at, float):
        raise NotTestable("the client did not call the tool test_reconnection")
    return evidence, [each for each in evidence.exchanges if each.method == "GET" and each.header("last-event-id")]


@check("sse.client-polls", proves=("sse.client-polls",), needs=("scenario:sse-retry",))
async def polls(client: ClientUnderTest) -> None:
    """A client whose stream ends before the response resumes it."""
    evidence, gets = _paused(client)
    if not gets:
        raise Deviation("GET with Last-Event-ID", evidence.ending)


@check(
    "resume.client-last-event-id",
    proves=("resume.client-last-event-id", "resume.always-get"),
    needs=("scenario:sse-retry",),
)
async def last_event_id(client: ClientUnderTest) -> None:
    """A stream is resumed with the id of the last event that was received."""
    evidence, gets = _paused(client)
    if not gets:
        raise NotTestable("the client did not resume the stream")
    last_id = evidence.notes.get("last_id")
    sent = [each.header("last-event-id") for each in gets]
    if sent[0] != last_id:
        raise Deviation(f"GET with Last-Event-ID {last_id} first", ", ".join(map(str, sent)))


@check("sse.client-respects-retry", proves=("sse.client-respects-retry",), needs=("scenario:sse-retry",))
async def respects_retry(client: ClientUnderTest) -> None:
    """A client waits for the `retry` time before it resumes a stream."""
    evidence, gets = _paused(client)
    if not gets:
        raise NotTestable("the client did not resume the stream")
    at = evidence.notes.get("paused_at")
    # A slow machine only makes the wait longer. If it is too short, the client is the cause.
    waited = (gets[0].at - (at if isinstance(at, float) else 0.0)) * 1000
    if waited < RETRY * _EARLY:
        raise Deviation(f"GET not before {RETRY} ms", f"GET after {waited:.0f} ms")


@check("http-sse.client-posts", proves=("http-sse.post-to-endpoint",))
async def posts_to_endpoint(client: ClientUnderTest) -> None:
    """All messages are sent by POST to the URI of the `endpoint` event."""
    if client.transport is not Transport.HTTP_SSE:
        raise AssertionError("this check is for HTTP+SSE only")
    for evidence in client.all():
        opened = False
        for exchange in evidence.exchanges:
            opened = opened or exchange.method == "GET"
            if opened and exchange.method == "POST" and exchange.known is None:
                raise Deviation("POST to the URI of the endpoint event", str(exchange))
