"""Login attempts at authorization servers: requests for codes and tokens that are correct, or wrong in one respect.

Each attempt has at most one login, and is made once in a run, since an authorization server does not depend on the
revision.
"""

from __future__ import annotations

import json
import secrets
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import attrs

from mcp_conformance.checks.auth.authorization_servers.endpoints import ask, issuer_of, known_metadata
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.oauth_testbed.client_jwts import s256
from mcp_conformance.oauth_testbed.http_messages import json_object
from mcp_conformance.oauth_testbed.token_issuer import ProofKey
from mcp_conformance.oauth_testbed.user_login import LoginAttempt, RedirectMissing
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.oauth_testbed.user_login import Login
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "KEY",
    "authorization_request",
    "granted",
    "login_of",
    "metadata_of",
    "registers",
    "require_refusal",
    "shown",
    "tokens_of",
    "trial_of",
]

_OFFLINE: Final = ("openid", "offline_access")
"""The scopes that some authorization servers require for a refresh token."""
_FORM: Final = ("Content-Type", "application/x-www-form-urlencoded")


def login_of(server: ServerUnderTest) -> Login:
    """Return the login. Raise `NotApplicable` in a run without login."""
    issuer_of(server)
    if server.settings.login is None:
        raise NotApplicable("there is no user login: --browser names a command for it")
    return server.settings.login


async def metadata_of(server: ServerUnderTest) -> JsonObject:
    """Return the metadata, which are fetched once. Raise `NotTestable` if they are missing."""
    login = login_of(server)
    if login.metadata is None:
        login.metadata = await known_metadata(server)
    return login.metadata


# --- requests -------------------------------------------------------------------------------------------------------------


async def _client(server: ServerUnderTest, kind: str = "own", **more: JsonValue) -> JsonObject:
    """Return a public client, which is registered once. Raise `NotTestable` when registration fails."""
    login = login_of(server)
    if kind == "own" and login.client_id is not None:
        return {"client_id": login.client_id}
    if kind in login.registered:
        return login.registered[kind]
    endpoint = (await metadata_of(server)).get("registration_endpoint")
    if not isinstance(endpoint, str):
        raise NotTestable("clients cannot register dynamically: --client-id names a registered one")
    document: JsonObject = {
        "client_name": "mcp-conformance",
        "redirect_uris": [login.redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
        **more,
    }
    typed = (("Content-Type", "application/json"), ("Accept", "application/json"))
    answer = await ask(server, "POST", endpoint, typed, json.dumps(document).encode())
    found = json_object(answer.body) or {}
    if answer.status not in (200, 201) or not isinstance(found.get("client_id"), str):
        raise NotTestable(f"a client cannot be registered: HTTP {answer.status}, {answer.body[:120]!r}")
    login.registered[kind] = found
    return found


def _resource(login: Login, metadata: JsonObject) -> str | None:
    """Return the MCP server for which a token is requested; `None` when none is known."""
    listed = metadata.get("protected_resources")
    known = [str(each) for each in listed] if isinstance(listed, list) else []
    return login.resource or next(iter(known), None)


async def authorization_request(
    server: ServerUnderTest, client_id: str, **changes: str | None
) -> tuple[str, LoginAttempt]:
    """Return the URL of an authorization request, and the attempt before it. Fields that are `None` are omitted."""
    login, metadata = login_of(server), await metadata_of(server)
    endpoint, verifier, state = metadata.get("authorization_endpoint"), secrets.token_urlsafe(32), secrets.token_hex(16)
    if not isinstance(endpoint, str):
        raise NotTestable("the metadata have no authorization_endpoint")
    listed = metadata.get("scopes_supported")
    offline = isinstance(listed, list) and "offline_access" in listed
    fields: dict[str, str | None] = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": login.redirect_uri,
        "code_challenge": s256(verifier),
        "code_challenge_method": "S256",
        "state": state,
        "resource": _resource(login, metadata),
        "scope": " ".join(each for each in _OFFLINE if each in listed)
        if isinstance(listed, list) and offline
        else None,
        **changes,
    }
    details = urlencode({name: value for name, value in fields.items() if value is not None})
    url = f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{details}"
    return url, LoginAttempt(client_id=client_id, state=state, verifier=verifier, fields={})


async def _authorized(server: ServerUnderTest, kind: str = "own", **more: JsonValue) -> LoginAttempt:
    """Log in and return the attempt with its code. Raise `NotTestable` when there is no code."""
    login, client = login_of(server), await _client(server, kind, **more)
    if login.lost is not None:
        raise NotTestable(login.lost)
    url, attempt = await authorization_request(server, str(client["client_id"]))
    try:
        fields = await login.visit(url, attempt.state)
    except RedirectMissing as why:
        login.lost = f"the browser did not return: {why}"
        raise NotTestable(login.lost) from why
    if "code" not in fields:
        details = f"{fields.get('error', 'no code')}: {fields.get('error_description', '')}"
        raise NotTestable(f"the control request failed: the authorization response has {details}")
    return attrs.evolve(attempt, fields=fields)


async def _post(
    server: ServerUnderTest,
    fields: Mapping[str, str | None],
    proof: Callable[[str, JsonObject], str] | None = None,
) -> HttpResponse:
    """Send a token request. Fields that are `None` are omitted. If a nonce is required, send a new proof with it."""
    login, metadata = login_of(server), await metadata_of(server)
    endpoint = metadata.get("token_endpoint")
    if not isinstance(endpoint, str):
        raise NotTestable("the metadata have no token_endpoint")
    details = {"resource": _resource(login, metadata), **fields}
    body = urlencode({name: value for name, value in details.items() if value is not None}).encode()
    made = () if proof is None else (("DPoP", proof(endpoint, {})),)
    answer = await ask(server, "POST", endpoint, (_FORM, ("Accept", "application/json"), *made), body)
    nonce = answer.header("dpop-nonce")
    if proof is None or nonce is None or (json_object(answer.body) or {}).get("error") != "use_dpop_nonce":
        return answer
    made = (("DPoP", proof(endpoint, {"nonce": nonce})),)
    return await ask(server, "POST", endpoint, (_FORM, ("Accept", "application/json"), *made), body)


async def _redeemed(
    server: ServerUnderTest,
    attempt: LoginAttempt,
    proof: Callable[[str, JsonObject], str] | None = None,
    **changes: str | None,
) -> LoginAttempt:
    """Exchange a code for tokens, with changed fields."""
    fields: dict[str, str | None] = {
        "grant_type": "authorization_code",
        "code": attempt.fields["code"],
        "redirect_uri": login_of(server).redirect_uri,
        "client_id": attempt.client_id,
        "code_verifier": attempt.verifier,
        **changes,
    }
    answer = await _post(server, fields, proof)
    return attrs.evolve(attempt, answers=(*attempt.answers, answer))


def tokens_of(answer: HttpResponse) -> JsonObject | None:
    """Return the tokens in a response; `None` without tokens."""
    document = json_object(answer.body) if answer.status == 200 else None
    return document if document is not None and isinstance(document.get("access_token"), str) else None


def shown(answer: HttpResponse) -> str:
    """Return a response as text, without its tokens."""
    document = json_object(answer.body) or {}
    details = "tokens" if "access_token" in document else brief(document.get("error"))
    return f"HTTP {answer.status} with {details}"


def require_refusal(answer: HttpResponse, what: str) -> None:
    """Raise `Deviation` when a response is not a rejection."""
    if not 400 <= answer.status < 500:
        raise Deviation(f"a rejection of {what}", shown(answer))


# --- attempts
# -----------------------------------------------------------------------------------------------------------


async def _plain(server: ServerUnderTest) -> LoginAttempt:
    """Send correct requests: a token request, a refresh, and a second refresh with the used token."""
    attempt = await _redeemed(server, await _authorized(server))
    refresh = (tokens_of(attempt.answers[0]) or {}).get("refresh_token")
    fields = {"grant_type": "refresh_token", "client_id": attempt.client_id}
    for _ in range(2 if isinstance(refresh, str) else 0):
        answer = await _post(server, {**fields, "refresh_token": str(refresh)})
        attempt = attrs.evolve(attempt, answers=(*attempt.answers, answer))
    return attempt


async def _changed(server: ServerUnderTest, **changes: str | None) -> LoginAttempt:
    return await _redeemed(server, await _authorized(server), None, **changes)


async def _twice(server: ServerUnderTest) -> LoginAttempt:
    attempt = await _redeemed(server, await _authorized(server))
    return await _redeemed(server, attempt)


async def _by_another(server: ServerUnderTest) -> LoginAttempt:
    other = await _client(server, "another")
    return await _changed(server, client_id=str(other["client_id"]))


async def _without_challenge(server: ServerUnderTest) -> LoginAttempt:
    login = login_of(server)
    client = await _client(server)
    url, attempt = await authorization_request(
        server, str(client["client_id"]), code_challenge=None, code_challenge_method=None
    )
    answer = await ask(server, "GET", url, (("Accept", "text/html"),))
    back = (answer.header("location") or "").startswith(login.redirect_uri)
    if answer.status >= 400 or back:
        query = urlsplit(answer.header("location") or "").query if back else ""
        return attrs.evolve(attempt, fields=dict(parse_qsl(query)), answers=(answer,))
    try:
        # The request may also be rejected after the login.
        return attrs.evolve(attempt, fields=await login.visit(url, attempt.state), answers=(answer,))
    except RedirectMissing:
        return attrs.evolve(attempt, answers=(answer,))


async def _wrong_kind(server: ServerUnderTest) -> LoginAttempt:
    """Send an authorization request whose error may be shown to the client, or to the user in the browser."""
    client = await _client(server)
    url, attempt = await authorization_request(server, str(client["client_id"]), response_type="none-that-there-is")
    answer = await ask(server, "GET", url, (("Accept", "text/html"),))
    location = answer.header("location") or ""
    query = urlsplit(location).query if location.startswith(login_of(server).redirect_uri) else ""
    return attrs.evolve(attempt, fields=dict(parse_qsl(query)), answers=(answer,))


KEY: Final = ProofKey()
"""The key of bound tokens."""


def _proof(url: str, more: JsonObject, *, symmetric: bool = False) -> str:
    # A token request has no token yet, and its proof no token hash.
    return KEY.proof(url, "", changes={**more, "ath": None}, symmetric=symmetric)


async def registers(server: ServerUnderTest) -> bool:
    """Return whether the suite registers clients at the authorization server."""
    return login_of(server).client_id is None and "registration_endpoint" in await metadata_of(server)


async def _bound(
    server: ServerUnderTest, proof: Callable[[str, JsonObject], str] | None, *, demanded: bool = True
) -> LoginAttempt:
    if not demanded and not await registers(server):
        return await _redeemed(server, await _authorized(server), proof)
    client = await _client(server, "bound", dpop_bound_access_tokens=True)
    if demanded and client.get("dpop_bound_access_tokens") is not True:
        raise NotApplicable("the authorization server registers no client with dpop_bound_access_tokens")
    return await _redeemed(server, await _authorized(server, "bound"), proof)


_ATTEMPTS: Final[Mapping[str, Callable[[ServerUnderTest], Awaitable[LoginAttempt]]]] = {
    "plain": _plain,
    "another verifier": partial(_changed, code_verifier="another-verifier-" * 3),
    "no verifier": partial(_changed, code_verifier=None),
    "twice": _twice,
    "by another client": _by_another,
    "without a challenge": _without_challenge,
    "wrong kind": _wrong_kind,
    "with a proof": partial(_bound, proof=_proof, demanded=False),
    "without a proof": partial(_bound, proof=None),
    "with a symmetric proof": partial(_bound, proof=partial(_proof, symmetric=True)),
}


async def trial_of(server: ServerUnderTest, name: str) -> LoginAttempt:
    """Return an attempt, which is made on first use. Raise `NotTestable` when it is not possible."""
    attempts = login_of(server).attempts
    if name not in attempts:
        try:
            attempts[name] = await _ATTEMPTS[name](server)
        except NotTestable as why:
            attempts[name] = str(why)
        except Deviation as silent:
            attempts[name] = f"expected {silent.expected}: {silent.observed}"
    found = attempts[name]
    if isinstance(found, str):
        raise NotTestable(found)
    return found


async def granted(server: ServerUnderTest, name: str = "plain") -> JsonObject:
    """Return the tokens of the correct attempt. Raise `NotTestable` if it failed."""
    answer = (await trial_of(server, name)).answers[0]
    tokens = tokens_of(answer)
    if tokens is None:
        raise NotTestable(f"the control request failed: a correct token request gets {shown(answer)}")
    return tokens
