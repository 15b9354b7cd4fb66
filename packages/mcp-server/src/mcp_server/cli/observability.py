"""The log of the command, the access log, metrics and OpenTelemetry."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.trio.extras import extra
from mcp_core.trio.nursery import open_private_nursery
from mcp_server.cli.unawaited import log_unawaited_coroutines
from mcp_server.host.listeners import split_bind
from mcp_server.observation import AccessLog
from mcp_server.runners.blocked_loop import watch_event_loop
from mcp_server.stderr_log import stderr_handler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_server.prometheus import PrometheusMetrics
    from mcp_server.runners.http import ServeHttpOptions
    from mcp_server.server import Server

__all__ = ["JsonFormatter", "configure_log", "observe", "observe_event_loop", "serve_page", "use_telemetry"]

_PAGE: Final = "/metrics"


class JsonFormatter(logging.Formatter):
    """A formatter of log messages as JSON objects: `time`, `level`, `logger`, `message`, and `exception` if any."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message as one line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        values: JsonObject = {
            "time": time,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            values["exception"] = record.exc_text or self.formatException(record.exc_info)
        return json.dumps(values, ensure_ascii=False)


def configure_log(level: str, *, as_json: bool) -> None:
    """Write log messages to stderr, among them those of coroutines that were never awaited.

    Args:
        level: The lowest level.
        as_json: Whether each line is a JSON object.
    """
    handler = stderr_handler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if as_json else text)
    logging.basicConfig(level=level.upper(), handlers=[handler])
    log_unawaited_coroutines(trace=level == "debug")


@contextmanager
def observe_event_loop() -> Iterator[None]:
    """Log the lines of the author that block the event loop during the block, if the log has the debug level."""
    if not logging.getLogger("mcp_server").isEnabledFor(logging.DEBUG):
        yield
        return
    with watch_event_loop():
        yield


def use_telemetry(server: Server) -> None:
    """Report the requests of a server to OpenTelemetry, which the environment variables `OTEL_*` configure.

    Raises:
        MissingExtra: The SDK is not installed.
    """
    with extra("trio-mcp-server", "opentelemetry"):
        from opentelemetry.distro import OpenTelemetryConfigurator, OpenTelemetryDistro  # lazy: an extra

    from mcp_server.telemetry import Telemetry  # lazy: an extra

    # The distribution would choose gRPC, which the extra does not install.
    os.environ.setdefault("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    os.environ.setdefault("OTEL_LOGS_EXPORTER", "none")
    os.environ.setdefault("OTEL_SERVICE_NAME", server.info.name)
    OpenTelemetryDistro().configure()
    OpenTelemetryConfigurator().configure()  # type: ignore[no-untyped-call]  # the package has no types for it
    server.add_middleware(Telemetry())


def observe(options: ServeHttpOptions, *, access_log: str, metrics: str | None) -> PrometheusMetrics | None:
    """Add the observers of requests to the options of a server.

    Args:
        options: The options.
        access_log: `off`, `text` or `json`.
        metrics: The path of the metrics, or their address; `None`: no metrics.

    Returns:
        The metrics.

    Raises:
        MissingExtra: The client of Prometheus is not installed.
    """
    observers: list[AccessLog | PrometheusMetrics] = []
    if access_log != "off":
        log = logging.getLogger("mcp_server.access")
        log.setLevel(logging.INFO)
        log.propagate = False
        log.addHandler(logging.StreamHandler(sys.stdout))
        observers.append(AccessLog("json" if access_log == "json" else "text"))
    page = None
    if metrics is not None:
        from mcp_server.prometheus import PrometheusMetrics  # lazy: an extra

        is_path = metrics.startswith("/")
        page = PrometheusMetrics(metrics if is_path else _PAGE)
        observers.append(page)
        if is_path:
            options["companion"] = page
    options["observers"] = observers
    return page


@asynccontextmanager
async def serve_page(page: PrometheusMetrics | None, metrics: str | None) -> AsyncIterator[None]:
    """Serve metrics at an address of their own during the block, if `metrics` is an address.

    Raises:
        ValueError: It is not of the form `HOST:PORT`.
        OSError: The address cannot be used.
    """
    if page is None or metrics is None or metrics.startswith("/"):
        yield
        return
    from mcp_server.host.embedded import HttpHost  # lazy: a server over stdio needs no h11
    from mcp_server.transports.http.request import not_found  # lazy: likewise

    host = HttpHost(page.combine(not_found))
    async with open_private_nursery() as nursery:
        await nursery.start(host.run, [trio.SocketListener(trio.socket.from_stdlib_socket(_open_shared(metrics)))])
        yield
        nursery.cancel_scope.cancel()


def _open_shared(bind: str) -> socket.socket:
    """Listen at an address at which the other workers listen, too. Any of them can show the sums of all."""
    name, port = split_bind(bind)
    try:
        family = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((name, port), family=family, reuse_port=hasattr(socket, "SO_REUSEPORT"))
    except OSError as error:
        raise OSError(error.errno, f"cannot listen at {bind}: {error.strerror}") from error
