"""Tokens and clients that are kept, for this program and for others."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing
from auth_world import Person, World, call, connected, oauth, protected, shown

from mcp_client import open_http
from mcp_client.auth import MemoryStore
from mcp_client.auth.stores import CredentialStoreError, FileStore
from mcp_core.errors import (
    AuthorizationError,
    AuthorizationRefused,
    McpError,
    RegistrationFailed,
    TokenRefused,
)
from mcp_core.oauth.records import ClientRecord, TokenRecord

# --- what is kept ------------------------------------------------------------------------------------------------------


async def test_what_is_kept_serves_the_next_program_without_a_login() -> None:
    world = World()
    person = Person(world)
    store = MemoryStore()
    async with protected(world) as server:
        async with open_http(server.url, auth=oauth(world, person, store=store)) as client:
            await call(client)
        async with open_http(server.url, auth=oauth(world, person, store=store)) as client:
            await call(client)
        world.revoke()
        async with open_http(server.url, auth=oauth(world, person, store=store)) as client:
            await call(client)
    assert person.logins == 1
    assert world.grants_made == ["authorization_code", "refresh_token"]


async def test_tokens_that_another_program_got_meanwhile_are_used_and_not_got_again() -> None:
    world = World()
    person = Person(world)
    store = MemoryStore()
    async with (
        connected(world, oauth(world, person, store=store)) as (server, one),
        open_http(server.url, auth=oauth(world, person, store=store)) as other,
    ):
        world.revoke()
        async with trio.open_nursery() as nursery:
            for client in (one, other) * 4:
                nursery.start_soon(call, client)
        assert world.grants_made == ["authorization_code", "refresh_token"]
        # Newer ones that have ended, too, are renewed by the newer refresh token.
        world.revoke()
        await call(other)
        world.now += 3600
        await call(one)
    assert person.logins == 1


async def test_scopes_that_another_program_got_meanwhile_need_not_be_asked_for() -> None:
    world = World(needed={"tools/call write": "notes:write"})
    person = Person(world)
    store = MemoryStore()
    async with (
        connected(world, oauth(world, person, store=store)) as (server, one),
        open_http(server.url, auth=oauth(world, person, store=store)) as other,
    ):
        await call(one, "write")
        await call(other, "write")
    assert person.logins == 2


async def test_who_logged_out_in_another_program_is_asked_to_log_in_again() -> None:
    world = World()
    person = Person(world)
    store = MemoryStore()
    async with connected(world, oauth(world, person, store=store)) as (server, client):
        await store.save_tokens(server.url, None)
        world.revoke()
        await call(client)
    assert world.grants_made == ["authorization_code"] * 2


async def test_a_login_that_fails_leaves_what_is_kept() -> None:
    world = World()
    person = Person(world)
    store = MemoryStore()
    async with connected(world, oauth(world, person, store=store)) as (server, client):
        kept = await store.load_tokens(server.url)
        world.revoke()
        world.token_status = 503
        with pytest.raises(TokenRefused):
            await client.call_tool("echo")
        assert await store.load_tokens(server.url) == kept
        world.token_status = 200
        await call(client)
    assert world.grants_made == ["authorization_code", "refresh_token", "refresh_token"]


async def test_tokens_that_are_void_are_deleted() -> None:
    world = World()
    person = Person(world)
    store = MemoryStore()
    async with connected(world, oauth(world, person, store=store)) as (server, client):
        world.forget()
        person.failure = AuthorizationRefused("no")
        with pytest.raises(AuthorizationRefused):
            await client.call_tool("echo")
        assert await store.load_tokens(server.url) is None
        person.failure = None
        await call(client)
    assert shown(world)[-2:] == [None, "Bearer " + list(world.tokens)[-1]]


async def test_a_client_that_is_registered_is_kept_and_its_port_is_used_again() -> None:
    world = World(refreshes=False)
    person = Person(world)
    store = MemoryStore()
    async with protected(world) as server:
        for _program in range(2):
            async with open_http(server.url, auth=oauth(world, person, store=store)) as client:
                await call(client)
            world.forget()
        # Also when nothing is known but the name and the server.
        await store.save_tokens(server.url, None)
        async with open_http(server.url, auth=oauth(world, person, store=store)) as client:
            await call(client)
    assert world.clients == ["c1"]
    assert len(set(person.ports)) == 1
    assert person.ports[0] is not None
    assert 49_152 <= person.ports[0] < 65_536


async def test_a_client_is_written_down_once() -> None:
    class Counting(MemoryStore):
        saved = 0

        async def save_client(self, issuer: str, client: ClientRecord | None) -> None:
            self.saved += 1
            await super().save_client(issuer, client)

    world = World(refreshes=False)
    store = Counting()
    async with connected(world, oauth(world, store=store)) as (_, client):
        world.forget()
        await call(client)
    assert store.saved == 1


async def test_a_client_is_kept_as_soon_as_it_is_registered_whatever_becomes_of_the_login() -> None:
    world = World()
    person = Person(world)
    person.failure = AuthorizationRefused("no")
    store = MemoryStore()
    async with protected(world) as server:
        with pytest.raises(AuthorizationRefused):
            async with open_http(server.url, auth=oauth(world, person, store=store)):
                pass
        kept = await store.load_client(world.issuer)
    assert kept is not None
    assert kept.client_id == "c1"


async def test_a_person_can_be_asked_for_a_client_id_which_is_kept() -> None:
    world = World(registers=False)
    person = Person(world)
    store = MemoryStore()
    async with protected(world) as server:
        with pytest.raises(RegistrationFailed, match="no client id"):
            async with open_http(server.url, auth=oauth(world, person, store=store)):
                pass
        person.client = ClientRecord(client_id="by-hand", issuer=None)
        async with open_http(server.url, auth=oauth(world, person, store=store)) as client:
            await call(client)
        assert await store.load_client(world.issuer) is not None
    assert world.authorized[0]["client_id"] == "by-hand"


@pytest.mark.spec(
    "auth.as-change-no-reuse", "auth.as-change-reregister", "auth.no-cross-as-credentials", "auth.client-own-as-tokens"
)
async def test_a_server_that_moved_to_another_authorization_server_gets_nothing_of_before() -> None:
    world = World()
    person = Person(world)
    async with connected(world, oauth(world, person)) as (_, client):
        world.issuer_path = "/two"
        world.revoke()
        await call(client)
    assert person.logins == 2
    assert world.clients == ["c1", "c2"]
    assert world.grants_made == ["authorization_code"] * 2, "the refresh token was not shown to the new one"
    later = [asked for asked in world.asked if asked.target.startswith("/two")]
    assert all(b"r5" not in asked.body and b"c1" not in asked.body for asked in later)


class Broken(MemoryStore):
    """A store in which something fails."""

    def __init__(self, failing: str) -> None:
        super().__init__()
        self.failing = failing

    def fail(self, what: str) -> None:
        if what == self.failing:
            raise CredentialStoreError("the keyring is locked")

    async def load_tokens(self, server_url: str) -> TokenRecord | None:
        self.fail("load_tokens")
        return await super().load_tokens(server_url)

    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        self.fail("save_tokens")
        await super().save_tokens(server_url, tokens)

    async def load_client(self, issuer: str) -> ClientRecord | None:
        self.fail("load_client")
        return await super().load_client(issuer)

    async def save_client(self, issuer: str, client: ClientRecord | None) -> None:
        self.fail("save_client")
        await super().save_client(issuer, client)


@pytest.mark.parametrize("failing", ["load_tokens", "load_client"])
async def test_a_store_that_cannot_be_read_is_told_to_the_caller(failing: str) -> None:
    world = World()
    async with protected(world) as server:
        with pytest.raises(McpError, match="the keyring is locked"):
            async with open_http(server.url, auth=oauth(world, store=Broken(failing))):
                pass


@pytest.mark.parametrize("failing", ["save_tokens", "save_client"])
async def test_a_store_that_cannot_be_written_costs_no_login(failing: str, caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    person = Person(world)
    async with connected(world, oauth(world, person, store=Broken(failing))) as (_, client):
        await call(client)
    assert person.logins == 1
    assert "not stored, but used: " in caplog.text
    assert "error=the keyring is locked" in caplog.text


async def test_a_store_that_takes_too_long_costs_no_login(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    class Slow(MemoryStore):
        async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
            await trio.sleep_forever()

    world = World()
    async with connected(world, oauth(world, store=Slow())) as (_, client):
        await call(client)
    assert "the store timed out" in caplog.text


async def test_what_a_store_has_for_another_server_is_not_used() -> None:
    class Confused(MemoryStore):
        async def load_tokens(self, server_url: str) -> TokenRecord | None:
            kept = await super().load_tokens(server_url)
            return None if kept is None else attrs.evolve(kept, server_url="https://other.example/mcp")

    world = World()
    store = Confused()
    async with protected(world) as server:
        for _program in range(2):
            async with open_http(server.url, auth=oauth(world, store=store)) as client:
                await call(client)
    assert world.grants_made == ["authorization_code"] * 2


async def test_a_token_that_could_not_be_kept_is_refreshed_all_the_same() -> None:
    world = World()
    person = Person(world)
    async with connected(world, oauth(world, person, store=Broken("save_tokens"))) as (_, client):
        world.revoke()
        await call(client)
        world.revoke()
        await call(client)
        assert person.logins == 1
        world.forget()
        await call(client)
    assert world.grants_made == ["authorization_code", *["refresh_token"] * 3, "authorization_code"]
    assert person.logins == 2


async def test_tokens_that_another_program_got_are_not_deleted_with_ours() -> None:
    world = World()
    person = Person(world)

    class Shared(MemoryStore):
        """Another program logs in anew, without the lock, while this one is refused."""

        async def load_client(self, issuer: str) -> ClientRecord | None:
            kept = await self.load_tokens(world.url)
            if kept is not None:
                await self.save_tokens(world.url, attrs.evolve(kept, access_token="t0", refresh_token="r0"))
            return await super().load_client(issuer)

    store = Shared()
    async with connected(world, oauth(world, person, store=store)) as (server, client):
        world.forget()
        person.failure = AuthorizationRefused("no")
        with pytest.raises(AuthorizationRefused):
            await client.call_tool("echo")
        kept = await store.load_tokens(server.url)
    assert kept is not None
    assert kept.refresh_token == "r0"


async def test_programs_that_share_a_file_refresh_once(tmp_path: Path) -> None:
    world = World()
    person = Person(world)
    key = b"k" * 32
    async with protected(world) as server, AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                open_http(server.url, auth=oauth(world, person, store=FileStore(tmp_path / "kept", key=key)))
            )
            for _program in range(3)
        ]
        assert person.logins == 1
        world.revoke()
        async with trio.open_nursery() as nursery:
            for client in clients * 3:
                nursery.start_soon(call, client)
    assert world.grants_made == ["authorization_code", "refresh_token"]


# --- logging out -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refreshes", [True, False])
async def test_who_logs_out_leaves_nothing_and_has_the_tokens_revoked(refreshes: bool) -> None:
    world = World(refreshes=refreshes)
    store = MemoryStore()
    auth = oauth(world, store=store)
    async with connected(world, auth) as (server, client):
        kept = await store.load_tokens(server.url)
        assert kept is not None
        assert await auth.log_out(server.url)
        assert await store.load_tokens(server.url) is None
        assert world.revoked == [kept.refresh_token if refreshes else kept.access_token]
        assert not await auth.log_out(server.url)
        await call(client)
    assert shown(world)[-2:] == [None, f"Bearer {list(world.tokens)[-1]}"]


async def test_who_logs_out_has_the_tokens_deleted_also_where_they_cannot_be_revoked() -> None:
    world = World()
    store = MemoryStore()
    auth = oauth(world, store=store)
    async with connected(world, auth) as (server, client):
        for revokes, status, sentence in ((True, 503, "status 503"), (False, 200, "no revocation_endpoint")):
            world.revokes, world.token_status = revokes, status
            with pytest.raises(AuthorizationError, match=sentence):
                await auth.log_out(server.url)
            assert await store.load_tokens(server.url) is None
            world.token_status = 200
            await call(client)


_PROGRAM = """
import sys, trio
from mcp_client import open_http
from mcp_client.auth import OAuth
from mcp_client.auth.stores import FileStore

class Store(FileStore):
    async def load_tokens(self, server_url):
        tokens = await super().load_tokens(server_url)
        print("loaded", flush=True)
        return tokens

async def main():
    auth = OAuth("Another program", store=Store(sys.argv[2], key=b"k" * 32))
    async with open_http(sys.argv[1], auth=auth) as client:
        await client.call_tool("echo")

trio.run(main)
"""


async def test_of_several_processes_one_refreshes(tmp_path: Path) -> None:
    """Each refresh token is good for one use: a second refresh with the same one would be refused, and need a person."""
    world = World()
    path = tmp_path / "tokens"
    async with protected(world) as server:
        store = FileStore(path, key=b"k" * 32)
        async with open_http(server.url, auth=oauth(world, Person(world), store=store)) as client:
            await call(client)
        tokens = await store.load_tokens(server.url)
        assert tokens is not None
        await store.save_tokens(server.url, attrs.evolve(tokens, expires_at=0.0))
        # No token is given before all have seen that theirs has ended.
        world.gate = gate = trio.Event()
        loaded: list[bytes] = []
        ended: list[int] = []

        async def run() -> None:
            command = [sys.executable, "-c", _PROGRAM, server.url, str(path)]
            process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
            assert process.stdout is not None
            loaded.append(bytes(await process.stdout.receive_some()))
            if len(loaded) == 4:
                gate.set()
            ended.append(await process.wait())

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(run)
    assert ended == [0] * 4
    assert world.grants_made == ["authorization_code", "refresh_token"]
