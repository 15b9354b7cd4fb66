"""Spans and durations of all requests, for OpenTelemetry. Requires the extra `telemetry` of this package.

    async with open_stdio(["weather-server"], middleware=[Telemetry()]) as client: ...

`mcp_server.telemetry` is the same: one instance can serve both.
"""

from __future__ import annotations

from mcp_core.trio.telemetry import Telemetry

__all__ = ["Telemetry"]
