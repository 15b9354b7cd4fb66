"""The grants: what leads from a client and its authorization server to the form for the token endpoint.

Each grant is one class with the same few members, `Grant`; another one can be given to a flow just so.

=====================  ===============  =========================  ==========================================
grant                  client id by     before the token request   for
=====================  ===============  =========================  ==========================================
AuthorizationCode      all five ways    browser                    a person
ClientCredentials      configuration    nothing                    the client itself
WorkloadIdentity       none             nothing                    a workload that its platform vouches for
EnterpriseManaged      configuration,   exchange at the            an employee who is logged in already
                       document         identity provider
=====================  ===============  =========================  ==========================================

Spec: basic/authorization; the extensions oauth-client-credentials, enterprise-managed-authorization, workload identity
"""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003  # attrs reads the annotation
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

import attrs

from mcp_core.errors import TokenRefused
from mcp_core.oauth.authorization_endpoint import new_authorization, read_redirect
from mcp_core.oauth.client_metadata import check_redirect_uri
from mcp_core.oauth.metadata import check_pkce
from mcp_core.oauth.records import Registration
from mcp_core.oauth.steps import AwaitRedirect, OpenBrowser
from mcp_core.oauth.token_endpoint import TokenEndpoint
from mcp_core.oauth.tokens import (
    ID_JAG,
    ID_TOKEN,
    choose_auth_method,
    client_credentials_form,
    code_form,
    jwt_bearer_form,
    token_exchange_form,
)
from mcp_core.oauth.urls import check_browser_url

if TYPE_CHECKING:
    from mcp_core.oauth.discovery import Discovered, Discovery
    from mcp_core.oauth.jws import Signer
    from mcp_core.oauth.records import ClientRecord
    from mcp_core.oauth.steps import Pairs, Redirected, Running

__all__ = [
    "AuthorizationCode",
    "ClientCredentials",
    "EnterpriseManaged",
    "Grant",
    "GrantContext",
    "WorkloadIdentity",
]


@attrs.define(kw_only=True)
class GrantContext:
    """What a grant may need to know."""

    found: Discovered
    """The server and its authorization server."""
    discovery: Discovery
    """Where what is tried is written down."""
    client: ClientRecord | None
    """The client; `None` for a grant without a client id."""
    scopes: tuple[str, ...]
    """What is asked for."""
    signer: Signer | None
    """The client's key."""
    key_id: str | None
    """The thumbprint of the key that the token will be bound to."""
    random_bytes: Callable[[int], bytes]
    """Gives so many unpredictable bytes."""
    clock: Callable[[], float]
    """The time that came in last, in seconds since the epoch."""


class Grant(Protocol):
    """One way to a token."""

    @property
    def ways(self) -> frozenset[Registration]:
        """How the client may come to its id; none: it needs none."""
        ...

    @property
    def redirect_uri(self) -> str | None:
        """Where the browser comes back; `None` without a browser."""
        ...

    @property
    def refreshable(self) -> bool:
        """Whether a refresh token may be asked for."""
        ...

    @property
    def extension(self) -> str | None:
        """The extension of the protocol that it belongs to, which the client declares; `None`: it is a part of the core."""
        ...

    def check(self, found: Discovered) -> None:
        """Raises `DiscoveryFailed` when the authorization server cannot do it. Called before anything is sent there."""
        ...

    def form(self, context: GrantContext) -> Running[Pairs]:
        """Does what comes before the token request, and gives its form. Raises `AuthorizationError`."""
        ...


def _checked_redirect_uri(_: AuthorizationCode, __: attrs.Attribute[str], uri: str) -> None:
    check_redirect_uri(uri)


def _checked_endpoint(_: EnterpriseManaged, __: attrs.Attribute[str], url: str) -> None:
    check_browser_url(url, what="token_endpoint")


@attrs.frozen(kw_only=True)
class AuthorizationCode:
    """A person consents in a browser. PKCE by S256 always.

    Raises:
        LocalProtocolError: The redirect URI is neither https nor on this machine.
    """

    redirect_uri: str = attrs.field(validator=_checked_redirect_uri)
    """Where the driver listens: `http://127.0.0.1:49152/callback`."""

    ways: ClassVar[frozenset[Registration]] = frozenset(Registration)
    refreshable: ClassVar[bool] = True
    extension: ClassVar[str | None] = None

    def check(self, found: Discovered) -> None:
        """PKCE has to be there; the specification has no exception."""
        check_pkce(found.server)

    def form(self, context: GrantContext) -> Running[Pairs]:
        """Sends the person, waits for the answer that is for us, and takes the code."""
        client = cast("ClientRecord", context.client)  # this grant has ways, so there is one
        request = new_authorization(
            context.found.server,
            client_id=client.client_id,
            redirect_uri=self.redirect_uri,
            resource=context.found.resource,
            scopes=context.scopes,
            key_id=context.key_id,
            networks=context.discovery.networks,
            random_bytes=context.random_bytes,
        )
        yield OpenBrowser(url=request.url)
        code = None
        while code is None:
            back = yield AwaitRedirect(state=request.state, redirect_uri=self.redirect_uri)
            code = request.code(read_redirect(cast("Redirected", back).url))  # Flow.receive lets nothing else through
        context.discovery.note(request.url.partition("?")[0], "authorization", "gave a code")
        return code_form(
            code,
            verifier=request.pkce.verifier,
            redirect_uri=self.redirect_uri,
            resource=context.found.resource,
        )


class _Plain:
    """A grant without a browser."""

    __slots__ = ()

    redirect_uri: ClassVar[str | None] = None
    refreshable: ClassVar[bool] = False

    def check(self, found: Discovered) -> None:
        """Nothing to be checked: what an authorization server supports it often does not list."""


@attrs.frozen(kw_only=True)
class ClientCredentials(_Plain):
    """The client is nobody's but its own. It has a secret or a key that the authorization server knows."""

    ways: ClassVar[frozenset[Registration]] = frozenset({Registration.PREREGISTERED})
    extension: ClassVar[str | None] = "io.modelcontextprotocol/oauth-client-credentials"

    def form(self, context: GrantContext) -> Running[Pairs]:
        """There is nothing before it."""
        yield from ()
        return client_credentials_form(scopes=context.scopes, resource=context.found.resource)


@attrs.frozen(kw_only=True)
class WorkloadIdentity(_Plain):
    """A platform gave the workload a JWT that the authorization server trusts. It is its own authentication."""

    assertion: str = attrs.field(repr=False)
    """The JWT. Of a fresh flow a fresh one: it is short-lived, and one that was refused is not sent again."""

    ways: ClassVar[frozenset[Registration]] = frozenset()
    # The name in its specification, io.modelcontextprotocol/auth/wif, is none by the rules for names of extensions, and
    # nothing asks for it to be declared.
    extension: ClassVar[str | None] = None

    def form(self, context: GrantContext) -> Running[Pairs]:
        """There is nothing before it."""
        yield from ()
        return jwt_bearer_form(self.assertion, scopes=context.scopes, resource=context.found.resource)


@attrs.frozen(kw_only=True)
class EnterpriseManaged(_Plain):
    """The employee is logged in at the company's identity provider, which decides for them.

    Raises:
        UnsafeUrl: The token endpoint is neither https nor on this machine.
    """

    identity_provider: ClientRecord
    """The client, as the identity provider knows it; its issuer is the identity provider."""
    token_endpoint: str = attrs.field(validator=_checked_endpoint)
    """The identity provider's. It comes from the configuration, so that it may be anywhere."""
    subject_token: str = attrs.field(repr=False)
    """What the identity provider gave when the employee logged in."""
    subject_token_type: str = ID_TOKEN
    """Its type."""

    ways: ClassVar[frozenset[Registration]] = frozenset({Registration.PREREGISTERED, Registration.METADATA_DOCUMENT})
    extension: ClassVar[str | None] = "io.modelcontextprotocol/enterprise-managed-authorization"

    def form(self, context: GrantContext) -> Running[Pairs]:
        """Exchanges the identity for an ID-JAG, which is of use at this authorization server alone."""
        provider = self.identity_provider
        form = token_exchange_form(
            self.subject_token,
            subject_token_type=self.subject_token_type,
            audience=context.found.server.issuer,
            resource=context.found.resource,
            scopes=context.scopes,
        )
        signing = context.signer is not None and provider.client_secret is None
        endpoint = TokenEndpoint(
            url=self.token_endpoint,
            issuer=provider.issuer or self.token_endpoint,
            discovery=context.discovery,
            client=provider,
            method=choose_auth_method(provider, None, has_key=signing),
            signer=context.signer,
            proof=None,
            random_bytes=context.random_bytes,
            clock=context.clock,
            configured=True,
        )
        token = yield from endpoint.run(form, "exchange at the identity provider")
        if token.issued_token_type != ID_JAG:
            kind = f"{token.issued_token_type!a:.200}"
            raise TokenRefused(f"{endpoint.issuer} gave a token of type {kind} in place of an ID-JAG")
        return jwt_bearer_form(token.access_token, scopes=context.scopes, resource=context.found.resource)
