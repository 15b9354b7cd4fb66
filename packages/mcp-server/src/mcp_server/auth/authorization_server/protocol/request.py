"""A request to the authorization server, in the form of authlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, cast

from authlib.oauth2 import OAuth2Request
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_server.auth.authorization_server.clients.authentication import Credentials
    from mcp_server.auth.authorization_server.model.client import Client
    from mcp_server.auth.authorization_server.model.transaction import Session

__all__ = ["Request", "RequestServer"]

_SECURE: Final = "https://authorization-server.invalid/"
"""The URL of all requests for authlib, which rejects plain http. The check of the issuer decides whether http is
allowed."""


class Request(OAuth2Request):
    """A request, as authlib represents it."""

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
        self.payload: BasicOAuth2Payload = BasicOAuth2Payload(self._form)
        self.session: Final = session
        """The transaction."""
        self.credentials: Final = credentials
        """The credentials of the client."""
        self.key_id: Final = key_id
        """The thumbprint of the key that signed the DPoP proof of the request."""

    @property
    def form(self) -> dict[str, str]:
        """The parameters of the form or the query."""
        return self._form

    @property
    def known_client(self) -> Client:
        """The client of the request. It is available after authentication."""
        return cast("Client", self.client)  # the only class of clients


class RequestServer(Protocol):
    """The authlib server of one request, as its grants and endpoints see it."""

    @property
    def request(self) -> Request:
        """The request."""
