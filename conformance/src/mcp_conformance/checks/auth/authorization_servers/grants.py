"""Authorization servers with a user login: codes, tokens, and requests that must be rejected.

Each rejected request has a control that differs from it in one respect.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.authorization_servers.endpoints import NEED, issuer_of, known_documents, with_proofs
from mcp_conformance.checks.auth.authorization_servers.jwts import claims_of
from mcp_conformance.checks.auth.authorization_servers.login_attempts import (
    KEPT_QUERY,
    OTHER_GRANTS,
    OTHER_RESOURCE,
    OTHER_SCOPE,
    SECRET_ATTEMPTS,
    WRONG_SECRETS,
    document_kinds,
    granted,
    granted_kinds,
    is_bound,
    login_of,
    metadata_of,
    refresh_token_of,
    registers,
    require_refusal,
    resource_of,
    sender,
    shown,
    tokens_of,
    trial_of,
)
from mcp_conformance.checks.auth.authorization_servers.proofs import (
    BAD_BY_CHOICE,
    BAD_PROOFS,
    BAD_REFRESHES,
    KEY,
    REFRESHES_BY_CHOICE,
)
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.oauth_testbed.http_messages import json_object
from mcp_conformance.protocol.response import brief
from mcp_conformance.protocol.unguessable_ids import flaw_of_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.oauth_testbed.user_login import LoginAttempt
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["LOGIN"]

LOGIN: Final = "user login"
"""The additional need of these checks."""

_NEEDS: Final = (NEED, LOGIN)
_HTTP: Final = (Transport.HTTP,)
_OAUTH: Final = ("auth.oauth21-implement", "auth.as-oauth21")
"""The requirements of OAuth 2.1, which has these rules."""

_DAY: Final = 24 * 3600
"""A day, in seconds. Many authorization servers issue tokens for an hour."""
_UNKNOWN_TYPE: Final = "with an unknown response type"

# --- authorization response
# ---------------------------------------------------------------------------------------------


async def _responses(server: ServerUnderTest) -> list[tuple[str, LoginAttempt]]:
    """Return the attempts with an authorization response, and what it has. Raise `NotTestable` without a login."""
    found = [
        (f"{what}{sender(kind)}", await trial_of(server, name, kind))
        for kind in ("own", *await document_kinds(server))
        for name, what in (("plain", "a code"), (_UNKNOWN_TYPE, "an error"))
    ]
    return [(what, trial) for what, trial in found if trial.fields]


@check("auth.as-state", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def state(server: ServerUnderTest) -> None:
    """The authorization response has the state of the request unchanged, with a code and with an error."""
    for what, trial in await _responses(server):
        if trial.fields.get("state") != trial.state:
            raise Deviation(f"state {trial.state} with {what}", brief(trial.fields.get("state")))


@check("auth.as-iss", proves=("auth.as-iss-should",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def iss(server: ServerUnderTest) -> None:
    """The authorization response has the issuer, with a code and with an error."""
    issuer = issuer_of(server)
    for what, trial in await _responses(server):
        if trial.fields.get("iss") != issuer:
            raise Deviation(f"iss {issuer} with {what}", brief(trial.fields.get("iss")))


@check(
    "auth.as-iss-told", proves=("auth.as-iss-advertised",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS
)
async def iss_advertised(server: ServerUnderTest) -> None:
    """An authorization server that sends iss in an authorization response advertises it in its metadata."""
    if not any("iss" in trial.fields for _, trial in await _responses(server)):
        raise NotApplicable("the authorization responses have no iss")
    for document in await known_documents(server):
        value = document.get("authorization_response_iss_parameter_supported")
        if value is not True:
            raise Deviation("authorization_response_iss_parameter_supported true in each document", brief(value))


# --- codes ----------------------------------------------------------------------------------------------------------------


@check("auth.as-pkce-required", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def pkce_required(server: ServerUnderTest) -> None:
    """An authorization request without a code_challenge, or with an unknown method for it, gets no code."""
    for kind in await granted_kinds(server):
        for name in ("without a challenge", "with an empty challenge", "with an unknown challenge method"):
            if "code" in (await trial_of(server, name, kind)).fields:
                raise Deviation(f"a rejection of a request {name}{sender(kind)}", "a code")


@check("auth.as-response-type", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def response_type(server: ServerUnderTest) -> None:
    """An authorization request without the response type code gets no code, and none gets an access token."""
    for kind in await granted_kinds(server):
        for name in (_UNKNOWN_TYPE, "without a response type", "with the response type of the implicit grant"):
            found = (await trial_of(server, name, kind)).fields.keys() & {"code", "access_token"}
            if found:
                raise Deviation(f"a rejection of a request {name}{sender(kind)}", f"a response with {min(found)}")


@check("auth.as-pkce-verified", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def pkce_verified(server: ServerUnderTest) -> None:
    """A code is rejected without the verifier of its challenge, also if the challenge has no method."""
    for kind in await granted_kinds(server):
        for name in ("another verifier", "no verifier", "the challenge as its verifier"):
            for answer in (await trial_of(server, name, kind)).answers:
                require_refusal(answer, f"a code with {name}{sender(kind)}")
        # An authorization server may reject the authorization request, or take the challenge for the verifier.
        trial = await trial_of(server, "without a challenge method", kind)
        for answer in trial.answers if "code" in trial.fields else ():
            require_refusal(answer, f"a code with another verifier, for a challenge without a method{sender(kind)}")


@check("auth.as-grant-type", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def grant_type(server: ServerUnderTest) -> None:
    """A code with another grant type than authorization_code gets no tokens."""
    for kind in await granted_kinds(server):
        answers = (await trial_of(server, "other grant types", kind)).answers
        for given, answer in zip(OTHER_GRANTS, answers, strict=False):
            require_refusal(answer, f"a code with the grant type {brief(given)}{sender(kind)}")


@check("auth.as-code-once", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def code_once(server: ServerUnderTest) -> None:
    """A code can be used only once, also if it is sent several times at once."""
    for kind in await granted_kinds(server, "repeatedly"):
        *others, last = (await trial_of(server, "repeatedly", kind)).answers[1:]
        if any(tokens_of(answer) is not None for answer in others):
            what = f"tokens for one of the requests with the same code at once{sender(kind)}"
            raise Deviation(what, "tokens for several of them")
        require_refusal(last, f"a used code{sender(kind)}")


@check("auth.as-code-owner", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def code_owner(server: ServerUnderTest) -> None:
    """A code or refresh token is valid only for the client to which it was issued."""
    kinds = await granted_kinds(server)
    if not await registers(server):
        raise NotApplicable(
            "the suite does not register clients at the authorization server, so that there is no other client"
        )
    for kind in kinds:
        answers = (await trial_of(server, "by another client", kind)).answers
        require_refusal(answers[0], f"a code of another client{sender(kind)}")
        for answer in (await trial_of(server, "refreshed by another client", kind)).answers[1:]:
            require_refusal(answer, f"a refresh token of another client{sender(kind)}")


@check("auth.as-client-secret", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def client_secret(server: ServerUnderTest) -> None:
    """A client with a secret in the form or in a header gets no tokens without it, for a code and for a refresh token."""
    reasons: list[NotApplicable | NotTestable] = []
    for method, name in SECRET_ATTEMPTS.items():
        try:
            _require_secret((await trial_of(server, name)).answers, method)
        except (NotApplicable, NotTestable) as why:
            reasons.append(why)
    if len(reasons) == len(SECRET_ATTEMPTS):
        raise next((why for why in reasons if isinstance(why, NotTestable)), reasons[0])


def _require_secret(answers: Sequence[HttpResponse], method: str) -> None:
    """Require the rejections of wrong secrets. Raise `NotTestable` when the right one is rejected too."""
    codes, refreshes = answers[: len(WRONG_SECRETS)], answers[len(WRONG_SECRETS) + 1 :]
    for what, answer in zip(WRONG_SECRETS, codes, strict=False):
        require_refusal(answer, f"a code of a client with a secret ({method}), {what}")
    control = answers[len(WRONG_SECRETS)]
    if tokens_of(control) is None:
        what = f"a code with the right secret ({method}) gets {shown(control)}"
        raise NotTestable(f"the control request failed: {what}")
    for what, answer in zip(WRONG_SECRETS, refreshes, strict=False):
        require_refusal(answer, f"a refresh token of a client with a secret ({method}), {what}")


@check("auth.as-client-methods", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def client_methods(server: ServerUnderTest) -> None:
    """A client with a secret gets tokens by the method that it registered, in the form and in a header."""
    answers = {method: (await trial_of(server, name)).answers for method, name in SECRET_ATTEMPTS.items()}
    # An attempt ends before the right secret if a wrong one gets tokens.
    controls = {method: each[len(WRONG_SECRETS)] for method, each in answers.items() if len(each) > len(WRONG_SECRETS)}
    # An authorization server may reject a code once it came with a wrong secret; then it does so by both methods.
    if not any(tokens_of(answer) is not None for answer in controls.values()):
        raise NotTestable("the control request failed: a code with the right secret gets no tokens")
    for method, answer in controls.items():
        if tokens_of(answer) is None and answer.status in (400, 401):
            raise Deviation(f"tokens for a client that registered {method}, with the right secret", shown(answer))


@check("auth.as-redirect-query", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def redirect_query(server: ServerUnderTest) -> None:
    """The query of a redirect URI is kept in the authorization response (OAuth 2.1, section 2.3)."""
    await granted(server)
    name, _, value = KEPT_QUERY.partition("=")
    found = (await trial_of(server, "with a query")).fields.get(name)
    if found != value:
        raise Deviation(f"{KEPT_QUERY} of the redirect URI in the authorization response", brief(found))


_WITH_CODES: Final = ("plain", "another verifier", "no verifier", "other grant types", "repeatedly")
"""The attempts whose codes are compared."""


@check("auth.as-unguessable", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def unguessable(server: ServerUnderTest) -> None:
    """Codes, refresh tokens and opaque access tokens are long, and cannot be derived from one another."""
    await granted(server)
    trials = [await trial_of(server, name) for name in _WITH_CODES]
    tokens = [found for trial in trials for answer in trial.answers if (found := tokens_of(answer)) is not None]
    issued: tuple[tuple[str, Iterable[JsonValue]], ...] = (
        ("codes", (trial.fields.get("code") for trial in trials)),
        ("refresh tokens", (each.get("refresh_token") for each in tokens)),
        ("access tokens", (each["access_token"] for each in tokens if claims_of(str(each["access_token"])) is None)),
    )
    for what, values in issued:
        # A refresh token that is not replaced occurs twice. Other checks cover that.
        distinct = [*dict.fromkeys(each for each in values if isinstance(each, str))]
        if (flaw := flaw_of_ids(distinct)) is not None:
            raise Deviation(f"{what} that cannot be guessed", flaw)


# --- tokens ---------------------------------------------------------------------------------------------------------------


async def _token_responses(server: ServerUnderTest) -> list[tuple[str, HttpResponse]]:
    """Return the responses with tokens of the correct attempts, and what they are. Raise `NotTestable` without tokens."""
    found: list[tuple[str, HttpResponse]] = []
    for kind in await granted_kinds(server):
        first, *refreshes = (await trial_of(server, "plain", kind)).answers
        found.append((f"a token response{sender(kind)}", first))
        found += [
            (f"the response to a refresh{sender(kind)}", each) for each in refreshes if tokens_of(each) is not None
        ]
    return found


@check("auth.as-no-store", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def no_store(server: ServerUnderTest) -> None:
    """A token response has Cache-Control: no-store, also the one to a refresh."""
    for what, answer in await _token_responses(server):
        value = answer.header("cache-control")
        if "no-store" not in [each.strip().lower() for each in (value or "").split(",")]:
            raise Deviation(f"Cache-Control: no-store in {what}", brief(value))


@check("auth.as-token-response", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def token_response(server: ServerUnderTest) -> None:
    """A token response is JSON with the token_type Bearer, and its members are strings, also the one to a refresh."""
    for what, answer in await _token_responses(server):
        if answer.media_type != "application/json":
            raise Deviation(f"application/json for {what}", answer.media_type or "no type")
        tokens = tokens_of(answer) or {}
        if str(tokens.get("token_type")).lower() != "bearer":
            raise Deviation(f'token_type "Bearer" in {what}', brief(tokens.get("token_type")))
        for name in ("access_token", "refresh_token", "scope"):
            value = tokens.get(name, "absent")
            # A user may grant no scope.
            if not isinstance(value, str) or not (value or name == "scope"):
                raise Deviation(f"{name} as a string in {what}", "an empty one" if value == "" else brief(value))


@check("auth.as-token-errors", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def token_errors(server: ServerUnderTest) -> None:
    """A rejection of the token endpoint is JSON with the code of the error, and has the status that fits it."""
    for kind in await granted_kinds(server):
        for what, answer, codes in await _rejections(server, kind):
            # Other checks cover tokens. A server may also limit how many requests it answers.
            if tokens_of(answer) is not None or answer.status == 429:
                continue
            error = (json_object(answer.body) or {}).get("error")
            if answer.media_type != "application/json" or error not in codes:
                raise Deviation(
                    f"JSON with the error {' or '.join(codes)} for {what}{sender(kind)}",
                    f"{answer.media_type or 'no type'} with {brief(error)}",
                )
            # Only a client that is not authenticated may get 401 (OAuth 2.1, section 3.2.4).
            if answer.status != 400 and (answer.status != 401 or error in ("invalid_grant", "unsupported_grant_type")):
                raise Deviation(f"HTTP 400 for {what}{sender(kind)}", f"HTTP {answer.status}")


async def _rejections(server: ServerUnderTest, kind: str) -> list[tuple[str, HttpResponse, Sequence[str]]]:
    """Return the rejections by the token endpoint, what was sent, and the errors that it may get (OAuth 2.1, 3.2.4)."""
    invalid: tuple[tuple[str, Sequence[HttpResponse]], ...] = (
        ("a code with another verifier", (await trial_of(server, "another verifier", kind)).answers),
        ("a used code", (await trial_of(server, "repeatedly", kind)).answers[-1:]),
        # After the responses to the code, to two refreshes, and to one that requests another scope.
        ("a used refresh token", (await trial_of(server, "plain", kind)).answers[4:]),
    )
    found: list[tuple[str, HttpResponse, Sequence[str]]] = [
        (what, answer, ("invalid_grant",)) for what, answers in invalid for answer in answers
    ]
    for given, answer in zip(OTHER_GRANTS, (await trial_of(server, "other grant types", kind)).answers, strict=False):
        codes = ("unsupported_grant_type", "unauthorized_client", *(() if given else ("invalid_request",)))
        found.append((f"a code with the grant type {brief(given)}", answer, codes))
    if kind == "own":
        found += [(what, answer, ("invalid_client", "invalid_grant")) for what, answer in await _wrong_secrets(server)]
    if await _binds(server):
        answers = (await trial_of(server, "with bad proofs", kind)).answers
        for what, answer in zip(BAD_PROOFS, answers, strict=False):
            # Without exactly one proof, the request is invalid in another way too.
            if what.startswith("with a proof"):
                found.append((f"a token request {what}", answer, ("invalid_dpop_proof", "use_dpop_nonce")))
    return found


async def _wrong_secrets(server: ServerUnderTest) -> list[tuple[str, HttpResponse]]:
    """Return the rejections of codes that come with a wrong secret, and what was sent. Without a client with one: none."""
    found: list[tuple[str, HttpResponse]] = []
    for method, name in SECRET_ATTEMPTS.items():
        with suppress(NotApplicable, NotTestable):
            answers = (await trial_of(server, name)).answers
            # Without any secret, the request is invalid in another way too.
            found += [
                (f"a code of a client with a secret ({method}), {what}", answer)
                for what, answer in zip(WRONG_SECRETS, answers, strict=False)
                if what == "with another one"
            ]
    return found


async def _binds(server: ServerUnderTest) -> bool:
    """Return whether the authorization server verifies proofs, and registers a client with bound tokens."""
    try:
        await with_proofs(server)
        await granted(server, "with a proof")
    except (NotApplicable, NotTestable):
        return False
    return is_bound(server)


@check("auth.as-refresh-scope", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def refresh_scope(server: ServerUnderTest) -> None:
    """A refresh that requests another scope than the granted one gets no token with it."""
    for kind in await granted_kinds(server):
        for answer in (await trial_of(server, "plain", kind)).answers[3:4]:
            tokens = tokens_of(answer) or {}
            claims = claims_of(str(tokens.get("access_token"))) or {}
            for scope in (tokens.get("scope"), claims.get("scope")):
                if OTHER_SCOPE in str(scope).split():
                    raise Deviation(f"no token with the scope {OTHER_SCOPE}{sender(kind)}", brief(scope))


@check(
    "auth.as-expires",
    proves=("auth.as-short-lived", "auth.short-lived-tokens", "auth.token-expiration"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def expires(server: ServerUnderTest) -> None:
    """Access tokens expire within a day, and the response has expires_in, also the one to a refresh."""
    for what, answer in await _token_responses(server):
        value = (tokens_of(answer) or {}).get("expires_in")
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _DAY:
            raise Deviation(f"expires_in, a number of seconds up to {_DAY}, in {what}", brief(value))


@check(
    "auth.as-refresh-resource",
    proves=("auth.http-conform", "auth.http-should-conform"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def refresh_resource(server: ServerUnderTest) -> None:
    """An access token that a refresh returns is for the MCP server too, if the first one is (RFC 8707, section 2.2)."""
    resource = resource_of(login_of(server), await metadata_of(server))
    compared = False
    for kind in await granted_kinds(server):
        first, *refreshes = (await trial_of(server, "plain", kind)).answers
        if resource is None or resource not in (_audience(first) or ()):
            continue
        # Later requests have further scopes or used refresh tokens.
        for answer in refreshes[:2]:
            audience = _audience(answer)
            compared = compared or audience is not None
            if audience is not None and resource not in audience:
                raise Deviation(f"{resource} in aud of the token after a refresh{sender(kind)}", brief([*audience]))
    if not compared:
        raise NotApplicable("no refresh returns an access token that shows its audience")


@check(
    "auth.as-token-resource",
    proves=("auth.http-conform", "auth.http-should-conform"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def token_resource(server: ServerUnderTest) -> None:
    """A code gets no access token for another MCP server than the one that the user authorized (RFC 8707, section 2.2)."""
    resource = resource_of(login_of(server), await metadata_of(server))
    compared = False
    for kind in await granted_kinds(server):
        first = (await trial_of(server, "plain", kind)).answers[0]
        # An authorization server may ignore the resource, or issue opaque tokens.
        if resource is None or resource not in (_audience(first) or ()):
            continue
        compared = True
        audience = _audience((await trial_of(server, "for another resource", kind)).answers[0])
        if OTHER_RESOURCE in (audience or ()):
            what = f"no token for {OTHER_RESOURCE}, for a code that was requested for {resource}{sender(kind)}"
            raise Deviation(what, f"aud {brief([*(audience or ())])}")
    if not compared:
        raise NotApplicable("no token response has an access token that shows the MCP server as its audience")


def _audience(answer: HttpResponse) -> tuple[JsonValue, ...] | None:
    """Return the audience of the access token in a response; `None` without a token that shows its claims."""
    claims = claims_of(str((tokens_of(answer) or {}).get("access_token")))
    if claims is None:
        return None
    found = claims.get("aud")
    return tuple(found) if isinstance(found, list) else (found,)


@check(
    "auth.as-refresh-rotates",
    proves=("auth.as-rotate-refresh", "auth.rotate-refresh-tokens", "auth.token-expiration"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def refresh_rotates(server: ServerUnderTest) -> None:
    """A refresh token of a public client can be used only once, and is replaced, also one that replaced another."""
    kinds = [
        kind
        for kind in await granted_kinds(server)
        if (await granted(server, kind=kind)).get("refresh_token") is not None
    ]
    if not kinds:
        raise NotApplicable("the authorization server issues no refresh token")
    for kind in kinds:
        first, *refreshes = (await trial_of(server, "plain", kind)).answers
        seen = [refresh_token_of(first)]
        for answer in refreshes[:2]:
            if tokens_of(answer) is None:
                what = f"the refresh token gets {shown(answer)}{sender(kind)}"
                raise NotTestable(f"the control request failed: {what}")
            token = refresh_token_of(answer)
            if token is None or token in seen:
                what = "no refresh token" if token is None else "the same one"
                raise Deviation(f"another refresh token{sender(kind)}", what)
            seen.append(token)
        # The third request is for more scope.
        for answer in refreshes[3:]:
            require_refusal(answer, f"a used refresh token{sender(kind)}")


# --- DPoP-bound tokens
# --------------------------------------------------------------------------------------------------


@check("dpop.as-binds", proves=("dpop.as-token-binding",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def binds(server: ServerUnderTest) -> None:
    """Tokens for a request with a DPoP proof, also refresh tokens, are bound to its key; a bad proof gets none.

    An authorization server that binds only tokens of clients that demand it may ignore the proofs of others.
    """
    await with_proofs(server)
    kinds = await granted_kinds(server, "with a proof")
    for kind in kinds:
        answers = (await trial_of(server, "with a proof", kind)).answers[:2]
        for what, answer in zip(("a token request", "a refresh"), answers, strict=False):
            tokens = tokens_of(answer)
            if tokens is not None:
                _require_binding(server, tokens, f"for {what} with a proof{sender(kind)}")
    for kind in kinds:
        *others, last = (await trial_of(server, "with bad proofs by choice", kind)).answers
        # If a bad proof gets tokens, this is the response to a valid one.
        if str((tokens_of(last) or {}).get("token_type")).lower() == "dpop":
            for what, answer in zip(BAD_BY_CHOICE, others, strict=False):
                require_refusal(answer, f"a token request {what}{sender(kind)}")
        refreshes = (await trial_of(server, "refreshed with bad proofs by choice", kind)).answers[1:]
        # Refresh tokens of public clients are bound too (RFC 9449, section 5).
        for what, answer in zip(REFRESHES_BY_CHOICE, refreshes, strict=False):
            require_refusal(answer, f"a refresh {what}{sender(kind)}")


def _require_binding(server: ServerUnderTest, tokens: JsonObject, what: str) -> None:
    """Require that tokens are bound to the key of the suite. Raise `NotApplicable` if that is not required."""
    if str(tokens.get("token_type")).lower() != "dpop":
        if not is_bound(server):
            raise NotApplicable(
                "the authorization server binds no token unless the client registered dpop_bound_access_tokens"
            )
        raise Deviation(f'token_type "DPoP" {what}', brief(tokens.get("token_type")))
    claims = claims_of(str(tokens["access_token"]))
    confirmed = None if claims is None else claims.get("cnf")
    key = confirmed.get("jkt") if isinstance(confirmed, dict) else None
    if claims is not None and key != KEY.thumbprint:
        raise Deviation(f"cnf.jkt {KEY.thumbprint} in the token {what}", brief(confirmed))


@check(
    "dpop.as-bound-refused",
    proves=("dpop.as-bound-enforced", "dpop.asymmetric-only"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def bound_refused(server: ServerUnderTest) -> None:
    """A client with dpop_bound_access_tokens gets no token without a valid DPoP proof, also for a refresh token."""
    await with_proofs(server)
    if not await registers(server):
        raise NotApplicable(
            "the suite does not register clients at the authorization server, so that none has dpop_bound_access_tokens"
        )
    for kind in await granted_kinds(server, "with a proof"):
        for what, answer in zip(BAD_PROOFS, (await trial_of(server, "with bad proofs", kind)).answers, strict=False):
            require_refusal(answer, f"a token request {what}{sender(kind)}")
        refreshes = (await trial_of(server, "with a proof", kind)).answers[2:]
        for what, answer in zip(BAD_REFRESHES, refreshes, strict=False):
            require_refusal(answer, f"a refresh {what}{sender(kind)}")
