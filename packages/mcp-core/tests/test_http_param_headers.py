"""The `x-mcp-header` annotations of a schema: each that is allowed is found, and no other passes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.http.header_parameters import InvalidParamHeader, ParamHeader, param_headers
from mcp_core.jsonrpc.messages import JsonObject, JsonValue


def _schema(**properties: JsonValue) -> JsonObject:
    return {"type": "object", "properties": dict(properties)}


def _designated(header: JsonValue = "Region", kind: JsonValue = "string") -> JsonObject:
    return {"type": kind, "x-mcp-header": header}


def _refusal(schema: JsonObject) -> str:
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
def test_a_schema_without_annotations_designates_nothing(schema: JsonObject) -> None:
    assert param_headers(schema) == ()


@pytest.mark.spec("header.xmcp-valid-not-rejected", "header.param-server-may-designate")
def test_annotations_are_found_with_type_and_path() -> None:
    schema = _schema(
        zone=_designated("Zone", "integer"),
        address=_schema(city=_designated("City"), deep=_schema(flag=_designated("flag", "boolean"))),
        region=_designated(),
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
def test_each_token_is_allowed(header: str) -> None:
    assert [param.header for param in param_headers(_schema(a=_designated(header)))] == [header]


def test_a_property_may_have_a_reference_beside_its_annotation() -> None:
    schema = _schema(a={**_designated(), "$ref": "#/$defs/x"}) | {"$defs": {"x": {"type": "string"}}}
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
def test_a_property_may_have_the_name_of_the_annotation(schema: JsonObject) -> None:
    assert param_headers(schema) == ()


def test_a_property_may_have_the_name_of_the_annotation_and_be_designated() -> None:
    schema = _schema(**{"x-mcp-header": _designated("H")})
    assert param_headers(schema) == (ParamHeader("H", ("x-mcp-header",), "string"),)


def test_a_property_may_be_called_as_a_keyword() -> None:
    schema = _schema(properties=_schema(properties=_designated()), enum=_designated("E"))
    assert [param.path for param in param_headers(schema)] == [("enum",), ("properties", "properties")]


@pytest.mark.parametrize("keyword", ["default", "const", "example"])
def test_what_is_data_is_no_annotation(keyword: str) -> None:
    assert param_headers(_schema(a={"type": "object", keyword: {"x-mcp-header": "no", "a": _designated()}})) == ()


@pytest.mark.parametrize("keyword", ["enum", "examples"])
def test_what_is_a_list_of_data_has_no_annotations(keyword: str) -> None:
    assert param_headers(_schema(a={"type": "object", keyword: [{"x-mcp-header": "no"}]})) == ()


@pytest.mark.spec("header.xmcp-client-rejects-empty", "header.xmcp-not-empty", "header.xmcp-client-rejects-invalid")
def test_an_empty_annotation_is_refused() -> None:
    assert _refusal(_schema(a=_designated(""))) == "inputSchema/properties/a: x-mcp-header is empty"


@pytest.mark.spec("header.xmcp-client-rejects-bad-token", "header.xmcp-token-syntax", "header.xmcp-no-control-chars")
@pytest.mark.parametrize(
    "header",
    ["a b", "a:b", "a/b", "(a)", "a@b", "ü", "a\r\nX: y", "a\x00", "a\n", "\t", '"a"', "a,b", "{a}", "a=b", "\u212a"],
)
def test_an_annotation_that_is_no_token_is_refused(header: str) -> None:
    assert "characters that are not allowed in a header name" in _refusal(_schema(a=_designated(header)))


@pytest.mark.spec("header.xmcp-client-rejects-non-string")
@pytest.mark.parametrize("header", [None, 1, True, 1.5, [], ["a"], {}, {"a": "b"}])
def test_an_annotation_that_is_no_string_is_refused(header: JsonValue) -> None:
    assert "not a string" in _refusal(_schema(a=_designated(header)))


@pytest.mark.spec("header.xmcp-client-rejects-duplicate", "header.xmcp-unique-case-insensitive")
@pytest.mark.parametrize("other", ["Region", "REGION", "region"])
def test_two_annotations_that_are_equal_but_for_case_are_refused(other: str) -> None:
    assert "is already used by" in _refusal(_schema(a=_designated(), b=_designated(other)))
    assert "is already used by" in _refusal(_schema(a=_designated(), b=_schema(c=_designated(other))))


@pytest.mark.spec("header.xmcp-client-rejects-non-primitive", "header.xmcp-client-rejects-number")
@pytest.mark.spec("header.xmcp-primitive-only")
@pytest.mark.parametrize("kind", ["number", "object", "array", "null", "String", "", None, ["string", "null"], 5])
def test_an_annotation_on_another_type_is_refused(kind: JsonValue) -> None:
    sentence = _refusal(_schema(a=_designated(kind=kind)))
    assert sentence.endswith(f"is on a property of type {kind!a}; allowed types: string, integer, boolean")


def test_an_annotation_on_a_property_without_type_is_refused() -> None:
    assert "is on a property of type None" in _refusal(_schema(a={"x-mcp-header": "A"}))


@pytest.mark.spec("header.xmcp-client-rejects-unreachable", "header.xmcp-statically-reachable")
@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (_schema(a={"type": "array", "items": _designated()}), "properties/a/items"),
        (_schema(a={"prefixItems": [True, _designated()]}), "properties/a/prefixItems/1"),
        (_schema(a={"anyOf": [_designated(), {"type": "null"}]}), "properties/a/anyOf/0"),
        ({"oneOf": [_schema(a=_designated())]}, "oneOf/0/properties/a"),
        ({"allOf": [_schema(a=_designated())]}, "allOf/0/properties/a"),
        ({"not": _schema(a=_designated())}, "not/properties/a"),
        ({"if": _schema(a=_designated())}, "if/properties/a"),
        ({"then": _schema(a=_designated())}, "then/properties/a"),
        ({"else": _schema(a=_designated())}, "else/properties/a"),
        ({"$defs": {"x": _designated()}}, "$defs/x"),
        ({"definitions": {"x": _schema(a=_designated())}}, "definitions/x/properties/a"),
        ({"patternProperties": {"^a": _designated()}}, "patternProperties/^a"),
        ({"dependentSchemas": {"a": _schema(b=_designated())}}, "dependentSchemas/a/properties/b"),
        ({"dependencies": {"a": _schema(b=_designated())}}, "dependencies/a/properties/b"),
        ({"additionalProperties": _designated()}, "additionalProperties"),
        ({"propertyNames": _designated()}, "propertyNames"),
        ({"x-unknown": {"deeper": _designated()}}, "x-unknown/deeper"),
    ],
)
def test_an_annotation_that_properties_alone_do_not_lead_to_is_refused(schema: JsonObject, place: str) -> None:
    assert _refusal(schema).startswith(f"inputSchema/{place}: x-mcp-header is not reachable")


def test_an_annotation_on_the_whole_schema_is_refused() -> None:
    assert _refusal({"type": "string", "x-mcp-header": "A"}).startswith(
        "inputSchema: x-mcp-header is on the whole schema"
    )


def test_names_of_a_peer_are_shown_safely() -> None:
    sentence = _refusal(_schema(**{"a\x1b[31m\n" + "é" * 1000: _designated("")}))
    assert "\\x1b[31m\\n\\xe9" in sentence
    assert len(sentence) < 250


def test_a_schema_that_is_too_deep_is_refused_and_one_level_less_is_not() -> None:
    schema: JsonObject = {"type": "string"}
    for _ in range(125):
        schema = _schema(a=schema)
    assert param_headers(schema) == ()
    assert _refusal({"not": schema}) == (
        "inputSchema: x-mcp-header cannot be searched for: the schema has more than 250 levels"
    )


def test_a_schema_that_contains_itself_is_refused() -> None:
    schema = _schema()
    schema["properties"] = {"a": schema, "b": schema}
    assert "more than 250 levels" in _refusal(schema)


_JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["string", "integer", "A", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["x-mcp-header", "type", "properties", "items", "allOf", "$defs", "default", "enum", "a", "b"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@pytest.mark.property
@given(st.dictionaries(st.sampled_from(["x-mcp-header", "type", "properties", "items", "$defs"]), _JSON))
def test_any_schema_is_read_or_refused(schema: JsonObject) -> None:
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
