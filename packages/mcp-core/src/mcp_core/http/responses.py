"""HTTP responses of a server: heads of responses, and rejections of requests.

Intermediaries must not store responses, and must not buffer or change streams. Web pages of listed origins can read
responses; other web pages cannot.

*Errors* of rejections have the id of the request if it is readable. A rejection has no id member if the message expects
no response, or if the body of the request was not read, as the transport pages of the specification require. If a
message expects a response and its id is unreadable, the id is null, as JSON-RPC 2.0 (section 5) requires, unless the
revision is known to omit the member.

Spec: basic/transports#streamable-http (legacy), basic/transports/streamable-http (2026-07-28); RFC 9110 section 15.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.codec import Batch, encode
from mcp_core.errors import ErrorCode, LimitExceeded, MalformedMessage
from mcp_core.http.media_types import EVENT_STREAM, JSON
from mcp_core.http.messages import Headers, HttpHead
from mcp_core.http.origin import cors_headers
from mcp_core.http.routing_headers import MCP_SESSION_ID
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, Request

if TYPE_CHECKING:
    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import JsonValue, Message, RequestId
    from mcp_core.limits import Limits
    from mcp_core.revisions import Era

__all__ = ["Post", "Refusal", "Responses", "id_of"]

_Pairs: TypeAlias = tuple[tuple[str, str], ...]

_JSON_HEADERS: Final[_Pairs] = (
    ("content-type", JSON),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
)
_STREAM_HEADERS: Final[_Pairs] = (
    ("content-type", EVENT_STREAM),
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
    ("x-content-type-options", "nosniff"),
)
_EMPTY_HEADERS: Final[_Pairs] = (("cache-control", "no-store"),)

# Most responses have the same head, and heads are immutable.
_JSON_HEAD: Final = HttpHead(status=200, headers=Headers(_JSON_HEADERS))
_STREAM_HEAD: Final = HttpHead(status=200, headers=Headers(_STREAM_HEADERS))

_RETRY_AFTER: Final = "5"
"""In seconds. Long enough for a call to end, short enough for a waiting user."""

_UNKNOWN_SESSION: Final = (
    "session not found: it expired, was ended, or exists in another process; open a new session with initialize"
)


@attrs.frozen(kw_only=True)
class Refusal:
    """The rejection of a request, with the response."""

    status: int
    """The HTTP status: 4xx or 5xx, except 204 for a granted preflight request."""
    error: ErrorResponse | None
    """The body; `None` for an empty body."""
    headers: _Pairs = ()
    """Headers in addition to those of every rejection."""
    reason: str
    """The reason in one sentence, for the log."""
    null_id: bool = False
    """Whether an error without an id contains `"id": null`. If not, the member is missing."""
    answers: ErrorResponse | None = None
    """A placeholder for a posted response that is unreadable. Pass it to the engine of the session, because the task
    that waits for the response would otherwise wait until its timeout. `mcp_core.codec.stand_in` creates it."""

    def head(self) -> HttpHead:
        """Return the head of the response, including `content-length`."""
        if self.error is None:
            return _empty_head(self.status, self.headers)
        length = ("content-length", str(len(self.body())))
        return HttpHead(status=self.status, headers=Headers((*_JSON_HEADERS, length, *self.headers)))

    def body(self) -> bytes:
        """Return the body of the response; may be empty."""
        return b"" if self.error is None else encode(self.error, null_id=self.null_id)


@attrs.frozen(kw_only=True)
class Post:
    """A message that a client posted."""

    message: Message | Batch
    """The message; in the modern era a request or a notification."""
    era: Era
    """The era of the message. Modern: the message is self-contained. Legacy: `initialize` opens a session, every other
    message belongs to the session `ServerExchange.session_id`."""
    notes: tuple[str, ...] = ()
    """The tolerated deviations, one sentence each."""
    size: int = 0
    """The size of the body, in bytes."""

    @property
    def answered(self) -> bool:
        """Whether a part of the message expects a response. If not, the HTTP response is 202 without a body."""
        members = self.message.members if isinstance(self.message, Batch) else (self.message,)
        return any(
            member.reply is not None if isinstance(member, MalformedMessage) else isinstance(member, Request)
            for member in members
        )


class Responses:
    """The possible HTTP responses to one request.

    Args:
        request: The request.
        policy: The settings of the endpoint.
        limits: The limits of the endpoint.
    """

    __slots__ = ("_limits", "_policy", "_request")

    def __init__(self, request: HttpRequest, policy: EndpointPolicy, limits: Limits) -> None:
        self._request = request
        self._policy = policy
        self._limits = limits

    def json_head(self, status: int = 200, *, session_id: str | None = None) -> HttpHead:
        """Return the head of a response in JSON, without `content-length`: the caller, which has the body, adds it.

        Args:
            status: The status; see `mcp_core.http.statuses.status_of`.
            session_id: The session that the response opens.
        """
        more = self._more(session_id) if session_id is not None or self._policy.allowed_origins else ()
        if status == 200 and not more:
            return _JSON_HEAD
        return HttpHead(status=status, headers=Headers((*_JSON_HEADERS, *more)))

    def stream_head(self, *, session_id: str | None = None) -> HttpHead:
        """Return the head of an event stream.

        Args:
            session_id: The session that a response in the stream opens.
        """
        more = self._more(session_id) if session_id is not None or self._policy.allowed_origins else ()
        return HttpHead(status=200, headers=Headers((*_STREAM_HEADERS, *more))) if more else _STREAM_HEAD

    def empty_head(self, status: int = 202) -> HttpHead:
        """Return the head of a response without a body: 202 for messages without requests, 200 for an ended session.

        For the end of a session the specification names no status. Most servers send 200, and all clients accept it.
        """
        return _empty_head(status, self._more(None))

    def too_large(self, observed: int) -> Refusal:
        """Reject a body that is too large, with status 413. The size may become known while the body is received.

        Args:
            observed: The size in bytes, or the bytes so far if the rest was not read.
        """
        excess = LimitExceeded(
            "message size in bytes",
            observed=observed,
            allowed=self._limits.message_bytes,
            setting="Limits.message_bytes",
        )
        return self.refuse(413, excess.message, null_id=self.null_ids)

    @property
    def null_ids(self) -> bool:
        """Whether an error without a readable id contains `"id": null`; see `Revision.error_without_id`."""
        return True

    def _null_id(self, message: Message | Batch | None) -> bool:
        """Return whether the rejection of a message contains `"id": null`: for a batch, which expects a response."""
        return isinstance(message, Batch) and self.null_ids

    def unknown_session(self, post: Post | None = None) -> Refusal:
        """Reject a request for an unknown session, with status 404.

        The response is the same for a session of another principal, so that it does not reveal whether a session
        exists.

        Args:
            post: The message that was posted to the session.
        """
        message = None if post is None else post.message
        id = None if message is None else id_of(message)
        return self.refuse(404, _UNKNOWN_SESSION, id=id, null_id=self._null_id(message))

    def busy(self, excess: LimitExceeded, *, id: RequestId | None = None, own: bool = False) -> Refusal:
        """Reject a request because the server is at capacity, with status 503 or 429, and `Retry-After`.

        Args:
            excess: The limit that was reached.
            id: The id of the request.
            own: Whether the client's own requests use the capacity: 429 (RFC 6585 section 4).
        """
        return self.refuse(
            429 if own else 503,
            excess.message,
            code=ErrorCode.INTERNAL_ERROR,
            id=id,
            headers=(("retry-after", _RETRY_AFTER),),
        )

    def refuse(
        self,
        status: int,
        message: str,
        *,
        code: int = ErrorCode.INVALID_REQUEST,
        id: RequestId | None = None,
        data: JsonValue = None,
        headers: _Pairs = (),
        null_id: bool = False,
    ) -> Refusal:
        """Return a rejection, for example one of a client without access, with its challenges.

        Args:
            status: The HTTP status.
            message: The reason in one sentence, which the client receives too.
            code: The JSON-RPC error code.
            id: The id of the request, if known.
            data: Further data of the error.
            headers: Headers in addition to those of every rejection.
            null_id: Whether an error without an id contains `"id": null`; see `Refusal.null_id`.
        """
        error = ErrorResponse(id, ErrorObject(int(code), message, data))
        return Refusal(
            status=status, error=error, headers=(*headers, *self._more(None)), reason=message, null_id=null_id
        )

    def _more(self, session_id: str | None) -> _Pairs:
        """Return the headers that depend on the request."""
        cors = cors_headers(self._request.headers, self._policy.allowed_origins)
        return cors if session_id is None else ((MCP_SESSION_ID, session_id), *cors)


def _empty_head(status: int, more: _Pairs) -> HttpHead:
    # A 204 response must not have a Content-Length (RFC 9110 section 8.6).
    length = () if status == 204 else (("content-length", "0"),)
    return HttpHead(status=status, headers=Headers((*length, *_EMPTY_HEADERS, *more)))


def id_of(message: Message | Batch) -> RequestId | None:
    """Return the id for the response, which only a request has."""
    return message.id if isinstance(message, Request) else None
