"""Metrics of the HTTP requests of an endpoint for Prometheus. Requires the extra `prometheus` of this package.

    metrics = PrometheusMetrics()
    trio.run(partial(serve_http, server, observers=[metrics], companion=metrics))

| metric | type | labels |
| --- | --- | --- |
| `mcp_server_requests_total` | counter | `method`, `name`, `status` |
| `mcp_server_request_duration_seconds` | histogram | `method`, `name` |
| `mcp_server_response_bytes_total` | counter | `method` |
| `mcp_server_requests_in_progress` | gauge | |

`method` is the method of the message, `(none)` for requests without a message, such as the GET request of a standalone
stream, and `(other)` for a method that the server does not have. `name` is the name of a registered tool or prompt, and
otherwise empty: a client cannot create time series. Requests that only wait for notifications have no duration.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from mcp_core.methods import PROMPTS_GET, SUBSCRIPTIONS_LISTEN, TOOLS_CALL
from mcp_core.telemetry import BUCKETS
from mcp_core.trio.extras import extra
from mcp_server.host.service_manager import WORKER

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from mcp_server.asgi import Application, Receive, Scope, Send
    from mcp_server.observation import RequestRecord

__all__ = ["METRICS_FOLDER", "PrometheusMetrics"]

_NAMED: Final = frozenset({TOOLS_CALL.name, PROMPTS_GET.name})
"""Methods whose names are those of registered functions. URIs of resources are not bounded."""

METRICS_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder in which the processes of a server add up their values (prometheus-client)."""


class PrometheusMetrics:
    """A `RequestObserver` that counts requests, and a companion application that shows the counts.

    If the environment variable `PROMETHEUS_MULTIPROC_DIR` is set, the page of any process shows the sums of all
    processes. `mcp-server run --workers` sets it.

    Args:
        path: The path of the page.
        registry: The registry of the metrics; `None`: that of prometheus-client.

    Raises:
        MissingExtra: prometheus-client is not installed.
        ValueError: The path does not begin with a slash, or the registry has the metrics already.
    """

    def __init__(self, path: str = "/metrics", *, registry: CollectorRegistry | None = None) -> None:
        with extra("trio-mcp-server", "prometheus"):
            from prometheus_client import REGISTRY, Counter, Gauge, Histogram, values  # lazy: an extra
        if METRICS_FOLDER in os.environ and WORKER in os.environ:
            # Files of workers, not of processes, so that there are not more of them with each restart.
            place = os.environ[WORKER]
            values.ValueClass = values.MultiProcessValue(lambda: place)  # type: ignore[no-untyped-call]  # it has no types
        if not path.startswith("/"):
            raise ValueError(f"the path of the metrics must begin with a slash: {path!r}")
        self.path: Final = path
        """The path of the page."""
        self._registry: Final = registry or REGISTRY
        self._requests: Final = Counter(
            "mcp_server_requests", "HTTP requests.", ["method", "name", "status"], registry=self._registry
        )
        self._durations: Final = Histogram(
            "mcp_server_request_duration_seconds",
            "Time from an HTTP request to the end of its response.",
            ["method", "name"],
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._bytes: Final = Counter(
            "mcp_server_response_bytes", "Bytes of the bodies of responses.", ["method"], registry=self._registry
        )
        self._running: Final = Gauge(
            "mcp_server_requests_in_progress",
            "HTTP requests without a complete response.",
            registry=self._registry,
            multiprocess_mode="livesum",
        )
        self._running.set(0)

    def began(self, record: RequestRecord) -> None:  # noqa: ARG002  # a method of the protocol
        """Count a request in progress."""
        self._running.inc()

    def ended(self, record: RequestRecord) -> None:
        """Count a request."""
        method, name = "(none)", ""
        if record.method is not None:
            method = record.method if record.is_registered else "(other)"
            name = record.name or "" if record.is_registered and method in _NAMED else ""
        self._running.dec()
        self._requests.labels(method, name, str(record.status or "")).inc()
        self._bytes.labels(method).inc(record.size)
        if method not in {"(none)", SUBSCRIPTIONS_LISTEN.name}:
            self._durations.labels(method, name).observe(record.seconds)

    def page(self) -> bytes:
        """Return the page, in the text format of Prometheus."""
        from prometheus_client import CollectorRegistry, generate_latest  # lazy: an extra
        from prometheus_client.multiprocess import MultiProcessCollector  # lazy: an extra

        registry = self._registry
        if METRICS_FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the package has no types for it
        return generate_latest(registry)

    def combine(self, other: Application) -> Application:
        """Return an application that shows the page at `path`. Requests for other paths go to `other`."""

        async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and scope["path"] == self.path:
                await self(scope, receive, send)
            else:
                await other(scope, receive, send)

        return dispatch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # ASGI
        """Send the page, as an ASGI application."""
        from prometheus_client import CONTENT_TYPE_LATEST  # lazy: an extra

        headers = [(b"content-type", CONTENT_TYPE_LATEST.encode()), (b"cache-control", b"no-store")]
        page = self.page()
        headers.append((b"content-length", str(len(page)).encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": page})
