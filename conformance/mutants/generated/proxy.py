"""A proxy between the suite and a correct peer, which applies one mutation to what the peer sends or receives.

The proxy sees messages, lines and HTTP heads with their meaning: which request a response answers, which method a
message has. Without a mutation it passes on every byte unchanged.
"""

# ruff: noqa: ARG002  # all operators and hooks have the parameters that their callers pass

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import attrs

from mutants.server.protocol import strict

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["ON_STREAM", "Conversation", "HttpHead", "MessageInfo", "Mutation", "Observer", "dumped", "parsed"]

ON_STREAM: Final = "on-"
"""What follows a key, with an HTTP method, in the name of a message that the peer sends on a stream of this method."""
_KEPT: Final = 10_000
"""The number of requests whose methods are remembered."""


def dumped(value: JsonValue) -> bytes:
    """Return JSON as the raw peers write it."""
    return json.dumps(value, separators=(",", ":")).encode()


@attrs.frozen(kw_only=True)
class MessageInfo:
    """The meaning of a message of the peer."""

    kind: str
    """`result`, `error`, `request` or `notification`."""
    method: str
    """The method of the message, or of the request to which it responds; empty if unknown."""
    request: JsonObject | None
    """The request to which a response responds."""
    stream: str = ""
    """The HTTP method and the number of the stream on which the message is sent, such as `POST 7`; empty elsewhere."""

    @property
    def key(self) -> str:
        """The name of its kind in targets and recordings."""
        return f"{self.method} {self.kind}"


@attrs.frozen(kw_only=True)
class HttpHead:
    """The head of an HTTP response of the peer, or of a request to it."""

    start: str
    """The status line without the version and the reason, or the request line."""
    headers: tuple[tuple[str, str], ...]
    """The headers."""
    number: int = 0
    """The number of requests before this one on its connection; 0 for a response."""

    def first(self, name: str) -> str | None:
        """Return the first header with a name; `None` if absent."""
        return next((value for each, value in self.headers if each.lower() == name.lower()), None)

    def without(self, name: str) -> HttpHead:
        """Return the head without the headers of a name."""
        kept = tuple(each for each in self.headers if each[0].lower() != name.lower())
        return attrs.evolve(self, headers=kept)

    def replaced(self, name: str, *lines: tuple[str, str]) -> HttpHead:
        """Return the head with other lines in place of the headers of a name."""
        found: list[tuple[str, str]] = []
        placed = False
        for each in self.headers:
            if each[0].lower() != name.lower():
                found.append(each)
            elif not placed:
                placed = True
                found += lines
        return attrs.evolve(self, headers=tuple(found))


class Mutation:
    """The change that the proxy makes. By default none: `None` stands for the unchanged bytes."""

    def sent(
        self,
        message: JsonObject,
        seen: MessageInfo,
        conversation: Conversation,
    ) -> list[JsonValue | bytes] | None:
        """Return what is sent in place of a message of the peer."""
        return None

    def received(self, message: JsonObject, conversation: Conversation) -> list[JsonObject] | None:
        """Return what the peer receives in place of a message of the suite."""
        return None

    def line(self, line: bytes) -> bytes | None:
        """Return the bytes that are written in place of a line with its line feed, over stdio."""
        return None

    def head(self, head: HttpHead, request: HttpHead, kind: str) -> HttpHead | None:
        """Return another head of an HTTP response; `kind` says to what it responds, and how."""
        return None

    def request_head(self, head: HttpHead) -> HttpHead | None:
        """Return another head of an HTTP request, as the peer receives it."""
        return None

    def event(self, event: bytes, number: int) -> bytes | None:
        """Return the bytes in place of a complete event of a stream; `number` is its position."""
        return None

    def body(self, body: bytes, kind: str) -> bytes | None:
        """Return the bytes in place of the body of an HTTP response that is not a stream."""
        return None


class Observer:
    """The receiver of what the proxy sees and does. By default it does nothing."""

    def noted(self, name: str, value: JsonValue) -> None:
        """Receive the name and the value of something that the peer sends, before the mutation."""

    def hit(self) -> None:
        """Count a change."""


class Conversation:
    """The messages between the suite and a peer: over one pipe, or over all connections of HTTP.

    Args:
        mutation: The mutation.
        observer: Receives what the proxy sees and does.
    """

    def __init__(self, mutation: Mutation, observer: Observer) -> None:
        self.mutation: Final = mutation
        self.observer: Final = observer
        self.state: Final[dict[str, JsonValue]] = {}
        """What the mutation remembers."""
        self.held: Final[list[JsonValue]] = []
        """The messages that the mutation holds back."""
        self.moved: Final[list[JsonValue]] = []
        """The messages that the mutation has taken from their stream."""
        self.last: JsonObject | None = None
        """The last message of the suite; `None` if it is not an object."""
        self._requests: Final[dict[str, JsonObject]] = {}
        self._streams = 0

    def new_stream(self, method: str) -> str:
        """Return a name for a stream that the peer opens in response to an HTTP method."""
        self._streams += 1
        return f"{method} {self._streams}"

    def enter(self, message: JsonValue) -> None:
        """Remember the requests of a message or batch of the suite."""
        for each in message if isinstance(message, list) else [message]:
            if isinstance(each, dict) and "id" in each and isinstance(each.get("method"), str):
                self._requests[_key(each["id"])] = each
                if len(self._requests) > _KEPT:
                    del self._requests[next(iter(self._requests))]

    def seen(self, message: JsonObject, request: JsonObject | None = None) -> MessageInfo:
        """Return the meaning of a message of the peer.

        Args:
            message: The message.
            request: The request of the HTTP exchange, which wins over other requests with its id.
        """
        method = message.get("method")
        if isinstance(method, str):
            return MessageInfo(kind="request" if "id" in message else "notification", method=method, request=None)
        id = _key(message.get("id"))
        own = request if request is not None and _key(request.get("id")) == id else self._requests.get(id, request)
        return MessageInfo(
            kind="error" if "error" in message else "result",
            method="" if own is None else str(own.get("method")),
            request=own,
        )

    def sends(self, data: bytes, request: JsonObject | None = None, *, stream: str = "") -> list[bytes] | None:
        """Return what is sent in place of a message or batch of the peer; `None`: the same bytes.

        Args:
            data: The message or batch.
            request: The request of the HTTP exchange.
            stream: The name of the stream on which it is sent; empty elsewhere.
        """
        value = parsed(data)
        if isinstance(value, dict):
            changed = self._one(value, request, stream)
            return None if changed is None else [each if isinstance(each, bytes) else dumped(each) for each in changed]
        if isinstance(value, list):
            return self._batch(value)
        return None

    def _batch(self, batch: list[JsonValue]) -> list[bytes] | None:
        found: list[JsonValue | bytes] = []
        any_changed = False
        for each in batch:
            changed = self._one(each, None) if isinstance(each, dict) else None
            any_changed = any_changed or changed is not None
            found += [each] if changed is None else changed
        members = [each if isinstance(each, bytes) else dumped(each) for each in found]
        return [b"[" + b",".join(members) + b"]"] if any_changed else None

    def _one(self, message: JsonObject, request: JsonObject | None, stream: str = "") -> list[JsonValue | bytes] | None:
        seen = attrs.evolve(self.seen(message, request), stream=stream)
        self.observer.noted(seen.key, message)
        if stream:
            self.observer.noted(f"{seen.key} {ON_STREAM}{stream.partition(' ')[0]}", stream)
        # The copy of JSON values is cheap beside the processes and sockets of a run.
        changed = self.mutation.sent(json.loads(json.dumps(message)), seen, self)
        if changed is not None:
            self.observer.hit()
        return changed

    def receives(self, data: bytes) -> list[bytes] | None:
        """Return what the peer receives in place of a message of the suite; `None`: the same bytes."""
        value = parsed(data)
        self.enter(value)
        self.last = value if isinstance(value, dict) else None
        if not isinstance(value, dict):
            return None
        changed = self.mutation.received(json.loads(json.dumps(value)), self)
        if changed is None:
            return None
        self.observer.hit()
        for each in changed:
            self.enter(each)
        return [dumped(each) for each in changed]


def parsed(data: bytes) -> JsonValue:
    """Return the JSON value of bytes; `None` if they are not JSON."""
    try:
        return strict(data)
    except (ValueError, RecursionError):
        return None


def _key(id: JsonValue) -> str:
    return json.dumps(id)
