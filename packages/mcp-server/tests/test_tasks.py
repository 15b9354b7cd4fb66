"""Tasks, in both forms: tool calls that are answered later."""

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
    Gates,
    accept,
    begin,
    client_of,
    get,
    make_server,
    stands,
    task_id,
    until,
)

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import LEGACY, R2025_11_25, R2026_07_28, Revision
from mcp_server import Context, MemoryTaskStore, RegistrationError, Server, TaskPolicy

IN_BOTH = pytest.mark.parametrize("revision", BOTH, ids=str)
UNKNOWN: JsonObject = {"taskId": "there-is-no-such-task"}


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
def server(gates: Gates) -> Server:
    return make_server(gates)


# --- what is declared ------------------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.declare-capability", "tasks.requests-exhaustive", "schema.server-capability-tasks")
async def test_a_server_with_task_tools_declares_the_capability_in_2025_11_25(server: Server) -> None:
    async with connected(server, R2025_11_25, opened=False) as client:
        offered = as_object((await client.open())["capabilities"])
        assert offered["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        assert EXTENSION not in as_object(offered.get("extensions", {}))


@pytest.mark.spec("tasks.server-advertises", "tasks.legacy-capability-not-advertised")
async def test_it_declares_the_extension_on_2026_07_28(server: Server) -> None:
    async with connected(server, R2026_07_28, opened=False) as client:
        offered = as_object((await client.open())["capabilities"])
        assert as_object(offered["extensions"])[EXTENSION] == {}
        assert "tasks" not in offered


@pytest.mark.spec("tasks.methods-unsupported-32601", "tasks.list-gated", "tasks.cancel-gated")
@IN_BOTH
async def test_a_server_without_task_tools_has_no_tasks(revision: Revision) -> None:
    server = Server("none", version="0")
    server.add_tool(lambda: "x", name="x")
    async with client_of(server, revision) as client:
        for method in ("tasks/get", "tasks/cancel", "tasks/result", "tasks/list", "tasks/update"):
            assert (await client.fail(method, UNKNOWN))["code"] == -32601


@pytest.mark.spec("tasks.ignore-undeclared")
async def test_a_server_without_task_tools_ignores_the_wish_for_a_task() -> None:
    server = Server("none", version="0")
    server.add_tool(lambda: "x", name="x")
    async with client_of(server, R2025_11_25) as client:
        assert text_of(await client.call("tools/call", {"name": "x", "task": {"ttl": 1}})) == "x"


async def test_tools_say_in_2025_11_25_how_they_may_be_run(server: Server) -> None:
    async with client_of(server, R2025_11_25) as client:
        tools = [as_object(each) for each in as_list((await client.call("tools/list"))["tools"])]
    support = {str(tool["name"]): tool.get("execution") for tool in tools}
    assert support["plain"] is None
    assert support["work"] == {"taskSupport": "optional"}
    assert support["must"] == {"taskSupport": "required"}


@pytest.mark.spec("compat.no-core-tasks")
async def test_tools_say_nothing_of_it_on_2026_07_28(server: Server) -> None:
    async with client_of(server, R2026_07_28) as client:
        tools = as_list((await client.call("tools/list"))["tools"])
    assert not any("execution" in as_object(tool) for tool in tools)


def test_a_tool_that_may_sometimes_be_a_task_is_refused_where_it_is_registered() -> None:
    server = Server("none", version="0")
    with pytest.raises(RegistrationError, match="`task` must be one of forbidden, optional, required, not 'sometimes'"):
        server.add_tool(lambda: "x", name="x", task="sometimes")  # type: ignore[arg-type]  # the mistake


# --- which calls become a task ---------------------------------------------------------------------------------------


@pytest.mark.spec(
    "tasks.create-result", "tasks.create-result-soon", "tasks.starts-working", "schema.create-task-result"
)
@pytest.mark.spec("tasks.id-string", "tasks.id-by-receiver", "tasks.result-type-task", "tasks.durable-before-create")
@pytest.mark.spec("tasks.poll-interval-optional", "tasks.task-fields", "tasks.server-decides", "tasks.get-working")
@pytest.mark.spec("tasks.get-result-type", "tasks.result-type-only-create", "tasks.no-request-state")
@IN_BOTH
async def test_a_call_is_answered_with_a_task_before_its_work_is_done(server: Server, revision: Revision) -> None:
    async with client_of(server, revision) as client:
        task = await begin(client, "work")
        assert task["status"] == "working"
        ttl, interval = ("ttlMs", "pollIntervalMs") if client.modern else ("ttl", "pollInterval")
        assert task[ttl] == 3_600_000
        assert task[interval] == 1_000
        for member in ("createdAt", "lastUpdatedAt"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(task[member]))
        for member in ("result", "error", "inputRequests", "requestState"):
            assert member not in task
        now = await get(client, task)
        assert now["taskId"] == task["taskId"]
        assert now["status"] == "working"
        assert now.get("resultType") == ("complete" if client.modern else None)
        assert "requestState" not in now


@pytest.mark.spec("tasks.id-unique", "tasks.id-entropy", "tasks.id-unguessable", "security.handle-random")
@IN_BOTH
async def test_ids_are_long_random_and_never_the_same(server: Server, revision: Revision) -> None:
    async with client_of(server, revision) as client:
        ids = {task_id(await begin(client, "must")) for _ in range(20)}
    assert len(ids) == 20
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{32}", id) for id in ids)


@pytest.mark.spec("tasks.optional-tool")
async def test_an_optional_tool_can_be_called_without_a_task(server: Server, gates: Gates) -> None:
    gates.go.set()
    async with client_of(server, R2025_11_25) as client:
        assert await client.text("work") == "done"
    assert gates.tasks == [None]


@pytest.mark.spec("tasks.not-to-undeclaring", "tasks.legacy-capability-non-declaring")
@pytest.mark.parametrize("declared", [{}, {"tasks": {"requests": {}}}], ids=str)
async def test_a_client_without_the_extension_has_the_result_at_once(
    server: Server, gates: Gates, declared: JsonObject
) -> None:
    gates.go.set()
    async with client_of(server, R2026_07_28, capabilities={**ALL_CAPABILITIES, **declared}) as client:
        result = await client.tool("work")
        assert result["resultType"] == "complete"
        # Whatever other requests declared.
        client.capabilities = WITH_TASKS
        await begin(client, "work")
        client.capabilities = ALL_CAPABILITIES
        assert await client.text("work") == "done"


@pytest.mark.spec("tasks.task-param-ignored")
async def test_the_old_wish_for_a_task_means_nothing_on_2026_07_28(server: Server) -> None:
    async with client_of(server, R2026_07_28) as client:
        result = await client.call("tools/call", {"name": "plain", "task": {"ttl": 5, "pollInterval": 1}})
        assert result["resultType"] == "complete"


@pytest.mark.spec("tasks.required-error-32021", "tasks.required-error-data")
async def test_what_has_to_be_a_task_needs_a_client_with_the_extension(server: Server) -> None:
    async with client_of(server, R2026_07_28, capabilities=ALL_CAPABILITIES) as client:
        error = await client.fail("tools/call", {"name": "must"})
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


@pytest.mark.spec(
    "tasks.required-tool-error", "tasks.forbidden-tool-error", "tasks.informative-errors", "tasks.may-require"
)
async def test_a_tool_is_called_as_it_wants_to_be(server: Server) -> None:
    async with client_of(server, R2025_11_25) as client:
        error = await client.fail("tools/call", {"name": "must"})
        assert (error["code"], error["message"]) == (-32601, "the tool 'must' must be called as a task")
        error = await client.fail("tools/call", {"name": "plain", "task": {}})
        assert (error["code"], error["message"]) == (-32601, "the tool 'plain' cannot be called as a task")


@pytest.mark.parametrize("revision", [each for each in LEGACY if not each.core_tasks], ids=str)
async def test_what_has_to_be_a_task_cannot_be_called_where_there_are_none(server: Server, revision: Revision) -> None:
    async with client_of(server, revision, capabilities={}) as client:
        error = await client.fail("tools/call", {"name": "must"})
        assert error["code"] == -32600
        assert f"revision {revision} has no tasks" in str(error["message"])


async def test_what_is_wrong_with_a_call_is_said_at_once_where_that_is_possible(server: Server) -> None:
    async with client_of(server, R2026_07_28) as client:
        result = await client.tool("work", text=5)
        assert result["resultType"] == "complete"
        assert result["isError"] is True
    async with client_of(server, R2025_11_25) as client:
        task = await begin(client, "work", text=5)
        assert (await until(client, task, "failed"))["statusMessage"] == "the tool reported an error; see the result"


# --- its end -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.get-completed", "tasks.completed-result-field", "tasks.inlined-result-no-related-task")
@pytest.mark.spec("tasks.get-terminal-stable", "tasks.ttl-not-early")
async def test_the_result_is_in_the_task(server: Server, gates: Gates) -> None:
    async with client_of(server, R2026_07_28) as client:
        task = await begin(client, "work", text="ready")
        gates.go.set()
        now = await until(client, task, "completed")
        result = as_object(now["result"])
        assert text_of(result) == "ready"
        assert "_meta" not in result
        assert await get(client, task) == now


@pytest.mark.spec(
    "tasks.result-blocks", "tasks.result-terminal", "tasks.result-success-same", "tasks.related-meta-in-result"
)
@pytest.mark.spec("schema.request-methods-client-tasks", "schema.task-request-params")
async def test_the_result_is_waited_for_in_2025_11_25(server: Server, gates: Gates) -> None:
    async with client_of(server, R2025_11_25) as client:
        task = await begin(client, "work", text="ready")
        waiting = await client.start("tasks/result", {"taskId": task["taskId"]})
        assert await stands(client, task) == "working"
        gates.go.set()
        result = as_object((await client.response(waiting))["result"])
        assert text_of(result) == "ready"
        assert result["_meta"] == {"io.modelcontextprotocol/related-task": {"taskId": task["taskId"]}}
        assert await client.call("tasks/result", {"taskId": task["taskId"]}) == result
        assert await stands(client, task) == "completed"


@pytest.mark.spec("tasks.no-related-meta-in-answers", "tasks.task-id-param-wins")
async def test_answers_about_a_task_have_no_related_task_and_none_is_looked_for(server: Server) -> None:
    async with client_of(server, R2025_11_25) as client:
        task = await begin(client, "work")
        params: JsonObject = {
            "taskId": task["taskId"],
            "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "another"}},
        }
        for method in ("tasks/get", "tasks/list", "tasks/cancel"):
            assert "_meta" not in await client.call(method, params if method != "tasks/list" else {})


@pytest.mark.spec("tasks.tool-error-completed", "tasks.failed-only-jsonrpc")
@pytest.mark.parametrize("how", ["tool", "crash"])
async def test_a_tool_that_fails_has_completed_its_task_in_the_extension(server: Server, how: str) -> None:
    async with client_of(server, R2026_07_28) as client:
        now = await until(client, await begin(client, "fails", how=how), "completed", "failed")
        assert now["status"] == "completed"
        result = as_object(now["result"])
        assert result["isError"] is True
        assert "secret" not in text_of(result)


@pytest.mark.spec("tasks.failed-on-tool-error", "tasks.failed-status-message", "tasks.result-success-same")
async def test_a_tool_that_fails_fails_its_task_in_2025_11_25(server: Server) -> None:
    async with client_of(server, R2025_11_25) as client:
        task = await begin(client, "fails", how="tool")
        now = await until(client, task, "completed", "failed")
        assert now["status"] == "failed"
        assert now["statusMessage"] == "the tool reported an error; see the result"
        result = await client.call("tasks/result", {"taskId": task["taskId"]})
        assert result["isError"] is True
        assert text_of(result) == "it cannot be done"


@pytest.mark.spec("tasks.failed-error-field", "tasks.get-failed", "tasks.failed-diagnostic-message")
@pytest.mark.spec("tasks.failed-on-error", "tasks.result-error-same", "tasks.failed-status-message")
@IN_BOTH
async def test_a_protocol_error_fails_the_task(server: Server, revision: Revision) -> None:
    async with client_of(server, revision) as client:
        task = await begin(client, "fails", how="protocol")
        now = await until(client, task, "failed")
        assert now["statusMessage"] == "no"
        if client.modern:
            assert now["error"] == {"code": -32000, "message": "no", "data": {"why": "so"}}
            assert "result" not in now
        else:
            error = await client.fail("tasks/result", {"taskId": task["taskId"]})
            assert error == {"code": -32000, "message": "no", "data": {"why": "so"}}


@IN_BOTH
async def test_a_result_that_is_too_large_to_be_kept_fails_the_task(gates: Gates, revision: Revision) -> None:
    gates.go.set()
    async with client_of(make_server(gates, limits=Limits(task_bytes=6_000)), revision) as client:
        now = await until(client, await begin(client, "work", text="x" * 4_000), "failed")
        assert "Limits.task_bytes" in str(now["statusMessage"])


# --- tasks/cancel ------------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "tasks.cancel-stops", "tasks.cancel-status-before-response", "tasks.cancelled-stays", "tasks.get-cancelled"
)
@pytest.mark.spec(
    "cancellation.tasks-use-tasks-cancel", "tasks.cancel-ack", "tasks.cancel-result-type", "tasks.cancel-method"
)
@IN_BOTH
async def test_a_task_that_is_cancelled_stops(server: Server, gates: Gates, revision: Revision) -> None:
    async with client_of(server, revision) as client:
        task = await begin(client, "work")
        assert await stands(client, task) == "working"
        said = await client.call("tasks/cancel", {"taskId": task["taskId"]})
        assert said.get("status") == (None if client.modern else "cancelled")
        assert said.get("resultType") == ("complete" if client.modern else None)
        assert await stands(client, task) == "cancelled"
        assert gates.ran == ["done", "cancelled"]
        gates.go.set()
        assert await stands(client, task) == "cancelled"


@pytest.mark.spec("tasks.cancelled-stays", "tasks.terminal-is-final")
async def test_a_task_stays_cancelled_though_its_function_goes_on_to_its_end() -> None:
    server = Server("stubborn", version="0")
    ended = trio.Event()
    stop = trio.Event()

    @server.tool(task="required")
    async def stubborn() -> str:
        with trio.CancelScope(shield=True):
            await stop.wait()
        ended.set()
        return "done all the same"

    async with client_of(server, R2026_07_28) as client:
        task = await begin(client, "stubborn")
        await client.call("tasks/cancel", {"taskId": task["taskId"]})
        assert await stands(client, task) == "cancelled"
        stop.set()
        await ended.wait()
        assert await stands(client, task) == "cancelled"


@pytest.mark.spec("tasks.cancel-terminal-ack")
async def test_a_task_that_is_over_can_be_cancelled_to_no_effect_in_the_extension(server: Server) -> None:
    async with client_of(server, R2026_07_28) as client:
        task = await begin(client, "must")
        await until(client, task, "completed")
        said = await client.call("tasks/cancel", {"taskId": task["taskId"]})
        assert set(said) <= {"resultType", "_meta"}
        assert await stands(client, task) == "completed"


@pytest.mark.spec("tasks.cancel-terminal-error")
async def test_a_task_that_is_over_cannot_be_cancelled_in_2025_11_25(server: Server) -> None:
    async with client_of(server, R2025_11_25) as client:
        task = await begin(client, "must")
        await until(client, task, "completed")
        error = await client.fail("tasks/cancel", {"taskId": task["taskId"]})
        assert error["code"] == -32602
        assert "completed" in str(error["message"])
        cancelled = await begin(client, "work")
        await client.call("tasks/cancel", {"taskId": cancelled["taskId"]})
        assert (await client.fail("tasks/result", {"taskId": cancelled["taskId"]}))["code"] == -32600


async def test_who_waits_for_the_result_hears_of_the_cancellation(server: Server) -> None:
    async with client_of(server, R2025_11_25) as client:
        task = await begin(client, "work")
        waiting = await client.start("tasks/result", {"taskId": task["taskId"]})
        await client.call("tasks/cancel", {"taskId": task["taskId"]})
        assert as_object((await client.response(waiting))["error"])["code"] == -32600


@pytest.mark.spec("tasks.cancel-method")
async def test_cancelling_the_request_that_began_it_is_no_cancellation(server: Server) -> None:
    async with client_of(server, R2026_07_28) as client:
        task = await begin(client, "work")
        await client.notify("notifications/cancelled", {"requestId": 2})
        assert await stands(client, task) == "working"


async def test_leaving_the_wait_for_a_result_leaves_the_task_alone(server: Server, gates: Gates) -> None:
    async with client_of(server, R2025_11_25) as client:
        task = await begin(client, "work")
        waiting = await client.start("tasks/result", {"taskId": task["taskId"]})
        await client.notify("notifications/cancelled", {"requestId": waiting})
        assert await stands(client, task) == "working"
        gates.go.set()
        assert text_of(await client.call("tasks/result", {"taskId": task["taskId"]})) == "done"


# --- unknown tasks -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.unknown-task-error", "tasks.get-unknown-32602", "tasks.update-unknown-task")
@pytest.mark.spec("tasks.cancel-unknown-task", "tasks.error-messages-informative", "tasks.informative-errors")
@IN_BOTH
async def test_an_unknown_task_is_an_error_that_says_so(server: Server, revision: Revision) -> None:
    async with client_of(server, revision) as client:
        methods = ("get", "cancel", "update") if client.modern else ("get", "cancel", "result")
        for name in methods:
            params: JsonObject = {**UNKNOWN, "inputResponses": {}} if name == "update" else UNKNOWN
            error = await client.fail(f"tasks/{name}", params)
            assert error["code"] == -32602
            assert error["message"] == f"tasks/{name}: there is no such task, or it has expired"


@pytest.mark.spec("tasks.methods-undeclared-32021", "tasks.client-declares-per-request")
async def test_without_the_extension_there_is_nothing_to_ask_about(server: Server) -> None:
    async with client_of(server, R2026_07_28, capabilities=ALL_CAPABILITIES) as client:
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            error = await client.fail(method, {**UNKNOWN, "inputResponses": {}})
            assert error["code"] == -32021
            assert error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


@pytest.mark.spec("tasks.tasks-result-removed", "tasks.tasks-list-removed", "tasks.reserved-names")
async def test_what_the_extension_does_not_have_is_an_unknown_method(server: Server) -> None:
    async with client_of(server, R2026_07_28) as client:
        task = await begin(client, "work")
        assert (await client.fail("tasks/result", {"taskId": task["taskId"]}))["code"] == -32601
        assert (await client.fail("tasks/list"))["code"] == -32601


# --- input while it runs -------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "tasks.get-input-required", "tasks.get-input-requests-complete", "tasks.update-ack", "tasks.update-resumes"
)
@pytest.mark.spec("tasks.update-result-type", "tasks.update-request", "tasks.update-keys-outstanding")
async def test_a_task_asks_in_the_extension_by_its_status(server: Server) -> None:
    async with client_of(server, R2026_07_28) as client:
        task = await begin(client, "asks")
        now = await until(client, task, "input_required")
        ((key, question),) = as_object(now["inputRequests"]).items()
        assert as_object(question)["method"] == "elicitation/create"
        assert await get(client, task) == now
        answers: JsonObject = {key: {"action": "accept", "content": {"name": "Ann"}}}
        said = await client.call("tasks/update", {"taskId": task["taskId"], "inputResponses": answers})
        assert set(said) <= {"resultType", "_meta"}
        assert text_of(as_object((await until(client, task, "completed"))["result"])) == "hello Ann"


@pytest.mark.spec(
    "tasks.update-partial", "tasks.update-unknown-keys-ignored", "tasks.key-unique-lifetime", "tasks.key-no-reuse"
)
async def test_what_was_answered_is_not_asked_again_and_the_rest_stays(server: Server) -> None:
    async with client_of(server, R2026_07_28) as client:
        task = await begin(client, "asks_twice")
        await trio.testing.wait_all_tasks_blocked()
        assert set(as_object((await get(client, task))["inputRequests"])) == {"a", "b"}
        first: JsonObject = {"a": {"action": "accept", "content": {"name": "Ann"}}, "z": {"ignored": True}}
        await client.call("tasks/update", {"taskId": task["taskId"], "inputResponses": first})
        now = await get(client, task)
        assert now["status"] == "input_required"
        assert set(as_object(now["inputRequests"])) == {"b"}
        again: JsonObject = {"a": {"action": "accept", "content": {"name": "Eve"}}}
        await client.call("tasks/update", {"taskId": task["taskId"], "inputResponses": again})
        assert (await get(client, task))["status"] == "input_required"
        last: JsonObject = {"b": {"action": "accept", "content": {"name": "Bob"}}}
        await client.call("tasks/update", {"taskId": task["taskId"], "inputResponses": last})
        assert text_of(as_object((await until(client, task, "completed"))["result"])) == "Ann Bob"
        await client.call("tasks/update", {"taskId": task["taskId"], "inputResponses": last})


async def test_an_answer_that_is_none_is_refused_and_the_question_stays(server: Server) -> None:
    async with client_of(server, R2026_07_28) as client:
        task = await begin(client, "asks_twice")
        await trio.testing.wait_all_tasks_blocked()
        bad: JsonObject = {"a": {"action": "accept", "content": {"name": "Ann"}}, "b": {"model": "m"}}
        error = await client.fail("tasks/update", {"taskId": task["taskId"], "inputResponses": bad})
        assert error["code"] == -32602
        assert set(as_object((await get(client, task))["inputRequests"])) == {"a", "b"}


async def test_a_question_that_a_client_did_not_declare_fails_the_task(server: Server) -> None:
    async with client_of(server, R2026_07_28, capabilities={"extensions": {EXTENSION: {}}}) as client:
        now = await until(client, await begin(client, "asks"), "failed")
        assert as_object(now["error"])["code"] == -32021


@pytest.mark.spec("tasks.input-required", "tasks.input-request-related", "tasks.input-received-leaves")
@pytest.mark.spec("tasks.related-task-meta", "schema.request-methods-server-tasks")
async def test_a_task_asks_in_2025_11_25_while_its_result_is_waited_for(server: Server) -> None:
    async with client_of(server, R2025_11_25, elicitation=accept("Ann")) as client:
        task = await begin(client, "asks")
        now = await until(client, task, "input_required")
        assert now["statusMessage"] == "waiting for input from the client"
        assert client.asked == []
        result = await client.call("tasks/result", {"taskId": task["taskId"]})
        assert text_of(result) == "hello Ann"
        (question,) = client.asked
        meta = as_object(as_object(question["params"])["_meta"])
        assert meta["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}


async def test_a_question_is_asked_again_by_the_next_who_waits(server: Server) -> None:
    async with client_of(server, R2025_11_25) as client:
        task = await begin(client, "asks")
        await until(client, task, "input_required")
        waiting = await client.start("tasks/result", {"taskId": task["taskId"]})
        await client.wait_for(lambda: len(client.asked) == 1)
        await client.notify("notifications/cancelled", {"requestId": waiting})
        await client.told("notifications/cancelled")
        assert await stands(client, task) == "input_required"
        client.answers["elicitation/create"] = accept("Ann")
        assert text_of(await client.call("tasks/result", {"taskId": task["taskId"]})) == "hello Ann"


async def test_a_question_that_the_client_refuses_is_told_to_the_function(server: Server) -> None:
    async with client_of(server, R2025_11_25) as client:
        task = await begin(client, "asks")
        waiting = await client.start("tasks/result", {"taskId": task["taskId"]})
        await client.wait_for(lambda: len(client.asked) == 1)
        await client.send(
            {"jsonrpc": "2.0", "id": client.asked[0]["id"], "error": {"code": -32000, "message": "leave me alone"}}
        )
        assert as_object((await client.response(waiting))["error"])["message"] == "leave me alone"
        assert await stands(client, task) == "failed"


async def test_what_a_task_cannot_ask_is_a_mistake_of_its_author() -> None:
    from mcp_core.methods import PING
    from mcp_core.types import PingRequestParams

    server = Server("asks", version="0")

    @server.tool(task="required")
    async def pings(context: Context) -> str:
        await context.ask(PING, PingRequestParams())
        return "not reached"

    async with client_of(server, R2025_11_25) as client:
        now = await until(client, await begin(client, "pings"), "failed", "completed")
        assert now["status"] == "failed"


# --- becoming a task later -------------------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.mrtr-before-create", "tasks.no-request-state")
async def test_a_call_may_ask_before_it_becomes_a_task(server: Server, gates: Gates) -> None:
    async with client_of(server, R2026_07_28, elicitation=accept("Ann")) as client:
        task = await begin(client, "later")
        assert client.rounds == 1
        assert "requestState" not in task
        gates.go.set()
        now = await until(client, task, "completed")
        assert text_of(as_object(now["result"])) == "hello Ann"
        assert gates.ran == ["paid"]
        assert gates.tasks == [task["taskId"]]


@pytest.mark.spec("tasks.client-handles-both", "tasks.server-decides")
async def test_a_call_that_does_not_become_a_task_is_answered_as_usual(server: Server) -> None:
    async with client_of(server, R2026_07_28, elicitation=accept("Ann")) as client:
        assert await client.text("later", short=True) == "at once"


async def test_where_a_call_cannot_become_a_task_nothing_happens(server: Server, gates: Gates) -> None:
    gates.go.set()
    for revision in (R2025_11_25, R2026_07_28):
        async with client_of(server, revision, capabilities=ALL_CAPABILITIES, elicitation=accept("Ann")) as client:
            assert await client.text("later") == "hello Ann"
    assert gates.tasks == [None, None]


async def test_in_2025_11_25_it_is_a_task_from_its_beginning(server: Server, gates: Gates) -> None:
    gates.go.set()
    async with client_of(server, R2025_11_25, elicitation=accept("Ann")) as client:
        task = await begin(client, "later")
        assert text_of(await client.call("tasks/result", {"taskId": task["taskId"]})) == "hello Ann"
        assert gates.tasks == [task["taskId"]]


async def test_a_shielded_scope_cannot_become_a_task(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryTaskStore()
    server = Server("shielded", version="0", tasks=TaskPolicy(store=store))

    @server.tool(task="optional", task_at_once=False)
    async def shielded(context: Context) -> str:
        with trio.CancelScope(shield=True):
            await context.begin_task()
        return "not reached"

    async with client_of(server, R2026_07_28) as client:
        await client.crash("shielded")
    assert "shielded from cancellation" in caplog.text
    assert repr(store) == "<MemoryTaskStore of 0 tasks>"


# --- progress and notifications ----------------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.no-progress-or-log")
async def test_progress_is_the_message_of_the_status_in_the_extension(server: Server) -> None:
    async with client_of(server, R2026_07_28) as client:
        task = await client.call("tools/call", {"name": "reports", "_meta": {"progressToken": 5}})
        await trio.testing.wait_all_tasks_blocked()
        assert (await get(client, task))["statusMessage"] == "two"
        assert client.of("notifications/progress") == []
        assert client.of("notifications/message") == []


@pytest.mark.spec("progress.task-token-continues", "progress.task-same-token", "progress.task-stop-terminal")
@pytest.mark.spec("tasks.related-task-meta")
async def test_progress_comes_under_the_token_of_the_call_in_2025_11_25(server: Server, gates: Gates) -> None:
    async with client_of(server, R2025_11_25) as client:
        params: JsonObject = {"name": "reports", "task": {}, "_meta": {"progressToken": "five"}}
        task = as_object((await client.call("tools/call", params))["task"])
        await client.told("notifications/progress")
        gates.go.set()
        await client.call("tasks/result", {"taskId": task["taskId"]})
        await client.told("notifications/tasks/status")
        # On a slow pipe the latest value wins, so it may be one of them, or both.
        *progress, status = client.notifications
        assert status["method"] == "notifications/tasks/status"
        assert {note["method"] for note in progress} == {"notifications/progress"}
        for told in client.of("notifications/progress"):
            assert told["progressToken"] == "five"
            assert told["_meta"] == {"io.modelcontextprotocol/related-task": {"taskId": task["taskId"]}}
        assert client.of("notifications/progress")[-1]["message"] == "two"


@pytest.mark.spec("tasks.status-notification", "tasks.status-notification-no-related-meta")
async def test_changes_of_the_status_are_told_in_2025_11_25(server: Server) -> None:
    async with client_of(server, R2025_11_25, elicitation=accept("Ann")) as client:
        task = await begin(client, "asks")
        await client.call("tasks/result", {"taskId": task["taskId"]})
        told = await client.told("notifications/tasks/status", 3)
        assert [each["status"] for each in told] == ["input_required", "working", "completed"]
        assert all(each["taskId"] == task["taskId"] and "_meta" not in each for each in told)


@pytest.mark.spec(
    "tasks.listen-filter", "tasks.listen-ack", "tasks.listen-only-requested", "tasks.notification-full-state"
)
@pytest.mark.spec("tasks.notifications-optional")
async def test_who_listens_to_a_task_is_told_all_of_it(server: Server, gates: Gates) -> None:
    async with client_of(server, R2026_07_28) as client:
        task, other = await begin(client, "work", text="ready"), await begin(client, "work")
        wanted: JsonObject = {"taskIds": [task["taskId"], "there-is-no-such-task"]}
        listening = await client.start("subscriptions/listen", {"notifications": wanted})
        (ack,) = await client.told("notifications/subscriptions/acknowledged")
        assert ack["notifications"] == {"taskIds": [task["taskId"]]}
        gates.go.set()
        (told,) = await client.told("notifications/tasks")
        now = await until(client, task, "completed")
        await until(client, other, "completed")
        assert told.pop("_meta") == {"io.modelcontextprotocol/subscriptionId": listening}
        assert told == {name: value for name, value in now.items() if name not in {"_meta", "resultType"}}
        assert len(client.of("notifications/tasks")) == 1


@pytest.mark.spec("tasks.listen-undeclared-32021")
async def test_listening_needs_the_extension(server: Server) -> None:
    async with client_of(server, R2026_07_28, capabilities=ALL_CAPABILITIES) as client:
        error = await client.fail("subscriptions/listen", {"notifications": {"taskIds": ["x"]}})
        assert error["code"] == -32021


# --- tasks/list (2025-11-25) ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.list-complete", "tasks.list-pagination", "tasks.list-next-cursor", "schema.list-tasks-result")
async def test_all_tasks_of_a_connection_are_listed_in_pages(gates: Gates) -> None:
    async with client_of(make_server(gates, limits=Limits(page_items=2)), R2025_11_25) as client:
        made = [task_id(await begin(client, "must")) for _ in range(5)]
        found: list[JsonValue] = []
        cursor: JsonValue = None
        pages = 0
        while pages == 0 or cursor is not None:
            page = await client.call("tasks/list", {} if cursor is None else {"cursor": cursor})
            found += [as_object(each)["taskId"] for each in as_list(page["tasks"])]
            cursor = page.get("nextCursor")
            pages += 1
        assert pages == 3
        assert sorted(map(str, found)) == sorted(made)


@pytest.mark.spec("tasks.invalid-cursor-error", "tasks.list-cursor-opaque")
async def test_a_cursor_that_was_not_given_is_refused(server: Server) -> None:
    async with client_of(server, R2025_11_25) as client:
        error = await client.fail("tasks/list", {"cursor": "made-up"})
        assert error["code"] == -32602


@pytest.mark.spec("tasks.list-own-context", "tasks.no-list-without-identity")
async def test_who_is_not_told_apart_lists_only_what_was_spoken_of_here(server: Server, gates: Gates) -> None:
    async with server.running(), client_of(server, R2025_11_25) as ann, client_of(server, R2025_11_25) as bob:
        task = await begin(ann, "work")
        assert (await bob.call("tasks/list"))["tasks"] == []
        # Who knows its id was told it by her.
        await get(bob, task)
        (listed,) = as_list((await bob.call("tasks/list"))["tasks"])
        assert as_object(listed)["taskId"] == task["taskId"]


async def test_only_so_many_tasks_of_a_connection_are_remembered_for_the_list(gates: Gates) -> None:
    store = MemoryTaskStore()
    server = make_server(gates, limits=Limits(tasks=2), tasks=TaskPolicy(store=store))
    async with client_of(server, R2025_11_25) as client:
        made = [task_id(await begin(client, "must")) for _ in range(3)]
        listed = [as_object(each)["taskId"] for each in as_list((await client.call("tasks/list"))["tasks"])]
        assert set(map(str, listed)) == set(made[1:])


# --- time and bounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "tasks.ttl-optional", "tasks.ttl-override", "tasks.limit-ttl", "schema.task-metadata", "tasks.ttl-in-get"
)
async def test_a_client_may_wish_how_long_a_task_is_kept_within_bounds(gates: Gates) -> None:
    server = make_server(gates, tasks=TaskPolicy(ttl=10, longest_ttl=20))
    async with client_of(server, R2025_11_25) as client:
        for wished, given in ((None, 10_000), (5_000, 5_000), (10**9, 20_000), (0, 1)):
            assert (await begin(client, "must", ttl=wished))["ttl"] == given


@pytest.mark.spec("tasks.expired-deleted", "tasks.ttl-server-discard", "tasks.clean-up")
@IN_BOTH
async def test_a_task_is_unknown_when_its_time_has_passed(
    gates: Gates, revision: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryTaskStore()
    async with client_of(make_server(gates, tasks=TaskPolicy(store=store)), revision) as client:
        task = await begin(client, "must")
        await until(client, task, "completed")
        now, steady = time.time(), time.monotonic()
        monkeypatch.setattr("time.time", lambda: now + 3_601)
        monkeypatch.setattr("time.monotonic", lambda: steady + 3_601)
        assert (await client.fail("tasks/get", {"taskId": task["taskId"]}))["code"] == -32602
        if not client.modern:
            assert (await client.call("tasks/list"))["tasks"] == []
    assert await store.purge(now + 3_601, now + 3_601) is None


async def test_a_task_that_takes_longer_than_it_is_kept_is_ended(
    gates: Gates, autojump_clock: trio.testing.MockClock
) -> None:
    async with client_of(make_server(gates, tasks=TaskPolicy(ttl=5)), R2026_07_28) as client:
        task = await begin(client, "work")
        await trio.sleep(6)
        # By the wall clock, which a test does not turn, it is still kept.
        now = await get(client, task)
        assert now["status"] == "failed"
        assert "time to live" in str(now["statusMessage"])
        assert gates.ran == ["done", "cancelled"]


async def test_what_is_forgotten_is_forgotten_without_being_asked_for(
    gates: Gates, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryTaskStore()
    began, steady = time.time(), time.monotonic()
    monkeypatch.setattr("time.time", lambda: began + trio.current_time())
    monkeypatch.setattr("time.monotonic", lambda: steady + trio.current_time())
    async with client_of(make_server(gates, tasks=TaskPolicy(store=store, ttl=5)), R2026_07_28) as client:
        await begin(client, "must")
        await trio.sleep(4)
        assert repr(store) == "<MemoryTaskStore of 1 tasks>"
        await trio.sleep(4)
        assert repr(store) == "<MemoryTaskStore of 0 tasks>"
        await begin(client, "must")
        await trio.sleep(8)
        assert repr(store) == "<MemoryTaskStore of 0 tasks>"


@pytest.mark.spec("tasks.limit-concurrent")
@pytest.mark.parametrize(
    "limits", [Limits(running_tasks=1), Limits(tasks=1), Limits(task_bytes=1_200)], ids=["running", "kept", "bytes"]
)
async def test_one_task_too_many_is_refused(gates: Gates, limits: Limits) -> None:
    async with client_of(make_server(gates, limits=limits), R2026_07_28) as client:
        await begin(client, "work")
        error = await client.fail("tools/call", {"name": "work"})
        assert error["code"] == -32600
        assert "Limits." in str(error["message"])


def test_a_policy_has_times_that_make_sense() -> None:
    with pytest.raises(ValueError, match=r"TaskPolicy\.poll_interval must be a finite number of seconds above 0"):
        TaskPolicy(poll_interval=0)
    with pytest.raises(ValueError, match=r"TaskPolicy\.ttl of 2 is more than TaskPolicy\.longest_ttl, 1"):
        TaskPolicy(ttl=2, longest_ttl=1)
    assert attrs.evolve(TaskPolicy(), ttl=5).ttl_for(None) == 5_000


@pytest.mark.spec("tasks.log-events", "tasks.log-auth-context")
async def test_the_life_of_a_task_is_in_the_log_and_its_id_is_not(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "mcp_server"):
        async with client_of(server, R2026_07_28) as client:
            task = await begin(client, "must")
            await until(client, task, "completed")
    lines = [record.getMessage() for record in caplog.records]
    short = task_id(task)[:8]
    assert f"task started: task={short}… owner=anonymous tool=must" in lines
    assert f"task ended: task={short}… owner=anonymous status=completed" in lines
    assert task_id(task) not in "\n".join(lines)


# --- both forms at once -------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.legacy-tasks-still-served")
async def test_a_task_that_was_begun_in_one_form_is_served_in_the_other(server: Server, gates: Gates) -> None:
    async with server.running(), client_of(server, R2025_11_25) as old, client_of(server, R2026_07_28) as new:
        task = await begin(old, "work", text="ready")
        assert (await get(new, task))["status"] == "working"
        gates.go.set()
        now = await until(new, task, "completed")
        assert text_of(as_object(now["result"])) == "ready"
        other = await begin(old, "work")
        await new.call("tasks/cancel", {"taskId": other["taskId"]})
        failed = await begin(old, "fails", how="tool")
        assert (await until(old, failed, "failed"))["status"] == "failed"
        assert (await get(new, failed))["status"] == "completed"
