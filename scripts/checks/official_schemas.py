"""The official schemas of the specification, normalized for the comparison with the types of this project.

The files are not part of this project. Their folder is `$MCP_SCHEMA_DIR`, by default `../shared/spec/schema` beside the
checkout.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mcp_core.jsonrpc.messages import JsonObject, JsonValue

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["EXTENSION_TASKS", "folder", "load", "merged", "sketch"]

EXTENSION_TASKS: Final = "ext-tasks"
"""The name of the schema of the tasks extension, in place of a revision."""

ANY: Final[JsonObject] = {"is": "any"}
_MAP: Final[JsonObject] = {"is": "map", "of": ANY}

# A JSON value as the generator writes it, without null and fractions, and an object of such values.
_ALIASES: Final[Mapping[str, JsonObject]] = {"JSONValue": ANY, "JSONObject": _MAP, "MetaObject": _MAP}


def folder() -> Path | None:
    """Return the folder of the files, or `None`."""
    root = Path(__file__).resolve().parents[2]
    found = Path(os.environ.get("MCP_SCHEMA_DIR") or root.parent / "shared" / "spec" / "schema")
    return found if found.is_dir() else None


def load(name: str) -> dict[str, JsonObject]:
    """Return the definitions of a revision or of `EXTENSION_TASKS`, by name."""
    base = folder()
    assert base is not None, "check folder() first"
    path = base / "ext-tasks.schema.json" if name == EXTENSION_TASKS else base / name / "schema.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    found: dict[str, JsonObject] = document.get("$defs") or document["definitions"]
    return found


def _obj(value: JsonValue) -> JsonObject:
    assert isinstance(value, dict)
    return value


def _list(value: JsonValue) -> list[JsonValue]:
    assert isinstance(value, list)
    return value


def merged(node: JsonObject, definitions: Mapping[str, JsonObject]) -> JsonObject:
    """Return a definition with its reference and its `allOf` resolved on the top level."""
    if "$ref" in node:
        return merged(definitions[str(node["$ref"]).rpartition("/")[2]], definitions)
    if "allOf" not in node:
        return node
    properties: JsonObject = dict(_obj(node.get("properties", {})))
    required: list[JsonValue] = list(_list(node.get("required", [])))
    for part in _list(node["allOf"]):
        each = merged(_obj(part), definitions)
        properties |= _obj(each.get("properties", {}))
        required += _list(each.get("required", []))
    return {"type": "object", "properties": properties, "required": required}


class _Sketcher:
    def __init__(
        self,
        definitions: Mapping[str, JsonObject],
        keep: Collection[str],
        renamed: Mapping[str, str],
        left_out: Collection[str],
    ) -> None:
        self._definitions = definitions
        self._keep = keep
        self._renamed = renamed
        self._left_out = left_out

    def sketch(self, node: JsonValue, name: str = "", *, outermost: bool = False) -> JsonObject:
        if not isinstance(node, dict) or not node:
            return ANY
        if name == "_meta":
            return _MAP
        if name in {"inputSchema", "outputSchema"}:
            root = _obj(_obj(node.get("properties", {})).get("type", {})).get("const")
            return {"is": "schema", "root": root}
        if "$ref" in node and not outermost:
            return self._reference(str(node["$ref"]).rpartition("/")[2])
        node = merged(node, self._definitions) if "$ref" in node or "allOf" in node else node
        if "const" in node:
            return {"is": "enum", "values": [node["const"]]}
        if "enum" in node:
            return {"is": "enum", "values": list[JsonValue](sorted(str(each) for each in _list(node["enum"])))}
        if "anyOf" in node and "properties" not in node:
            return self._union([self.sketch(each) for each in _list(node["anyOf"])])
        kind = node.get("type")
        if isinstance(kind, list):
            return self._union([self.sketch({**node, "type": each}) for each in kind])
        if kind == "array":
            return {"is": "array", "of": self.sketch(node.get("items"))}
        if kind == "object":
            return self._object(node)
        found: JsonObject = {"is": kind} if kind is not None else dict(ANY)
        # The extension limits integers to what a double holds, which is the default for JSON.
        return found | {k: node[k] for k in ("minimum", "maximum") if abs(float(str(node.get(k, 2**53)))) < 2**53 - 1}

    def _reference(self, name: str) -> JsonObject:
        name = self._renamed.get(name, name)
        if name in self._keep:
            return {"is": "ref", "to": name}
        if name in _ALIASES:
            return _ALIASES[name]
        return self.sketch(self._definitions[name])

    def _object(self, node: JsonObject) -> JsonObject:
        properties = _obj(node.get("properties", {}))
        if not properties:
            return {"is": "map", "of": self.sketch(node.get("additionalProperties"))}
        required = _list(node.get("required", []))
        members: JsonObject = {each: [each in required, self.sketch(value, each)] for each, value in properties.items()}
        return {"is": "object", "members": members}

    def _union(self, parts: list[JsonObject]) -> JsonObject:
        flat: list[JsonObject] = []
        for part in parts:
            flat += [_obj(each) for each in _list(part["of"])] if part["is"] == "union" else [part]
        texts = {json.dumps(each, sort_keys=True): each for each in flat if each.get("to") not in self._left_out}
        if {"is": "number"} in texts.values():
            texts.pop('{"is": "integer"}', None)  # an integer is a number
        if ANY in texts.values():
            return ANY
        values = sorted({str(value) for each in flat if each["is"] == "enum" for value in _list(each["values"])})
        found = [texts[key] for key in sorted(texts) if texts[key]["is"] != "enum"]
        if values:
            found.append({"is": "enum", "values": list[JsonValue](values)})
        return found[0] if len(found) == 1 else {"is": "union", "of": list[JsonValue](found)}


def sketch(
    node: JsonValue,
    definitions: Mapping[str, JsonObject],
    *,
    keep: Collection[str],
    renamed: Mapping[str, str] | None = None,
    left_out: Collection[str] = (),
) -> JsonObject:
    """Return a sketch of a schema: names, required members and types. Equivalent schemas have equal sketches.

    Args:
        node: The schema. Its top level is sketched even if it is a reference.
        definitions: The targets of its references.
        keep: The definitions that stay references; all others are inlined.
        renamed: Definitions with another name in `keep`.
        left_out: Definitions that are ignored in unions.

    Returns:
        The sketch. `_meta` is any object in it: its members have definitions of their own.
    """
    return _Sketcher(definitions, keep, renamed or {}, left_out).sketch(node, outermost=True)
