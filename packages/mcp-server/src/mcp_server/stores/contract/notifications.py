"""Checks for stores of sessions that outlive the process: pending change notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import LocalProtocolError
from mcp_core.limits import Limits
from mcp_core.methods import NOTIFICATIONS_RESOURCES_UPDATED, NOTIFICATIONS_TOOLS_LIST_CHANGED
from mcp_server.stores.contract.assertions import RECORD, ROOMY, begun, opened, refused, same, true
from mcp_server.stores.sessions import PendingNotification, StoredEvent

if TYPE_CHECKING:
    from mcp_server.stores.contract.assertions import OpenStore

__all__ = [
    "change_is_pending_for_subscribed_sessions",
    "change_is_pending_until_its_event_is_stored",
    "deleted_session_has_no_pending_changes",
    "pending_changes_have_count_limit",
    "removed_change_is_not_pending",
    "reopened_store_has_pending_changes",
    "repeated_change_is_pending_once",
    "unsubscribed_change_is_dropped",
]

_TOOLS: Final = PendingNotification(NOTIFICATIONS_TOOLS_LIST_CHANGED.name)


def _updated(uri: str) -> PendingNotification:
    return PendingNotification(NOTIFICATIONS_RESOURCES_UPDATED.name, uri)


async def change_is_pending_for_subscribed_sessions(open_store: OpenStore) -> None:
    """Check that a change of a list concerns all sessions, and a change of a resource the sessions subscribed to it.

    A subscription also covers the resources below its resource. A URI may contain any characters.
    """
    odd = "lone surrogate: \ud800"
    async with opened(open_store, ROOMY, "a", "b", "c") as store:
        for session, uri in (("a", "test://x"), ("b", "test://x/y/"), ("b", odd), ("c", "test://x/yy"), ("c", "")):
            await store.subscribe(session, uri)
        store.record_notification(_updated("test://x/y/z"))
        store.record_notification(_updated("test://x"))
        store.record_notification(_TOOLS)
        store.record_notification(_updated(odd))
        same(
            await store.pending_notifications("a"),
            (_updated("test://x/y/z"), _updated("test://x"), _TOOLS),
            "the pending notifications of the session subscribed to a resource and those below it",
        )
        same(
            await store.pending_notifications("b"),
            (_updated("test://x/y/z"), _TOOLS, _updated(odd)),
            "the pending notifications of the session subscribed to a folder",
        )
        same(await store.pending_notifications("c"), (_TOOLS,), "the pending notifications of an unconcerned session")
        same(await store.pending_notifications("unknown"), (), "the pending notifications of an unknown session")
        await store.subscribe("c", "test://late")
        await store.save(attrs.evolve(RECORD, id="late"))
        same(await store.pending_notifications("c"), (_TOOLS,), "the pending notifications after another subscription")
        same(await store.pending_notifications("late"), (), "the pending notifications of a session saved later")


async def repeated_change_is_pending_once(open_store: OpenStore) -> None:
    """Check that a change recorded again stays at its first position."""
    async with opened(open_store, ROOMY, "a") as store:
        for uri in ("test://x", "test://x/", "test://y"):
            await store.subscribe("a", uri)
        expected = (_updated("test://x/1"), _TOOLS, _updated("test://y"))
        for _ in range(3):
            for each in expected:
                store.record_notification(each)
            same(await store.pending_notifications("a"), expected, "the pending notifications")


async def change_is_pending_until_its_event_is_stored(open_store: OpenStore) -> None:
    """Check that storing the event removes the pending change in one step, and that a later change is pending again."""
    async with opened(open_store, ROOMY, "a", "b") as store:
        for session in ("a", "b"):
            await store.subscribe(session, "test://x")
        store.record_notification(_updated("test://x"))
        store.record_notification(_TOOLS)
        stream = await begun(store, "a")
        event = StoredEvent(stream, 1, b"{}", notification=_updated("test://x"))
        for _ in range(2):
            await store.append("a", (event,))
            same(await store.pending_notifications("a"), (_TOOLS,), "the pending notifications after the event")
        same(await store.events("a", stream, 0), (StoredEvent(stream, 1, b"{}"),), "the event")
        both = (_updated("test://x"), _TOOLS)
        same(await store.pending_notifications("b"), both, "the pending notifications of the other session")
        store.record_notification(_updated("test://x"))
        await store.append("a", (event,))
        same(set(await store.pending_notifications("a")), set(both), "the pending notifications after another change")
        gap = StoredEvent(stream, 9, b"{}")
        again = attrs.evolve(event, number=2)
        await refused(LocalProtocolError, store.append("a", (again, gap)), "events with a gap in their numbers")
        same(set(await store.pending_notifications("a")), set(both), "the pending notifications after a rejected event")


async def removed_change_is_not_pending(open_store: OpenStore) -> None:
    """Check that removal affects no other notifications, and that removing one that is not pending does nothing."""
    async with opened(open_store, ROOMY, "a", "b") as store:
        for session in ("a", "b"):
            await store.subscribe(session, "test://x")
        store.record_notification(_updated("test://x"))
        store.record_notification(_TOOLS)
        await store.remove_notifications("a", (_TOOLS, _updated("test://y")))
        await store.remove_notifications("unknown", (_TOOLS,))
        same(await store.pending_notifications("a"), (_updated("test://x"),), "the pending notifications")
        same(len(await store.pending_notifications("b")), 2, "the number of pending notifications of the other session")


async def unsubscribed_change_is_dropped(open_store: OpenStore) -> None:
    """Check that `unsubscribe` removes pending changes, except of resources below another subscribed resource."""
    async with opened(open_store, ROOMY, "a") as store:
        for uri in ("test://x", "test://x/y", "test://z"):
            await store.subscribe("a", uri)
        for each in (_updated("test://x/y/1"), _updated("test://x/2"), _updated("test://z"), _TOOLS):
            store.record_notification(each)
        await store.unsubscribe("a", "test://x")
        left = (_updated("test://x/y/1"), _updated("test://z"), _TOOLS)
        same(await store.pending_notifications("a"), left, "the pending notifications")
        for uri in ("test://x/y", "test://z"):
            await store.unsubscribe("a", uri)
        same(await store.pending_notifications("a"), (_TOOLS,), "the pending notifications without subscriptions")


async def deleted_session_has_no_pending_changes(open_store: OpenStore) -> None:
    """Check that a session that was deleted, purged or evicted leaves no pending notifications."""
    async with opened(open_store, Limits(sessions=3)) as store:
        for used_at, id in enumerate(("crowded", "purged", "deleted")):
            await store.save(attrs.evolve(RECORD, id=id, used_at=float(used_at)))
            await store.subscribe(id, "test://x")
        store.record_notification(_updated("test://x"))
        store.record_notification(_TOOLS)
        await store.save(attrs.evolve(RECORD, id="new", used_at=3.0))
        await store.purge(2.0, 9.0)
        await store.delete("deleted")
        store.record_notification(_TOOLS)
        for id in ("crowded", "purged", "deleted"):
            same(await store.pending_notifications(id), (), f"the pending notifications of the {id} session")
        for id in ("purged", "deleted"):
            await store.save(attrs.evolve(RECORD, id=id, used_at=4.0))
            same(
                await store.pending_notifications(id), (), "the pending notifications of a new session with the same id"
            )


async def pending_changes_have_count_limit(open_store: OpenStore) -> None:
    """Check that the subscribed resource is recorded beyond `Limits.watched_resources`, or if the URI is too long."""
    limits = Limits(watched_resources=5, uri_chars=100)
    async with opened(open_store, limits, "a") as store:
        for uri in ("test://x", "test://y"):
            await store.subscribe("a", uri)
        for number in range(100):
            store.record_notification(_updated(f"test://x/{number}"))
        store.record_notification(_updated("test://y"))
        pending = set(await store.pending_notifications("a"))
        true(
            len(pending) <= 5 + 2,
            f"{len(pending)} changes are pending, but 5 and one for each subscription are allowed",
        )
        true(
            {_updated("test://x"), _updated("test://y")} <= pending, "a subscribed resource changed but is not pending"
        )


async def reopened_store_has_pending_changes(open_store: OpenStore) -> None:
    """Check that pending notifications outlive the process, and that delivered ones are not pending again."""
    async with opened(open_store, ROOMY, "a") as store:
        for uri in ("test://x", "test://y"):
            await store.subscribe("a", uri)
        stream = await begun(store, "a")
        for each in (_updated("test://x"), _TOOLS, _updated("test://y")):
            store.record_notification(each)
        await store.append("a", (StoredEvent(stream, 1, b"{}", notification=_updated("test://x")),))
    store.record_notification(_updated("test://x"))
    for _ in range(2):
        async with opened(open_store) as store:
            same(await store.pending_notifications("a"), (_TOOLS, _updated("test://y")), "the pending notifications")
    async with opened(open_store) as store:
        await store.append("a", (StoredEvent(stream, 2, b"{}", notification=_TOOLS),))
        same(
            await store.pending_notifications("a"), (_updated("test://y"),), "the pending notifications after an event"
        )
