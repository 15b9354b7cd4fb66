"""The seam between requests over HTTP and whatever gives them credentials.

`open_http(auth=...)` takes an `Authorization`, which gives one `Authorizer` for each connection. `mcp_client.auth.OAuth` is one;
any class with the same members is another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Collection, Mapping
    from contextlib import AbstractContextManager
    from typing import Literal

    import trio

    from mcp_client.http_client.tls import Tls
    from mcp_core.limits import Limits
    from mcp_core.oauth.addresses import Address
    from mcp_core.oauth.steps import Pairs
    from mcp_core.revisions import Revision

__all__ = ["Answered", "Authorization", "Authorizer", "Site"]


@attrs.frozen(kw_only=True)
class Answered:
    """The beginning of an answer of the server, and what it is the answer to."""

    method: str
    """The method of the HTTP request, as `POST`."""
    url: str
    """Where it went."""
    sent: Pairs = attrs.field(repr=False)
    """The headers that the authorizer gave for it."""
    status: int
    """The status."""
    headers: Pairs = attrs.field(repr=False)
    """The headers of the answer, names in lower case."""
    operation: str
    """What was asked for, as `tools/call forecast`; the HTTP method where it was no message."""
    awaited: bool = True
    """Whether somebody waits for it: a person is not asked for a stream in the background."""
    repeats: int = 0
    """How often the request was made before, each time refused and with something new to show since."""


class Authorizer(Protocol):
    """Gives the requests of one connection their credentials. Its members are called from any task."""

    async def headers(self, method: str, url: str) -> Pairs:
        """The headers for one request. Waits while a token is renewed that would be of no use.

        Args:
            method: Of the request.
            url: Of the request, on the server's own origin.

        Raises:
            AuthorizationError: A token that has ended could not be renewed.
        """

    async def identity(self) -> str | None:
        """Who asks: another text for another user, the same for the next token of one. `None`: nobody yet."""

    def answered(self, answer: Answered) -> bool:
        """Takes notice of an answer, whatever its status.

        Returns:
            Whether it is a refusal that `renew` can do something about.
        """

    async def renew(self, answer: Answered) -> None:
        """Gets what was lacking. The request is made again then.

        Raises:
            AuthorizationError: It cannot be had, or the server refuses what it just demanded.
        """


@attrs.frozen(kw_only=True)
class Site:
    """A connection that is about to be made, as far as an authorizer needs to know it."""

    url: str
    """The URL of the MCP server."""
    nursery: trio.Nursery
    """Where a login goes on that several wait for. It ends with the connection. Tasks in it must not raise."""
    waiting: Callable[[], AbstractContextManager[None]]
    """In the block somebody waits for a person: the deadlines of the connection stand still, all but the total ones."""
    revisions: tuple[Revision, ...]
    """The revisions that may be spoken."""
    tls: ssl.SSLContext | Tls | None = None
    """Whom the client trusts, and who it is. As `open_http` was told, like what follows."""
    proxies: Mapping[str, str] | Literal[False] | None = None
    """Its proxies."""
    limits: Limits
    """Its bounds."""
    addresses: Callable[[], Collection[Address]] = tuple
    """Where connections to the server led so far: one address of each class."""


class Authorization(Protocol):
    """What `open_http(auth=...)` takes."""

    @property
    def extensions(self) -> tuple[str, ...]:
        """The extensions of the protocol that it takes part in: they are declared to the server."""
        ...

    def authorizer(self, site: Site) -> Authorizer:
        """What gives the requests of one connection their credentials.

        Args:
            site: The connection.

        Raises:
            AuthorizationError: The server is none that tokens can be sent to.
        """
