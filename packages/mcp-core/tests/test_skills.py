"""Requirements on skills."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.conversion.converter import converter
from mcp_core.errors import InvalidValue, LocalProtocolError
from mcp_core.features.skills import (
    MAX_FRONT_MATTER_BYTES,
    MAX_SKILL_BYTES,
    MAX_SKILL_FILES,
    InvalidFrontMatter,
    digest,
    entry_problem,
    front_matter_problem,
    is_skill_name,
    name_of,
    reserved_metadata,
    resolve,
    root_of,
    same,
    split,
)
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import R2025_11_25, R2026_07_28
from mcp_core.types.skills import Skill, SkillResource

FRONT: JsonObject = {"name": "tidy", "description": "Tidies."}
DIGEST = digest(b"")


def file(path: str, size: int = 0, sha: str = DIGEST) -> SkillResource:
    return SkillResource(uri=f"skill://acme/tidy/{path}", digest=sha, size=size)


def skill(*files: SkillResource, uri: str = "skill://acme/tidy/SKILL.md", front: JsonObject = FRONT) -> Skill:
    return Skill(uri=uri, frontmatter=front, resources=files or (file("SKILL.md"),))


# --- SKILL.md --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("skills.digest-format")
def test_digest_format() -> None:
    assert digest(b"abc") == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(
    ("text", "block", "body"),
    [
        ("---\na: 1\n---\nbody\n", "a: 1\n", "body\n"),
        ("---  \r\na: 1\r\n---\r\nb\r\n", "a: 1\r\n", "b\r\n"),
        ("---\n---", "", ""),
        ("---\na: |\n  ---\nb: 2\n---\n---\n", "a: |\n  ---\nb: 2\n", "---\n"),
        ("---\na: x\x85---\n---\n", "a: x\x85---\n", ""),
    ],
)
def test_front_matter_and_body_split(text: str, block: str, body: str) -> None:
    assert split(text) == (block, body)


@pytest.mark.parametrize(
    ("text", "line"),
    [("", 1), ("name: a\n", 1), ("\ufeff---\n---\n", 1), (" ---\n---\n", 1), ("---\na: 1\n", 3)],
)
def test_front_matter_without_delimiter_rejected(text: str, line: int) -> None:
    with pytest.raises(InvalidFrontMatter) as caught:
        split(text)
    assert caught.value.line == line


def test_front_matter_over_limit_rejected() -> None:
    fits = "a" * (MAX_FRONT_MATTER_BYTES - 1)
    assert split(f"---\n{fits}\n---\n")[0] == f"{fits}\n"
    with pytest.raises(InvalidFrontMatter, match="more than 16384 bytes"):
        split(f"---\n{fits}a\n---\n")
    with pytest.raises(InvalidFrontMatter, match="more than 16384 bytes"):
        split("---\n" + "\n" * (MAX_FRONT_MATTER_BYTES + 1))


@pytest.mark.parametrize("name", ["a", "a-b", "0", "pdf-2", "a" * 64])
def test_skill_name_valid_accepted(name: str) -> None:
    assert is_skill_name(name)
    assert front_matter_problem({"name": name, "description": "x"}, name) is None


@pytest.mark.parametrize("name", ["", "A", "a--b", "-a", "a-", "a_b", "ä", "a b", "a/b", "a" * 65, "a\n"])
def test_skill_name_invalid_rejected(name: str) -> None:
    assert not is_skill_name(name)
    assert "name must be" in str(front_matter_problem({"name": name, "description": "x"}, name))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": 5}, "name must be"),
        ({"name": "other"}, "name is 'other', but the directory of the skill is 'tidy'"),
        ({"description": ""}, "description must be"),
        ({"description": " \n"}, "description must be"),
        ({"description": None}, "description must be"),
        ({"description": "x" * 1_025}, "description must be"),
        ({"compatibility": "x" * 501}, "compatibility must be"),
        ({"compatibility": 5}, "compatibility must be"),
        ({"metadata": "x"}, "metadata must be"),
    ],
    ids=str,
)
def test_front_matter_invalid_member_rejected(changes: JsonObject, problem: str) -> None:
    assert str(front_matter_problem({**FRONT, **changes}, "tidy")).startswith(problem)


def test_front_matter_description_required_other_members_optional() -> None:
    assert "description" in str(front_matter_problem({"name": "tidy"}, "tidy"))
    more: JsonObject = {"compatibility": "any", "metadata": {"version": 1}, "allowed-tools": "Bash", "new": [1]}
    assert front_matter_problem({**FRONT, **more}, "tidy") is None


def test_reserved_metadata_keys_returned() -> None:
    assert reserved_metadata({"metadata": {"io.modelcontextprotocol/x": 1, "y": 2}}) == ["io.modelcontextprotocol/x"]
    assert reserved_metadata({}) == []
    assert reserved_metadata({"metadata": "x"}) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), ({"a": [1, {"b": None}], "c": 2}, {"c": 2, "a": [1, {"b": None}]}), ([], []), ("x", "x"), (True, True)],
)
def test_json_equal_values_same(one: JsonValue, other: JsonValue) -> None:
    assert same(one, other)
    assert same(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        ("1", 1),
        (None, False),
        ([1], [1, 2]),
        ([1], [2]),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": True}),
        ({}, []),
    ],
)
def test_json_different_values_not_same(one: JsonValue, other: JsonValue) -> None:
    assert not same(one, other)
    assert not same(other, one)


# --- entries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "root", "name"),
    [
        ("skill://tidy/SKILL.md", "skill://tidy", "tidy"),
        ("github://o/r/skills/tidy/SKILL.md", "github://o/r/skills/tidy", "tidy"),
        ("skill://a%20b/SKILL.md", "skill://a%20b", "a b"),
        ("skill://SKILL.md", None, ""),
        ("skill://tidy/skill.md", None, ""),
        ("skill://tidy/", None, ""),
        ("tidy/SKILL.md", None, ""),
        ("SKILL.md", None, ""),
        ("skill://ti\ndy/SKILL.md", None, ""),
        ("skill://tidy//SKILL.md", None, ""),
    ],
)
def test_skill_root_and_name_read_from_uri(uri: str, root: str | None, name: str) -> None:
    assert root_of(uri) == root
    assert name_of(uri) == name


@pytest.mark.spec("skills.limits-supported")
def test_complete_entry_has_no_problem() -> None:
    files = [file("SKILL.md", MAX_SKILL_BYTES), *(file(f"f/{number}.md") for number in range(MAX_SKILL_FILES - 1))]
    assert entry_problem(skill(*files)) is None
    assert entry_problem(Skill(uri="skill://tidy/SKILL.md", frontmatter=FRONT, resources="dynamic")) is None


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (skill(uri="skill://acme/tidy/README.md"), "not the URI of a SKILL.md"),
        (skill(front={"name": "other", "description": "x"}), "must be the same"),
        (skill(*(file(f"{number}") for number in range(MAX_SKILL_FILES + 1))), "has 513 files"),
        (skill(file("SKILL.md", MAX_SKILL_BYTES), file("a", 1)), "16777217 bytes"),
        (skill(file("SKILL.md"), file("SKILL.md")), "listed twice"),
        (skill(file("a")), "do not include SKILL.md"),
        (skill(file("SKILL.md"), file("../b")), "not within"),
        (skill(file("SKILL.md"), file("%2e%2e/b")), "not within"),
        (skill(file("SKILL.md"), file("a%2Fb")), "not within"),
        (skill(file("SKILL.md"), file("a%5Cb")), "not within"),
        (skill(file("SKILL.md"), file("a//b")), "not within"),
        (skill(file("SKILL.md"), file("a?b")), "not within"),
        (skill(file("SKILL.md"), file("a#b")), "not within"),
        (skill(file("SKILL.md"), SkillResource(uri="skill://acme/tidy2/a", digest=DIGEST, size=0)), "not within"),
        (skill(file("SKILL.md", 0, DIGEST.upper())), "not a SHA-256"),
        (skill(file("SKILL.md", 0, "sha256:abc")), "not a SHA-256"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_entry_has_problem(entry: Skill, problem: str) -> None:
    assert problem in str(entry_problem(entry))


@pytest.mark.parametrize(
    ("reference", "uri"),
    [
        ("references/GUIDE.md", "skill://tidy/references/GUIDE.md"),
        ("./a/../b.md", "skill://tidy/b.md"),
        ("a b.md", "skill://tidy/a b.md"),
        ("skill://tidy/a", "skill://tidy/a"),
        ("../other/SKILL.md", None),
        ("a/../../b", None),
        ("/etc/passwd", None),
        ("", None),
        (".", None),
        ("skill://other/a", None),
        ("skill://tidy/../other/a", None),
        ("https://example.com/a", None),
        ("file:///etc/passwd", None),
    ],
)
def test_reference_resolved_within_skill(reference: str, uri: str | None) -> None:
    assert resolve("skill://tidy", reference) == uri


@pytest.mark.property
@given(st.text(alphabet="ab./%2eE:\\?#", max_size=20))
def test_arbitrary_reference_stays_within_skill(reference: str) -> None:
    found = resolve("skill://tidy", reference)
    assert found is None or (found.startswith("skill://tidy/") and ".." not in found.split("/"))


# --- on the wire -----------------------------------------------------------------------------------------------------


def test_skill_resources_list_or_dynamic() -> None:
    convert = converter(R2026_07_28)
    raw: JsonObject = {"uri": "skill://tidy/SKILL.md", "frontmatter": FRONT, "resources": "dynamic"}
    assert convert.structure(raw, Skill).resources == "dynamic"
    assert convert.unstructure(convert.structure(raw, Skill)) == raw
    raw["resources"] = [{"uri": "skill://tidy/SKILL.md", "digest": DIGEST, "size": 0}]
    assert convert.unstructure(convert.structure(raw, Skill)) == raw
    wrong: list[JsonValue] = [
        "static",
        None,
        {},
        [{"uri": "x", "digest": "y", "size": -1}],
        [{"uri": "x", "digest": "y"}],
    ]
    for each in wrong:
        with pytest.raises(InvalidValue, match="resources"):
            convert.structure({**raw, "resources": each}, Skill)
    del raw["resources"]
    with pytest.raises(InvalidValue, match="resources"):
        convert.structure(raw, Skill)


def test_skill_type_missing_in_legacy_revisions() -> None:
    with pytest.raises(LocalProtocolError, match="has no Skill"):
        converter(R2025_11_25).structure({}, Skill)
