"""How a client finds the authorization server of a protected server, and uses its token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.clients.violations import Rule, add_rules
from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from mcp_conformance.checks.auth.clients.violations import Seen
    from mcp_conformance.scenarios.evidence import ClientUnderTest

_DEFAULT: Final = "auth/metadata-default"
_OWN: Final = "auth/2025-03-26-oauth-metadata-backcompat"
_BARE: Final = "auth/2025-03-26-oauth-endpoint-fallback"
_OWN_GIVEN: Final = "auth/2025-03-26-pre-registration"
_WELL: Final = "/.well-known/oauth-authorization-server"


def _looked(found: Seen) -> bool:
    return any(".well-known" in each.url for each in found.testbed.requests)


def _authorized(found: Seen) -> bool:
    return bool(found.authorizations)


def _got_in(found: Seen) -> bool:
    return found.accepted > 0


def _finds_server(found: Seen) -> str | None:
    """Whether it came as far as the authorization server."""
    came = found.testbed.server.looked_up or _goes_on(found)
    return None if came else f"the authorization server is not found, {found.evidence.ending}"


def _looked_up(found: Seen) -> bool:
    return found.testbed.server.looked_up


def _goes_on(found: Seen) -> str | None:
    """Whether something was asked of the authorization server."""
    asked = [*found.registrations, *found.authorizations, *found.tokens]
    return f"{asked[0].method} {asked[0].place}" if asked else None


# --- in 2025-03-26 the server is its own authorization server ------------------------------------------------------------


def _metadata_asked(found: Seen) -> str | None:
    before = found.testbed.requests
    ask = next((i for i, each in enumerate(before) if each.path == _WELL), None)
    used = next((i for i, each in enumerate(before) if each.path in ("/register", "/authorize", "/token")), None)
    if ask is None or (used is not None and used < ask):
        return f"{_WELL} is not asked for before the endpoints are used"
    return None


def _version_told(found: Seen) -> str | None:
    for each in found.testbed.requests:
        if each.path == _WELL and each.header("mcp-protocol-version") != found.evidence.revision.name:
            return f"MCP-Protocol-Version is {each.header('mcp-protocol-version')!a}"
    return None


def _at_base(found: Seen) -> str | None:
    wrong = [each.url for each in found.testbed.requests if _WELL in each.path and each.path != _WELL]
    if wrong:
        return f"{wrong[0]} is asked for"
    return None if any(each.path == _WELL for each in found.testbed.requests) else f"{_WELL} is not asked for"


@check("auth.client-optional", proves=("auth.optional",), needs=("scenario:tools_call",), transports=(Transport.HTTP,))
async def optional(client: ClientUnderTest) -> None:
    """A server that wants no token is used without."""
    evidence = client.run("tools_call")
    if not evidence.sent("tools/call"):
        told = evidence.transcript.messages(sent=True)
        if told and isinstance(told[-1], dict) and "error" in told[-1]:
            raise NotTestable(f"the client gave up when it was refused something: {brief(told[-1])}")
        raise Deviation("a client to call tools of a server that wants no token", evidence.ending)


# --- the table -----------------------------------------------------------------------------------------------------------

add_rules(
    (
        Rule(
            id="auth.client-flow",
            title="A client that is asked for a token gets one by the MCP authorization framework, and comes back with it.",
            proves=("auth.http-conform", "auth.http-should-conform"),
            within=(_DEFAULT, _OWN),
            gets_in=True,
        ),
        Rule(
            id="auth.client-resource-metadata",
            title="The client finds the authorization server by the metadata of the resource.",
            proves=("auth.prm-client", "auth.prm-client-uses"),
            notes=("auth.prm-client-uses",),
            within=(_DEFAULT,),
            gets_in=True,
        ),
        Rule(
            id="auth.client-challenge-parsed",
            title="The client finds the challenge among others in one line.",
            proves=("auth.client-parse-www-authenticate", "auth.client-parses-www-authenticate"),
            within=("auth/challenge-among-others",),
            wrong=_finds_server,
        ),
        Rule(
            id="auth.client-metadata-named",
            title="The client takes the metadata of the resource from where the challenge says.",
            proves=("auth.client-prm-header-preferred",),
            notes=("auth.client-prm-header-preferred",),
            within=(_DEFAULT, "auth/metadata-var3"),
            tested=_looked,
        ),
        Rule(
            id="auth.client-metadata-order",
            title="Where no challenge says, the client asks at the path of the server first, and then at the root.",
            proves=("auth.client-prm-fallback-order",),
            notes=("auth.client-prm-fallback-order",),
            within=("auth/metadata-var1", "auth/metadata-var2"),
            tested=_looked,
            wrong=_finds_server,
        ),
        Rule(
            id="auth.client-metadata-both-ways",
            title="The client finds the metadata of the resource where the challenge says, and without that where they belong.",
            proves=("auth.client-both-prm-mechanisms", "auth.client-prm-discovery-order"),
            within=("auth/metadata-var1", "auth/metadata-var3"),
            wrong=_finds_server,
        ),
        Rule(
            id="auth.client-resource-mismatch",
            title="Metadata of another resource are not used.",
            proves=("auth.prm-resource-mismatch-rejected",),
            notes=("auth.prm-resource-mismatch-rejected",),
            within=("auth/resource-mismatch",),
            tested=_looked,
        ),
        Rule(
            id="auth.client-server-metadata",
            title="The client takes the endpoints from the metadata of the authorization server (RFC 8414).",
            proves=("auth.client-rfc8414",),
            notes=("auth.client-both-as-metadata",),
            within=(_DEFAULT, _OWN),
            gets_in=True,
        ),
        Rule(
            id="auth.client-server-metadata-kinds",
            title="The client takes the metadata of an authorization server in either manner: RFC 8414, and OpenID Connect.",
            proves=("auth.client-both-metadata-kinds", "auth.client-both-as-metadata"),
            notes=("auth.client-both-as-metadata",),
            within=(_DEFAULT, "auth/metadata-var1"),
            tested=_looked_up,
            gets_in=True,
        ),
        Rule(
            id="auth.client-server-metadata-order-path",
            title="For an issuer with a path the places of its metadata are tried in order.",
            proves=("auth.metadata-order-with-path", "auth.as-wellknown-path-order"),
            notes=("auth.as-wellknown-path-order",),
            within=("auth/metadata-var2", "auth/metadata-var3"),
            tested=_looked_up,
            gets_in=True,
        ),
        Rule(
            id="auth.client-server-metadata-order-root",
            title="For an issuer without a path the places of its metadata are tried in order.",
            proves=("auth.metadata-order-without-path", "auth.as-wellknown-root-order"),
            notes=("auth.as-wellknown-root-order",),
            within=("auth/metadata-var1",),
            tested=_looked_up,
            gets_in=True,
        ),
        Rule(
            id="auth.client-server-metadata-several",
            title="Metadata of an authorization server are found at the second and the third place too.",
            proves=("auth.client-multiple-well-known", "auth.as-wellknown-multiple"),
            within=("auth/metadata-var1", "auth/metadata-var3"),
            tested=_looked_up,
            gets_in=True,
        ),
        Rule(
            id="auth.client-issuer-identical",
            title="Metadata that name another issuer are not used, nor those that name nearly the same one.",
            proves=("auth.as-metadata-issuer-validated", "auth.as-metadata-mismatch-not-used"),
            notes=("auth.as-metadata-mismatch-not-used", "auth.as-metadata-issuer-validated"),
            within=("auth/metadata-issuer-mismatch", "auth/metadata-issuer-slash"),
            tested=_looked_up,
            wrong=_goes_on,
        ),
        Rule(
            id="auth.client-metadata-first",
            title="The client asks for the metadata of the authorization server before it takes the default endpoints.",
            proves=("auth.client-metadata-first",),
            within=(_BARE, _OWN),
            tested=_authorized,
            wrong=_metadata_asked,
        ),
        Rule(
            id="auth.client-metadata-version",
            title="Requests for the metadata of the authorization server say MCP-Protocol-Version.",
            proves=("auth.metadata-version-header",),
            within=(_OWN,),
            tested=_looked,
            wrong=_version_told,
        ),
        Rule(
            id="auth.client-base-url",
            title="The metadata of the authorization server are asked for at the URL of the MCP server without its path.",
            proves=("auth.base-url",),
            within=(_OWN,),
            tested=_looked,
            wrong=_at_base,
        ),
        Rule(
            id="auth.client-default-endpoints",
            title="Without metadata of the authorization server the client takes /authorize, /token and /register.",
            proves=("auth.client-default-endpoints",),
            within=(_BARE,),
            gets_in=True,
        ),
        Rule(
            id="auth.client-no-cross-credentials",
            title="What one authorization server gave is not shown to another, nor to anybody else.",
            proves=("auth.no-cross-as-credentials",),
            notes=("auth.no-cross-as-credentials",),
            tested=_got_in,
        ),
        Rule(
            id="auth.client-own-tokens",
            title="The server is sent no token but those of its own authorization server, and its metadata none.",
            proves=("auth.client-own-as-tokens", "auth.client-only-own-as-tokens"),
            notes=("auth.client-only-own-as-tokens",),
            tested=_got_in,
        ),
        Rule(
            id="auth.client-bearer",
            title="The token is in the Authorization header, by the scheme Bearer.",
            proves=("auth.bearer-header",),
            notes=("auth.bearer-header",),
            tested=_got_in,
        ),
        Rule(
            id="auth.client-every-request",
            title="The token is in every request to the server.",
            proves=("auth.every-request", "auth.bearer-every-request"),
            notes=("auth.bearer-every-request",),
            tested=lambda found: found.accepted > 1,
        ),
        Rule(
            id="auth.client-no-query-token",
            title="The token is in no URL.",
            proves=("auth.no-query-token", "auth.token-not-in-query"),
            notes=("auth.token-not-in-query",),
            tested=lambda found: bool(found.tokens),
        ),
    )
)
