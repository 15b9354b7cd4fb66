"""How a client comes to its id at one authorization server. The ways are a table, walked in order:

1. credentials that were configured for this issuer,
2. the URL of the client's own metadata document, where the authorization server takes such ids,
3. what was kept of an earlier registration with this issuer,
4. dynamic registration,
5. asking the person.

Whatever comes out has the issuer in it. What was configured or kept for another issuer is never used; where credentials
are configured, and all for others, that is an error: the server has changed its authorization server, or somebody wants
the client to show its credentials elsewhere.

Spec: basic/authorization#client-registration-approaches, #authorization-server-binding; RFC 7591
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import InvalidValue, RegistrationFailed, UnsafeUrl
from mcp_core.oauth.client_metadata import registration_document
from mcp_core.oauth.documents import Members, one_line, read_json
from mcp_core.oauth.records import AuthMethod, ClientRecord, Registration
from mcp_core.oauth.steps import AskClient, FindClient, Register, Unreachable, asked, requested
from mcp_core.oauth.urls import check_peer_url, redirect_uri_matches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from mcp_core.oauth.client_metadata import ClientSettings
    from mcp_core.oauth.discovery import Discovery
    from mcp_core.oauth.jws import Signer
    from mcp_core.oauth.metadata import AuthorizationServerMetadata
    from mcp_core.oauth.steps import HttpAnswer, Running

__all__ = ["Registrar", "read_registration"]

_HEADERS: Final = (("Accept", "application/json"), ("Content-Type", "application/json"))


def read_registration(answer: HttpAnswer, *, issuer: str, redirect_uri: str, requested: AuthMethod) -> ClientRecord:
    """Reads the answer of a registration endpoint. The authorization server may have changed what was asked for.

    Args:
        answer: The answer.
        issuer: Who was asked.
        redirect_uri: What will be used.
        requested: How the client wanted to authenticate.

    Raises:
        RegistrationFailed: It is an error, or there is no client id with which the flow could go on.
    """
    what = f"registration at {issuer}"
    try:
        members = Members(read_json(answer.body))
    except InvalidValue as bad:
        sentence = f"{what} was answered with status {answer.status} and no document: {bad.message}"
        raise RegistrationFailed(sentence, status=answer.status) from None
    if not 200 <= answer.status < 300 or "error" in members.document:
        error, description = members.text("error"), members.text("error_description")
        told = "" if description is None else f" ({one_line(description)})"
        raise RegistrationFailed(
            f"{what} was refused: {one_line(error or 'no error was named')}{told}, status {answer.status}",
            error=None if error is None else one_line(error),
            description=None if description is None else one_line(description),
            status=answer.status,
        )
    client_id = members.text("client_id")
    if client_id is None:
        raise RegistrationFailed(f"{what} was answered without a client_id", status=answer.status)
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
        # 0 says that it never does.
        secret_expires_at=expires or None,
    )


def _method(named: str | None, requested: AuthMethod, *, has_secret: bool, what: str) -> AuthMethod:
    if named is not None:
        try:
            return AuthMethod(named)
        except ValueError:
            raise RegistrationFailed(f"{what} wants the client to authenticate by {named[:100]!a}") from None
    # What is not said is as it was asked for. A secret that was not asked for is there to be used.
    return AuthMethod.SECRET_BASIC if has_secret and requested is AuthMethod.NONE else requested


@attrs.define
class Registrar:
    """Finds or gets the client for one authorization server: `run`."""

    server: AuthorizationServerMetadata
    """The authorization server, whose issuer was validated."""
    discovery: Discovery
    """Where what is tried is written down."""
    settings: ClientSettings
    """The client."""
    ways: frozenset[Registration]
    """The ways that the grant allows."""
    configured: Sequence[ClientRecord]
    """Credentials from the client's configuration."""
    redirect_uri: str | None
    """What will be used; `None` where the grant has no browser."""
    signer: Signer | None
    """The client's key."""
    previous_issuer: str | None
    """The authorization server that this MCP server had before."""
    refused: frozenset[str]
    """Client ids that the authorization server does not know any more."""
    now: float
    """Seconds since the epoch."""
    _failed: RegistrationFailed | None = attrs.field(default=None, init=False)

    def run(self) -> Running[ClientRecord]:
        """Walks the ways.

        Raises:
            RegistrationFailed: None of them led to a client id.
        """
        for registration, way in _WAYS:
            if registration in self.ways:
                client = yield from way(self)
                if client is not None:
                    return client
        raise self._failed or RegistrationFailed(self._reason())

    def _reason(self) -> str:
        if self.redirect_uri is None:
            return f"no credentials are configured for {self.server.issuer}, and this grant needs them"
        return (
            f"there is no client id for {self.server.issuer}: none is configured, and it offers neither "
            "client id metadata documents nor dynamic registration that this client could use"
        )

    def preregistered(self) -> Running[ClientRecord | None]:
        """What was configured for this issuer. Raises `RegistrationFailed` where all is for others."""
        yield from ()
        issuer = self.server.issuer
        for client in self.configured:
            unbound = client.issuer is None and self.previous_issuer in (None, issuer)
            if client.issuer == issuer or unbound:
                return attrs.evolve(client, issuer=issuer)
        if self.configured:
            others = ", ".join(sorted({client.issuer or self.previous_issuer or "" for client in self.configured}))
            raise RegistrationFailed(
                f"the credentials that are configured are for {others}, and the server now wants tokens of {issuer}: "
                "they are not shown to it"
            )
        return None

    def by_document(self) -> Running[ClientRecord | None]:
        """The URL of the client's document. Raises `RegistrationFailed` for a redirect URI that is not in it."""
        yield from ()
        url, methods = self.settings.metadata_url, self.server.token_endpoint_auth_methods_supported
        method = AuthMethod.NONE if self.signer is None else AuthMethod.PRIVATE_KEY_JWT
        fits = methods is None or method.value in methods
        if url is None or not self.server.client_id_metadata_document_supported or not fits or url in self.refused:
            return None
        uri = self.redirect_uri
        if uri is not None and not any(redirect_uri_matches(each, uri) for each in self.settings.redirect_uris):
            raise RegistrationFailed(
                f"redirect URI {uri} is not in ClientSettings.redirect_uris, so it is not in the document at {url}, and "
                "the authorization server would refuse it"
            )
        return ClientRecord(
            client_id=url,
            issuer=self.server.issuer,
            auth_method=method,
            registration=Registration.METADATA_DOCUMENT,
            redirect_uris=self.settings.redirect_uris,
        )

    def kept(self) -> Running[ClientRecord | None]:
        """What was kept of an earlier registration, if it still holds."""
        client = yield from asked(FindClient(issuer=self.server.issuer))
        if client is None or client.issuer != self.server.issuer or client.client_id in self.refused:
            return None
        return client if client.is_usable(self.now, redirect_uri=self.redirect_uri) else None

    def by_registration(self) -> Running[ClientRecord | None]:
        """A new registration; `None` with the reason kept when it is refused."""
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
                raise RegistrationFailed(f"registration at {endpoint} was not answered: {one_line(answer.reason)}")
            client = read_registration(answer, issuer=self.server.issuer, redirect_uri=uri, requested=method)
        except RegistrationFailed as failed:
            self.discovery.note(endpoint, Register.why, failed.message)
            self._failed = failed
            return None
        self.discovery.note(endpoint, Register.why, "gave a client id")
        return client

    def _wanted_method(self) -> AuthMethod:
        """What a client on somebody's machine can keep best: a key, else nothing, else a secret."""
        theirs = self.server.token_endpoint_auth_methods_supported
        ours = [AuthMethod.NONE, AuthMethod.SECRET_BASIC, AuthMethod.SECRET_POST]
        if self.signer is not None:
            ours.insert(0, AuthMethod.PRIVATE_KEY_JWT)
        return next((method for method in ours if theirs is not None and method.value in theirs), AuthMethod.NONE)

    def by_asking(self) -> Running[ClientRecord | None]:
        """What the person says."""
        reason = self._reason() if self._failed is None else self._failed.message
        client = yield from asked(AskClient(issuer=self.server.issuer, reason=reason))
        if client is None:
            return None
        return attrs.evolve(client, issuer=self.server.issuer, registration=Registration.ASKED)


if TYPE_CHECKING:
    _Way: TypeAlias = Callable[[Registrar], Running[ClientRecord | None]]

_WAYS: Final[Sequence[tuple[Registration, _Way]]] = (
    (Registration.PREREGISTERED, Registrar.preregistered),
    (Registration.METADATA_DOCUMENT, Registrar.by_document),
    (Registration.DYNAMIC, Registrar.kept),
    (Registration.DYNAMIC, Registrar.by_registration),
    (Registration.ASKED, Registrar.by_asking),
)
"""The order of the specification."""
