"""Faults of streams: their events, their resumption, and HTTP+SSE."""

from __future__ import annotations

import json
import re
import secrets
import threading
from typing import TYPE_CHECKING, Final

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, MODERN
from mutants.server.streams import Stream
from mutants.server_faults.http import breaking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest
    from mutants.server.streams import HttpSession, ListenStream

_HTTP: Final = ("http",)
_SSE: Final = ("http-sse",)
_STREAMS: Final = LEGACY[1:]
_OLD: Final = LEGACY[:1]
_PORTION: Final = 64 * 1024
_FAR: Final = 1_000_000
"""More than all ids that the suite gives to its requests."""
_TO_MEET: Final = 0.5
"""The seconds that a client request waits for one of a concurrent call."""


@fault("progress-to-listeners", "http.listen-apart", revisions=MODERN, transports=_HTTP)
class _ToListeners(Fault):
    def overheard(self, value: JsonValue, *, gone: bool) -> bool:  # noqa: ARG002
        return "elsewhere" in str(value)


@fault("not-silent", "http.cancel-silent", revisions=MODERN, transports=_HTTP)
class _NotSilent(Fault):
    def keeps(self, rule: str) -> bool:
        return rule != "silent"

    def overheard(self, value: JsonValue, *, gone: bool) -> bool:  # noqa: ARG002
        return gone


def _framing(
    name: str,
    checks: str | tuple[str, ...],
    frame: Callable[[str, dict[str, str]], dict[str, str]],
    *,
    revisions: tuple[str, ...] = LEGACY[3:],
    transport: str = "http",
) -> None:
    """Add a server with invalid events."""

    class _Frames(Fault):
        def frame(self, what: str, fields: dict[str, str]) -> dict[str, str]:
            return frame(what, fields)

    given = (checks,) if isinstance(checks, str) else checks
    fault(name, *given, revisions=revisions, transports=(transport,))(_Frames)


def _without(fields: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in fields.items() if key != name}


_framing("no-priming", "sse.priming", lambda w, f: {} if w == "priming" and "retry" not in f else f)
_framing("no-retry", "resume.by-get", lambda _, f: _without(f, "retry"))
_framing(
    "same-event-ids",
    "resume.unique",
    lambda _, f: (
        {**f, "id": "same"} if '"progressToken":"one"' in f["data"] or '"progressToken":"two"' in f["data"] else f
    ),
)
_framing(
    "data-with-comment",
    "sse.data",
    lambda w, f: {**f, "data": f"{f['data']} // progress"} if w == "event" and "progressToken" in f["data"] else f,
)
_framing(
    "progress-of-others",
    "sse.related",
    lambda _, f: {**f, "data": f["data"].replace('"related-one"', '"related-two"')},
    revisions=MODERN,
)
_framing(
    "endpoint-late",
    "http-sse.endpoint-event",
    lambda w, f: _doubled(f) if w == "sse" else f,
    revisions=_OLD,
    transport="http-sse",
)
_framing(
    "endpoint-in-quotes",
    "http-sse.endpoint-event",
    lambda w, f: {**f, "data": json.dumps(f["data"])} if w == "sse" else f,
    revisions=_OLD,
    transport="http-sse",
)
_framing(
    "unnamed-events", "http-sse.message-events", lambda w, f: {**f, "event": "answer"} if w == "event" else f,
    revisions=_OLD, transport="http-sse",
)  # fmt: skip
_framing(
    "notification-events",
    "http-sse.message-events",
    lambda w, f: {**f, "event": "notification"} if w == "event" and _is_notification(f["data"]) else f,
    revisions=_OLD,
    transport="http-sse",
)


def _is_notification(data: str) -> bool:
    message = json.loads(data)
    return "method" in message and "id" not in message


def _in_lines(data: str) -> str:
    """Return JSON as lines of data, split at all line separators of Unicode, which JSON strings may contain."""
    return "\ndata: ".join(json.dumps(json.loads(data), ensure_ascii=False, separators=(",", ":")).splitlines())


_framing(
    "data-split-at-separators",
    "sse.data",
    lambda w, f: {**f, "data": _in_lines(f["data"])} if w == "event" and f["data"] else f,
    revisions=_STREAMS,
)
_framing(
    "sse-data-split-at-separators",
    "http-sse.message-events",
    lambda w, f: {**f, "data": _in_lines(f["data"])} if w == "event" and f["data"] else f,
    revisions=_OLD,
    transport="http-sse",
)


def _doubled(fields: dict[str, str]) -> dict[str, str]:
    return {"event": "hello", "data": "\n\nevent: endpoint\ndata: " + fields["data"]}


@fault("large-events-split", "sse.data", "sse.large-event", revisions=_STREAMS, transports=_HTTP)
class _LargeSplit(Fault):
    """A server that writes its messages in events of limited size."""

    def written(self, frame: bytes) -> bytes:
        return frame if len(frame) <= _PORTION else frame[:_PORTION] + b"\n\ndata: " + frame[_PORTION:]


@fault("priming-id-used-again", "resume.unique", "resume.own-stream", revisions=LEGACY[3:], transports=_HTTP)
class _PrimingIdAgain(Fault):
    """A server that counts the first event of a stream only when it has a message."""

    def __init__(self) -> None:
        self._primed: set[str] = set()

    def frame(self, what: str, fields: dict[str, str]) -> dict[str, str]:
        stream, _, number = fields.get("id", "").partition("-")
        if what == "priming":
            self._primed.add(stream)
        return {**fields, "id": f"{stream}-0"} if number == "1" and stream in self._primed else fields


@fault("primes-old-streams", "sse.no-empty-data", revisions=LEGACY[1:3], transports=_HTTP)
class _PrimesOldStreams(Fault):
    def primes(self, revision: str | None) -> bool:  # noqa: ARG002
        return True


@fault("own-id-as-response", "sse.ids-of-each-side", revisions=_STREAMS, transports=_HTTP)
class _OwnIdAsResponse(Fault):
    """The stream of a call loses its response if a client request has the call's id."""

    def __init__(self) -> None:
        self._call = threading.local()

    def client_request_id(self, id: str) -> JsonValue:
        return _FAR + int(id[1:])

    def client_request_params(self, inbound: InboundRequest, method: str, params: JsonObject) -> JsonObject:  # noqa: ARG002
        self._call.id = inbound.request["id"]
        return params

    def on_stream(self, stream: Stream, value: JsonValue) -> Sequence[JsonValue]:  # noqa: ARG002
        if not isinstance(value, dict) or value.get("id") is None or value["id"] != getattr(self._call, "id", None):
            return [value]
        is_response = "method" not in value
        is_answered, self._call.is_answered = getattr(self._call, "is_answered", False), not is_response
        return [] if is_response and is_answered else [value]


@fault("no-response", "sse.response", revisions=LEGACY[3:], transports=_HTTP)
class _NoResponse(Fault):
    """A server that ends one stream without the response."""

    def __init__(self) -> None:
        self._one = False

    def before(self, message: JsonValue) -> JsonValue:
        self._one = '"progressToken": "response"' in json.dumps(message)
        return message

    def keeps(self, rule: str) -> bool:
        return rule != "response-in-stream" or not self._one


@fault("last-event-unfinished", "sse.response", revisions=LEGACY[3:], transports=_HTTP)
class _LastUnfinished(_NoResponse):
    """A server that omits the blank line of one event, at the end of its stream."""

    def keeps(self, rule: str) -> bool:  # noqa: ARG002
        return True

    def written(self, frame: bytes) -> bytes:
        return frame.removesuffix(b"\n") if self._one and b'"result"' in frame else frame


@fault("repeats-response", "sse.own-responses", revisions=(*_STREAMS, *MODERN), transports=_HTTP)
class _RepeatsResponse(Fault):
    """A server that sends the response to one of two concurrent requests on the stream of the other one, too."""

    def __init__(self) -> None:
        self._before: JsonValue = None

    def on_stream(self, stream: Stream, value: JsonValue) -> Sequence[JsonValue]:
        concurrent = any(b'"related-' in frame for _, frame in stream.frames)
        if not concurrent or (isinstance(value, dict) and "method" in value):
            return [value]
        before, self._before = self._before, value
        return [value] if before is None else [before, value]


@fault("requests-on-get", "sse.get-no-requests", revisions=_STREAMS, transports=_HTTP)
class _RequestsOnGet(Fault):
    """A server that sends the client requests of its calls on a stream by GET, if there is one."""

    def on_stream(self, stream: Stream, value: JsonValue) -> Sequence[JsonValue]:
        is_request = isinstance(value, dict) and "method" in value and "id" in value
        if not is_request or not stream.session.listen_streams:
            return [value]
        stream.session.listen_streams[0].put(value)
        return []


@fault("requests-elsewhere", "sse.related-requests", revisions=_STREAMS, transports=_HTTP)
class _RequestElsewhere(Fault):
    """A server that sends the client request of one of two concurrent calls on the stream of the other one."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._held: tuple[Stream, JsonValue, threading.Event] | None = None

    def on_stream(self, stream: Stream, value: JsonValue) -> Sequence[JsonValue]:
        if not (isinstance(value, dict) and "method" in value and "id" in value):
            return [value]
        with self._lock:
            held = self._held
            if held is not None and held[0].session is stream.session:
                self._held = None
                held[2].set()
                return [held[1], value]
            sent = threading.Event()
            self._held = (stream, value, sent)
        # Until another call sends a client request, if one does.
        if sent.wait(_TO_MEET):
            return []
        with self._lock:
            if sent.is_set():
                return []
            self._held = None
        return [value]


breaking("closes-early", "sse.unbroken", "response-at-once", revisions=LEGACY[2:3])


@fault("broadcast", "sse.no-broadcast", revisions=_STREAMS, transports=_HTTP)
class _Broadcast(Fault):
    def streams(self, listen_streams: Sequence[ListenStream], message: JsonValue) -> Sequence[ListenStream]:  # noqa: ARG002
        return listen_streams


breaking("changes-on-stream-of-call-too", "sse.no-broadcast", "change-once", revisions=_STREAMS)


def _on_all(name: str, method: str) -> None:
    """Add a server that sends its notifications of one method on all streams of a session."""

    class _OnAll(Fault):
        def streams(self, listen_streams: Sequence[ListenStream], message: JsonValue) -> Sequence[ListenStream]:
            is_one = isinstance(message, dict) and message.get("method") == method
            return listen_streams if is_one else listen_streams[:1]

    fault(name, "sse.no-broadcast", revisions=_STREAMS, transports=_HTTP)(_OnAll)


_on_all("updates-on-all-streams", "notifications/resources/updated")
_on_all("prompt-changes-on-all-streams", "notifications/prompts/list_changed")
_on_all("resource-changes-on-all-streams", "notifications/resources/list_changed")


@fault("closed-stream-notified", "sse.get-closed", revisions=_STREAMS, transports=_HTTP)
class _ClosedStreamNotified(Fault):
    """A server that sends the notifications of a session on its first stream by GET, also when the client has closed it."""

    def __init__(self) -> None:
        self._first: Final[dict[str, ListenStream]] = {}

    def streams(self, listen_streams: Sequence[ListenStream], message: JsonValue) -> Sequence[ListenStream]:  # noqa: ARG002
        return [self._first.setdefault(each.session.id, each) for each in listen_streams[:1]]


@fault("replays-renumbered", "resume.own-stream", revisions=_STREAMS, transports=_HTTP)
class _ReplaysRenumbered(Fault):
    """A server that counts the events of a resumed stream from its start."""

    def resumed(self, every: Sequence[HttpSession], session: HttpSession, last: str) -> list[bytes] | None:
        found = super().resumed(every, session, last)
        if found is None:
            return None
        return [re.sub(rb"(?m)^id: (\d+)-\d+", rb"id: \g<1>-%d" % number, frame) for number, frame in enumerate(found)]


@fault("replays-the-last-again", "resume.after-the-event", revisions=_STREAMS, transports=_HTTP)
class _ReplaysTheLast(Fault):
    """A server that begins with the event that the client names as its last one."""

    def resumed(self, every: Sequence[HttpSession], session: HttpSession, last: str) -> list[bytes] | None:
        found = super().resumed(every, session, last)
        own = [frame for stream in session.streams for id, frame in stream.frames if id == last]
        return None if found is None else [*own, *found]


@fault("replays-from-the-start", "resume.after-the-event", revisions=_STREAMS, transports=_HTTP)
class _ReplaysFromStart(Fault):
    """A server that begins with the first event of the stream."""

    def resumed(self, every: Sequence[HttpSession], session: HttpSession, last: str) -> list[bytes] | None:
        found = super().resumed(every, session, last)
        streams = (stream for stream in session.streams if last in dict(stream.frames))
        return None if found is None else [frame for stream in streams for _, frame in stream.frames]


@fault("replays-all", "resume.own-stream", revisions=_STREAMS, transports=_HTTP)
class _ReplaysAll(Fault):
    def resumed(self, every: Sequence[HttpSession], session: HttpSession, last: str) -> list[bytes] | None:
        found = super().resumed(every, session, last)
        if found is None:
            return None
        return [*found, *(frame for stream in session.streams for _, frame in stream.frames if b'"other"' in frame)]


@fault("replays-all-for-an-unknown-event", "resume.own-stream", revisions=_STREAMS, transports=_HTTP)
class _ReplaysAllForUnknown(Fault):
    """A server that looks for the position of an event in all events, and begins at their start if it is not there."""

    def resumed(self, every: Sequence[HttpSession], session: HttpSession, last: str) -> list[bytes] | None:
        found = super().resumed(every, session, last)
        return [frame for stream in session.streams for _, frame in stream.frames] if found is None else found


@fault("resumes-once", "resume.again", revisions=_STREAMS, transports=_HTTP)
class _ResumesOnce(Fault):
    """A server that sends nothing new on a stream that is resumed for the second time."""

    def __init__(self) -> None:
        self._resumed: Final[list[Stream]] = []

    def resumed(self, every: Sequence[HttpSession], session: HttpSession, last: str) -> list[bytes] | None:
        for stream in session.streams:
            if stream in self._resumed and not stream.done.is_set() and last in dict(stream.frames):
                return []
            if last in dict(stream.frames):
                self._resumed.append(stream)
        return super().resumed(every, session, last)


@fault("only-calls-resumed", "resume.again", revisions=_STREAMS, transports=_HTTP)
class _OnlyCallsResumed(Fault):
    """A server that keeps the responses to calls only, although the events of all streams have ids."""

    def __init__(self) -> None:
        self._others: Final[list[str]] = []

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        if inbound.request["method"] != "tools/call":
            self._others.append(json.dumps(response, separators=(",", ":")))
        return response

    def resumed(self, every: Sequence[HttpSession], session: HttpSession, last: str) -> list[bytes] | None:
        found = super().resumed(every, session, last)
        if found is None:
            return None
        return [frame for frame in found if not any(each.encode() in frame for each in self._others)]


@fault("notifications-of-zero-on-get", "sse.related", revisions=_STREAMS, transports=_HTTP)
class _ZeroOnGet(Fault):
    """A server that takes the id 0 for none, and the notifications of that request for those of no request."""

    def strays(self, message: JsonValue, value: JsonValue) -> bool:  # noqa: ARG002
        return isinstance(message, dict) and message.get("id") in (0, "")


@fault("notifications-of-strings-on-get", "sse.related", revisions=_STREAMS, transports=_HTTP)
class _StringsOnGet(Fault):
    """A server that takes only a number for the id of the request to which a notification belongs."""

    def strays(self, message: JsonValue, value: JsonValue) -> bool:  # noqa: ARG002
        return isinstance(message, dict) and isinstance(message.get("id"), str)


breaking("ids-of-get-restart", "resume.unique", "own-ids-of-get", revisions=_STREAMS)


@fault("replays-all-on-get", "resume.own-stream", revisions=_STREAMS, transports=_HTTP)
class _ReplaysAllOnGet(Fault):
    """A server that sends the events of all streams when a stream by GET is resumed."""

    def resumed(self, every: Sequence[HttpSession], session: HttpSession, last: str) -> list[bytes] | None:
        found = super().resumed(every, session, last)
        if found is None or not any(last in dict(stream.frames) for stream in session.streams if stream.standalone):
            return found
        return [*found, *(frame for stream in session.streams for _, frame in stream.frames)]


@fault("resumes-foreign-get", "resume.foreign-session", revisions=_STREAMS, transports=_HTTP)
class _ResumesForeignGet(Fault):
    """A server that keeps the events of the streams by GET of all sessions together."""

    def resumed(self, every: Sequence[HttpSession], session: HttpSession, last: str) -> list[bytes] | None:
        own = super().resumed(every, session, last)
        streams = [stream for each in every for stream in each.streams if stream.standalone]
        return own if own is not None else next((found for one in streams if (found := one.after(last))), None)


@fault("resumes-foreign", "resume.foreign-session", revisions=_STREAMS, transports=_HTTP)
class _ResumesForeign(Fault):
    def resumed(self, every: Sequence[HttpSession], session: HttpSession, last: str) -> list[bytes] | None:
        own = super().resumed(every, session, last)
        others = (super(_ResumesForeign, self).resumed(every, each, last) for each in every if each is not session)
        return own if own is not None else next((found for found in others if found is not None), None)


@fault("nothing-on-get", "resume.by-get", revisions=LEGACY[3:], transports=_HTTP)
class _NothingOnGet(Fault):
    def resumed(self, every: Sequence[HttpSession], session: HttpSession, last: str) -> list[bytes] | None:
        found = super().resumed(every, session, last)
        return [] if found is not None and len(found) == 1 else found


@fault("refuses-resumption", "resume.by-get", revisions=LEGACY[3:], transports=_HTTP)
class _RefusesResumption(Fault):
    """A server that closes a stream early, as if it could be resumed."""

    def resumed(self, every: Sequence[HttpSession], session: HttpSession, last: str) -> list[bytes] | None:
        found = super().resumed(every, session, last)
        return None if found is not None and len(found) == 1 else found


@fault("notifies-new-streams", revisions=_STREAMS, transports=_HTTP)
class _NotifiesNewStreams(Fault):
    """A correct server that opens a new stream for an unknown event id, on which another client's change arrives."""

    def resumed(self, every: Sequence[HttpSession], session: HttpSession, last: str) -> list[bytes] | None:
        found = super().resumed(every, session, last)
        changed: JsonObject = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        return [Stream.text({"data": json.dumps(changed)})] if found is None else found


@fault("works-on", "http.cancel-by-disconnect", "http.cancel-only-own", revisions=MODERN, transports=_HTTP)
class _WorksOn(Fault):
    def hangs_up(self, *, gone: bool, modern: bool) -> bool:  # noqa: ARG002
        return False


@fault("cancels-by-id", "http.cancel-only-own", revisions=MODERN, transports=_HTTP)
class _CancelsById(Fault):
    def __init__(self) -> None:
        self._events: Final[dict[str, list[threading.Event]]] = {}

    def disconnection(self, id: str, gone: Callable[[], bool]) -> Callable[[], bool]:
        own = threading.Event()
        events = self._events.setdefault(id, [])
        events.append(own)

        def is_gone() -> bool:
            if not own.is_set() and gone():
                for each in events:
                    each.set()
            return own.is_set()

        return is_gone


@fault("cancels-latest-with-id", "http.cancel-only-own", revisions=MODERN, transports=_HTTP)
class _CancelsLatestWithId(Fault):
    def __init__(self) -> None:
        self._latest: Final[dict[str, threading.Event]] = {}

    def disconnection(self, id: str, gone: Callable[[], bool]) -> Callable[[], bool]:
        own = self._latest[id] = threading.Event()
        reported = threading.Event()

        def is_gone() -> bool:
            if not own.is_set() and not reported.is_set() and gone():
                reported.set()
                self._latest[id].set()
            return own.is_set()

        return is_gone


@fault("progress-by-token", "progress.on-own-stream", revisions=MODERN, transports=_HTTP)
class _ProgressByToken(Fault):
    """A server that sends the progress with a token on the stream of the latest request that has it."""

    def __init__(self) -> None:
        self._started: Final[list[Stream]] = []
        self._latest: Final[dict[str, Stream]] = {}
        self._moved: Final[dict[str, list[JsonValue]]] = {}

    def on_stream(self, stream: Stream, value: JsonValue) -> Sequence[JsonValue]:
        params = value.get("params") if isinstance(value, dict) else None
        if not isinstance(params, dict) or "progressToken" not in params or stream.session.revision is not None:
            return [value]
        token = json.dumps(params["progressToken"])
        if stream not in self._started:
            self._started.append(stream)
            self._latest[token], self._moved[token] = stream, []
        if self._latest[token] is not stream:
            self._moved[token].append(value)
            return []
        moved, self._moved[token] = self._moved[token], []
        return [*moved, value]


@fault("response-on-latest-stream", "sse.own-responses", revisions=_STREAMS, transports=_HTTP)
class _ResponseOnLatest(Fault):
    """A server that sends a response on the stream of the session that was opened last."""

    def __init__(self) -> None:
        self._open: Final[list[Stream]] = []
        self._moved: Final[list[tuple[Stream, JsonValue]]] = []

    def on_stream(self, stream: Stream, value: JsonValue) -> Sequence[JsonValue]:
        # Other checks stop at a response that is missing.
        if stream not in self._open and "related-" in json.dumps(value):
            self._open.append(stream)
        if stream not in self._open:
            return [value]
        own: list[JsonValue] = [each for of, each in self._moved if of is stream]
        self._moved[:] = [(of, each) for of, each in self._moved if of is not stream]
        if not isinstance(value, dict) or "method" in value:
            return [*own, value]
        self._open.remove(stream)
        latest = next((each for each in reversed(self._open) if each.session is stream.session), None)
        if latest is None:
            return [*own, value]
        self._moved.append((latest, value))
        return own


@fault("cancels-on-loss", "sse.disconnect-no-cancel", revisions=_STREAMS, transports=_HTTP)
class _CancelsOnLoss(Fault):
    def hangs_up(self, *, gone: bool, modern: bool) -> bool:  # noqa: ARG002
        return gone


# --- HTTP+SSE ---------------------------------------------------------------------------------------------------------


def _to_all(name: str, *checks: str, has: Callable[[JsonObject], bool]) -> None:
    """Add a server that sends some of its messages on the streams of all clients."""

    class _ToAll(Fault):
        def sse_targets(
            self, every: Sequence[HttpSession], session: HttpSession, value: JsonValue
        ) -> Sequence[HttpSession]:
            return every if isinstance(value, dict) and has(value) else [session]

        def client_request_id(self, id: str) -> JsonValue:
            # Unlike the request of any other client.
            return f"{id}-{secrets.token_hex(4)}"

    fault(name, *checks, revisions=_OLD, transports=_SSE)(_ToAll)


_to_all("answers-to-all", "http-sse.answers-apart", "jsonrpc.response-ids", has=lambda value: "result" in value)
_to_all("progress-to-all", "http-sse.progress-apart", has=lambda value: value.get("method") == "notifications/progress")
_to_all("logs-to-all", "http-sse.logs-apart", has=lambda value: value.get("method") == "notifications/message")
_to_all(
    "samplings-to-all", "http-sse.requests-apart", has=lambda value: value.get("method") == "sampling/createMessage"
)

_to_all(
    "updates-to-all",
    "resources.updated-only-if-subscribed",
    has=lambda value: value.get("method") == "notifications/resources/updated",
)


def _to_first(name: str, check: str, method: str) -> None:
    """Add a server that sends its messages of one method on the stream that was opened first."""

    class _ToFirst(Fault):
        def sse_targets(
            self, every: Sequence[HttpSession], session: HttpSession, value: JsonValue
        ) -> Sequence[HttpSession]:
            return every[:1] if isinstance(value, dict) and value.get("method") == method else [session]

    fault(name, check, revisions=_OLD, transports=_SSE)(_ToFirst)


_to_first("progress-to-first", "http-sse.progress-apart", "notifications/progress")
_to_first("logs-to-first", "http-sse.logs-apart", "notifications/message")


@fault("notifications-to-last", "http-sse.progress-apart", "http-sse.logs-apart", revisions=_OLD, transports=_SSE)
class _NotificationsToLast(Fault):
    """A server that sends the notifications of a call on the stream that was opened last."""

    def sse_targets(
        self, every: Sequence[HttpSession], session: HttpSession, value: JsonValue
    ) -> Sequence[HttpSession]:
        methods = ("notifications/progress", "notifications/message")
        return every[-1:] if isinstance(value, dict) and value.get("method") in methods else [session]


@fault("lost-sessions-served", "http-sse.disconnect", revisions=_OLD, transports=_SSE)
class _LostSessionsServed(Fault):
    def addressed(self, every: Sequence[HttpSession], session: HttpSession | None) -> HttpSession | None:
        return session or next(reversed(every), None)


@fault("silent-after-disconnect", "http-sse.disconnect", revisions=_OLD, transports=_SSE)
class _SilentAfterDisconnect(Fault):
    """A server that sends nothing to the other clients after one of them has disconnected."""

    def __init__(self) -> None:
        self._clients: Final[list[HttpSession]] = []

    def sse_targets(
        self, every: Sequence[HttpSession], session: HttpSession, value: JsonValue
    ) -> Sequence[HttpSession]:
        # Clients of other checks disconnect too, which only a call of this one must show.
        if '"disconnect test_tool' not in json.dumps(value):
            return [session]
        self._clients[:] = self._clients or every
        return [session] if all(each in every for each in self._clients) else []


@fault("responses-by-id", "http-sse.answers-apart", revisions=_OLD, transports=_SSE)
class _ResponsesById(Fault):
    """A server that sends a response to the client that used its id last."""

    def __init__(self) -> None:
        self._by_id: dict[str, HttpSession] = {}

    def posted(self, session: HttpSession, message: JsonValue) -> None:
        if isinstance(message, dict) and "method" in message and "id" in message:
            self._by_id[json.dumps(message["id"])] = session

    def sse_targets(
        self,
        every: Sequence[HttpSession],  # noqa: ARG002
        session: HttpSession,
        value: JsonValue,
    ) -> Sequence[HttpSession]:
        if not isinstance(value, dict) or "method" in value:
            return [session]
        return [self._by_id.get(json.dumps(value.get("id")), session)]
