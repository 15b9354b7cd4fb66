"""Faults of the raw client with schemas, annotations and keys."""

from __future__ import annotations

from typing import Final

from mutants.client_faults.fault import of

__all__ = ["SCHEMA_FAULTS"]

_LATE = "2025-11-25"
_MODERN = "2026-07-28"

SCHEMA_FAULTS: Final = (
    of("ignores-prefix", _LATE, "stdio", "schema.client-default-dialect"),
    of("ignores-prefix", _MODERN, "stdio", "schema.client-default-dialect"),
    of("names-no-default", _LATE, "stdio", "schema.client-default-dialect"),
    of("ignores-local-references", _LATE, "http", "schema.client-reference"),
    of("ignores-local-references", _MODERN, "stdio", "schema.client-reference"),
    of("reads-all-as-2020", _MODERN, "stdio", "schema.client-declared-dialect"),
    of("ignores-dialect", _LATE, "stdio", "schema.client-unknown-dialect"),
    of("ignores-references", _MODERN, "stdio", "schema.client-unresolved"),
    of("first-output-schema", _LATE, "stdio", "schema.client-latest-output"),
    of("first-output-schema", _MODERN, "http", "schema.client-latest-output"),
    of("drops-keywords", _MODERN, "stdio", "schema.client-keeps-keywords"),
    of(
        "odd-audience",
        _LATE,
        "stdio",
        "schema.client-annotations",
        "sampling.client-result",
        "tasks.client-result",
    ),
    of("odd-timestamp", _LATE, "stdio", "schema.client-annotations-timestamp"),
    of("bad-baggage", _MODERN, "stdio", "meta.client-baggage"),
    of("forward-dns", _MODERN, "stdio", "meta.client-reverse-dns"),
    of("bad-website", _MODERN, "stdio", "schema.client-website"),
    of("null-cursor-of-templates", "2024-11-05", "stdio", "schema.client-cursor"),
    of("null-cursor-of-templates", _MODERN, "http", "schema.client-messages"),
    of("null-cursor", _LATE, "stdio", "schema.client-cursor"),
    of("null-cursor", _MODERN, "http", "schema.client-messages"),
)
"""The faults of this module."""
