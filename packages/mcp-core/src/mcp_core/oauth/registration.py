"""Client registration: the sources of a client id at one authorization server, as a table that is tried in order.

1. Credentials that are configured for this issuer.
2. The URL of the client's own metadata document, if the authorization server accepts such ids.
3. The stored result of an earlier registration with this issuer.
4. Dynamic registration.
5. An input of the user.

Each resulting record contains the issuer. Credentials of another issuer are never used. If credentials are configured,
but only for other issuers, the result is an error: the server uses another authorization server now, or an attacker
wants the client to send its credentials there.

Spec: basic/authorization#client-registration-approaches, #authorization-server-binding; RFC 7591
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import InvalidValue, RegistrationFailed, UnsafeUrl
from mcp_core.oauth.client_metadata import registration_document
from mcp_core.oauth.documents import Members, one_line, read_json
from mcp_core.oauth.records import AuthMethod, ClientRecord, Registration
from mcp_core.oauth.steps import AskClient, FindClient, Register, Unreachable, request_client, requested
from mcp_core.oauth.urls import check_peer_url, redirect_uri_matches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from mcp_core.oauth.client_metadata import ClientSettings
    from mcp_core.oauth.discovery import Discovery
    from mcp_core.oauth.jws import Signer
    from mcp_core.oauth.metadata import AuthorizationServerMetadata
    from mcp_core.oauth.steps import FetchedResponse, Running

__all__ = ["Registrar", "read_registration"]

_HEADERS: Final = (("Accept", "application/json"), ("Content-Type", "application/json"))


def read_registration(
    answer: FetchedResponse, *, issuer: str, redirect_uri: str, requested: AuthMethod
) -> ClientRecord:
    """Read the response of a registration endpoint. The authorization server may have changed the requested values.

    Args:
        answer: The response.
        issuer: The authorization server.
        redirect_uri: The redirect URI of the flow.
        requested: The requested authentication method.

    Raises:
        RegistrationFailed: The response is an error, or has no usable client id.
    """
    what = f"registration at {issuer}"
    try:
        members = Members(read_json(answer.body))
    except InvalidValue as bad:
        sentence = f"{what} returned status {answer.status} without a valid document: {bad.message}"
        raise RegistrationFailed(sentence, status=answer.status) from None
    if not 200 <= answer.status < 300 or "error" in members.document:
        error, description = members.text("error"), members.text("error_description")
        detail = "" if description is None else f" ({one_line(description)})"
        raise RegistrationFailed(
            f"{what} was rejected: {one_line(error or 'no error was named')}{detail}, status {answer.status}",
            error=None if error is None else one_line(error),
            description=None if description is None else one_line(description),
            status=answer.status,
        )
    client_id = members.text("client_id")
    if client_id is None:
        raise RegistrationFailed(f"{what} returned no client_id", status=answer.status)
    registered = members.texts("redirect_uris")
    if registered and not any(redirect_uri_matches(uri, redirect_uri) for uri in registered):
        raise RegistrationFailed(f"{what} changed the redirect URI {redirect_uri} to {', '.join(registered)[:300]!a}")
    secret, named = members.text("client_secret"), members.text("token_endpoint_auth_method")
    expires = members.seconds("client_secret_expires_at")
    return ClientRecord(
        client_id=client_id,
        issuer=issuer,
        client_secret=secret,
        auth_method=_method(named, requested, has_secret=secret is not None, what=what),
        registration=Registration.DYNAMIC,
        redirect_uris=(redirect_uri,),
        # 0 means that the secret does not expire.
        secret_expires_at=expires or None,
    )


def _method(named: str | None, requested: AuthMethod, *, has_secret: bool, what: str) -> AuthMethod:
    if named is not None:
        try:
            return AuthMethod(named)
        except ValueError:
            raise RegistrationFailed(f"{what} requires an unknown authentication method: {named[:100]!a}") from None
    # Without a method in the response, the requested one applies. A secret that was not requested must be used.
    return AuthMethod.SECRET_BASIC if has_secret and requested is AuthMethod.NONE else requested


@attrs.define
class Registrar:
    """The search for the client id at one authorization server. `run` performs it."""

    server: AuthorizationServerMetadata
    """The authorization server, whose issuer was validated."""
    discovery: Discovery
    """The discovery, which records the attempts."""
    settings: ClientSettings
    """The client."""
    ways: frozenset[Registration]
    """The sources of a client id that the grant allows."""
    configured: Sequence[ClientRecord]
    """Credentials from the client's configuration."""
    redirect_uri: str | None
    """The redirect URI of the flow; `None` for a grant without a browser."""
    signer: Signer | None
    """The client's key."""
    previous_issuer: str | None
    """The previous authorization server of this MCP server."""
    refused: frozenset[str]
    """Client ids that the authorization server no longer accepts."""
    now: float
    """Seconds since the epoch."""
    _failed: RegistrationFailed | None = attrs.field(default=None, init=False)

    def run(self) -> Running[ClientRecord]:
        """Try the sources in order.

        Raises:
            RegistrationFailed: No source has a client id.
        """
        for registration, way in _WAYS:
            if registration in self.ways:
                client = yield from way(self)
                if client is not None:
                    return client
        raise self._failed or RegistrationFailed(self._reason())

    def _reason(self) -> str:
        if self.redirect_uri is None:
            return f"no credentials are configured for {self.server.issuer}, and this grant requires them"
        return (
            f"there is no client id for {self.server.issuer}: none is configured, and the server supports neither "
            "client ID metadata documents nor dynamic registration for this client"
        )

    def preregistered(self) -> Running[ClientRecord | None]:
        """Return the configured client of this issuer. Raises `RegistrationFailed` if all are for other issuers."""
        yield from ()
        issuer = self.server.issuer
        for client in self.configured:
            unbound = client.issuer is None and self.previous_issuer in (None, issuer)
            if client.issuer == issuer or unbound:
                return attrs.evolve(client, issuer=issuer)
        if self.configured:
            others = ", ".join(sorted({client.issuer or self.previous_issuer or "" for client in self.configured}))
            raise RegistrationFailed(
                f"the configured credentials are for {others}, but the server requires tokens of {issuer}: the client "
                "does not send the credentials to another issuer"
            )
        return None

    def by_document(self) -> Running[ClientRecord | None]:
        """Return the URL of the client's document. Raises `RegistrationFailed` if it does not list the redirect URI."""
        yield from ()
        url, methods = self.settings.metadata_url, self.server.token_endpoint_auth_methods_supported
        method = AuthMethod.NONE if self.signer is None else AuthMethod.PRIVATE_KEY_JWT
        fits = methods is None or method.value in methods
        if url is None or not self.server.client_id_metadata_document_supported or not fits or url in self.refused:
            return None
        uri = self.redirect_uri
        if uri is not None and not any(redirect_uri_matches(each, uri) for each in self.settings.redirect_uris):
            raise RegistrationFailed(
                f"redirect URI {uri} is not in ClientSettings.redirect_uris, and therefore not in the document at "
                f"{url}: the authorization server would reject it"
            )
        return ClientRecord(
            client_id=url,
            issuer=self.server.issuer,
            auth_method=method,
            registration=Registration.METADATA_DOCUMENT,
            redirect_uris=self.settings.redirect_uris,
        )

    def kept(self) -> Running[ClientRecord | None]:
        """Return the stored result of an earlier registration, if it is still valid."""
        client = yield from request_client(FindClient(issuer=self.server.issuer))
        if client is None or client.issuer != self.server.issuer or client.client_id in self.refused:
            return None
        return client if client.is_usable(self.now, redirect_uri=self.redirect_uri) else None

    def by_registration(self) -> Running[ClientRecord | None]:
        """Register the client; return `None` and store the reason if the registration fails."""
        endpoint, uri = self.server.registration_endpoint, self.redirect_uri
        if endpoint is None or uri is None:
            return None
        try:
            check_peer_url(endpoint, what="registration_endpoint", networks=self.discovery.networks)
        except UnsafeUrl as unsafe:
            self.discovery.note(endpoint, Register.why, unsafe.reason)
            return None
        method = self._wanted_method()
        document = registration_document(self.settings, redirect_uri=uri, method=method, signer=self.signer)
        answer = yield from requested(Register(url=endpoint, document=document, headers=_HEADERS))
        try:
            if isinstance(answer, Unreachable):
                raise RegistrationFailed(f"no response to the registration at {endpoint}: {one_line(answer.reason)}")
            client = read_registration(answer, issuer=self.server.issuer, redirect_uri=uri, requested=method)
        except RegistrationFailed as failed:
            self.discovery.note(endpoint, Register.why, failed.message)
            self._failed = failed
            return None
        self.discovery.note(endpoint, Register.why, "received a client id")
        return client

    def _wanted_method(self) -> AuthMethod:
        """Return the best method for a client on a user's machine: a key, else no authentication, else a secret."""
        theirs = self.server.token_endpoint_auth_methods_supported
        ours = [AuthMethod.NONE, AuthMethod.SECRET_BASIC, AuthMethod.SECRET_POST]
        if self.signer is not None:
            ours.insert(0, AuthMethod.PRIVATE_KEY_JWT)
        return next((method for method in ours if theirs is not None and method.value in theirs), AuthMethod.NONE)

    def by_user(self) -> Running[ClientRecord | None]:
        """Return the client id that the user enters."""
        reason = self._reason() if self._failed is None else self._failed.message
        client = yield from request_client(AskClient(issuer=self.server.issuer, reason=reason))
        if client is None:
            return None
        return attrs.evolve(client, issuer=self.server.issuer, registration=Registration.USER_PROVIDED)


if TYPE_CHECKING:
    _Way: TypeAlias = Callable[[Registrar], Running[ClientRecord | None]]

_WAYS: Final[Sequence[tuple[Registration, _Way]]] = (
    (Registration.PREREGISTERED, Registrar.preregistered),
    (Registration.METADATA_DOCUMENT, Registrar.by_document),
    (Registration.DYNAMIC, Registrar.kept),
    (Registration.DYNAMIC, Registrar.by_registration),
    (Registration.USER_PROVIDED, Registrar.by_user),
)
"""The order of the specification."""
