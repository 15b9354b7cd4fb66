"""What a server answers over HTTP: how responses begin, and how requests are refused.

Answers must not be kept by anybody on their way, nor streams held back or changed; web pages of listed origins, and no
others, may read them.

*Errors* of refusals have the id of the request if there is one that can be read. A refusal of what is owed no answer, or
of a request whose body was not looked at, has no id member, as the pages on transports say. What is owed an answer and
has no readable id gets null, as JSON-RPC 2.0 (section 5) wants it, unless its revision is known to leave the member out.

Spec: basic/transports#streamable-http (legacy), basic/transports/streamable-http (2026-07-28); RFC 9110 section 15.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.errors import ErrorCode, LimitExceeded, MalformedMessage
from mcp_core.http.media_types import EVENT_STREAM, JSON
from mcp_core.http.messages import Headers, HttpHead
from mcp_core.http.origin import cors_headers
from mcp_core.http.routing_headers import MCP_SESSION_ID
from mcp_core.jsonrpc.codec import encode
from mcp_core.jsonrpc.messages import Batch, ErrorObject, ErrorResponse, Request

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

# Responses begin alike, and a head is never changed.
_JSON_HEAD: Final = HttpHead(status=200, headers=Headers(_JSON_HEADERS))
_STREAM_HEAD: Final = HttpHead(status=200, headers=Headers(_STREAM_HEADERS))

_RETRY_AFTER: Final = "5"
"""Seconds. Long enough for a call to end, short enough for somebody who waits."""

_UNKNOWN_SESSION: Final = (
    "session not found: it expired, was ended, or lives in another process; open a new one with initialize"
)


@attrs.frozen(kw_only=True)
class Refusal:
    """A request that goes no further, and what to answer it."""

    status: int
    """The HTTP status: 4xx or 5xx, but 204 for a preflight request that is granted."""
    error: ErrorResponse | None
    """The body; `None` for an empty one."""
    headers: _Pairs = ()
    """Headers besides those that every refusal has."""
    reason: str
    """Why, in one sentence, for the log."""
    null_id: bool = False
    """Whether an error that has no id says `"id": null`, or has no such member."""
    answers: ErrorResponse | None = None
    """What stands for the answer that was posted but cannot be read: for the engine of the session, since whoever waits
    for it waits for nothing else. See `mcp_core.jsonrpc.codec.stand_in`."""

    def head(self) -> HttpHead:
        """How the response begins, `content-length` included."""
        if self.error is None:
            return _empty_head(self.status, self.headers)
        length = ("content-length", str(len(self.body())))
        return HttpHead(status=self.status, headers=Headers((*_JSON_HEADERS, length, *self.headers)))

    def body(self) -> bytes:
        """What follows; may be empty."""
        return b"" if self.error is None else encode(self.error, null_id=self.null_id)


@attrs.frozen(kw_only=True)
class Post:
    """What a client posted."""

    message: Message | Batch
    """The message; in the modern era a request or a notification."""
    era: Era
    """Modern: it is complete in itself. Legacy: `initialize` opens a session, all else belongs to that of
    `ServerExchange.session_id`."""
    notes: tuple[str, ...] = ()
    """A sentence for each deviation that was survived."""
    size: int = 0
    """The bytes of the body."""

    @property
    def answered(self) -> bool:
        """Whether something in it is owed an answer. If not, the response is 202 without a body."""
        members = self.message.members if isinstance(self.message, Batch) else (self.message,)
        return any(
            member.reply is not None if isinstance(member, MalformedMessage) else isinstance(member, Request)
            for member in members
        )


class Responses:
    """The responses that one request may get.

    Args:
        request: The request.
        policy: What the endpoint allows.
        limits: The bounds that hold there.
    """

    __slots__ = ("_limits", "_policy", "_request")

    def __init__(self, request: HttpRequest, policy: EndpointPolicy, limits: Limits) -> None:
        self._request = request
        self._policy = policy
        self._limits = limits

    def json_head(self, status: int = 200, *, session_id: str | None = None) -> HttpHead:
        """How an answer in JSON begins; `content-length` is left to who has the body.

        Args:
            status: Its status; see `mcp_core.http.statuses.status_of`.
            session_id: The session that the answer opens.
        """
        more = self._more(session_id)
        if status == 200 and not more:
            return _JSON_HEAD
        return HttpHead(status=status, headers=Headers((*_JSON_HEADERS, *more)))

    def stream_head(self, *, session_id: str | None = None) -> HttpHead:
        """How a stream of events begins.

        Args:
            session_id: The session that an answer in it opens.
        """
        more = self._more(session_id)
        return HttpHead(status=200, headers=Headers((*_STREAM_HEADERS, *more))) if more else _STREAM_HEAD

    def empty_head(self, status: int = 202) -> HttpHead:
        """A response without a body: 202 for messages that are owed no answer, 200 for a session that was ended.

        For the latter the specification names no status; 200 is what most servers answer, and all clients take.
        """
        return _empty_head(status, self._more(None))

    def too_large(self, observed: int) -> Refusal:
        """413: the body is too large, or turns out to be while it comes.

        Args:
            observed: Its bytes; so far, when the rest was not read.
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
        """Whether an error for a message without a readable id says `"id": null`; see `Revision.error_without_id`."""
        return True

    def _null_id(self, message: Message | Batch | None) -> bool:
        """Whether the refusal of a message says `"id": null`: of a batch, which is owed an answer and has no id."""
        return isinstance(message, Batch) and self.null_ids

    def unknown_session(self, post: Post | None = None) -> Refusal:
        """404: the session is not known here, or belongs to somebody else, which must look the same.

        Args:
            post: What was posted to it.
        """
        message = None if post is None else post.message
        id = None if message is None else id_of(message)
        return self.refuse(404, _UNKNOWN_SESSION, id=id, null_id=self._null_id(message))

    def busy(self, excess: LimitExceeded, *, id: RequestId | None = None, own: bool = False) -> Refusal:
        """503, or 429, with `Retry-After`: there is no room for now.

        Args:
            excess: For what there is none.
            id: The id of the request.
            own: It is this client's own requests that take the room: 429 (RFC 6585 section 4).
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
        """Any refusal, as that of who must not use the endpoint, with its challenges.

        Args:
            status: The HTTP status.
            message: Why, in one sentence, which the client gets too.
            code: The JSON-RPC error code.
            id: The id of the request, where it is known.
            data: More about it.
            headers: Headers of the response besides those that every refusal has.
            null_id: See `Refusal.null_id`.
        """
        error = ErrorResponse(id, ErrorObject(int(code), message, data))
        return Refusal(
            status=status, error=error, headers=(*headers, *self._more(None)), reason=message, null_id=null_id
        )

    def _more(self, session_id: str | None) -> _Pairs:
        """The headers that depend on the request."""
        cors = cors_headers(self._request.headers, self._policy.allowed_origins)
        return cors if session_id is None else ((MCP_SESSION_ID, session_id), *cors)


def _empty_head(status: int, more: _Pairs) -> HttpHead:
    # A response 204 must not have a length (RFC 9110 section 8.6).
    length = () if status == 204 else (("content-length", "0"),)
    return HttpHead(status=status, headers=Headers((*length, *_EMPTY_HEADERS, *more)))


def id_of(message: Message | Batch) -> RequestId | None:
    """The id to answer with, which only a request has."""
    return message.id if isinstance(message, Request) else None
