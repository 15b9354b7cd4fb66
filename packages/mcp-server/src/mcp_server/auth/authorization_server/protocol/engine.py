"""authlib's authorization server, for one request, within one transaction.

One is made for each request: that is cheap, and so nothing of a request can come into another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from authlib.oauth2 import OAuth2Error, OAuth2Request
from authlib.oauth2.rfc6749 import AuthorizationServer
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload

from mcp_core.oauth.dpop import DPOP
from mcp_core.oauth.jws import base64url
from mcp_server.auth.authorization_server.clients.authentication import authenticate
from mcp_server.auth.authorization_server.model import records
from mcp_server.auth.authorization_server.model.messages import NO_STORE, Answer, Refused, refusal
from mcp_server.auth.authorization_server.model.secrets import new_secret
from mcp_server.auth.authorization_server.protocol.grants import CodeGrant, OwnGrant, Pkce, RefreshGrant
from mcp_server.auth.authorization_server.protocol.keys import sign_token
from mcp_server.auth.authorization_server.protocol.token_endpoints import Introspection, Revocation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from authlib.oauth2.rfc6749 import ClientMixin

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_server.auth.authorization_server.clients.authentication import Credentials
    from mcp_server.auth.authorization_server.model.client import Client
    from mcp_server.auth.authorization_server.model.records import Grant
    from mcp_server.auth.authorization_server.model.transaction import Session

__all__ = ["Engine", "Request"]

_ID_BYTES: Final = 16

_SECURE: Final = "https://authorization-server.invalid/"
"""What authlib is told of the URL of a request. It refuses plain http; whether that is allowed was decided with the issuer."""


class Request(OAuth2Request):
    """A request, in authlib's terms."""

    def __init__(
        self,
        session: Session,
        form: Mapping[str, str],
        *,
        method: str = "POST",
        credentials: Credentials | None = None,
        key_id: str | None = None,
    ) -> None:
        super().__init__(method, _SECURE)
        self._form: Final = dict(form)
        self.payload = BasicOAuth2Payload(self._form)
        self.session: Final = session
        """The transaction."""
        self.credentials: Final = credentials
        """Who the client says it is."""
        self.key_id: Final = key_id
        """The thumbprint of the key that a DPoP proof came with."""

    @property
    def form(self) -> dict[str, str]:
        """The parameters, of a form or a query."""
        return self._form

    @property
    def known_client(self) -> Client:
        """The client, once it has been authenticated."""
        return cast("Client", self.client)  # all clients are of that class


class Engine(AuthorizationServer):
    """Deals with one request.

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
        """What the token endpoint answers."""
        return cast("Answer", self.create_token_response(self.request))  # made by `handle_response`

    def revocation(self) -> Answer:
        """What the revocation endpoint answers."""
        return self._endpoint(Revocation.ENDPOINT_NAME)

    def introspection(self) -> Answer:
        """What the introspection endpoint answers."""
        return self._endpoint(Introspection.ENDPOINT_NAME)

    def _endpoint(self, name: str) -> Answer:
        answer = self.create_endpoint_response(name, self.request)  # type: ignore[no-untyped-call]  # it has no types
        return cast("Answer", answer)  # made by `handle_response`

    # --- for authlib -----------------------------------------------------------------------------------------------

    def create_oauth2_request(self, request: Request) -> Request:
        """It is one."""
        return request

    def query_client(self, client_id: str) -> Client | None:  # type: ignore[override]  # it may be none
        """A client."""
        return self.request.session.client(client_id)

    def authenticate_client(
        self,
        request: OAuth2Request,
        methods: Collection[str],
        endpoint: str = "token",  # noqa: ARG002
    ) -> ClientMixin:
        """The client, which is who it says. Raises `Refused`."""
        credentials = self.request.credentials
        if credentials is None or credentials.method.value not in methods:
            raise Refused("invalid_client")
        request.client = authenticate(self.request.session, credentials)
        request.auth_method = credentials.method.value
        return request.client

    def validate_requested_scope(self, scope: str | None) -> None:
        """Raises `Refused` when there is no such scope."""
        if scope is not None and not set(scope.split()) <= set(self.request.session.settings.scopes):
            raise Refused("invalid_scope")

    def generate_token(  # noqa: PLR0917  # authlib calls it so
        self,
        grant_type: str,  # noqa: ARG002  # all are alike
        client: ClientMixin,
        user: Grant | None = None,
        scope: str | None = None,
        expires_in: int | None = None,  # noqa: ARG002  # the settings say
        include_refresh_token: bool = True,  # noqa: FBT001, FBT002  # authlib calls it so
    ) -> dict[str, str | int]:
        """Makes the tokens of a grant, and keeps what has to be kept of them."""
        request = self.request
        client, session = request.known_client, request.session
        assert user is not None  # noqa: S101  # the grants see to it
        if client.bound and request.key_id is None:
            raise Refused(
                "invalid_dpop_proof", "This client's tokens are bound to a key: the request needs a DPoP proof."
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
        """What an access token says. Spec: RFC 9068 section 2.2, RFC 9449 section 6.1"""
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
        """It was done where they were made."""

    def send_signal(self, name: str, *args: object, **kwargs: object) -> None:
        """Nobody listens."""

    def handle_response(self, status: int, body: JsonObject, headers: object) -> Answer:  # type: ignore[override]  # noqa: ARG002
        """The answer. Of the headers that authlib would send, ours have all."""
        return Answer(status=status, body=body, headers=NO_STORE)

    def handle_error_response(self, request: OAuth2Request, error: OAuth2Error) -> Answer:  # noqa: ARG002
        """The answer to a request that is refused."""
        credentials = self.request.credentials
        basic = credentials is not None and credentials.method.value == "client_secret_basic"
        return refusal(error, basic=basic)
