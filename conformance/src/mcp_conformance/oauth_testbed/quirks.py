"""The deviations of the testbed, as one table. Its defaults describe correct servers.

Most deviations of real servers are a missing member or a wrong value. For these each document and each response has
*changes*. A deviation of the HTTP response itself is a `Reply` in place of the response. The rest are switches.

Strings may contain the placeholders `{server}`, `{issuer}`, `{other}`, `{resource}`, `{shouted}`, `{origin}`, `{evil}`
and `{prm}`: the origin of the authorization server, its issuer, the issuer of the other one, the URL of the MCP server,
the same with its scheme and host in upper case, its origin, the origin of an attacker, and the URL of the resource
metadata. A challenge may also contain `{scope}`, the required scopes, and `{more}`, those that only the method requires,
if there are some.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonValue

__all__ = ["ABSENT", "CHALLENGE", "INVALID", "SCOPE", "Absent", "Changes", "Part", "Quirks", "Reply", "Well"]


class Absent(enum.Enum):
    """The marker of a member that is left out."""

    ABSENT = "absent"
    """The only value."""


ABSENT: Final = Absent.ABSENT
"""In `Changes`: the member is left out."""

Changes: TypeAlias = Mapping[str, "JsonValue | Absent"]
"""Members of a document with values other than the right ones."""

_NOTHING: Final[Mapping[str, JsonValue | Absent]] = MappingProxyType({})


class Part(enum.Enum):
    """The part of the testbed that a request concerns."""

    RESOURCE_METADATA = "resource metadata"
    """The metadata of the MCP server."""
    SERVER_METADATA = "server metadata"
    """The metadata of its authorization server."""
    REGISTRATION = "registration"
    """The registration endpoint."""
    AUTHORIZATION = "authorization"
    """The authorization endpoint, in the browser."""
    TOKEN = "token"
    """The token endpoint."""
    REVOCATION = "revocation"
    """The revocation endpoint."""
    MCP = "mcp"
    """The MCP endpoint."""


class Well(enum.Enum):
    """The well-known URLs of authorization server metadata, relative to the issuer."""

    OAUTH = "{origin}/.well-known/oauth-authorization-server{path}"
    """RFC 8414."""
    OPENID_INSERTED = "{origin}/.well-known/openid-configuration{path}"
    """OpenID Connect, with the path inserted as in RFC 8414."""
    OPENID_APPENDED = "{origin}{path}/.well-known/openid-configuration"
    """OpenID Connect Discovery."""
    OAUTH_APPENDED = "{origin}{path}/.well-known/oauth-authorization-server"
    """In no specification, but in use."""

    def url(self, issuer: str) -> str:
        """Return the URL for an issuer."""
        head, mark, rest = issuer.partition("://")
        host, slash, path = rest.partition("/")
        return self.value.format(origin=f"{head}{mark}{host}", path=f"{slash}{path}".rstrip("/"))


@attrs.frozen(kw_only=True)
class Reply:
    """A response in place of the right one."""

    status: int | None = None
    """The status; `None`: the right response with a delay."""
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)
    """The headers, with placeholders."""
    body: bytes = b""
    """The body."""
    delay: float = 0.0
    """Seconds before the response; infinite: there is no response."""
    times: int | None = None
    """The number of requests that get this response, from the first one; `None`: all."""


CHALLENGE: Final = 'Bearer resource_metadata="{prm}", scope="{scope}"'
"""The challenge of a request without a token."""
INVALID: Final = 'Bearer error="invalid_token", resource_metadata="{prm}"'
"""The challenge of a request with an invalid token."""
SCOPE: Final = 'Bearer error="insufficient_scope", scope="{scope}", resource_metadata="{prm}"'
"""The challenge of a request whose token has insufficient scopes."""


@attrs.frozen(kw_only=True)
class Quirks:
    """The deviations of the servers that a client meets."""

    challenge: tuple[str, ...] = (CHALLENGE,)
    """The `WWW-Authenticate` lines of a 401 without a token. `scope` is omitted if no scope is required."""
    challenge_invalid: tuple[str, ...] = (INVALID,)
    """The lines of a 401 with a token."""
    challenge_scope: tuple[str, ...] = (SCOPE,)
    """The lines of a 403."""
    guarded: tuple[str, ...] = ()
    """The methods that require a token; empty: all methods."""
    scopes: tuple[str, ...] = ("notes:read",)
    """The scopes that every request requires, and that the first challenge names."""
    scopes_of: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Additional scopes that a method requires."""
    insatiable: bool = False
    """Whether methods of `scopes_of` are rejected for any scopes."""
    resumes: bool = False
    """Whether the stream of a call ends before the response, which the client gets when it resumes it (2025-11-25)."""
    listens: bool = False
    """Whether the server notifies of changes of its tools; it ends each subscription at once (2026-07-28)."""
    dpop: Literal["off", "accepted", "required"] = "off"
    """Whether tokens are bound to keys (RFC 9449)."""
    nonce_at: frozenset[Part] = frozenset()
    """The parts at which a proof requires a nonce: `Part.TOKEN`, `Part.MCP`."""
    nonces: Literal["kept", "renewed", "never right"] = "kept"
    """Whether a nonce remains valid, is replaced by each response, or is never valid."""

    resource_metadata_at: Literal["path", "root", "elsewhere", "nowhere"] = "path"
    """The place of the resource metadata: at the well-known URL with or without the path, elsewhere, or nowhere."""
    resource_metadata_moves: bool = False
    """Whether challenges name another URL of it once the MCP server has accepted a token. The first one stays valid."""
    resource_metadata: Changes = _NOTHING
    """Changes of the resource metadata."""
    issuer: str = "{server}"
    """The issuer of the authorization server."""
    one_host: bool = False
    """Whether the other authorization server has the origin of the first one, and a path."""
    other: Quirks | None = None
    """The deviations of the other authorization server, and of the resource metadata that name it; `None`: none."""
    same_origin: bool = False
    """Whether the MCP server is its own authorization server, as in 2025-03-26."""
    server_metadata_at: tuple[Well, ...] = (Well.OAUTH,)
    """The URLs of the authorization server metadata; empty: no metadata."""
    server_metadata: Changes = _NOTHING
    """Changes of the authorization server metadata."""

    registers: bool = True
    """Whether clients can register dynamically (RFC 7591)."""
    documents: bool = False
    """Whether the URL of a metadata document is accepted as client id."""
    registration: Changes = _NOTHING
    """Changes of the registration response. The changed document is registered."""
    forgets: int = 0
    """How often the token endpoint does not know the client of a code, as after a restart without a store."""

    strays: tuple[Mapping[str, str], ...] = ()
    """Parameters of forged authorization responses that precede the right one.

    `{state}` is the right state, and `{code}` a code that the client must not redeem.
    """
    authorization: Changes = _NOTHING
    """Changes of the parameters of the authorization response."""
    authorization_later: Changes = _NOTHING
    """Further changes of them, once the MCP server has accepted a token: those of a second login."""

    strange_texts: bool = False
    """Whether codes and tokens have all kinds of characters that they may have (RFC 6749, appendix A; RFC 6750)."""
    token: Changes = _NOTHING
    """Changes of the token response; `scope` is granted as stated there."""
    token_later: Changes = _NOTHING
    """Further changes of it, once the MCP server has accepted a token."""
    token_as_form: bool = False
    """Whether the token response is a form instead of JSON."""
    lifetime: float = 3600.0
    """The lifetime of a token, in seconds."""
    refresh: Literal["rotates", "stays", "issued once", "never"] = "rotates"
    """Whether a refresh token is issued, and rotated. A second use of a rotated one revokes the whole authorization.

    One that is issued once stays valid, and the response to a refresh request has none.
    """

    replies: Mapping[Part, Reply] = MappingProxyType({})
    """Responses in place of the right ones."""
    replies_later: Mapping[Part, Reply] = MappingProxyType({})
    """The same, once the MCP server has accepted a token."""
    json_type: str = "application/json"
    """The media type of JSON documents of the authorization server, and of the resource metadata."""
    appended: Mapping[Part, str] = MappingProxyType({})
    """JSON members that are repeated at the end of an object."""
