"""Streams and sessions of a client over HTTP."""

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
"""What of a wait may be missing, for clocks that are coarse. More can only be missing if the client did not wait."""


@check(
    "http.client-both-kinds",
    proves=("http.client-both-response-types", "http.client-supports-json", "http.client-supports-sse"),
    needs=("scenario:all-in-streams", "scenario:tools_call"),
)
async def both_kinds(client: ClientUnderTest) -> None:
    """The client takes a response as JSON, and in a stream too."""
    client.control()
    evidence = client.run("all-in-streams")
    if evidence.status != 0 or not evidence.sent("tools/call"):
        raise Deviation("the client to do as with responses in JSON", evidence.ending)


@check("session.client-sends-id", proves=("session.client-sends-id",))
async def sends_session_id(client: ClientUnderTest) -> None:
    """A client that was given a session id has it in every request after that."""
    for evidence in client.all():
        given: str | None = None
        for exchange in evidence.exchanges:
            if exchange.beside:
                continue
            sent = exchange.header("mcp-session-id")
            if exchange.message.get("method") != "initialize" and given is not None and sent != given:
                raise Deviation(f"Mcp-Session-Id {given}", f"{exchange} with {sent or 'none'}")
            given = exchange.answered or given


@check(
    "session.client-reinitializes",
    proves=("session.client-reinitialize",),
    needs=("scenario:session-lost", "scenario:tools_call"),
)
async def reinitializes(client: ClientUnderTest) -> None:
    """A client whose session is gone opens another one, without the old id."""
    client.control()
    evidence = client.run("session-lost")
    at = evidence.notes.get("at")
    if not isinstance(at, int):
        raise NotTestable("the client did not list the tools, and so lost no session")
    behind = [each for each in evidence.exchanges if each.number > at and each.method == "POST"]
    if not behind or behind[0].message.get("method") != "initialize":
        raise Deviation("initialize behind status 404", str(behind[0]) if behind else evidence.ending)
    if behind[0].header("mcp-session-id") is not None:
        raise Deviation("initialize without a session id", f"Mcp-Session-Id {behind[0].header('mcp-session-id')}")


@check("session.client-deletes", proves=("session.client-delete",), needs=("scenario:initialize",))
async def deletes(client: ClientUnderTest) -> None:
    """A client that is done ends its session by DELETE."""
    evidence = client.run("initialize")
    given = [each.answered for each in evidence.exchanges if each.answered]
    # That it says which session it means is for another check.
    if given and not any(each.method == "DELETE" for each in evidence.exchanges):
        raise Deviation(f"DELETE for the session {given[0]}", evidence.ending)


# --- streams that end before their response ----------------------------------------------------------------------------


def _paused(client: ClientUnderTest) -> tuple[Evidence, list[HttpExchange]]:
    """What the client asked for by GET after its stream was ended.

    Raises:
        NotTestable: It did not make the call whose stream ends.
    """
    evidence = client.run("sse-retry")
    at = evidence.notes.get("paused_at")
    if not isinstance(at, float):
        raise NotTestable("the client did not call the tool test_reconnection")
    return evidence, [each for each in evidence.exchanges if each.method == "GET" and each.header("last-event-id")]


@check("sse.client-polls", proves=("sse.client-polls",), needs=("scenario:sse-retry",))
async def polls(client: ClientUnderTest) -> None:
    """A client whose stream ends before the response fetches the rest."""
    evidence, gets = _paused(client)
    if not gets:
        raise Deviation("GET with Last-Event-ID", evidence.ending)


@check(
    "resume.client-last-event-id",
    proves=("resume.client-last-event-id", "resume.always-get"),
    needs=("scenario:sse-retry",),
)
async def last_event_id(client: ClientUnderTest) -> None:
    """The rest of a stream is fetched with the id of the last event that came."""
    evidence, gets = _paused(client)
    if not gets:
        raise NotTestable("the client did not fetch the rest")
    wanted = evidence.notes.get("last_id")
    sent = [each.header("last-event-id") for each in gets]
    if wanted not in sent:
        raise Deviation(f"GET with Last-Event-ID {wanted}", ", ".join(map(str, sent)) or "none")


@check("sse.client-respects-retry", proves=("sse.client-respects-retry",), needs=("scenario:sse-retry",))
async def respects_retry(client: ClientUnderTest) -> None:
    """A client waits as long as `retry` says before it fetches the rest of a stream."""
    evidence, gets = _paused(client)
    if not gets:
        raise NotTestable("the client did not fetch the rest")
    at = evidence.notes.get("paused_at")
    # Whatever slows the machine down makes the wait longer, so that one that is too short is the client's.
    waited = (gets[0].at - (at if isinstance(at, float) else 0.0)) * 1000
    if waited < RETRY * _EARLY:
        raise Deviation(f"GET not before {RETRY} ms", f"GET after {waited:.0f} ms")


@check("http-sse.client-posts", proves=("http-sse.post-to-endpoint",))
async def posts_to_endpoint(client: ClientUnderTest) -> None:
    """All messages are posted to where the event `endpoint` says."""
    if client.transport is not Transport.HTTP_SSE:
        raise AssertionError("it is for this transport alone")
    for evidence in client.all():
        opened = False
        for exchange in evidence.exchanges:
            opened = opened or exchange.method == "GET"
            if opened and exchange.method == "POST" and exchange.known is None:
                raise Deviation("POST to the URI of the event endpoint", str(exchange))
