"""Tests of what the checks of skills read from a server: front matter, entries and directories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_conformance.checks.probes.front_matter import differs, read_front_matter
from mcp_conformance.checks.probes.skill_entries import content_of, directories_of, files_of, root_of
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import JsonRpcResponse
from mcp_core.jsonrpc.messages import JsonObject, JsonValue


def skill_file(*lines: str) -> bytes:
    return "\n".join(["---", "name: daily", "description: A report", *lines, "---", "# Daily", ""]).encode()


def skill(*paths: str) -> JsonObject:
    files: list[JsonValue] = [{"uri": f"skill://daily/{path}"} for path in paths]
    return {"uri": "skill://daily/SKILL.md", "resources": files}


# --- front matter ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "either"),
    [
        ("when: 2026-11-22", ["2026-11-22"]),
        ("when: on", ["on", True]),
        ("when: yes", ["yes", True]),
        ("when: true", [True]),
        ("when: ~", [None]),
        ("when:", [None]),
        ("when: 010", [10, 8]),
        ("when: 1e3", [1000.0, "1e3"]),
        ("when: 1.0", [1]),
        ("when: [a, 1]", [["a", 1]]),
        ("when: 'on'", ["on"]),
    ],
)
def test_front_matter_is_read_in_both_versions_of_yaml(line: str, either: list[JsonValue]) -> None:
    readings = read_front_matter(skill_file(line))
    for value in either:
        listed: JsonObject = {"description": "A report", "name": "daily", "when": value}
        assert any(not differs(reading, listed) for reading in readings), readings
    assert all(differs(reading, {"name": "daily", "description": "A report"}) for reading in readings)


def test_front_matter_after_byte_order_mark_is_read() -> None:
    assert read_front_matter(b"\xef\xbb\xbf" + skill_file())[0]["name"] == "daily"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"# Daily\n",
        b"name: daily\n",
        b"---\nname: daily\n---\n",
        b"---\n- daily\n---\n",
        skill_file("name: 3")[:20],
    ],
)
def test_skill_file_without_front_matter_is_deviation(data: bytes) -> None:
    with pytest.raises((Deviation, NotTestable)) as caught:
        read_front_matter(data)
    assert isinstance(caught.value, Deviation) == (data.count(b"---") != 1)


@pytest.mark.parametrize("line", ["a: &x 1\nb: *x", "a: !!python/name:os.system", "a: [", "a: !!binary aGk="])
def test_front_matter_beyond_json_is_not_testable(line: str) -> None:
    with pytest.raises(NotTestable):
        read_front_matter(skill_file(*line.split("\n")))


@given(st.binary(max_size=200))
def test_arbitrary_front_matter_is_read_or_judged(data: bytes) -> None:
    try:
        readings = read_front_matter(b"---\nname: daily\ndescription: A report\n" + data + b"\n---\n")
    except (Deviation, NotTestable):
        return
    assert readings
    assert all(isinstance(reading, dict) for reading in readings)


# --- entries ---------------------------------------------------------------------------------------------------------


def test_directories_of_entry_have_their_direct_children() -> None:
    entry = skill("SKILL.md", "a/b/c.md", "a/%C3%A4.md", "../elsewhere.md")
    assert directories_of(entry) == {
        "skill://daily": {"skill://daily/SKILL.md", "skill://daily/a", "skill://daily/.."},
        "skill://daily/a": {"skill://daily/a/b", "skill://daily/a/ä.md"},
        "skill://daily/a/b": {"skill://daily/a/b/c.md"},
        "skill://daily/..": {"skill://daily/../elsewhere.md"},
    }


@pytest.mark.parametrize("uri", [None, 1, "skill://daily", "skill://daily/README.md", "SKILL.md"])
def test_root_of_other_uri_is_absent(uri: JsonValue) -> None:
    assert root_of({"uri": uri}) is None


@pytest.mark.parametrize("resources", [None, "dynamic", [None, 1, {}, {"uri": 1}]])
def test_files_of_malformed_entry_are_none(resources: JsonValue) -> None:
    assert files_of({"uri": "skill://daily/SKILL.md", "resources": resources}) == {}


@pytest.mark.parametrize(
    ("contents", "data"),
    [([{"text": "ä"}], "ä".encode()), ([{"blob": "aGk="}], b"hi"), ([{"text": "\ud800"}], b"\xed\xa0\x80")],
)
def test_content_of_text_or_blob_is_its_bytes(contents: JsonValue, data: bytes) -> None:
    assert content_of(JsonRpcResponse(method="resources/read", message={"result": {"contents": contents}})) == data


@pytest.mark.parametrize("contents", [None, [], [{}], [{"text": 1}], [{"blob": "?"}], [{"text": "a"}, {"text": "b"}]])
def test_content_of_malformed_result_is_deviation(contents: JsonValue) -> None:
    with pytest.raises(Deviation):
        content_of(JsonRpcResponse(method="resources/read", message={"result": {"contents": contents}}))
