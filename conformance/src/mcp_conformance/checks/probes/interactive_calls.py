"""Requests during which the server sends client requests: as requests, or by MRTR, depending on the revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.checks.probes.recorded_values import params_of
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.drivers.server.suite_connection import Reply, SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "REPLIES",
    "ClientRequest",
    "Conversation",
    "converse",
    "input_requests_of",
    "request_until_input",
    "requires_input",
    "responses_to",
    "retried",
]

_MAX_ROUND_TRIPS: Final = 60
"""Maximum number of round trips of a call."""
_CONTENT: Final[JsonObject] = {"type": "text", "text": "A text."}


def _fill_in(params: JsonObject) -> JsonObject:
    """Accept a form, with a valid value in each field."""
    if params.get("mode") == "url":
        return {"action": "accept"}
    schema = params.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    fields = properties if isinstance(properties, dict) else {}
    return {"action": "accept", "content": {name: _value(field) for name, field in fields.items()}}


def _value(field: JsonValue) -> JsonValue:
    if not isinstance(field, dict):
        return "text"
    kind = field.get("type")
    if kind == "array":
        return [_choice(field.get("items"))]
    if "enum" in field or "oneOf" in field:
        return _choice(field)
    if kind in ("integer", "number"):
        return field.get("minimum", 1)
    texts: JsonObject = {"email": "test@example.com", "uri": "https://example.com/", "date": "2026-01-01"}
    known = texts | {"date-time": "2026-01-01T00:00:00Z"}
    return True if kind == "boolean" else known.get(str(field.get("format")), "text")


def _choice(field: JsonValue) -> JsonValue:
    if not isinstance(field, dict):
        return "text"
    enum = field.get("enum")
    if isinstance(enum, list) and enum:
        return enum[0]
    titled = field.get("oneOf", field.get("anyOf"))
    first = titled[0] if isinstance(titled, list) and titled else None
    return first.get("const") if isinstance(first, dict) else "text"


REPLIES: Final[Mapping[str, Reply]] = {
    "elicitation/create": _fill_in,
    "sampling/createMessage": lambda _: {"role": "assistant", "content": _CONTENT, "model": "test-model"},
    "roots/list": lambda _: {"roots": [{"uri": "file:///test/root"}]},
}
"""The responses of the suite, unless a check replaces them."""


@attrs.frozen(kw_only=True)
class ClientRequest:
    """A client request of the server."""

    key: str
    """Key of the input request, or id of the request."""
    method: str
    """Method of the request."""
    params: JsonObject
    """Params of the request."""
    whole: JsonObject
    """The request as received."""


@attrs.frozen(kw_only=True)
class Conversation:
    """A call with its client requests."""

    answers: tuple[JsonRpcResponse, ...]
    """Responses to the calls: one in legacy revisions, one per round trip in modern ones."""
    client_requests: tuple[ClientRequest, ...]
    """The client requests, in order."""

    @property
    def answer(self) -> JsonRpcResponse:
        """The final response."""
        return self.answers[-1]

    def requests_of(self, method: str) -> list[ClientRequest]:
        """Return the client requests of one method."""
        return [each for each in self.client_requests if each.method == method]


def input_requests_of(answer: JsonRpcResponse) -> list[ClientRequest]:
    """Return the input requests of a response; empty when it requires no input."""
    result = answer.message.get("result")
    requests_of = result.get("inputRequests") if isinstance(result, dict) else None
    return [
        ClientRequest(key=key, method=str(each.get("method")), params=params_of(each), whole=each)
        for key, each in (requests_of.items() if isinstance(requests_of, dict) else ())
        if isinstance(each, dict)
    ]


def requires_input(answer: JsonRpcResponse) -> bool:
    """Return whether a response is an InputRequiredResult."""
    return not answer.is_error and answer.result().get("resultType") == "input_required"


def responses_to(answer: JsonRpcResponse, replies: Mapping[str, Reply] = REPLIES) -> JsonObject:
    """Return the input responses for an InputRequiredResult, except for requests of methods without a reply."""
    return {each.key: replies[each.method](each.params) for each in input_requests_of(answer) if each.method in replies}


async def request_until_input(peer: SuiteConnection, method: str, params: JsonObject) -> JsonRpcResponse:
    """Send a request for which the server requires input, and return the InputRequiredResult.

    Raises:
        NotTestable: The server requires no input.
    """
    answer = await peer.request(method, params)
    if not requires_input(answer):
        named = params.get("name", params.get("uri"))
        raise NotTestable(f"the control request failed: {method} of {named} requires no input: {answer}")
    return answer


def retried(params: JsonObject, answer: JsonRpcResponse, responses: JsonObject | None = None) -> JsonObject:
    """Return the params of the retry.

    Args:
        params: The params of the request.
        answer: Its InputRequiredResult.
        responses: The input responses; `None`: those of the suite to all input requests.

    Raises:
        NotTestable: The requestState is not a string, so that no valid request contains it.
    """
    again = {key: value for key, value in params.items() if key not in ("inputResponses", "requestState")}
    again["inputResponses"] = responses_to(answer) if responses is None else responses
    state = answer.result().get("requestState")
    if state is not None and not isinstance(state, str):
        raise NotTestable(f"the control request failed: the requestState is not a string: {answer}")
    return again if state is None else {**again, "requestState": state}


async def converse(
    server: ServerUnderTest,
    fixture: str,
    arguments: JsonObject | None = None,
    *,
    replies: Mapping[str, Reply] = REPLIES,
    peer: SuiteConnection | None = None,
    deviant: str = "",
) -> Conversation:
    """Call a tool, and respond to its client requests.

    Args:
        server: The server.
        fixture: The fixture tool.
        arguments: Arguments of the call.
        replies: Results by method. Requests of other methods are answered with an error, or not at all.
        peer: The connection; `None`: that of the check.
        deviant: The rule that the replies break on purpose.

    Raises:
        NotTestable: The server does not have the tool.
        Deviation: The call does not end.
    """
    name, given = server.tool(fixture, arguments)
    spoken = peer or server.peer
    params: JsonObject = {"name": name, "arguments": given}
    if spoken.revision.era is Era.LEGACY:
        return await _by_requests(spoken, params, replies, deviant)
    return await _by_mrtr(spoken, params, replies, deviant)


async def _by_mrtr(
    peer: SuiteConnection, params: JsonObject, replies: Mapping[str, Reply], deviant: str
) -> Conversation:
    answers: list[JsonRpcResponse] = []
    client_requests: list[ClientRequest] = []
    for _ in range(_MAX_ROUND_TRIPS):
        answers.append(await peer.request("tools/call", params, deviant=deviant if answers else ""))
        result = answers[-1].message.get("result")
        if not isinstance(result, dict) or result.get("resultType") != "input_required":
            return Conversation(answers=tuple(answers), client_requests=tuple(client_requests))
        client_requests += input_requests_of(answers[-1])
        params = retried(params, answers[-1], responses_to(answers[-1], replies))
    raise Deviation(f"a final result within {_MAX_ROUND_TRIPS} round trips", str(answers[-1]))


async def _by_requests(
    peer: SuiteConnection, params: JsonObject, replies: Mapping[str, Reply], deviant: str
) -> Conversation:
    before = dict(peer.replies)
    since = len(peer.inbox)
    peer.replies.clear()
    peer.replies.update({"ping": lambda _: {}, **replies})
    peer.deviance = deviant
    try:
        answer = await peer.request("tools/call", params)
    finally:
        peer.deviance = ""
        peer.replies.clear()
        peer.replies.update(before)
    requests_of = [each for each in peer.inbox[since:] if "id" in each and each.get("method") in REPLIES]
    client_requests = [
        ClientRequest(key=str(each["id"]), method=str(each["method"]), params=params_of(each), whole=each)
        for each in requests_of
    ]
    return Conversation(answers=(answer,), client_requests=tuple(client_requests))
