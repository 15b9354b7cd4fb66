"""HTTP+SSE, the transport of 2024-11-05, for both sides.

The client GETs a stream. Its first event, `endpoint`, names the URI to which the client posts each of its messages; all
that the server has to say, answers included, comes as `message` events on the stream. The session is the stream: when
that ends, all ends, and there is nothing to resume.

A URI that a server names is not trusted, since it is posted to with all that the client has to show: it has to be of
the same origin as the stream. A server of ours names no host at all, which every client resolves in its own view.

Spec: basic/transports#http-with-sse (2024-11-05), basic/transports#backwards-compatibility (2025-03-26 to 2025-11-25).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, quote, urljoin, urlsplit

import attrs

from mcp_core.errors import (
    ConnectionEnded,
    LimitExceeded,
    LocalProtocolError,
    MalformedMessage,
    RemoteProtocolError,
    UnsupportedProtocolVersion,
)
from mcp_core.framing.sse import Event, encode_event
from mcp_core.http.event_reader import Deviations, EventReader, Received
from mcp_core.http.failures import clipped, failure_of
from mcp_core.http.media_types import EVENT_STREAM, accepts
from mcp_core.http.origin import refusal
from mcp_core.http.request_headers import ON_POST, get_headers
from mcp_core.http.response_type import Expect, expected_of_get, is_good
from mcp_core.http.responses import Refusal, id_of
from mcp_core.http.server import ServerExchange
from mcp_core.jsonrpc.codec import decode, stand_in
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, Notification, Request
from mcp_core.revisions import LEGACY
from mcp_core.types.meta import PROTOCOL_VERSION

if TYPE_CHECKING:
    from mcp_core.errors import HttpFailure
    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.http.messages import HttpHead, HttpRequest
    from mcp_core.jsonrpc.messages import Batch, JsonValue, Message, RequestId
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
"""The member of the query that names the session."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_URI: Final = re.compile(r"[!#-;=?-\[\]_a-z~]+")
"""The characters of a URI (RFC 3986). The backslash is none: some readers take it for a slash, and find another host."""

_PATH_SAFE: Final = "/-._~!$&'()*+,;=:@"
"""What stays as it is in a path (RFC 3986 section 3.3)."""

_MOST_FIELDS: Final = 20
"""A query has one field; a few more may have been added on the way."""

_SPOKEN: Final = frozenset(LEGACY)
_LEGACY_NAMES: Final = tuple(revision.name for revision in LEGACY)


# --- the client ----------------------------------------------------------------------------------------------------


class SseStream:
    """The client's end of the stream.

    Args:
        url: What the stream was got from, after redirects.
        limits: The bounds that hold here.
    """

    __slots__ = ("_limits", "_reader", "_url", "endpoint", "head", "notes")

    def __init__(self, url: str, limits: Limits) -> None:
        self.endpoint: str | None = None
        """The absolute URL to post to; `None` before the server named it."""
        self.head: HttpHead | None = None
        """How the response began; `None` before it did."""
        self.notes: Final = Deviations()
        """A sentence for each deviation that was survived; of very many the first. The caller may clear it."""
        self._url: Final = url
        self._limits: Final = limits
        self._reader: Final = EventReader(limits, self.notes)

    def headers(self) -> list[tuple[str, str]]:
        """The headers of the GET."""
        return get_headers("", None, None, self._limits)

    def receive_head(self, head: HttpHead) -> bool:
        """Takes the beginning of the response.

        Returns:
            Whether it is a stream. If not, read up to 512 bytes of it, and raise what `failure` gives.
        """
        self.head = head
        return expected_of_get(head) is Expect.STREAM

    def failure(self, body: bytes) -> HttpFailure:
        """The error for a response that is no stream: `AccessDenied` for 401 and 403.

        Args:
            body: Its beginning: 512 bytes, or all if there are less.
        """
        if self.head is None:
            raise LocalProtocolError("there was no response yet")
        return failure_of("GET", self.head, body)

    def receive_data(self, data: bytes) -> tuple[Received, ...]:
        """Takes a portion of the stream; `endpoint` may be known after it.

        Args:
            data: Any portion; empty when the stream ended properly.

        Returns:
            The messages that are complete now, and `MalformedMessage` for each event that holds none.

        Raises:
            RemoteProtocolError: The endpoint is of another origin, or cannot be posted to.
        """
        received: list[Received] = []
        for what in self._reader.receive_data(data):
            if not isinstance(what, Event):
                received.append(what)
            elif what.event == _ENDPOINT:
                self._named(what.data)
            else:
                self.notes.note(f"an event called {clipped(what.event)!r} was ignored")
        return tuple(received)

    def _named(self, data: bytes) -> None:
        endpoint = _resolved(self._url, data.decode("utf-8", "replace").strip())
        if self.endpoint is None:
            self.endpoint = endpoint
        elif endpoint != self.endpoint:
            # The session was opened under the first one.
            self.notes.note("another endpoint was named later, and ignored")

    def ended(self) -> ConnectionEnded:
        """The error for all that waits when the stream has ended."""
        before = "" if self.endpoint is not None else " before the server named its endpoint"
        return ConnectionEnded(f"the stream ended{before}, and with it the session")


def _resolved(base: str, reference: str) -> str:
    """The URL that a server names. Raises `RemoteProtocolError` when it is none that may be posted to."""
    if not _URI.fullmatch(reference):
        raise _bad_endpoint(reference, "it is no URI")
    try:
        url = urljoin(base, reference)
        origin, own = _origin(url), _origin(base)
    except ValueError:
        raise _bad_endpoint(reference, "it is no URL that can be read") from None
    if "@" in urlsplit(url).netloc:
        raise _bad_endpoint(reference, "it has a user or a password")
    if origin != own:
        scheme, host, port = own
        raise _bad_endpoint(reference, f"it must be of the origin of the stream, {scheme}, {host}, port {port}")
    return url.partition("#")[0]


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port. Raises `ValueError`."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, _DEFAULT_PORTS.get(parts.scheme) if parts.port is None else parts.port


def _bad_endpoint(reference: str, why: str) -> RemoteProtocolError:
    # What stands behind the question mark is the session, and a secret.
    shown = clipped(reference.partition("?")[0])
    return RemoteProtocolError(f"the server named an endpoint that is not posted to, {shown!r}: {why}", anchor=_ANCHOR)


def post_headers() -> list[tuple[str, str]]:
    """The headers of a POST."""
    return list(ON_POST)


def post_failure(head: HttpHead, body: bytes) -> HttpFailure | None:
    """The error for a POST that the server did not accept; `None` when it did, with whatever status of success.

    Args:
        head: How the response began.
        body: Of its body, 512 bytes, or all if there are less.
    """
    return None if is_good(head) else failure_of("POST", head, body)


# --- the server ----------------------------------------------------------------------------------------------------


def admit(request: HttpRequest, policy: EndpointPolicy, limits: Limits) -> Refusal | None:
    """Looks at all but the body of a GET of the stream, or a POST to the endpoint.

    The rules are those of Streamable HTTP: who sends it to whom (403), the method (405), of a POST what it brings (411 to
    415), what the client takes in return (406).

    Args:
        request: The request, without its body.
        policy: What the endpoint allows.
        limits: The bounds that hold here.

    Returns:
        `None` when it may come in. A preflight request of a listed origin is granted by a refusal of status 204. Which of
        the two methods a path has is for the caller to know.
    """
    responses = ServerExchange(request, policy, limits, _SPOKEN)
    if request.method in ("POST", "OPTIONS"):
        return responses.admit()
    foreign = refusal(request, policy.allowed_hosts, policy.allowed_origins)
    if foreign is not None:
        return responses.refuse(403, foreign)
    if request.method != "GET":
        allow = (("allow", "GET, POST"),)
        return responses.refuse(405, f"{request.method[:20]!a} is not allowed here, but GET, POST", headers=allow)
    if not accepts(request.headers, EVENT_STREAM):
        given = ", ".join(request.headers.all("accept"))
        return responses.refuse(406, f"Accept {given!a:.80} does not have {EVENT_STREAM}")
    return None


def session_of(request: HttpRequest) -> str | None:
    """The session that a POST names in its query, as `endpoint_event` wrote it; `None` when it names none, or several."""
    try:
        named = parse_qs(request.query, max_num_fields=_MOST_FIELDS).get(_SESSION, [])
    except ValueError:
        return None
    return named[0] if len(named) == 1 else None


def read_post(body: bytes, limits: Limits) -> Message | Batch | Refusal:
    """Looks at the body of a POST that was admitted.

    Args:
        body: All of it.
        limits: The bounds that hold here.

    Returns:
        The message. Whether a batch is allowed is known to the session: ask `ServerConnection.refuse_batch`. What is no
        message, or is a modern one, is refused with 400, and what is too large with 413. `Refusal.null_id` is true for
        what has no readable id; if the session is open, its revision decides.
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
    """The revision that a modern message names in its envelope; `None` when it has none."""
    params = message.params if isinstance(message, Request | Notification) else None
    meta = None if params is None else params.get("_meta")
    version = meta.get(PROTOCOL_VERSION) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


def _refused(status: int, message: str, code: int, id: RequestId | None, data: JsonValue = None) -> Refusal:
    error = ErrorResponse(id, ErrorObject(int(code), message, data))
    return Refusal(status=status, error=error, reason=message)


def endpoint_event(path: str, session: str) -> bytes:
    """The first event of a stream: where to post.

    Args:
        path: The path of the endpoint, the one below which the application is mounted included; not percent-encoded.
        session: The session. Who knows it can speak in it, so it must not be possible to guess.
    """
    # The path alone: behind a proxy the client knows the server by another name than the server itself.
    # Two slashes in front would make a host of what follows them.
    path = f"/{path.lstrip('/')}"
    uri = f"{quote(path, safe=_PATH_SAFE)}?{_SESSION}={quote(session, safe='')}"
    return encode_event(uri.encode("ascii"), event=_ENDPOINT)


def message_event(message: bytes) -> bytes:
    """The event for one message.

    Args:
        message: As `mcp_core.jsonrpc.codec.encode` writes it.
    """
    return encode_event(message, event="message")
