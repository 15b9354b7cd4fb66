"""Steps of a flow that the caller performs, and their results.

A flow performs no I/O. It returns a step, the caller performs the step, and passes a result of the expected class back:
`Flow.receive` rejects any other class.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar, cast

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from mcp_core.errors import AuthorizationError
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.oauth.records import ClientRecord, TokenRecord

__all__ = [
    "AskClient",
    "AwaitRedirect",
    "BrowserOpened",
    "ClientFound",
    "FetchJson",
    "FetchedResponse",
    "FindClient",
    "FlowDone",
    "FlowFailed",
    "OpenBrowser",
    "Pairs",
    "PostForm",
    "RedirectReceived",
    "Register",
    "Request",
    "Running",
    "Step",
    "StepResult",
    "Unreachable",
    "request_client",
    "requested",
]

Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values of headers, or of the fields of a form."""


def _names_only(pairs: Pairs) -> str:
    """Return only the names of headers or fields, because their values contain tokens, codes and secrets."""
    return f"<{', '.join(name for name, _ in pairs)}>"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FetchedResponse(FieldValue):
    """An HTTP response with any status, after the allowed redirects."""

    status: int
    """The status."""
    headers: Pairs = attrs.field(default=(), repr=_names_only)
    """The headers."""
    body: bytes = attrs.field(default=b"", repr=lambda body: f"<{len(body)} bytes>")
    """The decoded body. The caller may truncate it after 256 KiB and one byte."""

    def header(self, name: str) -> str | None:
        """Return the first value of a header, ignoring case; `None` if the header is missing."""
        return next((value for given, value in self.headers if given.lower() == name.lower()), None)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Unreachable(FieldValue):
    """The outcome of a request without an HTTP response."""

    reason: str
    """The reason, in a sentence for users: unknown host, an address that is not allowed, a timeout."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClientFound(FieldValue):
    """The client at an authorization server, as stored or entered."""

    client: ClientRecord | None
    """The client; `None` if unknown, or if the user enters none."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BrowserOpened(FieldValue):
    """The confirmation that the URL was given to the browser. It does not prove that the user visited the URL."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RedirectReceived(FieldValue):
    """The redirect of the browser to the redirect URI."""

    url: str = attrs.field(repr=False)
    """The whole URL, or its query. It contains the code."""


StepResult: TypeAlias = FetchedResponse | Unreachable | ClientFound | BrowserOpened | RedirectReceived
"""A result of a step."""

_HTTP: TypeAlias = FetchedResponse | Unreachable


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FetchJson(FieldValue):
    """GET a document. The result is an `FetchedResponse` or `Unreachable`.

    The URL comes from a peer. The caller must check each address to which it resolves against the allowed networks, and
    each redirect with `check_redirect`. The request must not contain cookies or tokens.
    """

    answered_by: ClassVar[tuple[type, ...]] = (FetchedResponse, Unreachable)

    url: str
    """The URL of the document."""
    why: str
    """The purpose of the request, for users."""
    headers: Pairs = ()
    """The headers of the request."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Register(FieldValue):
    """POST a document to register the client. The result is an `FetchedResponse` or `Unreachable`, without redirects."""

    answered_by: ClassVar[tuple[type, ...]] = (FetchedResponse, Unreachable)
    why: ClassVar[str] = "dynamic registration"

    url: str
    """The registration endpoint. The URL comes from a peer, as in `FetchJson`."""
    document: JsonObject
    """The body, as JSON."""
    headers: Pairs = ()
    """The headers of the request."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PostForm(FieldValue):
    """POST a form. The result is an `FetchedResponse` or `Unreachable`. Do not follow redirects or repeat the request."""

    answered_by: ClassVar[tuple[type, ...]] = (FetchedResponse, Unreachable)

    url: str
    """The token endpoint. The URL comes from a peer, as in `FetchJson`, unless `configured`."""
    why: str
    """The purpose of the request, for users."""
    headers: Pairs = attrs.field(repr=_names_only)
    """The headers of the request."""
    form: Pairs = attrs.field(repr=_names_only)
    """The fields, sent as `application/x-www-form-urlencoded`."""
    configured: bool = False
    """Whether the user configured the URL, so that it may lead to any network."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FindClient(FieldValue):
    """Find the stored client of this authorization server, and no other. The result is a `ClientFound`."""

    answered_by: ClassVar[tuple[type, ...]] = (ClientFound,)

    issuer: str
    """The authorization server."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AskClient(FieldValue):
    """Ask the user for a client id at this authorization server. The result is a `ClientFound`."""

    answered_by: ClassVar[tuple[type, ...]] = (ClientFound,)

    issuer: str
    """The authorization server."""
    reason: str
    """The reason why the other sources failed, for users."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class OpenBrowser(FieldValue):
    """Listen at the redirect URI, then open this URL in the user's browser. The result is `ConnectionOpened`."""

    answered_by: ClassVar[tuple[type, ...]] = (BrowserOpened,)

    url: str
    """The checked URL: https, or http on the loopback interface. Pass it to a browser as one argument, never to a
    shell."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AwaitRedirect(FieldValue):
    """Wait for the browser's redirect. The result is `RedirectReceived`. Repeated if the redirect is for another flow."""

    answered_by: ClassVar[tuple[type, ...]] = (RedirectReceived,)

    state: str = attrs.field(repr=False)
    """The `state` that identifies the redirect."""
    redirect_uri: str
    """The URI at which the redirect arrives."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FlowDone(FieldValue):
    """The flow is over, with a token."""

    answered_by: ClassVar[tuple[type, ...]] = ()

    tokens: TokenRecord
    """The tokens. Replace the stored tokens with them in one operation: an old refresh token may be void."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FlowFailed(FieldValue):
    """The flow is over, without a token."""

    answered_by: ClassVar[tuple[type, ...]] = ()

    error: AuthorizationError
    """The error, with every URL that was tried."""
    forget: TokenRecord | None = None
    """Tokens that the authorization server has declared void. Delete them."""


Step: TypeAlias = (
    FetchJson | Register | PostForm | FindClient | AskClient | OpenBrowser | AwaitRedirect | FlowDone | FlowFailed
)
"""A step of a flow."""

Request: TypeAlias = FetchJson | Register | PostForm
"""Steps that are one HTTP request."""

_T = TypeVar("_T")

Running: TypeAlias = Generator[Step, StepResult, _T]
"""A part of a flow: a generator that yields steps, receives their results, and returns a value."""


def requested(step: Request) -> Running[FetchedResponse | Unreachable]:
    """Yield a request, and return its outcome."""
    return cast("_HTTP", (yield step))  # Flow.receive rejects other classes


def request_client(step: FindClient | AskClient) -> Running[ClientRecord | None]:
    """Yield a step that finds the client, and return the client."""
    return cast("ClientFound", (yield step)).client  # Flow.receive rejects other classes
