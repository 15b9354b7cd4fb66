"""Authorization servers with a user login: codes, tokens, and requests that must be rejected.

Each rejected request has a control that differs from it in one respect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.authorization_servers.endpoints import NEED, issuer_of, known_documents, with_proofs
from mcp_conformance.checks.auth.authorization_servers.jwts import claims_of
from mcp_conformance.checks.auth.authorization_servers.login_attempts import (
    OTHER_GRANTS,
    granted,
    is_bound,
    refresh_token_of,
    registers,
    require_refusal,
    shown,
    tokens_of,
    trial_of,
)
from mcp_conformance.checks.auth.authorization_servers.proofs import BAD_PROOFS, BAD_REFRESHES, KEY
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest

__all__ = ["LOGIN"]

LOGIN: Final = "user login"
"""The additional need of these checks."""

_NEEDS: Final = (NEED, LOGIN)
_HTTP: Final = (Transport.HTTP,)
_OAUTH: Final = ("auth.oauth21-implement", "auth.as-oauth21")
"""The requirements of OAuth 2.1, which has these rules."""

# --- authorization response
# ---------------------------------------------------------------------------------------------


@check("auth.as-state", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def state(server: ServerUnderTest) -> None:
    """The authorization response has the state of the request unchanged."""
    trial = await trial_of(server, "plain")
    if trial.fields.get("state") != trial.state:
        raise Deviation(f"state {trial.state}", brief(trial.fields.get("state")))


@check("auth.as-iss", proves=("auth.as-iss-should",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def iss(server: ServerUnderTest) -> None:
    """The authorization response has the issuer, with a code and with an error."""
    issuer = issuer_of(server)
    for name, what in (("plain", "a code"), ("wrong kind", "an error")):
        fields = (await trial_of(server, name)).fields
        if fields and fields.get("iss") != issuer:
            raise Deviation(f"iss {issuer} with {what}", brief(fields.get("iss")))


@check(
    "auth.as-iss-told", proves=("auth.as-iss-advertised",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS
)
async def iss_advertised(server: ServerUnderTest) -> None:
    """An authorization server that sends iss in the authorization response advertises it in its metadata."""
    if "iss" not in (await trial_of(server, "plain")).fields:
        raise NotApplicable("the authorization response has no iss")
    for document in await known_documents(server):
        value = document.get("authorization_response_iss_parameter_supported")
        if value is not True:
            raise Deviation("authorization_response_iss_parameter_supported true in each document", brief(value))


# --- codes ----------------------------------------------------------------------------------------------------------------


@check("auth.as-pkce-required", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def pkce_required(server: ServerUnderTest) -> None:
    """An authorization request of a public client without a code_challenge gets no code."""
    await granted(server)
    for name in ("without a challenge", "with an empty challenge"):
        if "code" in (await trial_of(server, name)).fields:
            raise Deviation(f"a rejection of a request {name}", "a code")


@check("auth.as-pkce-verified", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def pkce_verified(server: ServerUnderTest) -> None:
    """A code is rejected without the verifier of its challenge."""
    await granted(server)
    for name in ("another verifier", "no verifier", "the challenge as its verifier"):
        for answer in (await trial_of(server, name)).answers:
            require_refusal(answer, f"a code with {name}")


@check("auth.as-grant-type", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def grant_type(server: ServerUnderTest) -> None:
    """A code with another grant type than authorization_code gets no tokens."""
    await granted(server)
    for given, answer in zip(OTHER_GRANTS, (await trial_of(server, "other grant types")).answers, strict=False):
        require_refusal(answer, f"a code with the grant type {brief(given)}")


@check("auth.as-code-once", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def code_once(server: ServerUnderTest) -> None:
    """A code can be used only once, also if it is sent several times at once."""
    await granted(server, "repeatedly")
    *others, last = (await trial_of(server, "repeatedly")).answers[1:]
    for answer in others:
        if tokens_of(answer) is not None:
            raise Deviation("tokens for one of the requests with the same code at once", "tokens for several of them")
    require_refusal(last, "a used code")


@check("auth.as-code-owner", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def code_owner(server: ServerUnderTest) -> None:
    """A code or refresh token is valid only for the client to which it was issued."""
    await granted(server)
    if not await registers(server):
        raise NotApplicable(
            "the suite does not register clients at the authorization server, so that there is no other client"
        )
    require_refusal((await trial_of(server, "by another client")).answers[0], "a code of another client")
    for answer in (await trial_of(server, "refreshed by another client")).answers[1:]:
        require_refusal(answer, "a refresh token of another client")


# --- tokens ---------------------------------------------------------------------------------------------------------------


@check("auth.as-no-store", proves=_OAUTH, needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def no_store(server: ServerUnderTest) -> None:
    """A token response has Cache-Control: no-store."""
    await granted(server)
    value = (await trial_of(server, "plain")).answers[0].header("cache-control")
    if "no-store" not in [each.strip().lower() for each in (value or "").split(",")]:
        raise Deviation("Cache-Control: no-store", brief(value))


@check(
    "auth.as-expires",
    proves=("auth.as-short-lived", "auth.short-lived-tokens", "auth.token-expiration"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def expires(server: ServerUnderTest) -> None:
    """Access tokens expire, and the response has expires_in."""
    value = (await granted(server)).get("expires_in")
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise Deviation("expires_in, a number of seconds", brief(value))


@check(
    "auth.as-refresh-rotates",
    proves=("auth.as-rotate-refresh", "auth.rotate-refresh-tokens", "auth.token-expiration"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def refresh_rotates(server: ServerUnderTest) -> None:
    """A refresh token of a public client can be used only once, and is replaced, also one that replaced another."""
    if (await granted(server)).get("refresh_token") is None:
        raise NotApplicable("the authorization server issues no refresh token")
    first, *refreshes = (await trial_of(server, "plain")).answers
    seen = [refresh_token_of(first)]
    for answer in refreshes[:2]:
        if tokens_of(answer) is None:
            raise NotTestable(f"the control request failed: the refresh token gets {shown(answer)}")
        token = refresh_token_of(answer)
        if token is None or token in seen:
            raise Deviation("another refresh token", "no refresh token" if token is None else "the same one")
        seen.append(token)
    for answer in refreshes[2:]:
        require_refusal(answer, "a used refresh token")


# --- DPoP-bound tokens
# --------------------------------------------------------------------------------------------------


@check("dpop.as-binds", proves=("dpop.as-token-binding",), needs=_NEEDS, transports=_HTTP, subject=CheckScope.PROCESS)
async def binds(server: ServerUnderTest) -> None:
    """Tokens for a request with a DPoP proof are bound to its key, and have the token_type DPoP."""
    await with_proofs(server)
    tokens = await granted(server, "with a proof")
    if str(tokens.get("token_type")).lower() != "dpop":
        if not is_bound(server):
            raise NotApplicable(
                "the authorization server binds no token unless the client registered dpop_bound_access_tokens"
            )
        raise Deviation('token_type "DPoP"', brief(tokens.get("token_type")))
    claims = claims_of(str(tokens["access_token"]))
    confirmed = None if claims is None else claims.get("cnf")
    key = confirmed.get("jkt") if isinstance(confirmed, dict) else None
    if claims is not None and key != KEY.thumbprint:
        raise Deviation(f"cnf.jkt {KEY.thumbprint} in the token", brief(confirmed))


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
    await granted(server, "with a proof")
    for what, answer in zip(BAD_PROOFS, (await trial_of(server, "with bad proofs")).answers, strict=False):
        require_refusal(answer, f"a token request {what}")
    for what, answer in zip(BAD_REFRESHES, (await trial_of(server, "with a proof")).answers[2:], strict=False):
        require_refusal(answer, f"a refresh {what}")
