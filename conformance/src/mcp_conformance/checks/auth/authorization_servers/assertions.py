"""Authorization servers that trust another issuer: workload identities, and grants of an enterprise."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from mcp_conformance.checks.auth.authorization_servers.client_documents import party_of
from mcp_conformance.checks.auth.authorization_servers.endpoints import (
    NEED,
    ask,
    issuer_of,
    known_documents,
    known_metadata,
)
from mcp_conformance.checks.auth.authorization_servers.jwts import claims_of
from mcp_conformance.checks.auth.authorization_servers.login_attempts import require_refusal, shown, tokens_of
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.oauth_testbed.changed_members import OMITTED
from mcp_conformance.oauth_testbed.token_issuer import unsigned
from mcp_conformance.oauth_testbed.trusted_party import OTHER_WORKLOAD, PLAIN
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.oauth_testbed.changed_members import Changes
    from mcp_conformance.oauth_testbed.trusted_party import TrustedParty
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_HTTP: Final = (Transport.HTTP,)
_NEEDS: Final = (NEED,)
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ID_JAG: Final = "oauth-id-jag+jwt"
_FORM: Final = (("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json"))
_HOUR: Final = 3600


async def _metadata(server: ServerUnderTest) -> JsonObject:
    """Return the metadata, which are fetched once. Raise `NotTestable` if they are missing."""
    party = party_of(server)
    if party.metadata is None:
        party.metadata = await known_metadata(server)
    return party.metadata


async def _endpoint(server: ServerUnderTest) -> str:
    endpoint = (await _metadata(server)).get("token_endpoint")
    if not isinstance(endpoint, str):
        raise NotTestable("the metadata have no token_endpoint")
    return endpoint


async def _resource(server: ServerUnderTest, party: TrustedParty) -> str:
    """Return the MCP server for which tokens are requested.

    Raises:
        NotTestable: It is unknown.
    """
    listed = (await _metadata(server)).get("protected_resources")
    known = [str(each) for each in listed] if isinstance(listed, list) else []
    resource = party.options.resource or next(iter(known), None)
    if resource is None:
        raise NotTestable("no MCP server is known, for which a token could be requested: see --resource")
    return resource


def _unchanged(token: str) -> str:
    return token


async def _redeem(server: ServerUnderTest, assertion: str | None, **more: str | None) -> HttpResponse:
    """Request a token with a JWT. Fields that are `None` are omitted."""
    resource = await _resource(server, party_of(server))
    fields = {"grant_type": _JWT_BEARER, "assertion": assertion, "resource": resource, **more}
    body = urlencode({name: value for name, value in fields.items() if value is not None})
    try:
        return await ask(server, "POST", await _endpoint(server), _FORM, body.encode())
    except Deviation as deviation:
        raise NotTestable(f"the token endpoint does not respond: {deviation.observed}") from deviation


def _client(server: ServerUnderTest) -> str:
    """Return the client with the keys of the party. Raise `NotApplicable` without one."""
    client = party_of(server).options.client
    if client is None:
        raise NotApplicable("the authorization server has no client of the suite: see --enterprise-client")
    return client


def _proved(
    server: ServerUnderTest,
    claims: Changes | None = None,
    *,
    key: str = "own",
    change: Callable[[str], str] = _unchanged,
) -> dict[str, str | None]:
    """Return the fields with which the client authenticates, valid except for the given parts.

    Args:
        server: The authorization server.
        claims: Claims of the assertion with other values, or without a value.
        key: Its key.
        change: Changes the signed assertion.
    """
    client = _client(server)
    whole: Changes = {"sub": client, "aud": issuer_of(server), **(claims or {})}
    assertion = change(party_of(server).jwt(whole, issuer=client, key=key))
    return {"client_id": client, "client_assertion_type": _ASSERTION, "client_assertion": assertion}


# --- workload identities -----------------------------------------------------------------------------------------


async def _workload(
    server: ServerUnderTest,
    claims: Changes | None = None,
    *,
    header: Changes | None = None,
    issuer: str | None = None,
    key: str = "own",
    change: Callable[[str], str] = _unchanged,
) -> HttpResponse:
    """Request a token with the JWT of a workload, valid except for the given parts.

    Args:
        server: The authorization server.
        claims: Claims of the JWT with other values, or without a value.
        header: Members of its header, in the same way.
        issuer: Its issuer.
        key: Its key.
        change: Changes the signed JWT.

    Raises:
        NotApplicable: Workload identities are not tested.
    """
    party = party_of(server)
    if party.options.workload is None:
        raise NotApplicable("the authorization server trusts no workload of the suite: see --workload")
    whole: Changes = {"sub": party.options.workload, "aud": await _endpoint(server), **(claims or {})}
    return await _redeem(server, change(party.jwt(whole, header=header, issuer=issuer, key=key)))


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
    for document in await known_documents(server):
        listed = document.get("grant_types_supported")
        if not isinstance(listed, list) or _JWT_BEARER not in listed:
            raise Deviation(f"{_JWT_BEARER} in grant_types_supported of each document", brief(listed))


@check("wif.as-jwt", proves=("wif.as-validates-jwt",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def workload_jwt(server: ServerUnderTest) -> None:
    """A JWT with another signature or audience, that is not valid yet, or without a required claim, gets no token."""
    await _require_workload(server)
    require_refusal(await _workload(server, key="unknown"), "a JWT that is signed with another key")
    own_key: Changes = {"jwk": party_of(server).public_key("unknown")}
    require_refusal(await _workload(server, header=own_key, key="unknown"), "a JWT that has its key in its header")
    require_refusal(await _workload(server, change=unsigned), "an unsigned JWT")
    early: Changes = {"nbf": int(time.time()) + _HOUR}
    require_refusal(await _workload(server, early), "a JWT that is valid from the next hour on")
    elsewhere = "https://elsewhere.example/token"
    audiences: tuple[JsonValue, ...] = (elsewhere, f"{await _endpoint(server)}/other", [elsewhere], [], "")
    for audience in audiences:
        require_refusal(await _workload(server, {"aud": audience}), f"a JWT for the audience {brief(audience)}")
    # RFC 7523, section 3.
    for name in ("iss", "sub", "aud", "exp"):
        require_refusal(await _workload(server, {name: OMITTED}), f"a JWT without {name}")
        require_refusal(await _workload(server, {name: None}), f"a JWT whose {name} is null")


@check("wif.as-expired", proves=("wif.jwt-expired",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def workload_expired(server: ServerUnderTest) -> None:
    """An expired JWT gets no token."""
    await _require_workload(server)
    now = int(time.time())
    for end in (now - _HOUR, str(now - _HOUR), 0):
        require_refusal(
            await _workload(server, {"iat": now - 2 * _HOUR, "exp": end}), f"a JWT that expired at {brief(end)}"
        )


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
    own = party_of(server).url
    for issuer in (own.replace("https:", "http:"), f"{own}/other", own.replace("localhost", "localhost.example")):
        require_refusal(await _workload(server, issuer=issuer), f"a JWT of the issuer {issuer}")


@check(
    "wif.as-rules", proves=("wif.as-authorization-rules",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS
)
async def workload_rules(server: ServerUnderTest) -> None:
    """A workload of a trusted issuer gets no token if no rule permits it."""
    await _require_workload(server)
    own = party_of(server).options.workload
    for subject in (OTHER_WORKLOAD, f"{own}-other", f"other-{own}", str(own).swapcase()):
        require_refusal(await _workload(server, {"sub": subject}), f"a JWT of the workload {subject}")


@check("wif.as-keys", proves=("wif.as-keys-tls",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def workload_keys(server: ServerUnderTest) -> None:
    """A JWT gets no token if its issuer publishes the key without TLS."""
    await _require_workload(server)
    issuer = f"{party_of(server).url}{PLAIN}"
    require_refusal(await _workload(server, issuer=issuer, key="plain"), "a JWT whose key is published without TLS")


# --- client credentials ------------------------------------------------------------------------------------------


@check(
    "client-credentials.as-assertion",
    proves=("client-credentials.security",),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def machine_assertion(server: ServerUnderTest) -> None:
    """A client with a key gets no token by client credentials without a valid assertion of its own."""

    async def ask_token(fields: dict[str, str | None]) -> HttpResponse:
        return await _redeem(server, None, **{"grant_type": "client_credentials", **fields})

    if tokens_of(await ask_token(_proved(server))) is None:
        raise NotApplicable("the client of the suite gets no token by client credentials")
    now = int(time.time())
    # RFC 7523, section 3.
    wrong: tuple[Changes, ...] = (
        {"iat": now - 2 * _HOUR, "exp": now - _HOUR},
        {"exp": OMITTED},
        {"aud": "https://elsewhere.example"},
        {"aud": OMITTED},
        {"sub": "conformance-other-client"},
        {"nbf": now + _HOUR},
    )
    for claims in wrong:
        shown_claims = {name: "none" if value is OMITTED else value for name, value in claims.items()}
        require_refusal(await ask_token(_proved(server, claims)), f"an assertion with the claims {brief(shown_claims)}")
    require_refusal(await ask_token(_proved(server, key="unknown")), "an assertion that is signed with another key")
    require_refusal(await ask_token(_proved(server, change=unsigned)), "an unsigned assertion")
    bare = {**_proved(server), "client_assertion": None, "client_assertion_type": None}
    require_refusal(await ask_token(bare), "a request without an assertion")


# --- grants of an enterprise ------------------------------------------------------------------------------------


async def _employee(
    server: ServerUnderTest,
    claims: Changes | None = None,
    *,
    header: Changes | None = None,
    form: Mapping[str, str | None] | None = None,
    proof: Changes | None = None,
    proof_key: str = "own",
    issuer: str | None = None,
    key: str = "own",
    change: Callable[[str], str] = _unchanged,
) -> HttpResponse:
    """Request a token with the ID-JAG of an employee, valid except for the given parts.

    Args:
        server: The authorization server.
        claims: Claims of the ID-JAG with other values, or without a value.
        header: Members of its header, in the same way.
        form: Fields of the request with other values; `None` omits one.
        proof: Claims of the JWT that authenticates the client, with other values.
        proof_key: The key of this JWT.
        issuer: The issuer of the ID-JAG.
        key: The key of the ID-JAG.
        change: Changes the signed ID-JAG.

    Raises:
        NotApplicable: Enterprise grants are not tested.
    """
    party, client, audience = party_of(server), _client(server), issuer_of(server)
    whole: Changes = {
        "sub": "conformance-employee",
        "aud": audience,
        "client_id": client,
        "resource": await _resource(server, party),
        **(claims or {}),
    }
    fields = {**_proved(server, proof, key=proof_key), **(form or {})}
    signed = party.jwt(whole, header={"typ": _ID_JAG, **(header or {})}, issuer=issuer, key=key)
    return await _redeem(server, change(signed), **fields)


async def _require_employee(server: ServerUnderTest) -> None:
    """Require that a valid ID-JAG gets a token.

    Raises:
        NotTestable: It does not.
    """
    answer = await _employee(server)
    if tokens_of(answer) is None:
        raise NotTestable(f"the control request failed: a valid ID-JAG gets {shown(answer)}")


@check("ema.as-typ", proves=("ema.as-validates-typ",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def employee_typ(server: ServerUnderTest) -> None:
    """An assertion of another type than an ID-JAG, or of none, gets no token."""
    await _require_employee(server)
    for typ in ("JWT", "at+jwt", f"{_ID_JAG}-other", ""):
        require_refusal(await _employee(server, header={"typ": typ}), f"an ID-JAG of the type {brief(typ)}")
    require_refusal(await _employee(server, header={"typ": OMITTED}), "an ID-JAG without a type")


@check("ema.as-jwt", proves=("auth.as-oauth21",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def employee_jwt(server: ServerUnderTest) -> None:
    """An ID-JAG with another signature or issuer, that is invalid now, or without a required claim, gets no token."""
    await _require_employee(server)
    party, now = party_of(server), int(time.time())
    require_refusal(await _employee(server, key="unknown"), "an ID-JAG that is signed with another key")
    own_key: Changes = {"jwk": party.public_key("unknown")}
    require_refusal(await _employee(server, header=own_key, key="unknown"), "an ID-JAG that has its key in its header")
    require_refusal(await _employee(server, change=unsigned), "an unsigned ID-JAG")
    require_refusal(await _employee(server, issuer=f"{party.url}/other"), "an ID-JAG of an unknown issuer")
    expired: Changes = {"iat": now - 2 * _HOUR, "exp": now - _HOUR}
    require_refusal(await _employee(server, expired), "an expired ID-JAG")
    require_refusal(await _employee(server, {"nbf": now + _HOUR}), "an ID-JAG that is valid from the next hour on")
    # RFC 7523, section 3. Another check covers the audience.
    for name in ("iss", "sub", "exp"):
        require_refusal(await _employee(server, {name: OMITTED}), f"an ID-JAG without {name}")
        require_refusal(await _employee(server, {name: None}), f"an ID-JAG whose {name} is null")


@check("ema.as-audience", proves=("ema.as-validates-aud",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def employee_audience(server: ServerUnderTest) -> None:
    """An ID-JAG for another authorization server, also beside this one, for an endpoint, or for none, gets no token."""
    await _require_employee(server)
    own = issuer_of(server)
    # The token endpoint is the audience of other JWTs (RFC 7523, section 3); the one of an ID-JAG is the issuer.
    near = (f"{own}/other", f"{own}.elsewhere.example", await _endpoint(server))
    elsewhere = "https://elsewhere.example"
    # A list of audiences has exactly one element (draft-ietf-oauth-identity-assertion-authz-grant, processing rules).
    lists: tuple[JsonValue, ...] = ([elsewhere], [own, elsewhere], [])
    audiences: tuple[JsonValue, ...] = (elsewhere, *near, *lists, "", None)
    for audience in audiences:
        require_refusal(await _employee(server, {"aud": audience}), f"an ID-JAG for the audience {brief(audience)}")
    require_refusal(await _employee(server, {"aud": OMITTED}), "an ID-JAG without an audience")


@check(
    "ema.as-client", proves=("ema.as-validates-client-id",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS
)
async def employee_client(server: ServerUnderTest) -> None:
    """An ID-JAG for another client than the authenticated one, or for none, gets no token; the client must authenticate."""
    await _require_employee(server)
    anonymous = {"client_assertion": None, "client_assertion_type": None}
    require_refusal(await _employee(server, form=anonymous), "an ID-JAG of a client that does not authenticate")
    require_refusal(await _employee(server, proof_key="unknown"), "an ID-JAG of a client with another key")
    now = int(time.time())
    wrong: tuple[JsonObject, ...] = (
        {"aud": "https://elsewhere.example"},
        {"iat": now - 2 * _HOUR, "exp": now - _HOUR},
    )
    for proof in wrong:
        answer = await _employee(server, proof=proof)
        require_refusal(answer, f"an ID-JAG of a client that authenticates with the claims {brief(proof)}")
    own = party_of(server).options.client
    for client in ("conformance-other-client", f"{own}-other", f"other-{own}", "", None):
        require_refusal(await _employee(server, {"client_id": client}), f"an ID-JAG for the client {brief(client)}")
    require_refusal(await _employee(server, {"client_id": OMITTED}), "an ID-JAG without a client")


@check(
    "ema.as-token-audience",
    proves=("ema.as-token-audience",),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def employee_token(server: ServerUnderTest) -> None:
    """The access token for an ID-JAG is restricted to the MCP server that its `resource` names, whatever the form names."""
    await _require_employee(server)
    resource = await _resource(server, party_of(server))
    is_opaque = True
    for named in (resource, "https://elsewhere.example/mcp", None):
        tokens = tokens_of(await _employee(server, form={"resource": named}))
        claims = None if tokens is None else claims_of(str(tokens["access_token"]))
        if claims is None:
            continue
        is_opaque = False
        audience = claims.get("aud")
        if (audience if isinstance(audience, list) else [audience]) != [resource]:
            raise Deviation(f"the audience {resource} (resource in the form: {brief(named)})", brief(audience))
    if is_opaque:
        raise NotTestable("the access token is opaque")
