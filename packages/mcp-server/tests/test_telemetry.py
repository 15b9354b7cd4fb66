"""Spans of a server, whatever is around them. How both sides join in one trace is shown with the client."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from mcp_core.errors import RequestTimeout
from mcp_core.middleware import Passing
from mcp_core.revisions import R2026_07_28
from mcp_core.types import CallToolRequestParams, CallToolResult
from mcp_server.telemetry import Telemetry

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CALL = Passing(
    method="tools/call",
    params=CallToolRequestParams(name="add"),
    raw={"_meta": {"traceparent": PARENT}},
    incoming=True,
    revision=R2026_07_28,
    id=7,
)


async def answer(_: Passing) -> object:
    return CallToolResult(content=())


async def late(_: Passing) -> object:
    raise RequestTimeout("it took too long", deadline="total", seconds=1)


async def test_the_span_around_the_server_is_linked_where_the_client_has_one() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = Telemetry(tracer_provider=provider)
    with provider.get_tracer("http").start_as_current_span("POST") as post:
        await telemetry.request(CALL, answer)
        await telemetry.request(attrs.evolve(CALL, raw={}), answer)
    asked, alone, _ = exporter.get_finished_spans()
    assert asked.parent is not None
    assert asked.parent.span_id == 0x00F067AA0BA902B7
    assert [link.context.span_id for link in asked.links] == [post.get_span_context().span_id]
    assert alone.parent is not None
    assert alone.parent.span_id == post.get_span_context().span_id
    assert not alone.links


async def test_an_exception_that_comes_by_is_told_and_goes_on() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with pytest.raises(RequestTimeout):
        await Telemetry(tracer_provider=provider).request(attrs.evolve(CALL, incoming=False), late)
    (span,) = exporter.get_finished_spans()
    assert span.kind is SpanKind.CLIENT
    assert dict(span.attributes or {})["error.type"] == "mcp_core.errors.RequestTimeout"
    assert span.status.status_code is StatusCode.ERROR
    assert "too long" not in span.to_json()


async def test_without_an_sdk_nothing_is_told_and_everything_works() -> None:
    assert await Telemetry().request(CALL, answer) == CallToolResult(content=())


@contextmanager
def without_opentelemetry() -> Iterator[None]:
    kept = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "opentelemetry"}
    for name in kept:
        sys.modules[name] = None  # type: ignore[assignment]  # so an import fails
    try:
        yield
    finally:
        sys.modules.update(kept)


def test_what_is_missing_is_named_with_the_extra_that_brings_it() -> None:
    with without_opentelemetry(), pytest.raises(ModuleNotFoundError, match=r"install mcp-server\[telemetry\]"):
        Telemetry()
