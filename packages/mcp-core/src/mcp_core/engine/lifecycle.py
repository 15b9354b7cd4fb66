"""The legacy session: its states, and what may be said in each.

Everything that decides whether a message fits the state of a session stands in `RULES`. The table does not know which
side it serves: a row binds us when we send and the peer when it sends; only the blame differs.

A MUST of the specification is refused in both directions. A SHOULD is refused only when *we* would send it: peers that
take a liberty are served. Requests that carry the modern envelope are no part of a session and are not looked up here.

Spec: basic/lifecycle (2024-11-05 to 2025-11-25).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import ErrorCode, LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RULES", "Kind", "Lifecycle", "Rule", "State", "Strength", "Violation"]

_ANCHOR = "basic/lifecycle"


class State(enum.Enum):
    """How far a session has come."""

    AWAITING = "awaiting initialize"
    """Nothing was agreed yet."""
    INITIALIZING = "initializing"
    """`initialize` is asked and not answered."""
    ANSWERED = "answered, awaiting initialized"
    """The revision is agreed; the client has still to say `notifications/initialized`."""
    OPERATING = "operating"
    """Normal exchange."""
    CLOSED = "closed"
    """The connection is over."""


class Kind(enum.Enum):
    """What a message is, as far as the session's state is concerned."""

    INITIALIZE = "initialize"
    INITIALIZE_RESULT = "the answer to initialize"
    INITIALIZE_ERROR = "an error in answer to initialize"
    INITIALIZED = "notifications/initialized"
    PING = "ping"
    LOG = "a log message"
    CLIENT_REQUEST = "a request of the client"
    SERVER_REQUEST = "a request of the server"
    NOTIFICATION = "a notification"


class Strength(enum.Enum):
    """How strongly the specification speaks against it."""

    ALLOWED = "allowed"
    SHOULD_NOT = "should not"


@attrs.frozen
class Rule:
    """What a kind of message does in a state. A kind without a rule must not be sent in that state."""

    then: State
    """The state after it."""
    strength: Strength = Strength.ALLOWED
    """Whether it is fine, or only tolerated."""


def _stay(state: State, *kinds: Kind, strength: Strength = Strength.ALLOWED) -> dict[Kind, Rule]:
    return {kind: Rule(state, strength) for kind in kinds}


_REQUESTS = (Kind.CLIENT_REQUEST, Kind.SERVER_REQUEST)

RULES: Final[Mapping[State, Mapping[Kind, Rule]]] = {
    State.AWAITING: {
        Kind.INITIALIZE: Rule(State.INITIALIZING),
        # Pings are excepted from "initialization is the first interaction"; notifications without a session have no
        # effect, and no error can be sent for them.
        **_stay(State.AWAITING, Kind.PING),
        **_stay(State.AWAITING, Kind.NOTIFICATION, strength=Strength.SHOULD_NOT),
    },
    State.INITIALIZING: {
        Kind.INITIALIZE_RESULT: Rule(State.ANSWERED),
        Kind.INITIALIZE_ERROR: Rule(State.AWAITING),
        **_stay(State.INITIALIZING, Kind.PING, Kind.LOG),
        **_stay(State.INITIALIZING, Kind.NOTIFICATION, strength=Strength.SHOULD_NOT),
    },
    State.ANSWERED: {
        # A bridge that reuses one pipe sends the handshake of its next client: the session ends, and another one begins.
        Kind.INITIALIZE: Rule(State.INITIALIZING, Strength.SHOULD_NOT),
        Kind.INITIALIZED: Rule(State.OPERATING),
        **_stay(State.ANSWERED, Kind.PING, Kind.LOG, Kind.NOTIFICATION),
        # Deployed clients send their first request without waiting for their own notification to be read.
        **_stay(State.ANSWERED, *_REQUESTS, strength=Strength.SHOULD_NOT),
    },
    State.OPERATING: {
        **_stay(State.OPERATING, *_REQUESTS, Kind.PING, Kind.LOG, Kind.NOTIFICATION),
        **_stay(State.OPERATING, Kind.INITIALIZED, strength=Strength.SHOULD_NOT),
        Kind.INITIALIZE: Rule(State.INITIALIZING, Strength.SHOULD_NOT),
    },
    State.CLOSED: {},
}
"""The states of a legacy session: state, kind of message, state after it. What is absent is forbidden."""


class Violation(Exception):
    """A message does not fit. Whoever catches it knows whom to blame."""

    def __init__(self, message: str, *, code: int = ErrorCode.INVALID_REQUEST, anchor: str = _ANCHOR) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.anchor = anchor

    def as_local(self) -> LocalProtocolError:
        """The error for a caller who asked for it."""
        return LocalProtocolError(self.message, code=self.code, anchor=self.anchor)


@attrs.define
class Lifecycle:
    """The state of one legacy session."""

    state: State = State.AWAITING
    """Where it stands."""

    def send(self, kind: Kind) -> None:
        """We send a message of this kind. Raises `LocalProtocolError` when the state forbids it or advises against."""
        rule = RULES[self.state].get(kind)
        if rule is None or rule.strength is Strength.SHOULD_NOT:
            raise _refused(self.state, kind).as_local()
        self.state = rule.then

    def receive(self, kind: Kind) -> str | None:
        """The peer sends a message of this kind.

        Returns:
            A note when it is only tolerated.

        Raises:
            Violation: The state forbids it.
        """
        rule = RULES[self.state].get(kind)
        if rule is None:
            raise _refused(self.state, kind)
        tolerated = None if rule.strength is Strength.ALLOWED else f"{kind.value} in the state {self.state.value!r}"
        self.state = rule.then
        return tolerated

    def reopen(self) -> None:
        """The peer forgot the session, and another one takes its place: it begins with `initialize` again."""
        self.state = State.AWAITING

    def close(self) -> None:
        """The connection is over."""
        self.state = State.CLOSED


def _refused(state: State, kind: Kind) -> Violation:
    if state is State.AWAITING:
        return Violation(f"{kind.value} before the session was opened: send initialize first")
    return Violation(f"{kind.value} is not allowed in the state {state.value!r}")
