from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.features.sampling import why_no_answer, why_no_conversation
from mcp_core.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    Role,
    SamplingMessage,
    SamplingMessageContentBlock,
    TextContent,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)

TEXT = TextContent(text="hello")


def use(id: str) -> ToolUseContent:
    return ToolUseContent(id=id, name="forecast", input={})


def result(id: str) -> ToolResultContent:
    return ToolResultContent(tool_use_id=id, content=())


def said(role: Role, *content: SamplingMessageContentBlock) -> SamplingMessage:
    return SamplingMessage(role=role, content=content[0] if len(content) == 1 else content)


@pytest.mark.parametrize(
    "messages",
    [
        (),
        (said("user", TEXT), said("assistant", TEXT, TEXT), said("assistant", TEXT)),
        (said("assistant", TEXT, use("a"), use("b")), said("user", result("b"), result("a")), said("user", TEXT)),
        (
            said("assistant", use("a")),
            said("user", result("a")),
            said("assistant", use("a")),
            said("user", result("a")),
        ),
    ],
)
def test_each_call_of_a_tool_is_followed_by_its_result(messages: tuple[SamplingMessage, ...]) -> None:
    assert why_no_conversation(messages) is None


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        (
            (said("user", use("a")), said("user", result("a"))),
            "messages[0] has a tool call, which requires the role assistant",
        ),
        (
            (said("assistant", use("a")), said("assistant", result("a"))),
            "messages[1] has a tool result, which requires the role user",
        ),
        (
            (said("assistant", use("a")), said("user", result("a"), TEXT)),
            "messages[1] has tool results beside other content",
        ),
        (
            (said("assistant", use("a"), use("b")), said("user", result("a"))),
            "messages[1] lacks the result of the tool call 'b'",
        ),
        ((said("assistant", use("a")), said("user", TEXT)), "messages[1] lacks the result of the tool call 'a'"),
        (
            (said("assistant", use("a")), said("user", result("a"), result("c"))),
            "messages[1] has a tool result for 'c', which is not a tool call of the previous message",
        ),
        (
            (said("user", result("a")),),
            "messages[0] has a tool result for 'a', which is not a tool call of the previous message",
        ),
        ((said("user", TEXT), said("assistant", use("a"))), "no message with the result of the tool call 'a'"),
    ],
)
@pytest.mark.spec("sampling.tool-content-roles", "sampling.tool-result-id-match")
def test_what_a_model_cannot_make_sense_of_is_told(messages: tuple[SamplingMessage, ...], problem: str) -> None:
    assert why_no_conversation(messages) == problem


@pytest.mark.property
@given(st.lists(st.tuples(st.lists(st.sampled_from("abc"), unique=True), st.booleans()), max_size=5))
def test_turns_of_calls_and_results_are_a_conversation_and_without_a_result_they_are_none(
    turns: list[tuple[list[str], bool]],
) -> None:
    messages: list[SamplingMessage] = []
    for ids, talkative in turns:
        messages.append(said("assistant", *map(use, ids), *([TEXT] if talkative or not ids else [])))
        if ids:
            messages.append(said("user", *map(result, reversed(ids))))
    assert why_no_conversation(messages) is None
    for number, message in enumerate(messages):
        if message.role == "user":
            assert why_no_conversation([*messages[:number], *messages[number + 1 :]]) is not None


@pytest.mark.parametrize(
    ("mode", "role", "content", "problem"),
    [
        (None, "assistant", (TEXT, use("a")), None),
        ("auto", "assistant", TEXT, None),
        ("auto", "assistant", use("a"), None),
        ("required", "assistant", (TEXT, use("a")), None),
        ("required", "assistant", TEXT, "the model called no tool, but the tool choice mode is 'required'"),
        ("none", "assistant", TEXT, None),
        ("none", "assistant", (TEXT, use("a")), "the model called a tool, but the tool choice mode is 'none'"),
        (None, "user", TEXT, "the role of a sampling result must be assistant, not user"),
    ],
)
@pytest.mark.spec("sampling.tool-choice-required", "sampling.tool-choice-none", "sampling.result-role-assistant")
def test_an_answer_is_of_the_assistant_and_keeps_to_the_choice_of_tools(
    mode: str | None,
    role: Role,
    content: SamplingMessageContentBlock | tuple[SamplingMessageContentBlock, ...],
    problem: str | None,
) -> None:
    choice = None if mode is None else ToolChoice(mode=mode)  # type: ignore[arg-type]  # one of the modes
    params = CreateMessageRequestParams(messages=(said("user", TEXT),), max_tokens=5, tool_choice=choice)
    assert why_no_answer(params, CreateMessageResult(role=role, content=content, model="m")) == problem
    plain = CreateMessageRequestParams(messages=(), max_tokens=5)
    assert (why_no_answer(plain, CreateMessageResult(role="assistant", content=TEXT, model="m"))) is None
