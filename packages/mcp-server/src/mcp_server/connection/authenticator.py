"""Authentication of HTTP requests, before the body is read and before any handler runs.

Only the authenticator sees the credentials of a client. A handler that forwarded them to a third party would allow that
party to act as the client on this server. Therefore handlers receive the request without credentials.

Spec: basic/security_best_practices#token-passthrough
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

import attrs

from mcp_core.codec import Batch
from mcp_core.errors import AccessDenied, ErrorCode
from mcp_core.excerpts import shown
from mcp_core.field_methods import FieldValue
from mcp_core.http.server import Rejection, Responses, id_of
from mcp_core.oauth.principal import Principal
from mcp_core.oauth.protected_resource import AccessDenial
from mcp_core.trio.async_library import call_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import Message
    from mcp_core.trio.async_library import AsyncLibrary

__all__ = [
    "ANONYMOUS",
    "INTERNAL",
    "UNREADABLE",
    "Authenticate",
    "Authenticator",
    "CallableAuthenticator",
    "Identity",
    "rejected",
]

_log: Final = logging.getLogger("mcp_server")

Authenticate: TypeAlias = "Callable[[HttpRequest], Awaitable[Principal | str | None]]"
"""Function that returns the principal of a request, or raises `AccessDenied`."""

INTERNAL: Final = AccessDenial(status=500, message="Internal error")
"""Response when the author's function failed. The log contains the failure."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Identity(FieldValue):
    """The principal of one request, with its scopes and authentication scheme."""

    principal: Principal | None = None
    """The principal; `None` for an anonymous client."""
    scopes: frozenset[str] = frozenset()
    """Scopes of the access token."""
    scheme: str = ""
    """Scheme of the Authorization header that authenticated the request; empty if none did."""
    until: float = math.inf
    """Time at which the identity expires, by the trio clock, in seconds."""

    key: str | None = attrs.field(init=False, eq=False, repr=False)
    """The key that sessions, tasks and all other handles are bound to; `None` for an anonymous client."""

    @key.default
    def _key_of_principal(self) -> str | None:
        return None if self.principal is None else self.principal.key


ANONYMOUS: Final = Identity()
"""Identity of an anonymous client."""

UNREADABLE: Final = Batch(())
"""What `Authenticator.check` gets in place of a message that could not be read."""


@runtime_checkable
class Authenticator(Protocol):
    """An authenticator of HTTP requests."""

    @property
    def documents(self) -> Mapping[str, bytes]:
        """JSON documents that are public, by path from the root of the host."""
        ...

    async def authenticate(self, http: HttpRequest, *, before_message: bool = False) -> Identity | AccessDenial:
        """Authenticate a request by its headers.

        Args:
            http: The request.
            before_message: Whether `check` follows, with the message in the body. It may then also require what every
                request needs, so that a denial names all scopes at once.
        """
        ...

    def check(
        self, identity: Identity, message: Message | Batch, names: Callable[[str], Iterable[str]]
    ) -> AccessDenial | None:
        """Return the denial of a message that its sender must not send, or `None` if it is allowed.

        A batch without members stands for a message that could not be read.

        Args:
            identity: The identity of the HTTP request that contained the message.
            message: The message.
            names: Returns the registered URIs and templates that match a URI.
        """
        ...


class CallableAuthenticator:
    """An authenticator that calls a function of the server's author.

    Args:
        authenticate: The function.
        library: The async library of the function; `None` for that of the host.
    """

    documents: Mapping[str, bytes] = {}

    def __init__(self, authenticate: Authenticate, library: AsyncLibrary | None = None) -> None:
        self._authenticate: Final = authenticate
        self._library: Final = library

    async def authenticate(
        self,
        http: HttpRequest,
        *,
        before_message: bool = False,  # noqa: ARG002  there are no scopes
    ) -> Identity | AccessDenial:
        """Authenticate a request by its headers. An exception other than `AccessDenied` leads to status 500."""
        try:
            who = await call_in(self._library, partial(self._authenticate, http))
        except AccessDenied as denied:
            challenges = tuple([("www-authenticate", challenge) for challenge in denied.challenges])
            return AccessDenial(status=denied.status, message=denied.message, headers=challenges)
        except Exception:  # noqa: BLE001 -- the author's function may raise anything; the log has the details
            _log.exception("authentication failed with an error: method=%s path=%s", http.method, shown(http.path))
            return INTERNAL
        return Identity(principal=Principal(subject=who) if isinstance(who, str) else who)

    def check(self, identity: Identity, message: Message | Batch, names: Callable[[str], Iterable[str]]) -> None:
        """Allow every message of an authenticated client."""


def rejected(denial: AccessDenial, responses: Responses, message: Message | Batch | None = None) -> Rejection:
    """Return the response to a request that was denied.

    Args:
        denial: The denial.
        responses: The responses of the request.
        message: The message in its body, if the body was read.
    """
    return responses.reject(
        denial.status,
        denial.message,
        code=ErrorCode.INVALID_REQUEST if denial.status < 500 else ErrorCode.INTERNAL_ERROR,
        id=None if message is None else id_of(message),
        headers=denial.headers,
    )
