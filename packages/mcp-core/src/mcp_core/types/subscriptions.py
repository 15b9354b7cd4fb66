"""Subscriptions to change notifications. Spec: basic/utilities/subscriptions (2026-07-28)"""

from __future__ import annotations

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2026_07_28
from mcp_core.types.base import NotificationParams, Open, RequestParams, Result
from mcp_core.types.wire_object import field, wire

__all__ = [
    "SubscriptionFilter",
    "SubscriptionsAcknowledgedNotificationParams",
    "SubscriptionsListenRequestParams",
    "SubscriptionsListenResult",
]


@wire(since=R2026_07_28)
class SubscriptionFilter(Open):
    """The requested or granted changes of a subscription. Spec: basic/utilities/subscriptions (2026-07-28)"""

    tools_list_changed: bool = False
    """Whether to notify of changes of the list of tools."""
    prompts_list_changed: bool = False
    """Whether to notify of changes of the list of prompts."""
    resources_list_changed: bool = False
    """Whether to notify of changes of the list of resources."""
    resource_subscriptions: tuple[str, ...] | None = None
    """The URIs of resources whose changes are notified."""
    task_ids: tuple[str, ...] | None = None
    """The ids of tasks whose changes are notified. Spec: the extension `io.modelcontextprotocol/tasks`"""


@wire(since=R2026_07_28)
class SubscriptionsListenRequestParams(RequestParams):
    """The parameters of `subscriptions/listen`. Spec: basic/utilities/subscriptions (2026-07-28)"""

    notifications: SubscriptionFilter
    """The requested changes."""


@wire(since=R2026_07_28)
class SubscriptionsListenResult(Result):
    """The result of `subscriptions/listen`, when the server ends it. Spec: basic/utilities/subscriptions (2026-07-28)

    Its `_meta` contains `mcp_core.types.meta.SUBSCRIPTION_ID`.
    """

    meta: JsonObject | None = field(default=None, name="_meta", required_since=R2026_07_28, added=True)
    """Metadata; required."""


@wire(since=R2026_07_28)
class SubscriptionsAcknowledgedNotificationParams(NotificationParams):
    """The parameters of `notifications/subscriptions/acknowledged`. Spec: basic/utilities/subscriptions (2026-07-28)"""

    notifications: SubscriptionFilter
    """The granted changes."""
