"""Faults of the raw client's tasks: those that it starts at servers, and those that servers start at the client."""

from __future__ import annotations

from typing import Final

from mutants.client_faults.fault import of

__all__ = ["TASK_FAULTS"]

_LATE = "2025-11-25"
_MODERN = "2026-07-28"

_CALLING: Final = (
    of("task-required-plain", _LATE, "stdio", "tasks.client-required-tool"),
    of("task-forbidden", _LATE, "stdio", "tasks.client-forbidden-tool"),
    of("task-undeclared-server", _LATE, "stdio", "tasks.client-undeclared-server"),
    of("task-ttl-text", _LATE, "stdio", "schema.client-task-metadata", "schema.client-tools-call"),
    of("task-of-prompt", _LATE, "stdio", "tasks.client-only-calls"),
    of("task-id-missing", _LATE, "stdio", "schema.client-task-requests"),
    of("task-id-missing", _MODERN, "stdio", "schema.client-task-requests", "schema.client-messages"),
    # The server knows no task with that id.
    of("task-ids-encoded", _LATE, "stdio", "schema.client-task-requests", "tasks.client-polls"),
    of("task-ids-without-case", _LATE, "http", "tasks.client-polls"),
    of("task-polls-once", _LATE, "stdio", "tasks.client-polls", "tasks.client-keeps-polling"),
    of("task-polls-cancelled", _MODERN, "stdio", "tasks.client-stops-polling"),
    of("task-impatient", _LATE, "stdio", "tasks.client-interval"),
    of("task-impatient", _MODERN, "http", "tasks.client-interval"),
    of("task-related-request", _LATE, "stdio", "tasks.client-unrelated"),
    of("task-cursor-trimmed", _LATE, "stdio", "tasks.client-cursors"),
    of("task-token-again", _LATE, "stdio", "progress.client-task-token"),
    of("task-polls-through-input", _LATE, "stdio", "tasks.client-input"),
    of("task-compares-times-as-text", _LATE, "stdio", "tasks.client-polls"),
    of("task-ignores-input", _LATE, "stdio", "tasks.client-input"),
    of("task-answer-unrelated", _LATE, "stdio", "tasks.client-related-answer"),
    of("task-accepts-json", _LATE, "http", "tasks.client-http", "http.client-accept"),
    of("task-needs-interval", _LATE, "stdio", "tasks.client-bears-no-interval"),
    of("dies-of-forgotten-task", _LATE, "stdio", "tasks.client-bears-forgotten"),
    of("dies-of-insisting", _LATE, "stdio", "tasks.client-bears-insisting"),
    of("dies-of-cancelled-task", _LATE, "stdio", "tasks.client-bears-cancelled"),
    of("task-notified-cancelled", _LATE, "stdio", "cancellation.client-tasks"),
    of("task-notified-cancelled", _MODERN, "stdio", "cancellation.client-tasks"),
)

_EXTENSION: Final = (
    of("task-compares-times-as-text", _MODERN, "stdio", "tasks.client-polls"),
    # The call has its response, the task.
    of("task-notified-later", _MODERN, "http", "cancellation.client-tasks", "cancellation.client-in-progress"),
    of("task-ids-without-case", _MODERN, "stdio", "tasks.client-polls"),
    of("task-hides-extension", _MODERN, "stdio", "tasks.client-declares"),
    of("task-no-name", _MODERN, "http", "tasks.client-mcp-name"),
    of("task-old-methods", _MODERN, "stdio", "tasks.client-reserved"),
    of(
        "task-ids-text",
        _MODERN,
        "stdio",
        "tasks.client-listen",
        "subscription.client-filter",
        "schema.client-messages",
    ),
    of("task-ids-beside", _MODERN, "stdio", "tasks.client-listen"),
    of("task-expected", _MODERN, "stdio", "tasks.client-both-results"),
    of("task-never-polls", _MODERN, "stdio", "tasks.client-both-results", "tasks.client-polls"),
    of("task-unfit-polled", _MODERN, "stdio", "tasks.client-unfit"),
    of("task-ignores-inputs", _MODERN, "stdio", "tasks.client-inputs"),
    of("task-update-wrapped", _MODERN, "stdio", "tasks.client-update", "schema.client-messages"),
    of("task-update-crossed", _MODERN, "http", "tasks.client-update"),
    of("task-update-more", _MODERN, "stdio", "tasks.client-update-keys"),
    of("task-update-repeats", _MODERN, "stdio", "tasks.client-update-keys", "tasks.client-answers-once"),
    of("task-leaves-answered", _MODERN, "stdio", "tasks.client-observes-on"),
    of("task-answers-twice", _MODERN, "stdio", "tasks.client-answers-once"),
)

_ANSWERING: Final = (
    of("task-result-to-one", _LATE, "stdio", "tasks.client-result-waits"),
    of("task-created-now", _LATE, "http", "tasks.client-timestamps"),
    of("task-result-once", _LATE, "http", "tasks.client-result"),
    of("task-list-no-cancelled", _LATE, "stdio", "tasks.client-list"),
    of("task-answers-plain", _LATE, "stdio", "tasks.client-create"),
    of("task-created-flat", _LATE, "stdio", "tasks.client-create"),
    of("task-late-created", _LATE, "stdio", "tasks.client-create-soon"),
    of("task-starts-completed", _LATE, "stdio", "tasks.client-starts-working"),
    of("task-needs-ttl", _LATE, "stdio", "tasks.client-bears-no-ttl"),
    of("task-any-ttl", _LATE, "stdio", "tasks.client-ttl-limit"),
    of("task-ids-counted", _LATE, "stdio", "tasks.client-ids"),
    of("task-id-of-related", _LATE, "stdio", "tasks.client-create"),
    of("task-without-ttl", _LATE, "stdio", "tasks.client-fields"),
    of("task-get-nested", _LATE, "stdio", "tasks.client-fields"),
    of("task-told-nested", _LATE, "stdio", "tasks.client-fields"),
    of("task-odd-status-message", _LATE, "stdio", "tasks.client-fields"),
    of("task-list-of-pages", _LATE, "stdio", "tasks.client-fields"),
    of("task-odd-last-cursor", _LATE, "stdio", "tasks.client-fields"),
    of("task-odd-times", _LATE, "stdio", "tasks.client-timestamps"),
    of("task-no-update-time", _LATE, "stdio", "tasks.client-timestamps"),
    of("task-running", _LATE, "stdio", "tasks.client-status"),
    of("task-flips", _LATE, "stdio", "tasks.client-transitions"),
    of("task-list-stale", _LATE, "http", "tasks.client-transitions"),
    of("task-progress-unrelated", _LATE, "stdio", "tasks.client-related-progress"),
    of("task-related-get", _LATE, "stdio", "tasks.client-answers-unrelated"),
    of("task-told-other", _LATE, "stdio", "tasks.client-told-known"),
    of("task-told-related", _LATE, "stdio", "tasks.client-told-unrelated"),
    of("task-result-at-once", _LATE, "stdio", "tasks.client-result-waits"),
    of("task-declined-as-error", _LATE, "http", "tasks.client-result"),
    of("task-result-wrapped", _LATE, "stdio", "tasks.client-result"),
    of("task-unrelated", _LATE, "stdio", "tasks.client-related-result"),
    of("task-odd-relation", _LATE, "http", "tasks.client-related-result"),
    of("task-never-fails", _LATE, "stdio", "tasks.client-failed"),
    of("task-no-message", _LATE, "stdio", "tasks.client-failed-message"),
    of("task-other-error", _LATE, "stdio", "tasks.client-error"),
    of("task-by-meta", _LATE, "stdio", "tasks.client-id-param"),
    of("task-first-page-only", _LATE, "stdio", "tasks.client-list"),
    of("task-any-cursor", _LATE, "stdio", "tasks.client-list-cursor"),
    of("task-unknown-internal", _LATE, "stdio", "tasks.client-unknown"),
    of("task-list-undeclared", _LATE, "stdio", "tasks.client-gated"),
    of("task-cancel-late", _LATE, "stdio", "tasks.client-cancelled", "tasks.client-cancelled-stays"),
    of("task-sample-shows-before-cancel", _LATE, "stdio", "tasks.client-cancelled"),
    of("task-revived", _LATE, "stdio", "tasks.client-cancelled-stays", "tasks.client-transitions"),
    of("task-cancel-any", _LATE, "stdio", "tasks.client-cancel-ended"),
    of("task-undeclared", _LATE, "stdio", "tasks.client-undeclared"),
    of("task-of-ping", _LATE, "stdio", "tasks.client-exhaustive"),
    of("task-other-token", _LATE, "stdio", "progress.client-task-same", "progress.client-known"),
    of("task-late-progress", _LATE, "stdio", "progress.client-task-stops"),
)

TASK_FAULTS: Final = (*_CALLING, *_EXTENSION, *_ANSWERING)
"""The faults of this module."""
