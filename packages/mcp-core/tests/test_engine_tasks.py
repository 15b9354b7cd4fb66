"""Notifications and results of tasks in the engine."""

from __future__ import annotations

import pytest
from engine_pair import NO_CLIENT_CAPABILITIES, make_client, make_server, open_pair, pair, to_wire

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.conversion.converter import converter
from mcp_core.conversion.repairs import MAPS
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
def test_session_receives_task_notifications_after_response() -> None:
    both = open_pair(R2025_11_25)
    (status,) = both.server.publish(m.NOTIFICATIONS_TASKS_STATUS, STATUS)
    (progress,) = both.server.publish(m.NOTIFICATIONS_PROGRESS, PROGRESS)
    assert to_wire(progress)["params"] == {
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
def test_task_status_notification_names_task() -> None:
    (status,) = open_pair(R2025_11_25).server.publish(m.NOTIFICATIONS_TASKS_STATUS, STATUS)
    params = to_wire(status)["params"]
    assert isinstance(params, dict)
    assert params["taskId"] == "t"
    assert "_meta" not in params


@pytest.mark.parametrize("revision", [*(each for each in LEGACY if each is not R2025_11_25), R2026_07_28], ids=str)
def test_task_notifications_other_revisions_not_published(revision: Revision) -> None:
    server = open_pair(revision).server
    assert server.publish(m.NOTIFICATIONS_TASKS_STATUS, STATUS) == ()
    assert server.publish(m.NOTIFICATIONS_PROGRESS, PROGRESS) == ()


def test_task_notifications_before_session_not_published() -> None:
    assert make_server(R2025_11_25).publish(m.NOTIFICATIONS_TASKS_STATUS, STATUS) == ()
    both = pair(R2025_11_25, R2025_11_25)
    both.send(Side.CLIENT, both.client.open())
    both.deliver(Side.SERVER)
    assert both.server.publish(m.NOTIFICATIONS_TASKS_STATUS, STATUS) == ()


@pytest.mark.spec("tasks.related-task-meta")
def test_progress_without_task_published_raises() -> None:
    with pytest.raises(LocalProtocolError, match="must name the task"):
        open_pair(R2025_11_25).server.publish(
            m.NOTIFICATIONS_PROGRESS, t.ProgressNotificationParams(progress_token=7, progress=1)
        )


def test_publish_params_of_other_notification_raises() -> None:
    with pytest.raises(LocalProtocolError, match="expected TaskStatusNotificationParams"):
        open_pair(R2025_11_25).server.publish(m.NOTIFICATIONS_TASKS_STATUS, PROGRESS)


@pytest.mark.spec("tasks.update-unknown-keys-ignored")
def test_task_update_malformed_input_responses_ignored() -> None:
    raw: JsonObject = {
        "_meta": {},
        "taskId": "t",
        "inputResponses": {"a": {"action": "decline"}, "b": {"ignored": True}, "c": 5},
    }
    params, notes = converter(R2026_07_28).receive(raw, t.UpdateTaskRequestParams)
    assert params.input_responses == {"a": t.ElicitResult(action="decline")}
    assert [note.split(":")[0] for note in notes] == ["inputResponses['b']", "inputResponses['c']"]
    with pytest.raises(InvalidValue):
        converter(R2026_07_28).receive({"_meta": {}, "taskId": "t", "inputResponses": [1]}, t.UpdateTaskRequestParams)
    assert set(MAPS) == {(t.UpdateTaskRequestParams, "inputResponses")}


@pytest.mark.spec("tasks.client-unsupported-request-invalid", "tasks.supported-methods")
def test_task_result_for_other_method_rejected() -> None:
    task_result: dict[str, object] = {
        "resultType": "task",
        "taskId": "t",
        "status": "working",
        "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z",
        "ttlMs": None,
    }
    both = open_pair(R2026_07_28)
    outcome = both.respond(both.call(m.PROMPTS_GET).id, task_result)
    assert "unknown resultType 'task'" in str(getattr(outcome, "error", None))
    good = both.respond(both.call(m.TOOLS_CALL).id, task_result)
    assert isinstance(getattr(good, "result", None), t.CreateExtensionTaskResult)


@pytest.mark.spec("tasks.legacy-capability-not-advertised", "compat.no-core-tasks")
@pytest.mark.spec("tasks.not-under-2025-11-25")
def test_task_capabilities_declared_per_revision() -> None:
    modern = open_pair(R2026_07_28).client.server
    legacy = open_pair(R2025_11_25).client.server
    assert modern is not None
    assert legacy is not None
    assert modern.capabilities.tasks is None
    assert modern.capabilities.extensions is not None
    assert legacy.capabilities.tasks is not None


@pytest.mark.spec("tasks.not-under-2025-11-25")
def test_tasks_extension_not_declared_to_legacy_server() -> None:
    extensions: dict[str, JsonObject] = {TASKS_EXTENSION: {}}
    others: list[dict[str, JsonObject]] = [{}, {"com.example/other": {}}]
    for more in others:
        client = make_client(R2025_11_25, capabilities=t.ClientCapabilities(extensions={**extensions, **more}))
        params = to_wire(client.open())["params"]
        assert isinstance(params, dict)
        assert params["capabilities"] == ({"extensions": more} if more else {})


@pytest.mark.spec("tasks.legacy-capability-non-declaring")
def test_legacy_tasks_capability_does_not_enable_extension() -> None:
    tasks = t.ClientTasksCapability(requests=t.ClientTaskRequests())
    client = make_client(R2026_07_28, capabilities=t.ClientCapabilities(tasks=tasks))
    both = pair(client, make_server(R2026_07_28)).open()
    with pytest.raises(LocalProtocolError, match=r"io\.modelcontextprotocol/tasks"):
        both.client.request(m.EXTENSION_TASKS_GET, t.GetTaskRequestParams(task_id="t"))
    assert NO_CLIENT_CAPABILITIES.extensions is None
