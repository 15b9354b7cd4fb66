"""The generated fault, the operator that makes it, and the recording of a healthy run from which targets come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.model.verdict import Outcome
from mutants.generated.proxy import Mutation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["ANY", "GeneratedFault", "Leg", "Operator", "Recording", "Target", "area_of"]

ANY: Final = "*"
"""In a key, any method."""

_AREAS: Final[Mapping[str, str]] = {
    "initialize": "lifecycle",
    "notifications/initialized": "lifecycle",
    "server/discover": "discover",
    "ping": "ping",
    "completion/complete": "completion",
    "logging/setLevel": "logging",
    "notifications/message": "logging",
    "notifications/progress": "progress",
    "notifications/cancelled": "cancellation",
    "subscriptions/listen": "subscription",
    "notifications/subscriptions/acknowledged": "subscription",
    "resources/subscribe": "subscription",
    "resources/unsubscribe": "subscription",
}


def area_of(key: str) -> str:
    """Return the area of a key: of the feature to which a method belongs, or of a transport."""
    method, _, kind = key.rpartition(" ")
    if kind in ("http", "request-head"):
        return "http"
    if kind in ("token", "login"):
        return "auth"
    if kind == "event":
        return "sse"
    if kind == "line":
        return "stdio"
    # An error for what is no JSON or no request has no method.
    if method in (ANY, ""):
        return "jsonrpc"
    return _AREAS.get(method) or method.removeprefix("notifications/").partition("/")[0]


@attrs.frozen(kw_only=True)
class Leg:
    """The peer under test: its role, the revision and the transport."""

    role: str
    """`server` or `client`: the role of the peer."""
    revision: str
    """The revision."""
    transport: str
    """The transport."""

    def __str__(self) -> str:
        return f"{self.role} {self.revision} {self.transport}"


@attrs.frozen(kw_only=True)
class Recording:
    """The recording of a correct peer in a leg: what it sent while checks ran, and which check saw it."""

    leg: Leg
    """The leg."""
    samples: Mapping[str, tuple[JsonValue, ...]]
    """Values by key: messages by `METHOD KIND`, heads by `... http`, events by `... event`."""
    seen_by: Mapping[str, frozenset[str]]
    """By check, the keys that it saw."""
    seconds: Mapping[str, float]
    """By check, how long it took."""
    outcomes: Mapping[str, str]
    """By check, its outcome for the correct peer."""

    scenarios: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    """By scenario of a client, the keys that it has."""

    @property
    def failed(self) -> list[str]:
        """The checks that failed, each of which is wrong: the peer is correct."""
        return [check for check, outcome in self.outcomes.items() if outcome == Outcome.FAILED.value]

    def messages(self, key: str) -> list[JsonObject]:
        """Return the recorded messages of a key."""
        return [each for each in self.samples.get(key, ()) if isinstance(each, dict)]

    def keys(self, *kinds: str) -> list[str]:
        """Return the keys of some kinds."""
        return sorted(each for each in self.samples if each.rpartition(" ")[2] in kinds)

    def observers(self, key: str) -> frozenset[str]:
        """Return the checks that saw a key. A key with any method stands for all of its kind."""
        method, _, kind = key.rpartition(" ")
        if kind in ("line", "token"):
            return frozenset(self.seen_by)
        keys = {each for each in self.samples if each.rpartition(" ")[2] == kind} if method == ANY else {key}
        return frozenset(check for check, seen in self.seen_by.items() if seen & keys)

    def scenarios_with(self, key: str) -> list[str]:
        """Return the scenarios of a client that have a key."""
        method, _, kind = key.rpartition(" ")
        return [
            scenario
            for scenario, keys in self.scenarios.items()
            if kind == "line" or any(each == key or (method == ANY and each.endswith(f" {kind}")) for each in keys)
        ]


@attrs.frozen(kw_only=True)
class Target:
    """The part of the messages that an operator changes."""

    key: str
    """The key of the messages or bytes."""
    detail: str = ""
    """The member, the header or another part of them; empty: the whole."""

    def __str__(self) -> str:
        return f"{self.key}:{self.detail}" if self.detail else self.key


@attrs.frozen(kw_only=True)
class Operator:
    """A kind of fault."""

    name: str
    """The name."""
    summary: str
    """What the peer does wrong."""
    targets: Callable[[Recording], Iterable[Target]]
    """Returns its targets in a leg."""
    mutation: Callable[[Target, Leg], Mutation]
    """Returns the mutation of a target."""
    invisible: str = ""
    """Why the specification permits it; empty if it does not. No check may then fail."""
    provoked: bool = False
    """Whether the suite must send something special to see the fault. If it never does, the fault survives."""


@attrs.frozen(kw_only=True)
class GeneratedFault:
    """A fault in a leg."""

    operator: Operator
    """Its operator."""
    target: Target
    """Its target."""
    leg: Leg
    """The leg."""

    @property
    def name(self) -> str:
        """Its name, as `--only` takes it."""
        return f"{self.operator.name}:{self.target}"

    @property
    def area(self) -> str:
        """Its area."""
        return area_of(self.target.key)

    def mutation(self) -> Mutation:
        """Return a new mutation."""
        return self.operator.mutation(self.target, self.leg)
