"""The table of requests and notifications."""

from __future__ import annotations

from typing import get_args

import pytest

from mcp_core import types as t
from mcp_core.methods import (
    ALIASES,
    COMPLETION_COMPLETE,
    ELICITATION_CREATE,
    EXTENSION_TASKS_GET,
    METHODS,
    NOTIFICATIONS,
    NOTIFICATIONS_MESSAGE,
    NOTIFICATIONS_PROGRESS,
    NOTIFICATIONS_RESOURCES_UPDATED,
    NOTIFICATIONS_TASKS,
    RESOURCES_READ,
    ROOTS_LIST,
    SAMPLING_CREATE_MESSAGE,
    TASKS_GET,
    TOOLS_CALL,
    TOOLS_LIST,
    Side,
    input_requests,
    method_for,
    methods,
    notification_for,
    notifications,
)
from mcp_core.revisions import (
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    REVISIONS,
)


def test_definition_repr_has_kind_and_name() -> None:
    assert repr(TOOLS_CALL) == "<Method tools/call>"
    assert repr(NOTIFICATIONS_TASKS) == "<Notification notifications/tasks>"


def test_role_both_contains_client_and_server() -> None:
    assert Side.CLIENT in Side.BOTH
    assert Side.SERVER in Side.SERVER
    assert Side.CLIENT not in Side.SERVER


def test_method_name_unique_per_revision() -> None:
    assert methods(R2025_11_25)["tasks/get"] is TASKS_GET
    assert methods(R2026_07_28)["tasks/get"] is EXTENSION_TASKS_GET
    assert "tasks/get" not in methods(R2025_06_18)
    for revision in REVISIONS.values():
        for rows in (METHODS, NOTIFICATIONS):
            names = [row.name for row in rows if revision in row.revisions]
            assert len(names) == len(set(names))


def test_definition_found_by_params() -> None:
    for revision in REVISIONS.values():
        for row in METHODS:
            if revision in row.revisions or revision in row.input_request:
                for cls in get_args(row.params) or (row.params,):
                    assert method_for(object.__new__(cls), revision) is row
        for note in notifications(revision).values():
            assert notification_for(object.__new__(note.params), revision) is note
    assert method_for(t.CallToolResult(content=()), R2025_06_18) is None
    assert notification_for(t.CallToolResult(content=()), R2025_06_18) is None


@pytest.mark.spec("mrtr.input-requests-kinds", "jsonrpc.server-no-requests")
def test_client_requests_sent_in_results_since_2026_07_28() -> None:
    assert set(input_requests(R2026_07_28).values()) == {ROOTS_LIST, SAMPLING_CREATE_MESSAGE, ELICITATION_CREATE}
    assert not input_requests(R2025_11_25)
    assert all(row.sender is Side.CLIENT for row in methods(R2026_07_28).values())


@pytest.mark.spec("mrtr.allowed-methods", "mrtr.not-on-other-methods")
def test_result_types_follow_revision() -> None:
    assert TOOLS_CALL.results(R2025_06_18) == {"complete": t.CallToolResult}
    assert TOOLS_CALL.results(R2025_11_25) == {"complete": t.CallToolResult}
    assert TOOLS_CALL.task_results[R2025_11_25] is t.CreateTaskResult
    assert TOOLS_CALL.results(R2026_07_28) == {
        "complete": t.CallToolResult,
        "input_required": t.InputRequiredResult,
        "task": t.CreateExtensionTaskResult,
    }
    assert RESOURCES_READ.results(R2026_07_28).keys() == {"complete", "input_required"}
    assert TOOLS_LIST.results(R2026_07_28).keys() == {"complete"}


def test_progress_sender_in_2026_07_28_is_server() -> None:
    assert NOTIFICATIONS_PROGRESS.sender_in(R2025_11_25) is Side.BOTH
    assert NOTIFICATIONS_PROGRESS.sender_in(R2026_07_28) is Side.SERVER


def test_completion_requires_capability_since_2025_03_26() -> None:
    assert R2024_11_05 not in COMPLETION_COMPLETE.capability_revisions
    assert R2025_03_26 in COMPLETION_COMPLETE.capability_revisions


def test_notification_filter_members_exist() -> None:
    for row in NOTIFICATIONS:
        assert row.filter_member is None or hasattr(t.SubscriptionFilter(), row.filter_member)


def test_aliases_are_not_definitions() -> None:
    assert ALIASES["$/logTrace"].definition is NOTIFICATIONS_MESSAGE
    assert ALIASES["notifications/resources/changed"].definition is NOTIFICATIONS_RESOURCES_UPDATED
    for revision in REVISIONS.values():
        assert not ALIASES.keys() & notifications(revision).keys()
