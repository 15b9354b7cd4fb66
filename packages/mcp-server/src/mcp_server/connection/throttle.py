"""How fast a handler tells its client how far it got, and what it logs.

There are no timers: whether something may be sent is decided when it is said, by the time that has passed. Progress that
comes too fast is held back. The latest value wins; it is sent with the next one that may be, or before the answer. Log
messages that come too fast are dropped, and counted for a message that says how many there were.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_core.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.engine.events import Outgoing
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.types import LoggingLevel, LoggingMessageNotificationParams, ProgressNotificationParams
    from mcp_server.connection.channel import Call

__all__ = ["Allowance", "Pace"]

_log: Final = logging.getLogger("mcp_server")

_SLACK: Final = 1e-6
"""By how much the arithmetic of floating point may be off."""


@attrs.define(eq=False)
class Allowance:
    """So many a second. What one second leaves over may be used at once in the next, so that short bursts go through."""

    per_second: int
    """How many."""
    _saved: float = attrs.field(init=False)
    _at: float = -math.inf

    def __attrs_post_init__(self) -> None:
        self._saved = self.per_second

    def take(self, now: float, *, left: int = 0) -> bool:
        """Whether one more is allowed, at `now` in seconds, so that `left` others would be as well."""
        saved = min(self.per_second, self._saved + (now - self._at) * self.per_second)
        self._at = now
        is_allowed = saved + _SLACK >= 1 + left
        self._saved = saved - 1 if is_allowed else saved
        return is_allowed


class Pace:
    """What one call tells its client.

    Args:
        call: The call.
        redact: Takes out of the data of a log message what the client must not see.
    """

    __slots__ = ("_call", "_dropped", "_dropped_level", "_held", "_latest", "_progress", "_redact")

    def __init__(self, call: Call, redact: Callable[[JsonValue], JsonValue] | None) -> None:
        self._call: Final = call
        self._redact: Final = redact
        self._progress: Final = Allowance(call.link.connection.limits.progress_per_second)
        self._latest = -math.inf
        self._held: ProgressNotificationParams | None = None
        self._dropped = 0
        self._dropped_level: LoggingLevel = "warning"

    async def progress(self, said: ProgressNotificationParams) -> None:
        """Sends how far the request got, now or later. A value that is not greater than the last one is not sent."""
        if not self._latest < said.progress < math.inf:
            # Most often a rounding error in the last step, of which the work must not die.
            _log.debug("not sent: progress %s after %s", said.progress, self._latest)
            return
        self._latest = said.progress
        if self._progress.take(trio.current_time()):
            self._held = None
            await self._send_progress(said)
        else:
            self._held = said

    async def log(self, said: LoggingMessageNotificationParams) -> None:
        """Sends a log message, if the client wants it and not too many came before."""
        link = self._call.link
        outgoing = self._message(said.level, said.data, said.logger)
        if outgoing is None:
            return
        allowance = link.log_allowance
        if allowance is None:
            allowance = link.log_allowance = Allowance(link.connection.limits.log_messages_per_second)
        # Once some were dropped it has to ease first: else each message that goes through would bring its own count.
        left = allowance.per_second // 2 if self._dropped else 0
        if not allowance.take(trio.current_time(), left=left):
            self._dropped += 1
            self._dropped_level = said.level
            return
        await self._send_dropped()
        if self._redact is not None:
            try:
                outgoing = self._message(said.level, self._redact(said.data), said.logger)
            except Exception:  # noqa: BLE001 -- the author's function was called; what it did not see must not be sent
                _log.exception("a log message could not be redacted, and is not sent")
                return
        await link.send(outgoing)

    async def flush(self) -> None:
        """Sends what was held back, before the answer."""
        held, self._held = self._held, None
        if held is not None:
            try:
                await self._send_progress(held)
            except LocalProtocolError:
                # JSON cannot say it, as half of a surrogate pair. Who said it is not there any more to be told.
                _log.exception("progress of request %r cannot be sent", self._call.request.id)
        await self._send_dropped()

    async def _send_progress(self, said: ProgressNotificationParams) -> None:
        link = self._call.link
        await link.send(link.connection.progress(self._call.request.id, said.progress, said.total, said.message))

    async def _send_dropped(self) -> None:
        count, self._dropped = self._dropped, 0
        if count:
            most = self._call.link.connection.limits.log_messages_per_second
            text = f"log messages dropped: {count}; there may be {most} a second (Limits.log_messages_per_second)"
            await self._call.link.send(self._message(self._dropped_level, text, None))

    def _message(self, level: LoggingLevel, data: JsonValue, logger: str | None) -> Outgoing | None:
        call = self._call
        return call.link.connection.log(level, data, logger=logger, for_request=call.request.id)
