"""Faults of the raw client in cancellation, batches and unsolicited messages."""

from __future__ import annotations

from typing import Final

from mutants.client_faults.fault import of

__all__ = ["CANCEL_FAULTS"]

_FIRST = "2024-11-05"
_OLD = "2025-03-26"
_JUNE = "2025-06-18"
_LATE = "2025-11-25"
_MODERN = "2026-07-28"

CANCEL_FAULTS: Final = (
    of("never-cancels", _LATE, "stdio", "cancellation.client-notifies"),
    of("never-cancels", _MODERN, "stdio", "cancellation.client-notifies-stdio"),
    of("cancels-calls-only", _LATE, "stdio", "cancellation.client-notifies"),
    of("cancels-calls-only", _MODERN, "stdio", "cancellation.client-notifies-stdio"),
    of("closes-all-connections", _MODERN, "http", "http.client-cancels-one"),
    of("keeps-connection", _MODERN, "http", "http.client-cancels-by-closing"),
    of("notifies-over-http", _MODERN, "http", "http.client-cancels-by-closing"),
    of("dies-of-late-response", _JUNE, "stdio", "cancellation.client-late-response"),
    of("dies-of-late-response", _MODERN, "stdio", "cancellation.client-late-response"),
    of("dies-of-late-error", _LATE, "stdio", "cancellation.client-late-response"),
    of("dies-of-late-error", _MODERN, "stdio", "cancellation.client-late-response"),
    of("cancels-without-id", _LATE, "stdio", "cancellation.client-params"),
    of("cancels-others", _FIRST, "stdio", "cancellation.client-own"),
    of("cancels-others", _MODERN, "stdio", "cancellation.client-own"),
    of("cancels-in-new-session", _LATE, "http", "cancellation.client-own"),
    of("cancels-all-pending", _FIRST, "http", "cancellation.client-not-initialize"),
    of("cancels-initialize", _OLD, "stdio", "cancellation.client-not-initialize"),
    of("declines-and-cancels", _JUNE, "stdio", "cancellation.client-own"),
    of("cancels-in-return", _LATE, "stdio", "cancellation.client-own"),
    of("cancels-by-text", _MODERN, "stdio", "cancellation.client-own", "cancellation.client-notifies-stdio"),
    of("dies-of-late-cancellation", _LATE, "stdio", "cancellation.client-bears-late"),
    # It is cancelled twice, and responds twice.
    of("answers-cancelled", _LATE, "stdio", "cancellation.client-no-response", "jsonrpc.client-response-once"),
    of("progress-of-cancelled", _LATE, "stdio", "cancellation.client-no-response"),
    of("progress-of-cancelled", _FIRST, "http", "cancellation.client-no-response"),
    of("ignores-cancel-of-zero", _LATE, "stdio", "cancellation.client-no-response"),
    of("cancels-own-request", _LATE, "stdio", "cancellation.client-bears-same-id"),
    of("cancels-own-request", _FIRST, "http", "cancellation.client-bears-same-id"),
    of("calls-again-after-timeout", _LATE, "stdio", "cancellation.client-notifies"),
    of("answers-odd-progress", _JUNE, "stdio", "jsonrpc.client-notification-not-answered"),
    of("answers-odd-cancellation", _JUNE, "stdio", "jsonrpc.client-notification-not-answered"),
    of("dies-of-odd-cancellation", _JUNE, "stdio", "cancellation.client-invalid-ignored"),
    of("no-batches", _OLD, "stdio", "batch.client-receives-stdio", "batch.client-receives"),
    of("first-of-batch", _OLD, "stdio", "batch.client-receives"),
    of("responses-of-batch-only", _OLD, "stdio", "batch.client-receives"),
    of("one-of-batch", _OLD, "stdio", "batch.client-receives", "batch.client-bad-member"),
    of("answers-noted-batch", _OLD, "http", "batch.client-post-body", "batch.client-kinds"),
    of("answers-noted-batch", _OLD, "stdio", "batch.client-kinds"),
    of("no-batched-response", _OLD, "http", "batch.client-receives"),
    of("no-batched-response", _OLD, "stdio", "batch.client-receives"),
    of("odd-log-level", _MODERN, "stdio", "logging.client-level"),
    of("bad-traceparent", _MODERN, "stdio", "meta.client-trace"),
    of("reserved-key", _MODERN, "stdio", "meta.client-reserved"),
    of("list-arguments", _MODERN, "http", "tools.client-arguments", "schema.client-messages"),
    of("no-cache", _MODERN, "stdio", "caching.client-fresh"),
    of("caches-absent", _MODERN, "stdio", "caching.client-absent"),
    of("caches-negative", _MODERN, "stdio", "caching.client-negative"),
    of("caches-zero", _MODERN, "stdio", "caching.client-zero"),
    of("one-for-all", _MODERN, "stdio", "caching.client-key"),
    of("caches-by-lower-uri", _MODERN, "stdio", "caching.client-key"),
    of("caches-without-cursor", _MODERN, "http", "caching.client-key"),
    of("number-arguments", _MODERN, "stdio", "prompts.client-arguments", "schema.client-messages"),
)
"""The faults of this module."""
