"""Promotion of a tool call to a task at the request of its function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_core.types import WireObject
    from mcp_server.connection.channel import RequestContext
    from mcp_server.connection.client_requests import RetryClientRequests
    from mcp_server.features.tasks.execution import TaskRun
    from mcp_server.features.tasks.methods import Tasks

__all__ = ["TaskPromotion"]


class TaskPromotion:
    """A tool call that can become a task.

    Args:
        tasks: The tasks of the server.
        work: Runs the function. The task calls it again from the top.
    """

    def __init__(self, tasks: Tasks, work: Callable[[RequestContext], Awaitable[object]]) -> None:
        self._tasks: Final = tasks
        self._work: Final = work
        self.run: TaskRun | None = None
        """The task; `None` until it is created."""

    async def begin(self, call: RequestContext) -> None:
        """End the handler and create the task. Does not return. Raises `RequestFailed` at the limit of tasks."""
        with trio.CancelScope(shield=True):
            client_requests = cast(
                "RetryClientRequests", call.client_requests
            )  # only modern calls are promoted, and this one has a context
            run = self.run = await self._tasks.create(call, await client_requests.hand_over())
        call.scope.cancel()
        await trio.lowlevel.checkpoint()
        # The cancellation had no effect. The client does not know the task yet.
        self.run = None
        await self._tasks.drop(run)
        raise RuntimeError(
            "Context.begin_task ends the handler, which runs again as a task, but its caller is shielded from"
            " cancellation: call it outside of the shielded scope"
        )

    def answer(self) -> WireObject:
        """Start the task. Return the result of the call."""
        return self._tasks.start(cast("TaskRun", self.run), self._work)
