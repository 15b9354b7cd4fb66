"""Operators on what a server receives: comparisons that are too lax, credentials that it ignores, state it forgets.

The proxy changes a request before the correct server reads it, so that the server as a whole makes the mistake: a request
from a foreign origin gets an own one, as if the origin had been compared by its beginning.
"""

# ruff: noqa: ARG001, ARG002  # all operators and hooks have the parameters that their callers pass

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import attrs

from mcp_core.types.meta import LOG_LEVEL
from mutants.generated.fault import Leg, Operator, Recording, Target
from mutants.generated.proxy import HttpHead, Mutation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.generated.proxy import Conversation

__all__ = ["RECEIVED_OPERATORS"]

_OWN: Final = "127.0.0.1"
_ORIGIN: Final = f"http://{_OWN}:1"
_KEY: Final = "Bearer raw"
_LEGACY: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_VERSIONS: Final = (*_LEGACY, "2026-07-28")


class _HeadMutation(Mutation):
    """A change of the heads of requests."""

    def __init__(self, change: Callable[[HttpHead], HttpHead]) -> None:
        self._change: Final = change

    def request_head(self, head: HttpHead) -> HttpHead | None:
        """Return the changed head."""
        changed = self._change(head)
        return None if changed == head else changed


class _MessageMutation(Mutation):
    """A change of received messages."""

    def __init__(self, change: Callable[[JsonObject, Conversation], list[JsonObject] | None]) -> None:
        self._change: Final = change

    def received(self, message: JsonObject, conversation: Conversation) -> list[JsonObject] | None:
        """Return what the peer receives."""
        return self._change(message, conversation)


# --- comparisons ------------------------------------------------------------------------------------------------------


def _accepts(name: str, value: str, is_near: Callable[[str], bool]) -> Callable[[HttpHead], HttpHead]:
    """Give a header the right value where it is a near miss."""

    def changed(head: HttpHead) -> HttpHead:
        held = head.first(name)
        return head.replaced(name, (name, value)) if held is not None and is_near(held) else head

    return changed


def _host(text: str) -> str:
    try:
        return urlsplit(text).hostname or ""
    except ValueError:
        return ""


_ORIGINS: Final[tuple[tuple[str, str, Callable[[str], bool]], ...]] = (
    ("any", "every origin is accepted", lambda _: True),
    ("null", "the origin `null` is accepted", lambda text: text == "null"),
    (
        "prefix",
        "an origin is accepted that begins as the own one",
        lambda text: _host(text).startswith(("localhost", _OWN)) and _host(text) not in ("localhost", _OWN),
    ),
    (
        "suffix",
        "an origin is accepted that ends as the own one",
        lambda text: _host(text).endswith(("localhost", _OWN)) and _host(text) not in ("localhost", _OWN),
    ),
    (
        "contains",
        "an origin is accepted that contains the own one",
        lambda text: ("localhost" in text or _OWN in text) and _host(text) not in ("localhost", _OWN),
    ),
    ("userinfo", "the userinfo of an origin is taken for its host", lambda text: "@" in text),
)


def _same_as_host(head: HttpHead) -> HttpHead:
    """Give an origin that equals the Host header the right value, with the right Host: the name may be a rebound one."""
    origin, host = head.first("origin"), head.first("host")
    if origin is None or urlsplit(origin).netloc != host or _host(origin) == _OWN:
        return head
    return head.replaced("origin", ("Origin", _ORIGIN)).replaced("host", ("Host", f"{_OWN}:1"))


def _on(kind: str, change: Callable[[HttpHead], HttpHead]) -> Callable[[HttpHead], HttpHead]:
    """Limit a change to requests of an HTTP method."""
    return lambda head: change(head) if head.start.startswith(f"{kind} ") else head


def _with_key(head: HttpHead) -> HttpHead:
    return attrs.evolve(
        head.without("authorization"), headers=(*head.without("authorization").headers, ("Authorization", _KEY))
    )


def _authorized(head: HttpHead) -> HttpHead:
    return _with_key(head) if head.first("authorization") is None else head


def _version_of(change: Callable[[str | None], str | None]) -> Callable[[HttpHead], HttpHead]:
    name = "MCP-Protocol-Version"

    def changed(head: HttpHead) -> HttpHead:
        value = change(head.first(name))
        return head if value is None else attrs.evolve(head, headers=(*head.without(name).headers, (name, value)))

    return changed


def _nearest(value: str | None) -> str | None:
    known = None if value in _VERSIONS or value is None else value.strip()[:10]
    return known if known in _VERSIONS else None


def _any_known(value: str | None) -> str | None:
    return None if value is None or value in _VERSIONS else "2025-11-25"


class _SessionMutation(Mutation):
    """The mutation that takes an unknown session id for the last session."""

    def __init__(self) -> None:
        self._known: Final[list[str]] = []

    def head(self, head: HttpHead, request: HttpHead, kind: str) -> HttpHead | None:
        """Remember the sessions."""
        id = head.first("mcp-session-id")
        if id is not None and id not in self._known:
            self._known.append(id)
        return None

    def request_head(self, head: HttpHead) -> HttpHead | None:
        """Return the head with the last session."""
        id = head.first("mcp-session-id")
        if id is None or id in self._known or not self._known:
            return None
        return head.replaced("mcp-session-id", ("Mcp-Session-Id", self._known[-1]))


class _ConnectionSession(Mutation):
    """The mutation that takes the last session for that of a second request on a connection."""

    def __init__(self) -> None:
        self._last = ""

    def request_head(self, head: HttpHead) -> HttpHead | None:
        """Remember the session, or return the head with it."""
        id = head.first("mcp-session-id")
        self._last = id or self._last
        if id is not None or not head.number or not self._last:
            return None
        return attrs.evolve(head, headers=(*head.headers, ("Mcp-Session-Id", self._last)))


# --- messages ---------------------------------------------------------------------------------------------------------


def _params(
    change: Callable[[JsonObject], bool], *methods: str
) -> Callable[[JsonObject, Conversation], list[JsonObject] | None]:
    def changed(message: JsonObject, conversation: Conversation) -> list[JsonObject] | None:
        params = message.get("params")
        named = not methods or message.get("method") in methods
        return [message] if named and isinstance(params, dict) and change(params) else None

    return changed


def _of_member(name: str, change: Callable[[str], str]) -> Callable[[JsonObject], bool]:
    def changed(params: JsonObject) -> bool:
        held = params.get(name)
        if not isinstance(held, str) or change(held) == held:
            return False
        params[name] = change(held)
        return True

    return changed


def _lowest_level(params: JsonObject) -> bool:
    """Lower the level of `logging/setLevel`, or the one in the metadata of a request of 2026-07-28."""
    meta = params.get("_meta")
    requested = isinstance(meta, dict) and _of_member(LOG_LEVEL, lambda _: "debug")(meta)
    return _of_member("level", lambda _: "debug")(params) or requested


def _without(*names: str) -> Callable[[JsonObject], bool]:
    def changed(params: JsonObject) -> bool:
        held = [name for name in names if name in params]
        for name in held:
            del params[name]
        return bool(held)

    return changed


def _dropped(*methods: str) -> Callable[[JsonObject, Conversation], list[JsonObject] | None]:
    return lambda message, _: (
        [{"jsonrpc": "2.0", "method": "notifications/ignored"}] if message.get("method") in methods else None
    )


def _valid_jsonrpc(message: JsonObject, conversation: Conversation) -> list[JsonObject] | None:
    return None if message.get("jsonrpc") == "2.0" else [{**message, "jsonrpc": "2.0"}]


def _without_task(params: JsonObject) -> bool:
    return _without("task")(params)


def _all_capabilities(params: JsonObject) -> bool:
    everything: JsonObject = {
        "sampling": {"tools": {}, "context": {}},
        "roots": {},
        "elicitation": {"form": {}, "url": {}},
    }
    if params.get("capabilities") == everything:
        return False
    params["capabilities"] = everything
    return True


_LOWER: Final = ("lower", str.lower)
_TRIMMED: Final = ("trimmed", str.strip)
_NO_SLASH: Final = ("no-slash", lambda text: text.rstrip("/"))

_LISTS: Final = ("tools/list", "resources/list", "prompts/list", "resources/templates/list", "tasks/list")
_IDENTIFIED: Final[tuple[tuple[str, tuple[str, ...], tuple[tuple[str, Callable[[str], str]], ...]], ...]] = (
    ("name", ("tools/call", "prompts/get"), (_LOWER, _TRIMMED, _NO_SLASH)),
    ("cursor", _LISTS, (_LOWER, _TRIMMED)),
    ("taskId", ("tasks/get", "tasks/result", "tasks/cancel", "tasks/update"), (_LOWER, _TRIMMED)),
)
"""By member, the methods that have it, and the ways in which it may be compared too loosely. Which URIs are equal is left to
the server, which may read any."""

_MESSAGES: Final[tuple[tuple[str, str, str, Callable[[JsonObject, Conversation], list[JsonObject] | None]], ...]] = (
    ("jsonrpc-unchecked", "the member `jsonrpc` is not checked", "* result", _valid_jsonrpc),
    (
        "cancellation-ignored",
        "cancellations are ignored",
        "notifications/progress notification",
        _dropped("notifications/cancelled"),
    ),
    (
        "level-ignored",
        "the log level is ignored",
        "notifications/message notification",
        _params(_lowest_level),
    ),
    (
        "cursor-ignored",
        "cursors are ignored",
        "resources/list result",
        _params(_without("cursor"), "resources/list", "tools/list", "prompts/list", "resources/templates/list"),
    ),
    (
        "arguments-ignored",
        "arguments are ignored",
        "tools/call result",
        _params(_without("arguments"), "tools/call", "prompts/get"),
    ),
    (
        "token-ignored",
        "the progress token is ignored",
        "notifications/progress notification",
        lambda message, _: _without_token(message),
    ),
    ("task-ignored", "the request for a task is ignored", "tools/call result", _params(_without_task, "tools/call")),
    (
        "unsubscribe-ignored",
        "the end of a subscription is ignored",
        "notifications/resources/updated notification",
        lambda message, _: (
            [{**message, "method": "ping", "params": {}}] if message.get("method") == "resources/unsubscribe" else None
        ),
    ),
    (
        "answers-ignored",
        "input responses are ignored",
        "tools/call result",
        _params(_without("inputResponses"), "tools/call", "prompts/get", "resources/read"),
    ),
    (
        "state-ignored",
        "the request state is ignored",
        "tools/call result",
        _params(_without("requestState"), "tools/call", "prompts/get", "resources/read"),
    ),
    (
        "capabilities-ignored",
        "the capabilities of the client are ignored",
        "* request",
        _params(_all_capabilities, "initialize"),
    ),
)


def _without_token(message: JsonObject) -> list[JsonObject] | None:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(meta, dict) or "progressToken" not in meta or "id" not in message:
        return None
    del meta["progressToken"]
    return [message]


_ONLY_IN: Final[Mapping[str, tuple[str, ...]]] = {
    "answers-ignored": _VERSIONS[-1:],
    "state-ignored": _VERSIONS[-1:],
    "task-ignored": ("2025-11-25",),
    "unsubscribe-ignored": _LEGACY,
}
"""The revisions with the method or member that a fault ignores."""

_BY_CLOSING: Final = (("cancellation-ignored", "2026-07-28", "http"),)
"""Legs without the message that a fault ignores: a client closes the stream of a request to cancel it."""

_PERMITTED: Final[Mapping[str, str]] = {"token-ignored": "A server may send no progress notifications."}
"""Why the specification permits what a server ignores."""


# --- the table --------------------------------------------------------------------------------------------------------


def _http(key: str, *, revisions: tuple[str, ...] = _VERSIONS) -> Callable[[Recording], Iterable[Target]]:
    def targets(recording: Recording) -> Iterable[Target]:
        leg = recording.leg
        return (
            [Target(key=key)] if leg.role == "server" and leg.transport == "http" and leg.revision in revisions else []
        )

    return targets


def _recorded(key: str, revisions: tuple[str, ...] = _VERSIONS) -> Callable[[Recording], Iterable[Target]]:
    def targets(recording: Recording) -> Iterable[Target]:
        kind = key.rpartition(" ")[2]
        known = bool(recording.keys(kind)) if key.startswith("*") else key in recording.samples
        leg = recording.leg
        return [Target(key=key)] if known and leg.role == "server" and leg.revision in revisions else []

    return targets


def _is_paged(recording: Recording, key: str) -> bool:
    """Return whether the list of the peer has several pages, so that it gives cursors."""
    return any("nextCursor" in str(each.get("result")) for each in recording.messages(key))


def _head_operator(
    name: str, summary: str, targets: Callable[[Recording], Iterable[Target]], change: Callable[[HttpHead], HttpHead]
) -> Operator:
    return Operator(
        name=name, summary=summary, targets=targets, mutation=lambda _, __: _HeadMutation(change), provoked=True
    )


def _head_operators() -> Iterable[Operator]:
    for name, summary, near in _ORIGINS:
        yield _head_operator(
            f"origin-{name}", summary, _http("* http", revisions=_VERSIONS[1:]), _accepts("Origin", _ORIGIN, near)
        )
    yield _head_operator(
        "origin-as-host",
        "an origin is accepted that equals the Host header",
        _http("* http", revisions=_VERSIONS[1:]),
        _same_as_host,
    )
    for method in ("POST", "GET", "DELETE"):
        revisions = _VERSIONS if method == "POST" else _LEGACY[1:]
        yield _head_operator(
            f"credentials-absent-{method.lower()}",
            f"a {method} without credentials is accepted",
            _http("* http", revisions=revisions),
            _on(method, _authorized),
        )
    known = _LEGACY[2:]
    yield _head_operator(
        "version-near", "a near miss of a version is accepted", _http("* http", revisions=known), _version_of(_nearest)
    )
    yield _head_operator(
        "version-any", "an unknown version is accepted", _http("* http", revisions=known), _version_of(_any_known)
    )
    yield Operator(
        name="session-of-connection",
        summary="a second request on a connection needs no session id",
        targets=_http("* http", revisions=_LEGACY[1:]),
        mutation=lambda _, __: _ConnectionSession(),
        provoked=True,
    )
    yield Operator(
        name="session-unknown",
        summary="an unknown session id is taken for the last session",
        targets=_http("* http", revisions=_LEGACY[1:]),
        mutation=lambda _, __: _SessionMutation(),
        provoked=True,
    )


def _message_targets(name: str, key: str) -> Callable[[Recording], Iterable[Target]]:
    recorded = _recorded(key, _ONLY_IN.get(name, _VERSIONS))

    def targets(recording: Recording) -> Iterable[Target]:
        leg = recording.leg
        return [] if (name, leg.revision, leg.transport) in _BY_CLOSING else recorded(recording)

    return targets


def _message_operator(
    name: str, summary: str, key: str, change: Callable[[JsonObject, Conversation], list[JsonObject] | None]
) -> Operator:
    return Operator(
        name=name,
        summary=summary,
        targets=_message_targets(name, key),
        invisible=_PERMITTED.get(name, ""),
        mutation=lambda _, __: _MessageMutation(change),
        provoked=True,
    )


def _near_operator(member: str, methods: tuple[str, ...], near: str, rule: Callable[[str], str]) -> Operator:
    def targets(recording: Recording) -> Iterable[Target]:
        found = [each for method in methods for each in _recorded(f"{method} result")(recording)]
        return [each for each in found if member != "cursor" or _is_paged(recording, each.key)]

    def mutation(target: Target, leg: Leg) -> Mutation:
        # A text that differs names something else, which the server does not have.
        return _MessageMutation(_params(_of_member(member, rule), target.key.rpartition(" ")[0]))

    return Operator(
        name=f"near-{member.lower()}-{near}",
        summary=f"`{member}` is compared loosely: {near}",
        targets=targets,
        mutation=mutation,
        provoked=True,
    )


RECEIVED_OPERATORS: Final = (
    *_head_operators(),
    *(_message_operator(*row) for row in _MESSAGES),
    *(_near_operator(member, methods, *rule) for member, methods, rules in _IDENTIFIED for rule in rules),
)
"""The operators on what a server receives."""
