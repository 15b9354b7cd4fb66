"""Faults of the raw client in unsolicited messages, in batches, and after a change of the era."""

from __future__ import annotations

from typing import Final

from mutants.client_faults.fault import of

__all__ = ["PASSING_FAULTS"]

_FIRST = "2024-11-05"
_OLD = "2025-03-26"
_JUNE = "2025-06-18"
_LATE = "2025-11-25"
_MODERN = "2026-07-28"

PASSING_FAULTS: Final = (
    # The other message is a change of roots that the client does not declare in that scenario.
    of("mixes-batches", _OLD, "stdio", "batch.client-kinds", "roots.client-list-changed-declared"),
    of(
        "mixes-batches",
        _OLD,
        "http",
        "batch.client-post-body",
        "batch.client-kinds",
        "roots.client-list-changed-declared",
    ),
    of("batches-initialize", _OLD, "stdio", "batch.client-no-initialize"),
    of("cancels-what-was-answered", _FIRST, "stdio", "cancellation.client-in-progress"),
    of("cancels-what-was-answered", _MODERN, "stdio", "cancellation.client-in-progress"),
    of("modern-behind-initialize", _MODERN, "stdio", "compat.client-falls-back"),
    of("completes-tools", _MODERN, "stdio", "completion.client-reference", "schema.client-messages"),
    of("completes-tools", _JUNE, "stdio", "schema.client-completion-complete"),
    of("reserved-error", _MODERN, "stdio", "error.client-reserved-codes", "jsonrpc.client-no-responses"),
    of("dies-of-unheard-of", _LATE, "stdio", "jsonrpc.client-bears-unknown"),
    of("dies-of-unheard-of", _MODERN, "http", "jsonrpc.client-bears-unknown"),
    of("meta-as-list", _JUNE, "stdio", "meta.client-object"),
    of("reserved-key-of-june", _JUNE, "stdio", "meta.client-reserved"),
    of("token-of-tool", _JUNE, "http", "progress.client-unique"),
    of("token-of-tool", _FIRST, "stdio", "progress.client-unique"),
    of("same-token", _LATE, "stdio", "progress.client-unique", "progress.client-task-token"),
    of("odd-level", _OLD, "stdio", "schema.client-logging-setLevel"),
    of("own-methods", _FIRST, "stdio", "schema.client-methods"),
    of("own-methods", _LATE, "http", "schema.client-methods"),
    of("reads-urls", _LATE, "stdio", "schema.client-resources-read"),
    of("reads-paths", _LATE, "stdio", "schema.client-uris"),
    of("reads-paths", _MODERN, "stdio", "schema.client-uris"),
    of("subscribes-by-url", _FIRST, "http", "schema.client-resources-subscribe"),
    of("unsubscribes-by-list", _LATE, "stdio", "schema.client-resources-unsubscribe"),
    of("listens-to-paths", _MODERN, "stdio", "schema.client-uris"),
    of("ends-listening-by-word", _MODERN, "http", "subscription.client-ends-http"),
    of("falsy-arguments-in-headers", _MODERN, "stdio", "stdio.client-arguments"),
    of("listens-to-the-end", _MODERN, "stdio", "subscription.client-ends-stdio"),
)
"""The faults of this module."""
