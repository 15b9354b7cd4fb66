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
    checks.saved_record_loads_unchanged,
    checks.unknown_record_is_not_found,
    checks.saved_again_record_is_replaced,
    checks.deleted_record_is_not_found,
    checks.records_with_similar_names_are_separate,
    checks.record_for_other_server_is_rejected,
    checks.long_record_loads_whole,
    checks.secrets_are_not_readable,
    checks.concurrent_saves_all_succeed,
    checks.cancelled_save_is_atomic,
    checks.lock_excludes_other_tasks,
    checks.records_are_readable_while_locked,
    checks.lock_is_released_after_error,
    checks.waiting_for_lock_can_be_cancelled,
)
"""The checks for every store."""

LASTING_CREDENTIAL_STORE_CHECKS: Final[tuple[CredentialStoreCheck, ...]] = (
    checks.reopened_store_has_all_records,
    checks.lock_excludes_other_instances,
)
"""Additional checks for a store that outlives the process."""
