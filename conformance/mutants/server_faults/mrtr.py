"""Faults of elicitation, MRTR, progress, cancellation and subscriptions."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, META, MODERN, RpcError
from mutants.server_faults.lists import name_of

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

__all__: list[str] = []

_PIPES: Final = ("stdio",)
_HTTP: Final = ("http",)
_ROOTS: Final = "test_input_required_result_list_roots"
_SEVERAL: Final = "test_input_required_result_multiple_inputs"
_ELICITS: Final = "test_input_required_result_elicitation"
_INTERNAL: Final[JsonObject] = {"code": -32603, "message": "internal error"}
_LISTEN: Final = "subscriptions/listen"
_UPDATES: Final = ("toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions")


def _method(inbound: InboundRequest) -> str:
    return str(inbound.request["method"])


def _requires_input(result: JsonObject) -> bool:
    return result.get("resultType") == "input_required"


# --- elicitation and MRTR --------------------------------------------------------------------------------------------


@fault("declined-as-accepted", "elicitation.declined", revisions=("2025-06-18", "2025-11-25", *MODERN))
class _DeclinedAsAccepted(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) != "test_elicitation" or result.get("isError") is True:
            return result
        return {"content": [{"type": "text", "text": "thank you"}]}


@fault("complete-to-all", "elicitation.complete-to-asked", revisions=LEGACY[-1:], transports=_HTTP)
class _CompleteToAll(Fault):
    def __init__(self) -> None:
        self._page: JsonValue = None

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if self._page is not None and _method(inbound) == "ping":
            inbound.notify("notifications/elicitation/complete", {"elicitationId": self._page})
            self._page = None
        return result

    def before(self, message: JsonValue) -> JsonValue:
        if isinstance(message, dict) and message.get("method") == "notifications/elicitation/complete":
            self._page = "conformance-elicitation"
        return message


@fault("asks-for-nothing", "mrtr.asks-or-has-state", "mrtr.completes", "schema.input-required", revisions=MODERN)
class _EmptyInputRequests(Fault):
    def modern(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == _SEVERAL and _requires_input(result):
            return {key: each for key, each in result.items() if key not in ("inputRequests", "requestState")}
        return result


@fault("key-twice", "mrtr.keys-once", revisions=MODERN, transports=_PIPES)
class _KeyTwice(Fault):
    def line(self, line: bytes) -> bytes:
        return line.replace(b'"inputRequests":{"user_name":', b'"inputRequests":{"user_name":{},"user_name":')


@fault("asks-for-ping", "mrtr.requests-kinds", "schema.input-required", revisions=MODERN)
class _PingAsInputRequest(Fault):
    def modern(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        requests = result.get("inputRequests")
        if _requires_input(result) and inbound.declares("roots") and isinstance(requests, dict):
            return {**result, "inputRequests": {**requests, "alive": {"method": "ping"}}}
        return result


@fault("never-complete", "mrtr.completes", revisions=MODERN)
class _NeverComplete(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == _ROOTS and "inputResponses" in inbound.params:
            raise RpcError(-32603, "an input response is missing")
        return result


@fault("waits-for-answers", "mrtr.nobody-answers", revisions=MODERN)
class _WaitsForAnswers(Fault):
    def __init__(self) -> None:
        self._open = 0

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        first = name_of(inbound) == _ELICITS and "inputResponses" not in inbound.params
        self._open = self._open + 1 if first else 0
        return None if self._open == 3 else response


@fault("one-open-call", "mrtr.nobody-answers", revisions=MODERN, transports=("stdio",))
class _OneOpenCall(Fault):
    """A server that accepts no other call of a tool before the retry."""

    def __init__(self) -> None:
        self._is_open = False

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        if name_of(inbound) != _ELICITS:
            return response
        is_busy, self._is_open = self._is_open, "inputResponses" not in inbound.params
        return {**_without_result(response), "error": _INTERNAL} if is_busy and self._is_open else response


@fault("open-calls-limited", "mrtr.nobody-answers", revisions=MODERN)
class _OpenCallsLimited(Fault):
    def __init__(self) -> None:
        self._open = 0

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        first = name_of(inbound) == _ELICITS and "inputResponses" not in inbound.params
        self._open = self._open + 1 if first else 0
        return {**_without_result(response), "error": _INTERNAL} if self._open > 8 else response


@fault("last-of-several-fails", "mrtr.completes", revisions=MODERN)
class _LastOfSeveralFails(Fault):
    """A server that completes a call only when all input responses arrive in one retry."""

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        given, result = inbound.params.get("inputResponses"), response.get("result")
        alone = name_of(inbound) == _SEVERAL and isinstance(given, dict) and len(given) == 1
        if alone and isinstance(result, dict) and not _requires_input(result):
            return {**_without_result(response), "error": _INTERNAL}
        return response


def _without_result(response: JsonObject) -> JsonObject:
    """Return a response without its result."""
    return {key: each for key, each in response.items() if key != "result"}


def _params_of(message: JsonValue) -> JsonObject:
    params = message.get("params") if isinstance(message, dict) else None
    return params if isinstance(params, dict) else {}


@fault("capabilities-of-first-call", "mrtr.only-what-is-declared", revisions=MODERN)
class _CapabilitiesOfFirstCall(Fault):
    def reads(self, message: JsonValue) -> JsonValue:
        params = _params_of(message)
        meta = params.get("_meta")
        if not isinstance(message, dict) or not isinstance(meta, dict) or "requestState" not in params:
            return message
        declared: JsonObject = {**meta, f"{META}clientCapabilities": {"elicitation": {}, "sampling": {}, "roots": {}}}
        return {**message, "params": {**params, "_meta": declared}}


class _StateInParts(Fault):
    """A server whose state has a part that is not sealed.

    Args:
        prefix: The part at the beginning.
        suffix: The part at the end.
    """

    def __init__(self, prefix: str = "", suffix: str = "") -> None:
        self._prefix: Final = prefix
        self._suffix: Final = suffix

    def modern(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:  # noqa: ARG002
        state = result.get("requestState")
        return {**result, "requestState": f"{self._prefix}{state}{self._suffix}"} if isinstance(state, str) else result

    def reads(self, message: JsonValue) -> JsonValue:
        params = _params_of(message)
        state = params.get("requestState")
        if not isinstance(message, dict) or not isinstance(state, str):
            return message
        sealed = state[len(self._prefix) :].removesuffix(self._suffix)
        sealed = sealed.partition(".")[0] if self._suffix else sealed
        return {**message, "params": {**params, "requestState": sealed}}


fault("state-prefix-not-sealed", "mrtr.tampered-state", revisions=MODERN)(partial(_StateInParts, prefix="v1."))
fault("state-suffix-not-sealed", "mrtr.tampered-state", revisions=MODERN)(partial(_StateInParts, suffix=".1700000"))


@fault("state-of-resource-not-sealed", "mrtr.tampered-state", revisions=MODERN)
class _StateOfResourceNotSealed(Fault):
    def __init__(self) -> None:
        self._reads_resource = False

    def reads(self, message: JsonValue) -> JsonValue:
        self._reads_resource = isinstance(message, dict) and message.get("method") == "resources/read"
        return message

    def tampered(self, error: RpcError) -> JsonObject:
        if self._reads_resource:
            return {}
        raise error


@fault("redeemed-per-answer", "mrtr.state-single-use", revisions=MODERN)
class _RedeemedPerAnswer(Fault):
    def __init__(self) -> None:
        self._used: list[JsonValue] = []

    def redeemed(self, inbound: InboundRequest, *, used: bool) -> bool:
        use: JsonValue = [inbound.params.get("requestState"), inbound.params.get("inputResponses")]
        self._used.append(use)
        return used and self._used.count(use) > 1


@fault("redeemed-by-turns", "mrtr.state-single-use", revisions=MODERN)
class _RedeemedByTurns(Fault):
    """A server that forgets a used state when it rejects it."""

    def __init__(self) -> None:
        self._rejected = False

    def redeemed(self, inbound: InboundRequest, *, used: bool) -> bool:  # noqa: ARG002
        self._rejected = used and not self._rejected
        return self._rejected


@fault("redeemed-last", "mrtr.state-single-use", revisions=MODERN)
class _RedeemedLast(Fault):
    """A server that remembers only the state that was used last."""

    def __init__(self) -> None:
        self._last: JsonValue = None

    def redeemed(self, inbound: InboundRequest, *, used: bool) -> bool:  # noqa: ARG002
        state = inbound.params.get("requestState")
        last, self._last = self._last, state
        return state == last


@fault("redeemed-at-once", "mrtr.state-single-use", revisions=MODERN)
class _RedeemedAtOnce(Fault):
    """A server that marks a state as used some time after its check."""

    def keeps(self, rule: str) -> bool:
        return rule != "redeemed-atomically"

    def redeemed(self, inbound: InboundRequest, *, used: bool) -> bool:  # noqa: ARG002
        time.sleep(0.1)
        return used


@fault("resource-retry-fails", "mrtr.completes", revisions=MODERN)
class _ResourceRetryFails(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if _method(inbound) == "resources/read" and "inputResponses" in inbound.params:
            raise RpcError(-32602, "unexpected member 'inputResponses'")
        return result


@fault("resource-asks-undeclared", "mrtr.only-what-is-declared", "elicitation.only-declared-modes", revisions=MODERN)
class _ResourceInputUndeclared(Fault):
    def may_request_input(self, inbound: InboundRequest, method: str, *, declared: bool) -> bool:  # noqa: ARG002
        return declared or _method(inbound) == "resources/read"


@fault("first-capability-only", "mrtr.only-what-is-declared", revisions=MODERN)
class _FirstCapabilityOnly(Fault):
    """A server that compares the capability of the first of several input requests."""

    def may_request_input(self, inbound: InboundRequest, method: str, *, declared: bool) -> bool:  # noqa: ARG002
        return declared or (name_of(inbound) == _SEVERAL and inbound.declares("elicitation"))


@fault("empty-state-as-none", "mrtr.tampered-state", revisions=MODERN)
class _EmptyStateAsNone(Fault):
    def reads(self, message: JsonValue) -> JsonValue:
        params = _params_of(message)
        if not isinstance(message, dict) or params.get("requestState") != "":
            return message
        return {**message, "params": {key: each for key, each in params.items() if key != "requestState"}}


@fault("state-of-other-arguments", "mrtr.state-of-another-request", revisions=MODERN)
class _OtherArguments(Fault):
    """A server whose state belongs to a tool, whatever the arguments."""

    def __init__(self) -> None:
        self._has_file = False

    def reads(self, message: JsonValue) -> JsonValue:
        self._has_file = _params_of(message).get("name") == "confirm_delete"
        return message

    def bound(self, *, same: bool) -> bool:
        return same or self._has_file


@fault("latest-call-only", "mrtr.on-another-connection", revisions=MODERN)
class _LatestCallOnly(Fault):
    """A server that keeps one pending call of each tool."""

    def __init__(self) -> None:
        self._latest: JsonValue = None

    def modern(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == _ELICITS and _requires_input(result):
            self._latest = result.get("requestState")
        return result

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == _ELICITS and inbound.params.get("requestState", self._latest) != self._latest:
            raise RpcError(-32602, "another call is pending")
        return result


@fault("stray-answers-refused", "mrtr.unexpected-answers", revisions=MODERN)
class _StrayAnswersRefused(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "test_simple_text" and "inputResponses" in inbound.params:
            raise RpcError(-32602, "the tool requires no input")
        return result


@fault("missing-answers-declined", "mrtr.asks-again", revisions=MODERN)
class _MissingDeclined(Fault):
    """A server that completes a call when one of several input responses is there, as if the user declined the others."""

    def reads(self, message: JsonValue) -> JsonValue:
        params = _params_of(message)
        given = params.get("inputResponses")
        if not isinstance(message, dict) or params.get("name") != _SEVERAL or not isinstance(given, dict) or not given:
            return message
        text: JsonObject = {"type": "text", "text": "none"}
        declined: JsonObject = {
            "user_name": {"action": "decline"},
            "greeting": {"role": "assistant", "content": text, "model": "none"},
            "client_roots": {"roots": []},
        }
        return {**message, "params": {**params, "inputResponses": {**declined, **given}}}


@fault("later-state-as-object", "mrtr.state-is-a-string", "schema.input-required", revisions=MODERN)
class _LaterStateAsObject(Fault):
    """A server whose state is an object after the first retry."""

    def modern(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if not _requires_input(result) or "requestState" not in inbound.params:
            return result
        return {**result, "requestState": {"state": result.get("requestState")}}

    def reads(self, message: JsonValue) -> JsonValue:
        params = _params_of(message)
        state = params.get("requestState")
        if not isinstance(message, dict) or not isinstance(state, dict):
            return message
        return {**message, "params": {**params, "requestState": state.get("state")}}


@fault("answers-in-an-array-fail", "mrtr.malformed-answers", revisions=MODERN)
class _ArrayFails(Fault):
    """A server that fails internally at input responses that are no object."""

    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if isinstance(inbound.params.get("inputResponses", {}), dict):
            raise error
        raise RpcError(-32603, "internal error")


# --- progress and cancellation ---------------------------------------------------------------------------------------


@fault("progress-elsewhere", "progress.on-own-stream", revisions=MODERN, transports=_HTTP)
class _ProgressElsewhere(Fault):
    def __init__(self) -> None:
        self._late = False

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if self._late and _method(inbound) == "server/discover":
            inbound.notify("notifications/progress", {"progressToken": "conformance-token", "progress": 1000})
        self._late = inbound.meta.get("progressToken") == "conformance-token"
        return result


class _ComplainsOfThePast(Fault):
    def __init__(self) -> None:
        self._answered: list[JsonValue] = []

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        self._answered.append(inbound.request["id"])
        return response

    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:
        params = message.get("params")
        id = params.get("requestId") if isinstance(params, dict) else None
        # Another session may have used the id of a pending call; that cancellation is valid.
        if message["method"] == "notifications/cancelled" and id in self._answered and "reason" not in str(message):
            return {"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "the request has ended"}}
        return answer


fault("complains-of-past", "cancellation.of-the-past", "jsonrpc.response-ids", transports=_PIPES)(_ComplainsOfThePast)
fault("complains-of-past-over-http", "cancellation.of-the-past-over-http", revisions=LEGACY, transports=_HTTP)(
    type("_OverHttp", (_ComplainsOfThePast,), {})
)

# --- subscriptions ---------------------------------------------------------------------------------------------------


@fault("all-unheard", "subscription.served", "subscription.acknowledged-first", "subscription.acknowledged-filter",
       "subscription.id", "subscription.not-offered", "subscription.stays-open", "subscription.event-stream",
       "subscription.ends-with-cancelled", "subscription.ends-with-a-result", "subscription.result-shape",
       revisions=MODERN)  # fmt: skip
class _AllUnheard(Fault):
    """A server that does not support a subscription to all notifications."""

    def __init__(self) -> None:
        self._deaf = False

    def acknowledged(self, wanted: JsonObject, granted: JsonObject) -> JsonObject:
        self._deaf = all(name in wanted for name in _UPDATES)
        return granted

    def opening(self, acknowledgement: JsonObject) -> list[JsonObject]:
        return [] if self._deaf else [acknowledgement]


@fault("acknowledges-undeclared", "subscription.not-offered", revisions=MODERN)
class _AcknowledgesUndeclared(Fault):
    def capabilities(self, declared: JsonObject) -> JsonObject:
        return {**declared, "prompts": {}}

    def acknowledged(self, wanted: JsonObject, granted: JsonObject) -> JsonObject:
        return {**granted, "promptsListChanged": True} if "promptsListChanged" in wanted else granted


@fault("id-as-number", "subscription.id", revisions=MODERN)
class _IdAsNumber(Fault):
    def opening(self, acknowledgement: JsonObject) -> list[JsonObject]:
        params = acknowledgement["params"]
        acknowledged = params if isinstance(params, dict) else {}
        meta = acknowledged.get("_meta")
        id = meta.get(f"{META}subscriptionId") if isinstance(meta, dict) else None
        if not isinstance(id, str) or not id.isdigit():
            return [acknowledgement]
        return [{**acknowledgement, "params": {**acknowledged, "_meta": {f"{META}subscriptionId": int(id)}}}]


@fault("answers-while-open", "subscription.stays-open", revisions=MODERN, transports=_PIPES)
class _AnswersWhileOpen(Fault):
    """A server that ends a subscription on its own after a while."""

    def __init__(self) -> None:
        self._open: JsonValue = None
        self._left = 0

    def opening(self, acknowledgement: JsonObject) -> list[JsonObject]:
        params = acknowledgement["params"]
        meta = params.get("_meta") if isinstance(params, dict) else None
        self._open = meta.get(f"{META}subscriptionId") if isinstance(meta, dict) else None
        self._left = 2
        return [acknowledgement]

    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:  # noqa: ARG002
        self._open = None
        return answer

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if _method(inbound) != "server/discover" or self._open is None:
            return result
        self._left -= 1
        if not self._left:
            meta: JsonObject = {
                f"{META}subscriptionId": self._open,
                f"{META}serverInfo": {"name": "raw", "version": "1"},
            }
            inbound.send({"jsonrpc": "2.0", "id": self._open, "result": {"resultType": "complete", "_meta": meta}})
        return result
