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
    sessions.saved_session_loads_unchanged,
    sessions.unknown_session_is_not_found,
    sessions.saved_again_session_keeps_its_events,
    sessions.touched_session_has_new_time,
    sessions.subscriptions_are_added_and_removed,
    sessions.deleted_session_leaves_no_records,
    sessions.sessions_have_count_limit,
    sessions.unused_sessions_are_purged,
    sessions.session_with_future_time_counts_as_used_now,
    sessions.events_load_in_order,
    sessions.events_of_streams_and_sessions_are_separate,
    sessions.stream_numbers_grow,
    sessions.responses_are_pending_until_sent,
    sessions.repeated_events_change_nothing,
    sessions.impossible_events_are_rejected,
    sessions.session_has_one_standalone_stream,
    sessions.ended_stream_has_no_pending_responses,
    sessions.highest_event_number_is_kept,
    bounds.stored_events_have_count_limit,
    bounds.stored_events_have_byte_limit,
    bounds.delivered_events_are_dropped_first,
    bounds.undelivered_responses_are_kept,
    bounds.undelivered_responses_have_byte_limit,
    bounds.concurrent_writers_keep_their_events,
    bounds.rejected_write_leaves_other_writes,
    bounds.cancelled_write_is_atomic,
    bounds.closed_store_raises,
)
"""The checks for every store of sessions."""

DURABLE_STORE_CHECKS: Final[tuple[StoreCheck, ...]] = (
    bounds.reopened_store_has_all_records,
    bounds.reopened_store_counts_stored_bytes,
    notifications.change_is_pending_for_subscribed_sessions,
    notifications.repeated_change_is_pending_once,
    notifications.change_is_pending_until_its_event_is_stored,
    notifications.removed_change_is_not_pending,
    notifications.unsubscribed_change_is_dropped,
    notifications.deleted_session_has_no_pending_changes,
    notifications.pending_changes_have_count_limit,
    notifications.reopened_store_has_pending_changes,
)
"""The additional checks for a store of sessions that outlives the process."""
