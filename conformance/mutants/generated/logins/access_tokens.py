"""Operators on the access token: its place in a request, and servers to which it and other secrets do not belong."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import attrs

from mutants.generated.login_proxy import LoginMutation
from mutants.generated.logins.operator import LEGACY, OLD, RequestMutation, login_operator, login_targets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mutants.generated.fault import Operator
    from mutants.generated.login_proxy import LoginRequest

__all__ = ["ACCESS_TOKEN_OPERATORS", "token_of", "with_authorization"]


def token_of(request: LoginRequest) -> str:
    """Return the token in the `Authorization` header of a request; empty without one."""
    return (request.header("authorization") or "").partition(" ")[2]


def with_authorization(change: Callable[[str, str], tuple[str, ...]]) -> Callable[[LoginRequest], LoginRequest]:
    """Change the authorization of requests that have one."""

    def changed(request: LoginRequest) -> LoginRequest:
        held = request.header("authorization")
        if held is None:
            return request
        scheme, _, token = held.partition(" ")
        return request.with_header("Authorization", *change(scheme, token))

    return changed


def _without_on(applies: Callable[[LoginRequest], bool]) -> Callable[[LoginRequest], LoginRequest]:
    bare = with_authorization(lambda _, __: ())
    return lambda request: bare(request) if applies(request) else request


def _method(request: LoginRequest) -> str:
    return str(request.document.get("method"))


def _in_query(request: LoginRequest) -> LoginRequest:
    token = token_of(request)
    joint = "&" if "?" in request.url else "?"
    return attrs.evolve(request, url=f"{request.url}{joint}{urlencode({'access_token': token})}") if token else request


def _in_cookie(request: LoginRequest) -> LoginRequest:
    token = token_of(request)
    return request.with_header("Authorization").with_header("Cookie", f"token={token}") if token else request


_PLACES: Final[tuple[tuple[str, str, Callable[[LoginRequest], LoginRequest], str], ...]] = (
    ("scheme-other", "another scheme", with_authorization(lambda _, token: (f"Token {token}",)), ""),
    ("scheme-basic", "the scheme Basic", with_authorization(lambda _, token: (f"Basic {token}",)), ""),
    ("scheme-absent", "no scheme", with_authorization(lambda _, token: (token,)), ""),
    ("in-query-too", "also in the URL", _in_query, ""),
    ("in-query-only", "only in the URL", lambda request: _in_query(request).with_header("Authorization"), ""),
    ("in-cookie", "in a cookie", _in_cookie, ""),
    ("quoted", "in quotation marks", with_authorization(lambda scheme, token: (f'{scheme} "{token}"',)), ""),
    ("cut", "without its last character", with_authorization(lambda scheme, token: (f"{scheme} {token[:-1]}",)), ""),
    ("lower", "in lower case", with_authorization(lambda scheme, token: (f"{scheme} {token.swapcase()}",)), ""),
    ("absent-call", "missing in calls", _without_on(lambda request: _method(request) == "tools/call"), ""),
    ("absent-list", "missing in lists", _without_on(lambda request: _method(request) == "tools/list"), ""),
    (
        "absent-notification",
        "missing in notifications",
        _without_on(lambda request: _method(request).startswith("notifications/")),
        "",
    ),
    ("absent-end", "missing in DELETE", _without_on(lambda request: request.method == "DELETE"), ""),
    (
        "scheme-case",
        "with the scheme in another case",
        with_authorization(lambda scheme, token: (f"{scheme.lower()} {token}",)),
        "Authentication schemes are case-insensitive (RFC 9110, section 11.1).",
    ),
    (
        "scheme-spaces",
        "after two spaces",
        with_authorization(lambda scheme, token: (f"{scheme}  {token}",)),
        "One or more spaces are between the scheme and the token (RFC 6750, section 2.1).",
    ),
)
"""Where and how a request to the MCP server has its token."""


class _Spread(LoginMutation):
    """The mutation that sends the token to requests of another kind.

    Args:
        kind: The kind.
        put: Puts the token into a request.
    """

    def __init__(self, kind: str, put: Callable[[LoginRequest, str], LoginRequest]) -> None:
        self._kind: Final = kind
        self._put: Final = put
        self._held = ""

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Remember the token, or return the request with it."""
        if request.kind == "mcp":
            self._held = token_of(request) or self._held
        return self._put(request, self._held) if request.kind == self._kind and self._held else None


class _Elsewhere(LoginMutation):
    """The mutation that sends a secret of the client to a server that it does not belong to.

    Args:
        at: The kind of request that has the secret.
        secret: Returns the secret.
    """

    def __init__(self, at: str, secret: Callable[[LoginRequest], str]) -> None:
        self._at: Final = at
        self._secret: Final = secret
        self._mcp = ""
        self._server = ""

    def login_before(self, request: LoginRequest) -> list[LoginRequest]:
        """Return the request to the other server."""
        if request.kind == "mcp":
            self._mcp = request.url
        if request.kind in ("authorize", "token"):
            self._server = request.origin
        secret = self._secret(request) if request.kind == self._at else ""
        other = self._server if self._at == "mcp" else self._mcp
        if not secret or not other:
            return []
        return [attrs.evolve(request, method="GET", url=other, headers=(("X-Debug", secret),), body=b"")]


def _operators() -> Iterable[Operator]:
    for name, summary, place, invisible in _PLACES:
        yield login_operator(
            f"bearer-{name}",
            f"the token is {summary}",
            login_targets("mcp"),
            partial(RequestMutation, "mcp", place),
            invisible=invisible,
        )
    # Only the last revision keeps the token from the own authorization server.
    for kind in ("resource-metadata", "server-metadata", "register", "token"):
        yield login_operator(
            f"bearer-at-{kind}",
            f"the token is also in requests of the kind {kind}",
            login_targets(kind, without=LEGACY),
            partial(_Spread, kind, lambda request, token: request.with_header("Authorization", f"Bearer {token}")),
        )
    secrets: tuple[tuple[str, str, Callable[[LoginRequest], str], tuple[str, ...]], ...] = (
        ("access-token", "mcp", token_of, LEGACY),
        ("code", "token", lambda request: dict(request.fields).get("code", ""), OLD),
        ("verifier", "token", lambda request: dict(request.fields).get("code_verifier", ""), OLD),
        ("refresh-token", "refresh", lambda request: dict(request.fields).get("refresh_token", ""), ()),
    )
    for name, at, secret, without in secrets:
        yield login_operator(
            f"shown-{name}",
            f"the {name} is sent to another server",
            login_targets(at, without=without),
            partial(_Elsewhere, at, secret),
        )


ACCESS_TOKEN_OPERATORS: Final = tuple(_operators())
"""The operators on the access token."""
