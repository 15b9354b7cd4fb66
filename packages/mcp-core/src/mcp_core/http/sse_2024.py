"""HTTP+SSE, the transport of 2024-11-05, for client and server.

The client GETs a stream. The first event, `endpoint`, names the URI to which the client posts each of its messages. The
server sends all of its messages, including responses, as `message` events on the stream. The stream is the session:
when the stream ends, the session ends, and cannot be resumed.

The client does not trust the URI of the endpoint, because it posts its credentials there: the URI must have the same
origin as the stream. The server of this project names no host, so that each client resolves the URI against its own
URL.

Spec: basic/transports#http-with-sse (2024-11-05), basic/transports#backwards-compatibility (2025-03-26 to 2025-11-25).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, quote, urljoin, urlsplit

import attrs

from mcp_core.codec import decode, stand_in
from mcp_core.errors import (
    ConnectionEnded,
    LimitExceeded,
    LocalProtocolError,
    MalformedMessage,
    RemoteProtocolError,
    UnsupportedProtocolVersion,
)
from mcp_core.framing.sse import Event, encode_event
from mcp_core.http.client import (
    ON_POST,
    Deviations,
    EventReader,
    Expect,
    Received,
    expected_of_get,
    get_headers,
    is_good,
)
from mcp_core.http.failures import clipped, failure_of
from mcp_core.http.media_types import EVENT_STREAM, accepts
from mcp_core.http.origin import rejection
from mcp_core.http.server import Rejection, ServerExchange, id_of
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, Notification, Request
from mcp_core.revisions import LEGACY
from mcp_core.types.meta import PROTOCOL_VERSION

if TYPE_CHECKING:
    from mcp_core.codec import Batch
    from mcp_core.errors import HttpFailure
    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.http.messages import HttpHead, HttpRequest
    from mcp_core.jsonrpc.messages import JsonValue, Message, RequestId
    from mcp_core.limits import Limits

__all__ = [
    "SseStream",
    "admit",
    "endpoint_event",
    "message_event",
    "post_failure",
    "post_headers",
    "read_post",
    "session_of",
]

_ANCHOR: Final = "basic/transports#http-with-sse"

_ENDPOINT: Final = "endpoint"
_SESSION: Final = "session"
"""The query parameter that names the session."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_URI: Final = re.compile(r"[!#-;=?-\[\]_a-z~]+")
"""The characters of a URI (RFC 3986), without the backslash: some parsers treat it as a slash, and obtain another
host."""

_PATH_SAFE: Final = "/-._~!$&'()*+,;=:@"
"""Characters that are not encoded in a path (RFC 3986 section 3.3)."""

_MOST_FIELDS: Final = 20
"""The query of an endpoint has one field. Intermediaries may add a few more."""

_SPOKEN: Final = frozenset(LEGACY)
_LEGACY_NAMES: Final = tuple(revision.name for revision in LEGACY)


# --- the client ----------------------------------------------------------------------------------------------------


class SseStream:
    """The client side of the stream.

    Args:
        url: The URL of the stream, after redirects.
        limits: The limits for the messages of the stream.
    """

    __slots__ = ("_limits", "_reader", "_url", "endpoint", "head", "notes")

    def __init__(self, url: str, limits: Limits) -> None:
        self.endpoint: str | None = None
        """The absolute URL for POST requests; `None` until the server names it."""
        self.head: HttpHead | None = None
        """The head of the response; `None` before the response."""
        self.notes: Final = Deviations()
        """The tolerated deviations, one sentence each. The number is bounded: later ones are dropped. The caller may
        clear the list."""
        self._url: Final = url
        self._limits: Final = limits
        self._reader: Final = EventReader(limits, self.notes)

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers of the GET."""
        return get_headers("", None, None, self._limits)

    def receive_head(self, head: HttpHead) -> bool:
        """Record the head of the response.

        Returns:
            Whether the response is a stream. If not, read up to 512 bytes of it, and raise the result of `failure`.
        """
        self.head = head
        return expected_of_get(head) is Expect.STREAM

    def failure(self, body: bytes) -> HttpFailure:
        """Return the error for a response that is not a stream: `AccessDenied` for 401 and 403.

        Args:
            body: The first 512 bytes of the body, or the whole body if it is shorter.

        Raises:
            LocalProtocolError: There is no response yet.
        """
        if self.head is None:
            raise LocalProtocolError("there is no response yet: call receive_head first")
        return failure_of("GET", self.head, body)

    def receive_data(self, data: bytes) -> tuple[Received, ...]:
        """Read a portion of the stream, which may set `endpoint`.

        Args:
            data: Any portion; empty if the stream ended properly.

        Returns:
            The messages that are complete now, and a `MalformedMessage` for each event without a valid message.

        Raises:
            RemoteProtocolError: The endpoint has another origin, or is not a valid URL.
        """
        received: list[Received] = []
        for what in self._reader.receive_data(data):
            if not isinstance(what, Event):
                received.append(what)
            elif what.event == _ENDPOINT:
                self._named(what.data)
            else:
                self.notes.note(f"ignored an event of type {clipped(what.event)!r}")
        return tuple(received)

    def _named(self, data: bytes) -> None:
        endpoint = _resolved(self._url, data.decode("utf-8", "replace").strip())
        if self.endpoint is None:
            self.endpoint = endpoint
        elif endpoint != self.endpoint:
            # The session belongs to the first endpoint.
            self.notes.note("ignored a second endpoint with another URI")

    def ended(self) -> ConnectionEnded:
        """Return the error for the pending requests after the end of the stream."""
        before = "" if self.endpoint is not None else " before the server named its endpoint"
        return ConnectionEnded(f"the stream ended{before}, which ends the session")


def _resolved(base: str, reference: str) -> str:
    """Return the absolute URL of the endpoint. Raises `RemoteProtocolError` if the URL is not allowed."""
    if not _URI.fullmatch(reference):
        raise _bad_endpoint(reference, "it is not a URI")
    try:
        url = urljoin(base, reference)
        origin, own = _origin(url), _origin(base)
    except ValueError:
        raise _bad_endpoint(reference, "it is not a valid URL") from None
    if "@" in urlsplit(url).netloc:
        raise _bad_endpoint(reference, "it contains a user name or a password")
    if origin != own:
        scheme, host, port = own
        raise _bad_endpoint(reference, f"it must have the origin of the stream, {scheme}, {host}, port {port}")
    return url.partition("#")[0]


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port. Raises `ValueError` for an invalid URL."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, _DEFAULT_PORTS.get(parts.scheme) if parts.port is None else parts.port


def _bad_endpoint(reference: str, why: str) -> RemoteProtocolError:
    # The query contains the session id, which is a secret.
    shown = clipped(reference.partition("?")[0])
    return RemoteProtocolError(f"the server named an endpoint that is not allowed, {shown!r}: {why}", anchor=_ANCHOR)


def post_headers() -> list[tuple[str, str]]:
    """Return the headers of a POST."""
    return list(ON_POST)


def post_failure(head: HttpHead, body: bytes) -> HttpFailure | None:
    """Return the error for a POST that the server rejected; `None` if the status is 2xx.

    Args:
        head: The head of the response.
        body: The first 512 bytes of the body, or the whole body if it is shorter.
    """
    return None if is_good(head) else failure_of("POST", head, body)


# --- the server ----------------------------------------------------------------------------------------------------


def admit(request: HttpRequest, policy: EndpointPolicy, limits: Limits) -> Rejection | None:
    """Check a GET of the stream, or a POST to the endpoint, before its body is read.

    The rules are those of Streamable HTTP: origin and host (403), method (405), for a POST the type, encoding and
    length of the body (400, 413, 415), and the accepted media types (406).

    Args:
        request: The request, without its body.
        policy: The settings of the endpoint.
        limits: The limits of the endpoint.

    Returns:
        `None` if the request is admitted. A preflight request of a listed origin is granted by a rejection with status
        204. The caller has to check which of the two methods a path supports.
    """
    responses = ServerExchange(request, policy, limits, _SPOKEN)
    if request.method in ("POST", "OPTIONS"):
        return responses.admit()
    foreign = rejection(request, policy.allowed_hosts, policy.allowed_origins)
    if foreign is not None:
        return responses.reject(403, foreign)
    if request.method != "GET":
        allow = (("allow", "GET, POST"),)
        return responses.reject(
            405, f"method {request.method[:20]!a} is not allowed; allowed: GET, POST", headers=allow
        )
    if not accepts(request.headers, EVENT_STREAM):
        given = ", ".join(request.headers.all("accept"))
        return responses.reject(406, f"Accept {given!a:.80} does not include {EVENT_STREAM}")
    return None


def session_of(request: HttpRequest) -> str | None:
    """Return the session in the query of a POST, as written by `endpoint_event`; `None` unless there is exactly one."""
    try:
        named = parse_qs(request.query, max_num_fields=_MOST_FIELDS).get(_SESSION, [])
    except ValueError:
        return None
    return named[0] if len(named) == 1 else None


def read_post(body: bytes, limits: Limits) -> Message | Batch | Rejection:
    """Read the body of an admitted POST.

    Args:
        body: The whole body.
        limits: The limits for the message.

    Returns:
        The message. Only the session knows whether a batch is allowed: call `ServerConnection.refuse_batch`. An invalid
        or a modern message is rejected with 400, a message that is too large with 413. `Rejection.null_id` is true for a
        message without a readable id. If the session is open, its revision decides.
    """
    try:
        message = decode(body, limits)
    except MalformedMessage as bad:
        excess = bad.__cause__
        large = isinstance(excess, LimitExceeded) and excess.setting == "Limits.message_bytes"
        refused = _refused(413 if large else 400, bad.message, bad.code, None if bad.reply is None else bad.reply.id)
        unreadable = bad.reply is not None and bad.reply.id is None
        return attrs.evolve(refused, null_id=unreadable, answers=stand_in(bad))
    named = _modern_version(message)
    if named is None:
        return message
    error = UnsupportedProtocolVersion.of(named, _LEGACY_NAMES)
    why = f"{error.message}; HTTP+SSE is the transport of 2024-11-05"
    return _refused(400, why, error.code, id_of(message), error.data)


def _modern_version(message: Message | Batch) -> str | None:
    """Return the revision in the request metadata (`_meta`) of a modern message; `None` for other messages."""
    params = message.params if isinstance(message, Request | Notification) else None
    meta = None if params is None else params.get("_meta")
    version = meta.get(PROTOCOL_VERSION) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


def _refused(status: int, message: str, code: int, id: RequestId | None, data: JsonValue = None) -> Rejection:
    error = ErrorResponse(id, ErrorObject(int(code), message, data))
    return Rejection(status=status, error=error, reason=message)


def endpoint_event(path: str, session: str) -> bytes:
    """Return the first event of a stream, which names the URI for POST requests.

    Args:
        path: The path of the endpoint, not percent-encoded. It includes the path at which the application is mounted.
        session: The session id. It must be unguessable, because any client that knows it can send in the session.
    """
    # Only the path, because behind a proxy the client uses another host name than the server.
    # With two leading slashes the next segment would be a host.
    path = f"/{path.lstrip('/')}"
    uri = f"{quote(path, safe=_PATH_SAFE)}?{_SESSION}={quote(session, safe='')}"
    return encode_event(uri.encode("ascii"), event=_ENDPOINT)


def message_event(message: bytes) -> bytes:
    """Return the event for one message.

    Args:
        message: The message, as written by `mcp_core.codec.encode`.
    """
    return encode_event(message, event="message")
