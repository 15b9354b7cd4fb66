"""What the protocol and the pages of the authorization server say to each other.

A request for authorization that was found to be right waits here, under an id that nobody can guess, while a person logs in and
decides. The pages see what is asked and by whom; they answer once, and get the URL that the browser goes back to.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["AskingClient", "Interactions", "PendingAuthorization", "RegistrationKind"]


class RegistrationKind(enum.Enum):
    """How a client came to be known, and so what its name is worth."""

    CONFIGURED = "configured"
    """Whoever runs the authorization server put it there."""
    METADATA_DOCUMENT = "metadata document"
    """It is described at the URL that is its id: the host of that URL vouches for it."""
    DYNAMIC = "dynamic"
    """It registered itself, and may say what it likes."""


@attrs.frozen(kw_only=True)
class AskingClient:
    """The client that asks, as a person may be shown it."""

    client_id: str
    """Its id; of a metadata document the URL."""
    name: str
    """What it calls itself: one line, without control characters, never empty. Still the word of a stranger."""
    kind: RegistrationKind
    """How it came to be known."""
    redirect_uri: str
    """Where the browser will go; its host has to be shown. Spec: basic/authorization#localhost-redirect-uri-risks"""
    local_only: bool
    """All its redirect URIs lead to the person's own machine, where any program may be listening: that deserves a warning."""
    client_uri: str | None = None
    """A page about it, https; to be shown as text only."""


@attrs.frozen(kw_only=True)
class PendingAuthorization:
    """A request for authorization that waits for a person."""

    id: str
    """Unguessable, safe in a path."""
    client: AskingClient
    """Who asks."""
    scopes: tuple[str, ...]
    """What is asked for; each is known to the authorization server, which has words for it. Perhaps none."""
    resources: tuple[str, ...]
    """The server that the token will be good for; one."""
    prompts: frozenset[str]
    """`login`: log in anew; `consent`: ask even if the answer is remembered; `select_account`. `none` never comes here."""
    created_at: float
    """When it came, in seconds since the epoch."""
    expires_at: float
    """When it stops waiting, likewise."""


class Interactions(Protocol):
    """The requests that wait."""

    async def get(self, id: str) -> PendingAuthorization | None:
        """One that waits; `None` if it was answered, has expired, or never was."""
        ...

    async def grant(self, id: str, *, subject: str, scopes: Iterable[str], auth_time: float) -> str | None:
        """The person agrees; it no longer waits.

        Args:
            id: Of the request.
            subject: The person.
            scopes: What of the scopes is granted. What was not asked for is left out.
            auth_time: When the person logged in, in seconds since the epoch.

        Returns:
            The URL for the browser, with code, state and iss. `None`: it no longer waits.
        """
        ...

    async def deny(self, id: str, *, error: str = "access_denied") -> str | None:
        """The person refuses, or cannot be asked; it no longer waits.

        Args:
            id: Of the request.
            error: `access_denied`; `server_error` or `temporarily_unavailable` when another server is in the way.

        Returns:
            The URL for the browser, with error, state and iss. `None`: it no longer waits.
        """
        ...
