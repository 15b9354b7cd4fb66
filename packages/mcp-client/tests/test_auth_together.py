"""Tokens where many want them at once, and as time passes."""

from __future__ import annotations

import math
from contextlib import AsyncExitStack

import attrs
import pytest
import trio
import trio.testing
from auth_world import Person, World, call, connected, logging_in, oauth, protected, shown
from hypothesis import given, settings
from hypothesis import strategies as st
from zoo import OK, Asked, Forgetful, OldServer, Reply, legacy, modern, serving

from mcp_client import Client, Deadlines, open_http
from mcp_client.auth import MemoryStore
from mcp_core.errors import (
    AuthorizationError,
    AuthorizationRefused,
    McpError,
    RequestTimeout,
    TokenRefused,
)
from mcp_core.jsonrpc.messages import Notification

# --- many at once ------------------------------------------------------------------------------------------------------


async def test_many_calls_that_are_refused_lead_to_one_refresh() -> None:
    world = World()
    person = Person(world)
    async with connected(world, oauth(world, person)) as (_, client):
        world.revoke()
        async with trio.open_nursery() as nursery:
            for _number in range(64):
                nursery.start_soon(call, client)
    assert person.logins == 1
    assert world.grants_made == ["authorization_code", "refresh_token"]


async def test_a_call_that_is_refused_after_others_got_another_token_is_made_with_that() -> None:
    world = World()
    others_done = trio.Event()

    async def late(asked: Asked, reply: Reply) -> None:
        if b"late" in asked.body and asked.headers["authorization"].split(" ")[1] not in world.tokens:
            await others_done.wait()
        await world.answer(asked, reply)

    async with serving(late) as server:
        world.url, world.origin = server.url, server.url.removesuffix("/mcp")
        async with open_http(server.url, auth=oauth(world)) as client, trio.open_nursery() as nursery:
            world.revoke()
            nursery.start_soon(call, client, "late")
            await trio.testing.wait_all_tasks_blocked(0.02)
            await call(client)
            others_done.set()
    assert world.grants_made == ["authorization_code", "refresh_token"]


async def test_many_calls_that_are_refused_lead_to_one_login() -> None:
    world = World(refreshes=False)
    person = Person(world)
    async with connected(world, oauth(world, person)) as (_, client):
        world.forget()
        async with trio.open_nursery() as nursery:
            for _number in range(64):
                nursery.start_soon(call, client)
    assert person.logins == 2
    assert world.grants_made == ["authorization_code"] * 2


async def test_many_calls_get_the_same_error_when_the_login_fails() -> None:
    world = World(refreshes=False)
    person = Person(world)
    errors: list[AuthorizationError] = []

    async def refused(client: Client) -> None:
        with pytest.raises(AuthorizationError) as caught:
            await client.call_tool("echo")
        errors.append(caught.value)

    async with connected(world, oauth(world, person)) as (_, client):
        world.forget()
        person.failure = AuthorizationRefused("not today")
        person.waits = trio.Event()
        async with trio.open_nursery() as nursery:
            for _number in range(8):
                nursery.start_soon(refused, client)
            while len(world.mcp()) < 10:
                await trio.testing.wait_all_tasks_blocked(0.01)
            await trio.testing.wait_all_tasks_blocked(0.05)
            person.waits.set()
    assert person.logins == 2
    assert [error.message for error in errors] == ["not today"] * 8
    assert len({id(error) for error in errors}) == 8
    assert len({error.context.request_id for error in errors}) == 8
    assert all(error.attempts for error in errors)


async def test_who_gives_up_does_not_end_the_login_that_others_wait_for() -> None:
    world = World(refreshes=False)
    person = Person(world)
    async with connected(world, oauth(world, person)) as (_, client):
        world.forget()
        person.waits = trio.Event()
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
            await logging_in(person, 2)
            nursery.start_soon(waits, "second")
            while len(world.mcp()) < 4:
                await trio.testing.wait_all_tasks_blocked(0.01)
            await trio.testing.wait_all_tasks_blocked(0.02)
            first.cancel()
            await trio.testing.wait_all_tasks_blocked(0.02)
            person.waits.set()
    assert done == ["second"]
    assert person.logins == 2


async def test_a_login_that_nobody_waits_for_any_more_is_over_and_the_next_one_begins_anew() -> None:
    world = World(refreshes=False)
    person = Person(world)
    async with connected(world, oauth(world, person)) as (_, client):
        world.forget()
        person.waits = trio.Event()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, client)
                await logging_in(person, 2)
                scope.cancel()
        person.waits = None
        await call(client)
    assert person.logins == 3


async def test_a_login_whose_connection_was_closed_is_begun_anew_by_the_others() -> None:
    world = World(refreshes=False)
    person = Person(world)
    auth = oauth(world, person)
    async with connected(world, auth) as (server, client), trio.open_nursery() as nursery:
        other = await nursery.start(open_http(server.url, auth=auth).run)
        world.forget()
        person.waits = trio.Event()

        async def interrupted() -> None:
            with pytest.raises(McpError, match="closed"):
                await other.call_tool("echo")

        nursery.start_soon(interrupted)
        await logging_in(person, 2)
        nursery.start_soon(call, client)
        await trio.testing.wait_all_tasks_blocked(0.05)
        await other.aclose()
        await logging_in(person, 3)
        person.waits.set()
    assert person.logins == 3


async def test_a_refresh_that_is_given_up_in_the_middle_loses_no_refresh_token() -> None:
    world = World()
    person = Person(world)
    store = MemoryStore()
    async with connected(world, oauth(world, person, store=store)) as (server, client):
        world.revoke()
        world.gate = trio.Event()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, client)
                while len(world.grants_made) < 2:
                    await trio.testing.wait_all_tasks_blocked(0.01)
                scope.cancel()
                world.gate.set()
        world.gate = None
        await call(client)
        kept = await store.load_tokens(server.url)
    assert kept is not None
    assert kept.refresh_token in world.refresh_tokens
    assert person.logins == 1
    assert world.grants_made == ["authorization_code", "refresh_token"]


# --- time --------------------------------------------------------------------------------------------------------------


async def test_a_token_is_renewed_before_it_ends() -> None:
    world = World()
    async with connected(world, oauth(world)) as (_, client):
        world.now += 3600 - 31
        await call(client)
        assert world.grants_made == ["authorization_code"]
        world.now += 2
        async with trio.open_nursery() as nursery:
            for _number in range(8):
                nursery.start_soon(call, client)
    assert world.grants_made == ["authorization_code", "refresh_token"]
    assert shown(world).count(None) == 1, "nothing was refused but the first request"


async def test_a_token_of_short_life_is_not_renewed_all_the_time() -> None:
    world = World(lifetime=20)
    async with connected(world, oauth(world)) as (_, client):
        world.now += 14
        await call(client)
        assert world.grants_made == ["authorization_code"]
        world.now += 2
        await call(client)
    assert world.grants_made == ["authorization_code", "refresh_token"]


async def test_a_token_that_cannot_be_renewed_yet_is_used_as_long_as_it_lasts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    async with connected(world, oauth(world)) as (_, client):
        world.token_status = 503
        world.now += 3600 - 20
        await call(client)
        await call(client)
        assert world.grants_made == ["authorization_code", "refresh_token"], "it is not tried with each request"
        assert "still used" in caplog.text
        world.now += 21
        with pytest.raises(TokenRefused, match="503"):
            await client.call_tool("echo")
        world.token_status = 200
        await call(client)
    assert world.grants_made == ["authorization_code", *["refresh_token"] * 3]


async def test_a_token_without_a_refresh_token_is_shown_until_the_server_refuses_it() -> None:
    world = World(refreshes=False)
    person = Person(world)
    async with connected(world, oauth(world, person)) as (_, client):
        world.now += 3601
        await call(client)
    assert person.logins == 2
    assert shown(world) == [None, "Bearer t3", "Bearer t3", "Bearer t6"]


async def test_a_token_of_no_said_end_is_used_until_it_is_refused() -> None:
    world = World(lifetime=None)
    person = Person(world)
    async with connected(world, oauth(world, person)) as (_, client):
        world.now += 1e6
        await call(client)
        assert world.grants_made == ["authorization_code"]
        world.revoke()
        await call(client)
    assert world.grants_made == ["authorization_code", "refresh_token"]


async def test_a_person_may_take_longer_than_any_deadline_but_the_total_ones(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = World(refreshes=False)
    person = Person(world)

    async def after(seconds: float) -> None:
        person.waits = trio.Event()
        await trio.sleep(seconds)
        person.waits.set()

    deadlines = Deadlines(connect=5, probe=1, idle=5, total=400)
    async with protected(world) as server, trio.open_nursery() as nursery:
        nursery.start_soon(after, 300)
        async with open_http(server.url, auth=oauth(world, person), deadlines=deadlines) as client:
            assert [asked.rpc for asked in world.mcp()] == ["server/discover"] * 2
            world.forget()
            nursery.start_soon(after, 300)
            await call(client)
            world.forget()
            nursery.start_soon(after, 500)
            with pytest.raises(RequestTimeout, match="total"):
                await client.call_tool("echo")


async def test_a_message_that_nobody_waits_for_survives_a_login(autojump_clock: trio.testing.MockClock) -> None:
    world = World(inner=legacy(), refreshes=False)
    person = Person(world)
    async with connected(world, oauth(world, person)) as (_, client):
        world.forget()
        person.waits = trio.Event()
        await trio.testing.wait_all_tasks_blocked()
        client._channel.transport.send_nowait(Notification("notifications/whatever", {}))
        await logging_in(person, 2)
        await trio.sleep(100)
        person.waits.set()
        await trio.sleep(1)
        await call(client)
    assert [asked.rpc for asked in world.mcp()].count("notifications/whatever") == 2


async def comes_after(person: Person, seconds: float) -> None:
    person.waits = trio.Event()
    await trio.sleep(seconds)
    person.waits.set()


async def test_a_person_may_take_long_before_a_stream_of_http_sse_is_open(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = World(inner=OldServer().answer, protects=lambda asked: asked.method == "GET")
    person = Person(world)
    async with protected(world) as server, trio.open_nursery() as nursery:
        nursery.start_soon(comes_after, person, 300)
        async with open_http(server.url, auth=oauth(world, person)) as client:
            await call(client)
    assert person.logins == 1


async def test_a_person_may_take_long_for_a_notification_of_the_caller(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = World(inner=legacy(), refreshes=False)
    person = Person(world)
    async with protected(world) as server, trio.open_nursery() as nursery:
        auth, deadlines = oauth(world, person), Deadlines(idle=5)
        async with open_http(server.url, auth=auth, deadlines=deadlines) as client:
            world.forget()
            nursery.start_soon(comes_after, person, 300)
            await trio.testing.wait_all_tasks_blocked()
            await client._channel.transport.send(Notification("notifications/whatever", {}))
    assert [asked.rpc for asked in world.mcp()].count("notifications/whatever") == 2


@pytest.mark.parametrize("who", ["a call", "the standing stream"])
async def test_a_person_may_take_long_before_a_lost_session_is_replaced(
    who: str, autojump_clock: trio.testing.MockClock
) -> None:
    lost = trio.Event()

    async def get(asked: Asked, reply: Reply) -> None:
        await reply.stream()
        if who == "the standing stream" and not lost.is_set():
            await reply.event(id="1")
            await lost.wait()
            await reply.end()
        else:
            await reply.hang()

    old = Forgetful(get=get)
    world = World(inner=old.answer, refreshes=False, protects=lambda asked: asked.rpc == "initialize")
    person = Person(world)
    deadlines = Deadlines(connect=5, idle=5)
    async with (
        protected(world) as server,
        open_http(server.url, auth=oauth(world, person), deadlines=deadlines) as client,
        trio.open_nursery() as nursery,
    ):
        await call(client)
        world.forget()
        old.alive = False
        lost.set()
        nursery.start_soon(comes_after, person, 300)
        if who == "the standing stream":
            await logging_in(person, 2)
        else:
            nursery.start_soon(call, client)
            await logging_in(person, 2)
        # It waits for the session that is being made.
        await call(client)
    assert person.logins == 2
    assert old.number == 2


async def test_a_call_that_begins_while_somebody_logs_in_has_its_time_after(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def slow(asked: Asked, reply: Reply) -> None:
        if asked.params["name"] == "slow":
            await trio.sleep(300)
        await reply.result(OK)

    world = World(inner=modern(slow), refreshes=False, needed={"tools/call write": "notes:write"})
    person = Person(world)
    deadlines = Deadlines(idle=5)
    async with (
        protected(world) as server,
        open_http(server.url, auth=oauth(world, person), deadlines=deadlines) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(comes_after, person, 400)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(call, client, "write")
        await logging_in(person, 2)
        # Also what does not need the login: the time of the connection stands still.
        await call(client, "slow")


async def test_the_deadlines_go_on_after_a_login(autojump_clock: trio.testing.MockClock) -> None:
    async def silent(asked: Asked, reply: Reply) -> None:
        await (reply.hang() if asked.headers.get("authorization") else reply.result(OK))

    world = World(inner=modern(silent), refreshes=False, protects=lambda asked: asked.rpc == "tools/call")
    async with connected(world, oauth(world)) as (_, client):
        with pytest.raises(RequestTimeout, match="idle deadline of 5 s"):
            await client.call_tool("echo", deadlines=Deadlines(idle=5))


async def test_a_person_who_never_comes_back_is_not_waited_for_for_ever(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = World()
    person = Person(world)
    person.waits = trio.Event()
    async with protected(world) as server:
        with pytest.raises(AuthorizationRefused, match="within 600 seconds"):
            async with open_http(server.url, auth=oauth(world, person)):
                pass


# --- whatever happens ------------------------------------------------------------------------------------------------


@attrs.frozen
class Turn:
    """Something that happens, and calls that are made then."""

    happens: str
    calls: int
    given_up: int
    passes: float


TURNS = st.lists(
    st.builds(
        Turn,
        happens=st.sampled_from(["nothing", "revoke", "forget", "outage", "no person", "scope", "moved"]),
        calls=st.integers(1, 5),
        given_up=st.integers(0, 3),
        passes=st.sampled_from([0.0, 1.0, 3_575.0, 4_000.0]),
    ),
    max_size=6,
)


@pytest.mark.property
@settings(max_examples=20, deadline=None)
@given(TURNS)
def test_whatever_happens_each_call_ends_and_the_next_one_goes_through(turns: list[Turn]) -> None:
    """The world itself sees that no refresh token is used twice, and that nothing of one login is used in another."""

    async def main() -> None:
        world = World()
        person = Person(world)
        store = MemoryStore()
        async with protected(world) as server, AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(open_http(server.url, auth=oauth(world, person, store=store)))
                for _program in range(2)
            ]
            for turn in turns:
                await _one_turn(turn, world, person, clients)
            world.token_status, person.failure, world.needed = 200, None, {}
            logins = person.logins
            for client in clients:
                await call(client)
            assert person.logins <= logins + 1

    trio.run(main)


async def _one_turn(turn: Turn, world: World, person: Person, clients: list[Client]) -> None:
    world.now += turn.passes
    world.token_status, person.failure = 200, None
    match turn.happens:
        case "revoke":
            world.revoke()
        case "forget":
            world.forget()
        case "outage":
            world.token_status = 503
            world.revoke()
        case "no person":
            person.failure = AuthorizationRefused("no")
            world.forget()
        case "scope":
            world.needed["tools/call echo"] = f"scope{len(world.authorized)}"
        case "moved":
            world.issuer_path = "" if world.issuer_path else "/two"
            world.revoke()
    ended: list[str] = []
    before = person.logins

    async def one(client: Client, patience: float) -> None:
        sentence = ""
        with trio.move_on_after(patience):
            try:
                await call(client)
            except McpError as error:
                sentence = error.message
        ended.append(sentence)

    async with trio.open_nursery() as nursery:
        for number in range(turn.calls):
            # Somewhere in the middle of it, wherever that is.
            nursery.start_soon(one, clients[number % 2], 0.002 * number if number < turn.given_up else math.inf)
    assert len(ended) == turn.calls
    assert turn.happens in {"outage", "no person", "scope"} or not any(ended)
    # A login that nobody waits for any more ends, and the next one begins anew: when somebody gives up is a matter of luck.
    assert person.logins - before <= turn.given_up + (2 if turn.happens != "no person" else turn.calls)
