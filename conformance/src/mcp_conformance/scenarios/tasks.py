"""Scenarios of tasks, of both revisions and in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.model.check import Transport
from mcp_conformance.scenarios.client_tasks import (
    PONDERED,
    request_tasks,
    request_tasks_declined,
    request_tasks_unanswered,
    request_tasks_undeclared,
)
from mcp_conformance.scenarios.core_tasks import CORE_SCRIPTS, WAITING_TASK, CoreTasks, core_tasks_undeclared
from mcp_conformance.scenarios.extension_tasks import EXTENSION_SCRIPTS, ExtensionTasks, unfit_tasks
from mcp_conformance.scenarios.scenario import Scenario
from mcp_conformance.scenarios.task_script import TaskScript
from mcp_core.revisions import MODERN, R2025_11_25, Era, between

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["CANCELLED_LATER", "TASK_SCENARIOS"]

CANCELLED_LATER: Final = "conformance_tasks_cancel_later"
"""The scenario of a task that is cancelled in another connection than that of its call."""

_LATE: Final = between(R2025_11_25)
_CORE: Final = frozenset({R2025_11_25})


def _tasks(setup: ScenarioSetup) -> None:
    if setup.revision.era is Era.LEGACY:
        CoreTasks(setup, CORE_SCRIPTS)
    else:
        ExtensionTasks(setup, EXTENSION_SCRIPTS)


def _cancel(setup: ScenarioSetup) -> None:
    """Add a task that never ends, and a tool that must be called after it."""

    async def plain(_: ScriptedRequest) -> JsonObject:
        return text_result("done at once")

    scripts = (TaskScript(name=WAITING_TASK, steps=("working",)),)
    if setup.revision.era is Era.LEGACY:
        CoreTasks(setup, scripts)
    else:
        ExtensionTasks(setup, scripts)
    setup.server.offers.add_tool("test_behind", "Must be called last", plain)


def _cancel_later(setup: ScenarioSetup) -> None:
    """Add a task that must be cancelled in a further connection. It ends after some polls, in case that it is not."""
    ExtensionTasks(setup, (TaskScript(name=WAITING_TASK, steps=("working", "working", "working", "completed")),))


TASK_SCENARIOS: Final = (
    Scenario(
        name="conformance_tasks",
        title="Tools that run as tasks in different ways; some request forms or sampling meanwhile.",
        prepare=_tasks,
        revisions=_LATE,
    ),
    Scenario(
        name="conformance_tasks_undeclared",
        title="Tools that declare task support, of a server that does not declare tasks.",
        prepare=core_tasks_undeclared,
        revisions=_CORE,
    ),
    Scenario(
        name="conformance_tasks_cancel",
        title="A tool `task_waits` whose task never ends: the client must cancel it, and then call the other tools.",
        prepare=_cancel,
        revisions=_LATE,
    ),
    Scenario(
        name=CANCELLED_LATER,
        title="A tool `task_waits` whose task takes long: the client must connect again, and cancel the task there.",
        prepare=_cancel_later,
        revisions=frozenset(MODERN),
        transports=frozenset({Transport.HTTP}),
    ),
    Scenario(
        name="conformance_tasks_unfit",
        title="A prompt and a resource with a task as result, which is valid only for tool calls.",
        prepare=unfit_tasks,
        revisions=frozenset(MODERN),
    ),
    Scenario(
        name="conformance_asks_tasks",
        title="Tools that request forms and sampling as tasks; the user takes `seconds` of the context to respond.",
        prepare=request_tasks,
        revisions=_CORE,
        context={"seconds": PONDERED},
    ),
    Scenario(
        name="conformance_asks_tasks_unanswered",
        title="Tools that request a form and sampling as a task, and cancel it; the user takes an hour to respond.",
        prepare=request_tasks_unanswered,
        revisions=_CORE,
        context={"seconds": 3600},
    ),
    Scenario(
        name="conformance_asks_tasks_undeclared",
        title="Tools that request forms and sampling as tasks; the client must declare both, but no tasks.",
        prepare=request_tasks_undeclared,
        revisions=_CORE,
    ),
    Scenario(
        name="conformance_asks_tasks_declined",
        title="Tools that request sampling and a form, each without and with a task; the user declines all.",
        prepare=request_tasks_declined,
        revisions=_CORE,
    ),
)
"""The scenarios, in order."""
