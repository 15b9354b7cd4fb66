"""Transitions of a task, and its forms in both revisions."""

from __future__ import annotations

from datetime import UTC, datetime

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from mcp_core.conversion.converter import converter
from mcp_core.errors import LocalProtocolError
from mcp_core.features.tasks import TRANSITIONS, TaskState, as_extension_task, as_task, timestamp, with_related_task
from mcp_core.revisions import R2025_11_25, R2026_07_28
from mcp_core.types import (
    TERMINAL_STATUSES,
    CancelTaskResult,
    CreateExtensionTaskResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ExtensionTaskNotificationParams,
    GetExtensionTaskResult,
    GetTaskResult,
    ProgressNotificationParams,
    RequestedSchema,
    Task,
    TaskStatus,
    TaskStatusNotificationParams,
)

STATUSES: tuple[TaskStatus, ...] = ("working", "input_required", "completed", "failed", "cancelled")
NEW_TASK = TaskState(id="t", created_at=1_700_000_000.0, updated_at=1_700_000_000.0, ttl=60_000, poll_interval=1_000)


@pytest.mark.spec("tasks.valid-transitions", "tasks.status-transitions", "schema.task-status", "tasks.status-values")
@pytest.mark.parametrize("before", STATUSES)
@pytest.mark.parametrize("after", STATUSES)
def test_task_transitions_follow_specification(before: TaskStatus, after: TaskStatus) -> None:
    allowed = {
        "working": {"input_required", "completed", "failed", "cancelled"},
        "input_required": {"working", "completed", "failed", "cancelled"},
    }.get(before, set())
    state = attrs.evolve(NEW_TASK, status=before)
    if after in allowed:
        assert state.moved(after, 1_700_000_001.0).status == after
    else:
        with pytest.raises(LocalProtocolError, match=f"a task that is {before} cannot become {after}"):
            state.moved(after, 1_700_000_001.0)
    assert set(TRANSITIONS) == set(STATUSES)


@pytest.mark.spec("tasks.starts-working")
def test_task_begins_as_working() -> None:
    assert NEW_TASK.status == "working"
    assert not NEW_TASK.terminal


class TaskMachine(RuleBasedStateMachine):
    """Random changes of a task: a terminal status is final, and times increase."""

    statuses = Bundle("statuses")

    def __init__(self) -> None:
        super().__init__()
        self.state = NEW_TASK
        self.now = NEW_TASK.created_at
        self.ended: TaskState | None = None

    @rule(target=statuses, status=st.sampled_from(STATUSES), later=st.floats(0, 1e6), message=st.none() | st.text())
    def move(self, status: TaskStatus, later: float, message: str | None) -> TaskStatus:
        self.now += later
        before = self.state
        try:
            self.state = before.moved(status, self.now, message=message)
        except LocalProtocolError:
            assert status not in TRANSITIONS[before.status]
            return before.status
        assert self.state.updated_at == self.now
        assert self.state.message == message
        if status in TERMINAL_STATUSES:
            self.ended = self.state
        return status

    @precondition(lambda self: not self.state.terminal)
    @rule(message=st.none() | st.text(), later=st.floats(0, 1e6))
    def note(self, message: str | None, later: float) -> None:
        self.now += later
        before = self.state
        self.state = before.noted(message, self.now)
        assert self.state == attrs.evolve(before, message=message, updated_at=self.now)

    @precondition(lambda self: self.state.terminal)
    @rule(message=st.text())
    def note_after_end(self, message: str) -> None:
        with pytest.raises(LocalProtocolError, match="cannot change"):
            self.state.noted(message, self.now)

    @invariant()
    def terminal_state_is_final(self) -> None:
        if self.ended is not None:
            assert self.state == self.ended
        assert self.state.id == NEW_TASK.id
        assert self.state.created_at == NEW_TASK.created_at


TestTaskMachine = pytest.mark.spec("tasks.terminal-is-final")(TaskMachine.TestCase)


@pytest.mark.spec("tasks.created-at", "tasks.last-updated-at")
def test_timestamp_in_utc() -> None:
    assert timestamp(1_700_000_000.5) == "2023-11-14T22:13:20.500Z"


@pytest.mark.property
@given(st.datetimes(datetime.fromisoformat("1970-01-01"), datetime.fromisoformat("9999-12-31")))
def test_timestamp_equals_calendar(moment: datetime) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)
    # Half a millisecond more, so that the rounding of the float does not matter.
    expected = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert timestamp(moment.timestamp() + 0.0005) == expected


@pytest.mark.parametrize(
    "day", ["1970-01-01", "1972-02-29", "1999-12-31", "2000-02-29", "2000-03-01", "2100-02-28", "2100-03-01"]
)
def test_timestamp_of_leap_days(day: str) -> None:
    assert timestamp(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) == f"{day}T00:00:00.000Z"


def test_task_expiry_follows_ttl() -> None:
    assert NEW_TASK.expires_at == 1_700_000_060.0
    assert attrs.evolve(NEW_TASK, ttl=None).expires_at is None


@pytest.mark.spec("schema.task", "schema.task-results-flat", "schema.task-status-params", "tasks.ttl-in-get")
def test_task_form_of_2025_11_25() -> None:
    state = attrs.evolve(NEW_TASK, ttl=None, message="half")
    for kind in (Task, GetTaskResult, CancelTaskResult, TaskStatusNotificationParams):
        assert converter(R2025_11_25).unstructure(as_task(state, kind)) == {
            "taskId": "t",
            "status": "working",
            "createdAt": "2023-11-14T22:13:20.000Z",
            "lastUpdatedAt": "2023-11-14T22:13:20.000Z",
            "ttl": None,
            "pollInterval": 1_000,
            "statusMessage": "half",
        }


@pytest.mark.spec("tasks.task-fields", "tasks.result-type-task")
def test_created_extension_task_form() -> None:
    created = converter(R2026_07_28).unstructure(as_extension_task(NEW_TASK, CreateExtensionTaskResult))
    assert created == {
        "resultType": "task",
        "taskId": "t",
        "status": "working",
        "createdAt": "2023-11-14T22:13:20.000Z",
        "lastUpdatedAt": "2023-11-14T22:13:20.000Z",
        "ttlMs": 60_000,
        "pollIntervalMs": 1_000,
    }


@pytest.mark.spec("tasks.failed-on-tool-error", "tasks.tool-error-completed", "tasks.failed-only-jsonrpc")
def test_tool_error_failed_in_legacy_completed_in_extension() -> None:
    state = NEW_TASK.moved("completed", 1_700_000_001.0, result={"content": [], "isError": True})
    old = as_task(state, GetTaskResult)
    assert old.status == "failed"
    assert old.status_message == "the tool reported an error; see the result"
    assert as_task(attrs.evolve(state, message="so it is"), Task).status_message == "so it is"
    new = as_extension_task(state, GetExtensionTaskResult)
    assert new.status == "completed"
    assert new.result == {"content": [], "isError": True}
    assert new.error is None


@pytest.mark.spec("tasks.failed-error-field", "tasks.get-failed")
def test_failed_task_has_error() -> None:
    state = NEW_TASK.moved("failed", 1_700_000_001.0, message="no", error={"code": -32603, "message": "no"})
    assert as_task(state, Task).status == "failed"
    wire = converter(R2026_07_28).unstructure(as_extension_task(state, GetExtensionTaskResult))
    assert wire["error"] == {"code": -32603, "message": "no"}
    assert wire["statusMessage"] == "no"
    assert "result" not in wire
    more = attrs.evolve(state, error={"code": 1, "message": "no", "data": {"a": 1}})
    error = converter(R2026_07_28).unstructure(as_extension_task(more, ExtensionTaskNotificationParams))["error"]
    assert error == {"code": 1, "message": "no", "data": {"a": 1}}


@pytest.mark.spec("tasks.get-input-required")
def test_input_requests_only_in_input_required_status() -> None:
    form = RequestedSchema(properties={})
    request = ElicitRequest(params=ElicitRequestFormParams(message="?", requested_schema=form))
    task = as_extension_task(NEW_TASK.moved("input_required", 1.0), GetExtensionTaskResult, {"q": request})
    assert task.input_requests == {"q": request}
    assert as_extension_task(NEW_TASK.moved("input_required", 1.0), GetExtensionTaskResult).input_requests == {}
    assert as_extension_task(NEW_TASK, GetExtensionTaskResult, {"q": request}).input_requests is None


@pytest.mark.spec("tasks.related-task-meta", "schema.related-task")
def test_related_task_added_to_meta() -> None:
    progress = ProgressNotificationParams(progress_token=1, progress=1)
    assert with_related_task(progress, "t").meta == {"io.modelcontextprotocol/related-task": {"taskId": "t"}}
    more = ProgressNotificationParams(progress_token=1, progress=1, meta={"a/b": 1})
    assert with_related_task(more, "t").meta == {"a/b": 1, "io.modelcontextprotocol/related-task": {"taskId": "t"}}
