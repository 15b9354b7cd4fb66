"""Stores for a client's tokens, and for its client ids at authorization servers.

`MemoryStore` lives as long as the process, `FileStore` is an encrypted file, and `KeyringStore` uses the keyring of the
system. Any class with the methods of `CredentialStore` is an alternative; `mcp_client.auth.stores.contract` checks it.
"""

from __future__ import annotations

from mcp_client.auth.stores.file import FileStore
from mcp_client.auth.stores.keyring import KeyringStore
from mcp_client.auth.stores.memory import MemoryStore
from mcp_client.auth.stores.protocol import CredentialStore, CredentialStoreError, NoSecureKeyring, UnreadableStore

__all__ = [
    "CredentialStore",
    "CredentialStoreError",
    "FileStore",
    "KeyringStore",
    "MemoryStore",
    "NoSecureKeyring",
    "UnreadableStore",
]
