"""Values of the official schemas: received values are preserved, and sent values are valid."""

from __future__ import annotations

import base64
from functools import cache
from typing import Final, NamedTuple

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.official_schemas import EXTENSION_TASKS, folder, load, merged
from checks.schema_deviations import RENAMED, TASK_VARIANTS
from mcp_core.conversion.converter import converter
from mcp_core.errors import InvalidValue
from mcp_core.json_schema import schemas, wire_classes
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.methods import methods, notifications
from mcp_core.revisions import R2026_07_28, REVISIONS, Revision
from mcp_core.types import WireObject

pytestmark = [
    pytest.mark.skipif(folder() is None, reason="not run: no official schemas; set MCP_SCHEMA_DIR"),
    pytest.mark.property,
]

SOURCES: Final = [*REVISIONS, EXTENSION_TASKS]

TEXT: Final = st.text(alphabet=st.characters(codec="utf-8"), max_size=8)
JSON: Final[st.SearchStrategy[JsonValue]] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(TEXT, children, max_size=3),
    max_leaves=4,
)
# The generator produces no null and no fractions here.
JSON_VALUE: Final[st.SearchStrategy[JsonValue]] = st.integers() | TEXT | st.lists(TEXT, max_size=2)


class Target(NamedTuple):
    """A part of an official schema, and the class for it."""

    pointer: str
    node: JsonValue
    cls: type[WireObject]


class Official:
    """The official definitions of one source, as strategies and validators."""

    def __init__(self, source: str) -> None:
        self.revision: Revision = REVISIONS.get(source, R2026_07_28)
        self.definitions = load(source)
        self.key = "definitions" if self.revision.name < "2025-11-25" else "$defs"
        classes = {cls.__name__: cls for cls in wire_classes(self.revision)}
        params_of: dict[str, object] = {name: row.params for name, row in methods(self.revision).items()}
        params_of |= {name: row.params for name, row in notifications(self.revision).items()}
        self.targets: list[Target] = []
        for name, node in self.definitions.items():
            class_name = "DetailedTask" if name in TASK_VARIANTS else RENAMED.get(source, {}).get(name, name)
            cls = classes.get(class_name)
            if cls is not None:
                self.targets.append(Target(f"#/{self.key}/{name}", node, cls))
            properties = merged(node, self.definitions).get("properties", {})
            assert isinstance(properties, dict)
            method, params = properties.get("method"), properties.get("params")
            if (
                isinstance(method, dict)
                and method.get("const") in params_of
                and isinstance(params, dict)
                and "allOf" not in node
            ):
                row_params = params_of[str(method["const"])]
                found = next((each for each in classes.values() if each is row_params), None)
                if found is not None:
                    self.targets.append(Target(f"#/{self.key}/{name}/properties/params", params, found))
        self._strategies: dict[str, st.SearchStrategy[JsonValue]] = {}
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    def validator(self, pointer: str) -> jsonschema_rs.Validator:
        if pointer not in self._validators:
            drafts = {"definitions": jsonschema_rs.Draft7Validator, "$defs": jsonschema_rs.Draft202012Validator}
            self._validators[pointer] = drafts[self.key]({"$ref": pointer, self.key: self.definitions})
        return self._validators[pointer]

    def values(self, node: JsonValue) -> st.SearchStrategy[JsonValue]:
        if not isinstance(node, dict) or not node:
            return JSON
        if "$ref" in node:
            return self._deferred(str(node["$ref"]).rpartition("/")[2])
        if "const" in node:
            return st.just(node["const"])
        if "enum" in node:
            assert isinstance(node["enum"], list)
            return st.sampled_from(node["enum"])
        if "anyOf" in node:
            assert isinstance(node["anyOf"], list)
            return st.one_of([self.values(each) for each in node["anyOf"]])
        if "allOf" in node:
            assert isinstance(node["allOf"], list)
            return st.tuples(*(self.values(each) for each in node["allOf"])).map(_merge)
        kind = node.get("type")
        if isinstance(kind, list):
            return st.one_of([self.values({**node, "type": each}) for each in kind])
        return self._object(node) if kind == "object" else self._plain(node)

    def _deferred(self, name: str) -> st.SearchStrategy[JsonValue]:
        if name == "JSONValue":
            return JSON_VALUE
        if name not in self._strategies:
            self._strategies[name] = st.deferred(lambda: self.values(self.definitions[name]))
        return self._strategies[name]

    def _plain(self, node: JsonObject) -> st.SearchStrategy[JsonValue]:
        low, high = node.get("minimum"), node.get("maximum")
        match node.get("type"):
            case "string" if node.get("format") == "byte":
                return st.binary(max_size=6).map(lambda data: base64.b64encode(data).decode())
            case "string" if node.get("format") == "uri-template":
                return st.sampled_from(["file:///{path}", "urn:x:y"])
            case "string" if node.get("format") == "uri":
                return st.sampled_from(["file:///a", "https://a.example/b?c#d", "urn:x:y"])
            case "string":
                return TEXT
            case "integer":
                return st.integers(low if isinstance(low, int) else None, high if isinstance(high, int) else None)
            case "number":
                bounds = (low if isinstance(low, int) else None, high if isinstance(high, int) else None)
                return st.floats(*bounds, allow_nan=False, allow_infinity=False) | st.integers(*bounds)
            case "boolean":
                return st.booleans()
            case "array":
                return st.lists(self.values(node.get("items")), max_size=2)
            case _:
                return st.none()

    def _object(self, node: JsonObject) -> st.SearchStrategy[JsonValue]:
        properties = node.get("properties", {})
        required = node.get("required", [])
        assert isinstance(properties, dict)
        assert isinstance(required, list)
        more = node.get("additionalProperties")
        if more == {"not": {}}:
            return st.just({})
        if not properties:
            return st.dictionaries(TEXT, self.values(more), max_size=2)
        # Unknown members are allowed too.
        unknown = st.dictionaries(st.sampled_from(["x-a", "x-b"]), self.values(more), max_size=1)
        known = st.fixed_dictionaries(
            {name: self.values(properties[name]) for name in properties if name in required},
            optional={name: self.values(properties[name]) for name in properties if name not in required},
        )
        return st.tuples(unknown, known).map(_merge)


def _merge(parts: tuple[JsonValue, ...]) -> JsonValue:
    found: JsonObject = {}
    for part in parts:
        assert isinstance(part, dict)
        found |= part
    return found


@cache
def official(source: str) -> Official:
    return Official(source)


def same(raw: JsonValue, sent: JsonValue) -> bool:
    """Return whether the same was sent as received, except members whose value equals the meaning of their absence."""
    if isinstance(raw, dict) and isinstance(sent, dict):
        omitted = {name: value for name, value in raw.items() if name not in sent}
        return (
            sent.keys() <= raw.keys()
            and all(value in (False, "form") for value in omitted.values())
            and all(same(raw[name], value) for name, value in sent.items())
        )
    if isinstance(raw, list) and isinstance(sent, list):
        return len(raw) == len(sent) and all(map(same, raw, sent))
    return raw == sent and (type(raw) is type(sent) or not isinstance(raw, bool))


@cache
def our_validator(revision: Revision, name: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.Draft202012Validator({**schemas(revision), "$ref": f"#/$defs/{name}"})


@pytest.mark.spec("jsonrpc.schema-valid-messages")
@pytest.mark.parametrize("source", SOURCES)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=200)
@given(data=st.data())
def test_official_value_preserved_in_round_trip(source: str, data: st.DataObject) -> None:
    definitions = official(source)
    target = data.draw(st.sampled_from(definitions.targets), label="definition")
    raw = data.draw(definitions.values(target.node), label="value")
    assert isinstance(raw, dict)
    if target.cls.__name__ == "InputRequiredResult":
        # The text of the specification requires these two members, the schema does not.
        raw |= {"resultType": "input_required", "requestState": "s"}
    convert = converter(definitions.revision)
    sent = convert.unstructure(convert.structure(raw, target.cls))
    assert same(raw, sent)
    definitions.validator(target.pointer).validate(sent)


@pytest.mark.parametrize("source", SOURCES)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=200)
@given(data=st.data())
def test_member_required_as_in_official_schema(source: str, data: st.DataObject) -> None:
    definitions = official(source)
    target = data.draw(st.sampled_from(definitions.targets), label="definition")
    raw = data.draw(definitions.values(target.node), label="value")
    assert isinstance(raw, dict)
    if target.cls.__name__ == "InputRequiredResult":
        raw |= {"resultType": "input_required", "requestState": "s", "inputRequests": {}}
    removed = data.draw(st.sampled_from([*raw, ""]), label="removed")
    reduced = {name: value for name, value in raw.items() if name != removed}
    validator = our_validator(definitions.revision, target.cls.__name__)
    if definitions.validator(target.pointer).is_valid(reduced):
        converter(definitions.revision).structure(reduced, target.cls)
        validator.validate(reduced)
    else:
        with pytest.raises(InvalidValue) as caught:
            converter(definitions.revision).structure(reduced, target.cls)
        assert caught.value.path in {removed, f'["{removed}"]'}
        assert not validator.is_valid(reduced)


@pytest.mark.parametrize("source", SOURCES)
def test_official_source_has_targets(source: str) -> None:
    assert len(official(source).targets) > 40
