"""The types of the members of metadata documents: of authorization servers (RFC 8414) and protected resources (RFC 9728)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["flaw_of_metadata"]

_FLAGS: Final = frozenset(
    {
        "authorization_response_iss_parameter_supported",
        "client_id_metadata_document_supported",
        "dpop_bound_access_tokens_required",
        "require_pushed_authorization_requests",
        "require_signed_request_object",
        "tls_client_certificate_bound_access_tokens",
    }
)
"""Members that are true or false."""
_LISTS: Final = frozenset(
    {
        "authorization_details_types_supported",
        "bearer_methods_supported",
        "code_challenge_methods_supported",
        "dpop_signing_alg_values_supported",
        "grant_types_supported",
        "id_token_signing_alg_values_supported",
        "introspection_endpoint_auth_methods_supported",
        "protected_resources",
        "resource_signing_alg_values_supported",
        "response_modes_supported",
        "response_types_supported",
        "revocation_endpoint_auth_methods_supported",
        "scopes_supported",
        "subject_types_supported",
        "token_endpoint_auth_methods_supported",
        "token_endpoint_auth_signing_alg_values_supported",
        "ui_locales_supported",
    }
)
"""Members that are lists of strings."""
_TEXTS: Final = frozenset(
    {
        "authorization_endpoint",
        "introspection_endpoint",
        "issuer",
        "jwks_uri",
        "op_policy_uri",
        "op_tos_uri",
        "registration_endpoint",
        "resource_documentation",
        "resource_name",
        "resource_policy_uri",
        "resource_tos_uri",
        "revocation_endpoint",
        "service_documentation",
        "token_endpoint",
        "userinfo_endpoint",
    }
)
"""Members that are strings."""
_EMPTY: Final = "bearer_methods_supported"
"""The only list that may be empty, which says that no method is supported (RFC 9728, section 2)."""


def flaw_of_metadata(document: JsonObject) -> str | None:
    """Return which member of a metadata document has a wrong type, with its value; `None` if all are right.

    Other members are omitted instead of null, and lists without elements too (RFC 8414, section 3.2, and RFC 9728, section
    3.2). Members that are unknown here may have any value.
    """
    wrong = (
        name
        for name, value in document.items()
        if (name in _FLAGS and not isinstance(value, bool))
        or (name in _TEXTS and not (isinstance(value, str) and value))
        or (name in _LISTS and not _is_list(value, empty=name == _EMPTY))
    )
    return next((f"{name} {brief(document[name])}" for name in wrong), None)


def _is_list(value: JsonValue, *, empty: bool) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value) and (empty or bool(value))
