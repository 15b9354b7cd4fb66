"""Client requests of the server: their form, and the capabilities that they need."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.interactive_calls import REPLIES, converse
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.checks.probes.interactive_calls import ClientRequest, Conversation
    from mcp_conformance.drivers.server.suite_connection import Reply
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_NEEDS: Final = ("capability:tools",)
_ROOTS: Final = "test_input_required_result_list_roots"
_SEVERAL: Final = "test_input_required_result_multiple_inputs"
_SAMPLES: Final = "conformance_sample_with_tools"
_WITH_TOOLS: Final[JsonObject] = {"sampling": {"tools": {}}}
_WRONG_SAMPLES: Final[tuple[JsonObject, ...]] = ({"role": "nobody", "content": 7}, {"content": 7})
"""Invalid members of a sampling result."""
_LOOPS: Final = 40
"""Number of tool calls by the model of the suite."""


async def _client_requests(
    server: ServerUnderTest,
    fixture: str,
    method: str,
    *,
    arguments: JsonObject | None = None,
    replies: Mapping[str, Reply] = REPLIES,
) -> list[ClientRequest]:
    """Return the client requests of a method that a tool sends.

    Raises:
        NotTestable: The tool sends none.
    """
    found = (await converse(server, fixture, arguments, replies=replies)).requests_of(method)
    if not found:
        raise NotTestable(f"the control request failed: {fixture} sends no {method}")
    return found


def _always(result: JsonObject) -> Reply:
    """Return a reply that does not depend on the params."""
    return lambda _: result


async def _with(
    server: ServerUnderTest, capabilities: JsonObject, fixture: str, replies: Mapping[str, Reply] = REPLIES
) -> Conversation:
    """Call a tool as a client with the given capabilities."""
    server.tool(fixture)
    async with server.share(capabilities=capabilities, evident=True) as peer:
        return await converse(server, fixture, replies=replies, peer=peer)


def _objects(value: JsonValue) -> list[JsonObject]:
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)]


# --- roots -----------------------------------------------------------------------------------------------------------


@check("roots.request-shape", proves=("roots.request-shape",), needs=_NEEDS)
async def roots_request_shape(server: ServerUnderTest) -> None:
    """A roots/list request has no params other than _meta."""
    requested = await _client_requests(server, _ROOTS, "roots/list")
    with suppress(NotTestable):
        requested += await _client_requests(server, _SEVERAL, "roots/list")
    for each in requested:
        if set(each.whole) - {"method", "params"} or set(each.params) - {"_meta"}:
            raise Deviation('{"method": "roots/list"}', brief(each.whole))


@check(
    "roots.not-without-capability",
    proves=("roots.server-check-capability", "roots.server-checks-capability"),
    needs=_NEEDS,
)
async def roots_not_without_capability(server: ServerUnderTest) -> None:
    """A client that does not declare roots gets no roots/list request."""
    if not (await _with(server, {"roots": {}}, _ROOTS)).requests_of("roots/list"):
        raise NotTestable(f"the control request failed: {_ROOTS} sends no roots/list")
    others: JsonObject = {"sampling": {}}
    found = (await _with(server, others, _ROOTS)).requests_of("roots/list")
    if found:
        raise Deviation("no roots/list request to a client without roots", brief(found[0].whole))


# --- sampling --------------------------------------------------------------------------------------------------------


@check("sampling.shape", proves=("sampling.request-shape", "sampling.message-shape"), needs=_NEEDS)
async def sampling_shape(server: ServerUnderTest) -> None:
    """A sampling request has maxTokens and messages, each with role and content."""
    for each in await _client_requests(
        server, "test_sampling", "sampling/createMessage", arguments={"prompt": "Hello"}
    ):
        wrong = flaw(each.params, "CreateMessageRequestParams", server.revision)
        if wrong is not None:
            raise Deviation("params of sampling/createMessage", wrong)


@check(
    "sampling.no-context",
    proves=(
        "sampling.avoid-include-context",
        "sampling.include-context-needs-capability",
        "sampling.include-context-deprecated",
    ),
    needs=_NEEDS,
)
async def no_context(server: ServerUnderTest) -> None:
    """A sampling request does not ask for the context of servers, which the client does not declare."""
    for each in await _client_requests(
        server, "test_sampling", "sampling/createMessage", arguments={"prompt": "Hello"}
    ):
        if each.params.get("includeContext") not in (None, "none"):
            raise Deviation("no includeContext", brief(each.params))


@check(
    "sampling.content-array",
    proves=("schema.sampling-content-kinds-2025-11-25", "sampling.message-shape"),
    needs=_NEEDS,
)
async def content_array(server: ServerUnderTest) -> None:
    """The content of a sampling result may be an array."""
    single = (await converse(server, "test_sampling", {"prompt": "Hello"})).answer
    if single.is_error or single.result().get("isError") is True:
        raise NotTestable(f"the control request failed: {single}")
    blocks: list[JsonValue] = [{"type": "text", "text": "A text."}, {"type": "text", "text": "Another."}]
    for content in (blocks[:1], blocks):
        sampled: JsonObject = {"role": "assistant", "content": content, "model": "test-model"}
        replies: dict[str, Reply] = {**REPLIES, "sampling/createMessage": _always(sampled)}
        answer = (await converse(server, "test_sampling", {"prompt": "Hello"}, replies=replies)).answer
        if answer.is_error or answer.result().get("isError") is True:
            raise Deviation(f"a result for the sampled content {brief(content)}", str(answer))


@check("sampling.validates", proves=("sampling.validate-content",), needs=_NEEDS)
async def sampling_validates(server: ServerUnderTest) -> None:
    """An invalid sampling result is not accepted: the call fails or asks again, and the server keeps running."""
    await _client_requests(server, "test_sampling", "sampling/createMessage", arguments={"prompt": "Hello"})
    valid = REPLIES["sampling/createMessage"]({})
    for wrong in _WRONG_SAMPLES:
        bad: dict[str, Reply] = {**REPLIES, "sampling/createMessage": _always({**valid, **wrong})}
        await _check_rejected(server, "test_sampling", {"prompt": "Hello"}, bad, f"a message with {brief(wrong)}")


async def _check_rejected(
    server: ServerUnderTest, fixture: str, arguments: JsonObject, replies: Mapping[str, Reply], what: str
) -> None:
    answer = (await converse(server, fixture, arguments, replies=replies, deviant=what)).answer
    if not answer.is_error and answer.result().get("isError") is not True:
        raise Deviation(f"a failure for {what}", str(answer))
    await server.peer.fence()


def _model(loops: int) -> Mapping[str, Reply]:
    """Return a model that a number of times calls a tool, and then answers.

    The first call is alone, as an object. Each message after it has two calls, and the first one of them also a text.
    """
    left = loops

    def call(number: int) -> JsonObject:
        return {
            "type": "tool_use",
            "id": f"call-{left}-{number}",
            "name": "conformance_lookup",
            "input": {},
            "_meta": {"com.example/kept": left},
        }

    def sample(_: JsonObject) -> JsonObject:
        nonlocal left
        left -= 1
        if left < 0:
            return {"role": "assistant", "content": {"type": "text", "text": "Done."}, "model": "test-model"}
        text: list[JsonValue] = [{"type": "text", "text": "Let me see."}] if left == loops - 2 else []
        content: JsonValue = call(0) if left == loops - 1 else [*text, call(0), call(1)]
        return {"role": "assistant", "content": content, "model": "test-model", "stopReason": "toolUse"}

    return {**REPLIES, "sampling/createMessage": sample}


async def _loop(server: ServerUnderTest, loops: int = 2) -> list[ClientRequest]:
    """Return the sampling requests of a loop with a model that calls tools."""
    requests = (await _with(server, _WITH_TOOLS, _SAMPLES, _model(loops))).requests_of("sampling/createMessage")
    if not requests or "tools" not in requests[0].params:
        raise NotTestable(f"the control request failed: {_SAMPLES} offers no tools to the model")
    return requests


@check(
    "sampling.no-tools-without-capability",
    proves=("sampling.no-tools-without-capability", "sampling.tools-only-if-declared"),
    needs=_NEEDS,
)
async def no_tools_without_capability(server: ServerUnderTest) -> None:
    """A client that does not declare sampling.tools gets no sampling request with tools."""
    await _loop(server)
    declared: tuple[JsonObject, ...] = ({"sampling": {}}, {"sampling": {"context": {}}})
    for own in declared:
        for each in (await _with(server, own, _SAMPLES)).requests_of("sampling/createMessage"):
            if "tools" in each.params or "toolChoice" in each.params:
                raise Deviation("no tools and no toolChoice", brief(each.params))


@check("sampling.tool-choice", proves=("sampling.tool-choice-modes",), needs=_NEEDS)
async def tool_choice(server: ServerUnderTest) -> None:
    """The toolChoice is auto, required or none."""
    for each in await _loop(server):
        choice = each.params.get("toolChoice")
        if choice is not None and (not isinstance(choice, dict) or choice.get("mode", "auto") not in _MODES):
            raise Deviation("auto, required or none", brief(choice))


_MODES: Final = ("auto", "required", "none")


@check("sampling.priorities", proves=("sampling.priorities-range",), needs=_NEEDS)
async def priorities(server: ServerUnderTest) -> None:
    """The priorities of modelPreferences are numbers from 0 to 1."""
    count = 0
    for each in await _loop(server):
        preferences = each.params.get("modelPreferences")
        for name, value in (preferences if isinstance(preferences, dict) else {}).items():
            if name.endswith("Priority"):
                count += 1
                if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                    raise Deviation(f"{name} from 0 to 1", brief(value))
    if not count:
        raise NotTestable(f"{_SAMPLES} sends no priorities")


async def _histories(server: ServerUnderTest) -> list[list[JsonObject]]:
    """Return the messages of each sampling request of a loop, which contain tool calls and their results."""
    histories = [_objects(each.params.get("messages")) for each in await _loop(server)]
    if not any("tool_use" in _kinds(each) for each in histories[-1]):
        raise NotTestable(f"{_SAMPLES} does not send the tool calls back to the model")
    return histories


async def _history(server: ServerUnderTest) -> list[JsonObject]:
    """Return the messages of all sampling requests of a loop."""
    return [message for messages in await _histories(server) for message in messages]


def _kinds(message: JsonObject) -> list[object]:
    return [block.get("type") for block in _objects(message.get("content"))]


@check(
    "sampling.results-alone",
    proves=("sampling.tool-results-only", "sampling.tool-result-only"),
    needs=_NEEDS,
)
async def results_alone(server: ServerUnderTest) -> None:
    """A message with tool results contains nothing else."""
    for message in await _history(server):
        if "tool_result" in _kinds(message) and set(_kinds(message)) != {"tool_result"}:
            raise Deviation("a message with tool results only", brief(message))


@check(
    "sampling.calls-and-results",
    proves=("sampling.tool-use-balance", "sampling.tool-result-id-match"),
    needs=_NEEDS,
)
async def calls_and_results(server: ServerUnderTest) -> None:
    """In each sampling request, a message with tool calls is followed by one result of each, also of two calls in one message."""
    for messages in await _histories(server):
        for message, following in zip(messages, [*messages[1:], {}], strict=True):
            blocks = _objects(message.get("content"))
            calls = sorted(str(block.get("id")) for block in blocks if block.get("type") == "tool_use")
            blocks = _objects(following.get("content"))
            results = sorted(str(block.get("toolUseId")) for block in blocks if block.get("type") == "tool_result")
            if calls != results:
                raise Deviation(f"results of the calls {brief([*calls])}", brief([*results]))


@check("sampling.roles", proves=("sampling.tool-content-roles",), needs=_NEEDS)
async def roles(server: ServerUnderTest) -> None:
    """Tool calls are in assistant messages, and tool results in user messages."""
    for message in await _history(server):
        for kind, role in (("tool_use", "assistant"), ("tool_result", "user")):
            if kind in _kinds(message) and message.get("role") != role:
                raise Deviation(f"{kind} in a message of the {role}", brief(message))


@check("sampling.keeps-meta", proves=("sampling.preserve-meta",), needs=_NEEDS)
async def keeps_meta(server: ServerUnderTest) -> None:
    """The server keeps the `_meta` of a tool call when it repeats the call in a later sampling request."""
    for message in await _history(server):
        for block in _objects(message.get("content")):
            meta = block.get("_meta")
            if block.get("type") == "tool_use" and (not isinstance(meta, dict) or "com.example/kept" not in meta):
                raise Deviation("the _meta of the tool call", brief(block))


@check(
    "sampling.ends",
    proves=("sampling.iteration-limit", "sampling.iteration-limits"),
    needs=_NEEDS,
)
async def ends(server: ServerUnderTest) -> None:
    """The server limits the number of iterations with a model that always calls tools."""
    try:
        requests = await _loop(server, _LOOPS)
    except Deviation as deviation:
        raise Deviation("an end of the loop", deviation.observed) from deviation
    if len(requests) >= _LOOPS:
        raise Deviation(
            f"an end of the loop before the {_LOOPS}th tool call of the model", f"{len(requests)} sampling requests"
        )
