"""The grants of the token endpoint: those of authlib, with additional rules.

authlib defines the order of the checks of a request (client, grant, code or token, scope, PKCE). This module defines
what is stored, and that a second use of a code (RFC 6749 section 4.1.2) or of a refresh token (RFC 9700 section 4.14.2)
revokes the grant. In that case either the client or a thief has used it before, and the server cannot distinguish them.

A rejection can have a lasting effect, such as the revocation of a grant, because the rejection is a normal response and
its transaction is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, ClientCredentialsGrant, RefreshTokenGrant
from authlib.oauth2.rfc7636 import CodeChallenge

from mcp_core.oauth.access_token import names_resource
from mcp_core.oauth.pkce import verifies
from mcp_server.auth.authorization_server.model import records
from mcp_server.auth.authorization_server.model.messages import OAuthRequestRejected

if TYPE_CHECKING:
    from authlib.oauth2 import OAuth2Request
    from authlib.oauth2.rfc6749 import BaseGrant, ClientMixin

    from mcp_server.auth.authorization_server.model.records import Code, Grant, Refresh
    from mcp_server.auth.authorization_server.protocol.request import Request, RequestServer

__all__ = ["METHODS", "CodeGrant", "OwnGrant", "Pkce", "RefreshGrant"]

METHODS: Final = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
"""The client authentication methods. A client may use only the method of its registration."""


class Pkce(CodeChallenge):
    """PKCE with the method S256, required for every client."""

    SUPPORTED_CODE_CHALLENGE_METHOD = ["S256"]  # noqa: RUF012  # replaces a list of authlib
    # `verifies` compares in constant time.
    CODE_CHALLENGE_METHODS = {"S256": verifies}  # noqa: RUF012  # replaces a dict of authlib

    def validate_code_challenge(self, grant: BaseGrant, redirect_uri: str) -> None:
        """Require a code challenge with S256. authlib would accept `plain` or none. Spec: OAuth 2.1 section 4.1.1"""
        data = _request(grant).form
        if "code_challenge" not in data:
            raise OAuthRequestRejected("invalid_request", "The request needs a code_challenge (PKCE).")
        if data.get("code_challenge_method") != "S256":
            raise OAuthRequestRejected("invalid_request", "The code_challenge_method must be S256.")
        super().validate_code_challenge(grant, redirect_uri)


class CodeGrant(AuthorizationCodeGrant):
    """The authorization code grant."""

    TOKEN_ENDPOINT_AUTH_METHODS: tuple[str, ...] = METHODS

    @staticmethod
    def validate_authorization_redirect_uri(request: OAuth2Request, client: ClientMixin) -> str:
        """Return the redirect URI of a request. authlib's errors quote it, although not all characters are allowed."""
        sent = request.form.get("redirect_uri")
        if sent is None:
            sent = client.get_default_redirect_uri()
        if not sent or not client.check_redirect_uri(sent):
            raise OAuthRequestRejected("invalid_request", "The redirect_uri is not registered for the client.")
        return sent

    def validate_token_request(self) -> None:
        """Check a token request. Raises `RequestHeadRejected`."""
        super().validate_token_request()
        request = _request(self)
        code: Code = request.authorization_code  # type: ignore[assignment]  # set by the call above
        if code.key_id is not None and request.key_id != code.key_id:
            raise OAuthRequestRejected(
                "invalid_dpop_proof", "The code is bound to a key, but the DPoP proof uses another key."
            )
        _check_resource(request, code.grant)

    def query_authorization_code(self, code: str, client: ClientMixin) -> Code | None:
        """Return the code if this client may use it now. A second use revokes the grant."""
        session = _request(self).session
        found = records.find_code(session.connection, code)
        if found is None or found.grant.client_id != client.get_client_id():
            return None
        if found.used:
            records.revoke_grant(session.connection, found.grant.id)
            return None
        return None if found.grant.revoked or found.expires_at <= session.now else found

    def delete_authorization_code(self, authorization_code: Code) -> None:
        """Mark the code as used. Its row remains, so that another use is detected."""
        records.use_code(_request(self).session.connection, authorization_code)

    def authenticate_user(self, authorization_code: Code) -> Grant:
        """Return the grant of the code, which authlib passes on as the user."""
        return authorization_code.grant


class RefreshGrant(RefreshTokenGrant):
    """The refresh token grant. Each use replaces the refresh token."""

    TOKEN_ENDPOINT_AUTH_METHODS: tuple[str, ...] = METHODS
    INCLUDE_NEW_REFRESH_TOKEN: bool = True

    def validate_token_request(self) -> None:
        """Check a token request. Raises `RequestHeadRejected`."""
        super().validate_token_request()
        request = _request(self)
        refresh: Refresh = request.refresh_token  # type: ignore[assignment]  # set by the call above
        if refresh.grant.key_id is not None and request.key_id != refresh.grant.key_id:
            raise OAuthRequestRejected(
                "invalid_dpop_proof", "The refresh token is bound to a key: the request needs a DPoP proof with it."
            )
        _check_resource(request, refresh.grant)

    def authenticate_refresh_token(self, refresh_token: str) -> Refresh | None:  # type: ignore[override]  # authlib's type omits `None`
        """Return the refresh token if this client may use it now. A second use revokes the grant."""
        request = _request(self)
        session = request.session
        found = records.find_refresh(session.connection, refresh_token)
        if found is None or found.grant.client_id != request.known_client.client_id:
            return None
        if found.used:
            records.revoke_grant(session.connection, found.grant.id)
            return None
        return None if found.grant.revoked or found.expires_at <= session.now else found

    def authenticate_user(self, refresh_token: Refresh) -> Grant:
        """Return the grant of the refresh token, which authlib passes on as the user."""
        return refresh_token.grant

    def revoke_old_credential(self, refresh_token: Refresh) -> None:  # type: ignore[override]  # a class of this package
        """Mark the refresh token as used."""
        records.use_refresh(_request(self).session.connection, refresh_token)


class OwnGrant(ClientCredentialsGrant):
    """The client credentials grant: tokens for a client without a user."""

    TOKEN_ENDPOINT_AUTH_METHODS: tuple[str, ...] = METHODS[1:]

    def validate_token_request(self) -> None:
        """Check a token request, and create the grant. Raises `RequestHeadRejected`."""
        super().validate_token_request()
        request = _request(self)
        session, client = request.session, request.known_client
        sent = request.form.get("scope")
        allowed = client.scopes if client.scopes is not None else tuple(session.settings.scopes)
        if sent is not None and not set(sent.split()) <= set(allowed):
            raise OAuthRequestRejected("invalid_scope")
        now, lifetimes = session.now, session.settings.lifetimes
        request.user = records.add_grant(
            session.connection,
            client_id=client.client_id,
            subject=client.client_id,
            scope=" ".join(allowed if sent is None else dict.fromkeys(sent.split())),
            resource=session.resource(request.form),
            auth_time=None,
            expires_at=now + lifetimes.access,
        )

    def create_token_response(self) -> tuple[int, dict[str, str | int], list[tuple[str, str]]]:  # type: ignore[override]  # wrong in the stub
        """Return the response with the tokens."""
        grant: Grant = _request(self).user  # type: ignore[assignment]  # set by `validate_token_request`
        token = self.generate_token(user=grant, scope=grant.scope, include_refresh_token=False)
        return 200, token, list(self.TOKEN_RESPONSE_HEADER)


def _request(grant: BaseGrant) -> Request:
    server: RequestServer = grant.server
    return server.request


def _check_resource(request: Request, grant: Grant) -> None:
    """Check that a token is requested for the server of its grant, by exactly that URL."""
    if not names_resource(request.form.get("resource", grant.resource), grant.resource):
        raise OAuthRequestRejected("invalid_target", "The resource is not the granted one.")
