"""Clients whose access token expires: what they do with the expired token and with the refresh token.

A client does not need to use its refresh token. The specification addresses clients that desire refresh tokens, RFC
6749 (section 1.5) leaves them to the client, and after `invalid_token` it may request a new access token in any way
(RFC 6750, section 3.1). So no check requires a refresh: a client that discards its refresh token and logs in again is correct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.clients.violations import ALL_LOGINS, Rule, add_rules

if TYPE_CHECKING:
    from mcp_conformance.checks.auth.clients.violations import OAuthRun

_EXPIRY: Final = ("auth/token-expiry", "auth/token-expiry-preregistered")
_OK: Final = 200
_UNAUTHORIZED: Final = 401
_MOST: Final = 5
"""The limit of requests with a refused token: the client may have sent some before it received the refusal."""


def _has_refresh_token(found: OAuthRun) -> bool:
    return any(server.tokens.refresh_texts for server in (found.testbed.server, found.testbed.other))


def _calls(found: OAuthRun) -> list[tuple[int, str, int | None]]:
    """Return the index, the token and the status of each request to the MCP server that has a token."""
    return [
        (index, (request.header("authorization") or "").partition(" ")[2], None if answer is None else answer.status)
        for index, (request, answer) in enumerate(zip(found.testbed.requests, found.testbed.answers, strict=True))
        if request.place == found.testbed.places.endpoint and request.header("authorization")
    ]


def _expired(found: OAuthRun) -> dict[str, int]:
    """Return each access token that was accepted and then refused, with the index of the first refusal."""
    accepted: set[str] = set()
    refused: dict[str, int] = {}
    for index, token, status in _calls(found):
        if status != _UNAUTHORIZED:
            accepted.add(token)
        elif token in accepted:
            refused.setdefault(token, index)
    return refused


def _goes_on(found: OAuthRun) -> str | None:
    """Return how a client goes on with a refused token: too often, or although it got another one that it never uses."""
    calls = _calls(found)
    answers = enumerate(zip(found.testbed.requests, found.testbed.answers, strict=True))
    granted = [
        index
        for index, (request, answer) in answers
        if request in found.tokens and answer is not None and answer.status == _OK
    ]
    for expired, refusal in _expired(found).items():
        later = [index for index, token, _ in calls if index > refusal and token == expired]
        if len(later) > _MOST:
            return f"{len(later)} more requests have an expired token"
        renewal = next((index for index in granted if index > refusal), None)
        used = {token for index, token, _ in calls if renewal is not None and index > renewal}
        if used == {expired}:
            return "the client gets a new token, and goes on with the expired one"
    return None


add_rules(
    (
        Rule(
            id="auth.client-refresh-confidential",
            title="A refresh token is only in the body of a request to the authorization server that issued it.",
            proves=("auth.security-practices", "auth.refresh-confidential"),
            notes=("auth.refresh-confidential",),
            within=ALL_LOGINS,
            tested=_has_refresh_token,
        ),
        Rule(
            id="auth.client-expired-token",
            title="A client whose access token has expired does not go on with it.",
            proves=("auth.client-parse-www-authenticate", "auth.client-parses-www-authenticate"),
            within=_EXPIRY,
            tested=_expired,
            wrong=_goes_on,
        ),
    )
)
