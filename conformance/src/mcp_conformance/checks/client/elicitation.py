"""The responses of the client to elicitations, by form and by URL.

Spec: client/elicitation
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.client.declared_capabilities import (
    answers,
    capabilities,
    declares,
    error_code,
    other_results,
    refuses,
)
from mcp_conformance.checks.probes.input_responses import input_responses
from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.json_schema import flaw_by_schema
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.client_request_table import DEFAULT_VALUES, DEFAULTS, FORM, UNFIT, valid_client_requests
from mcp_conformance.scenarios.client_request_tools import response_of, result_of
from mcp_core.revisions import LEGACY, R2025_06_18, R2025_11_25, Era, between

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_SCENARIO: Final = "conformance_asks"
_NEEDS: Final = (f"scenario:{_SCENARIO}",)
_DEFAULTS: Final = "conformance_defaults"
_ROUND_TRIPS: Final = "conformance_rounds"
_DECLINED: Final = "conformance_declines"
_LEGACY: Final = [each.name for each in LEGACY if each in between(R2025_06_18)]
_FORMS: Final = ("ask_form", "ask_form_by_mode", "ask_choices")
_SCHEMAS: Final = {
    each.name: each.params["requestedSchema"]
    for each in (*valid_client_requests(), DEFAULTS)
    if each.params is not None and "requestedSchema" in each.params
}


@check("elicitation.client-modes", proves=("elicitation.at-least-one-mode",))
async def modes(client: ClientUnderTest) -> None:
    """A client that declares elicitation declares form or url, or neither, which means form."""
    declared = [each["elicitation"] for each in capabilities(client) if "elicitation" in each]
    if not declared:
        raise NotApplicable("the client does not declare elicitation")
    for each in declared:
        if not isinstance(each, dict) or (each and not {"form", "url"} & set(each)):
            raise Deviation("form, url or both, or an empty object", brief(each))


@check(
    "elicitation.client-undeclared",
    proves=("elicitation.declare-capability", "elicitation.capability"),
    needs=("scenario:conformance_asks_undeclared", "scenario:conformance_declares_little"),
)
async def undeclared(client: ClientUnderTest) -> None:
    """A client that does not declare elicitation, or not its URL mode, does not return a result for it."""
    refuses(client, "conformance_asks_undeclared", "ask_form", capability="elicitation", kind="ElicitResult")
    # Only some revisions have it, and a client that stops after the form does not receive it.
    with suppress(NotTestable):
        refuses(client, "conformance_asks_undeclared", "ask_url", capability="elicitation", kind="ElicitResult")
    if client.revision.era is Era.MODERN:
        # Another check requires an error of legacy revisions, which has no equivalent here.
        with suppress(NotTestable):
            refuses(client, "conformance_declares_little", "ask_url", capability="elicitation.url", kind="ElicitResult")


@check(
    "elicitation.client-form-without-mode",
    proves=("elicitation.absent-mode-is-form", "elicitation.mode-default-form"),
    needs=_NEEDS,
)
async def form_without_mode(client: ClientUnderTest) -> None:
    """An elicitation without a mode is a form, with the same response as with the mode form."""
    result_of(client, _SCENARIO, "ask_form_by_mode")
    response = response_of(client, _SCENARIO, "ask_form")
    if response is None or not isinstance(response.get("result"), dict):
        raise Deviation("the result of a form elicitation", brief(response))


@check(
    "elicitation.client-result",
    proves=(
        "elicitation.result-action",
        "elicitation.content-values",
        "schema.elicit-result",
        "schema.elicit-result-arrays",
    ),
    needs=(*_NEEDS, f"scenario:{_DECLINED}", "scenario:conformance_elicitation_complete"),
)
async def result(client: ClientUnderTest) -> None:
    """Every result has an action, and content of strings, numbers, booleans and lists of strings."""
    found = [*answers(client, _SCENARIO, *_FORMS, "ask_url"), *other_results(client, "elicitation/create")]
    for name, answer in found:
        wrong = flaw(answer, "ElicitResult", client.revision)
        if wrong is not None:
            raise Deviation(f"an ElicitResult for {name}", f"{wrong} in {brief(answer)}")


@check(
    "elicitation.client-content-fits",
    proves=("elicitation.accept-content", "elicitation.accept-form-content"),
    needs=(*_NEEDS, f"scenario:{_DEFAULTS}", f"scenario:{_ROUND_TRIPS}"),
)
async def content_fits(client: ClientUnderTest) -> None:
    """An accepted form has content that conforms to its schema, also if it is unchanged, or of a prompt or resource."""
    accepted = 0
    found = list(answers(client, _SCENARIO, *_FORMS))
    if _DEFAULTS in client.runs:
        with suppress(NotApplicable, NotTestable):
            found.append((DEFAULTS.name, result_of(client, _DEFAULTS, DEFAULTS.name)))
    for name, answer in found:
        if answer.get("action") == "accept":
            accepted += 1
            _fits(answer, _SCHEMAS[name])
    with suppress(NotApplicable, NotTestable):
        for request, response in input_responses(client.run(_ROUND_TRIPS)):
            schema = member(request, "params", "requestedSchema")
            if schema is not None and isinstance(response, dict) and response.get("action") == "accept":
                _fits(response, schema)
    if not accepted:
        raise NotTestable("no form was accepted")


def _fits(answer: JsonObject, schema: JsonValue) -> None:
    content = answer.get("content")
    if not isinstance(content, dict):
        raise Deviation("content with the action accept", brief(answer))
    wrong = flaw_by_schema(content, schema) if isinstance(schema, dict) else None
    if wrong is not None:
        raise Deviation("content that conforms to the requestedSchema", f"{wrong} in {brief(content)}")


@check(
    "elicitation.client-bears-form",
    proves=("capability.respect-throughout", "elicitation.at-least-one-mode"),
    revisions=_LEGACY,
    needs=_NEEDS,
)
async def bears_form(client: ClientUnderTest) -> None:
    """A form is accepted as valid, also with fields that have no title and no description."""
    response = response_of(client, _SCENARIO, "ask_form")
    if error_code(response) in (-32602, -32600):
        raise Deviation("a form without titles to be accepted as valid", brief(response))


@check(
    "elicitation.client-choices",
    proves=("elicitation.at-least-one-mode",),
    revisions=(R2025_11_25.name,),
    needs=_NEEDS,
)
async def choices(client: ClientUnderTest) -> None:
    """A client that answers forms also answers one with choices, with and without titles, of one value and of several."""
    result_of(client, _SCENARIO, "ask_form")
    response = response_of(client, _SCENARIO, "ask_choices")
    if response is None or not isinstance(response.get("result"), dict):
        raise Deviation("the result of a form with choices", brief(response))


@check(
    "elicitation.client-url-no-content",
    proves=("elicitation.url-accept-no-content", "elicitation.accept-url-no-content"),
    needs=_NEEDS,
)
async def url_no_content(client: ClientUnderTest) -> None:
    """An accepted URL mode elicitation has no content."""
    answer = result_of(client, _SCENARIO, "ask_url")
    if answer.get("action") != "accept":
        raise NotTestable("the user did not accept")
    if "content" in answer:
        raise Deviation("accept without content", brief(answer))


@check("elicitation.client-id-opaque", proves=("elicitation.id-opaque",), needs=_NEEDS)
async def id_opaque(client: ClientUnderTest) -> None:
    """The client accepts any string as elicitationId."""
    response = response_of(client, _SCENARIO, "ask_url")
    if error_code(response) == -32601:
        raise NotTestable("the client does not know elicitation/create, although it declares elicitation")
    if response is None or not isinstance(response.get("result"), dict):
        raise Deviation("a result for any elicitationId", brief(response))


@check(
    "elicitation.client-undeclared-mode",
    proves=("elicitation.undeclared-mode-error",),
    needs=("scenario:conformance_declares_little",),
)
async def undeclared_mode(client: ClientUnderTest) -> None:
    """A client that declared only forms rejects a URL mode elicitation with -32602."""
    scenario = "conformance_declares_little"
    if declares(client, scenario, "elicitation.url"):
        raise NotTestable("the client declares the URL mode in this scenario too")
    result_of(client, scenario, "ask_form")
    code = error_code(response_of(client, scenario, "ask_url"))
    if code != -32602:
        raise Deviation("error -32602 for an undeclared mode", brief(response_of(client, scenario, "ask_url")))


@check(
    "elicitation.client-complete-unknown",
    proves=("elicitation.complete-unknown-ignored",),
    needs=("scenario:conformance_elicitation_complete", f"scenario:{_SCENARIO}"),
)
async def complete_unknown(client: ClientUnderTest) -> None:
    """A completion notification of an unknown elicitation is ignored, and so is a second one of the same elicitation."""
    result_of(client, _SCENARIO, "ask_form")
    evidence = client.run("conformance_elicitation_complete")
    response = response_of(client, evidence.scenario.name, "ask_form")
    if response is None or not isinstance(response.get("result"), dict) or evidence.status != 0:
        raise Deviation("the client to continue", f"{brief(response)}, and {evidence.ending}")


@check(
    "elicitation.client-validates",
    proves=(
        "elicitation.client-validates",
        "elicitation.validate-both",
        "elicitation.client-validates-content",
    ),
    needs=("scenario:conformance_unfit_form", f"scenario:{_SCENARIO}"),
)
async def validates(client: ClientUnderTest) -> None:
    """Content of the user that violates the schema is not sent."""
    scenario = "conformance_unfit_form"
    result_of(client, _SCENARIO, "ask_form")
    response = response_of(client, scenario, "ask_form")
    answer = None if response is None else response.get("result")
    content = answer.get("content") if isinstance(answer, dict) else None
    for each in client.run(scenario).server.client_requests:
        unfit = None if each.response is None else each.response.get("result")
        if isinstance(unfit, dict) and unfit.get("content") == UNFIT:
            raise Deviation(f"no content that violates the requestedSchema of {each.name}", brief(unfit))
    if isinstance(content, dict) and flaw_by_schema(content, FORM) is None:
        raise NotTestable("the client filled in other values than the context says")


@check(
    "elicitation.client-defaults", proves=("elicitation.defaults-prefill",), needs=("scenario:conformance_defaults",)
)
async def defaults(client: ClientUnderTest) -> None:
    """Fields that the user does not change have their defaults."""
    answer = result_of(client, "conformance_defaults", "ask_defaults")
    if answer.get("action") != "accept":
        raise NotTestable("the form was not accepted")
    if answer.get("content") != DEFAULT_VALUES:
        raise Deviation(f"the defaults {brief(DEFAULT_VALUES)}", brief(answer))


@check(
    "elicitation.client-decline-no-content",
    proves=("elicitation.decline-no-content",),
    needs=(f"scenario:{_DECLINED}", "scenario:conformance_unfit_form"),
)
async def decline_no_content(client: ClientUnderTest) -> None:
    """A declined or cancelled form or URL has no content."""
    answer = result_of(client, _DECLINED, "ask_form")
    if answer.get("action") == "accept":
        raise NotTestable("the form was accepted")
    for name, each in (("ask_form", answer), *other_results(client, "elicitation/create")):
        if each.get("action") in ("decline", "cancel") and "content" in each:
            raise Deviation(f"no content for {name}", brief(each))


@check(
    "elicitation.client-invalid-params",
    proves=("jsonrpc.invalid-params-error",),
    revisions=_LEGACY,
    needs=("scenario:conformance_asks_wrongly",),
)
async def invalid_params(client: ClientUnderTest) -> None:
    """A form without a message, or without a schema, is rejected with -32602."""
    scenario = "conformance_asks_wrongly"
    result_of(client, scenario, "ask_form")
    for missing in ("message", "schema"):
        response = response_of(client, scenario, f"ask_form_without_{missing}")
        if error_code(response) != -32602:
            raise Deviation(f"error -32602 for elicitation/create without a {missing}", brief(response))
