"""The metadata document of the authorization server, and its paths.

Spec: RFC 8414; OpenID Connect Discovery 1.0 section 4
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.oauth.metadata import AuthorizationServerMetadata
from mcp_core.oauth.records import AuthMethod
from mcp_core.oauth.signatures import VERIFIED_ALGORITHMS
from mcp_server.auth.authorization_server.clients.registration import DynamicRegistration
from mcp_server.auth.authorization_server.model.client import GRANT_TYPES
from mcp_server.auth.authorization_server.protocol.keys import ALGORITHM

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_server.auth.authorization_server.clients.registration import RegistrationPolicy
    from mcp_server.auth.authorization_server.model.settings import Settings

__all__ = ["metadata", "metadata_paths"]

_NAMES: Final = ("oauth-authorization-server", "openid-configuration")


def metadata_paths(prefix: str) -> tuple[str, ...]:
    """Return the paths of the metadata: under both names and, for an issuer with a path, also appended to that path.

    Spec: RFC 8414 sections 3.1 and 5, basic/authorization#authorization-server-metadata-discovery
    """
    inserted = tuple(f"/.well-known/{name}{prefix}" for name in _NAMES)
    appended = tuple(f"{prefix}/.well-known/{name}" for name in _NAMES)
    return tuple(dict.fromkeys((*inserted, *appended)))


def metadata(settings: Settings, policy: RegistrationPolicy) -> JsonObject:
    """Return the metadata document."""
    registers = policy.dynamic is not DynamicRegistration.OFF
    document = AuthorizationServerMetadata(
        issuer=settings.issuer,
        authorization_endpoint=settings.endpoint("/authorize"),
        token_endpoint=settings.endpoint("/token"),
        registration_endpoint=settings.endpoint("/register") if registers else None,
        revocation_endpoint=settings.endpoint("/revoke"),
        introspection_endpoint=settings.endpoint("/introspect"),
        jwks_uri=settings.endpoint("/jwks"),
        scopes_supported=tuple(settings.scopes) or None,
        response_types_supported=("code",),
        response_modes_supported=("query",),
        grant_types_supported=GRANT_TYPES,
        # OpenID Connect requires these members, although the server issues no ID tokens.
        subject_types_supported=("public",),
        id_token_signing_alg_values_supported=(ALGORITHM,),
        token_endpoint_auth_methods_supported=tuple(method.value for method in AuthMethod),
        token_endpoint_auth_signing_alg_values_supported=VERIFIED_ALGORITHMS,
        code_challenge_methods_supported=("S256",),
        authorization_response_iss_parameter_supported=True,
        client_id_metadata_document_supported=policy.metadata_documents,
        dpop_signing_alg_values_supported=VERIFIED_ALGORITHMS,
    ).to_json()
    confidential: list[str] = [method.value for method in AuthMethod if method is not AuthMethod.NONE]
    return {
        **document,
        "protected_resources": list(settings.resources),
        "revocation_endpoint_auth_methods_supported": [method.value for method in AuthMethod],
        "introspection_endpoint_auth_methods_supported": [*confidential],
    }
