"""A minimal HTTP server, for measuring clients. The first line that it prints is its port.

`python http_peer.py [FORM]`: FORM is `json` or `stream`, the form of responses.
"""

from __future__ import annotations

import asyncio
import json
import sys

TOOL = {
    "name": "echo",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
MODERN = {"resultType": "complete"}
CACHE = {"ttlMs": 0, "cacheScope": "private"}
STREAM = sys.argv[1:] == ["stream"]
NOTHING = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
NOT_ALLOWED = b"HTTP/1.1 405 Method Not Allowed\r\nallow: POST\r\ncontent-length: 0\r\n\r\n"


def result_of(message: dict[str, object]) -> object:
    """Return the result of a request."""
    method = message["method"]
    if method == "tools/call":
        return {"content": [{"type": "text", "text": "hello"}], **MODERN}
    if method == "initialize":
        params = message["params"]
        version = params["protocolVersion"] if isinstance(params, dict) else ""
        info = {"name": "peer", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **MODERN, **CACHE}
    if method == "tools/list":
        return {"tools": [TOOL], **MODERN, **CACHE}
    return {}


class Connection(asyncio.Protocol):
    """A connection. It receives only whole, well-formed requests with a content length."""

    def __init__(self) -> None:
        self.pending = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each complete request."""
        self.pending += data
        while b"\r\n\r\n" in self.pending:
            head, _, rest = self.pending.partition(b"\r\n\r\n")
            length = 0
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    length = int(line[15:])
            if len(rest) < length:
                return
            body, self.pending = rest[:length], rest[length:]
            self.transport.write(self.answer(head, body))

    def answer(self, head: bytes, body: bytes) -> bytes:
        """Return the response to a request."""
        if not head.startswith(b"POST"):
            return NOT_ALLOWED
        message = json.loads(body)
        if "id" not in message:
            return NOTHING
        out = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result_of(message)}).encode()
        session = b"mcp-session-id: 0123456789abcdef\r\n" if message["method"] == "initialize" else b""
        if STREAM:
            start = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n" + session
            event = b"event: message\ndata: " + out + b"\n\n"
            return start + b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(event), event)
        start = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + session
        return start + b"content-length: %d\r\n\r\n" % len(out) + out


async def main() -> None:
    """Serve until the process is killed."""
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
