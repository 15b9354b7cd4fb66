"""Validation of the JSON Schemas that an implementation publishes, and of values against them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["flaw_by_schema", "flaw_of_schema"]


def flaw_of_schema(schema: JsonObject) -> str | None:
    """Return what is wrong with a schema in its dialect, by default 2020-12; `None` when it is valid."""
    from jsonschema_rs import ReferencingError, ValidationError, meta  # lazy: 20 ms, and reading a catalogue needs none

    try:
        meta.validate(schema)
    except ValidationError as error:
        return f"{'.'.join(map(str, error.instance_path))}: {error.message[:300]}"
    except (ReferencingError, ValueError) as error:
        return str(error)
    return None


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
