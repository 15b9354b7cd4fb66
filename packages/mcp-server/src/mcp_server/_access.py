"""Who may see and use what: one function of the author, asked on every way to a thing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

import attrs

if TYPE_CHECKING:
    from mcp_core.engine.events import ClientPeer
    from mcp_core.http.messages import HttpRequest
    from mcp_server._answering import Call

__all__ = ["Access", "AccessKind", "AccessRequest", "Guard"]

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
    principal: str | None
    """Who the client was established to be; `None` where nobody is told apart, as on stdio."""
    peer: ClientPeer
    """The client, as it describes itself. Nothing to decide by."""
    http: HttpRequest | None
    """The HTTP request that it came in; `None` on stdio and other pipes."""


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
        asked = AccessRequest(kind=kind, name=name, principal=call.link.principal, peer=peer, http=call.http)
        return await self._access(asked) is True
