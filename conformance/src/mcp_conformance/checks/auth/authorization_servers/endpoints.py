"""Authorization servers without a login: metadata, registration, redirection."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.suite_connection import within
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.oauth_testbed.http_messages import json_object, origin_of
from mcp_conformance.oauth_testbed.metadata_types import flaw_of_metadata
from mcp_conformance.oauth_testbed.quirks import Well
from mcp_conformance.oauth_testbed.registered_clients import is_loopback
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.http_client import Endpoint, IncompleteResponse
from mcp_conformance.wire.transcript import Transcript

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["NEED", "REDIRECT", "ask", "issuer_of", "known_documents", "known_metadata", "register", "with_proofs"]

NEED: Final = "authorization-server"
"""The need of these checks."""

_HTTP: Final = (Transport.HTTP,)
_FORM: Final = (("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json"))
_OPENID: Final = (Well.OPENID_INSERTED, Well.OPENID_APPENDED)
_PLAIN: Final = "http://client.example/callback"
"""A redirect URI to which a code would be sent without TLS."""
_WITH_FRAGMENT: Final = "https://client.example/callback#fragment"
"""A redirect URI with a fragment."""
REDIRECT: Final = "http://127.0.0.1:49152/callback"
"""The redirect URI of a client in a run without login."""


async def ask(
    server: ServerUnderTest, method: str, url: str, headers: tuple[tuple[str, str], ...] = (), body: bytes | None = None
) -> HttpResponse:
    """Send a request to the authorization server. Raise `Deviation` when there is no response."""
    what = f"a response to {method} {url.partition('?')[0]}"
    try:
        async with (
            within(server.settings.timeout, what),
            Endpoint(url).exchange(Transcript(), method, headers, body) as exchange,
        ):
            return await exchange.answer()
    except (IncompleteResponse, ValueError) as ended:
        raise Deviation(what, str(ended)) from ended
    raise AssertionError("the block ends by one of them")


def issuer_of(server: ServerUnderTest) -> str:
    """Return the issuer of the authorization server under test. Raise `NotApplicable` in other runs."""
    issuer = server.settings.authorization_server
    if issuer is None:
        raise NotApplicable("no authorization server is tested: see the command authorization-server")
    return issuer


async def _fetched(server: ServerUnderTest) -> dict[Well, HttpResponse]:
    """Return the responses with a metadata document by location."""
    issuer = issuer_of(server)
    found: dict[Well, HttpResponse] = {}
    for well in (Well.OAUTH, *_OPENID):
        answer = await ask(server, "GET", well.url(issuer), (("Accept", "application/json"),))
        if answer.status == 200 and json_object(answer.body) is not None:
            found[well] = answer
    return found


async def _documents(server: ServerUnderTest) -> dict[Well, JsonObject]:
    """Return the metadata documents by location."""
    return {well: json_object(answer.body) or {} for well, answer in (await _fetched(server)).items()}


async def known_documents(server: ServerUnderTest) -> tuple[JsonObject, ...]:
    """Return the metadata from each location. Raise `NotTestable` if they are missing everywhere."""
    found = await _documents(server)
    if not found:
        raise NotTestable("the authorization server has no metadata")
    return tuple(found.values())


async def known_metadata(server: ServerUnderTest) -> JsonObject:
    """Return the metadata from any location. Raise `NotTestable` if they are missing."""
    return (await known_documents(server))[0]


def _right(answer: HttpResponse, issuer: str, what: str) -> None:
    document = json_object(answer.body) or {}
    if document.get("issuer") != issuer:
        raise Deviation(f"issuer {issuer!a} in the {what}", brief(document.get("issuer")))
    _require_endpoints(document, what)
    # RFC 8414, sections 2 and 3.2.
    if not _listed(document, "response_types_supported"):
        raise Deviation(f"response_types_supported in the {what}", brief(document.get("response_types_supported")))
    if (flaw := flaw_of_metadata(document)) is not None:
        raise Deviation(f"members with the types of RFC 8414 in the {what}", flaw)
    if answer.media_type != "application/json":
        raise Deviation(f"application/json for the {what}", answer.media_type or "no type")


def _require_endpoints(document: JsonObject, what: str) -> None:
    """Require the endpoints that each server with authorization codes has."""
    by_code = "authorization_code" in (_listed(document, "grant_types_supported") or ["authorization_code"])
    for name in ("token_endpoint", *(("authorization_endpoint",) if by_code else ())):
        if not isinstance(document.get(name), str):
            raise Deviation(f"{name} in the {what}", brief(document.get(name)))


async def _require_after_error(server: ServerUnderTest, well: Well, before: HttpResponse) -> None:
    """Require that a document is still there after a token request that had to be rejected.

    Args:
        server: The authorization server.
        well: The location of the document.
        before: The response with the document.

    Raises:
        Deviation: The document is not there any more.
    """
    endpoint = str((json_object(before.body) or {})["token_endpoint"])
    form = urlencode({"grant_type": "authorization_code", "code": "no-such-code", "redirect_uri": REDIRECT})
    try:
        await ask(server, "POST", endpoint, _FORM, form.encode())
    except Deviation:
        # Other checks cover an endpoint that does not respond.
        return
    url = well.url(issuer_of(server))
    after = await ask(server, "GET", url, (("Accept", "application/json"),))
    # A server may limit the number of requests.
    if after.status != 429 and (after.status != 200 or json_object(after.body) is None):
        raise Deviation(f"a document at {url} after a token request with an unknown code", f"HTTP {after.status}")


@check(
    "auth.as-metadata-oauth", proves=("auth.as-rfc8414",), needs=(NEED,), transports=_HTTP, subject=CheckScope.PROCESS
)
async def metadata_oauth(server: ServerUnderTest) -> None:
    """The authorization server has RFC 8414 metadata, with the required members, also after an error."""
    answer = (await _fetched(server)).get(Well.OAUTH)
    if answer is None:
        raise Deviation("a document", f"no document at {Well.OAUTH.url(issuer_of(server))}")
    _right(answer, issuer_of(server), "metadata")
    await _require_after_error(server, Well.OAUTH, answer)


@check(
    "auth.as-metadata", proves=("auth.as-metadata-one-of",), needs=(NEED,), transports=_HTTP, subject=CheckScope.PROCESS
)
async def metadata(server: ServerUnderTest) -> None:
    """The authorization server has metadata of RFC 8414 or of OpenID Connect, with the required members, also after an error."""
    found = await _fetched(server)
    if not found:
        raise Deviation("metadata at one of the well-known URIs", "no metadata")
    for well, answer in found.items():
        _right(answer, issuer_of(server), f"document at {well.url(issuer_of(server))}")
    await _require_after_error(server, *next(iter(found.items())))


@check(
    "auth.as-metadata-at-root",
    proves=("auth.server-rfc8414", "auth.metadata-at-root"),
    needs=(NEED,),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def metadata_at_root(server: ServerUnderTest) -> None:
    """A server that is its own authorization server has the metadata at the root of its host."""
    base = origin_of(issuer_of(server))
    answer = await ask(server, "GET", Well.OAUTH.url(base), (("Accept", "application/json"),))
    document = json_object(answer.body) if answer.status == 200 else None
    if document is None:
        raise Deviation(f"metadata at {Well.OAUTH.url(base)}", f"HTTP {answer.status}")
    _require_endpoints(document, "metadata")


@check(
    "auth.as-default-endpoints",
    proves=("auth.server-default-endpoints",),
    needs=(NEED,),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def default_endpoints(server: ServerUnderTest) -> None:
    """A server that is its own authorization server, without metadata, has the default endpoints."""
    if await _documents(server):
        raise NotApplicable("the authorization server has metadata")
    base = origin_of(issuer_of(server))
    for method, path in (("GET", "/authorize"), ("POST", "/token"), ("POST", "/register")):
        answer = await ask(server, method, base + path, body=None if method == "GET" else b"")
        if answer.status == 404:
            raise Deviation(f"an endpoint at {path}", "HTTP 404")


@check(
    "auth.as-openid-pkce",
    proves=("auth.oidc-code-challenge-methods", "auth.pkce-as-oidc-advertises"),
    needs=(NEED,),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def openid_pkce(server: ServerUnderTest) -> None:
    """OpenID Connect metadata list the PKCE methods."""
    found = await _documents(server)
    documents = [found[well] for well in _OPENID if well in found]
    if not documents:
        raise NotApplicable("the authorization server has no OpenID Connect metadata")
    for document in documents:
        methods = document.get("code_challenge_methods_supported")
        if not isinstance(methods, list) or "S256" not in methods:
            raise Deviation("code_challenge_methods_supported with S256", brief(methods))


@check(
    "auth.as-pkce-advertised",
    proves=("auth.http-conform", "auth.http-should-conform"),
    needs=(NEED,),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def pkce_advertised(server: ServerUnderTest) -> None:
    """RFC 8414 metadata list the PKCE method S256, without which clients must not proceed."""
    document = (await _documents(server)).get(Well.OAUTH)
    if document is None:
        raise NotApplicable("the authorization server has no RFC 8414 metadata")
    if "S256" not in _listed(document, "code_challenge_methods_supported"):
        value = document.get("code_challenge_methods_supported")
        raise Deviation("code_challenge_methods_supported with S256", brief(value))


@check(
    "auth.as-endpoints-https",
    proves=("auth.https-endpoints", "auth.as-https"),
    needs=(NEED,),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def endpoints_https(server: ServerUnderTest) -> None:
    """All endpoints use https."""
    is_local = is_loopback(issuer_of(server))
    for document in await known_documents(server):
        for name, value in document.items():
            if not name.endswith("_endpoint") and name != "jwks_uri":
                continue
            if not str(value).startswith("https://") and not (is_local and is_loopback(str(value))):
                raise Deviation(f"{name} with https", brief(value))
    if is_local:
        raise NotApplicable("the authorization server runs on this machine, for development")


@check("auth.as-registers", proves=("auth.dcr-server",), needs=(NEED,), transports=_HTTP, subject=CheckScope.PROCESS)
async def registers(server: ServerUnderTest) -> None:
    """Clients can register dynamically, with the responses of RFC 7591."""
    endpoint = (await known_metadata(server)).get("registration_endpoint")
    if not isinstance(endpoint, str):
        raise Deviation("a registration_endpoint in the metadata", "no registration_endpoint")
    answer = await _registration(server, endpoint, REDIRECT)
    found = json_object(answer.body) or {}
    if answer.status != 201 or answer.media_type != "application/json":
        raise Deviation(
            "HTTP 201 with application/json for a registration", f"HTTP {answer.status}, {answer.media_type}"
        )
    if REDIRECT not in _listed(found, "redirect_uris"):
        raise Deviation("the redirect_uris of the client in the response", brief(found.get("redirect_uris")))
    expiry = found.get("client_secret_expires_at")
    if "client_secret" in found and (not isinstance(expiry, int) or isinstance(expiry, bool)):
        raise Deviation("client_secret_expires_at beside a client_secret", brief(expiry))
    broken = await ask(server, "POST", endpoint, (("Content-Type", "application/json"),), b'{"redirect_uris": [')
    if broken.status not in (400, 429):
        raise Deviation("HTTP 400 for a registration that is not JSON", f"HTTP {broken.status}")


@check(
    "auth.as-redirect-safe",
    # The specification has this rule for clients.
    proves=("auth.http-conform", "auth.http-should-conform"),
    needs=(NEED,),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def redirect_safe(server: ServerUnderTest) -> None:
    """No client can register a redirect URI that is neither https nor at a loopback address, or that has a fragment."""
    endpoint = (await known_metadata(server)).get("registration_endpoint")
    if not isinstance(endpoint, str):
        raise NotApplicable("clients cannot register dynamically")
    # OAuth 2.1, sections 1.5 and 2.3.
    for uri in (_PLAIN, _WITH_FRAGMENT):
        answer = await _registering(server, endpoint, uri, application_type="web")
        if answer.status == 429 or answer.status >= 500:
            raise NotTestable(f"a registration gets HTTP {answer.status}")
        # An authorization server may replace metadata of the client (RFC 7591, section 3.2.1).
        if answer.status < 300 and uri in _listed(json_object(answer.body) or {}, "redirect_uris"):
            raise Deviation(
                f"a rejection of the redirect URI {uri}", f"HTTP {answer.status} for a registration with it"
            )


@check(
    "auth.as-documents-supported",
    proves=("auth.cimd-server", "auth.cimd-should"),
    needs=(NEED,),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def documents(server: ServerUnderTest) -> None:
    """Client ID Metadata Documents are supported, as the metadata advertise."""
    value = (await known_metadata(server)).get("client_id_metadata_document_supported")
    if value is not True:
        raise Deviation("client_id_metadata_document_supported true", brief(value))


async def register(server: ServerUnderTest, redirect_uri: str = REDIRECT, *, application_type: str = "native") -> str:
    """Register a client and return its id. Raise `NotApplicable` without registration, `Deviation` when it fails."""
    endpoint = (await known_metadata(server)).get("registration_endpoint")
    if not isinstance(endpoint, str):
        raise NotApplicable("clients cannot register dynamically")
    answer = await _registration(server, endpoint, redirect_uri, application_type=application_type)
    id: JsonValue = (json_object(answer.body) or {})["client_id"]
    return str(id)


async def _registration(
    server: ServerUnderTest, endpoint: str, redirect_uri: str, *, application_type: str = "native"
) -> HttpResponse:
    """Register a client, and return the response. Raise `Deviation` when it fails."""
    answer = await _registering(server, endpoint, redirect_uri, application_type=application_type)
    id = (json_object(answer.body) or {}).get("client_id")
    if answer.status not in (200, 201) or not isinstance(id, str):
        raise Deviation("a client id for a registration", f"HTTP {answer.status}, {answer.body[:120]!r}")
    return answer


async def _registering(
    server: ServerUnderTest, endpoint: str, redirect_uri: str, *, application_type: str
) -> HttpResponse:
    """Send the registration of a client, or return the response to an earlier one."""
    known = server.settings.registrations
    if (redirect_uri, application_type) in known:
        return known[redirect_uri, application_type]
    document: JsonObject = {
        "client_name": "mcp-conformance",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": application_type,
    }
    typed = (("Content-Type", "application/json"),)
    answer = await ask(server, "POST", endpoint, typed, json.dumps(document).encode())
    if answer.status < 500 and answer.status != 429:
        known[redirect_uri, application_type] = answer
    return answer


# --- extensions -----------------------------------------------------------------------------------------------------------


def _listed(document: JsonObject, name: str) -> list[JsonValue]:
    value = document.get(name)
    return value if isinstance(value, list) else []


async def with_proofs(server: ServerUnderTest) -> tuple[JsonObject, ...]:
    """Return the metadata of an authorization server that supports DPoP. Raise `NotApplicable` if it does not."""
    found = [each for each in await known_documents(server) if "dpop_signing_alg_values_supported" in each]
    if not found:
        raise NotApplicable("the authorization server does not support DPoP")
    return tuple(found)


@check(
    "dpop.as-algorithms", proves=("dpop.as-alg-values",), needs=(NEED,), transports=_HTTP, subject=CheckScope.PROCESS
)
async def proof_algorithms(server: ServerUnderTest) -> None:
    """The metadata list the algorithms of DPoP proofs."""
    for document in await with_proofs(server):
        value = document.get("dpop_signing_alg_values_supported")
        if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
            raise Deviation("dpop_signing_alg_values_supported to be a list of algorithms", brief(value))


@check("dpop.as-asymmetric", proves=("dpop.as-no-none",), needs=(NEED,), transports=_HTTP, subject=CheckScope.PROCESS)
async def proofs_asymmetric(server: ServerUnderTest) -> None:
    """All algorithms of DPoP proofs are asymmetric."""
    for document in await with_proofs(server):
        for each in _listed(document, "dpop_signing_alg_values_supported"):
            if str(each).lower() == "none" or str(each).upper().startswith("HS"):
                raise Deviation("asymmetric algorithms only", brief(each))


async def _with_machines(server: ServerUnderTest) -> tuple[JsonObject, ...]:
    documents = await known_documents(server)
    found = [each for each in documents if "client_credentials" in _listed(each, "grant_types_supported")]
    if not found:
        raise NotApplicable("the metadata do not list the grant type client_credentials")
    return tuple(found)


@check(
    "client-credentials.as-methods",
    proves=("client-credentials.as-metadata-methods",),
    needs=(NEED,),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def machine_methods(server: ServerUnderTest) -> None:
    """The metadata list an authentication method for client credentials."""
    for document in await _with_machines(server):
        methods = _listed(document, "token_endpoint_auth_methods_supported")
        if not {"private_key_jwt", "client_secret_basic"} & {str(each) for each in methods}:
            raise Deviation("private_key_jwt or client_secret_basic in each document", brief(methods))


@check(
    "client-credentials.as-algorithms",
    proves=("client-credentials.as-metadata-algs",),
    needs=(NEED,),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def machine_algorithms(server: ServerUnderTest) -> None:
    """With private_key_jwt the metadata list the signing algorithms."""
    methods, name = "token_endpoint_auth_methods_supported", "token_endpoint_auth_signing_alg_values_supported"
    documents = [each for each in await _with_machines(server) if "private_key_jwt" in _listed(each, methods)]
    if not documents:
        raise NotApplicable("the metadata do not list private_key_jwt")
    for document in documents:
        algorithms = _listed(document, name)
        # RFC 8414, section 2.
        if not algorithms or "none" in algorithms:
            raise Deviation(f"{name} without none in each document", brief(algorithms))
