"""Multi round-trip requests: how a handler asks the user without a request of its own (2026-07-28).

A server that needs input answers `input_required`, with its questions and a `requestState`. The client answers the
questions and sends the same request again, with the answers and the state. The handler then runs *again from its top*:
what was answered in an earlier round is in a `Ledger` and comes back at once; the first question without an answer
ends the round.

    round 1   handler asks A              -> input_required {A}, state {}
    round 2   A is answered, asks B       -> input_required {B}, state {A: ...}
    round 3   A and B are answered        -> the result

A question is known by its content: its key is derived from its method, its parameters and how often the same question
was asked before. So a handler may ask in any order, several at once too, and a question that changed between rounds is
a new one. A handler may also name a key itself, which clients that know it may answer before they were asked.

The state travels through the client, which is not to be trusted with it. `Sealer` makes it unreadable and unchangeable;
what is sealed is bound to the principal and to the request (`binding`), and expires. Without those checks a state could
be replayed for other arguments or by another user.

The core has no cryptography, no clock and no randomness: the caller brings a `Sealer` and the time.

Spec: basic/patterns/mrtr (2026-07-28).
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import attrs

from mcp_core.errors import ErrorCode, LimitExceeded, LocalProtocolError, RemoteProtocolError, RequestFailed
from mcp_core.types import CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams, evolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.types import InputRequest, InputRequiredResult, InputResponse

__all__ = ["Ledger", "Rounds", "Sealer", "State", "binding", "open_state", "seal_state"]

_NOT_PART_OF_THE_REQUEST: Final = frozenset({"_meta", "inputResponses", "requestState"})
"""Members of the parameters that change from round to round."""

P = TypeVar("P", CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams)


class Sealer(Protocol):
    """Turns bytes into a text that only the same key ring can turn back."""

    def seal(self, plain: bytes, bound_to: bytes) -> str:
        """The sealed text; it opens only together with `bound_to`."""

    def unseal(self, sealed: str, bound_to: bytes) -> bytes | None:
        """The bytes that were sealed; `None` when the text was changed, or sealed by another key or for another use."""


@attrs.define
class State:
    """What is carried from round to round."""

    round: int = 0
    """How many rounds there were."""
    answers: dict[str, JsonObject] = attrs.field(factory=dict)
    """The answers, by the key of their question."""
    once: dict[str, JsonValue] = attrs.field(factory=dict)
    """Results of side effects that must not happen again, by the key that the handler gave them."""


def binding(principal: str | None, method: str, params: Mapping[str, JsonValue]) -> bytes:
    """What a state is bound to: who asks, and what for.

    Args:
        principal: Who is asking; `None` where nobody is told apart (stdio).
        method: The method of the request.
        params: Its parameters as they came.

    Returns:
        A digest. Two requests have the same one when only the members that change between rounds differ.
    """
    kept = {name: value for name, value in params.items() if name not in _NOT_PART_OF_THE_REQUEST}
    return _digest([principal, method, kept])


def seal_state(sealer: Sealer, state: State, *, bound_to: bytes, expires: float) -> str:
    """The `requestState` for the next round.

    Args:
        sealer: Seals it.
        state: What to carry.
        bound_to: From `binding`.
        expires: When it ceases to be valid, in seconds since the epoch.

    Returns:
        The opaque text.
    """
    return sealer.seal(_plain([expires, state.round, dict(state.answers), state.once]), bound_to)


def open_state(sealer: Sealer, sealed: str, *, bound_to: bytes, now: float) -> State:
    """The state that came back.

    Args:
        sealer: Opens it.
        sealed: The `requestState` of the request.
        bound_to: From `binding`, for the request that it came with.
        now: The time in seconds since the epoch.

    Returns:
        What was carried.

    Raises:
        RequestFailed: It was changed, made for another request, user or key ring, or is too old. The error on the wire
            is the same for each of these, so that it teaches an attacker nothing.
    """
    plain = sealer.unseal(sealed, bound_to)
    if plain is None:
        raise _not_valid()
    expires, round_, answers, once = json.loads(plain)
    if now >= expires:
        raise _not_valid()
    return State(round_, answers, once)


def _not_valid() -> RequestFailed:
    return RequestFailed(
        "requestState is not valid for this request, or no longer; send the request again without it",
        code=ErrorCode.INVALID_PARAMS,
    )


@attrs.define(eq=False)
class Ledger:
    """What one run of a handler asks, and what earlier rounds brought (server)."""

    state: State = attrs.field(factory=State)
    responses: Mapping[str, JsonObject] = attrs.field(factory=dict)
    """The `inputResponses` of this request. Keys that were not asked for are ignored, as the specification wants."""
    pending: dict[str, InputRequest] = attrs.field(factory=dict)
    """The questions of this run that have no answer yet."""
    _times: dict[str, int] = attrs.field(factory=dict)
    _named: dict[str, str] = attrs.field(factory=dict)

    def ask(self, question: InputRequest, wire: JsonObject, key: str | None = None) -> JsonObject | None:
        """Asks the client.

        Args:
            question: What to ask.
            wire: The same in its wire form, from which the key is derived.
            key: The key, when the handler names it.

        Returns:
            The answer, as it came, when an earlier round brought it; else `None`, and the question is pending.

        Raises:
            LocalProtocolError: The handler has asked something else under this key.
        """
        text = _digest(wire).hex()[:16]
        if key is None:
            times = self._times[text] = self._times.get(text, 0) + 1
            key = f"{text}-{times}"
        elif self._named.setdefault(key, text) != text:
            raise LocalProtocolError(f"two questions of one handler have the key {key!r}: give each its own")
        answer = self.answered(key)
        if answer is None:
            self.pending[key] = question
        return answer

    def answered(self, key: str) -> JsonObject | None:
        """The answer that this round or an earlier one brought to the question with a key; `None`: there is none."""
        if (known := self.state.answers.get(key)) is not None:
            return known
        answer = self.responses.get(key)
        if answer is not None:
            self.state.answers[key] = answer
        return answer

    def recall(self, key: str) -> tuple[bool, JsonValue]:
        """Whether a side effect has happened, and what it gave."""
        return key in self.state.once, self.state.once.get(key)

    def remember(self, key: str, value: JsonValue) -> None:
        """A side effect has happened."""
        self.state.once[key] = value

    def next_round(self, limit: int) -> State:
        """The state for the next round. Raises `LimitExceeded` when there were too many."""
        if self.state.round >= limit:
            raise LimitExceeded(
                "input rounds of one request",
                observed=self.state.round + 1,
                allowed=limit,
                setting="InputPolicy.rounds",
            )
        self.state.round += 1
        return self.state


@attrs.define(eq=False)
class Rounds:
    """The client's side: how often one request was sent again."""

    limit: int
    """How many rounds are played before the request is given up."""
    played: int = 0
    """How many there were."""

    def again(self, params: P, asked: InputRequiredResult, answers: Mapping[str, InputResponse]) -> P:
        """The parameters of the next attempt: the same request with the answers and the latest state, untouched.

        Args:
            params: The parameters of the request.
            asked: What the server wants to know.
            answers: The answers, one for each question.

        Returns:
            The parameters to send, under a new request id.

        Raises:
            RemoteProtocolError: The server asks for neither input nor a retry.
            LimitExceeded: There were too many rounds.
        """
        if not asked.input_requests and asked.request_state is None:
            raise RemoteProtocolError(
                "the server answered input_required with neither inputRequests nor requestState",
                anchor="basic/patterns/mrtr",
            )
        if self.played >= self.limit:
            raise LimitExceeded(
                "input rounds of one request",
                observed=self.played + 1,
                allowed=self.limit,
                setting="Limits.input_rounds",
            )
        self.played += 1
        return evolve(params, input_responses=answers or None, request_state=asked.request_state)


def _plain(value: JsonValue) -> bytes:
    # Not orjson: it refuses integers beyond 64 bits, and reads them back as floats.
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(value: JsonValue) -> bytes:
    return hashlib.sha256(_plain(value)).digest()
