"""The responses of a client to task-augmented client requests, step by step (2025-11-25)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.client.declared_capabilities import declares, error_code
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.client_tasks import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["TASK_SCENARIO", "check_answered", "each_kind", "expect", "member", "step", "steps", "task_run"]

TASK_SCENARIO: Final = "conformance_asks_tasks"
"""The scenario with task-augmented client requests from their start to their end."""


def member(value: JsonValue, *names: str) -> JsonValue:
    """Return a nested member of a value; `None` when it does not exist."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def task_run(client: ClientUnderTest, scenario: str = TASK_SCENARIO) -> Evidence:
    """Return a run with task-augmented client requests. Raise `NotApplicable` if the client declares none."""
    evidence = client.run(scenario)
    if not declares(client, scenario, "tasks.requests"):
        raise NotApplicable("the client declares no tasks for client requests")
    return evidence


def check_answered(client: ClientUnderTest, *methods: str) -> None:
    """Require a response to each request of some methods after which the client responded to another one: it has not ended."""
    requests = task_run(client).server.client_requests
    last = max((number for number, each in enumerate(requests) if each.response is not None), default=0)
    for each in requests[:last]:
        if each.method in methods and each.response is None:
            raise Deviation(f"a response to {each.method}", "no response")


def steps(client: ClientUnderTest, tool: str, name: str, scenario: str = TASK_SCENARIO) -> list[JsonObject | None]:
    """Return the responses to one step of a tool's client requests, in order."""
    evidence = task_run(client, scenario)
    return [each.response for each in evidence.server.client_requests if each.name == f"{tool}: {name}"]


def step(client: ClientUnderTest, tool: str, name: str, scenario: str = TASK_SCENARIO) -> JsonObject:
    """Return the response to a step of a tool's client requests.

    Raises:
        NotApplicable: The client declares no tasks.
        NotTestable: The step was not reached, or got no response.
    """
    found = steps(client, tool, name, scenario)
    if not found or found[-1] is None:
        raise NotTestable(f"{tool} did not reach the step {name}: {client.run(scenario).ending}")
    return found[-1]


def each_kind(client: ClientUnderTest, name: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield the responses to a step for each kind of task-augmented client request, with the type of the result.

    Raises:
        NotApplicable: The client declares no tasks.
        NotTestable: No task reached this step.
    """
    found = 0
    for tool, kind in KINDS.items():
        for response in steps(client, tool, name):
            if response is not None:
                found += 1
                yield kind, response
    if not found:
        raise NotTestable(f"no task reached the step {name}: {client.run(TASK_SCENARIO).ending}")


def expect(response: JsonObject, code: int, what: str) -> None:
    """Require that a response is an error with the given code."""
    if error_code(response) != code:
        raise Deviation(f"error {code} for {what}", brief(response))
