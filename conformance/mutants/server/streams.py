"""Streams of events of a raw server, what is kept of them for clients that come back, and where a fault can take hold over HTTP."""

from __future__ import annotations

import json
import queue
import threading
from typing import TYPE_CHECKING, Final, Protocol

from mutants.server.protocol import META
from mutants.server.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["Asked", "HttpFault", "HttpSession", "Standing", "Stream"]


class Asked:
    """What is known of a request before it is let in.

    Args:
        kind: `request`, `notification`, `GET` or `DELETE`.
        host: What Host says.
        origin: What Origin says.
        content_type: What Content-Type says.
    """

    def __init__(self, *, kind: str, host: str, origin: str | None, content_type: str) -> None:
        self.kind: Final = kind
        self.host: Final = host
        self.origin: Final = origin
        self.content_type: Final = content_type


class _Changes(Protocol):
    def announce(self, session: HttpSession, message: JsonValue) -> None:
        """Tells a session what belongs to none of its requests."""

    def elsewhere(self, value: JsonValue) -> None:
        """Puts on the streams of listeners what does not belong there."""


class HttpSession(Session):
    """A session over HTTP.

    Args:
        id: Its id.
        user: Whose it is.
    """

    def __init__(self, id: str, user: str) -> None:
        super().__init__(self._own)
        self.user = user
        self.id: Final = id
        self.streams: Final[list[Stream]] = []
        self.standing: Final[list[Standing]] = []
        self.had_standalone_stream = False
        """Whether a standalone stream was open: from then on what belongs to no request is sent on one, or dropped."""
        self.over: Final = threading.Event()
        self.hung_up: Final[dict[str, Callable[[], bool]]] = {}
        self.server: _Changes | None = None

    def _own(self, value: JsonValue) -> None:
        if self.standing:
            self.standing[0].put(value)

    def announce(self, message: JsonValue) -> bool:
        """Send what belongs to no request on the streams for that. Return whether there are any, or were."""
        if self.server is None or not self.had_standalone_stream:
            return False
        self.server.announce(self, message)
        return True

    def keep(self, stream: Stream) -> None:
        """Keeps a stream, so that it can be taken up again."""
        self.streams.append(stream)
        stream.number = len(self.streams)

    def end(self) -> None:
        """Ends it, and its streams."""
        self.over.set()


class Stream:
    """One stream.

    Args:
        session: Whose.
        fault: What is wrong.
    """

    def __init__(self, session: HttpSession, fault: HttpFault) -> None:
        self.session: Final = session
        self.fault: Final = fault
        self.frames: Final[list[tuple[str, bytes]]] = []
        """What was sent, with ids."""
        self.number = 0
        self.done: Final = threading.Event()
        self.lost = False

    def add(self, value: JsonValue, *, retry: int | None = None, event: str | None = None) -> bytes:
        """Another event: a message, or `None` for one that only has an id."""
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
        """An event as it is on the wire."""
        return "".join(f"{name}: {value}\n" for name, value in fields.items()).encode() + b"\n" if fields else b""

    def after(self, last: str) -> list[bytes] | None:
        """What came behind an event; `None` when it is none of this stream."""
        ids = [id for id, _ in self.frames]
        if last not in ids:
            return None
        self.done.wait(5)
        return [frame for _, frame in self.frames[ids.index(last) + 1 :]]


class Standing:
    """A stream that waits for what happens.

    Args:
        stream: It.
        id: Of a subscription: that of its request.
        event: What its events are called.
    """

    def __init__(self, stream: Stream, *, id: JsonValue = None, event: str | None = None) -> None:
        self._stream: Final = stream
        self._id: Final = id
        self._event: Final = event
        self._queue: Final[queue.Queue[JsonValue]] = queue.Queue()

    def put(self, value: JsonValue) -> None:
        """A message is to be sent."""
        self._queue.put(value)

    def tell(self, method: str, params: JsonObject) -> None:
        """A notification of a subscription is to be sent."""
        self.put(
            {
                "jsonrpc": "2.0",
                "method": method,
                "params": {**params, "_meta": {f"{META}subscriptionId": self._id}},
            }
        )

    def take(self, seconds: float) -> list[bytes]:
        """What is to be sent now."""
        found: list[bytes] = []
        try:
            found.append(self._stream.add(self._queue.get(timeout=seconds or 0.001), event=self._event))
            while True:
                found.append(self._stream.add(self._queue.get_nowait(), event=self._event))
        except queue.Empty:
            return found


class HttpFault:
    """The places where a fault can take hold over HTTP. Nothing is wrong: each leaves what it is given as it is."""

    def head(self, method: str, status: int, headers: dict[str, str]) -> tuple[int, dict[str, str]]:  # noqa: ARG002
        """The status and headers of an answer."""
        return status, headers

    def address(self, address: str) -> str:
        """Where it listens."""
        return address

    def admits(self, asked: Asked, *, admitted: bool) -> bool:  # noqa: ARG002
        """Whether a request is let in."""
        return admitted

    def knows(self, session: str | None, *, known: bool) -> bool:  # noqa: ARG002
        """Whether the credentials of a request will do."""
        return known

    def keeps(self, rule: str) -> bool:  # noqa: ARG002
        """Whether a rule is kept at all, by its name."""
        return True

    def refusal(self, why: str, status: int) -> int:  # noqa: ARG002
        """The status of a refusal."""
        return status

    def refusal_body(self, why: str, error: JsonObject) -> JsonObject:  # noqa: ARG002
        """The body of a refusal."""
        return error

    def error_status(self, code: JsonValue, status: int) -> int:  # noqa: ARG002
        """The status of an error of JSON-RPC."""
        return status

    def accepted(self) -> bytes:
        """The body that goes with 202."""
        return b""

    def session_id(self, id: str, number: int) -> str:  # noqa: ARG002
        """The id of a session."""
        return id

    def frame(self, what: str, fields: dict[str, str]) -> dict[str, str]:  # noqa: ARG002
        """The fields of an event: of `priming`, of an `event`, or of `sse`, which names the place to post to."""
        return fields

    def resumed(self, every: Sequence[HttpSession], session: HttpSession, last: str) -> list[bytes] | None:  # noqa: ARG002
        """What comes behind an event; `None` when there is no such event in the session."""
        return next((found for stream in session.streams if (found := stream.after(last)) is not None), None)

    def tells(self, every: Sequence[HttpSession], session: HttpSession) -> Sequence[HttpSession]:  # noqa: ARG002
        """Whose streams an answer of HTTP+SSE goes to."""
        return [session]

    def streams(self, standing: Sequence[Standing]) -> Sequence[Standing]:
        """On which of the streams by GET a notification goes out."""
        return standing[:1]

    def hangs_up(self, *, gone: bool, modern: bool) -> bool:
        """Whether a call is cancelled by the end of its connection."""
        return gone and modern

    def overheard(self, value: JsonValue, *, gone: bool) -> bool:  # noqa: ARG002
        """Whether listeners get a message of somebody else's request."""
        return False

    # --- headers that repeat the body ----------------------------------------------------------------------------------

    def read(self, name: str, value: str) -> str:  # noqa: ARG002
        """A header as it is read."""
        return value

    def same_number(self, text: str, value: int) -> bool:
        """Whether a header says a number."""
        try:
            return float(text) == value
        except ValueError:
            return False

    def agrees(self, name: str, text: str, value: JsonValue, *, same: bool) -> bool:  # noqa: ARG002
        """Whether a header agrees with the body."""
        return same
