"""Operators on the HTTP form of token and registration requests, and on how the client authenticates in them."""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from mutants.generated.login_proxy import LoginMutation, context
from mutants.generated.logins.operator import RequestMutation, login_operator, login_targets
from mutants.generated.logins.parameters import with_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mutants.generated.fault import Operator
    from mutants.generated.login_proxy import LoginRequest

__all__ = ["REQUEST_FORM_OPERATORS"]


def _as_get(request: LoginRequest) -> LoginRequest:
    url = f"{request.url}?{request.body.decode()}"
    return attrs.evolve(request.with_header("Content-Type"), method="GET", url=url, body=b"")


def _in_url(request: LoginRequest) -> LoginRequest:
    return attrs.evolve(request, url=f"{request.url}?{request.body.decode()}", body=b"")


def _as_json(request: LoginRequest) -> LoginRequest:
    body = json.dumps(dict(request.fields)).encode()
    return attrs.evolve(request.with_header("Content-Type", "application/json"), body=body)


def _as_text(request: LoginRequest) -> LoginRequest:
    return request.with_header("Content-Type", "text/plain")


def _secret_twice(request: LoginRequest) -> LoginRequest:
    scheme, _, credentials = (request.header("authorization") or "").partition(" ")
    if scheme != "Basic":
        return request
    secret = base64.b64decode(credentials).decode().partition(":")[2]
    return request.with_fields([*request.fields, ("client_secret", secret)])


def _secret_unencoded(request: LoginRequest) -> LoginRequest:
    held = context()
    if not (request.header("authorization") or "").startswith("Basic"):
        return request
    pair = f"{held['client_id']}:{held['client_secret']}"
    return request.with_header("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")


def _without_redirect(request: LoginRequest) -> LoginRequest:
    return with_field("redirect_uri", lambda _, __: [], request)


_FORMS: Final[tuple[tuple[str, str, str, Callable[[LoginRequest], LoginRequest], str], ...]] = (
    ("token-get", "token", "the token request is a GET", _as_get, ""),
    ("token-in-url", "token", "the parameters of the token request are in its URL", _in_url, ""),
    ("token-json", "token", "the token request is JSON", _as_json, ""),
    ("token-text", "token", "the token request has another content type", _as_text, ""),
    ("refresh-get", "refresh", "the refresh request is a GET", _as_get, ""),
    ("refresh-in-url", "refresh", "the parameters of the refresh request are in its URL", _in_url, ""),
    ("refresh-json", "refresh", "the refresh request is JSON", _as_json, ""),
    ("token-secret-twice", "token", "the client authenticates in two ways at once", _secret_twice, ""),
    ("register-text", "register", "the registration has another content type", _as_text, ""),
    (
        "token-secret-unencoded",
        "token",
        "the id and the secret are not encoded as a form before Base64",
        _secret_unencoded,
        "",
    ),
    (
        "token-without-redirect",
        "token",
        "the token request has no redirect URI",
        _without_redirect,
        "OAuth 2.1 has no redirect URI in the token request, other than OAuth 2.0.",
    ),
)


class _Again(LoginMutation):
    """The mutation that sends a token request twice."""

    def login_before(self, request: LoginRequest) -> list[LoginRequest]:
        """Return the first of the two requests."""
        return [request] if request.kind == "token" and "code" in dict(request.fields) else []


def _operators() -> Iterable[Operator]:
    for name, kind, summary, form, invisible in _FORMS:
        yield login_operator(
            name, summary, login_targets(kind), partial(RequestMutation, kind, form), invisible=invisible
        )
    yield login_operator("token-twice", "a code is redeemed twice", login_targets("token", "code"), _Again)


REQUEST_FORM_OPERATORS: Final = tuple(_operators())
"""The operators on the form of requests."""
