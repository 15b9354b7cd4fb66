"""Authorization servers that accept the URL of a Client ID Metadata Document as a client id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.authorization_servers.client_documents import (
    document_with,
    party_of,
    publish,
    written,
)
from mcp_conformance.checks.auth.authorization_servers.endpoints import NEED, known_documents
from mcp_conformance.checks.auth.authorization_servers.login_attempts import (
    authorization_request,
    authorization_response,
    login_of,
    metadata_of,
)
from mcp_conformance.checks.auth.authorization_servers.redirects import ELSEWHERE, near_misses, open_attempts
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.oauth_testbed.changed_members import OMITTED
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_HTTP: Final = (Transport.HTTP,)
_NEEDS: Final = (NEED,)
_VALID: Final = "a valid document"


def _named(change: Callable[[str], JsonValue]) -> Callable[[JsonObject], bytes]:
    """Return a function that changes the client_id of a document."""
    return lambda valid: written({**valid, "client_id": change(str(valid["client_id"]))})


_IDS: Final[Mapping[str, Callable[[JsonObject], bytes]]] = {
    "a document with another client_id": document_with({"client_id": "https://localhost/other.json"}),
    "a document whose client_id is the beginning of its URL": _named(lambda url: url.rpartition("/")[0] + "/"),
    "a document whose client_id has an additional query": _named(lambda url: f"{url}?more=1"),
    "a document whose client_id differs in case": _named(lambda url: url.replace("/clients/", "/Clients/")),
    "a document whose client_id is a list": _named(lambda url: [url]),
}
"""Documents whose `client_id` is not their URL."""

_REPEATED: Final = next(iter(_IDS))
"""The document with which a client tries twice: it may be kept before it is validated."""
_UNLISTED: Final = "a document with another redirect URI"

_STRUCTURES: Final[Mapping[str, Callable[[JsonObject], bytes]]] = {
    "a document that is not JSON": lambda _: b"<!doctype html><title>not JSON</title>",
    "a document that ends after its beginning": lambda valid: written(valid)[:-1],
    "a document that is an array": lambda valid: written([valid]),
    "a document without redirect_uris": document_with({"redirect_uris": OMITTED}),
    "a document whose redirect_uris are null": document_with({"redirect_uris": None}),
    "a document whose redirect_uris are empty": document_with({"redirect_uris": []}),
    "a document whose only redirect URI is null": document_with({"redirect_uris": [None]}),
    "a document without client_name": document_with({"client_name": OMITTED}),
    "a document whose client_name is null": document_with({"client_name": None}),
    "a document without client_id": document_with({"client_id": OMITTED}),
    "a document whose client_id is null": document_with({"client_id": None}),
    "a document whose redirect_uris are a string": lambda valid: written(
        {**valid, "redirect_uris": _first(valid["redirect_uris"])}
    ),
    "a document whose redirect_uris are an object": lambda valid: written(
        {**valid, "redirect_uris": {str(_first(valid["redirect_uris"])): True}}
    ),
}
"""Documents that are not a JSON object with the required members."""


def _first(value: JsonValue) -> JsonValue:
    return value[0] if isinstance(value, list) else None


_UNKNOWN: Final = "a document with members that no specification defines"

_DOCUMENTS: Final[Mapping[str, Callable[[JsonObject], bytes]]] = {
    _VALID: document_with({}),
    _UNKNOWN: document_with({"example_parameter": {"of": [None, 1.5]}, "example_uri": "https://client.example/about"}),
    **_IDS,
    _UNLISTED: lambda valid: written({**valid, "redirect_uris": [f"{_first(valid['redirect_uris'])}-of-another-page"]}),
    **_STRUCTURES,
}
"""All documents, by description."""


_NOT_SECURE: Final = "a document at a URL without https"
_MISSING: Final = "a document that is sent with the status 404"


def _published(server: ServerUnderTest, name: str) -> str:
    """Publish a document at a new URL, and return the URL."""
    make = _DOCUMENTS.get(name, _DOCUMENTS[_VALID])
    uri = login_of(server).redirect_uri
    return publish(party_of(server), uri, make, secure=name != _NOT_SECURE, missing=name == _MISSING)


async def _gets_code(server: ServerUnderTest, name: str) -> bool:
    """Log in with a document, once in a run or twice in succession, and return whether the client gets a code."""
    login = login_of(server)
    if login.lost is not None:
        raise NotTestable(login.lost)
    if name not in login.codes:
        client_id = _published(server, name)
        for _ in range(2 if name == _REPEATED else 1):
            url, attempt = await authorization_request(server, client_id)
            login.codes[name] = "code" in (await authorization_response(server, url, attempt)).fields
    return login.codes[name]


async def _require_documents(server: ServerUnderTest) -> None:
    """Require that a client with a valid document gets a code.

    Raises:
        NotApplicable: The authorization server does not support documents, or trusts no host of the suite.
        NotTestable: The client gets no code.
    """
    login_of(server)
    party_of(server)
    if (await metadata_of(server)).get("client_id_metadata_document_supported") is not True:
        raise NotApplicable("the authorization server does not support Client ID Metadata Documents")
    if not await _gets_code(server, _VALID):
        raise NotTestable("the control request failed: a client with a valid document gets no code")


@check(
    "auth.as-documents",
    proves=("auth.cimd-server", "auth.cimd-should", "auth.cimd-advertised"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def documents_advertised(server: ServerUnderTest) -> None:
    """An authorization server that supports Client ID Metadata Documents advertises them in its metadata."""
    name = "client_id_metadata_document_supported"
    values = [document.get(name) for document in await known_documents(server)]
    for value in values:
        if value is not None and not isinstance(value, bool):
            raise Deviation(f"{name} true or false", brief(value))
    if all(value is True for value in values):
        return
    if True not in values and not await _gets_code(server, _VALID):
        raise NotApplicable("the authorization server does not support Client ID Metadata Documents")
    raise Deviation(f"{name} true in each document", brief(values))


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
    party = party_of(server)
    if not party.documents.keys() & set(party.fetched):
        raise Deviation("a request for the document of the client", "no request")


@check(
    "auth.as-document-members",
    proves=("auth.cimd-conform", "auth.cimd-follow-draft"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def document_members(server: ServerUnderTest) -> None:
    """A client gets a code although its document has unknown members, which are ignored (RFC 7591, section 2)."""
    await _require_documents(server)
    if not await _gets_code(server, _UNKNOWN):
        raise Deviation(f"a code for {_UNKNOWN}", "no code")


@check(
    "auth.as-document-url",
    proves=("auth.cimd-conform", "auth.cimd-follow-draft"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def document_url(server: ServerUnderTest) -> None:
    """A client gets no code if the URL of its document has no https, or returns an error with the document."""
    await _require_documents(server)
    for name in (_NOT_SECURE, _MISSING):
        if await _gets_code(server, name):
            raise Deviation(f"no code for {name}", "a code")


@check(
    "auth.as-document-id",
    proves=("auth.cimd-as-validate-client-id", "auth.cimd-as-validates-id"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def document_id(server: ServerUnderTest) -> None:
    """A client gets no code if the client_id in its document is not exactly the URL of the document, also when it tries again."""
    await _require_documents(server)
    for name in _IDS:
        if await _gets_code(server, name):
            raise Deviation(f"no code for {name}", "a code")


@check(
    "auth.as-document-redirect",
    proves=("auth.cimd-as-validate-redirect", "auth.cimd-as-validates-redirect"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def document_redirect(server: ServerUnderTest) -> None:
    """A client gets no code at a redirect URI that its document does not list, also not at its own host."""
    await _require_documents(server)
    if await _gets_code(server, _UNLISTED):
        raise Deviation("no code at a redirect URI that is not in the document", "a code")
    registered = login_of(server).redirect_uri
    attempts = await open_attempts(server, _published(server, _VALID), registered)
    unlisted = (f"{party_of(server).url}/unlisted", ELSEWHERE, *near_misses(registered))
    await attempts.require_rejections(*({"redirect_uri": uri} for uri in unlisted), *attempts.repetitions(ELSEWHERE))


@check(
    "auth.as-document-structure",
    proves=("auth.cimd-as-validate-document", "auth.cimd-as-validates-structure"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def document_structure(server: ServerUnderTest) -> None:
    """A client gets no code if its document is not a JSON object with the required members."""
    await _require_documents(server)
    for name in _STRUCTURES:
        if await _gets_code(server, name):
            raise Deviation(f"no code for {name}", "a code")
