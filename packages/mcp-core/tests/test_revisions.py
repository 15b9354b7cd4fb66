"""The table of revisions."""

from __future__ import annotations

import attrs
import pytest

from mcp_core.revisions import (
    LATEST,
    LATEST_LEGACY,
    LEGACY,
    MODERN,
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    REVISIONS,
    Era,
    Revision,
    between,
    known,
    preferred,
)


def test_revisions_and_their_eras() -> None:
    assert list(REVISIONS) == ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
    assert all(revision.name == name for name, revision in REVISIONS.items())
    assert {revision.era for revision in LEGACY} == {Era.LEGACY}
    assert {revision.era for revision in MODERN} == {Era.MODERN}
    assert (*LEGACY, *MODERN) == tuple(REVISIONS.values())
    assert LATEST_LEGACY is R2025_11_25
    assert LATEST is R2026_07_28
    assert str(LATEST) == "2026-07-28"
    assert repr(LATEST) == "<Revision 2026-07-28>"


@pytest.mark.parametrize(
    ("trait", "expected"),
    [
        ("batching", {R2025_03_26}),
        ("server_requests", set(LEGACY)),
        ("result_type", {R2026_07_28}),
        ("session_log_level", set(LEGACY)),
        ("subscribe_pair", set(LEGACY)),
        ("core_tasks", {R2025_11_25}),
        ("error_without_id", {R2025_11_25, R2026_07_28}),
        ("bad_arguments_in_result", {R2025_11_25, R2026_07_28}),
        ("sessions", {R2025_03_26, R2025_06_18, R2025_11_25}),
        ("version_header", {R2025_06_18, R2025_11_25, R2026_07_28}),
        ("http_sse", {R2024_11_05}),
        ("disconnect_cancels", {R2026_07_28}),
    ],
)
def test_revision_traits(trait: str, expected: set[Revision]) -> None:
    assert trait in {each.name for each in attrs.fields(Revision)}
    assert {revision for revision in REVISIONS.values() if getattr(revision, trait)} == expected


def test_error_codes_follow_revision() -> None:
    assert [revision.resource_not_found for revision in REVISIONS.values()] == [-32002] * 4 + [-32602]
    assert [revision.missing_client_capability for revision in REVISIONS.values()] == [-32600] * 4 + [-32021]
    assert [revision.missing_url_elicitation for revision in REVISIONS.values()] == [None] * 3 + [-32042, None]


def test_between_returns_set_of_revisions() -> None:
    assert between() == set(REVISIONS.values())
    assert between(R2025_06_18) == {R2025_06_18, R2025_11_25, R2026_07_28}
    assert between(None, R2025_03_26) == {R2024_11_05, R2025_03_26}
    assert between(R2025_11_25, R2025_11_25) == {R2025_11_25}


def test_known_and_preferred_revisions() -> None:
    assert known(["2026-07-28", "1999-01-01", "2024-11-05"]) == (R2024_11_05, R2026_07_28)
    assert preferred([R2025_03_26, R2025_11_25, R2024_11_05]) is R2025_11_25
    assert preferred([]) is None
