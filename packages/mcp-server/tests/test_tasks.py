"""Tasks of both kinds: those of 2025-11-25 and those of the extension."""

from __future__ import annotations

import re
import time

import attrs
import pytest
import trio
import trio.testing
from raw_client import ALL_CAPABILITIES, as_list, as_object, connected, text_of
from task_server import (
    BOTH,
    EXTENSION,
    WITH_TASKS,
    ToolControl,
    accept,
    get_task,
    make_server,
    open_client,
    settled_status,
    start_task,
    task_id,
    wait_for_status,
)

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import LEGACY, R2025_11_25, R2026_07_28, Revision
from mcp_server import Context, RegistrationError, Server, TaskPolicy
from mcp_server.stores import MemoryTaskStore

BOTH_REVISIONS = pytest.mark.parametrize("revision", BOTH, ids=str)
UNKNOWN: JsonObject = {"taskId": "there-is-no-such-task"}


@pytest.fixture
def control() -> ToolControl:
    return ToolControl()


@pytest.fixture
def server(control: ToolControl) -> Server:
    return make_server(control)


# --- capabilities and tool declarations ------------------------------------------------------------------------------


@pytest.mark.spec("tasks.declare-capability", "tasks.requests-exhaustive", "schema.server-capability-tasks")
async def test_server_with_task_tools_2025_11_25_declares_tasks_capability(server: Server) -> None:
    async with connected(server, R2025_11_25, opened=False) as client:
        offered = as_object((await client.open())["capabilities"])
        assert offered["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        assert EXTENSION not in as_object(offered.get("extensions", {}))


@pytest.mark.spec("tasks.server-advertises", "tasks.legacy-capability-not-advertised")
async def test_server_with_task_tools_2026_07_28_declares_extension(server: Server) -> None:
    async with connected(server, R2026_07_28, opened=False) as client:
        offered = as_object((await client.open())["capabilities"])
        assert as_object(offered["extensions"])[EXTENSION] == {}
        assert "tasks" not in offered


@pytest.mark.spec("tasks.methods-unsupported-32601", "tasks.list-gated", "tasks.cancel-gated")
@BOTH_REVISIONS
async def test_server_without_task_tools_task_methods_return_32601(revision: Revision) -> None:
    server = Server("none", version="0")
    server.add_tool(lambda: "x", name="x")
    async with open_client(server, revision) as client:
        for method in ("tasks/get", "tasks/cancel", "tasks/result", "tasks/list", "tasks/update"):
            assert (await client.fail(method, UNKNOWN))["code"] == -32601


@pytest.mark.spec("tasks.ignore-undeclared")
async def test_server_without_task_tools_ignores_task_param() -> None:
    server = Server("none", version="0")
    server.add_tool(lambda: "x", name="x")
    async with open_client(server, R2025_11_25) as client:
        assert text_of(await client.call("tools/call", {"name": "x", "task": {"ttl": 1}})) == "x"


async def test_tools_list_2025_11_25_has_task_support(server: Server) -> None:
    async with open_client(server, R2025_11_25) as client:
        tools = [as_object(each) for each in as_list((await client.call("tools/list"))["tools"])]
    support = {str(tool["name"]): tool.get("execution") for tool in tools}
    assert support["plain"] is None
    assert support["work"] == {"taskSupport": "optional"}
    assert support["must"] == {"taskSupport": "required"}


@pytest.mark.spec("compat.no-core-tasks")
async def test_tools_list_2026_07_28_has_no_execution(server: Server) -> None:
    async with open_client(server, R2026_07_28) as client:
        tools = as_list((await client.call("tools/list"))["tools"])
    assert not any("execution" in as_object(tool) for tool in tools)


def test_add_tool_invalid_task_mode_raises() -> None:
    server = Server("none", version="0")
    with pytest.raises(RegistrationError, match="`task` must be one of forbidden, optional, required, not 'sometimes'"):
        server.add_tool(lambda: "x", name="x", task="sometimes")  # type: ignore[arg-type]  # the tested mistake


# --- creation --------------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "tasks.create-result", "tasks.create-result-soon", "tasks.starts-working", "schema.create-task-result"
)
@pytest.mark.spec("tasks.id-string", "tasks.id-by-receiver", "tasks.result-type-task", "tasks.durable-before-create")
@pytest.mark.spec("tasks.poll-interval-optional", "tasks.task-fields", "tasks.server-decides", "tasks.get-working")
@pytest.mark.spec("tasks.get-result-type", "tasks.result-type-only-create", "tasks.no-request-state")
@BOTH_REVISIONS
async def test_task_call_returns_working_task(server: Server, revision: Revision) -> None:
    async with open_client(server, revision) as client:
        task = await start_task(client, "work")
        assert task["status"] == "working"
        ttl, interval = ("ttlMs", "pollIntervalMs") if client.modern else ("ttl", "pollInterval")
        assert task[ttl] == 3_600_000
        assert task[interval] == 1_000
        for member in ("createdAt", "lastUpdatedAt"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(task[member]))
        for member in ("result", "error", "inputRequests", "requestState"):
            assert member not in task
        now = await get_task(client, task)
        assert now["taskId"] == task["taskId"]
        assert now["status"] == "working"
        assert now.get("resultType") == ("complete" if client.modern else None)
        assert "requestState" not in now


@pytest.mark.spec("tasks.id-unique", "tasks.id-entropy", "tasks.id-unguessable", "security.handle-random")
@BOTH_REVISIONS
async def test_task_ids_are_random_and_unique(server: Server, revision: Revision) -> None:
    async with open_client(server, revision) as client:
        ids = {task_id(await start_task(client, "must")) for _ in range(20)}
    assert len(ids) == 20
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{32}", id) for id in ids)


@pytest.mark.spec("tasks.optional-tool")
async def test_optional_task_tool_without_task_param_returns_result(server: Server, control: ToolControl) -> None:
    control.go.set()
    async with open_client(server, R2025_11_25) as client:
        assert await client.text("work") == "done"
    assert control.tasks == [None]


@pytest.mark.spec("tasks.not-to-undeclaring", "tasks.legacy-capability-non-declaring")
@pytest.mark.parametrize("declared", [{}, {"tasks": {"requests": {}}}], ids=str)
async def test_client_without_extension_gets_result(server: Server, control: ToolControl, declared: JsonObject) -> None:
    control.go.set()
    async with open_client(server, R2026_07_28, capabilities={**ALL_CAPABILITIES, **declared}) as client:
        result = await client.tool("work")
        assert result["resultType"] == "complete"
        # Each request declares its own capabilities.
        client.capabilities = WITH_TASKS
        await start_task(client, "work")
        client.capabilities = ALL_CAPABILITIES
        assert await client.text("work") == "done"


@pytest.mark.spec("tasks.task-param-ignored")
async def test_task_param_2026_07_28_ignored(server: Server) -> None:
    async with open_client(server, R2026_07_28) as client:
        result = await client.call("tools/call", {"name": "plain", "task": {"ttl": 5, "pollInterval": 1}})
        assert result["resultType"] == "complete"


@pytest.mark.spec("tasks.required-error-32021", "tasks.required-error-data")
async def test_required_task_without_extension_returns_32021(server: Server) -> None:
    async with open_client(server, R2026_07_28, capabilities=ALL_CAPABILITIES) as client:
        error = await client.fail("tools/call", {"name": "must"})
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


@pytest.mark.spec(
    "tasks.required-tool-error", "tasks.forbidden-tool-error", "tasks.informative-errors", "tasks.may-require"
)
async def test_tool_call_with_wrong_task_mode_returns_32601(server: Server) -> None:
    async with open_client(server, R2025_11_25) as client:
        error = await client.fail("tools/call", {"name": "must"})
        assert (error["code"], error["message"]) == (-32601, "the tool 'must' must be called as a task")
        error = await client.fail("tools/call", {"name": "plain", "task": {}})
        assert (error["code"], error["message"]) == (-32601, "the tool 'plain' cannot be called as a task")


@pytest.mark.parametrize("revision", [each for each in LEGACY if not each.core_tasks], ids=str)
async def test_required_task_revision_without_tasks_returns_32600(server: Server, revision: Revision) -> None:
    async with open_client(server, revision, capabilities={}) as client:
        error = await client.fail("tools/call", {"name": "must"})
        assert error["code"] == -32600
        assert f"revision {revision} has no tasks" in str(error["message"])


async def test_task_call_invalid_argument_reported_per_revision(server: Server) -> None:
    async with open_client(server, R2026_07_28) as client:
        result = await client.tool("work", text=5)
        assert result["resultType"] == "complete"
        assert result["isError"] is True
    async with open_client(server, R2025_11_25) as client:
        task = await start_task(client, "work", text=5)
        assert (await wait_for_status(client, task, "failed"))[
            "statusMessage"
        ] == "the tool reported an error; see the result"


# --- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.get-completed", "tasks.completed-result-field", "tasks.inlined-result-no-related-task")
@pytest.mark.spec("tasks.get-terminal-stable", "tasks.ttl-not-early")
async def test_extension_completed_task_contains_result(server: Server, control: ToolControl) -> None:
    async with open_client(server, R2026_07_28) as client:
        task = await start_task(client, "work", text="ready")
        control.go.set()
        now = await wait_for_status(client, task, "completed")
        result = as_object(now["result"])
        assert text_of(result) == "ready"
        assert "_meta" not in result
        assert await get_task(client, task) == now


@pytest.mark.spec(
    "tasks.result-blocks", "tasks.result-terminal", "tasks.result-success-same", "tasks.related-meta-in-result"
)
@pytest.mark.spec("schema.request-methods-client-tasks", "schema.task-request-params")
async def test_tasks_result_2025_11_25_waits_for_completion(server: Server, control: ToolControl) -> None:
    async with open_client(server, R2025_11_25) as client:
        task = await start_task(client, "work", text="ready")
        waiting = await client.start("tasks/result", {"taskId": task["taskId"]})
        assert await settled_status(client, task) == "working"
        control.go.set()
        result = as_object((await client.response(waiting))["result"])
        assert text_of(result) == "ready"
        assert result["_meta"] == {"io.modelcontextprotocol/related-task": {"taskId": task["taskId"]}}
        assert await client.call("tasks/result", {"taskId": task["taskId"]}) == result
        assert await settled_status(client, task) == "completed"


@pytest.mark.spec("tasks.no-related-meta-in-answers", "tasks.task-id-param-wins")
async def test_task_method_results_have_no_related_task(server: Server) -> None:
    async with open_client(server, R2025_11_25) as client:
        task = await start_task(client, "work")
        params: JsonObject = {
            "taskId": task["taskId"],
            "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "another"}},
        }
        for method in ("tasks/get", "tasks/list", "tasks/cancel"):
            assert "_meta" not in await client.call(method, params if method != "tasks/list" else {})


@pytest.mark.spec("tasks.tool-error-completed", "tasks.failed-only-jsonrpc")
@pytest.mark.parametrize("how", ["tool", "crash"])
async def test_extension_tool_error_completes_task(server: Server, how: str) -> None:
    async with open_client(server, R2026_07_28) as client:
        now = await wait_for_status(client, await start_task(client, "fails", how=how), "completed", "failed")
        assert now["status"] == "completed"
        result = as_object(now["result"])
        assert result["isError"] is True
        assert "secret" not in text_of(result)


@pytest.mark.spec("tasks.failed-on-tool-error", "tasks.failed-status-message", "tasks.result-success-same")
async def test_tool_error_2025_11_25_fails_task(server: Server) -> None:
    async with open_client(server, R2025_11_25) as client:
        task = await start_task(client, "fails", how="tool")
        now = await wait_for_status(client, task, "completed", "failed")
        assert now["status"] == "failed"
        assert now["statusMessage"] == "the tool reported an error; see the result"
        result = await client.call("tasks/result", {"taskId": task["taskId"]})
        assert result["isError"] is True
        assert text_of(result) == "it cannot be done"


@pytest.mark.spec("tasks.failed-error-field", "tasks.get-failed", "tasks.failed-diagnostic-message")
@pytest.mark.spec("tasks.failed-on-error", "tasks.result-error-same", "tasks.failed-status-message")
@BOTH_REVISIONS
async def test_protocol_error_fails_task(server: Server, revision: Revision) -> None:
    async with open_client(server, revision) as client:
        task = await start_task(client, "fails", how="protocol")
        now = await wait_for_status(client, task, "failed")
        assert now["statusMessage"] == "no"
        if client.modern:
            assert now["error"] == {"code": -32000, "message": "no", "data": {"why": "so"}}
            assert "result" not in now
        else:
            error = await client.fail("tasks/result", {"taskId": task["taskId"]})
            assert error == {"code": -32000, "message": "no", "data": {"why": "so"}}


@BOTH_REVISIONS
async def test_task_result_over_byte_limit_fails_task(control: ToolControl, revision: Revision) -> None:
    control.go.set()
    async with open_client(make_server(control, limits=Limits(task_bytes=6_000)), revision) as client:
        now = await wait_for_status(client, await start_task(client, "work", text="x" * 4_000), "failed")
        assert "Limits.task_bytes" in str(now["statusMessage"])


# --- tasks/cancel ------------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "tasks.cancel-stops", "tasks.cancel-status-before-response", "tasks.cancelled-stays", "tasks.get-cancelled"
)
@pytest.mark.spec(
    "cancellation.tasks-use-tasks-cancel", "tasks.cancel-ack", "tasks.cancel-result-type", "tasks.cancel-method"
)
@BOTH_REVISIONS
async def test_tasks_cancel_stops_task(server: Server, control: ToolControl, revision: Revision) -> None:
    async with open_client(server, revision) as client:
        task = await start_task(client, "work")
        assert await settled_status(client, task) == "working"
        reply = await client.call("tasks/cancel", {"taskId": task["taskId"]})
        assert reply.get("status") == (None if client.modern else "cancelled")
        assert reply.get("resultType") == ("complete" if client.modern else None)
        assert await settled_status(client, task) == "cancelled"
        assert control.ran == ["done", "cancelled"]
        control.go.set()
        assert await settled_status(client, task) == "cancelled"


@pytest.mark.spec("tasks.cancelled-stays", "tasks.terminal-is-final")
async def test_cancelled_task_stays_cancelled_after_function_returns() -> None:
    server = Server("stubborn", version="0")
    ended = trio.Event()
    stop = trio.Event()

    @server.tool(task="required")
    async def stubborn() -> str:
        with trio.CancelScope(shield=True):
            await stop.wait()
        ended.set()
        return "done all the same"

    async with open_client(server, R2026_07_28) as client:
        task = await start_task(client, "stubborn")
        await client.call("tasks/cancel", {"taskId": task["taskId"]})
        assert await settled_status(client, task) == "cancelled"
        stop.set()
        await ended.wait()
        assert await settled_status(client, task) == "cancelled"


@pytest.mark.spec("tasks.cancel-terminal-ack")
async def test_extension_cancel_of_completed_task_is_acknowledged(server: Server) -> None:
    async with open_client(server, R2026_07_28) as client:
        task = await start_task(client, "must")
        await wait_for_status(client, task, "completed")
        reply = await client.call("tasks/cancel", {"taskId": task["taskId"]})
        assert set(reply) <= {"resultType", "_meta"}
        assert await settled_status(client, task) == "completed"


@pytest.mark.spec("tasks.cancel-terminal-error")
async def test_cancel_of_completed_task_2025_11_25_returns_32602(server: Server) -> None:
    async with open_client(server, R2025_11_25) as client:
        task = await start_task(client, "must")
        await wait_for_status(client, task, "completed")
        error = await client.fail("tasks/cancel", {"taskId": task["taskId"]})
        assert error["code"] == -32602
        assert "completed" in str(error["message"])
        cancelled = await start_task(client, "work")
        await client.call("tasks/cancel", {"taskId": cancelled["taskId"]})
        assert (await client.fail("tasks/result", {"taskId": cancelled["taskId"]}))["code"] == -32600


async def test_tasks_result_of_cancelled_task_returns_32600(server: Server) -> None:
    async with open_client(server, R2025_11_25) as client:
        task = await start_task(client, "work")
        waiting = await client.start("tasks/result", {"taskId": task["taskId"]})
        await client.call("tasks/cancel", {"taskId": task["taskId"]})
        assert as_object((await client.response(waiting))["error"])["code"] == -32600


@pytest.mark.spec("tasks.cancel-method")
async def test_cancel_of_creating_request_keeps_task_running(server: Server) -> None:
    async with open_client(server, R2026_07_28) as client:
        task = await start_task(client, "work")
        await client.notify("notifications/cancelled", {"requestId": 2})
        assert await settled_status(client, task) == "working"


async def test_cancel_of_tasks_result_keeps_task_running(server: Server, control: ToolControl) -> None:
    async with open_client(server, R2025_11_25) as client:
        task = await start_task(client, "work")
        waiting = await client.start("tasks/result", {"taskId": task["taskId"]})
        await client.notify("notifications/cancelled", {"requestId": waiting})
        assert await settled_status(client, task) == "working"
        control.go.set()
        assert text_of(await client.call("tasks/result", {"taskId": task["taskId"]})) == "done"


# --- unknown tasks -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.unknown-task-error", "tasks.get-unknown-32602", "tasks.update-unknown-task")
@pytest.mark.spec("tasks.cancel-unknown-task", "tasks.error-messages-informative", "tasks.informative-errors")
@BOTH_REVISIONS
async def test_unknown_task_returns_32602(server: Server, revision: Revision) -> None:
    async with open_client(server, revision) as client:
        methods = ("get", "cancel", "update") if client.modern else ("get", "cancel", "result")
        for name in methods:
            params: JsonObject = {**UNKNOWN, "inputResponses": {}} if name == "update" else UNKNOWN
            error = await client.fail(f"tasks/{name}", params)
            assert error["code"] == -32602
            assert error["message"] == f"tasks/{name}: there is no such task, or it has expired"


@pytest.mark.spec("tasks.methods-undeclared-32021", "tasks.client-declares-per-request")
async def test_task_methods_without_extension_return_32021(server: Server) -> None:
    async with open_client(server, R2026_07_28, capabilities=ALL_CAPABILITIES) as client:
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            error = await client.fail(method, {**UNKNOWN, "inputResponses": {}})
            assert error["code"] == -32021
            assert error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


@pytest.mark.spec("tasks.tasks-result-removed", "tasks.tasks-list-removed", "tasks.reserved-names")
async def test_extension_tasks_result_and_list_return_32601(server: Server) -> None:
    async with open_client(server, R2026_07_28) as client:
        task = await start_task(client, "work")
        assert (await client.fail("tasks/result", {"taskId": task["taskId"]}))["code"] == -32601
        assert (await client.fail("tasks/list"))["code"] == -32601


# --- input -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "tasks.get-input-required", "tasks.get-input-requests-complete", "tasks.update-ack", "tasks.update-resumes"
)
@pytest.mark.spec("tasks.update-result-type", "tasks.update-request", "tasks.update-keys-outstanding")
async def test_extension_elicitation_appears_in_task_input_requests(server: Server) -> None:
    async with open_client(server, R2026_07_28) as client:
        task = await start_task(client, "elicits")
        now = await wait_for_status(client, task, "input_required")
        ((key, input_request),) = as_object(now["inputRequests"]).items()
        assert as_object(input_request)["method"] == "elicitation/create"
        assert await get_task(client, task) == now
        answers: JsonObject = {key: {"action": "accept", "content": {"name": "Ann"}}}
        reply = await client.call("tasks/update", {"taskId": task["taskId"], "inputResponses": answers})
        assert set(reply) <= {"resultType", "_meta"}
        assert text_of(as_object((await wait_for_status(client, task, "completed"))["result"])) == "hello Ann"


@pytest.mark.spec(
    "tasks.update-partial", "tasks.update-unknown-keys-ignored", "tasks.key-unique-lifetime", "tasks.key-no-reuse"
)
async def test_tasks_update_partial_keeps_other_input_requests(server: Server) -> None:
    async with open_client(server, R2026_07_28) as client:
        task = await start_task(client, "elicits_twice")
        await trio.testing.wait_all_tasks_blocked()
        assert set(as_object((await get_task(client, task))["inputRequests"])) == {"a", "b"}
        first: JsonObject = {"a": {"action": "accept", "content": {"name": "Ann"}}, "z": {"ignored": True}}
        await client.call("tasks/update", {"taskId": task["taskId"], "inputResponses": first})
        now = await get_task(client, task)
        assert now["status"] == "input_required"
        assert set(as_object(now["inputRequests"])) == {"b"}
        repeated: JsonObject = {"a": {"action": "accept", "content": {"name": "Eve"}}}
        await client.call("tasks/update", {"taskId": task["taskId"], "inputResponses": repeated})
        assert (await get_task(client, task))["status"] == "input_required"
        last: JsonObject = {"b": {"action": "accept", "content": {"name": "Bob"}}}
        await client.call("tasks/update", {"taskId": task["taskId"], "inputResponses": last})
        assert text_of(as_object((await wait_for_status(client, task, "completed"))["result"])) == "Ann Bob"
        await client.call("tasks/update", {"taskId": task["taskId"], "inputResponses": last})


async def test_tasks_update_invalid_response_rejected_and_input_requests_kept(server: Server) -> None:
    async with open_client(server, R2026_07_28) as client:
        task = await start_task(client, "elicits_twice")
        await trio.testing.wait_all_tasks_blocked()
        invalid_responses: JsonObject = {"a": {"action": "accept", "content": {"name": "Ann"}}, "b": {"model": "m"}}
        error = await client.fail("tasks/update", {"taskId": task["taskId"], "inputResponses": invalid_responses})
        assert error["code"] == -32602
        assert set(as_object((await get_task(client, task))["inputRequests"])) == {"a", "b"}


async def test_undeclared_elicitation_fails_task(server: Server) -> None:
    async with open_client(server, R2026_07_28, capabilities={"extensions": {EXTENSION: {}}}) as client:
        now = await wait_for_status(client, await start_task(client, "elicits"), "failed")
        assert as_object(now["error"])["code"] == -32021


@pytest.mark.spec("tasks.input-required", "tasks.input-request-related", "tasks.input-received-leaves")
@pytest.mark.spec("tasks.related-task-meta", "schema.request-methods-server-tasks")
async def test_elicitation_2025_11_25_sent_during_tasks_result(server: Server) -> None:
    async with open_client(server, R2025_11_25, elicitation=accept("Ann")) as client:
        task = await start_task(client, "elicits")
        now = await wait_for_status(client, task, "input_required")
        assert now["statusMessage"] == "waiting for input from the client"
        assert client.client_requests == []
        result = await client.call("tasks/result", {"taskId": task["taskId"]})
        assert text_of(result) == "hello Ann"
        (input_request,) = client.client_requests
        meta = as_object(as_object(input_request["params"])["_meta"])
        assert meta["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}


async def test_pending_elicitation_resent_to_next_tasks_result(server: Server) -> None:
    async with open_client(server, R2025_11_25) as client:
        task = await start_task(client, "elicits")
        await wait_for_status(client, task, "input_required")
        waiting = await client.start("tasks/result", {"taskId": task["taskId"]})
        await client.wait_for(lambda: len(client.client_requests) == 1)
        await client.notify("notifications/cancelled", {"requestId": waiting})
        await client.wait_for_notifications("notifications/cancelled")
        assert await settled_status(client, task) == "input_required"
        client.answers["elicitation/create"] = accept("Ann")
        assert text_of(await client.call("tasks/result", {"taskId": task["taskId"]})) == "hello Ann"


async def test_elicitation_error_response_reaches_tool(server: Server) -> None:
    async with open_client(server, R2025_11_25) as client:
        task = await start_task(client, "elicits")
        waiting = await client.start("tasks/result", {"taskId": task["taskId"]})
        await client.wait_for(lambda: len(client.client_requests) == 1)
        await client.send(
            {
                "jsonrpc": "2.0",
                "id": client.client_requests[0]["id"],
                "error": {"code": -32000, "message": "leave me alone"},
            }
        )
        assert as_object((await client.response(waiting))["error"])["message"] == "leave me alone"
        assert await settled_status(client, task) == "failed"


async def test_unsupported_client_request_in_task_fails_task() -> None:
    from mcp_core.methods import PING
    from mcp_core.types import PingRequestParams

    server = Server("elicits", version="0")

    @server.tool(task="required")
    async def pings(context: Context) -> str:
        await context.request(PING, PingRequestParams())
        return "not reached"

    async with open_client(server, R2025_11_25) as client:
        now = await wait_for_status(client, await start_task(client, "pings"), "failed", "completed")
        assert now["status"] == "failed"


# --- Context.begin_task ----------------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.mrtr-before-create", "tasks.no-request-state")
async def test_input_requests_before_begin_task_use_mrtr(server: Server, control: ToolControl) -> None:
    async with open_client(server, R2026_07_28, elicitation=accept("Ann")) as client:
        task = await start_task(client, "later")
        assert client.round_trips == 1
        assert "requestState" not in task
        control.go.set()
        now = await wait_for_status(client, task, "completed")
        assert text_of(as_object(now["result"])) == "hello Ann"
        assert control.ran == ["paid"]
        assert control.tasks == [task["taskId"]]


@pytest.mark.spec("tasks.client-handles-both", "tasks.server-decides")
async def test_call_without_begin_task_returns_result(server: Server) -> None:
    async with open_client(server, R2026_07_28, elicitation=accept("Ann")) as client:
        assert await client.text("later", short=True) == "at once"


async def test_begin_task_without_client_support_returns_result(server: Server, control: ToolControl) -> None:
    control.go.set()
    for revision in (R2025_11_25, R2026_07_28):
        async with open_client(server, revision, capabilities=ALL_CAPABILITIES, elicitation=accept("Ann")) as client:
            assert await client.text("later") == "hello Ann"
    assert control.tasks == [None, None]


async def test_begin_task_2025_11_25_task_exists_from_start(server: Server, control: ToolControl) -> None:
    control.go.set()
    async with open_client(server, R2025_11_25, elicitation=accept("Ann")) as client:
        task = await start_task(client, "later")
        assert text_of(await client.call("tasks/result", {"taskId": task["taskId"]})) == "hello Ann"
        assert control.tasks == [task["taskId"]]


async def test_begin_task_in_shielded_scope_fails(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryTaskStore()
    server = Server("shielded", version="0", tasks=TaskPolicy(store=store))

    @server.tool(task="optional", start_as_task=False)
    async def shielded(context: Context) -> str:
        with trio.CancelScope(shield=True):
            await context.begin_task()
        return "not reached"

    async with open_client(server, R2026_07_28) as client:
        await client.crash("shielded")
    assert "shielded from cancellation" in caplog.text
    assert repr(store) == "<MemoryTaskStore of 0 tasks>"


# --- progress and notifications --------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.no-progress-or-log")
async def test_extension_progress_becomes_status_message(server: Server) -> None:
    async with open_client(server, R2026_07_28) as client:
        task = await client.call("tools/call", {"name": "reports", "_meta": {"progressToken": 5}})
        await trio.testing.wait_all_tasks_blocked()
        assert (await get_task(client, task))["statusMessage"] == "two"
        assert client.notifications_of("notifications/progress") == []
        assert client.notifications_of("notifications/message") == []


@pytest.mark.spec("progress.task-token-continues", "progress.task-same-token", "progress.task-stop-terminal")
@pytest.mark.spec("tasks.related-task-meta")
async def test_progress_2025_11_25_uses_token_of_call(server: Server, control: ToolControl) -> None:
    async with open_client(server, R2025_11_25) as client:
        params: JsonObject = {"name": "reports", "task": {}, "_meta": {"progressToken": "five"}}
        task = as_object((await client.call("tools/call", params))["task"])
        await client.wait_for_notifications("notifications/progress")
        control.go.set()
        await client.call("tasks/result", {"taskId": task["taskId"]})
        await client.wait_for_notifications("notifications/tasks/status")
        # A slow pipe keeps only the latest progress value: one or two notifications arrive.
        *progress, status = client.notifications
        assert status["method"] == "notifications/tasks/status"
        assert {each["method"] for each in progress} == {"notifications/progress"}
        for received in client.notifications_of("notifications/progress"):
            assert received["progressToken"] == "five"
            assert received["_meta"] == {"io.modelcontextprotocol/related-task": {"taskId": task["taskId"]}}
        assert client.notifications_of("notifications/progress")[-1]["message"] == "two"


@pytest.mark.spec("tasks.status-notification", "tasks.status-notification-no-related-meta")
async def test_status_changes_2025_11_25_are_notified(server: Server) -> None:
    async with open_client(server, R2025_11_25, elicitation=accept("Ann")) as client:
        task = await start_task(client, "elicits")
        await client.call("tasks/result", {"taskId": task["taskId"]})
        received = await client.wait_for_notifications("notifications/tasks/status", 3)
        assert [each["status"] for each in received] == ["input_required", "working", "completed"]
        assert all(each["taskId"] == task["taskId"] and "_meta" not in each for each in received)


@pytest.mark.spec(
    "tasks.listen-filter", "tasks.listen-ack", "tasks.listen-only-requested", "tasks.notification-full-state"
)
@pytest.mark.spec("tasks.notifications-optional")
async def test_listen_to_task_receives_full_state(server: Server, control: ToolControl) -> None:
    async with open_client(server, R2026_07_28) as client:
        task, other = await start_task(client, "work", text="ready"), await start_task(client, "work")
        requested: JsonObject = {"taskIds": [task["taskId"], "there-is-no-such-task"]}
        listening = await client.start("subscriptions/listen", {"notifications": requested})
        (ack,) = await client.wait_for_notifications("notifications/subscriptions/acknowledged")
        assert ack["notifications"] == {"taskIds": [task["taskId"]]}
        control.go.set()
        (received,) = await client.wait_for_notifications("notifications/tasks")
        now = await wait_for_status(client, task, "completed")
        await wait_for_status(client, other, "completed")
        assert received.pop("_meta") == {"io.modelcontextprotocol/subscriptionId": listening}
        assert received == {name: value for name, value in now.items() if name not in {"_meta", "resultType"}}
        assert len(client.notifications_of("notifications/tasks")) == 1


@pytest.mark.spec("tasks.listen-undeclared-32021")
async def test_listen_to_task_without_extension_returns_32021(server: Server) -> None:
    async with open_client(server, R2026_07_28, capabilities=ALL_CAPABILITIES) as client:
        error = await client.fail("subscriptions/listen", {"notifications": {"taskIds": ["x"]}})
        assert error["code"] == -32021


# --- tasks/list (2025-11-25) -----------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.list-complete", "tasks.list-pagination", "tasks.list-next-cursor", "schema.list-tasks-result")
async def test_tasks_list_pages_contain_all_tasks(control: ToolControl) -> None:
    async with open_client(make_server(control, limits=Limits(page_items=2)), R2025_11_25) as client:
        created_ids = [task_id(await start_task(client, "must")) for _ in range(5)]
        found: list[JsonValue] = []
        cursor: JsonValue = None
        pages = 0
        while pages == 0 or cursor is not None:
            page = await client.call("tasks/list", {} if cursor is None else {"cursor": cursor})
            found += [as_object(each)["taskId"] for each in as_list(page["tasks"])]
            cursor = page.get("nextCursor")
            pages += 1
        assert pages == 3
        assert sorted(map(str, found)) == sorted(created_ids)


@pytest.mark.spec("tasks.invalid-cursor-error", "tasks.list-cursor-opaque")
async def test_tasks_list_unknown_cursor_returns_32602(server: Server) -> None:
    async with open_client(server, R2025_11_25) as client:
        error = await client.fail("tasks/list", {"cursor": "made-up"})
        assert error["code"] == -32602


@pytest.mark.spec("tasks.list-own-context", "tasks.no-list-without-identity")
async def test_tasks_list_anonymous_contains_only_tasks_of_connection(server: Server, control: ToolControl) -> None:
    async with server.running(), open_client(server, R2025_11_25) as ann, open_client(server, R2025_11_25) as bob:
        task = await start_task(ann, "work")
        assert (await bob.call("tasks/list"))["tasks"] == []
        # A client that knows the id got it from the client that created the task.
        await get_task(bob, task)
        (listed,) = as_list((await bob.call("tasks/list"))["tasks"])
        assert as_object(listed)["taskId"] == task["taskId"]


async def test_tasks_list_is_bounded_per_connection(control: ToolControl) -> None:
    store = MemoryTaskStore()
    server = make_server(control, limits=Limits(tasks=2), tasks=TaskPolicy(store=store))
    async with open_client(server, R2025_11_25) as client:
        created_ids = [task_id(await start_task(client, "must")) for _ in range(3)]
        listed = [as_object(each)["taskId"] for each in as_list((await client.call("tasks/list"))["tasks"])]
        assert set(map(str, listed)) == set(created_ids[1:])


# --- time and limits -------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "tasks.ttl-optional", "tasks.ttl-override", "tasks.limit-ttl", "schema.task-metadata", "tasks.ttl-in-get"
)
async def test_requested_ttl_is_clamped(control: ToolControl) -> None:
    server = make_server(control, tasks=TaskPolicy(ttl=10, longest_ttl=20))
    async with open_client(server, R2025_11_25) as client:
        for requested_ttl, expected in ((None, 10_000), (5_000, 5_000), (10**9, 20_000), (0, 1)):
            assert (await start_task(client, "must", ttl=requested_ttl))["ttl"] == expected


@pytest.mark.spec("tasks.expired-deleted", "tasks.ttl-server-discard", "tasks.clean-up")
@BOTH_REVISIONS
async def test_expired_task_is_unknown(
    control: ToolControl, revision: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryTaskStore()
    async with open_client(make_server(control, tasks=TaskPolicy(store=store)), revision) as client:
        task = await start_task(client, "must")
        await wait_for_status(client, task, "completed")
        now, steady = time.time(), time.monotonic()
        monkeypatch.setattr("time.time", lambda: now + 3_601)
        monkeypatch.setattr("time.monotonic", lambda: steady + 3_601)
        assert (await client.fail("tasks/get", {"taskId": task["taskId"]}))["code"] == -32602
        if not client.modern:
            assert (await client.call("tasks/list"))["tasks"] == []
    assert await store.purge(now + 3_601, now + 3_601) is None


async def test_running_task_past_ttl_fails(control: ToolControl, autojump_clock: trio.testing.MockClock) -> None:
    async with open_client(make_server(control, tasks=TaskPolicy(ttl=5)), R2026_07_28) as client:
        task = await start_task(client, "work")
        await trio.sleep(6)
        # The mock clock does not advance the wall clock, by which the task is still kept.
        now = await get_task(client, task)
        assert now["status"] == "failed"
        assert "time to live" in str(now["statusMessage"])
        assert control.ran == ["done", "cancelled"]


async def test_expired_tasks_are_purged_without_requests(
    control: ToolControl, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryTaskStore()
    start, steady = time.time(), time.monotonic()
    monkeypatch.setattr("time.time", lambda: start + trio.current_time())
    monkeypatch.setattr("time.monotonic", lambda: steady + trio.current_time())
    async with open_client(make_server(control, tasks=TaskPolicy(store=store, ttl=5)), R2026_07_28) as client:
        await start_task(client, "must")
        await trio.sleep(4)
        assert repr(store) == "<MemoryTaskStore of 1 tasks>"
        await trio.sleep(4)
        assert repr(store) == "<MemoryTaskStore of 0 tasks>"
        await start_task(client, "must")
        await trio.sleep(8)
        assert repr(store) == "<MemoryTaskStore of 0 tasks>"


@pytest.mark.spec("tasks.limit-concurrent")
@pytest.mark.parametrize(
    "limits", [Limits(running_tasks=1), Limits(tasks=1), Limits(task_bytes=1_200)], ids=["running", "kept", "bytes"]
)
async def test_task_over_limit_returns_32600(control: ToolControl, limits: Limits) -> None:
    async with open_client(make_server(control, limits=limits), R2026_07_28) as client:
        await start_task(client, "work")
        error = await client.fail("tools/call", {"name": "work"})
        assert error["code"] == -32600
        assert "Limits." in str(error["message"])


def test_task_policy_invalid_times_raise() -> None:
    with pytest.raises(ValueError, match=r"TaskPolicy\.poll_interval must be a finite number of seconds above 0"):
        TaskPolicy(poll_interval=0)
    with pytest.raises(ValueError, match=r"TaskPolicy\.ttl of 2 is more than TaskPolicy\.longest_ttl, 1"):
        TaskPolicy(ttl=2, longest_ttl=1)
    assert attrs.evolve(TaskPolicy(), ttl=5).ttl_for(None) == 5_000


@pytest.mark.spec("tasks.log-events", "tasks.log-auth-context")
async def test_task_lifecycle_logged_without_full_id(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "mcp_server"):
        async with open_client(server, R2026_07_28) as client:
            task = await start_task(client, "must")
            await wait_for_status(client, task, "completed")
    lines = [record.getMessage() for record in caplog.records]
    short = task_id(task)[:8]
    assert f"task started: task={short}… owner=anonymous tool=must" in lines
    assert f"task ended: task={short}… owner=anonymous status=completed" in lines
    assert task_id(task) not in "\n".join(lines)


# --- both kinds on one server ----------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.legacy-tasks-still-served")
async def test_task_of_one_kind_is_available_in_the_other(server: Server, control: ToolControl) -> None:
    async with server.running(), open_client(server, R2025_11_25) as old, open_client(server, R2026_07_28) as new:
        task = await start_task(old, "work", text="ready")
        assert (await get_task(new, task))["status"] == "working"
        control.go.set()
        now = await wait_for_status(new, task, "completed")
        assert text_of(as_object(now["result"])) == "ready"
        other = await start_task(old, "work")
        await new.call("tasks/cancel", {"taskId": other["taskId"]})
        failed = await start_task(old, "fails", how="tool")
        assert (await wait_for_status(old, failed, "failed"))["status"] == "failed"
        assert (await get_task(new, failed))["status"] == "completed"
