"""Faults of the raw client in version negotiation."""

from __future__ import annotations

from typing import Final

from mutants.client_faults.fault import of

__all__ = ["ERA_FAULTS"]

_JUNE = "2025-06-18"
_LATE = "2025-11-25"
_MODERN = "2026-07-28"

ERA_FAULTS: Final = (
    of("offers-older", _LATE, "stdio", "version.client-latest"),
    of("newer-methods-anyway", _LATE, "stdio", "version.client-keeps-to-it"),
    of("first-version-for-all", _LATE, "stdio", "version.client-keeps-to-it"),
    of("any-newer-version", _JUNE, "stdio", "version.client-disconnects"),
    of(
        "takes-first-version",
        _MODERN,
        "stdio",
        "meta.client-version",
        "version.client-picks-supported",
        "version.client-retry",
    ),
    of("initialized-to-modern", _MODERN, "http", "compat.client-no-legacy-methods"),
    of("needs-server-info", _MODERN, "stdio", "discover.client-bears-anonymous"),
    of("needs-server-info", _MODERN, "http", "discover.client-bears-anonymous"),
    of("other-version-later", _MODERN, "stdio", "version.client-picks-supported"),
    of("gives-up-in-silence", _MODERN, "stdio", "stdio.client-probe-silence"),
    of("probe-id-again", _MODERN, "stdio", "jsonrpc.client-request-id-in-flight"),
    of("probes-again", _MODERN, "stdio", "compat.client-falls-back"),
    of("one-code-only", _MODERN, "stdio", "stdio.client-fallback-codes"),
    # It lists the tools only after that.
    of(
        "initializes-at-mismatch",
        _MODERN,
        "http",
        "compat.client-modern-error-no-fallback",
        "header.client-param-retry",
    ),
    of("errors-need-id", _MODERN, "http", "compat.client-modern-error-no-fallback"),
    of("dies-of-anonymous-refusal", _MODERN, "stdio", "stdio.client-fallback-without-id"),
    of("gets-first", _LATE, "http", "http-sse.client-posts-first"),
    of("looks-elsewhere", _LATE, "http", "http-sse.client-falls-back"),
    of("no-fallback-at-400", _LATE, "http", "http-sse.client-falls-back"),
    of("keeps-first-endpoint", "2024-11-05", "http", "http-sse.client-posts"),
    of("answers-to-stream", "2024-11-05", "http", "http-sse.client-posts"),
    of("endpoint-in-first-line", "2024-11-05", "http", "http-sse.client-posts"),
    of("endpoint-query-of-parent", "2024-11-05", "http", "http-sse.client-posts"),
    of("looks-elsewhere", _MODERN, "http", "compat.client-two-endpoints"),
    of("discovers-behind-sse", _MODERN, "http", "compat.client-two-endpoints-era"),
    of("gives-up-at-exit", _MODERN, "stdio", "stdio.client-fallback-exit"),
    of("needs-id-at-400", _MODERN, "http", "compat.client-fallback-null-id"),
    of("type-from-everybody", _MODERN, "stdio", "compat.client-legacy-results"),
    of("deaf-after-fallback", _MODERN, "stdio", "compat.client-legacy-rules"),
    of("deaf-after-fallback", _MODERN, "http", "compat.client-legacy-rules"),
    of("no-version-behind-probe", _MODERN, "http", "compat.client-legacy-rules"),
)
"""The faults of this module."""
