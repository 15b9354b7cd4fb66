"""The members of messages, enumerated by the official schemas along recorded messages.

A schema alone does not say which members a peer sends, and a message alone does not say which members it may have. Both
are therefore walked together: each place of a message has a pattern, such as `tools[].inputSchema`, the definition of its
schema, and whether it is required. A union is resolved by the message: the variant whose constants it has.

The files of the schemas are not part of this project. Their folder is `$MCP_SCHEMA_DIR`, by default
`../shared/spec/schema` beside the checkout. The skills extension publishes no schema: `skills.schema.json` has its
messages as its specification defines them.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.generated.fault import Recording

__all__ = ["Place", "Schema", "is_defined", "schema_folder", "schema_of"]

_TASKS: Final = "ext-tasks.schema.json"
_SKILLS: Final = Path(__file__).with_name("skills.schema.json")
_WITH_EXTENSIONS: Final = "2026-07-28"
_DEEPEST: Final = 12
"""The depth to which places are enumerated: no definition without recursion is deeper."""
_FREE: Final = frozenset({"JSONValue", "JSONObject", "MetaObject", "JSONArray"})
"""Definitions of any JSON, which have no members of their own."""
_NO_RESULT: Final = frozenset({"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"})


def schema_folder() -> Path | None:
    """Return the folder of the official schemas, or `None` if it is absent."""
    root = Path(__file__).resolve().parents[3]
    found = Path(os.environ.get("MCP_SCHEMA_DIR") or root.parent / "shared" / "spec" / "schema")
    return found if found.is_dir() else None


@attrs.frozen(kw_only=True)
class Place:
    """A place for a member in one message."""

    pattern: str
    """The pattern of the place, equal in all messages of its kind."""
    holder: JsonObject
    """The object that contains the member, or lacks it."""
    name: str
    """The name of the member."""
    required: bool
    """Whether the object must have the member."""
    node: JsonObject
    """The schema of the member."""

    @property
    def is_present(self) -> bool:
        """Whether the object has the member."""
        return self.name in self.holder

    @property
    def types(self) -> frozenset[str]:
        """The JSON types that the schema permits; empty: all."""
        return _types(self.node)

    @property
    def constants(self) -> tuple[JsonValue, ...]:
        """The only values that the schema permits; empty: it names none."""
        return _constants(self.node)


def _types(node: JsonObject) -> frozenset[str]:
    variants = node.get("anyOf") or node.get("oneOf")
    if isinstance(variants, list):
        found = [_types(each) for each in variants if isinstance(each, dict)]
        return frozenset() if not all(found) else frozenset().union(*found)
    kind = node.get("type")
    found_names = frozenset(map(str, kind if isinstance(kind, list) else [] if kind is None else [kind]))
    if not found_names:
        kinds = {bool: "boolean", str: "string", int: "integer"}
        return frozenset(kinds.get(type(each), "") for each in _constants(node)) - {""}
    return found_names


def _constants(node: JsonObject) -> tuple[JsonValue, ...]:
    if "const" in node:
        return (node["const"],)
    listed = node.get("enum")
    return tuple(listed) if isinstance(listed, list) else ()


class Schema:
    """The schema of one revision.

    Args:
        definitions: The definitions, by name.
    """

    def __init__(self, definitions: Mapping[str, JsonObject]) -> None:
        self._definitions: Final = definitions
        self._by_method: Final[dict[str, str]] = {}
        for name, node in definitions.items():
            method = _member(_member(node, "properties"), "method")
            constant = method.get("const")
            # The client's union of notifications is not the definition of one.
            if isinstance(constant, str) and name not in ("ClientNotification", "ServerNotification"):
                self._by_method.setdefault(constant, name)

    @property
    def methods(self) -> frozenset[str]:
        """The methods of requests and notifications."""
        return frozenset(self._by_method)

    def places(self, kind: str, method: str, message: JsonObject) -> Iterator[Place]:
        """Yield the places of a message.

        Args:
            kind: `result`, `error`, `request` or `notification`.
            method: The method of the message, or of the request to which it responds.
            message: The message.
        """
        definition = self._envelope(kind)
        if definition is not None:
            yield from self._of(definition, message, "", 1, shallow=True)
        name = self._by_method.get(method)
        if kind == "error":
            error = message.get("error")
            node = self._error()
            if node is not None and isinstance(error, dict):
                yield from self._of(node, error, "error", _DEEPEST - 1)
        elif kind == "result":
            result = message.get("result")
            shape = self._result(method, name)
            if shape is not None and isinstance(result, dict):
                yield from self._of(shape, result, "result", 0)
        elif name is not None:
            properties = _member(self._definitions[name], "properties")
            described = properties.get("params")
            params = message.get("params")
            if isinstance(described, dict) and isinstance(params, dict):
                yield from self._of(described, params, "params", 0)

    def _envelope(self, kind: str) -> JsonObject | None:
        names = {
            "result": ("JSONRPCResultResponse", "JSONRPCResponse"),
            "error": ("JSONRPCErrorResponse", "JSONRPCError"),
            "request": ("JSONRPCRequest",),
            "notification": ("JSONRPCNotification",),
        }[kind]
        return next((self._definitions[each] for each in names if each in self._definitions), None)

    def _error(self) -> JsonObject | None:
        if "Error" in self._definitions:
            return self._definitions["Error"]
        envelope = self._envelope("error")
        node = _member(envelope, "properties").get("error") if envelope is not None else None
        return node if isinstance(node, dict) else None

    def _result(self, method: str, name: str | None) -> JsonObject | None:
        if method in _NO_RESULT:
            return self._definitions.get("EmptyResult")
        base = (name or "").removesuffix("Request")
        response = self._definitions.get(f"{base}ResultResponse")
        stated = _member(response, "properties").get("result") if response is not None else None
        names = [f"{base}Result", "CreateTaskResult"] if method == "tools/call" else [f"{base}Result"]
        known: list[JsonValue] = [{"$ref": f"#/{each}"} for each in names if each in self._definitions]
        if isinstance(stated, dict):
            known.append(stated)
        return {"anyOf": known} if known else None

    # --- the walk -----------------------------------------------------------------------------------------------------

    def _resolved(self, node: JsonObject, value: JsonValue) -> tuple[JsonObject, str]:
        """Return the schema without references and unions, and the name of the variant of a union."""
        label = ""
        for _ in range(_DEEPEST):
            reference = node.get("$ref")
            variants = node.get("anyOf") or node.get("oneOf")
            if isinstance(reference, str):
                name = reference.rpartition("/")[2]
                if name in _FREE:
                    return {}, label
                node = self._definitions[name]
            elif isinstance(node.get("allOf"), list):
                node = self._joined(node, value)
            elif isinstance(variants, list) and isinstance(value, dict):
                chosen = self._variant([each for each in variants if isinstance(each, dict)], value)
                if chosen is None:
                    return {}, label
                label = str(chosen.get("$ref", "")).rpartition("/")[2] or label
                node = chosen
            else:
                break
        return node, label

    def _joined(self, node: JsonObject, value: JsonValue) -> JsonObject:
        properties: JsonObject = dict(_member(node, "properties"))
        required = _list(node.get("required"))
        for part in _list(node["allOf"]):
            each, _ = self._resolved(part if isinstance(part, dict) else {}, value)
            properties |= _member(each, "properties")
            required += _list(each.get("required"))
        return {"type": "object", "properties": properties, "required": required}

    def _variant(self, variants: list[JsonObject], value: JsonObject) -> JsonObject | None:
        """Return the variant of a union that an object is: its constants match, and most of its members are known."""
        best: tuple[int, JsonObject] | None = None
        for each in variants:
            node, _ = self._resolved(each, value)
            properties = _member(node, "properties")
            if not properties or not set(map(str, _list(node.get("required")))) <= set(value):
                continue
            constants = {name: _constants(part) for name, part in properties.items() if isinstance(part, dict)}
            if any(known and name in value and value[name] not in known for name, known in constants.items()):
                continue
            # The schema of this result type has no constant, and yet it distinguishes the variants.
            if "inputRequests" in properties and "resultType" in value and value["resultType"] != "input_required":
                continue
            fit = len(set(properties) & set(value))
            if best is None or fit > best[0]:
                best = (fit, each)
        return None if best is None else best[1]

    def _of(
        self, node: JsonObject, value: JsonObject, pattern: str, depth: int, *, shallow: bool = False
    ) -> Iterator[Place]:
        node, label = self._resolved(node, value)
        if label and pattern not in ("result", ""):
            pattern = f"{pattern}<{label}>"
        required = set(map(str, _list(node.get("required"))))
        properties = _member(node, "properties")
        for name, part in properties.items():
            if not isinstance(part, dict):
                continue
            here = f"{pattern}.{name}" if pattern else name
            held = value.get(name)
            resolved, _ = self._resolved(part, held)
            yield Place(
                pattern=here, holder=value, name=name, required=name in required, node=self._described(part, held)
            )
            if not shallow and depth < _DEEPEST:
                yield from self._inside(resolved, held, here, depth + 1)
        rest = node.get("additionalProperties")
        if isinstance(rest, dict) and rest and not shallow:
            for name in list(value):
                if name not in properties:
                    here = f"{pattern}.*"
                    held = value[name]
                    resolved, _ = self._resolved(rest, held)
                    if resolved:
                        yield Place(
                            pattern=here, holder=value, name=name, required=False, node=self._described(rest, held)
                        )
                        yield from self._inside(resolved, held, here, depth + 1)

    def _described(self, node: JsonObject, value: JsonValue) -> JsonObject:
        """Return a schema whose types and constants can be read: without a reference at the top."""
        resolved, _ = self._resolved(node, value if isinstance(value, dict) else None)
        return resolved

    def _inside(self, node: JsonObject, held: JsonValue, pattern: str, depth: int) -> Iterator[Place]:
        if isinstance(held, dict):
            yield from self._of(node, held, pattern, depth)
        elif isinstance(held, list) and isinstance(node.get("items"), dict):
            for each in held:
                if isinstance(each, dict):
                    yield from self._of(_member(node, "items"), each, f"{pattern}[]", depth)


def _member(value: JsonObject | None, name: str) -> JsonObject:
    found = None if value is None else value.get(name)
    return found if isinstance(found, dict) else {}


def _list(value: JsonValue) -> list[JsonValue]:
    return list(value) if isinstance(value, list) else []


def is_defined(recording: Recording, key: str) -> bool:
    """Return whether a key is of messages that the revision of a recording defines: no response to a notification."""
    method, _, kind = key.rpartition(" ")
    is_notification = method.startswith("notifications/")
    return method in schema_of(recording.leg.revision).methods and is_notification == (kind == "notification")


@cache
def schema_of(revision: str) -> Schema:
    """Return the schema of a revision.

    Raises:
        FileNotFoundError: The folder of the official schemas is absent.
    """
    folder = schema_folder()
    if folder is None:
        raise FileNotFoundError("the official schemas are absent: set MCP_SCHEMA_DIR to their folder")
    definitions = _definitions(folder / revision / "schema.json")
    if revision == _WITH_EXTENSIONS:
        definitions = {**_definitions(folder / _TASKS), **_definitions(_SKILLS), **definitions}
    return Schema(definitions)


def _definitions(path: Path) -> dict[str, JsonObject]:
    document = json.loads(path.read_text("utf-8"))
    found: dict[str, JsonObject] = document.get("$defs") or document["definitions"]
    return found
