"""Client registration: preregistered clients, client ID metadata documents, and dynamic registration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.clients.violations import Rule, add_rules
from mcp_conformance.oauth_testbed.http_messages import single

if TYPE_CHECKING:
    from mcp_conformance.checks.auth.clients.violations import OAuthRun

_DEFAULT: Final = "auth/metadata-default"
_OWN: Final = "auth/2025-03-26-oauth-metadata-backcompat"
_OWN_GIVEN: Final = "auth/2025-03-26-pre-registration"


def _looked(found: OAuthRun) -> bool:
    return any(".well-known" in each.url for each in found.testbed.requests)


def _authorized(found: OAuthRun) -> bool:
    return bool(found.authorizations)


def _registered(found: OAuthRun) -> bool:
    return bool(found.registrations)


def _client_ids(found: OAuthRun) -> list[str]:
    return [single(each.query).get("client_id", "") for each in found.authorizations]


def _document_used(found: OAuthRun) -> str | None:
    if found.registrations:
        return "the client registers dynamically"
    return next((f"client_id {id!a} in an authorization request" for id in _client_ids(found) if "://" not in id), None)


def _first_choice(found: OAuthRun) -> str | None:
    if found.name == "auth/basic-cimd":
        return _document_used(found)
    other = [id for id in _client_ids(found) if id != "given-client"]
    if found.registrations:
        return "the client registers dynamically"
    return f"client_id {other[0]!a} in an authorization request" if other else None


def _no_document(found: OAuthRun) -> str | None:
    return next((f"client_id {id!a} in an authorization request" for id in _client_ids(found) if "://" in id), None)


def _has_document(found: OAuthRun) -> bool:
    return any("://" in id for id in _client_ids(found))


def _ended_after_refusal(found: OAuthRun) -> str | None:
    if found.evidence.status is None:
        return found.evidence.ending
    return None if not found.authorizations else f"GET {found.authorizations[0].place}"


def _reported(found: OAuthRun) -> str | None:
    if found.evidence.status == 0 or not found.evidence.log.strip():
        return f"it exited with status {found.evidence.status}, and wrote {len(found.evidence.log)} characters about it"
    return None


def _foreign_id_shown(found: OAuthRun) -> str | None:
    shown = [each for each in found.testbed.requests if "given-client" in each.url + each.body.decode("latin-1")]
    return (
        f"{shown[0].method} {shown[0].place} contains the client id for another authorization server" if shown else None
    )


def _migrated(found: OAuthRun) -> bool:
    return found.testbed.server.retired


add_rules(
    (
        Rule(
            id="auth.client-registers",
            title="A client without an id registers dynamically.",
            proves=("auth.dcr-client",),
            notes=("auth.dcr-client",),
            within=(_DEFAULT, _OWN),
            tested=_authorized,
            wrong=lambda found: None if found.registrations else "the client never registers",
        ),
        Rule(
            id="auth.client-registration-obtained",
            title="The client has a client id before its authorization request.",
            proves=("auth.registration-obtained",),
            notes=("auth.registration-obtained",),
            tested=_authorized,
        ),
        Rule(
            id="auth.client-preregistered",
            title="A client with a given id and secret uses them if dynamic registration is not possible.",
            proves=("auth.preregistration", "auth.client-id-without-dcr", "auth.dcr-optional", "auth.dcr-may"),
            within=("auth/pre-registration", _OWN_GIVEN),
            gets_in=True,
        ),
        Rule(
            id="auth.client-registration-priority",
            title="A given client id takes precedence over a metadata document, and that over dynamic registration.",
            proves=("auth.registration-priority",),
            within=("auth/basic-cimd", "auth/pre-registration-first"),
            tested=_authorized,
            wrong=_first_choice,
        ),
        Rule(
            id="auth.client-document",
            title="The client has a metadata document, and uses its URL as client id if the server supports it.",
            proves=("auth.cimd-client", "auth.cimd-should", "auth.dcr-deprecated"),
            within=("auth/basic-cimd",),
            tested=_authorized,
            wrong=_document_used,
        ),
        Rule(
            id="auth.client-document-url",
            title="A client id that is a URL uses https and has a path.",
            proves=(
                "auth.cimd-hosted-https",
                "auth.cimd-client-id-url",
                "auth.cimd-https-hosted",
                "auth.cimd-client-id-form",
            ),
            notes=("auth.cimd-client-id-form",),
            within=("auth/basic-cimd",),
            tested=_has_document,
        ),
        Rule(
            id="auth.client-document-unasked",
            title="If the metadata do not advertise support for documents, or deny it, the client uses another way.",
            proves=("auth.cimd-client-checks-support", "auth.cimd-client-checks"),
            notes=("auth.cimd-client-checks",),
            within=(_DEFAULT, "auth/token-expiry"),
            tested=_authorized,
            wrong=_no_document,
        ),
        Rule(
            id="auth.client-application-type",
            title="A registration has the application_type native or web.",
            proves=("auth.dcr-application-type",),
            notes=("auth.dcr-application-type",),
            tested=_registered,
        ),
        Rule(
            id="auth.client-native",
            title="A client with a redirect URI on its own machine registers as native.",
            proves=("auth.dcr-native",),
            notes=("auth.dcr-native",),
            tested=_registered,
        ),
        Rule(
            id="auth.client-grant-types",
            title="A registration lists refresh_token in grant_types.",
            proves=("auth.refresh-grant-type",),
            notes=("auth.refresh-grant-type",),
            tested=_registered,
        ),
        Rule(
            id="auth.client-registration-refused",
            title="A client whose registration is rejected stops, and sends no authorization request.",
            proves=("auth.dcr-failure-handled",),
            within=("auth/registration-refused",),
            tested=_registered,
            wrong=_ended_after_refusal,
        ),
        Rule(
            id="auth.client-registration-refusal-told",
            title="A client whose registration is rejected reports the error.",
            proves=("auth.dcr-failure-surfaced",),
            within=("auth/registration-refused",),
            tested=_registered,
            wrong=_reported,
        ),
        Rule(
            id="auth.client-redirect-registered",
            title="The redirect URI is registered.",
            proves=("auth.redirect-uris-registered", "auth.redirect-registered"),
            notes=("auth.redirect-registered",),
            tested=_authorized,
        ),
        Rule(
            id="auth.client-redirect-safe",
            title="Redirect URIs use https, or are on the local machine.",
            proves=("auth.redirect-uri-scheme", "auth.redirect-https-or-localhost"),
            notes=("auth.redirect-https-or-localhost",),
            tested=_authorized,
        ),
        Rule(
            id="auth.client-credentials-by-issuer",
            title="Credentials for one authorization server are not sent to another.",
            proves=("auth.credentials-keyed-by-issuer",),
            within=("auth/pre-registration-elsewhere",),
            tested=_looked,
            wrong=_foreign_id_shown,
        ),
        Rule(
            id="auth.client-credentials-elsewhere-told",
            title="A client with credentials for another authorization server only reports the error.",
            proves=("auth.as-change-preregistered-error",),
            within=("auth/pre-registration-elsewhere",),
            tested=_looked,
            wrong=_reported,
        ),
        Rule(
            id="auth.client-change-no-reuse",
            title="A client id is not reused at the authorization server that replaces the one that issued it.",
            proves=("auth.as-change-no-reuse",),
            notes=("auth.as-change-no-reuse",),
            within=("auth/authorization-server-migration",),
            tested=_migrated,
        ),
        Rule(
            id="auth.client-change-reregisters",
            title="A client registers again at an authorization server that replaces another.",
            proves=("auth.as-change-reregister", "auth.separate-state-per-as"),
            notes=("auth.as-change-reregister",),
            within=("auth/authorization-server-migration",),
            tested=_migrated,
            wrong=lambda found: (
                None
                if any(each.place.startswith(found.testbed.places.other) for each in found.registrations)
                else f"no registration at the new authorization server; {found.ending}"
            ),
        ),
    )
)
