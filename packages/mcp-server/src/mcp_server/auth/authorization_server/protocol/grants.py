"""The grants of the token endpoint: authlib's, with the rules that it lacks.

Theirs is the order of a request (client, grant, code or token, scope, PKCE), ours what is kept, and that a second use ends
everything: of a code (RFC 6749 section 4.1.2), of a refresh token (RFC 9700 section 4.14.2). Then either the client or a
thief has been here before, and nobody can tell which.

What a refusal has to leave behind (a grant that is revoked) is left behind because a refusal is an answer, and the
transaction is committed with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, ClientCredentialsGrant, RefreshTokenGrant
from authlib.oauth2.rfc7636 import CodeChallenge

from mcp_core.oauth.access_token import names_resource
from mcp_core.oauth.pkce import verifies
from mcp_server.auth.authorization_server.model import records
from mcp_server.auth.authorization_server.model.messages import Refused

if TYPE_CHECKING:
    from authlib.oauth2 import OAuth2Request
    from authlib.oauth2.rfc6749 import BaseGrant, ClientMixin

    from mcp_server.auth.authorization_server.model.records import Code, Grant, Refresh
    from mcp_server.auth.authorization_server.protocol.engine import Engine, Request

__all__ = ["METHODS", "CodeGrant", "OwnGrant", "Pkce", "RefreshGrant"]

METHODS: Final = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
"""How clients may authenticate, as far as their registration says so."""


class Pkce(CodeChallenge):
    """PKCE by S256, for every client."""

    SUPPORTED_CODE_CHALLENGE_METHOD = ["S256"]  # noqa: RUF012  # authlib's, whose list it replaces
    # Ours takes a time that tells nothing.
    CODE_CHALLENGE_METHODS = {"S256": verifies}  # noqa: RUF012  # likewise

    def validate_code_challenge(self, grant: BaseGrant, redirect_uri: str) -> None:
        """Without a method it would be `plain`, and without a challenge nothing. Spec: OAuth 2.1 section 4.1.1"""
        data = _request(grant).form
        if "code_challenge" not in data:
            raise Refused("invalid_request", "The request needs a code_challenge (PKCE).")
        if data.get("code_challenge_method") != "S256":
            raise Refused("invalid_request", "The code_challenge_method has to be S256.")
        super().validate_code_challenge(grant, redirect_uri)


class CodeGrant(AuthorizationCodeGrant):
    """A code for tokens."""

    TOKEN_ENDPOINT_AUTH_METHODS = METHODS

    @staticmethod
    def validate_authorization_redirect_uri(request: OAuth2Request, client: ClientMixin) -> str:
        """Where the browser will be sent back to. authlib's own quotes it in an error, which not all characters may stand in."""
        asked = request.form.get("redirect_uri")
        if asked is None:
            asked = client.get_default_redirect_uri()
        if not asked or not client.check_redirect_uri(asked):
            raise Refused("invalid_request", "The redirect_uri is none of those that are registered for the client.")
        return asked

    def validate_token_request(self) -> None:
        """Checks the request. Raises `Refused`."""
        super().validate_token_request()
        request = _request(self)
        code: Code = request.authorization_code  # type: ignore[assignment]  # the line above found it
        if code.key_id is not None and request.key_id != code.key_id:
            raise Refused("invalid_dpop_proof", "The code is bound to a key, and the DPoP proof is not made with it.")
        _check_resource(request, code.grant)

    def query_authorization_code(self, code: str, client: ClientMixin) -> Code | None:
        """The code, if this client may use it now."""
        session = _request(self).session
        found = records.find_code(session.connection, code)
        if found is None or found.grant.client_id != client.get_client_id():
            return None
        if found.used:
            records.revoke_grant(session.connection, found.grant.id)
            return None
        return None if found.grant.revoked or found.expires_at <= session.now else found

    def delete_authorization_code(self, authorization_code: Code) -> None:
        """It is kept as used, so that it is noticed when it comes again."""
        records.use_code(_request(self).session.connection, authorization_code)

    def authenticate_user(self, authorization_code: Code) -> Grant:
        """What was granted stands for who granted it."""
        return authorization_code.grant


class RefreshGrant(RefreshTokenGrant):
    """A refresh token for tokens, and for another one like it."""

    TOKEN_ENDPOINT_AUTH_METHODS = METHODS
    INCLUDE_NEW_REFRESH_TOKEN = True

    def validate_token_request(self) -> None:
        """Checks the request. Raises `Refused`."""
        super().validate_token_request()
        request = _request(self)
        refresh: Refresh = request.refresh_token  # type: ignore[assignment]  # the line above found it
        if refresh.grant.key_id is not None and request.key_id != refresh.grant.key_id:
            raise Refused("invalid_dpop_proof", "The refresh token is bound to a key that the request does not prove.")
        _check_resource(request, refresh.grant)

    def authenticate_refresh_token(self, refresh_token: str) -> Refresh | None:  # type: ignore[override]  # it may be none
        """The token, if this client may use it now."""
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
        """What was granted stands for who granted it."""
        return refresh_token.grant

    def revoke_old_credential(self, refresh_token: Refresh) -> None:  # type: ignore[override]  # of our own class
        """It was used."""
        records.use_refresh(_request(self).session.connection, refresh_token)


class OwnGrant(ClientCredentialsGrant):
    """Tokens for a client that acts for itself."""

    TOKEN_ENDPOINT_AUTH_METHODS = METHODS[1:]

    def validate_token_request(self) -> None:
        """Checks the request, and finds out what is granted. Raises `Refused`."""
        super().validate_token_request()
        request = _request(self)
        session, client = request.session, request.known_client
        asked = request.form.get("scope")
        allowed = client.scopes if client.scopes is not None else tuple(session.settings.scopes)
        if asked is not None and not set(asked.split()) <= set(allowed):
            raise Refused("invalid_scope")
        now, lifetimes = session.now, session.settings.lifetimes
        request.user = records.add_grant(
            session.connection,
            client_id=client.client_id,
            subject=client.client_id,
            scope=" ".join(allowed if asked is None else dict.fromkeys(asked.split())),
            resource=session.resource(request.form),
            auth_time=None,
            expires_at=now + lifetimes.access,
        )

    def create_token_response(self) -> tuple[int, dict[str, str | int], list[tuple[str, str]]]:  # type: ignore[override]  # its stub errs
        """The tokens."""
        grant: Grant = _request(self).user  # type: ignore[assignment]  # it was made above
        token = self.generate_token(user=grant, scope=grant.scope, include_refresh_token=False)
        return 200, token, list(self.TOKEN_RESPONSE_HEADER)


def _request(grant: BaseGrant) -> Request:
    engine: Engine = grant.server
    return engine.request


def _check_resource(request: Request, grant: Grant) -> None:
    """A token is for the server for which it was granted, and may be asked for by that name only."""
    if not names_resource(request.form.get("resource", grant.resource), grant.resource):
        raise Refused("invalid_target", "The resource is not the one that was granted.")
