"""JSON Schema 2020-12: published unchanged, and used for validation. Numbers with a fraction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.interactive_calls import retried
from mcp_conformance.checks.probes.recorded_values import items, member
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.json_schema import flaw_by_schema
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject

_FIXTURE: Final = "json_schema_2020_12_tool"
_KEYWORDS: Final = ("$schema", "$defs", "additionalProperties", "allOf", "if", "then", "else")
_RIGHT: Final[JsonObject] = {"contactMethod": "phone", "phone": "1", "address": {"street": "Here", "city": "There"}}
_WRONG: Final[tuple[tuple[str, JsonObject], ...]] = (
    ("then", {"contactMethod": "phone", "email": "a@example.com"}),
    ("$ref into $defs", {**_RIGHT, "address": {"street": 5}}),
    ("allOf", {"contactMethod": "phone"}),
)
_ALSO_WRONG: Final[tuple[tuple[str, JsonObject], ...]] = (
    ("additionalProperties", {**_RIGHT, "conformanceUnknown": 1}),
    ("enum", {**_RIGHT, "email": "a@example.com", "contactMethod": "letter"}),
    ("else", {"contactMethod": "email", "phone": "1"}),
    ("type", {**_RIGHT, "phone": 1}),
)
_LISTS: Final = (
    ("tools", "tools/list", "tools", "name"),
    ("resources", "resources/list", "resources", "uri"),
    ("prompts", "prompts/list", "prompts", "name"),
)


def _refused(answer: JsonRpcResponse) -> bool:
    return answer.is_error or answer.result().get("isError") is True


@check(
    "schema.validates-2020-12",
    proves=("schema.dialect-validate", "schema.default-dialect-2020-12", "schema.validate-by-dialect"),
)
async def validates(server: ServerUnderTest) -> None:
    """Arguments are validated against the inputSchema by JSON Schema 2020-12: $ref, allOf, if and then."""
    name, _ = server.tool(_FIXTURE)
    control = await server.peer.request("tools/call", {"name": name, "arguments": _RIGHT})
    if _refused(control):
        raise NotTestable(f"the control request failed: {control}")
    schema = member(server.inventory.find("tools", name), "inputSchema")
    listed = schema if isinstance(schema, dict) else {}
    # The schema of a server may have fewer members.
    other = [(keyword, each) for keyword, each in _ALSO_WRONG if flaw_by_schema(each, listed) is not None]
    for keyword, arguments in (*_WRONG, *other):
        answer = await server.peer.request("tools/call", {"name": name, "arguments": arguments})
        if not _refused(answer):
            raise Deviation(f"arguments that violate {keyword!r} to be rejected", str(answer))


@check("schema.keywords-preserved", proves=("schema.server-keywords-preserved",))
async def keywords_preserved(server: ServerUnderTest) -> None:
    """An inputSchema is listed with all its keywords."""
    name, _ = server.tool(_FIXTURE)
    schema = member(server.inventory.find("tools", name), "inputSchema")
    missing = [keyword for keyword in _KEYWORDS if member(schema, keyword) is None]
    if missing:
        raise Deviation(f"{', '.join(missing)} in the inputSchema of {name}", brief(schema))


@check("schema.numbers", proves=("schema.number-fields-not-integer-only",), subject=CheckScope.RECOVERING)
async def numbers(server: ServerUnderTest) -> None:
    """A number in elicited content may have a fraction."""
    name, arguments = server.tool("test_elicitation_sep1034_defaults")
    call: JsonObject = {"name": name, "arguments": arguments}
    required = await server.peer.request("tools/call", call)
    requests = required.result().get("inputRequests")
    if not isinstance(requests, dict):
        raise NotTestable(f"the fixture requires no input: {required}")
    for score in (88, 88.5):
        content: JsonObject = {"name": "Jane", "age": 25, "score": score, "status": "inactive", "verified": False}
        responses: JsonObject = {key: {"action": "accept", "content": content} for key in requests}
        answer = await server.peer.request("tools/call", retried(call, required, responses))
        if _refused(answer) and score == 88:
            raise NotTestable(f"the control request failed: {answer}")
        if _refused(answer):
            raise Deviation(f"the number {score} to be accepted", str(answer))


@check("schema.cursor", proves=("schema.cursor-starts-after",))
async def cursor(server: ServerUnderTest) -> None:
    """A page starts after the position of the cursor."""
    paged = False
    for capability, method, name, key in _LISTS:
        if not server.inventory.has(capability):
            continue
        first = (await server.peer.request(method)).result()
        onward = first.get("nextCursor")
        if isinstance(onward, str):
            paged = True
            second = (await server.peer.request(method, {"cursor": onward})).result()
            both = {brief(member(each, key)) for each in items(first.get(name))}
            both &= {brief(member(each, key)) for each in items(second.get(name))}
            if both:
                raise Deviation(f"no entry of the first page of {method} on the second", ", ".join(sorted(both)))
    if not paged:
        raise NotApplicable("no list has more than one page")
