"""Spans and durations of the client, and of client and server together."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio
import trio.testing
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Histogram, HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import mcp_client.telemetry
import mcp_server.telemetry
from mcp_client import Handlers, open_stdio
from mcp_client.testing import ScriptedPeer, open_in_memory, scripted
from mcp_core.errors import RequestFailed
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_core.telemetry import CLIENT_DURATION, SERVER_DURATION
from mcp_core.types import ElicitRequestFormParams, ElicitResult
from mcp_server import Context, Server, serve_stream

BOTH = pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)


class TelemetryRecorder:
    """Recorded spans and measurements of OpenTelemetry."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider(metric_readers=[self._reader])

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def span(self, name: str, kind: SpanKind) -> ReadableSpan:
        (found,) = (span for span in self.spans if (span.name, span.kind) == (name, kind))
        return found

    def points(self, name: str) -> list[HistogramDataPoint]:
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name and isinstance(metric.data, Histogram) and metric.unit == "s"
            for point in metric.data.data_points
        ]

    def client(self) -> mcp_client.telemetry.Telemetry:
        return mcp_client.telemetry.Telemetry(tracer_provider=self.tracers, meter_provider=self.meters)

    def server(self) -> mcp_server.telemetry.Telemetry:
        return mcp_server.telemetry.Telemetry(tracer_provider=self.tracers, meter_provider=self.meters)


def attributes(item: ReadableSpan | HistogramDataPoint) -> Mapping[str, object]:
    return dict(item.attributes or {})


def ids(span: ReadableSpan) -> tuple[int, int, int | None]:
    """Return the trace id, the span id, and the id of the parent."""
    assert span.context is not None
    return span.context.trace_id, span.context.span_id, None if span.parent is None else span.parent.span_id


async def elicit(params: ElicitRequestFormParams) -> ElicitResult:
    return ElicitResult(action="decline")


def make_server(recorder: TelemetryRecorder) -> Server:
    server = Server("test", version="1", middleware=[recorder.server()])

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def broken() -> int:
        raise RuntimeError("s3cr3t")

    @server.tool
    def inside() -> str:
        span = trace.get_current_span().get_span_context()
        return f"{span.trace_id:x} {span.span_id:x} {baggage.get_baggage('user')}"

    @server.tool
    async def ask(*, context: Context) -> str:
        return str(await context.elicit(bool, "Sure?"))

    @server.prompt
    async def poem() -> str:
        return "A poem"

    @server.resource("a:b", name="b")
    async def read() -> str:
        return "text"

    return server


@pytest.mark.spec("tools.client-audit-log", "tools.client-log-usage")
@BOTH
async def test_call_has_two_spans_in_one_trace(revision: Revision) -> None:
    recorder = TelemetryRecorder()
    async with open_in_memory(
        lambda stream: serve_stream(make_server(recorder), stream), revisions=[revision], middleware=[recorder.client()]
    ) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    client_span, server_span = (
        recorder.span("tools/call add", SpanKind.CLIENT),
        recorder.span("tools/call add", SpanKind.SERVER),
    )
    assert ids(server_span)[0] == ids(client_span)[0]
    assert ids(server_span)[2] == ids(client_span)[1]
    assert ids(client_span)[2] is None
    common = {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": str(revision),
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
    }
    assert attributes(client_span) == common
    assert attributes(server_span).items() >= common.items()
    assert "jsonrpc.request.id" in attributes(server_span)
    for span in (client_span, server_span):
        assert span.status.status_code is StatusCode.UNSET
    for name in (CLIENT_DURATION, SERVER_DURATION):
        (point,) = recorder.points(name)
        assert attributes(point) == common
        assert point.count == 1
        assert point.explicit_bounds[:3] == (0.01, 0.02, 0.05)
        assert 0 <= point.sum < 180


@BOTH
async def test_trace_and_baggage_of_application_reach_tool(revision: Revision) -> None:
    recorder = TelemetryRecorder()
    tracer = recorder.tracers.get_tracer("application")
    async with open_in_memory(
        lambda stream: serve_stream(make_server(recorder), stream), revisions=[revision], middleware=[recorder.client()]
    ) as client:
        with tracer.start_as_current_span("work") as work:
            token = context.attach(baggage.set_baggage("user", "ada"))
            result = await client.call_tool("inside")
            context.detach(token)
    server_span = recorder.span("tools/call inside", SpanKind.SERVER)
    trace_id, span_id, _ = ids(server_span)
    assert work.get_span_context().trace_id == trace_id
    assert f"{trace_id:x} {span_id:x} ada" in str(result.content)
    assert ids(recorder.span("tools/call inside", SpanKind.CLIENT))[2] == work.get_span_context().span_id
    # In memory both sides run in one program; a span around the server's side would show here.
    assert trace.get_current_span() is trace.INVALID_SPAN


@BOTH
async def test_client_request_has_spans_on_both_sides(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    recorder = TelemetryRecorder()
    async with open_in_memory(
        lambda stream: serve_stream(make_server(recorder), stream),
        revisions=[revision],
        handlers=Handlers(elicit=elicit),
        middleware=[recorder.client()],
    ) as client:
        await client.call_tool("ask")
    server_span = recorder.span("elicitation/create", SpanKind.SERVER)
    assert attributes(server_span)["mcp.method.name"] == "elicitation/create"
    # A request that ends with an `InputRequiredResult` is no failure.
    assert all(span.status.status_code is StatusCode.UNSET for span in recorder.spans)
    assert len([span for span in recorder.spans if span.name == "tools/call ask"]) == (
        2 if revision.server_requests else 4
    )


@BOTH
async def test_failure_span_has_type_without_message(revision: Revision) -> None:
    recorder = TelemetryRecorder()
    async with open_in_memory(
        lambda stream: serve_stream(make_server(recorder), stream), revisions=[revision], middleware=[recorder.client()]
    ) as client:
        assert (await client.call_tool("broken", raise_on_error=False)).is_error
        with pytest.raises(RequestFailed):
            await client.get_prompt("no such prompt")
        await client.get_prompt("poem")
        await client.read_resource("a:b")
    for kind in (SpanKind.CLIENT, SpanKind.SERVER):
        broken = recorder.span("tools/call broken", kind)
        assert attributes(broken)["error.type"] == "tool_error"
        assert broken.status.status_code is StatusCode.ERROR
        missing = recorder.span("prompts/get no such prompt", kind)
        assert attributes(missing)["rpc.response.status_code"] == "-32602"
        assert ("error.type" in attributes(missing)) is (kind is SpanKind.CLIENT)
        assert (missing.status.status_code is StatusCode.ERROR) is (kind is SpanKind.CLIENT)
        assert attributes(recorder.span("resources/read", kind))["mcp.resource.uri"] == "a:b"
    assert recorder.span("prompts/get no such prompt", SpanKind.CLIENT).status.description
    assert not any("s3cr3t" in span.to_json() for span in recorder.spans)
    # Invented names must not create time series.
    for name in (CLIENT_DURATION, SERVER_DURATION):
        assert {attributes(point).get("gen_ai.prompt.name") for point in recorder.points(name)} == {None, "poem"}


async def test_cancelled_call_ends_span() -> None:
    recorder = TelemetryRecorder()

    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={})

    async with open_in_memory(scripted(script), middleware=[recorder.client()]) as client:
        with trio.move_on_after(0.01):
            await client.call_tool("hang")
    span = recorder.span("tools/call hang", SpanKind.CLIENT)
    assert span.status.status_code is StatusCode.UNSET
    assert len(recorder.points(CLIENT_DURATION)) == 1


@pytest.mark.parametrize(
    "meta", [{}, {"traceparent": "nonsense"}, {"traceparent": ["x"]}, {"traceparent": "00-" + "0" * 32 + "-x-01"}]
)
@pytest.mark.spec("meta.trace-context-accepted")
async def test_request_invalid_traceparent_starts_trace(meta: JsonObject) -> None:
    recorder = TelemetryRecorder()
    async with open_in_memory(
        lambda stream: serve_stream(make_server(recorder), stream), revisions=[R2025_11_25]
    ) as client:
        client._options = type(client._options)(meta=meta)
        assert "3" in str((await client.call_tool("add", {"a": 1, "b": 2})).content)
    assert ids(recorder.span("tools/call add", SpanKind.SERVER))[2] is None


@pytest.mark.spec("meta.trace-context-format", "meta.trace-context-accepted", "meta.baggage-format")
async def test_request_own_traceparent_kept() -> None:
    recorder = TelemetryRecorder()
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with open_in_memory(
        lambda stream: serve_stream(make_server(recorder), stream), middleware=[recorder.client()]
    ) as client:
        await client.with_meta({"traceparent": parent, "baggage": "user=bob"}).call_tool("inside")
    assert ids(recorder.span("tools/call inside", SpanKind.SERVER))[::2] == (
        int(parent[3:35], 16),
        int(parent[36:52], 16),
    )


PROGRAM = """
import sys
import trio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from mcp_server import Server, serve_stdio
from mcp_server.telemetry import Telemetry


class ToFile(SpanExporter):
    def export(self, spans):
        with open(sys.argv[1], "a") as file:
            for span in spans:
                parent = span.parent.span_id if span.parent else 0
                file.write(f"{span.context.trace_id:x} {parent:x} {span.kind.name} {span.name}\\n")
        return SpanExportResult.SUCCESS


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ToFile()))
trace.set_tracer_provider(provider)
server = Server("test", version="1", middleware=[Telemetry()])


@server.tool
async def add(a: int, b: int) -> int:
    return a + b


trio.run(serve_stdio, server)
"""


@BOTH
async def test_trace_continues_in_other_process(revision: Revision, tmp_path: Path) -> None:
    program, file, recorder = tmp_path / "server.py", tmp_path / "spans", TelemetryRecorder()
    program.write_text(PROGRAM)
    async with open_stdio(
        [sys.executable, program, file], revisions=[revision], middleware=[recorder.client()]
    ) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    trace_id, span_id, _ = ids(recorder.span("tools/call add", SpanKind.CLIENT))
    assert f"{trace_id:x} {span_id:x} SERVER tools/call add\n" in file.read_text()
