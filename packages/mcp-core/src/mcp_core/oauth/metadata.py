"""Metadata documents of protected resources and of authorization servers.

The readers are lenient and note deviations. The checks for security are strict: `match_resource` (the document is about
the requested server), `check_issuer` (the document belongs to the requested authorization server, octet by octet) and
`check_pkce`. Endpoints are checked where they are used, see `mcp_core.oauth.urls`.

Spec: basic/authorization; RFC 9728, RFC 8414, OpenID Connect Discovery 1.0, RFC 9207 section 3
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import DiscoveryFailed, InvalidValue, IssuerMismatch, UnsafeUrl
from mcp_core.field_methods import FieldValue
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
    """Return the document, without missing members and false flags."""
    document: JsonObject = {}
    for name, value in attrs.asdict(instance, recurse=False).items():
        if name == "notes" or value is None or value is False:
            continue
        document[name] = list(value) if isinstance(value, tuple) else value
    return document


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ProtectedResourceMetadata(FieldValue):
    """The metadata of a protected resource. The fields are the members of RFC 9728 section 2."""

    resource: str
    """The identifier of the resource, for which clients request access tokens."""
    authorization_servers: tuple[str, ...] | None = None
    """The issuers of the trusted authorization servers."""
    jwks_uri: str | None = None
    """The URL of the keys of the resource."""
    scopes_supported: tuple[str, ...] | None = None
    """Scopes of the resource; possibly not all."""
    bearer_methods_supported: tuple[str, ...] | None = None
    """Methods to send a token. MCP uses only `header`."""
    resource_name: str | None = None
    """The name, shown to users."""
    resource_documentation: str | None = None
    """The URL of a page for developers."""
    resource_policy_uri: str | None = None
    """The URL of the policy for use of the data."""
    resource_tos_uri: str | None = None
    """The URL of the terms of service."""
    tls_client_certificate_bound_access_tokens: bool = False
    """Whether the resource supports tokens that are bound to a certificate (RFC 8705)."""
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None
    """Algorithms of DPoP proofs that the resource verifies."""
    dpop_bound_access_tokens_required: bool = False
    """Whether the resource accepts only tokens that are bound to a key with DPoP."""
    notes: tuple[str, ...] = attrs.field(default=(), eq=False)
    """The deviations that the reader tolerated."""

    def to_json(self) -> JsonObject:
        """Return the document."""
        return _written(self)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AuthorizationServerMetadata(FieldValue):
    """The metadata of an authorization server. The fields are the members of RFC 8414 section 2 and its registry."""

    issuer: str
    """The identifier of the authorization server, compared octet by octet."""
    authorization_endpoint: str | None = None
    """The URL for the browser."""
    token_endpoint: str | None = None
    """The URL that issues tokens."""
    registration_endpoint: str | None = None
    """The URL at which clients register (RFC 7591)."""
    jwks_uri: str | None = None
    """The URL of the keys of the authorization server."""
    revocation_endpoint: str | None = None
    """The URL that revokes tokens (RFC 7009)."""
    introspection_endpoint: str | None = None
    """The URL at which a resource server introspects tokens (RFC 7662)."""
    userinfo_endpoint: str | None = None
    """OpenID Connect: the URL of the user's profile."""
    end_session_endpoint: str | None = None
    """OpenID Connect: the URL for logout."""
    scopes_supported: tuple[str, ...] | None = None
    """Scopes that clients may request; possibly not all."""
    response_types_supported: tuple[str, ...] | None = None
    """Types of authorization responses; this client uses `code`."""
    response_modes_supported: tuple[str, ...] | None = None
    """Methods to return the authorization response."""
    grant_types_supported: tuple[str, ...] | None = None
    """Grants of the token endpoint. If missing: `authorization_code` and `implicit`."""
    subject_types_supported: tuple[str, ...] | None = None
    """OpenID Connect: `public`, `pairwise`."""
    id_token_signing_alg_values_supported: tuple[str, ...] | None = None
    """OpenID Connect: the algorithms of ID tokens."""
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    """Authentication methods of the token endpoint. If missing: `client_secret_basic`."""
    token_endpoint_auth_signing_alg_values_supported: tuple[str, ...] | None = None
    """The algorithms of `private_key_jwt`."""
    code_challenge_methods_supported: tuple[str, ...] | None = None
    """Methods of PKCE. If missing, PKCE is not supported."""
    authorization_response_iss_parameter_supported: bool = False
    """Whether authorization responses have `iss` (RFC 9207)."""
    client_id_metadata_document_supported: bool = False
    """Whether a client id may be the URL of a client ID metadata document."""
    authorization_grant_profiles_supported: tuple[str, ...] | None = None
    """Profiles of grants, for example that of ID-JAG."""
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None
    """Algorithms of DPoP proofs that the authorization server verifies."""
    service_documentation: str | None = None
    """The URL of a page for developers."""
    op_policy_uri: str | None = None
    """The URL of the policy for use of the data."""
    op_tos_uri: str | None = None
    """The URL of the terms of service."""
    notes: tuple[str, ...] = attrs.field(default=(), eq=False)
    """The deviations that the reader tolerated."""

    def to_json(self) -> JsonObject:
        """Return the document."""
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
    """Read the metadata of a protected resource.

    Raises:
        InvalidValue: `resource` is missing or invalid.
    """
    members = Members(document)
    if members.text("resource") is None:
        raise InvalidValue("missing, or not a string", path="resource", raw=document)
    values = _read(members, [each.name for each in attrs.fields(ProtectedResourceMetadata)])
    return ProtectedResourceMetadata(**values, notes=tuple(members.notes))  # type: ignore[arg-type]  # by name, see _read


def read_authorization_server(document: JsonObject) -> AuthorizationServerMetadata:
    """Read the metadata of an authorization server, or the configuration of an OpenID provider.

    Raises:
        InvalidValue: `issuer` is missing or invalid.
    """
    members = Members(document)
    if members.text("issuer") is None:
        raise InvalidValue("missing, or not a string", path="issuer", raw=document)
    values = _read(members, [each.name for each in attrs.fields(AuthorizationServerMetadata)])
    return AuthorizationServerMetadata(**values, notes=tuple(members.notes))  # type: ignore[arg-type]  # by name, see _read


def _read(members: Members, names: Sequence[str]) -> dict[str, str | tuple[str, ...] | bool | None]:
    """Return the value of each member. The name of a member determines its type, without exceptions in the registry."""
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
    """The relation of the resource in a document to the requested server."""

    SAME = "same"
    """The server."""
    PARENT = "parent"
    """A resource above the server: the same origin, and a parent path."""
    OTHER = "other"
    """Any other resource. The document must not be used."""


def match_resource(resource: str, server: Url) -> ResourceMatch:
    """Compare the resource in a document with the URL of the server, segment by segment.

    Case of scheme and host, the default port and a slash at the end are ignored. The caller has to decide whether to
    trust a parent: only the parent's own document proves that the parent exists.

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
    """Check that a document belongs to the requested authorization server.

    Args:
        metadata: The document.
        expected: The issuer from which the URL of the document was built, exactly as received.

    Raises:
        IssuerMismatch: The issuers differ, even by a single octet.
    """
    if metadata.issuer != expected:
        sentence = f"the metadata has the issuer {metadata.issuer[:200]!a}; expected: {expected[:200]!a}"
        raise IssuerMismatch(sentence, expected=expected, received=metadata.issuer)


def check_issuer_url(issuer: str, *, networks: frozenset[AddressClass]) -> Url:
    """Check an issuer that a peer named.

    Raises:
        UnsafeUrl: The client must not send requests to the issuer, or it has a query (RFC 8414 section 2).
    """
    url = check_peer_url(issuer, what="issuer", networks=networks)
    if url.query is not None:
        raise UnsafeUrl(issuer, "it has a query", what="issuer")
    return url


def check_pkce(metadata: AuthorizationServerMetadata) -> None:
    """Check that an authorization server supports PKCE with S256.

    Raises:
        DiscoveryFailed: The metadata does not list S256.

    Spec: basic/authorization#authorization-code-protection
    """
    methods = metadata.code_challenge_methods_supported
    if methods is None or METHOD not in methods:
        said = "has no" if methods is None else f"lists only {', '.join(methods)[:200]!a} as"
        raise DiscoveryFailed(
            f"the metadata of {metadata.issuer} {said} code_challenge_methods_supported: without PKCE by {METHOD} "
            "the client does not request an authorization code"
        )
