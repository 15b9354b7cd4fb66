"""Concurrent use of tokens, and their expiry."""

from __future__ import annotations

import math
from contextlib import AsyncExitStack

import attrs
import pytest
import trio
import trio.testing
from auth_testbed import (
    AuthTestbed,
    FakeUserAgent,
    authorization_headers,
    call,
    connected,
    oauth,
    protected,
    wait_for_logins,
)
from fake_http_server import OK, HttpSseServer, ReceivedRequest, Reply, SessionLosingServer, legacy, modern, serving
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_client import Client, Deadlines, open_http
from mcp_client.auth import MemoryStore, OAuth
from mcp_core.errors import (
    AuthorizationError,
    AuthorizationRefused,
    McpError,
    RequestTimeout,
    TokenRefused,
)
from mcp_core.jsonrpc.messages import Notification

# --- concurrency -------------------------------------------------------------------------------------------------------


async def test_concurrent_rejections_share_one_refresh() -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)
    async with connected(testbed, oauth(testbed, user_agent)) as (_, client):
        testbed.revoke()
        async with trio.open_nursery() as nursery:
            for _number in range(64):
                nursery.start_soon(call, client)
    assert user_agent.logins == 1
    assert testbed.grants_made == ["authorization_code", "refresh_token"]


async def test_late_rejection_retries_with_current_token() -> None:
    testbed = AuthTestbed()
    others_done = trio.Event()

    async def late(request: ReceivedRequest, reply: Reply) -> None:
        if b"late" in request.body and request.headers["authorization"].split(" ")[1] not in testbed.tokens:
            await others_done.wait()
        await testbed.answer(request, reply)

    async with serving(late) as server:
        testbed.url, testbed.origin = server.url, server.url.removesuffix("/mcp")
        async with open_http(server.url, auth=oauth(testbed)) as client, trio.open_nursery() as nursery:
            testbed.revoke()
            nursery.start_soon(call, client, "late")
            await trio.testing.wait_all_tasks_blocked(0.02)
            await call(client)
            others_done.set()
    assert testbed.grants_made == ["authorization_code", "refresh_token"]


async def test_concurrent_rejections_share_one_login() -> None:
    testbed = AuthTestbed(refreshes=False)
    user_agent = FakeUserAgent(testbed)
    async with connected(testbed, oauth(testbed, user_agent)) as (_, client):
        testbed.revoke_all()
        async with trio.open_nursery() as nursery:
            for _number in range(64):
                nursery.start_soon(call, client)
    assert user_agent.logins == 2
    assert testbed.grants_made == ["authorization_code"] * 2


async def test_concurrent_rejections_failed_login_raises_same_error() -> None:
    testbed = AuthTestbed(refreshes=False)
    user_agent = FakeUserAgent(testbed)
    errors: list[AuthorizationError] = []

    async def refused(client: Client) -> None:
        with pytest.raises(AuthorizationError) as caught:
            await client.call_tool("echo")
        errors.append(caught.value)

    async with connected(testbed, oauth(testbed, user_agent)) as (_, client):
        testbed.revoke_all()
        user_agent.failure = AuthorizationRefused("not today")
        user_agent.blocker = trio.Event()
        async with trio.open_nursery() as nursery:
            for _number in range(8):
                nursery.start_soon(refused, client)
            while len(testbed.mcp()) < 10:
                await trio.testing.wait_all_tasks_blocked(0.01)
            await trio.testing.wait_all_tasks_blocked(0.05)
            user_agent.blocker.set()
    assert user_agent.logins == 2
    assert [error.message for error in errors] == ["not today"] * 8
    assert len({id(error) for error in errors}) == 8
    assert len({error.context.request_id for error in errors}) == 8
    assert all(error.attempts for error in errors)


async def test_cancelled_call_keeps_login_of_others() -> None:
    testbed = AuthTestbed(refreshes=False)
    user_agent = FakeUserAgent(testbed)
    async with connected(testbed, oauth(testbed, user_agent)) as (_, client):
        testbed.revoke_all()
        user_agent.blocker = trio.Event()
        done: list[str] = []

        async def waits(name: str) -> None:
            await call(client)
            done.append(name)

        async with trio.open_nursery() as nursery:
            first = trio.CancelScope()

            async def gives_up() -> None:
                with first:
                    await waits("first")

            nursery.start_soon(gives_up)
            await wait_for_logins(user_agent, 2)
            nursery.start_soon(waits, "second")
            while len(testbed.mcp()) < 4:
                await trio.testing.wait_all_tasks_blocked(0.01)
            await trio.testing.wait_all_tasks_blocked(0.02)
            first.cancel()
            await trio.testing.wait_all_tasks_blocked(0.02)
            user_agent.blocker.set()
    assert done == ["second"]
    assert user_agent.logins == 2


async def test_login_without_waiters_cancelled() -> None:
    testbed = AuthTestbed(refreshes=False)
    user_agent = FakeUserAgent(testbed)
    async with connected(testbed, oauth(testbed, user_agent)) as (_, client):
        testbed.revoke_all()
        user_agent.blocker = trio.Event()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, client)
                await wait_for_logins(user_agent, 2)
                scope.cancel()
        user_agent.blocker = None
        await call(client)
    assert user_agent.logins == 3


async def test_login_of_closed_connection_restarted_by_waiters() -> None:
    testbed = AuthTestbed(refreshes=False)
    user_agent = FakeUserAgent(testbed)
    auth = oauth(testbed, user_agent)
    async with connected(testbed, auth) as (server, client), trio.open_nursery() as nursery:
        other = await nursery.start(open_http(server.url, auth=auth).run)
        testbed.revoke_all()
        user_agent.blocker = trio.Event()

        async def interrupted() -> None:
            with pytest.raises(McpError, match="closed"):
                await other.call_tool("echo")

        nursery.start_soon(interrupted)
        await wait_for_logins(user_agent, 2)
        nursery.start_soon(call, client)
        await trio.testing.wait_all_tasks_blocked(0.05)
        await other.aclose()
        await wait_for_logins(user_agent, 3)
        user_agent.blocker.set()
    assert user_agent.logins == 3


async def test_refresh_cancelled_keeps_new_refresh_token() -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)
    store = MemoryStore()
    async with connected(testbed, oauth(testbed, user_agent, store=store)) as (server, client):
        testbed.revoke()
        testbed.token_blocker = trio.Event()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, client)
                while len(testbed.grants_made) < 2:
                    await trio.testing.wait_all_tasks_blocked(0.01)
                scope.cancel()
                testbed.token_blocker.set()
        testbed.token_blocker = None
        await call(client)
        kept = await store.load_tokens(server.url)
    assert kept is not None
    assert kept.refresh_token in testbed.refresh_tokens
    assert user_agent.logins == 1
    assert testbed.grants_made == ["authorization_code", "refresh_token"]


# --- time --------------------------------------------------------------------------------------------------------------


async def test_token_refreshed_before_expiry() -> None:
    testbed = AuthTestbed()
    async with connected(testbed, oauth(testbed)) as (_, client):
        testbed.now += 3600 - 31
        await call(client)
        assert testbed.grants_made == ["authorization_code"]
        testbed.now += 2
        async with trio.open_nursery() as nursery:
            for _number in range(8):
                nursery.start_soon(call, client)
    assert testbed.grants_made == ["authorization_code", "refresh_token"]
    assert authorization_headers(testbed).count(None) == 1, "only the first request may lack a token"


async def test_short_lived_token_not_refreshed_on_every_call() -> None:
    testbed = AuthTestbed(lifetime=20)
    async with connected(testbed, oauth(testbed)) as (_, client):
        testbed.now += 14
        await call(client)
        assert testbed.grants_made == ["authorization_code"]
        testbed.now += 2
        await call(client)
    assert testbed.grants_made == ["authorization_code", "refresh_token"]


async def test_refresh_failed_token_used_until_expiry(
    caplog: pytest.LogCaptureFixture,
) -> None:
    testbed = AuthTestbed()
    async with connected(testbed, oauth(testbed)) as (_, client):
        testbed.token_status = 503
        testbed.now += 3600 - 20
        await call(client)
        await call(client)
        assert testbed.grants_made == ["authorization_code", "refresh_token"], "a request repeated the failed refresh"
        assert "still used" in caplog.text
        testbed.now += 21
        with pytest.raises(TokenRefused, match="503"):
            await client.call_tool("echo")
        testbed.token_status = 200
        await call(client)
    assert testbed.grants_made == ["authorization_code", *["refresh_token"] * 3]


async def test_token_without_refresh_token_used_until_rejected() -> None:
    testbed = AuthTestbed(refreshes=False)
    user_agent = FakeUserAgent(testbed)
    async with connected(testbed, oauth(testbed, user_agent)) as (_, client):
        testbed.now += 3601
        await call(client)
    assert user_agent.logins == 2
    assert authorization_headers(testbed) == [None, "Bearer t3", "Bearer t3", "Bearer t6"]


async def test_token_without_expiry_used_until_rejected() -> None:
    testbed = AuthTestbed(lifetime=None)
    user_agent = FakeUserAgent(testbed)
    async with connected(testbed, oauth(testbed, user_agent)) as (_, client):
        testbed.now += 1e6
        await call(client)
        assert testbed.grants_made == ["authorization_code"]
        testbed.revoke()
        await call(client)
    assert testbed.grants_made == ["authorization_code", "refresh_token"]


async def test_login_time_counts_only_toward_total_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    testbed = AuthTestbed(refreshes=False)
    user_agent = FakeUserAgent(testbed)

    async def after(seconds: float) -> None:
        user_agent.blocker = trio.Event()
        await trio.sleep(seconds)
        user_agent.blocker.set()

    deadlines = Deadlines(connect=5, probe=1, idle=5, total=400)
    async with protected(testbed) as server, trio.open_nursery() as nursery:
        nursery.start_soon(after, 300)
        async with open_http(server.url, auth=oauth(testbed, user_agent), deadlines=deadlines) as client:
            assert [request.rpc for request in testbed.mcp()] == ["server/discover"] * 2
            testbed.revoke_all()
            nursery.start_soon(after, 300)
            await call(client)
            testbed.revoke_all()
            nursery.start_soon(after, 500)
            with pytest.raises(RequestTimeout, match="total"):
                await client.call_tool("echo")


async def test_login_unawaited_notification_sent_afterward(autojump_clock: trio.testing.MockClock) -> None:
    testbed = AuthTestbed(inner=legacy(), refreshes=False)
    user_agent = FakeUserAgent(testbed)
    async with connected(testbed, oauth(testbed, user_agent)) as (_, client):
        testbed.revoke_all()
        user_agent.blocker = trio.Event()
        await trio.testing.wait_all_tasks_blocked()
        client._channel.transport.send_nowait(Notification("notifications/whatever", {}))
        await wait_for_logins(user_agent, 2)
        await trio.sleep(100)
        user_agent.blocker.set()
        await trio.sleep(1)
        await call(client)
    assert [request.rpc for request in testbed.mcp()].count("notifications/whatever") == 2


async def finish_login_after(user_agent: FakeUserAgent, seconds: float) -> None:
    user_agent.blocker = trio.Event()
    await trio.sleep(seconds)
    user_agent.blocker.set()


async def test_login_before_http_sse_stream_outlasts_deadlines(
    autojump_clock: trio.testing.MockClock,
) -> None:
    testbed = AuthTestbed(inner=HttpSseServer().answer, protects=lambda request: request.method == "GET")
    user_agent = FakeUserAgent(testbed)
    async with protected(testbed) as server, trio.open_nursery() as nursery:
        nursery.start_soon(finish_login_after, user_agent, 300)
        async with open_http(server.url, auth=oauth(testbed, user_agent)) as client:
            await call(client)
    assert user_agent.logins == 1


async def test_login_for_notification_outlasts_idle_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    testbed = AuthTestbed(inner=legacy(), refreshes=False)
    user_agent = FakeUserAgent(testbed)
    async with protected(testbed) as server, trio.open_nursery() as nursery:
        auth, deadlines = oauth(testbed, user_agent), Deadlines(idle=5)
        async with open_http(server.url, auth=auth, deadlines=deadlines) as client:
            testbed.revoke_all()
            nursery.start_soon(finish_login_after, user_agent, 300)
            await trio.testing.wait_all_tasks_blocked()
            await client._channel.transport.send(Notification("notifications/whatever", {}))
    assert [request.rpc for request in testbed.mcp()].count("notifications/whatever") == 2


@pytest.mark.parametrize("waiter", ["a call", "the standalone stream"])
async def test_login_before_new_session_outlasts_deadlines(waiter: str, autojump_clock: trio.testing.MockClock) -> None:
    lost = trio.Event()

    async def get(request: ReceivedRequest, reply: Reply) -> None:
        await reply.stream()
        if waiter == "the standalone stream" and not lost.is_set():
            await reply.event(id="1")
            await lost.wait()
            await reply.end()
        else:
            await reply.hang()

    losing_server = SessionLosingServer(get=get)
    testbed = AuthTestbed(
        inner=losing_server.answer, refreshes=False, protects=lambda request: request.rpc == "initialize"
    )
    user_agent = FakeUserAgent(testbed)
    deadlines = Deadlines(connect=5, idle=5)
    async with (
        protected(testbed) as server,
        open_http(server.url, auth=oauth(testbed, user_agent), deadlines=deadlines) as client,
        trio.open_nursery() as nursery,
    ):
        await call(client)
        testbed.revoke_all()
        losing_server.alive = False
        lost.set()
        nursery.start_soon(finish_login_after, user_agent, 300)
        if waiter == "the standalone stream":
            await wait_for_logins(user_agent, 2)
        else:
            nursery.start_soon(call, client)
            await wait_for_logins(user_agent, 2)
        # This call waits for the new session.
        await call(client)
    assert user_agent.logins == 2
    assert losing_server.number == 2


async def test_login_pauses_idle_deadline_of_other_calls(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def slow(request: ReceivedRequest, reply: Reply) -> None:
        if request.params["name"] == "slow":
            await trio.sleep(300)
        await reply.result(OK)

    testbed = AuthTestbed(inner=modern(slow), refreshes=False, required_scopes={"tools/call write": "notes:write"})
    user_agent = FakeUserAgent(testbed)
    deadlines = Deadlines(idle=5)
    async with (
        protected(testbed) as server,
        open_http(server.url, auth=oauth(testbed, user_agent), deadlines=deadlines) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(finish_login_after, user_agent, 400)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(call, client, "write")
        await wait_for_logins(user_agent, 2)
        # A login pauses the deadlines of all calls on the connection.
        await call(client, "slow")


async def test_login_finished_idle_deadline_runs(autojump_clock: trio.testing.MockClock) -> None:
    async def silent(request: ReceivedRequest, reply: Reply) -> None:
        await (reply.hang() if request.headers.get("authorization") else reply.result(OK))

    testbed = AuthTestbed(inner=modern(silent), refreshes=False, protects=lambda request: request.rpc == "tools/call")
    async with connected(testbed, oauth(testbed)) as (_, client):
        with pytest.raises(RequestTimeout, match="idle deadline of 5 s"):
            await client.call_tool("echo", deadlines=Deadlines(idle=5))


async def test_login_never_finished_times_out(
    autojump_clock: trio.testing.MockClock,
) -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)
    user_agent.blocker = trio.Event()
    async with protected(testbed) as server:
        with pytest.raises(AuthorizationRefused, match="within 600 seconds"):
            async with open_http(server.url, auth=oauth(testbed, user_agent)):
                pass


# --- any sequence -----------------------------------------------------------------------------------------------------


@attrs.frozen
class LoginStep:
    """An event, and the calls made after it."""

    event: str
    call_count: int
    cancelled_count: int
    elapsed: float


REVOKING = {"revoke", "revoke_all", "outage", "login refused", "moved"}
"""The events that make access tokens invalid."""

STEPS = st.lists(
    st.builds(
        LoginStep,
        event=st.sampled_from(["nothing", "revoke", "revoke_all", "outage", "login refused", "scope", "moved"]),
        call_count=st.integers(1, 5),
        cancelled_count=st.integers(0, 3),
        elapsed=st.sampled_from([0.0, 1.0, 3_575.0, 4_000.0]),
    ),
    max_size=6,
)


@pytest.mark.property
@settings(max_examples=20, deadline=None)
@given(STEPS)
def test_calls_any_events_end_and_next_succeeds(steps: list[LoginStep]) -> None:
    """The testbed checks that no refresh token is used twice, and that no login uses values of another."""

    async def main() -> None:
        testbed = AuthTestbed()
        user_agent = FakeUserAgent(testbed)
        store = MemoryStore()
        programs = [oauth(testbed, user_agent, store=store) for _program in range(2)]
        async with protected(testbed) as server, AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(open_http(server.url, auth=program)) for program in programs]
            for step in steps:
                await _run_step(step, testbed, user_agent, clients)
                for program in programs:
                    await _wait_for_login_in_progress(program)
            testbed.token_status, user_agent.failure, testbed.required_scopes = 200, None, {}
            logins = user_agent.logins
            for client in clients:
                await call(client)
            assert user_agent.logins <= logins + 1

    trio.run(main)


async def _wait_for_login_in_progress(program: OAuth) -> None:
    """Wait for a login whose callers were cancelled: it ends after the response of the token endpoint."""
    for tokens in program._servers.values():
        if tokens._attempt is not None:
            await tokens._attempt.done.wait()


async def _run_step(step: LoginStep, testbed: AuthTestbed, user_agent: FakeUserAgent, clients: list[Client]) -> None:
    testbed.now += step.elapsed
    if step.event in REVOKING:
        # A cancelled call may leave a token that was never used. The client reports the rejection of a new one.
        testbed.now += 60.0
    testbed.token_status, user_agent.failure = 200, None
    match step.event:
        case "revoke":
            testbed.revoke()
        case "revoke_all":
            testbed.revoke_all()
        case "outage":
            testbed.token_status = 503
            testbed.revoke()
        case "login refused":
            user_agent.failure = AuthorizationRefused("no")
            testbed.revoke_all()
        case "scope":
            testbed.required_scopes["tools/call echo"] = f"scope{len(testbed.authorized)}"
        case "moved":
            testbed.issuer_path = "" if testbed.issuer_path else "/two"
            testbed.revoke()
    messages: list[str] = []
    before = user_agent.logins

    async def call_and_record(client: Client, seconds: float) -> None:
        message = ""
        with trio.move_on_after(seconds):
            try:
                await call(client)
            except McpError as error:
                message = error.message
        messages.append(message)

    async with trio.open_nursery() as nursery:
        for number in range(step.call_count):
            # The cancellations fall on any moment of a login.
            nursery.start_soon(
                call_and_record, clients[number % 2], 0.002 * number if number < step.cancelled_count else math.inf
            )
    assert len(messages) == step.call_count
    assert step.event in {"outage", "login refused", "scope"} or not any(messages), messages
    # A login without waiters ends, and the next call starts another; how many calls that concerns depends on timing.
    assert user_agent.logins - before <= step.cancelled_count + (
        2 if step.event != "login refused" else step.call_count
    )
