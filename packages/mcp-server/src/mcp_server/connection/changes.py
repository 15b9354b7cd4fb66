"""The changes that clients are notified of: of lists, and of resources.

They are recorded in stores, and sent to other workers, by the method of the notification and the URI of the resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.methods import (
    NOTIFICATIONS_PROMPTS_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_UPDATED,
    NOTIFICATIONS_TOOLS_LIST_CHANGED,
)
from mcp_core.types import ResourceUpdatedNotificationParams
from mcp_server.stores.sessions import PendingNotification

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcp_core.methods import NotificationMethod
    from mcp_server.connection.channel import NotificationTarget

__all__ = ["RECORDED", "params_of", "pending_notification", "publish_all"]

RECORDED: Final[Mapping[str, NotificationMethod[object]]] = {
    definition.name: definition
    for definition in (
        NOTIFICATIONS_TOOLS_LIST_CHANGED,
        NOTIFICATIONS_PROMPTS_LIST_CHANGED,
        NOTIFICATIONS_RESOURCES_LIST_CHANGED,
        NOTIFICATIONS_RESOURCES_UPDATED,
    )
}
"""The notifications that are recorded until the client of a session has received them, by method."""


def pending_notification(definition: NotificationMethod[object], params: object) -> PendingNotification | None:
    """Return the record of a notification for a store; `None` if notifications of this method are not recorded."""
    if definition.name not in RECORDED:
        return None
    return PendingNotification(
        definition.name, params.uri if isinstance(params, ResourceUpdatedNotificationParams) else ""
    )


def params_of(notification: PendingNotification, definition: NotificationMethod[object]) -> object:
    """Return the parameters of a recorded notification."""
    return ResourceUpdatedNotificationParams(uri=notification.uri) if notification.is_update else definition.params()


def publish_all(target: NotificationTarget, watched: Collection[str]) -> int:
    """Notify a target of a change of each list and of each resource: some of them may have changed. Does not block.

    Args:
        target: The target, which ignores what its client does not want.
        watched: The URIs of the resources that the client is subscribed to.

    Returns:
        The number of notifications.
    """
    for definition in RECORDED.values():
        if definition is not NOTIFICATIONS_RESOURCES_UPDATED:
            target.publish(definition, definition.params())
    for uri in watched:
        target.publish(NOTIFICATIONS_RESOURCES_UPDATED, ResourceUpdatedNotificationParams(uri=uri), uri)
    return len(RECORDED) - 1 + len(watched)
