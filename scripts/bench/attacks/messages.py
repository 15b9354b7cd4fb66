"""The raw requests of hostile clients: heads and bodies as bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from bench.http_calls import ENVELOPE, INFO, LEGACY, MODERN, headers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "BATCHING",
    "LARGE",
    "LEGACY",
    "MIB",
    "MODERN",
    "batch",
    "bracket_bomb",
    "call",
    "empty_objects",
    "head",
    "headers_of",
    "initialize",
    "listen",
    "long_head",
    "numbered_members",
    "post",
    "request",
    "uris",
]

MIB: Final = 1024 * 1024
LARGE: Final = 3_900_000
"""Bytes of a value that leave space for the rest of its message within `Limits.message_bytes`, 4 MiB."""
BATCHING: Final = "2025-03-26"
"""The revision that has batches."""


def request(method: str, params: Mapping[str, object], revision: str, id: int | str = 1) -> bytes:
    """Return a JSON-RPC request without blanks."""
    whole = {**params, "_meta": ENVELOPE} if revision == MODERN else params
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": whole}
    return json.dumps(message, separators=(",", ":")).encode()


def initialize(
    capabilities: Mapping[str, object] | None = None, revision: str = LEGACY, padding: str | None = None
) -> bytes:
    """Return an `initialize` request.

    Args:
        capabilities: The client capabilities.
        revision: The requested legacy revision.
        padding: A long title of the client, which a server may keep.
    """
    info = INFO if padding is None else {**INFO, "title": padding}
    params = {"protocolVersion": revision, "capabilities": capabilities or {}, "clientInfo": info}
    return request("initialize", params, LEGACY)


def call(tool: str, arguments: Mapping[str, object], revision: str, id: int | str = 1, **params: object) -> bytes:
    """Return a `tools/call` request; `params` are added to the name and the arguments."""
    return request("tools/call", {"name": tool, "arguments": arguments, **params}, revision, id)


def listen(count: int, size: int) -> bytes:
    """Return a `subscriptions/listen` request for `count` URIs of `size` bytes each."""
    return request(
        "subscriptions/listen", {"notifications": {"resourceSubscriptions": list(uris(count, size))}}, MODERN
    )


def uris(count: int, size: int) -> Iterator[str]:
    """Yield `count` different URIs of `size` bytes each."""
    for number in range(count):
        yield f"note://{number:08}".ljust(size, "x")


def empty_objects(arrays: int, items: int) -> dict[str, object]:
    """Return an object of `arrays` arrays with `items` empty objects each: three bytes on the wire become some 64."""
    return {f"k{number}": [{}] * items for number in range(arrays)}


def numbered_members(count: int) -> dict[str, object]:
    """Return an object with `count` members of different names."""
    return {f"unknown{number}": number for number in range(count)}


def bracket_bomb(depth: int) -> bytes:
    """Return a modern call whose argument is an array nested `depth` levels deep."""
    return call("echo", {"text": 0}, MODERN).replace(b'"text":0', b'"text":' + b"[" * depth + b"]" * depth)


def batch(members: int, tool: str = "echo") -> bytes:
    """Return a batch of `members` calls."""
    return b"[" + b",".join(call(tool, {"text": "x"}, BATCHING, number) for number in range(members)) + b"]"


def head(method: str, path: str, authority: str, headers: Mapping[str, str]) -> bytes:
    """Return the head of an HTTP/1.1 request."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {path} HTTP/1.1\r\nhost: {authority}\r\n{lines}\r\n".encode()


def post(path: str, authority: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return a whole POST request."""
    return head("POST", path, authority, {**headers, "content-length": str(len(body))}) + body


def long_head(authority: str, size: int) -> bytes:
    """Return the beginning of a head of `size` bytes that never ends."""
    begun = f"POST /mcp HTTP/1.1\r\nhost: {authority}\r\n"
    fields = (f"x-field-{number}: {'y' * 80}\r\n" for number in range(size // 80 + 1))
    return (begun + "".join(fields)).encode()[:size]
