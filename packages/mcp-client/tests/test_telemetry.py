"""Spans and durations, on the side that asks and on both sides at once."""

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


class Told:
    """What was told to OpenTelemetry."""

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


def attributes(told: ReadableSpan | HistogramDataPoint) -> Mapping[str, object]:
    return dict(told.attributes or {})


def ids(span: ReadableSpan) -> tuple[int, int, int | None]:
    """The trace, the span, and its parent."""
    assert span.context is not None
    return span.context.trace_id, span.context.span_id, None if span.parent is None else span.parent.span_id


async def elicit(params: ElicitRequestFormParams) -> ElicitResult:
    return ElicitResult(action="decline")


def make_server(told: Told) -> Server:
    server = Server("test", version="1", middleware=[told.server()])

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
async def test_a_call_is_one_trace_of_two_spans(revision: Revision) -> None:
    told = Told()
    async with open_in_memory(
        lambda stream: serve_stream(make_server(told), stream), revisions=[revision], middleware=[told.client()]
    ) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    asked, answered = told.span("tools/call add", SpanKind.CLIENT), told.span("tools/call add", SpanKind.SERVER)
    assert ids(answered)[0] == ids(asked)[0]
    assert ids(answered)[2] == ids(asked)[1]
    assert ids(asked)[2] is None
    common = {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": str(revision),
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
    }
    assert attributes(asked) == common
    assert attributes(answered).items() >= common.items()
    assert "jsonrpc.request.id" in attributes(answered)
    for span in (asked, answered):
        assert span.status.status_code is StatusCode.UNSET
    for name in (CLIENT_DURATION, SERVER_DURATION):
        (point,) = told.points(name)
        assert attributes(point) == common
        assert point.count == 1
        assert point.explicit_bounds[:3] == (0.01, 0.02, 0.05)
        assert 0 <= point.sum < 180


@BOTH
async def test_the_trace_and_the_baggage_of_the_application_reach_the_tool(revision: Revision) -> None:
    told = Told()
    tracer = told.tracers.get_tracer("application")
    async with open_in_memory(
        lambda stream: serve_stream(make_server(told), stream), revisions=[revision], middleware=[told.client()]
    ) as client:
        with tracer.start_as_current_span("work") as work:
            token = context.attach(baggage.set_baggage("user", "ada"))
            result = await client.call_tool("inside")
            context.detach(token)
    answered = told.span("tools/call inside", SpanKind.SERVER)
    trace_id, span_id, _ = ids(answered)
    assert work.get_span_context().trace_id == trace_id
    assert f"{trace_id:x} {span_id:x} ada" in str(result.content)
    assert ids(told.span("tools/call inside", SpanKind.CLIENT))[2] == work.get_span_context().span_id
    # In memory both sides run in one program; a span around the server's side would be another one.
    assert trace.get_current_span() is trace.INVALID_SPAN


@BOTH
async def test_a_question_of_the_server_is_a_span_of_both(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    told = Told()
    async with open_in_memory(
        lambda stream: serve_stream(make_server(told), stream),
        revisions=[revision],
        handlers=Handlers(elicit=elicit),
        middleware=[told.client()],
    ) as client:
        await client.call_tool("ask")
    answered = told.span("elicitation/create", SpanKind.SERVER)
    assert attributes(answered)["mcp.method.name"] == "elicitation/create"
    # The round that ended in a question is no failure.
    assert all(span.status.status_code is StatusCode.UNSET for span in told.spans)
    assert len([span for span in told.spans if span.name == "tools/call ask"]) == (2 if revision.server_requests else 4)


@BOTH
async def test_failures_are_told_by_what_they_are_and_not_by_what_they_say(revision: Revision) -> None:
    told = Told()
    async with open_in_memory(
        lambda stream: serve_stream(make_server(told), stream), revisions=[revision], middleware=[told.client()]
    ) as client:
        assert (await client.call_tool("broken")).is_error
        with pytest.raises(RequestFailed):
            await client.get_prompt("no such prompt")
        await client.get_prompt("poem")
        await client.read_resource("a:b")
    for kind in (SpanKind.CLIENT, SpanKind.SERVER):
        broken = told.span("tools/call broken", kind)
        assert attributes(broken)["error.type"] == "tool_error"
        assert broken.status.status_code is StatusCode.ERROR
        missing = told.span("prompts/get no such prompt", kind)
        assert attributes(missing)["rpc.response.status_code"] == "-32602"
        assert ("error.type" in attributes(missing)) is (kind is SpanKind.CLIENT)
        assert (missing.status.status_code is StatusCode.ERROR) is (kind is SpanKind.CLIENT)
        assert attributes(told.span("resources/read", kind))["mcp.resource.uri"] == "a:b"
    assert told.span("prompts/get no such prompt", SpanKind.CLIENT).status.description
    assert not any("s3cr3t" in span.to_json() for span in told.spans)
    # Who invents names makes no time series.
    for name in (CLIENT_DURATION, SERVER_DURATION):
        assert {attributes(point).get("gen_ai.prompt.name") for point in told.points(name)} == {None, "poem"}


async def test_a_call_that_is_given_up_ends_its_span() -> None:
    told = Told()

    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={})

    async with open_in_memory(scripted(script), middleware=[told.client()]) as client:
        with trio.move_on_after(0.01):
            await client.call_tool("hang")
    span = told.span("tools/call hang", SpanKind.CLIENT)
    assert span.status.status_code is StatusCode.UNSET
    assert len(told.points(CLIENT_DURATION)) == 1


@pytest.mark.parametrize(
    "meta", [{}, {"traceparent": "nonsense"}, {"traceparent": ["x"]}, {"traceparent": "00-" + "0" * 32 + "-x-01"}]
)
@pytest.mark.spec("meta.trace-context-accepted")
async def test_a_request_with_a_broken_trace_begins_one(meta: JsonObject) -> None:
    told = Told()
    async with open_in_memory(
        lambda stream: serve_stream(make_server(told), stream), revisions=[R2025_11_25]
    ) as client:
        client._options = type(client._options)(meta=meta)
        assert "3" in str((await client.call_tool("add", {"a": 1, "b": 2})).content)
    assert ids(told.span("tools/call add", SpanKind.SERVER))[2] is None


@pytest.mark.spec("meta.trace-context-format", "meta.trace-context-accepted", "meta.baggage-format")
async def test_what_the_caller_says_of_its_trace_stays() -> None:
    told = Told()
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with open_in_memory(
        lambda stream: serve_stream(make_server(told), stream), middleware=[told.client()]
    ) as client:
        await client.with_meta({"traceparent": parent, "baggage": "user=bob"}).call_tool("inside")
    assert ids(told.span("tools/call inside", SpanKind.SERVER))[::2] == (int(parent[3:35], 16), int(parent[36:52], 16))


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
async def test_a_trace_goes_on_in_another_process(revision: Revision, tmp_path: Path) -> None:
    program, file, told = tmp_path / "server.py", tmp_path / "spans", Told()
    program.write_text(PROGRAM)
    async with open_stdio([sys.executable, program, file], revisions=[revision], middleware=[told.client()]) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    trace_id, span_id, _ = ids(told.span("tools/call add", SpanKind.CLIENT))
    assert f"{trace_id:x} {span_id:x} SERVER tools/call add\n" in file.read_text()
