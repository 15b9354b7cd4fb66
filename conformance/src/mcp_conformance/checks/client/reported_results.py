"""Evaluations of results that a client reports with the tool `report` of a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["report", "reports"]


def reports(client: ClientUnderTest, scenario: str) -> dict[str, JsonObject]:
    """Return the reports of the client in a scenario, by tool or URI."""
    found: dict[str, JsonObject] = {}
    for message in client.run(scenario).sent("tools/call"):
        params = message.get("params")
        arguments = params.get("arguments") if isinstance(params, dict) and params.get("name") == "report" else None
        if isinstance(arguments, dict):
            found[str(arguments.get("of"))] = arguments
    return found


def report(client: ClientUnderTest, scenario: str, name: str, *, control: str) -> JsonObject:
    """Return what the client reported about a result.

    Args:
        client: The client.
        scenario: Name of the scenario.
        name: A tool, or the URI of a resource.
        control: The tool that must have given a result, as a control.

    Raises:
        NotTestable: The client reports nothing, the control request failed, or the client's request was rejected.
        Deviation: The client reports the control request, but not this result.
    """
    evidence = client.run(scenario)
    requests = [params for each in evidence.requests if isinstance(params := each.get("params"), dict)]
    used = {params.get(member) for params in requests for member in ("name", "uri")}
    taken = [params for each in evidence.server.received if isinstance(params := each.get("params"), dict)]
    # A client that does not know the tool may call it like any other, with arbitrary arguments.
    found = {of: values for of, values in reports(client, scenario).items() if of in used}
    if not found:
        raise NotTestable("the client does not report results with the tool `report`")
    if found.get(control, {}).get("outcome") != "result" and name != control:
        raise NotTestable(f"the control request failed: {control} gave {brief(found.get(control))}")
    if name in found and name not in {params.get(member) for params in taken for member in ("name", "uri")}:
        raise NotTestable(f"the request of the client for {name} was rejected: {brief(found[name])}")
    if name not in found:
        if name not in used:
            raise NotTestable(f"the client did not use {name}: {evidence.ending}")
        raise Deviation(f"the client to continue after {name}", evidence.ending)
    return found[name]
