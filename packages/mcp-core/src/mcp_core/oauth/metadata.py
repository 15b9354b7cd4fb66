"""The documents that describe a protected resource and an authorization server.

They are read leniently, with notes on what was odd, and held strictly against the rules that security rests on:
`check_resource` (the document is about the server that was asked), `check_issuer` (it is of the authorization server
that was asked, octet by octet) and `check_pkce`. Endpoints are checked where they are used, see `mcp_core.oauth.urls`.

Spec: basic/authorization; RFC 9728, RFC 8414, OpenID Connect Discovery 1.0, RFC 9207 section 3
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import DiscoveryFailed, InvalidValue, IssuerMismatch, UnsafeUrl
from mcp_core.oauth.documents import Members
from mcp_core.oauth.pkce import METHOD
from mcp_core.oauth.urls import check_peer_url, parse_url, same_origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.oauth.addresses import AddressClass
    from mcp_core.oauth.urls import Url

__all__ = [
    "AuthorizationServerMetadata",
    "ProtectedResourceMetadata",
    "ResourceMatch",
    "check_issuer",
    "check_issuer_url",
    "check_pkce",
    "match_resource",
    "read_authorization_server",
    "read_protected_resource",
]


def _written(instance: ProtectedResourceMetadata | AuthorizationServerMetadata) -> JsonObject:
    """The document: absent members left out, flags only where true."""
    document: JsonObject = {}
    for name, value in attrs.asdict(instance, recurse=False).items():
        if name == "notes" or value is None or value is False:
            continue
        document[name] = list(value) if isinstance(value, tuple) else value
    return document


@attrs.frozen(kw_only=True)
class ProtectedResourceMetadata:
    """What a protected resource says of itself. The fields are the members of RFC 9728 section 2."""

    resource: str
    """The identifier of the resource, which access tokens are asked for."""
    authorization_servers: tuple[str, ...] | None = None
    """The issuers of the authorization servers that it trusts."""
    jwks_uri: str | None = None
    """The keys of the resource itself."""
    scopes_supported: tuple[str, ...] | None = None
    """Scopes for use with it; need not be all."""
    bearer_methods_supported: tuple[str, ...] | None = None
    """How a token may be sent; MCP knows only `header`."""
    resource_name: str | None = None
    """For people."""
    resource_documentation: str | None = None
    """A page for developers."""
    resource_policy_uri: str | None = None
    """A page about what may be done with the data."""
    resource_tos_uri: str | None = None
    """A page with the terms of service."""
    tls_client_certificate_bound_access_tokens: bool = False
    """Whether it supports tokens that are bound to a certificate (RFC 8705)."""
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None
    """Algorithms of DPoP proofs that it verifies."""
    dpop_bound_access_tokens_required: bool = False
    """Whether it takes only tokens that are bound to a key by DPoP."""
    notes: tuple[str, ...] = attrs.field(default=(), eq=False)
    """What was odd when it was read."""

    def to_json(self) -> JsonObject:
        """The document."""
        return _written(self)


@attrs.frozen(kw_only=True)
class AuthorizationServerMetadata:
    """What an authorization server says of itself. The fields are the members of RFC 8414 section 2 and its registry."""

    issuer: str
    """Its identifier; compared octet by octet."""
    authorization_endpoint: str | None = None
    """Where the browser goes."""
    token_endpoint: str | None = None
    """Where tokens are got."""
    registration_endpoint: str | None = None
    """Where clients register themselves (RFC 7591)."""
    jwks_uri: str | None = None
    """Its keys."""
    revocation_endpoint: str | None = None
    """Where tokens are revoked (RFC 7009)."""
    introspection_endpoint: str | None = None
    """Where a resource server asks what a token is (RFC 7662)."""
    userinfo_endpoint: str | None = None
    """OpenID Connect: who the user is."""
    end_session_endpoint: str | None = None
    """OpenID Connect: where to log out."""
    scopes_supported: tuple[str, ...] | None = None
    """Scopes that may be asked for; need not be all."""
    response_types_supported: tuple[str, ...] | None = None
    """What the browser may bring back; `code` here."""
    response_modes_supported: tuple[str, ...] | None = None
    """How it may bring it."""
    grant_types_supported: tuple[str, ...] | None = None
    """Grants of the token endpoint. Absent: `authorization_code` and `implicit`."""
    subject_types_supported: tuple[str, ...] | None = None
    """OpenID Connect: `public`, `pairwise`."""
    id_token_signing_alg_values_supported: tuple[str, ...] | None = None
    """OpenID Connect: algorithms of ID tokens."""
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    """How clients may authenticate there. Absent: `client_secret_basic`."""
    token_endpoint_auth_signing_alg_values_supported: tuple[str, ...] | None = None
    """Algorithms of `private_key_jwt`."""
    code_challenge_methods_supported: tuple[str, ...] | None = None
    """Methods of PKCE. Absent: none."""
    authorization_response_iss_parameter_supported: bool = False
    """Whether its answers through the browser have `iss` (RFC 9207)."""
    client_id_metadata_document_supported: bool = False
    """Whether a client id may be the URL of a document that describes the client."""
    authorization_grant_profiles_supported: tuple[str, ...] | None = None
    """Profiles of grants, as the one of ID-JAG."""
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None
    """Algorithms of DPoP proofs that it verifies."""
    service_documentation: str | None = None
    """A page for developers."""
    op_policy_uri: str | None = None
    """A page about what may be done with the data."""
    op_tos_uri: str | None = None
    """A page with the terms of service."""
    notes: tuple[str, ...] = attrs.field(default=(), eq=False)
    """What was odd when it was read."""

    def to_json(self) -> JsonObject:
        """The document."""
        return _written(self)


_FLAGS: Final = frozenset(
    {
        "tls_client_certificate_bound_access_tokens",
        "dpop_bound_access_tokens_required",
        "authorization_response_iss_parameter_supported",
        "client_id_metadata_document_supported",
    }
)
_LISTS: Final = ("_supported", "authorization_servers")


def read_protected_resource(document: JsonObject) -> ProtectedResourceMetadata:
    """Reads the metadata of a protected resource.

    Raises:
        InvalidValue: There is no `resource`.
    """
    members = Members(document)
    if members.text("resource") is None:
        raise InvalidValue("missing, or no string", path="resource", raw=document)
    values = _read(members, [each.name for each in attrs.fields(ProtectedResourceMetadata)])
    return ProtectedResourceMetadata(**values, notes=tuple(members.notes))  # type: ignore[arg-type]  # by name, see _read


def read_authorization_server(document: JsonObject) -> AuthorizationServerMetadata:
    """Reads the metadata of an authorization server, or the configuration of an OpenID provider.

    Raises:
        InvalidValue: There is no `issuer`.
    """
    members = Members(document)
    if members.text("issuer") is None:
        raise InvalidValue("missing, or no string", path="issuer", raw=document)
    values = _read(members, [each.name for each in attrs.fields(AuthorizationServerMetadata)])
    return AuthorizationServerMetadata(**values, notes=tuple(members.notes))  # type: ignore[arg-type]  # by name, see _read


def _read(members: Members, names: Sequence[str]) -> dict[str, str | tuple[str, ...] | bool | None]:
    """Each member by what its name says of its kind; the registry has no exceptions."""
    values: dict[str, str | tuple[str, ...] | bool | None] = {}
    for name in names:
        if name in _FLAGS:
            values[name] = members.flag(name)
        elif name.endswith(_LISTS):
            values[name] = members.texts(name)
        elif name != "notes":
            values[name] = members.text(name)
    return values


class ResourceMatch(enum.Enum):
    """What the resource of a document is to the server that was asked."""

    SAME = "same"
    """The server itself."""
    PARENT = "parent"
    """A resource that the server is below: the same origin, and a path above its own."""
    OTHER = "other"
    """Anything else. The document must not be used."""


def match_resource(resource: str, server: Url) -> ResourceMatch:
    """Compares the resource that a document names with the URL of the server, segment by segment.

    Case of scheme and host, the default port and a slash at the end make no difference. Whether a parent is believed is
    for whoever fetched the document: only the parent's own document can say that it exists.

    Spec: RFC 9728 section 3.3, basic/authorization#canonical-server-uri
    """
    try:
        url = parse_url(resource, what="resource")
    except UnsafeUrl:
        return ResourceMatch.OTHER
    named, ours = url.segments, server.segments
    if not same_origin(url, server) or url.fragment is not None or ours[: len(named)] != named:
        return ResourceMatch.OTHER
    if url.query not in (None, server.query):
        return ResourceMatch.OTHER
    return ResourceMatch.SAME if named == ours else ResourceMatch.PARENT


def check_issuer(metadata: AuthorizationServerMetadata, expected: str) -> None:
    """Makes sure that a document is of the authorization server that was asked for it.

    Args:
        metadata: The document.
        expected: The issuer that its URL was built from, exactly as it was learned.

    Raises:
        IssuerMismatch: It is another one, by a single octet.
    """
    if metadata.issuer != expected:
        sentence = f"its issuer is {metadata.issuer[:200]!a}, but that of {expected[:200]!a} was asked for"
        raise IssuerMismatch(sentence, expected=expected, received=metadata.issuer)


def check_issuer_url(issuer: str, *, networks: frozenset[AddressClass]) -> Url:
    """Checks an issuer that a peer named.

    Raises:
        UnsafeUrl: It must not be requested, or has a query (RFC 8414 section 2).
    """
    url = check_peer_url(issuer, what="issuer", networks=networks)
    if url.query is not None:
        raise UnsafeUrl(issuer, "it has a query", what="issuer")
    return url


def check_pkce(metadata: AuthorizationServerMetadata) -> None:
    """Makes sure that the authorization server knows PKCE with S256. Spec: basic/authorization#authorization-code-protection

    Raises:
        DiscoveryFailed: It does not, or does not say so.
    """
    methods = metadata.code_challenge_methods_supported
    if methods is None or METHOD not in methods:
        said = "has no" if methods is None else f"lists only {', '.join(methods)[:200]!a} as"
        raise DiscoveryFailed(
            f"the metadata of {metadata.issuer} {said} code_challenge_methods_supported: without PKCE by {METHOD} "
            "an authorization code is not protected, so none is asked for"
        )
