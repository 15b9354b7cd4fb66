"""Scenarios of client requests: elicitation, sampling and roots; valid, invalid, and without a declared capability."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.scenarios.client_request_table import (
    CHOICE_ONLY,
    DEFAULTS,
    HINTED,
    MODELS,
    ODD_ID,
    UNFIT,
    UNFIT_FORMS,
    WRONG,
    by_name,
    valid_client_requests,
)
from mcp_conformance.scenarios.client_request_tools import declares, offer_request_tools
from mcp_conformance.scenarios.robustness import TOKEN
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import LEGACY, R2025_06_18, R2025_11_25, Era, between
from mcp_core.types.meta import PROGRESS_TOKEN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject

    Call = Callable[[ScriptedRequest], Awaitable[JsonObject]]

__all__ = ["AT_ONCE", "CLIENT_REQUEST_SCENARIOS", "SAME_DIGITS"]

AT_ONCE: Final = "ask_at_once"
"""The tool that sends several client requests at once."""
SAME_DIGITS: Final[tuple[int | str, ...]] = (471147, "471147")
"""The ids of two pings among them: a number and a string with its digits, which are two ids."""

_COMPLETE: Final = "notifications/elicitation/complete"
_FORMS: Final = between(R2025_06_18)
_LATE: Final = between(R2025_11_25)
_LEGACY: Final = frozenset(LEGACY)


def _send_all(setup: ScenarioSetup) -> None:
    offer_request_tools(setup, valid_client_requests())
    if setup.revision.era is Era.LEGACY:
        setup.server.offers.add_tool(AT_ONCE, "Sends several client requests at once", _at_once)


async def _at_once(request: ScriptedRequest) -> JsonObject:
    """Send a client request of each kind that the client declares, and pings, before any of them has a response."""
    kinds = [
        each
        for each in by_name("ask_roots", "ask_form", "ask_sample")
        if request.revision in each.revisions and declares(request.session, each.needs)
    ]
    async with trio.open_nursery() as nursery:
        for method, params in (*((each.method, each.params) for each in kinds), ("ping", None)):
            id = f"{AT_ONCE} {method}"
            nursery.start_soon(partial(request.send_client_request, method, params, name=AT_ONCE, id=id))
        for digits in SAME_DIGITS:
            nursery.start_soon(partial(request.send_client_request, "ping", name=AT_ONCE, id=digits))
    return text_result("asked")


def _send_undeclared(setup: ScenarioSetup) -> None:
    offer_request_tools(setup, by_name("ask_form", "ask_url", "ask_sample", "ask_roots"), undeclared=True)


def _declares_little(setup: ScenarioSetup) -> None:
    requests = by_name("ask_form", "ask_url", "ask_sample", "ask_sample_tools_auto")
    offer_request_tools(setup, [*requests, CHOICE_ONLY], undeclared=True)


def _send_invalid(setup: ScenarioSetup) -> None:
    offer_request_tools(setup, [*by_name("ask_form", "ask_sample", "ask_sample_tool_results"), *WRONG])


def _send_to_decliner(setup: ScenarioSetup) -> None:
    """Request a form, a URL, and sampling: with progress, where a client request can have a progress token."""
    requests = by_name("ask_form", "ask_url", "ask_sample")
    if setup.revision.era is Era.LEGACY:
        token: JsonObject = {"_meta": {PROGRESS_TOKEN: TOKEN}}
        sample = attrs.evolve(requests[-1], params={**(requests[-1].params or {}), **token})
        requests[-1] = sample
    offer_request_tools(setup, requests)


def _hinted(setup: ScenarioSetup) -> None:
    offer_request_tools(setup, HINTED)


def _unfit_forms(setup: ScenarioSetup) -> None:
    offer_request_tools(setup, [*by_name("ask_form"), *UNFIT_FORMS])


def _defaults(setup: ScenarioSetup) -> None:
    offer_request_tools(setup, [DEFAULTS])


def _roots(setup: ScenarioSetup) -> None:
    offer_request_tools(setup, by_name("ask_roots"))


def _completions(setup: ScenarioSetup) -> None:
    """Send notifications of unknown elicitations along with a form, and of a known one twice, after its URL is accepted."""
    offer_request_tools(setup, by_name("ask_form", "ask_url"))
    calls = setup.server.offers.calls
    call, visit = calls["ask_form"], calls["ask_url"]

    async def call_with_notifications(request: ScriptedRequest) -> JsonObject:
        for _ in range(2):
            await request.notify(_COMPLETE, {"elicitationId": "unknown"}, deviant="an unknown elicitation")
        return await call(request)

    async def visit_with_notifications(request: ScriptedRequest) -> JsonObject:
        result = await visit(request)
        for deviant in ("", "an elicitation that is complete already"):
            await request.notify(_COMPLETE, {"elicitationId": ODD_ID}, deviant=deviant)
        return result

    calls.update({"ask_form": call_with_notifications, "ask_url": visit_with_notifications})


CLIENT_REQUEST_SCENARIOS: Final = (
    Scenario(
        name="conformance_asks",
        title="Tools that send all client requests that the client declares: forms, a URL, sampling, roots.",
        prepare=_send_all,
    ),
    Scenario(
        name="conformance_asks_undeclared",
        title="Tools that request a form, a URL, sampling and roots; the client must declare none of them.",
        prepare=_send_undeclared,
    ),
    Scenario(
        name="conformance_declares_little",
        title="Tools that request a URL, and sampling with tools; the client must declare forms and sampling without tools.",
        prepare=_declares_little,
        revisions=_LATE,
    ),
    Scenario(
        name="conformance_asks_wrongly",
        title="Tools that send invalid client requests, beside valid ones.",
        prepare=_send_invalid,
    ),
    Scenario(
        name="conformance_declines",
        title="Tools that request a form, a URL and sampling, and a user who declines.",
        prepare=_send_to_decliner,
    ),
    Scenario(
        name="conformance_defaults",
        title="A tool that requests a form whose fields have defaults, and a user who leaves them unchanged.",
        prepare=_defaults,
        revisions=_LATE,
    ),
    Scenario(
        name="conformance_unfit_form",
        title="Tools that request forms, and a user who fills in values that each form forbids: `content` of the context.",
        prepare=_unfit_forms,
        revisions=_FORMS,
        context={"content": UNFIT},
    ),
    Scenario(
        name="conformance_hints",
        title="Tools that request sampling with model hints; the client has the models in `models` of the context.",
        prepare=_hinted,
        context={"models": list(MODELS)},
    ),
    Scenario(
        name="conformance_roots_fail",
        title="A tool that requests roots; the client declares roots, but cannot determine them.",
        prepare=_roots,
        revisions=_LEGACY,
    ),
    Scenario(
        name="conformance_roots_change",
        title="A tool that requests roots; after the response the roots of the client change, and the tool requests them again.",
        prepare=_roots,
        revisions=_LEGACY,
    ),
    Scenario(
        name="conformance_elicitation_complete",
        title="Tools that request a form and a URL, with notifications of unknown elicitations, and of one that is complete.",
        prepare=_completions,
        revisions=frozenset({R2025_11_25}),
    ),
)
"""The scenarios, in order."""
