"""Multi round-trip requests: answered inputs of a handler, sealed request state, and retries of a client."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

import attrs
import pytest
from engine_pair import FORM, make_client, make_server, open_pair, pair
from hypothesis import given
from hypothesis import strategies as st

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.conversion.converter import converter
from mcp_core.engine.events import ResultReceived
from mcp_core.engine.mrtr import (
    AnsweredInputs,
    InputRequiredRetries,
    RequestState,
    RequestStateSealer,
    binding,
    open_state,
    seal_state,
)
from mcp_core.errors import ErrorCode, LimitExceeded, LocalProtocolError, RemoteProtocolError, RequestFailed
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2026_07_28

NAME_REQUEST: Final = t.ElicitRequest(params=FORM)
ROOTS_REQUEST: Final = t.ListRootsRequest()
ARGUMENTS: Final[JsonObject] = {"name": "book", "arguments": {"seats": 2}}
BOUND: Final = binding("alice", "tools/call", ARGUMENTS)


class ReadableSealer:
    """A sealer with an authenticated, readable text."""

    def __init__(self, key: bytes = b"key") -> None:
        self._key = key

    def seal(self, plain: bytes, bound_to: bytes) -> str:
        return base64.b64encode(self._tag(plain, bound_to) + plain).decode()

    def unseal(self, sealed: str, bound_to: bytes) -> bytes | None:
        try:
            raw = base64.b64decode(sealed, validate=True)
        except ValueError:
            return None
        tag, plain = raw[:32], raw[32:]
        return plain if hmac.compare_digest(tag, self._tag(plain, bound_to)) else None

    def _tag(self, plain: bytes, bound_to: bytes) -> bytes:
        return hmac.digest(self._key, bound_to + plain, hashlib.sha256)


SEALER: Final[RequestStateSealer] = ReadableSealer()


def encode_request(request: t.InputRequest) -> JsonObject:
    return converter(R2026_07_28).unstructure(request)


def seal(state: RequestState | None = None, *, bound_to: bytes = BOUND, expires: float = 100) -> str:
    return seal_state(SEALER, state or RequestState(), bound_to=bound_to, expires=expires)


def get_rejection(text: str, *, bound_to: bytes = BOUND, now: float = 0, sealer: RequestStateSealer = SEALER) -> str:
    with pytest.raises(RequestFailed) as failure:
        open_state(sealer, text, bound_to=bound_to, now=now)
    assert failure.value.code == ErrorCode.INVALID_PARAMS
    return failure.value.message


# --- answered inputs --------------------------------------------------------------------------------------------------


@pytest.mark.spec("mrtr.repeat-allowed", "mrtr.complete-after-input", "mrtr.re-request-missing")
def test_handler_run_again_gets_earlier_responses() -> None:
    first = AnsweredInputs()
    assert first.request(NAME_REQUEST, encode_request(NAME_REQUEST)) is None
    (name_key,) = first.pending
    assert first.pending == {name_key: NAME_REQUEST}
    state = first.next_state(5)
    assert state.round_trip == 1

    second = AnsweredInputs(state, {name_key: {"action": "accept"}})
    assert second.request(NAME_REQUEST, encode_request(NAME_REQUEST)) == {"action": "accept"}
    assert second.request(ROOTS_REQUEST, encode_request(ROOTS_REQUEST)) is None
    (roots_key,) = second.pending
    assert roots_key != name_key

    # The client sends only the latest input responses; the earlier ones are in the state.
    third = AnsweredInputs(second.next_state(5), {roots_key: {"roots": []}})
    assert third.request(NAME_REQUEST, encode_request(NAME_REQUEST)) == {"action": "accept"}
    assert third.request(ROOTS_REQUEST, encode_request(ROOTS_REQUEST)) == {"roots": []}
    assert third.pending == {}


@pytest.mark.spec("mrtr.input-requests-keys-unique")
def test_input_request_repeated_gets_separate_response() -> None:
    ledger = AnsweredInputs()
    ledger.request(NAME_REQUEST, encode_request(NAME_REQUEST))
    ledger.request(NAME_REQUEST, encode_request(NAME_REQUEST))
    first, second = ledger.pending
    again = AnsweredInputs(RequestState(), {first: {"action": "accept"}, second: {"action": "cancel"}})
    assert again.request(NAME_REQUEST, encode_request(NAME_REQUEST)) == {"action": "accept"}
    assert again.request(NAME_REQUEST, encode_request(NAME_REQUEST)) == {"action": "cancel"}
    assert again.request(NAME_REQUEST, encode_request(NAME_REQUEST)) is None


@pytest.mark.spec("mrtr.ignore-unexpected")
def test_input_response_without_request_ignored() -> None:
    ledger = AnsweredInputs(RequestState(), {"what": {"action": "accept"}})
    assert ledger.request(NAME_REQUEST, encode_request(NAME_REQUEST)) is None
    assert ledger.state.answers == {}


def test_input_request_changed_gets_no_response() -> None:
    ledger = AnsweredInputs()
    ledger.request(NAME_REQUEST, encode_request(NAME_REQUEST))
    (key,) = ledger.pending
    other = t.ElicitRequest(params=attrs.evolve(FORM, message="Your age?"))
    again = AnsweredInputs(RequestState(), {key: {"action": "accept"}})
    assert again.request(other, encode_request(other)) is None


def test_input_request_key_chosen_by_handler() -> None:
    ledger = AnsweredInputs()
    assert ledger.request(NAME_REQUEST, encode_request(NAME_REQUEST), "user_name") is None
    assert ledger.request(NAME_REQUEST, encode_request(NAME_REQUEST), "user_name") is None
    assert list(ledger.pending) == ["user_name"]
    eager = AnsweredInputs(RequestState(), {"user_name": {"action": "accept"}, "other": {}})
    assert eager.request(NAME_REQUEST, encode_request(NAME_REQUEST), "user_name") == {"action": "accept"}
    assert eager.request(NAME_REQUEST, encode_request(NAME_REQUEST), "user_name") == {"action": "accept"}
    assert eager.next_state(5).answers == {"user_name": {"action": "accept"}}


def test_input_request_key_reused_for_other_request_raises() -> None:
    ledger = AnsweredInputs(RequestState(), {"user_name": {"action": "accept"}})
    ledger.request(NAME_REQUEST, encode_request(NAME_REQUEST), "user_name")
    with pytest.raises(LocalProtocolError, match="have the key 'user_name': use different keys"):
        ledger.request(ROOTS_REQUEST, encode_request(ROOTS_REQUEST), "user_name")


def test_input_requests_order_independent() -> None:
    ledger = AnsweredInputs()
    ledger.request(NAME_REQUEST, encode_request(NAME_REQUEST))
    ledger.request(ROOTS_REQUEST, encode_request(ROOTS_REQUEST))
    name_key, roots_key = ledger.pending
    again = AnsweredInputs(RequestState(), {name_key: {"n": 1}, roots_key: {"r": 1}})
    assert again.request(ROOTS_REQUEST, encode_request(ROOTS_REQUEST)) == {"r": 1}
    assert again.request(NAME_REQUEST, encode_request(NAME_REQUEST)) == {"n": 1}


def test_side_effect_with_none_value_remembered() -> None:
    ledger = AnsweredInputs()
    assert ledger.recall("pay") == (False, None)
    ledger.remember("pay", None)
    assert ledger.recall("pay") == (True, None)
    later = open_state(SEALER, seal(ledger.next_state(1)), bound_to=BOUND, now=0)
    assert AnsweredInputs(later).recall("pay") == (True, None)


def test_handler_round_trips_over_limit_raise() -> None:
    ledger = AnsweredInputs(RequestState(round_trip=2))
    assert ledger.next_state(3).round_trip == 3
    with pytest.raises(LimitExceeded) as full:
        ledger.next_state(3)
    assert (full.value.observed, full.value.allowed, full.value.setting) == (4, 3, "InputPolicy.round_trips")
    assert ledger.state.round_trip == 3


# --- sealed request state --------------------------------------------------------------------------------------------

JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=10,
)


@pytest.mark.property
@given(
    round_trip=st.integers(0, 99),
    answers=st.dictionaries(st.text(), st.dictionaries(st.text(), JSON), max_size=3),
    once=st.dictionaries(st.text(), JSON, max_size=3),
)
def test_request_state_round_trip(round_trip: int, answers: dict[str, JsonObject], once: dict[str, object]) -> None:
    state = RequestState(round_trip, answers, once)  # type: ignore[arg-type]  # JSON
    assert open_state(SEALER, seal(state), bound_to=BOUND, now=99.9) == state


@pytest.mark.spec("mrtr.state-untrusted", "mrtr.state-integrity", "mrtr.state-tamper-rejected")
def test_request_state_tampered_rejected() -> None:
    text = seal(RequestState(1, {"a": {}}, {"paid": False}))
    messages = {
        get_rejection(text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]) for at in range(len(text) - 2)
    }
    messages |= {
        get_rejection(""),
        get_rejection("ü"),
        get_rejection(text[:-4]),
        get_rejection(text, sealer=ReadableSealer(b"another")),
    }
    # The error does not show the client why the state was rejected.
    assert len(messages) == 1
    assert "requestState" in messages.pop()


@pytest.mark.spec(
    "mrtr.state-bind-principal",
    "mrtr.state-bind-request",
    "elicitation.state-associated-with-user",
    "elicitation.bind-identity",
)
@pytest.mark.parametrize(
    "other",
    [
        binding("bob", "tools/call", ARGUMENTS),
        binding(None, "tools/call", ARGUMENTS),
        binding("alice", "prompts/get", ARGUMENTS),
        binding("alice", "tools/call", {"name": "book", "arguments": {"seats": 3}}),
        binding("alice", "tools/call", {"name": "cancel", "arguments": {"seats": 2}}),
        binding("alice", "tools/call", {"name": "book"}),
        binding("alice", "tools/call", {**ARGUMENTS, "more": None}),
    ],
)
def test_request_state_bound_to_principal_and_request(other: bytes) -> None:
    assert get_rejection(seal(), bound_to=other) == get_rejection("nonsense")
    assert get_rejection(seal(bound_to=other)) == get_rejection("nonsense")


@pytest.mark.spec("mrtr.state-bind-request")
def test_request_state_binding_ignores_retry_members() -> None:
    retry: JsonObject = {
        "arguments": {"seats": 2},
        "requestState": "s",
        "inputResponses": {"a": {}},
        "name": "book",
        "_meta": {"progressToken": 9},
    }
    assert binding("alice", "tools/call", retry) == BOUND
    # The same members one level below belong to the request.
    assert binding("alice", "tools/call", {"name": "book", "arguments": {"seats": 2, "_meta": 1}}) != BOUND


def test_request_state_large_numbers_bound_and_kept() -> None:
    huge = 2**70
    assert binding(None, "tools/call", {"n": huge}) != binding(None, "tools/call", {"n": huge + 1})
    state = RequestState(0, {}, {"n": huge})
    assert open_state(SEALER, seal(state), bound_to=BOUND, now=0) == state


@pytest.mark.spec("mrtr.state-expiry")
def test_request_state_expired_rejected() -> None:
    text = seal(expires=100)
    open_state(SEALER, text, bound_to=BOUND, now=99.999)
    for now in (100, 100.5, 1e9):
        assert get_rejection(text, now=now) == get_rejection("nonsense")


# --- retries of the client -------------------------------------------------------------------------------------------

ANSWER: Final = t.ElicitResult(action="accept", content={"name": "Ada"})


def input_required(*, has_requests: bool = True, state: str | None = "s") -> t.InputRequiredResult:
    return t.InputRequiredResult(input_requests={"q": NAME_REQUEST} if has_requests else None, request_state=state)


@pytest.mark.spec(
    "mrtr.retry-same-params",
    "mrtr.state-echo",
    "mrtr.client-response-keys",
    "mrtr.state-latest-only",
    "mrtr.state-opaque",
)
@pytest.mark.parametrize(
    "params",
    [
        t.CallToolRequestParams(name="x", arguments={"a": 1}, extra={"b": 2}),
        t.GetPromptRequestParams(name="x", arguments={"a": "1"}),
        t.ReadResourceRequestParams(uri="a:b"),
    ],
    ids=lambda params: type(params).__name__,
)
def test_retry_has_input_responses_and_latest_state(
    params: t.CallToolRequestParams,
) -> None:
    retries = InputRequiredRetries(5)
    second = retries.retry_params(params, input_required(state=" sü=\n"), {"q": ANSWER})
    assert second == attrs.evolve(params, input_responses={"q": ANSWER}, request_state=" sü=\n")
    third = retries.retry_params(second, input_required(state="new"), {"q": ANSWER})
    assert third.request_state == "new"
    assert retries.retries == 2


@pytest.mark.spec("mrtr.state-not-invented", "mrtr.client-retry-without-requests")
def test_retry_omits_absent_state_and_responses() -> None:
    params = t.CallToolRequestParams(name="x", request_state="old", input_responses={"q": ANSWER})
    assert InputRequiredRetries(5).retry_params(params, input_required(state=None), {"q": ANSWER}).request_state is None
    assert InputRequiredRetries(5).retry_params(params, input_required(has_requests=False), {}).input_responses is None


def test_input_required_without_requests_and_state_raises() -> None:
    for empty in (input_required(has_requests=False, state=None), t.InputRequiredResult(input_requests={})):
        with pytest.raises(RemoteProtocolError, match="neither"):
            InputRequiredRetries(5).retry_params(t.CallToolRequestParams(name="x"), empty, {})


def test_client_round_trips_over_limit_raise() -> None:
    retries = InputRequiredRetries(2)
    params = t.CallToolRequestParams(name="x")
    for _ in range(2):
        retries.retry_params(params, input_required(), {"q": ANSWER})
    with pytest.raises(LimitExceeded) as full:
        retries.retry_params(params, input_required(), {"q": ANSWER})
    assert (full.value.observed, full.value.allowed, full.value.setting) == (3, 2, "Limits.input_round_trips")


@pytest.mark.spec(
    "mrtr.retry-new-id",
    "mrtr.client-fulfils-before-retry",
    "mrtr.client-response-shape",
    "jsonrpc.stateless-explicit-handle",
    "jsonrpc.stateless-no-connection-affinity",
)
@pytest.mark.spec("mrtr.stateless-retry", "meta.required-on-retries", "mrtr.request-state-string")
def test_round_trips_on_both_sides_end_in_result() -> None:
    """Send the retry to another server, which shares only the key."""
    client = make_client(R2026_07_28)
    both = pair(client, make_server(R2026_07_28)).open()
    params: t.CallToolRequestParams = t.CallToolRequestParams(name="greet")
    retries, ids, result = InputRequiredRetries(3), set(), None
    while not isinstance(result, t.CallToolResult):
        both = pair(client, both.server)
        request = both.call(m.TOOLS_CALL, params)
        ids.add(request.id)
        received = request.params
        assert isinstance(received, t.CallToolRequestParams)
        bound = binding(None, "tools/call", request.raw)
        state = RequestState()
        if received.request_state is not None:
            state = open_state(SEALER, received.request_state, bound_to=bound, now=0)
        responses = request.raw.get("inputResponses", {})
        ledger = AnsweredInputs(state, responses)  # type: ignore[arg-type]  # an object of objects
        answer = ledger.request(NAME_REQUEST, encode_request(NAME_REQUEST))
        if answer is None:
            text = seal_state(SEALER, ledger.next_state(3), bound_to=bound, expires=9)
            event = both.respond(request.id, t.InputRequiredResult(input_requests=ledger.pending, request_state=text))
            assert isinstance(event, ResultReceived)
            assert isinstance(event.result, t.InputRequiredResult)
            params = retries.retry_params(
                params, event.result, dict.fromkeys(event.result.input_requests or {}, ANSWER)
            )
        else:
            content = answer["content"]
            assert isinstance(content, dict)
            event = both.respond(
                request.id, t.CallToolResult(content=(t.TextContent(text=f"Hello {content['name']}"),))
            )
            assert isinstance(event, ResultReceived)
            result = event.result
    assert result.content == (t.TextContent(text="Hello Ada"),)
    assert len(ids) == 2
    assert open_pair(R2026_07_28).server.inbound_requests == ()
