"""Notifications about a request in progress: progress and cancellation.

Spec: basic/utilities/progress, basic/utilities/cancellation
"""

from __future__ import annotations

from mcp_core.jsonrpc.messages import RequestId
from mcp_core.revisions import R2025_03_26, R2025_06_18, R2026_07_28, between
from mcp_core.types.base import NotificationParams
from mcp_core.types.meta import ProgressToken
from mcp_core.types.wire_object import field, wire

__all__ = ["CancelledNotificationParams", "ProgressNotificationParams"]


@wire()
class ProgressNotificationParams(NotificationParams):
    """The parameters of `notifications/progress`. Spec: basic/utilities/progress#progress-flow"""

    progress_token: ProgressToken
    """The token of the request."""
    progress: float
    """The progress so far. It increases with each notification."""
    total: float | None = None
    """The progress at the end, if known."""
    message: str | None = field(default=None, since=R2025_03_26)
    """A description of the progress."""


@wire()
class CancelledNotificationParams(NotificationParams):
    """The parameters of `notifications/cancelled`. Spec: basic/utilities/cancellation#cancellation-flow"""

    request_id: RequestId | None = field(default=None, required=between(None, R2025_06_18) | between(R2026_07_28))
    """The id of the request; may be `None` only in 2025-11-25, which cancels tasks with `tasks/cancel`."""
    reason: str | None = None
    """The reason of the cancellation."""
