"""The fixed settings of an authorization server, shared by its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.oauth.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_server.auth.authorization_server.model.client import Client

__all__ = ["Lifetimes", "Settings"]

_DAY: Final = 86_400.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Lifetimes(FieldValue):
    """The lifetimes of requests, codes, tokens, keys and clients, in seconds."""

    pending: float = 600.0
    """An authorization request, while a user logs in and decides."""
    code: float = 60.0
    """An authorization code. RFC 6749 recommends at most ten minutes; a client needs about a second."""
    access: float = 600.0
    """An access token. A resource server without introspection accepts a revoked token until its lifetime ends."""
    refresh: float = 30 * _DAY
    """An unused refresh token. Each use replaces the token."""
    signing_key: float = 30 * _DAY
    """A key that signs access tokens. It remains published while tokens signed with it are valid."""
    unused_client: float = 30 * _DAY
    """A dynamically registered client without a grant."""
    client: float = 400 * _DAY
    """A dynamically registered client, after its last grant or refresh."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Settings(FieldValue):
    """The settings of an authorization server."""

    issuer: str
    """The issuer identifier, exactly as configured."""
    resources: tuple[str, ...]
    """The servers that tokens are issued for."""
    scopes: Mapping[str, str]
    """The scopes, each with a description for users."""
    lifetimes: Lifetimes
    """The lifetimes of requests, codes, tokens, keys and clients."""
    clients: Mapping[str, Client]
    """The configured clients, by client id."""
    random_bytes: Callable[[int], bytes]
    """A function that returns a number of unpredictable bytes."""
    clock: Callable[[], float]
    """A function that returns the time in seconds since the epoch."""

    @property
    def prefix(self) -> str:
        """The start of the paths of all endpoints: the path of the issuer."""
        return parse_url(self.issuer, what="issuer").path.rstrip("/")

    def endpoint(self, path: str) -> str:
        """Return the URL of an endpoint."""
        return f"{parse_url(self.issuer, what='issuer').origin}{self.prefix}{path}"
