"""Tests of the scenarios of skills: what is correct is valid, and what is not differs in one thing."""

from __future__ import annotations

import attrs
import pytest

from mcp_conformance.scenarios import skills as scenarios
from mcp_conformance.scenarios.served_skills import SKILL_FILE, ServedSkill
from mcp_core.conversion.converter import converter
from mcp_core.features.skills import digest, entry_problem
from mcp_core.revisions import LATEST
from mcp_core.trio.front_matter import read_front_matter
from mcp_core.types.skills import Skill

CORRECT = (
    *scenarios.RIGHT,
    *scenarios.NAMESAKES,
    *scenarios.MORE,
    *scenarios.ALWAYS_RIGHT,
    scenarios.RESERVED,
    scenarios.NON_ASCII,
    scenarios.LARGE,
    scenarios.HIDDEN,
    scenarios.PDF[scenarios.NO_PREFETCH],
)


def entry_of(skill: ServedSkill) -> Skill:
    return converter(LATEST).structure(skill.entry(), Skill)


def differing(skill: ServedSkill) -> set[str]:
    """Return what of a skill differs from its entry: digests, sizes, the front matter, or files."""
    entry = entry_of(skill)
    texts = {skill.file(path): text.encode() for path, text in skill.texts().items()}
    found = {"front matter"} if read_front_matter(texts[skill.uri].decode()) != entry.frontmatter else set[str]()
    for each in () if entry.resources == "dynamic" else entry.resources:
        data = texts.pop(each.uri)
        found |= {"digest"} if each.digest != digest(data) else set()
        found |= {"size"} if each.size != len(data) else set()
    return found | ({"files"} if texts and entry.resources != "dynamic" else set())


@pytest.mark.parametrize("skill", CORRECT, ids=lambda skill: skill.root)
def test_correct_skill_fits_its_valid_entry(skill: ServedSkill) -> None:
    assert entry_problem(entry_of(skill)) is None
    assert differing(skill) == set()
    assert skill.flaw == ""


@pytest.mark.parametrize(
    ("skill", "difference"),
    [
        (scenarios.PDF[scenarios.DIGEST], "digest"),
        (scenarios.PDF[scenarios.SIZE], "size"),
        (scenarios.PDF[scenarios.FRONT_MATTER], "front matter"),
        *((skill, "front matter") for skill in scenarios.FRONT_MATTERS),
        (scenarios.FILE_DIFFERS, "digest"),
        (scenarios.REFERS_BEYOND, "files"),
    ],
)
def test_changed_skill_differs_from_its_valid_entry_in_one_thing(skill: ServedSkill, difference: str) -> None:
    assert entry_problem(entry_of(skill)) is None
    assert differing(skill) == {difference}
    assert skill.flaw


def test_large_skill_reaches_both_limits() -> None:
    resources = entry_of(scenarios.LARGE).resources
    assert resources != "dynamic"
    assert len(resources) == 512
    assert sum(each.size for each in resources) == 16 * 1024 * 1024
    more = attrs.evolve(scenarios.LARGE, files={**scenarios.LARGE.files, "more.txt": ""})
    assert "the maximum is 512" in str(entry_problem(entry_of(more)))


def test_links_of_skill_lead_to_its_files() -> None:
    for skill in (*CORRECT, *scenarios.FRONT_MATTERS, scenarios.FILE_DIFFERS, scenarios.REFERS_BEYOND):
        assert set(skill.links) <= set(skill.files)
        assert all(f"]({path})" in skill.texts()[SKILL_FILE] for path in skill.links)
