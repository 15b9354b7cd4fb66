"""Comparison of the types and the table of methods with the official schemas of each revision."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Final, get_args

import pytest

from checks.official_schemas import EXTENSION_TASKS, folder, load, merged, sketch
from checks.schema_deviations import (
    ANY_VARIANT,
    DEVIATIONS,
    ERROR_CODES,
    EXTENSION_MEMBERS,
    INLINE,
    MESSAGE_UNIONS,
    NO_CLASS,
    OWN,
    RENAMED,
    TASK_VARIANTS,
)
from mcp_core.conversion.wire_types import form_of
from mcp_core.json_schema import schema_of, schemas, wire_classes
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.methods import METHODS, NOTIFICATIONS, input_requests, methods, notifications
from mcp_core.revisions import R2025_06_18, R2026_07_28, REVISIONS, Revision
from mcp_core.types import TaskStatus

SOURCES: Final = [*REVISIONS, EXTENSION_TASKS]


def test_official_schemas_available_on_ci() -> None:
    if folder() is None and os.environ.get("CI") != "true":
        pytest.skip("not run: there is no folder with the official schemas; set MCP_SCHEMA_DIR")
    assert folder() is not None


needs_schemas = pytest.mark.skipif(folder() is None, reason="not run: no official schemas; set MCP_SCHEMA_DIR")


class Comparison:
    """The official definitions of one source, and the generated schemas for it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.revision: Revision = REVISIONS.get(source, R2026_07_28)
        self.official = load(source)
        self.renamed = RENAMED.get(source, {})
        document = schemas(self.revision)["$defs"]
        assert isinstance(document, dict)
        self.ours: dict[str, JsonObject] = {name: each for name, each in document.items() if isinstance(each, dict)}
        named = {self.renamed.get(name, name) for name in self.official}
        self.keep = {name for name in self.ours if name in named}
        self.left_out = {"UnknownContent"}
        if self.revision is R2025_06_18:
            self.left_out.add("UntitledSingleSelectEnumSchema")

    def of_official(self, node: JsonValue) -> JsonObject:
        return sketch(node, self.official, keep=self.keep, renamed=self.renamed)

    def of_ours(self, name: str) -> JsonObject:
        found = sketch(self.ours[name], self.ours, keep=self.keep | self.left_out, left_out=self.left_out)
        if name in EXTENSION_MEMBERS and self.source != EXTENSION_TASKS:
            members(found).pop(EXTENSION_MEMBERS[name])
        return found

    def deviated(self, name: str, found: JsonObject) -> JsonObject:
        """Return the sketch of an official definition after applying the documented deviations."""
        for row in DEVIATIONS:
            if row.definition == name:
                before = json.dumps(members(found)[row.member])
                after = before.replace(json.dumps(row.official), json.dumps(row.ours))
                assert after != before, f"the deviation {row} does not occur in {self.source}"
                members(found)[row.member] = json.loads(after)
        return found


def members(found: JsonObject) -> JsonObject:
    inside = found.get("members", {})
    assert isinstance(inside, dict)
    return inside


def method_of(node: JsonObject, definitions: Mapping[str, JsonObject]) -> str | None:
    properties = merged(node, definitions).get("properties")
    if not isinstance(properties, dict) or not isinstance(properties.get("method"), dict):
        return None
    method = properties["method"]
    assert isinstance(method, dict)
    return str(method["const"]) if "const" in method else None


def definitions() -> Iterator[tuple[str, str]]:
    for source in SOURCES if folder() is not None else []:
        for name in load(source):
            yield source, name


def check_type(comparison: Comparison, name: str, definition: JsonObject) -> None:
    ours = comparison.renamed.get(name, name)
    assert comparison.of_ours(ours) == comparison.deviated(ours, comparison.of_official(definition))


def check_params(comparison: Comparison, method: str, definition: JsonObject) -> None:
    found = merged(definition, comparison.official)
    properties = found["properties"]
    assert isinstance(properties, dict)
    params, required = properties.get("params"), found.get("required", [])
    assert isinstance(required, list)
    requests, notes = methods(comparison.revision), notifications(comparison.revision)
    row_params: object = requests[method].params if method in requests else notes[method].params
    candidates = get_args(row_params) or (row_params,)
    existing = [cls for cls in wire_classes(comparison.revision) if cls in candidates]
    official = sketch(params, comparison.official, keep=comparison.keep, renamed=comparison.renamed)
    if len(existing) > 1:
        listed = [{"is": "ref", "to": cls.__name__} for cls in existing]
        assert sorted(listed, key=str) == sorted(official["of"], key=str)  # type: ignore[arg-type]  # a list of objects
        return
    ours = comparison.of_ours(existing[0].__name__)
    # Inline params do not repeat the members that all params have.
    members(official).setdefault("_meta", members(ours)["_meta"])
    if params is None or official["is"] == "map":
        official = {"is": "object", "members": {"_meta": members(ours)["_meta"]}}
    assert ours == official
    if any(isinstance(each, list) and each[0] for each in members(ours).values()):
        assert "params" in required


@pytest.mark.spec(
    "schema.call-tool-params",
    "schema.call-tool-result",
    "schema.cancelled-params",
    "schema.complete-params",
    "schema.complete-result",
    "schema.create-message-params",
    "schema.create-message-result",
    "schema.elicit-params",
    "schema.get-prompt-params",
    "schema.get-prompt-result",
    "schema.initialize-params",
    "schema.initialize-result",
    "schema.list-prompts-result",
    "schema.list-resources-result",
    "schema.list-roots-result",
    "schema.list-tools-result",
    "schema.log-message-params",
    "schema.progress-params",
    "schema.request-methods-client",
    "schema.request-methods-server",
    "schema.notification-methods-client",
    "schema.notification-methods-server",
    "schema.number-fields-not-integer-only",
    "schema.prompt",
    "schema.resource",
    "schema.resource-template",
    "schema.task",
    "schema.tool",
    "completion.ref-types",
    "jsonrpc.schema-valid-messages",
    "meta.more-types",
    "prompts.prompt-shape",
    "prompts.arguments-strings",
    "sampling.request-shape",
    "sampling.message-shape",
    "sampling.result-shape",
    "sampling.stop-reason-open",
    "sampling.priorities-range",
    "sampling.tool-choice-modes",
    "roots.result-shape",
    "roots.request-shape",
    "elicitation.result-action",
    "schema.annotations",
    "schema.annotations-last-modified",
    "schema.annotations-audience",
    "schema.audio-content",
    "schema.cancelled-params-optional-id",
    "schema.client-capabilities",
    "schema.client-capability-elicitation",
    "schema.client-capability-sampling-details",
    "schema.complete-context",
    "schema.create-message-tools",
    "schema.elicit-enums-2025-11-25",
    "schema.elicit-flat",
    "schema.elicit-form-params",
    "schema.elicit-primitives-2025-06-18",
    "schema.elicit-primitives-2025-11-25",
    "schema.elicitation-complete-params",
    "schema.embedded-resource",
    "schema.icon-src-required",
    "schema.icon-theme-values",
    "schema.icons",
    "schema.image-content",
    "schema.implementation",
    "schema.implementation-details",
    "schema.implementation-title",
    "schema.logging-level",
    "schema.model-preferences",
    "schema.progress-message",
    "schema.request-methods-server-elicitation",
    "schema.resource-annotations",
    "schema.resource-contents",
    "schema.resource-link",
    "schema.resource-request-params",
    "schema.role",
    "schema.sampling-content-kinds-2024-11-05",
    "schema.sampling-content-kinds-2025-03-26",
    "schema.sampling-content-kinds-2025-11-25",
    "schema.server-capabilities",
    "schema.server-capability-completions",
    "schema.set-level-params",
    "schema.text-content",
    "schema.title",
    "schema.tool-annotations",
    "schema.tool-content-kinds-2024-11-05",
    "schema.tool-content-kinds-2025-03-26",
    "schema.tool-content-kinds-2025-06-18",
    "schema.tool-execution",
    "schema.tool-output-schema",
    "schema.tool-result-content",
    "schema.tool-schema-dialect",
    "schema.tool-use-content",
    "schema.empty-result",
    "tools.tool-shape",
    "tools.call-result-shape",
    "tools.call-arguments-object",
)
@needs_schemas
@pytest.mark.parametrize(("source", "name"), list(definitions()))
def test_official_definition_equals_generated_schema(source: str, name: str) -> None:
    comparison = Comparison(source)
    definition = comparison.official[name]
    method = method_of(definition, comparison.official)
    if name in MESSAGE_UNIONS:
        alternatives = definition.get("anyOf", [definition])
        assert isinstance(alternatives, list)
        named = {method_of(each, comparison.official) for each in alternatives if isinstance(each, dict)}
        side = MESSAGE_UNIONS[name]
        requests = {
            row.name for row in methods(comparison.revision).values() if side in row.sender and not row.extension
        }
        notes = {
            row.name
            for row in notifications(comparison.revision).values()
            if side in row.sender_in(comparison.revision) and not row.extension
        }
        assert named == (requests if name.endswith("Request") else notes)
    elif name in ERROR_CODES:
        assert json.dumps({"const": int(ERROR_CODES[name])})[1:-1] in json.dumps(definition)
    elif name in TASK_VARIANTS:
        check_variant(comparison, name)
    elif name in ANY_VARIANT and source == EXTENSION_TASKS:
        text = json.dumps(definition)
        assert all(json.dumps(status) in text for status in get_args(TaskStatus))
        assert method is None or method in notifications(comparison.revision)
    elif comparison.renamed.get(name, name) in comparison.ours:
        check_type(comparison, name, definition)
    elif method is not None:
        check_params(comparison, method, definition)
    elif name.endswith("ResultResponse") and source == R2026_07_28.name and not name.startswith("JSONRPC"):
        result = name.removesuffix("Response")
        row = next(row for row in METHODS if row.result.__name__ == result)
        listed = {f"#/$defs/{cls.__name__}" for kind, cls in row.results(comparison.revision).items() if kind != "task"}
        assert all(each in json.dumps(definition) for each in listed)
        assert json.dumps(definition).count("$ref") == len(listed) + 1  # and the id
    else:
        assert name in NO_CLASS


def check_variant(comparison: Comparison, name: str) -> None:
    """Check a kind of task: `DetailedTask` with one status and one more required member."""
    official = members(comparison.of_official(comparison.official[name]))
    ours = members(comparison.of_ours("DetailedTask"))
    needed = TASK_VARIANTS[name]
    for member, value in official.items():
        our_value = ours[member]
        assert isinstance(value, list)
        assert isinstance(our_value, list)
        if member == "status":
            assert isinstance(value[1], dict)
            assert json.dumps(value[1]["values"])[1:-1] in json.dumps(our_value[1])
        else:
            assert value[1] == our_value[1]
            assert value[0] is (our_value[0] or member == needed)
    assert set(ours) - set(official) == {"inputRequests", "result", "error"} - {needed}


@needs_schemas
def test_class_without_official_definition_has_reason() -> None:
    without: set[str] = set()
    for revision in REVISIONS.values():
        sources = [revision.name, *([EXTENSION_TASKS] if revision is R2026_07_28 else [])]
        named = {RENAMED.get(source, {}).get(name, name) for source in sources for name in load(source)}
        params: list[object] = [row.params for row in methods(revision).values()]
        params += [row.params for row in notifications(revision).values()]
        by_method = [cls for cls in wire_classes(revision) if any(cls in (get_args(p) or (p,)) for p in params)]
        without |= {cls.__name__ for cls in wire_classes(revision) if cls not in by_method} - named - INLINE
    assert without == set(OWN)


@needs_schemas
def test_documented_reasons_concern_existing_names() -> None:
    every = {cls.__name__ for revision in REVISIONS.values() for cls in wire_classes(revision)}
    named = {name for source in SOURCES for name in load(source)}
    assert every >= INLINE
    assert not named & INLINE
    assert named >= NO_CLASS.keys() | ERROR_CODES.keys() | MESSAGE_UNIONS.keys() | TASK_VARIANTS.keys()


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
def test_definition_found_by_name(revision: Revision) -> None:
    for row in METHODS:
        assert (methods(revision).get(row.name) is row) == (revision in row.revisions)
        assert (input_requests(revision).get(row.name) is row) == (revision in row.input_request)
    for note in NOTIFICATIONS:
        assert (notifications(revision).get(note.name) is note) == (revision in note.revisions)


def test_schema_references_exist_in_revision() -> None:
    for revision in REVISIONS.values():
        names = {cls.__name__ for cls in wire_classes(revision)}
        for cls in wire_classes(revision):
            text = json.dumps(schema_of(cls, revision))
            assert {each.split('"')[0] for each in text.split("#/$defs/")[1:]} <= names


def test_unsupported_type_raises() -> None:
    with pytest.raises(TypeError, match="has no form"):
        form_of(set[str])
    with pytest.raises(TypeError, match="has no form"):
        form_of(bytes)
