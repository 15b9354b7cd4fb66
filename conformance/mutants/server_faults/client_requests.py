"""Faults of client requests, of their results, and of MRTR."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Final

from mutants.server.client_requests import InputRequired
from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, MODERN, RpcError
from mutants.server_faults.lists import changed, name_of
from mutants.server_faults.notifications import notification_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

__all__: list[str] = []

_NEW: Final = LEGACY[-1:]


def _client_request_fault(
    name: str,
    *caught_by: str,
    method: str,
    change: Callable[[JsonObject], JsonObject],
    revisions: tuple[str, ...] | None = None,
) -> None:
    """Add a fault of the params of a client request."""

    class _ClientRequestFault(Fault):
        def client_request_params(self, inbound: InboundRequest, requested: str, params: JsonObject) -> JsonObject:  # noqa: ARG002
            return change(params) if requested == method else params

    fault(name, *caught_by, revisions=revisions)(_ClientRequestFault)


_ELICIT: Final = "elicitation/create"
_SAMPLE: Final = "sampling/createMessage"
_TEXT: Final[JsonObject] = {"type": "string"}


def _field(**field: JsonValue) -> Callable[[JsonObject], JsonObject]:
    """Return a change that adds a field to each form."""

    def change(params: JsonObject) -> JsonObject:
        schema = params.get("requestedSchema")
        if not isinstance(schema, dict):
            return params
        properties = schema["properties"]
        more: JsonObject = {**(properties if isinstance(properties, dict) else {}), **field}
        return {**params, "requestedSchema": {**schema, "properties": more}}

    return change


def _url(url: str) -> Callable[[JsonObject], JsonObject]:
    return lambda params: {**params, "url": url} if "url" in params else params


def _referring(params: JsonObject) -> JsonObject:
    """Add a field to a form whose schema is a reference."""
    params = _field(odd={"$ref": "#/$defs/Odd"})(params)
    schema = params.get("requestedSchema")
    definitions: JsonObject = {"Odd": {"type": "string", "enum": ["one", "three"]}}
    return {**params, "requestedSchema": {**schema, "$defs": definitions}} if isinstance(schema, dict) else params


_client_request_fault("question-without-message", "elicitation.url-params", "schema.elicit-form", "schema.elicit-url",
       "elicitation.message", "elicitation.fields", method=_ELICIT,
       change=lambda params: {key: value for key, value in params.items() if key != "message"})  # fmt: skip
_client_request_fault("form-without-type", "elicitation.form", "schema.elicit-form", "elicitation.fields", method=_ELICIT,
       change=lambda params: {**params, "requestedSchema": {"properties": {}}} if "requestedSchema" in params
       else params)  # fmt: skip
_client_request_fault(
    "field-by-reference",
    "elicitation.fields",
    "schema.elicit-primitives",
    method=_ELICIT,
    change=_referring,
)
_client_request_fault(
    "field-nested",
    "elicitation.fields",
    "schema.elicit-flat",
    method=_ELICIT,
    change=_field(deep={"type": "object", "properties": {}}),
)
_client_request_fault(
    "form-asks-password", "elicitation.not-sensitive", method=_ELICIT, change=_field(password={"type": "string"})
)
for _name in ("creditCard", "github_token", "passcode"):
    _client_request_fault(f"form-asks-{_name.replace('_', '-').lower()}", "elicitation.not-sensitive", method=_ELICIT,
           change=_field(**{_name: _TEXT}))  # fmt: skip
_client_request_fault("message-asks-password", "elicitation.not-sensitive", method=_ELICIT,
       change=lambda params: {**params, "message": "Please enter the password of your account."}
       if "requestedSchema" in params else params)  # fmt: skip
_client_request_fault("form-with-link", "elicitation.no-links", method=_ELICIT,
       change=_field(page={"type": "string", "title": "Go to https://example.com"}))  # fmt: skip
_client_request_fault("url-is-none", "elicitation.url-valid", "elicitation.url-https", "schema.elicit-url", method=_ELICIT,
       change=_url("over there"))  # fmt: skip
_client_request_fault("url-with-password", "elicitation.url-without-secrets", method=_ELICIT,
       change=_url("https://user:password@example.com/"))  # fmt: skip
_client_request_fault("url-with-token-in-fragment", "elicitation.url-without-secrets", method=_ELICIT,
       change=_url("https://example.com/confirm#access_token=abc"))  # fmt: skip
_client_request_fault("url-with-address-in-path", "elicitation.url-without-secrets", method=_ELICIT,
       change=_url("https://example.com/confirm/jane@example.com"))  # fmt: skip
_client_request_fault("url-without-id", "elicitation.url-params", "elicitation.complete-id", "schema.elicit-url", method=_ELICIT,
       revisions=_NEW,
       change=lambda params: {key: value for key, value in params.items() if key != "elicitationId"})  # fmt: skip
_client_request_fault("url-with-id", "elicitation.url-params", method=_ELICIT, revisions=MODERN,
       change=lambda params: {**params, "elicitationId": "1"} if "url" in params else params)  # fmt: skip
notification_fault("complete-of-another", "elicitation.complete-id", method="notifications/elicitation/complete", revisions=_NEW,
      change=lambda _: {"elicitationId": "another"})  # fmt: skip


@fault(
    "any-mode",
    "elicitation.only-declared-modes",
    "capability.undeclared-not-asked",
    "mrtr.only-what-is-declared",
    "roots.not-without-capability",
)
class _AnyMode(Fault):
    def may_request_input(self, inbound: InboundRequest, method: str, *, declared: bool) -> bool:  # noqa: ARG002
        return True


@fault(
    "requested-from-any-client",
    "capability.undeclared-not-asked",
    "roots.not-without-capability",
    "mrtr.only-what-is-declared",
)
class _RequestedFromAnyClient(Fault):
    """A server that sends all client requests to a client that declares another capability."""

    def may_request_input(self, inbound: InboundRequest, method: str, *, declared: bool) -> bool:
        others = {"roots", "sampling", "elicitation"} - {method.partition("/")[0]}
        return declared or any(inbound.declares(each) for each in others)


@fault("resource-elicits-in-any-mode", "elicitation.only-declared-modes", revisions=MODERN)
class _ResourceElicitsInAnyMode(Fault):
    def may_request_input(self, inbound: InboundRequest, method: str, *, declared: bool) -> bool:  # noqa: ARG002
        return declared or (inbound.request["method"] == "resources/read" and inbound.declares("elicitation"))


@fault("one-form-in-any-mode", "elicitation.only-declared-modes", revisions=(*_NEW, *MODERN))
class _OneFormInAnyMode(Fault):
    """A server one of whose tools does not look at the modes of the client."""

    def may_request_input(self, inbound: InboundRequest, method: str, *, declared: bool) -> bool:  # noqa: ARG002
        return declared or (
            name_of(inbound) == "test_elicitation_sep1034_defaults" and inbound.declares("elicitation", "url")
        )


@fault("form-mode-to-be-named", "elicitation.only-declared-modes", revisions=(*_NEW, *MODERN))
class _FormModeToBeNamed(Fault):
    """A server one of whose tools takes a client that names no mode for one without elicitation."""

    def may_request_input(self, inbound: InboundRequest, method: str, *, declared: bool) -> bool:  # noqa: ARG002
        return declared and (name_of(inbound) != "test_elicitation" or inbound.declares("elicitation", "form"))


@fault("answers-not-validated", "elicitation.validates", "mrtr.answers-of-another-kind", "sampling.validates")
class _AnyAnswer(Fault):
    def fits(self, method: str, answer: JsonObject, *, fits: bool) -> bool:  # noqa: ARG002
        return True


class _OneMemberUnvalidated(Fault):
    """A server that validates only one of two members of the results of clients.

    Args:
        method: The method of the client request.
        is_valid: Whether the other member is valid.
    """

    def __init__(self, method: str, is_valid: Callable[[JsonObject], bool]) -> None:
        self._method: Final = method
        self._is_valid: Final = is_valid

    def fits(self, method: str, answer: JsonObject, *, fits: bool) -> bool:
        content = answer.get("content") if method == _ELICIT else answer
        return fits or (method == self._method and isinstance(content, dict) and self._is_valid(content))


for _name, _check, _method, _is_valid in (
    ("elicited-email", "elicitation.validates", _ELICIT, lambda content: isinstance(content.get("username"), str)),
    ("sampled-content", "sampling.validates", _SAMPLE, lambda answer: answer.get("role") == "assistant"),
):
    fault(f"{_name}-unvalidated", _check, revisions=LEGACY[2:])(partial(_OneMemberUnvalidated, _method, _is_valid))


@fault("several-roots-with-more", "roots.request-shape", revisions=MODERN)
class _SeveralRootsWithMore(Fault):
    def client_request_params(self, inbound: InboundRequest, method: str, params: JsonObject) -> JsonObject:
        several = name_of(inbound) == "test_input_required_result_multiple_inputs"
        return {"depth": 1} if method == "roots/list" and several else params


def _failing_at(
    name: str, action: str, tool: str = "test_elicitation", revisions: tuple[str, ...] = LEGACY[2:]
) -> None:
    """Add a server that fails internally at an action of the user."""

    class _FailsAt(Fault):
        def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            if name_of(inbound) == tool and action in json.dumps(result):
                raise RpcError(-32603, "internal error")
            return result

    fault(name, "elicitation.declined", revisions=revisions)(_FailsAt)


_failing_at("fails-at-decline", "decline")
_failing_at("fails-at-cancel", "cancel")
_failing_at("retry-fails-at-cancel", "cancel", revisions=MODERN)
_failing_at("fails-at-declined-page", "decline", "conformance_elicit_url")


@fault("complete-in-modern", "elicitation.no-complete", revisions=MODERN)
class _Completes(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "conformance_elicit_url":
            inbound.notify("notifications/elicitation/complete", {"elicitationId": "1"})
        return result


@fault("page-without-id", "elicitation.required", "elicitation.url-params", "schema.elicit-url", revisions=_NEW)
class _PageWithoutId(Fault):
    def error(self, error: JsonObject) -> JsonObject:
        page: JsonObject = {"mode": "url", "url": "https://example.com/", "message": "Please confirm."}
        return {**error, "data": {"elicitations": [page]}} if error["code"] == -32042 else error


def _required_page(name: str, check: str, url: str) -> None:
    """Add a server whose error -32042 has another URL."""

    class _RequiredPage(Fault):
        def error(self, error: JsonObject) -> JsonObject:
            page: JsonObject = {"mode": "url", "url": url, "message": "Please confirm.", "elicitationId": "required"}
            return {**error, "data": {"elicitations": [page]}} if error["code"] == -32042 else error

    fault(name, check, revisions=_NEW)(_RequiredPage)


_required_page("required-page-relative", "elicitation.url-valid", "https:/confirm")
_required_page("required-page-with-password", "elicitation.url-without-secrets", "https://me:secret@example.com/")


_PAGE_OF_PROMPT: Final = "conformance: the page of a prompt"


@fault(
    "page-of-prompt-relative", "elicitation.url-valid", "elicitation.url-https", "schema.elicit-url", revisions=MODERN
)
class _PageOfPromptRelative(Fault):
    """A server one of whose prompts sends a page whose URL is relative."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        first = "inputResponses" not in inbound.params
        if name_of(inbound) == "test_simple_prompt" and first and inbound.declares("elicitation", "url"):
            page: JsonObject = {"mode": "url", "message": "Please connect your account.", "url": "/connect?id=1"}
            raise InputRequired({"page": {"method": _ELICIT, "params": page}}, _PAGE_OF_PROMPT)
        return result


@fault("cancelled-again", "elicitation.declined", revisions=(*LEGACY[2:], *MODERN))
class _CancelledAgain(Fault):
    """A server that takes the response after a cancelled elicitation for another one."""

    def __init__(self) -> None:
        self._cancelled = False

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) != "test_elicitation":
            return result
        before, self._cancelled = self._cancelled, "cancel" in json.dumps(result)
        return {"content": [{"type": "text", "text": '{"asked": "cancel"}'}]} if before else result


@fault("page-for-no-reason", "elicitation.required-only-then", revisions=_NEW)
class _PageForNoReason(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        ref = inbound.params.get("ref")
        if isinstance(ref, dict) and ref.get("name") == "none":
            page: JsonObject = {"mode": "url", "url": "https://example.com/", "message": "Look.", "elicitationId": "1"}
            raise RpcError(-32042, str(error), {"elicitations": [page]}, error.status)
        raise error


_client_request_fault("roots-with-more", "roots.request-shape", method="roots/list", change=lambda _: {"depth": 1})
_client_request_fault("sampling-without-bound", "sampling.shape", "schema.create-message-params", method=_SAMPLE,
       change=lambda params: {key: value for key, value in params.items() if key != "maxTokens"})  # fmt: skip
_client_request_fault("context-of-all", "sampling.no-context", method=_SAMPLE,
       change=lambda params: {**params, "includeContext": "allServers"})  # fmt: skip


@fault("tools-undeclared-in-sampling", "sampling.no-tools-without-capability")
class _ToolsAnyway(Fault):
    def samples_with_tools(self, inbound: InboundRequest, *, declared: bool) -> bool:  # noqa: ARG002
        return True


@fault("tools-with-any-member-of-sampling", "sampling.no-tools-without-capability")
class _ToolsWithAnyMember(Fault):
    def samples_with_tools(self, inbound: InboundRequest, *, declared: bool) -> bool:
        return declared or inbound.declares("sampling", "context")


_client_request_fault("choice-odd", "sampling.tool-choice", "schema.create-message-params", method=_SAMPLE, change=lambda params:
       {**params, "toolChoice": {"mode": "any"}} if "tools" in params else params)  # fmt: skip
_client_request_fault("priority-of-ten", "sampling.priorities", "schema.model-preferences", method=_SAMPLE, change=lambda params:
       {**params, "modelPreferences": {"costPriority": 10}} if "tools" in params else params)  # fmt: skip


def _messages(change: Callable[[JsonObject], JsonObject]) -> Callable[[JsonObject], JsonObject]:
    def apply(params: JsonObject) -> JsonObject:
        messages = params["messages"]
        rows = messages if isinstance(messages, list) else []
        return {**params, "messages": [change(each) if isinstance(each, dict) else each for each in rows]}

    return apply


def _results(message: JsonObject) -> bool:
    return "tool_result" in str(message.get("content"))


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else [value]


_client_request_fault("results-with-text", "sampling.results-alone", method=_SAMPLE, change=_messages(lambda message:
       {**message, "content": [*_list(message["content"]), {"type": "text", "text": "?"}]} if _results(message)
       else message))  # fmt: skip
_client_request_fault("results-of-others", "sampling.calls-and-results", method=_SAMPLE, change=_messages(lambda message:
       {**message, "content": [{"type": "tool_result", "toolUseId": "another", "content": []}]} if _results(message)
       else message))  # fmt: skip


class _OneOfTwoCalls(Fault):
    """A server that sends the result of one of the model's tool calls in a message.

    Args:
        place: The place of the call.
    """

    def __init__(self, place: int) -> None:
        self._place = place

    def answered_calls(self, calls: list[JsonObject]) -> list[JsonObject]:
        return [calls[self._place]]


for _which, _place in (("first", 0), ("last", -1)):
    fault(f"result-of-{_which}-call", "sampling.calls-and-results")(partial(_OneOfTwoCalls, _place))


def _blocks(message: JsonValue) -> list[JsonObject]:
    content = message.get("content") if isinstance(message, dict) else None
    return [each for each in _list(content) if isinstance(each, dict)]


def _early(change: Callable[[JsonObject], JsonObject]) -> Callable[[JsonObject], JsonObject]:
    """Return a change of the messages with results, in all sampling requests but the last of the suite."""

    def apply(params: JsonObject) -> JsonObject:
        messages = params["messages"]
        return _messages(change)(params) if isinstance(messages, list) and len(messages) == 3 else params

    return apply


_client_request_fault("early-results-of-others", "sampling.calls-and-results", method=_SAMPLE,
       change=_early(lambda message: {**message, "content": [
           {**each, "toolUseId": "another"} for each in _blocks(message)]} if _results(message) else message))  # fmt: skip
_client_request_fault("results-twice", "sampling.calls-and-results", method=_SAMPLE, change=_messages(lambda message:
       {**message, "content": [*_blocks(message), *_blocks(message)]} if _results(message) else message))  # fmt: skip


@fault("call-alone-ignored", "sampling.calls-and-results")
class _CallAloneIgnored(Fault):
    """A server that looks for tool calls only in arrays of content."""

    def client_request_params(self, inbound: InboundRequest, method: str, params: JsonObject) -> JsonObject:  # noqa: ARG002
        messages = params.get("messages")
        if method != _SAMPLE or not isinstance(messages, list):
            return params
        alone = {str(each["id"]) for row in messages for each in _alone(row)}
        rows = [row for row in messages if not any(each.get("toolUseId") in alone for each in _blocks(row))]
        return {**params, "messages": rows}


def _alone(message: JsonValue) -> list[JsonObject]:
    return [each for each in _blocks(message) if each.get("type") == "tool_use" and len(_blocks(message)) == 1]


@fault("sampled-array-refused", "sampling.content-array", revisions=(*_NEW, *MODERN))
class _SampledArrayRefused(Fault):
    """A server that accepts only one object as sampled content."""

    def fits(self, method: str, answer: JsonObject, *, fits: bool) -> bool:
        return fits and not (method == _SAMPLE and _is_array_of_texts(answer.get("content")))


def _is_array_of_texts(content: JsonValue) -> bool:
    return isinstance(content, list) and all(isinstance(each, dict) and each.get("type") == "text" for each in content)


_client_request_fault("results-by-assistant", "sampling.roles", method=_SAMPLE, revisions=_NEW, change=_messages(lambda message:
       {**message, "role": "assistant"} if _results(message) else message))  # fmt: skip


@fault("samples-for-ever", "sampling.ends")
class _ForEver(Fault):
    def max_tool_calls(self, most: int) -> int:  # noqa: ARG002
        return 1000


# --- MRTR ------------------------------------------------------------------------------------------------------------


def _mrtr_fault(name: str, *caught_by: str, change: Callable[[InboundRequest, JsonObject], JsonObject]) -> None:
    """Add a fault of results with input requests."""

    class _MrtrFault(Fault):
        def modern(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            return change(inbound, result) if result["resultType"] == "input_required" else result

    fault(name, *caught_by, revisions=MODERN)(_MrtrFault)


def _requests(change: Callable[[JsonObject], JsonObject]) -> Callable[[InboundRequest, JsonObject], JsonObject]:
    def apply(_: InboundRequest, result: JsonObject) -> JsonObject:
        requests = result["inputRequests"]
        own = requests if isinstance(requests, dict) else {}
        return {**result, "inputRequests": {key: change(each) for key, each in own.items() if isinstance(each, dict)}}

    return apply


_mrtr_fault("request-with-id", "mrtr.requests-shape", "roots.request-shape",
       change=_requests(lambda each: {**each, "id": 1}))  # fmt: skip
_mrtr_fault("state-as-number", "mrtr.state-is-a-string", "schema.input-required",
       change=lambda inbound, result: {**result, "requestState": 7}
       if name_of(inbound) == "test_input_required_result_request_state" else result)  # fmt: skip
changed("completion-asks", "mrtr.only-where-it-may-be", method="completion/complete", revisions=MODERN, modern=True,
        change=lambda _, result: {**result, "resultType": "input_required", "requestState": "x"})  # fmt: skip


@fault("state-not-sealed", "mrtr.tampered-state", revisions=MODERN)
class _NotSealed(Fault):
    def tampered(self, error: RpcError) -> JsonObject:  # noqa: ARG002
        return {}


@fault("state-used-twice", "mrtr.state-single-use", revisions=MODERN)
class _UsedTwice(Fault):
    def redeemed(self, inbound: InboundRequest, *, used: bool) -> bool:  # noqa: ARG002
        return False


@fault("state-not-bound", "mrtr.state-of-another-request", "mrtr.state-of-another-user", revisions=MODERN)
class _NotBound(Fault):
    def bound(self, *, same: bool) -> bool:  # noqa: ARG002
        return True
