"""Legacy sessions over several workers on a real Redis: the scenarios of `test_cluster_sessions`."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import cluster_world
import pytest
import test_cluster_sessions as scenarios
import trio
import trio.testing
from asgi_host import Client
from redis_server import RedisServer, open_redis

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2025_11_25, R2026_07_28
from mcp_server.cluster.messages import ClusterMessage, TaskUpdated
from mcp_server.cluster.protocol import ClusterReceiver
from mcp_server.cluster.redis import RedisCluster

_SCENARIOS: tuple[Callable[..., Awaitable[None]], ...] = (
    scenarios.test_each_worker_answers_requests_of_a_session,
    scenarios.test_client_request_is_answered_at_another_worker,
    scenarios.test_error_response_reaches_the_worker_that_asked,
    scenarios.test_cancellation_reaches_the_worker_that_runs_the_request,
    scenarios.test_progress_of_client_request_reaches_the_worker_that_asked,
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


class _Fenced:
    """A receiver that recognizes the messages of `_Worker.fence`, and passes on everything else."""

    def __init__(self, receiver: ClusterReceiver, fences: dict[str, int]) -> None:
        self._receiver = receiver
        self._fences = fences
        self.missed = receiver.missed
        self.lost = receiver.lost
        self.keys_changed = receiver.keys_changed

    def receive(self, sender: str, message: ClusterMessage) -> None:
        if isinstance(message, TaskUpdated) and message.task.startswith("fence "):
            self._fences[sender] = int(message.task.split()[1])
        else:
            self._receiver.receive(sender, message)


class _Worker(RedisCluster):
    """A worker that can be killed: it leaves its entry behind."""

    is_killed = False

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.fences: dict[str, int] = {}

    async def run(
        self, receiver: ClusterReceiver, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        await super().run(_Fenced(receiver, self.fences), task_status=task_status)

    async def fence(self, number: int) -> None:
        """Send a message after all others, when all commands have a reply."""
        await self.check()
        self.broadcast(TaskUpdated(f"fence {number}"))

    def kill(self) -> None:
        self.is_killed = True
        if self._scope is not None:
            self._scope.cancel()

    async def _leave(self) -> None:
        if not self.is_killed:
            await super()._leave()


class _Shared:
    def __init__(self, url: str) -> None:
        self._url = url
        self.workers: list[_Worker] = []
        self._fences = itertools.count(1)

    def worker(self) -> _Worker:
        self.workers.append(_Worker(self._url))
        return self.workers[-1]

    async def settle(self) -> None:
        """Wait until the messages of all workers, and the messages that they cause, have been received."""
        for _ in range(4):
            number = next(self._fences)
            alive = [worker for worker in self.workers if not worker.is_killed]
            for worker in alive:
                await worker.fence(number)
            for worker in alive:
                for other in alive:
                    while worker is not other and worker.fences.get(other.worker, 0) < number:  # noqa: ASYNC110  # polled
                        await trio.sleep(0.005)
            await trio.testing.wait_all_tasks_blocked(0.005)


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with open_redis(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def shared(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> _Shared:
    """Let the workers of the scenarios use Redis."""

    shared = _Shared(redis.url)
    monkeypatch.setattr(cluster_world, "MemoryCluster", lambda: shared)
    monkeypatch.setattr(cluster_world.World, "settle", lambda _: shared.settle())
    return shared


@pytest.mark.parametrize("scenario", _SCENARIOS, ids=lambda scenario: scenario.__name__.removeprefix("test_"))
async def test_session_over_workers_on_redis(scenario: Callable[..., Awaitable[None]], shared: _Shared) -> None:
    values = {"revision": R2025_11_25, "kind": "elicit"}
    await scenario(**{name: values[name] for name in inspect.signature(scenario).parameters})


async def test_lost_data_reach_subscriptions_at_all_workers_as_changes(redis: RedisServer, shared: _Shared) -> None:
    async with cluster_world.world() as there, trio.open_nursery() as nursery:
        client = Client(there, nursery, R2026_07_28)
        streams = []
        for _ in range(6):
            params: JsonObject = {"notifications": {"resourceSubscriptions": ["memo://a"], "toolsListChanged": True}}
            streams.append(client.post(client.request("subscriptions/listen", params)))
            await streams[-1].message()
        await there.settle()
        there.workers[1].server.resource_updated("memo://a")
        for stream in streams:
            assert (await stream.message())["method"] == "notifications/resources/updated"
        redis.command("flushall")
        for stream in streams:
            methods = {str((await stream.message())["method"]) for _ in range(2)}
            assert methods == {"notifications/resources/updated", "notifications/tools/list_changed"}
        nursery.cancel_scope.cancel()
