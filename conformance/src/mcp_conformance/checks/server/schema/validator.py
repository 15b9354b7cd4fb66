"""The validator of a server: its verdicts, unknown dialects, and references that lead out of a schema.

A client sends no schemas. The fixture `conformance_validate` validates a value with a schema from its arguments, by the
means that the server uses for its own schemas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.local_services import require_local
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.http_server import open_http_server

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_conformance.wire.http_server import ServerExchange
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_NEEDS: Final = ("capability:tools",)
_FIXTURE: Final = "conformance_validate"
_UNKNOWN: Final[JsonObject] = {"$schema": "https://json-schema.example/conformance/unknown-dialect"}
_CONTROL: Final = ((1, "valid"), ("a text", "invalid"))
_OPEN: Final[JsonObject] = {"properties": {"a": {"type": "integer"}}}
_CLOSED: Final[JsonObject] = {**_OPEN, "additionalProperties": False}
_REFERRING: Final[JsonObject] = {"$defs": {"number": {"type": "integer"}}, "items": {"$ref": "#/$defs/number"}}
_PREFIX: Final[JsonObject] = {"prefixItems": [{"type": "integer"}], "items": False}
_VERDICTS: Final[tuple[tuple[JsonObject, tuple[JsonValue, ...], tuple[JsonValue, ...]], ...]] = (
    ({"type": "integer"}, (0, -1, 3.0), (2.5, True, "3", None, [3])),
    ({"type": "number"}, (0, 1.5), (False, "1.5")),
    ({"type": "string"}, ("", "5"), (5, None)),
    ({"type": "boolean"}, (False,), (0, "false")),
    ({"type": "array"}, ([],), ({}, "")),
    ({"type": "object"}, ({},), ([], None)),
    ({"type": ["integer", "null"]}, (None, 1), ("", False)),
    ({"minimum": 1, "exclusiveMaximum": 10}, (1, 9.5, "0"), (0, 10)),
    ({"enum": [0, "a"]}, (0, "a"), (False, "A", "")),
    ({"const": False}, (False,), (0, None)),
    ({"required": ["a"]}, ({"a": None}, []), ({}, {"A": 1})),
    (_OPEN, ({}, {"a": 1, "b": 2}), ({"a": "1"},)),
    (_CLOSED, ({"a": 1},), ({"a": 1, "b": 2},)),
    (_REFERRING, ([1, 2], []), ([1, "2"],)),
    (_PREFIX, ([1],), (["1"], [1, 2])),
    ({"dependentRequired": {"a": ["b"]}}, ({"b": 1},), ({"a": 1},)),
    ({"dependentSchemas": {"a": {"required": ["b"]}}}, ({"b": 1},), ({"a": 1},)),
    ({"allOf": [_OPEN], "unevaluatedProperties": False}, ({"a": 1},), ({"a": 1, "b": 2},)),
    ({"allOf": [{"prefixItems": [True]}], "unevaluatedItems": False}, ([1],), ([1, 2],)),
    ({"contains": {"const": 1}, "minContains": 2}, ([1, 1],), ([1, 2],)),
    ({"$defs": {"a": {"$anchor": "number", "type": "integer"}}, "$ref": "#number"}, (1,), ("1",)),
)
"""Schemas in the dialect 2020-12, with values that are valid and values that are not."""
_DRAFT_07: Final = "http://json-schema.org/draft-07/schema#"
_OLD_VERDICTS: Final[tuple[tuple[JsonObject, tuple[JsonValue, ...], tuple[JsonValue, ...]], ...]] = (
    ({"items": [{"type": "integer"}], "additionalItems": False}, ([1], []), (["a"], [1, 2])),
    ({"dependencies": {"a": ["b"]}}, ({"b": 1},), ({"a": 1},)),
    # Later keywords do not exist in that dialect.
    ({"prefixItems": [{"type": "integer"}]}, (["a"],), ()),
    ({"dependentRequired": {"a": ["b"]}}, ({"a": 1},), ()),
)
"""Schemas that mean something else in draft-07 than in 2020-12, with values that are valid in draft-07 and values that are not."""


async def _validate(server: ServerUnderTest, schema: JsonObject, value: JsonValue) -> JsonRpcResponse:
    return await server.call(_FIXTURE, {"schema": schema, "value": value})


def _outcome(answer: JsonRpcResponse) -> str | None:
    """Return the text of a result; `None` for an error."""
    if answer.is_error or answer.result().get("isError") is True:
        return None
    content = answer.result().get("content")
    blocks = content if isinstance(content, list) else []
    return "".join(str(each.get("text", "")) for each in blocks if isinstance(each, dict)).strip()


async def _require_validator(server: ServerUnderTest) -> None:
    """Require that the fixture validates.

    Raises:
        NotTestable: It is missing, or its outcome for a simple schema is wrong.
    """
    for value, expected in _CONTROL:
        answer = await _validate(server, {"type": "integer"}, value)
        if _outcome(answer) != expected:
            raise NotTestable(f"the control request failed: {_FIXTURE} does not return {expected!r}: {answer}")


async def _with_references(server: ServerUnderTest) -> tuple[list[JsonRpcResponse], list[str]]:
    """Validate with references to a server of the suite.

    Returns:
        The responses, and the requests at the server.
    """
    require_local(server)
    await _require_validator(server)
    fetches: list[str] = []

    async def serve(exchange: ServerExchange) -> None:
        fetches.append(f"{exchange.method} {exchange.target}")
        await exchange.respond(200, [("Content-Type", "application/schema+json")], b'{"type":"integer"}')

    async with open_http_server(serve) as port:
        at = f"http://localhost:{port}"
        # A relative reference leads out of the schema too: it is relative to the nearest `$id`.
        properties: tuple[tuple[JsonObject, JsonObject], ...] = (
            ({}, {"$ref": f"{at}/integer.json"}),
            ({}, {"$id": f"{at}/schemas/count.json", "$ref": "../integer.json"}),
            ({"$id": f"{at}/schemas/root.json"}, {"$ref": "integer.json"}),
            ({"$id": f"{at}/schemas/root.json"}, {"$ref": "/integer.json#/$defs/number"}),
        )
        answers = [
            await _validate(server, {**root, "type": "object", "properties": {"count": count}}, {"count": 1})
            for root, count in properties
        ]
        await server.peer.fence()
    return answers, fetches


@check(
    "schema.verdicts",
    proves=("schema.dialect-validate", "schema.default-dialect-2020-12", "schema.validate-by-dialect"),
    needs=_NEEDS,
)
async def verdicts(server: ServerUnderTest) -> None:
    """Values are valid or invalid as JSON Schema 2020-12 says, or draft-07 if the schema names it and the server knows it."""
    await _require_validator(server)
    for schema, valid, invalid in _OLD_VERDICTS:
        for values, expected in ((valid, "valid"), (invalid, "invalid")):
            for value in values:
                answer = await _validate(server, {"$schema": _DRAFT_07, **schema}, value)
                # A server has to support the dialect 2020-12 only.
                if _outcome(answer) not in (expected, None):
                    raise Deviation(
                        f"an error, or {brief(value)} to be {expected} by the draft-07 schema {brief(schema)}",
                        str(answer),
                    )
    for schema, valid, invalid in _VERDICTS:
        for values, expected in ((valid, "valid"), (invalid, "invalid")):
            for value in values:
                answer = await _validate(server, schema, value)
                if _outcome(answer) != expected:
                    raise Deviation(f"{brief(value)} to be {expected} by the schema {brief(schema)}", str(answer))


@check(
    "schema.unknown-dialect",
    proves=("schema.dialect-unsupported-error", "schema.unsupported-dialect-error"),
    needs=_NEEDS,
)
async def unknown_dialect(server: ServerUnderTest) -> None:
    """A schema in an unknown dialect leads to an error, neither to a verdict nor to a crash."""
    await _require_validator(server)
    answer = await _validate(server, {**_UNKNOWN, "type": "integer"}, 1)
    if _outcome(answer) is not None:
        raise Deviation("an error for a schema in an unknown dialect", str(answer))
    await server.peer.fence()


@check(
    "schema.no-network-reference",
    proves=("schema.no-network-ref", "schema.network-ref-opt-in-off"),
    needs=_NEEDS,
)
async def no_network_reference(server: ServerUnderTest) -> None:
    """A `$ref` to a URL is not fetched while a value is validated."""
    _, fetches = await _with_references(server)
    if fetches:
        raise Deviation("no request for the schema of a reference", ", ".join(fetches))


@check("schema.unresolved-reference", proves=("schema.unresolved-ref-rejected",), needs=_NEEDS)
async def unresolved_reference(server: ServerUnderTest) -> None:
    """A schema whose `$ref` is not resolved leads to an error: it does not permit everything."""
    answers, fetches = await _with_references(server)
    if fetches:
        raise NotTestable("the server resolves the reference")
    for answer in answers:
        if _outcome(answer) is not None:
            raise Deviation("an error for a schema with an unresolved reference", str(answer))
