"""Tools that send a client request before their result, as a request (legacy) or in the result (2026-07-28).

Each client request has a tool with the same name. A client that uses each tool once receives each client request once,
and checks find its response by that name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.drivers.client.scripted_request import ClientRequestRecord, RawReply, encoded
from mcp_conformance.model.verdict import NotApplicable, NotTestable
from mcp_core.revisions import Era, between

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest, Session
    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["KEY", "STATE", "ClientRequest", "check_sent", "declares", "offer_request_tools", "response_of", "result_of"]

KEY: Final = "input"
"""The key of the input request."""
STATE: Final = 'conformance: {"as it is": true}, =?base64?eA==?= \u00fc\u2028\U0001f9ea '
"""The `requestState` of the result. It must be returned without parsing, trimming or normalization."""
_SENT: Final = "posed"
"""The note with the client requests that were sent."""
_OMITTED: Final = "spared"
"""The note with the client requests that were omitted because the client did not declare the capability."""


@attrs.frozen(kw_only=True)
class ClientRequest:
    """A client request of a scenario."""

    name: str
    """The name of the client request and of its tool."""
    method: str
    """The method."""
    params: JsonObject | None = None
    """The params."""
    needs: str
    """The capability that the client must declare, for example `sampling.tools`."""
    revisions: frozenset[Revision] = attrs.field(factory=between)
    """The revisions that have the client request."""
    deviant: str = ""
    """The rule that the client request breaks on purpose; empty if it breaks none."""
    escaped: bool = False
    """Whether a request of a legacy revision escapes its slashes, as JSON permits and some implementations do."""


def declares(session: Session, capability: str) -> bool:
    """Return whether the client declared a capability. Elicitation without a mode means the form mode."""
    if capability == "elicitation.form":
        modes = session.capabilities.get("elicitation")
        return isinstance(modes, dict) and ("form" in modes or "url" not in modes)
    return session.has(capability)


def offer_request_tools(
    setup: ScenarioSetup, client_requests: Iterable[ClientRequest], *, undeclared: bool = False
) -> None:
    """Replace all tools with a tool for each client request.

    Args:
        setup: The setup of the scenario.
        client_requests: The client requests. Those that the revision does not have are omitted.
        undeclared: Whether to send them even to clients that did not declare the capability, which breaks a rule.
    """
    offers = setup.server.offers
    offers.tools.clear()
    offers.calls.clear()
    for client_request in client_requests:
        if setup.revision in client_request.revisions:
            offers.add_tool(
                client_request.name,
                "Sends a client request",
                _request_tool(setup, client_request, undeclared=undeclared),
            )


def _request_tool(
    setup: ScenarioSetup, client_request: ClientRequest, *, undeclared: bool
) -> Callable[[ScriptedRequest], Awaitable[JsonObject]]:
    async def ask(request: ScriptedRequest) -> JsonObject:
        declared = declares(request.session, client_request.needs)
        if not declared and not undeclared:
            _note(setup, _OMITTED, client_request.name)
            return text_result(f"not asked: {client_request.needs} is not declared")
        wrong = client_request.deviant or ("" if declared else f"{client_request.needs} is not declared")
        _note(setup, _SENT, client_request.name)
        if request.revision.era is Era.LEGACY:
            await request.send_client_request(
                client_request.method,
                client_request.params,
                deviant=wrong,
                name=client_request.name,
                # No id of a client resembles it: a message with this id concerns this request.
                id=f"{client_request.name} {request.message['id']}",
                escaped=client_request.escaped,
            )
            return text_result("asked")
        return _input_required(setup, client_request, request, wrong)

    return ask


def _input_required(
    setup: ScenarioSetup, client_request: ClientRequest, request: ScriptedRequest, wrong: str
) -> JsonObject:
    """Return the input request, or record the input response."""
    entry: JsonObject = {"method": client_request.method}
    if client_request.params is not None:
        entry["params"] = client_request.params
    given = request.params.get("inputResponses")
    if isinstance(given, dict):
        response: JsonObject | None = {"result": given[KEY]} if KEY in given else None
        setup.server.client_requests.append(
            ClientRequestRecord(
                method=client_request.method, request=entry, response=response, name=client_request.name
            )
        )
        return text_result("asked")
    result: JsonObject = {"resultType": "input_required", "inputRequests": {KEY: entry}, "requestState": STATE}
    if wrong:
        whole = setup.server.complete(request.method, result, request.revision)
        raise RawReply(encoded({"jsonrpc": "2.0", "id": request.message["id"], "result": whole}), wrong)
    return result


def _note(setup: ScenarioSetup, name: str, client_request: str) -> None:
    found = setup.notes.setdefault(name, [])
    if isinstance(found, list):
        found.append(client_request)


# --- used by checks
# ----------------------------------------------------------------------------------------------------


def check_sent(evidence: Evidence, name: str) -> None:
    """Check that a client request was sent.

    Raises:
        NotApplicable: The client did not declare the capability.
        NotTestable: The client did not call the tool.
    """
    if name in _list(evidence.notes.get(_OMITTED)):
        raise NotApplicable("the client does not declare the capability of the client request")
    if name not in _list(evidence.notes.get(_SENT)):
        raise NotTestable(f"the client did not call the tool {name}: {evidence.ending}")


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def response_of(client: ClientUnderTest, scenario: str, name: str) -> JsonObject | None:
    """Return the response to a client request, with `result` or `error`; `None` if absent.

    Raises:
        NotApplicable: The client did not declare the capability.
        NotTestable: The client did not call the tool.
    """
    evidence = client.run(scenario)
    check_sent(evidence, name)
    found = [each.response for each in evidence.server.client_requests if each.name == name]
    return found[-1] if found else None


def result_of(client: ClientUnderTest, scenario: str, name: str) -> JsonObject:
    """Return the result of a client request.

    Raises:
        NotApplicable: The client did not declare the capability.
        NotTestable: The client did not call the tool, or sent no result.
    """
    response = response_of(client, scenario, name)
    result = None if response is None else response.get("result")
    if not isinstance(result, dict):
        raise NotTestable(f"{name} has no result")
    return result
