"""Middleware that reports requests to OpenTelemetry."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar, Final

from mcp_core.middleware import Middleware
from mcp_core.telemetry import (
    BUCKETS,
    CLIENT_DURATION,
    SERVER_DURATION,
    describe_message,
    outcome,
    trace_context_of,
    with_trace_context,
)
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.trio.extras import extra

if TYPE_CHECKING:
    from opentelemetry import context, metrics, trace

    from mcp_core.middleware import MiddlewareMessage, Proceed
    from mcp_core.trio.async_library import AsyncLibrary

__all__ = ["Telemetry"]

_SCOPE: Final = "mcp_core"
"""The instrumentation scope of spans and histograms."""


class Telemetry(Middleware):
    """Middleware that records each request. Make it the first middleware, so that its durations include the others.

    An outbound request is a span of the kind `CLIENT`, an inbound request is a span of the kind `SERVER`. Both sides of
    a connection have both kinds, because servers send requests too. The propagators that the application configured
    write the trace context into `_meta` as `traceparent`, `tracestate` and `baggage`, for all transports. Without an
    SDK nothing is recorded.

    Names and attributes follow the semantic conventions for this protocol, which are still in development. Spans
    contain the names of tools and prompts and the URIs of resources, but no arguments and no results.

    Spec: basic/index#_meta (2026-07-28)

    Args:
        tracer_provider: Provider of the tracer; `None` uses the provider of the application.
        meter_provider: Provider of the histograms; `None` uses the provider of the application.

    Raises:
        MissingExtra: OpenTelemetry is not installed.
    """

    async_library: ClassVar[AsyncLibrary | None] = "trio"

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        with extra("trio-mcp-core", "telemetry"):
            from opentelemetry import metrics, trace  # lazy: an extra
        self._tracer: Final = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider)
        self._client_duration: Final = _histogram(meter, CLIENT_DURATION, "The time from a request to its response.")
        self._server_duration: Final = _histogram(meter, SERVER_DURATION, "The time to handle a request.")

    @allow_asyncio
    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        """Record the span and the duration of a request."""
        from opentelemetry import context, propagate, trace  # lazy: an extra

        facts = describe_message(message)
        here = context.get_current()
        parent, links = _parent(message, here) if message.incoming else (here, ())
        kind = trace.SpanKind.SERVER if message.incoming else trace.SpanKind.CLIENT
        span = self._tracer.start_span(facts.span_name, parent, kind, facts.attributes, links)
        inside = trace.set_span_in_context(span, parent)
        if not message.incoming:
            carrier: dict[str, str] = {}
            propagate.inject(carrier, inside)
            message = with_trace_context(message, carrier)
        began = time.perf_counter()
        token = context.attach(inside)
        end: object = None
        try:
            end = await proceed(message)
        except BaseException as error:
            end = error
            raise
        else:
            return end
        finally:
            context.detach(token)
            seconds = time.perf_counter() - began
            what = outcome(message, end)
            span.set_attributes(what.attributes)
            if what.failed:
                span.set_status(trace.StatusCode.ERROR, what.description)
            names = facts.names if what.known else {}
            histogram = self._server_duration if message.incoming else self._client_duration
            histogram.record(seconds, {**facts.common, **names, **what.attributes}, inside)
            span.end()


def _histogram(meter: metrics.Meter, name: str, description: str) -> metrics.Histogram:
    return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=BUCKETS)


def _parent(message: MiddlewareMessage, here: context.Context) -> tuple[context.Context, tuple[trace.Link, ...]]:
    """Return the context of the sender of the request, and a link to the current span of this side if it differs."""
    from opentelemetry import propagate, trace  # lazy: an extra

    parent = propagate.extract(trace_context_of(message), here)
    around = trace.get_current_span(here).get_span_context()
    request_span = trace.get_current_span(parent).get_span_context()
    return parent, (trace.Link(around),) if around.is_valid and around != request_span else ()
