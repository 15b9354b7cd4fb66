"""What a client tells of results by the tool `report` of a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["report", "reports"]


def reports(client: ClientUnderTest, scenario: str) -> dict[str, JsonObject]:
    """What the client reported in a scenario, by what it is of."""
    found: dict[str, JsonObject] = {}
    for message in client.run(scenario).sent("tools/call"):
        params = message.get("params")
        arguments = params.get("arguments") if isinstance(params, dict) and params.get("name") == "report" else None
        if isinstance(arguments, dict):
            found[str(arguments.get("of"))] = arguments
    return found


def report(client: ClientUnderTest, scenario: str, name: str, *, control: str) -> JsonObject:
    """What the client made of something.

    Args:
        client: The client.
        scenario: Where.
        name: A tool, or the URI of a resource.
        control: The tool that has to have given a result, for others to prove anything.

    Raises:
        NotTestable: It reports nothing at all, the control failed, or what it sent was refused.
        Deviation: It reports the control, and did not come to this.
    """
    evidence = client.run(scenario)
    asked = [params for each in evidence.requests if isinstance(params := each.get("params"), dict)]
    used = {params.get(member) for params in asked for member in ("name", "uri")}
    taken = [params for each in evidence.server.received if isinstance(params := each.get("params"), dict)]
    # A client that does not know the tool may call it like any other, with any words.
    found = {of: told for of, told in reports(client, scenario).items() if of in used}
    if not found:
        raise NotTestable("the client does not tell by the tool `report` what it made of anything")
    if found.get(control, {}).get("outcome") != "result" and name != control:
        raise NotTestable(f"the control failed: {control} gave {brief(found.get(control))}")
    if name in found and name not in {params.get(member) for params in taken for member in ("name", "uri")}:
        raise NotTestable(f"what the client sent to use {name} was refused before it came so far: {brief(found[name])}")
    if name not in found:
        if name not in used:
            raise NotTestable(f"the client did not use {name}: {evidence.ending}")
        raise Deviation(f"the client to go on behind {name}", evidence.ending)
    return found[name]
