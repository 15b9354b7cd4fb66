"""The interface between the protocol and the pages of the authorization server.

A valid authorization request is stored under an unguessable id while a user logs in and decides. The pages read the
request and its client. They decide once, and receive the URL that the browser is redirected to.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Protocol

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Interactions", "PendingAuthorization", "RegistrationKind", "RequestingClient"]


class RegistrationKind(enum.Enum):
    """The registration method of a client, which determines how far its name can be trusted."""

    CONFIGURED = "configured"
    """The operator of the authorization server configured the client."""
    METADATA_DOCUMENT = "metadata document"
    """The client is described at the URL that is its client id. The host of the URL vouches for it."""
    DYNAMIC = "dynamic"
    """The client registered itself. Its metadata is untrusted."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RequestingClient(FieldValue):
    """The client of an authorization request, as shown to a user."""

    client_id: str
    """The client id, which is a URL for a metadata document."""
    name: str
    """The name in the client's metadata: one line, without control characters, not empty. Untrusted input."""
    kind: RegistrationKind
    """How the client was registered."""
    redirect_uri: str
    """The redirect URI. Its host must be shown. Spec: basic/authorization#localhost-redirect-uri-risks"""
    local_only: bool
    """Whether all redirect URIs lead to the user's own machine, where any program can listen. Show a warning then."""
    client_uri: str | None = None
    """The https URL of a page about the client. Show it only as text."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PendingAuthorization(FieldValue):
    """An authorization request that waits for a decision of a user."""

    id: str
    """The unguessable id of the request, safe in a URL path."""
    client: RequestingClient
    """The client that sent the request."""
    scopes: tuple[str, ...]
    """The requested scopes, all of them known to the authorization server and described in its settings. May be
    empty."""
    resources: tuple[str, ...]
    """The server that the token will be valid for; always one."""
    prompts: frozenset[str]
    """`login`: log in again; `consent`: ask even if consent is remembered; `select_account`. Never contains `none`."""
    created_at: float
    """The time of the request, in seconds since the epoch."""
    expires_at: float
    """The time at which the request expires, in seconds since the epoch."""


class Interactions(Protocol):
    """The authorization requests that wait for a decision."""

    async def get(self, id: str) -> PendingAuthorization | None:
        """Return a pending request, or `None` if it was decided, has expired, or never existed."""
        ...

    async def grant(self, id: str, *, subject: str, scopes: Iterable[str], auth_time: float) -> str | None:
        """Grant a request when the user consents, and remove it.

        Args:
            id: The id of the request.
            subject: The user.
            scopes: The granted scopes. Scopes that were not requested are ignored.
            auth_time: The time when the user logged in, in seconds since the epoch.

        Returns:
            The URL for the browser, with code, state and iss; `None` if the request has ended.
        """
        ...

    async def deny(self, id: str, *, error: str = "access_denied") -> str | None:
        """Deny a request when the user denies it or cannot be asked, and remove it.

        Args:
            id: The id of the request.
            error: `access_denied`; `server_error` or `temporarily_unavailable` if another server prevents the login.

        Returns:
            The URL for the browser, with error, state and iss; `None` if the request has ended.
        """
        ...
