"""A minimal authorization server, its faults, and the function that tests it."""

from __future__ import annotations

import json
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, unquote_plus, urlencode, urlsplit

from mcp_conformance.checks import SERVER_CHECKS
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.oauth_testbed.changed_members import OMITTED, changed
from mcp_conformance.oauth_testbed.http_messages import json_object
from mcp_conformance.oauth_testbed.registered_clients import is_loopback
from mcp_conformance.oauth_testbed.user_login import Login, RedirectMissing
from mcp_conformance.runners.authorization_server import run_authorization_server
from mcp_conformance.scoring.attribution import attributed
from mcp_conformance.wire.http_client import Endpoint
from mcp_conformance.wire.http_server import open_http_server
from mcp_conformance.wire.transcript import Transcript
from mcp_core.revisions import REVISIONS
from mutants.auth.token_endpoint import RawTokens
from mutants.auth.trusted_issuers import JWT_BEARER, NotTrusted, RawTrust, make_party
from mutants.runs.verdict import TIMEOUT, FaultResult, failed_checks

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Collection, Mapping

    from mcp_conformance.model.verdict import Run
    from mcp_conformance.oauth_testbed.changed_members import Changes
    from mcp_conformance.oauth_testbed.trusted_party import PartyOptions
    from mcp_conformance.wire.http_server import ServerExchange
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["ISSUER_FAULTS", "ISSUER_VARIANTS", "IssuerFault", "open_raw_issuer", "try_issuer", "try_issuer_fault"]

_OWN: Final = "2025-03-26"
_JUNE: Final = "2025-06-18"
_LATE: Final = "2025-11-25"
_MODERN: Final = "2026-07-28"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
_JSON: Final = (("Content-Type", "application/json"),)


class IssuerFault(NamedTuple):
    """A fault of the authorization server."""

    name: str
    """The name of the fault."""
    revision: str
    """The revision in which it is tested."""
    caught_by: tuple[str, ...]
    """The checks that must detect it."""


def _of(name: str, *caught_by: str, revision: str = _MODERN) -> IssuerFault:
    return IssuerFault(name, revision, caught_by)


ISSUER_FAULTS: Final = (
    _of("openid-only", "auth.as-metadata-oauth", revision=_JUNE),
    _of("openid-only", "auth.as-metadata-at-root", revision=_OWN),
    _of("nothing-published", "auth.as-metadata"),
    _of("nothing-there", "auth.as-default-endpoints", "auth.as-metadata-at-root", revision=_OWN),
    _of("metadata-lost-by-an-error", "auth.as-metadata", revision=_LATE),
    _of("other-issuer", "auth.as-metadata", revision=_LATE),
    _of("no-token-endpoint", "auth.as-metadata"),
    _of("no-token-endpoint", "auth.as-metadata-at-root", revision=_OWN),
    _of("no-authorization-endpoint", "auth.as-metadata"),
    _of("response-types-omitted", "auth.as-metadata", revision=_LATE),
    _of("response-types-omitted", "auth.as-metadata-oauth", revision=_JUNE),
    _of("metadata-null", "auth.as-metadata"),
    _of("metadata-empty-list", "auth.as-metadata", revision=_LATE),
    _of("metadata-untyped", "auth.as-metadata"),
    _of("oauth-without-pkce", "auth.as-pkce-advertised"),
    _of("openid-without-pkce", "auth.as-openid-pkce"),
    _of("plain-endpoint", "auth.as-endpoints-https"),
    _of("plain-endpoint-in-openid", "auth.as-endpoints-https"),
    _of("registration-not-offered", "auth.as-registers", revision=_JUNE),
    _of("registration-broken", "auth.as-registers", revision=_JUNE),
    _of("registers-by-200", "auth.as-registers", revision=_OWN),
    _of("registration-without-metadata", "auth.as-registers", revision=_JUNE),
    _of("registration-error-by-500", "auth.as-registers", revision=_OWN),
    _of("endless-secret", "auth.as-registers", revision=_JUNE),
    _of("registers-plain-redirects", "auth.as-redirect-safe"),
    _of("registers-fragments", "auth.as-redirect-safe"),
    _of("registers-plain-redirects", "auth.as-redirect-safe", revision=_OWN),
    _of("documents-untold", "auth.as-documents", "auth.as-documents-supported"),
    _of("documents-untold-in-openid", "auth.as-documents"),
    _of("documents-advertised-as-text", "auth.as-metadata", "auth.as-documents", "auth.as-documents-supported"),
    _of("documents-unsupported", "auth.as-documents-supported"),
    _of("redirects-anywhere", "auth.as-redirect-exact", revision=_OWN),
    _of("redirects-by-prefix", "auth.as-redirect-exact"),
    _of("redirects-without-query", "auth.as-redirect-exact"),
    _of("redirects-without-slash", "auth.as-redirect-exact", revision=_JUNE),
    _of("redirects-without-case", "auth.as-redirect-exact"),
    _of("redirects-decoded", "auth.as-redirect-exact"),
    _of("redirects-to-other-clients", "auth.as-redirect-exact"),
    _of("redirects-errors-first", "auth.as-redirect-exact"),
    _of("redirects-unknown-clients", "auth.as-redirect-exact", "auth.as-document-redirect", revision=_LATE),
    _of("redirects-after-a-page", "auth.as-redirect-exact"),
    _of("redirects-to-last", "auth.as-redirect-exact", "auth.as-document-redirect", revision=_LATE),
    _of("redirects-to-last-after-a-page", "auth.as-redirect-exact", revision=_JUNE),
    _of("redirects-by-post", "auth.as-redirect-exact", "auth.as-document-redirect"),
    _of("redirects-bare-clients", "auth.as-redirect-exact"),
    _of("redirects-parsed", "auth.as-redirect-exact"),
    _of("redirects-loopback-names", "auth.as-redirect-exact", revision=_LATE),
    _of("redirects-to-any-port", "auth.as-redirect-exact"),
    _of("proof-algorithms-as-text", "auth.as-metadata", "dpop.as-algorithms"),
    _of("takes-none", "dpop.as-asymmetric"),
    _of("takes-none-in-openid", "dpop.as-asymmetric"),
    _of("only-secrets-in-the-body", "client-credentials.as-methods"),
    _of("only-secrets-in-the-body-in-openid", "client-credentials.as-methods"),
    _of("algorithms-omitted-in-openid", "client-credentials.as-algorithms"),
    _of("assertions-unsigned", "client-credentials.as-algorithms"),
    _of("algorithms-omitted", "client-credentials.as-algorithms"),
    _of("state-lost", "auth.as-state"),
    _of("state-lost-with-errors", "auth.as-state"),
    _of("state-decoded-twice", "auth.as-state", revision=_LATE),
    _of("any-response-type", "auth.as-response-type"),
    _of("response-type-optional", "auth.as-response-type", revision=_JUNE),
    _of("implicit-grant", "auth.as-response-type"),
    _of("challenge-method-ignored", "auth.as-pkce-required"),
    _of("iss-left-out", "auth.as-iss"),
    _of("iss-of-another", "auth.as-iss"),
    _of("error-without-iss", "auth.as-iss"),
    _of("iss-not-advertised", "auth.as-iss-told"),
    _of("iss-not-advertised-with-errors", "auth.as-iss-told", "auth.as-iss"),
    _of("iss-not-advertised-in-openid", "auth.as-iss-told"),
    _of("challenge-optional", "auth.as-pkce-required"),
    _of("challenge-optional", "auth.as-pkce-required", revision=_OWN),
    _of("challenge-empty", "auth.as-pkce-required", revision=_LATE),
    _of("any-verifier", "auth.as-pkce-verified"),
    _of("verifier-optional", "auth.as-pkce-verified"),
    _of("verifier-empty", "auth.as-pkce-verified"),
    _of("verifier-cut", "auth.as-pkce-verified"),
    _of("challenge-as-verifier", "auth.as-pkce-verified"),
    _of("any-verifier-by-document", "auth.as-pkce-verified"),
    _of("challenge-without-method-ignored", "auth.as-pkce-verified"),
    _of("any-grant-type", "auth.as-grant-type"),
    _of("grant-type-optional", "auth.as-grant-type", revision=_JUNE),
    _of("code-again", "auth.as-code-once"),
    _of("code-again-by-document", "auth.as-code-once"),
    _of("code-at-once", "auth.as-code-once"),
    _of("secret-optional", "auth.as-client-secret"),
    _of("any-secret", "auth.as-client-secret", revision=_JUNE),
    _of("secret-by-beginning", "auth.as-client-secret"),
    _of("refresh-without-secret", "auth.as-client-secret", revision=_LATE),
    _of("any-secret-by-header", "auth.as-client-secret"),
    _of("header-unread", "auth.as-client-methods"),
    _of("query-dropped", "auth.as-redirect-query"),
    _of("second-query", "auth.as-redirect-query", revision=_OWN),
    _of("tokens-untyped", "auth.as-token-response"),
    _of("token-type-missing", "auth.as-token-response", revision=_LATE),
    _of("token-type-missing-after-refresh", "auth.as-token-response", "dpop.as-binds"),
    _of("null-scope", "auth.as-token-response", revision=_JUNE),
    _of("errors-as-text", "auth.as-token-errors"),
    _of("errors-by-403", "auth.as-token-errors", revision=_LATE),
    _of("error-without-code", "auth.as-token-errors", revision=_JUNE),
    _of("invalid-request-for-codes", "auth.as-token-errors"),
    _of("invalid-request-for-refresh-tokens", "auth.as-token-errors"),
    _of("invalid-grant-for-grant-types", "auth.as-token-errors", revision=_OWN),
    _of("invalid-request-for-proofs", "auth.as-token-errors"),
    _of("unauthorized-client-for-secrets", "auth.as-token-errors"),
    _of("unknown-codes-by-401", "auth.as-token-errors", revision=_JUNE),
    _of("refresh-any-scope", "auth.as-refresh-scope"),
    _of("refresh-for-no-resource", "auth.as-refresh-resource"),
    _of("refresh-for-no-resource", "auth.as-refresh-resource", revision=_JUNE),
    _of("code-for-any-resource", "auth.as-token-resource"),
    _of("one-client-per-name", "auth.as-code-owner"),
    _of("code-of-anybody", "auth.as-code-owner"),
    _of("refresh-of-anybody", "auth.as-code-owner"),
    _of("tokens-stored", "auth.as-no-store"),
    _of("refreshed-tokens-stored", "auth.as-no-store"),
    _of("expires-in-milliseconds", "auth.as-expires", revision=_JUNE),
    _of("expires-in-as-text", "auth.as-expires"),
    _of("sequential-codes", "auth.as-unguessable"),
    _of("short-refresh-tokens", "auth.as-unguessable", revision=_OWN),
    _of("endless", "auth.as-expires"),
    _of("endless-after-refresh", "auth.as-expires"),
    _of("refresh-kept", "auth.as-refresh-rotates"),
    _of("refresh-kept-by-document", "auth.as-refresh-rotates"),
    _of("refresh-again", "auth.as-refresh-rotates", revision=_JUNE),
    _of("rotates-once", "auth.as-refresh-rotates", revision=_LATE),
    _of("always-bearer", "dpop.as-binds"),
    _of("key-not-confirmed", "dpop.as-binds"),
    _of("key-not-confirmed-after-refresh", "dpop.as-binds"),
    _of("binding-optional", "dpop.as-bound-refused"),
    _of("binding-in-documents-ignored", "dpop.as-bound-refused"),
    _of("any-proof", "dpop.as-bound-refused", "dpop.as-binds"),
    _of("refresh-proof-any-type", "dpop.as-bound-refused"),
    _of("joined-proofs", "dpop.as-bound-refused"),
    _of("proof-url-optional", "dpop.as-bound-refused"),
    _of("proof-method-optional", "dpop.as-bound-refused"),
    _of("proof-type-optional", "dpop.as-bound-refused"),
    _of("proof-any-url", "dpop.as-bound-refused", "dpop.as-binds"),
    _of("proof-url-by-beginning", "dpop.as-bound-refused"),
    _of("proof-any-method", "dpop.as-bound-refused"),
    _of("proof-any-type", "dpop.as-bound-refused"),
    _of("proof-any-old", "dpop.as-bound-refused"),
    _of("proof-any-future", "dpop.as-bound-refused"),
    _of("proof-without-id", "dpop.as-bound-refused"),
    _of("proof-with-private-key", "dpop.as-bound-refused"),
    _of("first-of-two-proofs", "dpop.as-bound-refused"),
    _of("bad-proofs-unbound", "dpop.as-binds"),
    _of("refresh-unbound", "dpop.as-bound-refused", "dpop.as-binds"),
    _of("refresh-unbound-by-choice", "dpop.as-binds"),
    _of("refresh-any-key", "dpop.as-bound-refused", "dpop.as-binds"),
    _of("no-jwt-bearer", "wif.as-grant"),
    _of("jwt-bearer-after-codes", "wif.as-grant"),
    _of("jwt-bearer-untold", "wif.as-metadata"),
    _of("jwt-bearer-untold-in-openid", "wif.as-metadata"),
    _of("any-signature", "wif.as-jwt", "ema.as-jwt"),
    _of("unsigned-jwt", "wif.as-jwt", "ema.as-jwt"),
    _of("key-in-jwt", "wif.as-jwt"),
    _of("early-jwt", "wif.as-jwt"),
    _of("any-jwt-audience", "wif.as-jwt"),
    _of("jwt-audience-optional", "wif.as-jwt"),
    _of("endless-jwt", "wif.as-jwt"),
    _of("takes-expired-jwt", "wif.as-expired", "ema.as-jwt"),
    _of("any-issuer", "wif.as-issuer", "wif.as-jwt", "ema.as-jwt"),
    _of("http-issuer", "wif.as-issuer"),
    _of("jwt-audiences-unchecked", "wif.as-jwt"),
    _of("workload-by-end", "wif.as-rules"),
    _of("workload-without-case", "wif.as-rules"),
    _of("any-workload", "wif.as-rules", "wif.as-jwt"),
    _of("keys-over-http", "wif.as-keys"),
    _of("any-typ", "ema.as-typ"),
    _of("typ-optional", "ema.as-typ"),
    _of("key-in-jag", "ema.as-jwt"),
    _of("early-jag", "ema.as-jwt"),
    _of("endless-jag", "ema.as-jwt"),
    _of("jag-subject-optional", "ema.as-jwt"),
    _of("any-jag-issuer", "ema.as-jwt"),
    _of("any-jag-audience", "ema.as-audience"),
    _of("jag-audiences-unchecked", "ema.as-audience"),
    _of("jag-audience-optional", "ema.as-audience"),
    _of("jag-audience-among-others", "ema.as-audience"),
    _of("jag-audience-token-endpoint", "ema.as-audience"),
    _of("any-machine-assertion", "client-credentials.as-assertion"),
    _of("any-machine-assertion-audience", "client-credentials.as-assertion"),
    _of("takes-expired-machine-assertion", "client-credentials.as-assertion"),
    _of("client-unauthenticated", "ema.as-client"),
    _of("any-client-assertion", "ema.as-client"),
    _of("any-client-assertion-audience", "ema.as-client"),
    _of("takes-expired-client-assertion", "ema.as-client"),
    _of("any-jag-client", "ema.as-client"),
    _of("jag-client-optional", "ema.as-client"),
    _of("jag-token-for-form", "ema.as-token-audience"),
    _of("jag-token-elsewhere", "ema.as-token-audience"),
    _of("any-document-id", "auth.as-document-id", "auth.as-document-structure", revision=_LATE),
    _of("any-document-id", "auth.as-document-id", "auth.as-document-structure"),
    _of("document-over-http", "auth.as-document-url"),
    _of("document-of-any-status", "auth.as-document-url", revision=_LATE),
    _of("document-id-by-beginning", "auth.as-document-id"),
    _of("document-id-verified-once", "auth.as-document-id"),
    _of("document-id-without-case", "auth.as-document-id"),
    _of("document-id-without-query", "auth.as-document-id"),
    _of("document-id-in-list", "auth.as-document-id"),
    _of(
        "redirects-anywhere-by-document",
        "auth.as-document-redirect",
        "auth.as-document-structure",
        revision=_LATE,
    ),
    _of("redirects-anywhere-by-document", "auth.as-document-redirect", "auth.as-document-structure"),
    _of("unknown-members-refused", "auth.as-document-members"),
    _of("unknown-members-refused", "auth.as-document-members", revision=_LATE),
    _of("nameless-document", "auth.as-document-structure", revision=_LATE),
    _of("nameless-document", "auth.as-document-structure"),
    _of("null-name", "auth.as-document-structure", revision=_LATE),
    _of("null-name", "auth.as-document-structure"),
    _of("redirects-to-host-of-document", "auth.as-document-redirect", revision=_LATE),
    _of("redirects-by-prefix-in-document", "auth.as-document-redirect"),
    _of("redirects-by-host-in-document", "auth.as-document-redirect"),
    _of("redirect-uris-as-text", "auth.as-document-structure", revision=_LATE),
    _of("redirect-uris-as-object", "auth.as-document-structure"),
    _of(
        "documents-unread",
        "auth.as-document-fetched",
        "auth.as-document-url",
        "auth.as-document-id",
        "auth.as-document-redirect",
        "auth.as-document-structure",
        # The demand for bound tokens is in the document too.
        "dpop.as-bound-refused",
    ),
    _of("any-document", "auth.as-document-url", "auth.as-document-id", "auth.as-document-structure"),
)
"""All faults of the authorization server."""

ISSUER_VARIANTS: Final = (
    _of("authorizes-by-post"),
    _of("error-page"),
    _of("error-redirect"),
    _of("login-page-first"),
    _of("login-page-first", revision=_OWN),
)
"""Unusual behavior of a correct authorization server. No check may fail for it."""


def _is_of_party(body: str) -> bool:
    """Return whether a token request is one that `RawTrust` answers."""
    return JWT_BEARER in body or "grant_type=client_credentials" in body


_PAGES: Final = ("login-page-first", "redirects-after-a-page", "redirects-to-last-after-a-page")
"""Names of authorization servers that show a page before they read the request."""
_LAST: Final = ("redirects-to-last", "redirects-to-last-after-a-page")
"""Faults that look at the first one of repeated redirect URIs, and redirect to the last one."""


_WITHOUT_JWT_BEARER: Final[Changes] = {"grant_types_supported": ["authorization_code", "client_credentials"]}
_CHANGED_METADATA: Final[Mapping[str, tuple[str | None, Changes]]] = {
    "no-token-endpoint": (None, {"token_endpoint": OMITTED}),
    "no-authorization-endpoint": (None, {"authorization_endpoint": OMITTED}),
    "response-types-omitted": (None, {"response_types_supported": OMITTED}),
    "metadata-null": (None, {"scopes_supported": None}),
    "metadata-empty-list": (None, {"scopes_supported": []}),
    "oauth-without-pkce": (_OAUTH, {"code_challenge_methods_supported": OMITTED}),
    "openid-without-pkce": (_OPENID, {"code_challenge_methods_supported": OMITTED}),
    "plain-endpoint": (None, {"token_endpoint": "http://as.example/token"}),
    "plain-endpoint-in-openid": (_OPENID, {"token_endpoint": "http://as.example/token"}),
    "registration-not-offered": (None, {"registration_endpoint": OMITTED}),
    "documents-untold": (None, {"client_id_metadata_document_supported": OMITTED}),
    "documents-untold-in-openid": (_OPENID, {"client_id_metadata_document_supported": OMITTED}),
    "documents-unsupported": (None, {"client_id_metadata_document_supported": OMITTED}),
    "documents-advertised-as-text": (None, {"client_id_metadata_document_supported": "true"}),
    "proof-algorithms-as-text": (None, {"dpop_signing_alg_values_supported": "ES256"}),
    "takes-none": (None, {"dpop_signing_alg_values_supported": ["ES256", "none"]}),
    "takes-none-in-openid": (_OPENID, {"dpop_signing_alg_values_supported": ["ES256", "none"]}),
    "only-secrets-in-the-body": (None, {"token_endpoint_auth_methods_supported": ["client_secret_post"]}),
    "only-secrets-in-the-body-in-openid": (_OPENID, {"token_endpoint_auth_methods_supported": ["client_secret_post"]}),
    "algorithms-omitted": (None, {"token_endpoint_auth_signing_alg_values_supported": OMITTED}),
    "algorithms-omitted-in-openid": (_OPENID, {"token_endpoint_auth_signing_alg_values_supported": OMITTED}),
    "assertions-unsigned": (None, {"token_endpoint_auth_signing_alg_values_supported": ["ES256", "none"]}),
    "iss-not-advertised": (None, {"authorization_response_iss_parameter_supported": OMITTED}),
    "iss-not-advertised-with-errors": (None, {"authorization_response_iss_parameter_supported": OMITTED}),
    "iss-not-advertised-in-openid": (_OPENID, {"authorization_response_iss_parameter_supported": OMITTED}),
    "jwt-bearer-untold": (None, _WITHOUT_JWT_BEARER),
    "jwt-bearer-untold-in-openid": (_OPENID, _WITHOUT_JWT_BEARER),
}
"""Changed members of the metadata, by fault, and the path of the only document with them; `None`: each document."""


class _Raw:
    """The authorization server."""

    def __init__(self, fault: str | None) -> None:
        self._fault: Final = fault
        self._uris: Final[dict[str, str]] = {}
        self._tokens: Final = RawTokens(fault)
        self.trust: RawTrust | None = None
        self.url = ""

    def _metadata(self, path: str) -> JsonObject:
        name, fault = self.url, self._fault
        found: JsonObject = {
            "issuer": "https://elsewhere.example" if fault == "other-issuer" else name,
            "authorization_endpoint": f"{name}/authorize",
            "token_endpoint": f"{name}/token",
            "registration_endpoint": f"{name}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "grant_types_supported": ["authorization_code", "client_credentials", JWT_BEARER],
            "token_endpoint_auth_methods_supported": [
                *("none", "client_secret_post", "client_secret_basic", "private_key_jwt")
            ],
            "token_endpoint_auth_signing_alg_values_supported": ["ES256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": True,
            "dpop_signing_alg_values_supported": ["ES256"],
            "protected_resources": ["https://mcp.example/mcp"],
        }
        place, changes = _CHANGED_METADATA.get(fault or "", (None, {}))
        return changed(found, changes) if place in (None, path) else found

    async def handle(self, incoming: ServerExchange) -> None:
        """Answer a request."""
        path, fault = incoming.path, self._fault
        hidden = fault in ("nothing-published", "nothing-there") or (fault == "openid-only" and path == _OAUTH)
        if fault == "nothing-there":
            await incoming.respond(404)
        elif path in (_OAUTH, _OPENID) and fault == "metadata-lost-by-an-error" and self._tokens.refused:
            await incoming.respond(503)
        elif path in (_OAUTH, _OPENID) and not hidden:
            kind = () if fault == "metadata-untyped" else _JSON
            await incoming.respond(200, kind, json.dumps(self._metadata(path)).encode())
        elif path == "/register" and fault != "registration-broken":
            await self._register(incoming)
        elif path == "/authorize" and fault in _PAGES:
            await incoming.respond(302, (("Location", f"{self.url}/login?{urlsplit(incoming.target).query}"),))
        elif path in ("/authorize", "/login"):
            await self._authorize(incoming)
        elif path == "/token" and _is_of_party(unquote(incoming.body.decode())) and self.trust is not None:
            await self._grant(incoming, self.trust)
        elif path == "/token" and incoming.body:
            await self._tokens.answer(incoming)
        else:
            await incoming.respond(400 if path in ("/token", "/register") else 404)

    async def _register(self, incoming: ServerExchange) -> None:
        document, fault = json_object(incoming.body), self._fault
        if document is None:
            status = 500 if fault == "registration-error-by-500" else 400
            await incoming.respond(status, _JSON, json.dumps({"error": "invalid_client_metadata"}).encode())
            return
        client = f"client-{0 if fault == 'one-client-per-name' else len(self._uris)}"
        uris = document.get("redirect_uris")
        uri = str(uris[0]) if isinstance(uris, list) and uris else ""
        if uri.startswith("http:") and not is_loopback(uri) and fault != "registers-plain-redirects":
            await incoming.respond(400, _JSON, json.dumps({"error": "invalid_redirect_uri"}).encode())
            return
        if "#" in uri and fault != "registers-fragments":
            await incoming.respond(400, _JSON, json.dumps({"error": "invalid_redirect_uri"}).encode())
            return
        self._uris[client] = uri
        if document.get("dpop_bound_access_tokens") is True:
            self._tokens.bound.add(client)
        if document.get("token_endpoint_auth_method") in ("client_secret_post", "client_secret_basic"):
            self._tokens.secrets[client] = secrets.token_urlsafe(16)
            document |= {"client_secret": self._tokens.secrets[client], "client_secret_expires_at": 0}
        if fault == "endless-secret":
            document["client_secret"] = "secret"
        if fault == "registration-without-metadata":
            document = {}
        status = 200 if fault == "registers-by-200" else 201
        await incoming.respond(status, _JSON, json.dumps({**document, "client_id": client}).encode())

    async def _grant(self, incoming: ServerExchange, trust: RawTrust) -> None:
        try:
            early = self._fault == "jwt-bearer-after-codes" and not self._tokens.granted
            if self._fault == "no-jwt-bearer" or early:
                raise NotTrusted("unsupported_grant_type")
            tokens = await trust.grant(dict(parse_qsl(incoming.body.decode())))
        except NotTrusted as why:
            await incoming.respond(400, (), json.dumps({"error": str(why)}).encode())
        else:
            await incoming.respond(200, (("Cache-Control", "no-store"),), json.dumps(tokens).encode())

    async def _may_redirect(self, client_id: str, given: str) -> bool:
        """Return whether the document of a client lists a redirect URI."""
        if self.trust is None:
            return False
        try:
            listed = await self.trust.redirect_uris(client_id)
            self._tokens.bound.update(self.trust.bound)
        except NotTrusted:
            return False
        return (
            given in listed
            or listed == [""]
            or self._fault == "redirects-anywhere-by-document"
            or (self._fault == "redirects-to-host-of-document" and urlsplit(given).netloc == urlsplit(client_id).netloc)
            or (self._fault == "redirects-by-prefix-in-document" and given.startswith(tuple(listed)))
            or (
                self._fault == "redirects-by-host-in-document"
                and urlsplit(given).netloc in [urlsplit(uri).netloc for uri in listed]
            )
        )

    def _is_registered(self, client_id: str, given: str) -> bool:
        """Return whether a client has registered a redirect URI."""
        known = self._uris.get(client_id)
        if known is None:
            return False
        return given == known or {
            "redirects-bare-clients": not known,
            "redirects-parsed": urlsplit(given)._replace(fragment="").geturl() == known,
            "redirects-loopback-names": given.replace("//localhost:", "//127.0.0.1:") == known,
            "redirects-by-prefix": given.startswith(known),
            "redirects-after-a-page": given.startswith(known),
            "redirects-without-query": given.partition("?")[0] == known.partition("?")[0],
            "redirects-without-slash": given.rstrip("/") == known,
            "redirects-without-case": given.lower() == known.lower(),
            "redirects-decoded": unquote(given) == known,
            "redirects-to-other-clients": given in self._uris.values(),
            "redirects-to-any-port": urlsplit(given).hostname == urlsplit(known).hostname
            and urlsplit(given)[2:] == urlsplit(known)[2:]
            and given.startswith("https:")
            and known.startswith("https:"),
        }.get(self._fault or "", False)

    async def _authorize(self, incoming: ServerExchange) -> None:
        posted = incoming.method == "POST" and self._fault in ("authorizes-by-post", "redirects-by-post")
        query = incoming.body.decode() if posted else urlsplit(incoming.target).query
        fields = dict(parse_qsl(query, keep_blank_values=self._fault == "challenge-empty"))
        client_id, given = fields.get("client_id", ""), fields.get("redirect_uri", "")
        schemes = ("https:", "http:") if self._fault == "document-over-http" else ("https:",)
        by_document = client_id.startswith(schemes) and self._fault != "documents-unsupported"
        known = by_document or client_id in self._uris
        # Of repeated fields, the last one counts.
        checked = dict(reversed(parse_qsl(query))).get("redirect_uri", "") if self._fault in _LAST else given
        right = self._fault == "redirects-anywhere" or self._is_registered(client_id, checked)
        if by_document:
            right = await self._may_redirect(client_id, checked)
        right = right or (posted and self._fault == "redirects-by-post")
        if self._fault == "redirects-unknown-clients" and not known:
            right, fields["response_type"] = True, ""
        back = self._back(fields) if right or self._fault == "redirects-errors-first" else {}
        if right or "error" in back:
            given = given.partition("?")[0] if self._fault == "query-dropped" else given
            separator = "#" if "access_token" in back else "&" if "?" in given else "?"
            separator = "?" if self._fault == "second-query" else separator
            await incoming.respond(302, (("Location", f"{given}{separator}{urlencode(back)}"),))
        elif self._fault == "error-page":
            await incoming.respond(200, (("Content-Type", "text/html"),), b"<!doctype html><title>Error</title>")
        elif self._fault == "error-redirect":
            await incoming.respond(302, (("Location", f"{self.url}/error?code=invalid_redirect_uri"),))
        else:
            await incoming.respond(400)

    def _back(self, fields: dict[str, str]) -> dict[str, str]:
        """Return the authorization response that the browser takes to the client."""
        fault, challenge = self._fault, fields.get("code_challenge")
        back = {"iss": "https://elsewhere.example" if fault == "iss-of-another" else self.url}
        kind, method = fields.get("response_type"), fields.get("code_challenge_method")
        optional = fault == "response-type-optional" and kind is None
        unchallenged = challenge is None and fault != "challenge-optional"
        unknown = challenge is not None and method != "S256" and fault != "challenge-method-ignored"
        unknown = unknown and not (method is None and fault == "challenge-without-method-ignored")
        if kind == "token" and fault == "implicit-grant":
            back |= {"access_token": "token", "token_type": "Bearer"}
        elif kind != "code" and fault != "any-response-type" and not optional:
            back["error"] = "unsupported_response_type"
        elif unchallenged or unknown:
            back["error"] = "invalid_request"
        else:
            back["code"] = self._tokens.code(
                fields.get("client_id", ""), (challenge or "") if method else "", fields.get("resource")
            )
        if (
            fault == "iss-left-out"
            or (fault == "error-without-iss" and "error" in back)
            or (fault == "iss-not-advertised-with-errors" and "error" not in back)
        ):
            del back["iss"]
        lost = fault == "state-lost" or (fault == "state-lost-with-errors" and "error" in back)
        state = fields.get("state", "")
        return back if lost else {**back, "state": unquote_plus(state) if fault == "state-decoded-twice" else state}


async def _browse(url: str) -> None:
    """Follow the authorization URL like a browser, without a login form.

    Raises:
        RedirectMissing: There is no further redirect.
    """
    where: str | None = url
    status = 0
    while where is not None:
        async with Endpoint(where).exchange(Transcript(), "GET") as exchange:
            where = exchange.header("location")
            status = exchange.status
    # After the redirect to the suite, this does not matter.
    raise RedirectMissing(f"HTTP {status}")


@asynccontextmanager
async def open_raw_issuer(
    fault: str | None, party: tuple[PartyOptions, ssl.SSLContext] | None = None
) -> AsyncIterator[str]:
    """Serve the authorization server for a block and yield its issuer.

    Args:
        fault: The fault, or `None`.
        party: The party that it trusts, from `make_party`; `None`: it trusts none.
    """
    raw = _Raw(fault)
    async with open_http_server(raw.handle) as port:
        raw.url = f"http://127.0.0.1:{port}"
        if party is not None:
            raw.trust = RawTrust(fault, raw.url, party[0].port, party[1])
        yield raw.url


async def try_issuer(fault: str | None, revision: str, chosen: Collection[str] | None = None) -> Run:
    """Test the raw authorization server with a fault or without.

    Args:
        fault: The fault, or `None`.
        revision: The revision whose requirements apply.
        chosen: The checks, or `None` for all.
    """
    with make_party() as party:
        async with open_raw_issuer(fault, party) as issuer:
            return await run_authorization_server(
                issuer,
                Settings(timeout=TIMEOUT),
                revisions=[REVISIONS[revision]],
                chosen={each.id for each in SERVER_CHECKS} if chosen is None else chosen,
                show=lambda _: None,
                login=Login(_browse, timeout=TIMEOUT),
                party=party[0],
            )
    raise AssertionError("the block returns")


async def try_issuer_fault(fault: IssuerFault, *, own: bool = False) -> FaultResult:
    """Test the raw authorization server with a fault.

    Args:
        fault: The fault.
        own: Run only the checks that must detect the fault, which is faster.
    """
    run = await try_issuer(fault.name, fault.revision, fault.caught_by if own else None)
    return FaultResult.of(
        fault.name,
        fault.revision,
        "http",
        expected=fault.caught_by,
        failed=failed_checks(run),
        findings=failed_checks(attributed(run)),
    )
