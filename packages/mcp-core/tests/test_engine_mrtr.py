"""Multi round-trip requests: the ledger of a handler, the sealed state, the rounds of a client."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

import pytest
from engine_pair import FORM, make_client, make_server, opened, pair
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

ASK_NAME: Final = t.ElicitRequest(params=FORM)
ASK_ROOTS: Final = t.ListRootsRequest()
ARGUMENTS: Final[JsonObject] = {"name": "book", "arguments": {"seats": 2}}
BOUND: Final = binding("alice", "tools/call", ARGUMENTS)


class Sealed:
    """A sealer for tests: readable, but not changeable."""

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


SEALER: Final[RequestStateSealer] = Sealed()


def wire(question: t.InputRequest) -> JsonObject:
    return converter(R2026_07_28).unstructure(question)


def sealed(state: RequestState | None = None, *, bound_to: bytes = BOUND, expires: float = 100) -> str:
    return seal_state(SEALER, state or RequestState(), bound_to=bound_to, expires=expires)


def refused(text: str, *, bound_to: bytes = BOUND, now: float = 0, sealer: RequestStateSealer = SEALER) -> str:
    with pytest.raises(RequestFailed) as failure:
        open_state(sealer, text, bound_to=bound_to, now=now)
    assert failure.value.code == ErrorCode.INVALID_PARAMS
    return failure.value.message


# --- the ledger -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("mrtr.repeat-allowed", "mrtr.complete-after-input", "mrtr.re-request-missing")
def test_a_handler_that_runs_again_finds_its_answers() -> None:
    first = AnsweredInputs()
    assert first.request(ASK_NAME, wire(ASK_NAME)) is None
    (name_key,) = first.pending
    assert first.pending == {name_key: ASK_NAME}
    state = first.next_state(5)
    assert state.round_trip == 1

    second = AnsweredInputs(state, {name_key: {"action": "accept"}})
    assert second.request(ASK_NAME, wire(ASK_NAME)) == {"action": "accept"}
    assert second.request(ASK_ROOTS, wire(ASK_ROOTS)) is None
    (roots_key,) = second.pending
    assert roots_key != name_key

    # The client gives the latest answers only; the earlier ones are in the state.
    third = AnsweredInputs(second.next_state(5), {roots_key: {"roots": []}})
    assert third.request(ASK_NAME, wire(ASK_NAME)) == {"action": "accept"}
    assert third.request(ASK_ROOTS, wire(ASK_ROOTS)) == {"roots": []}
    assert third.pending == {}


@pytest.mark.spec("mrtr.input-requests-keys-unique")
def test_the_same_question_asked_twice_is_two_questions() -> None:
    ledger = AnsweredInputs()
    ledger.request(ASK_NAME, wire(ASK_NAME))
    ledger.request(ASK_NAME, wire(ASK_NAME))
    first, second = ledger.pending
    again = AnsweredInputs(RequestState(), {first: {"action": "accept"}, second: {"action": "cancel"}})
    assert again.request(ASK_NAME, wire(ASK_NAME)) == {"action": "accept"}
    assert again.request(ASK_NAME, wire(ASK_NAME)) == {"action": "cancel"}
    assert again.request(ASK_NAME, wire(ASK_NAME)) is None


@pytest.mark.spec("mrtr.ignore-unexpected")
def test_answers_to_what_was_not_asked_are_ignored() -> None:
    ledger = AnsweredInputs(RequestState(), {"what": {"action": "accept"}})
    assert ledger.request(ASK_NAME, wire(ASK_NAME)) is None
    assert ledger.state.answers == {}


def test_a_question_that_changed_is_a_new_one() -> None:
    ledger = AnsweredInputs()
    ledger.request(ASK_NAME, wire(ASK_NAME))
    (key,) = ledger.pending
    other = t.ElicitRequest(params=t.evolve(FORM, message="Your age?"))
    again = AnsweredInputs(RequestState(), {key: {"action": "accept"}})
    assert again.request(other, wire(other)) is None


def test_a_question_may_have_a_key_of_the_handlers_choice() -> None:
    ledger = AnsweredInputs()
    assert ledger.request(ASK_NAME, wire(ASK_NAME), "user_name") is None
    assert ledger.request(ASK_NAME, wire(ASK_NAME), "user_name") is None
    assert list(ledger.pending) == ["user_name"]
    eager = AnsweredInputs(RequestState(), {"user_name": {"action": "accept"}, "other": {}})
    assert eager.request(ASK_NAME, wire(ASK_NAME), "user_name") == {"action": "accept"}
    assert eager.request(ASK_NAME, wire(ASK_NAME), "user_name") == {"action": "accept"}
    assert eager.next_state(5).answers == {"user_name": {"action": "accept"}}


def test_two_questions_cannot_have_the_same_key() -> None:
    ledger = AnsweredInputs(RequestState(), {"user_name": {"action": "accept"}})
    ledger.request(ASK_NAME, wire(ASK_NAME), "user_name")
    with pytest.raises(LocalProtocolError, match="have the key 'user_name': use different keys"):
        ledger.request(ASK_ROOTS, wire(ASK_ROOTS), "user_name")


def test_questions_may_be_asked_in_any_order() -> None:
    ledger = AnsweredInputs()
    ledger.request(ASK_NAME, wire(ASK_NAME))
    ledger.request(ASK_ROOTS, wire(ASK_ROOTS))
    name_key, roots_key = ledger.pending
    again = AnsweredInputs(RequestState(), {name_key: {"n": 1}, roots_key: {"r": 1}})
    assert again.request(ASK_ROOTS, wire(ASK_ROOTS)) == {"r": 1}
    assert again.request(ASK_NAME, wire(ASK_NAME)) == {"n": 1}


def test_a_side_effect_is_remembered_with_whatever_it_gave() -> None:
    ledger = AnsweredInputs()
    assert ledger.recall("pay") == (False, None)
    ledger.remember("pay", None)
    assert ledger.recall("pay") == (True, None)
    later = open_state(SEALER, sealed(ledger.next_state(1)), bound_to=BOUND, now=0)
    assert AnsweredInputs(later).recall("pay") == (True, None)


def test_a_handler_asks_only_so_often() -> None:
    ledger = AnsweredInputs(RequestState(round_trip=2))
    assert ledger.next_state(3).round_trip == 3
    with pytest.raises(LimitExceeded) as full:
        ledger.next_state(3)
    assert (full.value.observed, full.value.allowed, full.value.setting) == (4, 3, "InputPolicy.rounds")
    assert ledger.state.round_trip == 3


# --- the sealed state -------------------------------------------------------------------------------------------------

JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.property
@given(
    round_=st.integers(0, 99),
    answers=st.dictionaries(st.text(), st.dictionaries(st.text(), JSON), max_size=3),
    once=st.dictionaries(st.text(), JSON, max_size=3),
)
def test_a_state_comes_back_as_it_was(round_: int, answers: dict[str, JsonObject], once: dict[str, object]) -> None:
    state = RequestState(round_, answers, once)  # type: ignore[arg-type]  # JSON
    assert open_state(SEALER, sealed(state), bound_to=BOUND, now=99.9) == state


@pytest.mark.spec("mrtr.state-untrusted", "mrtr.state-integrity", "mrtr.state-tamper-rejected")
def test_a_state_that_was_changed_is_refused() -> None:
    text = sealed(RequestState(1, {"a": {}}, {"paid": False}))
    messages = {refused(text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]) for at in range(len(text) - 2)}
    messages |= {refused(""), refused("ü"), refused(text[:-4]), refused(text, sealer=Sealed(b"another"))}
    # The client learns nothing from how it is refused.
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
def test_a_state_is_good_for_its_user_and_its_request_only(other: bytes) -> None:
    assert refused(sealed(), bound_to=other) == refused("nonsense")
    assert refused(sealed(bound_to=other)) == refused("nonsense")


@pytest.mark.spec("mrtr.state-bind-request")
def test_what_changes_from_round_to_round_does_not_matter() -> None:
    retry: JsonObject = {
        "arguments": {"seats": 2},
        "requestState": "s",
        "inputResponses": {"a": {}},
        "name": "book",
        "_meta": {"progressToken": 9},
    }
    assert binding("alice", "tools/call", retry) == BOUND
    # Members one level down are parts of the request.
    assert binding("alice", "tools/call", {"name": "book", "arguments": {"seats": 2, "_meta": 1}}) != BOUND


def test_numbers_of_any_size_can_be_bound_and_kept() -> None:
    huge = 2**70
    assert binding(None, "tools/call", {"n": huge}) != binding(None, "tools/call", {"n": huge + 1})
    state = RequestState(0, {}, {"n": huge})
    assert open_state(SEALER, sealed(state), bound_to=BOUND, now=0) == state


@pytest.mark.spec("mrtr.state-expiry")
def test_a_state_expires() -> None:
    text = sealed(expires=100)
    open_state(SEALER, text, bound_to=BOUND, now=99.999)
    for now in (100, 100.5, 1e9):
        assert refused(text, now=now) == refused("nonsense")


# --- the client's rounds ----------------------------------------------------------------------------------------------

ANSWER: Final = t.ElicitResult(action="accept", content={"name": "Ada"})


def required(*, asks: bool = True, state: str | None = "s") -> t.InputRequiredResult:
    return t.InputRequiredResult(input_requests={"q": ASK_NAME} if asks else None, request_state=state)


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
def test_a_request_is_sent_again_with_the_answers_and_the_latest_state(
    params: t.CallToolRequestParams,
) -> None:
    rounds = InputRequiredRetries(5)
    again = rounds.retry_params(params, required(state=" sü=\n"), {"q": ANSWER})
    assert again == t.evolve(params, input_responses={"q": ANSWER}, request_state=" sü=\n")
    third = rounds.retry_params(again, required(state="new"), {"q": ANSWER})
    assert third.request_state == "new"
    assert rounds.retries == 2


@pytest.mark.spec("mrtr.state-not-invented", "mrtr.client-retry-without-requests")
def test_nothing_is_sent_that_was_not_asked_for() -> None:
    params = t.CallToolRequestParams(name="x", request_state="old", input_responses={"q": ANSWER})
    assert InputRequiredRetries(5).retry_params(params, required(state=None), {"q": ANSWER}).request_state is None
    assert InputRequiredRetries(5).retry_params(params, required(asks=False), {}).input_responses is None


def test_a_question_about_nothing_is_the_servers_fault() -> None:
    for asked in (required(asks=False, state=None), t.InputRequiredResult(input_requests={})):
        with pytest.raises(RemoteProtocolError, match="neither"):
            InputRequiredRetries(5).retry_params(t.CallToolRequestParams(name="x"), asked, {})


def test_a_client_plays_only_so_many_rounds() -> None:
    rounds = InputRequiredRetries(2)
    params = t.CallToolRequestParams(name="x")
    for _ in range(2):
        rounds.retry_params(params, required(), {"q": ANSWER})
    with pytest.raises(LimitExceeded) as full:
        rounds.retry_params(params, required(), {"q": ANSWER})
    assert (full.value.observed, full.value.allowed, full.value.setting) == (3, 2, "Limits.input_rounds")


@pytest.mark.spec(
    "mrtr.retry-new-id",
    "mrtr.client-fulfils-before-retry",
    "mrtr.client-response-shape",
    "jsonrpc.stateless-explicit-handle",
    "jsonrpc.stateless-no-connection-affinity",
)
@pytest.mark.spec("mrtr.stateless-retry", "meta.required-on-retries", "mrtr.request-state-string")
def test_the_rounds_of_both_sides_end_in_a_result() -> None:
    """The second round goes to another server, which has nothing but the key."""
    client = make_client(R2026_07_28)
    both = pair(client, make_server(R2026_07_28)).open()
    params: t.CallToolRequestParams = t.CallToolRequestParams(name="greet")
    rounds, ids, result = InputRequiredRetries(3), set(), None
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
        answer = ledger.request(ASK_NAME, wire(ASK_NAME))
        if answer is None:
            text = seal_state(SEALER, ledger.next_state(3), bound_to=bound, expires=9)
            event = both.respond(request.id, t.InputRequiredResult(input_requests=ledger.pending, request_state=text))
            assert isinstance(event, ResultReceived)
            assert isinstance(event.result, t.InputRequiredResult)
            params = rounds.retry_params(params, event.result, dict.fromkeys(event.result.input_requests or {}, ANSWER))
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
    assert opened(R2026_07_28).server.inbound_requests == ()
