"""HTTP streams and sessions of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.scenarios.concurrent_calls import CALLED_TWICE, ENDED
from mcp_conformance.scenarios.endpoints import ENDPOINT_FORMS
from mcp_conformance.scenarios.http import (
    EMPTIED_ID,
    LOSES,
    LOST_TO_STATELESS,
    LOST_WITH_STREAM,
    RECONNECTS,
    STANDALONE_ID,
    WITHOUT_SESSION,
    WITHOUT_STREAM,
)
from mcp_conformance.scenarios.pagination import STANDALONE
from mcp_conformance.scenarios.robustness import STANDALONE_ENDS, STANDALONE_RETRY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_EARLY: Final = 0.95
"""The tolerated part of a waiting time, as clocks are coarse. A shorter time means that the client did not wait."""
_ATTEMPTS: Final = 2
"""How often a client must resume a stream. It may limit its attempts."""
_OK: Final = 200
"""The HTTP status of a successful response."""


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


@check(
    "http.client-standalone-type",
    proves=("sse.get-server-messages",),
    needs=("scenario:server-asks", "scenario:conformance_pages"),
)
async def standalone_type(client: ClientUnderTest) -> None:
    """A standalone stream whose media type has a parameter is read like one without."""
    if client.run("conformance_pages").notes.get(STANDALONE) is not True:
        raise NotApplicable("the client opens no standalone stream, or closes it before it calls a tool")
    kept = client.run("server-asks").notes.get(STANDALONE)
    if kept is None:
        raise NotTestable(f"the client opened no standalone stream before the call: {client.run('server-asks').ending}")
    if kept is False:
        raise Deviation(
            "the client to keep its standalone stream, as in conformance_pages, with text/event-stream; charset=utf-8",
            "it closed the stream before it called the tool",
        )


@check("session.client-sends-id", proves=("session.client-sends-id",))
async def sends_session_id(client: ClientUnderTest) -> None:
    """A client that got a session id sends it with every later request."""
    for evidence in client.all():
        given: str | None = None
        for exchange in evidence.exchanges:
            if exchange.beside:
                continue
            sent = exchange.all("mcp-session-id")
            opens = exchange.message.get("method") == "initialize"
            if not opens and given is not None and sent != [given]:
                raise Deviation(f"Mcp-Session-Id {given}", f"{exchange} with {', '.join(sent) or 'no Mcp-Session-Id'}")
            # A new session may have no id; another check covers the id of the lost one.
            given = (exchange.answered or None) if opens and exchange.status == _OK else exchange.answered or given


@check(
    "session.client-reinitializes",
    proves=("session.client-reinitialize",),
    needs=("scenario:session-lost", "scenario:tools_call"),
)
async def reinitializes(client: ClientUnderTest) -> None:
    """A client whose session ended opens a new one, without the old id."""
    client.control()
    evidence = client.run("session-lost")
    losses = _objects(evidence.notes.get("losses"))
    if not losses:
        raise NotTestable("the client did not list the tools, and lost no session")
    for number, loss in enumerate(losses):
        at = loss["at"]
        after = [
            each
            for each in evidence.exchanges
            if isinstance(at, int) and each.number > at and each.method == "POST" and not _crosses(each, loss, number)
        ]
        if not after or after[0].message.get("method") != "initialize":
            raise Deviation("initialize after status 404", str(after[0]) if after else evidence.ending)
        if after[0].header("mcp-session-id") is not None:
            raise Deviation("initialize without a session id", f"Mcp-Session-Id {after[0].header('mcp-session-id')}")


def _objects(value: JsonValue) -> list[JsonObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _crosses(exchange: HttpExchange, loss: JsonObject, number: int) -> bool:
    """Return whether a call may have been sent before the client knew that its session is lost.

    A client may call several tools at once. The first loss is that of a list.
    """
    is_call = number > 0 and exchange.message.get("method") == "tools/call"
    return is_call and exchange.header("mcp-session-id") == loss["session"]


@check(
    "session.client-drops-id",
    proves=("session.client-reinitialize", "session.client-sends-id"),
    needs=(f"scenario:{LOST_TO_STATELESS}", "scenario:tools_call"),
)
async def drops_session_id(client: ClientUnderTest) -> None:
    """A client whose new session has no id does not send the id of the lost one."""
    client.control()
    evidence = client.run(LOST_TO_STATELESS)
    lost = evidence.notes.get("lost")
    if not isinstance(lost, dict):
        raise NotTestable("the client did not list the tools, and lost no session")
    after = [each for each in evidence.exchanges if each.number > _number(lost["at"]) and each.method == "POST"]
    methods = [each.message.get("method") for each in after]
    if "notifications/initialized" not in methods:
        raise NotTestable(f"the client opened no new session: {evidence.ending}")
    # Earlier requests may have been sent before the client knew of the new session.
    for exchange in after[methods.index("notifications/initialized") :]:
        if exchange.header("mcp-session-id") == lost["session"]:
            raise Deviation("no Mcp-Session-Id in a session without an id", f"{exchange} with {lost['session']}")


@check(
    "session.client-reinitializes-stream",
    proves=("session.client-reinitialize",),
    needs=(f"scenario:{LOST_WITH_STREAM}", "scenario:session-lost"),
)
async def reinitializes_after_stream(client: ClientUnderTest) -> None:
    """A client opens a new session also if the status 404 is the response to a GET that resumes a stream."""
    evidence = client.run(LOST_WITH_STREAM)
    lost = evidence.notes.get("lost")
    if not isinstance(lost, dict):
        raise NotTestable(f"the client did not call the tool {LOSES}")
    after = [each for each in evidence.exchanges if each.number > _number(lost["at"])]
    gets = [each for each in after if each.method == "GET" and each.header("mcp-session-id") == lost["session"]]
    if not gets:
        raise NotTestable("the client did not resume the stream in its session")
    later = [each for each in after if each.number > gets[0].number and each.method == "POST"]
    posts = [each for each in later if not _crosses(each, lost, 1)]
    if not posts:
        raise NotTestable(f"the client sent nothing after status 404 for GET: {evidence.ending}")
    if posts[0].message.get("method") != "initialize":
        raise Deviation("initialize after status 404 for GET", str(posts[0]))


@check(
    "session.client-bears-none",
    proves=("session.assign",),
    needs=(f"scenario:{WITHOUT_SESSION}", "scenario:tools_call"),
)
async def accepts_no_session(client: ClientUnderTest) -> None:
    """A server without session ids is used like any other."""
    _as_in_control(client, WITHOUT_SESSION)


@check(
    "http.client-bears-405",
    proves=("session.delete-405",),
    needs=(f"scenario:{WITHOUT_STREAM}", "scenario:tools_call"),
)
async def accepts_405(client: ClientUnderTest) -> None:
    """A server that responds to GET and to DELETE with 405 is used like any other."""
    _as_in_control(client, WITHOUT_STREAM)


def _as_in_control(client: ClientUnderTest, scenario: str) -> None:
    """Check that the client does the same as with a server that offers everything."""
    client.control()
    evidence = client.run(scenario)
    if evidence.status != 0 or not evidence.sent("tools/call"):
        raise Deviation("the client to behave as in tools_call", evidence.ending)


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


def _pauses(client: ClientUnderTest) -> list[tuple[JsonObject, HttpExchange | None]]:
    """Return the pauses of the stream of a call, and the GET request of the client after each; `None` without one.

    Raises:
        NotTestable: The client did not send the call whose stream ends.
    """
    evidence = client.run("sse-retry")
    pauses = _objects(evidence.notes.get("pauses"))
    if not pauses:
        raise NotTestable("the client did not call the tool test_reconnection")
    gets = [each for each in evidence.exchanges if each.method == "GET" and each.header("last-event-id")]
    # One of them may continue the standalone stream. Another check covers the id that an empty one has replaced.
    later = _gets_after(evidence, STANDALONE_ID)
    own = next((each for each in later if each.header("last-event-id") == _standalone_id(evidence)), None)
    gets = [each for each in gets if each is not own and each.header("last-event-id") != EMPTIED_ID]
    found: list[tuple[JsonObject, HttpExchange | None]] = []
    for pause in pauses:
        after = pause["after"]
        found.append((pause, next((each for each in gets if isinstance(after, int) and each.number > after), None)))
    return found


def _standalone_id(evidence: Evidence) -> JsonValue:
    """Return the id of the last event of the standalone stream when it ended; `None` if it did not."""
    ended = evidence.notes.get(STANDALONE_ID)
    return ended["last_id"] if isinstance(ended, dict) else None


def _gets_after(evidence: Evidence, note: str) -> list[HttpExchange]:
    """Return the GET requests after an end of the standalone stream, in which the client may continue any stream."""
    ended = evidence.notes.get(note)
    if not isinstance(ended, dict):
        return []
    return [each for each in evidence.exchanges if each.method == "GET" and each.number > _number(ended["after"])]


def _resumptions(client: ClientUnderTest) -> list[tuple[JsonObject, HttpExchange]]:
    """Return the pauses with a GET request after them. Raise `NotTestable` without any."""
    found = [(pause, get) for pause, get in _pauses(client) if get is not None]
    if not found:
        raise NotTestable("the client did not resume the stream")
    return found


def _number(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0


@check("sse.client-polls", proves=("sse.client-polls",), needs=("scenario:sse-retry",))
async def polls(client: ClientUnderTest) -> None:
    """A client whose stream ends before the response resumes it, each time, and receives the response."""
    evidence = client.run("sse-retry")
    for number, (pause, get) in enumerate(_pauses(client)):
        after = [each for each in evidence.exchanges if each.method == "GET" and each.number > _number(pause["after"])]
        if get is None and (number < _ATTEMPTS or after):
            used = after[0].header("last-event-id") if after else None
            observed = "GET without it" if used is None else f"GET with {used}"
            raise Deviation(
                "GET with Last-Event-ID, the last id that was received", observed if after else evidence.ending
            )
        if get is None:
            return
    last = evidence.requests[-1].get("params")
    if evidence.status != 0 and isinstance(last, dict) and last.get("name") == RECONNECTS:
        raise Deviation("the client to continue after the response in the resumed stream", evidence.ending)


@check(
    "resume.client-last-event-id",
    proves=("resume.client-last-event-id", "resume.always-get"),
    needs=("scenario:sse-retry", "scenario:conformance_broken_stream", f"scenario:{CALLED_TWICE}"),
)
async def last_event_id(client: ClientUnderTest) -> None:
    """A stream is resumed with the id of the last event that was received in it, also if two streams end at once."""
    broken = client.run("conformance_broken_stream")
    gets = [each for each in broken.exchanges if each.header("last-event-id")]
    after = _number(broken.notes.get("after"))
    resumed = next((each for each in gets if each.method == "GET" and after and each.number > after), None)
    if resumed is not None:
        _require_last_id(broken.notes, resumed)
    if client.revision.priming_event:
        for pause, get in _resumptions(client):
            _require_last_id(pause, get)
        _require_own_ids(client.run(CALLED_TWICE))
    elif resumed is None:
        raise NotApplicable("the client does not resume a stream whose connection breaks")


def _require_own_ids(evidence: Evidence) -> None:
    """Require as many ids in GET requests as there are streams of calls that ended, if there are as many requests."""
    ends = [value for name, value in evidence.notes.items() if name.startswith(f"{ENDED} ") and isinstance(value, dict)]
    expected = [str(each["last_id"]) for each in ends]
    used = [each.header("last-event-id") for each in evidence.exchanges if each.method == "GET"]
    own = [each for each in used if each in expected]
    if len(own) >= len(expected) and set(own) != set(expected):
        raise Deviation(
            f"GET with Last-Event-ID {' and '.join(sorted(expected))}", f"{len(own)} times GET with {own[0]}"
        )


def _require_last_id(pause: Mapping[str, JsonValue], get: HttpExchange) -> None:
    """Require the id of the last event before a pause in the GET request after it."""
    if get.header("last-event-id") != pause["last_id"]:
        raise Deviation(f"GET with Last-Event-ID {pause['last_id']} first", str(get.header("last-event-id")))


@check(
    "resume.client-standalone-id",
    proves=("resume.client-last-event-id",),
    revisions=("2025-11-25",),
    needs=("scenario:sse-retry",),
)
async def standalone_id(client: ClientUnderTest) -> None:
    """A standalone stream is not resumed with the id of an event of another stream, which has ended too."""
    evidence = client.run("sse-retry")
    own_id = _standalone_id(evidence)
    if own_id is None:
        raise NotApplicable("the client has no stream that was opened by GET when the stream of the call ends")
    used = [each.header("last-event-id") for each in _gets_after(evidence, STANDALONE_ID)]
    pauses = [each["last_id"] for each in _objects(evidence.notes.get("pauses"))]
    # A client may also leave the standalone stream alone, or open another one.
    if own_id in used or None in used or len(pauses) < _ATTEMPTS:
        return
    other = pauses[1]
    if used.count(str(other)) > pauses.count(other):
        raise Deviation(
            f"GET with Last-Event-ID {own_id}, that of the standalone stream",
            f"{used.count(str(other))} times GET with {other} after {pauses.count(other)} ends of the stream of the call",
        )


@check(
    "resume.client-emptied-id",
    proves=("resume.client-last-event-id",),
    revisions=("2025-11-25",),
    needs=("scenario:sse-retry",),
)
async def emptied_id(client: ClientUnderTest) -> None:
    """After an event with an empty id the client has no last id, not that of an earlier event."""
    evidence = client.run("sse-retry")
    if EMPTIED_ID not in evidence.notes:
        raise NotApplicable("the client has no stream that was opened by GET when the stream of the call ends")
    for exchange in _gets_after(evidence, EMPTIED_ID):
        if exchange.header("last-event-id") == EMPTIED_ID:
            raise Deviation("GET without Last-Event-ID", f"{exchange} with Last-Event-ID {EMPTIED_ID}")


@check(
    "sse.client-respects-retry",
    proves=("sse.client-respects-retry",),
    needs=("scenario:sse-retry", f"scenario:{STANDALONE_ENDS}"),
)
async def respects_retry(client: ClientUnderTest) -> None:
    """A client waits for the time of the last `retry` before it resumes a stream, each time, or opens a standalone one."""
    standalone = client.run(STANDALONE_ENDS)
    ended = standalone.notes.get("ended")
    if isinstance(ended, dict):
        gets = [each for each in standalone.exchanges if each.method == "GET" and not each.beside]
        _not_early({**ended, "retry": STANDALONE_RETRY}, gets)
    for pause, get in _resumptions(client):
        _not_early(pause, [get])


def _not_early(pause: JsonObject, gets: list[HttpExchange]) -> None:
    """Check that the first GET request after the end of a connection is not too early."""
    after, at, retry = pause["after"], pause["at"], pause["retry"]
    get = next((each for each in gets if isinstance(after, int) and each.number > after), None)
    if get is None or not isinstance(at, float) or not isinstance(retry, int):
        return
    # A slow machine only makes the wait longer. If it is too short, the client is the cause.
    waited = (get.at - at) * 1000
    if waited < retry * _EARLY:
        raise Deviation(f"GET not before {retry} ms", f"GET after {waited:.0f} ms")


@check("http-sse.client-posts", proves=("http-sse.post-to-endpoint",))
async def posts_to_endpoint(client: ClientUnderTest) -> None:
    """All messages are sent by POST to the URI of the `endpoint` event, which a comment may precede."""
    if client.transport is not Transport.HTTP_SSE:
        raise AssertionError("this check is for HTTP+SSE only")
    for evidence in client.all():
        opened = posted = False
        last_stream = max((each.number for each in evidence.exchanges if each.method == "GET"), default=0)
        for exchange in evidence.exchanges:
            opened = opened or exchange.method == "GET"
            if opened and exchange.method == "POST":
                posted = True
                # Another connection may begin like the first one: without a stream, to learn which transport there is.
                is_probe = exchange.message.get("method") == "initialize" and exchange.number < last_stream
                if exchange.known is None and not is_probe:
                    raise Deviation("POST to the URI of the endpoint event", str(exchange))
        if opened and not posted and evidence.scenario.name in ENDPOINT_FORMS:
            raise Deviation("POST to the URI of the endpoint event", f"no POST, and {evidence.ending}")


@check(
    "http-sse.client-bears-posts",
    proves=("http-sse.post-to-endpoint",),
    transports=frozenset({Transport.HTTP_SSE}),
    revisions=("2024-11-05",),
    needs=("scenario:no-capabilities", "scenario:tools_call"),
)
async def bears_late_acceptance(client: ClientUnderTest) -> None:
    """A response to a message is received also if it comes before that to its POST, whose status is another than 202."""
    client.control()
    evidence = client.run("no-capabilities")
    if not evidence.sent("initialize"):
        raise NotTestable(f"the client did not send initialize: {evidence.ending}")
    if not evidence.sent("notifications/initialized"):
        raise Deviation("notifications/initialized, as in tools_call", evidence.ending)
