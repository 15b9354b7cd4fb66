"""The interface between HTTP requests and the source of their credentials.

`open_http(auth=...)` accepts an `Authorization`, which creates one `Authorizer` for each connection. An example is
`mcp_client.auth.OAuth`. Any other class with the same members works too.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.trio.async_library import call_in, library_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Collection, Mapping
    from contextlib import AbstractContextManager
    from typing import Literal

    import trio

    from mcp_core.limits import Limits
    from mcp_core.oauth.addresses import Address
    from mcp_core.oauth.steps import Pairs
    from mcp_core.revisions import Revision
    from mcp_core.trio.http_client.tls import Tls

__all__ = ["ApplicationAuthorizer", "Authorization", "Authorizer", "ConnectionTarget", "ObservedResponse"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ObservedResponse(FieldValue):
    """The head of a response, with the request that it belongs to."""

    method: str
    """The method of the HTTP request, for example `POST`."""
    url: str
    """The URL of the request."""
    sent: Pairs = attrs.field(repr=False)
    """The headers that the authorizer set on the request."""
    status: int
    """The HTTP status."""
    headers: Pairs = attrs.field(repr=False)
    """The headers of the response, with names in lower case."""
    operation: str
    """The operation, for example `tools/call forecast`; the HTTP method if the request carried no message."""
    awaited: bool = True
    """Whether a caller waits for the response. The user is not prompted for a stream in the background."""
    repeats: int = 0
    """How many times the request was sent before. Each time the server rejected it and `renew` obtained something
    new."""


class Authorizer(Protocol):
    """The source of credentials for the requests of one connection. Any task may call its members.

    Its methods run on the library of the application: asyncio if an asyncio task opened the connection. An authorizer that
    is always written for the same library has an attribute `async_library` with its name, `"trio"` or `"asyncio"`.
    """

    async def headers(self, method: str, url: str) -> Pairs:
        """Return the headers for one request. Wait while a token that the server would not accept is renewed.

        Args:
            method: The method of the request.
            url: The URL of the request, on the server's own origin.

        Raises:
            AuthorizationError: An expired token could not be renewed.
        """

    async def identity(self) -> str | None:
        """Return a text that identifies the user: the same for all tokens of one user; `None` without a known user."""

    def answered(self, answer: ObservedResponse) -> bool:
        """Receive the head of a response with any status.

        Returns:
            Whether the response is a rejection that `renew` can handle.
        """

    async def renew(self, answer: ObservedResponse) -> None:
        """Obtain the credentials that the request lacked. The caller then repeats the request.

        Raises:
            AuthorizationError: The credentials cannot be obtained, or the server rejects what it has just demanded.
        """


class ApplicationAuthorizer:
    """An authorizer of the application, called on the async library that it is written for. Created by `of`.

    Args:
        authorizer: The authorizer.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer: Final = authorizer

    @classmethod
    def of(cls, authorizer: Authorizer) -> Authorizer:
        """Return an authorizer for trio: the authorizer itself if it is written for trio in any case."""
        return authorizer if getattr(authorizer, "async_library", None) == "trio" else cls(authorizer)

    async def headers(self, method: str, url: str) -> Pairs:
        """Return the headers for one request."""
        return await call_in(library_of(self._authorizer), partial(self._authorizer.headers, method, url))

    async def identity(self) -> str | None:
        """Return a text that identifies the user."""
        return await call_in(library_of(self._authorizer), self._authorizer.identity)

    def answered(self, answer: ObservedResponse) -> bool:
        """Receive the head of a response."""
        return self._authorizer.answered(answer)

    async def renew(self, answer: ObservedResponse) -> None:
        """Obtain the credentials that the request lacked."""
        await call_in(library_of(self._authorizer), partial(self._authorizer.renew, answer))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ConnectionTarget(FieldValue):
    """A connection that is about to be opened, as an authorizer sees it."""

    url: str
    """The URL of the MCP server."""
    nursery: trio.Nursery
    """The nursery of trio for a login that several tasks wait for. It ends with the connection. Its tasks must not raise."""
    waiting: Callable[[], AbstractContextManager[None]]
    """A function that returns a block for waiting on the user. In it, all deadlines except the total ones pause."""
    revisions: tuple[Revision, ...]
    """The revisions that the client may use."""
    tls: ssl.SSLContext | Tls | None = None
    """The trusted authorities and the client certificate. This and the following members are those of `open_http`."""
    proxies: Mapping[str, str] | Literal[False] | None = None
    """The proxies."""
    limits: Limits
    """The limits."""
    addresses: Callable[[], Collection[Address]] = tuple
    """A function that returns the addresses that connections to the server reached: one of each class."""


class Authorization(Protocol):
    """The value of `open_http(auth=...)`."""

    @property
    def extensions(self) -> tuple[str, ...]:
        """The protocol extensions to declare to the server."""
        ...

    def authorizer(self, target: ConnectionTarget) -> Authorizer:
        """Return the source of credentials for one connection.

        Args:
            target: The connection.

        Raises:
            AuthorizationError: Tokens must not be sent to this server.
        """
