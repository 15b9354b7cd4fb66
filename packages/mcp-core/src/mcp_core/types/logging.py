"""Log messages. Spec: server/utilities/logging"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.revisions import R2025_11_25
from mcp_core.types.base import NotificationParams, RequestParams
from mcp_core.types.wire_object import wire

__all__ = ["LOGGING_LEVELS", "LoggingLevel", "LoggingMessageNotificationParams", "SetLevelRequestParams", "reaches"]

LoggingLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""The severity of a log message (RFC 5424)."""

LOGGING_LEVELS: Final[tuple[LoggingLevel, ...]] = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
"""All levels, the least severe first."""


def reaches(level: LoggingLevel, threshold: LoggingLevel) -> bool:
    """Return whether a message of `level` is at least as severe as `threshold`."""
    return LOGGING_LEVELS.index(level) >= LOGGING_LEVELS.index(threshold)


@wire(until=R2025_11_25)
class SetLevelRequestParams(RequestParams):
    """The parameters of `logging/setLevel`. Spec: server/utilities/logging#setting-log-level"""

    level: LoggingLevel
    """The minimum level that the client requests."""


@wire()
class LoggingMessageNotificationParams(NotificationParams):
    """The parameters of `notifications/message`. Spec: server/utilities/logging#log-message-notifications"""

    level: LoggingLevel
    """The severity of the message."""
    data: JsonValue
    """The logged data: any JSON value, including `None`."""
    logger: str | None = None
    """The logger in the server."""
