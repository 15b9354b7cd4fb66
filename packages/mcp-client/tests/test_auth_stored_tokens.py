"""Stored tokens and client registrations, shared between programs."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import parse_qsl

import attrs
import pytest
import trio
import trio.testing
from auth_testbed import AuthTestbed, FakeUserAgent, authorization_headers, call, connected, oauth, protected

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

# --- stored credentials -------------------------------------------------------------------------------------------------


async def test_stored_tokens_next_program_needs_no_login() -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)
    store = MemoryStore()
    async with protected(testbed) as server:
        async with open_http(server.url, auth=oauth(testbed, user_agent, store=store)) as client:
            await call(client)
        async with open_http(server.url, auth=oauth(testbed, user_agent, store=store)) as client:
            await call(client)
        testbed.revoke()
        async with open_http(server.url, auth=oauth(testbed, user_agent, store=store)) as client:
            await call(client)
    assert user_agent.logins == 1
    assert testbed.grants_made == ["authorization_code", "refresh_token"]


async def test_stored_tokens_refreshed_by_other_program_reused() -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)
    store = MemoryStore()
    async with (
        connected(testbed, oauth(testbed, user_agent, store=store)) as (server, one),
        open_http(server.url, auth=oauth(testbed, user_agent, store=store)) as other,
    ):
        testbed.revoke()
        async with trio.open_nursery() as nursery:
            for client in (one, other) * 4:
                nursery.start_soon(call, client)
        assert testbed.grants_made == ["authorization_code", "refresh_token"]
        # Newer tokens that have expired are renewed with the newer refresh token.
        testbed.revoke()
        await call(other)
        testbed.now += 3600
        await call(one)
    assert user_agent.logins == 1


async def test_stored_scopes_granted_to_other_program_reused() -> None:
    testbed = AuthTestbed(required_scopes={"tools/call write": "notes:write"})
    user_agent = FakeUserAgent(testbed)
    store = MemoryStore()
    async with (
        connected(testbed, oauth(testbed, user_agent, store=store)) as (server, one),
        open_http(server.url, auth=oauth(testbed, user_agent, store=store)) as other,
    ):
        await call(one, "write")
        await call(other, "write")
    assert user_agent.logins == 2


async def test_logout_in_other_program_requires_login() -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)
    store = MemoryStore()
    async with connected(testbed, oauth(testbed, user_agent, store=store)) as (server, client):
        await store.save_tokens(server.url, None)
        testbed.revoke()
        await call(client)
    assert testbed.grants_made == ["authorization_code"] * 2


async def test_stored_tokens_failed_refresh_kept() -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)
    store = MemoryStore()
    async with connected(testbed, oauth(testbed, user_agent, store=store)) as (server, client):
        kept = await store.load_tokens(server.url)
        testbed.revoke()
        testbed.token_status = 503
        with pytest.raises(TokenRefused):
            await client.call_tool("echo")
        assert await store.load_tokens(server.url) == kept
        testbed.token_status = 200
        await call(client)
    assert testbed.grants_made == ["authorization_code", "refresh_token", "refresh_token"]


async def test_stored_tokens_invalid_deleted() -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)
    store = MemoryStore()
    async with connected(testbed, oauth(testbed, user_agent, store=store)) as (server, client):
        testbed.revoke_all()
        user_agent.failure = AuthorizationRefused("no")
        with pytest.raises(AuthorizationRefused):
            await client.call_tool("echo")
        assert await store.load_tokens(server.url) is None
        user_agent.failure = None
        await call(client)
    assert authorization_headers(testbed)[-2:] == [None, "Bearer " + list(testbed.tokens)[-1]]


async def test_registered_client_and_port_reused() -> None:
    testbed = AuthTestbed(refreshes=False)
    user_agent = FakeUserAgent(testbed)
    store = MemoryStore()
    async with protected(testbed) as server:
        for _program in range(2):
            async with open_http(server.url, auth=oauth(testbed, user_agent, store=store)) as client:
                await call(client)
            testbed.revoke_all()
        # Also when only the client name and the server are known.
        await store.save_tokens(server.url, None)
        async with open_http(server.url, auth=oauth(testbed, user_agent, store=store)) as client:
            await call(client)
    assert testbed.clients == ["c1"]
    assert len(set(user_agent.ports)) == 1
    assert user_agent.ports[0] is not None
    assert 49_152 <= user_agent.ports[0] < 65_536


async def test_registered_client_saved_once() -> None:
    class Counting(MemoryStore):
        saved = 0

        async def save_client(self, issuer: str, client: ClientRecord | None) -> None:
            self.saved += 1
            await super().save_client(issuer, client)

    testbed = AuthTestbed(refreshes=False)
    store = Counting()
    async with connected(testbed, oauth(testbed, store=store)) as (_, client):
        testbed.revoke_all()
        await call(client)
    assert store.saved == 1


async def test_registered_client_failed_login_stored() -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)
    user_agent.failure = AuthorizationRefused("no")
    store = MemoryStore()
    async with protected(testbed) as server:
        with pytest.raises(AuthorizationRefused):
            async with open_http(server.url, auth=oauth(testbed, user_agent, store=store)):
                pass
        kept = await store.load_client(testbed.issuer)
    assert kept is not None
    assert kept.client_id == "c1"


async def test_client_id_from_user_stored() -> None:
    testbed = AuthTestbed(registers=False)
    user_agent = FakeUserAgent(testbed)
    store = MemoryStore()
    async with protected(testbed) as server:
        with pytest.raises(RegistrationFailed, match="no client id"):
            async with open_http(server.url, auth=oauth(testbed, user_agent, store=store)):
                pass
        user_agent.client = ClientRecord(client_id="by-hand", issuer=None)
        async with open_http(server.url, auth=oauth(testbed, user_agent, store=store)) as client:
            await call(client)
        assert await store.load_client(testbed.issuer) is not None
    assert testbed.authorized[0]["client_id"] == "by-hand"


@pytest.mark.spec(
    "auth.as-change-no-reuse", "auth.as-change-reregister", "auth.no-cross-as-credentials", "auth.client-own-as-tokens"
)
async def test_issuer_changed_credentials_not_reused() -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)
    async with connected(testbed, oauth(testbed, user_agent)) as (_, client):
        testbed.issuer_path = "/two"
        testbed.revoke()
        await call(client)
    assert user_agent.logins == 2
    assert testbed.clients == ["c1", "c2"]
    assert testbed.grants_made == ["authorization_code"] * 2, "the refresh token was shown to the new issuer"
    later = [request for request in testbed.requests if request.target.startswith("/two")]
    assert later
    # Whole values: a random code verifier can contain the letters.
    sent = [value for request in later for _, value in parse_qsl(request.body.decode())]
    assert not {"r5", "c1"} & set(sent)
    assert "c2" in sent


class FailingStore(MemoryStore):
    """A store in which one operation fails."""

    def __init__(self, failing: str) -> None:
        super().__init__()
        self.failing = failing

    def fail(self, operation: str) -> None:
        if operation == self.failing:
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
async def test_store_read_failure_raises(failing: str) -> None:
    testbed = AuthTestbed()
    async with protected(testbed) as server:
        with pytest.raises(McpError, match="the keyring is locked"):
            async with open_http(server.url, auth=oauth(testbed, store=FailingStore(failing))):
                pass


@pytest.mark.parametrize("failing", ["save_tokens", "save_client"])
async def test_store_write_failure_logged_and_login_kept(failing: str, caplog: pytest.LogCaptureFixture) -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)
    async with connected(testbed, oauth(testbed, user_agent, store=FailingStore(failing))) as (_, client):
        await call(client)
    assert user_agent.logins == 1
    assert "not stored, but used: " in caplog.text
    assert "error=the keyring is locked" in caplog.text


async def test_store_write_timeout_logged_and_login_kept(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    class Slow(MemoryStore):
        async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
            await trio.sleep_forever()

    testbed = AuthTestbed()
    async with connected(testbed, oauth(testbed, store=Slow())) as (_, client):
        await call(client)
    assert "the store timed out" in caplog.text


async def test_store_tokens_of_other_server_ignored() -> None:
    class WrongServerStore(MemoryStore):
        async def load_tokens(self, server_url: str) -> TokenRecord | None:
            kept = await super().load_tokens(server_url)
            return None if kept is None else attrs.evolve(kept, server_url="https://other.example/mcp")

    testbed = AuthTestbed()
    store = WrongServerStore()
    async with protected(testbed) as server:
        for _program in range(2):
            async with open_http(server.url, auth=oauth(testbed, store=store)) as client:
                await call(client)
    assert testbed.grants_made == ["authorization_code"] * 2


async def test_unstored_token_refreshed() -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)
    async with connected(testbed, oauth(testbed, user_agent, store=FailingStore("save_tokens"))) as (_, client):
        testbed.revoke()
        await call(client)
        testbed.revoke()
        await call(client)
        assert user_agent.logins == 1
        testbed.revoke_all()
        await call(client)
    assert testbed.grants_made == ["authorization_code", *["refresh_token"] * 3, "authorization_code"]
    assert user_agent.logins == 2


async def test_stored_tokens_of_other_program_not_deleted() -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)

    class SharedStore(MemoryStore):
        """A store to which another program writes a new login without the lock, while this one is refused."""

        async def load_client(self, issuer: str) -> ClientRecord | None:
            kept = await self.load_tokens(testbed.url)
            if kept is not None:
                await self.save_tokens(testbed.url, attrs.evolve(kept, access_token="t0", refresh_token="r0"))
            return await super().load_client(issuer)

    store = SharedStore()
    async with connected(testbed, oauth(testbed, user_agent, store=store)) as (server, client):
        testbed.revoke_all()
        user_agent.failure = AuthorizationRefused("no")
        with pytest.raises(AuthorizationRefused):
            await client.call_tool("echo")
        kept = await store.load_tokens(server.url)
    assert kept is not None
    assert kept.refresh_token == "r0"


async def test_shared_file_store_refreshes_once(tmp_path: Path) -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)
    key = b"k" * 32
    async with protected(testbed) as server, AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                open_http(server.url, auth=oauth(testbed, user_agent, store=FileStore(tmp_path / "kept", key=key)))
            )
            for _program in range(3)
        ]
        assert user_agent.logins == 1
        testbed.revoke()
        async with trio.open_nursery() as nursery:
            for client in clients * 3:
                nursery.start_soon(call, client)
    assert testbed.grants_made == ["authorization_code", "refresh_token"]


# --- logging out -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refreshes", [True, False])
async def test_logout_deletes_and_revokes_tokens(refreshes: bool) -> None:
    testbed = AuthTestbed(refreshes=refreshes)
    store = MemoryStore()
    auth = oauth(testbed, store=store)
    async with connected(testbed, auth) as (server, client):
        kept = await store.load_tokens(server.url)
        assert kept is not None
        assert await auth.log_out(server.url)
        assert await store.load_tokens(server.url) is None
        assert testbed.revoked == [kept.refresh_token if refreshes else kept.access_token]
        assert not await auth.log_out(server.url)
        await call(client)
    assert authorization_headers(testbed)[-2:] == [None, f"Bearer {list(testbed.tokens)[-1]}"]


async def test_logout_revocation_failure_still_deletes_tokens() -> None:
    testbed = AuthTestbed()
    store = MemoryStore()
    auth = oauth(testbed, store=store)
    async with connected(testbed, auth) as (server, client):
        for revokes, status, message in ((True, 503, "status 503"), (False, 200, "no revocation_endpoint")):
            testbed.revokes, testbed.token_status = revokes, status
            with pytest.raises(AuthorizationError, match=message):
                await auth.log_out(server.url)
            assert await store.load_tokens(server.url) is None
            testbed.token_status = 200
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


async def test_shared_file_store_processes_refresh_once(tmp_path: Path) -> None:
    # The testbed rejects the second use of a refresh token, which would lead to another login.
    testbed = AuthTestbed()
    path = tmp_path / "tokens"
    async with protected(testbed) as server:
        store = FileStore(path, key=b"k" * 32)
        async with open_http(server.url, auth=oauth(testbed, FakeUserAgent(testbed), store=store)) as client:
            await call(client)
        tokens = await store.load_tokens(server.url)
        assert tokens is not None
        await store.save_tokens(server.url, attrs.evolve(tokens, expires_at=0.0))
        # The token endpoint responds when all processes have loaded the expired token.
        testbed.token_blocker = blocker = trio.Event()
        loaded: list[bytes] = []
        ended: list[int] = []

        async def run() -> None:
            command = [sys.executable, "-c", _PROGRAM, server.url, str(path)]
            process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
            assert process.stdout is not None
            loaded.append(bytes(await process.stdout.receive_some()))
            if len(loaded) == 4:
                blocker.set()
            ended.append(await process.wait())

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(run)
    assert ended == [0] * 4
    assert testbed.grants_made == ["authorization_code", "refresh_token"]
