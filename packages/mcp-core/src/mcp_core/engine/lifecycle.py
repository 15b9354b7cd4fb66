"""Lifecycle of a legacy session: its states, and the messages that are allowed in each state.

`RULES` holds all rules that relate messages to the state of a session. The table is the same for both sides: a rule
binds this side when it sends, and the peer when the peer sends. Only the blame differs.

A message that breaks a MUST of the specification is rejected in both directions. A message that breaks a SHOULD is
rejected only when this side sends it; from the peer it is tolerated. Requests with modern request metadata belong to no
session, and their kinds are not looked up here.

Spec: basic/lifecycle (2024-11-05 to 2025-11-25).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import ErrorCode, LocalProtocolError
from mcp_core.field_methods import FieldRepr

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RULES", "Kind", "Lifecycle", "Rule", "State", "Strength", "Violation"]

_ANCHOR = "basic/lifecycle"


class State(enum.Enum):
    """The state of a legacy session."""

    # The function of `Enum` is written in Python, and each message looks up its state and its kind.
    if not TYPE_CHECKING:
        __hash__ = object.__hash__

    AWAITING = "awaiting initialize"
    """No revision is negotiated yet."""
    INITIALIZING = "initializing"
    """`initialize` has no response yet."""
    ANSWERED = "awaiting notifications/initialized"
    """The revision is negotiated; the client has not sent `notifications/initialized` yet."""
    OPERATING = "operating"
    """The session is open for requests in both directions."""
    CLOSED = "closed"
    """The connection has closed."""


class Kind(enum.Enum):
    """The kind of a message, as the rules of the lifecycle distinguish it."""

    if not TYPE_CHECKING:
        __hash__ = object.__hash__

    INITIALIZE = "initialize"
    INITIALIZE_RESULT = "the result of initialize"
    INITIALIZE_ERROR = "an error response to initialize"
    INITIALIZED = "notifications/initialized"
    PING = "ping"
    LOG = "a log message"
    CLIENT_REQUEST = "a request from the client"
    SERVER_REQUEST = "a request from the server"
    NOTIFICATION = "a notification"


class Strength(enum.Enum):
    """The level of the requirement against sending a message in a state."""

    ALLOWED = "allowed"
    SHOULD_NOT = "should not"


@attrs.frozen(eq=False, repr=False)
class Rule(FieldRepr):
    """The effect of a kind of message in a state. A kind without a rule must not be sent in that state."""

    then: State
    """The state after the message."""
    strength: Strength = Strength.ALLOWED
    """Whether the message is allowed, or only tolerated."""


def _stay(state: State, *kinds: Kind, strength: Strength = Strength.ALLOWED) -> dict[Kind, Rule]:
    return {kind: Rule(state, strength) for kind in kinds}


_REQUESTS = (Kind.CLIENT_REQUEST, Kind.SERVER_REQUEST)

RULES: Final[Mapping[State, Mapping[Kind, Rule]]] = {
    State.AWAITING: {
        Kind.INITIALIZE: Rule(State.INITIALIZING),
        # Pings are an exception to "initialization is the first interaction". Notifications without a session have no
        # effect, and an error response to a notification does not exist.
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
        # A bridge that reuses one pipe sends the handshake of its next client: the session ends and a new one starts.
        Kind.INITIALIZE: Rule(State.INITIALIZING, Strength.SHOULD_NOT),
        Kind.INITIALIZED: Rule(State.OPERATING),
        **_stay(State.ANSWERED, Kind.PING, Kind.LOG, Kind.NOTIFICATION),
        # Deployed clients send their first request before the server has read their notification.
        **_stay(State.ANSWERED, *_REQUESTS, strength=Strength.SHOULD_NOT),
    },
    State.OPERATING: {
        **_stay(State.OPERATING, *_REQUESTS, Kind.PING, Kind.LOG, Kind.NOTIFICATION),
        **_stay(State.OPERATING, Kind.INITIALIZED, strength=Strength.SHOULD_NOT),
        Kind.INITIALIZE: Rule(State.INITIALIZING, Strength.SHOULD_NOT),
    },
    State.CLOSED: {},
}
"""The transitions of a legacy session: the rule for each kind of message in each state. Missing kinds are forbidden."""


class Violation(Exception):
    """A message that breaks a rule of the protocol. The code that catches it assigns the blame."""

    def __init__(self, message: str, *, code: int = ErrorCode.INVALID_REQUEST, anchor: str = _ANCHOR) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.anchor = anchor

    def as_local(self) -> LocalProtocolError:
        """Return the error that blames the caller on this side."""
        return LocalProtocolError(self.message, code=self.code, anchor=self.anchor)


@attrs.define(eq=False, repr=False)
class Lifecycle(FieldRepr):
    """The state of one legacy session."""

    state: State = State.AWAITING
    """The current state."""

    def send(self, kind: Kind) -> None:
        """Record an outbound message of this kind. Raises `LocalProtocolError` unless the state allows it."""
        rule = RULES[self.state].get(kind)
        if rule is None or rule.strength is Strength.SHOULD_NOT:
            raise _refused(self.state, kind).as_local()
        self.state = rule.then

    def receive(self, kind: Kind) -> str | None:
        """Record an inbound message of this kind.

        Returns:
            The deviation if the message is only tolerated, otherwise `None`.

        Raises:
            Violation: The state forbids the message.
        """
        rule = RULES[self.state].get(kind)
        if rule is None:
            raise _refused(self.state, kind)
        tolerated = None if rule.strength is Strength.ALLOWED else f"{kind.value} in the state {self.state.value!r}"
        self.state = rule.then
        return tolerated

    def reopen(self) -> None:
        """Return to the initial state: the server dropped the session, and a new `initialize` follows."""
        self.state = State.AWAITING

    def close(self) -> None:
        """Enter the final state: the connection has closed."""
        self.state = State.CLOSED


def _refused(state: State, kind: Kind) -> Violation:
    if state is State.AWAITING:
        return Violation(f"{kind.value} before the session was opened: send initialize first")
    return Violation(f"{kind.value} is not allowed in the state {state.value!r}")
