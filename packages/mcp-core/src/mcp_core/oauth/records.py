"""Stored records of the OAuth client: the client at an authorization server, and the tokens that it received there.

Both are bound to their issuer, and are never sent to another. Times are absolute, in seconds since the epoch. The
stored form has a version. A record that is unreadable counts as missing, because the client can obtain it again.

No `repr` in this module shows a secret. The stored form contains all secrets: store it in a keyring or an encrypted
file.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import InvalidValue
from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "VERSION",
    "AuthMethod",
    "ClientRecord",
    "Registration",
    "TokenRecord",
    "read_client",
    "read_tokens",
]

VERSION: Final = 1
"""The version of the stored form."""


def _masked(secret: str | None) -> str:
    return "None" if secret is None else "<secret>"


class AuthMethod(enum.Enum):
    """The method by which a client authenticates at the token endpoint."""

    NONE = "none"
    """No authentication: a public client."""
    SECRET_BASIC = "client_secret_basic"
    """The client secret in the Authorization header."""
    SECRET_POST = "client_secret_post"
    """The client secret in the form."""
    PRIVATE_KEY_JWT = "private_key_jwt"
    """A JWT that the client signs (RFC 7523)."""


class Registration(enum.Enum):
    """The source of a client id."""

    PREREGISTERED = "preregistered"
    """The client's configuration."""
    METADATA_DOCUMENT = "metadata_document"
    """The URL of a client ID metadata document."""
    DYNAMIC = "dynamic"
    """Dynamic registration (RFC 7591)."""
    USER_PROVIDED = "asked"
    """An input of the user."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClientRecord(FieldValue):
    """The client at one authorization server."""

    client_id: str
    """The client id."""
    issuer: str | None
    """The authorization server. `None` in a configuration that does not name it: the first authorization server that is
    found then receives the id, and from then on the record has its issuer."""
    client_secret: str | None = attrs.field(default=None, repr=_masked)
    """The client secret."""
    auth_method: AuthMethod | None = None
    """The authentication method; `None` to choose one that the authorization server supports."""
    registration: Registration = Registration.PREREGISTERED
    """The source of the client id."""
    redirect_uris: tuple[str, ...] = ()
    """The registered redirect URIs; empty if unknown."""
    secret_expires_at: float | None = None
    """The expiry of the secret, in seconds since the epoch; `None` if the secret does not expire."""

    def is_usable(self, now: float, *, redirect_uri: str | None) -> bool:
        """Return whether the record has not expired, and allows the redirect URI, if there is one.

        Ports are compared too, because not every authorization server ignores them.
        """
        if self.secret_expires_at is not None and self.secret_expires_at <= now:
            return False
        return redirect_uri is None or not self.redirect_uris or redirect_uri in self.redirect_uris

    def to_json(self) -> JsonObject:
        """Return the stored form, which contains the secret."""
        return {
            "version": VERSION,
            "client_id": self.client_id,
            "issuer": self.issuer,
            "client_secret": self.client_secret,
            "auth_method": None if self.auth_method is None else self.auth_method.value,
            "registration": self.registration.value,
            "redirect_uris": list(self.redirect_uris),
            "secret_expires_at": self.secret_expires_at,
        }


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TokenRecord(FieldValue):
    """An access token, with the data to use and to renew it."""

    access_token: str = attrs.field(repr=_masked)
    """The token."""
    token_type: str
    """`Bearer` or `DPoP`: the scheme of the Authorization header."""
    expires_at: float | None
    """The expiry, in seconds since the epoch; `None` if unknown."""
    refresh_token: str | None = attrs.field(default=None, repr=_masked)
    """The token that obtains the next access token without the user."""
    scopes: tuple[str, ...] = ()
    """The granted scopes: those that the authorization server named, or the requested scopes if it named none."""
    requested_scopes: tuple[str, ...] = ()
    """The requested scopes."""
    resource: str
    """The resource for which the token was issued."""
    server_url: str
    """The only MCP server to which the token may be sent."""
    token_endpoint: str
    """The URL at which the token is renewed."""
    issuer: str
    """The authorization server."""
    client: ClientRecord | None = None
    """The client that received the token, with the same issuer; `None` if the grant does not use a client id."""

    def is_expired(self, now: float, *, leeway: float = 30.0) -> bool:
        """Return whether the token has expired, or is about to: requests take time, and clocks differ.

        Args:
            now: Seconds since the epoch.
            leeway: Time before the expiry in which the token counts as expired, in seconds.
        """
        return self.expires_at is not None and now >= self.expires_at - leeway

    def to_json(self) -> JsonObject:
        """Return the stored form, which contains the secrets."""
        return {
            "version": VERSION,
            "access_token": self.access_token,
            "token_type": self.token_type,
            "expires_at": self.expires_at,
            "refresh_token": self.refresh_token,
            "scopes": list(self.scopes),
            "requested_scopes": list(self.requested_scopes),
            "resource": self.resource,
            "server_url": self.server_url,
            "token_endpoint": self.token_endpoint,
            "issuer": self.issuer,
            "client": None if self.client is None else self.client.to_json(),
        }


def read_client(document: JsonValue) -> ClientRecord:
    """Read the stored form of a client.

    Raises:
        InvalidValue: The document is invalid, or has another version. The message contains no values.
    """
    stored = _StoredRecord.of(document, "client")
    method = stored.optional("auth_method")
    try:
        return ClientRecord(
            client_id=stored.text("client_id"),
            issuer=stored.optional("issuer"),
            client_secret=stored.optional("client_secret"),
            auth_method=None if method is None else AuthMethod(method),
            registration=Registration(stored.text("registration")),
            redirect_uris=stored.texts("redirect_uris"),
            secret_expires_at=stored.time("secret_expires_at"),
        )
    except ValueError:
        raise InvalidValue("has an unknown authentication method or registration", path="client") from None


def read_tokens(document: JsonValue) -> TokenRecord:
    """Read the stored form of tokens.

    Raises:
        InvalidValue: The document is invalid, or has another version. The message contains no values.
    """
    stored = _StoredRecord.of(document, "tokens")
    issuer = stored.text("issuer")
    client = None if stored.document.get("client") is None else read_client(stored.document["client"])
    if client is not None and client.issuer != issuer:
        raise InvalidValue("has another issuer than the tokens", path="tokens.client")
    return TokenRecord(
        access_token=stored.text("access_token"),
        token_type=stored.text("token_type"),
        expires_at=stored.time("expires_at"),
        refresh_token=stored.optional("refresh_token"),
        scopes=stored.texts("scopes"),
        requested_scopes=stored.texts("requested_scopes"),
        resource=stored.text("resource"),
        server_url=stored.text("server_url"),
        token_endpoint=stored.text("token_endpoint"),
        issuer=issuer,
        client=client,
    )


@attrs.frozen(eq=False, repr=False)
class _StoredRecord(FieldValue):
    """A stored object. The reader is strict, because only this module writes the stored form."""

    document: JsonObject
    what: str

    @classmethod
    def of(cls, document: JsonValue, what: str) -> _StoredRecord:
        if not isinstance(document, dict) or document.get("version") != VERSION:
            raise InvalidValue(f"is not a stored record of version {VERSION}", path=what)
        return cls(document, what)

    def text(self, name: str) -> str:
        value = self.optional(name)
        if value is None:
            raise InvalidValue("missing", path=f"{self.what}.{name}")
        return value

    def optional(self, name: str) -> str | None:
        value = self.document.get(name)
        if value is None or isinstance(value, str):
            return value
        raise InvalidValue("is not a string", path=f"{self.what}.{name}")

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.document.get(name)
        if not isinstance(value, list):
            raise InvalidValue("is not a list of strings", path=f"{self.what}.{name}")
        kept = tuple(each for each in value if isinstance(each, str))
        if len(kept) < len(value):
            raise InvalidValue("is not a list of strings", path=f"{self.what}.{name}")
        return kept

    def time(self, name: str) -> float | None:
        value = self.document.get(name)
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        raise InvalidValue("is not a time", path=f"{self.what}.{name}")
