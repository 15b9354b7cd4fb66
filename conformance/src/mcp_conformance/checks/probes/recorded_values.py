"""The recorded messages: responses with their requests, and the values of each kind in them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import attrs

from mcp_conformance.checks.probes.message_pairs import key_of, objects
from mcp_core.types.meta import SERVER_INFO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["Exchange", "RecordedMessages", "items", "member", "meta_of", "params_of"]

_LISTED: Final[Mapping[str, str]] = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


def member(value: JsonValue, *names: str) -> JsonValue:
    """Return a nested member of a value; `None` when it does not exist."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def params_of(message: JsonValue) -> JsonObject:
    """Return the params of a message; empty when it has none."""
    params = member(message, "params")
    return params if isinstance(params, dict) else {}


def meta_of(message: JsonValue) -> JsonObject:
    """Return `_meta` of the params of a message; empty when it has none."""
    meta = member(message, "params", "_meta")
    return meta if isinstance(meta, dict) else {}


def items(value: JsonValue) -> list[JsonValue]:
    """Return the entries of an array; empty when the value is not an array."""
    return value if isinstance(value, list) else []


@attrs.frozen(kw_only=True)
class Exchange:
    """A request of the suite with its response."""

    request: JsonObject
    """The request."""
    response: JsonObject
    """The response."""

    @property
    def method(self) -> str:
        """Method of the request."""
        return str(self.request.get("method"))

    @property
    def result(self) -> JsonValue:
        """The result; `None` for an error."""
        return self.response.get("result")

    @property
    def complete(self) -> bool:
        """Whether the result is final: neither an `InputRequiredResult` nor a task."""
        kind = member(self.result, "resultType")
        task = isinstance(member(self.request, "params", "task"), dict) and isinstance(
            member(self.result, "task"), dict
        )
        return "result" in self.response and kind in (None, "complete") and not task


class _Reading:
    """The messages of one connection, as far as it was read. Each of many checks reads all connections."""

    def __init__(self, transcript: Transcript) -> None:
        self._entries: Final = transcript.entries
        self._read = 0
        # Over HTTP the response is in the exchange of its request, or in another one if the stream was resumed.
        self._pending: Final[dict[str, list[tuple[int | None, JsonObject]]]] = {}
        self.exchanges: Final[list[Exchange]] = []
        """The requests with a response."""
        self.spoken: Final[list[JsonObject]] = []
        """Requests and notifications of the server."""

    def go_on(self) -> None:
        """Read the entries that were added."""
        for entry in itertools.islice(self._entries, self._read, None):
            self._read += 1
            for each in objects(entry):
                if entry.sent and "method" in each and "id" in each:
                    self._pending.setdefault(key_of(each["id"]), []).append((entry.exchange, each))
                elif not entry.sent and "method" in each:
                    self.spoken.append(each)
                elif not entry.sent and (requests := self._pending.get(key_of(each.get("id")))):
                    place = next((n for n, (exchange, _) in enumerate(requests) if exchange == entry.exchange), 0)
                    self.exchanges.append(Exchange(request=requests.pop(place)[1], response=each))


_readings: Final[WeakKeyDictionary[Transcript, _Reading]] = WeakKeyDictionary()


class RecordedMessages:
    """The messages that the server sent.

    Args:
        evidence: All connections of one revision over one transport.
    """

    def __init__(self, evidence: Iterable[Transcript]) -> None:
        self.exchanges: Final[list[Exchange]] = []
        """All requests with a response."""
        self.spoken: Final[list[JsonObject]] = []
        """Requests and notifications of the server."""
        for transcript in evidence:
            reading = _readings.get(transcript)
            if reading is None:
                reading = _readings[transcript] = _Reading(transcript)
            reading.go_on()
            self.exchanges.extend(reading.exchanges)
            self.spoken.extend(reading.spoken)

    def results(self, *methods: str) -> Iterator[JsonValue]:
        """Yield the final results of methods."""
        for each in self.exchanges:
            if each.method in methods and each.complete:
                yield each.result

    def errors(self) -> Iterator[JsonValue]:
        """Return the error objects."""
        return (each.response["error"] for each in self.exchanges if "error" in each.response)

    def listed(self, *methods: str) -> Iterator[JsonValue]:
        """Yield the entries of lists."""
        for method in methods or _LISTED:
            for result in self.results(method):
                yield from items(member(result, _LISTED[method]))

    def notified(self, method: str) -> Iterator[JsonValue]:
        """Return the params of the server's notifications or requests of a method."""
        return (each.get("params") for each in self.spoken if each.get("method") == method)

    def client_requests(self, method: str) -> Iterator[JsonValue]:
        """Yield the params of client requests: of requests, of input requests in results, and for tasks."""
        yield from self.notified(method)
        for each in self.exchanges:
            requests = member(each.result, "inputRequests")
            for request in requests.values() if isinstance(requests, dict) else ():
                if member(request, "method") == method:
                    yield member(request, "params")

    def outcomes(self, method: str) -> Iterator[JsonValue]:
        """Yield the results of a method, including those of tasks."""
        yield from self.results(method)
        if method == "tools/call":
            yield from self.results("tasks/result")
            for each in self.results("tasks/get"):
                inner = member(each, "result")
                if inner is not None:
                    # The result in a task may omit the resultType.
                    yield {"resultType": "complete", **inner} if isinstance(inner, dict) else inner

    def blocks(self) -> Iterator[JsonValue]:
        """Yield the content blocks of tool results and prompts."""
        for result in self.outcomes("tools/call"):
            yield from items(member(result, "content"))
        for result in self.results("prompts/get"):
            for message in items(member(result, "messages")):
                if isinstance(message, dict) and "content" in message:
                    yield message["content"]

    def blocks_of(self, kind: str) -> Iterator[JsonValue]:
        """Return the content blocks of one type."""
        return (each for each in self.blocks() if member(each, "type") == kind)

    def contents(self) -> Iterator[JsonValue]:
        """Yield the contents of resources: those that were read, and those that are embedded."""
        for result in self.results("resources/read"):
            yield from items(member(result, "contents"))
        yield from (member(each, "resource") for each in self.blocks_of("resource"))

    def implementations(self) -> Iterator[JsonValue]:
        """Yield the server's `Implementation` objects."""
        yield from (found for each in self.results("initialize") if (found := member(each, "serverInfo")) is not None)
        for exchange in self.exchanges:
            found = member(exchange.result, "_meta", SERVER_INFO)
            if found is not None:
                yield found

    def capabilities(self) -> Iterator[JsonValue]:
        """Yield the capabilities that the server declares."""
        for result in self.results("initialize", "server/discover"):
            found = member(result, "capabilities")
            if found is not None:
                yield found

    def holders(self) -> Iterator[JsonValue]:
        """Yield all values that may have annotations."""
        yield from self.listed("resources/list", "resources/templates/list")
        yield from self.blocks()

    def having(self, values: Iterable[JsonValue], name: str) -> Iterator[JsonValue]:
        """Return the members of a name from the values that have it."""
        return (each[name] for each in values if isinstance(each, dict) and name in each)

    def tasks(self) -> Iterator[JsonValue]:
        """Yield the tasks of 2025-11-25, from all messages that contain one."""
        for exchange in self.exchanges:
            if isinstance(member(exchange.request, "params", "task"), dict):
                found = member(exchange.result, "task")
                if found is not None:
                    yield found
        yield from self.results("tasks/get")
        # The modern result is an acknowledgment without a task.
        yield from (each for each in self.results("tasks/cancel") if member(each, "resultType") is None)
        for result in self.results("tasks/list"):
            yield from items(member(result, "tasks"))
        yield from self.notified("notifications/tasks/status")

    def schemas(self) -> Iterator[JsonValue]:
        """Yield the JSON Schemas that the server publishes: of arguments, also of tools for sampling, of output, and of forms."""
        tools = list(self.listed("tools/list"))
        yield from self.having(tools, "inputSchema")
        yield from self.having(tools, "outputSchema")
        for params in self.client_requests("sampling/createMessage"):
            yield from self.having(items(member(params, "tools")), "inputSchema")
        yield from self.having(self.client_requests("elicitation/create"), "requestedSchema")
