"""What a client answered when it was asked for tasks, step by step (2025-11-25)."""

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

__all__ = ["ASKS", "asked_run", "each_kind", "expect", "member", "step", "steps"]

ASKS: Final = "conformance_asks_tasks"
"""The scenario in which clients are asked for tasks from their beginning to their end."""


def member(value: JsonValue, *names: str) -> JsonValue:
    """What lies at a path; `None` when nothing does."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def asked_run(client: ClientUnderTest, scenario: str = ASKS) -> Evidence:
    """A run of a client that lets itself be asked for tasks. Raises `NotApplicable` where it declares none."""
    evidence = client.run(scenario)
    if not declares(client, scenario, "tasks.requests"):
        raise NotApplicable("the client declares no tasks that it could be asked for")
    return evidence


def steps(client: ClientUnderTest, tool: str, name: str, scenario: str = ASKS) -> list[JsonObject | None]:
    """The responses to one step of what a tool asks, in order."""
    evidence = asked_run(client, scenario)
    return [each.response for each in evidence.server.client_requests if each.name == f"{tool}: {name}"]


def step(client: ClientUnderTest, tool: str, name: str, scenario: str = ASKS) -> JsonObject:
    """The response to the one step of what a tool asks.

    Raises:
        NotApplicable: The client declares no tasks.
        NotTestable: The step was not reached, or not answered.
    """
    found = steps(client, tool, name, scenario)
    if not found or found[-1] is None:
        raise NotTestable(f"{tool} did not come to the step {name}: {client.run(scenario).ending}")
    return found[-1]


def each_kind(client: ClientUnderTest, name: str) -> Iterator[tuple[str, JsonObject]]:
    """A step of each kind that can be asked for as a task, with the type of what comes of it.

    Raises:
        NotApplicable: The client declares no tasks.
        NotTestable: None came to this step.
    """
    found = 0
    for tool, kind in KINDS.items():
        for response in steps(client, tool, name):
            if response is not None:
                found += 1
                yield kind, response
    if not found:
        raise NotTestable(f"no task came to the step {name}: {client.run(ASKS).ending}")


def expect(response: JsonObject, code: int, what: str) -> None:
    """Holds when a response is an error of a code."""
    if error_code(response) != code:
        raise Deviation(f"error {code} to {what}", brief(response))
