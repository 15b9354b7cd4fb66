"""The `x-mcp-header` annotations of a schema: valid annotations are found, invalid ones are rejected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.http.header_parameters import InvalidParamHeader, ParamHeader, param_headers
from mcp_core.jsonrpc.messages import JsonObject, JsonValue


def _schema(**properties: JsonValue) -> JsonObject:
    return {"type": "object", "properties": dict(properties)}


def _annotated(header: JsonValue = "Region", kind: JsonValue = "string") -> JsonObject:
    return {"type": kind, "x-mcp-header": header}


def _get_rejection(schema: JsonObject) -> str:
    with pytest.raises(InvalidParamHeader) as caught:
        param_headers(schema)
    assert str(caught.value) == f"{caught.value.path}: x-mcp-header {caught.value.reason}"
    assert str(caught.value).isascii()
    assert len(str(caught.value)) < 500
    return str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        _schema(a={"type": "string"}, b=True, c={"$ref": "#/$defs/x"}),
        {"properties": None},
        {"properties": []},
        {"properties": {"a": {"properties": "text"}}},
        {"allOf": [{"type": "object"}, True, [{"x-mcp-header": "in a list in a list, where no schema is"}]]},
    ],
)
def test_schema_without_annotations_has_no_header_params(schema: JsonObject) -> None:
    assert param_headers(schema) == ()


@pytest.mark.spec("header.xmcp-valid-not-rejected", "header.param-server-may-designate")
def test_annotations_found_with_type_and_path() -> None:
    schema = _schema(
        zone=_annotated("Zone", "integer"),
        address=_schema(city=_annotated("City"), deep=_schema(flag=_annotated("flag", "boolean"))),
        region=_annotated(),
        query={"type": "number"},
    )
    assert param_headers(schema) == (
        ParamHeader("City", ("address", "city"), "string"),
        ParamHeader("flag", ("address", "deep", "flag"), "boolean"),
        ParamHeader("Region", ("region",), "string"),
        ParamHeader("Zone", ("zone",), "integer"),
    )
    assert [param.name for param in param_headers(schema)] == [
        "mcp-param-city", "mcp-param-flag", "mcp-param-region", "mcp-param-zone",
    ]  # fmt: skip


@pytest.mark.spec("header.xmcp-valid-not-rejected", "header.xmcp-standard-name-allowed")
@pytest.mark.parametrize("header", ["Method", "Name", "a", "X_y.z", "!#$%&'*+-.^_`|~09Az", "x" * 100])
def test_annotation_any_token_accepted(header: str) -> None:
    assert [param.header for param in param_headers(_schema(a=_annotated(header)))] == [header]


def test_annotation_beside_reference_accepted() -> None:
    schema = _schema(a={**_annotated(), "$ref": "#/$defs/x"}) | {"$defs": {"x": {"type": "string"}}}
    assert param_headers(schema) == (ParamHeader("Region", ("a",), "string"),)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"x-mcp-header": {"type": "string"}}},
        {"$defs": {"x-mcp-header": {"type": "string"}}},
        {"patternProperties": {"x-mcp-header": {"type": "string"}}},
        {"dependentSchemas": {"x-mcp-header": {"type": "string"}}},
        {"dependencies": {"x-mcp-header": {}, "a": ["x-mcp-header"]}},
    ],
)
def test_property_named_like_annotation_ignored(schema: JsonObject) -> None:
    assert param_headers(schema) == ()


def test_property_named_like_annotation_with_annotation_found() -> None:
    schema = _schema(**{"x-mcp-header": _annotated("H")})
    assert param_headers(schema) == (ParamHeader("H", ("x-mcp-header",), "string"),)


def test_property_named_like_keyword_found() -> None:
    schema = _schema(properties=_schema(properties=_annotated()), enum=_annotated("E"))
    assert [param.path for param in param_headers(schema)] == [("enum",), ("properties", "properties")]


@pytest.mark.parametrize("keyword", ["default", "const", "example"])
def test_annotation_in_data_ignored(keyword: str) -> None:
    assert param_headers(_schema(a={"type": "object", keyword: {"x-mcp-header": "no", "a": _annotated()}})) == ()


@pytest.mark.parametrize("keyword", ["enum", "examples"])
def test_annotation_in_list_of_data_ignored(keyword: str) -> None:
    assert param_headers(_schema(a={"type": "object", keyword: [{"x-mcp-header": "no"}]})) == ()


@pytest.mark.spec("header.xmcp-client-rejects-empty", "header.xmcp-not-empty", "header.xmcp-client-rejects-invalid")
def test_annotation_empty_rejected() -> None:
    assert _get_rejection(_schema(a=_annotated(""))) == "inputSchema/properties/a: x-mcp-header is empty"


@pytest.mark.spec("header.xmcp-client-rejects-bad-token", "header.xmcp-token-syntax", "header.xmcp-no-control-chars")
@pytest.mark.parametrize(
    "header",
    ["a b", "a:b", "a/b", "(a)", "a@b", "ü", "a\r\nX: y", "a\x00", "a\n", "\t", '"a"', "a,b", "{a}", "a=b", "\u212a"],
)
def test_annotation_not_token_rejected(header: str) -> None:
    assert "characters that are not allowed in a header name" in _get_rejection(_schema(a=_annotated(header)))


@pytest.mark.spec("header.xmcp-client-rejects-non-string")
@pytest.mark.parametrize("header", [None, 1, True, 1.5, [], ["a"], {}, {"a": "b"}])
def test_annotation_not_string_rejected(header: JsonValue) -> None:
    assert "not a string" in _get_rejection(_schema(a=_annotated(header)))


@pytest.mark.spec("header.xmcp-client-rejects-duplicate", "header.xmcp-unique-case-insensitive")
@pytest.mark.parametrize("other", ["Region", "REGION", "region"])
def test_annotation_repeated_ignoring_case_rejected(other: str) -> None:
    assert "is already used by" in _get_rejection(_schema(a=_annotated(), b=_annotated(other)))
    assert "is already used by" in _get_rejection(_schema(a=_annotated(), b=_schema(c=_annotated(other))))


@pytest.mark.spec("header.xmcp-client-rejects-non-primitive", "header.xmcp-client-rejects-number")
@pytest.mark.spec("header.xmcp-primitive-only")
@pytest.mark.parametrize("kind", ["number", "object", "array", "null", "String", "", None, ["string", "null"], 5])
def test_annotation_on_other_type_rejected(kind: JsonValue) -> None:
    message = _get_rejection(_schema(a=_annotated(kind=kind)))
    assert message.endswith(f"is on a property of type {kind!a}; allowed types: string, integer, boolean")


def test_annotation_without_type_rejected() -> None:
    assert "is on a property of type None" in _get_rejection(_schema(a={"x-mcp-header": "A"}))


@pytest.mark.spec("header.xmcp-client-rejects-unreachable", "header.xmcp-statically-reachable")
@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (_schema(a={"type": "array", "items": _annotated()}), "properties/a/items"),
        (_schema(a={"prefixItems": [True, _annotated()]}), "properties/a/prefixItems/1"),
        (_schema(a={"anyOf": [_annotated(), {"type": "null"}]}), "properties/a/anyOf/0"),
        ({"oneOf": [_schema(a=_annotated())]}, "oneOf/0/properties/a"),
        ({"allOf": [_schema(a=_annotated())]}, "allOf/0/properties/a"),
        ({"not": _schema(a=_annotated())}, "not/properties/a"),
        ({"if": _schema(a=_annotated())}, "if/properties/a"),
        ({"then": _schema(a=_annotated())}, "then/properties/a"),
        ({"else": _schema(a=_annotated())}, "else/properties/a"),
        ({"$defs": {"x": _annotated()}}, "$defs/x"),
        ({"definitions": {"x": _schema(a=_annotated())}}, "definitions/x/properties/a"),
        ({"patternProperties": {"^a": _annotated()}}, "patternProperties/^a"),
        ({"dependentSchemas": {"a": _schema(b=_annotated())}}, "dependentSchemas/a/properties/b"),
        ({"dependencies": {"a": _schema(b=_annotated())}}, "dependencies/a/properties/b"),
        ({"additionalProperties": _annotated()}, "additionalProperties"),
        ({"propertyNames": _annotated()}, "propertyNames"),
        ({"x-unknown": {"deeper": _annotated()}}, "x-unknown/deeper"),
    ],
)
def test_annotation_not_reachable_by_properties_rejected(schema: JsonObject, place: str) -> None:
    assert _get_rejection(schema).startswith(f"inputSchema/{place}: x-mcp-header is not reachable")


def test_annotation_on_root_schema_rejected() -> None:
    assert _get_rejection({"type": "string", "x-mcp-header": "A"}).startswith(
        "inputSchema: x-mcp-header is on the whole schema"
    )


def test_rejection_message_escapes_names() -> None:
    message = _get_rejection(_schema(**{"a\x1b[31m\n" + "é" * 1000: _annotated("")}))
    assert "\\x1b[31m\\n\\xe9" in message
    assert len(message) < 250


def test_schema_too_deep_rejected() -> None:
    schema: JsonObject = {"type": "string"}
    for _ in range(125):
        schema = _schema(a=schema)
    assert param_headers(schema) == ()
    assert _get_rejection({"not": schema}) == (
        "inputSchema: x-mcp-header cannot be searched for: the schema has more than 250 levels"
    )


def test_schema_recursive_rejected() -> None:
    schema = _schema()
    schema["properties"] = {"a": schema, "b": schema}
    assert "more than 250 levels" in _get_rejection(schema)


_JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["string", "integer", "A", "b"]),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["x-mcp-header", "type", "properties", "items", "allOf", "$defs", "default", "enum", "a", "b"]
            ),
            children,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@pytest.mark.property
@given(st.dictionaries(st.sampled_from(["x-mcp-header", "type", "properties", "items", "$defs"]), _JSON))
def test_arbitrary_schema_parsed_or_rejected(schema: JsonObject) -> None:
    try:
        found = param_headers(schema)
    except InvalidParamHeader:
        return
    names = [param.name for param in found]
    assert len(set(names)) == len(names)
    for param in found:
        node: JsonValue = schema
        for key in param.path:
            assert isinstance(node, dict)
            properties = node["properties"]
            assert isinstance(properties, dict)
            node = properties[key]
        assert isinstance(node, dict)
        assert (node["x-mcp-header"], node["type"]) == (param.header, param.type)
