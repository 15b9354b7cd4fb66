"""The scenarios of tasks, in either form and either direction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.scenarios.client_tasks import (
    PONDERED,
    asks_tasks,
    asks_tasks_declined,
    asks_tasks_unanswered,
    asks_tasks_undeclared,
)
from mcp_conformance.scenarios.core_tasks import CORE_COURSES, WAITING_TASK, CoreTasks, core_tasks_undeclared
from mcp_conformance.scenarios.extension_tasks import EXTENSION_COURSES, ExtensionTasks, unfit_tasks
from mcp_conformance.scenarios.scenario import Scenario
from mcp_conformance.scenarios.task_script import Course
from mcp_core.revisions import MODERN, R2025_11_25, Era, between

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.scripted_request import Turn
    from mcp_conformance.scenarios.scenario import Stage
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["TASK_SCENARIOS"]

_LATE: Final = between(R2025_11_25)
_CORE: Final = frozenset({R2025_11_25})


def _tasks(stage: Stage) -> None:
    if stage.revision.era is Era.LEGACY:
        CoreTasks(stage, CORE_COURSES)
    else:
        ExtensionTasks(stage, EXTENSION_COURSES)


def _cancel(stage: Stage) -> None:
    """A task that never ends, and a tool to be called behind it."""

    async def plain(_: Turn) -> JsonObject:
        return text_result("done at once")

    courses = (Course(name=WAITING_TASK, steps=("working",)),)
    if stage.revision.era is Era.LEGACY:
        CoreTasks(stage, courses)
    else:
        ExtensionTasks(stage, courses)
    stage.server.offers.add_tool("test_behind", "Is to be called last", plain)


TASK_SCENARIOS: Final = (
    Scenario(
        name="conformance_tasks",
        title="Tools that run as tasks, each in its own way; some ask for forms or samples meanwhile.",
        prepare=_tasks,
        revisions=_LATE,
    ),
    Scenario(
        name="conformance_tasks_undeclared",
        title="Tools that say that they run as tasks, of a server that declares no tasks.",
        prepare=core_tasks_undeclared,
        revisions=_CORE,
    ),
    Scenario(
        name="conformance_tasks_cancel",
        title="A tool `task_waits` whose task never ends: the client is to cancel it, and to call the others after that.",
        prepare=_cancel,
        revisions=_LATE,
    ),
    Scenario(
        name="conformance_tasks_unfit",
        title="A prompt and a resource that are answered by a task, which only calls of tools can be.",
        prepare=unfit_tasks,
        revisions=frozenset(MODERN),
    ),
    Scenario(
        name="conformance_asks_tasks",
        title="Tools that ask for forms and samples as tasks; the user takes `seconds` of the context to answer.",
        prepare=asks_tasks,
        revisions=_CORE,
        context={"seconds": PONDERED},
    ),
    Scenario(
        name="conformance_asks_tasks_unanswered",
        title="A tool that asks for a form or a sample as a task, and cancels it; the user takes an hour to answer.",
        prepare=asks_tasks_unanswered,
        revisions=_CORE,
        context={"seconds": 3600},
    ),
    Scenario(
        name="conformance_asks_tasks_undeclared",
        title="Tools that ask for forms and samples as tasks; the client is to declare both, and no tasks.",
        prepare=asks_tasks_undeclared,
        revisions=_CORE,
    ),
    Scenario(
        name="conformance_asks_tasks_declined",
        title="A tool that asks for a sample, and for one as a task; the user declines both.",
        prepare=asks_tasks_declined,
        revisions=_CORE,
    ),
)
"""They, in order."""
