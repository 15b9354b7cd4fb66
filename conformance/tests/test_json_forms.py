"""Forms of JSON: each is another text of the same value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.protocol.json_forms import JSON_FORMS, in_all_forms, rearranged

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonValue

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
MESSAGE: JsonValue = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "Grüße", "arguments": {}}}


@pytest.mark.property
@pytest.mark.parametrize("form", [*JSON_FORMS.values(), rearranged, in_all_forms])
@given(value=VALUES)
def test_form_is_one_line_with_the_same_value(form: Callable[[JsonValue], bytes], value: JsonValue) -> None:
    text = form(value)
    assert b"\n" not in text
    assert b"\r" not in text
    assert json.loads(text) == value


@pytest.mark.parametrize("form", [*JSON_FORMS.values(), rearranged, in_all_forms])
def test_form_of_message_differs_from_compact_json(form: Callable[[JsonValue], bytes]) -> None:
    assert form(MESSAGE) != encoded(MESSAGE)


def test_members_in_reverse_order_end_with_version() -> None:
    assert list(json.loads(JSON_FORMS["its members in reverse order"](MESSAGE))) == [
        "params",
        "method",
        "id",
        "jsonrpc",
    ]


def test_escaped_strings_contain_no_letter() -> None:
    text = JSON_FORMS["each character of its strings escaped"]({"tool": ["Grüße \U0001f9ea"]}).decode()
    assert set(text) <= set('{}[]:",\\u0123456789abcdef')
    assert text.count("\\u") == len("tool") + len("Grüße ") + 2
