from __future__ import annotations

import asyncio

import attrs
import pytest

from mcp_core.errors import ConnectionEnded, RequestFailed
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.middleware import MiddlewareMessage
from mcp_core.revisions import R2026_07_28
from mcp_core.telemetry import Outcome, carried, carrying, describe_message, outcome
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


def test_a_call_is_told_with_its_tool_and_without_its_arguments() -> None:
    facts = describe_message(CALL)
    assert facts.span_name == "tools/call add"
    assert facts.common == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2026-07-28",
        "gen_ai.operation.name": "execute_tool",
    }
    assert facts.attributes == {**facts.common, "gen_ai.tool.name": "add", "jsonrpc.request.id": "7"}
    assert "s3cr3t" not in repr(facts)


def test_a_prompt_and_a_resource_are_told_by_name_and_uri() -> None:
    prompt = describe_message(
        attrs.evolve(CALL, method="prompts/get", params=GetPromptRequestParams(name="hello"), revision=None)
    )
    assert prompt.span_name == "prompts/get hello"
    assert prompt.names == {"gen_ai.prompt.name": "hello"}
    assert prompt.common == {"mcp.method.name": "prompts/get"}
    read = describe_message(
        attrs.evolve(CALL, method="resources/read", params=ReadResourceRequestParams(uri="a:b"), id=None)
    )
    assert read.span_name == "resources/read"  # there are too many URIs to name spans after them
    assert read.attributes["mcp.resource.uri"] == "a:b"
    assert "mcp.resource.uri" not in read.common
    assert "jsonrpc.request.id" not in read.attributes


def test_what_a_peer_names_is_told_up_to_a_length() -> None:
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
def test_an_error_is_a_failure_of_whoever_asked_and_sometimes_of_whoever_answers(
    code: int, incoming: bool, failed: bool
) -> None:
    what = outcome(attrs.evolve(CALL, incoming=incoming), RequestFailed("no", code=code))
    assert what.failed is failed
    assert what.attributes["rpc.response.status_code"] == str(code)
    assert what.attributes.get("error.type") == (str(code) if failed else None)
    assert what.description == ("no" if failed else None)
    assert not what.known


@pytest.mark.parametrize("result", [{"isError": True}, CallToolResult(content=(), is_error=True)])
def test_a_tool_that_failed_is_a_failure(result: object) -> None:
    assert outcome(CALL, result) == Outcome({"error.type": "tool_error"}, failed=True)


@pytest.mark.parametrize("result", [{}, {"isError": "yes"}, CallToolResult(content=()), EmptyResult(), None])
def test_any_other_result_is_none(result: object) -> None:
    assert outcome(CALL, result) == Outcome({})


def test_an_exception_is_told_by_its_class_only() -> None:
    what = outcome(CALL, ConnectionEnded("the password was s3cr3t"))
    assert what == Outcome({"error.type": "mcp_core.errors.ConnectionEnded"}, failed=True)


def test_a_cancellation_is_no_failure() -> None:
    assert outcome(CALL, asyncio.CancelledError()) == Outcome({})


def test_a_propagator_is_given_the_texts_in_meta() -> None:
    meta: JsonObject = {"traceparent": "t", "progressToken": 3, "baggage": ["x"]}
    assert carried(attrs.evolve(CALL, raw={"_meta": meta})) == {"traceparent": "t"}
    assert carried(attrs.evolve(CALL, raw={"_meta": "x"})) == {}
    assert carried(CALL) == {}


def test_what_a_propagator_carries_goes_into_meta_and_replaces_nothing() -> None:
    own = attrs.evolve(CALL, params=CallToolRequestParams(name="add", meta={"traceparent": "own"}))
    sent = carrying(own, {"traceparent": "t", "baggage": "b"}).params
    assert isinstance(sent, CallToolRequestParams)
    assert sent.meta == {"traceparent": "own", "baggage": "b"}
    assert carrying(own, {}) is own
    roots = attrs.evolve(CALL, params=ListRootsRequestParams())
    assert carrying(roots, {"traceparent": "t"}) is roots
