"""Limits of all workers of a cluster: rates, proofs that are used once, keys, and how a server joins."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from auth_keys import EC, JKT, RESOURCE, proof, public
from auth_keys import ISSUER as JWT_ISSUER
from auth_keys import token as jwt
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_client import RawClient, as_object, connected, text_of

from mcp_core.http.messages import Headers, HttpRequest
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.limits.rates import Rate
from mcp_core.oauth.protected_resource import AccessDenial
from mcp_core.revisions import R2026_07_28
from mcp_server import Context, ElicitationAccepted, RegistrationError, Server
from mcp_server.auth import JwtTokens, ResourceServer
from mcp_server.cluster.memory import MemoryCluster
from mcp_server.cluster.rates import SharedRates
from mcp_server.connection.sealer import InputPolicy
from mcp_server.guards import RateLimit

BOTH = (0, 1)


def make_server(*guards: RateLimit, keys: tuple[bytes, ...] = ()) -> Server:
    server = Server("shared", version="0", middleware=guards, input_policy=InputPolicy(keys=keys))

    @server.tool
    async def elicits(context: Context) -> str:
        answer = await context.elicit(bool, "Really?")
        return str(answer.value) if isinstance(answer, ElicitationAccepted) else "no"

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


@asynccontextmanager
async def deployed(
    shared: MemoryCluster, make: Callable[[], Server] = make_server
) -> AsyncIterator[tuple[RawClient, RawClient]]:
    """Serve two workers. Yield a client of each."""
    servers = [make(), make()]
    for server in servers:
        server.join(shared.worker())
    async with connected(servers[0], R2026_07_28) as first, connected(servers[1], R2026_07_28) as second:
        await trio.testing.wait_all_tasks_blocked()
        yield first, second


# --- rates -------------------------------------------------------------------------------------------------------------


async def called(client: RawClient) -> bool:
    """Call a tool, and return whether the rate allowed it."""
    id = await client.start("tools/call", {"name": "echo", "arguments": {"text": "x"}})
    message = await client.response(id)
    if "result" in message:
        return True
    assert "RateLimit.requests" in str(as_object(message["error"])["message"])
    return False


async def test_rate_limit_holds_for_all_workers_together(autojump_clock: trio.testing.MockClock) -> None:
    guarded = lambda: make_server(RateLimit(Rate(10, seconds=10)))  # noqa: E731
    async with deployed(MemoryCluster(), guarded) as clients:
        results = [await called(clients[number % 2]) for number in range(20)]
        # Requests of both workers before the calls count, too.
        assert 8 <= sum(results) <= 10
        assert not any(results[10:])
        await trio.sleep(5)
        assert sum([await called(clients[number % 2]) for number in range(20)]) == 5


async def test_rate_limit_without_store_applies_to_each_worker(caplog: pytest.LogCaptureFixture) -> None:
    shared = MemoryCluster()
    async with deployed(shared, lambda: make_server(RateLimit(Rate(5, seconds=1_000)))) as clients:
        shared.is_reachable = False
        for client in clients:
            assert sum([await called(client) for _ in range(20)]) == 5
    assert "rate limit applies to this worker alone: limit=requests" in caplog.text


@given(
    amount=st.integers(1, 500),
    steps=st.lists(st.tuples(st.sampled_from((0, 1, 2)), st.floats(0, 3), st.sampled_from("ab")), max_size=200),
)
@settings(deadline=None)
@pytest.mark.property
def test_shared_rates_never_allow_more_than_stated(amount: int, steps: list[tuple[int, float, str]]) -> None:
    period = 10.0

    async def main() -> None:
        shared = MemoryCluster()
        workers = [(SharedRates(Rate(amount, period), "x"), shared.worker()) for _ in range(3)]
        taken: dict[str, list[float]] = {"a": [], "b": []}
        for number, pause, key in steps:
            await trio.sleep(pause)
            now = trio.current_time()
            rates, worker = workers[number]
            if not await rates.take(key, now, worker.rates):
                taken[key].append(now)
        for times in taken.values():
            for index, begin in enumerate(times):
                for count, end in enumerate(times[index:], 1):
                    # Events that a worker took from the store are held for a tenth of the period.
                    assert count <= amount * (1 + (end - begin) / period + 0.1) + 3

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_shared_rates_ask_store_once_for_several_events() -> None:
    counts: list[int] = []

    class Counting:
        async def take(self, key: str, *, count: int, per_second: float, burst: int) -> int:
            counts.append(count)
            return count

    rates = SharedRates(Rate(600), "x")
    assert [await rates.take("a", 0.0, Counting()) for _ in range(20)] == [0.0] * 20
    assert counts == [12, 12]
    # The rest is held for a tenth of the period.
    assert await rates.take("a", 5.9, Counting()) == 0.0
    assert counts == [12, 12]
    assert await rates.take("a", 6.1, Counting()) == 0.0
    assert counts == [12, 12, 12]


async def test_concurrent_requests_share_what_one_of_them_took() -> None:
    shared = MemoryCluster()
    worker, allowed = shared.worker(), list[bool]()
    rates = SharedRates(Rate(600), "x")
    await worker.rates.take("x a", count=576, per_second=10, burst=600)

    async def take() -> None:
        allowed.append(not await rates.take("a", 0.0, worker.rates))

    async with trio.open_nursery() as nursery:
        for _ in range(30):
            nursery.start_soon(take)
    assert sum(allowed) == 24


# --- proofs ------------------------------------------------------------------------------------------------------------


def protected() -> ResourceServer:
    return ResourceServer(RESOURCE, authorization_servers=[JWT_ISSUER], tokens=JwtTokens(JWT_ISSUER, keys=public(EC)))


def request(token: str, dpop: str) -> HttpRequest:
    headers = Headers((("authorization", f"DPoP {token}"), ("dpop", dpop)))
    return HttpRequest(method="POST", target="/mcp", headers=headers)


async def test_dpop_proof_is_accepted_at_one_worker_only() -> None:
    shared = MemoryCluster()
    workers = [protected(), protected()]
    for auth in workers:
        make_server().asgi(auth=auth, cluster=shared.worker())
    token = jwt(cnf={"jkt": JKT})
    first = proof(token)
    assert not isinstance(await workers[0].authenticate(request(token, first)), AccessDenial)
    denial = await workers[1].authenticate(request(token, first))
    assert isinstance(denial, AccessDenial)
    assert denial.status == 401
    assert "used before" in denial.message
    assert not isinstance(await workers[1].authenticate(request(token, proof(token))), AccessDenial)


async def test_dpop_proof_without_store_is_rejected_with_503() -> None:
    shared = MemoryCluster()
    auth = protected()
    make_server().asgi(auth=auth, cluster=shared.worker())
    shared.is_reachable = False
    token = jwt(cnf={"jkt": JKT})
    denial = await auth.authenticate(request(token, proof(token)))
    assert isinstance(denial, AccessDenial)
    assert denial.status == 503
    assert dict(denial.headers)["retry-after"]
    # A token without a proof needs no shared state.
    plain = HttpRequest(method="POST", target="/mcp", headers=Headers((("authorization", f"Bearer {jwt()}"),)))
    assert not isinstance(await auth.authenticate(plain), AccessDenial)


# --- keys --------------------------------------------------------------------------------------------------------------


async def begin(client: RawClient) -> JsonObject:
    """Call a tool that elicits. Return the parameters of the second round trip."""
    params: JsonObject = {"name": "elicits", "arguments": {}}
    # Not `call`, which repeats the request with the input responses.
    result = as_object((await client.response(await client.start("tools/call", params)))["result"])
    (key,) = as_object(result["inputRequests"])
    responses: JsonObject = {key: {"action": "accept", "content": {"value": True}}}
    return {**params, "requestState": result["requestState"], "inputResponses": responses}


async def test_request_state_of_one_worker_is_accepted_by_other() -> None:
    async with deployed(MemoryCluster()) as (first, second):
        assert text_of(await second.call("tools/call", await begin(first))) == "True"


async def test_started_server_has_keys_of_cluster_before_first_request() -> None:
    shared = MemoryCluster()
    async with deployed(shared) as (first, _):
        again = await begin(first)
        server = make_server()
        server.join(shared.worker())
        async with server.running():
            keys = server._service.environment.keys
            assert keys.shared
            async with connected(server, R2026_07_28) as second:
                assert text_of(await second.call("tools/call", again)) == "True"


async def test_server_starts_without_cluster_after_short_wait(autojump_clock: trio.testing.MockClock) -> None:
    shared = MemoryCluster()
    shared.is_reachable = False
    server = make_server()
    server.join(shared.worker())
    with trio.fail_after(10):
        async with server.running():
            assert not server._service.environment.keys.shared


async def test_request_state_survives_rotation_until_its_key_is_removed() -> None:
    shared = MemoryCluster()
    async with deployed(shared) as (first, second):
        again = await begin(first)
        shared.replace_keys((b"n" * 32, *shared.keys))
        await trio.testing.wait_all_tasks_blocked()
        assert text_of(await second.call("tools/call", again)) == "True"
        newer = await begin(first)
        shared.replace_keys((b"n" * 32,))
        await trio.testing.wait_all_tasks_blocked()
        assert (await second.fail("tools/call", again))["code"] == -32602
        assert text_of(await second.call("tools/call", newer)) == "True"


async def test_keys_of_author_are_not_replaced() -> None:
    shared = MemoryCluster()
    async with deployed(shared, lambda: make_server(keys=(b"a" * 32,))) as (first, second):
        again = await begin(first)
        shared.replace_keys((b"n" * 32,))
        await trio.testing.wait_all_tasks_blocked()
        assert text_of(await second.call("tools/call", again)) == "True"


# --- joining -----------------------------------------------------------------------------------------------------------


async def test_server_that_runs_or_has_cluster_does_not_join() -> None:
    shared = MemoryCluster()
    server, member = make_server(), shared.worker()
    async with server.running():
        with pytest.raises(RegistrationError, match="is running: pass `cluster` to the first call that serves it"):
            server.join(member)
    server.join(member)
    server.join(None)
    server.asgi(cluster=member)
    with pytest.raises(RegistrationError, match="has joined another cluster"):
        server.asgi(cluster=shared.worker())
