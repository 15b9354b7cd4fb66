"""Progress of tasks of 2025-11-25, and their status while they wait for the client."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.message_pairs import key_of
from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.checks.probes.task_calls import (
    ENDED,
    ask,
    begin,
    cancellable,
    extended,
    id_of,
    require_status,
    unlisted,
    until,
)
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_core.types.meta import RELATED_TASK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_CORE: Final = ("2025-11-25",)
_FIXTURE: Final = "conformance_task_progress"
_PROGRESS: Final = "notifications/progress"
_TOKENS: Final[tuple[JsonValue, ...]] = ("conformance-task", 0)
"""The progress tokens of two tasks that run at the same time."""


def _progress(peer: SuiteConnection) -> list[JsonObject]:
    """Return all progress notifications of a connection."""
    return [each for each in peer.inbox if each.get("method") == _PROGRESS]


async def _begin_task(server: ServerUnderTest, token: JsonValue, fixture: str = _FIXTURE) -> str:
    """Start a task with a progress token, by default the one that reports progress, and return its id."""
    extended(server)
    name, arguments = server.tool(fixture)
    params: JsonObject = {
        "name": name,
        "arguments": arguments,
        "task": {"ttl": 60_000},
        "_meta": {"progressToken": token},
    }
    return id_of(server, await server.peer.request("tools/call", params))


@contextmanager
def _control() -> Iterator[None]:
    """Run a block whose failure other checks cover."""
    try:
        yield
    except Deviation as why:
        raise NotTestable(f"the control request failed: {why}") from why


@check(
    "tasks.progress-token",
    proves=("progress.task-same-token", "progress.task-token-continues", "tasks.related-task-meta"),
    revisions=_CORE,
    subject=CheckScope.RECOVERING,
)
async def progress_token(server: ServerUnderTest) -> None:
    """The progress of a task has the token of its request, also after the response with the task, and names the task.

    This is so also beside another task.
    """
    peer = server.peer
    tasks: dict[str, str] = {}
    early: dict[str, int] = {}
    for token in _TOKENS:
        tasks[key_of(token)] = await _begin_task(server, token)
        early[key_of(token)] = len(_progress(peer))
    with _control():
        for task in tasks.values():
            await until(server, task, "completed")
    await peer.fence()
    notifications = _progress(peer)
    if len(notifications) == min(early.values()):
        raise NotTestable(f"the control request failed: {_FIXTURE} reports no progress as a task")
    keys = [key_of(member(each, "params", "progressToken")) for each in notifications]
    last: dict[str, JsonValue] = {}
    for number, (key, each) in enumerate(zip(keys, notifications, strict=True)):
        if key not in tasks:
            raise Deviation(f"one of the tokens {brief([*_TOKENS])}", brief(each))
        # Before the response, the server might not have created the task yet.
        if number >= early[key] and member(each, "params", "_meta", RELATED_TASK, "taskId") != tasks[key]:
            raise Deviation(f"_meta.{RELATED_TASK} with the task {tasks[key]}", brief(each))
        last[key] = member(each, "params", "progress")
    for key in tasks:
        # All progress of a task may come before the response that creates it.
        is_complete = last.get(key) in [value for other, value in last.items() if other != key]
        if key not in keys[early[key] :] and not is_complete:
            raise Deviation(f"progress with the token {key}, as of another task", brief(notifications[-1]))


@check(
    "tasks.progress-ends",
    proves=("progress.task-stop-terminal", "tasks.cancelled-stays"),
    revisions=_CORE,
    subject=CheckScope.RECOVERING,
)
async def progress_ends(server: ServerUnderTest) -> None:
    """A task that is cancelled, or has failed, reports no further progress; a cancelled one is not completed later."""
    peer = server.peer
    control = await _begin_task(server, "conformance-control")
    with _control():
        await until(server, control, "completed")
    whole = len(_progress(peer))
    if whole < _ENOUGH:
        raise NotTestable(
            f"the control request failed: {_FIXTURE} reported progress {whole} times instead of {_ENOUGH} times"
        )
    task = await _begin_task(server, _CANCELLED)
    await peer.until(lambda: len(_progress(peer)) > whole, f"progress of {_FIXTURE}")
    with _control():
        cancelled = await ask(server, "tasks/cancel", {"taskId": task})
    with suppress(NotTestable), _control():
        await until(server, await _begin_task(server, _FAILED, "failing_job"), *ENDED)
    await peer.fence()
    # Takes as long as the cancelled task would have taken. Before its first notification, those of the cancelled task may
    # still arrive: over HTTP the response to the cancellation is on another stream.
    again = await _begin_task(server, "conformance-after")
    with _control():
        await until(server, again, "completed")
    tokens = [member(each, "params", "progressToken") for each in _progress(peer)]
    after = tokens.index("conformance-after") if "conformance-after" in tokens else len(tokens)
    for each, token in zip(_progress(peer)[after:], tokens[after:], strict=True):
        if token in (_CANCELLED, _FAILED):
            what = "a cancelled task" if token == _CANCELLED else "a task that has failed"
            raise Deviation(f"no progress of {what}", brief(each))
    if not cancelled.is_error:
        await require_status(server, task, "cancelled")


_ELICITS: Final = "elicitation/create"
_CANCELLED: Final = "conformance-cancelled"
"""The progress token of the task that is cancelled."""
_FAILED: Final = "conformance-failed"
"""The progress token of the task that fails."""
_ENOUGH: Final = 3
"""Minimum number of progress reports, so that some are left after the first."""


@check(
    "tasks.input-status",
    proves=("tasks.input-required", "tasks.list-complete", "tasks.cancelled-stays"),
    revisions=_CORE,
    subject=CheckScope.LEAVING,
)
async def input_status(server: ServerUnderTest) -> None:
    """A task that waits for a response of the client has the status input_required, is listed, and can be cancelled."""
    server.tool("confirm_delete")
    # A response would continue the task.
    server.peer.unanswered.add(_ELICITS)
    task = id_of(server, await begin(server, "confirm_delete", {"filename": "none.txt"}))
    await until(server, task, "input_required")
    if server.inventory.has("tasks.list") and await unlisted(server, [task]):
        raise Deviation(f"the task {task} in tasks/list", "it is absent, but tasks/get returns it")
    if cancellable(server):
        (await ask(server, "tasks/cancel", {"taskId": task})).result()
        await require_status(server, task, "cancelled")
        # The response of the client may cross the cancellation.
        for request in [each for each in server.peer.inbox if each.get("method") == _ELICITS]:
            response: JsonObject = {"action": "accept", "content": {"confirm": True}}
            await server.peer.post({"jsonrpc": "2.0", "id": request["id"], "result": response})
        await server.peer.fence()
        await require_status(server, task, "cancelled")
