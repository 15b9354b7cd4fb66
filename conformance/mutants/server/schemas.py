"""Tools of a raw server about JSON Schema: one with all keywords of 2020-12, and one that validates a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.server.protocol import LEGACY, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

__all__ = ["SCHEMA_CALLS", "SCHEMA_TOOLS"]

_NAME: Final = "json_schema_2020_12_tool"
_VALIDATE: Final = "conformance_validate"
_STRING: Final[JsonObject] = {"type": "string"}

SCHEMA_TOOLS: Final[list[JsonObject]] = [
    {
        "name": _NAME,
        "description": "Takes a postal address",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": {"street": _STRING, "city": _STRING},
                }
            },
            "properties": {
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"enum": ["phone", "email"]},
                "phone": _STRING,
                "email": _STRING,
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": False,
        },
    },
    {
        "name": _VALIDATE,
        "description": "Validates a value",
        "inputSchema": {"type": "object", "properties": {"schema": {"type": "object"}, "value": {}}},
    },
]


def _good(arguments: JsonObject) -> bool:
    """Return whether arguments are valid for the schema, as far as the checks need it."""
    address = arguments.get("address", {})
    wanted = "phone" if arguments.get("contactMethod") == "phone" else "email"
    written = isinstance(address, dict) and all(isinstance(each, str) for each in address.values())
    method = arguments.get("contactMethod", "email")
    known = arguments.keys() <= {"address", "contactMethod", "phone", "email"} and method in ("phone", "email")
    return written and known and wanted in arguments


def _call(inbound: InboundRequest, arguments: JsonObject) -> JsonObject:
    if inbound.server.fault.validated(good=_good(arguments)):
        return {"content": [{"type": "text", "text": "taken"}]}
    if inbound.revision in LEGACY[:3]:
        raise RpcError(-32602, "the arguments are invalid for the schema")
    return {"content": [{"type": "text", "text": "invalid address"}], "isError": True}


def _validate(inbound: InboundRequest, arguments: JsonObject) -> JsonObject:
    from jsonschema_rs import ValidationError, validator_for  # lazy: most runs of a server validate nothing

    def refuse(uri: str) -> JsonValue:
        raise ValueError(f"{uri} is not fetched")

    schema, fault = arguments.get("schema"), inbound.server.fault
    try:
        validator = validator_for(schema if isinstance(schema, dict) else {}, retriever=refuse)
    except ValidationError as error:
        problem = "unknown dialect" if "$schema" in str(schema) else "external reference"
        if fault.unusable_schema(problem, str(schema)):
            return {"content": [{"type": "text", "text": f"{problem}: {error.message}"}], "isError": True}
        return {"content": [{"type": "text", "text": "valid"}]}
    value = arguments.get("value")
    good = fault.valid(schema, value, good=validator.is_valid(value))
    return {"content": [{"type": "text", "text": "valid" if good else "invalid"}]}


SCHEMA_CALLS: Final[Mapping[str, Callable[[InboundRequest, JsonObject], JsonObject]]] = {
    _NAME: _call,
    _VALIDATE: _validate,
}
