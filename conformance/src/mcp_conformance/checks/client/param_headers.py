"""Header parameters of a modern client, and the tools that it must reject for their annotations.

Spec: basic/transports/streamable-http#custom-headers-from-tool-parameters (2026-07-28)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.client import CLIENT_CHECKS, check
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.param_headers import header_value
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.headers import NESTED
from mcp_conformance.scenarios.pagination import FIRST_HEADER, FIRST_TOOL, LAST_ARGUMENT, LAST_HEADER, LAST_TOOL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_PREFIX: Final = "mcp-param-"
_EMPTY: Final = "=?base64??="
"""The encoded empty string."""
_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "Region": ("region",),
    "Priority": ("priority",),
    "Verbose": ("verbose",),
    "Place_City.x": ("place", "city"),
    "Square": ("place", "map", "square"),
    "Full-Name": ("place.city",),
    "Item-Count": ("items", "count"),
}
"""The path of the argument, by header, in agreement with `header_scenarios.ANNOTATED`."""
_ANNOTATED_ELSEWHERE: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {
    ("conformance_rounds", "ask_in_rounds"): {"Text": "text", "Count": "count"},
    ("conformance_pages", FIRST_TOOL): {FIRST_HEADER: LAST_ARGUMENT},
    ("conformance_pages", LAST_TOOL): {LAST_HEADER: LAST_ARGUMENT},
}
"""The arguments of other annotated tools, by scenario and tool, and by header."""
_PLAIN: Final = ("Region", "Priority", "Verbose")
_NESTED: Final = ("Place_City.x", "Full-Name", "Square", "Item-Count")


def _arguments(exchange: HttpExchange) -> JsonObject:
    params = exchange.message.get("params")
    arguments = params.get("arguments") if isinstance(params, dict) else None
    return arguments if isinstance(arguments, dict) else {}


def _at(arguments: JsonObject, path: tuple[str, ...]) -> JsonValue:
    here: JsonValue = arguments
    for name in path:
        here = here.get(name) if isinstance(here, dict) else None
    return here


def _calls(client: ClientUnderTest) -> list[HttpExchange]:
    """Return the calls of the tool with header parameters."""
    evidence = client.run("http-custom-headers")
    found = [each for each in evidence.exchanges if _called_tool(each) == "test_custom_headers"]
    if not found:
        raise NotTestable("the client did not call test_custom_headers")
    return found


def _called_tool(exchange: HttpExchange) -> str | None:
    params = exchange.message.get("params")
    name = params.get("name") if isinstance(params, dict) else None
    return name if isinstance(name, str) and exchange.message.get("method") == "tools/call" else None


def _add(
    id: str,
    requirements: tuple[str, ...],
    title: str,
    is_relevant: Callable[[JsonValue], bool],
    headers: tuple[str, ...] = _PLAIN,
) -> None:
    """Add a check that arguments of a kind are repeated correctly in headers."""

    async def repeated(client: ClientUnderTest) -> None:
        tried = 0
        for exchange in _calls(client):
            for header in headers:
                value = _at(_arguments(exchange), _PATHS[header])
                if not is_relevant(value):
                    continue
                tried += 1
                encoded = header_value(value)
                given = exchange.all(f"{_PREFIX}{header}")
                # Unnecessary encoding is allowed, and some intermediaries drop an empty header.
                if value == "" and given == [_EMPTY]:
                    continue
                if given != ([] if encoded is None else [encoded]):
                    expected = f"Mcp-Param-{header}: {encoded!r}" if encoded is not None else f"no Mcp-Param-{header}"
                    raise Deviation(f"{expected} for {brief(value)}", f"{given or 'no such header'}")
        if not tried:
            raise NotTestable("the client sent no call with such an argument")

    CLIENT_CHECKS.add(
        id,
        repeated,
        title=title,
        proves=requirements,
        needs=("scenario:http-custom-headers",),
        subject=CheckScope.EVIDENCE,
    )


_INNER_TAB: Final = re.compile(r"(?<=\S)\t(?=\S)")


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _looks_encoded(value: JsonValue) -> bool:
    return isinstance(value, str) and value.startswith("=?base64?") and value.endswith("?=")


def _is_encoded(value: JsonValue) -> bool:
    if not isinstance(value, str) or _looks_encoded(value):
        return False
    # Header values may have tabs within. As these are control characters, too, clients may also encode them.
    strict = _INNER_TAB.sub(" ", value)
    return header_value(strict) != strict


_REPEATED: Final[tuple[tuple[str, tuple[str, ...], str, Callable[[JsonValue], bool]], ...]] = (
    (
        "header.client-param-string",
        ("header.param-string-as-is",),
        "A string of plain characters is the header value without encoding, also the empty string.",
        lambda value: isinstance(value, str) and value == header_value(value),
    ),
    (
        "header.client-param-integer",
        ("header.param-integer-decimal",),
        "The header of an integer has decimal digits.",
        _is_number,
    ),
    (
        "header.client-param-boolean",
        ("header.param-boolean-lowercase",),
        "The header of a boolean is `true` or `false`.",
        lambda value: isinstance(value, bool),
    ),
    (
        "header.client-param-base64",
        ("header.param-base64-unsafe", "header.base64-markers-exact"),
        "A string that is not a valid header value is encoded as base64.",
        _is_encoded,
    ),
    (
        "header.client-param-injection",
        ("header.param-injection-safe",),
        "A line break in an argument does not create another header.",
        lambda value: isinstance(value, str) and "\n" in value,
    ),
    (
        "header.client-param-sentinel",
        ("header.sentinel-literal-encoded",),
        "A string that looks encoded is encoded.",
        _looks_encoded,
    ),
    (
        "header.client-param-none",
        ("header.param-absent-omitted", "header.param-null-omitted"),
        "A null or missing argument has no header.",
        lambda value: value is None,
    ),
)

for _row in _REPEATED:
    _add(*_row)
_add(
    "header.client-param-nested",
    ("header.param-nested-path",),
    "An argument within an object has a header if its own parameter is annotated; a dot in a name is no path.",
    lambda value: value is not None,
    _NESTED,
)


@check(
    "header.client-param-mirrored",
    proves=("header.param-mirrored", "header.param-feature-supported"),
    needs=("scenario:http-custom-headers", *(f"scenario:{name}" for name, _ in _ANNOTATED_ELSEWHERE)),
)
async def mirrored(client: ClientUnderTest) -> None:
    """Every argument of an annotated parameter has a header, also in retries and with a tool of any page."""
    for (scenario, tool), headers in _ANNOTATED_ELSEWHERE.items():
        for exchange in client.run(scenario).exchanges:
            for header, argument in headers.items():
                value = _arguments(exchange).get(argument) if _called_tool(exchange) == tool else None
                if value is not None and not exchange.all(f"{_PREFIX}{header}"):
                    raise Deviation(f"Mcp-Param-{header} for {brief(value)} in {tool}", "no such header")
    for exchange in _calls(client):
        for header in _PLAIN:
            value = _at(_arguments(exchange), _PATHS[header])
            if value is not None and not exchange.all(f"{_PREFIX}{header}"):
                raise Deviation(f"Mcp-Param-{header} for {brief(value)}", "no such header")


@check(
    "header.client-param-only-designated",
    proves=("header.param-only-designated",),
    needs=("scenario:http-custom-headers",),
)
async def only_annotated(client: ClientUnderTest) -> None:
    """An argument whose parameter is not annotated has no header."""
    allowed = {f"{_PREFIX}{header.lower()}" for header in _PATHS}
    for exchange in _calls(client):
        more = [name for name, _ in exchange.headers if name.startswith(_PREFIX) and name not in allowed]
        if more:
            raise Deviation("headers for annotated parameters only", ", ".join(more))


# --- tools to reject
# ----------------------------------------------------------------------------------------------------


def _used(client: ClientUnderTest) -> set[str]:
    """Return the tools that were called, if the valid one was: then the client omitted the others on purpose."""
    evidence = client.run("http-invalid-tool-headers")
    names = {name for each in evidence.exchanges if (name := _called_tool(each)) is not None}
    if "valid_tool" not in names:
        raise NotTestable("the control request failed: the client did not call valid_tool")
    return names


def _add_rejected(id: str, requirement: str, title: str, kinds: tuple[str, ...]) -> None:
    """Add a check that a tool with an invalid annotation is not used."""

    async def rejected(client: ClientUnderTest) -> None:
        wrong = sorted(_used(client) & {f"invalid_{prefix}{kind}" for kind in kinds for prefix in ("", NESTED)})
        if wrong:
            raise Deviation("a client that excludes the tool", f"a call of {', '.join(wrong)}")

    CLIENT_CHECKS.add(
        id,
        rejected,
        title=title,
        proves=("header.xmcp-client-rejects-invalid", requirement),
        needs=("scenario:http-invalid-tool-headers",),
        subject=CheckScope.EVIDENCE,
    )


_REJECTED: Final = (
    ("empty", "empty", "A tool with an empty annotation is not used.", ("empty",)),
    (
        "bad-token",
        "bad-token",
        "A tool whose annotation is not a header name is not used.",
        ("space", "colon", "non_ascii", "control", "line_feed", "slash"),
    ),
    (
        "duplicate",
        "duplicate",
        "A tool with a duplicate annotation is not used, regardless of case and of nesting.",
        ("duplicate", "duplicate_below", "duplicate_apart"),
    ),
    (
        "non-primitive",
        "non-primitive",
        "A tool with an annotation of an object, an array or null is not used.",
        ("on_object", "on_array", "on_null"),
    ),
    ("number", "number", "A tool with an annotation of a number is not used.", ("on_number",)),
    (
        "unreachable",
        "unreachable",
        "A tool with an annotation at a place other than nested properties is not used.",
        ("in_items", "in_any_of", "in_one_of", "in_all_of", "in_then", "in_property_any_of"),
    ),
    ("non-string", "non-string", "A tool whose annotation is not a string is not used.", ("not_a_string",)),
)

for _id, _requirement, _title, _kinds in _REJECTED:
    _add_rejected(f"header.client-rejects-{_id}", f"header.xmcp-client-rejects-{_requirement}", _title, _kinds)


@check(
    "header.client-keeps-valid",
    proves=("header.xmcp-valid-tools-kept", "header.xmcp-valid-not-rejected"),
    needs=("scenario:http-invalid-tool-headers", "scenario:tools_call"),
)
async def keeps_valid(client: ClientUnderTest) -> None:
    """A tool with valid annotations remains usable when others of the list are excluded."""
    client.control()
    evidence = client.run("http-invalid-tool-headers")
    if "valid_tool" not in {_called_tool(each) for each in evidence.exchanges}:
        raise Deviation("a call of valid_tool", evidence.ending)
