"""Notices about a request under way: progress and cancellation.

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
    """The token that the request brought."""
    progress: float
    """How far it is; greater each time."""
    total: float | None = None
    """How far it will be in the end."""
    message: str | None = field(default=None, since=R2025_03_26)
    """What is going on."""


@wire()
class CancelledNotificationParams(NotificationParams):
    """The parameters of `notifications/cancelled`. Spec: basic/utilities/cancellation#cancellation-flow"""

    request_id: RequestId | None = field(default=None, required=between(None, R2025_06_18) | between(R2026_07_28))
    """The request; may be `None` in 2025-11-25 only, where a task has another way."""
    reason: str | None = None
    """Why."""
