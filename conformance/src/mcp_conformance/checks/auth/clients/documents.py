"""The Client ID Metadata Document that the author of a client hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.clients.violations import run_in
from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.oauth_testbed.http_messages import json_object, single
from mcp_conformance.oauth_testbed.registered_clients import redirect_matches
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_SCENARIO: Final = "auth/basic-cimd"
_NEEDS: Final = (f"scenario:{_SCENARIO}",)
_HTTP: Final = (Transport.HTTP,)


def _document(client: ClientUnderTest) -> JsonObject:
    """Return the document of the client.

    Raises:
        NotApplicable: The suite does not know it.
        Deviation: It is not a JSON object.
    """
    text = client.settings.client_document
    if text is None:
        raise NotApplicable("the document of the client is not known: see --client-document")
    document = json_object(text)
    if document is None:
        raise Deviation("a document that is a JSON object", repr(text[:80]))
    return document


@check(
    "auth.client-document-members",
    proves=("auth.cimd-required-members", "auth.cimd-document-fields"),
    needs=_NEEDS,
    transports=_HTTP,
)
async def document_members(client: ClientUnderTest) -> None:
    """The document of a client has client_id, client_name and redirect_uris."""
    document = _document(client)
    for name in ("client_id", "client_name"):
        if not isinstance(document.get(name), str) or not document[name]:
            raise Deviation(f"{name}, a string", brief(document))
    listed = document.get("redirect_uris")
    if not isinstance(listed, list) or not listed or not all(isinstance(each, str) for each in listed):
        raise Deviation("redirect_uris, a list of strings", brief(document))


@check(
    "auth.client-document-id",
    proves=("auth.cimd-client-id-matches", "auth.cimd-document-client-id"),
    needs=_NEEDS,
    transports=_HTTP,
)
async def document_id(client: ClientUnderTest) -> None:
    """The client_id in the document of a client is exactly the URL that the client uses as its id."""
    document = _document(client)
    sent = {single(each.query).get("client_id", "") for each in run_in(client, _SCENARIO).authorizations}
    urls = sorted(each for each in sent if "://" in each)
    if not urls:
        raise NotTestable("the client uses no URL as its id")
    if document.get("client_id") != urls[0]:
        raise Deviation(f"client_id {urls[0]}", brief(document.get("client_id")))


@check(
    "auth.client-document-redirects",
    proves=("auth.redirect-uris-registered", "auth.redirect-registered"),
    needs=_NEEDS,
    transports=_HTTP,
)
async def document_redirects(client: ClientUnderTest) -> None:
    """The redirect URI of an authorization request is in the document that is the client id."""
    listed = _document(client).get("redirect_uris")
    uris = [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
    requests = [single(each.query) for each in run_in(client, _SCENARIO).authorizations]
    used = [each.get("redirect_uri", "") for each in requests if "://" in each.get("client_id", "")]
    if not used:
        raise NotTestable("the client uses no URL as its id")
    for uri in used:
        if not any(redirect_matches(each, uri) for each in uris):
            raise Deviation(f"one of {', '.join(uris) or 'no redirect URIs'}", uri)
