"""Sampling: the responses of a client to sampling/createMessage.

Spec: client/sampling
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.client.declared_capabilities import answers, declares, error_code, other_results, refuses
from mcp_conformance.checks.registry.client import CLIENT_CHECKS, check
from mcp_conformance.drivers.client.scripted_request import encoded
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.client_request_table import CHOICE_ONLY, MODELS, valid_client_requests
from mcp_conformance.scenarios.client_request_tools import response_of, result_of
from mcp_core.revisions import LEGACY, R2025_03_26, R2025_11_25, between

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_SCENARIO: Final = "conformance_asks"
_WRONG: Final = "conformance_asks_wrongly"
_LITTLE: Final = "conformance_declares_little"
_NEEDS: Final = (f"scenario:{_SCENARIO}",)
_WITH_WRONG: Final = (f"scenario:{_WRONG}",)
_LEGACY: Final = [each.name for each in LEGACY]
_SAMPLES: Final = (
    "ask_sample",
    "ask_sample_image",
    "ask_sample_audio",
    "ask_sample_limits",
    "ask_sample_tools_auto",
    "ask_sample_tools_required",
    "ask_sample_tools_none",
    "ask_sample_tool_results",
    "ask_sample_parallel_results",
)

_WORDS_PER_TOKEN: Final = 4
"""More words than a token of any model has on average: a longer text ignores the limit."""
_CONTENT: Final = {
    "text": between(),
    "image": between(),
    "audio": between(R2025_03_26),
    "tool_use": between(R2025_11_25),
    "tool_result": between(R2025_11_25),
}
"""The revisions of each type of content."""


@check(
    "sampling.client-undeclared",
    proves=("sampling.declare-capability", "sampling.capability"),
    needs=("scenario:conformance_asks_undeclared",),
)
async def undeclared(client: ClientUnderTest) -> None:
    """A client that does not declare sampling does not return a result for it."""
    refuses(client, "conformance_asks_undeclared", "ask_sample", capability="sampling", kind="CreateMessageResult")


@check(
    "sampling.client-result",
    proves=(
        "schema.create-message-result",
        "sampling.result-shape",
        "schema.sampling-content-kinds-2024-11-05",
        "schema.sampling-content-kinds-2025-03-26",
        "schema.sampling-content-kinds-2025-11-25",
        "schema.text-content",
        "schema.role",
    ),
    needs=(*_NEEDS, "scenario:conformance_progress"),
)
async def result(client: ClientUnderTest) -> None:
    """Every result has a role, a model, and content of the types of its revision."""
    found = [*answers(client, _SCENARIO, *_SAMPLES), *other_results(client, "sampling/createMessage")]
    for name, answer in found:
        wrong = flaw(answer, "CreateMessageResult", client.revision)
        if wrong is not None:
            raise Deviation(f"a CreateMessageResult for {name}", f"{wrong} in {brief(answer)}")
        content = answer["content"]
        for block in content if isinstance(content, list) else [content]:
            kind = block.get("type") if isinstance(block, dict) else None
            if client.revision not in _CONTENT.get(str(kind), ()):
                raise Deviation("content of a type of the revision", brief(answer))


@check("sampling.client-role", proves=("sampling.result-role-assistant",), needs=_NEEDS)
async def role(client: ClientUnderTest) -> None:
    """A result has the role assistant."""
    for _, answer in answers(client, _SCENARIO, *_SAMPLES):
        if answer.get("role") == "user":
            raise Deviation('the role "assistant"', brief(answer))


def _add_kind(kind: str, requirement: str) -> None:
    async def accepted(client: ClientUnderTest) -> None:
        result_of(client, _SCENARIO, "ask_sample")
        response = response_of(client, _SCENARIO, f"ask_sample_{kind}")
        if error_code(response) in (-32602, -32600, -32601):
            raise Deviation(f"content of type {kind} to be accepted", brief(response))
        if response is None:
            raise Deviation(f"a response to content of type {kind}", "no response")

    CLIENT_CHECKS.add(
        f"sampling.client-bears-{kind}",
        accepted,
        title=f"Messages with content of type {kind} are accepted as valid.",
        proves=(requirement,),
        revisions=_LEGACY,
        needs=_NEEDS,
        subject=CheckScope.EVIDENCE,
    )


_add_kind("image", "schema.image-content")
_add_kind("audio", "schema.audio-content")


def _add_unusual(
    id: str, control: str, name: str, what: str, *, title: str, revisions: Sequence[str] = _LEGACY
) -> None:
    """Add a check that unusual but valid params are accepted."""

    async def accepted(client: ClientUnderTest) -> None:
        result_of(client, _SCENARIO, control)
        response = response_of(client, _SCENARIO, name)
        if error_code(response) in (-32602, -32600):
            raise Deviation(f"{what} to be accepted as valid", brief(response))

    CLIENT_CHECKS.add(
        id,
        accepted,
        title=title,
        proves=("capability.respect-throughout",),
        revisions=revisions,
        needs=_NEEDS,
        subject=CheckScope.EVIDENCE,
    )


_add_unusual(
    "sampling.client-bears-limits",
    "ask_sample",
    "ask_sample_limits",
    "a temperature of 0 and no stop sequences",
    title="A temperature of 0 and an empty list of stop sequences are accepted as valid.",
)
_add_unusual(
    "sampling.client-bears-parallel",
    "ask_sample_tool_results",
    "ask_sample_parallel_results",
    "tool results in another order than their uses",
    title="The results of two tool uses are accepted as valid in any order, as their ids show to which use they belong.",
    # Earlier revisions have no tools in sampling.
    revisions=(R2025_11_25.name,),
)


@check("sampling.client-max-tokens", proves=("sampling.max-tokens-respected",), needs=_NEEDS)
async def max_tokens(client: ClientUnderTest) -> None:
    """The text of a result has not many more words than the tokens that its request allows."""
    limits = {each.name: (each.params or {}).get("maxTokens") for each in valid_client_requests()}
    for name, answer in answers(client, _SCENARIO, *_SAMPLES):
        content, limit = answer.get("content"), limits[name]
        for block in content if isinstance(content, list) else [content]:
            text = block.get("text") if isinstance(block, dict) else None
            words = len(text.split()) if isinstance(text, str) else 0
            if isinstance(limit, int) and words > limit * _WORDS_PER_TOKEN:
                raise Deviation(f"a text of at most {limit} tokens", f"{words} words")


# --- tools -------------------------------------------------------------------------------------------------------------


def _uses(answer: JsonObject) -> list[JsonObject]:
    """Return the tool_use blocks of a result."""
    content = answer.get("content")
    blocks = content if isinstance(content, list) else [content]
    return [each for each in blocks if isinstance(each, dict) and each.get("type") == "tool_use"]


@check(
    "sampling.client-undeclared-tools",
    proves=(
        "sampling.declare-tools",
        "sampling.tools-without-capability-error",
        "sampling.tools-capability",
        "sampling.client-rejects-undeclared-tools",
    ),
    needs=(f"scenario:{_LITTLE}",),
)
async def undeclared_tools(client: ClientUnderTest) -> None:
    """A client that did not declare sampling.tools does not sample with tools, nor with a toolChoice alone."""
    if not declares(client, _LITTLE, "sampling"):
        raise NotTestable("the client does not declare sampling in this scenario")
    result_of(client, _LITTLE, "ask_sample")
    for name in ("ask_sample_tools_auto", CHOICE_ONLY.name):
        refuses(client, _LITTLE, name, capability="sampling.tools", kind="CreateMessageResult")
        response = response_of(client, _LITTLE, name)
        if client.revision.name in _LEGACY and error_code(response) is None:
            raise Deviation(f"an error for {name}", brief(response))


@check("sampling.client-tool-required", proves=("sampling.tool-choice-required",), needs=_NEEDS)
async def tool_required(client: ClientUnderTest) -> None:
    """With the toolChoice required the result uses a tool."""
    answer = result_of(client, _SCENARIO, "ask_sample_tools_required")
    if not _uses(answer):
        raise Deviation("content of type tool_use", brief(answer))


@check("sampling.client-tool-none", proves=("sampling.tool-choice-none",), needs=_NEEDS)
async def tool_none(client: ClientUnderTest) -> None:
    """With the toolChoice none the result uses no tool."""
    answer = result_of(client, _SCENARIO, "ask_sample_tools_none")
    if _uses(answer):
        raise Deviation("no content of type tool_use", brief(answer))


@check(
    "sampling.client-tool-use",
    proves=("schema.tool-use-content", "sampling.tool-content-roles", "sampling.result-shape"),
    needs=_NEEDS,
)
async def tool_use(client: ClientUnderTest) -> None:
    """A tool_use has an id of its own, a name and an input; in legacy revisions it is in a message of the assistant."""
    found = 0
    for name, answer in answers(client, _SCENARIO, *_SAMPLES):
        ids = [encoded(use.get("id")) for use in _uses(answer)]
        if len(set(ids)) != len(ids):
            raise Deviation(f"an id of its own for each tool_use for {name}", brief(answer))
        for use in _uses(answer):
            found += 1
            wrong = flaw(use, "ToolUseContent", client.revision)
            if wrong is not None:
                raise Deviation(f"a tool_use for {name}", wrong)
            # In the modern revision, the role is only a recommendation, which another check covers.
            if client.revision.name in _LEGACY and answer.get("role") != "assistant":
                raise Deviation("a tool_use in a message of the assistant", brief(answer))
    if not found:
        raise NotTestable("no result used a tool")


def _add_loop(id: str, requirement: str, names: tuple[str, ...], title: str) -> None:
    """Add a check that invalid messages are rejected."""

    async def refused(client: ClientUnderTest) -> None:
        result_of(client, _WRONG, "ask_sample_tool_results")
        for name in names:
            refuses(client, _WRONG, name, capability="", kind="CreateMessageResult")
            response = response_of(client, _WRONG, name)
            if client.revision.name in _LEGACY and error_code(response) != -32602:
                raise Deviation(f"error -32602 for {name}", brief(response))

    CLIENT_CHECKS.add(
        id,
        refused,
        title=title,
        proves=(requirement, "sampling.client-rejects-unbalanced"),
        needs=_WITH_WRONG,
        subject=CheckScope.EVIDENCE,
    )


_add_loop(
    "sampling.client-missing-result",
    "sampling.missing-tool-result-error",
    ("ask_sample_missing_result", "ask_sample_partial_results"),
    "Messages without the result of a tool_use, or of one of several, are rejected.",
)
_add_loop(
    "sampling.client-mixed-result",
    "sampling.mixed-tool-result-error",
    ("ask_sample_mixed_result", "ask_sample_mixed_before"),
    "Messages with a tool_result before or behind other content are rejected.",
)


# --- invalid requests
# ---------------------------------------------------------------------------------------------------


@check("sampling.client-validates", proves=("sampling.validate-content",), needs=_WITH_WRONG)
async def validates(client: ClientUnderTest) -> None:
    """Invalid content, an image or audio, is not passed to the model."""
    result_of(client, _WRONG, "ask_sample")
    refuses(client, _WRONG, "ask_sample_odd_content", capability="", kind="CreateMessageResult")
    # Earlier revisions have no audio, and the client may have ended after the image.
    with suppress(NotTestable):
        refuses(client, _WRONG, "ask_sample_odd_audio", capability="", kind="CreateMessageResult")


@check(
    "sampling.client-invalid-params",
    proves=("jsonrpc.invalid-params-error",),
    revisions=_LEGACY,
    needs=_WITH_WRONG,
)
async def invalid_params(client: ClientUnderTest) -> None:
    """A sampling request without messages, or without a limit, is rejected with -32602, each time."""
    result_of(client, _WRONG, "ask_sample")
    for missing in ("messages", "limit"):
        response = response_of(client, _WRONG, f"ask_sample_without_{missing}")
        if error_code(response) != -32602:
            raise Deviation(f"error -32602 for sampling/createMessage without {missing}", brief(response))
    with suppress(NotTestable):
        response = response_of(client, _WRONG, "ask_sample_without_messages_again")
        if error_code(response) != -32602:
            raise Deviation("error -32602 for a second sampling/createMessage without messages", brief(response))


@check(
    "sampling.client-rejected",
    proves=("sampling.rejected-error",),
    revisions=_LEGACY,
    needs=("scenario:conformance_declines", f"scenario:{_SCENARIO}"),
)
async def rejected(client: ClientUnderTest) -> None:
    """A sampling request that the user rejects is answered with the error -1."""
    result_of(client, _SCENARIO, "ask_sample")
    response = response_of(client, "conformance_declines", "ask_sample")
    if response is not None and "result" in response:
        raise NotTestable("the user did not reject the sampling request")
    if error_code(response) != -1:
        raise Deviation("error -1", brief(response))


# --- models ------------------------------------------------------------------------------------------------------------


def _add_hint(id: str, requirements: tuple[str, ...], name: str, right: str, title: str) -> None:
    async def chosen(client: ClientUnderTest) -> None:
        model = result_of(client, "conformance_hints", name).get("model")
        if model not in MODELS:
            raise NotTestable(f"the client used {brief(model)}, which is not one of the models in its context")
        if model != right:
            raise Deviation(f"the model {right}", brief(model))

    CLIENT_CHECKS.add(
        id,
        chosen,
        title=title,
        proves=requirements,
        needs=("scenario:conformance_hints",),
        subject=CheckScope.EVIDENCE,
    )


_add_hint(
    "sampling.client-hints-order",
    ("sampling.hints-in-order", "sampling.respect-hints"),
    "ask_hints_in_order",
    "gamma-mini",
    "Of several model hints the first that matches is used.",
)
_add_hint(
    "sampling.client-hints-substring",
    ("sampling.hints-substring", "sampling.hints-prioritized"),
    "ask_hints_substring",
    "beta-sonnet-20260101",
    "A hint matches every model whose name contains it.",
)
_add_hint(
    "sampling.client-hints-first",
    ("sampling.hints-before-priorities", "sampling.hints-prioritized"),
    "ask_hints_before_priorities",
    "alpha-small-3",
    "A hint takes precedence over priorities.",
)
