"""Authorization servers that accept the URL of a Client ID Metadata Document as a client id."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.authorization_servers.endpoints import NEED, ask
from mcp_conformance.checks.auth.authorization_servers.login_attempts import (
    authorization_request,
    login_of,
    metadata_of,
)
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.oauth_testbed.user_login import RedirectMissing

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonValue

_HTTP: Final = (Transport.HTTP,)
_NEEDS: Final = (NEED,)


async def _gets_code(server: ServerUnderTest, document: bytes | None = None, **changes: JsonValue) -> bool:
    """Log in with a new document, and return whether the client gets a code.

    Args:
        server: The authorization server.
        document: The whole document; `None`: a valid document except for the changes.
        changes: Members with other values; `None` omits a member.

    Raises:
        NotApplicable: The authorization server does not support documents, or trusts no host of the suite.
    """
    login, party = login_of(server), server.settings.party
    if party is None:
        raise NotApplicable("the authorization server trusts no party of the suite: see --https-cert")
    if (await metadata_of(server)).get("client_id_metadata_document_supported") is not True:
        raise NotApplicable("the authorization server does not support Client ID Metadata Documents")
    if login.lost is not None:
        raise NotTestable(login.lost)
    path = f"/clients/{secrets.token_hex(8)}.json"
    members: dict[str, JsonValue] = {
        "client_id": f"{party.url}{path}",
        "client_name": "mcp-conformance",
        "redirect_uris": [login.redirect_uri],
        "grant_types": ["authorization_code"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        **changes,
    }
    whole = json.dumps({name: value for name, value in members.items() if value is not None}).encode()
    party.documents[path] = whole if document is None else document
    url, attempt = await authorization_request(server, f"{party.url}{path}")
    # A rejection may be shown to the user, so that the browser would not return.
    if (await ask(server, "GET", url, (("Accept", "text/html"),))).status >= 400:
        return False
    try:
        return "code" in await login.visit(url, attempt.state)
    except RedirectMissing:
        return False


async def _require_documents(server: ServerUnderTest) -> None:
    """Require that a client with a valid document gets a code.

    Raises:
        NotTestable: It gets none.
    """
    if not await _gets_code(server):
        raise NotTestable("the control request failed: a client with a valid document gets no code")


@check(
    "auth.as-document-fetched",
    proves=("auth.cimd-as-fetch", "auth.cimd-as-fetches"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def document_fetched(server: ServerUnderTest) -> None:
    """The document of a client whose id is a URL is fetched."""
    await _require_documents(server)
    party = server.settings.party
    if party is not None and not party.documents.keys() & set(party.fetched):
        raise Deviation("a request for the document of the client", "no request")


@check(
    "auth.as-document-id",
    proves=("auth.cimd-as-validate-client-id", "auth.cimd-as-validates-id"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def document_id(server: ServerUnderTest) -> None:
    """A client gets no code if the client_id in its document is not exactly the URL of the document."""
    await _require_documents(server)
    if await _gets_code(server, client_id="https://localhost/other.json"):
        raise Deviation("no code for a document with another client_id", "a code")


@check(
    "auth.as-document-redirect",
    proves=("auth.cimd-as-validate-redirect", "auth.cimd-as-validates-redirect"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def document_redirect(server: ServerUnderTest) -> None:
    """A client gets no code at a redirect URI that its document does not list."""
    await _require_documents(server)
    other = login_of(server).redirect_uri + "-of-another-page"
    if await _gets_code(server, redirect_uris=[other]):
        raise Deviation("no code at a redirect URI that is not in the document", "a code")


@check(
    "auth.as-document-structure",
    proves=("auth.cimd-as-validate-document", "auth.cimd-as-validates-structure"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def document_structure(server: ServerUnderTest) -> None:
    """A client gets no code if its document is not JSON, or lacks a required member."""
    await _require_documents(server)
    if await _gets_code(server, b"<!doctype html><title>not JSON</title>"):
        raise Deviation("no code for a document that is not JSON", "a code")
    for member in ("redirect_uris", "client_name"):
        if await _gets_code(server, **{member: None}):
            raise Deviation(f"no code for a document without {member}", "a code")
