"""One exchange of an HTTP client, in all revisions: a message is posted, or a stream is fetched.

    exchange = ClientExchange(message, revision=revision, limits=limits, session_id=session)
    # send exchange.method, exchange.headers(), exchange.body()
    expect = exchange.receive_head(head)
    # MESSAGE: exchange.receive_body(all)   STREAM: exchange.receive_data(portion), for each   TEXT: raise exchange.failure(start)
    outcome = exchange.end(broken=False)

Any exchange may be given up at any point. `end` says what became of the requests in it: answered (`None`), to be had
by another request (`Resume`), or lost. Nothing is asked twice here: whoever wants that has to know that the first
request may have been processed.

*What counts as the answer.* A JSON-RPC error in the body of a 400 or 404 is one (2026-07-28 wants those statuses), also
if its id is null or invented, as servers write it that refuse a request before they read it. An answer with another id
is delivered, and does not count.

*Legacy* is the era, not the traits `sessions` and `resumable`: a server that agrees to 2024-11-05 here and opens a
session all the same needs to get its session id back.

Spec: basic/transports#streamable-http (legacy), basic/transports/streamable-http (2026-07-28).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

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
from mcp_core.http.pending_responses import Awaited, members
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
from mcp_core.jsonrpc.codec import encode
from mcp_core.jsonrpc.messages import ErrorResponse, Request, ResultResponse
from mcp_core.methods import INITIALIZE
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.http.messages import HttpHead
    from mcp_core.jsonrpc.messages import Batch, Message
    from mcp_core.limits import Limits
    from mcp_core.revisions import Revision

__all__ = ["FAILURE_BYTES", "ClientExchange", "Expect", "Lost", "Resume", "session_headers"]

_DEFAULT_RETRY: Final = 1.0
"""Seconds before a stream is fetched again when the server does not say."""

_SHORTEST_RETRY: Final = 0.1
"""Seconds. Who is told to come back at once, again and again, would do nothing else."""

_LONGEST_RETRY: Final = 3_600.0
"""Seconds. The server's word counts, however long; but after an hour nobody remembers what he waited for."""

_OF_SESSIONS: Final = re.compile(r"session|not initialized", re.IGNORECASE)
"""How deployed servers say with status 400 that they do not know the session, where 404 is specified."""


@attrs.frozen
class Resume:
    """The stream ended before its time: the rest can be had with `ClientExchange.resumption`."""

    last_event_id: str
    """The event after which it goes on."""
    after: float
    """Seconds to wait before: the server's last word on it, or 1."""


@attrs.frozen
class Lost:
    """The answer cannot be had any more. The request may have been processed."""

    error: McpError
    """Why: `ConnectionEnded`, or `RemoteProtocolError` when the server answered with nothing that makes sense."""


class ClientExchange:
    """One POST of a message, or one GET of a stream.

    Args:
        message: What to post; `None` for a GET, which a legacy client may send.
        revision: What was agreed on, or the modern revision that the message is written in; `None` before that, for
            `initialize`.
        limits: The bounds that hold here.
        session_id: The session, where there is one.
        last_event_id: Of a GET: the event after which a stream shall go on.
        designated: The parameters of the called tool that stand in headers too.
        names: The member of the params that `Mcp-Name` repeats, by method.

    Raises:
        LocalProtocolError: The revision knows no such POST (a batch, an answer) or no GET.
    """

    __slots__ = (
        "_awaited",
        "_designated",
        "_expect",
        "_head",
        "_last_event_id",
        "_limits",
        "_message",
        "_names",
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
        designated: Sequence[ParamHeader] = (),
        names: Mapping[str, str] = NAME_PARAMS,
    ) -> None:
        check_allowed(message, revision)
        self.method: Final = "GET" if message is None else "POST"
        """The method of the request."""
        self.session_id: str | None = None
        """The session that the answer to `initialize` opened; `None` for all else. It is a secret."""
        self.broken = False
        """Whether the connection broke before the response was complete, as `end` was told."""
        self.offers_endpoint = False
        """The answer to the POST was the stream of another transport, HTTP+SSE."""
        self.notes: Final = Deviations()
        """A sentence for each deviation that was survived; of very many the first. The caller may clear it."""
        self._message: Final = message
        self._revision: Final = revision
        self._limits: Final = limits
        # A modern server has no sessions, so it cannot have forgotten one.
        self._session: Final = session_id if self._is_legacy else None
        self._last_event_id: Final = last_event_id or ""
        self._designated: Final = designated
        self._names: Final = names
        self._awaited = Awaited.of(message)
        self._head: HttpHead | None = None
        self._expect: Expect | None = None
        self._reader: EventReader | None = None
        self._retry = _DEFAULT_RETRY

    @property
    def _is_legacy(self) -> bool:
        return self._revision is None or self._revision.era is Era.LEGACY

    @property
    def message(self) -> Message | Batch | None:
        """What is posted; `None` for a GET."""
        return self._message

    @property
    def status(self) -> int | None:
        """The status of the response; `None` before it came."""
        return None if self._head is None else self._head.status

    # --- the request -----------------------------------------------------------------------------------------------

    def headers(self) -> list[tuple[str, str]]:
        """The headers that the protocol wants.

        Raises:
            LocalProtocolError: Something in the message, or the event id to resume after, cannot be said in a header.
        """
        if self._message is None:
            return get_headers(self._last_event_id, self._revision, self._session, self._limits)
        return post_headers(self._message, self._revision, self._session, self._designated, self._names)

    def body(self) -> bytes | None:
        """The body of a POST. Raises `LocalProtocolError` when JSON cannot say it."""
        if self._message is None:
            return None
        null_id = self._revision is not None and not self._revision.error_without_id
        return encode(self._message, null_id=null_id)

    # --- the response ----------------------------------------------------------------------------------------------

    def receive_head(self, head: HttpHead) -> Expect:
        """Takes the beginning of the response, and says what its body is to be taken for."""
        self._head = head
        self._expect = self._expected(head)
        if self._expect is Expect.STREAM:
            self._reader = EventReader(self._limits, self.notes)
        opens = isinstance(self._message, Request) and self._message.method == INITIALIZE.name
        if opens and is_good(head):
            self._open_session(head.headers.get(MCP_SESSION_ID))
        return self._expect

    def _open_session(self, id: str | None) -> None:
        if id is not None and not is_session_id(id):
            self.notes.note("the session id has characters that it may not have, and is not used")
        else:
            self.session_id = id

    def _expected(self, head: HttpHead) -> Expect:
        if self._session_is_gone(head.status):
            return Expect.TEXT
        if self._message is None:
            return expected_of_get(head)
        expect = expected_of_post(head, awaiting=self._awaited.asked)
        if expect is Expect.NOTHING and head.status not in (202, 204):
            self.notes.note(f"what needs no answer was answered with status {head.status}, not 202")
        return expect

    def _session_is_gone(self, status: int) -> bool:
        # To a first GET many servers without such a stream answer 404; whether the session lives is told by a POST.
        return status == 404 and self._session is not None and (self._message is not None or bool(self._last_event_id))

    def receive_data(self, data: bytes) -> tuple[Received, ...]:
        """Takes a portion of a stream.

        Args:
            data: Any portion; empty when the stream ended properly.

        Returns:
            The messages that are complete now, and `MalformedMessage` for each event that holds none.

        Raises:
            HttpFailure: It is the stream of HTTP+SSE, which is no answer to a POST.
        """
        if self._reader is None:
            raise LocalProtocolError("the response is no stream")
        received: list[Received] = []
        for what in self._reader.receive_data(data):
            if not isinstance(what, Event):
                received.append(self._awaited.take(what, self.notes))
            elif what.event == "endpoint" and self._message is not None:
                self.offers_endpoint = True
                status = self.status or 0
                raise HttpFailure(
                    "POST was answered with the stream of HTTP+SSE, the transport of 2024-11-05", status=status
                )
            else:
                self.notes.note(f"an event called {clipped(what.event)!r} was ignored")
        return tuple(received)

    def receive_body(self, body: bytes) -> tuple[Received, ...]:
        """Takes the body of a message.

        Args:
            body: All of it.

        Returns:
            The message, or `MalformedMessage`; nothing when the body is empty.

        Raises:
            HttpFailure: The status is none of success, and the body no answer.
            SessionExpired: Likewise, and the server does not know the session.
        """
        if self._head is None:
            raise LocalProtocolError("there was no response yet")
        good = is_good(self._head)
        if good and (not body or body.strip() in (b"", b"null")):
            return ()
        what = read_message(body, self._limits, self.notes)
        if isinstance(what, MalformedMessage):
            if not good or not says_json(self._head):
                raise self.failure(body)
            if what.answers is None:
                what.answers = self._awaited.only
            return (self._awaited.take(what, self.notes),)
        if good and not says_json(self._head):
            self.notes.note("JSON came under another media type")
        if not good:
            what = self._answer_of_refusal(what, body)
        return (self._awaited.take(what, self.notes),)

    def _answer_of_refusal(self, message: Message | Batch, body: bytes) -> Message | Batch:
        """What a body says that came with a status of failure. Raises `HttpFailure` when it is no answer."""
        if not any(isinstance(each, ResultResponse | ErrorResponse) for each in members(message)):
            raise self.failure(body)
        if not isinstance(message, ErrorResponse) or message.id in self._awaited.ids:
            return message
        only = self._awaited.only
        if only is None or self._complains_of_session(body):
            raise self.failure(body)
        if message.id is not None:
            self.notes.note("the error has an id that was not asked for; it was taken for the answer")
            message = attrs.evolve(message, id=only)
        return message

    def _complains_of_session(self, body: bytes) -> bool:
        if self.status != 400 or self._session is None:
            return False
        return _OF_SESSIONS.search(body[:FAILURE_BYTES].decode("utf-8", "replace")) is not None

    def failure(self, body: bytes) -> HttpFailure | SessionExpired:
        """The error for a response that is no answer.

        Args:
            body: Its beginning: 512 bytes, or all if there are less.

        Returns:
            `AccessDenied` for the statuses 401 and 403; `SessionExpired` when the server does not know the session,
            so that the request was not processed; else `HttpFailure`.
        """
        if self._head is None:
            raise LocalProtocolError("there was no response yet")
        failure = failure_of(self.method, self._head, body)
        if self._session_is_gone(self._head.status) or self._complains_of_session(body):
            return SessionExpired(f"the server does not know the session: {failure.message}")
        return failure

    # --- the end ---------------------------------------------------------------------------------------------------

    @property
    def answered(self) -> bool:
        """Whether it had requests, and all of them are answered: what follows need not be waited for."""
        return self._awaited.asked and not self._awaited.ids

    @property
    def retry_after(self) -> float:
        """Seconds to wait before the stream is fetched again: the server's last word on it, or 1. From 0.1 to an hour."""
        said = None if self._reader is None else self._reader.retry
        if said is not None:
            return min(max(said / 1_000, _SHORTEST_RETRY), _LONGEST_RETRY)
        return self._retry

    def end(self, broken: bool) -> Resume | Lost | None:  # noqa: FBT001  there is nothing else to say of an end
        """The body ended, or the connection did.

        Args:
            broken: Whether the connection broke, at any point, also before there was a response.

        Returns:
            `None` when all answers came, or none was due. `Resume` when the rest of the stream can be had; so also for
            a stream that was fetched for its own sake, and had ids.
        """
        self.broken = broken
        if self._awaited.asked and not self._awaited.ids:
            return None
        if self._message is not None and not self._awaited.asked:
            return None
        return self._resume() or (Lost(self._why_lost()) if self._awaited.asked else None)

    def _resume(self) -> Resume | None:
        id = self._last_id() if self._is_legacy else ""
        return Resume(id, self.retry_after) if id and resumable_after(id, self._limits) else None

    def _last_id(self) -> str:
        return (self._reader.last_event_id if self._reader is not None else "") or self._last_event_id

    def _why_lost(self) -> McpError:
        unknown = "whether the request was processed is not known"
        if self._expect is Expect.STREAM:
            return ConnectionEnded(f"the stream ended before its answer; {unknown}")
        if self.broken or self.status is None:
            return ConnectionEnded(f"the connection ended before the answer; {unknown}")
        if self._expect is Expect.NOTHING:
            return RemoteProtocolError(
                f"the server accepted the request with status {self.status} and did not answer it"
            )
        return RemoteProtocolError(
            f"the body of the response (status {self.status}) is empty or answers something else"
        )

    def resumption(self) -> ClientExchange:
        """The GET that fetches the rest of this stream, and waits for the same answers."""
        session = self.session_id or self._session
        rest = ClientExchange(
            None, revision=self._revision, limits=self._limits, session_id=session, last_event_id=self._last_id()
        )
        rest._awaited = self._awaited.copy()
        rest._retry = self.retry_after
        return rest
