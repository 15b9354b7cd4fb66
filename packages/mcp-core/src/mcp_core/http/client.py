"""One exchange of an HTTP client, in all revisions: the client posts a message or fetches a stream.

    exchange = ClientExchange(message, revision=revision, limits=limits, session_id=session)
    # send exchange.method, exchange.headers(), exchange.body()
    expect = exchange.receive_head(head)
    # MESSAGE: exchange.receive_body(all)   STREAM: exchange.receive_data(portion), for each   TEXT: raise
    # exchange.failure(start)
    outcome = exchange.end(broken=False)

The caller can abandon an exchange at any point. `end` reports the outcome of the requests in the exchange: all have
responses (`None`), another request can fetch the responses (`Resume`), or the responses are lost (`Lost`). The exchange
never repeats a request. A caller that repeats one has to know that the server may have processed the first request.

*What counts as the response.* A JSON-RPC error in the body of a 400 or 404 counts (2026-07-28 requires those statuses).
It counts also if its id is null or invented, because servers that reject a request before they parse it write such ids.
A response with another id is delivered, but does not count.

*Headers.* Names are in lower case, because HTTP ignores case. Headers of the connection are not included: `Host`,
`Content-Length`, and `Accept-Encoding: identity`. Without the latter servers may compress, also streams, and then
buffer events.

*Legacy* means the era, not the traits `sessions` and `resumable`: a server that negotiates 2024-11-05 here and still
opens a session needs to receive its session id.

Spec: basic/transports#streamable-http (legacy), basic/transports/streamable-http (2026-07-28).
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.codec import Batch, decode, encode
from mcp_core.errors import (
    ConnectionEnded,
    HttpFailure,
    LimitExceeded,
    LocalProtocolError,
    MalformedMessage,
    McpError,
    RemoteProtocolError,
    SessionExpired,
)
from mcp_core.field_methods import FieldRepr, FieldValue
from mcp_core.framing.sse import Event, SseParser
from mcp_core.http.failures import FAILURE_BYTES, clipped, encoding_of, failure_of, media_type_of
from mcp_core.http.media_types import EVENT_STREAM, JSON
from mcp_core.http.routing_headers import LAST_EVENT_ID, MCP_PROTOCOL_VERSION, MCP_SESSION_ID, NAME_PARAMS, mirrored
from mcp_core.jsonrpc.messages import ErrorResponse, Message, Notification, Request, ResultResponse
from mcp_core.methods import INITIALIZE
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.http.messages import HttpHead
    from mcp_core.jsonrpc.messages import RequestId
    from mcp_core.limits import Limits
    from mcp_core.revisions import Revision

__all__ = [
    "FAILURE_BYTES",
    "ON_POST",
    "ClientExchange",
    "Deviations",
    "EventReader",
    "Expect",
    "Lost",
    "PendingResponses",
    "Received",
    "Resume",
    "check_allowed",
    "expected_of_get",
    "expected_of_post",
    "get_headers",
    "is_good",
    "is_session_id",
    "members",
    "post_headers",
    "read_message",
    "resumable_after",
    "says_json",
    "session_headers",
]

Received: TypeAlias = Message | Batch | MalformedMessage
"""Messages, or the error of an invalid message."""

_MESSAGE: Final = "message"

_NOTES_KEPT: Final = 20
"""A stream may last for days and have a deviation in each event."""


class Deviations(list[str]):
    """Tolerated deviations, one sentence each. The first ones are kept until the list is cleared."""

    def note(self, sentence: str) -> None:
        """Append a deviation, unless the list is full."""
        if len(self) < _NOTES_KEPT:
            self.append(sentence)


@attrs.define(init=False, eq=False, repr=False)
class EventReader(FieldRepr):
    """A reader of one stream.

    Args:
        limits: The limits for the events and messages.
        notes: Receives a sentence for each tolerated deviation.
        last_event_id: The event after which the stream continues; empty for a new stream.
    """

    _limits: Limits
    _notes: Deviations
    _parser: SseParser
    _ended: bool

    def __init__(self, limits: Limits, notes: Deviations, *, last_event_id: str = "") -> None:
        self._limits = limits
        self._notes = notes
        self._parser = SseParser(limits)
        self._parser.last_event_id = last_event_id
        self._ended = False

    @property
    def last_event_id(self) -> str:
        """The id of the last event that had one, which may be empty. At first, the one after which the stream continues."""
        return self._parser.last_event_id

    @property
    def retry(self) -> int | None:
        """Milliseconds to wait before the next connection: the server's latest value; `None` if it sent none."""
        return self._parser.retry

    def receive_data(self, data: bytes) -> Iterator[Received | Event]:
        """Read the next bytes.

        Args:
            data: Any portion; empty if the stream ended properly, which ends the reading.

        Yields:
            Messages. A `MalformedMessage` for an event that is too large or has no valid message. An `Event` for an
            event of another type that contains no message: another protocol, or the owner of this reader, defines it.
        """
        if not data:
            yield from self._last()
            return
        for event in self._parser.receive_data(data):
            what = self._read(event)
            if what is not None:
                yield what

    def _last(self) -> Iterator[Message | Batch]:
        """Read the last event if the server left out the blank line at its end, and it has a whole message."""
        if self._ended:
            return
        self._ended = True
        before = self._parser.last_event_id
        events = self._parser.receive_data(b"\n\n")
        self._parser.receive_eof()
        for event in events:
            what = self._read(event)
            if isinstance(what, Message | Batch):
                self._notes.note("the blank line after the last event is missing")
                yield what
                return
        # A truncated event was not received: to resume after it would lose it.
        self._parser.last_event_id = before

    def _read(self, event: Event | LimitExceeded) -> Received | Event | None:
        if isinstance(event, LimitExceeded):
            bad = MalformedMessage(event.message)
            bad.__cause__ = event
            return bad
        if event.event == _MESSAGE:
            # An event without data has only an id or a retry time.
            return read_message(event.data, self._limits, self._notes) if event.data else None
        what = read_message(event.data, self._limits, Deviations())
        if isinstance(what, MalformedMessage):
            return event
        self._notes.note(f"an event of type {clipped(event.event)!r} contains a message")
        return what


def read_message(data: bytes, limits: Limits, notes: Deviations) -> Received:
    """Read the message in a body or an event. Never raises.

    Args:
        data: The bytes of the body or event.
        limits: The limits for the message.
        notes: Receives a sentence for each tolerated deviation.

    Returns:
        The message, or the error of an invalid message.
    """
    survived: list[str] = []
    try:
        message = decode(data, limits, notes=survived)
    except MalformedMessage as malformed:
        notes.note(f"invalid message: {malformed.message}")
        return malformed
    for sentence in survived:
        notes.note(sentence)
    return message


@attrs.define(eq=False, repr=False)
class PendingResponses(FieldRepr):
    """The pending requests of one exchange."""

    ids: set[RequestId]
    """The ids of the requests without a response."""
    has_requests: bool
    """Whether the exchange had requests."""

    @classmethod
    def of(cls, message: Message | Batch | None) -> PendingResponses:
        """Return the pending responses for a posted message."""
        if isinstance(message, Request):
            return cls({message.id}, has_requests=True)
        ids = {each.id for each in members(message) if isinstance(each, Request)}
        return cls(ids, has_requests=bool(ids))

    def copy(self) -> PendingResponses:
        """Return a copy for another exchange, independent of this one."""
        return PendingResponses(set(self.ids), has_requests=self.has_requests)

    @property
    def only(self) -> RequestId | None:
        """The id of the only pending request; `None` if there are several, or no pending requests."""
        return next(iter(self.ids)) if len(self.ids) == 1 else None

    def take(self, what: Received, notes: Deviations) -> Received:
        """Record the requests that have their response in `what`.

        Args:
            what: The received message.
            notes: Receives a sentence for each tolerated deviation.

        Returns:
            The message. An error without an id gets the id of the only pending request.
        """
        if isinstance(what, ErrorResponse) and what.id is None and self.only is not None:
            notes.note("the error has no id and was used as the response")
            what = attrs.evolve(what, id=self.only)
        if isinstance(what, MalformedMessage) and what.answers is None and isinstance(what.__cause__, LimitExceeded):
            # The message is too large to be parsed, so its id is unknown. In an exchange the response is the largest.
            what.answers = self.only
        for each in members(what) if isinstance(what, Batch) else (what,):
            if isinstance(each, MalformedMessage):
                self._settle(each.answers)
            elif isinstance(each, ResultResponse | ErrorResponse):
                if each.id in self.ids:
                    self.ids.remove(each.id)
                else:
                    self._settle(each.id)
        return what

    def _settle(self, id: RequestId | None) -> None:
        if id not in self.ids:
            # Some servers change strings to numbers or numbers to strings in ids. The engine accepts such ids too.
            id = next((awaited for awaited in self.ids if str(awaited) == str(id)), None)
        if id is not None:
            self.ids.discard(id)


def members(what: Received | None) -> Iterator[Message | MalformedMessage]:
    """Yield the messages of a received or posted item: one message, the members of a batch, or no message."""
    if isinstance(what, Batch):
        yield from what.members
    elif what is not None:
        yield what


class Expect(enum.Enum):
    """The way to read the body of a response."""

    MESSAGE = "one message"
    """Read the whole body, up to `Limits.message_bytes`, and pass it to `receive_body`."""
    STREAM = "events"
    """Pass each portion to `receive_data`."""
    NOTHING = "nothing"
    """The server accepted the message. Drop the body, and do not wait for it."""
    TEXT = "no answer"
    """Read up to `FAILURE_BYTES`, and raise the result of `failure`."""


_USUAL: Final[Mapping[str, Expect]] = {JSON: Expect.MESSAGE, EVENT_STREAM: Expect.STREAM}
"""The body of the response to a request by `Content-Type`, as most servers send it."""

_JSON: Final = frozenset({JSON, "text/json"})

_PERHAPS_JSON: Final = frozenset({"", "text/plain"})
"""Media types that some servers use for JSON."""

_NOT_FROM_POST: Final = frozenset({401, 403, 405})
"""Statuses about the client or the method. Their body does not come from the code that responds to a POST."""

_ACCEPTED: Final = frozenset({202, 204})
"""Statuses for messages that expect no response. Spec: basic/transports#sending-messages-to-the-server"""


def expected_of_post(head: HttpHead, *, awaiting: bool) -> Expect:
    """Return how to read the response to a POST.

    Args:
        head: The head of the response.
        awaiting: Whether a request was posted. Only requests have a response.
    """
    status = head.status
    if status == 200 and awaiting and head.headers.get("content-encoding") is None:
        # The common responses, as the rules below decide.
        usual = _USUAL.get(head.headers.get("content-type") or "")
        if usual is not None:
            return usual
    kind = media_type_of(head)
    if status in _NOT_FROM_POST or encoding_of(head) is not None:
        return Expect.TEXT
    said = _is_json(kind)
    perhaps = said or kind in _PERHAPS_JSON
    if not is_good(head):
        # Modern servers, and many legacy servers, send errors with such a status.
        return Expect.MESSAGE if awaiting and perhaps else Expect.TEXT
    if not awaiting:
        return Expect.NOTHING
    if kind == EVENT_STREAM:
        return Expect.STREAM
    if status in _ACCEPTED and not said:
        return Expect.NOTHING
    return Expect.MESSAGE if perhaps else Expect.TEXT


def expected_of_get(head: HttpHead) -> Expect:
    """Return how to read the response to a GET: as a stream, or as a failure."""
    streams = is_good(head) and media_type_of(head) == EVENT_STREAM and encoding_of(head) is None
    return Expect.STREAM if streams else Expect.TEXT


def is_good(head: HttpHead) -> bool:
    """Return whether the status is 2xx."""
    return 200 <= head.status < 300


def says_json(head: HttpHead) -> bool:
    """Return whether the media type of the body is JSON."""
    return _is_json(media_type_of(head))


def _is_json(kind: str) -> bool:
    return kind in _JSON or kind.endswith("+json")


_ON_GET: Final = (("accept", EVENT_STREAM),)
ON_POST: Final = (("accept", f"{JSON}, {EVENT_STREAM}"), ("content-type", JSON))
"""The headers of every POST of a message."""

_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
"""The allowed characters of a session id. Spec: basic/transports#session-management (legacy)"""

_SENDABLE: Final = re.compile(r"[\x21-\x7e\x80-\xff](?:[\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?")
"""Text in ISO 8859-1 that a header transmits unchanged."""


def check_allowed(message: Message | Batch | None, revision: Revision | None) -> None:
    """Check that the revision allows to post a message, or, for `None`, to fetch a stream.

    Args:
        message: The message.
        revision: The negotiated revision; `None` before negotiation.

    Raises:
        LocalProtocolError: The revision does not allow it.
    """
    if isinstance(message, Batch):
        forbidden = "a batch must not be posted" if revision is None or not revision.batching else None
    elif isinstance(message, ResultResponse | ErrorResponse):
        answers = revision is None or revision.responses_from_client
        forbidden = None if answers else "a response must not be posted"
    else:
        modern = message is None and revision is not None and revision.era is Era.MODERN
        forbidden = "a stream must not be fetched with GET" if modern else None
    if forbidden is not None:
        where = "before the revision is negotiated" if revision is None else f"in revision {revision}"
        raise LocalProtocolError(f"{forbidden} {where}", anchor="basic/transports")


def post_headers(
    message: Message | Batch,
    revision: Revision | None,
    session_id: str | None,
    header_params: Sequence[ParamHeader],
    names: Mapping[str, str],
) -> list[tuple[str, str]]:
    """Return the headers of a POST.

    Args:
        message: The posted message.
        revision: The negotiated revision; `None` before negotiation.
        session_id: The session id; `None` without a session.
        header_params: The header parameters of the called tool.
        names: The member of the params that `Mcp-Name` repeats, by method.

    Raises:
        LocalProtocolError: A header cannot carry a part of the message.
    """
    if revision is not None and revision.routing_headers and isinstance(message, Request | Notification):
        return [*ON_POST, *mirrored(message, revision, header_params, names=names)]
    return [*ON_POST, *session_headers(revision, session_id)]


def get_headers(
    last_event_id: str, revision: Revision | None, session_id: str | None, limits: Limits
) -> list[tuple[str, str]]:
    """Return the headers of a GET.

    Args:
        last_event_id: The event after which the stream continues; empty for a new stream.
        revision: The negotiated revision.
        session_id: The session id; `None` without a session.
        limits: The limits. `header_bytes` applies to the event id.

    Raises:
        LocalProtocolError: A header cannot carry the event id.
    """
    headers = [*_ON_GET, *session_headers(revision, session_id)]
    if last_event_id:
        value = _as_value(last_event_id)
        if not resumable_after(last_event_id, limits):
            raise LocalProtocolError(f"a header cannot carry the event id {value[:80]!a}")
        headers.append((LAST_EVENT_ID, value))
    return headers


def session_headers(revision: Revision | None, session_id: str | None) -> list[tuple[str, str]]:
    """Return the headers that name the session of a request. The `DELETE` that ends a session needs no other headers.

    Args:
        revision: The negotiated revision; `None` before negotiation.
        session_id: The session id. It is not sent to a modern server, which has no sessions.
    """
    headers: list[tuple[str, str]] = []
    if session_id is not None and (revision is None or revision.era is Era.LEGACY):
        headers.append((MCP_SESSION_ID, session_id))
    if revision is not None and revision.version_header:
        headers.append((MCP_PROTOCOL_VERSION, revision.name))
    return headers


def is_session_id(text: str) -> bool:
    """Return whether the client may send this session id of a server."""
    return _VISIBLE.fullmatch(text) is not None


def resumable_after(event_id: str, limits: Limits) -> bool:
    """Return whether a stream can be resumed after the event `event_id`, which a header has to carry."""
    value = _as_value(event_id)
    return len(value) <= limits.header_bytes and _SENDABLE.fullmatch(value) is not None


def _as_value(event_id: str) -> str:
    """Return the UTF-8 bytes of an id, each as one character, for a header."""
    return event_id.encode("utf-8", "replace").decode("latin-1")


_DEFAULT_RETRY: Final = 1.0
"""Time before a stream is fetched again if the server does not specify one, in seconds."""

_SHORTEST_RETRY: Final = 0.1
"""In seconds. A server that requests an immediate reconnect each time would keep the client busy."""

_LONGEST_RETRY: Final = 3_600.0
"""In seconds. The client honors the server's value up to one hour. After that the request no longer matters."""

_OF_SESSIONS: Final = re.compile(r"session|not initialized", re.IGNORECASE)
"""Texts of deployed servers that report an unknown session with status 400, where the specification requires 404."""


@attrs.frozen(eq=False, repr=False)
class Resume(FieldValue):
    """The stream ended early: `ClientExchange.resumption` fetches the rest."""

    last_event_id: str
    """The event after which the stream continues."""
    after: float
    """Time to wait before the request, in seconds: the latest value from the server, or 1."""


@attrs.frozen(eq=False, repr=False)
class Lost(FieldValue):
    """The response is unavailable. The server may have processed the request."""

    error: McpError
    """The cause: `ConnectionEnded`, or `RemoteProtocolError` if the server responded without a valid message."""


class ClientExchange:
    """One POST of a message, or one GET of a stream.

    Args:
        message: The message to post; `None` for a GET, which only a legacy client may send.
        revision: The negotiated revision, or the modern revision of the message; `None` before negotiation, for
            `initialize`.
        limits: The limits for the messages of the exchange.
        session_id: The session id, if there is a session.
        last_event_id: For a GET: the event after which the stream continues.
        header_params: The header parameters of the called tool.
        names: The member of the params that `Mcp-Name` repeats, by method.

    Raises:
        LocalProtocolError: The revision does not allow this POST (a batch, a response) or a GET.
    """

    __slots__ = (
        "_expect",
        "_head",
        "_header_params",
        "_last_event_id",
        "_limits",
        "_message",
        "_names",
        "_pending",
        "_reader",
        "_retry",
        "_revision",
        "_session",
        "broken",
        "method",
        "notes",
        "offers_endpoint",
        "session_id",
    )

    def __init__(
        self,
        message: Message | Batch | None,
        *,
        revision: Revision | None,
        limits: Limits,
        session_id: str | None = None,
        last_event_id: str | None = None,
        header_params: Sequence[ParamHeader] = (),
        names: Mapping[str, str] = NAME_PARAMS,
    ) -> None:
        if not isinstance(message, Request):
            check_allowed(message, revision)
        self.method: Final = "GET" if message is None else "POST"
        """The HTTP method of the request."""
        self.session_id: str | None = None
        """The session that the response to `initialize` opened; `None` for all other requests. The id is a secret."""
        self.broken: bool = False
        """Whether the connection broke before the response was complete, as reported to `end`."""
        self.offers_endpoint: bool = False
        """Whether the response to the POST was a stream of another transport, HTTP+SSE."""
        self.notes: Final = Deviations()
        """The tolerated deviations, one sentence each. The number is bounded: later ones are dropped. The caller may
        clear the list."""
        self._message: Final = message
        self._revision: Final = revision
        self._limits: Final = limits
        # A modern server has no sessions, so it cannot report one as unknown.
        self._session: Final = session_id if revision is None or revision.era is Era.LEGACY else None
        self._last_event_id: Final = last_event_id or ""
        self._header_params: Final = header_params
        self._names: Final = names
        self._pending = PendingResponses.of(message)
        self._head: HttpHead | None = None
        self._expect: Expect | None = None
        self._reader: EventReader | None = None
        self._retry = _DEFAULT_RETRY

    @property
    def message(self) -> Message | Batch | None:
        """The posted message; `None` for a GET."""
        return self._message

    @property
    def status(self) -> int | None:
        """The status of the response; `None` before the response."""
        return None if self._head is None else self._head.status

    # --- the request -----------------------------------------------------------------------------------------------

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers that the protocol requires.

        Raises:
            LocalProtocolError: A header cannot carry a part of the message, or the event id to resume after.
        """
        if self._message is None:
            return get_headers(self._last_event_id, self._revision, self._session, self._limits)
        return post_headers(self._message, self._revision, self._session, self._header_params, self._names)

    def body(self) -> bytes | None:
        """Return the body of a POST; `None` for a GET.

        Raises:
            LocalProtocolError: The message cannot be written as JSON.
        """
        if self._message is None:
            return None
        null_id = self._revision is not None and not self._revision.error_without_id
        return encode(self._message, null_id=null_id)

    # --- the response ----------------------------------------------------------------------------------------------

    def receive_head(self, head: HttpHead) -> Expect:
        """Record the head of the response, and return how to read the body."""
        self._head = head
        if head.status == 404 and self._session_is_gone(head.status):
            expect = Expect.TEXT
        elif self._message is None:
            expect = expected_of_get(head)
        else:
            expect = expected_of_post(head, awaiting=self._pending.has_requests)
            if expect is Expect.NOTHING and head.status not in (202, 204):
                self.notes.note(f"the status for a message without requests is {head.status}, not 202")
        self._expect = expect
        if expect is Expect.STREAM:
            self._reader = EventReader(self._limits, self.notes, last_event_id=self._last_event_id)
        opens = isinstance(self._message, Request) and self._message.method == INITIALIZE.name
        if opens and is_good(head):
            self._open_session(head.headers.get(MCP_SESSION_ID))
        return expect

    def _open_session(self, id: str | None) -> None:
        if id is not None and not is_session_id(id):
            self.notes.note("the session id has invalid characters and is ignored")
        else:
            self.session_id = id

    def _session_is_gone(self, status: int) -> bool:
        # Many servers without a standalone stream respond 404 to the first GET; only a POST shows whether the session
        # exists.
        return status == 404 and self._session is not None and (self._message is not None or bool(self._last_event_id))

    def receive_data(self, data: bytes) -> tuple[Received, ...]:
        """Read a portion of a stream.

        Args:
            data: Any portion; empty if the stream ended properly.

        Returns:
            The messages that are complete now, and a `MalformedMessage` for each event without a valid message.

        Raises:
            HttpFailure: The stream is one of HTTP+SSE, which is not a response to a POST.
            LocalProtocolError: The response is not a stream.
        """
        if self._reader is None:
            raise LocalProtocolError("the response is not a stream: receive_head did not return Expect.STREAM")
        received: list[Received] = []
        for what in self._reader.receive_data(data):
            if not isinstance(what, Event):
                received.append(self._pending.take(what, self.notes))
            elif what.event == "endpoint" and self._message is not None:
                self.offers_endpoint = True
                status = self.status or 0
                raise HttpFailure(
                    "POST returned a stream of HTTP+SSE, the transport of revision 2024-11-05", status=status
                )
            else:
                self.notes.note(f"ignored an event of type {clipped(what.event)!r}")
        return tuple(received)

    def receive_body(self, body: bytes) -> tuple[Received, ...]:
        """Read the body of a message.

        Args:
            body: The whole body.

        Returns:
            The message, or a `MalformedMessage`; empty if the body is empty.

        Raises:
            HttpFailure: The status is not 2xx, and the body does not contain a response to the request.
            SessionExpired: The server does not know the session.
            LocalProtocolError: There is no response yet.
        """
        if self._head is None:
            raise LocalProtocolError("there is no response yet: call receive_head first")
        good = 200 <= self._head.status < 300
        if good and (not body or body.strip() in (b"", b"null")):
            return ()
        what = read_message(body, self._limits, self.notes)
        if isinstance(what, MalformedMessage):
            if not good or not says_json(self._head):
                raise self.failure(body)
            if what.answers is None:
                what.answers = self._pending.only
            return (self._pending.take(what, self.notes),)
        if good and self._head.headers.get("content-type") != JSON and not says_json(self._head):
            self.notes.note("the JSON body has another media type")
        if not good:
            what = self._answer_of_refusal(what, body)
        return (self._pending.take(what, self.notes),)

    def _answer_of_refusal(self, message: Message | Batch, body: bytes) -> Message | Batch:
        """Return the response in a body whose status is not 2xx. Raises `HttpFailure` if the body has no response."""
        if not any(isinstance(each, ResultResponse | ErrorResponse) for each in members(message)):
            raise self.failure(body)
        if not isinstance(message, ErrorResponse) or message.id in self._pending.ids:
            return message
        only = self._pending.only
        if only is None or self._complains_of_session(body):
            raise self.failure(body)
        if message.id is not None:
            self.notes.note("the error has an unknown id and was used as the response")
            message = attrs.evolve(message, id=only)
        return message

    def _complains_of_session(self, body: bytes) -> bool:
        if self.status != 400 or self._session is None:
            return False
        return _OF_SESSIONS.search(body[:FAILURE_BYTES].decode("utf-8", "replace")) is not None

    def failure(self, body: bytes) -> HttpFailure | SessionExpired:
        """Return the error for an HTTP response without a JSON-RPC response.

        Args:
            body: The first 512 bytes of the body, or the whole body if it is shorter.

        Returns:
            `AccessDenied` for the statuses 401 and 403. `SessionExpired` if the server does not know the session and
            therefore did not process the request. Otherwise `HttpFailure`.

        Raises:
            LocalProtocolError: There is no response yet.
        """
        if self._head is None:
            raise LocalProtocolError("there is no response yet: call receive_head first")
        failure = failure_of(self.method, self._head, body)
        if self._session_is_gone(self._head.status) or self._complains_of_session(body):
            return SessionExpired(f"the server does not know the session: {failure.message}")
        return failure

    # --- the end ---------------------------------------------------------------------------------------------------

    @property
    def answered(self) -> bool:
        """Whether the exchange had requests, and each has its response. The rest of the body is irrelevant then."""
        return self._pending.has_requests and not self._pending.ids

    @property
    def retry_after(self) -> float:
        """Seconds to wait before the stream is fetched again, from 0.1 to 3,600: the server's latest value, or 1."""
        said = None if self._reader is None else self._reader.retry
        if said is not None:
            return min(max(said / 1_000, _SHORTEST_RETRY), _LONGEST_RETRY)
        return self._retry

    def end(self, broken: bool) -> Resume | Lost | None:  # noqa: FBT001  an end has no other property
        """Record the end of the body or of the connection, and return the outcome of the exchange.

        Args:
            broken: Whether the connection broke, at any point, including before the response.

        Returns:
            `None` if all responses arrived, or none was pending. `Resume` if the rest of the stream can be fetched,
            also for a stream that a GET fetched for its own sake and that had event ids. `Lost` otherwise.
        """
        self.broken = broken
        if self._pending.has_requests and not self._pending.ids:
            return None
        if self._message is not None and not self._pending.has_requests:
            return None
        return self._resume() or (Lost(self._why_lost()) if self._pending.has_requests else None)

    def _resume(self) -> Resume | None:
        legacy = self._revision is None or self._revision.era is Era.LEGACY
        id = self._last_id() if legacy else ""
        return Resume(id, self.retry_after) if id and resumable_after(id, self._limits) else None

    def _last_id(self) -> str:
        return self._last_event_id if self._reader is None else self._reader.last_event_id

    def _why_lost(self) -> McpError:
        unknown = "the server may have processed the request"
        if self._expect is Expect.STREAM:
            return ConnectionEnded(f"the stream ended before the response; {unknown}")
        if self.broken or self.status is None:
            return ConnectionEnded(f"the connection ended before the response; {unknown}")
        if self._expect is Expect.NOTHING:
            return RemoteProtocolError(
                f"the server accepted the request with status {self.status} and sent no response"
            )
        return RemoteProtocolError(
            f"the body (status {self.status}) is empty, or does not contain the response to the request"
        )

    def resumption(self) -> ClientExchange:
        """Return the GET that fetches the rest of the stream and waits for the same responses."""
        session = self.session_id or self._session
        rest = ClientExchange(
            None, revision=self._revision, limits=self._limits, session_id=session, last_event_id=self._last_id()
        )
        rest._pending = self._pending.copy()
        rest._retry = self.retry_after
        return rest
