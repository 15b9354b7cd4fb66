"""Tasks that several workers share: each of them acts on the tasks of the others, and takes them over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing
from raw_client import Answer, RawClient, as_object, connected, text_of
from task_server import (
    BOTH,
    EXTENSION,
    WITH_TASKS,
    ToolControl,
    accept,
    get_task,
    make_server,
    open_client,
    start_task,
    task_id,
    wait_for_status,
)

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.limits import Limits
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_server import Context, Server
from mcp_server.cluster.memory import MemoryCluster, MemoryWorker
from mcp_server.stores import StoreError

BOTH_REVISIONS = pytest.mark.parametrize("revision", BOTH, ids=str)


@attrs.frozen
class Deployment:
    """Two workers of one deployment, with a client of each."""

    shared: MemoryCluster
    controls: tuple[ToolControl, ToolControl]
    members: tuple[MemoryWorker, MemoryWorker]
    clients: tuple[RawClient, RawClient]


@asynccontextmanager
async def deployed(
    revision: Revision, *, limits: Limits | None = None, resumable: bool = False, **answers: Answer
) -> AsyncIterator[Deployment]:
    """Serve two workers. `answers`: those of the client of the second worker."""
    shared = MemoryCluster(limits=limits or Limits())
    controls, members = (ToolControl(), ToolControl()), (shared.worker(), shared.worker())
    servers = [make_server(control, limits=limits) for control in controls]
    for server, member, control in zip(servers, members, controls, strict=True):
        if resumable:
            _add_resumable(server, control)
        server.join(member)
    handlers = {f"{name}/create": answer for name, answer in answers.items()}
    other = connected(servers[1], revision, capabilities=WITH_TASKS, answers=handlers)
    async with open_client(servers[0], revision) as first, other as second:
        await trio.testing.wait_all_tasks_blocked()
        yield Deployment(shared, controls, members, (first, second))


def _add_resumable(server: Server, control: ToolControl) -> None:
    @server.tool(task="optional", resumable=True)
    async def resumes(context: Context) -> str:
        control.ran.append("began")
        await context.once("paid", lambda: control.ran.append("paid"))
        await control.go.wait()
        return "resumed"


# --- methods at another worker -----------------------------------------------------------------------------------------


@BOTH_REVISIONS
async def test_task_of_other_worker_is_read_until_completed(revision: Revision) -> None:
    async with deployed(revision) as deployment:
        first, second = deployment.clients
        task = await start_task(first, "work", text="shared")
        assert (await get_task(second, task))["status"] == "working"
        deployment.controls[0].go.set()
        now = await wait_for_status(second, task, "completed")
        if revision is R2026_07_28:
            assert text_of(as_object(now["result"])) == "shared"
        else:
            assert text_of(await second.call("tasks/result", {"taskId": task["taskId"]})) == "shared"
        assert deployment.controls[1].ran == []


async def test_progress_of_task_is_status_message_at_other_worker() -> None:
    async with deployed(R2026_07_28) as deployment:
        first, second = deployment.clients
        task = await start_task(first, "reports")
        while (await get_task(second, task)).get("statusMessage") != "two":
            await trio.testing.wait_all_tasks_blocked()


@BOTH_REVISIONS
async def test_tasks_cancel_at_other_worker_stops_function(revision: Revision) -> None:
    async with deployed(revision) as deployment:
        first, second = deployment.clients
        task = await start_task(first, "work")
        await trio.testing.wait_all_tasks_blocked()
        await second.call("tasks/cancel", {"taskId": task["taskId"]})
        # The response states what is stored.
        record = await deployment.shared.task_store.load(task_id(task))
        assert record is not None
        assert record.state.status == "cancelled"
        assert (await get_task(first, task))["status"] == "cancelled"
        await trio.testing.wait_all_tasks_blocked()
        assert deployment.controls[0].ran == ["done", "cancelled"]


async def test_input_response_at_other_worker_reaches_function() -> None:
    async with deployed(R2026_07_28) as deployment:
        first, second = deployment.clients
        task = await start_task(first, "elicits_twice")
        now = await wait_for_status(second, task, "input_required")
        while len(as_object((now := await get_task(second, task))["inputRequests"])) < 2:
            await trio.testing.wait_all_tasks_blocked()
        requests = as_object(now["inputRequests"])
        assert {as_object(as_object(each)["params"])["message"] for each in requests.values()} == {
            "Who is a?",
            "Who is b?",
        }
        bad = await second.fail("tasks/update", {"taskId": task["taskId"], "inputResponses": {"a": {"model": "m"}}})
        assert bad["code"] == -32602
        for key in ("a", "b"):
            response: JsonObject = {"action": "accept", "content": {"name": key.upper()}}
            await second.call("tasks/update", {"taskId": task["taskId"], "inputResponses": {key: response}})
            # The response states what is stored.
            record = await deployment.shared.task_store.load(task_id(task))
            assert record is not None
            assert key in record.answers
            assert key not in record.input_requests
        completed = await wait_for_status(second, task, "completed")
        assert text_of(as_object(completed["result"])) == "A B"
        assert "inputRequests" not in completed


async def test_tasks_result_at_other_worker_sends_elicitation() -> None:
    async with deployed(R2025_11_25, elicitation=accept("Ann")) as deployment:
        first, second = deployment.clients
        task = await start_task(first, "elicits")
        assert text_of(await second.call("tasks/result", {"taskId": task["taskId"]})) == "hello Ann"
        (request,) = second.client_requests
        meta = as_object(as_object(request["params"])["_meta"])
        assert meta["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}
        assert first.client_requests == []


async def test_elicitation_error_at_other_worker_fails_task() -> None:
    async with deployed(R2025_11_25) as deployment:
        first, second = deployment.clients
        task = await start_task(first, "elicits")
        waiting = await second.start("tasks/result", {"taskId": task["taskId"]})
        await second.wait_for(lambda: len(second.client_requests) == 1)
        error: JsonObject = {"code": -32000, "message": "leave me alone"}
        await second.send({"jsonrpc": "2.0", "id": second.client_requests[0]["id"], "error": error})
        assert as_object((await second.response(waiting))["error"])["message"] == "leave me alone"


async def test_listener_at_other_worker_is_notified_of_task() -> None:
    async with deployed(R2026_07_28) as deployment:
        first, second = deployment.clients
        task = await start_task(first, "work", text="ready")
        await second.start("subscriptions/listen", {"notifications": {"taskIds": [task["taskId"]]}})
        await second.wait_for_notifications("notifications/subscriptions/acknowledged")
        deployment.controls[0].go.set()
        (received,) = await second.wait_for_notifications("notifications/tasks")
        assert received["status"] == "completed"
        assert text_of(as_object(received["result"])) == "ready"


async def test_listener_at_other_worker_is_notified_of_input_requests() -> None:
    async with deployed(R2026_07_28) as deployment:
        first, second = deployment.clients
        task = await start_task(first, "elicits_later")
        await second.start("subscriptions/listen", {"notifications": {"taskIds": [task["taskId"]]}})
        await second.wait_for_notifications("notifications/subscriptions/acknowledged")
        deployment.controls[0].go.set()
        (received,) = await second.wait_for_notifications("notifications/tasks")
        assert received["status"] == "input_required"
        (request,) = as_object(received["inputRequests"]).values()
        assert as_object(request)["method"] == "elicitation/create"


async def test_running_tasks_are_limited_for_all_workers() -> None:
    async with deployed(R2026_07_28, limits=Limits(running_tasks=2)) as deployment:
        for client in deployment.clients:
            await start_task(client, "work")
        error = await deployment.clients[1].fail("tools/call", {"name": "work", "arguments": {}})
        assert error["code"] == -32600
        assert "Limits.running_tasks" in str(error["message"])


# --- lost workers ------------------------------------------------------------------------------------------------------


@BOTH_REVISIONS
async def test_task_of_lost_worker_fails_with_reason(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    async with deployed(revision) as deployment:
        first, second = deployment.clients
        task = await start_task(first, "work")
        deployment.members[0].kill()
        now = await wait_for_status(second, task, "failed")
        assert "not resumable" in str(now["statusMessage"])


async def test_tasks_result_of_lost_worker_ends_with_error(autojump_clock: trio.testing.MockClock) -> None:
    async with deployed(R2025_11_25) as deployment:
        first, second = deployment.clients
        task = await start_task(first, "work")
        waiting = await second.start("tasks/result", {"taskId": task["taskId"]})
        await trio.testing.wait_all_tasks_blocked()
        deployment.members[0].kill()
        assert "not resumable" in str(as_object((await second.response(waiting))["error"])["message"])


async def test_resumable_task_of_lost_worker_runs_once_at_one_other(autojump_clock: trio.testing.MockClock) -> None:
    async with deployed(R2026_07_28, resumable=True) as deployment:
        third_control = ToolControl()
        third = make_server(third_control)
        _add_resumable(third, third_control)
        third.join(deployment.shared.worker())
        async with open_client(third, R2026_07_28) as client:
            first, second = deployment.clients
            task = await start_task(first, "resumes")
            await trio.testing.wait_all_tasks_blocked()
            assert deployment.controls[0].ran == ["began", "paid"]
            deployment.members[0].kill()
            for control in (deployment.controls[1], third_control):
                control.go.set()
            for other in (second, client):
                completed = await wait_for_status(other, task, "completed")
                assert text_of(as_object(completed["result"])) == "resumed"
            assert deployment.controls[1].ran + third_control.ran == ["began"]  # `once`: not paid again


async def test_task_of_other_worker_is_not_taken_up_when_third_is_lost(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with deployed(R2026_07_28, resumable=True) as deployment:
        third = make_server(ToolControl())
        third.join(member := deployment.shared.worker())
        task = await start_task(deployment.clients[0], "resumes")
        async with open_client(third, R2026_07_28):
            await trio.testing.wait_all_tasks_blocked()
            member.kill()
            await trio.testing.wait_all_tasks_blocked()
        record = await deployment.shared.task_store.load(task_id(task))
        assert record is not None
        assert (record.worker, record.token) == (deployment.members[0].worker, 1)


async def test_tasks_result_at_worker_taken_for_lost_waits_for_other(autojump_clock: trio.testing.MockClock) -> None:
    async with deployed(R2025_11_25, resumable=True) as deployment:
        first, _ = deployment.clients
        task = await start_task(first, "resumes")
        waiting = await first.start("tasks/result", {"taskId": task["taskId"]})
        await trio.testing.wait_all_tasks_blocked()
        deployment.shared.remove_member(deployment.members[0].worker)
        await trio.testing.wait_all_tasks_blocked()
        deployment.controls[0].go.set()
        await trio.testing.wait_all_tasks_blocked()
        deployment.controls[1].go.set()
        assert text_of(as_object((await first.response(waiting))["result"])) == "resumed"


async def test_worker_taken_for_lost_stops_its_function(autojump_clock: trio.testing.MockClock) -> None:
    async with deployed(R2026_07_28, resumable=True) as deployment:
        first, second = deployment.clients
        task = await start_task(first, "resumes")
        await trio.testing.wait_all_tasks_blocked()
        # Its entry expired, although it runs.
        deployment.shared.remove_member(deployment.members[0].worker)
        await trio.testing.wait_all_tasks_blocked()
        assert deployment.controls[1].ran == ["began"]
        deployment.controls[0].go.set()
        await trio.testing.wait_all_tasks_blocked()
        record = await deployment.shared.task_store.load(task_id(task))
        assert record is not None
        assert (record.state.status, record.worker, record.token) == ("working", deployment.members[1].worker, 2)
        deployment.controls[1].go.set()
        for client in (first, second):
            completed = await wait_for_status(client, task, "completed")
            assert text_of(as_object(completed["result"])) == "resumed"


async def test_request_to_silent_worker_ends_with_error(autojump_clock: trio.testing.MockClock) -> None:
    async with deployed(R2026_07_28) as deployment:
        first, second = deployment.clients
        task = await start_task(first, "work")
        deployment.members[0].is_paused = True
        error = await second.fail("tasks/cancel", {"taskId": task["taskId"]})
        assert "did not respond" in str(error["message"])
        assert (await get_task(second, task))["status"] == "working"


async def test_missed_messages_do_not_lose_updates(autojump_clock: trio.testing.MockClock) -> None:
    async with deployed(R2025_11_25) as deployment:
        first, second = deployment.clients
        task = await start_task(first, "work", text="still")
        waiting = await second.start("tasks/result", {"taskId": task["taskId"]})
        await trio.testing.wait_all_tasks_blocked()
        deployment.members[1].is_paused = True
        deployment.controls[0].go.set()
        await trio.testing.wait_all_tasks_blocked()
        deployment.members[1].is_paused = False
        deployment.members[1].discard_messages()
        assert text_of(as_object((await second.response(waiting))["result"])) == "still"


@BOTH_REVISIONS
async def test_outcome_of_task_is_stored_after_outage_of_store(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    async with deployed(revision) as deployment:
        first, second = deployment.clients
        task = await start_task(first, "work", text="late")
        await trio.testing.wait_all_tasks_blocked()
        deployment.shared.is_reachable = False
        deployment.controls[0].go.set()
        await trio.sleep(3)
        deployment.shared.is_reachable = True
        await trio.sleep(3)
        assert (await get_task(second, task))["status"] == "completed"


@BOTH_REVISIONS
async def test_task_methods_without_store_end_with_error(revision: Revision) -> None:
    async with deployed(revision) as deployment:
        first, second = deployment.clients
        task = await start_task(first, "work")
        deployment.shared.is_reachable = False
        assert (await second.fail("tasks/get", {"taskId": task["taskId"]}))["code"] == -32603
        with pytest.raises(StoreError):
            await deployment.members[1].check()
        deployment.shared.is_reachable = True
        assert (await get_task(second, task))["status"] == "working"


async def test_capability_is_declared_at_each_worker() -> None:
    async with deployed(R2026_07_28) as deployment:
        for client in deployment.clients:
            offered = as_object((await client.call("server/discover"))["capabilities"])
            assert EXTENSION in as_object(offered["extensions"])
