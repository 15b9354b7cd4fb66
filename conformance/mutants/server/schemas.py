"""A tool of a raw server with all keywords of JSON Schema 2020-12 in its input schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.server.protocol import LEGACY, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.server.fault import InboundRequest

__all__ = ["SCHEMA_CALLS", "SCHEMA_TOOLS"]

_NAME: Final = "json_schema_2020_12_tool"
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
    }
]


def _good(arguments: JsonObject) -> bool:
    """Return whether arguments are valid for the schema, as far as the checks need it."""
    address = arguments.get("address", {})
    wanted = "phone" if arguments.get("contactMethod") == "phone" else "email"
    written = isinstance(address, dict) and all(isinstance(each, str) for each in address.values())
    return written and wanted in arguments


def _call(inbound: InboundRequest, arguments: JsonObject) -> JsonObject:
    if inbound.server.fault.validated(good=_good(arguments)):
        return {"content": [{"type": "text", "text": "taken"}]}
    if inbound.revision in LEGACY[:3]:
        raise RpcError(-32602, "the arguments are invalid for the schema")
    return {"content": [{"type": "text", "text": "invalid address"}], "isError": True}


SCHEMA_CALLS: Final[Mapping[str, Callable[[InboundRequest, JsonObject], JsonObject]]] = {_NAME: _call}
