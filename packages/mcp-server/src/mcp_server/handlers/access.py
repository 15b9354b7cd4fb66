"""Who may see and use what: one function of the author, asked on every way to a thing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

import attrs

from mcp_core.oauth.principal import Principal

if TYPE_CHECKING:
    from mcp_core.engine.events import ClientPeer
    from mcp_core.http.messages import HttpRequest
    from mcp_server.connection.channel import Call

__all__ = ["Access", "AccessKind", "AccessRequest", "Guard", "principal_of"]

AccessKind: TypeAlias = Literal["tool", "resource", "template", "prompt"]
"""What there is to be allowed."""


@attrs.frozen(kw_only=True)
class AccessRequest:
    """A client is about to see or use something."""

    kind: AccessKind
    """What kind of thing it is."""
    name: str
    """The name of a tool or prompt, the URI of a resource, the URI template of a template. Of a resource that a template
    stands for, the URI as the template expands to it: however a client encodes it, there is one form to decide by."""
    principal: Principal | None
    """Who the client was established to be; `None` where nobody is told apart, as on stdio."""
    scopes: frozenset[str] = frozenset()
    """What the access token of the request is good for; empty without one."""
    peer: ClientPeer
    """The client, as it describes itself. Nothing to decide by."""
    http: HttpRequest | None
    """The HTTP request that it came in, without what let the client in; `None` on stdio and other pipes."""


Access: TypeAlias = Callable[[AccessRequest], Awaitable[bool]]
"""Whether a client may see and use something. Only `True` allows it; what is raised is an internal error."""


class Guard:
    """Asks the author's function, if there is one.

    Args:
        access: The function; `None`: everything is allowed.
    """

    def __init__(self, access: Access | None) -> None:
        self._access: Final = access
        self.asks: Final = access is not None
        """Whether anybody is asked, so that clients differ in what they see."""

    async def allows(self, call: Call, kind: AccessKind, name: str) -> bool:
        """Whether the client that `call` comes from may see and use something."""
        if self._access is None:
            return True
        peer = cast("ClientPeer", call.request.peer)  # of a server
        scopes = frozenset[str]() if call.identity is None else call.identity.scopes
        asked = AccessRequest(
            kind=kind, name=name, principal=principal_of(call), scopes=scopes, peer=peer, http=call.http
        )
        return await self._access(asked) is True


def principal_of(call: Call) -> Principal | None:
    """Who a call comes from."""
    if call.identity is not None:
        return call.identity.principal
    # Of a task that was begun in an earlier process this is all that was kept.
    return None if call.link.principal is None else Principal.of_key(call.link.principal)
