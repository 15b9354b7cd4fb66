"""Validation of the JSON Schemas that an implementation publishes, and of values against them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["flaw_by_schema", "flaw_of_schema"]

_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_BY_NAME: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""The keywords whose value has a schema for each name."""
_DATA: Final = frozenset({"const", "enum", "default", "examples"})
"""The keywords whose value is no schema."""


def flaw_of_schema(schema: JsonObject) -> str | None:
    """Return what is wrong with a schema in its dialect, by default 2020-12; `None` when it is valid."""
    from jsonschema_rs import ReferencingError, ValidationError, meta  # lazy: 20 ms, and reading a catalogue needs none

    try:
        meta.validate(schema)
    except ValidationError as error:
        return f"{'.'.join(map(str, error.instance_path))}: {error.message[:300]}"
    except (ReferencingError, ValueError) as error:
        return str(error)
    missing = _missing_target(schema)
    return None if missing is None else f"{missing} refers to nothing in the schema"


def _missing_target(schema: JsonObject) -> str | None:
    """Return a reference into the schema itself without a target; `None` without one, and if parts have ids."""
    parts = list(_subschemas(schema))
    if any(isinstance(part.get("$id"), str) for part in parts):
        return None  # references are relative to an id
    anchors = {f"#{part[name]}" for part in parts for name in _ANCHORS if isinstance(part.get(name), str)}
    for part in parts:
        reference = part.get("$ref")
        is_local = isinstance(reference, str) and reference.startswith("#") and reference not in anchors
        if is_local and not _has(schema, unquote(str(reference)[1:])):
            return str(reference)
    return None


def _subschemas(value: JsonValue, *, named: bool = False) -> Iterator[JsonObject]:
    """Yield a schema and those in it; `named`: whether the members of the value are names, not keywords."""
    if isinstance(value, list):
        for each in value:
            yield from _subschemas(each)
    elif isinstance(value, dict):
        if not named:
            yield value
        for name, each in value.items():
            if named or name not in _DATA:
                yield from _subschemas(each, named=not named and name in _BY_NAME)


def _has(value: JsonValue, pointer: str) -> bool:
    """Return whether a JSON pointer (RFC 6901) has a target."""
    if not pointer:
        return True
    if not pointer.startswith("/"):
        return False
    for token in pointer[1:].split("/"):
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        else:
            return False
    return True


def flaw_by_schema(value: JsonValue, schema: JsonObject) -> str | None:
    """Return what is wrong with a value according to a schema; `None` when it is valid. Nothing is fetched."""
    from jsonschema_rs import ReferencingError, ValidationError, validator_for  # lazy: as above

    def refuse(uri: str) -> JsonValue:
        raise ValueError(f"{uri} is not fetched")

    try:
        validator_for(schema, retriever=refuse).validate(value)
    except ValidationError as error:
        return f"{'.'.join(map(str, error.instance_path))}: {error.message[:300]}"
    except (ReferencingError, ValueError) as error:
        return f"the schema cannot be used: {error}"
    return None
