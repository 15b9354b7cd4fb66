"""Credentials in the keyring of the system.

One entry is one record. If the system limits the size of an entry, a long record is split into parts. The parts are
written first, under names of their own, and then, in one operation, the entry that names them. Therefore a reader finds
either the old or the new record. Two sets of names for parts alternate. The next write replaces the parts that a
process left when it died in between.

A short lock separates readers and writers; `KeyringStore.lock` lasts for a login. Both are files in the state folder of
the user.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Protocol, TypeAlias, TypeVar

import orjson
import trio

from mcp_client.auth.stores.locks import FileLocks
from mcp_client.auth.stores.protocol import CredentialStoreError, NoSecureKeyring
from mcp_client.auth.stores.records import check_client, check_tokens, kept_client, kept_tokens
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.trio.extras import require
from mcp_core.trio.owner_task import enterable_from_asyncio

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.oauth.records import ClientRecord, TokenRecord
    from mcp_core.trio.async_library import AsyncLibrary

__all__ = ["KeyringStore", "state_folder"]

_Kind: TypeAlias = Literal["tokens", "clients"]
T = TypeVar("T")

_PART_CHARACTERS: Final[dict[str, int]] = {"keyring.backends.Windows": 1_200}
"""Maximum length of an entry, in characters, by the module of a backend. Windows allows 2560 octets, two per
character."""

_CHAINER: Final = "keyring.backends.chainer"
_OPEN: Final = "keyrings.alt"
"""Backends that store secrets unencrypted, or behind a password that only they use."""

_ALTERNATIVES: Final = (
    "Store credentials in an encrypted file (FileStore), or only while the program runs (MemoryStore)"
)
_CONTENT: Final = "content"
"""The name of the short lock. It cannot be equal to a URL."""


class _Backend(Protocol):
    """The members of `keyring.backend.KeyringBackend` that this module uses."""

    def get_password(self, service: str, username: str) -> str | None: ...

    def set_password(self, service: str, username: str, password: str) -> None: ...

    def delete_password(self, service: str, username: str) -> None: ...


class KeyringStore:
    """A store in the keyring of the system: Keychain, Credential Manager, Secret Service, KWallet.

    It needs `trio-mcp-client[keyring]`. The first use searches for the keyring.

    Args:
        service: The prefix of the service names: `mcp` for `mcp tokens` and `mcp clients`.

    Raises:
        MissingExtra: The package `keyring` is not installed.
        CredentialStoreError: The user does not have a folder for locks.

    *Errors*: any method raises `NoSecureKeyring` if the system does not have a keyring, or only one that stores secrets
    unencrypted. Any method raises `CredentialStoreError` if the keyring fails, for example because it is locked.
    """

    async_library: ClassVar[AsyncLibrary] = "trio"
    """Its methods run on trio. asyncio tasks can call them too."""

    def __init__(self, service: str = "mcp") -> None:
        require("trio-mcp-client", "keyring", "keyring")
        self.service: Final = service
        """The prefix of the service names."""
        self._locks: Final = FileLocks(state_folder(), "keyring")
        self._backend: _Backend | None = None

    @allow_asyncio
    async def load_tokens(self, server_url: str) -> TokenRecord | None:
        """Return the stored tokens for the MCP server; `None` if not found."""
        return kept_tokens(server_url, await self._load("tokens", server_url))

    @allow_asyncio
    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        """Store tokens, or delete them with `None`. The change is atomic."""
        check_tokens(server_url, tokens)
        await self._save("tokens", server_url, None if tokens is None else tokens.to_json())

    @allow_asyncio
    async def load_client(self, issuer: str) -> ClientRecord | None:
        """Return the stored client for the authorization server; `None` if not found."""
        return kept_client(issuer, await self._load("clients", issuer))

    @allow_asyncio
    async def save_client(self, issuer: str, client: ClientRecord | None) -> None:
        """Store a client, or delete it with `None`. The change is atomic."""
        check_client(issuer, client)
        await self._save("clients", issuer, None if client is None else client.to_json())

    def lock(self, server_url: str) -> AbstractAsyncContextManager[None]:
        """Return the lock of the server, which also excludes other processes."""
        return enterable_from_asyncio(
            partial(self._locks.held, f"{self.service} server {server_url}"), "credential store lock"
        )

    async def _load(self, kind: _Kind, name: str) -> JsonValue:
        def load() -> JsonValue:
            return self._call_backend(lambda backend: _Entry(backend, f"{self.service} {kind}", name).read())

        await self._find()
        async with self._locks.held(f"{self.service} {_CONTENT}"):
            # The thread may be abandoned: a locked keyring prompts the user, who may not respond.
            return await trio.to_thread.run_sync(load, abandon_on_cancel=True)

    async def _save(self, kind: _Kind, name: str, record: JsonObject | None) -> None:
        def save() -> None:
            self._call_backend(lambda backend: _Entry(backend, f"{self.service} {kind}", name).write(record))

        await self._find()
        async with self._locks.held(f"{self.service} {_CONTENT}"):
            # From here on there is no cancellation: this waits for the thread.
            await trio.to_thread.run_sync(save)

    async def _find(self) -> None:
        """Find the keyring, without a lock: if there is no keyring, no folder for locks is created."""
        if self._backend is None:
            await trio.to_thread.run_sync(self._call_backend, lambda _: None, abandon_on_cancel=True)

    def _call_backend(self, what: Callable[[_Backend], T]) -> T:
        """Run a function with the keyring, and map its exceptions."""
        try:
            if self._backend is None:
                self._backend = _secure_backend()
            return what(self._backend)
        except NoSecureKeyring:
            raise
        except Exception as error:  # backends are plug-ins, and raise the exceptions of their systems
            sentence = f"the system keyring failed with {type(error).__name__}; it may be locked. {_ALTERNATIVES}"
            raise CredentialStoreError(sentence) from error


class _Entry:
    """The entry of one record, with the parts that it may have."""

    def __init__(self, backend: _Backend, service: str, name: str) -> None:
        self._backend: Final = backend
        self._service: Final = service
        self._name: Final = name
        self._longest: Final = _PART_CHARACTERS.get(type(backend).__module__)

    def read(self) -> JsonValue:
        """Return the document of the entry; `None` if not found, and a text that is not a record if damaged."""
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
        """Write a record, or delete the entry with `None`."""
        before = self._backend.get_password(self._service, self._name)
        parts = _parts(_document(before))
        letter, count = "b" if parts is not None and parts[0] == "a" else "a", 0
        if record is not None:
            text = json.dumps(record)  # ASCII only: all characters have the same length
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
        """Delete the parts from a number on, the last first: if the deletion is interrupted, the rest has no gap."""
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
    """Return the set and the number of the parts that an entry names; `None` if the entry is a record or empty."""
    if not isinstance(document, dict):
        return None
    letter, count = document.get("letter"), document.get("parts")
    return (letter, count) if isinstance(letter, str) and isinstance(count, int) else None


def _secure_backend() -> _Backend:
    """Return the keyring of the system. Raises `NoSecureKeyring`."""
    import keyring  # lazy: an optional dependency, and slow: it looks for plug-ins

    chosen = keyring.get_keyring()
    is_chain = type(chosen).__module__ == _CHAINER
    # A chain would pass a secret on to the next backend if one fails.
    candidates: list[_Backend] = list(getattr(chosen, "backends", ())) if is_chain else [chosen]
    for backend in candidates:
        if _is_secure(backend):
            return backend
    names = ", ".join(type(backend).__module__ for backend in candidates) or "an empty chain"
    raise NoSecureKeyring(f"no secure keyring: found {names}, which does not protect secrets. {_ALTERNATIVES}")


def _is_secure(backend: _Backend) -> bool:
    """Return whether a backend protects secrets. `keyring` recommends only backends with a priority of 1 or more."""
    priority = getattr(backend, "priority", 0)
    module = type(backend).__module__
    return priority >= 1 and module != _OPEN and not module.startswith(f"{_OPEN}.")


def state_folder() -> Path:
    """Return the folder for the state of programs of this user, which is neither configuration nor user data.

    Raises:
        CredentialStoreError: The user does not have a home folder.
    """
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "mcp-client"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Application Support" / "mcp-client"
        named = Path(os.environ.get("XDG_STATE_HOME", ""))
        # Spec: XDG base directories: "all paths must be absolute"; a relative path is ignored.
        return (named if named.is_absolute() else Path.home() / ".local" / "state") / "mcp-client"
    except RuntimeError:
        raise CredentialStoreError(
            "the user does not have a home folder for the lock files; set XDG_STATE_HOME"
        ) from None
