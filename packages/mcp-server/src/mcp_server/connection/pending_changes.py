"""The bound on changes that wait for a client which does not read, or has no stream open.

A change is kept once, by its URI. But a client may watch a URI below which there are millions of resources, each with a
URI of its own. Beyond `Limits.watched_resources` the watched URI counts as changed instead, of which there are only so many.

Spec: server/resources#subscriptions ("may be a sub-resource")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_core.types import ResourceUpdatedNotificationParams

if TYPE_CHECKING:
    from mcp_core.engine.server import ServerConnection

__all__ = ["bounded_change"]


def bounded_change(connection: ServerConnection, params: object, key: str, waiting: int) -> tuple[object, str]:
    """Return the change to keep in place of one that does not wait yet: itself, or that of the watched resource above.

    Args:
        connection: The engine, which knows what the client watches.
        params: The parameters of the notification.
        key: What the change is kept by, among those of the same notification.
        waiting: How many changes wait already.

    Returns:
        Parameters and key.
    """
    if waiting < connection.limits.watched_resources or not isinstance(params, ResourceUpdatedNotificationParams):
        return params, key
    above = connection.watched_above(params.uri)
    return (params, key) if above is None else (ResourceUpdatedNotificationParams(uri=above), above)
