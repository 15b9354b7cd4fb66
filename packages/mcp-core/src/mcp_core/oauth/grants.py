"""OAuth grants: the requests before the token request, and the form for the token endpoint.

Each grant is a class that implements `Grant`. An application can pass its own class to a flow.

=====================  ===============  =========================  ==========================================
grant                  client id from   before the token request   for
=====================  ===============  =========================  ==========================================
AuthorizationCode      all five ways    browser                    a user
ClientCredentials      configuration    no request                 the client itself
WorkloadIdentity       no client id     no request                 a workload authenticated by its platform
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
from mcp_core.field_methods import FieldValue
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
    from mcp_core.oauth.discovery import Discovery, DiscoveryResult
    from mcp_core.oauth.jws import Signer
    from mcp_core.oauth.records import ClientRecord
    from mcp_core.oauth.steps import Pairs, RedirectReceived, Running

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
    """The data of a flow that a grant may use."""

    found: DiscoveryResult
    """The metadata of the server and of its authorization server."""
    discovery: Discovery
    """The discovery, which records the attempts."""
    client: ClientRecord | None
    """The client; `None` for a grant without a client id."""
    scopes: tuple[str, ...]
    """The requested scopes."""
    signer: Signer | None
    """The client's key."""
    key_id: str | None
    """The thumbprint of the key to which the token will be bound."""
    random_bytes: Callable[[int], bytes]
    """Returns the given number of unpredictable bytes."""
    clock: Callable[[], float]
    """Returns the last `now` passed to the flow, in seconds since the epoch."""


class Grant(Protocol):
    """A method to obtain a token."""

    @property
    def ways(self) -> frozenset[Registration]:
        """The allowed methods to obtain a client id; empty if the grant does not use a client id."""
        ...

    @property
    def redirect_uri(self) -> str | None:
        """The URI to which the browser is redirected; `None` without a browser."""
        ...

    @property
    def refreshable(self) -> bool:
        """Whether the client may request a refresh token."""
        ...

    @property
    def extension(self) -> str | None:
        """The protocol extension of the grant, which the client declares; `None` for a grant of the core protocol."""
        ...

    def check(self, found: DiscoveryResult) -> None:
        """Check the authorization server before the first request to it; raise `DiscoveryFailed` to reject it."""
        ...

    def form(self, context: GrantContext) -> Running[Pairs]:
        """Perform the requests before the token request, and return its form. Raises `AuthorizationError`."""
        ...


def _checked_redirect_uri(_: AuthorizationCode, __: attrs.Attribute[str], uri: str) -> None:
    check_redirect_uri(uri)


def _checked_endpoint(_: EnterpriseManaged, __: attrs.Attribute[str], url: str) -> None:
    check_browser_url(url, what="token_endpoint")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AuthorizationCode(FieldValue):
    """The authorization code grant: a user consents in a browser. PKCE with S256 is always used.

    Raises:
        LocalProtocolError: The redirect URI neither uses https nor is on this machine.
    """

    redirect_uri: str = attrs.field(validator=_checked_redirect_uri)
    """The URI at which the caller listens: `http://127.0.0.1:49152/callback`."""

    ways: ClassVar[frozenset[Registration]] = frozenset(Registration)
    refreshable: ClassVar[bool] = True
    extension: ClassVar[str | None] = None

    def check(self, found: DiscoveryResult) -> None:
        """Check that the server supports PKCE. The specification allows no exception."""
        check_pkce(found.server)

    def form(self, context: GrantContext) -> Running[Pairs]:
        """Open the browser, wait for the response to this flow, and exchange the code."""
        client = cast("ClientRecord", context.client)  # this grant uses a client id, so there is a client
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
            code = request.code(read_redirect(cast("RedirectReceived", back).url))  # Flow.receive rejects other classes
        context.discovery.note(request.url.partition("?")[0], "authorization", "received a code")
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

    def check(self, found: DiscoveryResult) -> None:
        """Do nothing, because many authorization servers do not list the grants that they support."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClientCredentials(FieldValue, _Plain):
    """The client credentials grant: the client acts for itself, with a registered secret or key."""

    ways: ClassVar[frozenset[Registration]] = frozenset({Registration.PREREGISTERED})
    extension: ClassVar[str | None] = "io.modelcontextprotocol/oauth-client-credentials"

    def form(self, context: GrantContext) -> Running[Pairs]:
        """Return the form without a preceding request."""
        yield from ()
        return client_credentials_form(scopes=context.scopes, resource=context.found.resource)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class WorkloadIdentity(FieldValue, _Plain):
    """Workload identity: a JWT from the platform, trusted by the authorization server, authenticates the workload."""

    assertion: str = attrs.field(repr=False)
    """The JWT. Use a fresh one for each flow: it is short-lived, and a rejected JWT is not sent again."""

    ways: ClassVar[frozenset[Registration]] = frozenset()
    # The name in the specification, io.modelcontextprotocol/auth/wif, violates the rules for names of extensions, and
    # no rule requires clients to declare it.
    extension: ClassVar[str | None] = None

    def form(self, context: GrantContext) -> Running[Pairs]:
        """Return the form without a preceding request."""
        yield from ()
        return jwt_bearer_form(self.assertion, scopes=context.scopes, resource=context.found.resource)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class EnterpriseManaged(FieldValue, _Plain):
    """Enterprise-managed authorization: the company's identity provider decides for the employee, who is logged in.

    Raises:
        UnsafeUrl: The token endpoint neither uses https nor is on this machine.
    """

    identity_provider: ClientRecord
    """The client at the identity provider. Its issuer is the identity provider."""
    token_endpoint: str = attrs.field(validator=_checked_endpoint)
    """The token endpoint of the identity provider. Because the user configures it, it may be in any network."""
    subject_token: str = attrs.field(repr=False)
    """The token that the identity provider issued when the employee logged in."""
    subject_token_type: str = ID_TOKEN
    """The type of `subject_token`."""

    ways: ClassVar[frozenset[Registration]] = frozenset({Registration.PREREGISTERED, Registration.METADATA_DOCUMENT})
    extension: ClassVar[str | None] = "io.modelcontextprotocol/enterprise-managed-authorization"

    def form(self, context: GrantContext) -> Running[Pairs]:
        """Exchange the identity for an ID-JAG, which only this authorization server accepts."""
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
            raise TokenRefused(f"{endpoint.issuer} issued a token of type {kind} instead of an ID-JAG")
        return jwt_bearer_form(token.access_token, scopes=context.scopes, resource=context.found.resource)
