"""The spans of inbound and outbound requests. The client's tests show how both sides join one trace."""

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

from mcp_core.errors import MissingExtra, RequestTimeout
from mcp_core.middleware import MiddlewareMessage
from mcp_core.revisions import R2026_07_28
from mcp_core.trio.telemetry import Telemetry
from mcp_core.types import CallToolRequestParams, CallToolResult

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CALL = MiddlewareMessage(
    method="tools/call",
    params=CallToolRequestParams(name="add"),
    raw={"_meta": {"traceparent": PARENT}},
    incoming=True,
    revision=R2026_07_28,
    id=7,
)


async def return_result(_: MiddlewareMessage) -> object:
    return CallToolResult(content=())


async def raise_timeout(_: MiddlewareMessage) -> object:
    raise RequestTimeout("it took too long", deadline="total", seconds=1)


async def test_server_span_links_to_http_span_with_client_parent() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = Telemetry(tracer_provider=provider)
    with provider.get_tracer("http").start_as_current_span("POST") as post:
        await telemetry.request(CALL, return_result)
        await telemetry.request(attrs.evolve(CALL, raw={}), return_result)
    with_parent, without_parent, _ = exporter.get_finished_spans()
    assert with_parent.parent is not None
    assert with_parent.parent.span_id == 0x00F067AA0BA902B7
    assert [link.context.span_id for link in with_parent.links] == [post.get_span_context().span_id]
    assert without_parent.parent is not None
    assert without_parent.parent.span_id == post.get_span_context().span_id
    assert not without_parent.links


async def test_exception_is_recorded_and_raised() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with pytest.raises(RequestTimeout):
        await Telemetry(tracer_provider=provider).request(attrs.evolve(CALL, incoming=False), raise_timeout)
    (span,) = exporter.get_finished_spans()
    assert span.kind is SpanKind.CLIENT
    assert dict(span.attributes or {})["error.type"] == "mcp_core.errors.RequestTimeout"
    assert span.status.status_code is StatusCode.ERROR
    assert "too long" not in span.to_json()


async def test_telemetry_without_sdk_does_nothing() -> None:
    assert await Telemetry().request(CALL, return_result) == CallToolResult(content=())


@contextmanager
def without_opentelemetry() -> Iterator[None]:
    modules = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "opentelemetry"}
    for name in modules:
        sys.modules[name] = None  # type: ignore[assignment]  # so an import fails
    try:
        yield
    finally:
        sys.modules.update(modules)


def test_missing_opentelemetry_names_extra() -> None:
    with (
        without_opentelemetry(),
        pytest.raises(MissingExtra, match=r"pip install 'trio-mcp-core\[telemetry\]'"),
    ):
        Telemetry()
