"""A client, as the authorization server knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import attrs
import orjson
from authlib.oauth2.rfc6749 import ClientMixin

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
"""The grants of the token endpoint."""

_SHOWN: Final = 200
"""Characters of a redirect URI in an error."""


@attrs.frozen(kw_only=True)
class Client(ClientMixin):
    """A client. Make those that you know yourself by `Client.configured`."""

    client_id: str
    """Its id."""
    name: str
    """For people: one line."""
    kind: RegistrationKind
    """How it came to be known."""
    method: AuthMethod
    """How it authenticates. It may do so in no other way."""
    redirect_uris: tuple[str, ...]
    """Where browsers may be sent back to."""
    grant_types: tuple[str, ...]
    """The grants it may use."""
    secret_digest: str | None = attrs.field(default=None, repr=False)
    """The digest of its secret."""
    jwks: JsonObject | None = None
    """Its public keys, for `private_key_jwt`."""
    jwks_uri: str | None = None
    """Where they are, instead."""
    scopes: tuple[str, ...] | None = None
    """What it may ask for; `None`: all that people may give it."""
    introspects: tuple[str, ...] = ()
    """The resources of which it is the server: it may ask what their tokens are."""
    bound: bool = False
    """Whether its tokens are always bound to a key by DPoP."""
    client_uri: str | None = None
    """A page about it."""
    issued_at: float = 0.0
    """When it registered, in seconds since the epoch."""

    def __attrs_post_init__(self) -> None:
        if self.kind is not RegistrationKind.CONFIGURED:
            return  # what others say of themselves was checked where it was read, with errors for them
        for uri in self.redirect_uris:
            problem = redirect_uri_problem(uri)
            if problem is not None:
                raise ValueError(
                    f"client {self.client_id!r} is configured with a redirect URI that {problem}: {uri[:_SHOWN]!a}"
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
        """One that whoever runs the authorization server knows.

        Args:
            client_id: Its id. With the grant `client_credentials` it is also the subject of its tokens, so no person may be
                called the same.
            name: For people; the id when it is left out.
            redirect_uris: Where browsers may be sent back to: https, or http on the loopback interface, where any port will do.
            secret: Its secret, unguessable: `secrets.token_urlsafe(32)`. It may be sent in the header or in the form.
            jwks: Its public keys, instead: it then signs assertions (`private_key_jwt`). With neither it is a public client.
            grant_types: The grants it may use: authorization code and refresh token where there is a redirect URI, else
                client credentials where it can authenticate.
            scopes: What it may ask for; everything, when left out.
            introspects: The resources of which it is the server, which may ask what their tokens are.
            bound: Whether its tokens are always bound to a key by DPoP.

        Raises:
            TypeError: `redirect_uris` is one string.
            ValueError: A redirect URI breaks a rule, or these do not fit together.
        """
        if isinstance(redirect_uris, str):
            raise TypeError(
                f"client {client_id!r}: redirect_uris has to be several URIs, or one in a list: [{redirect_uris!r}]"
            )
        if secret is not None and jwks is not None:
            raise ValueError(f"client {client_id!r} has a secret and keys: give one of them")
        uris = tuple(redirect_uris)
        public = secret is None and jwks is None
        if grant_types is not None:
            grants = tuple(grant_types)
        else:
            grants = GRANT_TYPES[:2] if uris else () if public else GRANT_TYPES[2:]
        if unknown := sorted(set(grants) - set(GRANT_TYPES)):
            raise ValueError(f"client {client_id!r} has unknown grants: {', '.join(unknown)}")
        if "client_credentials" in grants and public:
            raise ValueError(f"client {client_id!r} has the grant client_credentials, but neither secret nor keys")
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
        """Whether it cannot authenticate."""
        return self.method is AuthMethod.NONE

    @property
    def local_only(self) -> bool:
        """Whether all its redirect URIs lead to the person's own machine."""
        return bool(self.redirect_uris) and all(
            parse_url(uri, what="redirect URI").is_loopback for uri in self.redirect_uris
        )

    def takes(self, method: AuthMethod) -> bool:
        """Whether it may authenticate so. With a configured secret both ways to send it are right."""
        if self.kind is RegistrationKind.CONFIGURED and self.secret_digest is not None:
            return method in (AuthMethod.SECRET_BASIC, AuthMethod.SECRET_POST)
        return method is self.method

    def is_trusted_at(self, redirect_uri: str) -> bool:
        """Whether a browser may be sent to one of its redirect URIs though nobody agreed to anything.

        Else anybody could register a client, and make links to us that lead to him. Spec: basic/authorization#open-redirection
        """
        if self.kind is RegistrationKind.CONFIGURED:
            return True
        url = parse_url(redirect_uri, what="redirect URI")
        if url.is_loopback:
            return True
        return self.kind is RegistrationKind.METADATA_DOCUMENT and same_origin(
            url, parse_url(self.client_id, what="client_id")
        )

    # --- kept ------------------------------------------------------------------------------------------------------

    def to_json(self) -> bytes:
        """As it is kept."""
        kept = attrs.asdict(self, recurse=False)
        return orjson.dumps(kept | {"kind": self.kind.value, "method": self.method.value})

    @classmethod
    def from_json(cls, kept: bytes) -> Self:
        """As it was kept by `to_json`."""
        members = orjson.loads(kept)
        for name in ("redirect_uris", "grant_types", "introspects"):
            members[name] = tuple(members[name])
        members["kind"] = RegistrationKind(members["kind"])
        members["method"] = AuthMethod(members["method"])
        return cls(**members)

    # --- for authlib -----------------------------------------------------------------------------------------------

    def get_client_id(self) -> str:
        """Its id."""
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        """The one that is meant when none is sent: the only one, if its port is certain."""
        if len(self.redirect_uris) != 1 or self.local_only:
            return ""
        return self.redirect_uris[0]

    def get_allowed_scope(self, scope: Collection[str] | str) -> str:
        """What of a scope it may ask for."""
        asked = scope.split() if isinstance(scope, str) else scope or ()
        return " ".join(each for each in asked if self.scopes is None or each in self.scopes)

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        """Whether browsers may be sent there. Spec: basic/authorization#open-redirection"""
        return any(redirect_uri_matches(registered, redirect_uri) for registered in self.redirect_uris)

    def check_client_secret(self, client_secret: str) -> bool:
        """Whether it is the secret."""
        return self.secret_digest is not None and is_it(client_secret, self.secret_digest)

    def check_response_type(self, response_type: str) -> bool:
        """Whether it may ask for it."""
        return response_type == "code" and "authorization_code" in self.grant_types

    def check_grant_type(self, grant_type: str) -> bool:
        """Whether it may use it."""
        return grant_type in self.grant_types
