"""Compatibility repairs: tolerated deviations of peers, and the notes about them."""

from __future__ import annotations

import copy
import sys
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core import types as t
from mcp_core.conversion.converter import converter
from mcp_core.conversion.repairs import DESCRIPTIVE, LISTS, REPAIRS
from mcp_core.conversion.wire_types import wire_class
from mcp_core.errors import InvalidValue
from mcp_core.json_schema import wire_classes
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.methods import ELICITATION_CREATE
from mcp_core.revisions import R2025_06_18, R2025_11_25, R2026_07_28, REVISIONS, Revision

SCHEMA: JsonObject = {"type": "object"}


def initialize_result(**server: JsonValue) -> JsonObject:
    return {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "a", "version": "1"}, **server}


def test_correct_value_has_no_notes() -> None:
    value, notes = converter(R2025_06_18).receive(initialize_result(), t.InitializeResult)
    assert value.server_info == t.Implementation(name="a", version="1")
    assert notes == ()


@pytest.mark.parametrize("absent", [None, "nextCursor", "_meta", "annotations"])
def test_null_for_absent_member_accepted_without_note(absent: str | None) -> None:
    tool: JsonObject = {"name": "a", "inputSchema": SCHEMA, "annotations": None, "description": None, "_meta": None}
    value, notes = converter(R2025_06_18).receive(
        {"tools": [tool], "nextCursor": None, "_meta": None}, t.ListToolsResult
    )
    assert value == t.ListToolsResult(tools=(t.Tool(name="a", input_schema=SCHEMA),))
    assert notes == ()
    assert absent is None or absent not in repr(value)


@pytest.mark.parametrize(
    ("raw", "value", "place"),
    [
        (
            initialize_result(capabilities={"tools": True, "logging": True, "prompts": None}),
            t.ServerCapabilities(tools=t.ToolsCapability(), logging={}),
            "capabilities.tools",
        ),
        (initialize_result(capabilities={"resources": False}), t.ServerCapabilities(), "capabilities.resources"),
        (
            initialize_result(capabilities={"tools": {"listChanged": {}}}),
            t.ServerCapabilities(tools=t.ToolsCapability(list_changed=True)),
            "capabilities.tools.listChanged",
        ),
        (initialize_result(capabilities=None), t.ServerCapabilities(), "capabilities"),
    ],
)
def test_capability_flags_repaired(raw: JsonObject, value: t.ServerCapabilities, place: str) -> None:
    found, notes = converter(R2025_06_18).receive(raw, t.InitializeResult)
    assert found.capabilities == value
    assert notes[0].startswith(f"{place}: ")


@pytest.mark.parametrize(
    ("info", "value"),
    [
        ({"name": "a"}, t.Implementation(name="a", version="")),
        ({"version": "1"}, t.Implementation(name="", version="1")),
        ({"name": "a", "version": 1.0}, t.Implementation(name="a", version="")),
        (None, t.Implementation(name="", version="")),
    ],
)
def test_server_info_incomplete_repaired(info: JsonValue, value: t.Implementation) -> None:
    found, notes = converter(R2025_06_18).receive(initialize_result(serverInfo=info), t.InitializeResult)
    assert found.server_info == value
    assert notes


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, {"type": "object"}),
        (None, {"type": "object"}),
        (True, {"type": "object"}),
        ({"properties": {"a": True}}, {"type": "object", "properties": {"a": True}}),
        ({"type": "object", "required": None, "properties": None}, {"type": "object"}),
        ({"type": None}, {"type": "object"}),
    ],
)
def test_input_schema_incomplete_completed(schema: JsonValue, expected: JsonObject) -> None:
    raw: JsonObject = {"tools": [{"name": "a", "inputSchema": schema}]}
    before = copy.deepcopy(raw)
    found, notes = converter(R2025_06_18).receive(raw, t.ListToolsResult)
    assert found.tools[0].input_schema == expected
    assert notes[0].startswith("tools[0].inputSchema: ")
    assert raw == before


@pytest.mark.spec("schema.input-keywords-preserved")
def test_boolean_subschemas_and_older_dialects_accepted_without_note() -> None:
    schema: JsonObject = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": True},
        "definitions": {},
    }
    found, notes = converter(R2025_06_18).receive({"tools": [{"name": "a", "inputSchema": schema}]}, t.ListToolsResult)
    assert found.tools[0].input_schema == schema
    assert notes == ()


@pytest.mark.parametrize(
    ("schema", "expected"), [(True, None), ({}, None), ({"properties": {}}, {"type": "object", "properties": {}})]
)
def test_output_schema_empty_removed(schema: JsonValue, expected: JsonObject | None) -> None:
    tool: JsonObject = {"name": "a", "inputSchema": SCHEMA, "outputSchema": schema}
    found, notes = converter(R2025_06_18).receive(tool, t.Tool)
    assert found.output_schema == expected
    assert notes


def test_invalid_tool_removed_from_list() -> None:
    raw: JsonObject = {"tools": [{"inputSchema": SCHEMA}, {"name": "b", "inputSchema": SCHEMA}, "x"]}
    found, notes = converter(R2025_06_18).receive(raw, t.ListToolsResult)
    assert [tool.name for tool in found.tools] == ["b"]
    assert notes == (
        "tools[0]: left out: name: is missing",
        "tools[2]: left out: expected an object, got a string",
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, ()),
        ({"type": "text", "text": "a"}, (t.TextContent(text="a"),)),
        ("a", (t.TextContent(text="a"),)),
    ],
)
def test_structured_content_without_content_accepted(content: JsonValue, expected: tuple[t.ContentBlock, ...]) -> None:
    found, notes = converter(R2025_06_18).receive({"content": content, "structuredContent": {"a": 1}}, t.CallToolResult)
    assert found.content == expected
    assert found.structured_content == {"a": 1}
    assert notes == ("content: the content is an array of blocks",)


@pytest.mark.parametrize(
    ("raw", "cls"),
    [
        ({"tools": [{}] * 100_000}, t.ListToolsResult),
        ({"tools": [{"name": "a", "inputSchema": {}}] * 100_000}, t.ListToolsResult),
        ({"content": [{}] * 100_000}, t.CallToolResult),
        ({"roots": [{}] * 100_000}, t.ListRootsResult),
    ],
)
def test_value_with_too_many_deviations_rejected_early(raw: JsonObject, cls: type[t.WireObject]) -> None:
    repaired = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal repaired
        repaired += event == "call" and frame.f_code.co_name in {"_object", "_note"}

    sys.setprofile(count)
    try:
        with pytest.raises(InvalidValue):
            converter(R2025_11_25).receive(raw, cls)
    finally:
        sys.setprofile(None)
    assert repaired <= 21_010


def test_value_with_many_deviations_repaired() -> None:
    good: list[JsonValue] = [{"name": "a", "inputSchema": {"type": "object"}}] * 5_000
    wrong: list[JsonValue] = [{}] * 400
    value, notes = converter(R2025_11_25).receive({"tools": [*good, *wrong]}, t.ListToolsResult)
    assert len(value.tools) == 5_000
    assert len(notes) == 2 * 400


def test_content_not_array_rejected() -> None:
    with pytest.raises(InvalidValue, match="content: expected an array, got a number"):
        converter(R2025_06_18).receive({"content": 5}, t.CallToolResult)


def test_structured_content_not_object_removed_where_required() -> None:
    found, notes = converter(R2025_11_25).receive({"content": [], "structuredContent": [1]}, t.CallToolResult)
    assert found.structured_content is t.ABSENT
    assert notes == ("structuredContent: left out: expected an object, got an array",)


@pytest.mark.parametrize(
    ("level", "expected"),
    [("WARN", "warning"), ("Error", "error"), ("fatal", "critical"), ("loud", "info"), (3, "info")],
)
def test_log_level_unknown_mapped_to_nearest(level: JsonValue, expected: str) -> None:
    found, notes = converter(R2025_06_18).receive({"level": level, "data": 1}, t.LoggingMessageNotificationParams)
    assert found.level == expected
    assert len(notes) == 1


def test_log_message_without_level_and_data_repaired() -> None:
    found, notes = converter(R2025_06_18).receive({}, t.LoggingMessageNotificationParams)
    assert (found.level, found.data) == ("info", None)
    assert len(notes) == 2


@pytest.mark.parametrize(
    ("raw", "ttl", "scope"),
    [
        ({}, 0, "private"),
        ({"ttlMs": -5, "cacheScope": "public"}, 0, "public"),
        ({"ttlMs": 2.9, "cacheScope": "shared"}, 2, "private"),
        ({"ttlMs": "7", "cacheScope": 1}, 0, "private"),
        ({"ttlMs": True, "cacheScope": None}, 0, "private"),
        ({"ttlMs": float("inf")}, 0, "private"),
    ],
)
@pytest.mark.spec("caching.negative-ttl-zero", "caching.absent-ttl-zero", "jsonrpc.result-type-absent-is-complete")
def test_cache_hints_invalid_mean_no_caching(raw: JsonObject, ttl: int, scope: str) -> None:
    found, notes = converter(R2026_07_28).receive({"tools": [], **raw}, t.ListToolsResult)
    assert (found.ttl_ms, found.cache_scope, found.result_type) == (ttl, scope, "complete")
    assert "resultType: the result type is missing; read as complete" in notes


@pytest.mark.parametrize(("size", "expected", "noted"), [(3.7, 3, True), (float("nan"), None, True), ("3", None, True)])
def test_size_not_integer_rounded_or_removed(size: JsonValue, expected: int | None, *, noted: bool) -> None:
    found, notes = converter(R2025_06_18).receive({"uri": "a:b", "name": "a", "size": size}, t.Resource)
    assert found.size == expected
    assert bool(notes) is noted


def test_integer_with_zero_fraction_accepted_beside_repair() -> None:
    raw: JsonObject = {"uri": "a:b", "name": "a", "size": 3.0, "title": 5}
    found, notes = converter(R2025_06_18).receive(raw, t.Resource)
    assert found.size == 3
    assert notes == ("title: left out: expected a string, got a number",)


def test_annotations_out_of_bounds_clamped() -> None:
    raw: JsonObject = {"priority": 7, "audience": ["user", "robot", {}], "lastModified": 5}
    block: JsonObject = {"type": "text", "text": "a", "annotations": raw}
    found, notes = converter(R2025_06_18).receive({"content": [block]}, t.CallToolResult)
    assert found.content == (t.TextContent(text="a", annotations=t.Annotations(priority=1, audience=("user",))),)
    assert len(notes) == 3


def test_prompt_message_as_string_with_unknown_role_repaired() -> None:
    found, notes = converter(R2025_06_18).receive({"messages": [{"role": "system", "content": "a"}]}, t.GetPromptResult)
    assert found.messages == (t.PromptMessage(role="assistant", content=t.TextContent(text="a")),)
    assert len(notes) == 2


def test_sampling_content_blocks_repaired() -> None:
    raw: JsonObject = {
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "a", "annotations": []}, {"type": 5}],
    }
    with pytest.raises(InvalidValue, match=r"content\[1\]"):
        converter(R2025_11_25).receive(raw, t.CreateMessageResult)
    raw["content"] = [{"type": "text", "text": "a", "annotations": []}]
    found, notes = converter(R2025_11_25).receive(raw, t.CreateMessageResult)
    assert found.content == (t.TextContent(text="a"),)
    assert notes == ("content[0].annotations: left out: expected an object, got an array",)


def test_icon_sizes_as_string_split() -> None:
    raw: JsonObject = {
        "name": "a",
        "version": "1",
        "icons": [{"src": "data:,", "sizes": "16x16 32x32", "theme": "red"}],
    }
    found, notes = converter(R2025_11_25).receive(raw, t.Implementation)
    assert found.icons == (t.Icon(src="data:,", sizes=("16x16", "32x32")),)
    assert len(notes) == 2


def test_elicitation_action_unknown_read_as_cancel() -> None:
    found, notes = converter(R2025_06_18).receive({"action": "dismiss"}, t.ElicitResult)
    assert found.action == "cancel"
    assert notes


@pytest.mark.parametrize(
    ("revision", "raw", "cls", "path"),
    [
        (R2025_06_18, {"name": 5}, t.CallToolRequestParams, "name"),
        (R2025_06_18, {"name": "a", "arguments": []}, t.CallToolRequestParams, "arguments"),
        (R2025_06_18, {"name": "a", "arguments": {"b": 1}}, t.GetPromptRequestParams, "arguments.b"),
        (R2025_06_18, [], t.ListToolsResult, ""),
        (R2025_06_18, {"tools": {}}, t.ListToolsResult, "tools"),
        (R2025_06_18, {"tools": [], "nextCursor": 5}, t.ListToolsResult, "nextCursor"),
        (R2026_07_28, {"name": "a"}, t.CallToolRequestParams, "_meta"),
        (R2026_07_28, {"method": "x"}, t.InputRequest, "method"),
        (R2026_07_28, "x", t.InputRequest, ""),
        (R2026_07_28, {"progressToken": [], "progress": 1}, t.ProgressNotificationParams, "progressToken"),
    ],
)
def test_essential_member_not_repaired(revision: Revision, raw: JsonValue, cls: type[object], path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        converter(revision).receive(raw, cls)
    assert caught.value.path == path
    assert caught.value.raw is raw


def test_unrepairable_value_raises_with_raw_value() -> None:
    raw: JsonObject = {"protocolVersion": 5, "capabilities": True}
    with pytest.raises(InvalidValue, match="protocolVersion") as caught:
        converter(R2025_06_18).receive(raw, t.InitializeResult)
    assert caught.value.raw is raw


def test_union_repaired_as_matching_class() -> None:
    raw: JsonObject = {
        "message": "a",
        "requestedSchema": {"type": "object", "properties": {"a": {"type": "string", "format": "phone", "title": 5}}},
    }
    found, notes = converter(R2025_06_18).receive(raw, ELICITATION_CREATE.params)
    assert isinstance(found, t.ElicitRequestFormParams)
    assert found.requested_schema.properties == {"a": t.StringSchema()}
    assert len(notes) == 2


def test_repair_tables_name_existing_members() -> None:
    names = {
        member.wire
        for revision in REVISIONS.values()
        for cls in wire_classes(revision)
        for member in wire_class(cls, revision).members
    }
    assert names >= DESCRIPTIVE
    assert {member for _, member in LISTS} <= names
    assert {row.member for row in REPAIRS} <= names | {"*"}


@pytest.mark.property
@given(
    raw=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda children: (
            st.lists(children, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "tools",
                        "name",
                        "inputSchema",
                        "content",
                        "type",
                        "text",
                        "annotations",
                        "priority",
                        "icons",
                        "size",
                    ]
                ),
                children,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
    cls=st.sampled_from(wire_classes(R2026_07_28)),
)
def test_arbitrary_value_repaired_or_rejected(raw: JsonValue, cls: type[t.WireObject]) -> None:
    try:
        value, _ = converter(R2026_07_28).receive(raw, cls)
    except InvalidValue:
        return
    assert isinstance(value, cls)
    assert converter(R2026_07_28).receive(converter(R2026_07_28).unstructure(value), cls) == (value, ())
