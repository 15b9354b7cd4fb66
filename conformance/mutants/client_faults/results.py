"""Faults of the raw client in the interpretation of results."""

from __future__ import annotations

from typing import Final

from mutants.client_faults.fault import of

__all__ = ["RESULT_FAULTS"]

_FIRST = "2024-11-05"
_OLD = "2025-03-26"
_JUNE = "2025-06-18"
_LATE = "2025-11-25"
_MODERN = "2026-07-28"

RESULT_FAULTS: Final = (
    of("failed-by-default", _MODERN, "stdio", "tools.client-is-error-default"),
    of("no-content-as-failure", _MODERN, "stdio", "tools.client-is-error-default"),
    of("failures-as-results", _LATE, "stdio", "tools.client-is-error"),
    of("failures-as-results", _MODERN, "http", "tools.client-is-error"),
    of("validates-failures", _LATE, "stdio", "tools.client-is-error"),
    of("validates-whole-result", _JUNE, "stdio", "tools.client-validates-output"),
    of("validates-first-results", _MODERN, "http", "tools.client-validates-output"),
    of("never-validates", _JUNE, "stdio", "tools.client-validates-output"),
    of("never-validates", _MODERN, "stdio", "tools.client-validates-output"),
    of("objects-only", _MODERN, "stdio", "tools.client-structured-any"),
    of("falsy-is-no-content", _MODERN, "stdio", "tools.client-structured-any"),
    of("any-type", _MODERN, "stdio", "jsonrpc.client-unknown-result-type"),
    of("any-type-of-resource", _MODERN, "http", "jsonrpc.client-unknown-result-type"),
    of("empty-type-is-complete", _MODERN, "stdio", "jsonrpc.client-unknown-result-type"),
    of("any-task", _MODERN, "stdio", "jsonrpc.client-unknown-result-type"),
    of("polls-any-task", _MODERN, "stdio", "jsonrpc.client-unknown-result-type"),
    of("type-required", _MODERN, "stdio", "jsonrpc.client-absent-result-type"),
    of("type-required-for-content", _MODERN, "http", "jsonrpc.client-absent-result-type"),
    of("type-required-in-lists", _MODERN, "stdio", "jsonrpc.client-absent-result-type-list"),
    of("dies-of-stray", _MODERN, "stdio", "jsonrpc.client-unknown-response"),
    of("takes-next-response", _MODERN, "stdio", "jsonrpc.client-unknown-response"),
    of("own-errors", _MODERN, "stdio", "error.client-legacy-range"),
    of("own-timeouts", _MODERN, "stdio", "error.client-legacy-range"),
    of("initializes-at-old-code", _MODERN, "stdio", "error.client-legacy-range"),
    of("initializes-at-old-code", _MODERN, "http", "error.client-legacy-range"),
    of("forgets-32002", _MODERN, "stdio", "resources.client-accepts-32002"),
    of("dies-of-unknown-progress", _MODERN, "stdio", "logging.client-bears-notifications"),
    of("dies-of-unknown-progress", _LATE, "stdio", "progress.client-bears"),
    of("strips-controls", _OLD, "stdio", "stdio.client-unicode"),
    of("knows-few-log-levels", _MODERN, "http", "logging.client-bears-notifications"),
    of("knows-few-log-levels", _LATE, "stdio", "progress.client-bears"),
    of("needs-log-data", _MODERN, "stdio", "logging.client-bears-notifications"),
    of("strips-controls", _MODERN, "stdio", "stdio.client-unicode"),
    of("splits-characters", _LATE, "stdio", "stdio.client-large"),
    of("splits-at-separators", _LATE, "stdio", "stdio.client-unicode"),
    of("cuts-at-64k", _MODERN, "stdio", "stdio.client-large"),
    of(
        "answers-no-json",
        _MODERN,
        "stdio",
        "jsonrpc.client-no-responses",
        "jsonrpc.client-notification-not-answered",
    ),
    of("crlf", _MODERN, "stdio", "stdio.client-line-feed"),
    of("no-crlf", _MODERN, "stdio", "stdio.client-crlf"),
    of("one-message-a-read", _LATE, "stdio", "stdio.client-splits-lines"),
    of("one-message-a-read", _MODERN, "stdio", "stdio.client-splits-lines"),
    of("no-comments", _MODERN, "http", "http.client-parses-streams"),
    of("needs-data-space", "2025-03-26", "http", "http.client-parses-streams"),
    of("needs-data-space", _MODERN, "http", "http.client-parses-streams"),
    of("one-line-of-data", _MODERN, "http", "http.client-parses-streams"),
    of("no-cr", _MODERN, "http", "http.client-parses-streams"),
    of("splits-characters", _MODERN, "http", "http.client-parses-streams", "http.client-large-event"),
    of("splits-at-separators", _JUNE, "http", "http.client-parses-streams"),
    of("halves-line-ends", _JUNE, "http", "http.client-parses-streams"),
    of("halves-line-ends", _MODERN, "http", "http.client-parses-streams"),
    of("keeps-byte-order-mark", _LATE, "http", "http.client-byte-order-mark"),
    of("keeps-byte-order-mark", _MODERN, "http", "http.client-byte-order-mark"),
    of("known-fields-only", _MODERN, "http", "http.client-parses-streams"),
    of("takes-unfinished-events", _OLD, "http", "http.client-unfinished-event"),
    of("takes-unfinished-events", _LATE, "http", "http.client-unfinished-event"),
    of("reads-each-event", _LATE, "http", "http.client-event-types"),
    of("reads-each-event", _MODERN, "http", "http.client-event-types"),
    of("fields-need-colon", _MODERN, "http", "http.client-parses-streams"),
    of("no-comments", _FIRST, "http", "http-sse.client-parses-stream", "http-sse.client-posts"),
    of("no-cr", _FIRST, "http", "http-sse.client-parses-stream"),
    of("needs-202", _FIRST, "http", "http-sse.client-bears-posts"),
    of("knows-request-later", _FIRST, "http", "http-sse.client-bears-posts"),
    of("latin-1-json", _JUNE, "http", "http.client-unicode"),
    of("latin-1-json", _MODERN, "http", "http.client-unicode"),
    of("short-events-only", _LATE, "http", "http.client-large-event"),
    of("short-events-only", _MODERN, "http", "http.client-large-event"),
    of("anonymous-errors-by-status", _MODERN, "http", "http.client-reads-error-body"),
    of("no-errors-in-streams", _OLD, "http", "jsonrpc.client-error-response"),
    of("error-data-objects-only", _LATE, "stdio", "jsonrpc.client-error-response"),
    of("error-data-objects-only", _MODERN, "http", "jsonrpc.client-error-response"),
    of("positive-codes-are-no-errors", _FIRST, "http", "jsonrpc.client-error-response"),
    of("status-only", _MODERN, "http", "http.client-reads-error-body"),
    of("exact-media-type", _MODERN, "http", "http.client-media-type"),
    of("exact-media-type", _JUNE, "http", "http.client-media-type"),
    of("exact-stream-type", _OLD, "http", "http.client-media-type"),
    of("exact-standalone-type", _JUNE, "http", "http.client-standalone-type"),
    of("exact-stream-type", _MODERN, "http", "http.client-media-type"),
)
"""The faults of this module."""
