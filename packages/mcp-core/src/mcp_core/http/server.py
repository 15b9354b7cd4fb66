"""The server's decisions about one HTTP request: admission, era, session, and its response.

    exchange = ServerExchange(request, policy, limits, revisions)
    rejection = exchange.admit()                      # before the body is read; also GET and DELETE
    outcome = exchange.read(body, header_params)       # of a POST: Rejection | Post
    rejection = exchange.check(outcome, revision)     # of a session, when it was found

The module keeps no state between requests, so a rejected request has no effect.

*Responses.* Intermediaries must not store responses, and must not buffer or change streams. Web pages of listed origins
can read responses; other web pages cannot. The error of a rejection has the id of the request if it is readable. It has
no id member if the message expects no response, or if the body of the request was not read, as the transport pages of
the specification require. If a message expects a response and its id is unreadable, the id is null, as JSON-RPC 2.0
(section 5) requires, unless the revision is known to omit the member.

*Era.* The POST alone determines its era. It is modern if its version header names a modern revision, or if its body has
a version in `_meta`. The comparison of headers in this module, or the engine, then reports any fault of the two as a
modern error. Everything else is legacy: `initialize`, which opens a session, or a message of the session in
`Mcp-Session-Id`. A server without a legacy revision accepts no legacy message: it responds 400, names its revisions,
and supports neither GET nor DELETE. Revision 2024-11-05 defines another transport, but deployed clients and servers
negotiate it over this transport. Here it has sessions, like the revisions after it.

*Version header.* A legacy message may lack the version header, because the session knows its revision. The header may
also name another revision than the negotiated one, if this server supports it: the specification does not forbid that,
and most servers accept it. A revision that the server does not support is rejected with 400, also on `initialize`.

Spec: basic/transports#streamable-http (legacy), basic/transports/streamable-http (2026-07-28); RFC 9110 section 15.5.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.codec import Batch, decode, encode, stand_in
from mcp_core.errors import ErrorCode, HeaderMismatch, LimitExceeded, MalformedMessage, UnsupportedProtocolVersion
from mcp_core.field_methods import FieldValue
from mcp_core.http.media_types import EVENT_STREAM, JSON, accepts, is_json
from mcp_core.http.messages import Headers, HttpHead
from mcp_core.http.origin import cors_headers, preflight_headers, rejection
from mcp_core.http.routing_headers import LAST_EVENT_ID, MCP_PROTOCOL_VERSION, MCP_SESSION_ID, NAME_PARAMS, mismatch
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, Notification, Request
from mcp_core.methods import INITIALIZE, SUBSCRIPTIONS_LISTEN, TOOLS_CALL
from mcp_core.revisions import MODERN, REVISIONS, Era
from mcp_core.types.meta import PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from mcp_core.errors import RequestFailed
    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import JsonValue, Message, RequestId
    from mcp_core.limits import Limits
    from mcp_core.revisions import Revision

__all__ = ["Post", "Rejection", "Responses", "ServerExchange", "id_of"]

_MODERN_NAMES: Final = frozenset(revision.name for revision in MODERN)
_SESSION_METHODS: Final = frozenset({"GET", "DELETE"})
_BOTH: Final = f"{JSON}, {EVENT_STREAM}"
"""The `Accept` of most clients."""
_CONTENT_LENGTH: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_QUOTED: Final = 100
"""Characters of an unknown version that an error repeats."""

_NO_SESSION: Final = (
    "Mcp-Session-Id is missing: open a session with initialize, or send self-contained requests with"
    " MCP-Protocol-Version and _meta (revision 2026-07-28)"
)


@attrs.frozen(eq=False, repr=False)
class _ServedRevisions(FieldValue):
    """Properties of the set of revisions that a server supports."""

    names: tuple[str, ...]
    """The names of the revisions, the oldest first."""
    modern: bool
    """Whether one of the revisions is modern."""
    legacy: bool
    """Whether one of the revisions is legacy, and has sessions here. If not, legacy messages are rejected."""
    null_ids: bool
    """Whether one of the revisions has `"id": null` in errors without an id."""
    version_header: bool
    """Whether all of the revisions have the version header: a message without the header then belongs to no
    revision."""


@lru_cache(maxsize=64)
def _served_revisions(revisions: frozenset[Revision]) -> _ServedRevisions:
    return _ServedRevisions(
        tuple(name for name, revision in REVISIONS.items() if revision in revisions),
        modern=any(revision.era is Era.MODERN for revision in revisions),
        legacy=any(revision.era is Era.LEGACY for revision in revisions),
        null_ids=not all(revision.error_without_id for revision in revisions),
        version_header=all(revision.version_header for revision in revisions),
    )


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

_STORE_RETRY_AFTER: Final = "1"
"""In seconds. A store that is reached again serves requests at once."""

_UNKNOWN_SESSION: Final = (
    "session not found: it expired, was ended, or exists in another process; open a new session with initialize"
)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Rejection(FieldValue):
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


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Post(FieldValue):
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

    def too_large(self, observed: int) -> Rejection:
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
        return self.reject(413, excess.message, null_id=self.null_ids)

    @property
    def null_ids(self) -> bool:
        """Whether an error without a readable id contains `"id": null`; see `Revision.error_without_id`."""
        return True

    def _null_id(self, message: Message | Batch | None) -> bool:
        """Return whether the rejection of a message contains `"id": null`: for a batch, which expects a response."""
        return isinstance(message, Batch) and self.null_ids

    def unknown_session(self, post: Post | None = None) -> Rejection:
        """Reject a request for an unknown session, with status 404.

        The response is the same for a session of another principal, so that it does not reveal whether a session
        exists.

        Args:
            post: The message that was posted to the session.
        """
        message = None if post is None else post.message
        id = None if message is None else id_of(message)
        return self.reject(404, _UNKNOWN_SESSION, id=id, null_id=self._null_id(message))

    def busy(self, excess: LimitExceeded, *, id: RequestId | None = None, own: bool = False) -> Rejection:
        """Reject a request because the server is at capacity, with status 503 or 429, and `Retry-After`.

        Args:
            excess: The limit that was reached.
            id: The id of the request.
            own: Whether the client's own requests use the capacity: 429 (RFC 6585 section 4).
        """
        return self.reject(
            429 if own else 503,
            excess.message,
            code=ErrorCode.INTERNAL_ERROR,
            id=id,
            headers=(("retry-after", _RETRY_AFTER),),
        )

    def unavailable(self, message: str, *, id: RequestId | None = None) -> Rejection:
        """Reject a request because a store cannot be reached, with status 503 and `Retry-After`.

        Args:
            message: What cannot be reached.
            id: The id of the request.
        """
        return self.reject(
            503, message, code=ErrorCode.INTERNAL_ERROR, id=id, headers=(("retry-after", _STORE_RETRY_AFTER),)
        )

    def reject(
        self,
        status: int,
        message: str,
        *,
        code: int = ErrorCode.INVALID_REQUEST,
        id: RequestId | None = None,
        data: JsonValue = None,
        headers: _Pairs = (),
        null_id: bool = False,
    ) -> Rejection:
        """Return a rejection, for example one of a client without access, with its challenges.

        Args:
            status: The HTTP status.
            message: The reason in one sentence, which the client receives too.
            code: The JSON-RPC error code.
            id: The id of the request, if known.
            data: Further data of the error.
            headers: Headers in addition to those of every rejection.
            null_id: Whether an error without an id contains `"id": null`; see `Rejection.null_id`.
        """
        error = ErrorResponse(id, ErrorObject(int(code), message, data))
        return Rejection(
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


class ServerExchange(Responses):
    """One request, and its possible responses.

    Args:
        request: The request, without its body.
        policy: The settings of the endpoint.
        limits: The limits: `message_bytes`, and those of `decode`.
        revisions: The revisions that the server supports. The same frozenset each time is fastest.
    """

    __slots__ = (
        "_modern",
        "_served",
        "accepts_json",
        "accepts_stream",
        "last_event_id",
        "prefers_stream",
        "session_id",
        "version",
    )

    accepts_json: bool
    """Whether the client accepts a response in JSON."""
    accepts_stream: bool
    """Whether the client accepts an event stream."""
    prefers_stream: bool
    """Whether a response that could be JSON must be a stream: the policy or the client's `Accept` requires it."""
    session_id: str | None
    """`Mcp-Session-Id`; `None` if it is missing, and in a modern request, where it is ignored."""
    last_event_id: str | None
    """`Last-Event-ID`; `None` if it is missing, and in a modern request, where it is ignored."""
    version: str | None
    """`MCP-Protocol-Version`; `None` if it is missing."""

    def __init__(
        self, request: HttpRequest, policy: EndpointPolicy, limits: Limits, revisions: Collection[Revision]
    ) -> None:
        super().__init__(request, policy, limits)
        headers = request.headers
        self._served = _served_revisions(revisions if isinstance(revisions, frozenset) else frozenset(revisions))
        self.version = headers.get(MCP_PROTOCOL_VERSION)
        self._modern = self._served.modern and self.version in _MODERN_NAMES
        # Some proxies send an empty value instead of no header.
        self.session_id = None if self._modern else headers.get(MCP_SESSION_ID) or None
        self.last_event_id = None if self._modern else headers.get(LAST_EVENT_ID) or None
        if headers.get("accept") == _BOTH:
            # The usual value. A repeated header can accept more, but not less.
            self.accepts_json = self.accepts_stream = True
        else:
            self.accepts_json = accepts(headers, JSON) > 0
            self.accepts_stream = accepts(headers, EVENT_STREAM) > 0
        self.prefers_stream = self.accepts_stream and (policy.answer == "stream" or not self.accepts_json)

    @property
    def null_ids(self) -> bool:
        """Whether an error without a readable id contains `"id": null`, by the version header if there is one."""
        if self._modern:
            return False
        named = REVISIONS[self.version] if self.version is not None and self.version in self._served.names else None
        return self._served.null_ids if named is None else not named.error_without_id

    # --- the request -----------------------------------------------------------------------------------------------

    def admit(self) -> Rejection | None:
        """Check the request before its body is read.

        The checks, with the status of a rejection: origin and host (403), method (405); for a POST the type, encoding
        and length of the body (400, 413, 415) and the accepted media types (406); for a GET or DELETE the session id
        and the version (400), for a GET also the accepted media types (406).

        Returns:
            `None` if the request is admitted. A preflight request of a listed origin is granted by a rejection with
            status 204.
        """
        request = self._request
        policy = self._policy
        foreign = rejection(request, policy.allowed_hosts, policy.allowed_origins)
        if foreign is not None:
            return self.reject(403, foreign)
        if request.method == "POST":
            return self._admit_post()
        if request.method in _SESSION_METHODS and self._served.legacy and not self._modern:
            return self._admit_session()
        granted = preflight_headers(request, policy.allowed_origins)
        if granted is not None:
            return Rejection(status=204, error=None, headers=granted, reason="preflight request of a listed origin")
        allowed = "POST" if self._modern or not self._served.legacy else "GET, POST, DELETE"
        return self.reject(
            405, f"method {request.method[:20]!a} is not allowed; allowed: {allowed}", headers=(("allow", allowed),)
        )

    def _admit_post(self) -> Rejection | None:
        headers = self._request.headers
        kind = headers.get("content-type")
        if kind != JSON and not is_json(kind):
            # This also rejects the types that a web page can send without a preflight request: forms, plain text.
            return self.reject(415, f"Content-Type must be {JSON}, not {kind or 'nothing'!a:.80}")
        coding = headers.get("content-encoding")
        if coding is not None and coding.lower() != "identity":
            only = (("accept-encoding", "identity"),)
            return self.reject(415, f"Content-Encoding {coding!a:.80} is not supported: use identity", headers=only)
        length = headers.get("content-length")
        if length is not None:
            if _CONTENT_LENGTH.fullmatch(length) is None:
                return self.reject(400, f"Content-Length {length!a:.80} is not a number of bytes")
            if int(length) > self._limits.message_bytes:
                return self.too_large(int(length))
        if not (self.accepts_stream or self.accepts_json):
            return self._unacceptable(f"neither {JSON} nor {EVENT_STREAM}")
        return None

    def _admit_session(self) -> Rejection | None:
        if self._request.method == "GET" and not self.accepts_stream:
            return self._unacceptable(f"no {EVENT_STREAM}")
        return self._foreign_version(None) or self._bad_session_id(None)

    def read(
        self,
        body: bytes,
        header_params: Callable[[str], Sequence[ParamHeader]],
        *,
        names: Mapping[str, str] = NAME_PARAMS,
    ) -> Rejection | Post:
        """Read and check the body of an admitted POST.

        Args:
            body: The whole body.
            header_params: Returns the header parameters of a tool by its name; empty for an unknown tool.
            names: The member of the params that `Mcp-Name` repeats, by method.

        Returns:
            The message, or the rejection of the request.
        """
        notes: list[str] = []
        try:
            message = decode(body, self._limits, notes=notes)
        except MalformedMessage as bad:
            return self._malformed(bad)
        if self._modern or (self._served.modern and _is_enveloped(message)):
            self._modern = True
            self.session_id = self.last_event_id = None
            refused = self._refuse_modern(message, header_params, names)
            return refused or Post(message=message, era=Era.MODERN, notes=tuple(notes), size=len(body))
        known = self.version is None or self.version in self._served.names
        foreign = self._outside_session(message) if known else self._foreign_version(message)
        return foreign or Post(message=message, era=Era.LEGACY, notes=tuple(notes), size=len(body))

    def _refuse_modern(
        self,
        message: Message | Batch,
        header_params: Callable[[str], Sequence[ParamHeader]],
        names: Mapping[str, str],
    ) -> Rejection | None:
        if not isinstance(message, (Request, Notification)):
            what = "a batch" if isinstance(message, Batch) else "a response"
            return self.reject(
                400, f"{what} is not allowed in revision {self.version}: send one request or notification"
            )
        repeated: Sequence[ParamHeader] = ()
        if message.method == TOOLS_CALL.name and message.params is not None:
            tool = message.params.get("name")
            repeated = header_params(tool) if isinstance(tool, str) else ()
        different = mismatch(self._request.headers, message, repeated, names=names)
        if different is not None:
            return self._failed(different, message)
        if message.method == SUBSCRIPTIONS_LISTEN.name and not self.accepts_stream:
            return self._unacceptable(f"no {EVENT_STREAM}", id=id_of(message))
        return None

    def check(self, post: Post, negotiated: Revision) -> Rejection | None:
        """Check a legacy message against its session.

        Args:
            post: The result of `read`.
            negotiated: The revision of the session.

        Returns:
            The rejection, or `None` if the message is allowed.
        """
        if type(post.message) is Batch and not negotiated.batching:
            why = f"revision {negotiated} has no batches: send each message in its own request"
            return self.reject(400, why, null_id=not negotiated.error_without_id)
        return None

    def _malformed(self, bad: MalformedMessage) -> Rejection:
        cause = bad.__cause__
        id = None if bad.reply is None else bad.reply.id
        null_id = bad.reply is not None and id is None and self.null_ids
        refused = self.reject(400, bad.message, code=bad.code, id=id, null_id=null_id)
        if isinstance(cause, LimitExceeded) and cause.setting == "Limits.message_bytes":
            refused = self.too_large(cause.observed)
        return attrs.evolve(refused, answers=stand_in(bad))

    def _foreign_version(self, message: Message | Batch | None) -> Rejection | None:
        """Reject a version header with a revision that the server does not support."""
        served = self._served
        if self.version is None or self.version in served.names:
            return None
        unsupported = UnsupportedProtocolVersion.of(self.version[:_QUOTED], served.names)
        if served.legacy:
            # The code is from 2026-07-28, and the client may not know it.
            unsupported.code = ErrorCode.INVALID_REQUEST
        return self._failed(unsupported, message)

    def _without_legacy(self, message: Message | Batch) -> Rejection:
        """Reject a message without a version: the server has no legacy revision."""
        served = self._served
        if type(message) is Request and message.method == INITIALIZE.name:
            proposed = (message.params or {}).get("protocolVersion")
            requested = proposed if isinstance(proposed, str) else ""
            return self._failed(UnsupportedProtocolVersion.of(requested[:_QUOTED], served.names), message)
        return self._failed(HeaderMismatch(_no_version(served)), message)

    def _outside_session(self, message: Message | Batch) -> Rejection | None:
        """Reject a message that requires a session and names none of them."""
        if not self._served.legacy:
            return self._without_legacy(message)
        if self.session_id is None and type(message) is Request and message.method == INITIALIZE.name:
            return None
        if self.session_id is None and self.version is None and self._served.version_header:
            return self._failed(HeaderMismatch(_no_version(self._served)), message)
        return self._bad_session_id(message)

    def _bad_session_id(self, message: Message | Batch | None) -> Rejection | None:
        if self.session_id is None:
            reason = _NO_SESSION
        elif len(self._request.headers.all(MCP_SESSION_ID)) > 1:
            reason = "Mcp-Session-Id is repeated"
        else:
            return None
        return self.reject(400, reason, id=None if message is None else id_of(message), null_id=self._null_id(message))

    def _unacceptable(self, lacks: str, *, id: RequestId | None = None) -> Rejection:
        given = ", ".join(self._request.headers.all("accept"))
        return self.reject(406, f"Accept {given!a:.80} has {lacks}", id=id)

    def _failed(self, failure: RequestFailed, message: Message | Batch | None) -> Rejection:
        id = None if message is None else id_of(message)
        null_id = self._null_id(message)
        return self.reject(400, failure.message, code=failure.code, id=id, data=failure.data, null_id=null_id)


def _is_enveloped(message: Message | Batch) -> bool:
    """Return whether `_meta` names a revision, as in every modern request and in no legacy message."""
    if not isinstance(message, (Request, Notification)) or message.params is None:
        return False
    meta = message.params.get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION in meta


def _no_version(served: _ServedRevisions) -> str:
    return f"MCP-Protocol-Version is missing: it must name one of {', '.join(served.names)}, like _meta"
