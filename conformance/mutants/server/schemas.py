"""A tool of a raw server whose arguments have a schema with all that JSON Schema 2020-12 brings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.server.protocol import LEGACY, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.server.fault import Turn

__all__ = ["SCHEMA_CALLS", "SCHEMA_TOOLS"]

_NAME: Final = "json_schema_2020_12_tool"
_STRING: Final[JsonObject] = {"type": "string"}

SCHEMA_TOOLS: Final[list[JsonObject]] = [
    {
        "name": _NAME,
        "description": "Takes the address of somebody",
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
    """Whether arguments are as the schema wants them: as far as anybody tries."""
    address = arguments.get("address", {})
    wanted = "phone" if arguments.get("contactMethod") == "phone" else "email"
    written = isinstance(address, dict) and all(isinstance(each, str) for each in address.values())
    return written and wanted in arguments


def _call(turn: Turn, arguments: JsonObject) -> JsonObject:
    if turn.server.fault.validated(good=_good(arguments)):
        return {"content": [{"type": "text", "text": "taken"}]}
    if turn.revision in LEGACY[:3]:
        raise RpcError(-32602, "the arguments are not as the schema wants them")
    return {"content": [{"type": "text", "text": "that is no address"}], "isError": True}


SCHEMA_CALLS: Final[Mapping[str, Callable[[Turn, JsonObject], JsonObject]]] = {_NAME: _call}
