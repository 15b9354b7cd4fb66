"""Legacy sessions over several workers on a real Redis: the scenarios of `test_cluster_sessions`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import cluster_deployment
import pytest
import test_cluster_sessions as scenarios
import trio
from asgi_host import Client
from redis_server import RedisServer, open_redis
from redis_testbed import RedisWorld, run_scenario

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2025_11_25, R2026_07_28

_SCENARIOS = (
    scenarios.test_requests_of_session_answered_at_each_worker,
    scenarios.test_client_request_is_answered_at_another_worker,
    scenarios.test_error_response_received_by_worker_of_client_request,
    scenarios.test_cancellation_reaches_the_worker_that_runs_the_request,
    scenarios.test_progress_received_by_worker_of_client_request,
    scenarios.test_log_level_applies_to_running_call_at_another_worker,
    scenarios.test_change_at_one_worker_reaches_stream_at_another,
    scenarios.test_changes_without_stream_are_sent_once_by_the_next_one,
    scenarios.test_new_standalone_stream_ends_the_one_at_another_worker,
    scenarios.test_standalone_stream_resumes_at_another_worker_without_loss,
    scenarios.test_running_stream_resumes_at_another_worker,
    scenarios.test_resumption_back_at_the_first_worker_repeats_nothing,
    scenarios.test_stream_resumed_elsewhere_ends_its_first_connection,
    scenarios.test_client_request_on_resumed_stream_is_answered_at_a_third_worker,
    scenarios.test_cancelled_call_ends_its_resumed_stream,
    scenarios.test_unknown_event_ids_are_rejected_at_each_worker,
    scenarios.test_followed_stream_of_lost_worker_gets_one_outcome,
    scenarios.test_stream_of_lost_worker_resumes_with_its_events_and_an_error,
    scenarios.test_response_stored_before_the_loss_is_delivered,
    scenarios.test_session_survives_the_loss_of_its_first_worker,
    scenarios.test_client_request_is_sent_on_standalone_stream_of_another_worker,
    scenarios.test_delete_at_one_worker_ends_the_session_at_all,
    scenarios.test_session_of_another_principal_is_unknown_at_each_worker,
)


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with open_redis(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def shared(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> RedisWorld:
    """Let the workers of the scenarios use Redis."""

    shared = RedisWorld(redis.url)
    monkeypatch.setattr(cluster_deployment, "MemoryCluster", lambda: shared)
    monkeypatch.setattr(cluster_deployment.Deployment, "settle", lambda _: shared.settle())
    return shared


@pytest.mark.parametrize("scenario", _SCENARIOS, ids=lambda scenario: str(scenario.__name__).removeprefix("test_"))
async def test_session_over_workers_on_redis(scenario: object, shared: RedisWorld) -> None:
    await run_scenario(scenario, revision=R2025_11_25, kind="elicit")


async def test_lost_data_reach_subscriptions_at_all_workers_as_changes(redis: RedisServer, shared: RedisWorld) -> None:
    async with cluster_deployment.deployed() as deployment, trio.open_nursery() as nursery:
        client = Client(deployment, nursery, R2026_07_28)
        streams = []
        for _ in range(6):
            params: JsonObject = {"notifications": {"resourceSubscriptions": ["memo://a"], "toolsListChanged": True}}
            streams.append(client.post(client.request("subscriptions/listen", params)))
            await streams[-1].message()
        await deployment.settle()
        deployment.workers[1].server.resource_updated("memo://a")
        for stream in streams:
            assert (await stream.message())["method"] == "notifications/resources/updated"
        redis.command("flushall")
        for stream in streams:
            methods = {str((await stream.message())["method"]) for _ in range(2)}
            assert methods == {"notifications/resources/updated", "notifications/tools/list_changed"}
        nursery.cancel_scope.cancel()
