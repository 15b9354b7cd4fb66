"""What the engine allows to be told of tasks, and how it reads what is said of them."""

from __future__ import annotations

import pytest
from engine_pair import NOTHING_DECLARED, make_client, make_server, opened, pair, wire_of

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.conversion.compatibility import MAPS, receive
from mcp_core.engine.events import NotificationReceived
from mcp_core.errors import InvalidValue, LocalProtocolError
from mcp_core.features.tasks import TaskState, as_task
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.methods import Side
from mcp_core.revisions import LEGACY, R2025_11_25, R2026_07_28, Revision
from mcp_core.types.meta import RELATED_TASK, TASKS_EXTENSION

STATUS = as_task(
    TaskState(id="t", created_at=0.0, updated_at=0.0, ttl=None, poll_interval=None), t.TaskStatusNotificationParams
)
PROGRESS = t.ProgressNotificationParams(progress_token=7, progress=1, meta={RELATED_TASK: {"taskId": "t"}})


@pytest.mark.spec("tasks.status-notification", "progress.task-token-continues", "progress.task-same-token")
@pytest.mark.spec("schema.notification-methods-server-elicitation-tasks")
def test_a_session_is_told_of_its_tasks_when_their_requests_were_answered_long_ago() -> None:
    both = opened(R2025_11_25)
    (status,) = both.server.publish(m.NOTIFICATIONS_TASKS_STATUS, STATUS)
    (progress,) = both.server.publish(m.NOTIFICATIONS_PROGRESS, PROGRESS)
    assert wire_of(progress)["params"] == {
        "progressToken": 7,
        "progress": 1,
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t"}},
    }
    both.send(Side.SERVER, status)
    both.run()
    event = both.client_events[-1]
    assert isinstance(event, NotificationReceived)
    assert event.params == STATUS


@pytest.mark.spec("tasks.status-notification-no-related-meta")
def test_the_status_says_which_task_it_is_of_by_itself() -> None:
    (status,) = opened(R2025_11_25).server.publish(m.NOTIFICATIONS_TASKS_STATUS, STATUS)
    params = wire_of(status)["params"]
    assert isinstance(params, dict)
    assert params["taskId"] == "t"
    assert "_meta" not in params


@pytest.mark.parametrize("revision", [*(each for each in LEGACY if each is not R2025_11_25), R2026_07_28], ids=str)
def test_nobody_else_is_told(revision: Revision) -> None:
    server = opened(revision).server
    assert server.publish(m.NOTIFICATIONS_TASKS_STATUS, STATUS) == ()
    assert server.publish(m.NOTIFICATIONS_PROGRESS, PROGRESS) == ()


def test_a_session_that_is_not_open_is_told_nothing() -> None:
    assert make_server(R2025_11_25).publish(m.NOTIFICATIONS_TASKS_STATUS, STATUS) == ()
    both = pair(R2025_11_25, R2025_11_25)
    both.send(Side.CLIENT, both.client.open())
    both.deliver(Side.SERVER)
    assert both.server.publish(m.NOTIFICATIONS_TASKS_STATUS, STATUS) == ()


@pytest.mark.spec("tasks.related-task-meta")
def test_progress_that_belongs_to_no_task_is_told_with_its_request_only() -> None:
    with pytest.raises(LocalProtocolError, match="must name the task"):
        opened(R2025_11_25).server.publish(
            m.NOTIFICATIONS_PROGRESS, t.ProgressNotificationParams(progress_token=7, progress=1)
        )


def test_what_is_published_has_to_be_what_the_notification_wants() -> None:
    with pytest.raises(LocalProtocolError, match="expected TaskStatusNotificationParams"):
        opened(R2025_11_25).server.publish(m.NOTIFICATIONS_TASKS_STATUS, PROGRESS)


@pytest.mark.spec("tasks.update-unknown-keys-ignored")
def test_answers_that_cannot_be_read_are_left_out_so_that_those_nobody_asked_for_do_no_harm() -> None:
    raw: JsonObject = {
        "_meta": {},
        "taskId": "t",
        "inputResponses": {"a": {"action": "decline"}, "b": {"ignored": True}, "c": 5},
    }
    params, notes = receive(R2026_07_28, raw, t.UpdateTaskRequestParams)
    assert params.input_responses == {"a": t.ElicitResult(action="decline")}
    assert [note.split(":")[0] for note in notes] == ["inputResponses['b']", "inputResponses['c']"]
    with pytest.raises(InvalidValue):
        receive(R2026_07_28, {"_meta": {}, "taskId": "t", "inputResponses": [1]}, t.UpdateTaskRequestParams)
    assert set(MAPS) == {(t.UpdateTaskRequestParams, "inputResponses")}


@pytest.mark.spec("tasks.client-unsupported-request-invalid", "tasks.supported-methods")
def test_a_task_in_answer_to_anything_but_a_tool_call_is_no_valid_answer() -> None:
    made: dict[str, object] = {
        "resultType": "task",
        "taskId": "t",
        "status": "working",
        "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z",
        "ttlMs": None,
    }
    both = opened(R2026_07_28)
    outcome = both.respond(both.call(m.PROMPTS_GET).id, made)
    assert "unknown resultType 'task'" in str(getattr(outcome, "error", None))
    good = both.respond(both.call(m.TOOLS_CALL).id, made)
    assert isinstance(getattr(good, "result", None), t.CreateExtensionTaskResult)


@pytest.mark.spec("tasks.legacy-capability-not-advertised", "compat.no-core-tasks")
@pytest.mark.spec("tasks.not-under-2025-11-25")
def test_each_form_is_declared_in_its_own_revision_only() -> None:
    modern = opened(R2026_07_28).client.server
    legacy = opened(R2025_11_25).client.server
    assert modern is not None
    assert legacy is not None
    assert modern.capabilities.tasks is None
    assert modern.capabilities.extensions is not None
    assert legacy.capabilities.tasks is not None


@pytest.mark.spec("tasks.not-under-2025-11-25")
def test_the_extension_is_not_declared_to_a_legacy_server() -> None:
    extensions: dict[str, JsonObject] = {TASKS_EXTENSION: {}}
    others: list[dict[str, JsonObject]] = [{}, {"com.example/other": {}}]
    for more in others:
        client = make_client(R2025_11_25, capabilities=t.ClientCapabilities(extensions={**extensions, **more}))
        params = wire_of(client.open())["params"]
        assert isinstance(params, dict)
        assert params["capabilities"] == ({"extensions": more} if more else {})


@pytest.mark.spec("tasks.legacy-capability-non-declaring")
def test_who_declares_only_the_old_capability_does_not_have_the_extension() -> None:
    tasks = t.ClientTasksCapability(requests=t.ClientTaskRequests())
    client = make_client(R2026_07_28, capabilities=t.ClientCapabilities(tasks=tasks))
    both = pair(client, make_server(R2026_07_28)).open()
    with pytest.raises(LocalProtocolError, match=r"io\.modelcontextprotocol/tasks"):
        both.client.request(m.EXTENSION_TASKS_GET, t.GetTaskRequestParams(task_id="t"))
    assert NOTHING_DECLARED.extensions is None
