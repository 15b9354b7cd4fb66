"""Tools: their names, their schemas and their results."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.batches import send_batch
from mcp_conformance.checks.probes.interactive_calls import converse
from mcp_conformance.checks.probes.near_misses import INHERITED, near_misses
from mcp_conformance.checks.probes.recorded_values import RecordedMessages, member
from mcp_conformance.checks.probes.task_calls import DECLARED, ask, declares_tasks
from mcp_conformance.checks.probes.waiting_call import waiting_call
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.json_schema import flaw_by_schema, flaw_of_schema
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_NEEDS: Final = ("capability:tools",)
_UNKNOWN: Final = "conformance-does-not-exist"
_REQUIRES_INPUT: Final = "test_input_required_result_elicitation"
_RUN_AS_TASKS: Final = ("slow_compute", "conformance_task_progress")
_NEARLY_VALID: Final[tuple[JsonValue, ...]] = (0, 11, 2.5, None, [3])
"""Values that lax code takes for an integer from 1 to 10."""
_CONVERTIBLE: Final[tuple[JsonValue, ...]] = (True, "3")
"""Values that many servers convert to such an integer, as models send them. This is validation, too."""
_NUMBERS: Final = (4711, 4711, 0, -1, 1.5, 1e300)
"""Values of `conformance_structured`: one twice, as a server may keep the first result."""
_VALIDATED: Final[Mapping[str, JsonObject]] = {
    "conformance_structured": {"value": 1},
    "conformance_structured_list": {"count": 1},
    "conformance_touch_resource": {"uri": "test://watched-resource"},
    "conformance_outcome": {"key": "conformance-none"},
    "test_sampling": {"prompt": "Hello"},
    "test_elicitation": {"message": "Who are you?"},
}
"""Valid arguments of fixtures with one argument."""
_OF_ANOTHER_TYPE: Final[tuple[JsonValue, ...]] = ({"conformance": "an object"}, "a text")
"""Values that no conversion makes a number or a text, and one that none makes an object."""
_LONGEST: Final = 128
_CHARACTERS: Final = re.compile(r"[A-Za-z0-9_.-]*")


@check("tools.text", proves=("tools.call-result-shape", "schema.call-tool-result"), needs=_NEEDS)
async def text(server: ServerUnderTest) -> None:
    """A tool call is answered with content."""
    answer = await server.call("test_simple_text")
    content = answer.member("content", list)
    if not isinstance(content, list) or not content:
        raise Deviation("content", brief(content))


@check(
    "tools.input-schema",
    proves=("tools.input-schema-valid", "tools.input-schema-object", "tools.input-schema-no-params"),
    needs=("any:tools",),
)
async def input_schema(server: ServerUnderTest) -> None:
    """Every tool has an inputSchema that is a valid JSON Schema, with `type` "object" at its root."""
    for tool in server.inventory.lists["tools"]:
        schema = tool.get("inputSchema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise Deviation(f'the inputSchema of {tool.get("name")!r} to be an object of type "object"', brief(schema))
        wrong = flaw_of_schema(schema)
        if wrong is not None:
            raise Deviation(f"the inputSchema of {tool.get('name')!r} to be a valid JSON Schema", wrong)


@check("tools.name-length", proves=("tools.name-length",), needs=("any:tools",))
async def name_length(server: ServerUnderTest) -> None:
    """The names of tools have 1 to 128 characters."""
    for tool in server.inventory.lists["tools"]:
        if not 1 <= len(str(tool.get("name"))) <= _LONGEST:
            raise Deviation("a name of 1 to 128 characters", brief(tool.get("name")))


@check(
    "tools.name-characters",
    proves=("tools.name-characters", "tools.name-no-special", "tools.name-charset"),
    needs=("any:tools",),
)
async def name_characters(server: ServerUnderTest) -> None:
    """Tool names contain only ASCII letters, digits, underscores, hyphens and dots."""
    for tool in server.inventory.lists["tools"]:
        if _CHARACTERS.fullmatch(str(tool.get("name"))) is None:
            raise Deviation("a name of A-Z, a-z, 0-9, underscore, hyphen and dot", brief(tool.get("name")))


@check("tools.order", proves=("tools.list-deterministic-order",), needs=_NEEDS)
async def order(server: ServerUnderTest) -> None:
    """The order of the tools is the same each time."""
    lists = [(await server.peer.request("tools/list")).member("tools", list) for _ in range(3)]
    names = [[tool.get("name") if isinstance(tool, dict) else None for tool in _array(each)] for each in lists]
    if names[1:] != names[:-1]:
        raise Deviation(f"the tools in the order {brief([*names[0]])}", brief([*names[-1]]))


def _array(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


# --- invalid calls
# ------------------------------------------------------------------------------------------------------


def _unknown_names(server: ServerUnderTest) -> list[str]:
    """Return names that no tool has, some of them almost."""
    known = [str(each.get("name")) for each in server.inventory.lists["tools"]]
    return [_UNKNOWN, *INHERITED, *(near_misses(known[0], known) if known else ())]


@check("tools.unknown-name", proves=("tools.unknown-tool-error",), needs=_NEEDS)
async def unknown_name(server: ServerUnderTest) -> None:
    """A call of an unknown tool is answered with a JSON-RPC error, also if its name is almost that of another one."""
    await _control(server)
    for name in _unknown_names(server):
        answer = await server.peer.request("tools/call", {"name": name, "arguments": {}})
        answer.error(what=f"the unknown tool {brief(name)}")
    if declares_tasks(server):
        answer = await ask(server, "tools/call", {"name": _UNKNOWN, "arguments": {}, "task": {}})
        answer.error(what=f"the unknown tool {brief(_UNKNOWN)}, called as a task")


@check("tools.unknown-name-code", proves=("tools.unknown-tool-protocol-error",), needs=_NEEDS)
async def unknown_name_code(server: ServerUnderTest) -> None:
    """A call of an unknown tool is answered with the error -32602, also if its name is almost that of another one."""
    await _control(server)
    for name in _unknown_names(server):
        answer = await server.peer.request("tools/call", {"name": name, "arguments": {}})
        answer.error(-32602, what=f"the unknown tool {brief(name)}")
    if declares_tasks(server):
        answer = await ask(server, "tools/call", {"name": _UNKNOWN, "arguments": {}})
        answer.error(-32602, what=f"the unknown tool {brief(_UNKNOWN)} of a client that supports tasks")


@check("tools.name-case", proves=("tools.name-case-sensitive",), needs=_NEEDS)
async def name_case(server: ServerUnderTest) -> None:
    """Tool names are case-sensitive."""
    name, _ = await _control(server)
    if server.inventory.find("tools", name.swapcase()) is not None or name.swapcase() == name:
        raise NotTestable(f"the name {name!r} is the same in the other case")
    answer = await server.peer.request("tools/call", {"name": name.swapcase(), "arguments": {}})
    if not answer.is_error and answer.result().get("isError") is not True:
        raise Deviation(f"no tool under the name {name.swapcase()!r}", str(answer))


@check("tools.malformed-call", proves=("tools.malformed-request-protocol-error",), needs=_NEEDS)
async def malformed_call(server: ServerUnderTest) -> None:
    """A `tools/call` without a name, or with arguments that are not an object, gets the error -32602."""
    name, _ = await _control(server)
    # Peers that cannot omit a member send null for it, which many servers accept.
    no_objects: list[JsonValue] = [["not an object"], [], "", "{}", 0, False]
    broken: list[JsonObject] = [{"name": name, "arguments": value} for value in no_objects]
    if server.transport is Transport.STDIO:  # over HTTP the Mcp-Name header would be wrong too
        no_names: tuple[JsonValue, ...] = (7, None, [name], {"name": name})
        broken += [{"arguments": {}}, *({"name": value, "arguments": {}} for value in no_names)]
    for params in broken:
        answer = await server.peer.request("tools/call", params, deviant="invalid params of tools/call")
        answer.error(-32602, what="invalid params of tools/call")


@check(
    "tools.without-arguments",
    proves=("tools.call-arguments-optional", "schema.call-tool-result"),
    needs=_NEEDS,
)
async def without_arguments(server: ServerUnderTest) -> None:
    """A call without `arguments` is the same as one with an empty object."""
    name, arguments = await _control(server)
    if arguments:
        raise NotTestable(f"the tool {name!r}, which serves as test_simple_text, takes arguments")
    _succeeded(await server.peer.request("tools/call", {"name": name}))
    if server.revision.era is Era.LEGACY:
        return
    # A call may take another path if it becomes a task, or requires input.
    others: list[tuple[str, JsonObject]] = [(_REQUIRES_INPUT, {})]
    if declares_tasks(server):
        others += [(fixture, {"_meta": DECLARED}) for fixture in _RUN_AS_TASKS]
    for fixture, meta in others:
        other = server.manifest.find("tools", fixture)
        tool = server.inventory.find("tools", other.name)
        if tool is not None and not other.arguments and not member(tool, "inputSchema", "required"):
            _succeeded(await server.peer.request("tools/call", {"name": other.name, **meta}))


@check("tools.validates", proves=("tools.validate-inputs",), needs=_NEEDS, subject=CheckScope.RECOVERING)
async def validates(server: ServerUnderTest) -> None:
    """Arguments that violate the inputSchema, and cannot be converted, are rejected: an error, or isError true.

    Also in a batch, and while another call is in progress.
    """
    for answer in await _invalid(server, _NEARLY_VALID):
        _rejected(answer, "invalid arguments")
    for fixture, valid_arguments in _VALIDATED.items():
        tool = server.inventory.find("tools", server.manifest.find("tools", fixture).name)
        schema = member(tool, "inputSchema")
        if isinstance(schema, dict) and server.manifest.find("tools", fixture).arguments is None:
            for arguments in _unfit(schema, valid_arguments):
                _rejected((await converse(server, fixture, arguments)).answer, f"{brief(arguments)} of {fixture}")
    if server.revision.batching:
        await _require_validation_in_batch(server)
    with suppress(NotTestable):
        async with waiting_call(server):
            for answer in await _invalid(server, ()):
                _rejected(answer, "invalid arguments while another call is in progress")


async def _require_validation_in_batch(server: ServerUnderTest) -> None:
    """Require that invalid arguments are rejected in a batch, next to a call with valid ones."""
    name, valid = server.tool("conformance_constrained", {"count": 3})
    invalid: JsonObject = {"count": "three"}
    calls: list[JsonValue] = [
        server.peer.message("tools/call", {"name": name, "arguments": arguments}, id=id)
        for id, arguments in (("valid in a batch", valid), ("invalid in a batch", invalid))
    ]
    answers: list[JsonObject] = []
    with suppress(Deviation):  # the checks of batches report a server that does not answer them
        answers = await send_batch(server.peer, calls, len(calls))
    accepted = [each for each in answers if "result" in each and member(each, "result", "isError") is not True]
    wrong = [each for each in accepted if each.get("id") == "invalid in a batch"]
    # A server that accepts neither, or does not support batches, was tested with single calls.
    if wrong and len(accepted) > len(wrong):
        raise Deviation("an error, or a result with isError true, for invalid arguments in a batch", brief(wrong[0]))


@check("tools.invalid-arguments-error", proves=("tools.input-validation-protocol-error",), needs=_NEEDS)
async def invalid_arguments_error(server: ServerUnderTest) -> None:
    """Arguments that violate the inputSchema get the error -32602, or a result with isError true."""
    for answer in [*await _invalid(server, (*_NEARLY_VALID, *_CONVERTIBLE)), *await _invalid_beside_output(server)]:
        # The same page lists "invalid arguments" under errors and "invalid input data" under results.
        if answer.is_error or answer.result().get("isError") is not True:
            answer.error(-32602, what="arguments that violate the inputSchema")


@check(
    "tools.invalid-arguments-result",
    proves=("tools.input-validation-execution-error", "tools.input-validation-is-error"),
    needs=_NEEDS,
)
async def invalid_arguments_result(server: ServerUnderTest) -> None:
    """Arguments that violate the inputSchema get a result with isError true and a text, also if the tool has an outputSchema."""
    for answer in [*await _invalid(server, (*_NEARLY_VALID, *_CONVERTIBLE)), *await _invalid_beside_output(server)]:
        _failed(answer, "arguments that violate the inputSchema")


def _rejected(answer: JsonRpcResponse, what: str) -> None:
    if not answer.is_error and answer.result().get("isError") is not True:
        raise Deviation(f"an error, or a result with isError true, for {what}", str(answer))


def _unfit(schema: JsonObject, valid: JsonObject) -> list[JsonObject]:
    """Return arguments of which one is missing, or has another type, if the inputSchema does not permit that."""
    if flaw_by_schema(valid, schema) is not None:
        return []
    changed: list[JsonObject] = [{**valid, name: value} for name in valid for value in _OF_ANOTHER_TYPE]
    return [each for each in ({}, *changed) if flaw_by_schema(each, schema) is not None]


async def _control(server: ServerUnderTest) -> tuple[str, JsonObject]:
    """Call a tool, require success, and return its name and arguments."""
    name, arguments = server.tool("test_simple_text")
    answer = await server.peer.request("tools/call", {"name": name, "arguments": arguments})
    if answer.is_error or answer.result().get("isError") is True:
        raise NotTestable(f"the control request failed: {answer}")
    return name, arguments


async def _invalid(server: ServerUnderTest, nearly_valid: Sequence[JsonValue]) -> list[JsonRpcResponse]:
    """Return the responses to invalid arguments, some of them with nearly valid values, after a call with valid ones."""
    name, valid_arguments = server.tool("conformance_constrained", {"count": 3})
    control = await server.peer.request("tools/call", {"name": name, "arguments": valid_arguments})
    if control.is_error or control.result().get("isError") is True:
        raise NotTestable(f"the control request failed: {control}")
    wrong: list[JsonObject] = [{}, {"count": "three"}, {"count": 99}]
    schema = member(server.inventory.find("tools", name), "inputSchema")
    if isinstance(schema, dict):
        nearly: tuple[JsonObject, ...] = tuple({"count": count} for count in nearly_valid)
        wrong += [each for each in nearly if flaw_by_schema(each, schema) is not None]
    return [await server.peer.request("tools/call", {"name": name, "arguments": each}) for each in wrong]


async def _invalid_beside_output(server: ServerUnderTest) -> list[JsonRpcResponse]:
    """Return the responses to invalid arguments of a tool with an outputSchema, to which a failure does not need to conform."""
    fixture = server.manifest.find("tools", "conformance_structured")
    tool = server.inventory.find("tools", fixture.name)
    accepted = member(tool, "inputSchema")
    if fixture.arguments is not None or not isinstance(accepted, dict) or member(tool, "outputSchema") is None:
        return []
    wrong = _unfit(accepted, _VALIDATED["conformance_structured"])
    return [await server.peer.request("tools/call", {"name": fixture.name, "arguments": each}) for each in wrong]


def _succeeded(answer: JsonRpcResponse) -> None:
    if answer.result().get("isError") is True:
        raise Deviation("a result without isError", str(answer))


def _failed(answer: JsonRpcResponse, what: str) -> None:
    content = answer.member("content", list)
    if answer.result().get("isError") is not True:
        raise Deviation(f"isError true for {what}", str(answer))
    if not any(isinstance(each, dict) and each.get("text") for each in _array(content)):
        raise Deviation(f"a text that explains the error, for {what}", str(answer))


@check("tools.failure", proves=("tools.execution-error-in-result", "tools.execution-error-is-error"), needs=_NEEDS)
async def failure(server: ServerUnderTest) -> None:
    """A tool that fails returns a result with isError true and a text."""
    _failed(await server.call("test_error_handling"), "a tool that fails")


# --- results
# ------------------------------------------------------------------------------------------------------------


@check("tools.structured", proves=("tools.output-schema-conform", "tools.output-schema-conformance"), needs=_NEEDS)
async def structured(server: ServerUnderTest) -> None:
    """A tool with an outputSchema returns structuredContent that conforms to it."""
    fixture = "conformance_structured"
    name, _ = server.tool(fixture)
    tool = server.inventory.find("tools", name)
    schema, accepted = member(tool, "outputSchema"), member(tool, "inputSchema")
    if not isinstance(schema, dict):
        raise NotTestable(f"the fixture tool {fixture!r} has no outputSchema")
    for number in _NUMBERS:
        _, given = server.tool(fixture, {"value": number})
        if isinstance(accepted, dict) and flaw_by_schema(given, accepted) is not None:
            continue
        answer = await server.peer.request("tools/call", {"name": name, "arguments": given})
        _succeeded(answer)
        wrong = flaw_by_schema(answer.member("structuredContent"), schema)
        if wrong is not None:
            raise Deviation(f"structuredContent that conforms to the outputSchema of {name!r}", wrong)


@check(
    "tools.structured-always",
    proves=("tools.output-schema-conform", "tools.output-schema-conformance"),
    subject=CheckScope.EVIDENCE,
)
async def structured_always(server: ServerUnderTest) -> None:
    """Each recorded result of a tool with an outputSchema, unless it is an error, has structuredContent that conforms to it."""
    found = 0
    for each in RecordedMessages(server.evidence).exchanges:
        schema = member(server.inventory.find("tools", str(member(each.request, "params", "name"))), "outputSchema")
        if each.method != "tools/call" or not each.complete or not isinstance(schema, dict):
            continue
        if member(each.result, "isError") is not True and isinstance(each.result, dict):
            found += 1
            value = each.result.get("structuredContent")
            wrong = flaw_by_schema(value, schema) if "structuredContent" in each.result else "it is missing"
            if wrong is not None:
                raise Deviation(
                    "structuredContent that conforms to the outputSchema", f"{wrong}, in {brief(each.result)}"
                )
    if not found:
        raise NotApplicable("no recorded result is of a tool with an outputSchema")


@check(
    "tools.structured-also-text",
    proves=("tools.structured-also-text", "tools.structured-text-fallback"),
    needs=_NEEDS,
)
async def structured_also_text(server: ServerUnderTest) -> None:
    """A result with structuredContent also has its JSON as text."""
    for value in (4711, 0, -1.5):
        _same_as_text(await server.call("conformance_structured", {"value": value}))


@check("tools.structured-array", proves=("tools.structured-nonobject-text",), needs=_NEEDS)
async def structured_array(server: ServerUnderTest) -> None:
    """A result whose structuredContent is an array also has its JSON as text, even if the array is empty."""
    for count in (3, 0, 1):
        answer = await server.call("conformance_structured_list", {"count": count})
        if isinstance(answer.result().get("structuredContent"), list):
            _same_as_text(answer)
        elif count == 3:
            raise NotTestable("the fixture tool 'conformance_structured_list' returns no array")


def _same_as_text(answer: JsonRpcResponse) -> None:
    value = answer.member("structuredContent")
    for block in _array(answer.member("content", list)):
        text = block.get("text") if isinstance(block, dict) else None
        try:
            if isinstance(text, str) and json.loads(text) == value:
                return
        except ValueError:
            continue
    raise Deviation(f"a text with the JSON {brief(value)}", str(answer))


@check(
    "tools.embedded-resource-capability",
    proves=("tools.embedded-resource-capability", "tools.embedded-resources-capability"),
    needs=_NEEDS,
)
async def embedded_resource_capability(server: ServerUnderTest) -> None:
    """A server whose tools embed resources declares the capability `resources`."""
    answer = await server.call("test_embedded_resource")
    blocks = _array(answer.member("content", list))
    if not any(isinstance(each, dict) and each.get("type") == "resource" for each in blocks):
        raise NotTestable("the fixture tool 'test_embedded_resource' embeds no resource")
    if not server.inventory.has("resources"):
        raise Deviation("the capability 'resources', as a tool embeds one", brief(server.inventory.capabilities))
