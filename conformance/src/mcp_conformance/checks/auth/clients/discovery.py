"""Discovery of the authorization server by a client, and the use of its token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.clients.violations import ALL_LOGINS, Rule, add_rules
from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.oauth_testbed.http_messages import json_object, origin_of, single
from mcp_conformance.oauth_testbed.metadata_documents import listed
from mcp_conformance.oauth_testbed.quirks import Part, Well
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.oauth import UNASKED
from mcp_core.revisions import R2025_11_25, between

if TYPE_CHECKING:
    from mcp_conformance.checks.auth.clients.violations import OAuthRun
    from mcp_conformance.oauth_testbed.http_messages import Request
    from mcp_conformance.scenarios.evidence import ClientUnderTest

_DEFAULT: Final = "auth/metadata-default"
_OWN: Final = "auth/2025-03-26-oauth-metadata-backcompat"
_BARE: Final = "auth/2025-03-26-oauth-endpoint-fallback"
_OWN_GIVEN: Final = "auth/2025-03-26-pre-registration"
_MOVED: Final = "auth/scope-omitted-when-undefined"
"""The scenario in which the metadata of the second of two authorization servers name no issuer."""
_ENDPOINTS: Final = "auth/challenge-among-others"
"""The scenario in which the endpoints of the authorization server have other paths than usual."""
_OWN_ENDPOINTS: Final = "auth/2025-03-26-token-expiry"
"""The same for a server that is its own authorization server."""
_SLASHED: Final = "auth/pkce-empty"
"""The scenario in which the path of the issuer ends with a slash. No client gets a token in it."""
_MIGRATION: Final = "auth/authorization-server-migration"
"""The scenario in which an issuer with a path replaces one without, on the same host."""
_UNQUOTED: Final = "auth/challenge-unquoted"
_REVOKED: Final = "auth/resource-in-upper-case"
"""The scenario in which all tokens are revoked after the first request with one."""
_OK: Final = 200
_UNAUTHORIZED: Final = 401
_SCOPES: Final = between(R2025_11_25)
"""The revisions in which the client requests the scopes of the challenge."""
_WELL: Final = "/.well-known/oauth-authorization-server"


def _looked(found: OAuthRun) -> bool:
    return any(".well-known" in each.url for each in found.testbed.requests)


def _authorized(found: OAuthRun) -> bool:
    return bool(found.authorizations)


def _was_accepted(found: OAuthRun) -> bool:
    return found.accepted > 0


def _reaches_server(found: OAuthRun) -> bool:
    """Return whether the client found the authorization server, and sent any request to it."""
    server = origin_of(found.testbed.places.server)
    return any(each.origin == server for each in found.testbed.requests)


def _finds_server(found: OAuthRun) -> str | None:
    """Return what is wrong when the client did not find the authorization server."""
    return None if _reaches_server(found) else f"the authorization server is not found, {found.evidence.ending}"


def _reads_challenge(found: OAuthRun) -> str | None:
    """Return what is wrong when the client did not find the URL in the challenge, or not its scope."""
    # A search may also find a quotation mark behind the scope.
    if found.name == _ENDPOINTS and any(
        UNASKED in single(each.query).get("scope", "") for each in found.authorizations
    ):
        return f"the scope {UNASKED} is requested, which is in another parameter"
    if found.name == _UNQUOTED and found.authorizations and found.evidence.revision in _SCOPES:
        scope = single(found.authorizations[0].query).get("scope")
        return None if "read" in (scope or "").split() else f"the scope read is challenged, and {scope!a} requested"
    requested = any(each.url == found.testbed.places.prm for each in found.testbed.requests)
    return None if requested else f"the URL in the challenge is not requested, {found.evidence.ending}"


def _gives_up(found: OAuthRun) -> str | None:
    """Return that the client requests no other authorization although its refresh token is refused, which is revoked.

    A client does not need to refresh. One that does, and can send a user to the authorization server, does not stop there.
    """
    if found.name != _REVOKED:
        return None
    for index, (request, answer) in enumerate(zip(found.testbed.requests, found.testbed.answers, strict=True)):
        refreshes = single(request.form).get("grant_type") == "refresh_token" and request in found.tokens
        if refreshes and answer is not None and answer.status != _OK:
            later = found.testbed.requests[index:]
            again = any(found.testbed.server.part(each) is Part.AUTHORIZATION for each in later)
            return (
                None
                if again
                else f"the client requests no authorization after its refresh token was refused; {found.ending}"
            )
    return None


def _after_modern(found: OAuthRun) -> list[Request]:
    """Return the requests after the first modern one that gets a 401; none without it."""
    endpoint = found.testbed.places.endpoint
    for index, (request, answer) in enumerate(zip(found.testbed.requests, found.testbed.answers, strict=True)):
        refused = answer is not None and answer.status == _UNAUTHORIZED and request.place == endpoint
        if refused and request.header("mcp-protocol-version") == found.evidence.revision.name:
            return found.testbed.requests[index + 1 :]
    return []


def _initializes(found: OAuthRun) -> str | None:
    """Return that the client takes a 401 for the response of a legacy server."""
    methods = [(json_object(each.body) or {}).get("method") for each in _after_modern(found)]
    return "initialize is sent after a 401" if "initialize" in methods else None


def _looked_up(found: OAuthRun) -> bool:
    return found.testbed.server.looked_up


def _reads_default_challenge(found: OAuthRun) -> bool:
    """Return whether the client reads the challenge, which has a check of its own if it is among others."""
    return found.name != _ENDPOINTS or _reaches_server(found)


def _default_endpoint(found: OAuthRun) -> str | None:
    """Return a request for a default endpoint, although the metadata name another one."""
    if found.name not in (_ENDPOINTS, _OWN_ENDPOINTS):
        return None
    server = found.testbed.places.server
    urls = {f"{server}{path}" for path in ("/register", "/authorize", "/token")}
    return next((f"{each.method} {each.place}" for each in found.testbed.requests if each.place in urls), None)


def _without_new_path(found: OAuthRun) -> str | None:
    """Return a request for metadata without the path of a new issuer, before any with it; `None` without such a request."""
    if found.name != _MIGRATION:
        return None
    places, known = found.testbed.places, False
    with_path = {well.url(places.other) for well in Well}
    without = {well.url(places.issuer) for well in Well} - with_path
    requests = found.testbed.requests
    for index, (request, answer) in enumerate(zip(requests, found.testbed.answers, strict=True)):
        if known and request.url in with_path:
            return None
        if known and request.url in without:
            # A client may look up the former authorization server again, to refresh or revoke a token there.
            former = {found.testbed.server.part(each) for each in requests[index:]}
            at_former = former & {Part.TOKEN, Part.REVOCATION}
            return None if at_former else f"{request.url} is requested first, although the issuer is {places.other}"
        document = None if answer is None else json_object(answer.body)
        known = known or places.other in listed(document or {}, "authorization_servers")
    return None


def _goes_on(found: OAuthRun) -> str | None:
    """Return the first request to the authorization server; `None` if the client sent no such request."""
    requests = [*found.registrations, *found.authorizations, *found.tokens]
    return f"{requests[0].method} {requests[0].place}" if requests else None


# --- 2025-03-26: the server is its own authorization server
# -------------------------------------------------------------


def _metadata_not_requested(found: OAuthRun) -> str | None:
    before = found.testbed.requests
    metadata_at = next((i for i, each in enumerate(before) if each.path == _WELL), None)
    used = next((i for i, each in enumerate(before) if each.path in ("/register", "/authorize", "/token")), None)
    if metadata_at is None or (used is not None and used < metadata_at):
        return f"{_WELL} is not requested before the endpoints are used"
    return None


def _wrong_version(found: OAuthRun) -> str | None:
    for each in found.testbed.requests:
        if each.path == _WELL and each.header("mcp-protocol-version") != found.evidence.revision.name:
            return f"MCP-Protocol-Version is {each.header('mcp-protocol-version')!a}"
    return None


def _at_base(found: OAuthRun) -> str | None:
    wrong = [each.url for each in found.testbed.requests if _WELL in each.path and each.path != _WELL]
    if wrong:
        return f"{wrong[0]} is requested"
    return None if any(each.path == _WELL for each in found.testbed.requests) else f"{_WELL} is not requested"


@check("auth.client-optional", proves=("auth.optional",), needs=("scenario:tools_call",), transports=(Transport.HTTP,))
async def optional(client: ClientUnderTest) -> None:
    """A server that requires no token is used without one."""
    evidence = client.run("tools_call")
    if not evidence.sent("tools/call"):
        received = evidence.transcript.messages(sent=True)
        if received and isinstance(received[-1], dict) and "error" in received[-1]:
            raise NotTestable(f"the client stopped after an error: {brief(received[-1])}")
        raise Deviation("a client that calls tools of a server without authorization", evidence.ending)


# --- the table -----------------------------------------------------------------------------------------------------------

add_rules(
    (
        Rule(
            id="auth.client-flow",
            title=(
                "A client that gets a 401 obtains a token by the MCP authorization framework, and uses it, also if responses "
                "have unknown members, and lack optional ones, and again if its refresh token is refused."
            ),
            proves=("auth.http-conform", "auth.http-should-conform"),
            within=(_DEFAULT, _OWN, "auth/token-expiry", _REVOKED),
            tested=lambda found: found.name != _REVOKED or found.accepted,
            gets_in=True,
            wrong=_gives_up,
        ),
        Rule(
            id="auth.client-stays-modern",
            title="A client that gets a 401 for a modern request does not take the server for a legacy one.",
            proves=("compat.client-dual-modern",),
            within=(_DEFAULT,),
            tested=_after_modern,
            wrong=_initializes,
        ),
        Rule(
            id="auth.client-resource-metadata",
            title="The client finds the authorization server by the protected resource metadata.",
            proves=("auth.prm-client", "auth.prm-client-uses"),
            notes=("auth.prm-client-uses",),
            within=(_DEFAULT,),
            gets_in=True,
        ),
        Rule(
            id="auth.client-challenge-parsed",
            title=(
                "The client finds its challenge among others in each of several headers, and its parameters, also unquoted ones "
                "and those with blanks around the equals sign, in the response to any request."
            ),
            proves=("auth.client-parse-www-authenticate", "auth.client-parses-www-authenticate"),
            within=("auth/challenge-among-others", _UNQUOTED),
            wrong=_reads_challenge,
        ),
        Rule(
            id="auth.client-metadata-named",
            title="The client fetches the protected resource metadata from the URL in the challenge, and later from another one.",
            proves=("auth.client-prm-header-preferred", "auth.client-prm-discovery-order"),
            notes=("auth.client-prm-header-preferred",),
            within=(_DEFAULT, "auth/metadata-var3", "auth/scope-outside-supported"),
            tested=_looked,
        ),
        Rule(
            id="auth.client-metadata-order",
            title=(
                "Without a URL in the challenge the client tries the well-known URI with the path first, then the root."
            ),
            proves=("auth.client-prm-fallback-order", "auth.client-prm-discovery-order"),
            notes=("auth.client-prm-fallback-order",),
            within=("auth/metadata-var1", "auth/metadata-var2"),
            tested=_looked,
            wrong=_finds_server,
        ),
        Rule(
            id="auth.client-metadata-both-ways",
            title=(
                "The client finds the protected resource metadata by the challenge, and without it by well-known URIs, also if "
                "there is a challenge of another scheme."
            ),
            proves=("auth.client-both-prm-mechanisms", "auth.client-prm-discovery-order"),
            within=("auth/metadata-var1", "auth/metadata-var2", "auth/metadata-var3", _MOVED),
            wrong=_finds_server,
        ),
        Rule(
            id="auth.client-resource-mismatch",
            title="Protected resource metadata of another resource are not used.",
            proves=("auth.prm-resource-mismatch-rejected",),
            notes=("auth.prm-resource-mismatch-rejected",),
            within=("auth/resource-mismatch", "auth/resource-sibling", "auth/scope-from-scopes-supported"),
            tested=_looked,
        ),
        Rule(
            id="auth.client-server-metadata",
            title="The client takes the endpoints from the authorization server metadata (RFC 8414).",
            proves=("auth.client-rfc8414",),
            notes=("auth.client-both-as-metadata",),
            within=(_DEFAULT, _OWN, _ENDPOINTS, _OWN_ENDPOINTS),
            tested=_reads_default_challenge,
            gets_in=True,
            wrong=_default_endpoint,
        ),
        Rule(
            id="auth.client-server-metadata-kinds",
            title="The client supports authorization server metadata of both kinds: RFC 8414 and OpenID Connect.",
            proves=("auth.client-both-metadata-kinds", "auth.client-both-as-metadata"),
            notes=("auth.client-both-as-metadata",),
            within=(_DEFAULT, "auth/metadata-var1", _ENDPOINTS),
            tested=_reaches_server,
            gets_in=True,
            wrong=_default_endpoint,
        ),
        Rule(
            id="auth.client-server-metadata-order-path",
            title=(
                "For an issuer with a path, also one that replaces another, the well-known URIs are tried in order, without a "
                "slash at the end of the path."
            ),
            proves=("auth.metadata-order-with-path", "auth.as-wellknown-path-order"),
            notes=("auth.as-wellknown-path-order",),
            within=("auth/metadata-var2", "auth/metadata-var3", _MIGRATION, _SLASHED),
            tested=lambda found: found.name != _SLASHED and _reaches_server(found),
            gets_in=True,
            wrong=_without_new_path,
        ),
        Rule(
            id="auth.client-server-metadata-order-root",
            title="For an issuer without a path the well-known URIs are tried in order.",
            proves=("auth.metadata-order-without-path", "auth.as-wellknown-root-order"),
            notes=("auth.as-wellknown-root-order",),
            within=("auth/metadata-var1", "auth/offline-access-not-supported"),
            tested=_reaches_server,
            gets_in=True,
        ),
        Rule(
            id="auth.client-server-metadata-several",
            title="Authorization server metadata are also found at the second and the third well-known URI.",
            proves=("auth.client-multiple-well-known", "auth.as-wellknown-multiple"),
            within=("auth/metadata-var1", "auth/metadata-var3"),
            tested=_reaches_server,
            gets_in=True,
        ),
        Rule(
            id="auth.client-issuer-identical",
            title="Metadata with another issuer, nearly the same one, or none are not used.",
            proves=("auth.as-metadata-issuer-validated", "auth.as-metadata-mismatch-not-used"),
            notes=("auth.as-metadata-mismatch-not-used", "auth.as-metadata-issuer-validated"),
            within=(
                "auth/metadata-issuer-mismatch",
                "auth/metadata-issuer-slash",
                "auth/metadata-issuer-upper-case",
                _MOVED,
            ),
            tested=lambda found: found.testbed.other.looked_up if found.name == _MOVED else _looked_up(found),
            wrong=lambda found: None if found.name == _MOVED else _goes_on(found),
        ),
        Rule(
            id="auth.client-metadata-first",
            title="The client requests the authorization server metadata before it uses the default endpoints.",
            proves=("auth.client-metadata-first",),
            within=(_BARE, _OWN),
            tested=_authorized,
            wrong=_metadata_not_requested,
        ),
        Rule(
            id="auth.client-metadata-version",
            title="Requests for the authorization server metadata have the MCP-Protocol-Version header.",
            proves=("auth.metadata-version-header",),
            within=(_OWN,),
            tested=_looked,
            wrong=_wrong_version,
        ),
        Rule(
            id="auth.client-base-url",
            title="The authorization server metadata are requested at the URL of the MCP server without its path.",
            proves=("auth.base-url",),
            within=(_OWN, _BARE, _OWN_ENDPOINTS),
            tested=_looked,
            wrong=_at_base,
        ),
        Rule(
            id="auth.client-default-endpoints",
            title="Without authorization server metadata the client uses /authorize, /token and /register.",
            proves=("auth.client-default-endpoints",),
            within=(_BARE,),
            gets_in=True,
        ),
        Rule(
            id="auth.client-no-cross-credentials",
            title="Credentials of one authorization server are not sent to another, or to any other party.",
            proves=("auth.no-cross-as-credentials",),
            notes=("auth.no-cross-as-credentials",),
            within=ALL_LOGINS,
            tested=_was_accepted,
        ),
        Rule(
            id="auth.client-own-tokens",
            title=(
                "The server gets only tokens that its own authorization server issued; metadata requests have no token."
            ),
            proves=("auth.client-own-as-tokens", "auth.client-only-own-as-tokens"),
            notes=("auth.client-only-own-as-tokens",),
            within=ALL_LOGINS,
            tested=_was_accepted,
        ),
        Rule(
            id="auth.client-bearer",
            title="The token is in one Authorization header with the scheme Bearer.",
            proves=("auth.bearer-header",),
            notes=("auth.bearer-header",),
            within=ALL_LOGINS,
            tested=_was_accepted,
        ),
        Rule(
            id="auth.client-every-request",
            title="Every request to the server has the token.",
            proves=("auth.every-request", "auth.bearer-every-request"),
            notes=("auth.bearer-every-request",),
            within=ALL_LOGINS,
            tested=lambda found: found.accepted > 1,
        ),
        Rule(
            id="auth.client-no-query-token",
            title="The token is not in a URL.",
            proves=("auth.no-query-token", "auth.token-not-in-query"),
            notes=("auth.token-not-in-query",),
            within=ALL_LOGINS,
            tested=lambda found: bool(found.tokens),
        ),
    )
)
