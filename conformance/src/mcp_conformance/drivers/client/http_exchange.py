"""One HTTP request of a client under test, and its answer: entered in a transcript, and kept as evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.wire.transcript import strict_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_conformance.drivers.client.scripted_request import Session
    from mcp_conformance.wire.http_server import Headers, Incoming
    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["STREAM", "Exchange"]

STREAM: Final = (("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no"))
"""The headers of an event stream."""


class Exchange:
    """A request, and what is answered.

    Args:
        incoming: The request.
        transcript: Where both are entered.
    """

    def __init__(self, incoming: Incoming, transcript: Transcript) -> None:
        self._incoming: Final = incoming
        self._transcript: Final = transcript
        self.number: Final = incoming.number
        """How many came before it."""
        self.method: Final = incoming.method
        """Its HTTP method."""
        self.target: Final = incoming.target
        """Path and query."""
        self.headers: Final[Headers] = incoming.headers
        """Its headers, names in lower case."""
        self.body: Final = incoming.body
        """Its body."""
        self.at: Final = trio.current_time()
        """When it came, in seconds of no particular beginning."""
        self.known: Session | None = None
        """The legacy session that it belongs to, or `None`."""
        self.beside = False
        """Whether it is for another place than the endpoint of MCP: what is asked for there is no matter of the transport."""
        self.answered: str = ""
        """The session id that its answer gave, or empty."""
        head = [f"{self.method} {self.target}", *(f"{name}: {value}" for name, value in self.headers)]
        transcript.head("\n".join(head), sent=False)
        self.value: Final[JsonValue] = transcript.message(self.body, sent=False) if self.body else None
        """The JSON of its body; `None` when there is none."""

    def __str__(self) -> str:
        return f"{self.method} {self.target} of {self.message.get('method') or 'no message'}"

    @property
    def message(self) -> JsonObject:
        """The message in its body; empty where that is none, or an array."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def status(self) -> int:
        """The status of its answer; 0 where there was none."""
        return self._incoming.status

    @property
    def path(self) -> str:
        """The path without the query."""
        return self._incoming.path

    @property
    def gone(self) -> trio.Event:
        """Set when the client closes the connection."""
        return self._incoming.gone

    @property
    def begun(self) -> bool:
        """Whether its answer has begun."""
        return self._incoming.status != 0

    @property
    def over(self) -> trio.Event:
        """Set at the end of its answer."""
        return self._incoming.over

    @property
    def ended(self) -> bool:
        """Whether its answer is at its end."""
        return self._incoming.ended

    def header(self, name: str) -> str | None:
        """The first header of a name; `None` when there is none."""
        return self._incoming.header(name)

    def all(self, name: str) -> list[str]:
        """All headers of a name."""
        return self._incoming.all(name)

    def is_json(self) -> bool:
        """Whether its body is JSON at all."""
        try:
            strict_json(self.body)
        except ValueError:
            return False
        return True

    # --- the answer --------------------------------------------------------------------------------------------------

    async def respond(
        self, status: int, headers: Sequence[tuple[str, str]] = (), body: bytes = b"", *, deviant: str = ""
    ) -> None:
        """Answer at once."""
        self._head(status, headers, deviant)
        if body:
            self._transcript.message(body, sent=True, deviant=deviant)
        await self._incoming.respond(status, headers, body)

    async def start(self, status: int, headers: Sequence[tuple[str, str]] = (), *, deviant: str = "") -> None:
        """Send the head of the answer."""
        self._head(status, headers, deviant)
        await self._incoming.start(status, headers)

    async def event(
        self, data: bytes | None, *, id: str | None = None, retry: int | None = None, deviant: str = ""
    ) -> bool:
        """Send an event. Whether it could be sent.

        Args:
            data: Its data: a message, or empty; `None`: it has none.
            id: Its id.
            retry: Milliseconds to wait before the stream is asked for again.
            deviant: Which rule is broken on purpose.
        """
        lines = b"" if id is None else f"id: {id}\n".encode()
        lines += b"" if retry is None else f"retry: {retry}\n".encode()
        if data is not None:
            lines += b"".join(b"data: " + line + b"\n" for line in data.split(b"\n"))
        if data:
            self._transcript.message(data, sent=True, deviant=deviant)
        else:
            self._transcript.note(f"an event without data, id {id}, retry {retry}")
        return await self._incoming.send(lines + b"\n")

    async def named_event(self, kind: str, data: bytes, *, deviant: str = "") -> bool:
        """Send an event of a kind. Whether it could be sent."""
        self._transcript.message(data, sent=True, deviant=deviant)
        return await self._incoming.send(b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n")

    async def chunk(self, data: bytes, *, deviant: str = "") -> bool:
        """Send bytes of the body as they are. Whether they could be sent."""
        self._transcript.message(data, sent=True, deviant=deviant)
        return await self._incoming.send(data)

    async def finish(self) -> None:
        """End the answer."""
        await self._incoming.finish()

    async def raw(self, data: bytes, *, deviant: str) -> None:
        """Write bytes in place of an answer, and close the connection."""
        self._transcript.message(data, sent=True, deviant=deviant)
        await self._incoming.raw(data)

    async def cut(self) -> None:
        """Close the connection in the midst of the answer."""
        self._transcript.note(f"the suite cut the answer to {self}")
        await self._incoming.cut()

    def _head(self, status: int, headers: Sequence[tuple[str, str]], deviant: str) -> None:
        lines = [f"HTTP {status}", *(f"{name}: {value}" for name, value in headers)]
        self._transcript.head("\n".join(lines), sent=True, deviant=deviant)
        self.answered = next((value for name, value in headers if name.lower() == "mcp-session-id"), self.answered)
