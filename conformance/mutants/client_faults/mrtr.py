"""Faults of the raw client in MRTR and pagination."""

from __future__ import annotations

from typing import Final

from mutants.client_faults.fault import of

__all__ = ["MRTR_FAULTS"]

_FIRST = "2024-11-05"
_OLD = "2025-03-26"
_JUNE = "2025-06-18"
_LATE = "2025-11-25"
_MODERN = "2026-07-28"

MRTR_FAULTS: Final = (
    of("input-for-calls-only", _MODERN, "stdio", "mrtr.client-answers"),
    of("complete-with-meta", _MODERN, "stdio", "mrtr.client-answers"),
    of("answers-by-method", _MODERN, "stdio", "mrtr.client-answers"),
    of("first-answer-for-all", _MODERN, "stdio", "elicitation.client-content-fits"),
    of("numbers-keys", _MODERN, "stdio", "mrtr.client-answers"),
    of("no-empty-key", _MODERN, "http", "mrtr.client-answers"),
    of("no-prototype-key", _MODERN, "stdio", "mrtr.client-answers"),
    of("lists-by-index", _MODERN, "stdio", "mrtr.client-answers", "schema.client-messages"),
    of("keeps-earlier-answers", _MODERN, "http", "mrtr.client-answers"),
    # It declares no elicitation.
    of("samples-by-number", _MODERN, "stdio", "mrtr.client-answers"),
    of("wraps-answers", _MODERN, "stdio", "mrtr.client-response-shape", "schema.client-messages"),
    of("trims-state", _MODERN, "stdio", "mrtr.client-state"),
    of("state-parsed", _MODERN, "http", "mrtr.client-state"),
    of("state-of-tools-only", _MODERN, "stdio", "mrtr.client-state"),
    of("invents-state", _MODERN, "stdio", "mrtr.client-no-state"),
    of("first-state", _MODERN, "stdio", "mrtr.client-latest-state"),
    of("no-empty-state", _MODERN, "stdio", "mrtr.client-state"),
    of("keeps-old-state", _MODERN, "http", "mrtr.client-no-state"),
    of("old-state-of-prompts", _MODERN, "http", "mrtr.client-no-state"),
    of("same-id-again", _MODERN, "http", "mrtr.client-new-id"),
    of("same-id-of-prompt", _MODERN, "http", "mrtr.client-new-id"),
    of("forgets-roots-after-errors", _MODERN, "http", "meta.client-capabilities-each"),
    of("forgets-params", _MODERN, "stdio", "mrtr.client-same-params"),
    of("forgets-prompt-arguments", _MODERN, "stdio", "mrtr.client-same-params"),
    of("declares-nothing-again", _MODERN, "http", "meta.client-capabilities-each"),
    of(
        "no-meta-again",
        _MODERN,
        "stdio",
        "meta.client-retries",
        "meta.client-version",
        "meta.client-capabilities",
        "meta.client-info",
    ),
    of("keeps-answers", _MODERN, "stdio", "mrtr.client-no-cross-use"),
    of("one-state-for-all", _MODERN, "stdio", "mrtr.client-no-cross-use"),
    of("one-state-for-all", _MODERN, "http", "mrtr.client-no-cross-use"),
    of("states-first", _MODERN, "stdio", "mrtr.client-initial"),
    of("says-no", _MODERN, "stdio", "mrtr.client-decline", "schema.client-messages", "elicitation.client-result"),
    of(
        "trims-cursors",
        _LATE,
        "stdio",
        "pagination.client-cursor",
        "pagination.client-session",
        "pagination.client-lengths",
    ),
    of("trims-cursors", _MODERN, "http", "pagination.client-cursor", "pagination.client-lengths"),
    of(
        "cursors-of-digits-as-numbers",
        _LATE,
        "stdio",
        "pagination.client-cursor",
        "pagination.client-session",
        "pagination.client-lengths",
    ),
    of("cursors-without-padding", _MODERN, "http", "pagination.client-cursor", "pagination.client-lengths"),
    of("pages-without-capabilities", _MODERN, "http", "meta.client-capabilities"),
    # The first cursor is the empty string: a client that takes it for the end reads only the first page.
    of("empty-cursor-ends", _MODERN, "stdio", "pagination.client-empty-cursor", "pagination.client-whole"),
    of("empty-cursor-ends-templates", _MODERN, "stdio", "pagination.client-empty-cursor"),
    of("empty-page-ends", _OLD, "stdio", "pagination.client-lengths"),
    of("empty-page-ends", _MODERN, "stdio", "pagination.client-lengths"),
    of("two-empty-pages-end", _JUNE, "stdio", "pagination.client-lengths"),
    of("short-page-ends", _LATE, "http", "pagination.client-lengths"),
    of("short-page-ends", _MODERN, "stdio", "pagination.client-lengths"),
    of("cuts-cursors", _MODERN, "stdio", "pagination.client-cursor", "pagination.client-lengths"),
    of("normalizes-cursors", _MODERN, "stdio", "pagination.client-cursor", "pagination.client-lengths"),
    of("first-page-only", _JUNE, "stdio", "pagination.client-whole"),
    of("reads-first-page-again", _LATE, "http", "pagination.client-again"),
    of("asks-once-more", _LATE, "stdio", "pagination.client-ends"),
    of("begins-with-empty-cursor", _MODERN, "http", "pagination.client-cursor"),
    of("begins-with-cursor", _FIRST, "stdio", "pagination.client-session"),
    of("cursor-of-lost-session", _LATE, "http", "pagination.client-session"),
)
"""The faults of this module."""
