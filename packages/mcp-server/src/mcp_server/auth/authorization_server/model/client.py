"""A registered client of the authorization server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import attrs
import orjson
from authlib.oauth2.rfc6749 import ClientMixin

from mcp_core.field_methods import FieldValue
from mcp_core.oauth.records import AuthMethod
from mcp_core.oauth.urls import parse_url, redirect_uri_matches, same_origin
from mcp_server.auth.authorization_server.model.interaction import RegistrationKind
from mcp_server.auth.authorization_server.model.redirect_uris import redirect_uri_problem
from mcp_server.auth.authorization_server.model.secrets import digest, is_it

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["GRANT_TYPES", "Client"]

GRANT_TYPES: Final = ("authorization_code", "refresh_token", "client_credentials")
"""The supported grant types of the token endpoint."""

_SHOWN: Final = 200
"""The maximum length of a redirect URI in an error message, in characters."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Client(FieldValue, ClientMixin):
    """A registered client. Create the clients of a configuration with `Client.configured`."""

    client_id: str
    """The client id."""
    name: str
    """The name for users, in one line."""
    kind: RegistrationKind
    """How the client was registered."""
    method: AuthMethod
    """The only authentication method that the client may use."""
    redirect_uris: tuple[str, ...]
    """The allowed redirect URIs."""
    grant_types: tuple[str, ...]
    """The grant types that the client may use."""
    secret_digest: str | None = attrs.field(default=None, repr=False)
    """The digest of the client secret."""
    jwks: JsonObject | None = None
    """The public keys of the client, for `private_key_jwt`."""
    jwks_uri: str | None = None
    """The URL of the public keys, instead of `jwks`."""
    scopes: tuple[str, ...] | None = None
    """The scopes that the client may request; `None`: all scopes that users can grant."""
    introspects: tuple[str, ...] = ()
    """The resources whose server the client is. It may introspect their tokens."""
    bound: bool = False
    """Whether all tokens of the client are bound to a key with DPoP."""
    client_uri: str | None = None
    """The URL of a page about the client."""
    issued_at: float = 0.0
    """The time of registration, in seconds since the epoch."""

    def __attrs_post_init__(self) -> None:
        if self.kind is not RegistrationKind.CONFIGURED:
            return  # other clients are checked when their metadata is read, with errors for the client
        for uri in self.redirect_uris:
            problem = redirect_uri_problem(uri)
            if problem is not None:
                raise ValueError(
                    f"client {self.client_id!r} has a configured redirect URI that {problem}: {uri[:_SHOWN]!a}"
                )

    @classmethod
    def configured(
        cls,
        client_id: str,
        *,
        name: str | None = None,
        redirect_uris: Iterable[str] = (),
        secret: str | None = None,
        jwks: JsonObject | None = None,
        grant_types: Iterable[str] | None = None,
        scopes: Iterable[str] | None = None,
        introspects: Iterable[str] = (),
        bound: bool = False,
    ) -> Self:
        """Return a client that the operator of the authorization server configures.

        Args:
            client_id: The client id. With the grant type `client_credentials` it is also the subject of the tokens, so
                no user may have the same name.
            name: The name for users. Default: the client id.
            redirect_uris: The allowed redirect URIs: https, or http on the loopback interface with any port.
            secret: The client secret. It must be unguessable: `secrets.token_urlsafe(32)`. The client may send it in
                the header or in the form.
            jwks: The public keys, instead of a secret. The client then signs assertions (`private_key_jwt`). Without
                secret and keys, the client is a public client.
            grant_types: The grant types that the client may use. Default: authorization code and refresh token if there
                is a redirect URI; otherwise client credentials if the client can authenticate.
            scopes: The scopes that the client may request. Default: all.
            introspects: The resources whose server the client is. It may introspect their tokens.
            bound: Whether all tokens of the client are bound to a key with DPoP.

        Raises:
            TypeError: `redirect_uris` is a string.
            ValueError: A redirect URI is not allowed, or the arguments contradict each other.
        """
        if isinstance(redirect_uris, str):
            raise TypeError(f"client {client_id!r}: redirect_uris must be a list, not a string: [{redirect_uris!r}]")
        if secret is not None and jwks is not None:
            raise ValueError(f"client {client_id!r} has both a secret and keys: configure only one of them")
        uris = tuple(redirect_uris)
        public = secret is None and jwks is None
        if grant_types is not None:
            grants = tuple(grant_types)
        else:
            grants = GRANT_TYPES[:2] if uris else () if public else GRANT_TYPES[2:]
        if unknown := sorted(set(grants) - set(GRANT_TYPES)):
            raise ValueError(f"client {client_id!r} has unknown grant types: {', '.join(unknown)}")
        if "client_credentials" in grants and public:
            raise ValueError(f"client {client_id!r} has the grant type client_credentials, but no secret and no keys")
        return cls(
            client_id=client_id,
            name=name or client_id,
            kind=RegistrationKind.CONFIGURED,
            method=AuthMethod.NONE if public else AuthMethod.PRIVATE_KEY_JWT if jwks else AuthMethod.SECRET_BASIC,
            redirect_uris=uris,
            grant_types=grants,
            secret_digest=None if secret is None else digest(secret),
            jwks=jwks,
            scopes=None if scopes is None else tuple(scopes),
            introspects=tuple(introspects),
            bound=bound,
        )

    @property
    def is_public(self) -> bool:
        """Whether the client cannot authenticate."""
        return self.method is AuthMethod.NONE

    @property
    def local_only(self) -> bool:
        """Whether all redirect URIs lead to the user's own machine."""
        return bool(self.redirect_uris) and all(
            parse_url(uri, what="redirect URI").is_loopback for uri in self.redirect_uris
        )

    def takes(self, method: AuthMethod) -> bool:
        """Return whether the client may use a method. A configured secret permits both secret methods."""
        if self.kind is RegistrationKind.CONFIGURED and self.secret_digest is not None:
            return method in (AuthMethod.SECRET_BASIC, AuthMethod.SECRET_POST)
        return method is self.method

    def is_trusted_at(self, redirect_uri: str) -> bool:
        """Return whether a browser may be redirected to a redirect URI of the client before a user consents.

        Otherwise an attacker could register a client, and create links to this server that redirect to the attacker.

        Spec: basic/authorization#open-redirection
        """
        if self.kind is RegistrationKind.CONFIGURED:
            return True
        url = parse_url(redirect_uri, what="redirect URI")
        if url.is_loopback:
            return True
        return self.kind is RegistrationKind.METADATA_DOCUMENT and same_origin(
            url, parse_url(self.client_id, what="client_id")
        )

    # --- storage ---------------------------------------------------------------------------------------------------

    def to_json(self) -> bytes:
        """Return the client as JSON for the store."""
        kept = attrs.asdict(self, recurse=False)
        return orjson.dumps(kept | {"kind": self.kind.value, "method": self.method.value})

    @classmethod
    def from_json(cls, kept: bytes) -> Self:
        """Return the client from JSON that `to_json` returned."""
        members = orjson.loads(kept)
        for name in ("redirect_uris", "grant_types", "introspects"):
            members[name] = tuple(members[name])
        members["kind"] = RegistrationKind(members["kind"])
        members["method"] = AuthMethod(members["method"])
        return cls(**members)

    # --- for authlib -----------------------------------------------------------------------------------------------

    def get_client_id(self) -> str:
        """Return the client id."""
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        """Return the redirect URI of a request without one: the only registered URI, if its port is fixed."""
        if len(self.redirect_uris) != 1 or self.local_only:
            return ""
        return self.redirect_uris[0]

    def get_allowed_scope(self, scope: Collection[str] | str) -> str:
        """Return the part of a scope that the client may request."""
        requested = scope.split() if isinstance(scope, str) else scope or ()
        return " ".join(each for each in requested if self.scopes is None or each in self.scopes)

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        """Return whether a redirect URI is allowed. Spec: basic/authorization#open-redirection"""
        return any(redirect_uri_matches(registered, redirect_uri) for registered in self.redirect_uris)

    def check_client_secret(self, client_secret: str) -> bool:
        """Return whether the client secret is correct."""
        return self.secret_digest is not None and is_it(client_secret, self.secret_digest)

    def check_response_type(self, response_type: str) -> bool:
        """Return whether the client may use a response type."""
        return response_type == "code" and "authorization_code" in self.grant_types

    def check_grant_type(self, grant_type: str) -> bool:
        """Return whether the client may use a grant type."""
        return grant_type in self.grant_types
