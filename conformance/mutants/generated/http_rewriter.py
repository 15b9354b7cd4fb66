"""The bytes of HTTP/1.1 between the suite and the server, rewritten by the proxy.

The peer is a raw server whose framing is known: a body with a length, or a chunk for each event of a stream. Everything
that does not have this form is passed on unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mutants.generated.proxy import HttpHead, parsed

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.generated.proxy import Conversation

__all__ = ["RequestRewriter", "ResponseRewriter"]

_END: Final = b"\r\n\r\n"
_STREAM: Final = "text/event-stream"
_NOTHING: Final = HttpHead(start="", headers=())


def _read(head: bytes) -> tuple[bytes, HttpHead]:
    """Return the first line as bytes, and the head."""
    first, *lines = head.split(b"\r\n")
    headers = [line.decode("latin-1").partition(":") for line in lines if line]
    pairs = tuple((name, value.removeprefix(" ")) for name, _, value in headers)
    return first, HttpHead(start=first.decode("latin-1"), headers=pairs)


def _written(head: HttpHead) -> bytes:
    lines = [head.start, *(f"{name}: {value}" for name, value in head.headers)]
    return "\r\n".join(lines).encode("latin-1", "replace") + _END


class RequestRewriter:
    """The requests on one connection.

    Args:
        conversation: The proxy.
        sends: Whether the peer sends them: it is a client.
        authority: The value of Host as the server must read it; empty: unchanged.
    """

    def __init__(self, conversation: Conversation, *, sends: bool = False, authority: str = "") -> None:
        self._conversation: Final = conversation
        self._sends: Final = sends
        self._authority: Final = authority
        self._head = b""
        self._body_left = 0
        self._raw = b""
        self._body = b""
        self._requests = 0
        self.head: HttpHead = _NOTHING
        """The head of the last request, as the suite sent it."""
        self.message: JsonObject | None = None
        """The message of the last request, if it is one."""
        self.further: Final[list[bytes]] = []
        """Requests of a client to send on other connections, after the response to the last one."""
        self.dropped = 0
        """The number of requests of a client that are not sent, and whose responses the proxy makes."""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that the server receives in place of bytes of the suite."""
        out = b""
        while data:
            if self._body_left:
                part, data = data[: self._body_left], data[self._body_left :]
                self._body += part
                self._body_left -= len(part)
                if not self._body_left:
                    out += self._request()
                continue
            self._head += data
            data = b""
            if _END not in self._head:
                break
            raw, _, data = self._head.partition(_END)
            self._head = b""
            _, head = _read(raw)
            self.head = attrs.evolve(head, number=self._requests)
            self._requests += 1
            self._raw = raw + _END
            self._body = b""
            length = self.head.first("content-length") or "0"
            self._body_left = int(length) if length.isdecimal() else 0
            if not self._body_left:
                out += self._request()
        return out

    def _request(self) -> bytes:
        if self._authority:
            self.head = self.head.replaced("host", ("Host", self._authority))
            self._raw = _written(self.head)
        return self._sent() if self._sends else self._received()

    def _received(self) -> bytes:
        """Return a request of the suite as the server receives it."""
        mutation, body = self._conversation.mutation, self._body
        changed = self._conversation.receives(body) if body else None
        # What the server answers belongs to the request that the suite sent.
        self.message = self._conversation.last if body else None
        head = mutation.request_head(self.head)
        if head is not None:
            self._conversation.observer.hit()
        if changed is None:
            return (self._raw if head is None else _written(head)) + body
        return self._with_body(head or self.head, changed[0] if changed else b"")

    def _sent(self) -> bytes:
        """Return a request of the client as the suite receives it."""
        mutation, observer, body = self._conversation.mutation, self._conversation.observer, self._body
        message = parsed(body) if body else None
        self.message = message if isinstance(message, dict) else None
        kind = f"{self.head.start.partition(' ')[0]} {posted(self.message)}".strip()
        observer.noted(f"{kind} request-head", {name.lower(): value for name, value in self.head.headers})
        changed = self._conversation.sends(body) if body else None
        head = mutation.head(self.head, self.head, kind)
        if head is not None:
            observer.hit()
        if changed is None:
            return (self._raw if head is None else _written(head)) + body
        if not changed:
            self.dropped += 1
            return b""
        # A body contains one message.
        first, *others = (self._with_body(head or self.head, each) for each in changed)
        self.further.extend(others)
        return first

    @staticmethod
    def _with_body(head: HttpHead, body: bytes) -> bytes:
        return _written(head.replaced("content-length", ("Content-Length", str(len(body))))) + body


def posted(message: JsonObject | None) -> str:
    """Return the kind of a posted message in the name of an exchange: `initialize`, `request`, `message`, or nothing."""
    if message is None:
        return ""
    if message.get("method") == "initialize":
        return "initialize"
    return "request" if "id" in message and "method" in message else "message"


class ResponseRewriter:
    """The responses on one connection.

    Args:
        conversation: The proxy.
        requests: The requests on the connection.
        sends: Whether the peer sends them: it is a server.
    """

    def __init__(self, conversation: Conversation, requests: RequestRewriter, *, sends: bool = True) -> None:
        self._conversation: Final = conversation
        self._requests: Final = requests
        self._sends: Final = sends
        self._buffer = b""
        self._head: HttpHead | None = None
        self._raw = b""
        self._length: int | None = None
        self._chunked = False
        self._passing = False
        self._events = 0
        self._kind = ""
        self._stream = ""

    def end(self) -> bytes:
        """Return the rest at the end of the connection."""
        rest, self._buffer = self._buffer, b""
        return rest

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that the suite receives in place of bytes of the server."""
        if not self._sends:
            self._learn(data)
            return data
        self._buffer += data
        out = b""
        while True:
            found = self._step()
            if found is None:
                return out
            out += found

    def _learn(self, data: bytes) -> None:
        """Read the requests of the server to the client, whose responses have their methods."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in (*lines, self._buffer):
            if b'"method"' in line:
                self._conversation.receives(line.strip().removeprefix(b"data:").strip())

    def _step(self) -> bytes | None:
        """Return the next rewritten part; `None` if bytes are missing."""
        if self._passing:
            found, self._buffer = self._buffer, b""
            return found or None
        if self._head is None:
            return self._next_head()
        if self._chunked:
            return self._next_chunk()
        return self._whole_body()

    def _next_head(self) -> bytes | None:
        if _END not in self._buffer:
            return None
        raw, _, self._buffer = self._buffer.partition(_END)
        _, head = _read(raw)
        self._raw = raw + _END
        status = head.start.split(" ")[1] if head.start.count(" ") else ""
        if status.startswith("1"):
            return self._raw
        self._head = head
        length = head.first("content-length")
        self._chunked = head.first("transfer-encoding") == "chunked"
        bodiless = status in ("204", "304") or self._requests.head.start.startswith("HEAD ")
        self._length = 0 if bodiless else None if length is None else int(length)
        self._passing = self._length is None and not self._chunked
        self._events = 0
        self._kind = self._kind_of(status, head)
        self._stream = self._conversation.new_stream(self._requests.head.start.partition(" ")[0])
        self._conversation.observer.noted(f"{self._kind} http", {name.lower(): value for name, value in head.headers})
        if self._chunked or self._passing:
            return self._changed_head()
        return b""

    def _kind_of(self, status: str, head: HttpHead) -> str:
        """Return the name of a response: the HTTP method, the kind of message in the request, the status, the form."""
        method = self._requests.head.start.partition(" ")[0]
        message = self._requests.message
        form = "stream" if (head.first("content-type") or "").strip().startswith(_STREAM) else "body"
        return " ".join(each for each in (method, posted(message), status, form) if each)

    def _changed_head(self, body: bytes | None = None) -> bytes:
        head = self._head or _NOTHING
        changed = self._conversation.mutation.head(head, self._requests.head, self._kind)
        if changed is not None:
            self._conversation.observer.hit()
        if body is not None:
            changed = (changed or head).replaced("content-length", ("Content-Length", str(len(body))))
        return self._raw if changed is None else _written(changed)

    def _whole_body(self) -> bytes | None:
        length = self._length or 0
        if len(self._buffer) < length:
            return None
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        changed: bytes | None = None
        if body:
            parts = self._conversation.sends(body, self._requests.message)
            changed = None if parts is None else b"\n".join(parts)
        framed = self._conversation.mutation.body(body if changed is None else changed, self._kind)
        if framed is not None:
            self._conversation.observer.hit()
            changed = framed
        found = self._changed_head(changed) + (body if changed is None else changed)
        self._head = None
        return found

    def _next_chunk(self) -> bytes | None:
        size, found, rest = self._buffer.partition(b"\r\n")
        if not found:
            return None
        length = int(size, 16)
        if len(rest) < length + 2:
            return None
        chunk, self._buffer = rest[:length], rest[length + 2 :]
        if not length:
            self._head = None
            self._chunked = False
            return b"0\r\n\r\n"
        return b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in self._frames(chunk) if each)

    def _frames(self, chunk: bytes) -> list[bytes]:
        """Return the events in place of one chunk, which is one event of the server."""
        lines = chunk.split(b"\n")
        at = next((index for index, line in enumerate(lines) if line.startswith(b"data: ") and len(line) > 6), None)
        parts = (
            None if at is None else self._conversation.sends(lines[at][6:], self._requests.message, stream=self._stream)
        )
        frames = (
            [chunk]
            if parts is None or at is None
            else [b"\n".join([*lines[:at], b"data: " + each, *lines[at + 1 :]]) for each in parts]
        )
        found: list[bytes] = []
        for each in frames:
            framed = self._conversation.mutation.event(each, self._events)
            if framed is not None:
                self._conversation.observer.hit()
            self._events += 1
            found.append(each if framed is None else framed)
        self._conversation.observer.noted(f"{self._kind} event", chunk.decode("utf-8", "replace"))
        return found
