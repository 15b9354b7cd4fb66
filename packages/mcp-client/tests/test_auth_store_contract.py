"""The checks of the contract find what is wrong: each store here breaks one rule."""

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


class ForgetsTheClient(MemoryStore):
    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        await super().save_tokens(server_url, tokens and attrs.evolve(tokens, client=None))


class RefusesToDeleteNothing(MemoryStore):
    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        assert tokens or server_url in self._tokens, "there is nothing"
        await super().save_tokens(server_url, tokens)


class KeepsTheFirst(MemoryStore):
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


class TakesAnything(MemoryStore):
    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        if tokens is None or tokens.server_url == server_url:
            await super().save_tokens(server_url, tokens)


class Cuts(MemoryStore):
    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        short = tokens and attrs.evolve(tokens, access_token=tokens.access_token[:10_000])
        await super().save_tokens(server_url, short)


class Shows(MemoryStore):
    def __repr__(self) -> str:
        return f"<Shows {[tokens.access_token for tokens in self._tokens.values()]}>"


class LosesWhatOthersSave(MemoryStore):
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


class LocksNobodyOut(MemoryStore):
    @asynccontextmanager
    async def _nothing(self) -> AsyncIterator[None]:
        yield

    def lock(self, server_url: str) -> AbstractAsyncContextManager[None]:
        return self._nothing()


class OwnLock(MemoryStore):
    """Has one lock for all."""

    def __init__(self) -> None:
        super().__init__()
        self.free = trio.Semaphore(1)

    @asynccontextmanager
    async def _hold(self) -> AsyncIterator[None]:
        async with self.free:
            yield

    def lock(self, server_url: str) -> AbstractAsyncContextManager[None]:
        return self._hold()


class LocksItselfOut(OwnLock):
    async def load_tokens(self, server_url: str) -> TokenRecord | None:
        async with self._hold():
            return await super().load_tokens(server_url)


class KeepsTheLockAfterAnError(OwnLock):
    @asynccontextmanager
    async def _hold(self) -> AsyncIterator[None]:
        await self.free.acquire()
        yield
        self.free.release()


class TakesTheLockThoughNobodyWantsItAnyMore(OwnLock):
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
    ForgetsTheClient: "records_come_back_as_they_were_saved",
    RefusesToDeleteNothing: "nothing_is_found_where_nothing_was_saved",
    KeepsTheFirst: "the_last_one_saved_counts",
    NeverDeletes: "what_is_deleted_is_gone",
    DeletesAll: "what_is_deleted_is_gone",
    Normalizes: "names_are_apart",
    TakesAnything: "records_of_others_are_refused",
    Cuts: "long_records_come_whole",
    Shows: "secrets_are_not_shown",
    LosesWhatOthersSave: "many_may_save_at_once",
    DeletesFirst: "a_cancelled_save_was_made_entirely_or_not_at_all",
    LocksNobodyOut: "a_lock_keeps_others_out",
    OwnLock: "a_lock_keeps_others_out",
    LocksItselfOut: "records_stay_usable_while_a_lock_is_held",
    KeepsTheLockAfterAnError: "a_lock_is_free_after_its_block_failed",
    TakesTheLockThoughNobodyWantsItAnyMore: "who_waits_for_a_lock_can_be_cancelled",
}


def named(name: str) -> CredentialStoreCheck:
    (check,) = [each for each in CREDENTIAL_STORE_CHECKS + LASTING_CREDENTIAL_STORE_CHECKS if each.__name__ == name]
    return check


@pytest.mark.parametrize(("kind", "check"), BROKEN.items(), ids=lambda each: getattr(each, "__name__", each))
async def test_a_broken_rule_is_found(kind: type[MemoryStore], check: str, autojump_clock: trio.abc.Clock) -> None:
    with pytest.raises(AssertionError, match=r" \w+ "):
        await named(check)(opener(kind))


@pytest.mark.parametrize(
    "name", ["everything_is_there_when_it_is_opened_again", "a_lock_keeps_out_who_opened_the_store_again"]
)
async def test_a_store_that_does_not_last_is_found(name: str, autojump_clock: trio.abc.Clock) -> None:
    def open_store() -> CredentialStore:
        return MemoryStore()

    with pytest.raises(AssertionError, match=r" \w+ "):
        await named(name)(open_store)


def test_each_check_is_broken_by_a_store_here() -> None:
    checks = {check.__name__ for check in CREDENTIAL_STORE_CHECKS}
    assert checks == {*BROKEN.values()}
