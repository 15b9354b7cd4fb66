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


def tool_use(id: str) -> ToolUseContent:
    return ToolUseContent(id=id, name="forecast", input={})


def tool_result(id: str) -> ToolResultContent:
    return ToolResultContent(tool_use_id=id, content=())


def message_of(role: Role, *content: SamplingMessageContentBlock) -> SamplingMessage:
    return SamplingMessage(role=role, content=content[0] if len(content) == 1 else content)


@pytest.mark.parametrize(
    "messages",
    [
        (),
        (message_of("user", TEXT), message_of("assistant", TEXT, TEXT), message_of("assistant", TEXT)),
        (
            message_of("assistant", TEXT, tool_use("a"), tool_use("b")),
            message_of("user", tool_result("b"), tool_result("a")),
            message_of("user", TEXT),
        ),
        (
            message_of("assistant", tool_use("a")),
            message_of("user", tool_result("a")),
            message_of("assistant", tool_use("a")),
            message_of("user", tool_result("a")),
        ),
    ],
)
def test_conversation_tool_results_after_tool_calls_accepted(messages: tuple[SamplingMessage, ...]) -> None:
    assert why_no_conversation(messages) is None


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        (
            (message_of("user", tool_use("a")), message_of("user", tool_result("a"))),
            "messages[0] has a tool call, which requires the role assistant",
        ),
        (
            (message_of("assistant", tool_use("a")), message_of("assistant", tool_result("a"))),
            "messages[1] has a tool result, which requires the role user",
        ),
        (
            (message_of("assistant", tool_use("a")), message_of("user", tool_result("a"), TEXT)),
            "messages[1] has tool results beside other content",
        ),
        (
            (message_of("assistant", tool_use("a"), tool_use("b")), message_of("user", tool_result("a"))),
            "messages[1] lacks the result of the tool call 'b'",
        ),
        (
            (message_of("assistant", tool_use("a")), message_of("user", TEXT)),
            "messages[1] lacks the result of the tool call 'a'",
        ),
        (
            (message_of("assistant", tool_use("a")), message_of("user", tool_result("a"), tool_result("c"))),
            "messages[1] has a tool result for 'c', which is not a tool call of the previous message",
        ),
        (
            (message_of("user", tool_result("a")),),
            "messages[0] has a tool result for 'a', which is not a tool call of the previous message",
        ),
        (
            (message_of("user", TEXT), message_of("assistant", tool_use("a"))),
            "no message with the result of the tool call 'a'",
        ),
    ],
)
@pytest.mark.spec("sampling.tool-content-roles", "sampling.tool-result-id-match")
def test_conversation_invalid_returns_problem(messages: tuple[SamplingMessage, ...], problem: str) -> None:
    assert why_no_conversation(messages) == problem


@pytest.mark.property
@given(st.lists(st.tuples(st.lists(st.sampled_from("abc"), unique=True), st.booleans()), max_size=5))
def test_conversation_without_any_tool_result_invalid(
    turns: list[tuple[list[str], bool]],
) -> None:
    messages: list[SamplingMessage] = []
    for ids, has_text in turns:
        messages.append(message_of("assistant", *map(tool_use, ids), *([TEXT] if has_text or not ids else [])))
        if ids:
            messages.append(message_of("user", *map(tool_result, reversed(ids))))
    assert why_no_conversation(messages) is None
    for number, message in enumerate(messages):
        if message.role == "user":
            assert why_no_conversation([*messages[:number], *messages[number + 1 :]]) is not None


@pytest.mark.parametrize(
    ("mode", "role", "content", "problem"),
    [
        (None, "assistant", (TEXT, tool_use("a")), None),
        ("auto", "assistant", TEXT, None),
        ("auto", "assistant", tool_use("a"), None),
        ("required", "assistant", (TEXT, tool_use("a")), None),
        ("required", "assistant", TEXT, "the model called no tool, but the tool choice mode is 'required'"),
        ("none", "assistant", TEXT, None),
        ("none", "assistant", (TEXT, tool_use("a")), "the model called a tool, but the tool choice mode is 'none'"),
        (None, "user", TEXT, "the role of a sampling result must be assistant, not user"),
    ],
)
@pytest.mark.spec("sampling.tool-choice-required", "sampling.tool-choice-none", "sampling.result-role-assistant")
def test_sampling_result_role_and_tool_choice_checked(
    mode: str | None,
    role: Role,
    content: SamplingMessageContentBlock | tuple[SamplingMessageContentBlock, ...],
    problem: str | None,
) -> None:
    choice = None if mode is None else ToolChoice(mode=mode)  # type: ignore[arg-type]  # one of the modes
    params = CreateMessageRequestParams(messages=(message_of("user", TEXT),), max_tokens=5, tool_choice=choice)
    assert why_no_answer(params, CreateMessageResult(role=role, content=content, model="m")) == problem
    plain = CreateMessageRequestParams(messages=(), max_tokens=5)
    assert (why_no_answer(plain, CreateMessageResult(role="assistant", content=TEXT, model="m"))) is None
