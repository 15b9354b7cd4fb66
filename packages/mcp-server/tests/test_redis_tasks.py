"""Tasks over several workers on a real Redis: the scenarios of `test_cluster_tasks`."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import test_cluster_tasks as scenarios
from redis_server import RedisServer, open_redis
from redis_testbed import RedisWorld, run_scenario

from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision

_SCENARIOS = (
    scenarios.test_task_of_other_worker_is_read_until_completed,
    scenarios.test_progress_of_task_is_status_message_at_other_worker,
    scenarios.test_input_response_at_other_worker_reaches_function,
    scenarios.test_tasks_result_at_other_worker_sends_elicitation,
    scenarios.test_elicitation_error_at_other_worker_fails_task,
    scenarios.test_listener_at_other_worker_is_notified_of_task,
    scenarios.test_listener_at_other_worker_is_notified_of_input_requests,
    scenarios.test_running_tasks_are_limited_for_all_workers,
    scenarios.test_task_of_lost_worker_fails_with_reason,
    scenarios.test_tasks_result_of_lost_worker_ends_with_error,
    scenarios.test_resumable_task_of_lost_worker_runs_once_at_one_other,
)


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with open_redis(tmp_path / "redis") as server:
        yield server


def _cases() -> list[tuple[object, Revision]]:
    both = [each for each in _SCENARIOS if "revision" in inspect.signature(each).parameters]
    return [*((each, R2025_11_25) for each in both), *((each, R2026_07_28) for each in _SCENARIOS)]


@pytest.mark.parametrize(("scenario", "revision"), _cases())
async def test_task_over_workers_on_redis(
    scenario: object,
    revision: Revision,
    redis: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scenarios, "MemoryCluster", partial(RedisWorld, redis.url))
    # A worker is lost in real time here.
    await run_scenario(scenario, revision=revision, autojump_clock=None)
    # The scenario ran on Redis.
    assert redis.command("DBSIZE") != "0"
