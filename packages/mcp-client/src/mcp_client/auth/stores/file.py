"""Credentials in an encrypted file, which several processes may share.

A change reads the whole file and writes a new one: a temporary file next to it replaces it when its data is on the
disk. Therefore the file always has either the old or the new content. Each read and each change holds a short lock,
which differs from `FileStore.lock` for the time of a login.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

import orjson
import trio

from mcp_client.auth.stores.encryption import Seal
from mcp_client.auth.stores.locks import FileLocks, private_folder
from mcp_client.auth.stores.protocol import CredentialStoreError, UnreadableStore
from mcp_client.auth.stores.records import check_client, check_tokens, kept_client, kept_tokens
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.trio.owner_task import enterable_from_asyncio

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.oauth.records import ClientRecord, TokenRecord
    from mcp_core.trio.async_library import AsyncLibrary

__all__ = ["FileStore"]

_Kind: TypeAlias = Literal["tokens", "clients"]

_CONTENT: Final = "content"
"""The name of the short lock. It cannot be equal to a URL."""


class FileStore:
    """A store in a file that is encrypted with AES-256-GCM and readable only by its owner.

    Several processes may use the file concurrently, also its locks. The lock files are next to it; they are empty, and
    their names end in `.lock`. The store needs `trio-mcp-client[auth]`.

    Args:
        path: The file. If its folder does not exist, it is created with access for its owner only.
        key: 32 octets, for example from `secrets.token_bytes(32)`. Do not store the key next to the file.
        passphrase: A passphrase instead of a key; scrypt derives a key from it.

    Raises:
        ValueError: Both or neither of `key` and `passphrase` are given, or the one given is not valid.
        MissingExtra: The package `cryptography` is not installed.

    *Errors*: any method raises `UnreadableStore` if the file cannot be decrypted; the file is then never overwritten.
    Any method raises `CredentialStoreError` if the file or a lock cannot be read or written.
    """

    async_library: ClassVar[AsyncLibrary] = "trio"
    """Its methods run on trio. asyncio tasks can call them too."""

    def __init__(
        self, path: str | os.PathLike[str], *, key: bytes | None = None, passphrase: str | None = None
    ) -> None:
        self.path: Final = Path(path).resolve()
        """The file, with symbolic links resolved."""
        self._seal: Final = Seal(key=key, passphrase=passphrase)
        self._locks: Final = FileLocks(self.path.parent, self.path.name)

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
        return enterable_from_asyncio(partial(self._locks.held, f"server {server_url}"), "credential store lock")

    async def _load(self, kind: _Kind, name: str) -> JsonValue:
        async with self._locks.held(_CONTENT):
            content = await trio.to_thread.run_sync(self._read)
        return content[kind].get(name)

    async def _save(self, kind: _Kind, name: str, record: JsonObject | None) -> None:
        async with self._locks.held(_CONTENT):
            # From here on there is no cancellation: this waits for the thread.
            await trio.to_thread.run_sync(self._change, kind, name, record)

    def _change(self, kind: _Kind, name: str, record: JsonObject | None) -> None:
        content = self._read()
        before = content[kind].pop(name, None)
        if record is not None:
            content[kind][name] = record
        if record != before:
            self._write(content)

    def _read(self) -> dict[_Kind, JsonObject]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise CredentialStoreError(f"cannot read {self.path}: {error.strerror or error}") from error
        try:
            document: JsonValue = orjson.loads(self._seal.opened(data, str(self.path))) if data else {}
        except orjson.JSONDecodeError:
            document = None
        if not isinstance(document, dict):
            raise UnreadableStore(f"{self.path} does not contain credentials, and is left unchanged")
        tokens, clients = document.get("tokens"), document.get("clients")
        return {
            "tokens": tokens if isinstance(tokens, dict) else {},
            "clients": clients if isinstance(clients, dict) else {},
        }

    def _write(self, content: dict[_Kind, JsonObject]) -> None:
        sealed = self._seal.sealed(orjson.dumps(content))
        beside = self.path.with_name(f"{self.path.name}.new")
        try:
            private_folder(self.path.parent)
            with suppress(FileNotFoundError):
                # Left by a process that died. It is not reused, because its access mode is unknown.
                beside.unlink()
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(sealed)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.path)
            _settle(self.path.parent)
        except OSError as error:
            raise CredentialStoreError(f"cannot write {self.path}: {error.strerror or error}") from error


def _settle(folder: Path) -> None:
    """Flush the new name of a file to the disk. Windows does not support this."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
