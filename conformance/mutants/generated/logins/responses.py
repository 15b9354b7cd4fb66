"""Operators on what the client receives, so that the client as a whole makes the mistake.

A wrong issuer, for instance, is replaced by the right one, as if the client had not compared it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

import attrs

from mutants.generated.login_proxy import LoginMutation
from mutants.generated.logins.json_objects import json_of, with_json
from mutants.generated.logins.operator import FIRST, LEGACY, OLD, login_operator, login_targets
from mutants.generated.logins.parameters import with_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.generated.fault import Operator
    from mutants.generated.login_proxy import LoginReply, LoginRequest

__all__ = ["RESPONSE_OPERATORS"]


_EQUALS: Final[tuple[tuple[str, str, Callable[[str, str], bool]], ...]] = (
    ("any", "any value is accepted", lambda _, __: True),
    ("slash", "a trailing slash is ignored", lambda text, own: text.rstrip("/") == own.rstrip("/")),
    ("case", "the case is ignored", lambda text, own: text.lower() == own.lower()),
    ("prefix", "a value that begins with the right one is accepted", lambda text, own: text.startswith(own)),
    ("host", "only the host is compared", lambda text, own: urlsplit(text).hostname == urlsplit(own).hostname),
    (
        "origin",
        "only the origin is compared",
        lambda text, own: (
            (urlsplit(text).scheme, urlsplit(text).netloc) == (urlsplit(own).scheme, urlsplit(own).netloc)
            and urlsplit(text).path not in ("", "/")
        ),
    ),
)
"""The comparisons that are too loose."""


class _ReplyMutation(LoginMutation):
    """A change of what the client receives, with the values that the client expects."""

    def __init__(self, change: Callable[[LoginRequest, LoginReply, _ClientState], LoginReply | None]) -> None:
        self._change: Final = change
        self._expected: Final = _ClientState()

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Remember what the client expects."""
        if request.kind == "mcp":
            self._expected.resource = request.url.partition("?")[0]
        if request.kind == "authorize":
            self._expected.state = dict(request.fields).get("state", "")
        return None

    def login_reply(self, request: LoginRequest, reply: LoginReply) -> LoginReply | None:
        """Return what the client receives."""
        changed = self._change(request, reply, self._expected)
        document = json_of(reply)
        servers = document.get("authorization_servers")
        if request.kind == "resource-metadata" and isinstance(servers, list) and servers:
            self._expected.issuer = str(servers[0])
        return changed


@attrs.define
class _ClientState:
    """The values that the client compares: the URL of the server, the issuer, and the state."""

    resource: str = ""
    issuer: str = ""
    state: str = ""
    kept: JsonObject = attrs.field(factory=dict)


def _issuer(rule: Callable[[str, str], bool]) -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, expected: _ClientState) -> LoginReply | None:
        found = str(json_of(reply).get("issuer"))
        near = request.kind == "server-metadata" and reply.status == 200 and found != expected.issuer
        return with_json(reply, issuer=expected.issuer) if near and rule(found, expected.issuer) else None

    return _ReplyMutation(changed)


def _resource(rule: Callable[[str, str], bool]) -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, expected: _ClientState) -> LoginReply | None:
        found = str(json_of(reply).get("resource"))
        near = request.kind == "resource-metadata" and reply.status == 200 and found != expected.resource
        return with_json(reply, resource=expected.resource) if near and rule(found, expected.resource) else None

    return _ReplyMutation(changed)


def _iss(rule: Callable[[str, str], bool]) -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, expected: _ClientState) -> LoginReply | None:
        found = dict(parse_qsl(urlsplit(reply.header("location")).query)).get("iss")
        near = request.kind == "authorize" and found is not None and found != expected.issuer
        return with_answer(reply, iss=expected.issuer) if near and rule(str(found), expected.issuer) else None

    return _ReplyMutation(changed)


def _answer(name: str, applies: Callable[[str | None], bool]) -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, expected: _ClientState) -> LoginReply | None:
        held = dict(parse_qsl(urlsplit(reply.header("location")).query))
        if request.kind != "authorize" or "code" not in held or not applies(held.get(name)):
            return None
        return with_answer(reply, **{name: expected.state if name == "state" else expected.issuer})

    return _ReplyMutation(changed)


def _pkce() -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, _: _ClientState) -> LoginReply | None:
        if request.kind != "server-metadata" or reply.status != 200:
            return None
        return with_json(reply, code_challenge_methods_supported=["S256"])

    return _ReplyMutation(changed)


def _challenge(change: Callable[[str], str]) -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, _: _ClientState) -> LoginReply | None:
        held = reply.header("www-authenticate")
        return reply.with_header("WWW-Authenticate", change(held)) if request.kind == "mcp" and held else None

    return _ReplyMutation(changed)


def _without_parameter(name: str) -> Callable[[str], str]:
    def changed(challenge: str) -> str:
        before, found, after = challenge.partition(f'{name}="')
        return f"{before}{after.partition(chr(34))[2].lstrip(', ')}".rstrip(", ") if found else challenge

    return changed


def _member(kind: str, **members: object) -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, _: _ClientState) -> LoginReply | None:
        return with_json(reply, **members) if request.kind == kind and reply.status == 200 else None

    return _ReplyMutation(changed)


def _first_metadata() -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, expected: _ClientState) -> LoginReply | None:
        if request.kind != "resource-metadata" or reply.status != 200:
            return None
        if not expected.kept:
            expected.kept.update(json_of(reply))
        return with_json(reply, **expected.kept)

    return _ReplyMutation(changed)


def _without_nonce(kind: str) -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, _: _ClientState) -> LoginReply | None:
        return reply.with_header("DPoP-Nonce") if request.kind == kind else None

    return _ReplyMutation(changed)


def _operators() -> Iterable[Operator]:
    def received(
        name: str, summary: str, at: str, mutation: Callable[[], LoginMutation], *, without: tuple[str, ...] = LEGACY
    ) -> Operator:
        return login_operator(name, summary, login_targets(at, without=without), mutation, provoked=True)

    for name, summary, rule in _EQUALS:
        if name != "origin":
            yield received(
                f"issuer-{name}", f"the issuer of metadata: {summary}", "server-metadata", partial(_issuer, rule)
            )
            yield received(f"iss-{name}", f"the issuer of a response: {summary}", "authorize", partial(_iss, rule))
        if name not in ("case", "slash"):
            yield received(
                f"resource-{name}",
                f"the resource of metadata: {summary}",
                "resource-metadata",
                partial(_resource, rule),
            )
    yield received(
        "iss-absent",
        "a response without an issuer is accepted",
        "authorize",
        partial(_answer, "iss", lambda it: it is None),
    )
    yield received(
        "state-any",
        "any state is accepted",
        "authorize",
        partial(_answer, "state", lambda it: it is not None),
        without=(FIRST,),
    )
    yield received(
        "state-unchecked",
        "a response without a state is accepted",
        "authorize",
        partial(_answer, "state", lambda it: it is None),
        without=(FIRST,),
    )
    yield received("pkce-unchecked", "PKCE support is not verified", "server-metadata", _pkce, without=OLD)
    for name in ("scope", "resource_metadata"):
        yield received(
            f"challenge-{name.partition('_')[0]}-ignored",
            f"`{name}` of a challenge is ignored",
            "mcp",
            partial(_challenge, _without_parameter(name)),
            without=OLD,
        )
    yield received(
        "scopes-supported-ignored",
        "the scopes of the resource metadata are ignored",
        "resource-metadata",
        partial(_member, "resource-metadata", scopes_supported=None),
        without=OLD,
    )
    yield received(
        "documents-ignored",
        "support of metadata documents is ignored",
        "server-metadata",
        partial(_member, "server-metadata", client_id_metadata_document_supported=None),
        without=OLD,
    )
    yield received(
        "documents-assumed",
        "support of metadata documents is assumed",
        "server-metadata",
        partial(_member, "server-metadata", client_id_metadata_document_supported=True),
        without=OLD,
    )
    yield received(
        "migration-ignored", "the first authorization server is never replaced", "resource-metadata", _first_metadata
    )
    for kind in ("token", "mcp"):
        yield received(
            f"nonce-ignored-{kind}", f"the nonce of {kind} responses is ignored", kind, partial(_without_nonce, kind)
        )


RESPONSE_OPERATORS: Final = tuple(_operators())
"""The operators on responses."""
