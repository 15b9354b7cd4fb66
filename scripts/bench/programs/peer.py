"""A minimal server, for measuring clients: bare reads and writes, and responses from a template."""

from __future__ import annotations

import json
import os

TOOL = {
    "name": "echo",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
MODERN = {"resultType": "complete"}
CACHE = {"ttlMs": 0, "cacheScope": "private"}


def answer(message: dict[str, object]) -> dict[str, object] | None:
    """Return the result of a request other than a tool call."""
    method = message.get("method")
    if method == "initialize":
        params = message["params"]
        version = params["protocolVersion"] if isinstance(params, dict) else ""
        info = {"name": "peer", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **MODERN, **CACHE}
    if method == "tools/list":
        return {"tools": [TOOL], **MODERN, **CACHE}
    return {} if "id" in message else None


def main() -> None:
    """Serve until the end of input."""
    rest = b""
    while data := os.read(0, 1 << 18):
        *lines, rest = (rest + data).split(b"\n")
        out = []
        for line in lines:
            message = json.loads(line)
            if message.get("method") == "tools/call":
                result: object = {"content": [{"type": "text", "text": "hello"}], **MODERN}
            else:
                result = answer(message)
            if result is not None:
                out.append(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\n")
        os.write(1, b"".join(out))


main()
