"""Faults of the raw client in the interpretation of results."""

from __future__ import annotations

from typing import Final

from mutants.client_faults.fault import of

__all__ = ["RESULT_FAULTS"]

_JUNE = "2025-06-18"
_LATE = "2025-11-25"
_MODERN = "2026-07-28"

RESULT_FAULTS: Final = (
    of("failed-by-default", _MODERN, "stdio", "tools.client-is-error-default"),
    of("never-validates", _JUNE, "stdio", "tools.client-validates-output"),
    of("never-validates", _MODERN, "stdio", "tools.client-validates-output"),
    of("objects-only", _MODERN, "stdio", "tools.client-structured-any"),
    of("any-type", _MODERN, "stdio", "jsonrpc.client-unknown-result-type"),
    of("any-type-of-resource", _MODERN, "http", "jsonrpc.client-unknown-result-type"),
    of("any-task", _MODERN, "stdio", "jsonrpc.client-unknown-result-type"),
    of("type-required", _MODERN, "stdio", "jsonrpc.client-absent-result-type"),
    of("type-required-for-content", _MODERN, "http", "jsonrpc.client-absent-result-type"),
    of("type-required-in-lists", _MODERN, "stdio", "jsonrpc.client-absent-result-type-list"),
    of("dies-of-stray", _MODERN, "stdio", "jsonrpc.client-unknown-response"),
    of("own-errors", _MODERN, "stdio", "error.client-legacy-range"),
    of("forgets-32002", _MODERN, "stdio", "resources.client-accepts-32002"),
    of("dies-of-unknown-progress", _MODERN, "stdio", "logging.client-bears-notifications"),
    of("dies-of-unknown-progress", _LATE, "stdio", "progress.client-bears"),
    of("strips-controls", _MODERN, "stdio", "stdio.client-unicode"),
    of("cuts-at-64k", _MODERN, "stdio", "stdio.client-large"),
    of("crlf", _MODERN, "stdio", "stdio.client-line-feed"),
    of("no-crlf", _MODERN, "stdio", "stdio.client-crlf"),
    of("no-comments", _MODERN, "http", "http.client-parses-streams"),
    of("needs-data-space", "2025-03-26", "http", "http.client-parses-streams"),
    of("needs-data-space", _MODERN, "http", "http.client-parses-streams"),
    of("one-line-of-data", _MODERN, "http", "http.client-parses-streams"),
    of("no-cr", _MODERN, "http", "http.client-parses-streams"),
    of("splits-characters", _MODERN, "http", "http.client-parses-streams"),
    of("status-only", _MODERN, "http", "http.client-reads-error-body"),
    of("exact-media-type", _MODERN, "http", "http.client-media-type"),
)
"""The faults of this module."""
