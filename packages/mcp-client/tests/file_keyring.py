"""A keyring for processes that a test starts. The environment variable `TEST_RING` names its file."""

from __future__ import annotations

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend


class FileKeyring(KeyringBackend):
    """A keyring without encryption. Its priority claims otherwise, so that the client uses it."""

    priority = 5.0

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # keyring has no types there

    def get_password(self, service: str, username: str) -> str | None:
        return self._entries().get(f"{service} {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._write({**self._entries(), f"{service} {username}": password})

    def delete_password(self, service: str, username: str) -> None:
        entries = self._entries()
        del entries[f"{service} {username}"]
        self._write(entries)

    @property
    def _file(self) -> Path:
        return Path(os.environ["TEST_RING"])

    def _entries(self) -> dict[str, str]:
        entries: dict[str, str] = json.loads(self._file.read_text()) if self._file.exists() else {}
        return entries

    def _write(self, entries: dict[str, str]) -> None:
        self._file.write_text(json.dumps(entries))
