"""Faults of the raw client with broken streams, exited servers, reordered responses and subscriptions."""

from __future__ import annotations

from typing import Final

from mutants.client_faults.fault import of

__all__ = ["BEARING_FAULTS"]

_FIRST = "2024-11-05"
_OLD = "2025-03-26"
_JUNE = "2025-06-18"
_LATE = "2025-11-25"
_MODERN = "2026-07-28"

BEARING_FAULTS: Final = (
    of("needs-event-data", _LATE, "http", "sse.client-polls", "http.client-both-kinds"),
    of(
        "looks-elsewhere-after-404",
        _JUNE,
        "http",
        "session.client-reinitializes",
        "session.client-sends-id",
        "http.client-version-header",
    ),
    of("ignores-unknown-methods", _LATE, "stdio", "jsonrpc.client-unknown-method", "jsonrpc.client-response-id"),
    of("broken-for-ever", _JUNE, "http", "http.client-bears-broken-stream"),
    of(
        "same-id-after-break",
        _MODERN,
        "http",
        "http.client-reissues",
        "jsonrpc.client-request-id-in-flight",
    ),
    of("needs-standing-stream", _LATE, "http", "sse.client-bears-end-of-stream"),
    of("dies-of-rich-progress", _JUNE, "stdio", "schema.client-bears-rich"),
    of("no-version-zero", _LATE, "stdio", "schema.client-bears-rich"),
    of("needs-a-block", _OLD, "stdio", "schema.client-bears-rich"),
    of("knows-no-links", _JUNE, "http", "schema.client-bears-rich"),
    of("no-empty-audio", _LATE, "http", "schema.client-bears-rich"),
    of("no-binary-resources", _LATE, "stdio", "schema.client-bears-rich"),
    of("object-outputs-only", _MODERN, "http", "schema.client-bears-rich"),
    of("skips-prompts-without-arguments", _MODERN, "stdio", "schema.client-bears-rich"),
    of("calls-by-lower-name", _LATE, "stdio", "tools.client-name-case"),
    of("reopens-at-once", _LATE, "http", "sse.client-respects-retry"),
    of("drops-query", _MODERN, "http", "http.client-endpoint-path"),
    of("drops-query", _OLD, "http", "http.client-endpoint-path"),
    of("deletes-without-query", _JUNE, "http", "http.client-endpoint-path"),
    of("stream-must-open", _LATE, "http", "http.client-bears-405"),
    of("delete-must-succeed", _LATE, "http", "http.client-bears-405"),
    of("needs-session-id", _JUNE, "http", "session.client-bears-none"),
    of("never-restarts", _MODERN, "stdio", "stdio.client-restarts"),
    of("forgets-subscriptions", _MODERN, "stdio", "stdio.client-resubscribes"),
    of("resubscribes-once", _MODERN, "stdio", "stdio.client-resubscribes"),
    of("answers-in-order", _MODERN, "stdio", "stdio.client-correlates"),
    of("tells-everybody", _MODERN, "stdio", "subscription.client-demux"),
    of("tells-newest", _MODERN, "stdio", "subscription.client-demux"),
    of("subscriptions-by-order", _MODERN, "stdio", "subscription.client-demux"),
    of("listens-again-for-more", _MODERN, "stdio", "subscription.client-bears-less"),
    of("listens-again-for-more", _MODERN, "http", "subscription.client-bears-less"),
    of("insists-on-grant", _MODERN, "stdio", "subscription.client-bears-less"),
    of("end-is-failure", _MODERN, "http", "subscription.client-clean-end"),
    of("bare-ends-only", _MODERN, "stdio", "subscription.client-clean-end"),
    of("progress-falls", _LATE, "stdio", "progress.client-increases"),
    of("progress-falls", "2024-11-05", "stdio", "progress.client-increases"),
    of("progress-behind", _JUNE, "http", "progress.client-stops"),
    of("progress-behind-errors", _JUNE, "stdio", "progress.client-stops"),
    of("answers-twice", _LATE, "stdio", "jsonrpc.client-response-once"),
    of("total-as-text", _LATE, "stdio", "progress.client-known"),
    of("narrows-token", _LATE, "stdio", "progress.client-known"),
    of("no-early-pong", _LATE, "stdio", "ping.client-before-initialized"),
    of("no-early-pong", "2024-11-05", "http", "ping.client-before-initialized"),
    of("dies-of-empty-batch", _OLD, "stdio", "batch.client-empty"),
    of("all-of-batch-valid", _OLD, "stdio", "batch.client-bad-member"),
    of("all-of-batch-valid", _OLD, "http", "batch.client-bad-member"),
    of("one-id-for-all-streams", _LATE, "http", "resume.client-last-event-id"),
    of("resumes-from-first", _LATE, "http", "resume.client-last-event-id"),
    of("forgets-last-id", _LATE, "http", "sse.client-polls"),
    of("last-id-of-any-stream", _LATE, "http", "resume.client-last-event-id"),
    of("standing-id-of-call", _LATE, "http", "resume.client-standalone-id"),
    of("keeps-emptied-id", _LATE, "http", "resume.client-emptied-id"),
    of("ignores-resumed-response", _LATE, "http", "sse.client-polls"),
    of("takes-any-method", _LATE, "stdio", "jsonrpc.client-invalid-request"),
    of("dies-without-id", _LATE, "stdio", "schema.client-bears-error-without-id"),
    of("exact-header-names", _MODERN, "http", "http.client-header-case"),
    of("takes-404-for-nobody", _MODERN, "http", "compat.client-http-404"),
    of("initializes-after-404", _MODERN, "http", "compat.client-http-404"),
    of("needs-params", _LATE, "stdio", "pagination.client-whole"),
    of("strict-prompts", _LATE, "stdio", "jsonrpc.client-bears-unknown"),
    of("needs-order", _LATE, "stdio", "jsonrpc.client-bears-unknown"),
    of("needs-order", _MODERN, "http", "jsonrpc.client-bears-unknown"),
    of("closed-capabilities", _MODERN, "http", "jsonrpc.client-bears-unknown"),
    of("rejects-unknown-once", _OLD, "stdio", "jsonrpc.client-response-id"),
    of("batches-after-503", _LATE, "http", "http.client-one-message"),
    of("number-arguments-after-error", _OLD, "http", "schema.client-prompts-get"),
    of("needs-total-of-each", _FIRST, "stdio", "completion.client-partial"),
    of("needs-total", _OLD, "stdio", "completion.client-partial"),
    of("no-context", _MODERN, "stdio", "completion.client-context"),
)
"""The faults of this module."""
