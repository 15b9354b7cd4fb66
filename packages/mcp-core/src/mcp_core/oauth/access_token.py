"""Access tokens on a resource server: their claims, and the check whether a token grants access.

An `AccessToken` has one of two sources: the claims of a JWT whose signature was verified (RFC 9068), or the response of
the authorization server to an introspection request (RFC 7662). The reader accepts both in the dialects of
authorization servers for scope and client. The check whether the token is valid for this server is strict: the issuer
is trusted, the audience names the server, the token has not expired, and a key that it is bound to was proven.

A token for another audience is rejected even if this server could read it. Otherwise the operator of any service that
received the token could act here in the name of its subject.

Spec: basic/authorization#token-handling; RFC 9068, RFC 7662, RFC 8707 section 2, RFC 6750
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import McpError, UnsafeUrl
from mcp_core.field_methods import FieldValue
from mcp_core.oauth.principal import Principal
from mcp_core.oauth.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["LEEWAY", "AccessToken", "InvalidToken", "check_access_token", "names_resource", "read_access_token"]

LEEWAY: Final = 30.0
"""Tolerance for clocks that differ, in seconds."""

_CLIENTS: Final = ("client_id", "azp", "cid", "appid")
"""Claims that name the client of a token: the standard, OpenID Connect, and two products."""

_SCOPES: Final = ("scope", "scp")
"""Claims that contain the scopes: the standard, and two products. As one string, or as a list."""

_LATEST: Final = 2.0**53
"""In seconds. No clock reaches this value, and beyond it a float is not exact."""


class InvalidToken(McpError):
    """An access token was rejected. The message may be sent to the client; it contains no part of the token."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AccessToken(FieldValue):
    """The contents of an access token, as stated by its issuer."""

    issuer: str | None
    """The issuer; `None` if unknown."""
    subject: str
    """The subject, `sub`. For a client that acts for itself, the client's own id."""
    client_id: str | None
    """The client that received the token; `None` if unknown."""
    audience: tuple[str, ...]
    """The audiences of the token."""
    scopes: frozenset[str]
    """The scopes of the token."""
    expires_at: float | None
    """The expiry, in seconds since the epoch; `None` if unknown."""
    not_before: float | None = None
    """The beginning of validity, in seconds since the epoch; `None` if unknown."""
    issued_at: float | None = None
    """The time of issue, in seconds since the epoch; `None` if unknown."""
    confirmation: str | None = None
    """The thumbprint of the key that the client must prove (`jkt`, RFC 9449); `None` if the token is not bound to a
    key."""
    token_id: str | None = None
    """The id of the token: `jti`."""
    principal: Principal = attrs.field(init=False, repr=False, eq=False)
    """The principal that the token authenticates."""

    @principal.default
    def _principal(self) -> Principal:
        return Principal(issuer=self.issuer, subject=self.subject, client_id=self.client_id)


def read_access_token(claims: JsonObject, *, issuer: str | None = None) -> AccessToken:
    """Read the claims of a JWT, or an introspection response.

    Args:
        claims: The claims, verified to come from the issuer.
        issuer: The issuer to use if the claims do not name one.

    Raises:
        InvalidToken: A claim is missing or has the wrong type, or the token is bound in a way that cannot be checked.
    """
    client_id = next((found for name in _CLIENTS if (found := _text(claims, name)) is not None), None)
    # A client that acts for itself may be named only once.
    subject = _text(claims, "sub") or client_id
    if subject is None:
        raise InvalidToken("the access token has no subject (sub or client_id)")
    return AccessToken(
        issuer=_text(claims, "iss") or issuer,
        subject=subject,
        client_id=client_id,
        audience=_audience(claims.get("aud")),
        scopes=frozenset(scope for name in _SCOPES for scope in _scopes(claims.get(name), name)),
        expires_at=_time(claims, "exp"),
        not_before=_time(claims, "nbf"),
        issued_at=_time(claims, "iat"),
        confirmation=_confirmation(claims.get("cnf")),
        token_id=_text(claims, "jti"),
    )


def _text(claims: JsonObject, name: str) -> str | None:
    value = claims.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InvalidToken(f"the claim {name} of the access token is invalid")
    return value


def _time(claims: JsonObject, name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST:
        raise InvalidToken(f"the claim {name} of the access token is invalid")
    return value


def _audience(value: JsonValue) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    texts = [each for each in values if isinstance(each, str)]
    if len(texts) < len(values):
        raise InvalidToken("the claim aud of the access token is invalid")
    return tuple(texts)


def _scopes(value: JsonValue, name: str) -> list[str]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    texts = [each for each in values if isinstance(each, str)]
    if len(texts) < len(values):
        raise InvalidToken(f"the claim {name} of the access token is invalid")
    return [scope for text in texts for scope in text.split()]


def _confirmation(value: JsonValue) -> str | None:
    if value is None:
        return None
    thumbprint = value.get("jkt") if isinstance(value, dict) else None
    # A token with two kinds of confirmation would require two proofs.
    if not isinstance(thumbprint, str) or not thumbprint or not isinstance(value, dict) or len(value) > 1:
        raise InvalidToken("the confirmation (cnf) of the access token is not supported: only jkt is")
    return thumbprint


def check_access_token(token: AccessToken, *, resource: str, issuers: Collection[str], now: float) -> None:
    """Check that a token is valid for a resource.

    Args:
        token: The token.
        resource: The identifier of the resource.
        issuers: The trusted authorization servers, compared octet by octet.
        now: Seconds since the epoch.

    Raises:
        InvalidToken: The token is not valid for the resource.
    """
    if token.issuer not in issuers:
        raise InvalidToken("the access token is not from an authorization server of this resource")
    if not any(names_resource(audience, resource) for audience in token.audience):
        raise InvalidToken("the access token is not for this resource")
    if token.expires_at is not None and now >= token.expires_at + LEEWAY:
        raise InvalidToken("the access token has expired")
    for claim, at in (("nbf", token.not_before), ("iat", token.issued_at)):
        if at is not None and at > now + LEEWAY:
            raise InvalidToken(f"the access token is not valid yet: its {claim} is in the future")


def names_resource(audience: str, resource: str) -> bool:
    """Return whether an audience is a resource: the same octets, or the same URI by the rules for all http URIs.

    The rules cover the case of scheme and host, the default port of the scheme, and an empty path, which equals `/`.
    A path above or below is another resource, and so is a path with an additional slash at its end.

    Spec: RFC 3986 sections 6.2.2.1 and 6.2.3, RFC 8707 section 2
    """
    if audience == resource:
        return True
    try:
        one, other = parse_url(audience, what="audience"), parse_url(resource, what="resource")
    except UnsafeUrl:
        return False
    return (one.origin, one.path or "/", one.query, one.fragment) == (
        other.origin,
        other.path or "/",
        other.query,
        other.fragment,
    )
