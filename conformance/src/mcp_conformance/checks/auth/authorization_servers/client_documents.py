"""The Client ID Metadata Documents that the suite publishes for its clients."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

from mcp_conformance.checks.auth.authorization_servers.endpoints import issuer_of
from mcp_conformance.model.verdict import NotApplicable
from mcp_conformance.oauth_testbed.changed_members import changed

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.oauth_testbed.changed_members import Changes
    from mcp_conformance.oauth_testbed.trusted_party import TrustedParty
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["document_with", "party_of", "publish", "written"]


def party_of(server: ServerUnderTest) -> TrustedParty:
    """Return the party of the suite. Raise `NotApplicable` if the authorization server trusts none."""
    issuer_of(server)
    if server.settings.party is None:
        raise NotApplicable("the authorization server trusts no party of the suite: see --https-cert")
    return server.settings.party


def written(value: JsonValue) -> bytes:
    """Return a document with a JSON value."""
    return json.dumps(value).encode()


def document_with(changes: Changes) -> Callable[[JsonObject], bytes]:
    """Return a function that makes a document from a valid one with changes."""
    return lambda valid: written(changed(valid, changes))


def publish(
    party: TrustedParty,
    redirect_uri: str,
    make: Callable[[JsonObject], bytes],
    *,
    secure: bool = True,
    missing: bool = False,
) -> str:
    """Publish the document of a client at a new URL.

    Args:
        party: The host of the document.
        redirect_uri: The redirect URI of the client.
        make: Makes the document from a valid one.
        secure: Whether the URL has https.
        missing: Whether the document is sent with the status 404.

    Returns:
        The URL, which is the client id.
    """
    path = f"/clients/{secrets.token_hex(8)}.json"
    url = f"{party.url if secure else party.plain_url}{path}"
    valid: JsonObject = {
        "client_id": url,
        "client_name": "mcp-conformance",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    party.documents[path] = make(valid)
    if missing:
        party.missing.add(path)
    return url
