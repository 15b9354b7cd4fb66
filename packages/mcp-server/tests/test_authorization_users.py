"""Users with passwords, and limits of login attempts."""

from __future__ import annotations

import sqlite3
import unicodedata
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server.auth.authorization_server.model.store import MemoryStore, SqliteStore
from mcp_server.auth.authorization_server.pages import login_limits
from mcp_server.auth.authorization_server.pages import users as users_module
from mcp_server.auth.authorization_server.pages.login_limits import LoginLimits
from mcp_server.auth.authorization_server.pages.users import PasswordUsers, StoredUsers, hash_password


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the cost of hashes. Tests of the real settings undo this."""
    monkeypatch.setattr(users_module, "_COST", 10)


async def test_password_verified_only_if_correct() -> None:
    users = PasswordUsers({"ada": hash_password("lovelace")})
    assert await users.verify("ada", "lovelace") == "ada"
    for name, password in (("ada", "Lovelace"), ("ada", ""), ("ada", "x" * 2000), ("eve", "lovelace"), ("", "")):
        assert await users.verify(name, password) is None


def test_hash_shows_settings_but_not_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    stored_hash = hash_password("lovelace")
    assert stored_hash.startswith("scrypt$15$8$3$")
    assert "lovelace" not in stored_hash
    assert stored_hash != hash_password("lovelace")


async def test_hash_with_other_settings_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    old = hash_password("lovelace")
    monkeypatch.setattr(users_module, "_COST", 11)
    assert await PasswordUsers({"ada": old}).verify("ada", "lovelace") == "ada"


@pytest.mark.parametrize("password", ["", "x" * 1001])
def test_empty_or_long_password_raises(password: str) -> None:
    with pytest.raises(ValueError, match="1 to 1000 characters"):
        hash_password(password)


@pytest.mark.parametrize(
    "stored_hash", ["", "lovelace", "scrypt$99$8$3$AAAAAAAA$AAAAAAAA", "$2b$12$abcdefghijklmnopqrstuv"]
)
def test_invalid_hash_raises_without_showing_it(stored_hash: str) -> None:
    with pytest.raises(ValueError, match=r"the password of eve is not a hash: create one with hash_password") as caught:
        PasswordUsers({"ada": hash_password("x"), "eve": stored_hash})
    assert not stored_hash or stored_hash not in str(caught.value)


async def test_unknown_user_takes_same_work_as_known_user(monkeypatch: pytest.MonkeyPatch) -> None:
    users = PasswordUsers({"ada": hash_password("lovelace")})
    work: list[tuple[int, int, int]] = []
    real = users_module._scrypt

    def counted(password: str, salt: bytes, settings: tuple[int, int, int], size: int) -> bytes:
        work.append((*settings[:2], size))
        return real(password, salt, settings, size)

    monkeypatch.setattr(users_module, "_scrypt", counted)
    await users.verify("ada", "x")
    await users.verify("eve", "x")
    assert work[0] == work[1]


async def test_concurrent_hash_computations_limited_to_two(monkeypatch: pytest.MonkeyPatch) -> None:
    users = PasswordUsers({"ada": hash_password("lovelace")})
    assert users._passwords._limiter.total_tokens == 2
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(users.verify, "ada", "lovelace")
        await trio.testing.wait_all_tasks_blocked()
        assert users._passwords._limiter.borrowed_tokens == 2


async def test_password_normalized_by_unicode() -> None:
    users = PasswordUsers({"ada": hash_password("caf\u00e9")})
    assert await users.verify("ada", "cafe\u0301") == "ada"


@pytest.mark.property
@settings(max_examples=20)
@given(st.text(min_size=1, max_size=50), st.text(max_size=50))
def test_random_password_matches_own_hash_only(password: str, other: str) -> None:
    users_module._COST = 10  # type: ignore[misc]  # the fixture `cheap_hashes` restores it
    stored_hash = hash_password(password)
    assert users_module._matches(password, stored_hash)
    assert users_module._matches(other, stored_hash) == (
        unicodedata.normalize("NFKC", other) == unicodedata.normalize("NFKC", password)
    )


async def test_stored_users_added_changed_and_removed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "as.sqlite")
    users = StoredUsers(store)
    await users.put("ada", "lovelace")
    await users.put("eve", "moneypenny")
    assert await users.verify("ada", "lovelace") == "ada"
    await users.put("ada", "byron")
    assert await users.verify("ada", "lovelace") is None
    assert await users.verify("ada", "byron") == "ada"
    assert await users.remove("ada")
    assert not await users.remove("ada")
    assert await users.verify("ada", "byron") is None
    await store.aclose()
    store = SqliteStore(tmp_path / "as.sqlite")
    assert await StoredUsers(store).verify("eve", "moneypenny") == "eve"
    assert b"moneypenny" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    await store.aclose()


async def test_stored_value_that_is_not_hash_raises() -> None:
    store = MemoryStore()
    await store.run(lambda connection: connection.execute("INSERT INTO page_users VALUES ('ada', 'lovelace')"))
    with pytest.raises(ValueError, match="not a hash from hash_password"):
        await StoredUsers(store).verify("ada", "lovelace")


async def test_removed_user_is_logged_out() -> None:
    from page_testbed import PageTestbed  # lazy: only this test uses pages

    store = MemoryStore()
    users = StoredUsers(store)
    await users.put("ada", "lovelace")
    testbed = PageTestbed(users=users, store=store)
    browser = testbed.browser()
    await browser.log_in(testbed.interactions.add())
    await users.remove("ada")
    assert "You are not logged in" in (await browser.get("/logout")).words


async def test_login_limit_per_address_is_below_limit_per_user(tmp_path: Path) -> None:
    now = 1_700_000_000.0
    # Two processes that share a file.
    stores = [SqliteStore(tmp_path / "as.sqlite") for _ in range(2)]
    one, other = (LoginLimits(store, clock=lambda: now) for store in stores)
    refused = [await each.begin("ada", "10.0.0.1") > 0 for each in [one, other] * 30]
    assert refused == [*[False] * 10, *[True] * 50]
    for address in range(2, 6):
        assert [await one.begin("ada", f"10.0.0.{address}") for _ in range(10)] == [0.0] * 10
    # The limit of a user is 50 attempts from all addresses.
    assert await other.begin("ada", "10.0.0.9") > 0
    assert await other.begin("eve", "10.0.0.9") == 0
    # One attempt of ten in ten minutes is allowed after one minute, and none before that.
    wait = await one.begin("ada", "10.0.0.1")
    assert wait == 60
    now += wait - 1
    assert 0 < await other.begin("ada", "10.0.0.1") <= 1.001
    now += 1.001
    assert await other.begin("ada", "10.0.0.1") == 0
    # Setting the clock back locks no user out for longer.
    now -= 1_000_000
    assert 0 < await one.begin("ada", "10.0.0.1") <= 60
    now += 60
    assert await one.begin("ada", "10.0.0.1") == 0
    for store in stores:
        await store.aclose()


async def test_correct_password_is_not_counted() -> None:
    store = MemoryStore()
    limits = LoginLimits(store, clock=lambda: 1_700_000_000.0)
    for _ in range(300):
        assert await limits.begin("ada", "10.0.0.1") == 0
        await limits.succeeded("ada", "10.0.0.1")


async def test_counts_of_login_attempts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    now = 1_700_000_000.0
    limits = LoginLimits(store, clock=lambda: now)
    monkeypatch.setattr(login_limits, "_KEYS", 30)
    for number in range(100):
        now += 0.001
        await limits.begin(f"user {number}", f"10.0.0.{number}")

    def count(connection: sqlite3.Connection) -> int:
        return int(connection.execute("SELECT count(*) FROM page_login_attempts").fetchone()[0])

    assert await store.run(count) <= 33
    now += 601
    await limits.begin("ada", "10.0.0.1")
    assert await store.run(count) == 3
