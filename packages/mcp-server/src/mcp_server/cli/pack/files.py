"""The files of a bundle: which files of a folder are packed, and the archive.

Users get the bundle. It must not contain what an author keeps beside a server: secrets, version control,
environments. Names that begin with a dot, and those of a table, are not packed. A file that contains a private key, or the
value of a variable of the server, is an error, because the author has to know.
"""

from __future__ import annotations

import fnmatch
import io
import os
import re
import stat
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue
from mcp_server.cli.pack.errors import PackError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["IGNORE_FILE", "FolderContent", "archive", "check_secrets", "collect"]

IGNORE_FILE: Final = ".mcpbignore"
"""The file in the folder of the server with patterns of files that are not packed."""

_MAX_BYTES: Final = 64 * 1024 * 1024
"""The largest sum of the sizes of all files. A server is code; its dependencies are not in the bundle."""

_MAX_FILES: Final = 10_000

_EXCLUDED: Final[Mapping[str, str]] = {
    ".*": "hidden",
    "__pycache__": "compiled",
    "*.pyc": "compiled",
    "*.pyo": "compiled",
    "*.egg-info": "generated",
    "*.whl": "generated",
    "*.mcpb": "generated",
    "*.log": "generated",
    "node_modules": "generated",
    "*.p12": "may contain a secret",
    "*.pfx": "may contain a secret",
    "*.jks": "may contain a secret",
    "*.kdbx": "may contain a secret",
    "id_rsa*": "may contain a secret",
    "id_ecdsa*": "may contain a secret",
    "id_ed25519*": "may contain a secret",
    "credentials*.json": "may contain a secret",
    "client_secret*.json": "may contain a secret",
    "service_account*.json": "may contain a secret",
    "secrets.toml": "may contain a secret",
    "secrets.yaml": "may contain a secret",
    "secrets.yml": "may contain a secret",
    "secrets.json": "may contain a secret",
}
"""Patterns of names that are not packed, with the reason."""

_PRIVATE_KEY: Final = re.compile(rb"^-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----", re.MULTILINE)

_MIN_SECRET: Final = 8
"""The shortest value in characters that is searched in files. Shorter ones occur by chance."""

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time of all members of an archive: the first that the format has."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FolderContent(FieldValue):
    """The files of a folder that are packed, and the others."""

    files: Mapping[str, bytes]
    """The content by path, relative to the folder and with slashes."""
    skipped: Mapping[str, str]
    """The reason by the path of a file or folder that is not packed."""


def collect(folder: Path, starts: Iterable[Path]) -> FolderContent:
    """Read the files that are packed.

    Args:
        folder: The folder of the server, as an absolute path. Paths are relative to it.
        starts: The files and folders to pack, in this folder.

    Raises:
        PackError: A file cannot be read, leads out of the folder, contains a private key, or exceeds a limit.
    """
    folder = Path(os.path.realpath(folder))
    if folder in {Path(folder.anchor), Path(os.path.realpath(Path.home()))}:
        raise PackError(f"all files of {folder} would be packed; move the server to a folder of its own")
    collection = _Collection(folder=folder, ignored=_read_patterns(folder / IGNORE_FILE))
    for start in starts:
        collection.add(Path(os.path.realpath(folder / start.parent)) / start.name if start != folder else folder)
    return FolderContent(
        files=dict(sorted(collection.files.items())),
        skipped=dict(sorted(collection.skipped.items())),
    )


def check_secrets(files: Mapping[str, bytes], secrets: Mapping[str, str]) -> None:
    """Check that no file contains a secret.

    Args:
        files: The content by path in the bundle.
        secrets: The values by the name of their variable.

    Raises:
        PackError: A file contains a value.
    """
    for variable, value in secrets.items():
        for name, content in files.items():
            if len(value) >= _MIN_SECRET and os.fsencode(value) in content:
                raise PackError(
                    f"{name} contains the value of {variable}; read it from the environment when it is used"
                )


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return a ZIP archive. The same files result in the same bytes with the same version of zlib."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, content in sorted(files.items()):
            member = zipfile.ZipInfo(name, _EPOCH)
            member.compress_type = zipfile.ZIP_DEFLATED
            # Without these, the archive depends on the system that writes it.
            member.create_system = 3
            member.external_attr = (stat.S_IFREG | 0o644) << 16
            packed.writestr(member, content, compresslevel=9)
    return buffer.getvalue()


@attrs.define(kw_only=True)
class _Collection:
    """The state of one collection."""

    folder: Path
    ignored: tuple[str, ...]
    files: dict[str, bytes] = attrs.field(factory=dict)
    skipped: dict[str, str] = attrs.field(factory=dict)
    size: int = 0

    def add(self, start: Path) -> None:
        """Read a file, or all files of a folder."""
        waiting = [start]
        while waiting:
            path = waiting.pop()
            name = path.relative_to(self.folder).as_posix()
            reason = None if path == self.folder else self.reason(name, is_folder=path.is_dir())
            if reason is not None:
                self.skipped[name] = reason
            elif path.is_symlink():
                self.read_link(path, name)
            elif path.is_dir():
                if (path / "pyvenv.cfg").is_file():
                    self.skipped[name] = "virtual environment"
                else:
                    waiting += _children(path)
            else:
                self.read(path, name)

    def read_link(self, path: Path, name: str) -> None:
        """Read the target of a symbolic link in the folder."""
        target = Path(os.path.realpath(path))
        if not target.is_relative_to(self.folder):
            raise PackError(
                f"{path} is a symbolic link to {target}, outside of {self.folder}; replace it by a copy, or name it in"
                f" {IGNORE_FILE}"
            )
        if target.is_dir():
            raise PackError(f"{path} is a symbolic link to a folder; replace it by a copy, or name it in {IGNORE_FILE}")
        # The link must not give another name to a file that is not packed.
        reason = self.reason(target.relative_to(self.folder).as_posix(), is_folder=False)
        if reason is None:
            self.read(path, name)
        else:
            self.skipped[name] = f"link to a file that is not packed: {reason}"

    def read(self, path: Path, name: str) -> None:
        """Read a file within the limits, and check its content."""
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise PackError(f"the name of the file {name!r} is not UTF-8; rename it") from error
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise PackError(f"{path} is not a regular file; remove it, or name it in {IGNORE_FILE}")
            with path.open("rb") as file:
                content = file.read(_MAX_BYTES - self.size + 1)
        except OSError as error:
            raise PackError(f"cannot read {path}: {error.strerror}") from error
        self.files[name] = content
        self.size += len(content)
        if self.size > _MAX_BYTES:
            largest = sorted(self.files, key=lambda each: -len(self.files[each]))[:3]
            raise PackError(
                f"the files of {self.folder} have more than {_MAX_BYTES} bytes (the largest: {', '.join(largest)}); name"
                f" what the server does not need in {IGNORE_FILE}"
            )
        if len(self.files) > _MAX_FILES:
            raise PackError(
                f"{self.folder} has more than {_MAX_FILES} files; name what the server does not need in {IGNORE_FILE}"
            )
        if _PRIVATE_KEY.search(content):
            raise PackError(f"{path} contains a private key; remove it, or name the file in {IGNORE_FILE}")

    def reason(self, name: str, *, is_folder: bool) -> str | None:
        """Return why a file or folder, or a file in a folder, is not packed; `None`: it is packed."""
        parts = name.split("/")
        for number, part in enumerate(parts, 1):
            path = "/".join(parts[:number])
            for pattern, reason in _EXCLUDED.items():
                if fnmatch.fnmatchcase(part.lower(), pattern):
                    return reason
            for pattern in self.ignored:
                if _matches(path, pattern, is_folder=is_folder or number < len(parts)):
                    return f"{IGNORE_FILE}: {pattern}"
        return None


def _children(folder: Path) -> Iterator[Path]:
    try:
        yield from folder.iterdir()
    except OSError as error:
        raise PackError(f"cannot read {folder}: {error.strerror}") from error


def _read_patterns(file: Path) -> tuple[str, ...]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise PackError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PackError(f"{file} is not UTF-8 at byte {error.start}; save it as UTF-8") from error
    patterns = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    for pattern in patterns:
        if pattern.startswith("!") or "**" in pattern:
            raise PackError(f"{file}: {pattern!r} is not supported; patterns have *, ? and [...], without ! and **")
    return tuple(patterns)


def _matches(path: str, pattern: str, *, is_folder: bool) -> bool:
    """Compare a pattern with a name, or if the pattern has a slash, with the path from the folder of the server."""
    if pattern.endswith("/") and not is_folder:
        return False
    pattern = pattern.removesuffix("/")
    if "/" in pattern:
        return fnmatch.fnmatchcase(path, pattern.removeprefix("/"))
    return fnmatch.fnmatchcase(path.rpartition("/")[2], pattern)
