"""The authorization and token requests of a client: resources, scopes, PKCE, state and issuer."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mcp_conformance.checks.auth.clients.violations import ALL_LOGINS, Rule, add_rules
from mcp_conformance.oauth_testbed.http_messages import json_object, single
from mcp_conformance.oauth_testbed.metadata_documents import is_among
from mcp_conformance.scenarios.oauth import FOREIGN_ERROR

if TYPE_CHECKING:
    from mcp_conformance.checks.auth.clients.violations import OAuthRun

_DEFAULT: Final = "auth/metadata-default"
_WHOLE_HOST: Final = "auth/metadata-var2"
"""The scenario in which the metadata name the host of the server, without a path, as the resource."""
_NO_GRANTED_SCOPE: Final = "auth/offline-access-not-supported"
"""The scenario in which no token response has a scope, which then is the requested or the earlier one (RFC 6749)."""
_INSATIABLE: Final = "auth/scope-retry-limit"
"""The scenario in which no scopes are ever sufficient."""
_NO_SCOPE: Final = "auth/iss-error-scope"
"""The scenario in which another issuer rejects the scope. A client that heeds it requests less scope."""
_MOST: Final = 5
"""Maximum number of authorization requests for one operation; the specification says "a few"."""
_OK: Final = 200
_FORBIDDEN: Final = 403
_MOVED: Final = frozenset({"auth/scope-from-www-authenticate", "auth/scope-outside-supported"})
"""The scenarios in which the second of two authorization servers does not announce PKCE."""
_WRONG_LATER: Final = frozenset(
    {
        "auth/basic-cimd",
        "auth/iss-not-advertised",
        "auth/no-refresh-token",
        "auth/offline-access-not-supported",
        "auth/resource-in-upper-case",
    }
)
"""The scenarios in which the first authorization response is right, and the later ones are wrong."""
_ISSUES: Final = ("auth.iss-advertised-present", "auth.iss-advertised-absent", "auth.iss-unadvertised-present")


def _authorized(found: OAuthRun) -> bool:
    return bool(found.authorizations)


def _redeemed(found: OAuthRun) -> bool:
    return bool(found.tokens)


def _redeems(found: OAuthRun) -> str | None:
    """Return the token request for a response that had to be dropped; `None` if the client sent none."""
    return f"POST {found.tokens[0].place}" if found.tokens else None


def _scopes(found: OAuthRun) -> list[set[str]]:
    return [set(single(each.query).get("scope", "").split()) for each in found.authorizations]


def _resources(found: OAuthRun) -> list[str]:
    return [single(each.query).get("resource", "") for each in found.authorizations]


def _too_many_scopes(found: OAuthRun) -> str | None:
    more = sorted(_scopes(found)[0] - {"notes:read", "offline_access"})
    return f"{' '.join(more)} requested in addition to notes:read" if more else None


def _empty_scope(found: OAuthRun) -> str | None:
    empty = any(single(each.query).get("scope") == "" for each in found.authorizations)
    return "an authorization request has an empty scope" if empty else None


def _least_specific(found: OAuthRun) -> str | None:
    url = found.testbed.places.resource
    return next((f"resource {each!a} for {url}" for each in _resources(found) if not is_among(each, {url})), None)


def _with_slash(found: OAuthRun) -> str | None:
    return next((f"resource {each!a}" for each in _resources(found) if urlsplit(each).path.endswith("/")), None)


def _not_absolute(found: OAuthRun) -> str | None:
    for each in _resources(found):
        parts = urlsplit(each)
        if not parts.scheme or not parts.netloc or "#" in each:
            return f"resource {each!a}"
    return None


def _fell_short(found: OAuthRun) -> bool:
    """Return whether a token with insufficient scope was rejected."""
    return any(answer is not None and answer.status == _FORBIDDEN for answer in found.testbed.answers)


def _steps_up(found: OAuthRun) -> str | None:
    for method, (scope,) in found.testbed.quirks.scopes_of.items():
        statuses = _statuses(found, method)
        if _FORBIDDEN in statuses and not any(scope in each for each in _scopes(found)):
            requested = "; ".join(" ".join(sorted(each)) for each in _scopes(found))
            return f"{method} gets {_FORBIDDEN}; requested scopes: {requested}"
        granted = any(scope in token.scopes for token in found.testbed.server.tokens.issued.values())
        if granted and _OK not in statuses:
            return f"{method} is not repeated with the new token; {found.ending}"
    return None


def _statuses(found: OAuthRun, method: str) -> set[int]:
    """Return the statuses of the responses to the requests with a method."""
    pairs = zip(found.testbed.requests, found.testbed.answers, strict=True)
    return {
        answer.status
        for request, answer in pairs
        if answer is not None and (json_object(request.body) or {}).get("method") == method
    }


def _keeps_scopes(found: OAuthRun) -> str | None:
    scopes = _scopes(found)
    lost = next((each for each in scopes[1:] if "notes:read" not in each), None)
    if found.name == _INSATIABLE:
        # The challenge of each rejection names a further scope. Later a client may start over.
        lost = next(
            (each for before, each in pairwise(scopes[:3]) if "more:1" in before - each and "more:2" in each), None
        )
    return None if lost is None else f"scope {' '.join(sorted(lost))!a}"


def _tries_on(found: OAuthRun) -> str | None:
    count = len(found.authorizations)
    if count > _MOST:
        return f"{count} authorization requests"
    return found.evidence.ending if found.evidence.status is None else None


def _answered_wrongly(found: OAuthRun) -> bool:
    return len(found.authorizations) > (found.name in _WRONG_LATER)


def _verified(found: OAuthRun) -> bool:
    return found.testbed.other.looked_up if found.name in _MOVED else found.testbed.server.looked_up


def _proceeds(found: OAuthRun) -> str | None:
    places = [each.place for each in found.authorizations]
    if found.name in _MOVED:
        places = [each for each in places if each.startswith(found.testbed.places.other)]
    return f"GET {places[0]}" if places else None


def _smuggled(found: OAuthRun) -> str | None:
    for each in found.testbed.requests:
        if each.header("x-smuggled") is not None:
            return f"{each.method} {each.place} has a header from the URL"
    return None


def _acts_on_error(found: OAuthRun) -> str | None:
    """Return an authorization request that reacts to the error of another issuer; `None` if the client sent none."""
    if found.name != _NO_SCOPE:
        return None
    first, *later = _scopes(found)
    fewer = next((each for each in later if "notes:read" in first - each), None)
    return None if fewer is None else f"scope {' '.join(sorted(fewer))!a} is requested after the error"


def _heeds_error(found: OAuthRun) -> str | None:
    return _shown(found) or _acts_on_error(found)


def _shown(found: OAuthRun) -> str | None:
    visited = any(
        FOREIGN_ERROR in each.url and each.origin == found.testbed.places.evil for each in found.testbed.requests
    )
    if visited:
        return "the client requests its error_uri"
    return f"{FOREIGN_ERROR!r} in its output" if FOREIGN_ERROR in found.evidence.log else None


add_rules(
    (
        Rule(
            id="auth.client-resource-in-authorization",
            title="Each authorization request has a resource.",
            proves=(
                "auth.resource-indicators",
                "auth.resource-implemented",
                "auth.resource-in-authorization",
                "auth.resource-always-sent",
            ),
            notes=("auth.resource-in-authorization",),
            tested=_authorized,
        ),
        Rule(
            id="auth.client-resource-in-token",
            title="Each token request has a resource.",
            proves=("auth.resource-in-both-requests", "auth.resource-in-token"),
            notes=("auth.resource-in-token",),
            tested=_redeemed,
        ),
        Rule(
            id="auth.client-resource-identifies",
            title=(
                "The resource identifies the MCP server, and is the same in the token request and the "
                "authorization request."
            ),
            proves=("auth.resource-identifies-server",),
            notes=("auth.resource-identifies-server",),
            tested=_redeemed,
        ),
        Rule(
            id="auth.client-resource-canonical",
            title="The resource is an absolute URI without a fragment, also if the URL of the server has one.",
            proves=("auth.resource-canonical-uri",),
            notes=("auth.resource-canonical-uri",),
            within=(_DEFAULT, "auth/state-missing"),
            tested=lambda found: any(_resources(found)),
            wrong=_not_absolute,
        ),
        Rule(
            id="auth.client-resource-specific",
            title="The resource is the URL of the MCP server, not a less specific one.",
            proves=("auth.resource-most-specific",),
            within=(_DEFAULT,),
            tested=lambda found: any(_resources(found)),
            wrong=_least_specific,
        ),
        Rule(
            id="auth.client-resource-no-slash",
            title="The resource has no trailing slash if the URL of the server has none, nor the resource in the metadata.",
            proves=("auth.resource-no-trailing-slash",),
            within=(_DEFAULT, _WHOLE_HOST),
            tested=lambda found: any(_resources(found)),
            wrong=_with_slash,
        ),
        Rule(
            id="auth.client-resource-upper-case",
            title="A resource with scheme and host in upper case is accepted as the same.",
            proves=("auth.resource-accept-uppercase", "auth.resource-uppercase-accepted"),
            within=("auth/resource-in-upper-case",),
            gets_in=True,
        ),
        Rule(
            id="auth.client-scope-challenged",
            title="The client requests the scopes of the challenge, in each login.",
            proves=(
                "auth.challenge-scope-authoritative",
                "auth.challenge-authoritative",
                "auth.scope-priority-challenge",
            ),
            notes=("auth.challenge-authoritative",),
            within=("auth/scope-from-www-authenticate", "auth/no-refresh-token"),
            tested=_authorized,
        ),
        Rule(
            id="auth.client-scope-not-intersected",
            title="The client requests the scopes of the challenge even if the metadata do not list them.",
            proves=("auth.challenge-scope-no-relation", "auth.challenge-no-set-assumption"),
            notes=("auth.challenge-authoritative",),
            within=("auth/scope-outside-supported",),
            tested=_authorized,
        ),
        Rule(
            id="auth.client-scope-least",
            title="The client requests no scopes other than those of the challenge.",
            proves=("auth.scope-least-privilege", "auth.least-privilege"),
            within=("auth/scope-from-www-authenticate",),
            tested=_authorized,
            wrong=_too_many_scopes,
        ),
        Rule(
            id="auth.client-scope-supported",
            title="If the challenge has no scope, the client requests all scopes of the metadata.",
            proves=("auth.scope-absent-fallback", "auth.scope-selection-order", "auth.scope-priority-supported"),
            notes=("auth.scope-priority-supported",),
            within=("auth/scope-from-scopes-supported",),
            tested=_authorized,
        ),
        Rule(
            id="auth.client-scope-omitted",
            title="If neither the challenge nor the metadata have scopes, the client requests none.",
            proves=("auth.scope-absent-fallback", "auth.scope-selection-order", "auth.scope-omitted"),
            notes=("auth.scope-omitted",),
            within=("auth/scope-omitted-when-undefined",),
            tested=_authorized,
            wrong=_empty_scope,
        ),
        Rule(
            id="auth.client-step-up",
            title=(
                "A client whose token has insufficient scope requests the missing scope, and sends its request again, also "
                "after it did so for another request."
            ),
            proves=("auth.step-up", "auth.step-up-user", "auth.step-up-respond"),
            within=("auth/scope-step-up",),
            tested=_fell_short,
            wrong=_steps_up,
        ),
        Rule(
            id="auth.client-step-up-union",
            title=(
                "A client that requests a further scope also requests the earlier ones, also after a token has expired or was "
                "refreshed."
            ),
            proves=("auth.step-up-union", "auth.reauth-keeps-scopes"),
            within=("auth/scope-step-up", "auth/no-refresh-token", _NO_GRANTED_SCOPE, _INSATIABLE),
            tested=lambda found: len(found.authorizations) > 1,
            wrong=_keeps_scopes,
        ),
        Rule(
            id="auth.client-step-up-limit",
            title="A client whose scope is always insufficient stops after a few attempts.",
            proves=("auth.step-up-retry-limit",),
            notes=("auth.step-up-retry-limit",),
            within=(_INSATIABLE,),
            tested=_redeemed,
            wrong=_tries_on,
        ),
        Rule(
            id="auth.client-no-offline-access",
            title="The client does not request offline_access if it is not listed.",
            proves=("auth.refresh-offline-access-not-otherwise",),
            notes=("auth.refresh-offline-access-not-otherwise",),
            within=(_DEFAULT, "auth/offline-access-not-supported"),
            tested=_authorized,
        ),
        Rule(
            id="auth.client-without-refresh",
            title="A client works without a refresh token.",
            proves=("auth.refresh-not-assumed",),
            within=("auth/no-refresh-token",),
            gets_in=True,
        ),
        Rule(
            id="auth.client-pkce",
            title="Each authorization request has a PKCE challenge of its own, and each token request has its verifier.",
            proves=("auth.pkce",),
            notes=("auth.pkce",),
            tested=_redeemed,
        ),
        Rule(
            id="auth.client-pkce-s256",
            title="The PKCE method is S256.",
            proves=("auth.pkce-s256",),
            notes=("auth.pkce-s256",),
            tested=_authorized,
        ),
        Rule(
            id="auth.client-pkce-refused",
            title="If RFC 8414 metadata do not list the PKCE method S256, the client does not proceed.",
            proves=("auth.pkce-verify-support", "auth.pkce-refuse", "auth.pkce-refuse-rfc8414"),
            within=("auth/pkce-missing", "auth/pkce-plain", "auth/pkce-empty", "auth/scope-outside-supported"),
            tested=_verified,
            wrong=_proceeds,
        ),
        Rule(
            id="auth.client-pkce-refused-openid",
            title="If OpenID Connect metadata do not list PKCE methods, the client does not proceed.",
            proves=("auth.pkce-verify-support", "auth.pkce-refuse", "auth.pkce-refuse-oidc"),
            within=("auth/pkce-missing-openid", "auth/scope-from-www-authenticate"),
            tested=_verified,
            wrong=_proceeds,
        ),
        Rule(
            id="auth.client-oauth21",
            title=(
                "Authorization and token requests are those of OAuth 2.1: each field once, a form in the body, "
                "one authentication of the client, by the method that it registered, each code unchanged, each code and "
                "each rotated refresh token only once, no scopes in a refresh that were not granted, and no access token of an "
                "unknown type."
            ),
            proves=("auth.security-practices", "auth.oauth21-security"),
            notes=("auth.oauth21-security",),
            within=ALL_LOGINS,
            tested=_redeemed,
        ),
        Rule(
            id="auth.client-state",
            title="Each authorization request has a state of its own; a response without it is dropped.",
            proves=("auth.state",),
            notes=("auth.state",),
            within=(_DEFAULT, "auth/state-wrong", "auth/state-missing", "auth/resource-in-upper-case"),
            tested=lambda found: _answered_wrongly(found) and found.name != _DEFAULT,
        ),
        Rule(
            id="auth.client-iss-before-token",
            title="The issuer of a response is compared with that of the request before its code is used.",
            proves=("auth.iss-validate-before-token", "auth.record-issuer"),
            notes=_ISSUES,
            within=("auth/iss-wrong-issuer",),
            tested=_authorized,
            wrong=_redeems,
        ),
        Rule(
            id="auth.client-iss-present",
            title="A response with another issuer is dropped, in each login.",
            proves=("auth.iss-advertised-present",),
            notes=_ISSUES,
            within=("auth/iss-wrong-issuer", "auth/offline-access-not-supported"),
            tested=_answered_wrongly,
        ),
        Rule(
            id="auth.client-iss-absent",
            title="A response without an issuer, or with an empty one, is dropped if the metadata announce one.",
            proves=("auth.iss-advertised-absent",),
            notes=_ISSUES,
            within=("auth/iss-supported-missing", "auth/no-refresh-token"),
            tested=_answered_wrongly,
        ),
        Rule(
            id="auth.client-iss-unexpected",
            title="A response with another issuer is dropped even if the metadata announce none.",
            proves=("auth.iss-unadvertised-present",),
            notes=_ISSUES,
            within=("auth/iss-unexpected", "auth/iss-not-advertised"),
            tested=_answered_wrongly,
        ),
        Rule(
            id="auth.client-iss-not-wanted",
            title="A response without an issuer is accepted if the metadata announce none.",
            proves=("auth.iss-unadvertised-absent",),
            within=("auth/iss-not-advertised", "auth/scope-omitted-when-undefined"),
            gets_in=True,
            tested=_authorized,
        ),
        Rule(
            id="auth.client-iss-exact",
            title="An issuer with an additional trailing slash, in another case, or percent-encoded, is another issuer.",
            proves=("auth.iss-no-normalization",),
            notes=_ISSUES,
            within=("auth/iss-normalized", "auth/iss-upper-case", "auth/iss-percent-encoded"),
            tested=_authorized,
        ),
        Rule(
            id="auth.client-iss-error",
            title=(
                "The error, the description and the page in an error response of another issuer are not shown, and the "
                "client does not request less scope."
            ),
            proves=("auth.iss-error-response",),
            within=("auth/iss-error", _NO_SCOPE, "auth/basic-cimd"),
            tested=_answered_wrongly,
            wrong=_heeds_error,
        ),
        Rule(
            id="security.client-urls",
            title="The content of a server's URL does not become another part of a request.",
            proves=("security.sanitize-urls",),
            within=("auth/url-with-line-break",),
            tested=_verified,
            wrong=_smuggled,
        ),
    )
)
