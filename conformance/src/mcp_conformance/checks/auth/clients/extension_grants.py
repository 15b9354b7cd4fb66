"""Clients of the extensions for client credentials, workload identity and enterprise-managed authorization.

All of these are optional: a client that does not start such a flow is not judged.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.clients.violations import Rule, add_rules
from mcp_conformance.oauth_testbed.http_messages import Request, json_object, single
from mcp_conformance.oauth_testbed.metadata_documents import is_among

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_conformance.checks.auth.clients.violations import OAuthRun

_UNAUTHORIZED: Final = 401
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_MANAGED: Final = "io.modelcontextprotocol/enterprise-managed-authorization"

_SECRET: Final = "auth/client-credentials-basic"
_KEY: Final = "auth/client-credentials-jwt"
_MACHINE: Final = (_SECRET, _KEY)
_EMPLOYEE: Final = ("auth/enterprise-managed-authorization",)
_BY_SECRET: Final = ("auth/enterprise-managed-authorization-secret",)
"""The scenario in which the client has a secret at the identity provider."""
_WORKLOAD: Final = ("auth/wif-jwt-bearer",)
_REFUSED: Final = ("auth/wif-refused",)

_NO_MACHINE: Final = "does not use the client credentials grant"
_NO_WORKLOAD: Final = "does not send the JWT of its platform"
_NO_EMPLOYEE: Final = "does not send a request to the identity provider"


# --- client credentials --------------------------------------------------------------------------------------------------


def _forms(found: OAuthRun) -> list[dict[str, str]]:
    return [single(each.form) for each in found.tokens]


def _machine(found: OAuthRun) -> bool:
    """Return whether the client authenticates at the token endpoint in any way."""
    return any(_by_machine(each) for each in found.tokens)


def _by_machine(request: Request) -> bool:
    form = single(request.form)
    named = form.get("client_id") == "machine" or _basic(request).startswith("machine:")
    return named or "client_assertion" in form


def _basic(request: Request) -> str:
    """Return the decoded credentials of the scheme Basic; empty without any."""
    scheme, _, credentials = (request.header("authorization") or "").partition(" ")
    try:
        return base64.b64decode(credentials).decode("latin-1") if scheme.lower() == "basic" else ""
    except ValueError:
        return ""


def _other_grant(found: OAuthRun, expected: str) -> str | None:
    grants = [form.get("grant_type") for form in _forms(found)]
    return next((f"grant_type {each!a}" for each in grants if each != expected), None)


def _second_grant(found: OAuthRun) -> str | None:
    first, *later = (form.get("grant_type") for form in _forms(found))
    return next((f"grant_type {each!a} after {first!a}" for each in later if each != first), None)


def _unproved(found: OAuthRun) -> str | None:
    for each in found.tokens:
        form = single(each.form)
        if each.header("authorization") is None and not {"client_secret", "client_assertion"} & form.keys():
            return "a token request without a secret or an assertion"
    return _wrong_secret(found)


def _wrong_secret(found: OAuthRun) -> str | None:
    """Return what is wrong if the server accepts no secret that the client sends; assertions have their own check."""
    answers = [
        answer.status
        for request, answer in zip(found.testbed.requests, found.testbed.answers, strict=True)
        if request in found.tokens and _has_secret(request) and answer is not None
    ]
    refused = bool(answers) and set(answers) == {_UNAUTHORIZED}
    return "the id and the secret are not those that the client was given, each encoded as a form" if refused else None


def _has_secret(request: Request) -> bool:
    return request.header("authorization") is not None or "client_secret" in single(request.form)


def _registers(found: OAuthRun) -> str | None:
    return "the client registers dynamically" if found.registrations else None


def _consents(found: OAuthRun) -> str | None:
    return f"GET {found.authorizations[0].place}" if found.authorizations else None


def _first_challenged(found: OAuthRun) -> dict[str, str] | None:
    """Return the first token request with client credentials, if a challenge precedes it."""
    challenged = False
    for request, answer in zip(found.testbed.requests, found.testbed.answers, strict=True):
        if request.place == found.testbed.places.endpoint and answer is not None:
            challenged = challenged or answer.status == _UNAUTHORIZED
        form = single(request.form)
        if request in found.tokens and form.get("grant_type") == "client_credentials":
            return form if challenged else None
    return None


def _unchallenged(found: OAuthRun) -> str | None:
    """Return how the first token request lacks a scope of the challenge; later challenges name none."""
    first = _first_challenged(found) or {}
    missing = set(found.testbed.quirks.scopes) - set(first.get("scope", "").split())
    return f"scope {first.get('scope')!a} without {' '.join(sorted(missing))}" if missing else None


def _no_resource(found: OAuthRun) -> str | None:
    right = {found.testbed.places.resource}
    named = [form.get("resource") for form in _forms(found)]
    return next((f"resource {each!a}" for each in named if each is None or not is_among(each, right)), None)


def _no_assertion_type(found: OAuthRun) -> str | None:
    typed = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    for form in _forms(found):
        if form.get("client_assertion_type") != typed:
            return f"client_assertion_type {form.get('client_assertion_type')!a}"
    return None


def _asserted(found: OAuthRun) -> bool:
    return any("client_assertion" in form for form in _forms(found))


# --- workload identity federation ----------------------------------------------------------------------------------------


def _workload(found: OAuthRun) -> bool:
    """Return whether the client sends the JWT of the platform, or any JWT as its authorization."""
    given = found.testbed.workload
    return any(
        given in each.body.decode("latin-1") or single(each.form).get("grant_type") == _JWT_BEARER
        for each in found.tokens
    )


def _assertion(found: OAuthRun) -> str | None:
    given = found.testbed.workload
    return next(
        (f"assertion {form.get('assertion')!a}" for form in _forms(found) if form.get("assertion") != given), None
    )


def _known_otherwise(found: OAuthRun) -> str | None:
    if found.registrations:
        return "the client registers dynamically"
    for each in found.tokens:
        if _has_secret(each) or "client_assertion" in single(each.form):
            return "a token request authenticates a client"
    return None


def _not_reported(found: OAuthRun) -> str | None:
    if found.evidence.status == 0 or not found.evidence.log.strip():
        return f"it exited with status {found.evidence.status}, and wrote {len(found.evidence.log)} characters about it"
    return None


def _again(found: OAuthRun) -> str | None:
    count = sum(form.get("grant_type") == _JWT_BEARER for form in _forms(found))
    return f"{count} token requests" if count > 1 else None


# --- enterprise-managed authorization ------------------------------------------------------------------------------------


def _exchanges(found: OAuthRun) -> Sequence[Request]:
    return [each for each in found.testbed.requests if each.place == f"{found.testbed.idp.clients.issuer}/token"]


def _uses_idp(found: OAuthRun) -> bool:
    return bool(_exchanges(found))


def _has_assertion(found: OAuthRun) -> bool:
    return any(secret.startswith("id-jag-") for secret in found.testbed.secrets)


def _undeclared(found: OAuthRun) -> str | None:
    for each in found.calls:
        message = json_object(each.body) or {}
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        declared = meta.get("io.modelcontextprotocol/clientCapabilities") if isinstance(meta, dict) else None
        extensions = declared.get("extensions") if isinstance(declared, dict) else None
        if "id" in message and (not isinstance(extensions, dict) or _MANAGED not in extensions):
            return f"{message.get('method')} does not declare {_MANAGED}"
    return None


def _id_jag_grant(found: OAuthRun) -> str | None:
    forms = _forms(found)
    right = [f for f in forms if f.get("grant_type") == _JWT_BEARER and f.get("assertion", "").startswith("id-jag-")]
    return None if right else f"token requests: {', '.join(str(f.get('grant_type')) for f in forms) or 'none'}"


def _id_jag_shown(found: OAuthRun) -> str | None:
    for each in found.calls:
        if any("id-jag-" in value for _, value in each.headers):
            return "the MCP server gets the ID-JAG"
    return None if found.tokens else f"the ID-JAG is not sent; {found.ending}"


def _at_server(found: OAuthRun) -> str | None:
    for each in found.tokens:
        form = single(each.form)
        in_body = form.get("client_id") == "app" and "client_secret" in form
        if not in_body and not _basic(each).startswith("app:"):
            return f"a token request with {'another' if _has_secret(each) else 'no'} authentication"
    return _wrong_secret(found)


def _tokens(found: OAuthRun) -> bool:
    return bool(found.tokens)


def _exchange(id: str, title: str, *, within: Sequence[str] = _EMPLOYEE) -> Rule:
    return Rule(
        id=f"ema.client-{id}",
        title=title,
        proves=(f"ema.{id}",),
        notes=(f"ema.{id}",),
        within=within,
        tested=_uses_idp,
        optional=_NO_EMPLOYEE,
    )


add_rules(
    (
        Rule(
            id="client-credentials.client-grant",
            title="The token request with client credentials has the grant_type client_credentials.",
            proves=("client-credentials.grant-type",),
            within=_MACHINE,
            tested=_machine,
            wrong=lambda found: _other_grant(found, "client_credentials"),
            optional=_NO_MACHINE,
        ),
        Rule(
            id="client-credentials.client-proves",
            title="The client authenticates with a secret or an assertion.",
            proves=("client-credentials.auth-method", "client-credentials.secret"),
            within=_MACHINE,
            tested=_machine,
            wrong=_unproved,
            optional=_NO_MACHINE,
        ),
        Rule(
            id="client-credentials.client-assertion",
            title="A client with a key authenticates with an assertion.",
            proves=("client-credentials.jwt-recommended",),
            within=(_KEY,),
            tested=_machine,
            wrong=lambda found: None if _asserted(found) else "token requests without an assertion",
            optional=_NO_MACHINE,
        ),
        Rule(
            id="client-credentials.client-assertion-type",
            title="An assertion has a client_assertion_type.",
            proves=("client-credentials.jwt-assertion-type",),
            notes=("client-credentials.jwt-assertion-type",),
            within=(_KEY,),
            tested=_asserted,
            wrong=_no_assertion_type,
            optional="sends no assertion",
        ),
        Rule(
            id="client-credentials.client-assertion-claims",
            title=(
                "An assertion has the client id as issuer and subject, the authorization server as audience, and "
                "an expiry."
            ),
            proves=("client-credentials.jwt-claims",),
            notes=("client-credentials.jwt-claims",),
            within=(_KEY,),
            tested=_asserted,
            optional="sends no assertion",
        ),
        Rule(
            id="client-credentials.client-no-registration",
            title="A client with client credentials does not register dynamically.",
            proves=("client-credentials.no-dcr",),
            within=_MACHINE,
            tested=_machine,
            wrong=_registers,
            optional=_NO_MACHINE,
        ),
        Rule(
            id="client-credentials.client-resource",
            title="The token request names the MCP server as resource.",
            proves=("client-credentials.resource",),
            within=_MACHINE,
            tested=_machine,
            wrong=_no_resource,
            optional=_NO_MACHINE,
        ),
        Rule(
            id="client-credentials.client-scope",
            title="The first token request names the scopes of the challenge.",
            proves=("auth.scope-priority-challenge",),
            within=_MACHINE,
            tested=_first_challenged,
            attempted=_machine,
            wrong=_unchallenged,
            optional=_NO_MACHINE,
        ),
        Rule(
            id="client-credentials.client-no-person",
            title="The client sends no user to the authorization endpoint.",
            proves=("client-credentials.no-user-interaction",),
            within=_MACHINE,
            tested=_machine,
            wrong=_consents,
            optional=_NO_MACHINE,
        ),
        Rule(
            id="wif.client-grant",
            title="The token request of a workload has the JWT bearer grant type.",
            proves=("wif.client-grant-type",),
            within=_WORKLOAD,
            tested=_workload,
            wrong=lambda found: _other_grant(found, _JWT_BEARER),
            optional=_NO_WORKLOAD,
        ),
        Rule(
            id="wif.client-shows-assertion",
            title="The assertion is the JWT of the platform.",
            proves=("wif.client-assertion",),
            within=_WORKLOAD,
            tested=_workload,
            wrong=_assertion,
            optional=_NO_WORKLOAD,
        ),
        Rule(
            id="wif.client-names-resource",
            title="The resource is the MCP server.",
            proves=("wif.client-resource",),
            within=_WORKLOAD,
            tested=_workload,
            wrong=_no_resource,
            optional=_NO_WORKLOAD,
        ),
        Rule(
            id="wif.client-unregistered",
            title="The workload neither registers nor authenticates as a client.",
            proves=("wif.client-no-registration",),
            within=_WORKLOAD,
            tested=_workload,
            wrong=_known_otherwise,
            optional=_NO_WORKLOAD,
        ),
        Rule(
            id="wif.client-refusal-told",
            title="A client whose assertion is rejected reports the error.",
            proves=("wif.client-surfaces-errors",),
            within=_REFUSED,
            tested=_workload,
            wrong=_not_reported,
            optional=_NO_WORKLOAD,
        ),
        Rule(
            id="wif.client-refused-once",
            title="A client whose assertion is rejected does not send it again.",
            proves=("wif.client-no-retry",),
            within=_REFUSED,
            tested=_workload,
            wrong=_again,
            optional=_NO_WORKLOAD,
        ),
        Rule(
            id="wif.client-refused-stays",
            title="A client whose assertion is rejected does not try another grant.",
            proves=("wif.client-no-grant-fallback",),
            within=_REFUSED,
            tested=_workload,
            wrong=lambda found: _second_grant(found) or _consents(found),
            optional=_NO_WORKLOAD,
        ),
        Rule(
            id="ema.client-declared",
            title="A client with enterprise-managed authorization declares the extension.",
            proves=("ema.declared",),
            within=_EMPLOYEE,
            tested=_uses_idp,
            wrong=_undeclared,
            optional=_NO_EMPLOYEE,
        ),
        _exchange("token-exchange", "The request to the identity provider is a token exchange."),
        _exchange("requested-token-type", "The requested token type is ID-JAG."),
        _exchange("audience", "The audience of the ID-JAG is the authorization server of the MCP server."),
        _exchange("resource", "The resource of the ID-JAG, if the client names one, is the MCP server."),
        _exchange("subject-token", "The subject token is the ID token, with its type."),
        _exchange(
            "client-auth-at-idp",
            "The client authenticates at the identity provider, with its secret there if it has one.",
            within=(*_EMPLOYEE, *_BY_SECRET),
        ),
        Rule(
            id="ema.client-takes-n-a",
            title="The token type N_A is accepted, and the ID-JAG is not sent to the MCP server.",
            proves=("ema.client-accepts-n-a",),
            within=_EMPLOYEE,
            tested=_has_assertion,
            wrong=_id_jag_shown,
            optional=_NO_EMPLOYEE,
        ),
        Rule(
            id="ema.client-grant",
            title="The token request has the JWT bearer grant type, and the ID-JAG as assertion.",
            proves=("ema.access-token-grant",),
            within=_EMPLOYEE,
            tested=_tokens,
            wrong=_id_jag_grant,
            optional=_NO_EMPLOYEE,
        ),
        Rule(
            id="ema.client-proves",
            title="The client authenticates at the authorization server with its credentials there.",
            proves=("ema.client-auth-at-as",),
            within=_EMPLOYEE,
            tested=_tokens,
            wrong=_at_server,
            optional=_NO_EMPLOYEE,
        ),
        Rule(
            id="ema.client-no-person",
            title="No user is sent to the authorization endpoint.",
            proves=("ema.no-interactive-redirect",),
            within=_EMPLOYEE,
            tested=_uses_idp,
            wrong=_consents,
            optional=_NO_EMPLOYEE,
        ),
    )
)
