"""The checks of the contract of credential stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import trio

from mcp_client.auth.stores.protocol import CredentialStore
from mcp_core.errors import LocalProtocolError
from mcp_core.oauth.records import AuthMethod, ClientRecord, Registration, TokenRecord

if TYPE_CHECKING:
    from collections.abc import Awaitable

__all__ = [
    "OpenCredentialStore",
    "cancelled_save_is_atomic",
    "concurrent_saves_all_succeed",
    "deleted_record_is_not_found",
    "lock_excludes_other_instances",
    "lock_excludes_other_tasks",
    "lock_is_released_after_error",
    "long_record_loads_whole",
    "record_for_other_server_is_rejected",
    "records_are_readable_while_locked",
    "records_with_similar_names_are_separate",
    "reopened_store_has_all_records",
    "saved_again_record_is_replaced",
    "saved_record_loads_unchanged",
    "secrets_are_not_readable",
    "unknown_record_is_not_found",
    "waiting_for_lock_can_be_cancelled",
]

OpenCredentialStore: TypeAlias = Callable[[], CredentialStore]
"""A function that opens the store. Within one check it is always the same store, empty at first."""

SERVER: Final = "https://mcp.example/mcp"
ISSUER: Final = "https://as.example"
SECONDS: Final = 30.0
"""Time after which a lock counts as lost, in seconds."""

CLIENT: Final = ClientRecord(
    client_id="client Ü",
    issuer=ISSUER,
    client_secret="hush hush",
    auth_method=AuthMethod.SECRET_POST,
    registration=Registration.DYNAMIC,
    redirect_uris=("http://127.0.0.1:49152/callback", "http://127.0.0.1/b"),
    secret_expires_at=1_900_000_000.5,
)
TOKENS: Final = TokenRecord(
    access_token="first token",
    token_type="DPoP",
    expires_at=1_800_000_000.25,
    refresh_token="renewal",
    scopes=("notes:read", "ü"),
    requested_scopes=("notes:read", "notes:write"),
    resource=SERVER,
    server_url=SERVER,
    token_endpoint=f"{ISSUER}/token",
    issuer=ISSUER,
    client=CLIENT,
)
PLAIN: Final = TokenRecord(
    access_token="second token",
    token_type="Bearer",
    expires_at=None,
    resource=SERVER,
    server_url=SERVER,
    token_endpoint=f"{ISSUER}/token",
    issuer=ISSUER,
)
NAMES: Final = (
    SERVER,
    f"{SERVER}/",
    "https://MCP.example/mcp",
    f"{SERVER}?a=b",
    "https://mcp.example",
    "http://mcp.example/mcp",
    "https://mcp.example/m\u00fc",
    f"https://mcp.example/{'long/' * 200}",
)


def same(observed: object, expected: object, what: str) -> None:
    """Raise `AssertionError` unless both are equal. The values are secret, so the message does not show them."""
    if observed != expected:
        raise AssertionError(f"{what} differs from what was saved")


def tokens_of(server_url: str, access_token: str = "token") -> TokenRecord:
    return attrs.evolve(PLAIN, server_url=server_url, resource=server_url, access_token=access_token)


async def refused(call: Awaitable[None], what: str) -> None:
    try:
        await call
    except LocalProtocolError:
        return
    raise AssertionError(f"{what} were accepted; the store must raise LocalProtocolError")


# --- records -------------------------------------------------------------------------------------------------------


async def saved_record_loads_unchanged(open_store: OpenCredentialStore) -> None:
    """Check that every field keeps its value and type, also if it is empty."""
    store = open_store()
    bare = ClientRecord(client_id="c", issuer="https://other.example")
    for tokens in (TOKENS, PLAIN):
        await store.save_tokens(SERVER, tokens)
        same(await store.load_tokens(SERVER), tokens, "the token record")
    for client in (CLIENT, bare):
        await store.save_client(client.issuer or "", client)
        same(await store.load_client(client.issuer or ""), client, "the client record")


async def unknown_record_is_not_found(open_store: OpenCredentialStore) -> None:
    """Check that a missing record is `None`, and that its deletion is not an error."""
    store = open_store()
    same(await store.load_tokens(SERVER), None, "nothing")
    same(await store.load_client(ISSUER), None, "nothing")
    await store.save_tokens(SERVER, None)
    await store.save_client(ISSUER, None)
    same(await store.load_tokens(SERVER), None, "nothing")


async def saved_again_record_is_replaced(open_store: OpenCredentialStore) -> None:
    """Check that a record replaces the one before, with all its fields."""
    store = open_store()
    for tokens in (TOKENS, PLAIN, TOKENS, TOKENS, attrs.evolve(TOKENS, refresh_token="next")):
        await store.save_tokens(SERVER, tokens)
        same(await store.load_tokens(SERVER), tokens, "the token record")
    for client in (CLIENT, attrs.evolve(CLIENT, client_secret=None)):
        await store.save_client(ISSUER, client)
        same(await store.load_client(ISSUER), client, "the client record")


async def deleted_record_is_not_found(open_store: OpenCredentialStore) -> None:
    """Check that a deleted record is gone, and that all other records remain."""
    store, other = open_store(), tokens_of(f"{SERVER}2")
    for tokens in (TOKENS, other):
        await store.save_tokens(tokens.server_url, tokens)
    await store.save_client(ISSUER, CLIENT)
    await store.save_tokens(SERVER, None)
    same(await store.load_tokens(SERVER), None, "a deleted token record")
    same(await store.load_tokens(other.server_url), other, "the token record of another server")
    same(await store.load_client(ISSUER), CLIENT, "the client record")
    await store.save_client(ISSUER, None)
    same(await store.load_client(ISSUER), None, "a deleted client record")
    same(await store.load_tokens(other.server_url), other, "the token record of another server")


async def records_with_similar_names_are_separate(open_store: OpenCredentialStore) -> None:
    """Check that URLs and issuers are compared octet by octet, and that tokens and clients are separate."""
    store = open_store()
    for number, name in enumerate(NAMES):
        await store.save_tokens(name, tokens_of(name, f"token{number}"))
        await store.save_client(name, ClientRecord(client_id=f"client{number}", issuer=name))
    for number, name in enumerate(NAMES):
        same(await store.load_tokens(name), tokens_of(name, f"token{number}"), f"the token record of {name[:40]}")
        expected = ClientRecord(client_id=f"client{number}", issuer=name)
        same(await store.load_client(name), expected, f"the client record of {name[:40]}")
    same(await store.load_tokens("https://mcp.example/"), None, "nothing")


async def record_for_other_server_is_rejected(open_store: OpenCredentialStore) -> None:
    """Check that a record is rejected under the name of another server or issuer, which would receive its secrets."""
    store = open_store()
    await refused(store.save_tokens(f"{SERVER}/", TOKENS), "tokens of another server")
    await refused(store.save_client(f"{ISSUER}/", CLIENT), "clients of another issuer")
    await refused(store.save_client(ISSUER, attrs.evolve(CLIENT, issuer=None)), "clients of no issuer")
    same(await store.load_tokens(f"{SERVER}/"), None, "nothing")
    same(await store.load_client(f"{ISSUER}/"), None, "nothing")


async def long_record_loads_whole(open_store: OpenCredentialStore) -> None:
    """Check long records: tokens may have several thousand characters, and a shorter or longer one may follow."""
    store = open_store()
    for length in (30_000, 10, 5_000, 5_001, 0):
        tokens = attrs.evolve(TOKENS, access_token="abü" * (length + 1))
        await store.save_tokens(SERVER, tokens)
        same(await store.load_tokens(SERVER), tokens, f"a token record of more than {length} characters")
    await store.save_tokens(SERVER, None)
    same(await store.load_tokens(SERVER), None, "a deleted token record")


async def secrets_are_not_readable(open_store: OpenCredentialStore) -> None:
    """Check that `repr` does not contain secrets, because it appears in logs."""
    store = open_store()
    await store.save_tokens(SERVER, TOKENS)
    await store.save_client(ISSUER, CLIENT)
    shown = f"{store!r} {store}"
    for secret in (TOKENS.access_token, TOKENS.refresh_token, CLIENT.client_secret):
        if secret is None or secret in shown:
            raise AssertionError("repr(store) contains a secret")


# --- concurrency -----------------------------------------------------------------------------------------------------


async def concurrent_saves_all_succeed(open_store: OpenCredentialStore) -> None:
    """Check that concurrent saves of different records do not lose any of them."""
    store = open_store()
    names = [f"https://mcp{number}.example/mcp" for number in range(20)]

    async def save(name: str) -> None:
        await store.save_tokens(name, tokens_of(name))
        await store.save_client(name, ClientRecord(client_id="c", issuer=name))

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(save, name)
    for name in names:
        same(await store.load_tokens(name), tokens_of(name), "one of many token records")
        same(await store.load_client(name), ClientRecord(client_id="c", issuer=name), "one of many client records")


async def cancelled_save_is_atomic(open_store: OpenCredentialStore) -> None:
    """Check that a cancelled save leaves the old or the new record, and that the next save works."""
    store = open_store()
    await store.save_tokens(SERVER, TOKENS)
    for pauses in range(8):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.save_tokens, SERVER, PLAIN)
                for _ in range(pauses):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        found = await store.load_tokens(SERVER)
        if found not in (TOKENS, PLAIN):
            raise AssertionError("after a cancelled save, the store contains neither the old record nor the new one")
        await store.save_tokens(SERVER, TOKENS)
        same(await store.load_tokens(SERVER), TOKENS, "what was saved after a cancelled save")


# --- locks -----------------------------------------------------------------------------------------------------------


async def lock_excludes_other_tasks(open_store: OpenCredentialStore) -> None:
    """Check that a lock excludes other users of the same server, and that another server has its own lock."""
    store = open_store()
    await _exclusion(store, store)


async def lock_excludes_other_instances(open_store: OpenCredentialStore) -> None:
    """Check that a lock excludes a store that was opened again, as another process would do."""
    await _exclusion(open_store(), open_store())


async def _exclusion(store: CredentialStore, other: CredentialStore) -> None:
    events: list[str] = []

    async def wait() -> None:
        async with other.lock(SERVER):
            events.append("the other is in")

    with trio.move_on_after(SECONDS) as limit:
        async with trio.open_nursery() as nursery, store.lock(SERVER):
            nursery.start_soon(wait)
            async with other.lock(f"{SERVER}/other"):
                # Enough time for a broken lock to admit the second task.
                for _ in range(10):
                    await store.load_tokens(SERVER)
            events.append("the first goes out")
    if limit.cancelled_caught:
        raise AssertionError("a free lock could not be acquired")
    if events != ["the first goes out", "the other is in"]:
        raise AssertionError("a lock was acquired twice at the same time")


async def records_are_readable_while_locked(open_store: OpenCredentialStore) -> None:
    """Check that the holder of a lock and others can load and save."""
    store = open_store()
    with trio.move_on_after(SECONDS) as limit:
        async with store.lock(SERVER):
            await store.save_tokens(SERVER, TOKENS)
            same(await store.load_tokens(SERVER), TOKENS, "the token record")
            same(await open_store().load_tokens(SERVER), TOKENS, "the token record, for others")
    if limit.cancelled_caught:
        raise AssertionError("records cannot be loaded or saved while a lock is held")


async def lock_is_released_after_error(open_store: OpenCredentialStore) -> None:
    """Check that a lock is released after an error and after a cancellation."""
    store = open_store()
    try:
        async with store.lock(SERVER):
            raise KeyError("a failure of the check's own")
    except KeyError:
        await _is_free(store)
    with trio.CancelScope() as scope:
        async with store.lock(SERVER):
            scope.cancel()
            await trio.lowlevel.checkpoint()
    await _is_free(store)


async def waiting_for_lock_can_be_cancelled(open_store: OpenCredentialStore) -> None:
    """Check that waiting for a lock can be cancelled at once, and that a cancelled task does not acquire it later."""
    store, entered = open_store(), list[bool]()

    async def enter() -> None:
        async with open_store().lock(SERVER):
            entered.append(True)

    async with store.lock(SERVER):
        for pauses in range(4):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(enter)
                for _ in range(pauses):
                    await store.load_tokens(SERVER)
                nursery.cancel_scope.cancel()
    if entered:
        raise AssertionError("a lock was acquired twice at the same time")
    await _is_free(store)


async def _is_free(store: CredentialStore) -> None:
    with trio.move_on_after(SECONDS) as limit:
        async with store.lock(SERVER):
            pass
    if limit.cancelled_caught:
        raise AssertionError("a lock was not released")


# --- persistent stores -----------------------------------------------------------------------------------------------


async def reopened_store_has_all_records(open_store: OpenCredentialStore) -> None:
    """Check that records persist, also those that were changed or deleted after the store was opened again."""
    first = open_store()
    await first.save_tokens(SERVER, TOKENS)
    await first.save_client(ISSUER, CLIENT)
    second = open_store()
    same(await second.load_tokens(SERVER), TOKENS, "the token record")
    same(await second.load_client(ISSUER), CLIENT, "the client record")
    await second.save_tokens(SERVER, PLAIN)
    await second.save_client(ISSUER, None)
    same(await first.load_tokens(SERVER), PLAIN, "the token record that another saved")
    same(await first.load_client(ISSUER), None, "the client record that another deleted")
