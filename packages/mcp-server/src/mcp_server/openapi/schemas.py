"""JSON Schemas of an OpenAPI document, as self-contained schemas of dialect 2020-12.

References to components become references to `$defs`. The forms of OpenAPI 3.0 that JSON Schema does not have are
converted: `nullable`, a boolean `exclusiveMinimum` or `exclusiveMaximum`, and `example`. Members that a client must not
send (`readOnly`) are omitted. Source: OpenAPI 3.1.1 section 4.8.24, OpenAPI 3.0.4 section 4.7.24
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcp_core.schema.validation import InvalidSchema, compile_schema
from mcp_server.openapi.document import UnsupportedOperation, first_free

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_server.openapi.document import OperationDocument

__all__ = ["SchemaReader"]

_SCHEMA_MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
_SCHEMA_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMAS: Final = frozenset(
    {"not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems"}
    | {"unevaluatedProperties", "contentSchema"}
)
_OMITTED: Final = frozenset(
    {"discriminator", "externalDocs", "xml", "nullable", "example"}
    # They would give references another base, or are keywords of other dialects.
    | {"$schema", "$id", "$recursiveAnchor", "$recursiveRef"}
)
"""Members that are omitted. Without them, a schema accepts more; the API checks the value in any case."""

_EXCLUSIVE: Final = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}

_DEPTH: Final = 64
"""Deepest nesting of a schema, as in `SchemaLimits.depth`."""

_NAME_CHARS: Final = 100
"""Characters of the name of a component."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]+")


class SchemaReader:
    """The schemas of one tool. It collects the components that they refer to.

    Args:
        document: The document that contains the components.
    """

    def __init__(self, document: OperationDocument) -> None:
        self._document: Final = document
        self._names: Final[dict[str, str]] = {}
        self._unread: Final[list[str]] = []

    def definitions(self) -> JsonObject:
        """Return the components that the schemas refer to, by their names in `$defs`."""
        found: JsonObject = {}
        while self._unread:
            reference = self._unread.pop()
            found[self._names[reference]] = self.read(self._document.at(reference))
        return found

    def read(self, schema: JsonValue, depth: int = 0) -> JsonObject | bool:
        """Return a schema in dialect 2020-12. Raises `UnsupportedOperation` if it cannot be converted."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise UnsupportedOperation(f"a schema is an object, not {schema!r}")
        if depth > _DEPTH:
            raise UnsupportedOperation(f"a schema has more than {_DEPTH} levels")
        read: JsonObject = {}
        for keyword, value in schema.items():
            if keyword not in _OMITTED and not keyword.startswith("x-"):
                read.update(self._members(schema, keyword, value, depth))
        if "example" in schema and "examples" not in read:
            read["examples"] = [schema["example"]]
        return _nullable(read) if schema.get("nullable") is True else read

    def _members(self, schema: JsonObject, keyword: str, value: JsonValue, depth: int) -> JsonObject:
        """Return the members of the converted schema that a keyword becomes."""
        if keyword == "$ref" and isinstance(value, str):
            return {keyword: f"#/$defs/{self._definition(value)}"}
        if keyword == "pattern":
            return {keyword: value} if _is_supported(value) else {}
        if keyword in _EXCLUSIVE and isinstance(value, bool):
            bound = _EXCLUSIVE[keyword]
            return {keyword: schema[bound]} if value and bound in schema else {}
        if keyword == "required" and isinstance(value, list):
            hidden = _hidden(schema.get("properties"))
            return {keyword: [name for name in value if name not in hidden]}
        if keyword in _SCHEMA_MAPS and isinstance(value, dict):
            hidden = _hidden(value) if keyword == "properties" else set()
            return {keyword: {name: self.read(each, depth + 1) for name, each in value.items() if name not in hidden}}
        if keyword in _SCHEMA_LISTS and isinstance(value, list):
            return {keyword: [self.read(each, depth + 1) for each in value]}
        if keyword in _SCHEMAS and isinstance(value, dict | bool):
            return {keyword: self.read(value, depth + 1)}
        return {keyword: value}

    def _definition(self, reference: str) -> str:
        """Return the name of a component in `$defs`."""
        name = self._names.get(reference)
        if name is None:
            plain = _UNSAFE.sub("_", reference.rpartition("/")[2]) or "schema"
            name = first_free(plain, self._names.values(), _NAME_CHARS)
            self._names[reference] = name
            self._unread.append(reference)
        return name


def _hidden(properties: JsonValue) -> set[str]:
    """Return the properties that only responses have."""
    members = properties.items() if isinstance(properties, dict) else ()
    return {name for name, each in members if isinstance(each, dict) and each.get("readOnly") is True}


def _nullable(schema: JsonObject) -> JsonObject:
    """Return a schema that allows null too."""
    kinds = schema.get("type")
    if not isinstance(kinds, str | list):
        return {"anyOf": [schema, {"type": "null"}]}
    given = [kinds] if isinstance(kinds, str) else kinds
    schema["type"] = [*given, *([] if "null" in given else ["null"])]
    values = schema.get("enum")
    if isinstance(values, list) and None not in values:
        schema["enum"] = [*values, None]
    return schema


def _is_supported(pattern: JsonValue) -> bool:
    """Return whether the server can match a pattern in linear time. The API checks the value in any case."""
    try:
        compile_schema({"pattern": pattern})
    except InvalidSchema:
        return False
    return True
