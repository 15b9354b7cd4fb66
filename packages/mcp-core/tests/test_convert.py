"""Conversion between JSON and the wire types in each revision."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Final, cast

import attrs
import pytest

from mcp_core import types as t
from mcp_core.conversion.converter import converter
from mcp_core.conversion.wire_types import (
    AnyJson,
    Array,
    Ref,
    Scalar,
    ScalarKind,
)
from mcp_core.errors import InvalidValue, LocalProtocolError
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.methods import ELICITATION_CREATE
from mcp_core.revisions import (
    LATEST,
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    REVISIONS,
    Revision,
)

TEXT = t.TextContent(text="hello")


def test_converter_cached_per_revision() -> None:
    assert converter(LATEST) is converter(LATEST)
    assert repr(converter(R2025_06_18)) == "<WireConverter 2025-06-18>"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (True, "expected a number, got a boolean"),
        ("1", "expected a number, got a string"),
        (math.nan, "nan is not a JSON number"),
        (math.inf, "inf is not a JSON number"),
        (None, "expected a value, got null"),
    ],
)
def test_number_of_wrong_type_or_not_finite_rejected(raw: JsonValue, message: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        converter(LATEST).structure({"progressToken": 1, "progress": raw}, t.ProgressNotificationParams)
    assert caught.value.path == "progress"
    assert str(caught.value).endswith(message) or "is missing" in str(caught.value)


def test_integer_with_zero_fraction_accepted() -> None:
    raw: JsonObject = {"uri": "file:///a", "name": "a", "size": 3.0}
    assert repr(converter(LATEST).structure(raw, t.Resource).size) == "3"
    for bad in (3.5, True, "3", math.inf):
        with pytest.raises(InvalidValue, match="size: expected a whole number"):
            converter(LATEST).structure({**raw, "size": bad}, t.Resource)


@pytest.mark.spec("schema.annotations-priority")
def test_number_bounds_checked_in_both_directions() -> None:
    for priority, problem in ((1.5, "1.5 is more than 1"), (-1, "-1 is less than 0")):
        with pytest.raises(InvalidValue, match=f"priority: {problem}"):
            converter(LATEST).structure({"priority": priority}, t.Annotations)
        with pytest.raises(LocalProtocolError, match=f"Annotations.priority: {problem}"):
            converter(LATEST).unstructure(t.Annotations(priority=priority))
    assert converter(LATEST).structure({"priority": 1}, t.Annotations).priority == 1


def test_error_path_names_nested_member() -> None:
    raw: JsonObject = {
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": 5}],
        "resultType": "complete",
    }
    with pytest.raises(InvalidValue) as caught:
        converter(LATEST).structure(raw, t.CallToolResult)
    assert caught.value.path == "content[1].text"
    assert str(caught.value) == "content[1].text: expected a string, got a number"
    assert caught.value.raw is raw


def test_error_path_quotes_names_with_spaces() -> None:
    raw: JsonObject = {"name": "p", "arguments": {"a b": 1}, "_meta": {}}
    with pytest.raises(InvalidValue) as caught:
        converter(LATEST).structure(raw, t.GetPromptRequestParams)
    assert caught.value.path == 'arguments["a b"]'


def test_content_unknown_type_preserved() -> None:
    block: JsonObject = {"type": "hologram", "beam": [1]}
    value = converter(LATEST).structure({"content": [block], "resultType": "complete"}, t.CallToolResult)
    assert value.content == (t.UnknownContent(type="hologram", extra={"beam": [1]}),)
    assert converter(LATEST).unstructure(value)["content"] == [block]


def test_content_type_missing_in_revision_is_unknown_content() -> None:
    raw: JsonObject = {"content": [{"type": "audio", "data": "", "mimeType": "audio/wav"}]}
    (old,) = converter(R2024_11_05).structure(raw, t.CallToolResult).content
    (new,) = converter(R2025_03_26).structure(raw, t.CallToolResult).content
    assert isinstance(old, t.UnknownContent)
    assert isinstance(new, t.AudioContent)


@pytest.mark.spec("schema.sampling-content-kinds-2025-03-26")
@pytest.mark.parametrize(
    ("revision", "value", "place"),
    [
        (R2024_11_05, t.CallToolResult(content=(TEXT, t.AudioContent(data="", mime_type="a/b"))), r"content\[1\]"),
        (R2025_03_26, t.CallToolResult(content=(t.ResourceLink(uri="a:b", name="b"),)), r"content\[0\]"),
        (R2025_06_18, t.SamplingMessage(role="user", content=(TEXT,)), "content"),
        (R2025_06_18, t.CreateMessageRequestParams(messages=(), max_tokens=1, tools=()), "tools"),
        (R2025_06_18, t.CallToolRequestParams(name="a", task=t.TaskMetadata()), "task"),
        (R2026_07_28, t.CallToolRequestParams(name="a", task=t.TaskMetadata()), "task"),
        (R2025_11_25, t.CallToolRequestParams(name="a", request_state=""), "requestState"),
        (R2025_11_25, t.CallToolResult(content=(), structured_content=[1]), "structuredContent"),
        (R2025_06_18, t.ElicitResult(action="accept", content={"a": ("x",)}), "content.a"),
        (R2025_11_25, t.ElicitRequestURLParams(message="a", url="https://a.example"), "elicitationId"),
    ],
)
def test_value_incompatible_with_older_revision_raises(revision: Revision, value: t.WireObject, place: str) -> None:
    with pytest.raises(LocalProtocolError, match=rf"^{type(value).__name__}\.{place}: .*revision {revision}"):
        converter(revision).unstructure(value)


def test_optional_member_missing_in_older_revision_omitted() -> None:
    result = t.CallToolResult(
        content=(t.TextContent(text="a", meta={"k": 1}),), structured_content={"a": 1}, meta={"m": 1}
    )
    assert converter(R2024_11_05).unstructure(result) == {
        "_meta": {"m": 1},
        "content": [{"type": "text", "text": "a"}],
    }
    assert converter(R2026_07_28).unstructure(result) == {
        "_meta": {"m": 1},
        "resultType": "complete",
        "structuredContent": {"a": 1},
        "content": [{"type": "text", "text": "a", "_meta": {"k": 1}}],
    }


def test_type_missing_in_revision_raises_in_both_directions() -> None:
    with pytest.raises(LocalProtocolError, match="revision 2024-11-05 has no AudioContent"):
        converter(R2024_11_05).unstructure(t.AudioContent(data="", mime_type=""))
    with pytest.raises(LocalProtocolError, match="revision 2024-11-05 has no AudioContent"):
        converter(R2024_11_05).structure({}, t.AudioContent)


@pytest.mark.spec("tools.structured-client-any-json", "tools.structured-any-json")
def test_null_structured_content_allowed_where_any_json_is() -> None:
    raw: JsonObject = {"content": [], "structuredContent": None, "resultType": "complete"}
    assert converter(R2026_07_28).structure(raw, t.CallToolResult).structured_content is None
    assert converter(R2026_07_28).unstructure(t.CallToolResult(content=(), structured_content=None)) == raw
    old = converter(R2025_06_18).structure({"content": [], "structuredContent": None}, t.CallToolResult)
    assert old.structured_content is t.ABSENT


def test_null_task_ttl_means_unlimited() -> None:
    raw: JsonObject = {"taskId": "1", "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttl": None}
    task = converter(R2025_11_25).structure(raw, t.Task)
    assert task.ttl is None
    assert converter(R2025_11_25).unstructure(task) == raw
    with pytest.raises(InvalidValue, match="ttl: is missing"):
        converter(R2025_11_25).structure({k: v for k, v in raw.items() if k != "ttl"}, t.Task)


@pytest.mark.parametrize("data", [None, False, 0, "", [], {}])
def test_log_data_any_json_accepted(data: JsonValue) -> None:
    raw: JsonObject = {"level": "info", "data": data}
    value = converter(LATEST).structure(raw, t.LoggingMessageNotificationParams)
    assert converter(LATEST).unstructure(value) == raw


def test_task_missing_member_for_status_rejected() -> None:
    raw: JsonObject = {"taskId": "1", "status": "failed", "createdAt": "", "lastUpdatedAt": "", "ttlMs": None}
    with pytest.raises(InvalidValue, match="error: is missing"):
        converter(LATEST).structure(raw, t.DetailedTask)
    bare = t.DetailedTask(task_id="1", status="completed", created_at="", last_updated_at="", ttl_ms=None)
    with pytest.raises(LocalProtocolError, match="result: is missing"):
        converter(LATEST).unstructure(bare)
    assert converter(LATEST).unstructure(attrs.evolve(bare, result={}))["result"] == {}


@pytest.mark.spec("mrtr.at-least-one-field")
def test_input_required_result_without_requests_and_state_rejected() -> None:
    convert = converter(LATEST)
    with pytest.raises(InvalidValue, match="must have inputRequests or requestState"):
        convert.structure({"resultType": "input_required"}, t.InputRequiredResult)
    with pytest.raises(LocalProtocolError, match="InputRequiredResult: must have inputRequests or requestState"):
        convert.unstructure(t.InputRequiredResult())
    for value in (t.InputRequiredResult(request_state=""), t.InputRequiredResult(input_requests={})):
        assert convert.structure(convert.unstructure(value), t.InputRequiredResult) == value


@pytest.mark.spec(
    "elicitation.absent-mode-is-form",
    "elicitation.mode-default-form",
    "elicitation.mode-omission",
    "elicitation.mode-values",
)
@pytest.mark.parametrize(
    ("raw", "cls"),
    [
        ({"message": "a", "requestedSchema": {"type": "object", "properties": {}}}, t.ElicitRequestFormParams),
        (
            {"mode": "form", "message": "a", "requestedSchema": {"type": "object", "properties": {}}},
            t.ElicitRequestFormParams,
        ),
        ({"mode": "url", "message": "a", "url": "https://a.example", "elicitationId": "1"}, t.ElicitRequestURLParams),
    ],
)
def test_elicitation_modes_distinguished(raw: JsonObject, cls: type[object]) -> None:
    value = converter(R2025_11_25).structure(raw, ELICITATION_CREATE.params)
    assert type(value) is cls
    if cls is t.ElicitRequestFormParams:
        assert type(converter(R2025_06_18).structure(raw, ELICITATION_CREATE.params)) is cls


@pytest.mark.parametrize(
    ("raw", "cls"),
    [
        ({"type": "string"}, t.StringSchema),
        ({"type": "string", "enum": ["a"]}, t.UntitledSingleSelectEnumSchema),
        ({"type": "string", "enum": ["a"], "enumNames": ["A"]}, t.LegacyTitledEnumSchema),
        ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, t.TitledSingleSelectEnumSchema),
        ({"type": "integer", "minimum": 1}, t.NumberSchema),
        ({"type": "number"}, t.NumberSchema),
        ({"type": "boolean"}, t.BooleanSchema),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}}, t.UntitledMultiSelectEnumSchema),
        ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}, t.TitledMultiSelectEnumSchema),
    ],
)
@pytest.mark.spec("elicitation.form-schema-flat")
def test_form_fields_distinguished_by_type(raw: JsonObject, cls: type[object]) -> None:
    form = converter(LATEST).structure({"type": "object", "properties": {"f": raw}}, t.RequestedSchema)
    assert type(form.properties["f"]) is cls
    assert converter(LATEST).unstructure(form)["properties"] == {"f": raw}


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"type": "object"}, "expected one of 'string', 'boolean', 'array', 'number', 'integer', got 'object'"),
        ({}, "type: is missing"),
        ({"type": "array"}, "f.type: expected one of"),
        ("x", "expected an object, got a string"),
    ],
)
def test_form_field_unsupported_rejected(field: JsonValue, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        converter(LATEST).structure({"type": "object", "properties": {"f": field}}, t.RequestedSchema)


def test_resource_contents_text_or_blob() -> None:
    for raw, cls in (({"text": "a"}, t.TextResourceContents), ({"blob": "YQ=="}, t.BlobResourceContents)):
        value = converter(R2025_06_18).structure({"contents": [{"uri": "a:b", **raw}]}, t.ReadResourceResult)
        assert type(value.contents[0]) is cls
    with pytest.raises(InvalidValue, match="is not one of TextResourceContents, BlobResourceContents"):
        converter(R2025_06_18).structure({"contents": [{"uri": "a:b"}]}, t.ReadResourceResult)


def test_input_responses_distinguished_by_members() -> None:
    responses: JsonObject = {
        "a": {"action": "decline"},
        "b": {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"},
        "c": {"roots": []},
    }
    raw: JsonObject = {"name": "t", "inputResponses": responses, "_meta": {}}
    found = converter(LATEST).structure(raw, t.CallToolRequestParams).input_responses
    assert found is not None
    assert [type(each) for each in found.values()] == [t.ElicitResult, t.CreateMessageResult, t.ListRootsResult]


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({}, "inputSchema.type"),
        ({"type": "string"}, "inputSchema.type"),
        ({"type": "object", "properties": []}, "inputSchema.properties"),
        ({"type": "object", "required": None}, "inputSchema.required"),
        ({"type": "object", "required": [1]}, "inputSchema.required"),
        (True, "inputSchema"),
    ],
)
def test_input_schema_not_object_rejected(schema: JsonValue, path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        converter(LATEST).structure({"name": "a", "inputSchema": schema}, t.Tool)
    assert caught.value.path == path


@pytest.mark.spec("tools.output-schema-any")
def test_output_schema_must_describe_object_until_2025_11_25() -> None:
    raw: JsonObject = {"name": "a", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}}
    assert converter(R2026_07_28).structure(raw, t.Tool).output_schema == {"type": "array"}
    with pytest.raises(InvalidValue, match=r"outputSchema\.type"):
        converter(R2025_11_25).structure(raw, t.Tool)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (t.TextContent(text=cast("str", 5)), "TextContent.text: expected a string, got a number"),
        (t.PromptArgument(name="a", required=cast("bool", "x")), "required: expected a boolean, got a string"),
        (t.ListRootsResult(roots=cast("tuple[t.Root, ...]", "abc")), "roots: expected an array, got a string"),
        (t.ListRootsResult(roots=cast("tuple[t.Root, ...]", ({},))), r"roots\[0\]: expected a Root, got an object"),
        (
            t.SetLevelRequestParams(level=cast("t.LoggingLevel", "loud")),
            "level: expected one of 'debug', .*, got 'loud'",
        ),
        (t.Resource(uri="a:b", name="b", size=cast("int", b"")), "size: expected a whole number, got bytes"),
        (t.ClientCapabilities(experimental=cast("dict[str, JsonObject]", [])), "experimental: expected an object"),
        (t.ClientCapabilities(experimental={"a": cast("JsonObject", 1)}), "experimental.a: expected an object"),
        (t.PromptMessage(role="user", content=cast("t.TextContent", None)), "content: expected TextContent or"),
        (t.Tool(name="a", input_schema={}), r"inputSchema\.type: is missing"),
    ],
)
def test_value_of_wrong_type_raises_on_unstructure(value: t.WireObject, message: str) -> None:
    with pytest.raises(LocalProtocolError, match=message):
        converter(R2025_11_25).unstructure(value)


def test_list_unstructured_like_tuple() -> None:
    roots = t.ListRootsResult(roots=cast("tuple[t.Root, ...]", [t.Root(uri="file:///")]))
    assert converter(LATEST).unstructure(roots) == {"roots": [{"uri": "file:///"}]}


def test_known_member_overrides_extra_of_same_name() -> None:
    value = t.Resource(uri="a:b", name="b", title="new", extra={"title": "old", "x": 1})
    assert converter(LATEST).unstructure(value)["title"] == "new"
    assert converter(R2024_11_05).unstructure(value)["title"] == "old"


def test_error_for_scalar_choice_names_types() -> None:
    with pytest.raises(InvalidValue, match="progressToken: expected a number or a string, got a boolean"):
        converter(LATEST).structure({"progressToken": True, "progress": 1}, t.ProgressNotificationParams)


def test_problem_returns_path_and_cause() -> None:
    convert = converter(LATEST)
    assert convert.problem({"uri": "file:///"}, Ref(t.Root)) is None
    assert convert.problem({}, Ref(t.Root)) == "uri: is missing"
    assert convert.problem(5, Ref(t.Root)) == "expected an object, got a number"
    assert convert.problem([None, 5], Array(AnyJson())) is None
    assert convert.problem("yes", Scalar(ScalarKind.BOOLEAN)) == "expected a boolean, got a string"


@pytest.mark.spec("schema.elicit-result", "schema.elicit-result-arrays", "elicitation.content-values")
def test_elicit_result_content_types_round_trip() -> None:
    content: JsonObject = {"a": "x", "b": 1, "c": 2.5, "d": False, "e": ["x", "y"]}
    raw: JsonObject = {"action": "accept", "content": content}
    value = converter(R2025_11_25).structure(raw, t.ElicitResult)
    assert value.content == {"a": "x", "b": 1, "c": 2.5, "d": False, "e": ("x", "y")}
    assert converter(R2025_11_25).unstructure(value) == raw


def test_wire_object_is_frozen() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        TEXT.text = "b"  # type: ignore[misc]  # the test assigns to a frozen attribute


def test_extension_type_converted() -> None:
    @t.wire(since=R2026_07_28)
    class Move(t.RequestParams):
        to_square: str
        promotes: bool = t.field(default=False, name="isPromotion")

    raw: JsonObject = {"toSquare": "e8", "isPromotion": True, "_meta": {}, "clock": 5}
    move = converter(LATEST).structure(raw, Move)
    assert move == Move(to_square="e8", promotes=True, meta={}, extra={"clock": 5})
    assert converter(LATEST).unstructure(move) == raw
    with pytest.raises(LocalProtocolError, match="revision 2025-11-25 has no Move"):
        converter(R2025_11_25).unstructure(move)


# --- defaults that a peer sent explicitly ------------------------------------------------------------------------------

TEXT_BLOCK: Final[JsonObject] = {"type": "text", "text": "x"}
EMPTY_FORM: Final[JsonObject] = {"type": "object", "properties": {}}


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
@pytest.mark.parametrize("extra", [{}, {"unknown": 1}], ids=["", "unknown member"])
def test_explicit_default_is_sent_again(revision: Revision, extra: JsonObject) -> None:
    known = converter(revision)
    common: JsonObject = {"resultType": "complete"} if revision is R2026_07_28 else {}
    sent: JsonObject = {"content": [TEXT_BLOCK], "isError": False, **common, **extra}
    value, _ = known.receive(sent, t.CallToolResult)
    assert known.unstructure(value) == sent
    assert known.unstructure(attrs.evolve(value, is_error=True)) == {**sent, "isError": True}
    assert known.unstructure(copy.deepcopy(value)) == sent
    assert known.unstructure(pickle.loads(pickle.dumps(value))) == sent
    implicit, _ = known.receive({name: member for name, member in sent.items() if name != "isError"}, t.CallToolResult)
    assert value == implicit
    assert implicit == value
    assert "isError" not in known.unstructure(implicit)


def test_explicit_default_is_not_sent_to_revision_without_member() -> None:
    sent: JsonObject = {"message": "Well?", "mode": "form", "requestedSchema": EMPTY_FORM}
    value, _ = converter(R2025_11_25).receive(sent, t.ElicitRequestFormParams)
    assert converter(R2025_11_25).unstructure(value) == sent
    assert "mode" not in converter(R2025_06_18).unstructure(value)
