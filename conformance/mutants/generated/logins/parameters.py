"""Operators on the parameters of authorization, token and exchange requests."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from mutants.generated.login_proxy import LoginMutation
from mutants.generated.logins.operator import FIRST, RequestMutation, login_operator, login_targets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mutants.generated.fault import Operator
    from mutants.generated.login_proxy import Fields, LoginReply, LoginRequest

__all__ = ["PARAMETER_OPERATORS", "with_answer", "with_field"]


def _mapped(change: Callable[[str], str]) -> Callable[[str, str], Fields]:
    return lambda name, value: [(name, change(value))]


_FIELD_CHANGES: Final[Mapping[str, tuple[str, Callable[[str, str], Fields]]]] = {
    "absent": ("is absent", lambda _, __: []),
    "empty": ("is empty", _mapped(lambda _: "")),
    "twice": ("occurs twice", lambda name, value: [(name, value), (name, value)]),
    "name-case": ("has a name in another case", lambda name, value: [(name.upper(), value)]),
    "case": ("is in another case", _mapped(str.swapcase)),
    "cut": ("lacks its last character", _mapped(lambda value: value[:-1])),
    "other": ("has another value", _mapped(lambda value: f"{value}-other")),
    "plain": ("is `plain`", _mapped(lambda _: "plain")),
    "token": ("is `token`", _mapped(lambda _: "token")),
    "short": ("is short", _mapped(lambda _: "x")),
    "below": ("is a path below", _mapped(lambda value: f"{value}/other")),
    "slash": ("has a trailing slash", _mapped(lambda value: f"{value}/")),
    "fragment": ("has a fragment", _mapped(lambda value: f"{value}#part")),
    "origin": ("is only the origin", _mapped(lambda value: "{0.scheme}://{0.netloc}".format(urlsplit(value)))),
    "relative": ("is only the path", _mapped(lambda value: urlsplit(value).path)),
    "foreign": ("is another server", _mapped(lambda _: "https://elsewhere.example/mcp")),
}
"""The changes of a parameter."""

_NAMED: Final = ("absent", "other", "case", "twice", "name-case")
_RESOURCE: Final = ("absent", "empty", "fragment", "origin", "relative", "foreign", "below", "slash", "twice")

_FIELDS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("authorize", "response_type"): (*_NAMED, "token"),
    ("authorize", "client_id"): _NAMED,
    # It may be absent if the client has registered only one.
    ("authorize", "redirect_uri"): ("below", "case", "twice"),
    ("authorize", "code_challenge"): ("absent", "empty", "cut", "other", "case", "twice"),
    ("authorize", "code_challenge_method"): ("absent", "case", "plain", "other", "twice"),
    ("authorize", "state"): ("absent", "empty", "short", "twice"),
    ("authorize", "resource"): _RESOURCE,
    ("authorize", "scope"): ("absent", "case", "cut", "other", "twice"),
    ("token", "grant_type"): _NAMED,
    ("token", "code"): ("absent", "cut", "case", "twice"),
    ("token", "redirect_uri"): ("below", "twice"),
    ("token", "code_verifier"): ("absent", "empty", "cut", "case", "other", "twice"),
    ("token", "client_id"): _NAMED,
    ("token", "resource"): _RESOURCE,
    ("token", "assertion"): ("absent", "cut", "case", "twice"),
    ("token", "client_assertion"): ("absent", "cut", "twice"),
    ("token", "client_assertion_type"): _NAMED,
    ("refresh", "grant_type"): _NAMED,
    ("refresh", "refresh_token"): ("absent", "cut", "case", "twice"),
    ("refresh", "client_id"): _NAMED,
    ("refresh", "resource"): _RESOURCE,
    ("exchange", "grant_type"): _NAMED,
    ("exchange", "requested_token_type"): _NAMED,
    ("exchange", "audience"): ("absent", "slash", "other", "twice"),
    # It may be absent.
    ("exchange", "resource"): ("origin", "fragment", "below", "twice"),
    ("exchange", "subject_token"): ("absent", "cut", "twice"),
    ("exchange", "subject_token_type"): _NAMED,
    ("exchange", "client_id"): _NAMED,
}
"""By kind of request and parameter, the changes that are wrong."""


def with_field(name: str, change: Callable[[str, str], Fields], request: LoginRequest) -> LoginRequest:
    """Return a request in which each parameter with a name is replaced by others."""
    changed: Fields = []
    for each in request.fields:
        changed += change(*each) if each[0] == name else [each]
    return request.with_fields(changed)


class _FixedState(LoginMutation):
    """The mutation that sends the same state in each authorization request."""

    def __init__(self) -> None:
        self._own = ""

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Return the request with the fixed state."""
        if request.kind != "authorize":
            return None
        self._own = dict(request.fields).get("state", "")
        return with_field("state", lambda name, _: [(name, "the-same-state-each-time")], request)

    def login_reply(self, request: LoginRequest, reply: LoginReply) -> LoginReply | None:
        """Return the response with the state of the client."""
        return with_answer(reply, state=self._own) if request.kind == "authorize" else None


def with_answer(reply: LoginReply, **fields: str) -> LoginReply:
    """Return an authorization response with other parameters."""
    place, _, query = reply.header("location").partition("?")
    return reply.with_header("Location", f"{place}?{urlencode({**dict(parse_qsl(query)), **fields})}")


def _operators() -> Iterable[Operator]:
    for (kind, field), names in _FIELDS.items():
        for name in names:
            summary, change = _FIELD_CHANGES[name]
            yield login_operator(
                f"{kind}-{field.replace('_', '-')}-{name}",
                f"`{field}` {summary}",
                # Resource indicators are required since 2025-06-18.
                login_targets(kind, field, without=(FIRST,) if field == "resource" else ()),
                partial(RequestMutation, kind, partial(with_field, field, change)),
            )
    yield login_operator(
        "state-fixed",
        "each authorization request has the same state",
        login_targets("authorize", without=(FIRST,)),
        _FixedState,
    )


PARAMETER_OPERATORS: Final = tuple(_operators())
"""The operators on parameters."""
