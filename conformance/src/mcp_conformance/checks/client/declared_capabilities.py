"""The capabilities that a client declares, and their consequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.client_request_tools import response_of, result_of
from mcp_core.types.meta import CLIENT_CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["answers", "capabilities", "declares", "error_code", "other_results", "refuses"]


def capabilities(client: ClientUnderTest, scenario: str | None = None) -> Iterator[JsonObject]:
    """Yield the capabilities that the client declared, over all connections and requests.

    Args:
        client: The client.
        scenario: Name of a scenario; `None`: all with a given revision.
    """
    for evidence in client.all(instructed=True) if scenario is None else [client.run(scenario)]:
        for message in evidence.requests:
            params = message.get("params")
            params = params if isinstance(params, dict) else {}
            meta = params.get("_meta")
            declared: JsonValue = None
            if message["method"] == "initialize":
                declared = params.get("capabilities")
            elif isinstance(meta, dict):
                declared = meta.get(CLIENT_CAPABILITIES)
            if isinstance(declared, dict):
                yield declared


def declares(client: ClientUnderTest, scenario: str, path: str) -> bool:
    """Return whether the client declared a capability in a scenario, for instance `sampling.tools`."""
    return any(_has(each, path) for each in capabilities(client, scenario))


def _has(declared: JsonObject, path: str) -> bool:
    here: JsonValue = declared
    for name in path.split("."):
        if not isinstance(here, dict) or name not in here:
            return False
        here = here[name]
    return True


def error_code(response: JsonObject | None) -> JsonValue:
    """Return the code of an error response; `None` when it is not one."""
    error = None if response is None else response.get("error")
    return error.get("code") if isinstance(error, dict) else None


def answers(client: ClientUnderTest, scenario: str, *names: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield the results of client requests that have one.

    Raises:
        NotApplicable: There is no result, and the first request could not be sent.
        NotTestable: There is no result for another reason.
    """
    found = 0
    why: NotApplicable | NotTestable | None = None
    for name in names:
        try:
            answer = result_of(client, scenario, name)
        except (NotApplicable, NotTestable) as none:
            why = why or none
            continue
        found += 1
        yield name, answer
    if not found and why is not None:
        raise why


def other_results(client: ClientUnderTest, method: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield the results of all client requests of a method, with the scenario. The method is not called as a task."""
    for evidence in client.all():
        for each in evidence.server.client_requests:
            params = each.request.get("params")
            is_task = isinstance(params, dict) and "task" in params
            result = None if each.response is None else each.response.get("result")
            if each.method == method and isinstance(result, dict) and not is_task:
                yield evidence.scenario.name, result


def refuses(client: ClientUnderTest, scenario: str, name: str, *, capability: str, kind: str) -> None:
    """Require that a client request is not answered with a result, since its capability is undeclared or it is invalid.

    Args:
        client: The client.
        scenario: Name of the scenario.
        name: Name of the client request.
        capability: The capability that it needs, which the client must not declare. Empty: the request is invalid.
        kind: The type of its result.

    Raises:
        Deviation: The client returned a result.
        NotTestable: The client declares the capability.
    """
    if capability and declares(client, scenario, capability):
        raise NotTestable(f"the client declares {capability} in the scenario {scenario} too")
    response = response_of(client, scenario, name)
    result = None if response is None else response.get("result")
    if result is not None and flaw(result, kind, client.revision) is None:
        why = f"{capability} is not declared" if capability else "the request is invalid"
        raise Deviation(f"no {kind}, since {why}", brief(result))
