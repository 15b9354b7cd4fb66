"""Headers that repeat parts of a message: sent by a client, checked by a server."""

from __future__ import annotations

import base64

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_core.errors import ErrorCode, LocalProtocolError
from mcp_core.http.header_parameters import ParamHeader
from mcp_core.http.messages import Headers
from mcp_core.http.routing_headers import (
    MCP_METHOD,
    MCP_NAME,
    MCP_PROTOCOL_VERSION,
    NAME_PARAMS,
    decode_value,
    encode_value,
    mirrored,
    mismatch,
    name_params,
)
from mcp_core.jsonrpc.messages import JsonObject, JsonValue, Notification, Request
from mcp_core.methods import METHODS, PING
from mcp_core.revisions import LATEST, LEGACY, R2025_06_18, R2025_11_25
from mcp_core.types.meta import PROTOCOL_VERSION

META: JsonObject = {PROTOCOL_VERSION: LATEST.name}
SAFE = 2**53 - 1

REGION = ParamHeader("Region", ("region",), "string")
LIMIT = ParamHeader("Limit", ("limit",), "integer")
FORCE = ParamHeader("Force", ("force",), "boolean")
INNER = ParamHeader("Inner", ("outer", "inner"), "string")
HEADER_PARAMS = (REGION, LIMIT, FORCE, INNER)


def _encoded(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def _call_with(arguments: JsonObject, name: str = "search") -> Request:
    return Request(1, "tools/call", {"name": name, "arguments": arguments, "_meta": META})


def _call(name: str = "search", **arguments: JsonValue) -> Request:
    return _call_with(dict(arguments), name)


def _headers(*pairs: tuple[str, str], method: str = "tools/call", name: str | None = "search") -> Headers:
    named = [] if name is None else [("Mcp-Name", name)]
    return Headers([("MCP-Protocol-Version", LATEST.name), ("Mcp-Method", method), *named, *pairs])


def _get_mismatch(headers: Headers, message: Request | Notification, *header_params: ParamHeader) -> str | None:
    error = mismatch(headers, message, header_params)
    if error is None:
        return None
    assert error.code == ErrorCode.HEADER_MISMATCH
    assert error.message.isascii()
    assert error.message.isprintable()
    assert len(error.message) < 400
    return error.message


# --- Values -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("header.param-string-as-is", "header.mcp-name-encoded")
@pytest.mark.parametrize(
    "text",
    ["", "x", "us-west1", "a b  c", "file:///a%20b", "=?base64?", "?=", "=?BASE64?eA==?=", "=?base64?eA==", "~!\"#'\\"],
)
def test_value_safe_text_sent_unchanged(text: str) -> None:
    assert encode_value(text) == text
    assert decode_value(text) == text


@pytest.mark.spec("header.param-base64-unsafe", "header.param-injection-safe", "header.sentinel-literal-encoded")
@pytest.mark.parametrize(
    "text",
    [
        " a", "a ", "\ta", "a\t", "a\tb", " ", "a\r\nX-Evil: 1", "\n", "\x00", "\x7f", "é", "日本", "\u2028", "\u00a0",
        "=?base64?SGVsbG8=?=", "=?base64??=", "=?base64?no base64?=", "=?base64?=",
    ],
)  # fmt: skip
def test_value_unsafe_text_sent_encoded(text: str) -> None:
    assert encode_value(text) == _encoded(text)
    assert decode_value(encode_value(text)) == text


@pytest.mark.property
@given(st.text())
@example("=?base64?=")
@example("\u00ff")
def test_value_round_trip_on_one_line(text: str) -> None:
    sent = encode_value(text)
    assert sent.isascii()
    assert sent.isprintable() or sent == ""
    assert sent == sent.strip()
    arrived = Headers.from_raw(Headers([("mcp-name", sent)]).raw()).all("mcp-name")[0]
    assert decode_value(arrived) == text


@pytest.mark.property
@given(st.text() | st.text(st.characters(max_codepoint=255)).map(lambda text: f"=?base64?{text}?="))
def test_value_arbitrary_decoded_or_rejected(value: str) -> None:
    try:
        text = decode_value(value)
    except ValueError:
        pass
    else:
        assert (
            text == value.strip(" \t")
            or encode_value(text) == value.strip(" \t")
            or _encoded(text) == value.strip(" \t")
        )


def test_value_lone_surrogate_raises() -> None:
    with pytest.raises(ValueError, match="surrogate"):
        encode_value("\ud800")


@pytest.mark.spec("header.base64-markers-exact")
@pytest.mark.parametrize(
    "value", ["=?base64?SGVsbG8=", "base64?SGVsbG8=?=", "=?Base64?SGVsbG8=?=", "=?base64?=", "=?base64", "SGVsbG8="]
)
def test_value_without_both_markers_literal(value: str) -> None:
    assert decode_value(value) == value


@pytest.mark.spec("header.value-ows-trimmed")
def test_value_surrounding_whitespace_ignored() -> None:
    assert decode_value(" \t a b \t") == "a b"
    assert decode_value(f"  {_encoded(' a ')} ") == " a "


@pytest.mark.spec("header.base64-invalid-rejected", "header.param-invalid-chars-rejected")
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("=?base64?SGVsbG8?=", "not base64"),
        ("=?base64?SGVs!!!bG8=?=", "not base64"),
        ("=?base64?SGVsbG8==?=", "not base64"),
        ("=?base64?=SGVsbG8?=", "not base64"),
        ("=?base64?SGVs bG8=?=", "not base64"),
        ("=?base64?__--?=", "not base64"),
        ("=?base64?a?=", "not base64"),
        ("=?base64?SGVsbG9=?=", "not canonical base64"),
        ("=?base64?/w==?=", "not UTF-8"),
        ("=?base64?7aCA?=", "not UTF-8"),
        ("é", "characters that are not allowed in a header"),
        ("a\nb", "characters that are not allowed in a header"),
        ("a\x00", "characters that are not allowed in a header"),
        ("\x7f", "characters that are not allowed in a header"),
    ],
)
def test_value_not_canonical_rejected(value: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        decode_value(value)


def test_value_inner_tab_tolerated() -> None:
    assert decode_value("a\tb") == "a\tb"


# --- Headers of a client ----------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "header.protocol-version-present",
    "header.mcp-method-required",
    "http.metadata-headers-on-post",
    "jsonrpc.binding-mirror-metadata",
)
@pytest.mark.spec("header.mcp-name-tools-call", "header.mcp-name-resources-read", "header.mcp-name-prompts-get")
@pytest.mark.spec("tasks.mcp-name-header")
@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/list", None, None),
        ("tools/list", {"name": "x"}, None),
        ("tools/call", {"name": "x", "uri": "y"}, "x"),
        ("prompts/get", {"name": "x"}, "x"),
        ("resources/read", {"uri": "test://x/ü"}, _encoded("test://x/ü")),
        ("tasks/get", {"taskId": "t-1"}, "t-1"),
        ("tasks/update", {"taskId": "t-1"}, "t-1"),
        ("tasks/cancel", {"taskId": "t-1"}, "t-1"),
        ("tools/call", {"name": 5}, None),
        ("tools/call", {}, None),
        ("vendor/own", {"name": "x"}, None),
    ],
)
def test_modern_request_headers_have_version_method_and_name(
    method: str, params: JsonObject | None, name: str | None
) -> None:
    sent = dict(mirrored(Request(1, method, params), LATEST))
    expected = {MCP_PROTOCOL_VERSION: "2026-07-28", MCP_METHOD: method}
    assert sent == expected | ({} if name is None else {MCP_NAME: name})


@pytest.mark.spec("http.protocol-version-header")
def test_legacy_message_headers_have_version_only() -> None:
    sent = {revision.name: mirrored(_call(region="x"), revision, [REGION]) for revision in LEGACY}
    assert sent == {
        "2024-11-05": [],
        "2025-03-26": [],
        "2025-06-18": [(MCP_PROTOCOL_VERSION, R2025_06_18.name)],
        "2025-11-25": [(MCP_PROTOCOL_VERSION, R2025_11_25.name)],
    }


@pytest.mark.spec("header.param-feature-supported", "header.param-mirrored", "header.param-nested-path")
@pytest.mark.spec("header.param-integer-decimal", "header.param-boolean-lowercase", "header.param-only-designated")
def test_header_params_sent_for_annotated_arguments_only() -> None:
    message = _call(region="a b", limit=-7, force=True, outer={"inner": "é"}, query="q", inner="no")
    sent = mirrored(message, LATEST, HEADER_PARAMS)[3:]
    assert sent == [
        ("mcp-param-region", "a b"),
        ("mcp-param-limit", "-7"),
        ("mcp-param-force", "true"),
        ("mcp-param-inner", _encoded("é")),
    ]


@pytest.mark.spec("header.param-absent-omitted", "header.param-null-omitted")
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"region": None, "limit": None, "outer": {"inner": None}},
        {"outer": None},
        {"outer": "text"},
        {"outer": []},
        {"outer": {"inner": {"deeper": 1}}},
        {"region": ["a"], "limit": 1.5, "force": {}},
        {"limit": float("inf")},
    ],
)
def test_header_param_absent_or_unsupported_argument_omitted(arguments: JsonObject) -> None:
    assert len(mirrored(_call_with(arguments), LATEST, HEADER_PARAMS)) == 3


def test_header_params_without_arguments_object_omitted() -> None:
    assert len(mirrored(Request(1, "tools/call", {"name": "x"}), LATEST, HEADER_PARAMS)) == 3
    assert len(mirrored(Request(1, "tools/call", {"name": "x", "arguments": ["y"]}), LATEST, HEADER_PARAMS)) == 3


@pytest.mark.parametrize(
    ("value", "text"),
    [(42, "42"), (42.0, "42"), (-0.0, "0"), (False, "false"), ("", ""), (SAFE, str(SAFE)), (-SAFE, str(-SAFE))],
)
def test_header_param_value_has_canonical_form(value: JsonValue, text: str) -> None:
    assert mirrored(_call(region=value), LATEST, [REGION])[-1] == ("mcp-param-region", text)


@pytest.mark.spec("header.xmcp-integer-safe-range")
@pytest.mark.parametrize("value", [SAFE + 1, -SAFE - 1, 1e300, pytest.param(10**5000, id="5001 digits")])
def test_header_param_integer_beyond_safe_range_raises(value: JsonValue) -> None:
    with pytest.raises(LocalProtocolError, match=r"'limit' is beyond 9007199254740991: Mcp-Param-Limit"):
        mirrored(_call(limit=value), LATEST, [LIMIT])


@pytest.mark.spec("http.notification-headers-undefined")
def test_notification_headers_have_version_and_method() -> None:
    sent = mirrored(Notification("notifications/cancelled", {"requestId": 1}), LATEST)
    assert sent == [(MCP_PROTOCOL_VERSION, LATEST.name), (MCP_METHOD, "notifications/cancelled")]


@pytest.mark.parametrize("method", ["a\r\nX: y", " a", "é", "\ud800", "=?base64?eA==?="])
def test_method_not_allowed_in_header_raises(method: str) -> None:
    with pytest.raises(LocalProtocolError, match="the method"):
        mirrored(Request(1, method), LATEST)


def test_lone_surrogate_in_mirrored_value_raises() -> None:
    with pytest.raises(LocalProtocolError, match=r"params\.name contains a lone surrogate"):
        mirrored(_call("\udfff"), LATEST)
    with pytest.raises(LocalProtocolError, match=r"the argument 'outer\.inner' contains a lone surrogate"):
        mirrored(_call(outer={"inner": "\ud800"}), LATEST, [INNER])


def test_extension_method_name_param_mirrored() -> None:
    row = attrs.evolve(PING, name="vendor/open", name_param="door", extension="vendor/doors")
    names = name_params([*METHODS, row])
    assert names == {**NAME_PARAMS, "vendor/open": "door"}
    message = Request(1, "vendor/open", {"door": "left", "_meta": META})
    sent = Headers(mirrored(message, LATEST, names=names))
    assert sent.get(MCP_NAME) == "left"
    assert mismatch(sent, message, (), names=names) is None
    other = Request(1, "vendor/open", {"door": "right", "_meta": META})
    assert mismatch(sent, other, ()) is None
    found = mismatch(sent, other, (), names=names)
    assert found is not None
    assert found.message == "the header Mcp-Name has 'left', but the body has 'right'"


# --- Checks of a server -----------------------------------------------------------------------------------------------


def _without(name: str) -> Headers:
    return Headers((key, value) for key, value in _headers() if key != name)


def test_headers_matching_body_accepted() -> None:
    assert _get_mismatch(_headers(), _call()) is None


@pytest.mark.spec("header.name-case-insensitive", "header.value-ows-trimmed")
def test_header_name_case_and_value_whitespace_ignored() -> None:
    pairs = [("MCP-PROTOCOL-VERSION", f" {LATEST.name}"), ("mcp-METHOD", "\ttools/call "), ("mcp-name", "  search  ")]
    assert _get_mismatch(Headers(pairs), _call()) is None


@pytest.mark.spec("header.mcp-method-missing-rejected", "header.mcp-name-missing-rejected")
@pytest.mark.spec("header.protocol-version-missing-rejected", "header.mismatch-error-code")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (MCP_PROTOCOL_VERSION, "the header MCP-Protocol-Version is missing; the body has '2026-07-28'"),
        (MCP_METHOD, "the header Mcp-Method is missing; the body has 'tools/call'"),
        (MCP_NAME, "the header Mcp-Name is missing; the body has 'search'"),
    ],
)
def test_standard_header_missing_rejected(name: str, sentence: str) -> None:
    assert _get_mismatch(_without(name), _call()) == sentence


@pytest.mark.spec("header.mcp-method-mismatch-rejected", "header.mcp-name-mismatch-rejected")
@pytest.mark.spec("header.protocol-version-mismatch-rejected", "header.value-case-sensitive")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        (MCP_PROTOCOL_VERSION, "2025-11-25"),
        (MCP_METHOD, "tools/list"),
        (MCP_METHOD, "TOOLS/CALL"),
        (MCP_METHOD, ""),
        (MCP_METHOD, _encoded("tools/call")),
        (MCP_METHOD, "tools/call, tools/call"),
        (MCP_NAME, "Search"),
        (MCP_NAME, ""),
        (MCP_NAME, _encoded("other")),
    ],
)
def test_standard_header_other_value_rejected(name: str, value: str) -> None:
    mismatch_message = _get_mismatch(Headers([*_without(name), (name, value)]), _call())
    assert mismatch_message is not None
    assert f"has {value!r}, but the body has" in mismatch_message
    assert name in mismatch_message.lower()


@pytest.mark.parametrize("name", [MCP_PROTOCOL_VERSION, MCP_METHOD, MCP_NAME])
def test_header_repeated_with_equal_value_rejected(name: str) -> None:
    value = _headers().get(name)
    assert value is not None
    mismatch_message = _get_mismatch(Headers([*_headers(), (name, value)]), _call())
    assert mismatch_message is not None
    assert f"occurs 2 times: '{value}, {value}'" in mismatch_message


@pytest.mark.spec("header.base64-decoded-before-compare", "header.base64-mcp-name-accepted")
@pytest.mark.spec("header.intermediary-decodes", "tasks.mcp-name-accepted")
def test_header_encoded_name_decoded_before_comparison() -> None:
    assert _get_mismatch(_headers(name=_encoded("search")), _call()) is None
    assert _get_mismatch(_headers(name=_encoded("süß")), _call("süß")) is None
    task = Request(1, "tasks/get", {"taskId": "t", "_meta": META})
    assert _get_mismatch(_headers(method="tasks/get", name="t"), task) is None


@pytest.mark.spec("header.invalid-characters-rejected", "header.base64-invalid-rejected")
@pytest.mark.parametrize("name", ["s\xfc\xdf", "a\x01", "=?base64?eA=?="])
def test_header_name_malformed_rejected_even_if_equal_to_body(name: str) -> None:
    mismatch_message = _get_mismatch(_headers(name=name), _call(name))
    assert mismatch_message is not None
    assert mismatch_message.startswith("the header Mcp-Name ")


def test_header_encoded_value_compared_decoded() -> None:
    assert _get_mismatch(_headers(name=_encoded("x")), _call(_encoded("x"))) is not None


def test_header_name_missing_in_body_not_checked() -> None:
    message = Request(1, "tools/call", {"_meta": META})
    assert _get_mismatch(_headers(name=None), message) is None
    assert (
        _get_mismatch(_headers(), message)
        == "the header Mcp-Name has 'search', but the body has no value that a header can carry"
    )


@pytest.mark.spec("tasks.mcp-name-mismatch")
def test_extension_name_header_optional_but_must_match() -> None:
    message = Request(1, "tasks/get", {"taskId": "t", "_meta": META})
    assert _get_mismatch(_headers(method="tasks/get", name=None), message) is None
    assert _get_mismatch(_headers(method="tasks/get", name="u"), message) is not None


def test_body_without_version_not_checked() -> None:
    bodies: list[JsonObject | None] = [None, {}, {"_meta": None}, {"_meta": {}}, {"_meta": {PROTOCOL_VERSION: 5}}]
    for params in bodies:
        assert _get_mismatch(_headers(method="tools/list", name=None), Request(1, "tools/list", params)) is None
        assert (
            _get_mismatch(Headers([("mcp-method", "tools/list")]), Request(1, "tools/list", params))
            == "the header MCP-Protocol-Version is missing"
        )


@pytest.mark.spec("http.notification-headers-undefined")
def test_notification_headers_optional_but_must_match() -> None:
    message = Notification("notifications/cancelled", {"requestId": 1, "_meta": META})
    assert _get_mismatch(Headers(), message) is None
    assert _get_mismatch(_headers(method="notifications/cancelled"), message) is None
    assert _get_mismatch(Headers([("mcp-method", "tools/call")]), message) is not None
    assert _get_mismatch(Headers([("mcp-protocol-version", "2025-11-25")]), message) is not None


@pytest.mark.spec("header.param-mismatch-rejected")
@pytest.mark.parametrize(
    ("argument", "header", "agrees"),
    [
        ("us", "us", True),
        ("us", _encoded("us"), True),
        ("", "", True),
        ("é", _encoded("é"), True),
        ("=?base64?eA==", "=?base64?eA==", True),
        ("42", "42", True),
        ("us", "US", False),
        ("us", "", False),
        ("é", "\xe9", False),
        ("us", "=?base64?dXM?=", False),
        ("42", "42.0", False),
        (True, "true", True),
        (False, "false", True),
        (True, "True", False),
        (True, "1", False),
        (False, "true", False),
        (["us"], "us", False),
        ({"us": "us"}, "us", False),
        (1.5, "1.5", False),
    ],
)
def test_header_param_must_match_argument(argument: JsonValue, header: str, *, agrees: bool) -> None:
    mismatch_message = _get_mismatch(_headers(("Mcp-Param-Region", header)), _call(region=argument), REGION)
    assert (mismatch_message is None) is agrees
    assert mismatch_message is None or "Mcp-Param-Region" in mismatch_message


@pytest.mark.spec("header.integer-compared-numerically")
@pytest.mark.parametrize(
    ("argument", "header", "agrees"),
    [
        (42, "42", True),
        (42, "42.0", True),
        (42.0, "42", True),
        (42, _encoded("42"), True),
        (-7, "-7.00", True),
        (0, "-0", True),
        (SAFE, str(SAFE), True),
        (42, "43", False),
        (42, "42.5", False),
        (42, "4.2e1", False),
        (42, "42x", False),
        (42, "42.", False),
        (42, "0x2a", False),
        (42, "\u0664\u0662", False),
        (42, "", False),
        (42, "+42", False),
        (42, "1" * 5000, False),
        (1, "true", False),
        ("42", "42.0", False),
    ],
)
def test_header_param_integers_compared_numerically(argument: JsonValue, header: str, *, agrees: bool) -> None:
    mismatch_message = _get_mismatch(_headers(("mcp-param-limit", header)), _call(limit=argument), LIMIT)
    assert (mismatch_message is None) is agrees


@pytest.mark.spec("header.param-missing-but-in-body-rejected")
def test_header_param_missing_rejected() -> None:
    each: list[JsonObject] = [
        {"region": "us"},
        {"region": ""},
        {"limit": 0},
        {"force": False},
        {"outer": {"inner": "x"}},
    ]
    for arguments in each:
        mismatch_message = _get_mismatch(_headers(), _call_with(arguments), *HEADER_PARAMS)
        assert mismatch_message is not None
        assert "is missing; the body has" in mismatch_message


@pytest.mark.spec("header.param-null-not-expected")
def test_header_param_for_null_or_absent_argument_rejected() -> None:
    nothing: list[JsonObject] = [{}, {"region": None}]
    for arguments in nothing:
        assert _get_mismatch(_headers(), _call_with(arguments), REGION) is None
        # A gateway could have routed by a value that the server does not see.
        assert _get_mismatch(_headers(("mcp-param-region", "us")), _call_with(arguments), REGION) is not None


def test_header_param_unsupported_argument_not_checked() -> None:
    assert _get_mismatch(_headers(), _call(region=["us"], limit=1.5), REGION, LIMIT) is None


@pytest.mark.spec("header.xmcp-integer-safe-range")
@pytest.mark.parametrize("value", [SAFE + 1, 1e300, pytest.param(-(10**5000), id="5001 digits")])
def test_header_param_integer_beyond_safe_range_rejected(value: JsonValue) -> None:
    for pairs in ([], [("mcp-param-limit", str(SAFE + 1))]):
        mismatch_message = _get_mismatch(_headers(*pairs), _call(limit=value), LIMIT)
        assert mismatch_message == "Mcp-Param-Limit must not carry the argument 'limit': it is beyond 9007199254740991"


@pytest.mark.spec("header.param-invalid-chars-rejected")
def test_header_param_repeated_rejected() -> None:
    pairs = [("mcp-param-region", "us"), ("Mcp-Param-Region", "us")]
    mismatch_message = _get_mismatch(_headers(*pairs), _call(region="us"), REGION)
    assert mismatch_message == "the header Mcp-Param-Region occurs 2 times: 'us, us'"


@pytest.mark.spec("header.param-unknown-ignored", "header.param-intermediary-forward")
def test_unknown_param_header_ignored() -> None:
    pairs = [("mcp-param-other", "\xff"), ("mcp-param-other", "x"), ("mcp-param-limit", "1")]
    assert _get_mismatch(_headers(*pairs), _call(limit=2), REGION) is None


def test_first_mismatch_reported() -> None:
    mismatch_message = _get_mismatch(_headers(), _call(region="a", limit=1), REGION, LIMIT)
    assert mismatch_message is not None
    assert "Mcp-Param-Region" in mismatch_message


# --- Client and server ------------------------------------------------------------------------------------------------

_SCALARS: st.SearchStrategy[JsonValue] = (
    st.none() | st.booleans() | st.integers(-SAFE, SAFE) | st.floats(-1e6, 1e6) | st.text()
)
_OUTER: st.SearchStrategy[JsonValue] = st.dictionaries(st.just("inner"), _SCALARS)
_ARGUMENTS: st.SearchStrategy[JsonObject] = st.fixed_dictionaries(
    {}, optional={"region": _SCALARS, "limit": _SCALARS, "force": _SCALARS, "outer": _SCALARS | _OUTER}
)
_METHOD_NAMES = st.sampled_from([row.name for row in METHODS]) | st.text("abcxyz/_-$.~", min_size=1)


@st.composite
def _messages(draw: st.DrawFn) -> Request | Notification:
    params: JsonObject = {"_meta": META}
    for member in ("name", "uri", "taskId"):
        if draw(st.booleans()):
            params[member] = draw(st.text() | st.sampled_from([None, 5]))
    params["arguments"] = draw(_ARGUMENTS)
    method = draw(_METHOD_NAMES)
    return Request(1, method, params) if draw(st.booleans()) else Notification(method, params)


@pytest.mark.property
@pytest.mark.spec("header.protocol-version-matches-meta")
@given(_messages())
def test_server_accepts_headers_of_client(message: Request | Notification) -> None:
    sent = mirrored(message, LATEST, HEADER_PARAMS)
    arrived = Headers.from_raw(Headers(sent).raw())
    assert mismatch(arrived, message, HEADER_PARAMS) is None


@pytest.mark.property
@given(_ARGUMENTS, _ARGUMENTS, st.sampled_from(["a", "b"]), st.sampled_from(["a", "b"]))
def test_headers_of_other_call_accepted_only_if_equal(
    arguments: JsonObject, other_arguments: JsonObject, name: str, other_name: str
) -> None:
    sent = mirrored(_call_with(arguments, name), LATEST, HEADER_PARAMS)
    other = _call_with(other_arguments, other_name)
    if mismatch(Headers(sent), other, HEADER_PARAMS) is None:
        expected = mirrored(other, LATEST, HEADER_PARAMS)
        assert sent == expected


@pytest.mark.property
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["mcp-method", "mcp-name", "mcp-protocol-version", "mcp-param-region", "mcp-param-limit"]),
            st.text(st.characters(max_codepoint=255)),
        )
    ),
    _messages(),
)
def test_arbitrary_headers_never_raise(pairs: list[tuple[str, str]], message: Request | Notification) -> None:
    _get_mismatch(Headers(pairs), message, *HEADER_PARAMS)


def test_headers_repr_shows_names_only() -> None:
    assert repr(Headers([("Authorization", "Bearer secret"), ("accept", "*/*")])) == "<Headers authorization, accept>"


def test_headers_hashable_by_value() -> None:
    assert {Headers([("Accept", "a")]): 1}[Headers([("accept", "a")])] == 1
    assert Headers([("accept", "a")]) != Headers([("accept", "b")])
