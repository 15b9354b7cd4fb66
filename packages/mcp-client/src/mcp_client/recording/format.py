"""The format of recordings: reading, writing, and the values that are never recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from mcp_core.errors import LimitExceeded
from mcp_core.field_methods import FieldValue
from mcp_core.framing.lines import LineFramer
from mcp_core.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from typing import BinaryIO

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["InvalidRecording", "RecordedMessage", "Recorder", "Recording", "Sender", "dump", "read_recording", "redact"]

VERSION: Final = 1
MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""The largest message that is recorded, in bytes: as large as a client accepts by default."""
FILE_BYTES: Final = 64 * 1024 * 1024
"""The largest recording, in bytes. `Replay` has the whole recording in memory."""
REDACTED: Final = "***"

_SECRET_NAMES: Final = frozenset(
    {
        "accesstoken", "apikey", "apitoken", "authorization", "authtoken", "bearertoken", "clientsecret", "cookie",
        "credentials", "idtoken", "passphrase", "passwd", "password", "privatekey", "proxyauthorization",
        "refreshtoken", "secret", "secretkey", "setcookie", "token", "xapikey",
    }
)  # fmt: skip
"""Names of members whose strings are secrets, in lower case and without `-` and `_`."""

_CREDENTIALS: Final = re.compile(r"(?:bearer|basic|dpop|digest)\s+\S.*", re.IGNORECASE | re.DOTALL)
"""The value of an `Authorization` header. Source: RFC 9110, section 11.6.2."""

Sender: TypeAlias = Literal["client", "server"]


class InvalidRecording(ValueError):
    """A file is not a recording that can be replayed. The message names the file and the line."""


@attrs.frozen(eq=False, repr=False)
class RecordedMessage(FieldValue):
    """A message of a recording."""

    line: int
    """The line of the file, from 1."""
    sender: Sender
    """The side that sent the message."""
    messages: tuple[JsonObject, ...]
    """The message; or the messages of a batch."""
    is_batch: bool
    """Whether the message is an array."""


@attrs.frozen(eq=False, repr=False)
class Recording(FieldValue):
    """A recording in memory, created by `read_recording`."""

    name: str
    """The name of the file, for messages."""
    messages: tuple[RecordedMessage, ...]
    """The messages, in order."""


def dump(value: JsonValue) -> bytes:
    """Return a value as one line of JSON, without the line end."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # A string has half of a surrogate pair, which only an escape can represent.
        return json.dumps(value, separators=(",", ":")).encode()


def redact(value: JsonValue, name: str = "") -> JsonValue:
    """Return a copy of a value, without secrets.

    Args:
        value: The value.
        name: The name of the member that has the value.
    """
    if isinstance(value, dict):
        return {key: redact(member, key) for key, member in value.items()}
    if isinstance(value, list):
        return [redact(item, name) for item in value]
    if isinstance(value, str) and (
        re.sub(r"[-_]", "", name).lower() in _SECRET_NAMES or _CREDENTIALS.fullmatch(value) is not None
    ):
        return REDACTED
    return value


class Recorder:
    """The writer of a recording.

    Args:
        file: Receives the recording, each message when it is complete.
        warn: Called with a sentence about data that is not recorded: a line that is not JSON, or is too large.
    """

    def __init__(self, file: BinaryIO, warn: Callable[[str], None]) -> None:
        self._file: Final = file
        self._warn: Final = warn
        limits = Limits(message_bytes=MESSAGE_BYTES)
        self._framers: Final[dict[Sender, LineFramer]] = {"client": LineFramer(limits), "server": LineFramer(limits)}
        self._written = 0
        self._is_full = False
        self._write(dump({"mcpRecording": VERSION}))

    def record(self, sender: Sender, data: bytes) -> None:
        """Record bytes of one direction, which may be parts of lines.

        Raises:
            OSError: Writing the file failed.
        """
        for line in self._framers[sender].receive_data(data):
            if isinstance(line, LimitExceeded):
                self._warn(f"not recorded, a message of the {sender} is larger than {MESSAGE_BYTES} bytes")
                continue
            try:
                message: JsonValue = json.loads(line)
                entry = dump({"from": sender, "message": redact(message)})
            except (ValueError, RecursionError):
                self._warn(f"not recorded, a line of the {sender} is not JSON: {line[:60]!r}")
                continue
            if not _parts(message):
                self._warn(f"not recorded, a line of the {sender} is not a JSON-RPC message: {line[:60]!r}")
                continue
            self._write(entry)

    def _write(self, line: bytes) -> None:
        if self._is_full:
            return
        if self._written + len(line) >= FILE_BYTES:
            self._is_full = True
            self._warn(f"the recording ends here: it would be larger than {FILE_BYTES} bytes")
            return
        self._written += len(line) + 1
        self._file.write(line + b"\n")
        self._file.flush()


def read_recording(path: str | PathLike[str]) -> Recording:
    """Read a recording.

    Args:
        path: The file.

    Raises:
        InvalidRecording: A line is not valid, or the file is too large.
        OSError: The file cannot be read.
    """
    file = Path(path)
    with file.open("rb") as source:
        data = source.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise InvalidRecording(f"{file} is larger than {FILE_BYTES} bytes; record a shorter conversation")
    first, *lines = data.split(b"\n")
    header = _parsed(file, 1, first)
    if "mcpRecording" not in header:
        raise InvalidRecording(f'{file}, line 1: not a recording, which begins with {{"mcpRecording": {VERSION}}}')
    if header["mcpRecording"] != VERSION:
        raise InvalidRecording(
            f"{file}, line 1: unknown version {header['mcpRecording']!r} of the format; this program reads version {VERSION}"
        )
    return Recording(
        str(file), tuple(_message(file, number, line) for number, line in enumerate(lines, 2) if line.strip())
    )


def _message(file: Path, number: int, line: bytes) -> RecordedMessage:
    entry = _parsed(file, number, line)
    sender, message = entry.get("from"), entry.get("message")
    if sender not in {"client", "server"}:
        raise InvalidRecording(f'{file}, line {number}: "from" must be "client" or "server", not {sender!r}')
    parts = _parts(message)
    if not parts:
        raise InvalidRecording(f'{file}, line {number}: "message" is not a JSON-RPC message or a batch of them')
    return RecordedMessage(number, "client" if sender == "client" else "server", parts, isinstance(message, list))


def _parts(message: JsonValue) -> tuple[JsonObject, ...]:
    """Return the messages of a line; empty if it has anything else."""
    parts = message if isinstance(message, list) else [message]
    found = tuple(part for part in parts if isinstance(part, dict) and _is_message(part))
    return found if len(found) == len(parts) else ()


def _is_message(part: JsonObject) -> bool:
    if "method" in part:
        return isinstance(part["method"], str) and isinstance(part.get("id", 0), str | int | float)
    return "result" in part or "error" in part


def _parsed(file: Path, number: int, line: bytes) -> JsonObject:
    try:
        value: JsonValue = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidRecording(f"{file}, line {number}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidRecording(f"{file}, line {number}: not a JSON object")
    return value
