"""What a conversation with a model has to look like, in sampling: calls of tools, their results, and the choice of tools.

The schema cannot say any of it. A server checks what it asks, a client what it is asked and what it answers.

Spec: client/sampling#message-content-constraints, client/sampling#tool-choice-modes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_core.types import ToolResultContent, ToolUseContent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        SamplingMessage,
        SamplingMessageContentBlock,
    )

__all__ = ["why_no_answer", "why_no_conversation"]


def why_no_conversation(messages: Sequence[SamplingMessage]) -> str | None:
    """Why these messages cannot be given to a model, or `None`.

    A model calls tools in a message of the assistant. The next message is of the user, and has the results of all these
    calls and nothing else.

    Args:
        messages: The conversation, the oldest message first.

    Returns:
        What is wrong, with the number of the message, counted from 0.
    """
    open_calls: set[str] = set()
    for number, message in enumerate(messages):
        blocks = _blocks(message)
        calls = [block.id for block in blocks if isinstance(block, ToolUseContent)]
        results = [block.tool_use_id for block in blocks if isinstance(block, ToolResultContent)]
        where = f"messages[{number}]"
        if calls and message.role != "assistant":
            return f"{where} calls a tool, which only the assistant does"
        if results and message.role != "user":
            return f"{where} has the result of a tool, which only the user gives"
        if results and len(results) < len(blocks):
            return f"{where} has results of tools beside other content"
        if open_calls - set(results):
            return f"{where} lacks the result of the tool call {min(open_calls - set(results))!r}"
        if set(results) - open_calls:
            return (
                f"{where} has a result of {min(set(results) - open_calls)!r}, which is no call of the message before it"
            )
        open_calls = set(calls)
    if open_calls:
        return f"nothing follows the tool call {min(open_calls)!r}"
    return None


def why_no_answer(params: CreateMessageRequestParams, result: CreateMessageResult) -> str | None:
    """Why that is no answer to what a model was asked, or `None`.

    Args:
        params: What it was asked.
        result: What it said.
    """
    if result.role != "assistant":
        return f"a model answers as the assistant, not as the {result.role}"
    calls = any(isinstance(block, ToolUseContent) for block in _blocks(result))
    mode = params.tool_choice.mode if params.tool_choice is not None else None
    if mode == "none" and calls:
        return "the model called a tool, and was to call none"
    if mode == "required" and not calls:
        return "the model called no tool, and was to call one"
    return None


def _blocks(message: SamplingMessage | CreateMessageResult) -> tuple[SamplingMessageContentBlock, ...]:
    return message.content if isinstance(message.content, tuple) else (message.content,)
