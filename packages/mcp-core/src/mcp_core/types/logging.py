"""Log messages. Spec: server/utilities/logging"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.revisions import R2025_11_25
from mcp_core.types.base import NotificationParams, RequestParams
from mcp_core.types.wire_object import wire

__all__ = ["LOGGING_LEVELS", "LoggingLevel", "LoggingMessageNotificationParams", "SetLevelRequestParams", "reaches"]

LoggingLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""How grave a log message is: the severities of RFC 5424."""

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
"""All levels, the least grave first."""


def reaches(level: LoggingLevel, threshold: LoggingLevel) -> bool:
    """Whether a message of `level` is as grave as `threshold`, or more so."""
    return LOGGING_LEVELS.index(level) >= LOGGING_LEVELS.index(threshold)


@wire(until=R2025_11_25)
class SetLevelRequestParams(RequestParams):
    """The parameters of `logging/setLevel`. Spec: server/utilities/logging#setting-log-level"""

    level: LoggingLevel
    """The least grave level that the client wants."""


@wire()
class LoggingMessageNotificationParams(NotificationParams):
    """The parameters of `notifications/message`. Spec: server/utilities/logging#log-message-notifications"""

    level: LoggingLevel
    """How grave it is."""
    data: JsonValue
    """What is logged: any JSON, `None` included."""
    logger: str | None = None
    """Which part of the server says it."""
