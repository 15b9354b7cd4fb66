"""Who sends a request over HTTP, and what he may: asked before anything of it is read, and before anything runs.

What lets a client in is for nobody but the gate. A handler that had it could hand it on to somebody else, who could then
act here in the client's name; so handlers see the request without it.

Spec: basic/security_best_practices#token-passthrough
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

import attrs

from mcp_core.errors import AccessDenied, ErrorCode
from mcp_core.excerpts import shown
from mcp_core.http.messages import Headers, HttpRequest
from mcp_core.http.responses import Refusal, Responses, id_of
from mcp_core.oauth.principal import Principal
from mcp_core.oauth.protected_resource import Denial

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from mcp_core.jsonrpc.messages import Batch, Message

__all__ = ["INTERNAL", "NOBODY", "Gate", "Identify", "Identity", "NamedGate", "refused", "without_credentials"]

_log: Final = logging.getLogger("mcp_server")

Identify: TypeAlias = "Callable[[HttpRequest], Awaitable[Principal | str | None]]"
"""Says who sends a request, or raises `AccessDenied`."""

INTERNAL: Final = Denial(status=500, message="Internal error")
"""The author's function failed, which is in the log."""

_CREDENTIALS: Final = frozenset({"authorization", "cookie", "dpop", "proxy-authorization"})
"""Headers that let a client in, here or elsewhere."""


@attrs.frozen(kw_only=True)
class Identity:
    """Who sends one request, and what he may."""

    principal: Principal | None = None
    """Who; `None` where nobody is told apart."""
    scopes: frozenset[str] = frozenset()
    """What the request may be used for."""
    scheme: str = ""
    """By which scheme of the Authorization header that is known."""
    until: float = math.inf
    """How long it holds, by trio's clock."""

    @property
    def key(self) -> str | None:
        """What sessions, tasks and all other handles are bound to."""
        return None if self.principal is None else self.principal.key


NOBODY: Final = Identity()
"""Where nobody is told apart."""


@runtime_checkable
class Gate(Protocol):
    """Lets requests in."""

    @property
    def documents(self) -> Mapping[str, bytes]:
        """JSON documents that anybody may read, by their paths from the root of the host."""
        ...

    async def identify(self, http: HttpRequest) -> Identity | Denial:
        """Finds out who sends a request, by its headers."""
        ...

    def check(
        self, identity: Identity, message: Message | Batch, names: Callable[[str], Iterable[str]]
    ) -> Denial | None:
        """Whether a message may not be sent by whom sent it.

        Args:
            identity: Who sent the request that it came in.
            message: The message.
            names: The registered URIs and templates that a URI stands for.
        """
        ...


class NamedGate:
    """The gate that a function of the author is.

    Args:
        identify: The function.
    """

    documents: Mapping[str, bytes] = {}

    def __init__(self, identify: Identify) -> None:
        self._identify: Final = identify

    async def identify(self, http: HttpRequest) -> Identity | Denial:
        """See `Gate.identify`."""
        try:
            who = await self._identify(http)
        except AccessDenied as denied:
            challenges = tuple([("www-authenticate", challenge) for challenge in denied.challenges])
            return Denial(status=denied.status, message=denied.message, headers=challenges)
        except Exception:  # noqa: BLE001 -- whatever the author's function raises: logged, and told in general
            _log.exception("identify failed for %s %s", http.method, shown(http.path))
            return INTERNAL
        return Identity(principal=Principal(subject=who) if isinstance(who, str) else who)

    def check(self, identity: Identity, message: Message | Batch, names: Callable[[str], Iterable[str]]) -> None:
        """Who is let in may send anything."""


def refused(denial: Denial, responses: Responses, message: Message | Batch | None = None) -> Refusal:
    """What is answered to who is not let in.

    Args:
        denial: Why not.
        responses: Of the request.
        message: What it brought, if that was read.
    """
    return responses.refuse(
        denial.status,
        denial.message,
        code=ErrorCode.INVALID_REQUEST if denial.status < 500 else ErrorCode.INTERNAL_ERROR,
        id=None if message is None else id_of(message),
        headers=denial.headers,
    )


def without_credentials(http: HttpRequest) -> HttpRequest:
    """The request as handlers see it."""
    kept = [pair for pair in http.headers if pair[0] not in _CREDENTIALS]
    if len(kept) == len(http.headers):
        return http
    return HttpRequest(
        method=http.method, target=http.target, headers=Headers(kept), scheme=http.scheme, client=http.client
    )
