"""Input requests in results, and the input responses in retries of a client (2026-07-28)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.drivers.client.scripted_request import encoded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.scenarios.evidence import Evidence
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["input_responses", "results_by_request"]

_NAMES: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The methods whose result may require input, and the parameter by which their requests differ."""


def results_by_request(evidence: Evidence) -> dict[int, JsonObject]:
    """Return the result of each request of the client that has one, by the identity of the request."""
    found: dict[int, JsonObject] = {}
    waiting: dict[bytes, JsonObject] = {}
    for entry in evidence.transcript:
        message = entry.value
        if not isinstance(message, dict) or "id" not in message:
            continue
        key = encoded(message["id"])
        if not entry.sent:
            waiting[key] = message
        elif key in waiting and isinstance(result := message.get("result"), dict):
            found[id(waiting.pop(key))] = result
    return found


def input_responses(evidence: Evidence) -> Iterator[tuple[JsonObject, JsonValue]]:
    """Yield each input request that has a response in the next request of the same name, with the response."""
    results = results_by_request(evidence)
    for method, name in _NAMES.items():
        by_name: dict[str, list[JsonObject]] = {}
        for message in evidence.sent(method):
            by_name.setdefault(str(member(message, "params", name)), []).append(message)
        for messages in by_name.values():
            for before, again in pairwise(messages):
                requests = member(results.get(id(before)), "inputRequests")
                given = member(again, "params", "inputResponses")
                for key, request in requests.items() if isinstance(requests, dict) else ():
                    if isinstance(given, dict) and key in given and isinstance(request, dict):
                        yield request, given[key]
