"""How a client becomes known to an authorization server: by what it was given, by a document, or by registering itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.clients.violations import Rule, add_rules
from mcp_conformance.oauth_testbed.http_messages import single

if TYPE_CHECKING:
    from mcp_conformance.checks.auth.clients.violations import Seen

_DEFAULT: Final = "auth/metadata-default"
_OWN: Final = "auth/2025-03-26-oauth-metadata-backcompat"
_OWN_GIVEN: Final = "auth/2025-03-26-pre-registration"


def _looked(found: Seen) -> bool:
    return any(".well-known" in each.url for each in found.testbed.requests)


def _authorized(found: Seen) -> bool:
    return bool(found.authorizations)


def _registered(found: Seen) -> bool:
    return bool(found.registrations)


def _client_ids(found: Seen) -> list[str]:
    return [single(each.query).get("client_id", "") for each in found.authorizations]


def _document_used(found: Seen) -> str | None:
    if found.registrations:
        return "the client registers itself"
    return next((f"client_id {id!a} in an authorization request" for id in _client_ids(found) if "://" not in id), None)


def _first_choice(found: Seen) -> str | None:
    if found.name == "auth/basic-cimd":
        return _document_used(found)
    other = [id for id in _client_ids(found) if id != "given-client"]
    if found.registrations:
        return "the client registers itself"
    return f"client_id {other[0]!a} in an authorization request" if other else None


def _no_document(found: Seen) -> str | None:
    return next((f"client_id {id!a} in an authorization request" for id in _client_ids(found) if "://" in id), None)


def _has_document(found: Seen) -> bool:
    return any("://" in id for id in _client_ids(found))


def _ended_after_refusal(found: Seen) -> str | None:
    if found.evidence.status is None:
        return found.evidence.ending
    return None if not found.authorizations else f"GET {found.authorizations[0].place}"


def _reported(found: Seen) -> str | None:
    if found.evidence.status == 0 or not found.evidence.log.strip():
        return f"it ended with status {found.evidence.status}, and wrote {len(found.evidence.log)} characters about it"
    return None


def _foreign_id_shown(found: Seen) -> str | None:
    shown = [each for each in found.testbed.requests if "given-client" in each.url + each.body.decode("latin-1")]
    return f"{shown[0].method} {shown[0].place} shows the client id of another authorization server" if shown else None


def _migrated(found: Seen) -> bool:
    return found.testbed.server.retired


add_rules(
    (
        Rule(
            id="auth.client-registers",
            title="A client without an id registers itself.",
            proves=("auth.dcr-client",),
            notes=("auth.dcr-client",),
            within=(_DEFAULT, _OWN),
            tested=_authorized,
            wrong=lambda found: None if found.registrations else "the client never registers",
        ),
        Rule(
            id="auth.client-registration-obtained",
            title="The client has a client id before it asks for authorization.",
            proves=("auth.registration-obtained",),
            notes=("auth.registration-obtained",),
            tested=_authorized,
        ),
        Rule(
            id="auth.client-preregistered",
            title="A client that is given an id and a secret uses them where nobody can register.",
            proves=("auth.preregistration", "auth.client-id-without-dcr", "auth.dcr-optional", "auth.dcr-may"),
            within=("auth/pre-registration", _OWN_GIVEN),
            gets_in=True,
        ),
        Rule(
            id="auth.client-registration-priority",
            title="A given client id comes before a metadata document, and that before registration.",
            proves=("auth.registration-priority",),
            within=("auth/basic-cimd", "auth/pre-registration-first"),
            tested=_authorized,
            wrong=_first_choice,
        ),
        Rule(
            id="auth.client-document",
            title="The client has a metadata document, and uses its URL as client id where that is taken.",
            proves=("auth.cimd-client", "auth.cimd-should", "auth.dcr-deprecated"),
            within=("auth/basic-cimd",),
            tested=_authorized,
            wrong=_document_used,
        ),
        Rule(
            id="auth.client-document-url",
            title="A client id that is a URL is one of https, with a path.",
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
            title="Where the metadata do not say that documents are taken, the client comes otherwise.",
            proves=("auth.cimd-client-checks-support", "auth.cimd-client-checks"),
            notes=("auth.cimd-client-checks",),
            within=(_DEFAULT,),
            tested=_authorized,
            wrong=_no_document,
        ),
        Rule(
            id="auth.client-application-type",
            title="A registration says whether the client is native or on the web.",
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
            title="A registration lists refresh_token among the grant types.",
            proves=("auth.refresh-grant-type",),
            notes=("auth.refresh-grant-type",),
            tested=_registered,
        ),
        Rule(
            id="auth.client-registration-refused",
            title="A client whose registration is refused comes to an end, and authorizes nothing.",
            proves=("auth.dcr-failure-handled",),
            within=("auth/registration-refused",),
            tested=_registered,
            wrong=_ended_after_refusal,
        ),
        Rule(
            id="auth.client-registration-refusal-told",
            title="A client whose registration is refused says so.",
            proves=("auth.dcr-failure-surfaced",),
            within=("auth/registration-refused",),
            tested=_registered,
            wrong=_reported,
        ),
        Rule(
            id="auth.client-redirect-registered",
            title="The redirect URI is one that was registered.",
            proves=("auth.redirect-uris-registered", "auth.redirect-registered"),
            notes=("auth.redirect-registered",),
            tested=_authorized,
        ),
        Rule(
            id="auth.client-redirect-safe",
            title="Redirect URIs are https, or lead to the machine itself.",
            proves=("auth.redirect-uri-scheme", "auth.redirect-https-or-localhost"),
            notes=("auth.redirect-https-or-localhost",),
            tested=_authorized,
        ),
        Rule(
            id="auth.client-credentials-by-issuer",
            title="Credentials that were given for one authorization server are not shown to another.",
            proves=("auth.credentials-keyed-by-issuer",),
            within=("auth/pre-registration-elsewhere",),
            tested=_looked,
            wrong=_foreign_id_shown,
        ),
        Rule(
            id="auth.client-credentials-elsewhere-told",
            title="A client whose credentials are for another authorization server says so.",
            proves=("auth.as-change-preregistered-error",),
            within=("auth/pre-registration-elsewhere",),
            tested=_looked,
            wrong=_reported,
        ),
        Rule(
            id="auth.client-change-no-reuse",
            title="A client id is not shown to an authorization server that came after the one that gave it.",
            proves=("auth.as-change-no-reuse",),
            notes=("auth.as-change-no-reuse",),
            within=("auth/authorization-server-migration",),
            tested=_migrated,
        ),
        Rule(
            id="auth.client-change-reregisters",
            title="A client registers at an authorization server that came after another.",
            proves=("auth.as-change-reregister", "auth.separate-state-per-as"),
            notes=("auth.as-change-reregister",),
            within=("auth/authorization-server-migration",),
            tested=_migrated,
            wrong=lambda found: (
                None
                if any(each.origin == found.testbed.places.other for each in found.registrations)
                else f"no registration there; {found.ending}"
            ),
        ),
    )
)
