"""Where a client keeps its tokens, and the clients that authorization servers know it by.

`MemoryStore` forgets them with the process, `FileStore` is an encrypted file, `KeyringStore` the keyring of the system. A
class with the same methods as `CredentialStore` is another one; `mcp_client.auth.stores.contract` checks it.
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
