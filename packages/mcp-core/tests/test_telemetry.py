from __future__ import annotations

import asyncio

import attrs
import pytest

from mcp_core.errors import ConnectionEnded, RequestFailed
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.middleware import MiddlewareMessage
from mcp_core.revisions import R2026_07_28
from mcp_core.telemetry import Outcome, describe_message, outcome, trace_context_of, with_trace_context
from mcp_core.types import (
    CallToolRequestParams,
    CallToolResult,
    EmptyResult,
    GetPromptRequestParams,
    ListRootsRequestParams,
    ReadResourceRequestParams,
)

CALL = MiddlewareMessage(
    method="tools/call",
    params=CallToolRequestParams(name="add", arguments={"secret": "s3cr3t"}),
    raw={},
    incoming=True,
    revision=R2026_07_28,
    id=7,
)


def test_tool_call_described_with_tool_without_arguments() -> None:
    facts = describe_message(CALL)
    assert facts.span_name == "tools/call add"
    assert facts.common == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2026-07-28",
        "gen_ai.operation.name": "execute_tool",
    }
    assert facts.attributes == {**facts.common, "gen_ai.tool.name": "add", "jsonrpc.request.id": "7"}
    assert "s3cr3t" not in repr(facts)


def test_prompt_and_resource_described_by_name_and_uri() -> None:
    prompt = describe_message(
        attrs.evolve(CALL, method="prompts/get", params=GetPromptRequestParams(name="hello"), revision=None)
    )
    assert prompt.span_name == "prompts/get hello"
    assert prompt.names == {"gen_ai.prompt.name": "hello"}
    assert prompt.common == {"mcp.method.name": "prompts/get"}
    read = describe_message(
        attrs.evolve(CALL, method="resources/read", params=ReadResourceRequestParams(uri="a:b"), id=None)
    )
    assert read.span_name == "resources/read"  # not in the span name: too many different URIs
    assert read.attributes["mcp.resource.uri"] == "a:b"
    assert "mcp.resource.uri" not in read.common
    assert "jsonrpc.request.id" not in read.attributes


def test_names_of_peer_shortened() -> None:
    facts = describe_message(attrs.evolve(CALL, params=CallToolRequestParams(name="x" * 5_000)))
    assert len(facts.span_name) < 1_100
    assert len(facts.names["gen_ai.tool.name"]) == 1_024


@pytest.mark.parametrize(
    ("code", "incoming", "failed"),
    [
        (-32602, True, False),
        (-32602, False, True),
        (-32603, True, True),
        (-32000, True, True),
        (-32099, True, True),
        (-32100, True, False),
        (-31999, True, False),
    ],
)
def test_error_is_failure_depending_on_code_and_direction(code: int, incoming: bool, failed: bool) -> None:
    result = outcome(attrs.evolve(CALL, incoming=incoming), RequestFailed("no", code=code))
    assert result.failed is failed
    assert result.attributes["rpc.response.status_code"] == str(code)
    assert result.attributes.get("error.type") == (str(code) if failed else None)
    assert result.description == ("no" if failed else None)
    assert not result.known


@pytest.mark.parametrize("result", [{"isError": True}, CallToolResult(content=(), is_error=True)])
def test_tool_error_is_failure(result: object) -> None:
    assert outcome(CALL, result) == Outcome({"error.type": "tool_error"}, failed=True)


@pytest.mark.parametrize("result", [{}, {"isError": "yes"}, CallToolResult(content=()), EmptyResult(), None])
def test_result_without_error_is_success(result: object) -> None:
    assert outcome(CALL, result) == Outcome({})


def test_exception_described_by_class_only() -> None:
    result = outcome(CALL, ConnectionEnded("the password was s3cr3t"))
    assert result == Outcome({"error.type": "mcp_core.errors.ConnectionEnded"}, failed=True)


def test_cancellation_is_success() -> None:
    assert outcome(CALL, asyncio.CancelledError()) == Outcome({})


def test_propagator_receives_text_members_of_meta() -> None:
    meta: JsonObject = {"traceparent": "t", "progressToken": 3, "baggage": ["x"]}
    assert trace_context_of(attrs.evolve(CALL, raw={"_meta": meta})) == {"traceparent": "t"}
    assert trace_context_of(attrs.evolve(CALL, raw={"_meta": "x"})) == {}
    assert trace_context_of(CALL) == {}


def test_propagated_members_added_to_meta_without_overwriting() -> None:
    own = attrs.evolve(CALL, params=CallToolRequestParams(name="add", meta={"traceparent": "own"}))
    sent = with_trace_context(own, {"traceparent": "t", "baggage": "b"}).params
    assert isinstance(sent, CallToolRequestParams)
    assert sent.meta == {"traceparent": "own", "baggage": "b"}
    assert with_trace_context(own, {}) is own
    roots = attrs.evolve(CALL, params=ListRootsRequestParams())
    assert with_trace_context(roots, {"traceparent": "t"}) is roots
