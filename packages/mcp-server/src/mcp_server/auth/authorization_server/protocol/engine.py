"""The authorization server of authlib, for one request within one transaction.

Each request has its own instance. Creating one is cheap, and no data of one request can reach another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from authlib.oauth2.rfc6749 import AuthorizationServer

from mcp_core.oauth.dpop import DPOP
from mcp_core.oauth.jws import base64url
from mcp_server.auth.authorization_server.clients.authentication import authenticate
from mcp_server.auth.authorization_server.model import records
from mcp_server.auth.authorization_server.model.messages import NO_STORE, Answer, OAuthRequestRejected, refusal
from mcp_server.auth.authorization_server.model.secrets import new_secret
from mcp_server.auth.authorization_server.protocol.grants import CodeGrant, OwnGrant, Pkce, RefreshGrant
from mcp_server.auth.authorization_server.protocol.keys import sign_token
from mcp_server.auth.authorization_server.protocol.token_endpoints import Introspection, Revocation

if TYPE_CHECKING:
    from collections.abc import Collection

    from authlib.oauth2 import OAuth2Error, OAuth2Request
    from authlib.oauth2.rfc6749 import ClientMixin

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_server.auth.authorization_server.model.client import Client
    from mcp_server.auth.authorization_server.model.records import Grant
    from mcp_server.auth.authorization_server.protocol.request import Request

__all__ = ["Engine"]

_ID_BYTES: Final = 16


class Engine(AuthorizationServer):
    """An authlib server that handles one request.

    Args:
        request: The request.
    """

    def __init__(self, request: Request) -> None:
        super().__init__(scopes_supported=list(request.session.settings.scopes))
        self.request: Final = request
        """The request."""
        self.register_grant(CodeGrant, [Pkce(required=True)])
        self.register_grant(RefreshGrant)
        self.register_grant(OwnGrant)
        self.register_endpoint(Revocation)
        self.register_endpoint(Introspection)

    # --- for the endpoints -----------------------------------------------------------------------------------------

    def token(self) -> Answer:
        """Return the response of the token endpoint."""
        return cast("Answer", self.create_token_response(self.request))  # `handle_response` creates it

    def revocation(self) -> Answer:
        """Return the response of the revocation endpoint."""
        return self._endpoint(Revocation.ENDPOINT_NAME)

    def introspection(self) -> Answer:
        """Return the response of the introspection endpoint."""
        return self._endpoint(Introspection.ENDPOINT_NAME)

    def _endpoint(self, name: str) -> Answer:
        answer = self.create_endpoint_response(name, self.request)  # type: ignore[no-untyped-call]  # authlib has no types here
        return cast("Answer", answer)  # `handle_response` creates it

    # --- for authlib -----------------------------------------------------------------------------------------------

    def create_oauth2_request(self, request: Request) -> Request:
        """Return the request unchanged: it has the right class."""
        return request

    def query_client(self, client_id: str) -> Client | None:  # type: ignore[override]  # authlib's type omits `None`
        """Return the client with an id, or `None`."""
        return self.request.session.client(client_id)

    def authenticate_client(
        self,
        request: OAuth2Request,
        methods: Collection[str],
        endpoint: str = "token",  # noqa: ARG002
    ) -> ClientMixin:
        """Authenticate the client, and return it. Raises `RequestHeadRejected`."""
        credentials = self.request.credentials
        if credentials is None or credentials.method.value not in methods:
            raise OAuthRequestRejected("invalid_client")
        request.client = authenticate(self.request.session, credentials)
        request.auth_method = credentials.method.value
        return request.client

    def validate_requested_scope(self, scope: str | None) -> None:
        """Check that the scopes exist. Raises `RequestHeadRejected`."""
        if scope is not None and not set(scope.split()) <= set(self.request.session.settings.scopes):
            raise OAuthRequestRejected("invalid_scope")

    def generate_token(  # noqa: PLR0917  # authlib passes positional arguments
        self,
        grant_type: str,  # noqa: ARG002  # all grant types get the same tokens
        client: ClientMixin,
        user: Grant | None = None,
        scope: str | None = None,
        expires_in: int | None = None,  # noqa: ARG002  # the settings define it
        include_refresh_token: bool = True,  # noqa: FBT001, FBT002  # authlib passes it by position
    ) -> dict[str, str | int]:
        """Create the tokens of a grant, and store their records."""
        request = self.request
        client, session = request.known_client, request.session
        assert user is not None  # noqa: S101  # set by the grants
        if client.bound and request.key_id is None:
            raise OAuthRequestRejected(
                "invalid_dpop_proof", "The tokens of this client are bound to a key: the request needs a DPoP proof."
            )
        connection, now, settings = session.connection, session.now, session.settings
        lifetime = settings.lifetimes.access
        id = base64url(settings.random_bytes(_ID_BYTES))
        claims = self._claims(user, id, scope or "")
        token: dict[str, str | int] = {
            "access_token": sign_token(connection, claims, now=now, lifetimes=settings.lifetimes),
            "token_type": "Bearer" if request.key_id is None else DPOP,
            "expires_in": int(lifetime),
            "scope": scope or "",
        }
        records.add_access(connection, id, grant=user, expires_at=now + lifetime)
        ends = now + lifetime
        if include_refresh_token:
            token["refresh_token"] = refresh = new_secret(settings.random_bytes)
            ends = now + settings.lifetimes.refresh
            records.add_refresh(connection, refresh, grant=user, expires_at=ends)
            if client.is_public and request.key_id is not None:
                # Spec: RFC 9449 section 5
                records.bind_grant(connection, user.id, request.key_id)
        records.prolong_grant(connection, user.id, ends)
        session.keep_client(client)
        return token

    def _claims(self, grant: Grant, id: str, scope: str) -> JsonObject:
        """Return the claims of an access token. Spec: RFC 9068 section 2.2, RFC 9449 section 6.1"""
        now, settings, key_id = self.request.session.now, self.request.session.settings, self.request.key_id
        claims: JsonObject = {
            "iss": settings.issuer,
            "sub": grant.subject,
            "aud": grant.resource,
            "client_id": grant.client_id,
            "iat": int(now),
            "exp": int(now + settings.lifetimes.access),
            "jti": id,
            "scope": scope,
        }
        if grant.auth_time is not None:
            claims["auth_time"] = int(grant.auth_time)
        if key_id is not None:
            claims["cnf"] = {"jkt": key_id}
        return claims

    def save_token(self, token: dict[str, str | int], request: OAuth2Request) -> None:
        """Do nothing: `generate_token` has stored the tokens."""

    def send_signal(self, name: str, *args: object, **kwargs: object) -> None:
        """Do nothing: no code subscribes to signals."""

    def handle_response(self, status: int, body: JsonObject, headers: object) -> Answer:  # type: ignore[override]  # noqa: ARG002
        """Return the response, with this module's header fields, which include those of authlib."""
        return Answer(status=status, body=body, headers=NO_STORE)

    def handle_error_response(self, request: OAuth2Request, error: OAuth2Error) -> Answer:  # noqa: ARG002
        """Return the response that rejects a request."""
        credentials = self.request.credentials
        basic = credentials is not None and credentials.method.value == "client_secret_basic"
        return refusal(error, basic=basic)
