"""What is fixed for the life of an authorization server, for all of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.oauth.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_server.auth.authorization_server.model.client import Client

__all__ = ["Lifetimes", "Settings"]

_DAY: Final = 86_400.0


@attrs.frozen(kw_only=True)
class Lifetimes:
    """How long things are good for, in seconds."""

    pending: float = 600.0
    """A request for authorization, while a person logs in and decides."""
    code: float = 60.0
    """An authorization code; RFC 6749 has ten minutes as the most, and a client needs a second."""
    access: float = 600.0
    """An access token. What is revoked is good for so long yet, where nobody asks."""
    refresh: float = 30 * _DAY
    """A refresh token that is not used. Each use gives another one."""
    signing_key: float = 30 * _DAY
    """A key that signs access tokens. It is shown as long as tokens that it signed are good."""
    unused_client: float = 30 * _DAY
    """A client that registered itself, and that nobody has granted anything."""
    client: float = 400 * _DAY
    """A client that registered itself, after the last grant or refresh."""


@attrs.frozen(kw_only=True)
class Settings:
    """What the parts of the protocol share."""

    issuer: str
    """The issuer, exactly."""
    resources: tuple[str, ...]
    """The servers that tokens are issued for."""
    scopes: Mapping[str, str]
    """The scopes, each with words for people."""
    lifetimes: Lifetimes
    """How long things are good for."""
    clients: Mapping[str, Client]
    """The configured ones, by id."""
    random_bytes: Callable[[int], bytes]
    """Gives so many unpredictable bytes."""
    clock: Callable[[], float]
    """Seconds since the epoch."""

    @property
    def prefix(self) -> str:
        """What the paths of all endpoints begin with: the path of the issuer."""
        return parse_url(self.issuer, what="issuer").path.rstrip("/")

    def endpoint(self, path: str) -> str:
        """The URL of an endpoint."""
        return f"{parse_url(self.issuer, what='issuer').origin}{self.prefix}{path}"
