"""The faults of the raw client with a login, and the function that tests it."""

from __future__ import annotations

import json
import shlex
from typing import Final

from mcp_conformance.checks import CLIENT_CHECKS
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.runners.client import ClientCommand, run_client
from mcp_conformance.scoring.attribution import attributed
from mcp_core.revisions import REVISIONS
from mutants.client.login import DOCUMENT_URL
from mutants.client_faults.table import ClientFault
from mutants.runs.fork_server import peer_command
from mutants.runs.verdict import TIMEOUT, FaultResult, failed_checks

__all__ = ["CLIENT_FAULTS_AUTH", "CLIENT_WITH_LOGIN", "try_login_fault"]

_OWN = "2025-03-26"
_JUNE = "2025-06-18"
_LATE = "2025-11-25"
_MODERN = "2026-07-28"
CLIENT_WITH_LOGIN: Final = "mutants.raw_client_auth"
"""The module of the raw client that logs in."""
_AREAS: Final = ("auth", "client-credentials", "dpop", "ema", "wif")


def _of(name: str, *caught_by: str, revision: str = _MODERN) -> ClientFault:
    return ClientFault(name, revision, "http", caught_by)


CLIENT_FAULTS_AUTH: Final = (
    # A legacy client does not declare extensions.
    _of("legacy-after-401", "auth.client-stays-modern", "ema.client-declared"),
    _of("refusal-of-refresh-ends", "auth.client-flow"),
    _of("refusal-of-refresh-ends", "auth.client-flow", revision=_JUNE),
    # It fails where only a later request needs a token, too.
    _of("insists", "auth.client-optional", "auth.client-challenge-parsed"),
    # Discovery of the authorization server.
    _of("first-challenge-only", "auth.client-challenge-parsed", "auth.client-step-up"),
    _of("first-challenge-only", "auth.client-challenge-parsed", revision=_JUNE),
    _of("first-challenge-only", "auth.client-challenge-parsed", "auth.client-step-up", revision=_LATE),
    _of("scope-by-search", "auth.client-challenge-parsed", revision=_LATE),
    _of("challenge-by-search", "auth.client-challenge-parsed"),
    _of("challenge-by-search", "auth.client-challenge-parsed", revision=_JUNE),
    _of("challenge-in-one-case", "auth.client-challenge-parsed", "auth.client-step-up"),
    _of("quoted-pair-ends", "auth.client-challenge-parsed", revision=_LATE),
    _of("blanks-end-names", "auth.client-challenge-parsed", revision=_JUNE),
    _of("other-schemes-refused", "auth.client-metadata-both-ways", revision=_LATE),
    _of("other-schemes-refused", "auth.client-metadata-both-ways"),
    _of("quoted-values-only", "auth.client-challenge-parsed"),
    _of("parameters-in-one-case", "auth.client-challenge-parsed", "auth.client-step-up", revision=_LATE),
    _of("last-header-only", "auth.client-challenge-parsed"),
    _of("last-header-only", "auth.client-challenge-parsed", revision=_JUNE),
    _of("first-header-only", "auth.client-challenge-parsed", revision=_JUNE),
    _of("login-only-at-start", "auth.client-challenge-parsed", "auth.client-change-reregisters"),
    _of("login-only-at-start", "auth.client-challenge-parsed", revision=_JUNE),
    _of("listens-without-token", "auth.client-every-request", revision=_LATE),
    _of("resumes-without-token", "auth.client-every-request", revision=_LATE),
    _of("deletes-without-token", "auth.client-every-request", revision=_LATE),
    _of(
        "challenge-ignored",
        "auth.client-metadata-named",
        "auth.client-metadata-both-ways",
        "auth.client-challenge-parsed",
    ),
    _of("root-first", "auth.client-metadata-order", "auth.client-metadata-both-ways"),
    _of("only-named", "auth.client-metadata-both-ways", revision=_LATE),
    _of("own-server-always", "auth.client-resource-metadata", "auth.client-flow"),
    _of(
        "own-server-always",
        "auth.client-resource-metadata",
        "auth.client-flow",
        "auth.client-server-metadata",
        revision=_JUNE,
    ),
    _of("servers-ignored", "auth.client-resource-metadata", revision=_JUNE),
    _of("named-once", "auth.client-metadata-named"),
    _of("forbidden-ends-search", "auth.client-metadata-order", "auth.client-metadata-both-ways", revision=_LATE),
    _of("last-segment-only", "auth.client-metadata-order", "auth.client-metadata-both-ways"),
    _of("document-nameless", "auth.client-document-members"),
    _of("document-nameless", "auth.client-document-members", revision=_LATE),
    _of("document-of-another-page", "auth.client-document-redirects"),
    _of("document-of-another-page", "auth.client-document-redirects", revision=_LATE),
    _of("document-of-another-url", "auth.client-document-id"),
    _of("document-of-another-url", "auth.client-document-id", revision=_LATE),
    _of("path-decoded", "auth.client-metadata-order", "auth.client-metadata-both-ways"),
    _of("path-decoded", "auth.client-metadata-order", "auth.client-metadata-both-ways", revision=_LATE),
    _of("header-required", "auth.client-metadata-both-ways"),
    _of("any-resource", "auth.client-resource-mismatch"),
    _of("resource-by-prefix", "auth.client-resource-mismatch"),
    _of("resource-by-beginning", "auth.client-resource-mismatch"),
    _of("resource-by-origin", "auth.client-resource-mismatch"),
    _of("resource-verified-once", "auth.client-resource-mismatch"),
    _of("case-sensitive", "auth.client-resource-upper-case"),
    _of("no-server-metadata", "auth.client-server-metadata", revision=_JUNE),
    _of("issuer-path-dropped", "auth.client-server-metadata", revision=_JUNE),
    _of("well-known-appended", "auth.client-server-metadata-order-path", "auth.client-change-reregisters"),
    _of(
        "oauth-only",
        "auth.client-server-metadata-kinds",
        "auth.client-server-metadata-several",
        "auth.client-server-metadata-order-path",
        "auth.client-server-metadata-order-root",
    ),
    _of("later-path-dropped-first", "auth.client-server-metadata-order-path"),
    _of("openid-first", "auth.client-server-metadata-order-path", "auth.client-server-metadata-order-root"),
    _of(
        "forbidden-ends-discovery",
        "auth.client-server-metadata-several",
        "auth.client-server-metadata-order-root",
        "auth.client-server-metadata-kinds",
    ),
    _of("any-issuer", "auth.client-issuer-identical"),
    _of("nearly-same-issuer", "auth.client-issuer-identical"),
    _of("issuer-any-case", "auth.client-issuer-identical"),
    _of("openid-issuer-unverified", "auth.client-issuer-identical"),
    _of("issuer-verified-once", "auth.client-issuer-identical"),
    _of("no-issuer-taken", "auth.client-issuer-identical"),
    _of("issuer-without-slash", "auth.client-server-metadata-order-root"),
    _of("issuer-slash-kept", "auth.client-server-metadata-order-root"),
    _of("issuer-path-slash-kept", "auth.client-server-metadata-order-path"),
    _of("issuer-path-slash-kept", "auth.client-server-metadata-order-path", revision=_LATE),
    _of("first-segment-only", "auth.client-server-metadata-order-path"),
    _of("default-endpoints", "auth.client-server-metadata-kinds", "auth.client-change-reregisters"),
    _of("default-endpoints", "auth.client-server-metadata", revision=_JUNE),
    _of("default-endpoints", "auth.client-server-metadata", revision=_OWN),
    _of("no-own-metadata", "auth.client-metadata-first", "auth.client-server-metadata", revision=_OWN),
    _of("metadata-without-version", "auth.client-metadata-version", revision=_OWN),
    _of(
        "metadata-below-path",
        "auth.client-base-url",
        "auth.client-metadata-first",
        "auth.client-server-metadata",
        revision=_OWN,
    ),
    _of(
        "base-with-folder",
        "auth.client-base-url",
        "auth.client-default-endpoints",
        "auth.client-server-metadata",
        revision=_OWN,
    ),
    _of("default-endpoints-below-path", "auth.client-default-endpoints", revision=_OWN),
    _of("no-default-endpoints", "auth.client-default-endpoints", revision=_OWN),
    # Client registration.
    _of("made-up-client-id", "auth.client-registration-obtained"),
    _of("registers-as-text", "auth.client-registers", revision=_JUNE),
    _of("given-ignored", "auth.client-preregistered", "auth.client-registration-priority"),
    _of("given-ignored", "auth.client-preregistered", revision=_OWN),
    _of("given-last", "auth.client-registration-priority"),
    _of("no-document", "auth.client-document", "auth.client-registration-priority"),
    _of("document-plain-http", "auth.client-document-url", "auth.client-document-id"),
    _of("document-always", "auth.client-document-unasked"),
    _of("document-flag-present", "auth.client-document-unasked"),
    _of("document-flag-present", "auth.client-document-unasked", revision=_LATE),
    _of("no-application-type", "auth.client-application-type", "auth.client-native"),
    _of("registers-as-web", "auth.client-native"),
    _of("no-refresh-grant", "auth.client-grant-types"),
    _of("registration-refusal-ignored", "auth.client-registration-refused", "auth.client-registration-obtained"),
    _of("silent-registration", "auth.client-registration-refusal-told"),
    # The token request has the registered URI.
    _of("other-redirect", "auth.client-redirect-registered", "auth.client-oauth21", revision=_JUNE),
    _of("step-up-redirects-elsewhere", "auth.client-redirect-registered", "auth.client-document-redirects"),
    _of("plain-redirect", "auth.client-redirect-safe", revision=_OWN),
    _of("given-anywhere", "auth.client-credentials-by-issuer"),
    _of("given-by-host", "auth.client-credentials-by-issuer"),
    _of("clients-by-host", "auth.client-change-no-reuse", "auth.client-change-reregisters"),
    _of("one-client-for-all", "auth.client-change-no-reuse", "auth.client-change-reregisters"),
    _of("first-server-for-ever", "auth.client-change-reregisters"),
    _of("token-to-metadata", "auth.client-own-tokens"),
    _of("token-to-server-metadata", "auth.client-own-tokens", "auth.client-no-cross-credentials"),
    _of("refresh-anywhere", "auth.client-no-cross-credentials", "auth.client-refresh-confidential"),
    _of(
        "refresh-by-host",
        "auth.client-no-cross-credentials",
        "auth.client-refresh-confidential",
        "auth.client-oauth21",
    ),
    _of(
        "refresh-for-any-issuer",
        "auth.client-no-cross-credentials",
        "auth.client-refresh-confidential",
        "auth.client-oauth21",
    ),
    # They are correct: no check may fail.
    _of("revokes"),
    _of("secret-in-body"),
    _of("revokes-in-query", "auth.client-no-cross-credentials"),
    _of("revokes-by-header", "auth.client-no-cross-credentials"),
    # The token response, and the use of the token.
    _of("token-type-in-one-case", "auth.client-flow"),
    _of("token-type-in-one-case", "auth.client-flow", revision=_JUNE),
    _of("token-type-any", "auth.client-oauth21"),
    _of("wants-lifetime", "auth.client-flow"),
    _of("wants-scope", "auth.client-flow", revision=_LATE),
    _of("media-type-exact", "auth.client-flow"),
    _of("unknown-members-refused", "auth.client-flow"),
    _of("token-scheme", "auth.client-bearer", revision=_LATE),
    _of("token-bare", "auth.client-bearer", revision=_LATE),
    _of("token-scheme-once", "auth.client-bearer"),
    _of("token-scheme-once", "auth.client-bearer", revision=_OWN),
    _of("token-once", "auth.client-every-request"),
    _of("token-in-query", "auth.client-no-query-token", revision=_JUNE),
    _of("token-in-other-field", "auth.client-no-query-token"),
    _of("token-in-query-of-stream", "auth.client-no-query-token"),
    # The challenge of a wrong token names no scopes, and a URL that is unavailable at first.
    _of(
        "undefined-token",
        "auth.client-own-tokens",
        "auth.client-challenge-parsed",
        "auth.client-metadata-order",
        "auth.client-metadata-both-ways",
        "auth.client-scope-least",
        "auth.client-step-up",
        "client-credentials.client-scope",
    ),
    _of("undefined-token", "auth.client-own-tokens", revision=_JUNE),
    _of("old-token-too", "auth.client-bearer"),
    _of("machine-token-scheme", "auth.client-bearer"),
    _of("follows-with-token", "auth.client-own-tokens", "auth.client-no-cross-credentials"),
    _of("follows-with-token", "auth.client-own-tokens", revision=_JUNE),
    _of("expired-token-kept", "auth.client-expired-token"),
    _of("expired-token-kept", "auth.client-expired-token", revision=_LATE),
    # Refresh requests.
    _of("refresh-to-server", "auth.client-refresh-confidential", "auth.client-no-cross-credentials"),
    _of("refresh-to-server", "auth.client-refresh-confidential", revision=_OWN),
    _of("follows-from-token-endpoint", "auth.client-no-cross-credentials", "auth.client-refresh-confidential"),
    _of("refresh-reused", "auth.client-oauth21"),
    _of("refresh-reused", "auth.client-oauth21", revision=_OWN),
    _of("refreshes-at-once", "auth.client-oauth21", revision=_LATE),
    _of("refresh-token-lost", "auth.client-oauth21"),
    _of("refresh-token-lost", "auth.client-oauth21", revision=_LATE),
    _of("refresh-wider", "auth.client-oauth21", revision=_JUNE),
    _of("refresh-asks-again", "auth.client-oauth21"),
    _of("refresh-for-issuer", "auth.client-resource-identifies", revision=_LATE),
    _of("refresh-for-url", "auth.client-resource-identifies", revision=_LATE),
    _of("refresh-without-resource", "auth.client-resource-in-token"),
    _of("refresh-without-resource", "auth.client-resource-in-token", revision=_JUNE),
    # Authorization and token requests.
    _of("no-resource", "auth.client-resource-in-authorization"),
    _of("no-token-resource", "auth.client-resource-in-token", revision=_JUNE),
    _of(
        "no-token-resource",
        "auth.client-resource-in-token",
        "client-credentials.client-resource",
        "wif.client-names-resource",
    ),
    _of(
        "resource-elsewhere",
        "auth.client-resource-identifies",
        "auth.client-resource-specific",
        "client-credentials.client-resource",
        "wif.client-names-resource",
    ),
    _of("authorization-for-origin", "auth.client-resource-identifies"),
    _of("step-up-without-resource", "auth.client-resource-in-authorization"),
    _of("resource-fragment", "auth.client-resource-canonical", revision=_JUNE),
    _of("resource-as-given", "auth.client-resource-canonical", revision=_LATE),
    _of(
        "resource-origin",
        "auth.client-resource-specific",
        "auth.client-resource-identifies",
        "client-credentials.client-resource",
        "wif.client-names-resource",
    ),
    _of("resource-slash", "auth.client-resource-no-slash"),
    _of("resource-of-host-slash", "auth.client-resource-no-slash"),
    _of("resource-of-host-slash", "auth.client-resource-no-slash", revision=_LATE),
    _of("scope-ignored", "auth.client-scope-challenged", "auth.client-scope-least"),
    _of(
        "intersects-scopes",
        "auth.client-scope-not-intersected",
        "auth.client-scope-challenged",
        "auth.client-challenge-parsed",
    ),
    _of("all-scopes", "auth.client-scope-least", revision=_LATE),
    _of("no-supported-scopes", "auth.client-scope-supported"),
    _of("scopes-of-issuer", "auth.client-scope-supported", "auth.client-scope-omitted"),
    _of("scopes-of-issuer", "auth.client-scope-supported", "auth.client-scope-omitted", revision=_LATE),
    _of("scopes-of-issuer-last", "auth.client-scope-omitted"),
    _of("scope-invented", "auth.client-scope-omitted"),
    _of("step-up-by-refresh", "auth.client-step-up"),
    _of("no-step-up", "auth.client-step-up"),
    # In 2025-03-26, it is correct.
    _of("no-step-up", revision=_OWN),
    _of("step-up-by-text", "auth.client-step-up"),
    _of("steps-up-once", "auth.client-step-up"),
    _of("call-not-repeated", "auth.client-step-up", revision=_LATE),
    _of("forgets-scopes", "auth.client-step-up-union", "auth.client-step-up"),
    _of("forgets-scopes-at-login", "auth.client-step-up-union"),
    _of("forgets-earlier-step-up", "auth.client-step-up-union"),
    _of("forgets-scopes-at-refresh", "auth.client-step-up-union"),
    _of("first-scopes-kept", "auth.client-scope-challenged"),
    _of("scope-as-registered", "auth.client-scope-challenged", "auth.client-scope-not-intersected"),
    _of(
        "scope-as-registered",
        "auth.client-scope-challenged",
        "auth.client-scope-not-intersected",
        revision=_LATE,
    ),
    _of("empty-scope", "auth.client-scope-omitted"),
    _of("empty-scope", "auth.client-scope-omitted", revision=_LATE),
    _of("asks-for-ever", "auth.client-step-up-limit"),
    _of("offline-always", "auth.client-no-offline-access"),
    _of("wants-refresh", "auth.client-without-refresh"),
    _of("other-verifier", "auth.client-pkce", revision=_JUNE),
    _of("verifier-short", "auth.client-pkce", revision=_LATE),
    _of("no-challenge", "auth.client-pkce", revision=_OWN),
    # The verifier becomes known to the second authorization server.
    _of("verifier-reused", "auth.client-pkce", "auth.client-no-cross-credentials"),
    _of("verifier-reused", "auth.client-pkce", revision=_JUNE),
    _of("first-pkce-method", "auth.client-pkce-s256"),
    _of("first-pkce-method", "auth.client-pkce-s256", revision=_LATE),
    _of("plain-pkce", "auth.client-pkce-s256", revision=_LATE),
    _of("pkce-unverified", "auth.client-pkce-refused", revision=_LATE),
    _of("pkce-any-method", "auth.client-pkce-refused", revision=_LATE),
    _of("pkce-empty-taken", "auth.client-pkce-refused"),
    _of("pkce-empty-taken", "auth.client-pkce-refused", revision=_LATE),
    _of("pkce-verified-once", "auth.client-pkce-refused", "auth.client-pkce-refused-openid", revision=_LATE),
    _of("pkce-unverified-openid", "auth.client-pkce-refused-openid"),
    _of("response-type-token", "auth.client-oauth21", revision=_JUNE),
    _of("code-twice", "auth.client-oauth21"),
    _of("client-id-twice", "auth.client-oauth21"),
    _of("client-id-left-out", "auth.client-registration-obtained", "auth.client-oauth21"),
    _of("secret-in-both", "auth.client-oauth21"),
    _of("code-after-refusal", "auth.client-oauth21"),
    _of("code-still-encoded", "auth.client-oauth21", revision=_LATE),
    _of("assigned-secret-ignored", "auth.client-oauth21"),
    _of("endpoint-query-lost", "auth.client-oauth21", revision=_JUNE),
    _of("endpoint-query-lost", "auth.client-oauth21", revision=_OWN),
    _of("endpoint-query-doubled", "auth.client-oauth21", revision=_JUNE),
    _of("assigned-method-ignored", "auth.client-oauth21", revision=_LATE),
    _of("assigned-secret-unencoded", "auth.client-oauth21", revision=_LATE),
    _of("secret-in-url", "auth.client-oauth21", revision=_JUNE),
    # Validation of responses.
    _of("any-state", "auth.client-state"),
    _of("state-absent-taken", "auth.client-state"),
    _of("no-state", "auth.client-state", revision=_JUNE),
    _of("state-verified-once", "auth.client-state"),
    _of("state-verified-once", "auth.client-state", revision=_JUNE),
    _of(
        "iss-any",
        "auth.client-iss-present",
        "auth.client-iss-absent",
        "auth.client-iss-before-token",
        "auth.client-iss-exact",
        "auth.client-iss-unexpected",
    ),
    _of("iss-absent-taken", "auth.client-iss-absent"),
    _of("iss-empty-taken", "auth.client-iss-absent"),
    _of("iss-flag-present", "auth.client-iss-not-wanted"),
    _of("iss-verified-once", "auth.client-iss-present", "auth.client-iss-absent", "auth.client-iss-unexpected"),
    _of("iss-only-if-advertised", "auth.client-iss-unexpected"),
    _of("iss-always-wanted", "auth.client-iss-not-wanted"),
    # The issuer of one scenario ends with a slash.
    _of("iss-against-stripped", "auth.client-server-metadata-order-root"),
    _of("iss-normalized", "auth.client-iss-exact"),
    _of("iss-any-case", "auth.client-iss-exact"),
    _of("iss-decoded", "auth.client-iss-exact"),
    _of("error-shown", "auth.client-iss-error"),
    _of("error-shown-later", "auth.client-iss-error"),
    _of("error-page-visited", "auth.client-iss-error"),
    _of("error-acted-on", "auth.client-iss-error"),
    _of("smuggles", "security.client-urls"),
    # Extensions.
    _of("bound-as-bearer", "dpop.client-scheme"),
    _of("same-jti", "dpop.client-fresh"),
    _of("no-call-proof", "dpop.client-fresh"),
    _of("proof-type", "dpop.client-header"),
    _of("proof-when-refused", "dpop.client-token-request"),
    _of("refresh-key-new", "dpop.client-token-request"),
    _of("refresh-unproved", "dpop.client-token-request"),
    _of("no-ath", "dpop.client-claims"),
    _of("ath-stale", "dpop.client-claims"),
    _of("htu-with-query", "dpop.client-claims"),
    # The URL of the server has a query in one scenario.
    _of("htu-as-requested", "dpop.client-claims"),
    _of("no-token-nonce", "dpop.client-token-nonce"),
    _of("no-call-nonce", "dpop.client-nonce"),
    _of("nonce-once", "dpop.client-nonce"),
    _of("one-nonce-for-all", "dpop.client-nonce"),
    _of("symmetric-proof", "dpop.client-asymmetric"),
    _of("proof-type-always", "dpop.client-header"),
    _of("htu-always-with-query", "dpop.client-claims"),
    _of("symmetric-proof-always", "dpop.client-asymmetric"),
    _of("rsa-proof", "dpop.client-algorithm"),
    _of("machine-password", "client-credentials.client-grant"),
    _of(
        "no-secret",
        "client-credentials.client-proves",
        "auth.client-preregistered",
        "ema.client-proves",
        "auth.client-oauth21",
    ),
    _of("secret-unencoded", "client-credentials.client-proves", "ema.client-proves", "auth.client-oauth21"),
    _of("no-assertion", "client-credentials.client-assertion", "client-credentials.client-proves"),
    _of("no-assertion-type", "client-credentials.client-assertion-type"),
    _of("assertion-subject", "client-credentials.client-assertion-claims"),
    _of("assertion-audience", "client-credentials.client-assertion-claims"),
    _of("assertion-audience-origin", "client-credentials.client-assertion-claims"),
    _of("assertion-in-milliseconds", "client-credentials.client-assertion-claims"),
    _of("assertion-reused", "client-credentials.client-assertion-claims"),
    _of("machine-registers", "client-credentials.client-no-registration"),
    _of("machine-scope-ignored", "client-credentials.client-scope"),
    _of("machine-consents", "client-credentials.client-no-person"),
    _of("workload-other-grant", "wif.client-grant"),
    _of("workload-other-assertion", "wif.client-shows-assertion", "wif.client-unregistered"),
    _of("workload-unsigned", "wif.client-shows-assertion"),
    _of("workload-registers", "wif.client-unregistered"),
    _of("workload-registers-later", "wif.client-unregistered"),
    _of("workload-as-client", "wif.client-unregistered"),
    _of("workload-shown", "auth.client-no-cross-credentials"),
    _of("workload-silent", "wif.client-refusal-told"),
    _of("workload-retries", "wif.client-refused-once"),
    _of("workload-falls-back", "wif.client-refused-stays"),
    _of("employee-undeclared", "ema.client-declared"),
    _of("exchange-grant", "ema.client-token-exchange"),
    _of("exchange-type", "ema.client-requested-token-type"),
    _of("exchange-audience", "ema.client-audience"),
    _of("exchange-audience-origin", "ema.client-audience"),
    _of("exchange-resource", "ema.client-resource"),
    # It is correct.
    _of("exchange-without-resource"),
    _of("exchange-subject", "ema.client-subject-token"),
    _of("exchange-unknown", "ema.client-client-auth-at-idp"),
    _of("exchange-without-secret", "ema.client-client-auth-at-idp"),
    _of("exchange-not-n-a", "ema.client-takes-n-a"),
    _of(
        "id-jag-as-token",
        "ema.client-takes-n-a",
        "auth.client-own-tokens",
        "auth.client-no-cross-credentials",
    ),
    _of("employee-grant", "ema.client-grant"),
    _of("employee-unproved", "ema.client-proves"),
    _of("employee-idp-client", "ema.client-proves"),
    _of("employee-refused-consents", "ema.client-no-person"),
    _of("employee-consents", "ema.client-no-person"),
    # Without a user, it obtains its first token only.
    _of(
        "consents-later",
        "client-credentials.client-grant",
        "client-credentials.client-no-person",
        "ema.client-no-person",
    ),
)
"""All faults of the raw client with a login."""


def _document(fault: str) -> bytes:
    """Return the document that the author of the raw client hosts."""
    members: dict[str, str | list[str]] = {
        "client_id": DOCUMENT_URL,
        "client_name": "raw",
        "redirect_uris": ["http://127.0.0.1/callback"],
    }
    if fault == "document-nameless":
        del members["client_name"]
    if fault == "document-of-another-page":
        members["redirect_uris"] = ["https://raw.example/callback"]
    if fault == "document-of-another-url":
        members["client_id"] = DOCUMENT_URL.upper()
    return json.dumps(members).encode()


async def try_login_fault(fault: ClientFault, *, own: bool = False) -> FaultResult:
    """Test the raw client with a fault in the scenarios with a login.

    Args:
        fault: The fault.
        own: Run only the checks that must detect the fault, which is faster.
    """
    words = f"{shlex.join(peer_command(CLIENT_WITH_LOGIN))} --fault {fault.name} --url {{url}}"
    chosen = (
        fault.caught_by
        if own and fault.caught_by
        else [each.id for each in CLIENT_CHECKS if each.area in _AREAS or each.id in fault.caught_by]
    )
    run = await run_client(
        ClientCommand(http=words),
        Settings(timeout=TIMEOUT, client_document=_document(fault.name)),
        revisions=[REVISIONS[fault.revision]],
        chosen=chosen,
    )
    return FaultResult.of(
        fault.name,
        fault.revision,
        fault.transport,
        expected=fault.caught_by,
        failed=failed_checks(run),
        findings=failed_checks(attributed(run)),
    )
