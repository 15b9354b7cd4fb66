"""Definitions of the notifications. Import them from `mcp_core.methods`."""

from __future__ import annotations

from typing import Final

from mcp_core import types as t
from mcp_core.methods.definition import NotificationMethod, Side
from mcp_core.revisions import R2025_11_25, R2026_07_28, between
from mcp_core.types.meta import TASKS_EXTENSION

_LEGACY: Final = between(None, R2025_11_25)
_MODERN: Final = between(R2026_07_28)
_CORE_TASKS: Final = between(R2025_11_25, R2025_11_25)

NOTIFICATIONS_INITIALIZED: Final = NotificationMethod(
    name="notifications/initialized",
    sender=Side.CLIENT,
    params=t.InitializedNotificationParams,
    revisions=_LEGACY,
)
NOTIFICATIONS_CANCELLED: Final = NotificationMethod(
    name="notifications/cancelled",
    sender=Side.BOTH,
    params=t.CancelledNotificationParams,
)
NOTIFICATIONS_PROGRESS: Final = NotificationMethod(
    name="notifications/progress",
    sender=Side.BOTH,
    params=t.ProgressNotificationParams,
    server_only=_MODERN,
    request_scoped=True,
)
NOTIFICATIONS_MESSAGE: Final = NotificationMethod(
    name="notifications/message",
    sender=Side.SERVER,
    params=t.LoggingMessageNotificationParams,
    server_capability=("logging",),
    request_scoped=True,
)
NOTIFICATIONS_TOOLS_LIST_CHANGED: Final = NotificationMethod(
    name="notifications/tools/list_changed",
    sender=Side.SERVER,
    params=t.ToolListChangedNotificationParams,
    server_capability=("tools", "listChanged"),
    filter_member="tools_list_changed",
)
NOTIFICATIONS_PROMPTS_LIST_CHANGED: Final = NotificationMethod(
    name="notifications/prompts/list_changed",
    sender=Side.SERVER,
    params=t.PromptListChangedNotificationParams,
    server_capability=("prompts", "listChanged"),
    filter_member="prompts_list_changed",
)
NOTIFICATIONS_RESOURCES_LIST_CHANGED: Final = NotificationMethod(
    name="notifications/resources/list_changed",
    sender=Side.SERVER,
    params=t.ResourceListChangedNotificationParams,
    server_capability=("resources", "listChanged"),
    filter_member="resources_list_changed",
)
NOTIFICATIONS_RESOURCES_UPDATED: Final = NotificationMethod(
    name="notifications/resources/updated",
    sender=Side.SERVER,
    params=t.ResourceUpdatedNotificationParams,
    server_capability=("resources", "subscribe"),
    filter_member="resource_subscriptions",
)
NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED: Final = NotificationMethod(
    name="notifications/subscriptions/acknowledged",
    sender=Side.SERVER,
    params=t.SubscriptionsAcknowledgedNotificationParams,
    revisions=_MODERN,
)
NOTIFICATIONS_ROOTS_LIST_CHANGED: Final = NotificationMethod(
    name="notifications/roots/list_changed",
    sender=Side.CLIENT,
    params=t.RootsListChangedNotificationParams,
    revisions=_LEGACY,
    client_capability=("roots", "listChanged"),
)
NOTIFICATIONS_ELICITATION_COMPLETE: Final = NotificationMethod(
    name="notifications/elicitation/complete",
    sender=Side.SERVER,
    params=t.ElicitationCompleteNotificationParams,
    revisions=between(R2025_11_25, R2025_11_25),
    client_capability=("elicitation", "url"),
)
NOTIFICATIONS_TASKS_STATUS: Final = NotificationMethod(
    name="notifications/tasks/status",
    sender=Side.BOTH,
    params=t.TaskStatusNotificationParams,
    revisions=_CORE_TASKS,
)
NOTIFICATIONS_TASKS: Final = NotificationMethod(
    name="notifications/tasks",
    sender=Side.SERVER,
    params=t.ExtensionTaskNotificationParams,
    revisions=_MODERN,
    server_capability=("extensions", TASKS_EXTENSION),
    client_capability=("extensions", TASKS_EXTENSION),
    filter_member="task_ids",
    extension=TASKS_EXTENSION,
)
