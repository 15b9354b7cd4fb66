"""Checks of the contract of `SessionStore` and `TaskStore`, for authors of stores.

Each check is a coroutine function that accepts a function that opens the store. With pytest and pytest-trio:

    @pytest.mark.parametrize("check", STORE_CHECKS + DURABLE_STORE_CHECKS, ids=lambda check: check.__name__)
    async def test_store_follows_contract(check: StoreCheck, tmp_path: Path) -> None:
        async def open_store(limits: Limits) -> SessionStore:
            return MyStore(tmp_path / "sessions", limits=limits)

        await check(open_store)

A check opens an empty store and closes it. If the store breaks a rule, the check raises `AssertionError` with a
message. The checks in `DURABLE_STORE_CHECKS` open the store again and compare its content. `TASK_STORE_CHECKS` and
`DURABLE_TASK_STORE_CHECKS` are the checks for stores of tasks.
"""

from __future__ import annotations

from typing import Final

from mcp_server.stores.contract import bounds, notifications, sessions
from mcp_server.stores.contract.assertions import OpenStore, StoreCheck
from mcp_server.stores.contract.tasks import (
    DURABLE_TASK_STORE_CHECKS,
    TASK_STORE_CHECKS,
    OpenTaskStore,
    TaskStoreCheck,
)

__all__ = [
    "DURABLE_STORE_CHECKS",
    "DURABLE_TASK_STORE_CHECKS",
    "STORE_CHECKS",
    "TASK_STORE_CHECKS",
    "OpenStore",
    "OpenTaskStore",
    "StoreCheck",
    "TaskStoreCheck",
]

STORE_CHECKS: Final[tuple[StoreCheck, ...]] = (
    sessions.a_session_is_found_as_it_was_saved,
    sessions.a_session_that_was_never_saved_is_unknown,
    sessions.a_record_is_replaced_and_the_rest_stays,
    sessions.subscriptions_are_added_and_removed,
    sessions.a_deleted_session_leaves_nothing,
    sessions.sessions_are_bounded,
    sessions.sessions_that_were_not_used_are_purged,
    sessions.a_session_of_the_future_counts_as_used_now,
    sessions.events_come_back_in_their_order,
    sessions.streams_and_sessions_are_apart,
    sessions.responses_of_a_stream_are_pending_until_they_are_sent,
    sessions.the_same_events_again_change_nothing,
    sessions.what_cannot_be_is_refused,
    sessions.a_session_has_one_standalone_stream,
    sessions.an_ended_stream_has_no_pending_responses,
    sessions.the_greatest_number_of_a_stream_is_remembered,
    bounds.events_are_bounded_in_number,
    bounds.events_are_bounded_in_bytes,
    bounds.what_was_delivered_goes_first,
    bounds.answers_stay_until_they_are_delivered,
    bounds.bytes_of_answers_are_bounded,
    bounds.many_tasks_do_not_disturb_each_other,
    bounds.a_misuse_spoils_nothing_of_others,
    bounds.a_cancelled_call_was_made_entirely_or_not_at_all,
    bounds.a_closed_store_says_so,
)
"""The checks for every store of sessions."""

DURABLE_STORE_CHECKS: Final[tuple[StoreCheck, ...]] = (
    bounds.everything_is_there_when_it_is_opened_again,
    bounds.bounds_count_what_was_there_before,
    notifications.a_change_is_pending_for_the_sessions_that_it_concerns,
    notifications.a_change_is_pending_only_once,
    notifications.a_change_is_pending_until_the_event_that_notifies_of_it,
    notifications.removed_changes_are_not_pending,
    notifications.a_change_of_what_is_not_watched_any_more_is_dropped,
    notifications.a_session_that_is_gone_leaves_no_changes,
    notifications.changes_below_a_watched_resource_are_bounded,
    notifications.changes_outlive_the_process,
)
"""The additional checks for a store of sessions that outlives the process."""
