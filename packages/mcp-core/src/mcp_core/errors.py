"""All exceptions of this project, in one tree.

    McpError
     ├─ ProtocolError                   a rule of the protocol was broken; never raised itself
     │   ├─ LocalProtocolError          by the caller; nothing was sent
     │   └─ RemoteProtocolError         by the peer
     │       ├─ MalformedMessage        bytes that are not a valid JSON-RPC message
     │       └─ InvalidValue            params or a result that the type does not allow
     ├─ LimitExceeded                   a limit was exceeded; names the limit, the observed value, the setting
     ├─ RequestFailed                   a JSON-RPC error, received or to be sent
     │   ├─ UnsupportedProtocolVersion  -32022
     │   ├─ MissingRequiredClientCapability  -32021
     │   ├─ HeaderMismatch              -32020
     │   ├─ UrlElicitationRequired      -32042 (2025-11-25)
     │   └─ ResourceNotFound            -32002, or -32602 on revision 2026-07-28
     ├─ RequestTimeout                  one of the named deadlines has passed
     ├─ NegotiationFailed               no revision or era in common
     ├─ TransportError                  the transport to the peer failed
     │   ├─ ConnectionEnded             the peer disconnected; pending requests fail with this error
     │   │   └─ SessionExpired          an HTTP server does not know the session
     │   ├─ ProcessFailed               a child process did not start, or exited
     │   └─ HttpFailure                 an HTTP response that is not an MCP response
     │       └─ AccessDenied            401 or 403
     ├─ WrongAsyncLibrary               a function needs an async library or an event loop that does not run here
     └─ AuthorizationError              no token was obtained; names every URL that was tried
         ├─ DiscoveryFailed             the authorization server was not found
         │   └─ UnsafeUrl               a URL from a peer points to a forbidden destination
         ├─ IssuerMismatch              the response names another authorization server
         ├─ RegistrationFailed          there is no client id
         ├─ AuthorizationRefused        the user or the authorization server denied the authorization
         ├─ TokenRefused                the token endpoint returned no token
         └─ InsufficientScope           the scope of the token is insufficient, and no better token was obtained

Blame is explicit: *Local* is the fault of the caller, *Remote* the fault of the peer. The blame is assigned once,
where a message crosses the boundary.

The context of an error (method, request id, peer, phase, the last lines of a child's stderr) is stored in
`McpError.context` and included in `str()`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from mcp_core.excerpts import EXCERPT_CHARS, quoted, shown
from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_core.jsonrpc.messages import ErrorResponse, JsonValue, RequestId

__all__ = [
    "EXCERPT_BYTES",
    "AccessDenied",
    "Attempt",
    "AuthorizationError",
    "AuthorizationRefused",
    "ConnectionEnded",
    "DiscoveryFailed",
    "ErrorCode",
    "ErrorContext",
    "HeaderMismatch",
    "HttpFailure",
    "InsufficientScope",
    "InvalidValue",
    "IssuerMismatch",
    "LimitExceeded",
    "LocalProtocolError",
    "MalformedMessage",
    "McpError",
    "MissingExtra",
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
    "UnsupportedType",
    "UrlElicitationRequired",
    "WrongAsyncLibrary",
    "request_failed",
]

_URI_CHARS: Final = 2_000
"""The maximum number of characters of a URI in an error: as long as URIs are in practice."""

EXCERPT_BYTES: Final = 512
"""The maximum number of bytes of a response that is not an MCP response, in an error."""


class ErrorCode(enum.IntEnum):
    """The JSON-RPC error codes that the revisions define.

    Spec: basic#error-codes (2026-07-28), JSON-RPC 2.0 section 5.1.
    """

    PARSE_ERROR = -32700
    """The bytes were not JSON."""
    INVALID_REQUEST = -32600
    """The JSON was not a valid message, or the message is not allowed now."""
    METHOD_NOT_FOUND = -32601
    """The method does not exist, or belongs to a capability that was not declared."""
    INVALID_PARAMS = -32602
    """The parameters are invalid, or name something that does not exist."""
    INTERNAL_ERROR = -32603
    """The receiver failed."""
    RESOURCE_NOT_FOUND = -32002
    """The resource does not exist. Legacy revisions only."""
    HEADER_MISMATCH = -32020
    """2026-07-28, HTTP: a header is missing, malformed or differs from the body."""
    MISSING_REQUIRED_CLIENT_CAPABILITY = -32021
    """2026-07-28: the request requires a capability that the client did not declare."""
    UNSUPPORTED_PROTOCOL_VERSION = -32022
    """2026-07-28: the server does not implement the requested revision."""
    URL_ELICITATION_REQUIRED = -32042
    """The user must visit a URL first. 2025-11-25 only."""
    USER_REJECTED = -1
    """The user declined a sampling request."""


class Phase(enum.Enum):
    """The phase of a connection in which an error occurred."""

    CONNECT = "connect"
    NEGOTIATE = "negotiate"
    REQUEST = "request"
    CLOSE = "close"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ErrorContext(FieldValue):
    """The context of an error. All attributes are optional."""

    method: str | None = None
    """The method of the request."""
    request_id: RequestId | None = None
    """The JSON-RPC id of the request."""
    peer: str | None = None
    """The peer: a name and version, or a command line."""
    phase: Phase | None = None
    """The phase of the connection."""
    stderr_tail: str | None = None
    """The last lines that a child process wrote to stderr, at most 20, in errors about the process itself: it did not
    respond after its start, it exited, or it closed its end of the connection."""
    attempts: tuple[str, ...] = ()
    """Each attempt to connect, in order: what was sent and how it ended. Empty if there was only one attempt."""
    missing_env: tuple[str, ...] = ()
    """Environment variables that a child process that exited seems to require, by its stderr, and was started without."""

    def describe(self) -> str:
        """Return one line with the known facts, or an empty string."""
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
    """The base class of all exceptions that this project raises intentionally."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message: str = message
        """The error in one sentence, without its context."""
        self.context: ErrorContext = ErrorContext()
        """The context of the error; filled in by the layer that knows it."""

    def __str__(self) -> str:
        lines = [self.message]
        around = self.context.describe()
        if around:
            lines[0] = f"{self.message} ({around})"
        lines[0] += self._label()
        lines.extend(f"  {number}. {attempt}" for number, attempt in enumerate(self.context.attempts, 1))
        if self.context.stderr_tail:
            lines.append("Last lines of stderr:")
            lines.append(self.context.stderr_tail.rstrip("\n"))
        if self.context.missing_env:
            names = ", ".join(self.context.missing_env)
            lines.append(
                f"The process may require an environment variable that was not passed to it: {names}. Pass it with `env=`, "
                "or all variables of this process with `inherit_env=True`."
            )
        return "\n".join(lines)

    def _label(self) -> str:
        """Return the text between the sentence and the last lines of stderr."""
        return ""


class ProtocolError(McpError):
    """A broken rule of the protocol. Catch this class; only its subclasses are raised."""

    code: int = ErrorCode.INVALID_REQUEST
    """The JSON-RPC error code of the violation on the wire."""
    anchor: str | None = None
    """The page and section of the specification that contains the rule."""

    def __init__(self, message: str, *, code: int | None = None, anchor: str | None = None) -> None:
        if type(self) is ProtocolError:
            raise TypeError("raise LocalProtocolError or RemoteProtocolError: the blame must be known")
        super().__init__(message)
        if code is not None:
            self.code = code
        if anchor is not None:
            self.anchor = anchor


class LocalProtocolError(ProtocolError):
    """A command of the caller that the revision, the state or the capabilities forbid. Nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """A rule of the protocol that the peer broke."""


class MalformedMessage(RemoteProtocolError):
    """Bytes from the peer that are not a valid JSON-RPC message.

    The connection stays open: send `reply` if it is not `None`, and continue with the next message.
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
        """The error response that JSON-RPC requires; `None` if a response would be wrong, for example to a response."""
        self.answers: RequestId | None = answers
        """The id of the request that the message responds to, if the id is readable: no other response will arrive. If
        there is also a `reply`, the message is a response only if there is such a request."""
        self.excerpt: bytes = excerpt
        """The first bytes of the message."""


class InvalidValue(RemoteProtocolError):
    """A value that its type does not allow, with the reason and the path."""

    code: int = ErrorCode.INVALID_PARAMS

    def __init__(self, message: str, *, path: str = "", raw: JsonValue = None) -> None:
        super().__init__(f"{path}: {message}" if path else message, code=ErrorCode.INVALID_PARAMS)
        self.path: str = path
        """The path, for example `content[0].text`; empty for the value itself."""
        self.raw: JsonValue = raw
        """The whole value as received."""


class LimitExceeded(McpError):
    """An exceeded limit."""

    def __init__(self, limit: str, *, observed: int, allowed: int, setting: str) -> None:
        super().__init__(f"{limit}: {observed} is over the limit of {allowed}; the setting is {setting}")
        self.limit: str = limit
        """The limited quantity, with its unit."""
        self.observed: int = observed
        """The observed value, in the unit of the limit. A lower bound if the rest was not read."""
        self.allowed: int = allowed
        """The limit."""
        self.setting: str = setting
        """The setting to change, for example `Limits.message_bytes`."""


class RequestFailed(McpError):
    """A JSON-RPC error: received in a response, or raised in a handler to be sent.

    Spec: basic#error-responses
    """

    default_code: ClassVar[int] = ErrorCode.INTERNAL_ERROR

    def __init__(self, message: str, *, code: int | None = None, data: JsonValue = None) -> None:
        super().__init__(message)
        self.code: int = int(self.default_code if code is None else code)
        """The JSON-RPC error code."""
        self.data: JsonValue = data
        """Additional data of the error object; `None` if it has none."""

    def _label(self) -> str:
        return f" [{self.code}]"


class UnsupportedProtocolVersion(RequestFailed):
    """A requested revision that the server does not implement. Spec: basic/versioning (2026-07-28)."""

    default_code: ClassVar[int] = ErrorCode.UNSUPPORTED_PROTOCOL_VERSION

    @classmethod
    def of(cls, requested: str, supported: Sequence[str]) -> UnsupportedProtocolVersion:
        """Return the error for a `requested` revision, with the `supported` revisions."""
        return cls(
            f"protocol version {quoted(requested)} is not supported; supported: {', '.join(supported)}",
            data={"supported": list(supported), "requested": shown(requested)},
        )

    @property
    def supported(self) -> tuple[str, ...]:
        """The revisions that the server lists as supported; empty if it lists none."""
        listed = self.data.get("supported") if isinstance(self.data, dict) else None
        return tuple(name for name in listed if isinstance(name, str)) if isinstance(listed, list) else ()


def _dotted(capabilities: Mapping[str, JsonValue]) -> list[str]:
    """Return the dotted names of capabilities: `elicitation.url`."""
    found: list[str] = []
    for name, inner in capabilities.items():
        below = _dotted(inner) if isinstance(inner, dict) else []
        found += [f"{name}.{each}" for each in below] or [name]
    return found


class MissingRequiredClientCapability(RequestFailed):
    """A request that requires a capability that the client did not declare. Spec: basic#error-codes (2026-07-28)."""

    default_code: ClassVar[int] = ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY

    @classmethod
    def of(cls, required: Mapping[str, JsonValue], what: str) -> MissingRequiredClientCapability:
        """Return the error for `what`, an action or a message that needs the capabilities in `required`."""
        return cls(
            f"{what} requires a client capability that was not declared: {', '.join(_dotted(required))}",
            data={"requiredCapabilities": dict(required)},
        )


class HeaderMismatch(RequestFailed):
    """An HTTP header that is missing, malformed or different from the body. Spec: basic/transports (2026-07-28)."""

    default_code: ClassVar[int] = ErrorCode.HEADER_MISMATCH


class UrlElicitationRequired(RequestFailed):
    """A URL that the user must visit first. Spec: client/elicitation (2025-11-25)."""

    default_code: ClassVar[int] = ErrorCode.URL_ELICITATION_REQUIRED


class ResourceNotFound(RequestFailed):
    """A resource that does not exist. The code on the wire follows the revision: see `Revision.resource_not_found`."""

    default_code: ClassVar[int] = ErrorCode.RESOURCE_NOT_FOUND

    @classmethod
    def of(cls, uri: str) -> ResourceNotFound:
        """Return the error for the resource `uri`."""
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
    """Return the most specific error for a received error object.

    Args:
        code: The JSON-RPC code.
        message: The message of the error.
        data: The data of the error.

    Returns:
        An instance of `RequestFailed`, or of its subclass for `code`.
    """
    return _BY_CODE.get(code, RequestFailed)(message, code=code, data=data)


class RequestTimeout(McpError):
    """A deadline that passed during a wait."""

    def __init__(self, message: str, *, deadline: str, seconds: float) -> None:
        super().__init__(f"{message}: the {deadline} deadline of {seconds:g} s passed")
        self.deadline: str = deadline
        """The name of the deadline: `connect`, `idle` or `total`."""
        self.seconds: float = seconds
        """The duration of the deadline, in seconds."""


class NegotiationFailed(McpError):
    """No common revision, or no common era, of client and server."""

    def __init__(self, message: str, *, own_revisions: Sequence[str] = (), peer_revisions: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.own_revisions: tuple[str, ...] = tuple(own_revisions)
        """The revisions that this side supports."""
        self.peer_revisions: tuple[str, ...] = tuple(peer_revisions)
        """The revisions that the peer named; empty if it named none."""


class TransportError(McpError):
    """A failure of the transport to the peer."""


class ConnectionEnded(TransportError):
    """The loss of the peer. All pending requests fail with this error; the peer may have processed them."""


class SessionExpired(ConnectionEnded):
    """A session that the HTTP server does not know: status 404, or 400 from some servers. Nothing was processed.

    Spec: basic/transports#session-management (legacy)
    """


class HttpFailure(TransportError):
    """An HTTP response that is not an MCP response, with its status and the first bytes of its body."""

    def __init__(self, message: str, *, status: int, body: bytes = b"") -> None:
        super().__init__(message)
        self.status: int = status
        """The HTTP status."""
        self.body: bytes = body[:EXCERPT_BYTES]
        """The first 512 bytes of the body."""


class AccessDenied(HttpFailure):
    """Missing or insufficient credentials for the server: 401 or 403. Spec: basic/authorization"""

    def __init__(self, message: str, *, status: int, body: bytes = b"", challenges: Sequence[str] = ()) -> None:
        super().__init__(message, status=status, body=body)
        self.challenges: tuple[str, ...] = tuple(challenges)
        """The values of `WWW-Authenticate`, as received."""


class ProcessFailed(TransportError):
    """A child process that could not be started, or that exited."""

    def __init__(self, message: str, *, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code: int | None = exit_code
        """The exit status, negative for a signal as in `subprocess`; `None` if the process never ran."""


@attrs.frozen(eq=False, repr=False)
class Attempt(FieldValue):
    """One URL that was tried to obtain a token."""

    url: str
    """The URL, without a query that contains secrets."""
    why: str
    """The purpose of the request."""
    verdict: str
    """The outcome of the request."""

    def __str__(self) -> str:
        return f"{self.url} ({self.why}): {self.verdict}"


class AuthorizationError(McpError):
    """A failure to obtain a token. Neither the message nor the attempts contain secrets. Spec: basic/authorization"""

    def __init__(self, message: str, *, attempts: Sequence[Attempt] = ()) -> None:
        super().__init__(message)
        self.attempts: tuple[Attempt, ...] = tuple(attempts)
        """Every URL that was tried, in order, with its outcome; filled in by the flow."""

    def _label(self) -> str:
        return "".join(f"\n  {attempt}" for attempt in self.attempts)


class DiscoveryFailed(AuthorizationError):
    """An authorization server that was not found, or whose metadata is unusable."""


class UnsafeUrl(DiscoveryFailed):
    """A URL to open or from a peer that points to a forbidden destination."""

    def __init__(self, url: str, reason: str, *, what: str) -> None:
        super().__init__(f"{what} {url[:200]!a} is not used: {reason}")
        self.url: str = url
        """The URL, as received."""
        self.reason: str = reason
        """The reason for rejecting the URL."""
        self.what: str = what
        """The purpose of the URL, for example `token_endpoint`."""


class IssuerMismatch(AuthorizationError):
    """A response that names an unexpected authorization server. Spec: RFC 8414 section 3.3, RFC 9207"""

    def __init__(self, message: str, *, expected: str, received: str | None) -> None:
        super().__init__(message)
        self.expected: str = expected
        """The issuer that was expected."""
        self.received: str | None = received
        """The issuer that the response names; `None` if it names none."""


class _OAuthRefusal(AuthorizationError):
    """An OAuth error response (RFC 6749 section 5.2)."""

    def __init__(
        self, message: str, *, error: str | None = None, description: str | None = None, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.error: str | None = error
        """The error code, for example `invalid_grant`."""
        self.description: str | None = description
        """The description from the authorization server, cut to one line: untrusted text."""
        self.status: int | None = status
        """The HTTP status; `None` if the error came through the browser, or there was no response."""


class RegistrationFailed(_OAuthRefusal):
    """A missing client id for the authorization server. Spec: basic/authorization#client-registration"""


class AuthorizationRefused(_OAuthRefusal):
    """A redirect without a code: the user or the authorization server denied the authorization."""


class TokenRefused(_OAuthRefusal):
    """A response of the token endpoint without a usable token."""


class InsufficientScope(AuthorizationError):
    """An insufficient scope of the token, which a new login cannot extend. Spec: basic/authorization#step-up"""

    def __init__(self, message: str, *, required: Sequence[str] = (), granted: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.required: tuple[str, ...] = tuple(required)
        """The scopes that the server requires; empty if it does not name them."""
        self.granted: tuple[str, ...] = tuple(granted)
        """The scopes of the token, as far as known."""
        self.authorization_url: str | None = None
        """The URL where a user can grant the scopes; `None` if unknown."""


class UnsupportedType(McpError):
    """A type has no JSON representation, or its annotation cannot be evaluated. The message says what to write instead."""


class WrongAsyncLibrary(McpError, RuntimeError):
    """A function was called where the async library or the event loop that it needs does not run. Nothing was done.

    The message says how to call it.
    """


class MissingExtra(McpError, ModuleNotFoundError):
    """A package of an extra is not installed. The message contains the command that installs it.

    Args:
        package: The name of the package that cannot be imported.
        distribution: The distribution whose extra requires it, for example `trio-mcp-server`.
        extra: The extra, for example `hypercorn`.
    """

    def __init__(self, package: str, *, distribution: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; type: pip install '{distribution}[{extra}]'")
        self.name: str | None = package
        self.distribution: str = distribution
        """The distribution that has the extra."""
        self.extra: str = extra
        """The extra to install."""
