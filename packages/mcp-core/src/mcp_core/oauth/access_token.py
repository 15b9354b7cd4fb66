"""Access tokens, as a resource server sees them: what they say, and whether that lets anybody in.

Two ways lead to one `AccessToken`: the claims of a JWT whose signature was verified (RFC 9068), and the answer of the
authorization server to the question what a token is (RFC 7662). Both are read as authorization servers write them, with
their dialects of scope and client. Whether the token is good for this server is then held against the rules without any
leniency: from a trusted issuer, for us by name, not ended, not bound to what was not proven.

A token for somebody else is refused even if we could read it: whoever got it, for whatever he runs, could else act here
in the name of its subject.

Spec: basic/authorization#token-handling; RFC 9068, RFC 7662, RFC 8707 section 2, RFC 6750
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import McpError, UnsafeUrl
from mcp_core.oauth.principal import Principal
from mcp_core.oauth.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["LEEWAY", "AccessToken", "InvalidToken", "check_access_token", "names_resource", "read_access_token"]

LEEWAY: Final = 30.0
"""Seconds that clocks may differ."""

_CLIENTS: Final = ("client_id", "azp", "cid", "appid")
"""Where authorization servers say which client a token was given to: the standard, OpenID Connect, and two products."""

_SCOPES: Final = ("scope", "scp")
"""Where they say what it is good for: the standard, and two products. As one text, or as a list."""

_LATEST: Final = 2.0**53
"""Seconds. No clock gets there, and beyond it a number is not exact."""


class InvalidToken(McpError):
    """A token lets nobody in. The sentence may be told to whoever sent it; nothing of the token is in it."""


@attrs.frozen(kw_only=True)
class AccessToken:
    """What an access token says, in the words of its issuer."""

    issuer: str | None
    """Who issued it; `None` when that is not said."""
    subject: str
    """In whose name it was given: `sub`. Of a client that acts for itself, its own."""
    client_id: str | None
    """To which client it was given; `None` when that is not said."""
    audience: tuple[str, ...]
    """For whom it is."""
    scopes: frozenset[str]
    """What it is good for."""
    expires_at: float | None
    """When it ends, in seconds since the epoch; `None` when that is not said."""
    not_before: float | None = None
    """When it begins, likewise."""
    issued_at: float | None = None
    """When it was issued, likewise."""
    confirmation: str | None = None
    """The thumbprint of the key that has to be proven with it (`jkt`, RFC 9449); `None`: whoever has it may use it."""
    token_id: str | None = None
    """Its own id: `jti`."""
    principal: Principal = attrs.field(init=False, repr=False, eq=False)
    """Whom it lets in."""

    @principal.default
    def _principal(self) -> Principal:
        return Principal(issuer=self.issuer, subject=self.subject, client_id=self.client_id)


def read_access_token(claims: JsonObject, *, issuer: str | None = None) -> AccessToken:
    """Reads the claims of a JWT, or the answer to an introspection.

    Args:
        claims: They are known to be the issuer's.
        issuer: Who answered, where the claims do not have to name the issuer.

    Raises:
        InvalidToken: A claim is missing or of the wrong type, or the token is bound in a way that cannot be checked.
    """
    client_id = next((found for name in _CLIENTS if (found := _text(claims, name)) is not None), None)
    # A client that acts for itself need not be named twice.
    subject = _text(claims, "sub") or client_id
    if subject is None:
        raise InvalidToken("the access token does not say in whose name it was given")
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
        raise InvalidToken(f"the access token has a wrong {name}")
    return value


def _time(claims: JsonObject, name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST:
        raise InvalidToken(f"the access token has a wrong {name}")
    return value


def _audience(value: JsonValue) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    texts = [each for each in values if isinstance(each, str)]
    if len(texts) < len(values):
        raise InvalidToken("the access token has a wrong aud")
    return tuple(texts)


def _scopes(value: JsonValue, name: str) -> list[str]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    texts = [each for each in values if isinstance(each, str)]
    if len(texts) < len(values):
        raise InvalidToken(f"the access token has a wrong {name}")
    return [scope for text in texts for scope in text.split()]


def _confirmation(value: JsonValue) -> str | None:
    if value is None:
        return None
    thumbprint = value.get("jkt") if isinstance(value, dict) else None
    # Bound in two ways it would have to be proven in two ways.
    if not isinstance(thumbprint, str) or not thumbprint or not isinstance(value, dict) or len(value) > 1:
        raise InvalidToken("the access token is bound in a way that is not supported here")
    return thumbprint


def check_access_token(token: AccessToken, *, resource: str, issuers: Collection[str], now: float) -> None:
    """Makes sure that a token is good for a resource.

    Args:
        token: The token.
        resource: The identifier of the resource.
        issuers: The authorization servers that it trusts, compared octet by octet.
        now: Seconds since the epoch.

    Raises:
        InvalidToken: It is not.
    """
    if token.issuer not in issuers:
        raise InvalidToken("the access token is not from an authorization server of this resource")
    if not any(names_resource(audience, resource) for audience in token.audience):
        raise InvalidToken("the access token is not for this resource")
    if token.expires_at is not None and now >= token.expires_at + LEEWAY:
        raise InvalidToken("the access token has expired")
    for claim, at in (("nbf", token.not_before), ("iat", token.issued_at)):
        if at is not None and at > now + LEEWAY:
            raise InvalidToken(f"the access token is from the future, by its {claim}")


def names_resource(audience: str, resource: str) -> bool:
    """Whether an audience is a resource: the same octets, or the same URI by the rules that hold for every http URI.

    Those are few: the case of scheme and host, a port that the scheme has anyway, and an empty path, which is `/`.
    A path above or below is another resource, and so is one with a slash more at its end.

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
