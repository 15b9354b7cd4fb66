"""Checks of the contract of `Cluster`, for authors of clusters.

Each check is a coroutine function that accepts a function that opens another worker of the same cluster. Within one
check, the cluster is empty at first. With pytest and pytest-trio:

    @pytest.mark.parametrize("check", CLUSTER_CHECKS, ids=lambda check: check.__name__)
    async def test_cluster_follows_contract(check: ClusterCheck) -> None:
        prefix = random_prefix()

        async def open_worker() -> Cluster:
            return MyCluster("redis://127.0.0.1:6379/0", prefix=prefix)

        await check(open_worker)

A check closes the workers that it opens. If the cluster breaks a rule, the check raises `AssertionError` with a message.
The stores of a worker must also pass the checks of `mcp_server.stores.contract`.
"""

from __future__ import annotations

from typing import Final

from mcp_server.cluster.contract import checks
from mcp_server.cluster.contract.checks import ClusterCheck, OpenWorker

__all__ = ["CLUSTER_CHECKS", "ClusterCheck", "OpenWorker"]

CLUSTER_CHECKS: Final[tuple[ClusterCheck, ...]] = (
    checks.messages_of_a_worker_arrive_in_order,
    checks.message_reaches_its_worker_only,
    checks.message_to_ended_worker_is_dropped,
    checks.any_uri_can_be_sent,
    checks.ended_worker_is_lost,
    checks.worker_runs_once,
    checks.workers_have_the_same_keys,
    checks.sessions_are_shared,
    checks.streams_of_workers_have_different_numbers,
    checks.one_of_two_responses_is_stored,
    checks.changes_are_pending_for_all_workers,
    checks.flushed_change_reaches_workers_after_end,
    checks.id_can_be_used_once,
    checks.rate_holds_for_all_workers,
)
"""The checks for every cluster of several workers."""
