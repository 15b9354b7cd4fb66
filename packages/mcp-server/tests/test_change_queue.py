"""The notification of many targets: the first changes immediately, the others in later iterations."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
import trio.testing

from mcp_core.engine.subscription_index import SubscriptionIndex
from mcp_core.engine.subscriptions import SubscriptionRegistry
from mcp_core.limits import SERVER_LIMITS
from mcp_core.methods import NOTIFICATIONS_RESOURCES_UPDATED, NotificationMethod
from mcp_core.types import ResourceUpdatedNotificationParams
from mcp_server.connection.change_queue import ChangeQueue
from mcp_server.connection.channel import SubscribedTarget


def subscribed_to(uri: str) -> SubscriptionRegistry:
    registry = SubscriptionRegistry(SERVER_LIMITS)
    registry.subscribe(uri)
    return registry


def indexed(*targets: SubscribedTarget) -> SubscriptionIndex[SubscribedTarget]:
    index: SubscriptionIndex[SubscribedTarget] = SubscriptionIndex()
    for target in targets:
        index.add(target)
    return index


class Target:
    def __init__(self, uri: str = "memo://") -> None:
        self.keys: list[str] = []
        self.subscription_registry = subscribed_to(uri)

    def publish(self, definition: NotificationMethod[object], params: object, key: str = "") -> None:
        assert (definition, params) == (NOTIFICATIONS_RESOURCES_UPDATED, ResourceUpdatedNotificationParams(uri=key))
        self.keys.append(key)

    def missed(self) -> int:
        self.keys.append("all")
        return 100


class Unusable:
    def __init__(self) -> None:
        self.subscription_registry = subscribed_to("memo://")

    def publish(self, definition: NotificationMethod[object], params: object, key: str = "") -> None:
        raise RuntimeError("unusable")

    def missed(self) -> int:
        raise RuntimeError("unusable")


def publish(notifier: ChangeQueue, *numbers: int) -> None:
    for number in numbers:
        uri = f"memo://{number}"
        notifier.publish(NOTIFICATIONS_RESOURCES_UPDATED, ResourceUpdatedNotificationParams(uri=uri), uri)


def keys(*numbers: int) -> list[str]:
    return [f"memo://{number}" for number in numbers]


async def test_few_changes_published_immediately() -> None:
    targets = [Target() for _ in range(20)]
    notifier = ChangeQueue(indexed(*targets))
    for _ in range(50):
        publish(notifier, 1, 2, 1)
        assert all(target.keys == keys(1, 2, 1) for target in targets)
        for target in targets:
            target.keys.clear()
        await trio.testing.wait_all_tasks_blocked()


async def test_target_without_subscription_not_notified() -> None:
    targets, others = [Target() for _ in range(400)], [Target("memo://other") for _ in range(400)]
    notifier = ChangeQueue(indexed(*targets, *others))
    publish(notifier, *range(5))
    await trio.testing.wait_all_tasks_blocked()
    assert all(target.keys == keys(*range(5)) for target in targets)
    assert not any(other.keys for other in others)


async def test_targets_without_subscription_do_not_delay_others() -> None:
    target, others = Target(), [Target("memo://other") for _ in range(10_000)]
    notifier = ChangeQueue(indexed(*others, target))
    publish(notifier, *range(200))
    assert target.keys == keys(*range(200))


async def test_notified_targets_bounded_in_each_iteration() -> None:
    targets = [Target() for _ in range(400)]
    notifier = ChangeQueue(indexed(*targets))
    publish(notifier, *range(100))
    before = sum(len(target.keys) for target in targets)
    most = before
    while before < 40_000:
        await trio.lowlevel.checkpoint()
        after = sum(len(target.keys) for target in targets)
        most, before = max(most, after - before), after
    assert most <= 512
    assert all(target.keys == keys(*range(100)) for target in targets)


async def test_queued_change_not_queued_again() -> None:
    targets = [Target() for _ in range(400)]
    notifier = ChangeQueue(indexed(*targets))
    publish(notifier, 1, 2, 2, 3, 1)
    await trio.testing.wait_all_tasks_blocked()
    assert all(target.keys == keys(1, 2, 3) for target in targets)
    publish(notifier, 2)
    await trio.testing.wait_all_tasks_blocked()
    assert all(target.keys == keys(1, 2, 3, 2) for target in targets)


async def test_changes_published_in_order() -> None:
    targets = [Target() for _ in range(400)]
    notifier = ChangeQueue(indexed(*targets))
    publish(notifier, 1)
    # The first change is published to a part of the targets.
    while not any(target.keys for target in targets):
        await trio.lowlevel.checkpoint()
    publish(notifier, 2, 1)
    await trio.testing.wait_all_tasks_blocked()
    assert all(target.keys == keys(1, 2, 1) for target in targets)


async def test_target_that_disconnected_not_notified() -> None:
    gone, rest = Target(), [Target() for _ in range(400)]
    targets = indexed(gone, *rest)
    notifier = ChangeQueue(targets)
    publish(notifier, 1, 2)
    targets.remove(gone)
    await trio.testing.wait_all_tasks_blocked()
    assert gone.keys == []
    for target in rest:
        targets.remove(target)
    publish(notifier, 3)
    assert all(target.keys == keys(1, 2) for target in rest)


async def test_queue_of_changes_bounded() -> None:
    target = Target()
    notifier = ChangeQueue(indexed(target))
    publish(notifier, *range(20_000))
    assert 9_000 < len(target.keys) < 11_000
    await trio.testing.wait_all_tasks_blocked()
    assert target.keys == keys(*range(20_000))


async def test_unusable_target_does_not_stop_others(caplog: pytest.LogCaptureFixture) -> None:
    target = Target()
    notifier = ChangeQueue(indexed(Unusable(), target, *[Target() for _ in range(400)]))
    publish(notifier, 1, 2)
    await trio.testing.wait_all_tasks_blocked()
    assert target.keys == keys(1, 2)
    assert "target not notified of a change" in caplog.text


async def test_missed_changes_are_notified_in_parts(caplog: pytest.LogCaptureFixture) -> None:
    targets = [Target() for _ in range(10)]
    left = Target()
    present = indexed(*targets, left, Unusable())
    notifier = ChangeQueue(present)
    notifier.refresh()
    present.remove(left)
    assert not any("all" in target.keys for target in targets)
    counts = [0]
    while counts[-1] < 10:
        await trio.lowlevel.checkpoint()
        counts.append(sum("all" in target.keys for target in targets))
    # A target has 100 notifications. An iteration has about 256, and two of them can follow each other.
    assert max(after - before for before, after in pairwise(counts)) <= 6
    assert left.keys == []
    assert "target not notified of changes" in caplog.text
