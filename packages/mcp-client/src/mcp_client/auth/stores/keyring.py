"""Credentials in the keyring of the system.

One entry is one record. Where the system bounds the size of an entry, a long record is cut into parts. They are written
first, under names of their own, and then the entry that names them, in one go: so whoever reads finds the old record or
the new one. Parts have one of two sets of names by turns; what a process left that died in between is overwritten.

A lock for a moment keeps readers and writers apart, one for a login is `KeyringStore.lock`; both are files in the folder
where programs of this user keep their state.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, TypeVar

import orjson
import trio

from mcp_client.auth.stores.locks import FileLocks
from mcp_client.auth.stores.protocol import CredentialStoreError, NoSecureKeyring
from mcp_client.auth.stores.records import check_client, check_tokens, kept_client, kept_tokens

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.oauth.records import ClientRecord, TokenRecord

__all__ = ["KeyringStore", "state_folder"]

_Kind: TypeAlias = Literal["tokens", "clients"]
T = TypeVar("T")

_PART_CHARACTERS: Final[dict[str, int]] = {"keyring.backends.Windows": 1_200}
"""The longest entry, by the module of a backend. Windows takes 2560 octets, two for each character."""

_CHAINER: Final = "keyring.backends.chainer"
_OPEN: Final = "keyrings.alt"
"""Backends that keep secrets in the open, or behind a password that is nobody's but theirs."""

_ALTERNATIVES: Final = (
    "Keep credentials in an encrypted file (FileStore), or only as long as the program runs (MemoryStore)"
)
_CONTENT: Final = "content"
"""The name of the lock for a moment. No URL has it."""


class _Backend(Protocol):
    """What is used of `keyring.backend.KeyringBackend`."""

    def get_password(self, service: str, username: str) -> str | None: ...

    def set_password(self, service: str, username: str, password: str) -> None: ...

    def delete_password(self, service: str, username: str) -> None: ...


class KeyringStore:
    """Keeps credentials in the system's keyring: Keychain, Credential Manager, Secret Service, KWallet.

    It needs the package `keyring`. The keyring is looked for when it is first used.

    Args:
        service: What the entries are called: `mcp tokens` and `mcp clients`.

    Raises:
        CredentialStoreError: The user has no folder for locks.

    *Errors*: `NoSecureKeyring` from any method when the system has none, or only one that keeps secrets in the open;
    `CredentialStoreError` when it refuses, for example because it is locked.
    """

    def __init__(self, service: str = "mcp") -> None:
        self.service: Final = service
        """What the entries are called."""
        self._locks: Final = FileLocks(state_folder(), "keyring")
        self._backend: _Backend | None = None

    async def load_tokens(self, server_url: str) -> TokenRecord | None:
        """See `CredentialStore`."""
        return kept_tokens(server_url, await self._load("tokens", server_url))

    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        """See `CredentialStore`."""
        check_tokens(server_url, tokens)
        await self._save("tokens", server_url, None if tokens is None else tokens.to_json())

    async def load_client(self, issuer: str) -> ClientRecord | None:
        """See `CredentialStore`."""
        return kept_client(issuer, await self._load("clients", issuer))

    async def save_client(self, issuer: str, client: ClientRecord | None) -> None:
        """See `CredentialStore`."""
        check_client(issuer, client)
        await self._save("clients", issuer, None if client is None else client.to_json())

    def lock(self, server_url: str) -> AbstractAsyncContextManager[None]:
        """See `CredentialStore`."""
        return self._locks.held(f"{self.service} server {server_url}")

    async def _load(self, kind: _Kind, name: str) -> JsonValue:
        def load() -> JsonValue:
            return self._asked(lambda backend: _Entry(backend, f"{self.service} {kind}", name).read())

        await self._find()
        async with self._locks.held(f"{self.service} {_CONTENT}"):
            # May be abandoned: a keyring that is locked asks the person, who may have gone.
            return await trio.to_thread.run_sync(load, abandon_on_cancel=True)

    async def _save(self, kind: _Kind, name: str, record: JsonObject | None) -> None:
        def save() -> None:
            self._asked(lambda backend: _Entry(backend, f"{self.service} {kind}", name).write(record))

        await self._find()
        async with self._locks.held(f"{self.service} {_CONTENT}"):
            # From here on nothing can be cancelled: the thread is waited for.
            await trio.to_thread.run_sync(save)

    async def _find(self) -> None:
        """Finds the keyring. Without a lock: where there is none, no folder for locks is made."""
        if self._backend is None:
            await trio.to_thread.run_sync(self._asked, lambda _: None, abandon_on_cancel=True)

    def _asked(self, what: Callable[[_Backend], T]) -> T:
        """Does something with the keyring, and maps what goes wrong."""
        try:
            if self._backend is None:
                self._backend = _secure_backend()
            return what(self._backend)
        except NoSecureKeyring:
            raise
        except Exception as error:  # backends are plug-ins, and raise what their systems raise
            sentence = f"the keyring of the system failed with {type(error).__name__}: is it locked? {_ALTERNATIVES}"
            raise CredentialStoreError(sentence) from error


class _Entry:
    """The entry of one record, with the parts that it may have."""

    def __init__(self, backend: _Backend, service: str, name: str) -> None:
        self._backend: Final = backend
        self._service: Final = service
        self._name: Final = name
        self._longest: Final = _PART_CHARACTERS.get(type(backend).__module__)

    def read(self) -> JsonValue:
        """What is there; `None` for nothing, and something that is no record for what is damaged."""
        document = _document(self._backend.get_password(self._service, self._name))
        parts = _parts(document)
        if parts is None:
            return document
        letter, count = parts
        pieces: list[str] = []
        while len(pieces) < count:
            piece = self._backend.get_password(*self._part(letter, len(pieces)))
            if piece is None:
                return "incomplete"
            pieces.append(piece)
        return _document("".join(pieces))

    def write(self, record: JsonObject | None) -> None:
        """Puts a record there, or nothing."""
        before = self._backend.get_password(self._service, self._name)
        parts = _parts(_document(before))
        letter, count = "b" if parts is not None and parts[0] == "a" else "a", 0
        if record is not None:
            text = json.dumps(record)  # ASCII alone: one character is as long as another
            if self._longest is not None and len(text) > self._longest:
                pieces = [text[place : place + self._longest] for place in range(0, len(text), self._longest)]
                count = len(pieces)
                for number, piece in enumerate(pieces):
                    self._backend.set_password(*self._part(letter, number), piece)
                text = json.dumps({"parts": count, "letter": letter})
            self._backend.set_password(self._service, self._name, text)
        elif before is not None:
            self._backend.delete_password(self._service, self._name)
        if self._longest is not None:
            self._clear("a" if letter == "b" else "b", 0)
            self._clear(letter, count)

    def _part(self, letter: str, number: int) -> tuple[str, str]:
        return f"{self._service} parts", f"{self._name} {letter}{number}"

    def _clear(self, letter: str, number: int) -> None:
        """Deletes the parts from a number on; the last first, so that what is left of it has no gap."""
        end = number
        while self._backend.get_password(*self._part(letter, end)) is not None:
            end += 1
        for each in reversed(range(number, end)):
            self._backend.delete_password(*self._part(letter, each))


def _document(text: str | None) -> JsonValue:
    if text is None:
        return None
    try:
        document: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError:
        return "no JSON"
    return document


def _parts(document: JsonValue) -> tuple[str, int] | None:
    """Which parts an entry names, and how many; `None` when it is a record itself, or nothing."""
    if not isinstance(document, dict):
        return None
    letter, count = document.get("letter"), document.get("parts")
    return (letter, count) if isinstance(letter, str) and isinstance(count, int) else None


def _secure_backend() -> _Backend:
    """The keyring of the system. Raises `NoSecureKeyring`."""
    try:
        import keyring  # lazy: an optional dependency, and slow: it looks for plug-ins
    except ImportError:
        sentence = f"the package keyring, which finds the system's keyring, is not installed. {_ALTERNATIVES}"
        raise NoSecureKeyring(sentence) from None
    chosen = keyring.get_keyring()
    is_chain = type(chosen).__module__ == _CHAINER
    # A chain would pass a secret on to the next one.
    candidates: list[_Backend] = list(getattr(chosen, "backends", ())) if is_chain else [chosen]
    for backend in candidates:
        if _is_secure(backend):
            return backend
    names = ", ".join(type(backend).__module__ for backend in candidates) or "an empty chain"
    raise NoSecureKeyring(f"the keyring is {names}, which keeps secrets in the open or not at all. {_ALTERNATIVES}")


def _is_secure(backend: _Backend) -> bool:
    """Whether secrets are safe there. `keyring` itself recommends backends with a priority of 1 and more only."""
    priority = getattr(backend, "priority", 0)
    module = type(backend).__module__
    return priority >= 1 and module != _OPEN and not module.startswith(f"{_OPEN}.")


def state_folder() -> Path:
    """Where programs of this user keep what is neither configuration nor data of theirs.

    Raises:
        CredentialStoreError: The user has no folder of their own.
    """
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "mcp-client"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Application Support" / "mcp-client"
        named = Path(os.environ.get("XDG_STATE_HOME", ""))
        # Spec: XDG base directories: a path that is not absolute is to be ignored.
        return (named if named.is_absolute() else Path.home() / ".local" / "state") / "mcp-client"
    except RuntimeError:
        raise CredentialStoreError(
            "the user has no home folder, where the locks would be: set XDG_STATE_HOME"
        ) from None
