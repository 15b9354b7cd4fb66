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

*Legacy* means the era, not the traits `sessions` and `resumable`: a server that negotiates 2024-11-05 here and still
opens a session needs to receive its session id.

Spec: basic/transports#streamable-http (legacy), basic/transports/streamable-http (2026-07-28).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.codec import encode
from mcp_core.errors import (
    ConnectionEnded,
    HttpFailure,
    LocalProtocolError,
    MalformedMessage,
    McpError,
    RemoteProtocolError,
    SessionExpired,
)
from mcp_core.framing.sse import Event
from mcp_core.http.event_reader import Deviations, EventReader, Received, read_message
from mcp_core.http.failures import FAILURE_BYTES, clipped, failure_of
from mcp_core.http.media_types import JSON
from mcp_core.http.pending_responses import PendingResponses, members
from mcp_core.http.request_headers import (
    check_allowed,
    get_headers,
    is_session_id,
    post_headers,
    resumable_after,
    session_headers,
)
from mcp_core.http.response_type import Expect, expected_of_get, expected_of_post, is_good, says_json
from mcp_core.http.routing_headers import MCP_SESSION_ID, NAME_PARAMS
from mcp_core.jsonrpc.messages import ErrorResponse, Request, ResultResponse
from mcp_core.methods import INITIALIZE
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_core.codec import Batch
    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.http.messages import HttpHead
    from mcp_core.jsonrpc.messages import Message
    from mcp_core.limits import Limits
    from mcp_core.revisions import Revision

__all__ = ["FAILURE_BYTES", "ClientExchange", "Expect", "Lost", "Resume", "session_headers"]

_DEFAULT_RETRY: Final = 1.0
"""Time before a stream is fetched again if the server does not specify one, in seconds."""

_SHORTEST_RETRY: Final = 0.1
"""In seconds. A server that requests an immediate reconnect each time would keep the client busy."""

_LONGEST_RETRY: Final = 3_600.0
"""In seconds. The client honors the server's value up to one hour. After that the request no longer matters."""

_OF_SESSIONS: Final = re.compile(r"session|not initialized", re.IGNORECASE)
"""Texts of deployed servers that report an unknown session with status 400, where the specification requires 404."""


@attrs.frozen
class Resume:
    """The stream ended early: `ClientExchange.resumption` fetches the rest."""

    last_event_id: str
    """The event after which the stream continues."""
    after: float
    """Time to wait before the request, in seconds: the latest value from the server, or 1."""


@attrs.frozen
class Lost:
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
        self.broken = False
        """Whether the connection broke before the response was complete, as reported to `end`."""
        self.offers_endpoint = False
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
            self._reader = EventReader(self._limits, self.notes)
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
        return (self._reader.last_event_id if self._reader is not None else "") or self._last_event_id

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
