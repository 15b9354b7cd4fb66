"""Spans and durations of all requests, for OpenTelemetry. Requires the extra `telemetry` of this package.

    server = Server("weather", version="1.0", middleware=[Telemetry()])

`mcp_client.telemetry` is the same: one instance can serve both.
"""

from __future__ import annotations

from mcp_core.trio.telemetry import Telemetry

__all__ = ["Telemetry"]
