"""Authorization servers that trust another issuer: workload identities, and grants of an enterprise."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from mcp_conformance.checks.auth.authorization_servers.endpoints import NEED, ask, issuer_of, known_metadata
from mcp_conformance.checks.auth.authorization_servers.jwts import claims_of
from mcp_conformance.checks.auth.authorization_servers.login_attempts import require_refusal, shown, tokens_of
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.oauth_testbed.trusted_party import OTHER_WORKLOAD, PLAIN
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.oauth_testbed.trusted_party import TrustedParty
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject

_HTTP: Final = (Transport.HTTP,)
_NEEDS: Final = (NEED,)
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ID_JAG: Final = "oauth-id-jag+jwt"
_FORM: Final = (("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json"))
_HOUR: Final = 3600


def _party(server: ServerUnderTest) -> TrustedParty:
    issuer_of(server)
    if server.settings.party is None:
        raise NotApplicable("the authorization server trusts no party of the suite: see --https-cert")
    return server.settings.party


async def _endpoint(server: ServerUnderTest) -> str:
    endpoint = (await known_metadata(server)).get("token_endpoint")
    if not isinstance(endpoint, str):
        raise NotTestable("the metadata have no token_endpoint")
    return endpoint


async def _resource(server: ServerUnderTest, party: TrustedParty) -> str:
    """Return the MCP server for which tokens are requested.

    Raises:
        NotTestable: It is unknown.
    """
    listed = (await known_metadata(server)).get("protected_resources")
    known = [str(each) for each in listed] if isinstance(listed, list) else []
    resource = party.options.resource or next(iter(known), None)
    if resource is None:
        raise NotTestable("no MCP server is known, for which a token could be requested: see --resource")
    return resource


async def _redeem(server: ServerUnderTest, assertion: str, **more: str) -> HttpResponse:
    resource = await _resource(server, _party(server))
    body = urlencode({"grant_type": _JWT_BEARER, "assertion": assertion, "resource": resource, **more})
    try:
        return await ask(server, "POST", await _endpoint(server), _FORM, body.encode())
    except Deviation as deviation:
        raise NotTestable(f"the token endpoint does not respond: {deviation.observed}") from deviation


# --- workload identities -----------------------------------------------------------------------------------------


async def _workload(
    server: ServerUnderTest, *, issuer: str | None = None, key: str = "own", **claims: str | int
) -> HttpResponse:
    """Request a token with the JWT of a workload, valid except for the given parts.

    Raises:
        NotApplicable: Workload identities are not tested.
    """
    party = _party(server)
    if party.options.workload is None:
        raise NotApplicable("the authorization server trusts no workload of the suite: see --workload")
    whole: JsonObject = {"sub": party.options.workload, "aud": await _endpoint(server), **claims}
    return await _redeem(server, party.jwt(whole, issuer=issuer, key=key))


async def _require_workload(server: ServerUnderTest) -> None:
    """Require that the valid JWT of a workload gets a token.

    Raises:
        NotTestable: It does not.
    """
    answer = await _workload(server)
    if tokens_of(answer) is None:
        raise NotTestable(f"the control request failed: the valid JWT of a workload gets {shown(answer)}")


@check(
    "wif.as-grant",
    proves=("wif.as-grant-supported", "wif.as-keys-tls"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def workload_grant(server: ServerUnderTest) -> None:
    """The JWT of a workload, signed with a key that only https publishes, gets a token."""
    answer = await _workload(server)
    if tokens_of(answer) is None:
        raise Deviation("an access token for the JWT of a workload", shown(answer))


@check("wif.as-metadata", proves=("wif.as-metadata",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def workload_metadata(server: ServerUnderTest) -> None:
    """An authorization server for workload identities has the grant type in its metadata."""
    await _require_workload(server)
    listed = (await known_metadata(server)).get("grant_types_supported")
    if not isinstance(listed, list) or _JWT_BEARER not in listed:
        raise Deviation(f"{_JWT_BEARER} in grant_types_supported", brief(listed))


@check("wif.as-jwt", proves=("wif.as-validates-jwt",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def workload_jwt(server: ServerUnderTest) -> None:
    """A JWT with another signature or audience gets no token."""
    await _require_workload(server)
    require_refusal(await _workload(server, key="unknown"), "a JWT that is signed with another key")
    require_refusal(await _workload(server, aud="https://elsewhere.example/token"), "a JWT for another audience")


@check("wif.as-expired", proves=("wif.jwt-expired",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def workload_expired(server: ServerUnderTest) -> None:
    """An expired JWT gets no token."""
    await _require_workload(server)
    now = int(time.time())
    require_refusal(await _workload(server, iat=now - 2 * _HOUR, exp=now - _HOUR), "a JWT that expired an hour ago")


@check(
    "wif.as-issuer",
    proves=("wif.as-trusted-issuer", "wif.as-https-issuers"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def workload_issuer(server: ServerUnderTest) -> None:
    """A JWT of an issuer that is not configured gets no token, nor one that names the issuer without https."""
    await _require_workload(server)
    own = _party(server).url
    for issuer in (own.replace("https:", "http:"), f"{own}/other", own.replace("localhost", "localhost.example")):
        require_refusal(await _workload(server, issuer=issuer), f"a JWT of the issuer {issuer}")


@check(
    "wif.as-rules", proves=("wif.as-authorization-rules",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS
)
async def workload_rules(server: ServerUnderTest) -> None:
    """A workload of a trusted issuer gets no token if no rule permits it."""
    await _require_workload(server)
    require_refusal(await _workload(server, sub=OTHER_WORKLOAD), f"a JWT of the workload {OTHER_WORKLOAD}")


@check("wif.as-keys", proves=("wif.as-keys-tls",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def workload_keys(server: ServerUnderTest) -> None:
    """A JWT gets no token if its issuer publishes the key without TLS."""
    await _require_workload(server)
    issuer = f"{_party(server).url}{PLAIN}"
    require_refusal(await _workload(server, issuer=issuer, key="plain"), "a JWT whose key is published without TLS")


# --- grants of an enterprise ------------------------------------------------------------------------------------


async def _employee(server: ServerUnderTest, *, typ: str = _ID_JAG, **claims: str) -> HttpResponse:
    """Request a token with the ID-JAG of an employee, valid except for the given parts.

    Raises:
        NotApplicable: Enterprise grants are not tested.
    """
    party = _party(server)
    client = party.options.client
    if client is None:
        raise NotApplicable("the authorization server has no client of the suite: see --enterprise-client")
    audience = issuer_of(server)
    whole: JsonObject = {
        "sub": "conformance-employee",
        "aud": audience,
        "client_id": client,
        "resource": await _resource(server, party),
        **claims,
    }
    proof = party.jwt({"sub": client, "aud": audience}, issuer=client)
    return await _redeem(
        server,
        party.jwt(whole, header={"typ": typ}),
        client_id=client,
        client_assertion_type=_ASSERTION,
        client_assertion=proof,
    )


async def _require_employee(server: ServerUnderTest) -> JsonObject:
    """Return the tokens for a valid ID-JAG.

    Raises:
        NotTestable: It gets none.
    """
    answer = await _employee(server)
    tokens = tokens_of(answer)
    if tokens is None:
        raise NotTestable(f"the control request failed: a valid ID-JAG gets {shown(answer)}")
    return tokens


@check("ema.as-typ", proves=("ema.as-validates-typ",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def employee_typ(server: ServerUnderTest) -> None:
    """An assertion of another type than an ID-JAG gets no token."""
    await _require_employee(server)
    require_refusal(await _employee(server, typ="JWT"), "an ID-JAG of the type JWT")


@check("ema.as-audience", proves=("ema.as-validates-aud",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def employee_audience(server: ServerUnderTest) -> None:
    """An ID-JAG for another authorization server gets no token."""
    await _require_employee(server)
    require_refusal(await _employee(server, aud="https://elsewhere.example"), "an ID-JAG for another server")


@check(
    "ema.as-client", proves=("ema.as-validates-client-id",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS
)
async def employee_client(server: ServerUnderTest) -> None:
    """An ID-JAG for another client than the authenticated one gets no token."""
    await _require_employee(server)
    require_refusal(await _employee(server, client_id="conformance-other-client"), "an ID-JAG for another client")


@check(
    "ema.as-token-audience",
    proves=("ema.as-token-audience",),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def employee_token(server: ServerUnderTest) -> None:
    """The access token for an ID-JAG is restricted to the MCP server that its `resource` names."""
    tokens = await _require_employee(server)
    claims = claims_of(str(tokens["access_token"]))
    if claims is None:
        raise NotTestable("the access token is opaque")
    audience, resource = claims.get("aud"), await _resource(server, _party(server))
    if (audience if isinstance(audience, list) else [audience]) != [resource]:
        raise Deviation(f"the audience {resource}", brief(audience))
