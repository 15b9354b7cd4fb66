"""What the evidence holds: the answers with what was asked, and the values of each kind that are in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.wire.transcript import Kind
from mcp_core.types.meta import SERVER_INFO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["Exchange", "Seen", "items", "member"]

_LISTED: Final[Mapping[str, str]] = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


def member(value: JsonValue, *names: str) -> JsonValue:
    """What stands at a place of a value; `None` where there is nothing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def items(value: JsonValue) -> list[JsonValue]:
    """The entries of a list; none of what is no list."""
    return value if isinstance(value, list) else []


@attrs.frozen(kw_only=True)
class Exchange:
    """A request of the suite and what came back for it."""

    request: JsonObject
    """What was asked."""
    response: JsonObject
    """What came."""

    @property
    def method(self) -> str:
        """What was asked for."""
        return str(self.request.get("method"))

    @property
    def result(self) -> JsonValue:
        """The result; `None` where there is none."""
        return self.response.get("result")

    @property
    def complete(self) -> bool:
        """Whether the result is the last word: no question, and no task in its place."""
        kind = member(self.result, "resultType")
        task = isinstance(member(self.request, "params", "task"), dict) and isinstance(
            member(self.result, "task"), dict
        )
        return "result" in self.response and kind in (None, "complete") and not task


class Seen:
    """What came over the wire.

    Args:
        evidence: All connections of one revision over one transport.
    """

    def __init__(self, evidence: Iterable[Transcript]) -> None:
        self.exchanges: Final[list[Exchange]] = []
        """All that was answered."""
        self.spoken: Final[list[JsonObject]] = []
        """Requests and notifications of the server."""
        for transcript in evidence:
            self._read(transcript)

    def _read(self, transcript: Transcript) -> None:
        # Over HTTP the answer comes in the exchange of its request; where a stream was resumed, in another one.
        pending: dict[bytes, list[tuple[int | None, JsonObject]]] = {}
        for entry in transcript:
            if entry.kind is not Kind.MESSAGE:
                continue
            for each in entry.value if isinstance(entry.value, list) else [entry.value]:
                if not isinstance(each, dict):
                    continue
                if entry.sent and "method" in each and "id" in each:
                    pending.setdefault(encoded(each["id"]), []).append((entry.exchange, each))
                elif not entry.sent and "method" in each:
                    self.spoken.append(each)
                elif not entry.sent and (asked := pending.get(encoded(each.get("id")))):
                    place = next((n for n, (exchange, _) in enumerate(asked) if exchange == entry.exchange), 0)
                    self.exchanges.append(Exchange(request=asked.pop(place)[1], response=each))

    def results(self, *methods: str) -> Iterator[JsonValue]:
        """The results of methods: those that are the last word."""
        for each in self.exchanges:
            if each.method in methods and each.complete:
                yield each.result

    def errors(self) -> Iterator[JsonValue]:
        """The error objects."""
        return (each.response["error"] for each in self.exchanges if "error" in each.response)

    def listed(self, *methods: str) -> Iterator[JsonValue]:
        """The entries of lists."""
        for method in methods or _LISTED:
            for result in self.results(method):
                yield from items(member(result, _LISTED[method]))

    def notified(self, method: str) -> Iterator[JsonValue]:
        """The params of a notification of the server."""
        return (each.get("params") for each in self.spoken if each.get("method") == method)

    def questions(self, method: str) -> Iterator[JsonValue]:
        """The params of what the server asks: by a request of its own, by a result, or for a task."""
        yield from self.notified(method)
        for each in self.exchanges:
            asked = member(each.result, "inputRequests")
            for request in asked.values() if isinstance(asked, dict) else ():
                if member(request, "method") == method:
                    yield member(request, "params")

    def outcomes(self, method: str) -> Iterator[JsonValue]:
        """The results of a method, those of tasks too."""
        yield from self.results(method)
        if method == "tools/call":
            yield from self.results("tasks/result")
            for each in self.results("tasks/get"):
                inner = member(each, "result")
                if inner is not None:
                    # A result that stands in a task need not say its kind again.
                    yield {"resultType": "complete", **inner} if isinstance(inner, dict) else inner

    def blocks(self) -> Iterator[JsonValue]:
        """The content blocks of tool results and prompts."""
        for result in self.outcomes("tools/call"):
            yield from items(member(result, "content"))
        for result in self.results("prompts/get"):
            for message in items(member(result, "messages")):
                if isinstance(message, dict) and "content" in message:
                    yield message["content"]

    def blocks_of(self, kind: str) -> Iterator[JsonValue]:
        """The content blocks of one type."""
        return (each for each in self.blocks() if member(each, "type") == kind)

    def contents(self) -> Iterator[JsonValue]:
        """The contents of resources: those that were read, and those that are embedded."""
        for result in self.results("resources/read"):
            yield from items(member(result, "contents"))
        yield from (member(each, "resource") for each in self.blocks_of("resource"))

    def implementations(self) -> Iterator[JsonValue]:
        """What the server says of itself."""
        yield from (found for each in self.results("initialize") if (found := member(each, "serverInfo")) is not None)
        for exchange in self.exchanges:
            found = member(exchange.result, "_meta", SERVER_INFO)
            if found is not None:
                yield found

    def capabilities(self) -> Iterator[JsonValue]:
        """What the server declares."""
        for result in self.results("initialize", "server/discover"):
            found = member(result, "capabilities")
            if found is not None:
                yield found

    def holders(self) -> Iterator[JsonValue]:
        """All that may have annotations for its audience."""
        yield from self.listed("resources/list", "resources/templates/list")
        yield from self.blocks()

    def having(self, values: Iterable[JsonValue], name: str) -> Iterator[JsonValue]:
        """The members of that name of values, where they have it."""
        return (each[name] for each in values if isinstance(each, dict) and name in each)

    def tasks(self) -> Iterator[JsonValue]:
        """The tasks of 2025-11-25, wherever they are shown."""
        for exchange in self.exchanges:
            if isinstance(member(exchange.request, "params", "task"), dict):
                found = member(exchange.result, "task")
                if found is not None:
                    yield found
        yield from self.results("tasks/get")
        # The modern answer is an acknowledgement, and no task.
        yield from (each for each in self.results("tasks/cancel") if member(each, "resultType") is None)
        for result in self.results("tasks/list"):
            yield from items(member(result, "tasks"))
        yield from self.notified("notifications/tasks/status")

    def schemas(self) -> Iterator[JsonValue]:
        """The JSON Schemas that the server publishes: of arguments, of output, and of forms."""
        tools = list(self.listed("tools/list"))
        yield from self.having(tools, "inputSchema")
        yield from self.having(tools, "outputSchema")
        yield from self.having(self.questions("elicitation/create"), "requestedSchema")
