"""Operators on refresh requests, refresh tokens and expired access tokens.

A client does not need to refresh. The specification addresses clients that desire refresh tokens, RFC 6749 (section
1.5) leaves their use to the client, and after the error `invalid_token` it may request a new access token in any way
(RFC 6750, section 3.1). But a client that refreshes follows RFC 6749, section 6, and OAuth 2.1, section 4.3: it authenticates, asks
for no more scopes than were granted, replaces its refresh token by the new one, and shares it only with the authorization
server that issued it. `resource` is in each token request, also in a refresh request.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import attrs

from mutants.generated.login_proxy import LoginMutation
from mutants.generated.logins.access_tokens import token_of
from mutants.generated.logins.json_objects import json_of, with_json
from mutants.generated.logins.operator import FIRST, RequestMutation, login_operator, login_targets
from mutants.generated.logins.parameters import with_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mutants.generated.fault import Operator
    from mutants.generated.login_proxy import LoginReply, LoginRequest

__all__ = ["REFRESH_OPERATORS"]


def _refresh_token(request: LoginRequest) -> str:
    return dict(request.fields).get("refresh_token", "")


def _with_refresh_token(request: LoginRequest, token: str) -> LoginRequest:
    return with_field("refresh_token", lambda name, _: [(name, token)], request)


def _with_scope(scope: str, request: LoginRequest) -> LoginRequest:
    return request.with_fields([*request.fields, ("scope", scope)])


class _GrantedScopes(LoginMutation):
    """The mutation that states the granted scopes in refresh requests."""

    def __init__(self) -> None:
        self._granted = ""

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Return the request with the scopes."""
        return _with_scope(self._granted, request) if request.kind == "refresh" and self._granted else None

    def login_reply(self, request: LoginRequest, reply: LoginReply) -> LoginReply | None:
        """Remember the scopes of a token."""
        if request.kind == "token":
            self._granted = str(json_of(reply).get("scope", ""))
        return None


class _FirstToken(LoginMutation):
    """The mutation that uses the first token of a kind forever.

    Args:
        kind: The kind of requests that have the token.
        token: Returns the token of a request; empty without one.
        put: Puts the token into a request.
    """

    def __init__(
        self, kind: str, token: Callable[[LoginRequest], str], put: Callable[[LoginRequest, str], LoginRequest]
    ) -> None:
        self._kind: Final = kind
        self._token: Final = token
        self._put: Final = put
        self._first = ""

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Return the request with the first token."""
        token = self._token(request) if request.kind == self._kind else ""
        self._first = self._first or token
        return self._put(request, self._first) if token else None


class _NoRefreshToken(LoginMutation):
    """The mutation by which the client does not see the refresh token in responses to requests of some kinds."""

    def __init__(self, *kinds: str) -> None:
        self._kinds: Final = kinds

    def login_reply(self, request: LoginRequest, reply: LoginReply) -> LoginReply | None:
        """Return the response without the refresh token."""
        refreshable = request.kind in self._kinds and "refresh_token" in json_of(reply)
        return with_json(reply, refresh_token=None) if refreshable else None


class _Before(LoginMutation):
    """The mutation that sends another request before each refresh request.

    Args:
        change: Returns the other request, from the refresh request and what is known of the servers; `None` for none.
    """

    def __init__(self, change: Callable[[LoginRequest, _Servers], LoginRequest | None]) -> None:
        self._change: Final = change
        self._servers: Final = _Servers()

    def login_before(self, request: LoginRequest) -> list[LoginRequest]:
        """Return the other request."""
        if request.kind == "mcp":
            self._servers.call = request
        found = self._change(request, self._servers) if request.kind == "refresh" else None
        return [] if found is None else [found]

    def login_reply(self, request: LoginRequest, reply: LoginReply) -> LoginReply | None:
        """Remember the authorization servers in the metadata."""
        servers = json_of(reply).get("authorization_servers") if request.kind == "resource-metadata" else None
        if isinstance(servers, list):
            self._servers.issuers = [str(each) for each in servers]
        return None


@attrs.define
class _Servers:
    """The servers as a client knows them: its last request to the MCP server, and the authorization servers."""

    call: LoginRequest | None = None
    issuers: list[str] = attrs.field(factory=list)


def _same(request: LoginRequest, _: _Servers) -> LoginRequest:
    return request


def _at_other_issuer(request: LoginRequest, servers: _Servers) -> LoginRequest | None:
    other = next((each for each in servers.issuers if not request.url.startswith(f"{each}/")), None)
    return None if other is None else attrs.evolve(request, url=f"{other}{urlsplit(request.url).path}")


def _as_access_token(request: LoginRequest, servers: _Servers) -> LoginRequest | None:
    call = servers.call
    return None if call is None else call.with_header("Authorization", f"Bearer {_refresh_token(request)}")


_BEFORE: Final[
    tuple[tuple[str, str, Callable[[LoginRequest, _Servers], LoginRequest | None], tuple[str, ...]], ...]
] = (
    ("twice", "a refresh token is used twice", _same, ()),
    # The first revision has no metadata that could name another authorization server.
    ("other-issuer", "the refresh request is also sent to another authorization server", _at_other_issuer, (FIRST,)),
    ("token-as-bearer", "the refresh token is sent to the MCP server as an access token", _as_access_token, ()),
)
"""The requests before a refresh request, and the revisions without it."""

_OPTIONAL: Final = (
    "A client does not need to use its refresh token: RFC 6749, section 1.5, leaves it to the client, and after `invalid_token` it "
    "may request a new access token in any way (RFC 6750, section 3.1)."
)


def _operators() -> Iterable[Operator]:
    targets = login_targets("refresh")
    for name, summary, change, without in _BEFORE:
        yield login_operator(
            f"refresh-{name}", summary, login_targets("refresh", without=without), partial(_Before, change)
        )
    yield login_operator(
        "refresh-token-old",
        "the first refresh token is used forever, although it is rotated",
        targets,
        partial(_FirstToken, "refresh", _refresh_token, _with_refresh_token),
    )
    yield login_operator(
        "refresh-token-new-ignored",
        "the new refresh token of a refresh response is ignored",
        targets,
        partial(_NoRefreshToken, "refresh"),
    )
    yield login_operator(
        "refresh-unauthenticated",
        "a refresh request has no client authentication",
        # In the first revision no client with a secret meets expired tokens.
        login_targets("refresh", without=(FIRST,)),
        partial(RequestMutation, "refresh", lambda request: request.with_header("Authorization")),
    )
    yield login_operator(
        "refresh-scope-more",
        "a refresh request asks for more scopes than were granted",
        targets,
        partial(RequestMutation, "refresh", partial(_with_scope, "notes:read notes:other")),
    )
    yield login_operator(
        "refresh-scope-same",
        "a refresh request states the granted scopes",
        login_targets("refresh", without=(FIRST,)),
        _GrantedScopes,
        invisible="The scopes in a refresh request are any that were granted (RFC 6749, section 6).",
    )
    yield login_operator(
        "refresh-never",
        "refresh tokens are discarded, and the user logs in again",
        targets,
        partial(_NoRefreshToken, "token", "refresh"),
        invisible=_OPTIONAL,
    )
    yield login_operator(
        "expired-token-kept",
        "the first access token is used forever, although it expires and the client gets others",
        # The first revision does not define what a client does after a 401 with a token.
        login_targets("refresh", without=(FIRST,)),
        partial(_FirstToken, "mcp", token_of, lambda it, token: it.with_header("Authorization", f"Bearer {token}")),
    )


REFRESH_OPERATORS: Final = tuple(_operators())
"""The operators on refreshes."""
