"""The behavior of an implementation in one check, without what may differ between two correct implementations.

The exchanges of a check are the steps: a message or an HTTP request of the suite, and what the implementation sent until
the next one. Each step has facts, for instance the status of HTTP, the code of an error, the members of a result and
their types, and the order of the messages. Values that implementations choose are not facts: ids, cursors, names, texts,
times and numbers. Members of a message have no order.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_conformance.wire.transcript import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mcp_conformance.wire.transcript import Entry
    from mcp_core.jsonrpc.messages import JsonValue

__all__ = ["Facts", "Step", "client_steps", "server_steps"]

Facts: TypeAlias = "Mapping[str, frozenset[str]]"
"""The values that were seen, by the name of a fact, for instance `status` or `result.content[].type`."""

_FIXED_VALUES: Final = frozenset(
    {
        "action", "cacheScope", "code", "jsonrpc", "level", "method", "mode", "protocolVersion", "resultType", "role",
        "status", "stopReason", "supported", "supportedVersions", "type",
    }
)  # fmt: skip
"""Members whose strings and numbers are values of the specification."""
_OPAQUE: Final = frozenset(
    {
        "arguments", "data", "experimental", "inputSchema", "outputSchema", "requestedSchema", "serverInfo",
        "structuredContent",
    }
)  # fmt: skip
"""Members whose contents an implementation chooses, so that only their type is compared."""
_SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
_SHOWN_HEADERS: Final = ("accept", "allow", "content-type")
"""HTTP headers whose values are compared, without parameters."""
_PRESENT_HEADERS: Final = frozenset(
    {
        "authorization", "last-event-id", "location", "mcp-method", "mcp-name", "mcp-protocol-version",
        "mcp-session-id", "retry-after", "www-authenticate",
    }
)  # fmt: skip
"""HTTP headers of which only the presence is compared."""
_RESPONSES: Final = ("result", "error")
_DEPTH: Final = 12
"""Levels of a message that are compared."""


@attrs.frozen(kw_only=True)
class Step:
    """A message of the suite with the reaction of a server, or a message of a client."""

    label: str
    """What was sent: the method with the tool, prompt or resource, and its number if it was sent several times."""
    facts: Facts
    """The facts of the reaction, or of the message of the client."""


@attrs.define
class _Exchange:
    """The entries of a step."""

    label: str
    received: list[Entry] = attrs.field(factory=list)
    sent: str = ""
    """The message without its id."""
    began: int = 0
    """The position of its first entry."""
    ended: int = 0
    """The position of the response; that of the first entry without one."""


def server_steps(parts: Iterable[Sequence[Entry]]) -> tuple[Step, ...]:
    """Return what a server did with each message of the suite, on the connections of a check, in order."""
    return _numbered(exchange for entries in parts for exchange in _exchanges(entries))


def client_steps(parts: Iterable[Sequence[Entry]]) -> tuple[Step, ...]:
    """Return each message or HTTP request that a client sent, in the scenarios of a check, in order."""
    return _numbered(exchange for entries in parts for exchange in _sent_by_client(entries))


def _numbered(exchanges: Iterable[_Exchange]) -> tuple[Step, ...]:
    known = _ordered(exchanges)
    numbers = Counter(exchange.label for exchange in known)
    seen: Counter[str] = Counter()
    found: list[Step] = []
    for exchange in known:
        seen[exchange.label] += 1
        number, total = seen[exchange.label], numbers[exchange.label]
        label = f"{exchange.label} ({number} of {total})" if number > 1 else exchange.label
        found.append(Step(label=label, facts=_facts(exchange.received)))
    return tuple(found)


def _ordered(exchanges: Iterable[_Exchange]) -> list[_Exchange]:
    """Return exchanges in order. Those with the same label at the same time, which have no order, are in that of what was sent."""
    found: list[_Exchange] = []
    for each in exchanges:
        at = len(found)
        for index in range(at - 1, -1, -1):
            other = found[index]
            if other.label == each.label and other.ended > each.began and other.sent > each.sent:
                at = index
        found.insert(at, each)
    return found


def _sent_by_client(entries: Sequence[Entry]) -> list[_Exchange]:
    """Return each message of a client with the head of its HTTP request."""
    found: list[_Exchange] = []
    requested: dict[str, str] = {}
    by_http: dict[int, _Exchange] = {}
    for entry in entries:
        if entry.kind is Kind.NOTE:
            continue
        if entry.sent:
            _note_request(entry, requested)
        elif entry.exchange is not None and entry.exchange in by_http:
            step = by_http[entry.exchange]
            step.label = _label(entry, requested)
            step.received.append(entry)
        else:
            found.append(_Exchange(_label(entry, requested), [entry]))
            if entry.exchange is not None and entry.kind is Kind.HEAD:
                by_http[entry.exchange] = found[-1]
    return found


def _exchanges(entries: Sequence[Entry]) -> list[_Exchange]:
    """Return the exchanges of a connection: by HTTP exchange, or by the id of the message over a pipe."""
    found: list[_Exchange] = []
    by_http: dict[int, _Exchange] = {}
    by_id: dict[str, _Exchange] = {}
    requested: dict[str, str] = {}
    for position, entry in enumerate(entries):
        if entry.kind is Kind.NOTE:
            continue
        number = entry.exchange
        if not entry.sent:
            _note_request(entry, requested)
            step = by_http.get(number) if number is not None else by_id.get(_id(entry.value))
            if step is None and number is None and found:
                step = found[-1]
            if step is not None:
                step.received.append(entry)
                if _kind(entry.value) in _RESPONSES:
                    step.ended = position
        elif number is not None and number in by_http:
            if entry.kind is not Kind.HEAD:
                by_http[number].label, by_http[number].sent = _label(entry, requested), _content(entry)
        else:
            step = _Exchange(_label(entry, requested), sent=_content(entry), began=position, ended=position)
            found.append(step)
            if number is not None:
                by_http[number] = step
            elif isinstance(entry.value, dict) and "method" in entry.value:
                by_id[_id(entry.value)] = step
    return found


def _note_request(entry: Entry, requested: dict[str, str]) -> None:
    """Record the method of a client request, with which the response to it is labeled."""
    if isinstance(entry.value, dict) and "method" in entry.value and "id" in entry.value:
        requested[_id(entry.value)] = str(entry.value["method"])


def _id(value: JsonValue) -> str:
    return repr(value.get("id")) if isinstance(value, dict) and "id" in value else ""


def _content(entry: Entry) -> str:
    """Return the message that an entry sends, without its id; empty if it sends no message."""
    if not isinstance(entry.value, dict):
        return ""
    return json.dumps({name: value for name, value in entry.value.items() if name != "id"}, sort_keys=True)


def _label(entry: Entry, requested: Mapping[str, str]) -> str:
    """Return what an entry sends, without values that depend on the implementation."""
    purpose = f" (on purpose: {entry.deviant})" if entry.deviant else ""
    if entry.kind is Kind.HEAD:
        return f"{entry.text.partition(' ')[0]}{purpose}"
    value = entry.value
    if not isinstance(value, dict):
        return f"{'a batch' if isinstance(value, list) else 'bytes'}{purpose}"
    method = value.get("method")
    if not isinstance(method, str):
        return f"response to {requested.get(_id(value), 'a client request')}{purpose}"
    params = value.get("params")
    named = params.get("name", params.get("uri")) if isinstance(params, dict) else None
    return f"{method}{f' {named}' if isinstance(named, str) else ''}{purpose}"


def _facts(received: Sequence[Entry]) -> Facts:
    facts: dict[str, set[str]] = {}
    order: list[str] = []

    def enter(name: str, value: str) -> None:
        facts.setdefault(name, set()).add(value)

    for entry in received:
        if entry.kind is Kind.HEAD:
            for name, value in _head_facts(entry.text):
                enter(name, value)
        elif entry.kind is Kind.BYTES:
            enter("bytes that are not JSON", "present")
        else:
            for message in entry.value if isinstance(entry.value, list) else [entry.value]:
                kind = _kind(message)
                if order[-1:] != [kind]:
                    order.append(kind)
                if isinstance(message, dict):
                    for name, value in _members(message, kind):
                        enter(name, value)
            if isinstance(entry.value, list):
                enter("batch", "present")
    enter("messages", ", ".join(order) or "none")
    return {name: frozenset(values) for name, values in facts.items()}


def _head_facts(text: str) -> Iterator[tuple[str, str]]:
    first, *lines = text.splitlines()
    if first.startswith("HTTP "):
        yield "HTTP status", first.removeprefix("HTTP ")
    for line in lines:
        given, _, value = line.partition(": ")
        name = given.lower()
        if name in _SHOWN_HEADERS:
            parts = (part.partition(";")[0].strip().lower() for part in value.split(","))
            yield f"header {name}", ", ".join(sorted(parts))
        elif name in _PRESENT_HEADERS:
            yield f"header {name}", "present"


def _kind(message: JsonValue) -> str:
    """Return the kind of a message: its method, `result`, or `error`."""
    if not isinstance(message, dict):
        return "no message"
    method = message.get("method")
    return method if isinstance(method, str) else "error" if "error" in message else "result"


def _members(message: Mapping[str, JsonValue], kind: str) -> Iterator[tuple[str, str]]:
    for name, value in message.items():
        if name == "id":
            # The checks of the envelope judge ids. What counts here is whether there is one.
            yield f"{kind} id", "null" if value is None else "present"
        elif isinstance(value, dict):
            # Whether there is a result or an error is in the order of the messages.
            for key, member in value.items():
                yield from _value(f"{name if name in _RESPONSES else f'{kind} {name}'}.{key}", key, member, _DEPTH)
        else:
            yield from _value(f"{kind} {name}", name, value, _DEPTH)


def _value(path: str, name: str, value: JsonValue, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the facts of a value: its type, and those of its members."""
    if isinstance(value, bool) or value is None:
        yield path, "null" if value is None else str(value).lower()
    elif isinstance(value, int | float | str) and name in _FIXED_VALUES:
        yield path, str(value)
    elif isinstance(value, int | float):
        yield path, "a number"
    elif isinstance(value, str):
        yield path, "a string"
    elif isinstance(value, list):
        yield path, "an array" if value else "an empty array"
        for each in value if depth and name not in _OPAQUE else ():
            yield from _value(f"{path}[]", name, each, depth - 1)
    else:
        yield path, "an object"
        if depth and name not in _OPAQUE and name != _SERVER_INFO:
            for key, member in value.items():
                yield from _value(f"{path}.{key}", key, member, depth - 1)
