"""Revocation and introspection: the endpoints of authlib, with the tokens of this server.

Spec: RFC 7009, RFC 7662
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7662 import IntrospectionEndpoint

from mcp_core.field_methods import FieldValue
from mcp_server.auth.authorization_server.model import records
from mcp_server.auth.authorization_server.protocol.grants import METHODS
from mcp_server.auth.authorization_server.protocol.keys import open_token

if TYPE_CHECKING:
    from authlib.oauth2 import OAuth2Request

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_server.auth.authorization_server.model.client import Client
    from mcp_server.auth.authorization_server.model.records import Grant
    from mcp_server.auth.authorization_server.model.transaction import Session
    from mcp_server.auth.authorization_server.protocol.request import Request, RequestServer

__all__ = ["Introspection", "Revocation"]

_INTROSPECTED: Final = ("iss", "sub", "aud", "client_id", "iat", "exp", "jti", "scope", "auth_time", "cnf")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Token(FieldValue):
    """A valid access token or refresh token."""

    grant: Grant
    """The grant of the token."""
    claims: JsonObject | None
    """The claims of an access token; `None` for a refresh token."""

    def check_client(self, client: Client) -> bool:
        """Return whether the token was issued to a client."""
        return self.grant.client_id == client.client_id

    def is_expired(self) -> bool:
        """Return `False`: an expired token is not found."""
        return False

    def is_revoked(self) -> bool:
        """Return `False`: a revoked token is not found."""
        return False


def _find(session: Session, text: str) -> Token | None:
    # The hint of the token type is not needed: only an access token has two dots.
    if text.count(".") == 2:
        claims = open_token(session.connection, text, now=session.now) or {}
        grant = records.find_access(session.connection, str(claims.get("jti")), now=session.now)
        return None if grant is None else Token(grant=grant, claims=claims)
    refresh = records.find_refresh(session.connection, text)
    if refresh is None or refresh.used or refresh.grant.revoked or refresh.expires_at <= session.now:
        return None
    return Token(grant=refresh.grant, claims=None)


class Revocation(RevocationEndpoint):
    """The revocation endpoint."""

    CLIENT_AUTH_METHODS = METHODS
    server: RequestServer

    def check_params(self, request: OAuth2Request, client: Client) -> None:
        """Check the parameters. An unknown token type hint is ignored."""
        request.form.pop("token_type_hint", None)
        super().check_params(request, client)

    def query_token(self, token_string: str, token_type_hint: str | None) -> Token | None:  # noqa: ARG002
        """Return the token, or `None` if it is not valid."""
        return _find(self.server.request.session, token_string)

    def revoke_token(self, token: Token, request: Request) -> None:
        """Revoke a token. A refresh token ends its grant; an access token only itself. Spec: RFC 7009 section 2.1"""
        connection = request.session.connection
        if token.claims is None:
            records.revoke_grant(connection, token.grant.id)
        else:
            records.revoke_access(connection, str(token.claims["jti"]))


class Introspection(IntrospectionEndpoint):
    """The introspection endpoint."""

    CLIENT_AUTH_METHODS = METHODS[1:]
    server: RequestServer

    def check_params(self, request: OAuth2Request, client: Client) -> None:
        """Check the parameters. An unknown token type hint is ignored."""
        request.form.pop("token_type_hint", None)
        super().check_params(request, client)

    def check_permission(self, token: Token, client: Client, request: OAuth2Request) -> bool:  # noqa: ARG002
        """Return whether the client may introspect a token: as its resource server, or as its recipient."""
        if token.check_client(client):
            return True
        return token.claims is not None and token.grant.resource in client.introspects

    def query_token(self, token_string: str, token_type_hint: str | None) -> Token | None:  # noqa: ARG002
        """Return the token, or `None` if it is not valid."""
        return _find(self.server.request.session, token_string)

    def introspect_token(self, token: Token) -> JsonObject:
        """Return the introspection response of a valid token. Spec: RFC 7662 section 2.2"""
        if token.claims is None:
            grant = token.grant
            return {
                "client_id": grant.client_id,
                "sub": grant.subject,
                "scope": grant.scope,
                "token_type": "refresh_token",
            }
        members: JsonObject = {name: token.claims[name] for name in _INTROSPECTED if name in token.claims}
        return {**members, "token_type": "DPoP" if "cnf" in token.claims else "Bearer"}
