"""Rate limits of the progress and the log messages that handlers send.

There are no timers: each call decides by the elapsed time whether its message may be sent. Progress above the rate is
delayed. The latest value replaces earlier ones and is sent before the response, unless a later value is sent first. Log
messages above the rate are dropped. The next message reports how many were dropped.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.errors import LocalProtocolError
from mcp_server.connection.rate_limiter import RateLimiter

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.engine.events import Outgoing
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.types import LoggingLevel, LoggingMessageNotificationParams, ProgressNotificationParams
    from mcp_server.connection.channel import RequestContext

__all__ = ["ProgressThrottle"]

_log: Final = logging.getLogger("mcp_server")


class ProgressThrottle:
    """The progress and log messages of one request, limited in rate.

    Args:
        call: The request.
        redact: Removes from the data of a log message what the client must not see.
    """

    __slots__ = ("_call", "_dropped", "_dropped_level", "_held", "_latest", "_progress", "_redact")

    def __init__(self, call: RequestContext, redact: Callable[[JsonValue], JsonValue] | None) -> None:
        self._call: Final = call
        self._redact: Final = redact
        self._progress: Final = RateLimiter(call.channel.connection.limits.progress_per_second)
        self._latest = -math.inf
        self._held: ProgressNotificationParams | None = None
        self._dropped = 0
        self._dropped_level: LoggingLevel = "warning"

    async def progress(self, said: ProgressNotificationParams) -> None:
        """Send progress of the request, now or later. A value that is not greater than the last one is not sent."""
        if not self._latest < said.progress < math.inf:
            # Usually a rounding error in the last step, which must not fail the request.
            _log.debug("progress not sent: value=%s last=%s", said.progress, self._latest)
            return
        self._latest = said.progress
        if self._progress.take(trio.current_time()):
            self._held = None
            await self._send_progress(said)
        else:
            self._held = said

    async def log(self, said: LoggingMessageNotificationParams) -> None:
        """Send a log message, if its level is enabled and the rate limit allows it."""
        channel = self._call.channel
        outgoing = self._message(said.level, said.data, said.logger)
        if outgoing is None:
            return
        allowance = channel.log_limiter
        if allowance is None:
            allowance = channel.log_limiter = RateLimiter(channel.connection.limits.log_messages_per_second)
        # After a dropped message, half of the capacity must be free: otherwise each message would bring its own count.
        left = allowance.per_second // 2 if self._dropped else 0
        if not allowance.take(trio.current_time(), left=left):
            self._dropped += 1
            self._dropped_level = said.level
            return
        await self._send_dropped()
        if self._redact is not None:
            try:
                outgoing = self._message(said.level, self._redact(said.data), said.logger)
            except Exception:  # noqa: BLE001 -- the author's function may fail; unredacted data must not be sent
                _log.exception("log message dropped: the redact function failed")
                return
        await channel.send(outgoing)

    async def flush(self) -> None:
        """Send delayed messages, before the response."""
        held, self._held = self._held, None
        if held is not None:
            try:
                await self._send_progress(held)
            except LocalProtocolError:
                # JSON cannot encode it (for example a lone surrogate). The handler that sent it has ended.
                _log.exception("progress cannot be sent: request=%r", self._call.request.id)
        await self._send_dropped()

    async def _send_progress(self, said: ProgressNotificationParams) -> None:
        channel = self._call.channel
        await channel.send(channel.connection.progress(self._call.request.id, said.progress, said.total, said.message))

    async def _send_dropped(self) -> None:
        count, self._dropped = self._dropped, 0
        if count:
            most = self._call.channel.connection.limits.log_messages_per_second
            text = f"log messages dropped: {count}; at most {most} per second are sent (Limits.log_messages_per_second)"
            await self._call.channel.send(self._message(self._dropped_level, text, None))

    def _message(self, level: LoggingLevel, data: JsonValue, logger: str | None) -> Outgoing | None:
        call = self._call
        return call.channel.connection.log(level, data, logger=logger, for_request=call.request.id)
