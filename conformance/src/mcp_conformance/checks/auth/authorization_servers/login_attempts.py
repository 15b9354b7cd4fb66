"""Login attempts at authorization servers: requests for codes and tokens that are correct, or wrong in one respect.

Each attempt has at most one login, and is made once in a run, since an authorization server does not depend on the
revision.
"""

from __future__ import annotations

import json
import secrets
from base64 import b64encode
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

import attrs

from mcp_conformance.checks.auth.authorization_servers.client_documents import document_with, party_of, publish
from mcp_conformance.checks.auth.authorization_servers.endpoints import ask, issuer_of, known_metadata
from mcp_conformance.checks.auth.authorization_servers.proofs import (
    BAD_BY_CHOICE,
    BAD_PROOFS,
    BAD_REFRESHES,
    REFRESHES_BY_CHOICE,
    good_proof,
    no_proof,
    proof_headers,
)
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.oauth_testbed.changed_members import changed
from mcp_conformance.oauth_testbed.client_jwts import s256
from mcp_conformance.oauth_testbed.http_messages import json_object
from mcp_conformance.oauth_testbed.user_login import LoginAttempt, RedirectMissing
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.nursery import open_nursery

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import TypeAlias

    from mcp_conformance.checks.auth.authorization_servers.proofs import Proofs
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.oauth_testbed.changed_members import OmittedMember
    from mcp_conformance.oauth_testbed.user_login import Login
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

    Fields: TypeAlias = Mapping[str, str | tuple[str, ...] | None]
    """The fields of an authorization request."""

__all__ = [
    "KEPT_QUERY",
    "OTHER_GRANTS",
    "OTHER_RESOURCE",
    "OTHER_SCOPE",
    "SECRET_ATTEMPTS",
    "WRONG_SECRETS",
    "Fields",
    "authorization_form",
    "authorization_request",
    "authorization_response",
    "authorization_url",
    "client_of",
    "document_kinds",
    "granted",
    "granted_kinds",
    "is_bound",
    "login_of",
    "metadata_of",
    "refresh_token_of",
    "registers",
    "require_refusal",
    "resource_of",
    "sender",
    "shown",
    "tokens_of",
    "trial_of",
]

_OFFLINE: Final = ("openid", "offline_access")
"""The scopes that some authorization servers require for a refresh token."""
_IN_FORM: Final = "client_secret_post"
_IN_HEADER: Final = "client_secret_basic"
SECRET_ATTEMPTS: Final = {_IN_FORM: "with a secret", _IN_HEADER: "with a secret in a header"}
"""The attempts of clients with a secret, by the method with which they authenticate."""
KEPT_QUERY: Final = "kept=1"
"""The query of a redirect URI."""
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


_DOCUMENTS: Final[Mapping[str, JsonObject]] = {"document": {}, "bound document": {"dpop_bound_access_tokens": True}}
"""Additional members of the documents of clients that are not registered, by their kind."""


async def client_of(server: ServerUnderTest, kind: str = "own", **more: JsonValue | OmittedMember) -> JsonObject:
    """Return a public client, which is registered or has its document published once.

    Args:
        server: The authorization server.
        kind: The purpose of the client.
        more: Members of its registration with other values, or without a value.

    Raises:
        NotTestable: Registration fails.
    """
    login = login_of(server)
    if kind == "own" and login.client_id is not None:
        return {"client_id": login.client_id}
    if kind in login.registered:
        return login.registered[kind]
    if kind in _DOCUMENTS:
        url = publish(party_of(server), login.redirect_uri, document_with(_DOCUMENTS[kind]))
        login.registered[kind] = {"client_id": url}
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
    }
    typed = (("Content-Type", "application/json"), ("Accept", "application/json"))
    answer = await ask(server, "POST", endpoint, typed, json.dumps(changed(document, more)).encode())
    found = json_object(answer.body) or {}
    if answer.status not in (200, 201) or not isinstance(found.get("client_id"), str):
        raise NotTestable(f"a client cannot be registered: HTTP {answer.status}, {answer.body[:120]!r}")
    login.registered[kind] = found
    return found


def resource_of(login: Login | None, metadata: JsonObject) -> str | None:
    """Return the MCP server for which a token is requested; `None` when none is known."""
    listed = metadata.get("protected_resources")
    known = [str(each) for each in listed] if isinstance(listed, list) else []
    return (None if login is None else login.resource) or next(iter(known), None)


def authorization_form(login: Login | None, metadata: JsonObject, fields: Fields) -> tuple[str, str]:
    """Return the endpoint and the encoded fields of an authorization request.

    Args:
        login: The login; `None` in a run without login.
        metadata: The metadata of the authorization server.
        fields: Fields besides `response_type`, `code_challenge_method`, `resource` and `scope`, or other values for them.
            Fields that are `None` are omitted, those with several values are repeated.

    Raises:
        NotTestable: The metadata have no endpoint.
    """
    endpoint = metadata.get("authorization_endpoint")
    if not isinstance(endpoint, str):
        raise NotTestable("the metadata have no authorization_endpoint")
    listed = metadata.get("scopes_supported")
    offline = isinstance(listed, list) and "offline_access" in listed
    whole: dict[str, str | tuple[str, ...] | None] = {
        "response_type": "code",
        "code_challenge_method": "S256",
        "resource": resource_of(login, metadata),
        "scope": " ".join(each for each in _OFFLINE if each in listed)
        if isinstance(listed, list) and offline
        else None,
        **fields,
    }
    return endpoint, urlencode({name: value for name, value in whole.items() if value is not None}, doseq=True)


def authorization_url(login: Login | None, metadata: JsonObject, fields: Fields) -> str:
    """Return the URL of an authorization request. The arguments and errors are those of `authorization_form`."""
    endpoint, details = authorization_form(login, metadata, fields)
    return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{details}"


async def authorization_request(
    server: ServerUnderTest, client_id: str, **changes: str | None
) -> tuple[str, LoginAttempt]:
    """Return the URL of an authorization request, and the attempt before it. Fields that are `None` are omitted."""
    login, metadata = login_of(server), await metadata_of(server)
    # A state may have each character of ASCII that is printed (RFC 6749, appendix A.5).
    verifier, state = secrets.token_urlsafe(32), f"{secrets.token_hex(16)} +&=%2B/"
    fields: dict[str, str | None] = {
        "client_id": client_id,
        "redirect_uri": login.redirect_uri,
        "code_challenge": s256(verifier),
        "state": state,
        **changes,
    }
    url = authorization_url(login, metadata, fields)
    return url, LoginAttempt(client_id=client_id, state=state, verifier=verifier, fields={})


async def authorization_response(server: ServerUnderTest, url: str, attempt: LoginAttempt) -> LoginAttempt:
    """Send an authorization request that should be rejected.

    The authorization server may reject it at once, or show a page to the user in the browser.

    Returns:
        The attempt with the fields of the authorization response, if there is one.
    """
    login = login_of(server)
    answer = await ask(server, "GET", url, (("Accept", "text/html"),))
    location = answer.header("location") or ""
    if location.startswith(login.redirect_uri):
        parts = urlsplit(location)
        fields = dict(parse_qsl(parts.query) + parse_qsl(parts.fragment))
    else:
        fields = {} if answer.status >= 400 else await login.visit_rejected(url, attempt.state)
    return attrs.evolve(attempt, fields=fields, answers=(answer,))


async def _authorized(
    server: ServerUnderTest, kind: str = "own", *, redirect_uri: str | None = None, **more: JsonValue
) -> LoginAttempt:
    """Log in and return the attempt with its code. Raise `NotTestable` when there is no code.

    Args:
        server: The authorization server.
        kind: The client.
        redirect_uri: Another redirect URI of the client than that of the suite.
        more: Further metadata of a client that is registered.
    """
    login, client = login_of(server), await client_of(server, kind, **more)
    if login.lost is not None:
        raise NotTestable(login.lost)
    url, attempt = await authorization_request(
        server, str(client["client_id"]), redirect_uri=redirect_uri or login.redirect_uri
    )
    try:
        # The authorization server may reject a document.
        fields = await (login.visit_rejected if kind in _DOCUMENTS else login.visit)(url, attempt.state)
    except RedirectMissing as why:
        login.lost = f"the browser did not return: {why}"
        raise NotTestable(login.lost) from why
    if "code" not in fields:
        details = f"{fields.get('error', 'no code')}: {fields.get('error_description', '')}"
        raise NotTestable(f"the control request failed: the authorization response has {details}")
    return attrs.evolve(attempt, fields=fields)


def _in_header(fields: Mapping[str, str | None]) -> tuple[Mapping[str, str | None], tuple[tuple[str, str], ...]]:
    """Return the fields without the client and its secret, and a header with them (OAuth 2.1, section 2.4.1)."""
    pair = ":".join(quote_plus(fields.get(name) or "") for name in ("client_id", "client_secret"))
    rest = {name: value for name, value in fields.items() if name not in ("client_id", "client_secret")}
    return rest, (("Authorization", f"Basic {b64encode(pair.encode()).decode()}"),)


async def _post(
    server: ServerUnderTest, fields: Mapping[str, str | None], proofs: Proofs = no_proof, *, in_header: bool = False
) -> HttpResponse:
    """Send a token request. Fields that are `None` are omitted. If a nonce is required, send new proofs with it.

    Args:
        server: The authorization server.
        fields: The fields.
        proofs: Makes the proofs.
        in_header: Whether the client and its secret are in a header. A secret that is `None` is omitted with its client.
    """
    login, metadata = login_of(server), await metadata_of(server)
    endpoint = metadata.get("token_endpoint")
    if not isinstance(endpoint, str):
        raise NotTestable("the metadata have no token_endpoint")
    credentials: tuple[tuple[str, str], ...] = ()
    if in_header and fields.get("client_secret") is not None:
        fields, credentials = _in_header(fields)
    details = {"resource": resource_of(login, metadata), **fields}
    body = urlencode({name: value for name, value in details.items() if value is not None}).encode()
    headers = (_FORM, ("Accept", "application/json"), *credentials)
    answer = await ask(server, "POST", endpoint, (*headers, *proof_headers(proofs(endpoint, {}))), body)
    nonce = answer.header("dpop-nonce")
    if nonce is None or (json_object(answer.body) or {}).get("error") != "use_dpop_nonce":
        return answer
    made = proofs(endpoint, {"nonce": nonce})
    return answer if not made else await ask(server, "POST", endpoint, (*headers, *proof_headers(made)), body)


async def _redeemed(
    server: ServerUnderTest,
    attempt: LoginAttempt,
    proofs: Proofs = no_proof,
    *,
    in_header: bool = False,
    **changes: str | None,
) -> LoginAttempt:
    """Exchange a code for tokens, with changed fields. The client and its secret may be in a header."""
    fields: dict[str, str | None] = {
        "grant_type": "authorization_code",
        "code": attempt.fields["code"],
        "redirect_uri": login_of(server).redirect_uri,
        "client_id": attempt.client_id,
        "code_verifier": attempt.verifier,
        **changes,
    }
    answer = await _post(server, fields, proofs, in_header=in_header)
    return attrs.evolve(attempt, answers=(*attempt.answers, answer))


async def _refreshed(
    server: ServerUnderTest,
    attempt: LoginAttempt,
    token: JsonValue,
    proofs: Proofs = no_proof,
    *,
    in_header: bool = False,
    **changes: str | None,
) -> LoginAttempt:
    """Exchange a refresh token for tokens, with changed fields. Without a refresh token, do nothing."""
    if not isinstance(token, str):
        return attempt
    fields = {"grant_type": "refresh_token", "client_id": attempt.client_id, "refresh_token": token, **changes}
    answer = await _post(server, fields, proofs, in_header=in_header)
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


def refresh_token_of(answer: HttpResponse) -> JsonValue:
    """Return the refresh token in a response; `None` without one."""
    return (tokens_of(answer) or {}).get("refresh_token")


async def _plain(server: ServerUnderTest, kind: str) -> LoginAttempt:
    """Send correct requests: a token request and two refreshes. Request more scope, and use both refresh tokens again."""
    attempt = await _redeemed(server, await _authorized(server, kind))
    first = refresh_token_of(attempt.answers[0])
    attempt = await _refreshed(server, attempt, first)
    second = refresh_token_of(attempt.answers[-1])
    if second == first:
        return attempt
    attempt = await _refreshed(server, attempt, second)
    attempt = await _refreshed(server, attempt, refresh_token_of(attempt.answers[-1]), scope=OTHER_SCOPE)
    for token in (second, first):
        attempt = await _refreshed(server, attempt, token)
    return attempt


OTHER_SCOPE: Final = "none-that-there-is"
"""A scope that no authorization request names."""
OTHER_RESOURCE: Final = "https://elsewhere.example/mcp"
"""An MCP server that no authorization request names."""
OTHER_GRANTS: Final = ("urn:example:no-such-grant", "AUTHORIZATION_CODE", "", None)
"""Grant types other than the one of a code, which is sent with each of them."""


async def _with_other_grants(server: ServerUnderTest, kind: str) -> LoginAttempt:
    """Send a code with other grant types than its own, until one of them gets tokens."""
    attempt = await _authorized(server, kind)
    for grant_type in OTHER_GRANTS:
        attempt = await _redeemed(server, attempt, grant_type=grant_type)
        if tokens_of(attempt.answers[-1]) is not None:
            break
    return attempt


_OTHER_VERIFIER: Final = "another-verifier-" * 3
"""A verifier of no challenge."""


async def _with_verifiers(server: ServerUnderTest, kind: str, *verifiers: Callable[[str], str | None]) -> LoginAttempt:
    """Send a code with wrong verifiers, made from the right one, until one of them gets tokens."""
    attempt = await _authorized(server, kind)
    for change in verifiers:
        attempt = await _redeemed(server, attempt, code_verifier=change(attempt.verifier))
        if tokens_of(attempt.answers[-1]) is not None:
            break
    return attempt


async def _repeatedly(server: ServerUnderTest, kind: str) -> LoginAttempt:
    """Send a code four times at once, and then once more. The responses with tokens come first."""
    attempt = await _authorized(server, kind)
    answers: list[HttpResponse] = []

    async def redeem() -> None:
        answers.extend((await _redeemed(server, attempt)).answers)

    async with open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(redeem)
    answers.sort(key=lambda answer: tokens_of(answer) is None)
    return await _redeemed(server, attrs.evolve(attempt, answers=tuple(answers)))


async def _by_another(server: ServerUnderTest, kind: str) -> LoginAttempt:
    """Send the code of one client as another client."""
    other = await client_of(server, "another")
    return await _redeemed(server, await _authorized(server, kind), client_id=str(other["client_id"]))


async def _for_another_resource(server: ServerUnderTest, kind: str) -> LoginAttempt:
    """Send a code with another resource than that of the authorization request."""
    return await _redeemed(server, await _authorized(server, kind), resource=OTHER_RESOURCE)


async def _refreshed_by_another(server: ServerUnderTest, kind: str) -> LoginAttempt:
    """Send the refresh token of one client as another client."""
    other = await client_of(server, "another")
    attempt = await _redeemed(server, await _authorized(server, kind))
    token = refresh_token_of(attempt.answers[0])
    return await _refreshed(server, attempt, token, client_id=str(other["client_id"]))


async def _requested(server: ServerUnderTest, kind: str, **changes: str | None) -> LoginAttempt:
    """Send an authorization request that must be rejected: with changed fields, or without those that are `None`."""
    client = await client_of(server, kind)
    url, attempt = await authorization_request(server, str(client["client_id"]), **changes)
    return await authorization_response(server, url, attempt)


async def _without_method(server: ServerUnderTest, kind: str) -> LoginAttempt:
    """Send a challenge without its method, and the code, if there is one, with a verifier that is right for no method.

    Without a method, the challenge is the verifier itself (OAuth 2.1, section 4.1.1).
    """
    attempt = await _requested(server, kind, code_challenge_method=None)
    if "code" not in attempt.fields:
        return attempt
    return await _redeemed(server, attrs.evolve(attempt, answers=()), code_verifier=_OTHER_VERIFIER)


async def registers(server: ServerUnderTest) -> bool:
    """Return whether the suite registers clients at the authorization server."""
    return login_of(server).client_id is None and "registration_endpoint" in await metadata_of(server)


def is_bound(server: ServerUnderTest) -> bool:
    """Return whether a client with `dpop_bound_access_tokens` is registered."""
    return login_of(server).registered.get("bound", {}).get("dpop_bound_access_tokens") is True


async def _bound_client(server: ServerUnderTest, kind: str) -> str:
    """Return the kind of a client with `dpop_bound_access_tokens`, or the given one if clients cannot register."""
    if not await registers(server):
        return kind
    await client_of(server, "bound", dpop_bound_access_tokens=True)
    return "bound" if kind == "own" else f"bound {kind}"


async def _bound(server: ServerUnderTest, kind: str) -> LoginAttempt:
    """Request tokens and refresh them with proofs. Then, as a client with bound tokens, refresh with bad proofs."""
    client = await _bound_client(server, kind)
    attempt = await _redeemed(server, await _authorized(server, client), good_proof)
    attempt = await _refreshed(server, attempt, refresh_token_of(attempt.answers[0]), good_proof)
    if not is_bound(server):
        return attempt
    token = refresh_token_of(attempt.answers[-1])
    for proofs in BAD_REFRESHES.values() if len(attempt.answers) > 1 else ():
        attempt = await _refreshed(server, attempt, token, proofs)
        if tokens_of(attempt.answers[-1]) is not None:
            break
    return attempt


async def _badly_bound(server: ServerUnderTest, kind: str) -> LoginAttempt:
    """Request tokens with bad proofs, as a client whose tokens must be bound."""
    client = await _bound_client(server, kind)
    if not is_bound(server):
        raise NotApplicable("the authorization server registers no client with dpop_bound_access_tokens")
    attempt = await _authorized(server, client)
    for proofs in BAD_PROOFS.values():
        attempt = await _redeemed(server, attempt, proofs)
        if tokens_of(attempt.answers[-1]) is not None:
            break
    return attempt


async def _badly_bound_by_choice(server: ServerUnderTest, kind: str) -> LoginAttempt:
    """Request tokens with bad proofs, as a client that does not demand bound tokens, until one of them gets tokens.

    In this case, the last response is that to a request with a valid proof.
    """
    attempt = await _authorized(server, kind)
    for name in BAD_BY_CHOICE:
        attempt = await _redeemed(server, attempt, BAD_PROOFS[name])
        if tokens_of(attempt.answers[-1]) is not None:
            control = await _redeemed(server, await _authorized(server, kind), good_proof)
            return attrs.evolve(attempt, answers=(*attempt.answers, *control.answers))
    return attempt


async def _refreshed_by_choice(server: ServerUnderTest, kind: str) -> LoginAttempt:
    """Request tokens with a proof, as a client that does not demand bound tokens, and refresh them with bad proofs.

    The code is the one whose bad proofs were rejected. An authorization server may have invalidated it.
    """
    rejected = await trial_of(server, "with bad proofs by choice", kind)
    if any(tokens_of(answer) is not None for answer in rejected.answers):
        return attrs.evolve(rejected, answers=())
    attempt = await _redeemed(server, attrs.evolve(rejected, answers=()), good_proof)
    token = refresh_token_of(attempt.answers[0])
    if str((tokens_of(attempt.answers[0]) or {}).get("token_type")).lower() != "dpop":
        return attempt
    for name in REFRESHES_BY_CHOICE:
        attempt = await _refreshed(server, attempt, token, BAD_REFRESHES[name])
    return attempt


WRONG_SECRETS: Final[Mapping[str, Callable[[str], str | None]]] = {
    "without the secret": lambda _: None,
    "with an empty one": lambda _: "",
    "with another one": lambda _: "no-such-secret",
    "with its first half": lambda secret: secret[: len(secret) // 2],
}
"""Secrets other than the right one, made from it."""


async def _with_secret(server: ServerUnderTest, _kind: str, *, method: str) -> LoginAttempt:
    """Send a code and a refresh token of a client with a secret: with wrong secrets, until one gets tokens, and the right.

    The responses with tokens for a wrong secret end the attempt.
    """
    listed = (await metadata_of(server)).get("token_endpoint_auth_methods_supported")
    if not await registers(server) or not isinstance(listed, list) or method not in listed:
        raise NotApplicable(f"the suite registers no client that authenticates with {method}")
    confidential, in_header = f"confidential {method}", method == _IN_HEADER
    client = await client_of(server, confidential, token_endpoint_auth_method=method)
    secret = client.get("client_secret")
    if not isinstance(secret, str) or client.get("token_endpoint_auth_method", method) != method:
        raise NotApplicable(f"the authorization server registers no client that authenticates with {method}")
    attempt = await _authorized(server, confidential)
    for wrong in WRONG_SECRETS.values():
        attempt = await _redeemed(server, attempt, in_header=in_header, client_secret=wrong(secret))
        if tokens_of(attempt.answers[-1]) is not None:
            return attempt
    attempt = await _redeemed(server, attempt, in_header=in_header, client_secret=secret)
    token = refresh_token_of(attempt.answers[-1])
    for wrong in WRONG_SECRETS.values():
        attempt = await _refreshed(server, attempt, token, in_header=in_header, client_secret=wrong(secret))
        if tokens_of(attempt.answers[-1]) is not None:
            break
    return attempt


async def _with_query(server: ServerUnderTest, kind: str) -> LoginAttempt:
    """Log in with a redirect URI that has a query."""
    if not await registers(server):
        raise NotApplicable("the suite registers no client with a query in its redirect URI")
    uri = f"{login_of(server).redirect_uri}?{KEPT_QUERY}"
    client = "with a query" if kind == "own" else f"with a query {kind}"
    try:
        await client_of(server, client, redirect_uris=[uri])
    except NotTestable as why:
        raise NotApplicable(f"no client with a query in its redirect URI: {why}") from why
    return await _authorized(server, client, redirect_uri=uri)


_ATTEMPTS: Final[Mapping[str, Callable[[ServerUnderTest, str], Awaitable[LoginAttempt]]]] = {
    "plain": _plain,
    "other grant types": _with_other_grants,
    "another verifier": lambda server, kind: _with_verifiers(
        server, kind, lambda _: _OTHER_VERIFIER, lambda verifier: f"{verifier}x", str.swapcase
    ),
    "no verifier": lambda server, kind: _with_verifiers(server, kind, lambda _: None, lambda _: ""),
    # The challenge is known to all who see the authorization request.
    "the challenge as its verifier": lambda server, kind: _with_verifiers(server, kind, s256),
    "repeatedly": _repeatedly,
    "by another client": _by_another,
    "refreshed by another client": _refreshed_by_another,
    "for another resource": _for_another_resource,
    "without a challenge": partial(_requested, code_challenge=None, code_challenge_method=None),
    # A field without a value counts as omitted (OAuth 2.1 section 3.1).
    "with an empty challenge": partial(_requested, code_challenge=""),
    "without a challenge method": _without_method,
    "with an unknown challenge method": partial(_requested, code_challenge_method="S512"),
    # The error may be shown to the client, or to the user in the browser.
    "with an unknown response type": partial(_requested, response_type="none-that-there-is"),
    "without a response type": partial(_requested, response_type=None),
    "with the response type of the implicit grant": partial(_requested, response_type="token"),
    "with a proof": _bound,
    "with bad proofs": _badly_bound,
    **{name: partial(_with_secret, method=method) for method, name in SECRET_ATTEMPTS.items()},
    "with bad proofs by choice": _badly_bound_by_choice,
    "refreshed with bad proofs by choice": _refreshed_by_choice,
    "with a query": _with_query,
}


async def trial_of(server: ServerUnderTest, name: str, kind: str = "own") -> LoginAttempt:
    """Return an attempt, which is made on first use.

    Args:
        server: The authorization server.
        name: The name of the attempt.
        kind: The client: `own`, or `document` for one with a metadata document.

    Raises:
        NotTestable: The attempt is not possible.
    """
    attempts = login_of(server).attempts
    key = f"{name}{sender(kind)}"
    if key not in attempts:
        try:
            attempts[key] = await _ATTEMPTS[name](server, kind)
        except NotTestable as why:
            attempts[key] = str(why)
        except Deviation as silent:
            attempts[key] = f"expected {silent.expected}: {silent.observed}"
    found = attempts[key]
    if isinstance(found, str):
        raise NotTestable(found)
    return found


def sender(kind: str) -> str:
    """Return the end of a description of a request, with its client; empty for a registered one."""
    return "" if kind == "own" else ", by a client with a metadata document"


async def granted(server: ServerUnderTest, name: str = "plain", kind: str = "own") -> JsonObject:
    """Return the tokens of the correct attempt. Raise `NotTestable` if it failed."""
    answer = (await trial_of(server, name, kind)).answers[0]
    tokens = tokens_of(answer)
    if tokens is None:
        raise NotTestable(f"the control request failed: a correct token request gets {shown(answer)}{sender(kind)}")
    return tokens


async def document_kinds(server: ServerUnderTest, name: str = "plain") -> tuple[str, ...]:
    """Return `document` if a client with a metadata document gets tokens in a correct attempt, otherwise nothing.

    Other checks cover whether documents are accepted.
    """
    supported = (await metadata_of(server)).get("client_id_metadata_document_supported")
    if server.settings.party is None or supported is not True:
        return ()
    try:
        await granted(server, name, "document")
    except NotTestable:
        return ()
    return ("document",)


async def granted_kinds(server: ServerUnderTest, name: str = "plain") -> tuple[str, ...]:
    """Return the clients that get tokens in a correct attempt: the registered one, and one with a metadata document.

    Raises:
        NotTestable: The registered client gets none.
    """
    await granted(server, name)
    return ("own", *await document_kinds(server, name))
