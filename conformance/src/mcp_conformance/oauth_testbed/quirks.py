"""What may be odd about the other side: one table, whose defaults are a correct peer.

Most oddities of real servers are a member that is missing, or has another value: for these each document and each answer
has its *changes*. What else can go wrong at an HTTP request, whatever it is for, is a `Reply` in place of the answer. The
rest are switches.

Strings may have the places `{server}`, `{issuer}`, `{other}`, `{resource}`, `{shouted}`, `{origin}`, `{evil}` and `{prm}`
in them: the origin of the authorization server, its issuer, that of another one, the MCP server, the same with scheme and
host in upper case, its origin, a stranger's origin, and the URL of the resource's metadata. A challenge may have
`{scope}` too.
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
    """A member that is left out."""

    ABSENT = "absent"
    """The only one."""


ABSENT: Final = Absent.ABSENT
"""In `Changes`: the member is left out."""

Changes: TypeAlias = Mapping[str, "JsonValue | Absent"]
"""Members of a document that are other than they should be."""

_NOTHING: Final[Mapping[str, JsonValue | Absent]] = MappingProxyType({})


class Part(enum.Enum):
    """What a request may be for."""

    RESOURCE_METADATA = "resource metadata"
    """The metadata of the MCP server."""
    SERVER_METADATA = "server metadata"
    """Those of its authorization server."""
    REGISTRATION = "registration"
    """A client id."""
    AUTHORIZATION = "authorization"
    """The page where the browser is sent."""
    TOKEN = "token"
    """A token."""
    MCP = "mcp"
    """The MCP server itself."""


class Well(enum.Enum):
    """Where the metadata of an authorization server are, relative to its issuer."""

    OAUTH = "{origin}/.well-known/oauth-authorization-server{path}"
    """RFC 8414."""
    OPENID_INSERTED = "{origin}/.well-known/openid-configuration{path}"
    """OpenID Connect, in the manner of RFC 8414."""
    OPENID_APPENDED = "{origin}{path}/.well-known/openid-configuration"
    """OpenID Connect Discovery."""
    OAUTH_APPENDED = "{origin}{path}/.well-known/oauth-authorization-server"
    """In no specification, and met."""

    def url(self, issuer: str) -> str:
        """The URL for an issuer."""
        head, mark, rest = issuer.partition("://")
        host, slash, path = rest.partition("/")
        return self.value.format(origin=f"{head}{mark}{host}", path=f"{slash}{path}".rstrip("/"))


@attrs.frozen(kw_only=True)
class Reply:
    """An answer in place of the right one."""

    status: int | None = None
    """The status; `None`: the right answer, only late."""
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)
    """The headers, with places."""
    body: bytes = b""
    """The body."""
    delay: float = 0.0
    """Seconds that it is kept back; infinite: it never comes."""
    times: int | None = None
    """How often, from the first request on; `None`: always."""


CHALLENGE: Final = 'Bearer resource_metadata="{prm}", scope="{scope}"'
"""What a request without token is told."""
INVALID: Final = 'Bearer error="invalid_token", resource_metadata="{prm}"'
"""What one with a bad token is told."""
SCOPE: Final = 'Bearer error="insufficient_scope", scope="{scope}", resource_metadata="{prm}"'
"""What one is told whose token does not suffice."""


@attrs.frozen(kw_only=True)
class Quirks:
    """How the peers of a client behave."""

    challenge: tuple[str, ...] = (CHALLENGE,)
    """The `WWW-Authenticate` lines of a 401 without token. `scope` is left out when there is none."""
    challenge_invalid: tuple[str, ...] = (INVALID,)
    """Those of a 401 with a token."""
    challenge_scope: tuple[str, ...] = (SCOPE,)
    """Those of a 403."""
    guarded: tuple[str, ...] = ()
    """Methods that need a token; nothing: all of them."""
    scopes: tuple[str, ...] = ("notes:read",)
    """Scopes that every request needs, and that the first challenge names."""
    scopes_of: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Scopes that a method needs beyond them."""
    insatiable: bool = False
    """Whether methods of `scopes_of` are refused whatever the token has."""
    dpop: Literal["off", "accepted", "required"] = "off"
    """Whether tokens are bound to keys (RFC 9449)."""
    nonce_at: frozenset[Part] = frozenset()
    """Where a proof needs a nonce: `Part.TOKEN`, `Part.MCP`."""
    nonces: Literal["kept", "renewed", "never right"] = "kept"
    """Whether a nonce stays good, each answer brings another one, or none ever is."""

    resource_metadata_at: Literal["path", "root", "elsewhere", "nowhere"] = "path"
    """Where the metadata of the resource are: the well-known URL with its path, that at the root, one that only the
    challenge knows, or none."""
    resource_metadata: Changes = _NOTHING
    """Changes of the metadata of the resource."""
    issuer: str = "{server}"
    """What the authorization server calls itself."""
    same_origin: bool = False
    """Whether the MCP server is its own authorization server, as in 2025-03-26."""
    server_metadata_at: tuple[Well, ...] = (Well.OAUTH,)
    """Where the metadata of the authorization server are; nothing: nowhere."""
    server_metadata: Changes = _NOTHING
    """Changes of the metadata of the authorization server."""

    registers: bool = True
    """Whether clients may register themselves (RFC 7591)."""
    documents: bool = False
    """Whether the URL of a metadata document is taken as a client id."""
    registration: Changes = _NOTHING
    """Changes of the answer to a registration; what comes out is what is registered."""
    forgets: int = 0
    """How often the token endpoint has lost the client, as after a restart without a store."""

    strays: tuple[Mapping[str, str], ...] = ()
    """Parameters of answers that others send to the redirect URI before the right one. `{state}` is the right state, and
    `{code}` a code that nobody should redeem."""
    authorization: Changes = _NOTHING
    """Changes of the parameters of the answer through the browser."""

    token: Changes = _NOTHING
    """Changes of the answer with a token; `scope` is what is granted."""
    token_as_form: bool = False
    """Whether the token endpoint answers with a form in place of JSON."""
    lifetime: float = 3600.0
    """Seconds that a token is good."""
    refresh: Literal["rotates", "stays", "never"] = "rotates"
    """Whether there is a refresh token, and another one each time. One that was used up voids all that came of it."""

    replies: Mapping[Part, Reply] = MappingProxyType({})
    """Answers in place of the right ones."""
    appended: Mapping[Part, str] = MappingProxyType({})
    """JSON members that stand, once more, at the end of an object."""
