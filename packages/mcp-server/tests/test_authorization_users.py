"""People with passwords, and how often one may try."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server.auth.authorization_server.model.store import MemoryStore, SqliteStore
from mcp_server.auth.authorization_server.pages import users as users_module
from mcp_server.auth.authorization_server.pages.login_limits import LoginLimits
from mcp_server.auth.authorization_server.pages.users import PasswordUsers, StoredUsers, hash_password


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes that take no time; what is checked of the real settings says so."""
    monkeypatch.setattr(users_module, "_COST", 10)


async def test_a_password_opens_and_no_other_does() -> None:
    users = PasswordUsers({"ada": hash_password("lovelace")})
    assert await users.verify("ada", "lovelace") == "ada"
    for name, password in (("ada", "Lovelace"), ("ada", ""), ("ada", "x" * 2000), ("eve", "lovelace"), ("", "")):
        assert await users.verify(name, password) is None


def test_a_hash_shows_its_settings_and_not_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    kept = hash_password("lovelace")
    assert kept.startswith("scrypt$15$8$3$")
    assert "lovelace" not in kept
    assert kept != hash_password("lovelace")


async def test_a_hash_with_other_settings_is_still_read(monkeypatch: pytest.MonkeyPatch) -> None:
    old = hash_password("lovelace")
    monkeypatch.setattr(users_module, "_COST", 11)
    assert await PasswordUsers({"ada": old}).verify("ada", "lovelace") == "ada"


@pytest.mark.parametrize("password", ["", "x" * 1001])
def test_a_password_that_is_none_is_refused(password: str) -> None:
    with pytest.raises(ValueError, match="1 to 1000 characters"):
        hash_password(password)


@pytest.mark.parametrize("kept", ["", "lovelace", "scrypt$99$8$3$AAAAAAAA$AAAAAAAA", "$2b$12$abcdefghijklmnopqrstuv"])
def test_what_is_no_hash_is_refused_by_name_and_not_shown(kept: str) -> None:
    with pytest.raises(ValueError, match=r"the password of eve is not a hash: create one with hash_password") as caught:
        PasswordUsers({"ada": hash_password("x"), "eve": kept})
    assert not kept or kept not in str(caught.value)


async def test_nobody_takes_as_much_work_as_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_only_two_hashes_are_computed_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    users = PasswordUsers({"ada": hash_password("lovelace")})
    assert users._passwords._limiter.total_tokens == 2
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(users.verify, "ada", "lovelace")
        await trio.testing.wait_all_tasks_blocked()
        assert users._passwords._limiter.borrowed_tokens == 2


async def test_two_ways_to_write_a_letter_are_one_password() -> None:
    users = PasswordUsers({"ada": hash_password("caf\u00e9")})
    assert await users.verify("ada", "cafe\u0301") == "ada"


@pytest.mark.property
@settings(max_examples=20)
@given(st.text(min_size=1, max_size=50), st.text(max_size=50))
def test_any_password_fits_its_own_hash_alone(password: str, other: str) -> None:
    users_module._COST = 10  # type: ignore[misc]  # hypothesis and fixtures do not go together; `cheap` puts it back
    kept = hash_password(password)
    assert users_module._matches(password, kept)
    assert users_module._matches(other, kept) == (
        unicodedata.normalize("NFKC", other) == unicodedata.normalize("NFKC", password)
    )


async def test_people_in_the_store_can_be_added_changed_and_removed(tmp_path: Path) -> None:
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


async def test_a_hash_that_somebody_else_put_into_the_store_opens_nothing() -> None:
    store = MemoryStore()
    await store.run(lambda connection: connection.execute("INSERT INTO page_users VALUES ('ada', 'lovelace')"))
    with pytest.raises(ValueError, match="not a hash from hash_password"):
        await StoredUsers(store).verify("ada", "lovelace")


async def test_who_is_removed_is_logged_out() -> None:
    from page_testbed import World  # lazy: this test alone has pages

    store = MemoryStore()
    users = StoredUsers(store)
    await users.put("ada", "lovelace")
    world = World(users=users, store=store)
    browser = world.browser()
    await browser.log_in(world.interactions.add())
    await users.remove("ada")
    assert "You are not logged in" in (await browser.get("/logout")).words


async def test_what_one_address_tries_does_not_use_up_what_a_name_has(mock_clock: trio.testing.MockClock) -> None:
    limits = LoginLimits()
    assert [limits.begin("ada", "10.0.0.1") > 0 for _ in range(200)] == [*[False] * 10, *[True] * 190]
    for address in range(2, 6):
        assert [limits.begin("ada", f"10.0.0.{address}") for _ in range(10)] == [0.0] * 10
    # Fifty in all, from however many addresses.
    assert limits.begin("ada", "10.0.0.9") > 0
    assert limits.begin("eve", "10.0.0.9") == 0
