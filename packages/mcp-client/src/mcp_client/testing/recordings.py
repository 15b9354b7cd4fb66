"""The recordings of a test: one file for each connection, made by the first run and replayed by later runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias, cast

from mcp_client.recording import Recorder, Replay, read_recording, record_stream
from mcp_client.testing.memory import Serve
from mcp_core.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from mcp_client.recording.stream import ServedStream

__all__ = ["RecordingsOfTest"]

_Server: TypeAlias = Serve | Sequence[str | PathLike[str]] | str


class RecordingsOfTest:
    """The recordings of a test, with the names `TEST.1.jsonl`, `TEST.2.jsonl` and so on, in the order of the connections.

    Args:
        file: The beginning of their paths: a folder, and the name of the test.
        update: Whether to make them again, if they exist.
    """

    def __init__(self, file: Path, *, update: bool) -> None:
        self._file: Final = file
        self._update: Final = update
        self._count = 0
        self._made: Final[list[tuple[Path, Path]]] = []
        self._open: Final[list[BinaryIO]] = []

    def substitute(self, server: _Server, warn: Callable[[str], None]) -> _Server:
        """Return the server to connect to in place of another one: its recording, or the same server with a recorder.

        Args:
            server: The server.
            warn: Called with a sentence about each message that cannot be recorded or replayed.

        Raises:
            LocalProtocolError: The server is a URL, which cannot be recorded.
            InvalidRecording: The recording cannot be replayed.
        """
        if isinstance(server, str):
            raise LocalProtocolError("connect_recorded takes a server in memory or a command; HTTP is not recorded")
        self._count += 1
        path = self._file.with_name(f"{self._file.name}.{self._count}.jsonl")
        if path.exists() and not self._update:
            return Replay(read_recording(path), warn).serve
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_suffix(".partial")
        self._made.append((made, path))
        if isinstance(server, Sequence):
            return [sys.executable, "-m", "mcp_client", "record", "--output", made, "--", *server]
        file = made.open("wb")
        self._open.append(file)
        # A server uses only the methods `receive_some` and `send_all` of its stream.
        return record_stream(cast("Callable[[ServedStream], Awaitable[None]]", server), Recorder(file, warn))

    def finish(self, *, keep: bool) -> None:
        """Keep the new recordings, or delete them.

        Args:
            keep: Whether the test passed.
        """
        for file in self._open:
            file.close()
        for made, path in self._made:
            if keep:
                made.replace(path)
            else:
                made.unlink(missing_ok=True)
        self._made.clear()
