"""Every exception of this project, in one tree.

    McpError
     ├─ ProtocolError                   a rule of the protocol was broken; never raised itself
     │   ├─ LocalProtocolError          by the caller; nothing was sent
     │   └─ RemoteProtocolError         by the peer
     │       ├─ MalformedMessage        bytes that are no valid JSON-RPC message
     │       └─ InvalidValue            a params or result object that its type does not allow
     ├─ LimitExceeded                   a bound was hit; names the limit, the observed value, the setting
     ├─ RequestFailed                   a JSON-RPC error, received or to be sent
     │   ├─ UnsupportedProtocolVersion  -32022
     │   ├─ MissingRequiredClientCapability  -32021
     │   ├─ HeaderMismatch              -32020
     │   ├─ UrlElicitationRequired      -32042 (2025-11-25)
     │   └─ ResourceNotFound            -32002, or -32602 on revision 2026-07-28
     ├─ RequestTimeout                  one of the named deadlines fired
     ├─ NegotiationFailed               no revision or era in common
     ├─ TransportError                  the channel to the peer
     │   ├─ ConnectionEnded             the peer is gone; what waited for it ends with this
     │   │   └─ SessionExpired          an HTTP server no longer knows the session
     │   ├─ ProcessFailed               a child process did not start, or ended by itself
     │   └─ HttpFailure                 an HTTP answer that is no answer of the protocol
     │       └─ AccessDenied            401 or 403
     └─ AuthorizationError              no token was got; names every URL that was tried
         ├─ DiscoveryFailed             it is not known where to ask
         │   └─ UnsafeUrl               a URL from a peer leads where it must not
         ├─ IssuerMismatch              somebody speaks for another authorization server
         ├─ RegistrationFailed          there is no client id
         ├─ AuthorizationRefused        the user or the authorization server said no
         ├─ TokenRefused                the token endpoint gave no token
         └─ InsufficientScope           the token does not suffice, and another one was not got

Blame is explicit: *Local* is the caller's fault, *Remote* the peer's. It is decided once, where a
message crosses the boundary.

What happened around an error (method, request id, peer, phase, the tail of a child's stderr) is kept
in `McpError.circumstances`, and shown by `str()`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from mcp_core.excerpts import EXCERPT_CHARS, quoted, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_core.jsonrpc.messages import ErrorResponse, JsonValue, RequestId

__all__ = [
    "EXCERPT_BYTES",
    "AccessDenied",
    "Attempt",
    "AuthorizationError",
    "AuthorizationRefused",
    "Circumstances",
    "ConnectionEnded",
    "DiscoveryFailed",
    "ErrorCode",
    "HeaderMismatch",
    "HttpFailure",
    "InsufficientScope",
    "InvalidValue",
    "IssuerMismatch",
    "LimitExceeded",
    "LocalProtocolError",
    "MalformedMessage",
    "McpError",
    "MissingRequiredClientCapability",
    "NegotiationFailed",
    "Phase",
    "ProcessFailed",
    "ProtocolError",
    "RegistrationFailed",
    "RemoteProtocolError",
    "RequestFailed",
    "RequestTimeout",
    "ResourceNotFound",
    "SessionExpired",
    "TokenRefused",
    "TransportError",
    "UnsafeUrl",
    "UnsupportedProtocolVersion",
    "UrlElicitationRequired",
    "request_failed",
]

_URI_CHARS: Final = 2_000
"""Characters of a URI that an error repeats: as long as URIs are in practice."""

EXCERPT_BYTES: Final = 512
"""How much of an answer that is none of ours an error quotes."""


class ErrorCode(enum.IntEnum):
    """The JSON-RPC error codes that the revisions define.

    Spec: basic#error-codes (2026-07-28), JSON-RPC 2.0 section 5.1.
    """

    PARSE_ERROR = -32700
    """The bytes were not JSON."""
    INVALID_REQUEST = -32600
    """The JSON was no valid message, or not one that is allowed now."""
    METHOD_NOT_FOUND = -32601
    """The method does not exist, or belongs to a capability that was not declared."""
    INVALID_PARAMS = -32602
    """The parameters are wrong, or name something that does not exist."""
    INTERNAL_ERROR = -32603
    """The receiver failed."""
    RESOURCE_NOT_FOUND = -32002
    """Legacy revisions only."""
    HEADER_MISMATCH = -32020
    """2026-07-28, HTTP: a header is missing, malformed or differs from the body."""
    MISSING_REQUIRED_CLIENT_CAPABILITY = -32021
    """2026-07-28: the request needs a capability that the client did not declare."""
    UNSUPPORTED_PROTOCOL_VERSION = -32022
    """2026-07-28: the server does not implement the requested revision."""
    URL_ELICITATION_REQUIRED = -32042
    """2025-11-25 only."""
    USER_REJECTED = -1
    """The user declined a sampling request."""


class Phase(enum.Enum):
    """Where in the life of a connection something happened."""

    CONNECT = "connect"
    NEGOTIATE = "negotiate"
    REQUEST = "request"
    CLOSE = "close"


@attrs.frozen(kw_only=True)
class Circumstances:
    """What was going on when an error happened. Everything is optional."""

    method: str | None = None
    """The method of the request concerned."""
    request_id: RequestId | None = None
    """Its JSON-RPC id."""
    peer: str | None = None
    """Who is at the other end: a name and version, or a command line."""
    phase: Phase | None = None
    """Where in the connection's life it happened."""
    stderr_tail: str | None = None
    """The last lines that a child process wrote to stderr, 20 at most, in errors about the process itself: it did not
    answer when it was started, it exited, or it closed its end of the connection."""
    attempts: tuple[str, ...] = ()
    """Each attempt to connect, in order, the last one included: what was sent and how it ended. Empty after one."""

    def describe(self) -> str:
        """One line with what is known, or an empty string."""
        facts = []
        if self.method is not None:
            facts.append(f"method {shown(self.method)}")
        if self.request_id is not None:
            facts.append(f"id {quoted(self.request_id)}")
        if self.peer is not None:
            facts.append(f"peer {shown(self.peer, 4 * EXCERPT_CHARS)}")
        if self.phase is not None:
            facts.append(f"phase {self.phase.value}")
        return ", ".join(facts)


class McpError(Exception):
    """The root of every exception that this project raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message: str = message
        """What went wrong, in one sentence, without the circumstances."""
        self.circumstances: Circumstances = Circumstances()
        """What was going on; filled in by the layer that knows."""

    def __str__(self) -> str:
        lines = [self.message]
        around = self.circumstances.describe()
        if around:
            lines[0] = f"{self.message} ({around})"
        lines[0] += self._label()
        lines.extend(f"  {number}. {attempt}" for number, attempt in enumerate(self.circumstances.attempts, 1))
        if self.circumstances.stderr_tail:
            lines.append("The end of its stderr:")
            lines.append(self.circumstances.stderr_tail.rstrip("\n"))
        return "\n".join(lines)

    def _label(self) -> str:
        """What stands behind the sentence, before the end of the stderr."""
        return ""


class ProtocolError(McpError):
    """A rule of the protocol was broken. Catch this; only its subclasses are raised."""

    code: int = ErrorCode.INVALID_REQUEST
    """The JSON-RPC code that the offence has on the wire."""
    anchor: str | None = None
    """The page and section of the specification that has the rule."""

    def __init__(self, message: str, *, code: int | None = None, anchor: str | None = None) -> None:
        if type(self) is ProtocolError:
            raise TypeError("raise LocalProtocolError or RemoteProtocolError: the blame has to be known")
        super().__init__(message)
        if code is not None:
            self.code = code
        if anchor is not None:
            self.anchor = anchor


class LocalProtocolError(ProtocolError):
    """The caller asked for what the revision, the state or the capabilities forbid. Nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer broke a rule."""


class MalformedMessage(RemoteProtocolError):
    """Bytes from the peer that are no valid JSON-RPC message.

    The connection lives on: send `reply`, when there is one, and go on with the next message.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int = ErrorCode.INVALID_REQUEST,
        reply: ErrorResponse | None = None,
        answers: RequestId | None = None,
        excerpt: bytes = b"",
    ) -> None:
        super().__init__(message, code=code, anchor="basic#messages")
        self.reply: ErrorResponse | None = reply
        """What JSON-RPC wants to be answered; `None` where an answer would be wrong (to an answer)."""
        self.answers: RequestId | None = answers
        """The id of the request that it was meant to answer, if that can be read: nothing else will answer it. With a
        `reply`, it is an answer only if there is such a request."""
        self.excerpt: bytes = excerpt
        """The beginning of the offending bytes."""


class InvalidValue(RemoteProtocolError):
    """A value that its type does not allow: what was wrong, and where."""

    code = ErrorCode.INVALID_PARAMS

    def __init__(self, message: str, *, path: str = "", raw: JsonValue = None) -> None:
        super().__init__(f"{path}: {message}" if path else message, code=ErrorCode.INVALID_PARAMS)
        self.path: str = path
        """Where, as `content[0].text`; empty for the value itself."""
        self.raw: JsonValue = raw
        """The whole value as it was received, so that nothing is lost."""


class LimitExceeded(McpError):
    """A bound was hit."""

    def __init__(self, limit: str, *, observed: int, allowed: int, setting: str) -> None:
        super().__init__(f"{limit}: {observed} is over the limit of {allowed}; the setting is {setting}")
        self.limit: str = limit
        """What is bounded, with its unit."""
        self.observed: int = observed
        """The value that was met, in the unit of the limit. A lower bound where the rest was not read."""
        self.allowed: int = allowed
        """The bound."""
        self.setting: str = setting
        """The setting to change, as `Limits.message_bytes`."""


class RequestFailed(McpError):
    """A JSON-RPC error: received as the answer to a request, or raised in a handler to be sent.

    Spec: basic#error-responses
    """

    default_code: ClassVar[int] = ErrorCode.INTERNAL_ERROR

    def __init__(self, message: str, *, code: int | None = None, data: JsonValue = None) -> None:
        super().__init__(message)
        self.code: int = int(self.default_code if code is None else code)
        """The JSON-RPC error code."""
        self.data: JsonValue = data
        """What the error object carried besides; `None` when it carried nothing."""

    def _label(self) -> str:
        return f" [{self.code}]"


class UnsupportedProtocolVersion(RequestFailed):
    """The server does not implement the requested revision. Spec: basic/versioning (2026-07-28)."""

    default_code = ErrorCode.UNSUPPORTED_PROTOCOL_VERSION

    @classmethod
    def of(cls, requested: str, supported: Sequence[str]) -> UnsupportedProtocolVersion:
        """The error for a `requested` revision, naming the `supported` ones."""
        return cls(
            f"protocol version {quoted(requested)} is not supported; supported: {', '.join(supported)}",
            data={"supported": list(supported), "requested": shown(requested)},
        )

    @property
    def supported(self) -> tuple[str, ...]:
        """The revisions that the server says it implements; empty when it does not say."""
        listed = self.data.get("supported") if isinstance(self.data, dict) else None
        return tuple(name for name in listed if isinstance(name, str)) if isinstance(listed, list) else ()


def _dotted(capabilities: Mapping[str, JsonValue]) -> list[str]:
    """What people write for capabilities: `elicitation.url`."""
    found: list[str] = []
    for name, inner in capabilities.items():
        below = _dotted(inner) if isinstance(inner, dict) else []
        found += [f"{name}.{each}" for each in below] or [name]
    return found


class MissingRequiredClientCapability(RequestFailed):
    """The request needs a capability that the client did not declare. Spec: basic#error-codes (2026-07-28)."""

    default_code = ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY

    @classmethod
    def of(cls, required: Mapping[str, JsonValue], what: str) -> MissingRequiredClientCapability:
        """The error for `what` was tried, with the capabilities that it `required`."""
        return cls(
            f"{what} needs a client capability that was not declared: {', '.join(_dotted(required))}",
            data={"requiredCapabilities": dict(required)},
        )


class HeaderMismatch(RequestFailed):
    """An HTTP header is missing, malformed or differs from the body. Spec: basic/transports (2026-07-28)."""

    default_code = ErrorCode.HEADER_MISMATCH


class UrlElicitationRequired(RequestFailed):
    """The user has to visit a URL first. Spec: client/elicitation (2025-11-25)."""

    default_code = ErrorCode.URL_ELICITATION_REQUIRED


class ResourceNotFound(RequestFailed):
    """There is no such resource. The code on the wire follows the revision: see `Revision.resource_not_found`."""

    default_code = ErrorCode.RESOURCE_NOT_FOUND

    @classmethod
    def of(cls, uri: str) -> ResourceNotFound:
        """The error for `uri`."""
        return cls(f"resource not found: {shown(uri, _URI_CHARS)}", data={"uri": shown(uri, _URI_CHARS)})


_BY_CODE: dict[int, type[RequestFailed]] = {
    kind.default_code: kind
    for kind in (
        UnsupportedProtocolVersion,
        MissingRequiredClientCapability,
        HeaderMismatch,
        UrlElicitationRequired,
        ResourceNotFound,
    )
}


def request_failed(code: int, message: str, data: JsonValue = None) -> RequestFailed:
    """The most telling class for a received error object.

    Args:
        code: The JSON-RPC code.
        message: The error's message.
        data: The error's data.

    Returns:
        An instance of `RequestFailed` or of the subclass that stands for `code`.
    """
    return _BY_CODE.get(code, RequestFailed)(message, code=code, data=data)


class RequestTimeout(McpError):
    """A deadline passed while something was awaited."""

    def __init__(self, message: str, *, deadline: str, seconds: float) -> None:
        super().__init__(f"{message}: the {deadline} deadline of {seconds:g} s passed")
        self.deadline: str = deadline
        """Which of the named deadlines fired: `connect`, `idle` or `total`."""
        self.seconds: float = seconds
        """Its value in seconds."""


class NegotiationFailed(McpError):
    """The two sides have no revision, or no era, in common."""

    def __init__(self, message: str, *, ours: Sequence[str] = (), theirs: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.ours: tuple[str, ...] = tuple(ours)
        """The revisions that this side was willing to speak."""
        self.theirs: tuple[str, ...] = tuple(theirs)
        """The revisions that the peer named; empty when it named none."""


class TransportError(McpError):
    """The channel to the peer failed."""


class ConnectionEnded(TransportError):
    """The peer is gone. Whatever still waited for it ends with this error; whether it was processed is unknown."""


class SessionExpired(ConnectionEnded):
    """The HTTP server does not know the session any more, by 404 or, as some say it, 400: the request was not processed.

    Spec: basic/transports#session-management (legacy)
    """


class HttpFailure(TransportError):
    """An HTTP answer that is no answer of the protocol: its status, and the beginning of its body."""

    def __init__(self, message: str, *, status: int, body: bytes = b"") -> None:
        super().__init__(message)
        self.status: int = status
        """The HTTP status."""
        self.body: bytes = body[:EXCERPT_BYTES]
        """The first 512 bytes of the body."""


class AccessDenied(HttpFailure):
    """The server wants (other) credentials: 401 or 403. Spec: basic/authorization"""

    def __init__(self, message: str, *, status: int, body: bytes = b"", challenges: Sequence[str] = ()) -> None:
        super().__init__(message, status=status, body=body)
        self.challenges: tuple[str, ...] = tuple(challenges)
        """The values of `WWW-Authenticate`, as they came."""


class ProcessFailed(TransportError):
    """A child process could not be started, or ended by itself."""

    def __init__(self, message: str, *, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code: int | None = exit_code
        """The exit status, negative for a signal as in `subprocess`; `None` when it never ran."""


@attrs.frozen
class Attempt:
    """One URL that was tried on the way to a token."""

    url: str
    """The URL, without its query where that has secrets."""
    why: str
    """What it was tried for."""
    verdict: str
    """What came of it."""

    def __str__(self) -> str:
        return f"{self.url} ({self.why}): {self.verdict}"


class AuthorizationError(McpError):
    """No token was got. Neither the sentence nor the attempts have secrets in them. Spec: basic/authorization"""

    def __init__(self, message: str, *, attempts: Sequence[Attempt] = ()) -> None:
        super().__init__(message)
        self.attempts: tuple[Attempt, ...] = tuple(attempts)
        """Every URL that was tried, in order, with what came of it; filled in by the flow."""

    def _label(self) -> str:
        return "".join(f"\n  {attempt}" for attempt in self.attempts)


class DiscoveryFailed(AuthorizationError):
    """The authorization server was not found, or its metadata cannot be used."""


class UnsafeUrl(DiscoveryFailed):
    """A URL that came from a peer, or is to be opened, leads where it must not."""

    def __init__(self, url: str, reason: str, *, what: str) -> None:
        super().__init__(f"{what} {url[:200]!a} is not used: {reason}")
        self.url: str = url
        """The URL, as it came."""
        self.reason: str = reason
        """What is wrong with it."""
        self.what: str = what
        """What it was meant for, as `token_endpoint`."""


class IssuerMismatch(AuthorizationError):
    """Somebody speaks for another authorization server than was asked. Spec: RFC 8414 section 3.3, RFC 9207"""

    def __init__(self, message: str, *, expected: str, received: str | None) -> None:
        super().__init__(message)
        self.expected: str = expected
        """The issuer that was to answer."""
        self.received: str | None = received
        """The issuer that is named in the answer; `None` when there is none."""


class _OAuthRefusal(AuthorizationError):
    """An error answer of OAuth (RFC 6749 section 5.2)."""

    def __init__(
        self, message: str, *, error: str | None = None, description: str | None = None, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.error: str | None = error
        """The code that came, as `invalid_grant`."""
        self.description: str | None = description
        """What the authorization server says of it, cut to a line. It is the word of a stranger."""
        self.status: int | None = status
        """The HTTP status; `None` when it came through the browser, or no answer came."""


class RegistrationFailed(_OAuthRefusal):
    """The client has no client id at this authorization server, and got none. Spec: basic/authorization#client-registration"""


class AuthorizationRefused(_OAuthRefusal):
    """The browser came back without a code: the user or the authorization server said no."""


class TokenRefused(_OAuthRefusal):
    """The token endpoint gave no token that can be used."""


class InsufficientScope(AuthorizationError):
    """The token does not suffice for what was tried, and asking again is of no use. Spec: basic/authorization#step-up"""

    def __init__(self, message: str, *, required: Sequence[str] = (), granted: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.required: tuple[str, ...] = tuple(required)
        """The scopes that the server wants; empty when it does not say."""
        self.granted: tuple[str, ...] = tuple(granted)
        """The scopes that the token has, as far as known."""
        self.authorization_url: str | None = None
        """Where a person can grant them; `None` where that is not known."""
