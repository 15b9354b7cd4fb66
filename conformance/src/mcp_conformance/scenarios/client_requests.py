"""What clients are asked: forms, pages, samples and roots; rightly, wrongly, and without having declared them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.scenarios.client_request_table import DEFAULTS, HINTED, MODELS, UNFIT, WRONG, asked, by_name
from mcp_conformance.scenarios.client_request_tools import ask_all
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import LEGACY, R2025_06_18, R2025_11_25, between

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_conformance.drivers.client.scripted_request import Turn
    from mcp_conformance.scenarios.scenario import Stage
    from mcp_core.jsonrpc.messages import JsonObject

    Call = Callable[[Turn], Awaitable[JsonObject]]

__all__ = ["ASKING_SCENARIOS"]

_COMPLETE: Final = "notifications/elicitation/complete"
_FORMS: Final = between(R2025_06_18)
_LATE: Final = between(R2025_11_25)
_LEGACY: Final = frozenset(LEGACY)


def _asks(stage: Stage) -> None:
    ask_all(stage, asked())


def _asks_undeclared(stage: Stage) -> None:
    ask_all(stage, by_name("ask_form", "ask_url", "ask_sample", "ask_roots"), undeclared=True)


def _declares_little(stage: Stage) -> None:
    ask_all(stage, by_name("ask_form", "ask_url", "ask_sample", "ask_sample_tools_auto"), undeclared=True)


def _asks_wrongly(stage: Stage) -> None:
    ask_all(stage, [*by_name("ask_form", "ask_sample", "ask_sample_tool_results"), *WRONG])


def _declines(stage: Stage) -> None:
    ask_all(stage, by_name("ask_form", "ask_url", "ask_sample"))


def _hinted(stage: Stage) -> None:
    ask_all(stage, HINTED)


def _form(stage: Stage) -> None:
    ask_all(stage, by_name("ask_form"))


def _defaults(stage: Stage) -> None:
    ask_all(stage, [DEFAULTS])


def _roots(stage: Stage) -> None:
    ask_all(stage, by_name("ask_roots"))


def _completions(stage: Stage) -> None:
    """Tells of pages that nobody was sent to, along with a question."""
    ask_all(stage, by_name("ask_form"))
    call = stage.server.offers.calls["ask_form"]

    async def told(turn: Turn) -> JsonObject:
        for _ in range(2):
            await turn.notify(_COMPLETE, {"elicitationId": "nobody was asked"}, deviant="an elicitation that never was")
        return await call(turn)

    stage.server.offers.calls["ask_form"] = told


ASKING_SCENARIOS: Final = (
    Scenario(
        name="conformance_asks",
        title="Tools that ask the client for all that it declares: forms, a page, samples, roots.",
        prepare=_asks,
    ),
    Scenario(
        name="conformance_asks_undeclared",
        title="Tools that ask for a form, a page, a sample and roots; the client is to declare none of them.",
        prepare=_asks_undeclared,
    ),
    Scenario(
        name="conformance_declares_little",
        title="Tools that ask for a page, and for a sample with tools; the client is to declare forms and plain samples.",
        prepare=_declares_little,
        revisions=_LATE,
    ),
    Scenario(
        name="conformance_asks_wrongly",
        title="Tools that ask by what breaks the rules, beside some that do not.",
        prepare=_asks_wrongly,
    ),
    Scenario(
        name="conformance_declines",
        title="Tools that ask for a form, a page and a sample, and a user who declines.",
        prepare=_declines,
    ),
    Scenario(
        name="conformance_defaults",
        title="A tool that asks for a form whose fields have defaults, and a user who leaves them as they are.",
        prepare=_defaults,
        revisions=_LATE,
    ),
    Scenario(
        name="conformance_unfit_form",
        title="A tool that asks for a form, and a user who fills in what does not fit: `content` of the context.",
        prepare=_form,
        revisions=_FORMS,
        context={"content": UNFIT},
    ),
    Scenario(
        name="conformance_hints",
        title="Tools that ask for a sample, with hints at models; the client has those in `models` of the context.",
        prepare=_hinted,
        context={"models": list(MODELS)},
    ),
    Scenario(
        name="conformance_roots_fail",
        title="A tool that asks for roots; the client declares some, and fails to find out which.",
        prepare=_roots,
        revisions=_LEGACY,
    ),
    Scenario(
        name="conformance_roots_change",
        title="A tool that asks for roots; when it has answered, the roots of the client change, and it asks again.",
        prepare=_roots,
        revisions=_LEGACY,
    ),
    Scenario(
        name="conformance_elicitation_complete",
        title="A tool that asks for a form, and tells of pages that nobody was sent to.",
        prepare=_completions,
        revisions=frozenset({R2025_11_25}),
    ),
)
"""They, in order."""
