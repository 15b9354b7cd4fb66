"""The event streams of a raw server, their replay, and the places where a fault applies over HTTP."""

from __future__ import annotations

import itertools
import json
import queue
import threading
from typing import TYPE_CHECKING, Final, Protocol

from mutants.server.protocol import META
from mutants.server.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from io import BufferedIOBase

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["AccessInfo", "HttpFault", "HttpSession", "ListenStream", "Stream"]


class AccessInfo:
    """The part of an HTTP request that access control reads.

    Args:
        kind: `request`, `notification`, `response`, `GET`, `resumption` or `DELETE`.
        host: The header Host.
        origin: The header Origin.
        content_type: The header Content-Type.
        kept: The state of the HTTP connection.
    """

    def __init__(self, *, kind: str, host: str, origin: str | None, content_type: str, kept: JsonObject) -> None:
        self.kind: Final = kind
        self.host: Final = host
        self.origin: Final = origin
        self.content_type: Final = content_type
        self.kept: Final = kept


class _Changes(Protocol):
    def announce(self, session: HttpSession, message: JsonValue) -> None:
        """Send a message that belongs to no request to a session."""

    def elsewhere(self, value: JsonValue) -> None:
        """Put a message that does not belong there on the subscription streams."""


class HttpSession(Session):
    """A session over HTTP.

    Args:
        id: The session id.
        user: The user of the session.
    """

    def __init__(self, id: str, user: str) -> None:
        super().__init__(self._own)
        self.user = user
        self.id: Final = id
        self.streams: Final[list[Stream]] = []
        self._numbers: Final = itertools.count(1)
        self.listen_streams: Final[list[ListenStream]] = []
        self.had_standalone_stream = False
        """Whether a standalone stream was opened. Then messages without a request are sent on one, or dropped."""
        self.over: Final = threading.Event()
        self.hung_up: Final[dict[str, Callable[[], bool]]] = {}
        self.server: _Changes | None = None

    def _own(self, value: JsonValue) -> None:
        if self.listen_streams:
            self.listen_streams[0].put(value)

    def announce(self, message: JsonValue) -> bool:
        """Send a message without a request on the standalone streams. Return whether there are any, or were."""
        if self.server is None or not self.had_standalone_stream:
            return False
        self.server.announce(self, message)
        return True

    def keep(self, stream: Stream) -> None:
        """Keep a stream, so that it can be resumed."""
        self.streams.append(stream)
        stream.number = next(self._numbers)

    def has_event(self, id: str) -> bool:
        """Return whether a stream of the session has an event."""
        return any(id in dict(stream.frames) for stream in self.streams)

    def end(self) -> None:
        """End the session and its streams."""
        self.over.set()


class Stream:
    """A stream.

    Args:
        session: The session.
        fault: The fault.
        standalone: Whether it was opened by GET.
    """

    def __init__(self, session: HttpSession, fault: HttpFault, *, standalone: bool = False) -> None:
        self.session: Final = session
        self.fault: Final = fault
        self.standalone: Final = standalone
        self.frames: Final[list[tuple[str, bytes]]] = []
        """The sent events, with ids."""
        self.number = 0
        self.done: Final = threading.Event()
        self.lost = False

    def add(self, value: JsonValue, *, retry: int | None = None, event: str | None = None) -> bytes:
        """Add an event: a message, or `None` for an event with only an id."""
        fields: dict[str, str] = {} if event is None else {"event": event}
        if self.number and self.session.revision is not None:
            fields["id"] = f"{self.number}-{len(self.frames)}"
        if retry is not None:
            fields["retry"] = str(retry)
        fields["data"] = "" if value is None else json.dumps(value, separators=(",", ":"))
        fields = self.fault.frame("priming" if value is None else "event", fields)
        frame = self.text(fields)
        self.frames.append((fields.get("id", ""), frame))
        return frame

    @staticmethod
    def text(fields: dict[str, str]) -> bytes:
        """Return an event as text."""
        return "".join(f"{name}: {value}\n" for name, value in fields.items()).encode() + b"\n" if fields else b""

    def after(self, last: str) -> list[bytes] | None:
        """Return the events after an event, or `None` for an event of another stream."""
        ids = [id for id, _ in self.frames]
        if last not in ids:
            return None
        self.done.wait(5)
        return [frame for _, frame in self.frames[ids.index(last) + 1 :]]


class ListenStream:
    """A stream that waits for messages: a standalone stream or a subscription.

    Args:
        stream: The stream.
        id: The request id of a subscription.
        event: The type of its events.
    """

    def __init__(self, stream: Stream, *, id: JsonValue = None, event: str | None = None) -> None:
        self._stream: Final = stream
        self._id: Final = id
        self._event: Final = event
        self._queue: Final[queue.Queue[JsonValue]] = queue.Queue()

    @property
    def session(self) -> HttpSession:
        """The session of the client."""
        return self._stream.session

    def put(self, value: JsonValue) -> None:
        """Queue a message."""
        self._queue.put(value)

    def notify(self, method: str, params: JsonObject) -> None:
        """Queue a notification of a subscription."""
        self.put(
            {
                "jsonrpc": "2.0",
                "method": method,
                "params": {**params, "_meta": {f"{META}subscriptionId": self._id}},
            }
        )

    def take(self, seconds: float) -> list[bytes]:
        """Return the events to send now."""
        found: list[bytes] = []
        try:
            found.append(self._stream.add(self._queue.get(timeout=seconds or 0.001), event=self._event))
            while True:
                found.append(self._stream.add(self._queue.get_nowait(), event=self._event))
        except queue.Empty:
            return found


class HttpFault:
    """The places where a fault applies over HTTP. By default each place returns its argument unchanged."""

    def head(self, method: str, status: int, headers: dict[str, str]) -> tuple[int, dict[str, str]]:  # noqa: ARG002
        """Return the status and headers of a response."""
        return status, headers

    def address(self, address: str) -> str:
        """Return the address to listen at."""
        return address

    def admits(self, info: AccessInfo, *, admitted: bool) -> bool:  # noqa: ARG002
        """Return whether a request is admitted."""
        return admitted

    def knows(self, session: str | None, *, known: bool) -> bool:  # noqa: ARG002
        """Return whether the credentials of a request are accepted."""
        return known

    def understands(self, accept: str, content_type: str) -> bool:  # noqa: ARG002
        """Return whether the types that a request states are understood."""
        return True

    def posted_body(self, source: BufferedIOBase, length: int) -> bytes:
        """Read a body."""
        return source.read(length)

    def exempts(self, message: JsonValue) -> bool:  # noqa: ARG002
        """Return whether a posted message is accepted from every page and host."""
        return False

    def keeps(self, rule: str) -> bool:  # noqa: ARG002
        """Return whether a rule is applied, by its name."""
        return True

    def refusal(self, why: str, status: int) -> int:  # noqa: ARG002
        """Return the status of a rejection."""
        return status

    def refusal_body(self, why: str, error: JsonObject) -> JsonObject:  # noqa: ARG002
        """Return the body of a rejection."""
        return error

    def error_status(self, code: JsonValue, status: int) -> int:  # noqa: ARG002
        """Return the status of a JSON-RPC error."""
        return status

    def accepted(self) -> bytes:
        """Return the body of a response with status 202."""
        return b""

    def greeting(self, session: HttpSession) -> list[JsonValue]:  # noqa: ARG002
        """Return the first messages on a standalone stream."""
        return []

    def session_id(self, id: str, number: int) -> str:  # noqa: ARG002
        """Return the id of a session."""
        return id

    def primes(self, revision: str | None) -> bool:
        """Return whether a stream for a request begins with an event without data."""
        return revision == "2025-11-25"

    def frame(self, what: str, fields: dict[str, str]) -> dict[str, str]:  # noqa: ARG002
        """Return the fields of a `priming` event, of an `event`, or of the `sse` event that names the endpoint."""
        return fields

    def opens_with(self, message: JsonObject, version: str | None) -> JsonObject:  # noqa: ARG002
        """Return an `initialize` request; `version` is the value of its header MCP-Protocol-Version."""
        return message

    def serves_era(self, kept: JsonObject, *, modern: bool) -> bool:  # noqa: ARG002
        """Return whether a message of an era is served; `kept` is the state of its connection."""
        return True

    def completed(self, kept: JsonObject, message: JsonObject) -> JsonObject:  # noqa: ARG002
        """Return a modern message; `kept` is the state of its connection, which has none."""
        return message

    def beside(self, session: HttpSession | None, message: JsonObject) -> JsonObject:  # noqa: ARG002
        """Return a modern message; `session` is the legacy session whose id it has, although it belongs to none."""
        return message

    def body(self, body: bytes) -> bytes:
        """Return the bytes of a JSON body."""
        return body

    def written(self, frame: bytes) -> bytes:
        """Return the bytes of an event."""
        return frame

    def resumed(self, every: Sequence[HttpSession], session: HttpSession, last: str) -> list[bytes] | None:  # noqa: ARG002
        """Return the events after an event, or `None` if the session has no such event."""
        return next((found for stream in session.streams if (found := stream.after(last)) is not None), None)

    def strays(self, message: JsonValue, value: JsonValue) -> bool:  # noqa: ARG002
        """Return whether a message is sent on the streams by GET, which belongs to the request `message`."""
        return False

    def on_stream(self, stream: Stream, value: JsonValue) -> Sequence[JsonValue]:  # noqa: ARG002
        """Return the messages that are sent on the stream of a request in place of one."""
        return [value]

    def addressed(self, every: Sequence[HttpSession], session: HttpSession | None) -> HttpSession | None:  # noqa: ARG002
        """Return the session to which a message over HTTP+SSE belongs; `session`: the one that the URI names, if any."""
        return session

    def sse_targets(
        self,
        every: Sequence[HttpSession],  # noqa: ARG002
        session: HttpSession,
        value: JsonValue,  # noqa: ARG002
    ) -> Sequence[HttpSession]:
        """Return the sessions on whose streams a message over HTTP+SSE is sent."""
        return [session]

    def streams(self, listen_streams: Sequence[ListenStream], message: JsonValue) -> Sequence[ListenStream]:  # noqa: ARG002
        """Return the GET streams on which a notification is sent."""
        return listen_streams[:1]

    def speaks(self, version: str | None, *, speaks: bool) -> bool:  # noqa: ARG002
        """Return whether a value of MCP-Protocol-Version is accepted."""
        return speaks

    def accepted_status(self, message: JsonValue) -> int:  # noqa: ARG002
        """Return the status for an accepted notification or response."""
        return 202

    def posted(self, session: HttpSession, message: JsonValue) -> None:
        """Receive a message that was posted over HTTP+SSE."""

    def hangs_up(self, *, gone: bool, modern: bool) -> bool:
        """Return whether the end of its connection cancels a call."""
        return gone and modern

    def disconnection(self, id: str, gone: Callable[[], bool]) -> Callable[[], bool]:  # noqa: ARG002
        """Return the function that says whether the client of a request has disconnected."""
        return gone

    def overheard(self, value: JsonValue, *, gone: bool) -> bool:  # noqa: ARG002
        """Return whether subscribers get a message of another client's request."""
        return False

    # --- headers that repeat the body --------------------------------------------------------------------------------

    def flaw(self, kept: JsonObject, message: JsonObject, flaw: str | None) -> str | None:  # noqa: ARG002
        """Return how the headers of a request differ from its body; `kept` is the state of its connection."""
        return flaw

    def repeated(self, values: Sequence[str]) -> str:
        """Return the value of a header that occurs several times."""
        return ", ".join(values)

    def read(self, name: str, value: str) -> str:  # noqa: ARG002
        """Return the value of a header."""
        return value

    def same_number(self, text: str, value: int) -> bool:
        """Return whether a header is equal to a number."""
        try:
            return float(text) == value
        except ValueError:
            return False

    def agrees(self, name: str, text: str, value: JsonValue, *, same: bool) -> bool:  # noqa: ARG002
        """Return whether a header matches the body."""
        return same
