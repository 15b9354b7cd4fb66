"""Operators on protected servers: near misses of credentials that are accepted, and routes that need none.

The proxy gives a request a valid token in place of a wrong one, so that the server as a whole makes the mistake. An
operator names what the comparison accepts; the suite must send a credential of that kind.
"""

from __future__ import annotations

import base64
import json
import time
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

import attrs

from mutants.generated.fault import Leg, Operator, Recording, Target
from mutants.generated.http_peer import protected_issuer
from mutants.generated.logins.json_objects import changes
from mutants.generated.proxy import HttpHead, Mutation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.generated.proxy import Conversation

__all__ = ["PROTECTED", "PROTECTED_OPERATORS"]

PROTECTED: Final = "protected"
"""The transport of the legs of protected servers, which is HTTP with tokens."""
_TARGET: Final = "auth token"
_NO_METADATA: Final = "2025-03-26"
_MODERN: Final = "2026-07-28"
_YEAR: Final = 365 * 24 * 3600
"""A year, in seconds."""
_NO_OWNERS: Final = ("2025-03-26", "2026-07-28")
"""The revisions without sessions that belong to a user."""


def _part(token: str, index: int) -> JsonObject:
    """Return a decoded part of a token; empty if the token is no JWT."""
    try:
        part = token.split(".")[index]
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, IndexError):
        return {}
    return found if isinstance(found, dict) else {}


def _credential(head: HttpHead) -> tuple[str, str]:
    scheme, _, token = (head.first("authorization") or "").partition(" ")
    return scheme.lower(), token


class _TokenMutation(Mutation):
    """The mutation that gives a request a valid token in place of a wrong one.

    Args:
        accepts: Whether the server accepts the request, by its head and the claims of its token.
    """

    def __init__(self, accepts: Callable[[HttpHead, JsonObject], bool]) -> None:
        self._accepts: Final = accepts

    def request_head(self, head: HttpHead) -> HttpHead | None:
        """Return the head with a valid token."""
        if not urlsplit(_target(head)).path.endswith("/mcp"):
            return None
        _, token = _credential(head)
        if not self._accepts(head, _part(token, 1)):
            return None
        bare = head.without("authorization").without("dpop")
        valid = ("Authorization", f"Bearer {protected_issuer().token()}")
        return attrs.evolve(bare, headers=(*bare.headers, valid))


class _ChangedClaims(Mutation):
    """The mutation that gives a request a token whose claim is compared loosely.

    Args:
        change: Returns the claims in place of those of a token, or `None`.
    """

    def __init__(self, change: Callable[[JsonObject], JsonObject | None]) -> None:
        self._change: Final = change

    def request_head(self, head: HttpHead) -> HttpHead | None:
        """Return the head with another token."""
        scheme, token = _credential(head)
        changed = self._change(_part(token, 1)) if scheme == "bearer" else None
        if changed is None:
            return None
        bare = head.without("authorization")
        valid = ("Authorization", f"Bearer {protected_issuer().token(changes=changed)}")
        return attrs.evolve(bare, headers=(*bare.headers, valid))


def _target(head: HttpHead) -> str:
    return head.start.split(" ")[1] if head.start.count(" ") > 1 else ""


# --- comparisons of URLs ----------------------------------------------------------------------------------------------


def _host(parts: SplitResult) -> str:
    try:
        return parts.hostname or ""
    except ValueError:
        return ""


def _by_port(found: SplitResult, own: SplitResult) -> bool:
    return (found.scheme, _host(found), found.path) == (own.scheme, _host(own), own.path)


_URLS: Final[tuple[tuple[str, str, Callable[[str, str], bool]], ...]] = (
    ("any", "any value is accepted", lambda text, _: bool(text)),
    ("prefix", "a value that begins with the right one is accepted", lambda text, own: text.startswith(own)),
    ("contains", "a value that contains the right one is accepted", lambda text, own: own in text),
    ("below", "a path below the right one is accepted", lambda text, own: text.startswith(f"{own}/")),
    (
        "path",
        "another path on the same host is accepted",
        lambda text, own: urlsplit(text)[:2] == urlsplit(own)[:2] and text.rstrip("/") != own,
    ),
    ("port", "another port of the same host is accepted", lambda text, own: _by_port(urlsplit(text), urlsplit(own))),
    (
        "host-prefix",
        "a host that begins as the right one is accepted",
        lambda text, own: urlsplit(text).netloc.startswith(urlsplit(own).netloc),
    ),
    (
        "host-suffix",
        "a host that ends as the right one is accepted",
        lambda text, own: urlsplit(text).netloc.endswith(urlsplit(own).netloc),
    ),
    (
        "userinfo",
        "the userinfo is taken for the host",
        lambda text, own: "@" in text and urlsplit(text).netloc.startswith(urlsplit(own).netloc),
    ),
)
"""The comparisons of a URL that are too loose: whether a text that is not the right URL is accepted for it."""


def _near(rule: Callable[[str, str], bool], text: object, own: str) -> bool:
    try:
        return isinstance(text, str) and text != own and rule(text, own)
    except ValueError:
        return False


def _audience(rule: Callable[[str, str], bool]) -> Callable[[JsonObject], JsonObject | None]:
    def changed(claims: JsonObject) -> JsonObject | None:
        own = protected_issuer().resource
        return {**claims, "aud": own} if _near(rule, claims.get("aud"), own) else None

    return changed


def _issuer(rule: Callable[[str, str], bool]) -> Callable[[JsonObject], JsonObject | None]:
    def changed(claims: JsonObject) -> JsonObject | None:
        own = protected_issuer().url
        return {**claims, "iss": own} if _near(rule, claims.get("iss"), own) else None

    return changed


def _proof_url(rule: Callable[[str, str], bool]) -> Callable[[HttpHead, JsonObject], bool]:
    return lambda head, _: _near(rule, _part(head.first("dpop") or "", 1).get("htu"), protected_issuer().resource)


# --- other credentials ------------------------------------------------------------------------------------------------


def _scope(is_enough: Callable[[str], bool]) -> Callable[[JsonObject], JsonObject | None]:
    def changed(claims: JsonObject) -> JsonObject | None:
        given = str(claims.get("scope", "")).split()
        if "mcp:admin" in given or not any(is_enough(each) for each in given):
            return None
        return {**claims, "scope": "mcp mcp:admin"}

    return changed


def _unsigned(head: HttpHead, _: JsonObject) -> bool:
    token = _credential(head)[1]
    return token.count(".") == 2 and (token.endswith(".") or _part(token, 0).get("alg") == "none")


_TOKENS: Final[tuple[tuple[str, str, Callable[[HttpHead, JsonObject], bool]], ...]] = (
    ("token-malformed", "a token that is no JWT is accepted", lambda head, c: bool(_credential(head)[1]) and not c),
    (
        "token-expired",
        "an expired token is accepted",
        lambda _, claims: isinstance(claims.get("exp"), int) and int(str(claims["exp"])) < time.time(),
    ),
    ("token-unsigned", "a token without a signature is accepted", _unsigned),
    (
        "token-audience-absent",
        "a token without an audience is accepted",
        lambda _, claims: bool(claims) and "aud" not in claims,
    ),
    (
        "session-of-another",
        "a user has access to the session of another one",
        lambda head, claims: claims.get("sub") not in (None, "ada") and head.first("mcp-session-id") is not None,
    ),
    (
        "scheme-any",
        "a token with any scheme is accepted",
        lambda head, claims: bool(claims) and _credential(head)[0] not in ("bearer", "dpop"),
    ),
    (
        "token-in-cookie",
        "a token in a cookie is accepted",
        lambda head, _: head.first("authorization") is None and "token=" in (head.first("cookie") or ""),
    ),
    (
        "connection-trusted",
        "a second request on a connection needs no token",
        lambda head, _: head.number > 0 and head.first("authorization") is None,
    ),
    (
        "proof-absent",
        "a bound token without a proof is accepted",
        lambda head, claims: "cnf" in claims and head.first("dpop") is None,
    ),
    (
        "proof-twice",
        "two proofs are accepted",
        lambda head, _: sum(name.lower() == "dpop" for name, _value in head.headers) > 1,
    ),
    (
        "proof-method",
        "a proof for another method is accepted",
        lambda head, _: _part(head.first("dpop") or "", 1).get("htm", "POST") != "POST",
    ),
    (
        "proof-method-prefix",
        "a proof for a method that begins as the right one is accepted",
        lambda head, _: (
            str(_part(head.first("dpop") or "", 1).get("htm")).startswith("POST")
            and _part(head.first("dpop") or "", 1)["htm"] != "POST"
        ),
    ),
    (
        "proof-type",
        "a proof of another type is accepted",
        lambda head, _: _part(head.first("dpop") or "", 0).get("typ", "dpop+jwt") != "dpop+jwt",
    ),
    (
        "proof-type-prefix",
        "a proof whose type begins as the right one is accepted",
        lambda head, _: str(_part(head.first("dpop") or "", 0).get("typ")).startswith("dpop+jwt-"),
    ),
    (
        "proof-old",
        "an old proof is accepted",
        lambda head, _: _seconds_old(head) > 310,
    ),
    (
        "proof-future",
        "a proof of the future is accepted",
        lambda head, _: _seconds_old(head) < -310,
    ),
    (
        "proof-untimed",
        "a proof without a time of issue is accepted",
        lambda head, _: head.first("dpop") is not None and "iat" not in _part(head.first("dpop") or "", 1),
    ),
    (
        "proof-time-text",
        "a proof whose time of issue is a text is accepted",
        lambda head, _: isinstance(_part(head.first("dpop") or "", 1).get("iat"), str),
    ),
    (
        "proof-long-ago",
        "a proof of years ago is accepted",
        lambda head, _: _seconds_old(head) > _YEAR,
    ),
    (
        "proof-milliseconds",
        "a time of issue in milliseconds is accepted",
        lambda head, _: _seconds_old(head) < -_YEAR,
    ),
    (
        "proof-unnumbered",
        "a proof without an id is accepted",
        lambda head, _: head.first("dpop") is not None and "jti" not in _part(head.first("dpop") or "", 1),
    ),
    (
        "downgrade",
        "a bound token with the scheme Bearer is accepted",
        lambda head, claims: "cnf" in claims and _credential(head)[0] == "bearer",
    ),
)
"""The credentials that are accepted, and how the proxy recognizes them."""


def _seconds_old(head: HttpHead) -> float:
    issued = _part(head.first("dpop") or "", 1).get("iat")
    return time.time() - issued if isinstance(issued, int) else 0.0


def _on_route(kind: str) -> Callable[[HttpHead, JsonObject], bool]:
    return lambda head, _: head.start.startswith(f"{kind} ") and head.first("authorization") is None


class _RouteMutation(Mutation):
    """The mutation that lets a kind of message pass without a token."""

    def __init__(self, is_free: Callable[[JsonObject], bool]) -> None:
        self._is_free: Final = is_free
        self._last: JsonObject = {}

    def received(self, message: JsonObject, conversation: Conversation) -> list[JsonObject] | None:  # noqa: ARG002  as in Mutation
        """Remember the message: its head is passed on after it."""
        self._last = message
        return None

    def request_head(self, head: HttpHead) -> HttpHead | None:
        """Return the head with a valid token."""
        message, self._last = self._last, {}
        if head.first("authorization") is not None or not message or not self._is_free(message):
            return None
        return attrs.evolve(head, headers=(*head.headers, ("Authorization", f"Bearer {protected_issuer().token()}")))


_ROUTES: Final[tuple[tuple[str, str, tuple[str, ...], Callable[[JsonObject], bool]], ...]] = (
    ("notification", "a notification needs no token", (), lambda message: "id" not in message),
    ("list", "lists need no token", (), lambda message: str(message.get("method")).endswith("/list")),
    (
        "opening",
        "the first request needs no token",
        (),
        lambda message: message.get("method") in ("initialize", "server/discover"),
    ),
    ("ping", "a ping needs no token", (_MODERN,), lambda message: message.get("method") == "ping"),
)
"""The kinds of messages that need no token, and the revisions without them."""

_SCOPES: Final[tuple[tuple[str, str, Callable[[str], bool]], ...]] = (
    ("any", "any scope is sufficient", lambda _: True),
    ("prefix", "a scope that begins as the required one is sufficient", lambda text: text.startswith("mcp:admin")),
    ("beginning", "the beginning of the required scope is sufficient", lambda text: text in ("mcp:admi", "mcp:")),
    ("case", "scopes are compared without regard to case", lambda text: text.lower() == "mcp:admin"),
)


# --- metadata ---------------------------------------------------------------------------------------------------------


class _MetadataMutation(Mutation):
    """A change of the protected resource metadata."""

    def __init__(self, change: Callable[[JsonObject], None]) -> None:
        self._change: Final = change

    def body(self, body: bytes, kind: str) -> bytes | None:
        """Return the changed document."""
        if kind != "GET 200 body" or b'"authorization_servers"' not in body:
            return None
        document: JsonObject = json.loads(body)
        self._change(document)
        return json.dumps(document).encode()


def _resource(change: Callable[[str], str]) -> Callable[[JsonObject], None]:
    def changed(document: JsonObject) -> None:
        document["resource"] = change(str(document["resource"]))

    return changed


_METADATA: Final[tuple[tuple[str, str, Callable[[JsonObject], None]], ...]] = (
    ("servers-absent", "the metadata name no authorization servers", changes(authorization_servers=None)),
    ("servers-empty", "the list of authorization servers is empty", changes(authorization_servers=[])),
    (
        "servers-text",
        "the authorization server is a text",
        lambda document: document.update(authorization_servers=protected_issuer().url),
    ),
    ("resource-absent", "the metadata name no resource", changes(resource=None)),
    ("resource-origin", "the resource is only the origin", _resource(lambda text: text.removesuffix("/mcp"))),
    ("resource-slash", "the resource has a trailing slash", _resource(lambda text: f"{text}/")),
    ("resource-below", "the resource is another path", _resource(lambda text: f"{text}/other")),
    ("resource-port", "the resource has another port", _resource(lambda text: text.replace(":2", ":3", 1))),
)


# --- the table --------------------------------------------------------------------------------------------------------


def _targets(*without: str) -> Callable[[Recording], Iterable[Target]]:
    """Return the target of protected servers, except in some revisions."""

    def targets(recording: Recording) -> Iterable[Target]:
        leg = recording.leg
        return [Target(key=_TARGET)] if leg.transport == PROTECTED and leg.revision not in without else []

    return targets


def _operator(
    name: str, summary: str, mutation: Callable[[], Mutation], *, without: tuple[str, ...] = (), invisible: str = ""
) -> Operator:
    def made(target: Target, leg: Leg) -> Mutation:  # noqa: ARG001  one signature
        return mutation()

    return Operator(
        name=f"protected-{name}",
        summary=summary,
        targets=_targets(*without),
        mutation=made,
        provoked=True,
        invisible=invisible,
    )


def _operators() -> Iterable[Operator]:
    # The extension DPoP exists since 2026-07-28, audiences since 2025-06-18, as the metadata that name the resource.
    legacy = ("2025-03-26", "2025-06-18", "2025-11-25")
    for name, summary, accepts in _TOKENS:
        of_proofs = name.startswith(("proof-", "downgrade"))
        of_sessions = name.startswith("session-")
        without = legacy if of_proofs else (_NO_METADATA,) if "audience" in name else _NO_OWNERS if of_sessions else ()
        yield _operator(name, summary, partial(_TokenMutation, accepts), without=without)
    for name, summary, rule in _URLS:
        yield _operator(
            f"audience-{name}",
            f"the audience: {summary}",
            partial(_ChangedClaims, _audience(rule)),
            without=(_NO_METADATA,),
        )
        yield _operator(
            f"proof-url-{name}",
            f"the URL of a proof: {summary}",
            partial(_TokenMutation, _proof_url(rule)),
            without=legacy,
        )
    for name, summary, rule in _URLS:
        if name in ("any", "prefix", "contains", "below", "host-prefix"):
            yield _operator(f"issuer-{name}", f"the issuer: {summary}", partial(_ChangedClaims, _issuer(rule)))
    for name, summary, is_enough in _SCOPES:
        yield _operator(f"scope-{name}", summary, partial(_ChangedClaims, _scope(is_enough)))
    for kind in ("GET", "DELETE"):
        yield _operator(
            f"absent-{kind.lower()}",
            f"a {kind} needs no token",
            partial(_TokenMutation, _on_route(kind)),
            without=(_MODERN,),
        )
    for name, summary, unknown_in, is_free in _ROUTES:
        yield _operator(f"absent-{name}", summary, partial(_RouteMutation, is_free), without=unknown_in)
    for name, summary, change in _METADATA:
        # Before 2026-07-28 the resource may be the whole origin.
        without = legacy if name == "resource-origin" else (_NO_METADATA,)
        yield _operator(f"metadata-{name}", summary, partial(_MetadataMutation, change), without=without)


PROTECTED_OPERATORS: Final = tuple(_operators())
"""The operators on protected servers."""
