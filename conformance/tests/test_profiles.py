from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks.freeze_profile import main
from mcp_conformance.model.check import Role
from mcp_conformance.suite.checks import CHECKS
from mcp_conformance.suite.profile import freeze, load, names, read
from mcp_core.errors import InvalidValue
from mcp_core.revisions import REVISIONS


def test_what_is_frozen_can_be_read() -> None:
    profile = read(freeze("now"))
    for role in Role:
        assert set(profile.checks[role]) == {check.id for check in CHECKS[role]}
        for check in CHECKS[role]:
            assert profile.has(check.id, min(check.revisions), role)


def test_two_names_for_the_same_contents_have_one_digest() -> None:
    assert read(freeze("one")).digest == read(freeze("two")).digest


def test_what_was_changed_is_refused() -> None:
    document = json.loads(freeze("now"))
    document["server"].popitem()
    with pytest.raises(InvalidValue, match="was changed"):
        read(json.dumps(document))


def test_the_profiles_stay_what_they_were() -> None:
    # Ids are for ever: a check may be added, but none may go, run less or prove less.
    for name in names():
        profile = load(name)
        assert profile.name == name
        for role in Role:
            present = {check.id: check for check in CHECKS[role]}
            for id, frozen in profile.checks[role].items():
                assert id in present
                assert frozen.revisions <= present[id].revisions
                assert set(frozen.proves) <= set(present[id].proves)


def test_a_profile_tells_the_requirements_of_a_revision() -> None:
    profile = read(freeze("now"))
    for revision in REVISIONS:
        expected = {
            row.id
            for check in CHECKS[Role.SERVER]
            if revision in check.revisions
            for row in check.requirements(revision)
        }
        assert profile.requirements(revision, Role.SERVER) == expected


def test_a_profile_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(InvalidValue, match="there is no profile 'nothing'"):
        load("nothing")


def test_a_profile_is_never_made_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["2027-01"], tmp_path) == 0
    made = (tmp_path / "2027-01.json").read_text()
    assert main(["2027-01"], tmp_path) == 1
    assert (tmp_path / "2027-01.json").read_text() == made
    assert "exists" in capsys.readouterr().out
