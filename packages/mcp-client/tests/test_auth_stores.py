from __future__ import annotations

import errno
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import attrs
import keyring
import keyring.backend
import keyring.backends.chainer
import keyring.backends.fail
import keyring.backends.null
import keyring.errors
import pytest
import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mcp_client.auth.stores import (
    CredentialStore,
    CredentialStoreError,
    FileStore,
    KeyringStore,
    MemoryStore,
    NoSecureKeyring,
    UnreadableStore,
    encryption,
)
from mcp_client.auth.stores import keyring as keyring_store
from mcp_client.auth.stores import locks as store_locks
from mcp_client.auth.stores.contract import (
    CREDENTIAL_STORE_CHECKS,
    LASTING_CREDENTIAL_STORE_CHECKS,
    CredentialStoreCheck,
    OpenCredentialStore,
)
from mcp_client.auth.stores.contract_checks import CLIENT, ISSUER, PLAIN, SERVER, TOKENS
from mcp_client.auth.stores.keyring import state_folder
from mcp_client.auth.stores.locks import FileLocks
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.oauth.records import ClientRecord, TokenRecord

KEY = bytes(range(32))
OTHER_KEY = bytes(32)
SECRETS = ("first token", "renewal", "hush hush")


class Ring(keyring.backend.KeyringBackend):
    """A keyring in memory."""

    priority = 5.0

    def __init__(self, longest: int | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # keyring has no types there
        self.kept: dict[tuple[str, str], str] = {}
        self.longest = longest
        self.failing = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.failing:
            raise OSError("the secret is swordfish")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.longest is not None and len(password) > self.longest:
            raise OSError("too long")
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


class ShortRing(Ring):
    """One that takes short entries only."""


ShortRing.__module__ = "short"


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Nothing is written to the folders of whoever runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def ring() -> Iterator[Ring]:
    yield from _installed(Ring())


@pytest.fixture
def short_ring(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ring]:
    monkeypatch.setitem(keyring_store._PART_CHARACTERS, "short", 400)
    yield from _installed(ShortRing(400))


def _installed(ring: Ring) -> Iterator[Ring]:
    before = keyring.get_keyring()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


# --- the contract ----------------------------------------------------------------------------------------------------


def opener(kind: str, folder: Path) -> OpenCredentialStore:
    memory = MemoryStore()
    openers: dict[str, Callable[[], CredentialStore]] = {
        "memory": lambda: memory,
        "file": lambda: FileStore(folder / "deep" / "credentials", key=KEY),
        "keyring": KeyringStore,
        "short keyring": KeyringStore,
    }
    return openers[kind]


@pytest.mark.parametrize("check", CREDENTIAL_STORE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_stores_keep_the_contract(kind: str, check: CredentialStoreCheck, tmp_path: Path) -> None:
    await check(opener(kind, tmp_path))


@pytest.mark.parametrize("check", LASTING_CREDENTIAL_STORE_CHECKS, ids=lambda check: check.__name__)
async def test_a_file_lasts(check: CredentialStoreCheck, tmp_path: Path) -> None:
    await check(opener("file", tmp_path))


@pytest.mark.parametrize(
    "check", CREDENTIAL_STORE_CHECKS + LASTING_CREDENTIAL_STORE_CHECKS, ids=lambda check: check.__name__
)
async def test_keyrings_keep_the_contract(check: CredentialStoreCheck, ring: Ring) -> None:
    await check(KeyringStore)


@pytest.mark.parametrize(
    "check", CREDENTIAL_STORE_CHECKS + LASTING_CREDENTIAL_STORE_CHECKS, ids=lambda check: check.__name__
)
async def test_keyrings_with_short_entries_keep_the_contract(check: CredentialStoreCheck, short_ring: Ring) -> None:
    await check(KeyringStore)


class Stores(RuleBasedStateMachine):
    """All stores say the same as a dictionary would, opened again at any time."""

    names = st.sampled_from([SERVER, f"{SERVER}/", "https://b.example/mcp"])

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.environment = pytest.MonkeyPatch()
        self.environment.setenv("XDG_STATE_HOME", str(self.folder / "state"))
        self.environment.setitem(keyring_store._PART_CHARACTERS, "short", 400)
        self.installed = _installed(ShortRing(400))
        self.ring = next(self.installed)
        self.openers = {kind: opener(kind, self.folder) for kind in ("memory", "file", "short keyring")}
        self.stores = {kind: open_store() for kind, open_store in self.openers.items()}
        self.tokens: dict[str, TokenRecord] = {}
        self.clients: dict[str, ClientRecord] = {}

    def teardown(self) -> None:
        for _ in self.installed:
            pass
        self.environment.undo()
        shutil.rmtree(self.folder)

    @rule(name=names, length=st.sampled_from([1, 300, 3_000]), like=st.sampled_from([TOKENS, PLAIN]))
    def save_tokens(self, name: str, length: int, like: TokenRecord) -> None:
        record = attrs.evolve(like, server_url=name, access_token="t" * length)
        for store in self.stores.values():
            trio.run(store.save_tokens, name, record)
        self.tokens[name] = record

    @rule(name=names)
    def delete_tokens(self, name: str) -> None:
        for store in self.stores.values():
            trio.run(store.save_tokens, name, None)
        self.tokens.pop(name, None)

    @rule(name=names, secret=st.none() | st.text(max_size=500))
    def save_client(self, name: str, secret: str | None) -> None:
        record = attrs.evolve(CLIENT, issuer=name, client_secret=secret)
        for store in self.stores.values():
            trio.run(store.save_client, name, record)
        self.clients[name] = record

    @rule(name=names)
    def delete_client(self, name: str) -> None:
        for store in self.stores.values():
            trio.run(store.save_client, name, None)
        self.clients.pop(name, None)

    @rule()
    def open_again(self) -> None:
        self.stores = {kind: open_store() for kind, open_store in self.openers.items()}

    @invariant()
    def all_is_as_it_was_saved(self) -> None:
        async def compare() -> None:
            for store in self.stores.values():
                for name in (SERVER, f"{SERVER}/", "https://b.example/mcp"):
                    assert await store.load_tokens(name) == self.tokens.get(name)
                    assert await store.load_client(name) == self.clients.get(name)

        trio.run(compare)
        # Nothing is left of what was replaced or deleted.
        records = len(self.tokens) + len(self.clients)
        parts = [service for service, _ in self.ring.kept if service.endswith("parts")]
        assert len(self.ring.kept) - len(parts) == records


TestStores = pytest.mark.property(Stores.TestCase)
TestStores.settings = settings(max_examples=15, stateful_step_count=12, deadline=None)


# --- records that are of no use --------------------------------------------------------------------------------------


async def test_what_is_damaged_or_of_another_version_counts_as_nothing_and_is_logged(
    ring: Ring, caplog: pytest.LogCaptureFixture
) -> None:
    store = KeyringStore("test")
    await store.save_tokens(SERVER, TOKENS)
    await store.save_client(ISSUER, CLIENT)
    ((_, whole),) = [item for item in ring.kept.items() if item[0][0] == "test tokens"]
    for damaged in (whole[:-5], "", "[]", whole.replace('"version": 1', '"version": 2'), '{"parts": 2, "letter": "a"}'):
        caplog.clear()
        ring.kept["test tokens", f"{SERVER}"] = damaged
        assert await store.load_tokens(SERVER) is None
        assert f"stored tokens ignored: server={SERVER}" in caplog.text
        assert not any(secret in caplog.text for secret in SECRETS)
    ring.kept["test clients", ISSUER] = json.dumps({"version": 1, "client_id": 5})
    caplog.clear()
    assert await store.load_client(ISSUER) is None
    assert f"stored client ignored: issuer={ISSUER}" in caplog.text


@pytest.mark.spec("auth.credentials-keyed-by-issuer", "auth.separate-state-per-as")
async def test_a_record_that_was_moved_to_another_name_counts_as_nothing(
    ring: Ring, caplog: pytest.LogCaptureFixture
) -> None:
    store, other = KeyringStore("test"), "https://evil.example/mcp?key=swordfish"
    await store.save_tokens(SERVER, TOKENS)
    await store.save_client(ISSUER, CLIENT)
    ring.kept["test tokens", other] = ring.kept["test tokens", SERVER]
    ring.kept["test clients", other] = ring.kept["test clients", ISSUER]
    assert await store.load_tokens(other) is None
    assert await store.load_client(other) is None
    assert "tokens for https://mcp.example/mcp cannot be stored for https://evil.example/mcp" in caplog.text
    # Keys are sometimes put into the query of a server's URL.
    assert "stored tokens ignored" in caplog.messages[0]
    assert "swordfish" not in caplog.messages[0]


# --- the file --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.refresh-confidential", "auth.client-token-storage", "auth.token-storage")
async def test_the_file_is_encrypted_and_its_owners_alone(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "deep" / "er" / "credentials", key=KEY)
    await store.save_tokens(SERVER, TOKENS)
    await store.save_client(ISSUER, CLIENT)
    data = store.path.read_bytes()
    assert not any(secret.encode() in data for secret in (*SECRETS, SERVER, ISSUER))
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert store.path.parent.stat().st_mode & 0o777 == 0o700
    for beside in store.path.parent.iterdir():
        assert beside.stat().st_mode & 0o077 == 0
        assert beside == store.path or (beside.suffix == ".lock" and beside.stat().st_size == 0)


async def test_the_same_content_is_encrypted_differently_each_time(tmp_path: Path) -> None:
    seen = set()
    for number in range(3):
        store = FileStore(tmp_path / str(number), key=KEY)
        await store.save_tokens(SERVER, TOKENS)
        seen.add(store.path.read_bytes())
    assert len(seen) == 3


async def test_a_file_that_cannot_be_decrypted_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "credentials", key=KEY)
    await store.save_tokens(SERVER, TOKENS)
    whole = store.path.read_bytes()
    header, _, sealed = whole.partition(b"\n")
    changed = bytearray(whole)
    changed[-1] ^= 1
    scrypt: JsonObject = {"name": "scrypt", "n": 2**14, "r": 8, "p": 1, "salt": "AAAA"}
    cases = [
        (whole, OTHER_KEY, "another key or passphrase"),
        (bytes(changed), KEY, "or changed since"),
        (whole[:-20], KEY, "or changed since"),
        (header + b"\n", KEY, "or changed since"),
        (header.replace(b":null", b": null") + b"\n" + sealed, KEY, "or changed since"),
        (header, KEY, "is not a credentials file"),
        (b"my diary", KEY, "is not a credentials file"),
        (b"{}\n", KEY, "is not a credentials file"),
        (whole.replace(b'"version":1', b'"version":2'), KEY, "has format 2"),
        (_with_kdf(scrypt), KEY, "with a key: pass the passphrase"),
    ]
    for data, key, why in cases:
        store.path.write_bytes(data)
        other = FileStore(store.path, key=key)
        for use in (other.load_tokens(SERVER), other.save_tokens(SERVER, PLAIN), other.save_client(ISSUER, None)):
            with pytest.raises(UnreadableStore, match=why) as caught:
                await use
            assert str(store.path) in str(caught.value)
        assert store.path.read_bytes() == data


def _with_kdf(kdf: JsonObject) -> bytes:
    header: JsonObject = {"format": "mcp-credentials", "version": 1, "kdf": kdf}
    return json.dumps(header).encode() + b"\n" + bytes(50)


async def test_an_empty_file_has_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "credentials").touch(0o644)
    store = FileStore(tmp_path / "credentials", key=KEY)
    assert await store.load_tokens(SERVER) is None
    await store.save_tokens(SERVER, TOKENS)
    assert store.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("plain", [b"[]", b"no JSON", b"5"])
async def test_a_file_with_something_else_in_it_is_told(plain: bytes, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_bytes(encryption.Seal(key=KEY, passphrase=None).sealed(plain))
    with pytest.raises(UnreadableStore, match="does not contain credentials"):
        await FileStore(tmp_path / "credentials", key=KEY).load_tokens(SERVER)


async def test_members_that_are_no_records_are_passed_over(tmp_path: Path) -> None:
    plain = b'{"tokens": [], "clients": {"a": 5}, "later": 1}'
    (tmp_path / "credentials").write_bytes(encryption.Seal(key=KEY, passphrase=None).sealed(plain))
    store = FileStore(tmp_path / "credentials", key=KEY)
    assert await store.load_tokens(SERVER) is None
    assert await store.load_client("a") is None


async def test_a_passphrase_opens_what_it_closed(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "credentials", passphrase="correct horse")
    await store.save_tokens(SERVER, TOKENS)
    again = FileStore(store.path, passphrase="correct horse")
    assert await again.load_tokens(SERVER) == TOKENS
    # The salt and the parameters stay, so that nobody has to derive the key twice.
    header = store.path.read_bytes().partition(b"\n")[0]
    await again.save_tokens(SERVER, PLAIN)
    assert store.path.read_bytes().partition(b"\n")[0] == header
    assert await store.load_tokens(SERVER) == PLAIN
    with pytest.raises(UnreadableStore, match="another key or passphrase"):
        await FileStore(store.path, passphrase="battery staple").load_tokens(SERVER)
    with pytest.raises(UnreadableStore, match="with a key: pass the passphrase"):
        await FileStore(store.path, key=KEY).load_tokens(SERVER)
    assert "correct horse" not in f"{store!r} {vars(store)!r}"


@pytest.mark.parametrize(
    "kdf",
    [
        {"name": "scrypt", "n": 2**30, "r": 8, "p": 1, "salt": "AAAA"},
        {"name": "scrypt", "n": 2**14, "r": 8, "p": 1000, "salt": "AAAA"},
        {"name": "scrypt", "n": 3, "r": 8, "p": 1, "salt": "AAAA"},
        {"name": "scrypt", "n": 0, "r": 8, "p": 1, "salt": "AAAA"},
        {"name": "scrypt", "n": 2, "r": 0, "p": 1, "salt": "AAAA"},
        {"name": "scrypt", "n": 2, "r": 1, "p": True, "salt": "AAAA"},
        {"name": "scrypt", "n": 2, "r": 1, "p": 1, "salt": "!"},
        {"name": "scrypt", "n": 2, "r": 1, "p": 1},
        {"name": "md5"},
        5,
    ],
)
async def test_a_file_cannot_make_us_spend_time_and_memory(kdf: JsonObject, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_bytes(_with_kdf(kdf))
    with pytest.raises(UnreadableStore, match="unknown or unreasonable key derivation"):
        await FileStore(tmp_path / "credentials", passphrase="x").load_tokens(SERVER)


def test_a_key_or_a_passphrase_is_needed_that_is_of_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, passphrase, why in (
        (None, None, "a key or a passphrase"),
        (KEY, "x", "either a key or a passphrase"),
        (b"short", None, "has 5 octets, not 32"),
        (None, "", "is empty"),
    ):
        with pytest.raises(ValueError, match=why):
            FileStore(tmp_path / "a", key=key, passphrase=passphrase)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CredentialStoreError, match="needs the package cryptography"):
        FileStore(tmp_path / "a", key=KEY)


async def test_what_the_system_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    store = FileStore(tmp_path / "folder", key=KEY)
    with pytest.raises(CredentialStoreError, match=r"cannot read .*folder: Is a directory"):
        await store.load_tokens(SERVER)
    (tmp_path / "file").touch()
    with pytest.raises(CredentialStoreError, match=r"cannot lock .*: "):
        await FileStore(tmp_path / "file" / "credentials", key=KEY).load_tokens(SERVER)
    store = FileStore(tmp_path / "credentials", key=KEY)
    (tmp_path / "credentials.new").mkdir()
    with pytest.raises(CredentialStoreError, match=r"cannot write .*credentials: "):
        await store.save_tokens(SERVER, TOKENS)


async def test_a_system_that_cannot_lock_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []

    def refuse(opened: int) -> bool:
        closed.append(opened)
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(store_locks, "_lock", refuse)
    with pytest.raises(CredentialStoreError, match=r"cannot lock .*: No locks available"):
        await FileStore(tmp_path / "credentials", key=KEY).load_tokens(SERVER)
    # Nothing is left open.
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(closed[0])


async def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    await FileStore(tmp_path / "link", key=KEY).save_tokens(SERVER, TOKENS)
    assert (tmp_path / "link").is_symlink()
    assert await FileStore(tmp_path / "elsewhere", key=KEY).load_tokens(SERVER) == TOKENS


async def test_nothing_is_written_through_what_somebody_put_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "credentials.new").symlink_to(tmp_path / "victim")
    store = FileStore(tmp_path / "credentials", key=KEY)
    locks = [FileLocks(tmp_path, "credentials").path(name) for name in (f"server {SERVER}", "content")]
    await store.save_tokens(SERVER, TOKENS)
    assert (tmp_path / "victim").read_text() == "precious"
    for lock in locks:
        lock.unlink(missing_ok=True)
        lock.symlink_to(tmp_path / "victim")
    with pytest.raises(CredentialStoreError, match="cannot lock"):
        await store.load_tokens(SERVER)


async def test_what_is_there_already_is_not_written_again(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "credentials", key=KEY)
    await store.save_tokens(SERVER, None)
    assert not store.path.exists()
    await store.save_tokens(SERVER, TOKENS)
    data = store.path.read_bytes()
    await store.save_tokens(SERVER, TOKENS)
    assert store.path.read_bytes() == data


# --- several processes, and their end --------------------------------------------------------------------------------

PROGRAM = """
import os, signal, sys
import attrs, trio
from mcp_client.auth.stores.contract_checks import PLAIN, SERVER, TOKENS
from mcp_client.auth.stores import FileStore

store = FileStore(sys.argv[2], key=bytes(range(32)))

async def count():
    for _ in range(int(sys.argv[3])):
        async with store.lock(SERVER):
            tokens = await store.load_tokens(SERVER)
            await store.save_tokens(SERVER, attrs.evolve(tokens, expires_at=tokens.expires_at + 1))

async def hold():
    async with store.lock(SERVER):
        print("in", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)

async def die():
    def killed(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)
    before = sys.argv[4] == "before"
    step = sys.argv[3]
    real = getattr(os, step)
    def call(*arguments):
        before and killed()
        real(*arguments)
        killed()
    setattr(os, step, call)
    await store.save_tokens(SERVER, attrs.evolve(TOKENS, access_token="new" * 1000))

async def rotate():
    for number in range(1_000_000):
        await store.save_tokens(SERVER, attrs.evolve(TOKENS, access_token="new" * 5000, expires_at=float(number)))
        print(number, flush=True)

trio.run(globals()[sys.argv[1]])
"""


def started(what: str, path: Path, *more: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", PROGRAM, what, str(path), *more]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def test_two_processes_take_turns(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "credentials", key=KEY)
    await store.save_tokens(SERVER, attrs.evolve(TOKENS, expires_at=0.0))
    with started("count", store.path, "15") as one, started("count", store.path, "15") as other:
        assert await trio.to_thread.run_sync(one.wait) == 0
        assert await trio.to_thread.run_sync(other.wait) == 0
    tokens = await store.load_tokens(SERVER)
    assert tokens is not None
    assert tokens.expires_at == 30


@pytest.mark.parametrize("ends", ["by itself", "by kill -9"])
async def test_a_lock_of_another_process_is_waited_for_and_ends_with_it(
    ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, asked, events = FileStore(tmp_path / "credentials", key=KEY), trio.Event(), list[str]()
    take = store_locks._take
    answers: list[bool] = []

    def counted(path: Path) -> int | None:
        taken = take(path)
        answers.append(taken is not None)
        if len(answers) == 3:
            trio.from_thread.run_sync(asked.set)
        return taken

    async def wait() -> None:
        async with store.lock(SERVER):
            events.append("we are in")

    with started("hold", store.path) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert await trio.to_thread.run_sync(other.stdout.readline) == "in\n"
        monkeypatch.setattr(store_locks, "_take", counted)
        # Another server is another lock.
        async with store.lock(f"{SERVER}/other"):
            answers.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await asked.wait()
            events.append("the other goes")
            if ends == "by itself":
                other.stdin.write("\n")
                other.stdin.flush()
            else:
                other.kill()
    assert events == ["the other goes", "we are in"]
    assert answers[:3] == [False] * 3


async def test_who_waits_for_another_process_can_be_cancelled_and_leaves_nothing_locked(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "credentials", key=KEY)
    with started("hold", store.path) as other:
        assert other.stdout is not None
        await trio.to_thread.run_sync(other.stdout.readline)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_enter, store)
                await store.load_tokens(SERVER)
                scope.cancel()
        assert scope.cancelled_caught
        other.kill()
    with trio.fail_after(30):
        async with FileStore(store.path, key=KEY).lock(SERVER):
            pass


async def _enter(store: CredentialStore) -> None:
    async with store.lock(SERVER):
        raise AssertionError("the lock is another process's")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
async def test_a_process_that_is_killed_while_it_saves_leaves_the_old_record_or_the_new_one(
    step: str, when: str, tmp_path: Path
) -> None:
    store = FileStore(tmp_path / "credentials", key=KEY)
    await store.save_tokens(SERVER, TOKENS)
    with started("die", store.path, step, when) as other:
        assert await trio.to_thread.run_sync(other.wait) == -9
    found = await store.load_tokens(SERVER)
    new = attrs.evolve(TOKENS, access_token="new" * 1000)
    assert found == (new if (step, when) == ("replace", "after") else TOKENS)
    # What it left behind is in nobody's way.
    await store.save_tokens(SERVER, PLAIN)
    assert await store.load_tokens(SERVER) == PLAIN
    assert not (tmp_path / "credentials.new").exists()


async def test_a_process_that_is_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "credentials", key=KEY)
    for saves in range(1, 8):
        with started("rotate", store.path) as other:
            assert other.stdout is not None
            for number in range(saves):
                assert other.stdout.readline() == f"{number}\n"
            other.kill()
            more = other.stdout.read()
        found = await store.load_tokens(SERVER)
        assert found is not None
        assert found.access_token == "new" * 5000
        # What it said that it had saved is saved.
        last = int(more.split()[-1]) if more.endswith("\n") else saves - 1
        assert found.expires_at is not None
        assert found.expires_at >= last


async def test_locks_that_nobody_wants_are_forgotten(tmp_path: Path) -> None:
    for store in (MemoryStore(), FileStore(tmp_path / "credentials", key=KEY)):
        for number in range(50):
            async with store.lock(f"{SERVER}/{number}"):
                pass
    assert isinstance(store, FileStore)
    assert store._locks._tasks._locks == {}


# --- the keyring -----------------------------------------------------------------------------------------------------


class OpenRing(Ring):
    """One that keeps secrets in the open, and is not recommended by `keyring` itself."""

    priority = 0.5


class AlternativeRing(Ring):
    """One of the package of alternatives."""


AlternativeRing.__module__ = "keyrings.alt.file"


def untyped(backend: Callable[[], keyring.backend.KeyringBackend]) -> keyring.backend.KeyringBackend:
    return backend()


def chain(*rings: keyring.backend.KeyringBackend) -> keyring.backend.KeyringBackend:
    class Chain(keyring.backends.chainer.ChainerBackend):
        backends: ClassVar = list(rings)
        priority = 10.0

    Chain.__module__ = keyring.backends.chainer.__name__
    return Chain()  # type: ignore[no-untyped-call]  # keyring has no types there


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        (untyped(keyring.backends.null.Keyring), "keyring.backends.null"),
        (untyped(keyring.backends.fail.Keyring), "keyring.backends.fail"),
        (AlternativeRing(), "keyrings.alt.file"),
        (OpenRing(), "test_auth_stores"),
        (chain(), "an empty chain"),
        (chain(OpenRing(), AlternativeRing()), "keyrings.alt.file"),
    ],
)
async def test_a_keyring_that_is_not_safe_is_refused_with_what_to_do(
    backend: keyring.backend.KeyringBackend, name: str, ring: Ring, state: Path
) -> None:
    keyring.set_keyring(backend)
    store = KeyringStore()
    for use in (store.load_tokens(SERVER), store.save_tokens(SERVER, TOKENS), store.load_client(ISSUER)):
        with pytest.raises(NoSecureKeyring, match=name) as caught:
            await use
        assert "FileStore" in str(caught.value)
        assert "MemoryStore" in str(caught.value)
    if isinstance(backend, Ring):
        assert not backend.kept
    # Nor is a folder made for the locks of what is not used.
    assert not state.exists()


async def test_of_a_chain_the_first_safe_keyring_is_used_and_no_other(ring: Ring) -> None:
    unsafe, safe, second = OpenRing(), Ring(), Ring()
    keyring.set_keyring(chain(unsafe, safe, second))
    await KeyringStore().save_tokens(SERVER, TOKENS)
    assert await KeyringStore().load_tokens(SERVER) == TOKENS
    assert (len(unsafe.kept), len(safe.kept), len(second.kept)) == (0, 1, 0)


async def test_without_the_package_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(NoSecureKeyring, match="the package keyring, which gives access"):
        await KeyringStore().load_tokens(SERVER)


async def test_a_keyring_that_fails_is_told_without_its_words(ring: Ring) -> None:
    store = KeyringStore()
    await store.save_tokens(SERVER, TOKENS)
    ring.failing = True
    for use in (store.load_tokens(SERVER), store.save_tokens(SERVER, PLAIN), store.save_tokens(SERVER, None)):
        with pytest.raises(CredentialStoreError, match="failed with OSError; it may be locked") as caught:
            await use
        assert "swordfish" not in str(caught.value)
    ring.failing = False
    assert await store.load_tokens(SERVER) == TOKENS


async def test_entries_are_found_under_the_name_of_the_service(ring: Ring) -> None:
    await KeyringStore().save_tokens(SERVER, TOKENS)
    await KeyringStore("mine").save_client(ISSUER, CLIENT)
    assert {*ring.kept} == {("mcp tokens", SERVER), ("mine clients", ISSUER)}


@pytest.mark.parametrize("dies_at", range(12))
async def test_a_keyring_has_the_old_record_or_the_new_one_whenever_a_save_ends(dies_at: int, short_ring: Ring) -> None:
    store = KeyringStore()
    old, new = (attrs.evolve(TOKENS, access_token=letter * 1_500) for letter in "on")
    await store.save_tokens(SERVER, old)
    done, set_password, delete_password = 0, short_ring.set_password, short_ring.delete_password

    def counted() -> None:
        nonlocal done
        done += 1
        if done > dies_at:
            raise keyring.errors.KeyringLocked

    def set_counted(service: str, username: str, password: str) -> None:
        counted()
        set_password(service, username, password)

    def delete_counted(service: str, username: str) -> None:
        counted()
        delete_password(service, username)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(short_ring, "set_password", set_counted)
        patch.setattr(short_ring, "delete_password", delete_counted)
        with suppress(CredentialStoreError):
            await store.save_tokens(SERVER, new)
    assert await KeyringStore().load_tokens(SERVER) in (old, new)
    # What was left lying about is gone with the next ones.
    for tokens in (old, new, None):
        await store.save_tokens(SERVER, tokens)
    assert not short_ring.kept


async def test_a_keyring_that_asks_the_person_can_be_given_up(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    asking, done, token = trio.Event(), threading.Event(), trio.lowlevel.current_trio_token()

    def ask(service: str, username: str) -> None:
        trio.from_thread.run_sync(asking.set, trio_token=token)
        done.wait()

    monkeypatch.setattr(ring, "get_password", ask)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(KeyringStore().load_tokens, SERVER)
            await asking.wait()
            scope.cancel()
    assert scope.cancelled_caught
    done.set()


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_STATE_HOME": "/state"}, "/state/mcp-client"),
        ("linux", {"XDG_STATE_HOME": "relative"}, "/home/ada/.local/state/mcp-client"),
        ("linux", {}, "/home/ada/.local/state/mcp-client"),
        ("darwin", {"XDG_STATE_HOME": "/state"}, "/home/ada/Library/Application Support/mcp-client"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/mcp-client"),
        ("win32", {}, "/home/ada/AppData/Local/mcp-client"),
    ],
)
def test_locks_are_where_programs_keep_their_state(
    platform: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv("HOME", "/home/ada")
    for name in ("XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert state_folder() == Path(expected)


def test_a_user_without_a_home_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    with pytest.raises(CredentialStoreError, match="set XDG_STATE_HOME"):
        KeyringStore()
