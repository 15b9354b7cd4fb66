"""The messages that the workers of a cluster send each other, and their encoding.

A message names what it is about, and contains only what the receiver cannot read from a store. Messages can be lost
when the cluster fails: `ClusterReceiver.missed` states it, and the receiver then reads the stores again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.codec import Batch, decode, encode
from mcp_core.errors import InvalidValue, MalformedMessage
from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject, Message
    from mcp_core.limits import Limits

__all__ = [
    "TASK_MESSAGES",
    "BarrierReached",
    "ChangeMade",
    "ClientMessageReceived",
    "ClusterMessage",
    "MessageConfirmed",
    "ServerMessageSent",
    "SessionEnded",
    "SessionUpdated",
    "StandaloneStreamOpened",
    "StreamAppended",
    "StreamFollowed",
    "TaskCancelRequested",
    "TaskInputFailed",
    "TaskInputReceived",
    "TaskUpdated",
    "decode_message",
    "encode_message",
    "message_of",
    "wire_of",
]


@attrs.frozen(eq=False, repr=False)
class BarrierReached(FieldValue):
    """The sender waits until the receiver has handled the earlier messages of the sender (`cluster.barrier`)."""

    number: int
    """The number of the wait, which the receiver sends back."""


@attrs.frozen(eq=False, repr=False)
class MessageConfirmed(FieldValue):
    """The sender has received a message with a number, and all that was sent in the same way before it."""

    number: int
    """The number of the message."""


@attrs.frozen(eq=False, repr=False)
class ChangeMade(FieldValue):
    """A list or a resource changed. Each worker notifies the clients that are connected to it."""

    method: str
    """The method of the notification: `notifications/resources/updated`, or one of the `list_changed` methods."""
    uri: str = ""
    """The URI of the resource for `notifications/resources/updated`; empty for lists."""


@attrs.frozen(eq=False, repr=False)
class ClientMessageReceived(FieldValue):
    """A client sent a response, a cancellation or progress to a worker that does not run what it belongs to."""

    session: str
    """The session id. The receiver has checked that the sender of the message owns the session."""
    message: JsonObject
    """The JSON-RPC message."""
    number: int = 0
    """The number with which the receiver confirms the message; 0: it does not."""


@attrs.frozen(eq=False, repr=False)
class ServerMessageSent(FieldValue):
    """A message for the standalone stream of a session, to the worker that serves the stream.

    If the receiver does not serve the stream any more, it sends the message back.
    """

    session: str
    """The session id."""
    message: JsonObject
    """The JSON-RPC message."""


@attrs.frozen(eq=False, repr=False)
class SessionUpdated(FieldValue):
    """The record or the subscriptions of a session changed in the store."""

    session: str
    """The session id."""


@attrs.frozen(eq=False, repr=False)
class SessionEnded(FieldValue):
    """A session was deleted from the store: closed by the client, expired or evicted."""

    session: str
    """The session id."""


@attrs.frozen(eq=False, repr=False)
class StandaloneStreamOpened(FieldValue):
    """The sender serves the standalone stream of a session. An earlier one, at another worker, ends."""

    session: str
    """The session id."""
    stream: int
    """The number of the stream; 0 if its events are not stored."""


@attrs.frozen(eq=False, repr=False)
class StreamFollowed(FieldValue):
    """The sender begins or stops to serve a resumed stream whose requests the receiver runs."""

    session: str
    """The session id."""
    stream: int
    """The number of the stream."""
    is_connected: bool
    """Whether the client is connected to the sender."""


@attrs.frozen(eq=False, repr=False)
class StreamAppended(FieldValue):
    """The store has new events of a stream, or its end, for the worker that follows the stream."""

    session: str
    """The session id."""
    stream: int
    """The number of the stream."""
    is_over: bool
    """Whether no event follows."""


@attrs.frozen(eq=False, repr=False)
class TaskUpdated(FieldValue):
    """The record of a task changed in the store."""

    task: str
    """The task id."""


@attrs.frozen(eq=False, repr=False)
class TaskCancelRequested(FieldValue):
    """The client cancelled a task that the receiver runs."""

    task: str
    """The task id."""


@attrs.frozen(eq=False, repr=False)
class TaskInputReceived(FieldValue):
    """The client responded to input requests of a task that the receiver runs."""

    task: str
    """The task id."""
    responses: JsonObject
    """The input responses, by the key of the input request."""


@attrs.frozen(eq=False, repr=False)
class TaskInputFailed(FieldValue):
    """The client responded to an input request of a task that the receiver runs with an error (2025-11-25)."""

    task: str
    """The task id."""
    key: str
    """The key of the input request."""
    error: JsonObject
    """The JSON-RPC error: `code`, `message` and optionally `data`."""


ClusterMessage: TypeAlias = (
    BarrierReached
    | ChangeMade
    | ClientMessageReceived
    | MessageConfirmed
    | ServerMessageSent
    | SessionEnded
    | SessionUpdated
    | StandaloneStreamOpened
    | StreamAppended
    | StreamFollowed
    | TaskCancelRequested
    | TaskInputFailed
    | TaskInputReceived
    | TaskUpdated
)
"""A message between workers."""

TASK_MESSAGES: Final = (TaskCancelRequested, TaskInputFailed, TaskInputReceived, TaskUpdated)
"""The classes of messages about tasks."""

_KINDS: Final[Mapping[str, type[ClusterMessage]]] = {
    "barrier-reached": BarrierReached,
    "change": ChangeMade,
    "client-message": ClientMessageReceived,
    "message-confirmed": MessageConfirmed,
    "server-message": ServerMessageSent,
    "session-ended": SessionEnded,
    "session-updated": SessionUpdated,
    "standalone-opened": StandaloneStreamOpened,
    "stream-appended": StreamAppended,
    "stream-followed": StreamFollowed,
    "task-cancelled": TaskCancelRequested,
    "task-input": TaskInputReceived,
    "task-input-failed": TaskInputFailed,
    "task-updated": TaskUpdated,
}
"""The classes of messages, by the name that identifies them in the encoding."""

_NAMES: Final[Mapping[type[ClusterMessage], str]] = {kind: name for name, kind in _KINDS.items()}


def wire_of(message: Message) -> JsonObject:
    """Return a JSON-RPC message as JSON, for a message between workers."""
    wire: JsonObject = json.loads(encode(message, null_id=False))
    return wire


def message_of(wire: JsonObject, limits: Limits) -> Message | None:
    """Return the JSON-RPC message that a message between workers contains; `None` if it is invalid here."""
    try:
        message = decode(json.dumps(wire).encode("ascii"), limits)
    except MalformedMessage:
        return None
    return None if isinstance(message, Batch) else message


def encode_message(message: ClusterMessage) -> bytes:
    """Return a message as JSON: an object of the name of its class and its fields."""
    fields = {each.name: getattr(message, each.name) for each in attrs.fields(type(message))}
    # A URI or a message of a client can contain lone surrogates, which only this encoder accepts.
    return json.dumps({"kind": _NAMES[type(message)], **fields}, separators=(",", ":")).encode("ascii")


def decode_message(data: bytes) -> ClusterMessage | None:
    """Return a message from JSON that `encode_message` returned.

    Returns:
        The message; `None` if a worker with another version of this package sent a message of an unknown class.

    Raises:
        InvalidValue: The data is not a message.
    """
    try:
        value = json.loads(data)
    except ValueError as error:
        raise InvalidValue(f"a message between workers is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidValue("a message between workers must be a JSON object")
    kind = _KINDS.get(str(value.pop("kind", "")))
    if kind is None:
        return None
    known = {each.name for each in attrs.fields(kind)}
    try:
        return kind(**{name: each for name, each in value.items() if name in known})
    except TypeError as error:
        raise InvalidValue(f"a message between workers lacks a member: {error}") from None
