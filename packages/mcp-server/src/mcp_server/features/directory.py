"""The files of a directory as resources. Spec: server/resources"""

from __future__ import annotations

import logging
import mimetypes
import os
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import trio

from mcp_core.errors import ErrorCode, LimitExceeded, RequestFailed, ResourceNotFound
from mcp_core.types import Annotations, BlobResourceContents, Resource, TextResourceContents
from mcp_server.errors import RegistrationError
from mcp_server.features.files import Files
from mcp_server.features.listing import Item
from mcp_server.options import check_text
from mcp_server.uris.template import InvalidTemplate, UriTemplate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.types import ResourceContents
    from mcp_server.handlers.environment import HandlerEnvironment

    T = TypeVar("T")

__all__ = ["Directory", "contents_of"]

_log: Final = logging.getLogger("mcp_server")

_NO_TEXT: Final = ("image/", "audio/", "video/", "font/")
"""Media types that are never text, even if the bytes decode as UTF-8, except types that end in `+xml`."""

_COMPRESSED: Final = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}


class Directory:
    """The files below a directory, each with its own URI. A `mcp_server.features.listing.Source`.

    Args:
        path: The directory.
        uri: The URI prefix of its files; ends in a slash.
        hidden: Whether to serve files and directories whose names begin with a dot.
        environment: The environment of the handlers of the server.

    Raises:
        RegistrationError: The directory does not exist, or the URI is not a valid prefix.
    """

    def __init__(
        self, path: str | os.PathLike[str], uri: str, *, hidden: bool, environment: HandlerEnvironment
    ) -> None:
        check_text("the URI of a directory", uri)
        if not isinstance(path, (str, os.PathLike)):
            raise RegistrationError(f"the directory of {uri!r} must be a path, not {path!r}")
        if not uri.endswith("/") or "{" in uri:
            raise RegistrationError(f"the URI of a directory must end in a slash and have no variables, not {uri!r}")
        try:
            root = Path(path).resolve(strict=True)
            self.template: Final = UriTemplate(f"{uri}{{+path}}")
        except (OSError, ValueError, InvalidTemplate) as error:
            raise RegistrationError(
                f"the directory {os.fspath(path)!r} cannot be served as {uri!r}: {error}"
            ) from error
        if not root.is_dir():
            raise RegistrationError(f"{os.fspath(path)!r} is not a directory")
        self.uri: Final = uri
        self._files: Final = Files(str(root), hidden=hidden)
        self._environment: Final = environment
        self._warned = False

    def uri_of(self, path: str) -> str:
        """Return the URI of a file in the form in which it is listed."""
        return f"{self.uri}{quote(path)}"

    async def read(self, path: str) -> ResourceContents:
        """Return the contents of a file. Raises `ResourceNotFound`, or `RequestFailed` if the file is too large."""
        uri, most = self.uri_of(path), self._environment.limits.file_bytes
        try:
            data = await self._in_thread(lambda: self._files.read(path, most))
        except FileNotFoundError:
            raise ResourceNotFound.of(uri) from None
        except OSError as error:
            _log.warning("%s cannot be read: %s", uri, error)
            raise ResourceNotFound.of(uri) from error
        except LimitExceeded as limit:
            raise RequestFailed(limit.message, code=ErrorCode.INVALID_REQUEST) from limit
        return contents_of(uri, path, data)

    async def after(self, place: JsonValue, count: int) -> Sequence[Item]:
        """Return up to `count` files whose paths follow `place`."""
        behind = place.split("/") if isinstance(place, str) else []
        try:
            return await self._in_thread(lambda: self._items(behind, count))
        except OSError as error:
            # A directory that was removed, or that is not readable any more, must not break the lists of other sources.
            _log.warning("the files of %s cannot be listed: %s", self.uri, error)
            return []

    def _items(self, behind: list[str], count: int) -> list[Item]:
        items: list[Item] = []
        with closing(self._files.walk(self._environment.limits.listed_files)) as files:
            for each in files:
                if each is None:
                    self._warn()
                elif each[0].split("/") > behind and (item := self._item(*each)) is not None:
                    items.append(item)
                    if len(items) == count:
                        break
        return items

    def _item(self, path: str, facts: os.stat_result) -> Item | None:
        """Return the list entry of a file; `None` if its name has no URI that leads back to it."""
        try:
            uri = self.uri_of(path)
        except UnicodeEncodeError:
            return None
        if self.template.match(uri) != {"path": path}:
            return None
        listed = Resource(
            uri=uri,
            name=path,
            mime_type=_mime_type(path),
            size=facts.st_size,
            annotations=Annotations(last_modified=_time(facts.st_mtime)),
        )
        return Item(uri, listed, path)

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            most = self._environment.limits.listed_files
            _log.warning("not all files of %s are listed: it has more than %d (Limits.listed_files)", self.uri, most)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(work, limiter=self._environment.limiter)


def contents_of(uri: str, path: str, data: bytes) -> ResourceContents:
    """Return the bytes of a file as contents: text if they decode as text. The file name determines the media type."""
    mime_type = _mime_type(path)
    text = _text(data, mime_type)
    if text is None:
        return BlobResourceContents.of_bytes(uri, data, mime_type or "application/octet-stream")
    return TextResourceContents(uri=uri, text=text, mime_type=mime_type or "text/plain")


def _mime_type(path: str) -> str | None:
    kind, encoding = mimetypes.guess_type(path)
    return kind if encoding is None else _COMPRESSED.get(encoding)


def _text(data: bytes, mime_type: str | None) -> str | None:
    """Return the bytes decoded as text; `None` if they are not text."""
    if mime_type is not None and mime_type.startswith(_NO_TEXT) and not mime_type.endswith("+xml"):
        return None
    try:
        return None if b"\x00" in data else data.decode()
    except UnicodeDecodeError:
        return None


def _time(seconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None  # the year is outside the range of `datetime`
