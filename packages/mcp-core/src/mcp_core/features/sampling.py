"""Rules for sampling messages: tool calls, their results, and the tool choice.

A schema cannot express these rules. A server checks its sampling requests; a client checks the requests that it
receives and the results that it sends.

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
    """Return why these messages cannot be passed to a model, or `None`.

    A model calls tools in a message with the role `assistant`. The next message has the role `user`, and contains the
    results of all these calls and no other content.

    Args:
        messages: The messages, the oldest first.

    Returns:
        The reason, with the index of the message, counted from 0.
    """
    open_calls: set[str] = set()
    for number, message in enumerate(messages):
        blocks = _blocks(message)
        calls = [block.id for block in blocks if isinstance(block, ToolUseContent)]
        results = [block.tool_use_id for block in blocks if isinstance(block, ToolResultContent)]
        where = f"messages[{number}]"
        if calls and message.role != "assistant":
            return f"{where} has a tool call, which requires the role assistant"
        if results and message.role != "user":
            return f"{where} has a tool result, which requires the role user"
        if results and len(results) < len(blocks):
            return f"{where} has tool results beside other content"
        if open_calls - set(results):
            return f"{where} lacks the result of the tool call {min(open_calls - set(results))!r}"
        if set(results) - open_calls:
            return (
                f"{where} has a tool result for {min(set(results) - open_calls)!r}, "
                "which is not a tool call of the previous message"
            )
        open_calls = set(calls)
    if open_calls:
        return f"no message with the result of the tool call {min(open_calls)!r}"
    return None


def why_no_answer(params: CreateMessageRequestParams, result: CreateMessageResult) -> str | None:
    """Return why a result does not match its sampling request, or `None`.

    Args:
        params: The parameters of the request.
        result: The result.
    """
    if result.role != "assistant":
        return f"the role of a sampling result must be assistant, not {result.role}"
    calls = any(isinstance(block, ToolUseContent) for block in _blocks(result))
    mode = params.tool_choice.mode if params.tool_choice is not None else None
    if mode == "none" and calls:
        return "the model called a tool, but the tool choice mode is 'none'"
    if mode == "required" and not calls:
        return "the model called no tool, but the tool choice mode is 'required'"
    return None


def _blocks(message: SamplingMessage | CreateMessageResult) -> tuple[SamplingMessageContentBlock, ...]:
    return message.content if isinstance(message.content, tuple) else (message.content,)
