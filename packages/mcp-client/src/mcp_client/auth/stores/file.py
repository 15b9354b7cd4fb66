"""Credentials in an encrypted file, which several processes may share.

A change reads the whole file and writes it anew: into a file beside it, which takes its place when it is on the disk. So
at any moment there is the old content or the new one. Who changes or reads holds a lock for that moment; it is another one
than that of `FileStore.lock`, which lasts for a login.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import orjson
import trio

from mcp_client.auth.stores.encryption import Seal
from mcp_client.auth.stores.locks import FileLocks, private_folder
from mcp_client.auth.stores.protocol import CredentialStoreError, UnreadableStore
from mcp_client.auth.stores.records import check_client, check_tokens, kept_client, kept_tokens

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.oauth.records import ClientRecord, TokenRecord

__all__ = ["FileStore"]

_Kind: TypeAlias = Literal["tokens", "clients"]

_CONTENT: Final = "content"
"""The name of the lock for a moment. No URL has it."""


class FileStore:
    """Keeps credentials in a file that is encrypted with AES-256-GCM, and readable by its owner only.

    Several processes may use it at once, also with locks: beside the file there are empty ones that end in `.lock`. It
    needs the package `cryptography`.

    Args:
        path: The file. Its folder is made, for its owner alone, where there is none.
        key: 32 octets, as `secrets.token_bytes(32)` makes them; not to be kept beside the file.
        passphrase: In place of a key; scrypt makes one of it.

    Raises:
        ValueError: There is not exactly one of key and passphrase, or it is of no use.
        CredentialStoreError: The package `cryptography` is not installed.

    *Errors*: `UnreadableStore` from any method when the file cannot be decrypted; it is never overwritten then.
    `CredentialStoreError` when the file or a lock cannot be read or written.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, key: bytes | None = None, passphrase: str | None = None
    ) -> None:
        self.path: Final = Path(path).resolve()
        """The file; a link was followed."""
        self._seal: Final = Seal(key=key, passphrase=passphrase)
        self._locks: Final = FileLocks(self.path.parent, self.path.name)

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
        return self._locks.held(f"server {server_url}")

    async def _load(self, kind: _Kind, name: str) -> JsonValue:
        async with self._locks.held(_CONTENT):
            content = await trio.to_thread.run_sync(self._read)
        return content[kind].get(name)

    async def _save(self, kind: _Kind, name: str, record: JsonObject | None) -> None:
        async with self._locks.held(_CONTENT):
            # From here on nothing can be cancelled: the thread is waited for.
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
            raise CredentialStoreError(f"{self.path} cannot be read: {error.strerror or error}") from error
        try:
            document: JsonValue = orjson.loads(self._seal.opened(data, str(self.path))) if data else {}
        except orjson.JSONDecodeError:
            document = None
        if not isinstance(document, dict):
            raise UnreadableStore(f"{self.path} has something else in it than credentials, and is left as it is")
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
                # Of a process that died. Not to be written into: its mode is whatever it is.
                beside.unlink()
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(sealed)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.path)
            _settle(self.path.parent)
        except OSError as error:
            raise CredentialStoreError(f"{self.path} cannot be written: {error.strerror or error}") from error


def _settle(folder: Path) -> None:
    """Has the new name of a file on the disk. Windows can not be told to do so."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
