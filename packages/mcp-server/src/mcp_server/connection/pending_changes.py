"""The limit of queued change notifications for a client that reads slowly or has no open stream.

The queue contains each changed URI once. But a client may subscribe to a URI with millions of sub-resources, each with
its own URI. If the queue contains `Limits.watched_resources` changes, a further change is reported as a change of the
subscribed URI. The number of subscribed URIs is limited.

Spec: server/resources#subscriptions ("may be a sub-resource")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_core.types import ResourceUpdatedNotificationParams

if TYPE_CHECKING:
    from mcp_core.engine.server import ServerConnection

__all__ = ["bounded_change"]


def bounded_change(connection: ServerConnection, params: object, key: str, waiting: int) -> tuple[object, str]:
    """Return the change to queue for a new change: the change itself, or that of the subscribed resource above it.

    Args:
        connection: The engine, which contains the subscriptions of the client.
        params: The parameters of the notification.
        key: The key of the change, among the notifications of the same method.
        waiting: Number of queued changes.

    Returns:
        Parameters and key.
    """
    if waiting < connection.limits.watched_resources or not isinstance(params, ResourceUpdatedNotificationParams):
        return params, key
    above = connection.watched_above(params.uri)
    return (params, key) if above is None else (ResourceUpdatedNotificationParams(uri=above), above)
