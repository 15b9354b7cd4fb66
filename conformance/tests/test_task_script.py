"""Tests of the tasks of the fake server, which advance by requests instead of a clock."""

from __future__ import annotations

import pytest

from mcp_conformance.scenarios.task_script import ScriptedTask, TaskScript, at_end, in_words
from mcp_core.jsonrpc.messages import JsonObject


def test_task_advances_one_step_per_request() -> None:
    task = ScriptedTask(script=TaskScript(name="t", steps=("working", "working", "failed"), intervals=(10, 20)))
    assert task.status() == "working"
    assert [(task.look(), task.interval) for _ in range(3)] == [("working", 20), ("failed", 20), ("failed", 20)]
    assert task.shown("failed", modern=False)["statusMessage"] == "the task failed"


def test_task_waits_for_all_input_responses() -> None:
    task = ScriptedTask(
        script=TaskScript(name="t", steps=("working", "input_required", "completed"), request_keys=("a", "b"))
    )
    assert [task.look(), task.look()] == ["input_required", "input_required"]
    task.answered.add("a")
    assert task.look() == "input_required"
    task.answered.add("b")
    assert task.look() == "completed"


def test_ended_task_keeps_first_status() -> None:
    task = ScriptedTask(script=TaskScript(name="t"))
    task.end("cancelled")
    task.end("completed")
    assert task.look() == "cancelled"
    assert task.done.is_set()


def test_task_is_forgotten_after_last_step() -> None:
    task = ScriptedTask(script=TaskScript(name="t", steps=("working", "working"), forgotten=True))
    assert task.look() == "working"
    assert not task.forgotten
    task.look()
    assert task.forgotten


@pytest.mark.parametrize(
    ("log", "ended"),
    [
        ([], False),
        ([{"what": "created", "status": "working"}, {"what": "told", "status": "completed"}], False),
        ([{"what": "tasks/get", "status": "working"}], False),
        ([{"what": "tasks/get", "status": "failed"}], True),
        ([{"what": "tasks/result", "status": "working"}], True),
        ([{"what": "tasks/cancel", "status": "working"}], True),
    ],
)
def test_client_at_end_after_terminal_status_or_cancel(log: list[JsonObject], ended: bool) -> None:
    assert at_end(log) is ended
    assert in_words(log).count("working") == str(log).count("working")
