"""The contract of `CredentialStore`, as checks for any implementation.

Each check is a coroutine function that receives a function to open the store. With pytest and pytest-trio:

    @pytest.mark.parametrize("check", CREDENTIAL_STORE_CHECKS, ids=lambda check: check.__name__)
    async def test_the_store_keeps_the_contract(check: CredentialStoreCheck, tmp_path: Path) -> None:
        await check(lambda: MyStore(tmp_path))

A check raises `AssertionError` with a sentence about the broken rule. For a store in memory, the function returns the
same object each time. For a persistent store it opens the store again each time; run `LASTING_CREDENTIAL_STORE_CHECKS`
too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from mcp_client.auth.stores import contract_checks as checks
from mcp_client.auth.stores.contract_checks import OpenCredentialStore

__all__ = [
    "CREDENTIAL_STORE_CHECKS",
    "LASTING_CREDENTIAL_STORE_CHECKS",
    "CredentialStoreCheck",
    "OpenCredentialStore",
]

CredentialStoreCheck: TypeAlias = Callable[[OpenCredentialStore], Awaitable[None]]
"""The type of a check."""

CREDENTIAL_STORE_CHECKS: Final[tuple[CredentialStoreCheck, ...]] = (
    checks.records_come_back_as_they_were_saved,
    checks.nothing_is_found_where_nothing_was_saved,
    checks.the_last_one_saved_counts,
    checks.what_is_deleted_is_gone,
    checks.names_are_apart,
    checks.records_of_others_are_refused,
    checks.long_records_come_whole,
    checks.secrets_are_not_shown,
    checks.many_may_save_at_once,
    checks.a_cancelled_save_was_made_entirely_or_not_at_all,
    checks.a_lock_keeps_others_out,
    checks.records_stay_usable_while_a_lock_is_held,
    checks.a_lock_is_free_after_its_block_failed,
    checks.who_waits_for_a_lock_can_be_cancelled,
)
"""The checks for every store."""

LASTING_CREDENTIAL_STORE_CHECKS: Final[tuple[CredentialStoreCheck, ...]] = (
    checks.everything_is_there_when_it_is_opened_again,
    checks.a_lock_keeps_out_who_opened_the_store_again,
)
"""Additional checks for a store that outlives the process."""
