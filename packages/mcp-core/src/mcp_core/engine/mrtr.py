"""Multi round-trip requests (MRTR): client input for a request, without requests from the server (2026-07-28).

A server that needs input responds with `input_required`, which carries input requests and a `requestState`. The client
sends the same request again with the input responses and the state. The handler then runs again from its start. Input
responses of earlier round trips are in a `AnsweredInputs` and return at once. The first input request without a response ends
the round trip.

    round trip 1   handler requests A           -> input_required {A}, state {}
    round trip 2   A has a response, requests B -> input_required {B}, state {A: ...}
    round trip 3   A and B have responses       -> the result

An input request is identified by its content. Its key is derived from its method, its parameters and the number of
identical input requests before it. A handler can therefore send input requests in any order, and several at once. An
input request that changed between round trips is a new one. A handler can also choose a key. A client that knows this
key can send the input response in advance.

The state travels through the client, which is not trusted with it. `RequestStateSealer` encrypts and authenticates the state.
The sealed state is bound to the principal and to the request (`binding`), and expires. Without these checks, a state
could be replayed for other arguments or by another user.

The core has no cryptography, no clock and no randomness: the caller supplies a `RequestStateSealer` and the time.

Spec: basic/patterns/mrtr (2026-07-28).
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import attrs

from mcp_core.errors import ErrorCode, LimitExceeded, LocalProtocolError, RemoteProtocolError, RequestFailed
from mcp_core.field_methods import FieldRepr
from mcp_core.types import CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.types import InputRequest, InputRequiredResult, InputResponse

__all__ = [
    "AnsweredInputs",
    "InputRequiredRetries",
    "RequestState",
    "RequestStateSealer",
    "binding",
    "open_state",
    "seal_state",
]

_NOT_PART_OF_THE_REQUEST: Final = frozenset({"_meta", "inputResponses", "requestState"})
"""Members of the parameters that change between round trips."""

P = TypeVar("P", CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams)


class RequestStateSealer(Protocol):
    """Authenticated encryption of request state: only the same key ring can open a sealed text."""

    def seal(self, plain: bytes, bound_to: bytes) -> str:
        """Return the sealed text. It can be unsealed only together with `bound_to`."""

    def unseal(self, sealed: str, bound_to: bytes) -> bytes | None:
        """Return the sealed bytes, or `None` if the text was changed or was sealed with another key or binding."""


@attrs.define
class RequestState:
    """The request state that is carried between round trips."""

    round_trip: int = 0
    """The number of completed round trips."""
    answers: dict[str, JsonObject] = attrs.field(factory=dict)
    """Input responses, by the key of their input request."""
    once: dict[str, JsonValue] = attrs.field(factory=dict)
    """Results of side effects that must not be repeated, by the key that the handler chose."""


def binding(principal: str | None, method: str, params: Mapping[str, JsonValue]) -> bytes:
    """Return the binding of a request state: a digest of the principal and the request.

    Args:
        principal: The principal of the request; `None` without authentication (stdio).
        method: The method of the request.
        params: The parameters as received.

    Returns:
        The digest. It is equal for two requests that differ only in the members that change between round trips.
    """
    kept = {name: value for name, value in params.items() if name not in _NOT_PART_OF_THE_REQUEST}
    return _digest([principal, method, kept])


def seal_state(sealer: RequestStateSealer, state: RequestState, *, bound_to: bytes, expires: float) -> str:
    """Return the `requestState` for the next round trip.

    Args:
        sealer: The sealer to use.
        state: The state to carry.
        bound_to: The binding of the request, from `binding`.
        expires: The expiry time, in seconds since the epoch.

    Returns:
        The opaque text.
    """
    return sealer.seal(_plain([expires, state.round_trip, dict(state.answers), state.once]), bound_to)


def open_state(sealer: RequestStateSealer, sealed: str, *, bound_to: bytes, now: float) -> RequestState:
    """Return the state from a `requestState` that the client sent back.

    Args:
        sealer: The sealer to use.
        sealed: The `requestState` of the request.
        bound_to: The binding of the request that carries the state, from `binding`.
        now: The current time, in seconds since the epoch.

    Returns:
        The state.

    Raises:
        RequestFailed: The text was changed, or was made for another request, user or key ring, or has expired. The
            error on the wire is the same in each case, to give an attacker no information.
    """
    plain = sealer.unseal(sealed, bound_to)
    if plain is None:
        raise _not_valid()
    expires, round_trip, answers, once = json.loads(plain)
    if now >= expires:
        raise _not_valid()
    return RequestState(round_trip, answers, once)


def _not_valid() -> RequestFailed:
    return RequestFailed(
        "requestState is invalid or expired for this request; send the request again without it",
        code=ErrorCode.INVALID_PARAMS,
    )


@attrs.define(eq=False, repr=False)
class AnsweredInputs(FieldRepr):
    """The input requests of one run of a handler, and the input responses of its round trips (server)."""

    state: RequestState = attrs.field(factory=RequestState)
    responses: Mapping[str, JsonObject] = attrs.field(factory=dict)
    """The `inputResponses` of this request. Unexpected keys are ignored, as the specification requires."""
    pending: dict[str, InputRequest] = attrs.field(factory=dict)
    """The input requests of this run that have no response yet."""
    _times: dict[str, int] = attrs.field(factory=dict)
    _named: dict[str, str] = attrs.field(factory=dict)

    def request(self, input_request: InputRequest, wire: JsonObject, key: str | None = None) -> JsonObject | None:
        """Return the response to an input request, or record the input request as pending.

        Args:
            input_request: The input request.
            wire: Its wire form, from which the key is derived.
            key: The key, if the handler chose one.

        Returns:
            The input response as received in this or an earlier round trip; `None` if the input request is pending.

        Raises:
            LocalProtocolError: The handler used this key for a different input request.
        """
        text = _digest(wire).hex()[:16]
        if key is None:
            times = self._times[text] = self._times.get(text, 0) + 1
            key = f"{text}-{times}"
        elif self._named.setdefault(key, text) != text:
            raise LocalProtocolError(f"two input requests of one handler have the key {key!r}: use different keys")
        answer = self.answered(key)
        if answer is None:
            self.pending[key] = input_request
        return answer

    def answered(self, key: str) -> JsonObject | None:
        """Return the input response with a key, from this or an earlier round trip, or `None`."""
        if (known := self.state.answers.get(key)) is not None:
            return known
        answer = self.responses.get(key)
        if answer is not None:
            self.state.answers[key] = answer
        return answer

    def recall(self, key: str) -> tuple[bool, JsonValue]:
        """Return whether a side effect has happened, and its result."""
        return key in self.state.once, self.state.once.get(key)

    def remember(self, key: str, value: JsonValue) -> None:
        """Record the result of a side effect."""
        self.state.once[key] = value

    def next_state(self, limit: int) -> RequestState:
        """Return the state for the next round trip. Raises `LimitExceeded` after `limit` round trips."""
        if self.state.round_trip >= limit:
            raise LimitExceeded(
                "input-required round trips of one request",
                observed=self.state.round_trip + 1,
                allowed=limit,
                setting="InputPolicy.round_trips",
            )
        self.state.round_trip += 1
        return self.state


@attrs.define(eq=False, repr=False)
class InputRequiredRetries(FieldRepr):
    """A counter of the input-required retries of one request (client)."""

    limit: int
    """The maximum number of retries."""
    retries: int = 0
    """The number of retries so far."""

    def retry_params(self, params: P, result: InputRequiredResult, responses: Mapping[str, InputResponse]) -> P:
        """Return the parameters of the next retry: the same request with the input responses and the latest state.

        Args:
            params: The parameters of the request.
            result: The result of the server, with its input requests.
            responses: The input responses, one for each input request.

        Returns:
            The parameters to send, under a new request id.

        Raises:
            RemoteProtocolError: The server sent neither input requests nor a request state.
            LimitExceeded: The request had `limit` retries already.
        """
        if not result.input_requests and result.request_state is None:
            raise RemoteProtocolError(
                "the input_required result of the server has neither inputRequests nor requestState",
                anchor="basic/patterns/mrtr",
            )
        if self.retries >= self.limit:
            raise LimitExceeded(
                "input-required round trips of one request",
                observed=self.retries + 1,
                allowed=self.limit,
                setting="Limits.input_round_trips",
            )
        self.retries += 1
        return attrs.evolve(params, input_responses=responses or None, request_state=result.request_state)


def _plain(value: JsonValue) -> bytes:
    # Not orjson: orjson rejects integers beyond 64 bits when it writes, and reads them as floats.
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(value: JsonValue) -> bytes:
    return hashlib.sha256(_plain(value)).digest()
