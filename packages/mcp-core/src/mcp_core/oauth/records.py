"""What is kept between flows: the client at an authorization server, and the tokens that it got there.

Both are bound to the issuer that they are of, and are offered to no other. Times are absolute, in seconds since the epoch.
The stored form has a version; what cannot be read counts as nothing, since it can be got anew.

Nothing here shows a secret in its `repr`. The stored form has them all: it belongs in a keyring or an encrypted file.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import InvalidValue

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
"""Of the stored form."""


def _masked(secret: str | None) -> str:
    return "None" if secret is None else "<secret>"


class AuthMethod(enum.Enum):
    """How a client authenticates at the token endpoint."""

    NONE = "none"
    """Not at all: a public client."""
    SECRET_BASIC = "client_secret_basic"
    """With its secret, in the Authorization header."""
    SECRET_POST = "client_secret_post"
    """With its secret, in the form."""
    PRIVATE_KEY_JWT = "private_key_jwt"
    """With a JWT that it signs (RFC 7523)."""


class Registration(enum.Enum):
    """How a client came to its id."""

    PREREGISTERED = "preregistered"
    """By the client's configuration."""
    METADATA_DOCUMENT = "metadata_document"
    """The id is the URL of a document that describes the client."""
    DYNAMIC = "dynamic"
    """By RFC 7591."""
    ASKED = "asked"
    """The person entered it."""


@attrs.frozen(kw_only=True)
class ClientRecord:
    """The client, as one authorization server knows it."""

    client_id: str
    """Its id there."""
    issuer: str | None
    """The authorization server. `None`: in a configuration that does not name it; the first one that is found then gets
    the id, and from then on the record has its name."""
    client_secret: str | None = attrs.field(default=None, repr=_masked)
    """Its secret there."""
    auth_method: AuthMethod | None = None
    """How it authenticates; `None`: by what the authorization server supports."""
    registration: Registration = Registration.PREREGISTERED
    """How it came to its id."""
    redirect_uris: tuple[str, ...] = ()
    """Those that are registered; empty where that is not known."""
    secret_expires_at: float | None = None
    """When the secret ends; `None`: never."""

    def is_usable(self, now: float, *, redirect_uri: str | None) -> bool:
        """Whether it has not expired, and knows the redirect URI if one is to be used.

        Ports are looked at too: not every authorization server lets them vary.
        """
        if self.secret_expires_at is not None and self.secret_expires_at <= now:
            return False
        return redirect_uri is None or not self.redirect_uris or redirect_uri in self.redirect_uris

    def to_json(self) -> JsonObject:
        """The stored form. It has the secret in it."""
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


@attrs.frozen(kw_only=True)
class TokenRecord:
    """An access token, and all that is needed to use it and to get the next one."""

    access_token: str = attrs.field(repr=_masked)
    """The token."""
    token_type: str
    """`Bearer` or `DPoP`; the scheme of the Authorization header."""
    expires_at: float | None
    """When it ends; `None` when that was not said."""
    refresh_token: str | None = attrs.field(default=None, repr=_masked)
    """By which the next one is got without the person."""
    scopes: tuple[str, ...] = ()
    """What it was granted for: in the authorization server's words, or what was asked for when it had none."""
    requested_scopes: tuple[str, ...] = ()
    """What was asked for."""
    resource: str
    """What it is for."""
    server_url: str
    """The MCP server that it may be sent to, and no other."""
    token_endpoint: str
    """Where the next one is got."""
    issuer: str
    """The authorization server."""
    client: ClientRecord | None = None
    """Who got it, of the same issuer; `None` where the grant needs no client id."""

    def is_expired(self, now: float, *, leeway: float = 30.0) -> bool:
        """Whether it has ended, or is about to: a request takes its time, and clocks differ.

        Args:
            now: Seconds since the epoch.
            leeway: Seconds before its end from which on it is not sent any more.
        """
        return self.expires_at is not None and now >= self.expires_at - leeway

    def to_json(self) -> JsonObject:
        """The stored form. It has the secrets in it."""
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
    """Reads the stored form.

    Raises:
        InvalidValue: It is none, or one of another version. The sentence has no values in it.
    """
    stored = _Stored.of(document, "client")
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
        raise InvalidValue("has a way of authentication or registration that is not known", path="client") from None


def read_tokens(document: JsonValue) -> TokenRecord:
    """Reads the stored form.

    Raises:
        InvalidValue: It is none, or one of another version. The sentence has no values in it.
    """
    stored = _Stored.of(document, "tokens")
    issuer = stored.text("issuer")
    client = None if stored.document.get("client") is None else read_client(stored.document["client"])
    if client is not None and client.issuer != issuer:
        raise InvalidValue("is of another issuer", path="tokens.client")
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


@attrs.frozen
class _Stored:
    """A stored object; strict, for nobody but us wrote it."""

    document: JsonObject
    what: str

    @classmethod
    def of(cls, document: JsonValue, what: str) -> _Stored:
        if not isinstance(document, dict) or document.get("version") != VERSION:
            raise InvalidValue(f"is no stored record of version {VERSION}", path=what)
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
        raise InvalidValue("is no string", path=f"{self.what}.{name}")

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.document.get(name)
        if not isinstance(value, list):
            raise InvalidValue("is no list of strings", path=f"{self.what}.{name}")
        kept = tuple(each for each in value if isinstance(each, str))
        if len(kept) < len(value):
            raise InvalidValue("is no list of strings", path=f"{self.what}.{name}")
        return kept

    def time(self, name: str) -> float | None:
        value = self.document.get(name)
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        raise InvalidValue("is no time", path=f"{self.what}.{name}")
