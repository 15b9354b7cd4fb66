"""An HTTP request of a client under test with its response, entered in a transcript and kept as evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.wire.transcript import strict_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_conformance.drivers.client.scripted_request import Session
    from mcp_conformance.wire.http_server import Headers, ServerExchange
    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["CUT_OFF", "STREAM", "HttpExchange"]

STREAM: Final = (("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no"))
"""The headers of an event stream."""
CUT_OFF: Final = "the suite cut off the response to"
"""The beginning of the transcript note about a broken connection."""


class HttpExchange:
    """A request and its response.

    Args:
        incoming: The request.
        transcript: The transcript that records both.
    """

    def __init__(self, incoming: ServerExchange, transcript: Transcript) -> None:
        self._incoming: Final = incoming
        self._transcript: Final = transcript
        self.number: Final = incoming.number
        """The number of requests before it."""
        self.method: Final = incoming.method
        """The HTTP method."""
        self.target: Final = incoming.target
        """The path and the query."""
        self.headers: Final[Headers] = incoming.headers
        """The headers, names in lower case."""
        self.body: Final = incoming.body
        """The body."""
        self.at: Final = trio.current_time()
        """The time of arrival, in seconds of trio's clock."""
        self.known: Session | None = None
        """The legacy session of the request; `None` without one."""
        self.beside = False
        """Whether the path is not that of the MCP endpoint. Checks of the transport ignore such requests."""
        self.answered: str = ""
        """The session id in the response; empty without one."""
        head = [f"{self.method} {self.target}", *(f"{name}: {value}" for name, value in self.headers)]
        self.entry: Final = len(transcript.entries)
        """The position of the request in the transcript."""
        transcript.head("\n".join(head), sent=False)
        self.value: Final[JsonValue] = transcript.message(self.body, sent=False) if self.body else None
        """The JSON value of the body; `None` without one."""

    def __str__(self) -> str:
        return f"{self.method} {self.target} of {self.message.get('method') or 'an unknown message'}"

    @property
    def message(self) -> JsonObject:
        """The message in the body; empty for a batch or an invalid body."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def status(self) -> int:
        """The status of the response; 0 before that."""
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
        """Whether the response has begun."""
        return self._incoming.status != 0

    @property
    def over(self) -> trio.Event:
        """Set when the response has ended."""
        return self._incoming.over

    @property
    def ended(self) -> bool:
        """Whether the response has ended."""
        return self._incoming.ended

    def header(self, name: str) -> str | None:
        """Return the first header with this name; `None` if absent."""
        return self._incoming.header(name)

    def all(self, name: str) -> list[str]:
        """Return all headers with this name."""
        return self._incoming.all(name)

    def is_json(self) -> bool:
        """Return whether the body is JSON."""
        try:
            strict_json(self.body)
        except ValueError:
            return False
        return True

    # --- the answer --------------------------------------------------------------------------------------------------

    async def respond(
        self, status: int, headers: Sequence[tuple[str, str]] = (), body: bytes = b"", *, deviant: str = ""
    ) -> None:
        """Send a whole response."""
        self._head(status, headers, deviant)
        if body:
            self._transcript.message(body, sent=True, deviant=deviant)
        await self._incoming.respond(status, headers, body)

    async def start(self, status: int, headers: Sequence[tuple[str, str]] = (), *, deviant: str = "") -> None:
        """Send the head of the response."""
        self._head(status, headers, deviant)
        await self._incoming.start(status, headers)

    async def event(
        self, data: bytes | None, *, id: str | None = None, retry: int | None = None, deviant: str = ""
    ) -> bool:
        """Send an event, and return whether it was sent.

        Args:
            data: The data: a message, or empty; `None`: no data field.
            id: The event id.
            retry: Milliseconds until the client should reconnect.
            deviant: The rule that the event breaks on purpose.
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
        """Send an event with a name, and return whether it was sent."""
        self._transcript.message(data, sent=True, deviant=deviant)
        return await self._incoming.send(b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n")

    async def chunk(self, data: bytes, *, deviant: str = "") -> bool:
        """Send bytes of the body unchanged, and return whether they were sent."""
        self._transcript.message(data, sent=True, deviant=deviant)
        return await self._incoming.send(data)

    async def finish(self) -> None:
        """End the response."""
        await self._incoming.finish()

    async def raw(self, data: bytes, *, deviant: str) -> None:
        """Write bytes in place of a response, and close the connection."""
        self._transcript.message(data, sent=True, deviant=deviant)
        await self._incoming.raw(data)

    async def cut(self) -> None:
        """Close the connection in the middle of the response."""
        self._transcript.note(f"{CUT_OFF} {self}")
        await self._incoming.cut()

    def _head(self, status: int, headers: Sequence[tuple[str, str]], deviant: str) -> None:
        lines = [f"HTTP {status}", *(f"{name}: {value}" for name, value in headers)]
        self._transcript.head("\n".join(lines), sent=True, deviant=deviant)
        self.answered = next((value for name, value in headers if name.lower() == "mcp-session-id"), self.answered)
