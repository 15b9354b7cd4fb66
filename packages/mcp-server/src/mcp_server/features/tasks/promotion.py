"""A call that becomes a task where its function says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_core.types import WireObject
    from mcp_server.connection.channel import Call
    from mcp_server.connection.client_requests import InRounds
    from mcp_server.features.tasks.execution import TaskRun
    from mcp_server.features.tasks.methods import Tasks

__all__ = ["Deferred"]


class Deferred:
    """Makes a call a task.

    Args:
        tasks: The tasks of the server.
        work: What the call does, which the task begins anew.
    """

    def __init__(self, tasks: Tasks, work: Callable[[Call], Awaitable[object]]) -> None:
        self._tasks: Final = tasks
        self._work: Final = work
        self.run: TaskRun | None = None
        """The task, once there is one."""

    async def begin(self, call: Call) -> None:
        """Ends the handler, which goes on in the task. Does not return. Raises `RequestFailed` for one task too many."""
        with trio.CancelScope(shield=True):
            asked = cast("InRounds", call.asking)  # calls are deferred in that era only, and this one has a context
            run = self.run = await self._tasks.create(call, await asked.hand_over())
        call.scope.cancel()
        await trio.lowlevel.checkpoint()
        # Still here: nobody is told of the task.
        self.run = None
        await self._tasks.drop(run)
        raise RuntimeError(
            "Context.begin_task ends the handler, which runs again as a task; but what called it is shielded from"
            " cancellation: call it outside of the shielded scope"
        )

    def answer(self) -> WireObject:
        """Begins the task. Returns what the call is answered with."""
        return self._tasks.start(cast("TaskRun", self.run), self._work)
