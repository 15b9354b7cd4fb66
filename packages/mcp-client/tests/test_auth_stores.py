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
from mcp_core.errors import MissingExtra
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.oauth.records import ClientRecord, TokenRecord

KEY = bytes(range(32))
OTHER_KEY = bytes(32)
SECRETS = ("first token", "renewal", "hush hush")


class Ring(keyring.backend.KeyringBackend):
    """A keyring in memory."""

    priority = 5.0

    def __init__(self, max_length: int | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # keyring has no types there
        self.entries: dict[tuple[str, str], str] = {}
        self.max_length = max_length
        self.failing = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.failing:
            raise OSError("the secret is swordfish")
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.max_length is not None and len(password) > self.max_length:
            raise OSError("too long")
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.entries[service, username]


class ShortRing(Ring):
    """A keyring with a bound on the length of entries."""


ShortRing.__module__ = "short"


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Keep tests from writing to the state folder of the user who runs them."""
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
async def test_store_keeps_contract(kind: str, check: CredentialStoreCheck, tmp_path: Path) -> None:
    await check(opener(kind, tmp_path))


@pytest.mark.parametrize("check", LASTING_CREDENTIAL_STORE_CHECKS, ids=lambda check: check.__name__)
async def test_file_store_keeps_persistence_contract(check: CredentialStoreCheck, tmp_path: Path) -> None:
    await check(opener("file", tmp_path))


@pytest.mark.parametrize(
    "check", CREDENTIAL_STORE_CHECKS + LASTING_CREDENTIAL_STORE_CHECKS, ids=lambda check: check.__name__
)
async def test_keyring_store_keeps_contract(check: CredentialStoreCheck, ring: Ring) -> None:
    await check(KeyringStore)


@pytest.mark.parametrize(
    "check", CREDENTIAL_STORE_CHECKS + LASTING_CREDENTIAL_STORE_CHECKS, ids=lambda check: check.__name__
)
async def test_keyring_store_short_entries_keeps_contract(check: CredentialStoreCheck, short_ring: Ring) -> None:
    await check(KeyringStore)


class Stores(RuleBasedStateMachine):
    """All stores behave like a dictionary, also when they are opened again at any time."""

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

    @rule(name=names, length=st.sampled_from([1, 300, 3_000]), template=st.sampled_from([TOKENS, PLAIN]))
    def save_tokens(self, name: str, length: int, template: TokenRecord) -> None:
        record = attrs.evolve(template, server_url=name, access_token="t" * length)
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
    def stores_equal_model(self) -> None:
        async def compare() -> None:
            for store in self.stores.values():
                for name in (SERVER, f"{SERVER}/", "https://b.example/mcp"):
                    assert await store.load_tokens(name) == self.tokens.get(name)
                    assert await store.load_client(name) == self.clients.get(name)

        trio.run(compare)
        # No entry remains of what was replaced or deleted.
        records = len(self.tokens) + len(self.clients)
        parts = [service for service, _ in self.ring.entries if service.endswith("parts")]
        assert len(self.ring.entries) - len(parts) == records


TestStores = pytest.mark.property(Stores.TestCase)
TestStores.settings = settings(max_examples=15, stateful_step_count=12, deadline=None)


# --- unusable records ---------------------------------------------------------------------------------------------------


async def test_record_damaged_or_other_version_ignored_and_logged(ring: Ring, caplog: pytest.LogCaptureFixture) -> None:
    store = KeyringStore("test")
    await store.save_tokens(SERVER, TOKENS)
    await store.save_client(ISSUER, CLIENT)
    ((_, whole),) = [item for item in ring.entries.items() if item[0][0] == "test tokens"]
    for damaged in (whole[:-5], "", "[]", whole.replace('"version": 1', '"version": 2'), '{"parts": 2, "letter": "a"}'):
        caplog.clear()
        ring.entries["test tokens", f"{SERVER}"] = damaged
        assert await store.load_tokens(SERVER) is None
        assert f"stored tokens ignored: server={SERVER}" in caplog.text
        assert not any(secret in caplog.text for secret in SECRETS)
    ring.entries["test clients", ISSUER] = json.dumps({"version": 1, "client_id": 5})
    caplog.clear()
    assert await store.load_client(ISSUER) is None
    assert f"stored client ignored: issuer={ISSUER}" in caplog.text


@pytest.mark.spec("auth.credentials-keyed-by-issuer", "auth.separate-state-per-as")
async def test_record_under_other_name_ignored(ring: Ring, caplog: pytest.LogCaptureFixture) -> None:
    store, other = KeyringStore("test"), "https://evil.example/mcp?key=swordfish"
    await store.save_tokens(SERVER, TOKENS)
    await store.save_client(ISSUER, CLIENT)
    ring.entries["test tokens", other] = ring.entries["test tokens", SERVER]
    ring.entries["test clients", other] = ring.entries["test clients", ISSUER]
    assert await store.load_tokens(other) is None
    assert await store.load_client(other) is None
    assert "tokens for https://mcp.example/mcp cannot be stored for https://evil.example/mcp" in caplog.text
    # URLs of servers sometimes carry keys in their query.
    assert "stored tokens ignored" in caplog.messages[0]
    assert "swordfish" not in caplog.messages[0]


# --- the file --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.refresh-confidential", "auth.client-token-storage", "auth.token-storage")
async def test_file_encrypted_and_private_to_owner(tmp_path: Path) -> None:
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


async def test_file_same_content_encrypts_differently(tmp_path: Path) -> None:
    contents = set()
    for number in range(3):
        store = FileStore(tmp_path / str(number), key=KEY)
        await store.save_tokens(SERVER, TOKENS)
        contents.add(store.path.read_bytes())
    assert len(contents) == 3


async def test_file_undecryptable_raises_and_stays_unchanged(tmp_path: Path) -> None:
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
    for data, key, reason in cases:
        store.path.write_bytes(data)
        other = FileStore(store.path, key=key)
        for operation in (other.load_tokens(SERVER), other.save_tokens(SERVER, PLAIN), other.save_client(ISSUER, None)):
            with pytest.raises(UnreadableStore, match=reason) as caught:
                await operation
            assert str(store.path) in str(caught.value)
        assert store.path.read_bytes() == data


def _with_kdf(kdf: JsonObject) -> bytes:
    header: JsonObject = {"format": "mcp-credentials", "version": 1, "kdf": kdf}
    return json.dumps(header).encode() + b"\n" + bytes(50)


async def test_file_empty_has_no_records(tmp_path: Path) -> None:
    (tmp_path / "credentials").touch(0o644)
    store = FileStore(tmp_path / "credentials", key=KEY)
    assert await store.load_tokens(SERVER) is None
    await store.save_tokens(SERVER, TOKENS)
    assert store.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("plain", [b"[]", b"no JSON", b"5"])
async def test_file_other_content_raises(plain: bytes, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_bytes(encryption.Seal(key=KEY, passphrase=None).sealed(plain))
    with pytest.raises(UnreadableStore, match="does not contain credentials"):
        await FileStore(tmp_path / "credentials", key=KEY).load_tokens(SERVER)


async def test_file_invalid_members_ignored(tmp_path: Path) -> None:
    plain = b'{"tokens": [], "clients": {"a": 5}, "later": 1}'
    (tmp_path / "credentials").write_bytes(encryption.Seal(key=KEY, passphrase=None).sealed(plain))
    store = FileStore(tmp_path / "credentials", key=KEY)
    assert await store.load_tokens(SERVER) is None
    assert await store.load_client("a") is None


async def test_file_passphrase_round_trip(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "credentials", passphrase="correct horse")
    await store.save_tokens(SERVER, TOKENS)
    again = FileStore(store.path, passphrase="correct horse")
    assert await again.load_tokens(SERVER) == TOKENS
    # The salt and the parameters stay, so that each process derives the key only once.
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
async def test_file_excessive_key_derivation_rejected(kdf: JsonObject, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_bytes(_with_kdf(kdf))
    with pytest.raises(UnreadableStore, match="unknown or unreasonable key derivation"):
        await FileStore(tmp_path / "credentials", passphrase="x").load_tokens(SERVER)


def test_file_store_key_or_passphrase_required(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, passphrase, reason in (
        (None, None, "a key or a passphrase"),
        (KEY, "x", "either a key or a passphrase"),
        (b"short", None, "has 5 octets, not 32"),
        (None, "", "is empty"),
    ):
        with pytest.raises(ValueError, match=reason):
            FileStore(tmp_path / "a", key=key, passphrase=passphrase)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        MissingExtra, match=r"cryptography is not installed; type: pip install 'trio-mcp-client\[auth\]'"
    ):
        FileStore(tmp_path / "a", key=KEY)


async def test_file_store_os_error_raises(tmp_path: Path) -> None:
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


async def test_file_store_lock_unsupported_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []

    def refuse(opened: int) -> bool:
        closed.append(opened)
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(store_locks, "_lock", refuse)
    with pytest.raises(CredentialStoreError, match=r"cannot lock .*: No locks available"):
        await FileStore(tmp_path / "credentials", key=KEY).load_tokens(SERVER)
    # No descriptor stays open.
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(closed[0])


async def test_file_symlink_followed_and_kept(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    await FileStore(tmp_path / "link", key=KEY).save_tokens(SERVER, TOKENS)
    assert (tmp_path / "link").is_symlink()
    assert await FileStore(tmp_path / "elsewhere", key=KEY).load_tokens(SERVER) == TOKENS


async def test_file_foreign_symlinks_not_written_through(tmp_path: Path) -> None:
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


async def test_file_unchanged_record_not_written(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "credentials", key=KEY)
    await store.save_tokens(SERVER, None)
    assert not store.path.exists()
    await store.save_tokens(SERVER, TOKENS)
    data = store.path.read_bytes()
    await store.save_tokens(SERVER, TOKENS)
    assert store.path.read_bytes() == data


# --- several processes, and killed ones ---------------------------------------------------------------------------------

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


def started(action: str, path: Path, *output_rest: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", PROGRAM, action, str(path), *output_rest]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def test_file_two_processes_serialize_updates(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "credentials", key=KEY)
    await store.save_tokens(SERVER, attrs.evolve(TOKENS, expires_at=0.0))
    with started("count", store.path, "15") as one, started("count", store.path, "15") as other:
        assert await trio.to_thread.run_sync(one.wait) == 0
        assert await trio.to_thread.run_sync(other.wait) == 0
    tokens = await store.load_tokens(SERVER)
    assert tokens is not None
    assert tokens.expires_at == 30


@pytest.mark.parametrize("ends", ["on its own", "by kill -9"])
async def test_lock_of_other_process_awaited_until_its_end(
    ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, waiting, events = FileStore(tmp_path / "credentials", key=KEY), trio.Event(), list[str]()
    take = store_locks._take
    answers: list[bool] = []

    def counted(path: Path) -> int | None:
        taken = take(path)
        answers.append(taken is not None)
        if len(answers) == 3:
            trio.from_thread.run_sync(waiting.set)
        return taken

    async def wait() -> None:
        async with store.lock(SERVER):
            events.append("lock acquired")

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
            await waiting.wait()
            events.append("lock released")
            if ends == "on its own":
                other.stdin.write("\n")
                other.stdin.flush()
            else:
                other.kill()
    assert events == ["lock released", "lock acquired"]
    assert answers[:3] == [False] * 3


async def test_lock_wait_cancelled_leaves_no_lock(tmp_path: Path) -> None:
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
        raise AssertionError("another process holds the lock")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
async def test_save_killed_leaves_old_or_new_record(step: str, when: str, tmp_path: Path) -> None:
    store = FileStore(tmp_path / "credentials", key=KEY)
    await store.save_tokens(SERVER, TOKENS)
    with started("die", store.path, step, when) as other:
        assert await trio.to_thread.run_sync(other.wait) == -9
    found = await store.load_tokens(SERVER)
    new = attrs.evolve(TOKENS, access_token="new" * 1000)
    assert found == (new if (step, when) == ("replace", "after") else TOKENS)
    # The file that it left does not prevent the next save.
    await store.save_tokens(SERVER, PLAIN)
    assert await store.load_tokens(SERVER) == PLAIN
    assert not (tmp_path / "credentials.new").exists()


async def test_save_killed_at_any_moment_leaves_whole_file(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "credentials", key=KEY)
    for saves in range(1, 8):
        with started("rotate", store.path) as other:
            assert other.stdout is not None
            for number in range(saves):
                assert other.stdout.readline() == f"{number}\n"
            other.kill()
            output_rest = other.stdout.read()
        found = await store.load_tokens(SERVER)
        assert found is not None
        assert found.access_token == "new" * 5000
        # A save that was reported as done is durable.
        last = int(output_rest.split()[-1]) if output_rest.endswith("\n") else saves - 1
        assert found.expires_at is not None
        assert found.expires_at >= last


async def test_released_locks_removed(tmp_path: Path) -> None:
    for store in (MemoryStore(), FileStore(tmp_path / "credentials", key=KEY)):
        for number in range(50):
            async with store.lock(f"{SERVER}/{number}"):
                pass
    assert isinstance(store, FileStore)
    assert store._locks._tasks._locks == {}


# --- the keyring -----------------------------------------------------------------------------------------------------


class OpenRing(Ring):
    """A keyring that stores secrets in clear text, with a priority below the recommended ones."""

    priority = 0.5


class AlternativeRing(Ring):
    """A keyring of the package `keyrings.alt`."""


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
async def test_insecure_keyring_rejected(
    backend: keyring.backend.KeyringBackend, name: str, ring: Ring, state: Path
) -> None:
    keyring.set_keyring(backend)
    store = KeyringStore()
    for operation in (store.load_tokens(SERVER), store.save_tokens(SERVER, TOKENS), store.load_client(ISSUER)):
        with pytest.raises(NoSecureKeyring, match=name) as caught:
            await operation
        assert "FileStore" in str(caught.value)
        assert "MemoryStore" in str(caught.value)
    if isinstance(backend, Ring):
        assert not backend.entries
    # No folder is made for locks either.
    assert not state.exists()


async def test_keyring_chain_uses_first_secure_one(ring: Ring) -> None:
    unsafe, safe, second = OpenRing(), Ring(), Ring()
    keyring.set_keyring(chain(unsafe, safe, second))
    await KeyringStore().save_tokens(SERVER, TOKENS)
    assert await KeyringStore().load_tokens(SERVER) == TOKENS
    assert (len(unsafe.entries), len(safe.entries), len(second.entries)) == (0, 1, 0)


def test_keyring_package_missing_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'trio-mcp-client\[keyring\]'"):
        KeyringStore()


async def test_keyring_failure_raises_without_its_message(ring: Ring) -> None:
    store = KeyringStore()
    await store.save_tokens(SERVER, TOKENS)
    ring.failing = True
    for operation in (store.load_tokens(SERVER), store.save_tokens(SERVER, PLAIN), store.save_tokens(SERVER, None)):
        with pytest.raises(CredentialStoreError, match="failed with OSError; it may be locked") as caught:
            await operation
        assert "swordfish" not in str(caught.value)
    ring.failing = False
    assert await store.load_tokens(SERVER) == TOKENS


async def test_keyring_entries_named_by_service(ring: Ring) -> None:
    await KeyringStore().save_tokens(SERVER, TOKENS)
    await KeyringStore("mine").save_client(ISSUER, CLIENT)
    assert {*ring.entries} == {("mcp tokens", SERVER), ("mine clients", ISSUER)}


@pytest.mark.parametrize("fails_at", range(12))
async def test_keyring_save_interrupted_keeps_old_or_new_record(fails_at: int, short_ring: Ring) -> None:
    store = KeyringStore()
    old, new = (attrs.evolve(TOKENS, access_token=letter * 1_500) for letter in "on")
    await store.save_tokens(SERVER, old)
    done, set_password, delete_password = 0, short_ring.set_password, short_ring.delete_password

    def counted() -> None:
        nonlocal done
        done += 1
        if done > fails_at:
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
    # The next saves remove entries that were left over.
    for tokens in (old, new, None):
        await store.save_tokens(SERVER, tokens)
    assert not short_ring.entries


async def test_keyring_prompt_cancelled(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    prompting, done, token = trio.Event(), threading.Event(), trio.lowlevel.current_trio_token()

    def prompt(service: str, username: str) -> None:
        trio.from_thread.run_sync(prompting.set, trio_token=token)
        done.wait()

    monkeypatch.setattr(ring, "get_password", prompt)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(KeyringStore().load_tokens, SERVER)
            await prompting.wait()
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
def test_state_folder_of_platform(
    platform: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv("HOME", "/home/ada")
    for name in ("XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert state_folder() == Path(expected)


def test_state_folder_without_home_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    with pytest.raises(CredentialStoreError, match="set XDG_STATE_HOME"):
        KeyringStore()
