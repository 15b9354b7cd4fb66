"""The text of a settings file keeps other members, comments and layout when one member is set or removed."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.jsonrpc.messages import JsonObject
from mcp_server.cli.settings_text import SettingsTextError, remove_member, set_member

ENTRY: JsonObject = {"command": "/bin/python", "args": ["-m", "mcp_server", "run", "/a/é.py"]}

_SPACES = st.lists(
    st.sampled_from([" ", "\t", "\n", "\r\n", "// kept {\n", "// kept ,\r\n", "/* kept } */", '/* kept\n * " */']),
    max_size=3,
).map("".join)
_SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["//", "/*", "a,}", '"'])
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def written(draw: st.DrawFn, value: object) -> str:
    """Return a text of the value with blanks, comments and trailing commas."""

    def spaced(token: str) -> str:
        return draw(_SPACES) + token + draw(_SPACES)

    def text(of: object) -> str:
        if isinstance(of, dict):
            items = [spaced(json.dumps(key)) + ":" + spaced(text(item)) for key, item in of.items()]
            brackets = "{}"
        elif isinstance(of, list):
            items = [spaced(text(item)) for item in of]
            brackets = "[]"
        else:
            return json.dumps(of, ensure_ascii=draw(st.booleans()))
        end = "," if draw(st.booleans()) and items else ""
        return brackets[0] + ",".join(items) + end + draw(_SPACES) + brackets[1]

    return ("\ufeff" if draw(st.booleans()) else "") + spaced(text(value))


_TOKENS = re.compile(r'("(?:[^"\\]|\\.)*")|(//[^\r\n]*|/\*.*?\*/)', re.DOTALL)


def plain(text: str) -> object:
    """Return the value of a text, read by json after removing comments and trailing commas."""
    bare = _TOKENS.sub(lambda match: match[1] or " ", text.removeprefix("\ufeff"))
    return json.loads(re.sub(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', lambda match: match[1] or "", bare))


def comments(text: str) -> list[str]:
    return [match[2] for match in _TOKENS.finditer(text) if match[2]]


@st.composite
def settings(draw: st.DrawFn) -> tuple[dict[str, object], str]:
    members: dict[str, object] = draw(st.dictionaries(st.text(max_size=3), _VALUES, max_size=3))
    if draw(st.booleans()):
        members["servers"] = draw(st.dictionaries(st.sampled_from(["a", "b", "new", "c"]), _VALUES, max_size=4))
    keys = draw(st.permutations(list(members)))
    value = {key: members[key] for key in keys}
    return value, draw(written(value))


@given(settings())
def test_inserted_or_replaced_member_keeps_others_and_comments(drawn: tuple[dict[str, object], str]) -> None:
    value, text = drawn
    section = value.get("servers", {})
    assert isinstance(section, dict)
    edited = set_member(text, "servers", "new", ENTRY)
    assert plain(edited) == {**value, "servers": {**section, "new": ENTRY}}
    assert list(plain(edited)) == list({**value, "servers": 0})  # type: ignore[call-overload]  # the line above: a dict
    if "new" not in section:
        assert comments(edited) == comments(text)
    assert edited.startswith("\ufeff") == text.startswith("\ufeff")
    assert plain(set_member(edited, "servers", "new", {})) == {**value, "servers": {**section, "new": {}}}


@given(settings())
def test_removed_member_keeps_others_and_comments(drawn: tuple[dict[str, object], str]) -> None:
    value, text = drawn
    section = value.get("servers", {})
    assert isinstance(section, dict)
    edited = remove_member(text, "servers", "new")
    if "new" not in section:
        assert edited == text
        return
    assert plain(edited) == {**value, "servers": {key: item for key, item in section.items() if key != "new"}}


@given(settings())
def test_removal_of_inserted_member_restores_text_except_blanks(drawn: tuple[dict[str, object], str]) -> None:
    value, text = drawn
    section = value.get("servers")
    if not isinstance(section, dict) or not section or "new" in section:
        return
    restored = remove_member(set_member(text, "servers", "new", ENTRY), "servers", "new")
    assert "".join(restored.split()) == "".join(text.split())


VSCODE = """\
{
\t// Servers of all projects
\t"inputs": [{"id": "key", "type": "promptString",}],
\t"servers": {
\t\t"notes": {"type": "http", "url": "https://notes.example/mcp"}, // a // comment
\t\t/* "old": {} */
\t},
}
"""
ZED = """\
// Zed settings
{
    "theme": "One Dark", // dark
    "vim_mode": true // last
    // end
}
"""


def test_member_follows_layout_of_file() -> None:
    assert set_member(VSCODE, "servers", "new", {"args": ["a"]}) == VSCODE.replace(
        "// a // comment\n", '// a // comment\n\t\t"new": {\n\t\t\t"args": [\n\t\t\t\t"a"\n\t\t\t]\n\t\t},\n'
    )
    assert set_member(ZED, "servers", "new", {}) == ZED.replace(
        "true // last\n", 'true, // last\n    "servers": {\n        "new": {}\n    }\n'
    )
    assert set_member('{"a": 1}', "servers", "new", {}) == '{"a": 1, "servers": {"new": {}}}'
    assert set_member("{}", "servers", "new", {}) == '{\n  "servers": {\n    "new": {}\n  }\n}'


@pytest.mark.parametrize("text", [VSCODE, ZED, VSCODE.replace("\n", "\r\n"), "\ufeff" + ZED])
def test_member_is_set_twice_and_removed(text: str) -> None:
    edited = set_member(text, "servers", "new", ENTRY)
    assert set_member(edited, "servers", "new", ENTRY) == edited
    assert edited.count("\r\n") == (edited.count("\n") if "\r" in text else 0)
    if "notes" in text:
        assert remove_member(edited, "servers", "new") == text


@pytest.mark.parametrize("text", ["", "\n", "// only a comment", "\ufeff"])
def test_file_without_value_becomes_object(text: str) -> None:
    edited = set_member(text, "servers", "new", ENTRY)
    assert edited.startswith(text)
    assert plain(edited) == {"servers": {"new": ENTRY}}
    assert remove_member(text, "servers", "new") == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "line 1, column 1: expected an object, which begins with {"),
        ("servers = 1", "line 1, column 1: expected an object"),
        ('{"a": 1', "line 1, column 8: expected , or } after a member"),
        ('{"a": 1,', "line 1, column 9: expected a name in double quotes, or }"),
        ('{\n  "a" 1}', "line 2, column 7: expected : after a name"),
        ('{"a": nil}', "line 1, column 7: expected a value"),
        ('{"a": 01}', "line 1, column 7: expected a value"),
        ('{"a": "b}', "line 1, column 7: expected a value"),
        ('{"a": [1 2]}', "line 1, column 10: expected , or ] after an element"),
        ('{"a": 1 "b": 2}', "line 1, column 9: expected , or } after a member"),
        ("{} {}", "line 1, column 4: expected the end of the file"),
        ("{} /* open", "line 1, column 4: expected the end of the file"),
        ('{"servers": []}', "line 1, column 13: the value of 'servers' must be an object"),
        ('{"servers": {}, "servers": {}}', "line 1, column 17: 'servers' occurs twice"),
        ('{"servers": {"new": 1, "\\u006eew": 2}}', "line 1, column 24: 'new' occurs twice"),
        ('{"a": ' + "[" * 200_000, "more than 100 levels of nesting"),
        ('{"a": ' + '{"a": ' * 200_000, "more than 100 levels of nesting"),
    ],
)
def test_unusable_text_is_reported(text: str, message: str) -> None:
    with pytest.raises(SettingsTextError) as set_error:
        set_member(text, "servers", "new", ENTRY)
    with pytest.raises(SettingsTextError) as remove_error:
        remove_member(text, "servers", "new")
    assert message in str(set_error.value)
    assert str(remove_error.value) == str(set_error.value)


def test_member_after_removed_one_does_not_join_comment() -> None:
    edited = remove_member('{"servers": {"a": 1, // c\n "new": 2, "b": 3}}', "servers", "new")
    assert plain(edited) == {"servers": {"a": 1, "b": 3}}
    assert comments(edited) == ["// c"]
