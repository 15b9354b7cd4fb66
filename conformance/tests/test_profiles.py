from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks.freeze_profile import main
from mcp_conformance.model.check import Role
from mcp_conformance.suite.checks import CHECKS
from mcp_conformance.suite.profile import Purpose, freeze, load, names, read
from mcp_core.errors import InvalidValue
from mcp_core.revisions import REVISIONS


def test_frozen_profile_is_readable() -> None:
    profile = read(freeze("now"))
    for role in Role:
        assert set(profile.checks[role]) == {check.id for check in CHECKS[role]}
        for check in CHECKS[role]:
            assert profile.has(check.id, min(check.revisions), role)


def test_profile_digest_ignores_name() -> None:
    assert read(freeze("one")).digest == read(freeze("two")).digest


def test_changed_profile_raises() -> None:
    document = json.loads(freeze("now"))
    document["server"].popitem()
    with pytest.raises(InvalidValue, match="was changed"):
        read(json.dumps(document))


def test_published_profiles_are_still_covered() -> None:
    # Ids are permanent: checks are added, but none is removed, loses a revision or proves less.
    for name in names():
        profile = load(name)
        assert profile.name == name
        for role in Role:
            present = {check.id: check for check in CHECKS[role]}
            for id, frozen in profile.checks[role].items():
                assert id in present
                assert frozen.revisions <= present[id].revisions
                assert set(frozen.proves) <= set(present[id].proves)


def test_profile_lists_requirements_of_revision() -> None:
    profile = read(freeze("now"))
    for revision in REVISIONS:
        expected = {
            row.id
            for check in CHECKS[Role.SERVER]
            if revision in check.revisions
            for row in check.requirements(revision)
        }
        assert profile.requirements(revision, Role.SERVER) == expected


@pytest.mark.parametrize("name", ["nothing", "nobody@2026-11", "author@2020-01", "author@", ""])
def test_unknown_profile_raises(name: str) -> None:
    with pytest.raises(InvalidValue, match=f"there is no profile '{name}'; available: author, library, author@2026-11"):
        load(name)


def test_profile_of_a_purpose_has_all_present_checks() -> None:
    for purpose in Purpose:
        profile = load(purpose.value)
        assert (profile.name, profile.purpose, profile.checks) == (purpose.value, purpose, read(freeze("now")).checks)


def test_purpose_applies_to_a_frozen_set() -> None:
    author, library, short = load("author@2026-11"), load("library@2026-11"), load("2026-11")
    assert (author.name, author.purpose) == ("author@2026-11", Purpose.AUTHOR)
    assert library.purpose is short.purpose is Purpose.LIBRARY
    assert author.digest == library.digest == short.digest


def test_existing_profile_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["2027-01"], tmp_path) == 0
    written = (tmp_path / "2027-01.json").read_text()
    assert main(["2027-01"], tmp_path) == 1
    assert (tmp_path / "2027-01.json").read_text() == written
    assert "exists" in capsys.readouterr().out
