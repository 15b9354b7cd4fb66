"""What a flow asks its driver to do, and what the driver answers.

A flow does nothing by itself. It hands out a step, the driver does it, and hands back an answer of the kind that the step
is answered by: `Flow.receive` refuses any other.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar, cast

import attrs

if TYPE_CHECKING:
    from mcp_core.errors import AuthorizationError
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.oauth.records import ClientRecord, TokenRecord

__all__ = [
    "Answer",
    "AskClient",
    "AwaitRedirect",
    "ClientAnswer",
    "Done",
    "Failed",
    "FetchJson",
    "FindClient",
    "HttpAnswer",
    "OpenBrowser",
    "Opened",
    "Pairs",
    "PostForm",
    "Redirected",
    "Register",
    "Request",
    "Running",
    "Step",
    "Unreachable",
    "asked",
    "requested",
]

Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values: headers, or the fields of a form."""


def _names_only(pairs: Pairs) -> str:
    """What may be shown of headers and fields: tokens, codes and secrets are among their values."""
    return f"<{', '.join(name for name, _ in pairs)}>"


@attrs.frozen(kw_only=True)
class HttpAnswer:
    """An HTTP response, whatever its status. Redirects that the rules allow were followed."""

    status: int
    """The status."""
    headers: Pairs = attrs.field(default=(), repr=_names_only)
    """The headers."""
    body: bytes = attrs.field(default=b"", repr=lambda body: f"<{len(body)} bytes>")
    """The body, decoded; more than the first 256 KiB and a byte need not be there."""

    def header(self, name: str) -> str | None:
        """The first header of a name, in whatever case; `None` when there is none."""
        return next((value for given, value in self.headers if given.lower() == name.lower()), None)


@attrs.frozen(kw_only=True)
class Unreachable:
    """There was no HTTP response."""

    reason: str
    """Why, in a sentence for people: no such host, an address that is not allowed, a deadline."""


@attrs.frozen(kw_only=True)
class ClientAnswer:
    """What is known of the client at an authorization server."""

    client: ClientRecord | None
    """`None`: nothing, or the person does not want to say."""


@attrs.frozen(kw_only=True)
class Opened:
    """The person was sent to the URL. Whether they went, nobody knows."""


@attrs.frozen(kw_only=True)
class Redirected:
    """The browser came back."""

    url: str = attrs.field(repr=False)
    """The whole URL, or what stands behind its question mark. It has the code in it."""


Answer: TypeAlias = HttpAnswer | Unreachable | ClientAnswer | Opened | Redirected
"""What a driver hands back."""

_HTTP: TypeAlias = HttpAnswer | Unreachable


@attrs.frozen(kw_only=True)
class FetchJson:
    """GET a document. Answered by `HttpAnswer` or `Unreachable`.

    The URL is a stranger's: the driver holds each address that it resolves to against the networks that are allowed,
    and each redirect against `check_redirect`. No cookie and no token is sent.
    """

    answered_by: ClassVar[tuple[type, ...]] = (HttpAnswer, Unreachable)

    url: str
    """Where it is."""
    why: str
    """What it is for, for people."""
    headers: Pairs = ()
    """What is to be sent."""


@attrs.frozen(kw_only=True)
class Register:
    """POST a document, to get a client id. Answered by `HttpAnswer` or `Unreachable`. No redirect is followed."""

    answered_by: ClassVar[tuple[type, ...]] = (HttpAnswer, Unreachable)
    why: ClassVar[str] = "dynamic registration"

    url: str
    """The registration endpoint. A stranger's URL, as in `FetchJson`."""
    document: JsonObject
    """The body, as JSON."""
    headers: Pairs = ()
    """What is to be sent."""


@attrs.frozen(kw_only=True)
class PostForm:
    """POST a form. Answered by `HttpAnswer` or `Unreachable`. No redirect is followed, and nothing is sent twice."""

    answered_by: ClassVar[tuple[type, ...]] = (HttpAnswer, Unreachable)

    url: str
    """The token endpoint. A stranger's URL, as in `FetchJson`, unless `configured`."""
    why: str
    """What it is for, for people."""
    headers: Pairs = attrs.field(repr=_names_only)
    """What is to be sent."""
    form: Pairs = attrs.field(repr=_names_only)
    """The fields, to be sent as `application/x-www-form-urlencoded`."""
    configured: bool = False
    """Whether the URL is the user's own word, so that it may lead to any network."""


@attrs.frozen(kw_only=True)
class FindClient:
    """Look up what was kept of the client at this authorization server, and no other. Answered by `ClientAnswer`."""

    answered_by: ClassVar[tuple[type, ...]] = (ClientAnswer,)

    issuer: str
    """The authorization server."""


@attrs.frozen(kw_only=True)
class AskClient:
    """Ask the person for a client id at this authorization server. Answered by `ClientAnswer`."""

    answered_by: ClassVar[tuple[type, ...]] = (ClientAnswer,)

    issuer: str
    """The authorization server."""
    reason: str
    """Why there is no other way, for people."""


@attrs.frozen(kw_only=True)
class OpenBrowser:
    """Listen at the redirect URI, then show the person this URL. Answered by `Opened`."""

    answered_by: ClassVar[tuple[type, ...]] = (Opened,)

    url: str
    """Was checked: https, or http on the loopback interface. To be given to a browser as one argument, never to a shell."""


@attrs.frozen(kw_only=True)
class AwaitRedirect:
    """Wait until the browser comes back. Answered by `Redirected`; comes again when that was not meant for this flow."""

    answered_by: ClassVar[tuple[type, ...]] = (Redirected,)

    state: str = attrs.field(repr=False)
    """By which it will be known."""
    redirect_uri: str
    """Where it comes."""


@attrs.frozen(kw_only=True)
class Done:
    """There is a token. The flow is over."""

    answered_by: ClassVar[tuple[type, ...]] = ()

    tokens: TokenRecord
    """To be kept in place of what was kept before, in one go: an old refresh token may be void."""


@attrs.frozen(kw_only=True)
class Failed:
    """There is none. The flow is over."""

    answered_by: ClassVar[tuple[type, ...]] = ()

    error: AuthorizationError
    """Why, with every URL that was tried."""
    forget: TokenRecord | None = None
    """Tokens that the authorization server has declared void; to be deleted."""


Step: TypeAlias = FetchJson | Register | PostForm | FindClient | AskClient | OpenBrowser | AwaitRedirect | Done | Failed
"""What a flow asks for."""

Request: TypeAlias = FetchJson | Register | PostForm
"""Steps that are one HTTP request."""

_T = TypeVar("_T")

Running: TypeAlias = Generator[Step, Answer, _T]
"""A part of a flow: hands out steps, takes answers, ends with a result."""


def requested(step: Request) -> Running[HttpAnswer | Unreachable]:
    """Hands out a request, and takes its outcome."""
    return cast("_HTTP", (yield step))  # Flow.receive lets nothing else through


def asked(step: FindClient | AskClient) -> Running[ClientRecord | None]:
    """Hands out a question about the client, and takes the answer."""
    return cast("ClientAnswer", (yield step)).client  # Flow.receive lets nothing else through
