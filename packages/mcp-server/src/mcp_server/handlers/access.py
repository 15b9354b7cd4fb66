"""Access control: one function of the server's author, called for each way to reach a feature."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.oauth.principal import Principal
from mcp_core.trio.async_library import call_in

if TYPE_CHECKING:
    from mcp_core.engine.events import ClientPeer
    from mcp_core.http.messages import HttpRequest
    from mcp_core.trio.async_library import AsyncLibrary
    from mcp_server.connection.channel import RequestContext

__all__ = ["Access", "AccessKind", "AccessRequest", "Guard", "principal_of"]

AccessKind: TypeAlias = Literal["tool", "resource", "template", "prompt"]
"""The kinds of features that access is decided for."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AccessRequest(FieldValue):
    """A client's attempt to list or use a feature."""

    kind: AccessKind
    """The kind of the feature."""
    name: str
    """The name of a tool or prompt, the URI of a resource, or the URI template of a template.

    For a resource that matches a template, the URI as the template expands it: all encodings that a client can send
    have this one form.
    """
    principal: Principal | None
    """The authenticated principal of the client; `None` without authentication, for example on stdio."""
    scopes: frozenset[str] = frozenset()
    """The scopes of the request's access token; empty without a token."""
    peer: ClientPeer
    """The client as it describes itself. Not verified: do not decide by it."""
    http: HttpRequest | None
    """The HTTP request without its credentials; `None` on stdio and other streams."""


Access: TypeAlias = Callable[[AccessRequest], Awaitable[bool]]
"""A function that returns whether a client may list or use a feature.

Only `True` allows it. An exception is reported to the client as an internal error.
"""


class Guard:
    """The decision whether a client may list or use a feature.

    Args:
        access: The author's function. `None` allows everything.
        library: The async library of the function; `None` for that of the host.
    """

    def __init__(self, access: Access | None, library: AsyncLibrary | None = None) -> None:
        self._access: Final = access
        self._library: Final = library
        self.restricts: Final = access is not None
        """Whether there is a function, so that clients can see different lists."""

    async def allows(self, call: RequestContext, kind: AccessKind, name: str) -> bool:
        """Return whether the client that sent `call` may list or use a feature."""
        if self._access is None:
            return True
        peer = cast("ClientPeer", call.request.peer)  # the peer of a server is a client
        scopes = frozenset[str]() if call.identity is None else call.identity.scopes
        access_request = AccessRequest(
            kind=kind, name=name, principal=principal_of(call), scopes=scopes, peer=peer, http=call.http
        )
        return await call_in(self._library, partial(self._access, access_request)) is True


def principal_of(call: RequestContext) -> Principal | None:
    """Return the principal that sent a call, or `None` for an anonymous client."""
    if call.identity is not None:
        return call.identity.principal
    # After a restart only the principal of a task is stored, not the identity of its request.
    return None if call.channel.principal is None else Principal.of_key(call.channel.principal)
