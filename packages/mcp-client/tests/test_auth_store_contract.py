"""The contract checks of credential stores find faults: each store here breaks one rule."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs
import pytest
import trio

from mcp_client.auth.stores import CredentialStore, MemoryStore
from mcp_client.auth.stores.contract import (
    CREDENTIAL_STORE_CHECKS,
    LASTING_CREDENTIAL_STORE_CHECKS,
    CredentialStoreCheck,
    OpenCredentialStore,
)
from mcp_core.oauth.records import ClientRecord, TokenRecord


class DropsClient(MemoryStore):
    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        await super().save_tokens(server_url, tokens and attrs.evolve(tokens, client=None))


class RejectsDeletingNothing(MemoryStore):
    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        assert tokens or server_url in self._tokens, "there are no tokens"
        await super().save_tokens(server_url, tokens)


class KeepsFirst(MemoryStore):
    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        if tokens is None or await self.load_tokens(server_url) is None:
            await super().save_tokens(server_url, tokens)


class NeverDeletes(MemoryStore):
    async def save_client(self, issuer: str, client: ClientRecord | None) -> None:
        if client is not None:
            await super().save_client(issuer, client)


class DeletesAll(MemoryStore):
    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        await super().save_tokens(server_url, tokens)
        if tokens is None:
            self._tokens.clear()


class Normalizes(MemoryStore):
    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        await super().save_tokens(server_url, tokens)
        if tokens is not None and server_url.endswith("/"):
            await super().save_tokens(server_url[:-1], attrs.evolve(tokens, server_url=server_url[:-1]))


class IgnoresWrongServer(MemoryStore):
    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        if tokens is None or tokens.server_url == server_url:
            await super().save_tokens(server_url, tokens)


class Truncates(MemoryStore):
    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        short = tokens and attrs.evolve(tokens, access_token=tokens.access_token[:10_000])
        await super().save_tokens(server_url, short)


class ShowsSecrets(MemoryStore):
    def __repr__(self) -> str:
        return f"<ShowsSecrets {[tokens.access_token for tokens in self._tokens.values()]}>"


class LosesConcurrentSaves(MemoryStore):
    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        before = dict(self._tokens)
        await super().save_tokens(server_url, tokens)
        after = self._tokens.pop(server_url, None)
        self._tokens.clear()
        self._tokens.update(before)
        self._tokens.pop(server_url, None)
        if after is not None:
            self._tokens[server_url] = after


class DeletesFirst(MemoryStore):
    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        self._tokens.pop(server_url, None)
        await super().save_tokens(server_url, tokens)


class LockIsNoOp(MemoryStore):
    @asynccontextmanager
    async def _nothing(self) -> AsyncIterator[None]:
        yield

    def lock(self, server_url: str) -> AbstractAsyncContextManager[None]:
        return self._nothing()


class SingleLock(MemoryStore):
    """A store with one lock for all servers."""

    def __init__(self) -> None:
        super().__init__()
        self.free = trio.Semaphore(1)

    @asynccontextmanager
    async def _hold(self) -> AsyncIterator[None]:
        async with self.free:
            yield

    def lock(self, server_url: str) -> AbstractAsyncContextManager[None]:
        return self._hold()


class LockBlocksReads(SingleLock):
    async def load_tokens(self, server_url: str) -> TokenRecord | None:
        async with self._hold():
            return await super().load_tokens(server_url)


class KeepsLockAfterError(SingleLock):
    @asynccontextmanager
    async def _hold(self) -> AsyncIterator[None]:
        await self.free.acquire()
        yield
        self.free.release()


class KeepsLockAfterCancelledWait(SingleLock):
    abandoned = 0

    @asynccontextmanager
    async def _hold(self) -> AsyncIterator[None]:
        try:
            await self.free.acquire()
        except trio.Cancelled:
            self.abandoned += 1
            raise
        try:
            yield
        finally:
            if not self.abandoned:
                self.free.release()


def opener(kind: type[MemoryStore]) -> OpenCredentialStore:
    store = kind()
    return lambda: store


BROKEN = {
    DropsClient: "saved_record_loads_unchanged",
    RejectsDeletingNothing: "unknown_record_is_not_found",
    KeepsFirst: "saved_again_record_is_replaced",
    NeverDeletes: "deleted_record_is_not_found",
    DeletesAll: "deleted_record_is_not_found",
    Normalizes: "records_with_similar_names_are_separate",
    IgnoresWrongServer: "record_for_other_server_is_rejected",
    Truncates: "long_record_loads_whole",
    ShowsSecrets: "secrets_are_not_readable",
    LosesConcurrentSaves: "concurrent_saves_all_succeed",
    DeletesFirst: "cancelled_save_is_atomic",
    LockIsNoOp: "lock_excludes_other_tasks",
    SingleLock: "lock_excludes_other_tasks",
    LockBlocksReads: "records_are_readable_while_locked",
    KeepsLockAfterError: "lock_is_released_after_error",
    KeepsLockAfterCancelledWait: "waiting_for_lock_can_be_cancelled",
}


def check_named(name: str) -> CredentialStoreCheck:
    (check,) = [each for each in CREDENTIAL_STORE_CHECKS + LASTING_CREDENTIAL_STORE_CHECKS if each.__name__ == name]
    return check


@pytest.mark.parametrize(("kind", "check"), BROKEN.items(), ids=lambda each: getattr(each, "__name__", each))
async def test_check_finds_broken_rule(kind: type[MemoryStore], check: str, autojump_clock: trio.abc.Clock) -> None:
    with pytest.raises(AssertionError, match=r" \w+ "):
        await check_named(check)(opener(kind))


@pytest.mark.parametrize("name", ["reopened_store_has_all_records", "lock_excludes_other_instances"])
async def test_check_finds_store_without_persistence(name: str, autojump_clock: trio.abc.Clock) -> None:
    def open_store() -> CredentialStore:
        return MemoryStore()

    with pytest.raises(AssertionError, match=r" \w+ "):
        await check_named(name)(open_store)


def test_checks_all_have_broken_store() -> None:
    checks = {check.__name__ for check in CREDENTIAL_STORE_CHECKS}
    assert checks == {*BROKEN.values()}
