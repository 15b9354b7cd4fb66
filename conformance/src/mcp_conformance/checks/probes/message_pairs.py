"""Recorded messages as pairs of request and response, and the other messages of the server."""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Final

from mcp_conformance.wire.transcript import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.wire.transcript import Entry, Transcript
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "answered",
    "client_requests",
    "event_data",
    "is_id",
    "key_of",
    "notified",
    "objects",
    "rejected_without_message",
    "requests_by_exchange",
]

_REJECTED: Final = re.compile("HTTP [45]")
_STREAM: Final = re.compile(r"(?im)^content-type:\s*text/event-stream\b")


def key_of(id: JsonValue) -> str:
    """Return a key for an id, under which 1, "1" and 1.0 differ."""
    # Strings and integers are the usual ones, and there are many: this is what `json.dumps` does for them.
    if type(id) is str:
        return encode_basestring_ascii(id)
    return repr(id) if type(id) is int else json.dumps(id)


def is_id(value: JsonValue) -> bool:
    """Return whether a value is of a type that request ids have."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def objects(entry: Entry) -> Iterator[JsonObject]:
    """Yield the messages of one entry."""
    if entry.kind is Kind.MESSAGE:
        for each in entry.value if isinstance(entry.value, list) else [entry.value]:
            if isinstance(each, dict):
                yield each


def rejected_without_message(transcript: Transcript) -> set[int | None]:
    """Return the HTTP exchanges without a message, such as GET, that were rejected: there is no id for their error."""
    sent = {entry.exchange for entry in transcript if entry.sent and entry.kind is not Kind.HEAD}
    heads = (entry for entry in transcript if not entry.sent and entry.kind is Kind.HEAD)
    return {entry.exchange for entry in heads if entry.exchange not in sent and _REJECTED.match(entry.text)}


def requests_by_exchange(transcript: Transcript) -> dict[int, JsonObject]:
    """Return the request that is posted in each HTTP exchange; of a batch, the last one."""
    found: dict[int, JsonObject] = {}
    for entry in transcript:
        exchange = entry.exchange
        if exchange is None or not entry.sent:
            continue
        for each in objects(entry):
            if "method" in each and "id" in each:
                found[exchange] = each
    return found


def event_data(transcript: Transcript) -> Iterator[Entry]:
    """Yield the entries of the data of events of the server's streams, also of data that is no message."""
    streams: set[int | None] = set()
    for entry in transcript:
        if entry.sent:
            continue
        if entry.kind is Kind.HEAD and _STREAM.search(entry.text):
            streams.add(entry.exchange)
        elif entry.kind in (Kind.MESSAGE, Kind.BYTES) and entry.exchange in streams:
            yield entry


def answered(server: ServerUnderTest) -> Iterator[tuple[JsonObject, JsonObject]]:
    """Yield each correct request of the suite with its response."""
    for transcript in server.evidence:
        yield from _answered(transcript)


def _answered(transcript: Transcript) -> Iterator[tuple[JsonObject, JsonObject]]:
    waiting: dict[str, JsonObject] = {}
    for entry in transcript:
        for message in objects(entry):
            if entry.sent and "method" in message and "id" in message and not entry.deviant:
                waiting[key_of(message["id"])] = message
            elif not entry.sent and "method" not in message:
                request = waiting.pop(key_of(message.get("id")), None)
                if request is not None:
                    yield request, message


def notified(server: ServerUnderTest, method: str) -> Iterator[JsonObject]:
    """Yield the params of the server's notifications of a method."""
    for transcript in server.evidence:
        for message in transcript.messages(sent=False):
            if isinstance(message, dict) and message.get("method") == method and "id" not in message:
                params = message.get("params")
                yield params if isinstance(params, dict) else {}


def client_requests(server: ServerUnderTest, method: str) -> Iterator[JsonObject]:
    """Yield the params of the client requests of a method: of requests, and of input requests in results."""
    for transcript in server.evidence:
        for message in transcript.messages(sent=False):
            if isinstance(message, dict):
                for request in [message] if "id" in message else []:
                    if request.get("method") == method:
                        params = request.get("params")
                        yield params if isinstance(params, dict) else {}
                yield from _in_result(message, method)


def _in_result(message: JsonObject, method: str) -> Iterator[JsonObject]:
    result = message.get("result")
    requests = result.get("inputRequests") if isinstance(result, dict) else None
    for request in requests.values() if isinstance(requests, dict) else ():
        if isinstance(request, dict) and request.get("method") == method:
            params = request.get("params")
            yield params if isinstance(params, dict) else {}
