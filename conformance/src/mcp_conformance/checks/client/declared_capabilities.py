"""What a client declares, and what that binds it to."""

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

__all__ = ["answers", "capabilities", "declares", "error_code", "refuses"]


def capabilities(client: ClientUnderTest, scenario: str | None = None) -> Iterator[JsonObject]:
    """Everything that the client declared, of all connections and requests.

    Args:
        client: The client.
        scenario: In this scenario alone; `None`: in all where it was told what to speak.
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
    """Whether the client declared something in a scenario, as `sampling.tools`."""
    return any(_has(each, path) for each in capabilities(client, scenario))


def _has(declared: JsonObject, path: str) -> bool:
    here: JsonValue = declared
    for name in path.split("."):
        if not isinstance(here, dict) or name not in here:
            return False
        here = here[name]
    return True


def error_code(response: JsonObject | None) -> JsonValue:
    """The code of an error response; `None` where it is none."""
    error = None if response is None else response.get("error")
    return error.get("code") if isinstance(error, dict) else None


def answers(client: ClientUnderTest, scenario: str, *names: str) -> Iterator[tuple[str, JsonObject]]:
    """What questions were answered by, as far as they were.

    Raises:
        NotApplicable: None was, and the first could not be asked.
        NotTestable: None was, for another reason.
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


def refuses(client: ClientUnderTest, scenario: str, name: str, *, capability: str, kind: str) -> None:
    """Holds when a question that needs what was not declared, or breaks a rule, is not answered by a result.

    Args:
        client: The client.
        scenario: Where it is asked.
        name: The question.
        capability: What it needs; where the client declares that, nothing can be seen. Empty: it breaks a rule.
        kind: The type of its answer.

    Raises:
        Deviation: It is answered.
        NotTestable: The client declares the capability.
    """
    if capability and declares(client, scenario, capability):
        raise NotTestable(f"the client declares {capability} in the scenario {scenario}, too")
    response = response_of(client, scenario, name)
    result = None if response is None else response.get("result")
    if result is not None and flaw(result, kind, client.revision) is None:
        why = f"{capability} is not declared" if capability else "the question breaks a rule"
        raise Deviation(f"no {kind}, since {why}", brief(result))
