"""A request of ours that waits for its answer: in the task of its caller, with its progress and its deadlines.

Each ends exactly once: with an outcome, because the connection is over, by a deadline, or because its caller is
cancelled.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

import attrs
import trio

from mcp_core.errors import RequestTimeout
from mcp_core.types import ProgressNotificationParams

if TYPE_CHECKING:
    from mcp_client._deadlines import Deadlines
    from mcp_core.engine.events import AnswerReceived, FailureReceived

__all__ = ["Call", "ProgressHandler"]

ProgressHandler: TypeAlias = Callable[[ProgressNotificationParams], Awaitable[None] | None]
"""Shows progress; a plain or an asynchronous function."""


@attrs.define(eq=False)
class Call:
    """A request that waits for its answer."""

    method: str
    deadlines: Deadlines
    on_progress: ProgressHandler | None = None
    outcome: AnswerReceived | FailureReceived | None = None
    """How it ended, if the server said so."""
    _over: bool = False
    _progress: ProgressNotificationParams | None = None
    """The latest progress that was not shown yet. Older values are of no use to anybody."""
    _waiting: trio.Event | None = None
    _scope: trio.CancelScope = attrs.field(init=False)
    _latest: float = math.inf

    async def wait(self, send: Callable[[], Awaitable[None]], *, held: bool) -> None:
        """Sends the request and waits until there is an outcome, or none can come any more.

        Args:
            send: Sends it.
            held: The server waits for us at the moment, see `hold`.

        Raises:
            RequestTimeout: A deadline passed.
        """
        now = trio.current_time()
        self._latest = now + self.deadlines.total
        self._scope = trio.CancelScope(deadline=self._latest if held else min(self._latest, now + self.deadlines.idle))
        with self._scope:
            await send()
            while True:
                # What was reported before the answer is shown before it.
                if self._progress is not None:
                    await self._show()
                elif self.outcome is not None or self._over:
                    break
                else:
                    self._waiting = trio.Event()
                    await self._waiting.wait()
        if self.outcome is None and self._scope.cancelled_caught:
            total = self._scope.deadline >= self._latest
            which, seconds = ("total", self.deadlines.total) if total else ("idle", self.deadlines.idle)
            raise RequestTimeout("the server did not answer", deadline=which, seconds=seconds)

    async def _show(self) -> None:
        progress, self._progress = self._progress, None
        if self.on_progress is not None and progress is not None:
            shown = self.on_progress(progress)
            if inspect.isawaitable(shown):
                await shown

    def settle(self, outcome: AnswerReceived | FailureReceived) -> None:
        """The server answered."""
        self.outcome = outcome
        self._finish()

    def end(self) -> None:
        """The connection is over."""
        self._over = True
        self._finish()

    def _finish(self) -> None:
        if self.on_progress is not None:
            # No deadline can take the outcome back, however long the progress handler needs.
            self._scope.deadline = math.inf
        self._wake()

    def progressed(self, progress: ProgressNotificationParams) -> None:
        """The server reported progress."""
        self._progress = progress
        self._wake()

    def alive(self) -> None:
        """The server shows that it is at work: the idle deadline starts anew."""
        if self.outcome is None and not self._over:
            self._scope.deadline = min(self._latest, trio.current_time() + self.deadlines.idle)

    def hold(self) -> None:
        """The server waits for an answer of ours, so its silence means nothing: only the total deadline counts."""
        if self.outcome is None and not self._over:
            self._scope.deadline = self._latest

    def _wake(self) -> None:
        if self._waiting is not None:
            self._waiting.set()
