"""The index of subscribers: the same ones as the registries find one after the other."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.engine.subscription_index import SubscriptionIndex
from mcp_core.engine.subscriptions import SubscriptionRegistry, covering_in, covers
from mcp_core.errors import LimitExceeded
from mcp_core.limits import Limits
from mcp_core.methods import NotificationMethod

LIMITS: Final = Limits(watched_resources=6)
URIS: Final = ("a", "a/", "a/b", "a/b/c", "a//b", "note://", "note://1", "note://1/x", "/", "//", "a/b/c/d/e/f/g/h")
TASKS: Final = ("t1", "t2")
LISTS: Final[tuple[tuple[NotificationMethod[object], object], ...]] = (
    (m.NOTIFICATIONS_TOOLS_LIST_CHANGED, t.ToolListChangedNotificationParams()),
    (m.NOTIFICATIONS_PROMPTS_LIST_CHANGED, t.PromptListChangedNotificationParams()),
    (m.NOTIFICATIONS_RESOURCES_LIST_CHANGED, t.ResourceListChangedNotificationParams()),
)
FILTERS: Final = st.builds(
    t.SubscriptionFilter,
    tools_list_changed=st.booleans() | st.none(),
    prompts_list_changed=st.booleans() | st.none(),
    resources_list_changed=st.booleans() | st.none(),
    resource_subscriptions=st.none() | st.lists(st.sampled_from(URIS), max_size=4).map(tuple),
    task_ids=st.none() | st.lists(st.sampled_from(TASKS), max_size=2).map(tuple),
)


class Client:
    def __init__(self, limits: Limits = LIMITS) -> None:
        self.subscription_registry = SubscriptionRegistry(limits)
        self.in_session = False

    def wants(self, definition: NotificationMethod[object], params: object) -> bool:
        """Return whether to notify the client, by looking at each of its subscriptions."""
        registry = self.subscription_registry
        by_session = self.in_session and definition is not m.NOTIFICATIONS_TASKS and registry.session_wants(params)
        # Without a session, there are no subscriptions of it.
        return by_session or any(registry.listeners(definition, params))


def updated(uri: str) -> t.ResourceUpdatedNotificationParams:
    return t.ResourceUpdatedNotificationParams(uri=uri)


def task_changed(id: str) -> t.ExtensionTaskNotificationParams:
    return t.ExtensionTaskNotificationParams(
        task_id=id,
        status="working",
        created_at="2026-01-01T00:00:00Z",
        last_updated_at="2026-01-01T00:00:00Z",
        ttl_ms=1,
    )


CHANGES: Final[tuple[tuple[NotificationMethod[object], object], ...]] = (
    *LISTS,
    *((m.NOTIFICATIONS_RESOURCES_UPDATED, updated(uri)) for uri in (*URIS, "a/b/x", "note://2", "other", "")),
    *((m.NOTIFICATIONS_TASKS, task_changed(id)) for id in (*TASKS, "t3")),
)


class IndexMachine(RuleBasedStateMachine):
    """Clients that subscribe, unsubscribe, connect and disconnect in any order."""

    @initialize()
    def begin(self) -> None:
        self.index: SubscriptionIndex[Client] = SubscriptionIndex()
        self.clients = [Client() for _ in range(3)]
        self.connected: set[Client] = set()

    @rule(client=st.integers(0, 2))
    def connect(self, client: int) -> None:
        self.index.add(self.clients[client])
        self.connected.add(self.clients[client])

    @rule(client=st.integers(0, 2))
    def disconnect(self, client: int) -> None:
        self.index.remove(self.clients[client])
        self.connected.discard(self.clients[client])

    @rule(client=st.integers(0, 2))
    def open_session(self, client: int) -> None:
        self.clients[client].in_session = True
        self.clients[client].subscription_registry.open_session()

    @precondition(lambda self: any(client.in_session for client in self.clients))
    @rule(client=st.integers(0, 2), uri=st.sampled_from(URIS))
    def subscribe(self, client: int, uri: str) -> None:
        if self.clients[client].in_session:
            try:
                self.clients[client].subscription_registry.subscribe(uri)
            except LimitExceeded:
                return

    @rule(client=st.integers(0, 2), uri=st.sampled_from(URIS))
    def unsubscribe(self, client: int, uri: str) -> None:
        self.clients[client].subscription_registry.unsubscribe(uri)

    @rule(client=st.integers(0, 2))
    def unsubscribe_all(self, client: int) -> None:
        self.clients[client].subscription_registry.unsubscribe_all()

    @rule(client=st.integers(0, 2), id=st.integers(1, 3), wanted=FILTERS)
    def listen(self, client: int, id: int, wanted: t.SubscriptionFilter) -> None:
        try:
            self.clients[client].subscription_registry.listen(id, wanted)
        except LimitExceeded:
            return

    @rule(client=st.integers(0, 2), id=st.integers(1, 3))
    def end(self, client: int, id: int) -> None:
        self.clients[client].subscription_registry.end(id)

    @invariant()
    def finds_subscribers_of_each_change(self) -> None:
        for definition, params in CHANGES:
            found = self.index.interested(definition, params)
            assert len(found) == len(set(found))
            assert set(found) == {client for client in self.connected if client.wants(definition, params)}, params
        assert set(self.index) == self.connected
        assert len(self.index) == len(self.connected)

    def teardown(self) -> None:
        for client in self.clients:
            self.index.remove(client)
        assert not any(self.index._wanted.values())  # nothing remains of clients that have disconnected


TestIndex = pytest.mark.property(IndexMachine.TestCase)


@pytest.mark.property
@given(st.lists(st.sampled_from(URIS), max_size=6), st.sampled_from(URIS))
def test_covering_subscriptions_are_the_uri_and_its_parents(watched: list[str], uri: str) -> None:
    found = set(covering_in(watched, uri))
    assert found == {each for each in watched if covers([each], uri)}


def test_change_of_other_resource_does_not_look_at_subscribers() -> None:
    class Counting(str):
        compared = 0
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            Counting.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    index: SubscriptionIndex[Client] = SubscriptionIndex()
    for number in range(1_000):
        client = Client()
        client.subscription_registry.subscribe(Counting(f"note://{number}"))
        index.add(client)
    Counting.compared = 0
    assert index.interested(m.NOTIFICATIONS_RESOURCES_UPDATED, updated("note://other")) == ()
    assert len(index.interested(m.NOTIFICATIONS_RESOURCES_UPDATED, updated("note://7"))) == 1
    assert Counting.compared <= 10


def test_uri_of_many_slashes_takes_time_of_subscriptions() -> None:
    index: SubscriptionIndex[Client] = SubscriptionIndex()
    client = Client()
    client.subscription_registry.subscribe("a/")
    index.add(client)
    # The copies of all prefixes would be 500 GB.
    assert index.interested(m.NOTIFICATIONS_RESOURCES_UPDATED, updated("a" + "/" * 1_000_000)) == (client,)


def test_notification_without_filter_has_no_subscribers() -> None:
    index: SubscriptionIndex[Client] = SubscriptionIndex()
    client = Client()
    client.subscription_registry.open_session()
    index.add(client)
    assert index.interested(m.NOTIFICATIONS_MESSAGE, None) == ()
    assert index.interested(*LISTS[0]) == (client,)
